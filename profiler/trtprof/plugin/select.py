"""Nodes of a model as a task for a kernel, and the places of the model that such a kernel could serve.

A kernel reads and writes dense tensors whose rank is known. What decides a shape (axes, pads, a target shape) and what
is a single number must be a constant of the model, and becomes part of the task.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import onnx
from onnx import helper

from trtprof.base import onnx_graph, op_kinds, shape_inference
from trtprof.base.errors import UsageError
from trtprof.base.op_kinds import op_kind
from trtprof.base.records import Dim, Tensor
from trtprof.base.units import format_names
from trtprof.plugin.model import STANDARD, At, Model, Value
from trtprof.plugin.task import DOMAIN, Operand, Task

DTYPES = ("fp32", "fp16", "bf16", "int8", "uint8", "int32", "int64", "bool")
"""Of operands: what TensorRT hands to a plugin as a plain array."""
MOST_FUSED = 16  # Nodes before and behind one that are looked at
MOST_LISTED = 5  # Places that a sentence names
MOST_NAMED = 3  # Op types in the name of a task

_RANK: tuple[op_kinds.OpKind, ...] = (
    "convolution", "matmul", "attention", "recurrent", "softmax", "normalisation", "batch norm", "reduction", "ranking",
    "scan", "pool", "pointwise", "quantise", "cast", "move", "view",
)  # fmt: skip
"""Kinds of ops, those with most arithmetic for their bytes first."""
_FUSED = op_kinds.op_types("pointwise", "cast") | {"QuantizeLinear", "DequantizeLinear"}
"""Ops that a kernel can compute on what it has just read, or is about to write."""
_REDUCTIONS = op_kinds.op_types("reduction")
_DATA_TYPES = {name: number for number, name in onnx_graph.DTYPES.items()}


_UNSPELLED = re.compile(r"[^\w+*()-]")  # In a name of a dimension: what is no part of a plain name or sum


class Choice(NamedTuple):
    """Nodes that one kernel could compute."""

    task: Task  # What they compute
    # Names of those of its nodes that stand before the node that was asked for, and compute what it reads
    before: tuple[str, ...] = ()
    behind: tuple[str, ...] = ()  # Likewise of those that compute with what it makes


class Place(NamedTuple):
    """Nodes of a model that a task describes."""

    graph: str  # Path of the graph that they stand in
    nodes: tuple[str, ...]  # Their names, in the order of `Task.nodes`
    main: str  # Name of that with most arithmetic
    inputs: tuple[str, ...]  # Names of tensors, in the order of `Task.inputs`
    outputs: tuple[str, ...]  # Likewise
    constants: tuple[Value, ...] = ()  # What the nodes read that is part of the task


class Alike(NamedTuple):
    """Places of a model."""

    places: tuple[Place, ...]  # Those that a task describes, in the order of the model; none has a node of another
    left: tuple[str, ...]  # Those that look alike and are something else, with the reason


def choices(model: Model, name: str) -> tuple[Choice, ...]:
    """What a kernel could compute around a node, most nodes first: at least the node alone."""
    at = model.named(name)
    chosen(model, (name,))
    behind = _behind(model, at)
    found: dict[frozenset[At], Choice] = {}
    for last in range(len(behind), -1, -1):
        after = [one for step in behind[:last] for one in step]
        core = {at, *after}
        levels = list(_before(model, core))
        for first in range(len(levels), -1, -1):
            before = {one for level in levels[:first] for one in level}
            taken = frozenset(core | before)
            if taken in found:
                continue
            try:
                task = _Region(model, sorted(taken)).task()
            except _RefusedError:
                continue
            found[taken] = Choice(task, _names(model, before), _names(model, after))
    return tuple(sorted(found.values(), key=lambda one: -len(one.task.nodes)))


def chosen(model: Model, names: Sequence[str]) -> Choice:
    """Exactly these nodes, such as those of a layer of an engine; Constants among them count as what they hold."""
    nodes = sorted({model.named(name) for name in names})
    called = format_names([model.node(at).name for at in nodes])
    try:
        nodes = [at for at in nodes if not _is_standard(model.node(at), "Constant")]
        if not nodes:
            raise _RefusedError("a constant is computed by nothing")
        return Choice(_Region(model, nodes).task())
    except _RefusedError as error:
        raise UsageError(
            f"no kernel can be written for {called}", why=str(error), fix=error.fix or "choose another node"
        ) from None


def alike(model: Model, task: Task, only: Collection[str] = ()) -> Alike:
    """All places of a model where the nodes of a task stand, as it has them, or others that are the same.

    The same are op types, attributes, dtypes, shapes (whatever dimensions without a number are called), which inputs
    are constants, and the constants of the body. `only`: names of nodes: places with none of them are left; empty for
    all.
    """
    pattern = [model.named(name) for name in task.nodes]
    main = pattern[_main(model, pattern)]
    own = _Region(model, pattern)
    places, left, taken = [own.place()], [], set(pattern)
    for at in model.nodes.values():
        node = model.node(at)
        if at in taken or not _like(node, model.node(main)):
            continue
        for nodes in _mapped(model, pattern, main, at):
            there = f"{node.name}: "
            if taken.intersection(nodes):
                left.append(there + "a node of it belongs to another place")
                break
            try:
                region = _Region(model, nodes)
                different = _difference(task, region.task())
            except _RefusedError as error:
                different = str(error)
            if different:
                left.append(there + different)
            else:
                taken.update(nodes)
                places.append(region.place())
            break
    order = {name: place for place, name in enumerate(model.nodes)}
    places.sort(key=lambda place: order[place.main])
    for name in only:
        model.named(name)
        if not any(name in place.nodes for place in places):
            raise UsageError(
                f"at {name} there is nothing that {task.name} computes",
                why=next((why for why in left if why.startswith(f"{name}: ")), "other nodes stand there"),
                fix="name one of " + format_names([place.main for place in places], MOST_LISTED),
            )
    if only:
        left += [f"{place.main}: not asked for" for place in places if not set(only) & set(place.nodes)]
        places = [place for place in places if set(only) & set(place.nodes)]
    return Alike(tuple(places), tuple(left))


# --- a set of nodes ------------------------------------------------------------------------------


class _RefusedError(Exception):
    """No kernel can be written for some nodes; the message says why."""

    def __init__(self, why: str, fix: str = "") -> None:
        super().__init__(why)
        self.fix = fix


class _Region:
    """Nodes of one graph, in an order in which they can be computed, and what goes in and out.

    Attributes:
        inputs: Values that they read, each once, but for small constants.
        outputs: Values that they make and others read.

    Raises:
        _RefusedError: No kernel can compute them.
    """

    def __init__(self, model: Model, nodes: Sequence[At]) -> None:
        self._model, self._nodes = model, list(nodes)
        self._inside = set(nodes)
        self._graph = nodes[0].graph
        for at in nodes:
            _check_node(model, at)
        if len({at.graph for at in nodes}) > 1:
            raise _RefusedError("they stand in several graphs")
        self._baked: dict[Value, onnx.TensorProto] = {}
        self.inputs, self.outputs = self._read(), self._made()
        if model.leaves_and_returns(self._nodes):
            raise _RefusedError("another node is computed between them, from what they make")

    def _read(self) -> list[Value]:
        found: dict[Value, None] = {}
        for at in self._nodes:
            node = self._model.node(at)
            for place, name in enumerate(node.input):
                value = self._model.value(at.graph, name) if name else None
                if value is None or self._model.maker(value) in self._inside:
                    continue
                tensor = self._model.constant(value)
                decides = decides_shape(node.op_type, place)
                if tensor is not None and (decides or onnx_graph.tensor_from_initializer(tensor).elements == 1):
                    self._baked[value] = tensor
                elif decides:
                    raise _RefusedError(
                        f"a shape of {node.name} is computed by the model, in {name!r}",
                        "fold constants first: trtprof try does, as rung constant-folding",
                    )
                else:
                    found.setdefault(value)
        if all(self._model.constant(value) is not None for value in found):
            raise _RefusedError("all that it reads is constant, so that it is computed before the run")
        return list(found)

    def _made(self) -> list[Value]:
        found = []
        for at in self._nodes:
            for name in self._model.node(at).output:
                value = Value(at.graph, name)
                if name and any(use not in self._inside for use in self._model.uses[value]):
                    found.append(value)
        if not found:
            raise _RefusedError("nothing reads what it makes")
        if all(only_decides_shapes(self._model, value) for value in found):
            raise _RefusedError("what it makes is a shape, which is computed before the run, or on the host")
        return found

    def place(self) -> Place:
        """Where they stand."""
        names = tuple(self._model.node(at).name for at in self._nodes)
        return Place(
            self._graph,
            names,
            names[_main(self._model, self._nodes)],
            tuple(value.name for value in self.inputs),
            tuple(value.name for value in self.outputs),
            tuple(self._baked),
        )

    def task(self) -> Task:
        """What they compute."""
        body, inputs, outputs = self._body()
        inputs, outputs = _spelled(*_dims_named(body, inputs, outputs))
        op_types = [self._model.node(at).op_type for at in self._nodes]
        chief = _main(self._model, self._nodes)
        digest = hashlib.sha256(repr(_key(body, inputs, outputs)).encode()).hexdigest()[:6]
        others = [one for place, one in enumerate(op_types) if place != chief]
        body.name = "_".join([op_types[chief], *dict.fromkeys(others[: MOST_NAMED - 1]), digest])
        task = Task(
            name=body.name,
            nodes=tuple(self._model.node(at).name for at in self._nodes),
            inputs=inputs,
            outputs=outputs,
            body=body,
            main=op_types[chief],
        )
        try:
            for operand in task.outputs:
                task.dims(operand)
        except UsageError as error:
            raise _RefusedError(error.why, error.fix) from None
        return task

    def _body(self) -> tuple[onnx.FunctionProto, tuple[Operand, ...], tuple[Operand, ...]]:
        constants = [value for value in self.inputs if self._model.constant(value) is not None]
        streams = [value for value in self.inputs if value not in constants]
        called: dict[Value, str] = {}
        for letter, values in (("x", streams), ("w", constants), ("y", self.outputs)):
            for place, value in enumerate(values):
                called[value] = letter if len(values) == 1 else f"{letter}{place}"
        nodes = []
        for place, (value, tensor) in enumerate(self._baked.items()):
            called[value] = f"c{place}"
            nodes.append(
                helper.make_node(
                    "Constant", [], [called[value]], name=f"Constant_{place}", value=self._model.elements(tensor)
                )
            )
        for number, at in enumerate(self._nodes):
            node = self._model.node(at)
            for name in node.output:
                if name:
                    called.setdefault(Value(at.graph, name), f"t{len(called)}")
            reads = [self._model.value(at.graph, name) if name else None for name in node.input]
            made = onnx.NodeProto(
                op_type=node.op_type,
                name=f"{node.op_type}_{number}",
                input=["" if value is None else called[value] for value in reads],
                output=[called[Value(at.graph, name)] if name else "" for name in node.output],
                attribute=_plain(node),
            )
            nodes.append(made)
        body = helper.make_function(
            DOMAIN,
            "task",
            [called[value] for value in self.inputs],
            [called[value] for value in self.outputs],
            nodes,
            [helper.make_opsetid("", self._model.opset())],
            attributes=["plugin_namespace", "plugin_version"],
        )
        inputs = [self._operand(value, called[value]) for value in self.inputs]
        return body, tuple(inputs), tuple(self._operand(value, called[value]) for value in self.outputs)

    def _operand(self, value: Value, name: str) -> Operand:
        tensor = self._model.tensor(value)
        if tensor.kind != "tensor":
            raise _RefusedError(f"{value.name!r} is a {tensor.kind}, not a tensor")
        if tensor.dtype not in DTYPES:
            raise _RefusedError(f"{value.name!r} has the type {tensor.dtype}, which no plugin is given")
        if tensor.shape is None:
            raise _RefusedError(
                f"how many dimensions {value.name!r} has is not known before the run",
                "--shapes gives all inputs a shape",
            )
        return Operand(name, tensor.dtype, tensor.shape, value.name, self._model.constant(value) is not None)


def decides_shape(op_type: str, place: int) -> bool:
    """Whether an input of an op, by its place, says which axes or sizes there are: it is no operand of a kernel."""
    reduces = op_kind(op_type) == "reduction" and place == 1
    return reduces or place in op_kinds.SHAPE_INPUTS.get(op_type, ())


def only_decides_shapes(model: Model, value: Value, seen: frozenset[Value] = frozenset()) -> bool:
    """Whether all that becomes of a value is a shape: it is whole numbers, and what reads them decides shapes."""
    tensor = model.tensor(value)
    uses = model.uses[value]
    if tensor.dtype not in ("int64", "int32") or len(tensor.shape or ()) > 1 or not uses or value in seen:
        return False
    for use in uses:
        if use.place < 0:
            return False
        node = model.node(use)
        places = [place for place, name in enumerate(node.input) if model.value(use.graph, name) == value]
        if all(decides_shape(node.op_type, place) for place in places) and places:
            continue
        made = [Value(use.graph, name) for name in node.output if name]
        if not all(only_decides_shapes(model, one, seen | {value}) for one in made):
            return False
    return True


def _check_node(model: Model, at: At) -> None:
    node = model.node(at)
    kind = op_kind(node.op_type)
    if node.domain == DOMAIN:
        raise _RefusedError(f"{node.name} is a plugin already")
    if node.domain not in STANDARD:
        raise _RefusedError(f"{node.name} is a {node.domain}.{node.op_type}, which is no standard op")
    if kind == "control" or onnx_graph.subgraphs(node):
        raise _RefusedError(
            f"{node.name} ({node.op_type}) is control flow", "choose a node in its body: trtprof inspect lists them"
        )
    if kind in ("shape", "random", "fill"):
        made = {"shape": "a shape", "random": "random numbers", "fill": "a constant"}[kind]
        raise _RefusedError(f"{node.name} ({node.op_type}) makes {made}, of nothing that a kernel could read")


def _is_standard(node: onnx.NodeProto, *op_types: str) -> bool:
    return node.domain in STANDARD and node.op_type in op_types


def _names(model: Model, nodes: Iterable[At]) -> tuple[str, ...]:
    return tuple(model.node(at).name for at in sorted(nodes))


def _main(model: Model, nodes: Sequence[At]) -> int:
    """Place of the node with most arithmetic; of several the first, but of chains of element-wise ops the last."""
    kinds = [op_kind(model.node(at).op_type) for at in nodes]
    ranks = [_RANK.index(kind) if kind in _RANK else len(_RANK) for kind in kinds]
    best = min(ranks)
    if best < len(_RANK) and _RANK[best] == "pointwise":
        return max(place for place, rank in enumerate(ranks) if rank == best)
    return ranks.index(best)


def _plain(node: onnx.NodeProto) -> list[onnx.AttributeProto]:
    """Attributes in one order, without what is only said of them."""
    found = []
    for attribute in sorted(node.attribute, key=lambda one: one.name):
        copy = onnx.AttributeProto()
        copy.CopyFrom(attribute)
        copy.ClearField("doc_string")
        found.append(copy)
    return found


# --- neighbours ----------------------------------------------------------------------------------


def _behind(model: Model, at: At) -> list[list[At]]:
    """What follows a node element by element, step by step.

    A step is one node that alone reads what stands before it, or where several do, all nodes up to that where their
    results meet again, sums and means among them: so a normalisation that is written out comes together. No step makes
    more elements than what was there or is read already has.
    """
    steps: list[list[At]] = []
    inside = {at}
    while sum(map(len, steps)) < MOST_FUSED:
        open_ = _open(model, inside)
        step = None if open_ is None else _step(model, inside, open_)
        if step is None:
            break
        steps.append(step)
        inside.update(step)
    return steps


def _open(model: Model, inside: Collection[At]) -> Value | None:
    """The one value that nodes hand on to others; None where that are several, or the outside reads none."""
    made = [Value(at.graph, name) for at in inside for name in model.node(at).output if name]
    found = [value for value in made if any(use not in inside for use in model.uses[value])]
    return found[0] if len(found) == 1 else None


def _step(model: Model, inside: Collection[At], value: Value) -> list[At] | None:
    """The nodes that read a value, with all on their ways to where these meet; None where they do not."""
    shapes = [model.tensor(one).shape for at in inside for one in model.reads(at)]
    shapes.append(model.tensor(value).shape)
    ready = [use for use in model.uses[value] if use not in inside]
    several = len(set(ready)) > 1
    taken: list[At] = []
    while ready and len(taken) < MOST_FUSED:
        at = min(ready)
        ready = [one for one in ready if one != at]
        node = model.node(at) if at.graph == value.graph and at.place >= 0 else None
        if node is None or not (_is_standard(node, *_FUSED) or (several and _is_standard(node, *_REDUCTIONS))):
            return None
        results = [Value(at.graph, name) for name in node.output if name]
        if len(results) != 1 or not (
            model.tensor(results[0]).shape in shapes or (several and _is_standard(node, *_REDUCTIONS))
        ):
            return None
        taken.append(at)
        ready += [use for use in model.uses[results[0]] if use not in taken]
        if not several or _open(model, {*inside, *taken}) == results[0]:
            return taken
    return None


def _before(model: Model, core: Iterable[At]) -> Iterator[set[At]]:
    """Element-wise nodes before some nodes, which alone read what those make: the nearest, then those before them."""
    inside = set(core)
    near = inside
    for _ in range(MOST_FUSED):
        values = {value for at in near for value in model.reads(at)}
        level = {
            made
            for value in values
            if (made := model.maker(value)) is not None
            and made not in inside
            and _is_standard(model.node(made), *_FUSED)
            and all(use in inside for name in model.node(made).output for use in model.uses[Value(made.graph, name)])
        }
        if not level:
            return
        yield level
        inside = inside | level
        near = level


# --- the same elsewhere --------------------------------------------------------------------------


def _like(one: onnx.NodeProto, other: onnx.NodeProto) -> bool:
    same = one.op_type == other.op_type and one.domain in STANDARD and other.domain in STANDARD
    return same and len(one.input) == len(other.input) and len(one.output) == len(other.output)


class _Edge(NamedTuple):
    """An intermediate of a pattern: what makes it and what reads it, with the output and the input."""

    maker: At
    output: int
    reader: At
    input: int


def _edges(model: Model, pattern: Sequence[At]) -> list[_Edge]:
    inside = set(pattern)
    found = []
    for at in pattern:
        for place, name in enumerate(model.node(at).input):
            value = model.value(at.graph, name) if name else None
            made = model.maker(value)
            if value is not None and made is not None and made in inside:
                found.append(_Edge(made, list(model.node(made).output).index(value.name), at, place))
    return found


def _mapped(model: Model, pattern: Sequence[At], main: At, at: At) -> Iterator[list[At]]:
    """Nodes that are connected as those of a pattern are, in its order, with one in the place of ``main``."""
    edges = _edges(model, pattern)

    def follow(known: Mapping[At, At]) -> Iterator[Mapping[At, At]]:
        open_ = next((edge for edge in edges if (edge.maker in known) != (edge.reader in known)), None)
        if open_ is None:
            if len(known) == len(pattern):
                yield known
            return
        if open_.maker in known:
            maker = model.node(known[open_.maker])
            value = Value(at.graph, maker.output[open_.output])
            wanted, options = open_.reader, list(dict.fromkeys(model.uses[value]))
            options = [use for use in options if use.graph == at.graph and use.place >= 0]
        else:
            name = model.node(known[open_.reader]).input[open_.input]
            made = model.maker(model.value(at.graph, name) if name else None)
            wanted, options = open_.maker, [] if made is None or made.graph != at.graph else [made]
        for option in options:
            if option not in known.values() and _like(model.node(option), model.node(wanted)):
                grown = {**known, wanted: option}
                if all(_joined(model, edge, grown) for edge in edges):
                    yield from follow(grown)

    for known in follow({main: at}):
        yield [known[one] for one in pattern]


def _joined(model: Model, edge: _Edge, known: Mapping[At, At]) -> bool:
    """Whether an intermediate of the pattern, both of whose ends are known, is one there, too."""
    if edge.maker not in known or edge.reader not in known:
        return True
    made = model.node(known[edge.maker]).output[edge.output]
    return bool(made) and model.node(known[edge.reader]).input[edge.input] == made


def _key(body: onnx.FunctionProto, inputs: Sequence[Operand], outputs: Sequence[Operand]) -> tuple[object, ...]:
    """What tells a task from others, whatever its tensors and its dimensions without a number are called."""
    nodes = tuple(node.SerializeToString(deterministic=True) for node in body.node)
    numbers: dict[Dim, int] = {}
    operands = tuple(
        (one.name, one.dtype, one.constant, tuple(_canonical(dim, numbers) for dim in one.dims))
        for one in (*inputs, *outputs)
    )
    return nodes, operands, tuple((entry.domain, entry.version) for entry in body.opset_import)


def _canonical(dim: Dim, numbers: dict[Dim, int]) -> Dim:
    return dim if isinstance(dim, int) else f"d{numbers.setdefault(dim, len(numbers))}"


def _difference(task: Task, other: Task) -> str:
    """What makes another task of one with the same ops; empty where they are the same."""
    if _key(task.body, task.inputs, task.outputs) == _key(other.body, other.inputs, other.outputs):
        return ""
    mine, its = ([(one.name, _shape(one)) for one in (*each.inputs, *each.outputs)] for each in (task, other))
    if [name for name, _ in mine] != [name for name, _ in its]:
        return "other values go in or out"
    for (name, shape), (_, there) in zip(mine, its, strict=True):
        if shape != there:
            return f"{name} is {there}, not {shape}"
    return "attributes, constants or which dimensions are the same differ"


def _shape(operand: Operand) -> str:
    kind = "constant " if operand.constant else ""
    return f"{kind}{operand.dtype} [{','.join(str(dim) if isinstance(dim, int) else '?' for dim in operand.dims)}]"


# --- dimensions ----------------------------------------------------------------------------------


def _dims_named(
    body: onnx.FunctionProto, inputs: Sequence[Operand], outputs: Sequence[Operand]
) -> tuple[tuple[Operand, ...], tuple[Operand, ...]]:
    """Operands whose every dimension has a number or a name; outputs share those of inputs where they can."""
    named = tuple(
        dataclasses.replace(
            one, dims=tuple(f"{one.name}_{axis}" if dim == "?" else dim for axis, dim in enumerate(one.dims))
        )
        for one in inputs
    )
    known = {dim for one in named for dim in one.dims}
    if all(isinstance(dim, int) or dim in known for one in outputs for dim in one.dims):
        return named, tuple(outputs)
    inferred = _inferred(body, named)
    found = []
    for one in outputs:
        there = inferred.get(one.name)
        dims = there.shape if there is not None and there.shape is not None else one.dims
        best = [
            dim if isinstance(dim, int) or dim in known or len(dims) != len(one.dims) else dims[axis]
            for axis, dim in enumerate(one.dims)
        ]
        found.append(
            dataclasses.replace(
                one, dims=tuple(f"{one.name}_{axis}" if dim == "?" else dim for axis, dim in enumerate(best))
            )
        )
    return named, tuple(found)


def _spelled(
    inputs: tuple[Operand, ...], outputs: tuple[Operand, ...]
) -> tuple[tuple[Operand, ...], tuple[Operand, ...]]:
    """The same with names of dimensions that may stand in the text of programs and in tables."""
    names = dict.fromkeys(dim for one in (*inputs, *outputs) for dim in one.dims if isinstance(dim, str))
    called: dict[Dim, str] = {name: name for name in names if not _UNSPELLED.search(name)}
    for name in names:
        if name not in called:
            plain, number = _UNSPELLED.sub("_", name), 0
            while (own := f"{plain}_{number}" if number else plain) in called.values():
                number += 1
            called[name] = own

    def spelled(operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
        return tuple(dataclasses.replace(one, dims=tuple(called.get(dim, dim) for dim in one.dims)) for one in operands)

    return spelled(inputs), spelled(outputs)


def _inferred(body: onnx.FunctionProto, inputs: Sequence[Operand]) -> dict[str, Tensor]:
    """What ONNX infers of the outputs of a body."""
    given = [helper.make_tensor_value_info(one.name, _DATA_TYPES[one.dtype], list(one.dims)) for one in inputs]
    graph = helper.make_graph(list(body.node), "body", given, [onnx.ValueInfoProto(name=name) for name in body.output])
    model = helper.make_model(graph, opset_imports=list(body.opset_import))
    try:
        model = shape_inference.infer_shapes(model)
    except shape_inference.InferenceError:
        return {}
    return onnx_graph.declared_tensors(model.graph)
