"""Softmax and its kin, and reductions over axes."""

from __future__ import annotations

import math

from trtprof.base.records import Core, Op
from trtprof.cost import Cost, cost
from trtprof.cost._recipes import NOTHING, Recipe, dequantize, quantize, softmax
from trtprof.cost._shapes import MS, axis_of, given, integer, need, out, shape, size, work


def _rows(op: Op, flattened: bool, default: int) -> tuple[int, int]:
    """Number of rows and their length: one axis, or everything from the axis on flattened."""
    dims = shape(need(op, 0))
    axis = axis_of(op, len(dims), default)
    n = math.prod(dims[axis:] if flattened else dims[axis : axis + 1])
    return (math.prod(dims) // n if n else 0), n


def _work(op: Op, rows: int, n: int, extra: Recipe = NOTHING) -> Cost:
    """Softmax, and log(sum) instead of the divide for LogSoftmax; only compares for Hardmax."""
    if op.op_type == "Hardmax":
        return work(op, vector=rows * (n - 1))
    total = softmax(rows, n).plus(extra)
    if op.op_type == "LogSoftmax":
        total = total.plus(Recipe(0, {"log": rows}))
    return work(op, total, core=Core(kind="softmax", m=rows, n=n) if rows else None)


@cost("Softmax", "LogSoftmax", "Hardmax", first=13)
def softmax_axis(op: Op) -> Cost:
    """Rows along one axis."""
    return _work(op, *_rows(op, flattened=False, default=-1))


@cost("Softmax", "LogSoftmax", "Hardmax", last=12)
def softmax_flattened(op: Op) -> Cost:
    """The input flattened to two dimensions at the axis."""
    return _work(op, *_rows(op, flattened=True, default=1))


@cost("BiasSoftmax", domain=MS)
def bias_softmax(op: Op) -> Cost:
    """One add per element, then softmax over everything from the axis on."""
    return _work(op, *_rows(op, flattened=True, default=1), extra=Recipe(size(need(op, 0))))


@cost("QLinearSoftmax", domain=MS)
def qlinear_softmax(op: Op) -> Cost:
    """Dequantised, softmax of the opset in its attribute, quantised."""
    old = integer(op, "opset", 13) < 13
    around = dequantize(given(op, 2) is not None).plus(quantize(given(op, 4) is not None))
    return _work(op, *_rows(op, old, 1 if old else -1), extra=around.times(size(need(op, 0))))


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
