"""Root-mean-square normalisation spelled out, as the op.

x / sqrt(mean(x^2) + epsilon), and the factor that follows, become RMSNormalization of opset 23.
When: The mean is over the last dimensions, which have numbers, and is kept; x is fp32. Nothing else reads what lies
between, and x is no value minus its mean: that is layer normalisation. A factor has those dimensions, or is a constant
that is broadcast to them. The opset is 23, or can be raised to it with every other node as it is.
"""

from __future__ import annotations

import onnx_ir as ir

from trtprof.rewrite import rewrite
from trtprof.rewrite.edit import Edit
from trtprof.rewrite.layernorm_fused import centre
from trtprof.rewrite.normalisation import ending, ones, scaled


@rewrite(
    "rmsnorm-fused",
    "root-mean-square normalisation as RMSNormalization",
    answers=("FU301", "RL101", "LA401", "HO501"),
    exact=False,
)
def rmsnorm_fused(node: ir.Node, edit: Edit) -> None:
    """Replace a normalisation from its Div on, with the scale behind it."""
    found = scaled(edit, node)
    if found is None or found.value is not found.squared or centre(edit, found) is not None:
        return
    if not edit.raised_to(23):
        return
    end = ending(edit, node.outputs[0], found.dims, edit.rank(found.value) or 0, biased=False)
    scale = end.scale if end.scale is not None else ones(edit, found.dims)
    fused = edit.node("RMSNormalization", [found.value, scale], {"axis": found.axis, "epsilon": found.epsilon})
    edit.replace((*found.nodes, *end.nodes), {end.output: fused})
