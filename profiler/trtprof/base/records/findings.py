"""Why it differs: layers against their bound, the ledger, findings and plug-in candidates."""

from __future__ import annotations

from typing import Literal

import msgspec

from trtprof.base.records import common as c
from trtprof.base.records.capture import Match
from trtprof.base.records.common import Record
from trtprof.base.records.engine import MatchConfidence
from trtprof.base.records.estimate import Bound, Expectation
from trtprof.base.records.model import Work
from trtprof.base.records.tried import TriedRung


class LayerResult(Expectation, frozen=True, kw_only=True):
    """A layer with its measured and its predicted time: a row of the report.

    ``measured_ns`` is the median over iterations, less the profiler's own time inside each event
    (`Ceilings.profiler_ns`); the kernels' own times are as captured. ``lost_ns`` is measured less attainable; it is
    negative when the layer ran faster than the ceilings of this device allow.
    """

    name: c.LayerName
    op_type: c.OpName
    role: c.Safe
    nodes: tuple[c.NodeName, ...]
    kernels: tuple[Match, ...]
    measured_ns: c.NonNegative
    ideal_ns: c.NonNegative | None
    attainable_ns: c.NonNegative | None
    lost_ns: int | None
    bound: Bound
    runner_up: Bound = "none"
    flops: c.NonNegative | None
    bytes: c.NonNegative | None
    dtype: c.Safe = ""
    match: MatchConfidence = "none"
    reason: c.Prose = ""
    shapes: c.Prose = ""
    terms: dict[c.Safe, int] = {}
    work: Work | None = None
    constant: bool = False


class LedgerRow(Record, frozen=True, kw_only=True):
    """One step from ideal to measured. ``kind`` says whether the ns are measured or computed."""

    cause: c.Prose
    ns: int
    kind: Literal["fact", "estimate", "remainder"]
    meaning: c.Prose = ""


class Finding(Record, frozen=True, kw_only=True):
    """A cause, which is a hypothesis, with the facts and estimates behind it.

    ``lost_ns`` is claimed by this finding alone; ``layers`` are where it is claimed. A doubt about the numbers
    themselves (``trust``) claims nothing; it is ``critical`` beyond the limit at which there is no verdict.
    """

    code: c.Safe
    title: c.Prose
    severity: Literal["info", "warning", "critical"]
    where: c.Place
    evidence: c.Prose
    lost_ns: c.NonNegative
    confidence: c.Fraction
    try_: c.Prose = msgspec.field(name="try")
    kind: Literal["hypothesis", "trust"] = "hypothesis"
    layers: tuple[c.LayerName, ...] = ()
    brief: c.Prose = ""
    """Of a doubt: what it is, in a few words with its number."""
    command: c.Command = ""
    """What tries the remedy, or makes what was found to help; empty where no rung of `trtprof try` makes it, or the
    model is not at hand."""
    tried: tuple[TriedRung, ...] = ()
    """Rungs that answer it and were measured, what helps most first."""


class CounterCheck(Record, frozen=True, kw_only=True):
    """One prediction about a layer held against hardware counters.

    ``predicted`` is from ``predicted_low`` to ``predicted_high`` where it is a range, ``counted`` likewise; of the math
    unit they are 1 for tensor cores and 0 for none. All are None where they are not known.
    """

    what: Literal["DRAM bytes", "FLOP", "math unit"]
    verdict: Literal["confirmed", "refuted", "not told"]
    predicted_low: float | None = None
    predicted_high: float | None = None
    counted_low: float | None = None
    counted_high: float | None = None
    reason: c.Prose
    """In words, with the numbers."""


class Confirmation(Record, frozen=True, kw_only=True):
    """What hardware counters of its kernels say of the predictions about a layer, in one inference."""

    layer: c.LayerName
    verdict: Literal["confirmed", "refuted", "not told"]
    checks: tuple[CounterCheck, ...]
    launches: c.NonNegative
    """That were counted."""
    match: MatchConfidence
    """How surely they are the layer's."""
    reason: c.Prose
    """By what they were led to it."""
    uncounted: tuple[c.KernelName, ...] = ()
    """Kernels of the layer that were not counted."""
    counted_ns: c.NonNegative | None = None
    """Duration under ncu, at the clock that it held."""
    occupancy: c.Fraction | None = None
    """Achieved: the share of the warps that fit."""


class LadderStep(Record, frozen=True, kw_only=True):
    """A cheaper fix to try before a hand-written kernel.

    ``gain_ns`` of one inference is an estimate, None where nothing tells it. Where ``tried`` is there it is measured:
    0 of what did not help.
    """

    what: c.Prose
    command: c.Command
    """How to measure it against the engine as it is."""
    gain_ns: c.NonNegative | None = None
    basis: c.Prose = ""
    """Where the gain is from, in words."""
    rung: c.Safe = ""
    """What ``trtprof try --rung`` calls it; empty where no rung makes it."""
    tried: TriedRung | None = None
    """What became of that rung; None where it was not measured."""


class BarrierPart(Record, frozen=True, kw_only=True):
    """A part of what a plugin would cost by cutting fusion."""

    what: c.Prose
    ns: c.NonNegative
    bytes: c.NonNegative = 0


class PluginCandidate(Record, frozen=True, kw_only=True):
    """Whether a hand-written kernel for a layer would pay. All times are of one inference.

    ``recoverable_ns`` is measured less ``reachable_ns``, what kernels of this class reach on this device; the net
    gain is that less the barrier, with an interval from the spread of what the class reaches.
    """

    layer: c.LayerName
    nodes: tuple[c.NodeName, ...]
    kernel: c.KernelName
    measured_ns: c.NonNegative
    reachable_ns: c.NonNegative
    basis: c.Prose
    """Where ``reachable_ns`` is from, in words: which healthy kernels, or which calibration."""
    recoverable_ns: c.NonNegative
    barrier: tuple[BarrierPart, ...]
    net_ns: int
    net_low_ns: int
    net_high_ns: int
    verdict: Literal["write it", "try first", "do not"]
    why: c.Prose
    ladder: tuple[LadderStep, ...] = ()
    command: c.Command = ""
    """What goes on, and writes it; empty where it is not worth it. ``RUN`` stands for the folder of the run, or for the
    document of an analysis."""


class Unsupported(Record, frozen=True, kw_only=True):
    """An op without a cost function, and its share of the kernel time."""

    domain: c.DomainName
    op_type: c.OpName
    count: c.NonNegative
    measured_ns: c.NonNegative
    share: c.Fraction
    reason: c.Prose = ""
