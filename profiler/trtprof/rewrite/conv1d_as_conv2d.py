"""A convolution along one axis, as one over two of which the first has one point.

Conv of N x C x L: Unsqueeze to N x C x 1 x L, Conv with a window of 1 x K, Squeeze.
When: The weight is constant and pads are written down.
"""

from __future__ import annotations

import onnx_ir as ir

from trtprof.rewrite import rewrite
from trtprof.rewrite.convolutions import convolution
from trtprof.rewrite.edit import Edit


@rewrite(
    "conv1d-as-conv2d",
    "a convolution along one axis as one of images",
    answers=("DW805", "RL101", "RL102"),
    exact=False,
)
def conv1d_as_conv2d(node: ir.Node, edit: Edit) -> None:
    """Replace a Conv along one axis."""
    conv = convolution(edit, node)
    if conv is None or len(conv.window) != 1:
        return
    inputs = [edit.with_axes("Unsqueeze", [conv.x], [2]), edit.constant(conv.weight[:, :, None], "weight")]
    if conv.bias is not None:
        inputs.append(conv.bias)
    attributes = {
        "kernel_shape": [1, *conv.window],
        "strides": [1, *conv.strides],
        "pads": [0, conv.pads[0], 0, conv.pads[1]],
        "dilations": [1, *conv.dilations],
        "group": conv.group,
    }
    made = edit.node("Conv", inputs, attributes)
    edit.replace([node], {node.outputs[0]: edit.with_axes("Squeeze", [made], [2])})
