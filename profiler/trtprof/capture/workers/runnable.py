"""What the worker of turns runs, whatever runs it: ONNX Runtime on the CPU or with CUDA, or TensorRT.

Only the CPU's way has run on the device that it is for. What drives a GPU here are the runners of `ort_cuda` and
`trt_runner`, which time inferences as they do in the phase ``clean``; between turns no GPU has been watched yet.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from trtprof.capture.turns import Variant
from trtprof.capture.workers.gpu_work import Arrays
from trtprof.runtime.ort_session import SessionRequest, make_session

Timed = Callable[[], int]
"""Runs once, and tells the latency in ns."""


@contextlib.contextmanager
def runnable_of(variant: Variant, feeds: Arrays, *others: Arrays) -> Iterator[Timed]:
    """A variant with everything bound, run once; on a GPU a latency is with the copies there and back, as in a run.

    `others`: inputs that inferences on the CPU alternate with.
    """
    if variant.engine is not None:
        from trtprof.capture.workers.trt_runner import opened

        with opened(variant.engine, feeds, 1) as runner:
            if variant.cuda_graph:
                runner.capture_graphs()
            yield lambda: runner.infer()[0]
        return
    if variant.session is None:
        raise ValueError(f"{variant.name} has neither a session nor an engine")
    if variant.session.provider == "cpu":
        yield _on_cpu(variant.session, feeds, *others)
        return
    from trtprof.capture.workers.ort_cuda import OrtRunner, timer_for, with_graph

    session = with_graph(variant.session, on=variant.cuda_graph)
    with timer_for(session) as timer:
        on_gpu = OrtRunner(session, feeds, 1, timer)
        yield lambda: on_gpu.infer()[0]


def _on_cpu(request: SessionRequest, *sets: Arrays) -> Timed:
    from trtprof.capture.workers.ort_cpu import bind

    run = bind(make_session(request), *sets)
    clock = time.perf_counter_ns

    def timed() -> int:
        began = clock()
        run()
        return clock() - began

    return timed
