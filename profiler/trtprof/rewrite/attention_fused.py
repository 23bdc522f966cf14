"""Attention spelled out, as the op.

Softmax(Q * K^T, scaled, plus a mask) * V becomes Attention of opset 23.
When: Q, K and V are fp32 with four dimensions, as many of them in the batch and as many heads; the scores are scaled by
a constant or not at all. A mask is a constant that forbids no query everything: of such a query the op makes zeros and
Softmax NaN. Nothing else reads what lies between. The opset is 23, or can be raised to it with every other node as it
is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from trtprof.rewrite import rewrite
from trtprof.rewrite.edit import Edit


class _Scores(NamedTuple):
    product: ir.Node
    scale: float
    mask: ir.Value | None
    nodes: tuple[ir.Node, ...]


@rewrite(
    "attention-fused",
    "attention spelled out as Attention",
    answers=("FU301", "RL101", "RL102", "LA401", "HO501"),
    exact=False,
)
def attention_fused(node: ir.Node, edit: Edit) -> None:
    """Replace attention from the product with the values on."""
    if not edit.is_op(node, "MatMul") or edit.opset < 13:
        return
    weights, values = node.inputs
    softmax = edit.producer(weights, "Softmax") if edit.used_once(weights) else None
    if softmax is None or (edit.ints(softmax, "axis") or (-1,))[0] not in (-1, 3):
        return
    found = _scores(edit, softmax.inputs[0])
    if found is None:
        return
    queries, turned = found.product.inputs
    shapes = [edit.dims(value) for value in (queries, turned, values)]
    if any(shape is None or len(shape) != 4 for shape in shapes) or queries is None or values is None:
        return
    heads = {(shape or ())[:2] for shape in shapes}
    if len(heads) != 1 or None in heads.pop() or turned is None:
        return
    if any(edit.dtype(value) != ir.DataType.FLOAT for value in (queries, turned, values)):
        return
    mask = None
    if found.mask is not None:
        mask = _mask(edit, found.mask, edit.dims(softmax.inputs[0]))
        if mask is None:
            return
    keys, turn = _keys(edit, turned)
    if not edit.raised_to(23):
        return
    inputs = [queries, keys, values, *([mask] if mask is not None else [])]
    fused = edit.node("Attention", inputs, {"scale": found.scale})
    edit.replace((*turn, *found.nodes, softmax, node), {node.outputs[0]: fused})


def _scores(edit: Edit, value: ir.Value | None) -> _Scores | None:
    """From a product through a scale and a mask to what the Softmax is of."""
    mask, nodes = None, []
    added = edit.producer(value, "Add") if edit.used_once(value) else None
    if added is not None:
        constant = 0 if edit.is_constant(added.inputs[0]) else 1
        mask, value = added.inputs[constant], added.inputs[1 - constant]
        nodes.append(added)
    scale = 1.0
    scaled = edit.producer(value, "Mul", "Div") if edit.used_once(value) else None
    if scaled is not None:
        constant = 0 if scaled.op_type == "Mul" and edit.is_constant(scaled.inputs[0]) else 1
        number = edit.scalar(scaled.inputs[constant])
        if not number or (edit.rank(scaled.inputs[constant]) or 0) > 4:
            return None
        scale = number if scaled.op_type == "Mul" else 1 / number
        value = scaled.inputs[1 - constant]
        nodes.append(scaled)
    product = edit.producer(value, "MatMul") if edit.used_once(value) else None
    return _Scores(product, scale, mask, (product, *nodes[::-1])) if product is not None else None


def _mask(edit: Edit, value: ir.Value, scores: tuple[int | str | None, ...] | None) -> ir.Value | None:
    """A constant mask with a number for each query and key."""
    array = edit.array(value)
    if array is None or scores is None or len(scores) != 4 or array.dtype != np.float32 or array.ndim > 4:
        return None
    batch, heads, length, keys = scores
    if not isinstance(length, int) or not isinstance(keys, int):
        return None
    wide = array.reshape((1,) * (4 - array.ndim) + array.shape)
    for dim, whole in zip(wide.shape, (batch, heads, length, keys), strict=True):
        if dim not in (1, whole):
            return None
    if np.isnan(wide).any() or not np.isfinite(wide.max(axis=3)).all():
        return None
    if array.ndim >= 2 and array.shape[-2:] == (length, keys):
        return value
    return edit.constant(np.broadcast_to(wide, (*wide.shape[:2], length, keys)).copy(), value.name or "mask")


def _keys(edit: Edit, turned: ir.Value) -> tuple[ir.Value, tuple[ir.Node, ...]]:
    """Keys with one in a row, and the Transpose that is not needed for it any more."""
    made = edit.producer(turned, "Transpose") if edit.used_once(turned) else None
    perm = edit.ints(made, "perm") if made is not None else None
    if made is None or perm is None or made.inputs[0] is None:
        keys: ir.Value = edit.node("Transpose", [turned], {"perm": [0, 1, 3, 2]})
        return keys, ()
    back = (perm[0], perm[1], perm[3], perm[2])
    if back == (0, 1, 2, 3):
        return made.inputs[0], (made,)
    keys = edit.node("Transpose", [made.inputs[0]], {"perm": list(back)})
    return keys, (made,)
