"""Channels between two convolutions, padded to the width of a vector.

Conv, then ops that treat each element or each channel alone, then Conv: the first makes more channels, up to a multiple
of 16 (8 of 16 bits), from weights that are zero, and the second multiplies them by zero. A depthwise Conv between them
gets windows of zeros. No tensor is padded or cut, and in a longer chain one place follows the other.
When: The channels are no multiple, padded they are less than twice as many, both convolutions have one group, and
nothing else reads what lies between. Where an Inf or a NaN reaches the first one, the padded channels are NaN, and so
is all that is summed from them: what was Inf before may then be NaN.
"""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from trtprof.rewrite import rewrite
from trtprof.rewrite.convolutions import FINITE_AT_ZERO, Convolution, convolution, padded
from trtprof.rewrite.edit import Edit

_BY_CHANNEL = frozenset({"MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "LpPool", "GlobalLpPool"})
"""Ops that reduce positions of a channel, and never mix channels."""


@rewrite(
    "conv-pad-channels",
    "channels between convolutions padded to whole vectors",
    answers=("AL802", "TC1", "KN701", "KN702", "DW805", "RL102", "LY201"),
    exact=False,
)
def conv_pad_channels(node: ir.Node, edit: Edit) -> None:
    """Replace a Conv, the Conv whose channels it reads, and what lies between."""
    last = convolution(edit, node)
    if last is None or last.group != 1:
        return
    channels = last.weight.shape[1]
    step = 16 if last.weight.dtype.itemsize >= 4 else 8
    wide = -(-channels // step) * step
    between: list[tuple[ir.Node, Convolution | None]] = []
    value: ir.Value | None = last.x
    while True:
        made = value.producer() if value is not None else None
        if value is None or made is None or made.graph is not node.graph or not edit.used_once(value):
            return
        conv = convolution(edit, made)
        if conv is not None and conv.group == 1:
            break
        if conv is not None and not conv.group == channels == len(conv.weight):
            return
        if conv is None and not _passes(edit, made):
            return
        between.insert(0, (made, conv))
        value = made.inputs[0]
    if wide == channels or wide >= 2 * channels or len(conv.weight) != channels:
        return
    shape = conv.weight.shape
    flow = _again(edit, conv, conv.x, (wide, *shape[1:]))
    for made, own in between:
        if own is not None:
            flow = _again(edit, own, flow, (wide, *own.weight.shape[1:]))
        elif flow is not None:
            flow = edit.node(made.op_type, [flow, *made.inputs[1:]], made.attributes)
    result = _again(edit, last, flow, (len(last.weight), wide, *last.window))
    if result is not None:
        edit.replace([conv.node, *(made for made, _ in between), node], {node.outputs[0]: result})


def _passes(edit: Edit, node: ir.Node) -> bool:
    """Whether an op keeps channels apart, makes a finite number of a zero, and has no other result."""
    if not edit.is_op(node, *FINITE_AT_ZERO, *_BY_CHANNEL):
        return False
    others = [value for value in node.inputs[1:] if value is not None]
    return len(node.outputs) == 1 and all(edit.scalar(value) is not None for value in others)


def _again(edit: Edit, conv: Convolution, x: ir.Value | None, sizes: tuple[int, ...]) -> Any:
    """The convolution with zeros behind its weights, of another input; None if its bias is not constant."""
    bias = edit.array(conv.bias)
    if x is None or (conv.bias is not None and bias is None):
        return None
    inputs = [x, edit.constant(padded(conv.weight, sizes), "weight")]
    if bias is not None:
        inputs.append(edit.constant(padded(bias, sizes[:1]), "bias"))
    attributes = dict(conv.node.attributes)
    return edit.node("Conv", inputs, {**attributes, "group": sizes[0]} if conv.group > 1 else attributes)
