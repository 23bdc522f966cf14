"""The tensors of a plan: how large they are, what they are called in the model, which show another one.

Dimensions that depend on the input are -1 in a plan. The model, whose shapes are bound to numbers, tells them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from trtprof.base.records import MatchedLayer, Op, PlanLayer, PlanTensor, Tensor

_PROFILE = re.compile(r" \[profile \d+\]")
_SUFFIXES = (
    re.compile(r"_myl\d+$"),
    re.compile(r"_constant[A-Za-z0-9]*$"),
    re.compile(r"_\d+$"),
    re.compile(r"\.\d+$"),
)
"""What Myelin hangs on the name of a tensor, outermost first: ``relu_2.1_4_myl6``, ``w_constantFloat_myl0``."""

Shapes = Mapping[str, tuple[int, ...]]
"""Name of a tensor of the model -> its shape; only those that are known in full."""


def model_names(name: str) -> Iterator[str]:
    """What a tensor of a plan may be called in the model, best guess first."""
    yield name
    if "[profile" in name and (bare := _PROFILE.sub("", name)) != name:
        name = bare
        yield name
    for suffix in _SUFFIXES:
        if suffix.search(name):
            name = suffix.sub("", name)
            yield name


def shapes_of(ops: Iterable[Op]) -> dict[str, tuple[int, ...]]:
    """The shapes of all tensors of ops that are known in full."""
    found: dict[str, tuple[int, ...]] = {}
    for op in ops:
        for tensor in (*op.inputs, *op.outputs):
            if tensor is not None and tensor.name not in found and (shape := _shape(tensor)) is not None:
                found[tensor.name] = shape
    return found


def _shape(tensor: Tensor) -> tuple[int, ...] | None:
    if tensor.shape is None or tensor.kind != "tensor":
        return None
    numbers = tuple(dim for dim in tensor.shape if isinstance(dim, int))
    return numbers if len(numbers) == len(tensor.shape) else None


def is_dynamic(tensor: PlanTensor) -> bool:
    """Whether a dimension of it depends on the input."""
    return tensor.dims is not None and min(tensor.dims, default=0) < 0


def _fits(dims: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    return len(dims) == len(shape) and all(dim in (size, -1) for dim, size in zip(dims, shape, strict=True))


class Bound:
    """The layers of a plan with dims that depend on the input set to what the shapes of the model say.

    In this order: the tensor of the model that it is called after; the one shape among the tensors of the nodes
    of its layer that agrees with its other dims; the same tensor in another layer; the other side of a reformat or
    a view; and where all dims that were found so are one number, that number.
    """

    def __init__(self, layers: Sequence[MatchedLayer], ops: Mapping[str, Op]):
        self.layers = [matched.layer for matched in layers]
        self.guessed: set[tuple[str, tuple[int, ...]]] = set()
        """Name and dims of the tensors that only the dims of others told."""
        self._dims: dict[tuple[str, tuple[int, ...]], tuple[int, ...]] = {}
        # Few plans have such dims, and many tensors have the same.
        dims = {tensor.dims for layer in self.layers for tensor in _tensors(layer)}
        if not ops or not any(min(one, default=0) < 0 for one in dims if one is not None):
            return
        open_ = [place for place, layer in enumerate(self.layers) if any(map(is_dynamic, _tensors(layer)))]
        shapes = shapes_of(ops.values())
        for place in open_:
            self._by_name(self.layers[place], shapes)
        for place in open_:
            self._by_node(self.layers[place], [ops[name] for name in layers[place].nodes if name in ops])
        for place in (*open_, *reversed(open_)):
            if layers[place].role in ("layout", "idle") or not layers[place].nodes:
                self._across(self.layers[place])
        self._by_number(open_)
        for place in open_:
            self.layers[place] = self._set(self.layers[place])

    def _by_name(self, layer: PlanLayer, shapes: Shapes) -> None:
        for name, dims in _open(layer):
            if (name, dims) not in self._dims:
                for called in model_names(name):
                    if (shape := shapes.get(called)) is not None and _fits(dims, shape):
                        self._dims[name, dims] = shape
                        break

    def _by_node(self, layer: PlanLayer, ops: Sequence[Op]) -> None:
        shapes = set(shapes_of(ops).values())
        for name, dims in _open(layer):
            if (name, dims) not in self._dims:
                fitting = [shape for shape in shapes if _fits(dims, shape)]
                if len(fitting) == 1:
                    self._dims[name, dims] = fitting[0]

    def _across(self, layer: PlanLayer) -> None:
        """A layer with one input and one output of the same dims but those that are open."""
        if len(layer.inputs) != 1 or len(layer.outputs) != 1:
            return
        both = (layer.inputs[0], layer.outputs[0])
        for tensor, other in (both, both[::-1]):
            if is_dynamic(tensor) and tensor.dims is not None and other.dims is not None:
                known = self._dims.get((other.name, other.dims), other.dims)
                if min(known, default=0) >= 0 and _fits(tensor.dims, known):
                    self._dims.setdefault((tensor.name, tensor.dims), known)

    def _by_number(self, places: Sequence[int]) -> None:
        numbers = {
            size for (_, dims), shape in self._dims.items() for dim, size in zip(dims, shape, strict=True) if dim < 0
        }
        if len(numbers) != 1:
            return
        number = next(iter(numbers))
        for place in places:
            for name, dims in _open(self.layers[place]):
                # Two open dimensions of one tensor are hardly the same batch.
                if (name, dims) not in self._dims and dims.count(-1) == 1:
                    self._dims[name, dims] = tuple(number if dim < 0 else dim for dim in dims)
                    self.guessed.add((name, dims))

    def _set(self, layer: PlanLayer) -> PlanLayer:
        def bound(tensors: tuple[PlanTensor, ...]) -> tuple[PlanTensor, ...]:
            return tuple(
                msgspec.structs.replace(tensor, dims=self._dims.get((tensor.name, tensor.dims), tensor.dims))
                if tensor.dims is not None
                else tensor
                for tensor in tensors
            )

        return msgspec.structs.replace(
            layer, inputs=bound(layer.inputs), outputs=bound(layer.outputs), constants=bound(layer.constants)
        )


def _tensors(layer: PlanLayer) -> tuple[PlanTensor, ...]:
    return (*layer.inputs, *layer.outputs, *layer.constants)


def _open(layer: PlanLayer) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Name and dims of the tensors of a layer with dims that depend on the input."""
    for tensor in _tensors(layer):
        if tensor.dims is not None and is_dynamic(tensor):
            yield tensor.name, tensor.dims


def roots_of(layers: Sequence[MatchedLayer], bound: Sequence[PlanLayer]) -> dict[str, str]:
    """View -> the tensor whose bytes it shows: outputs of idle layers with one input of the same size."""
    roots: dict[str, str] = {}
    for matched, layer in zip(layers, bound, strict=True):
        if matched.role == "idle" and len(layer.inputs) == 1 and len(layer.outputs) == 1:
            source, view = layer.inputs[0], layer.outputs[0]
            if source.name != view.name and _same_size(source, view):
                roots[view.name] = roots.get(source.name, source.name)
    return roots


def _same_size(one: PlanTensor, other: PlanTensor) -> bool:
    if one.nbytes is None or other.nbytes is None:
        return one.dims == other.dims and one.dtype == other.dtype
    return one.nbytes == other.nbytes
