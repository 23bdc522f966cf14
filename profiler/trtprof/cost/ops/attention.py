"""Attention in its standard form, and rotary embeddings."""

from __future__ import annotations

import math

from trtprof.base.records import Op
from trtprof.cost import Cost, MalformedOpError, cost
from trtprof.cost._attention import Scores, attention_core, finish, rotation, seen_pairs
from trtprof.cost._recipes import Recipe
from trtprof.cost._shapes import MS, given, integer, need, shape, size, work


@cost("Attention", first=23)
def attention(op: Op) -> Cost:
    """Q K^T, softmax and the weighted sum over every query and each key that mask and window let it see.

    Under a causal mask that is half of the square and half of its diagonal. Inputs Q, K, V, attn_mask, past_key,
    past_value, nonpad_kv_seqlen; [batch, heads, length, depth] or [batch, length, heads * depth].
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
    rows = q[0] * q[1] * q[2]
    causal = bool(integer(op, "is_causal", 0))
    left, right = integer(op, "left_window_size", -1), 0 if causal else integer(op, "right_window_size", -1)
    pairs = seen_pairs(q[2], keys, before=keys - k[2], left=left, right=right)
    tensor, other = Scores(q[0] * q[1] * pairs, rows, q[3], v[3], mask).flops(op)
    core = attention_core(q[0] * q[1], q[2], keys, q[3], v[3], pairs, q[1] // k[1] if k[1] else 1)
    return finish(op, tensor, other, ["padding"] * (given(op, 6) is not None), core=core)


@cost("FlexAttention", domain="ai.onnx.preview")
def flex_attention(op: Op) -> Cost:
    """Attention of rank 4 whose scores and probabilities may be modified by graphs, which are nodes of their own.

    Inputs Q, K, V [batch, heads, length, depth].
    """
    q, k, v = (shape(need(op, index)) for index in range(3))
    rows = math.prod(q[:3])
    tensor, other = Scores(rows * k[2], rows, q[3], v[3]).flops(op)
    core = attention_core(q[0] * q[1], q[2], k[2], q[3], v[3], q[2] * k[2], q[1] // k[1] if k[1] else 1)
    return work(op, other, tensor=tensor, core=core, note="score_mod and prob_mod, if any, are nodes of their own")


def _rotary(op: Op, caches: tuple[int, int], positions: int | None = None) -> Cost:
    """Four multiplies and two adds per rotated pair; the caches hold a value per pair.

    Input 0 is [batch, heads, length, depth], or [batch, length, hidden] with ``num_heads``. Without
    position_ids the caches are read in full; with them, a row per token.

    Args:
        op: The op.
        caches: Positions of cos and sin.
        positions: Position of ids that may be a single offset for all sequences.
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
    length = x[2] if len(x) == 4 else x[1]
    offset = positions is not None and size(need(op, positions)) == 1
    tokens = length if offset else x[0] * length
    partial = not offset and len(cos) == 2 and tokens * pairs < math.prod(cos)
    return work(
        op,
        vector=rotation(rotated).vector,
        read=dict.fromkeys(caches, tokens * pairs),
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
    return _rotary(op, (2, 3), positions=1)


@cost("MRotaryEmbedding", domain=MS)
def multimodal_rotary_embedding(op: Op) -> Cost:
    """As RotaryEmbedding: each pair takes its angle from the row of one of three positions of its token.

    Inputs input, position_ids [3, batch, length], cos_cache, sin_cache.
    """
    return _rotary(op, (2, 3))


@cost("GemmaRotaryEmbedding", domain=MS)
def gemma_rotary_embedding(op: Op) -> Cost:
    """Sine and cosine of each angle and their convert; two multiplies and an add per element of q and of k.

    Inputs emb [batch, length, depth], q, q_rot, k, k_rot [batch, heads, length, depth].
    """
    angles, q = need(op, 0), need(op, 1)
    converts = 2 * size(angles) if angles.dtype != q.dtype else 0
    turned = 3 * (size(q) + size(need(op, 3)))
    return work(op, Recipe(converts + turned, {"sin": size(angles), "cos": size(angles)}))
