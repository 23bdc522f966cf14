"""When `trtprof run` tries what its findings name after the report, and what happens to the run then."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tests.fakes.command_line import trtprof
from tests.fakes.report_factory import make_run
from tests.fakes.support import SAMPLES
from tests.fakes.tried_factory import rung
from trtprof.base.errors import CaptureError, MissingError
from trtprof.base.records import Finding
from trtprof.base.run_folder import RunFolder
from trtprof.cli import run as verb
from trtprof.flows import after_run
from trtprof.flows.report import save_report

RESNET = SAMPLES / "resnet_tiny.onnx"
NEXT = "next: trtprof try resnet_tiny.onnx --only RL101"


class _Terminal:
    """The part of ``sys`` that tells a terminal, or none."""

    def __init__(self, *, live: bool) -> None:
        self.stdout = self
        self.isatty = lambda: live


@pytest.fixture
def done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """What every run comes to, on a terminal; trials do nothing."""
    finding = Finding(
        code="RL101", title="slow", severity="warning", where="all", evidence="e", lost_ns=5, confidence=0.5, try_="t",
        command=NEXT.removeprefix("next: "),
    )  # fmt: skip
    (tmp_path / "run").mkdir()
    folder = RunFolder(tmp_path / "run")
    save_report(folder, make_run(findings=(finding,)))
    monkeypatch.setattr("trtprof.flows.run.execute", lambda *_: folder)
    monkeypatch.setattr(verb, "sys", _Terminal(live=True))
    monkeypatch.setattr(after_run, "try_after", lambda *_: None)
    monkeypatch.setenv("CI", "")
    return folder


def test_a_trial_is_for_a_person_at_a_terminal_unless_it_is_asked_for(
    done: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[Path] = []
    monkeypatch.setattr(after_run, "try_after", lambda _, folder, *__: tried.append(folder.path))
    for arguments, live, ci, expected in (
        ((), True, "", True),
        ((), False, "", False),
        ((), True, "true", False),
        (("--quiet",), True, "", False),
        (("-o", tmp_path / "other"), True, "", False),
        (("--format", "json"), True, "", False),
        (("--fail-on", "AL802"), True, "", False),
        (("--no-try",), True, "", False),
        (("--try",), False, "true", True),
        (("--try", "--quiet"), True, "", False),
    ):
        tried.clear()
        monkeypatch.setattr(verb, "sys", _Terminal(live=live))
        found = trtprof("run", RESNET, *arguments, CI=ci)
        assert found.exit_code == 0, found.output
        assert tried == [done.path] * expected, (arguments, live, ci)
        assert (NEXT in found.stderr) is ("--quiet" not in arguments)


def test_what_was_measured_is_said_in_place_of_what_may_help(done: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def tries(*_: Any) -> Any:
        save_report(done, make_run())
        return SimpleNamespace(rungs=(helps, slower, unclear))

    helps = msgspec.structs.replace(rung("prelu-spelled", "helps", 1.5), basis="4.1x on row 1")
    slower = msgspec.structs.replace(rung("no", "slower", 0.8), predicted=None)
    unclear = rung("threads-1", "unclear", 1.4, "option", "2 threads lose to other processes here")
    monkeypatch.setattr(after_run, "try_after", tries)
    found = trtprof("run", RESNET)
    assert "prelu-spelled: measured 4.1x on row 1, 1.5x (1.46 to 1.54) on the model, 791 ms to 527 ms; " in found.stderr
    assert "tried, does not clearly help: no, 0.8x (0.776 to 0.824) on the model" in found.stderr
    assert "threads-1: no verdict: 2 threads lose to other processes here\n" in found.stderr
    assert NEXT not in found.stderr


def test_a_trial_that_fails_or_is_stopped_leaves_the_run(done: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {path.name: path.read_bytes() for path in done.path.iterdir()}
    for error, code, words in (
        (
            CaptureError("a side died", why="signal 11"),
            0,
            "the trial failed, the run is whole: a side died: signal 11\n",
        ),
        (ValueError("a bug"), 0, "the trial failed, the run is whole: ValueError('a bug')\n"),
        (MissingError("onnx-ir is not installed"), 0, NEXT),
        (KeyboardInterrupt(), 130, f"stopped by Ctrl-C\n  the run is whole: trtprof report {done.path}\n"),
    ):

        def fails(*_: Any, error: BaseException = error) -> None:
            raise error

        monkeypatch.setattr(after_run, "try_after", fails)
        found = trtprof("run", RESNET)
        assert found.exit_code == code
        assert words in found.stderr
        assert "Traceback" not in found.stderr
        assert {path.name: path.read_bytes() for path in done.path.iterdir()} == before
        assert (NEXT in found.stderr) is (code == 0)
