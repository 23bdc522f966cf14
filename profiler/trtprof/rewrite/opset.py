"""Whether a model means the same under a newer version of the standard operators."""

from __future__ import annotations

import onnx
import onnx.numpy_helper
import onnx.version_converter
import onnx_ir as ir

MOST_ELEMENTS = 1024
"""Elements of a constant that the converter may look into, for axes and the like; larger ones it is not given."""


def same_nodes(model: ir.Model, opset: int) -> bool:
    """Whether ONNX's version converter leaves every node of a model as it is on the way to a newer opset."""
    if model.functions or any(_mended(node) for node in model.graph.all_nodes()):
        return False
    before = _without_weights(model)
    try:
        after = onnx.version_converter.convert_version(before, opset)
    except Exception:  # What it cannot convert, it says with errors of many kinds
        return False
    return [_written(node) for node in before.graph.node] == [_written(node) for node in after.graph.node]


def _mended(node: ir.Node) -> bool:
    ceiling = node.attributes.get("ceil_mode")
    return node.op_type == "AveragePool" and ceiling is not None and bool(ceiling.value)


def _without_weights(model: ir.Model) -> onnx.ModelProto:
    """The nodes of a model; its large constants are inputs."""
    inputs = [ir.to_proto(value) for value in model.graph.inputs]
    given = {value.name for value in inputs}
    constants = []
    for name, value in model.graph.initializers.items():
        tensor = value.const_value
        if tensor is None or name in given:
            continue
        if tensor.size > MOST_ELEMENTS:
            inputs.append(onnx.helper.make_tensor_value_info(name, int(tensor.dtype), tensor.shape.numpy()))
        else:
            constants.append(ir.to_proto(tensor))
            constants[-1].name = name
    graph = onnx.helper.make_graph(
        [ir.to_proto(node) for node in model.graph],
        "nodes",
        inputs,
        [ir.to_proto(value) for value in model.graph.outputs],
        constants,
    )
    opsets = [onnx.helper.make_opsetid(domain, version) for domain, version in model.opset_imports.items()]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=model.ir_version)


def _written(node: onnx.NodeProto) -> tuple[object, ...]:
    """What of a node has a meaning, whatever the order of its attributes; names of nodes have none."""
    attributes = sorted(((one.name, _said(one)) for one in node.attribute), key=lambda pair: pair[0])
    return node.domain or "", node.op_type, tuple(node.input), tuple(node.output), tuple(attributes)


def _said(attribute: onnx.AttributeProto) -> object:
    graphs = [attribute.g] if attribute.type == onnx.AttributeProto.GRAPH else list(attribute.graphs)
    if graphs:
        return tuple(tuple(_written(node) for node in graph.node) for graph in graphs)
    if attribute.type == onnx.AttributeProto.TENSOR:
        return onnx.numpy_helper.to_array(attribute.t).tobytes(), tuple(attribute.t.dims), attribute.t.data_type
    return onnx.helper.get_attribute_value(attribute)
