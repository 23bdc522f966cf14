"""Pooling: the window times the outputs."""

from __future__ import annotations

import math

from trtprof.base.records import Op
from trtprof.cost import Cost, UnknownShapeError, cost
from trtprof.cost._recipes import Recipe, requantize
from trtprof.cost._shapes import MS, NCHWC, NHWC, given, integer, integers, need, number, out, shape, size, work
from trtprof.cost._windows import touched_elements


def _kernel(op: Op) -> tuple[int, ...]:
    kernel = integers(op, "kernel_shape")
    if kernel is None:
        raise UnknownShapeError(f"{op.op_type} has no kernel_shape")
    return kernel


def _window(op: Op) -> int:
    return math.prod(_kernel(op))


def _reached(op: Op) -> dict[int, int]:
    """Elements read of the input: windows with long steps leave some out."""
    return {0: touched_elements(op, _kernel(op))}


def _global_window(op: Op) -> int:
    """Inputs per output, whatever the layout."""
    y = size(out(op))
    return size(need(op, 0)) // y if y else 0


@cost("MaxPool", "AveragePool")
@cost("NhwcMaxPool", domain=MS)
@cost("MaxPool", "AveragePool", domain=NCHWC)
@cost("MaxPool", "AveragePool", domain=NHWC)
def pool(op: Op) -> Cost:
    """Window size per output element: compares, or adds and the divide. Padding counts."""
    return work(op, vector=_window(op) * size(out(op)), read=_reached(op))


@cost("GlobalMaxPool", "GlobalAveragePool")
@cost("GlobalMaxPool", "GlobalAveragePool", domain=NCHWC)
@cost("GlobalMaxPool", "GlobalAveragePool", domain=NHWC)
def global_pool(op: Op) -> Cost:
    """One FLOP per input element."""
    return work(op, vector=_global_window(op) * size(out(op)))


def _lp(op: Op, window: int, read: dict[int, int] | None = None) -> Cost:
    """(sum |x|^p)^(1/p): for p = 1 an absolute value, for p = 2 a square and a root, else powers."""
    p = number(op, "p", 2.0)
    y = size(out(op))
    special = {1.0: {}, 2.0: {"sqrt": 1}}.get(p, {"pow": window + 1})
    return work(op, Recipe(max(2 * window - 1, 0), special).times(y), read=read)


@cost("LpPool")
@cost("LpPool", domain=NHWC)
def lp_pool(op: Op) -> Cost:
    """The p-norm of each window."""
    return _lp(op, _window(op), _reached(op))


@cost("GlobalLpPool")
@cost("GlobalLpPool", domain=NHWC)
def global_lp_pool(op: Op) -> Cost:
    """The p-norm of each channel."""
    return _lp(op, _global_window(op))


@cost("QLinearAveragePool", domain=MS)
@cost("QLinearAveragePool", domain=NHWC)
def qlinear_average_pool(op: Op) -> Cost:
    """The window in integers, then requantised. Inputs X, x_scale, x_zero_point, y_scale, y_zero_point."""
    each = _window(op) + requantize(given(op, 4) is not None).vector
    return work(op, vector=each * size(out(op)), read=_reached(op))


@cost("QLinearGlobalAveragePool", domain=MS)
def qlinear_global_average_pool(op: Op) -> Cost:
    """The channel in integers, then requantised."""
    return work(op, vector=(_global_window(op) + requantize(given(op, 4) is not None).vector) * size(out(op)))


@cost("MaxpoolWithMask", domain=MS)
def masked_max_pool(op: Op) -> Cost:
    """A test of the mask and a compare per place of the window, which a zero in the mask ends.

    Source: ONNX Runtime, contrib_ops/cpu/maxpool_with_mask.h.
    """
    return work(op, vector=2 * _window(op) * size(out(op)), bound="upper", note="the mask may end a window early")


@cost("MaxUnpool")
@cost("MaxUnpool", domain=NHWC)
def max_unpool(op: Op) -> Cost:
    """Values go to the places that their indices name; the rest is zero."""
    return work(op)


@cost("MaxRoiPool")
def max_roi_pool(op: Op) -> Cost:
    """Every region has at most the whole map to compare. Inputs X [N, C, H, W], rois [R, 5].

    Neighbouring bins of a region share at most one row and one column on each side.
    """
    height, width = shape(need(op, 0))[2:]
    regions, channels, rows, columns = shape(out(op))
    cells = (height + 2 * rows) * (width + 2 * columns)
    return work(op, vector=regions * channels * cells, bound="upper", note="each region counted as the whole map")


@cost("RoiAlign")
def roi_align(op: Op) -> Cost:
    """Per sampling point 4 multiplies and 3 adds, and one FLOP to gather it into its bin.

    ``sampling_ratio`` 0 takes one point per pixel of the bin: counted as if the region were the map.
    """
    ratio = integer(op, "sampling_ratio", 0)
    y = out(op)
    height, width = shape(need(op, 0))[2:]
    rows, columns = shape(y)[2:]
    per_bin = ratio**2 if ratio else -(-height // max(rows, 1)) * -(-width // max(columns, 1))
    points = size(y) * per_bin
    return work(
        op,
        vector=8 * points,
        read={0: 4 * points},
        bound="upper",
        note="regions are data and may overlap; interpolation weights not counted",
    )
