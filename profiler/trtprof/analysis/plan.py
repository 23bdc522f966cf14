"""From a TensorRT plan and, where there is one, its ONNX model to layers with their nodes, work and estimates."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from trtprof.align.plan import match_plan
from trtprof.analysis.work import scaled
from trtprof.base import records
from trtprof.base.plan_words import LAUNCHING, REGIONS
from trtprof.cost.plan import PlanCost, plan_costs
from trtprof.diagnose.plan_summary import summarise
from trtprof.estimate.cache import Access, Traffic, never_read, traffic_of_accesses
from trtprof.estimate.edges import Edge, plan_edges, priced_edges
from trtprof.estimate.roofline import estimate, out_of_place
from trtprof.kernel_names.algorithm import is_fast_convolution
from trtprof.kernel_names.parse import parse


class PricedPlan(NamedTuple):
    """A plan with all that does not depend on a device; the tuples of layers are in execution order."""

    document: records.EnginePlan
    costs: tuple[PlanCost, ...]
    accesses: tuple[Access, ...]
    outputs: frozenset[str]  # Tensors that the engine gives out
    edges: tuple[Edge, ...]
    own: tuple[records.Layer, ...] = ()  # The layers themselves where they are ONNX Runtime's on the CPU


class PlanOnDevice(NamedTuple):
    """A plan on a device: estimates and traffic of one run of each layer, and its summary over one inference."""

    estimates: tuple[records.Estimate | None, ...]
    traffic: tuple[Traffic, ...]
    edges: tuple[records.PlanEdge, ...]
    summary: records.PlanSummary


def price_plan(
    plan: records.Plan,
    source: records.Source | None = None,
    facts: records.EngineFacts | None = None,
    added: Sequence[str] = (),
) -> PricedPlan:
    """Lead the layers of a plan back to the nodes of the model, if there is one, and count their work."""
    nodes = source.nodes if source is not None else ()
    given_out = [tensor.name for tensor in source.model.outputs] if source is not None else []
    layers, fates = match_plan(nodes, plan, outputs=given_out, added=added)
    return price_matched(plan, layers, fates, source, facts)


def price_matched(
    plan: records.Plan,
    layers: tuple[records.MatchedLayer, ...],
    fates: tuple[records.NodeFate, ...],
    source: records.Source | None,
    facts: records.EngineFacts | None = None,
) -> PricedPlan:
    """Count the work of layers, in execution order, that were led back to nodes."""
    nodes = source.nodes if source is not None else ()
    given_out = [tensor.name for tensor in source.model.outputs] if source is not None else []
    costs = plan_costs(layers, {node.name: node.op for node in nodes})
    runs = [cost.runs for cost in costs]
    accesses = [Access(str(index), cost.reads, cost.writes) for index, cost in enumerate(costs)]
    outputs = frozenset(
        [*given_out, *(binding.name for binding in plan.bindings if binding.mode == "output")]
    ) | never_read(accesses)
    edges = plan_edges(layers, accesses, nodes, sorted(outputs), runs)
    facts = facts or records.EngineFacts()
    works = tuple(None if cost.work is None else scaled(cost.work, cost.runs) for cost in costs)
    document = records.EnginePlan(
        facts=msgspec.structs.replace(facts, era=facts.era or plan.era, notes=(*facts.notes, *plan.notes)),
        bindings=plan.bindings,
        layers=layers,
        works=works,
        fates=fates,
        op_types={
            node.name: f"{node.op.domain}::{node.op.op_type}" if node.op.domain else node.op.op_type for node in nodes
        },
        summary=summarise(layers, works, fates, edges=[edge.edge for edge in edges], bindings=plan.bindings),
    )
    return told_by_names(PricedPlan(document, tuple(costs), tuple(accesses), outputs, edges), [()] * len(costs))


_ASSUMED = "ideal leaves out products that a fast algorithm (Winograd) would save: no name says how it convolves"
_FAST = "ideal leaves out products that a fast algorithm saves: its name says Winograd or FFT"
_WHOLE = "all products counted: by its name it is no fast algorithm"


def told_by_names(priced: PricedPlan, kernels: Sequence[Sequence[str]]) -> PricedPlan:
    """The plan with what names tell of its products: how they are convolved, and what they are added up in."""
    costs, works = list(priced.costs), list(priced.document.works)
    for at, (matched, cost, names) in enumerate(zip(priced.document.layers, priced.costs, kernels, strict=True)):
        if cost.work is None or not cost.work.tensor_flops:
            continue
        told = _told(cost.work, tuple(names) or tuple(filter(None, (matched.layer.tactic,))))
        if told is not cost.work:
            costs[at] = cost._replace(work=told)
            works[at] = scaled(told, cost.runs)
    return priced._replace(costs=tuple(costs), document=msgspec.structs.replace(priced.document, works=tuple(works)))


def _told(work: records.Work, names: Sequence[str]) -> records.Work:
    products = [found for found in map(parse, names) if found.op in ("conv", "gemm", "gemv", "attention")]
    accumulators = {found.dtype_acc for found in products if found.dtype_acc in ("fp16", "fp32")}
    accumulator = work.accumulator
    if accumulators:
        # Of several kernels the slower one holds for none of them alone: the faster is the bound.
        accumulator = min(accumulators, key=("fp16", "fp32").index)
    fast, note = work.fast_flops, ""
    if fast:
        algorithms = [is_fast_convolution(name) for name in names]
        note = _FAST if True in algorithms else _WHOLE if False in algorithms else _ASSUMED
        fast = 0 if note == _WHOLE else fast
    if (accumulator, fast, bool(note)) == (work.accumulator, work.fast_flops, False):
        return work
    notes = [each for each in work.note.split("; ") if each and each not in (_ASSUMED, _FAST, _WHOLE)]
    return msgspec.structs.replace(
        work, accumulator=accumulator, fast_flops=fast, note="; ".join([*notes, *filter(None, [note])])
    )


def not_told(priced: PricedPlan, ceilings: records.Ceilings) -> Iterator[str]:
    """What no name tells of the products of a plan, and what is taken for it, in sentences."""
    works = [work for work in priced.document.works if work is not None and work.tensor_flops]
    assumed = sum(_ASSUMED in work.note for work in works)
    if assumed:
        yield (
            f"no name says how {assumed} of {len(works)} layers with products convolve: products that a fast algorithm "
            "(Winograd) saves are left out of their bounds"
        )
    slower = ceilings.attainable.fp32_accumulate_flops_per_s
    open_ = sum(not work.accumulator and work.dtype in slower for work in works)
    if open_:
        yield (
            f"no name says what {open_} of {len(works)} layers with products add up in: the faster accumulator is "
            "taken (--accumulate)"
        )


def without_model(priced: PricedPlan) -> PricedPlan:
    """A plan with names of nodes that nobody checked: no layer is led back to its nodes for sure."""
    layers = tuple(
        msgspec.structs.replace(matched, match="inferred") if matched.match == "exact" else matched
        for matched in priced.document.layers
    )
    return priced._replace(document=msgspec.structs.replace(priced.document, layers=layers))


def unpriced(priced: PricedPlan, reason: str) -> PricedPlan:
    """The plan with layers of whose work nothing is known, and why."""
    costs = tuple(cost._replace(work=None, reason=reason) for cost in priced.costs)
    document = msgspec.structs.replace(priced.document, works=(None,) * len(costs))
    return priced._replace(costs=costs, document=document)


def backend_of(facts: records.EngineFacts) -> str:
    """The backend that built an engine: as said, else by its era."""
    return facts.backend or ("tensorrt-rtx" if facts.era.startswith("TensorRT-RTX") else "tensorrt")


def layer_names(layers: Sequence[records.MatchedLayer]) -> list[str]:
    """What the layers of a plan are called in a result: several of one name are told apart by their place."""
    alike = Counter(matched.layer.name for matched in layers)
    return [
        f"{matched.layer.name} (layer {at})" if alike[matched.layer.name] > 1 else matched.layer.name
        for at, matched in enumerate(layers)
    ]


def model_of_plan(bindings: Sequence[records.PlanBinding], name: str, path: str) -> records.ModelInfo:
    """What a plan alone tells of the model that it was built from: its inputs and outputs."""

    def dims(binding: records.PlanBinding) -> tuple[records.Dim, ...] | None:
        return None if binding.dims is None else tuple("?" if dim < 0 else dim for dim in binding.dims)

    def known(binding: records.PlanBinding) -> tuple[int, ...] | None:
        return binding.dims if binding.dims is not None and min(binding.dims, default=0) >= 0 else None

    return records.ModelInfo(
        name=name, path=path, sha256="", ir_version=0, opsets={},
        inputs=tuple(
            records.InputTensor(
                name=binding.name, dtype=binding.dtype or "unknown", shape=known(binding),
                declared=dims(binding) or (), kind="none", values="not run here",
            )
            for binding in bindings
            if binding.mode == "input"
        ),
        outputs=tuple(
            records.Tensor(name=binding.name, dtype=binding.dtype or "unknown", shape=dims(binding))
            for binding in bindings
            if binding.mode == "output"
        ),
    )  # fmt: skip


def traffic_of(priced: PricedPlan, cache_bytes: int) -> tuple[Traffic, ...]:
    """What every layer finds in a last-level cache of this size, in one of its runs: of a loop in the second round."""
    steps = list(_steps(priced.costs))
    traffic = traffic_of_accesses([priced.accesses[at] for at in steps], cache_bytes, outputs=priced.outputs)
    return tuple(found for _, found in sorted(dict(zip(steps, traffic, strict=True)).items()))


def _steps(costs: Sequence[PlanCost]) -> Iterator[int]:
    """Positions of the layers as they run, loops for two rounds."""
    for runs, group in itertools.groupby(range(len(costs)), key=lambda at: costs[at].runs):
        body = list(group)
        yield from body if runs == 1 else body * 2


def unknown_work(matched: records.MatchedLayer, cost: PlanCost) -> str:
    """Why the work of a layer that computes, or a part of it that may bound it, is not known; empty where it is."""
    if matched.role != "compute":
        return ""
    if cost.work is None:
        return cost.reason or "the plan does not tell what it moves"
    return "" if cost.work.tensor_flops else cost.reason


def would_price(priced: PricedPlan, source: records.Source | None) -> str:
    """What would tell the work of layers that have no price, or else why it is not known, in words."""
    launching = [
        (matched, cost)
        for matched, cost in zip(priced.document.layers, priced.costs, strict=True)
        if matched.role in LAUNCHING
    ]
    needed = []
    if not any(matched.layer.inputs or matched.layer.outputs for matched, _ in launching):
        needed.append("the layers of an engine built with --profilingVerbosity=detailed (--layers)")
    if source is None or not source.nodes:
        needed.append("the model that the engine was built from (--onnx)")
    if needed:
        return f"give {' and '.join(needed)}"
    reasons = Counter(why for matched, cost in launching if (why := unknown_work(matched, cost)))
    return "; ".join(f"{count:,} x {why}" for why, count in reasons.most_common(2))


def _bounds_nothing(matched: records.MatchedLayer, cost: PlanCost, found: records.Estimate) -> bool:
    """Whether fewer bytes than a launch is worth, or several kernels of a layer, say nothing of its time."""
    several = matched.layer.kind in REGIONS or matched.layer.onnx_range
    return bool(unknown_work(matched, cost)) and (several or found.bound == "launch")


def estimates_of(
    priced: PricedPlan, ceilings: records.Ceilings, traffic: Sequence[Traffic]
) -> tuple[records.Estimate | None, ...]:
    """What every layer should take in one run; None where it launches nothing or too little of its work is known."""
    if priced.own:
        # On the CPU a view is a kernel too, and it matters whether a layer writes where it reads.
        apart = out_of_place(priced.accesses)
        return tuple(
            None if cost.work is None else estimate(cost.work, moved, ceilings, out_of_place=access.layer in apart)
            for cost, moved, access in zip(priced.costs, traffic, priced.accesses, strict=True)
        )
    known: dict[tuple[object, ...], records.Estimate] = {}
    """By all that `estimate` looks at: most layers of a large plan are like others."""
    estimates: list[records.Estimate | None] = []
    for matched, cost, moved in zip(priced.document.layers, priced.costs, traffic, strict=True):
        work = cost.work
        if work is None or matched.role not in LAUNCHING:
            estimates.append(None)
            continue
        arithmetic = work.tensor_flops, work.vector_flops, work.dtype, *work.special.items()
        sparing = work.fast_flops, work.accumulator, work.unsure.bytes, work.unsure.tensor_flops
        spared = work.unsure.vector_flops, tuple(work.unsure.special.items())
        place = work.bytes_read, work.bytes_written, moved, *arithmetic, sparing, spared
        if place not in known:
            known[place] = estimate(work, moved, ceilings)
        estimates.append(None if _bounds_nothing(matched, cost, known[place]) else known[place])
    return tuple(estimates)


def expectations_of(
    priced: PricedPlan, ask: Callable[[Sequence[records.Work | None]], Sequence[records.Expectation]]
) -> tuple[records.Expectation, ...]:
    """What good library kernels take for one run of every layer."""
    told = [
        cost.work if matched.role in LAUNCHING and not unknown_work(matched, cost) else None
        for matched, cost in zip(priced.document.layers, priced.costs, strict=True)
    ]
    return tuple(
        one if work is not None or cost.work is None else _PARTLY if matched.role in LAUNCHING else _NO_KERNEL
        for one, work, matched, cost in zip(ask(told), told, priced.document.layers, priced.costs, strict=True)
    )


_PARTLY = records.Expectation(expected_reason="only a part of its work is known")
_NO_KERNEL = records.Expectation(expected_reason="it launches no kernel")


def on_device(
    priced: PricedPlan,
    ceilings: records.Ceilings,
    times_ns: Sequence[int | None] | None = None,
    traffic: tuple[Traffic, ...] | None = None,
) -> PlanOnDevice:
    """What every layer should take on a device."""
    layers = priced.document.layers
    traffic = traffic_of(priced, ceilings.cache_bytes) if traffic is None else traffic
    estimates = estimates_of(priced, ceilings, traffic)
    edges = priced_edges(priced.edges, [cost.work for cost in priced.costs], estimates)
    attainable = [
        None if found is None else found.attainable_ns * cost.runs
        for found, cost in zip(estimates, priced.costs, strict=True)
    ]
    summary = summarise(
        layers,
        priced.document.works,
        priced.document.fates,
        times_ns=attainable if times_ns is None else times_ns,
        edges=edges,
        bindings=priced.document.bindings,
        lints=priced.document.summary.lints,
    )
    return PlanOnDevice(estimates, traffic, edges, summary)
