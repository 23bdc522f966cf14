"""A convolution along one axis, as one over two of which the first has one point.

Conv of N x C x L: Unsqueeze to N x C x 1 x L, Conv with a window of 1 x K, Squeeze. Unless many positions come out,
channels are padded to a multiple of 4 with zeros, and what those make is cut off: the kernel of ONNX Runtime that is
fast with few positions needs that.
When: The weight is constant and pads are written down.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from trtprof.rewrite import rewrite
from trtprof.rewrite.convolutions import convolution, padded
from trtprof.rewrite.edit import Edit

FEW = 8  # Positions


@rewrite(
    "conv1d-as-conv2d",
    "a convolution along one axis as one of images",
    answers=("DW805", "RL101", "RL102", "SK803"),
    exact=False,
)
def conv1d_as_conv2d(node: ir.Node, edit: Edit) -> None:
    """Replace a Conv along one axis."""
    conv = convolution(edit, node)
    if conv is None or len(conv.window) != 1:
        return
    x, bias, sizes = conv.x, conv.bias, conv.weight.shape[:2]
    positions, biases = (edit.dims(node.outputs[0]) or (None,))[-1], edit.array(conv.bias)
    few = not isinstance(positions, int) or positions <= FEW
    if few and conv.group == 1 and edit.opset >= 11 and (bias is None or biases is not None):
        # Fewer input channels than a vector has places are taken as they are.
        sizes = tuple(size + -size % 4 if size >= least else size for size, least in zip(sizes, (1, 16), strict=True))
        if more := sizes[1] - conv.weight.shape[1]:
            x = edit.node("Pad", [x, edit.constant(np.array([0, 0, 0, 0, more, 0]), "pads")])
        bias = None if biases is None else edit.constant(padded(biases, sizes[:1]), "bias")
    weight = padded(conv.weight, (*sizes, *conv.window))
    inputs = [edit.with_axes("Unsqueeze", [x], [2]), edit.constant(weight[:, :, None], "weight"), bias]
    attributes = {
        "kernel_shape": [1, *conv.window],
        "strides": [1, *conv.strides],
        "pads": [0, conv.pads[0], 0, conv.pads[1]],
        "dilations": [1, *conv.dilations],
        "group": conv.group,
    }
    made = edit.node("Conv", inputs if bias is not None else inputs[:2], attributes)
    if sizes[0] > len(conv.weight):
        bounds = [edit.constant(np.array([bound]), "bound") for bound in (0, len(conv.weight), 1)]
        made = edit.node("Slice", [made, *bounds])
    edit.replace([node], {node.outputs[0]: edit.with_axes("Squeeze", [made], [2])})
