"""Choices and copies that are settled by constants.

A Where whose mask is all true or all false is the one side that it takes; an Expand to dimensions that are there
already, and a Tile once in every direction, are their input.
When: The mask, the shape or the repeats are constants (or the shape is that of the value itself), and the others do not
broadcast the side that is taken to more elements: each of their dimensions is 1, or the same number. Masks with both
values are left alone: as a product or a sum they would do something else with infinities and NaN.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from trtprof.rewrite import rewrite
from trtprof.rewrite.edit import Edit


@rewrite(
    "where-constant",
    "a Where, Expand or Tile settled by a constant removed",
    answers=("FU301", "RL101", "LA401", "HO501"),
    exact=True,
)
def where_constant(node: ir.Node, edit: Edit) -> None:
    """Take a node out that gives one of its inputs."""
    result = node.outputs[0] if node.outputs else None
    if result is None:
        return
    if edit.is_op(node, "Where"):
        mask = edit.array(node.inputs[0])
        if mask is None or not (mask.all() or not mask.any()):
            return
        kept, other = node.inputs[1:] if mask.all() else (node.inputs[2], node.inputs[1])
        if kept is not None and _stays(kept, mask.shape, edit) and _stays(kept, edit.dims(other), edit):
            edit.replace([node], {result: kept})
        return
    if not edit.is_op(node, "Expand", "Tile") or edit.opset < 6 or result.is_graph_output():
        return
    value, asked = node.inputs[0], edit.array(node.inputs[1])
    if value is None:
        return
    if node.op_type == "Tile":
        idle = asked is not None and bool((asked == 1).all())
    elif asked is not None:
        idle = _stays(value, [int(dim) for dim in asked.reshape(-1)], edit)
    else:
        shape = edit.producer(node.inputs[1], "Shape")
        idle = shape is not None and shape.inputs[0] is value and not shape.attributes
    if idle:
        edit.replace([node], {result: value})


def _stays(value: ir.Value, other: Sequence[int | str | None] | None, edit: Edit) -> bool:
    """Whether a value keeps its dimensions when it is broadcast with others, for every input."""
    own = edit.dims(value)
    if own is None or other is None or len(other) > len(own):
        return False
    own = own[len(own) - len(other) :]
    return all(dim == 1 or (isinstance(dim, int) and dim == same) for dim, same in zip(other, own, strict=True))
