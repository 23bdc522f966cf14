"""Attention in its standard and its fused forms, and rotary embeddings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from profiler.cost import Cost, MalformedOpError, cost
from profiler.cost._recipes import Recipe, softmax
from profiler.cost._shapes import MS, given, integer, made, need, number, out, shape, size, work
from profiler.records import Op, WorkBound


class _Core(NamedTuple):
    """softmax(Q K^T * scale + mask) V for every batch entry and head.

    2 * queries * keys * depth for Q K^T and 2 * queries * keys * value_depth for the weighted sum
    (FlashAttention counts the same); per score one multiply by the scale, ``masks`` adds, and with a
    soft cap a divide, a tanh and a multiply.
    """

    batch_heads: int
    queries: int
    keys: int
    depth: int
    value_depth: int
    masks: int

    def flops(self, op: Op) -> tuple[int, Recipe]:
        """Tensor FLOP, and the other arithmetic."""
        scores = self.batch_heads * self.queries * self.keys
        each = Recipe(1 + self.masks)
        if number(op, "softcap", 0.0) > 0:
            each = each.plus(Recipe(2, {"tanh": 1}))
        rows = softmax(self.batch_heads * self.queries, self.keys)
        return 2 * scores * (self.depth + self.value_depth), each.times(scores).plus(rows)


def _finish(op: Op, tensor: int, other: Recipe, why: str = "", read: Mapping[int, int] | None = None) -> Cost:
    note = f"all scores counted, though {why} may leave some out" if why else ""
    bound: WorkBound = "upper" if why else "exact"
    return work(op, other, tensor=tensor, read=read, bound=bound, note=note)


@cost("Attention", first=23)
def attention(op: Op) -> Cost:
    """Q K^T, softmax and the weighted sum over every query and key.

    Inputs Q, K, V, attn_mask, past_key, past_value, nonpad_kv_seqlen; [batch, heads, length, depth]
    or [batch, length, heads * depth].
    """
    q, k, v = (shape(need(op, index)) for index in range(3))
    if len(q) == 3:
        heads, kv_heads = integer(op, "q_num_heads", 0), integer(op, "kv_num_heads", 0)
        if heads <= 0 or kv_heads <= 0:
            raise MalformedOpError("Attention with inputs of rank 3 needs q_num_heads and kv_num_heads")
        q = (q[0], heads, q[1], q[2] // heads)
        k, v = ((t[0], kv_heads, t[1], t[2] // kv_heads) for t in (k, v))
    past = given(op, 4)
    keys = k[2] + (shape(past)[2] if past is not None else 0)
    mask = int(given(op, 3) is not None)
    tensor, other = _Core(q[0] * q[1], q[2], keys, q[3], v[3], mask).flops(op)
    reasons = ["the causal mask"] * bool(integer(op, "is_causal", 0)) + ["padding"] * (given(op, 6) is not None)
    return _finish(op, tensor, other, " and ".join(reasons))


@cost("Attention", "QAttention", domain=MS)
def packed_attention(op: Op) -> Cost:
    """The projection of the input to Q, K and V with its bias, then attention.

    Inputs of Attention: input [batch, length, channels], weights [channels, q + k + v], bias,
    mask_index, past [2, batch, heads, length, depth], attention_bias, ... QAttention: input,
    weight, bias, input_scale, weight_scale, mask_index, input_zero_point, weight_zero_point, past;
    each projected value is converted and scaled.
    """
    quantized = op.op_type == "QAttention"
    mask_at, past_at = (5, 8) if quantized else (3, 4)
    batch, length, channels = shape(need(op, 0))
    projected = shape(need(op, 1))[1]
    value_hidden = shape(out(op))[2]
    heads = integer(op, "num_heads", 0)
    if heads <= 0:
        raise MalformedOpError(f"{op.op_type} needs num_heads")
    past = given(op, past_at)
    keys = length + (shape(past)[3] if past is not None else 0)
    mask = int(given(op, mask_at) is not None) + int(not quantized and given(op, 5) is not None)
    depth = (projected - value_hidden) // 2 // heads
    tensor, other = _Core(batch * heads, length, keys, depth, value_hidden // heads, mask).flops(op)
    values = batch * length * projected
    epilogue = int(given(op, 2) is not None) + (2 if quantized else 0)
    reason = "the causal mask" if integer(op, "unidirectional", 0) else ""
    return _finish(op, tensor + 2 * values * channels, other.plus(Recipe(epilogue * values)), reason)


@cost("MultiHeadAttention", domain=MS)
def multi_head_attention(op: Op) -> Cost:
    """Attention of queries and keys that are projected already; one add per element for the bias.

    Inputs query, key, value, bias, key_padding_mask, attention_bias, past_key, past_value, ...:
    query [batch, length, hidden] or packed with key and value [batch, length, heads, 3, depth]; key
    [batch, length, hidden], packed [batch, length, heads, 2, depth], or [batch, heads, length, depth].
    """
    query = shape(need(op, 0))
    heads = integer(op, "num_heads", 0)
    if heads <= 0:
        raise MalformedOpError("MultiHeadAttention needs num_heads")
    batch, length = query[:2]
    depth = query[4] if len(query) == 5 else query[2] // heads
    key = given(op, 1)
    if key is None:
        new = length
    else:
        dims = shape(key)
        new = dims[2] if len(dims) == 4 else dims[1]
    past = given(op, 6)
    keys = new + (shape(past)[2] if past is not None else 0)
    masks = sum(given(op, index) is not None for index in (4, 5))
    tensor, other = _Core(batch * heads, length, keys, depth, shape(out(op))[2] // heads, masks).flops(op)
    if given(op, 3) is not None:
        biased = [tensor_ for tensor_ in op.inputs[:3] if tensor_ is not None]
        other = other.plus(Recipe(sum(size(tensor_) for tensor_ in biased)))
    return _finish(op, tensor, other, "the causal mask" if integer(op, "unidirectional", 0) else "")


@cost("GroupQueryAttention", domain=MS)
def group_query_attention(op: Op) -> Cost:
    """Causal attention with fewer key heads than query heads, and rotary embeddings where asked for.

    Inputs query [batch, length, heads * depth] or packed with key and value, key, value, past_key,
    past_value, seqlens_k, total_sequence_length, cos_cache, sin_cache, position_ids,
    attention_bias, ... Keys are as many as the present key has room for.
    """
    batch, length, width = shape(need(op, 0))
    heads, kv_heads = integer(op, "num_heads", 0), integer(op, "kv_num_heads", 0)
    if heads <= 0 or kv_heads <= 0:
        raise MalformedOpError("GroupQueryAttention needs num_heads and kv_num_heads")
    depth = width // (heads + 2 * kv_heads if given(op, 1) is None else heads)
    present, past = made(op, 1), given(op, 3)
    room = length + (shape(past)[2] if past is not None else 0)
    keys = room if present is None else shape(present)[2]
    tensor, other = _Core(batch * heads, length, keys, depth, depth, int(given(op, 10) is not None)).flops(op)
    read = {}
    if integer(op, "do_rotary", 0):
        pairs = shape(need(op, 7))[-1]
        other = other.plus(Recipe(3 * batch * length * (heads + kv_heads) * 2 * pairs))
        read = dict.fromkeys((7, 8), batch * length * pairs)
    return _finish(op, tensor, other, "the causal mask and unused room for keys", read)


def _rotary(op: Op, caches: tuple[int, int]) -> Cost:
    """Four multiplies and two adds per rotated pair; the caches hold a value per pair.

    Input 0 is [batch, heads, length, depth], or [batch, length, hidden] with ``num_heads``. Without
    position_ids the caches are read in full; with them, a row per token.
    """
    x = shape(need(op, 0))
    cos = shape(need(op, caches[0]))
    pairs = cos[-1]
    heads = integer(op, "num_heads", 0)
    if len(x) == 4:
        depth = x[3]
    else:
        rotary = integer(op, "rotary_embedding_dim", 0)
        depth = x[2] // heads if heads > 0 else (rotary or 2 * pairs)
    rotated = math.prod(x) // depth * min(2 * pairs, depth) if depth else 0
    tokens = x[0] * (x[2] if len(x) == 4 else x[1])
    read = dict.fromkeys(caches, tokens * pairs)
    partial = len(cos) == 2 and tokens * pairs < math.prod(cos)
    return work(
        op,
        vector=3 * rotated,
        read=read,
        bound="upper" if partial and tokens > 1 else "exact",
        note="positions may repeat" if partial and tokens > 1 else "",
    )


@cost("RotaryEmbedding")
def rotary_embedding(op: Op) -> Cost:
    """Inputs X, cos_cache, sin_cache, position_ids."""
    return _rotary(op, (1, 2))


@cost("RotaryEmbedding", domain=MS)
def rotary_embedding_ms(op: Op) -> Cost:
    """Inputs input, position_ids, cos_cache, sin_cache."""
    return _rotary(op, (2, 3))
