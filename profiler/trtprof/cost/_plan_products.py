"""What a layer of a plan multiplies, as far as the plan itself tells: by its words and by the dims of its tensors."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

import msgspec

from trtprof.base import units
from trtprof.base.plan_words import is_convolution, tokens
from trtprof.base.records import Core, PlanLayer, PlanTensor
from trtprof.cost._windows import fast_products, touched
from trtprof.cost.precision import product_dtype

_ATTENTION = re.compile(r"(?:^|_)[fx]?mha(?:_|\d|$)", re.IGNORECASE)

_WIDE_FLOATS = frozenset({"fp64", "fp32", "fp16", "bf16"})


class Product(NamedTuple):
    """A product that a layer does."""

    flops: int  # 2 per multiply-accumulate
    activations: PlanTensor  # What is multiplied
    weights: PlanTensor | None  # By what; None where the plan does not list it
    fast_flops: int = 0  # The part of ``flops`` that a fast algorithm does without
    core: Core | None = None  # Its dimensions, that give ``flops``; None where a plan has no words for them


def sums_products(layer: PlanLayer) -> bool:
    """Whether it multiplies and sums up: Myelin's way to do a product of a vector."""
    own = tokens(layer)
    return "Mul" in own and "Sum" in own


Sides = tuple[tuple[tuple[tuple[int, ...] | None, str], ...], ...]
"""Dims and dtypes of the tensors of a layer: outputs, inputs, constants."""


def plan_product(layer: PlanLayer, known: dict[Sides, Product | None] | None = None) -> Product | None:
    """The product of a layer, from its attributes and the dims of its tensors; None where they do not tell.

    Args:
        layer: With dims that are known; -1 makes it None.
        known: Products of matrices that were found before: layers whose tensors have the same dims and dtypes share
            one, so that the tensors in it may be those of another layer.
    """
    if not layer.outputs:
        return None
    if (kernel := _numbers(layer, "Kernel")) is not None:
        return _described(layer, kernel)
    if _ATTENTION.search(layer.name) or _ATTENTION.search(layer.tactic):
        return _attention(layer)
    if is_convolution(layer):
        return _correlation(layer)
    if known is None:
        return _matrices(layer)
    sides = (layer.outputs, layer.inputs, layer.constants)
    key = tuple([tuple([(one.dims, one.dtype) for one in side]) for side in sides])
    if key not in known:
        known[key] = _matrices(layer)
    return known[key]


def operand_dtype(product: Product) -> str:
    """The dtype that a product multiplies in."""
    first = product.activations.dtype
    second = product.weights.dtype if product.weights is not None else ""
    if first in _WIDE_FLOATS:
        if second in _WIDE_FLOATS:
            return min((first, second), key=lambda dtype: units.DTYPE_BITS[dtype])
        return first
    return product_dtype([dtype for dtype in (first, second) if dtype])


def _numbers(layer: PlanLayer, key: str) -> tuple[int, ...] | None:
    """An attribute of a convolution, which one layer with activation and pooling calls ``ConvKernel``."""
    value = layer.attributes.get(key, layer.attributes.get(f"Conv{key}"))
    values = value if isinstance(value, tuple) else (value,)
    numbers = tuple(one for one in values if isinstance(one, int))
    return numbers if numbers and len(numbers) == len(values) else None


def _known(tensors: Sequence[PlanTensor]) -> list[tuple[PlanTensor, tuple[int, ...]]]:
    return [(one, one.dims) for one in tensors if one.dims and min(one.dims) > 0]


def _described(layer: PlanLayer, kernel: tuple[int, ...]) -> Product | None:
    """A convolution by its attributes: 2 * outputs * (channels / groups) * window, or transposed, of the inputs."""
    maps = _numbers(layer, "OutMaps")
    groups = (_numbers(layer, "Groups") or (1,))[0]
    inputs = _known(layer.inputs)
    outputs = _known(layer.outputs)
    if maps is None or not inputs or not outputs or groups < 1:
        return None
    x, dims = inputs[0]
    if len(dims) != len(kernel) + 2:
        return None
    if "deconvolution" in f"{layer.kind} {layer.parameter_type}".lower():
        flops = 2 * math.prod(dims) * maps[0] * math.prod(kernel) // groups
        return Product(flops, x, _held(layer), _fast(layer, kernel, flops, x))
    places = outputs[0][1][2:]
    if "ConvKernel" in layer.attributes:
        # The output that is listed is behind the pooling.
        ones = (1,) * len(kernel)
        places = tuple(
            (size + before + after - dilation * (window - 1) - 1) // stride + 1
            for size, before, after, dilation, window, stride in zip(
                dims[2:],
                _numbers(layer, "PrePadding") or (0,) * len(kernel),
                _numbers(layer, "PostPadding") or (0,) * len(kernel),
                _numbers(layer, "Dilation") or ones,
                kernel,
                _numbers(layer, "Stride") or ones,
                strict=False,
            )
        )
    made = dims[0] * maps[0] * math.prod(places)
    flops = 2 * made * (dims[1] // groups) * math.prod(kernel)
    core = None
    if dims[1] % groups == 0 and maps[0] % groups == 0:
        core = Core(
            kind="convolution",
            batch=groups,
            m=dims[0] * math.prod(places),
            n=maps[0] // groups,
            k=dims[1] // groups * math.prod(kernel),
            window=math.prod(kernel),
            stride=math.prod(_numbers(layer, "Stride") or (1,)),
        )
    return Product(flops, x, _held(layer), _fast(layer, kernel, flops, x), core)


def _fast(layer: PlanLayer, kernel: tuple[int, ...], flops: int, activations: PlanTensor) -> int:
    steps = _numbers(layer, "Stride") or (1,) * len(kernel)
    floats = activations.dtype in _WIDE_FLOATS
    return fast_products(flops, kernel, steps) if floats and len(steps) == len(kernel) else 0


def touched_share(layer: PlanLayer) -> Fraction:
    """The share of its first input that the windows of a convolution or pooling touch, by its attributes."""
    kernel = _numbers(layer, "Kernel") or _numbers(layer, "WindowSize")
    inputs, outputs = layer.inputs[:1], layer.outputs[:1]
    transposed = "deconvolution" in f"{layer.kind} {layer.parameter_type}".lower()
    strides = _numbers(layer, "Stride")
    if kernel is None or strides is None or transposed or "ConvKernel" in layer.attributes:
        return Fraction(1)
    if not (_known(inputs) and _known(outputs)):
        return Fraction(1)
    rank = len(kernel)
    sizes, places = inputs[0].dims or (), outputs[0].dims or ()
    dilations = _numbers(layer, "Dilation") or (1,) * rank
    before = _numbers(layer, "PrePadding") or (0,) * rank
    if {len(sizes) - 2, len(places) - 2, len(strides), len(dilations), len(before)} != {rank}:
        return Fraction(1)
    share = Fraction(1)
    for size, *rest, count in zip(sizes[2:], kernel, strides, dilations, before, places[2:], strict=True):
        share *= Fraction(touched(size, *rest, count), size)
    return share


def _held(layer: PlanLayer) -> PlanTensor | None:
    if layer.weights is None:
        return None
    return PlanTensor(name="", dims=(layer.weights.count,), dtype=layer.weights.dtype)


def _pairs(layer: PlanLayer) -> Iterator[tuple[PlanTensor, tuple[int, ...], PlanTensor, tuple[int, ...]]]:
    """What may be multiplied by what: constants are more likely to be the weights."""
    inputs = _known(layer.inputs)
    constants = _known(layer.constants)
    for w, weights in (*constants, *inputs):
        for x, dims in (*inputs, *constants):
            if x is not w:
                yield x, dims, w, weights


def _correlation(layer: PlanLayer) -> Product | None:
    """2 * outputs * the weights of one output channel; weights are [out, in / groups, window]."""
    found: list[Product] = []
    for _, out in _known(layer.outputs):
        rank = len(out)
        for x, dims, w, weights in _pairs(layer):
            if (
                rank < 3
                or len(dims) != rank
                or len(weights) != rank
                or (dims[0], weights[0]) != (out[0], out[1])
                or dims[1] % weights[1]
                # A factor or a summand of every channel.
                or (math.prod(weights) == out[1] and weights[1] == out[1])
            ):
                continue
            found.append(
                Product(2 * math.prod(out) * math.prod(weights[1:]), x, w, core=_convolved(out, dims, weights))
            )
        if found:
            # Weights are smaller than what else has such dims.
            return min(found, key=lambda one: one.flops)
    return None


def _convolved(out: Sequence[int], dims: Sequence[int], weights: Sequence[int]) -> Core | None:
    groups = dims[1] // weights[1]
    if weights[0] % groups:
        return None
    sizes = zip(dims[2:], weights[2:], out[2:], strict=True)
    return Core(
        kind="convolution",
        batch=groups,
        m=out[0] * math.prod(out[2:]),
        n=weights[0] // groups,
        k=math.prod(weights[1:]),
        window=math.prod(weights[2:]),
        stride=math.prod([_least_step(*each) for each in sizes]),
    )


def _least_step(size: int, window: int, places: int) -> int:
    """The shortest step with which so many windows reach over a dimension: padding, which adds to it, is not told."""
    return max(1, -(-(size - window + 1) // places))


def _matrices(layer: PlanLayer) -> Product | None:
    """2 * outputs * the dimension that is summed over: [.., m, k] by [.., k, n], or by what is not listed."""
    first: Product | None = None
    total = 0
    cores: list[Core] = []
    for _, out in _known(layer.outputs):
        made, columns = math.prod(out), out[-1]
        for x, dims, w, weights in _pairs(layer):
            if len(weights) < 2 or weights[-1] != columns:
                continue
            inner = weights[-2]
            if math.prod(dims) * columns == made * inner and inner > 1:
                first = first or Product(0, x, w)
                total += 2 * made * inner
                cores.append(_multiplied(out, inner, batched=math.prod(weights[:-2]) > 1))
                break
        else:
            inputs = _known(layer.inputs)
            if layer.constants or len(inputs) != 1:
                continue
            x, dims = inputs[0]
            if math.prod(dims) * columns == made * dims[-1]:
                first = first or Product(0, x, None)
                total += 2 * made * dims[-1]
                cores.append(_multiplied(out, dims[-1], batched=False))
    if first is None:
        return None
    # What one layer multiplies several matrices of the same size by is a batch.
    same = cores[0] if cores.count(cores[0]) == len(cores) else None
    core = None if same is None else msgspec.structs.replace(same, batch=same.batch * len(cores))
    return first._replace(flops=total, core=core)


def _multiplied(out: Sequence[int], inner: int, *, batched: bool) -> Core:
    rows = math.prod(out[:-1])
    m = out[-2] if batched and len(out) > 1 else rows
    return Core(kind="product", batch=rows // m, m=m, n=out[-1], k=inner)


def _attention(layer: PlanLayer) -> Product | None:
    """Queries by keys and scores by values: 2 * scores * (width of a query + width of a value)."""
    inputs = _known(layer.inputs)
    for _, out in _known(layer.outputs[:1]):
        if len(out) < 2:
            return None
        batch, rows, wide = math.prod(out[:-2]), out[-2], out[-1]
        for index, (query, dims) in enumerate(inputs):
            if len(dims) < 2 or dims[-2] != rows or math.prod(dims[:-2]) != batch:
                continue
            for _, keys in inputs[index + 1 :]:
                if len(keys) < 2 or keys[-2] != dims[-1]:
                    continue
                for value, values in inputs[index + 1 :]:
                    if values[-2:] == (keys[-1], wide):
                        flops = 2 * batch * rows * keys[-1] * (dims[-1] + wide)
                        core = Core(kind="attention", batch=batch, m=rows, n=keys[-1], k=dims[-1])
                        return Product(flops, query, value, core=core if wide <= dims[-1] else None)
    return None
