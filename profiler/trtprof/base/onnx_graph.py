"""ONNX protobufs read as records: the model asked for and the graph a runtime saved look alike.

Weights are never read: a constant contributes its shape and dtype, and its elements only when it
is a small integer tensor (axes, pads, target shapes).
"""

from __future__ import annotations

import math
import struct
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import onnx
import onnx.inliner
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
)

from trtprof.base.calls import PLUGINS
from trtprof.base.op_kinds import RANDOM
from trtprof.base.records import Attribute, Call, Dim, Op, Tensor

SMALL_CONSTANT = 64
"""Integer constants of at most this many elements keep their values."""

_DTYPE_NAMES: dict[str, str] = {
    "FLOAT": "fp32", "DOUBLE": "fp64", "FLOAT16": "fp16", "BFLOAT16": "bf16",
    "FLOAT8E4M3FN": "fp8e4m3fn", "FLOAT8E4M3FNUZ": "fp8e4m3fnuz", "FLOAT8E5M2": "fp8e5m2",
    "FLOAT8E5M2FNUZ": "fp8e5m2fnuz", "FLOAT8E8M0": "fp8e8m0",
    "FLOAT6E2M3": "fp6e2m3", "FLOAT6E3M2": "fp6e3m2", "FLOAT4E2M1": "fp4e2m1",
    "INT64": "int64", "INT32": "int32", "INT16": "int16", "INT8": "int8", "INT4": "int4", "INT2": "int2",
    "UINT64": "uint64", "UINT32": "uint32", "UINT16": "uint16", "UINT8": "uint8", "UINT4": "uint4", "UINT2": "uint2",
    "BOOL": "bool", "STRING": "string", "COMPLEX64": "complex64", "COMPLEX128": "complex128",
}  # fmt: skip
DTYPES: dict[int, str] = {
    number: _DTYPE_NAMES[name] for name, number in TensorProto.DataType.items() if name in _DTYPE_NAMES
}
"""TensorProto.DataType (onnx.proto) to the dtype names of `records.Tensor`; older releases know fewer."""

_INTEGERS: dict[int, tuple[int, str]] = {
    TensorProto.INT64: (8, "q"),
    TensorProto.INT32: (4, "i"),
    TensorProto.BOOL: (1, "?"),
}
"""Width in bytes and struct code of the constants whose values are kept."""
_EXTERNAL, _INT64 = TensorProto.EXTERNAL, TensorProto.INT64  # a look-up in a message class is slow
_GRAPH = AttributeProto.GRAPH
_GRAPH_KINDS = (_GRAPH, AttributeProto.GRAPHS)


class GraphNode(NamedTuple):
    """A node with the subgraph that holds it and everything its cost depends on."""

    graph: str
    proto: NodeProto
    op: Op
    constant: bool
    """Every input is a constant and the op is deterministic: it could be computed before the run."""


def nodes_in(model: ModelProto, known: Mapping[str, Mapping[str, Tensor]] | None = None) -> Iterator[GraphNode]:
    """Every node of a model, outer before inner, in graph order, subgraphs included."""
    opsets = {_plain(entry.domain): entry.version for entry in model.opset_import}
    yield from _nodes_of(model.graph, "", unknown_tensor, (), opsets, known)


def _nodes_of(
    graph: GraphProto,
    path: str,
    outer: Callable[[str], Tensor],
    given: Sequence[Tensor | None],
    opsets: Mapping[str, int],
    known: Mapping[str, Mapping[str, Tensor]] | None,
) -> Iterator[GraphNode]:
    scope = dict(declared_tensors(graph) if known is None else known.get(path, {}))
    for info, tensor in zip(graph.input, given, strict=False):
        if tensor is not None:
            scope[info.name] = _completed(scope.get(info.name), tensor, info.name)
    for initializer in graph.initializer:
        scope[initializer.name] = tensor_from_initializer(initializer)
    for sparse in graph.sparse_initializer:
        scope[sparse.values.name] = tensor_from_sparse(sparse, sparse.values.name)

    def find(name: str) -> Tensor:
        found = scope.get(name)
        if found is None:
            found = scope[name] = outer(name)
        return found

    for node in graph.node:
        attributes: dict[str, Attribute] = {}
        bodies: list[tuple[str, GraphProto]] = []
        for attribute in node.attribute:
            value = attribute_value(attribute)
            if value is not None:
                attributes[attribute.name] = value
            elif attribute.type in _GRAPH_KINDS:
                bodies += _graphs_in(attribute)
        op_type = node.op_type
        inputs = tuple([find(name) if name else None for name in node.input])
        constant = (
            not bodies and op_type not in RANDOM and all(tensor.constant for tensor in inputs if tensor is not None)
        )
        if constant:
            for name in node.output:
                scope[name] = _constant_output(node, scope.get(name) or unknown_tensor(name))
        domain = _plain(node.domain)
        op = Op(
            op_type=op_type,
            domain=domain,
            opset=opsets.get(domain, 1),
            attributes=attributes,
            inputs=inputs,
            outputs=tuple([(scope.get(name) or unknown_tensor(name)) if name else None for name in node.output]),
        )
        yield GraphNode(path, node, op, constant)
        for name, body in bodies:
            yield from _nodes_of(body, subgraph_path(node.name, name), find, given_to_body(op), opsets, known)


def scan_length(op: Op) -> int | None:
    """Trips of a Scan: the length of its scan inputs; in opset 8, which has a batch, times the batch."""
    count = op.attributes.get("num_scan_inputs", 0)
    if not isinstance(count, int) or not 0 < count <= len(op.inputs):
        return None
    first = op.inputs[-count]
    if first is None or first.shape is None or not first.shape:
        return None
    if op.opset < 9:
        dims = first.shape[:2]
    else:
        axes = op.attributes.get("scan_input_axes", ())
        axis = int(axes[0]) if isinstance(axes, tuple) and axes else 0
        dims = first.shape[axis : axis + 1] if axis >= 0 else first.shape[axis:][:1]
    known = [dim for dim in dims if isinstance(dim, int)]
    return math.prod(known) if known and len(known) == len(dims) else None


def op_of(node: NodeProto, opsets: Mapping[str, int], inputs: Sequence[Tensor | None]) -> Op:
    """A node with known inputs; of its outputs only the names are known."""
    domain = _plain(node.domain)
    return Op(
        op_type=node.op_type,
        domain=domain,
        opset=opsets.get(domain, 1),
        attributes={a.name: value for a in node.attribute if (value := attribute_value(a)) is not None},
        inputs=tuple(inputs),
        outputs=tuple(unknown_tensor(name) if name else None for name in node.output),
    )


def given_to_body(op: Op) -> Sequence[Tensor | None]:
    """What is known of the inputs of a body from the node around it, in their order."""
    if op.domain:
        return ()
    if op.op_type == "Loop":
        # The state of a loop may change its shape from trip to trip.
        state = [t and msgspec.structs.replace(t, shape=None, constant=False, value=None) for t in op.inputs[2:]]
        return Tensor(name="", dtype="int64", shape=()), Tensor(name="", dtype="bool", shape=()), *state
    if op.op_type == "Scan":
        count = op.attributes.get("num_scan_inputs", 0)
        if not isinstance(count, int):
            return ()
        inputs = op.inputs[1:] if op.opset < 9 else op.inputs  # in opset 8, lengths come first and all has a batch
        states = max(len(inputs) - count, 0)
        axes = op.attributes.get("scan_input_axes", ())
        found: list[Tensor | None] = []
        for index, tensor in enumerate(inputs):
            axis = axes[index - states] if isinstance(axes, tuple) and states <= index < states + len(axes) else 0
            dropped = ([0] if index < states else [0, 1]) if op.opset < 9 else [] if index < states else [int(axis)]
            found.append(_without_axes(tensor, dropped))
        return found
    if op.op_type == "SequenceMap":
        return [
            msgspec.structs.replace(t, kind="tensor") if t is not None and t.kind == "sequence" else t
            for t in op.inputs
        ]
    return ()


def _without_axes(tensor: Tensor | None, axes: Sequence[int]) -> Tensor | None:
    if tensor is None or not axes:
        return tensor and msgspec.structs.replace(tensor, constant=False, value=None)
    shape = tensor.shape
    if shape is not None:
        left_away = {axis % len(shape) for axis in axes if shape}
        shape = tuple(dim for index, dim in enumerate(shape) if index not in left_away)
    return msgspec.structs.replace(tensor, shape=shape, constant=False, value=None)


def _completed(own: Tensor | None, given: Tensor, name: str) -> Tensor:
    """What a body knows of its input, and where it knows nothing, what it is given."""
    if own is None or own.dtype == "unknown":
        return msgspec.structs.replace(given, name=name)
    return own if own.shape is not None else msgspec.structs.replace(own, shape=given.shape)


def _plain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def declared_tensors(graph: GraphProto) -> dict[str, Tensor]:
    """Inputs, inner tensors and outputs of a graph by name, as it declares them."""
    # A network has few types, and reading one from protobuf takes longer than to see that it was read before.
    known: dict[bytes, Tensor] = {}
    found = {}
    for info in (*graph.input, *graph.value_info, *graph.output):
        name, raw = info.name, info.type.SerializeToString()
        like = known.get(raw)
        if like is None:
            like = known[raw] = tensor_from_value_info(info)
        found[name] = Tensor(name=name, dtype=like.dtype, shape=like.shape, kind=like.kind)
    return found


def subgraph_path(node_name: str, attribute: str) -> str:
    """How a subgraph is called: ``If_3/then_branch``. Node names are unique in the whole model."""
    return f"{node_name}/{attribute}"


def subgraphs(node: NodeProto) -> Sequence[tuple[str, GraphProto]]:
    """The bodies of a control-flow node with the attribute (and number) that holds each."""
    return [body for attribute in node.attribute if attribute.type in _GRAPH_KINDS for body in _graphs_in(attribute)]


def _graphs_in(attribute: AttributeProto) -> Sequence[tuple[str, GraphProto]]:
    if attribute.type == _GRAPH:
        return [(attribute.name, attribute.g)]
    return [(f"{attribute.name}.{index}", body) for index, body in enumerate(attribute.graphs)]


def all_graphs(graph: GraphProto, path: str = "") -> Iterator[tuple[str, GraphProto]]:
    """The graph and every subgraph in it with its path, outer before inner."""
    yield path, graph
    for node in graph.node:
        for name, body in subgraphs(node):
            yield from all_graphs(body, subgraph_path(node.name, name))


def stored_tensors(proto: ModelProto) -> Iterator[TensorProto]:
    """Every tensor that a model stores: initializers and tensor attributes of all graphs."""
    for _, graph in all_graphs(proto.graph):
        yield from graph.initializer
        for sparse in graph.sparse_initializer:
            yield from (sparse.values, sparse.indices)
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.type == AttributeProto.TENSOR:
                    yield attribute.t
                yield from attribute.tensors


class _Nested(NamedTuple):
    """A graph with its nodes, their names and the graphs in them, each read from protobuf once."""

    graph: GraphProto
    nodes: list[tuple[NodeProto, str, list[tuple[str, _Nested]]]]


def _nested(graph: GraphProto) -> _Nested:
    return _Nested(
        graph,
        [(node, node.name, [(attribute, _nested(body)) for attribute, body in subgraphs(node)]) for node in graph.node],
    )


def name_nodes(proto: ModelProto) -> tuple[dict[str, str], dict[str, GraphProto]]:
    """Give every node a name that no other node has; the name in the file by that name, and all graphs by path."""
    taken: set[str] = set()
    used: set[str] = set()
    originals: dict[str, str] = {}
    graphs: dict[str, GraphProto] = {}
    counters: dict[str, int] = defaultdict(int)

    def take(nested: _Nested) -> None:
        for _, name, bodies in nested.nodes:
            taken.add(name)
            for _, body in bodies:
                take(body)

    def fresh(stem: str) -> str:
        name = stem
        while name in taken or name in used:
            counters[stem] += 1
            name = f"{stem}_{counters[stem]}"
        return name

    def visit(nested: _Nested, path: str) -> None:
        graphs[path] = nested.graph
        for index, (node, old, bodies) in enumerate(nested.nodes):
            name = old
            if not old:
                name = node.name = fresh(f"{path}/{node.op_type}_{index}" if path else f"{node.op_type}_{index}")
            elif old in used:
                name = node.name = fresh(old)
            used.add(name)
            originals[name] = old
            for attribute, body in bodies:
                visit(body, subgraph_path(name, attribute))

    root = _nested(proto.graph)
    take(root)
    visit(root, "")
    return originals, graphs


def inline_calls(proto: ModelProto) -> tuple[ModelProto, dict[str, Call]]:
    """A model with the functions of its custom nodes of `PLUGINS` in their place.

    Nodes of a function get the name ``<custom node>/<node of the function>``.
    """
    functions = {function.name: function for function in proto.functions if function.domain == PLUGINS}
    if not functions:
        return proto, {}
    inlined = onnx.inliner.inline_selected_functions(proto, [(PLUGINS, name) for name in functions])
    called: dict[str, Call] = {}

    def visit(before: GraphProto, after: GraphProto) -> None:
        made = iter(after.node)
        for node in before.node:
            function = functions.get(node.op_type) if node.domain == PLUGINS else None
            if function is None:
                same = next(made)
                for (_, body), (_, other) in zip(subgraphs(node), subgraphs(same), strict=True):
                    visit(body, other)
                continue
            outputs = tuple(name for name in node.output if name)
            call = Call(name=node.name, domain=PLUGINS, op_type=node.op_type, outputs=outputs)
            for number, own in enumerate(function.node):
                inner = next(made)
                inner.name = f"{node.name}/{own.name or f'{own.op_type}_{number}'}"
                called[inner.name] = call

    visit(proto.graph, inlined.graph)
    return inlined, called


ANY_TYPE = TypeProto()
"""The type of a value that its maker will know."""


def unknown_tensor(name: str) -> Tensor:
    """A tensor of which only the name is known."""
    return Tensor(name=name, dtype="unknown", shape=None)


def dtype_name(data_type: int) -> str:
    """The dtype name of a TensorProto.DataType, ``unknown`` for 0 and for types newer than this table."""
    return DTYPES.get(data_type, "unknown")


def dims_of(shape: onnx.TensorShapeProto) -> tuple[Dim, ...]:
    """Dimensions of a shape: integers, symbols, and ``?`` for one that has neither."""
    return tuple([dim.dim_value or _open_dim(dim) if dim.dim_value >= 0 else "?" for dim in shape.dim])


def _open_dim(dim: onnx.TensorShapeProto.Dimension) -> Dim:
    return 0 if dim.HasField("dim_value") else dim.dim_param or "?"


def tensor_from_value_info(info: ValueInfoProto) -> Tensor:
    """The tensor, sequence, optional or map that a value_info, graph input or output declares."""
    return tensor_from_type(info.name, info.type)


def tensor_from_type(name: str, declared: TypeProto) -> Tensor:
    """The tensor, sequence, optional or map that a type describes."""
    match declared.WhichOneof("value"):
        case "tensor_type":
            tensor = declared.tensor_type
            return Tensor(
                name=name,
                dtype=dtype_name(tensor.elem_type),
                shape=dims_of(tensor.shape) if tensor.HasField("shape") else None,
            )
        case "sparse_tensor_type":
            sparse = declared.sparse_tensor_type
            return Tensor(
                name=name,
                dtype=dtype_name(sparse.elem_type),
                shape=dims_of(sparse.shape) if sparse.HasField("shape") else None,
                kind="sparse",
            )
        case "sequence_type":
            return msgspec.structs.replace(tensor_from_type(name, declared.sequence_type.elem_type), kind="sequence")
        case "optional_type":
            inner = tensor_from_type(name, declared.optional_type.elem_type)
            return msgspec.structs.replace(inner, kind="optional") if inner.kind == "tensor" else inner
        case "map_type":
            return Tensor(name=name, dtype="unknown", shape=None, kind="map")
        case _:
            return unknown_tensor(name)


def tensor_from_initializer(proto: TensorProto, name: str = "") -> Tensor:
    """Shape and dtype of a constant, and its elements when it is small and integer."""
    return Tensor(
        name=name or proto.name,
        dtype=dtype_name(proto.data_type),
        shape=tuple(proto.dims),
        constant=True,
        value=_small_integers(proto),
    )


def tensor_from_sparse(proto: SparseTensorProto, name: str) -> Tensor:
    """A sparse constant as the nodes that read it see it: dense, for runtimes unpack it."""
    return Tensor(name=name, dtype=dtype_name(proto.values.data_type), shape=tuple(proto.dims), constant=True)


def _small_integers(proto: TensorProto) -> tuple[int, ...] | None:
    layout = _INTEGERS.get(proto.data_type)
    if layout is None or proto.data_location == _EXTERNAL:
        return None
    count = math.prod(proto.dims)
    if not 0 <= count <= SMALL_CONSTANT:
        return None
    raw = proto.raw_data
    if raw:
        width, code = layout
        return tuple(map(int, struct.unpack(f"<{count}{code}", raw))) if len(raw) == width * count else None
    values = proto.int64_data if proto.data_type == _INT64 else proto.int32_data
    return tuple(map(int, values)) if len(values) == count else None


def _constant_output(node: NodeProto, tensor: Tensor) -> Tensor:
    dtype, shape, value = tensor.dtype, tensor.shape, tensor.value
    if node.op_type == "Constant" and node.domain in ("", "ai.onnx"):
        for attribute in node.attribute:
            match attribute.name:
                case "value":
                    return tensor_from_initializer(attribute.t, tensor.name)
                case "sparse_value":
                    return tensor_from_sparse(attribute.sparse_tensor, tensor.name)
                case "value_int":
                    dtype, shape, value = "int64", (), (attribute.i,)
                case "value_ints":
                    dtype, shape = "int64", (len(attribute.ints),)
                    value = tuple(attribute.ints) if len(attribute.ints) <= SMALL_CONSTANT else None
                case "value_float":
                    dtype, shape = "fp32", ()
                case "value_floats":
                    dtype, shape = "fp32", (len(attribute.floats),)
                case "value_string":
                    dtype, shape = "string", ()
                case "value_strings":
                    dtype, shape = "string", (len(attribute.strings),)
    return Tensor(name=tensor.name, dtype=dtype, shape=shape, constant=True, value=value, kind=tensor.kind)


_READ: dict[int, Callable[[AttributeProto], Attribute]] = {
    AttributeProto.INT: lambda attribute: attribute.i,
    AttributeProto.FLOAT: lambda attribute: attribute.f,
    AttributeProto.STRING: lambda attribute: attribute.s.decode("utf-8", "replace"),
    AttributeProto.INTS: lambda attribute: tuple(attribute.ints),
    AttributeProto.FLOATS: lambda attribute: tuple(attribute.floats),
    AttributeProto.STRINGS: lambda attribute: tuple(text.decode("utf-8", "replace") for text in attribute.strings),
}


def attribute_value(attribute: AttributeProto) -> Attribute | None:
    """A plain attribute as a Python value; None for tensors, graphs, types and references."""
    read = _READ.get(attribute.type)
    return None if read is None else read(attribute)


def for_inference(
    model: ModelProto, graphs: Sequence[tuple[str, GraphProto]], *, declared: bool
) -> tuple[ModelProto, Sequence[tuple[str, GraphProto]]]:
    """A copy of the model that shape inference can read at once: constants by type, small ones by value.

    Constants of at most `SMALL_CONSTANT` elements keep them, because they may decide shapes. Of the main graph, the
    others become graph inputs; in a body, whose inputs are counted, they stay as initializers without elements.
    """
    bare = ModelProto()
    bare.CopyFrom(model)
    bare.ir_version = max(model.ir_version, 4)  # from IR 4 on an initializer need not be an input
    bare.ClearField("training_info")
    for output in bare.graph.output:
        if not declared and output.type.WhichOneof("value") == "tensor_type":
            output.type.tensor_type.ClearField("shape")
    copies = list(all_graphs(bare.graph)) if len(graphs) > 1 else [("", bare.graph)]
    for (path, graph), (_, own) in zip(copies, graphs, strict=True):
        for field in ("initializer", "sparse_initializer", *(() if declared else ("value_info",))):
            graph.ClearField(field)
        graph.initializer.extend(tensor for tensor in own.initializer if _is_small(tensor))
        large = [(t.name, t.data_type, t.dims) for t in own.initializer if not _is_small(t)]
        large += [(s.values.name, s.values.data_type, s.dims) for s in own.sparse_initializer]
        if path:
            graph.initializer.extend(TensorProto(name=n, data_type=kind, dims=dims) for n, kind, dims in large)
        else:
            inputs = {info.name for info in own.input}
            graph.input.extend(
                onnx.helper.make_tensor_value_info(*tensor) for tensor in large if tensor[0] not in inputs
            )
    return bare, copies


def _is_small(tensor: TensorProto) -> bool:
    return tensor.data_location != _EXTERNAL and 0 <= math.prod(tensor.dims) <= SMALL_CONSTANT
