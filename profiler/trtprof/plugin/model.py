"""A model as kernels are selected from it and put into it: its graphs, what makes and what reads each value, shapes.

It is kept as the file has it, so that what nobody touches is written again as it was. Weights that lie beside the file
stay there.
"""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import onnx
import onnx.external_data_helper
import onnx.numpy_helper

from trtprof.base import onnx_graph, onnx_metadata, shape_inference
from trtprof.base.errors import UsageError
from trtprof.base.records import Node, Tensor
from trtprof.base.units import format_names

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMED = 5  # Names that a sentence holds
STANDARD = ("", "ai.onnx")
EXTERNAL = onnx.TensorProto.EXTERNAL


class Value(NamedTuple):
    """A value of a model: the path of the graph that makes or holds it, and its name."""

    graph: str
    name: str


class At(NamedTuple):
    """Where a node stands: path of its graph, and its place there; -1 is the end, which gives the graph's outputs."""

    graph: str
    place: int


class Model:
    """A model with unique names of nodes.

    Attributes:
        proto: The model; names of nodes that were empty or taken were replaced, as `onnx_graph.name_nodes` does.
        path: Its file, beside which weights may lie.
        nodes: Where each node stands, by name.
        tensors: What is known of values, by graph and name.
        bound: Whether that holds only for the shapes of one run.
        declared_dims: Names of dimensions that callers choose.
        uses: What reads each value; a node once for each input.
    """

    def __init__(
        self, proto: onnx.ModelProto, path: Path, tensors: Mapping[str, Mapping[str, Tensor]], *, bound: bool
    ) -> None:
        self.proto, self.path, self.tensors, self.bound = proto, path, tensors, bound
        _, self.graphs = onnx_graph.name_nodes(proto)
        self.declared_dims = {dim.dim_param for info in proto.graph.input for dim in info.type.tensor_type.shape.dim}
        self._outer: dict[str, str] = {}
        self._made: dict[str, dict[str, int]] = {}
        self._constants: dict[Value, onnx.TensorProto] = {}
        self.nodes: dict[str, At] = {}
        self.uses: dict[Value, list[At]] = defaultdict(list)
        self.refresh()

    def copy(self) -> Model:
        """The same model, to be changed."""
        proto = onnx.ModelProto()
        proto.CopyFrom(self.proto)
        return Model(proto, self.path, self.tensors, bound=self.bound)

    def refresh(self) -> None:
        """Look at the graphs again, after a change."""
        self._constants.clear()
        self.nodes.clear()
        self.uses.clear()
        for path, graph in self.graphs.items():
            given = {info.name for info in graph.input}
            made = dict.fromkeys(given, -1)
            made.update((tensor.name, -1) for tensor in graph.initializer)
            made.update((tensor.values.name, -1) for tensor in graph.sparse_initializer)
            # A caller may replace an initializer that is an input, but for old files, which list all of them.
            fixed = self.proto.ir_version < onnx_metadata.FIXED_INITIALIZERS
            for tensor in graph.initializer:
                if fixed or tensor.name not in given:
                    self._constants[Value(path, tensor.name)] = tensor
            for index, node in enumerate(graph.node):
                self.nodes[node.name] = At(path, index)
                made.update((name, index) for name in node.output if name)
                if node.op_type == "Constant" and node.domain in STANDARD and (held := _constant(node)) is not None:
                    self._constants[Value(path, node.output[0])] = held
                for attribute, _ in onnx_graph.subgraphs(node):
                    self._outer[onnx_graph.subgraph_path(node.name, attribute)] = path
            self._made[path] = made
        for path, graph in self.graphs.items():
            for index, node in enumerate(graph.node):
                for name in node.input:
                    if name and (value := self.value(path, name)) is not None:
                        self.uses[value].append(At(path, index))
            for info in graph.output:
                if (value := self.value(path, info.name)) is not None:
                    self.uses[value].append(At(path, -1))

    def node(self, at: At) -> onnx.NodeProto:
        """The node that stands there."""
        return self.graphs[at.graph].node[at.place]

    def named(self, name: str) -> At:
        """Where a node stands."""
        if name in self.nodes:
            return self.nodes[name]
        near = difflib.get_close_matches(name, self.nodes, n=NAMED)
        raise UsageError(
            f"no node is called {name!r}",
            why=f"the nearest: {format_names(near, NAMED)}" if near else f"the model has {len(self.nodes)} nodes",
            fix="trtprof inspect --format json lists them all",
        )

    def value(self, graph: str, name: str) -> Value | None:
        """What a name means in a graph: a value of it or of one around it."""
        path: str | None = graph
        while path is not None:
            if name in self._made[path]:
                return Value(path, name)
            path = self._outer.get(path)
        return None

    def maker(self, value: Value | None) -> At | None:
        """The node that makes a value; None of inputs and initializers."""
        index = -1 if value is None else self._made[value.graph][value.name]
        return None if value is None or index < 0 else At(value.graph, index)

    def tensor(self, value: Value) -> Tensor:
        """What is known of a value; of a constant its type is."""
        constant = self._constants.get(value)
        if constant is not None:
            return onnx_graph.tensor_from_initializer(constant, value.name)
        return self.tensors.get(value.graph, {}).get(value.name) or onnx_graph.unknown_tensor(value.name)

    def constant(self, value: Value) -> onnx.TensorProto | None:
        """The tensor of a constant that no caller can replace, its elements perhaps beside the file; None of others."""
        return self._constants.get(value)

    def elements(self, tensor: onnx.TensorProto) -> onnx.TensorProto:
        """A copy of a constant that holds its elements in the form that all have here."""
        copy = onnx.TensorProto()
        copy.CopyFrom(tensor)
        if copy.data_location == EXTERNAL:
            onnx.external_data_helper.load_external_data_for_tensor(copy, str(self.path.parent))
        return onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(copy))

    def reads(self, at: At) -> Iterator[Value]:
        """What of its own graph, or of graphs around it, a node and the graphs in it read."""
        for name in self.node(at).input:
            if name and (value := self.value(at.graph, name)) is not None:
                yield value
        yield from self.captured(at)

    def captured(self, at: At) -> Iterator[Value]:
        """What graphs in a node read of what is around them."""
        node = self.node(at)
        for attribute, graph in onnx_graph.subgraphs(node):
            path = onnx_graph.subgraph_path(node.name, attribute)
            read = [value for index in range(len(graph.node)) for value in self.reads(At(path, index))]
            read += [value for info in graph.output if (value := self.value(path, info.name)) is not None]
            yield from (value for value in read if value.graph != path)

    def leaves_and_returns(self, nodes: Sequence[At]) -> bool:
        """Whether a path between two nodes of a graph has others on it, so that they cannot be one node."""
        inside = {at.place for at in nodes}
        path = nodes[0].graph
        behind: set[int] = set()
        # The nodes of a graph stand in an order in which they can be computed.
        for index in range(min(inside), max(inside) + 1):
            makers = {
                made.place
                for value in self.reads(At(path, index))
                if (made := self.maker(value)) is not None and made.graph == path
            }
            if index not in inside and makers & (behind | inside):
                behind.add(index)
            elif index in inside and makers & behind:
                return True
        return False

    def opset(self) -> int:
        """Version of the standard operators."""
        versions = [entry.version for entry in self.proto.opset_import if entry.domain in STANDARD]
        return versions[0] if versions else 1


def opened(path: str | Path, proto: onnx.ModelProto | None = None, nodes: Sequence[Node] | None = None) -> Model:
    """A model to select from."""
    proto = onnx.load(str(path), load_external_data=False) if proto is None else proto
    _, graphs = onnx_graph.name_nodes(proto)
    tensors = _inferred(proto, graphs) if nodes is None else _told(nodes)
    return Model(proto, Path(path), tensors, bound=nodes is not None)


def _told(nodes: Sequence[Node]) -> dict[str, dict[str, Tensor]]:
    known: dict[str, dict[str, Tensor]] = defaultdict(dict)
    for node in nodes:
        for tensor in (*node.op.inputs, *node.op.outputs):
            if tensor is not None:
                known[node.graph][tensor.name] = tensor
    return known


def _inferred(proto: onnx.ModelProto, graphs: Mapping[str, onnx.GraphProto]) -> dict[str, dict[str, Tensor]]:
    bare, copies = onnx_graph.for_inference(proto, list(graphs.items()), declared=True)
    try:
        bare = shape_inference.infer_shapes(bare)
        copies = list(onnx_graph.all_graphs(bare.graph))
    except shape_inference.InferenceError:
        pass  # What is declared is known all the same.
    return {path: onnx_graph.declared_tensors(graph) for path, graph in copies}


def _constant(node: onnx.NodeProto) -> onnx.TensorProto | None:
    """The tensor of a Constant; None of one of strings or sparse values."""
    for attribute in node.attribute:
        match attribute.name:
            case "value":
                return attribute.t
            case "value_int" | "value_ints":
                ints = [attribute.i] if attribute.name == "value_int" else list(attribute.ints)
                dims = [] if attribute.name == "value_int" else [len(ints)]
                return onnx.helper.make_tensor("", onnx.TensorProto.INT64, dims, ints)
            case "value_float" | "value_floats":
                floats = [attribute.f] if attribute.name == "value_float" else list(attribute.floats)
                dims = [] if attribute.name == "value_float" else [len(floats)]
                return onnx.helper.make_tensor("", onnx.TensorProto.FLOAT, dims, floats)
    return None
