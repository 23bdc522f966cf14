"""Pow with a small constant exponent as a product, a root or a reciprocal.

x^2 is x * x, x^1 is x, x^-1 is Reciprocal(x), x^0.5 is Sqrt(x), and x^-0.5 its Reciprocal.
When: x is floating point, and the exponent is one constant number that does not broadcast x to more dimensions. Roots
only of what can be neither negative nor -0 by the op that makes it: (-inf)^0.5 is inf and sqrt(-inf) is not, and
sqrt(-0) is -0.
"""

from __future__ import annotations

import onnx_ir as ir

from trtprof.rewrite import rewrite
from trtprof.rewrite.edit import Edit

NEVER_NEGATIVE = ("Abs", "Exp", "Sigmoid", "Softplus", "Softmax", "ReduceL2", "ReduceSumSquare", "ReduceL1")
"""Ops whose results are neither negative nor -0."""
KEEP_IT = ("ReduceSum", "ReduceMean", "Sqrt", "Identity", "Reshape", "Squeeze", "Unsqueeze",
           "Transpose", "Cast", "Reciprocal")  # fmt: skip
"""Ops whose results are neither if their first input is not."""
MOST_STEPS = 16  # Ops that are looked at for it


@rewrite(
    "pow-as-mul",
    "Pow with a small exponent as Mul, Sqrt or Reciprocal",
    answers=("RL101", "RL102", "SK803"),
    exact=False,
)
def pow_as_mul(node: ir.Node, edit: Edit) -> None:
    """Replace one Pow."""
    value, exponent = raised(node, edit)
    if value is None:
        return
    result = node.outputs[0]
    if exponent == 1:
        if not result.is_graph_output():
            edit.replace([node], {result: value})
    elif exponent == 2:
        edit.replace([node], {result: edit.node("Mul", [value, value])})
    elif exponent == -1:
        edit.replace([node], {result: edit.node("Reciprocal", [value])})
    elif exponent in (0.5, -0.5) and never_negative(value, edit):
        root = edit.node("Sqrt", [value])
        root.type, root.shape = value.type, value.shape
        edit.replace([node], {result: root if exponent > 0 else edit.node("Reciprocal", [root])})


def raised(node: ir.Node, edit: Edit) -> tuple[ir.Value | None, float]:
    """What a Pow raises, and its exponent; None of what is no Pow of floats by one constant that keeps their shape."""
    if not edit.is_op(node, "Pow") or edit.opset < 7 or not edit.is_float(node.inputs[0]):
        return None, 0
    value, exponent = node.inputs[0], edit.scalar(node.inputs[1])
    rank, places = edit.rank(value), edit.rank(node.inputs[1])
    if exponent is None or (places != 0 and (rank is None or places is None or places > rank)):
        return None, 0
    return value, exponent


def never_negative(value: ir.Value | None, edit: Edit, steps: int = MOST_STEPS) -> bool:
    """Whether no input of the model makes an element negative or -0, by the ops that make it; NaN it may be."""
    array = edit.array(value)
    if array is not None:
        return array.dtype.kind in "fiu" and bool((array > 0).all())
    node = value.producer() if value is not None else None
    if node is None or steps == 0 or node.domain not in ("", "ai.onnx"):
        return False
    if node.op_type in NEVER_NEGATIVE:
        return True
    if node.op_type in ("Mul", "Div", "Pow") and edit.is_float(value):
        first, second = node.inputs
        if node.op_type == "Mul" and first is second:
            return True
        if node.op_type == "Pow":
            return edit.scalar(second) == 2 or never_negative(first, edit, steps - 1)
        return never_negative(first, edit, steps - 1) and never_negative(second, edit, steps - 1)
    if node.op_type == "Add" and edit.is_float(value):
        first, second = node.inputs
        if never_negative(first, edit, steps - 1) and never_negative(second, edit, steps - 1):
            return True
        # -0 and a positive number are positive.
        pairs = ((first, second), (second, first))
        return any(_positive(one, edit) and edit.is_op(other, "Relu") for one, other in pairs)
    return node.op_type in KEEP_IT and edit.is_float(node.inputs[0]) and never_negative(node.inputs[0], edit, steps - 1)


def _positive(value: ir.Value | None, edit: Edit) -> bool:
    array = edit.array(value)
    return array is not None and bool((array > 0).all())
