"""The ledger: from what the work needs to the measured latency, row by row; the rows sum to it to the nanosecond."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Literal, NamedTuple

from trtprof.base.records import Ceilings, Estimate, Latency, LayerResult, LedgerRow
from trtprof.base.units import format_percent


class Row(NamedTuple):
    """A row and what it means: of a run on the CPU, and where that differs of a profile of layers and of a capture."""

    cause: str
    kind: Literal["fact", "estimate", "remainder"]
    cpu: str
    plan: str = ""
    trace: str = ""
    outside: bool = False  # no time of layers


ROWS = (
    Row(
        "ideal",
        "estimate",
        "the work at the best ceilings of this device",
        "the work at the best peaks of the datasheet",
    ),
    Row(
        "ceiling",
        "estimate",
        "the ceilings as measured for this run: its threads, and DRAM where the cache is too small",
        "the peaks as asked for: accumulator and ceilings set by hand, and DRAM where the L2 is too small",
    ),
    Row(
        "launch overhead",
        "estimate",
        "layers shorter than an empty kernel takes here",
        "layers shorter than an empty kernel takes on this GPU",
    ),
    Row(
        "layout conversions",
        "fact",
        "layers that only reorder or cast for the backend",
        "reformats, casts and copies that the engine makes for its own layers",
    ),
    Row("waits and shapes", "fact", "layers that wait for other streams, or work out shapes"),
    Row(
        "what good kernels do not reach either",
        "estimate",
        "what good library kernels are expected to take (p50), less what is attainable: no more than was lost",
    ),
    Row(
        "slower than good kernels",
        "estimate",
        "kernels measured, less what good library kernels are expected to take",
        "layers as profiled, less what good library kernels are expected to take",
        "kernels as captured, less what good library kernels are expected to take",
    ),
    Row(
        "kernel inefficiency",
        "estimate",
        "kernels measured, less what is attainable",
        "layers as profiled, less what is attainable",
        "kernels as captured, less what is attainable",
    ),
    Row(
        "kernels without a price",
        "fact",
        "kernels whose work is not known, or that have no layer",
        "what layers took beyond the part of their work that is known",
        "kernels of no layer, and what layers took beyond the part of their work that is known",
    ),
    Row(
        "medians not adding up",
        "fact",
        "all kernels of an inference, in the median, less the sum of the medians of "
        "layers: other layers are slow in each inference",
    ),
    Row("host call", "estimate", "an inference call around an all but empty graph", outside=True),
    Row("copies to the GPU", "fact", "inputs, before the first kernel", outside=True),
    Row("copies from the GPU", "fact", "outputs, after the last kernel", outside=True),
    Row("other copies", "fact", "copies and memsets of no layer, while nothing else ran", outside=True),
    Row("overlap of streams", "fact", "kernels that ran beside others, on another stream"),
    Row(
        "gaps inside layers",
        "fact",
        "nothing ran, between two kernels of one layer that were both launched",
        outside=True,
    ),
    Row(
        "gaps between layers",
        "fact",
        "nothing ran, between the kernels of two layers that were both launched: what a launch takes",
        outside=True,
    ),
    Row(
        "waiting for the host",
        "fact",
        "nothing ran, because the host had not launched the next kernel yet",
        outside=True,
    ),
    Row(
        "unexplained",
        "remainder",
        "gaps between kernels, and what changed between the measurement without the profiler and that with it",
        "GPU time of an inference less the sum of its layers: below 0 where streams overlap, and by the time that "
        "the profiler adds, which runs the layers one after the other; above 0 for gaps between kernels",
        "what the medians of the rows above leave of the median of the whole, and what the profiler changed",
        outside=True,
    ),
)
(
    IDEAL,
    CEILING,
    LAUNCH,
    LAYOUT,
    IDLE,
    UNREACHED,
    SLOWER,
    INEFFICIENCY,
    UNPRICED,
    ADDING,
    HOST,
    TO_DEVICE,
    FROM_DEVICE,
    COPIES,
    OVERLAP,
    GAPS_INSIDE,
    GAPS_BETWEEN,
    WAITING,
    UNEXPLAINED,
) = (row.cause for row in ROWS)
OUTSIDE = tuple(row.cause for row in ROWS if row.outside)
IDLE_ROLES = ("shape", "sync", "idle")  # of layers that launch no work of the model


class Overheads(NamedTuple):
    """Latency outside of the layers of an engine on a GPU, ns of one inference; ``captured`` where a capture tells."""

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
    """Rows from ideal to the measured median, which they sum to exactly.

    ``overheads`` is None where the latency holds the host's call. Of ``partial`` layers only a part of the work is
    known. ``adding_ns`` is what all kernels take in the median, less the sum of the medians of layers.
    """
    ns: Counter[str] = Counter({UNPRICED: unattributed_ns, ADDING: adding_ns})
    for layer in layers:
        estimate = estimates.get(layer.name)
        needless = LAYOUT if layer.role == "layout" else IDLE if layer.role in IDLE_ROLES else ""
        if needless or estimate is None:
            ns[needless or UNPRICED] += layer.measured_ns
            continue
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
        ns[HOST] = min(round(ceilings.call_ns), latency.headline_ns)
    else:
        ns.update(
            dict(
                zip(
                    (TO_DEVICE, FROM_DEVICE, COPIES, OVERLAP, GAPS_INSIDE, GAPS_BETWEEN, WAITING),
                    overheads._replace(overlap_ns=-overheads.overlap_ns)[:-1],
                    strict=True,
                )
            )
        )
    ns[UNEXPLAINED] = latency.headline_ns - sum(ns.values())
    known = sum(layer.measured_ns for layer in layers if layer.firm)
    whole = sum(layer.measured_ns for layer in layers)
    more = {}
    if ns[UNREACHED] or ns[SLOWER]:
        share = format_percent(known / whole) if whole else "all"
        more = {
            UNREACHED: f"; of the layers with an expectation, {share} of the time",
            INEFFICIENCY: ", of layers without an expectation, or faster than the estimate",
        }

    def meaning(row: Row) -> str:
        if overheads is None:
            return row.cpu
        return (overheads.captured and row.trace) or row.plan or row.cpu

    return tuple(
        LedgerRow(
            cause=row.cause,
            ns=ns[row.cause],
            kind="estimate" if row.cause == UNPRICED and partial else row.kind,
            meaning=meaning(row) + more.get(row.cause, ""),
        )
        for row in ROWS
        if ns[row.cause] or row.cause in (IDEAL, INEFFICIENCY, UNEXPLAINED)
    )
