"""plugin.json is read back, and a new plugin takes the place of an old one whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.scale_plugin import FORM, task
from trtprof.base.errors import MissingError, UsageError
from trtprof.plugin.folder import FILE, OfRun, load, making
from trtprof.plugin.write import write


def written(folder: Path) -> Path:
    folder.mkdir()
    write(FORM, task(), folder, model="m.onnx", dims={"n": 5}, run=OfRun(folder="m-1", created="now", kernels_ns=7))
    return folder


def test_what_was_written_is_read_back_and_is_the_same_bytes_anywhere(tmp_path: Path) -> None:
    one, other = written(tmp_path / "a"), written(tmp_path / "somewhere else")
    assert load(one).task == task()
    assert (one / FILE).read_bytes() == (other / FILE).read_bytes()
    assert str(tmp_path).encode() not in (one / FILE).read_bytes()


def test_a_document_that_is_damaged_is_refused_and_files_that_are_missing_are_named(tmp_path: Path) -> None:
    path = written(tmp_path / "a") / FILE
    text = path.read_text()
    for old, new in {
        '"schema_version": ': '"schema_version": 9', '"body": "': '"body": "////', '"entry"': '"Entry"',
        '"inserted": ""': '"inserted": "../m.onnx"',
    }.items():  # fmt: skip
        assert old in text
        path.write_text(text.replace(old, new))
        with pytest.raises(UsageError, match=r"plugin\.json (cannot be read|is not used)") as refused:
            load(path.parent)
        assert len(refused.value.why.splitlines()) == 1
    path.write_text(text)
    with pytest.raises(MissingError, match="is no folder of trtprof plugin"):
        load(tmp_path)
    (tmp_path / "a" / "kernel.py").unlink()
    with pytest.raises(MissingError, match=r"kernel\.py is not there"):
        load(tmp_path / "a")


def test_a_new_plugin_takes_the_place_of_the_old_one_and_half_a_one_does_not(tmp_path: Path) -> None:
    folder = written(tmp_path / "a")
    (folder / "mine.txt").write_text("stays")
    (folder / "kernel.1.ptx").write_text("of the old kernel")
    (folder / "cpp").mkdir()
    (folder / "cpp" / "plugin.cpp").write_text("of the old kernel")
    with making(folder) as new:
        (new / "kernel.py").write_text("half")
    assert "half" not in (folder / "kernel.py").read_text()
    with making(folder) as new:
        write(FORM, task("fp16"), new)
    assert load(folder).inputs[0].dtype == "fp16"
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert names == {"README.md", "kernel.py", "mine.txt", FILE, "plugin.py", "test_plugin.py"}
