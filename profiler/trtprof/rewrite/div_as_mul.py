"""A division by a constant as the product with its reciprocal.

Div(x, c) is Mul(x, 1 / c), the reciprocals rounded once to the type of c.
When: c is a floating-point constant whose elements are finite and not 0, and whose reciprocals are normal numbers: none
overflows or loses digits. Exact where every element is a power of two; elsewhere the last digit may differ.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from trtprof.rewrite import rewrite
from trtprof.rewrite.edit import Edit


@rewrite("div-as-mul", "a division by a constant as a product", answers=("RL102",), exact=False)
def div_as_mul(node: ir.Node, edit: Edit) -> None:
    """Replace one Div."""
    if not edit.is_op(node, "Div") or edit.opset < 7:
        return
    value, divisor = node.inputs
    array = edit.array(divisor)
    if value is None or divisor is None or array is None or array.dtype.kind != "f" or edit.is_constant(value):
        return
    with np.errstate(all="ignore"):
        inverse = (1 / array.astype(np.float64)).astype(array.dtype)
    limits = np.finfo(array.dtype)
    size = np.abs(inverse)
    if not np.all(np.isfinite(array) & (array != 0) & np.isfinite(inverse) & (size >= limits.smallest_normal)):
        return
    edit.replace(
        [node], {node.outputs[0]: edit.node("Mul", [value, edit.constant(inverse, f"{divisor.name}_inverse")])}
    )
