"""A comparison of fleets as one page: it needs no network and runs no script, as that of two runs.

Names come from files by others. They are escaped, stand in ``<bdi>``, and a content security policy allows exactly the
style sheets of the page, by their digests, and no request at all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from trtprof.base.records import FleetCellChange, FleetComparison, FleetGroupChange
from trtprof.report._format import count, seen
from trtprof.report._templates import asset, digest, environment
from trtprof.report.content import _comparison
from trtprof.report.content import _fleet_comparison as words

ROWS = 200  # Rows of a list: a page of more is slow to open. The JSON document has all.
_MARGIN = 0.06  # Of the axis, on each side of what is drawn
_STEPS = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Distances between ticks, as growths."""
_TICKS = 7
_FAR = 4.0  # From this ratio of both ends on equal distances crowd at one of them


def render(found: FleetComparison) -> str:
    """The page."""
    from markupsafe import Markup

    templates = environment()
    templates.filters.update(count=count, signed_ns=_comparison.signed_ns, number="{:,}".format, seen=seen)
    styles = [asset(name) for name in ("app.css", "comparison.css", "fleet_comparison.css")]
    others = words.of_answer(found.cells, *words.GONE)
    lists = [
        _List("slower", "Slower beyond noise", words.of_answer(found.cells, "slower")),
        _List("faster", "Faster beyond noise", words.of_answer(found.cells, "faster")),
        _List("estimates", "Estimates that moved", words.of_answer(found.cells, "estimate rose", "estimate fell")),
    ]
    return templates.get_template("fleet_comparison.html.jinja").render(
        one=found,
        lists=[each for each in lists if each.number],
        others=others[:ROWS],
        others_number=len(others),
        groups=[
            _Group(by, title, words.groups(found, by))
            for by, title in (("target", "By target"), ("tag", "By tag"), ("model", "By model"))
        ],
        mean=words.mean(found, "fact"),
        estimated=words.mean(found, "estimate"),
        measured=words.counted(found, ("slower", "faster", "not significant")),
        estimates=words.counted(found, ("estimate rose", "estimate fell", "estimate equal")),
        gone=words.counted(found, words.GONE),
        styles=[Markup(style) for style in styles],  # noqa: S704 - our own files
        digests=[digest(style) for style in styles],
        words=words,
        rows=ROWS,
    )


class _Line(NamedTuple):
    """A ratio as drawn: places are percentages of the axis."""

    of: Any  # What it is of
    at: float  # The ratio
    low: float  # Of its interval; that is the ratio itself of what has none
    high: float  # Of its interval
    style: str  # How it is drawn: slower, faster, unsure or an estimate


class _Axis(NamedTuple):
    """Ratios on one axis of logarithms; ``zero`` is no change."""

    lines: tuple[_Line, ...]
    zero: float
    ticks: tuple[tuple[float, str], ...]


class _List:
    """Cells of an answer: those that are drawn, and how many there are."""

    def __init__(self, id_: str, title: str, cells: Sequence[FleetCellChange]) -> None:
        self.id, self.title, self.number = id_, title, len(cells)
        self.axis = _axis(cells[:ROWS])


class _Group:
    """Cells taken together, by what they have in common."""

    def __init__(self, by: str, title: str, groups: Sequence[FleetGroupChange]) -> None:
        self.id, self.title, self.number = f"by-{by}", title, len(groups)
        self.axis = _axis(groups[:ROWS])


def _axis(items: Sequence[Any]) -> _Axis:
    ends = [_log(end) for each in items for end in (each.ratio, each.low, each.high) if end]
    low, high = min([0.0, *ends]), max([0.0, *ends])
    span = (high - low) or 0.01
    low, high = low - _MARGIN * span, high + _MARGIN * span

    def at(log: float) -> float:
        return 100 * (log - low) / (high - low)

    lines = [
        _Line(
            each,
            at(_log(each.ratio)),
            at(_log(each.low or each.ratio)),
            at(_log(each.high or each.ratio)),
            _style(each),
        )
        for each in items
    ]
    ticks = [(at(_log(ratio)), _growth(ratio)) for ratio in _ticks(math.exp(low), math.exp(high))]
    return _Axis(tuple(lines), at(0.0), tuple(ticks))


def _log(ratio: float | None) -> float:
    return math.log(ratio) if ratio else 0.0


def _ticks(low: float, high: float) -> list[float]:
    """Round ratios between two, no change among them; where they are far apart 1, 2, 5 of each power of ten."""
    if high / low > _FAR:
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        found = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
        inside = [ratio for ratio in found if low <= ratio <= high]
        return inside if len(inside) <= _TICKS else [1.0, *(10.0**power for power in powers if power)]
    step = next((step for step in _STEPS if (high - low) / step <= _TICKS), _STEPS[-1])
    return [1 + place * step for place in range(math.ceil((low - 1) / step), math.floor((high - 1) / step) + 1)]


def _growth(ratio: float) -> str:
    growth = 100 * (ratio - 1)
    if abs(growth) < 1e-9:
        return "0 %"
    digits = 0 if abs(growth) >= 10 else 1 if abs(growth) >= 0.1 else 2
    return f"{growth:+,.{digits}f} %"


def _style(item: Any) -> str:
    if item.low is None or item.high is None:
        return "estimate"
    if item.low > 1:
        return "slower"
    return "faster" if item.high < 1 else "unsure"
