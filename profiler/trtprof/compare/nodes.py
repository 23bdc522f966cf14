"""Which nodes of two models are the same: by name where they kept it, else by their place in the graph.

Engine layers have names that a builder makes up, and two exports of one network may call its nodes differently; what
both models share is who reads what from whom. Nodes that only change a format (`FORMAT_OPS`) are looked through, so
that a model with QuantizeLinear and DequantizeLinear in every edge has the neighbours of the one without.

1. Nodes of the same name and op type are the same. Where numbered names have shifted (``Relu_12`` is another one now),
   neighbours do not fit: then names count for nothing.
2. Nodes with the same surroundings: colour refinement (B. Weisfeiler, A. Leman, 1968) to a fixed radius, in which nodes
   that are matched already are landmarks. A class of as many nodes on both sides is matched in graph order.
3. From matched nodes on to their neighbours, where only one of its op type is left on both sides.
4. What is left between the same neighbours on both sides has been replaced: one node by another, or by several.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from trtprof.analysis.graph import node_edges
from trtprof.base.records import NodeResult, Run, Source

FORMAT_OPS = frozenset({"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "Cast", "CastLike", "Identity"})
"""Ops that bring a value into another format, and compute nothing of the model."""

_RADII = (4, 2, 1)
_MOST_NEIGHBOURS = 64  # What more nodes read, such as a mask, tells little of each of them
_FITTING = 0.5
"""Share of the edges between nodes of the same names that must be on both sides for names to count; where there are
no such edges, the share of nodes that must have the same names."""


class NodeGraph(NamedTuple):
    """The nodes of a model and who reads from whom, format changes looked through."""

    names: tuple[str, ...]  # Unique names, in graph order
    op_types: tuple[str, ...]  # Of each
    places: tuple[str, ...]  # Of each, the subgraph that it is in, without names of nodes
    before: tuple[tuple[int, ...], ...]  # Of each, the nodes that it reads from
    after: tuple[tuple[int, ...], ...]  # Of each, the nodes that read from it


class NodeMatch(NamedTuple):
    """Nodes of an earlier model that are nodes of a later one, as places in `NodeGraph.names`."""

    pairs: dict[int, int]  # Earlier -> later
    placed: frozenset[int]  # Those of the earlier ones that were found by their place
    replaced: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]  # Groups of nodes that took each other's place


def node_graph(run: Run, source: Source | None = None) -> NodeGraph:
    """The nodes of a run; ``source`` tells the edges where it does not. Without either they are a chain."""
    nodes = run.nodes
    if run.graph is not None and run.graph.node_from:
        edges: Iterable[tuple[int, int]] = zip(run.graph.node_from, run.graph.node_to, strict=True)
    elif source is not None and len(source.nodes) == len(nodes):
        edges = node_edges(source.nodes)
    else:
        edges = zip(range(len(nodes)), range(1, len(nodes)), strict=False)
    return graph_of(nodes, edges)


def graph_of(nodes: Sequence[NodeResult], edges: Iterable[tuple[int, int]]) -> NodeGraph:
    """Nodes with their edges, format changes looked through."""
    readers: list[list[int]] = [[] for _ in nodes]
    makers: list[list[int]] = [[] for _ in nodes]
    for maker, reader in edges:
        readers[maker].append(reader)
        makers[reader].append(maker)
    formats = [node.op_type in FORMAT_OPS for node in nodes]
    return NodeGraph(
        tuple(node.name for node in nodes),
        tuple(node.op_type for node in nodes),
        tuple("/".join(part for part in node.graph.split("/")[1::2]) for node in nodes),
        _through(makers, formats),
        _through(readers, formats),
    )


def _through(neighbours: Sequence[Sequence[int]], formats: Sequence[bool]) -> tuple[tuple[int, ...], ...]:
    """Neighbours of every node, with those of a format change in its place."""

    def found(at: int) -> tuple[int, ...]:
        seen: dict[int, None] = {}
        visited = {at}
        # Depth first and in order, without recursion: a chain of format changes may be long.
        stack = list(reversed(neighbours[at]))
        while stack:
            one = stack.pop()
            if one in visited:
                continue
            visited.add(one)
            if formats[one]:
                stack.extend(reversed(neighbours[one]))
            else:
                seen[one] = None
        return tuple(seen)

    return tuple(found(at) for at in range(len(neighbours)))


def match_nodes(before: NodeGraph, after: NodeGraph) -> NodeMatch:
    """The nodes that both models have, and those that took each other's place."""
    pairs = _by_name(before, after)
    named = frozenset(pairs)
    back = {later: earlier for earlier, later in pairs.items()}
    if len(pairs) < len(before.names) and len(pairs) < len(after.names):
        _spread(before, after, pairs, back, deque(pairs.items()))
        for radius in _RADII:
            found = _by_surroundings(before, after, pairs, back, radius)
            pairs.update(found)
            back.update({later: earlier for earlier, later in found.items()})
            _spread(before, after, pairs, back, deque(found.items()))
    return NodeMatch(pairs, frozenset(pairs) - named, _replaced(before, after, pairs, back))


def _by_name(before: NodeGraph, after: NodeGraph) -> dict[int, int]:
    later = {(name, op): at for at, (name, op) in enumerate(zip(after.names, after.op_types, strict=True))}
    pairs = {}
    for at, key in enumerate(zip(before.names, before.op_types, strict=True)):
        if key in later:
            pairs[at] = later[key]
    edges = fitting = 0
    for maker, readers in enumerate(before.after):
        if maker in pairs:
            for reader in readers:
                if reader in pairs:
                    edges += 1
                    fitting += pairs[reader] in after.after[pairs[maker]]
    if not edges:
        return pairs if len(pairs) >= _FITTING * min(len(before.names), len(after.names)) else {}
    return pairs if fitting >= _FITTING * edges else {}


def _colours(graph: NodeGraph, landmarks: dict[int, int], radius: int, palette: dict[object, int]) -> list[int]:
    def colour(key: object) -> int:
        return palette.setdefault(key, len(palette))

    colours = [
        colour(("landmark", landmarks[at]) if at in landmarks else (graph.op_types[at], graph.places[at]))
        for at in range(len(graph.names))
    ]
    for _ in range(radius):
        colours = [
            colours[at]
            if at in landmarks
            else colour(
                (
                    colours[at],
                    # Of what is read the order counts: a - b is not b - a.
                    tuple(colours[one] for one in graph.before[at]),
                    tuple(sorted(colours[one] for one in graph.after[at])),
                )
            )
            for at in range(len(graph.names))
        ]
    return colours


def _by_surroundings(
    before: NodeGraph, after: NodeGraph, pairs: dict[int, int], back: dict[int, int], radius: int
) -> dict[int, int]:
    palette: dict[object, int] = {}
    earlier = _colours(before, {at: at for at in pairs}, radius, palette)
    later = _colours(after, dict(back), radius, palette)
    classes: dict[int, tuple[list[int], list[int]]] = {}
    for side, colours, taken in ((0, earlier, pairs.keys()), (1, later, back.keys())):
        for at, colour in enumerate(colours):
            if at not in taken:
                classes.setdefault(colour, ([], []))[side].append(at)
    return {
        first: second
        for left, right in classes.values()
        if len(left) == len(right)
        for first, second in zip(left, right, strict=True)
    }


def _spread(
    before: NodeGraph, after: NodeGraph, pairs: dict[int, int], back: dict[int, int], fresh: deque[tuple[int, int]]
) -> None:
    """Match neighbours of freshly matched nodes, and theirs, where there is one choice on both sides."""
    while fresh:
        first, second = fresh.popleft()
        for left, right in ((before.after[first], after.after[second]), (before.before[first], after.before[second])):
            open_left = [at for at in left if at not in pairs]
            open_right = [at for at in right if at not in back]
            if not open_left or not open_right or len(left) > _MOST_NEIGHBOURS:
                continue
            for op_type, count in Counter(before.op_types[at] for at in open_left).items():
                choices = [at for at in open_right if after.op_types[at] == op_type]
                if count == 1 and len(choices) == 1:
                    one = next(at for at in open_left if before.op_types[at] == op_type)
                    if before.places[one] == after.places[choices[0]]:
                        pairs[one] = choices[0]
                        back[choices[0]] = one
                        fresh.append((one, choices[0]))


def _replaced(
    before: NodeGraph, after: NodeGraph, pairs: dict[int, int], back: dict[int, int]
) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
    earlier = _left_over(before, {at: at for at in pairs})
    later = _left_over(after, back)
    alone = [key for key in earlier if len(earlier[key]) == 1 and len(later.get(key, ())) == 1]
    found = [(earlier.pop(key)[0], later.pop(key)[0]) for key in alone]
    # Where more was changed around it, one end must do.
    for end in (1, 0):
        ends = []
        for groups in (earlier, later):
            by_end: dict[frozenset[int], list[tuple[int, ...]]] = {}
            for key, members in groups.items():
                if key[end]:
                    by_end.setdefault(key[end], []).extend(members)
            ends.append(by_end)
        for shared in ends[0].keys() & ends[1].keys():
            if len(ends[0][shared]) == len(ends[1][shared]) == 1:
                one, other = ends[0][shared][0], ends[1][shared][0]
                if not any(one == pair[0] or other == pair[1] for pair in found):
                    found.append((one, other))
    return tuple(sorted(found))


def _left_over(
    graph: NodeGraph, landmarks: dict[int, int]
) -> dict[tuple[frozenset[int], frozenset[int]], list[tuple[int, ...]]]:
    """Connected nodes that are not matched, by the matched ones before and behind them (of the earlier model)."""
    seen: set[int] = set()
    found: dict[tuple[frozenset[int], frozenset[int]], list[tuple[int, ...]]] = {}
    for start in range(len(graph.names)):
        if start in landmarks or start in seen or graph.op_types[start] in FORMAT_OPS:
            continue
        group, stack = [], [start]
        seen.add(start)
        heads: set[int] = set()
        tails: set[int] = set()
        while stack:
            at = stack.pop()
            group.append(at)
            for ends, neighbours in ((heads, graph.before[at]), (tails, graph.after[at])):
                for one in neighbours:
                    if one in landmarks:
                        ends.add(landmarks[one])
                    elif one not in seen:
                        seen.add(one)
                        stack.append(one)
        if heads or tails:
            found.setdefault((frozenset(heads), frozenset(tails)), []).append(tuple(sorted(group)))
    return found
