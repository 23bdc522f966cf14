"""Normalisation over a batch, a layer, groups or channels."""

from __future__ import annotations

import math

from trtprof.base.records import Core, Op
from trtprof.cost import Cost, cost
from trtprof.cost._recipes import NOTHING, SILU, Recipe, dequantize, normalize
from trtprof.cost._shapes import MS, NHWC, axis_of, given, integer, made, need, out, shape, size, work


def _normalized(op: Op, groups: int, affine: int, centered: bool = True, extra: Recipe = NOTHING) -> Cost:
    """Input 0 normalised in ``groups``, ``affine`` FLOP per element for scale and shift, and the extra."""
    total = size(need(op, 0))
    n = total // groups if groups else 0
    each = normalize(groups, n, centered).plus(Recipe(affine * total)).plus(extra)
    return work(op, each, core=Core(kind="normalisation", m=groups, n=n) if total else None)


@cost("LayerNormalization")
def layer_normalization(op: Op) -> Cost:
    """Groups from the axis on; a multiply for the scale, an add for the bias."""
    dims = shape(need(op, 0))
    groups = math.prod(dims[: axis_of(op, len(dims), -1)])
    return _normalized(op, groups, 1 + (given(op, 2) is not None))


@cost("RMSNormalization", "SimplifiedLayerNormalization")
def rms_normalization(op: Op) -> Cost:
    """Groups from the axis on, not centered; a multiply for the scale."""
    dims = shape(need(op, 0))
    return _normalized(op, math.prod(dims[: axis_of(op, len(dims), -1)]), 1, centered=False)


def _skip(op: Op, affine: int, centered: bool, bias: int) -> Cost:
    dims = shape(need(op, 0))
    sums = 1 + (given(op, bias) is not None)
    return _normalized(op, math.prod(dims[:-1]), affine, centered, Recipe(sums * math.prod(dims)))


@cost("SkipLayerNormalization", domain=MS)
def skip_layer_normalization(op: Op) -> Cost:
    """Input, skip and bias added, then layer normalisation of the last axis. Inputs input, skip, gamma, beta, bias."""
    return _skip(op, 1 + (given(op, 3) is not None), centered=True, bias=4)


@cost("SkipSimplifiedLayerNormalization", domain=MS)
def skip_rms_normalization(op: Op) -> Cost:
    """Input, skip and bias added, then RMS normalisation of the last axis. Inputs input, skip, gamma, bias."""
    return _skip(op, 1, centered=False, bias=3)


@cost("EmbedLayerNormalization", "QEmbedLayerNormalization", domain=MS)
def embed_layer_normalization(op: Op) -> Cost:
    """Two or three embeddings gathered and added, then layer normalisation.

    Inputs input_ids, segment_ids, word, position and segment embeddings, gamma, beta, mask, and
    position_ids or, of the quantised form, scales and zero points: the rows that are gathered, gamma
    and beta are dequantised. Positions are the same for every sequence unless they are given.
    """
    quantized = op.op_type == "QEmbedLayerNormalization"
    batch, length = shape(need(op, 0))
    y = size(out(op))
    hidden = shape(need(op, 2))[1]
    ids = None if quantized else given(op, 8)
    positions = size(ids) if ids is not None else length
    read = {2: y, 3: positions * hidden}
    segment = given(op, 4)
    if segment is not None:
        read[4] = y
    sums = 1 if segment is None else 2
    mask = size(need(op, 7)) if given(op, 7) is not None else 0
    each = normalize(batch * length, hidden).plus(Recipe((2 + sums) * y + mask))
    if quantized:
        each = each.plus(dequantize(zero_point=True).times((1 + sums) * y + 2 * hidden))
    return work(op, each, read=read, bound="upper", note="rows may repeat: each counted once")


def _batch_inference(op: Op) -> Cost:
    """Per channel epsilon, root, scale over it, and the shift (2 FLOP); per element a multiply and an add."""
    channels = size(need(op, 1))
    return work(op, Recipe(2 * size(need(op, 0)) + 4 * channels, {"sqrt": channels}))


def _batch_training(op: Op) -> Cost:
    """Groups are channels; the running mean and variance take 3 FLOP each per channel."""
    channels = size(need(op, 1))
    return _normalized(op, channels, 2, extra=Recipe(6 * channels))


@cost("BatchNormalization", last=6)
def batch_normalization_is_test(op: Op) -> Cost:
    """Training unless ``is_test``."""
    return _batch_inference(op) if integer(op, "is_test", 0) else _batch_training(op)


@cost("BatchNormalization", first=7, last=13)
def batch_normalization_by_outputs(op: Op) -> Cost:
    """Training when it has more outputs than Y."""
    training = any(made(op, index) is not None for index in range(1, len(op.outputs)))
    return _batch_training(op) if training else _batch_inference(op)


@cost("BatchNormalization", first=14)
@cost("BatchNormalization", domain=NHWC)
def batch_normalization(op: Op) -> Cost:
    """Training when ``training_mode`` is set."""
    return _batch_training(op) if integer(op, "training_mode", 0) else _batch_inference(op)


@cost("InstanceNormalization")
@cost("InstanceNormalization", domain=NHWC)
def instance_normalization(op: Op) -> Cost:
    """One group per sample and channel; a scale and a shift."""
    return _normalized(op, shape(need(op, 0))[0] * size(need(op, 1)), 2)


@cost("GroupNormalization")
def group_normalization(op: Op) -> Cost:
    """``num_groups`` groups per sample; a scale and a shift."""
    return _normalized(op, shape(need(op, 0))[0] * integer(op, "num_groups", 1), 2)


@cost("GroupNorm", "SkipGroupNorm", domain=MS)
def group_norm(op: Op) -> Cost:
    """As GroupNormalization, with SiLU when ``activation`` is 1; the skip and the bias are added first."""
    x = size(need(op, 0))
    extra = SILU.times(x) if integer(op, "activation", 0) else NOTHING
    if op.op_type == "SkipGroupNorm":
        extra = extra.plus(Recipe((1 + (given(op, 4) is not None)) * x))
    return _normalized(op, shape(need(op, 0))[0] * integer(op, "groups", 1), 2, extra=extra)


@cost("MeanVarianceNormalization")
def mean_variance_normalization(op: Op) -> Cost:
    """Groups over the axes, by default all but the channels of [N, C, H, W]."""
    dims = shape(need(op, 0))
    axes = op.attributes.get("axes", (0, 2, 3))
    over = {int(axis) % len(dims) for axis in axes} if isinstance(axes, tuple) else set()
    return _normalized(op, math.prod(dim for axis, dim in enumerate(dims) if axis not in over), 0)


@cost("LpNormalization")
def lp_normalization(op: Op) -> Cost:
    """Absolute values or squares, their sum, a root for p = 2, and a divide, along one axis."""
    dims = shape(need(op, 0))
    total = math.prod(dims)
    rows = total // dims[axis_of(op, len(dims), -1)] if total else 0
    roots = {"sqrt": rows} if integer(op, "p", 2) == 2 else {}
    core = Core(kind="normalisation", m=rows, n=total // rows) if total else None
    return work(op, Recipe(3 * total - rows, roots), core=core)


@cost("LRN")
@cost("LRN", domain=NHWC)
def lrn(op: Op) -> Cost:
    """Each x / (bias + alpha / size * sum of squares over ``size`` channels) ^ beta.

    Per element a square, size - 1 adds, a multiply, an add, a divide and a power. Squares are
    shared between windows; windows that reach over the edge count in full.
    """
    x = size(need(op, 0))
    window = integer(op, "size", 1)
    return work(op, Recipe(window + 3, {"pow": 1}).times(x), note="windows over the edge count in full")
