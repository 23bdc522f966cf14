"""A depthwise convolution that makes several channels of each, as one that makes one of each.

Conv with as many groups as input channels and M times as many output channels: Gather repeats each channel M times, and
a Conv with as many groups as output channels follows.
When: M is 2 or more and the weight is constant.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from trtprof.rewrite import rewrite
from trtprof.rewrite.convolutions import convolution
from trtprof.rewrite.edit import Edit


@rewrite(
    "depthwise-repeated-channels",
    "a depthwise convolution with several outputs of a channel on repeated channels",
    answers=("DW805", "RL101", "RL102"),
    exact=False,
)
def depthwise_repeated_channels(node: ir.Node, edit: Edit) -> None:
    """Replace a depthwise Conv with more outputs than inputs."""
    conv = convolution(edit, node)
    if conv is None or conv.group == 1 or conv.weight.shape[1] != 1 or len(conv.weight) == conv.group:
        return
    channels = np.repeat(np.arange(conv.group), len(conv.weight) // conv.group)
    repeated = edit.node("Gather", [conv.x, edit.constant(channels, "channels")], {"axis": 1})
    made = edit.node("Conv", [repeated, *node.inputs[1:]], {**node.attributes, "group": len(channels)})
    edit.replace([node], {node.outputs[0]: made})
