"""Small constants that shapes depend on, computed before shape inference.

Exporters write the pads of a Pad or the target of a Reshape as a little graph over constants, which
`onnx.shape_inference` follows only in part. The nodes of such graphs are evaluated one by one with
onnx's own reference implementation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from profiler import onnx_graph

MAX_ELEMENTS = 4096
"""Larger constants are weights; no shape has so many dimensions."""

SHAPE_INPUTS: dict[str, tuple[int, ...]] = {
    "Reshape": (1,), "Expand": (1,), "Tile": (1,), "ConstantOfShape": (0,), "Slice": (1, 2, 3, 4), "Pad": (1, 3),
    "Resize": (2, 3), "Upsample": (1,), "Range": (0, 1, 2), "TopK": (1,), "Loop": (0,), "Unsqueeze": (1,),
    "Squeeze": (1,), "Split": (1,), "CumSum": (1,), "OneHot": (1,), "CenterCropPad": (1,),
}  # fmt: skip
"""Inputs of ops that decide the shape of their output."""

_Array = npt.NDArray[Any]


def fold_shape_constants(model: ModelProto) -> dict[str, dict[str, _Array]]:
    """Replace, in place, nodes that compute a constant which decides a shape by Constant nodes.

    Args:
        model: Its node names are unique and stay; only op type, inputs and attributes change.

    Returns:
        The values by graph path and tensor name. A node that cannot be evaluated stays as it is.
    """
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    found: dict[str, dict[str, _Array]] = {}
    _fold(model.graph, "", {}, opsets, found)
    return found


def _fold(
    graph: GraphProto,
    path: str,
    outer: Mapping[str, _Array],
    opsets: Mapping[str, int],
    found: dict[str, dict[str, _Array]],
) -> None:
    makers = {name: node for node in graph.node for name in node.output}
    initializers = {tensor.name: tensor for tensor in graph.initializer}
    values: dict[str, _Array] = dict(outer)
    refused: set[str] = set()
    folded = found.setdefault(path, {})

    def compute(wanted: str) -> None:
        """Values of a tensor and of all that it is made of; iterative, because chains can be long."""
        stack = [wanted]
        while stack:
            name = stack[-1]
            if not name or name in values or name in refused:
                stack.pop()
            elif name in initializers:
                stack.pop()
                array = _stored(initializers[name])
                if array is None:
                    refused.add(name)
                else:
                    values[name] = array
            elif name not in makers or any(onnx_graph.subgraphs(makers[name])):
                stack.pop()
                refused.add(name)
            else:
                node = makers[name]
                missing = [i for i in node.input if i and i not in values and i not in refused]
                if missing:
                    stack += missing
                    continue
                stack.pop()
                if any(i in refused for i in node.input if i):
                    refused.update(node.output)
                    continue
                results = _evaluate(node, values, opsets)
                if results is None:
                    refused.update(node.output)
                else:
                    values.update(zip((name for name in node.output if name), results, strict=True))

    for node in graph.node:
        for index in SHAPE_INPUTS.get(node.op_type, ()):
            if index < len(node.input):
                compute(node.input[index])
    for node in graph.node:
        if node.op_type != "Constant" and len(node.output) == 1 and node.output[0] in values:
            name = node.output[0]
            folded[name] = values[name]
            _make_constant(node, values[name])
        for attribute, body in onnx_graph.subgraphs(node):
            _fold(body, onnx_graph.subgraph_path(node.name, attribute), values, opsets, found)


def _stored(tensor: TensorProto) -> _Array | None:
    if tensor.data_location == TensorProto.EXTERNAL or math.prod(tensor.dims) > MAX_ELEMENTS:
        return None
    return numpy_helper.to_array(tensor)


def _evaluate(node: NodeProto, values: Mapping[str, _Array], opsets: Mapping[str, int]) -> list[_Array] | None:
    """Outputs of one node, or None when the reference has no such op, refuses, or makes too much."""
    if node.domain not in ("", "ai.onnx") or node.op_type in onnx_graph.RANDOM_OPS:
        return None
    inputs = [helper.make_value_info(name, onnx_graph.ANY_TYPE) for name in dict.fromkeys(node.input) if name]
    outputs = [helper.make_value_info(name, onnx_graph.ANY_TYPE) for name in node.output if name]
    graph = helper.make_graph([node], "constant", inputs, outputs)
    ids = [helper.make_opsetid("", opsets.get("", 1))]
    try:
        results = ReferenceEvaluator(helper.make_model(graph, opset_imports=ids)).run(
            None, {name: values[name] for name in node.input if name}
        )
    except Exception:
        return None
    arrays = [np.asarray(result) for result in results]
    return arrays if all(array.size <= MAX_ELEMENTS for array in arrays) else None


def _make_constant(node: NodeProto, value: _Array) -> None:
    node.op_type = "Constant"
    del node.input[:]
    del node.attribute[:]
    node.attribute.append(helper.make_attribute("value", numpy_helper.from_array(value)))
