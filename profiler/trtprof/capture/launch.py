"""Start a worker that runs the model; see `child.ask`."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from trtprof.base.progress import Progress, unheard
from trtprof.runtime import child

T = TypeVar("T")

LOG_FILE = "worker.log"


class Request(Protocol):
    """What a worker is asked, as far as its parent needs to know; a msgspec struct."""

    @property
    def folder(self) -> str:
        """Where the results go, and the log of a worker that died."""

    @property
    def scratch(self) -> str:
        """Where all else goes."""


def run_worker(
    request: Request, module: str, kind: type[T], progress: Progress = unheard, within_s: float | None = None
) -> T:
    """Run a worker to its end; returns what it answers, its other results lie in the folder of the request."""
    assert isinstance(request, msgspec.Struct)  # noqa: S101 - see `Request`
    log, scratch = Path(request.folder) / LOG_FILE, Path(request.scratch)
    return child.ask(
        module, request, kind, what="the run of the model", folder=scratch, log=log, say=progress, within_s=within_s
    )
