"""What would help, tried: changes of a model or of its options, each measured against the original."""

from __future__ import annotations

from typing import Literal

from trtprof.base.records import common as c
from trtprof.base.records.capture import Device, Latency
from trtprof.base.records.common import Record
from trtprof.base.records.engine import Backend
from trtprof.base.records.model import ModelInfo

RungKind = Literal["option", "rewrite", "pass", "combination"]
"""What is changed: how the runtime is set up; the graph, by a rewrite of ours; the graph, by a library; several."""

RungVerdict = Literal["helps", "no difference", "slower", "unclear", "wrong", "refused", "failed", "not measured"]
"""``wrong`` is a variant whose outputs are others; ``refused`` one that cannot be made here; ``failed`` one that
crashed, hung or was refused by the runtime; ``not measured`` one that is predicted to be slower, or that there was no
time for."""


class RungCheck(Record, frozen=True, kw_only=True):
    """Outputs of a variant beside those of the original, on one set of inputs."""

    inputs: c.Safe
    """Which: ``random``, ``zeros``, ``extremes``, ``given``."""
    matches: bool
    tensor: c.TensorName
    """The output that is farthest off."""
    max_abs: float | None
    """Largest difference of an element; None where the outputs cannot be compared at all."""
    of_tolerance: float | None
    """The largest over what is allowed."""
    reason: c.Prose = ""


class Rung(Record, frozen=True, kw_only=True):
    """One thing that was tried."""

    name: c.Safe
    """What ``--rung`` calls it; of a combination its parts, joined with ``+``."""
    kind: RungKind
    title: c.Safe
    verdict: RungVerdict
    reason: c.Prose = ""
    """Why that is the verdict, in words."""
    answers: tuple[c.Safe, ...] = ()
    """Codes of the findings of the original that it is a remedy of."""
    gain: c.Interval | None = None
    """Measured; None where it was not."""
    beside: c.Safe = ""
    """What a combination was measured against: the best so far; empty for the original."""
    tail: float | None = None
    """How often chance alone goes as far, before it is set against how many were tried."""
    predicted: float | None = None
    """By its layers, before it was measured; None where nothing tells it."""
    at_most: float | None = None
    """The gain if the layers that it changes took no time; None for options."""
    basis: c.Prose = ""
    """Where the prediction is from."""
    before_ns: c.NonNegative | None = None
    after_ns: c.NonNegative | None = None
    """Medians of the turns of the original and of the variant."""
    turns: c.NonNegative = 0
    processes: c.NonNegative = 0
    exact: bool | None = None
    """Whether it keeps every bit of the outputs by its nature; None where that is not known."""
    checks: tuple[RungCheck, ...] = ()
    difference: float | None = None
    """The largest difference of any output, over what its type allows; 0 where all bits are the same."""
    nodes: tuple[c.NodeName, ...] = ()
    """Of the original, that went."""
    added: c.NonNegative = 0
    """Nodes that came in their place."""
    options: dict[c.Safe, c.Safe] = {}
    """As ``--sessionOption``, or another flag, takes them."""
    seconds: float = 0.0
    """That it took to make, check and measure."""


class TriedRung(Record, frozen=True, kw_only=True):
    """What became of a rung that was measured, as a finding or a step of a ladder tells it; see `Rung`."""

    name: c.Safe
    verdict: RungVerdict
    gain: c.Interval | None = None
    """Of the whole inference; None where its outputs were wrong, or it did not run."""


class BestRungs(Record, frozen=True, kw_only=True):
    """The combination that is fastest, measured once more against the original after it had been chosen."""

    rungs: tuple[c.Safe, ...]
    gain: c.Interval
    options: dict[c.Safe, c.Safe] = {}
    model: c.FileName = ""
    """The rewritten model, where it was written."""
    folder: c.Place = ""
    """The run of it; empty where there was no time for it."""
    command: c.Command = ""
    """That runs it again."""
    patch: tuple[c.Prose, ...] = ()
    """Nodes that went, each behind ``- ``, and that came, behind ``+ ``, as ONNX's text form has them."""


class Tried(Record, frozen=True, kw_only=True):
    """The result of `trtprof try`."""

    schema_version: int
    model: ModelInfo
    backend: Backend
    device: Device
    created: c.Safe
    version: c.Safe
    command: c.Command
    threads: c.NonNegative
    latency: Latency | None
    """Of the original; None where nothing was measured."""
    folder: c.Place = ""
    """The run of it."""
    verdict: c.Prose
    doubts: tuple[c.Prose, ...] = ()
    rungs: tuple[Rung, ...]
    """What helps first, by its gain; then what makes no difference, what is slower, and what was not measured."""
    best: BestRungs | None
    candidates: c.NonNegative
    """That were measured, and that the level of the intervals accounts for."""
    budget_s: float
    spent_s: float
    interrupted: bool = False
    """Whether somebody stopped it: notes say when."""
    unfit: tuple[c.Safe, ...] = ()
    """Rungs that change nothing of this model."""
    notes: tuple[c.Prose, ...] = ()
