"""Statistics of latency samples: medians, because run times are skewed."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from profiler.base.records import Latency


def latency_of(samples_ns: npt.NDArray[Any]) -> Latency:
    """Summary of latency samples in ns; p99 is interpolated linearly between ranks.

    Raises:
        ValueError: There are no samples.
    """
    if len(samples_ns) == 0:
        raise ValueError("no latency samples")
    mean = float(np.mean(samples_ns))
    return Latency(
        median_ns=round(float(np.median(samples_ns))),
        p99_ns=round(float(np.percentile(samples_ns, 99))),
        cv=float(np.std(samples_ns)) / mean if mean else 0.0,
        n=len(samples_ns),
        mean_ns=round(mean),
        min_ns=int(np.min(samples_ns)),
        max_ns=int(np.max(samples_ns)),
    )
