"""Errors of the machine, not of the model: no memory, a full disk, limits of a process."""

from __future__ import annotations

import errno
import os
import re

from trtprof.base.errors import MissingError, TrtprofError, UsageError

_FULL = "make room on that disk, or name another place (-o, TMPDIR)"
_NO_ROOM = {errno.ENOSPC: _FULL, errno.EROFS: _FULL, errno.EFBIG: "allow larger files: ulimit -f unlimited"}
if hasattr(errno, "EDQUOT"):
    _NO_ROOM[errno.EDQUOT] = _FULL
_EITHER = "; or ".join(dict.fromkeys(_NO_ROOM.values()))
_NOT_WRITTEN = re.compile(
    r"Failed to write external initializers|Failed to open for writing|Protobuf serialization failed"
)
"""What libraries in C++ say of a disk or a limit without naming it."""

_OTHERS = {
    errno.EMFILE: "allow more open files: ulimit -n 1024",
    errno.ENFILE: "close other programs: the system has no more open files",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.EACCES: "ask for the permission, or name another place (-o, TMPDIR)",
    errno.EIO: "look at that disk: it fails",
    errno.EAGAIN: "end other programs: the system starts no more processes or threads",
}


def as_error(error: BaseException) -> TrtprofError | None:
    """The error to show: one of ours, or one of the machine; None for a bug."""
    if isinstance(error, TrtprofError):
        return error
    if isinstance(error, MemoryError):
        return no_memory(str(error) or "the system gives no more to this process")
    said = str(error)
    if getattr(error, "errno", None) == errno.ENOMEM or "Cannot allocate memory" in said:
        return no_memory(said)
    if isinstance(error, FileNotFoundError) and error.filename is None:  # of os.getcwd
        return MissingError("the working folder is gone", why="somebody removed it", fix="cd to another one")
    if isinstance(error, UnicodeEncodeError | UnicodeDecodeError):
        return UsageError(f"a name is no UTF-8: {ascii(error.object)[:200]}", why="reports are", fix="rename it")
    if isinstance(error, OSError) and error.errno in _OTHERS:
        what = f"{error.filename} cannot be used" if error.filename else "the system refuses"
        return MissingError(what, why=error.strerror or said, fix=_OTHERS[error.errno])
    return without_room(error)


def no_memory(why: str) -> MissingError:
    """The error where there is too little memory."""
    return MissingError(
        "not enough memory",
        why=why,
        fix="close other programs, allow more (ulimit -v, the container), or take a smaller batch (--batch, --shapes)",
    )


def without_room(error: BaseException) -> MissingError | None:
    """The error where a disk is full or may not be written, whoever wrote to it; None for any other error."""
    number = error.errno if isinstance(error, OSError) else None
    said = str(error)
    # Libraries in C++ tell it in words alone.
    number = next((each for each in _NO_ROOM if each == number or os.strerror(each) in said), None)
    if number is None and not _NOT_WRITTEN.search(said):
        return None
    name = getattr(error, "filename", None)
    return MissingError(
        f"{os.fsdecode(name)} cannot be written" if isinstance(name, str | bytes) else "a file cannot be written",
        why=os.strerror(number) if number else "the disk is full, or files may not be so large",
        fix=_NO_ROOM[number] if number else _EITHER,
    )


def cut_off(name: str) -> MissingError:
    """The error for a file that a library could not write to its end, without saying so."""
    return MissingError(
        f"{name} cannot be written",
        why="it is missing, or ends too early: the disk is full, or files may not be so large",
        fix=_EITHER,
    )
