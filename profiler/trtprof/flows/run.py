"""The stages in order: source -> engine -> capture -> align -> estimate -> diagnose -> report.

`execute` saves the artefacts of each stage; a run that was cut short goes on with the first one that is missing.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from trtprof import __version__
from trtprof.base import run_folder
from trtprof.base.errors import CaptureError, MissingError, UsageError
from trtprof.base.records import SCHEMA_VERSION, Backend, Source
from trtprof.base.run_folder import Request, RunFolder
from trtprof.base.scratch import scratch_folder
from trtprof.diagnose.config import KEPT, kept
from trtprof.flows.job import Job
from trtprof.flows.options import USUAL_S, RunOptions, changed_options, check_gpu_options, check_ranges, check_tuning
from trtprof.flows.progress import SILENT, Progress, tell_assumptions
from trtprof.flows.report import analysed, save_report
from trtprof.flows.resume import remove_unreadable
from trtprof.runtime.ort_session import SessionRequest
from trtprof.runtime.session_tuning import FLAG, SessionTuning
from trtprof.source.load import LoadedModel
from trtprof.source.request import ModelRequest

UNTUNED = SessionTuning()


class _Place(NamedTuple):
    folder: RunFolder
    target: Path  # Where the folder belongs when the run is done; differs under --force


def execute(options: RunOptions, progress: Progress = SILENT, reports: Path = Path("reports")) -> RunFolder:
    """Run a model through all stages and save everything in a run folder.

    Returns: the folder, with ``report.json`` in it.
    """
    from trtprof.source.inputs import parse_load_inputs

    backend = choose_backend(options.backend)
    check_ranges(options)
    check_gpu_options(options.gpu, backend.name)
    check_tuning(options.tuning, backend.name)
    files = parse_load_inputs(options.load_inputs)
    progress.stage("source")
    with options.model.opened(progress.detail) as loaded:
        progress.detail(f"{loaded.path.name}: {len(loaded.original_names)} nodes")
        asked, options = _at_profiles(options, loaded)
        source = asked.bound(loaded, files, options.seed, feed=True)
        return _execute(options, loaded, source, backend, progress, reports)


def _at_profiles(options: RunOptions, loaded: LoadedModel) -> tuple[ModelRequest, RunOptions]:
    """What the run is of where the engine is to serve a range of shapes: the optimal ones of the first profile."""
    build = options.gpu.build
    if not build.profiles:
        return options.model, options
    from trtprof.flows.build import best_shapes, in_full

    profiles = in_full(build.profiles, loaded)
    given = options.model.shapes or options.model.symbols or options.model.batch is not None
    model = options.model if given else options.model.at(best_shapes(profiles[0], loaded))
    gpu = msgspec.structs.replace(options.gpu, build=msgspec.structs.replace(build, profiles=profiles))
    return model, msgspec.structs.replace(options, gpu=gpu)


def _execute(
    options: RunOptions, loaded: LoadedModel, source: Source, backend: Backend, progress: Progress, reports: Path
) -> RunFolder:
    request = _request(options, source)
    with contextlib.ExitStack() as held:
        place = _open(options, source.model.name, request, reports, progress, held)
        return _in_folder(place, request, options, loaded, source, backend, progress)


def _in_folder(
    place: _Place,
    request: Request,
    options: RunOptions,
    loaded: LoadedModel,
    source: Source,
    backend: Backend,
    progress: Progress,
) -> RunFolder:
    folder = place.folder
    if place.target == folder.path:  # a replacement that fails is not kept
        progress.opened(folder.path)
    folder.write(run_folder.REQUEST, request)
    source = _with_work(source)
    folder.write(run_folder.SOURCE, source)
    tell_assumptions(source.model, progress)
    with scratch_folder() as scratch:
        session = session_of(loaded, scratch, options.threads, options.tuning)
        job = Job(folder, loaded, source, backend, options, scratch, session, progress)
        if backend.name == "ort-cpu":
            from trtprof.flows.run_cpu import run_on_cpu

            with _way_out(job):
                run_on_cpu(job)
        else:
            from trtprof.analysis.counters import flagged
            from trtprof.flows.run_gpu import count_kernels, run_on_gpu

            with _way_out(job):
                captured = run_on_gpu(job)
            if captured.to_count:
                progress.stage("counters")
                count_kernels(captured, *flagged(analysed(folder), options.gpu.confirm))
    progress.stage("analysis")
    run = analysed(folder)
    save_report(folder, run)
    progress.detail(run.verdict)
    return folder if place.target == folder.path else run_folder.replace(folder, place.target)


@contextlib.contextmanager
def _way_out(job: Job) -> Iterator[None]:
    """Where the model refuses its inputs, say with which shapes it runs."""
    try:
        yield
    except CaptureError as error:
        from trtprof.flows.other_shapes import with_way_out

        raise with_way_out(error, job) from None


def session_of(loaded: LoadedModel, scratch: Path, threads: int = 0, tuning: SessionTuning = UNTUNED) -> SessionRequest:
    """How ONNX Runtime is asked to run a model on the CPU: its file is in ``scratch`` where it had to be changed."""
    from trtprof.flows.build import named_file

    file, external = named_file(loaded, scratch)
    beside = str(external) if external is not None and file != loaded.path.resolve() else ""
    return SessionRequest(model=str(file), threads=threads, external_data=beside, tuning=tuning)


def _request(options: RunOptions, source: Source) -> Request:
    """What decides the result: options that only steer where and how it is written are left out."""
    fields = msgspec.structs.asdict(options)
    for name in ("output", "force", "resume", "model", "recalibrate", "gpu", "tuning", "command", KEPT):
        fields.pop(name)
    fields |= {"shapes": options.model.shapes_given, "batch": options.model.batch}
    if options.duration_s is None:
        fields.pop("duration_s")
    if options.model.symbols:
        fields["symbols"] = dict(sorted(options.model.symbols.items()))
    of_gpu = changed_options(options.gpu)
    for name in ("--rebuild", "--saveEngine"):
        of_gpu.pop(name, None)
    fields.update((name.lstrip("-"), value) for name, value in of_gpu.items())
    if options.tuning.texts:
        fields[FLAG.lstrip("-")] = ",".join(options.tuning.texts)
    how = msgspec.structs.asdict(options.model.export)
    fields.update((name, value) for name, value in how.items() if value and name != "shapes")
    if changed := kept(options.thresholds):
        fields[KEPT] = changed
    return Request(
        schema_version=SCHEMA_VERSION,
        created=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        version=__version__,
        model=source.model.path,
        sha256=source.model.sha256,
        options={name: str(value) for name, value in sorted(fields.items())},
        command=options.command,
    )


def _open(
    options: RunOptions, name: str, request: Request, reports: Path, progress: Progress, held: contextlib.ExitStack
) -> _Place:
    """The folder to work in, which nobody else does until ``held`` is closed."""
    if not options.output:
        if options.resume:
            raise UsageError("--resume needs the folder to go on with", fix="-o reports/<model>-<stamp> --resume")
        target = run_folder.default_folder(name, reports, dt.datetime.now())
        held.enter_context(run_folder.claimed(target))
        return _Place(RunFolder(target), target)
    target = Path(options.output)
    existing = RunFolder(target)
    if not run_folder.occupied(target):
        held.enter_context(run_folder.claimed(target))
        return _Place(existing, target)
    ours, done = existing.has(run_folder.REQUEST), existing.has(run_folder.REPORT)
    if not ours and not options.resume:
        raise UsageError(
            f"{target} will not be overwritten{', even with --force' if options.force else ''}",
            why="it is not empty and no run folder of trtprof",
            fix="choose another folder with -o",
        )
    held.enter_context(run_folder.claimed(target))
    if options.resume:
        _check_same(existing, request)
        remove_unreadable(existing, progress.detail)
        return _Place(existing, target)
    if not options.force:
        raise UsageError(
            f"{target} exists and will not be overwritten",
            why="it holds a finished run" if done else "it holds an unfinished run",
            fix="choose another folder with -o, or say --force" + ("" if done else " (or --resume to go on with it)"),
        )
    return _Place(held.enter_context(run_folder.replacing(target)), target)


def _check_same(folder: RunFolder, request: Request) -> None:
    before = folder.read(run_folder.REQUEST, Request)
    names = dict.fromkeys((*request.options, *before.options))
    # What runs without a duration wrote once.
    usual = {"duration_s": str(USUAL_S)}
    changed = [
        name
        for name in names
        if before.options.get(name, usual.get(name)) != request.options.get(name, usual.get(name))
    ]
    if before.sha256 != request.sha256:
        changed.insert(0, "model")
    if before.version != request.version:
        changed.append("trtprof version")
    if changed:
        raise UsageError(
            f"{folder.path} was begun with other settings",
            why="different: " + ", ".join(changed),
            fix="resume with the same model and options, or start anew in another folder",
        )


def _with_work(source: Source) -> Source:
    from trtprof.analysis.work import work_of_nodes

    works, _ = work_of_nodes(source.nodes)
    return msgspec.structs.replace(
        source, nodes=tuple(msgspec.structs.replace(node, work=works[node.name]) for node in source.nodes)
    )


def choose_backend(asked: str) -> Backend:
    """The backend that will run, and why it was chosen, in words."""
    from trtprof.engine.backends import backends

    found = {status.name: status for status in backends()}
    if asked == "auto":
        passed = ""
        for status in found.values():
            if not status.available:
                continue
            doubt = _doubt(status.name)
            if not doubt:
                why = f"the first of {', '.join(found)} that can run here (`trtprof doctor` says why){passed}"
                return Backend(name=status.name, reason=why)
            passed += f"; {status.name} is passed over: {doubt}"
        raise MissingError("no backend can run here", why="none of " + ", ".join(found), fix="`trtprof doctor`")
    if asked not in found:
        raise UsageError(f"there is no backend {asked!r}", why="known: auto, " + ", ".join(found), fix="--backend auto")
    if not found[asked].available:
        raise MissingError(f"backend {asked!r} cannot run here", why=found[asked].reason, fix=found[asked].fix)
    return Backend(name=asked, reason="asked for")


def _doubt(backend: str) -> str:
    """Why a backend that is installed is not taken without being asked for; empty where it may be."""
    if backend != "tensorrt-rtx":
        return ""
    from trtprof.engine.dialect import RTX_CAPABILITIES
    from trtprof.hardware import nvml

    live, _ = nvml.gpus()
    known = sorted({gpu.compute_capability for gpu in live if gpu.compute_capability})
    if not known or set(known) & set(RTX_CAPABILITIES):
        return ""
    return f"it is documented for compute capability {', '.join(RTX_CAPABILITIES)}, and here is {', '.join(known)}"
