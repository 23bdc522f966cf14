"""What `trtprof run` tells of a model on a quiet machine and beside neighbours that take CPU time from it.

    python scripts/bench/neighbours.py MODEL.onnx [MODEL.onnx ...] [--neighbours quiet half one two] [--out FOLDER]

A neighbour is a process that spins: half of a core (10 ms of every 20), one core or two. It ends with this script, or
by itself after ten minutes. Start it on a machine that is otherwise idle: the quiet run of a model is what its others
are held against. Each run keeps its folder, ``screen.txt`` and ``progress.txt`` under ``--out``; what is there already
is not run again.

Printed is a line a run: seconds to the result and to its first number, median and lower decile of all inferences, the
undisturbed latency with what it rests on, how it compares with the quiet run's, the bound, and TRUST.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from trtprof.base.records import Run
from trtprof.base.run_folder import RunFolder
from trtprof.base.units import format_ns
from trtprof.runtime.child import end_with_parent

SPINNING = {"quiet": [], "half": [0.5], "one": [1.0], "two": [1.0, 1.0]}
"""Shares of a core that the processes of a neighbour take."""
LONGEST_S = 600.0
PERIOD_S = 0.020
_TRUST = re.compile(r"^TRUST\s+(\w+)", re.MULTILINE)
_NUMBER = re.compile(r"\d (?:ns|us|ms|s)\b")


class Told(NamedTuple):
    """What one run told, and when."""

    neighbour: str
    seconds: float
    first_s: float  # until the first latency was on the screen
    trust: str
    screen: str
    run: Run

    @property
    def bound_ns(self) -> int | None:
        """The bound that is shown; None where there is none."""
        return None if self.run.bound_reason else sum(layer.attainable_ns or 0 for layer in self.run.layers)

    @property
    def undisturbed_ns(self) -> int | None:
        """What is said of a quiet machine: the undisturbed latency, or the median where nothing was disturbed."""
        latency = self.run.latency
        return latency.undisturbed_ns or (None if latency.undisturbed_reason else latency.median_ns)


def spin(share: float) -> None:
    """Take a share of a core until the parent ends."""
    end_with_parent()
    print("spins", flush=True)
    end = time.perf_counter() + LONGEST_S
    while time.perf_counter() < end:
        pause = time.perf_counter() + share * PERIOD_S
        while time.perf_counter() < pause:
            pass
        if share < 1:
            time.sleep((1 - share) * PERIOD_S)


@contextmanager
def beside(neighbour: str) -> Iterator[None]:
    """Have a neighbour spin meanwhile."""
    commands = [[sys.executable, __file__, "--spin", str(share)] for share in SPINNING[neighbour]]
    found = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for command in commands]
    try:
        for process in found:
            if not (process.stdout and process.stdout.readline()):
                raise SystemExit("a neighbour did not start")
        yield
    finally:
        for process in found:
            process.kill()
            process.wait()


def run_model(model: Path, neighbour: str, folder: Path, more: list[str]) -> Told:
    """One run beside a neighbour, or what is left of it from before."""
    screen, progress = folder / "screen.txt", folder / "progress.txt"
    if not screen.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "trtprof", "run", str(model), "--output", str(folder / "run"), *more]
        with beside(neighbour):
            began = time.monotonic()
            child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            lines = [f"{time.monotonic() - began:8.2f}  {line.rstrip()}\n" for line in child.stdout or ()]
            lines.append(f"{time.monotonic() - began:8.2f}  ended with {child.wait()}\n")
        progress.write_text("".join(lines))
        shown = [sys.executable, "-m", "trtprof", "report", str(folder / "run")]
        screen.write_text(subprocess.run(shown, capture_output=True, text=True, check=False).stdout)
    lines = progress.read_text().splitlines()
    ended = float(lines[-1].split()[0])
    first = next(
        (float(line.split()[0]) for line in lines if ("median" in line or "p50" in line) and _NUMBER.search(line)),
        ended,
    )
    trust = _TRUST.search(screen.read_text())
    found = RunFolder(folder / "run").report()
    return Told(neighbour, ended, first, trust[1] if trust else "?", screen.read_text(), found)


def line(model: str, told: Told, quiet: Told | None) -> str:
    """What is printed of a run."""
    latency, bound = told.run.latency, told.bound_ns
    said = told.undisturbed_ns
    basis = latency.undisturbed_basis or ("all" if said else "")
    ratio = f"{said / quiet.undisturbed_ns:5.2f}" if said and quiet and quiet.undisturbed_ns else "    -"
    times = (latency.median_ns, latency.p10_ns, said, bound)
    shown = " ".join(f"{format_ns(ns) if ns else '-':>9}" for ns in times)
    run = f"{model:22} {told.neighbour:5} {told.seconds:5.1f} {told.first_s:5.1f}"
    return f"{run} {shown} {basis:10} {ratio}  {told.trust}"


def main() -> None:
    """Run, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="*")
    parser.add_argument("--neighbours", nargs="+", choices=SPINNING, default=list(SPINNING))
    parser.add_argument("--out", type=Path, default=Path("runs/neighbours"))
    parser.add_argument("--spin", type=float, help=argparse.SUPPRESS)
    options, more = parser.parse_known_args()
    if options.spin:
        return spin(options.spin)
    print(f"{'model':22} with  total first    median       p10 undisturb.     bound basis      /quiet TRUST")
    for model in options.models:
        quiet: Told | None = None
        for neighbour in options.neighbours:
            told = run_model(model, neighbour, options.out / f"{model.stem}.{neighbour}", more)
            quiet = told if neighbour == "quiet" else quiet
            print(line(model.stem, told, quiet), flush=True)
    return None


if __name__ == "__main__":
    main()
