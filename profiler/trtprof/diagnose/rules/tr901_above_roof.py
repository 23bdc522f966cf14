"""A layer faster than its ideal: the numbers, not the layer, need a look.

What:
    The layer took less time than its work needs at the best ceilings of this device.

Why:
    Its FLOPs or bytes are counted too high (work that the kernel skips, a tensor that stays in a
    nearer cache), or the ceilings were measured on a slower clock than the run. Of times from files, they
    may be of another GPU, clock, batch or shape than the plan and the options say.

Try:
    Measure the ceilings again (`--recalibrate`) on a quiet machine; of times from files, check `--gpu`,
    `--clock` and `--shapes`. If it stays, report the op and its shapes: the cost function is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator

from trtprof.base.records import LayerResult
from trtprof.base.units import format_ns, format_percent
from trtprof.diagnose import Case, Claim, doubt, rule
from trtprof.diagnose.reasons import unpriced


def _reason(case: Case, layer: LayerResult) -> str:
    if layer.ideal_ns is None:
        return unpriced(case, layer)
    return (
        f"{format_ns(layer.measured_ns)} measured is not under {format_percent(case.thresholds.above_roof)} of the "
        f"ideal {format_ns(layer.ideal_ns)} by more than a step of the clock ({format_ns(_step_ns(case, layer))})"
    )


def _faster(case: Case, layer: LayerResult) -> bool:
    """Whether the time measured is under ideal by more than the clock's steps and the ceilings' spread."""
    if layer.ideal_ns is None or layer.measured_ns >= layer.ideal_ns * case.thresholds.above_roof:
        return False
    return layer.ideal_ns - layer.measured_ns > _step_ns(case, layer)


def _step_ns(case: Case, layer: LayerResult) -> int:
    return case.clock_resolution_ns * case.runs.get(layer.name, 1)


@rule("TR901", "faster than the roofline", order=0, reason=_reason, thresholds=("above_roof", "above_roof_limit"))
def check(case: Case) -> Iterator[Claim]:
    """All layers that are too fast as one doubt, by the one that is so by most."""
    layers = sorted(
        (layer for layer in case.layers if _faster(case, layer)),
        key=lambda layer: (layer.measured_ns - (layer.ideal_ns or 0), layer.name),
    )
    if not layers:
        return
    total = sum(layer.measured_ns for layer in case.layers)
    share = sum(layer.measured_ns for layer in layers) / total if total else 0.0
    worst, limit = layers[0], case.thresholds.above_roof_limit
    more = f" and {len(layers) - 1} more" if len(layers) > 1 else ""
    beyond = share >= limit
    yield doubt(
        (
            f"measured {format_ns(worst.measured_ns)}, ideal {format_ns(worst.ideal_ns or 0)}: "
            f"a counting error or a cache effect; {format_percent(share)} of {case.time_of} time is in such layers"
            + (f", and from {format_percent(limit)} on there is no verdict" if beyond else "")
        ),
        (
            "check that --gpu, --clock and the shapes are those of the measurement; if it stays, report the layer"
            if case.tensorrt
            else "measure the ceilings again with --recalibrate on a quiet machine; if it stays, report the op"
        ),
        where=worst.name + more,
        layers=[layer.name for layer in layers],
        brief=f"{len(layers)} layer{'s' if len(layers) > 1 else ''} faster than the floor",
        beyond=beyond,
    )
