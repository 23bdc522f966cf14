"""Layers that only change the layout for the backend.

What:
    The backend inserted reorders or transposes that no ONNX node asks for, and they cost time.

Why:
    Blocked-layout convolutions (NCHWc) and plain ops alternate, so tensors are reordered at each
    border; a quantised convolution wants channels last. TensorRT reformats where neighbouring layers
    have their fastest kernels in different formats or precisions, and at inputs and outputs that are fp32.

Try:
    Keep convolution chains unbroken: move the op at the border (Transpose, Reshape, Concat with odd
    channels, an op without a blocked kernel) out of the chain, or feed channels that are a multiple
    of the block (8 or 16). For TensorRT, give inputs and outputs in the dtype and format that the engine
    wants (`--inputIOFormats`, `--outputIOFormats`), and keep one precision through a chain of layers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from trtprof.base.plan_words import change
from trtprof.base.records import LayerResult, PlanLayer
from trtprof.base.units import format_ns
from trtprof.diagnose import Case, Claim, needless, rule


def _reason(_case: Case, layer: LayerResult) -> str:
    if layer.role != "layout":
        return f"the layer does not only change a layout or a dtype: its role is {layer.role}"
    return "" if layer.measured_ns else "the layer took no time"


@rule("LY201", "layout conversions", order=20, reason=_reason, thresholds=("critical_share",))
def check(case: Case) -> Iterator[Claim]:
    """All layers whose role is layout, as one finding."""
    layers = [layer for layer in case.unclaimed if layer.role == "layout" and layer.measured_ns]
    total = sum(layer.measured_ns for layer in layers)
    if case.on_ort_cpu and case.share(case.in_latency(total)) < case.thresholds.critical_share:
        return  # Without the blocked layout the convolutions lose more than the reorders take.
    yield from needless(
        case,
        layers,
        noun="reformat" if case.tensorrt else "reorder",
        why=(
            f"to bring tensors into another dtype, order or place{_origins(case, layers)}"
            if case.tensorrt
            else "does none of the model's work"
        ),
        remedy=(
            "keep one precision and format through the chain, and feed and take tensors as the engine has them "
            "(--inputIOFormats, --outputIOFormats)"
            if case.tensorrt
            else "keep convolution chains unbroken: move the op at the border of the blocked layout out of the chain"
        ),
    )


def _origins(case: Case, layers: Sequence[LayerResult]) -> str:
    """Why they are there, most time first, each with its largest conversion; empty where no plan tells."""
    inputs, outputs = case.bound_to("input"), case.bound_to("output")
    groups: dict[str, list[LayerResult]] = {}
    for layer in layers:
        if layer.name in case.plan:
            groups.setdefault(_origin(case.plan[layer.name].layer, inputs, outputs), []).append(layer)
    told = []
    by_time = sorted(groups.items(), key=lambda group: (-sum(layer.measured_ns for layer in group[1]), group[0]))
    for origin, own in by_time:
        worst = max(own, key=lambda layer: layer.measured_ns)
        what = change(case.plan[worst.name].layer)
        told.append(f"{len(own)} {origin} {format_ns(sum(layer.measured_ns for layer in own))} ({what})")
    return f": {', '.join(told)}" if told else ""


def _origin(layer: PlanLayer, inputs: Set[str], outputs: Set[str]) -> str:
    """The plan's own word where it says more than that it is a reformat, else where it stands."""
    if layer.origin not in ("", "REFORMAT"):
        return f"for {layer.origin}"
    if any(tensor.name in inputs for tensor in layer.inputs):
        return "at an input"
    return "at an output" if any(tensor.name in outputs for tensor in layer.outputs) else "between layers"
