"""The cost of ops that ONNX defines by a function body: what the body does, as one kernel.

https://onnx.ai/onnx/intro/concepts.html#functions: a schema may carry a body in terms of other ops,
for some only once the attributes and the input types are known. Shapes inside come from
`onnx.shape_inference`, as they do for a model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TypeProto, defs, helper

from profiler import onnx_graph
from profiler.cost import Cost
from profiler.cost._shapes import shape
from profiler.cost.fused import group_cost
from profiler.records import Op, Tensor

_DATA_TYPES = {name: data_type for data_type, name in onnx_graph.DTYPES.items()}


_PREFIX = "body/"


def has_body(schema: Any) -> bool:
    """Whether ONNX defines the op by other ops."""
    return bool(schema.has_function or schema.has_context_dependent_function)


def body_cost(op: Op) -> Cost | None:
    """The cost of an op by its function body, or None when ONNX defines none.

    Raises:
        CostError: A shape stays unknown, inside or out, or an op of the body has no price.
    """
    body = _body(op)
    if body is None:
        return None
    known = {tensor.name: tensor for tensor in (*op.inputs, *op.outputs) if tensor is not None}
    inner = onnx_graph.nodes_in(onnx.shape_inference.infer_shapes(_inlined(op, body), data_prop=True), {"": known})
    outputs = [tensor.name for tensor in op.outputs if tensor is not None]
    found = group_cost([node.op for node in inner], outputs)
    return None if found is None else found._replace(note="; ".join(filter(None, (_NOTE, found.note))))


_NOTE = "by its function body, as one kernel"


def _body(op: Op) -> FunctionProto | None:
    try:
        schema: Any = defs.get_schema(op.op_type, op.opset, op.domain)
    except defs.SchemaError:
        return None
    if schema.deprecated:
        return None
    body = FunctionProto()
    if schema.has_context_dependent_function:
        types = [(_type_of(tensor) if tensor else TypeProto()).SerializeToString() for tensor in op.inputs]
        version = _version(schema.context_dependent_function_opset_versions, op.opset)
        body.ParseFromString(
            schema.get_context_dependent_function_with_opset_version(version, _node(op).SerializeToString(), types)
        )
    elif schema.has_function:
        body.ParseFromString(schema.get_function_with_opset_version(_version(schema.function_opset_versions, op.opset)))
    if not body.node:
        return None
    for name, default in schema.attributes.items():
        if name not in op.attributes and default.default_value.type:
            body.attribute_proto.append(default.default_value)
    return body


def _version(versions: Sequence[int], opset: int) -> int:
    return max((version for version in versions if version <= opset), default=min(versions))


def _inlined(op: Op, body: FunctionProto) -> ModelProto:
    """The body as a graph over the op's own tensors, other names prefixed, attributes filled in."""
    names = {"": ""}
    for formals, actuals in ((body.input, op.inputs), (body.output, op.outputs)):
        for formal, actual in zip_longest(formals, actuals):
            if formal is not None:
                names[formal] = (
                    actual.name if actual is not None else (_PREFIX + formal if actuals is op.outputs else "")
                )
    attributes = {attribute.name: attribute for attribute in (*body.attribute_proto, *_node(op).attribute)}
    graph = GraphProto(name="body")
    for node in body.node:
        _rename(graph.node.add(), node, names, attributes)
    for tensor in {tensor.name: tensor for tensor in op.inputs if tensor is not None}.values():
        if tensor.value is not None and tensor.shape is not None and tensor.kind == "tensor":
            graph.initializer.append(
                helper.make_tensor(tensor.name, _DATA_TYPES[tensor.dtype], shape(tensor), tensor.value)
            )
        else:
            graph.input.append(helper.make_value_info(tensor.name, _type_of(tensor)))
    graph.output.extend(
        helper.make_value_info(tensor.name, onnx_graph.ANY_TYPE) for tensor in op.outputs if tensor is not None
    )
    return helper.make_model(graph, opset_imports=body.opset_import)


def _rename(
    into: NodeProto, node: NodeProto, names: Mapping[str, str], attributes: Mapping[str, AttributeProto]
) -> None:
    into.CopyFrom(node)
    del into.attribute[:]
    for index, name in enumerate(node.input):
        into.input[index] = names.get(name, _PREFIX + name)
    for index, name in enumerate(node.output):
        into.output[index] = names.get(name, _PREFIX + name)
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            if attribute.ref_attr_name in attributes:
                into.attribute.add().CopyFrom(attributes[attribute.ref_attr_name])
                into.attribute[-1].name = attribute.name
            continue
        kept = into.attribute.add()
        kept.CopyFrom(attribute)
        if attribute.type == AttributeProto.GRAPH:
            # What a branch makes has names of its own; what it takes from around it is renamed.
            own = {output for inner in attribute.g.node for output in inner.output} | {
                i.name for i in attribute.g.input
            }
            outside = {name: name for name in own} | {n: t for n, t in names.items() if n not in own}
            del kept.g.node[:]
            for inner in attribute.g.node:
                _rename(kept.g.node.add(), inner, outside, attributes)


def _node(op: Op) -> NodeProto:
    attributes: dict[str, Any] = dict(op.attributes)
    return helper.make_node(
        op.op_type,
        [tensor.name if tensor else "" for tensor in op.inputs],
        [tensor.name if tensor else "" for tensor in op.outputs],
        domain=op.domain,
        **attributes,
    )


def _type_of(tensor: Tensor) -> TypeProto:
    return helper.make_tensor_type_proto(_DATA_TYPES.get(tensor.dtype, 0), tensor.shape)
