"""Softmax over an inner axis in the ops of which it is made.

Softmax becomes Exp(d) / ReduceSum(Exp(d)) and LogSoftmax d - Log(ReduceSum(Exp(d))) with d = x - ReduceMax(x), over the
same axis: ONNX Runtime's CPU kernel transposes the tensor to have the axis last, and back.
When: The axis is not the last, and the opset is 13 or newer: before, the op is over all dimensions from its axis on.
"""

from __future__ import annotations

import onnx_ir as ir

from trtprof.rewrite import rewrite
from trtprof.rewrite.edit import Edit


@rewrite("softmax-spelled", "Softmax over an inner axis spelled out", answers=("SK803",), exact=False)
def softmax_spelled(node: ir.Node, edit: Edit) -> None:
    """Replace a Softmax or LogSoftmax over an inner axis."""
    if not edit.is_op(node, "Softmax", "LogSoftmax") or edit.opset < 13:
        return
    x, rank = node.inputs[0], edit.rank(node.inputs[0])
    if x is None or not rank or edit.dtype(x) not in (ir.DataType.FLOAT, ir.DataType.DOUBLE):
        return
    axis = (edit.ints(node, "axis") or (-1,))[0] % rank
    if axis == rank - 1:
        return
    below = edit.node("Sub", [x, edit.with_axes("ReduceMax", [x], [axis])])
    powers = edit.node("Exp", [below])
    total = edit.with_axes("ReduceSum", [powers], [axis])
    if node.op_type == "Softmax":
        result = edit.node("Div", [powers, total])
    else:
        result = edit.node("Sub", [below, edit.node("Log", [total])])
    edit.replace([node], {node.outputs[0]: result})
