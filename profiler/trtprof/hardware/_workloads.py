"""The small ONNX graphs whose speed is a ceiling, and what one run of each is worth.

FLOP, evaluations and bytes are counted as for a model: 2 per MAC, every distinct tensor once. A chain of equal nodes
makes what the runtime adds at the ends small beside the work; it can only lower the rate, never raise it. Ceilings are
``tensor DTYPE`` (multiply-accumulates), ``vector DTYPE`` (other arithmetic), ``special FUNCTION``, ``cache`` and
``dram``; a part shows what one kind of work reaches: ``gemm fp32 512``, ``conv fp32 3x3 64``, ``dram read``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx
import onnx.parser
from onnx import TensorProto, helper, numpy_helper

from trtprof.base.units import FLOP_PER_MAC
from trtprof.hardware._fit import Task

Array = npt.NDArray[Any]

OPSET = 17
IR_VERSION = 9  # Old enough for every supported runtime; the ops below have not changed their kernels since

CONVOLUTIONS = 6  # Length of a chain of convolutions

COLUMNS = 1024  # Row length of the streaming ops: 4 kB of fp32, so that rows split well over threads


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
    in_place: bool = False  # The output is to be bound to the buffer of the first input
    fill: float | None = None  # Value of the inputs at the first run; None where any will do


class Workload(NamedTuple):
    """A task and how to build the graph that times it."""

    task: Task
    kind: str
    size: tuple[int, ...]
    element_type: int = TensorProto.FLOAT
    fill: float | None = None

    def build(self) -> Graph:
        """The graph; one run of it is worth ``task.amount``."""
        return _BUILDERS.get(self.kind, _one_node)(self)


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
        dtype = DTYPE_OF[element_type]
        found += [Workload(_gemm("MatMul", dtype, n), "matmul", (n,), element_type) for n in GEMM_SIZES]
        if element_type in (TensorProto.FLOAT, TensorProto.FLOAT16):
            for channels, side, kernel in ((64, 56, 3), (128, 28, 3), (256, 14, 3), (256, 28, 1)):
                task = _conv("Conv", dtype, channels, side, kernel)
                found.append(Workload(task, "conv", (channels, side, kernel), element_type))
    for op_type, kind, sizes in (
        ("MatMulInteger", "matmul_integer", GEMM_SIZES),
        ("QLinearMatMul", "qlinear_matmul", (512, 1024)),
    ):
        found += [Workload(_gemm(op_type, "int8", n), kind, (n,), TensorProto.UINT8) for n in sizes]
    task = _conv("QLinearConv", "int8", 128, 28, 3)
    found.append(Workload(task, "qlinear_conv", (128, 28, 3), TensorProto.UINT8))
    return found


GEMM_SIZES = (256, 512, 1024, 2048, 4096)
"""Rows, columns and depth of the products; the race leaves out what takes too long here."""


def _gemm(op_type: str, dtype: str, n: int) -> Task:
    return Task(f"tensor {dtype}", f"{op_type} {n}x{n}x{n}", FLOP_PER_MAC * n**3, f"gemm {dtype} {n}")


def _conv(op_type: str, dtype: str, channels: int, side: int, kernel: int) -> Task:
    name = f"{op_type} {kernel}x{kernel} {channels}->{channels} {side}x{side}"
    flop = CONVOLUTIONS * FLOP_PER_MAC * channels * channels * kernel * kernel * side * side
    return Task(f"tensor {dtype}", name, flop, f"conv {dtype} {kernel}x{kernel} {channels} {side}x{side}")


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


# --- other arithmetic -----------------------------------------------------------------------

_POOL = (64, 68, 13)
"""Channels, rows and columns, and window of the poolings: the larger the window, the higher the rate."""


def vector_workloads(sizes: Sequence[int]) -> list[Workload]:
    """The ops with the highest rate of other arithmetic than multiply-accumulates, at each size in bytes.

    They do more than one FLOP to a value: pooling a whole window, quantisation 5, QLinearAdd 12.
    """
    found = []
    channels, side, window = _POOL
    for op_type in ("MaxPool", "AveragePool"):
        flop = channels * (side - window + 1) ** 2 * window**2
        task = Task("vector fp32", f"{op_type} {window}x{window} {channels} {side}x{side}", flop)
        found.append(Workload(task, op_type, _POOL))
    for size in sizes:
        for ceiling, op_type, flop, width, element_type in _VECTOR:
            rows = max(size // (COLUMNS * width), 1)
            task = Task(ceiling, f"{op_type} {_size_name(size)}", rows * COLUMNS * flop)
            found.append(Workload(task, op_type, (rows,), element_type))
    return found


_VECTOR = (
    ("vector fp32", "QuantizeLinear", 5, 5, TensorProto.FLOAT),
    ("vector fp32", "HardSigmoid", 4, 8, TensorProto.FLOAT),
    ("vector fp64", "Neg", 1, 16, TensorProto.DOUBLE),
    ("vector fp64", "Add", 1, 24, TensorProto.DOUBLE),
    ("vector int8", "QLinearAdd", 12, 3, TensorProto.UINT8),
)
"""Ceiling, op, FLOP and bytes moved per element, type of the input."""


def special_workloads(sizes: Sequence[int]) -> list[Workload]:
    """Every op of the runtime that evaluates a special function fast, at each size of its input in bytes."""
    found = []
    for index, size in enumerate(sizes):
        for function, op_type, fill, in_place in _SPECIAL:
            if index and function not in _VECTORIZED:
                continue
            quantized = op_type == "QLinearSigmoid"
            rows = max(size // (COLUMNS * (1 if quantized else 4)), 1)
            task = Task(f"special {function}", f"{op_type} {_size_name(size)}", rows * COLUMNS)
            kind = f"{op_type} in place" if in_place else op_type
            element_type = TensorProto.UINT8 if quantized else TensorProto.FLOAT
            found.append(Workload(task, kind, (rows,), element_type, fill))
    return found


_SPECIAL = (
    ("exp", "Exp", 0.0, True),
    ("exp", "Sigmoid", 0.0, True),
    ("exp", "Softmax", 0.0, False),
    ("exp", "QLinearSigmoid", None, False),
    ("tanh", "Tanh", 0.0, True),
    ("tanh", "FastGelu", 0.0, False),
    ("erf", "Erf", 0.0, True),
    ("erf", "Gelu", 0.0, False),
    ("sqrt", "Sqrt", 1.0, True),
    ("pow", "Pow", 1.0, True),
    ("log", "Log", 1.0, False),
    ("sin", "Sin", 0.0, True),
    ("cos", "Cos", 0.0, True),
    ("tan", "Tan", 0.0, True),
    ("asin", "Asin", 0.0, True),
    ("acos", "Acos", 1.0, False),
    ("atan", "Atan", 0.0, True),
    ("sinh", "Sinh", 0.0, True),
    ("cosh", "Cosh", 0.0, False),
    ("asinh", "Asinh", 0.0, True),
    ("acosh", "Acosh", 1.0, False),
    ("atanh", "Atanh", 0.0, True),
)
"""Function, op, value of the input, and whether it may run in place, where that value stays as good."""

_VECTORIZED = frozenset({"exp", "tanh", "erf", "sqrt", "pow"})  # Fast enough for the size to matter


# --- memory ---------------------------------------------------------------------------------

_PATTERNS = ("Neg", "Neg in place", "Add", "Cast", "Concat", "ReduceMax", "MatMul vector", "EyeLike")
"""One read and one write apart, the same in place, two reads, a narrowing write, a plain copy (the
C library's, which may bypass the cache), almost only reads, a matrix times a vector, and only writes
(zeros by the C library, which need not read a line before it writes it)."""

_PARTS = {
    "Neg": "copy", "Neg in place": "copy in place", "Concat": "copy", "Add": "add", "ReduceMax": "read",
    "MatMul vector": "read", "EyeLike": "write", "Cast": "cast",
}  # fmt: skip
"""What a pattern shows: copy and add as STREAM has them (J. McCalpin, 1995)."""


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
            task = Task(ceiling, f"{pattern} {_size_name(size)}", amount, f"{ceiling} {_PARTS[pattern]}")
            found.append(Workload(task, pattern, (rows,)))
    return found


_UNITS = {
    "Neg": 2, "Neg in place": 1, "Add": 3, "Cast": 1.5, "Concat": 4, "ReduceMax": 1, "MatMul vector": 1, "EyeLike": 1
}  # fmt: skip
"""Working set in fp32 tensors of rows x COLUMNS: what has to stay in a cache."""

_BYTES = {
    "Neg": 8, "Neg in place": 8, "Add": 12, "Cast": 6, "Concat": 16, "ReduceMax": 4, "MatMul vector": 4, "EyeLike": 4
}  # fmt: skip
"""Bytes counted per element: every distinct tensor of the op once, as the cost model counts."""


QUICK_SIZES = {(256,), (512,), (1024,), (64, 56, 3), (128, 28, 3)}
QUICK_PATTERNS = ("Neg", "Neg in place", "Add", "MatMul vector", "EyeLike")
"""What wins on two cores of an EPYC 9004, or lies within 5 % of what does; of memory, one of each pattern."""


def quick_workloads(cached: int, beyond: int) -> list[Workload]:
    """The few ways to each ceiling that a quick set tries, at one size in bytes within the cache and one beyond it."""
    products = compute_workloads(list(DTYPE_OF))
    found = [*(load for load in products if load.size in QUICK_SIZES), *special_workloads([cached])]
    memory = [*memory_workloads("cache", [cached]), *memory_workloads("dram", [beyond])]
    return [load for load in memory if load.kind in QUICK_PATTERNS] + [
        load._replace(task=load.task._replace(part="")) for load in found
    ]


def _size_name(size: int) -> str:
    return f"{size / 1e6:.3g} MB" if size >= 1e6 else f"{size / 1e3:.3g} kB"


def empty_chain(length: int, elements: int = 1, inputs: int = 1) -> Graph:
    """``length`` nodes in a row that do all but nothing: Neg, or Max of ``inputs`` tensors."""
    task = Task("launch", f"{inputs} inputs of {elements}", 0)
    load = Workload(task, "empty", (elements,))
    op_type = "Neg" if inputs == 1 else "Max"
    return _chain_graph(op_type, load, length, (1, 1, 1, elements), lambda _: [], more_inputs=inputs - 1)


_CONSTANTS = "<float s = {{0.02}}, uint8 z = {{128}}>"
_GRAPHS = {
    "Add": "({t}[{r},1024] x, {t}[{r},1024] x2) => ({t}[{r},1024] y) {{ y = Add(x, x2) }}",
    "Cast": "(float[{r},1024] x) => (float16[{r},1024] y) {{ y = Cast<to = 10>(x) }}",
    "Concat": "(float[{r},1024] x, float[{r},1024] x2) => (float[{twice},1024] y) {{ y = Concat<axis = 0>(x, x2) }}",
    "ReduceMax": "(float[{r},1024] x) => (float[{r}] y) {{ y = ReduceMax<axes = [1], keepdims = 0>(x) }}",
    "MatMul vector": "(float[1,1024] v, float[1024,{r}] x) => (float[1,{r}] y) {{ y = MatMul(v, x) }}",
    # Of its input only the shape is used; the single one lies at the end of the first row.
    "EyeLike": "(float[{r},1024] x) => (float[{r},1024] y) {{ y = EyeLike<k = 1023>(x) }}",
    "QuantizeLinear": "(float[{r},1024] x) => (uint8[{r},1024] y) " + _CONSTANTS + " {{ y = QuantizeLinear(x, s, z) }}",
    "QLinearAdd": "(uint8[{r},1024] x, uint8[{r},1024] x2) => (uint8[{r},1024] y) "
    + _CONSTANTS
    + " {{ y = com.microsoft.QLinearAdd(x, s, z, x2, s, z, s, z) }}",
    "QLinearSigmoid": "(uint8[{r},1024] x) => (uint8[{r},1024] y) <float s = {{0.05}}, uint8 z = {{128}}, "
    "float s2 = {{0.00390625}}, uint8 z2 = {{0}}> {{ y = com.microsoft.QLinearSigmoid(x, s, z, s2, z2) }}",
    "Pow": "(float[{r},1024] x) => (float[{r},1024] y) <float two = {{2.0}}> {{ y = Pow(x, two) }}",
    "FastGelu": "(float[{r},1024] x) => (float[{r},1024] y) {{ y = com.microsoft.FastGelu(x) }}",
    "Gelu": "(float[{r},1024] x) => (float[{r},1024] y) {{ y = com.microsoft.Gelu(x) }}",
}
"""Graphs of one node in ONNX' text form: ``r`` rows of `COLUMNS`, ``t`` the type of the input."""
_UNARY = "({t}[{r},1024] x) => ({t}[{r},1024] y) {{ y = {op}(x) }}"
_TYPES: dict[int, str] = {TensorProto.FLOAT: "float", TensorProto.DOUBLE: "double", TensorProto.UINT8: "uint8"}


def _one_node(load: Workload) -> Graph:
    (rows,) = load.size
    op_type = load.kind.removesuffix(" in place")
    text = _GRAPHS.get(op_type, _UNARY).format(r=rows, twice=2 * rows, t=_TYPES[load.element_type], op=op_type)
    graph = onnx.parser.parse_graph(f"calibration {text}")
    # The runtime reuses buffers this way inside a model; bound to one buffer, a single node shows it.
    in_place = load.kind != op_type or op_type == "EyeLike"
    return _model(graph)._replace(in_place=in_place, fill=load.fill)


def _pool(load: Workload) -> Graph:
    channels, side, window = load.size
    left = side - window + 1
    node = f"{load.kind}<kernel_shape = [{window}, {window}]>(x)"
    ports = f"(float[1,{channels},{side},{side}] x) => (float[1,{channels},{left},{left}] y)"
    return _model(onnx.parser.parse_graph(f"calibration {ports} {{ y = {node} }}"))


_BUILDERS = {
    "matmul": _matmul,
    "conv": _conv_graph,
    "matmul_integer": _matmul_integer,
    "qlinear_matmul": _qlinear_matmul,
    "qlinear_conv": _qlinear_conv,
    "MaxPool": _pool,
    "AveragePool": _pool,
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
    nodes: list[onnx.NodeProto], inputs: list[Port], outputs: list[Port], initializers: Sequence[onnx.TensorProto] = ()
) -> Graph:
    def infos(ports: list[Port]) -> list[onnx.ValueInfoProto]:
        return [helper.make_tensor_value_info(p.name, p.element_type, p.shape) for p in ports]

    return _model(helper.make_graph(nodes, "calibration", infos(inputs), infos(outputs), list(initializers)))


def _model(graph: onnx.GraphProto) -> Graph:
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
    return Graph(model.SerializeToString(), tuple(map(_port, graph.input)), tuple(map(_port, graph.output)))


def _port(info: onnx.ValueInfoProto) -> Port:
    tensor = info.type.tensor_type
    return Port(info.name, tensor.elem_type, tuple(dim.dim_value for dim in tensor.shape.dim))


def _values(shape: tuple[int, ...], fan_in: int) -> Array:
    """Weights that keep the variance of a chain, so that no value overflows or turns denormal."""
    generator = np.random.default_rng(0)
    return generator.standard_normal(shape, dtype=np.float32) / np.float32(fan_in**0.5)


def _int8(shape: tuple[int, ...]) -> Array:
    return np.random.default_rng(0).integers(-127, 128, shape, dtype=np.int8)


def _tensor(name: str, values: Array, element_type: int) -> onnx.TensorProto:
    return numpy_helper.from_array(values.astype(helper.tensor_dtype_to_np_dtype(element_type)), name)
