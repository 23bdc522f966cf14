"""What the reporters of a comparison of fleets share: changes and times in words, cells by answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trtprof.base import records
from trtprof.report._format import count
from trtprof.report.content import _comparison as words

GONE: tuple[records.FleetOutcome, ...] = (
    "failed now", "vanished", "mended", "appeared", "not answered", "not decided", "failed on both",
)  # fmt: skip
"""Answers that are no change of a number."""
WORSE: tuple[records.FleetOutcome, ...] = ("slower", "failed now", "vanished")
BETTER: tuple[records.FleetOutcome, ...] = ("faster", "mended")
_QUANTITIES = {"latency": "", "expected": "~", "bound": ">= "}  # Before a time: measured, to be expected, or a bound


def of_answer(
    cells: Sequence[records.FleetCellChange], *answers: records.FleetOutcome
) -> list[records.FleetCellChange]:
    """Those with one of some answers, as they come."""
    return [cell for cell in cells if cell.answer in answers]


def percent(ratio: float | None, low: float | None = None, high: float | None = None) -> str:
    """A ratio as a change, with as many digits as its interval leaves meaning: ``+4.1 %``; an estimate: ``~+4.1 %``."""
    if ratio is None:
        return "-"
    if low is None or high is None:
        return f"~{words.signed(100 * (ratio - 1))} %"
    return words.ratio_percent(records.Interval(value=ratio, low=low, high=high))[0]


def interval(ratio: float | None, low: float | None, high: float | None) -> str:
    """Its interval in words: ``+3.2 to +5.0 %``; empty of what has none."""
    if ratio is None or low is None or high is None:
        return ""
    return words.ratio_percent(records.Interval(value=ratio, low=low, high=high))[1]


def times(cell: records.FleetCellChange) -> tuple[str, str]:
    """Before and after: ``3.21 ms``, ``~3.34 ms`` of what is expected, ``>= 3.34 ms`` of a bound."""
    if cell.before_ns is None or cell.after_ns is None or cell.told_by is None:
        return "-", "-"
    mark = _QUANTITIES[cell.told_by]
    first, second = words.pair_ns(cell.before_ns, cell.after_ns)
    return f"{mark}{first}", f"{mark}{second}"


def size(cell: records.FleetCellChange) -> str:
    """Its size, and its precision where one was asked for."""
    return cell.size + ("" if cell.precision == "model" else f" {cell.precision}")


def why(cell: records.FleetCellChange) -> str:
    """What else is another one: a likely cause of a measured change, the cause of an estimate."""
    parts = [f"was {cell.was}"] if cell.was else []
    if cell.causes:
        sure = cell.told_by not in ("latency", None)
        parts.append(f"{'changed' if not sure else 'by'}: {', '.join(cell.causes)}" + ("" if sure else "?"))
    return "; ".join([*parts, *([cell.reason] if cell.reason else [])])


def side(one: records.FleetSide) -> str:
    """How far a side is, and when: ``120 cells, 118 done, 2 failed``."""
    parts = [count(one.cells, "cell"), f"{one.done:,} done"]
    parts += [f"{one.failed:,} failed"] if one.failed else []
    parts += [f"{one.left:,} not done yet"] if one.left else []
    text = ", ".join(parts)
    text += f"; trtprof {', '.join(one.trtprof)}" if one.trtprof else ""
    if one.first:
        text += f"; {one.first}" + (f" to {one.last}" if one.last != one.first else "")
    return text


def counted(
    found: records.FleetComparison, answers: Iterable[records.FleetOutcome]
) -> list[tuple[records.FleetOutcome, int]]:
    """How many cells have each of some answers; those with none are left out."""
    return [(answer, found.counts[answer]) for answer in answers if found.counts.get(answer)]


def mean(found: records.FleetComparison, kind: str) -> records.FleetGroupChange | None:
    """The mean of the whole fleet."""
    return next((each for each in found.groups if each.by == "fleet" and each.kind == kind), None)


def groups(found: records.FleetComparison, by: str) -> list[records.FleetGroupChange]:
    """Those of a kind; of models the largest changes first, and none that did not change."""
    chosen = [each for each in found.groups if each.by == by]
    if by != "model":
        return chosen
    moved = [each for each in chosen if each.more or each.less]
    return sorted(moved, key=lambda each: (each.kind != "fact", -max(each.ratio, 1 / each.ratio), each.name))


def moved(group: records.FleetGroupChange) -> tuple[str, str]:
    """How many of its cells changed for the worse, and for the better; of estimates with ``~``."""
    mark = "~" if group.kind == "estimate" else ""
    return tuple(f"{mark}{number:,}" if number else "-" for number in (group.more, group.less))  # type: ignore[return-value]


def kernel(one: records.FleetKernelChange) -> str:
    """``1.40x in 12 of 20 models``."""
    mark = "~" if one.kind == "estimate" else ""
    return f"{mark}{one.ratio:.2f}x in {one.models:,} of {count(one.of, 'model')}"


def cause(one: records.FleetCause) -> str:
    """What it was and is: ``0.1.0 -> 0.2.0``."""
    if one.what == "nothing recorded":
        return "the same address, another answer"
    if one.before == one.after:
        return one.after
    return f"{one.before or 'none'} {words.ARROW} {one.after or 'none'}"


def cause_counts(one: records.FleetCause) -> str:
    """In how many cells, and what became of these."""
    told = (("slower", one.slower), ("faster", one.faster), ("rose", one.rose), ("fell", one.fell))
    parts = [f"{number:,} {name}" for name, number in told if number]
    return count(one.cells, "cell") + (f": {', '.join(parts)}" if parts else "")
