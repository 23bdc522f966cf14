"""A transposed convolution that repeats each point, as Conv of one point and Resize.

ConvTranspose with a window of one step whose weights are the same at every place: Conv with a window of one point, then
Resize to the nearest. Where each channel is only repeated, no Conv.
When: The window is as long as the step along each axis, there is no padding and no dilation, weight and bias are
constant, and the model's opset is 11 or newer.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from trtprof.rewrite import rewrite
from trtprof.rewrite.convolutions import convolution
from trtprof.rewrite.edit import Edit


@rewrite(
    "convtranspose-as-resize",
    "a transposed convolution that repeats as Resize",
    answers=("RL101", "RL102", "LY201"),
    exact=False,
)
def convtranspose_as_resize(node: ir.Node, edit: Edit) -> None:
    """Replace a ConvTranspose whose windows do not overlap and are flat."""
    conv = convolution(edit, node, "ConvTranspose")
    if conv is None or edit.opset < 11 or "output_shape" in node.attributes or {*conv.strides} == {1}:
        return
    if conv.window != conv.strides or any(conv.pads) or any(edit.ints(node, "output_padding") or ()):
        return
    if {*conv.dilations} != {1}:
        return
    inputs, outputs, *window = conv.weight.shape
    flat = conv.weight.reshape(inputs, outputs, -1)
    if (flat != flat[:, :, :1]).any() or (conv.bias is not None and edit.array(conv.bias) is None):
        return
    flow = conv.x
    if conv.group != inputs or outputs != 1 or conv.bias is not None or (flat != 1).any():
        point = flat[:, :, 0].reshape(conv.group, -1, outputs).transpose(0, 2, 1)
        point = point.reshape(conv.group * outputs, -1, *[1] * len(window))
        biases = [conv.bias] if conv.bias is not None else []
        flow = edit.node("Conv", [flow, edit.constant(point, "weight"), *biases], {"group": conv.group})
    scales = edit.constant(np.asarray([1, 1, *window], np.float32), "scales")
    how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    nothing = edit.constant(np.zeros(0, np.float32), "roi") if edit.opset < 13 else None
    edit.replace([node], {node.outputs[0]: edit.node("Resize", [flow, nothing, scales], how)})
