"""Random valid small models of the ops that rewrites look at, many of them in the forms that rewrites look for.

A model is drawn from a `random.Random`, so that a seed names it. Values stay near one, and no function is drawn that
jumps where its argument moves a little, so that outputs of two graphs that mean the same differ by rounding alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSETS = (11, 12, 13, 15, 17, 18, 19, 20, 21, 23, 23)
MOST_ELEMENTS = 1500
FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE)

Array = npt.NDArray[Any]


class Drawn(NamedTuple):
    """A model, inputs that it takes (random ones, zeros, ones), and inputs of other lengths that it may take."""

    model: onnx.ModelProto
    feeds: tuple[dict[str, Array], ...]
    others: tuple[dict[str, Array], ...] = ()


class Builder:
    """A graph while it is drawn; every value has a shape and a type that are known."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.opset = random.choice(OPSETS)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, Array] = {}
        self.inputs: dict[str, str] = {}
        self.kinds: dict[str, tuple[tuple[int, ...], int]] = {}
        self.extra: set[str] = set()
        self._count = 0

    # --- drawing ---------------------------------------------------------------------------------

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def fresh(self, stem: str) -> str:
        self._count += 1
        return f"{stem}{self._count}"

    def shape(self, value: str) -> tuple[int, ...]:
        return self.kinds[value][0]

    def dtype(self, value: str) -> int:
        return self.kinds[value][1]

    def input(self, shape: Sequence[int], dtype: int = TensorProto.FLOAT) -> str:
        name = self.fresh("x")
        self.kinds[name] = (tuple(shape), dtype)
        self.inputs[name] = f"N_{name}" if self.chance(0.3) and shape else ""
        return name

    def const(self, array: Any, dtype: int = TensorProto.FLOAT) -> str:
        """A constant: an initializer or a Constant node, sometimes one that is there already."""
        array = np.asarray(array, helper.tensor_dtype_to_np_dtype(dtype))
        if self.chance(0.3):
            for name, other in self.constants.items():
                if other.dtype == array.dtype and other.shape == array.shape and np.array_equal(other, array):
                    return name
        name = self.fresh("c")
        self.kinds[name] = (array.shape, dtype)
        if array.size < 10 and self.chance(0.5):
            tensor = numpy_helper.from_array(array, name)
            self.nodes.append(helper.make_node("Constant", [], [name], value=tensor, name=f"Constant_{name}"))
        else:
            self.constants[name] = array
        return name

    def weights(self, *shape: int, dtype: int = TensorProto.FLOAT, scale: float = 1.0) -> str:
        generator = np.random.default_rng(self.random.randrange(2**16))
        return self.const(generator.uniform(-1.5, 1.5, shape) * scale, dtype)

    def whole(self, *numbers: int) -> str:
        return self.const(np.asarray(numbers, np.int64), TensorProto.INT64)

    def near(self, number: float, like: str) -> str:
        """A constant of a pattern, which now and then is another one, or has other dimensions."""
        if self.chance(0.04):
            number *= 1.5
        shape = self.random.choice([(), (), (), (1,), (1,) * len(self.shape(like))])
        return self.const(np.full(shape, number), self.dtype(like))

    # --- nodes -----------------------------------------------------------------------------------

    def op(
        self, op_type: str, inputs: Sequence[str], shape: Sequence[int], dtype: int | None = None, **attributes: Any
    ) -> str:
        """A node of one output."""
        return self.ops(op_type, inputs, [shape], dtype, **attributes)[0]

    def ops(
        self, op_type: str, inputs: Sequence[str], shapes: Sequence[Sequence[int]], dtype: int | None = None,
        **attributes: Any,
    ) -> list[str]:  # fmt: skip
        names = [self.fresh("v") for _ in shapes]
        self.nodes.append(helper.make_node(op_type, inputs, names, name=f"{op_type}_{names[0]}", **attributes))
        for name, shape in zip(names, shapes, strict=True):
            self.kinds[name] = (tuple(shape), self.dtype(inputs[0]) if dtype is None else dtype)
            if self.chance(0.04):
                self.extra.add(name)
        return names

    def two(self, op_type: str, one: str, other: str, dtype: int | None = None) -> str:
        """An op on elements of two values, in either order where it does not matter."""
        pair = [other, one] if op_type in ("Add", "Mul", "Max", "Min") and self.chance(0.3) else [one, other]
        shape = np.broadcast_shapes(self.shape(one), self.shape(other))
        return self.op(op_type, pair, shape, self.dtype(one) if dtype is None else dtype)

    def one(self, op_type: str, value: str, **attributes: Any) -> str:
        return self.op(op_type, [value], self.shape(value), **attributes)

    def transpose(self, value: str, perm: Sequence[int]) -> str:
        return self.op("Transpose", [value], [self.shape(value)[place] for place in perm], perm=list(perm))

    def reshape(self, value: str, shape: Sequence[int]) -> str:
        return self.op("Reshape", [value, self.whole(*shape)], shape)

    def over(self, op_type: str, value: str, axes: Sequence[int], *, keepdims: int = 1) -> str:
        """A reduction, with its axes where the opset has them."""
        places = {axis % len(self.shape(value)) for axis in axes}
        shape = [1 if place in places else dim for place, dim in enumerate(self.shape(value))
                 if keepdims or place not in places]  # fmt: skip
        if self.opset < (13 if op_type == "ReduceSum" else 18):
            return self.op(op_type, [value], shape, axes=list(axes), keepdims=keepdims)
        return self.op(op_type, [value, self.whole(*axes)], shape, keepdims=keepdims)

    def axes_moved(self, op_type: str, value: str, axes: Sequence[int], shape: Sequence[int]) -> str:
        if self.opset < 13:
            return self.op(op_type, [value], shape, axes=list(axes))
        return self.op(op_type, [value, self.whole(*axes)], shape)

    def slice(self, value: str, axis: int, start: int, end: int) -> str:
        shape = list(self.shape(value))
        shape[axis] = len(range(shape[axis])[start:end])
        places = [self.whole(number) for number in (start, end, axis)]
        return self.op("Slice", [value, *places], shape)

    def concat(self, values: Sequence[str], axis: int) -> str:
        shape = list(self.shape(values[0]))
        shape[axis] = sum(self.shape(value)[axis] for value in values)
        return self.op("Concat", values, shape, axis=axis)

    def split(self, value: str, axis: int, sizes: Sequence[int]) -> list[str]:
        shapes = [[size if place == axis else dim for place, dim in enumerate(self.shape(value))] for size in sizes]
        if self.opset < 13:
            return self.ops("Split", [value], shapes, axis=axis, split=list(sizes))
        return self.ops("Split", [value, self.whole(*sizes)], shapes, axis=axis)

    def cast(self, value: str, to: int) -> str:
        return self.op("Cast", [value], self.shape(value), to, to=to)

    def matmul(self, one: str, other: str) -> str:
        left, right = self.shape(one), self.shape(other)
        batch = np.broadcast_shapes(left[:-2], right[:-2])
        return self.op("MatMul", [one, other], (*batch, left[-2], right[-1]))


# --- steps: each takes a value and leaves another, or None where it does not suit -----------------

Step = Callable[[Builder, str], str | None]
UNARY = ("Relu", "Neg", "Abs", "Tanh", "Sigmoid", "Erf", "Identity", "Softplus", "LeakyRelu", "Sin")


def unary(b: Builder, x: str) -> str | None:
    op_type = b.random.choice(UNARY)
    if b.dtype(x) == TensorProto.DOUBLE and op_type in ("Erf", "Softplus", "LeakyRelu"):
        return None
    return b.one(op_type, x)


def with_constant(b: Builder, x: str) -> str | None:
    op_type = b.random.choice(("Add", "Sub", "Mul", "Div", "Max", "Min"))
    if op_type in ("Max", "Min") and b.dtype(x) == TensorProto.FLOAT16 and b.opset < 13:
        return None
    rank = len(b.shape(x))
    keeps = b.shape(x)[rank - b.random.randint(0, rank) :]
    shape = tuple(1 if b.chance(0.3) else dim for dim in keeps)
    if b.chance(0.05):
        shape = (1,) * (rank + 1)
    if op_type == "Div":
        return b.two(op_type, x, b.const(np.full(shape, b.random.choice([2.0, 4.0, 3.0, 0.7, -8.0])), b.dtype(x)))
    if op_type == "Mul" and b.chance(0.2):
        return b.two(op_type, x, b.const(np.full(shape, b.random.choice([1.0, 0.0, 2.0])), b.dtype(x)))
    return b.two(op_type, x, b.weights(*shape, dtype=b.dtype(x)))


def power(b: Builder, x: str) -> str | None:
    exponent = b.random.choice([2.0, 2.0, 3.0, 1.0, 0.0, 4.0])
    if b.dtype(x) == TensorProto.DOUBLE:
        return None
    if b.chance(0.15):
        return b.two("Pow", b.two("Add", b.one("Abs", x), b.const(0.5, b.dtype(x))), b.const(0.5, b.dtype(x)))
    return b.two("Pow", b.one("Tanh", x) if b.chance(0.5) else x, b.near(exponent, x))


def with_itself(b: Builder, x: str) -> str | None:
    return b.two(b.random.choice(("Add", "Mul")), x, b.one("Sigmoid", x) if b.chance(0.5) else x)


def square_matmul(b: Builder, x: str) -> str | None:
    shape = b.shape(x)
    if len(shape) < 2:
        return None
    columns = b.random.randint(1, 5)
    batch = shape[:-2] if b.chance(0.3) else ()
    return b.matmul(x, b.weights(*batch, shape[-1], columns, dtype=b.dtype(x), scale=1 / math.sqrt(shape[-1])))


def gemv(b: Builder, x: str) -> str | None:
    shape = b.shape(x)
    if len(shape) < 2:
        return None
    if b.chance(0.5):
        other = b.input(
            (*shape[:-2], shape[-1], 1) if b.chance(0.5) else (*shape[:-2], shape[-1], b.random.randint(1, 3))
        )
    else:
        other = b.transpose(x, [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2])
        if b.shape(x)[-2] > 1 and b.chance(0.5):
            other = b.over("ReduceMean", other, [-1])
    if b.dtype(other) != b.dtype(x):
        return None
    return b.two("Mul", b.matmul(x, other), b.const(1 / shape[-1], b.dtype(x)))


def one_row(b: Builder, x: str) -> str | None:
    shape = b.shape(x)
    if not shape or b.dtype(x) == TensorProto.DOUBLE:
        return None
    row = b.reshape(x, (1, math.prod(shape)))
    size = math.prod(shape)
    if size > 200:
        return None
    return b.matmul(row, b.weights(size, b.random.randint(1, 6), dtype=b.dtype(x), scale=1 / math.sqrt(size)))


def gemm(b: Builder, x: str) -> str | None:
    if len(b.shape(x)) != 2:
        return None
    ta, tb = b.random.randint(0, 1), b.random.randint(0, 1)
    rows, depth = b.shape(x)[::-1] if ta else b.shape(x)
    columns = b.random.randint(1, 5)
    w = b.weights(*((columns, depth) if tb else (depth, columns)), dtype=b.dtype(x), scale=1 / math.sqrt(depth))
    bias = [b.weights(columns, dtype=b.dtype(x))] if b.chance(0.6) else []
    alpha = b.random.choice([1.0, 1.0, 0.5])
    return b.op("Gemm", [x, w, *bias], (rows, columns), transA=ta, transB=tb, alpha=alpha)


def products_of_one(b: Builder, x: str) -> str | None:
    shape = b.shape(x)
    if len(shape) < 2 or math.prod(shape) > 400:
        return None
    parts = []
    for _ in range(b.random.randint(2, 3)):
        w = b.weights(shape[-1], b.random.choice([3, 4]), dtype=b.dtype(x), scale=1 / math.sqrt(shape[-1]))
        part = b.matmul(x, w)
        if b.chance(0.4):
            part = b.two("Add", part, b.weights(b.shape(part)[-1], dtype=b.dtype(x)))
        parts.append(part)
    return b.concat(parts, len(shape) - 1) if b.chance(0.7) else parts[0]


def conv(b: Builder, x: str) -> str | None:
    shape = b.shape(x)
    if len(shape) not in (3, 4) or b.dtype(x) == TensorProto.DOUBLE:
        return None
    spatial, channels = shape[2:], shape[1]
    groups = channels if b.chance(0.3) else 1
    out = groups * b.random.randint(1, 3)
    kernel = [1 if b.chance(0.4) else b.random.randint(1, min(3, dim)) for dim in spatial]
    stride = [b.random.choice([1, 1, 2]) for _ in spatial]
    pads = [0 if b.chance(0.6) else 1 for _ in spatial] * 2
    sizes = [(dim + 2 * pad - k) // s + 1 for dim, pad, k, s in zip(spatial, pads, kernel, stride, strict=False)]
    if min(sizes) < 1:
        return None
    scale = 1 / math.sqrt(math.prod(kernel) * channels / groups)
    inputs = [x, b.weights(out, channels // groups, *kernel, dtype=b.dtype(x), scale=scale)]
    if b.chance(0.5):
        inputs.append(b.weights(out, dtype=b.dtype(x)))
    y = b.op("Conv", inputs, (shape[0], out, *sizes), group=groups, strides=stride, pads=pads, kernel_shape=kernel)
    return batch_norm(b, y) if b.chance(0.4) else y


def conv_transpose(b: Builder, x: str) -> str | None:
    shape = b.shape(x)
    if len(shape) != 4 or b.dtype(x) != TensorProto.FLOAT or math.prod(shape) > 200:
        return None
    kernel, stride = b.random.choice([(2, 2), (1, 1), (3, 1), (3, 2)])
    sizes = [(dim - 1) * stride + kernel for dim in shape[2:]]
    out = b.random.randint(1, 3)
    w = b.weights(shape[1], out, kernel, kernel, scale=1 / math.sqrt(shape[1] * kernel))
    return b.op("ConvTranspose", [x, w], (shape[0], out, *sizes), strides=[stride] * 2, kernel_shape=[kernel] * 2)


def batch_norm(b: Builder, x: str) -> str | None:
    shape = b.shape(x)
    if len(shape) < 2 or b.dtype(x) == TensorProto.DOUBLE:
        return None
    parts = [b.weights(shape[1], dtype=b.dtype(x)) for _ in range(3)]
    variance = b.const(np.linspace(0.5, 2, shape[1]), b.dtype(x))
    return b.op("BatchNormalization", [x, *parts, variance], shape, epsilon=b.random.choice([1e-5, 1e-2]))


def pool(b: Builder, x: str) -> str | None:
    shape = b.shape(x)
    if len(shape) != 4 or b.dtype(x) != TensorProto.FLOAT:
        return None
    if b.chance(0.4):
        return b.op("GlobalAveragePool", [x], (*shape[:2], 1, 1))
    kernel = [min(2, dim) for dim in shape[2:]]
    sizes = [dim - k + 1 for dim, k in zip(shape[2:], kernel, strict=True)]
    return b.op(b.random.choice(("MaxPool", "AveragePool")), [x], (*shape[:2], *sizes), kernel_shape=kernel)


def transpose(b: Builder, x: str) -> str | None:
    perm = list(range(len(b.shape(x))))
    b.random.shuffle(perm)
    return b.transpose(x, perm) if perm else None


def transposed_pair(b: Builder, x: str) -> str | None:
    """Between two Transposes that may undo each other, something element by element."""
    perm = list(range(len(b.shape(x))))
    b.random.shuffle(perm)
    if len(perm) < 2:
        return None
    y: str | None = b.transpose(x, perm)
    for _ in range(b.random.randint(0, 3)):
        assert y is not None
        y = b.random.choice((unary, with_constant, with_itself, softmax))(b, y) or y
    back = [perm.index(place) for place in range(len(perm))]
    if b.chance(0.2):
        b.random.shuffle(back)
    return b.transpose(y, back) if y is not None and len(b.shape(y)) == len(back) else y


def other_shape(b: Builder, x: str) -> str | None:
    shape = b.shape(x)
    size = math.prod(shape)
    kind = b.random.choice(("reshape", "reshape", "flatten", "unsqueeze", "squeeze", "chain", "zero"))
    if kind == "reshape":
        first = b.random.choice([dim for dim in range(1, size + 1) if size % dim == 0])
        target = [first, size // first]
        y = b.op("Reshape", [x, b.whole(*([-1, target[1]] if b.chance(0.4) else target))], target)
    elif kind == "zero" and len(shape) > 2:
        y = b.op("Reshape", [x, b.whole(0, -1, shape[-1])], (shape[0], size // shape[0] // shape[-1], shape[-1]))
    elif kind == "flatten":
        axis = b.random.randint(0, len(shape))
        y = b.op("Flatten", [x], (math.prod(shape[:axis]), math.prod(shape[axis:])), axis=axis)
    elif kind == "squeeze" and 1 in shape:
        axis = shape.index(1)
        y = b.axes_moved("Squeeze", x, [axis], [*shape[:axis], *shape[axis + 1 :]])
    elif kind == "chain":
        y = b.reshape(b.reshape(x, (size,)), shape)
    elif len(shape) < 5:
        axis = b.random.randint(0, len(shape))
        y = b.axes_moved("Unsqueeze", x, [axis], [*shape[:axis], 1, *shape[axis:]])
        if b.chance(0.4):
            y = b.axes_moved("Squeeze", y, [axis], shape)
    else:
        return None
    return y


def softmax(b: Builder, x: str) -> str | None:
    rank = len(b.shape(x))
    if not rank:
        return None
    return b.one(b.random.choice(("Softmax", "Softmax", "LogSoftmax")), x, axis=b.random.randint(-rank, rank - 1))


def reduce(b: Builder, x: str) -> str | None:
    rank = len(b.shape(x))
    if not rank:
        return None
    axes = b.random.sample(range(rank), b.random.randint(1, min(2, rank)))
    op_type = b.random.choice(("ReduceMean", "ReduceSum", "ReduceMax"))
    return b.over(op_type, x, axes, keepdims=b.random.randint(0, 1))


def pieces(b: Builder, x: str) -> str | None:
    """Cut up, perhaps changed, and joined again."""
    wide = [axis for axis, dim in enumerate(b.shape(x)) if dim > 1]
    if not wide:
        return None
    axis = b.random.choice(wide)
    dim = b.shape(x)[axis]
    at = sorted(b.random.sample(range(1, dim), b.random.randint(1, min(2, dim - 1))))
    borders = [0, *at, dim]
    if b.chance(0.5):
        parts = b.split(x, axis, [end - start for start, end in pairwise(borders)])
    else:
        far = b.random.choice([dim, 2**31 - 1, 2**63 - 1])
        ends = [*borders[1:-1], far]
        parts = [b.slice(x, axis, start - dim if start and b.chance(0.2) else start, end)
                 for start, end in zip(borders, ends, strict=False)]  # fmt: skip
    if b.chance(0.2):
        b.random.shuffle(parts)
    if b.chance(0.2):
        place = b.random.randrange(len(parts))
        parts[place] = b.one("Neg", parts[place])
    elif b.chance(0.3):
        parts = [b.one("Tanh", part) for part in parts]
    if b.chance(0.1):
        parts.pop()
    return b.concat(parts, axis)


def gather(b: Builder, x: str) -> str | None:
    shape = b.shape(x)
    if not shape:
        return None
    axis = b.random.randrange(len(shape))
    dim = shape[axis]
    if b.chance(0.3):
        place = b.random.randrange(-dim, dim)
        return b.op("Gather", [x, b.const(np.asarray(place), TensorProto.INT64)], [*shape[:axis], *shape[axis + 1 :]],
                    axis=axis)  # fmt: skip
    start = b.random.randrange(dim)
    chosen = list(range(start, dim))[:: b.random.choice([1, 1, 2])]
    if b.chance(0.2):
        chosen = [b.random.randrange(-dim, dim) for _ in range(3)]
    if b.chance(0.1):
        chosen = chosen[::-1]
    return b.op("Gather", [x, b.whole(*chosen)], [*shape[:axis], len(chosen), *shape[axis + 1 :]], axis=axis)


def cast_pair(b: Builder, x: str) -> str | None:
    """There and back, or there alone."""
    own = b.dtype(x)
    to = b.random.choice([TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, own])
    y = b.cast(x, to)
    if b.chance(0.4):
        y = b.one("Relu", y) if to != TensorProto.DOUBLE else b.one("Neg", y)
    return b.cast(y, own) if own == TensorProto.FLOAT else b.cast(y, TensorProto.FLOAT)


def where(b: Builder, x: str) -> str | None:
    shape = b.shape(x)
    kind = b.random.choice(("all", "none", "some", "some"))
    full = shape[b.random.randint(0, len(shape)) :]
    mask = np.asarray([kind == "all" or (kind == "some" and b.chance(0.5)) for _ in range(math.prod(full))])
    condition = b.const(mask.reshape(full), TensorProto.BOOL)
    other = b.const(b.random.choice([0.0, -1e4, 1.0]), b.dtype(x)) if b.chance(0.6) else b.one("Neg", x)
    pair = [x, other] if b.chance(0.5) else [other, x]
    return b.op("Where", [condition, *pair], np.broadcast_shapes(full, shape), b.dtype(x))


def constants_alone(b: Builder, x: str) -> str | None:
    shape = b.shape(x)[-1:]
    made = b.two("Add", b.weights(*shape, dtype=b.dtype(x)), b.weights(*shape, dtype=b.dtype(x)))
    return b.two("Mul", x, b.one("Tanh", made) if b.chance(0.5) else made)


def gelu(b: Builder, x: str) -> str | None:
    if b.dtype(x) == TensorProto.DOUBLE:
        return None
    if b.opset >= 20 and b.chance(0.3):
        return b.one("Gelu", x, approximate=b.random.choice(["none", "tanh"]))
    if b.chance(0.5):
        root = math.sqrt(2)
        s = b.two("Div", x, b.near(root, x)) if b.chance(0.5) else b.two("Mul", x, b.near(1 / root, x))
        bent = b.one("Erf", s)
    else:
        cube = b.two("Pow", x, b.near(3.0, x)) if b.chance(0.5) else b.two("Mul", x, b.two("Mul", x, x))
        inner = b.two("Add", x, b.two("Mul", cube, b.near(0.044715, x)))
        bent = b.one("Tanh", b.two("Mul", inner, b.near(math.sqrt(2 / math.pi), x)))
    summed = b.two("Add", bent, b.near(1.0, x))
    half = b.near(0.5, x)
    if b.chance(0.5):
        return b.two("Mul", b.two("Mul", x, summed), half)
    if b.chance(0.5):
        return b.two("Mul", b.two("Mul", x, half), summed)
    return b.two("Mul", x, b.two("Mul", summed, half))


def normalisation(b: Builder, x: str) -> str | None:
    """Of a layer or by the root of the mean square, spelled out or as the op."""
    shape = b.shape(x)
    if not shape or b.dtype(x) == TensorProto.DOUBLE:
        return None
    count = b.random.randint(1, min(2, len(shape)))
    axes = [*range(-count, 0)]
    dims = shape[-count:]
    if b.dtype(x) == TensorProto.FLOAT and b.opset >= 17 and b.chance(0.3):
        scale, bias = b.weights(*dims), b.weights(*dims)
        if b.opset >= 23 and b.chance(0.5):
            return b.op("RMSNormalization", [x, scale], shape, axis=-count)
        return b.op("LayerNormalization", [x, scale, bias], shape, axis=-count)
    value = b.two("Sub", x, b.over("ReduceMean", x, axes)) if b.chance(0.6) else x
    square = b.two("Mul", value, value) if b.chance(0.5) else b.two("Pow", value, b.near(2.0, value))
    if b.chance(0.05):
        axes = [-1]
    root = b.one("Sqrt", b.two("Add", b.over("ReduceMean", square, axes), b.const(1e-2, b.dtype(x))))
    y = b.two("Div", value, root) if b.chance(0.7) else b.two("Mul", value, b.one("Reciprocal", root))
    if b.chance(0.7):
        y = b.two("Mul", y, b.weights(*(dims if b.chance(0.8) else (1,)), dtype=b.dtype(x)))
        if b.chance(0.7):
            y = b.two("Add", y, b.weights(*dims, dtype=b.dtype(x)))
    return y


def attention(b: Builder, x: str) -> str | None:
    """Queries, keys and values of one input, with heads."""
    shape = b.shape(x)
    if len(shape) != 3 or b.dtype(x) != TensorProto.FLOAT or math.prod(shape) > 200:
        return None
    batch, length, width = shape
    heads, size = 2, 3
    parts = []
    for perm in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)):
        made = b.matmul(x, b.weights(width, heads * size, scale=1 / math.sqrt(width)))
        parts.append(b.transpose(b.reshape(made, (batch, length, heads, size)), perm))
    scores = b.two("Mul", b.matmul(parts[0], parts[1]), b.near(1 / math.sqrt(size), parts[0]))
    if b.chance(0.5):
        scores = b.two("Add", scores, b.weights(*b.random.choice([(length, length), (1, 1, length, length), (1,)])))
    attended = b.matmul(b.one("Softmax", scores, axis=3), parts[2])
    return b.reshape(b.transpose(attended, (0, 2, 1, 3)), (batch, length, heads * size))


def branches(b: Builder, x: str) -> str | None:
    """An If whose branches read a value of the graph around them."""
    if b.dtype(x) != TensorProto.FLOAT:
        return None
    shape = b.shape(x)
    condition = b.const(b.chance(0.5), TensorProto.BOOL)
    if b.chance(0.7):
        condition = b.input((), TensorProto.BOOL)
    before, graphs = b.nodes, []
    for _ in range(2):
        b.nodes = []
        extra, y = set(b.extra), x
        for _ in range(b.random.randint(1, 2)):
            made = b.random.choice((unary, gelu, transposed_pair, cast_pair, power))(b, y)
            y = made if made is not None and b.shape(made) == shape and b.dtype(made) == TensorProto.FLOAT else y
        y = b.one("Neg", y)
        info = helper.make_tensor_value_info(y, TensorProto.FLOAT, shape)
        graphs.append(helper.make_graph(b.nodes, b.fresh("branch"), [], [info]))
        b.extra = extra
    b.nodes = before
    return b.op("If", [condition], shape, TensorProto.FLOAT, then_branch=graphs[0], else_branch=graphs[1])


def repeating(b: Builder, x: str) -> str | None:
    """A transposed convolution that repeats each point, or nearly so."""
    shape = b.shape(x)
    if len(shape) != 4 or b.dtype(x) != TensorProto.FLOAT or math.prod(shape) > 200:
        return None
    out = b.random.randint(1, 3)
    generator = np.random.default_rng(b.random.randrange(2**16))
    w = np.broadcast_to(generator.uniform(-1, 1, (shape[1], out, 1, 1)), (shape[1], out, 2, 2)).copy()
    if b.chance(0.2):
        w[0, 0, 0, 1] += 0.5
    sizes = [2 * dim for dim in shape[2:]]
    return b.op("ConvTranspose", [x, b.const(w)], (shape[0], out, *sizes), strides=[2, 2], kernel_shape=[2, 2])


def two_convolutions(b: Builder, x: str) -> str | None:
    """Through a number of channels that fills no vector."""
    shape = b.shape(x)
    if len(shape) != 4 or b.dtype(x) != TensorProto.FLOAT or math.prod(shape) > 300:
        return None
    channels = b.random.choice([9, 11, 12])
    y = b.op("Conv", [x, b.weights(channels, shape[1], 1, 1, scale=1 / math.sqrt(shape[1])), b.weights(channels)],
             (shape[0], channels, *shape[2:]))  # fmt: skip
    y = b.one(b.random.choice(UNARY), y)
    w = b.weights(2, channels, 1, 1, scale=1 / math.sqrt(channels))
    return b.op("Conv", [y, w], (shape[0], 2, *shape[2:]))


def thin_products(b: Builder, x: str) -> str | None:
    """A matrix of each entry of a batch times vectors, of which not every entry has its own."""
    shape = b.shape(x)
    if len(shape) < 3:
        return None
    batch = [1 if b.chance(0.5) else dim for dim in shape[:-2]]
    other = b.input((*batch, shape[-1], 1)) if b.chance(0.7) else b.weights(*batch, shape[-1], 1, dtype=b.dtype(x))
    if b.dtype(other) != b.dtype(x):
        return None
    return b.matmul(x, other)


def channels_last(b: Builder, x: str) -> str | None:
    """A product of channels that are moved last and back."""
    shape = b.shape(x)
    if len(shape) < 3:
        return None
    rank = len(shape)
    y = b.transpose(x, [0, *range(2, rank), 1])
    y = b.matmul(y, b.weights(shape[1], b.random.randint(1, 4), dtype=b.dtype(x), scale=1 / math.sqrt(shape[1])))
    if b.chance(0.5):
        y = b.two("Add", y, b.weights(b.shape(y)[-1], dtype=b.dtype(x)))
    return b.transpose(y, [0, rank - 1, *range(1, rank - 1)] if b.chance(0.9) else list(range(rank))[::-1])


def cut_product(b: Builder, x: str) -> str | None:
    """A product of which the parts go different ways."""
    shape = b.shape(x)
    if len(shape) < 2 or math.prod(shape) > 400:
        return None
    y = b.matmul(x, b.weights(shape[-1], 6, dtype=b.dtype(x), scale=1 / math.sqrt(shape[-1])))
    if b.chance(0.5):
        y = b.two("Add", y, b.weights(6, dtype=b.dtype(x)))
    axis = len(shape) - 1
    first, second = b.split(y, axis, (3, 3)) if b.chance(0.5) else (b.slice(y, axis, 0, 3), b.slice(y, axis, 3, 6))
    return b.two("Mul", b.one("Tanh", first), second)


STEPS: tuple[Step, ...] = (
    unary, with_constant, with_constant, power, with_itself, square_matmul, gemv, one_row, gemm, products_of_one, conv,
    conv, conv_transpose, batch_norm, pool, transpose, transposed_pair, other_shape, softmax, reduce, pieces, gather,
    cast_pair, where, constants_alone, gelu, normalisation, attention, branches, repeating, two_convolutions,
    thin_products, channels_last, cut_product, pieces, softmax, unary,
)  # fmt: skip


def drawn(random: Random) -> Drawn:
    """A model of one to eight steps."""
    b = Builder(random)
    rank = random.choice([1, 2, 2, 3, 3, 4, 4, 4])
    dtype = random.choice([TensorProto.FLOAT] * 8 + [TensorProto.FLOAT16, TensorProto.DOUBLE])
    pool_of = [b.input([random.randint(1, 5) for _ in range(rank)], dtype)]
    for _ in range(random.randint(1, 8)):
        x = pool_of[-1] if b.chance(0.7) else random.choice(pool_of)
        y = random.choice(STEPS)(b, x)
        if y is not None and math.prod(b.shape(y)) <= MOST_ELEMENTS and len(b.shape(y)) <= 5:
            pool_of.append(y)
    if not b.nodes or len(pool_of) == 1:
        pool_of.append(b.one("Neg", pool_of[0]))
    return _finished(b)


def _finished(b: Builder) -> Drawn:
    read = {name for node in b.nodes for name in node.input}
    made = [name for node in b.nodes if node.op_type != "Constant" for name in node.output]
    outputs = [name for name in made if name not in read or name in b.extra]
    is_open = any(b.inputs.values())
    inputs = [
        helper.make_tensor_value_info(
            name, b.dtype(name), [first, *b.shape(name)[1:]] if (first := dim) else b.shape(name)
        )
        for name, dim in b.inputs.items()
    ]
    graph = helper.make_graph(
        b.nodes,
        "drawn",
        inputs,
        [
            helper.make_tensor_value_info(
                name, b.dtype(name), [None] * len(b.shape(name)) if is_open else b.shape(name)
            )
            for name in outputs
        ],
        [numpy_helper.from_array(array, name) for name, array in b.constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", b.opset)], ir_version=10)
    generator = np.random.default_rng(b.random.randrange(2**16))
    feeds: tuple[dict[str, Array], ...] = ({}, {}, {})
    others: tuple[dict[str, Array], ...] = ({}, {}) if is_open else ()
    for name, dim in b.inputs.items():
        shape, dtype = b.kinds[name][0], helper.tensor_dtype_to_np_dtype(b.dtype(name))
        values = generator.uniform(-2, 2, shape)
        for some, array in zip(feeds, (values, np.zeros(shape), np.ones(shape)), strict=True):
            some[name] = np.asarray(array, dtype)
        # None is left out: ONNX Runtime reduces and multiplies tensors without elements to other shapes than it should.
        for some, length in zip(others, (1, 7), strict=False):
            some[name] = np.asarray(generator.uniform(-2, 2, (length, *shape[1:]) if dim else shape), dtype)
    return Drawn(model, feeds, others)
