"""Gates on the command line: what becomes of those that cannot be decided, and the exit code."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Protocol

import typer

from trtprof.base.errors import UsageError
from trtprof.cli.declared import opt
from trtprof.cli.output import say

EXIT_CODE = 1

InconclusiveOption = Annotated[
    str,
    opt(
        "--inconclusive",
        "What a gate does that cannot be decided: it is said either way, and with fail it leaves with 1, too.",
        metavar="pass|fail",
    ),
]


class Answered(Protocol):
    """A gate with its answer, of whatever it is."""

    @property
    def gate(self) -> str:
        """As asked for."""

    @property
    def answer(self) -> str:
        """``passed``, ``failed`` or ``inconclusive``."""

    @property
    def reason(self) -> str:
        """In words."""


def inconclusive_fails(text: str) -> bool:
    """Whether a gate that cannot be decided counts as failed."""
    if text not in ("pass", "fail"):
        raise UsageError(
            f"--inconclusive {text} is not known",
            why="a gate that cannot be decided passes or fails",
            fix="--inconclusive fail",
        )
    return text == "fail"


def check_gates(gates: Iterable[tuple[Answered, str]], *, inconclusive_fails: bool) -> None:
    """Say on stderr which gates did not pass, each with where that is, and leave with exit code 1 where one failed."""
    failed = False
    for gate, where in gates:
        if gate.answer == "passed":
            continue
        counts = gate.answer == "failed" or inconclusive_fails
        failed = failed or counts
        words = "failed" if gate.answer == "failed" else "inconclusive" + (", which counts as failed" if counts else "")
        say(f"gate {gate.gate}{where} {words}: {gate.reason}")
    if failed:
        raise typer.Exit(EXIT_CODE)
