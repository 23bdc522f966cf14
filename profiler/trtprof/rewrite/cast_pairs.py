"""Casts that change nothing, and Casts of Casts.

Cast(x) to the type that x has is x. Cast(Cast(x)) whose first Cast loses nothing is one Cast of x, or x itself.
When: The types are known, and the type in between holds every value of the first one (float16 in float32, int32 in
int64, int16 in float32; not int32 in float32). The last type must then give the same: any type behind integers that
become wider integers, a float behind a float; of integers that became a float, one that holds them, for what a float
out of range becomes as an integer is not said. Types of 8 bits and fewer with a float in them are left alone. A first
Cast with other readers stays, and is skipped only where the value is there already.
"""

from __future__ import annotations

import onnx_ir as ir

from trtprof.rewrite import rewrite
from trtprof.rewrite.edit import Edit

DIGITS = {
    ir.DataType.BFLOAT16: (8, 126),
    ir.DataType.FLOAT16: (11, 14),
    ir.DataType.FLOAT: (24, 126),
    ir.DataType.DOUBLE: (53, 1022),
}
"""Binary digits of floats with the hidden one, and the exponent of their least normal number, negated."""
WHOLE = {
    ir.DataType.BOOL: (0, 1),
    ir.DataType.UINT8: (0, 8),
    ir.DataType.UINT16: (0, 16),
    ir.DataType.UINT32: (0, 32),
    ir.DataType.UINT64: (0, 64),
    ir.DataType.INT8: (1, 7),
    ir.DataType.INT16: (1, 15),
    ir.DataType.INT32: (1, 31),
    ir.DataType.INT64: (1, 63),
}
"""Whether an integer has a sign, and its other binary digits."""


def holds(wide: ir.DataType, narrow: ir.DataType) -> bool:
    """Whether a type has every value of another one."""
    if wide == narrow:
        return True
    if narrow in WHOLE and wide in WHOLE:
        return all(one >= other for one, other in zip(WHOLE[wide], WHOLE[narrow], strict=True))
    if narrow in WHOLE and wide in DIGITS:
        # As large a number as there are digits is also within the range of the exponents of each of them.
        return DIGITS[wide][0] >= WHOLE[narrow][1]
    return narrow in DIGITS and wide in DIGITS and all(
        one >= other for one, other in zip(DIGITS[wide], DIGITS[narrow], strict=True)
    )  # fmt: skip


def same_without(first: ir.DataType, between: ir.DataType, last: ir.DataType) -> bool:
    """Whether a Cast to a type in between changes nothing for a Cast to the last one."""
    if not holds(between, first):
        return False
    if last == first:
        return True
    if between in DIGITS and last in WHOLE:
        return first in WHOLE and holds(last, first)
    if first in WHOLE and between in DIGITS:
        return last in DIGITS and DIGITS[last][0] >= 24  # To fewer digits some go through float32: rounded twice.
    return last in DIGITS or last in WHOLE


@rewrite(
    "cast-pairs",
    "Casts that change nothing removed",
    answers=("RF2", "SL1", "LY201", "RL101", "LA401", "HO501"),
    exact=True,
)
def cast_pairs(node: ir.Node, edit: Edit) -> None:
    """Take out a Cast, or the one before it."""
    if not edit.is_op(node, "Cast", "CastLike"):
        return
    value, result = node.inputs[0], node.outputs[0]
    last, between = edit.dtype(result), edit.dtype(value)
    if value is None or last is None or between is None:
        return
    if last == between:
        if not result.is_graph_output():
            edit.replace([node], {result: value})
        return
    before = edit.producer(value, "Cast", "CastLike")
    source = before.inputs[0] if before is not None else None
    first = edit.dtype(source)
    if before is None or source is None or first is None or not same_without(first, between, last):
        return
    own = [before] if before.graph is node.graph else []
    if first == last:
        edit.replace([*own, node], {result: source})
    elif own and edit.used_once(value):
        edit.replace([before, node], {result: edit.node("Cast", [source], {"to": int(last)})})
