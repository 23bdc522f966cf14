"""onnx's shape inference, with one error for all that it raises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx.shape_inference
from onnx import ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TypeProto
from onnx.shape_inference import InferenceError

MOST_RANK = 512
"""Dimensions of one tensor; no runtime takes as many."""

__all__ = ["MOST_RANK", "InferenceError", "infer_node", "infer_shapes"]

_RAISED = (onnx.checker.ValidationError, RuntimeError, ValueError, MemoryError)


def infer_shapes(model: ModelProto, **options: bool) -> ModelProto:
    """The model with the types and shapes of its tensors; elements of small ones are followed."""
    try:
        return onnx.shape_inference.infer_shapes(model, data_prop=True, **options)
    except InferenceError:
        raise
    except _RAISED as error:
        raise InferenceError(str(error) or type(error).__name__) from None


def infer_node(
    schema: Any,
    node: NodeProto,
    types: dict[str, TypeProto],
    data: dict[str, TensorProto],
    opsets: Sequence[OperatorSetIdProto],
) -> Mapping[str, TypeProto]:
    """What onnx infers of the outputs of a node."""
    try:
        made: Mapping[str, TypeProto] = onnx.shape_inference.infer_node_outputs(
            schema, node, types, data, opset_imports=list(opsets)
        )
    except InferenceError:
        raise
    except _RAISED as error:
        raise InferenceError(str(error) or type(error).__name__) from None
    return made
