"""Values read between grid points: Resize, Upsample, GridSample, AffineGrid."""

from __future__ import annotations

import math

from trtprof.base.records import Op
from trtprof.cost import Cost, cost
from trtprof.cost._shapes import MS, NCHWC, NHWC, integer, need, out, shape, size, string, work

_TAPS = {"nearest": 1, "linear": 2, "bilinear": 2, "cubic": 4, "bicubic": 4}


@cost("Resize", "Upsample")
@cost("Upsample", domain=NCHWC)
@cost("Resize", domain=NHWC)
def resize(op: Op) -> Cost:
    """A weighted sum of the taps of every dimension that changes its size.

    Nearest copies. Linear takes 2 taps per such dimension and cubic 4, so that an output element
    takes t multiplies and t - 1 adds, t the product over dimensions; a separable algorithm does
    with less. Antialiasing widens the taps by the factor of shrinking. Weights depend on the
    position alone and are not counted.
    """
    x, y = shape(need(op, 0)), shape(out(op))
    taps_here = _TAPS.get(string(op, "mode", "nearest").lower(), 1)
    antialias = bool(integer(op, "antialias", 0))
    crops = string(op, "coordinate_transformation_mode") == "tf_crop_and_resize"
    taps = touched = 1
    for before, after in zip(x, y, strict=True):
        wide = 1
        if before != after or crops:
            wide = taps_here
            if antialias and 0 < after < before and taps_here > 1:
                wide = -(-taps_here * before // after)
        taps *= wide
        touched *= min(before, after * wide)
    shrinks = any(after < before for before, after in zip(x, y, strict=True))
    overlap = crops or (shrinks and taps_here > 1)
    return work(
        op,
        vector=(2 * taps - 1) * math.prod(y) if taps_here > 1 and taps > 1 else 0,
        read={0: touched},
        bound="upper" if overlap else "exact",
        note="taps of neighbours may be the same" if overlap else "",
    )


@cost("GridSample")
@cost("GridSample", domain=MS)
@cost("GridSample", domain=NHWC)
def grid_sample(op: Op) -> Cost:
    """A weighted sum of taps per output element, and the grid to pixels: a multiply and an add per coordinate.

    Inputs X [N, C, spatial], grid [N, spatial out, dimensions].
    """
    grid = shape(need(op, 1))
    y = size(out(op))
    taps = _TAPS.get(string(op, "mode", "bilinear").lower(), 2) ** grid[-1]
    return work(
        op,
        vector=2 * math.prod(grid) + ((2 * taps - 1) * y if taps > 1 else 0),
        read={0: taps * y},
        bound="upper",
        note="points are data and may share taps; interpolation weights not counted",
    )


@cost("AffineGrid")
def affine_grid(op: Op) -> Cost:
    """Matrices theta [N, d, d + 1] times each homogeneous grid point: d + 1 MACs per coordinate."""
    return work(op, tensor=2 * size(out(op)) * shape(need(op, 0))[-1])


@cost("CropAndResize", domain=MS)
def crop_and_resize(op: Op) -> Cost:
    """Four taps per output element, 4 multiplies and 3 adds; nearest copies.

    Inputs X [N, C, H, W], rois [R, 4], batch_indices, crop_size; output [R, C, height, width].
    """
    taps = 1 if string(op, "mode", "bilinear").lower() == "nearest" else 4
    y = size(out(op))
    return work(
        op,
        vector=(2 * taps - 1) * y if taps > 1 else 0,
        read={0: taps * y},
        bound="upper",
        note="regions are data and may overlap; interpolation weights not counted",
    )
