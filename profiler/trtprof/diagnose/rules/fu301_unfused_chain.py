"""A chain of elementwise layers that were not fused.

What:
    Two or more elementwise layers follow one another, each the only reader of the one before. The
    tensors between them are written and read back for nothing. In a TensorRT engine: elementwise work
    that stands in a layer of its own, though engines fuse it with its neighbour as a rule.

Why:
    The runtime fuses known patterns only (Gelu, BiasGelu, Clip after Conv, LayerNormalization); a
    pattern that an exporter wrote in another form stays apart. In TensorRT, an output of the model, a
    second reader, a change of precision or a plugin between two layers keeps them apart.

Try:
    Write the pattern in the form that the runtime fuses, or export the op itself (Gelu,
    LayerNormalization) with a newer opset; drop outputs that nobody needs. Otherwise it is a good
    first hand-written kernel: one pass over the data.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from trtprof.base.op_kinds import POINTWISE
from trtprof.base.records import Layer, LayerResult, Op, PlanEdge
from trtprof.base.units import format_bytes, format_ns
from trtprof.diagnose import Case, Claim, rule
from trtprof.diagnose.libraries import winnable_ns
from trtprof.diagnose.reasons import roofline_alone

_ABSORBED = {"epilogue": "reader", "prologue": "maker", "pointwise": "reader"}
"""Which of the two layers of an edge the other one would compute on the way, by kind of edge."""


def _reason(case: Case, layer: LayerResult) -> str:
    if case.tensorrt:
        return _edges_reason(case, layer)
    if why := roofline_alone(case):
        return why
    op = case.engine[layer.name].op
    if not _pointwise(op):
        return f"{op.op_type} is no elementwise op"
    return (
        "no other elementwise layer that is free to be claimed is the only reader of the layer's output or makes what "
        f"the layer alone reads, or such a chain loses no more than a step of the clock "
        f"({format_ns(case.clock_resolution_ns)})"
    )


def _edges_reason(case: Case, layer: LayerResult) -> str:
    edges = [edge for edge in case.edges if layer.name in (edge.maker, *edge.readers)]
    if not edges:
        return "no tensor of the layer is left in memory for another layer that it could be one with"
    absorbed = [edge for edge in edges if edge.expected and edge.kind in _ABSORBED and edge.saved_ns]
    if absorbed:
        edge = absorbed[0]
        other = edge.readers[0] if _ABSORBED[edge.kind] == "reader" and edge.readers else edge.maker
        return f"of {_short(edge.maker)} and its readers {_short(other)} would be absorbed, and that is what is claimed"
    worst = max(edges, key=lambda edge: (edge.saved_ns or 0, edge.tensor))
    saved = f"would save {format_ns(worst.saved_ns)}" if worst.saved_ns else "would save nothing by the roofline"
    return (
        f"engines do not fuse what the layer shares tensors with as a rule: to be one with the other side of "
        f"{worst.tensor} ({worst.kind}) {saved}" + (f"; {worst.reason}" if worst.reason else "")
    )


@rule("FU301", "unfused pointwise chain", order=30, reason=_reason)
def check(case: Case) -> Iterator[Claim]:
    """Maximal chains of pointwise layers joined by tensors with one reader; of an engine, its priced edges."""
    if case.tensorrt:
        yield from _edges(case)
        return
    results = {layer.name: layer for layer in case.layers}
    for chain in () if case.on_ort_cpu else _chains([case.engine[layer.name] for layer in case.layers], case.claimed):
        found = [results[layer.name] for layer in chain]
        claims = {layer.name: winnable_ns(layer) for layer in found}
        between = sum(tensor.nbytes or 0 for layer in chain[:-1] for tensor in layer.op.outputs[:1] if tensor)
        if sum(claims.values()) <= case.clock_resolution_ns or between == 0:
            continue
        total = sum(layer.measured_ns for layer in found)
        yield Claim(
            where=" -> ".join(_short(layer.name) for layer in chain),
            evidence=(
                f"{len(chain)} elementwise layers take {format_ns(total)}; "
                f"{format_bytes(2 * between)} between them are written and read back"
            ),
            remedy="export the pattern in the form that the runtime fuses, or write the chain as one kernel",
            layers=claims,
            confidence=0.75,
        )


def _edges(case: Case) -> Iterator[Claim]:
    """One claim for each kind of fusion that engines do as a rule and this one did not.

    It claims of the layer that would be absorbed what could be won of it, and what the tensor between costs.
    """
    results = {layer.name: layer for layer in case.layers}
    groups: dict[str, list[PlanEdge]] = defaultdict(list)
    for edge in case.edges:
        if edge.expected and edge.saved_ns and edge.kind in _ABSORBED:
            groups[edge.kind].append(edge)
    for kind, edges in groups.items():
        claims: dict[str, int] = {}
        for edge in edges:
            for name in [edge.maker] if _ABSORBED[kind] == "maker" else edge.readers[:1]:
                layer = results.get(name)
                if layer is not None and name not in case.claimed:
                    claims.setdefault(name, min(winnable_ns(layer) + (edge.saved_ns or 0), layer.measured_ns))
        if sum(claims.values()) <= case.clock_resolution_ns:
            continue
        worst = max(edges, key=lambda edge: (edge.saved_ns or 0, edge.tensor))
        saved = sum(edge.saved_ns or 0 for edge in edges)
        more = f", and {len(edges) - 1} more" if len(edges) > 1 else ""
        yield Claim(
            where=f"{_short(worst.maker)} -> {', '.join(map(_short, worst.readers[:2]))}{more}",
            evidence=(
                f"{format_bytes(sum(edge.bytes for edge in edges))} between layers are written and read back; "
                f"fused, they would take {format_ns(saved)} less by the roofline; what would be absorbed takes "
                f"{format_ns(sum(results[name].measured_ns for name in claims))}, of which "
                f"{format_ns(sum(winnable_ns(results[name]) for name in claims))} could be won as it is"
            ),
            remedy="write the pattern in the form that TensorRT fuses, drop outputs between them, or write one kernel",
            layers=claims,
            confidence=0.6,
        )


def _short(name: str) -> str:
    return name.rsplit("/", 1)[-1] if len(name) > 24 else name


def _pointwise(op: Op) -> bool:
    return op.op_type in POINTWISE and op.domain in ("", "com.microsoft")


def _chains(layers: list[Layer], claimed: frozenset[str]) -> Iterator[list[Layer]]:
    readers: dict[tuple[str, str], list[Layer]] = defaultdict(list)
    for layer in layers:
        # A layer that squares its input names it twice and is still one reader.
        for name in {tensor.name for tensor in layer.op.inputs if tensor is not None}:
            # Bodies of control flow read tensors of the graphs around them.
            for graph in {layer.graph, ""}:
                readers[graph, name].append(layer)
    following: dict[str, Layer] = {}
    for layer in layers:
        output = layer.op.outputs[0] if layer.op.outputs else None
        if layer.name not in claimed and _pointwise(layer.op) and output is not None:
            after = readers[layer.graph, output.name]
            if len(after) == 1 and _pointwise(after[0].op) and after[0].name not in claimed:
                following[layer.name] = after[0]
    targets = {layer.name for layer in following.values()}
    used: set[str] = set()
    for layer in layers:
        if layer.name not in following or layer.name in targets:
            continue
        chain = [layer]
        # Two chains may meet in one layer; the first one keeps it.
        while (successor := following.get(chain[-1].name)) is not None and successor.name not in used:
            chain.append(successor)
            used.add(successor.name)
        if len(chain) > 1:
            yield chain
