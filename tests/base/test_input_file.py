"""Only regular files of a bounded size are read; nothing waits."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trtprof.base.errors import UsageError
from trtprof.base.input_file import MAX_BYTES, read_file, stays_inside
from trtprof.base.text_file import read_text_file


def test_a_file_is_read_up_to_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x" * 10)
    assert read_file(path, most=10) == b"x" * 10
    with pytest.raises(UsageError, match="too large for a plan") as caught:
        read_file(path, most=9, what="a plan")
    assert "10 bytes; the limit is 9" in str(caught.value)


def test_what_is_huge_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with path.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(UsageError, match="too large"):
        read_file(path)


def test_a_pipe_without_a_writer_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "p")
    for read in (read_file, lambda path: read_text_file(path, what="a profile", fix="name one")):
        with pytest.raises(UsageError, match="is a pipe, not a file"):
            read(tmp_path / "p")


@pytest.mark.parametrize(
    ("name", "inside"),
    [
        ("a", True), ("a/b.onnx", True), ("a..b", True), ("layer:0.weight", True),
        ("", False), (".", False), ("/a", False), ("../a", False), ("a/../../b", False), ("a/..", False),
        ("C:a", False), ("C:/a", False), ("\\\\host\\a", False), ("a\\..\\b", False), ("a\0b", False),
    ],
)  # fmt: skip
def test_a_name_stays_in_its_folder_on_every_system(name: str, inside: bool) -> None:
    assert stays_inside(name) is inside
