"""Transposes moved through ops that work element by element or along an axis, to where they cancel or merge.

A region of ops that can as well work on another order of the dimensions (element-wise ops with their broadcasts,
Concat, Split, Softmax and reductions with the axis mapped, Pad, Slice, Cast, per-channel QuantizeLinear) does so:
Transposes that lead into it or out of it and undo the new order go, others merge with it, and what else crosses the
border gets one. Constants are transposed in the file. Two Transposes in a row become one, and one that moves nothing
goes.
When: Fewer elements are transposed afterwards, whatever the dimensions without a number are: a Transpose that goes pays
for one that comes only if it moves as many elements by the names of its dimensions. A value with other readers, or that
a caller gets, is transposed back for them, and that is counted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from trtprof.base.op_kinds import op_kind
from trtprof.rewrite import rewrite
from trtprof.rewrite.edit import Edit

Perm = tuple[int, ...]
Count = Counter[tuple[str, ...]]  # Elements as a sum: how many times each product of dimensions without a number

ALONG_AN_AXIS = ("Softmax", "LogSoftmax", "Hardmax", "Concat", "Split", "ArgMax", "ArgMin", "LpNormalization")
DEFAULT_AXIS = {"Split": 0, "ArgMax": 0, "ArgMin": 0}  # Of the others it is the last
MOST_NODES = 500  # Ops of one region


def composed(first: Perm, then: Perm) -> Perm:
    """The order of one Transpose that does what two do, one after the other."""
    return tuple(first[place] for place in then)


def inverse(perm: Perm) -> Perm:
    """The order that undoes one."""
    return tuple(int(place) for place in np.argsort(perm))


def is_none(perm: Perm) -> bool:
    """Whether a Transpose in this order moves nothing."""
    return perm == tuple(range(len(perm)))


class Turn(NamedTuple):
    """How an op works on another order of dimensions."""

    perms: dict[ir.Value, Perm]  # The order of each value that is to be had in another one
    build: Callable[[list[ir.Value | None]], list[ir.Value]]  # Makes its outputs of inputs in their new order


@rewrite(
    "transpose-through",
    "Transposes moved through other ops and cancelled",
    answers=("LY201", "RL101", "LA401", "HO501"),
    exact=False,
)
def transpose_through(node: ir.Node, edit: Edit) -> None:
    """Cancel or merge a Transpose with others that lie before it or behind it."""
    perm = _perm(node, edit)
    if perm is None:
        return
    value, result = _first(node), node.outputs[0]
    if is_none(perm):
        if not result.is_graph_output():
            edit.replace([node], {result: value})
        return
    before = edit.producer(value, "Transpose")
    first = _perm(before, edit) if before is not None else None
    if before is not None and first is not None:
        both = composed(first, perm)
        own = [before] if before.graph is node.graph else []
        source = _first(before)
        if is_none(both):
            edit.replace([*own, node], {result: source})
        elif edit.used_once(value) and own:
            edit.replace([before, node], {result: _transposed(source, both, edit)})
        return
    graph = node.graph
    if not isinstance(graph, ir.Graph):
        return
    regions: list[tuple[int, int, int, Region]] = []
    for start, order in ((value, perm), (result, inverse(perm))):
        for up, down in ((True, False), (False, True), (True, True)):
            region = Region(edit, start, order, graph)
            region.grow(up=up, down=down)
            if region.nodes and (gain := region.gain()) is not None:
                regions.append((gain, -len(region.nodes), -len(regions), region))
    if regions:
        max(regions, key=lambda one: one[:3])[3].turn_over()


class Region:
    """Ops that are to work on another order of the dimensions. `perm`: the order in which that is to be had."""

    def __init__(self, edit: Edit, start: ir.Value, perm: Perm, graph: ir.Graph) -> None:
        self._edit = edit
        self._graph = graph
        self._start = start
        self.perms: dict[ir.Value, Perm] = {start: perm}
        self.nodes: dict[ir.Node, Turn] = {}

    # --- what belongs to it ----------------------------------------------------------------------

    def grow(self, *, up: bool, down: bool) -> None:
        """Take in ops that make its values (up), or that read them (down), as far as it goes."""
        waiting = [self._start]
        while waiting and len(self.nodes) < MOST_NODES:
            value = waiting.pop()
            near = [value.producer()] if up else []
            near += [user for user, _ in value.uses()] if down else []
            for node in near:
                if node is None or node in self.nodes or node.graph is not self._graph:
                    continue
                turn = _turn(node, value, self.perms[value], self._edit)
                if (
                    turn is None
                    or value not in turn.perms
                    or any(self.perms.get(one, perm) != perm for one, perm in turn.perms.items())
                ):
                    continue
                self.nodes[node] = turn
                waiting += [one for one in turn.perms if one not in self.perms]
                self.perms.update(turn.perms)

    def _inputs(self) -> list[ir.Value]:
        """Values that it reads in another order and does not make, constants left out."""
        return [value for value in self.perms if value.producer() not in self.nodes and self._edit.array(value) is None]

    def _ends(self, value: ir.Value) -> list[ir.Node]:
        """The Transposes that read a value of it."""
        users = {user: None for user, _ in value.uses() if user not in self.nodes and user.graph is self._graph}
        return [user for user in users if _perm(user, self._edit) is not None]

    def _asked(self, value: ir.Value) -> bool:
        """Whether a value that it makes is also read in the old order."""
        ends = self._ends(value)
        return value.is_graph_output() or any(user not in self.nodes and user not in ends for user, _ in value.uses())

    # --- whether it pays -------------------------------------------------------------------------

    def gain(self) -> int | None:
        """Elements, or products of dimensions, that are transposed no more; None if it may be no gain."""
        saved: Count = Counter()
        for value in self._inputs():
            perm = self.perms[value]
            if is_none(perm):
                continue
            made = self._edit.producer(value, "Transpose")
            first = _perm(made, self._edit) if made is not None else None
            if first is None:
                saved.subtract(self._elements(value))
                continue
            if made is not None and _first(made).producer() in self.nodes:
                return None  # A Transpose within the region would be at both of its ends.
            own = made is not None and made.graph is self._graph
            if own and not value.is_graph_output() and all(user in self.nodes for user, _ in value.uses()):
                saved.update(self._elements(value))
            if not is_none(composed(first, perm)):
                saved.subtract(self._elements(value))
        for value, perm in self.perms.items():
            if value.producer() not in self.nodes:
                continue
            for end in self._ends(value):
                if is_none(composed(inverse(perm), _perm(end, self._edit) or ())):
                    saved.update(self._elements(value))
            if not is_none(perm) and self._asked(value):
                saved.subtract(self._elements(value))
        if any(count < 0 for count in saved.values()) or not any(saved.values()):
            return None
        return sum(saved.values())

    def _elements(self, value: ir.Value) -> Count:
        dims = self._edit.dims(value)
        if dims is None:
            return Counter({(f"elements of {id(value)}",): 1})
        names = sorted(
            dim if isinstance(dim, str) else f"{place} of {id(value)}"
            for place, dim in enumerate(dims)
            if not isinstance(dim, int)
        )
        return Counter({tuple(names): math.prod(dim for dim in dims if isinstance(dim, int))})

    # --- doing it --------------------------------------------------------------------------------

    def turn_over(self) -> None:
        """Put the region in its new order."""
        edit = self._edit
        order = self._ordered()
        sources: dict[ir.Node, None] = {}
        ends: dict[ir.Node, None] = {}
        new: dict[ir.Value, ir.Value] = {}
        for value in self._inputs():
            perm = self.perms[value]
            made = edit.producer(value, "Transpose")
            first = _perm(made, edit) if made is not None else None
            if made is not None and first is not None:
                new[value] = _transposed(_first(made), composed(first, perm), edit)
                if made.graph is self._graph:
                    sources[made] = None
            else:
                new[value] = _transposed(value, perm, edit)
        for node in order:
            inputs = [self._turned(value, self.nodes[node], new) for value in node.inputs]
            for old, made_new in zip(node.outputs, self.nodes[node].build(inputs), strict=True):
                made_new.type = old.type
                made_new.shape = _shape(old, self.perms[old]) if old in self.perms else old.shape
                new[old] = made_new
        values: dict[ir.Value, ir.Value] = {}
        for node in order:
            for old in node.outputs:
                perm = self.perms.get(old, ())
                for end in self._ends(old):
                    values[end.outputs[0]] = _transposed(
                        new[old], composed(inverse(perm), _perm(end, edit) or ()), edit
                    )
                    ends[end] = None
                if self._asked(old):
                    values[old] = _transposed(new[old], inverse(perm), edit)
        edit.replace([*sources, *order, *ends], values)

    def _ordered(self) -> list[ir.Node]:
        """Its ops, each behind those whose results it reads: earlier changes may have left them in another order."""
        found: dict[ir.Node, None] = {}
        waiting = list(reversed(self.nodes))
        while waiting:
            node = waiting[-1]
            before = [made for value in node.inputs if value is not None and (made := value.producer()) in self.nodes]
            left = [made for made in before if made is not None and made not in found]
            if left:
                waiting += left
                continue
            found[waiting.pop()] = None
        return list(found)

    def _turned(self, value: ir.Value | None, turn: Turn, new: dict[ir.Value, ir.Value]) -> ir.Value | None:
        """An input of an op as it is to be read."""
        if value is None or value not in turn.perms:
            return value
        if value in new:
            return new[value]
        array = np.asarray(self._edit.array(value))
        new[value] = self._edit.constant(array.transpose(turn.perms[value]), f"{value.name}_transposed")
        return new[value]


# --- single ops ----------------------------------------------------------------------------------


def _first(node: ir.Node) -> ir.Value:
    """The first input of a node that cannot do without."""
    value = node.inputs[0] if node.inputs else None
    if value is None:
        raise ValueError(f"{node.op_type} {node.name} has no input")
    return value


def _perm(node: ir.Node | None, edit: Edit) -> Perm | None:
    """The order of a Transpose."""
    if node is None or not edit.is_op(node, "Transpose"):
        return None
    given = edit.ints(node, "perm")
    rank = edit.rank(node.inputs[0])
    return given if given is not None else None if rank is None else tuple(reversed(range(rank)))


def _shape(value: ir.Value, perm: Perm) -> ir.Shape | None:
    return None if value.shape is None else ir.Shape([value.shape[place] for place in perm])


def _transposed(value: ir.Value, perm: Perm, edit: Edit) -> ir.Value:
    """A value in another order; itself if that moves nothing."""
    if is_none(perm):
        return value
    result: ir.Value = edit.node("Transpose", [value], {"perm": list(perm)})
    result.type, result.shape = value.type, _shape(value, perm)
    return result


def _turn(node: ir.Node, value: ir.Value, perm: Perm, edit: Edit) -> Turn | None:
    """How an op works if one of its values is in another order; None if it cannot, or that is not known."""
    if node.domain not in ("", "ai.onnx") or len(node.outputs) == 0 or any(one.name == "" for one in node.outputs):
        return None
    if is_none(perm):
        return None
    first = node.inputs[0] if node.inputs else None
    if first is None:
        return None
    kind = op_kind(node.op_type)
    if kind == "cast" or node.op_type == "Identity":
        return Turn({first: perm, node.outputs[0]: perm}, _same(node, edit))
    if kind == "pointwise":
        return _broadcast(node, perm, edit)
    if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
        return _quantised(node, value, perm, edit)
    if node.op_type in ALONG_AN_AXIS:
        return _along(node, value, perm, edit)
    if kind == "reduction":
        return _reduced(node, value, perm, edit)
    if node.op_type in ("Slice", "Pad"):
        return _bordered(node, value, perm, edit)
    return None


def _same(
    node: ir.Node, edit: Edit, changed: dict[str, int | list[int]] | None = None
) -> Callable[[list[ir.Value | None]], list[ir.Value]]:
    """Makes the same op of other inputs, some attributes changed."""
    attributes = {**node.attributes, **(changed or {})}

    def build(inputs: list[ir.Value | None]) -> list[ir.Value]:
        made = edit.node(node.op_type, inputs, attributes, outputs=len(node.outputs))
        return list(made) if len(node.outputs) > 1 else [made]

    return build


def _broadcast(node: ir.Node, perm: Perm, edit: Edit) -> Turn | None:
    if (edit.opset < 7 and len(node.inputs) > 1) or edit.rank(node.outputs[0]) != len(perm):
        return None
    perms = {node.outputs[0]: perm}
    widened: dict[ir.Value, ir.Value] = {}
    for one in node.inputs:
        dims = edit.dims(one)
        if one is None or dims is None:
            return None
        if all(dim == 1 for dim in dims):
            continue  # The same in any order.
        if len(dims) == len(perm):
            perms[one] = perm
        elif edit.array(one) is None:
            return None
        else:
            widened[one] = one
    same = _same(node, edit)

    def build(inputs: list[ir.Value | None]) -> list[ir.Value]:
        return same([_wide(one, perm, edit) if one in widened else one for one in inputs])

    return Turn(perms, build)


def _wide(value: ir.Value | None, perm: Perm, edit: Edit) -> ir.Value:
    """A constant of lower rank, broadcast in the new order."""
    array = np.asarray(edit.array(value))
    wide = array.reshape((1,) * (len(perm) - array.ndim) + array.shape)
    return edit.constant(wide.transpose(perm), f"{value.name}_transposed" if value is not None else "constant")


def _axis(axis: int, perm: Perm) -> int:
    """Where an axis is in the new order."""
    return perm.index(axis % len(perm))


def _quantised(node: ir.Node, value: ir.Value, perm: Perm, edit: Edit) -> Turn | None:
    first, result = _first(node), node.outputs[0]
    ranks = [edit.rank(one) for one in node.inputs[1:] if one is not None]
    if (value is not first and value is not result) or edit.number(node, "block_size", 0):
        return None
    if all(rank == 0 for rank in ranks):
        return Turn({first: perm, result: perm}, _same(node, edit))
    if not all(rank in (0, 1) for rank in ranks) or edit.opset < 13:
        return None
    axis = int(edit.number(node, "axis", 1))
    return Turn({first: perm, result: perm}, _same(node, edit, {"axis": _axis(axis, perm)}))


def _along(node: ir.Node, value: ir.Value, perm: Perm, edit: Edit) -> Turn | None:
    concat = node.op_type == "Concat"
    if node.op_type in ("Softmax", "LogSoftmax", "Hardmax") and edit.opset < 13:
        return None  # It worked on a matrix made of the dimensions before and from the axis.
    if node.op_type in ("ArgMax", "ArgMin") and not edit.number(node, "keepdims", 1):
        return None
    moved = [*node.inputs, *node.outputs] if concat else [node.inputs[0], *node.outputs]
    if value not in moved:
        return None
    axis = int(edit.number(node, "axis", DEFAULT_AXIS.get(node.op_type, -1)))
    perms = {}
    for one in moved:
        if one is None:
            return None
        perms[one] = perm
    return Turn(perms, _same(node, edit, {"axis": _axis(axis, perm)}))


def _reduced(node: ir.Node, value: ir.Value, perm: Perm, edit: Edit) -> Turn | None:
    first, result = _first(node), node.outputs[0]
    rank = len(perm)
    keeps = bool(edit.number(node, "keepdims", 1))
    if (value is not first and value is not result) or (value is result and not keeps):
        return None
    axes = edit.ints(node, "axes", 1)
    given = len(node.inputs) > 1 and node.inputs[1] is not None
    if axes is None and given:
        return None
    if not axes:
        if edit.number(node, "noop_with_empty_axes", 0):
            return None
        axes = tuple(range(rank))
    old = sorted(axis % rank for axis in axes)
    new = sorted(_axis(axis, perm) for axis in axes)
    kept = [axis for axis in range(rank) if axis not in old]
    left = perm if keeps else tuple(kept.index(axis) for axis in perm if axis in kept)

    def build(inputs: list[ir.Value | None]) -> list[ir.Value]:
        read = [one for one in inputs[:1] if one is not None]
        return [edit.with_axes(node.op_type, read, new, {"keepdims": int(keeps)})]

    return Turn({first: perm, result: left}, build)


def _bordered(node: ir.Node, value: ir.Value, perm: Perm, edit: Edit) -> Turn | None:
    """Of Slice and Pad, whose axes are given one by one."""
    first, result = _first(node), node.outputs[0]
    if value is not first and value is not result:
        return None
    perms = {first: perm, result: perm}
    place = 3
    if len(node.inputs) > place and node.inputs[place] is not None:
        axes = edit.ints(node, "axes", place)
        return None if axes is None else Turn(perms, _with_axes_input(node, axes, perm, edit))
    if node.op_type == "Slice":
        if edit.opset < 10:
            starts = edit.ints(node, "starts") or ()
            axes = edit.ints(node, "axes") or tuple(range(len(starts)))
            return Turn(perms, _same(node, edit, {"axes": [_axis(axis, perm) for axis in axes]}))
        bounds = edit.shape(node.inputs[1])
        if bounds is None:
            return None
        return Turn(perms, _with_axes_input(node, range(bounds[0]), perm, edit))
    pads = edit.ints(node, "pads", 1)
    if pads is None or len(pads) != 2 * len(perm):
        return None
    turned = [pads[axis + half * len(perm)] for half in (0, 1) for axis in perm]
    if edit.opset < 11:
        return Turn(perms, _same(node, edit, {"pads": turned}))
    same = _same(node, edit)

    def build(inputs: list[ir.Value | None]) -> list[ir.Value]:
        return same([inputs[0], edit.constant(np.asarray(turned, np.int64), "pads"), *inputs[2:]])

    return Turn(perms, build)


def _with_axes_input(
    node: ir.Node, axes: Sequence[int], perm: Perm, edit: Edit
) -> Callable[[list[ir.Value | None]], list[ir.Value]]:
    same = _same(node, edit)

    def build(inputs: list[ir.Value | None]) -> list[ir.Value]:
        given = [*inputs, *[None] * (4 - len(inputs))]
        given[3] = edit.constant(np.asarray([_axis(axis, perm) for axis in axes], np.int64), "axes")
        return same(given)

    return build
