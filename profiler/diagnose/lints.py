"""What is worth a look in a plan before anything is measured: one small function a lint.

A lint tells only what the plan shows for sure. A tactic is judged by words that stand in it between
underscores and have one meaning; a name without such a word is not judged. ``xmma`` is none of them:
``sm50_xmma_..._ffma`` multiplies on the CUDA cores.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from profiler.base import units
from profiler.base.plan_words import (
    LAUNCHING,
    dims_words,
    is_convolution,
    is_product,
    is_reformat,
    main_tensors,
    precision,
    tensor_words,
)
from profiler.base.records import MatchedLayer, PlanBinding, PlanLayer, PlanLint, PlanTensor, Work


class PlanView:
    """A plan as lints see it.

    Attributes:
        layers: Those that run something on the GPU, in execution order, each with its work.
        readers: Tensor -> names of the layers that read it.
        inputs: Names of the inputs of the engine.
        outputs: Names of its outputs.
    """

    def __init__(
        self, layers: Sequence[MatchedLayer], works: Sequence[Work | None], bindings: Iterable[PlanBinding] = ()
    ) -> None:
        self.layers = [
            (matched, work) for matched, work in zip(layers, works, strict=True) if matched.role in LAUNCHING
        ]
        self._products = [(matched.layer, work) for matched, work in self.layers if is_product(matched.layer)]
        self._all = layers
        modes: dict[str, set[str]] = {}
        for binding in bindings:
            modes.setdefault(binding.mode, set()).add(binding.name)
        self.inputs = modes.get("input", set())
        self.outputs = modes.get("output", set())

    @functools.cached_property
    def readers(self) -> Mapping[str, Sequence[str]]:
        readers: dict[str, list[str]] = {}
        for matched in self._all:
            for name in {tensor.name: None for tensor in matched.layer.inputs}:
                readers.setdefault(name, []).append(matched.layer.name)
        return readers

    def products(self) -> Iterator[tuple[PlanLayer, Work | None]]:
        """Layers that convolve or multiply matrices."""
        return iter(self._products)


Check = Callable[[PlanView], Iterator[PlanLint]]


class Lint(NamedTuple):
    """A lint: its code, its name, and the function that finds what it is about."""

    code: str
    title: str
    check: Check


LINTS: dict[str, Lint] = {}
"""By code, in the order in which they are shown."""


def lint(code: str, title: str) -> Callable[[Check], Check]:
    """Decorator that files a lint under its code, which stays what it is."""

    def add(check: Check) -> Check:
        if code in LINTS:
            raise ValueError(f"lint {code} is registered twice")
        LINTS[code] = Lint(code, title, check)
        return check

    return add


def run_lints(
    layers: Sequence[MatchedLayer], works: Sequence[Work | None], bindings: Iterable[PlanBinding] = ()
) -> tuple[PlanLint, ...]:
    """All that the lints find, lint by lint, each in the order of the plan.

    Args:
        layers: In execution order.
        works: Of each layer.
        bindings: Inputs and outputs of the engine.
    """
    view = PlanView(layers, works, bindings)
    return tuple(found for each in LINTS.values() for found in each.check(view))


# --- tensor cores -----------------------------------------------------------------------------

_ALIGNED_BYTES = 16
"""Tensor cores work best where channels, or K and N, fill whole pieces of 16 bytes: 8 of fp16, 16 of int8, 4 of
TF32. NVIDIA, Matrix Multiplication Background User's Guide, "Tensor Core Requirements"."""

_TENSOR_DTYPES = frozenset({
    "fp16", "bf16", "fp32", "tf32", "int8", "uint8", "fp8e4m3fn", "fp8e5m2", "fp4e2m1", "fp64",
})  # fmt: skip
_SIMT_WORDS = frozenset({"ffma", "simt", "sgemm", "dgemm", "hgemm", "scudnn", "hcudnn", "icudnn", "dp4a", "idp4a"})
"""Multiplications on the CUDA cores. Tensor-core kernels of the same families have the shape of the
instruction in the word: ``s1688cudnn``, ``h884gemm``, ``i8816cudnn``."""
_TENSOR_MARK = re.compile(
    r"(?:^|_)(?:tensorop\w*?|tensor\d+x\d+x\d+|[hiq]mma|[a-z]*(?:884|1688|8816|16816|16832|16864)[a-z]*)(?:_|$)"
)
_OLD_ARCH = re.compile(r"(?:^|_)(sm[1-6]\d|maxwell|pascal|kepler)(?:_|$)")
"""Before Volta, which was the first to have tensor cores; 7x is left out for its variety."""


class ProductDims(NamedTuple):
    """What tensor cores see of a product: ``inner`` is summed over, ``outer`` is the width of the result.

    Attributes:
        inner: Input channels of a group of a convolution, K of a matrix product.
        outer: Its output channels, N.
        rows: M of a matrix product; 0 of a convolution.
        groups: Of a convolution.
    """

    inner: int
    outer: int
    rows: int = 0
    groups: int = 1

    @property
    def names(self) -> tuple[str, str]:
        if self.rows:
            return "K", "N"
        return (
            ("input channels", "output channels") if self.groups == 1 else ("input channels a group", "outputs a group")
        )

    @property
    def suits(self) -> bool:
        """Whether a tensor core has anything to do: not so of a vector, nor of a depthwise convolution."""
        return (self.rows != 1 and self.outer > 1) if self.rows else self.inner > 1 or self.groups == 1


def product_dims(layer: PlanLayer) -> ProductDims | None:
    """The dimensions of a convolution or matrix product, None where the plan does not tell them."""
    if not layer.inputs or not layer.outputs:
        return None
    source, target = layer.inputs[0].dims, layer.outputs[0].dims
    if source is None or target is None or min((*source, *target), default=0) < 1:
        return None
    return _convolution(layer, source, target) if is_convolution(layer) else _matrix_product(source, target)


def _convolution(layer: PlanLayer, source: Sequence[int], target: Sequence[int]) -> ProductDims | None:
    if min(len(source), len(target)) < 3:
        return None
    channels, made = source[1], target[1]
    weights = [
        tensor.dims
        for tensor in (*layer.constants, *layer.inputs[1:])
        if tensor.dims is not None and len(tensor.dims) == len(target) and tensor.dims[0] == made
    ]
    groups = layer.attributes.get("Groups", layer.attributes.get("ConvGroups"))
    if not isinstance(groups, int):
        # TensorRT-RTX tells weights instead: K x C/groups x kernel. Biases have one row, residuals the batch.
        inner = next((dims[1] for dims in weights if dims[1] and channels % dims[1] == 0), channels)
        groups = channels // inner
    if groups < 1 or channels % groups or made % groups:
        return None
    return ProductDims(channels // groups, made // groups, groups=groups)


def _matrix_product(source: Sequence[int], target: Sequence[int]) -> ProductDims | None:
    if min(len(source), len(target)) < 2:
        return None
    rows, outer = target[-2:]
    # A matrix may be read transposed.
    if source[-2] == rows:
        inner = source[-1]
    elif source[-1] == rows:
        inner = source[-2]
    else:
        return None
    return ProductDims(inner, outer, rows=rows)


@functools.cache
def _simt_mark(tactic: str) -> str:
    """The word of a tactic that says for sure that it does not use tensor cores; ``""`` where there is none."""
    if _TENSOR_MARK.search(tactic):
        return ""
    found = next((word for word in tactic.split("_") if word in _SIMT_WORDS), "")
    old = _OLD_ARCH.search(tactic)
    return found or (old[1] if old else "")


@functools.cache
def _on_tensor_cores(tactic: str) -> bool:
    return _TENSOR_MARK.search(tactic) is not None


def _multiplied(layer: PlanLayer, work: Work | None) -> str:
    """The dtype of what is multiplied."""
    if work is not None and work.tensor_flops and work.dtype:
        return work.dtype
    return layer.inputs[0].dtype if layer.inputs else ""


def _aligned_to(dtype: str) -> int:
    return _ALIGNED_BYTES * 8 // units.DTYPE_BITS.get("fp32" if dtype == "tf32" else dtype, 8)


def _misfits(layer: PlanLayer, work: Work | None) -> list[tuple[str, int]]:
    """Dimensions that do not fill whole pieces of what tensor cores work on, by name."""
    dims = product_dims(layer)
    dtype = _multiplied(layer, work)
    if dims is None or not dims.suits or dtype not in _TENSOR_DTYPES:
        return []
    align = _aligned_to(dtype)
    return [(name, size) for name, size in zip(dims.names, (dims.inner, dims.outer), strict=True) if size % align]


@lint("TC1", "dimensions that tensor cores cannot use")
def tensor_core_dims(view: PlanView) -> Iterator[PlanLint]:
    """Products whose channels, or K and N, are no multiple of what tensor cores work on."""
    for layer, work in view.products():
        misfits = _misfits(layer, work)
        if not misfits or _on_tensor_cores(layer.tactic):
            continue
        dtype = _multiplied(layer, work)
        align = _aligned_to(dtype)
        simt = _simt_mark(layer.tactic)
        shown = " and ".join(f"{size} {name}" if name.endswith("s") else f"{name} = {size}" for name, size in misfits)
        padded = ", ".join(str(-(-size // align) * align) for _, size in misfits)
        yield PlanLint(
            code="TC1",
            layer=layer.name,
            what=f"{misfits[0][0]} no multiple of {align}, as tensor cores want them of {_math(dtype)}",
            evidence=shown + (f"; its tactic is one of the CUDA cores ({simt}): {layer.tactic}" if simt else ""),
            try_=f"pad to {padded} with zeros in the model, or leave it where the layer takes little time",
        )


@lint("TC2", "tactics that leave the tensor cores idle")
def simt_tactics(view: PlanView) -> Iterator[PlanLint]:
    """Products with dimensions that suit tensor cores, but with a tactic of the CUDA cores."""
    for layer, work in view.products():
        simt = _simt_mark(layer.tactic)
        if not simt:
            continue
        dims = product_dims(layer)
        dtype = _multiplied(layer, work)
        if dtype not in _TENSOR_DTYPES or (dims is not None and not dims.suits) or _misfits(layer, work):
            continue
        remedy = "a higher builder optimization level and more workspace, so that more tactics are tried"
        if dtype in _FULL:
            remedy = "TF32 allowed, or in fp16 or bf16"
        yield PlanLint(
            code="TC2",
            layer=layer.name,
            what=f"a product of {dtype} on the CUDA cores",
            evidence=f"'{simt}' in its tactic {layer.tactic}",
            try_=f"build again with {remedy}",
        )


# --- precision ----------------------------------------------------------------------------------

NARROW = frozenset({"int8", "uint8", "int4", "uint4", "fp8e4m3fn", "fp8e5m2", "fp4e2m1"})
"""Dtypes that a model is quantised to."""
_HALF = frozenset({"fp16", "bf16"})
_FULL = frozenset({"fp32", "tf32"})


@lint("PR1", "quantised products with wide outputs")
def mixed_precision(view: PlanView) -> Iterator[PlanLint]:
    """Products that read integers or fp8 and write a wider type."""
    for layer, _ in view.products():
        if not layer.inputs or not layer.outputs:
            continue
        source, target = layer.inputs[0], layer.outputs[0]
        if source.dtype not in NARROW or target.dtype not in _HALF | _FULL:
            continue
        end = " (an output of the engine)" if target.name in view.outputs else ""
        yield PlanLint(
            code="PR1",
            layer=layer.name,
            what=f"reads {source.dtype} and writes {target.dtype}",
            evidence=f"{_size(target.nbytes)} written{end}, {_size(_as(target, source.dtype))} as {source.dtype}",
            try_="quantise what follows it too: a Q/DQ pair behind it (and behind the addition of a residual)",
        )


@lint("PR2", "fp32 layers in an engine of lower precision")
def full_precision(view: PlanView) -> Iterator[PlanLint]:
    """Layers that compute in fp32 where most products are of a narrower type, and pass fp32 on inside the engine."""
    amounts: dict[bool, int] = {}
    for layer, work in view.products():
        # By arithmetic where it is known; a product without it counts one.
        amount = (work.tensor_flops if work is not None else 0) or 1
        full = _multiplied(layer, work) in _FULL
        amounts[full] = amounts.get(full, 0) + amount
    if amounts.get(False, 0) <= amounts.get(True, 0):
        return
    border = view.inputs | view.outputs
    for matched, work in view.layers:
        layer = matched.layer
        inner = {tensor.dtype for tensor in (*layer.inputs, *layer.outputs) if tensor.name not in border}
        # What is fp32 outside alone is a conversion of what the engine takes or gives.
        if is_reformat(matched) or precision(matched, work) not in _FULL or not inner & _FULL:
            continue
        moved = work.bytes if work is not None else layer.nbytes
        product = is_product(layer)
        yield PlanLint(
            code="PR2",
            layer=layer.name,
            what="computes in fp32 in an engine of lower precision",
            evidence=f"{'a product' if product else 'no product'}, {_size(moved)} moved",
            try_="cast its inputs down in the model, unless it needs the range or the digits (exp, sums, norms)",
        )


# --- conversions --------------------------------------------------------------------------------


@lint("RF1", "conversions at the border of the engine")
def border_conversions(view: PlanView) -> Iterator[PlanLint]:
    """Reformats that change the type of an input or output of the engine."""
    for matched, source, target in _conversions(view):
        side = "input" if source.name in view.inputs else "output" if target.name in view.outputs else ""
        if not side or matched.layer.origin == "QDQ":
            continue
        ours, other = (source, target.dtype) if side == "input" else (target, source.dtype)
        yield PlanLint(
            code="RF1",
            layer=matched.layer.name,
            what=f"converts {side} {ours.name} of the engine",
            evidence=_conversion(source, target),
            try_=f"let the engine {'take' if side == 'input' else 'give'} {other} where the program around it can:"
            f" that dtype in the model, or trtexec --{side}IOFormats={other}:chw",
        )


@lint("RF2", "conversions between layers")
def inner_conversions(view: PlanView) -> Iterator[PlanLint]:
    """Reformats inside the engine that change the type, but do not quantise."""
    for matched, source, target in _conversions(view):
        if source.name in view.inputs or target.name in view.outputs or matched.layer.origin == "QDQ":
            continue
        yield PlanLint(
            code="RF2",
            layer=matched.layer.name,
            what=f"converts {source.dtype} to {target.dtype} between two layers",
            evidence=_conversion(source, target),
            try_=f"give the layers around it one precision; it is made for {matched.layer.serves or 'a reader'}",
        )


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


@lint("QD1", "Q/DQ layers left unfused")
def unfused_quantisation(view: PlanView) -> Iterator[PlanLint]:
    """Layers that only quantise or dequantise."""
    for matched, _ in view.layers:
        layer = matched.layer
        found = quantisation(layer)
        if found is None:
            continue
        source, target, quantises = found
        others = [name for name in view.readers.get(source.name, ()) if name != layer.name]
        remedy = "move the Q/DQ pair next to the product or pooling that it belongs to"
        if source.name in view.inputs:
            remedy = "give the engine the quantised input, where the program around it can"
        elif quantises and others:
            remedy = f"quantise what {others[0]} reads too: it reads the same tensor as {source.dtype}"
        yield PlanLint(
            code="QD1",
            layer=layer.name,
            what=f"a layer of its own for {'quantising' if quantises else 'dequantising'} {source.name}",
            evidence=_conversion(source, target),
            try_=remedy,
        )


@lint("SL1", "slices and shuffles that convert")
def converting_slices(view: PlanView) -> Iterator[PlanLint]:
    """Slices and shuffles whose output has another type than their input."""
    for matched, _ in view.layers:
        layer = matched.layer
        moves = {layer.kind.lower(), layer.parameter_type.lower()} & {"slice", "shuffle"}
        tensors = main_tensors(layer) if moves else None
        if tensors is None:
            continue
        source, target = tensors
        if source.dtype and target.dtype and source.dtype != target.dtype:
            yield PlanLint(
                code="SL1",
                layer=layer.name,
                what=f"a {layer.kind.lower()} that converts {source.dtype} to {target.dtype}",
                evidence=_conversion(source, target),
                try_="give what is before and behind it one precision",
            )


def _conversions(view: PlanView) -> Iterator[tuple[MatchedLayer, PlanTensor, PlanTensor]]:
    """Reformats that change the type."""
    for matched, _ in view.layers:
        tensors = main_tensors(matched.layer) if is_reformat(matched) else None
        if tensors is not None and tensors[0].dtype and tensors[1].dtype and tensors[0].dtype != tensors[1].dtype:
            yield matched, *tensors


def _conversion(source: PlanTensor, target: PlanTensor) -> str:
    where = f", {dims_words(target.dims)}" if target.dims else ""
    moved = None if source.nbytes is None or target.nbytes is None else source.nbytes + target.nbytes
    return f"{tensor_words(source)} -> {tensor_words(target)}{where}: {_size(moved)} moved"


def _math(dtype: str) -> str:
    return "TF32" if dtype in _FULL else dtype


def _as(tensor: PlanTensor, dtype: str) -> int | None:
    return None if tensor.elements is None else units.dtype_bytes(dtype, tensor.elements)


def _size(count: int | None) -> str:
    return "an unknown number of bytes" if count is None else units.format_bytes(count)
