"""Layers of which only the names are known: those of NVTX ranges, or of an engine built without detailed verbosity.

* A layer reads and writes the tensors that cross the border of its nodes. A node between two layers that neither names,
and that leaves the size as it is (a Reshape), is taken for a view.
* What a tensor is stored as is the word of the kernel that writes it, or else of one that multiplies it; else the
narrowest dtype that any of them tells, so that no bound is above the truth.
* A layer whose name leads to no node (a reformat, what Myelin made) has a time and no work.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from trtprof.align.plan import match_plan
from trtprof.analysis.evidence import Lack
from trtprof.analysis.plan import PricedPlan, price_matched
from trtprof.base import records
from trtprof.base.errors import UsageError
from trtprof.base.op_kinds import CONVOLUTIONS, MULTIPLYING, OPERANDS
from trtprof.base.units import DTYPE_BITS, format_names, is_float
from trtprof.cost import Cost, CostError
from trtprof.cost.fused import group_cost
from trtprof.kernel_names.parse import parse
from trtprof.kernel_names.record import FP16_OR_BF16

_STORED = {"tf32": "fp32", "fp8": "fp8e4m3fn", "fp4": "fp4e2m1", FP16_OR_BF16: "fp16"}
"""Dtypes of kernel names that are no dtype of memory, or leave the kind open -> what they take in memory."""
_BY_NAME = "layers are known by their names alone: what they read, write and compute is that of their ONNX nodes"
_NARROW = "tensors whose dtype no kernel tells may be wider than they are taken for: more would be allowed for them"
_MOST_KINDS = 4  # Op types that are spelt out in the kind of a layer


class NamedPlan(NamedTuple):
    """Layers with nothing but names, led to the nodes of a model; see `named_plan`."""

    plan: records.Plan
    layers: tuple[records.MatchedLayer, ...]
    fates: tuple[records.NodeFate, ...]
    source: records.Source


class PricedNames(NamedTuple):
    """Layers by name with their work, and what makes that less sure."""

    plan: PricedPlan
    lacking: tuple[Lack, ...]


class Stored(NamedTuple):
    """What the names of the kernels of a layer say of its tensors; ``""`` where they do not."""

    read: str
    written: str


def named_plan(plan: records.Plan, source: records.Source, where: str) -> NamedPlan:
    """Lead layers by their names to the nodes of the model."""
    layers, fates = match_plan(source.nodes, plan, outputs=[tensor.name for tensor in source.model.outputs])
    if not any(matched.nodes for matched in layers):
        names = format_names([repr(layer.name) for layer in plan.layers])
        first = f"the model has {source.nodes[0].name!r}" if source.nodes else "the model has no nodes"
        raise UsageError(
            f"no layer of {where} is named after a node of {source.model.path}",
            why=f"the names there are {names}, and {first}",
            fix="name the ONNX file that the engine was built from, or leave --onnx away",
        )
    return NamedPlan(plan, layers, fates, source)


def in_graph_order(named: NamedPlan) -> NamedPlan:
    """The same layers in the order of their nodes: a layout layer before the one that it serves, without nodes last."""
    place = {node.name: at for at, node in enumerate(named.source.nodes)}
    last = len(place)
    first = {matched.layer.name: place[matched.nodes[0]] for matched in named.layers if matched.nodes}

    def order(matched: records.MatchedLayer) -> tuple[int, bool]:
        return first.get(matched.layer.name, first.get(matched.layer.serves, last)), not matched.layer.serves

    return named._replace(layers=tuple(sorted(named.layers, key=order)))


def without_shapes(source: records.Source, assumed: Collection[str]) -> records.Source:
    """The model without the shapes that hang on its inputs, and without these assumptions about them."""

    def bare(tensors: Sequence[records.Tensor | None]) -> tuple[records.Tensor | None, ...]:
        return tuple(
            one if one is None or one.constant else msgspec.structs.replace(one, shape=None) for one in tensors
        )

    nodes = tuple(
        node
        if node.constant
        else msgspec.structs.replace(
            node,
            op=msgspec.structs.replace(node.op, inputs=bare(node.op.inputs), outputs=bare(node.op.outputs)),
            work=None,
        )
        for node in source.nodes
    )
    model = msgspec.structs.replace(
        source.model,
        inputs=tuple(msgspec.structs.replace(one, shape=None) for one in source.model.inputs),
        outputs=tuple(msgspec.structs.replace(one, shape=None) for one in source.model.outputs),
        assumptions=tuple(sentence for sentence in source.model.assumptions if sentence not in assumed),
    )
    return msgspec.structs.replace(source, model=model, nodes=nodes)


def price_named(named: NamedPlan, kernels: Sequence[Sequence[records.Match]] = ()) -> PricedNames:
    """Count the work of layers by their nodes; names of kernels, by layer, tell dtypes."""
    told = [_stored(matches) for matches in kernels] or [Stored("", "")] * len(named.layers)
    tensors = _Tensors(named, told)
    layers = tuple(
        msgspec.structs.replace(matched, layer=tensors.described(at)) for at, matched in enumerate(named.layers)
    )
    notes = (*named.plan.notes, _BY_NAME, tensors.told())
    plan = msgspec.structs.replace(named.plan, layers=tuple(matched.layer for matched in layers), notes=notes)
    priced = price_matched(plan, layers, named.fates, named.source, records.EngineFacts(backend="tensorrt"))
    return PricedNames(priced, tuple(tensors.lacking()))


def _stored(matches: Iterable[records.Match]) -> Stored:
    """Of several kernels only what all that tell anything agree on; what is read is the word of those that multiply."""
    names = [parse(match.kernel) for match in matches]
    multiplying = [name for name in names if name.unit in ("tensor", "simt")] or names
    read = {_STORED.get(name.dtype_in, name.dtype_in) for name in multiplying if name.dtype_in}
    written = {_STORED.get(name.dtype_out, name.dtype_out) for name in names if name.dtype_out}
    return Stored(*(found.pop() if len(found) == 1 and found <= DTYPE_BITS.keys() else "" for found in (read, written)))


class _Tensors:
    """The tensors between layers: those that cross the borders of their nodes."""

    def __init__(self, named: NamedPlan, told: Sequence[Stored]) -> None:
        self._layers = named.layers
        self._by_name = {node.name: node for node in named.source.nodes}
        self._views = _views(named)
        self._fixed = {
            tensor.name
            for node in named.source.nodes
            for tensor in (node.op.outputs if node.constant else node.op.inputs)
            if tensor is not None and (node.constant or tensor.constant)
        }
        given_out = {tensor.name for tensor in named.source.model.outputs}
        readers: dict[str, set[str]] = {}
        for node in named.source.nodes:
            for tensor in node.op.inputs:
                if tensor is not None and not node.constant:
                    readers.setdefault(tensor.name, set()).add(node.name)
        self._borders = [self._border(matched, readers, given_out) for matched in named.layers]
        self.dtypes = self._dtypes(told)
        floating = {
            self._root(one.name) for sides in self._borders for side in sides for one in side if is_float(one.dtype)
        }
        self._open = floating - self.dtypes.keys()
        self._known = len(floating) - len(self._open)
        self._narrowest = min(self.dtypes.values(), key=lambda dtype: (DTYPE_BITS[dtype], dtype), default="")

    def _nodes(self, matched: records.MatchedLayer) -> list[records.Node]:
        """The nodes that a layer computes in every inference."""
        return [node for name in matched.nodes if not (node := self._by_name[name]).constant]

    def _root(self, name: str) -> str:
        return self._views.get(name, name)

    def _border(
        self, matched: records.MatchedLayer, readers: Mapping[str, set[str]], given_out: set[str]
    ) -> tuple[list[records.Tensor], list[records.Tensor]]:
        """What a layer reads of others and what others read of it, constants left out."""
        nodes = self._nodes(matched)
        own = {node.name for node in nodes}
        made = {tensor.name: tensor for node in nodes for tensor in node.op.outputs if tensor is not None}
        leaving = {name for name in made if name in given_out or readers.get(name, set()) - own}
        leaving = leaving or {name for name in made if name not in readers}
        cost = _priced([node.op for node in nodes], leaving)
        if cost is None:
            read = [tensor for node in nodes for tensor in node.op.inputs if tensor is not None]
            written = [tensor for name, tensor in made.items() if name in leaving]
        else:
            read, written = ([moved.tensor for moved in side] for side in (cost.reads, cost.writes))
        read = [tensor for tensor in read if tensor.name not in made and tensor.name not in self._fixed]
        return list({tensor.name: tensor for tensor in read}.values()), written

    def _dtypes(self, told: Sequence[Stored]) -> dict[str, str]:
        """Tensor -> what it is stored as, by the kernel that writes it, or else the first that multiplies it."""
        found: dict[str, str] = {}
        for (_, written), stored in zip(self._borders, told, strict=True):
            for tensor in written:
                if stored.written and is_float(tensor.dtype):
                    found.setdefault(self._root(tensor.name), stored.written)
        for at, ((read, _), stored) in enumerate(zip(self._borders, told, strict=True)):
            # What the products of a layer multiply; empty where it has none.
            ops = [node.op for node in self._nodes(self._layers[at])]
            places = ((op, OPERANDS.get(op.op_type, (0,))) for op in ops if op.op_type in MULTIPLYING)
            operands = {
                one.name
                for op, positions in places
                for position in positions
                if position < len(op.inputs) and (one := op.inputs[position]) is not None
            }
            for tensor in read:
                if stored.read and is_float(tensor.dtype) and (not operands or tensor.name in operands):
                    found.setdefault(self._root(tensor.name), stored.read)
        return found

    def described(self, at: int) -> records.PlanLayer:
        """A layer as a detailed plan would have it, as far as its nodes tell."""
        matched, (read, written) = self._layers[at], self._borders[at]
        ops = [node.op for node in self._nodes(matched)]
        if not ops:
            return matched.layer
        kinds = list(dict.fromkeys(op.op_type for op in ops))
        more = f" + {len(kinds) - _MOST_KINDS} kinds" if len(kinds) > _MOST_KINDS else ""
        main = next((op.op_type for op in ops if op.op_type in MULTIPLYING), "")
        return msgspec.structs.replace(
            matched.layer,
            kind=" + ".join(kinds[:_MOST_KINDS]) + more,
            parameter_type=_parameter_type(main),
            inputs=tuple(self._tensor(one) for one in read),
            outputs=tuple(self._tensor(one) for one in written),
        )

    def _tensor(self, tensor: records.Tensor) -> records.PlanTensor:
        dims = None
        if tensor.shape is not None:
            dims = tuple(dim if isinstance(dim, int) else -1 for dim in tensor.shape)
        dtype = tensor.dtype
        if is_float(tensor.dtype):
            dtype = self.dtypes.get(self._root(tensor.name), self._narrowest or dtype)
        return records.PlanTensor(name=self._root(tensor.name), dims=dims, dtype=dtype)

    def told(self) -> str:
        """Where the dtypes are from, in a sentence."""
        total = self._known + len(self._open)
        others = f"; the others are taken as {self._narrowest}, the narrowest of them" if self._open else ""
        if not self.dtypes:
            return "no name of a kernel tells a dtype: tensors are taken as they are in the model"
        return f"names of kernels tell the dtypes of {self._known} of {total} floating-point tensors{others}"

    def lacking(self) -> Iterable[Lack]:
        """What makes the work less sure."""
        if not self._open:
            return
        if self.dtypes:
            number = len(self._open)
            yield f"{number} tensors of unknown dtype" if number > 1 else "a tensor of unknown dtype", _NARROW
        else:
            yield (
                "dtypes of the model",
                "an engine of another precision than the model's moves and multiplies less than is counted",
            )


def _views(named: NamedPlan) -> dict[str, str]:
    """Tensor -> the one that it shows: nodes that no layer computes, and that leave the size as it is."""
    owned = {name for matched in named.layers for name in matched.nodes}
    found: dict[str, str] = {}
    for node in named.source.nodes:
        given, made = _first(node.op.inputs), _first(node.op.outputs)
        if node.op.op_type in MULTIPLYING or node.constant or node.name in owned:
            continue
        if given is None or made is None or given.constant:
            continue
        if given.elements is not None and given.elements == made.elements:
            found[made.name] = found.get(given.name, given.name)
    return found


def _first(tensors: Sequence[records.Tensor | None]) -> records.Tensor | None:
    return tensors[0] if tensors else None


def _priced(ops: Sequence[records.Op], leaving: set[str]) -> Cost | None:
    try:
        return group_cost(ops, leaving)
    except CostError:
        return None


def _parameter_type(op_type: str) -> str:
    """TensorRT's word for the product of a layer; empty where there is none."""
    if op_type in CONVOLUTIONS:
        return "Deconvolution" if "Transpose" in op_type else "Convolution"
    return "MatrixMultiply" if op_type else ""
