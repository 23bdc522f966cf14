"""A batched product with one row or column, with the batch folded into rows or columns.

MatMul(A, B) where the result has one row or one column, and along some axes of the batch only one of the two varies:
those of A become rows, those of B become columns of fewer and larger products. Transpose and Reshape stand in front
where the axes do not lie side by side, and behind to bring the batch back.
When: The side that does not vary has the dimension 1 there, or lacks the axis. Columns of B are gathered only where
each of its matrices is one column, for otherwise the larger side would be transposed. One matrix for the whole batch
stays as it is: libraries fold that themselves. At most one of the dimensions that a Reshape names has no number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx_ir as ir

from trtprof.rewrite import rewrite
from trtprof.rewrite.edit import Edit

Dims = tuple[int | str | None, ...]


@rewrite(
    "gemv-fold-batch", "the batch of a gemv folded into its rows", answers=("KN703", "KN701", "RL101"), exact=False
)
def gemv_fold_batch(node: ir.Node, edit: Edit) -> None:
    """Replace a MatMul with a thin side and a batch that one side does not have."""
    if not edit.is_op(node, "MatMul") or not all(edit.is_float(value) for value in node.inputs):
        return
    left, right = node.inputs
    a, b = edit.dims(left), edit.dims(right)
    if left is None or right is None or a is None or b is None or min(len(a), len(b)) < 2:
        return
    if 1 not in (a[-2], b[-1]) or all(dim == 1 for dim in b[:-2]):
        return
    rank = max(len(a), len(b))
    batch = range(rank - 2)
    # Axes as the result counts them, from the front; a side that lacks one does not vary there.
    at_a, at_b = rank - len(a), rank - len(b)
    along_a = [a[axis - at_a] if axis >= at_a else 1 for axis in batch]
    along_b = [b[axis - at_b] if axis >= at_b else 1 for axis in batch]
    rows = [axis for axis in batch if along_a[axis] != 1 and along_b[axis] == 1]
    columns = [axis for axis in batch if along_a[axis] == 1 and along_b[axis] != 1]
    kept = [axis for axis in batch if along_a[axis] != 1 and along_b[axis] != 1]
    units = [axis for axis in batch if along_a[axis] == 1 and along_b[axis] == 1]
    if not (rows or columns) or (columns and b[-1] != 1):
        return
    inner = a[-1] if isinstance(a[-1], int) else b[-2]

    def front(value: ir.Value, order: Sequence[int], folded: Dims) -> ir.Value | None:
        """A side with its axes in this order, reshaped to its kept axes and two more."""
        turned = _turned(edit, value, order)
        size = [(a if value is left else b)[one] for one in order[: len(kept)]]
        plain = len(order) == len(kept) + 2
        return turned if plain else edit.resized(turned, [*size, *folded], len(kept))

    own_a = [axis - at_a for axis in (*kept, *(one for one in units if one >= at_a), *rows)]
    lacking = [axis for axis in columns if axis >= at_a]
    folded_a = _product([*(along_a[axis] for axis in rows), a[-2]])
    product_a = front(left, [*own_a, *(axis - at_a for axis in lacking), len(a) - 2, len(a) - 1], (folded_a, inner))
    own_b = [axis - at_b for axis in (*kept, *(one for one in (*units, *rows) if one >= at_b))]
    folded_b = _product([*(along_b[axis] for axis in columns), b[-1]])
    order_b = [*own_b, len(b) - 2, *(axis - at_b for axis in columns), len(b) - 1]
    product_b = front(right, order_b, (inner, folded_b))
    if product_a is None or product_b is None:
        return
    product = edit.node("MatMul", [product_a, product_b])
    order = [*kept, *units, *rows, rank - 2, *columns, rank - 1]
    sizes = {axis: along_a[axis] if along_a[axis] != 1 else along_b[axis] for axis in batch}
    sizes |= {rank - 2: a[-2], rank - 1: b[-1]}
    unfolded = edit.resized(product, [sizes[axis] for axis in order], len(kept))
    if unfolded is None:
        return
    edit.replace([node], {node.outputs[0]: _turned(edit, unfolded, [order.index(axis) for axis in range(rank)])})


def _turned(edit: Edit, value: ir.Value, order: Sequence[int]) -> ir.Value:
    if list(order) == sorted(order):
        return value
    turned: ir.Value = edit.node("Transpose", [value], {"perm": list(order)})
    return turned


def _product(dims: Sequence[int | str | None]) -> int | None:
    """How many entries several dimensions have together, where all are numbers."""
    known = [dim for dim in dims if isinstance(dim, int)]
    return math.prod(known) if len(known) == len(dims) else None
