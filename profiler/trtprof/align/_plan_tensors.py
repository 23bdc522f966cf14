"""Tensors of a TensorRT plan: who writes and reads them, and which ONNX tensors they hold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence

from trtprof.align._graph import Key
from trtprof.align._plan_model import Model
from trtprof.base.records import Node, PlanLayer

_MOST_HOPS = 8
_MOST_BESIDE = 64  # Copies in a row, and layers at one tensor, that are followed


class PlanTensors:
    """Makers and readers of the tensors of a plan, as positions of layers: several makers where each writes a part.

    ``copies`` only bring a tensor into another order, dtype or place; ``holds`` is the ONNX tensor that a tensor is.
    """

    def __init__(self, layers: Sequence[PlanLayer], copies: Collection[int], model: Model) -> None:
        self.layers = layers
        self.makers: dict[str, list[int]] = defaultdict(list)
        self.readers: dict[str, list[int]] = defaultdict(list)
        self.holds: dict[str, Key] = {}
        for index, layer in enumerate(layers):
            for tensor in layer.outputs:
                self.makers[tensor.name].append(index)
            for tensor in layer.inputs:
                self.readers[tensor.name].append(index)
        for name in {**self.makers, **self.readers}:
            key = model.find(name)
            if key is not None:
                self.holds[name] = key
        self.copies = frozenset(
            index for index in copies if all(len(self.makers[tensor.name]) == 1 for tensor in layers[index].outputs)
        )
        ordered = sorted(self.copies)
        for index in ordered:
            self._hold(layers[index].inputs[0].name, layers[index].outputs[0].name)
        for index in reversed(ordered):
            self._hold(layers[index].outputs[0].name, layers[index].inputs[0].name)

    def _hold(self, known: str, other: str) -> None:
        if known in self.holds:
            self.holds.setdefault(other, self.holds[known])

    def written_in_parts(self, node: Node, makers: Iterable[int]) -> str:
        """The tensor of the plan into which several layers write the inputs of a Concat; ``""`` for any other node."""
        if node.op.op_type == "Concat":
            for index in makers:
                for tensor in self.layers[index].outputs:
                    if len(self.makers[tensor.name]) > 1:
                        return tensor.name
        return ""

    def feeding(self, index: int) -> Iterator[int]:
        """The layers that make what a layer reads, copies passed over."""
        return self._beyond(index, forward=False)

    def served(self, index: int) -> Iterator[int]:
        """The layers that read what a layer makes, copies passed over."""
        return self._beyond(index, forward=True)

    def _beyond(self, index: int, *, forward: bool) -> Iterator[int]:
        stack, seen = [(index, 0)], {index}
        while stack:
            at, hops = stack.pop()
            layer = self.layers[at]
            beside = self.readers if forward else self.makers
            for tensor in layer.outputs if forward else layer.inputs:
                for other in beside.get(tensor.name, [])[:_MOST_BESIDE]:
                    if other in seen:
                        continue
                    seen.add(other)
                    if other in self.copies and hops < _MOST_HOPS:
                        stack.append((other, hops + 1))
                    else:
                        yield other
