"""The vocabulary that all stages share.

Frozen records for what a person reads; what there is a lot of (kernel launches, raw latency
samples) travels as pandas tables beside them, with the columns named here.

Times are integer nanoseconds, work is FLOP and bytes, rates are per second, fractions are 0 to 1.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from profiler import units

SCHEMA_VERSION = 2
"""Version of every JSON file and document that trtprof writes."""

NonNegative = Annotated[int, msgspec.Meta(ge=0)]
Fraction = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
Dim = int | str
WorkBound = Literal["exact", "upper", "lower", "mixed"]
Attribute = int | float | str | tuple[int | float | str, ...]

KERNEL_COLUMNS = ("iteration", "index", "name", "layer", "start_ns", "dur_ns", "self_ns")
"""Columns of the kernel table: one row a launch.

``iteration`` counts profiled runs, ``index`` the launches within one, ``start_ns`` is relative to
the start of the iteration, ``self_ns`` is ``dur_ns`` less the launches nested in it.
"""


class Record(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Base of all records: immutable, compared by value, encoded to JSON by msgspec.

    Records cannot refer to themselves, so that the garbage collector need not look through them.
    """


# --- what was asked -------------------------------------------------------------------------


class Tensor(Record, frozen=True, kw_only=True):
    """A tensor as a node or an engine layer sees it.

    ``shape`` is None when the rank is unknown; an unknown or symbolic dimension is a string.
    ``value`` holds the elements of small integer constants (axes, pads, target shapes) only.
    ``dtype`` is a key of `units.DTYPE_BITS`, or ``string``, or ``unknown``. Of a sequence, dtype and
    shape are those of its elements, whose number is not known; of an optional, those of what it may
    hold; a map has neither.
    """

    name: str
    dtype: str
    shape: tuple[Dim, ...] | None
    constant: bool = False
    value: tuple[int, ...] | None = None
    kind: Literal["tensor", "sequence", "optional", "map", "sparse"] = "tensor"

    @property
    def elements(self) -> int | None:
        """Number of elements, or None while a dimension, or the length of a sequence, is unknown."""
        if self.shape is None or self.kind in ("sequence", "map"):
            return None
        count = 1
        for dim in self.shape:
            if not isinstance(dim, int):
                return None
            count *= dim
        return count

    @property
    def nbytes(self) -> int | None:
        """Size in bytes at this dtype, or None while shape or width is unknown."""
        elements = self.elements
        if elements is None or self.dtype not in units.DTYPE_BITS:
            return None
        return units.dtype_bytes(self.dtype, elements)


class Op(Record, frozen=True, kw_only=True):
    """One operation with everything that its cost depends on, and no weights.

    An omitted optional input is None. Subgraph and tensor attributes are left out.
    ``domain`` is ``""`` for ai.onnx.
    """

    op_type: str
    domain: str = ""
    opset: int = 1
    attributes: dict[str, Attribute] = {}
    inputs: tuple[Tensor | None, ...] = ()
    outputs: tuple[Tensor | None, ...] = ()


class Work(Record, frozen=True, kw_only=True):
    """The work of an op or a fused layer.

    Attributes:
        tensor_flops: FLOP of multiply-accumulates that a matrix unit could run, 2 per MAC.
        vector_flops: FLOP of all other arithmetic, one per add, multiply, divide, compare or convert.
        special: Evaluations by special function: exp, log, erf, tanh, sqrt, sin, ...
        bytes_read: Distinct bytes read from outside the op, parameters included.
        bytes_written: Bytes written for consumers outside the op.
        bytes_parameters: The part of ``bytes_read`` that is constant weights.
        dtype: What is multiplied, or computed with where nothing is multiplied: a key of
            `units.DTYPE_BITS`, or ``""`` where no arithmetic is done.
        bound: Whether the counts are exact, or an upper or lower bound of what data decides;
            ``mixed`` where parts of a sum are bounded from different sides.
        note: Why it is a bound, or which convention was used.
    """

    tensor_flops: NonNegative = 0
    vector_flops: NonNegative = 0
    special: dict[str, NonNegative] = {}
    bytes_read: NonNegative = 0
    bytes_written: NonNegative = 0
    bytes_parameters: NonNegative = 0
    dtype: str = ""
    bound: WorkBound = "exact"
    note: str = ""

    @property
    def macs(self) -> int:
        return self.tensor_flops // units.FLOP_PER_MAC

    @property
    def special_flops(self) -> int:
        """FLOP of the special functions, by the weights of `units.SPECIAL_FLOPS`."""
        return sum(units.SPECIAL_FLOPS[function] * count for function, count in self.special.items())

    @property
    def flops(self) -> int:
        return self.tensor_flops + self.vector_flops + self.special_flops

    @property
    def bytes(self) -> int:
        return self.bytes_read + self.bytes_written


class Node(Record, frozen=True, kw_only=True):
    """A node of the ONNX model as loaded, under its unique name.

    ``graph`` is the path of the subgraph that holds it (``""`` for the main graph,
    ``If_3/then_branch`` for a branch). ``original_name`` is what the file called it.
    """

    name: str
    original_name: str
    graph: str
    op: Op
    work: Work | None = None
    constant: bool = False
    """All inputs are constants, so that the node can be computed before the run."""


class InputTensor(Record, frozen=True, kw_only=True):
    """A graph input as bound for this run, and how its values were chosen."""

    name: str
    dtype: str
    shape: tuple[int, ...] | None
    """None where nothing was bound: an unknown rank, a sequence, map or optional (`inspect` only)."""
    declared: tuple[Dim, ...] = ()
    """The dimensions as the file declares them, symbols kept; of a sequence, those of its elements."""
    kind: Literal["uniform", "integers", "file", "none"] = "uniform"
    """Where its values come from; ``none`` where the model is not run."""
    low: float = -1.0
    high: float = 1.0
    """Values are drawn from ``low`` to ``high``: half open for floats, both ends for integers."""
    file: str = ""
    values: str = ""
    """In words: ``uniform -1..1``, ``integers 0..9 (indices of Gather_3)``, ``file x.npy``."""


class ModelInfo(Record, frozen=True, kw_only=True):
    """The model as asked for."""

    name: str
    path: str
    sha256: str
    """Digest of the .onnx file itself; external data is told apart by name, size and time.
    Empty where the weights were not read (`inspect`)."""
    ir_version: int
    opsets: dict[str, int]
    producer: str = ""
    inputs: tuple[InputTensor, ...] = ()
    outputs: tuple[Tensor, ...] = ()
    parameters: NonNegative = 0
    parameter_bytes: NonNegative = 0
    nodes: NonNegative = 0
    renamed: NonNegative = 0
    """Nodes that got a unique name because theirs was empty or taken."""
    shape_coverage: Fraction = 1.0
    """Share of node outputs whose shape and dtype are known before the run."""
    assumptions: tuple[str, ...] = ()
    """What was filled in rather than given: default dims, random inputs."""


class Source(Record, frozen=True, kw_only=True):
    """Artefact of the source stage."""

    model: ModelInfo
    nodes: tuple[Node, ...]


# --- what the backend made of it ------------------------------------------------------------

MatchConfidence = Literal["exact", "inferred", "none"]


class Layer(Record, frozen=True, kw_only=True):
    """One layer of the built engine: the unit that launches kernels.

    ``nodes`` are the unique names of the ONNX nodes it computes, ``match`` how sure that is and
    ``reason`` the evidence in words. ``role`` is what it is for: ``compute`` does the model's
    work, ``layout`` only reorders or casts for the backend, ``control`` runs subgraphs.
    """

    name: str
    op: Op
    role: Literal["compute", "layout", "control"] = "compute"
    graph: str = ""
    hints: tuple[str, ...] = ()
    """Names of ONNX nodes that the backend itself gives for the layer (its name, its metadata)."""
    output_hints: tuple[str, ...] = ()
    """Names that the ONNX tensor may have which its first output started as, best guess first."""
    nodes: tuple[str, ...] = ()
    match: MatchConfidence = "none"
    reason: str = ""
    constant: bool = False
    """Its inputs are all constants, yet it runs on every inference."""


class NodeFate(Record, frozen=True, kw_only=True):
    """What became of an ONNX node: run in layers, computed before the run, dropped, or lost."""

    node: str
    fate: Literal["layer", "folded", "eliminated", "lost"]
    layers: tuple[str, ...] = ()
    reason: str = ""


class Backend(Record, frozen=True, kw_only=True):
    """Which backend ran and why it was chosen."""

    name: str
    reason: str
    options: dict[str, str] = {}


class Engine(Record, frozen=True, kw_only=True):
    """Artefact of the engine stage: layers in execution order as far as the backend tells it."""

    backend: Backend
    versions: dict[str, str]
    layers: tuple[Layer, ...]
    build_ns: NonNegative


# --- what the device did --------------------------------------------------------------------


class Latency(Record, frozen=True, kw_only=True):
    """End-to-end latency of one inference, measured **without** a profiler.

    ``cv`` is the coefficient of variation (standard deviation / mean), ``n`` the sample count.
    """

    median_ns: NonNegative
    p99_ns: NonNegative
    cv: float
    n: NonNegative
    mean_ns: NonNegative = 0
    min_ns: NonNegative = 0
    max_ns: NonNegative = 0


class Capture(Record, frozen=True, kw_only=True):
    """Artefact of the capture stage; the kernel table and the raw samples lie beside it.

    ``profiled`` is the latency of the same inference while the profiler ran: its distance from
    ``latency`` is the profiler's own perturbation.
    """

    collector: str
    latency: Latency
    profiled: Latency
    warmup_iterations: NonNegative
    threads: NonNegative
    inputs: tuple[InputTensor, ...]
    clock_resolution_ns: NonNegative
    """Step of the profiler's clock; every kernel time is known to within this."""
    probe_ns: tuple[float, ...] = ()
    """Times of the speed probe (`ort_probe`) before, between and after the two measurements."""
    runtime_shapes: dict[str, tuple[tuple[Tensor, ...], tuple[Tensor, ...]]] = {}
    """Layer name -> tensors in and out with the shapes seen while it ran."""


class Match(Record, frozen=True, kw_only=True):
    """Kernels of one name attributed to one layer. A kernel's time is never split."""

    layer: str | None
    kernel: str
    count: NonNegative
    median_ns: NonNegative
    total_ns: NonNegative
    confidence: MatchConfidence
    reason: str


# --- what it should take --------------------------------------------------------------------


class Roof(Record, frozen=True, kw_only=True):
    """Ceilings of one kind: peak FLOP/s per dtype and bandwidth per level of the memory."""

    flops_per_s: dict[str, float]
    dram_bytes_per_s: float
    cache_bytes_per_s: float


class Ceilings(Record, frozen=True, kw_only=True):
    """The ceilings of a device and where they come from.

    ``best`` bounds ``ideal``: the datasheet on a GPU, the best ceiling measured at any thread
    count on a CPU, which has no datasheet here. ``attainable`` holds the ceilings measured as the
    run was made.
    """

    device: str
    source: str
    """In words, with the date: what was measured, or which datasheet."""
    measured_at: str
    best: Roof
    attainable: Roof
    cache_bytes: NonNegative
    """Size of the last-level cache."""
    threads: NonNegative
    fp32_flops_by_threads: dict[str, float] = {}
    """Peak fp32 FLOP/s at each thread count that was tried."""
    launch_ns: float
    """Time that a kernel which does nothing adds to an inference, without a profiler."""
    call_ns: float
    """Time of an inference call around an all but empty graph."""
    profiler_ns: float = 0.0
    """Time that the profiler itself adds inside the event of each kernel."""
    profiler_tensor_ns: float = 0.0
    """The same for each input and output tensor of the kernel, which the profiler writes down."""
    profiler_gap_ns: float = 0.0
    """Time that the profiler adds behind the event of each kernel, so inside that of its parent."""
    probe_ns: float = 0.0
    """Time of the speed probe (`ort_probe`) when the ceilings were measured; 0 where there is none."""
    spread: dict[str, float] = {}
    """Relative spread (max - min) / median of the repeats behind each ceiling."""
    cached: bool = False


Bound = Literal["compute", "dram", "cache", "launch", "none", "unknown"]


class Estimate(Record, frozen=True, kw_only=True):
    """What a layer should take. ``terms`` are the times that competed for ``attainable_ns``."""

    ideal_ns: NonNegative
    attainable_ns: NonNegative
    roofline_ns: NonNegative
    """``attainable_ns`` before the launch floor."""
    bound: Bound
    terms: dict[str, int] = {}
    dram_bytes: NonNegative = 0
    cache_bytes: NonNegative = 0
    """Bytes that the cache model finds in the last-level cache; the rest is ``dram_bytes``."""


# --- why it differs -------------------------------------------------------------------------


class LayerResult(Record, frozen=True, kw_only=True):
    """A layer with its measured and its predicted time: a row of the report.

    ``measured_ns`` is the median over iterations, less the profiler's own time inside each event
    (`Ceilings.profiler_ns`); the kernels' own times are as captured. ``lost_ns`` is measured less
    attainable; it is negative when the layer ran faster than the ceilings of this device allow.
    """

    name: str
    op_type: str
    role: str
    nodes: tuple[str, ...]
    kernels: tuple[Match, ...]
    measured_ns: NonNegative
    ideal_ns: NonNegative | None
    attainable_ns: NonNegative | None
    lost_ns: int | None
    bound: Bound
    flops: NonNegative | None
    bytes: NonNegative | None
    dtype: str = ""
    match: MatchConfidence = "none"
    reason: str = ""
    shapes: str = ""
    terms: dict[str, int] = {}
    work: Work | None = None
    constant: bool = False


class LedgerRow(Record, frozen=True, kw_only=True):
    """One step from ideal to measured. ``kind`` says whether the ns are measured or computed."""

    cause: str
    ns: int
    kind: Literal["fact", "estimate", "remainder"]
    meaning: str = ""


class Finding(Record, frozen=True, kw_only=True):
    """A cause, which is a hypothesis, with the facts and estimates behind it.

    ``lost_ns`` is claimed by this finding alone; ``layers`` are where it is claimed.
    """

    code: str
    title: str
    severity: Literal["info", "warning", "critical"]
    where: str
    evidence: str
    lost_ns: NonNegative
    confidence: Fraction
    try_: str = msgspec.field(name="try")
    kind: Literal["hypothesis", "trust"] = "hypothesis"
    layers: tuple[str, ...] = ()


class Coverage(Record, frozen=True, kw_only=True):
    """Shares of captured kernel time by how surely it was led back to ONNX nodes."""

    exact: Fraction
    inferred: Fraction
    unattributed: Fraction


class Unsupported(Record, frozen=True, kw_only=True):
    """An op without a cost function, and its share of the kernel time."""

    domain: str
    op_type: str
    count: NonNegative
    measured_ns: NonNegative
    share: Fraction
    reason: str = ""


class Device(Record, frozen=True, kw_only=True):
    """The device that ran it."""

    name: str
    kind: Literal["cpu", "gpu"]
    cores: NonNegative = 0
    memory_bytes: NonNegative = 0
    cache_bytes: NonNegative = 0
    clock_mhz: float | None = None
    detail: dict[str, str] = {}


class OpTotal(Record, frozen=True, kw_only=True):
    """All nodes of one op type and the sum of their work (constants are computed before the run)."""

    domain: str
    op_type: str
    count: NonNegative
    work: Work


class Inspection(Record, frozen=True, kw_only=True):
    """A model looked at without building it: the document of `trtprof inspect --format json`."""

    schema_version: int
    model: ModelInfo
    total: Work
    macs_by_dtype: dict[str, NonNegative]
    """Multiply-accumulates by the dtype that they are multiplied as, quantised ones as the integers
    or narrow floats that an engine which fuses QDQ multiplies."""
    ops: tuple[OpTotal, ...]
    nodes: tuple[Node, ...]
    unsupported: tuple[Unsupported, ...]


class Term(Record, frozen=True, kw_only=True):
    """A product of powers of swept dimensions, times a number."""

    coefficient: int
    powers: dict[str, NonNegative] = {}


class Polynomial(Record, frozen=True, kw_only=True):
    """The sum of ``terms``, largest powers first, divided by ``divisor``, which leaves no rest."""

    terms: tuple[Term, ...]
    divisor: Annotated[int, msgspec.Meta(gt=0)] = 1


class WorkForms(Record, frozen=True, kw_only=True):
    """The counts of a `Work` as polynomials of the swept dimensions; None where they are none.

    ``bytes`` is the sum of ``bytes_read`` and ``bytes_written``.
    """

    macs: Polynomial | None
    flops: Polynomial | None
    bytes: Polynomial | None
    bytes_read: Polynomial | None
    bytes_written: Polynomial | None
    bytes_parameters: Polynomial | None


class OpForms(Record, frozen=True, kw_only=True):
    """The work of all nodes of one op type in closed form; see `OpTotal`."""

    domain: str
    op_type: str
    work: WorkForms


class SweepDim(Record, frozen=True, kw_only=True):
    """A swept dimension: its name as asked for, the dimensions of the inputs that it binds, its values."""

    name: str
    symbols: tuple[str, ...]
    values: tuple[int, ...]


class SweepPoint(Record, frozen=True, kw_only=True):
    """The work of a model with the swept dimensions ``at`` these values, as an `Inspection` there has it."""

    at: dict[str, int]
    total: Work
    macs_by_dtype: dict[str, NonNegative]
    ops: tuple[OpTotal, ...]
    unsupported: tuple[Unsupported, ...] = ()


class Sweep(Record, frozen=True, kw_only=True):
    """The work of a model over a sweep: the document of `trtprof inspect --sweep ... --format json`."""

    schema_version: int
    model: ModelInfo
    """Bound at the least value of every swept dimension."""
    dims: tuple[SweepDim, ...]
    points: tuple[SweepPoint, ...]
    """In the order asked for, the last dimension changing fastest."""
    total: WorkForms
    ops: tuple[OpForms, ...]
    """In the order of the last point."""
    forms_hold: str
    """In words, for which values of the swept dimensions the closed forms hold."""
    notes: tuple[str, ...] = ()
    """What was given up for the sake of the sweep."""


class NodeResult(Record, frozen=True, kw_only=True):
    """An ONNX node with its work and its fate. Time belongs to layers and is never split."""

    name: str
    op_type: str
    graph: str
    fate: str
    layers: tuple[str, ...]
    flops: NonNegative | None
    bytes: NonNegative | None
    reason: str = ""


class Run(Record, frozen=True, kw_only=True):
    """The whole result of a run: the JSON document, and all that a reporter may read."""

    schema_version: int
    model: ModelInfo
    backend: Backend
    device: Device
    versions: dict[str, str]
    ceilings: Ceilings
    latency: Latency
    profiled: Latency
    coverage: Coverage
    verdict: str
    ledger: tuple[LedgerRow, ...]
    layers: tuple[LayerResult, ...]
    """Ranked by time lost, largest first."""
    nodes: tuple[NodeResult, ...]
    findings: tuple[Finding, ...]
    unsupported: tuple[Unsupported, ...]
    captured_ns: NonNegative
    """Kernel time of all profiled iterations: matched plus unmatched, to the ns."""
    speed: float = 1.0
    """Speed of the device during the run over that when its ceilings were measured (`ort_probe`)."""
    kernels_unattributed: tuple[Match, ...] = ()
    assumptions: tuple[str, ...] = ()
    created: str = ""
