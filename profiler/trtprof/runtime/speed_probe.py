"""How fast the machine is right now: one product and one stream through memory, timed for a moment.

Ceilings are kept for days; clocks, neighbours and power limits change within minutes. The same
probes are timed with the ceilings and around every capture, so that a run can say how fast the
machine was while it ran.
"""

from __future__ import annotations

import statistics
import time

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

SIZE = 512  # Rows, columns and depth of the product: it fits the caches and is long beside a call

STREAM_ELEMENTS = 16 << 20  # Of each tensor of the sum: three of 64 MiB are more than most last-level caches hold

SECONDS = 0.1


def probe_ns(threads: int, seconds: float = SECONDS) -> float:
    """Median time in ns of a 512 x 512 x 512 fp32 product through ONNX Runtime's CPU provider.

    Args:
        seconds: How long to repeat it; at least three times.
    """
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
    return _median_ns(graph, [generator.random(shape, dtype=np.float32)], np.empty(shape, np.float32), threads, seconds)


def stream_bytes_per_s(threads: int, seconds: float = SECONDS) -> float:
    """Bandwidth in B/s of an fp32 sum of two tensors of 64 MiB each through ONNX Runtime's CPU provider.

    Of the median of its times, each tensor counted once, as the ``add`` of `Roof.dram_out_of_place_bytes_per_s`.

    Args:
        seconds: How long to repeat it; at least three times.
    """
    shape = [STREAM_ELEMENTS]
    names = ["x", "x2", "y"]
    *inputs, output = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in names]
    graph = helper.make_graph([helper.make_node("Add", names[:2], names[2:], name="probe")], "probe", inputs, [output])
    # Written, not merely reserved: untouched pages all map to one page of zeros.
    x, x2, y = (np.full(shape, value, np.float32) for value in (1, 2, 0))
    return (x.nbytes + x2.nbytes + y.nbytes) / _median_ns(graph, [x, x2], y, threads, seconds) * 1e9


def _median_ns(
    graph: onnx.GraphProto,
    feeds: list[npt.NDArray[np.float32]],
    output: npt.NDArray[np.float32],
    threads: int,
    seconds: float,
) -> float:
    import onnxruntime as ort

    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for info, feed in zip(graph.input, feeds, strict=True):
        binding.bind_ortvalue_input(info.name, ort.OrtValue.ortvalue_from_numpy(feed))
    binding.bind_output("y", "cpu", 0, np.float32, list(output.shape), output.ctypes.data)
    for _ in range(3):
        session.run_with_iobinding(binding)
    samples: list[int] = []
    end = time.perf_counter_ns() + int(seconds * 1e9)
    while len(samples) < 3 or time.perf_counter_ns() < end:
        began = time.perf_counter_ns()
        session.run_with_iobinding(binding)
        samples.append(time.perf_counter_ns() - began)
    return statistics.median(samples)
