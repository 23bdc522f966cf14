"""``trtprof rules``: the rules, listed or explained."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from profiler.cli import app, completion
from profiler.cli.output import errors_shown, result, terminal_width
from profiler.cli.output_files import check_format


@app.command()
def rules(
    code: Annotated[
        str | None,
        typer.Argument(autocompletion=completion.rules, help="A rule's code; without one, all rules are listed."),
    ] = None,
    format_name: Annotated[str, typer.Option("--format", help="text or json.")] = "text",
) -> None:
    """List the rules, or explain one.

    What it looks at, why it happens, what to try, and its thresholds: their values here, the defaults, and where
    they come from. Of two rules that could claim the same time the one with the lower order gets it.
    """
    with errors_shown():
        from profiler.cli.rule_text import FORMATS, described, listed
        from profiler.diagnose import config
        from profiler.diagnose.explain import rule_of

        check_format("rules", format_name, FORMATS)
        if code is None:
            result(listed(format_name, terminal_width(sys.stdout)))
        else:
            result(described(rule_of(code), config.load(), format_name))
