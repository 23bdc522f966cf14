"""An nsys export as a file: is it one, can it be read, and its tables as columns of integers.

Python objects for every value of millions of rows cost more than all that follows. So SQLite writes the values of a
chunk of rows into one text per column (``group_concat``) and numpy reads them back: about half the time of fetching
rows, and no more memory than a chunk.
"""

from __future__ import annotations

import sqlite3
import struct
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from profiler.errors import MissingError, UsageError

Ints = npt.NDArray[np.int64]

CHUNK_ROWS = 1 << 16
_MAGIC = b"SQLite format 3\0"
_BUSY_SECONDS = 2.0
_REPORTS = (".nsys-rep", ".qdrep", ".qdstrm")
_EXPORT = "nsys export --type sqlite --output {stem}.sqlite {name}"
# A file that has none of these tables is no export of nsys, whatever else it holds.
_OWN_TABLES = ("StringIds", "META_DATA_EXPORT", "EXPORT_META_DATA", "NVTX_EVENTS")
_OWN_PREFIX = "CUPTI_ACTIVITY_KIND_"
_PLACEHOLDERS = 500


class Column(NamedTuple):
    """Where the values of a column come from.

    Attributes:
        sources: Columns of the table: the first that is there and is not NULL in the row counts.
        default: What stands for NULL, and for a column that the table lacks.
        dtype: What the values are kept as, where they fit; else int64.
        required: Without it the table means something else than in nsys.
    """

    sources: tuple[str, ...]
    default: int = 0
    dtype: str = "int64"
    required: bool = False


class TraceFile:
    """An open export.

    Attributes:
        path: The file.
        tables: The columns of each table.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        names = [str(name) for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        self.tables = {
            name: frozenset(str(row[1]) for row in connection.execute(f"PRAGMA table_info({_quoted(name)})"))
            for name in names
        }

    def rows(self, query: str, parameters: Sequence[object] = ()) -> list[tuple[object, ...]]:
        """The rows of a query: for small tables."""
        return self._connection.execute(query, parameters).fetchall()

    def count(self, table: str) -> int:
        """How many rows a table has; 0 for one that is not there."""
        if table not in self.tables:
            return 0
        return int(self._connection.execute(f"SELECT count(*) FROM {_quoted(table)}").fetchone()[0])  # noqa: S608

    def extreme(self, table: str, column: str, function: str) -> int | None:
        """The ``min`` or ``max`` of a column; None where there is none."""
        if column not in self.tables.get(table, ()):
            return None
        found = self._connection.execute(f"SELECT {function}({_quoted(column)}) FROM {_quoted(table)}").fetchone()[0]  # noqa: S608
        return None if found is None else int(found)

    def read(self, table: str, columns: Mapping[str, Column], where: str = "1") -> dict[str, Any]:
        """Columns of a table, in the order of its rows.

        Args:
            table: Its name. Where there is no such table all columns are empty.
            columns: By the name to give them.
            where: Which rows, in SQL.

        Returns:
            Integers ``[rows]`` by name, of the dtype of the column where they fit, else int64.

        Raises:
            UsageError: A value is no integer, or a column that is required is not there.
        """
        if table not in self.tables:
            return {name: np.empty(0, dtype=column.dtype) for name, column in columns.items()}
        present = {
            name: [_quoted(source) for source in column.sources if source in self.tables[table]]
            for name, column in columns.items()
        }
        for name, column in columns.items():
            if column.required and not present[name]:
                raise UsageError(
                    f"{self.path} is not an nsys export as nsys writes it",
                    why=f"table {table} has no column {column.sources[0]}",
                    fix="export the .nsys-rep again: nsys export --type sqlite",
                )
        # Several sources, or one and the default, are told apart by SQLite; a single one rarely has NULL.
        expressions = {
            name: sources[0] if len(sources) == 1 else f"coalesce({', '.join(sources)})"
            for name, sources in present.items()
            if sources
        }
        parts: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in columns}
        steady: dict[str, int | None] = {name: None for name in columns if name not in expressions}
        for at, bounds in enumerate(self._chunks(table)):
            from_rows = f"FROM {_quoted(table)} NOT INDEXED WHERE rowid > ? AND rowid <= ? AND ({where})"
            # Device, process, most sizes of a block: what does not vary is cheaper to check than to read.
            same = " AND ".join(f"{expressions[n]} IS {_sql(v)}" for n, v in steady.items() if n in expressions)
            varying = [name for name in expressions if name not in steady]
            count, alike, texts = self._texts(from_rows, bounds, same or "1", [expressions[n] for n in varying])
            by_name = dict(zip(varying, texts, strict=True))
            if alike != count:
                steady = {name: None for name in columns if name not in expressions}
                varying = [name for name in expressions if name not in by_name]
                _, _, texts = self._texts(from_rows, bounds, "1", [expressions[n] for n in varying])
                by_name |= dict(zip(varying, texts, strict=True))
            for name, column in columns.items():
                if name in steady:
                    value = steady[name]
                    values: Ints | None = np.full(count, column.default if value is None else value, dtype=np.int64)
                else:
                    values = _integers(by_name[name], count, column.default)
                if values is None:
                    _, _, texts = self._texts(from_rows, bounds, "1", [_whole(expressions[name], column.default)])
                    values = _integers(texts[0], count, column.default)
                if values is None:
                    raise UsageError(
                        f"{self.path} is not an nsys export as nsys writes it",
                        why=f"column {'/'.join(column.sources)} of table {table} holds something else than integers",
                        fix="export the .nsys-rep again: nsys export --type sqlite",
                    )
                if at == 0 and count and name not in steady and bool((values == values[0]).all()):
                    steady[name] = None if by_name[name] is None else int(values[0])
                parts[name].append(compact(values, column.dtype))
        # A column at a time, so that only one is in memory twice.
        return {name: _joined(parts.pop(name), column.dtype) for name, column in columns.items()}

    def _texts(
        self, from_rows: str, bounds: tuple[int, int], same: str, expressions: Sequence[str]
    ) -> tuple[int, int, list[str | None]]:
        """How many rows there are, of how many a condition holds, and the values of expressions, a text each."""
        texts = "".join(f", group_concat({expression})" for expression in expressions)
        count, alike, *found = self._connection.execute(
            f"SELECT count(*), total({same}){texts} {from_rows}", bounds
        ).fetchone()
        return int(count), int(alike), [None if text is None else str(text) for text in found]

    def texts(self, table: str, expression: str, where: str = "1") -> tuple[npt.NDArray[np.int32], list[object]]:
        """An expression of each row, as int32 codes and what each code stands for."""
        codes = _Codes()
        query = f"SELECT {expression} FROM {_quoted(table)} NOT INDEXED WHERE {where} ORDER BY rowid"  # noqa: S608
        try:
            found = self._numbered(query, codes)
        except sqlite3.OperationalError as error:
            if "decode" not in str(error).lower():
                raise
            # A name that is no UTF-8: slower, so only then.
            codes = _Codes()
            with self._lenient():
                found = self._numbered(query, codes)
        return found, list(codes)

    def _numbered(self, query: str, codes: _Codes) -> npt.NDArray[np.int32]:
        return np.fromiter(map(codes.__getitem__, chain.from_iterable(self._connection.execute(query))), dtype=np.int32)

    def strings(self, ids: Iterable[int]) -> dict[int, str]:
        """The strings of ids of StringIds, as far as they are there."""
        wanted = sorted(set(ids))
        found: dict[int, str] = {}
        if "StringIds" not in self.tables:
            return found
        with self._lenient():
            for at in range(0, len(wanted), _PLACEHOLDERS):
                some = wanted[at : at + _PLACEHOLDERS]
                marks = ", ".join("?" * len(some))
                query = f"SELECT id, value FROM StringIds WHERE id IN ({marks})"  # noqa: S608
                found.update((int(key), str(value)) for key, value in self._connection.execute(query, some))
        return found

    @contextmanager
    def _lenient(self) -> Iterator[None]:
        self._connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        try:
            yield
        finally:
            self._connection.text_factory = str

    def _chunks(self, table: str) -> Iterator[tuple[int, int]]:
        """Bounds of row ids, each around `CHUNK_ROWS` rows: above the first, up to the second."""
        last = self._extreme_row(table, "max")
        first = self._extreme_row(table, "min")
        if first is None or last is None:
            return
        below = first - 1
        query = f"SELECT rowid FROM {_quoted(table)} WHERE rowid > ? ORDER BY rowid LIMIT 1 OFFSET ?"  # noqa: S608
        while below < last:
            found = self._connection.execute(query, (below, CHUNK_ROWS - 1)).fetchone()
            upper = last if found is None else int(found[0])
            yield below, upper
            below = upper

    def has_values(self, table: str, column: str, where: str = "1") -> bool:
        """Whether a column is there and not NULL in some row of those."""
        if column not in self.tables.get(table, ()):
            return False
        query = f"SELECT 1 FROM {_quoted(table)} WHERE {_quoted(column)} IS NOT NULL AND ({where}) LIMIT 1"  # noqa: S608
        return self._connection.execute(query).fetchone() is not None

    def _extreme_row(self, table: str, function: str) -> int | None:
        """The lowest (``min``) or highest (``max``) row id of a table; None where it has no rows."""
        found = self._connection.execute(f"SELECT {function}(rowid) FROM {_quoted(table)}").fetchone()[0]  # noqa: S608
        return None if found is None else int(found)


@contextmanager
def open_trace(path: Path) -> Iterator[TraceFile]:
    """Open an export to read, and see the same state of it throughout.

    Nothing is written, not even a file beside it, so an export in a read-only folder can be read whatever its journal
    mode. Only where a write-ahead log holds changes that are not yet in the file does SQLite need its index.

    Raises:
        MissingError: There is no such file, or it may not be read.
        UsageError: It is no export of nsys to sqlite, is damaged, or is being written.
    """
    write_ahead = _check_head(path)
    try:
        connection = _connect(path, write_ahead=write_ahead)
        try:
            trace = TraceFile(path, connection)
            if not any(name in _OWN_TABLES or name.startswith(_OWN_PREFIX) for name in trace.tables):
                named = ", ".join(sorted(trace.tables)[:5])
                raise UsageError(
                    f"{path} is not an export of nsys",
                    why=f"its tables are others: {named}" if named else "it has no tables",
                    fix="export a capture: nsys export --type sqlite FILE.nsys-rep",
                )
            yield trace
        finally:
            connection.close()
    except UnicodeDecodeError as error:
        # What Python makes of a message of SQLite that quotes bytes of a damaged schema.
        raise _explained(path, bytes(error.object).decode("utf-8", "replace")) from None
    except sqlite3.DatabaseError as error:
        raise _explained(path, str(error)) from None


def _check_head(path: Path) -> bool:
    """See from the first bytes and the size whether this is a whole sqlite file; returns whether it keeps a WAL.

    The header of sqlite holds the size of a page at byte 16, the number of pages at byte 28, which counts where the
    numbers at 24 and 92 agree, and at byte 19 a 2 for a write-ahead log
    (https://sqlite.org/fileformat.html#the_database_header).
    """
    export = "export a capture: nsys export --type sqlite FILE.nsys-rep"
    try:
        if path.is_dir():
            raise UsageError(f"{path} is a folder", why="a file that nsys exported was expected", fix=export)
        with path.open("rb") as file:
            head = file.read(100)
        size = path.stat().st_size
    except FileNotFoundError:
        raise MissingError(f"there is no file {path}", fix=export) from None
    except OSError as error:
        raise MissingError(f"{path} cannot be read", why=error.strerror or str(error), fix=export) from None
    if not head.startswith(_MAGIC):
        suffix = next((suffix for suffix in _REPORTS if path.name.endswith(suffix)), "")
        if suffix:
            raise _a_report(path.name, path.name.removesuffix(suffix), f"{path} is a report of nsys")
        raise UsageError(
            f"{path} is not an sqlite file" if head else f"{path} is empty",
            why="it does not begin as sqlite files do" if head else "0 bytes: the export was cut short",
            fix=export,
        )
    if len(head) == 100:
        page = struct.unpack(">H", head[16:18])[0]
        page = 1 << 16 if page == 1 else page
        pages, changed, valid = (struct.unpack(">I", head[at : at + 4])[0] for at in (28, 24, 92))
        if changed == valid and size < page * pages:
            raise UsageError(
                f"{path} is cut short",
                why=f"{size} bytes of {page * pages} are there",
                fix="copy it again, or export again: nsys export --type sqlite --force-overwrite true",
            )
    return len(head) == 100 and head[19] == 2


def _a_report(name: str, stem: str, what: str) -> UsageError:
    if name.endswith(".qdstrm"):
        export = _EXPORT.format(stem=stem, name=f"{stem}.nsys-rep")
        return UsageError(
            what,
            why="a .qdstrm is what nsys leaves when it cannot make a report of it",
            fix=f"QdstrmImporter -i {name} -o {stem}.nsys-rep, then {export}",
        )
    return UsageError(what, why="only nsys can read it", fix=_EXPORT.format(stem=stem, name=name))


def _connect(path: Path, *, write_ahead: bool) -> sqlite3.Connection:
    """A connection that reads one state of the file.

    With locks first, to see a writer; without them where SQLite cannot lock (a network drive) or would make files
    beside this one (a write-ahead log that is empty), unless there is a log that then would be left out.
    """
    failure: sqlite3.OperationalError | None = None
    unfinished = any(
        beside.is_file() and beside.stat().st_size for beside in (Path(f"{path}-wal"), Path(f"{path}-journal"))
    )
    immutable = "mode=ro&immutable=1"
    for mode in ("mode=ro",) if unfinished else (immutable,) if write_ahead else ("mode=ro", immutable):
        connection = sqlite3.connect(
            f"file:{quote(str(path.resolve()))}?{mode}", uri=True, timeout=_BUSY_SECONDS, isolation_level=None
        )
        try:
            connection.execute("PRAGMA temp_store = MEMORY")
            connection.execute("BEGIN")
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError as error:
            connection.close()
            failure = failure or error
            if "locked" in str(error) or "busy" in str(error):
                break
        except BaseException:
            connection.close()
            raise
        else:
            return connection
    raise failure or sqlite3.OperationalError("unable to open database file")


def _explained(path: Path, why: str) -> UsageError:
    """What an error of SQLite means for the file."""
    if "locked" in why or "busy" in why:
        return UsageError(f"{path} is being written", why=why, fix="wait until nsys export is done, then try again")
    if "unable to open" in why or "readonly" in why or "read-only" in why:
        return UsageError(
            f"{path} cannot be opened",
            why=f"{why}: it has a journal beside it, which SQLite must write to finish an interrupted change",
            fix="copy the file and those named like it to a folder where you may write, or export it again",
        )
    return UsageError(f"{path} is damaged", why=why, fix="copy it again, or export again: nsys export --type sqlite")


class _Codes(dict[object, int]):
    """Numbers values in the order in which they are first asked for."""

    def __missing__(self, value: object) -> int:
        self[value] = len(self)
        return self[value]


def compact(values: npt.NDArray[Any], dtype: str) -> npt.NDArray[Any]:
    """Values as ``dtype`` where all fit, else as they are."""
    if dtype == "int64" or not len(values):
        return values.astype(dtype, copy=False)
    limits = np.iinfo(dtype)
    fits = int(values.min()) >= limits.min and int(values.max()) <= limits.max
    return values.astype(dtype) if fits else values


def _joined(parts: Sequence[npt.NDArray[Any]], dtype: str) -> npt.NDArray[Any]:
    return np.concatenate(parts) if parts else np.empty(0, dtype=dtype)


def _integers(text: str | None, count: int, default: int) -> Ints | None:
    """The integers of a text; None where they are not ``count`` or are no integers."""
    if text is None:
        return np.full(count, default, dtype=np.int64)
    with warnings.catch_warnings():
        # numpy warns of text that is no number, and means to raise ValueError some day.
        warnings.simplefilter("error", DeprecationWarning)
        try:
            values = np.fromstring(text, dtype=np.int64, sep=",")
        except (DeprecationWarning, ValueError):
            return None
    return values if len(values) == count else None


def _whole(expression: str, default: int) -> str:
    """An expression without NULL, and without the real numbers that files written by hand have for integers."""
    kinds = f"WHEN 'null' THEN {default} WHEN 'real' THEN CAST({expression} AS INTEGER)"
    return f"CASE typeof({expression}) {kinds} ELSE {expression} END"


def _sql(value: int | None) -> str:
    return "NULL" if value is None else str(value)


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'
