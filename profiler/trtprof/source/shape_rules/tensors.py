"""Ops of com.microsoft that make tensors of other shapes: embeddings, look-ups, transforms, LSTMs, searches."""

from __future__ import annotations

from collections.abc import Sequence

from trtprof.base.records import Dim, Op, Tensor
from trtprof.source.shape_rules import rule, rules
from trtprof.source.shape_rules._dims import *


def _embedded(op: Op, kind: str) -> list[Tensor | None]:
    batch, length = dims(op, 0, 2)
    result = made(kind, (batch, length, dims(op, 2, 2)[1]))
    return [result, made("int32", (batch,)), result]


@rule("GatherND", domain=MS)
def gather_nd(op: Op) -> Sequence[Tensor | None]:
    """data, and indices whose last dimension says how many dimensions of data they choose from."""
    data, indices = shape(op), shape(op, 1)
    if data is None or indices is None or not isinstance(indices[-1], int):
        return [made(dtype(op), None)]
    return [made(dtype(op), (*indices[:-1], *data[indices[-1] :]))]


@rule("ExpandDims", domain=MS)
def expand_dims(op: Op) -> Sequence[Tensor | None]:
    """A new dimension at an axis that is an input."""
    x, axis = shape(op), single(op, 1)
    if x is None or axis is None:
        return [made(dtype(op), None if x is None else ("?",) * (len(x) + 1))]
    if not -len(x) - 1 <= axis <= len(x):
        raise IndexError(f"axis {axis} of rank {len(x) + 1}")
    at = axis % (len(x) + 1)
    return [made(dtype(op), (*x[:at], 1, *x[at:]))]


@rule("Pad", domain=MS)
def pad(op: Op) -> Sequence[Tensor | None]:
    """data, and for each dimension what comes before it, then what comes after it."""
    x, pads = shape(op), values(op, 1)
    if x is None or pads is None:
        return [made(dtype(op), None if x is None else ("?",) * len(x))]
    before, after = pads[: len(x)], pads[len(x) :]
    return [made(dtype(op), [plus(dim, a, b) for dim, a, b in zip(x, before, after, strict=True)])]


@rule("Range", domain=MS)
def range_(op: Op) -> Sequence[Tensor | None]:
    """start, limit, delta."""
    start, limit = single(op, 0), single(op, 1)
    step = 1 if given(op, 2) is None else single(op, 2)
    if start is None or limit is None or step is None:
        return [made(dtype(op), ("?",))]
    return [made(dtype(op), (max(-((start - limit) // step), 0),))]


@rule("Tokenizer", domain=MS)
def tokenizer(op: Op) -> Sequence[Tensor | None]:
    """A new last dimension, as long as the most words of a string."""
    x = shape(op)
    return [made("string", None if x is None else (*x, "?"))]


@rule("NGramHashMapping", domain=MS)
def ngram_hash_mapping(op: Op) -> Sequence[Tensor | None]:
    """input_ids [batch, length]: a hash for each order and head, and the last tokens."""
    batch, length = dims(op, 0, 2)
    before, hashes = _ngrams(op)
    return [made(dtype(op), (batch, length, hashes)), made(dtype(op), (batch, before))]


@rule("VarlenNGramHashMapping", domain=MS)
def varlen_ngram_hash_mapping(op: Op) -> Sequence[Tensor | None]:
    """input_ids [tokens], ..., cumulative_sequence_length (3)."""
    (tokens,) = dims(op, 0, 1)
    batch = plus(dims(op, 3, 1)[0], -1)
    before, hashes = _ngrams(op)
    return [
        made(dtype(op), (tokens, hashes)),
        made(dtype(op), (batch, before)),
        made(dtype(op, 3), (batch, before)),
        made(dtype(op), (batch, integer(op, "state_update_capacity", 0), before)),
    ]


def _ngrams(op: Op) -> tuple[int, int]:
    before = required(op, "max_ngram_size") - 1
    return before, before * required(op, "n_head_per_ngram")


@rule("Rfft", domain=MS)
def rfft(op: Op) -> Sequence[Tensor | None]:
    """N real values become n / 2 + 1 complex ones, in pairs."""
    x = shape(op)
    return [made(dtype(op), None if x is None else with_last(x, plus(over(x[-1], 2), 1), 2))]


@rule("Irfft", domain=MS)
def irfft(op: Op) -> Sequence[Tensor | None]:
    """The reverse, of an even number."""
    x = shape(op)
    return [made(dtype(op), None if x is None else (*x[:-2], times(plus(x[-2], -1), 2)))]


@rule("DynamicQuantizeLSTM", "AttnLSTM", domain=MS)
def lstm(op: Op) -> Sequence[Tensor | None]:
    """X [length, batch, size]: every hidden state, the last, and the last cell state."""
    length, batch, _ = dims(op, 0, 3)
    directions = 2 if text(op, "direction", "forward") == "bidirectional" else 1
    hidden: Dim = integer(op, "hidden_size", 0) or dims(op, 2, 3)[2 if op.op_type == "AttnLSTM" else 1]
    last = made(dtype(op), (directions, batch, hidden))
    return [made(dtype(op), (length, directions, batch, hidden)), last, last]


def _given_as(op: Op, index: int) -> Dim:
    value = single(op, index)
    return "?" if value is None else value


@rule("GreedySearch", "Sampling", domain=MS)
def search(op: Op) -> Sequence[Tensor | None]:
    """input_ids [batch, length], max_length: tokens, and of Sampling the filtered logits."""
    batch, _ = dims(op, 0, 2)
    vocabulary: Dim = integer(op, "vocab_size", 0) if integer(op, "vocab_size", 0) > 0 else "?"
    return [made("int32", (batch, _given_as(op, 1))), made("fp32", (batch, vocabulary))]


@rule("BeamSearch", "WhisperBeamSearch", domain=MS)
def beam_search(op: Op) -> Sequence[Tensor | None]:
    """input_ids, or features, max_length, min_length, num_beams, num_return_sequences, length_penalty, ...

    Tokens, a score for each sequence, and where all scores are asked for one for each step, beam and token; the dtype
    of scores is known only where a penalty is given.
    """
    x: Shape | None = shape(op)
    batch: Dim = "?" if x is None else x[0]
    longest, beams, returned = (_given_as(op, at) for at in (1, 3, 4))
    kind = next((dtype(op, at) for at in (5, 6) if given(op, at) is not None), "unknown")
    vocabulary: Dim = integer(op, "vocab_size", 0) if integer(op, "vocab_size", 0) > 0 else "?"
    return [
        made("int32", (batch, returned, longest)),
        made(kind, (batch, returned)),
        made(kind, ("?", batch, beams, vocabulary)),
    ]


rules(
    MS,
    {
        # input_ids [batch, length], segment_ids, word_embedding [words, hidden], ...: result, mask index, plain sum.
        "EmbedLayerNormalization": lambda op: _embedded(op, dtype(op, 2)),
        # The same of 8-bit embeddings; scales begin at 8.
        "QEmbedLayerNormalization": lambda op: _embedded(op, dtype(op, 8))[:2],
        # Rows of a matrix.
        "TorchEmbedding": lambda op: [made(dtype(op), gathered(dims(op, 0, 2), shape(op, 1), 0))],
        # The different elements of a vector, where each is found, and how often.
        "Unique": lambda op: [made(dtype(op), ("?",)), like(op, kind="int64"), made("int64", ("?",))],
        # A distance for each pair of rows.
        "CDist": lambda op: [made(dtype(op), (dims(op, 0, 2)[0], dims(op, 1, 2)[0]))],
        # A path, whose length is data.
        "DynamicTimeWarping": lambda _op: [made("int32", (2, "?"))],
        # Tokens, whose number is data, and an index.
        "BifurcationDetector": lambda op: [made(dtype(op), ("?",)), made(dtype(op), ())],
        # input_ids, and scores, which are masked.
        "NGramRepeatBlock": lambda op: [like(op, 1)],
    },
)
