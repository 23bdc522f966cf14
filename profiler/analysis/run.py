"""A TensorRT engine from files alone: measured times of its layers beside what the roofline allows.

A pure function of what was read, like `profiler.analysis.cpu`, and with the same result: no TensorRT, no engine and
no GPU. Each piece that is missing makes the verdict less sure, and the result says so.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from profiler import __version__
from profiler.analysis.graph import graph_of_plan
from profiler.analysis.plan import PricedPlan, on_device
from profiler.analysis.rows import by_loss, node_results
from profiler.analysis.work import scaled, work_of_nodes
from profiler.base.errors import UsageError
from profiler.base.op_kinds import MULTIPLYING
from profiler.base.plan_words import LAUNCHING, is_convolution, is_product, precision
from profiler.base.records import (
    SCHEMA_VERSION,
    Backend,
    Ceilings,
    ClockSummary,
    Coverage,
    Device,
    Dim,
    EngineFacts,
    Estimate,
    GpuSpec,
    InferenceTimes,
    InputTensor,
    Latency,
    Layer,
    LayerResult,
    LayerTime,
    LayerTimes,
    Match,
    MatchConfidence,
    MatchedLayer,
    ModelInfo,
    Op,
    Plan,
    PlanBinding,
    PlanLayer,
    PlanTensor,
    Run,
    Source,
    Tensor,
    Timeline,
    Unsupported,
)
from profiler.base.units import format_bytes
from profiler.cost.plan import PlanCost
from profiler.diagnose import JUDGE, Case, Judge
from profiler.diagnose.ledger import Around, build_ledger
from profiler.diagnose.plugin import candidates
from profiler.diagnose.rank import diagnose, verdict
from profiler.engine.profile_files import join_profile

EVENT_STEP_NS = 500
"""Resolution of the events that layers are timed with: about 0.5 us (CUDA Runtime API, cudaEventElapsedTime)."""

_NAMED = 3
"""Layers that a note names."""

_COUNTED = (
    "1 MAC = 2 FLOP; bytes: each distinct tensor of a layer once, at its dtype and padding in the engine, weights too"
)


def model_of_plan(bindings: Sequence[PlanBinding], name: str, path: str) -> ModelInfo:
    """What a plan alone tells of the model that it was built from: its inputs and outputs.

    Args:
        bindings: Of the plan.
        name: What to call the model.
        path: The file that the plan was read from.
    """

    def dims(binding: PlanBinding) -> tuple[Dim, ...] | None:
        return None if binding.dims is None else tuple("?" if dim < 0 else dim for dim in binding.dims)

    def known(binding: PlanBinding) -> tuple[int, ...] | None:
        return binding.dims if binding.dims is not None and min(binding.dims, default=0) >= 0 else None

    return ModelInfo(
        name=name,
        path=path,
        sha256="",
        ir_version=0,
        opsets={},
        inputs=tuple(
            InputTensor(
                name=one.name,
                dtype=one.dtype or "unknown",
                shape=known(one),
                declared=dims(one) or (),
                kind="none",
                values="not run here",
            )
            for one in bindings
            if one.mode == "input"
        ),
        outputs=tuple(
            Tensor(name=one.name, dtype=one.dtype or "unknown", shape=dims(one))
            for one in bindings
            if one.mode == "output"
        ),
    )


class Measured(NamedTuple):
    """What was measured of an engine, from whatever source.

    Attributes:
        layers_ns: Time of each layer of the plan in one inference; None where it has none.
        kernels: Of each layer, as far as they are known.
        latency: Of one inference; of no sample (``n`` is 0) where it is not end-to-end.
        profiled: The same while the layers were timed.
        around: What lies around the layers in the latency.
        coverage: Shares of the time of all kernels; None to take those of the layers by how they were matched.
        captured_ns: Time of all kernels that are in ``kernels`` or ``unattributed``.
        unattributed: Kernels of no layer.
        unattributed_ns: Their time in one inference.
        resolution_ns: Step of the clock that timed the layers.
        gap_ns: Time of an inference on the GPU in which no layer ran.
        enqueue_ns: In which the host enqueued it; 0 where that is not known.
        end_to_end: Whether the latency is one.
        lacking: What makes the result less sure: in a few words for the verdict, and in a sentence.
        notes: What else is to be said.
        versions: Of what measured it.
        graph_ns: Latency of the same inference as a CUDA graph; 0 where it was not measured.
        clocks: Of the GPU while the latency was measured; None where they were not sampled.
        clocks_profiled: The same while the kernels were.
        timeline: One inference of the capture; None where nobody saw when kernels ran.
    """

    layers_ns: Sequence[int | None]
    kernels: Sequence[tuple[Match, ...]]
    latency: Latency
    profiled: Latency
    around: Around = Around()
    coverage: Coverage | None = None
    captured_ns: int = 0
    unattributed: tuple[Match, ...] = ()
    unattributed_ns: int = 0
    resolution_ns: int = 1
    gap_ns: int = 0
    enqueue_ns: int = 0
    end_to_end: bool = True
    lacking: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    versions: Mapping[str, str] = {}
    graph_ns: int = 0
    clocks: ClockSummary | None = None
    clocks_profiled: ClockSummary | None = None
    timeline: Timeline | None = None


class _Row(NamedTuple):
    """A layer that time was measured of."""

    at: int
    """Its place in the plan."""
    name: str
    """That of the layer in the plan, made unique."""
    matched: MatchedLayer
    measured_ns: int
    kernels: tuple[Match, ...]
    estimate: Estimate | None
    unknown: str
    """Why its work, or a part of it, is not known."""


def analyse_plan(
    priced: PricedPlan,
    source: Source | None,
    profile: LayerTimes,
    times: InferenceTimes | None,
    ceilings: Ceilings,
    spec: GpuSpec,
    *,
    model: ModelInfo | None = None,
    files: Mapping[str, str] | None = None,
    clock_mhz: float | None = None,
    judge: Judge = JUDGE,
) -> Run:
    """Set the measured times of the layers of an engine beside their roofline.

    Args:
        priced: The plan and its work.
        source: The model that the engine was built from, with its shapes; None where it is not at hand.
        profile: Times of its layers.
        times: Times of whole inferences; None where there are none: the latency is then the sum of the layers.
        ceilings: Of the GPU that ran it.
        spec: The datasheet of that GPU.
        model: What to say of the model where there is no source.
        files: What was read, by role: ``layers``, ``profile``, ``times``, ``onnx``.
        clock_mhz: Clock of the SMs that the ceilings are for, where it is not that of the datasheet.
        judge: By what the case is judged.

    Returns:
        The same document as that of `profiler.analysis.cpu.analyse`. Its layers are those that the profile charges
        time to, and their times sum to the profile's, to the ns.

    Raises:
        UsageError: The profile is of another engine, or no layer took any time.
    """
    document = priced.document
    plan = Plan(era=document.facts.era, layers=tuple(matched.layer for matched in document.layers))
    joined, notes = join_profile(plan, profile)
    measured = [None if time is None or not (_time(time) or time.total_ns) else _time(time) for time in joined]
    if not any(measured):
        raise UsageError(
            "no layer took any time", why="all times of the profile are 0", fix="measure and export the profile again"
        )
    layers_ns = sum(ns or 0 for ns in measured)
    latency, around, compute_ns = latency_of(times, layers_ns)
    return analyse_measured(
        priced,
        source,
        Measured(
            layers_ns=measured,
            kernels=[_tactic(matched, ns) for matched, ns in zip(document.layers, measured, strict=True)],
            latency=latency,
            profiled=_profiled(profile, layers_ns),
            around=around,
            captured_ns=layers_ns,
            resolution_ns=EVENT_STEP_NS,
            gap_ns=max(compute_ns - layers_ns, 0),
            enqueue_ns=_median(times.enqueue_ns) if times is not None else 0,
            end_to_end=times is not None,
            lacking=tuple(_lacking_times(profile, times, joined)),
            notes=(*_parallel(document.layers), *profile.notes, *notes),
        ),
        ceilings,
        spec,
        model=model,
        files=files,
        clock_mhz=clock_mhz,
        judge=judge,
    )


def analyse_measured(
    priced: PricedPlan,
    source: Source | None,
    measured: Measured,
    ceilings: Ceilings,
    spec: GpuSpec,
    *,
    model: ModelInfo | None = None,
    files: Mapping[str, str] | None = None,
    clock_mhz: float | None = None,
    judge: Judge = JUDGE,
) -> Run:
    """The same of times from any source; see `analyse_plan` for the rest.

    Args:
        priced: The plan and its work.
        source: The model that the engine was built from; None where it is not at hand.
        measured: The times.
        ceilings: Of the GPU that ran it.
        spec: The datasheet of that GPU.
        model: What to say of the model where there is no source.
        files: What was read, by role.
        clock_mhz: Clock of the SMs that the ceilings are for, where it is not that of the datasheet.
        judge: By what the case is judged.
    """
    priced = priced if source is not None else without_model(priced)
    document = priced.document
    found = on_device(priced, ceilings, measured.layers_ns)
    rows = _rows(priced, found.estimates, measured)
    results = [_result(row, priced) for row in rows]
    partial = frozenset(row.name for row in rows if row.unknown and row.estimate is not None)
    layers_ns = sum(result.measured_ns for result in results)
    total_ns = layers_ns + measured.unattributed_ns
    ledger = build_ledger(
        results,
        {row.name: row.estimate for row in rows},
        measured.latency,
        ceilings,
        measured.unattributed_ns,
        around=measured.around,
        partial=partial,
    )
    lacking = (*_lacking_model(source), *measured.lacking, *_lacking_work(priced, measured, ceilings))
    coverage = measured.coverage or _coverage(results, layers_ns)
    case = Case(
        layers=tuple(results),
        engine=_engine_layers(rows, source),
        latency=measured.latency,
        profiled=measured.profiled,
        coverage=coverage,
        ceilings=ceilings,
        ledger=ledger,
        clock_resolution_ns=measured.resolution_ns,
        profiled_gap_ns=measured.gap_ns,
        tensorrt=_backend(document.facts) != "ort-cuda",
        gpu=True,
        graph_ns=measured.graph_ns,
        partial=partial,
        edges=found.edges,
        tactics={row.name: row.matched.layer.tactic for row in rows if row.matched.layer.tactic},
        end_to_end=measured.end_to_end,
        enqueue_ns=measured.enqueue_ns,
        lacking=tuple(short for short, _ in lacking),
        clocks=measured.clocks,
        clocks_profiled=measured.clocks_profiled,
        rated_mhz=spec.boost_mhz.value,
        spec=spec,
        plan={row.name: row.matched for row in rows},
        bindings=document.bindings,
    )
    case = judge.takes(case)
    findings = diagnose(case)
    attainable = sum(result.attainable_ns or 0 for result in results if result.role == "compute")
    nodes = source.nodes if source is not None else ()
    works, _ = work_of_nodes(nodes)
    info = source.model if source is not None else model or model_of_plan(document.bindings, "engine", "")
    return Run(
        schema_version=SCHEMA_VERSION,
        model=info,
        backend=Backend(name=_backend(document.facts), reason=_read(files or {})),
        device=_device(spec, clock_mhz),
        versions={"trtprof": __version__, **document.facts.versions, **measured.versions},
        ceilings=ceilings,
        latency=measured.latency,
        profiled=measured.profiled,
        coverage=coverage,
        verdict=verdict(case, findings, attainable),
        ledger=ledger,
        layers=tuple(sorted(results, key=by_loss)),
        nodes=node_results(nodes, works, document.fates),
        findings=findings,
        unsupported=_unsupported(rows, total_ns, _backend(document.facts)),
        captured_ns=measured.captured_ns,
        kernels_unattributed=measured.unattributed,
        engine=document.facts,
        plan=found.summary,
        candidates=candidates(
            case,
            {node.name: node.op for node in nodes},
            {row.name: priced.costs[row.at].runs for row in rows},
            _backend(document.facts),
        ),
        clocks=measured.clocks,
        clocks_profiled=measured.clocks_profiled,
        assumptions=(
            *info.assumptions,
            _COUNTED,
            f"what stays in the L2 ({format_bytes(ceilings.cache_bytes)}) is charged at its bandwidth",
            *(sentence for _, sentence in lacking),
            *measured.notes,
            *document.facts.notes,
            *judge.notes,
        ),
        timeline=measured.timeline,
        graph=graph_of_plan([one.layer for one in document.layers], layer_names(document.layers), nodes),
    )


# --- layers -----------------------------------------------------------------------------------


def without_model(priced: PricedPlan) -> PricedPlan:
    """A plan with names of nodes that nobody checked: no layer is led back to its nodes for sure."""
    layers = tuple(
        msgspec.structs.replace(matched, match="inferred") if matched.match == "exact" else matched
        for matched in priced.document.layers
    )
    return priced._replace(document=msgspec.structs.replace(priced.document, layers=layers))


def layer_names(layers: Sequence[MatchedLayer]) -> list[str]:
    """What the layers of a plan are called in a result: several of one name are told apart by their place."""
    alike = Counter(matched.layer.name for matched in layers)
    return [
        f"{matched.layer.name} (layer {at})" if alike[matched.layer.name] > 1 else matched.layer.name
        for at, matched in enumerate(layers)
    ]


def _time(time: LayerTime) -> int:
    return time.average_ns if time.median_ns is None else time.median_ns


def _rows(priced: PricedPlan, estimates: Sequence[Estimate | None], measured: Measured) -> list[_Row]:
    """Layers with a time, in execution order."""
    names = layer_names(priced.document.layers)
    rows = []
    for index, (matched, cost, estimate, ns, kernels) in enumerate(
        zip(priced.document.layers, priced.costs, estimates, measured.layers_ns, measured.kernels, strict=True)
    ):
        if ns is None:
            continue
        name = names[index]
        rows.append(
            _Row(
                at=index,
                name=name,
                matched=matched,
                measured_ns=ns,
                kernels=tuple(msgspec.structs.replace(kernel, layer=name) for kernel in kernels),
                estimate=_of_inference(estimate, cost.runs),
                unknown=_unknown(matched, cost),
            )
        )
    return rows


def _unknown(matched: MatchedLayer, cost: PlanCost) -> str:
    """Why the work of a layer that computes, or a part of it that may bound it, is not known; empty where it is.

    Behind a product whose size is known, what else a layer computes hardly ever takes longer than the product.
    """
    if matched.role != "compute":
        return ""
    if cost.work is None:
        return cost.reason or "the plan does not tell what it moves"
    return "" if cost.work.tensor_flops else cost.reason


def _of_inference(estimate: Estimate | None, runs: int) -> Estimate | None:
    """The estimate of all the runs of a layer in one inference, from that of one."""
    if estimate is None or runs == 1:
        return estimate
    return msgspec.structs.replace(
        estimate,
        ideal_ns=estimate.ideal_ns * runs,
        attainable_ns=estimate.attainable_ns * runs,
        roofline_ns=estimate.roofline_ns * runs,
        terms={name: ns * runs for name, ns in estimate.terms.items()},
        dram_bytes=estimate.dram_bytes * runs,
        cache_bytes=estimate.cache_bytes * runs,
    )


def _result(row: _Row, priced: PricedPlan) -> LayerResult:
    matched, layer, estimate = row.matched, row.matched.layer, row.estimate
    cost = priced.costs[row.at]
    work = scaled(cost.work, cost.runs) if cost.work is not None and matched.role in LAUNCHING else None
    lost: int | None = None
    if matched.role != "compute":
        lost = row.measured_ns
    elif estimate is not None and not row.unknown:
        lost = row.measured_ns - estimate.attainable_ns
    dtype = precision(matched, work)
    return LayerResult(
        name=row.name,
        op_type=layer.kind,
        role=matched.role,
        nodes=matched.nodes or layer.onnx_nodes,
        kernels=row.kernels,
        measured_ns=row.measured_ns,
        ideal_ns=None if estimate is None else estimate.ideal_ns,
        attainable_ns=None if estimate is None else estimate.attainable_ns,
        lost_ns=lost,
        bound="unknown" if estimate is None else estimate.bound,
        runner_up="none" if estimate is None else estimate.runner_up,
        flops=None if work is None else work.flops,
        bytes=None if work is None else work.bytes,
        dtype="" if dtype == "unknown" else dtype,
        match=matched.match,
        reason="; ".join(filter(None, (matched.reason, cost.reason))),
        shapes=f"{_shapes((*layer.inputs, *layer.constants))} -> {_shapes(layer.outputs)}",
        terms={} if estimate is None else estimate.terms,
        work=work,
    )


def _tactic(matched: MatchedLayer, ns: int | None) -> tuple[Match, ...]:
    """The tactic that the plan names: its word on which kernel runs, and how often is not in it."""
    layer = matched.layer
    if ns is None or not layer.tactic:
        return ()
    reason = "the tactic that the plan names, with the time of the whole layer: no kernel was captured"
    return (
        Match(
            layer=layer.name, kernel=layer.tactic, count=1, median_ns=ns, total_ns=ns, confidence="inferred",
            reason=reason,
        ),
    )  # fmt: skip


def _shapes(tensors: Iterable[PlanTensor]) -> str:
    distinct = {tensor.name: tensor for tensor in tensors}
    return ", ".join(
        "?" if tensor.dims is None else "x".join("?" if dim < 0 else str(dim) for dim in tensor.dims) or "scalar"
        for tensor in distinct.values()
    )


def _engine_layers(rows: Sequence[_Row], source: Source | None) -> dict[str, Layer]:
    """What rules look at: for each layer the ONNX op that it is about, or what its plan says of it."""
    ops = {node.name: node.op for node in source.nodes} if source is not None else {}
    return {
        row.name: Layer(
            name=row.name,
            op=_main_op([ops[name] for name in row.matched.nodes if name in ops]) or _op_of_plan(row.matched.layer),
            role="layout" if row.matched.role == "layout" else "compute",
            nodes=row.matched.nodes,
            match=row.matched.match,
            reason=row.matched.reason,
        )
        for row in rows
    }


def _main_op(ops: Sequence[Op]) -> Op | None:
    """The first product among the ops of a layer, or its first op."""
    return next((op for op in ops if op.op_type in MULTIPLYING), ops[0] if ops else None)


def _op_of_plan(layer: PlanLayer) -> Op:
    def tensors(given: Sequence[PlanTensor]) -> tuple[Tensor, ...]:
        return tuple(
            Tensor(
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
    return Op(
        op_type=op_type,
        attributes={"group": groups} if isinstance(groups, int) else {},
        inputs=tensors((*layer.inputs, *layer.constants)),
        outputs=tensors(layer.outputs),
    )


def _unsupported(rows: Sequence[_Row], total_ns: int, domain: str) -> tuple[Unsupported, ...]:
    """Layers of whose work nothing, or only a part, is known."""
    groups: dict[tuple[str, str], list[_Row]] = {}
    for row in rows:
        if row.unknown:
            groups.setdefault((row.matched.layer.kind, row.unknown), []).append(row)
    found = []
    for (kind, reason), alike in sorted(groups.items()):
        ns = sum(row.measured_ns for row in alike)
        found.append(
            Unsupported(
                domain=domain,
                op_type=kind,
                count=len(alike),
                measured_ns=ns,
                share=ns / total_ns if total_ns else 0.0,
                reason=reason,
            )
        )
    return tuple(found)


# --- sums -------------------------------------------------------------------------------------


def _coverage(results: Sequence[LayerResult], total_ns: int) -> Coverage:
    by_match: dict[MatchConfidence, int] = {"exact": 0, "inferred": 0, "none": 0}
    for result in results:
        by_match[result.match] += result.measured_ns
    return Coverage(
        exact=by_match["exact"] / total_ns,
        inferred=by_match["inferred"] / total_ns,
        unattributed=by_match["none"] / total_ns,
    )


def latency_of(times: InferenceTimes | None, layers_ns: int) -> tuple[Latency, Around, int]:
    """The latency, what lies around the layers in it, and the time of an inference on the GPU.

    Without times of inferences the latency is the sum of the layers, of no sample.
    """
    if times is None or not times.latency_ns:
        return Latency(median_ns=layers_ns, p99_ns=layers_ns, cv=0.0, n=0), Around(), layers_ns

    samples = sorted(times.latency_ns)
    mean = statistics.fmean(samples)
    latency = Latency(
        median_ns=_median(samples),
        # Of a few samples the largest.
        p99_ns=samples[max(-(-99 * len(samples) // 100) - 1, 0)],
        cv=statistics.pstdev(samples) / mean if mean else 0.0,
        n=len(samples),
        mean_ns=round(mean),
        min_ns=samples[0],
        max_ns=samples[-1],
    )
    around = Around(_median(times.h2d_ns), _median(times.d2h_ns))
    return latency, around, _median(times.compute_ns)


def _median(values: Sequence[int]) -> int:
    return round(statistics.median(values)) if values else 0


def _profiled(profile: LayerTimes, layers_ns: int) -> Latency:
    """An inference as the profiler saw it: the sum of its layers."""
    mean = sum(layer.average_ns for layer in profile.layers)
    return Latency(median_ns=layers_ns, p99_ns=layers_ns, cv=0.0, n=profile.iterations, mean_ns=mean)


# --- in words ---------------------------------------------------------------------------------


def _backend(facts: EngineFacts) -> str:
    return facts.backend or ("tensorrt-rtx" if facts.era.startswith("TensorRT-RTX") else "tensorrt")


def _read(files: Mapping[str, str]) -> str:
    return "read from files: " + ", ".join(f"{role} {path}" for role, path in files.items()) if files else "given"


def _device(spec: GpuSpec, clock_mhz: float | None) -> Device:
    detail = {
        "architecture": spec.architecture,
        "compute capability": spec.compute_capability,
        "datasheet": spec.origin,
        "power limit": f"{spec.tdp_w.value:g} W",
    }
    return Device(
        name=spec.name,
        kind="gpu",
        cores=int(spec.sms.value),
        memory_bytes=int(spec.memory_bytes.value),
        cache_bytes=int(spec.l2_bytes.value),
        clock_mhz=clock_mhz or spec.boost_mhz.value,
        detail=detail,
    )


def _lacking_model(source: Source | None) -> Iterable[tuple[str, str]]:
    """What makes the result less sure: in a few words for the verdict, and in a sentence."""
    if source is None:
        yield (
            "no ONNX model",
            (
                "without the ONNX model (--onnx) the nodes of a layer are the plan's word, unchecked; arithmetic and "
                "weights that only the model tells are left out of the work"
            ),
        )


def _lacking_times(
    profile: LayerTimes, times: InferenceTimes | None, joined: Sequence[LayerTime | None]
) -> Iterable[tuple[str, str]]:
    if times is None:
        yield (
            "no end-to-end times",
            (
                "without times of inferences (--times) the latency is the sum of the layers: no copies, no gaps, no "
                "overlap of streams"
            ),
        )
    if not profile.complete:
        yield "a printed profile", "the profile is a printed table: times are rounded, and some layers are left out"
    if profile.iterations == 1:
        yield "a profile of one inference", "the profile is of one inference: times are single samples, not medians"
    elif any(time is not None and time.median_ns is None for time in joined):
        yield "no medians", "the profile has no medians: times are averages, which outliers move"


def _lacking_work(priced: PricedPlan, measured: Measured, ceilings: Ceilings) -> Iterable[tuple[str, str]]:
    document = priced.document
    untimed = [
        matched.layer.name
        for matched, ns in zip(document.layers, measured.layers_ns, strict=True)
        if matched.role in LAUNCHING and ns is None
    ]
    if untimed:
        yield (
            f"{len(untimed)} layers without a time" if len(untimed) > 1 else "a layer without a time",
            f"layers without a measured time, which are left out: {_some(untimed)}",
        )
    unsized = [
        matched.layer.name
        for matched, cost in zip(document.layers, priced.costs, strict=True)
        if matched.role in LAUNCHING and cost.work is None
    ]
    if unsized:
        yield (
            f"{len(unsized)} layers without a price" if len(unsized) > 1 else "a layer without a price",
            f"layers whose work is not known: {_some(unsized)}",
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


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _parallel(layers: Sequence[MatchedLayer]) -> Iterable[str]:
    streams = {matched.layer.stream for matched in layers if matched.layer.stream is not None}
    if len(streams) > 1:
        yield (
            f"layers lie on {len(streams)} streams and may overlap: the profiler runs them one after the other, "
            "and so does the ledger"
        )
