"""Claims of schedulers: no group is ever held by two, the dead hold nothing for long, who wakes up late notices."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from tests.fakes import fleets
from tests.fakes.support import ROOT
from trtprof.flows.fleet import claims
from trtprof.flows.fleet.store import Store

pytestmark = pytest.mark.nightly

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts claimers; none is left behind."""
    started: list[subprocess.Popen[str]] = []

    def begin(*arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.fakes.fleet_claimer", *map(str, arguments)]
        started.append(subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def ask(process: subprocess.Popen[str]) -> str:
    assert process.stdin is not None
    process.stdin.write("put\n")
    process.stdin.flush()
    return said(process)


def unheard(folder: Path, owner: str, seconds: float) -> None:
    """As if the owner had not been heard of for so long."""
    alive = folder / "claims" / f"{owner}.alive"
    stamp = alive.stat().st_mtime_ns - int(seconds * 1e9)
    os.utime(alive, ns=(stamp, stamp))


def test_no_group_is_ever_held_by_two_processes(tmp_path: Path, start: Start) -> None:
    (tmp_path / "marks").mkdir()
    processes = [start("hammer", tmp_path / "fleet", f"owner{at}", 60, 120) for at in range(4)]
    results = [process.communicate(timeout=100)[0].split() for process in processes]
    assert [words for words in results if len(words) != 1] == []
    assert sum(int(words[0]) for words in results) > 50
    assert not [path for path in (tmp_path / "fleet" / "claims").iterdir() if path.suffix != ".alive"]


def test_a_claim_of_a_killed_owner_is_taken_over_after_the_lease(tmp_path: Path, start: Start) -> None:
    child = start("hold", tmp_path, "child", 1.0, "g")
    assert said(child) == "held"
    other = Store(str(tmp_path), "other", lease_s=1.0)
    assert other.claim(["g"]) == set()
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert other.claimed() == {"g"}
    deadline = time.monotonic() + 30
    while not other.claim(["g"]):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    alive = (tmp_path / "claims" / "child.alive").stat().st_mtime_ns
    mine = (tmp_path / "claims" / "g.other").stat().st_mtime_ns
    assert mine - alive > 1e9
    assert not (tmp_path / "claims" / "g.child").exists()


@pytest.mark.parametrize("finished", [False, True], ids=["under way", "finished"])
def test_who_was_stopped_for_longer_than_its_lease_writes_no_row(tmp_path: Path, start: Start, finished: bool) -> None:
    child = start("hold", tmp_path, "child", 1.0, "g")
    assert said(child) == "held"
    assert ask(child) == "put"
    child.send_signal(signal.SIGSTOP)
    other = Store(str(tmp_path), "other", lease_s=1.0)
    deadline = time.monotonic() + 30
    while not other.claim(["g"]):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    row = msgspec.structs.replace(fleets.row(next(fleets.cells()), fails=0.0), group="g", worker="the other")
    assert other.put([row]) == set()
    if finished:
        other.release(["g"])
    child.send_signal(signal.SIGCONT)
    assert ask(child) == "left out"
    assert ask(child) == "left out"
    assert other.table()["worker"].to_pylist() == ["the other"]
    assert other.holds(["g"]) == (set() if finished else {"g"})


def test_who_was_stopped_and_not_missed_goes_on(tmp_path: Path, start: Start) -> None:
    child = start("hold", tmp_path, "child", 0.5, "g")
    assert said(child) == "held"
    child.send_signal(signal.SIGSTOP)
    time.sleep(0.7)
    child.send_signal(signal.SIGCONT)
    assert ask(child) == "put"


def test_who_sees_another_withdraws(tmp_path: Path) -> None:
    first, second = Store(str(tmp_path), "first"), Store(str(tmp_path), "second")
    assert first.claim(["a", "b"]) == {"a", "b"}
    assert second.claim(["b", "c"]) == {"c"}
    assert first.claim(["b", "c"]) == {"b"}
    assert Store(str(tmp_path)).claimed() == first.claimed() == {"a", "b", "c"}
    first.release(["b", "c", "never"])
    assert second.claim(["b"]) == {"b"}
    assert second.holds(["a", "b", "c"]) == {"b", "c"}
    second.close()
    assert first.claimed() == {"a"}
    assert sorted(path.name for path in (tmp_path / "claims").iterdir()) == ["a.first", "first.alive"]


def test_of_two_that_write_before_either_lists_none_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Store(str(tmp_path), "first"), Store(str(tmp_path), "second")
    listing = first._files.listing
    got: list[set[str]] = []

    def between(folder: str) -> object:
        monkeypatch.setattr(first._files, "listing", listing)
        got.append(second.claim(["g"]))
        return listing(folder)

    first.alive()
    monkeypatch.setattr(first._files, "listing", between)
    got.append(first.claim(["g"]))
    assert got[0] == set()
    assert first.claim(["g"]) == {"g"}


def test_a_listing_without_what_was_just_written_gives_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(str(tmp_path), "me")
    listing = store._files.listing
    monkeypatch.setattr(store._files, "listing", lambda folder: [e for e in listing(folder) if e.name != "a.me"])
    assert store.claim(["a", "b"]) == {"b"}


def test_names_of_owners_may_hold_dots(tmp_path: Path) -> None:
    first, second = Store(str(tmp_path), "node.site.org-1"), Store(str(tmp_path), "node")
    assert first.claim(["g.h", "g"]) == {"g.h", "g"}
    assert second.claim(["g.h", "g"]) == set()
    assert second.claimed() == {"g.h", "g"}


def test_the_clock_of_this_machine_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Store(str(tmp_path), "first"), Store(str(tmp_path), "second")
    first.claim(["g"])
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    monkeypatch.setattr(time, "time", lambda: 9e12)
    assert second.claim(["g"]) == set()
    assert second.claimed() == {"g"}
    unheard(tmp_path, "first", 61)
    assert second.claimed() == set()
    assert second.claim(["g"]) == {"g"}


def asleep(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    now = claims._now
    monkeypatch.setattr(claims, "_now", lambda: now() + seconds)


def test_who_wakes_up_looks_before_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, taken, finished, left in (
        ("alone", False, False, {"a", "b"}),
        ("taken", True, False, {"a"}),
        ("done", True, True, {"a"}),
    ):
        folder = tmp_path / name
        sleeper, other = Store(str(folder), "sleeper"), Store(str(folder), "other")
        sleeper.claim(["a", "b"])
        unheard(folder, "sleeper", 61)
        if taken:
            assert other.claim(["b"]) == {"b"}
        if finished:
            other.release(["b"])
        with monkeypatch.context() as patch:
            asleep(patch, 61)
            assert sleeper.holds(["a", "b"]) == left
            assert other.claim(["a"]) == set()
        assert sleeper.claim(["b"]) == ({"b"} if name != "taken" else set())


def test_a_late_sign_of_life_gives_up_what_was_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sleeper, other = Store(str(tmp_path), "sleeper"), Store(str(tmp_path), "other")
    sleeper.claim(["a", "b"])
    unheard(tmp_path, "sleeper", 61)
    other.claim(["b"])
    asleep(monkeypatch, 61)
    sleeper.alive()
    assert sleeper.holds(["a", "b"]) == {"a"}
    row = fleets.row(next(fleets.cells()), fails=0.0)
    rows = [msgspec.structs.replace(row, group=group, key=group * 2) for group in ("a", "b")]
    assert sleeper.put(rows) == {"bb"}
    sleeper.release(["a", "b"])
    assert other.claim(["a"]) == {"a"}
    assert sleeper.put(rows) == set()


def test_a_claim_that_someone_took_away_is_missed_before_a_row_is_written(tmp_path: Path) -> None:
    store = Store(str(tmp_path), "me")
    row = fleets.row(next(fleets.cells()), fails=0.0)
    store.claim([row.group])
    (tmp_path / "claims" / f"{row.group}.me").unlink()
    assert store.put([row]) == {row.key}
    assert store.table().num_rows == 0


def test_what_the_dead_left_is_swept_after_long(tmp_path: Path) -> None:
    dead, late, store = (Store(str(tmp_path), name) for name in ("dead", "late", "me"))
    dead.claim(["a"])
    late.claim(["b"])
    unheard(tmp_path, "dead", 60 * 61)
    unheard(tmp_path, "late", 60 * 3)
    store.tidy()
    assert sorted(path.name for path in (tmp_path / "claims").iterdir()) == ["b.late", "late.alive", "me.alive"]


def test_who_died_when_the_clock_was_ahead_is_dead_when_it_was_not_heard_of_for_a_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(claims, "_now", lambda: now)
    dead, store = Store(str(tmp_path), "dead", 60), Store(str(tmp_path), "me", 60)
    dead.claim(["a"])
    ahead = time.time() + 3600
    os.utime(tmp_path / "claims" / "dead.alive", (ahead, ahead))
    assert not store.claim(["a"])
    now = 40.0
    assert not store.claim(["a"])
    # One that lives says so again, whatever its clock.
    os.utime(tmp_path / "claims" / "dead.alive", (ahead, ahead + 1))
    assert not store.claim(["a"])
    now = 80.0
    assert not store.claim(["a"])
    now = 120.0
    assert store.claim(["a"]) == {"a"}
    assert store.claimed() == {"a"}


def test_a_sign_of_life_of_another_thread_waits_for_who_claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(str(tmp_path), "me")
    store.claim(["a"])
    listing, lived = store._files.listing, threading.Event()

    def live() -> None:
        store.alive()
        lived.set()

    def slow(folder: str) -> object:
        monkeypatch.setattr(store._files, "listing", listing)
        thread.start()
        assert not lived.wait(0.2)
        return listing(folder)

    thread = threading.Thread(target=live)
    monkeypatch.setattr(store._files, "listing", slow)
    assert store.claim(["b"]) == {"b"}
    thread.join()
    assert lived.is_set()
    assert store.holds(["a", "b"]) == {"a", "b"}
