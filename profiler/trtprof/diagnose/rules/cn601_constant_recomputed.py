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

from trtprof.base.records import LayerResult
from trtprof.diagnose import Case, Claim, needless, rule


def _reason(_case: Case, layer: LayerResult) -> str:
    if layer.role == "control":
        return "the layer is control flow: what its body computes is looked at layer by layer"
    return "" if layer.constant else "not all inputs of the layer are constants"


@rule("CN601", "constant recomputed on every run", order=10, reason=_reason)
def check(case: Case) -> Iterator[Claim]:
    """All layers with constant inputs only, as one finding."""
    layers = [layer for layer in case.unclaimed if layer.constant and layer.measured_ns and layer.role != "control"]
    yield from needless(
        case,
        layers,
        noun="layer",
        why="gives the same result each time",
        remedy="fold it into an initializer: simplify the graph before deployment",
    )
