"""Evidence from a capture of the GPU: every kernel led back to its layer."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np
import pandas as pd

from trtprof.align.gpu_kernels import TraceAlignment, align_trace
from trtprof.analysis.evidence import NO_LAYERS, Evidence, Lack, latency_and_copies, layers_of_names
from trtprof.analysis.named import NamedPlan, price_named
from trtprof.analysis.plan import PricedPlan, layer_names
from trtprof.analysis.producer import producer_of
from trtprof.analysis.timeline import timeline_of_trace
from trtprof.base.latency import latency_of, latency_of_sum, median_ns
from trtprof.base.records import InferenceTimes, Match, MatchedLayer, PlanLayer
from trtprof.base.trace import FROM_DEVICE, TO_DEVICE, GpuTrace
from trtprof.base.units import format_bytes, format_ns
from trtprof.diagnose.ledger import Overheads

_PARTS = ("copy_ns", "overlap_ns", "gap_inside_ns", "gap_between_ns", "gap_host_ns")
"""Columns of the iterations that the ledger has rows for."""


def ranges_of_trace(trace: GpuTrace, device: int | None = None) -> tuple[PlanLayer, ...]:
    """The NVTX ranges that launched something, first come first: TensorRT calls them after its layers."""
    return tuple(matched.layer for matched in align_trace(trace, None, device=device).layers)


def sizes_copied(trace: GpuTrace) -> frozenset[int]:
    """Bytes of copies to the device, of those that come more than once: weights come once, inputs with each run."""
    rows = (trace.work["name"] == TO_DEVICE).to_numpy()
    sizes = trace.work["bytes"].to_numpy()[rows]
    return frozenset(int(size) for size, count in zip(*np.unique(sizes, return_counts=True), strict=True) if count > 1)


def evidence_of_trace(
    trace: GpuTrace, engine: PricedPlan | NamedPlan | None, times: InferenceTimes | None, *, device: int | None = None
) -> Evidence:
    """What a capture knows of an engine; a ``device`` of None is all that worked.

    ``engine`` is its plan with its work, or layers by name, which kernels help to price; None takes the layers from the
    NVTX ranges, else from the names of kernels, and nothing is known of their work.
    """
    if isinstance(engine, NamedPlan):
        alignment = align_trace(trace, engine.layers, device=device)
        priced = price_named(engine, alignment.matches)
        evidence = evidence_of_alignment(trace, priced.plan, alignment, times)
        return evidence._replace(lacking=(*evidence.lacking, *priced.lacking))
    if engine is not None:
        alignment = align_trace(trace, engine.document.layers, device=device)
        return evidence_of_alignment(trace, engine, alignment, times)
    alignment = align_trace(trace, None, device=device)
    what = "NVTX ranges"
    if not alignment.layers:
        what, alignment = "kernels", _by_kernel(trace, alignment)
    seen = layers_of_names(
        alignment.layers,
        f"the {what} of the capture",
        f"no layer information was given: the layers are {what}, and their work is not known",
        "the name of a kernel or of an NVTX range does not tell its work",
        producer_of(
            (match for own in (*alignment.matches, alignment.unattributed) for match in own),
            trace.ranges["name"].cat.categories,
            trace.ranges["domain"].cat.categories,
        ),
    )
    return evidence_of_alignment(trace, seen, alignment, times, planned=False)


def _by_kernel(trace: GpuTrace, alignment: TraceAlignment) -> TraceAlignment:
    """Where no range tells of a layer either, each name of a kernel stands for itself: seen, though led nowhere."""
    names = list(dict.fromkeys(match.kernel for match in alignment.unattributed))
    place = {name: at for at, name in enumerate(names)}
    known = np.array([place.get(str(name), -1) for name in trace.work["name"].cat.categories], dtype=np.int32)
    codes = trace.work["name"].cat.codes.to_numpy()
    work = alignment.work.assign(layer=np.where(alignment.work["counted"], known[codes], np.int32(-1)))
    kept = alignment.iterations.index[alignment.iterations["kept"]]
    rows = (work["layer"] >= 0).to_numpy()
    duration = (trace.work["end_ns"] - trace.work["start_ns"]).to_numpy()[rows]
    keys = [work[column].to_numpy()[rows] for column in ("iteration", "layer")]
    sums = pd.Series(duration).groupby(keys).sum().unstack(fill_value=0)
    medians = sums.reindex(index=kept, columns=range(len(names)), fill_value=0).median()
    matches: list[list[Match]] = [[] for _ in names]
    for match in alignment.unattributed:
        matches[place[match.kernel]].append(msgspec.structs.replace(match, layer=match.kernel))
    return alignment._replace(
        layers=tuple(MatchedLayer(layer=PlanLayer(name=name, kind="kernel")) for name in names),
        work=work,
        matches=tuple(tuple(own) for own in matches),
        unattributed=(),
        per_iteration_ns=tuple(round(ns) for ns in medians),
    )


def evidence_of_alignment(
    trace: GpuTrace,
    engine: PricedPlan,
    alignment: TraceAlignment,
    times: InferenceTimes | None,
    *,
    planned: bool = True,
) -> Evidence:
    """What a capture says of the layers that its kernels were led to."""
    kept = alignment.iterations[alignment.iterations["kept"]]
    spans = (kept["end_ns"] - kept["start_ns"]).to_numpy()
    # Where no inference can be told from another, all of the capture is taken for one.
    profiled = latency_of(spans) if len(spans) else latency_of_sum(alignment.busy_ns)
    latency, copies = profiled, Overheads()
    if times is not None and times.latency_ns:
        latency, copies, _ = latency_and_copies(times, 0)
    medians = {name: median_ns(kept[name]) for name in _PARTS}
    unattributed_ns = _unattributed(trace, alignment)
    if copies.to_device_ns or copies.from_device_ns:
        # Of these the clean run tells; what is left are copies that the engine makes.
        known = (TO_DEVICE, FROM_DEVICE)
        counted = sum(transfer.per_iteration_ns for transfer in alignment.transfers if transfer.name in known)
        medians["copy_ns"] = max(medians["copy_ns"] - counted, 0)
    return Evidence(
        engine=engine,
        layers_ns=[
            ns if matches else None for ns, matches in zip(alignment.per_iteration_ns, alignment.matches, strict=True)
        ],
        kernels=alignment.matches,
        latency=latency,
        profiled=profiled,
        overheads=copies._replace(
            copies_ns=medians["copy_ns"],
            overlap_ns=medians["overlap_ns"],
            gaps_inside_ns=medians["gap_inside_ns"],
            gaps_between_ns=medians["gap_between_ns"],
            waiting_ns=medians["gap_host_ns"],
            captured=True,
        ),
        # Of NVTX ranges alone nothing leads on to nodes: how surely kernels were led to the ranges is what counts.
        coverage=alignment.node_coverage if planned else alignment.coverage,
        captured_ns=alignment.captured_ns,
        unattributed=alignment.unattributed,
        unattributed_ns=unattributed_ns,
        adding_ns=median_ns(kept["kernel_ns"]) - sum(alignment.per_iteration_ns) - unattributed_ns if len(kept) else 0,
        gap_ns=medians["gap_inside_ns"] + medians["gap_between_ns"] + medians["gap_host_ns"],
        enqueue_ns=alignment.launching.host_ns,
        end_to_end=times is not None,
        lacking=tuple(_lacking(trace, alignment, times, planned=planned)),
        notes=(*trace.notes, *_facts(alignment), *alignment.notes),
        versions={trace.collector: trace.version} if trace.version else {},
        transfers=alignment.transfers,
        timeline=timeline_of_trace(trace, alignment, layer_names(alignment.layers)),
    )


def _unattributed(trace: GpuTrace, alignment: TraceAlignment) -> int:
    """Time of kernels of no layer in one inference: the median over those that were kept."""
    work = alignment.work
    rows: pd.Series[bool] = work["counted"] & (work["layer"] < 0)
    duration = (trace.work["end_ns"] - trace.work["start_ns"])[rows.to_numpy()]
    kept = alignment.iterations.index[alignment.iterations["kept"]]
    if not len(kept):
        return int(duration.sum())
    sums = duration.groupby(work["iteration"][rows].to_numpy()).sum()
    return median_ns(sums.reindex(kept, fill_value=0))


def _lacking(
    trace: GpuTrace, alignment: TraceAlignment, times: InferenceTimes | None, *, planned: bool
) -> Iterable[Lack]:
    if trace.collector == "nsys stats":
        yield (
            "a trace without launches",
            "a CSV of nsys stats has neither launches nor NVTX ranges: kernels are told by their names and their order",
        )
    if not planned:
        yield NO_LAYERS
    if times is None:
        yield (
            "no time without the profiler",
            (
                "the latency is that of the inferences in the capture, from the first work on the GPU to the last, "
                "and what the profiler itself adds is in it; --times gives it without"
            ),
        )
    if not alignment.iteration_source:
        yield "no inferences told apart", "nothing in the capture tells one inference from the next: all of it is one"
    elif (odd := int((~alignment.iterations["kept"]).sum())) > 0:
        reason = alignment.iterations["reason"][~alignment.iterations["kept"]].iloc[0]
        number = len(alignment.iterations)
        yield (
            f"{odd} odd inferences" if odd > 1 else "an odd inference",
            f"{odd} of {number} inferences are unlike most and left out of the medians: {reason}",
        )


def _facts(alignment: TraceAlignment) -> Iterable[str]:
    """How the capture reads, in sentences."""
    kept = int(alignment.iterations["kept"].sum())
    if alignment.iteration_source:
        yield f"{kept} inferences, told apart by {alignment.iteration_source}"
    shares = ", ".join(
        f"{share.kernels} by {share.strategy} ({share.confidence})" for share in alignment.shares if share.kernels
    )
    yield f"kernels led to layers: {shares}"
    launching = alignment.launching
    if launching.known:
        enqueued = f"; enqueuing an inference takes {format_ns(launching.host_ns)}" if launching.host_ns else ""
        yield (
            f"a launch takes the host {format_ns(launching.call_ns)}, and the kernel starts "
            f"{format_ns(launching.queue_ns)} after it (median; 90 % within {format_ns(launching.queue_p90_ns)})"
            f"{enqueued}"
        )
    for transfer in alignment.transfers:
        moved = format_bytes(transfer.bytes)
        yield f"{transfer.name}: {transfer.number} of {moved} in all, {format_ns(transfer.total_ns)}"
