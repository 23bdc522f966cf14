"""Inputs whose random values decided the shapes of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from trtprof.base.op_kinds import SHAPE_INPUTS
from trtprof.base.records import Layer, Node, Source, Tensor
from trtprof.base.units import format_names, format_shape
from trtprof.capture.workers.inference import make_inputs

_COUNTS = frozenset({"NonZero", "Unique", "Compress", "NonMaxSuppression", "SequenceAt", "ConcatFromSequence"})
"""Ops whose output has as many elements as their input has of some kind."""
_LOOKS_AT_SHAPES = frozenset({"Shape", "Size"})


def describe_random_shapes(source: Source, layers: Sequence[Layer], seed: int) -> str:
    """Which random inputs decided a shape, and one that was seen; empty for none. ``layers`` have the shapes as run."""
    random = [plan.name for plan in source.model.inputs if plan.kind != "file" and plan.low != plan.high]
    makers = {tensor.name: node for node in source.nodes for tensor in node.op.outputs if tensor is not None}
    opened = [node for node in source.nodes if any(map(_is_open, _present(node.op.outputs)))]
    deciding = {name for node in opened for name in _inputs_behind(_shape_inputs(node), makers)}
    named = [name for name in random if name in deciding]
    if not named:
        return ""
    drawn = make_inputs(source.model.inputs, seed)
    told = [f"{name} = {drawn[name].item():.3g}" if drawn[name].size == 1 else name for name in named]
    last = {tensor.name for node in reversed(opened) for tensor in _present(node.op.outputs) if _is_open(tensor)}
    seen = [tensor for layer in layers for tensor in _present(layer.op.outputs) if tensor.name in last]
    ran = f", such as {seen[-1].name} {format_shape(seen[-1].shape)}" if seen else ""
    return f"random values of {format_names(told)} decide shapes{ran}: give real ones with --loadInputs"


def _present(tensors: Iterable[Tensor | None]) -> list[Tensor]:
    return [tensor for tensor in tensors if tensor is not None]


def _is_open(tensor: Tensor) -> bool:
    return tensor.shape is None or any(not isinstance(dim, int) for dim in tensor.shape)


def _shape_inputs(node: Node) -> list[str]:
    if node.op.op_type in _COUNTS:
        return [tensor.name for tensor in _present(node.op.inputs)]
    places = SHAPE_INPUTS.get(node.op.op_type, ())
    return [tensor.name for at, tensor in enumerate(node.op.inputs) if at in places and tensor is not None]


def _inputs_behind(names: Iterable[str], makers: Mapping[str, Node]) -> set[str]:
    """The graph inputs whose values, not only shapes, the tensors of these names follow from."""
    found, queue = set(names), list(names)
    while queue:
        node = makers.get(queue.pop())
        if node is not None and node.op.op_type not in _LOOKS_AT_SHAPES:
            new = {tensor.name for tensor in _present(node.op.inputs)} - found
            found |= new
            queue.extend(new)
    return found - makers.keys()
