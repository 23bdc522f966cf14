"""`trtprof try`: what would help, made, checked and measured against the original."""

from __future__ import annotations

import contextlib
import datetime as dt
import difflib
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import onnx

from trtprof import __version__
from trtprof.base import run_folder
from trtprof.base.errors import TrtprofError, UsageError
from trtprof.base.output_file import copy_file
from trtprof.base.records import SCHEMA_VERSION, BestRungs, Run, Source, Tried
from trtprof.base.run_folder import RunFolder
from trtprof.base.scratch import scratch_folder
from trtprof.flows.options import GPU_BACKENDS, RunOptions
from trtprof.flows.progress import SILENT, Progress
from trtprof.flows.report import analysed, save_report
from trtprof.flows.run import choose_backend, execute
from trtprof.flows.run_gpu import alone
from trtprof.flows.try_.on_cpu import OnCpu
from trtprof.flows.try_.on_cuda import OnCuda
from trtprof.flows.try_.on_tensorrt import OnTensorrt, with_timing_cache
from trtprof.flows.try_.options import TryOptions
from trtprof.flows.try_.search import Best, Search, names_on_cpu, refuse_unknown
from trtprof.flows.try_.target import Target
from trtprof.source.load import LoadedModel
from trtprof.source.request import ModelRequest

BEST_MODEL = "best.onnx"


def try_model(options: TryOptions, progress: Progress = SILENT, reports: Path = Path("reports")) -> Tried:
    """Try what would help a model, and say what does."""
    from trtprof.source.inputs import parse_load_inputs

    if options.gpu is not None:
        from trtprof.flows.try_.on_gpu import predicted_on

        return predicted_on(options, options.gpu, _now(), progress)
    began = time.monotonic()
    backend = choose_backend(options.run.backend)
    on_gpu = backend.name in GPU_BACKENDS
    if not on_gpu:
        refuse_unknown(names_on_cpu(options), options)
    with (
        options.run.model.opened(progress.detail) as loaded,
        scratch_folder() as scratch,
        contextlib.ExitStack() as stack,
    ):
        files = parse_load_inputs(options.run.load_inputs)
        source = options.run.model.bound(loaded, files, options.run.seed, feed=True)
        runs = _runs(options, source, reports)
        if on_gpu:
            stack.enter_context(alone(options.run.gpu.device))
        run = with_timing_cache(options.run, backend.name, runs)
        base_folder = execute(_run_options(run, runs / "base"), progress)
        base = base_folder.report()
        ran = time.monotonic() - began
        target = _target(backend.name, run, base_folder, loaded, scratch, progress)
        search = Search(options, base, target, source, scratch, progress)
        search.everything(began)
        best = None
        try:
            if search.best is not None:
                late = time.monotonic() + ran > began + options.budget_s
                best = _kept(search.best, options, target, runs, loaded.path, progress, late=late)
                if late:
                    search.notes.append("there was no time left for the run of the best: give a longer --budget")
        except KeyboardInterrupt:
            search.stopped("before the run of the best was done")
        except TrtprofError as error:
            search.notes.append(f"the run of the best failed: {error.what}: {error.why}")
        found = document_of(options, source, base, base_folder, search, best, time.monotonic() - began)
        if search.candidates:
            # From here on the report of the original says what was tried in place of what might be.
            base_folder.write(run_folder.TRIED, found)
            save_report(base_folder, analysed(base_folder))
        return found


def _target(
    backend: str, run: RunOptions, folder: RunFolder, loaded: LoadedModel, scratch: Path, progress: Progress
) -> Target:
    if backend == "ort-cpu":
        return OnCpu(run, folder, loaded, scratch)
    if backend == "ort-cuda":
        return OnCuda(run, folder, loaded, scratch)
    return OnTensorrt(run, folder, loaded, scratch, progress)


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")


def _runs(options: TryOptions, source: Source, reports: Path) -> Path:
    """The folder that receives the runs of the original and of the best."""
    given = options.run.output
    target = Path(given) if given else run_folder.default_folder(f"{source.model.name}-try", reports, dt.datetime.now())
    if run_folder.occupied(target) and not options.force:
        what = f"{target} exists and will not be overwritten"
        raise UsageError(what, why="it is not empty", fix="choose another folder, or --force")
    target.mkdir(parents=True, exist_ok=True)
    return target


def _run_options(options: RunOptions, folder: Path) -> RunOptions:
    return msgspec.structs.replace(options, output=str(folder), force=True, resume=False)


def _kept(
    best: Best, options: TryOptions, target: Target, runs: Path, original: Path, progress: Progress, *, late: bool
) -> BestRungs:
    """The best model in a file of its own, and a run of it unless it is late."""
    file = original
    if best.variant.steps:
        file = runs / BEST_MODEL
        _copied(Path(best.variant.session.model), file)
        if options.model:
            _copied(file, Path(options.model))
    given = options.run.model
    request = given if not best.variant.steps else ModelRequest.of(file, given.shapes_given, given.batch)
    shapes = [word for text in given.shapes_given for word in ("--shapes", text)]
    batch = ["--batch", str(given.batch)] if given.batch is not None else []
    inputs = [word for text in options.run.load_inputs for word in ("--loadInputs", text)]
    words = ["trtprof", "run", request.model, *shapes, *batch, *inputs, *target.flags(best.variant)]
    folder = ""
    if not late:
        progress.stage("best")
        run = _run_options(target.run_options(best.variant), runs / "best")
        folder = str(execute(msgspec.structs.replace(run, model=request, command=shlex.join(words)), progress).path)
    return BestRungs(
        rungs=best.names, gain=best.gain, options=best.options, folder=folder, command=shlex.join(words),
        model=options.model or (str(file) if best.variant.steps else ""),
        patch=tuple(patch_of(original, file)) if best.variant.steps else (),
    )  # fmt: skip


def patch_of(before: Path, after: Path) -> Iterator[str]:
    """What differs between two models: nodes that went and that came, a line each, in their order."""

    def told(path: Path) -> list[str]:
        graph = onnx.load(str(path), load_external_data=False).graph
        return [" ".join(onnx.printer.to_text(node).split()) for node in graph.node]

    for text in difflib.unified_diff(told(before), told(after), n=0, lineterm=""):
        if text[:1] in "-+" and text[:3] not in ("---", "+++"):
            yield f"{text[0]} {text[1:]}"


def _copied(file: Path, to: Path) -> None:
    """Copy a model, and the weights beside it under the name that it knows them by."""
    beside = file.with_name(f"{file.name}.data")
    if beside.exists():
        copy_file(beside, to.with_name(beside.name))
    copy_file(file, to)


def document_of(
    options: TryOptions, source: Source, base: Run, folder: RunFolder, search: Search, best: BestRungs | None,
    spent: float,
) -> Tried:  # fmt: skip
    """What a search found of a run in a folder."""
    from trtprof.diagnose.rank import withheld

    return Tried(
        schema_version=SCHEMA_VERSION, model=source.model, backend=base.backend, device=base.device, created=_now(),
        version=__version__, command=options.run.command, threads=search.threads, latency=base.latency,
        folder=str(folder.path), verdict=search.verdict(), rungs=search.rungs(), best=best,
        doubts=tuple(finding.brief or finding.title for finding in withheld(base.findings)),
        candidates=search.candidates, budget_s=options.budget_s, spent_s=round(spent, 1),
        unfit=tuple(sorted(search.unfit)), notes=tuple(search.notes), interrupted=search.interrupted,
    )  # fmt: skip
