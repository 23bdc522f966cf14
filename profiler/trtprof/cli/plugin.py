"""``trtprof plugin``: a kernel by hand for a layer, as a plugin that TensorRT takes, and what proves it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trtprof.base.errors import UsageError
from trtprof.cli import completion, typed
from trtprof.cli.declared import opt
from trtprof.cli.engine_trust import PluginTrustOption, allow_plugin
from trtprof.cli.gpu_targets import GpuOption, names
from trtprof.cli.options import ForceOption, Shapes, command, command_line, model_request
from trtprof.cli.output import StageLines, errors_shown, say
from trtprof.cli.output_files import FormatOption, check_report, deliver

if TYPE_CHECKING:
    from trtprof.flows.plugin.options import Step
    from trtprof.source.request import ModelRequest

BENCH = "bench"
"""In place of a run or a model: measure the plugin of a folder on the GPU that is here."""


@command
def plugin(
    *,
    subject: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN_OR_MODEL",
            autocompletion=completion.runs,
            help="A run folder, or an ONNX model; or bench, to measure a plugin on the GPU that is here.",
            show_default=False,
        ),
    ] = None,
    layer: Annotated[
        str | None,
        typer.Argument(
            metavar="LAYER",
            help="A layer of the run, or a node of the model: its name, or a part of it that no other has. Of bench "
            "the folder of the plugin.",
            show_default=False,
        ),
    ] = None,
    shapes: Shapes,
    gpu: GpuOption = None,
    output: Annotated[
        str,
        opt(
            "--output -o",
            "Where kernel, plugin, model and checks go; without it nothing is written.",
            "Result",
            metavar="FOLDER",
        ),
    ] = "",
    only: Annotated[
        list[str] | None,
        opt(
            "--only",
            "Some of brief, write, insert and check; check takes the plugin that lies in the folder of -o.",
            metavar="STEP,...",
            autocompletion=completion.plugin_steps,
        ),
    ] = None,
    place: Annotated[
        list[str] | None,
        opt(
            "--place",
            "Put the plugin in where these nodes stand; default: wherever the same is computed.",
            metavar="NODE,...",
        ),
    ] = None,
    function: Annotated[
        bool,
        opt(
            "--function/--no-function",
            "Keep the original nodes as the function of the custom node, for those who know no plugin. Without it "
            "the model is for TensorRT alone, for versions that would take the function.",
        ),
    ] = True,
    alone: Annotated[bool, opt("--alone", "A kernel for the node alone, without the pointwise ops beside it.")] = False,
    seconds: Annotated[
        float, opt("--check-seconds", "How long kernels are executed at most, in numpy.", metavar="S", min=1)
    ] = 20.0,
    headers: Annotated[
        Path | None,
        opt("--trt-include", "Where NvInferRuntime.h is, to compile the C++ plugin against.", metavar="FOLDER"),
    ] = None,
    device: Annotated[
        int | None,
        opt("--device", "With bench: the GPU, as nvidia-smi counts; default: the first.", metavar="N", min=0),
    ] = None,
    trust: PluginTrustOption = False,
    force: ForceOption = False,
    format_name: FormatOption = "text",
) -> None:
    """Turn a slow layer into a kernel by hand: brief, CUDA kernel, TensorRT plugin, model, and checks without a GPU.

    The brief says what the layer computes, what it takes and should take, which cheaper ways there are, and whether
    a plugin is worth it. The kernel is compiled, executed thread by thread beside float64, and driven through
    TensorRT's own registry where that is installed. On a GPU `trtprof plugin bench FOLDER` proves or disproves it.

    Example: trtprof plugin sample_models/gemv.onnx MatMul --gpu rtx-4090 -o gemv-plugin
    """
    progress = StageLines()
    with errors_shown(progress), progress:
        from trtprof.base.records import Plugin, PluginBench

        if subject == BENCH and not Path(BENCH).exists():
            check_report("plugin bench", format_name, PluginBench)
            from trtprof.flows.plugin.bench import BenchOptions, bench

            allow_plugin(_folder(layer), trust=trust)
            measured = bench(_folder(layer), progress, BenchOptions(device=device))
            deliver(measured, format_name, [])
            return
        if device is not None:
            raise UsageError(
                f"--device {device} is for bench",
                why="nothing else runs on a GPU",
                fix="--gpu names the GPU that is predicted for",
            )
        check_report("plugin", format_name, Plugin)
        from trtprof.flows.plugin import NotCompiledError, make
        from trtprof.flows.plugin.options import PluginOptions

        steps = _asked(only)
        if steps == ("check",) and not layer:
            output, subject, layer = output or subject or "", "", ""
        elif not subject or not layer:
            raise UsageError(
                "which layer of what?", why="a run folder or a model is named first, then a layer or node of it",
                fix="trtprof plugin model.onnx NODE --gpu rtx-4090 -o FOLDER",
            )  # fmt: skip
        if "check" in steps and "write" not in steps and (output or steps == ("check",)):
            allow_plugin(Path(output or subject or ""), trust=trust)
        try:
            found = make(
                PluginOptions(
                    what=subject or "",
                    layer=layer or "",
                    request=_request(subject, shapes),
                    gpu=_gpu(gpu),
                    folder=output,
                    steps=steps,
                    places=tuple(names(place)),
                    function=function,
                    alone=alone,
                    seconds=seconds,
                    headers=headers,
                    force=force,
                    command=command_line(typed),
                ),
                progress,
            )
        except NotCompiledError as error:
            deliver(error.document, format_name, [])
            raise
    with errors_shown():
        deliver(found, format_name, [])
        if found.folder and found.files:
            say(f"wrote {len(found.files)} files to {found.folder}")


def _asked(only: list[str] | None) -> tuple[Step, ...]:
    """The steps that are asked for, in their order."""
    from trtprof.flows.plugin.options import STEPS

    asked = names(only)
    for name in asked:
        if name not in STEPS:
            raise UsageError(
                f"--only {name}: there is no such step", why="known: " + ", ".join(STEPS), fix="--only brief"
            )
    return tuple(step for step in STEPS if step in asked) if asked else STEPS


def _folder(name: str | None) -> Path:
    """The folder of `bench`."""
    if not name:
        raise UsageError(
            "which plugin?", why="bench measures what `trtprof plugin ... -o FOLDER` wrote",
            fix="trtprof plugin bench FOLDER",
        )  # fmt: skip
    return Path(name)


def _request(name: str | None, shapes: Shapes) -> ModelRequest | None:
    """How a model is opened; None of a run, and of a document of one."""
    return None if not name or Path(name).is_dir() or name.lower().endswith(".json") else model_request(name, shapes)


def _gpu(asked: list[str] | None) -> str:
    """The GPU to predict for; "" where none is named."""
    slugs = names(asked)
    if len(slugs) > 1:
        raise UsageError(
            f"--gpu {','.join(slugs)} names {len(slugs)} GPUs",
            why="a brief weighs a kernel on one; it is compiled for all",
            fix=f"--gpu {slugs[0]}",
        )
    return "".join(slugs)
