"""How often does a model seem to help against itself, and how sure is a gain by turns? The same model on both sides.

    python scripts/bench/turns.py [--models resnet_tiny lstm ...] [--pool 24] [--rounds 2] [--pairs 4] [--ms 150]
                                  [--candidates 8] [--commands 1000] [--run-pairs 3] [--keep FILE.json]

For each model a pool of rounds is measured: fresh processes of the same model on both sides, pairs of turns of real
sessions of ONNX Runtime. From it are drawn:

* changes of ``--rounds`` rounds each: how often one alone is called faster or slower (at most 5 %), and how wide its
  95 % interval is in the median;
* commands of ``--candidates`` such changes each, judged together: how often *any* is called faster or slower (at most
  5 %: the false "helps" of `trtprof try`);
* the same with all turns of one side stretched by 2, 5 and 10 %: how often a single one among the candidates is called
  slower.

Beside it pairs of whole runs (`trtprof run`), compared as `trtprof compare` does: how wide their intervals are.

Exit code 1 where more than 5 % of the commands err. The seed is fixed; what is measured is not.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from trtprof.capture.turns import Variant, round_of
from trtprof.compare import compare
from trtprof.compare.samples import LEVEL
from trtprof.compare.turns import Turns, change_of_turns, judged
from trtprof.flows.options import RunOptions
from trtprof.flows.run import execute
from trtprof.runtime.ort_session import SessionRequest
from trtprof.source.load import load_model, source_of
from trtprof.source.request import ModelRequest

ROOT = Path(__file__).resolve().parents[2]
MODELS = ("resnet_tiny", "mobilenet_tiny", "lstm", "transformer_block")
STRETCHED = (1.02, 1.05, 1.10)

Round = list[Turns]


def main() -> int:
    """Measure and print; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--models", nargs="+", default=MODELS, help="of sample_models, or paths")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--pool", type=int, default=24, help="rounds to measure of each model")
    parser.add_argument("--rounds", type=int, default=2, help="of a change")
    parser.add_argument("--pairs", type=int, default=4, help="of a round")
    parser.add_argument("--ms", type=float, default=150.0, help="of a turn")
    parser.add_argument("--candidates", type=int, default=8)
    parser.add_argument("--commands", type=int, default=1000)
    parser.add_argument("--run-pairs", type=int, default=3, help="pairs of whole runs; 0 for none")
    parser.add_argument("--keep", type=Path, help="a file for what was measured; read where it is there")
    asked = parser.parse_args()
    kept = json.loads(asked.keep.read_text()) if asked.keep and asked.keep.is_file() else {}
    failed = False
    for name in asked.models:
        path = Path(name) if Path(name).suffix == ".onnx" else ROOT / "sample_models" / f"{name}.onnx"
        pool = [_read(each) for each in kept.get(name, [])]
        began = time.perf_counter()
        pool += _measured(path, asked.threads, asked.pool - len(pool), asked.pairs, asked.ms, len(pool))
        seconds = (time.perf_counter() - began) / max(asked.pool - len(kept.get(name, [])), 1)
        kept[name] = [_written(each) for each in pool]
        if asked.keep:
            asked.keep.write_text(json.dumps(kept))
        failed |= _told(path.stem, pool, asked, seconds)
        if asked.run_pairs:
            _runs(path, asked.threads, asked.run_pairs)
    return int(failed)


def _measured(path: Path, threads: int, count: int, pairs: int, ms: float, done: int) -> list[Round]:
    inputs = source_of(load_model(path), {}).model.inputs
    one = Variant(name="the model", inputs=inputs, session=SessionRequest(model=str(path), threads=threads))
    return [
        [(pair.before, pair.after) for pair in round_of(one, one, pairs=pairs, ms=ms, first=(done + number) % 2)]
        for number in range(count)
    ]


def _told(name: str, pool: Sequence[Round], asked: argparse.Namespace, seconds: float) -> bool:
    """Print what the pool says; returns whether too many commands err."""
    generator = np.random.default_rng(20)

    def drawn(stretch: float = 1.0) -> list[Round]:
        places = generator.choice(len(pool), asked.rounds, replace=False)
        return [[(before, after * stretch) for before, after in _mirrored(pool[place], generator)] for place in places]

    alone = [change_of_turns(drawn()) for _ in range(asked.commands)]
    false_alone = np.mean([change.tail < 1 - LEVEL for change in alone])
    width = float(np.median([high - low for low, high in (change.interval() for change in alone)]))
    families = 0
    for _ in range(asked.commands):
        found = judged([change_of_turns(drawn()) for _ in range(asked.candidates)])
        families += any(one.answer != "not significant" for one in found)
    false = families / asked.commands
    run_us = np.median([np.median(side) for each in pool for pair in each for side in pair]) / 1e3
    between = np.std([change_of_turns([each]).log for each in pool], ddof=1) if len(pool) > 1 else 0.0
    print(f"{name}: {run_us:.4g} us an inference; {len(pool)} rounds of {asked.pairs} pairs, {seconds:.1f} s each")
    print(f"  rounds differ by {between:.2%} (standard deviation)")
    print(f"  alone: {false_alone:.1%} called faster or slower; the 95 % interval is {width:.1%} wide")
    print(f"  {asked.candidates} candidates: in {false:.1%} of commands any is called faster or slower (goal: 5 %)")
    for stretch in STRETCHED:
        seen = 0
        for _ in range(asked.commands // 4):
            changes = [
                change_of_turns(drawn(stretch)),
                *(change_of_turns(drawn()) for _ in range(asked.candidates - 1)),
            ]
            seen += judged(changes)[0].answer == "slower"
        print(f"  one that is {stretch - 1:.0%} slower is seen in {seen / (asked.commands // 4):.0%}", flush=True)
    return bool(false > 1 - LEVEL)


def _mirrored(one: Round, generator: np.random.Generator) -> Round:
    """A round, or its sides swapped: they are the same thing, and the pool is twice as large."""
    return [(after, before) for before, after in one] if generator.integers(2) else one


def _runs(path: Path, threads: int, count: int) -> None:
    widths, answers, began = [], [], time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        for number in range(count):
            sides = [
                execute(
                    RunOptions(
                        model=ModelRequest.of(path), backend="ort-cpu", threads=threads,
                        output=str(Path(name) / f"{number}-{side}"),
                    )
                )
                for side in range(2)
            ]  # fmt: skip
            latency = compare([[sides[0]], [sides[1]]]).comparisons[0].latency
            told = latency.telling_ratio
            widths.append(told.high - told.low)
            answers.append(latency.answer)
    said = sum(answer != "not significant" for answer in answers)
    seconds = (time.perf_counter() - began) / count
    width = float(np.median(widths))
    print(f"  two runs compared: {said} of {count} called faster or slower; {width:.1%} wide, {seconds:.0f} s")


def _written(one: Round) -> list[list[list[int]]]:
    return [[np.asarray(side).tolist() for side in pair] for pair in one]


def _read(one: list[list[list[int]]]) -> Round:
    return [(np.asarray(before), np.asarray(after)) for before, after in one]


if __name__ == "__main__":
    sys.exit(main())
