"""Engine layers led back to ONNX nodes, many to many, with a confidence and a reason.

A layer computes the region of the ONNX graph between its input and its output tensors. Where the
backend kept tensor names the borders give the region; where it renamed them (blocked layouts) the
node that the layer's name points at is the anchor, and the fusions that the layer itself declares
(an ``activation`` attribute, a summand) say how far the region goes downstream.

In the end every ONNX node has a fate: run in layers, computed before the run, dropped, or lost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from profiler.records import Layer, MatchConfidence, Node, NodeFate, Tensor

_SHAPE_OPS = frozenset(
    {"Shape", "Size", "Gather", "Concat", "Unsqueeze", "Squeeze", "Slice", "Cast", "Range", "ConstantOfShape", "Add",
     "Sub", "Mul", "Div", "Mod", "Min", "Max", "Neg", "Reshape", "Floor", "Ceil", "Where", "Equal", "Expand",
     "Identity", "ReduceProd", "Transpose", "Split"}
)  # fmt: skip
_PASS_THROUGH = frozenset({"Identity", "Dropout", "Cast", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose"})
_MOVES_DATA = frozenset({"Transpose", "Cast", "Identity", "Reshape"})
_FOLDS_INTO_CONV = frozenset({"BatchNormalization", "Mul", "Add", "Sub", "Div"})
_INTEGER = ("int", "uint", "bool")
_FUSED_TO_ONNX_ACTIVATION = {"Clip": {"Clip", "Relu6"}, "Relu": {"Relu"}, "LeakyRelu": {"LeakyRelu"}}

GraphTensor = tuple[str, str]
"""A tensor by the graph that makes it: two branches of an If may use the same names."""


def match_layers(nodes: Sequence[Node], layers: Sequence[Layer]) -> tuple[tuple[Layer, ...], tuple[NodeFate, ...]]:
    """Fill `Layer.nodes`, ``match`` and ``reason``, and give every ONNX node a fate.

    Args:
        nodes: All nodes of the model, subgraphs included, in graph order.
        layers: All layers of the engine, subgraphs included, each graph in execution order.

    Returns:
        The layers in the same order, and one fate a node in the same order.
    """
    return _Matcher(nodes, layers).run()


class _Matcher:
    def __init__(self, nodes: Sequence[Node], layers: Sequence[Layer]) -> None:
        self.nodes = nodes
        self.layers = layers
        self.by_name = {node.name: node for node in nodes}
        self.producer: dict[GraphTensor, Node] = {}
        self.consumers: dict[GraphTensor, list[Node]] = defaultdict(list)
        self.source_tensors: set[GraphTensor] = set()
        for node in nodes:
            for tensor in _present(node.op.outputs):
                self.producer[node.graph, tensor.name] = node
                self.source_tensors.add((node.graph, tensor.name))
            for tensor in _present(node.op.inputs):
                self.consumers[node.graph, tensor.name].append(node)
                self.source_tensors.add((node.graph, tensor.name))
        self.anchored = {hint: layer.name for layer in layers for hint in layer.hints if hint in self.by_name}
        # Engine tensor -> the ONNX tensor that it holds, whatever its name or layout.
        self.holds: dict[GraphTensor, GraphTensor] = {}
        self.regions: dict[str, list[str]] = {}
        self.verdicts: dict[str, tuple[MatchConfidence, str]] = {}
        self.roles: dict[str, Literal["compute", "layout", "control"]] = {}

    def run(self) -> tuple[tuple[Layer, ...], tuple[NodeFate, ...]]:
        self._identify_tensors()
        for layer in self.layers:
            self._match(layer)
        owners: dict[str, list[str]] = defaultdict(list)
        for layer in self.layers:
            for name in self.regions[layer.name]:
                owners[name].append(layer.name)
        fates = [self._fate(node, owners) for node in self.nodes]
        matched = tuple(
            msgspec.structs.replace(
                layer,
                nodes=tuple(self.regions[layer.name]),
                role=self.roles.get(layer.name, layer.role),
                match=self.verdicts[layer.name][0],
                reason=self.verdicts[layer.name][1],
            )
            for layer in self.layers
        )
        return matched, tuple(fates)

    def _identify_tensors(self) -> None:
        for layer in self.layers:
            for tensor in (*_present(layer.op.inputs), *_present(layer.op.outputs)):
                for graph in (layer.graph, ""):
                    if (graph, tensor.name) in self.source_tensors:
                        self.holds.setdefault((layer.graph, tensor.name), (graph, tensor.name))
            meant = [hint for hint in layer.output_hints if (layer.graph, hint) in self.producer]
            for tensor, hint in zip(_present(layer.op.outputs), meant[:1], strict=False):
                self.holds.setdefault((layer.graph, tensor.name), (layer.graph, hint))
        # A reorder holds the same values on both sides: what is known of one is known of the other.
        for layer in reversed(self.layers):
            if layer.role == "layout":
                self._same(layer, layer.op.outputs, layer.op.inputs)

    def _same(self, layer: Layer, known: Iterable[Tensor | None], unknown: Iterable[Tensor | None]) -> None:
        for one, other in zip(_present(known), _present(unknown), strict=False):
            if (layer.graph, one.name) in self.holds:
                self.holds.setdefault((layer.graph, other.name), self.holds[layer.graph, one.name])

    def _match(self, layer: Layer) -> None:
        if layer.role == "layout":
            self._same(layer, layer.op.inputs, layer.op.outputs)
            self._match_layout(layer)
            return
        anchors = [self.by_name[hint] for hint in layer.hints if hint in self.by_name]
        ends = [
            self.producer[self.holds[layer.graph, tensor.name]]
            for tensor in _present(layer.op.outputs)
            if self.holds.get((layer.graph, tensor.name)) in self.producer
        ]
        named_outputs = bool(ends)
        if (layer.output_hints and ends) or (not ends and anchors):
            # The layer is called after a tensor or node from which later fusions may have gone on.
            ends = [self._extend(layer, anchor) for anchor in ends or anchors]
            last = [tensor.name for tensor in _present(ends[-1].op.outputs)]
            outputs = [tensor.name for tensor in _present(layer.op.outputs)]
            for inner, outer in zip(outputs, last, strict=False):
                self.holds[layer.graph, inner] = (ends[-1].graph, outer)
        if not ends:
            self._match_unnamed(layer)
            return
        region, frontier_known = self._region(layer, [*ends, *anchors])
        self.regions[layer.name] = region
        if named_outputs and frontier_known:
            reason = "its tensors are the borders of these nodes" if not anchors else "name and tensors agree"
            self.verdicts[layer.name] = ("exact", reason)
        elif anchors:
            how = "its name, and the fusions it declares" if len(region) > 1 else "its name"
            self.verdicts[layer.name] = ("exact", how)
        else:
            self.verdicts[layer.name] = ("inferred", "its output is known, its inputs only in part")

    def _match_layout(self, layer: Layer) -> None:
        self.regions[layer.name] = []
        held = [self.holds.get((layer.graph, tensor.name)) for tensor in _present(layer.op.outputs)]
        known = [tensor for tensor in held if tensor is not None]
        if known:
            self.verdicts[layer.name] = (
                "exact",
                f"changes the layout of tensor {known[0][1]!r}; no ONNX node asks for it",
            )
        else:
            self.verdicts[layer.name] = ("inferred", "changes a layout; no ONNX node asks for it")

    def _match_unnamed(self, layer: Layer) -> None:
        """A layer that the backend inserted: it belongs between the layers whose tensors it joins."""
        held = [
            self.holds.get((layer.graph, tensor.name)) for tensor in _present(layer.op.inputs) if not tensor.constant
        ]
        near = [self.producer[tensor].name for tensor in held if tensor is not None and tensor in self.producer]
        inputs = [tensor[1] for tensor in held if tensor is not None]
        moves = layer.op.op_type in _MOVES_DATA
        self.regions[layer.name] = [] if moves else near[:1]
        if moves and inputs:
            self.roles[layer.name] = "layout"
            self.verdicts[layer.name] = ("inferred", f"inserted by the backend to move tensor {inputs[0]!r}")
            self._same(layer, layer.op.inputs, layer.op.outputs)
        elif near:
            self.verdicts[layer.name] = ("inferred", f"inserted by the backend behind {near[0]!r}")
        else:
            self.verdicts[layer.name] = ("none", "neither its name nor its tensors occur in the model")

    def _extend(self, layer: Layer, anchor: Node) -> Node:
        """The last node downstream of an anchor that the layer says it has swallowed."""
        activation = layer.op.attributes.get("activation")
        wanted = _FUSED_TO_ONNX_ACTIVATION.get(str(activation), {str(activation)}) if activation else set()
        quantizes = layer.op.op_type.startswith(("QLinear", "QGemm"))
        has_summand = not quantizes and len(layer.op.inputs) > 3 and layer.op.inputs[3] is not None
        node = anchor
        while True:
            outputs = list(_present(node.op.outputs))
            following = self.consumers.get((node.graph, outputs[0].name), []) if outputs else []
            if len(following) != 1 or following[0].name in self.anchored:
                return node
            after = following[0]
            if self.holds_output(after):
                return node
            others = [t for t in _present(after.op.inputs) if t.name != outputs[0].name]
            scaling = after.op.op_type in _FOLDS_INTO_CONV and all(tensor.constant for tensor in others)
            summing = after.op.op_type in ("Add", "Sum") and has_summand and len(others) == 1
            if summing and not scaling:
                has_summand = False
            elif quantizes and after.op.op_type == "QuantizeLinear":
                return after
            elif quantizes and after.op.op_type in ("Relu", "Clip"):
                pass
            elif after.op.op_type in wanted:
                wanted = set()
            elif not scaling and after.op.op_type not in ("Identity", "Dropout"):
                return node
            node = after

    def holds_output(self, node: Node) -> bool:
        """Whether an engine tensor under its own name holds what this node makes."""
        return any(
            self.holds.get((node.graph, tensor.name)) == (node.graph, tensor.name)
            for tensor in _present(node.op.outputs)
        )

    def _region(self, layer: Layer, ends: Sequence[Node]) -> tuple[list[str], bool]:
        """Nodes between a layer's inputs and these end nodes, and whether all borders were its own."""
        borders = {
            self.holds[layer.graph, tensor.name]
            for tensor in _present(layer.op.inputs)
            if (layer.graph, tensor.name) in self.holds
        }
        made = set(self.holds.values())
        found: dict[str, Node] = {}
        stack = list(ends)
        closed = True
        while stack:
            node = stack.pop()
            if node.name in found:
                continue
            found[node.name] = node
            for tensor in _present(node.op.inputs):
                key = (node.graph, tensor.name)
                before = self.producer.get(key)
                if key in borders or tensor.constant or before is None:
                    closed = closed and (key in borders or tensor.constant or (node.graph, tensor.name) not in made)
                    continue
                if self.anchored.get(before.name, layer.name) != layer.name or (key in made and not before.constant):
                    closed = False
                    continue
                stack.append(before)
        order = {node.name: index for index, node in enumerate(self.nodes)} if len(found) > 1 else {}
        kept = [node for node in found.values() if node in ends or not _is_shape_arithmetic(node)]
        return sorted((node.name for node in kept), key=lambda name: order.get(name, 0)), closed

    def _fate(self, node: Node, owners: dict[str, list[str]]) -> NodeFate:
        if node.name in owners:
            return NodeFate(node=node.name, fate="layer", layers=tuple(owners[node.name]))
        outputs = list(_present(node.op.outputs))
        if node.constant:
            return NodeFate(node=node.name, fate="folded", reason="its inputs are constant: computed before the run")
        if not any(self.consumers.get((node.graph, tensor.name)) for tensor in outputs) and not self.holds_output(node):
            return NodeFate(node=node.name, fate="eliminated", reason="its result is never read")
        if _is_shape_arithmetic(node):
            return NodeFate(node=node.name, fate="folded", reason="shape arithmetic, known before the run")
        neighbours = [
            owner
            for tensor in outputs
            for after in self.consumers.get((node.graph, tensor.name), ())
            for owner in owners.get(after.name, ())
        ] or [
            owner
            for tensor in _present(node.op.inputs)
            if (node.graph, tensor.name) in self.producer
            for owner in owners.get(self.producer[node.graph, tensor.name].name, ())
        ]
        if node.op.op_type in _PASS_THROUGH:
            return NodeFate(node=node.name, fate="eliminated", reason="it changes no values, so the backend dropped it")
        if neighbours:
            layers = tuple(dict.fromkeys(neighbours))
            return NodeFate(node=node.name, fate="layer", layers=layers, reason="inferred: merged into its neighbour")
        return NodeFate(node=node.name, fate="lost", reason="no layer, tensor or neighbour leads back to it")


def _present(tensors: Iterable[Tensor | None]) -> Iterable[Tensor]:
    return (tensor for tensor in tensors if tensor is not None)


def _is_shape_arithmetic(node: Node) -> bool:
    outputs = list(_present(node.op.outputs))
    return node.op.op_type in _SHAPE_OPS and all(tensor.dtype.startswith(_INTEGER) for tensor in outputs)
