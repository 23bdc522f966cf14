"""Sums of kernels to layers: no kernel twice, none lost, and what a sum cannot tell is said."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.support import refused
from trtprof.align.kernel_sums import SumsAlignment, align_sums
from trtprof.base.errors import UsageError
from trtprof.base.records import MatchedLayer, PlanLayer

ENQUEUE = "TensorRT:ExecutionContext::enqueue"


class Sum(NamedTuple):
    """A row of nvtx_kern_sum."""

    range: str
    name: str
    number: int = 10
    total_ns: int = 10_000
    range_count: int = 10
    style: str = "push_pop"
    pid: int = 1
    tid: int = 1


def table(rows: Sequence[Sum], *, by_range: bool = True) -> pd.DataFrame:
    frame = pd.DataFrame(
        [
            {**row._asdict(), "count": row.number, "avg_ns": row.total_ns / row.number, "median_ns": math.nan}
            for row in rows
        ]
    )
    return frame if by_range else frame[["name", "count", "total_ns", "avg_ns", "median_ns"]]


def layers(*named: tuple[str, str]) -> tuple[MatchedLayer, ...]:
    return tuple(MatchedLayer(layer=PlanLayer(name=name, kind="kgen", tactic=tactic)) for name, tactic in named)


def found(alignment: SumsAlignment) -> dict[tuple[str | None, str], tuple[int, int, str]]:
    """Count, time and confidence by layer and kernel."""
    return {
        (match.layer, match.kernel): (match.count, match.total_ns, match.confidence)
        for own in (*alignment.matches, alignment.unattributed)
        for match in own
    }


def test_what_the_range_of_an_inference_holds_beyond_its_layers_is_of_none() -> None:
    rows = [
        Sum(ENQUEUE, "k", 30, 9000),
        Sum("TensorRT:a", "k", 10, 2000),
        Sum("TensorRT:b", "k", 10, 5000),
        Sum("", "k", 3, 400, 0, "", -1, -1),
    ]
    alignment = align_sums(table(rows), layers(("a", ""), ("b", "")))
    assert alignment.captured_ns == 9400
    assert found(alignment)["a", "k"] == (10, 2000, "exact")
    assert found(alignment)["b", "k"] == (10, 5000, "exact")
    assert sorted((match.count, match.total_ns) for match in alignment.unattributed) == [(3, 400), (10, 2000)]
    assert (alignment.inferences, alignment.inference_source) == (10, "TensorRT's own NVTX ranges")


def test_myelin_within_tensorrt_takes_what_is_its_own() -> None:
    rows = [
        Sum(ENQUEUE, "k", 20, 9000),
        Sum("TensorRT:{ForeignNode[a...b]}", "k", 20, 9000),
        Sum("myelin-exec:__myl_Add", "k", 10, 4000),
        Sum("myelin-exec:myelinGraphExecute", "k", 20, 9000),
    ]
    alignment = align_sums(table(rows), layers(("{ForeignNode[a...b]}", ""), ("__myl_Add_myl0_4", "")))
    assert alignment.captured_ns == 9000
    assert found(alignment) == {
        ("{ForeignNode[a...b]}", "k"): (10, 5000, "inferred"),
        ("__myl_Add_myl0_4", "k"): (10, 4000, "exact"),
    }


def test_the_same_layer_in_both_domains_counts_once() -> None:
    rows = [
        Sum(ENQUEUE, "k", 10, 4000),
        Sum("TensorRT:__myl_Add_myl0_4", "k", 10, 4000),
        Sum("myelin-exec::__myl_Add", "k", 10, 4000),
    ]
    plan = layers(("__myl_Add_myl0_4", ""), ("__myl_Add_myl0_9", ""))
    assert found(align_sums(table(rows), plan)) == {("__myl_Add_myl0_4", "k"): (10, 4000, "exact")}
    assert found(align_sums(table(rows), None)) == {("__myl_Add_myl0_4", "k"): (10, 4000, "exact")}


def test_a_name_that_layers_share_is_told_by_the_tactic_or_left_open() -> None:
    rows = [Sum(ENQUEUE, kernel) for kernel in ("one", "other")]
    rows += [Sum("myelin-exec:__myl_Add", kernel) for kernel in ("one", "other")]
    plan = layers(("__myl_Add_myl0_4", "one"), ("__myl_Add_myl0_9", "third"))
    alignment = align_sums(table(rows), plan)
    assert found(alignment)["__myl_Add_myl0_4", "one"] == (10, 10_000, "exact")
    assert found(alignment)[None, "other"] == (10, 10_000, "none")
    assert "several layers share" in alignment.unattributed[0].reason


def test_ranges_of_layers_within_one_another_are_left_open() -> None:
    rows = [Sum(ENQUEUE, "k", 10, 9000), Sum("TensorRT:a", "k", 10, 9000), Sum("TensorRT:b", "k", 10, 9000)]
    alignment = align_sums(table(rows), layers(("a", ""), ("b", "")))
    assert found(alignment) == {(None, "k"): (10, 9000, "none")}
    assert "one within the other" in alignment.unattributed[0].reason


def test_without_a_range_around_all_layers_lie_side_by_side() -> None:
    rows = [Sum("TensorRT:a", "k", 10, 2000), Sum("TensorRT:b", "k", 20, 5000, 20), Sum("TensorRT:a", "l", 10, 100)]
    alignment = align_sums(table(rows), layers(("a", ""), ("b", "")), [1, 2])
    assert alignment.captured_ns == 7100
    assert alignment.unattributed == ()
    assert (alignment.inferences, alignment.inference_source) == (10, "how often its layers came")


def test_a_tactic_of_one_layer_alone_leads_to_it() -> None:
    rows = [Sum("", f"{name}_execute_kernel_trt") for name in ("one", "two", "none")]
    alignment = align_sums(table(rows, by_range=False), layers(("a", "one"), ("b", "two"), ("c", "two")))
    assert found(alignment)["a", "one_execute_kernel_trt"] == (10, 10_000, "exact")
    reasons = {match.kernel: match.reason for match in alignment.unattributed}
    assert "the tactic of several layers" in reasons["two_execute_kernel_trt"]
    assert "is no tactic of the plan" in reasons["none_execute_kernel_trt"]
    assert alignment.inferences == 10


def test_layers_that_came_another_number_of_times_are_said() -> None:
    rows = [Sum("TensorRT:a", "k", 10, 2000), Sum("TensorRT:b", "l", 9, 1000, 9)]
    alignment = align_sums(table(rows), layers(("a", ""), ("b", "")))
    assert alignment.inferences == 10
    assert "1 of 2 layers came another number of times" in alignment.notes[0]


def test_ranges_of_others_count_where_they_cannot_lie_within_one_another() -> None:
    rows = [Sum("first", "k"), Sum(":second, op_id = 3", "l"), Sum(":second, op_id = 4", "l")]
    alignment = align_sums(table(rows), None)
    assert [layer.layer.name for layer in alignment.layers] == ["first", "second"]
    assert alignment.captured_ns == 30_000
    assert {confidence for _, _, confidence in found(alignment).values()} == {"inferred"}
    assert alignment.inferences == 0
    with pytest.raises(UsageError) as error:
        align_sums(table([*rows, Sum("outer", "k")]), None)
    assert "'first' and for 'outer'" in refused(error.value)


NAMES = ("TensorRT:a", "TensorRT:b", "TensorRT:__myl_Add_myl0_1", "myelin-exec:__myl_Add", "mine", ":TensorRT")
PLAN = layers(("a", "k"), ("b", "l"), ("__myl_Add_myl0_1", "m"), ("c", "l"))


@given(
    st.lists(
        st.tuples(
            st.sampled_from(("", ENQUEUE, *NAMES)),
            st.sampled_from("klm"),
            st.integers(1, 40),
            st.integers(1, 10**6),
            st.integers(1, 2),
        ),
        min_size=1,
        max_size=25,
        unique_by=lambda row: (row[0], row[1], row[4]),
    ),
    st.sampled_from([PLAN, None]),
)
def test_whatever_the_sums_no_nanosecond_is_lost_or_counted_twice(
    rows: list[tuple[str, str, int, int, int]], plan: tuple[MatchedLayer, ...] | None
) -> None:
    sums = table(
        [
            Sum(name, kernel, count, ns, count, "push_pop" if name else "", tid=tid)
            for name, kernel, count, ns, tid in rows
        ]
    )
    try:
        alignment = align_sums(sums, plan)
    except UsageError as error:
        assert plan is None
        refused(error)
        return
    matches = [match for own in (*alignment.matches, alignment.unattributed) for match in own]
    assert sum(match.total_ns for match in matches) == alignment.captured_ns
    assert all(match.count > 0 and match.total_ns >= 0 for match in matches)
    largest = sums[sums["range"] != ""].groupby(["name", "tid"])["total_ns"].max().sum()
    outside = sums[sums["range"] == ""]["total_ns"].sum()
    assert largest + outside <= alignment.captured_ns <= sums["total_ns"].sum()
    coverage = alignment.coverage
    assert coverage.exact + coverage.inferred + coverage.unattributed == pytest.approx(1.0)
