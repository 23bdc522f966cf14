"""Layers that only change the layout for the backend.

What:
    The backend inserted reorders or transposes that no ONNX node asks for, and they cost time.

Why:
    Blocked-layout convolutions (NCHWc) and plain ops alternate, so tensors are reordered at each
    border; a quantised convolution wants channels last.

Try:
    Keep convolution chains unbroken: move the op at the border (Transpose, Reshape, Concat with odd
    channels, an op without a blocked kernel) out of the chain, or feed channels that are a multiple
    of the block (8 or 16).
"""

from __future__ import annotations

from collections.abc import Iterator

from profiler.diagnose import Case, Claim, rule
from profiler.units import format_ns, format_percent


@rule("LY201", "layout conversions", order=20)
def check(case: Case) -> Iterator[Claim]:
    """All layers whose role is layout, as one finding."""
    layers = [layer for layer in case.unclaimed if layer.role == "layout" and layer.measured_ns]
    if not layers:
        return
    total = sum(layer.measured_ns for layer in layers)
    share = case.share(case.in_latency(total))
    worst = max(layers, key=lambda layer: layer.measured_ns)
    yield Claim(
        where=f"{len(layers)} reorder{'s' if len(layers) > 1 else ''}, largest {worst.name}",
        evidence=f"{format_ns(total)} a run, {format_percent(share)} of latency, does none of the model's work",
        remedy="keep convolution chains unbroken: move the op at the border of the blocked layout out of the chain",
        layers={layer.name: layer.measured_ns for layer in layers},
        confidence=0.95,
    )
