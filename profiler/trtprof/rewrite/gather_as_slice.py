"""A Gather of neighbours, or of every n-th, as a Slice.

Gather(x, [a, a + s, a + 2 s, ...]) is a Slice from a with step s, and Gather(x, a) a Slice of one and a Squeeze.
When: The indices are a constant, one number or one row with the same step (not 0) from each to the next; where the
dimension has no number, all count from the same end. Steps other than 1 need opset 10. A Gather of numbers out of a row
of integers, which is how shapes are computed, stays.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from trtprof.rewrite import rewrite
from trtprof.rewrite.edit import Edit

FAR = 2**63 - 1  # Further than any dimension


@rewrite("gather-as-slice", "a Gather of a range as a Slice", answers=("RL101",), exact=True)
def gather_as_slice(node: ir.Node, edit: Edit) -> None:
    """Replace a Gather whose indices are a range."""
    if not edit.is_op(node, "Gather"):
        return
    value, places = node.inputs[0], edit.array(node.inputs[1])
    dims = edit.dims(value)
    if value is None or dims is None or places is None or places.ndim > 1 or places.size == 0:
        return
    if len(dims) == 1 and not edit.is_float(value):
        return
    axis = int(edit.number(node, "axis", 0)) % len(dims)
    bounds = _bounds([int(place) for place in places.reshape(-1)], dims[axis])
    if bounds is None or (edit.opset < 10 and bounds[2] != 1):
        return
    taken = _slice(value, *bounds, axis, edit)
    if places.ndim == 0:
        taken.type = value.type
        taken = edit.with_axes("Squeeze", [taken], [axis])
    edit.replace([node], {node.outputs[0]: taken})


def _bounds(places: list[int], dim: int | str | None) -> tuple[int, int, int] | None:
    """Start, end and step of a Slice that takes these; None if there is none."""
    if isinstance(dim, int):
        if not all(-dim <= place < dim for place in places):
            return None
        places = [place % dim for place in places]
    elif any((place < 0) != (places[0] < 0) for place in places):
        return None
    steps = set(np.diff(places).tolist()) or {1}
    step = steps.pop()
    if steps or step == 0:
        return None
    end = places[-1] + (1 if step > 0 else -1)
    if places[-1] < 0 <= end:
        end = FAR
    elif end < 0 <= places[-1]:
        end = -FAR
    return places[0], end, step


def _slice(value: ir.Value, start: int, end: int, step: int, axis: int, edit: Edit) -> ir.Value:
    result: ir.Value
    if edit.opset < 10:
        result = edit.node("Slice", [value], {"starts": [start], "ends": [end], "axes": [axis]})
        return result
    numbers = {"start": start, "end": end, "axis": axis, **({"step": step} if step != 1 else {})}
    inputs = [edit.constant(np.asarray([number], np.int64), name) for name, number in numbers.items()]
    result = edit.node("Slice", [value, *inputs])
    return result
