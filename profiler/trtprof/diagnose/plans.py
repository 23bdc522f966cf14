"""A plan as the rules see that look at a plan alone, before anything is measured."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from trtprof.base import units
from trtprof.base.plan_words import LAUNCHING, dims_words, is_product, is_reformat, main_tensors, tensor_words
from trtprof.base.records import MatchedLayer, PlanBinding, PlanTensor, Work


class PlanView:
    """The layers of a plan that run something, in execution order with their work, its products, and who reads what."""

    def __init__(
        self, layers: Sequence[MatchedLayer], works: Sequence[Work | None], bindings: Iterable[PlanBinding] = ()
    ) -> None:
        self._all = layers
        self.layers = [(one, work) for one, work in zip(layers, works, strict=True) if one.role in LAUNCHING]
        self.products = [(one, work) for one, work in self.layers if is_product(one.layer)]
        modes = {binding.name: binding.mode for binding in bindings}
        self.inputs = {name for name, mode in modes.items() if mode == "input"}
        self.outputs = {name for name, mode in modes.items() if mode == "output"}

    @functools.cached_property
    def readers(self) -> Mapping[str, Sequence[str]]:
        """Tensor -> names of the layers that read it."""
        readers: dict[str, list[str]] = {}
        for matched in self._all:
            for name in {tensor.name: None for tensor in matched.layer.inputs}:
                readers.setdefault(name, []).append(matched.layer.name)
        return readers

    def conversions(self) -> Iterator[tuple[MatchedLayer, PlanTensor, PlanTensor]]:
        """Reformats that change the type and do not quantise, with what they read and write."""
        for matched, _ in self.layers:
            tensors = main_tensors(matched.layer) if is_reformat(matched) else None
            if tensors is None or matched.layer.origin == "QDQ":
                continue
            if tensors[0].dtype and tensors[1].dtype and tensors[0].dtype != tensors[1].dtype:
                yield matched, *tensors


def conversion_words(source: PlanTensor, target: PlanTensor) -> str:
    """``fp32 Linear -> fp16 NHWC8, 1x3x224x224: 903 kB moved``."""
    where = f", {dims_words(target.dims)}" if target.dims else ""
    moved = None if source.nbytes is None or target.nbytes is None else source.nbytes + target.nbytes
    return f"{tensor_words(source)} -> {tensor_words(target)}{where}: {size_words(moved)} moved"


def size_words(count: int | None) -> str:
    """Bytes that may not be known."""
    return "an unknown number of bytes" if count is None else units.format_bytes(count)
