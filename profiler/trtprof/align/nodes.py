"""Engine layers led back to ONNX nodes, many to many, with a confidence and a reason.

A layer computes the region between its input and its output tensors. Where the backend renamed them (blocked layouts)
the node that its name points at is the anchor, and declared fusions (``activation``, a summand) say how far the region
goes. Evidence in this order: own tensors; tensors behind a reorder; the name that a tensor had; the name of the layer.
No region grows over a tensor that another layer makes, or into a node that another layer is called after.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import Literal

import msgspec

from trtprof.align._fates import PASS_THROUGH, is_shape_arithmetic, settled_before_run
from trtprof.align._graph import SAME_VALUES, Key, SourceGraph, present
from trtprof.base.records import Layer, MatchConfidence, Node, NodeFate, Tensor

_MOVERS = frozenset({"Transpose", "Cast"})  # What a backend inserts between layers on its own account
_FOLDS_INTO_WEIGHTS = frozenset({"BatchNormalization", "Mul", "Add", "Sub", "Div"})
_HAS_WEIGHTS = ("Conv", "Gemm", "MatMul")
_CAST_BY_RUNTIME = re.compile(r"^(?:Inserted(?:PrecisionFree)?Cast_)+")
"""What ONNX Runtime puts in front of a tensor's name where it holds the same values in fp32."""
_FUSED_TO_ONNX_ACTIVATION = {"Clip": {"Clip", "Relu6"}, "Relu": {"Relu"}, "LeakyRelu": {"LeakyRelu"}}


def match_layers(nodes: Sequence[Node], layers: Sequence[Layer]) -> tuple[tuple[Layer, ...], tuple[NodeFate, ...]]:
    """The layers with nodes, match and reason, and the fate of every node, in the orders given: outer before inner.

    A node's fate is ``layer`` exactly when it stands in `Layer.nodes` of the layers that it names.
    """
    return _Matcher(nodes, layers).run()


class _Matcher:
    def __init__(self, nodes: Sequence[Node], layers: Sequence[Layer]) -> None:
        self.layers = layers
        names = {name for layer in layers for name in _names(layer)}
        running = {hint for layer in layers if layer.role == "control" for hint in (layer.name, *layer.hints)}
        self.graph = SourceGraph(nodes, running, names)
        self.anchored: dict[str, int] = {}
        for index, layer in enumerate(layers):
            for hint in layer.hints:
                if hint in self.graph.by_name:
                    self.anchored.setdefault(hint, index)
        self.maker: dict[tuple[str, str], int] = {}
        self.users: dict[tuple[str, str], list[int]] = defaultdict(list)
        for index, layer in enumerate(layers):
            for tensor in present(layer.op.outputs):
                self.maker[layer.graph, tensor.name] = index
            for tensor in present(layer.op.inputs):
                self.users[layer.graph, tensor.name].append(index)
        # Engine tensor -> the ONNX tensor that it holds, whatever its name or layout.
        self.holds: dict[tuple[str, str], Key] = {}
        # What is made -> the layers that make it, -1 for what is there from the start.
        self.made: dict[Hashable, list[int]] = defaultdict(list)
        self.own_name: set[Key] = set()
        self.certain: set[tuple[str, str]] = set()
        self.ends: dict[str, int] = {}
        self.regions: list[list[str]] = [[] for _ in layers]
        self.verdicts: list[tuple[MatchConfidence, str]] = [("none", "") for _ in layers]
        self.roles: list[Literal["compute", "layout", "control"]] = [layer.role for layer in layers]
        self.unresolved: set[int] = set()
        self.strict = self.graph.classes(strict=True)
        self.loose = self.graph.classes(strict=False)
        self._paths: dict[str, str] = {}

    def run(self) -> tuple[tuple[Layer, ...], tuple[NodeFate, ...]]:
        paths = {layer.graph for layer in self.layers if layer.graph}
        for layer in self.layers:
            if layer.role != "control":
                continue
            node = next((hint for hint in layer.hints if hint in self.graph.by_name), None)
            if node is None:
                made = [self._find(layer, tensor) for tensor in present(layer.op.outputs)]
                node = next((self.graph.producer[key].name for key in made if key in self.graph.producer), None)
            if node is not None:
                own = [path for path in paths if path.rpartition("/")[0] == layer.name]
                self._paths.update((path, f"{node}/{path.rpartition('/')[2]}") for path in own)
        self._identify_tensors()
        for index in range(len(self.layers)):
            self._match(index)
        for index in reversed(range(len(self.layers))):
            if index in self.unresolved:
                self._match_by_users(index)
        fates = self._fates()
        matched = tuple(
            msgspec.structs.replace(
                layer, nodes=tuple(self.regions[index]), role=self.roles[index],
                match=self.verdicts[index][0], reason=self.verdicts[index][1],
            )
            for index, layer in enumerate(self.layers)
        )  # fmt: skip
        return matched, fates

    # --- which ONNX tensor does an engine tensor hold? --------------------------------------

    def _find(self, layer: Layer, tensor: Tensor) -> Key | None:
        path = self._paths.get(layer.graph, layer.graph)
        return self.graph.find(path, tensor.name) or self.graph.find(path, _CAST_BY_RUNTIME.sub("", tensor.name))

    def _identify_tensors(self) -> None:
        for layer in self.layers:
            for tensor in (*present(layer.op.inputs), *present(layer.op.outputs)):
                key = self._find(layer, tensor)
                if key is not None:
                    self._hold((layer.graph, tensor.name), key)
                    self.certain.add((layer.graph, tensor.name))
                    self.own_name.add(key)
        # The other side of a reorder holds the same values, which is surer than any name.
        for index in reversed(range(len(self.layers))):
            layer = self.layers[index]
            if self._keeps_values(layer) or self._inserted_behind(index):
                self._same(layer, layer.op.outputs, layer.op.inputs)
        for index, layer in enumerate(self.layers):
            output = next(present(layer.op.outputs), None)
            if output is None:
                continue
            if (layer.graph, output.name) not in self.holds:
                began = next(filter(None, (self._hinted(layer, hint) for hint in layer.output_hints)), None)
                if began is not None:
                    self._hold((layer.graph, output.name), began)
            for end in self._known_ends(layer):
                if layer.role != "layout":
                    self.ends.setdefault(end.name, index)

    def _hinted(self, layer: Layer, hint: str) -> Key | None:
        """The tensor of this name, or the result of the node of this name: moved results are called after it."""
        hint = _CAST_BY_RUNTIME.sub("", hint)
        key = self.graph.key(self._paths.get(layer.graph, layer.graph), hint)
        if key in self.graph.producer:
            return key
        node = self.graph.by_name.get(hint)
        return self.graph.outputs(node)[0] if node is not None and node.op.outputs else None

    def _hold(self, tensor: tuple[str, str], key: Key) -> None:
        before = self.holds.get(tensor)
        maker = self.maker.get(tensor, -1)
        if before is not None:
            self.made[self._same_as(before)].remove(maker)
        self.holds[tensor] = key
        self.made[self._same_as(key)].append(maker)

    def _same_as(self, key: Key) -> Hashable:
        """What all tensors with these values have in common."""
        return self.strict.get(key, key)

    def _made_before(self, index: int, key: Key) -> bool:
        """Whether a layer that can have run before this one leaves these values in an engine tensor."""
        return any(maker < index for maker in self.made.get(self._same_as(key), ()))

    def _same(self, layer: Layer, known: Iterable[Tensor | None], unknown: Iterable[Tensor | None]) -> None:
        for one, other in zip(present(known), present(unknown), strict=False):
            source, target = (layer.graph, one.name), (layer.graph, other.name)
            if source in self.holds and target not in self.holds and not other.constant:
                self._hold(target, self.holds[source])
                if source in self.certain:
                    self.certain.add(target)

    @staticmethod
    def _keeps_values(layer: Layer) -> bool:
        """Whether a layer only reorders; with ``channels_last`` it does a Transpose of the model on the way."""
        return layer.role == "layout" and not layer.op.attributes.get("channels_last")

    def _inserted_behind(self, index: int) -> bool:
        """Whether a Transpose or Cast was put behind a layer to bring its result into the shape asked for."""
        layer = self.layers[index]
        output = next(present(layer.op.outputs), None)
        entry = next(present(layer.op.inputs), None)
        if layer.op.op_type not in _MOVERS or output is None or entry is None or self._anchors(layer):
            return False
        end = self.graph.producer.get(self.holds.get((layer.graph, output.name), Key("", "")))
        before = self.maker.get((layer.graph, entry.name))
        if end is None or before is None or (layer.graph, entry.name) in self.holds or end.op.op_type in PASS_THROUGH:
            return False
        named = self.layers[before]
        return bool(self._anchors(named) or named.output_hints or named.op.op_type == end.op.op_type)

    def _anchors(self, layer: Layer) -> list[Node]:
        return [self.graph.by_name[hint] for hint in layer.hints if hint in self.graph.by_name]

    def _known_ends(self, layer: Layer) -> list[Node]:
        """The nodes whose results the layer's outputs hold, as far as that is known."""
        held = [self.holds.get((layer.graph, tensor.name)) for tensor in present(layer.op.outputs)]
        nodes = [self.graph.producer[key] for key in held if key in self.graph.producer]
        return list({node.name: node for node in nodes}.values())

    # --- which nodes does a layer compute? --------------------------------------------------

    def _match(self, index: int) -> None:
        layer = self.layers[index]
        if layer.role == "layout":
            self._match_layout(index)
            return
        if self._keeps_same(layer) and not self._anchors(layer):
            self._moves(index)
            return
        anchors, ends = self._anchors(layer), self._known_ends(layer)
        certain = any((layer.graph, tensor.name) in self.certain for tensor in present(layer.op.outputs))
        if not certain and (ends or anchors):
            # The layer is called after a tensor or node from which later fusions may have gone on.
            ends = [self._extend(index, node) for node in ends or anchors]
            for inner, outer in zip(present(layer.op.outputs), self.graph.outputs(ends[-1]), strict=False):
                self._hold((layer.graph, inner.name), outer)
        if not ends:
            if layer.op.op_type in _MOVERS:
                self._same(layer, layer.op.inputs, layer.op.outputs)
            self.unresolved.add(index)
            return
        region, closed = self._region(index, [*ends, *anchors])
        self.regions[index] = region
        if closed and (certain or layer.output_hints):
            reason = "its tensors are the borders of these nodes" if not anchors else "name and tensors agree"
            self.verdicts[index] = ("exact", reason)
        elif anchors:
            how = "its name, and the fusions it declares" if len(region) > 1 else "its name"
            self.verdicts[index] = ("exact", how)
        else:
            self.verdicts[index] = ("inferred", "its output is known, its inputs only in part")

    def _match_layout(self, index: int) -> None:
        layer = self.layers[index]
        if self._keeps_values(layer):
            self._same(layer, layer.op.inputs, layer.op.outputs)
        elif ends := [end for end in self._known_ends(layer) if self.ends.get(end.name, index) == index]:
            region, closed = self._region(index, ends)
            if closed:
                self.regions[index] = region
                self.verdicts[index] = ("exact", f"changes the layout, and does {region[-1]!r} on the way")
                return
        held = [self.holds.get((layer.graph, tensor.name)) for tensor in present(layer.op.outputs)]
        known = [key for key in held if key is not None]
        if known:
            reason = f"changes the layout of tensor {known[0].name!r}; no ONNX node asks for it"
            self.verdicts[index] = ("exact", reason)
        else:
            self.verdicts[index] = ("inferred", "changes a layout; no ONNX node asks for it")

    def _keeps_same(self, layer: Layer) -> bool:
        """Whether both sides of a Transpose or Cast are known to hold one ONNX tensor."""
        sides = [next(present(tensors), None) for tensors in (layer.op.inputs, layer.op.outputs)]
        held = [None if side is None else self.holds.get((layer.graph, side.name)) for side in sides]
        return layer.op.op_type in _MOVERS and held[0] is not None and held[0] == held[1]

    def _moves(self, index: int) -> None:
        layer = self.layers[index]
        output = next(present(layer.op.outputs))
        self.roles[index] = "layout"
        held = self.holds[layer.graph, output.name].name
        self.verdicts[index] = ("inferred", f"inserted by the backend to move tensor {held!r}")

    def _match_by_users(self, index: int) -> None:
        """A layer without a name in the model: part of what the layers that read it compute, or a mover."""
        layer = self.layers[index]
        outputs = [(layer.graph, tensor.name) for tensor in present(layer.op.outputs)]
        users = [user for output in outputs for user in self.users.get(output, ())]
        typed = [user for user in users if self._does_as_named(user)]
        if layer.op.op_type in _MOVERS and users and len(typed) == len(users) and outputs[0] in self.holds:
            self._moves(index)
            return
        for user in users:
            if self.regions[user]:
                node = self.graph.by_name[self.regions[user][0]]
                self.regions[index] = [node.name]
                self.verdicts[index] = (
                    "inferred",
                    f"a step of {node.name!r}, which the backend runs in several layers",
                )
                return
        self.verdicts[index] = ("none", "neither its name nor its tensors occur in the model")

    def _does_as_named(self, index: int) -> bool:
        """Whether a layer is a whole node or more, not a step of one."""
        if self.roles[index] == "layout":
            return True
        layer = self.layers[index]
        return bool(self._anchors(layer) or layer.output_hints) or layer.op.op_type in {
            self.graph.by_name[name].op.op_type for name in self.regions[index]
        }

    def _extend(self, index: int, anchor: Node) -> Node:
        """The last node downstream of an anchor that the layer says it has swallowed."""
        layer = self.layers[index]
        activation = layer.op.attributes.get("activation")
        wanted = _FUSED_TO_ONNX_ACTIVATION.get(str(activation), {str(activation)}) if activation else set()
        quantizes = layer.op.op_type.startswith(("QLinear", "QGemm"))
        # The NCHWc transformer names a layer when its weights are final.
        scales = not layer.output_hints and any(name in layer.op.op_type for name in _HAS_WEIGHTS)
        summand = None if quantizes or len(layer.op.inputs) < 4 else layer.op.inputs[3]
        end = node = anchor
        while True:
            outputs = self.graph.outputs(node)
            following = self.graph.readers.get(outputs[0], []) if outputs else []
            if len(following) != 1 or outputs[0] in self.own_name:
                return end
            after = following[0]
            if after.name in self.anchored or self.ends.get(after.name, index) != index:
                return end
            others = [
                (tensor, key)
                for tensor, key in zip(present(after.op.inputs), self.graph.inputs(after), strict=True)
                if key != outputs[0]
            ]
            scaling = (
                scales and after.op.op_type in _FOLDS_INTO_WEIGHTS and all(tensor.constant for tensor, _ in others)
            )
            if (
                summand is not None
                and after.op.op_type in ("Add", "Sum")
                and len(others) == 1
                and self.holds.get((layer.graph, summand.name), others[0][1]) == others[0][1]
            ):
                summand = None
            elif quantizes and after.op.op_type == "QuantizeLinear":
                return after
            elif after.op.op_type in wanted:
                wanted = set()
            elif after.op.op_type in SAME_VALUES:
                node = after
                continue  # swallowed only if something behind it is
            elif not scaling and not (quantizes and after.op.op_type in ("Relu", "Clip")):
                return end
            end = node = after

    def _region(self, index: int, ends: Sequence[Node]) -> tuple[list[str], bool]:
        """Nodes between a layer's inputs and these end nodes, and whether all borders were its own."""
        layer = self.layers[index]
        borders = {
            self.holds[layer.graph, tensor.name]
            for tensor in present(layer.op.inputs)
            if (layer.graph, tensor.name) in self.holds
        }
        borders -= {key for end in ends for key in self.graph.outputs(end)}
        values = {self._same_as(key) for key in borders}
        found, closed, reached, passed = self._walk(index, ends, values, set())
        doubles = {self.loose[key] for key in borders if key in self.loose and self._same_as(key) not in reached}
        if any(self.loose.get(key) in doubles for key in passed):
            # An input that the walk did not meet, but its likeness: the backend merged the two.
            # Weights were not compared, so that is no more than likely.
            found, closed = self._walk(index, ends, values, doubles)[0], False
        kept = [node for node in found.values() if node in ends or not is_shape_arithmetic(node)]
        return sorted((node.name for node in kept), key=self.graph.position.__getitem__), closed

    def _walk(
        self, index: int, ends: Sequence[Node], borders: set[Hashable], doubles: set[int]
    ) -> tuple[dict[str, Node], bool, set[Hashable], set[Key]]:
        """Upstream from the ends to the borders, or to what other layers make."""
        found: dict[str, Node] = {}
        reached: set[Hashable] = set()
        passed: set[Key] = set()
        stack, closed = list(ends), True
        while stack:
            node = stack.pop()
            if node.name in found:
                continue
            found[node.name] = node
            for tensor, key in zip(present(node.op.inputs), self.graph.inputs(node), strict=True):
                before = self.graph.producer.get(key)
                if self._same_as(key) in borders:
                    reached.add(self._same_as(key))
                elif tensor.constant or before is None:
                    closed = closed and (tensor.constant or not self._made_before(index, key))
                elif self._made_before(index, key) and not before.constant:
                    closed = False
                elif self.loose.get(key) in doubles:
                    continue
                elif self.anchored.get(before.name, index) != index or self.ends.get(before.name, index) < index:
                    closed = False
                else:
                    passed.add(key)
                    stack.append(before)
        return found, closed, reached, passed

    # --- what became of the nodes? ----------------------------------------------------------

    def _fates(self) -> tuple[NodeFate, ...]:
        owners: dict[str, list[int]] = defaultdict(list)
        for index, region in enumerate(self.regions):
            for name in region:
                owners[name].append(index)
        strict: dict[int, Node] = {}
        loose: dict[int, Node] = {}
        for node in self.graph.nodes:
            for key in self.graph.outputs(node) if node.name in owners else ():
                strict.setdefault(self.strict[key], node)
                loose.setdefault(self.loose[key], node)
        unclaimed = [node for node in self.graph.nodes if node.name not in owners]
        fates: dict[str, NodeFate] = {}
        # Backwards, so that the reader of a node is settled first; then what hangs on its maker alone.
        for node in (*reversed(unclaimed), *unclaimed):
            if node.name not in fates or fates[node.name].fate == "lost":
                fates[node.name] = self._fate_unclaimed(node, owners, strict, loose)
        for node in self.graph.nodes:
            if node.name not in fates:
                layers = tuple(self.layers[index].name for index in owners[node.name])
                fates[node.name] = NodeFate(node=node.name, fate="layer", layers=layers)
        return tuple(fates[node.name] for node in self.graph.nodes)

    def _fate_unclaimed(
        self, node: Node, owners: dict[str, list[int]], strict: dict[int, Node], loose: dict[int, Node]
    ) -> NodeFate:
        name = node.name
        settled = settled_before_run(
            self.graph, node, lambda key: bool(self.graph.readers.get(key) or key in self.own_name)
        )
        if settled is not None:
            return settled
        outputs = self.graph.outputs(node)
        if is_shape_arithmetic(node):
            return NodeFate(node=name, fate="folded", reason="shape arithmetic, known before the run")
        # An Identity has the values of what it reads, so that its double would be just that.
        found = (strict.get(self.strict[key]) or loose.get(self.loose[key]) for key in outputs)
        double = next(filter(None, found), None) if node.op.op_type not in SAME_VALUES else None
        if double is not None:
            return self._claim(node, owners, owners[double.name], f"computed once, together with {double.name!r}")
        if node.op.op_type in PASS_THROUGH:
            return NodeFate(node=name, fate="eliminated", reason="it changes no values, so the backend dropped it")
        readers = [after.name for key in outputs for after in self.graph.readers.get(key, ())]
        makers = [self.graph.producer[key].name for key in self.graph.inputs(node) if key in self.graph.producer]
        for neighbour in (*readers, *makers):
            if neighbour in owners:
                return self._claim(node, owners, owners[neighbour][:1], f"inferred: merged into {neighbour!r}")
        return NodeFate(node=name, fate="lost", reason="no layer, tensor or neighbour leads back to it")

    def _claim(self, node: Node, owners: dict[str, list[int]], indices: Sequence[int], reason: str) -> NodeFate:
        owners[node.name] = list(indices)
        for index in indices:
            self.regions[index] = sorted([*self.regions[index], node.name], key=self.graph.position.__getitem__)
        layers = tuple(self.layers[index].name for index in indices)
        return NodeFate(node=node.name, fate="layer", layers=layers, reason=reason)


def _names(layer: Layer) -> Iterable[str]:
    yield layer.name
    for tensor in (*present(layer.op.inputs), *present(layer.op.outputs)):
        yield tensor.name
