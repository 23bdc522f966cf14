"""Ops that move values and compute nothing, or next to nothing."""

from __future__ import annotations

import math

import msgspec

from trtprof.base.records import Op
from trtprof.cost import Cost, UnknownShapeError, cost
from trtprof.cost._recipes import dequantize, quantize
from trtprof.cost._shapes import (
    MS,
    NHWC,
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


@cost("Concat", "Split", "Transpose", "DepthToSpace", "SpaceToDepth", "Expand", "Tile", "Where", "ReverseSequence")
@cost("MemcpyFromHost", "MemcpyToHost")
@cost("DepthToSpace", "SpaceToDepth", domain=NHWC)
@cost("SampleOp", "RestorePadding", domain=MS)
def move(op: Op) -> Cost:
    """Every input read once, every output written; a select is not arithmetic."""
    return work(op)


@cost("Slice")
def cut(op: Op) -> Cost:
    """Reads of the data only what ends up in the output."""
    return work(op, read={0: size(out(op))})


@cost("CenterCropPad")
def center_crop_pad(op: Op) -> Cost:
    """Reads of every dimension what the crop leaves, writes the output with its padding."""
    kept = map(min, shape(need(op, 0)), shape(out(op)))
    return work(op, read={0: math.prod(kept)})


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
        op, read={0: elements}, bound="upper" if repeats else "exact", note="indices may repeat" if repeats else ""
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


def _triangle(rows: int, columns: int, first: int) -> int:
    """Elements of rows of which the first has ``first``, each one more than the one before, from none to all."""
    start, full = (min(max(place, 0), rows) for place in (-first, columns - first))
    rising = full - start
    return rising * first + rising * (start + full - 1) // 2 + (rows - full) * columns


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
    kept = _triangle(rows, columns, shift + 1)
    if integer(op, "upper", 1):
        # The upper triangle from diagonal k is what the lower one up to diagonal k - 1 leaves.
        kept = rows * columns - _triangle(rows, columns, shift)
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


@cost("TorchEmbedding", domain=MS)
def torch_embedding(op: Op) -> Cost:
    """As Gather of rows. Inputs weight, indices, padding_idx and scale_grad_by_freq, which only training looks at."""
    repeats = size(need(op, 1)) > 1
    return work(
        op,
        read={0: size(out(op)), 2: 0, 3: 0},
        bound="upper" if repeats else "exact",
        note="indices may repeat" if repeats else "",
    )


@cost("GatherBlockQuantized", domain=MS)
def gather_block_quantized(op: Op) -> Cost:
    """Slices as by Gather, their scales and zero points, and each value dequantised.

    uint8 values are shifted even where zero points are left out. Inputs data, indices, scales,
    zero_points.
    """
    data, indices = need(op, 0), need(op, 1)
    axis = integer(op, "gather_axis", 0) % max(len(shape(data)), 1)
    named = size(indices)
    read = {}
    for index in (0, 2, 3):
        if (source := given(op, index)) is not None:
            n = shape(source)[axis]
            # A scale that all slices share has a dimension of 1 here.
            read[index] = size(source) // n * min(named, n) if n else 0
    shifted = given(op, 3) is not None or data.dtype == "uint8"
    repeats = named > 1
    return work(
        op,
        vector=dequantize(shifted).vector * size(out(op)),
        read=read,
        bound="upper" if repeats else "exact",
        note="indices may repeat" if repeats else "",
    )


@cost("UnfoldTensor", domain=MS)
def unfold(op: Op) -> Cost:
    """Overlapping slices along one dimension: reads what they cover, writes each in full."""
    dims = shape(need(op, 0))
    dim = integer(op, "dim", -1) % max(len(dims), 1)
    length, step = integer(op, "size", 1), integer(op, "step", 1)
    windows = shape(out(op))[dim]
    covered = max(windows - 1, 0) * min(step, length) + length if windows else 0
    return work(op, read={0: math.prod(dims) // dims[dim] * covered if dims[dim] else 0})


@cost("RemovePadding", domain=MS)
def remove_padding(op: Op) -> Cost:
    """Moves the tokens that are not padding; where their number is not known, all of them.

    Inputs input [batch, length, hidden], sequence_token_count.
    """
    tokens = out(op)
    if tokens.elements is not None:
        return work(op, read={0: tokens.elements})
    batch, length, hidden = shape(need(op, 0))
    whole = msgspec.structs.replace(tokens, shape=(batch * length, hidden))
    return work(
        msgspec.structs.replace(op, outputs=(whole, *op.outputs[1:])),
        bound="upper",
        note="every token counted as not padding",
    )


@cost("RelativePositionBias", domain=MS)
def relative_position_bias(op: Op) -> Cost:
    """A value of the table for every head, query and key. Inputs bias_table [buckets, heads], two lengths."""
    return work(op, note="the bucket of a distance is index arithmetic: not counted")
