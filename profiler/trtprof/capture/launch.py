"""Start a worker that runs the model; see `child.ask`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from trtprof.base.progress import Progress, unheard
from trtprof.runtime import child

T = TypeVar("T")

LOG_FILE = "worker.log"


def run_worker(
    request: Any, module: str, kind: type[T], progress: Progress = unheard, within_s: float | None = None
) -> T:
    """Run a worker to its end; returns its answer: other results, and its log where it died, lie in ``folder``.

    The request is a struct with that ``folder``, and ``scratch`` for all else.
    """
    log, scratch = Path(request.folder) / LOG_FILE, Path(request.scratch)
    return child.ask(
        module, request, kind, what="the run of the model", folder=scratch, log=log, say=progress, within_s=within_s
    )
