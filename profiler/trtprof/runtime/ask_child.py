"""A child process of our own that is asked something, and prints the answer: one JSON document, its last line.

A process of its own keeps the caller free of what measuring takes (a CUDA context, threads, memory), and outlives no
fault of it.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from typing import IO, TypeVar

import msgspec

from trtprof.base.errors import CaptureError, MissingError
from trtprof.base.machine_errors import as_error
from trtprof.base.progress import Line, Progress, heard, unheard
from trtprof.base.scratch import scratch_folder
from trtprof.runtime import child

T = TypeVar("T")
R = TypeVar("R")

_KILLED_SECONDS = 10.0


def ask_child(
    module: str,
    request: msgspec.Struct,
    kind: type[T],
    *,
    what: str,
    fix: str,
    install: str,
    seconds: float,
    hangs: str = "",
    environment: Mapping[str, str] | None = None,
    say: Progress = unheard,
) -> T:
    """The result of a measuring module in a fresh Python process.

    Args:
        seconds: After so long the process is given up.
        hangs: What to do then; as ``fix`` where it is empty.
    """
    command = child.command(module, msgspec.json.encode(request).decode())
    # The folder is the parent's, so that it goes away even when the child is killed.
    with scratch_folder() as scratch, child.lifeline() as stdin:
        try:
            process = subprocess.Popen(
                command,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                env={**child.environment(), **(environment or {}), "TMPDIR": str(scratch), "TEMP": str(scratch)},
            )
        except OSError as error:
            raise CaptureError(what, why=f"the process did not start: {error}", fix=fix) from None
        assert process.stdout is not None and process.stderr is not None  # noqa: S101, PT018 - they were asked for
        # Threads of their own read: a child that hangs in a driver may keep its pipes open even when it is killed.
        lines, errors = _Reader(process.stdout, say), _Reader(process.stderr)
        try:
            process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise CaptureError(what, why=f"no result after {seconds:.0f} s", fix=hangs or fix) from None
        finally:
            _end(process)
        stdout, stderr = lines.text(), errors.text()
    return result_of(process.returncode, stdout, stderr, kind, what=what, fix=fix, install=install)


class _Reader:
    """Reads a pipe in a thread, and hands on each line of progress."""

    def __init__(self, pipe: IO[str], say: Progress = unheard) -> None:
        self._lines: list[str] = []
        self._say = say
        self._thread = threading.Thread(target=self._read, args=(pipe,), daemon=True)
        self._thread.start()

    def _read(self, pipe: IO[str]) -> None:
        with pipe:
            for line in pipe:
                self._lines.append(line)
                told = heard(line.rstrip())
                if isinstance(told, Line):
                    self._say(told)

    def text(self) -> str:
        """All that was read, once the process has ended."""
        self._thread.join(_KILLED_SECONDS)
        return "".join(self._lines)


def _end(process: subprocess.Popen[str]) -> None:
    """Kill the child if it still runs. One that hangs in a driver may not die: it is left to the system."""
    if process.poll() is None:
        process.kill()
        try:
            process.wait(timeout=_KILLED_SECONDS)
        except subprocess.TimeoutExpired:
            return


def answer(argv: list[str], kind: type[R], measure: Callable[[R], msgspec.Struct]) -> int:
    """The child's side of `ask_child`: measures what it is asked, and prints the result. Returns its exit code."""
    request = msgspec.json.decode(argv[1], type=kind)
    try:
        result: msgspec.Struct = measure(request)
        code = 0
    except Exception as error:
        found = as_error(error)
        if found is None:
            raise
        result, code = child.Failure.of(found), found.exit_code
    sys.stdout.write(msgspec.json.encode(result).decode() + "\n")
    return code


def result_of(code: int, stdout: str, stderr: str, kind: type[T], *, what: str, fix: str, install: str) -> T:
    """The result of a measuring process from its output, or the error that its output tells."""
    lines = stdout.strip().splitlines()
    result = lines[-1] if lines else ""
    why = next((line.strip() for line in reversed(stderr.splitlines()) if line.strip()), "")
    if code == 0:
        try:
            return msgspec.json.decode(result, type=kind)
        except msgspec.DecodeError as error:
            raise CaptureError(what, why=f"unreadable result: {error}", fix=fix) from None
    try:
        failure = msgspec.json.decode(result, type=child.Failure)
    except msgspec.DecodeError:
        if why.startswith(("ModuleNotFoundError", "ImportError")):
            raise MissingError(what, why=why, fix=install) from None
        raise CaptureError(what, why=why or child.exit_words(code), fix=fix) from None
    error_type = MissingError if code == MissingError.exit_code else CaptureError
    reason = f"{failure.what}: {failure.why}" if failure.why else failure.what
    raise error_type(what, why=reason, fix=failure.fix or fix)
