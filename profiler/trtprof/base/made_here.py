"""What code trtprof wrote on this machine, by a record in the user's cache: a mark beside the code could be forged."""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
from collections.abc import Iterable
from pathlib import Path

from trtprof.base.input_file import open_file
from trtprof.base.output_file import replace_file

_PIECE = 1 << 24
_SHELF = "written"


def digest(path: Path) -> tuple[str, int]:
    """SHA-256 of a file and its size in bytes."""
    found, nbytes = hashlib.sha256(), 0
    with open_file(path) as file:
        while part := file.read(_PIECE):
            found.update(part)
            nbytes += len(part)
    return found.hexdigest(), nbytes


def owner(path: Path) -> str:
    """Whose file it is, and since when, as far as the system tells: begins with a comma, or is empty."""
    words = ""
    with contextlib.suppress(OSError, KeyError, NotImplementedError):
        words += f", a file of the user {path.owner()}"
    with contextlib.suppress(OSError, OverflowError, ValueError):
        words += f", written {dt.datetime.fromtimestamp(path.stat().st_mtime, dt.UTC):%Y-%m-%d %H:%M} UTC"
    return words


def remember(paths: Iterable[Path], cache_dir: Path) -> None:
    """Note that files are as trtprof wrote them here; where the cache cannot be written it is asked about them."""
    with contextlib.suppress(OSError):
        shelf = cache_dir / _SHELF
        shelf.mkdir(parents=True, exist_ok=True)
        for path in paths:
            replace_file(shelf / digest(path)[0], b"")


def is_remembered(sha256: str, cache_dir: Path) -> bool:
    """Whether trtprof wrote a file of this digest here."""
    return (cache_dir / _SHELF / sha256).is_file()
