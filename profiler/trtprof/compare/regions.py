"""Parts of a model that can be set side by side whatever an engine made of them.

A region is the least set of nodes whose layers compute nothing else on either side: a connected part of the graph of
layers before and layers after in which an edge is a node that both compute. Where an engine fuses Conv, Add and Relu
and another one only the last two, the three nodes are one region with one layer on the one side and two on the other.

Format changes (`nodes.FORMAT_OPS`) join nothing: the DequantizeLinear that two layers read would make them one. A layer
without nodes (a reformat, a copy) goes to the layer that it serves as far as that is known, else it is with all such
layers of its op type.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from trtprof.base.records import LayerResult, Run
from trtprof.compare.nodes import FORMAT_OPS, NodeMatch
from trtprof.compare.sides import Runs

KERNELS_OF_NO_LAYER = "kernels of no layer"


class Region(NamedTuple):
    """A part of the model on both sides."""

    name: str  # What to call it
    before: tuple[LayerResult, ...]  # Layers of the earlier side
    after: tuple[LayerResult, ...]  # Layers of the later side
    nodes_before: tuple[int, ...]  # Places of its nodes in the earlier `NodeGraph`
    nodes_after: tuple[int, ...]  # In the later one
    pairs: tuple[tuple[int, int], ...]  # Of its nodes, those that are the same: earlier place, later place
    replaced: bool  # Whether nodes of it took the place of others
    match: Literal["same names", "same place", "only before", "only after"]  # How its nodes were found to be the same
    extra_before: int = 0  # Kernel time that belongs to no layer
    extra_after: int = 0  # Of the later side

    @property
    def before_ns(self) -> int:
        return sum(layer.measured_ns for layer in self.before) + self.extra_before

    @property
    def after_ns(self) -> int:
        return sum(layer.measured_ns for layer in self.after) + self.extra_after


class _Union:
    def __init__(self, count: int) -> None:
        self._parent = list(range(count))

    def root(self, at: int) -> int:
        while self._parent[at] != at:
            self._parent[at] = self._parent[self._parent[at]]
            at = self._parent[at]
        return at

    def join(self, members: Iterable[int]) -> None:
        first = -1
        for at in members:
            root = self.root(at)
            if first < 0:
                first = root
            elif root != first:
                self._parent[max(root, first)] = min(root, first)
                first = min(root, first)


def regions_of(before: Runs, after: Runs, match: NodeMatch) -> tuple[Region, ...]:
    """All regions, in the order of their first layer; every layer of both sides is in exactly one."""
    sides = (before, after)
    layers = [*before.layers, *after.layers]
    starts = (0, len(before.layers))
    holders: tuple[dict[int, list[int]], dict[int, list[int]]] = ({}, {})
    nodes_of: list[tuple[int, ...]] = []
    for side, runs in enumerate(sides):
        places = runs.places
        for offset, layer in enumerate(runs.layers):
            found = tuple(places[name] for name in layer.nodes if name in places)
            nodes_of.append(found)
            ops = [runs.graph.op_types[at] for at in found]
            formats_only = all(op in FORMAT_OPS for op in ops)
            for at, op in zip(found, ops, strict=True):
                if formats_only or op not in FORMAT_OPS:
                    holders[side].setdefault(at, []).append(starts[side] + offset)
    union = _Union(len(layers))
    for at in holders[0].keys() | match.pairs.keys():
        union.join((*holders[0].get(at, ()), *holders[1].get(match.pairs.get(at, -1), ())))
    for members in holders[1].values():
        union.join(members)
    for earlier, later in match.replaced:
        union.join(
            [at for node in earlier for at in holders[0].get(node, ())]
            + [at for node in later for at in holders[1].get(node, ())]
        )
    named = _layers_without_nodes(sides, starts, nodes_of, union)
    groups: dict[int, list[int]] = {}
    for at in range(len(layers)):
        groups.setdefault(union.root(at), []).append(at)
    replaced = (
        {node for pair in match.replaced for node in pair[0]},
        {node for pair in match.replaced for node in pair[1]},
    )
    found_regions = [_region(sides, layers, members, nodes_of, match, replaced, named) for members in groups.values()]
    rest = _no_layer(before, after)
    return (*found_regions, *((rest,) if rest else ()))


def _layers_without_nodes(
    sides: Sequence[Runs], starts: Sequence[int], nodes_of: Sequence[tuple[int, ...]], union: _Union
) -> bool:
    """Join layers of no node to those that they serve, or to others like them."""
    by_name = not any(nodes_of)
    alike: dict[tuple[str, str], list[int]] = {}
    for start, runs in zip(starts, sides, strict=True):
        served = _served(runs.middle.run)
        places = {layer.name: start + offset for offset, layer in enumerate(runs.layers)}
        for offset, layer in enumerate(runs.layers):
            at = start + offset
            if nodes_of[at]:
                continue
            if by_name:
                alike.setdefault((layer.op_type, layer.name), []).append(at)
                continue
            target, seen = served.get(layer.name), {layer.name}
            while target is not None and target not in seen and not nodes_of[places.get(target, at)]:
                seen.add(target)
                target = served.get(target)
            if target in places and nodes_of[places[target]]:
                union.join((places[target], at))
            else:
                alike.setdefault((layer.op_type, ""), []).append(at)
    for members in alike.values():
        union.join(members)
    return by_name


def _served(run: Run) -> dict[str, str]:
    """The layer that a layer of no node is made for, by the name of that."""
    found: dict[str, str] = {}
    if run.graph is not None and any(not layer.nodes for layer in run.layers):
        names = run.graph.layers
        readers: dict[int, int] = {}
        makers: dict[int, int] = {}
        for maker, reader in zip(run.graph.layer_from, run.graph.layer_to, strict=True):
            # Where several read it, it is for all of them: the first is as good as any.
            readers.setdefault(maker, reader)
            makers.setdefault(reader, maker)
        places = {name: at for at, name in enumerate(names)}
        for layer in run.layers:
            at = places.get(layer.name)
            end = None if layer.nodes or at is None else readers.get(at, makers.get(at))
            if end is not None:
                found[layer.name] = names[end]
    if run.plan is not None:
        found |= {reformat.layer: reformat.serves for reformat in run.plan.reformats if reformat.serves}
    return found


def _region(
    sides: Sequence[Runs],
    layers: Sequence[LayerResult],
    members: Sequence[int],
    nodes_of: Sequence[tuple[int, ...]],
    match: NodeMatch,
    replaced: tuple[set[int], set[int]],
    by_name: bool,
) -> Region:
    split = len(sides[0].layers)
    before = tuple(layers[at] for at in members if at < split)
    after = tuple(layers[at] for at in members if at >= split)
    nodes = [
        tuple(sorted({node for at in members if (at >= split) == later for node in nodes_of[at]}))
        for later in (False, True)
    ]
    theirs = set(nodes[1])
    pairs = tuple((node, match.pairs[node]) for node in nodes[0] if match.pairs.get(node) in theirs)
    swapped = any(node in replaced[0] for node in nodes[0]) and any(node in replaced[1] for node in nodes[1])
    how: Literal["same names", "same place", "only before", "only after"]
    if not before or not after:
        how = "only before" if before else "only after"
    elif swapped or any(node in match.placed for node, _ in pairs) or not (pairs or by_name):
        how = "same place"
    else:
        how = "same names"
    side, found = (0, nodes[0]) if nodes[0] else (1, nodes[1])
    return Region(
        _name(sides[side].middle.run, found) if found else _layer_name(before or after, by_name),
        before, after, nodes[0], nodes[1], pairs, swapped, how,
    )  # fmt: skip


def _name(run: Run, nodes: Sequence[int]) -> str:
    """Of the node with most arithmetic, and how many others; format changes do not count beside others."""
    own = [at for at in nodes if run.nodes[at].op_type not in FORMAT_OPS] or list(nodes)
    heaviest = max(own, key=lambda at: (run.nodes[at].flops or 0, run.nodes[at].bytes or 0, -at))
    return run.nodes[heaviest].name + (f" +{len(own) - 1}" if len(own) > 1 else "")


def _layer_name(layers: Sequence[LayerResult], by_name: bool) -> str:
    if by_name:
        return layers[0].name
    return f"{layers[0].op_type} of no node" + (f" ({len(layers)} layers)" if len(layers) > 1 else "")


def _no_layer(before: Runs, after: Runs) -> Region | None:
    if not before.kernels_ns and not after.kernels_ns:
        return None
    how: Literal["same place", "only before", "only after"] = "same place"
    if not before.kernels_ns or not after.kernels_ns:
        how = "only before" if before.kernels_ns else "only after"
    return Region(KERNELS_OF_NO_LAYER, (), (), (), (), (), False, how, before.kernels_ns, after.kernels_ns)


def op_types(region: Region, before: Runs, after: Runs) -> str:
    """What its nodes do, in graph order: ``Conv + Relu``; several of one type are counted."""
    runs, nodes = (before, region.nodes_before) if region.nodes_before else (after, region.nodes_after)
    types = [runs.graph.op_types[at] for at in nodes]
    own = [op for op in types if op not in FORMAT_OPS] or types
    counted = Counter(own or [layer.op_type for layer in region.before or region.after])
    return " + ".join(op if count == 1 else f"{count} {op}" for op, count in counted.items())
