"""Names that a TensorRT plan gives for ONNX nodes, looked up in the model."""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from trtprof.align._graph import present
from trtprof.base.records import Node, PlanLayer

_MYELIN = re.compile(r"_myl\d+$")
_PROFILE = re.compile(r" \[profile \d+\]")
_CLONE = re.compile(r"(?:_clone_\d+| copy)$")
_RENUMBERED = re.compile(r"\.\d+(?:_\d+)?$")
_TYPE_AND_PLACE = re.compile(r"([A-Za-z]\w*)_(\d+)$")
_INTERNAL = re.compile(r"^__mye\d+")
_UNNAMED = "node_of_"  # What the ONNX parser calls a node without a name, before the name of its first output
_JOINTS = (" + ", " || ", ", ")  # What a node's own name may hold, though names of layers are split there
_MOST_PARTS = 6
_MOST_TRIMS = 8
_MOST_OF_ONE_NAME = 16


class Named(NamedTuple):
    """The nodes that a layer names."""

    nodes: tuple[Node, ...] = ()  # Those of the model
    guessed: tuple[str, ...] = ()  # Names of those among them that the layer does not give literally
    added: tuple[str, ...] = ()  # Names that a conversion gave to nodes which the model does not have
    weights: tuple[str, ...] = ()  # Names of constant tensors
    unknown: tuple[str, ...] = ()  # Names that the model does not have


class Lookup:
    """Nodes by any of the names that TensorRT may know them by."""

    def __init__(self, nodes: Sequence[Node], layers: Iterable[PlanLayer], added: Collection[str]) -> None:
        self.by_name = {node.name: node for node in nodes}
        self.added = frozenset(added)
        self._nodes = nodes
        self._calls: dict[str, list[Node]] = defaultdict(list)
        """The nodes that a custom node stands for."""
        for node in nodes:
            if node.call is not None:
                self._calls[node.call.name].append(node)
        self._uses: dict[str, int] = defaultdict(int)
        self._seen: dict[str, int] = defaultdict(int)
        for layer in layers:
            for name in layer.onnx_nodes:
                self._uses[name] += 1
        renamed = [node for node in nodes if node.name != node.original_name]
        # Built from the file itself, an engine knows two nodes of one name by that name only.
        self._as_in_file = not any(node.original_name and node.name in self._uses for node in renamed)
        self._once_called: dict[str, list[Node]] = defaultdict(list)
        for node in renamed:
            self._once_called[node.original_name].append(node)
        self._sure = {name: node for name, node in self.by_name.items() if name not in self._once_called}
        """Nodes by names that no other node has or had."""

    @functools.cached_property
    def _made_by(self) -> dict[str, Node]:
        """Tensor -> the node that makes it; of tensors of one name the first."""
        return {tensor.name: node for node in reversed(self._nodes) for tensor in present(node.op.outputs)}

    @functools.cached_property
    def _constants(self) -> frozenset[str]:
        """Constant tensors that no node makes."""
        read = {tensor.name for node in self._nodes for tensor in present(node.op.inputs) if tensor.constant}
        return frozenset(read - self._made_by.keys())

    @functools.cached_property
    def _places(self) -> list[Node]:
        """The nodes of the main graph, in order."""
        return [node for node in self._nodes if not node.graph]

    def _called(self, name: str) -> list[Node]:
        """The nodes that the file calls so."""
        own = self.by_name.get(name)
        return [*([own] if own is not None and own.original_name == name else ()), *self._once_called.get(name, ())]

    def of_layer(self, layer: PlanLayer) -> Named:
        """The nodes that a layer names, each once."""
        clear = tuple([self._sure[name] for name in layer.onnx_nodes if name in self._sure])
        if len(clear) == len(layer.onnx_nodes):
            return Named(clear)
        nodes: dict[str, Node] = {}
        guessed: dict[str, None] = {}
        lists: dict[str, dict[str, None]] = {"added": {}, "weights": {}, "unknown": {}}
        parts = layer.onnx_nodes
        at = 0
        while at < len(parts):
            name, used = self._joined(parts, at, layer)
            at += used
            found, sure = self._find(name)
            for node in found:
                nodes.setdefault(node.name, node)
                if not sure:
                    guessed.setdefault(node.name)
            if not found:
                kind = "added" if name in self.added else "weights" if name in self._constants else "unknown"
                lists[kind].setdefault(name)
        return Named(tuple(nodes.values()), tuple(guessed), *(tuple(lists[kind]) for kind in lists))

    def _joined(self, parts: Sequence[str], at: int, layer: PlanLayer) -> tuple[str, int]:
        """The name that begins at a part, and how many parts it takes: a node's own name may hold `` + ``."""
        name = parts[at]
        if layer.nodes_from != "name" or name in self.by_name or name in self._once_called:
            return name, 1
        for end in range(min(len(parts), at + _MOST_PARTS), at + 1, -1):
            for joint in _JOINTS:
                whole = joint.join(parts[at:end])
                if whole in self.by_name or whole in self._once_called:
                    return whole, end - at
        return name, 1

    def _find(self, name: str) -> tuple[list[Node], bool]:
        """The nodes of a name, and whether it is theirs for sure."""
        if name in self.by_name and name not in self._once_called:
            return [self.by_name[name]], True
        called = self._called(name) if name else []
        if len(called) > 1 and self._as_in_file:
            # As many layers as bearers: one each, in order. Otherwise it may be any of them.
            order = self._seen[name]
            self._seen[name] += 1
            if self._uses[name] == len(called):
                return [called[order]], False
            return (list(called) if len(called) <= _MOST_OF_ONE_NAME else []), False
        if name in self.by_name:
            return [self.by_name[name]], True
        if called:
            return list(called), len(called) == 1
        if name in self._calls:
            return self._calls[name], True
        if name in self.added or name in self._constants:
            return [], True
        if name.startswith(_UNNAMED) and (node := self._made_by.get(name.removeprefix(_UNNAMED))):
            return [node], True
        return self._guess(name), False

    def _guess(self, name: str) -> list[Node]:
        bare = _CLONE.sub("", _PROFILE.sub("", name))
        if bare in self.by_name:
            return [self.by_name[bare]]
        if place := _TYPE_AND_PLACE.match(bare):
            at = int(place[2]) if len(place[2]) < 10 else len(self._places)
            node = self._places[at] if at < len(self._places) else None
            if node is not None and node.op.op_type == place[1] and not node.original_name:
                return [node]
        if "+" in bare:
            found = [self.by_name.get(part.strip()) for part in bare.split("+")]
            if all(found):
                return [node for node in found if node is not None]
        return []

    # --- names of tensors -------------------------------------------------------------------

    def near(self, tensor: str) -> Node | None:
        """The node that the name of an internal tensor points at: it makes it, reads it, or holds it inside.

        TensorRT calls results after layers (``/lstm/LSTM_0_output``), Myelin copies of what a node *reads* after what
        it makes: ``y.1_15_myl0``.
        """
        text = _MYELIN.sub("", _PROFILE.sub("", tensor)).rpartition("^")[2]
        text = _INTERNAL.sub("", text)
        if (made := self._made_by.get(text) or self._made_by.get(_RENUMBERED.sub("", text))) is not None:
            return made
        for _ in range(_MOST_TRIMS):
            if text in self.by_name:
                return self.by_name[text]
            cut = max(text.rfind(mark) for mark in "_.-")
            if cut <= 0:
                return None
            text = text[:cut]
        return None


def plain(tensor: str) -> str:
    """The name of a tensor without the mark of the optimisation profile."""
    return _PROFILE.sub("", tensor) if " [profile " in tensor else tensor
