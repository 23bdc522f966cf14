"""How a child process of our own is started, heard and ended: this interpreter, this package, no working folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from trtprof.base.errors import CaptureError, MissingError, TrtprofError
from trtprof.base.output_file import replace_file
from trtprof.base.progress import heard


def command(module: str, *arguments: str) -> list[str]:
    """The command that runs a module of this package.

    ``-P`` keeps the working folder out of the import path: a user's ``onnx.py`` must not shadow ours.
    """
    return [sys.executable, "-P", "-m", module, *arguments]


def environment() -> dict[str, str]:
    """The environment in which `command` finds this very package, and whose output is not held back."""
    home = str(Path(__file__).resolve().parent.parent.parent)
    path = os.pathsep.join(part for part in (home, os.environ.get("PYTHONPATH", "")) if part)
    return {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}


@contextmanager
def lifeline() -> Iterator[int]:
    """A pipe for the stdin of a child that calls `end_with_parent`: it closes when the block ends, however it does."""
    reader, writer = os.pipe()
    try:
        yield reader
    finally:
        os.close(reader)
        os.close(writer)


def run_telling(
    command: Sequence[str],
    log: Path,
    say: Callable[[str], None],
    environment: Mapping[str, str],
    deadline_s: float | None = None,
) -> int:
    """Run a command that calls `end_with_parent` to its end, or kill it when this process is interrupted.

    Args:
        deadline_s: When to kill it; None for when it sleeps for `ASLEEP_S`, which a library does that waits for a
            thread or for memory that the system does not give. Work on a GPU wakes it.
    """
    late = threading.Event()
    with log.open("wb") as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, errors="replace",
            env=environment,
        )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018 - they were asked for
    over = threading.Event()

    def watch() -> None:
        if _over_or_late(process.pid, over, deadline_s):
            late.set()
            process.kill()

    threading.Thread(target=watch, name="deadline", daemon=True).start()
    try:
        with process.stdin, process.stdout:
            for line in process.stdout:
                say(heard(line.rstrip()))
            # It has more to do than to talk, and its stdin, whose end would end it, is open until it is over.
            code = ended(process, ASLEEP_S)
    except BaseException:
        process.kill()
        ended(process)
        raise
    finally:
        over.set()
    if late.is_set():
        raise TimeoutError
    return code


ASLEEP_S = 300.0
"""A process that takes no time of a CPU for so long, and has no deadline, hangs."""
_LOOK_S = 5.0
_ENDS_S = 30.0
"""What a process takes at most to end once it has closed its output, or was killed."""


def ended(process: subprocess.Popen[Any], within_s: float = _ENDS_S) -> int:
    """The exit code of a process that is about to end; one that does not is killed."""
    for _ in range(2):
        try:
            return process.wait(within_s)
        except subprocess.TimeoutExpired:
            process.kill()
    return -signal.SIGKILL


def _over_or_late(pid: int, over: threading.Event, deadline_s: float | None) -> bool:
    """Wait until a process is over (False), or late (True)."""
    if deadline_s is not None:
        return not over.wait(deadline_s)
    slept_s, before = 0.0, _cpu_ticks(pid)
    while not over.wait(_LOOK_S):
        now = _cpu_ticks(pid)
        slept_s = slept_s + _LOOK_S if now is not None and now == before else 0.0
        before = now
        if slept_s >= ASLEEP_S:
            return True
    return False


def _cpu_ticks(pid: int) -> int | None:
    """What a process, and children that it waited for, took of CPUs (proc(5)); None where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return sum(map(int, fields[11:15]))
    except (OSError, ValueError):
        return None


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """An error on its way from a child to its parent."""

    exit_code: int = CaptureError.exit_code
    what: str
    why: str
    fix: str

    @classmethod
    def of(cls, error: TrtprofError) -> Failure:
        """The error as it travels."""
        return cls(exit_code=error.exit_code, what=error.what, why=error.why, fix=error.fix)


UNTOLD = 74
"""The exit code of a child that could not even write why it failed."""


def leave(path: Path, error: TrtprofError) -> int:
    """Write why a child failed, for its parent; returns the exit code to end with."""
    try:
        replace_file(path, msgspec.json.encode(Failure.of(error)))
    except OSError:
        with suppress(OSError):  # the log may lie on the disk that is full; nothing may be left to flush at the end
            os.write(2, f"{error.what}: {error.why}\n".encode(errors="backslashreplace"))
        return UNTOLD
    return error.exit_code


def untold(what: str, said: str, *places: str) -> MissingError:
    """What a parent says of a child that ended with `UNTOLD`.

    Args:
        said: The last words of its log; empty where there are none.
    """
    return MissingError(
        f"{what} could not write its results",
        why=said or f"the disk of {' or of '.join(dict.fromkeys(places))} is full",
        fix="make room on that disk, or name another place (-o, TMPDIR)",
    )


def exit_words(code: int) -> str:
    """An exit code in words; shells and nsys pass on a death by signal as 128 and its number."""
    number = -code if code < 0 else code - 128
    with suppress(ValueError):
        name = signal.Signals(number).name
        return f"it was killed ({name}): out of memory, or by hand" if name == "SIGKILL" else f"it was ended by {name}"
    return f"exit code {code}"


def end_with_parent(told: Callable[[bytes], None] | None = None) -> None:
    """End this process when its parent is gone, however that died: the pipe on stdin closes then.

    The parent must hold the other end of stdin open until it no longer needs the child.
    """

    def watch() -> None:
        # The descriptor itself: a lock held on sys.stdin would abort the interpreter when it ends.
        while said := os.read(0, 1024):
            if told is not None:
                told(said)
        os._exit(130)

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()
