"""Temporary folders, and folders that one process uses at a time."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from trtprof.base.errors import MissingError, UsageError

IN_USE = ".trtprof-in-use"
"""The file in a folder that its user keeps locked."""
PREFIX = "trtprof-scratch-"
"""What the names of temporary folders begin with, wherever they lie."""
PART = ".trtprof-part-"
"""What the names of files begin with that are not whole yet; see `trtprof.base.output_file.replaced`."""


class InUseError(UsageError):
    """Another process uses the folder."""


@contextmanager
def scratch_folder(parent: Path | None = None) -> Iterator[Path]:
    """An empty folder that is gone afterwards."""
    try:
        if parent is not None:
            parent.mkdir(parents=True, exist_ok=True)
        folder = tempfile.TemporaryDirectory(prefix=PREFIX, dir=parent, ignore_cleanup_errors=True)
    except OSError as error:
        raise MissingError(
            "no temporary folder can be made" + (f" in {parent}" if parent is not None else ""),
            why=error.strerror or str(error),
            fix="make room there" if parent is not None else "make room, or set TMPDIR to another folder",
        ) from None
    with folder as path:
        yield Path(path)


@contextmanager
def in_use(folder: Path) -> Iterator[None]:
    """Keep other processes from using a folder until the block ends; the system ends it where this one is killed."""
    mark = folder / IN_USE
    try:
        with FileLock(mark, timeout=0):
            try:
                yield
            finally:
                mark.unlink(missing_ok=True)
    except Timeout:
        raise InUseError(
            f"{folder} is in use by another process", fix="wait until it is done, or choose another folder"
        ) from None
