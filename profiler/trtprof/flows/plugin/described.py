"""What a kernel for some nodes computes: formulas, the tensors at its borders, and the nodes that stand beside it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from trtprof.base.op_kinds import RANDOM, SHAPES, VIEWS, op_types
from trtprof.base.plan_words import layout
from trtprof.base.records import BriefTensor, Neighbour, Op, PlanTensor, Tensor
from trtprof.plugin.formulas import formulas

_JOINS = op_types("pointwise", "cast", "quantise", "batch norm")
"""Ops that a kernel can compute beside its own, element by element."""
_FARTHEST = 8  # Nodes of a chain on one side of a kernel that are told of
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,15}")


def working(ops: Mapping[str, Op], nodes: Collection[str]) -> frozenset[str]:
    """Those of some nodes that do more than give a tensor another name."""
    return frozenset(name for name in nodes if name not in ops or ops[name].op_type not in (*VIEWS, "Constant"))


def main_of(ops: Mapping[str, Op]) -> str:
    """The first node that is not computed element by element, else the first; empty of none."""
    own = [name for name, op in ops.items() if op.op_type not in VIEWS and op.op_type != "Constant"]
    return next((name for name in own if ops[name].op_type not in _JOINS), own[0] if own else "")


class Home(NamedTuple):
    """The layer that a node is in: its nodes, and what it takes, in words."""

    nodes: tuple[str, ...]
    words: str


class Described(NamedTuple):
    """What a kernel computes, over which tensors, and what stands beside it."""

    formulas: tuple[str, ...]
    tensors: tuple[BriefTensor, ...]
    neighbours: tuple[Neighbour, ...]


def described(
    ops: Mapping[str, Op],
    inside: Sequence[str],
    layer: Sequence[str],
    operands: Mapping[str, str] | None,
    planned: Sequence[PlanTensor],
    outputs: Sequence[Tensor],
    homes: Mapping[str, Home],
) -> Described:
    """What a kernel for some nodes computes, over which tensors, and what stands beside it.

    `inside`: nodes that it computes, in their order.
    """
    own = [ops[name] for name in inside if name in ops]
    in_engine = {tensor.name: tensor for tensor in planned}
    if not own:
        given = {tensor.name for tensor in planned}
        names = operand_names([(name, "input") for name in given])
        tensors = tuple(_planned_tensor(one, names[one.name]) for one in in_engine.values())
        return Described((), tensors, ())
    sides = borders(ops, inside, {tensor.name for tensor in outputs})
    names = dict(operands) if operands is not None else operand_names([(t.name, role) for t, role in sides])
    # Constants that are part of the kernel are called by their value, and nothing that it is given.
    tensors = tuple(
        _tensor(tensor, role, names.get(tensor.name, ""), in_engine)
        for tensor, role in sides
        if operands is None or names.get(tensor.name, "").isidentifier()
    )
    beside = tuple(_neighbours(ops, inside, layer, {tensor.name for tensor in outputs}, homes))
    return Described(formulas(own, names), tensors, beside)


Role = Literal["input", "weight", "output"]


def borders(ops: Mapping[str, Op], inside: Sequence[str], outputs: Collection[str]) -> list[tuple[Tensor, Role]]:
    """The tensors that some nodes read and write, each once."""
    own = {name: ops[name] for name in inside if name in ops}
    made = {tensor.name: tensor for op in own.values() for tensor in op.outputs if tensor is not None}
    read_outside = {
        tensor.name for name, op in ops.items() if name not in own for tensor in op.inputs if tensor is not None
    }
    found: dict[str, tuple[Tensor, Role]] = {}
    for op in own.values():
        for tensor in op.inputs:
            # Axes, pads and target shapes are no operands.
            if tensor is not None and tensor.name not in made and tensor.value is None:
                found.setdefault(tensor.name, (tensor, "weight" if tensor.constant else "input"))
    read = {tensor.name for op in own.values() for tensor in op.inputs if tensor is not None}
    for name, tensor in made.items():
        if name in outputs or name in read_outside or name not in read:
            found[name] = (tensor, "output")
    return list(found.values())


def operand_names(tensors: Sequence[tuple[str, Role]]) -> dict[str, str]:
    """What formulas call tensors: by their own names where those are short words, else ``x0``, ``w0``, ``y0``."""
    found: dict[str, str] = {}
    letters = {"input": "x", "weight": "w", "output": "y"}
    alone = {role: sum(other == role for _, other in tensors) == 1 for role in letters}
    for name, role in tensors:
        plain = _IDENTIFIER.fullmatch(name) is not None and not re.fullmatch(r"[ijlmnpqrstkuvwzc]|t\d+", name)
        own = name if plain else letters[role] if alone[role] else ""
        number = 0
        while not own or own in found.values():
            own, number = f"{letters[role]}{number}", number + 1
        found[name] = own
    return found


def _tensor(tensor: Tensor, role: Role, operand: str, in_engine: Mapping[str, PlanTensor]) -> BriefTensor:
    """A tensor at the dtype and in the format that it has in the engine, where that is told."""
    planned = in_engine.get(tensor.name)
    if planned is None:
        return BriefTensor(
            name=tensor.name,
            operand=operand,
            role=role,
            dtype=tensor.dtype,
            shape=tensor.shape or (),
            nbytes=tensor.nbytes,
            layout="" if tensor.shape is not None else "its shape is not known",
        )
    one = _planned_tensor(planned, operand)
    shape = tensor.shape if one.shape == () and tensor.shape else one.shape
    return msgspec.structs.replace(one, role=role, dtype=one.dtype or tensor.dtype, shape=shape or ())


def _planned_tensor(tensor: PlanTensor, operand: str) -> BriefTensor:
    return BriefTensor(
        name=tensor.name,
        operand=operand,
        role="input",
        dtype=tensor.dtype,
        shape=tuple("?" if dim < 0 else dim for dim in tensor.dims or ()),
        nbytes=tensor.nbytes,
        layout=layout(tensor),
    )


# --- what stands beside it --------------------------------------------------------------------------


def _neighbours(
    ops: Mapping[str, Op],
    inside: Sequence[str],
    layer: Sequence[str],
    outputs: Collection[str],
    homes: Mapping[str, Home],
) -> Iterator[Neighbour]:
    """Nodes that work element by element next to a kernel: those in it, and those that could be."""
    makers = {tensor.name: name for name, op in ops.items() for tensor in op.outputs if tensor is not None}
    readers: dict[str, list[str]] = {}
    for name, op in ops.items():
        for tensor in {one.name for one in op.inputs if one is not None}:
            readers.setdefault(tensor, []).append(name)
    own = [name for name in inside if name in ops]
    main = main_of({name: ops[name] for name in own})
    seen = set(own)
    graph = _Graph(ops, makers, readers, frozenset(outputs), frozenset(layer), homes)
    if main and ops[main].op_type not in _JOINS:
        behind = _reached_from(main, graph, frozenset(own))
        for name in own:
            if name != main and ops[name].op_type in _JOINS:
                side: Side = "consumer" if name in behind else "producer"
                home = homes.get(name)
                reason = ""
                if name not in layer and home is not None and working(ops, home.nodes) <= seen:
                    reason = f"its layer {home.words}, and the kernel computes all of it: won, too, not in the net gain"
                yield Neighbour(node=name, op_type=ops[name].op_type, side=side, fused=True, reason=reason)
    yield from _along(graph, own, seen, "producer")
    yield from _along(graph, own, seen, "consumer")


Side = Literal["producer", "consumer"]


class _Graph(NamedTuple):
    ops: Mapping[str, Op]
    makers: Mapping[str, str]
    readers: Mapping[str, Sequence[str]]
    outputs: frozenset[str]
    layer: frozenset[str]
    homes: Mapping[str, Home]

    def beside(self, name: str, side: Side) -> Iterator[tuple[Tensor, str]]:
        """Nodes on one side of another, and the tensor between; views are passed through, constants left out."""
        tensors = self.ops[name].inputs if side == "producer" else self.ops[name].outputs
        for tensor in tensors:
            if tensor is None or tensor.constant:
                continue
            others = [self.makers[tensor.name]] if side == "producer" and tensor.name in self.makers else []
            if side == "consumer":
                others = list(self.readers.get(tensor.name, ()))
            for other in others:
                if self.ops[other].op_type in VIEWS:
                    yield from ((tensor, far) for _, far in self.beside(other, side))
                else:
                    yield tensor, other


def _reached_from(name: str, graph: _Graph, among: frozenset[str]) -> set[str]:
    """Those of some nodes that read what a node makes, or what those make."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        for _, other in graph.beside(waiting.pop(), "consumer"):
            if other in among and other not in found:
                found.add(other)
                waiting.append(other)
    return found


def _along(graph: _Graph, own: Sequence[str], seen: set[str], side: Side) -> Iterator[Neighbour]:
    """The chains on one side of a kernel, nearest first: each ends where something else than a chain begins."""
    waiting = list(own)
    found = 0
    while waiting and found < _FARTHEST:
        at = waiting.pop(0)
        for tensor, other in graph.beside(at, side):
            op = graph.ops[other]
            if other in seen or op.op_type not in _JOINS or op.op_type in (*SHAPES, *RANDOM):
                continue
            seen.add(other)
            found += 1
            shared = _shared(graph, tensor, other, side)
            yield Neighbour(
                node=other,
                op_type=op.op_type,
                side=side,
                fused=False,
                reason=shared or _where(graph, other),
                bytes=(tensor.nbytes or 0) * (1 if shared else 2),
            )
            if not shared:
                waiting.append(other)


def _where(graph: _Graph, other: str) -> str:
    """Where a node is computed that is not in a kernel, in words."""
    if other in graph.layer:
        return "the engine may compute it in the same kernel: a plugin without it cuts it off"
    home = graph.homes.get(other)
    if home is None:
        return "the kernel could compute it"
    main = main_of({name: graph.ops[name] for name in home.nodes if name in graph.ops})
    if main and graph.ops[main].op_type not in _JOINS:
        return f"it is computed with the {graph.ops[main].op_type} of another layer: taken out of there it wins nothing"
    return f"it {home.words} in a layer of its own: the kernel could compute it"


def _shared(graph: _Graph, tensor: Tensor, other: str, side: Side) -> str:
    """Why the tensor between two nodes is written whatever is fused, in words."""
    if tensor.name in graph.outputs:
        return f"{tensor.name} is an output of the model: it is written anyway"
    count = len(graph.readers.get(tensor.name, ()))
    if count <= 1:
        return ""
    others = f"{count - 1} other node{'s' if count > 2 else ''}"
    if side == "producer":
        return f"{others} read {tensor.name}, too: it is written anyway"
    return f"{others} read {tensor.name} beside {other}: it is written anyway"
