"""A `GpuTrace` in a folder: a Parquet table for each of its frames, and beside them a JSON file with all else.

The frames come back as they were written: columns, dtypes, the order of the rows, and the categories of each
column with their order, whether they occur or not.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from trtprof.base.errors import MissingError, UsageError
from trtprof.base.output_file import replace_file, replaced
from trtprof.base.parquet_file import read_parquet
from trtprof.base.record_file import read_record
from trtprof.base.records import Record
from trtprof.base.trace import GRAPH_COLUMNS, LAUNCH_COLUMNS, RANGE_COLUMNS, WORK_COLUMNS, GpuTrace, TraceGpu

if TYPE_CHECKING:
    import pandas as pd

FACTS_FILE = "gpu_trace.json"
"""What is not a table; written last, so that its presence says that the trace is whole."""

TABLES = {"work": WORK_COLUMNS, "launches": LAUNCH_COLUMNS, "ranges": RANGE_COLUMNS, "graph_nodes": GRAPH_COLUMNS}
"""The frames of a `GpuTrace`, each kept in the file ``gpu_<frame>.parquet``, and their columns."""

FORMAT_VERSION = 1
_FIX = "capture again"


class _Facts(Record, frozen=True, kw_only=True):
    format_version: int
    collector: Literal["nsys", "cupti", "nsys stats"]
    version: str
    window: tuple[int, int] | None
    gpus: tuple[TraceGpu, ...]
    notes: tuple[str, ...]
    rows: dict[str, int]
    categories: dict[str, dict[str, tuple[str, ...]]]
    """Table -> column -> its categories in their order: Parquet keeps only those that occur."""


def table_file(table: str) -> str:
    """The name of the file that a frame of a trace is kept in."""
    return f"gpu_{table}.parquet"


def save_trace(trace: GpuTrace, folder: Path) -> None:
    """Write a trace into a folder; one that lies there already is replaced."""
    facts = folder / FACTS_FILE
    categories: dict[str, dict[str, tuple[str, ...]]] = {}
    rows: dict[str, int] = {}
    try:
        facts.unlink(missing_ok=True)
        for table, columns in TABLES.items():
            frame: pd.DataFrame = getattr(trace, table)
            rows[table] = len(frame)
            categories[table] = {
                column: tuple(map(str, frame[column].cat.categories))
                for column in columns
                if frame[column].dtype.name == "category"
            }
            with replaced(folder / table_file(table)) as beside:
                frame[list(columns)].to_parquet(beside, index=False, compression="zstd")
        found = _Facts(
            format_version=FORMAT_VERSION,
            collector=trace.collector,
            version=trace.version,
            window=trace.window,
            gpus=trace.gpus,
            notes=trace.notes,
            rows=rows,
            categories=categories,
        )
        replace_file(facts, msgspec.json.format(msgspec.json.encode(found), indent=1))
    except OSError as error:
        raise MissingError(
            f"the capture cannot be written to {folder}", why=error.strerror or str(error), fix="free space, or use -o"
        ) from None


def load_trace(folder: Path) -> GpuTrace:
    """Read a trace that `save_trace` wrote."""
    path = folder / FACTS_FILE
    try:
        facts = read_record(path, _Facts, what="what is known of a capture", fix=_FIX)
    except FileNotFoundError:
        raise MissingError(
            f"{folder} holds no capture of a GPU", why=f"there is no {FACTS_FILE} in it", fix=_FIX
        ) from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read", why=error.strerror or str(error), fix=_FIX) from None
    work, launches, ranges, graph_nodes = (_read_table(folder / table_file(table), table, facts) for table in TABLES)
    return GpuTrace(
        work=work,
        launches=launches,
        ranges=ranges,
        graph_nodes=graph_nodes,
        gpus=facts.gpus,
        collector=facts.collector,
        version=facts.version,
        window=facts.window,
        notes=facts.notes,
    )


def _read_table(path: Path, table: str, facts: _Facts) -> pd.DataFrame:
    import pandas as pd

    try:
        frame = read_parquet(path)
    except FileNotFoundError:
        raise MissingError(f"{path} is missing", why=f"{FACTS_FILE} says that it was written", fix=_FIX) from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read", why=(str(error).splitlines() or ["damaged"])[0], fix=_FIX) from None
    columns = list(TABLES[table])
    for column, names in facts.categories.get(table, {}).items():
        kind = pd.CategoricalDtype(pd.Index(names, dtype=object))
        frame[column] = frame[column].astype(object).astype(kind) if not len(frame) else frame[column].astype(kind)
    return frame[columns]
