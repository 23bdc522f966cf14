"""Claims of schedulers: no group is ever held by two, the dead hold nothing for long, who wakes up late notices."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from tests.fakes import fleets
from tests.fakes.support import ROOT
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
