"""``trtprof fleet status``: how far a fleet is, whoever works on it."""

from __future__ import annotations

import shlex
import time
from typing import Annotated

import typer

from trtprof.cli.declared import opt
from trtprof.cli.fleet import fleet
from trtprof.cli.fleet.live import FleetLines
from trtprof.cli.options import command_of
from trtprof.cli.output import errors_shown, say
from trtprof.cli.output_files import FormatOption, check_report, deliver

_LOOK_S = 2.0


@command_of(fleet)
def status(
    *,
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Of the fleet, or its URI.", show_default=False)],
    watch: Annotated[bool, opt("--watch", "Look again until nothing is left.")] = False,
    failures: Annotated[int, opt("--failures", "Failed cells to show.", metavar="N", min=0)] = 5,
    format_name: FormatOption = "text",
) -> None:
    """Say how far a fleet is: cells done, failed and left by target, and why cells failed.

    It reads the folder alone, and may be asked while others work on it.

    Example: trtprof fleet status my-fleet --watch
    """
    progress = FleetLines()
    with errors_shown(progress):
        from trtprof.base.records import FleetPlan
        from trtprof.flows import fleet as flow

        check_report("fleet status", format_name, FleetPlan)
        found = flow.status(folder, failures)
        if watch:
            with progress:
                while any(each.left for each in found.targets):
                    progress.watch(found)
                    time.sleep(_LOOK_S)
                    found = flow.status(folder, failures)
        deliver(found, format_name, [])
        if any(each.left for each in found.targets):
            say(f"next: {shlex.join(['trtprof', 'fleet', 'run', 'MANIFEST', '-o', folder])} goes on")
        else:
            say(f"next: {shlex.join(['trtprof', 'fleet', 'report', folder, '-o', 'fleet.html'])}")
