"""Shapes that `onnx.shape_inference` leaves open, worked out node by node.

It does not follow values through Div, Where, Range or Min; with the inputs bound, a walk in graph order evaluates them
and infers each open node again.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import msgspec
from onnx import GraphProto, ModelProto, NodeProto, TypeProto, defs, helper, numpy_helper
from onnx.checker import ValidationError

from trtprof.base import onnx_graph, shape_inference
from trtprof.base.evaluate import Array
from trtprof.base.op_kinds import SHAPE_INPUTS
from trtprof.base.records import Dim, Op, Tensor
from trtprof.source.constants import Values
from trtprof.source.shape_rules import has_rule, outputs_by_rule

Inputs = Sequence[Tensor | None]
Scopes = Sequence[Mapping[str, Tensor]]
MOST_VALUES = 1024
"""Integer inputs of at most so many elements may decide a shape: axes, sizes, pads."""
_DATA_TYPES = {name: number for number, name in onnx_graph.DTYPES.items()}
_INTEGERS = frozenset({"int64", "int32", "bool"})
_CONTAINERS = {"sequence": helper.make_sequence_type_proto, "optional": helper.make_optional_type_proto}


class Faults(NamedTuple):
    """What a walk found wrong."""

    # Nodes whose inputs are known and not valid: path of the graph, name, and what onnx says
    refused: list[tuple[str, str, str]]
    idle: frozenset[str]  # Paths of the branches that are not taken


def complete(proto: ModelProto, known: dict[str, dict[str, Tensor]]) -> Faults:
    """Fill in, in place, the tensors of ``known`` that have no full shape and can be given one."""
    opsets = {"" if entry.domain == "ai.onnx" else entry.domain: entry.version for entry in proto.opset_import}
    values = Values(proto.graph, opsets.get("", 1), known)
    walk = _Walk(opsets, known, values)
    walk.graph(proto.graph, "", ())
    for path, name, value in values.computed():
        tensor = known[path].get(name)
        if tensor is not None and tensor.dtype in _INTEGERS and value.size <= onnx_graph.SMALL_CONSTANT:
            known[path][name] = msgspec.structs.replace(tensor, value=tuple(map(int, value.reshape(-1))))
    return Faults([(path, node, why) for (path, node), why in walk.refused.items()], frozenset(walk.idle))


def _open(tensor: Tensor | None) -> bool:
    if tensor is None or tensor.shape is None:
        return tensor is None or tensor.kind != "map"
    return tensor.dtype == "unknown" or str in map(type, tensor.shape)


class _Walk:
    def __init__(self, opsets: Mapping[str, int], known: dict[str, dict[str, Tensor]], values: Values) -> None:
        self._opsets = opsets
        self._known = known
        self._values = values
        self._schemas: dict[tuple[str, str], Any] = {}
        self._made: dict[Hashable, list[Tensor | None]] = {}
        self._faults: dict[Hashable, str] = {}
        self.refused: dict[tuple[str, str], str] = {}
        self.idle: set[str] = set()
        self._bodies = len(known) > 1
        self._alone: dict[tuple[str, str], bool] = {}
        self._ids = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]

    def graph(self, graph: GraphProto, path: str, around: Scopes) -> None:
        """All nodes of a graph in order; ``around`` are the tensors of the graphs that it lies in, inner first."""
        own = self._known[path]
        for initializer in graph.initializer:
            own[initializer.name] = onnx_graph.tensor_from_initializer(initializer)
        for sparse in graph.sparse_initializer:
            own[sparse.values.name] = onnx_graph.tensor_from_sparse(sparse, sparse.values.name)
        scopes = (own, *around)
        for node in graph.node:
            bodies = onnx_graph.subgraphs(node) if self._bodies else ()
            kind = node.op_type, node.domain
            alone = self._alone.get(kind)
            if alone is None:
                alone = self._alone[kind] = self._by_rule_alone(node)
            if not bodies and not alone and not any(_open(own.get(name)) for name in node.output if name):
                continue
            inputs = [(_seen(name, scopes) or onnx_graph.unknown_tensor(name)) if name else None for name in node.input]
            if bodies:
                found = self._around_bodies(node, bodies, inputs, path, scopes)
            else:
                found = self._outputs(node, inputs, path)
            for name, tensor in found.items():
                if name:
                    before = own.get(name)
                    ruled = alone and not bodies
                    own[name] = _merged(tensor, before, name) if ruled and before else _merged(before, tensor, name)

    def _by_rule_alone(self, node: NodeProto) -> bool:
        """Whether a rule, and not onnx, knows the op: what a file declares of its outputs may not fit what is bound."""
        schema = self._schema(node)
        inferred = schema is not None and schema.has_type_and_shape_inference_function
        return not inferred and has_rule(node.op_type, "" if node.domain == "ai.onnx" else node.domain)

    def _outputs(self, node: NodeProto, inputs: Inputs, path: str) -> Mapping[str, Tensor]:
        """What onnx infers, and what a rule says of that which stays open."""
        found = dict(self._inferred(node, inputs, path))
        if any(_open(found.get(name)) for name in node.output if name):
            for name, tensor in self._ruled(node, inputs, path).items():
                found[name] = _merged(found.get(name), tensor, name)
        return found

    def _ruled(self, node: NodeProto, inputs: Inputs, path: str) -> Mapping[str, Tensor]:
        if not has_rule(node.op_type, "" if node.domain == "ai.onnx" else node.domain):
            return {}
        known = [self._valued(node, index, tensor, path) for index, tensor in enumerate(inputs)]
        ruled = outputs_by_rule(onnx_graph.op_of(node, self._opsets, known))
        return {name: tensor for name, tensor in zip(node.output, ruled or (), strict=False) if tensor is not None}

    def _valued(self, node: NodeProto, index: int, tensor: Tensor | None, path: str) -> Tensor | None:
        """An input with its elements, where these may decide a shape and are known."""
        if tensor is None or tensor.dtype not in _INTEGERS or not _may_decide(node, index, tensor):
            return tensor
        value = self._values.of(path, tensor.name)
        return tensor if value is None else msgspec.structs.replace(tensor, value=tuple(map(int, value.reshape(-1))))

    def _inferred(self, node: NodeProto, inputs: Inputs, path: str) -> Mapping[str, Tensor]:
        schema = self._schema(node)
        if schema is None:
            return {}
        deciding: dict[str, Array] = {}
        for index, tensor in enumerate(inputs):
            if tensor is not None and _may_decide(node, index, tensor):
                value = self._values.of(path, tensor.name)
                if value is not None:
                    deciding[tensor.name] = value
        # Networks repeat themselves: what differs in the names of its tensors alone has outputs alike.
        key = (
            node.op_type,
            node.domain,
            *(attribute.SerializeToString(deterministic=True) for attribute in node.attribute),
            *map(bool, node.output),
            *(_told_of(tensor, deciding) if tensor is not None else None for tensor in inputs),
        )
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = self._infer(schema, node, inputs, deciding, key)
        if key in self._faults:
            self.refused[path, node.name] = self._faults[key]
        pairs = zip(node.output, made, strict=True)
        return {name: msgspec.structs.replace(tensor, name=name) for name, tensor in pairs if tensor is not None}

    def _infer(
        self, schema: Any, node: NodeProto, inputs: Inputs, deciding: Mapping[str, Array], key: Hashable
    ) -> list[Tensor | None]:
        """What onnx says of each output; None where it says nothing."""
        if node.op_type == "STFT":
            node = one_sided(node)
        types = {tensor.name: _type_of(tensor) for tensor in inputs if tensor is not None}
        data = {name: numpy_helper.from_array(value, name) for name, value in deciding.items()}
        try:
            made = shape_inference.infer_node(schema, node, types, data, self._ids)
        except (shape_inference.InferenceError, ValidationError) as error:
            made = {}
            if not any(_open(tensor) for tensor in inputs if tensor is not None):
                self._faults[key] = " ".join(str(error).split()) or type(error).__name__
        return [onnx_graph.tensor_from_type(name, made[name]) if name in made else None for name in node.output]

    def _schema(self, node: NodeProto) -> Any:
        key = (node.op_type, "" if node.domain == "ai.onnx" else node.domain)
        if key not in self._schemas:
            try:
                self._schemas[key] = defs.get_schema(key[0], self._opsets.get(key[1], 1), key[1])
            except defs.SchemaError:
                self._schemas[key] = None
        return self._schemas[key]

    def _around_bodies(
        self, node: NodeProto, bodies: Sequence[tuple[str, GraphProto]], inputs: Inputs, path: str, scopes: Scopes
    ) -> Mapping[str, Tensor]:
        """Outputs of a control-flow node in the graph at ``path``, after its bodies."""
        op = onnx_graph.op_of(node, self._opsets, inputs)
        paths = [onnx_graph.subgraph_path(node.name, attribute) for attribute, _ in bodies]
        if node.op_type == "Loop" and not op.domain:
            return self._loop(node, bodies[0][1], paths[0], inputs, path, scopes)
        given = onnx_graph.given_to_body(op)
        for (_, body), inner in zip(bodies, paths, strict=True):
            self._body(body, inner, given, scopes)
        results = [
            [_seen(info.name, (self._known[inner], *scopes)) for info in body.output]
            for (_, body), inner in zip(bodies, paths, strict=True)
        ]
        if node.op_type == "If" and len(results) == 2:
            condition = self._values.of(path, node.input[0])
            if condition is not None and condition.size == 1:
                taken = "then_branch" if condition.reshape(-1)[0] else "else_branch"
                self.idle.update(inner for (name, _), inner in zip(bodies, paths, strict=True) if name != taken)
                results = [result for result, (name, _) in zip(results, bodies, strict=True) if name == taken] * 2
            return {
                name: _either(first, second)
                for name, first, second in zip(node.output, *results, strict=False)
                if first is not None and second is not None
            }
        if node.op_type == "Scan":
            return dict(zip(node.output, _scanned(op, results[0]), strict=False))
        return self._ruled(node, inputs, path)

    def _body(self, body: GraphProto, path: str, given: Inputs, scopes: Scopes) -> None:
        own = self._known[path]
        for info, tensor in zip(body.input, given, strict=False):
            if tensor is not None:
                own[info.name] = _merged(own.get(info.name), tensor, info.name)
        self.graph(body, path, scopes)

    def _loop(
        self, node: NodeProto, body: GraphProto, path: str, inputs: Inputs, around: str, scopes: Scopes
    ) -> Mapping[str, Tensor]:
        """A state has the shape that it starts with, as far as the body gives that shape back."""
        counters = [Tensor(name="", dtype="int64", shape=()), Tensor(name="", dtype="bool", shape=())]
        states = [tensor and msgspec.structs.replace(tensor, constant=False, value=None) for tensor in inputs[2:]]
        before = {inner: dict(self._known[inner]) for inner, _ in onnx_graph.all_graphs(body, path)}
        while True:
            self._body(body, path, [*counters, *states], scopes)
            after = [_seen(info.name, (self._known[path], *scopes)) for info in body.output[1 : 1 + len(states)]]
            kept = [
                _either(state, now) if state is not None and now is not None else None
                for state, now in zip_longest(states, after)  # a body may give back fewer than it should
            ]
            if kept == states:
                break
            # A dimension is only ever given up, so that this ends.
            states = kept
            for inner, tensors in before.items():
                self._known[inner].clear()
                self._known[inner].update(tensors)
            self._values.forget(before)
        stacked = [self._known[path].get(info.name) for info in body.output[1 + len(states) :]]
        trips = self._trips(node, around)
        outputs = [
            *states,
            *(
                tensor
                and msgspec.structs.replace(tensor, shape=None if tensor.shape is None else (trips, *tensor.shape))
                for tensor in stacked
            ),
        ]
        return {name: tensor for name, tensor in zip(node.output, outputs, strict=False) if tensor is not None}

    def _trips(self, node: NodeProto, path: str) -> Dim:
        """How often a Loop without a condition runs; one with a condition may end earlier."""
        if not node.input or not node.input[0] or (len(node.input) > 1 and node.input[1]):
            return "?"
        value = self._values.of(path, node.input[0])
        return "?" if value is None or value.size != 1 else max(int(value.reshape(-1)[0]), 0)


def one_sided(node: NodeProto) -> NodeProto:
    """An STFT that says ``onesided``: inference takes one that does not for two-sided, against its definition."""
    if any(attribute.name == "onesided" for attribute in node.attribute):
        return node
    stated = NodeProto()
    stated.CopyFrom(node)
    stated.attribute.append(helper.make_attribute("onesided", 1))
    return stated


def _seen(name: str, scopes: Scopes) -> Tensor | None:
    return next((scope[name] for scope in scopes if name in scope), None)


def _may_decide(node: NodeProto, index: int, tensor: Tensor) -> bool:
    """Whether the elements of an input may decide the shape of an output."""
    small = tensor.elements is None or tensor.elements <= MOST_VALUES
    return small and (tensor.dtype in _INTEGERS or index in SHAPE_INPUTS.get(node.op_type, ()))


def _told_of(tensor: Tensor, deciding: Mapping[str, Array]) -> Hashable:
    value = deciding.get(tensor.name)
    dims: Sequence[Dim | None] | None = tensor.shape
    if dims is not None and str in map(type, dims):
        dims = tuple([dim if isinstance(dim, int) else None for dim in dims])
    return tensor.dtype, tensor.kind, dims, None if value is None else (value.dtype.str, value.shape, value.tobytes())


def _type_of(tensor: Tensor) -> TypeProto:
    dims = None if tensor.shape is None else [dim if isinstance(dim, int) else None for dim in tensor.shape]
    if tensor.kind == "map" or tensor.dtype not in _DATA_TYPES:
        return TypeProto()
    held: TypeProto = helper.make_tensor_type_proto(_DATA_TYPES[tensor.dtype], dims)
    return _CONTAINERS[tensor.kind](held) if tensor.kind in _CONTAINERS else held


def _merged(old: Tensor | None, new: Tensor, name: str) -> Tensor:
    if old is None or (old.dtype == "unknown" and old.shape is None):
        return msgspec.structs.replace(new, name=name, constant=False, value=None)
    if old.dtype == "unknown" and old.kind == new.kind:
        old = msgspec.structs.replace(old, dtype=new.dtype)
    if new.shape is None or old.kind != new.kind:
        return old
    if old.shape is None or len(old.shape) != len(new.shape):
        return msgspec.structs.replace(old, shape=new.shape) if old.shape is None else old
    shape = tuple(mine if isinstance(mine, int) else other for mine, other in zip(old.shape, new.shape, strict=True))
    return msgspec.structs.replace(old, shape=shape)


def _either(first: Tensor, second: Tensor) -> Tensor:
    """What is known of a value that is one of two."""
    if first.dtype != second.dtype or first.kind != second.kind:
        return onnx_graph.unknown_tensor(first.name)
    if first.shape is None or second.shape is None or len(first.shape) != len(second.shape):
        return msgspec.structs.replace(first, shape=None)
    shape = tuple(a if a == b else "?" for a, b in zip(first.shape, second.shape, strict=True))
    return msgspec.structs.replace(first, shape=shape)


def _scanned(op: Op, results: Inputs) -> Iterator[Tensor]:
    """Outputs of a Scan: its states, then what each trip made, stacked along an axis."""
    count = op.attributes.get("num_scan_inputs", 0)
    axes = op.attributes.get("scan_output_axes", ())
    if op.opset < 9 or not isinstance(count, int) or not 0 < count <= len(op.inputs):
        return
    states = len(op.inputs) - count
    length = onnx_graph.scan_length(op)
    for index, tensor in enumerate(results):
        if tensor is None or tensor.shape is None:
            yield tensor or onnx_graph.unknown_tensor("")
        elif index < states:
            yield tensor
        else:
            at = int(axes[index - states]) if isinstance(axes, tuple) and index - states < len(axes) else 0
            at = at + len(tensor.shape) + 1 if at < 0 else at
            shape = (*tensor.shape[:at], "?" if length is None else length, *tensor.shape[at:])
            yield msgspec.structs.replace(tensor, shape=shape)
