"""A model as kernels are selected from it and put into it: its nodes, what makes and what reads each value, shapes.

It is kept as the file has it, so that what nobody touches is written again as it was. Weights that lie beside the file
stay there. Bodies of control flow count as what their node reads: no kernel is put into one.
"""

from __future__ import annotations

import contextlib
import copy
import difflib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from trtprof.base import onnx_graph, onnx_metadata, shape_inference
from trtprof.base.errors import UsageError
from trtprof.base.records import Node, Tensor
from trtprof.base.units import format_names

NAMED = 5  # Names that a sentence holds
OUTPUT = -1  # In the place of a node that reads a value: it is an output of the model
STANDARD = ("", "ai.onnx")
EXTERNAL = onnx.TensorProto.EXTERNAL


class Model:
    """A model with unique names of nodes; a node is known by its place in the graph."""

    def __init__(self, proto: onnx.ModelProto, path: Path, tensors: Mapping[str, Tensor]) -> None:
        onnx_graph.name_nodes(proto)
        self.proto, self.path, self._tensors = proto, path, tensors
        self.refresh()

    def copy(self) -> Model:
        """The same model, to be changed."""
        return Model(copy.deepcopy(self.proto), self.path, self._tensors)

    def refresh(self) -> None:
        """Look at the graph again, after a change."""
        graph = self.proto.graph
        # A caller may replace an initializer that is an input, but for old files, which list all of them.
        fixed = self.proto.ir_version < onnx_metadata.FIXED_INITIALIZERS
        given = set() if fixed else {info.name for info in graph.input}
        self.nodes = {node.name: at for at, node in enumerate(graph.node)}
        self.makers = {name: at for at, node in enumerate(graph.node) for name in node.output if name}
        # The nodes that read a value, once for each input
        self.uses: dict[str, list[int]] = defaultdict(list)
        # Tensors that no caller can replace, their elements perhaps beside the file
        self.constants = {one.name: one for one in graph.initializer if one.name not in given}
        for at, node in enumerate(graph.node):
            for name in self.reads(at):
                self.uses[name].append(at)
            if node.op_type == "Constant" and node.domain in STANDARD and (held := _constant(node)) is not None:
                self.constants[node.output[0]] = held
        for info in graph.output:
            self.uses[info.name].append(OUTPUT)

    def node(self, at: int) -> onnx.NodeProto:
        """The node that stands there."""
        return self.proto.graph.node[at]

    def named(self, name: str) -> int:
        """Where a node stands."""
        if name in self.nodes:
            return self.nodes[name]
        near = format_names(difflib.get_close_matches(name, self.nodes, n=NAMED), NAMED)
        why = f"the nearest: {near}" if near else f"it has {len(self.nodes)}, those in bodies of control flow apart"
        raise UsageError(f"the model has no node {name!r}", why=why, fix="trtprof inspect --format json lists them all")

    def reads(self, at: int) -> list[str]:
        """What a node reads, with what its bodies may read of what is around them."""
        found = [name for name in self.node(at).input if name]
        for _, body in onnx_graph.subgraphs(self.node(at)):
            for _, graph in onnx_graph.all_graphs(body):
                found += [name for node in graph.node for name in node.input if name]
                found += [info.name for info in graph.output]
        return found

    def before(self, at: int) -> set[int]:
        """The nodes that make what a node reads."""
        return {self.makers[name] for name in self.reads(at) if name in self.makers}

    def tensor(self, name: str) -> Tensor:
        """What is known of a value; of a constant its type is."""
        if name in self.constants:
            return onnx_graph.tensor_from_initializer(self.constants[name], name)
        return self._tensors.get(name) or onnx_graph.unknown_tensor(name)

    def elements(self, name: str) -> onnx.TensorProto:
        """A copy of a constant that holds its elements in the form that all have here, without a name."""
        return numpy_helper.from_array(numpy_helper.to_array(self.constants[name], str(self.path.parent)))

    def opset(self) -> int:
        """Version of the standard operators."""
        return next((entry.version for entry in self.proto.opset_import if entry.domain in STANDARD), 1)


def opened(path: str | Path, proto: onnx.ModelProto | None = None, nodes: Sequence[Node] | None = None) -> Model:
    """A model to select from; `nodes`: of a run, whose shapes take the place of open ones."""
    proto = onnx.load(str(path), load_external_data=False) if proto is None else proto
    if nodes is not None:
        told = [one for node in nodes if not node.graph for one in (*node.op.inputs, *node.op.outputs)]
        return Model(proto, Path(path), {one.name: one for one in told if one is not None})
    bare, _ = onnx_graph.for_inference(proto, list(onnx_graph.all_graphs(proto.graph)), declared=True)
    for info in bare.graph.input:  # So that a dimension without a name is known again in what follows from it
        for axis, dim in enumerate(info.type.tensor_type.shape.dim):
            if not dim.WhichOneof("value"):
                dim.dim_param = f"{info.name}_{axis}"
    with contextlib.suppress(shape_inference.InferenceError):  # What is declared is known all the same.
        bare = shape_inference.infer_shapes(bare)
    return Model(proto, Path(path), onnx_graph.declared_tensors(bare.graph))


def _constant(node: onnx.NodeProto) -> onnx.TensorProto | None:
    """The tensor of a Constant; None of one of strings or sparse values."""
    for attribute in node.attribute:
        value = helper.get_attribute_value(attribute)
        if attribute.name == "value":
            return value  # type: ignore[no-any-return]
        if attribute.name in ("value_int", "value_ints", "value_float", "value_floats"):
            return numpy_helper.from_array(np.asarray(value, np.int64 if "int" in attribute.name else np.float32))
    return None
