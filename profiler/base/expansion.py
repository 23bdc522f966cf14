"""How far a small file expands, counted before anything is expanded.

Twenty functions that each call the next one twice are a million nodes, and forty Concat of a tensor with itself a
shape of 10^12 numbers: a file of a kilobyte, and all the memory there is. What is counted here bounds it from above.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto

from profiler.base import onnx_graph
from profiler.base.op_kinds import op_kind

MOST_NODES = 2**18
"""Nodes that the calls of functions may become: several times those of the largest exported networks."""
MOST_BYTES = 2**29
"""Bytes of the nodes that the calls of functions may become."""
MOST_CALLS = 200
"""Functions that may call one another in a row."""
MOST_LEVELS = 30
"""Graphs that may lie in one another: protobuf reads no more."""
MOST_DIMS = 2**22
"""Dimensions, and elements of small tensors, that shape inference may write down for a model."""


class ExpansionError(ValueError):
    """A model expands too far; the text says what of it."""


class _Size(NamedTuple):
    nodes: int
    bytes: int
    levels: int
    """Graphs in one another."""
    calls: int
    """Functions that call one another."""


def check_calls(model: ModelProto) -> None:
    """Refuse a model whose functions, put in the place of their calls, would be too much.

    Raises:
        ExpansionError: They would, or one calls itself.
    """
    if not model.functions:
        return
    functions = {_key(one.domain, one.name, one): one for one in model.functions}
    known: dict[tuple[str, str, str], _Size] = {}

    def called(key: tuple[str, str, str], calls: int) -> _Size:
        if key not in known:
            body = functions[key]
            known[key] = sized(body.node, body.ByteSize(), calls)
        return known[key]

    def sized(nodes: Iterable[NodeProto], size: int, calls: int) -> _Size:
        if calls > MOST_CALLS:
            raise ExpansionError(f"its functions call one another more than {MOST_CALLS} deep, or themselves")
        count = deepest = 0
        levels = 1
        for node in nodes:
            count += 1
            for _, body in onnx_graph.subgraphs(node):
                inner = sized(body.node, 0, calls)
                count, size, deepest = count + inner.nodes, size + inner.bytes, max(deepest, inner.calls)
                levels = max(levels, 1 + inner.levels)
            key = _key(node.domain, node.op_type, node)
            if key in functions:
                inner = called(key, calls + 1)
                count, size, deepest = count + inner.nodes, size + inner.bytes, max(deepest, 1 + inner.calls)
                levels = max(levels, inner.levels)
        return _Size(count, size, levels, deepest)

    whole = sized(model.graph.node, 0, 0)
    if whole.calls > MOST_CALLS:
        raise ExpansionError(f"its functions call one another {whole.calls} deep; at most {MOST_CALLS} are followed")
    if whole.nodes > MOST_NODES or whole.bytes > MOST_BYTES:
        raise ExpansionError(
            f"its functions call one another so often that it would have {whole.nodes} nodes of {whole.bytes} bytes; "
            f"at most {MOST_NODES} nodes of {MOST_BYTES} bytes are inlined"
        )
    if whole.levels > MOST_LEVELS:
        raise ExpansionError(
            f"with its functions inlined, {whole.levels} graphs lie in one another; at most {MOST_LEVELS} can"
        )


def _key(domain: str, name: str, owner: FunctionProto | NodeProto) -> tuple[str, str, str]:
    return "" if domain == "ai.onnx" else domain, name, getattr(owner, "overload", "")


def check_dims(model: ModelProto) -> None:
    """Refuse a model of whose tensors shape inference would write down too many dimensions and elements.

    Raises:
        ExpansionError: It would.
    """
    walk = _Dims()
    walk.graph(model.graph)
    if walk.total > MOST_DIMS:
        raise ExpansionError(f"its shapes grow to more than {MOST_DIMS} dimensions and elements together")


class _Dims:
    """Bounds of ranks, and of the elements that inference follows, by name; both walk in the order of the graph."""

    def __init__(self) -> None:
        self.total = 0
        self._ranks: dict[str, int] = {}
        self._elements: dict[str, int] = {}

    def graph(self, graph: GraphProto) -> None:
        ranks = self._ranks
        for info in graph.input:
            ranks[info.name] = max(ranks.get(info.name, 0), len(info.type.tensor_type.shape.dim))
        for tensor in graph.initializer:
            ranks[tensor.name] = len(tensor.dims)
            if count := _followed(tensor):
                self._elements[tensor.name] = count
        for node in graph.node:
            rank, elements = self._made(node)
            for name in node.output:
                ranks[name] = rank
                if elements:
                    self._elements[name] = elements
            self.total += (rank + elements) * len(node.output)
            if self.total > MOST_DIMS:
                return

    def _made(self, node: NodeProto) -> tuple[int, int]:
        """Bounds of the rank and of the followed elements of each output."""
        op_type = node.op_type
        ranks = [self._ranks.get(name, 0) for name in node.input]
        rank = max(ranks, default=0)
        elements = [self._elements.get(name, 0) for name in node.input]
        second = elements[1] if len(elements) > 1 else 0
        # A value is followed where all that it is made of is.
        most = max(elements, default=0) if all(elements) else 0
        if op_type == "Concat":
            return rank, sum(elements) if most else 0
        if op_type in ("Gather", "GatherND"):
            return max(sum(ranks) - (op_type == "Gather"), 0), second
        if op_type in ("Shape", "Size"):
            return 1, rank
        if op_type == "Reshape":
            return second or rank, most
        if op_type in ("Expand", "ConstantOfShape"):
            return max(rank, *elements), 0
        if op_type == "OneHot":
            return rank + 1, 0
        if op_type == "Unsqueeze":
            return rank + (_listed(node, "axes") or second or 1), most
        if op_type == "Squeeze":
            return max(rank - (_listed(node, "axes") or second), 0), most
        if op_type == "Einsum":
            return max((len(one.s) for one in node.attribute), default=0) + rank, 0
        if op_type == "Constant":
            return _constant(node)
        if op_kind(op_type) in ("reduction", "ranking"):
            dropped = any(one.name == "keepdims" and not one.i for one in node.attribute)
            return max(rank - (_listed(node, "axes") or second or dropped), 0) if dropped else rank, 0
        bodies = [body for _, body in onnx_graph.subgraphs(node)]
        for body in bodies:
            self._ranks.update((info.name, rank) for info in body.input)
            self.graph(body)
        made = [self._ranks.get(info.name, 0) for body in bodies for info in body.output]
        listed = max((len(one.ints) for one in node.attribute), default=0) if op_kind(op_type) == "random" else 0
        return max([rank, listed, *(one + 1 for one in made)]), most


def _listed(node: NodeProto, name: str) -> int:
    return next((len(one.ints) for one in node.attribute if one.name == name), 0)


def _followed(tensor: TensorProto) -> int:
    """The elements of a constant that inference looks into: an index, or a list of them."""
    if len(tensor.dims) > 1 or tensor.data_type not in (TensorProto.INT64, TensorProto.INT32):
        return 0
    return max(tensor.dims[0], 0) if tensor.dims else 1


def _constant(node: NodeProto) -> tuple[int, int]:
    for one in node.attribute:
        if one.type == AttributeProto.TENSOR:
            return len(one.t.dims), _followed(one.t)
        if one.type == AttributeProto.SPARSE_TENSOR:
            return len(one.sparse_tensor.dims), 0
    return 1, sum(len(one.ints) or one.type == AttributeProto.INT for one in node.attribute)
