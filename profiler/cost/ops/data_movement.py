"""Ops that move values and compute nothing, or next to nothing."""

from __future__ import annotations

import math

from profiler.cost import Cost, UnknownShapeError, cost
from profiler.cost._recipes import dequantize, quantize
from profiler.cost._shapes import (
    MS,
    axis_of,
    constant,
    given,
    integer,
    integers,
    need,
    out,
    shape,
    size,
    string,
    work,
)
from profiler.records import Op


@cost("Concat", "Split", "Transpose", "DepthToSpace", "SpaceToDepth", "Expand", "Tile", "Where", "ReverseSequence")
@cost("MemcpyFromHost", "MemcpyToHost")
def move(op: Op) -> Cost:
    """Every input read once, every output written; a select is not arithmetic."""
    return work(op)


@cost("Slice", "CenterCropPad")
def cut(op: Op) -> Cost:
    """Reads of the data only what ends up in the output."""
    return work(op, read={0: size(out(op))})


@cost("Gather")
def gather(op: Op) -> Cost:
    """Reads the slices that are named; where indices may repeat, each is counted once per naming."""
    data, indices = need(op, 0), need(op, 1)
    dims = shape(data)
    axis = axis_of(op, len(dims), 0)
    n, named = dims[axis], size(indices)
    distinct = named
    if indices.value is not None:
        distinct = len({index % n for index in indices.value}) if n else 0
    elements = math.prod(dims) // n * min(distinct, n) if n else 0
    repeats = indices.value is None and named > 1
    return work(
        op,
        read={0: elements},
        bound="upper" if repeats else "exact",
        note="indices may repeat" if repeats else "",
    )


@cost("GatherElements", "GatherND")
@cost("GatherND", domain=MS)
def gather_elements(op: Op) -> Cost:
    """Reads at most one value per output element."""
    return work(op, read={0: size(out(op))}, bound="upper", note="indices may repeat")


@cost("Scatter", "ScatterElements", "ScatterND", "TensorScatter")
def scatter(op: Op) -> Cost:
    """A copy of the data with updates put in; one FLOP per update where they are reduced into it.

    An update in place would move the indices and updates alone.
    """
    reduced = string(op, "reduction", "none") != "none"
    return work(op, vector=size(need(op, 2)) if reduced else 0, note="counted as a copy with updates")


def _pads(op: Op) -> tuple[int, ...] | None:
    """Begin and end of every dimension, negative where it crops; None while they are not known."""
    rank = len(shape(need(op, 0)))
    if given(op, 1) is None:
        return integers(op, "pads") or integers(op, "paddings")
    values = constant(op, 1)
    if values is None:
        return None
    axes = range(rank) if given(op, 3) is None else constant(op, 3)
    if axes is None:
        return None
    pads = [0] * (2 * rank)
    half = len(values) // 2
    for position, axis in enumerate(axes):
        pads[axis % rank] = values[position]
        pads[axis % rank + rank] = values[position + half]
    return tuple(pads)


@cost("Pad")
@cost("Pad", domain=MS)
def pad(op: Op) -> Cost:
    """Reads what negative pads leave, writes the output."""
    dims = shape(need(op, 0))
    pads = _pads(op)
    if pads is None or len(pads) != 2 * len(dims):
        grown = all(after >= before for after, before in zip(shape(out(op)), dims, strict=True))
        note = "" if grown else "pads unknown: all of the input counted"
        return work(op, bound="exact" if grown else "upper", note=note)
    begin, end = pads[: len(dims)], pads[len(dims) :]
    kept = math.prod(
        max(dim + min(first, 0) + min(last, 0), 0) for dim, first, last in zip(dims, begin, end, strict=True)
    )
    return work(op, read={0: kept})


@cost("Trilu")
@cost("Trilu", domain=MS)
def trilu(op: Op) -> Cost:
    """Reads the triangle that is kept, writes it and the zeros."""
    x = need(op, 0)
    dims = shape(x)
    if len(dims) < 2:
        raise UnknownShapeError("Trilu needs an input of rank 2 or more")
    rows, columns = dims[-2:]
    k = constant(op, 1)
    if given(op, 1) is not None and k is None:
        return work(op, bound="upper", note="diagonal unknown: all of the input counted")
    shift = k[0] if k else 0
    kept = sum(min(max(row + 1 + shift, 0), columns) for row in range(rows))
    if integer(op, "upper", 1):
        # The upper triangle from diagonal k is what the lower one up to diagonal k - 1 leaves.
        kept = rows * columns - sum(min(max(row + shift, 0), columns) for row in range(rows))
    return work(op, read={0: math.prod(dims[:-2]) * kept})


@cost("QLinearConcat", domain=MS)
def qlinear_concat(op: Op) -> Cost:
    """Every value dequantised and quantised again. Inputs Y_scale, Y_zero_point, then (tensor, scale, zero point)."""
    after = quantize(given(op, 1) is not None).vector
    vector = 0
    for index in range(2, len(op.inputs), 3):
        before = dequantize(given(op, index + 2) is not None).vector
        vector += (before + after) * size(need(op, index))
    return work(op, vector=vector)


@cost("QLinearWhere", domain=MS)
def qlinear_where(op: Op) -> Cost:
    """Both choices dequantised, the selected one quantised.

    Inputs condition, X, x_scale, x_zero_point, Y, y_scale, y_zero_point, z_scale, z_zero_point.
    """
    vector = quantize(given(op, 8) is not None).vector * size(out(op))
    for index in (1, 4):
        vector += dequantize(given(op, index + 2) is not None).vector * size(need(op, index))
    return work(op, vector=vector)
