"""What was asked: tensors, ops and their work, nodes, and the model."""

from __future__ import annotations

from typing import Literal

from trtprof.base import units
from trtprof.base.records import common as c
from trtprof.base.records.common import Record


class Tensor(Record, frozen=True, kw_only=True):
    """A tensor as a node or an engine layer sees it.

    ``shape`` is None when the rank is unknown; an unknown or symbolic dimension is a string. ``value`` holds the
    elements of small integer constants (axes, pads, target shapes) only. ``dtype`` is a key of `units.DTYPE_BITS`, or
    ``string``, or ``unknown``. Of a sequence, dtype and shape are those of its elements, whose number is not known; of
    an optional, those of what it may hold; a map has neither.
    """

    name: c.TensorName
    dtype: c.Safe
    shape: tuple[c.Dim, ...] | None
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

    An omitted optional input is None. ``domain`` is ``""`` for ai.onnx.
    """

    op_type: str
    domain: str = ""
    opset: int = 1
    attributes: dict[str, c.Attribute] = {}
    inputs: tuple[Tensor | None, ...] = ()
    outputs: tuple[Tensor | None, ...] = ()


class Unsure(Record, frozen=True, kw_only=True):
    """The part of a `Work` that the data of a run may do without: it is counted, but never in what is called ideal."""

    tensor_flops: c.NonNegative = 0
    vector_flops: c.NonNegative = 0
    special: dict[c.Safe, c.NonNegative] = {}
    bytes: c.NonNegative = 0


class Core(Record, frozen=True, kw_only=True, omit_defaults=True):
    """What most of a work is, in the terms that libraries have kernels for.

    Attributes:
        kind: What it is.
        batch: Products of this size; of a convolution its groups; of an attention batch entries times query heads.
        m: Rows of the result; of a convolution images times places, of an attention queries; of a softmax or
            normalisation rows; of what is pointwise the elements that it writes.
        n: Columns; of a convolution output channels of a group, of an attention keys; of a softmax or normalisation
            the length of a row.
        k: Summed over; of a convolution input channels of a group times the window; of an attention the length of a
            query.
        window: Of a convolution the elements of its window.
        stride: Of a convolution the product of its strides.
        shared: Of an attention query heads for each head of keys.
        causal: Of an attention whether a query sees no key behind its own place, the last one all.
    """

    kind: Literal["product", "convolution", "attention", "softmax", "normalisation", "pointwise"]
    batch: c.NonNegative = 1
    m: c.NonNegative
    n: c.NonNegative = 1
    k: c.NonNegative = 1
    window: c.NonNegative = 1
    stride: c.NonNegative = 1
    shared: c.NonNegative = 1
    causal: bool = False


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
        fast_flops: The part of ``tensor_flops`` that a fast algorithm (Winograd, FFT) does without; 0 where there is
            none, or where the names of the tactic or its kernels say that another one was taken.
        unsure: What data may spare.
        accumulator: What products are added up in, where a tactic or kernel tells it: a key of `units.DTYPE_BITS`.
        core: What most of it is, of one run; None where no single thing is, or its dimensions are not known.
    """

    tensor_flops: c.NonNegative = 0
    vector_flops: c.NonNegative = 0
    special: dict[c.Safe, c.NonNegative] = {}
    bytes_read: c.NonNegative = 0
    bytes_written: c.NonNegative = 0
    bytes_parameters: c.NonNegative = 0
    dtype: c.Safe = ""
    bound: c.WorkBound = "exact"
    note: c.Prose = ""
    fast_flops: c.NonNegative = 0
    unsure: Unsure = Unsure()
    accumulator: c.Safe = ""
    core: Core | None = None

    @property
    def macs(self) -> int:
        return self.tensor_flops // units.FLOP_PER_MAC

    @property
    def fewest_tensor_flops(self) -> int:
        """FLOP of the multiply-accumulates that the fastest algorithm there may be does."""
        return self.tensor_flops - self.fast_flops

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


class Call(Record, frozen=True, kw_only=True):
    """A custom node that a plugin computes, or its function where there is none: the nodes that name it."""

    name: c.NodeName
    domain: c.DomainName
    op_type: c.OpName
    outputs: tuple[c.TensorName, ...]
    """Tensors that it makes."""


class Node(Record, frozen=True, kw_only=True):
    """A node of the ONNX model as loaded, under its unique name.

    Of a custom node with a function, those of its function are there, called ``<custom node>/<node of the function>``.
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
    call: Call | None = None
    """The custom node whose function it is of."""


class InputTensor(Record, frozen=True, kw_only=True):
    """A graph input as bound for this run, and how its values were chosen."""

    name: c.TensorName
    dtype: c.Safe
    shape: tuple[int, ...] | None
    """None where nothing was bound: an unknown rank, a sequence, map or optional (`inspect` only)."""
    declared: tuple[c.Dim, ...] = ()
    """The dimensions as the file declares them, symbols kept; of a sequence, those of its elements."""
    kind: Literal["uniform", "integers", "file", "none"] = "uniform"
    """Where its values come from; ``none`` where the model is not run."""
    low: float = -1.0
    high: float = 1.0
    """Values are drawn from ``low`` to ``high``: half open for floats, both ends for integers."""
    file: c.FileName = ""
    values: c.Prose = ""
    """In words: ``uniform -1..1``, ``integers 0..9 (indices of Gather_3)``, ``file x.npy``."""


class ModelInfo(Record, frozen=True, kw_only=True):
    """The model as asked for."""

    name: c.ModelName
    path: c.FileName
    sha256: c.Digest
    """Digest of the .onnx file itself; external data is told apart by name, size and time.
    Empty where the weights were not read (`inspect`)."""
    ir_version: int
    opsets: dict[c.DomainName, int]
    producer: c.ProducerName = ""
    inputs: tuple[InputTensor, ...] = ()
    outputs: tuple[Tensor, ...] = ()
    parameters: c.NonNegative = 0
    parameter_bytes: c.NonNegative = 0
    nodes: c.NonNegative = 0
    renamed: c.NonNegative = 0
    """Nodes that got a unique name because theirs was empty or taken."""
    shape_coverage: c.Fraction = 1.0
    """Share of node outputs whose shape and dtype are known before the run."""
    assumptions: tuple[c.Prose, ...] = ()
    """What was filled in rather than given: default dims, random inputs."""


class Source(Record, frozen=True, kw_only=True):
    """Artefact of the source stage."""

    model: ModelInfo
    nodes: tuple[Node, ...]
