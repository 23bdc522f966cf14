"""A transposed convolution in steps, as a convolution whose channels are spread over positions.

ConvTranspose with a step of S along each axis: each output lies at one of the S places between two inputs, and each
place has its own part of the window. A Conv of all places at once, with windows of ceil(K / S), then DepthToSpace, and
Slice where padding cuts off what is no whole step. Along one axis Reshape and Transpose stand for DepthToSpace.
When: One group, no dilation, steps of the same 2 or more along all of one or two axes, padding that the window covers;
weight and bias are constant. Along one axis at most one of batch and length has no number. Where K is no multiple of S,
the windows have zeros at their ends, which make NaN of an Inf at the border of what a window covers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from trtprof.rewrite import rewrite
from trtprof.rewrite.convolutions import Convolution, convolution, padded
from trtprof.rewrite.edit import Edit

_END = 2**63 - 1  # The end of an axis, for a Slice


@rewrite(
    "convtranspose-as-conv",
    "a transposed convolution as Conv and DepthToSpace",
    answers=("RL101", "RL102", "LY201"),
    exact=False,
)
def convtranspose_as_conv(node: ir.Node, edit: Edit) -> None:
    """Replace a ConvTranspose."""
    conv = convolution(edit, node, "ConvTranspose")
    if conv is None or conv.group != 1 or "output_shape" in node.attributes or {*conv.dilations} != {1}:
        return
    axes, step = len(conv.window), conv.strides[0]
    bias = edit.array(conv.bias)
    if axes > 2 or step < 2 or {*conv.strides} != {step} or (conv.bias is not None and bias is None):
        return
    added = edit.ints(node, "output_padding") or (0,) * axes
    begins, ends = [], []
    first, back = [], []
    for axis, size in enumerate(conv.window):
        begin, end = conv.pads[axis], conv.pads[axes + axis]
        # The output at position t is at u = t + begin of the whole; u = q * step + r sums x[q - j] * W[r + j * step].
        taps, skipped = -(-size // step), begin // step
        begins.append(taps - 1 - skipped)
        ends.append((added[axis] + size - end - 1) // step)
        first.append(begin - skipped * step)
        back.append((ends[axis] - skipped + 1) * step - added[axis] - size + begin + end - first[axis])
    if min(*begins, *ends) < 0:
        return
    inputs = [conv.x, edit.constant(_by_place(conv, step), "weight")]
    if bias is not None:
        inputs.append(edit.constant(np.tile(bias, step**axes), "bias"))
    spread = _spread(edit, conv, edit.node("Conv", inputs, {"pads": [*begins, *ends]}), begins, ends)
    if spread is None:
        return
    cut = [axis for axis in range(axes) if first[axis] or back[axis]]
    if cut:
        stops = [-back[axis] if back[axis] else _END for axis in cut]
        spread = _sliced(edit, spread, [first[axis] for axis in cut], stops, [axis + 2 for axis in cut])
    edit.replace([node], {node.outputs[0]: spread})


def _by_place(conv: Convolution, step: int) -> Any:
    """The weight of the Conv: places, then outputs; inputs; taps of each place, the last first."""
    inputs, outputs, *window = conv.weight.shape
    taps = [-(-size // step) for size in window]
    whole = padded(conv.weight, (inputs, outputs, *(tap * step for tap in taps)))
    if len(taps) == 1:
        parts = whole.reshape(inputs, outputs, taps[0], step)[:, :, ::-1].transpose(3, 1, 0, 2)
    else:
        parts = whole.reshape(inputs, outputs, taps[0], step, taps[1], step)[:, :, ::-1, :, ::-1]
        parts = parts.transpose(3, 5, 1, 0, 2, 4)
    return parts.reshape(step ** len(taps) * outputs, inputs, *taps)


def _spread(edit: Edit, conv: Convolution, made: ir.Value, begins: list[int], ends: list[int]) -> ir.Value | None:
    """Channels spread over positions."""
    step, outputs = conv.strides[0], conv.weight.shape[1]
    if len(conv.window) == 2:
        image: ir.Value = edit.node("DepthToSpace", [made], {"blocksize": step})
        return image
    dims = edit.dims(conv.x)
    if dims is None:
        return None
    taps = -(-conv.window[0] // step)
    length = dims[2] + begins[0] + ends[0] - taps + 1 if isinstance(dims[2], int) else None
    places = edit.resized(made, [dims[0], step, outputs, length], 1)
    if places is None:
        return None
    between = edit.node("Transpose", [places], {"perm": [0, 2, 3, 1]})
    return edit.resized(between, [dims[0], outputs, length * step if length is not None else None], 1)


def _sliced(edit: Edit, value: ir.Value, starts: list[int], ends: list[int], axes: list[int]) -> ir.Value:
    if edit.opset < 10:
        result: ir.Value = edit.node("Slice", [value], {"starts": starts, "ends": ends, "axes": axes})
    else:
        named = {"starts": starts, "ends": ends, "axes": axes}
        lists = [edit.constant(np.asarray(one, np.int64), name) for name, one in named.items()]
        result = edit.node("Slice", [value, *lists])
    return result
