"""PRelu in element-wise ops.

PRelu(x, slope) becomes Relu(x) - slope * Relu(-x): the same bits but for the sign of zero, infinities and NaN included.
ONNX Runtime's CPU kernel branches on the sign of every element, which is slow where the signs follow no pattern.
When: x is floating point and the slope is a finite constant: an infinite one times 0 is NaN.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from trtprof.rewrite import rewrite
from trtprof.rewrite.edit import Edit


@rewrite("prelu-spelled", "PRelu spelled out", answers=("RL101", "SK803"), exact=True)
def prelu_spelled(node: ir.Node, edit: Edit) -> None:
    """Replace a PRelu with a constant slope."""
    if not edit.is_op(node, "PRelu") or edit.opset < 7 or not edit.is_float(node.inputs[0]):
        return  # Before opset 7 a slope of one dimension is one number per channel.
    x, slope = node.inputs
    slopes = edit.array(slope)
    if slopes is None or not np.isfinite(slopes).all():
        return
    below = edit.node("Mul", [edit.node("Relu", [edit.node("Neg", [x])]), slope])
    edit.replace([node], {node.outputs[0]: edit.node("Sub", [edit.node("Relu", [x]), below])})
