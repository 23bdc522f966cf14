"""Code of a plugin that trtprof did not write on this machine is told of before it runs."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.fakes.command_line import refused, trtprof
from tests.fakes.scale_plugin import FORM, task
from trtprof.base import made_here
from trtprof.plugin.trust import code_files, other_code
from trtprof.plugin.write import write


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as its maker left it."""
    monkeypatch.setenv("TRTPROF_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "plugin"
    folder.mkdir()
    write(FORM, task(), folder, inserted="model.onnx")
    (folder / "model.onnx").write_text("m")
    return folder


def names(folder: Path, cache: Path) -> tuple[str, ...]:
    found = other_code(folder, cache)
    return found.names if found is not None else ()


def test_what_was_written_here_needs_no_leave_until_it_is_changed(plugin: Path, tmp_path: Path) -> None:
    assert names(plugin, tmp_path) == ("kernel.py", "plugin.json", "plugin.py", "test_plugin.py")
    made_here.remember(code_files(plugin), tmp_path)
    assert names(plugin, tmp_path) == ()
    (plugin / "README.md").write_text("notes")
    (plugin / "model.onnx").write_text("another")
    assert names(plugin, tmp_path) == ()
    (plugin / "kernel.py").write_text("22")
    found = other_code(plugin, tmp_path)
    assert found is not None
    assert (found.names, found.nbytes, found.sha256) == (("kernel.py",), 2, hashlib.sha256(b"22").hexdigest())


def test_what_was_laid_beside_it_is_code_too(plugin: Path, tmp_path: Path) -> None:
    made_here.remember(code_files(plugin), tmp_path)
    laid = ("__pycache__/plugin.cpython-311.pyc", "cpp/cuda.h", "kernel.1.ptx", "numpy.py")
    for name in laid:
        (plugin / name).parent.mkdir(exist_ok=True)
        (plugin / name).write_text("evil")
    assert names(plugin, tmp_path) == laid


@pytest.mark.parametrize("words", ["bench FOLDER", "FOLDER --only check", "--only check -o FOLDER"])
def test_nobody_who_could_be_asked_is_a_no(words: str, plugin: Path) -> None:
    asked = ["plugin", *(str(plugin) if word == "FOLDER" else word for word in words.split())]
    said = " ".join(refused(trtprof(*asked)).split())
    assert "is not run" in said
    assert "--trust" in said
    assert "4 of 4 files: kernel.py" in " ".join(trtprof(*asked).stderr.split())
