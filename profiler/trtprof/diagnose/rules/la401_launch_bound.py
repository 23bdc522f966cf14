"""Many layers too small to be worth their launch.

What:
    Layers whose work takes less time than an empty kernel, and which together make a good part of
    the latency.

Why:
    Each node costs the runtime a fixed time to schedule. Shape arithmetic, scalar ops and small
    tensors pay it without doing any work. A layer whose work is not known, or only a part of it, is none of them,
    however little of it is known.

Try:
    Fold shapes to constants (export with static shapes, simplify the graph), fuse small ops, raise
    the batch so that the same launches do more work. On a GPU, a CUDA graph.
"""

from __future__ import annotations

from collections.abc import Iterator

from trtprof.base.records import LayerResult
from trtprof.base.units import format_ns, format_percent
from trtprof.diagnose import Case, Claim, rule
from trtprof.diagnose.reasons import bound_otherwise, no_work, unpriced


def _why_not(case: Case, layer: LayerResult) -> str:
    """Why a launch is not what bounds a layer; empty where it is."""
    why = no_work(case, layer) or unpriced(case, layer) or bound_otherwise(case, layer, "launch")
    if not why and case.on_ort_cpu and not _of_shapes(case, layer):
        why = "it computes no shapes, so that static shapes would not remove it"
    return why or ("" if layer.bound == "launch" else "what bounds the layer is not known")


def _of_shapes(case: Case, layer: LayerResult) -> bool:
    """Whether a layer makes a shape or a few integers, which fold into constants where shapes are static."""
    made = [tensor for tensor in case.engine[layer.name].op.outputs if tensor is not None]
    return all(tensor.dtype in ("int64", "int32", "bool") and len(tensor.shape or ()) < 2 for tensor in made)


def _reason(case: Case, layer: LayerResult) -> str:
    if why := _why_not(case, layer):
        return why
    layers = [one for one in case.unclaimed if not _why_not(case, one)]
    total = sum(one.measured_ns for one in layers)
    return (
        f"{len(layers)} launch-bound layer{'s' * (len(layers) != 1)} take{'s' * (len(layers) == 1)} "
        f"{format_ns(total)}, {format_percent(case.share(case.in_latency(total)))} of latency, where two layers and "
        f"{format_percent(case.thresholds.launch_share)} count"
    )


@rule("LA401", "launch-bound small ops", order=40, reason=_reason, thresholds=("launch_share",))
def check(case: Case) -> Iterator[Claim]:
    """All launch-bound layers as one finding, once they make up enough of the latency."""
    layers = [layer for layer in case.unclaimed if not _why_not(case, layer)]
    total = sum(layer.measured_ns for layer in layers)
    share = case.share(case.in_latency(total))
    if len(layers) < 2 or share < case.thresholds.launch_share:
        return
    kinds = sorted(
        {layer.op_type for layer in layers}, key=lambda kind: (-sum(la.op_type == kind for la in layers), kind)
    )
    yield Claim(
        where=f"{len(layers)} layers: {', '.join(kinds[:4])}{', ...' if len(kinds) > 4 else ''}",
        evidence=(
            f"{format_ns(total)} a run, {format_percent(share)} of latency; "
            f"an empty kernel takes {format_ns(case.ceilings.launch_ns)} {_where(case)}"
        ),
        remedy=(
            "raise the batch, fuse them into their neighbours, or run the engine as a CUDA graph (--useCudaGraph)"
            if case.tensorrt
            else "fold shape arithmetic into constants (static shapes, graph simplifier)"
            if case.on_ort_cpu
            else "fold shape arithmetic into constants (static shapes, graph simplifier), or raise the batch"
        ),
        layers={layer.name: max(layer.measured_ns - _roofline(layer), 0) for layer in layers},
        confidence=0.85,
    )


def _where(case: Case) -> str:
    return "by the datasheet" if case.from_datasheet else "here"


def _roofline(layer: LayerResult) -> int:
    """The time that the work itself needs: what a layer without a launch of its own would still cost."""
    return max((ns for term, ns in layer.terms.items() if term != "launch"), default=0)
