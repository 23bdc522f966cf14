"""What `trtprof try` finds of many models, and how right it predicts it.

    python scripts/bench/try_models.py MODEL.onnx ... [--budget 60s] [--keep FOLDER] [--every]

Each model is tried once, in a process of its own. Printed are, per model: the best gain, what helped, the largest
difference of an output of what was measured over what its type allows, and the seconds of the whole command. Below are
all rungs that were predicted: a prediction is right where it and the measurement have the same sign (faster, slower, no
difference of more than 5 %), or where it lies in the interval of the measurement. With ``--every`` rewrites that are
predicted to be slower are measured, too, so that the predictions are not judged by those alone that promise something.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from trtprof.base.records import Interval, Tried
from trtprof.engine.passes import PASSES
from trtprof.rewrite import REWRITES

ALIKE = 0.05
"""A prediction of less is one of no difference: the intervals of a shared machine are no narrower."""


def tried(model: Path, folder: Path, options: argparse.Namespace) -> tuple[Tried | None, float]:
    """What is found of a model, and the seconds that it took; None where the command failed."""
    document = folder / f"{model.stem}.json"
    every = ["--rung", ",".join([*REWRITES.keys(), *(one.name for one in PASSES)])] if options.every else []
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "trtprof", "try", str(model), "--budget", options.budget, "--force",
         "--runs", str(folder / model.stem), "-o", str(document), *every],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    seconds = time.monotonic() - began
    (folder / f"{model.stem}.txt").write_text(done.stdout + done.stderr, encoding="utf-8")
    if done.returncode:
        print(f"{model.name}: exit code {done.returncode}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None, seconds
    return msgspec.json.decode(document.read_bytes(), type=Tried), seconds


def sign(gain: float) -> int:
    return 0 if 1 / (1 + ALIKE) <= gain <= 1 + ALIKE else 1 if gain > 1 else -1


class Judged(NamedTuple):
    """A rung that was predicted, and measured against the original."""

    model: str
    rung: str
    predicted: float
    gain: Interval
    right: bool


def judged(model: str, found: Tried) -> Iterator[Judged]:
    for rung in found.rungs:
        if rung.gain is None or rung.predicted is None or rung.beside:
            continue
        measured = {"helps": 1, "slower": -1}.get(rung.verdict, 0)
        right = sign(rung.predicted) == measured or rung.gain.low <= rung.predicted <= rung.gain.high
        yield Judged(model, rung.name, rung.predicted, rung.gain, right)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--budget", default="60s")
    parser.add_argument("--keep", type=Path, help="a folder for all that is found")
    parser.add_argument("--every", action="store_true")
    options = parser.parse_args()
    print("| model | latency | best | helped | measured | wrong or failed | off by | s |")
    print("| --- | ---: | ---: | --- | ---: | ---: | ---: | ---: |")
    rungs: list[Judged] = []
    same = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for model in options.models:
            found, seconds = tried(model, folder, options)
            if found is None or found.latency is None:
                continue
            rungs += judged(model.stem, found)
            same += sum(1 for rung in found.rungs if rung.predicted == 1.0 and rung.gain is None)
            helped = [rung.name for rung in found.rungs if rung.verdict == "helps" and not rung.beside]
            bad = sum(1 for rung in found.rungs if rung.verdict in ("wrong", "failed"))
            off = max((rung.difference or 0.0 for rung in found.rungs if rung.gain is not None), default=0.0)
            best = (
                found.best and f"{found.best.gain.value:.2f} ({found.best.gain.low:.2f} to {found.best.gain.high:.2f})"
            )
            print(
                f"| {model.stem} | {found.latency.median_ns / 1e6:.3g} ms | {best or 1} | {', '.join(helped) or '-'} | "
                f"{found.candidates} | {bad} | {off:.2g} | {seconds:.0f} |",
                flush=True,
            )
    print(f"\n{same} rewrites of which the runtime makes the same graph were not measured")
    if not rungs:
        return
    right = sum(one.right for one in rungs)
    print(f"{right} of {len(rungs)} predictions that were measured are right ({right / len(rungs):.0%})\n")
    print("| model | rung | predicted | measured | interval | right |\n| --- | --- | ---: | ---: | --- | --- |")
    for one in rungs:
        print(
            f"| {one.model} | {one.rung} | {one.predicted:.2f} | {one.gain.value:.2f} | "
            f"{one.gain.low:.2f} to {one.gain.high:.2f} | {'yes' if one.right else 'no'} |"
        )


if __name__ == "__main__":
    main()
