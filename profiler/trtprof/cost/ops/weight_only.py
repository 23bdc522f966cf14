"""Matrix products with weights that are stored in few bits and unpacked to multiply."""

from __future__ import annotations

from trtprof.base.records import Op
from trtprof.cost import Cost, cost
from trtprof.cost._recipes import NOTHING, Recipe, fused_activation, normalize
from trtprof.cost._shapes import MS, constant, given, integer, need, out, shape, size, work

_NOTE = "each packed weight unpacked once"


@cost("MatMulNBits", domain=MS)
def matmul_nbits(op: Op) -> Cost:
    """2 * rows * N * K on packed weights, each of which is converted, shifted and scaled once.

    Attributes K and N are the shape of the unpacked weights. Inputs A, B, scales, zero_points, g_idx, bias.
    """
    k, n, y = integer(op, "K", shape(need(op, 0))[-1]), integer(op, "N", shape(out(op))[-1]), size(out(op))
    return work(op, tensor=2 * y * k, vector=3 * n * k + (y if given(op, 5) is not None else 0), note=_NOTE)


@cost("MatMulBnb4", domain=MS)
def matmul_bnb4(op: Op) -> Cost:
    """The same with weights of FP4 or NF4, each of which is converted and scaled; K and N changed without transB."""
    k, n = integer(op, "K", 0), integer(op, "N", 0)
    inner = k if integer(op, "transB", 1) else n
    return work(op, tensor=2 * size(out(op)) * inner, vector=2 * n * k, note=_NOTE)


@cost("MatMulFpQ4", domain=MS)
def matmul_fp_q4(op: Op) -> Cost:
    """The same with weights in a blob: converted, shifted (by 8 where there is no offset) and scaled.

    Inputs A, B, B_shape [K, N].
    """
    k, n = constant(op, 2) or (shape(need(op, 0))[-1], shape(out(op))[-1])
    return work(op, tensor=2 * size(out(op)) * k, vector=3 * k * n, note=_NOTE)


@cost("MatMulBlockQuantizedFp4Weight", domain=MS)
def matmul_fp4_weight(op: Op) -> Cost:
    """2 * rows * N * K; each weight of B [N, K / 2] converted and scaled twice, by its block and by the whole.

    Inputs A, B, weight_scale, weight_scale_2, input_scale, which does nothing, bias. A block's scale is
    converted once.
    """
    weights = 2 * size(need(op, 1))
    y = size(out(op))
    bias = y if given(op, 5) is not None else 0
    return work(
        op,
        tensor=2 * y * 2 * shape(need(op, 1))[1],
        vector=3 * weights + size(need(op, 2)) + bias,
        read={4: 0},
        note=_NOTE,
    )


@cost("MatMulBlockQuantizedFp8Weight", domain=MS)
def matmul_fp8_weight(op: Op) -> Cost:
    """2 * rows * N * K; each weight of B [N, K] converted and scaled; with a_scale, A divided, converted and scaled.

    Inputs A, B, b_scale, a_scale, bias.
    """
    y = size(out(op))
    activations = 3 * size(need(op, 0)) if given(op, 3) is not None else 0
    bias = y if given(op, 4) is not None else 0
    return work(op, tensor=2 * y * shape(need(op, 1))[1], vector=2 * size(need(op, 1)) + activations + bias, note=_NOTE)


def _normed(op: Op, rows: int, k: int) -> Recipe:
    """The sum with ``skip`` (input 1), and RMS normalisation where there is a scale (input 2)."""
    added = Recipe(rows * k if given(op, 1) is not None else 0)
    if given(op, 2) is None:
        return added
    return added.plus(normalize(rows, k, centered=False)).plus(Recipe(rows * k))


@cost("MatMulNBitsMlp", domain=MS)
def matmul_nbits_mlp(op: Op) -> Cost:
    """activation(A * gate) * (A * up), both as MatMulNBits, of an input that is normalised first where asked for.

    Inputs A, skip, norm_scale, gate_B, gate_scales, gate_bias, up_B, up_scales, up_bias.
    """
    k, n, y = integer(op, "K", 0), integer(op, "N", 0), size(out(op))
    activation, note = fused_activation(op)
    biases = sum(given(op, index) is not None for index in (5, 8))
    return work(
        op,
        _normed(op, y // n if n else 0, k).plus(activation.plus(Recipe(1 + biases)).times(y)),
        tensor=2 * 2 * y * k,
        vector=2 * 3 * n * k,
        bound="lower" if note else "exact",
        note="; ".join(filter(None, (_NOTE, note))),
    )


@cost("MatMulNBitsQkv", domain=MS)
def matmul_nbits_qkv(op: Op) -> Cost:
    """Queries, keys and values as three MatMulNBits of an input that is normalised first.

    Inputs A, skip, norm_scale, then weights, scales and bias of each.
    """
    k = integer(op, "K", 0)
    widths = [integer(op, "Nq", 0), *2 * [integer(op, "Nkv", 0)]]
    rows = size(need(op, 0)) // k if k else 0
    biases = sum(rows * width for index, width in zip((5, 8, 11), widths, strict=True) if given(op, index) is not None)
    return work(
        op,
        _normed(op, rows, k) if k else NOTHING,
        tensor=2 * rows * k * sum(widths),
        vector=3 * k * sum(widths) + biases,
        note=_NOTE,
    )
