"""What becomes of ONNX nodes that no layer of an engine computes: rules that hold for every backend."""

from __future__ import annotations

from collections.abc import Callable

from trtprof.align._graph import Key, SourceGraph, present
from trtprof.base.records import Node, NodeFate

SHAPE_OPS = frozenset(
    {"Shape", "Size", "Gather", "Concat", "Unsqueeze", "Squeeze", "Slice", "Cast", "Range", "ConstantOfShape", "Add",
     "Sub", "Mul", "Div", "Mod", "Min", "Max", "Neg", "Reshape", "Floor", "Ceil", "Where", "Equal", "Expand",
     "Identity", "ReduceProd", "Transpose", "Split"}
)  # fmt: skip
PASS_THROUGH = frozenset({"Identity", "Dropout", "Cast", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose"})
INTEGER = ("int", "uint", "bool")  # How the names of dtypes begin that shapes and their tests have


def is_shape_arithmetic(node: Node) -> bool:
    """Whether a node may compute nothing but shapes: integers, by ops that shapes are computed with."""
    outputs = list(present(node.op.outputs))
    return node.op.op_type in SHAPE_OPS and all(tensor.dtype.startswith(INTEGER) for tensor in outputs)


def settled_before_run(graph: SourceGraph, node: Node, is_read: Callable[[Key], bool]) -> NodeFate | None:
    """The fate of a node that is settled by the model alone, whatever the layers are; None where it is not."""
    name = node.name
    if node.graph in graph.never:
        return NodeFate(node=name, fate="eliminated", reason="its branch is never taken")
    if node.constant:
        return NodeFate(node=name, fate="folded", reason="its inputs are constant: computed before the run")
    if name in graph.inlined:
        return NodeFate(node=name, fate="folded", reason="decided before the run: its branch runs in its place")
    if not any(is_read(key) for key in graph.outputs(node)):
        return NodeFate(node=name, fate="eliminated", reason="its result is never read")
    return None
