"""The parent of the worker: relays progress, and says how a worker died."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from trtprof.base.errors import CaptureError, MissingError, TrtprofError
from trtprof.base.records import InputTensor
from trtprof.capture import launch
from trtprof.capture.launch import run_worker
from trtprof.capture.workers.ort_cpu import WorkerRequest
from trtprof.runtime import child
from trtprof.runtime.ort_session import SessionRequest


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[Any]]:
    """The processes that `launch` starts."""
    started: list[subprocess.Popen[Any]] = []

    class Recorded(subprocess.Popen[Any]):
        def __init__(self, *args: Any, **named: Any) -> None:
            super().__init__(*args, **named)
            started.append(self)

    monkeypatch.setattr(launch.child.subprocess, "Popen", Recorded)  # type: ignore[attr-defined]
    return started


def save(path: Path, op_type: str = "Relu", domain: str = "") -> Path:
    graph = helper.make_graph(
        [helper.make_node(op_type, ["x"], ["y"], "node", domain=domain)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])],
    )
    opsets = [helper.make_opsetid("", 17), *([helper.make_opsetid(domain, 1)] if domain else [])]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), str(path))
    return path


def request(folder: Path, model: Path, duration_s: float = 0.0, shape: tuple[int, ...] = (4,)) -> WorkerRequest:
    results, scratch = folder / "run", folder / "scratch"
    results.mkdir()
    scratch.mkdir()
    return WorkerRequest(
        session=SessionRequest(model=str(model), threads=1),
        folder=str(results),
        scratch=str(scratch),
        inputs=(InputTensor(name="x", dtype="fp32", shape=shape),),
        graph_file="engine.onnx",
        layers=1,
        seed=0,
        iterations=3,
        warmup_ms=1.0,
        duration_s=duration_s,
        profile_iterations=3,
    )


def in_place_of_the_worker(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """Run this Python instead of the worker; it gets the worker's arguments."""
    script = folder / "python"
    script.write_text(f"#!{sys.executable}\nimport os, signal, sys\n{body}\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))


def test_a_capture_that_went_well_relays_its_progress_and_leaves_no_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever lies in the working folder: people keep an onnx.py or a trtprof/ of their own beside their model."""
    (tmp_path / "onnx.py").write_text("raise SystemExit('shadowed')")
    (tmp_path / "trtprof").mkdir()
    (tmp_path / "trtprof" / "__init__.py").write_text("raise SystemExit('shadowed')")
    monkeypatch.chdir(tmp_path)
    asked = request(tmp_path, save(tmp_path / "m.onnx"))
    lines: list[str] = []
    run_worker(asked, lines.append)
    assert lines == ["clean latency", "profile of 3 iterations", "reading the profile"]
    assert (Path(asked.folder) / "capture.json").is_file()
    assert not (Path(asked.folder) / launch.LOG_FILE).exists()


def test_a_worker_that_is_killed_is_said_to_be_and_its_log_is_kept(
    tmp_path: Path, children: list[subprocess.Popen[Any]]
) -> None:
    asked = request(tmp_path, save(tmp_path / "m.onnx"), duration_s=600.0)

    def kill(line: str) -> None:
        assert line == "clean latency"
        os.kill(children[0].pid, signal.SIGKILL)

    with pytest.raises(CaptureError, match="the run of the model died") as error:
        run_worker(asked, kill)
    assert "SIGKILL" in error.value.why
    assert "out of memory" in error.value.why
    assert error.value.exit_code == 5
    log = Path(asked.folder) / launch.LOG_FILE
    assert log.is_file()
    assert str(log) in error.value.fix


def test_a_signal_other_than_kill_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_place_of_the_worker(tmp_path, monkeypatch, "os.kill(os.getpid(), signal.SIGABRT)")
    with pytest.raises(CaptureError) as error:
        run_worker(request(tmp_path, tmp_path / "m.onnx"), print)
    assert error.value.why == "it was ended by SIGABRT"


def test_a_worker_that_crashed_is_quoted_with_its_last_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = "print('half way', flush=True)\nraise ZeroDivisionError('a bug of ours')"
    in_place_of_the_worker(tmp_path, monkeypatch, body)
    asked = request(tmp_path, tmp_path / "m.onnx")
    lines: list[str] = []
    with pytest.raises(CaptureError) as error:
        run_worker(asked, lines.append)
    assert lines == ["half way"]
    assert error.value.why == "ZeroDivisionError: a bug of ours"
    log = (Path(asked.folder) / launch.LOG_FILE).read_text()
    assert "Traceback" in log


@pytest.mark.parametrize("code", [0, 3, 77])
def test_a_worker_that_ends_without_a_result_and_without_a_word(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_place_of_the_worker(tmp_path, monkeypatch, f"sys.exit({code})")
    with pytest.raises(CaptureError) as error:
        run_worker(request(tmp_path, tmp_path / "m.onnx"), print)
    assert error.value.why == f"exit code {code} without a word"


def test_an_old_result_does_not_hide_that_the_worker_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_place_of_the_worker(tmp_path, monkeypatch, "sys.exit(1)")
    asked = request(tmp_path, tmp_path / "m.onnx")
    (Path(asked.folder) / "capture.json").write_text("{}")
    with pytest.raises(CaptureError):
        run_worker(asked, print)


def test_an_error_of_ours_comes_back_with_its_words_and_its_exit_code(tmp_path: Path) -> None:
    asked = request(tmp_path, save(tmp_path / "m.onnx", "FlashThing", "acme"))
    with pytest.raises(TrtprofError, match="acme:FlashThing") as error:
        run_worker(asked, lambda _line: None)
    assert error.value.exit_code == 3, "something is missing here"
    assert "not a registered" in error.value.why
    assert error.value.fix
    assert not (Path(asked.folder) / launch.LOG_FILE).exists(), "the error says it all"


def test_a_model_that_does_not_run_is_a_capture_error(tmp_path: Path) -> None:
    asked = request(tmp_path, save(tmp_path / "m.onnx"), shape=(5,))
    with pytest.raises(CaptureError, match="does not run with these inputs") as error:
        run_worker(asked, lambda _line: None)
    assert error.value.exit_code == 5
    assert "Got: 5 Expected: 4" in error.value.why


def test_ctrl_c_ends_the_worker_too(tmp_path: Path, children: list[subprocess.Popen[Any]]) -> None:
    asked = request(tmp_path, save(tmp_path / "m.onnx"), duration_s=600.0)

    def interrupt(_line: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_worker(asked, interrupt)
    (child,) = children
    # It is killed, unless it sees before that its stdin is closed.
    assert child.returncode in (-signal.SIGKILL, 130)
    with pytest.raises(ProcessLookupError):
        os.kill(child.pid, 0)


@pytest.mark.parametrize("scratch", ["scratch", "no such folder"])
@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "x"), RuntimeError(os.strerror(errno.ENOSPC))], ids=repr
)
def test_a_full_disk_is_told_even_where_the_error_cannot_be_written(
    error: Exception, scratch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = request(tmp_path, tmp_path / "model.onnx")
    body = (
        "from trtprof.capture.workers.inference import reported\n"
        f"def work(): raise {type(error).__name__}{error.args!r}\n"
        f"sys.exit(reported(work, {str(tmp_path / scratch)!r}))"
    )
    in_place_of_the_worker(tmp_path, monkeypatch, body)
    with pytest.raises(TrtprofError, match=os.strerror(errno.ENOSPC)) as raised:
        run_worker(asked, lambda _: None)
    assert raised.value.exit_code == MissingError.exit_code


def test_an_inference_without_an_end_is_ended_with_words() -> None:
    program = (
        "import time; from trtprof.capture.workers import inference; inference.LONGEST_S = 0.2; "
        "inference.first_run(lambda: time.sleep(60))"
    )
    found = subprocess.run(
        [sys.executable, "-c", program],
        env=child.environment(),
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert found.returncode == 5
    assert found.stderr.splitlines()[-1] == "one inference takes longer than 0 s"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no such device")
def test_a_full_disk_is_told_where_the_log_is_on_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = request(tmp_path, tmp_path / "model.onnx")
    body = (
        "from trtprof.capture.workers.inference import reported\n"
        "os.dup2(os.open('/dev/full', os.O_WRONLY), 2)\n"
        "def work(): raise OSError(28, 'full')\n"
        f"sys.exit(reported(work, {str(tmp_path / 'no such folder')!r}))"
    )
    in_place_of_the_worker(tmp_path, monkeypatch, body)
    with pytest.raises(MissingError, match="could not write its results"):
        run_worker(asked, lambda _: None)
