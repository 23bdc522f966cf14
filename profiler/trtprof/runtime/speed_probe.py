"""How fast one core is right now: a small product, timed for a moment.

Ceilings are kept for days; clocks and power limits change within minutes. One thread, and the fast tenth of its times:
what other processes take of the CPUs does not show in it, the clock and throttling do.
"""

from __future__ import annotations

import time

import numpy as np
from onnx import TensorProto, helper, numpy_helper

SIZE = 256  # Rows, columns and depth of the product: long beside a call, short beside a time slice of the system

SECONDS = 0.06


def probe_ns(seconds: float = SECONDS) -> float:
    """The tenth percentile of the times in ns of a 256 x 256 x 256 fp32 product in one thread of ONNX Runtime."""
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
    samples: list[int] = []
    end = time.perf_counter_ns() + int(seconds * 1e9)
    while len(samples) < 10 or time.perf_counter_ns() < end:
        began = time.perf_counter_ns()
        session.run(None, feeds)
        samples.append(time.perf_counter_ns() - began)
    return float(np.percentile(samples, 10))
