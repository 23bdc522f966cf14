"""``trtprof fleet report``: what came of a fleet, in any format."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trtprof.base.errors import UsageError
from trtprof.cli.declared import opt
from trtprof.cli.fleet import fleet
from trtprof.cli.options import ForceOption, TopOption, command_of
from trtprof.cli.output import errors_shown, say
from trtprof.cli.output_files import FormatOption, OutputsOption, check_report, deliver, next_step, writable

if TYPE_CHECKING:
    from trtprof.base.records import Fleet


@command_of(fleet)
def report(
    *,
    place: Annotated[
        str,
        typer.Argument(
            metavar="FOLDER", help="The folder of a fleet, or a URI such as s3://bucket/fleet.", show_default=False
        ),
    ],
    limit: Annotated[
        str, opt("--limit", "No request may take longer: '10 ms'; in place of the manifest's limits.", metavar="TIME")
    ] = "",
    tag: Annotated[list[str] | None, opt("--tag", "Only cells that have it; may be repeated.", metavar="TAG")] = None,
    model: Annotated[
        list[str] | None, opt("--model", "Only models that are called so: 'resnet*'; may be repeated.", metavar="GLOB")
    ] = None,
    target: Annotated[list[str] | None, opt("--target", "Only this target; may be repeated.", metavar="NAME")] = None,
    output: OutputsOption = None,
    force: ForceOption = False,
    format_name: FormatOption = "text",
    top: TopOption = None,
) -> None:
    """Show what came of a fleet: models and targets side by side, and where the hours of a day go.

    What serves each model best within its limit, by measured or expected times, and what that costs; how many
    GPUs the requests need; which custom kernels would win most over all models. It may be asked while the
    fleet still runs. Nothing but the folder is needed.

    Example: trtprof fleet report FOLDER --limit '10 ms' -o fleet.html
    """
    with errors_shown():
        from trtprof.base.records import Fleet

        check_report("fleet report", format_name, Fleet)
        paths = writable(output, Fleet, force=force, example="fleet.html")
        limit_ns = _limit(limit)
        from trtprof.flows.fleet import summary

        narrowed = summary.Narrowed(
            limit_ns=limit_ns,
            tags=tuple(tag or ()),
            models=tuple(model or ()),
            targets=tuple(target or ()),
            wins=summary.WINS if top is None else top,
        )
        found = summary.report(place, narrowed, say)
        deliver(found, format_name, [], top=top)
        for path in paths:
            _write(found, path, place, top)
        if not paths:
            say(f"next: {shlex.join(['trtprof', 'fleet', 'report', place, '-o', 'fleet.html'])} makes a page of it")


def _limit(text: str) -> int | None:
    from trtprof.base.units import parse_ns

    if not text:
        return None
    try:
        found = int(parse_ns(text))
    except ValueError:
        found = 0
    if found <= 0:
        raise UsageError(f"--limit {text} is no time", why="it is a number and ns, us, ms or s", fix="--limit '10 ms'")
    return found


def _write(found: Fleet, path: Path, place: str, top: int | None) -> None:
    """Write a file; a page links run folders from where it is."""
    from trtprof import report as formats

    folder = "" if "://" in place else os.path.relpath(Path(place).resolve(), path.parent.resolve())
    deliver(found, "", [path], top=top, file=folder)
    say(f"wrote {path}{next_step(formats.for_path(path.name, type(found)).name)}")
