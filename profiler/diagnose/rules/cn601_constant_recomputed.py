"""A constant that is computed again at every inference.

What:
    All inputs of the layer are constants, yet it runs on every inference.

Why:
    The runtime folds constants only up to a size, and some ops (ConstantOfShape, QuantizeLinear of
    weights in some forms) not at all.

Try:
    Fold it into an initializer before deployment (a graph simplifier, or export with constant
    folding on).
"""

from __future__ import annotations

from collections.abc import Iterator

from profiler.diagnose import Case, Claim, rule
from profiler.units import format_ns, format_percent


@rule("CN601", "constant recomputed on every run", order=10)
def check(case: Case) -> Iterator[Claim]:
    """All layers with constant inputs only, as one finding."""
    layers = [layer for layer in case.unclaimed if layer.constant and layer.measured_ns and layer.role != "control"]
    if not layers:
        return
    total = sum(layer.measured_ns for layer in layers)
    share = case.share(case.in_latency(total))
    worst = max(layers, key=lambda layer: layer.measured_ns)
    yield Claim(
        where=f"{len(layers)} layer{'s' if len(layers) > 1 else ''}, largest {worst.name}",
        evidence=f"{format_ns(total)} a run, {format_percent(share)} of latency, gives the same result each time",
        remedy="fold it into an initializer: simplify the graph before deployment",
        layers={layer.name: layer.measured_ns for layer in layers},
        confidence=0.95,
    )
