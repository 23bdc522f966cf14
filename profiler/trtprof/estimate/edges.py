"""Tensors that one layer of a plan leaves in memory for another one: fusions that did not happen, priced.

An edge saves at most what its layers would take less as one kernel. Edges of one layer overlap: their savings do not
add up. A reader joins the maker only where no path leads from the maker over a third layer to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from trtprof.base.plan_words import LAUNCHING, change, is_product, is_reduction, is_reformat
from trtprof.base.records import Estimate, MatchedLayer, Node, PlanEdge, Work
from trtprof.estimate.cache import Access
from trtprof.estimate.fusion import Group, fuse

EdgeKind = Literal["epilogue", "prologue", "pointwise", "products", "layout"]

_FAR = 4096
"""Layers between a maker and a reader from which on they are not asked to join: keeps the search for paths
linear in the number of layers."""
_BIASED = frozenset({"Conv", "ConvTranspose", "FusedConv", "FusedGemm", "Gemm"})
"""Products with a bias of their own, which an engine may run as a product and an addition."""


class Edge(NamedTuple):
    """An edge, and which layers it lies between."""

    edge: PlanEdge  # What a person reads
    maker: int  # Position in the plan of the layer that writes the tensor
    readers: tuple[int, ...]  # Positions of those that read it, in execution order
    joined: tuple[int, ...]  # Of the readers, which can be one kernel with the maker
    written: int  # Bytes that this kernel would not write; 0 where an output of the engine or another reader needs them
    read: tuple[int, ...]  # Bytes that it would not read, by reader that joins
    runs: int = 1  # How often the edge is passed in one inference; ``written`` and ``read`` are of one time


def plan_edges(
    layers: Sequence[MatchedLayer],
    accesses: Sequence[Access],
    nodes: Sequence[Node] = (),
    outputs: Sequence[str] = (),
    runs: Sequence[int] = (),
) -> tuple[Edge, ...]:
    """The edges between layers of a plan that cost a round trip through memory, in the order of their first writes.

    ``accesses`` and ``runs`` (empty where each runs once) are by layer, in execution order; ``nodes`` of the model tell
    which fusions are to be expected.
    """
    fusions = _Fusions(layers, nodes, outputs)
    values = [value for value in _values(layers, accesses, frozenset(outputs)) if value.readers]
    kinds = _Kinds(layers)
    joins = _Joins(len(layers), values)
    looped = any(times != 1 for times in runs)
    found = []
    for value in values:
        total = sum(value.writers.values())
        for maker, size in value.writers.items():
            read = value.readers
            if len(value.writers) > 1 or max(read.values()) > size:
                read = {at: min(size, whole * size // total) if total else 0 for at, whole in read.items()}
            readers = tuple(read)
            joined = tuple([at for at in readers if joins.can(maker, at)])
            kind = kinds.of(maker, readers)
            # What is made before a loop and read in it, or the other way round, is passed once.
            times = min([runs[at] for at in (maker, *readers)]) if looped else 1
            expected, reason = fusions.judge(maker, readers, joined, kind, len(value.writers))
            edge = PlanEdge(
                tensor=value.tensor,
                maker=layers[maker].layer.name,
                readers=tuple([layers[at].layer.name for at in readers]),
                kind=kind,
                expected=expected,
                reason=reason,
                bytes=(size + sum(read.values())) * times,
            )
            written = 0 if value.given_out or len(joined) < len(readers) else size
            found.append(Edge(edge, maker, readers, joined, written, tuple([read[at] for at in joined]), times))
    return tuple(found)


def priced_edges(
    edges: Sequence[Edge], works: Sequence[Work | None], estimates: Sequence[Estimate | None]
) -> tuple[PlanEdge, ...]:
    """The edges with what their layers would take less as one on a device, most first; those without a price last.

    The attainable times of the maker and of the readers that can join it, less that of one layer that does all.
    Bytes to DRAM are taken to be spread evenly over the tensors of a layer. ``works`` are of one run.
    """
    known: dict[tuple[object, ...], int | None] = {}
    """Alike layers share an estimate, and edges between such layers save the same."""
    priced = []
    for edge in edges:
        places = (edge.maker, *edge.joined)
        moved = tuple([None if (work := works[at]) is None else work.bytes for at in places])
        key = edge.runs, edge.written, edge.read, moved, tuple([id(estimates[at]) for at in places])
        if key not in known:
            known[key] = _saved(edge, works, estimates)
        priced.append(msgspec.structs.replace(edge.edge, saved_ns=known[key]))
    return tuple(sorted(priced, key=lambda edge: -1 if edge.saved_ns is None else edge.saved_ns, reverse=True))


def _saved(edge: Edge, works: Sequence[Work | None], estimates: Sequence[Estimate | None]) -> int | None:
    apart = 0
    fused: dict[str, int] = {}
    for at, spared in ((edge.maker, edge.written), *zip(edge.joined, edge.read, strict=True)):
        work, alone = works[at], estimates[at]
        if work is None or alone is None:
            return None
        apart += alone.attainable_ns
        left = max(work.bytes - spared, 0)
        for term, ns in alone.terms.items():
            if term == "launch":
                fused[term] = max(fused.get(term, 0), ns)
            elif term in ("dram", "l2") and work.bytes:
                fused[term] = fused.get(term, 0) - (-ns * left // work.bytes)
            else:
                fused[term] = fused.get(term, 0) + ns
    # No term of the fused layer is above the sum of what it was apart, so neither is the largest.
    return (apart - max(fused.values(), default=0)) * edge.runs


class _Value:
    """What a tensor holds from the first write to the next one after it was read."""

    def __init__(self, tensor: str) -> None:
        self.tensor = tensor
        self.writers: dict[int, int] = {}
        """Position of a layer -> bytes, as are ``readers``."""
        self.readers: dict[int, int] = {}
        self.given_out = False


class _Joins:
    """Which layers can be one kernel: those that no path over a third layer leads between."""

    def __init__(self, layers: int, values: Sequence[_Value]) -> None:
        self._before: list[list[int]] = [[] for _ in range(layers)]
        for value in values:
            for reader in value.readers:
                self._before[reader] += (maker for maker in value.writers if maker < reader)
        window = (1 << _FAR) - 1
        reach: list[int] = []
        """Of each layer those that it waits for: bit k is the layer k + 1 before it."""
        self._over_others: list[int] = []
        """The same without those that it only reads from itself."""
        for at, before in enumerate(self._before):
            others = own = 0
            for maker in before:
                others |= reach[maker] << (at - maker)
                own |= 1 << (at - maker - 1)
            self._over_others.append(others & window)
            reach.append((others | own) & window)

    def can(self, maker: int, reader: int) -> bool:
        """Whether a layer that reads what ``maker`` makes can be one kernel with it."""
        return reader - maker <= _FAR and not self._over_others[reader] >> (reader - maker - 1) & 1


def _values(layers: Sequence[MatchedLayer], accesses: Sequence[Access], outputs: frozenset[str]) -> list[_Value]:
    values: list[_Value] = []
    live: dict[str, _Value] = {}
    for at, (matched, access) in enumerate(zip(layers, accesses, strict=True)):
        if matched.role not in LAUNCHING:
            continue
        for name, size in access.reads.items():
            if name in live:
                live[name].readers[at] = size
        for name, size in access.writes.items():
            value = live.get(name)
            if value is None or value.readers:
                value = live[name] = _Value(name)
                values.append(value)
            value.writers[at] = size
    for name, value in live.items():
        value.given_out = name in outputs
    return values


class _Kinds:
    """What would have to fuse over an edge."""

    def __init__(self, layers: Sequence[MatchedLayer]) -> None:
        self._reformats = frozenset(at for at, matched in enumerate(layers) if is_reformat(matched))
        self._products = frozenset(at for at, matched in enumerate(layers) if is_product(matched.layer))

    def of(self, maker: int, readers: Sequence[int]) -> EdgeKind:
        if maker in self._reformats or not self._reformats.isdisjoint(readers):
            return "layout"
        multiplied = not self._products.isdisjoint(readers)
        if maker in self._products:
            return "products" if multiplied else "epilogue"
        return "prologue" if multiplied else "pointwise"


class _Fusions:
    """What engines fuse as a rule, and what stands against it."""

    def __init__(self, layers: Sequence[MatchedLayer], nodes: Sequence[Node], outputs: Sequence[str]) -> None:
        self._layers = layers
        self._groups: tuple[Group, ...] = fuse(nodes, outputs) if nodes else ()
        self._ops: Mapping[str, str] = {node.name: node.op.op_type for node in nodes}
        # Views and what is known before the run bind no layers together.
        self._home = {
            node.name: number
            for number, group in enumerate(self._groups)
            if not group.free
            for node in group.nodes
            if node.name not in group.views
        }
        self._bound = [self._home.keys() & matched.nodes for matched in layers]
        """Nodes of each layer that are in a group, as are the groups in ``_of_layer``."""
        self._of_layer = [frozenset(self._home[name] for name in names) for names in self._bound]

        self._spread = Counter(group for groups in self._of_layer for group in groups)
        """Number of layers that compute nodes of a group."""
        self._reductions = frozenset(at for at, matched in enumerate(layers) if is_reduction(matched.layer))

    def judge(
        self, maker: int, readers: Sequence[int], joined: Sequence[int], kind: EdgeKind, writers: int
    ) -> tuple[bool, str]:
        """Whether an engine fuses such layers as a rule, and why, or what stands against it."""
        against = list(self._against(maker, readers, joined, kind, writers))
        node = self._split_node(maker, readers, kind)
        if node:
            return False, "; ".join([f"both are steps of {self._words(node)}, one node of the model", *against])
        group = self._common(maker, readers)
        rule = "" if group is None else self._groups[group].rule or "product"
        if group is None or (kind == "products" and rule != "attention"):
            return False, "; ".join(against or [self._nothing_known(maker, readers)])
        first, last = self._members(maker, group)[0], self._members(readers[0], group)[-1]
        both = self._words(first) if first == last else f"{self._words(first)} and {self._words(last)}"
        return True, "; ".join([f"the rule '{rule}' makes one layer of {both}", *against])

    def _common(self, maker: int, readers: Sequence[int]) -> int | None:
        """A group with nodes of the maker and of its first reader, where fusing by groups leaves no edge."""
        own = self._of_layer[maker]
        theirs = [self._of_layer[reader] for reader in readers]
        if not all(own & each for each in theirs):
            return None
        unshared = frozenset().union(*theirs) - own | own.difference(*theirs)
        if any(sum(group in groups for groups in (own, *theirs)) == self._spread[group] for group in unshared):
            return None
        return min(own & theirs[0])

    def _split_node(self, maker: int, readers: Sequence[int], kind: EdgeKind) -> str:
        """The node that maker and reader are nothing but steps of; ``""`` where they compute several ones."""
        own = self._bound[maker]
        shared = own.intersection(*(self._bound[reader] for reader in readers))
        if not shared:
            return ""
        more = any(self._bound[reader] - shared for reader in readers)
        name = next(name for name in self._layers[maker].nodes if name in shared)
        if more and (own - shared or kind == "epilogue"):
            return ""
        return "" if kind == "epilogue" and self._ops[name] in _BIASED else name

    def _members(self, layer: int, group: int) -> list[str]:
        return [name for name in self._layers[layer].nodes if self._home.get(name) == group]

    def _against(
        self, maker: int, readers: Sequence[int], joined: Sequence[int], kind: EdgeKind, writers: int
    ) -> Iterator[str]:
        first = self._layers[maker]
        rest = [self._layers[reader] for reader in readers]
        if kind == "products":
            yield "two products"
        if kind == "layout":
            reformat = next(each for each in (first, *rest) if is_reformat(each))
            yield f"a change of layout, {change(reformat.layer)}"
        if not first.layer.inputs:
            yield "it holds constants alone"
        if len(readers) > 1:
            yield f"{len(readers)} layers read it"
        if not joined:
            yield "other layers have to run in between"
        elif len(joined) < len(readers):
            yield f"other layers have to run before {len(readers) - len(joined)} of them"
        if writers > 1:
            yield f"{writers} layers write parts of it"
        if not self._reductions.isdisjoint((maker, *readers)):
            yield "a reduction in between"
        if {each.layer.stream for each in rest} != {first.layer.stream}:
            yield "they run on different streams"

    def _nothing_known(self, maker: int, readers: Sequence[int]) -> str:
        if not self._groups:
            return "no model to tell whether engines fuse them"
        for at in (maker, *readers):
            if not self._of_layer[at]:
                return f"no node of the model is known that {self._layers[at].layer.name} computes"
        last, first = self._layers[maker].nodes[-1], self._layers[readers[0]].nodes[0]
        return f"no rule makes one layer of {self._words(last)} and {self._words(first)}"

    def _words(self, node: str) -> str:
        return f"{node} ({self._ops[node]})"
