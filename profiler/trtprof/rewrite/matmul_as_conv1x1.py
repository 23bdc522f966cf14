"""A product of channels that were moved last for it and are moved back, as a convolution of one point.

Transpose of X (N x C x positions) to channels last, MatMul with a constant weight, a constant bias where one is added,
Transpose back: Conv of X with a window of one point.
When: The second Transpose undoes the first, nothing else reads what lies between, X has three or more dimensions, and
its type is fp32 or fp16: ONNX Runtime has no Conv of others on a CPU, and older opsets none of bf16.
"""

from __future__ import annotations

import onnx_ir as ir

from trtprof.rewrite import rewrite
from trtprof.rewrite.biases import by_column
from trtprof.rewrite.edit import Edit

_CONVOLVED = (ir.DataType.FLOAT, ir.DataType.FLOAT16)
"""Types that every runtime and opset convolves, if it multiplies matrices of them."""


@rewrite(
    "matmul-as-conv1x1",
    "Transpose, MatMul, Transpose as a convolution of one point",
    answers=("LY201", "RL101"),
    exact=False,
)
def matmul_as_conv1x1(node: ir.Node, edit: Edit) -> None:
    """Replace the second Transpose and what leads to it."""
    if not edit.is_op(node, "Transpose") or not edit.used_once(node.inputs[0]):
        return
    before, bias, value = [node], None, node.inputs[0]
    add = edit.producer(value, "Add")
    if add is not None:
        one, other = add.inputs
        value, bias = (one, other) if edit.is_op(one, "MatMul") else (other, one)
        before.insert(0, add)
    product = edit.producer(value, "MatMul")
    if product is None or not edit.used_once(value):
        return
    first, weight = edit.producer(product.inputs[0], "Transpose"), edit.array(product.inputs[1])
    rank = edit.rank(first.inputs[0]) if first is not None else None
    if first is None or weight is None or rank is None or rank < 3 or weight.ndim != 2 or 0 in weight.shape:
        return
    last = [0, *range(2, rank), 1]
    if edit.ints(first, "perm") != tuple(last) or edit.ints(node, "perm") != (0, rank - 1, *range(1, rank - 1)):
        return
    if len({one.graph for one in (first, product, *before)}) > 1 or edit.dtype(product.inputs[1]) not in _CONVOLVED:
        return
    inputs = [first.inputs[0], edit.constant(weight.T.reshape(*weight.shape[::-1], *[1] * (rank - 2)), "weight")]
    if bias is not None:
        array = by_column(edit, bias, weight.shape[1])
        if array is None:
            return
        inputs.append(edit.constant(array, "bias"))
    edit.replace([first, product, *before], {node.outputs[0]: edit.node("Conv", inputs)})
