"""The one way to ask onnx for shapes: what a hostile file would have it write down is bounded before it is asked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import onnx.shape_inference
from onnx import ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TypeProto
from onnx.shape_inference import InferenceError

from trtprof.base import expansion

MOST_RANK = 512
"""Dimensions of one tensor that are inferred; no runtime takes as many."""

__all__ = ["GrowthError", "InferenceError", "infer_node", "infer_shapes"]


class GrowthError(InferenceError):
    """There might be too many shapes to infer all at once; node by node there is a bound."""


def infer_shapes(model: ModelProto, **options: bool) -> ModelProto:
    """The model with the types and shapes of its tensors; elements of small ones are followed."""
    try:
        expansion.check_calls(model)
        expansion.check_dims(model)
    except expansion.ExpansionError as error:
        raise GrowthError(str(error)) from None
    try:
        return onnx.shape_inference.infer_shapes(model, data_prop=True, **options)
    except InferenceError:
        raise
    except (onnx.checker.ValidationError, RuntimeError, ValueError, MemoryError) as error:
        raise InferenceError(str(error) or type(error).__name__) from None


def infer_node(
    schema: Any,
    node: NodeProto,
    types: dict[str, TypeProto],
    data: dict[str, TensorProto],
    opsets: Sequence[OperatorSetIdProto],
) -> Mapping[str, TypeProto]:
    """What onnx says of the outputs of a node; nothing where they may have too many dimensions."""
    ranks = sorted((len(known.tensor_type.shape.dim) for known in types.values()), reverse=True)
    if sum(ranks[:2]) > MOST_RANK or any(
        at < len(node.input) and _long(types.get(node.input[at])) for at in expansion.deciding(node.op_type)
    ):
        return {}
    try:
        expansion.check_node(node)
    except expansion.ExpansionError as error:
        raise InferenceError(str(error)) from None
    try:
        made: Mapping[str, TypeProto] = onnx.shape_inference.infer_node_outputs(
            schema, node, types, data, opset_imports=list(opsets)
        )
    except InferenceError:
        raise
    except (RuntimeError, ValueError, MemoryError) as error:
        raise InferenceError(str(error) or type(error).__name__) from None
    return {name: known for name, known in made.items() if len(known.tensor_type.shape.dim) <= MOST_RANK}


def _long(known: TypeProto | None) -> bool:
    dims = () if known is None else known.tensor_type.shape.dim
    return math.prod(max(dim.dim_value, 1) for dim in dims) > expansion.MOST_DECIDING
