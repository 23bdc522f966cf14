"""The node tests of the onnx package: one small model for every op, with the tensors that go in and come out.

Each is inspected twice: as it is, its inputs known by type alone, and with the values of its small
inputs stored in the model. What is counted is held against the arrays themselves: those of the test,
and, inside a model of several nodes, those that ONNX's reference implementation makes.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import onnx
from onnx import ModelProto, TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator

from trtprof.analysis.work import inspection_of, price
from trtprof.base import onnx_graph, units
from trtprof.base.errors import ModelError
from trtprof.base.records import Node, Source, Tensor, Work
from trtprof.cost import cost_of
from trtprof.source.load import load_model, source_of

NUMPY_NAMES: dict[str, str] = {
    "float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "bool": "bool",
    "float8_e4m3fn": "fp8e4m3fn", "float8_e4m3fnuz": "fp8e4m3fnuz", "float8_e5m2": "fp8e5m2",
    "float8_e5m2fnuz": "fp8e5m2fnuz", "float8_e8m0fnu": "fp8e8m0", "float4_e2m1fn": "fp4e2m1",
    "int64": "int64", "int32": "int32", "int16": "int16", "int8": "int8", "int4": "int4", "int2": "int2",
    "uint64": "uint64", "uint32": "uint32", "uint16": "uint16", "uint8": "uint8", "uint4": "uint4", "uint2": "uint2",
    "complex64": "complex64", "complex128": "complex128",
}  # fmt: skip
"""dtypes of arrays, ml_dtypes' included, by the names of `records.Tensor`; strings are objects and not here."""

SMALL = 64
"""Inputs of at most so many elements are stored in the second form of a model."""

PARTS: dict[str, str] = {
    "AveragePool": "what a window takes",
    "ArrayFeatureExtractor": "the columns that are named",
    "CastLike": "the type of the second input, none of its values",
    "CenterCropPad": "what stays",
    "Compress": "the slices that are picked",
    "Einsum": "a diagonal",
    "EyeLike": "the shape",
    "Gather": "the slices that are named",
    "GatherElements": "the values that are named",
    "GatherND": "the slices that are named",
    "MaxPool": "what a window takes",
    "NegativeLogLikelihoodLoss": "the score of each target",
    "OptionalHasElement": "whether there is one",
    "RandomUniformLike": "the shape",
    "Resize": "the taps",
    "RotaryEmbedding": "the rows of the caches that the positions name",
    "Shape": "the shape",
    "Size": "the shape",
    "Slice": "what is cut out",
    "SoftmaxCrossEntropyLoss": "the weight of each target",
    "Trilu": "the triangle that is kept",
}
"""Ops that may read less than all of their inputs, and what they read."""

STORED_IN_ATTRIBUTES: dict[str, str] = {
    "TfIdfVectorizer": "the n-grams and their weights",
    "TreeEnsemble": "the nodes and leaves of the trees",
}
"""Ops that read more than their inputs, and what; it counts as parameters."""

BODIES = frozenset({"If", "Loop", "Scan", "SequenceMap"})
"""Ops whose outputs are written by the nodes of their bodies, which are counted by themselves."""


class NodeTest(NamedTuple):
    """A model of one op, and its first set of data: arrays, sequences as lists of them, None for nothing."""

    name: str
    model: ModelProto
    inputs: dict[str, Any]
    outputs: dict[str, Any]


@cache
def node_test_cases() -> Sequence[NodeTest]:
    """All of them, generated as the onnx package's own runner does: seconds, once a process."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        # The generators divide by zero and overflow on purpose.
        warnings.simplefilter("ignore")
        cases = load_model_tests(kind="node")
    found = []
    for case in cases:
        assert case.model is not None
        assert case.data_sets is not None
        inputs, outputs = case.data_sets[0]
        graph = case.model.graph
        found.append(
            NodeTest(
                case.name,
                case.model,
                # Inputs at the end may be left out.
                {info.name: array_of(value) for info, value in zip(graph.input, inputs, strict=False)},
                {info.name: array_of(value) for info, value in zip(graph.output, outputs, strict=True)},
            )
        )
    return found


def array_of(value: Any) -> Any:
    """A tensor of a data set as an array; a sequence as a list of arrays; an empty optional as None."""
    if isinstance(value, TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, list):
        return [array_of(item) for item in value]
    return None if value is None else np.asarray(value)


class Unpriced(NamedTuple):
    """A node without work, and the reason that inspect gives."""

    node: Node
    reason: str

    @property
    def kind(self) -> str:
        return self.reason.partition(":")[0]


class Looked(NamedTuple):
    """What `inspect` made of a model."""

    nodes: tuple[Node, ...]
    unpriced: tuple[Unpriced, ...]

    @property
    def silent(self) -> list[Node]:
        """Nodes whose work is nothing at all, and is not said to be."""
        works = [(node, node.work) for node in self.nodes]
        return [node for node, work in works if work is not None and not (work.flops or work.bytes or work.note)]


def look(case: NodeTest, scratch: Path, model: ModelProto | None = None) -> Looked:
    """Inspect a test's model, or another form of it, as `trtprof inspect --shapes` does.

    Raises:
        ModelError: The model is refused.
    """
    nodes = inspection_of(_source(case, scratch, model or case.model)).nodes
    missing = [Unpriced(node, price(node.op)[1]) for node in nodes if node.work is None]
    return Looked(nodes, tuple(missing))


def total_of(case: NodeTest, scratch: Path) -> Work | None:
    """The work of a whole model whose small inputs are known, or None where a node has no price."""
    source = _source(case, scratch, with_values(case))
    # Inputs that are stored here for their values are no constants in truth.
    nodes = [msgspec.structs.replace(node, constant=node.op.op_type == "Constant") for node in source.nodes]
    found = inspection_of(msgspec.structs.replace(source, nodes=tuple(nodes)))
    return None if found.unsupported else found.total


def _source(case: NodeTest, scratch: Path, model: ModelProto) -> Source:
    path = scratch / "model.onnx"
    # Some file systems write a file to the disk at once that replaces the content of another.
    path.unlink(missing_ok=True)
    path.write_bytes(model.SerializeToString())
    return source_of(load_model(path), dynamic_inputs(case, model), feed=False)


def refused_by_onnx(model: ModelProto) -> bool:
    """Whether the ONNX checker itself refuses the model."""
    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError:
        return True
    return False


def with_values(case: NodeTest) -> ModelProto:
    """The model with its small inputs stored in it, with the values of the data set."""
    model = ModelProto()
    model.CopyFrom(case.model)
    model.ir_version = max(model.ir_version, 4)  # from IR 4 on an initializer need not be an input
    stored: set[str] = set()
    for info in case.model.graph.input:
        array = case.inputs.get(info.name)
        if not isinstance(array, np.ndarray) or array.dtype.name not in NUMPY_NAMES or array.size > SMALL:
            continue
        tensor = numpy_helper.from_array(array, info.name)
        if tensor.data_type == info.type.tensor_type.elem_type:
            model.graph.initializer.append(tensor)
            stored.add(info.name)
    kept = [info for info in case.model.graph.input if info.name not in stored]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    return model


def dynamic_inputs(case: NodeTest, model: ModelProto) -> dict[str, tuple[int, ...]]:
    """The shapes of the data, for inputs that a form of the model declares with symbols."""
    found = {}
    for info in model.graph.input:
        declared, array = onnx_graph.tensor_from_value_info(info), case.inputs.get(info.name)
        if declared.kind == "tensor" and declared.elements is None and isinstance(array, np.ndarray):
            found[info.name] = tuple(array.shape)
    return found


def values_of(case: NodeTest) -> dict[str, Any]:
    """The arrays of the main graph by name: of the data set, and of the reference inside the model."""
    graph = case.model.graph
    found = dict(case.inputs)
    if len(graph.node) > 1:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found |= ReferenceEvaluator(case.model).run(None, case.inputs, intermediate=True)
        # The reference stacks the scalars that a Loop makes to [n, 1], and ONNX to [n].
        for name in (name for node in graph.node if node.op_type == "Loop" for name in node.output):
            found.pop(name, None)
    return found | case.outputs | {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}


def nbytes_of(array: Any) -> int | None:
    """Bytes of an array at the true width of its type, packed; None where it has none (strings, sequences)."""
    if not isinstance(array, np.ndarray | np.generic) or array.dtype.name not in NUMPY_NAMES:
        return None
    return units.dtype_bytes(NUMPY_NAMES[array.dtype.name], int(array.size))


class Traffic(NamedTuple):
    """Bytes of the arrays that a node takes and makes, each distinct one once."""

    taken: int
    made: int


def traffic_of(node: Node, values: Mapping[str, Any]) -> Traffic | None:
    """What the arrays say, or None where one is not at hand or has no width."""
    totals = []
    for tensors in (node.op.inputs, node.op.outputs):
        names = {tensor.name for tensor in tensors if tensor is not None}
        found = [nbytes_of(values.get(name)) for name in names]
        if None in found:
            return None
        totals.append(sum(count for count in found if count is not None))
    return Traffic(*totals)


def mismatches(node: Node, values: Mapping[str, Any]) -> Iterator[str]:
    """How the work of a node of the main graph differs from the arrays that it takes and makes."""
    for tensor in (*node.op.inputs, *node.op.outputs):
        if tensor is not None:
            yield from _misdescribed(tensor, values.get(tensor.name))
    work, real = node.work, traffic_of(node, values)
    if work is None or real is None or node.op.op_type in BODIES:
        return
    cost = cost_of(node.op)
    view = cost is not None and bool(cost.views)
    yield from _miswritten(node, work, 0 if view else real.made)
    own = work.bytes_parameters if node.op.op_type in STORED_IN_ATTRIBUTES else 0
    if work.bytes_read > real.taken + own:
        yield f"reads {work.bytes_read} of {real.taken} bytes"
    elif work.bytes_read < real.taken and real.made and not view and node.op.op_type not in PARTS:
        yield f"reads {work.bytes_read} of {real.taken} bytes, and why is not said"


def _misdescribed(tensor: Tensor, array: Any) -> Iterator[str]:
    if not isinstance(array, np.ndarray | np.generic) or tensor.kind != "tensor":
        return
    dtype = NUMPY_NAMES.get(array.dtype.name, "string")
    if tensor.dtype not in ("unknown", dtype):
        yield f"takes {tensor.name!r} for {tensor.dtype}, which is {dtype}"
    dims = tensor.shape
    if dims is None:
        return
    if len(dims) != array.ndim or any(isinstance(d, int) and d != n for d, n in zip(dims, array.shape, strict=True)):
        yield f"takes {tensor.name!r} for {list(dims)}, which is {list(array.shape)}"


def _miswritten(node: Node, work: Work, made: int) -> Iterator[str]:
    if node.op.op_type == "Constant":  # part of the model
        return
    bounded = any(tensor is not None and tensor.elements is None for tensor in node.op.outputs)
    if bounded and work.bound == "upper" and work.bytes_written >= made:
        return
    if work.bytes_written != made:
        yield f"writes {work.bytes_written} of {made} bytes ({work.bound})"


class Verdict(NamedTuple):
    """A model, what is wrong with it, and the nodes that rightly have no price, by reason."""

    case: str
    faults: tuple[str, ...]
    excused: tuple[str, ...]
    nodes: int
    compared: int
    """Nodes whose bytes were held against arrays."""
    parts: frozenset[str]
    """Ops that read less than they take, or more; see `PARTS` and `STORED_IN_ATTRIBUTES`."""


def judge(case: NodeTest, scratch: Path) -> Verdict:
    """Hold one node test against all that is asked of it."""
    faults: list[str] = []
    excused: list[str] = []
    try:
        plain, valued = look(case, scratch), look(case, scratch, with_values(case))
    except ModelError as error:
        if refused_by_onnx(case.model):
            return Verdict(case.name, (), ("the ONNX checker refuses the model",), 0, 0, frozenset())
        return Verdict(case.name, (f"refused: {error}",), (), 0, 0, frozenset())
    settled = {node.name for node in valued.nodes if node.work is not None}
    hidden = _hidden(plain.nodes)
    typed = _typed(case.model)
    for missing in plain.unpriced:
        excuse = _excuse(missing, settled, hidden, typed)
        (excused if excuse else faults).append(excuse or f"{missing.node.name}: {missing.reason}")
    faults += [
        f"{missing.node.name}, with values: {missing.reason}"
        for missing in valued.unpriced
        if not _excuse(missing, set(), hidden, typed)
    ]
    faults += [f"{node.name}: nothing, and no note" for node in (*plain.silent, *valued.silent)]
    values = values_of(case)
    compared = 0
    parts: set[str] = set()
    for node in (node for node in (*plain.nodes, *valued.nodes) if not node.graph):
        faults += [f"{node.name} {said}" for said in mismatches(node, values)]
        real = traffic_of(node, values)
        if node.work is not None and real is not None:
            compared += 1
            if node.work.bytes_read != real.taken:
                parts.add(node.op.op_type)
    return Verdict(
        case.name, tuple(dict.fromkeys(faults)), tuple(excused), len(plain.nodes), compared, frozenset(parts)
    )


def _excuse(missing: Unpriced, settled: AbstractSet[str], hidden: AbstractSet[str], typed: AbstractSet[str]) -> str:
    """Why a node may have no price, or nothing.

    Args:
        missing: The node.
        settled: Nodes that have a price once the values of the inputs are known.
        hidden: Nodes in bodies and behind them.
        typed: Tensors whose shape the model declares in full.
    """
    tensors = [tensor for tensor in (*missing.node.op.inputs, *missing.node.op.outputs) if tensor is not None]
    if missing.kind == "no fixed width" and any(tensor.dtype == "string" for tensor in tensors):
        return "no fixed width: strings"
    if missing.kind != "unknown shape" or {tensor.name for tensor in tensors} <= typed:
        return ""
    if any(tensor.kind in ("sequence", "map") for tensor in tensors):
        return "unknown shape: a sequence of unknown length"
    if missing.node.name in settled:
        return "unknown shape: it depends on values that are fed"
    if missing.node.name in hidden:
        return "unknown shape: it depends on which branch is taken, or on how often a body has run"
    return ""


def _typed(model: ModelProto) -> set[str]:
    """Inputs and outputs of the model whose shape it declares in full."""
    declared = map(onnx_graph.tensor_from_value_info, (*model.graph.input, *model.graph.output))
    return {tensor.name for tensor in declared if tensor.elements is not None}


def _hidden(nodes: Sequence[Node]) -> set[str]:
    """Nodes of bodies, and those that take what a body makes."""
    found: set[str] = set()
    tensors: set[str] = set()
    for node in nodes:
        if node.graph or node.op.op_type in BODIES or any(t is not None and t.name in tensors for t in node.op.inputs):
            found.add(node.name)
            tensors.update(tensor.name for tensor in node.op.outputs if tensor is not None)
    return found


MOVES = frozenset({
    "CenterCropPad", "Compress", "DepthToSpace", "Expand", "Gather", "GatherElements", "GatherND", "Pad",
    "ReverseSequence", "Slice", "SpaceToDepth", "Tile", "Transpose", "Trilu",
})  # fmt: skip
"""Ops that put values of their first input into their first output, and compute nothing."""

_FIRST = 1000
"""Numbers of elements start above every value that fills what is not moved."""
_NUMBERS = {"float32": 1 << 24, "float64": 1 << 53, "int32": 1 << 31, "int64": 1 << 53}
"""Integers that a type tells apart."""


def elements_that_arrive(case: NodeTest) -> int | None:
    """How many elements of its first input a model of one move puts into its output.

    ONNX's reference implementation moves an array in which every element is another number; None
    where the type has too few.
    """
    (node,) = case.model.graph.node
    data = case.inputs[node.input[0]]
    if data.size + _FIRST > _NUMBERS.get(data.dtype.name, 0):
        return None
    numbers = np.arange(_FIRST, _FIRST + data.size, dtype=data.dtype)
    fed = case.inputs | {node.input[0]: numbers.reshape(data.shape)}
    result, *_ = ReferenceEvaluator(case.model).run(None, fed)
    return int((np.unique(np.asarray(result)) >= _FIRST).sum())


def elements_read(node: Node) -> int:
    """How many elements of its first input a node is counted to read."""
    cost, first = cost_of(node.op), node.op.inputs[0]
    assert cost is not None
    assert first is not None
    return sum(moved.elements for moved in cost.reads if moved.tensor.name == first.name)
