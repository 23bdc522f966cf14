"""Times that nobody measured, in words: a bound never looks like an expectation, nor that one like a measurement."""

from __future__ import annotations

from trtprof.base.records import Expectation
from trtprof.base.units import format_band, format_ns, in_unit, ns_unit

BAND = "80 % band"  # What the two times of `band` are called: four fifths of held-out measurements lie between them
WIDER = "*"  # Behind an expectation of what was not measured itself, whose band is wider


def at_least(ns: float) -> str:
    """A bound: ``>= 198 us``."""
    return f">= {format_ns(ns)}"


def about(one: Expectation) -> str:
    """An expectation: ``~260 us``; a dash where there is none."""
    return "-" if one.expected_ns is None else f"~{format_ns(one.expected_ns)}"


def band(one: Expectation) -> str:
    """The times of its band in one unit: ``210 .. 330 us``; a dash where there is none."""
    low, high = one.expected_p10_ns, one.expected_p90_ns
    if one.expected_ns is None or low is None or high is None:
        return "-"
    factor, unit = ns_unit(one.expected_ns)
    return f"{in_unit(low, factor)} .. {in_unit(high, factor)} {unit}"


def with_band(one: Expectation) -> str:
    """Both, with the level of the band; empty where there is none."""
    low, high = one.expected_p10_ns, one.expected_p90_ns
    if one.expected_ns is None or low is None or high is None:
        return ""
    return format_band(one.expected_ns, low, high)
