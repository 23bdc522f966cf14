"""Does the harness disturb what it measures? Reported latency beside the same session in a bare loop.

    python scripts/bench/overhead.py [MODEL.onnx ...] [--seconds 8]

One session, one set of inputs. Blocks of the harness's own timing loop and of a bare
``session.run_with_iobinding`` loop take turns, so that both see the same drift of the machine. The
bare loop reads the clock once in ten runs, so it pays a tenth of what reading it costs, and both
report a median, so that a neighbour's burst does not count as the harness's. Printed: the median of
each over all blocks, and their ratio.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import numpy as np

from trtprof.capture.workers import ort_cpu as worker
from trtprof.runtime.ort_session import SessionRequest, make_session
from trtprof.source.load import load_model, source_of

ROOT = Path(__file__).resolve().parents[2]


TEN = 10


def bare_loop_ns(run: worker.Runnable, runs: int) -> float:
    """Median over tens of runs of the time of one, in ns."""
    tens = []
    for _ in range(runs // TEN):
        began = time.perf_counter_ns()
        for _ in range(TEN):
            run()
        tens.append((time.perf_counter_ns() - began) / TEN)
    return statistics.median(tens)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = ("resnet_tiny", "mobilenet_tiny", "transformer_block", "lstm", "qdq_cnn")
    parser.add_argument("models", nargs="*", type=Path, default=[ROOT / f"sample_models/{n}.onnx" for n in names])
    parser.add_argument("--seconds", type=float, default=8.0)
    options = parser.parse_args()
    print(f"{'model':<24}{'harness':>12}{'bare loop':>12}{'ratio':>8}   blocks, ratio of each (min..max)")
    for path in options.models:
        loaded = load_model(path)
        inputs = source_of(loaded).model.inputs
        session = make_session(SessionRequest(model=str(path), threads=0))
        run = worker.bind(session, worker.make_inputs(inputs, 0))
        worker.warm_up(run, 500)
        began = time.perf_counter()
        for _ in range(20):
            run()
        per_block = max(3 * TEN, int(0.05 / ((time.perf_counter() - began) / 20)))
        ours: list[float] = []
        loop: list[float] = []
        end = time.perf_counter() + options.seconds
        while time.perf_counter() < end or len(ours) < 10:
            ours.append(float(np.median(worker.time_runs(run, per_block, 0.0))))
            loop.append(bare_loop_ns(run, per_block))
        ratios = [a / b for a, b in zip(ours, loop, strict=True)]
        print(
            f"{path.stem:<24}{statistics.median(ours) / 1e3:>9.1f} us{statistics.median(loop) / 1e3:>9.1f} us"
            f"{statistics.median(ours) / statistics.median(loop):>8.3f}   {len(ratios)}, "
            f"{min(ratios):.3f}..{max(ratios):.3f}"
        )


if __name__ == "__main__":
    main()
