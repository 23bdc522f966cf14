"""A model looked at without building it, and the forms that its work takes over a range of shapes."""

from __future__ import annotations

from typing import Annotated

import msgspec

from trtprof.base.records.common import NonNegative, Prose, Record
from trtprof.base.records.engine import EnginePlan
from trtprof.base.records.findings import Unsupported
from trtprof.base.records.model import ModelInfo, Node, Work


class OpTotal(Record, frozen=True, kw_only=True):
    """All nodes of one op type and the sum of their work (constants are computed before the run)."""

    domain: str
    op_type: str
    count: NonNegative
    work: Work


class Inspection(Record, frozen=True, kw_only=True):
    """A model looked at without building it: the document of `trtprof inspect --format json`."""

    schema_version: int
    model: ModelInfo
    total: Work
    macs_by_dtype: dict[str, NonNegative]
    """Multiply-accumulates by the dtype that they are multiplied as, quantised ones as the integers
    or narrow floats that an engine which fuses QDQ multiplies."""
    ops: tuple[OpTotal, ...]
    nodes: tuple[Node, ...]
    unsupported: tuple[Unsupported, ...]
    uncounted: Prose = ""
    """Why ``total`` is only a lower bound: the ops of multiply-accumulates that are not in it; empty where all are."""
    plan: EnginePlan | None = None
    """What TensorRT-RTX makes of it, where that is installed."""
    notes: tuple[str, ...] = ()
    """In words, why there is no plan, where one was looked for."""


class Term(Record, frozen=True, kw_only=True):
    """A product of powers of swept dimensions, times a number."""

    coefficient: int
    powers: dict[str, NonNegative] = {}


class Polynomial(Record, frozen=True, kw_only=True):
    """The sum of ``terms``, largest powers first, divided by ``divisor``, which leaves no rest."""

    terms: tuple[Term, ...]
    divisor: Annotated[int, msgspec.Meta(gt=0)] = 1


class WorkForms(Record, frozen=True, kw_only=True):
    """The counts of a `Work` as polynomials of the swept dimensions; None where they are none.

    ``bytes`` is the sum of ``bytes_read`` and ``bytes_written``.
    """

    macs: Polynomial | None
    flops: Polynomial | None
    bytes: Polynomial | None
    bytes_read: Polynomial | None
    bytes_written: Polynomial | None
    bytes_parameters: Polynomial | None


class OpForms(Record, frozen=True, kw_only=True):
    """The work of all nodes of one op type in closed form; see `OpTotal`."""

    domain: str
    op_type: str
    work: WorkForms


class SweepDim(Record, frozen=True, kw_only=True):
    """A swept dimension: its name as asked for, the dimensions of the inputs that it binds, its values."""

    name: str
    symbols: tuple[str, ...]
    values: tuple[int, ...]


class SweepPoint(Record, frozen=True, kw_only=True):
    """The work of a model with the swept dimensions ``at`` these values, as an `Inspection` there has it."""

    at: dict[str, int]
    total: Work
    macs_by_dtype: dict[str, NonNegative]
    ops: tuple[OpTotal, ...]
    unsupported: tuple[Unsupported, ...] = ()


class Sweep(Record, frozen=True, kw_only=True):
    """The work of a model over a sweep: the document of `trtprof inspect --sweep ... --format json`."""

    schema_version: int
    model: ModelInfo
    """Bound at the least value of every swept dimension."""
    dims: tuple[SweepDim, ...]
    points: tuple[SweepPoint, ...]
    """In the order asked for, the last dimension changing fastest."""
    total: WorkForms
    ops: tuple[OpForms, ...]
    """In the order of the last point."""
    forms_hold: str
    """In words, for which values of the swept dimensions the closed forms hold."""
    notes: tuple[str, ...] = ()
    """What was given up for the sake of the sweep."""
