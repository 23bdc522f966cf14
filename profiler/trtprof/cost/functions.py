"""The cost of ops that ONNX defines by a function body: what the body does, as one kernel.

https://onnx.ai/onnx/intro/concepts.html#functions. Shapes inside are inferred node by node; index arithmetic, which
follows from shapes and constants alone, is evaluated by ONNX's reference implementation and not counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, TypeProto, defs, helper, numpy_helper
from onnx.checker import ValidationError

from trtprof.base import evaluate, onnx_graph, shape_inference, units
from trtprof.base.op_kinds import RANDOM
from trtprof.base.records import Attribute, Op, Tensor
from trtprof.cost import Cost, CostError, MalformedOpError, Moved, UnknownShapeError, cost_of
from trtprof.cost._shapes import integer, integers, shape, size
from trtprof.cost.fused import combined, group_cost
from trtprof.cost.ops.control import Trips, trips

_NOTE = "by its function body, as one kernel"
_DATA_TYPES = {name: data_type for data_type, name in onnx_graph.DTYPES.items()}
_REMEMBERED = 4096
"""Calls whose cost is kept: a model has few kinds of them, however many nodes."""

_SCALARS: dict[int, tuple[type, ...]] = {
    AttributeProto.INT: (int,),
    AttributeProto.FLOAT: (float,),
    AttributeProto.STRING: (str,),
}
_LISTS: dict[int, int] = {
    AttributeProto.INTS: AttributeProto.INT,
    AttributeProto.FLOATS: AttributeProto.FLOAT,
    AttributeProto.STRINGS: AttributeProto.STRING,
}

_Attributes = tuple[tuple[str, Attribute], ...]
_Tensors = tuple[Tensor | None, ...]
_Array = npt.NDArray[Any]


def has_body(schema: Any) -> bool:
    """Whether ONNX defines the op by other ops."""
    return bool(schema.has_function or schema.has_context_dependent_function)


def body_cost(op: Op) -> Cost | None:
    """The cost of an op by its function body, or None when ONNX defines none."""
    found = _call_cost(
        op.op_type,
        op.domain,
        op.opset,
        tuple(sorted(op.attributes.items())),
        tuple(map(_nameless, op.inputs)),
        tuple(map(_nameless, op.outputs)),
    )
    if found is None:
        return None
    if isinstance(found, CostError):
        raise type(found)(f"{op.op_type} is priced {_NOTE}: {found}")
    cost, inputs, outputs = found
    taken = {name: tensor for name, at in inputs.items() if (tensor := op.inputs[at]) is not None}
    made = {name: tensor for name, at in outputs.items() if (tensor := op.outputs[at]) is not None}
    reads: dict[str, Moved] = {}
    for moved in cost.reads:
        tensor = taken[moved.tensor.name]
        before = reads.get(tensor.name)
        # A tensor that is passed twice is read once.
        reads[tensor.name] = Moved(tensor, max(moved.elements, before.elements if before else 0))
    return cost._replace(
        reads=tuple(reads.values()),
        writes=tuple(Moved(made[moved.tensor.name], moved.elements) for moved in cost.writes),
        views={made[view].name: taken[source].name for view, source in cost.views.items()},
    )


def _nameless(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else msgspec.structs.replace(tensor, name="", constant=False)


@lru_cache(maxsize=_REMEMBERED)
def _call_cost(
    op_type: str, domain: str, opset: int, attributes: _Attributes, inputs: _Tensors, outputs: _Tensors
) -> tuple[Cost, Mapping[str, int], Mapping[str, int]] | CostError | None:
    """The cost of a call with tensors named as the body names them, and the position of each name."""
    try:
        schema: Any = defs.get_schema(op_type, opset, domain)
    except defs.SchemaError:
        return None
    if schema.deprecated or not has_body(schema):
        return None
    try:
        given = _attributes(schema, dict(attributes))
        body = _body(schema, opset, given, inputs, outputs)
        takes = _named([*body.input], inputs, "input")
        makes = _named([*body.output], outputs, "output")
        cost = kernel_cost(body, given, [t for t in takes if t is not None], [t for t in makes if t is not None])
    except CostError as error:
        return error
    return cost, _positions(takes), _positions(makes)


def _positions(tensors: Iterable[Tensor | None]) -> dict[str, int]:
    return {tensor.name: at for at, tensor in enumerate(tensors) if tensor is not None}


def _attributes(schema: Any, given: Mapping[str, Attribute]) -> dict[str, AttributeProto]:
    found: dict[str, AttributeProto] = {}
    for name, declared in schema.attributes.items():
        if name in given:
            kind = declared.type.value
            value = _converted(given[name], kind)
            if value is None:
                raise MalformedOpError(f"attribute {name} is {given[name]!r}, which does not fit")
            found[name] = helper.make_attribute(name, value, attr_type=kind)
        elif declared.default_value.type:
            found[name] = declared.default_value
        elif declared.required:
            raise CostError(f"the body depends on attribute {name}, which is not known")
    return found


def _converted(value: Attribute, kind: int) -> Attribute | None:
    """The value as an attribute of that kind holds it, or None where it cannot."""
    if kind in _LISTS:
        items = [_converted(item, _LISTS[kind]) for item in value] if isinstance(value, tuple) else [None]
        return None if None in items else tuple(item for item in items if isinstance(item, int | float | str))
    if kind == AttributeProto.FLOAT and isinstance(value, int):
        return float(value)
    return value if isinstance(value, _SCALARS.get(kind, ())) else None


def _body(
    schema: Any, opset: int, attributes: Mapping[str, AttributeProto], inputs: _Tensors, outputs: _Tensors
) -> FunctionProto:
    body = FunctionProto()
    if not schema.has_context_dependent_function:
        body.ParseFromString(schema.get_function_with_opset_version(_version(schema.function_opset_versions, opset)))
        return body
    version = _version(schema.context_dependent_function_opset_versions, opset)
    node = NodeProto(op_type=schema.name, domain=schema.domain, attribute=attributes.values())
    node.input.extend(f"input{at}" if tensor else "" for at, tensor in enumerate(inputs))
    node.output.extend(f"output{at}" if tensor else "" for at, tensor in enumerate(outputs))
    types = [(_type_of(tensor) if tensor else TypeProto()).SerializeToString() for tensor in inputs]
    body.ParseFromString(
        schema.get_context_dependent_function_with_opset_version(version, node.SerializeToString(), types)
    )
    if body.node:
        return body
    if any(tensor is not None and (tensor.dtype == "unknown" or tensor.elements is None) for tensor in inputs):
        raise UnknownShapeError("the body depends on the types of the inputs, which are not all known")
    raise MalformedOpError("ONNX has no body for these inputs and attributes")


def _version(versions: Sequence[int], opset: int) -> int:
    return max((version for version in versions if version <= opset), default=min(versions))


def _named(formals: Sequence[str], actuals: _Tensors, kind: str) -> list[Tensor | None]:
    """The tensors of a call under the names that the body has for them; None is one that is omitted."""
    if any(tensor is not None for tensor in actuals[len(formals) :]):
        raise MalformedOpError(f"has more than {len(formals)} {kind}s")
    padded = (*actuals, *[None] * (len(formals) - len(actuals)))
    return [
        msgspec.structs.replace(tensor, name=formal) if tensor is not None else None
        for formal, tensor in zip(formals, padded, strict=False)
    ]


def kernel_cost(
    body: FunctionProto, attributes: Mapping[str, AttributeProto], takes: Sequence[Tensor], makes: Sequence[Tensor]
) -> Cost:
    """The cost of a call of a function: arithmetic of all nodes, traffic of the tensors of the call alone."""
    opsets = {_plain(entry.domain): entry.version for entry in body.opset_import}
    opsets.setdefault("", defs.onnx_opset_version())
    own = {attribute.name: attribute for attribute in body.attribute_proto}
    walk = _Walk(opsets, own | dict(attributes), {tensor.name: tensor for tensor in makes})
    for tensor in takes:
        value = None
        if tensor.value is not None and tensor.dtype in units.NUMPY_DTYPES:
            value = np.array(tensor.value, units.NUMPY_DTYPES[tensor.dtype]).reshape(shape(tensor))
        walk.put(tensor, value)
    found = walk.cost(body)
    inputs = {tensor.name for tensor in takes}
    if walk.control:
        reads = tuple(Moved(tensor, size(tensor)) for tensor in takes)
    else:
        reads = tuple(moved for moved in found.reads if moved.tensor.name in inputs)
    views = {tensor.name: found.views[tensor.name] for tensor in makes if found.views.get(tensor.name) in inputs}
    return found._replace(
        reads=reads,
        writes=tuple(Moved(tensor, size(tensor)) for tensor in makes if tensor.name not in views),
        views=views,
        note="; ".join(filter(None, (_NOTE, found.note))),
    )


class _Walk:
    """A walk over the nodes of a body in order that finds shapes and adds up costs."""

    def __init__(
        self, opsets: Mapping[str, int], attributes: Mapping[str, AttributeProto], makes: Mapping[str, Tensor]
    ) -> None:
        self.opsets, self.attributes, self.makes = opsets, attributes, makes
        # What is known of every tensor met so far, by the name that the body gives it
        self.tensors: dict[str, Tensor] = {}
        self.values: dict[str, _Array] = {}  # The elements of those that are small and known
        self.settled: set[str] = set()  # Those that follow from shapes and constants of the body alone
        self.control = False  # Whether any control flow was met

    def inner(self) -> _Walk:
        """A walk over a graph inside of this one, which sees what this one has met."""
        walk = _Walk(self.opsets, self.attributes, {})
        walk.tensors, walk.values, walk.settled = dict(self.tensors), dict(self.values), set(self.settled)
        return walk

    def put(self, tensor: Tensor, value: _Array | None = None) -> None:
        if value is not None and value.size <= onnx_graph.SMALL_CONSTANT:
            self.values[tensor.name] = value
            if value.dtype.kind in "iub":
                tensor = msgspec.structs.replace(tensor, value=tuple(map(int, value.ravel())))
        self.tensors[tensor.name] = tensor

    def cost(self, graph: FunctionProto | GraphProto) -> Cost:
        """All nodes as one kernel, and which tensors are views of which."""
        plain: list[Op] = []
        bodies: list[tuple[Trips, Cost]] = []
        for constant in graph.initializer if isinstance(graph, GraphProto) else ():
            self.put(onnx_graph.tensor_from_initializer(constant), numpy_helper.to_array(constant))
            self.settled.add(constant.name)
        for declared in graph.node:
            node = self._called(declared)
            graphs = dict(onnx_graph.subgraphs(node))
            if graphs:
                self.control = True
                bodies += self._control(node, graphs)
                continue
            self._infer(node)
            op = self._op(node)
            if not self._settle(op):
                plain.append(op)
        found = group_cost(plain)
        if found is None:
            missing = {op.op_type for op in plain if cost_of(op) is None}
            raise CostError(f"no cost function for {', '.join(sorted(missing))} in the body")
        tensor_flops, fast_flops = found.tensor_flops, found.fast_flops
        arithmetic, spare = found.arithmetic, found.unsure
        for (repeats, _, _), body in bodies:
            tensor_flops += repeats * body.tensor_flops
            arithmetic = arithmetic.plus(body.arithmetic.times(repeats))
            fast_flops += repeats * body.fast_flops
            spare = spare.plus(body.unsure.times(repeats))
        notes = [found.note, *(note for times, body in bodies for note in (times.note, body.note))]
        return found._replace(
            tensor_flops=tensor_flops,
            arithmetic=arithmetic,
            fast_flops=fast_flops,
            spare=spare,
            bound=combined(found.bound, *(bound for times, body in bodies for bound in (times.bound, body.bound))),
            note="; ".join(dict.fromkeys(filter(None, notes))),
            core=None if bodies else found.core,
        )

    def _called(self, declared: NodeProto) -> NodeProto:
        """The node with attributes filled in and without inputs that the call omits."""
        node = NodeProto(op_type=declared.op_type, domain=_plain(declared.domain), output=declared.output)
        node.input.extend(name if name in self.tensors else "" for name in declared.input)
        for attribute in declared.attribute:
            reference = attribute.ref_attr_name
            if not reference:
                node.attribute.add().CopyFrom(attribute)
            elif reference in self.attributes:
                node.attribute.add().CopyFrom(self.attributes[reference])
                node.attribute[-1].name = attribute.name
        return node

    def _op(self, node: NodeProto) -> Op:
        attributes = {attribute.name: onnx_graph.attribute_value(attribute) for attribute in node.attribute}
        return Op(
            op_type=node.op_type,
            domain=node.domain,
            opset=self.opsets.get(node.domain, 1),
            attributes={name: value for name, value in attributes.items() if value is not None},
            inputs=tuple(self.tensors[name] if name else None for name in node.input),
            outputs=tuple(self.tensors[name] if name else None for name in node.output),
        )

    def _infer(self, node: NodeProto) -> None:
        """Make the outputs of a node known: what the call says of them, else what ONNX infers."""
        types: Mapping[str, TypeProto] = {}
        try:
            schema = defs.get_schema(node.op_type, self.opsets.get(node.domain, 1), node.domain)
            types = shape_inference.infer_node(
                schema,
                node,
                {name: _type_of(self.tensors[name]) for name in node.input if name},
                {name: numpy_helper.from_array(self.values[name], name) for name in node.input if name in self.values},
                [helper.make_opsetid(*entry) for entry in self.opsets.items()],
            )
        except ValidationError as error:
            raise MalformedOpError(str(error)) from error
        except (defs.SchemaError, shape_inference.InferenceError):
            pass  # what is not inferred stays unknown, and is said where a size is asked for
        for name in filter(None, node.output):
            found = onnx_graph.tensor_from_value_info(
                helper.make_value_info(name, types.get(name, onnx_graph.ANY_TYPE))
            )
            self.put(self.makes.get(name, found))
        results = [self.tensors[name] for name in node.output if name]
        if node.op_type in ("Shape", "Size"):
            self._measure(node, results[0])
        elif all(_is_small(tensor) for tensor in results) and all(name in self.values for name in node.input if name):
            for tensor, value in zip(results, self._evaluated(node), strict=False):
                self.put(tensor, value)

    def _measure(self, node: NodeProto, result: Tensor) -> None:
        """The value of a Shape or Size, which only asks for the shape of its input."""
        dims = self.tensors[node.input[0]].shape
        if dims is None:
            return
        if node.op_type == "Shape":
            bounds = {attribute.name: attribute.i for attribute in node.attribute}
            dims = dims[bounds.get("start", 0) : bounds.get("end")]
        known = [dim for dim in dims if isinstance(dim, int)]
        if len(known) == len(dims):
            self.put(result, np.array(known if node.op_type == "Shape" else math.prod(known), np.int64))

    def _evaluated(self, node: NodeProto) -> Sequence[_Array]:
        """The outputs of a node whose inputs are known, or none where ONNX's reference cannot tell."""
        return evaluate.outputs_of(node, {name: self.values[name] for name in node.input if name}, self.opsets) or ()

    def _settle(self, op: Op) -> bool:
        """Whether the op follows from shapes and constants of the body alone, and makes little that stays inside."""
        read = [tensor.name for tensor in op.inputs if tensor is not None]
        made = [tensor for tensor in op.outputs if tensor is not None]
        follows = op.op_type in ("Shape", "Size", "Constant") or (bool(read) and self.settled.issuperset(read))
        if op.op_type in RANDOM or not follows:
            return False
        if any(tensor.name in self.makes or not _is_small(tensor) for tensor in made):
            return False
        self.settled.update(tensor.name for tensor in made)
        return True

    def _control(self, node: NodeProto, graphs: Mapping[str, GraphProto]) -> list[tuple[Trips, Cost]]:
        """The bodies of a control-flow node that count, and how often each runs; its outputs become known."""
        op = self._op(NodeProto(op_type=node.op_type, input=node.input, attribute=node.attribute))
        if op.op_type == "If":
            return self._branches(op, node, graphs)
        if op.op_type == "Loop":
            return self._loop(trips(op), node, graphs["body"], carried=node.input[2:], sliced=[])
        if op.op_type == "Scan":
            count = integer(op, "num_scan_inputs", 0)
            axes = integers(op, "scan_input_axes") or (0,) * count
            sliced = [self._slice(name, axis) for name, axis in zip(node.input[-count:], axes, strict=True)]
            return self._loop(trips(op), node, graphs["body"], carried=node.input[:-count], sliced=sliced)
        raise CostError(f"it is not known how often the graph of {op.op_type} in the body runs")

    def _branches(self, op: Op, node: NodeProto, graphs: Mapping[str, GraphProto]) -> list[tuple[Trips, Cost]]:
        condition = self.values.get(node.input[0])
        if condition is not None:
            graphs = {name: graphs[name] for name in ["then_branch" if condition.all() else "else_branch"]}
        walks = [self.inner() for _ in graphs]
        costs = [walk.cost(graph) for walk, graph in zip(walks, graphs.values(), strict=True)]
        for at, name in enumerate(node.output):
            results = [walk.result(graph, at) for walk, graph in zip(walks, graphs.values(), strict=True)]
            kinds = {(found.dtype, found.shape) for found, _ in results}
            found, value = results[0] if len(kinds) == 1 else (onnx_graph.unknown_tensor(name), None)
            self.put(
                self.makes.get(name) or msgspec.structs.replace(found, name=name, value=None),
                value if len(results) == 1 else None,
            )
        times = trips(op) if len(graphs) > 1 else Trips(1)
        return [(times, max(costs, key=_flops))]

    def _loop(
        self, times: Trips, node: NodeProto, graph: GraphProto, carried: Sequence[str], sliced: Sequence[Tensor]
    ) -> list[tuple[Trips, Cost]]:
        """A body whose first inputs of a Loop are the trip and the condition, then what is carried, then slices."""
        walk = self.inner()
        counters = [Tensor(name="", dtype="int64", shape=()), Tensor(name="", dtype="bool", shape=())]
        given = counters if node.op_type == "Loop" else []
        starts = [self.tensors[name] for name in carried]
        for formal, tensor in zip(graph.input, [*given, *starts, *sliced], strict=True):
            walk.put(msgspec.structs.replace(tensor, name=formal.name, value=None))
        found = walk.cost(graph)
        skipped = len(given) // 2  # a Loop's body says whether to go on; its node does not
        for at, name in enumerate(node.output):
            tensor, _ = walk.result(graph, at + skipped)
            if at < len(starts):
                if tensor.shape != starts[at].shape:
                    raise UnknownShapeError(f"{name!r} changes its shape from trip to trip")
            elif tensor.shape is not None:
                count = times.repeats if times.bound == "exact" else "?"
                tensor = msgspec.structs.replace(tensor, shape=(count, *tensor.shape))
            self.put(self.makes.get(name) or msgspec.structs.replace(tensor, name=name, value=None))
        return [(times, found)]

    def _slice(self, name: str, axis: int) -> Tensor:
        dims = list(shape(self.tensors[name]))
        del dims[axis]
        return msgspec.structs.replace(self.tensors[name], shape=tuple(dims), value=None)

    def result(self, graph: GraphProto, at: int) -> tuple[Tensor, _Array | None]:
        """An output of a graph that was walked, with its elements if they are known."""
        name = graph.output[at].name
        return self.tensors[name], self.values.get(name)


def _plain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _is_small(tensor: Tensor) -> bool:
    return tensor.elements is not None and tensor.elements <= onnx_graph.SMALL_CONSTANT


def _flops(cost: Cost) -> int:
    special = sum(units.SPECIAL_FLOPS[name] * count for name, count in cost.arithmetic.special.items())
    return cost.tensor_flops + cost.arithmetic.vector + special


def _type_of(tensor: Tensor) -> TypeProto:
    if tensor.dtype not in _DATA_TYPES:
        return TypeProto()
    dims = None if tensor.shape is None else [None if dim == "?" else dim for dim in tensor.shape]
    found = helper.make_tensor_type_proto(_DATA_TYPES[tensor.dtype], dims)
    return helper.make_sequence_type_proto(found) if tensor.kind == "sequence" else found
