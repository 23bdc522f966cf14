"""Convolutions, plain, fused, quantised, transposed and deformable, in any layout."""

from __future__ import annotations

import math

from trtprof.base import units
from trtprof.base.records import Op, Tensor
from trtprof.cost import Cost, cost
from trtprof.cost._recipes import NOTHING, Recipe, fused_activation, requantize
from trtprof.cost._shapes import MS, NCHWC, NHWC, given, integers, need, out, shape, size, string, work
from trtprof.cost._windows import channels_last, fast_products, touched_elements


def _macs(result: Tensor, weights: Tensor) -> int:
    """N * Cout * Hout * Wout * (Cin / group) * Kh * Kw.

    The weights are [Cout, Cin/group, Kh, Kw] or [Cout, Kh, Kw, Cin/group]: all of them but the
    first dimension is what one output element takes, so that the layout does not matter.
    """
    return size(result) * math.prod(shape(weights)[1:])


def _kernel(op: Op, weights: Tensor) -> tuple[int, ...]:
    return integers(op, "kernel_shape") or (() if channels_last(op) else shape(weights)[2:])


def _saved(op: Op, weights: Tensor, flops: int) -> int:
    """Products that a fast algorithm does without: such algorithms are for floats."""
    if not units.is_float(need(op, 0).dtype):
        return 0
    kernel = _kernel(op, weights)
    strides = integers(op, "strides") or (1,) * len(kernel)
    return fast_products(flops, kernel, strides) if len(strides) == len(kernel) else 0


def _padding_note(op: Op) -> str:
    padded = any(integers(op, "pads") or ()) or string(op, "auto_pad", "NOTSET") not in ("NOTSET", "VALID")
    return "padded positions count as MACs" if padded else ""


def _notes(*notes: str) -> str:
    return "; ".join(note for note in notes if note)


@cost("Conv")
@cost("FusedConv", "NhwcConv", "NhwcFusedConv", domain=MS)
@cost("Conv", domain=NCHWC)
@cost("Conv", domain=NHWC)
def conv(op: Op) -> Cost:
    """2 * N * Cout * Hout * Wout * (Cin / group) * Kh * Kw; one add for a bias, one for a summand, the activation.

    Inputs X, W, B and, in ONNX Runtime's fused forms, the summand Z.
    """
    y, weights = out(op), need(op, 1)
    flops = 2 * _macs(y, weights)
    activation, activation_note = fused_activation(op)
    epilogue = Recipe(sum(given(op, index) is not None for index in (2, 3))).plus(activation).times(size(y))
    return work(
        op,
        epilogue,
        tensor=flops,
        read={0: touched_elements(op, _kernel(op, weights))},
        fast=_saved(op, weights, flops),
        bound="lower" if activation_note else "exact",
        note=_notes(
            _padding_note(op),
            "channels as padded to the block size of the layout" if op.domain == NCHWC else "",
            activation_note,
        ),
    )


@cost("ConvInteger")
def conv_integer(op: Op) -> Cost:
    """The MACs alone: zero points are folded into them."""
    weights = need(op, 1)
    touched = touched_elements(op, _kernel(op, weights))
    return work(op, tensor=2 * _macs(out(op), weights), read={0: touched}, note=_padding_note(op))


@cost("QLinearConv")
@cost("QLinearConv", domain=MS)
@cost("QLinearConv", domain=NHWC)
def qlinear_conv(op: Op) -> Cost:
    """The MACs, the bias, and each accumulator requantised; zero points are folded into the MACs."""
    y = out(op)
    bias = Recipe(1) if given(op, 8) is not None else NOTHING
    return work(
        op,
        tensor=2 * _macs(y, need(op, 3)),
        read={0: touched_elements(op, _kernel(op, need(op, 3)))},
        vector=bias.plus(requantize()).vector * size(y),
        note=_padding_note(op),
    )


@cost("ConvTranspose")
@cost("ConvTransposeWithDynamicPads", domain=MS)
@cost("ConvTranspose", domain=NHWC)
def conv_transpose(op: Op) -> Cost:
    """2 * N * Cin * Hin * Win * (Cout / group) * Kh * Kw: every input element meets the whole kernel.

    Products that fall into the cropped border are counted. Weights are [Cin, Cout/group, Kh, Kw].
    """
    bias = given(op, 3 if op.op_type == "ConvTransposeWithDynamicPads" else 2)
    flops = 2 * size(need(op, 0)) * math.prod(shape(need(op, 1))[1:])
    return work(
        op,
        tensor=flops,
        fast=_saved(op, need(op, 1), flops),
        vector=size(out(op)) if bias is not None else 0,
        note="counted by input positions",
    )


@cost("QLinearConvTranspose", domain=NHWC)
def qlinear_conv_transpose(op: Op) -> Cost:
    """As ConvTranspose, and each accumulator requantised. Inputs as those of QLinearConv."""
    bias = Recipe(1) if given(op, 8) is not None else NOTHING
    return work(
        op,
        tensor=2 * size(need(op, 0)) * math.prod(shape(need(op, 3))[1:]),
        vector=bias.plus(requantize()).vector * size(out(op)),
        note="counted by input positions",
    )


@cost("DeformConv")
def deform_conv(op: Op) -> Cost:
    """The MACs of the convolution, and for each sampled value 4 multiplies and 3 adds (bilinear), 1 for a mask.

    Inputs X, W, offset, B, mask. Every input channel is sampled at every kernel position of every output position.
    """
    x, y = shape(need(op, 0)), shape(out(op))
    samples = x[0] * x[1] * math.prod(y[2:]) * math.prod(shape(need(op, 1))[2:])
    vector = samples * (8 if given(op, 4) is not None else 7)
    if given(op, 3) is not None:
        vector += math.prod(y)
    return work(op, tensor=2 * _macs(out(op), need(op, 1)), vector=vector, note="interpolation weights not counted")


@cost("Col2Im")
def col2im(op: Op) -> Cost:
    """One add per column element; those that are the first at their pixel, or fall into padding, need none."""
    return work(op, vector=size(need(op, 0)), bound="upper", note="one add per column element, overlapping or not")


@cost("ReorderInput", "ReorderOutput", domain=NCHWC)
def reorder(op: Op) -> Cost:
    """Between NCHW and the blocked layout: moves everything, computes nothing."""
    return work(op, note="layout change; channels as padded to the block size of the layout")


@cost("WordConvEmbedding", domain=MS)
def word_conv_embedding(op: Op) -> Cost:
    """Characters of each word embedded and convolved, a bias and a tanh, and the maximum over the word.

    Words of the full length count; shorter ones end at a zero. Inputs Sequence [words, characters],
    W [filters, 1, window, channels], B, C [characters known, channels]. Source: ONNX Runtime,
    contrib_ops/cpu/word_conv_embedding.cc.
    """
    words, length = shape(need(op, 0))
    filters, _, window, channels = shape(need(op, 1))
    places = max(length - window + 1, 0)
    values = words * places * filters
    return work(
        op,
        Recipe(2, {"tanh": 1}).times(values),
        tensor=2 * values * window * channels,
        read={3: words * length * channels},
        bound="upper",
        note="words may be shorter than the longest",
    )
