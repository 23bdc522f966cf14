"""Folders and files that a process needs while it lives, and what is left of those that were killed.

A folder in use holds a file that tells by whom, and that is locked as long as this process lives. The system gives the
lock back however it dies, so no number of a process is ever taken for that of another. What nobody holds is swept by
the next process that makes its own in the same place; what another machine left is not, since a lock may not reach so
far. Where the system has no locks, nothing is swept and nothing is refused.
"""

from __future__ import annotations

import functools
import os
import platform
import shutil
import stat
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import NamedTuple

from trtprof.base.errors import MissingError, UsageError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

IN_USE = ".trtprof-in-use"
"""The file in a folder that tells who uses it."""
PREFIX = "trtprof-scratch-"
"""What the names of temporary folders begin with, wherever they lie."""
PART = f".trtprof-part-{zlib.crc32(platform.node().encode(errors='replace')):08x}-"
"""What the names of files begin with that are not whole yet or not for long, on this machine; see `scratch_file`."""
_GONE = ".trtprof-gone-"
"""What the names of folders begin with that are being removed."""
_EMPTY_S = 3600
"""An empty folder so old was left by a process that was killed before it could say that it uses it."""
_FLAGS = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


class InUseError(UsageError):
    """Another process uses the folder."""


class _Owner(NamedTuple):
    pid: int
    host: str


@contextmanager
def scratch_folder(parent: Path | None = None) -> Iterator[Path]:
    """An empty folder that is gone afterwards; what killed processes left beside it is gone before."""
    import tempfile  # which takes longer than all else here

    with ExitStack() as stack:
        try:
            place = Path(tempfile.gettempdir() if parent is None else parent)
            if parent is not None:
                place.mkdir(parents=True, exist_ok=True)
            sweep(place)
            path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
            path.chmod(0o700)  # a umask may have taken it from its owner, too
            stack.callback(shutil.rmtree, path, ignore_errors=True)
            stack.enter_context(in_use(path))
        except OSError as error:
            raise MissingError(
                "no temporary folder can be made" + (f" in {parent}" if parent is not None else ""),
                why=error.strerror or str(error),
                fix="make room there" if parent is not None else "make room, or set TMPDIR to another folder",
            ) from None
        yield path


@contextmanager
def scratch_file(folder: Path, suffix: str = "") -> Iterator[tuple[Path, FileIO]]:
    """An empty file in a folder, and the same open, that is gone afterwards unless it was moved meanwhile."""
    sweep(folder)
    path = folder / f"{PART}{os.urandom(8).hex()}{suffix}"
    handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
    try:
        with FileIO(handle, "wb") as file:
            hold(handle)
            yield path, file
    finally:
        path.unlink(missing_ok=True)


@contextmanager
def in_use(folder: Path) -> Iterator[None]:
    """Keep other processes from using a folder until the block ends; it may be moved meanwhile."""
    mark = folder / IN_USE
    try:
        held = _locked(mark)
    except BlockingIOError:
        owner = _owner(mark)
        raise InUseError(
            f"{folder} is in use by {'another process' if owner is None else f'process {owner.pid}'}"
            + (f" on {owner.host}" if owner is not None and owner.host != platform.node() else ""),
            fix="wait until it is done, or choose another folder",
        ) from None
    try:
        yield
    finally:
        with suppress(OSError):
            if os.path.samestat(os.fstat(held), mark.lstat()):
                mark.unlink()
        os.close(held)


def remove(folder: Path) -> None:
    """Remove a folder, which nobody sees half of: it goes under another name first."""
    gone = folder.with_name(f"{_GONE}{os.urandom(8).hex()}")
    with suppress(OSError):  # a full disk may have no room for the name
        folder = folder.rename(gone)
    shutil.rmtree(folder, ignore_errors=True)


def left(folders: Iterable[Path]) -> Iterator[Path]:
    """Those of some folders that a process of this machine used, which was killed; each is in use for its turn."""
    for folder in folders:
        mark = folder / IN_USE
        owner = _owner(mark)
        if owner is not None and owner.host == platform.node() and _own(folder) and _unlocked(mark):
            with suppress(OSError, InUseError), in_use(folder):
                yield folder


@functools.cache
def sweep(place: Path) -> None:
    """Remove what killed processes left in a folder; once a process, since there may be much else in it."""
    with suppress(OSError):
        names = os.listdir(place)
        for folder in left(place / name for name in names if name.startswith(PREFIX)):
            remove(folder)
        for path in (place / name for name in names if name.startswith((PREFIX, PART, _GONE))):
            with suppress(OSError):
                if path.name.startswith(PART):
                    if _unlocked(path):
                        path.unlink()
                elif path.name.startswith(_GONE) and _own(path):
                    shutil.rmtree(path, ignore_errors=True)
                elif time.time() - path.lstat().st_mtime > _EMPTY_S:
                    path.rmdir()


def hold(handle: int) -> bool:
    """Lock an open file until it is closed; False where the system cannot."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return False
    return True


def _unlocked(path: Path) -> bool:
    """Whether files can be locked where this one lies, and nobody has locked it."""
    try:
        handle = os.open(path, _FLAGS)
    except OSError:
        return False
    try:
        return hold(handle)
    except BlockingIOError:
        return False
    finally:
        os.close(handle)


def _own(folder: Path) -> bool:
    """Whether it is a folder, no link to one, and this user's."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == (os.getuid() if hasattr(os, "getuid") else found.st_uid)


def _owner(mark: Path) -> _Owner | None:
    try:
        handle = os.open(mark, _FLAGS)
    except OSError:
        return None
    try:
        pid, host = os.read(handle, 4096).decode().splitlines()
        return _Owner(int(pid), host)
    except (OSError, ValueError):
        return None
    finally:
        os.close(handle)


def _locked(mark: Path) -> int:
    """The open mark of a folder, locked, with this process as the owner."""
    while True:
        handle = os.open(mark, _FLAGS | os.O_CREAT, 0o644)
        try:
            hold(handle)
            # Who held it may have removed it meanwhile: then this is no file of the folder any more.
            if mark.exists() and os.path.samestat(os.fstat(handle), mark.lstat()):
                os.ftruncate(handle, 0)
                os.write(handle, f"{os.getpid()}\n{platform.node()}\n".encode())
                return handle
        except BaseException as error:
            if not isinstance(error, BlockingIOError):
                mark.unlink(missing_ok=True)
            os.close(handle)
            raise
        os.close(handle)
