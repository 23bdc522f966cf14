"""A folder is one process's at a time, and a replaced run is there until the new one is whole."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from trtprof.base import run_folder, scratch
from trtprof.base.errors import MissingError
from trtprof.base.run_folder import REPORT
from trtprof.base.scratch import InUseError, in_use, scratch_folder

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="holds no lock of another process by fork")


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_scratch_folder_is_gone_afterwards_and_one_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    with scratch_folder(tmp_path) as folder:
        (folder / "file").touch()
    with scratch_folder(tmp_path / "made" / "too"):
        pass
    (tmp_path / "file").touch()
    with pytest.raises(MissingError, match="no temporary folder can be made in"), scratch_folder(tmp_path / "file"):
        pass
    assert _names(tmp_path) == ["file", "made"]


@pytest.mark.process
def test_a_folder_is_one_process_s_until_that_is_killed(tmp_path: Path) -> None:
    read, write = os.pipe()
    child = os.fork()
    if not child:
        with in_use(tmp_path):
            os.write(write, b"held")
            os.read(os.pipe()[0], 1)  # for ever
        os._exit(1)
    assert os.read(read, 4) == b"held"
    with pytest.raises(InUseError, match="is in use by another process"), run_folder.claimed(tmp_path):
        pass
    os.kill(child, 9)
    os.waitpid(child, 0)
    (tmp_path / f"{scratch.PART}1.json").touch()
    (tmp_path / f"{scratch.PREFIX}1").mkdir()
    with run_folder.claimed(tmp_path):
        assert _names(tmp_path) == [scratch.IN_USE], "what the killed one left is removed"
    assert _names(tmp_path) == []


def test_a_run_is_replaced_by_a_whole_one_only(tmp_path: Path) -> None:
    target = tmp_path / "run"
    target.mkdir()
    (target / REPORT).write_text("old")
    with pytest.raises(KeyboardInterrupt), run_folder.claimed(target), run_folder.replacing(target):
        raise KeyboardInterrupt
    assert _names(tmp_path) == ["run"]
    assert (target / REPORT).read_text() == "old"
    with run_folder.claimed(target), run_folder.replacing(target) as new:
        (new.path / REPORT).write_text("new")
        assert run_folder.replace(new, target).path == target
    assert _names(tmp_path) == ["run"]
    assert _names(target) == [REPORT]
    assert (target / REPORT).read_text() == "new"
