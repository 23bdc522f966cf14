"""The stages in order: source -> engine -> capture -> align -> predict -> diagnose -> report.

`execute` runs the stages that need the model and the device and saves their artefacts, then hands
the folder to `profiler.analysis.cpu`. A run that was cut short goes on with the first artefact that is
missing.
"""

from __future__ import annotations

import datetime as dt
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from profiler import __version__
from profiler.base import run_folder
from profiler.base.errors import MissingError, TrtprofError, UsageError
from profiler.base.records import (
    SCHEMA_VERSION,
    Backend,
    Comparisons,
    Device,
    Engine,
    GpuSpec,
    Inspection,
    Prediction,
    Run,
    Source,
    Sweep,
    Tensor,
)
from profiler.base.run_folder import Request, RunFolder
from profiler.base.units import format_ns
from profiler.diagnose import THRESHOLDS, Case, Thresholds
from profiler.diagnose.config import KEPT, kept
from profiler.flows.gpu_options import GpuOptions, changed_options, check_gpu_options
from profiler.runtime.gc_paused import gc_paused
from profiler.runtime.ort_session import SessionRequest
from profiler.source.spec import ExportOptions, parse_spec

if TYPE_CHECKING:
    from profiler.analysis.plan import PricedPlan
    from profiler.engine.tensorrt import BuildOptions
    from profiler.flows.build import EngineBuild
    from profiler.flows.predict.groups import Settings
    from profiler.source.load import LoadedModel


class Progress(Protocol):
    """Told which stage runs and what it is doing."""

    def stage(self, name: str) -> None:
        """A stage begins; the one before is done."""

    def detail(self, text: str) -> None:
        """One line about the running stage."""

    def opened(self, folder: Path) -> None:
        """The run folder is there; what the stages finish is kept in it."""


class Silent:
    """A `Progress` that says nothing."""

    def opened(self, folder: Path) -> None:
        """Nothing."""

    def stage(self, name: str) -> None:
        """Nothing."""

    def detail(self, text: str) -> None:
        """Nothing."""


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a run can be asked. ``warmup_ms`` and ``duration_s`` have trtexec's units.

    ``export`` says how a spec in place of a file is exported; its shapes are those of ``shapes``. ``gpu`` is for
    backends that run on one. ``thresholds`` are what the result is judged by, from now on.
    """

    model: str
    shapes: tuple[str, ...] = ()
    batch: int | None = None
    load_inputs: tuple[str, ...] = ()
    seed: int = 0
    backend: str = "auto"
    threads: int = 0
    iterations: int = 10
    warmup_ms: float = 200.0
    duration_s: float = 3.0
    profile_iterations: int = 30
    recalibrate: bool = False
    gpu: GpuOptions = GpuOptions()
    export: ExportOptions = ExportOptions()
    thresholds: Thresholds = THRESHOLDS
    output: str = ""
    force: bool = False
    resume: bool = False


class _Job(NamedTuple):
    folder: RunFolder
    target: Path
    """Where the folder belongs when the run is done; differs under --force."""


def execute(options: RunOptions, progress: Progress | None = None, reports: Path = Path("reports")) -> RunFolder:
    """Run a model through all stages and save everything in a run folder.

    Args:
        options: What to do.
        progress: Told about each stage.
        reports: Parent of the default run folder.

    Returns:
        The folder, with ``report.json`` in it.

    Raises:
        TrtprofError: A stage failed; artefacts of the stages before it are kept.
    """
    from profiler.source.inputs import parse_load_inputs
    from profiler.source.load import source_of
    from profiler.source.shapes import parse_shapes

    say = progress or Silent()
    backend = choose_backend(options.backend)
    check_ranges(options)
    check_gpu_options(options.gpu, backend.name)
    shapes, files = parse_shapes(options.shapes), parse_load_inputs(options.load_inputs)
    say.stage("source")
    how = msgspec.structs.replace(options.export, shapes=shapes)
    with opened_model(options.model, how, say) as loaded:
        say.detail(f"{loaded.path.name}: {len(loaded.original_names)} nodes")
        source = _as_asked(source_of(loaded, shapes, options.batch, files, options.seed), options.model)
        return _execute(options, loaded, source, backend, say, reports)


def _execute(
    options: RunOptions, loaded: LoadedModel, source: Source, backend: Backend, say: Progress, reports: Path
) -> RunFolder:
    request = _request(options, source)
    job = _open(options, source.model.name, request, reports)
    folder = job.folder
    say.opened(folder.path)
    folder.write(run_folder.REQUEST, request)
    source = _with_work(source)
    folder.write(run_folder.SOURCE, source)
    for note in source.model.assumptions:
        say.detail(note)
    with tempfile.TemporaryDirectory(prefix="trtprof-") as scratch_name:
        scratch = Path(scratch_name)
        if backend.name == "ort-cpu":
            _on_cpu(folder, loaded, source, backend, options, scratch, say)
        else:
            _on_gpu(folder, loaded, source, backend, options, scratch, say)
    say.stage("analysis")
    run = analysed(folder)
    if not folder.has(run_folder.GPU) and _beaten(run):
        run = _recalibrated(folder, run, say)
    save_report(folder, run)
    say.detail(run.verdict)
    if job.target != folder.path:
        folder = run_folder.replace(folder, job.target)
    return folder


_BEATEN = 0.25
"""Share of the time of all layers that must be faster than kept ceilings allow for these to be measured again."""


def _beaten(run: Run) -> bool:
    """Whether ceilings from the cache are disproved by the run: they were measured while the machine was busy.

    Ceilings of this very run are not: what is faster than those is for a person to look at (TR901).
    """
    doubted = {name for finding in run.findings if finding.code == "TR901" for name in (finding.where, *finding.layers)}
    faster = sum(layer.measured_ns for layer in run.layers if layer.name in doubted)
    return run.ceilings.cached and faster > _BEATEN * sum(layer.measured_ns for layer in run.layers)


def _recalibrated(folder: RunFolder, run: Run, say: Progress) -> Run:
    """The same run under ceilings measured now; what is kept for later runs is replaced."""
    from profiler.hardware.store import load_or_calibrate

    say.detail("layers were faster than the kept ceilings allow: these are measured again")
    say.stage("ceilings")
    device = folder.read(run_folder.DEVICE, Device)
    measured = load_or_calibrate(run.ceilings.threads, recalibrate=True, progress=say.detail, device=device)
    folder.write(run_folder.CEILINGS, measured)
    say.stage("analysis")
    return analysed(folder)


def analysed(folder: RunFolder, seen: Callable[[Case], None] | None = None) -> Run:
    """The result of a run from its saved artefacts alone: no model, no engine, no device.

    Args:
        folder: Of the run.
        seen: Given the case that the rules look at.

    Raises:
        MissingError: An artefact is missing because the run did not get that far.
        CaptureError: Kernels could not be aligned.
    """
    if folder.has(run_folder.GPU):
        from profiler.analysis.gpu import analyse_gpu

        return analyse_gpu(folder, seen)
    from profiler.analysis.cpu import analyse

    return analyse(folder, seen)


def case_of(folder: RunFolder) -> Case:
    """What the rules look at, of a finished run; see `analysed`."""
    cases: list[Case] = []
    analysed(folder, cases.append)
    return cases[0]


def _on_cpu(
    folder: RunFolder,
    loaded: LoadedModel,
    source: Source,
    backend: Backend,
    options: RunOptions,
    scratch: Path,
    say: Progress,
) -> None:
    """The stages up to the capture, with ONNX Runtime on the CPU."""
    device, threads = _device(folder, options)
    session = _session_request(loaded, scratch, threads)
    engine = _build(folder, session, scratch, backend.reason, say)
    _ceilings(folder, device, threads, options, say)
    _capture(folder, engine, source, session, scratch, options, say)
    _as_profiled(folder, engine)


def _on_gpu(
    folder: RunFolder,
    loaded: LoadedModel,
    source: Source,
    backend: Backend,
    options: RunOptions,
    scratch: Path,
    say: Progress,
) -> None:
    """The same on a GPU."""
    from profiler.flows.run_gpu import Job, Measure, run_on_gpu

    measure = Measure(
        seed=options.seed,
        iterations=options.iterations,
        warmup_ms=options.warmup_ms,
        duration_s=options.duration_s,
        profile_iterations=options.profile_iterations,
        recalibrate=options.recalibrate,
    )
    session = _session_request(loaded, scratch, options.threads)
    run_on_gpu(Job(folder, loaded, source, backend, options.gpu, measure, scratch, session, say))


@contextmanager
def opened_model(model: str, how: ExportOptions, say: Progress) -> Iterator[LoadedModel]:
    """A model read from its file, or exported from a spec to a file that lasts as long as the context.

    Raises:
        TrtprofError: The file is not usable (`source.load`), or the export fails (`source.export`).
    """
    from profiler.source.load import load_model

    spec = parse_spec(model)
    if spec is None:
        for flag, given in (
            ("--dtypes", how.dtypes),
            ("--dynamic", how.dynamic),
            ("--factory-arg", how.factory_args),
        ):
            if given:
                raise UsageError(
                    f"{flag} is not for {model}",
                    why="it says how a PyTorch module is exported, and this is a file",
                    fix=f"leave {flag} away, or name package.module:factory",
                )
        yield load_model(model)
        return
    from profiler.source.export import export_model

    with tempfile.TemporaryDirectory(prefix="trtprof-") as folder:
        exported = export_model(spec, how, Path(folder) / f"{spec.name}.onnx", say.detail)
        loaded = load_model(exported.path)
        loaded.assumptions += exported.assumptions
        yield loaded


def _as_asked(source: Source, model: str) -> Source:
    """The path of an exported model is its spec, which can be given again; its file is gone after the run."""
    if parse_spec(model) is None:
        return source
    return msgspec.structs.replace(source, model=msgspec.structs.replace(source.model, path=model))


class ExportResult(NamedTuple):
    """An ONNX model as exported; ``parameters`` and ``parameter_bytes`` count as `records.ModelInfo` does."""

    path: Path
    data: Path | None
    inputs: list[Tensor]
    outputs: list[Tensor]
    shapes: dict[str, tuple[int, ...]]
    parameters: int
    parameter_bytes: int
    assumptions: list[str]


def export(
    model: str, how: ExportOptions, output: str = "", *, force: bool = False, progress: Progress | None = None
) -> ExportResult:
    """Export the PyTorch module that a spec names, check the result, and move it into place.

    Args:
        model: ``package.module:factory``.
        how: How to export it.
        output: The file; ``<factory>.onnx`` in the current folder by default.
        force: Replace what is there.
        progress: Told what is being done.

    Raises:
        TrtprofError: See `source.export`; nothing is left under the name of the file then.
    """
    from profiler.base import onnx_graph
    from profiler.source.export import export_model, staged
    from profiler.source.load import graph_inputs, load_model

    spec = parse_spec(model)
    if spec is None:
        raise UsageError(
            f"{model} names no PyTorch module",
            why="it is a file" if Path(model).exists() else "it is not of the form package.module:factory",
            fix="trtprof export package.module:factory, or path/to/file.py:factory",
        )
    say = progress or Silent()
    target = Path(output or f"{spec.name}.onnx")
    say.stage("export")
    with staged(target, force=force) as path:
        exported = export_model(spec, how, path, say.detail)
        say.detail("checking")
        proto = load_model(path).proto
    stored = map(onnx_graph.tensor_from_initializer, proto.graph.initializer)
    weights = [tensor for tensor in stored if tensor.value is None]
    say.detail(f"{target.name}: {len(proto.graph.node)} nodes")
    return ExportResult(
        path=target,
        data=target.with_name(exported.data.name) if exported.data else None,
        inputs=graph_inputs(proto),
        outputs=[onnx_graph.tensor_from_value_info(info) for info in proto.graph.output],
        shapes=exported.shapes,
        parameters=sum(tensor.elements or 0 for tensor in weights),
        parameter_bytes=sum(tensor.nbytes or 0 for tensor in weights),
        assumptions=exported.assumptions,
    )


def build(
    model: str,
    options: BuildOptions,
    shapes: Iterable[str] = (),
    batch: int | None = None,
    how: ExportOptions | None = None,
    progress: Progress | None = None,
    *,
    rebuild: bool = False,
) -> EngineBuild:
    """Build an engine of a model, and lead its layers back to ONNX nodes.

    Args:
        model: An ONNX file, or a spec.
        options: How to build; every dynamic input gets a shape from ``shapes`` and ``batch``, or from the
            profiles in here.
        shapes: ``--shapes`` values.
        batch: Value of ``--batch``.
        how: How a spec is exported; its shapes are those of ``shapes``.
        progress: Told what is being done.
        rebuild: Build even if an engine is kept.

    Raises:
        TrtprofError: The model or the shapes are not usable, the library is missing, or it refuses the model;
            see `engine.tensorrt.build`.
    """
    from profiler.flows.build import bound, engine_of
    from profiler.source.shapes import parse_shapes

    say = progress or Silent()
    given = parse_shapes(shapes)
    how = msgspec.structs.replace(how or ExportOptions(), shapes=given)
    say.stage("source")
    with opened_model(model, how, say) as loaded, gc_paused():
        say.detail(f"{loaded.path.name}: {len(loaded.original_names)} nodes")
        source, options = bound(loaded, options, given, batch)
        say.stage("engine")
        found = engine_of(loaded, _as_asked(source, model), options, say.detail, rebuild=rebuild)
        say.detail(_built(found))
        return found


def build_command(
    model: str, options: BuildOptions, shapes: Iterable[str] = (), batch: int | None = None, engine: str = ""
) -> str:
    """The command lines of TensorRT's own tool that do what `build` does; nothing is built.

    Args:
        model: An ONNX file.
        options: See `build`.
        shapes: See `build`.
        batch: See `build`.
        engine: Where the tool is to save the engine; by default beside nothing, under the name of the model.

    Raises:
        UsageError: A spec is named, which has no file; the shapes or options are not usable.
        TrtprofError: The model is not usable; see `source.load`.
    """
    from profiler.flows.build import bound, command_of
    from profiler.source.load import load_model
    from profiler.source.shapes import parse_shapes

    if parse_spec(model) is not None:
        raise UsageError(
            f"{model} is no ONNX file", why="TensorRT's own tool takes no other", fix=f"trtprof export {model}, first"
        )
    loaded = load_model(model)
    _, options = bound(loaded, options, parse_shapes(shapes), batch)
    return command_of(loaded, options, engine or f"{loaded.path.stem}.engine")


def load_engine(
    engine: Path,
    backend: str,
    model: str = "",
    shapes: Iterable[str] = (),
    batch: int | None = None,
    how: ExportOptions | None = None,
    progress: Progress | None = None,
    *,
    static_plugins: tuple[str, ...] = (),
) -> EngineBuild:
    """The layers of an engine made elsewhere, led back to the model where one is given.

    Raises:
        MissingError: There is no driver to load the engine with, or no library.
        TrtprofError: See `engine.tensorrt.load_engine`, and `build` for the model.
    """
    from profiler.flows.build import engine_from
    from profiler.source.load import source_of
    from profiler.source.shapes import parse_shapes

    say = progress or Silent()
    source = None
    if model:
        given = parse_shapes(shapes)
        how = msgspec.structs.replace(how or ExportOptions(), shapes=given)
        say.stage("source")
        with opened_model(model, how, say) as loaded:
            source = _as_asked(source_of(loaded, given, batch, feed=False), model)
    say.stage("engine")
    found = engine_from(engine, backend, source, say.detail, static_plugins=static_plugins)
    say.detail(_built(found))
    return found


def _built(found: EngineBuild) -> str:
    """What came of a build, in a line."""
    facts, launches = found.priced.document.facts, found.priced.document.summary.launches
    layers = f"{launches} layer{'s' * (launches != 1)}"
    if facts.cached:
        layers += ", kept from an earlier build"
    elif facts.build_ns:
        layers += f" in {format_ns(facts.build_ns)}"
    return f"{facts.backend} {facts.versions.get(facts.backend, '')}".strip() + f": {layers}"


def inspect(
    model: str,
    shapes: Iterable[str] = (),
    batch: int | None = None,
    how: ExportOptions | None = None,
    progress: Progress | None = None,
    *,
    engine: bool = False,
) -> Inspection:
    """Look at a model alone: its ops, shapes, parameters and work; nothing is run.

    ``how`` says how a spec in place of a file is exported; its shapes are those of ``shapes``. With ``engine``
    the plan of TensorRT-RTX is there too, where that is installed; a model that it refuses has a note instead.

    Raises:
        TrtprofError: The model or the shapes are not usable; see `source.load`.
    """
    from profiler.analysis.work import inspection_of
    from profiler.source.load import source_of
    from profiler.source.shapes import parse_shapes

    given = parse_shapes(shapes)
    how = msgspec.structs.replace(how or ExportOptions(), shapes=given)
    with opened_model(model, how, Silent()) as loaded, gc_paused():
        source = _as_asked(source_of(loaded, given, batch, feed=False), model)
        found = inspection_of(source)
        return _with_plan(found, loaded, source, progress or Silent()) if engine else found


def _with_plan(found: Inspection, loaded: LoadedModel, source: Source, say: Progress) -> Inspection:
    from profiler.flows.build import in_one_line, why_no_engine

    if why_no_engine():
        return found
    try:
        plan = _plan_at(loaded, source, "model", say).document
    except TrtprofError as error:
        say.detail("none was built")
        return msgspec.structs.replace(found, notes=(*found.notes, f"no engine was built: {in_one_line(error)}"))
    return msgspec.structs.replace(found, plan=plan)


def _plan_at(loaded: LoadedModel, source: Source, precision: str, say: Progress) -> PricedPlan:
    """The plan of the engine that TensorRT-RTX builds at a precision of a prediction.

    Raises:
        UsageError: It computes at another one, because the file does.
        TrtprofError: See `engine.tensorrt.build`.
    """
    from profiler.flows.build import engine_at
    from profiler.flows.predict.layers import computes_otherwise

    say.stage("engine")
    found = engine_at(loaded, source, precision, say.detail)
    otherwise = computes_otherwise(found.priced, precision)
    if otherwise:
        raise UsageError(
            f"the engine does not tell what {source.model.name} takes at {precision}",
            why=otherwise,
            fix="--level groups, or leave --dtype away",
        )
    say.detail(_built(found))
    return found.priced


def predict(
    model: str,
    gpus: Sequence[GpuSpec],
    settings: Settings,
    shapes: Iterable[str] = (),
    batch: int | None = None,
    how: ExportOptions | None = None,
    progress: Progress | None = None,
) -> Prediction:
    """Predict what a model takes on GPUs that need not be at hand; see `inspect`.

    The level ``layers`` builds an engine with TensorRT-RTX; ``auto`` does where that is installed and takes the
    model, and else says in the assumptions why it took groups.

    Raises:
        UsageError: The settings are not possible; see `prediction.predict_source`.
        TrtprofError: The model or the shapes are not usable; see `source.load`. At the level ``layers``, no
            engine can be built; see `engine.tensorrt.build`.
    """
    from profiler.flows.predict import on_gpus
    from profiler.source.load import source_of
    from profiler.source.shapes import parse_shapes

    on_gpus.check(settings)
    given = parse_shapes(shapes)
    how = msgspec.structs.replace(how or ExportOptions(), shapes=given)
    with opened_model(model, how, Silent()) as loaded, gc_paused():
        source = _as_asked(source_of(loaded, given, batch, feed=False), model)
        return _predicted(loaded, source, gpus, settings, progress or Silent())


def _predicted(
    loaded: LoadedModel, source: Source, gpus: Sequence[GpuSpec], settings: Settings, say: Progress
) -> Prediction:
    from profiler.flows.build import in_one_line, why_no_engine
    from profiler.flows.predict.groups import predict_source
    from profiler.flows.predict.layers import predict_plan

    if settings.level not in ("auto", "layers"):
        return predict_source(source, gpus, settings)
    why = why_no_engine() if settings.level == "auto" else ""
    if not why:
        try:
            priced = _plan_at(loaded, source, settings.precision, say)
        except TrtprofError as error:
            if settings.level == "layers":
                raise
            why = in_one_line(error)
            say.detail("none was built: groups are estimated instead")
        else:
            return predict_plan(priced, source, gpus, settings)
    found = predict_source(source, gpus, msgspec.structs.replace(settings, level="groups"))
    return msgspec.structs.replace(found, assumptions=(*found.assumptions, f"--level auto took groups: {why}"))


def sweep(
    model: str,
    sweeps: Iterable[str],
    shapes: Iterable[str] = (),
    batch: int | None = None,
    how: ExportOptions | None = None,
) -> Sweep:
    """Look at a model alone over a sweep of its dynamic dimensions; see `inspect`.

    Args:
        model: The model.
        sweeps: ``--sweep`` values, such as ``batch=1..64:x2``.
        shapes: ``--shapes`` values; the sweep replaces the swept dimensions in them.
        batch: Value of ``--batch``.
        how: See `inspect`.

    Raises:
        TrtprofError: The model, the shapes or the sweep are not usable; see `source.shapes`.
    """
    from profiler.flows.model_sweep import sweep_of
    from profiler.source.shapes import parse_shapes
    from profiler.source.sweeps import parse_sweeps
    from profiler.source.symbolic import sweep_source

    axes, given = parse_sweeps(sweeps), parse_shapes(shapes)
    how = msgspec.structs.replace(how or ExportOptions(), shapes=given)
    with opened_model(model, how, Silent()) as loaded, gc_paused():
        found = sweep_of(sweep_source(loaded, axes, given, batch))
    if parse_spec(model) is None:
        return found
    return msgspec.structs.replace(found, model=msgspec.structs.replace(found.model, path=model))


def compare(sides: Sequence[Sequence[Path]], gates: Sequence[str] = ()) -> Comparisons:
    """Set finished runs side by side: each side but the first against the first.

    Args:
        sides: The run folders of each side, one or several of the same thing.
        gates: ``--gate`` values, such as ``latency>3%``; see `profiler.compare.gates`.

    Raises:
        UsageError: A gate is none, or runs cannot be compared.
        MissingError: A run did not finish, or its samples are not there.
    """
    from profiler.compare import compare as compare_runs
    from profiler.compare import gates as gating

    asked = gating.parse(gates)
    return gating.judged(compare_runs([[RunFolder(path) for path in side] for side in sides]), asked)


def choose_backend(asked: str) -> Backend:
    """The backend that will run, and why it was chosen, in words.

    Raises:
        MissingError: The backend asked for, or any at all, cannot run here.
        UsageError: There is no such backend.
    """
    from profiler.engine.backends import backends

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
    from profiler.engine.dialect import RTX_CAPABILITIES
    from profiler.hardware import nvml

    live, _ = nvml.gpus()
    known = sorted({gpu.compute_capability for gpu in live if gpu.compute_capability})
    if not known or set(known) & set(RTX_CAPABILITIES):
        return ""
    return f"it is documented for compute capability {', '.join(RTX_CAPABILITIES)}, and here is {', '.join(known)}"


def check_ranges(options: RunOptions) -> None:
    """Refuse numbers that cannot be measured with.

    Raises:
        UsageError: A count or a time is out of range.
    """
    for flag, value, least in (
        ("--iterations", options.iterations, 1),
        ("--profile-iterations", options.profile_iterations, 1),
        ("--warmUp", options.warmup_ms, 0),
        ("--duration", options.duration_s, 0),
        ("--threads", options.threads, 0),
        ("--seed", options.seed, 0),
    ):
        if value < least:
            raise UsageError(
                f"{flag} {value} is not possible", why=f"it must be at least {least}", fix=f"{flag} {least}"
            )


def _request(options: RunOptions, source: Source) -> Request:
    """What decides the result: options that only steer where and how it is written are left out."""
    fields = msgspec.structs.asdict(options)
    for name in ("output", "force", "resume", "model", "recalibrate", "export", "gpu", KEPT):
        fields.pop(name)
    of_gpu = changed_options(options.gpu)
    of_gpu.pop("--rebuild", None)
    fields.update((name.lstrip("-"), value) for name, value in of_gpu.items())
    fields.update((name, value) for name, value in msgspec.structs.asdict(options.export).items() if value)
    if changed := kept(options.thresholds):
        fields[KEPT] = changed
    return Request(
        schema_version=SCHEMA_VERSION,
        created=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        version=__version__,
        model=source.model.path,
        sha256=source.model.sha256,
        options={name: str(value) for name, value in sorted(fields.items())},
    )


def _open(options: RunOptions, name: str, request: Request, reports: Path) -> _Job:
    if not options.output:
        if options.resume:
            raise UsageError("--resume needs the folder to go on with", fix="-o reports/<model>-<stamp> --resume")
        target = run_folder.default_folder(name, reports, dt.datetime.now())
        return _Job(run_folder.create(target), target)
    target = Path(options.output)
    existing = RunFolder(target)
    if not run_folder.occupied(target):
        return _Job(run_folder.create(target), target)
    ours, done = existing.has(run_folder.REQUEST), existing.has(run_folder.REPORT)
    if options.resume:
        return _Job(_resumed(existing, request), target)
    if not ours:
        raise UsageError(
            f"{target} will not be overwritten{', even with --force' if options.force else ''}",
            why="it is not empty and no run folder of trtprof",
            fix="choose another folder with -o",
        )
    if not options.force:
        raise UsageError(
            f"{target} exists and will not be overwritten",
            why="it holds a finished run" if done else "it holds an unfinished run",
            fix="choose another folder with -o, or say --force" + ("" if done else " (or --resume to go on with it)"),
        )
    # The old run stays until the new one is done; what an earlier, killed replacement left is void.
    beside = target.with_name(f".{target.name}.new")
    shutil.rmtree(beside, ignore_errors=True)
    return _Job(run_folder.create(beside), target)


def _resumed(folder: RunFolder, request: Request) -> RunFolder:
    before = folder.read(run_folder.REQUEST, Request)
    changed = [name for name, value in request.options.items() if before.options.get(name) != value]
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
    return run_folder.create(folder.path)


def _device(folder: RunFolder, options: RunOptions) -> tuple[Device, int]:
    from profiler.hardware.calibrate import resolve_threads
    from profiler.hardware.device import host_cpu

    device = host_cpu()
    threads = resolve_threads(options.threads, device)
    folder.write(run_folder.DEVICE, device)
    return device, threads


def _session_request(loaded: LoadedModel, scratch: Path, threads: int) -> SessionRequest:
    from profiler.flows.build import named_file

    file, external = named_file(loaded, scratch)
    beside = str(external) if external is not None and file != loaded.path.resolve() else ""
    return SessionRequest(model=str(file), threads=threads, external_data=beside)


def _build(folder: RunFolder, session: SessionRequest, scratch: Path, reason: str, say: Progress) -> Engine:
    from profiler.engine.onnxruntime import build_ort_cpu

    say.stage("engine")
    if folder.has(run_folder.ENGINE):
        say.detail("kept from before")
        return folder.read(run_folder.ENGINE, Engine)
    engine = build_ort_cpu(session, folder.path, scratch, reason)
    folder.write(run_folder.ENGINE, engine)
    say.detail(f"{engine.backend.name}: {len(engine.layers)} layers in {format_ns(engine.build_ns)}")
    return engine


def _ceilings(folder: RunFolder, device: Device, threads: int, options: RunOptions, say: Progress) -> None:
    from profiler.hardware.store import load_or_calibrate

    say.stage("ceilings")
    if folder.has(run_folder.CEILINGS) and not options.recalibrate:
        say.detail("kept from before")
        return
    ceilings = load_or_calibrate(threads, recalibrate=options.recalibrate, progress=say.detail, device=device)
    folder.write(run_folder.CEILINGS, ceilings)


def _capture(
    folder: RunFolder,
    engine: Engine,
    source: Source,
    session: SessionRequest,
    scratch: Path,
    options: RunOptions,
    say: Progress,
) -> None:
    from profiler.capture.launch import run_worker
    from profiler.capture.workers.ort_cpu import WorkerRequest
    from profiler.engine.onnxruntime import ENGINE_GRAPH

    say.stage("capture")
    if folder.has(run_folder.CAPTURE):
        say.detail("kept from before")
        return
    request = WorkerRequest(
        session=session,
        folder=str(folder.path.resolve()),
        scratch=str(scratch),
        inputs=source.model.inputs,
        graph_file=ENGINE_GRAPH,
        layers=len(engine.layers),
        seed=options.seed,
        iterations=options.iterations,
        warmup_ms=options.warmup_ms,
        duration_s=options.duration_s,
        profile_iterations=options.profile_iterations,
    )
    run_worker(request, say.detail)


def _with_work(source: Source) -> Source:
    from profiler.analysis.work import work_of_nodes

    works, _ = work_of_nodes(source.nodes)
    return msgspec.structs.replace(
        source, nodes=tuple(msgspec.structs.replace(node, work=works[node.name]) for node in source.nodes)
    )


def _as_profiled(folder: RunFolder, engine: Engine) -> None:
    """Take the layers from the session that was profiled: its names are those of the profile."""
    from profiler.engine.onnxruntime import ENGINE_GRAPH, layers_from_file

    folder.write(run_folder.ENGINE, msgspec.structs.replace(engine, layers=layers_from_file(folder.file(ENGINE_GRAPH))))


def save_report(folder: RunFolder, run: Run) -> None:
    """Write the document and the page of a finished run into its folder; its tags are kept beside them."""
    run = msgspec.structs.replace(run, tags=())
    folder.write_bytes(run_folder.REPORT, render(run, "json").encode())
    folder.write_bytes("report.html", render(run, "html").encode())


def render(run: Run, format_name: str, **options: object) -> str:
    """A run in one of the report formats; see `profiler.report`."""
    from profiler import report

    return report.get(format_name).render(run, report.ReportOptions(**options))  # type: ignore[arg-type]


def encode(run: Run, format_name: str, **options: object) -> bytes:
    """The same as bytes, for formats that are no text as well."""
    from profiler import report

    return report.get(format_name).encode(run, report.ReportOptions(**options))  # type: ignore[arg-type]
