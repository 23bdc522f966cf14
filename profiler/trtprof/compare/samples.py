"""How sure a difference of two medians is, from raw samples that depend on one another.

Latency samples of one run are not independent: clocks, neighbours and caches hold for many inferences, and a shared
machine has phases of seconds. Three things move a median, and each has its own term:

1. *Within a run*: what chance makes of samples that depend on one another. By a bootstrap of blocks (H. R. Künsch, The
   jackknife and the bootstrap for general stationary observations, Annals of Statistics 17(3), 1989; blocks that do not
   overlap: E. Carlstein, Annals of Statistics 14(3), 1986). The length of a block is found in the data (D. N. Politis,
   H. White, Automatic block-length selection for the dependent bootstrap, Econometric Reviews 23(1), 2004, corrected by
   A. Patton, D. Politis, H. White, Econometric Reviews 28(4), 2009), for the series that decides where a median lies:
   whether a sample is above it.
2. *Drift*: phases as long as a run. They do not average out within it: medians of its quarters lie as far apart as
   those of its sixteenths. What does not shrink with the length of a segment is found by comparing medians of 8 and of
   32 segments, and counts as it stands: the run is one draw of it.
3. *From run to run*: another process has other addresses, other threads on other cores. A single run tells nothing of
   it: `RUN_TO_RUN` stands in for it, a figure that was measured once. With several runs a side their own spread takes
   over: both are pooled by their degrees of freedom (the moderated variance of G. K. Smyth, Statistical Applications in
   Genetics and Molecular Biology 3(1), 2004), so that two runs which agree by chance do not make an interval of no
   width; where runs lie further apart than is assumed, their spread stands alone. Resampling two or three runs would
   not do: it finds sqrt(1/2) or sqrt(2/3) of their spread, and no tails. Runs are therefore drawn from Student's t with
   the pooled spread, blocks from the runs: two levels, as T. Kalibera, R. Jones, Rigorous benchmarking in reasonable
   time, ISMM 2013, has them.

The generator has a fixed seed: same samples, same interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Samples = npt.NDArray[np.float64]

LEVEL = 0.95
RESAMPLES = 2000
SEED = 20041
FEWEST = 5  # Samples of a run below which nothing is said of their spread

RUN_TO_RUN = 0.01
"""Standard deviation of the medians of runs of the same thing, over their mean, where nothing else is known.

Measured by ``scripts/bench/compare.py``, which prints it for the machine that it runs on.
"""
PRIOR_RUNS = 8.0  # Degrees of freedom that `RUN_TO_RUN` counts as: so many, and a few runs, weigh about the same

_PRIOR_DRIFT = 2.0  # Degrees of freedom of what the phases within runs say of how runs differ
_BINS = 256
_SERIES = 4096  # A longer run is thinned to so many consecutive batches before its dependence is looked at
_FEWEST_BLOCKS, _MOST_BLOCKS = 12, 128
_COARSE, _FINE = 8, 32
_DEVIATIONS = 1.4826  # Standard deviations to a median absolute deviation, of a normal distribution
_DRIFT_RATIO = 1.72
"""The 90 % point of chi-square with 7 degrees of freedom, over 7: what chance makes of the variance of 8 segments."""


class Change(NamedTuple):
    """The difference of the medians of two sides, after less before, and its ratio, with intervals."""

    difference: float  # Of the medians of all samples of each side, in ns
    low: float  # Lower end of its interval
    high: float  # Upper end
    ratio: float  # After over before
    ratio_low: float  # Lower end of its interval
    ratio_high: float  # Upper end
    # What moves the medians, each as a standard deviation in ns, of the side that has more of it
    within: float  # By chance within the run
    drift: float  # By phases as long as the run
    between: float  # From run to run, as pooled with what is known beforehand
    blocks: int  # Length of a block in samples, the median over the runs


def change_of(before: Sequence[npt.NDArray[Any]], after: Sequence[npt.NDArray[Any]]) -> Change:
    """Interval of the difference of two medians, of samples in ns of each run of a side: `FEWEST` at least."""
    sides = first, second = _side(before), _side(after)
    between = _between(sides)
    # The lower side always draws first, so that swapping the sides changes signs and nothing else.
    drawn = [np.zeros(1), np.zeros(1)]
    generator = np.random.default_rng(SEED)
    for place in sorted((0, 1), key=lambda place: sides[place].order):
        side = sides[place]
        # Of two runs in three that are slow the pooled median makes a slow side; their mean is less easily led.
        centre = side.levels.mean() - side.level if len(side.runs) > 1 else 0.0
        drawn[place] = _resampled(side, between[place], generator) + centre
    difference = second.level - first.level
    low, high = _ends(drawn[1] - drawn[0], difference)
    ratio = second.level / first.level if first.level else 1.0
    ratio_low, ratio_high = _ends(drawn[1] / np.maximum(drawn[0], 1e-9 + 0.01 * first.level), ratio)
    return Change(
        difference, low, high, ratio, max(ratio_low, 0.0), ratio_high,
        max(side.within for side in sides), max(side.drift for side in sides),
        max(one.value * side.level for side, one in zip(sides, between, strict=True)),
        int(np.median([*first.blocks, *second.blocks])),
    )  # fmt: skip


def level_of(runs: Sequence[npt.NDArray[Any]]) -> tuple[float, float, float]:
    """The median of a side, and the ends of its interval: that of one side of `change_of`.

    Two such intervals that do not depend on one another are as wide together, as the root of the sum of their squares,
    as that of the difference.

    Args:
        runs: Samples in ns of each run, as `change_of` takes them.
    """
    side = _side(runs)
    (between,) = _between((side,))
    return side.level, *_ends(_resampled(side, between, np.random.default_rng(SEED)), side.level)


class _Side(NamedTuple):
    runs: list[Samples]
    level: float  # The median of all samples
    levels: Samples  # That of each run
    blocks: list[int]  # Length of a block of each run
    within: float
    drift: float
    values: Samples  # What the bins of the histograms stand for
    histograms: list[npt.NDArray[np.float32]]  # Of each run: blocks x bins, how many samples

    @property
    def order(self) -> tuple[float, list[list[float]]]:
        """What tells it from any other side."""
        return self.level, [run.tolist() for run in self.runs]


def _side(runs: Sequence[npt.NDArray[Any]]) -> _Side:
    arrays = [np.asarray(samples, dtype=np.float64) for samples in runs]
    together = np.concatenate(arrays)
    edges, values = _bins(together)
    blocks = [block_length(samples) for samples in arrays]
    histograms = [_histogram(run, block, edges, len(values)) for run, block in zip(arrays, blocks, strict=True)]
    levels = np.asarray([np.median(samples) for samples in arrays])
    within = math.sqrt(float(np.mean([_within(histogram, values) ** 2 for histogram in histograms])))
    drift = math.sqrt(float(np.mean([drift_of(samples) ** 2 for samples in arrays])))
    return _Side(arrays, float(np.median(together)), levels, blocks, within, drift, values, histograms)


def block_length(samples: npt.NDArray[Any]) -> int:
    """Length of the blocks to resample for the median of a dependent series, in samples.

    That of Politis and White (2004; 2009) for whether a sample is above the median; never so long that fewer than 12
    blocks are left, nor so short that there are more than 128.
    """
    n = len(samples)
    step = max(n // _SERIES, 1)
    above = np.sign(samples - np.median(samples))[: n // step * step].reshape(-1, step).mean(axis=1)
    best = _politis_white(above) * step
    return int(min(max(best, n // _MOST_BLOCKS, 1), max(n // _FEWEST_BLOCKS, 1)))


def _politis_white(series: Samples) -> int:
    n = len(series)
    series = series - series.mean()
    size = 1 << (2 * n - 1).bit_length()
    spectrum = np.fft.rfft(series, size)
    covariance = np.fft.irfft(spectrum * np.conj(spectrum), size)[:n] / n
    if covariance[0] <= 0:
        return 1
    correlation = covariance / covariance[0]
    # The first lag after which a stretch of correlations cannot be told from 0.
    stretch: int = max(5, math.ceil(math.sqrt(math.log10(n)))) if n > 1 else 1
    limit = 2 * math.sqrt(math.log10(max(n, 2)) / n)
    most = min(math.ceil(math.sqrt(n)) * 4 + stretch, n - 1)
    small = np.abs(correlation[1 : most + 1]) < limit
    last = next((lag for lag in range(len(small)) if small[lag : lag + stretch].all()), len(small))
    if not last:
        return 1
    window = min(2 * last, n - 1)
    lags = np.arange(1, window + 1)
    share = lags / window
    flat_top = np.where(share <= 0.5, 1.0, 2.0 * (1.0 - share))
    weighted = flat_top * covariance[1 : window + 1]
    g = 2.0 * float(np.sum(weighted * lags))
    long_run = float(covariance[0] + 2.0 * np.sum(weighted))
    if long_run <= 0 or g <= 0:
        return 1
    # For blocks of a fixed length: D = 4/3 of the square of the long-run variance.
    best = math.cbrt(2 * g * g / (4 / 3 * long_run**2) * n)
    return max(1, round(best))


def drift_of(samples: npt.NDArray[Any]) -> float:
    """Standard deviation in ns of what does not average out along a run; 0 where it cannot be told from chance."""
    if len(samples) < 2 * _FINE:
        return 0.0
    medians = [np.asarray([np.median(part) for part in np.array_split(samples, count)]) for count in (_COARSE, _FINE)]
    coarse, fine = (float(np.var(values, ddof=1)) for values in medians)
    by_chance = fine * _COARSE / _FINE
    if coarse <= _DRIFT_RATIO * by_chance:
        return 0.0
    # A phase of a few segments does not move the median of a run: what most of them do counts.
    usual = _DEVIATIONS * float(np.median(np.abs(medians[0] - np.median(medians[0]))))
    lasting = math.sqrt(max((coarse - by_chance) * _FINE / (_FINE - _COARSE), 0.0))
    return min(lasting, usual)


def _bins(samples: Samples) -> tuple[Samples, Samples]:
    """Edges of bins of about equal counts, and the value that each stands for: the median of its samples."""
    ordered = np.sort(samples)
    places = np.unique(np.linspace(0, len(ordered), min(_BINS, len(ordered)) + 1).astype(int))
    edges = np.unique(ordered[places[1:-1]]) if len(places) > 2 else ordered[:0]
    starts = np.searchsorted(ordered, edges)
    bounds = np.concatenate([[0], starts, [len(ordered)]])
    bounds = np.unique(bounds)
    values = ordered[(bounds[:-1] + bounds[1:] - 1) // 2]
    return ordered[bounds[1:-1]], values


def _histogram(samples: Samples, length: int, edges: Samples, bins: int) -> npt.NDArray[np.float32]:
    places = np.searchsorted(edges, samples, side="right")
    count = max(len(samples) // length, 1)
    block = np.minimum(np.arange(len(places)) * count // len(places), count - 1)
    # Whole numbers, exact in fp32 up to 16 million samples.
    return np.bincount(block * bins + places, minlength=count * bins).reshape(count, bins).astype(np.float32)


def _medians(counts: npt.NDArray[np.float32], values: Samples) -> Samples:
    """The median of each row of a table of counts."""
    summed = np.cumsum(counts, axis=1)
    return np.asarray(values[np.argmax(summed >= summed[:, -1:] / 2, axis=1)])


def _drawn_counts(
    histogram: npt.NDArray[np.float32], generator: np.random.Generator, times: int
) -> npt.NDArray[np.float32]:
    blocks = len(histogram)
    # Counting drawn blocks takes a third of the time of drawing the counts, which are multinomial.
    drawn = generator.integers(blocks, size=(times, blocks)) + blocks * np.arange(times)[:, np.newaxis]
    weights = np.bincount(drawn.ravel(), minlength=times * blocks).reshape(times, blocks)
    return np.asarray(weights.astype(np.float32) @ histogram)


def _within(histogram: npt.NDArray[np.float32], values: Samples) -> float:
    drawn = _medians(_drawn_counts(histogram, np.random.default_rng(SEED), 400), values)
    return float(np.std(drawn)) * _few_blocks(len(histogram))


def _few_blocks(blocks: int) -> float:
    """By what an interval from few blocks is too narrow: the bias of their variance, and Student's tails."""
    if blocks < 2:
        return 1.0
    return math.sqrt(blocks / (blocks - 1)) * t_quantile(blocks - 1.0) / t_quantile(math.inf)


class Deviation(NamedTuple):
    """What runs or processes differ by: a standard deviation as a share, and its degrees of freedom."""

    value: float
    freedom: float

    @property
    def width(self) -> float:
        return self.value * t_quantile(self.freedom)


def _between(sides: Sequence[_Side]) -> list[Deviation]:
    """What each side differs by from run to run: measured and assumed, pooled, or measured where that is more."""
    weight, seen = 0.0, 0.0
    for side in sides:
        if len(side.runs) > 1 and side.level:
            weight += len(side.runs) - 1
            apart = float(np.var(side.levels, ddof=1)) - side.within**2
            seen += (len(side.runs) - 1) * max(apart, 0.0) / side.level**2
    measured = Deviation(math.sqrt(seen / weight), weight) if weight > 1 else Deviation(0.0, math.inf)
    found = []
    for side in sides:
        drift = (side.drift / side.level) ** 2 if side.level else 0.0
        assumed = RUN_TO_RUN**2 + drift * _PRIOR_DRIFT / (_PRIOR_DRIFT + weight)
        pooled = Deviation(math.sqrt((PRIOR_RUNS * assumed + seen) / (PRIOR_RUNS + weight)), PRIOR_RUNS + weight)
        # What is assumed must not talk down what was seen.
        found.append(max(pooled, measured, key=lambda one: one.width))
    return found


def _resampled(side: _Side, between: Deviation, generator: np.random.Generator) -> Samples:
    """Medians of a side as they might have come out."""
    counts = sum(
        (_drawn_counts(histogram, generator, RESAMPLES) for histogram in side.histograms), start=np.zeros(1, np.float32)
    )
    drawn = _medians(np.asarray(counts), side.values)
    widened = side.level + (drawn - side.level) * _few_blocks(sum(len(h) for h in side.histograms))
    freedom = between.freedom
    tail = generator.standard_normal(RESAMPLES) / np.sqrt(generator.chisquare(freedom, RESAMPLES) / freedom)
    return np.asarray(widened + tail * between.value * side.level / math.sqrt(len(side.runs)))


def _ends(drawn: Samples, value: float) -> tuple[float, float]:
    """The interval of percentiles, which always holds the value itself."""
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return min(float(low), value), max(float(high), value)


def t_quantile(freedom: float, tail: float = (1 - LEVEL) / 2) -> float:
    """Upper quantile of Student's t, by D. L. Wallace (Annals of Mathematical Statistics 30, 1959).

    For a tail of 2.5 % it is 4 % too wide at 2 degrees of freedom, and within 1.5 % from 4 on.
    """
    z = NormalDist().inv_cdf(1 - tail)
    if math.isinf(freedom):
        return z
    scaled = z * (8 * freedom + 3) / (8 * freedom + 1)
    return math.sqrt(freedom * math.expm1(scaled * scaled / freedom))


def t_tails(t: npt.NDArray[Any], freedom: float | npt.NDArray[Any]) -> Samples:
    """Both tails of Student's t beyond +-t: how often chance alone goes so far; by Wallace, as `t_quantile`."""
    z = (8 * freedom + 1) / (8 * freedom + 3) * np.sqrt(freedom * np.log1p(np.square(t) / freedom))
    erfc = np.frompyfunc(math.erfc, 1, 1)
    return np.asarray(erfc(z / math.sqrt(2)), dtype=np.float64)


def discoveries(tails: npt.NDArray[Any], rate: float = 1 - LEVEL) -> npt.NDArray[np.bool_]:
    """Which of many changes count as real, when of those at most ``rate`` may be false on average."""
    order = np.argsort(tails, kind="stable")
    limits = rate * np.arange(1, len(tails) + 1) / max(len(tails), 1)
    passed = np.flatnonzero(np.asarray(tails)[order] <= limits)
    found = np.zeros(len(tails), dtype=np.bool_)
    if len(passed):
        found[order[: passed[-1] + 1]] = True
    return found
