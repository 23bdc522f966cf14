"""A product of one row with a constant weight, with the weight stored transposed.

MatMul(x, W), plus a constant bias where one is added to that alone: Gemm(x, transposed W, bias) with ``transB``. A row
with more than two dimensions is reshaped before and after.
When: Every dimension of x but the last is 1, W is a constant matrix that nothing else reads, and the bias has one
element for each column.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from trtprof.rewrite import rewrite
from trtprof.rewrite.biases import added
from trtprof.rewrite.edit import Edit


@rewrite(
    "row-matmul-transposed",
    "one row by a weight as Gemm of its transpose",
    answers=("KN703", "KN701", "RL101"),
    exact=False,
)
def row_matmul_transposed(node: ir.Node, edit: Edit) -> None:
    """Replace a MatMul of one row, and the Add behind it."""
    if not edit.is_op(node, "MatMul") or not _fits(edit, node):
        return
    row, weight = node.inputs
    array = edit.array(weight)
    if row is None or weight is None or array is None or edit.opset < 7 or not array.size:
        return
    add, bias = added(edit, node, array.shape[1])
    if bias is None and edit.opset < 11:  # The third input could not be left away.
        bias = np.zeros(1, array.dtype)
    rank = edit.rank(row) or 2
    inputs = [row if rank == 2 else edit.reshape(row, [1, array.shape[0]])]
    inputs.append(edit.constant(array.T, f"{weight.name}_transposed"))
    inputs += [edit.constant(bias, "bias")] if bias is not None else []
    made = edit.node("Gemm", inputs, {"transB": 1})
    result = made if rank == 2 else edit.reshape(made, [*[1] * (rank - 1), array.shape[1]])
    before = [node] if add is None else [node, add]
    edit.replace(before, {before[-1].outputs[0]: result})


def _fits(edit: Edit, node: ir.Node) -> bool:
    row, weight = node.inputs
    shape, columns = edit.dims(row), edit.shape(weight)
    if shape is None or columns is None or len(shape) < 2 or len(columns) != 2 or not edit.is_float(row):
        return False
    return all(dim == 1 for dim in shape[:-1]) and edit.is_constant(weight) and edit.used_once(weight)
