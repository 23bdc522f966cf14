"""An engine made elsewhere is loaded by those alone who say that they trust it."""

from __future__ import annotations

import hashlib
import sys
from io import StringIO
from pathlib import Path

import pytest

from tests.fakes.command_line import refused, trtprof
from tests.fakes.support import SAMPLES
from trtprof.base.errors import UsageError
from trtprof.cli.engine_trust import allow_engine

RTX = b"vtrt".ljust(16, b"\0") + (32).to_bytes(8, "little") + bytes([1, 7, 1, 116]) + b"\0" * 4
PLAN = b"ftrt".ljust(40, b"\0")
GEMV = str(SAMPLES / "gemv.onnx")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRTPROF_CACHE_DIR", str(tmp_path / "cache"))


def engine(folder: Path, content: bytes = RTX) -> Path:
    path = folder / "by-others.engine"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("words", [("run", GEMV), ("build",), ("build", GEMV)])
def test_nobody_who_could_be_asked_is_a_no(tmp_path: Path, words: tuple[str, ...]) -> None:
    path = engine(tmp_path)
    done = trtprof(*words, "--loadEngine", path)
    assert done.exit_code == 2
    said = " ".join(done.stderr.split())
    for each in ("TensorRT-RTX 1.7.1.116", hashlib.sha256(RTX).hexdigest(), "an engine holds code", "--trust"):
        assert each.lower() in said.lower()
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("answer", "allowed"), [("yes\n", True), ("Y\n", True), ("\n", False), ("no\n", False), ("", False)]
)
def test_a_terminal_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, *, allowed: bool) -> None:
    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    monkeypatch.setattr(sys, "stderr", Terminal())
    path = str(engine(tmp_path, PLAN))
    if allowed:
        allow_engine(path, trust=False)
    else:
        with pytest.raises(UsageError, match="not loaded"):
            allow_engine(path, trust=False)


def test_what_trtprof_built_itself_needs_no_leave(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "cache" / "engines" / "gemv-1" / "engine.plan"
    kept.parent.mkdir(parents=True)
    from trtprof.engine._trt_exchange import PLAN_FILE

    kept.with_name(PLAN_FILE).write_bytes(PLAN)
    allow_engine(str(engine(tmp_path, PLAN)), trust=False)
    assert capsys.readouterr().err == ""
    with pytest.raises(UsageError):
        allow_engine(str(engine(tmp_path, PLAN + b"\1")), trust=False)


def test_it_is_refused_in_one_error(tmp_path: Path) -> None:
    assert "nobody said that it is trusted" in refused(trtprof("build", "--loadEngine", engine(tmp_path)))
