"""Processes of this machine that answer cells: killed, hanging, crashing; what is left of them; who is alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.fakes.fleets import digest
from tests.fakes.support import ROOT, SAMPLES
from trtprof.base.records import FleetCell, FleetRow, FleetVerb
from trtprof.flows.fleet import HowToRun, local, local_worker, work
from trtprof.flows.fleet.contents import content_of
from trtprof.flows.fleet.execute import Answered, Task
from trtprof.flows.fleet.local import BASE_BYTES, LocalExecutor
from trtprof.flows.fleet.local_worker import answered
from trtprof.flows.fleet.schedule import schedule
from trtprof.flows.fleet.store import Store

pytestmark = pytest.mark.nightly

FAKE = "tests.fakes.fleet_worker"


@pytest.fixture(autouse=True)
def workers_of_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """`FAKE` is found in the checkout."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def task(name: str, verb: FleetVerb = "predict", path: str = "", **fields: Any) -> Task:
    key = digest(name, verb)
    sha256 = content_of(Path(path)).sha256 if path else key
    cell = FleetCell(
        key=key, group=key, model=name, path=path or f"{name}.onnx", sha256=sha256, target="l4", verb=verb, gpu="l4",
        trtprof="0", **fields,
    )  # fmt: skip
    return Task(group=key, cells=(cell,))


@contextmanager
def executor(workers: int = 2, **more: Any) -> Iterator[LocalExecutor]:
    made = LocalExecutor([], workers, **more)
    try:
        yield made
    finally:
        made.close()


def wait_for(made: LocalExecutor, count: int = 1, seconds: float = 20.0) -> list[Answered]:
    found: list[Answered] = []
    until = time.monotonic() + seconds
    while len(found) < count and time.monotonic() < until:
        found += made.answered(0.2)
    assert len(found) == count
    return found


def of_process(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def pids(found: list[Answered]) -> set[int]:
    return {int(each.rows[0].worker.rpartition(":")[2]) for each in found}


def test_a_process_answers_one_task_after_the_other_and_ends_when_it_is_closed() -> None:
    with executor(1) as made:
        model = str(SAMPLES / "lstm.onnx")
        seen = set()
        for _ in range(3):
            made.start(task("lstm", path=model))
            (found,) = wait_for(made)
            assert (found.rows[0].status, found.lost, found.run) == ("done", "", None)
            seen |= pids([found])
        assert len(seen) == 1
        (pid,) = seen
        assert of_process(pid)
    assert not of_process(pid)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("killed", "it was killed (SIGKILL): out of memory, or by hand"),
        ("segfault", "it was ended by SIGSEGV"),
        ("exit", "ImportError: no such thing"),
    ],
)
def test_a_task_whose_process_dies_is_lost_and_another_process_takes_the_next(name: str, why: str) -> None:
    with executor(1, module=FAKE) as made:
        made.start(task(name))
        (found,) = wait_for(made)
        assert (found.rows, found.lost) == ((), why)
        assert made.takes(task("fine"))
        made.start(task("fine"))
        (found,) = wait_for(made)
        assert found.rows[0].stage == "fake"


def test_one_that_takes_too_long_has_failed_and_its_process_is_ended() -> None:
    with executor(1, module=FAKE, timeout_s=0.6) as made:
        made.start(task("hang"))
        (pid,) = made.processes
        (found,) = wait_for(made)
        assert (found.rows[0].status, found.rows[0].stage, found.lost) == ("failed", "timeout", "")
        assert found.rows[0].error == "it was not done after 0.6 s, and was ended"
        assert not of_process(pid)
        assert made.takes(task("fine"))


def test_a_fleet_whose_processes_die_and_hang_has_a_row_of_every_cell(tmp_path: Path) -> None:
    cells = [task(name).cells[0] for name in ("fine", "killed", "hang", "segfault", "slow")]
    made = LocalExecutor(cells, 2, timeout_s=1.5, module=FAKE)
    standing = schedule(cells, Store(str(tmp_path), "a"), made, HowToRun(attempts=2), poll_s=0.05)
    assert standing.answered.total() == 5
    rows = {row["model"]: row for row in Store(str(tmp_path)).table().to_pylist()}
    stages = {name: row["stage"] for name, row in rows.items()}
    assert stages == {"fine": "fake", "slow": "fake", "killed": "worker", "segfault": "worker", "hang": "timeout"}
    assert rows["segfault"]["error"] == "worker died: it was ended by SIGSEGV"
    assert len(rows["segfault"]["attempts"]) == 2
    assert not made.processes


def test_a_run_has_the_machine_to_itself() -> None:
    with executor(2, module=FAKE) as made:
        made.start(task("slow"))
        assert made.takes(task("fine"))
        assert not made.takes(task("fine", "run")), "not beside a prediction"
        (predicted,) = wait_for(made)
        assert predicted.rows[0].error == "1", "libraries of predictions take one thread"
        made.start(task("slow", "run"))
        assert not made.takes(task("fine"))
        assert not made.takes(task("fine", "build"))
        assert len(made.processes) == 1, "idle ones are ended"
        (ran,) = wait_for(made)
        assert ran.rows[0].error == "None", "a run takes what it takes"


def test_there_are_as_many_as_cores_and_memory_carry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tmp_path / "large.onnx"
    with model.open("wb") as file:
        file.truncate(BASE_BYTES)
    cell = task("large", path=str(model)).cells[0]
    said: list[str] = []
    for free, expected in ((100 * BASE_BYTES, 4), (7 * BASE_BYTES, 3), (0, 1)):
        monkeypatch.setattr(local, "available_memory", lambda free=free: free)
        monkeypatch.setattr(local, "usable_cores", lambda: 4)
        made = LocalExecutor([cell], say=said.append)
        made.close()
        assert made.workers == expected
    assert said[1] == "3 processes on this machine: 4 cores, 3.76 GB of memory free, of which one may need 1.07 GB"


PARENT = f"""
import sys, time, msgspec
from trtprof.flows.fleet.execute import Task
from trtprof.flows.fleet.local import LocalExecutor
made = LocalExecutor([], 1, module="{FAKE}")
made.start(msgspec.json.decode(sys.argv[1], type=Task))
print(*made.processes, flush=True)
time.sleep(60)
"""


def test_processes_end_with_the_one_that_started_them_however_that_dies(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PARENT, msgspec.json.encode(task("hang")).decode()]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, env=environment) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert of_process(pid)
        parent.kill()
    until = time.monotonic() + 10
    while of_process(pid) and time.monotonic() < until:
        time.sleep(0.02)
    assert not of_process(pid)


@pytest.mark.parametrize("when", ["before", "meanwhile", "gone"])
def test_a_model_that_changed_since_it_was_planned_has_no_answer(
    when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its content is in the address of the cell: another content answers another question."""
    model = tmp_path / "model.onnx"
    shutil.copy(SAMPLES / "lstm.onnx", model)
    asked = task("model", path=str(model))

    def change(*_: Any) -> tuple[FleetRow, ...]:
        if when == "gone":
            model.unlink()
        else:
            shutil.copy(SAMPLES / "gemv.onnx", model)
        return real(*_)

    real = work.answer
    if when == "before":
        shutil.copy(SAMPLES / "gemv.onnx", model)
    else:
        monkeypatch.setattr(local_worker, "answer", change)
    (row,) = answered(asked, tmp_path / "scratch")
    assert (row.status, row.stage, row.key) == ("failed", "source", asked.cells[0].key)
    assert row.error == f"{model} is not what it was when the fleet was planned"
