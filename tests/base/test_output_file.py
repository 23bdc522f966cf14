"""What is written is whole or as it was before, whatever fails."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from trtprof.base.errors import MissingError
from trtprof.base.output_file import replace_file, replaced, write_file


def _half(path: Path, error: BaseException) -> None:
    with replaced(path) as beside:
        beside.write_bytes(b"half")
        raise error


def test_a_failing_write_leaves_what_was_there_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(b"old")
    with pytest.raises(OSError, match="full"):
        _half(path, OSError(28, "the disk is full"))
    assert [each.name for each in tmp_path.iterdir()] == ["report.json"]
    assert path.read_bytes() == b"old"


def test_a_new_file_has_the_permissions_of_any_other_and_an_old_one_keeps_its(tmp_path: Path) -> None:
    (tmp_path / "any").touch()
    replace_file(tmp_path / "new", b"1")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "any").stat().st_mode
    (tmp_path / "new").chmod(0o604)
    replace_file(tmp_path / "new", b"2")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o604


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "report.html").write_bytes(b"old")
    link = tmp_path / "latest.html"
    link.symlink_to(tmp_path / "kept" / "report.html")
    write_file(link, b"new")
    assert link.is_symlink()
    assert (tmp_path / "kept" / "report.html").read_bytes() == b"new"


def test_what_is_no_file_is_not_replaced_even_by_a_link_to_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "kept.json").symlink_to(tmp_path / "pipe")
    for name in ("pipe", "kept.json"):
        with pytest.raises(OSError, match="what is there is no file"):
            replace_file(tmp_path / name, b"x")
    assert (tmp_path / "pipe").is_fifo()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["kept.json", "pipe"]


def test_a_device_is_written_to_and_stays_one() -> None:
    write_file(Path(os.devnull), b"gone")
    assert Path(os.devnull).is_char_device()


def test_a_full_device_is_one_error() -> None:
    with pytest.raises(MissingError, match="/dev/full cannot be written"):
        write_file(Path("/dev/full"), b"x")
