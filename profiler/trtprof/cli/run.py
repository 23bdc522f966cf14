"""``trtprof run``: the main job, all stages from the model to the report."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from trtprof.base.errors import UsageError
from trtprof.cli import completion, typed
from trtprof.cli.as_trtexec import Told, tell
from trtprof.cli.engine_options import (
    BestOption,
    LayerInfoOption,
    LoadEngineOption,
    Memory,
    Plugins,
    Ranges,
    RebuildOption,
    SaveEngineOption,
    Tactics,
    Types,
    VerboseOption,
    build_options,
)
from trtprof.cli.engine_trust import TrustOption, allow_engine
from trtprof.cli.gpu_targets import MeasuredOption
from trtprof.cli.options import (
    BackendOption,
    Export,
    FailOnOption,
    ForceOption,
    LoadInputsOption,
    NamedModel,
    QuietOption,
    SeedOption,
    SessionOptionOption,
    Shapes,
    ThreadsOption,
    TopOption,
    command,
    command_line,
    model_request,
)
from trtprof.cli.output import StageLines, errors_shown, refuse_binary, result, say
from trtprof.cli.output_files import ENGINE_SUFFIXES, FormatOption, deliver, refuse_existing, refuse_file_name, writable
from trtprof.cli.run_view import ByOption, LedgerOption, RooflineOption, check_views, say_confirmations, with_model

_DEVICE = re.compile(r"(?:gpu:)?([0-9]{1,9})")


@command
def run(
    *,
    model: NamedModel,
    shapes: Shapes,
    load_inputs: LoadInputsOption = None,
    seed: SeedOption = 0,
    backend: BackendOption = "auto",
    threads: ThreadsOption = 0,
    session_option: SessionOptionOption = None,
    iterations: Annotated[
        int, typer.Option("--iterations", help="Measure at least so many inferences.", rich_help_panel="Measurement")
    ] = 10,
    warmup: Annotated[
        float,
        typer.Option(
            "--warmUp",
            "--warmup",
            metavar="MS",
            help="Warm up for so many milliseconds.",
            rich_help_panel="Measurement",
        ),
    ] = 200.0,
    duration: Annotated[
        float,
        typer.Option(
            "--duration", metavar="S", help="Measure for at least so many seconds.", rich_help_panel="Measurement"
        ),
    ] = 3.0,
    profile_iterations: Annotated[
        int,
        typer.Option(
            "--profile-iterations", help="Inferences to run under the profiler.", rich_help_panel="Measurement"
        ),
    ] = 30,
    recalibrate: Annotated[
        bool, typer.Option("--recalibrate", help="Measure the ceilings of this device again.", rich_help_panel="Device")
    ] = False,
    device: Annotated[
        str | None,
        typer.Option(
            "--device",
            metavar="N",
            help="The GPU, as nvidia-smi counts; default: the first that CUDA shows.",
            rich_help_panel="Device",
        ),
    ] = None,
    collector: Annotated[
        str,
        typer.Option(
            "--collector",
            autocompletion=completion.collectors,
            help="On a GPU: nsys, cupti (in the process of the model), or auto, in that order.",
            rich_help_panel="Device",
        ),
    ] = "auto",
    cuda_graph: Annotated[
        bool | None,
        typer.Option(
            "--cuda-graph/--no-cuda-graph",
            "--useCudaGraph/--noCudaGraph",
            help="On a GPU: measure the latency with a CUDA graph, too; so it is unless switched off.",
            show_default=False,
            rich_help_panel="Device",
        ),
    ] = None,
    cold_l2: Annotated[
        bool,
        typer.Option(
            "--cold-l2",
            help="On a GPU: give every inference inputs that the L2 no longer holds.",
            rich_help_panel="Device",
        ),
    ] = False,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="On a GPU: hold the outputs against those of ONNX Runtime on the CPU.",
            rich_help_panel="Device",
        ),
    ] = False,
    confirm: Annotated[
        int,
        typer.Option(
            "--confirm",
            metavar="K",
            min=0,
            help="On a GPU: count DRAM bytes, FLOP and tensor cores of the K worst kernels, with Nsight Compute (ncu).",
            rich_help_panel="Device",
        ),
    ] = 0,
    measured: MeasuredOption = None,
    types: Types,
    best: BestOption = False,
    ranges: Ranges,
    memory: Memory,
    tactics: Tactics,
    plugins: Plugins,
    load_engine: LoadEngineOption = "",
    trust: TrustOption = False,
    save_engine: SaveEngineOption = "",
    rebuild: RebuildOption = False,
    told: Told,
    layer_info: LayerInfoOption = "",
    export: Export,
    output: Annotated[
        list[str] | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER|FILE",
            help="The run folder (default reports/<model>-<stamp>), or a file for the report, as its suffix says; "
            "may be repeated.",
            rich_help_panel="Result",
        ),
    ] = None,
    force: ForceOption = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the unfinished run in the -o folder.", rich_help_panel="Result")
    ] = False,
    format_name: FormatOption = "text",
    top: TopOption = None,
    by: ByOption = "layer",
    ledger: LedgerOption = False,
    roofline: RooflineOption = None,
    tag: Annotated[
        list[str] | None,
        typer.Option("--tag", metavar="NAME", help="Call the run so; may be repeated.", rich_help_panel="Result"),
    ] = None,
    fail_on: FailOnOption = None,
    verbose: VerboseOption = False,
    quiet: QuietOption = False,
) -> None:
    """Run a model: where its time is lost, and why."""
    progress = StageLines(quiet=quiet, verbose=verbose)
    with errors_shown(progress), progress:
        from trtprof.base import run_folder
        from trtprof.cli import fail_on as failing
        from trtprof.diagnose import config
        from trtprof.flows.options import GpuOptions, RunOptions
        from trtprof.flows.run import execute
        from trtprof.runtime.session_tuning import SessionTuning

        refuse_binary(format_name)
        view = check_views(top=top, by=by, table=None, figure="roofline", roofline=roofline, ledger=ledger)
        run_folder.check_tags(tag or ())
        asked = failing.criteria(fail_on)
        kept_in, paths = _outputs(output or (), force=force)
        told.check(format_name, quiet=quiet)
        if load_engine and not (model.model or model.onnx):
            raise UsageError(
                f"no model is named beside --loadEngine={load_engine}",
                why="the nodes, and the work that a floor is computed from, are in the ONNX file alone",
                fix=f"trtprof run model.onnx --loadEngine={load_engine}",
            )
        for name in filter(None, (save_engine, layer_info, *told.files)):
            refuse_existing(Path(name), force=force)
        if load_engine:
            allow_engine(load_engine, trust=trust)
        folder = execute(
            RunOptions(
                model=model_request(model.name, shapes, export),
                load_inputs=tuple(load_inputs or ()),
                seed=seed,
                backend=backend,
                threads=threads,
                iterations=iterations,
                warmup_ms=warmup,
                duration_s=duration,
                profile_iterations=profile_iterations,
                recalibrate=recalibrate,
                gpu=GpuOptions(
                    device=_device(device),
                    collector=collector,
                    cuda_graph=cuda_graph,
                    cold_l2=cold_l2,
                    verify=verify,
                    build=build_options(types, tactics, plugins, ranges, memory, best=best),
                    load_engine=load_engine,
                    save_engine=save_engine,
                    rebuild=rebuild,
                    confirm=confirm,
                    measured=measured,
                ),
                tuning=SessionTuning.of(session_option or ()),
                thresholds=config.load().thresholds,
                output=kept_in,
                force=force,
                resume=resume,
                command=command_line(typed),
            ),
            progress,
        )
    with errors_shown(done=folder.path):
        folder.tag(tag or ())
        found = folder.report()
        view = with_model(view._replace(file=str(folder.path)), found, paths, redact=False)
        deliver(found, "" if quiet else format_name, paths, **view._asdict())
        tell(folder, found, told, layer_info)
        if quiet:
            result(str(folder.path))
        else:
            say_confirmations(found)
            say(f"wrote {folder.path}   open: {folder.path / 'report.html'}")
            tries = next((finding.command for finding in found.findings if finding.command), "")
            say(f"next: {tries or f'trtprof report {folder.path} --format json'}")
        failing.check(found.findings, asked)


def _outputs(names: Sequence[str], *, force: bool) -> tuple[str, list[Path]]:
    """The run folder, empty for the default, and the files of the report, before any work is done for them."""
    from trtprof import report
    from trtprof.base.records import Run

    suffixes = (*ENGINE_SUFFIXES, *(each.suffix for each in report.formats_of(Run)))
    files = [name for name in names if name.lower().endswith(suffixes) and not Path(name).is_dir()]
    folders = [name for name in names if name not in files]
    for name in folders:
        refuse_file_name(name, Run, "the run folder")
    if len(folders) > 1:
        raise UsageError(
            f"-o names {len(folders)} folders: {', '.join(folders)}",
            why="a run has one folder, and files of the report have a suffix such as .html",
            fix=f"-o {folders[0]} -o report.html",
        )
    return "".join(folders), writable(files, Run, force=force, example="report.html")


def _device(given: str | None) -> int | None:
    """Number of the GPU, also in the spelling of `trtprof calibrate`: ``gpu:0``."""
    if given is None:
        return None
    found = _DEVICE.fullmatch(given)
    if found is None:
        raise UsageError(
            f"--device {given} is no GPU", why="GPUs go by their numbers", fix="--device 0; `trtprof gpus` lists them"
        )
    return int(found[1])
