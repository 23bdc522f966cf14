"""The ledger: from what the work needs to the latency that was measured, row by row.

The rows always sum to the end-to-end latency measured without the profiler, to the nanosecond:
what has no name is the row ``unexplained``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Literal, NamedTuple

from trtprof.base.records import Ceilings, Estimate, Latency, LayerResult, LedgerRow
from trtprof.base.units import format_percent

IDEAL = "ideal"
CEILING = "ceiling"
LAUNCH = "launch overhead"
LAYOUT = "layout conversions"
IDLE = "waits and shapes"
UNREACHED = "what good kernels do not reach either"
SLOWER = "slower than good kernels"
INEFFICIENCY = "kernel inefficiency"
UNPRICED = "kernels without a price"
ADDING = "medians not adding up"
HOST = "host call"
TO_DEVICE = "copies to the GPU"
FROM_DEVICE = "copies from the GPU"
COPIES = "other copies"
OVERLAP = "overlap of streams"
GAPS_INSIDE = "gaps inside layers"
GAPS_BETWEEN = "gaps between layers"
WAITING = "waiting for the host"
UNEXPLAINED = "unexplained"

OUTSIDE = (HOST, TO_DEVICE, FROM_DEVICE, COPIES, GAPS_INSIDE, GAPS_BETWEEN, WAITING, UNEXPLAINED)
"""Rows that are no time of layers."""

IDLE_ROLES = ("shape", "sync", "idle")
"""Roles of layers that launch no work of the model (`records.PlanRole`)."""

_MEANING = {
    IDEAL: "the work at the best ceilings of this device",
    CEILING: "the ceilings as measured for this run: its threads, and DRAM where the cache is too small",
    LAUNCH: "layers shorter than an empty kernel takes here",
    LAYOUT: "layers that only reorder or cast for the backend",
    IDLE: "layers that wait for other streams, or work out shapes",
    UNREACHED: "what good library kernels are expected to take (p50), less what is attainable: no more than was lost",
    SLOWER: "kernels measured, less what good library kernels are expected to take",
    INEFFICIENCY: "kernels measured, less what is attainable",
    UNPRICED: "kernels whose work is not known, or that have no layer",
    ADDING: (
        "all kernels of an inference, in the median, less the sum of the medians of layers: other layers are slow in "
        "each inference"
    ),
    HOST: "an inference call around an all but empty graph",
    TO_DEVICE: "inputs, before the first kernel",
    FROM_DEVICE: "outputs, after the last kernel",
    COPIES: "copies and memsets of no layer, while nothing else ran",
    OVERLAP: "kernels that ran beside others, on another stream",
    GAPS_INSIDE: "nothing ran, between two kernels of one layer that were both launched",
    GAPS_BETWEEN: "nothing ran, between the kernels of two layers that were both launched: what a launch takes",
    WAITING: "nothing ran, because the host had not launched the next kernel yet",
    UNEXPLAINED: "gaps between kernels, and what changed between the measurement without the profiler and that with it",
}
_MEANING_OF_PLAN = _MEANING | {
    IDEAL: "the work at the best peaks of the datasheet",
    CEILING: "the peaks as asked for: accumulator and ceilings set by hand, and DRAM where the L2 is too small",
    LAUNCH: "layers shorter than an empty kernel takes on this GPU",
    LAYOUT: "reformats, casts and copies that the engine makes for its own layers",
    SLOWER: "layers as profiled, less what good library kernels are expected to take",
    INEFFICIENCY: "layers as profiled, less what is attainable",
    UNPRICED: "what layers took beyond the part of their work that is known",
    UNEXPLAINED: (
        "GPU time of an inference less the sum of its layers: below 0 where streams overlap, and by the time that "
        "the profiler adds, which runs the layers one after the other; above 0 for gaps between kernels"
    ),
}


_MEANING_OF_TRACE = _MEANING_OF_PLAN | {
    SLOWER: "kernels as captured, less what good library kernels are expected to take",
    INEFFICIENCY: "kernels as captured, less what is attainable",
    UNPRICED: "kernels of no layer, and what layers took beyond the part of their work that is known",
    UNEXPLAINED: "what the medians of the rows above leave of the median of the whole, and what the profiler changed",
}


class Overheads(NamedTuple):
    """What is known of the latency outside of the layers of an engine on a GPU, in ns of one inference.

    A capture tells the rest, and ``captured`` says that it is one.
    """

    to_device_ns: int = 0
    from_device_ns: int = 0
    copies_ns: int = 0
    overlap_ns: int = 0
    gaps_inside_ns: int = 0
    gaps_between_ns: int = 0
    waiting_ns: int = 0
    captured: bool = False


def build_ledger(
    layers: Sequence[LayerResult],
    estimates: Mapping[str, Estimate | None],
    latency: Latency,
    ceilings: Ceilings,
    unattributed_ns: int = 0,
    *,
    overheads: Overheads | None = None,
    partial: Collection[str] = (),
    adding_ns: int = 0,
) -> tuple[LedgerRow, ...]:
    """Rows from ideal to the measured median.

    Args:
        layers: Layers with their measured and expected times in ns. Without one that is firm what a layer lost is not
            split into what good kernels do not reach either and what it is slower than they are.
        estimates: Estimate by layer name; None where the work is unknown.
        overheads: Of an engine on a GPU: what lies outside of its layers; None where the latency holds the host's call.
        adding_ns: What all kernels of an inference take in the median, less the sum of the medians of layers.

    Returns:
        Rows whose ``ns`` sum to ``latency.median_ns`` exactly.
    """
    ns: dict[str, int] = defaultdict(int, {UNPRICED: unattributed_ns, ADDING: adding_ns})
    for layer in layers:
        estimate = estimates.get(layer.name)
        if layer.role == "layout":
            ns[LAYOUT] += layer.measured_ns
        elif layer.role in IDLE_ROLES:
            ns[IDLE] += layer.measured_ns
        elif estimate is None:
            ns[UNPRICED] += layer.measured_ns
        else:
            ns[IDEAL] += estimate.ideal_ns
            ns[CEILING] += estimate.roofline_ns - estimate.ideal_ns
            ns[LAUNCH] += estimate.attainable_ns - estimate.roofline_ns
            lost = layer.measured_ns - estimate.attainable_ns
            if layer.name in partial or not layer.firm or lost <= 0:
                ns[UNPRICED if layer.name in partial else INEFFICIENCY] += lost
            else:
                unreached = min(max((layer.expected_ns or 0) - estimate.attainable_ns, 0), lost)
                ns[UNREACHED] += unreached
                ns[SLOWER] += lost - unreached
    if overheads is None:
        ns[HOST] = min(round(ceilings.call_ns), latency.median_ns)
    else:
        ns.update({
            TO_DEVICE: overheads.to_device_ns, FROM_DEVICE: overheads.from_device_ns, COPIES: overheads.copies_ns,
            OVERLAP: -overheads.overlap_ns, WAITING: overheads.waiting_ns,
            GAPS_INSIDE: overheads.gaps_inside_ns, GAPS_BETWEEN: overheads.gaps_between_ns,
        })  # fmt: skip
    ns[UNEXPLAINED] = latency.median_ns - sum(ns.values())
    meaning = _MEANING if overheads is None else _MEANING_OF_TRACE if overheads.captured else _MEANING_OF_PLAN
    if ns[UNREACHED] or ns[SLOWER]:
        meaning = meaning | _split(layers, meaning)
    estimated = {IDEAL, CEILING, LAUNCH, UNREACHED, SLOWER, INEFFICIENCY, HOST} | ({UNPRICED} if partial else set())

    def kind(cause: str) -> Literal["fact", "estimate", "remainder"]:
        return "remainder" if cause == UNEXPLAINED else "estimate" if cause in estimated else "fact"

    return tuple(
        LedgerRow(cause=cause, ns=ns[cause], kind=kind(cause), meaning=meaning[cause])
        for cause in _MEANING
        if ns[cause] or cause in (IDEAL, INEFFICIENCY, UNEXPLAINED)
    )


def _split(layers: Sequence[LayerResult], meaning: Mapping[str, str]) -> dict[str, str]:
    """What the rows mean where some layers have an expectation: of how much of the time of all."""
    whole = sum(layer.measured_ns for layer in layers)
    known = sum(layer.measured_ns for layer in layers if layer.firm)
    share = format_percent(known / whole) if whole else "all"
    return {
        UNREACHED: f"{meaning[UNREACHED]}; of the layers with an expectation, {share} of the time",
        INEFFICIENCY: f"{meaning[INEFFICIENCY]}, of layers without an expectation, or faster than the estimate",
    }
