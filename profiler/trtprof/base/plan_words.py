"""What the layers of a TensorRT plan do, and how their tensors lie in memory, in a word.

Read off what the plan tells without doubt: kinds, parameter types, the operations that Myelin spells out in
the names of its layers (``__myl_FcAddRelu``), formats and strides. No kernel name is parsed here.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import NamedTuple

from trtprof.base.records import MatchedLayer, PlanLayer, PlanTensor, Work

NARROW = frozenset({"int8", "uint8", "int4", "uint4", "fp8e4m3fn", "fp8e5m2", "fp4e2m1"})
"""Dtypes that a model is quantised to."""
HALF = frozenset({"fp16", "bf16"})
FULL = frozenset({"fp32", "tf32"})

LAUNCHING = ("compute", "layout")
"""Roles of layers that run something on the GPU."""

MYELIN_KIND = "myelin"
"""Kind of a layer of which only the name is known, and that Myelin made it: it is called after one node of several."""

REGIONS = frozenset({"Myelin"})
"""Kinds that hold what several kernels do: up to TensorRT 9 one layer stands for all that Myelin compiles."""

_PRODUCT_TYPES = frozenset({"Convolution", "Deconvolution", "FullyConnected", "MatrixMultiply"})
_PRODUCT_KIND = re.compile(r"(?i)conv(?!er)|correlation|gemm|matrix ?multiply|fully ?connected")
_CONVOLUTION_KIND = re.compile(r"(?i)conv(?!er)|correlation")
_REDUCTION_KIND = re.compile(r"(?i)pool|reduce|soft ?max|top ?k|normali[sz]ation")
_ATTENTION = re.compile(r"(?i)(?:^|_)[fx]?mha(?:_|\d|$)")
_MYELIN = re.compile(r"__myl_([A-Za-z0-9]+?)_")
_TOKEN = re.compile(r"[A-Z][a-z0-9]*")
# Four letters from about TensorRT 10.11 on, three before. ``Max`` and ``Min`` of three letters may be of two
# tensors, and ``Con`` is a concatenation: they say nothing for sure.
_PRODUCT_TOKENS = frozenset({"Fc", "Corr", "Cor", "Conv", "Gemm", "Mma", "Bmm", "Dot", "Mha"})
_CONVOLUTION_TOKENS = frozenset({"Corr", "Cor", "Conv"})
_REDUCTION_TOKENS = frozenset({"Mean", "Mea", "Sum", "Maxr", "Minr", "Prod", "Topk"})
_LEADING_WORD = re.compile(r"\((\w+)\)")
_ORDER = re.compile(r"stride order = \[([\d, ]+)\]")


def tokens(layer: PlanLayer) -> tuple[str, ...]:
    """The operations in the name that Myelin gave a layer: ``Fc``, ``Add``, ``Relu``; empty for any other."""
    return _tokens(layer.name) or _tokens(layer.tactic)


def is_product(layer: PlanLayer) -> bool:
    """Whether it convolves or multiplies matrices, whatever else it does."""
    return (
        layer.parameter_type in _PRODUCT_TYPES
        or (not layer.parameter_type and _is_product_kind(layer.kind))
        or ("mha" in layer.name.lower() and _ATTENTION.search(layer.name) is not None)
        or not _PRODUCT_TOKENS.isdisjoint(tokens(layer))
    )


def is_convolution(layer: PlanLayer) -> bool:
    """Whether it is a product that is a convolution."""
    if layer.parameter_type:
        return layer.parameter_type in ("Convolution", "Deconvolution")
    return _CONVOLUTION_KIND.search(layer.kind) is not None or not _CONVOLUTION_TOKENS.isdisjoint(tokens(layer))


def is_reduction(layer: PlanLayer) -> bool:
    """Whether it reduces, pools or normalises, so that it needs many elements for one."""
    return _is_reduction_kind(layer.kind) or not _REDUCTION_TOKENS.isdisjoint(tokens(layer))


def is_reformat(matched: MatchedLayer) -> bool:
    """Whether a layer only brings a tensor into another dtype, order or padding."""
    return matched.role == "layout" or (matched.role in LAUNCHING and matched.layer.kind.lower() == "reformat")


class Quantisation(NamedTuple):
    """What a layer does that only quantises or dequantises: ``source`` becomes ``target``."""

    source: PlanTensor
    target: PlanTensor
    quantises: bool
    """To fewer bits; otherwise it dequantises."""


def quantisation(layer: PlanLayer) -> Quantisation | None:
    """What a layer does that only quantises or dequantises; None of any other."""
    named = "quantize" in layer.kind.lower()
    tensors = main_tensors(layer) if named or layer.origin == "QDQ" or layer.kind == "Scale" else None
    if tensors is None or is_product(layer):
        return None
    source, target = tensors
    narrowed, widened = target.dtype in NARROW, source.dtype in NARROW
    if not named and narrowed == widened:
        return None
    return Quantisation(source, target, "dequantize" not in layer.kind.lower() if named else narrowed)


def precision(matched: MatchedLayer, work: Work | None) -> str:
    """What a layer computes with, or the dtype of its largest tensor; ``unknown`` where neither is known."""
    if work is not None and work.dtype not in ("", "unknown"):
        return work.dtype
    layer = matched.layer
    if layer.inputs and layer.inputs[0].dtype and is_product(layer):
        return layer.inputs[0].dtype
    tensors = [tensor for tensor in (*layer.outputs, *layer.inputs, *layer.constants) if tensor.dtype]
    # Of equal ones the output.
    return max(tensors, key=lambda tensor: tensor.nbytes or 0).dtype if tensors else "unknown"


def layout(tensor: PlanTensor) -> str:
    """The memory format of a tensor in a word: ``Linear``, ``NHWC8``, ``NC/32HW32``; ``""`` where it is not told."""
    return _layout(tensor.format, tensor.vector)


def tensor_words(tensor: PlanTensor) -> str:
    """Dtype and memory format of a tensor: ``fp16 NHWC8``."""
    return " ".join(word for word in (tensor.dtype, layout(tensor)) if word) or "unknown"


def main_tensors(layer: PlanLayer) -> tuple[PlanTensor, PlanTensor] | None:
    """The largest tensor that a layer reads and the largest that it writes; None where it does not do both."""
    if not layer.inputs or not layer.outputs:
        return None
    # Of equal ones the first.
    source, target = (max(side, key=lambda tensor: tensor.nbytes or 0) for side in (layer.inputs, layer.outputs))
    return source, target


def change(layer: PlanLayer) -> str:
    """What a layer makes of its largest tensor: ``fp32 Linear -> fp16 NHWC8``."""
    tensors = main_tensors(layer)
    if tensors is None:
        return " ".join(["to", *(tensor_words(tensor) for tensor in layer.outputs[:1])]) if layer.outputs else "unknown"
    source, target = tensors
    before, after = tensor_words(source), tensor_words(target)
    if source.dims != target.dims and source.dims is not None and target.dims is not None:
        return f"{before} {dims_words(source.dims)} -> {after} {dims_words(target.dims)}"
    if before != after or source.strides == target.strides:
        return f"{before} -> {after}"
    return f"{before} strides {_numbers(source.strides)} -> {_numbers(target.strides)}"


def dims_words(dims: Sequence[int]) -> str:
    """Dimensions: ``1x3x224x224``."""
    return "x".join(str(dim) for dim in dims)


@functools.cache
def _tokens(name: str) -> tuple[str, ...]:
    found = _MYELIN.match(name)
    return tuple(_TOKEN.findall(found[1])) if found else ()


@functools.cache
def _is_product_kind(kind: str) -> bool:
    return _PRODUCT_KIND.search(kind) is not None


@functools.cache
def _is_reduction_kind(kind: str) -> bool:
    return _REDUCTION_KIND.search(kind) is not None


@functools.cache
def _layout(text: str, vector: int) -> str:
    spatial = "DHW" if "3 spatial" in text or "DHW" in text else "HW"
    if order := _ORDER.search(text):
        return f"order {order[1].replace(' ', '')}"
    if found := _LEADING_WORD.match(text):
        return found[1]
    lower = text.lower()
    if "channel major" in lower:
        return f"N{spatial}C{vector if vector > 1 else ''}"
    if "vectorized" in lower:
        return f"NC/{vector}{spatial}{vector}"
    return "Linear" if "linear" in lower else ""


def _numbers(strides: Sequence[int] | None) -> str:
    return ",".join(str(stride) for stride in strides or ())
