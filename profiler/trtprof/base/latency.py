"""What samples of latency come to: medians, because run times are skewed.

There is one definition for all that is measured, read from a file or pooled over runs: the median, and the 99th
percentile interpolated linearly between the two ranks around it, as numpy does by default (of 100 samples between the
last two); ``cv`` is the standard deviation of the samples themselves (not of a population that they stand for) over
their mean. Times are in ns, rounded to whole ones.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from trtprof.base.records import Latency


def latency_of(samples_ns: npt.NDArray[Any] | Sequence[int]) -> Latency:
    """Summary of latency samples in ns."""
    if len(samples_ns) == 0:
        raise ValueError("no latency samples")
    mean = float(np.mean(samples_ns))
    return Latency(
        median_ns=round(float(np.median(samples_ns))),
        p99_ns=percentile_ns(samples_ns, 99),
        cv=float(np.std(samples_ns)) / mean if mean else 0.0,
        n=len(samples_ns),
        mean_ns=round(mean),
        min_ns=int(np.min(samples_ns)),
        max_ns=int(np.max(samples_ns)),
        p10_ns=percentile_ns(samples_ns, 10),
    )


def percentile_ns(samples_ns: npt.NDArray[Any] | Sequence[int], percent: float) -> int:
    """A percentile of samples in ns, by the one definition of all of them; ``percent`` is from 0 to 100."""
    return round(float(np.percentile(samples_ns, percent)))


def latency_of_sum(ns: int) -> Latency:
    """A time that stands for a latency, of no sample: the sum of what is known."""
    return Latency(median_ns=ns, p99_ns=ns, cv=0.0, n=0)


def median_ns(times_ns: Iterable[int]) -> int:
    """The median in whole ns; 0 of none."""
    known = [int(ns) for ns in times_ns]
    return round(statistics.median(known)) if known else 0
