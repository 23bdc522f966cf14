"""What rules are made of: inputs and attributes of an op, arithmetic of dimensions, and shapes that many ops share.

A dimension that is no integer is a symbol, or ``?``; what cannot be computed with it becomes ``?``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from trtprof.base.records import Dim, Op, Tensor

Shape = tuple[Dim, ...]
MS = "com.microsoft"


# --- inputs and attributes --------------------------------------------------------------------


def given(op: Op, index: int) -> Tensor | None:
    """Input ``index``, or None when it is omitted."""
    return op.inputs[index] if index < len(op.inputs) else None


def need(op: Op, index: int) -> Tensor:
    """Input ``index``."""
    tensor = given(op, index)
    if tensor is None:
        raise LookupError(f"{op.op_type} has no input {index}")
    return tensor


def shape(op: Op, index: int = 0) -> Shape | None:
    """The shape of an input, None when its rank is not known."""
    return need(op, index).shape


def dims(op: Op, index: int, rank: int) -> Shape:
    """The dimensions of an input that has this rank by definition, all of them open when nothing is known."""
    found = shape(op, index)
    if found is None:
        return ("?",) * rank
    if len(found) != rank:
        raise ValueError(f"input {index} of {op.op_type} has rank {len(found)}, not {rank}")
    return found


def dtype(op: Op, index: int = 0) -> str:
    """The dtype of an input."""
    return need(op, index).dtype


def values(op: Op, index: int) -> tuple[int, ...] | None:
    """The elements of a small integer input, or None when it is omitted or they are not known."""
    tensor = given(op, index)
    return None if tensor is None else tensor.value


def single(op: Op, index: int) -> int | None:
    """The one element of a small integer input, or None when it is omitted or not known."""
    found = values(op, index)
    return found[0] if found is not None and len(found) == 1 else None


def integer(op: Op, name: str, default: int) -> int:
    """An integer attribute, or its default."""
    value = op.attributes.get(name, default)
    if not isinstance(value, int):
        raise TypeError(f"{name} of {op.op_type} is no integer")
    return value


def required(op: Op, name: str) -> int:
    """An integer attribute that has no default."""
    value = op.attributes[name]
    if not isinstance(value, int):
        raise TypeError(f"{name} of {op.op_type} is no integer")
    return value


def integers(op: Op, name: str) -> tuple[int, ...] | None:
    """A list of integers, or None when the attribute is absent."""
    value = op.attributes.get(name)
    return tuple(int(item) for item in value) if isinstance(value, tuple) else None


def text(op: Op, name: str, default: str = "") -> str:
    """A string attribute, or its default."""
    value = op.attributes.get(name, default)
    return value if isinstance(value, str) else default


def count(op: Op, *names: str) -> int:
    """The length of the first of these list attributes that is there; 0 where none is."""
    for name in names:
        value = op.attributes.get(name)
        if isinstance(value, tuple) and value:
            return len(value)
    return 0


# --- outputs ----------------------------------------------------------------------------------


def made(kind: str, dims_: Sequence[Dim] | None) -> Tensor:
    """An output of this dtype and shape; its name comes later."""
    return Tensor(name="", dtype=kind, shape=None if dims_ is None else tuple(dims_))


def like(op: Op, index: int = 0, kind: str | None = None) -> Tensor:
    """An output with the shape of an input, and its dtype or another."""
    return made(dtype(op, index) if kind is None else kind, shape(op, index))


# --- dimensions -------------------------------------------------------------------------------


def plus(*terms: Dim) -> Dim:
    """Their sum."""
    known = sum(term for term in terms if isinstance(term, int))
    symbols = [term for term in terms if isinstance(term, str)]
    if not symbols:
        return known
    return symbols[0] if len(symbols) == 1 and not known else "?"


def times(*factors: Dim) -> Dim:
    """Their product."""
    known = math.prod(factor for factor in factors if isinstance(factor, int))
    symbols = [factor for factor in factors if isinstance(factor, str)]
    if not symbols or not known:
        return known
    return symbols[0] if len(symbols) == 1 and known == 1 else "?"


def over(dim: Dim, by: Dim) -> Dim:
    """Their quotient, rounded down."""
    if by == 1:
        return dim
    return dim // by if isinstance(dim, int) and isinstance(by, int) else "?"


def rounded_up(dim: Dim, by: int) -> Dim:
    """The quotient, rounded up."""
    return -(-dim // by) if isinstance(dim, int) else "?"


def most(*dims_: Dim) -> Dim:
    """The largest."""
    known = [dim for dim in dims_ if isinstance(dim, int)]
    if len(known) == len(dims_):
        return max(known)
    return dims_[0] if len(set(dims_)) == 1 else "?"


# --- shapes -----------------------------------------------------------------------------------


def axis_of(axis: int, rank: int) -> int:
    """An axis as a position from the front."""
    if not -rank <= axis < rank:
        raise IndexError(f"axis {axis} of rank {rank}")
    return axis % rank


def replaced(shape_: Shape, axis: int, *dims_: Dim) -> Shape:
    """The shape with one dimension replaced by any number of others."""
    at = axis_of(axis, len(shape_))
    return (*shape_[:at], *dims_, *shape_[at + 1 :])


def with_last(shape_: Shape | None, *dims_: Dim) -> Shape | None:
    """The shape with its last dimension replaced by any number of others."""
    return None if shape_ is None else replaced(shape_, -1, *dims_)


def broadcast(*shapes: Shape | None) -> Shape | None:
    """The shape that all are broadcast to as numpy does it."""
    if any(shape_ is None for shape_ in shapes):
        return None
    known = [shape_ for shape_ in shapes if shape_ is not None]
    rank = max((len(shape_) for shape_ in known), default=0)
    padded = [(1,) * (rank - len(shape_)) + shape_ for shape_ in known]
    return tuple(_together(column) for column in zip(*padded, strict=True))


def _together(column: Sequence[Dim]) -> Dim:
    numbers = {dim for dim in column if isinstance(dim, int) and dim != 1}
    symbols = {dim for dim in column if isinstance(dim, str)}
    if len(numbers) > 1:
        raise ValueError(f"dimensions {sorted(numbers)} do not broadcast")
    if numbers:
        return numbers.pop()
    if len(symbols) > 1:
        return "?"
    return symbols.pop() if symbols else 1


def matmul(a: Shape | None, b: Shape | None) -> Shape | None:
    """The shape of a product as numpy.matmul has it."""
    if a is None or b is None:
        return None
    if not a or not b:
        raise ValueError("a scalar has no matrix product")
    left = (1, *a) if len(a) == 1 else a
    right = (*b, 1) if len(b) == 1 else b
    if isinstance(left[-1], int) and isinstance(right[-2], int) and left[-1] != right[-2]:
        raise ValueError(f"{list(a)} and {list(b)} have no matrix product")
    outer = broadcast(left[:-2], right[:-2]) or ()
    return (*outer, *left[-2:-1][: len(a) - 1], *right[-1:][: len(b) - 1])


def reduced(shape_: Shape | None, axes: Sequence[int] | None, keep: bool) -> Shape | None:
    """The shape after a reduction along some axes; None is all of them."""
    if shape_ is None:
        return None
    gone = set(range(len(shape_))) if axes is None else {axis_of(axis, len(shape_)) for axis in axes}
    return tuple(1 if index in gone else dim for index, dim in enumerate(shape_) if keep or index not in gone)


def gathered(data: Shape | None, indices: Shape | None, axis: int) -> Shape | None:
    """The shape of Gather."""
    return None if data is None or indices is None else replaced(data, axis, *indices)
