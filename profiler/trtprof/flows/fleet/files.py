"""A folder on any file system that Arrow knows: files that are written whole, and one error where they cannot be.

On an object store a file appears whole when it is closed, and nothing can be renamed; everywhere else it is written
beside its place and moved there, so that a kill leaves the old file or the new one, never half of one.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from trtprof.base.errors import MissingError, UsageError
from trtprof.base.input_file import read_file

if TYPE_CHECKING:
    import pyarrow.fs as pafs

_PUT_WHOLE = frozenset({"s3", "gcs", "abfs"})  # Kinds of file systems where a file is not there before it is whole
_AT_ONCE = 16  # Requests to a distant file system at a time
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_LOGIN = re.compile(r"(?<=://)[^/?#]*@|[?#].*")
BESIDE = ".part"  # How a file is called that is being written: a name that begins with a dot and ends so

T = TypeVar("T")
U = TypeVar("U")


class Entry(NamedTuple):
    """What stands in a folder."""

    name: str
    kind: Literal["file", "folder", "other"]
    size: int
    mtime_ns: int  # By the clock of the file system


class Files:
    """A folder, behind a path or a URI; all names are from it on, with ``/`` between.

    Attributes:
        shown: The place as it may be shown and kept: without what logs in.
        local: Its path where the file system is this machine's or mounted; else None.

    Raises:
        UsageError: There is no such kind of file system.
        MissingError: It cannot be reached.
    """

    def __init__(self, place: str) -> None:
        import pyarrow as pa

        self.shown = shown(place)
        self._secrets = _secrets_of(place)
        try:
            self._system, path = _opened(place)
        except pa.ArrowInvalid as error:
            raise UsageError(
                f"{self.shown} is no place for a fleet",
                why=self._said(error),
                fix="name a folder, or a URI that pyarrow opens: s3://bucket/fleet, gs://bucket/fleet, file:///data/fleet",
            ) from None
        except (OSError, pa.ArrowException) as error:
            raise self.unusable("", error, "reached") from None
        self._path = path.rstrip("/") or "/"
        base, self.local = self._system, None
        while base.type_name == "subtree":
            base, path = base.base_fs, f"{base.base_path.rstrip('/')}/{path.lstrip('/')}"
        self._whole = base.type_name.removeprefix("py::") in _PUT_WHOLE
        self._near = base.type_name in ("local", "mock")
        if base.type_name == "local":
            self.local = Path(path)
        self._token = secrets.token_hex(4)

    def at(self, name: str) -> str:
        """Where a file is, in words for who shall find it."""
        return f"{self.shown.rstrip('/')}/{name}" if name else self.shown

    def listing(self, folder: str) -> list[Entry]:
        """What stands in a folder, in no order; nothing where it is not there."""
        import pyarrow.fs as pafs

        selector = pafs.FileSelector(self._full(folder), allow_not_found=True)
        with self._told(folder, "listed"):
            found = self._system.get_file_info(selector)
        return [entry for info in found if (entry := _entry(info)) is not None]

    def look(self, names: Iterable[str]) -> list[Entry | None]:
        """The same of single files, in their order; None for each that is not there."""
        paths = list(names)
        if not paths:
            return []
        with self._told(paths[0], "looked at"):
            if self._near:
                infos = self._system.get_file_info([self._full(name) for name in paths])
            else:
                infos = self.each(lambda name: self._system.get_file_info(self._full(name)), paths)
        return [_entry(info) for info in infos]

    def read(self, name: str) -> bytes:
        """The content of a file."""
        if self.local is not None:
            with self._told(name, "read", absent=True):
                return read_file(
                    self.local / name, what="a file of a fleet", fix="remove it: what is lost is asked again"
                )
        with self._told(name, "read", absent=True), self._system.open_input_file(self._full(name)) as stream:
            content: bytes = stream.read()
        return content

    def write(self, name: str, content: bytes, durable: bool = False) -> None:
        """Write a file, whole or not at all; what was there is replaced."""
        if self._whole:
            with self._told(name, "written"):
                self._put(name, content)
            return
        folder, _, last = name.rpartition("/")
        beside = f"{folder}/.{last}.{self._token}{BESIDE}" if folder else f".{last}.{self._token}{BESIDE}"
        try:
            with self._told(name, "written"):
                self._put(beside, content)
                if durable:
                    self._sync(beside)
                self._system.move(self._full(beside), self._full(name))
                if durable:
                    self._sync(folder)
        except BaseException:
            with contextlib.suppress(OSError):
                self._system.delete_file(self._full(beside))
            raise

    def mark(self, name: str, content: bytes = b"") -> None:
        """Write a file whose being there is what counts; see `write`."""
        with self._told(name, "written"):
            self._put(name, content)

    def delete(self, names: Iterable[str]) -> None:
        """Delete files; those that are not there are well."""

        def one(name: str) -> None:
            with self._told(name, "deleted"), contextlib.suppress(FileNotFoundError):
                self._system.delete_file(self._full(name))

        self.each(one, list(names))

    def move(self, name: str, to: str) -> None:
        """Move a file or a folder; on an object store it is copied."""
        with self._told(name, "moved", absent=True):
            self._system.create_dir(self._full(to.rpartition("/")[0]), recursive=True)
            self._system.move(self._full(name), self._full(to))

    def take_in(self, folder: Path, to: str, last: str) -> None:
        """Copy a folder of this machine here; ``last`` is the file in it that is copied behind all others."""
        import pyarrow.fs as pafs

        with self._told(to, "written"):
            files = sorted(path for path in folder.rglob("*") if path.is_file())
            files.sort(key=lambda path: path == folder / last)
            for path in files:
                target = self._full(f"{to}/{path.relative_to(folder).as_posix()}")
                self._system.create_dir(target.rpartition("/")[0], recursive=True)
                pafs.copy_files(
                    str(path), target, source_filesystem=pafs.LocalFileSystem(), destination_filesystem=self._system
                )

    def delete_folder(self, name: str) -> None:
        """Delete a folder with all in it; one that is not there is well."""
        with self._told(name, "deleted"), contextlib.suppress(FileNotFoundError):
            self._system.delete_dir(self._full(name))

    def each(self, work: Callable[[T], U], items: Iterable[T]) -> list[U]:
        """Do something with each file, many at a time where the way is long; an error is raised behind all of them."""
        several = list(items)
        if self._near or len(several) < 2:
            return [work(item) for item in several]
        with ThreadPoolExecutor(min(_AT_ONCE, len(several))) as pool:
            return [done.result() for done in [pool.submit(work, item) for item in several]]

    def unusable(self, name: str, error: BaseException, done: str = "written") -> MissingError:
        """The error for a file that something cannot be done with."""
        return MissingError(
            f"{self.at(name)} cannot be {done}",
            why=self._said(error),
            fix="make room, or mend what is said, and begin again: what was done stays done",
        )

    def _put(self, name: str, content: bytes) -> None:
        path = self._full(name)
        try:
            stream = self._system.open_output_stream(path)
        except FileNotFoundError:
            self._system.create_dir(path.rpartition("/")[0], recursive=True)
            stream = self._system.open_output_stream(path)
        with stream:
            stream.write(content)

    def _sync(self, name: str) -> None:
        """Bring a file, or the names of a folder, to the disk."""
        if self.local is None:
            return
        handle = os.open(self.local / name, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def _full(self, name: str) -> str:
        return f"{self._path.rstrip('/')}/{name}" if name else self._path

    @contextlib.contextmanager
    def _told(self, name: str, done: str, absent: bool = False) -> Any:
        """Errors in there are told as ours; with ``absent`` that of a file that is not there stays as it is."""
        import pyarrow as pa

        try:
            yield
        except MissingError:
            raise
        except (OSError, pa.ArrowException) as error:
            if absent and isinstance(error, FileNotFoundError):
                raise
            raise self.unusable(name, error, done) from None

    def _said(self, error: BaseException) -> str:
        """What a library said, in a line, without what logs in."""
        why = (getattr(error, "errno", None) and os.strerror(error.errno)) or (str(error).splitlines() or [""])[0]  # type: ignore[attr-defined]
        for secret in self._secrets:
            why = why.replace(secret, "***")
        return _LOGIN.sub("", why) if "://" in why and self._secrets else why


def shown(place: str) -> str:
    """A place as it may be shown and kept: a URI without user, password and query, a path as it is."""
    return _LOGIN.sub("", place) if _URI.match(place) else place


def _secrets_of(place: str) -> list[str]:
    """What of a URI logs in, longest first."""
    if not _URI.match(place):
        return []
    login = re.search(r"://([^/?#]*)@", place)
    found = {login[1], *login[1].split(":")} if login else set()
    with contextlib.suppress(ValueError):
        found |= {value for _, value in parse_qsl(urlsplit(place).query)}
    found |= {unquote(secret) for secret in found}
    return sorted((secret for secret in found if len(secret) > 3), key=len, reverse=True)


def _opened(place: str) -> tuple[pafs.FileSystem, str]:
    import pyarrow.fs as pafs

    if _URI.match(place):
        return pafs.FileSystem.from_uri(place)  # type: ignore[no-any-return]
    return pafs.LocalFileSystem(), str(Path(place).absolute())


def _entry(info: pafs.FileInfo) -> Entry | None:
    import pyarrow.fs as pafs

    if info.type == pafs.FileType.NotFound:
        return None
    kinds: dict[Any, Literal["file", "folder"]] = {pafs.FileType.File: "file", pafs.FileType.Directory: "folder"}
    return Entry(info.base_name, kinds.get(info.type, "other"), info.size or 0, info.mtime_ns or 0)
