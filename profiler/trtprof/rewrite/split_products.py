"""A product of a constant weight that is cut into parts, as one product for each part.

MatMul(x, W), plus a constant bias where one is added to it alone, then Split along the columns (or Slices that together
cover them): one MatMul with the columns of W for each part. The same for Gemm, with its bias.
When: Nothing else reads the whole product. W is a constant matrix and nothing else reads it; Slices take steps of 1,
and no column twice.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from trtprof.rewrite import rewrite
from trtprof.rewrite.biases import added, by_column
from trtprof.rewrite.edit import Edit


class _Cut(NamedTuple):
    """A part of the columns: what holds it, and from where to where it goes."""

    value: ir.Value
    start: int
    end: int


@rewrite("split-products", "a product that is cut up as one for each part", answers=("RL101",), exact=False)
def split_products(node: ir.Node, edit: Edit) -> None:
    """Replace a product and what cuts it."""
    if not edit.is_op(node, "MatMul", "Gemm"):
        return
    x, weight = node.inputs[:2]
    rank, array = edit.rank(x), edit.array(weight) if edit.used_once(weight) and edit.rank(weight) == 2 else None
    if x is None or rank is None or rank < 2 or array is None or not edit.is_float(x):
        return
    along = 0 if node.op_type == "Gemm" and edit.ints(node, "transB") == (1,) else 1
    columns, product, before = array.shape[along], node.outputs[0], [node]
    add, bias = added(edit, node, columns) if node.op_type == "MatMul" else (None, None)
    own = node.inputs[2] if node.op_type == "Gemm" and len(node.inputs) > 2 else None
    if own is not None and (bias := by_column(edit, own, columns)) is None:
        return
    if add is not None:
        product, before = add.outputs[0], [node, add]
    cuts = _cuts(edit, product, rank, columns)
    if len(cuts) < 2:
        return
    values = {}
    for cut in cuts:
        if not (cut.value.uses() or cut.value.is_graph_output()):
            continue
        part = edit.constant(np.take(array, range(cut.start, cut.end), axis=along), "part")
        piece = edit.constant(bias[cut.start : cut.end], "bias") if bias is not None else None
        if node.op_type == "Gemm":
            made = edit.node("Gemm", [x, part, *([piece] if piece is not None else [])], dict(node.attributes))
        else:
            made = edit.node("MatMul", [x, part])
            made = edit.node("Add", [made, piece]) if piece is not None else made
        values[cut.value] = made
    cutters = dict.fromkeys(made for cut in cuts if (made := cut.value.producer()) is not None)
    edit.replace([*before, *cutters], values)


def _cuts(edit: Edit, product: ir.Value, rank: int, columns: int) -> list[_Cut]:
    """The parts of a product that is read by nothing else, if each column is in one of them; none otherwise."""
    graph = None if (made := product.producer()) is None else made.graph
    readers = [use.node for use in product.uses()]
    if product.is_graph_output() or any(reader.graph is not graph for reader in readers):
        return []
    if len(readers) == 1 and edit.is_op(readers[0], "Split"):
        return _of_split(edit, readers[0], rank, columns)
    cuts = []
    for reader in readers:
        cut = _of_slice(edit, reader, rank, columns) if edit.is_op(reader, "Slice") else None
        if cut is None or reader.inputs[0] is not product:
            return []
        cuts.append(cut)
    cuts.sort(key=lambda cut: cut.start)
    ends = [0, *(cut.end for cut in cuts)]
    whole = ends == [*(cut.start for cut in cuts), columns] and all(cut.start < cut.end for cut in cuts)
    return cuts if whole else []


def _of_split(edit: Edit, node: ir.Node, rank: int, columns: int) -> list[_Cut]:
    axis = edit.ints(node, "axis") or (0,)
    if axis[0] not in (-1, rank - 1):
        return []
    lengths = edit.ints(node, "split", 1)
    if lengths is None:
        if (len(node.inputs) > 1 and node.inputs[1] is not None) or not node.outputs:
            return []
        each = -(-columns // len(node.outputs))
        lengths = tuple(min(each, columns - each * place) for place in range(len(node.outputs)))
    if len(lengths) != len(node.outputs) or sum(lengths) != columns or min(lengths) <= 0:
        return []
    ends = np.cumsum(lengths).tolist()
    return [_Cut(value, end - length, end) for value, length, end in zip(node.outputs, lengths, ends, strict=True)]


def _of_slice(edit: Edit, node: ir.Node, rank: int, columns: int) -> _Cut | None:
    starts, ends = edit.ints(node, "starts", 1), edit.ints(node, "ends", 2)
    axes, steps = edit.ints(node, "axes", 3), edit.ints(node, "steps", 4)
    if starts is None or ends is None or axes is None or len(starts) != 1 or axes[0] not in (-1, rank - 1):
        return None
    if len(axes) != 1 or (steps is None and len(node.inputs) > 4) or (steps or (1,)) != (1,):
        return None
    start, end, _ = slice(starts[0], ends[0]).indices(columns)
    return _Cut(node.outputs[0], start, end)
