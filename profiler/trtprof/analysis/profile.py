"""Evidence from files that trtexec exports: times of layers, and of whole inferences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trtprof.analysis.evidence import Evidence, Lack, latency_and_copies
from trtprof.analysis.plan import PricedPlan
from trtprof.base.errors import UsageError
from trtprof.base.latency import median_ns
from trtprof.base.records import InferenceTimes, Latency, LayerTime, LayerTimes, Match, MatchedLayer, Plan
from trtprof.engine.profile_files import join_profile

EVENT_STEP_NS = 500
"""Resolution of the events that layers are timed with: about 0.5 us (CUDA Runtime API, cudaEventElapsedTime)."""


def evidence_of_profile(engine: PricedPlan, profile: LayerTimes, times: InferenceTimes | None) -> Evidence:
    """Times of layers, which sum to the profile's to the ns; without ``times`` the latency is their sum."""
    layers = engine.document.layers
    plan = Plan(era=engine.document.facts.era, layers=tuple(matched.layer for matched in layers))
    joined, notes = join_profile(plan, profile)
    measured = [None if time is None or not (_time(time) or time.total_ns) else _time(time) for time in joined]
    if not any(measured):
        raise UsageError(
            "no layer took any time", why="all times of the profile are 0", fix="measure and export the profile again"
        )
    layers_ns = sum(ns or 0 for ns in measured)
    latency, copies, compute_ns = latency_and_copies(times, layers_ns)
    mean = sum(layer.average_ns for layer in profile.layers)
    return Evidence(
        engine=engine,
        layers_ns=measured,
        kernels=[_tactic(matched, ns) for matched, ns in zip(layers, measured, strict=True)],
        latency=latency,
        profiled=Latency(median_ns=layers_ns, p99_ns=layers_ns, cv=0.0, n=profile.iterations, mean_ns=mean),
        overheads=copies,
        captured_ns=layers_ns,
        resolution_ns=EVENT_STEP_NS,
        # Averages add up, medians do not: what either leaves of an inference may be a gap.
        gap_ns=max(compute_ns - max(layers_ns, mean), 0),
        enqueue_ns=median_ns(times.enqueue_ns) if times is not None else 0,
        end_to_end=times is not None,
        lacking=tuple(_lacking(profile, times, joined)),
        notes=(*_parallel(layers), *_summarised(times), *profile.notes, *notes),
    )


def _time(time: LayerTime) -> int:
    return time.average_ns if time.median_ns is None else time.median_ns


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


def _lacking(profile: LayerTimes, times: InferenceTimes | None, joined: Sequence[LayerTime | None]) -> Iterable[Lack]:
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


def _summarised(times: InferenceTimes | None) -> Iterable[str]:
    if times is not None and times.summary is not None:
        yield (
            f"the latency is trtexec's own summary of {times.summary.n:,} inferences: median and percentiles, and "
            "nothing of its spread"
        )


def _parallel(layers: Sequence[MatchedLayer]) -> Iterable[str]:
    streams = {matched.layer.stream for matched in layers if matched.layer.stream is not None}
    if len(streams) > 1:
        yield (
            f"layers lie on {len(streams)} streams and may overlap: the profiler runs them one after the other, "
            "and so does the ledger"
        )
