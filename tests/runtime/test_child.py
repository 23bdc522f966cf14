"""No wait for a child is without an end: one that sleeps, one that does not end, one that is late."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from trtprof.base.errors import BuildError
from trtprof.runtime import child

CLOSES = "import os, time; os.close(1); time.sleep(60)"
SLEEPS = "print('captured', flush=True); import threading; threading.Event().wait(60)"
WORKS = "import time; until = time.time() + 1.5\nwhile time.time() < until: sum(range(10_000))\nprint('done')"


def told(code: str, tmp_path: Path, deadline_s: float | None = None) -> tuple[int, list[str]]:
    said: list[str] = []
    command = [sys.executable, "-c", code]
    return child.run_telling(command, tmp_path / "log", said.append, child.environment(), deadline_s), said


def test_one_that_sleeps_for_ever_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a library does that waits for a thread that could not be started."""
    monkeypatch.setattr(child, "ASLEEP_S", 0.6)
    monkeypatch.setattr(child, "_LOOK_S", 0.2)
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        told(SLEEPS, tmp_path)
    assert time.monotonic() - began < 30
    assert told(WORKS, tmp_path) == (0, ["done"]), "one that works is not asleep"


def test_one_that_is_late_is_ended(tmp_path: Path) -> None:
    with pytest.raises(TimeoutError):
        told(SLEEPS, tmp_path, 1.0)
    assert told("print(1)", tmp_path, 60.0) == (0, ["1"])


def test_one_that_closed_its_output_and_does_not_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "ASLEEP_S", 0.5)  # seconds
    began = time.monotonic()
    assert told(CLOSES, tmp_path)[0] < 0
    assert time.monotonic() - began < 30


def test_one_that_cannot_even_be_killed_is_left_to_the_system() -> None:
    class Stuck:
        """In a driver."""

        kills = 0

        def wait(self, timeout: float) -> int:
            raise subprocess.TimeoutExpired("stuck", timeout)

        def kill(self) -> None:
            self.kills += 1

    stuck = Stuck()
    assert child.ended(stuck, 0.01) < 0  # type: ignore[arg-type]
    assert stuck.kills


def test_why_a_child_failed_is_written_or_said_by_its_exit_code(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    error = BuildError("what", why="why", fix="fix")
    assert child.leave(tmp_path / "failure.json", error) == BuildError.exit_code
    assert msgspec.json.decode((tmp_path / "failure.json").read_bytes(), type=child.Failure).what == "what"
    assert child.leave(tmp_path / "no folder" / "failure.json", error) == child.UNTOLD
    assert capfd.readouterr().err == "what: why\n"
