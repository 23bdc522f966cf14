"""Chains of ops that only give the same elements other dimensions, as one Reshape or none.

Reshape, Squeeze, Unsqueeze, Flatten and Identity in a row become one Reshape to the last dimensions, or nothing where
those are the first ones. One alone that changes nothing goes.
When: The last dimensions can be written down for every input: numbers, dimensions that stay where they are, and at most
one that follows from the others. Where a dimension that stays could be 0 and another follows, only if the chain would
have refused that too. Nothing but the chain reads what is between.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import onnx_ir as ir

from trtprof.rewrite import rewrite
from trtprof.rewrite.edit import Edit

OPS = ("Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity")

Dim = int | tuple[int] | None
"""A number, the place of the dimension of the first value that it is, or None for what follows from the others."""


class Dims(NamedTuple):
    """What a chain makes of the dimensions of its first value."""

    dims: tuple[Dim, ...] | None  # The dimensions; None where even their number is not known
    # Places of dimensions of the first value that cannot be 0 without an error on the way
    given: frozenset[int] = frozenset()


@rewrite("reshape-chains", "chains of Reshape and the like shortened", answers=("LA401", "HO501"), exact=True)
def reshape_chains(node: ir.Node, edit: Edit) -> None:
    """Shorten a chain that ends with a node."""
    if not edit.is_op(node, *OPS) or edit.opset < 5 or _goes_on(node, edit):
        return
    chain = [node]
    while (before := edit.producer(chain[0].inputs[0], *OPS)) is not None:
        if before.graph is not node.graph or not edit.used_once(chain[0].inputs[0]):
            break
        chain.insert(0, before)
    # The longest end of it whose result can be written down.
    for start in range(len(chain)):
        if _shortened(chain[start:], edit):
            return


def _goes_on(node: ir.Node, edit: Edit) -> bool:
    """Whether the chain goes on behind a node."""
    value = node.outputs[0]
    return edit.used_once(value) and all(
        user.graph is node.graph and edit.is_op(user, *OPS) and place == 0 for user, place in value.uses()
    )


def _shortened(chain: Sequence[ir.Node], edit: Edit) -> bool:
    source, result = chain[0].inputs[0], chain[-1].outputs[0]
    if source is None:
        return False
    if all(node.op_type == "Identity" for node in chain):
        if result.is_graph_output() and len(chain) == 1:
            return False
        return edit.replace(chain, {result: source})
    first = edit.dims(source)
    dims: tuple[Dim, ...] | None = None
    if first is not None:
        dims = tuple(dim if isinstance(dim, int) else (place,) for place, dim in enumerate(first))
    reached = Dims(dims)
    for node in chain:
        reached = _after(node, reached, edit)
    if reached.dims is None:
        return False
    if reached.dims == dims and (len(chain) > 1 or not result.is_graph_output()):
        return edit.replace(chain, {result: source})
    if len(chain) == 1:
        return False
    target = _target(reached)
    return target is not None and edit.replace(chain, {result: edit.reshape(source, target)})


def _target(reached: Dims) -> list[int] | None:
    """The shape to write in a Reshape, where it says the same for every input."""
    dims = reached.dims or ()
    kept = [dim[0] for place, dim in enumerate(dims) if isinstance(dim, tuple) and dim[0] == place]
    follow = [dim for place, dim in enumerate(dims) if dim is None or (isinstance(dim, tuple) and dim[0] != place)]
    if 0 in dims or len(follow) > 1 or (follow and not set(kept) <= reached.given):
        return None
    return [
        dim if isinstance(dim, int) else 0 if dim is not None and dim[0] == place else -1
        for place, dim in enumerate(dims)
    ]


def _after(node: ir.Node, before: Dims, edit: Edit) -> Dims:
    """The dimensions behind one op."""
    if node.op_type == "Identity":
        return before
    if node.op_type == "Reshape":
        return _reshaped(node, before, edit)
    dims = before.dims
    if dims is None:
        return before
    if node.op_type == "Flatten":
        axis = int(edit.number(node, "axis", 1))
        axis += len(dims) if axis < 0 else 0
        return before._replace(dims=(_product(dims[:axis]), _product(dims[axis:])))
    axes = edit.ints(node, "axes", 1)
    if node.op_type == "Squeeze":
        if axes is None:
            if (len(node.inputs) > 1 and node.inputs[1] is not None) or not all(isinstance(dim, int) for dim in dims):
                return before._replace(dims=None)
            return before._replace(dims=tuple(dim for dim in dims if dim != 1))
        out = {axis % len(dims) for axis in axes}
        return before._replace(dims=tuple(dim for place, dim in enumerate(dims) if place not in out))
    if axes is None:
        return before._replace(dims=None)
    rank = len(dims) + len(axes)
    new = {axis % rank for axis in axes}
    old = iter(dims)
    return before._replace(dims=tuple(1 if place in new else next(old) for place in range(rank)))


def _product(dims: Sequence[Dim]) -> Dim:
    """One dimension of several."""
    others = [dim for dim in dims if not isinstance(dim, int)]
    number = math.prod(dim for dim in dims if isinstance(dim, int))
    return number if not others else others[0] if len(others) == 1 and number == 1 else None


def _reshaped(node: ir.Node, before: Dims, edit: Edit) -> Dims:
    asked = edit.ints(node, "shape", 1)
    if asked is None or (0 in asked and edit.number(node, "allowzero", 0)):
        return before._replace(dims=None)
    dims: list[Dim] = []
    for place, dim in enumerate(asked):
        if dim == 0 and (before.dims is None or place >= len(before.dims)):
            return before._replace(dims=None)
        dims.append(before.dims[place] if dim == 0 and before.dims is not None else None if dim == -1 else dim)
    given = before.given
    if -1 in asked:
        # A Reshape refuses to divide by 0.
        given |= {dim[0] for dim in dims if isinstance(dim, tuple)}
        if before.dims is not None and dims.count(None) == 1:
            dims[asked.index(-1)] = _what_follows(before.dims, [dim for dim in dims if dim is not None])
    return Dims(tuple(dims), given)


def _what_follows(before: Sequence[Dim], others: Sequence[Dim]) -> Dim:
    """The dimension that is left when all others are known; None if that is not known."""
    left = Counter(dim for dim in before if not isinstance(dim, int))
    left.subtract(dim for dim in others if not isinstance(dim, int))
    if None in left or any(count < 0 for count in left.values()):
        return None
    whole = math.prod(dim for dim in before if isinstance(dim, int))
    part = math.prod(dim for dim in others if isinstance(dim, int))
    rest: list[Dim] = [dim for dim, count in left.items() for _ in range(count)]
    if part == 0 or whole % part:
        return None
    return _product([whole // part, *rest])
