"""A convolution with a window of one point, as a matrix product.

Conv(X, W) with W of O x C and one point: X reshaped to N x C x positions, multiplied from the left by W as a matrix,
plus the bias, and reshaped back.
When: One group, steps of 1 and no padding; W is constant. Of the positions all have numbers, or all but one where the
batch has a number too. (ONNX Runtime, against ONNX, refuses to multiply one matrix by an empty batch.)
"""

from __future__ import annotations

import math

import onnx_ir as ir

from trtprof.rewrite import rewrite
from trtprof.rewrite.convolutions import convolution
from trtprof.rewrite.edit import Edit


@rewrite("conv1x1-as-matmul", "a convolution of one point as a product", answers=("RL102", "LY201"), exact=False)
def conv1x1_as_matmul(node: ir.Node, edit: Edit) -> None:
    """Replace a Conv whose window is one point."""
    conv = convolution(edit, node)
    if conv is None or conv.group != 1 or {*conv.window, *conv.strides} != {1} or any(conv.pads):
        return
    dims, bias = edit.dims(conv.x), edit.array(conv.bias)
    if dims is None or (conv.bias is not None and bias is None):
        return
    outputs, channels = conv.weight.shape[:2]
    positions = dims[2:]
    whole = [dim for dim in positions if isinstance(dim, int)]
    flat = math.prod(whole) if len(whole) == len(positions) else None
    left = conv.x if len(dims) == 3 else edit.resized(conv.x, [dims[0], channels, flat], 1)
    if left is None:
        return
    product = edit.node("MatMul", [edit.constant(conv.weight.reshape(outputs, channels), "matrix"), left])
    if bias is not None:
        product = edit.node("Add", [product, edit.constant(bias.reshape(outputs, 1), "bias")])
    result = product if len(dims) == 3 else edit.resized(product, [dims[0], outputs, *positions], 1)
    if result is not None:
        edit.replace([node], {node.outputs[0]: result})
