"""Categories of ``ai.onnx.ml``: values looked up in lists that are attributes.

How a runtime looks a value up is not specified. A look-up counts as one compare, that of a hash table, and
reads at most one entry; strings have no width, and what holds them is refused with a word.
"""

from __future__ import annotations

from trtprof.base.records import Op
from trtprof.cost import Cost, Moved, cost
from trtprof.cost._ml import ML, items, reading, table, with_outputs
from trtprof.cost._shapes import need, shape, size, work

_NOTE = "a look-up counted as one compare, with an entry of its own to read"
_LISTS = {"int64s": "int64", "floats": "fp32", "strings": "string"}


def _column(op: Op, column: str, dtype: str, elements: int) -> Moved:
    """What is read of the keys or the values of a table for ``elements`` look-ups.

    A column in a tensor attribute is of ``dtype``; its length is not known here.
    """
    for suffix, stored in _LISTS.items():
        length = len(items(op, f"{column}_{suffix}"))
        if length:
            return table(op, f"{column}_{suffix}", stored, length, elements)
    return table(op, f"{column}_tensor", dtype, elements)


@cost("LabelEncoder", domain=ML, first=2)
def label_encoder(op: Op) -> Cost:
    """A look-up per value: its key, and the value that stands for it."""
    x = need(op, 0)
    elements = size(x)
    values = next((stored for suffix, stored in _LISTS.items() if items(op, f"values_{suffix}")), "unknown")
    known = with_outputs(op, (values, shape(x)))
    found = work(known, vector=elements, bound="upper", note=_NOTE)
    result = next((moved.tensor.dtype for moved in found.writes), values)
    return reading(found, _column(op, "keys", x.dtype, elements), _column(op, "values", result, elements))


@cost("LabelEncoder", domain=ML, last=1)
@cost("CategoryMapper", domain=ML)
def string_mapper(op: Op) -> Cost:
    """A look-up per value, from strings to integers or back: strings are on one side always."""
    x = need(op, 0)
    return work(with_outputs(op, ("string" if x.dtype == "int64" else "int64", shape(x))), vector=size(x))


@cost("OneHotEncoder", domain=ML)
def one_hot_encoder(op: Op) -> Cost:
    """A look-up per value, and a row of categories written; values that are not int64 are converted."""
    x = need(op, 0)
    elements = size(x)
    categories = len(items(op, "cats_int64s")) or len(items(op, "cats_strings"))
    conversions = 0 if x.dtype in ("int64", "string") else elements
    found = work(
        with_outputs(op, ("fp32", (*shape(x), categories))), vector=elements + conversions, bound="upper", note=_NOTE
    )
    return reading(found, table(op, "cats_int64s", "int64", len(items(op, "cats_int64s")), elements))
