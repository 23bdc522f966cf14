"""Gates: what a comparison must not exceed, and whether it does, does not, or cannot be told.

A gate looks at one quantity and its interval:

    latency       growth of the median latency
    lost          growth of latency less what the roofline allows; in percent, of the lost time before
    gap-to-roof   growth of 1 - allowed / latency, in percentage points

The interval follows from that of the latency alone: what the roofline allows is computed, and has none. A gate fails
where the whole interval is above its threshold and passes where none of it is. What is between is neither: a gate
that guessed there would fail one build in two that sits at the threshold, and would be switched off.

Nor does a gate fail by a roof alone. Ceilings are measured, too, and the speed of a machine moves them from run to
run: on the same device and with the same work a gate must also fail with one roof for both sides, and no side may be
above its own (`_doubt`).
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, cast

import msgspec

from trtprof.base.errors import UsageError
from trtprof.base.records import Comparison, Comparisons, GateResult, Interval
from trtprof.base.units import NS_BY_UNIT, format_ns

__all__ = ["Gate", "judge", "judged", "parse"]

Quantity = Literal["latency", "lost", "gap-to-roof"]
Unit = Literal["%", "ns", "cells"]

QUANTITIES: dict[str, tuple[Unit, ...]] = {"latency": ("%", "ns"), "lost": ("%", "ns"), "gap-to-roof": ("%",)}
"""What a gate looks at, and the units of its threshold."""
EXAMPLES = "latency>3%, lost>5%, gap-to-roof>2%, latency>0.1ms, lost>50us"

_NUMBER = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*(.*)", re.IGNORECASE)
_WORK = ("work changed", "precision changed", "fusion changed", "only before", "only after")
"""Causes that change what the roofline allows for a reason other than its ceilings."""
_MOST_TIMES = 100  # A sample so many times as large is not worth asking for: the change is as large as the threshold


class Gate(NamedTuple):
    """One gate as asked for."""

    text: str  # As written
    what: str  # The quantity
    threshold: float  # In percent (percentage points of ``gap-to-roof``), ns, or a number of cells of a fleet
    unit: Unit  # Which of these


# --- what is asked for ----------------------------------------------------------------------


def parse(
    texts: Sequence[str], quantities: Mapping[str, Sequence[Unit]] = QUANTITIES, examples: str = EXAMPLES
) -> tuple[Gate, ...]:
    """The gates of ``--gate``, before any work is done for them.

    Args:
        texts: As written.
        quantities: What a gate may look at, and the units of its threshold.
        examples: Gates of these, for whoever wrote none.

    Example:
        >>> parse(["latency > 3 %", "lost>50us"])[1]
        Gate(text='lost>50us', what='lost', threshold=50000.0, unit='ns')

    Raises:
        UsageError: One says no quantity, no ``>``, no number, or no unit.
    """
    return tuple(_gate(text.strip(), quantities, examples) for text in texts)


def _gate(text: str, quantities: Mapping[str, Sequence[Unit]], examples: str) -> Gate:
    name, sign, rest = text.partition(">")
    what = _quantity(text, name.strip().lower(), quantities)
    usual = f"{what}>{'0' if quantities[what] == ('cells',) else '3%'}"
    if not sign or not rest.strip():
        if "<" in name:
            raise UsageError(
                f"--gate {text} is no gate",
                why="a gate says what is too much: it has a > in it",
                fix=f"--gate '{usual}'",
            )
        raise UsageError(
            f"--gate {text} looks cut off: it says no threshold",
            why="without quotes the shell takes > for itself, and sends the output to a file that is called after "
            f"the threshold (look for one named like {usual.partition('>')[2]})",
            fix=f"put quotes around it: --gate '{usual}'",
        )
    found = _NUMBER.fullmatch(rest.strip())
    if found is None:
        why = (
            "a gate has one sign, >" if rest.lstrip().startswith("=") else f"{rest.strip()!r} is no number with a unit"
        )
        raise UsageError(f"--gate {text} is no gate", why=why, fix=f"such as {examples}")
    threshold, unit = _threshold(text, float(found[1]), found[2].strip(), quantities[what], examples)
    if unit in quantities[what]:
        return Gate(text, what, threshold, unit)
    if what == "gap-to-roof":
        raise UsageError(
            f"--gate {text} is no gate",
            why="the gap to the roofline is a share of the latency, and has no time",
            fix="--gate 'gap-to-roof>2%' (percentage points), or --gate 'lost>50us' for a time",
        )
    known = {"%": "percent", "ns": "a time", "cells": "a number of cells, without a unit"}
    raise UsageError(
        f"--gate {text} is no gate",
        why=f"{what} has another unit: {' or '.join(known[each] for each in quantities[what])}",
        fix=f"--gate '{usual}'",
    )


def _threshold(text: str, number: float, unit: str, units: Sequence[Unit], examples: str) -> tuple[float, Unit]:
    if unit == "%":
        if number <= -100 or not math.isfinite(number):
            raise UsageError(
                f"--gate {text} is not possible",
                why="nothing shrinks by more than all of it",
                fix=f"such as {examples}",
            )
        return number, "%"
    if "cells" in units and not unit:
        if number < 0 or not math.isfinite(number):
            raise UsageError(
                f"--gate {text} is not possible", why="there are never fewer than 0 cells", fix=f"such as {examples}"
            )
        return number, "cells"
    if unit.lower() not in NS_BY_UNIT:
        why = f"{unit!r} is no unit of a gate" if unit else f"{number:g} of what? It has no unit"
        raise UsageError(f"--gate {text} is no gate", why=f"{why}; known: %, ns, us, ms, s", fix=f"such as {examples}")
    threshold = number * NS_BY_UNIT[unit.lower()]
    if not math.isfinite(threshold):
        raise UsageError(
            f"--gate {text} is not possible", why=f"{number:g} {unit} is no time", fix=f"such as {examples}"
        )
    return threshold, "ns"


def _quantity(text: str, name: str, quantities: Mapping[str, Sequence[Unit]]) -> str:
    for known in quantities:
        if name.partition("<")[0].strip() == known:
            return known
    near = difflib.get_close_matches(name.replace("_", "-"), quantities, n=1)
    what = near[0] if near else "latency"
    raise UsageError(
        f"--gate {text} is no gate" if text else "--gate says nothing",
        why=f"known quantities: {', '.join(quantities)}",
        fix=f"--gate '{what}>{'0' if quantities[what] == ('cells',) else '3%'}'",
    )


# --- the answer -----------------------------------------------------------------------------


def judged(found: Comparisons, gates: Sequence[Gate]) -> Comparisons:
    """The same comparisons, each with the answers of all gates."""
    return msgspec.structs.replace(
        found,
        comparisons=tuple(
            msgspec.structs.replace(one, gates=tuple(judge(gate, one) for gate in gates)) for one in found.comparisons
        ),
    )


def judge(gate: Gate, one: Comparison) -> GateResult:
    """The answer of a gate: ``failed`` or ``passed`` only where the whole interval says so."""
    value = _value(gate, one)
    if isinstance(value, str):
        return _result(gate, None, "inconclusive", value)
    shown = _shown(gate, value)
    if not (math.isfinite(value.low) and math.isfinite(value.high)):
        return _result(gate, None, "inconclusive", f"no bound is known of it: {shown}")
    limit = gate.text.partition(">")[2].strip()
    if value.low > gate.threshold:
        doubt = _doubt(gate, one)
        if doubt:
            return _result(gate, value, "inconclusive", f"{shown} is all above {limit}, but {doubt}")
        return _result(gate, value, "failed", f"{shown} is all above {limit}{_roof(gate, one)}")
    if value.high <= gate.threshold:
        return _result(gate, value, "passed", f"{shown} is not above {limit}{_roof(gate, one)}")
    return _result(
        gate,
        value,
        "inconclusive",
        f"{shown} lies on both sides of {limit}: {_more(gate, value, one)}{_roof(gate, one)}",
    )


def _result(
    gate: Gate, value: Interval | None, answer: Literal["passed", "failed", "inconclusive"], reason: str
) -> GateResult:
    return GateResult(
        gate=gate.text, what=cast("Quantity", gate.what), unit=cast("Literal['%', 'ns']", gate.unit),
        threshold=gate.threshold, value=value, answer=answer, reason=reason,
    )  # fmt: skip


def _doubt(gate: Gate, one: Comparison) -> str:
    """Why a gate whose interval is all above its threshold has not failed all the same; empty where it has."""
    before, after = one.before, one.after
    if gate.what == "latency":
        if gate.threshold < 0 or one.latency.answer == "slower":
            return ""
        reason = f": {one.latency.reason}" if one.latency.reason else ""
        return f"the latency did not change significantly{reason}"
    for side in (before, after):
        if side.attainable_ns is not None and side.attainable_ns > side.latency.headline_ns:
            return (
                f"{side.label} is above its roofline ({format_ns(side.latency.headline_ns)} where "
                f"~{format_ns(side.attainable_ns)} is allowed), so that the roofline is not to be believed"
            )
    other_work = any(row.ns and row.cause in _WORK for row in one.ledger)
    if other_work or before.device != after.device or before.attainable_ns == after.attainable_ns:
        return ""
    for allowed in (before.attainable_ns, after.attainable_ns):
        both = (msgspec.structs.replace(side, attainable_ns=allowed) for side in (before, after))
        same_roof = msgspec.structs.replace(one, **dict(zip(("before", "after"), both, strict=True)))
        value = _value(gate, same_roof)
        if isinstance(value, str) or value.low <= gate.threshold:
            told = value if isinstance(value, str) else _shown(gate, value)
            return (
                f"only by what the roofline allows, which went from {_allowed(one)} for the same work on the same "
                f"device, an estimate without an interval; with one roofline for both sides it is {told}"
            )
    return ""


def _value(gate: Gate, one: Comparison) -> Interval | str:
    """What the gate looks at, in percent or ns; or why it cannot be told."""
    change, before, after = one.latency, one.before, one.after
    if not before.latency.headline_ns or not change.samples_before or not change.samples_after:
        return "the latency of one side was not measured end to end"
    ratio, difference = change.ratio, change.difference_ns
    latency_ns = before.latency.headline_ns
    if gate.what == "latency":
        if gate.unit == "ns":
            return difference
        return _moved(ratio, lambda ratio: 100 * (ratio - 1))
    unknown = [side.label for side in (before, after) if side.attainable_ns is None]
    if before.attainable_ns is None or after.attainable_ns is None:
        return f"what the roofline allows is unknown of {' and '.join(unknown)}: no layer has an estimate"
    if gate.what == "gap-to-roof":
        share = before.attainable_ns / latency_ns
        # Latency after is ratio x latency before; its own error moves this by a share of a share.
        share_after = after.attainable_ns / latency_ns
        if ratio.low <= 0:
            return "the interval of the latency has no lower bound"
        return _moved(ratio, lambda ratio: 100 * (share - share_after / ratio))
    more_allowed = after.attainable_ns - before.attainable_ns
    grown = _moved(difference, lambda ns: ns - more_allowed)
    if gate.unit == "ns":
        return grown
    return _of_lost(grown, latency_ns - before.attainable_ns)


def _of_lost(grown: Interval, lost_ns: int) -> Interval | str:
    """``grown`` over the time lost before, in percent, or why it cannot be told.

    A growth g is possible where d - g lost may be 0 (Fieller 1954, Some problems in interval estimation), and the error
    of that is at most max(1, 1 + g) times the error w of d, with all of it on ``before``.
    """
    below, above = max(grown.value - grown.low, 0.0), max(grown.high - grown.value, 0.0)
    if lost_ns <= max(above, below):
        if lost_ns <= 0:
            why = "nothing was lost before: the latency was not above what the roofline allows"
        else:
            why = (
                f"the time lost before, ~{format_ns(lost_ns)}, is no larger than the error of the latency "
                f"({format_ns(max(above, below))})"
            )
        return f"{why}, so that there is no percentage of it; ask for a time, such as lost>50us"
    low, high = grown.value - below, grown.value + above
    return Interval(
        value=100 * grown.value / lost_ns,
        low=100 * low / (lost_ns + below if low > 0 else lost_ns),
        high=100 * high / (lost_ns - above if high > 0 else lost_ns),
        level=grown.level,
    )


def _moved(interval: Interval, to: Callable[[float], float]) -> Interval:
    """The interval of a rising function of what ``interval`` holds."""
    return Interval(value=to(interval.value), low=to(interval.low), high=to(interval.high), level=interval.level)


def _roof(gate: Gate, one: Comparison) -> str:
    """Where the roof moved, what that has to do with it."""
    before, after = one.before.attainable_ns, one.after.attainable_ns
    if gate.what == "latency" or before is None or after is None or before == after:
        return ""
    return f"; what the roofline allows went from {_allowed(one)}"


def _allowed(one: Comparison) -> str:
    before, after = one.before.attainable_ns or 0, one.after.attainable_ns or 0
    return f"~{format_ns(before)} to ~{format_ns(after)}"


def _shown(gate: Gate, value: Interval) -> str:
    return f"{_growth(gate, value.value)} ({_growth(gate, value.low)} to {_growth(gate, value.high)})"


def _more(gate: Gate, value: Interval, one: Comparison) -> str:
    """How many runs would settle it, were the change as it looks: the width falls with the root of their number."""
    distance = abs(value.value - gate.threshold)
    width = value.high - value.value if value.value <= gate.threshold else value.value - value.low
    if width <= 0 or distance * math.sqrt(_MOST_TIMES) < width:
        return "the change is about as large as the threshold, which no number of runs settles; choose another one"
    runs = max(min(len(one.before.medians_ns), len(one.after.medians_ns)), 1)
    samples = round(min(one.latency.samples_before, one.latency.samples_after) / runs)
    enough = max(math.ceil(runs * (width / distance) ** 2 - 1e-6), runs + 1)
    return (
        f"about {enough} runs a side in place of {runs}, of as many samples each ({samples:,}), would settle it if the "
        "change stays as it looks"
    )


def _growth(gate: Gate, number: float) -> str:
    return ("+" if number > 0 else "") + _quantity_text(gate, number)


def _quantity_text(gate: Gate, number: float) -> str:
    if gate.unit == "ns":
        return format_ns(number)
    if abs(number) < 10:
        text = f"{number:.2f}".rstrip("0").rstrip(".")
    else:
        text = f"{number:.1f}".removesuffix(".0") if abs(number) < 1000 else f"{number:,.0f}"
    text = "0" if text in ("-0", "") else text
    return f"{text} points" if gate.what == "gap-to-roof" else f"{text} %"
