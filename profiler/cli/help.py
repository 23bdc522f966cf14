"""``trtprof help``: what a word of a report means, or how a command is called."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence
from typing import Annotated, Any

import typer
import typer.core

from profiler.cli import app, completion
from profiler.cli.output import errors_shown, result, terminal_width


@app.command("help")
def explain(
    ctx: typer.Context,
    term: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TERM]",
            autocompletion=completion.terms,
            help="A word of a report, or a command; without, all words.",
        ),
    ] = None,
) -> None:
    """Say what a word of a report means: floor, limit, trust, lost ...; or how a command is called."""
    with errors_shown():
        from profiler.report.terms import TERMS, term_of

        word = " ".join(term or ())
        command = _command(ctx.parent, term or ())
        width = terminal_width(sys.stdout)
        if command is not None:
            result(command.get_help(typer.Context(command, info_name=word, parent=ctx.parent)))
        elif word:
            found = term_of(word)
            also = f" Also: {', '.join(found.also)}." if found.also else ""
            text = textwrap.fill(
                found.text + also, width, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
            )
            result(f"{found.title}\n{text}")
        else:
            rows = (f"{key:<16}{', '.join((found.title, *found.also))}" for key, found in TERMS.items())
            result("\n".join(textwrap.fill(row, width, subsequent_indent=" " * 16) for row in rows))


def _command(ctx: Any, words: Sequence[str]) -> Any:
    """The command of some words, ``fleet plan``; None where there is none."""
    found = ctx.command if ctx is not None and words else None
    for word in words:
        found = found.get_command(ctx, word) if isinstance(found, typer.core.TyperGroup) else None
    return found
