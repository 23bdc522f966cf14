"""Convolutions, pools and resampling of ONNX Runtime in any of its layouts: NCHW, NHWC, and blocks of channels."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from trtprof.base.records import Dim, Op, Tensor
from trtprof.source.shape_rules import rule
from trtprof.source.shape_rules._dims import (
    MS,
    Shape,
    axis_of,
    dims,
    dtype,
    given,
    integer,
    integers,
    like,
    made,
    over,
    plus,
    required,
    rounded_up,
    shape,
    text,
    times,
    values,
)

NCHWC = "com.microsoft.nchwc"
NHWC = "com.ms.internal.nhwc"
LARGEST_BLOCK = 16
"""Channels of a block in NCHWc: 8 or 16, by the instructions of the machine (MlasNchwcGetBlockSize)."""


def _pads(op: Op, rank: int) -> Sequence[int]:
    found = integers(op, "pads") or (0,) * (2 * rank)
    return found if text(op, "auto_pad", "NOTSET") == "NOTSET" else (0,) * (2 * rank)


def _windows(op: Op, spatial: Shape, kernel: Shape) -> Shape:
    """Positions of a kernel along each spatial dimension, by the attributes of Conv and of the pools."""
    rank = len(spatial)
    if len(kernel) != rank:
        raise ValueError(f"a kernel of rank {len(kernel)} on {rank} spatial dimensions")
    strides = integers(op, "strides") or (1,) * rank
    dilations = integers(op, "dilations") or (1,) * rank
    pads = _pads(op, rank)
    same = text(op, "auto_pad", "NOTSET") in ("SAME_UPPER", "SAME_LOWER")
    ceil = bool(integer(op, "ceil_mode", 0))
    found: list[Dim] = []
    for index, (dim, size) in enumerate(zip(spatial, kernel, strict=True)):
        stride, before, after = strides[index], pads[index], pads[rank + index]
        if same:
            found.append(rounded_up(dim, stride) if stride != 1 else dim)
            continue
        if not isinstance(size, int):
            found.append("?")
            continue
        reach = before + after - (dilations[index] * (size - 1) + 1)
        if stride == 1:
            found.append(plus(dim, reach + 1))
        elif not isinstance(dim, int):
            found.append("?")
        else:
            places = (-(-(dim + reach) // stride) if ceil else (dim + reach) // stride) + 1
            # The last window starts in the image or in the padding before it.
            found.append(places - (ceil and (places - 1) * stride >= dim + before))
    return tuple(found)


def _kernel(op: Op, weights: Shape | None, rank: int) -> Shape:
    """The kernel by its attribute, else by the weights, whose spatial dimensions are the last."""
    declared = integers(op, "kernel_shape")
    if declared is not None:
        return declared
    return ("?",) * rank if weights is None else weights[2:]


def _parts(x: Shape, last: bool) -> tuple[Dim, Dim, Shape]:
    """Batch, channels and spatial dimensions."""
    axis_of(1, len(x))
    return (x[0], x[-1], x[1:-1]) if last else (x[0], x[1], x[2:])


def _whole(batch: Dim, channels: Dim, spatial: Shape, last: bool) -> Shape:
    return (batch, *spatial, channels) if last else (batch, channels, *spatial)


def _convolved(op: Op, weights_at: int, kind: str, *, last: bool) -> Tensor:
    x, weights = shape(op), shape(op, weights_at)
    if x is None:
        return made(kind, None)
    batch, _, spatial = _parts(x, last)
    places = _windows(op, spatial, _kernel(op, weights, len(spatial)))
    return made(kind, _whole(batch, "?" if weights is None else weights[0], places, last))


@rule("FusedConv", domain=MS)
@rule("Conv", domain=NCHWC)
def conv(op: Op) -> Sequence[Tensor | None]:
    """X, W [M, C / group, ...], B, and what is added to the result; blocked channels are counted as they lie there."""
    return [_convolved(op, 1, dtype(op), last=False)]


@rule("NhwcFusedConv", domain=MS)
@rule("Conv", domain=NHWC)
def nhwc_conv(op: Op) -> Sequence[Tensor | None]:
    """X in NHWC, W as for Conv."""
    return [_convolved(op, 1, dtype(op), last=True)]


@rule("NhwcConv", domain=MS)
def nhwc_conv_of_cuda(op: Op) -> Sequence[Tensor | None]:
    """X in NHWC, W [M, ..., C / group] or [M, C / group, ...].

    The schema has the second order, the kernel and ``transformers/fusion_nhwc_conv.py``, which writes these nodes,
    the first. Without ``kernel_shape`` the channels of X tell which it is; where they fit both, it is the first.
    """
    x, weights = shape(op), shape(op, 1)
    if x is None or weights is None:
        return [_convolved(op, 1, dtype(op), last=True)]
    batch, channels, spatial = _parts(x, last=True)
    return [
        made(dtype(op), _whole(batch, weights[0], _windows(op, spatial, _either(op, weights, channels)), last=True))
    ]


def _either(op: Op, weights: Shape, channels: Dim) -> Shape:
    """The kernel where channels may be the second or the last dimension of the weights."""
    if integers(op, "kernel_shape") is not None:
        return _kernel(op, weights, len(weights) - 2)
    group = integer(op, "group", 1)
    last, second = (times(weights[at], group) for at in (-1, 1))
    if isinstance(channels, int) and isinstance(last, int) and isinstance(second, int):
        return weights[2:] if second == channels != last else weights[1:-1]
    return tuple(a if a == b else "?" for a, b in pairwise(weights[1:]))


@rule("QLinearConv", domain=MS)
def qlinear_conv(op: Op) -> Sequence[Tensor | None]:
    """x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, B."""
    return [_convolved(op, 3, dtype(op, 7), last=bool(integer(op, "channels_last", 0)))]


@rule("QLinearConv", domain=NHWC)
def nhwc_qlinear_conv(op: Op) -> Sequence[Tensor | None]:
    """As QLinearConv, with x and y in NHWC."""
    return [_convolved(op, 3, dtype(op, 7), last=True)]


def _transposed(op: Op, weights_at: int, kind: str, pads: Sequence[int] | None, *, last: bool) -> Tensor:
    """X and W [C, M / group, ...] of ConvTranspose; ``pads`` are None where they are not known."""
    x, weights = shape(op), shape(op, weights_at)
    if x is None:
        return made(kind, None)
    batch, _, spatial = _parts(x, last)
    rank = len(spatial)
    kernel = _kernel(op, weights, rank)
    strides = integers(op, "strides") or (1,) * rank
    dilations = integers(op, "dilations") or (1,) * rank
    more = integers(op, "output_padding") or (0,) * rank
    asked = integers(op, "output_shape")
    found: list[Dim] = []
    for index, (dim, size) in enumerate(zip(spatial, kernel, strict=True)):
        if asked is not None:
            found.append(asked[index - rank])
        elif text(op, "auto_pad", "NOTSET") in ("SAME_UPPER", "SAME_LOWER"):
            found.append(times(dim, strides[index]))
        elif pads is None or not isinstance(size, int):
            found.append("?")
        else:
            window = dilations[index] * (size - 1) + 1 + more[index] - pads[index] - pads[rank + index]
            found.append(plus(times(dim, strides[index]), window - strides[index]))
    channels = "?" if weights is None else times(weights[1], integer(op, "group", 1))
    return made(kind, _whole(batch, channels, tuple(found), last))


@rule("ConvTranspose", domain=NHWC)
def nhwc_conv_transpose(op: Op) -> Sequence[Tensor | None]:
    """X in NHWC, W as for ConvTranspose."""
    return [_transposed(op, 1, dtype(op), _pads(op, len(shape(op) or ()) - 2), last=True)]


@rule("QLinearConvTranspose", domain=NHWC)
def nhwc_qlinear_conv_transpose(op: Op) -> Sequence[Tensor | None]:
    """Inputs as those of QLinearConv, w as for ConvTranspose, x in NHWC."""
    return [_transposed(op, 3, dtype(op, 7), _pads(op, len(shape(op) or ()) - 2), last=True)]


@rule("ConvTransposeWithDynamicPads", domain=MS)
def conv_transpose_with_dynamic_pads(op: Op) -> Sequence[Tensor | None]:
    """X, W, and the pads as an input."""
    rank = len(shape(op) or ()) - 2
    return [_transposed(op, 1, dtype(op), _pads(op, rank) if given(op, 2) is None else values(op, 2), last=False)]


def _pooled(op: Op, *, last: bool, outputs: Sequence[str]) -> list[Tensor | None]:
    x = shape(op)
    if x is None:
        return [made(kind, None) for kind in outputs]
    batch, channels, spatial = _parts(x, last)
    places = _windows(op, spatial, integers(op, "kernel_shape") or ("?",) * len(spatial))
    return [made(kind, _whole(batch, channels, places, last)) for kind in outputs]


@rule("MaxpoolWithMask", domain=MS)
@rule("MaxPool", "AveragePool", domain=NCHWC)
def pool(op: Op) -> Sequence[Tensor | None]:
    """A window over each channel."""
    return _pooled(op, last=False, outputs=[dtype(op)])


@rule("NhwcMaxPool", domain=MS)
@rule("AveragePool", "LpPool", "QLinearAveragePool", domain=NHWC)
def nhwc_pool(op: Op) -> Sequence[Tensor | None]:
    """The same in NHWC."""
    return _pooled(op, last=True, outputs=[dtype(op)])


@rule("MaxPool", domain=NHWC)
def nhwc_max_pool(op: Op) -> Sequence[Tensor | None]:
    """The same with indices."""
    return _pooled(op, last=True, outputs=[dtype(op), "int64"])


@rule("QLinearAveragePool", domain=MS)
def qlinear_average_pool(op: Op) -> Sequence[Tensor | None]:
    """A quantised pool in either layout."""
    return _pooled(op, last=bool(integer(op, "channels_last", 0)), outputs=[dtype(op)])


def _globally(op: Op, *, last: bool) -> list[Tensor | None]:
    x = shape(op)
    if x is None:
        return [like(op)]
    batch, channels, spatial = _parts(x, last)
    return [made(dtype(op), _whole(batch, channels, (1,) * len(spatial), last))]


@rule("GlobalAveragePool", "GlobalMaxPool", domain=NCHWC)
def global_pool(op: Op) -> Sequence[Tensor | None]:
    """One value a channel."""
    return _globally(op, last=False)


@rule("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool", domain=NHWC)
def nhwc_global_pool(op: Op) -> Sequence[Tensor | None]:
    """The same in NHWC."""
    return _globally(op, last=True)


@rule("QLinearGlobalAveragePool", domain=MS)
def qlinear_global_average_pool(op: Op) -> Sequence[Tensor | None]:
    """The same quantised, in either layout."""
    return _globally(op, last=bool(integer(op, "channels_last", 0)))


@rule("MaxUnpool", domain=NHWC)
def nhwc_max_unpool(op: Op) -> Sequence[Tensor | None]:
    """The reverse of MaxPool: what its window, strides and pads say, unless output_shape, in NCHW, is given."""
    x = shape(op)
    if x is None:
        return [like(op)]
    batch, channels, spatial = _parts(x, last=True)
    rank = len(spatial)
    if given(op, 2) is not None:
        asked: Shape = values(op, 2) or ("?",) * len(x)
        return [made(dtype(op), _whole(asked[0], asked[1], asked[2:], last=True))]
    kernel: Shape = integers(op, "kernel_shape") or ("?",) * rank
    strides = integers(op, "strides") or (1,) * rank
    pads = _pads(op, rank)
    found = [
        plus(times(plus(dim, -1), strides[index]), size, -pads[index] - pads[rank + index])
        for index, (dim, size) in enumerate(zip(spatial, kernel, strict=True))
    ]
    return [made(dtype(op), _whole(batch, channels, tuple(found), last=True))]


@rule("BatchNormalization", "InstanceNormalization", "LRN", domain=NHWC)
def nhwc_norm(op: Op) -> Sequence[Tensor | None]:
    """As the input; of BatchNormalization in training, mean and variance too."""
    return [like(op), *(like(op, index) for index in (3, 4)[: len(op.outputs) - 1])]


@rule("DepthToSpace", domain=NHWC)
def nhwc_depth_to_space(op: Op) -> Sequence[Tensor | None]:
    """Blocks of channels become blocks of pixels."""
    batch, height, width, channels = dims(op, 0, 4)
    side = required(op, "blocksize")
    return [made(dtype(op), (batch, times(height, side), times(width, side), over(channels, side * side)))]


@rule("SpaceToDepth", domain=NHWC)
def nhwc_space_to_depth(op: Op) -> Sequence[Tensor | None]:
    """Blocks of pixels become blocks of channels."""
    batch, height, width, channels = dims(op, 0, 4)
    side = required(op, "blocksize")
    return [made(dtype(op), (batch, over(height, side), over(width, side), times(channels, side * side)))]


@rule("GridSample", domain=MS)
def grid_sample(op: Op) -> Sequence[Tensor | None]:
    """X [N, C, H, W], grid [N, Hout, Wout, 2]."""
    batch, channels, *_ = dims(op, 0, 4)
    _, height, width, _ = dims(op, 1, 4)
    return [made(dtype(op), (batch, channels, height, width))]


@rule("GridSample", domain=NHWC)
def nhwc_grid_sample(op: Op) -> Sequence[Tensor | None]:
    """X in NHWC, of any number of spatial dimensions."""
    x, grid = shape(op), shape(op, 1)
    if x is None or grid is None:
        return [made(dtype(op), None if x is None else (x[0], *("?",) * (len(x) - 2), x[-1]))]
    return [made(dtype(op), (x[0], *grid[1:-1], x[-1]))]


@rule("Resize", domain=NHWC)
def nhwc_resize(op: Op) -> Sequence[Tensor | None]:
    """By sizes, which are in the order of X; scales are floats, whose values are not known here."""
    x, sizes = shape(op), values(op, 3)
    axes = integers(op, "axes")
    if x is None:
        return [like(op)]
    if sizes is None or text(op, "keep_aspect_ratio_policy", "stretch") != "stretch":
        return [made(dtype(op), ("?",) * len(x))]
    asked = dict(zip((axis_of(axis, len(x)) for axis in axes) if axes else range(len(x)), sizes, strict=True))
    return [made(dtype(op), [asked.get(index, dim) for index, dim in enumerate(x)])]


@rule("CropAndResize", domain=MS)
def crop_and_resize(op: Op) -> Sequence[Tensor | None]:
    """X [N, C, H, W], rois [crops, 4], batch_indices, crop_size [2]."""
    _, channels, *_ = dims(op, 0, 4)
    crops, _ = dims(op, 1, 2)
    height, width = values(op, 3) or ("?", "?")
    return [made(dtype(op), (crops, channels, height, width))]


@rule("ReorderInput", domain=NCHWC)
def reorder_input(op: Op) -> Sequence[Tensor | None]:
    """To blocks of channels, the last of them filled up to 8 or to 16: open where that makes a difference."""
    x = shape(op)
    if x is None:
        return [like(op)]
    batch, channels, spatial = _parts(x, bool(integer(op, "channels_last", 0)))
    whole = isinstance(channels, int) and channels % LARGEST_BLOCK in (0, *range(9, LARGEST_BLOCK))
    padded = times(rounded_up(channels, LARGEST_BLOCK), LARGEST_BLOCK) if whole else "?"
    return [made(dtype(op), _whole(batch, padded, spatial, last=False))]


@rule("ReorderOutput", domain=NCHWC)
def reorder_output(op: Op) -> Sequence[Tensor | None]:
    """From blocks of channels, to as many as an attribute says."""
    x = shape(op)
    if x is None:
        return [like(op)]
    return [made(dtype(op), _whole(x[0], required(op, "channels"), x[2:], bool(integer(op, "channels_last", 0))))]


@rule("Upsample", domain=NCHWC)
def upsample(op: Op) -> Sequence[Tensor | None]:
    """Each dimension by its scale."""
    x, scales = shape(op), integers(op, "scales")
    if x is None or scales is None:
        return [made(dtype(op), None if x is None else ("?",) * len(x))]
    return [made(dtype(op), [times(dim, scale) for dim, scale in zip(x, scales, strict=True)])]


@rule("WordConvEmbedding", domain=MS)
def word_conv_embedding(op: Op) -> Sequence[Tensor | None]:
    """Sequence [words, characters], W [filters, 1, window, channels]: filters for each word."""
    filters: Dim = integer(op, "embedding_size", 0) or dims(op, 1, 4)[0]
    return [made(dtype(op, 1), (dims(op, 0, 2)[0], filters))]


@rule("UnfoldTensor", domain=MS)
def unfold(op: Op) -> Sequence[Tensor | None]:
    """Every window of ``size`` along a dimension, as a new last dimension."""
    x, size, step = shape(op), required(op, "size"), integer(op, "step", 1)
    if x is None:
        return [like(op)]
    at = axis_of(integer(op, "dim", -1), len(x))
    return [made(dtype(op), (*x[:at], plus(over(plus(x[at], -size), step), 1), *x[at + 1 :], size))]
