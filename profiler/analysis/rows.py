"""What the results of all analyses share: how layers are ranked, and the rows of nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from profiler.base.records import LayerResult, Node, NodeFate, NodeResult, Work


def by_loss(result: LayerResult) -> tuple[int, str]:
    """Key for a sort, largest loss first. A layer without a price may be all loss; a layout layer is."""
    lost = result.measured_ns if result.lost_ns is None else result.lost_ns
    return (-lost, result.name)


def node_results(
    nodes: Sequence[Node], works: Mapping[str, Work | None], fates: Sequence[NodeFate]
) -> tuple[NodeResult, ...]:
    """Every node with its work and its fate.

    Args:
        nodes: In graph order.
        works: Work by node name.
        fates: One for each node, in the same order.
    """
    found = []
    for node, fate in zip(nodes, fates, strict=True):
        work = works.get(node.name)
        found.append(
            NodeResult(
                name=node.name,
                op_type=node.op.op_type,
                graph=node.graph,
                fate=fate.fate,
                layers=fate.layers,
                flops=None if work is None else work.flops,
                bytes=None if work is None else work.bytes,
                reason=fate.reason,
            )
        )
    return tuple(found)
