"""``trtprof inspect``: a model alone, or its work over a sweep of its dimensions."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from profiler.cli.options import Export, NamedModel, Shapes, command, model_request
from profiler.cli.output import StageLines, errors_shown, result, terminal_width
from profiler.cli.output_files import check_format


@command
def inspect(
    model: NamedModel,
    shapes: Shapes,
    export: Export,
    sweep: Annotated[
        list[str] | None,
        typer.Option(
            "--sweep",
            metavar="DIM=VALUES",
            help="Work over a dynamic dimension: batch=1..64:x2, x[2]=128..1024:128, n=1,2,4; may be repeated.",
        ),
    ] = None,
    no_engine: Annotated[
        bool, typer.Option("--no-engine", help="Build no engine, even where TensorRT-RTX is installed.")
    ] = False,
    format_name: Annotated[str, typer.Option("--format", help="text or json; of a sweep csv too.")] = "text",
) -> None:
    """Look at a model alone: ops, shapes, work, and the layers that TensorRT-RTX makes of them.

    Parameters, FLOPs and bytes of every op, and what has no cost function; nothing is run. Where
    TensorRT-RTX is installed an engine is built, without a GPU, to see what becomes one kernel.
    With --sweep a table over sizes, and closed forms of what they cost.
    """
    progress = StageLines()
    with errors_shown(progress):
        from profiler.flows import inspect as flow
        from profiler.flows import model_sweep
        from profiler.report import inspection
        from profiler.report import sweep as sweeps

        known = ("text", "json", "csv") if sweep else ("text", "json")
        check_format("inspect", format_name, known, "" if sweep or format_name != "csv" else " without --sweep")
        request = model_request(model.name, shapes, export)
        if sweep:
            table = model_sweep.sweep(request, sweep)
            if format_name == "json":
                result(sweeps.render_json(table))
            elif format_name == "csv":
                result(sweeps.render_csv(table))
            else:
                result(sweeps.render_text(table, terminal_width(sys.stdout)))
            return
        with progress:
            found = flow.inspect(request, progress, engine=not no_engine)
        if format_name == "json":
            result(inspection.render_json(found))
        else:
            result(inspection.render_text(found, terminal_width(sys.stdout)))
