"""The vocabulary that all stages share.

Frozen records for what a person reads; what there is a lot of (kernel launches, raw latency
samples) travels as pandas tables beside them, with the columns named here.

Times are integer nanoseconds, work is FLOP and bytes, rates are per second, fractions are 0 to 1.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

import msgspec

from profiler import units

SCHEMA_VERSION = 6
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


IDLE_KINDS = frozenset({"NoOp", "Constant"})
"""Kinds of layers of a plan that have tensors and run nothing: a NoOp passes on a tensor that already has the
format asked for, a Constant lies in memory before the run."""


class PlanTensor(Record, frozen=True, kw_only=True):
    """A tensor as a layer of a TensorRT plan reads or writes it.

    ``dims`` are the logical ones, -1 where they depend on the input; None where the plan does not tell.
    ``dtype`` is a key of `units.DTYPE_BITS`, or ``""`` where the plan does not tell.
    """

    name: str
    dims: tuple[int, ...] | None
    dtype: str
    format: str = ""
    """As the plan has it: ``Channel major FP16 format where channel % 8 == 0``."""
    vector_axis: int | None = None
    """The dimension that the format pads: that of the channels."""
    vector: Annotated[int, msgspec.Meta(gt=0)] = 1
    """To a multiple of this many elements."""
    strides: tuple[int, ...] | None = None
    """In elements; TensorRT 11 and TensorRT-RTX tell them. 0 where one element serves a whole dimension."""
    location: str = ""

    @property
    def elements(self) -> int | None:
        """Number of elements in memory, padding included, or None while a dimension is not known."""
        if self.dims is None or min(self.dims, default=0) < 0:
            return None
        if self.vector_axis is None and (self.strides is None or 0 not in self.strides):
            return math.prod(self.dims)
        count = 1
        for axis, dim in enumerate(self.dims):
            if self.strides is not None and axis < len(self.strides) and self.strides[axis] == 0:
                continue
            count *= -(-dim // self.vector) * self.vector if axis == self.vector_axis else dim
        return count

    @property
    def nbytes(self) -> int | None:
        """Bytes in memory, padding included, or None while a dimension or the dtype is not known."""
        elements = self.elements
        if elements is None or self.dtype not in units.DTYPE_BITS:
            return None
        return units.dtype_bytes(self.dtype, elements)


class PlanWeights(Record, frozen=True, kw_only=True):
    """Weights or a bias that a layer of a plan holds: ``count`` values of ``dtype``, without padding."""

    dtype: str
    count: NonNegative

    @property
    def nbytes(self) -> int | None:
        """Bytes, or None where the plan does not tell the dtype."""
        return units.dtype_bytes(self.dtype, self.count) if self.dtype in units.DTYPE_BITS else None


class PlanLayer(Record, frozen=True, kw_only=True):
    """One layer of a TensorRT plan, in the words of TensorRT's engine inspector.

    ``onnx_nodes`` are names of ONNX nodes in the order given, each once. Of a range
    ``{ForeignNode[first...last]}`` they are only the two ends, and ``onnx_range`` is True.
    """

    name: str
    kind: str
    """LayerType: ``CaskConvolution``, ``gemm``, ``kgen``, ``Reformat``, ..."""
    parameter_type: str = ""
    inputs: tuple[PlanTensor, ...] = ()
    outputs: tuple[PlanTensor, ...] = ()
    constants: tuple[PlanTensor, ...] = ()
    """Weights that are listed like inputs: TensorRT 11 and TensorRT-RTX do that."""
    tactic: str = ""
    """TacticName: what the kernel is called, as far as the plan knows."""
    tactic_value: str = ""
    stream: int | None = None
    onnx_nodes: tuple[str, ...] = ()
    nodes_from: Literal["metadata", "name", "none"] = "none"
    """Where ``onnx_nodes`` are from: TensorRT's own ``Metadata``, or the name of the layer, which also holds
    names of weights and of helpers; ``none`` where neither tells."""
    onnx_range: bool = False
    serves: str = ""
    """Of a reformat or a copy: the layer that it is made for."""
    origin: str = ""
    """Why a reformat is there: ``REFORMAT``, ``QDQ``."""
    weights: PlanWeights | None = None
    bias: PlanWeights | None = None
    profile: NonNegative = 0
    """Index of the optimisation profile that it belongs to."""
    attributes: dict[str, Attribute] = {}
    """All else that the plan tells of it: ``Kernel``, ``Stride``, ``Groups``, ``PluginType``, ..."""

    @property
    def nbytes(self) -> int | None:
        """Bytes that it must move: each distinct tensor read and each written once, weights included.

        None while the size of a tensor is not known; 0 for the `IDLE_KINDS`. A lower bound for the ``gemm``
        and ``kgen`` layers of TensorRT 8 to 10, whose weights the plan may leave out.
        """
        total = 0
        if self.kind in IDLE_KINDS:
            return total
        for tensors in ((*self.inputs, *self.constants), self.outputs):
            sizes: dict[str, int] = {}
            for tensor in tensors:
                if tensor.nbytes is None:
                    return None
                # Listed twice where a layer reads two views of it: the larger one counts.
                sizes[tensor.name] = max(sizes.get(tensor.name, 0), tensor.nbytes)
            total += sum(sizes.values())
        for held in (self.weights, self.bias):
            if held is not None:
                if held.nbytes is None:
                    return None
                total += held.nbytes
        return total


class PlanShapes(Record, frozen=True, kw_only=True):
    """What a binding may be in one optimisation profile; None where the profile does not bound it."""

    min: tuple[int, ...] | None = None
    opt: tuple[int, ...] | None = None
    max: tuple[int, ...] | None = None
    format: str = ""


class PlanBinding(Record, frozen=True, kw_only=True):
    """An input or output of a plan.

    Before TensorRT 11 a plan lists names alone: mode, dtype and dims are then those of the layers that
    read or write a tensor of that name.
    """

    name: str
    mode: Literal["input", "output", "unknown"] = "unknown"
    dtype: str = ""
    dims: tuple[int, ...] | None = None
    format: str = ""
    location: str = ""
    profiles: tuple[PlanShapes, ...] = ()


class Plan(Record, frozen=True, kw_only=True):
    """A TensorRT engine as its inspector, or the log of its build, describes it."""

    era: str
    """In words: which TensorRT writes such a description, and where it was found."""
    layers: tuple[PlanLayer, ...]
    """In execution order; those of a second optimisation profile follow those of the first."""
    bindings: tuple[PlanBinding, ...] = ()
    notes: tuple[str, ...] = ()
    """What is missing from the description, and what was mended."""


class LayerTime(Record, frozen=True, kw_only=True):
    """Time of a layer as TensorRT's profiler sums it up, which runs the layers one after the other."""

    name: str
    total_ns: NonNegative
    """Over all iterations."""
    average_ns: NonNegative
    median_ns: NonNegative | None = None
    fraction: Fraction
    """Of the time of all layers."""


class LayerTimes(Record, frozen=True, kw_only=True):
    """A profile of layers, as trtexec exports or prints it.

    ``complete`` is False of a printed table, which leaves out layers that took no time.
    """

    iterations: NonNegative
    layers: tuple[LayerTime, ...]
    complete: bool = True
    notes: tuple[str, ...] = ()


class InferenceTimes(Record, frozen=True, kw_only=True):
    """Times of every inference, as trtexec exports them: one entry an inference, all of the same length."""

    latency_ns: tuple[int, ...]
    compute_ns: tuple[int, ...]
    """On the GPU, from the first kernel to the last."""
    enqueue_ns: tuple[int, ...]
    """On the CPU."""
    h2d_ns: tuple[int, ...]
    d2h_ns: tuple[int, ...]


PlanRole = Literal["compute", "layout", "shape", "sync", "idle"]
"""What a layer of a plan is for.

``compute`` does the work of ONNX nodes, ``layout`` reformats, casts or copies for other layers, ``shape``
computes shapes on the host, ``sync`` makes streams wait for one another, ``idle`` has tensors and launches
nothing (constants, NoOps, views).
"""


class MatchedLayer(Record, frozen=True, kw_only=True):
    """A layer of a plan, led back to the ONNX nodes that it computes.

    ``nodes`` are unique names of nodes of the model, in graph order; ``shared`` are those of them that other
    layers compute too (the product and the bias of one Gemm). ``added`` are casts that the conversion to
    another precision put in, which the model does not have. ``match`` says how sure that is and ``reason``
    by which evidence, in words. A layer that needs no node (`PlanRole` other than compute) has ``match``
    exact where it is known what it is made for.
    """

    layer: PlanLayer
    role: PlanRole = "compute"
    nodes: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    match: MatchConfidence = "none"
    reason: str = ""


class PlanShare(Record, frozen=True, kw_only=True):
    """A part of the layers of a plan that have something in common: a kind, a precision.

    ``fraction`` is of the time of all layers where times are known, else of their bytes.
    """

    what: str
    layers: NonNegative
    bytes: NonNegative
    ns: NonNegative | None = None
    fraction: Fraction


class PlanReformat(Record, frozen=True, kw_only=True):
    """A layer that only brings a tensor into another dtype, order or padding.

    ``origin`` says why it is there: the plan's own word (``REFORMAT``, ``QDQ``) or, where it has none,
    ``input``, ``output`` or ``between layers``.
    """

    layer: str
    origin: str
    serves: str
    """The layer, or the binding, that it is made for."""
    change: str
    """In words: ``fp32 Linear -> fp16 NHWC8``."""
    bytes: NonNegative | None
    ns: NonNegative | None = None


class PlanEdge(Record, frozen=True, kw_only=True):
    """A tensor that one layer leaves in memory and others read again: what a fusion would have saved.

    ``kind`` tells what would have to fuse: ``epilogue`` (pointwise work behind a product), ``prologue``
    (pointwise work before one), ``pointwise`` (two layers without products), ``products`` (two products),
    ``layout`` (a reformat).
    """

    tensor: str
    maker: str
    readers: tuple[str, ...]
    kind: Literal["epilogue", "prologue", "pointwise", "products", "layout"]
    expected: bool
    """Whether engines fuse such nodes as a rule (`predict.fusion`)."""
    reason: str = ""
    """In words, why it is expected, or what stands against it."""
    bytes: NonNegative
    """Written once and read by every reader."""
    saved_ns: NonNegative | None = None
    """What the layers would take less as one; None where no GPU was asked about."""


class PlanLint(Record, frozen=True, kw_only=True):
    """Something in a plan that is worth a look, found without any time: dims that a tensor core cannot use."""

    code: str
    layer: str
    what: str
    evidence: str
    try_: str = msgspec.field(name="try")


class PlanSummary(Record, frozen=True, kw_only=True):
    """A plan in figures. Times are measured ones, or those attainable on a GPU, or there are none."""

    layers: NonNegative
    launches: NonNegative
    """Layers that run something on the GPU: all but those for shapes, synchronisation and views."""
    by_kind: tuple[PlanShare, ...]
    by_precision: tuple[PlanShare, ...]
    """By what a layer computes with, or moves where it computes nothing."""
    by_match: tuple[PlanShare, ...]
    """By how surely layers were led back to ONNX nodes: exact, inferred, none."""
    reformats: tuple[PlanReformat, ...] = ()
    edges: tuple[PlanEdge, ...] = ()
    """Fusions that did not happen, those that would save most first."""
    lints: tuple[PlanLint, ...] = ()
    fates: dict[str, NonNegative] = {}
    """ONNX nodes by what became of them (`NodeFate.fate`)."""


class EngineFacts(Record, frozen=True, kw_only=True):
    """How an engine came about, as far as is known."""

    backend: str = ""
    versions: dict[str, str] = {}
    device: str = ""
    """The GPU that it was built on, or ``no GPU``."""
    era: str = ""
    """See `Plan.era`."""
    precision: str = ""
    """In words: as in the file, or which converter made it fp16."""
    build_ns: NonNegative | None = None
    network_layers: NonNegative = 0
    """Before the builder fused them."""
    cached: bool = False
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """What is missing from the plan, and what was taken for granted."""


class EnginePlan(Record, frozen=True, kw_only=True):
    """What a TensorRT made of a model: the document of `trtprof build --format json`, a part of others."""

    facts: EngineFacts
    bindings: tuple[PlanBinding, ...]
    layers: tuple[MatchedLayer, ...]
    """In execution order."""
    works: tuple[Work | None, ...]
    """The work of each layer in one inference, all its runs together; None where it is unknown."""
    fates: tuple[NodeFate, ...]
    """One for every ONNX node, in graph order; empty where no model was given."""
    op_types: dict[str, str] = {}
    """ONNX node -> its op type, ``domain::type`` outside of ai.onnx."""
    summary: PlanSummary


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


class Spread(Record, frozen=True, kw_only=True):
    """Smallest, median and largest of the readings of a quantity."""

    min: float
    median: float
    max: float


class ClockSummary(Record, frozen=True, kw_only=True):
    """What the samples of a run come to; None is what the driver did not tell."""

    samples: NonNegative
    duration_ns: NonNegative
    """From the first sample to the last."""
    sm_clock_mhz: Spread | None = None
    memory_clock_mhz: Spread | None = None
    power_w: Spread | None = None
    temperature_c: Spread | None = None
    energy_j: float | None = None
    """Used between the first sample and the last."""
    reasons: dict[str, Fraction] | None = None
    """What held the SM clock down, with its share of the time, largest first. Several may hold at once."""
    notes: tuple[str, ...] = ()
    """What could not be read, and why."""


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
    stream_bytes_per_s: tuple[float, ...] = ()
    """DRAM bandwidth of an Add (`ort_probe`) at the same moments."""
    runtime_shapes: dict[str, tuple[tuple[Tensor, ...], tuple[Tensor, ...]]] = {}
    """Layer name -> tensors in and out with the shapes seen while it ran."""


class ModeTimes(Record, frozen=True, kw_only=True):
    """Times of inferences without the profiler, in one mode; medians in ns.

    ``h2d_ns`` and ``d2h_ns`` are the copies to the GPU and back, ``compute_ns`` what is between them, ``enqueue_ns``
    what the host is busy with for that, 0 where that is not known.
    """

    mode: Literal["stream", "cuda graph"]
    latency: Latency
    h2d_ns: int
    compute_ns: int
    d2h_ns: int
    enqueue_ns: int


class TensorCheck(Record, frozen=True, kw_only=True):
    """An output held against the same output of the CPU provider.

    ``max_abs`` and ``max_rel`` are the greatest differences, absolute and relative to the greatest magnitude in the
    tensor of the CPU; ``tolerance`` is the greatest share of what is allowed that an element takes: above 1 it is
    wrong. All are -1 where shapes or types differ, or values that are no numbers stand in different places.
    """

    name: str
    dtype: str
    max_abs: float
    max_rel: float
    tolerance: float
    matches: bool
    reason: str = ""


class Match(Record, frozen=True, kw_only=True):
    """Kernels of one name attributed to one layer. A kernel's time is never split."""

    layer: str | None
    kernel: str = msgspec.field(name="name")
    """Its name, which is what the document calls it: ``name``."""
    count: NonNegative
    median_ns: NonNegative
    total_ns: NonNegative
    confidence: MatchConfidence
    reason: str
    blocks: NonNegative = 0
    """Thread blocks of one launch, as its median; 0 where the capture does not tell, as of all that follow."""
    threads: NonNegative = 0
    """Threads of a block."""
    registers: NonNegative = 0
    """Of a thread."""
    shared_bytes: NonNegative = 0
    """Shared memory of a block, static and dynamic."""


# --- what it should take --------------------------------------------------------------------


class Roof(Record, frozen=True, kw_only=True):
    """Ceilings of one kind: what each unit of the device and each level of its memory can do.

    What has no ceiling of its own (a dtype, a function) is bounded by another one: `predict.roofline`
    says by which.
    """

    tensor_flops_per_s: dict[str, float]
    """Multiply-accumulates, 2 FLOP each, by the dtype of what is multiplied: on the matrix units of a
    GPU where they take that dtype. ``tf32`` stands for fp32 rounded to TF32."""
    vector_flops_per_s: dict[str, float]
    """All other arithmetic by dtype: the CUDA cores of a GPU."""
    special_per_s: dict[str, float] = {}
    """Evaluations by special function, a key of `units.SPECIAL_FLOPS`."""
    dram_bytes_per_s: float
    """Of any kernel."""
    dram_out_of_place_bytes_per_s: dict[str, float] = {}
    """Of kernels that do not write where they read: a CPU reads a line of memory before it writes to it, which
    costs them bandwidth. By pattern: ``read`` writes nothing, ``add`` a third of its bytes, ``copy`` half.
    Empty where that makes no difference."""
    cache_bytes_per_s: float
    """Of the last-level cache: the L2 of a GPU."""


class Measurement(Record, frozen=True, kw_only=True):
    """A quantity as measured: a ceiling is the best of its repeats, a floor their median.

    ``what`` names the workload behind it, ``spread`` is (max - min) / median of the repeats and None
    for a single one.
    """

    value: float
    unit: Literal["FLOP/s", "B/s", "1/s", "ns"]
    what: str
    repeats: NonNegative
    spread: float | None = None
    threads: NonNegative = 0
    """Threads that it was reached with; 0 on a GPU."""


class Ceilings(Record, frozen=True, kw_only=True):
    """The ceilings of a device and where they come from.

    ``best`` bounds ``ideal``: the datasheet on a GPU, the best ceiling measured at any thread
    count on a CPU, which has no datasheet here. ``attainable`` holds the ceilings measured as the
    run was made; of a GPU that is not at hand, the datasheet's again.
    """

    device: str
    source: str
    """In words, with the date: what was measured, or which datasheet."""
    measured_at: str
    origin: Literal["measured", "datasheet"] = "measured"
    """What ``attainable`` is."""
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
    measurements: dict[str, Measurement] = {}
    """All that was measured, ceilings that bound nothing included (``dram read``, ``h2d``)."""
    clocks_mhz: dict[str, float] = {}
    """Clock of the device ``before``, ``during`` and ``after`` the measurement, where it can be read; of a GPU also
    that of its ``memory`` meanwhile, as NVML counts it."""
    cached: bool = False


Bound = Literal["tensor", "vector", "sfu", "dram", "l2", "launch", "none", "unknown"]
"""What a layer's time is bounded by: multiply-accumulates, other arithmetic, special functions, DRAM,
the last-level cache (the L2 of a GPU), or the time of an empty kernel."""


def bound_name(bound: str, device: Literal["cpu", "gpu"]) -> str:
    """What bounds a layer, in a word: the last-level cache of a GPU is its L2, that of a CPU is not."""
    return "llc" if bound == "l2" and device == "cpu" else bound


class Estimate(Record, frozen=True, kw_only=True):
    """What a layer should take. ``terms`` are the times in ns that competed for ``attainable_ns``."""

    ideal_ns: NonNegative
    attainable_ns: NonNegative
    roofline_ns: NonNegative
    """``attainable_ns`` before the launch floor."""
    bound: Bound
    runner_up: Bound = "none"
    """The term that ``bound`` beat."""
    terms: dict[str, int] = {}
    dram_bytes: NonNegative = 0
    cache_bytes: NonNegative = 0
    """Bytes that the cache model finds in the last-level cache; the rest is ``dram_bytes``."""


class Figure(Record, frozen=True, kw_only=True):
    """A number of a datasheet and how far it can be trusted.

    ``published`` by the vendor, or by others who quote the vendor; ``derived`` from published numbers by
    a formula; ``weak``: from a single source that quotes nobody, or from sources that disagree.
    """

    value: float
    kind: Literal["published", "derived", "weak"]
    source: str


class GpuSpec(Record, frozen=True, kw_only=True):
    """The datasheet of a GPU. Peaks are dense: what structured sparsity promises is never in them."""

    slug: str
    """What ``--gpu`` takes: ``rtx-4090``."""
    name: str
    nvml_names: tuple[str, ...] = ()
    """What the driver calls it, exactly."""
    architecture: str
    compute_capability: str
    product_class: Literal["datacenter", "workstation", "geforce", "jetson"]
    sms: Figure
    boost_mhz: Figure
    tensor_mhz: Figure
    """Clock behind the peaks of the tensor cores."""
    memory_bytes: Figure
    dram_bytes_per_s: Figure
    l2_bytes: Figure
    l2_bytes_per_s: Figure
    tdp_w: Figure
    vector_flops_per_s: dict[str, Figure]
    """CUDA cores, by dtype."""
    tensor_flops_per_s: dict[str, dict[str, Figure]]
    """Tensor cores, by dtype of the operands, then of the accumulator."""
    launch_ns: Figure
    """An empty kernel in a CUDA graph."""
    note: str = ""
    origin: str = ""
    """The file that it is from, or ``derived`` from the properties of a device."""

    @property
    def figures(self) -> dict[str, Figure]:
        """All its figures by what they are called: first those of the board, then peaks by dtype."""
        board = {
            "SMs": self.sms,
            "boost clock": self.boost_mhz,
            "tensor clock": self.tensor_mhz,
            "memory": self.memory_bytes,
            "bandwidth": self.dram_bytes_per_s,
            "L2": self.l2_bytes,
            "L2 bandwidth": self.l2_bytes_per_s,
            "power": self.tdp_w,
            "launch": self.launch_ns,
        }
        vector = {f"{dtype} CUDA cores": figure for dtype, figure in self.vector_flops_per_s.items()}
        tensor = {
            f"{dtype} tensor cores ({accumulator})": figure
            for dtype, by in self.tensor_flops_per_s.items()
            for accumulator, figure in by.items()
        }
        return board | vector | tensor


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
    runner_up: Bound = "none"
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
    reason: str
    """In words, with the numbers."""


class Confirmation(Record, frozen=True, kw_only=True):
    """What hardware counters of its kernels say of the predictions about a layer, in one inference.

    It is refuted where one of its checks is, confirmed where one is and none is refuted, else nothing is told.
    """

    layer: str
    verdict: Literal["confirmed", "refuted", "not told"]
    checks: tuple[CounterCheck, ...]
    launches: NonNegative
    """That were counted."""
    match: MatchConfidence
    """How surely they are the layer's."""
    reason: str
    """By what they were led to it."""
    uncounted: tuple[str, ...] = ()
    """Kernels of the layer that were not counted."""
    counted_ns: NonNegative | None = None
    """Duration under ncu, at the clock that it held."""
    occupancy: Fraction | None = None
    """Achieved: the share of the warps that fit."""


class LadderStep(Record, frozen=True, kw_only=True):
    """A cheaper fix to try before a hand-written kernel.

    ``gain_ns`` of one inference is an estimate, None where nothing tells it.
    """

    what: str
    command: str
    """How to measure it against the engine as it is."""
    gain_ns: NonNegative | None = None
    basis: str = ""
    """Where the gain is from, in words."""


class BarrierPart(Record, frozen=True, kw_only=True):
    """A part of what a plugin would cost by cutting fusion.

    Tensors that newly cross DRAM, a lost epilogue, a reformat, a launch.
    """

    what: str
    ns: NonNegative
    bytes: NonNegative = 0


class PluginCandidate(Record, frozen=True, kw_only=True):
    """Whether a hand-written kernel for a layer would pay. All times are of one inference.

    ``recoverable_ns`` is measured less ``reachable_ns``, what kernels of this class reach on this device; the net
    gain is that less the barrier, with an interval from the spread of what the class reaches.
    """

    layer: str
    nodes: tuple[str, ...]
    kernel: str
    measured_ns: NonNegative
    reachable_ns: NonNegative
    basis: str
    """Where ``reachable_ns`` is from, in words: which healthy kernels, or which calibration."""
    recoverable_ns: NonNegative
    barrier: tuple[BarrierPart, ...]
    net_ns: int
    net_low_ns: int
    net_high_ns: int
    verdict: Literal["write it", "try first", "do not"]
    why: str
    ladder: tuple[LadderStep, ...] = ()


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
    plan: EnginePlan | None = None
    """What TensorRT-RTX makes of it, where that is installed."""
    notes: tuple[str, ...] = ()
    """In words, why there is no plan, where one was looked for."""


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


# --- which GPUs there are -------------------------------------------------------------------


class LiveGpu(Record, frozen=True, kw_only=True):
    """A GPU of this machine, or a slice of one, as its driver describes it now.

    None is what the driver does not tell.
    """

    index: NonNegative
    """As NVML and nvidia-smi count, which is not always CUDA's order."""
    slice: NonNegative | None = None
    """Which MIG slice of the GPU it is; None for a whole GPU."""
    uuid: str = ""
    name: str
    compute_capability: str = ""
    sms: NonNegative | None = None
    memory_bytes: NonNegative | None = None
    memory_free_bytes: NonNegative | None = None
    l2_bytes: NonNegative | None = None
    bus_bits: NonNegative | None = None
    dram_bytes_per_s: float | None = None
    """From the highest memory clock and the width of the bus."""
    sm_clock_mhz: NonNegative | None = None
    max_sm_clock_mhz: NonNegative | None = None
    boost_mhz: NonNegative | None = None
    """What the board is rated at: GeForce and workstation boards may clock above it."""
    memory_clock_mhz: NonNegative | None = None
    max_memory_clock_mhz: NonNegative | None = None
    application_sm_clock_mhz: NonNegative | None = None
    application_memory_clock_mhz: NonNegative | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    default_power_limit_w: float | None = None
    temperature_c: NonNegative | None = None
    clock_events: tuple[str, ...] | None = None
    """In words, what holds the SM clock down just now."""
    mig: bool | None = None
    ecc: bool | None = None
    persistence: bool | None = None
    compute_mode: str | None = None
    pcie_generation: NonNegative | None = None
    max_pcie_generation: NonNegative | None = None
    pcie_width: NonNegative | None = None
    max_pcie_width: NonNegative | None = None
    driver: str = ""
    cuda: str = ""
    """The newest CUDA that the driver runs."""


class GpuSheet(Record, frozen=True, kw_only=True):
    """A datasheet and what follows from it."""

    spec: GpuSpec
    roof: Roof
    """With fp32 on the CUDA cores and, where there is a choice, sums of tensor cores kept in fp32."""
    ridge: dict[str, float]
    """FLOP per byte of DRAM traffic where the roofline of a dtype bends."""
    relative: dict[str, float] = {}
    """Its figures (`GpuSpec.figures`) over those of the first GPU, where several are compared."""


class LiveSheet(Record, frozen=True, kw_only=True):
    """A GPU of this machine and the datasheet taken for it."""

    gpu: LiveGpu
    sheet: GpuSheet | None
    reason: str
    """In words, why this datasheet, or why none."""


class GpuListing(Record, frozen=True, kw_only=True):
    """GPUs at hand and GPUs known: the document of `trtprof gpus --format json`."""

    schema_version: int
    live: tuple[LiveSheet, ...]
    """Not looked for where GPUs are asked for by name."""
    live_note: str
    """In words, why there are none at hand, or what could not be read; empty where all is well."""
    gpus: tuple[GpuSheet, ...]


# --- what it would take elsewhere -----------------------------------------------------------


class PredictedLayer(Record, frozen=True, kw_only=True):
    """A layer as an engine might run it: one node, or nodes that are taken to be fused."""

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
    work: Work | None = None
    estimate: Estimate | None = None
    """Of one of its runs; None where the work is unknown, and ``reason`` says why."""
    reason: str = ""
    kind: str = ""
    """Of a layer of a built engine: its LayerType (``gemm``); empty of estimated groups."""
    role: PlanRole = "compute"
    match: MatchConfidence | None = None
    """Of a layer of a built engine: how surely it was led back to its nodes."""


class GpuPrediction(Record, frozen=True, kw_only=True):
    """A model on one GPU."""

    gpu: str
    """Its slug."""
    name: str
    ceilings: Ceilings
    clock_mhz: float
    tdp_w: float
    memory_bytes: NonNegative
    time_ns: NonNegative
    """Sum over the layers of what is attainable."""
    ideal_ns: NonNegative
    """The same without the floor of a launch."""
    joules: float
    """``time_ns`` at the board's power limit: an upper estimate of what one inference takes."""
    ridge: dict[str, float]
    """FLOP per byte of DRAM traffic where the roofline of a dtype bends."""
    ns_by_bound: dict[str, int]
    by_precision: dict[str, int | None]
    """``time_ns`` at other precisions; None where the GPU has no unit for it."""
    layers: tuple[PredictedLayer, ...]
    """In execution order."""
    plan: PlanSummary | None = None
    """Of a built engine, with the times attainable on this GPU."""
    notes: tuple[str, ...] = ()


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
    most_efficient: str
    """Slug of the GPU that needs least time, and of that which needs least energy."""
    unsupported: tuple[Unsupported, ...]
    engine: EngineFacts | None = None
    """Where ``level`` is ``layers``: the engine that they are of."""
    fates: tuple[NodeFate, ...] = ()
    """Where ``level`` is ``layers``: what became of every ONNX node in the engine."""
    assumptions: tuple[str, ...] = ()


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


# --- the whole result -----------------------------------------------------------------------


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


class Timeline(Record, frozen=True, kw_only=True):
    """One inference as captured, kernel by kernel: the one whose time is the median of those that count.

    ``lane``, ``layer``, ``name``, ``start_ns`` and ``dur_ns`` are columns of one table, all of the same length, one
    row an event, by ``start_ns``: columns, since there may be ten thousands of them. ``lane``, ``layer`` and ``name``
    are places in ``lanes``, ``layers`` and ``names``; ``layer`` is -1 where the event was led to no layer. Times are
    as captured, with the profiler's own; those of a layer (`LayerResult.measured_ns`) may be less.
    """

    iteration: NonNegative
    """Which of the profiled inferences it is."""
    duration_ns: NonNegative
    """From the first event to the end of the last."""
    lanes: tuple[TimelineLane, ...]
    layers: tuple[str, ...]
    """Names of `Run.layers`."""
    names: tuple[str, ...]
    """Of kernels, copies, calls of the host."""
    lane: tuple[int, ...]
    layer: tuple[int, ...]
    name: tuple[int, ...]
    start_ns: tuple[int, ...]
    """From the first event of the inference on."""
    dur_ns: tuple[int, ...]
    note: str = ""
    """In words, how it was chosen, and what was left out."""


class TimelineLane(Record, frozen=True, kw_only=True):
    """Where events of a timeline happen one after the other: ``stream 7``, ``thread 1``.

    ``depth`` counts lanes of the same name: 1 is for what runs inside events of 0, as the kernels of a loop do.
    """

    name: str
    kind: Literal["kernels", "copies", "host"]
    depth: NonNegative = 0


class RunGraph(Record, frozen=True, kw_only=True):
    """Who reads what from whom, of the layers of a run and of the nodes of its model.

    ``layer_from``, ``layer_to``, ``tensor`` and ``nbytes`` are columns of one table, one row an edge: places in
    ``layers``, the tensor that the one writes and the other reads, and its bytes (-1 where they are not known).
    ``node_from`` and ``node_to`` are places in `Run.nodes`.
    """

    layers: tuple[str, ...]
    """Names of layers in execution order: those of `Run.layers`, and others that took no time."""
    layer_from: tuple[int, ...] = ()
    layer_to: tuple[int, ...] = ()
    tensor: tuple[str, ...] = ()
    nbytes: tuple[int, ...] = ()
    node_from: tuple[int, ...] = ()
    node_to: tuple[int, ...] = ()


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
    """Kernel time of all profiled iterations, matched plus unmatched, to the ns; of a profile that has only the
    times of layers (`Capture` is not there), that of one inference."""
    speed: float = 1.0
    """Speed of the device during the run over that when its ceilings were measured (`ort_probe`)."""
    kernels_unattributed: tuple[Match, ...] = ()
    engine: EngineFacts | None = None
    plan: PlanSummary | None = None
    """Of a TensorRT engine, with the measured times."""
    candidates: tuple[PluginCandidate, ...] = ()
    """Layers for which a hand-written kernel was weighed, most net gain first."""
    modes: tuple[ModeTimes, ...] = ()
    """Of a run on a GPU: its times without and with a CUDA graph, apart from copies."""
    checks: tuple[TensorCheck, ...] = ()
    """Outputs held against ONNX Runtime's (``--verify``), the worst first."""
    assumptions: tuple[str, ...] = ()
    created: str = ""
    clocks: ClockSummary | None = None
    """Of a GPU, while the latency was measured; None where nobody looked, as for files made elsewhere."""
    clocks_profiled: ClockSummary | None = None
    """The same while the profiler ran, so while the kernels were timed."""
    confirmations: tuple[Confirmation, ...] = ()
    """Layers whose kernels were measured with hardware counters, most time lost first."""
    timeline: Timeline | None = None
    """One inference as captured; None where nobody saw when kernels ran (`nsys stats`, a profile of layers)."""
    graph: RunGraph | None = None
    """Who reads what from whom; None where neither a plan nor a model tells."""
    tags: tuple[str, ...] = ()
    """What its owner calls it: words to find it by, kept beside the run and no part of its result."""


# --- two runs side by side ------------------------------------------------------------------

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


class Interval(Record, frozen=True, kw_only=True):
    """A quantity and the interval that holds it with a confidence of ``level``."""

    value: float
    low: float
    high: float
    level: Fraction = 0.95


class LatencyChange(Record, frozen=True, kw_only=True):
    """What became of the latency, after less before: of the median, and of the lower decile of the samples.

    On a shared machine the lower decile tells more: neighbours only add time.
    """

    difference_ns: Interval
    """Of the medians."""
    ratio: Interval
    """Of the medians, after over before."""
    lower_ns: tuple[int, int] | None = None
    """The lower deciles before and after; None of all three where there are no samples."""
    lower_difference_ns: Interval | None = None
    lower_ratio: Interval | None = None
    told_by: Literal["median", "lower decile"] = "median"
    """Which of both the answer is told by: the one that chance moves less."""
    answer: Significance
    samples_before: NonNegative
    samples_after: NonNegative
    method: str
    """How the interval was found, in words."""
    reason: str = ""
    """In words, why the answer is what it is."""

    @property
    def telling_difference_ns(self) -> Interval:
        """That of what the answer is told by."""
        told = self.lower_difference_ns if self.told_by == "lower decile" else None
        return told or self.difference_ns

    @property
    def telling_ratio(self) -> Interval:
        """That of what the answer is told by."""
        told = self.lower_ratio if self.told_by == "lower decile" else None
        return told or self.ratio


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
