"""Quantisation, and 8-bit ops in the matrix layouts of cuBLASLt, whose scales are symmetric."""

from __future__ import annotations

import math

from trtprof.base.records import Op
from trtprof.cost import Cost, cost
from trtprof.cost._recipes import GELU_ERF, Recipe, dequantize, dynamic_quantize, normalize, quantize, requantize
from trtprof.cost._shapes import MS, axis_of, given, need, out, shape, size, work


@cost("QuantizeLinear")
@cost("QuantizeLinear", domain=MS)
def quantize_linear(op: Op) -> Cost:
    """saturate(round(x / scale) + zero_point): 5 FLOP per element, 4 without a zero point."""
    return work(op, vector=quantize(given(op, 2) is not None).vector * size(need(op, 0)))


@cost("DequantizeLinear")
@cost("DequantizeLinear", domain=MS)
def dequantize_linear(op: Op) -> Cost:
    """(x - zero_point) * scale: 3 FLOP per element with the convert, 2 without a zero point."""
    return work(op, vector=dequantize(given(op, 2) is not None).vector * size(need(op, 0)))


@cost("DynamicQuantizeLinear")
def dynamic_quantize_linear(op: Op) -> Cost:
    """Minimum, maximum, scale and zero point, then every value quantised. The input counts as read once."""
    return work(op, vector=dynamic_quantize(size(need(op, 0))).vector)


@cost("QuantizeBFP", domain=MS)
def quantize_bfp(op: Op) -> Cost:
    """Block floating point: the largest magnitude of a block is its scale, by which every value is quantised.

    An absolute value and a compare, then a divide, a round and two compares. Source: B. Rouhani et al.,
    Pushing the limits of narrow precision inferencing at cloud scale with Microsoft floating point,
    NeurIPS 2020.
    """
    return work(op, quantize(zero_point=False).plus(Recipe(2)).times(size(need(op, 0))))


@cost("DequantizeBFP", domain=MS)
def dequantize_bfp(op: Op) -> Cost:
    """A convert and a multiply by the scale of the block per value. Inputs the data, shape, strides."""
    return work(op, dequantize(zero_point=False).times(size(out(op))))


_AROUND = dequantize(zero_point=False).plus(quantize(zero_point=False))


@cost("QuantizeWithOrder", domain=MS)
def quantize_with_order(op: Op) -> Cost:
    """Quantised into another layout."""
    return work(op, quantize(zero_point=False).times(size(need(op, 0))))


@cost("DequantizeWithOrder", domain=MS)
def dequantize_with_order(op: Op) -> Cost:
    """Dequantised into another layout."""
    return work(op, dequantize(zero_point=False).times(size(need(op, 0))))


@cost("QOrderedGelu", domain=MS)
def qordered_gelu(op: Op) -> Cost:
    """Dequantised, the form with erf, quantised."""
    return work(op, _AROUND.plus(GELU_ERF).times(size(out(op))))


@cost("QOrderedLayerNormalization", domain=MS)
def qordered_layer_normalization(op: Op) -> Cost:
    """Dequantised, layer normalisation from the axis on, quantised. Inputs X, scale_X, scale, B, scale_Y."""
    dims = shape(need(op, 0))
    groups = math.prod(dims[: axis_of(op, len(dims), -1)])
    total = math.prod(dims)
    affine = Recipe(1 + (given(op, 3) is not None))
    each = normalize(groups, total // groups if groups else 0).plus(_AROUND.plus(affine).times(total))
    return work(op, each)


@cost("QOrderedMatMul", domain=MS)
def qordered_matmul(op: Op) -> Cost:
    """The MACs, the bias, C converted, scaled and added, and each accumulator requantised.

    Inputs A [..., K], scale_A, B, scale_B, scale_Y, bias, C, scale_C.
    """
    y = size(out(op))
    each = requantize(zero_point=False).vector + (given(op, 5) is not None)
    c = given(op, 6)
    added = 0 if c is None else dequantize(zero_point=False).vector * size(c) + y
    return work(op, tensor=2 * y * shape(need(op, 0))[-1], vector=each * y + added)
