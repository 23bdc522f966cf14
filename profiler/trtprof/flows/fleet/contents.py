"""What model files hold, as far as a fleet must know before it begins: a digest, and the inputs."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from trtprof.base.errors import TrtprofError
from trtprof.base.records import Tensor


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


_SEEN: dict[str, Looked] = {}


def content_of(path: Path) -> Content:
    """What a file holds, read once by a process unless it changes; without one, its digest is that of its path."""
    seen = _SEEN.get(str(path))
    if seen is None or not seen.stands:
        seen = _SEEN[str(path)] = look(path)
    return seen.content


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
