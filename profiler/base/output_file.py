"""Files that someone asked for by name: one error where they cannot be written, before and after the work."""

from __future__ import annotations

import os
from pathlib import Path

from profiler.base.errors import MissingError


def write_file(path: Path, content: bytes) -> None:
    """Write a file.

    Raises:
        MissingError: The folder is not there, or may not be written to.
    """
    try:
        path.write_bytes(content)
    except OSError as error:
        raise _unwritable(path, error.strerror or str(error)) from None


def check_place(path: Path) -> None:
    """Refuse what could not be written when the work is done.

    Raises:
        MissingError: The folder is not there, or may not be written to.
    """
    if not path.parent.is_dir():
        raise _unwritable(path, f"there is no folder {path.parent}")
    if path.is_dir():
        raise _unwritable(path, "it is a folder")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise _unwritable(path, f"{path if path.exists() else path.parent} may not be written to")


def _unwritable(path: Path, why: str) -> MissingError:
    return MissingError(f"{path} cannot be written", why=why, fix="choose another path")
