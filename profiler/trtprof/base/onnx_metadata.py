"""Words written beside the nodes of an ONNX model, where Netron and other viewers show them.

Nodes have ``metadata_props`` since IR version 10 (onnx/onnx.proto3), so an older model is raised to it. What changed
its meaning on the way is kept: before IR 4 every initializer had to be listed as an input, which from IR 4 on makes it
a default that a caller may replace, and that no runtime may fold; such inputs are taken off. Attributes of IR 1 did not
say of what kind they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onnx import AttributeProto, ModelProto, NodeProto, StringStringEntryProto, TensorProto

from trtprof.base import onnx_graph

NODE_METADATA = 10
"""The first IR version with metadata of nodes."""
FIXED_INITIALIZERS = 4
"""The first IR version whose initializers need not be inputs; those that are may be replaced by a caller."""
MOST_KEPT = 1024
"""Elements of a tensor that stays where weights are left out: shapes, axes and scalars decide what a graph is."""
_LEFT_OUT = "left out"
_KINDS = (
    ("f", AttributeProto.FLOAT), ("i", AttributeProto.INT), ("s", AttributeProto.STRING), ("t", AttributeProto.TENSOR),
    ("g", AttributeProto.GRAPH),
)  # fmt: skip
_LISTS = (
    ("floats", AttributeProto.FLOATS), ("ints", AttributeProto.INTS), ("strings", AttributeProto.STRINGS),
    ("tensors", AttributeProto.TENSORS), ("graphs", AttributeProto.GRAPHS),
)  # fmt: skip

Words = Sequence[tuple[str, str]]
"""Keys and what is said under each."""


def with_metadata(
    model: bytes, of_nodes: Mapping[str, Words], of_model: Words, prefix: str, *, weights: bool = True
) -> bytes:
    """The model with words at its nodes and at itself.

    Args:
        model: A serialised ``ModelProto`` without local functions, its nodes under unique names.
        weights: Whether the elements of large initializers and constants stay. Without them a viewer shows the graph,
            dtypes and shapes, and nothing can run it.

    Returns:
        The serialised model; the same input gives the same bytes.
    """
    proto = ModelProto.FromString(model)
    raise_version(proto, NODE_METADATA)
    _put(proto.metadata_props, of_model, prefix)
    for _, graph in onnx_graph.all_graphs(proto.graph):
        for node in graph.node:
            _put(node.metadata_props, of_nodes.get(node.name, ()), prefix)
            if not weights:
                _strip(node)
        if not weights:
            for tensor in graph.initializer:
                _leave_out(tensor)
    return proto.SerializeToString(deterministic=True)


def _put(entries: object, words: Words, prefix: str) -> None:
    kept = [(entry.key, entry.value) for entry in entries if not entry.key.startswith(prefix)]  # type: ignore[attr-defined]
    del entries[:]  # type: ignore[attr-defined]
    entries.extend(  # type: ignore[attr-defined]
        StringStringEntryProto(key=key, value=value) for key, value in (*kept, *words)
    )


def raise_version(proto: ModelProto, least: int) -> None:
    """Raise a model to an IR version, from 4 on, if it has an older one; what that means for it stays as it was."""
    old = proto.ir_version
    if old < FIXED_INITIALIZERS:
        for _, graph in onnx_graph.all_graphs(proto.graph):
            stored = {tensor.name for tensor in graph.initializer}
            stored.update(tensor.values.name for tensor in graph.sparse_initializer)
            inputs = [info for info in graph.input if info.name not in stored]
            del graph.input[:]
            graph.input.extend(inputs)
            for node in graph.node:
                for attribute in node.attribute:
                    _say_kind(attribute)
    proto.ir_version = max(old, least)


def _say_kind(attribute: AttributeProto) -> None:
    if attribute.type == AttributeProto.UNDEFINED:
        single = [kind for field, kind in _KINDS if attribute.HasField(field)]
        many = [kind for field, kind in _LISTS if getattr(attribute, field)]
        attribute.type = (single + many or [AttributeProto.INTS])[0]


def _strip(node: NodeProto) -> None:
    for attribute in node.attribute:
        if attribute.HasField("t"):
            _leave_out(attribute.t)
        for tensor in attribute.tensors:
            _leave_out(tensor)


def _leave_out(tensor: TensorProto) -> None:
    """Say that the elements lie in a file beside the model, which is not there; shape and dtype stay."""
    elements = onnx_graph.tensor_from_initializer(tensor).elements
    if elements is None or elements <= MOST_KEPT or tensor.data_type == TensorProto.STRING:
        return
    for field in ("raw_data", "float_data", "double_data", "int32_data", "int64_data", "uint64_data", "external_data"):
        tensor.ClearField(field)
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.append(StringStringEntryProto(key="location", value=_LEFT_OUT))
