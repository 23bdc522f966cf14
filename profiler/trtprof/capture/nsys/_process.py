"""Run nsys so that nothing of it outlives the call, and say in words how it ended."""

from __future__ import annotations

import contextlib
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

from trtprof.base.units import format_bytes
from trtprof.runtime import child

_GRACE_S = 5.0
"""How long nsys may take to end after SIGTERM; it took 1.2 s (2022.4, 2023.4)."""
_POLL_S = 0.05
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
    """How a run ended."""

    code: int  # Exit code; the negative number of a signal that ended it
    timed_out: bool  # Whether it was ended because its time was up
    # Left on the disk of the log, where that is so little that it may be why it failed; else None
    free_bytes: int | None
    said: tuple[str, ...]  # The last lines of stdout, then those of stderr, without progress bars
    errors: tuple[str, ...]  # Those of stderr

    def last(self) -> str:
        """The last line that tells something, of stderr if it has one; nsys' talk about its files does not."""
        causes = [match[1] or match[2] for match in _TOLD.finditer("\n".join(self.errors))]
        telling = [line for line in self.said if not _TALK.match(line)]
        return (causes or telling or [""])[-1].strip()


def run(
    command: Sequence[str],
    *,
    log: Path,
    environment: Mapping[str, str],
    timeout_s: float,
    on_line: Callable[[str], None],
) -> Ended:
    """Run a command of nsys to its end, or end it and all that it started; an exception of ``on_line`` ends it, too.

    ``on_line`` gets the lines of stdout. On a full disk 2022.4 crashes and 2023.4 hangs.
    """
    said: deque[str] = deque(maxlen=_KEPT_LINES)
    deadline = time.monotonic() + timeout_s
    with child.lifeline() as stdin, log.open("ab", buffering=0) as output, tempfile.TemporaryFile() as errors:
        output.write(f"$ {shlex.join(command)}\n".encode())
        with log.open("rb") as reader:
            reader.seek(0, 2)
            # A session of its own: Ctrl-C in the terminal is for this process, which then ends the other in order.
            process = subprocess.Popen(
                command, stdin=stdin, stdout=output, stderr=errors, start_new_session=True, env=environment
            )
            rest, over, timed_out = b"", False, False
            try:
                while not over:
                    over = process.poll() is not None
                    timed_out = not over and time.monotonic() > deadline
                    *whole, rest = re.split(rb"[\r\n]", rest + reader.read() + (b"\n" if over else b""))
                    for line in _plain_lines(b"\n".join(whole)):
                        said.append(line)
                        on_line(line)
                    if timed_out:
                        break
                    time.sleep(0 if over else _POLL_S)
            finally:
                code = _end(process)
                errors.seek(0)
                told = errors.read()
                with contextlib.suppress(OSError):  # the disk is full: this is what failed, not its log
                    output.write(told)
    last = _plain_lines(told)[-_KEPT_LINES:]
    free = shutil.disk_usage(log.parent).free
    return Ended(code, timed_out, free if free < _LEAST_FREE_BYTES else None, (*said, *last), tuple(last))


def _plain_lines(text: bytes) -> list[str]:
    lines = (line.rstrip() for line in re.split(r"[\r\n]+", text.decode(errors="replace")))
    return [line for line in lines if line and not _PROGRESS_BAR.search(line)]


def _end(process: subprocess.Popen[bytes]) -> int:
    """The exit code of a run; what is left of it ends in order if it obeys, else by force.

    The program has a session of its own. The daemons of nsys end by themselves, 13 to 44 ms after it (2022.4), and must
    be let: killed on their way out they leave a lock in the memory that all nsys of the machine share.
    """
    if process.poll() is None:
        started = psutil.Process(process.pid).children(recursive=True)
        process.terminate()
        child.ended(process, _GRACE_S)
        for left in psutil.wait_procs(started, timeout=_GRACE_S)[1]:
            with contextlib.suppress(psutil.NoSuchProcess):
                left.kill()
    return child.ended(process, _GRACE_S)


# --- what went wrong, in words ---------------------------------------------------------------

_MAKE_ROOM = "free space on that disk, choose another folder (-o), or record fewer iterations"
NO_SPACE = r"[Nn]o space left on device|database or disk is full|Disk quota exceeded"
# Messages of nsys, what they mean, and how to mend it.
_EXPLAINED = (
    (NO_SPACE, "the disk is full", _MAKE_ROOM),
    (
        r"CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED|CUPTI_ERROR_MAX_LIMIT_REACHED",
        "another tool traces the run already (CUPTI has one subscriber)",
        "end the other profiler; a model runner that uses CUPTI itself cannot be traced",
    ),
    (
        r"unrecogni[sz]ed option|Illegal --\S+ argument",
        "nsys refuses an option",
        "leave it out if it is yours, else name another nsys by TRTPROF_NSYS",
    ),
    (
        r"Program not found|Executable not found",
        "nsys does not find the program to run",
        "check the command in the log",
    ),
    (r"Failed to create '.*': Permission denied", "nsys may not write its report", "choose a folder that it may write"),
    (
        r"ERR_NVGPUCTRPERM|not have permission to access NVIDIA GPU Performance Counters",
        "this user may not read the GPU's performance counters",
        "leave out --gpu-metrics-devices (--gpu-metrics-device), the only option that needs them: tracing does not",
    ),
    (
        r"perf_event_paranoid|requires? (root|administrative) privileges",
        "this user may not sample the CPU",
        "leave out --sample and --cpuctxsw, the only options that need it: tracing does not",
    ),
    (
        r"Agent launcher failed",
        "nsys waits for another nsys of this machine",
        "wait until that has ended; agents that hang (nsys --start-agent) can be ended by hand",
    ),
    (r"Failed to create '", "nsys cannot write its report", "choose another folder for the run"),
)


def explanation(said: Sequence[str]) -> tuple[str, str, str] | None:
    """What a known message means: what went wrong, the message, and how to mend it."""
    for pattern, what, fix in _EXPLAINED:
        line = next((line for line in said if re.search(pattern, line)), None)
        if line is not None:
            return what, line.strip(), fix
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
