"""A batched product with one row or column, as Mul and ReduceSum.

MatMul(A, B) where the result has one column (B is K x 1) or one row (A is 1 x K), and both have a batch: Mul(A,
transposed B) is summed over K.
When: One side is a vector by its own dimensions, and neither is a constant matrix without a batch: that is one product
of a matrix for which libraries have a kernel.
"""

from __future__ import annotations

import onnx_ir as ir

from trtprof.rewrite import rewrite
from trtprof.rewrite.edit import Edit


@rewrite("gemv-as-reduce", "a batched gemv as Mul and ReduceSum", answers=("KN703", "KN701", "RL101"), exact=False)
def gemv_as_reduce(node: ir.Node, edit: Edit) -> None:
    """Replace a MatMul with a thin side and a batch."""
    if not edit.is_op(node, "MatMul") or not all(edit.is_float(value) for value in node.inputs):
        return
    left, right = node.inputs
    a, b = edit.dims(left), edit.dims(right)
    if left is None or right is None or a is None or b is None or min(len(a), len(b)) < 2 or max(len(a), len(b)) < 3:
        return
    if (len(a) == 2 and a[-2] != 1) or (len(b) == 2 and b[-1] != 1):
        return  # One matrix for the whole batch.
    if b[-1] == 1:
        # Rows of A times B as a row: [..., M, K] * [..., 1, K] -> sum over K -> [..., M, 1].
        row = edit.node("Transpose", [right], {"perm": [*range(len(b) - 2), len(b) - 1, len(b) - 2]})
        summed = edit.with_axes("ReduceSum", [edit.node("Mul", [left, row])], [-1], {"keepdims": 1})
    elif a[-2] == 1:
        # A as a column times rows of B: [..., K, 1] * [..., K, N] -> sum over K -> [..., 1, N].
        column = edit.node("Transpose", [left], {"perm": [*range(len(a) - 2), len(a) - 1, len(a) - 2]})
        summed = edit.with_axes("ReduceSum", [edit.node("Mul", [column, right])], [-2], {"keepdims": 1})
    else:
        return
    edit.replace([node], {node.outputs[0]: summed})
