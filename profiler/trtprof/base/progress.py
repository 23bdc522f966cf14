"""Who is told what goes on, in one line at a time, and how a line knows what is left to be done."""

from __future__ import annotations

import time
from collections.abc import Callable

Progress = Callable[[str], None]

_LEFT = "\tleft="
_EVERY = 1.0
"""Least seconds between two lines of a count: what is timed is not to be disturbed by who is told of it."""


class Line(str):
    """A line that knows for how long the work that it tells of will go on, as far as it can be told."""

    __slots__ = ("left_s",)
    left_s: float
    """Seconds from the moment that the line was made."""

    def __new__(cls, text: str, left_s: float) -> Line:
        line = super().__new__(cls, text)
        line.left_s = max(left_s, 0.0)
        return line

    def wire(self) -> str:
        """The line as a child prints it; `heard` is its other end."""
        return f"{self}{_LEFT}{self.left_s:.2f}"


def heard(text: str) -> str:
    """A line that a child printed, as a `Line` where it was one."""
    line, mark, left = text.rpartition(_LEFT)
    try:
        return Line(line, float(left)) if mark else text
    except ValueError:
        return text


def unheard(_: str) -> None:
    """A `Progress` where nobody asked for one."""


class Count:
    """Counts what is done of some work (``what``), and tells it with what is left, at most once a second."""

    def __init__(self, say: Progress, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._say = say
        self._what = what
        self._clock = clock
        self._began = self._said = clock()

    def tell(self, done: int, total: int = 0, *, end: float = 0.0) -> None:
        """So much is done, of ``total`` at least; 0 where time alone decides."""
        now = self._clock()
        if now - self._said < _EVERY:
            return
        self._said = now
        each = (now - self._began) / done if done else 0.0
        left = max((total - done) * each, end - now)
        of = f" of {total:,}" if total > done else ""
        self._say(Line(f"{done:,}{of} {self._what}", left))
