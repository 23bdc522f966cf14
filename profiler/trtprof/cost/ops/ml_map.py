"""Dictionaries of ``ai.onnx.ml``: from rows of scores to maps, and from maps to tensors.

A map has no dense form: what its keys and its own structure take is the runtime's affair and is not
counted, only the values that it holds.
"""

from __future__ import annotations

from trtprof.base.records import Op, Tensor
from trtprof.cost import Cost, Moved, NoWidthError, UnknownShapeError, cost
from trtprof.cost._ml import ML, items, matrix, reading, table, with_outputs
from trtprof.cost._recipes import Recipe
from trtprof.cost._shapes import integer, need, out, size, string, work


@cost("ZipMap", domain=ML)
def zip_map(op: Op) -> Cost:
    """A map per row from labels to its scores: the scores are copied."""
    x = need(op, 0)
    rows, columns = matrix(x)
    scores = Tensor(name=out(op).name, dtype=x.dtype, shape=(rows, columns))
    return Cost(
        reads=(Moved(x, rows * columns),),
        writes=(Moved(scores, rows * columns),),
        bound="lower",
        note="of the maps only the values are counted, not the keys",
    )


@cost("DictVectorizer", domain=ML)
def dict_vectorizer(op: Op) -> Cost:
    """A look-up, one compare, per entry of the map, at most one for each key of the vocabulary; the rest is zeros.

    Raises:
        NoWidthError: Keys are strings.
    """
    x = need(op, 0)
    if items(op, "string_vocabulary"):
        raise NoWidthError(f"the keys of {x.name!r} are strings, whose length the model does not say")
    keys = len(items(op, "int64_vocabulary"))
    known = with_outputs(op, ("unknown", (1, keys)))
    written = out(known)
    entries = Tensor(name=x.name, dtype=written.dtype, shape=(keys,))
    names = Tensor(name=f"{x.name}/keys", dtype="int64", shape=(keys,))
    found = Cost(
        arithmetic=Recipe(keys),
        reads=(Moved(entries, keys), Moved(names, keys)),
        writes=(Moved(written, size(written)),),
        bound="upper",
        note="the map counted as holding every key of the vocabulary",
    )
    return reading(found, table(op, "int64_vocabulary", "int64", keys))


@cost("CastMap", domain=ML)
def cast_map(op: Op) -> Cost:
    """The values of a map in the order of its keys, converted where integers are made of them.

    Of the map nothing is known but what the output shows: a dense one has as many values, a sparse one is
    ``max_map`` long, whatever the map holds.

    Raises:
        UnknownShapeError: The output is dense and its length is not known.
    """
    cast_to = string(op, "cast_to", "TO_FLOAT")
    dtype = {"TO_FLOAT": "fp32", "TO_INT64": "int64", "TO_STRING": "string"}.get(cast_to, "unknown")
    sparse = string(op, "map_form", "DENSE") == "SPARSE"
    if not sparse and out(op).elements is None:
        raise UnknownShapeError(f"{need(op, 0).name!r} is a map, whose length is not known")
    known = with_outputs(op, (dtype, (1, integer(op, "max_map", 1))))
    elements = size(out(known))
    values = 0 if sparse else elements
    return work(
        known,
        vector=values if cast_to == "TO_INT64" else 0,
        read={0: 0},
        bound="lower",
        note="what is read of the map is not counted: the model does not say what it holds",
    )
