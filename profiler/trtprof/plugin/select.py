"""Nodes of a model as a task for a kernel, and the places of the model that such a kernel could serve.

A kernel reads and writes dense tensors of known rank. What decides a shape, and single numbers, are part of the task.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import onnx
from onnx import helper

from trtprof.base import op_kinds
from trtprof.base.errors import UsageError
from trtprof.base.op_kinds import op_kind
from trtprof.base.records import Dim
from trtprof.base.units import format_names
from trtprof.plugin.model import NAMED, OUTPUT, STANDARD, Model
from trtprof.plugin.task import DOMAIN, Operand, Task

DTYPES = ("fp32", "fp16", "bf16", "int8", "uint8", "int32", "int64", "bool")  # That TensorRT hands to plugins as arrays
MOST_FUSED = 16  # Nodes before and behind one that are looked at
MOST_NAMED, DIGITS = 3, 6  # Op types, and digits that tell tasks apart, in the name of one
_RANK = (  # Kinds of ops, those with most arithmetic for their bytes first
    "convolution", "matmul", "attention", "recurrent", "softmax", "normalisation", "batch norm", "reduction", "ranking",
    "scan", "pool", "pointwise", "quantise", "cast", "move", "view", "dropout", "",
)  # fmt: skip
# What a kernel can compute on what it has just read, or is about to write.
_FUSED = op_kinds.op_types("pointwise", "cast") | {"QuantizeLinear", "DequantizeLinear"}
_REDUCTIONS = op_kinds.op_types("reduction")
# By place, which say what axes or sizes there are: no operands of a kernel
_SHAPE_INPUTS = {**op_kinds.SHAPE_INPUTS, **dict.fromkeys(_REDUCTIONS, (1,))}
_MADE = {
    "shape": "makes a shape, of nothing that a kernel could read", "random": "makes random numbers",
    "fill": "makes a constant", "control": "is control flow",
}  # fmt: skip
_FOLD = "fold constants first: trtprof try does, as rung constant-folding"
_OTHER = "its attributes, constants or shapes, or what goes in or out, differ"
_SHAPES = "--shapes gives all inputs a shape"


class Choice(NamedTuple):
    """Nodes that one kernel could compute."""

    task: Task


class Place(NamedTuple):
    """Nodes of a model that a task describes, by name, and tensors, in the order of the task."""

    nodes: tuple[str, ...]
    main: str  # That with most arithmetic
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: tuple[str, ...] = ()  # What the nodes read that is part of the task


class Alike(NamedTuple):
    """Places of a model in its order, none of which has a node of another, and what looks alike, with the reason."""

    places: tuple[Place, ...]
    left: tuple[str, ...]


def choices(model: Model, name: str) -> tuple[Choice, ...]:
    """What a kernel could compute around a node, most nodes first: at least the node alone."""
    at = model.named(name)
    chosen(model, (name,))
    found: dict[frozenset[int], Task] = {}
    for after in _behind(model, at):
        for before in _before(model, (at, *after)):
            taken = frozenset((at, *after, *before))
            with contextlib.suppress(_RefusedError):
                found[taken] = found.get(taken) or _task(model, sorted(taken))[0]
    return tuple(Choice(one) for one in sorted(found.values(), key=lambda one: -len(one.nodes)))


def chosen(model: Model, names: Iterable[str]) -> Choice:
    """Exactly these nodes, such as those of a layer of an engine; Constants among them count as what they hold."""
    nodes = sorted({model.named(name) for name in names})
    try:
        return Choice(_task(model, [at for at in nodes if not _is_standard(model.node(at), ("Constant",))])[0])
    except _RefusedError as error:
        called = format_names([model.node(at).name for at in nodes], NAMED)
        raise UsageError(f"no kernel can be written for {called}", why=error.why, fix=error.fix) from None


def alike(model: Model, task: Task, only: Collection[str] = ()) -> Alike:
    """All places of a model where the nodes of a task stand, as it has them, or others that are the same.

    The same are op types, attributes, dtypes, shapes (whatever dimensions without a number are called), which inputs
    are constants, and the constants of the body. `only`: nodes: places with none of them are left; empty for all.
    """
    pattern = [model.named(name) for name in task.nodes]
    own = _task(model, pattern)[1]
    places, left, taken = [own], [], set(pattern)
    for at, node in enumerate(model.proto.graph.node):
        if at in taken or not (nodes := _matched(model, pattern, model.named(own.main), at)):
            continue
        try:
            other, place = _task(model, nodes)
            why = "" if other.body == task.body else _OTHER
        except _RefusedError as error:
            why = error.why
        if why or not taken.isdisjoint(nodes):
            left.append(f"{node.name}: {why or 'a node of it belongs to another place'}")
        else:
            taken.update(nodes)
            places.append(place)
    places.sort(key=lambda place: model.named(place.main))
    for name in only:
        model.named(name)
        if not any(name in place.nodes for place in places):
            why = next((why for why in left if why.startswith(f"{name}: ")), "other nodes stand there")
            fix = "name one of " + format_names([place.main for place in places], NAMED)
            raise UsageError(f"at {name} there is nothing that {task.name} computes", why=why, fix=fix)
    asked = [place for place in places if not only or not set(only).isdisjoint(place.nodes)]
    left += [f"{place.main}: not asked for" for place in places if place not in asked]
    return Alike(tuple(asked), tuple(left))


class _RefusedError(UsageError):
    """No kernel can be written for some nodes."""

    def __init__(self, why: str, fix: str = "choose another node") -> None:
        super().__init__("no kernel can be written for them", why=why, fix=fix)


def _task(model: Model, nodes: Sequence[int]) -> tuple[Task, Place]:
    """What nodes compute, in an order in which they can, and where they stand."""
    inputs, baked = _read(model, nodes)
    made = [name for at in nodes for name in model.node(at).output if name]
    outputs = [name for name in made if not set(nodes).issuperset(model.uses[name])]
    if not outputs:
        raise _RefusedError("nothing reads what it makes")
    if all(_only_decides_shapes(model, name) for name in outputs):
        raise _RefusedError("what it makes is a shape, which is computed before the run, or on the host")
    if _leaves_and_returns(model, nodes):
        raise _RefusedError("another node is computed between them, from what they make")
    called = {name: f"c{place}" for place, name in enumerate(baked)}
    streams, weights = ([name for name in inputs if (name in model.constants) == held] for held in (False, True))
    for letter, values in (("x", streams), ("w", weights), ("y", outputs)):
        called |= {name: letter if len(values) == 1 else f"{letter}{place}" for place, name in enumerate(values)}
    body = _body(model, nodes, baked, called)
    body.input.extend(called[name] for name in inputs)
    body.output.extend(called[name] for name in outputs)
    reads, makes = (tuple(_operand(model, name, called[name]) for name in names) for names in (inputs, outputs))
    numbers: dict[Dim, str] = {}  # Whatever dimensions are called, a kernel is the same
    for dim in (dim for one in reads for dim in one.dims if isinstance(dim, str)):
        numbers.setdefault(dim, f"d{len(numbers)}")
    for one in makes:
        if unknown := [dim for dim in one.dims if isinstance(dim, str) and dim not in numbers]:
            raise _RefusedError(f"the dimension {unknown[0]} of {one.tensor!r} is no dimension of an input", _SHAPES)
    key = [(one.name, one.dtype, one.constant, [numbers.get(dim, dim) for dim in one.dims]) for one in reads + makes]
    nodes_key = [node.SerializeToString(deterministic=True) for node in body.node]
    digest = hashlib.sha256(repr((nodes_key, key, model.opset())).encode()).hexdigest()[:DIGITS]
    op_types = [model.node(at).op_type for at in nodes]
    chief = _main(op_types)
    others = dict.fromkeys(one for place, one in enumerate(op_types) if place != chief)
    body.name = "_".join([op_types[chief], *list(others)[: MOST_NAMED - 1], digest])
    names = tuple(model.node(at).name for at in nodes)
    task = Task(body.name, names, reads, makes, body, op_types[chief])
    return task, Place(names, names[chief], tuple(inputs), tuple(outputs), tuple(baked))


def _read(model: Model, nodes: Collection[int]) -> tuple[list[str], list[str]]:
    """Values that nodes read, each once, and the small constants that are part of what they compute."""
    found: dict[str, bool] = {}
    for at in nodes:
        node = model.node(at)
        called, kind = f"{node.name} ({node.op_type})", op_kind(node.op_type)
        if node.domain not in STANDARD:
            what = "a plugin already" if node.domain == DOMAIN else f"an op of {node.domain}, not a standard one"
            raise _RefusedError(f"{called} is {what}")
        if kind in _MADE:
            raise _RefusedError(f"{called} {_MADE[kind]}")
        for place, name in enumerate(node.input):
            if not name or model.makers.get(name) in nodes:
                continue
            decides = place in _SHAPE_INPUTS.get(node.op_type, ())
            if decides and name not in model.constants:
                raise _RefusedError(f"a shape of {node.name} is computed by the model, in {name!r}", _FOLD)
            found[name] = name in model.constants and (decides or model.tensor(name).elements == 1)
    if all(name in model.constants for name, small in found.items() if not small):
        raise _RefusedError("all that it reads is constant, so that it is computed before the run")
    return [name for name, small in found.items() if not small], [name for name, small in found.items() if small]


def _only_decides_shapes(model: Model, name: str) -> bool:
    """Whether all that becomes of a value is a shape: it is whole numbers, and what reads them decides shapes."""
    tensor, uses = model.tensor(name), model.uses[name]
    if tensor.dtype not in ("int64", "int32") or len(tensor.shape or ()) > 1 or not uses or OUTPUT in uses:
        return False
    return all(
        all(place in _SHAPE_INPUTS.get(node.op_type, ()) for place, read in enumerate(node.input) if read == name)
        or all(_only_decides_shapes(model, made) for made in node.output if made)
        for node in map(model.node, uses)
    )


def _leaves_and_returns(model: Model, nodes: Collection[int]) -> bool:
    """Whether a path between two nodes has others on it, so that they cannot be one node."""
    behind: set[int] = set()
    # The nodes of a graph stand in an order in which they can be computed.
    for at in range(min(nodes), max(nodes) + 1):
        before = model.before(at)
        if at not in nodes and not before.isdisjoint(behind.union(nodes)):
            behind.add(at)
        elif at in nodes and before & behind:
            return True
    return False


def _body(model: Model, nodes: Iterable[int], baked: Iterable[str], called: dict[str, str]) -> onnx.FunctionProto:
    """Nodes as a function whose inputs and outputs are still to be told; `called`: what values are called in it."""
    made = [helper.make_node("Constant", [], [called[name]], value=model.elements(name)) for name in baked]
    for number, at in enumerate(nodes):
        node = model.node(at)
        for name in filter(None, node.output):
            called.setdefault(name, f"t{len(called)}")
        reads, makes = ([called.get(name, "") for name in values] for values in (node.input, node.output))
        made.append(helper.make_node(node.op_type, reads, makes, f"{node.op_type}_{number}"))
        made[-1].attribute.extend(sorted(node.attribute, key=lambda one: one.name))
        for attribute in made[-1].attribute:
            attribute.ClearField("doc_string")
    opsets = [helper.make_opsetid("", model.opset())]
    return helper.make_function(DOMAIN, "task", [], [], made, opsets, ["plugin_namespace", "plugin_version"])


def _operand(model: Model, tensor: str, name: str) -> Operand:
    known = model.tensor(tensor)
    if known.kind != "tensor" or known.dtype not in DTYPES:
        raise _RefusedError(f"{tensor!r} is a {known.kind} of type {known.dtype}, which no plugin takes")
    if known.shape is None:
        raise _RefusedError(f"how many dimensions {tensor!r} has is not known before the run", _SHAPES)
    dims = tuple(f"{tensor}_{axis}" if dim == "?" else dim for axis, dim in enumerate(known.shape))
    return Operand(name, known.dtype, dims, tensor, tensor in model.constants)


def _is_standard(node: onnx.NodeProto, op_types: Collection[str]) -> bool:
    return node.domain in STANDARD and node.op_type in op_types


def _main(op_types: Sequence[str]) -> int:
    """Place of the node with most arithmetic; of several the first, but of chains of element-wise ops the last."""
    ranks = [_RANK.index(op_kind(one)) for one in op_types]
    last = _RANK[min(ranks)] in ("pointwise", "cast")
    return len(ranks) - 1 - ranks[::-1].index(min(ranks)) if last else ranks.index(min(ranks))


def _behind(model: Model, at: int) -> list[list[int]]:
    """Nodes that follow one element by element, most first, each time all up to where one value is handed on.

    Sums and means are taken in where several nodes read a value, so that a normalisation that is written out comes
    together. No node makes more elements than what is there or is read already has.
    """
    found: list[list[int]] = []
    inside = [at]
    reductions: frozenset[str] = frozenset()
    while len(inside) <= MOST_FUSED:
        made = [name for one in inside for name in model.node(one).output if name]
        open_ = [name for name in made if not set(inside).issuperset(model.uses[name])]
        ready = {use for name in open_ for use in model.uses[name]} - set(inside)
        if len(open_) == 1:
            found.insert(0, inside[1:])
            reductions = _REDUCTIONS if len(ready) > 1 else frozenset()
        following = min(ready, default=OUTPUT)
        node = model.node(following)
        if following == OUTPUT or not _is_standard(node, _FUSED | reductions):
            break
        shapes = [model.tensor(name).shape for one in inside for name in (*model.reads(one), *model.node(one).output)]
        if node.op_type not in reductions and model.tensor(node.output[0]).shape not in shapes:
            break
        inside.append(following)
    return [*found, []]


def _before(model: Model, core: Collection[int]) -> list[set[int]]:
    """Element-wise nodes before some nodes, which alone read what those make: all first, then less and less."""
    found: list[set[int]] = [set()]
    while len(found) <= MOST_FUSED:
        inside = found[0].union(core)
        fused = {at for one in inside for at in model.before(one) if _is_standard(model.node(at), _FUSED)} - inside
        near = {at for at in fused if all(inside.issuperset(model.uses[name]) for name in model.node(at).output)}
        if not near:
            break
        found.insert(0, found[0] | near)
    return found


def _matched(model: Model, pattern: Sequence[int], main: int, at: int) -> list[int]:
    """Nodes that hang together as those of a pattern do, with one in the place of its main node; none without them."""
    if not _is_standard(model.node(at), (model.node(main).op_type,)):
        return []
    known = {main: at}
    edges = [
        (model.makers[name], [*model.node(model.makers[name]).output].index(name), reader, slot)
        for reader in pattern
        for slot, name in enumerate(model.node(reader).input)
        if model.makers.get(name) in pattern
    ]
    for maker, output, reader, slot in edges * len(pattern):
        if (maker in known) == (reader in known):
            continue
        if reader in known:
            wanted, names = maker, model.node(known[reader]).input[slot:][:1]
            options = [model.makers.get(name, OUTPUT) for name in names]
        else:
            name = model.node(known[maker]).output[output]
            wanted, options = reader, [use for use in model.uses[name] if name in model.node(use).input[slot:][:1]]
        like = (model.node(wanted).op_type,)
        found = [one for one in options if one not in (OUTPUT, *known.values()) and _is_standard(model.node(one), like)]
        if not found:
            return []
        known[wanted] = found[0]
    return [known[one] for one in pattern] if len(known) == len(pattern) else []
