"""What a kernel does that it must not do."""

from __future__ import annotations

from typing import Literal

Kind = Literal[
    "out of bounds",
    "misaligned",
    "race",
    "uninitialised",
    "read-only",
    "divergent barrier",
    "endless",
    "unknown instruction",
    "launch",
]


class Fault(Exception):  # noqa: N818 - an error of the kernel that is executed, not of the program that executes it
    """A kernel did what it must not do, or what is not known here; it stops at the first.

    Attributes:
        kind: Which of the rules was broken.
    """

    def __init__(self, kind: Kind, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind: Kind = kind
