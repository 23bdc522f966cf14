"""The table of a fleet as Arrow has it: a row a cell, with the columns of `records.FleetRow`.

It is made of parts, a Parquet file each. Sorted by `ORDER` and without the columns that pass (`PASSING`) the same
answers are the same table, whoever computed them, where, and in which order.
"""

from __future__ import annotations

import functools
import itertools
import operator
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints

import msgspec

from trtprof.base.records import EXPECTED_BASES, FleetCell, FleetKernel, FleetRow

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

MOST_KERNELS = 24
"""Groups of layers that a row keeps, those with most time first, beside those that a custom kernel may pay for."""
REST = "all others"
"""The pattern of what stands for the groups that a row does not keep, so that sums over kernels are whole: one item for
those that something is expected of, one for the others."""
ORDER = ("model", "target", "shapes", "batch", "sizes", "precision", "key")
PASSING = ("started", "seconds", "attempts", "worker", "log")
"""Columns that may differ between two executions of the same cell."""
WHICH = ("key", "status", "started")
"""Columns that tell which row it is: of two answers to a cell one counts."""
SLICE = 10_000
"""Rows whose records are looked at together: of all of them they would fill the memory."""
VERSION = 1
"""Of the columns; kept in the metadata of each file under `MARK`."""
MARK = "trtprof.fleet"


@functools.cache
def schema(kind: type[FleetCell] = FleetRow) -> pa.Schema:
    """The columns of rows, or of cells alone; mappings are text, as JSON with sorted keys."""
    import pyarrow as pa

    fields = [pa.field(name, _arrow(hint)) for name, hint in _fields(kind)]
    return pa.schema(fields, metadata={MARK: str(VERSION)})


@functools.cache
def _fields(kind: type[msgspec.Struct]) -> list[tuple[str, Any]]:
    hints = get_type_hints(kind)
    return [(name, hints[name]) for name in kind.__struct_fields__]


def _arrow(hint: Any) -> pa.DataType:
    import pyarrow as pa

    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _arrow(next(each for each in arguments if each is not type(None)))
    if _is_record(hint):
        return pa.struct([pa.field(name, _arrow(inner)) for name, inner in _fields(hint)])
    if origin is tuple:
        return pa.list_(_arrow(arguments[0]))
    return {int: pa.int64(), float: pa.float64()}.get(hint, pa.string())


def _is_record(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, msgspec.Struct)


def most(found: Iterable[FleetKernel]) -> tuple[FleetKernel, ...]:
    """Those with most time first, the others summed up; see `MOST_KERNELS` and `REST`."""
    # The order of equal times is that given, so that the same answer is the same row.
    ordered = sorted(found, key=lambda one: -_time(one))
    kept = [one for at, one in enumerate(ordered) if at < MOST_KERNELS or one.verdict in ("write it", "try first")]
    others = [one for at, one in enumerate(ordered) if at >= MOST_KERNELS and one not in kept]
    halves = [[one for one in others if (one.expected_ns is None) == unknown] for unknown in (False, True)]
    return *kept, *(_together(half) for half in halves if half)


def _time(one: FleetKernel) -> int:
    return next((ns for ns in (one.measured_ns, one.expected_ns, one.bound_ns) if ns is not None), 0)


def _together(found: Sequence[FleetKernel]) -> FleetKernel:
    def total(name: str) -> int | None:
        known = [ns for one in found if (ns := getattr(one, name)) is not None]
        return sum(known) if known else None

    return FleetKernel(
        pattern=REST, dtype="", shapes="", layer=found[0].layer, count=sum(one.count for one in found),
        bound_ns=total("bound_ns"), expected_ns=total("expected_ns"), measured_ns=total("measured_ns"),
        expected_basis=max((one.expected_basis for one in found), key=EXPECTED_BASES.index),
    )  # fmt: skip


def table_of(rows: Iterable[FleetCell], kind: type[FleetCell] = FleetRow) -> pa.Table:
    """Rows as a table, or cells (``kind``), in their order."""
    import pyarrow as pa

    found = list(rows)
    columns = [_column(list(map(operator.attrgetter(name), found)), hint) for name, hint in _fields(kind)]
    return pa.Table.from_arrays(columns, schema=schema(kind))


def _column(values: list[Any], hint: Any) -> pa.Array:
    """Values as a column. Records are taken apart field by field: a tenth of the time that dicts of them take."""
    import pyarrow as pa

    origin, arguments = get_origin(hint), get_args(hint)
    if origin is dict:
        return pa.array([_EMPTY if not value else _text(value) for value in values], pa.string())
    if origin is tuple and _is_record(arguments[0]):
        ends = pa.array(itertools.accumulate(map(len, values), initial=0), pa.int32())
        return pa.ListArray.from_arrays(ends, _column(list(itertools.chain.from_iterable(values)), arguments[0]))
    if _is_record(hint):
        fields = _fields(hint)
        inner = [_column(list(map(operator.attrgetter(name), values)), of) for name, of in fields]
        return pa.StructArray.from_arrays(inner, fields=list(_arrow(hint)))
    return pa.array(values, _arrow(hint))


_EMPTY = "{}"


def _text(mapping: dict[str, Any]) -> str:
    return msgspec.json.encode(mapping, order="sorted").decode()


def rows_of(table: pa.Table) -> list[FleetRow]:
    """A table as rows."""
    return msgspec.convert(_plain(table), list[FleetRow])


def cells_of(table: pa.Table) -> list[FleetCell]:
    """A table of cells as these; see `rows_of`."""
    return msgspec.convert(_plain(table), list[FleetCell])


def _plain(table: pa.Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.to_pylist()
    for row in found:
        for name in ("sizes", "options"):
            row[name] = {} if row[name] == _EMPTY else msgspec.json.decode(row[name])
    return found


def in_order(table: pa.Table) -> pa.Table:
    """The table sorted by `ORDER`."""
    return table.sort_by([(name, "ascending") for name in ORDER])


def lasting(table: pa.Table) -> pa.Table:
    """The table in order, without what passes: the same for the same answers."""
    return in_order(table.drop_columns(list(PASSING)))


def each_once(
    keys: Sequence[str], status: Sequence[str], started: Sequence[str], pieces: Iterable[pa.Table]
) -> Iterator[tuple[pa.Table, np.ndarray]]:
    """Pieces, with `WHICH`, of some rows alone, each once, `SLICE` at most together, and the place of each."""
    import numpy as np
    import pandas as pd
    import pyarrow as pa

    places = pd.Index(keys)
    states, begun = np.asarray(status, dtype=object), np.asarray(started, dtype=object)
    seen = np.zeros(len(places), dtype=bool)
    for piece in pieces:
        for start in range(0, len(piece), SLICE):
            part = piece.slice(start, SLICE)
            told = part.select(list(WHICH)).to_pandas()
            at = places.get_indexer(told["key"])
            ours = (at >= 0) & (states[at] == told["status"].to_numpy()) & (begun[at] == told["started"].to_numpy())
            ours &= ~seen[at]
            ours &= ~pd.Series(np.where(ours, at, -1)).duplicated().to_numpy() | ~ours
            kept = np.flatnonzero(ours)
            seen[at[kept]] = True
            if len(kept):
                yield part.take(pa.array(kept)) if len(kept) < len(part) else part, at[kept]


class Patterns:
    """Op types and dtypes of kernels by number, the same number in every piece.

    Attributes:
        names: Both of each number.
    """

    def __init__(self) -> None:
        self.names: list[tuple[str, str]] = []
        self._numbers: dict[tuple[str, str], int] = {}

    def of(self, kernels: pa.StructArray) -> np.ndarray:
        """The number of each."""
        import numpy as np

        pattern, dtype = (kernels.field(name).dictionary_encode() for name in ("pattern", "dtype"))
        words = [(one, other) for one in pattern.dictionary.to_pylist() for other in dtype.dictionary.to_pylist()]
        of = np.asarray(pattern.indices) * len(dtype.dictionary) + np.asarray(dtype.indices)
        places = np.zeros(len(words), dtype="int64")
        for seen in np.unique(of):
            places[seen] = self._numbers.setdefault(words[seen], len(self.names))
            if places[seen] == len(self.names):
                self.names.append(words[seen])
        return np.asarray(places[of])
