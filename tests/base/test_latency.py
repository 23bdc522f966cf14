"""One definition of a latency, whoever measured it."""

from __future__ import annotations

import numpy as np
import pytest

from trtprof.analysis.evidence import latency_and_copies
from trtprof.base.latency import latency_of, latency_of_sum, median_ns
from trtprof.base.records import InferenceTimes

SAMPLES = [450_000 + 200 * at for at in range(38)] + [458_000, 500_000]
"""40 samples: of these the 99th percentile lies between the last two."""


def test_a_percentile_is_interpolated_between_ranks() -> None:
    found = latency_of(range(101))
    assert (found.median_ns, found.p99_ns, found.n, found.mean_ns, found.min_ns, found.max_ns) == (
        50, 99, 101, 50, 0, 100,
    )  # fmt: skip
    # Rank 0.99 * 39 = 38.61: 61 % of the way from the 39th to the 40th.
    assert latency_of(SAMPLES).p99_ns == round(458_000 + 0.61 * 42_000)
    assert latency_of([100, 300]).cv == pytest.approx(0.5), "the deviation of the samples themselves: 100 of 200"


def test_samples_of_files_and_of_live_runs_come_to_the_same() -> None:
    times = InferenceTimes(
        latency_ns=tuple(SAMPLES), compute_ns=(1,) * 40, enqueue_ns=(1,) * 40, h2d_ns=(1,) * 40, d2h_ns=(1,) * 40
    )
    latency, _, _ = latency_and_copies(times, 0)
    assert latency == latency_of(np.asarray(SAMPLES))


def test_no_samples_are_no_latency() -> None:
    with pytest.raises(ValueError, match="no latency samples"):
        latency_of([])
    assert latency_of_sum(7).n == 0
    assert (median_ns([]), median_ns([1, 2, 4, 8])) == (0, 3)
