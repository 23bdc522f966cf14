"""Two runs side by side."""

from __future__ import annotations

from typing import Literal

from trtprof.base.records.capture import Latency
from trtprof.base.records.common import Interval, NonNegative, Record
from trtprof.base.records.estimate import Expectation
from trtprof.base.records.findings import Finding

ChangeCause = Literal[
    "work changed",
    "precision changed",
    "fusion changed",
    "kernel changed",
    "roof changed",
    "clock changed",
    "only before",
    "only after",
    "same kernels, other time",
    "copies and gaps",
    "host",
    "unexplained",
]
"""Why two runs differ. ``work`` is what the model asks for (shapes, ops); ``precision`` the dtype that a part of it is
computed in; ``fusion`` which nodes share a layer; ``kernel`` another kernel for the same layer; ``roof`` other ceilings
(another device, another number of threads); ``clock`` another clock, or speed of the machine, on the same device."""


def cause_name(cause: str) -> str:
    """Why two runs differ, as documents for people say it."""
    return "ceilings changed" if cause == "roof changed" else cause


Significance = Literal["slower", "faster", "not significant"]


class Side(Record, frozen=True, kw_only=True):
    """One side of a comparison: a run, or several of the same thing taken together."""

    label: str
    """What to call it: the name of its folder."""
    paths: tuple[str, ...]
    """Of its runs."""
    model: str
    backend: str
    device: str
    created: str
    tags: tuple[str, ...] = ()
    latency: Latency
    """Over the samples of all its runs."""
    medians_ns: tuple[int, ...]
    """Median of each of its runs."""
    attainable_ns: NonNegative | None
    """What the roofline allows, as the reports of its runs have it; of several runs the median."""


class LatencyChange(Record, frozen=True, kw_only=True):
    """What became of the latency, after less before."""

    difference_ns: Interval
    """Of the medians."""
    ratio: Interval
    """Of the medians, after over before."""
    answer: Significance
    samples_before: NonNegative
    samples_after: NonNegative
    method: str
    """How the interval was found, in words."""
    reason: str = ""
    """In words, why the answer is what it is."""


class ChangeRow(Record, frozen=True, kw_only=True):
    """One step from the latency before to that after; the steps sum to the difference of the medians."""

    cause: ChangeCause
    ns: int
    kind: Literal["fact", "estimate", "remainder"]
    regions: NonNegative = 0
    """Parts of the model that have a share in it."""
    meaning: str = ""


class RegionChange(Record, frozen=True, kw_only=True):
    """A part of the model on both sides: the least set of nodes whose layers compute nothing else on either.

    ``parts`` says by cause what the difference is made of, and sums to it.
    """

    name: str
    """Of its heaviest node, and how many others."""
    op_types: str
    nodes_before: tuple[str, ...] = ()
    nodes_after: tuple[str, ...] = ()
    layers_before: tuple[str, ...] = ()
    layers_after: tuple[str, ...] = ()
    kernels_before: tuple[str, ...] = ()
    kernels_after: tuple[str, ...] = ()
    dtype_before: str = ""
    dtype_after: str = ""
    before_ns: NonNegative = 0
    after_ns: NonNegative = 0
    difference_ns: int = 0
    attainable_before_ns: NonNegative | None = None
    attainable_after_ns: NonNegative | None = None
    expected_before: Expectation | None = None
    expected_after: Expectation | None = None
    """What good library kernels take for its layers, with a band as if all erred the same way; None where one of them
    has no expectation."""
    parts: dict[str, int] = {}
    """`ChangeCause` -> ns."""
    interval_ns: Interval | None = None
    """Of the difference; None where single inferences were not kept by layer."""
    answer: Significance | None = None
    match: Literal["same names", "same place", "only before", "only after"] = "same names"
    """How the nodes of both sides were found to be the same."""
    reason: str = ""


class FactChange(Record, frozen=True, kw_only=True):
    """Something about the runs that is not the same: a version, an option, a device, an input."""

    what: str
    before: str
    after: str


class GateResult(Record, frozen=True, kw_only=True):
    """A gate and its answer. ``value`` is what it looks at, in percent (or ns), above ``threshold`` it fails.

    ``failed`` only where the whole interval is above the threshold, ``passed`` where none of it is,
    ``inconclusive`` else.
    """

    gate: str
    """As asked for: ``latency>3%``."""
    what: Literal["latency", "lost", "gap-to-roof"]
    unit: Literal["%", "ns"]
    threshold: float
    value: Interval | None
    """None where it cannot be told, which is inconclusive."""
    answer: Literal["passed", "failed", "inconclusive"]
    reason: str
    """In words, with the numbers."""


class Comparison(Record, frozen=True, kw_only=True):
    """One run against another."""

    before: Side
    after: Side
    verdict: str
    latency: LatencyChange
    ledger: tuple[ChangeRow, ...]
    regions: tuple[RegionChange, ...]
    """Largest difference first."""
    facts: tuple[FactChange, ...] = ()
    findings_gone: tuple[Finding, ...] = ()
    findings_new: tuple[Finding, ...] = ()
    gates: tuple[GateResult, ...] = ()
    notes: tuple[str, ...] = ()


class Comparisons(Record, frozen=True, kw_only=True):
    """The document of `trtprof compare A B [C...] --format json`: B, C, ... each against A."""

    schema_version: int
    comparisons: tuple[Comparison, ...]
