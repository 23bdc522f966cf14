"""What became of the latency of two sides, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import msgspec

from trtprof.base.records import Interval, LatencyChange, Significance
from trtprof.base.units import format_ns, format_percent
from trtprof.compare.causes import clock_of_latency
from trtprof.compare.samples import LEVEL, RUN_TO_RUN, Change, Samples, change_of, level_of
from trtprof.compare.sides import Runs

_SAME_CLOCK = 0.01  # A clock that differs by less is the same


def latency_interval(runs: Runs) -> Interval | None:
    """The median latency of a side, with the interval that holds that of other runs of the same, too.

    None where there are no raw samples to tell chance by.
    """
    samples = runs.samples
    if samples is None:
        return None
    median = runs.side.latency.headline_ns
    level, low, high = level_of(samples)
    # The interval is moved by what the rounding took.
    return Interval(value=median, low=max(low + median - level, 0.0), high=high + median - level, level=LEVEL)


def latency_change(before: Runs, after: Runs) -> LatencyChange:
    """What became of the latency."""
    first, second = before.side.latency.headline_ns, after.side.latency.headline_ns
    difference = second - first
    ratio = second / first if first else 1.0
    samples = before.samples, after.samples
    same = {run.path.resolve() for run in before.all} == {run.path.resolve() for run in after.all}
    if same:
        level, method, reason = LEVEL, "the same samples on both sides", "both sides are the same runs"
    elif samples[0] is None or samples[1] is None or not first or not second:
        level, method = 0.0, "medians alone, without an interval"
        without = " and ".join(runs.side.label for runs in (before, after) if runs.samples is None)
        reason = f"significance cannot be told: {without or 'a side'} has no raw samples to tell chance by"
    else:
        return _unless_disturbed(_with_interval(before, after, samples[0], samples[1]), before, after)
    return LatencyChange(
        difference_ns=Interval(value=difference, low=difference, high=difference, level=level),
        ratio=Interval(value=ratio, low=ratio, high=ratio, level=level),
        answer="not significant",
        samples_before=sum(map(len, samples[0] or ())),
        samples_after=sum(map(len, samples[1] or ())),
        method=method,
        reason=reason,
    )


def _unless_disturbed(change: LatencyChange, before: Runs, after: Runs) -> LatencyChange:
    """No answer where other processes disturbed a side, or where `trtprof try` measured the opposite, interleaved."""
    gain, back = _tried(before, after), _tried(after, before)
    if back is not None:
        gain = Interval(value=1 / back.value, low=1 / back.high, high=1 / back.low, level=back.level)
    better, text = change.answer, "; `trtprof try` measures two candidates interleaved"
    if gain is not None:
        better = _answer(1, gain.low, gain.high, "faster", "slower")
        text = (
            f"; interleaved by `trtprof try` it was {gain.value:.3g}x as fast ({gain.low:.2f} to {gain.high:.2f}): "
            "better evidence than two runs one after the other"
        )
    labels = " and ".join(runs.side.label for runs in (before, after) if runs.disturbed)
    if not labels and better == change.answer:
        return change
    told = f"these runs say: {change.answer}"
    if labels:
        told = f"other processes left {labels} too few undisturbed inferences"
    return msgspec.structs.replace(change, answer="not significant", reason=f"{told}{text}")


def _tried(base: Runs, best: Runs) -> Interval | None:
    """The gain of ``best`` over ``base`` where `trtprof try` found it there."""
    found = base.middle.tried.best if base.middle.tried is not None else None
    if found is None or not found.folder:
        return None
    folder = Path(found.folder)
    places = (folder.resolve(), (base.middle.path.parent / folder.name).resolve())
    return found.gain if best.middle.path.resolve() in places else None


def _answer(zero: float, low: float, high: float, above: Significance, below: Significance) -> Significance:
    return above if low > zero else below if high < zero else "not significant"


def _with_interval(before: Runs, after: Runs, earlier: Sequence[Samples], later: Sequence[Samples]) -> LatencyChange:
    first, second = before.side.latency.headline_ns, after.side.latency.headline_ns
    found = change_of(earlier, later)
    clock = clock_of_latency(before, after)
    longer = math.copysign(max(abs(clock) - _SAME_CLOCK, 0.0), clock)
    # What the clock alone makes of it may be all of it: both answers are held.
    difference, ratio = second - first, second / first
    low, high = found.low + difference - found.difference, found.high + difference - found.difference
    by_clock = first * math.expm1(longer)
    low, high = min(low, low - by_clock), max(high, high - by_clock)
    ratio_low, ratio_high = found.ratio_low + ratio - found.ratio, found.ratio_high + ratio - found.ratio
    by = math.exp(-longer)
    ratio_low, ratio_high = min(ratio_low, ratio_low * by), max(ratio_high, ratio_high * by)
    answer = _answer(0, low, high, "slower", "faster")
    return LatencyChange(
        difference_ns=Interval(value=difference, low=low, high=high, level=LEVEL),
        ratio=Interval(value=ratio, low=max(ratio_low, 0.0), high=ratio_high, level=LEVEL),
        answer=answer,
        samples_before=sum(map(len, earlier)),
        samples_after=sum(map(len, later)),
        method=_method(found, before, after),
        reason=_reason(answer, found, clock if longer else 0.0),
    )


def _method(found: Change, before: Runs, after: Runs) -> str:
    assumed = format_percent(RUN_TO_RUN)
    blocks = f"{found.blocks} sample{'' if found.blocks == 1 else 's'}"
    if max(len(before.all), len(after.all)) > 1:
        between = (
            f"runs spread as their own medians do ({len(before.all)} and {len(after.all)} runs), pooled with "
            f"{assumed} from experience"
        )
    else:
        between = f"one run a side: processes are taken to differ by {assumed}, from experience"
    drifted = f"; phases as long as a run add {format_ns(found.drift)}" if found.drift else ""
    return (
        f"difference of the medians of raw samples; {format_percent(LEVEL)} interval by a bootstrap of blocks of about "
        f"{blocks} (Politis and White), and {between}{drifted}"
    )


def _reason(answer: Significance, found: Change, clock: float) -> str:
    if answer != "not significant":
        return f"the whole interval is {'above' if answer == 'slower' else 'below'} 0"
    text = "the interval holds 0"
    if clock and (found.low > 0 or found.high < 0):
        return f"{text}: the machine ran at {math.exp(-clock):.3g} times the speed, which may be all of the difference"
    spreads = {
        "chance within a run": found.within,
        "what differs from run to run": found.between,
        "phases as long as a run (a shared machine?)": found.drift,
    }
    return f"{text}; most of its width is {max(spreads, key=lambda key: spreads[key])}"
