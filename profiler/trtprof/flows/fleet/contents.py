"""What model files hold, as far as a fleet must know before it begins: a digest, and the inputs."""

from __future__ import annotations

import contextlib
import hashlib
import time
from pathlib import Path
from types import TracebackType

import msgspec

from trtprof import __version__
from trtprof.base.errors import TrtprofError
from trtprof.base.output_file import replace_file
from trtprof.base.records import Tensor

KNOWN = "fleet-models.json"  # In the folder of caches: what model files were found to hold
_MOST_KEPT = 20_000  # Files that are remembered; of more, those that were not asked for longest are forgotten
_SETTLED_NS = 2_000_000_000
"""A file that was changed so short a time ago may change again without another time of change."""


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """What a model file holds."""

    sha256: str  # Of the file; of one with weights in files beside it, of the digests of all of them
    inputs: tuple[Tensor, ...] | None = None  # What a caller must feed; None of a file that is no model
    nodes: int = 0  # Of its main graph


class _Stamp(msgspec.Struct, frozen=True):
    """By what a file is known to be the one that was read."""

    path: str
    size: int
    mtime_ns: int


class Looked(msgspec.Struct, frozen=True):
    """What a file was found to hold, and by what it is told that it still does."""

    content: Content  # What it held
    stamps: tuple[_Stamp, ...]  # Of the model and of the files beside it, from before they were read

    @property
    def stands(self) -> bool:
        """Whether all files are as they were."""
        return bool(self.stamps) and all(_stamp(Path(stamp.path)) == stamp for stamp in self.stamps)


class _Known(msgspec.Struct, frozen=True):
    trtprof: str
    files: dict[str, Looked]


class Contents:
    """What files hold; read at most once, and not at all where it is known from before.

    Args:
        known: The file that keeps it; None for none. One that cannot be read or written is as good as none.
    """

    def __init__(self, known: Path | None) -> None:
        self._known = known
        self._before: dict[str, Looked] = {}
        self._now: dict[str, Looked] = {}
        self._changed = False
        if known is not None:
            with contextlib.suppress(OSError, msgspec.DecodeError, ValueError):
                found = msgspec.json.decode(known.read_bytes(), type=_Known)
                self._before = found.files if found.trtprof == __version__ else {}

    def __enter__(self) -> Contents:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._keep()

    def of(self, path: Path) -> Content:
        """What a file holds; of one that cannot be read, its digest is that of its path."""
        name = str(path)
        if name in self._now:
            return self._now[name].content
        kept = self._before.get(name)
        if kept is None or not kept.stands:
            kept = look(path)
            self._changed = True
        self._now[name] = kept
        return kept.content

    def _keep(self) -> None:
        if self._known is None or not self._changed:
            return
        latest = time.time_ns() - _SETTLED_NS
        files = {name: kept for name, kept in self._before.items() if name not in self._now} | {
            name: kept
            for name, kept in self._now.items()
            if kept.stamps and all(stamp.mtime_ns < latest for stamp in kept.stamps)
        }
        known = _Known(__version__, dict(list(files.items())[-_MOST_KEPT:]))
        with contextlib.suppress(OSError):  # files are read again, then
            self._known.parent.mkdir(parents=True, exist_ok=True)
            replace_file(self._known, msgspec.json.encode(known))


def _stamp(path: Path) -> _Stamp | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return _Stamp(str(path), found.st_size, found.st_mtime_ns)


def look(path: Path) -> Looked:
    """Read a file, whatever is known of it."""
    from trtprof.source.load import outline

    before = _stamp(path)
    own = _digest(path)
    if before is None or not own:
        return Looked(Content(sha256=hashlib.sha256(str(path).encode(errors="surrogateescape")).hexdigest()), ())
    try:
        found = outline(path)
    except TrtprofError:
        return Looked(Content(sha256=own), (before,))
    stamps, parts = [before], [own]
    for place in found.external:
        file = path.parent / place
        stamp = _stamp(file)
        parts += [place, _digest(file) if stamp is not None else "missing"]
        if stamp is None:
            # Were it there tomorrow, nothing would tell.
            return Looked(Content(sha256=_joined(parts), inputs=found.inputs, nodes=found.nodes), ())
        stamps.append(stamp)
    sha256 = own if len(parts) == 1 else _joined(parts)
    return Looked(Content(sha256=sha256, inputs=found.inputs, nodes=found.nodes), tuple(stamps))


def _joined(parts: list[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _digest(path: Path) -> str:
    """Of the bytes of a file; empty where they cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError):
        return ""
