"""What of files cannot be so, and that nothing real is taken for it."""

from __future__ import annotations

import msgspec
import pandas as pd
import pytest

from tests.fakes.support import CAPTURES, needs_captures
from trtprof.analysis import plausible
from trtprof.base.records import LayerTime, LayerTimes
from trtprof.engine.inspector import read_profile, read_times
from trtprof.hardware import gpus


def layer(**changes: object) -> LayerTime:
    return msgspec.structs.replace(
        LayerTime(name="a", total_ns=500_000, average_ns=50_000, median_ns=49_000, fraction=0.5), **changes
    )


def briefs(*layers: LayerTime, iterations: int = 10, complete: bool = True) -> list[str]:
    profile = LayerTimes(iterations=iterations, layers=(*layers, layer(name="b")), complete=complete)
    return [sentence for _, sentence in plausible.of_profile(profile)]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"average_ns": 0}, "the total of 10 inferences is 500 us, and the average 0 ns"),
        ({"total_ns": 1_500_000}, "the total of 10 inferences is 1.50 ms"),
        ({"median_ns": 120_000}, "less than half of the median 120 us"),
        ({"fraction": 0.9}, "90.0 % of the time by its percentage and 50.0 % by its total"),
    ],
)
def test_numbers_of_a_profile_that_contradict_one_another_are_said(changes: dict[str, object], said: str) -> None:
    (sentence,) = briefs(layer(**changes))
    assert said in sentence


def test_a_profile_that_agrees_or_does_not_tell_is_not_doubted() -> None:
    assert not briefs(layer())
    assert not briefs(layer(average_ns=70_000), iterations=0)
    assert not briefs(layer(average_ns=52_000), complete=False), "rounded as printed"


SUMS = {"name": "k", "total_ns": 1_000_000, "count": 10, "avg_ns": 100_000.0, "median_ns": 99_000.0,
        "min_ns": 90_000, "max_ns": 120_000}  # fmt: skip


def test_sums_of_nsys_that_disagree_are_said(subtests: pytest.Subtests) -> None:
    rows: list[tuple[dict[str, float], str]] = [
        ({}, ""),
        ({"median_ns": float("nan"), "min_ns": float("nan"), "max_ns": float("nan")}, ""),
        ({"total_ns": 1_000_000_000}, "the total is not"),
        ({"count": 1000}, "the total is not"),
        ({"min_ns": 150_000, "max_ns": 160_000}, "the average is not between"),
        ({"median_ns": 1_000.0}, "the median is not between"),
    ]
    for changes, said in rows:
        with subtests.test(said=said):
            found = [sentence for _, sentence in plausible.of_sums(pd.DataFrame([SUMS, SUMS | changes]))]
            assert len(found) == bool(said)
            assert said in "".join(found)


@pytest.mark.parametrize(
    ("told", "named", "doubted"),
    [("a100-pcie-80gb", "a100-pcie-80gb", False), ("a100-pcie-80gb", "l4", True), ("rtx-4090", "rtx-4080", True)],
)
def test_a_file_that_names_another_gpu_is_said(told: str, named: str, doubted: bool) -> None:
    assert bool(list(plausible.of_device(gpus.find(told), "log", gpus.find(named)))) == doubted


@needs_captures
def test_no_profile_or_times_of_others_contradict_themselves() -> None:
    profiles = [read_profile(path) for path in sorted(CAPTURES.glob("layer_info/*.profile.json"))]
    profiles += [read_profile(path) for path in sorted(CAPTURES.glob("logs/*dumpProfile.log"))]
    assert len(profiles) >= 4
    assert [list(plausible.of_profile(profile)) for profile in profiles] == [[]] * len(profiles)
    times = [read_times(path) for path in sorted(CAPTURES.glob("layer_info/*.profile.metadata.json"))]
    assert not any(one.profiled for one in times)
