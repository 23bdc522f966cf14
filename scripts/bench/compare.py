"""Is what `compare` says right? Pairs of runs of which the truth is known, each asked many times.

    python scripts/bench/compare.py [--cache FOLDER] [--runs 10] [--repeats 200] [--duration 3] [--only-evaluate]

Runs are real, on ONNX Runtime's CPU provider: a small CNN with one thread (three times as many as of the others), with
two threads, with 8 images, with one Relu replaced by a Softplus, and in QDQ form. They take turns, so that a drift of
the machine is in all of them. ``--cache`` keeps them, and makes only those that are missing.

Each repeat takes other runs for the two sides, one or three each, and resamples the samples of each run in blocks, so
that both what runs of the same thing differ by and what samples depend on is in it. The sides take turns, as is
advised: of runs made one after the other they get the first, second, second, first, first, second. Pairs:

* ``one run, twice`` and the same ``5 %`` slower: both sides are drawn from the samples of one run.
* ``same``: runs of the same thing on both sides. Any answer but "not significant" is a false alarm (goal: 5 % at most).
* ``2 % slower``, ``5 % slower``: the same, with the samples of one side stretched. "not significant" is a miss (goal:
  10 % at most at 5 %), "faster" is wrong.
* the other runs against those of one thread. Right is the answer that the medians of all runs give, where they are more
  than 3 % apart.

Printed besides: what runs of the same thing differ by, for latencies and for layers: the figures that stand in where a
side has one run (`trtprof.compare.samples.RUN_TO_RUN`, `trtprof.compare.layer_times.RUN_TO_RUN`).

Exit code 1 where a goal is missed. On a shared machine runs of the same thing are too far apart for the second goal.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import onnx

from trtprof.base.records import Latency
from trtprof.base.run_folder import RunFolder
from trtprof.compare.latency import latency_change
from trtprof.compare.samples import FEWEST, block_length
from trtprof.compare.sides import LoadedRun, Runs, load_side, side_of
from trtprof.compare.turns import LOWER_DECILE, MEDIAN
from trtprof.flows.options import RunOptions
from trtprof.flows.run import execute
from trtprof.source.request import ModelRequest

ROOT = Path(__file__).resolve().parents[2]
FALSE_ALARMS, MISSES = 0.05, 0.10
APART = 0.03
BASE = "one thread"
TWICE = "one run, twice"
TURNS = (0, 1, 1, 0, 0, 1)
BASE_SHARE = 3
"""So many times as many runs of the first condition: the others are all held against it, and it against itself."""


class Condition(NamedTuple):
    """What is run."""

    model: str
    threads: int = 1
    batch: int | None = None


CONDITIONS: Mapping[str, Condition] = {
    BASE: Condition("fp32"),
    "two threads": Condition("fp32", threads=2),
    "8 images": Condition("fp32", batch=8),
    "one node replaced": Condition("replaced"),
    "QDQ": Condition("qdq"),
}


def write_models(folder: Path) -> None:
    """The fp32 CNN, the same with one node replaced, and its QDQ form."""
    sys.path.insert(0, str(ROOT / "sample_models"))
    import generate

    onnx.save(generate.float_cnn(), folder / "fp32.onnx")
    onnx.save(generate.qdq(), folder / "qdq.onnx")
    replaced = generate.float_cnn()
    next(node for node in replaced.graph.node if node.name == "/stage1/Relu").op_type = "Softplus"
    onnx.save(replaced, folder / "replaced.onnx")


def make_runs(folder: Path, count: int, duration_s: float) -> None:
    """All runs that are missing, the conditions taking turns."""
    write_models(folder)
    for index in range(count * BASE_SHARE):
        for name, condition in CONDITIONS.items():
            if name != BASE and index >= count:
                continue
            target = folder / f"{name.replace(' ', '-')}-{index}"
            if (target / "report.json").is_file():
                continue
            began = time.perf_counter()
            options = RunOptions(
                model=ModelRequest.of(folder / f"{condition.model}.onnx", batch=condition.batch),
                backend="ort-cpu",
                threads=condition.threads,
                duration_s=duration_s,
                output=str(target),
                force=True,
            )
            run = execute(options).report()
            print(
                f"{target.name:<24}{run.latency.median_ns / 1e3:10.1f} us, speed {run.speed:.2f}"
                f"  ({time.perf_counter() - began:.1f} s)",
                flush=True,
            )


def runs_of(folder: Path) -> dict[str, list[LoadedRun]]:
    """The runs of each condition that are in a folder."""
    found: dict[str, list[LoadedRun]] = {}
    for name in CONDITIONS:
        stem = name.replace(" ", "-")
        paths = sorted(folder.glob(f"{stem}-[0-9]*"), key=lambda path: int(path.name.rpartition("-")[2]))
        finished = [path for path in paths if (path / "report.json").is_file()]
        found[name] = [load_side([RunFolder(path)]).middle for path in finished]
    return found


def resampled(run: LoadedRun, generator: np.random.Generator, stretch: float) -> LoadedRun:
    """The run as it might have come out: its samples in blocks drawn anew, ``stretch`` times as long."""
    samples = np.zeros(0) if run.samples is None else run.samples
    # Longer than the blocks that `compare` takes, so that what it takes for chance is not made by its own means.
    block = max(min(2 * block_length(samples), len(samples) // FEWEST), 1)
    starts = generator.integers(0, len(samples) - block + 1, size=-(-len(samples) // block))
    drawn = np.concatenate([samples[start : start + block] for start in starts])[: len(samples)]
    stretched = drawn * stretch
    median = round(float(np.median(stretched)))
    latency = Latency(median_ns=median, p99_ns=median, cv=0.0, n=len(stretched))
    return run._replace(samples=stretched, run=msgspec.structs.replace(run.run, latency=latency))


def drawn_side(
    pool: Sequence[LoadedRun], places: Iterable[int], generator: np.random.Generator, stretch: float, mark: str = ""
) -> Runs:
    """A side of runs, each resampled; ``mark`` makes them other runs than those of the same folders."""
    drawn = [resampled(pool[place], generator, stretch) for place in places]
    return side_of([run._replace(path=run.path.with_name(run.path.name + mark)) for run in drawn])


def answers(
    pools: Mapping[str, Sequence[LoadedRun]],
    later: str,
    runs: int,
    repeats: int,
    stretch: float,
    seed: int,
    *,
    twice: bool = False,
) -> tuple[Counter[str], list[float]]:
    """Answers over all repeats, and half the width of each interval that told them, as a share."""
    generator = np.random.default_rng(seed)
    found: Counter[str] = Counter()
    widths = []
    base, other = pools[BASE], pools[later]
    for _ in range(repeats):
        if twice:
            first = second = generator.integers(0, len(base), size=runs)
        elif later == BASE:
            places = generator.integers(0, len(base) - 2 * runs + 1) + np.arange(2 * runs)
            mine = (np.asarray(TURNS[: 2 * runs]) + generator.integers(0, 2)) % 2 == 0
            first, second = places[mine], places[~mine]
        else:
            # Runs of one number were made one after the other.
            start = generator.integers(0, min(len(base), len(other)) - runs + 1)
            first = second = start + np.arange(runs)
        change = latency_change(
            drawn_side(base, first, generator, 1.0), drawn_side(other, second, generator, stretch, mark="-again")
        )
        found[change.answer] += 1
        widths.append((change.ratio.high - change.ratio.low) / 2)
    return found, widths


def median_of(pool: Sequence[LoadedRun]) -> float:
    return statistics.median(run.run.latency.median_ns for run in pool)


def print_spread(pools: Mapping[str, Sequence[LoadedRun]]) -> None:
    """What runs of the same thing differ by."""
    print("\nspread of runs of the same thing (standard deviation over mean; 1.48 median deviations over median)")
    for name, pool in pools.items():
        if len(pool) < 2:
            continue
        told = [f"  {name:<20}{len(pool):4d} runs"]
        for what, at in (("medians", MEDIAN), ("lower deciles", LOWER_DECILE)):
            levels = np.asarray([np.quantile(run.samples, at) for run in pool if run.samples is not None])
            told.append(f"{what} {levels.std(ddof=1) / levels.mean():7.2%} {robust(levels):7.2%}")
        print("   ".join([*told, f"layers, median of all {layer_spread(pool):7.2%}"]))


def robust(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    middle = float(np.median(values))
    return 1.4826 * float(np.median(np.abs(values - middle))) / middle


def layer_spread(pool: Sequence[LoadedRun]) -> float:
    """Median over the layers of their spread from run to run, those of a microsecond and more."""
    times: dict[str, list[int]] = {}
    for run in pool:
        for layer in run.run.layers:
            times.setdefault(layer.name, []).append(layer.measured_ns)
    spreads = [
        robust(np.asarray(found, dtype=np.float64))
        for found in times.values()
        if len(found) == len(pool) and min(found) >= 1000
    ]
    return statistics.median(spreads) if spreads else float("nan")


def evaluate(pools: Mapping[str, Sequence[LoadedRun]], repeats: int, seed: int) -> bool:
    """Print a table; whether all goals are met."""
    good = True
    print(f"\n{'pair':<22}{'runs':>5}{'right':>8}{'not sig.':>10}{'wrong':>8}{'interval':>12}   goal")
    for runs in (1, 3):
        pairs: list[tuple[str, str, float]] = [
            (TWICE, BASE, 1.0),
            (f"{TWICE}, 5 %", BASE, 1.05),
            ("same", BASE, 1.0),
            ("2 % slower", BASE, 1.02),
            ("5 % slower", BASE, 1.05),
            *((name, name, 1.0) for name in CONDITIONS if name != BASE),
        ]
        for title, later, stretch in pairs:
            if len(pools[later]) < runs * (2 if later == BASE else 1) or len(pools[BASE]) < 2 * runs:
                print(f"{title:<22}{runs:5d}   not enough runs")
                continue
            if title.startswith(TWICE) and runs > 1:
                continue
            found, widths = answers(pools, later, runs, repeats, stretch, seed, twice=title.startswith(TWICE))
            truth = _truth(pools, later, stretch)
            right = found[truth] / repeats
            silent = found["not significant"] / repeats
            wrong = max(1 - right - (silent if truth != "not significant" else 0.0), 0.0)
            goal = ""
            if title in ("same", TWICE):
                met = repeats - found[truth] <= FALSE_ALARMS * repeats
                goal = f"false alarms {1 - right:.1%} <= {FALSE_ALARMS:.0%}: {'met' if met else 'MISSED'}"
                good &= met
            elif title in ("5 % slower", f"{TWICE}, 5 %"):
                met = repeats - found[truth] <= MISSES * repeats
                goal = f"misses {silent + wrong:.1%} <= {MISSES:.0%}: {'met' if met else 'MISSED'}"
                good &= met
            elif later != BASE:
                goal = f"truth: {truth}"
            width = statistics.median(widths)
            print(f"{title:<22}{runs:5d}{right:8.1%}{silent:10.1%}{wrong:8.1%}   +-{width:7.2%}   {goal}", flush=True)
    return good


def _truth(pools: Mapping[str, Sequence[LoadedRun]], later: str, stretch: float) -> str:
    if later == BASE:
        return "slower" if stretch > 1 else "not significant"
    apart = median_of(pools[later]) / median_of(pools[BASE]) - 1
    return "not significant" if abs(apart) < APART else "slower" if apart > 0 else "faster"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", type=Path, help="keep the run folders here, and take those that are there")
    parser.add_argument("--runs", type=int, default=10, help="of each condition, three times as many of the first")
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--duration", type=float, default=3.0, help="seconds of clean samples of a run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only-evaluate", action="store_true", help="make no runs")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.cache or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        if not options.only_evaluate:
            make_runs(folder, options.runs, options.duration)
        pools = runs_of(folder)
        print_spread(pools)
        return 0 if evaluate(pools, options.repeats, options.seed) else 1


if __name__ == "__main__":
    sys.exit(main())
