"""Start the worker, relay its progress, and turn its failures into errors with a cause."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec

from trtprof.base.errors import CaptureError, TrtprofError
from trtprof.capture.workers.inference import CAPTURE_FILE, ERROR_FILE
from trtprof.runtime import child

LOG_FILE = "worker.log"
REQUEST_FILE = "worker_request.json"


class Request(Protocol):
    """What a worker is asked, as far as its parent needs to know; a msgspec struct."""

    @property
    def folder(self) -> str:
        """Where the results go."""

    @property
    def scratch(self) -> str:
        """Where all else goes."""


def worker_command(module: str, request: Request, scratch: str | Path | None = None) -> list[str]:
    """Write the request of a worker to a file, and tell the command that runs the worker."""
    request_file = Path(scratch or request.scratch) / REQUEST_FILE
    request_file.write_bytes(msgspec.json.encode(request))
    # A worker that is run a second time in the same folder must not be taken to have failed as the first did.
    (Path(request.scratch) / ERROR_FILE).unlink(missing_ok=True)
    return child.command(module, str(request_file))


def worker_error(scratch: str | Path) -> TrtprofError | None:
    """The error that a worker left in its scratch folder, with the exit code that it chose; None where it left none."""
    failure = Path(scratch) / ERROR_FILE
    if not failure.is_file():
        return None
    error = msgspec.json.decode(failure.read_bytes(), type=child.Failure)
    raised: TrtprofError = CaptureError(error.what, why=error.why, fix=error.fix)
    raised.exit_code = error.exit_code
    return raised


def run_worker(
    request: Request,
    progress: Callable[[str], None],
    module: str = "trtprof.capture.workers.ort_cpu",
    done: Path | None = None,
    deadline_s: float | None = None,
) -> None:
    """Run a worker to its end; its results lie in the folder of the request."""
    command = worker_command(module, request)
    log_path = Path(request.folder) / LOG_FILE
    given = () if deadline_s is None else (deadline_s,)
    try:
        code = child.run_telling(command, log_path, progress, child.environment(), *given)
    except TimeoutError:
        why = f"it took more than {deadline_s:.3g} s" if deadline_s else f"it did nothing for {child.ASLEEP_S:.0f} s"
        raise CaptureError("the run of the model hangs", why=why, fix=f"see {log_path}") from None
    if code == 0 and (done or Path(request.folder) / CAPTURE_FILE).is_file():
        log_path.unlink()
        return
    error = worker_error(request.scratch)
    if error is not None:
        log_path.unlink()
        raise error
    if code == child.UNTOLD:
        raise child.untold("the run of the model", last_words(log_path), request.folder, request.scratch)
    raise CaptureError("the run of the model died", why=death(code, log_path), fix=f"see {log_path}")


def death(code: int, log: Path) -> str:
    """Why a worker died, in words, from its exit code and its log."""
    if code < 0:
        return child.exit_words(code)
    return last_words(log) or f"exit code {code} without a word"


def last_words(log: Path) -> str:
    """The last line of a worker's log that says something; empty where none does."""
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else ""
