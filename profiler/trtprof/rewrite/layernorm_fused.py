"""Layer normalisation spelled out, as the op.

(x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon), and the factor and the summand that follow, become
LayerNormalization of opset 17.
When: The means are over the last dimensions, which have numbers, and are kept; x is fp32, for the op computes fp16 and
fp64 in fp32. Nothing else reads what lies between. A factor or a summand has those dimensions, or is a constant that is
broadcast to them. The opset is 17, or can be raised to it with every other node as it is.
"""

from __future__ import annotations

import onnx_ir as ir

from trtprof.rewrite import rewrite
from trtprof.rewrite.edit import Edit
from trtprof.rewrite.normalisation import Scaled, ending, last_axes, ones, scaled


@rewrite(
    "layernorm-fused",
    "layer normalisation spelled out as LayerNormalization",
    answers=("FU301", "RL101", "LA401", "HO501"),
    exact=False,
)
def layernorm_fused(node: ir.Node, edit: Edit) -> None:
    """Replace a normalisation from its Div on, with the scale and the bias behind it."""
    found = scaled(edit, node)
    if found is None:
        return
    centred = centre(edit, found)
    if centred is None or not edit.raised_to(17):
        return
    x, before = centred
    end = ending(edit, node.outputs[0], found.dims, edit.rank(x) or 0, biased=True)
    scale = end.scale if end.scale is not None else ones(edit, found.dims)
    inputs = [x, scale, *([end.bias] if end.bias is not None else [])]
    fused = edit.node("LayerNormalization", inputs, {"axis": found.axis, "epsilon": found.epsilon})
    edit.replace((*before, *found.nodes, *end.nodes), {end.output: fused})


def centre(edit: Edit, found: Scaled) -> tuple[ir.Value, tuple[ir.Node, ...]] | None:
    """What the mean was taken from, where both the divided and the squared value are it minus its mean."""
    sources: set[ir.Value] = set()
    nodes: dict[ir.Node, None] = {}
    for value in (found.squared, found.value):
        less = edit.producer(value, "Sub")
        mean = edit.producer(less.inputs[1], "ReduceMean") if less is not None else None
        if less is None or mean is None or less.inputs[0] is None or mean.inputs[0] is not less.inputs[0]:
            return None
        rank = edit.rank(less.inputs[0])
        if rank is None or last_axes(edit, mean, rank) != found.axis:
            return None
        sources.add(less.inputs[0])
        nodes.update({mean: None, less: None})
    return (sources.pop(), tuple(nodes)) if len(sources) == 1 else None
