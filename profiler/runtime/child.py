"""How a child process of our own is started: this interpreter, this package, nothing of the working folder."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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


def end_with_parent() -> None:
    """End this process when its parent is gone, however that died: the pipe on stdin closes then.

    The parent must hold the other end of stdin open until it no longer needs the child. A signal
    between the start of a child and the parent's taking note of it would otherwise orphan it.
    """

    def watch() -> None:
        # The descriptor itself: a lock held on sys.stdin would abort the interpreter when it ends.
        while os.read(0, 1024):
            pass
        os._exit(130)

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()
