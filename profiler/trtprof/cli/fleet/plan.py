"""``trtprof fleet plan``: what a manifest asks, what of it is done, and how long the rest takes."""

from __future__ import annotations

import shlex

from trtprof.cli.fleet import fleet
from trtprof.cli.fleet.places import ManifestArgument, PlaceOrFilesOption, ShardOption, parse_shard, place_and_files
from trtprof.cli.options import ForceOption, TopOption, command_of
from trtprof.cli.output import errors_shown, say
from trtprof.cli.output_files import FormatOption, check_report, deliver


@command_of(fleet)
def plan(
    *,
    manifest: ManifestArgument,
    shard: ShardOption = "",
    output: PlaceOrFilesOption = None,
    force: ForceOption = False,
    format_name: FormatOption = "text",
    top: TopOption = None,
) -> None:
    """Say what a manifest asks, and how long it takes.

    Cells by target, what of them is done with -o FOLDER, what comes next. Every mistake of the manifest is told with
    its line. Nothing is answered; before any cell is done a few predictions are tried, to tell about how long all take.

    Example: trtprof fleet plan sample_models/fleet.toml
    """
    with errors_shown():
        from trtprof.base.records import FleetPlan

        check_report("fleet plan", format_name, FleetPlan)
        place, paths = place_and_files(output, FleetPlan, force=force)
        part = parse_shard(shard)
        from trtprof.flows import fleet as flow

        found, _ = flow.plan(manifest, place, part)
        deliver(found, format_name, paths, top=top)
        more = ["--shard", shard] if shard else []
        if any(each.left for each in found.targets):
            say(f"next: {shlex.join(['trtprof', 'fleet', 'run', str(manifest), '-o', place or 'FOLDER', *more])}")
        elif place:
            say(f"next: {shlex.join(['trtprof', 'fleet', 'report', place])}")
