"""``trtprof fleet run``: every cell of a manifest is answered, here or on a cluster."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from trtprof.base.errors import MissingError, UsageError
from trtprof.cli import process
from trtprof.cli.declared import opt
from trtprof.cli.fleet import fleet
from trtprof.cli.fleet.live import FleetLines
from trtprof.cli.fleet.places import ManifestArgument, ShardOption, parse_shard
from trtprof.cli.options import QuietOption, command_of
from trtprof.cli.output import errors_shown, result, say
from trtprof.cli.output_files import FormatOption, check_report, deliver

if TYPE_CHECKING:
    from trtprof.base.records import FleetPlan

_PANEL = "Execution"


@command_of(fleet)
def run(
    *,
    manifest: ManifestArgument,
    output: Annotated[
        str,
        opt(
            "--output -o",
            "The folder of the fleet, or a URI such as s3://bucket/fleet; what is answered there is not asked again.",
            "Result",
            metavar="FOLDER",
            show_default=False,
        ),
    ],
    shard: ShardOption = "",
    retry: Annotated[str, opt("--retry", "Do cells that failed again, too.", _PANEL, metavar="failed")] = "",
    workers: Annotated[
        int,
        opt(
            "--workers",
            "Processes that predict; default: as many as cores and memory carry.",
            _PANEL,
            metavar="N",
            min=0,
            show_default=False,
        ),
    ] = 0,
    ray: Annotated[
        str,
        opt(
            "--ray",
            "Execute the cells on a Ray cluster: the one that is found, or that at an address.",
            _PANEL,
            metavar="auto|ADDRESS",
        ),
    ] = "",
    attempts: Annotated[
        int, opt("--attempts", "Try a cell so often whose worker dies.", _PANEL, metavar="N", min=1)
    ] = 3,
    timeout: Annotated[
        float, opt("--timeout", "What takes longer is ended, and has failed.", _PANEL, metavar="S", min=0.1)
    ] = 3600.0,
    fail_on: Annotated[
        str, opt("--fail-on", "Leave with exit code 1, all written, where a cell failed.", "Result", metavar="failed")
    ] = "",
    format_name: FormatOption = "text",
    quiet: QuietOption = False,
) -> None:
    """Answer every cell of a manifest: predictions side by side, builds and runs alone on their device.

    What is answered is kept at once, a file a cell: whatever interrupts it, the same command goes on. Several may work
    on one folder, here and elsewhere; no cell is done twice. Cells that fail are rows with their error.

    Example: trtprof fleet run sample_models/fleet.toml -o my-fleet
    """
    progress = FleetLines(quiet=quiet)
    with errors_shown(progress):
        for option, value in (("--retry", retry), ("--fail-on", fail_on)):
            if value not in ("", "failed"):
                raise UsageError(f"{option} {value} is not known", why="known: failed", fix=f"{option} failed")
        from trtprof.base.records import FleetPlan
        from trtprof.flows import fleet as flow

        check_report("fleet run", format_name, FleetPlan)
        execution = flow.HowToRun(
            workers=workers,
            ray=ray,
            retry=cast("Literal['', 'failed']", retry),
            shard=parse_shard(shard),
            attempts=attempts,
            timeout_s=timeout,
        )
        try:
            with progress:
                found = flow.run(manifest, output, execution, progress, progress.watch)
        except KeyboardInterrupt:
            progress.stop()
            say(f"stopped by {process.ended_by()}: what is answered is kept in {output}, and the same command goes on")
            raise typer.Exit(process.ended_code()) from None
        deliver(found, "" if quiet else format_name, [])
        if quiet:
            result(found.folder)
        given = {"--shard": shard, "--ray": ray}
        how = [word for option, value in given.items() if value for word in (option, value)]
        _end(found, str(manifest), how, quiet=quiet)
        if fail_on and any(each.failed for each in found.targets):
            raise typer.Exit(1)


def _end(found: FleetPlan, manifest: str, how: Sequence[str], *, quiet: bool) -> None:
    """What was written, what failed, what is left, and what comes next: the same command, ``how`` it was given."""
    failed, left = (sum(getattr(each, name) for each in found.targets) for name in ("failed", "left"))
    again = shlex.join(["trtprof", "fleet", "run", manifest, "-o", found.folder, *how])
    if not quiet:
        say(f"wrote {found.folder}")
        if failed:
            say(f"{failed:,} cell{'s' * (failed != 1)} failed; again: {again} --retry failed")
        say(f"next: {shlex.join(['trtprof', 'fleet', 'report', found.folder, '-o', 'fleet.html'])}")
    if left:
        raise MissingError(
            f"{left:,} cell{'s are' if left != 1 else ' is'} left",
            why="; ".join(found.notes) or "their rows were lost or damaged while others were answered",
            fix="the same command where they can be, or with --ray ADDRESS of a cluster that offers what they need",
        )
