"""Windows over one dimension: what they touch, against the places themselves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trtprof.cost._windows import touched

FEW = st.integers(1, 8)


@given(st.integers(0, 40), FEW, FEW, FEW, st.integers(-3, 8), st.integers(0, 12))
def test_touched_places_are_those_of_all_windows(
    size: int, window: int, stride: int, dilation: int, before: int, outputs: int
) -> None:
    places = {element * dilation - before + at * stride for element in range(window) for at in range(outputs)}
    assert touched(size, window, stride, dilation, before, outputs) == len(places & set(range(size)))


@pytest.mark.parametrize(
    ("window", "stride", "dilation", "expected"),
    [(1, 2, 1, 2**59), (3, 2, 2, 2**59), (2, 4, 2**40, 2**58), (2**60, 2**61, 1, 2**16)],
)
def test_a_dimension_of_any_size_takes_no_memory(window: int, stride: int, dilation: int, expected: int) -> None:
    assert touched(2**60, window, stride, dilation, 0, max(2**60 // stride, 1)) == expected
