"""What cost functions ask of an op: sizes, attributes, and the bytes it moves."""

from __future__ import annotations

import math
from collections.abc import Mapping

from trtprof.base.records import Core, Op, Tensor, WorkBound
from trtprof.cost import Cost, MalformedOpError, Moved, UnknownShapeError
from trtprof.cost._recipes import NOTHING, Recipe

MS = "com.microsoft"
NCHWC = "com.microsoft.nchwc"
NHWC = "com.ms.internal.nhwc"


def given(op: Op, index: int) -> Tensor | None:
    """Input ``index``, or None when it is omitted."""
    return op.inputs[index] if index < len(op.inputs) else None


def made(op: Op, index: int) -> Tensor | None:
    """Output ``index``, or None when nobody asked for it."""
    return op.outputs[index] if index < len(op.outputs) else None


def need(op: Op, index: int) -> Tensor:
    """Input ``index``."""
    tensor = given(op, index)
    if tensor is None:
        raise UnknownShapeError(f"{op.op_type} has no input {index}")
    return tensor


def out(op: Op, index: int = 0) -> Tensor:
    """Output ``index``."""
    tensor = made(op, index)
    if tensor is None:
        raise UnknownShapeError(f"{op.op_type} has no output {index}")
    return tensor


def shape(tensor: Tensor) -> tuple[int, ...]:
    """The shape in numbers."""
    if tensor.kind in ("sequence", "map"):
        raise UnknownShapeError(f"{tensor.name!r} is a {tensor.kind}, whose length is not known")
    if tensor.shape is None:
        raise UnknownShapeError(f"tensor {tensor.name!r} has no known rank")
    known = tuple(dim for dim in tensor.shape if isinstance(dim, int))
    if len(known) != len(tensor.shape):
        raise UnknownShapeError(f"tensor {tensor.name!r} has unknown dimensions: {list(tensor.shape)}")
    return known


def size(tensor: Tensor) -> int:
    """Number of elements; 1 for a scalar."""
    elements = tensor.elements
    return math.prod(shape(tensor)) if elements is None else elements


def work(
    op: Op,
    arithmetic: Recipe = NOTHING,
    *,
    tensor: int = 0,
    vector: int = 0,
    read: Mapping[int, int] | None = None,
    write: Mapping[int, int] | None = None,
    bound: WorkBound = "exact",
    note: str = "",
    fast: int = 0,
    core: Core | None = None,
) -> Cost:
    """The cost of an op with the given arithmetic and the traffic of its tensors.

    Args:
        arithmetic: FLOP and special functions of everything but multiply-accumulates.
        tensor: FLOP of multiply-accumulates.
        vector: FLOP of other arithmetic, besides ``arithmetic``.
        fast: The part of ``tensor`` that a fast algorithm does without.
    """
    total = Recipe(arithmetic.vector + vector, arithmetic.special)
    if min(tensor, total.vector, *total.special.values()) < 0:
        raise MalformedOpError(f"{op.op_type} has shapes that do not fit each other")
    writes = tuple(
        Moved(made, min(size(made), (write or {}).get(index, size(made))))
        for index, made in enumerate(op.outputs)
        if made is not None
    )
    # Nobody needs to read what becomes nothing.
    empty = bool(writes) and not any(size(moved.tensor) for moved in writes)
    read = read or {}
    reads: dict[str, Moved] = {}
    for index, source in enumerate(op.inputs):
        if source is None or read.get(index) == 0 or empty:
            continue
        elements = size(source)
        if index in read:
            elements = min(read[index], elements)
        before = reads.get(source.name)
        reads[source.name] = Moved(source, elements if before is None else max(elements, before.elements))
    found = Cost(
        tensor_flops=tensor,
        arithmetic=total,
        reads=tuple(reads.values()),
        writes=writes,
        bound=bound,
        note=note,
        fast_flops=fast,
        core=core,
    )
    nothing = not note and not found.computes and not any(moved.elements for moved in (*found.reads, *found.writes))
    return found._replace(note="nothing to do: its tensors are empty") if nothing else found


def view(op: Op, note: str = "a view: moves nothing") -> Cost:
    """The cost of an op whose first output is its first input under another name, shape or dtype."""
    source, result = given(op, 0), made(op, 0)
    return Cost(views={result.name: source.name} if source and result else {}, note=note)


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
