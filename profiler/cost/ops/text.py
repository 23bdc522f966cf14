"""Strings and n-grams."""

from __future__ import annotations

import math

from profiler.base.records import Op
from profiler.cost import Cost, NoWidthError, cost
from profiler.cost._ml import items, reading, table
from profiler.cost._recipes import Recipe
from profiler.cost._shapes import integer, need, out, shape, size, string, work


@cost("StringConcat", "StringNormalizer", "StringSplit", "RegexFullMatch")
def on_strings(op: Op) -> Cost:
    """No price: what it takes depends on the length of strings.

    Raises:
        NoWidthError: Always.
    """
    raise NoWidthError(f"{op.op_type} works on strings, whose length the model does not say")


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
    lookups = grams = 0
    for stride in range(1, integer(op, "max_skip_count", 0) + 2):
        least = max(shortest, 2) if stride > 1 else shortest
        if least > longest:
            break
        for n in range(1, longest + 1):
            lookups += max(tokens - (max(n, least) - 1) * stride, 0)
            grams += max(tokens - (n - 1) * stride, 0) if n >= least else 0
    mode, weights = string(op, "mode", "TF"), len(items(op, "weights"))
    each = 1 if mode == "IDF" or (mode == "TFIDF" and weights) else 0
    found = work(
        op,
        Recipe(lookups + grams).times(math.prod(dims[:-1])),
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
