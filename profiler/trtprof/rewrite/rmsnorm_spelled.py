"""RMSNormalization in the ops of which it is made.

RMSNormalization becomes x / sqrt(mean(x^2) + epsilon) times the scale.
When: It computes in fp32; fp16 and bf16 are cast to it and back, as the op does.
"""

from __future__ import annotations

import onnx_ir as ir

from trtprof.rewrite import rewrite
from trtprof.rewrite.edit import Edit
from trtprof.rewrite.normalisation import cast, over_root, spelled_axes


@rewrite("rmsnorm-spelled", "RMSNormalization spelled out", answers=("FU301",), exact=False)
def rmsnorm_spelled(node: ir.Node, edit: Edit) -> None:
    """Replace an RMSNormalization."""
    if not edit.is_op(node, "RMSNormalization") or len(node.inputs) < 2:
        return
    x, scale = node.inputs[:2]
    axes = spelled_axes(edit, node)
    dtype = edit.dtype(x)
    if x is None or scale is None or axes is None or dtype is None or (edit.rank(scale) or 0) > len(axes):
        return
    computed = x if dtype == ir.DataType.FLOAT else cast(edit, x, ir.DataType.FLOAT)
    result = over_root(edit, computed, axes, edit.number(node, "epsilon", 1e-5))
    if dtype != ir.DataType.FLOAT:
        result = cast(edit, result, dtype)
    edit.replace([node], {node.outputs[0]: edit.node("Mul", [result, scale])})
