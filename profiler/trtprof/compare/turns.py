"""How sure a gain is that was measured in turns: rounds of fresh processes, and pairs of neighbouring turns in each.

Neighbouring turns share what the machine does meanwhile: clocks, neighbours, heat. What is averaged is therefore the
difference of the logarithms of their medians, pair by pair. Two things are left that move the mean:

1. *From pair to pair*: chance within turns, and phases of the machine that begin or end between two turns. The variance
   over the pairs of a round holds both. Pairs begin with each side in turn, so that an even drift adds to one what it
   takes from the next: it makes the variance larger, and the mean no worse.
2. *From round to round*: other processes have other addresses and other threads on other cores, which no number of
   turns averages out. As in `compare.samples`, whose figure `RUN_TO_RUN` counts here once for each of the two
   processes of a round, the spread of the rounds is pooled with what is assumed by degrees of freedom (the moderated
   variance of G. K. Smyth, Statistical Applications in Genetics and Molecular Biology 3(1), 2004), so that two rounds
   which agree by chance make no interval of no width; where rounds lie further apart than that, their spread stands
   alone. Variances are added by F. E. Satterthwaite (Biometrics Bulletin 2(6), 1946).

All this is done for the lower decile, too: what neighbours, interrupts and clocks do only adds time, so that low
quantiles of a shared machine hold still while its median moves (J. Chen, J. Revels, Robust benchmarking in noisy
environments, IEEE HPEC 2016). The narrower of both intervals tells.

Of several variants that are held against one original some would seem to help by chance. The family-wise error rate is
kept, by S. Holm (A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6(2),
1979): in at most 5 % of all commands is *any* variant called faster or slower that is not, whatever the others are and
however they depend on one another. The false discovery rate (`samples.discoveries`) would allow one false gain beside
every nineteen true ones; of a table of regions that is good enough, but a rung that is said to help is put into the
model. Rounds that a variant was chosen by must not be among those that judge it: the best of many is the luckiest, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from trtprof.base.records import Significance
from trtprof.compare.samples import LEVEL, PRIOR_RUNS, RUN_TO_RUN, Deviation, t_quantile, t_tails

MEDIAN, LOWER_DECILE = 0.5, 0.1
_PROCESSES = {MEDIAN: RUN_TO_RUN, LOWER_DECILE: 0.009}  # As `RUN_TO_RUN`, of a quantile of the samples

Turns = tuple[npt.NDArray[Any], npt.NDArray[Any], *tuple[Any, ...]]
"""Of neighbouring turns before and after: latencies in ns (`capture.turns.Pair`)."""


class TurnsChange(NamedTuple):
    """What became of the latency, by turns."""

    log: float  # Mean of the logarithms of before over after: above 0 it became faster
    error: float  # Standard error of that
    freedom: float  # Degrees of freedom of the error
    levels: tuple[float, float]  # Of each side in ns, the median over all turns of the quantile that tells
    rounds: int  # How many
    pairs: int  # How many in all
    contradicted: float | None = None  # The other quantile's mean where it says the opposite, beyond chance
    before_ns: float = 0.0  # Median of all samples before
    undisturbed: bool = False  # Whether its samples are those in which no thread waited for a CPU
    all_ran: float | None = None  # See `capture.turns.Turn`; the mean over the turns of the side where it is less

    @property
    def gain(self) -> float:
        """Before over after: 2 is twice as fast."""
        return math.exp(self.log)

    @property
    def tail(self) -> float:
        """How often chance alone makes as much of it, to either side: the two-sided p-value."""
        if self.contradicted is not None:
            return 1.0
        return float(t_tails(np.asarray([abs(self.log) / self.error]), self.freedom)[0])

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Interval of the gain, of which so many hold the true one."""
        half = self.error * t_quantile(self.freedom, (1 - level) / 2)
        ends = (self.log, self.log if self.contradicted is None else self.contradicted)
        return math.exp(min(ends) - half), math.exp(max(ends) + half)


def change_of_turns(rounds: Sequence[Sequence[Turns]]) -> TurnsChange:
    """Gain of one side over another; swapping the sides turns it around, and changes nothing else.

    Args:
        rounds: Of fresh processes, each with its pairs of turns. Of fewer than two rounds, or four pairs in each, too
            little is seen of a restless machine: the interval is then too narrow there (by simulation: 85 to 93 %).
    """
    held = [pairs for pairs in rounds if len(pairs)]
    if not held:
        raise ValueError("there are no turns to tell a change by")
    found = [_change_at(held, at) for at in (MEDIAN, LOWER_DECILE)]
    telling, other = sorted(found, key=lambda one: one.error * t_quantile(one.freedom))
    opposed = telling.log * other.log < 0 and max(telling.tail, other.tail) < 1 - LEVEL
    return telling._replace(contradicted=other.log) if opposed else telling


def _change_at(rounds: Sequence[Sequence[Turns]], at: float) -> TurnsChange:
    levels = [np.asarray([[np.quantile(side, at) for side in pair[:2]] for pair in pairs]) for pairs in rounds]
    logs = [np.log(each[:, 0] / each[:, 1]) for each in levels]
    means = np.asarray([each.mean() for each in logs])
    # What processes differ by: two of them a round. Of each, the figure of runs that followed one another.
    assumed = 2 * _PROCESSES[at] ** 2
    paired = [(len(each) - 1, float(np.var(each, ddof=1))) for each in logs if len(each) > 1]
    freedom_within = float(sum(freedom for freedom, _ in paired))
    # Where a round has a single pair nothing tells what chance makes of it: as much as of two processes is taken.
    within = sum(freedom * variance for freedom, variance in paired) / freedom_within if paired else assumed
    chance = within * float(np.mean([1 / len(each) for each in logs]))
    expected, freedom = _sum_of((assumed, PRIOR_RUNS), (chance, freedom_within or PRIOR_RUNS))
    freedom = min(freedom, PRIOR_RUNS)
    weight = len(rounds) - 1
    seen = float(np.var(means, ddof=1)) if weight else 0.0
    between = Deviation(math.sqrt((freedom * expected + weight * seen) / (freedom + weight)), freedom + weight)
    if weight > 1:
        # What is assumed must not talk down what was seen; two rounds alone would tell of almost nothing.
        between = max(between, Deviation(math.sqrt(seen), weight), key=lambda one: one.width)
    together = np.concatenate(levels)
    return TurnsChange(
        log=float(means.mean()),
        error=between.value / math.sqrt(len(rounds)),
        freedom=between.freedom,
        levels=(float(np.median(together[:, 0])), float(np.median(together[:, 1]))),
        rounds=len(rounds),
        pairs=sum(map(len, rounds)),
        before_ns=float(np.median(np.concatenate([pair[0] for pairs in rounds for pair in pairs]))),
    )


def _sum_of(*variances: tuple[float, float]) -> tuple[float, float]:
    """Sum of variances, each with its degrees of freedom, and the degrees of freedom of that."""
    total = sum(variance for variance, _ in variances)
    parts = sum(variance**2 / freedom for variance, freedom in variances)
    return total, total**2 / parts if parts else math.inf


class Judged(NamedTuple):
    """A change among several, and what may be said of it."""

    change: TurnsChange  # The change
    level: float  # Of its interval, which is wider than that of a change alone
    low: float  # Lower end of the interval of its gain
    high: float  # Upper end
    answer: Significance  # By this interval: ``faster`` where all of it is above 1


def judged(changes: Sequence[TurnsChange], rate: float = 1 - LEVEL) -> list[Judged]:
    """What may be said of changes that are looked at together, so that at most ``rate`` of such looks err at all."""
    tails = [change.tail for change in changes]
    levels = [0.0] * len(changes)
    rejecting, left = True, len(changes)
    for place in sorted(range(len(changes)), key=lambda place: (tails[place], place)):
        levels[place] = 1 - rate / left
        rejecting = rejecting and tails[place] <= rate / left
        # From the first on that does not pass, all are held against the limit that it did not pass.
        left -= rejecting
    found = []
    for change, level in zip(changes, levels, strict=True):
        low, high = change.interval(level)
        answer: Significance = "faster" if low > 1 else "slower" if high < 1 else "not significant"
        found.append(Judged(change, level, low, high, answer))
    return found
