"""Child processes of our own that live long and answer one request after the other, each a line of JSON.

`ask_child` starts a process for one question. Here it stays for many, since starting Python and importing packages
takes longer than most of them. What a library prints goes to the log: stdout is for answers alone.
"""

from __future__ import annotations

import os
import queue
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from trtprof.runtime import child

_LOG_END = 2000
"""Bytes of the end of a log that are looked at for why a process ended."""
_KILLED_S = 5.0
"""One that hangs in a driver may not die when it is killed: so long it is waited for."""


class Worker:
    """A child that answers lines: `serve` is its side."""

    def __init__(self, module: str, log: Path, environment: Mapping[str, str] | None = None) -> None:
        self._log = log
        with log.open("wb") as errors:
            # In a session of its own it gets no Ctrl-C: its parent does, and ends it with all that it began.
            self._process = subprocess.Popen(
                child.command(module), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                env={**child.environment(), **(environment or {})}, start_new_session=True,
            )  # fmt: skip
        assert self._process.stdin is not None and self._process.stdout is not None  # noqa: S101, PT018
        self._in, self._out = self._process.stdin, self._process.stdout
        os.set_blocking(self._out.fileno(), False)
        self._partial = b""

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    @property
    def fileno(self) -> int:
        """Of the pipe that its answers come by: readable when there is one, or when it has ended."""
        return self._out.fileno()

    def ask(self, line: bytes) -> None:
        """Send a request; one that has ended by now is found out by `heard`."""
        with suppress(OSError):
            self._in.write(line + b"\n")
            self._in.flush()

    def heard(self) -> list[bytes]:
        """The answers that have come meanwhile."""
        found = bytearray(self._partial)
        ended = False
        while True:
            try:
                more = os.read(self._out.fileno(), 1 << 16)
            except BlockingIOError:
                break
            if not more:
                ended = True
                break
            found += more
        *lines, self._partial = bytes(found).split(b"\n")
        if ended and not lines:
            raise EOFError(self._why())
        return lines

    def resident_bytes(self) -> int:
        """What it holds of memory; 0 where the system does not tell."""
        try:
            pages = Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1]
            return int(pages) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, ValueError, IndexError):
            return 0

    def end(self) -> None:
        """End it at once, and what it began: nothing of it is left running."""
        with suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_KILLED_S)
        for pipe in (self._in, self._out):
            with suppress(OSError):
                pipe.close()

    def _why(self) -> str:
        try:
            code = self._process.wait(_KILLED_S)
        except subprocess.TimeoutExpired:
            return "it closed its output"
        text = b""
        with suppress(OSError), self._log.open("rb") as log:
            log.seek(max(self._log.stat().st_size - _LOG_END, 0))
            text = log.read()
        last = [line.strip() for line in text.decode(errors="replace").splitlines() if line.strip()]
        return child.exit_words(code) + (f": {last[-1]}" if last and code > 0 else "")


def wait_for(workers: Sequence[Worker], seconds: float) -> list[Worker]:
    """Those that have answered or ended; waits for the first one for at most so long."""
    if not workers:
        time.sleep(seconds)
        return []
    with selectors.DefaultSelector() as selector:
        for worker in workers:
            selector.register(worker.fileno, selectors.EVENT_READ, worker)
        return [key.data for key, _ in selector.select(seconds)]


def serve(answer: Callable[[bytes], bytes]) -> int:
    """The child's side of `Worker`: answers lines until its parent is gone. Never returns before that."""
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    # What libraries print, native ones too, is no answer.
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    asked: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    partial = bytearray()

    def told(more: bytes) -> None:
        partial.extend(more)
        *lines, rest = bytes(partial).split(b"\n")
        partial[:] = rest
        for line in lines:
            asked.put(line)

    child.end_with_parent(told)
    while True:
        answered = answer(asked.get()) + b"\n"
        while answered:
            answered = answered[answers.write(answered) or 0 :]
