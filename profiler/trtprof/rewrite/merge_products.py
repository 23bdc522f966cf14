"""Products of one input with several constant weights, as one product.

MatMul(x, W1), MatMul(x, W2), ... : one MatMul of x with the weights side by side, then Split. Where a constant bias is
added to each of them, the biases are joined too. The same for Gemm, with its bias.
When: All read the same x and have the same type; each weight is a constant matrix that nothing else reads. Gemms have
alpha and beta 1, no ``transA``, the same ``transB``, and either all a bias that is constant or none.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from trtprof.rewrite import rewrite
from trtprof.rewrite.biases import added, by_column
from trtprof.rewrite.edit import Edit


class _Part(NamedTuple):
    """One product: its node, the Add of its bias if one follows, weight (what is summed over first) and bias."""

    node: ir.Node
    add: ir.Node | None
    weight: npt.NDArray[Any]
    bias: npt.NDArray[Any] | None


@rewrite(
    "merge-products",
    "products of one input as one",
    answers=("KN704", "KN703", "RL101", "RL102", "LA401", "HO501"),
    exact=False,
)
def merge_products(node: ir.Node, edit: Edit) -> None:
    """Replace all products that read what this one reads."""
    x = node.inputs[0] if edit.is_op(node, "MatMul", "Gemm") else None
    if x is None or not edit.is_float(x):
        return
    nodes = [use.node for use in x.uses() if use.idx == 0 and _alike(use.node, node)]
    if len(nodes) < 2 or len(set(nodes)) < len(nodes):
        return
    parts = [part for one in nodes if (part := _part(edit, one)) is not None]
    if node.op_type == "Gemm":
        mine = next((part for part in parts if part.node is node), None)
        parts = [part for part in parts if mine is not None and (part.bias is None) == (mine.bias is None)]
    elif not all(part.bias is not None for part in parts):
        parts = [part._replace(add=None, bias=None) for part in parts]
    if len(parts) < 2 or not any(part.node is node for part in parts):
        return
    weight = edit.constant(np.concatenate([part.weight for part in parts], axis=1), "weights")
    biases = [part.bias for part in parts if part.bias is not None]
    if node.op_type == "Gemm":
        inputs = [x, weight, *([edit.constant(np.concatenate(biases), "biases")] if biases else [])]
        product = edit.node("Gemm", inputs)
    else:
        product = edit.node("MatMul", [x, weight])
        if biases:
            product = edit.node("Add", [product, edit.constant(np.concatenate(biases), "biases")])
    sizes = [part.weight.shape[1] for part in parts]
    axis = (edit.rank(x) or 0) - 1
    if edit.opset < 13:
        split = edit.node("Split", [product], {"axis": axis, "split": sizes}, outputs=len(sizes))
    else:
        lengths = edit.constant(np.asarray(sizes, np.int64), "split")
        split = edit.node("Split", [product, lengths], {"axis": axis}, outputs=len(sizes))
    ends = [part.add or part.node for part in parts]
    before = [*(part.node for part in parts if part.add is not None), *ends]
    edit.replace(before, {end.outputs[0]: own for end, own in zip(ends, split, strict=True)})


def _alike(one: ir.Node, other: ir.Node) -> bool:
    same = one.graph is other.graph and one.op_type == other.op_type and one.domain == other.domain
    return same and _flag(one, "transB") == _flag(other, "transB")


def _flag(node: ir.Node, name: str, default: float = 0) -> float:
    attribute = node.attributes.get(name)
    value: float = default if attribute is None else attribute.value
    return value


def _part(edit: Edit, node: ir.Node) -> _Part | None:
    weight = node.inputs[1]
    if (edit.rank(node.inputs[0]) or 0) < 2 or edit.rank(weight) != 2 or not edit.used_once(weight):
        return None
    array = edit.array(weight)
    if array is None or 0 in array.shape:
        return None
    if node.op_type == "Gemm":
        if _flag(node, "transA") or _flag(node, "alpha", 1) != 1 or _flag(node, "beta", 1) != 1:
            return None
        array = array.T if _flag(node, "transB") else array
        given = node.inputs[2] if len(node.inputs) > 2 else None
        bias = by_column(edit, given, array.shape[1])
        return _Part(node, None, array, bias) if given is None or bias is not None else None
    add, bias = added(edit, node, array.shape[1])
    return _Part(node, add, array, bias)
