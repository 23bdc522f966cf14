"""``trtprof gpus``: the datasheets, listed and compared."""

from __future__ import annotations

from typing import Annotated

import typer

from trtprof.base.errors import UsageError
from trtprof.cli import app, completion
from trtprof.cli.declared import opt
from trtprof.cli.options import ForceOption
from trtprof.cli.output import errors_shown, say
from trtprof.cli.output_files import FormatOption, OutputsOption, check_report, deliver, writable


@app.command()
def gpus(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            autocompletion=completion.gpus,
            help="Slug, name or TOML file: one in full, several compared.",
            show_default=False,
        ),
    ] = None,
    arch: Annotated[str, opt("--arch", "List those of an architecture: Ada.", metavar="NAME")] = "",
    cc: Annotated[str, opt("--cc", "List those of a compute capability: 8.9.", metavar="CC")] = "",
    class_: Annotated[
        str,
        opt(
            "--class",
            "List datacenter, workstation, geforce or jetson.",
            metavar="CLASS",
            autocompletion=completion.classes,
        ),
    ] = "",
    min_memory: Annotated[
        float | None, opt("--min-memory", "List those with so much memory.", metavar="GIB", min=0)
    ] = None,
    dtype: Annotated[str, opt("--dtype", "List those whose tensor cores multiply it: fp8.", metavar="DTYPE")] = "",
    output: OutputsOption = None,
    force: ForceOption = False,
    format_name: FormatOption = "text",
) -> None:
    """List the GPUs that are known, show one, or compare several."""
    with errors_shown():
        from trtprof.base.records import GpuListing
        from trtprof.flows import gpus as flow

        filters = flow.Filters(arch, cc, class_, min_memory, dtype)
        check_report("gpus", format_name, GpuListing)
        paths = writable(output, GpuListing, force=force, example="gpus.html")
        if names and filters != flow.Filters():
            raise UsageError(
                "GPUs are named and filtered", why="a filter chooses from the list of all", fix="leave one away"
            )
        found = flow.gpus(names or (), filters)
        view = "table" if not names else "sheet" if len(found.gpus) == 1 else "comparison"
        if found.live_note:
            say(f"gpus here: {found.live_note}")
        deliver(found, format_name, paths, view=view)
