"""A comparison in one or two sentences."""

from __future__ import annotations

from collections.abc import Sequence

from trtprof.base.records import ChangeRow, FactChange, LatencyChange, RegionChange, Side, cause_name
from trtprof.base.units import format_ns, format_percent

_LEAST = 0.2  # A cause is named where it makes up so much of the difference


def verdict_of(
    before: Side, after: Side, latency: LatencyChange, ledger: Sequence[ChangeRow], regions: Sequence[RegionChange],
    facts: Sequence[FactChange] = (), *, undecided: bool = False,
) -> str:  # fmt: skip
    """What became of the latency, how sure that is, and the first cause."""
    change = latency.difference_ns
    medians = f"{format_ns(before.latency.headline_ns)} to {format_ns(after.latency.headline_ns)}"
    if undecided:
        return f"undecided: {medians}: {latency.reason}"
    if not latency.samples_before or not latency.samples_after:
        return f"{medians} ({_signed(change.value)}): {latency.reason}"
    ends = f"{_percent(latency.ratio.low - 1)} to {_percent(latency.ratio.high - 1)}"
    what = "no significant change" if latency.answer == "not significant" else latency.answer
    head = f"{what}: {medians}, {_percent(latency.ratio.value - 1)} ({ends})"
    if latency.answer == "not significant":
        return head
    cause = only_change(facts) or _first_cause(change.value, ledger, regions)
    return f"{head}; {cause}" if cause else f"{head}; no single cause stands out"


_NO_CHANGE = ("ceilings", "clock", "sessionOption")  # Facts that say nothing, or the same as another one


def only_change(facts: Sequence[FactChange]) -> str:
    """The one option that is not the same on both sides, in words; empty where there are others, or other facts."""
    changed: dict[str, FactChange] = {}
    for fact in facts:
        name = fact.what.removeprefix("backend ").removeprefix("option ")
        if name not in _NO_CHANGE:
            changed.setdefault("threads" if name == "intra_op_threads" else name, fact)
    if len(changed) != 1:
        return ""
    (name, fact), *_ = changed.items()
    if name != "threads" and "option " not in fact.what:
        return ""
    value = f"={fact.after}" if fact.after != "none" else f", no longer {fact.before}"
    return f"the only thing that changed is {name}{value}"


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
