"""Gates over two fleets, in the grammar of `compare.gates`.

Of each cell; the gate fails where one cell is above its threshold:

    latency       growth of the measured latency: ``latency>3%``, ``latency>0.1ms``
    expected      growth of what is expected of it, an estimate
    bound         growth of what bounds it, an estimate

Of the whole fleet:

    geomean       growth of the measured latency, the geometric mean of all cells
    cost          growth of what one inference of every cell costs by the prices of its targets: of measured
                  cells, and of predictions by what is expected; the gate fails by either
    slower, faster, failed, mended, vanished, appeared, unanswered, undecided
                  a number of cells: ``slower>0`` beyond noise; ``failed>0`` fail now and did not before;
                  ``unanswered>0`` are not done yet on a side

A cell is above for sure where its whole interval is, and is among those of which at most a share is so by chance
(`samples.discoveries`, of all cells of the gate together: ten thousand unchanged ones must not fail it); it is not
above where none of its interval is. What is between is neither. Where no cell is above for sure and one is between, the
gate is inconclusive. What is computed or counted has no interval and is never between. A gate that finds nothing to
look at is inconclusive, and so is one that would pass while cells which both sides ask have no number on a side: a
fleet that is half done is not as fast as it was. (What fails now is another gate's: ``failed>0``.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from trtprof.base.records import FleetCellChange, FleetComparison, FleetGate
from trtprof.base.units import format_ns
from trtprof.compare import gates
from trtprof.compare.gates import Gate, Unit
from trtprof.compare.samples import PRIOR_RUNS, discoveries, t_quantile, t_tails

__all__ = ["EXAMPLES", "QUANTITIES", "Measured", "judge", "parse"]

COUNTS: dict[str, tuple[str, ...]] = {
    "slower": ("slower",),
    "faster": ("faster",),
    "failed": ("failed now",),
    "mended": ("mended",),
    "vanished": ("vanished",),
    "appeared": ("appeared",),
    "unanswered": ("not answered",),
    "undecided": ("not decided",),
}
"""Gates that count cells, and the answers that they count."""
QUANTITIES: dict[str, tuple[Unit, ...]] = {
    "latency": ("%", "ns"), "expected": ("%", "ns"), "bound": ("%", "ns"), "geomean": ("%",), "cost": ("%",),
    **dict.fromkeys(COUNTS, ("cells",)),
}  # fmt: skip
EXAMPLES = "latency>3%, geomean>1%, bound>0%, cost>5%, failed>0, vanished>0"

_NOTHING = "no cell has a latency that was measured on both sides"
Answer = Literal["passed", "failed", "inconclusive"]


class Measured(NamedTuple):
    """Cells that were measured on both sides: logarithms of their ratios."""

    at: npt.NDArray[np.int64]  # Places in `FleetComparison.cells`
    log: npt.NDArray[np.float64]  # After over before
    low: npt.NDArray[np.float64]  # Of the interval
    high: npt.NDArray[np.float64]  # Of the interval
    freedom: npt.NDArray[np.float64]  # Degrees of freedom of the error that chance is told by


def parse(texts: Sequence[str]) -> tuple[Gate, ...]:
    """The gates of ``--gate``; see `compare.gates.parse`."""
    return gates.parse(texts, QUANTITIES, EXAMPLES)


def judge(
    gate: Gate,
    found: FleetComparison,
    measured: Measured,
    prices: tuple[Mapping[str, float], Mapping[str, float]] = ({}, {}),
) -> FleetGate:
    """The answer of a gate."""
    if gate.what in COUNTS:
        made = _counted(gate, found, measured)
    elif gate.what == "latency":
        made = _latency(gate, found, measured)
    elif gate.what == "geomean":
        made = _mean(gate, found)
    elif gate.what == "cost":
        made = _cost(gate, found, measured, prices)
    else:
        made = _estimated(gate, found)
    return _unless_open(gate, made, sum(_open(gate.what, cell) for cell in found.cells))


def _open(what: str, cell: FleetCellChange) -> bool:
    """Whether a gate cannot know what a cell will add to it."""
    waits, ran = cell.answer == "not answered", cell.verb == "run"
    if what in ("failed", "mended"):
        return waits
    if what in ("latency", "geomean", "slower", "faster"):
        return ran and (waits or cell.answer == "not decided")
    if what in ("expected", "bound"):
        ends = (
            (cell.expected_before_ns, cell.expected_after_ns) if what == "expected"
            else (cell.bound_before_ns, cell.bound_after_ns)
        )  # fmt: skip
        return waits or (cell.told_by is not None and (ends[0] is None) != (ends[1] is None))
    return what == "cost" and waits


def _unless_open(gate: Gate, made: FleetGate, waiting: int) -> FleetGate:
    if made.answer != "passed" or not waiting:
        return made
    if gate.what in COUNTS and (made.value or 0.0) + waiting <= gate.threshold:
        return made
    more = f"{cells_words(waiting)} {'has' if waiting == 1 else 'have'} no number on a side"
    return msgspec.structs.replace(
        made, answer="inconclusive", between=made.between + waiting, reason=f"{made.reason}; {more}"
    )


def _made(gate: Gate, answer: Answer, reason: str, **fields: float | str | None) -> FleetGate:
    return FleetGate(
        gate=gate.text, what=gate.what, unit=gate.unit, threshold=gate.threshold, answer=answer, reason=reason,
        **fields,  # type: ignore[arg-type]
    )  # fmt: skip


def _limit(gate: Gate) -> str:
    return gate.text.partition(">")[2].strip()


def _counted(gate: Gate, found: FleetComparison, measured: Measured) -> FleetGate:
    if gate.what in ("slower", "faster") and not len(measured.at):
        return _made(gate, "inconclusive", _NOTHING)
    wanted = COUNTS[gate.what]
    # A new cell that fails is one that did not fail before.
    cells = [
        cell
        for cell in found.cells
        if cell.answer in wanted or (gate.what == "failed" and cell.answer == "appeared" and cell.reason)
    ]
    number, first = len(cells), _name(cells[0]) if cells else ""
    failed = number > gate.threshold
    words = {"failed": "fail now and did not before", "unanswered": "are not done yet on a side",
             "undecided": "have no number to tell by"}.get(gate.what, gate.what)  # fmt: skip
    reason = f"{cells_words(number)} {words}" + (f", {first} first" if cells else "")
    return _made(
        gate, "failed" if failed else "passed", reason, value=float(number), worst=first if failed else "",
        over=number if failed else 0,
    )  # fmt: skip


# --- cell by cell ---------------------------------------------------------------------------


def _latency(gate: Gate, found: FleetComparison, measured: Measured) -> FleetGate:
    if not len(measured.at):
        return _made(gate, "inconclusive", _NOTHING)
    cells = [found.cells[at] for at in measured.at.tolist()]
    before = np.array([cell.before_ns for cell in cells], dtype=np.float64)
    growth = np.full(len(cells), gate.threshold / 100) if gate.unit == "%" else gate.threshold / before
    limit = np.log1p(np.maximum(growth, -1 + 1e-12))
    half = np.maximum(measured.log - measured.low, 1e-9)
    beyond = (measured.log - limit) / (half / t_quantile(PRIOR_RUNS))
    tails = np.where(beyond > 0, t_tails(beyond, measured.freedom) / 2, 1.0)
    over = discoveries(tails) & (measured.low > limit)
    within = measured.high <= limit
    counts = {"over": int(over.sum()), "within": int(within.sum()), "between": int((~over & ~within).sum())}
    looked = np.flatnonzero(over if counts["over"] else ~within if counts["between"] else within)
    worst = int(looked[np.argmax(measured.log[looked])])
    cell = cells[worst]
    value, low, high = (_of(gate, cell, float(each[worst])) for each in (measured.log, measured.low, measured.high))
    shown = f"{_name(cell)}: {_growth(gate, value)} ({_growth(gate, low)} to {_growth(gate, high)})"
    answer: Answer = "failed" if counts["over"] else "inconclusive" if counts["between"] else "passed"
    words = {
        "failed": f"{cells_words(counts['over'])} above {_limit(gate)} beyond noise, most of all {shown}",
        "inconclusive": f"{cells_words(counts['between'])} may be above {_limit(gate)} or not, most of all {shown}; "
        "none is above for sure",
        "passed": f"none of {cells_words(len(cells))} is above {_limit(gate)}; most of all {shown}",
    }[answer]
    if answer == "failed" and counts["between"]:
        words += f"; {counts['between']:,} more may be"
    named = _name(cell) if answer != "passed" else ""
    return _made(gate, answer, words, value=value, low=low, high=high, worst=named, **counts)


def _of(gate: Gate, cell: FleetCellChange, log: float) -> float:
    growth = math.expm1(log)
    return 100 * growth if gate.unit == "%" else growth * (cell.before_ns or 0)


def _estimated(gate: Gate, found: FleetComparison) -> FleetGate:
    pairs = [
        (cell, before, after)
        for cell in found.cells
        for before, after in [
            (cell.expected_before_ns, cell.expected_after_ns)
            if gate.what == "expected"
            else (cell.bound_before_ns, cell.bound_after_ns)
        ]
        if before is not None and after is not None and (before or gate.unit == "ns")
    ]
    if not pairs:
        what = "an expectation" if gate.what == "expected" else "a bound"
        return _made(gate, "inconclusive", f"no cell has {what} on both sides")
    grown = [
        (float(after - before) if gate.unit == "ns" else 100 * (after - before) / before, cell)
        for cell, before, after in pairs
    ]
    over = sum(value > gate.threshold for value, _ in grown)
    value, cell = max(grown, key=lambda each: each[0])
    shown = f"{_name(cell)}: {_growth(gate, value)}"
    words = (
        f"{cells_words(over)} above {_limit(gate)}, most of all {shown}; an estimate, which is computed"
        if over
        else f"none of {cells_words(len(grown))} is above {_limit(gate)}; most of all {shown}"
    )
    return _made(
        gate, "failed" if over else "passed", words, value=value, worst=_name(cell) if over else "", over=over,
        within=len(grown) - over,
    )  # fmt: skip


# --- the whole fleet ------------------------------------------------------------------------


def _mean(gate: Gate, found: FleetComparison) -> FleetGate:
    mean = next((each for each in found.groups if each.by == "fleet" and each.kind == "fact"), None)
    if mean is None or mean.low is None or mean.high is None:
        return _made(gate, "inconclusive", _NOTHING)
    ends = [100 * (each - 1) for each in (mean.ratio, mean.low, mean.high)]
    return _by_interval(gate, ends, f"over {cells_words(mean.cells)} ")


def _by_interval(gate: Gate, ends: Sequence[float], about: str, after: str = "") -> FleetGate:
    value, low, high = ends
    shown = f"{about}{_growth(gate, value)} ({_growth(gate, low)} to {_growth(gate, high)})"
    over, within = low > gate.threshold, high <= gate.threshold
    answer: Answer = "failed" if over else "passed" if within else "inconclusive"
    words = {"failed": "is all above", "passed": "is not above", "inconclusive": "lies on both sides of"}[answer]
    return _made(
        gate, answer, f"{shown} {words} {_limit(gate)}{after}", value=value, low=low, high=high, over=int(over),
        within=int(within), between=int(not over and not within),
    )  # fmt: skip


def _cost(
    gate: Gate, found: FleetComparison, measured: Measured, prices: tuple[Mapping[str, float], Mapping[str, float]]
) -> FleetGate:
    """The worse answer of what measured cells cost, and predictions."""
    halves = {
        at: (log - low, high - log)
        for at, log, low, high in zip(*(each.tolist() for each in measured[:4]), strict=True)
    }
    answers = []
    for kind in ("measured", "expected"):
        sums, number = [0.0, 0.0], 0
        # Cells of one model on one target err the same way, as in means.
        errors: dict[tuple[str, str], list[float]] = {}
        for at, cell in enumerate(found.cells):
            mine = cell.told_by == "latency" if kind == "measured" else cell.told_by not in (None, "latency")
            ends = (
                (cell.before_ns, cell.after_ns) if kind == "measured"
                else (cell.expected_before_ns, cell.expected_after_ns)
            )  # fmt: skip
            hours = [by.get(cell.target) for by in prices]
            if not mine or None in ends or None in hours:
                continue
            number += 1
            costs = [(ns or 0) * (hour or 0.0) for ns, hour in zip(ends, hours, strict=True)]
            sums = [total + cost for total, cost in zip(sums, costs, strict=True)]
            for side, half in enumerate(halves.get(at, (0.0, 0.0))):
                errors.setdefault((cell.model, cell.target), [0.0, 0.0])[side] += half * sum(costs) / 2
        if not number or min(sums) <= 0:
            continue
        log, size = math.log(sums[1] / sums[0]), sum(sums) / 2
        down, up = (math.hypot(*(each[side] for each in errors.values())) / size for side in (0, 1))
        ends_log = (log, log - down, log + up)
        told = f"{number:,} {'measured' if kind == 'measured' else 'predicted'} cells"
        about = f"the cost of one inference of each of {told}: "
        after = "" if kind == "measured" else "; an estimate, by what is expected"
        answers.append(_by_interval(gate, [100 * math.expm1(each) for each in ends_log], about, after))
    if not answers:
        why = "no cell has a time and a price of its target on both sides, in one currency"
        return _made(gate, "inconclusive", why)
    worst: Callable[[FleetGate], int] = lambda each: ("passed", "inconclusive", "failed").index(each.answer)  # noqa: E731
    return max(answers, key=worst)


# --- words ----------------------------------------------------------------------------------


def _name(cell: FleetCellChange) -> str:
    return f"{cell.model} on {cell.target}, {cell.size}" + ("" if cell.precision == "model" else f", {cell.precision}")


def cells_words(number: int) -> str:
    """``1 cell``, ``2,000 cells``."""
    return f"{number:,} cell{'' if number == 1 else 's'}"


def _growth(gate: Gate, number: float) -> str:
    text = format_ns(number) if gate.unit == "ns" else f"{number:.3g} %" if abs(number) < 1000 else f"{number:,.0f} %"
    return f"+{text}" if number > 0 else text
