"""The small ONNX graphs whose speed is a ceiling, and what one run of each is worth.

FLOP and bytes are counted as for a model: 2 per MAC, every distinct tensor once. A chain of equal
nodes makes what the runtime adds at the ends (the layout change around blocked convolutions) small
beside the work; it can only lower the rate, never raise it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from profiler.hardware._fit import Task
from profiler.units import FLOP_PER_MAC

Array = npt.NDArray[Any]

OPSET = 17
IR_VERSION = 9
"""Old enough for every supported runtime; the ops below have not changed their kernels since."""

CONVOLUTIONS = 6
"""Length of a chain of convolutions."""

COLUMNS = 1024
"""Row length of the streaming ops: 4 kB of fp32, so that rows split well over threads."""


class Port(NamedTuple):
    """A graph input or output to bind: ONNX element type and shape."""

    name: str
    element_type: int
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape)) * int(helper.tensor_dtype_to_np_dtype(self.element_type).itemsize)


class Graph(NamedTuple):
    """A model with its ports."""

    model: bytes
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    in_place: bool = False
    """The output is to be bound to the buffer of the first input."""


class Workload(NamedTuple):
    """A task and how to build the graph that times it."""

    task: Task
    kind: str
    size: tuple[int, ...]
    element_type: int = TensorProto.FLOAT

    def build(self) -> Graph:
        """The graph; one run of it is worth ``task.amount``."""
        return _BUILDERS[self.kind](self)


DTYPE_OF: dict[int, str] = {
    TensorProto.FLOAT: "fp32",
    TensorProto.DOUBLE: "fp64",
    TensorProto.FLOAT16: "fp16",
    TensorProto.BFLOAT16: "bf16",
}


# --- compute --------------------------------------------------------------------------------


def compute_workloads(element_types: Sequence[int]) -> list[Workload]:
    """GEMMs with a constant right side and convolutions, small ones first."""
    found = []
    for element_type in element_types:
        ceiling = f"{DTYPE_OF[element_type]}_flops"
        for n in (256, 512, 1024, 2048, 4096):
            task = Task(ceiling, f"MatMul {n}x{n}x{n}", FLOP_PER_MAC * n**3)
            found.append(Workload(task, "matmul", (n,), element_type))
        if element_type in (TensorProto.FLOAT, TensorProto.FLOAT16):
            for channels, side, kernel in ((64, 56, 3), (128, 28, 3), (256, 14, 3), (256, 28, 1)):
                task = Task(ceiling, *_conv(channels, side, kernel))
                found.append(Workload(task, "conv", (channels, side, kernel), element_type))
    for n in (256, 512, 1024, 2048, 4096):
        task = Task("int8_flops", f"MatMulInteger {n}x{n}x{n}", FLOP_PER_MAC * n**3)
        found.append(Workload(task, "matmul_integer", (n,), TensorProto.UINT8))
    for n in (512, 1024):
        task = Task("int8_flops", f"QLinearMatMul {n}x{n}x{n}", FLOP_PER_MAC * n**3)
        found.append(Workload(task, "qlinear_matmul", (n,), TensorProto.UINT8))
    name, amount = _conv(128, 28, 3)
    task = Task("int8_flops", f"QLinear{name}", amount)
    found.append(Workload(task, "qlinear_conv", (128, 28, 3), TensorProto.UINT8))
    return found


def _conv(channels: int, side: int, kernel: int) -> tuple[str, int]:
    name = f"Conv {kernel}x{kernel} {channels}->{channels} {side}x{side}"
    return name, CONVOLUTIONS * FLOP_PER_MAC * channels * channels * kernel * kernel * side * side


def probe(element_type: int) -> Workload:
    """A small MatMul that shows whether the runtime computes in this type."""
    return Workload(Task("probe", "MatMul 64x64x64", 0), "matmul", (64,), element_type)


def _matmul(load: Workload) -> Graph:
    (n,) = load.size
    weight = _tensor("w", _values((n, n), n), load.element_type)
    return _chain_graph("MatMul", load, 1, (n, n), lambda _: [weight])


def _conv_graph(load: Workload) -> Graph:
    channels, side, kernel = load.size

    def weights(index: int) -> list[onnx.TensorProto]:
        shape = (channels, channels, kernel, kernel)
        return [_tensor(f"w{index}", _values(shape, channels * kernel * kernel), load.element_type)]

    pad = kernel // 2
    return _chain_graph(
        "Conv", load, CONVOLUTIONS, (1, channels, side, side), weights, pads=[pad] * 4, kernel_shape=[kernel] * 2
    )


def _matmul_integer(load: Workload) -> Graph:
    (n,) = load.size
    weight = numpy_helper.from_array(_int8((n, n)), "w")
    node = helper.make_node("MatMulInteger", ["x", "w"], ["y"])
    return _graph([node], [Port("x", TensorProto.UINT8, (n, n))], [Port("y", TensorProto.INT32, (n, n))], [weight])


_QUANTIZATION = ("x_scale", "x_zero", "w", "w_scale", "w_zero", "y_scale", "y_zero")


def _quantization(weight: Array, fan_in: int) -> list[onnx.TensorProto]:
    # The output scale keeps values spread over the range instead of all saturated.
    scales = {"x_scale": 0.02, "w_scale": 0.01, "y_scale": 0.02 * 0.01 * 73 * 73 * fan_in**0.5 / 40}
    tensors = [numpy_helper.from_array(np.array(value, np.float32), name) for name, value in scales.items()]
    tensors += [numpy_helper.from_array(np.array(128, np.uint8), name) for name in ("x_zero", "y_zero")]
    tensors.append(numpy_helper.from_array(np.array(0, np.int8), "w_zero"))
    return [*tensors, numpy_helper.from_array(weight, "w")]


def _qlinear_matmul(load: Workload) -> Graph:
    (n,) = load.size
    node = helper.make_node("QLinearMatMul", ["x", *_QUANTIZATION], ["y"])
    port = Port("x", TensorProto.UINT8, (n, n))
    return _graph([node], [port], [port._replace(name="y")], _quantization(_int8((n, n)), n))


def _qlinear_conv(load: Workload) -> Graph:
    channels, side, kernel = load.size
    weight = _int8((channels, channels, kernel, kernel))
    names = ["x", *[f"t{i}" for i in range(1, CONVOLUTIONS)], "y"]
    nodes = [
        helper.make_node("QLinearConv", [before, *_QUANTIZATION], [after], pads=[kernel // 2] * 4)
        for before, after in itertools.pairwise(names)
    ]
    port = Port("x", TensorProto.UINT8, (1, channels, side, side))
    return _graph(nodes, [port], [port._replace(name="y")], _quantization(weight, channels * kernel * kernel))


# --- memory ---------------------------------------------------------------------------------

_PATTERNS = ("Neg", "Neg in place", "Add", "Cast", "Concat", "ReduceMax", "MatMul vector")
"""One read and one write apart, the same in place, two reads, a narrowing write, a plain copy (the
C library's, which may bypass the cache), almost only reads, and a matrix times a vector."""


def memory_workloads(ceiling: str, sizes: Sequence[int]) -> list[Workload]:
    """Every streaming pattern at every working-set size in bytes, under the ceiling's name."""
    found = []
    for size in sizes:
        for pattern in _PATTERNS:
            rows = max(int(size / (4 * COLUMNS * _UNITS[pattern])), 1)
            amount = rows * COLUMNS * _BYTES[pattern]
            if pattern == "MatMul vector":
                amount += 4 * (rows + COLUMNS)
            elif pattern == "ReduceMax":
                amount += 4 * rows
            task = Task(ceiling, f"{pattern} {_size_name(size)}", amount)
            found.append(Workload(task, pattern, (rows,)))
    return found


_UNITS = {"Neg": 2, "Neg in place": 1, "Add": 3, "Cast": 1.5, "Concat": 4, "ReduceMax": 1, "MatMul vector": 1}
"""Working set in fp32 tensors of rows x COLUMNS: what has to stay in a cache."""

_BYTES = {"Neg": 8, "Neg in place": 8, "Add": 12, "Cast": 6, "Concat": 16, "ReduceMax": 4, "MatMul vector": 4}
"""Bytes counted per element: every distinct tensor of the op once, as the cost model counts."""


def _size_name(size: int) -> str:
    return f"{size / 1e6:.3g} MB" if size >= 1e6 else f"{size / 1e3:.3g} kB"


def empty_chain(length: int, elements: int = 1, inputs: int = 1) -> Graph:
    """``length`` nodes in a row that do all but nothing: Neg, or Max of ``inputs`` tensors.

    The tensors have four dimensions, as most have in models: the profiler writes each down.
    """
    task = Task("launch", f"{inputs} inputs of {elements}", 0)
    load = Workload(task, "empty", (elements,))
    op_type = "Neg" if inputs == 1 else "Max"
    return _chain_graph(op_type, load, length, (1, 1, 1, elements), lambda _: [], more_inputs=inputs - 1)


def _neg(load: Workload) -> Graph:
    return _chain_graph("Neg", load, 1, (load.size[0], COLUMNS), lambda _: [])


def _neg_in_place(load: Workload) -> Graph:
    # The runtime reuses buffers this way inside a model; bound to one buffer, a single node shows it.
    return _neg(load)._replace(in_place=True)


def _add(load: Workload) -> Graph:
    port = Port("x", TensorProto.FLOAT, (load.size[0], COLUMNS))
    node = helper.make_node("Add", ["x", "x2"], ["y"])
    return _graph([node], [port, port._replace(name="x2")], [port._replace(name="y")])


def _cast(load: Workload) -> Graph:
    port = Port("x", TensorProto.FLOAT, (load.size[0], COLUMNS))
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT16)
    return _graph([node], [port], [Port("y", TensorProto.FLOAT16, port.shape)])


def _concat(load: Workload) -> Graph:
    port = Port("x", TensorProto.FLOAT, (load.size[0], COLUMNS))
    node = helper.make_node("Concat", ["x", "x2"], ["y"], axis=0)
    output = Port("y", TensorProto.FLOAT, (2 * load.size[0], COLUMNS))
    return _graph([node], [port, port._replace(name="x2")], [output])


def _reduce_max(load: Workload) -> Graph:
    (rows,) = load.size
    node = helper.make_node("ReduceMax", ["x"], ["y"], axes=[1], keepdims=0)
    return _graph([node], [Port("x", TensorProto.FLOAT, (rows, COLUMNS))], [Port("y", TensorProto.FLOAT, (rows,))])


def _vector_times_matrix(load: Workload) -> Graph:
    (n,) = load.size
    node = helper.make_node("MatMul", ["v", "x"], ["y"])
    inputs = [Port("v", TensorProto.FLOAT, (1, COLUMNS)), Port("x", TensorProto.FLOAT, (COLUMNS, n))]
    return _graph([node], inputs, [Port("y", TensorProto.FLOAT, (1, n))])


_BUILDERS = {
    "matmul": _matmul,
    "conv": _conv_graph,
    "matmul_integer": _matmul_integer,
    "qlinear_matmul": _qlinear_matmul,
    "qlinear_conv": _qlinear_conv,
    "Neg": _neg,
    "Neg in place": _neg_in_place,
    "Add": _add,
    "Cast": _cast,
    "Concat": _concat,
    "ReduceMax": _reduce_max,
    "MatMul vector": _vector_times_matrix,
}


# --- graphs ---------------------------------------------------------------------------------


def _chain_graph(
    op_type: str,
    load: Workload,
    length: int,
    shape: tuple[int, ...],
    weights: Callable[[int], list[onnx.TensorProto]],
    *,
    more_inputs: int = 0,
    **attributes: Any,
) -> Graph:
    names = ["x", *[f"t{i}" for i in range(1, length)], "y"]
    nodes, initializers = [], []
    for index in range(length):
        tensors = weights(index)
        initializers += tensors
        inputs = [names[index], *["x"] * more_inputs, *[t.name for t in tensors]]
        nodes.append(helper.make_node(op_type, inputs, [names[index + 1]], name=f"n{index}", **attributes))
    port = Port("x", load.element_type, shape)
    return _graph(nodes, [port], [port._replace(name="y")], initializers)


def _graph(
    nodes: list[onnx.NodeProto],
    inputs: list[Port],
    outputs: list[Port],
    initializers: Sequence[onnx.TensorProto] = (),
) -> Graph:
    def infos(ports: list[Port]) -> list[onnx.ValueInfoProto]:
        return [helper.make_tensor_value_info(p.name, p.element_type, p.shape) for p in ports]

    graph = helper.make_graph(nodes, "calibration", infos(inputs), infos(outputs), list(initializers))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    return Graph(model.SerializeToString(), tuple(inputs), tuple(outputs))


def _values(shape: tuple[int, ...], fan_in: int) -> Array:
    """Weights that keep the variance of a chain, so that no value overflows or turns denormal."""
    generator = np.random.default_rng(0)
    return generator.standard_normal(shape, dtype=np.float32) / np.float32(fan_in**0.5)


def _int8(shape: tuple[int, ...]) -> Array:
    return np.random.default_rng(0).integers(-127, 128, shape, dtype=np.int8)


def _tensor(name: str, values: Array, element_type: int) -> onnx.TensorProto:
    return numpy_helper.from_array(values.astype(helper.tensor_dtype_to_np_dtype(element_type)), name)
