"""Columns read from the pages of a file against the rows that SQLite reads of it."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fakes.support import captured
from tests.fakes.trace_factory import CALLS, ENGINE, ERAS, KERNELS, NVTX, Process, write_trace
from trtprof.base.trace import GpuTrace
from trtprof.capture.nsys import _pages as _trace_pages
from trtprof.capture.nsys._file import Column, Texts, TraceFile, open_trace
from trtprof.capture.nsys._pages import OddValueError, PageFile, UnusualError
from trtprof.capture.nsys.trace import read_trace

NUMBERS = st.one_of(
    st.none(),
    st.sampled_from([0, 1, -1, 127, 128, -128, -129, 1 << 15, 1 << 23, 1 << 31, 1 << 47, -(1 << 63), (1 << 63) - 1]),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.integers(-3, 300),
    st.floats(allow_nan=False),
)
# Pages of 512 bytes hold 4 rows at least: texts of more than 100 bytes go on in others.
TEXTS = st.one_of(
    st.none(),
    st.sampled_from(["", "a", "layer", "layer\0", "é" * 40, "x" * 63, "x" * 64, "x" * 65, "x" * 477, "y" * 3000]),
    st.text(max_size=90),
    st.binary(max_size=90),
    st.integers(400, 600).map(lambda length: "z" * length),
)
IDS = st.one_of(st.integers(-(1 << 63), (1 << 63) - 1), st.integers(-5, 40_000))


_EXPECTED = "SELECT CAST(a AS INTEGER), CAST(c AS INTEGER), CAST(d AS INTEGER), b FROM t ORDER BY rowid"


def read(path: Path, table: str, names: list[str]) -> Iterator[_trace_pages.PageRows]:
    with closing(sqlite3.connect(path)) as db:
        (root,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", [table]).fetchone()
    with path.open("rb", buffering=0) as file:
        yield from PageFile(file).rows(root, names)


def as_bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


@given(
    rows=st.lists(st.tuples(IDS, NUMBERS, TEXTS, NUMBERS), max_size=60, unique_by=lambda row: row[0]),
    later=st.lists(st.tuples(IDS, NUMBERS, TEXTS), max_size=5),
    size=st.sampled_from([512, 1024, 4096, 1 << 16]),
    deleted=st.integers(1, 9),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_table_is_read_as_sqlite_reads_it(
    tmp_path: Path,
    rows: list[tuple[int, float | None, str | bytes | None, float | None]],
    later: list[tuple[int, float | None, str | bytes | None]],
    size: int,
    deleted: int,
) -> None:
    path = tmp_path / "any.sqlite"
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA synchronous = OFF")  # nobody waits for the disk
        db.execute(f"PRAGMA page_size = {size}")
        db.execute("CREATE TABLE t (a, b, c)")
        db.execute("CREATE TABLE other (a)")
        for row in rows:
            db.execute("INSERT INTO t (rowid, a, b, c) VALUES (?, ?, ?, ?)", row)
            db.execute("INSERT INTO other VALUES (1)")
        db.execute("DELETE FROM t WHERE rowid % 10 = ?", [deleted])
        db.execute("ALTER TABLE t ADD COLUMN d")
        db.executemany("INSERT OR IGNORE INTO t (rowid, d, b) VALUES (?, ?, ?)", later)
        fetched = db.execute(_EXPECTED).fetchall()
    found: dict[str, list[int | None]] = {name: [] for name in "acd"}
    found_texts: list[bytes | None] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_trace_pages, "CHUNK_BYTES", 1500)
        for chunk in read(path, "t", ["a", "b", "c", "d"]):
            for name, column in found.items():
                values, null = chunk.integers(name)
                missing = np.zeros(len(values), dtype=np.bool_) if null is None else null
                column += [None if no else value for value, no in zip(values.tolist(), missing.tolist(), strict=True)]
            numbers, words = chunk.texts("b")
            assert len(set(words) - {b""}) == len([word for word in words if word])
            found_texts += [None if number < 0 else words[number] for number in numbers.tolist()]
    assert found == {name: [row[at] for row in fetched] for at, name in enumerate("acd")}
    assert found_texts == [as_bytes(row[3]) for row in fetched]


def test_rows_of_many_headers(tmp_path: Path) -> None:
    """Each length of a text makes a header of its own, of one byte more where it is long."""
    path = tmp_path / "headers.sqlite"
    texts = [("x" * at, at) for at in [*range(300), *range(150, -1, -1)]]
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE t (a, b)")
        db.executemany("INSERT INTO t VALUES (?, ?)", texts)
        db.commit()
    (rows,) = read(path, "t", ["a", "b"])
    numbers, words = rows.texts("a")
    assert [(words[number].decode(), at) for number, at in zip(numbers, rows.integers("b")[0], strict=True)] == texts
    assert len(words) == 300


def test_a_column_of_the_other_kind(tmp_path: Path) -> None:
    path = tmp_path / "kinds.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.executescript("CREATE TABLE t (a, b); INSERT INTO t VALUES (1, 'one'), (NULL, NULL)")
    (rows,) = read(path, "t", ["a", "b"])
    with pytest.raises(OddValueError):
        rows.integers("b")
    with pytest.raises(OddValueError):
        rows.texts("a")


def spill(db: sqlite3.Connection) -> int:
    db.execute("CREATE TABLE t (a)")
    db.execute("INSERT INTO t VALUES (?)", ["x" * 9000])
    db.commit()
    (root,) = db.execute("SELECT rootpage FROM sqlite_master").fetchone()
    return int(root)


@pytest.mark.parametrize(("at", "value"), [(0, 2), (0, 10), (3, 255), (8, 0), (8, 255)])
def test_a_page_that_makes_no_sense_is_left_to_sqlite(tmp_path: Path, at: int, value: int) -> None:
    path = tmp_path / "damaged.sqlite"
    with closing(sqlite3.connect(path)) as db:
        root = spill(db)
    data = bytearray(path.read_bytes())
    data[(root - 1) * 4096 + at] = value
    path.write_bytes(data)
    with pytest.raises(UnusualError):
        list(read(path, "t", ["a"]))


@pytest.mark.parametrize("number", [0, 1, 1 << 30])
def test_a_text_that_goes_on_nowhere_is_left_to_sqlite(tmp_path: Path, number: int) -> None:
    path = tmp_path / "damaged.sqlite"
    with closing(sqlite3.connect(path)) as db:
        root = spill(db)
    data = bytearray(path.read_bytes())
    end = root * 4096
    data[end - 4 : end] = number.to_bytes(4, "big")
    path.write_bytes(data)
    with pytest.raises(UnusualError):
        list(read(path, "t", ["a"]))


def no_rows(*_: object) -> None:
    raise AssertionError("SQLite was asked for rows")


def no_pages(*_: object) -> None:
    raise UnusualError


def check_same(one: GpuTrace, other: GpuTrace) -> None:
    for name in ("work", "launches", "ranges", "graph_nodes"):
        mine, theirs = getattr(one, name), getattr(other, name)
        assert list(mine) == list(theirs)
        for column in mine:
            assert mine[column].tolist() == theirs[column].tolist(), (name, column)
    assert one[4:] == other[4:]


PARTS: tuple[dict[str, Any], ...] = ({}, {"pid": 111}, {"device": 1}, {"window": (1_020_000, 1_040_000)})


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("inline", [True, False])
def test_every_schema_is_read_from_its_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, era: str, inline: bool
) -> None:
    path = tmp_path / "trace.sqlite"
    processes = [
        Process(111, ENGINE, correlation=100),
        Process(112, ENGINE, device=1, start_ns=1_000_700),
        Process(113, ENGINE, device=1, start_ns=5_000_000, graph=True),
    ]
    write_trace(path, processes, era=era, inline=inline)
    with monkeypatch.context() as patch:
        patch.setattr(PageFile, "rows", no_pages)
        fetched = [read_trace(path, **part) for part in PARTS]
    monkeypatch.setattr(TraceFile, "_from_rows", no_rows)
    for part, trace in zip(PARTS, fetched, strict=True):
        check_same(read_trace(path, **part), trace)


@pytest.mark.parametrize("name", ["torch_h100_2gpu_2026.2.sqlite", "torch_rtx3080_2026.1.sqlite"])
def test_real_captures_are_read_from_their_pages(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    path = captured("nsys", name)
    with monkeypatch.context() as patch:
        patch.setattr(PageFile, "rows", no_pages)
        fetched = read_trace(path)
    monkeypatch.setattr(TraceFile, "_from_rows", no_rows)
    check_same(read_trace(path), fetched)


def again(path: Path, table: str, made: str, encoding: str) -> None:
    """Write a file again, with one table made in another way."""
    data = path.read_bytes()
    path.unlink()
    with closing(sqlite3.connect(":memory:")) as old, closing(sqlite3.connect(path)) as new:
        old.deserialize(data)
        new.execute(f"PRAGMA encoding = '{encoding}'")
        for name, sql in old.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall():
            columns = [str(row[1]) for row in old.execute(f"PRAGMA table_info({name})")]
            listed = ", ".join(f'"{column}"' for column in columns)
            new.execute(made.format(columns=listed) if name == table else sql)
            rows = old.execute(f"SELECT {listed} FROM {name}")  # noqa: S608
            new.executemany(f"INSERT INTO {name} ({listed}) VALUES ({', '.join('?' * len(columns))})", rows)  # noqa: S608
        new.commit()


@pytest.mark.parametrize(
    ("table", "made", "encoding"),
    [
        (KERNELS, f"CREATE TABLE {KERNELS} ({{columns}}, PRIMARY KEY (start, deviceId)) WITHOUT ROWID", "UTF-8"),
        (KERNELS, f"CREATE TABLE {KERNELS} (twice AS (start * 2), {{columns}})", "UTF-8"),
        (CALLS, f"CREATE TABLE {CALLS} ({{columns}}, PRIMARY KEY (start))", "UTF-8"),
        ("", "", "UTF-16le"),
        ("", "", "UTF-16be"),
    ],
)
def test_what_is_stored_in_another_way_is_read_by_sqlite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str, made: str, encoding: str
) -> None:
    path = tmp_path / "trace.sqlite"
    # Names that fit no page, so that the columns behind them lie in others.
    names = (*ENGINE, ENGINE[0]._replace(name="PWN(" * 3000))
    write_trace(path, [Process(111, names)])
    plain = read_trace(path)
    assert "PWN(" * 3000 in set(plain.ranges["name"])
    again(path, table, made, encoding)
    check_same(read_trace(path), plain)
    monkeypatch.setattr(TraceFile, "_from_rows", no_rows)
    with pytest.raises(AssertionError, match="SQLite was asked"):
        read_trace(path)


def test_a_key_that_is_the_id_of_the_row(tmp_path: Path) -> None:
    path = tmp_path / "keys.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.executescript(
            f"""
            CREATE TABLE {NVTX} (start INTEGER PRIMARY KEY, text TEXT);
            INSERT INTO {NVTX} VALUES (70, 'a'), (20, 'b');
            ALTER TABLE {NVTX} ADD COLUMN later INTEGER DEFAULT 7;
            """  # noqa: S608
        )
    texts = Texts()
    columns = {
        "start": Column(("start",)),
        "later": Column(("none", "later")),
        "text": Column(("text",), default=-1, texts=texts),
    }
    with open_trace(path) as trace:
        found = trace.read(NVTX, columns)
        assert trace.read(NVTX, {"text": columns["text"]}, lambda rows: rows["text"] == 1)["text"].tolist() == [1]
    assert {name: values.tolist() for name, values in found.items()} == {
        "start": [20, 70], "later": [7, 7], "text": [0, 1],
    }  # fmt: skip
    assert texts.values == ["b", "a"]


def test_reals_and_what_is_missing_come_out_alike_either_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "reals.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"CREATE TABLE {NVTX} (a, b, c)")
        rows = [
            (None, 3, "x"),
            (1.9, None, None),
            (-1.9, 1, "y"),
            (1e300, 0, "x"),
            (-1e300, -1, ""),
            (1 << 62, None, ""),
        ]
        db.executemany(f"INSERT INTO {NVTX} VALUES (?, ?, ?)", rows)  # noqa: S608
        db.commit()
    columns = {"first": Column(("a", "b"), default=-7), "last": Column(("b", "a"), default=-7)}

    def found() -> dict[str, list[int]]:
        text = Column(("c",), default=-1, dtype="int8", texts=Texts())
        with open_trace(path) as trace:
            return {name: column.tolist() for name, column in trace.read(NVTX, columns | {"text": text}).items()}

    least, most = -(1 << 63), (1 << 63) - 1
    from_pages = found()
    assert from_pages["first"] == [3, 1, -1, most, least, 1 << 62]
    assert from_pages["last"] == [3, 1, 1, 0, -1, 1 << 62]
    # Which number a text gets is not promised, but that equal ones get the same.
    texts = from_pages.pop("text")
    assert [each < 0 for each in texts] == [False, True, False, False, False, False]
    assert texts[0] == texts[3] != texts[2]
    assert texts[4] == texts[5] not in texts[:4]
    monkeypatch.setattr(PageFile, "rows", no_pages)
    fetched = found()
    assert fetched.pop("text") == [0, -1, 1, 0, 2, 2]
    assert fetched == from_pages


def test_the_lock_lasts_as_long_as_the_file_is_open(tmp_path: Path) -> None:
    """A handle to a file that is closed takes the locks of all handles of its process with it."""
    path = tmp_path / "trace.sqlite"
    write_trace(path, [Process(111, ENGINE)])
    write = (
        f"import sqlite3; sqlite3.connect({str(path)!r}, timeout=0, isolation_level=None).execute('DROP TABLE {CALLS}')"
    )
    with open_trace(path) as trace:
        trace.read(KERNELS, {"start": Column(("start",))})
        done = subprocess.run([sys.executable, "-c", write], capture_output=True, text=True, check=False)
        assert "database is locked" in done.stderr
    assert not subprocess.run([sys.executable, "-c", write], check=False).returncode
