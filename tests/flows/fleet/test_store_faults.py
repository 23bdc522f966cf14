"""What befalls the files of a fleet: damage, a full disk, a kill between two steps, a reader beside who folds."""

from __future__ import annotations

import errno
import itertools
import os
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
from trtprof.base.scratch import PREFIX
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


def _a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "in").touch()


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty": (lambda path: path.write_bytes(b""), "0 bytes"),
    "cut short": (lambda path: path.write_bytes(path.read_bytes()[:-100]), "not what was written"),
    "half": (lambda path: path.write_bytes(path.read_bytes()[:2000]), "magic bytes|not what was written"),
    "zeros": (lambda path: path.write_bytes(bytes(len(path.read_bytes()))), "magic bytes"),
    "text": (lambda path: path.write_text("this is no table\n" * 9), "magic bytes"),
    "a row of another cell": (lambda path: shutil.copy(part_of(path.parents[1], ROWS[1]), path), "of another cell"),
    "a table of others": (lambda path: pq.write_table(pa.table({"a": [1]}), path), "no table of a fleet"),
    "another version": (_of_another_version, f"has version 2, this trtprof reads {fleet_table.VERSION}"),
    "other columns": (_of_other_columns, "other columns"),
    "written by others": (lambda path: pq.write_table(fleet_table.table_of(ROWS[:1]), path), "has no checksum"),
    "a pipe": (_a_pipe, "it is no file"),
    "a folder": (_a_folder, "it is no file"),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_a_damaged_part_is_set_aside_and_its_cell_is_not_there(tmp_path: Path, what: str) -> None:
    told: list[str] = []
    store = Store(str(tmp_path), say=told.append)
    store.put(ROWS)
    DAMAGE[what][0](part_of(tmp_path))
    assert store.finished([ROWS[0].key]) == State(frozenset(), frozenset())
    assert ROWS[0].key not in store.state().done | store.state().failed
    assert read(tmp_path) == expected(ROWS[1:])
    assert len(told) == 1
    assert part_of(tmp_path).name in told[0]
    assert re.search(DAMAGE[what][1], told[0]), told
    assert [path.name for path in (tmp_path / "corrupt").iterdir()] == [f"parts-{part_of(tmp_path).name}"]
    store.put(ROWS[:1])
    assert read(tmp_path) == expected(ROWS)


def test_what_is_set_aside_twice_is_kept_twice(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    for content in (b"a", b"b", b"c"):
        store.put(ROWS[:1])
        part_of(tmp_path).write_bytes(content)
        store.state()
    assert sorted(path.read_bytes() for path in (tmp_path / "corrupt").iterdir()) == [b"a", b"b", b"c"]


def test_a_damaged_file_of_the_table_is_set_aside(tmp_path: Path) -> None:
    told: list[str] = []
    store = Store(str(tmp_path), say=told.append)
    store.put(ROWS[:10])
    store.fold(least=1)
    store.put(ROWS[10:])
    store.fold(least=1)
    assert len(list((tmp_path / "table").iterdir())) == 2
    of_first = {row.key for row in ROWS[:10]}
    for path in (tmp_path / "table").iterdir():
        if set(pq.read_table(path, columns=["key"])["key"].to_pylist()) == of_first:
            content = bytearray(path.read_bytes())
            content[len(content) // 3] ^= 4
            path.write_bytes(content)
    assert read(tmp_path) == expected(ROWS[10:])
    assert store.finished(of_first) == State(frozenset(), frozenset())
    assert Store(str(tmp_path)).state().done | Store(str(tmp_path)).state().failed == {row.key for row in ROWS[10:]}


@pytest.mark.parametrize("seed", range(4))
def test_no_bit_of_a_part_can_turn_unseen(tmp_path: Path, seed: int) -> None:
    Store(str(tmp_path)).put(ROWS[:1])
    good = part_of(tmp_path).read_bytes()
    for bit in range(seed, len(good) * 8, 811):
        content = bytearray(good)
        content[bit // 8] ^= 1 << bit % 8
        part_of(tmp_path).write_bytes(content)
        assert Store(str(tmp_path)).finished([ROWS[0].key]) == State(frozenset(), frozenset()), bit


def test_what_cannot_be_set_aside_is_left_out_with_a_sentence(tmp_path: Path) -> None:
    told: list[str] = []
    store = Store(str(tmp_path), say=told.append)
    store.put(ROWS)
    part_of(tmp_path).write_bytes(b"?")
    (tmp_path / "corrupt").write_bytes(b"in the way")
    assert ROWS[0].key not in store.state().done
    assert "left where it is (Not a directory)" in told[0]
    assert part_of(tmp_path).read_bytes() == b"?"


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


@pytest.mark.parametrize("what", WRITES)
def test_a_full_disk_is_told_and_nothing_is_lost(tmp_path: Path, what: str) -> None:
    store = Store(str(tmp_path), "me")
    store.keep(ASKED, CELLS)
    store.put(ROWS)
    if what == "fold":
        store.alive()
    with _full(), pytest.raises(MissingError) as raised:
        WRITES[what](store)
    assert str(tmp_path) in raised.value.what
    assert raised.value.why == "File too large"
    assert "make room" in raised.value.fix
    assert Store(str(tmp_path)).asked() == (ASKED, CELLS)
    assert read(tmp_path) == expected(ROWS)
    assert not list(tmp_path.rglob("*.part"))
    WRITES[what](store)


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


FULL, DENIED, KILLED = OSError(errno.ENOSPC, "full"), PermissionError(errno.EACCES, "denied"), KeyboardInterrupt()


@pytest.mark.parametrize("error", [FULL, DENIED, KILLED], ids=["full", "denied", "killed"])
@pytest.mark.parametrize("what", [*WRITES, "claim", "release"])
def test_every_step_may_fail_and_nothing_is_lost(tmp_path: Path, what: str, error: BaseException) -> None:
    rows = [done(row) for row in ROWS[:3]] + [failed(ROWS[3])]
    groups = [row.group for row in rows]
    steps: dict[str, Callable[[Store], object]] = {
        **WRITES,
        "put": lambda store: store.put([done(row, seconds=1.0) for row in ROWS[:4]]),
        "claim": lambda store: store.claim(groups),
        "release": lambda store: store.release(groups),
    }
    for at in itertools.count(1):
        folder = tmp_path / str(at)
        store = Store(str(folder), "me")
        store.keep(ASKED, CELLS)
        store.put(rows)
        if what == "release":
            store.claim(groups)
        store._files._system = _Breaking(store._files._system, at, error)
        told: BaseException | None = None
        try:
            steps[what](store)
        except (TrtprofError, KeyboardInterrupt) as stopped:
            told = stopped
        if told is None:
            break
        assert error is KILLED or isinstance(told, MissingError)
        assert getattr(told, "why", "") in ("", "No space left on device", "Permission denied")
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


def test_a_row_that_failed_does_not_replace_one_that_is_done(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    store.put([done(ROWS[0])])
    assert store.put([failed(ROWS[0])]) == {ROWS[0].key}
    assert read(tmp_path) == [done(ROWS[0])]
    store.fold(least=1)
    assert store.put([failed(ROWS[0])]) == {ROWS[0].key}
    store.put([failed(ROWS[1])])
    store.put([done(ROWS[1])])
    assert read(tmp_path) == expected([done(ROWS[0]), done(ROWS[1])])


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


def test_failed_parts_of_a_group_that_another_works_on_are_not_folded(tmp_path: Path) -> None:
    store, other = Store(str(tmp_path), "me"), Store(str(tmp_path), "other")
    rows = [failed(ROWS[0]), failed(ROWS[-1]), *map(done, ROWS[5:8])]
    assert ROWS[0].group != ROWS[-1].group
    store.put(rows)
    other.claim([ROWS[0].group])
    store.fold(least=1)
    assert [path.stem for path in (tmp_path / "parts").iterdir()] == [ROWS[0].key]
    assert other.holds([ROWS[0].group]) == {ROWS[0].group}
    assert store.claimed() == {ROWS[0].group}
    assert read(tmp_path) == expected(rows)


def test_one_scheduler_at_a_time_folds(tmp_path: Path) -> None:
    store, other = Store(str(tmp_path), "me"), Store(str(tmp_path), "other")
    store.put(ROWS)
    other.claim(["fold"])
    store.fold(least=1)
    assert not (tmp_path / "table").exists()
    other.release(["fold"])
    store.fold(least=len(ROWS) + 1)
    assert not (tmp_path / "table").exists()
    store.fold(least=len(ROWS))
    assert len(list((tmp_path / "table").iterdir())) == 1


def test_what_was_begun_and_never_finished_is_swept_when_it_is_old(tmp_path: Path) -> None:
    store = Store(str(tmp_path), "me")
    store.put(ROWS)
    old, young = (tmp_path / "parts" / name for name in (".a.parquet.1.part", ".b.parquet.2.part"))
    old.write_bytes(b"half")
    young.write_bytes(b"half")
    new, sent, only = (tmp_path / "runs" / name for name in (".k.new.part", f"{PREFIX}of-ray", ".k.old.part"))
    for folder in (new, sent, only):
        folder.mkdir(parents=True)
    for path in (old, new, sent, only):
        os.utime(path, (0, 0))
    assert read(tmp_path) == expected(ROWS)
    store.fold(least=1)
    store.tidy()
    assert list((tmp_path / "parts").iterdir()) == [young]
    assert list((tmp_path / "runs").iterdir()) == [only]
    assert read(tmp_path) == expected(ROWS)


def test_a_clock_that_was_ahead_makes_nothing_old_that_is_not(tmp_path: Path) -> None:
    store = Store(str(tmp_path), "me")
    store.put(ROWS)
    os.utime(next((tmp_path / "parts").iterdir()), (2e9, 2e9))
    being_written = tmp_path / "parts" / ".a.parquet.1.part"
    being_written.write_bytes(b"half")
    store.tidy()
    assert being_written.exists()


def test_cells_of_what_was_asked_earlier_are_swept_when_they_are_old(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    store.keep(ASKED, CELLS)
    (old,) = tmp_path.glob("cells-*")
    store.keep(ASKED, CELLS[1:])
    assert len(list(tmp_path.glob("cells-*"))) == 2
    os.utime(old, (0, 0))
    store.keep(ASKED, CELLS[1:])
    assert old not in tmp_path.glob("cells-*")
    assert store.asked() == (ASKED, CELLS[1:])


def test_a_run_folder_whose_replacement_was_killed_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace = os.replace

    def put(folder: Path, content: str, stop: int = 0) -> None:
        run, calls = folder / "scratch", itertools.count(1)
        run.mkdir(exist_ok=True, parents=True)
        (run / "report.json").write_text(content)

        def killed(*given: Any) -> None:
            if next(calls) == stop:
                raise KeyboardInterrupt
            replace(*given)

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", killed)
            Store(str(folder)).put_run("k", run)

    for stop in (1, 2, 3):  # into the folder of runs, the old one away, the new one to its place
        folder = tmp_path / str(stop)
        put(folder, "old")
        with pytest.raises(KeyboardInterrupt):
            put(folder, "new", stop)
        Store(str(folder)).keep(ASKED, CELLS)
        assert (folder / "runs" / "k" / "report.json").read_text() == "old"
        put(folder, "new")
        assert (folder / "runs" / "k" / "report.json").read_text() == "new"
        assert [path.name for path in (folder / "runs").iterdir()] == ["k"]


def test_a_run_folder_is_replaced_though_another_begins_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace, calls = os.replace, itertools.count(1)
    store = Store(str(tmp_path))

    def replaced(*given: Any) -> None:
        # The old one is away, the new one not at its place.
        if next(calls) == 3:
            with monkeypatch.context() as patch:
                patch.setattr(os, "replace", replace)
                Store(str(tmp_path)).keep(ASKED, CELLS)
        replace(*given)

    for content in ("old", "new"):
        run = tmp_path / "scratch"
        run.mkdir()
        (run / "report.json").write_text(content)
        if content == "new":
            monkeypatch.setattr(os, "replace", replaced)
        store.put_run("k", run)
    assert next(calls) > 4
    assert (tmp_path / "runs" / "k" / "report.json").read_text() == "new"
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["k"]


def test_a_run_folder_from_another_disk_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, replace = tmp_path / "scratch", os.replace
    run.mkdir()
    (run / "report.json").write_text("new")

    def elsewhere(source: Any, target: Any) -> None:
        if Path(source) == run:
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        replace(source, target)

    monkeypatch.setattr(os, "replace", elsewhere)
    assert Store(str(tmp_path / "fleet")).put_run("k", run) == "runs/k"
    assert (tmp_path / "fleet" / "runs" / "k" / "report.json").read_text() == "new"
    assert not run.exists()
    with pytest.raises(MissingError, match="runs/k cannot be written"):
        Store(str(tmp_path / "fleet")).put_run("k", run)
    assert (tmp_path / "fleet" / "runs" / "k" / "report.json").read_text() == "new"
