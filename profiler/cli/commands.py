"""The commands. Each parses its options, calls the pipeline or a reporter, and prints."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from profiler.base.errors import MissingError, TrtprofError, UsageError
from profiler.cli import app
from profiler.cli.files import FormatOption, check_format
from profiler.cli.options import (
    BatchOption,
    DtypesOption,
    DynamicOption,
    FactoryOption,
    ForceOption,
    ModelArgument,
    OnnxOption,
    ShapesOption,
    export_options,
    one_model,
)
from profiler.cli.output import StageLines, errors_shown, rendered, result, say, terminal_width

if TYPE_CHECKING:
    from profiler.base.records import LiveGpu


@app.command()
def inspect(
    model: ModelArgument = None,
    onnx: OnnxOption = None,
    shapes: ShapesOption = None,
    batch: BatchOption = None,
    dtypes: DtypesOption = None,
    dynamic: DynamicOption = None,
    factory_arg: FactoryOption = None,
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
    format_name: FormatOption = "text",
) -> None:
    """Look at a model alone: ops, shapes, work, and the layers that TensorRT-RTX makes of them.

    Parameters, FLOPs and bytes of every op, and what has no cost function; nothing is run. Where
    TensorRT-RTX is installed an engine is built, without a GPU, to see what becomes one kernel.
    With --sweep a table over sizes, and closed forms of what they cost.
    """
    progress = StageLines()
    with errors_shown(progress):
        from profiler.base.records import Inspection, Sweep
        from profiler.flows import run as pipeline

        check_format("inspect", format_name, Sweep if sweep else Inspection)
        how = export_options(dtypes, dynamic, factory_arg)
        if sweep:
            table = pipeline.sweep(one_model(model, onnx), sweep, shapes or (), batch, how)
            result(rendered(table, format_name))
            return
        with progress:
            found = pipeline.inspect(one_model(model, onnx), shapes or (), batch, how, progress, engine=not no_engine)
        result(rendered(found, format_name))


@app.command()
def export(
    model: Annotated[str, typer.Argument(metavar="SPEC", help="package.module:factory or path/to/file.py:factory.")],
    shapes: ShapesOption = None,
    dtypes: DtypesOption = None,
    dynamic: DynamicOption = None,
    factory_arg: FactoryOption = None,
    fp16: Annotated[bool, typer.Option("--fp16", help="Convert parameters and float inputs to fp16.")] = False,
    bf16: Annotated[bool, typer.Option("--bf16", help="Convert parameters and float inputs to bf16.")] = False,
    opset: Annotated[
        int | None, typer.Option("--opset", metavar="N", min=1, help="Version of ai.onnx; default: torch's choice.")
    ] = None,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="The ONNX file; default <factory>.onnx.")
    ] = "",
    force: ForceOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but the path of the file.")] = False,
) -> None:
    """Export a PyTorch module to ONNX.

    The factory is a function, class or module; it may give a pair (module, example_inputs). Inputs
    are the parameters of forward; dimensions are fixed at those of --shapes unless --dynamic names
    them. Weights above 1 GB go into FILE.data.
    """
    import msgspec

    from profiler.base.units import format_bytes
    from profiler.flows import run as pipeline
    from profiler.source.shapes import describe, example, parse_shapes
    from profiler.source.spec import ExportOptions

    progress = StageLines(quiet=quiet)
    with errors_shown(progress), progress:
        if fp16 and bf16:
            raise UsageError("--fp16 and --bf16 are both given", why="parameters have one dtype", fix="leave one away")
        done = pipeline.export(
            model,
            ExportOptions(
                shapes=parse_shapes(shapes or ()),
                dtypes=tuple(dtypes or ()),
                dynamic=tuple(dynamic or ()),
                factory_args=tuple(factory_arg or ()),
                precision="fp16" if fp16 else "bf16" if bf16 else "",
                opset=opset,
            ),
            output,
            force=force,
            progress=progress,
        )
    with errors_shown():
        if quiet:
            result(str(done.path))
            return
        lines = [
            f"{done.path.name}   {done.parameters:,} parameters ({format_bytes(done.parameter_bytes)})",
            *(f"  in   {tensor.dtype} {describe([tensor])}" for tensor in done.inputs),
            *(f"  out  {tensor.dtype} {describe([tensor])}" for tensor in done.outputs),
            *done.assumptions,
        ]
        result("\n".join(lines))
        say(f"wrote {done.path}" + (f" and {done.data}" if done.data else ""))
        free = [
            msgspec.structs.replace(tensor, shape=done.shapes.get(tensor.name, tensor.shape))
            for tensor in done.inputs
            if any(isinstance(dim, str) for dim in tensor.shape or ())
        ]
        say(f"next: trtprof run {done.path}" + (f" --shapes {example(free)}" if free else ""))


@app.command()
def rules(
    code: Annotated[str | None, typer.Argument(help="A rule's code; without one, all rules are listed.")] = None,
    format_name: Annotated[str, typer.Option("--format", help="text or json.")] = "text",
) -> None:
    """List the rules, or explain one.

    What it looks at, why it happens, what to try, and its thresholds: their values here, the defaults, and where
    they come from. Of two rules that could claim the same time the one with the lower order gets it.
    """
    with errors_shown():
        from profiler.cli.rules import check_format, described, listed
        from profiler.diagnose import config
        from profiler.diagnose.explain import rule_of

        check_format("rules", format_name)
        if code is None:
            result(listed(format_name, terminal_width(sys.stdout)))
        else:
            result(described(rule_of(code), config.load(), format_name))


@app.command()
def doctor() -> None:
    """Say what can run here, and why not the rest.

    Versions, the device, kept ceilings, and for every backend that cannot run, the fix.
    """
    with errors_shown():
        import platform

        from profiler import __version__
        from profiler.base.units import format_bytes
        from profiler.engine.backends import backends, onnxruntime_version
        from profiler.hardware import nvml
        from profiler.hardware.device import host_cpu
        from profiler.hardware.store import default_cache_dir

        device = host_cpu()
        lines = [
            f"trtprof      {__version__}   Python {platform.python_version()}   {platform.platform(terse=True)}",
            f"onnxruntime  {onnxruntime_version()}",
            (
                f"device       {device.name}, {device.cores} cores, {format_bytes(device.memory_bytes)} memory, "
                f"{format_bytes(device.cache_bytes)} last-level cache"
            ),
            *_gpu_lines(*nvml.gpus()),
            f"ceilings     {_ceilings_kept(default_cache_dir())}",
            "backends, in the order of --backend auto:",
        ]
        for status in backends():
            mark = "ok" if status.available else "--"
            lines.append(f"  {mark}  {status.name:<13} {status.reason}")
            if status.fix:
                lines.append(f"      {'':<13} fix: {status.fix}")
        lines += ["collectors on a GPU, in the order of --collector auto:", *_collector_lines()]
        result("\n".join(lines))
        if not any(status.available for status in backends()):
            raise MissingError("no backend can run here", fix="see the fixes above")


def _collector_lines() -> list[str]:
    """What can watch a GPU here, and what the others lack."""
    from profiler.capture.cupti import activity as cupti
    from profiler.capture.nsys import record as nsys

    lines = []
    for name, look in (("nsys", nsys.find), ("cupti", cupti.require)):
        try:
            found = look()
        except TrtprofError as error:
            lines += [f"  --  {name:<13} {error.what}: {error.why}", f"      {'':<13} fix: {error.fix}"]
        else:
            lines.append(f"  ok  {name:<13} " + (f"{found.version_text} ({found.path})" if found else "in the process"))
    return lines


def _gpu_lines(gpus: tuple[LiveGpu, ...], why_not: str) -> list[str]:
    lines = []
    for gpu in gpus:
        place = f"{gpu.index}" + (f".{gpu.slice}" if gpu.slice is not None else "")
        known = [
            f"compute capability {gpu.compute_capability}" if gpu.compute_capability else "",
            f"{gpu.sms} SMs" if gpu.sms else "",
            f"driver {gpu.driver}" if gpu.driver else "",
            f"CUDA {gpu.cuda}" if gpu.cuda else "",
        ]
        lines.append(f"gpu {place:<9}" + ", ".join([gpu.name, *filter(None, known)]))
    if why_not:
        lines.append(f"gpu          {why_not}" if gpus else f"gpu          none: {why_not}")
    return lines


def _ceilings_kept(folder: Path) -> str:
    files = sorted(folder.glob("*.json")) if folder.is_dir() else []
    if not files:
        return f"none measured yet; the first run does it and keeps them in {folder}"
    return f"{len(files)} kept in {folder}; `trtprof calibrate` measures again"
