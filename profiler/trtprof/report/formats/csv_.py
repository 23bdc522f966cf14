"""A table of a document as CSV (`tables`): of a run by default one row a layer, ranked by time lost.

Text cells that a spreadsheet would run as a formula get a leading apostrophe. Lists are joined by
``;``. An empty cell is unknown, which is not 0. The JSON document has the names unchanged.
"""

from __future__ import annotations

import csv
import io

from trtprof.base.records import Record
from trtprof.report import ReportOptions, reporter, tables

Cell = str | int | float | None

# What spreadsheets take for the start of a formula (OWASP, "CSV Injection"), full-width forms included.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


@reporter("csv", suffix=".csv", tables=True)
def render(found: Record, options: ReportOptions) -> str:
    """The table that ``options.table`` names, with a header row and exact numbers."""
    table = tables.table_of(options.table, type(found))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(safe(column.name) for column in table.columns(found))
    writer.writerows([safe(_plain(cell)) for cell in row] for row in table.rows(found))
    return out.getvalue()


def _plain(cell: tables.Cell) -> Cell:
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return ";".join(cell) if isinstance(cell, tuple) else cell


def safe(cell: Cell) -> Cell:
    """A cell that no spreadsheet runs and every reader can read."""
    if not isinstance(cell, str):
        return cell
    # A lone surrogate cannot be written as UTF-8, a NUL ends the cell in many readers.
    cell = cell.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
    return f"'{cell}" if cell.lstrip(" ").startswith(_FORMULA_STARTS) else cell
