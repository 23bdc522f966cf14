from __future__ import annotations

from collections.abc import Callable

import pytest

from trtprof.hardware import _fit
from trtprof.hardware._fit import Task


def test_slope_is_the_cost_of_one_more_node() -> None:
    assert _fit.slope(64, 1500 + 64 * 145, 512, 1500 + 512 * 145) == 145
    with pytest.raises(ValueError, match="longer"):
        _fit.slope(64, 1.0, 64, 2.0)


def test_grouped_median_interpolates_within_the_microsecond() -> None:
    # Half of the readings in [1, 2) us, half in [2, 3) us: the median is the border.
    assert _fit.grouped_median_ns([1, 1, 2, 2]) == 2000
    # All in one interval: its middle.
    assert _fit.grouped_median_ns([2] * 9) == 2500
    # Three quarters in [1, 2): two thirds of the way through it.
    assert _fit.grouped_median_ns([1, 1, 1, 2]) == pytest.approx(1000 * (1 + 2 / 3))


def truncated(true_ns: list[float]) -> list[int]:
    return [int(ns // 1000) for ns in true_ns]


@pytest.mark.parametrize("floor", [120.0, 880.0, 1810.0, 2410.0])
def test_the_floor_is_found_below_the_profilers_step(floor: float) -> None:
    jitter = [-40.0 + 0.8 * i for i in range(101)]
    extras = [0.0] + [25.0 * i for i in range(1, 44)]
    samples = [(extra, truncated([floor + extra + j for j in jitter])) for extra in extras]
    assert _fit.resolve_floor(samples) == pytest.approx(floor, abs=15)


def test_without_a_crossing_the_floor_is_the_grouped_median() -> None:
    assert _fit.resolve_floor([(0.0, [1, 1, 1, 1]), (50.0, [1, 1, 1, 1])]) == 1500


def test_the_floor_stays_in_the_interval_that_was_read() -> None:
    # The extra was measured too large: 2 us less 1400 ns would be 600 ns, yet all readings say 1 us.
    assert _fit.resolve_floor([(0.0, [1] * 10), (1400.0, [2] * 10)]) >= 1000


def test_the_cost_of_a_tensor_is_the_slope_over_tensors() -> None:
    assert _fit.cost_per_tensor([(2, 1660.0), (6, 1980.0), (10, 2300.0)]) == pytest.approx(80)
    assert _fit.cost_per_tensor([(2, 1660.0), (6, 1600.0)]) == 0


def test_the_profilers_base_is_the_rest_of_an_empty_nodes_reading() -> None:
    assert _fit.profiler_base(1810.0, 140.0, 2, 80.0) == 1510.0
    assert _fit.profiler_base(100.0, 140.0, 2, 80.0) == 0


def test_repeats_agree_within_three_percent_of_the_best() -> None:
    assert _fit.agree([50.0, 100.0, 97.0])
    assert not _fit.agree([100.0, 96.9])
    assert not _fit.agree([100.0])


def test_spread_is_relative_to_the_median() -> None:
    assert _fit.relative_spread([90.0, 100.0, 110.0]) == pytest.approx(0.2)
    assert _fit.relative_spread([7.0]) == 0
    assert _fit.relative_spread([0.0, 0.0]) == 0


def test_a_floor_is_the_median_of_its_repeats() -> None:
    reading = _fit.floor_reading([10.0, 1000.0, 12.0], "empty")
    assert (reading.value, reading.repeats, reading.what) == (12.0, 3, "empty")


class Script:
    """Answers with prepared times in ns, the last one for ever, and counts the questions."""

    def __init__(self, times: dict[str, list[float | None]]) -> None:
        self.times = {name: list(values) for name, values in times.items()}
        self.asked: list[str] = []

    def __call__(self, task: Task) -> float | None:
        self.asked.append(task.name)
        left = self.times[task.name]
        return left.pop(0) if len(left) > 1 else left[0]

    def clock(self, questions: int) -> Callable[[], float]:
        return lambda: float(questions - len(self.asked))


def test_the_race_keeps_the_best_rate_and_drops_the_hopeless() -> None:
    tasks = [Task("dram", "a", 1000), Task("dram", "b", 1000), Task("dram", "c", 1000)]
    script = Script({"a": [100.0, 101.0], "b": [105.0, 98.0, 99.0], "c": [500.0]})
    result = _fit.race(tasks, script, script.clock(1000))
    assert result["dram"].what == "b"
    assert result["dram"].value == pytest.approx(1000 / 98 * 1e9)
    assert result["dram"].spread == pytest.approx((1000 / 98 - 1000 / 105) / (1000 / 99))
    assert script.asked.count("c") == 1


def test_the_race_ends_when_all_agree_after_three_repeats() -> None:
    script = Script({"a": [100.0]})
    result = _fit.race([Task("dram", "a", 1000)], script, script.clock(1000))
    assert len(script.asked) == 3
    assert result["dram"] == (1e10, 0.0, 3, "a")


def test_the_race_goes_on_while_repeats_disagree_until_time_is_up() -> None:
    times: list[float | None] = [100.0 * 0.9**i for i in range(50)]
    script = Script({"a": times})
    result = _fit.race([Task("dram", "a", 1000)], script, script.clock(20))
    assert len(script.asked) == 20
    assert result["dram"].repeats == 20


def test_without_time_the_first_round_is_finished_and_winners_are_measured_twice() -> None:
    script = Script({"a": [100.0], "slow": [200.0], "b": [100.0, 50.0]})
    tasks = [Task("x", "a", 1), Task("x", "slow", 1), Task("y", "b", 1)]
    result = _fit.race(tasks, script, lambda: 0.0)
    assert script.asked == ["a", "slow", "b", "a", "b"]
    assert (result["y"].value, result["y"].repeats) == (2e7, 2)
    assert result["y"].spread == pytest.approx(1e7 / 1.5e7)


def test_a_winner_that_is_not_resolved_again_keeps_its_one_repeat() -> None:
    script = Script({"a": [100.0, None]})
    assert _fit.race([Task("x", "a", 1)], script, lambda: 0.0)["x"].repeats == 1


def test_a_task_that_would_take_too_long_is_left_out_unless_it_is_the_first() -> None:
    tasks = [Task("f", "small", 10**6), Task("f", "huge", 10**12), Task("g", "huge first", 10**12)]
    script = Script({"small": [1000.0], "huge": [1.0], "huge first": [1e9]})
    _fit.race(tasks, script, lambda: 0.0)
    assert script.asked == ["small", "huge first", "small", "huge first"]


def test_unresolved_times_give_no_ceiling() -> None:
    script = Script({"a": [None]})
    assert _fit.race([Task("cache", "a", 1)], script, script.clock(10)) == {}


def test_a_part_is_won_within_the_part_and_counts_for_the_ceiling() -> None:
    tasks = [
        Task("dram", "read", 1000, "dram read"), Task("dram", "copy", 1000, "dram copy"), Task("dram", "odd", 1000),
    ]  # fmt: skip
    script = Script({"read": [200.0], "copy": [100.0], "odd": [400.0]})
    result = _fit.race(tasks, script, script.clock(1000))
    assert {key: (reading.what, reading.value) for key, reading in result.items()} == {
        "dram": ("copy", 1e10),
        "dram read": ("read", 5e9),
        "dram copy": ("copy", 1e10),
    }
    # The read is no contender for the ceiling, but repeated until it agrees as a part.
    assert [script.asked.count(name) for name in ("read", "copy", "odd")] == [3, 3, 1]


def test_late_or_not_the_winner_of_every_part_is_measured_twice() -> None:
    tasks = [Task("t", "512", 10, "gemm 512"), Task("t", "256", 10, "gemm 256")]
    script = Script({"512": [100.0], "256": [200.0]})
    result = _fit.race(tasks, script, lambda: 0.0)
    assert {key: reading.repeats for key, reading in result.items()} == {"t": 2, "gemm 512": 2, "gemm 256": 2}


def test_names_are_unique_within_a_ceiling_only() -> None:
    script = Script({"Neg 1 MB": [100.0]})
    result = _fit.race([Task("cache", "Neg 1 MB", 1000), Task("dram", "Neg 1 MB", 10)], script, lambda: 0.0)
    assert (result["cache"].value, result["dram"].value) == (1e10, 1e8)
