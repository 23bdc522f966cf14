"""A comparison in one or two sentences."""

from __future__ import annotations

from collections.abc import Sequence

from trtprof.base.records import ChangeRow, LatencyChange, RegionChange, Side, cause_name
from trtprof.base.units import format_ns, format_percent

_LEAST = 0.2  # A cause is named where it makes up so much of the difference


def verdict_of(
    before: Side, after: Side, latency: LatencyChange, ledger: Sequence[ChangeRow], regions: Sequence[RegionChange]
) -> str:
    """What became of the latency, how sure that is, and the first cause."""
    change = latency.difference_ns
    medians = f"{format_ns(before.latency.median_ns)} to {format_ns(after.latency.median_ns)}"
    if not latency.samples_before or not latency.samples_after:
        return f"{medians} ({_signed(change.value)}): {latency.reason}"
    told = latency.telling_ratio
    ends = f"{_percent(told.low - 1)} to {_percent(told.high - 1)}"
    by = f", by the lower decile {_percent(told.value - 1)}" if latency.told_by == "lower decile" else ""
    what = "no significant change" if latency.answer == "not significant" else latency.answer
    head = f"{what}: {medians}, {_percent(latency.ratio.value - 1)}{by} ({ends})"
    if latency.answer == "not significant":
        return head
    cause = _first_cause(change.value, ledger, regions)
    return f"{head}; {cause}" if cause else f"{head}; no single cause stands out"


def _first_cause(difference: float, ledger: Sequence[ChangeRow], regions: Sequence[RegionChange]) -> str:
    row = max(ledger, key=lambda one: one.ns * (1 if difference > 0 else -1), default=None)
    if row is None or row.ns * difference <= 0 or abs(row.ns) < _LEAST * abs(difference):
        return ""
    if row.cause == "unexplained":
        return f"{_signed(row.ns)} of it is unexplained: the profiled run does not show it"
    about = "~" if row.kind == "estimate" else ""
    text = f"mostly {cause_name(row.cause)} ({about}{_signed(row.ns)})"
    largest = max(regions, key=lambda one: abs(one.parts.get(row.cause, 0)), default=None)
    if largest is not None and abs(largest.parts.get(row.cause, 0)) >= _LEAST * abs(row.ns):
        text += f", first in {largest.name}"
        if largest.reason:
            text += f": {largest.reason}"
    return text


def _signed(ns: float) -> str:
    return f"+{format_ns(ns)}" if ns > 0 else format_ns(ns)


def _percent(share: float) -> str:
    return f"+{format_percent(share)}" if share > 0 else format_percent(share)
