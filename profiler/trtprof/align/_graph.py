"""The ONNX nodes as one graph: who makes and who reads each tensor, across subgraphs.

Tensors are known by the graph in which their maker runs: branches of an If may use the same names. A branch whose If is
decided before the run counts as part of the graph around it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from trtprof.base.op_kinds import RANDOM
from trtprof.base.records import Node, Tensor

SAME_VALUES = frozenset({"Identity", "Dropout"})
_VALUE_IN_ATTRIBUTE = frozenset({"Constant", "ConstantOfShape"})


class Key(NamedTuple):
    """A tensor: the graph in which it lives, and its name there."""

    graph: str
    name: str


def present(tensors: Iterable[Tensor | None]) -> Iterator[Tensor]:
    """The tensors that are not omitted."""
    return (tensor for tensor in tensors if tensor is not None)


class SourceGraph:
    """Makers and readers of every ONNX tensor, and which tensors must hold the same values.

    ``running`` are the If nodes that the engine runs as such; ``engine_names`` tell which branch it took of another.
    ``never`` are paths of subgraphs that never run, ``inlined`` the If nodes whose branch runs in their place.
    """

    def __init__(self, nodes: Sequence[Node], running: Collection[str], engine_names: Collection[str]) -> None:
        self.nodes = nodes
        self.by_name = {node.name: node for node in nodes}
        self.position = {node.name: index for index, node in enumerate(nodes)}
        self.never: set[str] = set()
        self.inlined: set[str] = set()
        self._place: dict[str, str] = {"": ""}
        self._parent: dict[str, str] = {}
        self._renamed: dict[Key, Key] = {}
        self._alias: dict[Key, Key] = {}
        self._place_graphs(running, engine_names)
        self.producer: dict[Key, Node] = {}
        self.readers: dict[Key, list[Node]] = defaultdict(list)
        self._unread: set[Key] = set()
        self._main: dict[str, Key] = {}
        self._read: dict[str, list[Key]] = {}
        self.makes: dict[str, list[Key]] = {}
        self.reads: dict[str, list[Key]] = {}
        self._index()

    # --- scopes -----------------------------------------------------------------------------

    def _place_graphs(self, running: Collection[str], engine_names: Collection[str]) -> None:
        by_graph: dict[str, list[Node]] = defaultdict(list)
        for node in self.nodes:
            by_graph[node.graph].append(node)
        decided: dict[str, str] = {}
        for path, body in by_graph.items():
            owner = self.by_name.get(path.rpartition("/")[0])
            if owner is None:
                self._place.setdefault(path, path)
                self._parent.setdefault(path, "")
                continue
            self._parent[path] = self._place[owner.graph]
            self._place[path] = path
            if owner.op.op_type != "If" or owner.name in running:
                if owner.graph in self.never:
                    self.never.add(path)
                continue
            if owner.name not in decided:
                decided[owner.name] = _branch_taken(owner, by_graph, engine_names)
            if path == f"{owner.name}/{decided[owner.name]}" and owner.graph not in self.never:
                self._place[path] = self._place[owner.graph]
                self.inlined.add(owner.name)
                # Outputs of a branch become those of its If; the runtime prefixes its other tensors.
                place, prefix = self._place[path], _inline_prefix(path)
                read = {tensor.name for node in body for tensor in present(node.op.inputs)}
                made = [tensor.name for node in body for tensor in present(node.op.outputs)]
                for name in made:
                    self._renamed[Key(place, prefix + name)] = Key(place, name)
                results = [name for name in made if name not in read]
                outputs = [tensor.name for tensor in present(owner.op.outputs)]
                if len(results) != len(outputs):
                    results = [tensor.name for tensor in present(body[-1].op.outputs)]
                if len(results) == len(outputs):
                    for inner, outer in zip(results, outputs, strict=True):
                        self._alias[Key(place, inner)] = Key(place, outer)
            else:
                self.never.add(path)

    def _index(self) -> None:
        main, producer, readers = self._main, self.producer, self.readers
        for node in self.nodes:
            place = self._place[node.graph]
            made = [
                (not place and main.get(tensor.name)) or self._key_at(place, tensor.name)
                for tensor in node.op.outputs
                if tensor is not None
            ]
            made = self.makes[node.name] = [self._alias.get(key, key) for key in made] if self._alias else made
            if node.name not in self.inlined:
                for key in made:
                    producer[key] = node
        for node in self.nodes:
            graph = node.graph
            plain = not graph and not self._alias
            read: list[Key] = []
            live: list[Key] = []
            for tensor in node.op.inputs:
                if tensor is not None:
                    key = (plain and main.get(tensor.name)) or self.key(graph, tensor.name)
                    read.append(key)
                    if not tensor.constant:
                        live.append(key)
            self._read[node.name], self.reads[node.name] = read, live
            if graph not in self.never:
                for key in read:
                    readers[key].append(node)
            else:
                self._unread.update(read)

    def _key_at(self, place: str, name: str) -> Key:
        """A key, made once for each tensor of the main graph: large models have tens of thousands."""
        if place:
            return Key(place, name)
        found = self._main.get(name)
        if found is None:
            found = self._main[name] = Key("", name)
        return found

    def key(self, graph: str, name: str) -> Key:
        """The tensor that a node of this graph means by a name: its own graph's, or one around it."""
        place = at = self._place.get(graph, graph)
        if not at and not self._alias:
            return self._key_at("", name)
        while True:
            found = self._key_at(at, name)
            found = self._alias.get(found, found)
            if found in self.producer:
                return found
            if not at:
                return Key(place, name)
            at = self._parent.get(at, "")

    def outputs(self, node: Node) -> list[Key]:
        """The tensors that a node makes, those omitted left out."""
        return self.makes[node.name]

    def inputs(self, node: Node) -> list[Key]:
        """The tensors that a node reads, those omitted left out."""
        return self._read[node.name]

    def find(self, graph: str, name: str) -> Key | None:
        """The ONNX tensor that an engine tensor of this name in this graph is, if there is one."""
        key = self.key(graph, name)
        if key in self.producer or key in self.readers or key in self._unread:
            return key
        return self._renamed.get(Key(self._place.get(graph, graph), name))

    # --- tensors with the same values -------------------------------------------------------

    def classes(self, *, strict: bool, fills_alike: bool = False) -> dict[Key, int]:
        """Tensors of one class are made in the same way from the same tensors.

        Strict classes hold the same values for sure; the others take constants of one shape and type for the same,
        because weights are not read. With ``fills_alike`` strict ones take what a ConstantOfShape fills for the same,
        too.
        """
        owners = {path.rpartition("/")[0] for path in self._place if path}
        numbers: dict[Hashable, int] = {}
        found: dict[Key, int] = {}
        for node in self.nodes:
            read: list[Hashable] = []
            for tensor, key in zip(present(node.op.inputs), self.inputs(node), strict=True):
                if key in found:
                    read.append(found[key])
                elif tensor.constant and (tensor.value is not None or not strict):
                    read.append((tensor.dtype, tensor.shape, tensor.value))
                else:
                    found[key] = numbers.setdefault(key, len(numbers))
                    read.append(found[key])
            op = node.op
            way: Hashable = (op.domain, op.op_type, tuple(sorted(op.attributes.items())), tuple(read))
            outputs = list(present(op.outputs))
            if op.op_type in _VALUE_IN_ATTRIBUTE and outputs:
                value = outputs[0].value
                known = value is not None or (fills_alike and op.op_type == "ConstantOfShape")
                way = node.name if strict and not known else (outputs[0].dtype, outputs[0].shape, value)
            elif op.op_type in RANDOM or node.name in owners:
                way = node.name
            for index, key in enumerate(self.outputs(node)):
                if op.op_type in SAME_VALUES and not index and read and isinstance(read[0], int):
                    found.setdefault(key, read[0])
                else:
                    found.setdefault(key, numbers.setdefault((way, index), len(numbers)))
        return found


def _inline_prefix(path: str) -> str:
    """What ONNX Runtime puts before the names of a branch that it inlines: ``_If_3_then_branch_``."""
    owner, _, attribute = path.rpartition("/")
    return f"_{owner}_{attribute}_"


def _branch_taken(owner: Node, by_graph: Mapping[str, Sequence[Node]], engine_names: Collection[str]) -> str:
    """Which branch of an If the engine took before the run, or an empty string."""
    condition = next(present(owner.op.inputs), None)
    if condition is not None and condition.value:
        return "then_branch" if condition.value[0] else "else_branch"
    for branch in ("then_branch", "else_branch"):
        prefix = _inline_prefix(f"{owner.name}/{branch}")
        names = {node.name for node in by_graph.get(f"{owner.name}/{branch}", ())}
        if any(name.startswith(prefix) or name in names for name in engine_names):
            return branch
    return ""
