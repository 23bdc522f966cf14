"""The folder of a fleet, on this machine, a shared one or behind a URI: parts, claims, run folders.

    fleet.json        what is asked (`cells.Asked`), and the name of the file that holds every cell of it:
    cells-*.parquet   named by a digest of its content
    parts/KEY.parquet one row: a cell that was done or failed, written aside and renamed
    table/*.parquet   parts that were folded together, named by a digest of the content; they never change, and a
                      part goes when its row is there
    claims/           GROUP.OWNER says that a scheduler works on a group; OWNER.alive that it lives
    runs/KEY/         the run folder of a cell that was run
    corrupt/          files that could not be read, set aside; their cells are done again

Listing order keeps a reader from losing a row while parts are folded: parts first, then the table. A row may be
seen twice then; the one of a key that counts is the one that is done, then the one that began last.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import os
import re
import shutil
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from trtprof.base import fleet_table
from trtprof.base.errors import MissingError, UsageError
from trtprof.base.records import SCHEMA_VERSION, FleetCell, FleetRow
from trtprof.base.run_folder import REPORT
from trtprof.base.scratch import PREFIX
from trtprof.flows.fleet import HowToRun
from trtprof.flows.fleet.cells import Asked
from trtprof.flows.fleet.claims import Claims
from trtprof.flows.fleet.files import BESIDE, Entry, Files

if TYPE_CHECKING:
    import pyarrow as pa

_CHECKSUM = "trtprof.checksum"
"""In the metadata of a file; checksums of pages say nothing of their headers, nor of the footer."""
_UNKNOWN = "crc32 ??????????"
_LEASE_S = HowToRun().lease_s
ASKED = "fleet.json"
PARTS = "parts"
TABLE = "table"
RUNS = "runs"
CORRUPT = "corrupt"
_SUFFIX = ".parquet"
_FOLDING = "fold"  # The group that is claimed by who folds; no digest is called so
_AT_ONCE = 4096  # Parts that are held in memory, and folded into one file
_OLD_NS = 3600 * 10**9  # Files that were begun so long ago are of no one who lives


class State(NamedTuple):
    """What became of cells so far, by key."""

    done: frozenset[str]
    failed: frozenset[str]


class _UnreadableError(Exception):
    """A file holds something else than it should; the text says what."""


class _Kept(Asked, frozen=True, kw_only=True):
    """``fleet.json``: what is asked, and the file with its cells."""

    cells: str


class Store:
    """The results of a fleet.

    Args:
        place: A folder, or a URI that `pyarrow.fs.FileSystem.from_uri` takes (``s3://bucket/fleet``).
        owner: Of the claims that are made through it; unique to a scheduler. Empty: it makes none.
        lease_s: Seconds after which a scheduler that was not heard of is dead, and its claims are void.
        say: Told what was set aside, in a sentence.

    Attributes:
        place: The same as it may be shown and kept: a URI without user, password and query.

    Raises:
        UsageError: There is no such kind of file system.
        MissingError: It cannot be reached.
    """

    def __init__(
        self, place: str, owner: str = "", lease_s: float = _LEASE_S, say: Callable[[str], None] = lambda _: None
    ) -> None:
        self._files = Files(place)
        self._claims = Claims(self._files, owner, lease_s)
        self._say = say
        self.place = self._files.shown
        self._folded: dict[str, str] = {}
        """The status of each cell in the files of the table that were looked at, which are:"""
        self._looked: set[str] = set()

    @property
    def folder(self) -> Path | None:
        """Its path where it is on this machine or a mounted one; None behind a URI of another kind."""
        return self._files.local

    def keep(self, asked: Asked, cells: Sequence[FleetCell]) -> None:
        """Write what is asked, whole or not at all."""
        content = _parquet(fleet_table.table_of(cells, FleetCell), compression="zstd")
        name = f"cells-{_digest(content)}{_SUFFIX}"
        # It counts when fleet.json names it; until then the old one does.
        self._files.write(name, content)
        kept = _Kept(**{field: getattr(asked, field) for field in Asked.__struct_fields__}, cells=name)
        document = msgspec.json.format(msgspec.json.encode(kept, order="deterministic"), indent=1)
        self._files.write(ASKED, document)
        self._tidy_cells(name)
        self._mend_runs()

    def _tidy_cells(self, name: str) -> None:
        """Delete cells of what was asked earlier; young ones may be of a scheduler that is about to name them."""
        found = {entry.name: entry.mtime_ns for entry in self._files.listing("") if entry.name.startswith("cells-")}
        limit = found.get(name, 0) - _OLD_NS
        self._files.delete([each for each, mtime in found.items() if each != name and mtime < limit])

    def asked(self) -> tuple[Asked, list[FleetCell]]:
        """What is asked."""
        kept = self._kept()
        try:
            try:
                content = self._files.read(kept.cells)
            except FileNotFoundError:  # something else is asked since
                kept = self._kept()
                content = self._files.read(kept.cells)
            cells = fleet_table.cells_of(_read(content, None, FleetCell))
        except (FileNotFoundError, _UnreadableError, msgspec.ValidationError) as error:
            why = "it is not there" if isinstance(error, FileNotFoundError) else str(error)
            raise self._damaged(kept.cells, why) from None
        return Asked(**{field: getattr(kept, field) for field in Asked.__struct_fields__}), cells

    def _kept(self) -> _Kept:
        try:
            data = self._files.read(ASKED)
        except FileNotFoundError:
            raise MissingError(
                f"{self.place} is no folder of a fleet",
                why=f"it has no {ASKED}",
                fix=f"trtprof fleet run fleet.toml -o {self.place}",
            ) from None
        try:
            kept = msgspec.json.decode(data, type=_Kept)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._damaged(ASKED, str(error)) from None
        if kept.schema_version != SCHEMA_VERSION:
            raise self._damaged(
                ASKED, f"it has schema version {kept.schema_version}, this trtprof reads {SCHEMA_VERSION}"
            )
        if not re.fullmatch(r"cells-[0-9a-f]+\.parquet", kept.cells):
            raise self._damaged(ASKED, f"{kept.cells[:80]!r} is no file of cells")
        return kept

    def _damaged(self, name: str, why: str) -> UsageError:
        return UsageError(
            f"{self._files.at(name)} cannot be read", why=why, fix="run the fleet again: what is done stays done"
        )

    def state(self) -> State:
        """Which cells have a row that can be read; a file that cannot is set aside (see ``say``)."""
        done: set[str] = set()
        failed: set[str] = set()
        for table in self._tables(("key", "status")):
            found = _state_of(table)
            done |= found.done
            failed |= found.failed
        return State(frozenset(done), frozenset(failed - done))

    def claim(self, groups: Iterable[str]) -> set[str]:
        """Those of the groups that are the owner's now; no other scheduler works on them until it lets them go.

        Who sees another living claim on a group beside its own withdraws, so that never two have it; after both
        withdrew each tries again later.
        """
        return self._claims.claim(groups)

    def release(self, groups: Iterable[str]) -> None:
        """Let groups go."""
        self._claims.release(groups)

    def holds(self, groups: Iterable[str]) -> set[str]:
        """Those of the groups that are still the owner's: who slept longer than its lease may have lost some."""
        return self._claims.holds(groups)

    def alive(self) -> None:
        """Say that the owner lives; called at least three times a lease."""
        self._claims.alive()

    def time_ns(self) -> int:
        """Now, by the clock of the file system."""
        return self._claims.time_ns()

    def claimed(self) -> set[str]:
        """Groups that living schedulers work on, the owner's included."""
        return self._claims.claimed() - {_FOLDING}

    def close(self) -> None:
        """Let all groups go; nothing is claimed through it any more."""
        self._claims.close()

    def finished(self, keys: Collection[str]) -> State:
        """The same as `state` of some keys alone, as of now and at little cost."""
        wanted = set(keys)
        listed = self._files.look(f"{PARTS}/{key}{_SUFFIX}" for key in sorted(wanted))
        parts = self._parts([entry for entry in listed if entry and entry.kind == "file"], ("key", "status"))
        found = [_state_of(part) for part in parts if part is not None]
        # Behind the parts: one that was folded meanwhile is in a file that is there now.
        self._look_at_table()
        done = {key for key in wanted if self._folded.get(key) == "done"}.union(*(each.done for each in found))
        failed = {key for key in wanted if key in self._folded}.union(*(each.failed for each in found))
        return State(frozenset(done), frozenset(failed - done))

    def written_since(self, keys: Collection[str], time_ns: int) -> frozenset[str]:
        """Those of the cells whose part was written at that time (see `time_ns`) or later."""
        wanted = sorted(set(keys))
        there = self._files.look(f"{PARTS}/{key}{_SUFFIX}" for key in wanted)
        return frozenset(
            key for key, entry in zip(wanted, there, strict=True) if entry is not None and entry.mtime_ns >= time_ns
        )

    def _look_at_table(self) -> None:
        """Read the state of cells in files of the table that appeared since the last look."""
        listed = [entry for entry in self._files.listing(TABLE) if _is_part(entry)]
        if not self._looked <= {entry.name for entry in listed}:  # one was set aside
            self._looked.clear()
            self._folded.clear()
        for entry in listed:
            if entry.name in self._looked or (table := self._table(entry, ("key", "status"))) is None:
                continue
            self._looked.add(entry.name)
            found = _state_of(table)
            self._folded.update(dict.fromkeys(found.failed - self._folded.keys(), "failed"))
            self._folded.update(dict.fromkeys(found.done, "done"))

    def put(self, rows: Sequence[FleetRow]) -> frozenset[str]:
        """Write a part for each row, each whole or not at all."""
        lost = self._claims.lost({row.group for row in rows})
        out = {row.key for row in rows if row.group in lost}
        failed = [row.key for row in rows if row.status == "failed" and row.key not in out]
        if failed:
            out |= self.finished(failed).done
        mine = [row for row in rows if row.key not in out]
        table = fleet_table.table_of(mine)

        def write(at: int) -> None:
            self._files.write(f"{PARTS}/{mine[at].key}{_SUFFIX}", _parquet(table.slice(at, 1)))

        self._files.each(write, range(len(mine)))
        return frozenset(out)

    def put_run(self, key: str, folder: Path) -> str:
        """Take the run folder of a cell in, which is moved where it can be; its place from the folder on."""
        if self._files.local is None:
            return self._put_far_run(key, folder)
        runs = self._files.local / RUNS
        target, new, old = runs / key, runs / f".{key}.new{BESIDE}", runs / f".{key}.old{BESIDE}"
        try:
            runs.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(new, ignore_errors=True)
            try:
                os.replace(folder, new)
            except OSError:  # from another disk
                shutil.copytree(folder, new, symlinks=True)
                shutil.rmtree(folder, ignore_errors=True)
            try:
                self._exchange(new, target, old)
            except OSError:
                if not (new.exists() and target.exists()):
                    raise
                # Who began meanwhile took it for interrupted, and put the older one back.
                self._exchange(new, target, old)
            shutil.rmtree(old, ignore_errors=True)
        except (OSError, shutil.Error) as error:
            with contextlib.suppress(OSError):
                self._mend_run(old, target)
            shutil.rmtree(new, ignore_errors=True)
            raise self._files.unusable(f"{RUNS}/{key}", error) from None
        return f"{RUNS}/{key}"

    def _exchange(self, new: Path, target: Path, old: Path) -> None:
        self._mend_run(old, target)
        if target.exists():
            os.replace(target, old)
        os.replace(new, target)

    def _put_far_run(self, key: str, folder: Path) -> str:
        """The same where folders cannot be renamed: beside the older one, which goes when all of it is there."""
        older = [entry.name for entry in self._files.listing(RUNS) if entry.name.partition(".")[0] == key]
        name = key
        while name in older:
            name = f"{key}.{int(name.partition('.')[2] or 0) + 1}"
        self._files.take_in(folder, f"{RUNS}/{name}", REPORT)
        for each in older:
            self._files.delete_folder(f"{RUNS}/{each}")
        shutil.rmtree(folder, ignore_errors=True)
        return f"{RUNS}/{name}"

    def _mend_runs(self) -> None:
        """Put run folders back whose replacement was interrupted."""
        if self._files.local is None:
            return
        end = f".old{BESIDE}"
        for entry in self._files.listing(RUNS):
            if entry.kind == "folder" and entry.name.startswith(".") and entry.name.endswith(end):
                with contextlib.suppress(OSError):
                    runs = self._files.local / RUNS
                    self._mend_run(runs / entry.name, runs / entry.name[1 : -len(end)])

    def _mend_run(self, old: Path, target: Path) -> None:
        if not old.exists():
            return
        if target.exists():
            shutil.rmtree(old)
        else:
            os.replace(old, target)

    def fold(self, least: int = 1000) -> None:
        """Fold parts into the table where there are so many; one scheduler at a time does it."""
        if sum(_is_part(entry) for entry in self._files.listing(PARTS)) < max(least, 1):
            return
        if not self.claim([_FOLDING]):
            return
        try:
            listed = self._files.listing(PARTS)
            self._look_at_table()
            for some in _some([entry for entry in listed if _is_part(entry)]):
                self._fold(some)
        finally:
            self.release([_FOLDING])

    def _fold(self, parts: list[Entry]) -> None:
        import pyarrow as pa

        read = {part.name: table for part, table in zip(parts, self._parts(parts), strict=True) if table is not None}
        failed = {name: _text(table, "group") for name, table in read.items() if _text(table, "status") == "failed"}
        held = self._claims.holds(failed.values())
        claimed = self.claim(failed.values())
        try:
            again = [part for part in parts if failed.get(part.name) in claimed]
            read.update((part.name, table) for part, table in zip(again, self._parts(again), strict=True) if table)
            names = sorted(name for name in read if name not in failed or failed[name] in claimed)
            # A fold that was interrupted left parts whose rows are in the table.
            new = [name for name in names if self._folded.get(name.removesuffix(_SUFFIX)) != "done"]
            if new:
                content = _parquet(pa.concat_tables([read[name] for name in new]).combine_chunks(), "zstd")
                self._files.write(f"{TABLE}/{_digest(content)}{_SUFFIX}", content, durable=True)
            self._files.delete(f"{PARTS}/{name}" for name in names)
        finally:
            self.release(claimed - held)

    def tidy(self) -> None:
        """Delete what the dead left: claims, and what was being written; that of the last hour may be of the living."""
        self._claims.sweep()
        limit = self._claims.time_ns() - _OLD_NS
        for folder in ("", PARTS, TABLE, RUNS):
            for entry in self._files.listing(folder):
                beside = entry.name.startswith(".") and entry.name.endswith(BESIDE)
                if entry.mtime_ns >= limit or not (beside or entry.name.startswith(PREFIX)):
                    continue
                name = f"{folder}/{entry.name}".lstrip("/")
                if entry.kind == "file":
                    self._files.delete([name])
                elif not entry.name.endswith(f".old{BESIDE}"):  # that one may be all there is (see `_mend_runs`)
                    self._files.delete_folder(name)

    def table(self, keys: Collection[str] | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of cells (None: of all), one a key, sorted by `fleet_table.ORDER`.

        `columns`: those that are wanted, in this order; None: all. Columns of records (``ledger``, ``kernels``) are
        most of the table, and are read only when they are asked for.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        everything = fleet_table.schema()
        asked = list(columns) if columns is not None else everything.names
        needed = {*asked, *fleet_table.ORDER, *_PRECEDENCE}
        read = [name for name in everything.names if name in needed]
        wanted = None if keys is None else pa.array(sorted(keys), pa.string())
        found = [pa.schema([everything.field(name) for name in read], everything.metadata).empty_table()]
        found += [
            table if wanted is None else table.filter(pc.is_in(table["key"], wanted)) for table in self._tables(read)
        ]
        rows = _newest(pa.concat_tables(found))
        return fleet_table.in_order(rows).select(asked)

    def pieces(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Columns of all rows in pieces, in no order, for who cannot hold the whole `table`; a row may come twice."""
        for table in self._tables(columns):
            yield table.select(list(columns))

    def _tables(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """All rows, in tables of some; a row may come twice while parts are folded."""
        import pyarrow as pa

        parts = [entry for entry in self._files.listing(PARTS) if self._sound(PARTS, entry) and _is_part(entry)]
        read: set[str] = set()
        vanished = True
        while vanished:
            vanished = False
            for entry in self._files.listing(TABLE):
                if entry.name not in read and self._sound(TABLE, entry):
                    read.add(entry.name)
                    if (table := self._table(entry, columns)) is not None:
                        yield table
            for some in _some(parts):
                found = self._parts(some, columns)
                there = [table for table in found if table is not None]
                vanished |= len(there) < len(found)
                if there:
                    yield pa.concat_tables(there).combine_chunks()
            # One that is gone was folded, and the file that has its row was there before it went.
            parts = []

    def _sound(self, folder: str, entry: Entry) -> bool:
        """Whether something may be opened; what has the name of a Parquet file and is none is set aside."""
        if entry.name.startswith(".") or not entry.name.endswith(_SUFFIX):
            return False
        if entry.kind != "file":
            self._set_aside(f"{folder}/{entry.name}", "it is no file")
            return False
        return True

    def _table(self, entry: Entry, columns: Sequence[str]) -> pa.Table | None:
        """Columns of a file of the table; None where it is gone or was set aside."""
        return self._checked(f"{TABLE}/{entry.name}", lambda content: _read(content, columns))

    def _parts(self, parts: Sequence[Entry], columns: Sequence[str] | None = None) -> list[pa.Table | None]:
        """Columns of parts, in their order; None for each that is gone or was set aside."""

        def one(entry: Entry) -> pa.Table | None:
            def checked(content: bytes) -> pa.Table:
                table = _read(content, None)
                if table.num_rows != 1 or f"{_text(table, 'key')}{_SUFFIX}" != entry.name:
                    raise _UnreadableError("it is the part of another cell")
                return table if columns is None else table.select(list(columns))

            return self._checked(f"{PARTS}/{entry.name}", checked)

        return self._files.each(one, parts)

    def _checked(self, name: str, read: Callable[[bytes], pa.Table]) -> pa.Table | None:
        try:
            content = self._files.read(name)
        except FileNotFoundError:
            return None
        except MissingError as error:
            self._say(f"{self._files.at(name)} is left out: {error.why}")
            return None
        try:
            return read(content)
        except _UnreadableError as error:
            try:
                if self._files.read(name) != content:  # it was replaced since
                    return self._checked(name, read)
            except (FileNotFoundError, MissingError):
                return None
            self._set_aside(name, str(error))
            return None

    def _set_aside(self, name: str, why: str) -> None:
        first = name.replace("/", "-")
        try:
            there = {entry.name for entry in self._files.listing(CORRUPT)}
            names = itertools.chain([first], (f"{first}.{at}" for at in itertools.count(2)))
            to = next(each for each in names if each not in there)
            self._files.move(name, f"{CORRUPT}/{to}")
            became = f"moved to {CORRUPT}/{to}"
        except FileNotFoundError:
            return
        except MissingError as error:
            became = f"left where it is ({error.why})"
        self._say(f"{self._files.at(name)} cannot be read: {why}; {became}, and its cells count as not there")


_PRECEDENCE = ("key", "status", "started", "seconds", "worker")
"""Which row of a key counts: done before failed, then the last to begin; the rest only makes it always the same."""


def _newest(rows: pa.Table) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pc.count_distinct(rows["key"]).as_py() == rows.num_rows:
        return rows
    order = [("key", "ascending"), ("status", "ascending")] + [(name, "descending") for name in _PRECEDENCE[2:]]
    at = pc.sort_indices(rows.select(list(_PRECEDENCE)), sort_keys=order)
    keys = rows["key"].take(at).combine_chunks()
    first = pa.concat_arrays([pa.array([True]), pc.not_equal(keys[1:], keys[:-1])])
    return rows.take(at.filter(first))


def _state_of(table: pa.Table) -> State:
    import pyarrow.compute as pc

    done = pc.equal(table["status"], "done")
    return State(
        frozenset(table["key"].filter(done).to_pylist()), frozenset(table["key"].filter(pc.invert(done)).to_pylist())
    )


def _text(row: pa.Table, column: str) -> str:
    return str(row[column][0].as_py())


def _some(parts: list[Entry]) -> Iterator[list[Entry]]:
    return (parts[at : at + _AT_ONCE] for at in range(0, len(parts), _AT_ONCE))


def _is_part(entry: Entry) -> bool:
    return entry.kind == "file" and not entry.name.startswith(".") and entry.name.endswith(_SUFFIX)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


def _parquet(table: pa.Table, compression: str = "none") -> bytes:
    """A table as a Parquet file with a checksum for each page, and one of all of it; a part is kept plain."""
    import pyarrow.parquet as pq

    plain = compression == "none"
    sink = io.BytesIO()
    with pq.ParquetWriter(
        sink, table.schema, compression=compression, use_dictionary=not plain, write_statistics=not plain,
        write_page_checksum=True,
    ) as writer:  # fmt: skip
        writer.write_table(table)
        writer.add_key_value_metadata({_CHECKSUM: _UNKNOWN})
    return _with_checksum(sink.getvalue())[0]


def _with_checksum(content: bytes) -> tuple[bytes, bool]:
    """A file that tells the right checksum, and whether it did already: that of its content with `_UNKNOWN` for it."""
    mark = content.rfind(_CHECKSUM.encode())
    at = content.find(_UNKNOWN[:6].encode(), mark)
    if mark < 0 or at < 0:
        return content, False
    before, told, behind = content[:at], content[at : at + len(_UNKNOWN)], content[at + len(_UNKNOWN) :]
    right = f"crc32 {zlib.crc32(before + _UNKNOWN.encode() + behind):010}".encode()
    return before + right + behind, told == right


def _read(content: bytes, columns: Sequence[str] | None, kind: type[FleetCell] = FleetRow) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    whole = _with_checksum(content)[1]
    if not whole and _CHECKSUM.encode() in content:
        raise _UnreadableError("its content is not what was written")
    try:
        file = pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True)
        version = (file.schema_arrow.metadata or {}).get(fleet_table.MARK.encode(), b"").decode()
        if version != str(fleet_table.VERSION):
            raise _UnreadableError(
                f"it has version {version}, this trtprof reads {fleet_table.VERSION}"
                if version
                else "it is no table of a fleet"
            )
        schema = fleet_table.schema(kind)
        if not file.schema_arrow.equals(schema):
            raise _UnreadableError("it has other columns")
        if not whole:
            raise _UnreadableError("it has no checksum")
        table = file.read(columns=None if columns is None else list(columns), use_threads=False)
        table.validate(full=True)
    except (OSError, ValueError, LookupError, MemoryError, pa.ArrowException) as error:
        raise _UnreadableError((str(error).splitlines() or [type(error).__name__])[0]) from None
    return table.replace_schema_metadata(schema.metadata)
