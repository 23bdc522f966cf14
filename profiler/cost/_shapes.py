"""What cost functions ask of an op: sizes, attributes, and the bytes it moves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from profiler import units
from profiler.cost import UnknownShapeError
from profiler.records import Op, Tensor, Work

MS = "com.microsoft"
NCHWC = "com.microsoft.nchwc"
NHWC = "com.ms.internal.nhwc"

Bound = Literal["exact", "upper", "lower"]


def given(op: Op, index: int) -> Tensor | None:
    """Input ``index``, or None when it is omitted."""
    return op.inputs[index] if index < len(op.inputs) else None


def made(op: Op, index: int) -> Tensor | None:
    """Output ``index``, or None when nobody asked for it."""
    return op.outputs[index] if index < len(op.outputs) else None


def need(op: Op, index: int) -> Tensor:
    """Input ``index``.

    Raises:
        UnknownShapeError: The input is missing.
    """
    tensor = given(op, index)
    if tensor is None:
        raise UnknownShapeError(f"{op.op_type} has no input {index}")
    return tensor


def out(op: Op, index: int = 0) -> Tensor:
    """Output ``index``.

    Raises:
        UnknownShapeError: The output is missing.
    """
    tensor = made(op, index)
    if tensor is None:
        raise UnknownShapeError(f"{op.op_type} has no output {index}")
    return tensor


def shape(tensor: Tensor) -> tuple[int, ...]:
    """The shape in numbers.

    Raises:
        UnknownShapeError: The rank or a dimension is unknown.
    """
    if tensor.shape is None:
        raise UnknownShapeError(f"tensor {tensor.name!r} has no known rank")
    known = tuple(dim for dim in tensor.shape if isinstance(dim, int))
    if len(known) != len(tensor.shape):
        raise UnknownShapeError(f"tensor {tensor.name!r} has unknown dimensions: {list(tensor.shape)}")
    return known


def size(tensor: Tensor) -> int:
    """Number of elements; 1 for a scalar.

    Raises:
        UnknownShapeError: The shape is unknown.
    """
    return math.prod(shape(tensor))


def size_bytes(tensor: Tensor, elements: int | None = None) -> int:
    """Bytes of ``elements`` values of the tensor's dtype, or of all of it.

    Raises:
        UnknownShapeError: The shape is unknown, or the dtype has no fixed width.
    """
    if tensor.dtype not in units.DTYPE_BITS:
        raise UnknownShapeError(f"tensor {tensor.name!r} has dtype {tensor.dtype}, which has no known width")
    return units.dtype_bytes(tensor.dtype, size(tensor) if elements is None else elements)


def touched_bytes(tensor: Tensor, elements: int) -> int:
    """Bytes read when at most ``elements`` values of the tensor are looked at."""
    return size_bytes(tensor, min(elements, size(tensor)))


def work(
    op: Op,
    *,
    tensor: int = 0,
    vector: int = 0,
    special: int = 0,
    read: Mapping[int, int] | None = None,
    bound: Bound = "exact",
    note: str = "",
) -> Work:
    """The work of an op with the given arithmetic and the traffic of its tensors.

    Args:
        op: The op; each distinct input counts once, each output that is present counts.
        tensor: FLOP of multiply-accumulates.
        vector: FLOP of other arithmetic.
        special: Evaluations of exp, tanh and the like.
        read: Bytes read of single inputs by position, where that is not all of them.
        bound: Passed on.
        note: Passed on.

    Raises:
        UnknownShapeError: The size of a tensor that moves is unknown.
    """
    read = read or {}
    tensors: dict[str, tuple[int, bool]] = {}
    for index, source in enumerate(op.inputs):
        if source is None:
            continue
        count = read[index] if index in read else size_bytes(source)
        seen = tensors.get(source.name, (0, False))[0]
        tensors[source.name] = (max(count, seen), source.constant)
    return Work(
        tensor_flops=tensor,
        vector_flops=vector,
        special=special,
        bytes_read=sum(count for count, _ in tensors.values()),
        bytes_written=sum(size_bytes(made) for made in op.outputs if made is not None),
        bytes_parameters=sum(count for count, constant in tensors.values() if constant),
        bound=bound,
        note=note,
    )


def integer(op: Op, name: str, default: int) -> int:
    """An integer attribute, or its default."""
    value = op.attributes.get(name, default)
    return int(value) if isinstance(value, int | float) else default


def number(op: Op, name: str, default: float) -> float:
    """A float attribute, or its default."""
    value = op.attributes.get(name, default)
    return float(value) if isinstance(value, int | float) else default


def integers(op: Op, name: str) -> tuple[int, ...] | None:
    """A list of integers, or None when the attribute is absent."""
    value = op.attributes.get(name)
    if isinstance(value, tuple):
        return tuple(int(item) for item in value if not isinstance(item, str))
    return None


def string(op: Op, name: str, default: str = "") -> str:
    """A string attribute, or its default."""
    value = op.attributes.get(name, default)
    return value if isinstance(value, str) else default


def constant(op: Op, index: int) -> tuple[int, ...] | None:
    """The elements of a small integer input, or None when it is omitted or not known."""
    tensor = given(op, index)
    return None if tensor is None else tensor.value


def axis_of(op: Op, rank: int, default: int) -> int:
    """The ``axis`` attribute as a position from the front."""
    axis = integer(op, "axis", default)
    return axis + rank if axis < 0 else axis
