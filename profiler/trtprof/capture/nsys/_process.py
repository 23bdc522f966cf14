"""Run nsys so that nothing of it outlives the call, and say in words how it ended.

Killing nsys (2022.4, 2023.4) leaves three processes behind: the agent, a daemon of its own session, the launcher,
and the program under test with a session of its own. They are found again by a variable of their environment.
"""

from __future__ import annotations

import contextlib
import os
import queue
import re
import shlex
import shutil
import signal
import subprocess
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from io import RawIOBase
from pathlib import Path
from typing import NamedTuple

from trtprof.base.units import format_bytes
from trtprof.runtime import child

MARK = "TRTPROF_NSYS_RUN"
"""Environment variable that tells the processes of one run from all others."""

_GRACE_S = 5.0
"""How long nsys may take to end after SIGTERM; it took 1.2 s (2022.4, 2023.4)."""
_POLL_S = 0.05
_DRAIN_S = 1.0
"""How long its last words may take to arrive once it has ended."""
_DISK_CHECK_S = 1.0
_LEAST_FREE_BYTES = 4 << 20
"""A disk with less is full: the smallest recordings took 1.4 MB (2022.4, 2023.4)."""
_KEPT_LINES = 2000
_TALK = re.compile(
    r"\s|.*[{}]$|\[QuadD|Dynamic exception type|std::exception::what"
    r"|Generating '|Generated:|Collecting data|Importer error status|Unable to retrieve the importer"
)
_TOLD = re.compile(r"tag_message\*\] = (?!Status)(.+)|ErrorText\n\s*Value: \"(.+)\"")
"""Where a dump of nsys' exceptions holds the cause."""
_PROGRESS_BAR = re.compile(r"\[[= ]*\d+%")


class Ended(NamedTuple):
    """How a run ended.

    Attributes:
        code: Exit code; the negative number of a signal that ended it.
        timed_out: Whether it was ended because its time was up.
        free_bytes: Left on the disk of the log, where that is so little that it may be why it failed; else None.
        said: The last lines of stdout and stderr, without progress bars.
        errors: Those of stderr.
    """

    code: int
    timed_out: bool
    free_bytes: int | None
    said: tuple[str, ...]
    errors: tuple[str, ...]

    def last(self) -> str:
        """The last line that tells something, of stderr if it has one; nsys' talk about its files does not."""
        causes = [match[1] or match[2] for match in _TOLD.finditer("\n".join(self.errors))]
        if causes:
            return causes[-1].strip()
        for lines in (self.errors, self.said):
            telling = [line for line in lines if not _TALK.match(line)]
            if telling:
                return telling[-1].strip()
        return ""


def run(
    command: Sequence[str],
    *,
    log: Path,
    environment: Mapping[str, str],
    timeout_s: float,
    on_line: Callable[[str], None],
) -> Ended:
    """Run a command of nsys to its end, or end it and all that it started.

    An exception of ``on_line``, Ctrl-C and a full disk end it, too: on one, 2022.4 crashes and 2023.4 hangs.
    """
    mark = uuid.uuid4().hex
    said: deque[str] = deque(maxlen=_KEPT_LINES)
    said_as_error: deque[str] = deque(maxlen=_KEPT_LINES)
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    with child.lifeline() as stdin, log.open("ab", buffering=0) as sink:
        sink.write(f"$ {shlex.join(command)}\n".encode())
        # Both streams pass through here: on a full disk the log is what cannot be written, and the cause is told there.
        output, errors = _Stream(sink, said, lines.put), _Stream(sink, said, said_as_error.append)
        # A session of its own: Ctrl-C in the terminal is for this process, which then ends the other in order.
        try:
            process = subprocess.Popen(
                command, stdin=stdin, stdout=output.writer, stderr=errors.writer, start_new_session=True,
                env={**environment, MARK: mark},
            )  # fmt: skip
        finally:
            output.start()
            errors.start()
        try:
            timed_out = _follow(process, (output, errors), lines, time.monotonic() + timeout_s, on_line, log.parent)
            free = shutil.disk_usage(log.parent).free
        finally:
            _end(process, mark)
            output.join(_GRACE_S)
            errors.join(_GRACE_S)
    while not lines.empty():
        on_line(lines.get())
    code = -signal.SIGKILL if process.returncode is None else process.returncode
    return Ended(code, timed_out, free if free < _LEAST_FREE_BYTES else None, tuple(said), tuple(said_as_error))


class _Stream(threading.Thread):
    """Copies what a process says to its log, and keeps it by lines."""

    def __init__(self, sink: RawIOBase, said: deque[str], also: Callable[[str], None]) -> None:
        super().__init__(name="nsys-output", daemon=True)
        self._reader, self.writer = os.pipe()
        self._sink, self._said, self._also = sink, said, also

    def start(self) -> None:
        """Begin to read; the process must have been started, for this process' writing end is closed here."""
        os.close(self.writer)
        super().start()

    def run(self) -> None:
        rest = b""
        with contextlib.closing(os.fdopen(self._reader, "rb", buffering=0)) as reader:
            while block := reader.read(65536):
                with contextlib.suppress(
                    OSError, ValueError
                ):  # the disk is full, or the log closed: read on all the same
                    self._sink.write(block)
                *whole, rest = re.split(rb"[\r\n]", rest + block)
                self._keep(b"\n".join(whole))
        self._keep(rest)

    def _keep(self, text: bytes) -> None:
        for line in _plain_lines(text.decode(errors="replace")):
            self._said.append(line)
            self._also(line)


def _follow(
    process: subprocess.Popen[bytes],
    streams: tuple[_Stream, ...],
    lines: queue.SimpleQueue[str],
    deadline: float,
    on_line: Callable[[str], None],
    folder: Path,
) -> bool:
    """Hand on lines until the process has ended or the disk is full; returns whether its time was up before."""
    gone_at = None
    check_at = 0.0
    while any(stream.is_alive() for stream in streams) or gone_at is None:
        now = time.monotonic()
        if gone_at is None and process.poll() is not None:
            gone_at = now
        if gone_at is not None and now > gone_at + _DRAIN_S:
            return False
        if gone_at is None and now > deadline:
            return True
        if gone_at is None and now > check_at:
            check_at = now + _DISK_CHECK_S
            if shutil.disk_usage(folder).free < _LEAST_FREE_BYTES:
                return False
        with contextlib.suppress(queue.Empty):
            on_line(lines.get(timeout=_POLL_S))
    return False


def _plain_lines(text: str) -> list[str]:
    lines = (line.rstrip() for line in re.split(r"[\r\n]+", text))
    return [line for line in lines if line and not _PROGRESS_BAR.search(line)]


def _end(process: subprocess.Popen[bytes], mark: str) -> None:
    """End what is left of a run, in order if it obeys, else by force."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
    if process.poll() is None:
        process.kill()
    _kill_marked(mark)
    child.ended(process, _GRACE_S)


def _kill_marked(mark: str) -> None:
    """End all processes of this user that carry the mark in their environment; none where there is no /proc.

    Programs are killed at once. The daemons of nsys end by themselves, 13 to 44 ms after it (2022.4), and must be let:
    killed on their way out they leave a lock in the memory that all nsys of the machine share, which then wait for it.
    """
    begin, told = time.monotonic(), set[int]()
    while marked := _marked(mark):
        waited = time.monotonic() - begin
        for pid, of_nsys in marked.items():
            with contextlib.suppress(ProcessLookupError):
                if not of_nsys or waited > _GRACE_S:
                    os.kill(pid, signal.SIGKILL)
                elif waited > _GRACE_S / 2 and pid not in told:
                    told.add(pid)
                    os.kill(pid, signal.SIGTERM)
        if waited > _GRACE_S:
            return
        time.sleep(_POLL_S / 5)


def _marked(mark: str) -> dict[int, bool]:
    """The processes that carry the mark, and whether each is one of nsys."""
    wanted = f"{MARK}={mark}".encode()
    found = {}
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            if wanted in environ.read_bytes().split(b"\0"):
                found[int(environ.parent.name)] = environ.with_name("exe").readlink().name.startswith("nsys")
    return found


# --- what went wrong, in words ---------------------------------------------------------------


class _Explained(NamedTuple):
    """A message of nsys and what it means; ``{line}`` is the line it was found in."""

    pattern: str
    what: str
    fix: str


_MAKE_ROOM = "free space on that disk, choose another folder (-o), or record fewer iterations"
NO_SPACE = r"[Nn]o space left on device|database or disk is full|Disk quota exceeded"
_EXPLAINED = (
    _Explained(NO_SPACE, "the disk is full", _MAKE_ROOM),
    _Explained(
        r"CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED|CUPTI_ERROR_MAX_LIMIT_REACHED",
        "another tool traces the run already (CUPTI has one subscriber)",
        "end the other profiler; a model runner that uses CUPTI itself cannot be traced",
    ),
    _Explained(
        r"unrecogni[sz]ed option|Illegal --\S+ argument",
        "nsys refuses an option",
        "leave it out if it is yours, else name another nsys by TRTPROF_NSYS",
    ),
    _Explained(
        r"Program not found|Executable not found",
        "nsys does not find the program to run",
        "check the command in the log",
    ),
    _Explained(
        r"Failed to create '.*': Permission denied",
        "nsys may not write its report",
        "choose a folder that it may write",
    ),
    _Explained(
        r"ERR_NVGPUCTRPERM|not have permission to access NVIDIA GPU Performance Counters",
        "this user may not read the GPU's performance counters",
        "leave out --gpu-metrics-devices (--gpu-metrics-device), the only option that needs them: tracing does not",
    ),
    _Explained(
        r"perf_event_paranoid|requires? (root|administrative) privileges",
        "this user may not sample the CPU",
        "leave out --sample and --cpuctxsw, the only options that need it: tracing does not",
    ),
    _Explained(
        r"Agent launcher failed",
        "nsys waits for another nsys of this machine",
        "wait until that has ended; agents that hang (nsys --start-agent) can be ended by hand",
    ),
    _Explained(r"Failed to create '", "nsys cannot write its report", "choose another folder for the run"),
)


def explanation(said: Sequence[str]) -> tuple[str, str, str] | None:
    """What a known message means: what went wrong, the message, and how to mend it."""
    for known in _EXPLAINED:
        line = next((line for line in said if re.search(known.pattern, line)), None)
        if line is not None:
            return known.what, line.strip(), known.fix
    return None


def ended_words(what: str, ended: Ended, timeout_s: float) -> tuple[str, str, str]:
    """An error of a tool of nsys: what, why and, where it is known, how to mend it."""
    if ended.free_bytes is not None:
        return f"{what}: the disk is full", f"{format_bytes(ended.free_bytes)} are free on it", _MAKE_ROOM
    if ended.timed_out:
        said = ended.last()
        return what, f"it did not end within {timeout_s:g} s" + (f"; the last it said: {said}" if said else ""), ""
    if ended.code < 0:
        return what, child.exit_words(ended.code), "free memory" if ended.code == -signal.SIGKILL else ""
    explained = explanation(ended.said)
    if explained is not None:
        return f"{what}: {explained[0]}", explained[1], explained[2]
    return what, ended.last() or child.exit_words(ended.code), ""
