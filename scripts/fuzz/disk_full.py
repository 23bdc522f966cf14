"""Let each write of each command fail once, as on a full disk, and look what became of the files.

    python scripts/fuzz/disk_full.py --out FOLDER [COMMAND ...] [--stays] [--at-most N [--seed S]] [--most-seconds S]

A library that is preloaded (failing_writes.c, compiled by gcc) counts the writes of a command and its children below
its working folder, its home, its cache and its folder of temporary files. Then the command is given once for each of
them, which fails (with ``--stays`` all after it, too), each time from the same start. Lost is what was there before
and is neither that nor whole any more, and what is not whole though the command says that it is done; left is what is
temporary; code is an exit code other than 0 and 3, 3 with other than one error, or a wait without an end.

Verbs that write nothing unless they are asked to by -o: inspect, predict, analyze, compare, sweep, gpus, kernel,
rules, doctor, fleet plan, fleet report, fleet compare. ``report`` writes by -o and --tag; ``plugin`` by -o; ``build``
its cache; ``calibrate`` its cache; ``run`` and ``try`` the run folder and, once, the ceilings; ``help --samples`` files
that are not there yet. ``fleet status``,
``help``, ``report --serve``, --version and --help write nothing. ``plugin bench`` and ``run`` on a GPU need one.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

import onnx
from onnx import helper

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from trtprof.base.errors import TrtprofError
from trtprof.base.run_folder import RunFolder
from trtprof.base.scratch import PREFIX

ROOT = Path(__file__).resolve().parents[2]
QUICK = ("--duration", "0", "--iterations", "3", "--warmUp", "0", "--profile-iterations", "3", "--threads", "1")
BRIEF = ("--budget", "2s", "--max-candidates", "2", "--threads", "1")
GPU = ("--gpu", "h100-sxm")
LIMIT_S = 240.0
KINDS = ("lost", "left", "code", "traceback")
OLD = b"old\n" * 5_000
FOLDERS = ("work", "home", "cache", "tmp")
"""Where a command works, what belongs to its user, what it keeps, and what is temporary."""
MANIFEST = """
[[models]]
files = "model.onnx"
precisions = ["model", "fp16"]
[[targets]]
gpu = "rtx-4090"
"""


def _to(name: str) -> tuple[str, ...]:
    return "-o", name, "--force"


COMMANDS: dict[str, tuple[str, ...]] = {
    "run": ("run", "model.onnx", "-o", "new", *QUICK),
    "run-force": ("run", "model.onnx", *_to("run"), *QUICK),
    "run-resume": ("run", "model.onnx", "-o", "half", "--resume", *QUICK),
    "run-exports": ("run", "model.onnx", *_to("run"), *QUICK, "--exportTimes=old.json", "--exportProfile=old.map.json",
                    "--exportLayerInfo=old.txt"),
    "try": ("try", "model.onnx", *_to("old.json"), *BRIEF),
    "try-model": ("try", "model.onnx", *_to("old.onnx"), *BRIEF),
    "plugin": ("plugin", "model.onnx", "MatMul", "--gpu", "rtx-4090", "-o", "new", "--only", "brief,write,insert"),
    "plugin-check": ("plugin", "model.onnx", "MatMul", "--gpu", "rtx-4090", *_to("plugin"), "--check-seconds", "1"),
    "plugin-bench": ("plugin", "bench", "plugin"),
    "inspect": ("inspect", "model.onnx", *_to("old.json")),
    "inspect-engine": ("inspect", "model.onnx", "--engine", *_to("old.html")),
    "predict": ("predict", "model.onnx", *GPU, *_to("old.html")),
    "predict-layers": ("predict", "model.onnx", *GPU, "--level", "layers", *_to("old.json")),
    "build": ("build", "model.onnx", "--saveEngine=old.engine", "--exportLayerInfo=old.json", *_to("old.html")),
    "analyze": ("analyze", "plan.log", "--onnx", "resnet_tiny.onnx", "--batch", "64", "--gpu", "l4", *_to("old.html")),
    "tag": ("report", "run", "--tag", "best"),
    "report-html": ("report", "run", *_to("old.html")),
    "report-json": ("report", "run", *_to("old.json")),
    "report-csv": ("report", "run", "-o", "tables/", "--format", "csv", "--force"),
    "report-parquet": ("report", "run", *_to("old.parquet")),
    "report-png": ("report", "run", *_to("old.png")),
    "report-svg": ("report", "run", *_to("old.svg")),
    "report-map": ("report", "run", "--redact", "--redact-map", "old.map.json", *_to("old.html")),
    "compare": ("compare", "run", "run", *_to("old.html")),
    "export": ("export", "models.net:small", *_to("old.onnx")),
    "sweep": ("sweep", "conv", "--cin", "64,128", *GPU, *_to("old.json")),
    "fleet-plan": ("fleet", "plan", "fleet.toml", *_to("old.json")),
    "fleet-run": ("fleet", "run", "fleet.toml", "-o", "new", "--workers", "1"),
    "fleet-resume": ("fleet", "run", "more.toml", "-o", "fleet", "--workers", "1"),
    "fleet-report": ("fleet", "report", "fleet", *_to("old.html")),
    "fleet-compare": ("fleet", "compare", "fleet", "fleet", *_to("old.html")),
    "gpus": ("gpus", *_to("old.csv")),
    "calibrate": ("calibrate", "--seconds", "1", "--threads", "1", *_to("old.json")),
    "kernel": ("kernel", "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize64x64x64", *_to("old.json")),
    "rules": ("rules", "RL101", *_to("old.md")),
    "doctor": ("doctor", *_to("old.json")),
    "completion": ("--install-completion", "bash"),
}  # fmt: skip


def _model() -> onnx.ModelProto:
    """Small, with an op that a kernel by hand may replace and one that a rewrite may."""
    a, b = (
        helper.make_tensor_value_info(name, 1, shape) for name, shape in (("a", [6, 4, 1, 64]), ("b", [6, 1, 64, 1]))
    )
    c = helper.make_tensor_value_info("c", 1, [6, 4, 1, 1])
    nodes = [helper.make_node("MatMul", ["a", "b"], ["m"], name="MatMul"), helper.make_node("Relu", ["m"], ["c"])]
    return helper.make_model(
        helper.make_graph(nodes, "small", [a, b], [c]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )


def _names(state: dict[str, bytes]) -> set[str]:
    """Of files, without what differs each time: moments."""
    return {re.sub(r"\d{8}-\d{6}", "TIME", name) for name in state}


def _whole(name: str, content: bytes) -> bool | None:
    """Whether a file is whole, as far as its kind says it; None where it does not."""
    if content == OLD:
        return True
    if name.endswith(".json"):
        try:
            json.loads(content)
        except ValueError:
            return False
        return True
    end = {".html": b"</html>\n", ".svg": b"</svg>\n", ".png": b"IEND\xaeB`\x82", ".parquet": b"PAR1", ".md": b"\n"}
    return content.endswith(end[Path(name).suffix]) if Path(name).suffix in end else None


class Ended(NamedTuple):
    code: int
    said: str
    seconds: float


class Bench:
    """Where commands are given, again and again from the same start.

    Args:
        out: Everything lies below it.
        needed: Names of folders that commands will be asked about.
        forked: Commands are forked from a process that has imported what they import.
    """

    def __init__(self, out: Path, needed: set[str], *, forked: bool = False) -> None:
        self.out = out.resolve()
        self.forked = forked
        self.server: subprocess.Popen[str] | None = None
        self.library = self.out / "failing_writes.so"
        self.count = self.out / "count"
        self.start = self.out / "start"
        self.here = self.out / "here"
        source = Path(__file__).with_name("failing_writes.c")
        subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", self.library, source, "-ldl"], check=True)
        if not self.start.exists():
            self._prepare()
        for name, to in (("run", "run"), ("plugin", "plugin"), ("fleet-run", "fleet")):
            if not {to, "half" if to == "run" else to}.isdisjoint(needed) and not (self.start / "work" / to).exists():
                self._made(name, to)

    def _made(self, name: str, to: str) -> None:
        """What other commands begin with, once; what a command keeps for the next one is no part of it."""
        self.fresh()
        ended = self.give(COMMANDS[name])
        if ended.code:
            sys.exit(f"{name} to begin with failed: {ended.said}")
        work = self.here / "work"
        (work / "new").rename(work / to)
        shutil.rmtree(self.here / "cache" / "engines", ignore_errors=True)
        if to == "run":
            shutil.copytree(work / "run", work / "half")
            for each in ("report.json", "report.html", "capture.json", "kernels.parquet"):
                (work / "half" / each).unlink()
        shutil.rmtree(self.start)
        self.here.rename(self.start)

    def _prepare(self) -> None:
        """What is asked of, and files to be replaced, once."""
        making = self.out / "making"
        shutil.rmtree(making, ignore_errors=True)
        for name in FOLDERS:
            (making / name).mkdir(parents=True)
        work = making / "work"
        onnx.save(_model(), work / "model.onnx")
        shutil.copy(ROOT / "sample_models" / "resnet_tiny.onnx", work)
        shutil.copy(ROOT / "tests" / "engine" / "data" / "rtx_resnet_tiny.log", work / "plan.log")
        (work / "fleet.toml").write_text(MANIFEST)
        (work / "more.toml").write_text(MANIFEST + '[[targets]]\ngpu = "l4"\n')
        for suffix in ("html", "json", "parquet", "png", "svg", "csv", "map.json", "md", "txt", "onnx", "engine"):
            (work / f"old.{suffix}").write_bytes(OLD)
        (making / "home" / ".bashrc").write_text("# mine\n")
        making.rename(self.start)

    def fresh(self) -> None:
        shutil.rmtree(self.here, ignore_errors=True)
        shutil.copytree(self.start, self.here)

    def give(self, words: tuple[str, ...], at: int = 0, *, stays: bool = False) -> Ended:
        """Give a command, whose write of that number fails; 0 counts them."""
        self.count.write_bytes(bytes(8))
        environment = {
            **os.environ, "LD_PRELOAD": str(self.library), "FAULT_COUNT": str(self.count), "FAULT_AT": str(at),
            "FAULT_STAYS": "1" if stays else "", "FAULT_FOLDERS": ":".join(str(self.here / name) for name in FOLDERS),
            "TMPDIR": str(self.here / "tmp"), "TRTPROF_CACHE_DIR": str(self.here / "cache"), "PYTHONPATH": str(ROOT),
            "HOME": str(self.here / "home"), "MPLCONFIGDIR": str(self.out / "fonts"),
            "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1",
        }  # fmt: skip
        if self.forked:
            return self._forked(words, environment)
        began = time.perf_counter()
        line = [sys.executable, "-m", "trtprof", *words]
        try:
            done = subprocess.run(
                line, cwd=self.here / "work", env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                timeout=LIMIT_S, check=False,
            )  # fmt: skip
            code, said = done.returncode, done.stderr.decode(errors="replace")
        except subprocess.TimeoutExpired:
            code, said = -99, ""
        return Ended(code, said, time.perf_counter() - began)

    def _forked(self, words: tuple[str, ...], environment: dict[str, str]) -> Ended:
        """The same, without importing modules each time."""
        if self.server is None:
            self.server = subprocess.Popen(
                [sys.executable, Path(__file__).with_name("forked.py")], env=environment, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
        assert self.server.stdin is not None and self.server.stdout is not None  # noqa: S101, PT018 - they are pipes
        said = self.out / "said"
        env = {name: value for name, value in environment.items() if name.startswith("FAULT_")}
        asked = {"words": words, "env": env, "cwd": str(self.here / "work"), "err": str(said), "seconds": LIMIT_S}
        began = time.perf_counter()
        self.server.stdin.write(json.dumps(asked) + "\n")
        self.server.stdin.flush()
        code = int(self.server.stdout.readline())
        return Ended(code, said.read_text(errors="replace"), time.perf_counter() - began)

    @property
    def writes(self) -> int:
        return int.from_bytes(self.count.read_bytes(), sys.byteorder)

    def state(self, place: Path) -> dict[str, bytes]:
        """The files of a person and those that are kept, with their content."""
        return {
            str(path.relative_to(place)): path.read_bytes()
            for name in FOLDERS[:3]
            for path in (place / name).rglob("*")
            if path.is_file()
        }

    def lost(self, ended: Ended, whole: dict[str, bytes]) -> Iterator[str]:
        """What was there before and is not whole now.

        Args:
            ended: How the command ended.
            whole: What is there after the command when nothing fails.
        """
        now = self.state(self.here)
        for name, content in self.state(self.start).items():
            if name.startswith(("work/half/", "work/run/")):
                continue  # it is gone on with, or told of as a whole
            found = now.get(name)
            if found is None:
                if name in whole:
                    yield name
            elif ended.code and found not in (content, whole.get(name)) and not _whole(name, found):
                yield name
        if not ended.code:
            yield from sorted(f"not made: {name}" for name in _names(whole) - _names(now))
            yield from (f"not whole: {name}" for name in now if _whole(name, now[name]) is False)
        if not (self.start / "work" / "run").is_dir():
            return
        try:
            run = RunFolder(self.here / "work" / "run")
            run.report()
            run.tags()
        except TrtprofError as error:
            yield f"run: {error.what}: {error.why}"

    def left(self) -> Iterator[str]:
        """What is temporary and still there."""
        for name in FOLDERS[:3]:
            for path in (self.here / name).rglob("*"):
                if path.name.startswith((".trtprof-", PREFIX)):
                    yield f"{name}/{path.name}"
        for path in (self.here / "tmp").rglob("*"):
            # A node of a fleet keeps models there that travelled, and that only.
            if not path.name.startswith(("trtprof-fleet-", "model-")):
                yield f"tmp/{path.name}"


def wrong(ended: Ended) -> Iterator[tuple[str, str]]:
    if ended.code == -99:
        yield "code", "it waits without an end"
    if "Traceback (most recent call last)" in ended.said:
        yield "traceback", ended.said.strip().splitlines()[-1][:200]
    elif ended.code not in (0, 3, -99):
        error = next((line for line in ended.said.splitlines() if "error:" in line), ended.said[-200:])
        yield "code", f"{ended.code}: {error[:200]}"
    elif ended.code == 3 and ended.said.count("error:") != 1:
        yield "code", f"{ended.said.count('error:')} errors in one"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commands", nargs="*", metavar="COMMAND", help="of " + ", ".join(COMMANDS))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--forked", action="store_true", help="commands find their modules imported: less than half the time"
    )
    parser.add_argument("--stays", action="store_true", help="the disk stays full")
    parser.add_argument(
        "--at-most",
        type=int,
        help="so many writes of each command: a quarter the last ones, the rest drawn by the seed; default: all",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most-seconds", type=float, default=1e9, help="for each command")
    options = parser.parse_args()
    if unknown := {*options.commands} - {*COMMANDS}:
        parser.error(f"no command {', '.join(sorted(unknown))}")
    options.out.mkdir(parents=True, exist_ok=True)
    commands = options.commands or list(COMMANDS)
    bench = Bench(options.out, {word for name in commands for word in COMMANDS[name]}, forked=options.forked)
    print(f"{'command':<15} {'writes':>6} {'tried':>6} {'exit 3':>6} " + " ".join(f"{kind:>9}" for kind in KINDS))
    sums = Counter[str]()
    for name in commands:
        bench.fresh()
        ended = bench.give(COMMANDS[name])
        if ended.code:
            error = next((line for line in ended.said.splitlines() if "rror:" in line), ended.said[:200])
            print(f"{name:<15} does not run here: {error}", flush=True)
            continue
        writes, whole, counts, told = bench.writes, bench.state(bench.here), Counter[str](), []
        until = time.perf_counter() + options.most_seconds
        for at in _numbers(writes, options.at_most, Random(f"{options.seed}-{name}")):  # noqa: S311 - it draws writes
            if time.perf_counter() > until:
                break
            bench.fresh()
            ended = bench.give(COMMANDS[name], at, stays=options.stays)
            counts["tried"] += 1
            counts["exit 3"] += ended.code == 3
            found = [("lost", each) for each in bench.lost(ended, whole)]
            found += [("left", each) for each in bench.left()]
            found += list(wrong(ended))
            counts.update(kind for kind, _ in found)
            told += [f"{kind} at write {at}: {text}" for kind, text in found]
        counts["writes"] = writes
        print(_row(name, counts), *(f"    {each}" for each in told), sep="\n", flush=True)
        sums += counts
    print(_row("all", sums))
    return 1 if any(sums[kind] for kind in KINDS) else 0


def _numbers(writes: int, at_most: int | None, random: Random) -> list[int]:
    """Of the writes that fail, in turn: all, or the last ones, which are of results, and some that are drawn."""
    numbers = list(range(1, writes + 1))
    if at_most is None or at_most >= writes:
        return numbers
    random.shuffle(numbers)
    last = range(writes - at_most // 4 + 1, writes + 1)
    return [*last, *(each for each in numbers if each not in last)][:at_most]


def _row(name: str, counts: Counter[str]) -> str:
    return f"{name:<15} {counts['writes']:>6} {counts['tried']:>6} {counts['exit 3']:>6} " + " ".join(
        f"{counts[kind]:>9}" for kind in KINDS
    )


if __name__ == "__main__":
    sys.exit(main())
