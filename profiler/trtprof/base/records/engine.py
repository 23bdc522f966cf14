"""What the backend made of it: layers, plans and the engine."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import msgspec

from trtprof.base import units
from trtprof.base.records import common as c
from trtprof.base.records.common import Record
from trtprof.base.records.model import Op, Work

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

    name: c.Safe
    reason: c.Prose
    options: dict[c.Prose, c.Prose] = {}


class Engine(Record, frozen=True, kw_only=True):
    """Artefact of the engine stage: layers in execution order as far as the backend tells it."""

    backend: Backend
    versions: dict[str, str]
    layers: tuple[Layer, ...]
    build_ns: c.NonNegative


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
    count: c.NonNegative

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
    profile: c.NonNegative = 0
    """Index of the optimisation profile that it belongs to."""
    attributes: dict[str, c.Attribute] = {}
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
    names_only: bool = False
    """Nothing but the names of its layers is known: no kinds, no tensors."""


class LayerTime(Record, frozen=True, kw_only=True):
    """Time of a layer as TensorRT's profiler sums it up, which runs the layers one after the other."""

    name: str
    total_ns: c.NonNegative
    """Over all iterations."""
    average_ns: c.NonNegative
    median_ns: c.NonNegative | None = None
    fraction: c.Fraction
    """Of the time of all layers."""


class LayerTimes(Record, frozen=True, kw_only=True):
    """A profile of layers, as trtexec exports or prints it.

    ``complete`` is False of a printed table, which leaves out layers that took no time.
    """

    iterations: c.NonNegative
    layers: tuple[LayerTime, ...]
    complete: bool = True
    notes: tuple[str, ...] = ()


PlanRole = Literal["compute", "layout", "shape", "sync", "idle"]
"""What a layer of a plan is for.

``compute`` does the work of ONNX nodes, ``layout`` reformats, casts or copies for other layers, ``shape``
computes shapes on the host, ``sync`` makes streams wait for one another, ``idle`` has tensors and launches
nothing (constants, NoOps, views).
"""


class MatchedLayer(Record, frozen=True, kw_only=True):
    """A layer of a plan, led back to the ONNX nodes that it computes.

    ``nodes`` are unique names of nodes of the model, in graph order; ``shared`` are those of them that other layers
    compute too (the product and the bias of one Gemm). ``added`` are casts that the conversion to another precision put
    in, which the model does not have. ``match`` says how sure that is and ``reason`` by which evidence, in words. A
    layer that needs no node (`PlanRole` other than compute) has ``match`` exact where it is known what it is made for.
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

    what: c.Place
    layers: c.NonNegative
    bytes: c.NonNegative
    ns: c.NonNegative | None = None
    fraction: c.Fraction


class PlanReformat(Record, frozen=True, kw_only=True):
    """A layer that only brings a tensor into another dtype, order or padding.

    ``origin`` says why it is there: the plan's own word (``QDQ``) or, where that says no more than that it is one
    (``REFORMAT``), ``input``, ``output`` or ``between layers``.
    """

    layer: c.LayerName
    origin: c.Prose
    serves: c.Place
    """The layer, or the binding, that it is made for."""
    change: c.Prose
    """In words: ``fp32 Linear -> fp16 NHWC8``."""
    bytes: c.NonNegative | None
    ns: c.NonNegative | None = None


class PlanEdge(Record, frozen=True, kw_only=True):
    """A tensor that one layer leaves in memory and others read again: what a fusion would have saved.

    ``kind`` tells what would have to fuse: ``epilogue`` (pointwise work behind a product), ``prologue`` (pointwise work
    before one), ``pointwise`` (two layers without products), ``products`` (two products), ``layout`` (a reformat).
    """

    tensor: c.TensorName
    maker: c.LayerName
    readers: tuple[c.LayerName, ...]
    kind: Literal["epilogue", "prologue", "pointwise", "products", "layout"]
    expected: bool
    """Whether engines fuse such nodes as a rule (`predict.fusion`)."""
    reason: c.Prose = ""
    """In words, why it is expected, or what stands against it."""
    bytes: c.NonNegative
    """Written once and read by every reader."""
    saved_ns: c.NonNegative | None = None
    """What the layers would take less as one; None where no GPU was asked about."""


class PlanLint(Record, frozen=True, kw_only=True):
    """Something in a plan that is worth a look, found without any time: dims that a tensor core cannot use."""

    code: c.Safe
    layer: c.LayerName
    what: c.Prose
    """In words that other places of its kind have too; what differs is in ``evidence``."""
    evidence: c.Prose
    try_: c.Prose = msgspec.field(name="try")


class PlanSummary(Record, frozen=True, kw_only=True):
    """A plan in figures. Times are measured ones, or those attainable on a GPU, or there are none."""

    layers: c.NonNegative
    launches: c.NonNegative
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
    fates: dict[c.Safe, c.NonNegative] = {}
    """ONNX nodes by what became of them (`NodeFate.fate`)."""


class EngineFacts(Record, frozen=True, kw_only=True):
    """How an engine came about, as far as is known."""

    backend: c.Safe = ""
    versions: dict[c.Prose, c.Safe] = {}
    device: c.Safe = ""
    """The GPU that it was built on, or ``no GPU``."""
    era: c.Prose = ""
    """See `Plan.era`."""
    precision: c.Prose = ""
    """In words: as in the file, or which converter made it fp16."""
    build_ns: c.NonNegative | None = None
    network_layers: c.NonNegative = 0
    """Before the builder fused them."""
    cached: bool = False
    warnings: tuple[c.Message, ...] = ()
    notes: tuple[c.Prose, ...] = ()
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
