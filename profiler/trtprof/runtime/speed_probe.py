"""How fast a core is right now, how fast all are together, and how fast they hand work over: small products, timed.

Ceilings are kept for days; clocks and power limits change within minutes, and a hypervisor moves virtual CPUs apart, or
onto one core, for seconds: then two threads of a model of small layers took 450 us in place of 267, one thread 354 us
both times; those of a model of large ones 12.5 ms in place of 8.7.
The fast tenth of the times: what other processes take of the CPUs does not show in it.

``speed_probe.onnx`` holds eight MatMul behind each other, ``x [n, n]`` times ``weight [n, n]``: `onnx` takes 70 ms to
import, which every process of a capture would pay for.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from trtprof.runtime.priority import ahead_of_others, list_threads

SIZE, PRODUCTS = 256, 8  # Rows, columns and depth: long beside a call, short beside a time slice of the system
HANDOVER_SIZE = 64  # The smallest that ONNX Runtime splits

SECONDS = 0.04
MOST_WAITED = 0.1  # Share of the time, where the process cannot go ahead of others
_CPUS = 4  # At most so many are probed


def probe_ns(seconds: float = SECONDS) -> float:
    """Return the p10 in ns of an fp32 product of 256 x 256 x 256 in one thread, on the slowest of some CPUs."""
    session = _session(1)
    with suppress(AttributeError, OSError):  # only Linux moves a thread
        usable = os.sched_getaffinity(0)
        times = []
        try:
            for cpu in sorted(usable)[:_CPUS]:
                os.sched_setaffinity(0, {cpu})
                times.append(_percentile(session, SIZE, seconds / min(len(usable), _CPUS), 10))
        finally:
            os.sched_setaffinity(0, usable)
        return max(times)
    return _percentile(session, SIZE, seconds, 10)


def together_ns(threads: int, seconds: float = SECONDS / 2) -> tuple[float, float]:
    """Return the p2 in ns of a product of 256, and of 64, in so many threads, each on its CPU.

    The first is slow where CPUs are two threads of one core, the second where they are far apart. Zeros for one thread;
    the first is zero, too, where this process cannot go ahead of others that take the CPUs.
    """
    if threads == 1:
        return 0.0, 0.0
    before = list_threads()
    session = _session(threads)
    used = [threading.get_native_id(), *sorted(list_threads() - before)]
    with ahead_of_others(used) as allowed:
        waited = _waited_ns(used)
        together = _percentile(session, SIZE, seconds, 2)
        waited = _waited_ns(used) - waited
        handover = _percentile(session, HANDOVER_SIZE, seconds, 2)
    return together if allowed or waited <= MOST_WAITED * 1e9 * seconds else 0.0, handover


def _waited_ns(threads: Sequence[int]) -> int:
    with suppress(OSError, ValueError):
        return sum(int(Path(f"/proc/self/task/{one}/schedstat").read_text().split()[1]) for one in threads)
    return 0


def _session(threads: int) -> Any:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    model = str(Path(__file__).with_suffix(".onnx"))
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _percentile(session: Any, size: int, seconds: float, percent: float) -> float:
    feeds = {name: np.full((size, size), 1 / size, np.float32) for name in ("x", "weight")}
    samples: list[int] = []
    end = time.perf_counter_ns() + int(seconds * 1e9)
    while len(samples) < 10 or time.perf_counter_ns() < end:
        began = time.perf_counter_ns()
        session.run(None, feeds)
        samples.append(time.perf_counter_ns() - began)
    return float(np.percentile(samples, percent)) / PRODUCTS
