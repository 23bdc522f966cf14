"""Folders of plugins made elsewhere: what is known of their code before any of it runs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from trtprof.base.made_here import digest, is_remembered, owner
from trtprof.base.units import format_bytes
from trtprof.plugin import folder as folders

_CODE = (".py", ".pyc", ".so", ".pyd", ".ptx")
_NAMED = 3  # Files that are named in a warning


class OtherCode(NamedTuple):
    """Files of a plugin that trtprof did not write here."""

    folder: Path  # Of the plugin
    names: tuple[str, ...]  # Of the files, as they are called in it
    of: int  # How many files its code has
    nbytes: int  # Their size
    sha256: str  # Digest of the file, or of what sha256sum prints of all of them

    @property
    def warning(self) -> str:
        """What to know before any of it runs."""
        more = len(self.names) - _NAMED
        named = ", ".join(self.names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
        return (
            f"{self.folder} has code that was not written here by trtprof, {len(self.names)} of {self.of} files: "
            f"{named}{owner(self.folder / self.names[0])}; {format_bytes(self.nbytes)}, sha256 {self.sha256}. Its "
            "Python and kernels are executed with your rights: run none whose maker you do not trust"
        )


def code_files(folder: Path) -> tuple[Path, ...]:
    """All that could run in the folder of a plugin, whatever lies beside its own files."""
    folders.load(folder)
    own = folder / folders.FILE, folder / "cpp"
    return tuple(
        sorted(
            path for path in _files(folder) if path.suffix in _CODE or path.is_dir() or {path, *path.parents} & {*own}
        )
    )


def _files(place: Path) -> Iterator[Path]:
    """All in a folder; a link to a folder is one of them, as what it leads to is not told."""
    for each in place.iterdir():
        if each.is_dir() and not each.is_symlink():
            yield from _files(each)
        else:
            yield each


def other_code(folder: Path, cache_dir: Path) -> OtherCode | None:
    """What of the code in a folder is not as trtprof wrote it here; None where all is."""
    files = code_files(folder)
    lines, nbytes = {}, 0
    for path in files:
        sha256, size = digest(path)
        if not is_remembered(sha256, cache_dir):
            lines[path.relative_to(folder).as_posix()] = sha256
            nbytes += size
    if not lines:
        return None
    listed = "".join(f"{sha256}  {name}\n" for name, sha256 in lines.items())
    whole = hashlib.sha256(listed.encode(errors="surrogateescape")).hexdigest()
    sha256 = whole if len(lines) > 1 else next(iter(lines.values()))
    return OtherCode(folder, tuple(lines), len(files), nbytes, sha256)
