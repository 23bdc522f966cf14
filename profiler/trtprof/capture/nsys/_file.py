"""An nsys export as a file: is it one, can it be read, and its tables as columns of integers.

SQLite opens the file, holds its lock and answers the small questions. Whole columns are read from the pages of the
file (`_trace_pages`), several times as fast as SQLite hands out their values one by one. What is stored in an unusual
way, and a file beside which a journal holds changes that are not yet in it, SQLite reads row by row.
"""

from __future__ import annotations

import io
import os
import sqlite3
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from trtprof.base.errors import MissingError, UsageError
from trtprof.capture.nsys._pages import Bools, Ints, OddValueError, PageFile, Places, UnusualError, whole

CHUNK_ROWS = 1 << 16
_MAGIC = b"SQLite format 3\0"
_BUSY_SECONDS = 2.0
_REPORTS = (".nsys-rep", ".qdrep", ".qdstrm")
_TO_EXPORT = "export a capture: nsys export --type sqlite FILE.nsys-rep"
_EXPORT = "nsys export --type sqlite --output {stem}.sqlite {name}"
# A file that has none of these tables is no export of nsys, whatever else it holds.
_OWN_TABLES = ("StringIds", "META_DATA_EXPORT", "EXPORT_META_DATA", "NVTX_EVENTS")
_OWN_PREFIX = "CUPTI_ACTIVITY_KIND_"
_PLACEHOLDERS = 500
_SPARE = 1.05


class _Numbers(dict[bytes, int]):
    def __missing__(self, text: bytes) -> int:
        self[text] = len(self)
        return self[text]


class Texts:
    """Numbers texts in the order in which they first come.

    Attributes:
        values: What each number stands for.
    """

    def __init__(self) -> None:
        self._numbers = _Numbers()

    def number(self, texts: Iterable[bytes]) -> Iterable[int]:
        """The numbers of some texts."""
        return map(self._numbers.__getitem__, texts)

    @property
    def values(self) -> list[str]:
        return [text.decode("utf-8", "replace") for text in self._numbers]


class Column(NamedTuple):
    """Where the values of a column come from.

    Attributes:
        sources: Columns of the table: the first that is there and is not NULL in the row counts.
        default: What stands for NULL, and for a column that the table lacks.
        dtype: What the values are kept as, where they fit; else int64.
        required: Without it the table means something else than in nsys.
        texts: Where the column holds texts: what numbers them. The values are these numbers.
    """

    sources: tuple[str, ...]
    default: int = 0
    dtype: str = "int64"
    required: bool = False
    texts: Texts | None = None


class _Rows(Protocol):
    """Some rows of a table, of which columns are taken one by one: see `_trace_pages.PageRows`."""

    count: int
    share: float

    def integers(self, name: str) -> tuple[Ints, Bools | None]: ...

    def texts(self, name: str) -> tuple[Places, list[bytes]]: ...


class TraceFile:
    """An open export.

    Attributes:
        path: The file.
        tables: The columns of each table.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, pages: PageFile | None) -> None:
        """List the tables.

        Args:
            pages: The same, to read pages of; None where they do not hold all.
        """
        self.path = path
        self._connection, self._pages = connection, pages
        found = connection.execute("SELECT name, rootpage FROM sqlite_master WHERE type = 'table'").fetchall()
        # A virtual table has none.
        self._roots = {str(name): root if isinstance(root, int) else 0 for name, root in found}
        self.tables = {
            name: frozenset(str(row[1]) for row in connection.execute(f"PRAGMA table_info({_quoted(name)})"))
            for name in self._roots
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

    def read(
        self,
        table: str,
        columns: Mapping[str, Column],
        keep: Callable[[Mapping[str, Any]], Bools | None] | None = None,
    ) -> dict[str, Any]:
        """Columns of a table, in the order of its rows.

        Args:
            table: Its name. Where there is no such table all columns are empty.
            keep: Which rows of some columns to keep; None for all.

        Returns:
            Integers ``[rows]`` by name, of the dtype of the column where they fit, else int64.
        """
        there = self.tables.get(table)
        if there is None:
            return {name: np.empty(0, dtype=column.dtype) for name, column in columns.items()}
        for column in columns.values():
            if column.required and not there.intersection(column.sources):
                raise self._look_alike(f"table {table} has no column {column.sources[0]}")
        sources = sorted({source for column in columns.values() for source in column.sources if source in there})
        try:
            try:
                return self._columns(self._from_pages(table, sources), there, columns, keep)
            except UnusualError:
                return self._columns(self._from_rows(table, sources), there, columns, keep)
        except _OddColumnError as error:
            raise self._look_alike(f"column {error} of table {table} holds something else than {error.kind}") from None

    def _columns(
        self,
        chunks: Iterable[_Rows],
        there: frozenset[str],
        columns: Mapping[str, Column],
        keep: Callable[[Mapping[str, Any]], Bools | None] | None,
    ) -> dict[str, Any]:
        parts = {name: _Growing(column.dtype) for name, column in columns.items()}
        for rows in chunks:
            found = {
                name: compact(_values(rows, column, [each for each in column.sources if each in there]), column.dtype)
                for name, column in columns.items()
            }
            kept = None if keep is None else keep(found)
            for name, values in found.items():
                parts[name].add(values if kept is None or kept.all() else values[kept], rows.share)
        return {name: part.values for name, part in parts.items()}

    def _from_pages(self, table: str, wanted: Sequence[str]) -> Iterator[_Rows]:
        if self._pages is None:
            raise UnusualError
        names = []
        for _, name, _, _, default, key, hidden in self._connection.execute(f"PRAGMA table_xinfo({_quoted(table)})"):
            # In no row is a generated column, a key that is the id of the row, or the default of a column added later.
            if hidden or (name in wanted and (key or default is not None)):
                raise UnusualError
            names.append(str(name))
        yield from self._pages.rows(self._roots[table], names)

    def _from_rows(self, table: str, wanted: Sequence[str]) -> Iterator[_Rows]:
        names = ", ".join(map(_quoted, wanted)) or "NULL"
        cursor = self._connection.cursor()
        self._connection.text_factory = bytes
        try:
            cursor.execute(f"SELECT {names} FROM {_quoted(table)} NOT INDEXED")  # noqa: S608
            while rows := cursor.fetchmany(CHUNK_ROWS):
                yield _FetchedRows(rows, wanted)
        finally:
            self._connection.text_factory = str

    def _look_alike(self, why: str) -> UsageError:
        return UsageError(
            f"{self.path} is not an nsys export as nsys writes it",
            why=why,
            fix="export the .nsys-rep again: nsys export --type sqlite",
        )

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


class _OddColumnError(Exception):
    """A column has values of another kind."""

    def __init__(self, column: str, kind: str) -> None:
        super().__init__(column)
        self.kind = kind


class _FetchedRows:
    """Rows that SQLite has read; texts are bytes."""

    def __init__(self, rows: Sequence[tuple[object, ...]], names: Sequence[str]) -> None:
        self.count, self.share = len(rows), 0.5
        self._columns = dict(zip(names, zip(*rows, strict=True), strict=False))

    def integers(self, name: str) -> tuple[Ints, Bools | None]:
        values = self._columns[name]
        kinds = set(map(type, values))
        if not kinds <= {int, float, type(None)}:
            raise OddValueError
        if float in kinds:
            values = tuple(int(whole(np.array([value]))[0]) if isinstance(value, float) else value for value in values)
        null = np.array([value is None for value in values], dtype=np.bool_)
        found = np.array([0 if value is None else value for value in values], dtype=np.int64)
        return found, null if null.any() else None

    def texts(self, name: str) -> tuple[Places, list[bytes]]:
        values = self._columns[name]
        if not set(map(type, values)) <= {bytes, type(None)}:
            raise OddValueError
        numbers: dict[object, int] = {}
        found = [-1 if value is None else numbers.setdefault(value, len(numbers)) for value in values]
        return np.array(found, dtype=np.intp), [bytes(value) for value in numbers if isinstance(value, bytes)]


class _Growing:
    """A column that more and more is added to, in memory for as much as is likely to come: what is not used is free."""

    def __init__(self, dtype: str) -> None:
        self._values: npt.NDArray[Any] = np.empty(0, dtype=dtype)
        self._count = 0

    def add(self, values: npt.NDArray[Any], share: float) -> None:
        """Add values, with which there is a share of all."""
        end = self._count + len(values)
        dtype = np.promote_types(self._values.dtype, values.dtype)
        if end > len(self._values) or dtype != self._values.dtype:
            grown = np.empty(end if share >= 1 else int(end / share * _SPARE), dtype=dtype)
            grown[: self._count] = self._values[: self._count]
            self._values = grown
        self._values[self._count : end] = values
        self._count = end

    @property
    def values(self) -> npt.NDArray[Any]:
        return self._values[: self._count]


def _values(rows: _Rows, column: Column, sources: Sequence[str]) -> Ints:
    """The values of a column: those of the first source, and where these are NULL of the next."""
    found: Ints | None = None
    null: Bools | None = None
    for source in sources:
        try:
            values, missing = rows.integers(source) if column.texts is None else _texts(rows, source, column.texts)
        except OddValueError:
            raise _OddColumnError(source, "integers" if column.texts is None else "texts") from None
        if found is None or null is None:
            found, null = values, missing
        else:
            found = np.where(null, values, found)
            null = null if missing is None else null & missing
        if null is None:
            return found
    if found is None or null is None:
        return np.full(rows.count, column.default, dtype=np.int64)
    return np.where(null, column.default, found)


def _texts(rows: _Rows, source: str, texts: Texts) -> tuple[Ints, Bools | None]:
    numbers, values = rows.texts(source)
    null = numbers < 0
    # A -1 leads to the last place.
    known = np.array([*texts.number(values), -1], dtype=np.int64)
    return known[numbers], null if null.any() else None


@contextmanager
def open_trace(path: Path) -> Iterator[TraceFile]:
    """Open an export to read, and see the same state of it throughout."""
    # Not closed before the connection is: that would drop the lock, which belongs to the process and not to the handle.
    with _opened(path) as file:
        write_ahead = _check_head(path, file)
        try:
            connection = _connect(path, write_ahead=write_ahead)
            try:
                trace = TraceFile(path, connection, _pages(path, file))
                if not any(name in _OWN_TABLES or name.startswith(_OWN_PREFIX) for name in trace.tables):
                    named = ", ".join(sorted(trace.tables)[:5])
                    raise UsageError(
                        f"{path} is not an export of nsys",
                        why=f"its tables are others: {named}" if named else "it has no tables",
                        fix=_TO_EXPORT,
                    )
                yield trace
            finally:
                connection.close()
        except UnicodeDecodeError as error:
            # What Python makes of a message of SQLite that quotes bytes of a damaged schema.
            raise _explained(path, bytes(error.object).decode("utf-8", "replace")) from None
        except sqlite3.DatabaseError as error:
            raise _explained(path, str(error)) from None


def _opened(path: Path) -> io.FileIO:
    try:
        if path.is_dir():
            raise UsageError(f"{path} is a folder", why="a file that nsys exported was expected", fix=_TO_EXPORT)
        return path.open("rb", buffering=0)
    except FileNotFoundError:
        raise MissingError(f"there is no file {path}", fix=_TO_EXPORT) from None
    except OSError as error:
        raise MissingError(f"{path} cannot be read", why=error.strerror or str(error), fix=_TO_EXPORT) from None


def _pages(path: Path, file: io.FileIO) -> PageFile | None:
    """The pages of a file that is locked; None where another file took its place, or they do not hold all."""
    try:
        same = os.path.samestat(os.fstat(file.fileno()), path.stat())
        return PageFile(file) if same and not _unfinished(path) else None
    except (UnusualError, OSError):
        return None


def _unfinished(path: Path) -> bool:
    """Whether a journal beside the file holds changes that are not in it, or has to be undone."""
    return any(beside.is_file() and beside.stat().st_size for beside in (Path(f"{path}-wal"), Path(f"{path}-journal")))


def _check_head(path: Path, file: io.FileIO) -> bool:
    """See from the first bytes and the size whether this is a whole sqlite file; returns whether it keeps a WAL.

    The header of sqlite holds the size of a page at byte 16, the number of pages at byte 28, which counts where the
    numbers at 24 and 92 agree, and at byte 19 a 2 for a write-ahead log
    (https://sqlite.org/fileformat.html#the_database_header).
    """
    try:
        head = file.read(100)
        size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise MissingError(f"{path} cannot be read", why=error.strerror or str(error), fix=_TO_EXPORT) from None
    if not head.startswith(_MAGIC):
        suffix = next((suffix for suffix in _REPORTS if path.name.endswith(suffix)), "")
        if suffix:
            raise _a_report(path.name, path.name.removesuffix(suffix), f"{path} is a report of nsys")
        raise UsageError(
            f"{path} is not an sqlite file" if head else f"{path} is empty",
            why="it does not begin as sqlite files do" if head else "0 bytes: the export was cut short",
            fix=_TO_EXPORT,
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
    unfinished = _unfinished(path)
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


def compact(values: npt.NDArray[Any], dtype: str) -> npt.NDArray[Any]:
    """Values as ``dtype`` where all fit, else as they are."""
    if dtype == "int64" or not len(values):
        return values.astype(dtype, copy=False)
    limits = np.iinfo(dtype)
    fits = int(values.min()) >= limits.min and int(values.max()) <= limits.max
    return values.astype(dtype) if fits else values


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'
