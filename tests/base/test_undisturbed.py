"""The latency of the undisturbed machine, from made-up samples whose undisturbed latency is known."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import pandas as pd
import pytest

from trtprof.base.records import CpuUse
from trtprof.base.undisturbed import (
    LayerTimes,
    Speed,
    Timings,
    estimate_from_layers,
    fast_mode,
    find_regimes,
    find_undisturbed,
    find_undisturbed_blocks,
    known_share,
    mode_known,
    share_all_ran,
    summarize,
)

ALONE = CpuUse(cpus=2, seconds=1.0, own_cpus=2.0, others_cpus=0.0, steal_cpus=0.0, waits=True, all_ran=1.0)
SHARED = msgspec.structs.replace(ALONE, own_cpus=1.0, others_cpus=1.0, all_ran=0.6)


def timings(
    latency_ns: Sequence[float] | np.ndarray, waits_ns: np.ndarray | None = None, per_block: int = 1
) -> Timings:
    """Inferences back to back; ``waits_ns`` of each block and one more, by thread."""
    latency = np.asarray(latency_ns, dtype=np.int64)
    block = np.arange(len(latency)) // per_block
    ends = np.cumsum(np.bincount(block, latency)).astype(np.int64)
    waits = np.zeros((len(ends) + 1, 2), np.int64) if waits_ns is None else np.asarray(waits_ns, np.int64)
    return Timings(latency, block, np.concatenate([[0], ends[:-1]]), ends, waits)


def beside_a_neighbor(count: int, ns: int, share: float, seed: int = 0) -> Timings:
    """A share of the inferences is stretched by a wait of the second thread, which is booked where it ends."""
    generator = np.random.default_rng(seed)
    latency = ns * generator.lognormal(0, 0.01, count)
    waits = np.zeros((count + 1, 2), np.int64)
    at = 0
    while at < count:
        long = int(generator.integers(1, 4))
        if generator.random() < share:
            latency[at : at + long] *= 2
            end = min(at + long, count)
            waits[end, 1] = latency[at:end].sum() * 0.99
        at += long
    return timings(latency, waits)


def test_a_wait_is_dated_back_over_what_it_spans() -> None:
    waits = np.zeros((11, 2), np.int64)
    waits[6, 1] = 2_500_000  # booked behind the 7th block: it began in the 4th, at the earliest
    assert np.flatnonzero(~find_undisturbed_blocks(timings([1_000_000] * 10, waits))).tolist() == [3, 4, 5, 6]
    waits[6] = [2_500_000, 0]  # the thread that reads ran at both readings
    assert np.flatnonzero(~find_undisturbed_blocks(timings([1_000_000] * 10, waits))).tolist() == [6]
    waits[6], waits[10, 1] = 0, 1_500_000  # booked when the last inference was over
    assert np.flatnonzero(~find_undisturbed_blocks(timings([1_000_000] * 10, waits))).tolist() == [8, 9]
    waits[10, 1], waits[2, 1] = 0, 9_000  # within 1 %
    assert find_undisturbed_blocks(timings([1_000_000] * 10, waits)).all()
    assert find_undisturbed(timings([500_000] * 20, waits, per_block=2)).all()
    waits[2, 1] = 11_000
    assert np.flatnonzero(~find_undisturbed(timings([500_000] * 20, waits, per_block=2))).tolist() == [2, 3, 4, 5]
    assert share_all_ran([timings([1_000_000] * 10, waits)]) == pytest.approx(1 - 11e-6 / 10e-3)


def test_the_latency_is_that_of_undisturbed_inferences_or_it_is_not_told() -> None:
    generator = np.random.default_rng(1)

    def quiet(ns: float, count: int = 400) -> Timings:
        return timings(ns * generator.lognormal(0, 0.01, count))

    def unknown(one: Timings) -> Timings:
        return one._replace(waits_ns=one.waits_ns[:, :0])

    none = msgspec.structs.replace(ALONE, waits=False, all_ran=None)
    busy = msgspec.structs.replace(none, others_cpus=0.5)
    waiting = np.full((31, 2), 500_000)
    waits = np.zeros((301, 2), np.int64)
    waits[100:, 0] = 50_000
    lazy = timings([1.5e6] * 100 + [1.2e6] * 200, waits)
    half = timings([3e5] * 8000, np.full((8001, 2), 145_000))
    cases: list[tuple[str, list[Timings], CpuUse, float | None, str]] = [
        ("quiet", [quiet(1e6), quiet(1.01e6), quiet(1.02e6)], ALONE, 1.01e6, ""),
        ("a neighbor", [beside_a_neighbor(600, 200_000, 0.5)], SHARED, 2e5, ""),
        ("processes that disagree", [quiet(1e6), quiet(1e6), quiet(1.36e6)], ALONE, 1e6, "1.36 ms in another"),
        (
            "two speeds",
            [timings(np.where(generator.random(400) < 0.4, 1.1e6, 1.5e6))],
            ALONE,
            1.1e6,
            "two speeds: 1.10 ms",
        ),
        ("drift", [timings(np.r_[quiet(1e6).latency_ns, quiet(1.2e6).latency_ns])], ALONE, 1e6, ""),
        ("a hypervisor that steals", [quiet(1e6)], msgspec.structs.replace(ALONE, steal_cpus=0.05), None, "0.05 of"),
        ("no waits known, quiet", [unknown(quiet(1e6))], none, 1e6, ""),
        ("no waits known, busy", [unknown(quiet(1e6))], busy, None, "does not tell"),
        ("all disturbed", [timings([1e6] * 30, waiting)], SHARED, None, "0 of 30 inferences"),
        ("a slow model, quiet", [timings([2e9, 2.02e9]), timings([2.01e9])], ALONE, 2.01e9, ""),
        ("a thread that never woke", [lazy], SHARED, None, "the fastest tenth of all less"),
        ("one inference", [timings([2e9])], ALONE, None, "1 of 1 inferences"),
        ("a slow model that varies", [timings([2e9, 2.1e9, 2.5e9])], ALONE, None, "lies anywhere from"),
        ("threads that never ran at once", [half, quiet(3e5)], SHARED, None, "as little as 8 % of the time"),
    ]
    for name, processes, use, expected, reason in cases:
        found = summarize(processes, use)
        assert found.n == sum(len(one.latency_ns) for one in processes), name
        if expected is None:
            assert (found.undisturbed_ns, found.undisturbed_basis) == (None, ""), name
            assert reason in found.undisturbed_reason, name
            assert found.undisturbed_reason, name
            assert found.headline_ns == found.median_ns, name
        else:
            assert found.undisturbed_ns == pytest.approx(expected, rel=0.01), name
            low, high = found.undisturbed_low_ns or 0, found.undisturbed_high_ns or 0
            assert found.headline_ns == found.undisturbed_ns, name
            assert low <= found.headline_ns <= high, name
            assert (found.undisturbed_basis, found.undisturbed_reason) == ("inferences", ""), name
            assert reason in found.regimes, name
    slow_cores = [quiet(1.05e6), quiet(1e6)]
    assert summarize(slow_cores, ALONE, (Speed(1.0), Speed(1.8))).headline_ns == pytest.approx(1.05e6, rel=0.01)
    assert "55 % of the speed" in summarize(slow_cores, ALONE, (Speed(1.82), Speed(1.83))).undisturbed_reason
    shared = summarize([beside_a_neighbor(600, 200_000, 0.5)], SHARED)
    assert shared.median_ns > 1.2 * (shared.undisturbed_ns or 0), "the median of all is that of two speeds"
    assert 0 < shared.undisturbed_n < shared.n


def test_two_speeds_and_drift_are_seen_and_noise_is_not() -> None:
    generator = np.random.default_rng(2)
    for seen in range(50):
        for noise in (
            generator.normal(100, 3, 500),
            100 + generator.exponential(5, 500),
            generator.uniform(95, 110, 500),
        ):
            assert find_regimes(noise).words == "", seen
    two = find_regimes(np.r_[generator.normal(176, 2, 300), generator.normal(243, 2, 240)])
    assert two.words.startswith("two speeds")
    assert np.flatnonzero(two.fast).tolist() == list(range(300))
    moved, fast = find_regimes(generator.lognormal(0, 0.1, 600) * np.r_[np.full(330, 1e5), np.full(270, 1.2e5)])
    assert moved.startswith("the inferences became")
    assert "slower after 5" in moved
    assert np.flatnonzero(fast)[-1] == pytest.approx(330, abs=30)


def test_layers_tell_what_inferences_do_not_where_their_fast_mode_is_known() -> None:
    generator = np.random.default_rng(3)
    rows = []
    for iteration in range(40):
        for layer, ns in (("a", 1_000_000), ("b", 3_000_000)):
            slow = 2.1 if generator.random() < 0.7 else 1.0
            rows.append((iteration, layer, round(ns * slow * generator.lognormal(0, 0.02) / 1000) * 1000))
    kernels = pd.DataFrame(rows, columns=["iteration", "layer", "self_ns"])
    assert known_share(kernels) == 1.0
    times = kernels[kernels["layer"] == "b"]["self_ns"].to_numpy()
    mode = fast_mode(times, 1000)
    assert mode_known(mode)
    assert np.median(times[mode]) == pytest.approx(3e6, rel=0.02)
    assert np.median(times) > 6e6
    assert known_share(kernels[kernels["iteration"] < 4]) < 1.0, "too few"

    latency = summarize([timings([7e6] * 30, np.full((31, 2), 4_000_000))], SHARED)
    layers = LayerTimes(ns=4_000_000, low_ns=3_900_000, high_ns=4_500_000, known=1.0, inferences=40)
    found = estimate_from_layers(latency, layers, SHARED)
    assert (found.undisturbed_basis, found.undisturbed_ns) == ("layers", 4_000_000)
    assert (found.undisturbed_low_ns, found.undisturbed_high_ns) == (3_900_000, 4_500_000)
    assert found.headline_ns == found.median_ns == 7_000_000, "an estimate is no measurement"
    for changed, use in (
        (layers._replace(known=0.8), SHARED),
        (layers._replace(inferences=19), SHARED),
        (layers._replace(high_ns=4_600_000), SHARED),
        (layers._replace(ns=7_000_001), SHARED),
        (layers, msgspec.structs.replace(SHARED, all_ran=0.3)),
        (layers, msgspec.structs.replace(SHARED, steal_cpus=0.1)),
        (layers, None),
    ):
        assert estimate_from_layers(latency, changed, use).undisturbed_ns is None
    told = summarize([timings([1e6] * 30)], ALONE)
    assert estimate_from_layers(told, layers, ALONE) == told


def test_inferences_ahead_of_others_tell_what_the_shared_ones_do_not() -> None:
    shared = [beside_a_neighbor(60, 7_000_000, 1.0) for _ in range(2)]
    ahead = [timings([7e6] * 40), timings([7.1e6] * 40)]
    alone = summarize(shared, SHARED)
    told = summarize(shared, SHARED, ahead=ahead)
    assert alone.undisturbed_ns is None
    assert told.undisturbed_ns == pytest.approx(7.05e6, rel=0.01)
    assert (told.median_ns, told.n, told.undisturbed_n) == (alone.median_ns, 120, 80)


def test_moments_of_slow_cores_are_left_out() -> None:
    at = np.arange(80) % 4
    samples = np.where(at < 2, 1e6, 1e6 * np.linspace(1.05, 1.5, 80))
    seen = timings(samples)._replace(core_ns=np.where(at == 2, 26_000, 15_000))
    told = summarize([seen], ALONE)
    assert (told.undisturbed_ns, told.undisturbed_n) == (1_000_000, 40), "the loop before a block counts, too"
    near, apart = timings([1e6] * 30), timings([1.05e6] * 30)
    assert summarize([near, apart], ALONE, [Speed(), Speed(apart=1.6)]).undisturbed_ns == pytest.approx(1e6)
    assert "far apart" in summarize([near], ALONE, [Speed(apart=1.6)]).undisturbed_reason
