"""Convolutions, pools and resampling of ONNX Runtime in any of its layouts: NCHW, NHWC, and blocks of channels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from trtprof.base.records import Dim, Op, Tensor
from trtprof.source.shape_rules import rule
from trtprof.source.shape_rules._dims import *

NCHWC = "com.microsoft.nchwc"
NHWC = "com.ms.internal.nhwc"
LARGEST_BLOCK = 16  # channels of a block in NCHWc: 8 or 16, by the machine (MlasNchwcGetBlockSize)
Made = Sequence[Tensor | None]


def channels_last(op: Op) -> bool:
    """By the op's attribute, its domain or its name."""
    told = op.op_type.startswith(("QLinear", "Reorder")) and integer(op, "channels_last", 0)
    return bool(told) or op.domain == NHWC or op.op_type.startswith("Nhwc")


def split(op: Op, x: Shape) -> tuple[Dim, Dim, Shape]:
    """Batch, channels and spatial dimensions."""
    axis_of(1, len(x))
    return (x[0], x[-1], x[1:-1]) if channels_last(op) else (x[0], x[1], x[2:])


def joined(op: Op, batch: Dim, channels: Dim, spatial: Sequence[Dim]) -> Shape:
    """The reverse of `split`."""
    return (batch, *spatial, channels) if channels_last(op) else (batch, channels, *spatial)


def rule_of_x(*names: str, domain: str) -> Callable[[Callable[[Op, Shape], Made]], Callable[[Op, Shape], Made]]:
    """Register a rule that needs the rank of X; without it the outputs have a dtype and no shape."""

    def add(function: Callable[[Op, Shape], Made]) -> Callable[[Op, Shape], Made]:
        @rule(*names, domain=domain)
        def checked(op: Op) -> Made:
            x = shape(op)
            count = 1 + (op.op_type == "MaxPool" and op.domain == NHWC)
            return [made(_dtype(op, at), None) for at in range(count)] if x is None else function(op, x)

        return function

    return add


def _dtype(op: Op, at: int) -> str:
    if op.op_type.startswith("QLinearConv"):
        return dtype(op, 7)
    return "int64" if at else dtype(op)


def _pads(op: Op, rank: int) -> Sequence[int]:
    return (text(op, "auto_pad", "NOTSET") == "NOTSET" and integers(op, "pads")) or (0,) * (2 * rank)


def windows(op: Op, spatial: Shape, kernel: Shape) -> Shape:
    """Positions of a kernel along each spatial dimension, by the attributes of Conv and of the pools."""
    rank = len(spatial)
    if len(kernel) != rank:
        raise ValueError(f"a kernel of rank {len(kernel)} on {rank} spatial dimensions")
    strides, dilations = (integers(op, name) or (1,) * rank for name in ("strides", "dilations"))
    pads, ceil = _pads(op, rank), bool(integer(op, "ceil_mode", 0))
    same = text(op, "auto_pad", "NOTSET") in ("SAME_UPPER", "SAME_LOWER")

    def places(at: int, dim: Dim, size: Dim) -> Dim:
        stride = strides[at]
        if same:
            return rounded_up(dim, stride) if stride != 1 else dim
        if not isinstance(size, int):
            return "?"
        reach = pads[at] + pads[rank + at] - (dilations[at] * (size - 1) + 1)
        if stride == 1 or not isinstance(dim, int):
            return plus(dim, reach + 1) if stride == 1 else "?"
        count = (-(-(dim + reach) // stride) if ceil else (dim + reach) // stride) + 1
        return count - (ceil and (count - 1) * stride >= dim + pads[at])  # the last window starts in the image

    return tuple(places(at, dim, size) for at, (dim, size) in enumerate(zip(spatial, kernel, strict=True)))


def kernel_of(op: Op, x: Shape, weights: Shape | None) -> Shape:
    """By the attribute, else by the weights [M, C / group, ...], or of NhwcConv [M, ..., C / group] too.

    NhwcConv's schema has the first order, its kernel and ``transformers/fusion_nhwc_conv.py`` the second: the channels
    of X tell which it is; where they fit both, it is the second.
    """
    declared = integers(op, "kernel_shape")
    if declared is not None or weights is None:
        return declared if declared is not None else ("?",) * (len(x) - 2)
    if op.op_type != "NhwcConv":
        return weights[2:]
    group, channels = integer(op, "group", 1), x[-1]
    last, second = (times(weights[at], group) for at in (-1, 1))
    if isinstance(channels, int) and isinstance(last, int) and isinstance(second, int):
        return weights[2:] if second == channels != last else weights[1:-1]
    return tuple(a if a == b else "?" for a, b in pairwise(weights[1:]))


@rule_of_x("FusedConv", "NhwcFusedConv", "NhwcConv", "QLinearConv", domain=MS)
@rule_of_x("Conv", domain=NCHWC)
@rule_of_x("Conv", "QLinearConv", domain=NHWC)
def conv(op: Op, x: Shape) -> Made:
    """X, W [M, C / group, ...]; of QLinearConv W is input 3."""
    weights = shape(op, 3 if op.op_type == "QLinearConv" else 1)
    batch, _, spatial = split(op, x)
    places = windows(op, spatial, kernel_of(op, x, weights))
    return [made(_dtype(op, 0), joined(op, batch, "?" if weights is None else weights[0], places))]


@rule_of_x("ConvTransposeWithDynamicPads", domain=MS)
@rule_of_x("ConvTranspose", "QLinearConvTranspose", domain=NHWC)
def conv_transpose(op: Op, x: Shape) -> Made:
    """X, W [C, M / group, ...]; pads are an input of ConvTransposeWithDynamicPads."""
    weights = shape(op, 3 if op.op_type.startswith("QLinear") else 1)
    batch, _, spatial = split(op, x)
    rank = len(spatial)
    pads = values(op, 2) if op.domain == MS and given(op, 2) is not None else _pads(op, rank)
    kernel, asked = kernel_of(op, x, weights), integers(op, "output_shape")
    strides, dilations = (integers(op, name) or (1,) * rank for name in ("strides", "dilations"))
    more = integers(op, "output_padding") or (0,) * rank
    same = text(op, "auto_pad", "NOTSET") in ("SAME_UPPER", "SAME_LOWER")

    def places(at: int, dim: Dim, size: Dim) -> Dim:
        if asked is not None:
            return asked[at - rank]
        if same:
            return times(dim, strides[at])
        if pads is None or not isinstance(size, int):
            return "?"
        window = dilations[at] * (size - 1) + 1 + more[at] - pads[at] - pads[rank + at]
        return plus(times(dim, strides[at]), window - strides[at])

    found = [places(at, dim, size) for at, (dim, size) in enumerate(zip(spatial, kernel, strict=True))]
    channels = "?" if weights is None else times(weights[1], integer(op, "group", 1))
    return [made(_dtype(op, 0), joined(op, batch, channels, found))]


@rule_of_x("MaxpoolWithMask", "NhwcMaxPool", "QLinearAveragePool", domain=MS)
@rule_of_x("MaxPool", "AveragePool", domain=NCHWC)
@rule_of_x("MaxPool", "AveragePool", "LpPool", "QLinearAveragePool", domain=NHWC)
def pool(op: Op, x: Shape) -> Made:
    """A window over each channel; of MaxPool in NHWC the indices, too."""
    batch, channels, spatial = split(op, x)
    places = windows(op, spatial, integers(op, "kernel_shape") or ("?",) * len(spatial))
    indices = op.op_type == "MaxPool" and op.domain == NHWC
    return [made(_dtype(op, at), joined(op, batch, channels, places)) for at in range(1 + indices)]


@rule_of_x("GlobalAveragePool", "GlobalMaxPool", domain=NCHWC)
@rule_of_x("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool", domain=NHWC)
@rule_of_x("QLinearGlobalAveragePool", domain=MS)
def global_pool(op: Op, x: Shape) -> Made:
    """One value a channel."""
    batch, channels, spatial = split(op, x)
    return [made(dtype(op), joined(op, batch, channels, (1,) * len(spatial)))]


@rule_of_x("MaxUnpool", domain=NHWC)
def max_unpool(op: Op, x: Shape) -> Made:
    """The reverse of MaxPool, unless output_shape, in NCHW, is given."""
    batch, channels, spatial = split(op, x)
    rank = len(spatial)
    if given(op, 2) is not None:
        asked: Shape = values(op, 2) or ("?",) * len(x)
        return [made(dtype(op), joined(op, asked[0], asked[1], asked[2:]))]
    kernel: Shape = integers(op, "kernel_shape") or ("?",) * rank
    strides, pads = integers(op, "strides") or (1,) * rank, _pads(op, rank)
    found = [
        plus(times(plus(dim, -1), strides[at]), size, -pads[at] - pads[rank + at])
        for at, (dim, size) in enumerate(zip(spatial, kernel, strict=True))
    ]
    return [made(dtype(op), joined(op, batch, channels, found))]


@rule("BatchNormalization", "InstanceNormalization", "LRN", domain=NHWC)
def norm(op: Op) -> Made:
    """As the input; of BatchNormalization in training, mean and variance too."""
    return [like(op), *(like(op, index) for index in (3, 4)[: len(op.outputs) - 1])]


@rule("DepthToSpace", "SpaceToDepth", domain=NHWC)
def blocks(op: Op) -> Made:
    """Blocks of channels become blocks of pixels, or the reverse."""
    batch, height, width, channels = dims(op, 0, 4)
    side = required(op, "blocksize")
    one, other = (times, over) if op.op_type == "DepthToSpace" else (over, times)
    return [made(dtype(op), (batch, one(height, side), one(width, side), other(channels, side * side)))]


@rule("GridSample", domain=MS)
@rule("GridSample", domain=NHWC)
def grid_sample(op: Op) -> Made:
    """X, grid [N, ..., rank]."""
    x, grid = (dims(op, 0, 4), dims(op, 1, 4)) if op.domain == MS else (shape(op), shape(op, 1))
    if x is None or grid is None:
        return [made(dtype(op), None if x is None else (x[0], *("?",) * (len(x) - 2), x[-1]))]
    return [made(dtype(op), joined(op, x[0], split(op, x)[1], grid[1:-1]))]


@rule_of_x("Resize", domain=NHWC)
def resize(op: Op, x: Shape) -> Made:
    """By sizes, which are in the order of X; scales are floats, whose values are not known here."""
    sizes, axes = values(op, 3), integers(op, "axes")
    if sizes is None or text(op, "keep_aspect_ratio_policy", "stretch") != "stretch":
        return [made(dtype(op), ("?",) * len(x))]
    asked = dict(zip((axis_of(axis, len(x)) for axis in axes) if axes else range(len(x)), sizes, strict=True))
    return [made(dtype(op), [asked.get(index, dim) for index, dim in enumerate(x)])]


@rule("CropAndResize", domain=MS)
def crop_and_resize(op: Op) -> Made:
    """X [N, C, H, W], rois [crops, 4], batch_indices, crop_size [2]."""
    height, width = values(op, 3) or ("?", "?")
    return [made(dtype(op), (dims(op, 1, 2)[0], dims(op, 0, 4)[1], height, width))]


@rule_of_x("ReorderInput", domain=NCHWC)
def reorder_input(op: Op, x: Shape) -> Made:
    """To blocks of channels, the last of them filled up to 8 or to 16: open where that makes a difference."""
    batch, channels, spatial = split(op, x)
    whole = isinstance(channels, int) and channels % LARGEST_BLOCK in (0, *range(9, LARGEST_BLOCK))
    padded = times(rounded_up(channels, LARGEST_BLOCK), LARGEST_BLOCK) if whole else "?"
    return [made(dtype(op), (batch, padded, *spatial))]


@rule_of_x("ReorderOutput", domain=NCHWC)
def reorder_output(op: Op, x: Shape) -> Made:
    """From blocks of channels, to as many as an attribute says."""
    return [made(dtype(op), joined(op, x[0], required(op, "channels"), x[2:]))]


@rule_of_x("Upsample", domain=NCHWC)
def upsample(op: Op, x: Shape) -> Made:
    """Each dimension by its scale."""
    scales = integers(op, "scales") or ("?",) * len(x)
    return [made(dtype(op), [times(dim, s) if isinstance(s, int) else "?" for dim, s in zip(x, scales, strict=True)])]


@rule("WordConvEmbedding", domain=MS)
def word_conv_embedding(op: Op) -> Made:
    """Sequence [words, characters], W [filters, 1, window, channels]: filters for each word."""
    filters: Dim = integer(op, "embedding_size", 0) or dims(op, 1, 4)[0]
    return [made(dtype(op, 1), (dims(op, 0, 2)[0], filters))]


@rule_of_x("UnfoldTensor", domain=MS)
def unfold(op: Op, x: Shape) -> Made:
    """Every window of ``size`` along a dimension, as a new last dimension."""
    size, step = required(op, "size"), integer(op, "step", 1)
    at = axis_of(integer(op, "dim", -1), len(x))
    return [made(dtype(op), (*x[:at], plus(over(plus(x[at], -size), step), 1), *x[at + 1 :], size))]
