"""Attention to a part of the keys: paged, block-sparse, windowed, selected; and what selects."""

from __future__ import annotations

from collections.abc import Mapping

from trtprof.base.records import Op, Tensor
from trtprof.cost import Cost, MalformedOpError, Moved, cost
from trtprof.cost._attention import Grouped, Scores, cache, heads_of, rotation, single
from trtprof.cost._recipes import Recipe, dequantize, normalize, quantize, requantize, softmax
from trtprof.cost._shapes import MS, given, integer, made, need, out, shape, size, string, work
from trtprof.cost.ops.selection import heap_compares

_SELECTED = "what is selected is data: every place for an index counted as used"


@cost("PagedAttention", domain=MS)
def paged_attention(op: Op) -> Cost:
    """Attention of packed tokens to a cache in blocks; how many keys each sequence has is data.

    Every token counts against all the keys that the block table of a sequence has room for. New keys
    and values are written into the cache in place. With ``kv_cache_layout`` LATENT values are the
    first ``v_head_size`` channels of the keys. Inputs query [tokens, hidden] or packed, key, value,
    key_cache [blocks, block, kv_heads, depth], value_cache, cumulative_sequence_length, past_seqlens,
    block_table [batch, blocks], cos_cache, sin_cache, slot_mapping, head_sink, q_norm_weight,
    k_norm_weight, k_scale, v_scale, attention_metadata.
    """
    latent = string(op, "kv_cache_layout", "SEPARATE") == "LATENT"
    g = _paged_heads(op, latent)
    room, old = _paged_room(op)
    window = max(integer(op, "local_window_size", -1), 0)
    if window:
        room, old = min(room, window), min(old, shape(need(op, 7))[0] * (window - 1))
    scores = Scores(
        g.tokens * g.heads * room,
        g.tokens * g.heads,
        g.depth,
        (integer(op, "v_head_size", 0) or g.depth) if latent else g.depth,
        sink=given(op, 11) is not None,
    )
    return _paged(op, g, scores, old, rotary=8, norms=12, scales=14)


def _paged_heads(op: Op, latent: bool = False) -> Grouped:
    """Heads of a packed batch; a latent layout has a key and no value behind a packed query."""
    g = Grouped.of(op)
    if latent and given(op, 1) is None:
        width = shape(need(op, 0))[-1]
        return g._replace(depth=width // (g.heads + g.kv_heads))
    return g


def _paged_room(op: Op) -> tuple[int, int]:
    """Keys that a sequence has at most, and entries of the cache that all sequences have."""
    blocks, block = shape(need(op, 3))[:2]
    batch, per_sequence = shape(need(op, 7))
    return min(per_sequence, blocks) * block, min(batch * per_sequence, blocks) * block


def _paged(
    op: Op, g: Grouped, scores: Scores, old: int, rotary: int, norms: int, scales: int, read: Mapping[int, int] = {}
) -> Cost:
    """The cost of attention over a paged cache, of which ``old`` entries are read."""
    tensor, other = scores.flops(op)
    first, rotations = g.before_scores(op, rotary, norms)
    caches = {index: source for index in (3, 4) if (source := given(op, index)) is not None}
    per_entry = {index: _per_entry(source) for index, source in caches.items()}
    found = work(
        op,
        other.plus(first).plus(g.conversions(op, old, scales)),
        tensor=tensor,
        read={**read, **rotations, **{index: old * elements for index, elements in per_entry.items()}},
        bound="upper",
        note="lengths are data: all the room of the block table counted as keys",
    )
    # The cache is updated in place, whether or not it is an output too.
    updated = [
        Moved(made(op, index - 2) or source, min(g.tokens * per_entry[index], size(source)))
        for index, source in caches.items()
    ]
    return found._replace(writes=(Moved(out(op), size(out(op))), *updated))


def _per_entry(cached: Tensor) -> int:
    """Elements of one key or value of all heads, in [blocks, block, kv_heads, depth]."""
    _, _, heads, depth = shape(cached)
    return heads * depth


@cost("SparsePagedAttention", domain=MS)
def sparse_paged_attention(op: Op) -> Cost:
    """As PagedAttention to the keys that an indexer selected, and to a local window where asked for.

    Inputs query, key, value, key_cache, value_cache, cumulative_sequence_length, past_seqlens,
    block_table, slot_mapping, selected_indices [tokens, most], selected_counts, auxiliary_key [batch,
    capacity, kv_heads or 1, depth], auxiliary_value, auxiliary_lengths, cos_cache, sin_cache,
    head_sink, q_norm_weight, k_norm_weight, k_scale, v_scale, attention_metadata.
    """
    g = _paged_heads(op)
    room, entries = _paged_room(op)
    window = max(integer(op, "local_window_size", -1), 0)
    both = string(op, "attention_mode", "selected_only") == "local_plus_selected"
    local = (min(room, window) if window else room) if both else 0
    source = given(op, 11) if string(op, "selected_kv_source", "main") == "auxiliary" else None
    selected = min(shape(need(op, 9))[1], room if source is None else shape(source)[1])
    old = (shape(need(op, 7))[0] * local) + (g.tokens * selected if source is None else 0)
    rows = g.tokens * g.heads
    scores = Scores(rows * (local + selected), rows, g.depth, g.depth, sink=given(op, 16) is not None)
    named = 0 if source is None else g.tokens * selected * _per_entry(source)
    found = _paged(
        op, g, scores, min(old, entries), rotary=14, norms=17, scales=19, read=dict.fromkeys((11, 12), named)
    )
    return found._replace(note=_SELECTED)


@cost("DynamicSparseAttention", domain=MS)
def dynamic_sparse_attention(op: Op) -> Cost:
    """Grouped-query attention to the keys that an indexer selected, and to a local window where asked for.

    Inputs query [batch, length, hidden] or packed, key, value, past_key [batch, kv_heads, past,
    depth], past_value, auxiliary_key, auxiliary_value, selected_indices [batch * length, most],
    selected_counts, seqlens_k, total_sequence_length, cos_cache, sin_cache, position_ids,
    q_norm_weight, k_norm_weight, head_sink.
    """
    batch, length = shape(need(op, 0))[:2]
    g = Grouped.of(op)
    window = max(integer(op, "local_window_size", -1), 0)
    total = single(op, 10)
    kept = cache(op, (3, 4), (1, 2), length, before=None if total is None else max(total - length, 0))
    selected = shape(need(op, 7))[1]
    auxiliary = string(op, "selected_kv_source", "main") == "auxiliary"
    both = string(op, "attention_mode", "selected_only") == "local_plus_selected"
    local = min(window, kept.keys) if both else 0
    source = given(op, 5) if auxiliary else None
    selected = min(selected, shape(source)[2] if source is not None else kept.keys)
    sink = given(op, 16) is not None or bool(integer(op, "smooth_softmax", 0))
    rows = g.tokens * g.heads
    tensor, other = Scores(rows * (local + selected), rows, g.depth, g.depth, sink=sink).flops(op)
    first, read = g.before_scores(op, rotary=11, norms=14)
    per_key = g.kv_heads * g.depth
    # Selections of one query are distinct, those of several may name the same keys.
    named = g.tokens * selected * per_key
    main = (0 if auxiliary else named) + batch * (length + local) * per_key * both
    read |= {index: min(elements, main) for index, elements in kept.read.items()}
    read |= dict.fromkeys((5, 6), named if auxiliary else 0)
    return work(op, other.plus(first), tensor=tensor, read=read, write=kept.write, bound="upper", note=_SELECTED)


@cost("SparseAttention", domain=MS)
def sparse_attention(op: Op) -> Cost:
    """Grouped-query attention to the blocks that a block mask of each head keeps.

    No more scores than the non-zero blocks hold, and no more than there are queries and keys. Inputs
    query [batch, length, hidden] or packed, key, value, past_key [batch, kv_heads, room, depth],
    past_value, block_row_indices [layouts, blocks + 1], block_col_indices [layouts, most non-zero
    blocks], total_sequence_length, key_total_sequence_lengths, cos_cache, sin_cache.
    """
    batch, length = shape(need(op, 0))[:2]
    g = Grouped.of(op)
    total = single(op, 7)
    kept = cache(op, (3, 4), (1, 2), length, share=True, before=None if total is None else max(total - length, 0))
    block = integer(op, "sparse_block_size", 0)
    if block <= 0:
        raise MalformedOpError("SparseAttention needs sparse_block_size")
    pairs = min(length * kept.keys, shape(need(op, 6))[1] * block**2)
    rows = batch * g.heads * length
    tensor, other = Scores(batch * g.heads * pairs, rows, g.depth, g.depth).flops(op)
    first, read = g.before_scores(op, rotary=9)
    return work(
        op,
        other.plus(first),
        tensor=tensor,
        read=read | kept.read,
        write=kept.write,
        bound="upper",
        note="all keys of the blocks of the mask counted, though causality and unused room may leave some out",
    )


def _band(length: int, window: int) -> int:
    """Pairs of positions at most ``window`` apart."""
    reach = min(window, max(length - 1, 0))
    return length * (2 * reach + 1) - reach * (reach + 1)


_LOCAL_ONLY = "which tokens attend globally is data: none counted"


@cost("LongformerAttention", domain=MS)
def longformer_attention(op: Op) -> Cost:
    """The projections of the input and attention to the tokens up to ``window`` before and behind.

    Inputs input [batch, length, hidden], weight [hidden, 3 * hidden], bias, mask, global_weight,
    global_bias, global. A token that attends globally takes projections of its own, and scores
    with every other.
    """
    batch, length, hidden = shape(need(op, 0))
    heads = heads_of(op)
    pairs = batch * heads * _band(length, integer(op, "window", 0))
    tensor, other = Scores(pairs, batch * heads * length, hidden // heads, hidden // heads, masks=1).flops(op)
    values = batch * length * 3 * hidden
    return work(
        op,
        other.plus(Recipe(values)),
        tensor=tensor + 2 * values * hidden,
        read={4: 0, 5: 0},
        bound="lower",
        note=_LOCAL_ONLY,
    )


@cost("QOrderedLongformerAttention", domain=MS)
def qordered_longformer_attention(op: Op) -> Cost:
    """As LongformerAttention: projected values requantised, then dequantised for attention; the output quantised.

    Inputs input, scale_input, weight, scale_weight, bias, scale_bias, scale_qkv_gemm, mask,
    global_weight, scale_global_weight, global_bias, scale_global_gemm, global, scale_output.
    """
    batch, length, hidden = shape(need(op, 0))
    heads = heads_of(op)
    pairs = batch * heads * _band(length, integer(op, "window", 0))
    tensor, other = Scores(pairs, batch * heads * length, hidden // heads, hidden // heads, masks=1).flops(op)
    values = batch * length * 3 * hidden
    each = requantize(zero_point=False).plus(dequantize(zero_point=False)).plus(Recipe(1))
    other = other.plus(each.times(values)).plus(quantize(zero_point=False).times(size(out(op))))
    return work(
        op,
        other,
        tensor=tensor + 2 * values * hidden,
        read=dict.fromkeys((8, 9, 10, 11), 0),
        bound="lower",
        note=_LOCAL_ONLY,
    )


class _Indexer:
    """What both indexers do, with the number of tokens and entries given.

    Queries are RMS-normalised and rotated; new entries (blocks of tokens, or compressed tokens) are
    pooled, normalised and rotated; a query scores every entry, a MAC a channel and head, a ReLU and
    a multiply by the scale a head, a multiply by the weight of the head where there are weights, and
    the sum over heads; a heap keeps the best.
    """

    def __init__(self, op: Op, heads: int, depth: int, rotated: int) -> None:
        self.op, self.heads, self.depth, self.rotated = op, heads, depth, rotated
        self.compress = integer(op, "compress_ratio", 0)
        if self.compress <= 0:
            raise MalformedOpError(f"{op.op_type} needs compress_ratio")

    def vectors(self, count: int) -> Recipe:
        """``count`` vectors normalised, scaled and rotated."""
        return (
            normalize(count, self.depth, centered=False)
            .plus(Recipe(count * self.depth))
            .plus(rotation(count * self.rotated))
        )

    def pooled_mean(self, entries: int) -> Recipe:
        """The mean of the keys of each block."""
        return Recipe(entries * self.depth * self.compress)

    def pooled_gated(self, entries: int) -> Recipe:
        """Per channel a softmax of gates with their bias over two windows, and the weighted sum of the keys."""
        slots = 2 * self.compress
        return Recipe(slots + 2 * slots - 1).times(entries * self.depth).plus(softmax(entries * self.depth, slots))

    def selection(self, queries: int, entries: int, best: int, weighted: bool) -> tuple[int, int]:
        """Tensor FLOP of the scores of each query with each entry; other FLOP with those of the heap."""
        pairs = queries * entries
        each = self.heads * (3 if weighted else 2) + self.heads - 1
        return 2 * pairs * self.heads * self.depth, pairs * each + queries * heap_compares(entries, min(best, entries))


@cost("SparseAttentionIndexer", domain=MS)
def sparse_attention_indexer(op: Op) -> Cost:
    """Scores of every query with every block of keys, and the best of them.

    Inputs query [batch, length, heads * depth] or with the key packed behind it, key, query_norm_weight
    [depth], key_norm_weight, cos_cache [..., rows, width], sin_cache, mask, past_key [batch, past,
    depth], gate, position_bias, head_weights, position_ids, past_sequence_length, past_proj_buffer
    [2, batch, buffered, 2 * depth].
    """
    batch, length, width = shape(need(op, 0))
    depth = size(need(op, 2))
    pairs = shape(need(op, 4))[-1]
    gated = string(op, "policy_mode") == "csa"
    heads = width // depth - (0 if gated or given(op, 1) is not None else 1)
    room = shape(need(op, 7))[1]
    shared = given(op, 12) is not None
    known = single(op, 12)
    past = room if not shared else min(known, room) if known is not None else room
    indexer = _Indexer(op, heads, depth, min(2 * pairs, depth))
    if gated:
        buffer = given(op, 13)
        waiting = shape(buffer)[2] if buffer is not None else 0
        fresh = (waiting % indexer.compress + length) // indexer.compress
        entries, appended = past + fresh, fresh
        best = integer(op, "index_topk", 0)
        pooled = indexer.pooled_gated(batch * fresh)
    else:
        fresh = entries = (past + length) // indexer.compress
        appended = length
        best = integer(op, "token_budget", 0) // indexer.compress
        pooled = indexer.pooled_mean(batch * fresh)
    queries = batch * length
    tensor, vector = indexer.selection(queries, entries, best, given(op, 10) is not None)
    other = pooled.plus(indexer.vectors(queries * heads + batch * fresh))
    rows = (queries + batch * fresh) * pairs
    read = {4: rows, 5: rows, 7: batch * past * depth}
    write = {1: batch * appended * depth} if shared else {}
    return work(
        op,
        other,
        tensor=tensor,
        vector=vector,
        read=read,
        write=write,
        bound="upper",
        note="every entry counted as visible to every query",
    )


@cost("PackedSparseAttentionIndexer", domain=MS)
def packed_sparse_attention_indexer(op: Op) -> Cost:
    """As SparseAttentionIndexer over packed tokens, with states of fixed capacity that are updated in place.

    Inputs query [tokens, heads * depth] or with the key packed behind it, key, query_norm_weight,
    key_norm_weight, cos_cache, sin_cache, cumulative_sequence_lengths, past_sequence_lengths, gate,
    position_bias, head_weights, position_ids, past_key_state [batch, capacity, depth], past_kv_buffer,
    past_gate_buffer, past_state_lengths, ...
    """
    tokens, width = shape(need(op, 0))
    depth = size(need(op, 2))
    pairs = shape(need(op, 4))[-1]
    gated = string(op, "policy_mode") == "csa"
    heads = width // depth - (0 if gated or given(op, 1) is not None else 1)
    batch, capacity, _ = shape(need(op, 12))
    indexer = _Indexer(op, heads, depth, min(2 * pairs, depth))
    # A sequence has at most compress - 1 tokens waiting, and gains an entry for every compress tokens.
    fresh = min((batch * (indexer.compress - 1) + tokens) // indexer.compress, batch * capacity)
    best = integer(op, "index_topk", 0) if gated else integer(op, "token_budget", 0) // indexer.compress
    pooled = indexer.pooled_gated(fresh) if gated else indexer.pooled_mean(fresh)
    tensor, vector = indexer.selection(tokens, capacity, best, given(op, 10) is not None)
    rows = (tokens + fresh) * pairs
    return work(
        op,
        pooled.plus(indexer.vectors(tokens * heads + fresh)),
        tensor=tensor,
        vector=vector,
        read={4: rows, 5: rows},
        write={2: fresh * depth},
        bound="upper",
        note="lengths are data: all the capacity of the state counted as entries",
    )
