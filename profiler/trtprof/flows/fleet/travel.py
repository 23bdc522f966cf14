"""How models reach a node that lacks them, and how run folders come back: as bytes, checked where they arrive.

A node keeps models that travelled in a folder of its own, by content, and forgets those that were not used longest.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import hashlib
import os
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from trtprof.base.errors import TrtprofError
from trtprof.base.input_file import stays_inside
from trtprof.base.scratch import scratch_folder
from trtprof.flows.fleet.contents import content_of

CHUNK_BYTES = 32 << 20  # Files travel in pieces of so much: neither side holds more of one in its own memory
MOST_KEPT_BYTES = 10 << 30  # Of models that a node keeps; one that is larger is kept until another comes

Pieces = Callable[[], Iterable[bytes]]


class Part(NamedTuple):
    """A file of a model: its name from the folder of the model on, and where it lies."""

    name: str
    path: Path


def parts_of(model: Path) -> list[Part]:
    """The files of a model, its own first; of those beside it only what lies in its folder, as it has to."""
    from trtprof.source.load import outline

    found = [Part(model.name, model)]
    try:
        places = outline(model).external
    except TrtprofError:
        # Whoever answers says what is wrong with it.
        return found
    home = model.parent.resolve()
    for place in places:
        path = model.parent / place
        if stays_inside(place) and path.resolve().is_relative_to(home) and path.is_file():
            found.append(Part(place, path))
    return found


def pieces_of(path: Path) -> Iterator[bytes]:
    """A file, piece by piece."""
    with path.open("rb") as file:
        while piece := file.read(CHUNK_BYTES):
            yield piece


# --- the folder of a node -----------------------------------------------------------------


class NodeFolder:
    """Where the workers of a node keep models that travelled, and work; workers that died leave nothing for long.

    `root`: the folder; None: one of this user among the temporary ones.
    """

    def __init__(self, root: Path | None = None, most_bytes: int = MOST_KEPT_BYTES) -> None:
        self._root = root or _own_folder()
        self._most_bytes = most_bytes

    def scratch(self) -> AbstractContextManager[Path]:
        """An empty folder, gone afterwards; see `scratch_folder`."""
        return scratch_folder(self._root)

    @contextlib.contextmanager
    def model(self, sha256: str, name: str, files: Sequence[tuple[str, Pieces]]) -> Iterator[Path]:
        """A model, kept from before or written now. `sha256`: of its content."""
        entry = "model-" + hashlib.sha256(f"{sha256}\n{name}".encode()).hexdigest()[:32]
        folder = self._root / entry
        with self._locked(entry, fcntl.LOCK_SH) as lock:
            # Who tidies up the temporary files of a machine takes old ones away, and leaves the folder. Until a lock is
            # another one there is none, and what was written may be forgotten by others.
            while content_of(folder / name).sha256 != sha256:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if content_of(folder / name).sha256 != sha256:
                    shutil.rmtree(folder, ignore_errors=True)
                    self._write(folder, sha256, name, files)
                fcntl.flock(lock, fcntl.LOCK_SH)
            os.utime(self._lock_file(entry))
            self._forget()
            yield folder / name

    def _write(self, folder: Path, sha256: str, name: str, files: Sequence[tuple[str, Pieces]]) -> None:
        with self.scratch() as scratch:
            part = scratch / folder.name
            for place, pieces in files:
                if not stays_inside(place):
                    raise ValueError(f"{place!r} is no place in the folder of a model")
                path = part / place
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("xb") as file:
                    for piece in pieces():
                        file.write(piece)
            if content_of(part / name).sha256 != sha256:
                raise ValueError(f"what came of {name} is not what was sent")
            part.rename(folder)

    def _forget(self) -> None:
        """The models that nobody uses, from that which was not used longest on, until the others are few enough."""
        found = sorted(self._root.glob("model-*.lock"), key=lambda path: path.stat().st_mtime_ns)
        sizes = {path: _bytes_in(path.with_suffix("")) for path in found}
        total = sum(sizes.values())
        for path, size in sizes.items():
            if total <= self._most_bytes:
                break
            if size and self._removed(path.stem):
                total -= size

    def _removed(self, entry: str) -> bool:
        """Whether nobody used it, so that it is gone now."""
        with contextlib.suppress(BlockingIOError), self._locked(entry, fcntl.LOCK_EX | fcntl.LOCK_NB):
            shutil.rmtree(self._root / entry, ignore_errors=True)
            return True
        return False

    def _lock_file(self, entry: str) -> Path:
        return self._root / f"{entry}.lock"

    @contextlib.contextmanager
    def _locked(self, entry: str, how: int) -> Iterator[int]:
        opened = os.open(self._lock_file(entry), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(opened, how)
            yield opened
        finally:
            os.close(opened)


def _own_folder() -> Path:
    """A folder that no other user can put anything in."""
    folder = Path(tempfile.gettempdir()) / f"trtprof-fleet-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        return _folder_of_process()
    return folder


@functools.cache
def _folder_of_process() -> Path:
    held = contextlib.ExitStack()
    atexit.register(held.close)
    return held.enter_context(scratch_folder())


def bytes_of(path: Path) -> int:
    """The size of a file; 0 of one that cannot be read: whoever answers says what is wrong with it."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


# --- run folders --------------------------------------------------------------------------


def pack(folder: Path, archive: Path) -> None:
    """The files of a folder as an archive; links and what is no file stay behind."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.is_symlink():
                packed.write(path, path.relative_to(folder).as_posix())


def unpack(archive: Path, folder: Path) -> None:
    """Write the files of an archive into a folder; `zipfile` keeps each inside of it."""
    try:
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(folder)
    except (zipfile.BadZipFile, EOFError, NotImplementedError) as error:
        raise ValueError(f"it is damaged: {error}") from None
