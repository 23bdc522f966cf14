"""Why a rule passes a layer by, in sentences with their numbers; each function says one reason, or nothing."""

from __future__ import annotations

from typing import Literal

from trtprof.base.records import BOUND_WORDS, Bound, LayerResult, bound_name
from trtprof.base.units import format_ns, format_percent
from trtprof.diagnose import Case
from trtprof.diagnose.libraries import as_fast

_ROLES = {
    "layout": "it only brings tensors into another layout or dtype",
    "shape": "it computes shapes",
    "sync": "it only makes streams wait for one another",
    "idle": "it launches nothing",
    "control": "it is control flow, whose time is that of the layers of its body",
}


def no_work(_case: Case, layer: LayerResult) -> str:
    """It does none of the model's work."""
    if layer.role == "compute":
        return ""
    return f"the layer does none of the model's work: {_ROLES.get(layer.role, f'its role is {layer.role}')}"


def unpriced(case: Case, layer: LayerResult) -> str:
    """What it could attain is not known."""
    if layer.attainable_ns is None:
        return "what the layer could attain is not known" + (f": {layer.reason}" if layer.reason else "")
    if layer.name in case.partial:
        return "only a part of the layer's work is known, so what it takes beyond that is not known to be lost" + (
            f": {layer.reason}" if layer.reason else ""
        )
    return ""


def near_roof(case: Case, layer: LayerResult) -> str:
    """It is not far enough from its roof."""
    if layer.attainable_ns is None or layer.lost_ns is None or case.far_from_roof(layer):
        return ""
    roof = "by the datasheet" if case.from_datasheet else "here"
    times = f"{format_ns(layer.measured_ns)} measured, {format_ns(layer.attainable_ns)} attainable {roof}"
    if not layer.measured_ns:
        return "the layer took no time"
    efficiency = layer.attainable_ns / layer.measured_ns
    if efficiency >= case.least_efficiency:
        return (
            f"the layer is not far from its roofline: {times} is {format_percent(efficiency)}, and under "
            f"{format_percent(case.least_efficiency)} is far"
        )
    return (
        f"{times}: the difference is within the step of the clock that timed it, {format_ns(case.clock_resolution_ns)}"
    )


def not_slow(case: Case, layer: LayerResult) -> str:
    """It is not far enough from its roof, or no slower than good library kernels."""
    return near_roof(case, layer) or as_fast(layer)


def bound_otherwise(case: Case, layer: LayerResult, *bounds: Bound) -> str:
    """Something else bounds it than what the rule is about."""
    if layer.bound in bounds or layer.bound == "unknown":
        return ""
    what = " or ".join(BOUND_WORDS[bound].phrase for bound in bounds)
    terms = {name: ns for name, ns in layer.terms.items() if ns}
    kind: Literal["cpu", "gpu"] = "gpu" if case.gpu else "cpu"
    sums = ", ".join(
        f"{bound_name(name, kind)} {format_ns(ns)}" for name, ns in sorted(terms.items(), key=lambda term: -term[1])
    )
    return f"the layer is bound by {BOUND_WORDS[layer.bound].phrase}, not by {what}" + (f" ({sums})" if sums else "")


def roofline_alone(case: Case) -> str:
    """The roofline is no cause: on a CPU nothing observed would say why a layer is far from it."""
    return (
        "on a CPU a cause is told from what ran (SK803, PR802, ST804), not from the roofline" if case.on_ort_cpu else ""
    )


def not_far(case: Case, layer: LayerResult, *bounds: Bound) -> str | None:
    """It is not far from a roof of these bounds, or no slower than good library kernels; None where it is both."""
    why = roofline_alone(case) or no_work(case, layer) or unpriced(case, layer) or bound_otherwise(case, layer, *bounds)
    why = why or not_slow(case, layer)
    return None if not why and layer.bound in bounds and case.far_from_roof(layer) else why


def little_time(case: Case, layer: LayerResult) -> str:
    """Less is lost in it than is worth a finding."""
    lost = max(layer.lost_ns or 0, 0)
    share = case.share(case.in_latency(lost))
    if layer.lost_ns is None or share >= case.thresholds.min_share:
        return ""
    return (
        f"the layer loses {format_ns(lost)}, {format_percent(share)} of latency, and a finding of less than "
        f"{format_percent(case.thresholds.min_share)} is not shown"
    )
