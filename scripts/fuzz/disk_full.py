"""Let each write of each command fail once, as on a full disk, and look what became of the files.

    python scripts/fuzz/disk_full.py --out FOLDER [COMMAND ...] [--stays] [--every N] [--most-seconds S]

A library that is preloaded (failing_writes.c, compiled by gcc) counts the writes of a command and its children below
the folder of its results and that of its temporary files. Then the command is given once for each of them, which
fails (with ``--stays`` all after it, too). Lost is what was there before and is neither that nor whole any more; left
is what is temporary; wrong is a traceback, a wait without an end, or an exit code other than 0 and 3 with one error.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from profiler.base.errors import TrtprofError
from profiler.base.run_folder import RunFolder
from profiler.base.scratch import PREFIX

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "sample_models" / "gemv.onnx"
RUN = ROOT / "reports" / "example"
QUICK = ("--duration", "0", "--iterations", "3", "--warmUp", "0", "--profile-iterations", "3", "--threads", "1")
BRIEF = ("--budget", "15s", "--max-candidates", "2", "--threads", "1")
LIMIT_S = 240.0

COMMANDS: dict[str, tuple[str | Path, ...]] = {
    "run": ("run", MODEL, "-o", "new", *QUICK),
    "run-force": ("run", MODEL, "-o", "run", "--force", *QUICK),
    "run-resume": ("run", MODEL, "-o", "half", "--resume", *QUICK),
    "tag": ("report", "run", "--tag", "best"),
    "report-html": ("report", "run", "-o", "old.html", "--force"),
    "report-json": ("report", "run", "-o", "old.json", "--force"),
    "report-parquet": ("report", "run", "-o", "old.parquet", "--force"),
    "report-png": ("report", "run", "-o", "old.png", "--force"),
    "report-svg": ("report", "run", "-o", "old.svg", "--force"),
    "report-map": ("report", "run", "--redact", "--map", "old.map.json", "-o", "old.html", "--force"),
    "compare": ("compare", "run", "run", "-o", "old.html", "--force"),
    "inspect": ("inspect", MODEL, "-o", "old.json", "--force"),
    "predict": ("predict", MODEL, "--gpu", "h100-sxm", "-o", "old.html", "--force"),
    "gpus": ("gpus", "-o", "old.csv", "--force"),
    "kernel": ("kernel", "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize64x64x64", "-o", "old.json", "--force"),
    "sweep": ("sweep", "conv", "--cin", "64,128", "--gpu", "h100-sxm", "-o", "old.json", "--force"),
    "calibrate": ("calibrate", "--quick", "--threads", "1"),
    "try": ("try", MODEL, "-o", "old.json", "--force", *BRIEF),
}


class Ended(NamedTuple):
    code: int
    said: str
    seconds: float


class Bench:
    """Where commands are given, again and again from the same start.

    Args:
        out: Everything lies below it.
    """

    def __init__(self, out: Path) -> None:
        self.out = out.resolve()
        self.library = self.out / "failing_writes.so"
        self.count = self.out / "count"
        self.cache = self.out / "cache"
        self.start = self.out / "start"
        self.here = self.out / "here"
        source = Path(__file__).with_name("failing_writes.c")
        subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", self.library, source, "-ldl"], check=True)
        if not self.start.exists():
            self._prepare()

    def _prepare(self) -> None:
        """A finished run, half of one, and files to be replaced, once."""
        making = self.out / "making"
        shutil.rmtree(making, ignore_errors=True)
        (making / "work").mkdir(parents=True)
        (making / "tmp").mkdir()
        self.here = making
        ended = self.give(COMMANDS["run"])
        if ended.code:
            sys.exit(f"the run to begin with failed: {ended.said}")
        (making / "work" / "new").rename(making / "work" / "run")
        shutil.copytree(making / "work" / "run", making / "work" / "half")
        for name in ("report.json", "report.html", "capture.json", "kernels.parquet"):
            (making / "work" / "half" / name).unlink()
        for suffix in ("html", "json", "parquet", "png", "svg", "csv", "map.json"):
            (making / "work" / f"old.{suffix}").write_bytes(b"old\n" * 5_000)
        making.rename(self.start)
        self.here = self.out / "here"

    def fresh(self) -> None:
        shutil.rmtree(self.here, ignore_errors=True)
        shutil.copytree(self.start, self.here)

    def give(self, words: tuple[str | Path, ...], at: int = 0, *, stays: bool = False) -> Ended:
        """Give a command, whose write of that number fails; 0 counts them."""
        self.count.write_bytes(bytes(8))
        environment = {
            **os.environ, "LD_PRELOAD": str(self.library), "FAULT_COUNT": str(self.count), "FAULT_AT": str(at),
            "FAULT_STAYS": "1" if stays else "", "FAULT_FOLDERS": f"{self.here / 'work'}:{self.here / 'tmp'}",
            "TMPDIR": str(self.here / "tmp"), "TRTPROF_CACHE_DIR": str(self.cache), "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip
        began = time.perf_counter()
        line = [sys.executable, "-m", "profiler", *map(str, words)]
        try:
            done = subprocess.run(
                line, cwd=self.here / "work", env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                timeout=LIMIT_S, check=False,
            )  # fmt: skip
            code, said = done.returncode, done.stderr.decode(errors="replace")
        except subprocess.TimeoutExpired:
            code, said = -99, ""
        return Ended(code, said, time.perf_counter() - began)

    @property
    def writes(self) -> int:
        return int.from_bytes(self.count.read_bytes(), sys.byteorder)

    def state(self, folder: Path) -> dict[str, bytes]:
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def lost(self, ended: Ended) -> Iterator[str]:
        """What was there before and is not whole now."""
        before, now = self.state(self.start / "work"), self.state(self.here / "work")
        for name, content in before.items():
            if name.startswith("half/"):
                continue  # it is gone on with
            if name.startswith("run/"):
                continue  # told of as a whole
            found = now.get(name)
            if found is None or (found != content and ended.code):
                yield name
        try:
            RunFolder(self.here / "work" / "run").report()
        except TrtprofError as error:
            yield f"run: {error.what}: {error.why}"
        if (self.here / "work" / "run" / "tags.json").is_file():
            RunFolder(self.here / "work" / "run").tags()

    def left(self) -> Iterator[str]:
        """What is temporary and still there."""
        for path in (self.here / "work").rglob("*"):
            if path.name.startswith((".trtprof-", PREFIX)):
                yield path.name
        for path in (self.here / "tmp").iterdir():
            yield f"tmp/{path.name}"


def wrong(ended: Ended) -> Iterator[str]:
    if ended.code == -99:
        yield "it waits without an end"
    elif "Traceback (most recent call last)" in ended.said:
        yield "traceback: " + ended.said.strip().splitlines()[-1][:200]
    elif ended.code not in (0, 3):
        yield f"exit code {ended.code}: {next((x for x in ended.said.splitlines() if 'error:' in x), '')[:200]}"
    elif ended.code == 3 and ended.said.count("error:") != 1:
        yield f"{ended.said.count('error:')} errors in one"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commands", nargs="*", metavar="COMMAND", help="of " + ", ".join(COMMANDS))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--stays", action="store_true", help="the disk stays full")
    parser.add_argument("--every", type=int, default=1, help="of so many writes one fails")
    parser.add_argument("--most-seconds", type=float, default=1e9, help="for each command")
    options = parser.parse_args()
    if unknown := {*options.commands} - {*COMMANDS}:
        parser.error(f"no command {', '.join(sorted(unknown))}")
    options.out.mkdir(parents=True, exist_ok=True)
    bench = Bench(options.out)
    print(f"{'command':<15} {'writes':>6} {'failed':>6} {'exit 3':>6} {'lost':>5} {'left':>5} {'wrong':>5}")
    bad = 0
    for name in options.commands or COMMANDS:
        bench.fresh()
        whole = bench.give(COMMANDS[name])
        if whole.code:
            print(f"{name:<15} does not run here: {whole.said.strip().splitlines()[:1]}")
            continue
        writes, told, tried, refused = bench.writes, [], 0, 0
        until = time.perf_counter() + options.most_seconds
        for at in range(1, writes + 1, options.every):
            if time.perf_counter() > until:
                break
            bench.fresh()
            ended = bench.give(COMMANDS[name], at, stays=options.stays)
            tried += 1
            refused += ended.code == 3
            told += [("lost", at, each) for each in bench.lost(ended)]
            told += [("left", at, each) for each in bench.left()]
            told += [("wrong", at, each) for each in wrong(ended)]
        counts = [sum(kind == each for kind, _, _ in told) for each in ("lost", "left", "wrong")]
        print(
            f"{name:<15} {writes:>6} {tried:>6} {refused:>6} {counts[0]:>5} {counts[1]:>5} {counts[2]:>5}", flush=True
        )
        for kind, at, text in told:
            print(f"    {kind} at write {at}: {text}", flush=True)
        bad += sum(counts)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
