"""What kernels are tried on: values, shapes, alignment, and the order in which warps take turns."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnx.numpy_helper

from trtprof.base.units import format_shape, is_float
from trtprof.plugin.reference import Array, numpy_dtype
from trtprof.plugin.task import Operand, Task

ODD = (0, 1, 2, 3, 5, 7, 17, 31, 33, 65, 127, 257)
"""Dimensions that leave something over for every width of a vector, a warp or a block."""
EDGES = (*ODD, 8, 32, 64, 128, 256)  # The same, and some that leave nothing
LONG = (300, 1030)  # More than a warp or a block takes at once, for one dimension at a time

SMALL = 20_000  # Elements of all operands of a trial that is executed quickly
MOST_SAID = 16  # Elements of a constant that says dimensions


class Trial(NamedTuple):
    """One execution of a kernel."""

    task: Task  # What is computed: the task, or the same with other sizes in place of its constant ones
    shapes: tuple[tuple[int, ...], ...]  # Of the inputs
    values: str = "normal"  # A key of `VALUES`
    shift: int = 0  # Elements by which pointers are moved off the alignment that an allocation has
    order: int = 0  # 0 executes warps side by side; others are seeds of orders in which some run ahead
    # Which pointer is moved, in the order of the inputs and the outputs; -1 of all. A kernel that looks at the
    # alignment of some of them alone is told by nothing else.
    only: int = -1

    @property
    def what(self) -> str:
        """In words."""
        shapes = " ".join(format_shape(shape) for shape in self.shapes)
        parts = [shapes, self.values]
        if self.shift:
            operands = [*self.task.inputs, *self.task.outputs]
            moved = operands[self.only].name if self.only >= 0 else "pointers"
            parts.append(f"{moved} shifted by {self.shift}")
        if self.order:
            parts.append(f"warps in order {self.order}")
        return ", ".join(parts)


class _Kind(NamedTuple):
    """The numbers that a dtype has."""

    dtype: np.dtype[Any]
    bits: int
    exponents: int  # Of values whose sums of products stay in range, on either side of 0
    largest: float
    normal: float


_KINDS: Mapping[str, _Kind] = {
    "fp32": _Kind(np.dtype(np.float32), 24, 24, 3.0e38, 2.0**-126),
    "fp16": _Kind(numpy_dtype("fp16"), 11, 5, 6.0e4, 2.0**-14),
    "bf16": _Kind(numpy_dtype("bf16"), 8, 24, 3.0e38, 2.0**-126),
    "fp64": _Kind(np.dtype(np.float64), 53, 24, 1.0e300, 2.0**-1022),
}


class _Wanted(NamedTuple):
    """Values that are asked for: in this shape, for this dtype, of the input at this place."""

    rng: np.random.Generator
    shape: tuple[int, ...]
    kind: _Kind
    place: int


Draw = Callable[[_Wanted], Array]  # To values in float64


def _normal(at: _Wanted) -> Array:
    return at.rng.standard_normal(at.shape)


def _uniform(at: _Wanted) -> Array:
    return at.rng.uniform(0.0, 1.0, at.shape)


def _wide(at: _Wanted) -> Array:
    return at.rng.choice([-1.0, 1.0], at.shape) * np.exp2(
        at.rng.uniform(-at.kind.exponents, at.kind.exponents, at.shape)
    )


def _cancelling(at: _Wanted) -> Array:
    """Neighbours along the last axis that cancel but for a small rest, times what is nearly constant."""
    if at.place:
        return 1.0 + at.rng.integers(0, 4, at.shape) * 2.0 ** (1 - at.kind.bits)
    found = 256.0 * at.rng.standard_normal(at.shape)
    if at.shape and at.shape[-1] > 1:
        even = at.shape[-1] // 2 * 2
        found[..., 1:even:2] = -found[..., 0:even:2] * (1.0 + 2.0 ** (2 - at.kind.bits))
    return found


def _equal(at: _Wanted) -> Array:
    return np.full(at.shape, at.rng.uniform(0.5, 2.0))


def _one_hot(at: _Wanted) -> Array:
    """One element of each row that is not 0, among others that are all told apart."""
    if at.place:
        return at.rng.standard_normal(at.shape)
    found = np.zeros(at.shape)
    if at.shape and found.size:
        rows = found.reshape(-1, at.shape[-1])
        rows[np.arange(len(rows)), at.rng.integers(0, at.shape[-1], len(rows))] = at.rng.standard_normal(len(rows))
    return found


def _large(at: _Wanted) -> Array:
    return at.rng.choice([-1.0, 1.0], at.shape) * at.kind.largest * at.rng.uniform(0.5, 1.0, at.shape)


def _denormal(at: _Wanted) -> Array:
    return at.kind.normal * at.rng.uniform(-1.0, 1.0, at.shape)


def _special(at: _Wanted) -> Array:
    """A few infinities, NaNs and negative zeros among others."""
    found = at.rng.standard_normal(at.shape)
    if found.size and not at.place:
        for one in (np.inf, -np.inf, np.nan, -0.0):
            found.reshape(-1)[at.rng.integers(0, found.size, max(found.size // 500, 1))] = one
    return found


VALUES: Mapping[str, Draw] = {
    "normal": _normal,
    "cancelling": _cancelling,
    "one-hot": _one_hot,
    "wide exponents": _wide,
    "equal": _equal,
    "infinite and NaN": _special,
    "large": _large,
    "denormal": _denormal,
    "uniform": _uniform,
}
"""Values that inputs are given, the most telling first."""

_CHEAP = 1 << 20  # Elements of which a longer array is made by repetition


def drawn(trial: Trial, seed: int) -> list[Array]:
    """The inputs of a trial, each in its dtype; the same for the same seed."""
    rng = np.random.default_rng(seed)
    return [
        _values(trial.task, operand, shape, trial.values, rng, place)
        for place, (operand, shape) in enumerate(zip(trial.task.inputs, trial.shapes, strict=True))
    ]


def _values(
    task: Task, operand: Operand, shape: tuple[int, ...], values: str, rng: np.random.Generator, place: int
) -> Array:
    size = math.prod(shape)
    if size > _CHEAP:
        period = _CHEAP - 3  # no power of two, so that rows differ
        return np.resize(_values(task, operand, (period,), values, rng, place), shape)
    if is_float(operand.dtype):
        kind = _KINDS[operand.dtype]
        found = np.asarray(VALUES[values](_Wanted(rng, shape, kind, place)))
        with np.errstate(all="ignore"):
            return found.astype(kind.dtype)
    dtype = numpy_dtype(operand.dtype)
    if operand.dtype == "bool":
        share = {"equal": 1.0, "one-hot": 0.05, "denormal": 0.0}.get(values, 0.6)
        return rng.random(shape) < share
    limits = np.iinfo(dtype)
    low, high = max(limits.min, -(2**20)), min(limits.max, 2**20)
    span = _indexed(task, operand)
    if span is not None:
        low, high = -span, span - 1
        if span == 0:
            return np.zeros(shape, dtype)
    elif dtype.itemsize > 1:
        low, high = max(low, -1000), min(high, 1000)
    if values == "equal":
        return np.full(shape, high, dtype)
    return rng.integers(low, high, shape, dtype=np.int64, endpoint=True).astype(dtype)


def _indexed(task: Task, operand: Operand) -> int | None:
    """Of an operand that is an index into another: how many elements that has on its axis, where it is known."""
    aliases = {operand.name}
    for node in task.body.node:
        if node.op_type in {"Cast", "Identity", "Reshape", "Unsqueeze", "Squeeze", "Flatten"}:
            if node.input[0] in aliases:
                aliases.add(node.output[0])
        elif node.op_type in {"Gather", "GatherElements"} and node.input[1] in aliases:
            axis = next((one.i for one in node.attribute if one.name == "axis"), 0)
            data = next((one for one in task.inputs if one.name == node.input[0]), None)
            if data is not None and isinstance(size := data.dims[axis], int):
                return size
            return 1
    return None


def sized(task: Task, sizes: Mapping[int, int]) -> Task:
    """A task with other numbers in place of those among its dimensions; 0 and 1 stay."""

    def one(operand: Operand) -> Operand:
        return replace(
            operand, dims=tuple(sizes.get(dim, dim) if isinstance(dim, int) else dim for dim in operand.dims)
        )

    return replace(task, inputs=tuple(map(one, task.inputs)), outputs=tuple(map(one, task.outputs)))


def numbers(task: Task) -> list[int]:
    """Numbers above 1 among its dimensions that may be others, the largest first."""
    found = {dim for operand in (*task.inputs, *task.outputs) for dim in operand.dims if isinstance(dim, int)}
    return sorted((one for one in found - _said(task) if one > 1), reverse=True)


def _said(task: Task) -> set[int]:
    """Whole numbers among the attributes of nodes and the small constants."""
    found: set[int] = set()
    for attribute in (one for node in task.body.node for one in node.attribute):
        if attribute.type == onnx.AttributeProto.INT:
            found.add(attribute.i)
        elif attribute.type == onnx.AttributeProto.INTS:
            found.update(attribute.ints)
        elif attribute.t.data_type == onnx.TensorProto.INT64 and math.prod(attribute.t.dims) <= MOST_SAID:
            found.update(int(one) for one in onnx.numpy_helper.to_array(attribute.t).reshape(-1))
    return found


def names(task: Task) -> list[str]:
    """Names among its dimensions."""
    return sorted({dim for operand in task.inputs for dim in operand.dims if isinstance(dim, str)})


def elements(task: Task, shapes: Sequence[Sequence[int]]) -> int:
    """Of all operands."""
    return sum(math.prod(shape) for shape in (*shapes, *task.output_shapes(shapes)))


def shrunk(task: Task, most: int = SMALL) -> Task:
    """A task that has no more elements: its largest dimensions are made less, one after the other."""
    sizes: dict[int, int] = {}
    for one in numbers(task):
        small = sized(task, sizes)
        count = elements(small, small.shapes({}))
        if count <= most:
            break
        sizes[one] = max((one * most // count - 1) | 1, 3)
    return sized(task, sizes)


def odd_sizes(task: Task, rng: np.random.Generator, most: int = SMALL) -> tuple[Task, dict[str, int]]:
    """A task with odd sizes in place of its constant ones, and odd ones for its names."""
    for _ in range(50):
        sizes = {one: int(rng.choice(ODD[1:])) for one in numbers(task)}
        given = {name: int(rng.choice(EDGES)) for name in names(task)}
        found = sized(task, sizes)
        if elements(found, found.shapes(given)) <= most:
            return found, given
    return sized(task, dict.fromkeys(numbers(task), 3)), dict.fromkeys(names(task), 3)


def trials(task: Task, seed: int) -> Iterator[Trial]:
    """Trials without an end, the most telling first; the same for the same seed."""
    rng = np.random.default_rng(seed)
    small = shrunk(task)
    usual = dict.fromkeys(names(task), 7)
    count = len(task.inputs) + len(task.outputs)
    pointers = list(range(count))
    whole = dict.fromkeys(names(task), 16)  # so that vectors are moved as such, and alignment is what counts
    yield Trial(small, small.shapes(usual))
    yield Trial(small, small.shapes(usual), shift=1, order=1)
    odd, given = odd_sizes(task, rng)
    yield Trial(odd, odd.shapes(given), shift=1)
    for values in list(VALUES)[1:]:
        yield Trial(small, small.shapes(usual), values)
        odd, given = odd_sizes(task, rng)
        others = values if rng.random() < 0.5 else "normal"
        yield Trial(odd, odd.shapes(given), others, int(rng.integers(0, 2)), int(rng.integers(0, 2)))
        if pointers:
            yield Trial(small, small.shapes(whole), shift=1, only=pointers.pop())
    for place in pointers:
        yield Trial(small, small.shapes(whole), shift=1, only=place)
    if names(task):
        for one in EDGES:
            yield Trial(small, small.shapes(dict.fromkeys(names(task), one)))
    for name in names(task):
        for one in LONG:
            yield Trial(small, small.shapes({name: one}))
    while True:
        odd, given = odd_sizes(task, rng)
        yield Trial(
            odd, odd.shapes(given), str(rng.choice(list(VALUES))), shift=int(rng.integers(0, 4)),
            order=int(rng.integers(0, 100)), only=int(rng.integers(-1, count)),
        )  # fmt: skip
