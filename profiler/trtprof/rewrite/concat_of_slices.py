"""A tensor cut into pieces that are joined again, as the tensor.

Inputs of a Concat that follow one another and are all of a tensor, in its order, become the tensor: Slices that meet,
or all outputs of a Split. A Concat of one input becomes that input.
When: The pieces are cut along the axis of the Concat alone, with steps of one and ends that are constants. Where the
length is not known, they meet whatever it is: an end is the next start, and all count from the same side.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import onnx_ir as ir

from trtprof.rewrite import rewrite
from trtprof.rewrite.edit import Edit

FAR = 2**31 - 1  # An end from which on exporters mean the end of the tensor, however long it is


@rewrite(
    "concat-of-slices", "pieces of a tensor joined again as the tensor", answers=("RL101", "LA401", "HO501"), exact=True
)
def concat_of_slices(node: ir.Node, edit: Edit) -> None:
    """Replace a run of the inputs of a Concat, from the longest on."""
    if not edit.is_op(node, "Concat") or any(value is None for value in node.inputs):
        return
    inputs = [value for value in node.inputs if value is not None]
    if len(inputs) == 1:
        _put(edit, [node], node, inputs)
        return
    axis = (edit.ints(node, "axis") or (0,))[0]
    for count in range(len(inputs), 1, -1):
        for first in range(len(inputs) - count + 1):
            run = inputs[first : first + count]
            whole = _all_of_a_split(edit, run, axis) or _slices_that_meet(edit, run, axis)
            if whole is None:
                continue
            makers = dict.fromkeys(made for value in run if (made := value.producer()) is not None)
            before = [made for made in makers if made.graph is node.graph]
            _put(edit, [*before, node], node, [*inputs[:first], whole, *inputs[first + count :]])
            return


def _put(edit: Edit, before: list[ir.Node], node: ir.Node, inputs: list[ir.Value]) -> None:
    new = inputs[0]
    if len(inputs) > 1:
        new = edit.node("Concat", inputs, {"axis": (edit.ints(node, "axis") or (0,))[0]})
    edit.replace(before, {node.outputs[0]: new})


def _same_axis(edit: Edit, value: ir.Value | None, one: int, other: int) -> bool:
    rank = edit.rank(value)
    return one == other or (rank is not None and one % rank == other % rank)


def _all_of_a_split(edit: Edit, run: list[ir.Value], axis: int) -> ir.Value | None:
    split = edit.producer(run[0], "Split")
    if split is None or len(run) != len(split.outputs):
        return None
    if any(one is not other for one, other in zip(run, split.outputs, strict=True)):
        return None
    source = split.inputs[0]
    return source if _same_axis(edit, source, (edit.ints(split, "axis") or (0,))[0], axis) else None


class _Piece(NamedTuple):
    start: int
    end: int


def _slices_that_meet(edit: Edit, run: list[ir.Value], axis: int) -> ir.Value | None:
    source: ir.Value | None = None
    pieces = []
    for value in run:
        cut = edit.producer(value, "Slice")
        piece = _piece(edit, cut, axis) if cut is not None else None
        if cut is None or piece is None or (source is not None and cut.inputs[0] is not source):
            return None
        source = cut.inputs[0]
        pieces.append(piece)
    dims = edit.dims(source)
    if dims is None:
        return None
    length = dims[axis]
    meet = _meet_in(pieces, length) if isinstance(length, int) else _meet_in_any(pieces)
    return source if meet else None


def _piece(edit: Edit, cut: ir.Node, axis: int) -> _Piece | None:
    """From where to where a Slice takes of one axis, if it takes all of the others."""
    starts, ends = edit.ints(cut, "starts", 1), edit.ints(cut, "ends", 2)
    axes, steps = edit.ints(cut, "axes", 3), edit.ints(cut, "steps", 4)
    if starts is None or ends is None or len(starts) != 1 or len(ends) != 1:
        return None
    if (axes is None and _given(cut, 3)) or (steps is None and _given(cut, 4)) or (steps or (1,)) != (1,):
        return None
    return _Piece(starts[0], ends[0]) if _same_axis(edit, cut.inputs[0], (axes or (0,))[0], axis) else None


def _given(node: ir.Node, place: int) -> bool:
    return place < len(node.inputs) and node.inputs[place] is not None


def _meet_in(pieces: list[_Piece], length: int) -> bool:
    def clipped(place: int) -> int:
        return min(max(place + length if place < 0 else place, 0), length)

    reached = 0
    for piece in pieces:
        start, end = clipped(piece.start), clipped(piece.end)
        if start != reached or end < start:
            return False
        reached = end
    return reached == length


def _meet_in_any(pieces: list[_Piece]) -> bool:
    if pieces[0].start != 0 or pieces[-1].end < FAR:
        return False
    borders = [piece.end for piece in pieces[:-1]]
    if borders != [piece.start for piece in pieces[1:]] or any(one > other for one, other in pairwise(borders)):
        return False
    return all(border >= 0 for border in borders) or all(border < 0 for border in borders)
