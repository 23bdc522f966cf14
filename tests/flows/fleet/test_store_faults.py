"""What befalls the files of a fleet: damage, a full disk, a kill between two steps, a reader beside who folds."""

from __future__ import annotations

import errno
import itertools
import re
import resource
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from tests.fakes import fleets
from trtprof.base import fleet_table
from trtprof.base.errors import MissingError, TrtprofError
from trtprof.base.records import SCHEMA_VERSION, FleetRow
from trtprof.flows.fleet.cells import Asked
from trtprof.flows.fleet.store import State, Store

pytestmark = pytest.mark.nightly

ROWS = fleets.rows(models=2, sizes=2)
CELLS = list(fleets.cells(models=2, sizes=2))
ASKED = Asked(schema_version=SCHEMA_VERSION, name="ours", models=(), targets=())


def done(row: FleetRow, **changed: Any) -> FleetRow:
    return msgspec.structs.replace(row, status="done", error="", **changed)


def failed(row: FleetRow, **changed: Any) -> FleetRow:
    return msgspec.structs.replace(row, status="failed", error="it broke", **changed)


def part_of(folder: Path, row: FleetRow = ROWS[0]) -> Path:
    return folder / "parts" / f"{row.key}.parquet"


def read(folder: Path) -> list[FleetRow]:
    return fleet_table.rows_of(Store(str(folder)).table())


def expected(rows: list[FleetRow]) -> list[FleetRow]:
    return fleet_table.rows_of(fleet_table.in_order(fleet_table.table_of(rows)))


def _of_another_version(path: Path) -> None:
    table = fleet_table.table_of(ROWS[:1])
    pq.write_table(table.replace_schema_metadata({fleet_table.MARK: "2"}), path)


def _of_other_columns(path: Path) -> None:
    table = fleet_table.table_of(ROWS[:1]).drop_columns(["kernels"])
    pq.write_table(table, path)


def _a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "in").touch()


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "cut short": (lambda path: path.write_bytes(path.read_bytes()[:-100]), "not what was written"),
    "text": (lambda path: path.write_text("this is no table\n" * 9), "magic bytes"),
    "a row of another cell": (lambda path: shutil.copy(part_of(path.parents[1], ROWS[1]), path), "of another cell"),
    "another version": (_of_another_version, f"has version 2, this trtprof reads {fleet_table.VERSION}"),
    "other columns": (_of_other_columns, "other columns"),
    "a folder": (_a_folder, "it is no file"),
}


def test_a_damaged_part_is_set_aside_and_its_cell_is_not_there(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for what, (damage, said) in DAMAGE.items():
        with subtests.test(what):
            folder = tmp_path / what
            told: list[str] = []
            store = Store(str(folder), say=told.append)
            store.put(ROWS)
            damage(part_of(folder))
            assert store.finished([ROWS[0].key]) == State(frozenset(), frozenset())
            assert ROWS[0].key not in store.state().done | store.state().failed
            assert read(folder) == expected(ROWS[1:])
            assert len(told) == 1
            assert part_of(folder).name in told[0]
            assert re.search(said, told[0]), told
            assert [path.name for path in (folder / "corrupt").iterdir()] == [f"parts-{part_of(folder).name}"]
            store.put(ROWS[:1])
            assert read(folder) == expected(ROWS)


@contextmanager
def _full() -> Iterator[None]:
    """No file may grow beyond some bytes: the kernel refuses writes as those to a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


WRITES: dict[str, Callable[[Store], object]] = {
    "keep": lambda store: store.keep(ASKED, CELLS[:5]),
    "put": lambda store: store.put([done(row, seconds=1.0) for row in ROWS]),
    "fold": lambda store: store.fold(least=1),
    "alive": lambda store: store.alive(),
}


def test_a_full_disk_is_told_and_nothing_is_lost(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for what, write in WRITES.items():
        with subtests.test(what):
            folder = tmp_path / what
            store = Store(str(folder), "me")
            store.keep(ASKED, CELLS)
            store.put(ROWS)
            if what == "fold":
                store.alive()
            with _full(), pytest.raises(MissingError) as raised:
                write(store)
            assert str(folder) in raised.value.what
            assert raised.value.why == "File too large"
            assert "make room" in raised.value.fix
            assert Store(str(folder)).asked() == (ASKED, CELLS)
            assert read(folder) == expected(ROWS)
            assert not list(folder.rglob("*.part"))
            write(store)


class _Breaking:
    """A file system whose ``at``-th change fails, or that is killed before it."""

    def __init__(self, system: pafs.FileSystem, at: int, error: BaseException) -> None:
        self._system, self._left, self._error = system, at, error

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._system, name)
        if name not in ("open_output_stream", "move", "delete_file", "delete_dir"):
            return found

        def counted(*given: Any) -> Any:
            self._left -= 1
            if self._left == 0 or (self._left < 0 and not isinstance(self._error, OSError)):
                raise self._error
            return found(*given)

        return counted


FULL, KILLED = OSError(errno.ENOSPC, "full"), KeyboardInterrupt()


def test_every_step_may_fail_and_nothing_is_lost(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for what in WRITES:
        for error in (FULL, KILLED):
            with subtests.test(what):
                base = tmp_path / f"{what} {type(error).__name__}"
                rows = [done(row) for row in ROWS[:3]] + [failed(ROWS[3])]
                steps: dict[str, Callable[[Store], object]] = {
                    **WRITES,
                    "put": lambda store: store.put([done(row, seconds=1.0) for row in ROWS[:4]]),
                }
                for at in itertools.count(1):
                    folder = base / str(at)
                    store = Store(str(folder), "me")
                    store.keep(ASKED, CELLS)
                    store.put(rows)
                    store._files._system = _Breaking(store._files._system, at, error)
                    told: BaseException | None = None
                    try:
                        steps[what](store)
                    except (TrtprofError, KeyboardInterrupt) as stopped:
                        told = stopped
                    if told is None:
                        break
                    assert error is KILLED or isinstance(told, MissingError)
                    assert getattr(told, "why", "") in ("", "No space left on device")
                    asked, cells = Store(str(folder)).asked()
                    assert (asked, cells) in ((ASKED, CELLS), (ASKED, CELLS[:5]))
                    after = Store(str(folder)).state()
                    assert {row.key for row in rows} == after.done | after.failed
                    assert {row.key for row in rows[:3]} <= after.done
                    assert {row.key for row in read(folder)} == after.done | after.failed
                    assert not list((folder / "corrupt").glob("*"))
                    # Another one goes on from there.
                    shutil.rmtree(folder / "claims", ignore_errors=True)
                    again = Store(str(folder), "other")
                    steps[what](again)
                    again.fold(least=1)
                    assert len(read(folder)) == len(rows)
                assert at > 1


def test_a_row_that_is_done_beats_one_that_failed_and_then_the_last_to_begin_counts(tmp_path: Path) -> None:
    first, second, third, fourth = (msgspec.structs.replace(row, run="") for row in ROWS[:4])
    orders: list[tuple[FleetRow, FleetRow]] = [
        (failed(first, started="2026-11-22"), done(first, started="2026-11-21")),
        (done(second, started="2026-11-21"), failed(second, started="2026-11-22")),
        (failed(third, started="2026-11-21"), failed(third, started="2026-11-22", log="later")),
        (done(fourth, started="2026-11-22", log="later"), done(fourth, started="2026-11-21")),
    ]
    for at, (one, two) in enumerate(orders):
        for old, new in ((one, two), (two, one)):
            folder = tmp_path / f"{at}{old is one}"
            store = Store(str(folder), "me")
            for row in (old, new):  # each in a file of the table
                store._files.write(f"table/{row.started}{row.status}.parquet", _parquet(fleet_table.table_of([row])))
            found = read(folder)
            assert found == [one if at in (1, 3) else two]
            assert len(Store(str(folder)).state().done) == (at != 2)


def _parquet(table: pa.Table) -> bytes:
    from trtprof.flows.fleet import store

    return store._parquet(table)


def test_a_part_that_is_folded_while_it_is_read_is_found_in_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, reader = Store(str(tmp_path), "me"), Store(str(tmp_path))
    store.put(ROWS)
    listing = reader._files.listing

    def late(folder: str) -> Any:
        found = listing(folder)
        if folder == "table" and list((tmp_path / "parts").iterdir()):
            store.fold(least=1)
        return found

    monkeypatch.setattr(reader._files, "listing", late)
    assert fleet_table.rows_of(reader.table()) == expected(ROWS)
    assert list((tmp_path / "parts").iterdir()) == []
