"""All layers are slow alike, whatever bounds them.

What:
    No layer that is large enough to tell comes near its roofline: neither the best of those that memory bounds nor the
    best of those that arithmetic bounds, and both are about as far from it. Where good library kernels of the same
    shape were measured, what the fastest tenth of them take stands for the roofline, and one layer that is no slower
    than nine of ten of them ends the doubt.

Why:
    A bad kernel, layout or shape slows the layers that it is in, and some are always healthy. What slows memory and
    arithmetic by the same factor is outside of the kernels: another GPU than the one that the roofline is of (`--gpu`),
    a part of one (MIG), clocks that power, temperature or a person held down, or another process on the same GPU.

Try:
    Check that `--gpu` is the GPU that ran it. Look at its clocks, power and temperature while it runs (`nvidia-smi -q
    -d CLOCK,POWER,PERFORMANCE`), and for other processes (`nvidia-smi`). Then measure again: until then what the other
    findings claim may be nobody's loss.
"""

from __future__ import annotations

from collections.abc import Sequence

from trtprof.base.records import LayerResult
from trtprof.base.units import format_percent
from trtprof.diagnose import Case, Claim, doubt, run_rule
from trtprof.diagnose.libraries import as_fast, reachable_ns
from trtprof.diagnose.reasons import no_work, unpriced

_SIDES = {"memory": ("dram", "l2"), "arithmetic": ("tensor", "vector", "sfu")}
"""What may bound a layer, by what slows it."""

_WHOLE = "the rule is about the whole run:"


@run_rule("TR907", "all layers slow alike", order=0, thresholds=("efficiency", "of_datasheet", "alike", "large"))
def judge(case: Case) -> Claim | str:
    """One finding where neither memory nor arithmetic comes near its roofline anywhere, and both are as far from it."""
    if not case.gpu:
        return "the rule is about the whole run, which was on no GPU"
    least, most = case.least_efficiency, case.thresholds.alike
    found = {side: _large(case, bounds) for side, bounds in _SIDES.items()}
    if good := next((words for layers in found.values() for layer in layers if (words := as_fast(layer))), ""):
        return f"{_WHOLE} not all are slow, for {good}"
    told = (
        f"{_number(sum(map(len, found.values())))} with an allowed time of {case.thresholds.large:g} launches or more"
    )
    few = [side for side, layers in found.items() if len(layers) < 2]
    if few:
        return f"{_WHOLE} of {told}, fewer than two are bound by {' and by '.join(few)}"
    best = {side: max(layers, key=_reached) for side, layers in found.items()}
    shares = {side: _reached(layer) for side, layer in best.items()}
    words = ", ".join(f"by {side} {format_percent(shares[side])} ({layer.name})" for side, layer in best.items())
    if max(shares.values()) >= least:
        return f"{_WHOLE} of {told}, the best bound {words}; under {format_percent(least)} is far"
    if max(shares.values()) > most * min(shares.values()):
        return (
            f"{_WHOLE} of {told}, the best bound {words}; one is more than {most:g} times as far from its roofline "
            "as the other, so that it is not one cause"
        )
    peaks = "by the datasheet" if case.from_datasheet else "as it was measured"
    return doubt(
        f"of {told}, none reaches {format_percent(least)} of it {peaks}: the best bound {words}; {_clock(case)}",
        f"{_check(case)}, then measure again: what slows memory and arithmetic alike lies outside of the kernels",
        brief="all layers are slow alike",
        beyond=True,
        confidence=0.8,
    )


def _large(case: Case, bounds: Sequence[str]) -> list[LayerResult]:
    """Layers bound so that keep the whole GPU busy for long enough to be judged by their roof."""
    floor = case.thresholds.large * case.ceilings.launch_ns
    return [
        layer
        for layer in case.layers
        if layer.bound in bounds
        and not (no_work(case, layer) or unpriced(case, layer))
        and layer.measured_ns
        and (layer.attainable_ns or 0) >= floor
    ]


def _reached(layer: LayerResult) -> float:
    return reachable_ns(layer) / layer.measured_ns


def _number(layers: int) -> str:
    return f"{layers} layer{'s' * (layers != 1)}"


def _clock(case: Case) -> str:
    sampled = case.clocks or case.clocks_profiled
    if sampled is None or sampled.sm_clock_mhz is None:
        return "no clock was sampled"
    rated = f" of {case.rated_mhz:,.0f} MHz" if case.rated_mhz else ""
    return f"the SMs ran at {sampled.sm_clock_mhz.median:,.0f}{rated or ' MHz'}"


def _check(case: Case) -> str:
    """Where a run was sampled here, its GPU is known."""
    gpu = "check that --gpu is the GPU that ran it, " if case.clocks is None and case.clocks_profiled is None else ""
    return (
        f"{gpu}look at its clocks, power and temperature while it runs (nvidia-smi -q -d CLOCK,POWER,PERFORMANCE) and "
        "for other processes on it"
    )
