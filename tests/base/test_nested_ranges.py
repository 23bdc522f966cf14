"""`NestedRanges` against the definition, written out as loops."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trtprof.base.nested_ranges import NestedRanges, calls_of, distinct, finder, places_in, running_maximum

Range = tuple[int, int, int]

# Few threads and a short clock, so that ranges touch, coincide and cross.
SPANS = st.tuples(st.sampled_from([-7, 3, 1 << 60]), st.integers(-4, 12), st.integers(0, 9)).map(
    lambda span: (span[0], span[1], span[1] + span[2])
)
RANGES = st.lists(SPANS, max_size=14)
MOMENTS = st.lists(SPANS, max_size=10)


def columns(rows: list[Range]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    thread, start, end = np.asarray(rows, dtype=np.int64).reshape(-1, 3).T
    return thread, start, end


def nested(rows: list[Range]) -> NestedRanges:
    return NestedRanges(*columns(rows))


def outer_first(row: int, ranges: list[Range]) -> tuple[int, int, int]:
    _, start, end = ranges[row]
    return start, -end, row


def holders(ranges: list[Range], moment: Range) -> list[int]:
    """The ranges around a moment, innermost first."""
    thread, start, end = moment
    held = [row for row, (t, s, e) in enumerate(ranges) if t == thread and s <= start and end <= e]
    return sorted(held, key=lambda row: outer_first(row, ranges), reverse=True)


@given(RANGES, MOMENTS)
def test_innermost(ranges: list[Range], moments: list[Range]) -> None:
    found = nested(ranges).innermost(*columns(moments))
    assert found.tolist() == [next(iter(holders(ranges, moment)), -1) for moment in moments]


@given(RANGES)
def test_parents(ranges: list[Range]) -> None:
    expected = []
    for row, each in enumerate(ranges):
        outer = [o for o in holders(ranges, each) if outer_first(o, ranges) < outer_first(row, ranges)]
        expected.append(outer[0] if outer else -1)
    assert nested(ranges).parents.tolist() == expected


@given(RANGES, st.data())
def test_nearest_and_depths_walk_the_parents(ranges: list[Range], data: st.DataObject) -> None:
    built = nested(ranges)
    wanted = np.asarray([data.draw(st.booleans()) for _ in ranges], dtype=bool)
    starts = [-1, *range(len(ranges))]
    chains: list[list[int]] = []
    for row in starts:
        chain = [] if row < 0 else [row]
        while chain and built.parents[chain[-1]] >= 0:
            chain.append(int(built.parents[chain[-1]]))
        chains.append(chain)
    assert built.nearest(np.asarray(starts), wanted).tolist() == [
        next((row for row in chain if wanted[row]), -1) for chain in chains
    ]
    assert built.depths().tolist() == [len(chain) - 1 for chain in chains[1:]]


def test_layers_within_an_enqueue() -> None:
    enqueue, conv, relu = (9, 0, 100), (9, 10, 20), (9, 20, 40)
    other_thread = (8, 0, 100)
    found = nested([relu, conv, enqueue, other_thread]).innermost(
        np.array([9, 9, 9, 9, 7], np.int64), np.array([12, 20, 50, 101, 12], np.int64)
    )
    # At 20 the convolution ends and the activation starts: what starts last is the inner one.
    assert found.tolist() == [1, 0, 2, -1, -1]


PAIRS = st.lists(st.tuples(st.sampled_from([-1, 5, 1 << 22]), st.sampled_from([0, 1, 2, 1 << 31, (1 << 32) - 1])))


@given(PAIRS, PAIRS)
def test_calls_of(work: list[tuple[int, int]], calls: list[tuple[int, int]]) -> None:
    work_columns, call_columns = (np.asarray(pairs, dtype=np.int64).reshape(-1, 2).T for pairs in (work, calls))
    expected = [calls.index(pair) if pair in calls and pair[1] else -1 for pair in work]
    assert calls_of(*work_columns, *call_columns).tolist() == expected


INT64 = st.one_of(st.integers(-3, 3), st.integers(-(1 << 63), (1 << 63) - 1))


@given(st.lists(st.integers(-3, 3)) | st.lists(INT64), st.sampled_from(["int8", "int32", "int64"]))
def test_distinct(values: list[int], dtype: str) -> None:
    column = np.asarray(values, dtype=np.int64).astype(dtype)
    found = distinct(column)
    assert found.tolist() == sorted(set(column.tolist()))
    assert found.dtype == column.dtype


@given(st.lists(st.integers(-3, 30)) | st.lists(INT64), st.lists(INT64), st.sampled_from(["int8", "int64"]))
def test_places_in(ordered: list[int], values: list[int], dtype: str) -> None:
    column = np.sort(np.asarray(ordered, dtype=np.int64))
    wanted = np.asarray(values, dtype=np.int64).astype(dtype)
    expected = [sum(each < value for each in column.tolist()) for value in wanted.tolist()]
    assert places_in(column, wanted).tolist() == expected
    assert finder(column, 1000)(wanted).tolist() == expected


@given(st.lists(st.lists(st.integers(-9, 9) | INT64, min_size=1), min_size=1))
def test_running_maximum(groups: list[list[int]]) -> None:
    values = np.asarray(list(itertools.chain.from_iterable(groups)), dtype=np.int64)
    firsts = np.cumsum([0, *(len(group) for group in groups[:-1])])
    expected = [list(itertools.accumulate(group, max)) for group in groups]
    assert running_maximum(values, firsts).tolist() == list(itertools.chain.from_iterable(expected))
