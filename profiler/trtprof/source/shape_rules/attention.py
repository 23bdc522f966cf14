"""Attention of com.microsoft in all its forms, with what it keeps from call to call."""

from __future__ import annotations

from collections.abc import Sequence

from trtprof.base.records import Dim, Op, Tensor
from trtprof.source.shape_rules import rule
from trtprof.source.shape_rules._dims import *


def _optional(op: Op, index: int) -> Shape | None:
    return None if given(op, index) is None else shape(op, index)


@rule("Attention", "QAttention", "DecoderMaskedSelfAttention", domain=MS)
def attention(op: Op) -> Sequence[Tensor | None]:
    """Input [batch, length, channels], weights [channels, q + k + v] in one; ``past`` at 4, or 8 when quantised."""
    quantized = op.op_type == "QAttention"
    past_at, kind = (8, dtype(op, 3)) if quantized else (4, dtype(op))
    batch, length, _ = dims(op, 0, 3)
    sizes = integers(op, "qkv_hidden_sizes")
    third = over(dims(op, 1, 2)[1], 3)
    hidden, value_hidden = (sizes[0], sizes[2]) if sizes else (third, third)
    heads = required(op, "num_heads")
    if given(op, past_at) is None:
        present: Shape = (2, batch, heads, length, over(hidden, heads))
    else:
        present = dims(op, past_at, 5)
        if not integer(op, "past_present_share_buffer", 0):
            present = replaced(present, 3, plus(present[3], length))
    return [made(kind, (batch, length, value_hidden)), made(kind, present)]


@rule("QOrderedAttention", domain=MS)
def qordered_attention(op: Op) -> Sequence[Tensor | None]:
    """Input [batch, length, channels], and the weights of the values at 7."""
    batch, length, _ = dims(op, 0, 3)
    return [made(dtype(op), (batch, length, dims(op, 7, 2)[1]))]


@rule("MultiHeadAttention", "DecoderMaskedMultiHeadAttention", domain=MS)
def multi_head_attention(op: Op) -> Sequence[Tensor | None]:
    """Queries, keys and values [batch, length, hidden], or packed, or kept from an encoder.

    The cache is [batch, heads, keys, depth]; scores are [batch, heads, queries, keys], in a dtype of their own.
    """
    decoder = op.op_type == "DecoderMaskedMultiHeadAttention"
    past_at = 5 if decoder else 6
    heads = required(op, "num_heads")
    query = shape(op)
    if query is None:
        cache = made(dtype(op), ("?", heads, "?", "?"))
        return [made(dtype(op), ("?", "?", "?")), cache, cache, made("unknown", ("?", heads, "?", "?"))]
    batch, length = query[:2]
    key, value = _optional(op, 1), _optional(op, 2)
    hidden = times(heads, query[4]) if len(query) == 5 else query[2] if given(op, 1) is not None else over(query[2], 3)
    keys: Dim = "?"
    value_hidden: Dim = "?"
    if given(op, 1) is None:
        keys, value_hidden = length, hidden
    elif key is not None:
        keys = key[2] if len(key) == 4 else key[1]
        if given(op, 2) is None:
            value_hidden = hidden
    if value is not None:
        value_hidden = times(heads, value[3]) if len(value) == 4 else value[2]
    depths = over(hidden, heads), over(value_hidden, heads)
    shared = bool(integer(op, "past_present_share_buffer", 0)) if decoder else given(op, 8) is not None
    present: list[Shape] = []
    total = keys
    for offset, depth in enumerate(depths):
        if given(op, past_at + offset) is None:
            present.append((batch, heads, keys, depth))
        else:
            past = dims(op, past_at + offset, 4)
            present.append(past if shared else replaced(past, 2, plus(past[2], keys)))
    if given(op, past_at) is not None:
        before = single(op, past_at + 2)
        total = plus(keys, "?" if before is None else before) if shared else present[0][2]
    kind = dtype(op)
    return [
        made(kind, (batch, length, value_hidden)),
        *(made(kind, each) for each in present),
        made("unknown", (batch, heads, length, total)),
    ]


def _queries(op: Op, batched: int, *, width: Dim | None = None) -> tuple[Shape, Dim]:
    query = dims(op, 0, batched + 1)
    heads = required(op, "num_heads")
    packed = given(op, 1) is None
    depth = over(query[-1], heads + 2 * required(op, "kv_num_heads") if packed else heads)
    return (*query[:-1], times(heads, depth if width is None else width)), depth


def _grown(op: Op, past_at: int, new: Dim, total: int | None, depth: Dim) -> Shape:
    """Keys or values [batch, kv_heads, keys, depth] after a call that may have room for them already."""
    if given(op, past_at) is None:
        return dims(op, 0, 3)[0], required(op, "kv_num_heads"), new if total is None else total, depth
    past = dims(op, past_at, 4)
    if integer(op, "sliding_window_cache", 0):
        return past
    # Past and present are one buffer where it is long enough for all keys, whose number is a value.
    return replaced(past, 2, "?" if total is None else most(past[2], total))


@rule("GroupQueryAttention", domain=MS)
def group_query_attention(op: Op) -> Sequence[Tensor | None]:
    """query, key, value, past_key, past_value, seqlens_k, total_sequence_length, ..."""
    output, depth = _queries(op, 2)
    batch, length, _ = output
    total = single(op, 6)
    caches = [
        made(dtype(op) if given(op, at) is None else dtype(op, at), _grown(op, at, length, total, depth))
        for at in (3, 4)
    ]
    keys: Dim = total if total is not None else length if given(op, 3) is None else "?"
    return [made(dtype(op), output), *caches, made(dtype(op), (batch, required(op, "num_heads"), length, keys))]


@rule("DynamicSparseAttention", domain=MS)
def dynamic_sparse_attention(op: Op) -> Sequence[Tensor | None]:
    """query, key, value, past_key, past_value, ..., total_sequence_length (10)."""
    output, depth = _queries(op, 2)
    total = single(op, 10)
    return [made(dtype(op), output), *(made(dtype(op), _grown(op, at, output[1], total, depth)) for at in (3, 4))]


@rule("SparseAttention", domain=MS)
def sparse_attention(op: Op) -> Sequence[Tensor | None]:
    """query, key, value, and buffers for keys and values, which are updated."""
    return [made(dtype(op), _queries(op, 2)[0]), like(op, 3), like(op, 4)]


@rule("PagedAttention", "SparsePagedAttention", domain=MS)
def paged_attention(op: Op) -> Sequence[Tensor | None]:
    """Query [tokens, hidden], key, value, and blocks of keys and values, which are updated."""
    latent = text(op, "kv_cache_layout", "SEPARATE") == "LATENT"
    output, _ = _queries(op, 1, width=integer(op, "v_head_size", 0) or None if latent else None)
    return [made(dtype(op), output), *(None if given(op, at) is None else like(op, at) for at in (3, 4))]


@rule("PackedAttention", domain=MS)
def packed_attention(op: Op) -> Sequence[Tensor | None]:
    """Input [tokens, channels], weights [channels, q + k + v]."""
    sizes = integers(op, "qkv_hidden_sizes")
    return [made(dtype(op), (dims(op, 0, 2)[0], sizes[2] if sizes else over(dims(op, 1, 2)[1], 3)))]


@rule("PackedMultiHeadAttention", domain=MS)
def packed_multi_head_attention(op: Op) -> Sequence[Tensor | None]:
    """Query [tokens, hidden] with keys and values, or all in one, [tokens, heads, 3, depth]."""
    if given(op, 2) is not None:
        value = dims(op, 2, 2)
        tokens = (shape(op) or ("?",))[0]
        return [made(dtype(op), (tokens, value[1]))]
    tokens, heads, _, depth = dims(op, 0, 4)
    return [made(dtype(op), (tokens, times(heads, depth)))]


@rule("DecoderAttention", domain=MS)
def decoder_attention(op: Op) -> Sequence[Tensor | None]:
    """Query [length, batch, hidden], key [total, batch, hidden], ..., caches (6, 7), static_kv, use_past (8, 9)."""
    length, batch, hidden = dims(op, 0, 3)
    static, use_past = single(op, 8), single(op, 9)
    keys: Dim = "?"
    if static is not None and use_past is not None:
        cached = dims(op, 6, 4)[2] if use_past else 0
        fresh = length if not static else 0 if use_past else dims(op, 1, 3)[0]
        keys = plus(cached, fresh)
    heads = required(op, "num_heads")
    cache = made(dtype(op), (batch, heads, keys, over(hidden, heads)))
    return [like(op), cache, cache]


@rule("RelativePositionBias", domain=MS)
def relative_position_bias(op: Op) -> Sequence[Tensor | None]:
    """bias_table [buckets, heads], and the numbers of queries and keys."""
    lengths: list[Dim] = ["?" if (length := single(op, at)) is None else length for at in (1, 2)]
    return [made(dtype(op), (1, dims(op, 0, 2)[1], *lengths))]


@rule("GatedRelativePositionBias", domain=MS)
def gated_relative_position_bias(op: Op) -> Sequence[Tensor | None]:
    """query_layer [batch, length, hidden], or [tokens, hidden] with token_offset [batch, length] at 6."""
    batch, length = dims(op, 0, 3)[:2] if given(op, 6) is None else dims(op, 6, 2)
    return [made(dtype(op), (batch, required(op, "num_heads"), length, length))]


@rule("RemovePadding", domain=MS)
def remove_padding(op: Op) -> Sequence[Tensor | None]:
    """Input [batch, length, hidden], and how many tokens of each sequence are none of padding."""
    batch, length, hidden = dims(op, 0, 3)
    lengths = values(op, 1)
    kept: Dim = "?" if lengths is None else sum(lengths)
    kind = dtype(op, 1)
    return [
        made(dtype(op), (kept, hidden)),
        made(kind, (batch, length)),
        made(kind, (plus(batch, 1),)),
        made(kind, (1,)),
    ]


@rule("RestorePadding", domain=MS)
def restore_padding(op: Op) -> Sequence[Tensor | None]:
    """Input [tokens, hidden], token_offset [batch, length]."""
    return [made(dtype(op), (*dims(op, 1, 2), dims(op, 0, 2)[1]))]


# --- indexers of sparse attention -------------------------------------------------------------


def _capacity(op: Op) -> int:
    if text(op, "policy_mode") == "csa":
        return required(op, "index_topk")
    return required(op, "token_budget") + required(op, "compress_ratio") - 1


@rule("SparseAttentionIndexer", domain=MS)
def sparse_attention_indexer(op: Op) -> Sequence[Tensor | None]:
    """query, key, ..., past_key (7), ..., past_sequence_length (12), past_proj_buffer [2, batch, waiting, width] (13).

    Of compressed entries, each ``compress_ratio`` tokens make one; those that wait, and the window before them, stay
    in the buffer. With past_sequence_length the past is a buffer with room for all.
    """
    batch, length, _ = dims(op, 0, 3)
    past = dims(op, 7, 3)
    ratio = required(op, "compress_ratio")
    added: Dim = length
    buffer: Tensor | None = None
    if text(op, "policy_mode") == "csa":
        waiting: Dim = 0 if given(op, 13) is None else dims(op, 13, 4)[2]
        left: Dim = "?"
        added = "?"
        if isinstance(waiting, int) and isinstance(length, int):
            before = ratio if waiting >= ratio else 0
            added, rest = divmod(waiting - before + length, ratio)
            left = rest + (ratio if before or added else 0)
        width = times(2, past[2]) if given(op, 13) is None else dims(op, 13, 4)[3]
        buffer = made(dtype(op), (2, batch, left, width))
    grown = past if given(op, 12) is not None else replaced(past, 1, plus(past[1], added))
    return [made("int32", (batch, length, _capacity(op))), made(dtype(op), grown), buffer]


@rule("PackedSparseAttentionIndexer", domain=MS)
def packed_sparse_attention_indexer(op: Op) -> Sequence[Tensor | None]:
    """Query [tokens, width], ..., past_sequence_lengths (7), and states (12 to 15), which keep their shapes."""
    tokens, _ = dims(op, 0, 2)
    captured = dims(op, 7, 1)[0], integer(op, "state_update_capacity", 0), dims(op, 2, 1)[0]
    return [
        made("int32", (tokens, _capacity(op))),
        made("int32", (tokens,)),
        *(None if given(op, at) is None else like(op, at) for at in (12, 13, 14, 15)),
        made(dtype(op), captured),
    ]


# --- recurrent and convolutional states -------------------------------------------------------


def _windowed(op: Op, state: Shape) -> Shape:
    """A state, or as many of them as ``state_window`` says."""
    window = integer(op, "state_window", 0)
    return (window, *state) if window else state


@rule("LinearAttention", domain=MS)
def linear_attention(op: Op) -> Sequence[Tensor | None]:
    """query, key, value [batch, length, heads * depth], past_state [batch, kv_heads, depth, value_depth], ..."""
    batch, length, width = dims(op, 0, 3)
    heads, kv_heads = required(op, "q_num_heads"), required(op, "kv_num_heads")
    value_depth = over(dims(op, 2, 3)[2], kv_heads)
    output = made(dtype(op), (batch, length, times(max(heads, kv_heads), value_depth)))
    if given(op, 3) is not None:
        return [output, like(op, 3)]
    return [output, made(dtype(op), _windowed(op, (batch, kv_heads, over(width, heads), value_depth)))]


@rule("GatedDeltaNet", domain=MS)
def gated_delta_net(op: Op) -> Sequence[Tensor | None]:
    """query, key, value [tokens, heads, depth] or query alone with all, cu_seqlens, decay, beta, initial_state."""
    query = shape(op)
    if given(op, 2) is None:
        batch, value_heads, value_depth, depth = dims(op, 6, 4)
        width: Dim = "?" if query is None else query[-1]
        heads = over(plus(width, _negated(times(value_heads, value_depth))), times(2, depth))
        tokens = None if query is None else query[:-1]
    else:
        value = shape(op, 2)
        value_heads, value_depth = ("?", "?") if value is None else value[-2:]
        heads, depth = ("?", "?") if query is None else query[-2:]
        tokens = None if query is None else query[:-2]
        batch = dims(op, 6, 4)[0] if given(op, 6) is not None else plus(dims(op, 3, 1)[0], -1)
    output = None if tokens is None else (*tokens, most(heads, value_heads), value_depth)
    each = plus(value_heads, times(heads, depth), times(value_heads, value_depth))
    update = times(integer(op, "state_update_capacity", 0), each)
    return [
        made(dtype(op), output),
        made("fp32", (batch, value_heads, value_depth, depth)),
        made("fp32", (batch, update)),
    ]


def _negated(dim: Dim) -> Dim:
    return -dim if isinstance(dim, int) else "?"


@rule("CausalConvWithState", domain=MS)
def causal_conv_with_state(op: Op) -> Sequence[Tensor | None]:
    """input, weight [channels, 1, kernel], bias, past_state: the last (kernel - 1) * dilation positions."""
    if given(op, 3) is not None:
        return [like(op), like(op, 3)]
    x, weight = shape(op), shape(op, 1)
    if x is None or weight is None or integer(op, "ndim", 1) != 1:
        return [like(op), None]
    kept = times(plus(weight[-1], -1), integer(op, "dilation", 1))
    state = replaced(x, 1 if integer(op, "channels_last", 0) else 2, kept)
    return [like(op), made(dtype(op), _windowed(op, state))]


@rule("VarlenCausalConvWithState", domain=MS)
def varlen_causal_conv_with_state(op: Op) -> Sequence[Tensor | None]:
    """Input [tokens, channels], weight, cumulative_sequence_length, bias, initial_state [batch, channels, kept]."""
    batch, channels, _ = dims(op, 4, 3)
    update = batch, integer(op, "state_update_capacity", 0), channels
    return [like(op), like(op, 4), made(dtype(op), update)]
