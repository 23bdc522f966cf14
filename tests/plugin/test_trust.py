"""Code of a plugin that trtprof did not write on this machine is told of before it runs."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.fakes.command_line import refused, trtprof
from trtprof.base import made_here
from trtprof.plugin import folder as folders
from trtprof.plugin.trust import code_files, other_code


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a plugin in Python and in C++, as its maker left it."""
    monkeypatch.setenv("TRTPROF_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "plugin"
    for name, text in {
        "python/a.py": "1", "cpp/a.cu": "2", "cpp/deep/b.h": "3", "model.onnx": "m", "brief.json": "{}"
    }.items():  # fmt: skip
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    given = folders.PluginFolder(
        name="A", nodes=(), inputs=(), outputs=(), body=b"", main="", quick="python/a.py", native="cpp",
        inserted="model.onnx",
    )  # fmt: skip
    folders.save(folder, given)
    return folder


def names(folder: Path, cache: Path) -> tuple[str, ...]:
    found = other_code(folder, cache)
    return found.names if found is not None else ()


def test_all_of_a_folder_by_others_is_their_code(plugin: Path, tmp_path: Path) -> None:
    assert names(plugin, tmp_path) == ("cpp/a.cu", "cpp/deep/b.h", "plugin.json", "python/a.py")


def test_what_was_written_here_needs_no_leave_until_it_is_changed(plugin: Path, tmp_path: Path) -> None:
    made_here.remember(code_files(plugin), tmp_path)
    assert names(plugin, tmp_path) == ()
    (plugin / "model.onnx").write_text("another")
    assert names(plugin, tmp_path) == ()
    (plugin / "cpp" / "a.cu").write_text("22")
    found = other_code(plugin, tmp_path)
    assert found is not None
    assert (found.names, found.nbytes, found.sha256) == (("cpp/a.cu",), 2, hashlib.sha256(b"22").hexdigest())


@pytest.mark.parametrize("name", ["python/__pycache__/a.cpython-311.pyc", "python/numpy.py", "cpp/cuda_runtime.h"])
def test_what_was_laid_beside_it_is_code_too(name: str, plugin: Path, tmp_path: Path) -> None:
    made_here.remember(code_files(plugin), tmp_path)
    (plugin / name).parent.mkdir(exist_ok=True)
    (plugin / name).write_text("evil")
    assert names(plugin, tmp_path) == (name,)


@pytest.mark.parametrize(
    "words", [("bench", "FOLDER"), ("FOLDER", "--only", "check"), ("--only", "check", "-o", "FOLDER")]
)
def test_nobody_who_could_be_asked_is_a_no(words: tuple[str, ...], plugin: Path) -> None:
    asked = ["plugin", *(str(plugin) if word == "FOLDER" else word for word in words)]
    said = " ".join(refused(trtprof(*asked)).split())
    assert "is not run" in said
    assert "--trust" in said
    told = trtprof(*asked)
    assert "4 of 4 files: cpp/a.cu" in " ".join(told.stderr.split())
    assert "is not run" not in trtprof(*asked, "--trust").stderr
