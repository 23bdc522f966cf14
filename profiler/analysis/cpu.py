"""From the artefacts of a run to its result: align, price, predict, diagnose.

A pure function of what was saved: no model, no engine and no device is needed, and the same
artefacts always give the same bytes.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from profiler.align.kernels import align_kernels
from profiler.align.nodes import match_layers
from profiler.analysis.graph import graph_of_layers
from profiler.analysis.onnxruntime import layers_as_run, works_of
from profiler.analysis.rows import by_loss, node_results
from profiler.analysis.timeline import timeline_of_kernels
from profiler.base import run_folder
from profiler.base.records import (
    SCHEMA_VERSION,
    Capture,
    Ceilings,
    Device,
    Engine,
    Estimate,
    Layer,
    LayerResult,
    Match,
    Op,
    Roof,
    Run,
    Source,
    Tensor,
    Unsupported,
    Work,
)
from profiler.base.run_folder import Request, RunFolder
from profiler.base.units import format_bytes, format_ns, format_percent
from profiler.cost.precision import compute_dtype
from profiler.diagnose import Case
from profiler.diagnose.config import judge_of
from profiler.diagnose.ledger import build_ledger
from profiler.diagnose.rank import diagnose, verdict
from profiler.estimate.roofline import predict_layers

if TYPE_CHECKING:
    import pandas as pd


def analyse(folder: RunFolder, seen: Callable[[Case], None] | None = None) -> Run:
    """The result of a run from its saved artefacts alone: no model, no engine, no device.

    Args:
        folder: Of the run.
        seen: Given the case that the rules look at.

    Raises:
        MissingError: An artefact is missing because the run did not get that far.
        CaptureError: Kernels could not be aligned.
    """
    request = folder.read(run_folder.REQUEST, Request)
    judge = judge_of(request, seen)
    source = folder.read(run_folder.SOURCE, Source)
    engine = folder.read(run_folder.ENGINE, Engine)
    device = folder.read(run_folder.DEVICE, Device)
    capture = folder.read(run_folder.CAPTURE, Capture)
    kept = folder.read(run_folder.CEILINGS, Ceilings)
    speed = _speed(kept, capture)
    stream = _stream(kept, capture)
    ceilings = _at_speed(kept, min(speed, 1.0), stream)
    kernels = folder.table(run_folder.KERNELS)

    matched, fates = match_layers(source.nodes, layers_as_run(engine.layers, capture.inputs, capture.runtime_shapes))
    alignment = align_kernels(kernels, matched, capture.clock_resolution_ns)
    ran = [layer for layer in _in_execution_order(matched, kernels) if layer.name in alignment.matches]
    prices = works_of(ran, source.nodes)
    works = {name: work for name, (work, _) in prices.items()}
    estimates = predict_layers(ran, works, ceilings, [tensor.name for tensor in source.model.outputs])
    iterations = max(int(kernels["iteration"].nunique()), 1)
    launches = {layer.name: sum(m.count for m in alignment.matches[layer.name]) / iterations for layer in ran}
    overheads = _profiler_overheads(ran, launches, ceilings)
    raw_ns = sum(alignment.per_iteration_ns.values())
    scale = _overhead_scale(raw_ns, sum(overheads.values()), capture, ceilings)
    results = [
        _layer_result(
            layer,
            works[layer.name],
            estimates[layer.name],
            max(alignment.per_iteration_ns[layer.name] - round(scale * overheads[layer.name]), 0),
            kernels=alignment.matches[layer.name],
        )
        for layer in ran
    ]
    unattributed_ns = sum(match.total_ns for match in alignment.unattributed) // iterations
    ledger = build_ledger(results, estimates, capture.latency, ceilings, unattributed_ns)
    case = Case(
        layers=tuple(results),
        engine={layer.name: layer for layer in ran},
        latency=capture.latency,
        profiled=capture.profiled,
        coverage=alignment.coverage,
        ceilings=ceilings,
        ledger=ledger,
        clock_resolution_ns=capture.clock_resolution_ns,
        profiled_gap_ns=max(capture.profiled.median_ns - raw_ns, 0),
        speed=speed,
        probes_ns=capture.probe_ns,
    )
    case = judge.takes(case)
    findings = diagnose(case)
    attainable = sum(result.attainable_ns or 0 for result in results if result.role != "layout")
    return Run(
        schema_version=SCHEMA_VERSION,
        model=source.model,
        backend=engine.backend,
        device=device,
        versions={"trtprof": request.version, **engine.versions},
        ceilings=ceilings,
        latency=capture.latency,
        profiled=capture.profiled,
        coverage=alignment.coverage,
        verdict=verdict(case, findings, attainable),
        ledger=ledger,
        layers=tuple(sorted(results, key=by_loss)),
        nodes=node_results(source.nodes, {node.name: node.work for node in source.nodes}, fates),
        findings=findings,
        unsupported=_unsupported(results, prices, {layer.name: layer.op.domain for layer in ran}),
        captured_ns=alignment.captured_ns,
        speed=speed,
        kernels_unattributed=alignment.unattributed,
        assumptions=(*source.model.assumptions, *_assumptions(capture, ceilings, scale, speed, stream), *judge.notes),
        created=request.created,
        timeline=timeline_of_kernels(kernels),
        graph=graph_of_layers(ran, source.nodes),
    )


def _in_execution_order(layers: Sequence[Layer], kernels: pd.DataFrame) -> list[Layer]:
    """Layers as they ran in the last profiled inference, which is the order that the cache sees."""
    last = kernels[kernels["iteration"] == kernels["iteration"].max()]
    order: dict[str, int] = {}
    for name in last.sort_values("index")["layer"]:
        order.setdefault(str(name), len(order))
    return sorted(layers, key=lambda layer: order.get(layer.name, len(order)))


def _profiler_overheads(layers: Sequence[Layer], launches: Mapping[str, float], ceilings: Ceilings) -> dict[str, int]:
    """Time that the profiler spent inside the events of each layer in one inference, in ns.

    A control-flow layer also holds what the profiler did behind each event of its body.
    """
    inner: dict[str, float] = {}
    for layer in layers:
        if layer.graph:
            owner = layer.graph.rpartition("/")[0]
            inner[owner] = inner.get(owner, 0.0) + launches[layer.name]
    overheads = {}
    for layer in layers:
        tensors = sum(1 for tensor in (*layer.op.inputs, *layer.op.outputs) if tensor is not None)
        each = ceilings.profiler_ns + tensors * ceilings.profiler_tensor_ns
        behind = inner.get(layer.name, 0.0) * ceilings.profiler_gap_ns
        overheads[layer.name] = round(launches[layer.name] * each + behind)
    return overheads


def _speed(ceilings: Ceilings, capture: Capture) -> float:
    """Speed of the machine around the run over that at calibration; 1 where nothing was probed."""
    if not capture.probe_ns or ceilings.probe_ns <= 0:
        return 1.0
    return ceilings.probe_ns / statistics.median(capture.probe_ns)


def _stream(ceilings: Ceilings, capture: Capture) -> float:
    """DRAM bandwidth of an Add around the run over that at calibration; 1 where nothing was probed.

    Neighbours on a shared machine move it within seconds, up as well as down; what the run could have had is
    the best of the moments that were looked at.
    """
    calibrated = ceilings.attainable.dram_out_of_place_bytes_per_s.get("add", 0.0)
    if not capture.stream_bytes_per_s or calibrated <= 0:
        return 1.0
    return max(capture.stream_bytes_per_s) / calibrated


def _at_speed(ceilings: Ceilings, speed: float, stream: float) -> Ceilings:
    """Ceilings as attainable while the run was made: what the cores do at their speed, DRAM at its own.

    No DRAM bandwidth is above the best that was ever measured, which bounds ``ideal``.
    """
    roof = ceilings.attainable

    best = ceilings.best.dram_bytes_per_s

    def scaled(rates: Mapping[str, float]) -> dict[str, float]:
        return {name: rate * speed for name, rate in rates.items()}

    return msgspec.structs.replace(
        ceilings,
        attainable=Roof(
            tensor_flops_per_s=scaled(roof.tensor_flops_per_s),
            vector_flops_per_s=scaled(roof.vector_flops_per_s),
            special_per_s=scaled(roof.special_per_s),
            dram_bytes_per_s=min(roof.dram_bytes_per_s * stream, best),
            dram_out_of_place_bytes_per_s={
                pattern: min(rate * stream, best) for pattern, rate in roof.dram_out_of_place_bytes_per_s.items()
            },
            cache_bytes_per_s=roof.cache_bytes_per_s * speed,
        ),
        launch_ns=ceilings.launch_ns / speed,
        # What the profiler adds is not: `_overhead_scale` finds in the run itself how much dearer it was.
        call_ns=ceilings.call_ns / speed,
    )


MAX_OVERHEAD_SCALE = 2.0
"""A run may prove the profiler at most this much dearer than empty kernels do; more is noise."""


def _overhead_scale(raw_ns: int, overhead_ns: int, capture: Capture, ceilings: Ceilings) -> float:
    """How much dearer the profiler was in this run than on empty kernels, at least 1.

    Kernels cannot take longer than the inference did without the profiler, less the call around
    it. What the profile says beyond that is the profiler's own time (it also leaves cold caches
    behind), so this run's excess is a lower bound of it that empty kernels cannot show.
    """
    excess = raw_ns - max(capture.latency.median_ns - round(ceilings.call_ns), 0)
    if overhead_ns <= 0:
        return 1.0
    return min(max(excess / overhead_ns, 1.0), MAX_OVERHEAD_SCALE)


def _layer_result(
    layer: Layer,
    work: Work | None,
    estimate: Estimate | None,
    measured_ns: int,
    *,
    kernels: tuple[Match, ...],
) -> LayerResult:
    lost = None if estimate is None else measured_ns - estimate.attainable_ns
    return LayerResult(
        name=layer.name,
        op_type=layer.op.op_type,
        role=layer.role,
        nodes=layer.nodes,
        kernels=kernels,
        measured_ns=measured_ns,
        ideal_ns=None if estimate is None else estimate.ideal_ns,
        attainable_ns=None if estimate is None else estimate.attainable_ns,
        lost_ns=measured_ns if layer.role == "layout" else lost,
        bound="unknown" if estimate is None else estimate.bound,
        runner_up="none" if estimate is None else estimate.runner_up,
        flops=None if work is None else work.flops,
        bytes=None if work is None else work.bytes,
        dtype=compute_dtype(layer.op) if work is None else work.dtype,
        match=layer.match,
        reason=layer.reason,
        shapes=_shapes_text(layer.op),
        terms={} if estimate is None else estimate.terms,
        work=work,
        constant=layer.constant,
    )


def _shapes_text(op: Op) -> str:
    def text(tensors: Iterable[Tensor | None]) -> str:
        return ", ".join(
            "?" if tensor.shape is None else "x".join(map(str, tensor.shape)) or "scalar"
            for tensor in tensors
            if tensor is not None
        )

    return f"{text(op.inputs)} -> {text(op.outputs)}"


def _unsupported(
    results: Sequence[LayerResult], prices: Mapping[str, tuple[Work | None, str]], domains: Mapping[str, str]
) -> tuple[Unsupported, ...]:
    total = sum(result.measured_ns for result in results)
    groups: dict[tuple[str, str, str], list[LayerResult]] = {}
    for result in results:
        if result.work is None:
            key = (domains[result.name], result.op_type, prices[result.name][1])
            groups.setdefault(key, []).append(result)
    return tuple(
        Unsupported(
            domain=domain,
            op_type=op_type,
            count=len(found),
            measured_ns=sum(result.measured_ns for result in found),
            share=sum(result.measured_ns for result in found) / total if total else 0.0,
            reason=reason,
        )
        for (domain, op_type, reason), found in sorted(groups.items())
    )


def _assumptions(capture: Capture, ceilings: Ceilings, scale: float, speed: float, stream: float) -> list[str]:
    notes = [
        "1 MAC = 2 FLOP; bytes: each distinct external tensor of a layer once, at its dtype in the engine, weights too",
        f"what stays in the last-level cache ({format_bytes(ceilings.cache_bytes)}) is charged at its bandwidth",
    ]
    if speed < 1:
        notes.append(
            f"the machine ran at {format_percent(speed)} of the speed at which its ceilings were measured: "
            "peaks and cache bandwidth that count as attainable are scaled by it"
        )
    if stream != 1:
        notes.append(
            f"memory streamed at {format_percent(stream)} of the bandwidth at which its ceilings were measured: "
            "DRAM bandwidth that counts as attainable is scaled by it"
        )
    if capture.clock_resolution_ns > 1:
        notes.append(
            f"the profiler's clock steps by {format_ns(capture.clock_resolution_ns)}; medians are interpolated"
        )
    if ceilings.profiler_ns:
        note = (
            f"measured times of layers are less the profiler's own {format_ns(scale * ceilings.profiler_ns)} an event"
        )
        if scale > 1:
            note += f", {scale:.2f} times what empty kernels cost, because kernels cannot outlast the clean latency"
        notes.append(note)
    return notes
