"""Custom nodes of plugins, whose functions stand in their place in a model: the same nodes, one a custom node again."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from trtprof.base.records import Node, Op

PLUGINS = "trtprof"
"""Domain of custom nodes that a plugin computes, and namespace of these plugins."""


def folded(nodes: Sequence[Node]) -> list[tuple[Node, tuple[Node, ...]]]:
    """All nodes in order, those of one custom node as that, each with the nodes that it stands for."""
    found: list[tuple[Node, tuple[Node, ...]]] = []
    for call, inner in groupby(nodes, lambda node: node.call):
        members = tuple(inner)
        found += [(node, (node,)) for node in members] if call is None else [(_one(members), members)]
    return found


def _one(nodes: tuple[Node, ...]) -> Node:
    call, graph = nodes[0].call, nodes[0].graph
    assert call is not None  # noqa: S101 - its caller grouped by it
    made = {tensor.name: tensor for node in nodes for tensor in node.op.outputs if tensor is not None}
    read = {tensor.name: tensor for node in nodes for tensor in node.op.inputs if tensor is not None}
    op = Op(
        op_type=call.op_type,
        domain=call.domain,
        inputs=tuple(tensor for name, tensor in read.items() if name not in made),
        outputs=tuple(made.get(name) for name in call.outputs),
    )
    return Node(name=call.name, original_name=call.name, graph=graph, op=op, call=call)
