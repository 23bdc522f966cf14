"""The one way to evaluate a node whose inputs are known: onnx's own reference, for as much as shapes depend on.

A model's own values decide how much an op makes (Range, Expand, Tile), so that this is asked of shape inference first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import FunctionProto, NodeProto, TypeProto, defs, helper, numpy_helper
from onnx.checker import ValidationError

from trtprof.base import shape_inference
from trtprof.base.op_kinds import op_types

MAX_ELEMENTS = 4096
"""Larger constants are weights; no shape has so many dimensions."""

Array = npt.NDArray[Any]

_NEVER_MORE = frozenset({"NonZero", "Compress", "Unique"})
"""How much these make is in their values, and never more than a row a dimension of what they read."""
EVALUATED = _NEVER_MORE | op_types(
    "pointwise", "reduction", "ranking", "scan", "cast", "quantise", "view", "move", "fill", "shape"
) | {"Range", "OneHot", "EyeLike", "Trilu", "MatMul", "Resize", "Upsample"}  # fmt: skip
"""Ops that indices are computed with. Others may take for ever on few elements: Einsum, a regular expression."""


def outputs_of(
    node: NodeProto, inputs: Mapping[str, Array], opsets: Mapping[str, int], most: int = MAX_ELEMENTS
) -> list[Array] | None:
    """The outputs of a node that have a name; None where it is no op for this, refuses, or makes too much."""
    if node.domain not in ("", "ai.onnx") or node.op_type not in EVALUATED:
        return None
    if any(array.size > most for array in inputs.values()) or not _is_small(node, inputs, opsets, most):
        return None
    from onnx.reference import ReferenceEvaluator

    body = FunctionProto(
        name="node", domain="node", input=list(inputs), output=[name for name in node.output if name], node=[node],
        opset_import=[helper.make_opsetid(*entry) for entry in opsets.items()],
    )  # fmt: skip
    try:
        with np.errstate(all="ignore"):
            found = ReferenceEvaluator(body).run(None, dict(inputs), attributes={})
        arrays = [np.asarray(value) for value in found]
    except Exception:  # an implementation raises whatever numpy does; the value stays unknown
        return None
    return arrays if all(array.size <= most for array in arrays) else None


def _is_small(node: NodeProto, inputs: Mapping[str, Array], opsets: Mapping[str, int], most: int) -> bool:
    """Whether all that a node makes is known to be small before it is made."""
    if node.op_type in _NEVER_MORE:
        return True
    try:
        data = {name: numpy_helper.from_array(array, name) for name, array in inputs.items()}
        types = {name: helper.make_tensor_type_proto(one.data_type, one.dims) for name, one in data.items()}
        schema = defs.get_schema(node.op_type, opsets.get("", 1), "")
        made = shape_inference.infer_node(
            schema, node, types, data, [helper.make_opsetid(*entry) for entry in opsets.items()]
        )
    except (defs.SchemaError, shape_inference.InferenceError, ValidationError, KeyError, TypeError, ValueError):
        return False
    return all(name in made and _fits(made[name], most) for name in node.output if name)


def _fits(known: TypeProto, most: int) -> bool:
    dims = known.tensor_type.shape.dim
    return known.tensor_type.HasField("shape") and (
        all(dim.HasField("dim_value") for dim in dims) and 0 <= math.prod(dim.dim_value for dim in dims) <= most
    )
