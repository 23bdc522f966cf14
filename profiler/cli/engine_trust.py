"""Whether an engine made elsewhere may be loaded: its owner says so, by ``--trust`` or on a terminal."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from profiler.base.errors import UsageError
from profiler.cli.output import say

TrustOption = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="With --loadEngine: load it without a question; an engine holds code, so know who made it.",
        rich_help_panel="Engine of TensorRT",
    ),
]


def allow_engine(path: str, *, trust: bool) -> None:
    """Tell what is known of an engine, and go on where that is allowed; one that trtprof built here needs no leave.

    Raises:
        UsageError: Nobody says that it is trusted, or it is no engine.
        MissingError: There is no such file.
    """
    from profiler.engine.trust import engine_file
    from profiler.hardware.store import default_cache_dir

    found = engine_file(Path(path), default_cache_dir())
    if found.own:
        return
    say(f"warning: {found.warning}")
    if not trust and not _agreed():
        raise UsageError(
            f"{path} is not loaded",
            why="it was made elsewhere, an engine holds code, and nobody said that it is trusted",
            fix="say --trust if you know who made it, or build it here: leave --loadEngine away",
        )


def _agreed() -> bool:
    """The answer of whoever sits at a terminal; no where nobody does."""
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    sys.stderr.write("load it? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
