"""Reductions over axes."""

from __future__ import annotations

from trtprof.base.records import Op
from trtprof.cost import Cost, cost
from trtprof.cost._recipes import NOTHING, Recipe, dequantize, quantize
from trtprof.cost._shapes import MS, given, integer, need, out, size, work

_EACH: dict[str, tuple[Recipe, Recipe]] = {
    "ReduceL1": (Recipe(1), Recipe(0)),
    "ReduceL2": (Recipe(1), Recipe(0, {"sqrt": 1})),
    "ReduceLogSum": (Recipe(0), Recipe(0, {"log": 1})),
    # The maximum takes x - y compares and is added back y times: one per input together. The other
    # FLOP per input subtracts it.
    "ReduceLogSumExp": (Recipe(2, {"exp": 1}), Recipe(0, {"log": 1})),
    "ReduceMean": (Recipe(0), Recipe(1)),
    "ReduceSumSquare": (Recipe(1), Recipe(0)),
}
"""Arithmetic per input and per output besides combining the inputs."""

_PLAIN = frozenset({"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSumInteger"})
"""Those of which nothing is left without axes; the others keep what they do to each value."""


def _copies(op: Op) -> bool:
    """Whether ``noop_with_empty_axes`` leaves a copy: no axes, neither as attribute nor as input."""
    axes = given(op, 1)
    absent = not op.attributes.get("axes") and (axes is None or axes.value == () or axes.elements == 0)
    return op.op_type in _PLAIN and bool(integer(op, "noop_with_empty_axes", 0)) and absent


@cost("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd")
@cost("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare")
@cost("ReduceSumInteger", domain=MS)
def reduce(op: Op) -> Cost:
    """One FLOP per element that disappears, and what the kind does to each input and output."""
    if _copies(op):
        return work(op, note="no axes: a copy")
    x, y = size(need(op, 0)), size(out(op))
    per_input, per_output = _EACH.get(op.op_type, (NOTHING, NOTHING))
    each = Recipe(max(x - y, 0)).plus(per_input.times(x)).plus(per_output.times(y))
    return work(op, each)


@cost("ArgMax", "ArgMin")
def arg_extreme(op: Op) -> Cost:
    """One compare per element that disappears."""
    return work(op, vector=max(size(need(op, 0)) - size(out(op)), 0))


@cost("QLinearReduceMean", domain=MS)
def qlinear_reduce_mean(op: Op) -> Cost:
    """Dequantised, the mean, quantised. Inputs data, scale, zero_point, reduced_scale, reduced_zero_point."""
    x, y = size(need(op, 0)), size(out(op))
    around = dequantize(given(op, 2) is not None).vector * x + quantize(given(op, 4) is not None).vector * y
    return work(op, vector=x + around)
