"""``trtprof analyze``: a TensorRT engine from the files that trtexec exports of it, or a capture of nsys."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trtprof.base.errors import UsageError
from trtprof.cli import run_view as v
from trtprof.cli.declared import opt
from trtprof.cli.gpu_targets import AccumulateOption, CeilingOption, ClockOption, GpuOption, MeasuredOption, Tf32Option
from trtprof.cli.options import ExplainOption, FailOnOption, ForceOption, Shapes, TopOption, command, model_request
from trtprof.cli.output import View, errors_shown, refuse_binary, say, whole
from trtprof.cli.output_files import FormatOption, OutputsOption, check_report, deliver, writable
from trtprof.cli.run_view import check_views, refuse_explained, say_confirmations, with_model

if TYPE_CHECKING:
    from trtprof.base.records import GpuSpec, Run
    from trtprof.diagnose import Case
    from trtprof.flows.analyze import Files
    from trtprof.flows.predict.on_gpus import Settings


@command
def analyze(
    *,
    given: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE]...", help="Any of the files below; which is which shows.", show_default=False),
    ] = None,
    layers: Annotated[
        Path | None,
        opt(
            "--layers --exportLayerInfo",
            "Layers of the engine: JSON or text of the engine inspector, or the verbose log of a build.",
            metavar="FILE",
        ),
    ] = None,
    profile: Annotated[
        Path | None,
        opt("--profile --exportProfile", "Times of its layers; without them they are predicted.", metavar="FILE"),
    ] = None,
    times: Annotated[
        Path | None,
        opt(
            "--times --exportTimes", "Times of whole inferences; without them there is no end-to-end latency.",
            metavar="FILE",
        ),
    ] = None,
    nsys: Annotated[
        Path | None,
        opt(
            "--nsys", "A capture of nsys, .nsys-rep or exported to .sqlite: kernels in place of times of layers. "
            "Also a CSV of nsys stats, which tells less.", metavar="FILE",
        ),
    ] = None,
    ncu: Annotated[
        Path | None,
        opt(
            "--ncu", "Counters of kernels, beside their times: a CSV of ncu (--page raw), or its .ncu-rep.",
            metavar="FILE",
        ),
    ] = None,
    device: Annotated[
        int | None, opt("--device", "Which GPU of the capture; default: all that worked.", metavar="N")
    ] = None,
    inferences: Annotated[
        int | None,
        opt("--inferences", "How many inferences a CSV of sums is of, where it does not tell.", metavar="N", min=1),
    ] = None,
    onnx: Annotated[
        Path | None,
        opt(
            "--onnx", "The model that the engine was built from: prices a capture without --layers, too.",
            metavar="FILE",
        ),
    ] = None,
    shapes: Shapes,
    gpu: GpuOption = None,
    ceiling: CeilingOption = None,
    clock: ClockOption = None,
    accumulate: AccumulateOption = "auto",
    tf32: Tf32Option = True,
    measured: MeasuredOption = None,
    output: OutputsOption = None,
    force: ForceOption = False,
    format_name: FormatOption = "text",
    top: TopOption = None,
    by: v.ByOption = "layer",
    table: v.TableOption = None,
    figure: v.FigureOption = "roofline",
    ledger: v.LedgerOption = False,
    redact: v.RedactOption = False,
    fail_on: FailOnOption = None,
    explain: ExplainOption = None,
) -> None:  # fmt: skip
    """Analyse a TensorRT engine from the files that trtexec exports of it, or from a capture of nsys.

    Measured times of its layers, or of their kernels, beside what the roofline of --gpu allows, the ledger
    and the findings; no GPU, no TensorRT and no engine is needed. What is missing is said, and lowers the confidence.

    Example: trtprof analyze layers.json profile.json times.json --onnx model.onnx --gpu a100-pcie-80gb -o report.html
    """
    with errors_shown():
        from trtprof.base.records import Run
        from trtprof.cli import fail_on as failing
        from trtprof.diagnose import Judge, config
        from trtprof.diagnose.explain import explain as explain_layer
        from trtprof.flows import analyze as analyze_files

        asked = failing.criteria(fail_on)
        files = analyze_files.sort_files(given or (), analyze_files.Files(layers, profile, times, onnx, nsys, ncu))
        files = analyze_files.exported(files, say)
        timed = files.profile is not None or files.nsys is not None
        view = check_views(top=top, by=by, table=table, figure=figure, ledger=ledger)
        if explain is not None:
            refuse_explained(redact=redact)
        if not timed:
            _refuse_unmeasured(fail_on, explain, redact=redact)
        paths = _checked(format_name, output, measured=timed, explain=explain, force=force)
        specs, how = _asked(files, device, gpu, ceiling, clock, accumulate, measured, tf32=tf32)
        cases: list[Case] = []
        judge = Judge(config.load().thresholds, cases.append)
        found = analyze_files.analyze(files, specs, how, model_request("", shapes), device, inferences, judge)
        if explain is not None:
            deliver(explain_layer(cases[0], *explain), format_name, paths)
        elif isinstance(found, Run):
            found = _show_run(found, paths, format_name, view, redact=redact)
        else:
            deliver(found, format_name, paths, top=top)
        if isinstance(found, Run):
            for assumed in found.model.assumptions:
                say(whole(f"assumed: {assumed}", sys.stderr))
        if not paths and explain is None:
            say(f"next: the same command with -o {'report.html' if timed else 'roofline.svg'}")
        if isinstance(found, Run):
            failing.check(found.findings, asked)


def _refuse_unmeasured(fail_on: list[str] | None, explain: tuple[str, str] | None, *, redact: bool) -> None:
    for option, given, why in (
        ("--fail-on", fail_on, "findings are about time that was measured"),
        ("--explain", explain, "findings are about time that was measured"),
        ("--redact", redact, "a prediction is of a model that one has, and keeps its names"),
    ):
        if given:
            raise UsageError(
                f"{option} is of no use without times of layers",
                why=why,
                fix="give the profile or a capture too (--profile, --nsys)",
            )


def _checked(
    format_name: str, output: list[str] | None, *, measured: bool, explain: tuple[str, str] | None, force: bool
) -> list[Path]:
    """The files to write, where format and suffixes are those of the result."""
    if explain is not None:
        from trtprof.base.records import Explanation
        from trtprof.diagnose.explain import rule_of

        rule_of(explain[0])
        check_report("--explain", format_name, Explanation)
        return writable(output, Explanation, force=force, example="why.html")
    if not measured:
        from trtprof.base.records import Prediction

        check_report("analyze without a profile", format_name, Prediction)
        return writable(output, Prediction, force=force)
    from trtprof.base.records import Run

    refuse_binary(format_name)
    return writable(output, Run, force=force, example="report.html")


def _asked(
    files: Files,
    device: int | None,
    gpu: list[str] | None,
    ceiling: list[str] | None,
    clock: float | None,
    accumulate: str,
    measured: str | None,
    *,
    tf32: bool,
) -> tuple[list[GpuSpec], Settings]:
    """The GPUs, named or as a log tells, and the ceilings asked for."""
    from trtprof.cli.gpu_targets import ceilings_for, parse_accumulate, parse_ceilings
    from trtprof.flows import analyze as analyze_files
    from trtprof.flows.predict.on_gpus import Settings

    if not gpu:
        told, where = analyze_files.gpu_in(files, device)
        if not told:
            raise UsageError(
                "which GPU ran it? none is named with --gpu",
                why="the files do not tell, and its ceilings are what times are measured by",
                fix="--gpu NAME, such as a100-pcie-80gb; `trtprof gpus` lists them all",
            )
        say(f"--gpu {told}: as the {where} says")
        gpu = [told]
    from trtprof.flows.timed_rows import timed_on

    targets = ceilings_for(gpu, tf32=tf32, accumulate=accumulate, clock_mhz=clock, ceiling=ceiling)
    how = Settings(
        level="layers",
        precision="model" if tf32 else "fp32",
        accumulate=parse_accumulate(accumulate),
        clock_mhz=clock,
        overrides=parse_ceilings(ceiling),
        measured=timed_on(measured, [target.spec for target in targets], say=say),
    )
    return [target.spec for target in targets], how


def _show_run(run: Run, paths: list[Path], format_name: str, view: View, *, redact: bool) -> Run:
    """Print the run and write its files; the run as it was shown."""
    view = with_model(view, run, [format_name, *paths], redact=redact)
    if redact:
        from trtprof.cli.run_view import private_names
        from trtprof.report.redact import redact as redacted

        run = redacted(run, private_names())
    deliver(run, format_name, paths, **view._asdict())
    say_confirmations(run)
    return run
