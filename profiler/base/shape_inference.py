"""The one way to ask onnx for shapes: what a hostile file would have it write down is bounded before it is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx.shape_inference
from onnx import ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TypeProto
from onnx.shape_inference import InferenceError

from profiler.base import expansion

MOST_RANK = 512
"""Dimensions of one tensor that are inferred; no runtime takes as many."""

__all__ = ["InferenceError", "infer_node", "infer_shapes"]


def infer_shapes(model: ModelProto, **options: bool) -> ModelProto:
    """The model with the types and shapes of its tensors; elements of small ones are followed.

    Args:
        model: Is left as it is.
        options: Of `onnx.shape_inference.infer_shapes`.

    Raises:
        InferenceError: Types or shapes do not fit, or there would be too many of them.
    """
    try:
        expansion.check_calls(model)
        expansion.check_dims(model)
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
    """What onnx says of the outputs of a node; nothing where they may have too many dimensions.

    Raises:
        InferenceError: The inputs do not fit.
        ValidationError: The node is none of its op.
    """
    ranks = sorted((len(known.tensor_type.shape.dim) for known in types.values()), reverse=True)
    if sum(ranks[:2]) > MOST_RANK:
        return {}
    try:
        made: Mapping[str, TypeProto] = onnx.shape_inference.infer_node_outputs(
            schema, node, types, data, opset_imports=list(opsets)
        )
    except InferenceError:
        raise
    except (RuntimeError, ValueError, MemoryError) as error:
        raise InferenceError(str(error) or type(error).__name__) from None
    return {name: known for name, known in made.items() if len(known.tensor_type.shape.dim) <= MOST_RANK}
