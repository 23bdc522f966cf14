"""``trtprof inspect``: a model alone, or its work over a sweep of its dimensions."""

from __future__ import annotations

from typing import Annotated

from trtprof.base.errors import UsageError
from trtprof.cli.declared import opt
from trtprof.cli.engine_options import Types
from trtprof.cli.options import EngineOption, Export, ForceOption, NamedModel, Shapes, command, model_request
from trtprof.cli.output import StageLines, errors_shown, say
from trtprof.cli.output_files import FormatOption, OutputsOption, check_report, deliver, writable


@command
def inspect(
    *,
    model: NamedModel,
    shapes: Shapes,
    export: Export,
    sweep: Annotated[
        list[str] | None,
        opt(
            "--sweep",
            "Work over a dynamic dimension: batch=1..64:x2, x[2]=128..1024:128, n=1,2,4; may be repeated.",
            metavar="DIM=VALUES",
        ),
    ] = None,
    engine: EngineOption = None,
    types: Types,
    output: OutputsOption = None,
    force: ForceOption = False,
    format_name: FormatOption = "text",
) -> None:
    """Look at a model alone: ops, shapes, work, and with --engine the layers that TensorRT-RTX makes of them.

    Parameters, FLOPs and bytes of every op, and what is not counted; nothing is run. A run folder in place of
    the model is its model at the shapes of that run.
    """
    progress = StageLines()
    with errors_shown(progress):
        from trtprof.base.records import Inspection, Sweep
        from trtprof.flows import inspect as flow

        record = Sweep if sweep else Inspection
        check_report("inspect", format_name, record)
        paths = writable(output, record, force=force, example="model.html")
        if types.one != "model" and not engine:
            raise UsageError(
                f"--dtype {types.one} changes nothing without --engine",
                why="the work is that of the types in the file",
                fix=f"--engine --dtype {types.one} shows such an engine; trtprof predict --dtype {types.one} its time",
            )
        request = model_request(model.name, shapes, export)
        if sweep:
            from trtprof.flows import model_sweep

            deliver(model_sweep.sweep(request, sweep), format_name, paths)
            return
        with progress:
            found = flow.inspect(request, progress, engine=types.one if engine else "")
        deliver(found, format_name, paths)
        if engine is None:
            say("next: the same command with --engine shows the layers that TensorRT-RTX makes of it")
