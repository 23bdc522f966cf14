"""Engines made elsewhere: what is known of one before a library is let near it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from trtprof.base.made_here import digest, owner
from trtprof.base.units import format_bytes
from trtprof.engine._trt_exchange import PLAN_FILE
from trtprof.engine.tensorrt import check_plan, engine_backend
from trtprof.runtime.tensorrt_module import product_of


class EngineFile(NamedTuple):
    """An engine file, as far as it is known without loading it."""

    path: Path  # Where it lies
    nbytes: int  # Its size
    sha256: str  # Digest of its content
    maker: str  # In words: the library that made it, whose file it is, since when
    own: bool  # Whether trtprof built it, and keeps the same one

    @property
    def warning(self) -> str:
        """What to know before it is loaded."""
        return (
            f"{self.path} was made elsewhere: {self.maker}; {format_bytes(self.nbytes)}, sha256 {self.sha256}. An "
            "engine holds code, and the library that loads it trusts what it reads: load none whose maker you do not "
            "trust. Code for the host in it (plugins, a runtime) stays refused"
        )


def engine_file(path: Path, cache_dir: Path) -> EngineFile:
    """Look at an engine file without loading it."""
    backend = engine_backend(path)
    product = product_of(backend)
    versions = check_plan(path, product)
    sha256, nbytes = digest(path)
    kept = (cache_dir / "engines").glob(f"*/{PLAN_FILE}")
    own = any(one.stat().st_size == nbytes and digest(one)[0] == sha256 for one in kept if one.is_file())
    library = " ".join((product.title, *versions.values())) if versions else "a TensorRT that its header does not name"
    return EngineFile(path, nbytes, sha256, f"by {library}{owner(path)}", own)
