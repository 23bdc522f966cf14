"""What a process holds on disk while it lives is nobody else's, and what a killed one left is swept by the next."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from trtprof.base import run_folder, scratch
from trtprof.base.errors import MissingError, UsageError
from trtprof.base.output_file import replace_file, replaced
from trtprof.base.run_folder import REPORT, RunFolder
from trtprof.base.scratch import InUseError, in_use, scratch_folder

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks")

_HOLD = """
import os, sys
from pathlib import Path
from trtprof.base import run_folder, scratch
from trtprof.base.output_file import replaced
folder = Path(sys.argv[1])
with {what}:
    print("held", flush=True)
    sys.stdin.read()
    os.kill(os.getpid(), 9)
"""
_SCRATCH = "scratch.scratch_folder(folder)"
_PART = "replaced(folder / 'a.json')"
_FOLDER = "scratch.in_use(folder)"


@pytest.fixture(autouse=True)
def _sweeps() -> Iterator[None]:
    """As in a process that has not swept yet."""
    scratch.sweep.cache_clear()
    yield
    scratch.sweep.cache_clear()


@contextmanager
def _another(what: str, folder: Path) -> Iterator[int]:
    """Another process that holds something, and is killed at the end; its number."""
    command = [sys.executable, "-c", _HOLD.format(what=what), str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process.pid
        process.kill()
        process.communicate()


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("what", [_SCRATCH, _PART])
def test_what_another_process_needs_stays_until_it_is_killed(what: str, tmp_path: Path) -> None:
    with _another(what, tmp_path):
        (before,) = _names(tmp_path)
        with scratch_folder(tmp_path) as mine:
            assert _names(tmp_path) == sorted([before, mine.name])
    assert _names(tmp_path) == [before]
    scratch.sweep.cache_clear()
    replace_file(tmp_path / "b.json", b"")
    assert _names(tmp_path) == ["b.json"]


@pytest.mark.parametrize("what", [_SCRATCH, _PART])
def test_what_another_machine_left_stays(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with _another(what, tmp_path):
        (left,) = tmp_path.iterdir()
    monkeypatch.setattr("platform.node", lambda: "elsewhere")
    monkeypatch.setattr(scratch, "PART", ".trtprof-part-elsewhere-")
    with scratch_folder(tmp_path):
        assert left.exists()


def test_folders_of_others_with_such_names_and_links_stay(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "kept").touch()
    (tmp_path / f"{scratch.PREFIX}link").symlink_to(tmp_path / "target")
    (tmp_path / f"{scratch.PREFIX}other").mkdir()
    (tmp_path / f"{scratch.PREFIX}other" / "file").touch()
    before = _names(tmp_path)
    with scratch_folder(tmp_path):
        pass
    assert _names(tmp_path) == before
    assert (tmp_path / "target" / "kept").exists()


def test_a_scratch_folder_is_gone_afterwards_and_one_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    with scratch_folder(tmp_path) as folder:
        (folder / "file").touch()
    assert _names(tmp_path) == []
    with scratch_folder(tmp_path / "made" / "too"):
        pass
    (tmp_path / "file").touch()
    with pytest.raises(MissingError, match="no temporary folder can be made in"), scratch_folder(tmp_path / "file"):
        pass


def test_a_umask_takes_no_scratch_folder_from_its_owner(tmp_path: Path) -> None:
    before = os.umask(0o777)
    try:
        with scratch_folder(tmp_path) as folder:
            assert folder.stat().st_mode & 0o777 == 0o700
    finally:
        os.umask(before)


def test_a_folder_is_one_process_s_until_that_is_killed(tmp_path: Path) -> None:
    with (
        _another(_FOLDER, tmp_path) as pid,
        pytest.raises(InUseError, match=f"is in use by process {pid}\\n"),
        in_use(tmp_path),
    ):
        pass
    with in_use(tmp_path):
        pass
    assert _names(tmp_path) == []


def test_a_mark_that_somebody_made_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("kept")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / scratch.IN_USE).symlink_to(tmp_path / "other")
    with pytest.raises(MissingError), run_folder.claimed(tmp_path / "run"):
        pass
    assert (tmp_path / "other").read_text() == "kept"


def _run(path: Path, text: str) -> Path:
    path.mkdir()
    (path / REPORT).write_text(text)
    return path


def test_the_run_of_another_process_is_neither_replaced_nor_gone_on_with(tmp_path: Path) -> None:
    target = _run(tmp_path / "run", "old")
    with _another("run_folder.claimed(folder)", target) as pid:
        for _ in range(2):
            with pytest.raises(InUseError, match=f"process {pid}"), run_folder.claimed(target):
                pass
    with run_folder.claimed(target), run_folder.replacing(target) as new:
        (new.path / REPORT).write_text("new")
        assert run_folder.replace(new, target).path == target
    assert _names(tmp_path) == ["run"]
    assert _names(target) == [REPORT]
    assert (target / REPORT).read_text() == "new"


@pytest.mark.parametrize("whole", [True, False])
def test_a_replacement_that_was_killed_between_its_two_moves_loses_no_run(whole: bool, tmp_path: Path) -> None:
    target = _run(tmp_path / "run", "old")
    with _another("run_folder.claimed(folder), run_folder.replacing(folder)", target):
        if whole:
            (tmp_path / ".run.new" / REPORT).write_text("new")
        target.rename(tmp_path / ".run.old")
        assert not run_folder.mend(target), "the process lives, and will go on"
    with pytest.raises(UsageError, match="cannot be read"):  # whichever it is, it is found
        RunFolder(target).report()
    assert (target / REPORT).read_text() == ("new" if whole else "old")
    with run_folder.claimed(tmp_path / "next"):
        assert _names(tmp_path) == ["next", "run"]


def test_the_next_run_removes_what_killed_ones_left_beside_it(tmp_path: Path) -> None:
    target = _run(tmp_path / "run", "old")
    live = _another("run_folder.claimed(folder), run_folder.replacing(folder)", target)
    with live, run_folder.claimed(tmp_path / "next"):
        assert (tmp_path / ".run.new").is_dir()
    with run_folder.claimed(tmp_path / "next"):
        assert _names(tmp_path) == ["next", "run"]


def test_two_writers_of_one_file_do_not_hinder_each_other(tmp_path: Path) -> None:
    with _another(_PART, tmp_path), replaced(tmp_path / "a.json") as beside:
        beside.write_bytes(b"mine")
    assert (tmp_path / "a.json").read_bytes() == b"mine"


def test_a_folder_goes_where_a_full_disk_has_no_room_for_its_other_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "run" / "deep").mkdir(parents=True)
    monkeypatch.setattr(Path, "rename", full)
    scratch.remove(tmp_path / "run")
    assert not (tmp_path / "run").exists()
