"""A table of a document as Parquet (`tables`), for pandas, DuckDB, Polars and the like.

Columns are typed: integers of 64 bits, lists of strings. What a column means, its unit and whether it is a fact or an
estimate are metadata of its field; what a row is, and of which run, those of the schema. A null is unknown, which is
not 0.
"""

from __future__ import annotations

import io

from trtprof.base.errors import TrtprofError
from trtprof.base.records import SCHEMA_VERSION, Record, Run
from trtprof.report import ReportOptions, reporter, tables


@reporter("parquet", suffix=".parquet", binary=True, tables=True)
def render(found: Record, options: ReportOptions) -> bytes:
    """The table that ``options.table`` names. One version of pyarrow writes the same bytes for the same record."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = tables.table_of(options.table, type(found))
    types = {
        "str": pa.string(),
        "int": pa.int64(),
        "float": pa.float64(),
        "bool": pa.bool_(),
        "list": pa.list_(pa.string()),
    }
    described = table.columns(found)
    fields = [
        pa.field(
            column.name,
            types[column.type],
            metadata={"unit": column.unit, "kind": column.kind, "meaning": column.meaning},
        )
        for column in described
    ]
    about = {
        "table": table.name,
        "row": table.meaning,
        "schema_version": str(getattr(found, "schema_version", SCHEMA_VERSION)),
    }
    if isinstance(found, Run):
        about |= {"trtprof": found.versions.get("trtprof", ""), "model": found.model.name, "created": found.created}
    schema = pa.schema(fields, metadata={f"trtprof.{key}": _text(value) for key, value in about.items()})
    columns: list[list[tables.Cell]] = [[] for _ in described]
    for row in table.rows(found):
        for cells, cell in zip(columns, row, strict=True):
            cells.append(_plain(cell))
    arrays = []
    for cells, field in zip(columns, fields, strict=True):
        try:
            arrays.append(pa.array(cells, type=field.type))
        except (OverflowError, pa.ArrowInvalid):
            raise TrtprofError(
                f"the table {table.name} cannot be written as Parquet",
                why=f"a number of its column {field.name} has more than 64 bits",
                fix="write it as CSV, which has numbers of any size",
            ) from None
    out = io.BytesIO()
    pq.write_table(pa.Table.from_arrays(arrays, schema=schema), out, compression="zstd")
    return out.getvalue()


def _plain(cell: tables.Cell) -> tables.Cell:
    if isinstance(cell, tuple):
        return tuple(map(_text, cell))
    return _text(cell) if isinstance(cell, str) else cell


def _text(text: str) -> str:
    """A lone surrogate cannot be written as UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()
