"""The layer table as CSV: one row a layer, ranked by time lost.

Text cells that a spreadsheet would run as a formula get a leading apostrophe. Lists are joined by
``;``. An empty cell is unknown, which is not 0. The JSON document has the names unchanged.
"""

from __future__ import annotations

import csv
import io

from profiler.records import LayerResult, Run
from profiler.report import ReportOptions, reporter

COLUMNS = (
    "rank", "name", "op_type", "role", "nodes", "measured_ns", "ideal_ns", "attainable_ns", "lost_ns",
    "bound", "runner_up", "flops", "bytes", "dtype", "shapes", "match", "reason", "constant", "kernels", "launches",
    "tensor_flops", "vector_flops", "special_flops", "bytes_read", "bytes_written", "bytes_parameters",
    "work_bound", "work_note",
)  # fmt: skip
"""Names of the columns; ``*_ns`` are nanoseconds, ``flops`` FLOP, ``bytes*`` bytes."""

Cell = str | int | None

# What spreadsheets take for the start of a formula (OWASP, "CSV Injection"), full-width forms included.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


@reporter("csv", suffix=".csv")
def render(run: Run, options: ReportOptions) -> str:  # noqa: ARG001 - a table has nothing to choose
    """The layer table with a header row."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([safe(cell) for cell in _cells(rank, layer)] for rank, layer in enumerate(run.layers, 1))
    return out.getvalue()


def _cells(rank: int, layer: LayerResult) -> tuple[Cell, ...]:
    work = layer.work
    return (
        rank,
        layer.name,
        layer.op_type,
        layer.role,
        ";".join(layer.nodes),
        layer.measured_ns,
        layer.ideal_ns,
        layer.attainable_ns,
        layer.lost_ns,
        layer.bound,
        layer.runner_up,
        layer.flops,
        layer.bytes,
        layer.dtype,
        layer.shapes,
        layer.match,
        layer.reason,
        "true" if layer.constant else "false",
        ";".join(match.kernel for match in layer.kernels),
        sum(match.count for match in layer.kernels),
        work.tensor_flops if work else None,
        work.vector_flops if work else None,
        work.special_flops if work else None,
        work.bytes_read if work else None,
        work.bytes_written if work else None,
        work.bytes_parameters if work else None,
        work.bound if work else None,
        work.note if work else None,
    )


def safe(cell: Cell) -> Cell:
    """A cell that no spreadsheet runs and every reader can read."""
    if not isinstance(cell, str):
        return cell
    # A lone surrogate cannot be written as UTF-8, a NUL ends the cell in many readers.
    cell = cell.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
    return f"'{cell}" if cell.lstrip(" ").startswith(_FORMULA_STARTS) else cell
