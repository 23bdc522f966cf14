"""Strings, n-grams, and hashes of tokens and of numbers."""

from __future__ import annotations

import math

from trtprof.base import units
from trtprof.base.records import Op
from trtprof.cost import Cost, NoWidthError, cost
from trtprof.cost._ml import items, reading, table
from trtprof.cost._recipes import Recipe
from trtprof.cost._shapes import MS, given, integer, need, out, shape, size, string, work


@cost("StringConcat", "StringNormalizer", "StringSplit", "RegexFullMatch")
def on_strings(op: Op) -> Cost:
    """No price: what it takes depends on the length of strings.

    Raises:
        NoWidthError: Always.
    """
    raise NoWidthError(f"{op.op_type} works on strings, whose length the model does not say")


_STRIDES = 1000
"""Strides of a skip that are counted one by one; nobody skips as many tokens."""


def _candidates(tokens: int, stride: int, least: int, longest: int) -> int:
    """Look-ups and n-grams of one stride: n from ``least`` to ``longest`` fits ``tokens - (n - 1) * stride`` times.

    Each n below ``least`` takes the look-ups of ``least``, whose prefix it is; each from there on adds an n-gram.
    """
    last = min(longest, (tokens - 1) // stride + 1)
    if not 0 < least <= last:
        return 0
    several = last - least + 1
    fits = several * tokens - stride * several * (least + last - 2) // 2
    return (least - 1) * (tokens - (least - 1) * stride) + 2 * fits


@cost("TfIdfVectorizer")
def tf_idf_vectorizer(op: Op) -> Cost:
    """A look-up, counted as one compare, per token of every candidate; an add per n-gram that is in the pool.

    Candidates of each skip start at every token and go on until a prefix is not in the pool: at most
    to ``max_gram_length``. 1-grams count for the first skip alone. IDF takes a compare per output,
    TFIDF with weights a multiply. Input X [tokens] or [rows, tokens]. Source: ONNX's reference
    implementation, op_tfidf_vectorizer.py.

    Raises:
        NoWidthError: The tokens are strings.
    """
    x, y = need(op, 0), out(op)
    if x.dtype == "string":
        raise NoWidthError(f"{x.name!r} holds strings, whose length the model does not say")
    dims = shape(x)
    tokens = dims[-1] if dims else 1
    shortest, longest = integer(op, "min_gram_length", 1), integer(op, "max_gram_length", 1)
    skips = integer(op, "max_skip_count", 0)
    lookups = _candidates(tokens, 1, max(shortest, 1), longest)
    for stride in range(2, min(skips, _STRIDES) + 2):
        lookups += _candidates(tokens, stride, max(shortest, 2), longest)
    # A longer stride has no more candidates than a shorter one: still an upper bound.
    lookups += max(skips - _STRIDES, 0) * _candidates(tokens, _STRIDES + 2, max(shortest, 2), longest)
    mode, weights = string(op, "mode", "TF"), len(items(op, "weights"))
    each = 1 if mode == "IDF" or (mode == "TFIDF" and weights) else 0
    found = work(
        op,
        Recipe(lookups).times(math.prod(dims[:-1])),
        vector=each * size(y),
        bound="upper",
        note="every candidate counted as in the pool",
    )
    return reading(
        found,
        table(op, "pool_int64s", "int64", len(items(op, "pool_int64s"))),
        table(op, "ngram_indexes", "int64", len(items(op, "ngram_indexes"))),
        table(op, "weights", "fp32", weights if mode != "TF" else 0),
    )


_MIX = 3 + 1 + 1 + 1 + 3 + 2
"""A block of 4 bytes: multiply, rotate, multiply; exclusive or, rotate, multiply, add.

A rotation is two shifts and an or.
"""
_FINAL = 1 + 2 + 1 + 2 + 1 + 2
"""Exclusive or with the length; shift and exclusive or thrice, with a multiply between."""


@cost("MurmurHash3", domain=MS)
def murmur_hash3(op: Op) -> Cost:
    """MurmurHash3_x86_32 of every element.

    Source: A. Appleby, MurmurHash3.cpp (smhasher).

    Raises:
        NoWidthError: The elements are strings.
    """
    x = need(op, 0)
    if x.dtype == "string":
        raise NoWidthError(f"{x.name!r} holds strings, whose length the model does not say")
    blocks = -(-units.dtype_bytes(x.dtype, 1) // 4)
    return work(op, vector=(_MIX * blocks + _FINAL) * size(x))


@cost("NGramHashMapping", "VarlenNGramHashMapping", domain=MS)
def ngram_hash(op: Op) -> Cost:
    """Hashes of the n-grams that end at each token, for n from 2 to N.

    Token ids times their multipliers, N a token, joined by exclusive or, N - 1; a remainder a head and
    order, an add for its offset; a compare for the end of a sequence and one for its segment. Inputs
    input_ids, multipliers, vocab_sizes, past_ids, head_offsets, eos_token_id, segment_ids; of the
    packed form cumulative_sequence_length comes before past_ids.
    """
    shift = 1 if op.op_type == "VarlenNGramHashMapping" else 0
    tokens = size(need(op, 0))
    most = integer(op, "max_ngram_size", 0)
    heads = (most - 1) * integer(op, "n_head_per_ngram", 0)
    each = most + (most - 1) + heads
    if given(op, 4 + shift) is not None:
        each += heads
    each += given(op, 5 + shift) is not None and bool(integer(op, "reset_on_eos", 0))
    each += given(op, 6 + shift) is not None
    return work(op, vector=each * tokens)
