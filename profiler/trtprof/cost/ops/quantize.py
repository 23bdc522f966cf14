"""To and from quantised values."""

from __future__ import annotations

from trtprof.base.records import Op
from trtprof.cost import Cost, cost
from trtprof.cost._recipes import Recipe, dequantize, dynamic_quantize, quantize
from trtprof.cost._shapes import MS, given, need, out, size, work


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
