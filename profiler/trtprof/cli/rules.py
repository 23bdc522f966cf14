"""``trtprof rules``: the rules, listed or explained."""

from __future__ import annotations

from typing import Annotated

import typer

from trtprof.cli import completion
from trtprof.cli.options import ForceOption, command
from trtprof.cli.output import errors_shown
from trtprof.cli.output_files import FormatOption, OutputsOption, check_report, deliver, writable


@command
def rules(
    code: Annotated[
        str | None,
        typer.Argument(autocompletion=completion.rules, help="A rule's code; without one, all rules are listed."),
    ] = None,
    output: OutputsOption = None,
    force: ForceOption = False,
    format_name: FormatOption = "text",
) -> None:
    """List the rules, or explain one.

    Of two rules that could claim the same time the one with the lower order gets it.
    """
    with errors_shown():
        from trtprof.base.records import RuleListing
        from trtprof.diagnose import config, listing

        check_report("rules", format_name, RuleListing)
        paths = writable(output, RuleListing, force=force, example="rules.html")
        found = listing.rules(config.load(), code)
        deliver(found, format_name, paths, view="table" if code is None else "sheet")
