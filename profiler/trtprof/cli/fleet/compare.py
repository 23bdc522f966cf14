"""``trtprof fleet compare``: what changed between two fleets, and whether it is too much."""

from __future__ import annotations

from typing import Annotated

import typer

from trtprof.cli.declared import opt
from trtprof.cli.fleet import fleet
from trtprof.cli.gates import InconclusiveOption, check_gates, inconclusive_fails
from trtprof.cli.options import ForceOption, TopOption, command_of
from trtprof.cli.output import errors_shown, say
from trtprof.cli.output_files import FormatOption, OutputsOption, check_report, deliver, writable


@command_of(fleet)
def compare(
    before: Annotated[str, typer.Argument(metavar="BEFORE", help="Folder of a fleet, or its URI.", show_default=False)],
    after: Annotated[
        str, typer.Argument(metavar="AFTER", help="Another, or the same with FOLDER@VERSION.", show_default=False)
    ],
    gate: Annotated[
        list[str] | None,
        opt(
            "--gate",
            "Leave with exit code 1 where this is exceeded. By cell: 'latency>3%' (beyond noise), 'expected>2%', "
            "'bound>0%'. Over the fleet: 'geomean>1%', 'cost>5%', 'failed>0', 'vanished>0', 'slower>0'; in "
            "quotes; may be repeated.",
            metavar="EXPR",
        ),
    ] = None,
    inconclusive: InconclusiveOption = "pass",
    format_name: FormatOption = "text",
    output: OutputsOption = None,
    force: ForceOption = False,
    top: TopOption = None,
) -> None:
    """Compare fleets: what got slower or faster beyond noise, what is estimated otherwise, what fails or vanished?

    A cell is the same by model, target, size and precision; what else changed (content, version, datasheet, options)
    is told as the cause. FOLDER@0.1.0 is what that version of trtprof answered. Of many cells at most 5 % of those that
    are called slower or faster are so by chance. What is predicted rises or falls, and is never slower.

    Exit codes: 0 done, gates passed or inconclusive; 1 a gate failed (or was inconclusive, with --inconclusive fail);
    2 usage, 3 a folder is not there.

    Example: trtprof fleet compare monday friday --gate 'latency>3%' --gate 'failed>0' -o week.html
    """
    with errors_shown():
        from trtprof.base.records import FleetComparison
        from trtprof.flows.fleet import compared

        check_report("fleet compare", format_name, FleetComparison)
        fails = inconclusive_fails(inconclusive)
        paths = writable(output, FleetComparison, force=force, example="week.html")
        found = compared.compare(before, after, gate or (), say)
        deliver(found, format_name, paths, top=top)
        if not gate:
            say("next: the same command with --gate 'latency>3%' leaves with exit code 1 where that is exceeded")
        elif not paths:
            say("next: the same command with -o week.html makes a page of it")
        check_gates(((each, "") for each in found.gates), inconclusive_fails=fails)
