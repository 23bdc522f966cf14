"""Durations as people write and read them."""

from __future__ import annotations

import pytest

from trtprof.base.units import format_seconds, parse_ns


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("10 ms", 10_000_000),
        ("1.5s", 1_500_000_000),
        (" 250 us ", 250_000),
        ("3 \u00b5s", 3000),
        ("7NS", 7),
        ("0.4 ns", 0),
    ],
)
def test_a_time_with_its_unit(text: str, ns: int) -> None:
    assert parse_ns(text) == ns


@pytest.mark.parametrize("text", ["", "10", "ms", "-1 ms", "1 min", "1e3 ms", "1,5 ms", "9" * 400 + " s"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no time"):
        parse_ns(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (1.26, "1.3 s"), (42.4, "42 s"), (89, "89 s"), (90, "2 min"), (3569, "59 min"), (3599, "1 h 00 min"),
     (7500, "2 h 05 min"), (172_000, "47 h 47 min"), (864_000, "10 days")],
)  # fmt: skip
def test_how_long_a_person_waits(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text
