"""End commands at random moments, and look what became of the files and whether they can be gone on with.

    python scripts/fuzz/kills.py --out FOLDER [--count 200] [--seed N] [--jobs 2] [COMMAND ...]

Each is ended by SIGKILL, SIGTERM, SIGINT or SIGHUP, which it alone or its whole group gets, as a terminal does it. Then
the same command is given again, for a run with --resume: it must succeed. A code is wrong where it is neither 0 nor
that of the signal. Orphans are processes left ten seconds after the end; lost is a file that was
there before and is neither that nor whole; left is what is temporary after the command was given again.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from trtprof.base.errors import TrtprofError
from trtprof.base.run_folder import REPORT, RunFolder
from trtprof.base.scratch import IN_USE, PREFIX

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "sample_models" / "resnet_tiny.onnx"
GEMV = MODEL.with_name("gemv.onnx")
PLAN = ROOT / "tests" / "engine" / "data" / "rtx_resnet_tiny.log"
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
FLEET = f"""
[[models]]
files = ["{GEMV}", "{MODEL}"]
[[targets]]
gpu = ["rtx-4090", "l4", "h100-sxm", "a100-pcie-80gb"]
"""
QUICK = ("--duration", "0.2", "--iterations", "5", "--warmUp", "20", "--profile-iterations", "3", "--threads", "1")
BRIEF = ("--budget", "15s", "--max-candidates", "2", "--threads", "1")
LIMIT_S = 300.0
ORPHAN_S = 10.0


class Command(NamedTuple):
    """What is ended, and what is given then."""

    words: tuple[str | Path, ...]
    again: tuple[str | Path, ...]
    share: int = 1


COMMANDS = {
    "run": Command(("run", MODEL, "-o", "new", *QUICK), ("run", MODEL, "-o", "new", "--resume", *QUICK), 6),
    "run-force": Command(*((("run", MODEL, "-o", "run", "--force", *QUICK),) * 2), 3),
    "report": Command(*((("report", "run", "-o", "old.html", "--force"),) * 2), 2),
    "sweep": Command(
        *((("sweep", "conv", "--cin", "64,128", "--gpu", "h100-sxm", "-o", "old.json", "--force"),) * 2), 1
    ),
    "inspect": Command(*((("inspect", MODEL, "-o", "old.json", "--force"),) * 2), 1),
    "predict": Command(*((("predict", MODEL, "--gpu", "h100-sxm", "-o", "old.html", "--force"),) * 2), 1),
    "try": Command(
        ("try", MODEL, "-o", "tried.json", *BRIEF), ("try", MODEL, "-o", "tried.json", "--force", *BRIEF), 1
    ),
    "build": Command(*((("build", MODEL, "--saveEngine=made.engine", "--rebuild", "--force"),) * 2), 1),
    "plugin": Command(
        *((("plugin", GEMV, "MatMul", "--gpu", "l4", "--only", "brief,write", "-o", "made", "--force"),) * 2), 1
    ),
    "fleet-run": Command(*((("fleet", "run", "fleet.toml", "-o", "fleet", "--workers", "2"),) * 2), 2),
    "analyze": Command(
        *((("analyze", PLAN, "--onnx", MODEL, "--batch", "64", "--gpu", "rtx-4090", "-o", "old.html", "--force"),) * 2),
        1,
    ),
    "calibrate": Command(*((("calibrate", "--seconds", "0", "--threads", "1", "-o", "old.json", "--force"),) * 2), 1),
    "kernel": Command(
        *(
            (
                (
                    "kernel",
                    "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x32_stage4",
                    "-o",
                    "old.json",
                    "--force",
                ),
            )
            * 2
        ),
        1,
    ),
    "tag": Command(*((("report", "run", "--tag", "best"),) * 2), 1),
}


class Kill(NamedTuple):
    """What became of one."""

    name: str
    number: int
    signal: str
    group: bool
    at_s: float
    over: bool
    wrong: tuple[str, ...]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commands", nargs="*", metavar="COMMAND", help="of " + ", ".join(COMMANDS))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--most-seconds", type=float, default=1e9)
    options = parser.parse_args()
    names = options.commands or list(COMMANDS)
    if unknown := {*names} - {*COMMANDS}:
        parser.error(f"no command {', '.join(sorted(unknown))}")
    out = options.out.resolve()
    shutil.rmtree(out / "work", ignore_errors=True)
    spans = _prepared(out, names)
    until = time.monotonic() + options.most_seconds
    drawn = [name for name in names for _ in range(COMMANDS[name].share)]

    def one(number: int) -> Kill | None:
        if time.monotonic() > until:
            return None
        random = Random(f"{options.seed}-{number}")  # noqa: S311 - it draws moments
        return _kill(out, random.choice(drawn), number, random, spans)

    with ThreadPoolExecutor(options.jobs) as pool:
        told = [each for each in pool.map(one, range(options.count)) if each is not None]
    counts = Counter(each.partition(":")[0] for kill in told for each in kill.wrong)
    ended = [kill for kill in told if not kill.over]
    print(
        f"{len(told)} commands, {len(ended)} of them ended, {sum(not kill.wrong for kill in told)} as they should be; "
        + ", ".join(f"{counts[each]} {each}" for each in ("stuck", "orphan", "left", "lost", "code", "traceback"))
    )
    for kill in told:
        for each in kill.wrong:
            print(
                f"    {kill.name} #{kill.number}, {kill.signal}{' to all' * kill.group} after {kill.at_s:.2f} s: {each}"
            )
    return 1 if counts else 0


def _environment(place: Path, cache: Path) -> dict[str, str]:
    return {
        **os.environ, "TMPDIR": str(place / "tmp"), "TRTPROF_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT),
    }  # fmt: skip


def _start(words: tuple[str | Path, ...], place: Path, cache: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "trtprof", *map(str, words)],
        cwd=place / "work", env=_environment(place, cache), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=(place / "said").open("wb"), start_new_session=True,
    )  # fmt: skip


def _prepared(out: Path, names: list[str]) -> dict[str, float]:
    """What each begins with, and how long it takes undisturbed."""
    start = out / "start"
    shutil.rmtree(start, ignore_errors=True)
    (start / "work").mkdir(parents=True)
    (start / "tmp").mkdir()
    run = COMMANDS["run"].words
    for words in (run, (*run[:3], "run", *run[4:])):  # the first one measures the ceilings, which are kept
        process = _start(words, start, out / "cache")
        if process.wait(LIMIT_S):
            sys.exit(f"the run to begin with failed: {(start / 'said').read_text()}")
    shutil.rmtree(start / "work" / "new")
    (start / "work" / "fleet.toml").write_text(FLEET)
    for suffix in ("html", "json"):
        (start / "work" / f"old.{suffix}").write_bytes(b"old\n" * 5_000)
    spans = {}
    for name in names:
        place = out / "work" / f"whole-{name}"
        shutil.copytree(start, place)
        began = time.monotonic()
        process = _start(COMMANDS[name].words, place, out / "cache")
        if process.wait(LIMIT_S):
            sys.exit(f"{name} fails undisturbed: {(place / 'said').read_text()}")
        spans[name] = time.monotonic() - began
        shutil.rmtree(place)
    return spans


_FORK = threading.Lock()


def _kill(out: Path, name: str, number: int, random: Random, spans: dict[str, float]) -> Kill:
    place = out / "work" / str(number)
    shutil.copytree(out / "start", place)
    command = COMMANDS[name]
    chosen, group = random.choice(SIGNALS), random.random() < 0.5
    at_s = random.uniform(0.05, spans[name] * 1.05)
    with _FORK:
        process = _start(command.words, place, out / "cache")
    over = True
    try:
        process.wait(at_s)
    except subprocess.TimeoutExpired:
        over = False
        if group:
            os.killpg(process.pid, chosen)
        else:
            process.send_signal(chosen)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    wrong = list(_wrong(out, place, process.pid, name))
    # Python itself dies of a signal that comes before it can listen.
    if process.returncode not in (0, -chosen, 128 + chosen):
        wrong.append(f"code: {process.returncode}: {(place / 'said').read_text(errors='replace')[-300:]}")
    with _FORK:
        again = _start(command.again, place, out / "cache")
    try:
        code = again.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(again.pid, signal.SIGKILL)
        code = again.wait()
    if code and not (over and name == "run"):
        wrong.append(f"stuck: exit code {code}: {(place / 'said').read_text(errors='replace')[-300:]}")
    elif name.startswith("run"):
        try:
            RunFolder(place / "work" / ("new" if name == "run" else "run")).report()
        except TrtprofError as error:
            wrong.append(f"stuck: {error.what}: {error.why}")
    there = (*(place / "work").rglob("*"), *(place / "tmp").iterdir())
    # The mark in a result that is not whole stays until somebody goes on with it.
    marks = {path for path in there if path.name == IN_USE and not (path.parent / REPORT).exists()}
    wrong += [f"left: {path.relative_to(place)}" for path in there if _temporary(path) and path not in marks]
    if not wrong:
        shutil.rmtree(place)
    return Kill(name, number, chosen.name, group, at_s, over, tuple(wrong))


def _wrong(out: Path, place: Path, session: int, name: str) -> Iterator[str]:
    """What is wrong at once: processes that live on, files that are lost, a traceback."""
    until = time.monotonic() + ORPHAN_S
    while (alive := _session(session)) and time.monotonic() < until:
        time.sleep(0.1)
    for pid, line in alive:
        yield f"orphan: {pid} {line}"
        os.kill(pid, signal.SIGKILL)
    said = (place / "said").read_text(errors="replace")
    if "Traceback (most recent call last)" in said:
        yield f"traceback: {said.strip().splitlines()[-1][:200]}"
    for suffix in ("html", "json"):
        found = place / "work" / f"old.{suffix}"
        before = (out / "start" / "work" / f"old.{suffix}").read_bytes()
        if not found.is_file() or not (found.read_bytes() == before or _whole(found)):
            yield f"lost: old.{suffix}"
    try:
        RunFolder(place / "work" / "run").report()
    except TrtprofError as error:
        yield f"lost: run, after {name}: {error.what}: {error.why}"


def _temporary(path: Path) -> bool:
    return (
        path.name.startswith((".trtprof-", PREFIX))
        or path.suffix in (".new", ".old")
        or (
            path.parent.name == "tmp" and path.name != f"trtprof-fleet-{os.getuid()}"  # which is kept for later fleets
        )
    )


def _whole(path: Path) -> bool:
    content = path.read_bytes()
    if path.suffix == ".html":
        return content.rstrip().endswith(b"</html>")
    try:
        json.loads(content)
    except ValueError:
        return False
    return True


def _session(session: int) -> list[tuple[int, str]]:
    """The processes of a session that live."""
    found = []
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            try:
                fields = (each / "stat").read_text(errors="replace").rpartition(")")[2].split()
                if int(fields[3]) == session and fields[0] != "Z":
                    found.append(
                        (int(each.name), (each / "cmdline").read_text(errors="replace").replace("\0", " ")[:150])
                    )
            except (OSError, IndexError, ValueError):
                continue
    return found


if __name__ == "__main__":
    sys.exit(main())
