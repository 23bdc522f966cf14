"""How fast a core is right now: a small product, timed for a moment.

Ceilings are kept for days; clocks and power limits change within minutes. One thread, and the fast tenth of its times:
what other processes take of the CPUs does not show in it; the clock, throttling and whoever shares the core do.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

import numpy as np
from onnx import TensorProto, helper, numpy_helper

SIZE = 256  # Rows, columns and depth of the product: long beside a call, short beside a time slice of the system

SECONDS = 0.04
_CPUS = 4  # At most so many are probed


def probe_ns(seconds: float = SECONDS) -> float:
    """Return the p10 in ns of an fp32 product of 256 x 256 x 256 in one thread, on the slowest of some CPUs."""
    import onnxruntime as ort

    generator = np.random.default_rng(0)
    shape = [SIZE, SIZE]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", "y")]
    weight = numpy_helper.from_array(generator.random(shape, dtype=np.float32), "weight")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "weight"], ["y"], name="probe")], "probe", ports[:1], ports[1:], [weight]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feeds = {"x": generator.random(shape, dtype=np.float32)}

    def time_here(share: float) -> float:
        samples: list[int] = []
        end = time.perf_counter_ns() + int(share * seconds * 1e9)
        while len(samples) < 10 or time.perf_counter_ns() < end:
            began = time.perf_counter_ns()
            session.run(None, feeds)
            samples.append(time.perf_counter_ns() - began)
        return float(np.percentile(samples, 10))

    with suppress(AttributeError, OSError):  # only Linux moves a thread
        usable = os.sched_getaffinity(0)
        times = []
        try:
            for cpu in sorted(usable)[:_CPUS]:
                os.sched_setaffinity(0, {cpu})
                times.append(time_here(1 / min(len(usable), _CPUS)))
        finally:
            os.sched_setaffinity(0, usable)
        return max(times)
    return time_here(1.0)
