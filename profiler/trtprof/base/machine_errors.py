"""Errors of the machine, not of the model or of ours: no memory, no room on a disk, limits of a process.

They come from the system, from Python and from libraries, each in its own words; here they get those of trtprof.
"""

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
    errno.ELOOP: "name the file itself: its links lead in a circle",
    errno.EACCES: "ask for the permission, or name another place (-o, TMPDIR)",
    errno.EIO: "look at that disk: it fails",
    errno.EAGAIN: "end other programs: the system starts no more processes or threads",
}
"""What an error of the system is mended by, where no code of ours can."""


def as_error(error: BaseException) -> TrtprofError | None:
    """An error as a person is told it: one of ours, or one of the machine; None for a bug."""
    if isinstance(error, TrtprofError):
        if os.strerror(errno.EFBIG) in error.why:  # no other folder would help
            error.fix = _NO_ROOM[errno.EFBIG]
        return error
    if isinstance(error, MemoryError):
        return no_memory(error)
    if isinstance(error, (ImportError, OSError)) and _is_memory(error):
        return no_memory(str(error))
    if isinstance(error, FileNotFoundError) and error.filename is None:  # of os.getcwd
        return MissingError("the working folder is gone", why="somebody removed it", fix="cd to another one")
    if isinstance(error, UnicodeEncodeError) and "surrogates" in error.reason:
        return UsageError(
            f"a name is no UTF-8: {ascii(error.object)[:200]}", why="what is written of it is", fix="rename the folder"
        )
    if isinstance(error, OSError) and error.errno in _OTHERS:
        what = f"{error.filename} cannot be used" if error.filename else "the system refuses"
        return MissingError(what, why=error.strerror or str(error), fix=_OTHERS[error.errno])
    return without_room(error)


def no_memory(error: MemoryError | str) -> MissingError:
    """What is said where there is too little memory: why, or what a library said."""
    return MissingError(
        "not enough memory",
        why=error if isinstance(error, str) else _asked_for(error),
        fix="close other programs, allow more (ulimit -v, the container), or take a smaller batch (--batch, --shapes)",
    )


def without_room(error: BaseException) -> MissingError | None:
    """What is said where a disk is full or may not be written, whoever wrote to it; None for any other error."""
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
    """What is said of a file of ours that a library could not make, or not write to its end, and did not tell."""
    return MissingError(
        f"{name} cannot be written",
        why="it is missing, or ends too early: the disk is full, or files may not be so large",
        fix=_EITHER,
    )


def _asked_for(error: MemoryError) -> str:
    """How much was asked for in vain, as far as whoever asked tells."""
    from trtprof.base.units import format_bytes  # which is seldom needed

    shape, dtype = getattr(error, "shape", None), getattr(error, "dtype", None)
    if isinstance(shape, tuple) and dtype is not None:  # numpy
        nbytes = int(dtype.itemsize)
        for each in shape:
            nbytes *= int(each)
        return f"an array of {'x'.join(map(str, shape)) or 'one'} {dtype} takes {format_bytes(nbytes)}"
    found = re.search(r"(?:^(\w+ '[^']*'): )?.*\bsize (\d{1,20})\b", str(error))  # Arrow; ONNX Runtime, with its node
    if found:
        return f"{found[1] or 'a library'} asked for {format_bytes(int(found[2]))} at once"
    return "the system gives no more to this process"


def _is_memory(error: ImportError | OSError) -> bool:
    return (
        getattr(error, "errno", None) == errno.ENOMEM
        or "Cannot allocate memory" in str(error)
        or "failed to map segment" in str(error)
    )
