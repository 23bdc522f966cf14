"""Files are written whole or not at all, and what was there before stays until then.

`replaced` is the one way to write what must outlast a crash or a full disk; `write_file` is it for a file that someone
asked for by name, with the one error where it cannot be written, before (`check_place`) and after the work.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trtprof.base.errors import MissingError
from trtprof.base.scratch import PART


def write_file(path: Path, content: bytes) -> None:
    """Write a file that was asked for by name."""
    try:
        if path.exists() and not path.is_file():  # a terminal, a pipe, /dev/stdout: nothing can be moved there
            path.write_bytes(content)
        else:
            replace_file(path, content)
    except OSError as error:
        raise _unwritable(path, error.strerror or str(error)) from None


def replace_file(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, see `replaced`."""
    with replaced(path) as beside:
        beside.write_bytes(content)


def copy_file(source: Path, path: Path) -> None:
    """Copy a file, whole or not at all, see `replaced`; onto itself it is left as it is."""
    if path.exists() and path.samefile(source):
        return
    with replaced(path) as beside:
        shutil.copyfile(source, beside)


@contextmanager
def replaced(path: Path, to: Path | None = None) -> Iterator[Path]:
    """An empty file beside a place, moved there at the end; a link stays one, and a file's mode is kept."""
    place = path.resolve() if path.is_symlink() else path
    if place.exists() and not place.is_file():  # who may write to /dev could move a file there
        raise OSError(errno.EINVAL, "what is there is no file", str(place))
    beside = place.with_name(f"{PART}{os.urandom(8).hex()}{place.suffix}")
    try:
        beside.touch(exist_ok=False)
        if place.exists():
            beside.chmod(stat.S_IMODE(place.stat().st_mode))
        yield beside
        with beside.open("rb+") as file:
            os.fsync(file.fileno())
        beside.replace(to or place)
    finally:
        beside.unlink(missing_ok=True)


def check_place(path: Path) -> None:
    """Refuse what could not be written when the work is done."""
    if not path.parent.is_dir():
        raise _unwritable(path, f"there is no folder {path.parent}")
    if path.is_dir():
        raise _unwritable(path, "it is a folder")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise _unwritable(path, f"{path if path.exists() else path.parent} may not be written to")


def _unwritable(path: Path, why: str) -> MissingError:
    return MissingError(f"{path} cannot be written", why=why, fix="choose another path")
