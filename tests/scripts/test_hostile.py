"""300 hostile files through the main commands; and `run`, killed at any moment, loses nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random

import pandas as pd
import pytest

from tests.fakes.engine_factory import ENGINES, write_engine
from tests.fakes.hostile import names
from tests.fakes.hostile.mutate import mutated, mutated_bytes, written
from tests.fakes.ncu_factory import counted, ncu_csv
from tests.fakes.support import ROOT, SAMPLES
from tests.fakes.trace_factory import ENGINE, Process, write_trace
from trtprof.base.run_folder import RunFolder

pytestmark = [pytest.mark.nightly, pytest.mark.process]

CASES, LIMIT_S = 300, 60
EXAMPLE = ROOT / "reports" / "example"
PLAN = ROOT / "tests" / "engine" / "data" / "rtx_resnet_tiny.log"
LOOKS: dict[str, Callable[[str], list[str]]] = {
    "csv": names.in_table,
    "markdown": names.in_markdown,
    "html": names.in_page,
    "json": lambda text: [json.loads(text)][:0],
}
Words = tuple[str | Path, ...]


# --- what is given ------------------------------------------------------------------------------


def model(random: Random, folder: Path) -> Words:
    path = folder / "m.onnx"
    path.write_bytes(mutated_bytes(random, random.choice(sorted(SAMPLES.glob("*.onnx"))).read_bytes()))
    return random.choice((("inspect", path), ("predict", path, "--gpu", "l4", "--level", "groups")))


def capture(random: Random, folder: Path) -> Words:
    path = folder / "a.sqlite"
    write_trace(path, [Process(111, ENGINE)])
    path.write_bytes(mutated_bytes(random, path.read_bytes()))
    return "analyze", path, *random.choice(((), (PLAN,))), "--gpu", "l4"


def plan(random: Random, folder: Path) -> Words:
    files = write_engine(folder, random.choice(list(ENGINES)))
    paths = [path for path in (files.layers, files.profile) if path is not None]
    for path in paths:
        path.write_bytes(written(random, mutated(random, json.loads(path.read_text()))))
    return "analyze", *paths, "--gpu", "l4"


def text(random: Random, folder: Path) -> Words:
    log, counters = folder / "a.log", folder / "ncu.csv"
    log.write_bytes(mutated_bytes(random, PLAN.read_bytes()))
    counters.write_bytes(mutated_bytes(random, ncu_csv([counted(f"k{at}", read=at) for at in range(9)]).encode()))
    return "analyze", random.choice((log, counters)), "--gpu", "l4"


def run_folder(random: Random, folder: Path) -> Words:
    run = folder / "run"
    shutil.copytree(EXAMPLE, run)
    for path in random.sample(sorted(run.glob("*.json")), 2):
        path.write_bytes(written(random, mutated(random, json.loads(path.read_text()))))
    return random.choice((("report", run), ("compare", run, EXAMPLE), ("report", run, "--redact")))


def manifest(random: Random, folder: Path) -> Words:
    path = folder / "fleet.toml"
    path.write_bytes(mutated_bytes(random, (SAMPLES / "fleet.toml").read_bytes()))
    return "fleet", "plan", path


def named(random: Random, folder: Path) -> Words:
    path = folder / "m.onnx"
    made = names.model(random)
    path.write_bytes(made.SerializeToString())
    node = random.choice([node.name for node in made.graph.node if not node.name.startswith("-")] or ["Relu"])
    plugin = ("plugin", path, node, "-o", folder / "plugin", "--gpu", "rtx-4090", "--only", "brief,write,insert")
    return random.choice((plugin, ("inspect", path), ("predict", path, "--gpu", "l4"), ("kernel", "--", node)))


KINDS = (model, capture, plan, text, run_folder, manifest, named, named)


# --- what comes of it ---------------------------------------------------------------------------


def ended(words: Words, folder: Path) -> tuple[int, str, str]:
    """Exit code, output and errors of a command in a fork; the code is negative where a signal ended it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads
        pid = os.fork()
    if pid == 0:
        code = 70
        try:
            signal.alarm(LIMIT_S)
            for number, name in ((1, "out"), (2, "err")):
                os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT), number)
            os.environ |= {"TRTPROF_CACHE_DIR": str(folder / "cache"), "NO_COLOR": "1"}
            os.chdir(folder)
            code = main(words)
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    out, err = ((folder / name).read_bytes().decode("utf-8", "replace") for name in ("out", "err"))
    return code, out, err


def main(words: Words) -> int:
    from trtprof.cli import main as command

    sys.argv = ["trtprof", *map(str, words)]
    sys.stdout, sys.stderr = (os.fdopen(number, "w", encoding="utf-8") for number in (1, 2))
    try:
        command()
        return 0
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
        return 70
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def wrong(code: int, out: str, err: str, kind: str, folder: Path) -> Iterable[str]:
    if code not in (0, 2, 3, 4, 5) or "Traceback" in err:
        yield f"exit code {code}: {err[-300:]}"
    elif code and "error:" not in err:
        yield f"exit code {code} without an error"
    if found := names.STEERS.search(err + (out if kind == "text" else "")):
        yield f"a control character {found[0]!r} is printed"
    if code == 0 and kind in LOOKS:
        yield from LOOKS[kind](out)
    for path in (folder / "plugin").rglob("*"):
        look: Callable[[str], list[str]] | None = {".py": names.in_python, ".cu": names.in_c, ".cpp": names.in_c}.get(
            path.suffix
        )
        if look is not None and path.is_file():
            yield from (f"{path.name}: {each}" for each in look(path.read_text(encoding="utf-8")))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="cases are forked")
def test_nothing_hostile_ends_in_anything_but_an_answer_or_a_clear_error(tmp_path: Path) -> None:
    failures = []
    for number in range(CASES):
        random, folder = Random(number), tmp_path / str(number)
        folder.mkdir()
        words, kind = (
            KINDS[number % len(KINDS)](random, folder),
            random.choice(("text", "json", "csv", "markdown", "html")),
        )
        at = words.index("--") if "--" in words else len(words)
        code, out, err = ended((*words[:at], "--format", kind, *words[at:]), folder)
        failures += [f"{number}: {words[0]}: {each}" for each in wrong(code, out, err, kind, folder)]
        shutil.rmtree(folder)
    assert not failures, "\n".join(failures)


def test_each_way_to_end_badly_is_seen(tmp_path: Path) -> None:
    for code, out, err in ((1, "", "error: x"), (-9, "", ""), (2, "", ""), (0, "a \x1b[31m", ""), (0, "", "Traceback")):
        assert list(wrong(code, out, err, "text", tmp_path)), (code, out, err)
    assert not list(wrong(2, "", "error: x", "text", tmp_path))
    for look, bad in ((names.in_python, 'x = ""\nINJECTED()'), (names.in_c, "// x\nINJECTED();"),
                      (names.in_page, "<p onclick='INJECTED()'>"), (names.in_table, "a,=INJECTED()\n")):  # fmt: skip
        assert look(bad), look


# --- kill -9 ------------------------------------------------------------------------------------


def test_a_run_that_is_killed_loses_nothing_and_runs_again(tmp_path: Path) -> None:
    out = tmp_path / "run"
    brief = ("--duration", "0.1", "--iterations", "3", "--profile-iterations", "3")
    command = [sys.executable, "-m", "trtprof", "run", str(SAMPLES / "resnet_tiny.onnx"), *brief, "-o", str(out)]
    settings = {**os.environ, "TRTPROF_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT / "profiler")}

    def run(*more: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*command, *more], env=settings, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    assert run().wait(300) == 0, "the first one measures the ceilings, which are kept"
    began = time.monotonic()
    assert run("--force").wait(300) == 0
    whole_s, random = time.monotonic() - began, Random(0)
    for number in range(10):
        if number % 2:
            shutil.rmtree(out, ignore_errors=True)
        child = run("--force")
        time.sleep(random.uniform(0, whole_s))
        child.send_signal(signal.SIGKILL)
        child.wait()
        for path in out.glob("*"):  # what has its final name is whole
            if path.suffix == ".json":
                json.loads(path.read_bytes())
            elif path.suffix == ".parquet":
                pd.read_parquet(path)
            elif path.suffix == ".html":
                assert path.read_bytes().rstrip().endswith(b"</html>")
        assert number % 2 or RunFolder(out).report(), "the old result or the new one"
        assert run("--force").wait(300) == 0
        assert RunFolder(out).report()
    assert not [path for path in out.iterdir() if path.name.startswith(".trtprof-")]
