"""Intervals of differences of medians: coverage measured over seeds, what widens them, and their symmetries."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from trtprof.compare import samples as compare_samples
from trtprof.compare.samples import change_of, drift_of, t_quantile, t_tails

Samples = npt.NDArray[np.float64]


def dependent(seed: int, n: int, rho: float, sd: float = 5.0, level: float = 1000.0) -> Samples:
    """Samples of which each keeps ``rho`` of what the one before was off by."""
    generator = np.random.default_rng(seed)
    steps = generator.standard_normal(n) * sd * math.sqrt(1 - rho * rho)
    found = np.empty(n)
    last = generator.standard_normal() * sd
    for at in range(n):
        last = rho * last + steps[at]
        found[at] = last
    return level + found


def independent_interval(before: Samples, after: Samples, seed: int) -> tuple[float, float]:
    """What a bootstrap of single samples finds."""
    generator = np.random.default_rng(seed)
    drawn = [np.median(generator.choice(samples, (300, len(samples))), axis=1) for samples in (before, after)]
    low, high = np.quantile(drawn[1] - drawn[0], [0.025, 0.975])
    return float(low), float(high)


@pytest.mark.parametrize(("n", "rho"), [(300, 0.0), (400, 0.8), (1500, 0.95)])
def test_the_interval_holds_no_difference_as_often_as_it_says(
    n: int, rho: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is assumed of processes would hide whether blocks do their part.
    monkeypatch.setattr(compare_samples, "RUN_TO_RUN", 0.0)
    repeats, held, held_without_blocks = 60, 0, 0
    for seed in range(repeats):
        before, after = dependent(2 * seed, n, rho), dependent(2 * seed + 1, n, rho)
        change = change_of([before], [after])
        held += change.low <= 0 <= change.high
        low, high = independent_interval(before, after, seed)
        held_without_blocks += low <= 0 <= high
    # 0.95 of 60 is 57; 50 or fewer come by chance once in a thousand times.
    assert held > 50
    if rho > 0.9:
        assert held_without_blocks < 0.6 * repeats


def test_runs_that_differ_are_told_by_their_own_spread() -> None:
    """Three runs a side, whose medians lie 3 % apart from process to process: three times what is assumed."""
    repeats, held = 40, 0
    for seed in range(repeats):
        generator = np.random.default_rng(seed)
        levels = 1000 * (1 + 0.03 * generator.standard_normal(6))
        runs = [dependent(10 * seed + at, 200, 0.3, level=level) for at, level in enumerate(levels)]
        change = change_of(runs[:3], runs[3:])
        held += change.low <= 0 <= change.high
    # 0.95 of 40 is 38; 32 or fewer come by chance once in a thousand times.
    assert held > 32


def test_a_slowdown_of_five_percent_is_seen_in_quiet_runs() -> None:
    found = 0
    for seed in range(20):
        levels = 1000 * (1 + 0.005 * np.random.default_rng(seed).standard_normal(2))
        before, after = (dependent(2 * seed + at, 400, 0.5, level=level) for at, level in enumerate(levels))
        change = change_of([before], [1.05 * after])
        found += change.low > 0
    assert found >= 17


def test_phases_as_long_as_the_run_are_drift_and_short_ones_are_not() -> None:
    noise = np.random.default_rng(1).standard_normal(4000)
    phases = np.repeat([1000.0, 1200.0, 1000.0, 1200.0], 1000) + noise
    assert drift_of(phases) > 50
    assert drift_of(dependent(3, 4000, 0.5)) == 0.0
    assert drift_of(np.tile([1000.0, 1200.0], 2000) + noise) < 10
    # One segment of eight says nothing of where the median of another run would be.
    assert drift_of(np.concatenate([np.full(500, 1300.0), np.full(3500, 1000.0)]) + noise) < 10
    assert drift_of(phases[:20]) == 0.0


@given(
    st.lists(st.integers(100, 10_000), min_size=5, max_size=60),
    st.lists(st.integers(100, 10_000), min_size=5, max_size=60),
)
@settings(max_examples=15)
def test_swapped_sides_have_the_negative_difference(first: list[int], second: list[int]) -> None:
    assume(first != second)  # nothing tells which of them is which
    there = change_of([np.asarray(first)], [np.asarray(second)])
    back = change_of([np.asarray(second)], [np.asarray(first)])
    assert there.difference == -back.difference
    assert there.low <= there.difference <= there.high
    assert 0 <= there.ratio_low <= there.ratio <= there.ratio_high
    assert there.ratio == pytest.approx(1 / back.ratio)
    assert (back.low, back.high) == pytest.approx((-there.high, -there.low))


@given(st.lists(st.integers(100, 10_000), min_size=5, max_size=60))
@settings(max_examples=10)
def test_same_samples_have_no_difference_and_it_is_deterministic(values: list[int]) -> None:
    samples: list[npt.NDArray[Any]] = [np.asarray(values)]
    change = change_of(samples, samples)
    assert change.difference == 0
    assert change.low <= 0 <= change.high
    assert change == change_of(samples, samples)


def test_quantiles_of_student_are_those_of_the_tables(subtests: pytest.Subtests) -> None:
    for freedom, exact in [(2, 4.303), (4, 2.776), (8, 2.306), (30, 2.042), (math.inf, 1.960)]:
        with subtests.test(freedom=freedom, exact=exact):
            assert t_quantile(freedom) == pytest.approx(exact, rel=0.015 if freedom > 2 else 0.05)
            if not math.isinf(freedom):
                assert t_tails(np.asarray([t_quantile(freedom)]), freedom)[0] == pytest.approx(0.05, rel=1e-6)
