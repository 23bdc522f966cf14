"""To and from quantised values."""

from __future__ import annotations

from profiler.cost import Cost, cost
from profiler.cost._recipes import dequantize, dynamic_quantize, quantize
from profiler.cost._shapes import MS, given, need, size, work
from profiler.records import Op


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
