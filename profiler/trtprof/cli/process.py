"""Signals that end a command, and streams whose reader is gone or whose disk is full."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, TextIO

from trtprof.base.errors import MissingError

ended: list[int] = []
"""The signals that came to end this command, in their order."""

_NAMES = {"SIGINT": "Ctrl-C", "SIGTERM": "SIGTERM", "SIGHUP": "SIGHUP"}


def ended_by() -> str:
    """What ended this command, in words."""
    return _NAMES[signal.Signals(ended[0]).name] if ended else "Ctrl-C"


def ended_code() -> int:
    """The exit code of a command that was ended, as shells have it."""
    return 128 + (ended[0] if ended else signal.SIGINT)


def _end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature of all handlers
    ended.append(number)
    # SIGTERM and SIGHUP may come together: the first is obeyed in peace. The same again interrupts that.
    if number in ended[:-1] or len(ended) == 1:
        raise KeyboardInterrupt(number)


@contextmanager
def signals_heard() -> Iterator[None]:
    """Make what ends a command a KeyboardInterrupt; a signal that is ignored, as under nohup, stays so."""
    ended.clear()
    before: dict[int, Any] = {}
    with suppress(ValueError):  # not the main thread
        for number in (getattr(signal, name) for name in _NAMES if hasattr(signal, name)):
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                before[number] = signal.signal(number, _end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def open_streams() -> None:
    """Have streams that can be written to: to nowhere where they are closed, and any character in an ASCII locale."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - as long as the process
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError):  # a stand-in
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def put(stream: TextIO, content: str | bytes = "") -> None:
    """Write all of it and flush; a reader who went away, and talk that nobody hears, is no failure."""
    try:
        stream.write(content) if isinstance(content, str) else stream.buffer.write(content)
        stream.flush()
    except OSError as error:
        with suppress(OSError, ValueError):  # Python would complain again when it flushes at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if stream is sys.stdout and not isinstance(error, BrokenPipeError):
            raise MissingError(
                "stdout cannot be written", why=error.strerror or str(error), fix="-o FILE writes the result to a file"
            ) from None
