"""``trtprof plugin``: a custom kernel for a layer, as a plugin for TensorRT, and checks without a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trtprof.base.errors import UsageError
from trtprof.cli import completion
from trtprof.cli.declared import opt
from trtprof.cli.engine_trust import PluginTrustOption, allow_plugin
from trtprof.cli.gpu_targets import GpuOption, names
from trtprof.cli.options import ForceOption, Shapes, command, model_request
from trtprof.cli.output import StageLines, errors_shown, say
from trtprof.cli.output_files import FormatOption, check_report, deliver

if TYPE_CHECKING:
    from trtprof.flows.plugin import Step

BENCH = "bench"
"""In place of a run or a model: measure the plugin of a folder on the GPU of this machine."""


@command
def plugin(
    *,
    subject: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN_OR_MODEL",
            autocompletion=completion.runs,
            help="Run folder or ONNX model; or bench, to measure the plugin of a folder on this machine's GPU.",
            show_default=False,
        ),
    ] = None,
    layer: Annotated[
        str | None,
        typer.Argument(
            metavar="LAYER",
            help="Layer of the run or node of the model: its name or a unique part of it. With bench: the folder.",
            show_default=False,
        ),
    ] = None,
    shapes: Shapes,
    gpu: GpuOption = None,
    output: Annotated[
        str,
        opt("--output -o", "Write kernel, plugin and model here. Default: write nothing.", "Result", metavar="FOLDER"),
    ] = "",
    only: Annotated[
        list[str] | None,
        opt(
            "--only",
            "Do some of brief, write, insert, check. check alone checks the folder of -o.",
            metavar="STEP,...",
            autocompletion=completion.plugin_steps,
        ),
    ] = None,
    place: Annotated[
        list[str] | None,
        opt("--place", "Insert the plugin at these nodes. Default: wherever the same is computed.", metavar="NODE,..."),
    ] = None,
    function: Annotated[
        bool,
        opt("--function/--no-function", "Keep the original nodes as the custom node's function, for other runtimes."),
    ] = True,
    alone: Annotated[
        bool, opt("--alone", "Compute the node alone, without pointwise ops before and after it.")
    ] = False,
    ptx: Annotated[bool, opt("--ptx", "Also write PTX per tactic, for builders without Triton.", "Result")] = False,
    cpp: Annotated[bool, opt("--cpp", "Also write the plugin in C++, for trtexec and C++ builders.", "Result")] = False,
    seconds: Annotated[
        float, opt("--check-seconds", "Time limit for interpreting kernels.", metavar="S", min=1)
    ] = 20.0,
    device: Annotated[
        int | None, opt("--device", "With bench: GPU index, as nvidia-smi counts. Default: first.", metavar="N", min=0)
    ] = None,
    trust: PluginTrustOption = False,
    force: ForceOption = False,
    format_name: FormatOption = "text",
) -> None:
    """Write a custom kernel for a slow layer: brief, Triton kernel, TensorRT plugin, model, checks without a GPU.

    The brief states what the layer computes, its bound, its cheaper candidates, and whether a plugin pays. The kernel
    is a short file in Triton. It is interpreted, compiled, and driven through TensorRT's plugin registry. Experimental:
    no GPU has run a kernel of it yet; `trtprof plugin bench FOLDER` measures it on one.

    Example: trtprof plugin sample_models/gemv.onnx MatMul --gpu rtx-4090 -o gemv-plugin
    """
    progress = StageLines()
    with errors_shown(progress), progress:
        from trtprof.base.records import Plugin, PluginBench

        if subject == BENCH and not Path(BENCH).exists():
            check_report("plugin bench", format_name, PluginBench)
            from trtprof.flows.plugin.bench import bench

            if not layer:
                raise UsageError("bench needs a folder", fix="trtprof plugin bench FOLDER")
            allow_plugin(Path(layer), trust=trust)
            deliver(bench(Path(layer), progress, device), format_name, [])
            return
        if device is not None:
            raise UsageError(f"--device {device} is for bench", why="nothing else runs on a GPU", fix="Use --gpu NAME.")
        check_report("plugin", format_name, Plugin)
        from trtprof.flows.plugin import PluginOptions, make

        steps = _parse_steps(only)
        if steps == ("check",) and not layer:
            output, subject = output or subject or "", ""
            allow_plugin(Path(output), trust=trust)
        elif not subject or not layer:
            raise UsageError(
                "a model or run and a layer are required", fix="trtprof plugin model.onnx NODE --gpu rtx-4090 -o FOLDER"
            )
        is_model = bool(subject) and not Path(subject or "").is_dir() and not (subject or "").lower().endswith(".json")
        found = make(
            PluginOptions(
                what=subject or "", layer=layer or "", gpu=_one_gpu(gpu), folder=output, steps=steps,
                request=model_request(subject or "", shapes) if is_model else None, places=tuple(names(place)),
                function=function, alone=alone, ptx=ptx, cpp=cpp, seconds=seconds, force=force,
            ),
            progress,
        )  # fmt: skip
    with errors_shown():
        deliver(found, format_name, [])
        if found.folder and found.files:
            say(f"wrote {len(found.files)} files to {found.folder}")


def _parse_steps(only: list[str] | None) -> tuple[Step, ...]:
    """The requested steps in their order."""
    from trtprof.flows.plugin import STEPS

    given = names(only)
    for name in given:
        if name not in STEPS:
            raise UsageError(f"--only {name} is not a step", why="known: " + ", ".join(STEPS), fix="--only brief")
    return tuple(step for step in STEPS if step in given) if given else STEPS


def _one_gpu(given: list[str] | None) -> str:
    """The GPU to predict for; "" without one."""
    slugs = names(given)
    if len(slugs) > 1:
        raise UsageError(f"--gpu names {len(slugs)} GPUs", why="a brief is for one GPU", fix=f"--gpu {slugs[0]}")
    return "".join(slugs)
