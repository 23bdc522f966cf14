"""What the reporters of a comparison share: signed numbers, words, and what drawing needs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from trtprof.base import records
from trtprof.base.units import format_ns, format_percent
from trtprof.report._estimates import with_band

MARKS = {"fact": "", "estimate": "~", "remainder": "="}  # Before a number: of what kind it is

GATE_WORDS = {"passed": "passed", "failed": "FAILED", "inconclusive": "inconclusive"}
ARROW = "->"
_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1, "ns"))


# --- numbers --------------------------------------------------------------------------------


def signed_ns(ns: float) -> str:
    """``+120 us``, ``-30.0 us``, ``0 ns``."""
    return f"{'+' if ns > 0 else ''}{format_ns(ns)}"


def signed(number: float, width: float | None = None) -> str:
    """A number with its sign and as many digits as its error, half of ``width``, leaves meaning: ``+4.1``."""
    digits = 1
    if width is not None and 0 < width < math.inf:
        digits = min(max(1 - math.floor(math.log10(width / 2)), 1), 4)
    text = f"{number:+,.{digits if abs(number) < 1000 else 0}f}"
    return text[1:] if not text.strip("+-0.") else text


def pair_ns(before: float, after: float) -> tuple[str, str]:
    """Two durations in one unit, with as many digits as their difference needs: ``10.00 ms``, ``10.02 ms``."""
    largest = max(abs(before), abs(after))
    if largest >= 10 * min(abs(before), abs(after)):
        return format_ns(before), format_ns(after)
    factor, unit = next((step for step in _UNITS if largest >= step[0]), _UNITS[-1])
    scaled = largest / factor
    three = 2 - math.floor(math.log10(scaled)) if scaled else 0
    gap = abs(after - before) / factor
    two = 1 - math.floor(math.log10(gap)) if gap else 0
    digits = min(max(three, two, 0), round(math.log10(factor)))
    first, second = (f"{ns / factor:.{digits}f} {unit}" for ns in (before, after))
    return first, second


def interval_ns(interval: records.Interval) -> str:
    """``+104 us to +160 us``."""
    return f"{signed_ns(interval.low)} to {signed_ns(interval.high)}"


def ratio_percent(interval: records.Interval) -> tuple[str, str]:
    """A ratio of after over before as a change in percent, and its interval: ``+4.1 %``, ``+3.2 to +5.0 %``."""
    width = 100 * (interval.high - interval.low)
    value, low, high = (signed(100 * (part - 1), width) for part in (interval.value, interval.low, interval.high))
    return f"{value} %", f"{low} to {high} %"


def share(ns: float, whole_ns: float) -> str:
    """``+3.7 %`` of ``whole_ns``, or nothing where there is no whole."""
    return f"{signed(100 * ns / whole_ns)} %" if whole_ns else ""


LEAST = 0.001  # Share of the latency before that a difference must come to, to be shown


def counts(ns: float, one: records.Comparison) -> bool:
    """Whether a difference is large enough to be shown."""
    return bool(ns) and abs(ns) >= LEAST * one.before.latency.headline_ns


def level(interval: records.Interval) -> str:
    """``95 %``."""
    return f"{100 * interval.level:g} %"


# --- words ----------------------------------------------------------------------------------


class Headline(NamedTuple):
    """The latency of both sides in words; what is unknown is said to be."""

    before: str
    after: str
    difference: str
    percent: str
    interval: str
    interval_percent: str
    answer: records.Significance
    samples: str


def headline(one: records.Comparison) -> Headline | None:
    """The change of the latency, or None where one side has none."""
    if not measured(one):
        return None
    change = one.latency
    before, after = pair_ns(one.before.latency.headline_ns, one.after.latency.headline_ns)
    percent, interval_percent = ratio_percent(change.ratio)
    return Headline(
        before=before,
        after=after,
        difference=signed_ns(change.difference_ns.value),
        percent=percent,
        interval=interval_ns(change.difference_ns),
        interval_percent=interval_percent,
        answer=change.answer,
        samples=f"{change.samples_before:,} samples before, {change.samples_after:,} after",
    )


def measured(one: records.Comparison) -> bool:
    """Whether both sides have a latency that was measured end to end."""
    both = one.before.latency.headline_ns and one.after.latency.headline_ns
    return bool(both and one.latency.samples_before and one.latency.samples_after)


def of_roof(side: records.Side) -> float | None:
    """What the roofline allows over the latency."""
    if side.attainable_ns is None or not side.latency.headline_ns:
        return None
    return side.attainable_ns / side.latency.headline_ns


def roof_words(one: records.Comparison) -> tuple[str, str, str] | None:
    """What the roofline allows before, after, and the change; None where it is unknown of one side."""
    before, after = one.before.attainable_ns, one.after.attainable_ns
    if before is None or after is None:
        return None
    first, second = pair_ns(before, after)
    return f"~{first}", f"~{second}", f"~{signed_ns(after - before)}" if after != before else "no change"


def of_roof_words(one: records.Comparison) -> tuple[str, str, str] | None:
    """The share of the roof before, after, and the change in points."""
    before, after = of_roof(one.before), of_roof(one.after)
    if before is None or after is None:
        return None
    return f"~{format_percent(before)}", f"~{format_percent(after)}", f"~{signed(100 * (after - before))} points"


def lost_words(one: records.Comparison) -> tuple[str, str, str] | None:
    """Latency less what the roofline allows: before, after, and the change."""
    if one.before.attainable_ns is None or one.after.attainable_ns is None or not measured(one):
        return None
    before = one.before.latency.headline_ns - one.before.attainable_ns
    after = one.after.latency.headline_ns - one.after.attainable_ns
    first, second = pair_ns(before, after)
    return f"~{first}", f"~{second}", f"~{signed_ns(after - before)}" if after != before else "no change"


def side_words(side: records.Side) -> str:
    """What was run where: ``tinynet.onnx, ort-cpu on Example CPU, 3 runs``."""
    runs = len(side.medians_ns)
    return f"{side.model}, {side.backend} on {side.device}" + (f", {runs} runs" if runs > 1 else "")


def answer_words(answer: records.Significance | None) -> str:
    """Whether a part changed; unknown is no answer."""
    return answer or "significance unknown"


def ends(part: records.RegionChange) -> tuple[str, str]:
    """Its times; none where it is on one side alone."""
    before, after = pair_ns(part.before_ns, part.after_ns)
    return ("-" if part.match == "only after" else before), ("-" if part.match == "only before" else after)


def kinds(one: records.Comparison) -> dict[str, str]:
    """Of what kind the numbers of each cause are, as the ledger has it."""
    return {row.cause: row.kind for row in one.ledger}


def causes(part: records.RegionChange, kind_of: Mapping[str, str]) -> list[tuple[str, str]]:
    """Its causes, the largest first, each with its time: a measured one as it is, others marked by their kind."""
    ranked = sorted(((cause, ns) for cause, ns in part.parts.items() if ns), key=lambda item: (-abs(item[1]), item[0]))
    return [(records.cause_name(cause), MARKS.get(kind_of.get(cause, ""), "") + signed_ns(ns)) for cause, ns in ranked]


def kernels(part: records.RegionChange) -> str:
    """What became of its kernels; empty where they are the same."""
    if part.kernels_before == part.kernels_after:
        return ""
    return f"{', '.join(part.kernels_before) or 'none'} {ARROW} {', '.join(part.kernels_after) or 'none'}"


def dtypes(part: records.RegionChange) -> str:
    """What became of its dtype; empty where it is the same."""
    if part.dtype_before == part.dtype_after or part.match in ("only before", "only after"):
        return ""
    return f"{part.dtype_before or 'unknown'} {ARROW} {part.dtype_after or 'unknown'}"


def expected(part: records.RegionChange) -> str:
    """What good library kernels take before and after, once where that is the same; empty unless both are known."""
    sides = [
        *filter(
            None, (with_band(side or records.Expectation()) for side in (part.expected_before, part.expected_after))
        )
    ]
    return f" {ARROW} ".join(dict.fromkeys(sides)) if len(sides) == 2 else ""


def finding_mark(finding: records.Finding) -> str:
    """``OC301?`` of a hypothesis, ``TR010!`` of a doubt."""
    return f"{finding.code}{'!' if finding.kind == 'trust' else '?'}"


def title(one: records.Comparison) -> str:
    """``base -> head``."""
    return f"{one.before.label} {ARROW} {one.after.label}"


# --- drawing --------------------------------------------------------------------------------


class Step(NamedTuple):
    """A row of the ledger as drawn: where it starts and ends, from 0 to 1 of the drawing."""

    row: records.ChangeRow
    start: float
    end: float


class Waterfall(NamedTuple):
    """The rows of a ledger one after the other; ``zero`` is where the latency before stands, ``end`` that after."""

    steps: tuple[Step, ...]
    zero: float
    end: float


def waterfall(rows: Sequence[records.ChangeRow]) -> Waterfall:
    """Steps from the latency before to that after, each starting where the last one ended.

    Example:
        >>> rows = [ChangeRow(cause="host", ns=80, kind="fact"), ChangeRow(cause="unexplained", ns=-20, kind="fact")]
        >>> [(step.start, step.end) for step in waterfall(rows).steps]
        [(0.0, 1.0), (1.0, 0.75)]
    """
    sums = [0]
    for row in rows:
        sums.append(sums[-1] + row.ns)
    low, high = min(sums), max(sums)
    span = high - low or 1
    at = [(total - low) / span for total in sums]
    return Waterfall(
        tuple(Step(row, start, end) for row, start, end in zip(rows, at, at[1:], strict=False)), at[0], at[-1]
    )


def ledger_gap_ns(one: records.Comparison) -> int:
    """The difference of the medians less the sum of the ledger: 0 where it closes."""
    difference = one.after.latency.headline_ns - one.before.latency.headline_ns
    return difference - sum(row.ns for row in one.ledger)
