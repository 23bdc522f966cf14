"""From evidence to the result of a run, one way for all sources: price, judge, close the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from trtprof.analysis.counters import confirmed
from trtprof.analysis.evidence import Evidence, Lack, Subject
from trtprof.analysis.graph import graph_of_plan
from trtprof.analysis.memory import memory_of_plan
from trtprof.analysis.own_names import with_own_names
from trtprof.analysis.plan import (
    PricedPlan,
    backend_of,
    expectations_of,
    layer_names,
    model_of_plan,
    not_told,
    on_device,
    told_by_names,
    unknown_work,
    would_price,
)
from trtprof.analysis.plausible import of_roofs
from trtprof.analysis.work import scaled, work_of_nodes
from trtprof.base import records
from trtprof.base.kernel_counters import Counters
from trtprof.base.latency import latency_of_sum
from trtprof.base.op_kinds import MULTIPLYING
from trtprof.base.plan_words import LAUNCHING, is_convolution, is_product, precision
from trtprof.base.units import format_bytes, format_names, format_shape
from trtprof.cost.precision import compute_dtype
from trtprof.diagnose import JUDGE, Case, Judge
from trtprof.diagnose.ledger import build_ledger
from trtprof.diagnose.plugin import candidates, no_candidates
from trtprof.diagnose.products import tf32_off
from trtprof.diagnose.rank import bound_reason, diagnose, verdict, withheld
from trtprof.expected import expect


class _Row(NamedTuple):
    """A layer that time was measured of."""

    at: int  # Its place in the plan
    result: records.LayerResult
    layer: records.Layer  # What rules look at: the ONNX op that it is about, or what its plan says of it
    matched: records.MatchedLayer
    estimate: records.Estimate | None
    unknown: str  # Why its work, or a part of it, is not known


def analyse(evidence: Evidence, subject: Subject, judge: Judge = JUDGE) -> records.Run:
    """Set the measured times of the layers of an engine beside what the roofline allows."""
    ceilings, spec, source = subject.ceilings, subject.spec, subject.source
    engine = told_by_names(evidence.engine, [[match.kernel for match in own] for own in evidence.kernels])
    evidence = evidence._replace(engine=engine)
    document = engine.document
    backend = subject.backend or records.Backend(name=backend_of(document.facts), reason=_read(subject.files))
    priced = on_device(engine, ceilings, evidence.layers_ns)
    expectations, corrected = _expectations(evidence, subject)
    rows = _rows(evidence, priced.estimates, expectations, source)
    results = [row.result for row in rows]
    names = [result.name for result in results]
    partial = frozenset(row.result.name for row in rows if row.unknown and row.estimate is not None)
    layers_ns = sum(result.measured_ns for result in results)
    ledger = build_ledger(
        results,
        {row.result.name: row.estimate for row in rows},
        evidence.latency,
        ceilings,
        evidence.unattributed_ns,
        overheads=evidence.overheads,
        partial=partial,
        adding_ns=evidence.adding_ns,
    )
    lacking = evidence.lacking
    if spec is not None:
        lacking = (*_lacking_model(source), *lacking, *_lacking_work(evidence, ceilings))
    coverage = evidence.coverage or _coverage(results, layers_ns)
    case = Case(
        layers=tuple(results),
        engine={row.result.name: row.layer for row in rows},
        latency=evidence.latency,
        profiled=evidence.profiled,
        coverage=coverage,
        ceilings=ceilings,
        ledger=ledger,
        clock_resolution_ns=evidence.resolution_ns,
        profiled_gap_ns=evidence.gap_ns,
        cpu_use=evidence.cpu_use,
        graph_ns=evidence.graph_ns,
        partial=partial,
        edges=priced.edges,
        tactics={row.result.name: row.matched.layer.tactic for row in rows if row.matched.layer.tactic},
        end_to_end=evidence.end_to_end,
        enqueue_ns=evidence.enqueue_ns,
        backend=backend.name,
        options=backend.options,
        transfers=evidence.transfers,
        lacking=tuple(short for short, _ in lacking),
        would_price=would_price(engine, source),
        clocks=evidence.clocks,
        clocks_profiled=evidence.clocks_profiled,
        tries=subject.tries,
        tried=subject.tried,
        ops={node.name: node.op for node in source.nodes} if source is not None else {},
        runs={row.result.name: engine.costs[row.at].runs for row in rows},
        estimates={row.result.name: row.estimate for row in rows if row.estimate is not None},
    )
    if spec is not None:
        case = case._replace(
            tensorrt=backend.name.startswith("tensorrt"),
            gpu=True,
            rated_mhz=spec.boost_mhz.value,
            spec=spec,
            plan={row.result.name: row.matched for row in rows},
            bindings=document.bindings,
            implausible=(*evidence.implausible, *of_roofs(results, evidence.resolution_ns)),
        )
    case = judge.takes(case)
    findings = diagnose(case)
    nodes = source.nodes if source is not None else ()
    works = {node.name: node.work for node in nodes}
    if not any(works.values()):
        works, _ = work_of_nodes(nodes)
    doubts = withheld(findings)
    weighed = () if doubts else candidates(case)
    info = source.model if source is not None else subject.model or model_of_plan(document.bindings, "engine", "")
    run = records.Run(
        schema_version=records.SCHEMA_VERSION,
        model=info,
        backend=backend,
        device=_device(subject),
        versions={"trtprof": subject.version, **document.facts.versions, **evidence.versions},
        ceilings=ceilings,
        latency=evidence.latency,
        profiled=evidence.profiled,
        coverage=coverage,
        verdict=verdict(case, findings, case.attainable_ns),
        ledger=ledger,
        layers=tuple(sorted(results, key=_by_loss)),
        nodes=_node_results(nodes, works, document.fates),
        findings=findings,
        unsupported=_unsupported(rows, layers_ns + evidence.unattributed_ns, "" if engine.own else backend.name),
        captured_ns=evidence.captured_ns,
        speed=evidence.speed,
        bound_reason=bound_reason(case, findings),
        cpu_use=evidence.cpu_use,
        kernels_unattributed=evidence.unattributed,
        engine=None if spec is None else document.facts,
        plan=None if spec is None else priced.summary,
        candidates=weighed,
        no_candidates="" if weighed else no_candidates(case, [doubt.brief for doubt in doubts]),
        modes=subject.modes,
        checks=subject.checks,
        assumptions=(
            *info.assumptions,
            *_counted(spec, ceilings),
            *(not_told(engine, ceilings) if spec is not None else ()),
            *(sentence for _, sentence in lacking),
            *((corrected.words,) if corrected is not None else ()),
            *evidence.notes,
            *document.facts.notes,
            *judge.notes,
        ),
        lacking=tuple(short for short, _ in lacking),
        corrected=corrected,
        created=subject.created,
        command=subject.command,
        clocks=evidence.clocks,
        clocks_profiled=evidence.clocks_profiled,
        timeline=evidence.timeline,
        graph=graph_of_plan([matched.layer for matched in document.layers], layer_names(document.layers), nodes),
        memory=memory_of_plan([matched.layer for matched in document.layers], {tensor.name for tensor in info.outputs}),
    )
    run = run if subject.counters is None else _held(run, subject.counters, names, judge)
    return with_own_names(run, nodes, [matched.layer for matched in document.layers], engine.own)


def untimed(engine: PricedPlan, subject: Subject) -> tuple[records.LayerResult, ...]:
    """The layers of an engine that never ran: as those of a result, at no time at all."""
    count = len(engine.document.layers)
    engine = told_by_names(engine, [()] * count)
    nothing = latency_of_sum(0)
    times = [0 if matched.role in LAUNCHING else None for matched in engine.document.layers]
    evidence = Evidence(engine, times, [()] * count, nothing, nothing)
    estimates = on_device(engine, subject.ceilings).estimates
    expectations, _ = _expectations(evidence, subject)
    return tuple(row.result for row in _rows(evidence, estimates, expectations, subject.source))


def _held(run: records.Run, counters: Counters, order: Sequence[str], judge: Judge) -> records.Run:
    """The result, held against hardware counters."""
    if counters.failure:
        return msgspec.structs.replace(run, assumptions=(*run.assumptions, f"no counters: {counters.failure}"))
    run = confirmed(run, counters.launches, order, judge.thresholds)
    versions = {**run.versions, "ncu": counters.version} if counters.version else run.versions
    return msgspec.structs.replace(run, versions=versions)


def _expectations(
    evidence: Evidence, subject: Subject
) -> tuple[tuple[records.Expectation, ...], records.Corrected | None]:
    """What good library kernels take for all runs of each layer in an inference, and what corrects them or None."""
    costs, spec = evidence.engine.costs, subject.spec
    if spec is None:
        return (records.Expectation(expected_reason=_ON_A_CPU),) * len(costs), None
    tf32 = not tf32_off(spec, subject.ceilings)
    correction, corrected = None, None
    if subject.measured is not None:
        correction, corrected = subject.measured.learn(spec, subject.ceilings, tf32=tf32)
    once = expectations_of(
        evidence.engine, lambda works: expect(works, spec, subject.ceilings, tf32=tf32, correction=correction)
    )
    times = ("expected_ns", "expected_p10_ns", "expected_p90_ns")
    return tuple(_all_runs(one, cost.runs, *times) for one, cost in zip(once, costs, strict=True)), corrected


_ON_A_CPU = "expectations are of GPUs: no CPU was measured"


T = TypeVar("T", records.Expectation, records.Estimate)


def _all_runs(one: T, runs: int, *names: str) -> T:
    """A record with these times or bytes of one run of a layer as those of all its runs in an inference."""
    return msgspec.structs.replace(one, **{name: ns * runs for name in names if (ns := getattr(one, name)) is not None})


def _rows(
    evidence: Evidence,
    estimates: Sequence[records.Estimate | None],
    expectations: Sequence[records.Expectation],
    source: records.Source | None,
) -> list[_Row]:
    """Layers with a time, in execution order."""
    engine = evidence.engine
    ops = {node.name: node.op for node in source.nodes} if source is not None else {}
    names = layer_names(engine.document.layers)
    rows = []
    for at, (matched, cost, ns, kernels) in enumerate(
        zip(engine.document.layers, engine.costs, evidence.layers_ns, evidence.kernels, strict=True)
    ):
        if ns is None:
            continue
        estimate = _of_inference(estimates[at], cost.runs)
        unknown = unknown_work(matched, cost)
        layer = engine.own[at] if engine.own else _layer_of_plan(names[at], matched, ops)
        work = scaled(cost.work, cost.runs) if cost.work is not None and matched.role in LAUNCHING else None
        lost: int | None = None
        if matched.role != "compute":
            lost = ns
        elif estimate is not None and not unknown:
            lost = ns - estimate.attainable_ns
        result = records.LayerResult(
            name=names[at],
            op_type=matched.layer.kind,
            role=layer.role if engine.own else matched.role,
            nodes=matched.nodes or matched.layer.onnx_nodes,
            kernels=tuple(msgspec.structs.replace(kernel, layer=names[at]) for kernel in kernels),
            measured_ns=ns,
            ideal_ns=None if estimate is None else estimate.ideal_ns,
            attainable_ns=None if estimate is None else estimate.attainable_ns,
            lost_ns=lost,
            bound="unknown" if estimate is None else estimate.bound,
            runner_up="none" if estimate is None else estimate.runner_up,
            flops=None if work is None else work.flops,
            bytes=None if work is None else work.bytes,
            dtype=_dtype(matched, layer, work, own=bool(engine.own)),
            match=layer.match,
            reason=layer.reason if engine.own else "; ".join(filter(None, (matched.reason, cost.reason))),
            shapes=_shapes(layer, None if engine.own else matched.layer),
            terms={} if estimate is None else estimate.terms,
            work=work,
            constant=layer.constant,
            **msgspec.structs.asdict(expectations[at]),
        )
        rows.append(_Row(at, result, layer, matched, estimate, unknown))
    return rows


def _of_inference(estimate: records.Estimate | None, runs: int) -> records.Estimate | None:
    """The estimate of all the runs of a layer in one inference, from that of one."""
    if estimate is None or runs == 1:
        return estimate
    terms = {name: ns * runs for name, ns in estimate.terms.items()}
    counts = ("ideal_ns", "attainable_ns", "roofline_ns", "dram_bytes", "cache_bytes")
    return msgspec.structs.replace(_all_runs(estimate, runs, *counts), terms=terms)


def _dtype(matched: records.MatchedLayer, layer: records.Layer, work: records.Work | None, *, own: bool) -> str:
    """What a layer computes with."""
    if own:
        return compute_dtype(layer.op) if work is None else work.dtype
    dtype = precision(matched, work)
    return "" if dtype == "unknown" else dtype


def _shapes(layer: records.Layer, planned: records.PlanLayer | None) -> str:
    """What a layer reads and writes: of a plan each distinct tensor once."""
    if planned is None:
        sides = [
            [tensor.shape for tensor in side if tensor is not None] for side in (layer.op.inputs, layer.op.outputs)
        ]
    else:
        tensors = (*planned.inputs, *planned.constants), planned.outputs
        sides = [list({tensor.name: tensor.dims for tensor in side}.values()) for side in tensors]
    return " -> ".join(", ".join(map(format_shape, side)) for side in sides)


def _layer_of_plan(name: str, matched: records.MatchedLayer, ops: Mapping[str, records.Op]) -> records.Layer:
    return records.Layer(
        name=name,
        op=_main_op([ops[node] for node in matched.nodes if node in ops]) or _op_of_plan(matched.layer),
        role="layout" if matched.role == "layout" else "compute",
        nodes=matched.nodes,
        match=matched.match,
        reason=matched.reason,
    )


def _main_op(ops: Sequence[records.Op]) -> records.Op | None:
    """The first product among the ops of a layer, or its first op."""
    return next((op for op in ops if op.op_type in MULTIPLYING), ops[0] if ops else None)


def _op_of_plan(layer: records.PlanLayer) -> records.Op:
    def tensors(given: Sequence[records.PlanTensor]) -> tuple[records.Tensor, ...]:
        return tuple(
            records.Tensor(
                name=one.name,
                dtype=one.dtype or "unknown",
                shape=None if one.dims is None else tuple("?" if dim < 0 else dim for dim in one.dims),
            )
            for one in given
        )

    op_type = layer.kind
    if is_product(layer):
        op_type = "Conv" if is_convolution(layer) else "MatMul"
    groups = layer.attributes.get("Groups")
    return records.Op(
        op_type=op_type,
        attributes={"group": groups} if isinstance(groups, int) else {},
        inputs=tensors((*layer.inputs, *layer.constants)),
        outputs=tensors(layer.outputs),
    )


def _unsupported(rows: Sequence[_Row], total_ns: int, domain: str) -> tuple[records.Unsupported, ...]:
    """Layers of whose work nothing, or only a part, is known."""
    groups: dict[tuple[str, str, str], list[records.LayerResult]] = {}
    for row in rows:
        if row.unknown:
            key = domain or row.layer.op.domain, row.result.op_type, row.unknown
            groups.setdefault(key, []).append(row.result)
    return tuple(
        records.Unsupported(
            domain=of,
            op_type=kind,
            count=len(alike),
            measured_ns=(ns := sum(result.measured_ns for result in alike)),
            share=ns / total_ns if total_ns else 0.0,
            reason=reason,
        )
        for (of, kind, reason), alike in sorted(groups.items())
    )


def _coverage(results: Sequence[records.LayerResult], total_ns: int) -> records.Coverage:
    by_match: dict[records.MatchConfidence, int] = {"exact": 0, "inferred": 0, "none": 0}
    for result in results:
        by_match[result.match] += result.measured_ns
    return records.Coverage(
        exact=by_match["exact"] / total_ns,
        inferred=by_match["inferred"] / total_ns,
        unattributed=by_match["none"] / total_ns,
    )


def _by_loss(result: records.LayerResult) -> tuple[int, str]:
    """Key for a sort, largest loss first. A layer without a price may be all loss; a layout layer is."""
    lost = result.measured_ns if result.lost_ns is None else result.lost_ns
    return (-lost, result.name)


def _node_results(
    nodes: Sequence[records.Node], works: Mapping[str, records.Work | None], fates: Sequence[records.NodeFate]
) -> tuple[records.NodeResult, ...]:
    """Every node with its work and its fate."""
    return tuple(
        records.NodeResult(
            name=node.name,
            op_type=node.op.op_type,
            graph=node.graph,
            fate=fate.fate,
            layers=fate.layers,
            flops=None if (work := works.get(node.name)) is None else work.flops,
            bytes=None if work is None else work.bytes,
            reason=fate.reason,
            attributes=_attributes(node.op),
        )
        for node, fate in zip(nodes, fates, strict=True)
    )


def _attributes(op: records.Op) -> dict[str, str]:
    """The attributes of an op in words, without the texts of an op that ONNX does not define: they may be anybody's."""

    def told(value: records.Attribute) -> bool:
        return not op.domain or not any(
            isinstance(one, str) for one in (value if isinstance(value, tuple) else [value])
        )

    return {name: _attribute(value) for name, value in sorted(op.attributes.items()) if told(value)}


def _attribute(value: records.Attribute) -> str:
    """The value of an attribute as Netron shows it, of a long one its beginning."""
    if not isinstance(value, tuple):
        return f"{value:g}" if isinstance(value, float) else str(value)[:_MOST_LETTERS]
    shown = ", ".join(_attribute(one) for one in value[:_MOST_VALUES])
    return f"{shown}, ... ({len(value)} values)" if len(value) > _MOST_VALUES else shown


_MOST_VALUES = 16
_MOST_LETTERS = 200


def _read(files: Mapping[str, str]) -> str:
    return "read from files: " + ", ".join(f"{role} {path}" for role, path in files.items()) if files else "given"


def _device(subject: Subject) -> records.Device:
    spec = subject.spec
    if spec is None:
        assert subject.device is not None  # noqa: S101 - a CPU has no datasheet
        return subject.device
    clock_mhz = subject.clock_mhz or spec.boost_mhz.value
    if subject.device is not None:
        return msgspec.structs.replace(subject.device, clock_mhz=clock_mhz)
    detail = {
        "architecture": spec.architecture,
        "compute capability": spec.compute_capability,
        "datasheet": spec.origin,
        "power limit": f"{spec.tdp_w.value:g} W",
    }
    return records.Device(
        name=spec.name,
        kind="gpu",
        cores=int(spec.sms.value),
        memory_bytes=int(spec.memory_bytes.value),
        cache_bytes=int(spec.l2_bytes.value),
        clock_mhz=clock_mhz,
        detail=detail,
    )


def _counted(spec: records.GpuSpec | None, ceilings: records.Ceilings) -> Iterable[str]:
    """How work is counted."""
    if spec is None:
        tensors, cache = "external tensor of a layer once, at its dtype in the engine", "last-level cache"
    else:
        tensors, cache = "tensor of a layer once, at its dtype and padding in the engine", "L2"
    yield f"1 MAC = 2 FLOP; bytes: each distinct {tensors}, weights too"
    yield f"what stays in the {cache} ({format_bytes(ceilings.cache_bytes)}) is charged at its bandwidth"


def _lacking_model(source: records.Source | None) -> Iterable[Lack]:
    """What makes the result less sure: in a few words for the verdict, and in a sentence."""
    if source is None:
        yield (
            "no ONNX model",
            (
                "without the ONNX model (--onnx) the nodes of a layer are the plan's word, unchecked; arithmetic and "
                "weights that only the model tells are left out of the work"
            ),
        )


def _lacking_work(evidence: Evidence, ceilings: records.Ceilings) -> Iterable[Lack]:
    document = evidence.engine.document
    untimed = [
        matched.layer.name
        for matched, ns in zip(document.layers, evidence.layers_ns, strict=True)
        if matched.role in LAUNCHING and ns is None
    ]
    if untimed:
        yield (
            f"{len(untimed)} layers without a time" if len(untimed) > 1 else "a layer without a time",
            f"layers without a measured time, which are left out: {format_names(untimed)}",
        )
    unsized = [
        matched.layer.name
        for matched, cost in zip(document.layers, evidence.engine.costs, strict=True)
        if matched.role in LAUNCHING and cost.work is None
    ]
    if unsized:
        yield (
            f"{len(unsized)} layers without a price" if len(unsized) > 1 else "a layer without a price",
            f"layers whose work is not known: {format_names(unsized)}",
        )
    if "or before" in document.facts.era:
        yield "an old plan", f"the plan is that of {document.facts.era.partition(',')[0]}, which tells less of a layer"
    if ceilings.origin == "datasheet":
        yield (
            "datasheet ceilings",
            (
                "the ceilings are those of a datasheet, which healthy kernels do not reach: they take 1.42 times as "
                "long in the median, so what is lost is an upper estimate"
            ),
        )
