"""Kernels to layers: not a nanosecond is lost, split or made up."""

from __future__ import annotations

import statistics
from typing import NamedTuple

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trtprof.align.kernels import align_kernels, interpolated_median
from trtprof.base.errors import CaptureError
from trtprof.base.records import KERNEL_COLUMNS, Layer, MatchConfidence, Op


class Launch(NamedTuple):
    iteration: int
    layer: str
    self_ns: int
    kernel: str = "CPU:Conv"


def table(launches: list[Launch]) -> pd.DataFrame:
    rows = [
        (launch.iteration, index, launch.kernel, launch.layer, 0, launch.self_ns + 5, launch.self_ns)
        for index, launch in enumerate(launches)
    ]
    return pd.DataFrame.from_records(rows, columns=list(KERNEL_COLUMNS))


def layer(name: str, match: MatchConfidence = "exact") -> Layer:
    return Layer(name=name, op=Op(op_type="Conv"), match=match)


LAYERS = [layer("a"), layer("b", "inferred"), layer("c", "none"), layer("never run")]

launches_of_any_kind = st.lists(
    st.builds(
        Launch,
        st.integers(0, 3),
        st.sampled_from(["a", "b", "c", "no layer of the engine", ""]),
        st.one_of(st.just(0), st.integers(0, 10**12)),
        st.sampled_from(["CPU:Conv", "CPU:Relu"]),
    ),
    min_size=1,
    max_size=60,
)


@given(launches_of_any_kind, st.sampled_from([1, 1000]))
def test_matched_and_unmatched_time_is_the_captured_time_to_the_ns(launches: list[Launch], resolution: int) -> None:
    aligned = align_kernels(table(launches), LAYERS, resolution)
    matched = sum(match.total_ns for found in aligned.matches.values() for match in found)
    unmatched = sum(match.total_ns for match in aligned.unattributed)
    assert matched + unmatched == aligned.captured_ns == sum(launch.self_ns for launch in launches)
    for name, found in aligned.matches.items():
        assert sum(match.total_ns for match in found) == sum(own.self_ns for own in launches if own.layer == name)
    known = {layer.name for layer in LAYERS}
    assert unmatched == sum(launch.self_ns for launch in launches if launch.layer not in known)


@given(launches_of_any_kind)
def test_each_launch_counts_once_for_the_one_layer_that_it_names(launches: list[Launch]) -> None:
    aligned = align_kernels(table(launches), LAYERS, 1)
    matches = [match for found in aligned.matches.values() for match in found]
    assert sum(match.count for match in (*matches, *aligned.unattributed)) == len(launches)
    for match in matches:
        same = [own.self_ns for own in launches if (own.layer, own.kernel) == (match.layer, match.kernel)]
        assert (match.count, match.total_ns) == (len(same), sum(same)), "a kernel was split or moved"
        assert match.confidence == "exact"
    for match in aligned.unattributed:
        assert match.layer is None
        assert match.confidence == "none"
    names = [(match.layer, match.kernel) for match in matches]
    assert len(names) == len(set(names))


@given(launches_of_any_kind)
def test_coverage_is_a_partition_of_the_captured_time(launches: list[Launch]) -> None:
    aligned = align_kernels(table(launches), LAYERS, 1)
    cover = aligned.coverage
    assert cover.exact + cover.inferred + cover.unattributed == pytest.approx(1.0)
    total = sum(launch.self_ns for launch in launches)
    if total:
        share = {name: sum(own.self_ns for own in launches if own.layer == name) / total for name in "abc"}
        assert cover.exact == pytest.approx(share["a"])
        assert cover.inferred == pytest.approx(share["b"])
        assert cover.unattributed == pytest.approx(1 - share["a"] - share["b"], abs=1e-9)


def test_kernels_that_took_no_time_at_all_are_covered() -> None:
    aligned = align_kernels(table([Launch(0, "a", 0), Launch(1, "a", 0)]), LAYERS, 1000)
    assert aligned.captured_ns == 0
    assert aligned.coverage.exact == 1.0
    assert aligned.per_iteration_ns == {"a": 0}


def test_an_empty_table_is_an_error_that_says_what_to_look_at() -> None:
    with pytest.raises(CaptureError, match="no kernels") as error:
        align_kernels(table([]), LAYERS, 1)
    assert "trtprof inspect" in error.value.fix


def test_an_unknown_layer_is_shown_with_its_name() -> None:
    aligned = align_kernels(table([Launch(0, "a", 3), Launch(0, "ghost", 4)]), LAYERS, 1)
    (match,) = aligned.unattributed
    assert "'ghost'" in match.reason
    assert match.total_ns == 4
    assert aligned.coverage.unattributed == pytest.approx(4 / 7)


def test_time_per_iteration_adds_up_the_launches_of_a_repeated_layer() -> None:
    launches = [Launch(i, "a", ns) for i, both in enumerate([(10, 20), (30, 40), (1, 2)]) for ns in both]
    aligned = align_kernels(table(launches), LAYERS, 1)
    assert aligned.per_iteration_ns == {"a": 30}  # the median of 30, 70 and 3


def test_the_interpolated_median_of_grouped_data(subtests: pytest.Subtests) -> None:
    rows: list[tuple[list[int], int]] = [
        ([3000], 3500),  # the middle of its step
        ([3000, 3000, 3000], 3500),
        ([2000, 3000], 3000),  # half below 3000, half above
        ([2000, 2000, 2000, 3000], 2667),  # 2000 + (4/2 - 0) / 3 steps
        ([0, 0, 0, 1000], 667),
        ([0, 6000], 3500),  # between the end of the one step and the begin of the other
        ([1000, 1000, 9000, 9000], 5500),
        ([0, 0, 0], 0),
    ]
    for values, expected in rows:
        with subtests.test(expected=expected):
            assert interpolated_median(values, 1000) == expected


@given(st.lists(st.integers(0, 50), min_size=1, max_size=80), st.sampled_from([2, 10, 1000]))
def test_interpolation_stays_within_the_step_of_the_plain_median(steps: list[int], resolution: int) -> None:
    values = [step * resolution for step in steps]
    found = interpolated_median(values, resolution)
    if not any(values):
        assert found == 0
    else:
        assert statistics.median_low(values) <= found <= statistics.median_high(values) + resolution
        assert abs(found - statistics.median(values)) <= resolution


Rows = list[tuple[int, int, str, str, int, int, int]]  # Of the kernel table


def inference(number: int, *, first_ns: int, between_ns: int, **own_ns: int) -> Rows:
    """Kernels of one inference, one after the other, with a gap between each and the next."""
    rows: Rows = []
    for at, (name, ns) in enumerate(own_ns.items()):
        rows.append((number, at, "CPU:Conv", name, first_ns, ns, ns))
        first_ns += ns + between_ns
    return rows


def test_an_inference_is_judged_by_its_own_kernels_for_medians_of_layers_do_not_add_up() -> None:
    """In each of three inferences another layer is slow: every median is the fast one, every inference a slow one."""
    times = {"a": 10_000, "b": 10_000, "c": 10_000}
    rows = [
        row
        for at, slow in enumerate(times)
        for row in inference(at, first_ns=700, between_ns=1000, **{**times, slow: 90_000})
    ]
    aligned = align_kernels(pd.DataFrame.from_records(rows, columns=list(KERNEL_COLUMNS)), LAYERS, 1)
    assert sum(aligned.per_iteration_ns.values()) == 30_000
    assert aligned.inference_ns == 110_000
    assert (aligned.gap_ns, aligned.gaps) == (2000, 2)


def test_kernels_inside_of_another_are_no_place_for_a_gap() -> None:
    """A loop of 9 us holds two kernels of 2 us: its own time is 5 us, and one gap is between it and the next."""
    rows = [
        (0, 0, "CPU:Loop", "a", 0, 9000, 5000),
        (0, 1, "CPU:Conv", "inner", 1000, 2000, 2000),
        (0, 2, "CPU:Conv", "inner", 5000, 2000, 2000),
        (0, 3, "CPU:Conv", "b", 12_000, 1000, 1000),
    ]
    body = Layer(name="inner", op=Op(op_type="Conv"), match="exact", graph="a/body")
    aligned = align_kernels(pd.DataFrame.from_records(rows, columns=list(KERNEL_COLUMNS)), [*LAYERS, body], 1)
    assert (aligned.inference_ns, aligned.gap_ns, aligned.gaps) == (10_000, 3000, 1)


def test_what_a_coarse_clock_cuts_off_is_in_the_time_of_an_inference_as_in_that_of_its_layers() -> None:
    rows = [row for at in range(3) for row in inference(at, first_ns=0, between_ns=0, a=4000, b=7000, c=0)]
    aligned = align_kernels(pd.DataFrame.from_records(rows, columns=list(KERNEL_COLUMNS)), LAYERS, 1000)
    assert aligned.inference_ns == sum(aligned.per_iteration_ns.values()) == 12_000
    assert aligned.gap_ns == 0
