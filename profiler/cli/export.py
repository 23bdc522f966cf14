"""``trtprof export``: a PyTorch module as an ONNX file."""

from __future__ import annotations

from typing import Annotated

import typer

from profiler.base.errors import UsageError
from profiler.cli.options import Export, ForceOption, Shapes, ShapesOption, command, model_request
from profiler.cli.output import StageLines, errors_shown, result, say


@command
def export(
    *,
    model: Annotated[str, typer.Argument(metavar="SPEC", help="package.module:factory or path/to/file.py:factory.")],
    shapes: ShapesOption = None,
    how: Export,
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
    from profiler.flows import export as flow
    from profiler.source.shapes import describe, example

    progress = StageLines(quiet=quiet)
    with errors_shown(progress), progress:
        if fp16 and bf16:
            raise UsageError("--fp16 and --bf16 are both given", why="parameters have one dtype", fix="leave one away")
        precision = "fp16" if fp16 else "bf16" if bf16 else ""
        request = model_request(model, Shapes(shapes), how, precision=precision, opset=opset)
        done = flow.export(request, output, force=force, progress=progress)
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
