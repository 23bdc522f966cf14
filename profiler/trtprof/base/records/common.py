"""What all records share: their base, and the types of their fields."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

SCHEMA_VERSION = 8
"""Version of every JSON file and document that trtprof writes."""


NonNegative = Annotated[int, msgspec.Meta(ge=0)]


Positive = Annotated[float, msgspec.Meta(gt=0)]


Fraction = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]


class Holds(msgspec.Struct, frozen=True):
    """What a field of text holds, and so what becomes of it in a run without names (`trtprof.report.redact`).

    ``safe`` text stays. ``text`` is prose: names in it are replaced. ``place`` is a name or prose. ``kernel``, ``op``,
    ``domain``, ``producer``, ``file`` and ``detail`` are names that stay where a vendor made them.
    """

    kind: str


Safe = Annotated[str, Holds("safe")]
Prose = Annotated[str, Holds("text")]
Place = Annotated[str, Holds("place")]
KernelName = Annotated[str, Holds("kernel")]
OpName = Annotated[str, Holds("op")]
DomainName = Annotated[str, Holds("domain")]
ProducerName = Annotated[str, Holds("producer")]
FileName = Annotated[str, Holds("file")]
NodeName = Annotated[str, Holds("node")]
LayerName = Annotated[str, Holds("layer")]
TensorName = Annotated[str, Holds("tensor")]
DimName = Annotated[str, Holds("dim")]
GraphName = Annotated[str, Holds("graph")]
DeviceDetail = Annotated[str, Holds("detail")]
"""Of the key of a dict and its value: what tells what a device is stays."""
OwnName = Annotated[str, Holds("name")]
ModelName = Annotated[str, Holds("model")]
Command = Annotated[str, Holds("command")]
Tag = Annotated[str, Holds("tag")]
Digest = Annotated[str, Holds("digest")]
Message = Annotated[str, Holds("message")]
"""From the log of a library, which writes whatever it likes."""


Dim = int | DimName


WorkBound = Literal["exact", "upper", "lower", "mixed"]


Attribute = int | float | str | tuple[int | float | str, ...]


KERNEL_COLUMNS = ("iteration", "index", "name", "layer", "start_ns", "dur_ns", "self_ns")
"""Columns of the kernel table: one row a launch.

``iteration`` counts profiled runs, ``index`` the launches within one, ``start_ns`` is relative to
the start of the iteration, ``self_ns`` is ``dur_ns`` less the launches nested in it.
"""


class Record(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Base of all records: immutable, compared by value, encoded to JSON by msgspec."""


class Interval(Record, frozen=True, kw_only=True):
    """A quantity and the interval that holds it with a confidence of ``level``."""

    value: float
    low: float
    high: float
    level: Fraction = 0.95
