"""Values of the small tensors that shapes depend on, such as the pads that exporters write as a little graph.

`onnx.shape_inference` follows such graphs only in part: they are evaluated with onnx's reference implementation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, numpy_helper

from trtprof.base import evaluate, onnx_graph
from trtprof.base.evaluate import MAX_ELEMENTS, Array
from trtprof.base.records import Tensor
from trtprof.source import skim


class _Scope:
    """What the names in a graph stand for."""

    def __init__(self, graph: GraphProto, path: str, outer: _Scope | None, *, alone: bool) -> None:
        self.path = path  # See `onnx_graph.subgraph_path`
        self.outer = outer  # The graph around it, whose names it sees
        self.makers: dict[str, NodeProto] = {}  # Node by the names of its outputs
        self.bodies: list[tuple[str, GraphProto]] = []  # Graphs in the graph with their paths
        self.initializers = {tensor.name: tensor for tensor in graph.initializer}  # Constants of the graph by name
        self.values: dict[str, Array] = {}  # What was computed or read, by name
        self._given = {info.name for info in graph.input if info.name not in self.initializers}
        self.refused = set(self._given)  # Names that stay unknown
        for node in graph.node:
            for name in node.output:
                self.makers[name] = node
            if not alone:
                for name, body in onnx_graph.subgraphs(node):
                    self.bodies.append((onnx_graph.subgraph_path(node.name, name), body))

    def forget(self) -> None:
        self.values.clear()
        self.refused = set(self._given)

    def owner(self, name: str) -> _Scope | None:
        """The scope in which a name is made, looking outwards."""
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.makers or name in scope.initializers or name in scope.refused:
                return scope
            scope = scope.outer
        return None


def _scopes(graph: GraphProto, path: str, outer: _Scope | None, *, alone: bool) -> Iterator[_Scope]:
    """A graph and its bodies; ``alone`` where it is known to have none."""
    scope = _Scope(graph, path, outer, alone=alone)
    yield scope
    for inner, body in scope.bodies:
        yield from _scopes(body, inner, scope, alone=alone)


class Values:
    """Elements of small tensors that follow from constants and from shapes, computed when asked for."""

    def __init__(self, graph: GraphProto, opset: int, known: Mapping[str, Mapping[str, Tensor]]) -> None:
        self._known = known
        self._evaluator = _Evaluator(opset)
        self._scopes = {scope.path: scope for scope in _scopes(graph, "", None, alone=len(known) == 1)}

    def of(self, path: str, name: str) -> Array | None:
        """The elements of a tensor as the graph at ``path`` sees it, or None."""
        scope = self._scopes[path]
        _compute(scope, name, self._evaluator, self._known)
        owner = scope.owner(name)
        return None if owner is None else owner.values.get(name)

    def computed(self) -> Iterator[tuple[str, str, Array]]:
        """What was computed: path of the graph, name and elements."""
        for scope in self._scopes.values():
            for name, value in scope.values.items():
                if name in scope.makers:
                    yield scope.path, name, value

    def forget(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._scopes[path].forget()


def _compute(
    scope: _Scope, wanted: str, evaluator: _Evaluator, known: Mapping[str, Mapping[str, Tensor]] | None = None
) -> None:
    """Values of a tensor and of all that it is made of; iterative, because chains can be long."""
    stack = [(scope, wanted)]
    while stack:
        reader, name = stack[-1]
        owner = reader.owner(name)
        if owner is None or name in owner.values or name in owner.refused:
            stack.pop()
            continue
        if name in owner.initializers:
            stack.pop()
            array = _elements(owner.initializers[name])
            if array is None:
                owner.refused.add(name)
            else:
                owner.values[name] = array
            continue
        node = owner.makers[name]
        if known is not None and node.op_type in ("Shape", "Size") and node.domain in ("", "ai.onnx"):
            stack.pop()
            dims = _dims(owner, node.input[0], known)
            if dims is None:
                owner.refused.update(node.output)
            else:
                owner.values[name] = _of_dims(node, dims)
            continue
        inputs: list[Array | None] = []
        missing: list[str] = []
        refused = bool(owner.bodies) and any(onnx_graph.subgraphs(node))
        for read in node.input:
            source = owner.owner(read) if read else None
            if not read:
                inputs.append(None)
            elif source is None or read in source.refused:
                refused = True
            elif read in source.values:
                inputs.append(source.values[read])
            else:
                missing.append(read)
        if missing and not refused:
            stack += [(owner, read) for read in missing]
            continue
        stack.pop()
        results = None if refused else evaluator.run(node, inputs)
        if results is None:
            owner.refused.update(node.output)
        else:
            owner.values.update((name, value) for name, value in zip(node.output, results, strict=True) if name)


def _dims(scope: _Scope | None, name: str, known: Mapping[str, Mapping[str, Tensor]]) -> list[int] | None:
    while scope is not None:
        tensor = known[scope.path].get(name)
        if tensor is not None:
            dims = [dim for dim in tensor.shape or () if isinstance(dim, int)]
            complete = tensor.shape is not None and len(dims) == len(tensor.shape) and tensor.kind == "tensor"
            return dims if complete else None
        scope = scope.outer
    return None


def _of_dims(node: NodeProto, dims: list[int]) -> Array:
    """What Shape (with start and end) and Size make of these dimensions."""
    if node.op_type == "Size":
        return np.array(math.prod(dims), dtype=np.int64)
    ends = {attribute.name: attribute.i for attribute in node.attribute}
    return np.array(dims[ends.get("start", 0) : ends.get("end", len(dims))], dtype=np.int64)


def _elements(tensor: TensorProto) -> Array | None:
    if tensor.data_location == TensorProto.EXTERNAL or skim.left_out(tensor):
        return None
    if not 0 <= math.prod(tensor.dims) <= MAX_ELEMENTS:
        return None
    try:
        return numpy_helper.to_array(tensor)
    except (KeyError, TypeError, ValueError):  # an initializer without elements, or a type that numpy does not have
        return None


def of_integers(node: NodeProto, inputs: list[Array | None]) -> Array | None:
    """What the ops make that exporters compute shapes with: the import of the reference takes longer than all of them.

    None where it is another op, or a case of it in which that is not as plain as here.
    """
    arrays = [array for array in inputs if array is not None and array.dtype == np.int64]
    if len(arrays) != len(inputs) or [attribute.name for attribute in node.attribute] not in ([], ["axis"]):
        return None
    axis = node.attribute[0].i if node.attribute else 0
    match node.op_type, arrays:
        case "Gather", [data, places] if -data.ndim <= axis < data.ndim and _within(places, data.shape[axis]):
            if places.size * data.size > MAX_ELEMENTS * data.shape[axis]:
                return None
            return np.asarray(np.take(data, places, axis))
        case "Unsqueeze", [data, axes] if axes.shape == (1,) and _within(axes, data.ndim + 1):
            return np.expand_dims(data, int(axes[0]))
        case "Concat", [first, *_] if axis == 0 and node.attribute and all(array.ndim == 1 for array in arrays):
            if sum(array.size for array in arrays) > MAX_ELEMENTS:
                return None
            return np.concatenate(arrays)
        case "Add", [first, second] if first.shape == second.shape:
            return np.asarray(first + second)
        case "Mul", [first, second] if first.shape == second.shape:
            return np.asarray(first * second)
        # Of negative numbers ONNX does not say which way a quotient is cut.
        case "Div", [first, second] if first.shape == second.shape and (first >= 0).all() and (second > 0).all():
            return np.asarray(first // second)
        case "Range", [first, end, step] if not (first.ndim or end.ndim or step.ndim) and step == 1:
            return np.arange(int(first), int(end), dtype=np.int64) if int(end) - int(first) <= MAX_ELEMENTS else None
    return None


def _within(places: Array, length: int) -> bool:
    return bool(((places >= -length) & (places < length)).all())


class _Evaluator:
    """Runs single nodes; the same op on the same values only once."""

    def __init__(self, opset: int) -> None:
        self._opset = opset
        self._done: dict[object, list[Array] | None] = {}

    def run(self, node: NodeProto, inputs: list[Array | None]) -> list[Array] | None:
        """Outputs of a node, or None when the reference has no such op, refuses, or makes too much."""
        if node.domain not in ("", "ai.onnx") or node.op_type not in evaluate.EVALUATED:
            return None
        if node.op_type == "Constant" and [attribute.name for attribute in node.attribute] == ["value"]:
            array = _elements(node.attribute[0].t)
            return None if array is None else [array]
        key = (
            node.op_type,
            tuple(bool(name) for name in node.output),
            tuple(attribute.SerializeToString(deterministic=True) for attribute in node.attribute),
            tuple(None if array is None else (array.dtype.str, array.shape, array.tobytes()) for array in inputs),
        )
        if key not in self._done:
            self._done[key] = self._evaluate(node, inputs)
        return self._done[key]

    def _evaluate(self, node: NodeProto, inputs: list[Array | None]) -> list[Array] | None:
        if (plain := of_integers(node, inputs)) is not None:
            return [plain] if plain.size <= MAX_ELEMENTS else None
        values = {name: value for name, value in zip(node.input, inputs, strict=True) if value is not None}
        found = evaluate.outputs_of(node, values, {"": self._opset})
        if found is None:
            return None
        named = iter(found)
        return [next(named) if name else np.empty(0) for name in node.output]
