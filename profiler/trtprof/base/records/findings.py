"""Why it differs: layers against their bound, the ledger, findings and plug-in candidates."""

from __future__ import annotations

from typing import Literal

import msgspec

from trtprof.base.records.capture import Match
from trtprof.base.records.common import (
    Command,
    DomainName,
    Fraction,
    KernelName,
    LayerName,
    NodeName,
    NonNegative,
    OpName,
    Place,
    Prose,
    Record,
    Safe,
)
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

    name: LayerName
    op_type: OpName
    role: Safe
    nodes: tuple[NodeName, ...]
    kernels: tuple[Match, ...]
    measured_ns: NonNegative
    ideal_ns: NonNegative | None
    attainable_ns: NonNegative | None
    lost_ns: int | None
    bound: Bound
    runner_up: Bound = "none"
    flops: NonNegative | None
    bytes: NonNegative | None
    dtype: Safe = ""
    match: MatchConfidence = "none"
    reason: Prose = ""
    shapes: Prose = ""
    terms: dict[Safe, int] = {}
    work: Work | None = None
    constant: bool = False


class LedgerRow(Record, frozen=True, kw_only=True):
    """One step from ideal to measured. ``kind`` says whether the ns are measured or computed."""

    cause: Prose
    ns: int
    kind: Literal["fact", "estimate", "remainder"]
    meaning: Prose = ""


class Finding(Record, frozen=True, kw_only=True):
    """A cause, which is a hypothesis, with the facts and estimates behind it.

    ``lost_ns`` is claimed by this finding alone; ``layers`` are where it is claimed. A doubt about the numbers
    themselves (``trust``) claims nothing; it is ``critical`` beyond the limit at which there is no verdict.
    """

    code: Safe
    title: Prose
    severity: Literal["info", "warning", "critical"]
    where: Place
    evidence: Prose
    lost_ns: NonNegative
    confidence: Fraction
    try_: Prose = msgspec.field(name="try")
    kind: Literal["hypothesis", "trust"] = "hypothesis"
    layers: tuple[LayerName, ...] = ()
    brief: Prose = ""
    """Of a doubt: what it is, in a few words with its number."""
    command: Command = ""
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
    reason: Prose
    """In words, with the numbers."""


class Confirmation(Record, frozen=True, kw_only=True):
    """What hardware counters of its kernels say of the predictions about a layer, in one inference."""

    layer: LayerName
    verdict: Literal["confirmed", "refuted", "not told"]
    checks: tuple[CounterCheck, ...]
    launches: NonNegative
    """That were counted."""
    match: MatchConfidence
    """How surely they are the layer's."""
    reason: Prose
    """By what they were led to it."""
    uncounted: tuple[KernelName, ...] = ()
    """Kernels of the layer that were not counted."""
    counted_ns: NonNegative | None = None
    """Duration under ncu, at the clock that it held."""
    occupancy: Fraction | None = None
    """Achieved: the share of the warps that fit."""


class LadderStep(Record, frozen=True, kw_only=True):
    """A cheaper fix to try before a hand-written kernel.

    ``gain_ns`` of one inference is an estimate, None where nothing tells it. Where ``tried`` is there it is measured:
    0 of what did not help.
    """

    what: Prose
    command: Command
    """How to measure it against the engine as it is."""
    gain_ns: NonNegative | None = None
    basis: Prose = ""
    """Where the gain is from, in words."""
    rung: Safe = ""
    """What ``trtprof try --rung`` calls it; empty where no rung makes it."""
    tried: TriedRung | None = None
    """What became of that rung; None where it was not measured."""


class BarrierPart(Record, frozen=True, kw_only=True):
    """A part of what a plugin would cost by cutting fusion."""

    what: Prose
    ns: NonNegative
    bytes: NonNegative = 0


class PluginCandidate(Record, frozen=True, kw_only=True):
    """Whether a hand-written kernel for a layer would pay. All times are of one inference.

    ``recoverable_ns`` is measured less ``reachable_ns``, what kernels of this class reach on this device; the net
    gain is that less the barrier, with an interval from the spread of what the class reaches.
    """

    layer: LayerName
    nodes: tuple[NodeName, ...]
    kernel: KernelName
    measured_ns: NonNegative
    reachable_ns: NonNegative
    basis: Prose
    """Where ``reachable_ns`` is from, in words: which healthy kernels, or which calibration."""
    recoverable_ns: NonNegative
    barrier: tuple[BarrierPart, ...]
    net_ns: int
    net_low_ns: int
    net_high_ns: int
    verdict: Literal["write it", "try first", "do not"]
    why: Prose
    ladder: tuple[LadderStep, ...] = ()
    command: Command = ""
    """What goes on, and writes it; empty where it is not worth it. ``RUN`` stands for the folder of the run, or for the
    document of an analysis."""


class Unsupported(Record, frozen=True, kw_only=True):
    """An op without a cost function, and its share of the kernel time."""

    domain: DomainName
    op_type: OpName
    count: NonNegative
    measured_ns: NonNegative
    share: Fraction
    reason: Prose = ""
