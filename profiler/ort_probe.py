"""How fast the machine is right now: one product, timed for a moment.

Ceilings are kept for days; clocks, neighbours and power limits change within minutes. The same
probe is timed with the ceilings and around every capture, so that a run can say how fast the
machine was while it ran.
"""

from __future__ import annotations

import statistics
import time

import numpy as np
from onnx import TensorProto, helper, numpy_helper

SIZE = 512
"""Rows, columns and depth of the product: it fits the caches and is long beside a call."""

SECONDS = 0.1


def probe_ns(threads: int, seconds: float = SECONDS) -> float:
    """Median time in ns of a 512 x 512 x 512 fp32 product through ONNX Runtime's CPU provider.

    Args:
        threads: Threads inside an op.
        seconds: How long to repeat it; at least three times.
    """
    import onnxruntime as ort

    generator = np.random.default_rng(0)
    weight = numpy_helper.from_array(generator.random((SIZE, SIZE), dtype=np.float32), "weight")
    shape = [SIZE, SIZE]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "weight"], ["y"], name="probe")],
        "probe",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", ort.OrtValue.ortvalue_from_numpy(generator.random(shape, dtype=np.float32)))
    binding.bind_output("y", "cpu")
    for _ in range(3):
        session.run_with_iobinding(binding)
    samples: list[int] = []
    end = time.perf_counter_ns() + int(seconds * 1e9)
    while len(samples) < 3 or time.perf_counter_ns() < end:
        began = time.perf_counter_ns()
        session.run_with_iobinding(binding)
        samples.append(time.perf_counter_ns() - began)
    return statistics.median(samples)
