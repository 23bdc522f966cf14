"""Softmax and its kin."""

from __future__ import annotations

import math

from trtprof.base.records import Core, Op
from trtprof.cost import Cost, cost
from trtprof.cost._recipes import NOTHING, Recipe, dequantize, quantize, softmax
from trtprof.cost._shapes import MS, axis_of, given, integer, need, shape, size, work


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
