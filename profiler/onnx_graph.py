"""ONNX protobufs read as records: the model asked for and the graph a runtime saved look alike.

Weights are never read: a constant contributes its shape and dtype, and its elements only when it
is a small integer tensor (axes, pads, target shapes).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto

from profiler.records import Attribute, Dim, Op, Tensor

SMALL_CONSTANT = 64
"""Integer constants of at most this many elements keep their values."""

DTYPES: dict[int, str] = {
    TensorProto.FLOAT: "fp32",
    TensorProto.UINT8: "uint8",
    TensorProto.INT8: "int8",
    TensorProto.UINT16: "uint16",
    TensorProto.INT16: "int16",
    TensorProto.INT32: "int32",
    TensorProto.INT64: "int64",
    TensorProto.STRING: "string",
    TensorProto.BOOL: "bool",
    TensorProto.FLOAT16: "fp16",
    TensorProto.DOUBLE: "fp64",
    TensorProto.UINT32: "uint32",
    TensorProto.UINT64: "uint64",
    TensorProto.COMPLEX64: "complex64",
    TensorProto.COMPLEX128: "complex128",
    TensorProto.BFLOAT16: "bf16",
    TensorProto.FLOAT8E4M3FN: "fp8e4m3fn",
    TensorProto.FLOAT8E4M3FNUZ: "fp8e4m3fnuz",
    TensorProto.FLOAT8E5M2: "fp8e5m2",
    TensorProto.FLOAT8E5M2FNUZ: "fp8e5m2fnuz",
    TensorProto.UINT4: "uint4",
    TensorProto.INT4: "int4",
    TensorProto.FLOAT4E2M1: "fp4e2m1",
}
"""TensorProto.DataType (onnx.proto) to the dtype names of `records.Tensor`."""

_INTEGERS: dict[int, tuple[int, str]] = {
    TensorProto.INT64: (8, "q"),
    TensorProto.INT32: (4, "i"),
    TensorProto.BOOL: (1, "?"),
}
"""Width in bytes and struct code of the constants whose values are kept."""


class GraphNode(NamedTuple):
    """A node with the subgraph that holds it and everything its cost depends on."""

    graph: str
    proto: NodeProto
    op: Op
    constant: bool
    """Every input is a constant and the op is deterministic: it could be computed before the run."""


def nodes_in(model: ModelProto, known: Mapping[str, Mapping[str, Tensor]] | None = None) -> Iterator[GraphNode]:
    """Every node of a model, outer before inner, in graph order, subgraphs included.

    Args:
        model: Shapes come from its value_info.
        known: Tensors by graph path and name that override what the model says.
    """
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    yield from _nodes_of(model.graph, "", {}, opsets, known or {})


def _nodes_of(
    graph: GraphProto,
    path: str,
    outer: Mapping[str, Tensor],
    opsets: Mapping[str, int],
    known: Mapping[str, Mapping[str, Tensor]],
) -> Iterator[GraphNode]:
    scope: dict[str, Tensor] = dict(outer)
    for info in (*graph.input, *graph.value_info, *graph.output):
        scope[info.name] = tensor_from_value_info(info)
    for initializer in graph.initializer:
        scope[initializer.name] = tensor_from_initializer(initializer)
    for sparse in graph.sparse_initializer:
        values = sparse.values
        scope[values.name] = Tensor(
            name=values.name, dtype=dtype_name(values.data_type), shape=tuple(sparse.dims), constant=True
        )
    scope.update(known.get(path, {}))
    for node in graph.node:
        read = [scope[name] for name in node.input if name and name in scope]
        constant = (
            node.op_type not in RANDOM_OPS
            and not any(subgraphs(node))
            and len(read) == sum(1 for name in node.input if name)
            and all(tensor.constant for tensor in read)
        )
        if constant:
            for name in node.output:
                scope[name] = _constant_output(node, scope.get(name, unknown_tensor(name)))
        op = Op(
            op_type=node.op_type,
            domain="" if node.domain == "ai.onnx" else node.domain,
            opset=opsets.get(node.domain, 1),
            attributes={a.name: v for a in node.attribute if (v := attribute_value(a)) is not None},
            inputs=tuple(scope.get(name, unknown_tensor(name)) if name else None for name in node.input),
            outputs=tuple(scope.get(name, unknown_tensor(name)) if name else None for name in node.output),
        )
        yield GraphNode(path, node, op, constant)
        for attribute, body in subgraphs(node):
            yield from _nodes_of(body, subgraph_path(node.name, attribute), scope, opsets, known)


RANDOM_OPS = frozenset({"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial"})


def subgraph_path(node_name: str, attribute: str) -> str:
    """How a subgraph is called: ``If_3/then_branch``. Node names are unique in the whole model."""
    return f"{node_name}/{attribute}"


def subgraphs(node: NodeProto) -> Iterator[tuple[str, GraphProto]]:
    """The bodies of a control-flow node with the attribute (and number) that holds each."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.name, attribute.g
        elif attribute.type == AttributeProto.GRAPHS:
            for index, body in enumerate(attribute.graphs):
                yield f"{attribute.name}.{index}", body


def all_graphs(graph: GraphProto, path: str = "") -> Iterator[tuple[str, GraphProto]]:
    """The graph and every subgraph in it with its path, outer before inner."""
    yield path, graph
    for node in graph.node:
        for attribute, body in subgraphs(node):
            yield from all_graphs(body, subgraph_path(node.name, attribute))


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
    return tuple(
        dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else dim.dim_param or "?" for dim in shape.dim
    )


def tensor_from_value_info(info: ValueInfoProto) -> Tensor:
    """The tensor that a value_info, graph input or output declares; sequences have unknown rank."""
    kind: TypeProto = info.type
    if kind.WhichOneof("value") != "tensor_type":
        return unknown_tensor(info.name)
    tensor = kind.tensor_type
    return Tensor(
        name=info.name,
        dtype=dtype_name(tensor.elem_type),
        shape=dims_of(tensor.shape) if tensor.HasField("shape") else None,
    )


def tensor_from_initializer(proto: TensorProto, name: str = "") -> Tensor:
    """Shape and dtype of a constant, and its elements when it is small and integer."""
    return Tensor(
        name=name or proto.name,
        dtype=dtype_name(proto.data_type),
        shape=tuple(proto.dims),
        constant=True,
        value=_small_integers(proto),
    )


def _small_integers(proto: TensorProto) -> tuple[int, ...] | None:
    count = 1
    for dim in proto.dims:
        count *= dim
    if proto.data_type not in _INTEGERS or count > SMALL_CONSTANT or proto.data_location == TensorProto.EXTERNAL:
        return None
    if proto.raw_data:
        width, code = _INTEGERS[proto.data_type]
        if len(proto.raw_data) != width * count:
            return None
        return tuple(int(value) for value in struct.unpack(f"<{count}{code}", proto.raw_data))
    values = proto.int64_data if proto.data_type == TensorProto.INT64 else proto.int32_data
    return tuple(values) if len(values) == count else None


def _constant_output(node: NodeProto, tensor: Tensor) -> Tensor:
    dtype, shape, value = tensor.dtype, tensor.shape, tensor.value
    if node.op_type == "Constant" and node.domain in ("", "ai.onnx"):
        for attribute in node.attribute:
            if attribute.name == "value":
                inner = tensor_from_initializer(attribute.t, tensor.name)
                dtype, shape, value = inner.dtype, inner.shape, inner.value
            elif attribute.name == "value_int":
                dtype, shape, value = "int64", (), (attribute.i,)
            elif attribute.name == "value_ints":
                dtype, shape = "int64", (len(attribute.ints),)
                value = tuple(attribute.ints) if len(attribute.ints) <= SMALL_CONSTANT else None
            elif attribute.name == "value_float":
                dtype, shape = "fp32", ()
            elif attribute.name == "value_floats":
                dtype, shape = "fp32", (len(attribute.floats),)
    return Tensor(name=tensor.name, dtype=dtype, shape=shape, constant=True, value=value)


def attribute_value(attribute: AttributeProto) -> Attribute | None:
    """A plain attribute as a Python value; None for tensors, graphs, types and references."""
    match attribute.type:
        case AttributeProto.INT:
            return attribute.i
        case AttributeProto.FLOAT:
            return attribute.f
        case AttributeProto.STRING:
            return attribute.s.decode("utf-8", "replace")
        case AttributeProto.INTS:
            return tuple(attribute.ints)
        case AttributeProto.FLOATS:
            return tuple(attribute.floats)
        case AttributeProto.STRINGS:
            return tuple(text.decode("utf-8", "replace") for text in attribute.strings)
        case _:
            return None


def without_weights(model: ModelProto) -> ModelProto:
    """A copy of the model whose large constants have become typed graph inputs.

    Shape inference sees every shape and every small constant, and copies no weights. Constants
    that define shapes (integers up to `SMALL_CONSTANT` elements) stay.
    """
    bare = ModelProto()
    bare.ir_version = max(model.ir_version, 4)  # from IR 4 on an initializer need not be an input
    bare.opset_import.extend(model.opset_import)
    bare.functions.extend(model.functions)
    _copy_without_weights(model.graph, bare.graph)
    return bare


def _copy_without_weights(graph: GraphProto, into: GraphProto) -> None:
    into.name = graph.name or "graph"
    into.input.extend(graph.input)
    into.output.extend(graph.output)
    into.value_info.extend(graph.value_info)
    declared = {info.name for info in graph.input}
    for initializer in graph.initializer:
        if _small_integers(initializer) is not None or (not initializer.dims and initializer.ByteSize() < 256):
            into.initializer.append(initializer)
        elif initializer.name not in declared:
            into.input.append(
                onnx.helper.make_tensor_value_info(initializer.name, initializer.data_type, initializer.dims)
            )
    into.node.extend(graph.node)
