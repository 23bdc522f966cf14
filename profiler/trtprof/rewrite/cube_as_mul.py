"""Pow with the constant exponent 3 as two products.

Pow(x, 3) is Mul(Mul(x, x), x).
When: x is floating point, and the exponent is one constant number that does not broadcast x to more dimensions.
"""

from __future__ import annotations

import onnx_ir as ir

from trtprof.rewrite import rewrite
from trtprof.rewrite.edit import Edit
from trtprof.rewrite.pow_as_mul import raised


@rewrite("cube-as-mul", "Pow(x, 3) as x * x * x", answers=("RL101", "RL102"), exact=False)
def cube_as_mul(node: ir.Node, edit: Edit) -> None:
    """Replace one Pow."""
    value, exponent = raised(node, edit)
    if value is None or exponent != 3:
        return
    square = edit.node("Mul", [value, value])
    square.type, square.shape = value.type, value.shape
    edit.replace([node], {node.outputs[0]: edit.node("Mul", [square, value])})
