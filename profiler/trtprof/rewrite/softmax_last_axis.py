"""Softmax over an inner axis, as one over the last axis between Transposes.

Softmax or LogSoftmax over an axis that is not the last becomes Transpose, the same over the last axis, Transpose.
Transposes that are there, before or behind it, become one with these or go.
When: The opset is 13 or newer: before, the op is over all dimensions from its axis on, whose elements are adjacent as
they are.
"""

from __future__ import annotations

import onnx_ir as ir

from trtprof.rewrite import rewrite
from trtprof.rewrite.edit import Edit


@rewrite("softmax-last-axis", "Softmax over the last axis between Transposes", answers=("RL101", "RL102"), exact=False)
def softmax_last_axis(node: ir.Node, edit: Edit) -> None:
    """Replace a Softmax or LogSoftmax over an inner axis."""
    if not edit.is_op(node, "Softmax", "LogSoftmax") or edit.opset < 13:
        return
    source = node.inputs[0]
    rank = edit.rank(source)
    if source is None or not rank:
        return
    axis = (edit.ints(node, "axis") or (-1,))[0] % rank
    if axis == rank - 1:
        return
    value: ir.Value = node.outputs[0]
    before, nodes = tuple(range(rank)), [node]
    first = edit.producer(source, "Transpose") if edit.used_once(source) else None
    if first is not None and first.inputs[0] is not None:
        source, before, nodes = first.inputs[0], _perm(edit, first, rank), [first, node]
    wanted = before
    if (last := edit.reader(value, "Transpose")) is not None:
        value, nodes = last.outputs[0], [*nodes, last]
        wanted = tuple(before[place] for place in _perm(edit, last, rank))
    softened = before[axis]  # Which dimension of the source it is over.
    inside = _inside(wanted, softened)
    result = edit.node(node.op_type, [_transposed(edit, source, inside)], {"axis": -1})
    edit.replace(nodes, {value: _transposed(edit, result, tuple(inside.index(dim) for dim in wanted))})


def _inside(wanted: tuple[int, ...], last: int) -> tuple[int, ...]:
    """An order of the source's dimensions with one of them last, which costs as few Transposes as may be."""
    rank = len(wanted)
    if last == rank - 1:
        return tuple(range(rank))
    if wanted[-1] == last:
        return wanted
    order = list(range(rank))
    order[last], order[-1] = order[-1], order[last]
    return tuple(order)


def _perm(edit: Edit, node: ir.Node, rank: int) -> tuple[int, ...]:
    return edit.ints(node, "perm") or tuple(range(rank))[::-1]


def _transposed(edit: Edit, value: ir.Value, perm: tuple[int, ...]) -> ir.Value:
    if perm == tuple(range(len(perm))):
        return value
    result: ir.Value = edit.node("Transpose", [value], {"perm": list(perm)})
    return result
