"""Files that people name: regular ones of a size that can be held, no pipe that waits, no device without an end."""

from __future__ import annotations

import os
import stat
from io import FileIO
from pathlib import Path, PureWindowsPath

from trtprof.base.errors import UsageError

MAX_BYTES = 1 << 30
"""Larger files are refused where they are held in memory whole."""

# A pipe that nobody writes to, or a serial line, would keep `open` waiting; Windows changes line ends where not told.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def stays_inside(name: str) -> bool:
    """Whether a name that a file gives, of another in the same folder, leads to no other place on any system."""
    path = PureWindowsPath(name)  # which knows all that others do, and drives
    return bool(path.parts) and not path.anchor and ".." not in path.parts and not set(name) & {"\\", "\0"}


def open_file(path: Path, *, fix: str = "") -> FileIO:
    """Open a regular file to read bytes, unbuffered, without ever waiting for one that is none."""
    handle = os.open(path, _FLAGS)
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        kind = next((words for is_one, words in _KINDS if is_one(mode)), "no regular file")
        raise UsageError(f"{path} is {kind}, not a file", fix=fix or "write what it gives into a file, and name that")
    return FileIO(handle)


def read_file(path: Path, *, most: int = MAX_BYTES, what: str = "what is expected there", fix: str = "") -> bytes:
    """The content of a regular file of at most ``most`` bytes."""
    with open_file(path, fix=fix) as file:
        size = os.fstat(file.fileno()).st_size
        data = b"" if size > most else _read(file, most + 1)
    if max(size, len(data)) > most:
        raise UsageError(
            f"{path} is too large for {what}", why=f"{max(size, len(data))} bytes; the limit is {most}", fix=fix
        )
    return data


def _read(file: FileIO, most: int) -> bytes:
    """At most so many bytes, in pieces: one call would allocate all that it may give."""
    parts: list[bytes] = []
    while most > 0 and (part := file.read(min(most, 1 << 24))):
        parts.append(part)
        most -= len(part)
    return b"".join(parts)
