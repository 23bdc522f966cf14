"""Who is told what goes on, in one line at a time."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str], None]


def unheard(_: str) -> None:
    """A `Progress` where nobody asked for one."""
