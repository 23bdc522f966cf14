"""The ONNX graph as the layers of a TensorRT plan cut it up: neighbours that run, who owns what, regions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from trtprof.align._fates import SHAPE_OPS
from trtprof.align._graph import Key, SourceGraph, present
from trtprof.align._plan_lookup import plain
from trtprof.base.op_kinds import SHAPES, op_types
from trtprof.base.records import Node, Plan

FILLERS = op_types("fill") | {"Expand", "Tile"}


class Region(NamedTuple):
    """Nodes between tensors; ``closed`` where nothing leads into it but through these tensors."""

    nodes: list[Node]
    closed: bool


class Model:
    """The graph of the model while a plan is matched to it; without ``outputs`` what nobody reads is taken for one.

    ``before`` and ``after`` are neighbours by node, ``owners`` positions of the layers that compute it, ``parts`` the
    nodes by layer; ``shapes`` compute nothing but shapes, from shapes.
    """

    def __init__(self, nodes: Sequence[Node], plan: Plan, outputs: Collection[str]) -> None:
        self.nodes = nodes
        self.graph = SourceGraph(nodes, *_branches(nodes, plan))
        graph = self.graph
        self.position = graph.position
        self.outputs = {graph.key("", name) for name in outputs}
        self.makes, self.reads = graph.makes, graph.reads
        producer = graph.producer
        self.before: dict[str, list[Node]] = {}
        after: dict[str, list[Node]] = {node.name: [] for node in nodes}
        self.after = after
        self.shapes: set[str] = set()
        for node in nodes:
            name, op_type = node.name, node.op.op_type
            live = self.reads[name]
            makers = {maker.name: maker for key in live if (maker := producer.get(key)) is not None}
            self.before[name] = [maker for maker in makers.values() if not maker.constant]
            if node.graph not in graph.never:
                for one in makers:
                    after[one].append(node)
            if op_type in SHAPES or (
                op_type in SHAPE_OPS
                and makers
                and len(makers) == len({*live})
                and all(one in self.shapes or maker.constant for one, maker in makers.items())
            ):
                self.shapes.add(name)
        self.owners: dict[str, list[int]] = {}
        self.parts: list[dict[str, None]] = [{} for _ in plan.layers]
        # Borders that are not known let walks run far: together they may take a few steps a node.
        self.steps = 30 * (len(nodes) + len(plan.layers)) + 1000

    def claim(self, node: Node, index: int) -> None:
        """Let a layer own a node."""
        if node.name not in self.parts[index]:
            self.parts[index][node.name] = None
            self.owners.setdefault(node.name, []).append(index)

    def is_read(self, key: Key) -> bool:
        """Whether a tensor is read by a node, or given out by the model or a subgraph."""
        return bool(self.graph.readers.get(key)) or key in self.outputs or bool(key.graph) or not self.outputs

    def find(self, tensor: str) -> Key | None:
        """The ONNX tensor that a tensor of the plan is, by its plain name."""
        return self.graph.find("", plain(tensor))

    def region(self, index: int, ends: Iterable[Node], borders: Collection[Key]) -> Region:
        """The nodes upstream of ``ends`` up to tensors that a layer reads, to what other layers own, and to inputs."""
        found: dict[str, Node] = {}
        stack, closed = list(ends), True
        while stack:
            node = stack.pop()
            if node.name in found:
                continue
            self.steps -= 1
            if self.steps < 0:
                return Region(self._sorted(found.values()), closed=False)
            found[node.name] = node
            for key in self.reads[node.name]:
                if key in borders:
                    continue
                before = self.graph.producer.get(key)
                if before is None:
                    closed = False
                elif before.name in self.shapes or before.constant:
                    continue
                elif index in self.owners.get(before.name, (index,)):
                    stack.append(before)
                else:
                    closed = False
        return Region(self._sorted(found.values()), closed)

    def _sorted(self, nodes: Iterable[Node]) -> list[Node]:
        return sorted(nodes, key=lambda node: self.position[node.name])


def _branches(nodes: Sequence[Node], plan: Plan) -> tuple[set[str], set[str]]:
    """The If nodes that the engine runs as such, and all names in the plan that tell which branch it took."""
    names = {name for layer in plan.layers for name in layer.onnx_nodes}
    taken: dict[str, set[str]] = {}
    for node in nodes:
        if node.graph and (node.name in names or node.original_name in names):
            owner, _, branch = node.graph.rpartition("/")
            taken.setdefault(owner, set()).add(branch)
    running = {
        node.name
        for node in nodes
        if node.op.op_type == "If" and _undecided(node) and (len(taken.get(node.name, ())) != 1 or node.name in names)
    }
    return running, names


def _undecided(node: Node) -> bool:
    condition = next(present(node.op.inputs), None)
    return condition is None or condition.value is None
