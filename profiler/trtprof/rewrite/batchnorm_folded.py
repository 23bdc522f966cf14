"""A BatchNormalization folded into the Conv, ConvTranspose or Gemm before it.

With k = scale / sqrt(variance + epsilon), the weights of each output channel are multiplied by its k, and the bias
becomes (bias - mean) * k + B, both computed in float64.
When: It is an inference, all its numbers and the weights are constants, all k and all new weights are finite, and
nothing else reads what it normalises. A Gemm may have factors, and a bias that is a number or a row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from trtprof.rewrite import rewrite
from trtprof.rewrite.edit import Edit

Array = npt.NDArray[Any]


def factors(node: ir.Node, edit: Edit) -> tuple[Array, Array] | None:
    """What a BatchNormalization multiplies each channel by, and what it then adds; None if they are not fixed."""
    if not edit.is_op(node, "BatchNormalization") or edit.opset < 7 or edit.number(node, "training_mode", 0):
        return None
    if edit.number(node, "spatial", 1) != 1 or any(one.name and _is_read(one) for one in node.outputs[1:]):
        return None
    if edit.opset < 14 and len(node.outputs) > 1:
        return None  # Before it had an attribute, this was what told a training.
    arrays = [edit.array(value) for value in node.inputs[1:5]]
    if any(array is None or array.dtype.kind != "f" for array in arrays) or not edit.is_float(node.inputs[0]):
        return None
    scale, shift, mean, variance = (np.asarray(array, np.float64) for array in arrays)
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance + edit.number(node, "epsilon", 1e-5))
        offset = shift - mean * factor
    return (factor, offset) if np.all(np.isfinite(factor)) and np.all(np.isfinite(offset)) else None


def _is_read(value: ir.Value) -> bool:
    return bool(value.uses()) or value.is_graph_output()


@rewrite(
    "batchnorm-folded",
    "BatchNormalization folded into the weights before it",
    answers=("FU301", "RL101", "LA401", "HO501"),
    exact=False,
)
def batchnorm_folded(node: ir.Node, edit: Edit) -> None:
    """Fold one into the product that makes what it normalises."""
    value = node.inputs[0] if node.inputs else None
    product = edit.producer(value, "Conv", "ConvTranspose", "Gemm")
    if product is None or product.graph is not node.graph or not edit.used_once(value):
        return
    found, weights = factors(node, edit), edit.array(product.inputs[1])
    bias_value = product.inputs[2] if len(product.inputs) > 2 else None
    bias = edit.array(bias_value) if bias_value is not None else np.zeros(1)
    if found is None or weights is None or bias is None or weights.dtype.kind != "f":
        return
    factor, offset = found
    if bias.shape not in ((), (1,), (1, 1), factor.shape, (1, *factor.shape)):
        return
    attributes: dict[str, Any] = dict(product.attributes)
    if product.op_type == "Gemm":
        bias = bias * edit.number(product, "beta", 1.0)
        attributes.pop("beta", None)
        along = factor[:, None] if edit.number(product, "transB", 0) else factor
    elif product.op_type == "Conv":
        along = factor.reshape(-1, *[1] * (weights.ndim - 1))
    else:
        groups = int(edit.number(product, "group", 1))
        each = factor.reshape(groups, 1, -1, *[1] * (weights.ndim - 2))  # Of [group, in, out of a group, kernel].
        along = np.broadcast_to(each, (groups, weights.shape[0] // groups, *each.shape[2:])).reshape(
            weights.shape[0], *each.shape[2:]
        )
    with np.errstate(all="ignore"):
        new = (weights.astype(np.float64) * along).astype(weights.dtype)
        shift = (bias.astype(np.float64).reshape(-1) * factor + offset).astype(weights.dtype)
    if not np.all(np.isfinite(new)) or not np.all(np.isfinite(shift)):
        return
    stem = product.inputs[1].name if product.inputs[1] is not None else ""
    inputs = [product.inputs[0], edit.constant(new, f"{stem}_folded"), edit.constant(shift, f"{stem}_bias")]
    edit.replace([product, node], {node.outputs[0]: edit.node(product.op_type, inputs, attributes)})
