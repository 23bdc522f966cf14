"""``trtprof help``: the manual in a terminal, what a word of a report means, how a command is called."""

from __future__ import annotations

import itertools
import os
import pydoc
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core

from trtprof.base.errors import UsageError
from trtprof.cli import app, completion
from trtprof.cli.declared import opt
from trtprof.cli.output import errors_shown, result, say, terminal_width, wants_color

_MOST_FOUND = 20


@app.command("help")
def explain(
    ctx: typer.Context,
    topic: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TOPIC]",
            autocompletion=completion.topics,
            help="A page of the manual, a command, a word of a report, a rule, an op or a GPU; without, the contents.",
        ),
    ] = None,
    search: Annotated[bool, opt("--search", "Look for sections of the manual that hold all these words.")] = False,
    samples: Annotated[bool, opt("--samples", "Put the sample models of the manual into ./sample_models.")] = False,
    pager: Annotated[bool, opt("--pager/--no-pager", "On a terminal, show what is long a screen at a time.")] = True,
) -> None:
    """Read the manual: its contents, a page, what a word of a report means (floor, limit, trust ...), a command."""
    with errors_shown():
        from trtprof.cli import manual
        from trtprof.report.terms import term_of

        words = list(topic or ())
        word = " ".join(words)
        width = terminal_width(sys.stdout)
        command = _command(ctx.parent, words)
        if samples:
            made = manual.copy_samples(Path())
            say(f"wrote {len(made)} files into sample_models" if made else "sample_models has them all")
            result("sample_models")
        elif search:
            _show(_found(words, width), page=False, pager=pager)
        elif command is not None:
            result(command.get_help(typer.Context(command, info_name=word, parent=ctx.parent)))
        elif not word:
            _show(_contents(width), page=False, pager=pager)
        elif (named := manual.topic_of(word)) is not None and not _means_a_word(word, named):
            _show(manual.page(named), page=True, pager=pager)
        else:
            found = term_of(word)
            also = f" Also: {', '.join(found.also)}." if found.also else ""
            also += f" The op {named.partition('/')[2]}: trtprof help {named}." if named else ""
            result(f"{found.title}\n{_filled(found.text + also, width, '  ')}")


def _means_a_word(word: str, topic: str) -> bool:
    """Whether what was typed is a word of reports (floor), and not the op of that name (Floor)."""
    from trtprof.report.terms import is_term

    return topic.startswith("ops/") and topic.partition("/")[2] != word and topic != word and is_term(word)


def _show(text: str, *, page: bool, pager: bool) -> None:
    """A page as the terminal can show it, and as it is written where there is none."""
    from trtprof.cli import manual

    if sys.stdout.isatty():
        if page:
            text = manual.shown(text, terminal_width(sys.stdout, 100), wants_color(sys.stdout))
        if pager:
            # Colours, and no wait where all is on one screen.
            os.environ.setdefault("LESS", "-RFX")
            pydoc.pager(text)
            return
    result(text)


def _contents(width: int) -> str:
    """The pages by group, and the words of reports."""
    from trtprof.cli import manual
    from trtprof.report.terms import TERMS

    lines = ["The manual: trtprof help TOPIC; trtprof help --search WORDS; a command's options: trtprof COMMAND --help"]
    for group, entries in itertools.groupby(manual.contents(), key=lambda each: each.group):
        lines += ["", group]
        lines += [_filled(f"{each.topic:<16} {each.summary}", width, "  ", 17) for each in entries]
    lines += ["", "Words of a report", _filled(", ".join(TERMS), width, "  ", 0)]
    return "\n".join([_filled(lines[0], width), *lines[1:]])


def _found(words: Sequence[str], width: int) -> str:
    """Where the manual holds words."""
    from trtprof.cli import manual

    if not words:
        raise UsageError(
            "there is nothing to look for", why="--search takes words", fix="trtprof help --search quiet clock"
        )
    found = list(manual.search(list(words)))
    if not found:
        raise UsageError(
            f"the manual does not hold {' '.join(words)!r}",
            why="no section has all these words",
            fix="fewer words, or trtprof help, which lists the pages",
        )
    blocks = [
        f"{each.topic}: {each.section}\n" + textwrap.shorten(each.line, width - 2, placeholder=" ...").join(("  ", ""))
        for each in found[:_MOST_FOUND]
    ]
    more = len(found) - len(blocks)
    return "\n".join(blocks) + (f"\nand {more} more places: more words find fewer" if more else "")


def _filled(text: str, width: int, indent: str = "", hanging: int = 0) -> str:
    after = indent + " " * hanging
    return textwrap.fill(text, width, initial_indent=indent, subsequent_indent=after, break_on_hyphens=False)


def _command(ctx: Any, words: Sequence[str]) -> Any:
    """The command of some words, ``fleet plan``; None where there is none."""
    found = ctx.command if ctx is not None and words else None
    for word in words:
        found = found.get_command(ctx, word) if isinstance(found, typer.core.TyperGroup) else None
    return found
