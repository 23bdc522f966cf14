"""8-bit ops in the matrix layouts of cuBLASLt; scales are symmetric, without zero points."""

from __future__ import annotations

import math

from trtprof.base.records import Op
from trtprof.cost import Cost, cost
from trtprof.cost._recipes import GELU_ERF, Recipe, dequantize, normalize, quantize, requantize
from trtprof.cost._shapes import MS, axis_of, given, need, out, shape, size, work

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
