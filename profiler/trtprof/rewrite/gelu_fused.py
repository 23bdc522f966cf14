"""GELU spelled out, as the op.

x * 0.5 * (1 + erf(x / sqrt(2))) and 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))), multiplied in any order,
become Gelu of opset 20, the second with ``approximate="tanh"``.
When: The constants are those of the function as precisely as the dtype has them, fp32 or fp16, and nothing else reads
what lies between. The opset is 20, or can be raised to it with every other node as it is.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import onnx_ir as ir

from trtprof.rewrite import rewrite
from trtprof.rewrite.edit import Edit

CLOSE = {ir.DataType.FLOAT: 1e-6, ir.DataType.FLOAT16: 1e-3}
"""How far a constant of the formula may be off, relatively, by dtype: a few roundings."""


class Product(NamedTuple):
    """A tree of products: constants multiplied, the other factors, and the nodes in the order in which they run."""

    scale: float
    factors: tuple[ir.Value, ...]
    nodes: tuple[ir.Node, ...]
    rank: int  # Largest rank of the constants: it must not be above that of the other factors


@rewrite("gelu-fused", "GELU spelled out as Gelu", answers=("FU301", "RL101", "RL102", "LA401", "HO501"), exact=False)
def gelu_fused(node: ir.Node, edit: Edit) -> None:
    """Replace a product that is a GELU, from its last Mul or Div on."""
    if not edit.is_op(node, "Mul", "Div"):
        return
    whole = product(edit, node)
    if whole is None or len(whole.factors) != 2:
        return
    for bent, x in (whole.factors, whole.factors[::-1]):
        near = CLOSE.get(edit.dtype(x) or ir.DataType.UNDEFINED)
        if near is None or not math.isclose(whole.scale, 0.5, rel_tol=near):
            continue
        found = _one_plus(edit, bent, x, near)
        if found is None:
            continue
        approximate, inner = found
        nodes = (*inner.nodes, *whole.nodes)
        if max(whole.rank, inner.rank) > (edit.rank(x) or 0) or not edit.raised_to(20):
            continue
        fused = edit.node("Gelu", [x], {"approximate": approximate})
        edit.replace(nodes, {node.outputs[0]: fused})
        return


def product(edit: Edit, node: ir.Node) -> Product | None:
    """The product that ends with a Mul, a Div by a constant or a Pow; parts that others read too are factors."""
    if edit.is_op(node, "Pow"):
        exponent = edit.scalar(node.inputs[1])
        if exponent not in (2.0, 3.0) or node.inputs[0] is None:
            return None
        return Product(1.0, (node.inputs[0],) * int(exponent), (node,), edit.rank(node.inputs[1]) or 0)
    result = Product(1.0, (), (), 0)
    for place, value in enumerate(node.inputs):
        if value is None:
            return None
        scalar = edit.scalar(value)
        inner = edit.producer(value, "Mul", "Div", "Pow") if edit.used_once(value) else None
        if scalar is not None:
            divides = place == 1 and node.op_type == "Div"
            if divides and not scalar:
                return None
            scale = 1 / scalar if divides else scalar
            part = Product(scale, (), (), edit.rank(value) or 0)
        else:
            part = (product(edit, inner) if inner is not None else None) or Product(1.0, (value,), (), 0)
        if node.op_type == "Div" and ((place == 1 and scalar is None) or (place == 0 and scalar is not None)):
            return None
        result = Product(
            result.scale * part.scale,
            (*result.factors, *part.factors),
            (*result.nodes, *part.nodes),
            max(result.rank, part.rank),
        )
    return result._replace(nodes=(*result.nodes, node))


def _one_plus(edit: Edit, value: ir.Value, x: ir.Value, near: float) -> tuple[str | None, Product] | None:
    """What stands beside x: 1 + erf(...), or 1 + tanh(...); the kind of GELU, and the nodes."""
    split = _sum(edit, value, 1.0, near)
    if split is None:
        return None
    bend, outer = split
    made = edit.producer(bend, "Erf", "Tanh") if edit.used_once(bend) else None
    if made is None or made.inputs[0] is None:
        return None
    under = _product_of(edit, made.inputs[0])
    if under is None:
        return None
    nodes, rank = under.nodes, under.rank
    if made.op_type == "Erf":
        if under.factors != (x,) or not math.isclose(under.scale, math.sqrt(0.5), rel_tol=near):
            return None
        return None, Product(1.0, (x,), (*nodes, made, outer.nodes[0]), max(rank, outer.rank))
    if not math.isclose(under.scale, math.sqrt(2 / math.pi), rel_tol=near):
        return None
    cubic = _cubic(edit, under.factors, x, near)
    if cubic is None:
        return None
    rank = max(rank, cubic.rank, outer.rank)
    return "tanh", Product(1.0, (x,), (*cubic.nodes, *nodes, made, outer.nodes[0]), rank)


def _product_of(edit: Edit, value: ir.Value) -> Product | None:
    """The product that makes a value that is read once."""
    made = edit.producer(value, "Mul", "Div", "Pow") if edit.used_once(value) else None
    return product(edit, made) if made is not None else None


def _sum(edit: Edit, value: ir.Value, constant: float, near: float) -> tuple[ir.Value, Product] | None:
    """What a constant is added to, where it is read once."""
    made = edit.producer(value, "Add") if edit.used_once(value) else None
    if made is None:
        return None
    for one, other in (made.inputs, made.inputs[::-1]):
        scalar = edit.scalar(other)
        if one is not None and scalar is not None and math.isclose(scalar, constant, rel_tol=near):
            return one, Product(1.0, (one,), (made,), edit.rank(other) or 0)
    return None


def _cubic(edit: Edit, factors: tuple[ir.Value, ...], x: ir.Value, near: float) -> Product | None:
    if len(factors) == 1:
        made = edit.producer(factors[0], "Add") if edit.used_once(factors[0]) else None
        if made is None or x not in made.inputs:
            return None
        other, power, rank = made.inputs[1 if made.inputs[0] is x else 0], 3, 0
    elif len(factors) == 2 and x in factors:
        split = _sum(edit, factors[1 if factors[0] is x else 0], 1.0, near)
        if split is None:
            return None
        other, power, made, rank = split[0], 2, split[1].nodes[0], split[1].rank
    else:
        return None
    part = _product_of(edit, other) if other is not None else None
    if part is None or part.factors != (x,) * power or not math.isclose(part.scale, 0.044715, rel_tol=near):
        return None
    return part._replace(nodes=(*part.nodes, made), rank=max(part.rank, rank))
