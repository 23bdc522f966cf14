"""Tasks at random for each template: dims that are named, odd or 1, dtypes, axes, broadcasts, ops around."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

import numpy as np
from onnx import NodeProto

from tests.fakes.kernel_tasks import Specs, node, task
from trtprof.base.records import Dim
from trtprof.plugin.reference import numpy_dtype
from trtprof.plugin.task import Task

FLOATS = {"fp32": 1, "fp16": 10, "bf16": 16}
"""ONNX's numbers of dtypes."""
SIZES = (
    1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 96, 100, 127, 128, 129, 200, 256, 257, 384, 500,
)  # fmt: skip
LONG = (768, 1000, 1024, 1025, 2049, 5000)
UNARY = ("Relu", "Sigmoid", "Tanh", "Abs", "Neg", "Exp", "Sqrt", "Erf", "Gelu", "HardSwish", "Softplus", "Floor")
BINARY = ("Add", "Sub", "Mul", "Div", "Max", "Min")


def _dtype(random: Random) -> str:
    return random.choice(["fp32", "fp16", "fp16", "bf16"])


def _size(random: Random, most: int = 512) -> int:
    return random.choice([one for one in (*SIZES, *LONG) if one <= most])


def _behind(random: Random, x: str, dtype: str, dims: Sequence[Dim], least: int = 0) -> tuple[list[NodeProto], Specs]:
    """Element-wise nodes from ``x`` to ``y``, and what else they read."""
    nodes: list[NodeProto] = []
    inputs: dict[str, tuple[str, Sequence[Dim]]] = {}
    count = random.randint(least, 3)
    for step in range(count):
        to = "y" if step == count - 1 else f"e{step}"
        if random.random() < 0.5:
            nodes.append(node(random.choice(UNARY), x, to))
        else:
            inputs[f"o{step}"] = (dtype, random.choice([dims, dims[-1:], (), [1] * len(dims[:-1]) + [*dims[-1:]],
                                                        [*dims[:-1], *[1] * bool(dims)]]))  # fmt: skip
            pair = [x, f"o{step}"]
            random.shuffle(pair)
            nodes.append(node(random.choice(BINARY), " ".join(pair), to))
        x = to
    return nodes or [node("Identity", x)], inputs


def gemv(random: Random) -> Task:
    """A thin product of floats or of bytes with scales, and ops behind it."""
    dtype = _dtype(random)
    depth, thin, wide = _size(random), random.choice([1, 1, 1, 2, 3, 5, 8, 16]), _size(random, 257)
    batch: tuple[Dim, ...] = random.choice([(), ("n",), (_size(random, 8),)])
    left, right = (thin, wide) if random.random() < 0.5 else (wide, thin)
    b: tuple[Dim, ...] = (*batch, depth, right) if batch and random.random() < 0.5 else (depth, right)
    behind, more = _behind(random, "p", dtype, (*batch, left, right))
    nodes = [node("MatMul", "a b", "p"), *behind]
    stored: Specs = {"b": (dtype, b)}
    if random.random() < 0.25:
        stored = {"q": ("int8", b), "scale": (dtype, (right,))}
        nodes.insert(0, node("DequantizeLinear", "q scale", "b", axis=len(b) - 1))
    inputs: Specs = {"a": (dtype, (*batch, left, depth)), **stored, **more}
    return task(nodes, inputs, {"y": (dtype, (*batch, left, right))}, weights="q scale", main="MatMul")


def depthwise(random: Random) -> Task:
    """A convolution that keeps channels apart."""
    dtype = _dtype(random)
    channels, side, kernel = _size(random, 17), _size(random, 33), random.choice([1, 3, 5])
    stride, pad = random.choice([1, 1, 2]), random.randint(0, kernel // 2)
    side = max(side, kernel)
    result = (side + 2 * pad - kernel) // stride + 1
    inputs: dict[str, tuple[str, Sequence[Dim]]] = {
        "x": (dtype, ("n", channels, side, side)), "w": (dtype, (channels, 1, kernel, kernel)),
    }  # fmt: skip
    if random.random() < 0.7:
        inputs["bias"] = (dtype, (channels,))
    how: dict[str, Any] = {"pads": [pad] * 4, "strides": [stride] * 2, "kernel_shape": [kernel] * 2}
    conv = node("Conv", " ".join(inputs), group=channels, **how)
    return task([conv], inputs, {"y": (dtype, ("n", channels, result, result))})


def softmax(random: Random) -> Task:
    """Along an axis, alone or behind a mask and a scale."""
    dtype, columns = _dtype(random), _size(random, 5000)
    dims: tuple[Dim, ...]
    if random.random() < 0.5:
        dims = random.choice([("B", columns), (2, "B", columns), (2, 3, columns), ("B", "S"), ("B", 5, "S")])
        axis = random.choice([-1, -1, 0, len(dims) - 2])
        op, opset = random.choice(["Softmax", "LogSoftmax"]), random.choice([13, 22])
        return task([node(op, "x", "y", axis=axis)], {"x": (dtype, dims)}, {"y": (dtype, dims)}, opset=opset)
    columns = min(columns, 257)
    dims = ("B", 3, 5, columns)
    mask: tuple[Dim, ...] = random.choice(
        [("B", 1, 1, columns), (1, 1, 5, columns), ("B", 1, 5, 1), (columns,), dims, ()]
    )
    if random.random() < 0.5:
        nodes = [node("Mul", "x s", "a"), node("Add", "a m", "b"), node("Softmax", "b", "y", axis=-1)]
        return task(nodes, {"x": (dtype, dims), "s": (dtype, ()), "m": (dtype, mask)}, {"y": (dtype, dims)})
    nodes = [node("Where", "m x low", "b"), node("Softmax", "b", "y", axis=-1)]
    low = np.array(-np.inf, numpy_dtype(dtype))
    return task(nodes, {"x": (dtype, dims), "m": ("bool", mask)}, {"y": (dtype, dims)}, constants={"low": low})


def norm(random: Random) -> Task:
    """As an op or spelled out, with a residual or an activation."""
    dtype, columns = _dtype(random), _size(random, 5000)
    dims: tuple[Dim, ...] = (*random.choice([("B",), (3, 2), ("B", 4)]), columns)
    scale: Specs = {"g": (dtype, (columns,)), "b": (dtype, (columns,))}
    match random.randrange(4):
        case 0:
            nodes = [node("Add", "x r", "s"), node("RMSNormalization", "s g", "y", axis=-1, epsilon=1e-3)]
            inputs: Specs = {"x": (dtype, dims), "r": (dtype, dims), "g": (dtype, (columns,))}
            return task(nodes, inputs, {"y": (dtype, dims), "s": (dtype, dims)}, opset=23)
        case 1:
            nodes = [node("Add", "x r", "s"), node("LayerNormalization", "s g b", "n", axis=-1), node("Tanh", "n", "y")]
            return task(nodes, {"x": (dtype, dims), "r": (dtype, (columns,)), **scale}, {"y": (dtype, dims)})
        case 2:
            columns = min(columns, 257)
            shape, inner = (2, 3, columns), (3, columns)
            nodes = [node("LayerNormalization", "x g", "y", axis=-2)]
            return task(nodes, {"x": (dtype, shape), "g": (dtype, inner)}, {"y": (dtype, shape)})
        case _:
            nodes = [
                node("ReduceMean", "x axes", "m"), node("Sub", "x m", "d"), node("Pow", "d two", "p"),
                node("ReduceMean", "p axes", "v"), node("Add", "v small", "e"), node("Sqrt", "e", "q"),
                node("Div", "d q", "n"), node("Mul", "n g", "f"), node("Add", "f b", "y"),
            ]  # fmt: skip
            kind = numpy_dtype(dtype)
            constants = {"axes": [-1], "two": np.array(2, kind), "small": np.array(1e-5, kind)}
            return task(nodes, {"x": (dtype, dims), **scale}, {"y": (dtype, dims)}, constants=constants)


def reduce(random: Random) -> Task:
    """Any reduction over any axes, with a product before and an op behind."""
    op = random.choice(
        ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare",
         "ReduceLogSum", "ReduceLogSumExp"]
    )  # fmt: skip
    real = op in ("ReduceMean", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp")
    dtype = random.choice([*FLOATS, *([] if real else ["int32", "int64"])])
    choices: list[Dim] = ["A", "B", 1, 2, 3, 5, 8, 17, 33, 64, 100]
    dims = random.choices([*choices, _size(random)], k=random.randint(1, 4))
    if op in ("ReduceMax", "ReduceMin"):  # the reference knows none of nothing
        dims = [3 if isinstance(one, str) else one for one in dims]
    axes = sorted(random.sample(range(len(dims)), random.randint(1, len(dims))))
    keep = random.random() < 0.5
    out = [1 if axis in axes else one for axis, one in enumerate(dims) if keep or axis not in axes]
    nodes, last = [], "x"
    inputs: dict[str, tuple[str, Sequence[Dim]]] = {"x": (dtype, dims)}
    if random.random() < 0.6:
        inputs["w"] = (dtype, random.choice([dims, [random.choice([1, one]) for one in dims]]))
        nodes, last = [node("Mul", "x w", "p")], "p"
    behind, more = _behind(random, "t", dtype, out) if dtype in FLOATS else ([node("Abs", "t")], {})
    nodes += [node(op, f"{last} axes", "t", keepdims=int(keep)), *behind]
    return task(nodes, {**inputs, **more}, {"y": (dtype, out)}, constants={"axes": axes}, main=op)


def pointwise(random: Random) -> Task:
    """A chain in one dtype, or operands of all float dtypes, each broadcast in some way."""
    choices: list[Dim] = ["A", "B", 1, 2, 3, 5, 8, 16, 17, 33, 64]
    dims = random.choices(choices, k=random.randint(0, 4))
    if dims and random.random() < 0.5:
        alike = _dtype(random)
        behind, more = _behind(random, "x", alike, dims, 1)
        return task(behind, {"x": (alike, dims), **more}, {"y": (alike, dims)})
    inputs: dict[str, tuple[str, list[Dim]]] = {}
    nodes, last = [], ""
    for place in range(random.randint(1, 4)):
        shape = [random.choice([1, one, one]) for one in dims][random.choice([0, 0, 1]) :] if place else dims
        inputs[f"x{place}"] = (random.choice(list(FLOATS)), shape)
        nodes.append(node("Cast", f"x{place}", f"f{place}", to=1))
        if last:
            op = random.choice(["Add", "Sub", "Mul", "Max", "Min"])
            nodes.append(node(op, f"{last} f{place}", f"t{place}"))
        last = f"t{place}" if last else f"f{place}"
    dtype = random.choice(list(FLOATS))
    nodes += [
        node("Tanh", last, "h"),
        node("Cast", "h", "y", to=FLOATS[dtype]),
        node("Greater", f"{last} zero", "q"),
    ]
    return task(nodes, inputs, {"y": (dtype, dims), "q": ("bool", dims)}, constants={"zero": np.float32(0)})


def copy(random: Random) -> Task:
    """Transposes and gathers of elements of any width."""
    dtype = random.choice(["uint8", "fp16", "fp32", "int64"])
    choices: list[Dim] = ["A", "B", 1, 2, 3, 5, 8, 16, 33, 70]
    dims = random.choices(choices, k=random.randint(1, 4))
    if random.random() < 0.7:
        order = random.sample(range(len(dims)), len(dims))
        return task(
            [node("Transpose", "x", "y", perm=order)],
            {"x": (dtype, dims)},
            {"y": (dtype, [dims[axis] for axis in order])},
        )
    axis = random.randrange(len(dims))
    dims[axis] = _size(random)
    out = [*dims[:axis], "S", 3, *dims[axis + 1 :]]
    nodes = [node("Gather", "x n", "y", axis=axis)]
    return task(nodes, {"x": (dtype, dims), "n": (random.choice(["int32", "int64"]), ["S", 3])}, {"y": (dtype, out)})


DRAWN: Mapping[str, Callable[[Random], Task]] = {
    "gemv": gemv, "depthwise": depthwise, "softmax": softmax, "norm": norm, "reduce": reduce, "copy": copy,
    "pointwise": pointwise,
}  # fmt: skip
"""By the template that writes them."""
