"""Children that answer, fail, die, hang, sleep, and what their parent says of it; none is left running."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.fakes.support import SAMPLES
from trtprof.base.errors import BuildError, CaptureError, MissingError, ModelError, TrtprofError
from trtprof.capture.workers import inference
from trtprof.engine import ort_graph
from trtprof.runtime import child
from trtprof.runtime.ort_session import SessionRequest

PYTHON = sys.executable


class Request(msgspec.Struct):
    value: int = 7


def in_place_of_the_child(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """Run this Python instead of the child; its last argument is the file of the request."""
    script = folder / "python"
    script.write_text(f"#!{PYTHON}\nimport os, signal, sys, threading, time\n{body}\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))


def asked(folder: Path, lines: list[str] | None = None, **how: Any) -> int:
    said: list[str] = [] if lines is None else lines
    log = folder / "run.log"
    return child.ask("m", Request(), int, what="the run", folder=folder, log=log, say=said.append, **how)


# --- one request, one answer ------------------------------------------------------------------


@pytest.mark.process
def test_a_child_relays_its_progress_and_leaves_no_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = (
        "request = sys.argv[-1]\nprint('half way', flush=True)\nassert 'value' in open(request).read()\n"
        "open(os.path.dirname(request) + '/answer.json', 'w').write('42')"
    )
    in_place_of_the_child(tmp_path, monkeypatch, body)
    lines: list[str] = []
    assert asked(tmp_path, lines) == 42
    assert lines == ["half way"]
    assert not (tmp_path / "run.log").exists()

    # One that is there before its request answers it; where none is left, another one is started.
    starts = tmp_path / "starts"
    began = (
        f"from trtprof.runtime import child\nsys.argv = sys.argv[3:]\nopen({str(starts)!r}, 'a').write('1')\n"
        "argv = child.await_request()\n"
    )
    answers = "sys.exit(child.answer(argv, dict, lambda asked: int(os.environ['TMPDIR'] == os.path.dirname(argv[1]))))"
    in_place_of_the_child(tmp_path, monkeypatch, began + answers)
    with child.started_ahead("m", 1):
        assert starts.read_text() == "1"
        assert (asked(tmp_path), starts.read_text()) == (1, "1")
        assert (asked(tmp_path), starts.read_text()) == (1, "11")
    in_place_of_the_child(tmp_path, monkeypatch, began + "raise ZeroDivisionError('of ours')")
    with child.started_ahead("m", 2), pytest.raises(child.DiedError) as error:
        asked(tmp_path)
    assert (error.value.why, starts.read_text()) == ("ZeroDivisionError: of ours", "1111")


@pytest.mark.nightly
def test_whatever_lies_in_the_working_folder_shadows_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """People keep an onnx.py or a trtprof/ of their own beside their model."""
    (tmp_path / "onnx.py").write_text("raise SystemExit('shadowed')")
    (tmp_path / "trtprof").mkdir()
    (tmp_path / "trtprof" / "__init__.py").write_text("raise SystemExit('shadowed')")
    monkeypatch.chdir(tmp_path)
    ort_graph.save_graph(SessionRequest(model=str(SAMPLES / "gemv.onnx"), threads=1), tmp_path)


DEATHS: dict[str, tuple[str, type[TrtprofError], str, str]] = {
    "killed": ("os.kill(os.getpid(), signal.SIGKILL)", child.DiedError, "the run died", "killed (SIGKILL): out of mem"),
    "signal": ("os.kill(os.getpid(), signal.SIGABRT)", child.DiedError, "the run died", "it was ended by SIGABRT"),
    "a bug": ("raise ZeroDivisionError('of ours')", child.DiedError, "the run died", "ZeroDivisionError: of ours"),
    "no word": ("sys.exit(3)", child.DiedError, "the run died", "exit code 3 without a word"),
    "no answer": ("sys.exit(0)", child.DiedError, "the run died", "exit code 0 without a word"),
    "late": ("time.sleep(60)", child.DiedError, "the run hangs", "it took more than 0.5 s"),
    "full disk": (f"sys.exit({child.UNTOLD})", MissingError, "the run could not write its results", "the disk of"),
    "no such answer": (
        "open(os.path.dirname(sys.argv[-1]) + '/answer.json', 'w').write('\"text\"')",
        CaptureError, "the child left no answer", "Expected `int`",
    ),
}  # fmt: skip


@pytest.mark.process
def test_how_a_child_died_is_told_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    for name, (body, kind, what, why) in DEATHS.items():
        with subtests.test(name):
            in_place_of_the_child(tmp_path, monkeypatch, body)
            (tmp_path / "failure.json").write_text("{}")  # of an earlier child
            with pytest.raises(kind) as error:
                asked(tmp_path, within_s=0.5 if name == "late" else None)
            assert error.value.what == what
            assert why in error.value.why
            if kind is child.DiedError:
                assert (tmp_path / "run.log").is_file()
                assert error.value.fix == f"see {tmp_path / 'run.log'}"


@pytest.mark.process
def test_one_that_sleeps_for_ever_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a library does that waits for a thread that could not be started."""
    monkeypatch.setattr(child, "ASLEEP_S", 0.6)
    monkeypatch.setattr(child, "_LOOK_S", 0.2)
    began = time.monotonic()
    in_place_of_the_child(tmp_path, monkeypatch, "print('captured', flush=True); threading.Event().wait(60)")
    with pytest.raises(child.DiedError, match="the run hangs"):
        asked(tmp_path)
    in_place_of_the_child(tmp_path, monkeypatch, "os.close(1); time.sleep(60)")
    with pytest.raises(child.DiedError, match="the run died"):
        asked(tmp_path)
    assert time.monotonic() - began < 30
    works = "until = time.time() + 1.5\nwhile time.time() < until: sum(range(10_000))\nsys.exit(9)"
    in_place_of_the_child(tmp_path, monkeypatch, works)
    with pytest.raises(child.DiedError, match="the run died"):  # by itself: one that works is not asleep
        asked(tmp_path)


@pytest.mark.process
def test_ctrl_c_ends_the_child_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_place_of_the_child(tmp_path, monkeypatch, "print(os.getpid(), flush=True); time.sleep(600)")
    pids: list[int] = []

    def interrupt(line: str) -> None:
        pids.append(int(line))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        child.ask("m", Request(), int, what="the run", say=interrupt)
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


@pytest.mark.process
def test_a_child_outlives_no_parent_that_is_killed(tmp_path: Path) -> None:
    worker = (
        "import os, time; from trtprof.runtime import child; child.end_with_parent(); "
        "print(os.getpid(), flush=True); time.sleep(600)"
    )
    parent = (
        "import sys; from trtprof.runtime import child; from pathlib import Path\n"
        f"command = [sys.executable, '-c', {worker!r}]\n"
        f"log = Path({str(tmp_path / 'log')!r})\n"
        "child.run_telling(command, log, lambda line: print(line, flush=True), child.environment())"
    )
    with subprocess.Popen(
        [sys.executable, "-c", parent], env=child.environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        process.kill()
        end = time.monotonic() + 30
        while Path(f"/proc/{pid}").exists() and time.monotonic() < end:
            time.sleep(0.02)
    assert not Path(f"/proc/{pid}").exists()


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


# --- the child's side -------------------------------------------------------------------------


def test_an_error_comes_back_as_what_it_is(tmp_path: Path) -> None:
    (*_, file) = child.prepare("m", Request(), tmp_path)

    def fails(_: Request) -> None:
        raise BuildError("what", why="why", fix="fix")

    assert child.answer(["m", file], Request, fails) == BuildError.exit_code
    found = child.failure_in(tmp_path)
    assert isinstance(found, BuildError)
    assert (found.what, found.why, found.fix) == ("what", "why", "fix")
    assert child.Failure.of(ModelError("x")).error().exit_code == ModelError.exit_code
    child.prepare("m", Request(), tmp_path)
    assert child.failure_in(tmp_path) is None, "the error of one run is not that of the next"
    assert child.answer(["m", file], Request, lambda request: request.value) == 0
    assert child.answer_in(tmp_path, int) == 7


@pytest.mark.parametrize("full", [False, True])
def test_a_full_disk_is_told_even_where_the_error_cannot_be_written(
    full: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def write(path: Path, content: bytes) -> None:
        if full or path.name != "failure.json":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        path.write_bytes(content)

    monkeypatch.setattr(child, "replace_file", write)
    (*_, file) = child.prepare("m", Request(), tmp_path)
    code = child.answer(["m", file], Request, lambda request: request.value)
    found = child.failure_in(tmp_path)
    assert code == (child.UNTOLD if full else MissingError.exit_code)
    told = capfd.readouterr().err if full else "" if found is None else found.why
    assert os.strerror(errno.ENOSPC) in told


def test_an_inference_without_an_end_is_ended_with_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    codes: list[int] = []
    monkeypatch.setattr(inference, "LONGEST_S", 0.05)
    monkeypatch.setattr(os, "_exit", codes.append)
    inference.first_run(lambda: time.sleep(0.5))
    assert codes == [5]
    assert "one inference takes longer than 0 s" in capsys.readouterr().err


# --- many requests ----------------------------------------------------------------------------


ECHO = """
from trtprof.runtime import child
def answers(lines):
    for line in lines:
        if line == b"fail":
            raise child.MissingError("what", why="why", fix="fix")
        os.write(1, b"a library prints")
        yield line.decode() * 50_000
sys.exit(child.converse(answers))
"""


@pytest.mark.process
def test_a_dialogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_place_of_the_child(tmp_path, monkeypatch, ECHO)
    talk = child.Dialogue("m", tmp_path / "log")
    try:
        for line in (b"one", b"other"):
            talk.send(line)
            assert msgspec.json.decode(talk.receive(60)) == line.decode() * 50_000
        assert talk.alive
        assert talk.resident_bytes() > 1 << 20
        with pytest.raises(TimeoutError):
            talk.receive(0.05)
        talk.send(b"fail")
        assert msgspec.json.decode(talk.receive(60), type=child.Failure).exit_code == MissingError.exit_code
        with pytest.raises(EOFError, match="a library prints"):
            talk.receive(60)
        talk.send(b"nobody listens")
    finally:
        talk.end()
    assert not talk.alive
    killed = child.Dialogue("m", tmp_path / "log")
    os.kill(killed.pid, signal.SIGKILL)
    with pytest.raises(EOFError, match="SIGKILL"):
        killed.receive(60)
    killed.end()
