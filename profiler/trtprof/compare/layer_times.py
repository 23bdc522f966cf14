"""How sure the difference of a region is: its layers' times in every profiled inference, where they were kept.

Some thirty inferences in a row are seen, within milliseconds: what they differ by says nothing of what another process
would have shown. `RUN_TO_RUN` stands in for that, as in `trtprof.compare.samples`, until several runs a side tell.
With many regions some look changed by chance alone, so the share of false ones among those that are called changed is
held down (`samples.discoveries`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from trtprof.base.records import Interval, Significance
from trtprof.compare.regions import Region
from trtprof.compare.samples import LEVEL, discoveries, t_quantile, t_tails
from trtprof.compare.sides import LoadedRun, Runs

RUN_TO_RUN = 0.06
"""Standard deviation of the median time of a layer from run to run of the same thing, over its mean, where nothing else
is known. Measured by ``scripts/bench/compare.py``, which prints it for the machine that it runs on."""
PRIOR_RUNS = 8.0
_DEVIATIONS = 1.4826  # Standard deviations to a median absolute deviation, of a normal distribution
_DEPENDENT = 4.0  # Inferences in a row are alike: as many of them count as one
_MEDIAN_OVER_MEAN = math.sqrt(math.pi / 2)
"""By what the error of a median is larger than that of a mean of samples from a normal distribution."""


class RegionTimes(NamedTuple):
    """The interval of the difference of a region, and whether it changed."""

    interval: Interval
    answer: Significance


class _Times(NamedTuple):
    """Of every region: its mean over the runs in ns, the variance of that by chance, and how the runs differ."""

    level: npt.NDArray[np.float64]
    within: npt.NDArray[np.float64]
    between: npt.NDArray[np.float64]
    runs: int


def region_times(regions: Sequence[Region], before: Runs, after: Runs) -> list[RegionTimes | None]:
    """The interval of every region's difference; None where single inferences were not kept by layer."""
    count = len(regions)
    sides = []
    for runs, later in ((before, False), (after, True)):
        of_layer = {
            layer.name: at for at, region in enumerate(regions) for layer in (region.after if later else region.before)
        }
        found = _times(runs, of_layer, count)
        if found is None:
            return [None] * count
        sides.append(found)
    first, second = sides
    runs_more = first.runs + second.runs - 2
    freedom = PRIOR_RUNS + runs_more
    level = np.maximum(np.maximum(first.level, second.level), 1.0)
    seen = (first.between * (first.runs - 1) + second.between * (second.runs - 1)) / np.square(level)
    share = (PRIOR_RUNS * RUN_TO_RUN**2 + seen) / freedom
    error = np.sqrt(sum(one.within / one.runs + share * np.square(one.level) / one.runs for one in (first, second)))
    difference = np.asarray([region.after_ns - region.before_ns for region in regions], dtype=np.float64)
    tails = t_tails(difference / np.maximum(error, 1e-9), freedom)
    # Kernels of no layer have no launches of their own here.
    told = np.asarray([bool(region.before or region.after) for region in regions])
    changed = np.zeros(count, dtype=np.bool_)
    changed[told] = discoveries(tails[told])
    half = t_quantile(freedom) * error
    return [
        RegionTimes(
            Interval(value=float(ns), low=float(ns - width), high=float(ns + width), level=LEVEL),
            ("slower" if ns > 0 else "faster") if real else "not significant",
        )
        if known
        else None
        for ns, width, real, known in zip(difference, half, changed, told, strict=True)
    ]


def _times(runs: Runs, of_layer: Mapping[str, int], count: int) -> _Times | None:
    levels, errors = [], []
    for run in runs.all:
        found = _inferences(run, of_layer, count)
        if found is None:
            return None
        middle = np.median(found, axis=1)
        spread = _DEVIATIONS * np.median(np.abs(found - middle[:, None]), axis=1)
        # A clock that steps hides what is smaller than a step.
        stepped = run.stepped_ns**2 / 12 / found.shape[1]
        levels.append(middle)
        errors.append(_DEPENDENT * np.square(_MEDIAN_OVER_MEAN * spread) / found.shape[1] + stepped)
    stacked = np.stack(levels)
    within = np.mean(errors, axis=0)
    between = stacked.var(axis=0, ddof=1) if len(levels) > 1 else np.zeros(count)
    return _Times(stacked.mean(axis=0), within, np.maximum(between - within, 0.0), len(levels))


def _inferences(run: LoadedRun, of_layer: Mapping[str, int], count: int) -> npt.NDArray[np.float64] | None:
    """Time of every region in every profiled inference, regions x inferences; None where it was not kept."""
    table = run.launches()
    if table is None or not len(table):
        return None
    layers = table["layer"].astype("category")
    regions = np.asarray([of_layer.get(str(name), -1) for name in layers.cat.categories], dtype=np.int64)
    place = regions[layers.cat.codes.to_numpy()]
    iteration = table["iteration"].to_numpy(dtype=np.int64)
    iteration = iteration - iteration.min()
    inferences = int(iteration.max()) + 1
    own = place >= 0
    flat = np.bincount(
        place[own] * inferences + iteration[own],
        weights=table["self_ns"].to_numpy(dtype=np.float64)[own],
        minlength=count * inferences,
    )
    return np.asarray(flat, dtype=np.float64).reshape(count, inferences)
