"""``trtprof export``: a PyTorch module as an ONNX file."""

from __future__ import annotations

from typing import Annotated

import typer

from trtprof.base.errors import UsageError
from trtprof.cli.declared import opt
from trtprof.cli.engine_options import Bf16Option, DtypeOption, Fp16Option, Types
from trtprof.cli.options import Export, ForceOption, QuietOption, Shapes, ShapesOption, command, model_request
from trtprof.cli.output import StageLines, errors_shown, result, say


@command
def export(
    *,
    model: Annotated[str, typer.Argument(metavar="SPEC", help="package.module:factory or path/to/file.py:factory.")],
    shapes: ShapesOption = None,
    how: Export,
    dtype: DtypeOption = "model",
    fp16: Fp16Option = False,
    bf16: Bf16Option = False,
    opset: Annotated[
        int | None, opt("--opset", "Version of ai.onnx; default: torch's choice.", metavar="N", min=1)
    ] = None,
    output: Annotated[str, opt("--output -o", "The ONNX file; default <factory>.onnx.", metavar="FILE")] = "",
    force: ForceOption = False,
    quiet: QuietOption = False,
) -> None:
    """Export a PyTorch module to ONNX.

    --fp16, --bf16 and --dtype convert its parameters and float inputs. Inputs are the parameters of forward; dimensions
    are fixed at those of --shapes unless --dynamic names them.
    """
    import msgspec

    from trtprof.base.units import format_bytes
    from trtprof.flows import export as flow
    from trtprof.source.shapes import describe, example

    progress = StageLines(quiet=quiet)
    with errors_shown(progress), progress:
        precision = _converted(Types(dtype=dtype, fp16=fp16, bf16=bf16).one)
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


def _converted(precision: str) -> str:
    """The dtype that parameters are converted to; empty where they stay as they are."""
    if precision in ("fp32", "tf32"):
        raise UsageError(
            f"--dtype {precision} is not for an export",
            why="whether fp32 is multiplied as TF32 is chosen where the model runs",
            fix=f"leave it away here; trtprof predict or build --dtype {precision}",
        )
    if precision in ("int8", "fp8"):
        raise UsageError(
            f"no model is exported as {precision}",
            why="it needs scales, which are never made up",
            fix="quantise the module (torchao, ModelOpt), then export that",
        )
    return "" if precision == "model" else precision
