"""What all records share: their base, and the types of their fields."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

SCHEMA_VERSION = 6
"""Version of every JSON file and document that trtprof writes."""


NonNegative = Annotated[int, msgspec.Meta(ge=0)]


Fraction = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]


Dim = int | str


WorkBound = Literal["exact", "upper", "lower", "mixed"]


Attribute = int | float | str | tuple[int | float | str, ...]


KERNEL_COLUMNS = ("iteration", "index", "name", "layer", "start_ns", "dur_ns", "self_ns")
"""Columns of the kernel table: one row a launch.

``iteration`` counts profiled runs, ``index`` the launches within one, ``start_ns`` is relative to
the start of the iteration, ``self_ns`` is ``dur_ns`` less the launches nested in it.
"""


class Record(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Base of all records: immutable, compared by value, encoded to JSON by msgspec.

    Records cannot refer to themselves, so that the garbage collector need not look through them.
    """
