"""How far a small file expands, counted before anything is expanded.

Twenty functions that each call the next one twice are a million nodes, and forty Concat of a tensor with itself a
shape of 10^12 numbers: a file of a kilobyte, and all the memory there is. What is counted here bounds it from above.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto

from trtprof.base import onnx_graph
from trtprof.base.op_kinds import SHAPE_INPUTS, op_kind, op_types

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
MOST_DECIDING = 2**16
"""Elements of an input that decides a shape."""


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
    """Refuse a model whose functions, put in the place of their calls, would be too much."""
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

    for key in functions:
        called(key, 1)
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
    """Refuse a model of whose tensors shape inference might write down too many dimensions and elements."""
    for function in model.functions:
        for node in function.node:
            check_node(node)
    walk = _Dims()
    walk.graph(model.graph)
    if walk.total > MOST_DIMS:
        raise ExpansionError(f"its shapes may grow to more than {MOST_DIMS} dimensions and elements together")


_TERM = rb"[A-Za-z ]*(?:\.\.\.[A-Za-z ]*)?"
_EQUATION = re.compile(rb"%b(?:,%b)*(?:->%b)?" % (_TERM, _TERM, _TERM))


def check_node(node: NodeProto) -> None:
    """Refuse a node, or one of its bodies, that onnx cannot be asked for the shapes of: it would not come back."""
    for one in node.attribute if node.op_type == "Einsum" else ():
        if one.name == "equation" and (one.ref_attr_name or not _EQUATION.fullmatch(one.s)):
            raise ExpansionError(f"{ascii(one.s.decode(errors='replace'))[:200]} is no equation of Einsum")
    for one in node.attribute if node.op_type == "Split" else ():
        if one.name == "num_outputs" and (one.ref_attr_name or one.i != len(node.output)):
            raise ExpansionError(f"a Split into {one.i} has {len(node.output)} outputs")
    for _, body in onnx_graph.subgraphs(node):
        for inner in body.node:
            check_node(inner)


def deciding(op_type: str) -> Sequence[int]:
    """Places of the inputs whose number of elements onnx makes room for while it infers the outputs."""
    return (1,) if op_kind(op_type) == "reduction" else SHAPE_INPUTS.get(op_type, ())


class _Bound(NamedTuple):
    """What a tensor has at most.

    Attributes:
        rank: Dimensions.
        followed: Elements, where inference follows their values; 0 where it does not.
        length: Elements of any tensor, where that is simple to say.
        product: Of the elements, where that is simple to say.
    """

    rank: int
    followed: int = 0
    length: float = math.inf
    product: float = math.inf


_UNKNOWN = _Bound(0, 0, 0)
_KEEPS_LENGTH = (
    op_types("pointwise", "cast", "view", "dropout", "reduction", "ranking", "scan") - {"Sum", "Mean", "Max", "Min"}
) | {"Slice", "Split", "Transpose", "ScatterElements", "ScatterND", "Compress", "Unique", "Trilu"}
"""Ops that make no more elements than the longest of their inputs; of two that differ, one is repeated in practice."""


class _Dims:
    """Bounds of all tensors by name, in the order of the graph."""

    def __init__(self) -> None:
        self.total = 0.0
        self._bounds: dict[str, _Bound] = {}

    def graph(self, graph: GraphProto) -> None:
        bounds = self._bounds
        for info in graph.input:
            dims = info.type.tensor_type.shape.dim
            bounds[info.name] = _Bound(len(dims), 0, math.prod(max(dim.dim_value, 0) for dim in dims))
        for tensor in graph.initializer:
            bounds[tensor.name] = _constant(tensor)
        for node in graph.node:
            inputs = [bounds.get(name, _UNKNOWN) for name in node.input]
            if any(inputs[at].length > MOST_DECIDING for at in deciding(node.op_type) if at < len(inputs)):
                self.total = math.inf
            made = self._made(node, inputs)
            for name in node.output:
                bounds[name] = made
            self.total += (made.rank + made.followed) * len(node.output)
            if self.total > MOST_DIMS:
                return

    def _made(self, node: NodeProto, inputs: Sequence[_Bound]) -> _Bound:
        """What each output has at most."""
        check_node(node)
        op_type = node.op_type
        rank = max((one.rank for one in inputs), default=0)
        longest = max((one.length for one in inputs), default=0)
        # A value is followed where all that it is made of is.
        followed = [one.followed for one in inputs]
        most = max(followed, default=0) if all(followed) else 0
        first = inputs[0] if inputs else _UNKNOWN
        second = inputs[1] if len(inputs) > 1 else _UNKNOWN
        match op_type:
            case "Concat":
                return _Bound(
                    rank, sum(followed) if most else 0, sum(one.length for one in inputs),
                    math.prod(one.product for one in inputs),
                )  # fmt: skip
            case "Gather" | "GatherND":
                dims = max(first.rank + second.rank - (op_type == "Gather"), 0)
                return _Bound(dims, second.followed, second.length if first.rank == 1 else math.inf)
            case "Shape" | "Size":
                return _Bound(1, first.rank, max(first.rank, 1), first.length)
            case "Reshape":
                return _Bound(_ranked(second) if second.length else rank, most, first.length)
            case "Expand" | "ConstantOfShape":
                asked = inputs[-1] if inputs else _UNKNOWN
                return _Bound(max(rank, _ranked(asked)), 0, asked.product * max(first.length, 1))
            case "OneHot":
                return _Bound(rank + 1)
            case "Unsqueeze":
                added = _listed(node, "axes") or _ranked(second) or 1
                return _Bound(first.rank + added, most, first.length, first.product)
            case "Squeeze":
                return _Bound(max(first.rank - (_listed(node, "axes") or second.followed), 0), most, first.length)
            case "Einsum":
                return _Bound(max((len(one.s) for one in node.attribute), default=0) + rank)
            case "Constant":
                return _made_constant(node)
        if op_kind(op_type) in ("reduction", "ranking"):
            dropped = any(one.name == "keepdims" and not one.i for one in node.attribute)
            gone = _listed(node, "axes") or second.followed or first.rank
            return _Bound(max(first.rank - gone, 0) if dropped else first.rank, 0, first.length)
        if op_type in _KEEPS_LENGTH:
            return _Bound(rank, most, longest)
        bodies = [body for _, body in onnx_graph.subgraphs(node)]
        for body in bodies:
            self._bounds.update((info.name, _Bound(rank, 0, math.inf)) for info in body.input)
            self.graph(body)
        made = [self._bounds.get(info.name, _UNKNOWN).rank + 1 for body in bodies for info in body.output]
        listed = max((len(one.ints) for one in node.attribute), default=0) if op_kind(op_type) == "random" else 0
        return _Bound(max([rank, listed, *made]), most)


def _ranked(shape: _Bound) -> int:
    """The rank of what has a tensor as its shape."""
    return int(min(shape.length, MOST_DIMS))


def _listed(node: NodeProto, name: str) -> int:
    return next((len(one.ints) for one in node.attribute if one.name == name), 0)


def _constant(tensor: TensorProto) -> _Bound:
    """Inference looks into an index, or a list of them."""
    elements = math.prod(max(dim, 0) for dim in tensor.dims)
    index = len(tensor.dims) <= 1 and tensor.data_type in (TensorProto.INT64, TensorProto.INT32)
    values = onnx_graph.tensor_from_initializer(tensor).value if index else None
    product = math.inf if values is None else math.prod(map(abs, values))
    return _Bound(len(tensor.dims), elements if index else 0, elements, product)


def _made_constant(node: NodeProto) -> _Bound:
    for one in node.attribute:
        if one.type == AttributeProto.TENSOR:
            return _constant(one.t)
        if one.type == AttributeProto.SPARSE_TENSOR:
            return _Bound(len(one.sparse_tensor.dims))
    listed = [*(value for one in node.attribute for value in one.ints), *(one.i for one in node.attribute if one.i)]
    return _Bound(1, len(listed), len(listed), math.prod(map(abs, listed)))
