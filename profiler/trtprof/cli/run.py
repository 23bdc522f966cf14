"""``trtprof run``: the main job, all stages from the model to the report."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from trtprof.base.errors import MissingError, UsageError
from trtprof.base.machine_errors import as_error
from trtprof.cli import completion, typed
from trtprof.cli import engine_options as eng
from trtprof.cli import options as o
from trtprof.cli.as_trtexec import Told, tell
from trtprof.cli.declared import opt
from trtprof.cli.engine_options import build_options
from trtprof.cli.engine_trust import TrustOption, allow_engine
from trtprof.cli.gpu_targets import MeasuredOption
from trtprof.cli.options import command, command_line, model_request
from trtprof.cli.output import StageLines, errors_shown, refuse_binary, result, say
from trtprof.cli.output_files import ENGINE_SUFFIXES, FormatOption, deliver, refuse_existing, refuse_file_name, writable
from trtprof.cli.run_view import ByOption, LedgerOption, check_views, say_confirmations, with_model

if TYPE_CHECKING:
    from trtprof.base.records import Run
    from trtprof.base.run_folder import RunFolder
    from trtprof.flows.options import RunOptions

_DEVICE = re.compile(r"(?:gpu:)?([0-9]{1,9})")


@command
def run(
    *,
    model: o.NamedModel,
    shapes: o.Shapes,
    load_inputs: o.LoadInputsOption = None,
    seed: o.SeedOption = 0,
    backend: o.BackendOption = "auto",
    threads: o.ThreadsOption = 0,
    session_option: o.SessionOptionOption = None,
    iterations: Annotated[int, opt("--iterations", "Measure at least so many inferences.", "Measurement")] = 10,
    warmup: Annotated[
        float, opt("--warmUp --warmup", "Warm up for so many milliseconds.", "Measurement", metavar="MS")
    ] = 200.0,
    duration: Annotated[
        float | None,
        opt(
            "--duration",
            "Measure for so many seconds; default: until the result is good enough, 3 on a GPU.",
            "Measurement",
            metavar="S",
        ),
    ] = None,
    profile_iterations: Annotated[
        int, opt("--profile-iterations", "Inferences to run under the profiler.", "Measurement")
    ] = 30,
    recalibrate: Annotated[bool, opt("--recalibrate", "Measure the ceilings of this device again.", "Device")] = False,
    device: Annotated[
        str | None,
        opt("--device", "The GPU, as nvidia-smi counts; default: the first that CUDA shows.", "Device", metavar="N"),
    ] = None,
    collector: Annotated[
        str,
        opt(
            "--collector",
            "On a GPU: nsys, cupti (in the process of the model), or auto, in that order.",
            "Device",
            autocompletion=completion.collectors,
        ),
    ] = "auto",
    cuda_graph: Annotated[
        bool | None,
        opt(
            "--cuda-graph/--no-cuda-graph --useCudaGraph/--noCudaGraph",
            "On a GPU: measure the latency with a CUDA graph, too; so it is unless switched off.",
            "Device",
            show_default=False,
        ),
    ] = None,
    cold_l2: Annotated[
        bool, opt("--cold-l2", "On a GPU: give every inference inputs that the L2 no longer holds.", "Device")
    ] = False,
    verify: Annotated[
        bool, opt("--verify", "On a GPU: hold the outputs against those of ONNX Runtime on the CPU.", "Device")
    ] = False,
    confirm: Annotated[
        int,
        opt(
            "--confirm",
            "On a GPU: count DRAM bytes, FLOP and tensor cores of the K worst kernels, with Nsight Compute (ncu).",
            "Device",
            metavar="K",
            min=0,
        ),
    ] = 0,
    measured: MeasuredOption = None,
    types: eng.Types,
    best: eng.BestOption = False,
    ranges: eng.Ranges,
    memory: eng.Memory,
    tactics: eng.Tactics,
    plugins: eng.Plugins,
    load_engine: eng.LoadEngineOption = "",
    trust: TrustOption = False,
    save_engine: eng.SaveEngineOption = "",
    rebuild: eng.RebuildOption = False,
    told: Told,
    layer_info: eng.LayerInfoOption = "",
    export: o.Export,
    output: Annotated[
        list[str] | None,
        opt(
            "--output -o",
            "The run folder (default reports/<model>-<stamp>), or a file for the report, as its suffix says; "
            "may be repeated.",
            "Result",
            metavar="FOLDER|FILE",
        ),
    ] = None,
    force: o.ForceOption = False,
    resume: Annotated[bool, opt("--resume", "Go on with the unfinished run in the -o folder.", "Result")] = False,
    format_name: FormatOption = "text",
    top: o.TopOption = None,
    by: ByOption = "layer",
    ledger: LedgerOption = False,
    tag: Annotated[
        list[str] | None, opt("--tag", "Call the run so; may be repeated.", "Result", metavar="NAME")
    ] = None,
    given_trial: Annotated[
        bool | None,
        opt(
            "--try/--no-try",
            "On the CPU: after the report, measure for at most 10 s what its findings name; default: on a terminal, "
            "without -o, --fail-on or CI.",
            "Result",
            show_default=False,
        ),
    ] = None,
    fail_on: o.FailOnOption = None,
    verbose: eng.VerboseOption = False,
    quiet: o.QuietOption = False,
) -> None:
    """Run a model: where its time is lost, and why."""
    progress = StageLines(quiet=quiet, verbose=verbose)
    with errors_shown(progress), progress:
        from trtprof.base import run_folder
        from trtprof.cli import fail_on as failing
        from trtprof.diagnose import config
        from trtprof.flows.options import GpuOptions, RunOptions
        from trtprof.flows.run import execute
        from trtprof.report._format import next_command
        from trtprof.runtime.session_tuning import SessionTuning

        refuse_binary(format_name)
        view = check_views(top=top, by=by, table=None, figure="roofline", ledger=ledger)
        run_folder.check_tags(tag or ())
        asked = failing.criteria(fail_on)
        trial = _on_a_terminal(format_name) and not (output or asked) if given_trial is None else given_trial
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
        options = RunOptions(
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
        )
        folder = execute(options, progress)
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
            if trial:
                found = _after(options, folder, found)
            if command := next_command(found):
                say(f"next: {command}")
        failing.check(found.findings, asked)


def _on_a_terminal(format_name: str) -> bool:
    return format_name == "text" and sys.stdout.isatty() and not os.environ.get("CI")


def _after(options: RunOptions, folder: RunFolder, found: Run) -> Run:
    """Try what the findings name, and say what came of it; the run with that, or as it was where the trial fails."""
    try:
        from trtprof.flows.after_run import told, try_after

        with StageLines() as progress:
            tried = try_after(options, folder, progress)
    except MissingError:  # `try` needs packages that `run` does not
        return found
    except Exception as error:
        if os.environ.get("TRTPROF_DEBUG"):
            raise
        why = as_error(error)
        say(f"the trial failed, the run is whole: {f'{why.what}: {why.why}' if why else repr(error)}")
        return found
    for line in told(tried.rungs) if tried is not None else ():
        say(line)
    return folder.report() if tried is not None else found


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
