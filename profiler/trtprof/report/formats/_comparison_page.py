"""A comparison as one page: it needs no network and runs no script.

Names come from files by others. They are escaped, stand in ``<bdi>``, and a content security policy allows exactly
the two style sheets of the page, by their digests, and no request at all.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from trtprof.base import units
from trtprof.base.records import ChangeRow, Comparison, Comparisons, Interval, cause_name
from trtprof.report._format import KIND_WORDS, count, plain, seen
from trtprof.report._templates import asset, digest, environment
from trtprof.report.content import _comparison as words

PARTS = 300  # Rows of the table of parts: a page of more is slow to open. The JSON document has all.
LIST = 100  # Rows of the other lists
TICKS = 5
_MARGIN = 0.06  # Of the axis, on each side of what is drawn


def render(found: Comparisons) -> str:
    """The page."""
    from markupsafe import Markup

    plain(found)  # what no JSON can hold is told before anything is written
    templates = environment()
    templates.filters.update(ns=units.format_ns, count=count, signed_ns=words.signed_ns, cause=cause_name, seen=seen)
    styles = [asset("app.css"), asset("comparison.css")]
    return templates.get_template("comparison.html.jinja").render(
        views=[_View(one, at, len(found.comparisons)) for at, one in enumerate(found.comparisons, 1)],
        styles=[Markup(style) for style in styles],  # noqa: S704 - our own files
        digests=[digest(style) for style in styles],
        words=words,
        kind_words=KIND_WORDS,
        list_rows=LIST,
    )


class _View:
    """A comparison and all that its part of the page draws.

    Attributes:
        one: The comparison.
        id: What the names of its places on the page begin with.
        regions: The parts of the model that are shown; ``rest`` is what the others sum to, in ns.
    """

    def __init__(self, one: Comparison, at: int, of: int) -> None:
        self.one = one
        self.id = f"c{at}-" if of > 1 else ""
        self.number = f"{at} of {of}" if of > 1 else ""
        self.headline = words.headline(one)
        self.allowed = words.roof_words(one)
        self.of_roof = words.of_roof_words(one)
        self.lost = words.lost_words(one)
        self.kinds = words.kinds(one)
        self.gap_ns = words.ledger_gap_ns(one)
        self.total_ns = sum(row.ns for row in one.ledger)
        drawn = words.waterfall(one.ledger)
        self.bars = [_bar(step.row, step.start, step.end, step.row.kind, step.row.ns) for step in drawn.steps]
        self.zero = 100 * drawn.zero
        self.total = _bar(None, drawn.zero, drawn.end, "fact", self.total_ns)
        self.regions = one.regions[:PARTS]
        self.rest = one.regions[PARTS:]
        self.rest_ns = sum(part.difference_ns for part in self.rest)
        self.largest_ns = max((abs(part.difference_ns) for part in self.regions), default=0)
        self.axis = _axis(one) if self.headline else None


class _Bar(NamedTuple):
    """A step of the waterfall: percentages of the drawing, with its kind and direction as a class."""

    row: ChangeRow | None
    left: float
    width: float
    end: float
    style: str


def _bar(row: ChangeRow | None, start: float, end: float, kind: str, ns: float) -> _Bar:
    direction = "more" if ns > 0 else "less" if ns < 0 else ""
    return _Bar(row, 100 * min(start, end), 100 * abs(end - start), 100 * end, f"d-{kind} {direction}")


class _Axis(NamedTuple):
    """The latencies of both sides on one axis; all places are percentages of it."""

    ticks: tuple[tuple[float, str], ...]
    before: float
    after: float
    runs_before: tuple[float, ...]
    runs_after: tuple[float, ...]
    low: float
    high: float


def _axis(one: Comparison) -> _Axis:
    before, after = one.before.latency.headline_ns, one.after.latency.headline_ns
    change: Interval = one.latency.difference_ns
    low, high = before + change.low, before + change.high
    drawn = [before, after, *one.before.medians_ns, *one.after.medians_ns, low, high]
    start, end = min(drawn), max(drawn)
    # A change of nothing with no width is still drawn somewhere.
    span = (end - start) or max(abs(start) * 0.01, 1.0)
    start, end = start - _MARGIN * span, end + _MARGIN * span

    def at(ns: float) -> float:
        return 100 * (ns - start) / (end - start)

    return _Axis(
        ticks=tuple((at(ns), label) for ns, label in _ticks(start, end)),
        before=at(before),
        after=at(after),
        runs_before=tuple(map(at, sorted(one.before.medians_ns))),
        runs_after=tuple(map(at, sorted(one.after.medians_ns))),
        low=at(low),
        high=at(high),
    )


def _ticks(start: float, end: float) -> list[tuple[float, str]]:
    """Round numbers between two times, in ns, with labels that tell them apart."""
    raw = (end - start) / TICKS
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw)
    factor, unit = next(
        pair for pair in ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")) if end >= pair[0] or pair[0] == 1
    )
    digits = max(0, math.ceil(math.log10(factor / step) - 1e-9))
    first = math.ceil(start / step)
    return [(at * step, f"{at * step / factor:.{digits}f} {unit}") for at in range(first, math.floor(end / step) + 1)]
