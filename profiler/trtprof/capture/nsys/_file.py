"""An nsys export as a file: is it one, can it be read, and its tables as columns of integers, by SQL."""

from __future__ import annotations

import json
import sqlite3
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from trtprof.base.errors import MissingError, UsageError
from trtprof.capture.nsys._tables import Columns, compact

if TYPE_CHECKING:
    import adbc_driver_sqlite.dbapi as adbc

_MAGIC = b"SQLite format 3\0"
_BUSY_SECONDS = 2.0
_BATCH_ROWS = "16384"
_REPORTS = (".nsys-rep", ".qdrep", ".qdstrm")
_TO_EXPORT = "export a capture: nsys export --type sqlite FILE.nsys-rep"
_EXPORT = "nsys export --type sqlite --output {stem}.sqlite {name}"
_AGAIN = "copy it again, or export again: nsys export --type sqlite"
# A file that has none of these tables is no export of nsys, whatever else it holds.
_OWN_TABLES = ("StringIds", "META_DATA_EXPORT", "EXPORT_META_DATA", "NVTX_EVENTS")
_OWN_PREFIX = "CUPTI_ACTIVITY_KIND_"
_DTYPES = {
    "kind": "int8", "event": "int8", "device": "int16",
    **dict.fromkeys(
        ("context", "stream", "name", "short_name", "domain", "grid_x", "grid_y", "grid_z", "block_x", "block_y",
         "block_z", "registers", "static_smem", "dynamic_smem"),
        "int32",
    ),
}  # fmt: skip
"""What columns are kept as where all values fit; all others, and those that do not fit, are int64."""


class TraceFile:
    """An open export; ``tables`` holds the columns of each table."""

    def __init__(self, path: Path, connection: sqlite3.Connection, bulk: adbc.Connection) -> None:
        self.path = path
        self._bulk = bulk
        self._connection = connection
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        self.tables: dict[str, frozenset[str]] = {
            name: frozenset(
                column for (column,) in connection.execute("SELECT name FROM pragma_table_info(?)", (name,))
            )
            for (name,) in names
        }

    def has(self, table: str, column: str) -> bool:
        return column in self.tables.get(table, ())

    def rows(self, query: str, parameters: Sequence[object] = ()) -> list[Any]:
        """The rows of a query: for small tables."""
        return self._connection.execute(query, parameters).fetchall()

    def select(self, table: str, columns: Mapping[str, str], where: Sequence[str] = ()) -> str:
        """SQL for columns of a table, ``source|fallback:default`` each; empty where there is no such table.

        Sources that this version of nsys lacks, and NULL, give the default; a column without one is required.
        """
        there = self.tables.get(table)
        if there is None:
            return ""
        parts = []
        for name, spec in columns.items():
            sources, _, default = spec.partition(":")
            terms = [f'"{source}"' for source in sources.split("|") if source in there]
            if not terms and not default:
                raise self._look_alike(f"table {table} has no column {sources}")
            value = f"coalesce({', '.join([*terms, default or '0'])})" if terms else default
            parts.append(f"{value} AS {name}")
        condition = f" WHERE {' AND '.join(where)}" if where else ""
        return f'SELECT {", ".join(parts)} FROM "{table}"{condition}'  # noqa: S608

    def read(self, names: Iterable[str], *queries: str, texts: dict[bytes, int] | None = None) -> Columns:
        """The integers of the rows of some queries, one behind the other, ``[rows]`` by name.

        The column ``text`` holds texts, which become the numbers that they have in ``texts``.
        """
        import pyarrow as pa

        parts = {name: [np.empty(0, _DTYPES.get(name, "int64"))] for name in names}
        try:
            for query in filter(None, queries):
                with self._bulk.cursor(adbc_stmt_kwargs={"adbc.sqlite.query.batch_rows": _BATCH_ROWS}) as cursor:
                    cursor.execute(query)
                    for batch in cursor.fetch_record_batch():
                        for (name, part), column in zip(parts.items(), batch.columns, strict=True):
                            if name == "text" and texts is not None:
                                words = column.cast(pa.string()).cast(pa.binary()).dictionary_encode()
                                keys = np.array([texts[word] for word in words.dictionary.to_pylist()], np.int64)
                                part.append(keys[words.indices.to_numpy()])
                            else:
                                whole = column.cast(pa.int64(), safe=False).to_numpy()
                                part.append(compact(whole, _DTYPES.get(name, "int64")).copy())
        except (pa.ArrowInvalid, OSError) as error:
            if isinstance(error, pa.ArrowInvalid) or "mismatch" in str(error):
                raise self._look_alike("a column holds something else than integers") from None
            raise _explained(self.path, str(error)) from None
        return {name: np.concatenate(parts.pop(name)) for name in list(parts)}

    def strings(self, ids: Iterable[int]) -> dict[int, str]:
        """The strings of ids of StringIds, as far as they are there."""
        if "StringIds" not in self.tables:
            return {}
        query = "SELECT id, value FROM StringIds WHERE id IN (SELECT value FROM json_each(?))"
        return {int(key): str(value) for key, value in self.rows(query, (json.dumps(list(ids)),))}

    def _look_alike(self, why: str) -> UsageError:
        return UsageError(
            f"{self.path} is not an nsys export as nsys writes it",
            why=why,
            fix="export the .nsys-rep again: nsys export --type sqlite",
        )


@contextmanager
def open_trace(path: Path) -> Iterator[TraceFile]:
    """Open an export to read, and see the same state of it throughout."""
    import adbc_driver_sqlite.dbapi as adbc

    try:
        connection, address = _connect(path, write_ahead=_check_head(path))
        # Both to the end: POSIX drops the locks of a process on a file with the first of its handles that is closed.
        with closing(connection), adbc.connect(address) as bulk:
            trace = TraceFile(path, connection, bulk)
            if not any(name in _OWN_TABLES or name.startswith(_OWN_PREFIX) for name in trace.tables):
                named = ", ".join(sorted(trace.tables)[:5])
                raise UsageError(
                    f"{path} is not an export of nsys",
                    why=f"its tables are others: {named}" if named else "it has no tables",
                    fix=_TO_EXPORT,
                )
            yield trace
    except UnicodeDecodeError as error:
        # What Python makes of a message of SQLite that quotes bytes of a damaged schema.
        raise _explained(path, bytes(error.object).decode("utf-8", "replace")) from None
    except (sqlite3.DatabaseError, adbc.Error) as error:
        raise _explained(path, str(error)) from None


def _check_head(path: Path) -> bool:
    """See from the first bytes and the size whether this is a whole sqlite file; returns whether it keeps a WAL.

    The header of sqlite holds the size of a page at byte 16, the number of pages at byte 28, which counts where the
    numbers at 24 and 92 agree, and at byte 19 a 2 for a write-ahead log
    (https://sqlite.org/fileformat.html#the_database_header).
    """
    try:
        with path.open("rb") as file:
            head = file.read(100)
        size = path.stat().st_size
    except FileNotFoundError:
        raise MissingError(f"there is no file {path}", fix=_TO_EXPORT) from None
    except IsADirectoryError:
        raise UsageError(f"{path} is a folder", why="a file that nsys exported was expected", fix=_TO_EXPORT) from None
    except OSError as error:
        raise MissingError(f"{path} cannot be read", why=error.strerror or str(error), fix=_TO_EXPORT) from None
    if not head.startswith(_MAGIC):
        suffix = next((suffix for suffix in _REPORTS if path.name.endswith(suffix)), "")
        if suffix:
            raise _a_report(path, suffix)
        raise UsageError(
            f"{path} is not an sqlite file" if head else f"{path} is empty",
            why="it does not begin as sqlite files do" if head else "0 bytes: the export was cut short",
            fix=_TO_EXPORT,
        )
    if len(head) < 100:
        return False
    page = struct.unpack(">H", head[16:18])[0]
    page = 1 << 16 if page == 1 else page
    pages, changed, valid = (struct.unpack(">I", head[at : at + 4])[0] for at in (28, 24, 92))
    if changed == valid and size < page * pages:
        raise UsageError(
            f"{path} is cut short",
            why=f"{size} bytes of {page * pages} are there",
            fix=f"{_AGAIN} --force-overwrite true",
        )
    return head[19] == 2


def _a_report(path: Path, suffix: str) -> UsageError:
    stem = path.name.removesuffix(suffix)
    if suffix == ".qdstrm":
        why = "a .qdstrm is what nsys leaves when it cannot make a report of it"
        fix = f"QdstrmImporter -i {path.name} -o {stem}.nsys-rep, then "
        return UsageError(
            f"{path} is a report of nsys", why=why, fix=fix + _EXPORT.format(stem=stem, name=f"{stem}.nsys-rep")
        )
    return UsageError(
        f"{path} is a report of nsys", why="only nsys can read it", fix=_EXPORT.format(stem=stem, name=path.name)
    )


def _connect(path: Path, *, write_ahead: bool) -> tuple[sqlite3.Connection, str]:
    """A connection that reads one state of the file, and the address that it opened.

    With locks first, to see a writer; without them where SQLite cannot lock (a network drive) or would make files
    beside this one (a write-ahead log that is empty), unless there is a log that then would be left out.
    """
    beside = [Path(f"{path}{suffix}") for suffix in ("-wal", "-journal")]
    unfinished = any(file.is_file() and file.stat().st_size for file in beside)
    modes = ("&immutable=1",) if write_ahead else ("", "&immutable=1")
    failure: sqlite3.OperationalError | None = None
    for mode in ("",) if unfinished else modes:
        address = f"file:{quote(str(path.resolve()))}?mode=ro{mode}"
        connection = sqlite3.connect(address, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)
        try:
            connection.execute("BEGIN")
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError as error:
            connection.close()
            failure = failure or error
            if "locked" in str(error):
                break
        except BaseException:
            connection.close()
            raise
        else:
            return connection, address
    raise failure or sqlite3.OperationalError("unable to open database file")


def _explained(path: Path, why: str) -> UsageError:
    """What an error of SQLite means for the file."""
    # The driver of Arrow says what it did, then what SQLite said, then its query.
    why = (why.partition("query: ")[2] or why).partition("\n")[0]
    if "locked" in why or "busy" in why:
        return UsageError(f"{path} is being written", why=why, fix="wait until nsys export is done, then try again")
    if "unable to open" in why or "readonly" in why or "read-only" in why:
        return UsageError(
            f"{path} cannot be opened",
            why=f"{why}: it has a journal beside it, which SQLite must write to finish an interrupted change",
            fix="copy the file and those named like it to a folder where you may write, or export it again",
        )
    return UsageError(f"{path} is damaged", why=why, fix=_AGAIN)
