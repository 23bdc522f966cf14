"""LayerNormalization in the ops of which it is made.

LayerNormalization becomes (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon) times the scale, plus the bias.
When: It computes in fp32 (fp16 and bf16 are cast to it and back, as the op does), and nothing reads its mean and
deviation.
"""

from __future__ import annotations

import onnx_ir as ir

from trtprof.rewrite import rewrite
from trtprof.rewrite.edit import Edit
from trtprof.rewrite.normalisation import cast, over_root, spelled_axes


@rewrite("layernorm-spelled", "LayerNormalization spelled out", answers=("FU301",), exact=False)
def layernorm_spelled(node: ir.Node, edit: Edit) -> None:
    """Replace a LayerNormalization."""
    if not edit.is_op(node, "LayerNormalization") or len(node.inputs) < 2:
        return
    x, scale = node.inputs[:2]
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    axes = spelled_axes(edit, node)
    dtype = edit.dtype(x)
    if x is None or scale is None or axes is None or dtype is None:
        return
    if any(output.uses() or output.is_graph_output() for output in node.outputs[1:]):
        return
    if any((edit.rank(value) or 0) > len(axes) for value in (scale, bias)):
        return
    computed = x if dtype == ir.DataType.FLOAT else cast(edit, x, ir.DataType.FLOAT)
    mean = edit.with_axes("ReduceMean", [computed], axes, {"keepdims": 1})
    result = over_root(edit, edit.node("Sub", [computed, mean]), axes, edit.number(node, "epsilon", 1e-5))
    if dtype != ir.DataType.FLOAT:
        result = cast(edit, result, dtype)
    result = edit.node("Mul", [result, scale])
    if bias is not None:
        result = edit.node("Add", [result, bias])
    edit.replace([node], {node.outputs[0]: result})
