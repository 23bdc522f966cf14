"""``trtprof sweep``: how the shape of one op moves its work, its intensity and its time."""

# ruff: noqa: ARG001 - parameters of the op are read from the context, which keeps their order

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from trtprof.base.errors import MissingError, UsageError
from trtprof.cli import app, completion
from trtprof.cli.declared import opt
from trtprof.cli.gpu_targets import AccumulateOption, CeilingOption, ClockOption, GpuOption, Tf32Option, ceilings_for
from trtprof.cli.options import ForceOption
from trtprof.cli.output import errors_shown, say
from trtprof.cli.output_files import FormatOption, OutputsOption, check_report, deliver, writable

if TYPE_CHECKING:
    from trtprof.base.records import Ceilings, OpSweepDevice


def _values(flag: str, text: str) -> Any:
    return typer.Option(flag, metavar="VALUES", help=text, show_default=False)


Values = list[str] | None


@app.command()
def sweep(
    ctx: typer.Context,
    family: Annotated[
        str,
        typer.Argument(
            metavar="OP",
            autocompletion=completion.ops,
            help="conv, convtranspose, gemm (or fc), matmul, gemv, attention, pool, elementwise, softmax or layernorm.",
            show_default=False,
        ),
    ],
    kernel: Annotated[Values, _values("--kernel", "Side of the window.")] = None,
    cin: Annotated[Values, _values("--cin", "Channels in.")] = None,
    cout: Annotated[Values, _values("--cout", "Channels out.")] = None,
    hw: Annotated[Values, _values("--hw", "Height and width of the input.")] = None,
    h: Annotated[Values, _values("--h", "Height of the input, and width where --w is not given.")] = None,
    w: Annotated[Values, _values("--w", "Width of the input.")] = None,
    batch: Annotated[Values, _values("--batch", "Batch: images, rows, products.")] = None,
    stride: Annotated[Values, _values("--stride", "Stride of the window.")] = None,
    dilation: Annotated[Values, _values("--dilation", "Dilation of the window.")] = None,
    groups: Annotated[Values, _values("--groups", "Groups of channels; cin is depthwise.")] = None,
    pad: Annotated[Values, _values("--pad", "same or valid.")] = None,
    m: Annotated[Values, _values("--m", "Rows of the product.")] = None,
    n: Annotated[Values, _values("--n", "Columns of the product.")] = None,
    k: Annotated[Values, _values("--k", "Length of the dot products.")] = None,
    in_: Annotated[Values, _values("--in", "Features in, of a fully connected layer.")] = None,
    out: Annotated[Values, _values("--out", "Features out, of a fully connected layer.")] = None,
    heads: Annotated[Values, _values("--heads", "Heads of an attention.")] = None,
    seq: Annotated[Values, _values("--seq", "Queries of an attention.")] = None,
    kv: Annotated[Values, _values("--kv", "Keys of an attention; default: as many as queries.")] = None,
    dim: Annotated[Values, _values("--dim", "Length of a head.")] = None,
    rows: Annotated[Values, _values("--rows", "Rows of a softmax or a normalization.")] = None,
    cols: Annotated[Values, _values("--cols", "Length of a row.")] = None,
    elements: Annotated[Values, _values("--elements", "Elements of an element-wise op.")] = None,
    op: Annotated[Values, _values("--op", "Element-wise ops: Add,Relu,Gelu.")] = None,
    dtype: Annotated[Values, _values("--dtype", "Dtypes of all tensors: fp32,fp16,int8,fp8.")] = None,
    gpu: GpuOption = None,
    device: Annotated[
        str | None, opt("--device", "Set it against the ceilings kept of this CPU too.", metavar="cpu")
    ] = None,
    clock: ClockOption = None,
    accumulate: AccumulateOption = "auto",
    tf32: Tf32Option = True,
    ceiling: CeilingOption = None,
    cold: Annotated[
        bool, opt("--cold/--warm", "Charge every byte to DRAM, or let the last-level cache keep what fits.")
    ] = True,
    output: OutputsOption = None,
    force: ForceOption = False,
    format_name: FormatOption = "text",
) -> None:
    """Sweep the shape of one op: work, arithmetic intensity, and time on GPUs that need not be at hand.

    Parameters take one value or several: 1,3,5 or 1..64:x2 or 128..1024:128, or the name of another
    parameter that they equal. The first that has several is the axis of the picture; all
    combinations are priced. Nothing is built or run.

    Example: trtprof sweep conv --kernel 1,3,5,7 --cin 64 --cout 64 --hw 56 --gpu rtx-3080 -o conv.svg
    """
    with errors_shown():
        from trtprof.base.records import OpSweep

        check_report("sweep", format_name, OpSweep)
        paths = writable(output, OpSweep, force=force)

        from trtprof.flows.op_sweep import ALL_PARAMETERS, parse_options, sweep_op

        # Click keeps parameters in the order of the command line: the first swept one is the axis.
        given = {name.rstrip("_"): value for name, value in ctx.params.items() if value}
        asked = {name: ",".join(value) for name, value in given.items() if name in ALL_PARAMETERS}
        values = parse_options(family, asked)
        found = sweep_op(family, values, _devices(gpu, device, tf32, accumulate, clock, ceiling), cold=cold)
        deliver(found, format_name, paths)
        if not found.devices:
            say("next: the same command with --gpu rtx-4090 (`trtprof gpus` lists them)")
        elif not paths and found.dims:
            say("next: the same command with -o FILE.svg draws it")


def _devices(
    gpu: list[str] | None,
    device: str | None,
    tf32: bool,
    accumulate: str,
    clock: float | None,
    ceiling: list[str] | None,
) -> list[OpSweepDevice]:
    from trtprof.base.records import OpSweepDevice

    targets = ceilings_for(gpu, tf32=tf32, accumulate=accumulate, clock_mhz=clock, ceiling=ceiling)
    if not targets and (ceiling or clock is not None):
        raise UsageError(
            "--ceiling and --clock need a GPU", why="they change its datasheet", fix="say which with --gpu rtx-4090"
        )
    found = [OpSweepDevice(slug=t.spec.slug, name=t.spec.name, ceilings=t.ceilings) for t in targets]
    if device is not None:
        if device != "cpu":
            raise UsageError(
                f"--device {device} is not known",
                why="the device at hand is cpu",
                fix=f"--device cpu, or --gpu {device}",
            )
        kept = _kept_ceilings()
        found.append(OpSweepDevice(slug="cpu", name=kept.device, kind="cpu", ceilings=kept))
    return found


def _kept_ceilings() -> Ceilings:
    """The ceilings that were measured on this CPU."""
    from trtprof.hardware import store

    shelf = store.of_host(0)
    kept = shelf.read(say)
    if kept is None:
        raise MissingError(
            "no ceilings are kept of this CPU",
            why=f"none were measured with {shelf.key['threads']} threads and this version of ONNX Runtime",
            fix="trtprof calibrate",
        )
    return kept
