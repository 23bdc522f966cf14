"""Hashes of tokens and of numbers: integer arithmetic."""

from __future__ import annotations

from trtprof.base import units
from trtprof.base.records import Op
from trtprof.cost import Cost, NoWidthError, cost
from trtprof.cost._shapes import MS, given, integer, need, size, work

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
