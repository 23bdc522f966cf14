"""Who reads what from whom, of the layers of an engine and of the nodes of its model (`records.RunGraph`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trtprof.base.records import Node, PlanLayer, RunGraph

_UNKNOWN_BYTES = -1


def graph_of_plan(layers: Sequence[PlanLayer], names: Sequence[str], nodes: Sequence[Node]) -> RunGraph:
    """The graph of an engine: layers and their names in execution order, nodes in graph order.

    Edges lead to a later layer, never to a loop's next round; a name that is written several times is its last
    writer's.
    """
    makers: dict[str, int] = {}
    edges: list[tuple[int, int, str, int, str]] = []
    for at, layer in enumerate(layers):
        # A constant may be what another layer made of constants.
        reads = {tensor.name: tensor for tensor in (*layer.inputs, *layer.constants)}
        for name, read in reads.items():
            if name in makers:
                nbytes = _UNKNOWN_BYTES if read.nbytes is None else read.nbytes
                edges.append((makers[name], at, name, nbytes, read.dtype))
        makers.update((tensor.name, at) for tensor in layer.outputs)
    edges_of_nodes = node_edges(nodes)
    return RunGraph(
        layers=tuple(names),
        layer_from=tuple(edge[0] for edge in edges),
        layer_to=tuple(edge[1] for edge in edges),
        tensor=tuple(edge[2] for edge in edges),
        nbytes=tuple(edge[3] for edge in edges),
        node_from=tuple(maker for maker, _ in edges_of_nodes),
        node_to=tuple(reader for _, reader in edges_of_nodes),
        dtype=tuple(edge[4] for edge in edges),
    )


def node_edges(nodes: Sequence[Node]) -> list[tuple[int, int]]:
    """Which node reads from which, as places of maker and reader, each pair once, by reader."""
    makers = {
        (node.graph, tensor.name): at
        for at, node in enumerate(nodes)
        for tensor in node.op.outputs
        if tensor is not None
    }
    pairs: dict[tuple[int, int], None] = {}
    for at, node in enumerate(nodes):
        for tensor in node.op.inputs:
            if tensor is None:
                continue
            maker = next(
                (makers[scope, tensor.name] for scope in _scopes(node.graph) if (scope, tensor.name) in makers), at
            )
            if maker != at:
                pairs[maker, at] = None
    return list(pairs)


def _scopes(graph: str) -> Iterable[str]:
    """The graph and those around it: what is before each slash of its path, the main graph (``""``) last."""
    while graph:
        yield graph
        graph = graph.rpartition("/")[0]
    yield ""
