"""What the rewrites of normalisations share: how the spelled-out forms are recognised and written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from trtprof.rewrite.edit import Edit


class Scaled(NamedTuple):
    """A value over the root of the mean of its squares."""

    value: ir.Value  # What is divided
    squared: ir.Value  # What the mean of squares is of: the same value, or one computed in the same way
    axis: int  # The first of the last dimensions over which the mean is taken, from the end
    dims: tuple[int, ...]  # Those dimensions
    epsilon: float  # Added to the mean
    nodes: tuple[ir.Node, ...]  # In the order in which they run


class Ending(NamedTuple):
    """What follows a normalisation: a factor and a summand, each None where there is none."""

    output: ir.Value
    scale: ir.Value | None
    bias: ir.Value | None
    nodes: tuple[ir.Node, ...]


def scaled(edit: Edit, node: ir.Node) -> Scaled | None:
    """A Div by a root, or a Mul with one over it, in fp32."""
    for value, root in _divided(edit, node):
        nodes = _root(edit, root, node)
        if nodes is None or value is None or edit.dtype(value) != ir.DataType.FLOAT:
            continue
        mean_value, epsilon, above = nodes
        mean = edit.producer(mean_value, "ReduceMean") if edit.used_once(mean_value) else None
        power = edit.producer(mean.inputs[0], "Pow", "Mul") if mean is not None and mean.inputs else None
        if mean is None or power is None or not edit.used_once(mean.inputs[0]):
            continue
        squared = power.inputs[0]
        two = edit.scalar(power.inputs[1])
        square = power.inputs[1] is squared if power.op_type == "Mul" else two == 2.0
        rank = edit.rank(squared)
        if squared is None or not square or rank is None or edit.rank(value) != rank:
            continue
        if power.op_type == "Pow" and (edit.rank(power.inputs[1]) or 0) > rank:
            continue
        axis = last_axes(edit, mean, rank)
        dims = edit.dims(squared)
        if axis is None or dims is None or edit.dims(value) != dims or epsilon.rank > rank:
            continue
        known = tuple(dim for dim in dims[axis:] if isinstance(dim, int))
        if len(known) == -axis and all(known):
            return Scaled(value, squared, axis, known, epsilon.number, (power, mean, *above, node))
    return None


class _Epsilon(NamedTuple):
    number: float
    rank: int


def _divided(edit: Edit, node: ir.Node) -> list[tuple[ir.Value | None, ir.Value | None]]:
    if edit.is_op(node, "Div"):
        return [(node.inputs[0], node.inputs[1])]
    if edit.is_op(node, "Mul"):
        return [(node.inputs[0], node.inputs[1]), (node.inputs[1], node.inputs[0])]
    return []


def _root(edit: Edit, value: ir.Value | None, node: ir.Node) -> tuple[ir.Value, _Epsilon, tuple[ir.Node, ...]] | None:
    """What is under a root, what is added there, and the nodes; for a Mul the root must be under one."""
    nodes: list[ir.Node] = []
    if node.op_type == "Mul":
        over = edit.producer(value, "Reciprocal", "Div", "Pow") if edit.used_once(value) else None
        if over is None:
            return None
        nodes.append(over)
        value = over.inputs[0]
        if over.op_type == "Div":
            if edit.scalar(over.inputs[0]) != 1.0 or edit.rank(over.inputs[0]) != 0:
                return None
            value = over.inputs[1]
        elif over.op_type == "Pow" and (edit.scalar(over.inputs[1]) != -0.5 or edit.rank(over.inputs[1]) != 0):
            return None
    if not nodes or nodes[0].op_type != "Pow":
        root = edit.producer(value, "Sqrt") if edit.used_once(value) else None
        if root is None:
            return None
        nodes.append(root)
        value = root.inputs[0]
    added = edit.producer(value, "Add") if edit.used_once(value) else None
    if added is None:
        return None
    for one, other in (added.inputs, added.inputs[::-1]):
        epsilon = edit.scalar(other)
        if one is not None and epsilon is not None and epsilon >= 0:
            return one, _Epsilon(epsilon, edit.rank(other) or 0), (added, *nodes[::-1])
    return None


def last_axes(edit: Edit, mean: ir.Node, rank: int) -> int | None:
    """The first of the axes of a ReduceMean, from the end, if they are the last ones and are kept."""
    axes = edit.ints(mean, "axes", 1)
    keeps = edit.ints(mean, "keepdims")
    if not axes or (keeps is not None and keeps != (1,)):
        return None
    places = sorted({axis % rank if -rank <= axis < rank else -1 for axis in axes})
    return -len(places) if places == list(range(rank - len(places), rank)) else None


def ending(edit: Edit, value: ir.Value, dims: Sequence[int], rank: int, *, biased: bool) -> Ending:
    """The Mul with a scale and the Add of a bias that alone read a normalised value, where they have its dimensions."""
    nodes: list[ir.Node] = []
    parts: list[ir.Value | None] = [None, None]
    for place, op_type in enumerate(("Mul", "Add") if biased else ("Mul",)):
        reader = edit.reader(value, op_type)
        if reader is None:
            continue
        other = reader.inputs[1 if reader.inputs[0] is value else 0]
        fits = _of_dims(edit, other, dims, rank) if other is not None else None
        if fits is None:
            continue
        parts[place] = fits
        nodes.append(reader)
        value = reader.outputs[0]
    return Ending(value, parts[0], parts[1], tuple(nodes))


def _of_dims(edit: Edit, value: ir.Value, dims: Sequence[int], rank: int) -> ir.Value | None:
    """A value of these dimensions that stands for one that is broadcast to them."""
    if edit.dtype(value) not in (ir.DataType.FLOAT, None):
        return None
    if edit.shape(value) == tuple(dims):
        return value
    array = edit.array(value)
    if array is None or array.dtype != np.float32 or array.ndim > rank:
        return None
    lead = array.shape[: max(0, array.ndim - len(dims))]
    tail = array.shape[len(lead) :]
    if any(dim != 1 for dim in lead) or any(
        one not in (1, dim) for one, dim in zip(tail[::-1], dims[::-1], strict=False)
    ):
        return None
    return edit.constant(np.broadcast_to(array.reshape(tail), tuple(dims)).copy(), value.name or "scale")


def ones(edit: Edit, dims: Sequence[int]) -> ir.Value:
    """A scale that changes nothing."""
    return edit.constant(np.ones(tuple(dims), np.float32), "ones")


def spelled_axes(edit: Edit, node: ir.Node) -> tuple[int, ...] | None:
    """The axes of a normalising op in fp32, fp16 or bf16 that computes in fp32, from the end."""
    x = node.inputs[0]
    axis = (edit.ints(node, "axis") or (-1,))[0]
    rank = edit.rank(x)
    stash = (edit.ints(node, "stash_type") or (ir.DataType.FLOAT.value,))[0]
    if stash != ir.DataType.FLOAT.value or (axis >= 0 and rank is None):
        return None
    if edit.dtype(x) not in (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16):
        return None
    first = axis if axis < 0 else axis - (rank or 0)
    return tuple(range(first, 0))


def over_root(edit: Edit, value: ir.Value, axes: Sequence[int], epsilon: float) -> ir.Value:
    """New nodes: a value of fp32 over the root of the mean of its squares."""
    mean = edit.with_axes("ReduceMean", [edit.node("Mul", [value, value])], axes, {"keepdims": 1})
    added = edit.node("Add", [mean, edit.constant(np.asarray(epsilon, np.float32), "epsilon")])
    result: ir.Value = edit.node("Div", [value, edit.node("Sqrt", [added])])
    return result


def cast(edit: Edit, value: ir.Value, to: ir.DataType) -> ir.Value:
    """A new Cast."""
    result: ir.Value = edit.node("Cast", [value], {"to": to.value})
    return result
