"""Engines made elsewhere: what is known of one before a library is let near it."""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
from pathlib import Path
from typing import NamedTuple

from profiler.base.input_file import open_file
from profiler.base.units import format_bytes
from profiler.engine._trt_exchange import PLAN_FILE
from profiler.engine.tensorrt import check_plan, engine_backend
from profiler.runtime.tensorrt_module import product_of

_PIECE = 1 << 24


class EngineFile(NamedTuple):
    """An engine file, as far as it is known without loading it.

    Attributes:
        path: Where it lies.
        nbytes: Its size.
        sha256: Digest of its content.
        maker: In words: the library that made it, whose file it is, since when.
        own: Whether trtprof built it, and keeps the same one.
    """

    path: Path
    nbytes: int
    sha256: str
    maker: str
    own: bool

    @property
    def warning(self) -> str:
        """What to know before it is loaded."""
        return (
            f"{self.path} was made elsewhere: {self.maker}; {format_bytes(self.nbytes)}, sha256 {self.sha256}. An "
            "engine holds code, and the library that loads it trusts what it reads: load none whose maker you do not "
            "trust. Code for the host in it (plugins, a runtime) stays refused"
        )


def engine_file(path: Path, cache_dir: Path) -> EngineFile:
    """Look at an engine file without loading it.

    Args:
        path: The file.
        cache_dir: Folder under which trtprof keeps the engines that it built.

    Raises:
        MissingError: There is no such file.
        UsageError: It is no engine, or cut off.
    """
    backend = engine_backend(path)
    product = product_of(backend)
    versions = check_plan(path, product)
    digest, nbytes = _digest(path)
    kept = (cache_dir / "engines").glob(f"*/{PLAN_FILE}")
    own = any(one.stat().st_size == nbytes and _digest(one)[0] == digest for one in kept if one.is_file())
    library = " ".join((product.title, *versions.values())) if versions else "a TensorRT that its header does not name"
    return EngineFile(path, nbytes, digest, f"by {library}{_owner(path)}", own)


def _digest(path: Path) -> tuple[str, int]:
    found, nbytes = hashlib.sha256(), 0
    with open_file(path) as file:
        while part := file.read(_PIECE):
            found.update(part)
            nbytes += len(part)
    return found.hexdigest(), nbytes


def _owner(path: Path) -> str:
    """Whose file it is, and since when, as far as the system tells."""
    words = ""
    with contextlib.suppress(OSError, KeyError, NotImplementedError):
        words += f", a file of the user {path.owner()}"
    with contextlib.suppress(OSError, OverflowError, ValueError):
        words += f", written {dt.datetime.fromtimestamp(path.stat().st_mtime, dt.UTC):%Y-%m-%d %H:%M} UTC"
    return words
