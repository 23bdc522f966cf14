"""``trtprof predict``: what a model should take on GPUs that need not be at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

from trtprof.cli import completion
from trtprof.cli import gpu_targets as g
from trtprof.cli.declared import opt
from trtprof.cli.engine_options import Types
from trtprof.cli.gpu_targets import names, parse_accumulate, parse_ceilings
from trtprof.cli.options import EngineOption, Export, ForceOption, NamedModel, Shapes, TopOption, command, model_request
from trtprof.cli.output import StageLines, errors_shown, say
from trtprof.cli.output_files import FormatOption, OutputsOption, check_report, deliver, writable

if TYPE_CHECKING:
    from trtprof.flows.predict.on_gpus import Level


@command
def predict(
    model: NamedModel,
    shapes: Shapes,
    export: Export,
    types: Types,
    gpu: g.GpuOption = None,
    level: Annotated[
        str,
        opt(
            "--level",
            "layers: of an engine, as with --engine; groups: nodes that an engine may fuse; nodes: each by "
            "itself; auto: layers with --engine, else groups.",
            autocompletion=completion.levels,
        ),
    ] = "auto",
    engine: EngineOption = None,
    accumulate: g.AccumulateOption = "auto",
    clock: g.ClockOption = None,
    ceiling: g.CeilingOption = None,
    cold: Annotated[
        bool, opt("--cold/--warm", "Charge every byte to DRAM, or let the last-level cache keep what fits.")
    ] = False,
    measured: g.MeasuredOption = None,
    why: Annotated[
        str,
        opt(
            "--why",
            "Of one layer alone: its bound, what to expect and why, and the measurements that are most like it.",
            metavar="LAYER",
        ),
    ] = "",
    output: OutputsOption = None,
    force: ForceOption = False,
    format_name: FormatOption = "text",
    top: TopOption = None,
) -> None:
    """Predict a model on GPUs that need not be at hand.

    The bound of its time, what good library kernels take, and energy on each GPU, at each precision, layer by
    layer under its roofline. Which nodes
    become one kernel is estimated from the graph, at once; with --engine one is built by TensorRT-RTX,
    without a GPU, and its layers are predicted. Nothing runs. A run folder in place of the model is its model
    at the shapes of that run.

    Example: trtprof predict model.onnx --gpu rtx-4090,l4 --dtype fp16 -o roofline.svg
    """
    progress = StageLines()
    with errors_shown(progress):
        from trtprof.base.records import PredictedWhy, Prediction

        record = PredictedWhy if why else Prediction
        check_report("predict --why" if why else "predict", format_name, record)
        accumulator = parse_accumulate(accumulate)
        paths = writable(output, record, force=force, example="why.html" if why else "result.svg")
        request = model_request(model.name, shapes, export)
        overrides = parse_ceilings(ceiling)
        from trtprof.flows import predict as flow
        from trtprof.flows.gpus import asked_or_here
        from trtprof.flows.predict.on_gpus import Settings
        from trtprof.flows.timed_rows import timed_on

        specs = asked_or_here(names(gpu), say)
        how = Settings(
            level=cast("Level", level),
            engine=engine,
            precision=types.one,
            accumulate=accumulator,
            clock_mhz=clock,
            overrides=overrides,
            cold=cold,
            measured=timed_on(measured, specs, say=say),
        )
        with progress:
            found = flow.predict(request, specs, how, progress)
        if why:
            from trtprof.flows.predict.why import why as why_layer

            deliver(why_layer(found, specs, how, why), format_name, paths)
            return
        deliver(found, format_name, paths, top=top)
        if not paths:
            say("next: the same command with -o FILE.svg draws the roofline")
