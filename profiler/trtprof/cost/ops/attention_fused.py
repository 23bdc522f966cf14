"""Attention as ONNX Runtime fuses it: with its projections, its cache, packed without padding, quantised."""

from __future__ import annotations

from itertools import product

from trtprof.base.records import Core, Op
from trtprof.cost import Cost, cost
from trtprof.cost._attention import (
    Cache,
    Grouped,
    Scores,
    attention_core,
    cache,
    finish,
    heads_of,
    rotation,
    seen_pairs,
    single,
)
from trtprof.cost._core import most_of
from trtprof.cost._recipes import ACTIVATIONS, NOTHING, Recipe, quantize, requantize
from trtprof.cost._shapes import MS, given, integer, need, out, shape, size, work

_PADDING, _ROOM = "padding", "unused room for keys"


def _reasons(kept: Cache) -> list[str]:
    return [_ROOM] * (not kept.exact)


def _pairs(op: Op, queries: int, keys: int) -> int:
    """Pairs of a query and a key of one head: the last query sees all keys."""
    causal = bool(integer(op, "unidirectional", 0))
    return seen_pairs(queries, keys, before=keys - queries, right=0 if causal else -1)


@cost("Attention", "QAttention", "DecoderMaskedSelfAttention", domain=MS)
def packed_attention(op: Op) -> Cost:
    """The projection of the input to Q, K and V with its bias, then attention.

    Inputs: input [batch, length, channels], weights [channels, q + k + v], bias, mask_index,
    past [2, batch, heads, length, depth], attention_bias, past_sequence_length, ... QAttention: input,
    weight, bias, input_scale, weight_scale, mask_index, input_zero_point, weight_zero_point, past;
    each projected value is converted and scaled. Of rotary embeddings the sines and cosines, which
    depend on the position alone, are not counted.
    """
    quantized = op.op_type == "QAttention"
    mask_at, past_at = (5, 8) if quantized else (3, 4)
    batch, length, channels = shape(need(op, 0))
    projected = shape(need(op, 1))[1]
    value_hidden = shape(out(op))[2]
    heads = heads_of(op)
    kept = cache(
        op,
        (past_at,),
        (1,),
        length,
        axis=3,
        share=bool(integer(op, "past_present_share_buffer", 0)),
        before=None if quantized else single(op, 6),
    )
    mask = int(given(op, mask_at) is not None) + int(not quantized and given(op, 5) is not None)
    hidden = (projected - value_hidden) // 2
    rows = batch * heads * length
    each = _pairs(op, length, kept.keys)
    tensor, other = Scores(batch * heads * each, rows, hidden // heads, value_hidden // heads, mask).flops(op)
    scores = attention_core(batch * heads, length, kept.keys, hidden // heads, value_hidden // heads, each)
    values = batch * length * projected
    other = other.plus(Recipe((int(given(op, 2) is not None) + (2 if quantized else 0)) * values))
    if integer(op, "do_rotary", 0):
        depth = hidden // heads
        rotated = min(integer(op, "rotary_embedding_dim", 0) or depth, depth)
        other = other.plus(rotation(2 * rows * rotated))
    projections = 2 * values * channels
    core = most_of((scores, tensor), (Core(kind="product", m=batch * length, n=projected, k=channels), projections))
    return finish(op, tensor, other, _reasons(kept), kept.read, kept.write, projections=projections, core=core)


@cost("QOrderedAttention", domain=MS)
def qordered_attention(op: Op) -> Cost:
    """As QAttention with Q, K and V projected apart, and every product requantised to 8 bits.

    A projected value takes its bias and a requantisation, a score a convert and a multiply, a
    probability a quantisation where it has a scale, an output a requantisation. Inputs input, its
    scale, three scales, weights (5 to 7), their scales, biases (11 to 13), scale_QKT_gemm,
    scale_QKT_softmax, scale_values_gemm, mask_index, past, attention_bias.
    """
    batch, length, channels = shape(need(op, 0))
    widths = [shape(need(op, index))[1] for index in (5, 6, 7)]
    heads = heads_of(op)
    rows = batch * heads * length
    count = batch * heads * _pairs(op, length, length)
    masks = sum(given(op, index) is not None for index in (17, 19))
    tensor, other = Scores(count, rows, widths[0] // heads, widths[2] // heads, masks).flops(op)
    values = batch * length * sum(widths)
    requantized = requantize(zero_point=False)
    other = other.plus(requantized.plus(Recipe(1)).times(values)).plus(Recipe(count))
    other = other.plus(requantized.times(size(out(op))))
    if given(op, 15) is not None:
        other = other.plus(quantize(zero_point=False).times(count))
    return finish(op, tensor, other, [], projections=2 * values * channels)


@cost("DecoderAttention", domain=MS)
def decoder_attention(op: Op) -> Cost:
    """The projections that are needed, then attention; flags that are inputs say which those are.

    Inputs query [length, batch, hidden], key [total, batch, hidden], q_weight, kv_weight, bias,
    key_padding_mask, key_cache [batch, heads, cached, depth], value_cache, and the flags static_kv,
    use_past, has_layer_state, has_key_padding_mask. Self-attention projects keys and values from the
    query and appends them to the cache; cross-attention projects them from the key, or has all of
    them in the cache. Flags that are not constants are taken as what costs most.
    """
    length, batch, hidden = shape(need(op, 0))
    total = shape(need(op, 1))[0]
    stored = given(op, 6)
    cached = shape(stored)[2] if stored is not None else 0
    heads = heads_of(op)
    biased = int(given(op, 4) is not None)
    flags = [_flag(op, index) for index in (8, 9, 10, 11)]
    costs = []
    for static, use, state, masked in product(*flags):
        kept = use and state and stored is not None
        fresh = 0 if static and kept else total if static else length
        keys = (cached if kept else 0) + fresh
        mask = int(masked and given(op, 5) is not None)
        rows = batch * heads * length
        tensor, other = Scores(rows * keys, rows, hidden // heads, hidden // heads, mask).flops(op)
        values = batch * (length + 2 * fresh) * hidden
        unread = {1: not (static and fresh), 3: not fresh, 5: not mask, 6: not kept, 7: not kept}
        costs.append(
            work(
                op,
                other.plus(Recipe(biased * values)),
                tensor=tensor + 2 * values * hidden,
                read={index: 0 for index, skipped in unread.items() if skipped},
            )
        )
    if len(costs) == 1:
        return costs[0]
    most = max(costs, key=lambda each: each.tensor_flops)
    return most._replace(
        reads=work(op).reads, bound="upper", note="flags are not constants: counted as what costs most"
    )


def _flag(op: Op, index: int) -> tuple[bool, ...]:
    value = single(op, index)
    return (False, True) if value is None else (bool(value),)


@cost("MultiHeadAttention", "DecoderMaskedMultiHeadAttention", domain=MS)
def multi_head_attention(op: Op) -> Cost:
    """Attention of queries and keys that are projected already; one add per element for the bias.

    Query [batch, length, hidden] or packed with key and value, [batch, length, heads, 3, depth] or,
    for a decoder, [batch, 1, 3 * hidden]; key [batch, length, hidden], packed with the value
    [batch, length, heads, 2, depth], or kept from the encoder [batch, heads, length, depth], which
    takes no bias. Inputs of MultiHeadAttention: query, key, value, bias, key_padding_mask,
    attention_bias, past_key, past_value, past_sequence_length; of the decoder's: query, key, value,
    mask_index, attention_bias, past_key, past_value, past_sequence_length, ..., bias (10).
    """
    decoder = op.op_type == "DecoderMaskedMultiHeadAttention"
    bias_at, masks_at, past_at = (10, (3, 4), 5) if decoder else (3, (4, 5), 6)
    query = shape(need(op, 0))
    heads = heads_of(op)
    batch, length = query[:2]
    value_depth = shape(out(op))[2] // heads
    key = given(op, 1)
    encoded = key is not None and len(shape(key)) == 4
    if len(query) == 5:
        depth = query[4]
    elif key is None:
        depth = (query[2] // heads - value_depth) // 2
    else:
        depth = query[2] // heads
    if key is None:
        new = length
    else:
        dims = shape(key)
        new = dims[2] if encoded else dims[1]
    kept = cache(
        op,
        (past_at, past_at + 1),
        (1, 2),
        new,
        share=bool(integer(op, "past_present_share_buffer", 0)),
        before=single(op, past_at + 2),
    )
    masks = sum(given(op, index) is not None for index in masks_at)
    rows = batch * heads * length
    each = _pairs(op, length, kept.keys)
    tensor, other = Scores(batch * heads * each, rows, depth, value_depth, masks).flops(op)
    read = kept.read
    if given(op, bias_at) is not None:
        biased = [tensor_ for tensor_ in op.inputs[: 1 if encoded else 3] if tensor_ is not None]
        other = other.plus(Recipe(sum(map(size, biased))))
        if encoded:
            read = read | {bias_at: query[-1]}
    core = attention_core(batch * heads, length, kept.keys, depth, value_depth, each)
    return finish(op, tensor, other, _reasons(kept), read, kept.write, core=core)


@cost("GroupQueryAttention", domain=MS)
def group_query_attention(op: Op) -> Cost:
    """Attention with fewer key heads than query heads, and all that ONNX Runtime fuses into it.

    Rotary embeddings, RMS normalisation of queries and keys, a sink, and the conversions of a
    quantised cache. Inputs query [batch, length, heads * depth] or packed with key and value, key,
    value, past_key [batch, kv_heads, past, depth], past_value, seqlens_k, total_sequence_length,
    cos_cache, sin_cache, position_ids, attention_bias, head_sink, k_scale, v_scale, q_norm_weight,
    k_norm_weight. A query sees ``local_window_size`` keys at most. Where the past has the length of
    the present they are one buffer, whose room is taken as full unless the total length is a constant.
    """
    batch, length = shape(need(op, 0))[:2]
    g = Grouped.of(op)
    window = max(integer(op, "local_window_size", -1), 0)
    total = single(op, 6)
    before = None if total is None else max(total - length, 0)
    kept = cache(op, (3, 4), (1, 2), length, before=before, window=window)
    seen = min(kept.keys, window) if window else kept.keys
    rows = batch * g.heads * length
    sink = given(op, 11) is not None or bool(integer(op, "smooth_softmax", 0))
    masks = int(given(op, 10) is not None)
    causal = bool(integer(op, "causal", 1))
    each = seen_pairs(length, kept.keys, before=kept.keys - length, left=window - 1, right=0 if causal else -1)
    tensor, other = Scores(batch * g.heads * each, rows, g.depth, g.depth, masks, sink).flops(op)
    first, read = g.before_scores(op, rotary=7, norms=14)
    other = other.plus(first).plus(g.conversions(op, batch * max(seen - length, 0), scales=12))
    reasons = [_PADDING] * (batch * length > 1) + [_ROOM] * (not kept.exact)
    core = attention_core(batch * g.heads, length, kept.keys, g.depth, g.depth, each, g.heads // g.kv_heads)
    return finish(op, tensor, other, reasons, read | kept.read, kept.write, core=core)


def _packed_scores(tokens: int, batch: int, longest: int) -> tuple[int, bool]:
    """Most pairs of tokens of one sequence, of ``tokens`` in ``batch`` sequences; whether there are so many.

    The sum of the squared lengths is greatest when as many sequences as possible are the longest.
    """
    full, rest = divmod(tokens, longest) if longest else (0, 0)
    return full * longest**2 + rest**2, batch <= 1 or tokens == batch * longest


def _packed_finish(op: Op, scores: Scores, exact: bool, tensor: int = 0, other: Recipe = NOTHING) -> Cost:
    products, rest = scores.flops(op)
    return work(
        op,
        rest.plus(other),
        tensor=products + tensor,
        bound="exact" if exact else "upper",
        note="" if exact else "lengths are data: as many sequences as possible counted as the longest",
    )


@cost("PackedAttention", domain=MS)
def packed_attention_without_padding(op: Op) -> Cost:
    """As Attention over tokens of sequences without padding between them.

    Inputs input [tokens, channels], weights [channels, q + k + v], bias, token_offset [batch, length],
    cumulative_sequence_length, attention_bias.
    """
    tokens, channels = shape(need(op, 0))
    projected = shape(need(op, 1))[1]
    value_hidden = shape(out(op))[1]
    heads = heads_of(op)
    pairs, exact = _packed_scores(tokens, *shape(need(op, 3)))
    depth = (projected - value_hidden) // 2 // heads
    scores = Scores(heads * pairs, heads * tokens, depth, value_hidden // heads, int(given(op, 5) is not None))
    values = tokens * projected
    bias = Recipe(values if given(op, 2) is not None else 0)
    return _packed_finish(op, scores, exact, 2 * values * channels, bias)


@cost("PackedMultiHeadAttention", domain=MS)
def packed_multi_head_attention(op: Op) -> Cost:
    """As MultiHeadAttention over tokens of sequences without padding between them.

    Inputs query [tokens, hidden] or packed [tokens, heads, 3, depth], key, value, bias, token_offset
    [batch, length], cumulative_sequence_length, attention_bias.
    """
    query = shape(need(op, 0))
    heads = heads_of(op)
    depth = query[3] if len(query) == 4 else query[1] // heads
    pairs, exact = _packed_scores(query[0], *shape(need(op, 4)))
    value_depth = shape(out(op))[1] // heads
    masks = int(given(op, 6) is not None)
    scores = Scores(heads * pairs, heads * query[0], depth, value_depth, masks)
    biased = sum(size(tensor) for tensor in op.inputs[:3] if tensor is not None)
    return _packed_finish(op, scores, exact, other=Recipe(biased if given(op, 3) is not None else 0))


@cost("GatedRelativePositionBias", domain=MS)
def gated_relative_position_bias(op: Op) -> Cost:
    """Relative positions times a gate a query and head, from a linear layer of the query.

    gate_u * (gate_r * eco_a - 1) + 2 of two sigmoids, each of the sum of half the D outputs of the
    layer. Inputs query_layer [..., heads * depth], query_bias, rel_pos [1, heads, length, length],
    weight [depth, D], bias, eco_a, token_offset.
    """
    batch, heads, length, _ = shape(out(op))
    depth, width = shape(need(op, 3))
    rows = batch * heads * length
    gates = Recipe(width + max(width - 2, 0)).plus(ACTIVATIONS["sigmoid"].times(2)).plus(Recipe(4))
    return work(op, gates.times(rows), tensor=2 * rows * depth * width, vector=size(need(op, 0)) + size(out(op)))
