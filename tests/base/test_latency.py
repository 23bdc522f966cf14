"""One definition of a latency, whoever measured it."""

from __future__ import annotations

import pytest

from trtprof.base.latency import latency_of

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
