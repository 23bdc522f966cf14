"""What became of the latency of two sides, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from trtprof.base.records import Interval, LatencyChange, Significance
from trtprof.base.units import format_ns, format_percent
from trtprof.compare.causes import clock_of_latency
from trtprof.compare.samples import LEVEL, LOWER_DECILE, MEDIAN, RUN_TO_RUN, Change, Samples, change_of, level_of
from trtprof.compare.sides import Runs, probe_noise, unrest


class _QuantileChange(NamedTuple):
    """A change with what is known of the speed of the machine."""

    change: Change  # By the samples alone
    levels: tuple[int, int]  # In whole ns
    difference: Interval  # With its interval, in ns
    ratio: Interval  # With its interval
    speed: float  # Logarithm of how much longer the machine alone makes it, where that may be part of it; else 0

    @property
    def answer(self) -> Significance:
        low, high = self.difference.low, self.difference.high
        return "slower" if low > 0 else "faster" if high < 0 else "not significant"

    @property
    def width(self) -> float:
        """Of the interval that chance alone gives."""
        return self.change.ratio_high - self.change.ratio_low

    @property
    def has_phases(self) -> bool:
        """Whether a side has phases that fill a run, or a good part of one."""
        sides = zip((self.change.before, self.change.after), self.change.levels, strict=True)
        return any(side.drift > 0 or side.apart > _ALIKE * RUN_TO_RUN[MEDIAN] * level for side, level in sides)


def latency_interval(runs: Runs) -> Interval | None:
    """The median latency of a side, with the interval that holds that of other runs of the same, too.

    None where there are no raw samples to tell chance by.
    """
    samples = runs.samples
    if samples is None:
        return None
    median = runs.side.latency.headline_ns
    level, low, high = level_of(samples, unrest(runs))
    # The interval is moved by what the rounding took.
    low, high = max(low + median - level, 0.0), high + median - level
    # A machine that is faster than it was then was disturbed then, which says nothing of the run.
    longer = -math.log(min(runs.over_runs(lambda one: one.run.speed or None) or 1.0, 1.0))
    return Interval(value=median, low=low * math.exp(-_clear_of(longer, _noise(runs))), high=high, level=LEVEL)


def _noise(*sides: Runs) -> float:
    """What the speed of the machine must change by to have changed: a logarithm."""
    return 2 * max(*map(probe_noise, sides), _SAME_CLOCK)


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


def interleaved(before: Runs, after: Runs) -> Interval | None:
    """The gain, before over after, where `trtprof try` measured these two interleaved."""
    for one, other in ((before, after), (after, before)):
        best = one.middle.tried.best if one.middle.tried is not None else None
        places = {Path(best.folder), one.middle.path.parent / Path(best.folder).name} if best and best.folder else set()
        if best and other.middle.path.resolve() in {place.resolve() for place in places}:
            gain = best.gain
            if one is before:
                return gain
            return Interval(value=1 / gain.value, low=1 / gain.high, high=1 / gain.low, level=gain.level)
    return None


def _unless_disturbed(change: LatencyChange, before: Runs, after: Runs) -> LatencyChange:
    """No answer where other processes disturbed a side, or where `trtprof try` measured the opposite, interleaved."""
    gain = interleaved(before, after)
    better: Significance | None = None
    text = "; `trtprof try` measures two candidates interleaved"
    if gain is not None:
        better = "faster" if gain.low > 1 else "slower" if gain.high < 1 else "not significant"
        text = (
            f"; interleaved by `trtprof try` it was {gain.value:.3g}x as fast ({gain.low:.2f} to {gain.high:.2f}): "
            "better evidence than two runs one after the other"
        )
    labels = " and ".join(runs.side.label for runs in (before, after) if runs.disturbed)
    if labels:
        reason = f"other processes left {labels} too few undisturbed inferences{text}"
    elif better is not None and better != change.answer:
        reason = f"these runs say: {change.answer}{text}"
    else:
        return change
    return msgspec.structs.replace(change, answer="not significant", reason=reason)


def _with_interval(before: Runs, after: Runs, earlier: Sequence[Samples], later: Sequence[Samples]) -> LatencyChange:
    first, second = before.side.latency, after.side.latency
    clock = clock_of_latency(before, after)
    median = _quantile_change(
        change_of(earlier, later, (unrest(before), unrest(after))),
        (first.headline_ns, second.headline_ns),
        _clear_of(clock, _noise(before, after)),
        clock,
    )
    found = change_of(earlier, later, at=LOWER_DECILE)
    quiet = _quiet_speed(before, after)
    lower = _quantile_change(found, (round(found.levels[0]), round(found.levels[1])), quiet, quiet)
    telling, answer = _telling(median, lower)
    return LatencyChange(
        difference_ns=median.difference,
        ratio=median.ratio,
        lower_ns=lower.levels,
        lower_difference_ns=lower.difference,
        lower_ratio=lower.ratio,
        told_by="lower decile" if telling is lower else "median",
        answer=answer,
        samples_before=sum(map(len, earlier)),
        samples_after=sum(map(len, later)),
        method=_method(telling, before, after, lower=telling is lower),
        reason=_reason(answer, telling, median if telling is lower else lower),
    )


def _telling(median: _QuantileChange, lower: _QuantileChange) -> tuple[_QuantileChange, Significance]:
    """By which of both the answer is told, and the answer."""
    telling, other = (lower, median) if lower.width < median.width else (median, lower)
    answers = {telling.answer, other.answer} - {"not significant"}
    if len(answers) == 2:
        return telling, "not significant"
    if telling is lower and telling.answer != median.answer and answers == {median.answer} and not median.has_phases:
        return median, median.answer
    return telling, telling.answer


def _quantile_change(change: Change, levels: tuple[int, int], shift: float, speed: float) -> _QuantileChange:
    """The change in whole ns, its interval widened by what the speed of the machine may have to do with it.

    Args:
        levels: Both quantiles in whole ns, as the document has them.
    """
    difference = levels[1] - levels[0]
    ratio = levels[1] / levels[0] if levels[0] else 1.0
    # The interval is moved by what the rounding took.
    low, high = change.low + difference - change.difference, change.high + difference - change.difference
    ratio_low, ratio_high = change.ratio_low + ratio - change.ratio, change.ratio_high + ratio - change.ratio
    if shift:
        # What the speed of the machine alone makes of it may be all of it: both answers are held.
        by_clock = levels[0] * math.expm1(shift)
        low, high = min(low, low - by_clock), max(high, high - by_clock)
        by = math.exp(-shift)
        ratio_low, ratio_high = min(ratio_low, ratio_low * by), max(ratio_high, ratio_high * by)
    return _QuantileChange(
        change,
        levels,
        Interval(value=difference, low=low, high=high, level=LEVEL),
        Interval(value=ratio, low=max(ratio_low, 0.0), high=ratio_high, level=LEVEL),
        speed if shift else 0.0,
    )


_ALIKE = 3.0  # Runs of a side that differ by more than so many standard deviations are not alike
_SAME_CLOCK = 0.005  # A clock that differs by less is the same
_QUIET_STEP = 0.10
"""Speed probes must differ by more to say something of the quieter part of a run: they look at other moments."""


def _clear_of(clock: float, noise: float) -> float:
    """A change of speed less what it may differ by anyway."""
    return math.copysign(max(abs(clock) - noise, 0.0), clock)


def _quiet_speed(before: Runs, after: Runs) -> float:
    """Logarithm of how much longer the undisturbed machine takes: by its clocks, else by the fastest probes."""
    if any(run.run.clocks is not None for runs in (before, after) for run in runs.all):
        return _clear_of(clock_of_latency(before, after), 2 * _SAME_CLOCK)
    earlier, later = (
        runs.over_runs(lambda one: min(one.capture.probe_ns) if one.capture and one.capture.probe_ns else None)
        for runs in (before, after)
    )
    same = before.middle.run.device.name == after.middle.run.device.name
    if not earlier or not later or not same or before.middle.ceilings.threads != after.middle.ceilings.threads:
        return 0.0
    clock = math.log(later / earlier)
    return clock if abs(clock) > _QUIET_STEP else 0.0


def _method(told: _QuantileChange, before: Runs, after: Runs, *, lower: bool) -> str:
    found = told.change
    what = "lower deciles" if lower else "medians"
    assumed = format_percent(RUN_TO_RUN[LOWER_DECILE if lower else MEDIAN])
    several = max(len(before.all), len(after.all)) > 1
    blocks = f"{found.blocks} sample{'' if found.blocks == 1 else 's'}"
    if several:
        between = (
            f"runs spread as their own {what} do ({len(before.all)} and {len(after.all)} runs), pooled with "
            f"{assumed} from experience"
        )
    else:
        between = f"one run a side: processes are taken to differ by {assumed}, from experience"
    drift = max(found.before.drift, found.after.drift)
    drifted = f"; phases as long as a run add {format_ns(drift)}" if drift else ""
    return (
        f"difference of the {what} of raw samples; {format_percent(LEVEL)} interval by a bootstrap of blocks of about "
        f"{blocks} (Politis and White), and {between}{drifted}"
    )


def _reason(answer: Significance, told: _QuantileChange, other: _QuantileChange) -> str:
    found = told.change
    if answer != "not significant":
        return f"the whole interval is {'above' if answer == 'slower' else 'below'} 0"
    if told.answer != "not significant":
        return f"p10 and the median contradict each other: {told.answer} and {other.answer}"
    text = "the interval holds 0"
    if told.speed and (found.low > 0 or found.high < 0):
        return (
            f"{text}: the machine ran at {math.exp(-told.speed):.3g} times the speed, which may be all of the "
            "difference (clocks, or speed probes around the runs)"
        )
    spreads = {
        "chance within a run": max(found.before.within, found.after.within),
        "what differs from run to run": max(found.before.between, found.after.between),
        "phases as long as a run (a shared machine?)": max(found.before.drift, found.after.drift),
    }
    return f"{text}; most of its width is {max(spreads, key=lambda key: spreads[key])}"
