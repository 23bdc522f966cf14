"""What it would take elsewhere."""

from __future__ import annotations

from typing import Literal

from trtprof.base.records.common import Fraction, NonNegative, Prose, Record
from trtprof.base.records.engine import EngineFacts, MatchConfidence, NodeFate, PlanRole, PlanSummary
from trtprof.base.records.estimate import Ceilings, Corrected, Estimate, Expectation, ExpectedBasis, MeasuredRow
from trtprof.base.records.findings import Unsupported
from trtprof.base.records.model import ModelInfo, Work


class PredictedLayer(Expectation, frozen=True, kw_only=True):
    """A layer as an engine might run it: one node, or nodes that are taken to be fused.

    Its ``estimate`` is a bound, its expectation (``expected_ns``) what good library kernels take; both are of one of
    its runs.
    """

    name: str
    """Of the node with most arithmetic, and how many others it computes: ``conv1 +2``."""
    op_type: str
    """Of its nodes: ``Conv + Relu``."""
    nodes: tuple[str, ...]
    rule: str = ""
    """Why its nodes are taken to be one layer, in a word: a key of `predict.fusion.RULES`."""
    graph: str = ""
    shapes: str = ""
    repeats: NonNegative = 1
    """How often it runs in one inference."""
    steps: NonNegative = 1
    """Of a recurrence, how many steps wait for the one before: each is at least a launch in a forecast."""
    work: Work | None = None
    estimate: Estimate | None = None
    """Of one of its runs; None where the work is unknown, and ``reason`` says why."""
    reason: str = ""
    kind: str = ""
    """Of a layer of a built engine: its LayerType (``gemm``); empty of estimated groups."""
    role: PlanRole = "compute"
    match: MatchConfidence | None = None
    """Of a layer of a built engine: how surely it was led back to its nodes."""

    @property
    def bound_ns(self) -> int:
        """Of all its runs in an inference; 0 where it is not known."""
        return 0 if self.estimate is None else self.estimate.attainable_ns * self.repeats


DOES_NOT_FIT = "does not fit"
"""How a note on a GPU begins whose memory is too small."""


class GpuPrediction(Expectation, frozen=True, kw_only=True):
    """A model on one GPU: what bounds its time, and what to expect of good library kernels.

    ``expected_ns`` and its band are sums over the runs of the layers that have an expectation: the band adds up the
    tenth percentiles and the ninetieth, as if all layers erred the same way. None where the layers without an
    expectation are more than half of ``time_ns``, and ``expected_reason`` says so.
    """

    gpu: str
    """Its slug."""
    name: str
    ceilings: Ceilings
    clock_mhz: float
    tdp_w: float
    memory_bytes: NonNegative
    time_ns: NonNegative | None
    """Sum over the layers of what is attainable, as far as they are priced; None where there are layers and none is."""
    ideal_ns: NonNegative | None
    """The same without the floor of a launch."""
    expected_ns_by_basis: dict[ExpectedBasis, int] = {}
    """Parts of ``expected_ns`` by what they rest on: no verdict rests on those that are not firm."""
    refused_ns: NonNegative = 0
    """What layers without an expectation add to a forecast: their bound, of a recurrence at least a launch a step."""
    refused_layers: dict[str, int] = {}
    """How many layers have no expectation, by reason, the most frequent first."""
    wider_layers: dict[str, int] = {}
    """How many layers have the wider band of what was not measured itself, by reason, likewise."""
    joules: float | None
    """``time_ns`` at the board's power limit."""
    expected_joules: float | None = None
    """``forecast_ns`` at the board's power limit."""
    ridge: dict[str, float]
    """FLOP per byte of DRAM traffic where the roofline of a dtype bends."""
    ns_by_bound: dict[str, int]
    by_precision: dict[str, int | None]
    """``time_ns`` at other precisions; None where the GPU has no unit for it, empty where nothing is priced."""
    layers: tuple[PredictedLayer, ...]
    """In execution order."""
    estimated_precisions: tuple[str, ...] = ()
    """Those of ``by_precision`` that the engine does not tell: their times are of groups that an engine may make."""
    plan: PlanSummary | None = None
    """Of a built engine, with the times attainable on this GPU."""
    corrected: Corrected | None = None
    """What its expectations are corrected by; None where they are those of others alone."""
    notes: tuple[str, ...] = ()

    @property
    def forecast_ns(self) -> int | None:
        """What is expected of all layers, those without an expectation at their bound; None without a forecast."""
        return None if self.expected_ns is None else self.expected_ns + self.refused_ns


class Prediction(Record, frozen=True, kw_only=True):
    """A model on GPUs that need not be at hand: the document of `trtprof predict --format json`."""

    schema_version: int
    model: ModelInfo
    level: Literal["nodes", "groups", "layers"]
    """What a layer is: an ONNX node, nodes that an engine may fuse, or a layer of a built engine."""
    precision: str
    memory_bytes: NonNegative
    """What must be in the memory of a GPU at once: the weights, and the most that lives between layers."""
    gpus: tuple[GpuPrediction, ...]
    """In the order asked for."""
    fastest: str
    """Slug of the GPU that needs least time, by ``forecast_ns`` or ``time_ns``; empty where ``unpriced`` says why."""
    fastest_by: Literal["expectation", "bound", ""] = ""
    """What tells it, and ``most_efficient``: expectations where each of the GPUs has them for the same layers, else
    bounds."""
    most_efficient: str
    """Slug of the GPU that needs least energy at its power limit, told by the same; empty likewise."""
    unsupported: tuple[Unsupported, ...]
    unpriced: Prose = ""
    """Where nothing is priced, or not all ops of multiply-accumulates are, why, and what would price them."""
    engine: EngineFacts | None = None
    """Where ``level`` is ``layers``: the engine that they are of."""
    fates: tuple[NodeFate, ...] = ()
    """Where ``level`` is ``layers``: what became of every ONNX node in the engine."""
    assumptions: tuple[str, ...] = ()


class LayerOnGpu(Record, frozen=True, kw_only=True):
    """A predicted layer on one GPU, and what was measured that is most like it."""

    gpu: str
    """Its slug."""
    name: str
    layer: PredictedLayer
    nearest: tuple[MeasuredRow, ...] = ()
    """Measurements by others, the most like first; not those alone that the expectation is made of."""


class MeasuredSource(Record, frozen=True, kw_only=True):
    """A public collection of measurements that expectations were learned from."""

    name: str
    repository: str
    commit: str
    licence: str


class PredictedWhy(Record, frozen=True, kw_only=True):
    """Why a layer is predicted so: the document of `trtprof predict --why LAYER --format json`."""

    schema_version: int
    model: str
    layer: str
    """Its name."""
    covered: float
    """Share of measurements that lie between ``expected_p10_ns`` and ``expected_p90_ns`` where they were held out."""
    gpus: tuple[LayerOnGpu, ...]
    """In the order asked for."""
    sources: tuple[MeasuredSource, ...] = ()
    """Of the rows that are shown."""


class OpSweepDim(Record, frozen=True, kw_only=True):
    """A swept parameter of an op: its name and its values, in the order asked for.

    A value is a number, or a word: a dtype, an op type, or the name of another parameter that it equals.
    """

    name: str
    values: tuple[int | str, ...]


class OpSweepDevice(Record, frozen=True, kw_only=True):
    """A device that a sweep is set against, at hand or not."""

    slug: str
    name: str
    kind: Literal["cpu", "gpu"] = "gpu"
    ceilings: Ceilings


class OpSweepTime(Record, frozen=True, kw_only=True):
    """One point of a sweep on one device."""

    device: str
    """Its slug."""
    estimate: Estimate
    of_peak: Fraction
    """Share of the attainable time in which the unit that works longest (tensor, vector, sfu) is busy."""
    ridge: float | None
    """FLOP per byte of DRAM traffic from which on this mix of arithmetic takes longer than its bytes; of
    multiply-accumulates alone peak / bandwidth. None without arithmetic."""
    changed: bool = False
    """Another bound than at the value before of the first swept parameter."""


class OpSweepPoint(Record, frozen=True, kw_only=True):
    """An op with the swept parameters ``at`` these values, its shapes in words, and its work."""

    at: dict[str, int | str]
    shapes: str
    work: Work
    intensity: float | None
    """FLOP per byte; None where nothing moves."""
    times: tuple[OpSweepTime, ...] = ()
    """In the order of `OpSweep.devices`."""


class OpSweepSkip(Record, frozen=True, kw_only=True):
    """A combination of values that makes no op."""

    at: dict[str, int | str]
    reason: str


class OpSweepCrossing(Record, frozen=True, kw_only=True):
    """Where something changes between two neighbouring points along the first swept parameter.

    ``bound``: what bounds the time changes from ``before`` to ``after``. ``ridge``: the intensity goes
    from one side of the ridge to the other, ``below`` and ``above``.
    """

    device: str
    kind: Literal["bound", "ridge"]
    at: dict[str, int | str]
    """The other swept parameters."""
    low: int
    high: int
    """Values of the two points, of which ``low`` is the lesser one."""
    value: int | None
    """The least value behind the change, found by pricing ops between the points; None where an op
    between them is not possible."""
    before: str
    after: str


class OpSweep(Record, frozen=True, kw_only=True):
    """The work and time of one op over a sweep: the document of `trtprof sweep OP ... --format json`."""

    schema_version: int
    op: str
    """The family: ``conv``."""
    dims: tuple[OpSweepDim, ...]
    fixed: dict[str, int | str]
    """Parameters with one value."""
    cold: bool
    """Whether every byte is charged to DRAM; otherwise the op runs again and again, and finds in the
    last-level cache what fits there."""
    devices: tuple[OpSweepDevice, ...]
    points: tuple[OpSweepPoint, ...]
    """In the order asked for, the last parameter changing fastest."""
    skipped: tuple[OpSweepSkip, ...] = ()
    crossings: tuple[OpSweepCrossing, ...] = ()
    shows: tuple[str, ...] = ()
    """What the numbers say, in sentences."""
    notes: tuple[str, ...] = ()
    """How it was counted."""
