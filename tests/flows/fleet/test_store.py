"""The store of a fleet: every row is there once, whatever is interrupted, damaged, full, or done by two at a time."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow.fs as pafs
import pytest

from tests.fakes import fleets
from trtprof.base import fleet_table
from trtprof.base.errors import MissingError, UsageError
from trtprof.base.records import SCHEMA_VERSION, FleetRow
from trtprof.flows.fleet import files
from trtprof.flows.fleet.cells import Asked, AskedModel, AskedTarget
from trtprof.flows.fleet.store import State, Store

ASKED = Asked(
    schema_version=SCHEMA_VERSION,
    name="all of ours",
    models=(AskedModel(name="model_0000", requests_per_s=3.0),),
    targets=(AskedTarget(name="l4", verb="predict", gpu="l4", price_per_hour=0.7),),
)


def in_order(rows: list[FleetRow]) -> list[FleetRow]:
    return fleet_table.rows_of(fleet_table.in_order(fleet_table.table_of(rows)))


def state_of(rows: list[FleetRow]) -> State:
    return State(
        frozenset(row.key for row in rows if row.status == "done"),
        frozenset(row.key for row in rows if row.status == "failed"),
    )


def test_what_is_asked_is_kept(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "fleet"))
    cells = list(fleets.cells())
    store.keep(ASKED, cells)
    assert Store(str(tmp_path / "fleet")).asked() == (ASKED, cells)
    store.keep(msgspec.structs.replace(ASKED, name="others"), cells[:3])
    assert store.asked() == (msgspec.structs.replace(ASKED, name="others"), cells[:3])


def test_a_folder_that_is_none_of_a_fleet_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="is no folder of a fleet"):
        Store(str(tmp_path)).asked()
    assert list(tmp_path.iterdir()) == []
    store = Store(str(tmp_path / "fleet"))
    assert store.state() == State(frozenset(), frozenset())
    assert store.table().num_rows == 0
    assert store.claimed() == set()
    assert not (tmp_path / "fleet").exists()


def test_what_was_put_is_in_the_state_and_in_the_table(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    rows = fleets.rows()
    store.put(rows[:20])
    store.fold(least=5)
    store.put(rows[20:])
    for each in (store, Store(str(tmp_path))):
        assert each.state() == state_of(rows)
        assert each.finished([row.key for row in rows]) == state_of(rows)
        assert fleet_table.rows_of(each.table()) == in_order(rows)
    assert fleet_table.rows_of(store.table(keys={rows[3].key, rows[30].key, "none"})) == in_order([rows[3], rows[30]])
    assert store.table(columns=["latency_ns", "model"]).column_names == ["latency_ns", "model"]


PLACES = ("folder", "file", "subtree", "mock")


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A place for a fleet on each kind of file system; opened twice it is the same one."""
    if request.param == "folder":
        return str(tmp_path / "fleet")
    if request.param == "file":
        return (tmp_path / "fleet").as_uri()
    system, path = pafs.FileSystem.from_uri("mock:///bucket/fleet")
    if request.param == "subtree":
        system, path = pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem()), "fleet"
    monkeypatch.setattr(files, "_opened", lambda _: (system, path))
    return "s3://bucket/fleet"


def test_every_kind_of_place_does(place: str) -> None:
    store, cells, rows = Store(place, "a"), list(fleets.cells()), fleets.rows()
    store.keep(ASKED, cells)
    groups = {row.group for row in rows}
    assert store.claim(groups) == groups
    store.put(rows[:20])
    store.fold(least=5)
    store.put(rows[20:])
    other = Store(place, "b")
    assert other.claim(groups) == set()
    assert other.claimed() == groups
    assert other.asked() == (ASKED, cells)
    assert other.state() == state_of(rows)
    assert other.finished([row.key for row in rows]) == state_of(rows)
    assert fleet_table.rows_of(other.table()) == in_order(rows)
    store.release(groups)
    assert other.claim(groups) == groups
    other.close()
    assert store.claimed() == set()


@pytest.mark.parametrize("place", ["what://is/this", "s3://user:secret word@bucket/fleet", "file://elsewhere/fleet"])
def test_a_place_of_no_kind_is_refused(place: str) -> None:
    with pytest.raises(UsageError, match="is no place for a fleet") as raised:
        Store(place)
    assert "secret" not in str(raised.value)


SECRETS = ("AKIAUSER", "pass/word+9", "pass%2Fword%2B9", "sessionsecret")
LOGIN = "s3://AKIAUSER:pass%2Fword%2B9@bucket/fleet?session_token=sessionsecret&region=x"


def test_what_logs_in_is_neither_kept_nor_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    system = pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem())
    monkeypatch.setattr(files, "_opened", lambda _: (system, "fleet"))
    store = Store(LOGIN, "a", say=told.append)
    assert store.place == "s3://bucket/fleet"
    store.keep(ASKED, list(fleets.cells()))
    store.put(fleets.rows())
    store.claim(["g"])
    for path in tmp_path.rglob("*.parquet"):
        path.write_bytes(path.read_bytes()[:-9])
    store.state()
    with pytest.raises(UsageError) as damaged:
        store.asked()
    told.append(str(damaged.value))

    def fail(*_: object) -> None:
        raise OSError(f"AWS Error ACCESS_DENIED for {LOGIN}: key AKIAUSER, secret pass/word+9, token sessionsecret")

    monkeypatch.setattr(files.Files, "_put", fail)
    with pytest.raises(MissingError) as denied:
        store.put(fleets.rows())
    told.append(str(denied.value))
    monkeypatch.setattr(files, "_opened", fail)
    with pytest.raises(MissingError) as away:
        Store(LOGIN)
    told.append(str(away.value))
    assert "ACCESS_DENIED" in told[-1]
    assert len(told) == len(fleets.rows()) + 3
    assert "s3://bucket/fleet" in told[0]
    for secret in SECRETS:
        assert not [text for text in told if secret in text]
        assert not [path for path in tmp_path.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
