"""Constant biases of products."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from trtprof.rewrite.edit import Edit


def added(edit: Edit, node: ir.Node, columns: int) -> tuple[ir.Node | None, npt.NDArray[Any] | None]:
    """The Add of a constant bias that alone reads a product, and the bias by column; two None where there is none."""
    product = node.outputs[0]
    if not edit.used_once(product):
        return None, None
    add = next(iter(product.uses())).node
    if not edit.is_op(add, "Add") or add.graph is not node.graph:
        return None, None
    bias = by_column(edit, add.inputs[1] if add.inputs[0] is product else add.inputs[0], columns)
    return (None, None) if bias is None else (add, bias)


def by_column(edit: Edit, value: ir.Value | None, columns: int) -> npt.NDArray[Any] | None:
    """A constant bias as one element for each column, if it has no more rows than one."""
    array = edit.array(value)
    if array is None or array.ndim > 2 or array.size not in (1, columns) or array.size != np.prod(array.shape[-1:]):
        return None
    return np.broadcast_to(array.reshape(-1), (columns,))
