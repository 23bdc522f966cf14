"""A TensorRT engine under a capture of the GPU: every kernel led back to its layer, beside what the roofline allows.

A pure function of what was captured, like `profiler.plan_analysis`, and with the same result. Times of layers are
those of their kernels; what lies between the kernels is in the ledger.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from profiler.align.gpu_kernels import TraceAlignment, align_trace
from profiler.diagnose.ledger import Around
from profiler.engine_plan import PricedPlan, price_plan
from profiler.gpu_trace import GpuTrace
from profiler.plan_analysis import Measured, analyse_measured, latency_of, without_model
from profiler.records import (
    Ceilings,
    GpuSpec,
    InferenceTimes,
    Latency,
    ModelInfo,
    Plan,
    Run,
    Source,
)
from profiler.units import format_bytes, format_ns

if TYPE_CHECKING:
    import pandas as pd

_TO_DEVICE, _FROM_DEVICE = "memcpy HtoD", "memcpy DtoH"


def analyse_trace(
    trace: GpuTrace,
    priced: PricedPlan | None,
    source: Source | None,
    times: InferenceTimes | None,
    ceilings: Ceilings,
    spec: GpuSpec,
    *,
    device: int | None = None,
    iteration_range: str | None = None,
    model: ModelInfo | None = None,
    files: Mapping[str, str] | None = None,
    clock_mhz: float | None = None,
) -> Run:
    """Set the kernels of a capture beside the roofline of their layers.

    Args:
        trace: The capture.
        priced: The plan of the engine and its work; None to take the layers from the NVTX ranges: then nothing
            is known of their work.
        source: The model that the engine was built from, with its shapes; None where it is not at hand.
        times: Times of whole inferences without the profiler; without them the latency is that of the capture.
        ceilings: Of the GPU that ran it.
        spec: The datasheet of that GPU.
        device: The GPU of the capture to look at; None for all that worked.
        iteration_range: See `align.gpu_kernels.align_trace`.
        model: What to say of the model where there is no source.
        files: What was read, by role.
        clock_mhz: Clock of the SMs that the ceilings are for, where it is not that of the datasheet.

    Raises:
        CaptureError: No kernel ran, or attribution did not conserve the captured time.
        UsageError: The device did no work in this capture, but others did.
    """
    if priced is not None and source is None:
        priced = without_model(priced)
    given = None if priced is None else priced.document.layers
    alignment = align_trace(trace, given, device=device, iteration_range=iteration_range)
    if priced is None:
        priced = _of_ranges(alignment)
    return analyse_measured(
        priced,
        source,
        _measured(trace, alignment, times, planned=given is not None),
        ceilings,
        spec,
        model=model,
        files=files,
        clock_mhz=clock_mhz,
    )


def _of_ranges(alignment: TraceAlignment) -> PricedPlan:
    """Layers that are known by the names of their NVTX ranges alone, so that nothing is known of their work."""
    plan = Plan(
        era="the NVTX ranges of the capture",
        layers=tuple(matched.layer for matched in alignment.layers),
        notes=("no layer information was given: the layers are NVTX ranges, and their work is not known",),
    )
    priced = price_plan(plan)
    costs = tuple(cost._replace(work=None, reason="an NVTX range does not tell its work") for cost in priced.costs)
    document = msgspec.structs.replace(priced.document, works=(None,) * len(costs))
    return priced._replace(costs=costs, document=document)


def _measured(trace: GpuTrace, alignment: TraceAlignment, times: InferenceTimes | None, *, planned: bool) -> Measured:
    kept = alignment.iterations[alignment.iterations["kept"]]
    spans = [int(value) for value in kept["end_ns"] - kept["start_ns"]]
    profiled = _spread(spans) if spans else _whole(alignment)
    latency, around = profiled, Around()
    if times is not None and times.latency_ns:
        latency, around, _ = latency_of(times, 0)
    medians = {
        name: _median(kept[name]) for name in ("copy_ns", "overlap_ns", "gap_inside_ns", "gap_between_ns")
    }  # fmt: skip
    around = around._replace(
        copies_ns=medians["copy_ns"],
        overlap_ns=medians["overlap_ns"],
        gaps_inside_ns=medians["gap_inside_ns"],
        gaps_between_ns=medians["gap_between_ns"],
        captured=True,
    )
    return Measured(
        layers_ns=[
            ns if matches else None for ns, matches in zip(alignment.per_iteration_ns, alignment.matches, strict=True)
        ],
        kernels=alignment.matches,
        latency=latency,
        profiled=profiled,
        around=around,
        # Of NVTX ranges alone nothing leads on to nodes: how surely kernels were led to the ranges is what counts.
        coverage=alignment.node_coverage if planned else alignment.coverage,
        captured_ns=alignment.captured_ns,
        unattributed=alignment.unattributed,
        unattributed_ns=_unattributed(trace, alignment),
        gap_ns=medians["gap_inside_ns"] + medians["gap_between_ns"],
        enqueue_ns=alignment.launching.host_ns,
        end_to_end=times is not None,
        lacking=tuple(_lacking(alignment, times, planned=planned)),
        notes=(*trace.notes, *_facts(alignment), *alignment.notes),
        versions={trace.collector: trace.version} if trace.version else {},
    )


def _median(values: Iterable[int]) -> int:
    found = [int(value) for value in values]
    return round(statistics.median(found)) if found else 0


def _spread(spans: list[int]) -> Latency:
    """Latency of inferences as captured, from the first work on the GPU to the last."""
    ordered = sorted(spans)
    mean = statistics.fmean(ordered)
    return Latency(
        median_ns=_median(ordered),
        p99_ns=ordered[max(-(-99 * len(ordered) // 100) - 1, 0)],
        cv=statistics.pstdev(ordered) / mean if mean else 0.0,
        n=len(ordered),
        mean_ns=round(mean),
        min_ns=ordered[0],
        max_ns=ordered[-1],
    )


def _whole(alignment: TraceAlignment) -> Latency:
    """Where no inference can be told from another, all of the capture is taken for one."""
    return Latency(median_ns=alignment.busy_ns, p99_ns=alignment.busy_ns, cv=0.0, n=0)


def _unattributed(trace: GpuTrace, alignment: TraceAlignment) -> int:
    """Time of kernels of no layer in one inference: the median over those that were kept."""
    work = alignment.work
    rows: pd.Series[bool] = work["counted"] & (work["layer"] < 0)
    duration = (trace.work["end_ns"] - trace.work["start_ns"])[rows.to_numpy()]
    kept = alignment.iterations.index[alignment.iterations["kept"]]
    if not len(kept):
        return int(duration.sum())
    sums = duration.groupby(work["iteration"][rows].to_numpy()).sum()
    return _median(sums.reindex(kept, fill_value=0))


def _lacking(alignment: TraceAlignment, times: InferenceTimes | None, *, planned: bool) -> Iterable[tuple[str, str]]:
    """What makes the result less sure: in a few words for the verdict, and in a sentence."""
    if not planned:
        yield "no layer information", "without layer information (--layers) nothing is known of the work of a layer"
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
        yield (
            f"a launch takes the host {format_ns(launching.call_ns)}, and the kernel starts "
            f"{format_ns(launching.queue_ns)} after it (median; 90 % within {format_ns(launching.queue_p90_ns)}); "
            f"enqueuing an inference takes {format_ns(launching.host_ns)}"
        )
    for transfer in alignment.transfers:
        moved = format_bytes(transfer.bytes)
        yield f"{transfer.name}: {transfer.number} of {moved} in all, {format_ns(transfer.total_ns)}"
