"""What a rewrite sees of a graph, and how it changes it."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from trtprof.rewrite.opset import same_nodes

if TYPE_CHECKING:
    from trtprof.rewrite import Step

MOST_SITES = 100_000  # Changes of one rewrite to one model after which it is taken to undo itself
MOST_ELEMENTS = 2**28  # Elements of a constant beyond which it is not computed with


class Site(NamedTuple):
    """A place that was changed: names of the nodes that went, and of those that came."""

    before: tuple[str, ...]
    after: tuple[str, ...]


class Edit:
    """The one way for rewrites to look at a model and to change it."""

    def __init__(self, model: ir.Model, only: Collection[str] | None = None) -> None:
        self._model = model
        self._only = only
        self._graph = model.graph
        self._made: list[ir.Node] = []
        self._constants: list[ir.Value] = []
        self._names: set[str] | None = None
        self._touched: set[str] = set()
        self._wanted: int | None = None
        self._stays_under: dict[int, int] = {}
        self.sites: list[Site] = []

    # --- looking ---------------------------------------------------------------------------------

    @property
    def opset(self) -> int:
        """Version of the standard operators that the model is written in."""
        return self._model.opset_imports.get("", 0) or self._model.opset_imports.get("ai.onnx", 0) or 1

    def is_op(self, value_or_node: ir.Value | ir.Node | None, *op_types: str) -> bool:
        """Whether a node, or what makes a value, is one of these standard ops."""
        node = value_or_node.producer() if isinstance(value_or_node, ir.Value) else value_or_node
        return node is not None and node.domain in ("", "ai.onnx") and node.op_type in op_types

    def producer(self, value: ir.Value | None, *op_types: str) -> ir.Node | None:
        """The node that makes a value, in any graph, if it is one of these standard ops."""
        node = value.producer() if value is not None else None
        return node if self.is_op(node, *op_types) else None

    def used_once(self, value: ir.Value | None) -> bool:
        """Whether one input of one node reads the value, and no caller does."""
        return value is not None and len(tuple(value.uses())) == 1 and not value.is_graph_output()

    def reader(self, value: ir.Value | None, *op_types: str) -> ir.Node | None:
        """The one node of this graph that reads a value, once, if it is one of these standard ops."""
        if value is None or not self.used_once(value):
            return None
        node = next(iter(value.consumers()))
        return node if self.is_op(node, *op_types) and node.graph is self._graph else None

    def dims(self, value: ir.Value | None) -> tuple[int | str | None, ...] | None:
        """Dimensions: numbers, names that stand for one, or None for what is not known; None without a rank."""
        if value is None or value.shape is None:
            return None
        return tuple(dim if isinstance(dim, int) else dim.value for dim in value.shape)

    def shape(self, value: ir.Value | None) -> tuple[int, ...] | None:
        """Dimensions if every one is a number."""
        dims = self.dims(value)
        if dims is None or not all(isinstance(dim, int) for dim in dims):
            return None
        return tuple(dim for dim in dims if isinstance(dim, int))

    def rank(self, value: ir.Value | None) -> int | None:
        """Number of dimensions, where it is known."""
        dims = self.dims(value)
        return None if dims is None else len(dims)

    def dtype(self, value: ir.Value | None) -> ir.DataType | None:
        """Type of the elements, where it is known."""
        return value.dtype if value is not None else None

    def is_float(self, value: ir.Value | None) -> bool:
        """Whether the elements are known to be floating-point numbers."""
        dtype = self.dtype(value)
        return dtype is not None and dtype.is_floating_point()

    def is_constant(self, value: ir.Value | None) -> bool:
        """Whether the value is in the file, and no caller can give another."""
        if value is None:
            return False
        if self.is_op(value, "Constant"):
            return value.const_value is not None or value.producer() is not None
        return value.is_initializer() and not value.is_graph_input()

    def array(self, value: ir.Value | None) -> npt.NDArray[Any] | None:
        """The elements of a constant, not to be written to; None of what is none, or is too large to compute with."""
        if value is None or not self.is_constant(value):
            return None
        tensor = _tensor(value)
        if tensor is None or math.prod(tensor.shape.numpy()) > MOST_ELEMENTS:
            return None
        return np.asarray(tensor.numpy())

    def scalar(self, value: ir.Value | None) -> float | None:
        """The element of a constant of one element that is a number."""
        array = self.array(value)
        if array is None or array.size != 1 or array.dtype.kind not in "fiub":
            return None
        return float(array.reshape(()))

    def ints(self, node: ir.Node, name: str, place: int | None = None) -> tuple[int, ...] | None:
        """Whole numbers of an attribute or, as newer opsets have it, of the constant input at a place; None without."""
        attribute = node.attributes.get(name)
        if attribute is not None:
            value = attribute.value
            return tuple(int(one) for one in value) if isinstance(value, (list, tuple)) else (int(value),)
        if place is None or place >= len(node.inputs):
            return None
        array = self.array(node.inputs[place])
        return None if array is None else tuple(int(one) for one in array.reshape(-1))

    def number(self, node: ir.Node, name: str, default: float) -> float:
        """A number of an attribute."""
        attribute = node.attributes.get(name)
        return default if attribute is None else attribute.value

    # --- changing --------------------------------------------------------------------------------

    def node(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, Any] | None = None,
        *,
        outputs: int = 1,
    ) -> Any:
        """A new node: its output, or its outputs where there are several.

        `attributes`: by name; those that are None are left out.
        """
        given = {name: value for name, value in (attributes or {}).items() if value is not None}
        made = ir.Node("", op_type, inputs, ir.convenience.convert_attributes(given), num_outputs=outputs)
        self._made.append(made)
        return made.outputs[0] if outputs == 1 else tuple(made.outputs)

    def constant(self, array: npt.NDArray[Any], name: str = "constant") -> ir.Value:
        """A new initializer; a name that is taken gets a number."""
        tensor = ir.tensor(np.ascontiguousarray(array).reshape(array.shape))
        value = ir.Value(name=name, shape=ir.Shape(array.shape), type=ir.TensorType(tensor.dtype), const_value=tensor)
        self._constants.append(value)
        return value

    def with_axes(
        self, op_type: str, inputs: Sequence[ir.Value], axes: Sequence[int], attributes: Mapping[str, Any] | None = None
    ) -> ir.Value:
        """A new node of an op whose axes moved from an attribute to an input with some opset."""
        since = 13 if op_type in ("ReduceSum", "Squeeze", "Unsqueeze") else 18
        if self.opset < since:
            result: ir.Value = self.node(op_type, inputs, {**(attributes or {}), "axes": list(axes)})
        else:
            result = self.node(op_type, [*inputs, self.constant(np.asarray(axes, np.int64), "axes")], attributes)
        return result

    def reshape(self, value: ir.Value, shape: Sequence[int]) -> ir.Value:
        """A new Reshape; -1 and 0 mean what they do there."""
        result: ir.Value = self.node("Reshape", [value, self.constant(np.asarray(shape, np.int64), "shape")])
        return result

    def resized(self, value: ir.Value, dims: Sequence[int | str | None], kept: int = 0) -> ir.Value | None:
        """A new Reshape to these dimensions.

        `dims`: of the result: numbers, or a name or None where there is none. Returns: none where a Reshape cannot say
        it for every input: two dimensions behind the kept ones have no number, or one has none and a kept one may be
        empty.
        """
        head, tail = dims[:kept], dims[kept:]
        known = [dim for dim in tail if isinstance(dim, int)]
        if 0 in known or len(tail) - len(known) > 1:
            return None
        if len(known) < len(tail) and not all(isinstance(dim, int) and dim for dim in head):
            return None
        return self.reshape(value, [*[0] * kept, *(dim if isinstance(dim, int) else -1 for dim in tail)])

    def inlined(
        self, graph: ir.Graph, inputs: Sequence[ir.Value], constants: dict[str, ir.Value] | None = None
    ) -> list[ir.Value]:
        """Copies of the nodes of a subgraph as new nodes of the graph around it, and what it gives."""
        constants = {} if constants is None else constants
        copy = graph.clone(allow_outer_scope_values=True)
        outputs = list(copy.outputs)
        copy.outputs.clear()
        known = dict(zip(copy.inputs, inputs, strict=True))
        for name, value in copy.initializers.items():
            if name not in constants:
                constants[name] = ir.Value(
                    name=name, shape=value.shape, type=value.type, const_value=graph.initializers[name].const_value
                )
                self._constants.append(constants[name])
            known[value] = constants[name]
        for old, new in known.items():
            old.replace_all_uses_with(new)
        for node in tuple(copy):
            copy.remove(node)
            if node.op_type == "Constant" and (array := self.array(node.outputs[0])) is not None:
                name = str(node.outputs[0].name)
                constants[name] = constants[name] if name in constants else self.constant(array, name)
                known[node.outputs[0]] = constants[name]
                node.outputs[0].replace_all_uses_with(constants[name])
                continue
            self._made.append(node)
            for output in node.outputs:
                output.meta["declared"] = False
                if output.shape is not None and not output.shape.is_static():
                    output.shape = None  # A name of a dimension is that of another number in another copy.
        return [known.get(value, value) for value in outputs]

    def raised_to(self, opset: int) -> bool:
        """Whether the model has at least an opset, or gets it with what is put in next."""
        if self.opset >= opset:
            return True
        if self._stays_under.get(opset) == len(self.sites):
            return False  # It has been asked of the same model.
        if not same_nodes(self._model, opset):
            self._stays_under[opset] = len(self.sites)
            return False
        self._wanted = opset
        return True

    def replace(self, before: Sequence[ir.Node], values: Mapping[ir.Value, ir.Value]) -> bool:
        """Put the new nodes in the place of old ones.

        `before`: the old nodes, all of the graph that is looked at, in the order in which they stand.
        """
        if any(node.graph is not self._graph for node in before):
            return False
        if self._only is not None and not any(node.name in self._only for node in before):
            return False
        anchor = before[-1]
        pairs = self._outputs_apart(values)
        for constant in self._constants:
            constant.name = self._fresh(constant.name or "constant")
            self._model.graph.initializers[constant.name] = constant
        for made in self._made:
            made.name = self._fresh(f"{anchor.name}/{made.op_type}")
            for output in made.outputs:
                if output.name != "":  # One that is left out has no name.
                    output.name = self._fresh(f"{made.name}_output")
        self._graph.insert_before(anchor, self._made)
        for old, new in pairs:
            if new.type is None or old.is_graph_output():
                new.type = old.type
            if new.shape is None or old.is_graph_output():
                new.shape = old.shape
            name, own = old.name, new.producer() in self._made
            old.replace_all_uses_with(new, replace_graph_outputs=own)
            if own:
                old.name, new.name = self._fresh(f"{name}_before"), name
        self._drop_unread()
        gone = self._pruned(before)
        self.sites.append(Site(tuple(gone), tuple(str(made.name) for made in self._made)))
        if len(self.sites) > MOST_SITES:
            raise RuntimeError(f"a rewrite does not come to an end at {anchor.name}")
        self._made, self._constants = [], []
        if self._wanted is not None:
            self._model.opset_imports[""] = self._wanted
        return True

    def at(self, graph: ir.Graph, step: Step, node: ir.Node) -> None:
        """Have a step look at a node; what it made and did not put in is forgotten."""
        self._graph = graph
        self._made, self._constants, self._wanted = [], [], None
        step(node, self)

    def finish(self) -> None:
        """Take out constants that nothing reads any more because of what was changed, and put nodes in order."""
        if not self.sites:
            return
        for graph in (self._model.graph, *self._model.graph.subgraphs()):
            for name, value in list(graph.initializers.items()):
                read = value.uses() or value.is_graph_output() or value.is_graph_input()
                if name in self._touched and not read:
                    del graph.initializers[name]
            if not _in_order(graph):
                graph.sort()

    def _drop_unread(self) -> None:
        """Take out new nodes that nothing reads, as copies may be."""
        for made in reversed(tuple(self._made)):
            if not _read(made):
                self._touched.update(str(value.name) for value in made.inputs if value is not None)
                self._graph.remove(made, safe=True)
                self._made.remove(made)

    def _outputs_apart(self, values: Mapping[ir.Value, ir.Value]) -> list[tuple[ir.Value, ir.Value]]:
        """What is to stand for what, such that each output of a graph gets a value of its own; those last."""
        taken: set[ir.Value] = set()
        pairs = [(old, new) for old, new in values.items() if not old.is_graph_output()]
        for old, new in values.items():
            if old.is_graph_output():
                own = new if new.producer() in self._made and new not in taken else self.node("Identity", [new])
                taken.add(own)
                pairs.append((old, own))
        return pairs

    def _pruned(self, nodes: Sequence[ir.Node]) -> list[str]:
        """Take out those of the nodes that nothing reads any more, and Constants that they alone read."""
        gone: list[str] = []
        for node in reversed(nodes):
            if _read(node):
                continue
            constants = [made for value in node.inputs if (made := self.producer(value, "Constant")) is not None]
            self._touched.update(str(value.name) for value in node.inputs if value is not None)
            self._graph.remove(node, safe=True)
            gone.append(str(node.name))
            for graph in _graphs_in(node):
                gone += _emptied(graph)
            for constant in constants:
                if constant.graph is not None and not _read(constant):
                    constant.graph.remove(constant, safe=True)
                    gone.append(str(constant.name))
        return gone[::-1]

    def _fresh(self, stem: str) -> str:
        """A name that nothing in the model has."""
        if self._names is None:
            self._names = set()
            for graph in (self._model.graph, *self._model.graph.subgraphs()):
                self._names.update(str(value.name) for value in (*graph.inputs, *graph.initializers.values()))
                for node in graph:
                    self._names.update(str(value.name) for value in node.outputs)
                    self._names.add(str(node.name))
        name, number = stem, 0
        while name in self._names:
            number += 1
            name = f"{stem}_{number}"
        self._names.add(name)
        return name


def _tensor(value: ir.Value) -> ir.TensorProtocol | None:
    """The tensor of a constant; that of a Constant keeps its own name, which onnx-ir would change."""
    made = value.producer()
    attribute = made.attributes.get("value") if made is not None else None
    if value.const_value is None and attribute is not None and not attribute.is_ref():
        return attribute.as_tensor()
    return ir.convenience.get_const_tensor(value)


def _read(node: ir.Node) -> bool:
    return any(output.uses() or output.is_graph_output() for output in node.outputs)


def _graphs_in(node: ir.Node) -> list[ir.Graph]:
    found: list[ir.Graph] = []
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            found.append(attribute.as_graph())
        elif attribute.type == ir.AttributeType.GRAPHS:
            found.extend(attribute.as_graphs())
    return found


def _emptied(graph: ir.Graph) -> list[str]:
    """Take all nodes out of a graph that is gone, so that nothing counts as read by them; their names."""
    names: list[str] = []
    graph.outputs.clear()
    for node in reversed(tuple(graph)):
        for inner in _graphs_in(node):
            names += _emptied(inner)
        graph.remove(node, safe=True)
        names.append(str(node.name))
    return names


def _in_order(graph: ir.Graph) -> bool:
    seen: set[ir.Node] = set()
    for node in graph:
        if any(value is not None and (made := value.producer()) is not None and made.graph is graph and made not in seen
               for value in node.inputs):  # fmt: skip
            return False
        seen.add(node)
    return True
