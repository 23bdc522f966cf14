"""`trtprof plugin`: from a layer to a custom kernel, its plugin, the model with it, and checks without a GPU."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from trtprof import __version__
from trtprof.base import made_here, run_folder
from trtprof.base.errors import MissingError, TrtprofError, UsageError
from trtprof.base.records import SCHEMA_VERSION, CheckStep, Plugin, Source
from trtprof.base.scratch import scratch_folder
from trtprof.capture.same_outputs import check_variant, keep_original
from trtprof.capture.turns import Variant
from trtprof.engine import tensorrt
from trtprof.flows.build import static_shapes
from trtprof.flows.plugin.brief import Subject, brief_of, nodes_of, subject_of
from trtprof.flows.progress import SILENT, Progress
from trtprof.flows.report import engine_settings
from trtprof.flows.run import session_of
from trtprof.hardware.store import default_cache_dir
from trtprof.plugin import folder as folders
from trtprof.plugin.check import check
from trtprof.plugin.compile import compile_kernel
from trtprof.plugin.form import Form
from trtprof.plugin.insert import insert
from trtprof.plugin.kernels import form_of
from trtprof.plugin.model import Model, opened
from trtprof.plugin.select import Choice, alike, choices, chosen
from trtprof.plugin.task import Task
from trtprof.plugin.trust import code_files
from trtprof.plugin.write import write
from trtprof.report import render
from trtprof.runtime.ort_session import SessionRequest
from trtprof.source.load import LoadedModel
from trtprof.source.request import ModelRequest
from trtprof.source.shapes import written

Step = Literal["brief", "write", "insert", "check"]
STEPS: tuple[Step, ...] = get_args(Step)
README, MODEL = "README.md", "model.onnx"


class PluginOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of `trtprof plugin`."""

    what: str = ""  # A run folder, a document of a run, an analysis or a prediction, or a model
    layer: str = ""  # A layer of it or a node; see `find_layer`
    request: ModelRequest | None = None  # How the model is opened, where ``what`` is one
    gpu: str = ""  # To predict for; "" = that of the run, or the one that is here
    folder: str = ""  # Where files go; "" = nothing is written
    steps: tuple[Step, ...] = STEPS
    places: tuple[str, ...] = ()  # Nodes where the plugin goes; empty = wherever the same is computed
    function: bool = True  # Whether the custom node keeps the original nodes as its function
    alone: bool = False  # Whether the kernel leaves pointwise neighbors out
    ptx: bool = False  # Whether PTX is written for builders without Triton
    cpp: bool = False  # Whether a plugin in C++ is written, too
    seconds: float = 20.0  # That kernels are interpreted at most
    force: bool = False  # Whether existing files are replaced


def make(options: PluginOptions, progress: Progress = SILENT) -> Plugin:
    """Brief a layer; write, insert and check a kernel for it, as far as that is requested."""
    if options.steps == ("check",):
        path = Path(options.folder or options.what)
        held = folders.load(path)
        document = Plugin(schema_version=SCHEMA_VERSION, model=held.model, name=held.name, form=held.entry)
        return _check(msgspec.structs.replace(document, folder=str(path)), path, options, progress)
    target = _target(options)
    progress.stage("brief")
    subject = subject_of(options.what, options.layer, options.gpu, options.request, progress.note)
    with contextlib.ExitStack() as stack:
        form, task = None, None
        try:
            loaded = stack.enter_context(subject.request.opened(progress.detail))
            known = subject.source.model.sha256 if subject.source is not None else ""
            if known not in ("", loaded.sha256) and subject.request.spec is None:
                raise UsageError(f"{loaded.path} was changed since the run")
            source = subject.request.bound(loaded, feed=True)
            model, task = _choose(nodes_of(subject), loaded, source, alone=options.alone)
            form, refused = form_of(task)
        except (MissingError, UsageError) as error:
            refused = {"": f"{error.what}: {error.why}" if error.why else error.what}
        document = Plugin(
            schema_version=SCHEMA_VERSION, model=Path(subject.request.model).stem, brief=brief_of(subject, task),
            name=task.name if task and form else "", form=form.name if form else "", refused=refused,
        )  # fmt: skip
        if task is not None and form is not None and options.steps != ("brief",):
            return _make(document, subject, loaded, source, model, task, form, target, options, progress)
    if target is None:
        return document
    with folders.making(target):
        run_folder.RunFolder(target).write_bytes(README, render(document, "markdown").encode())
    return msgspec.structs.replace(document, files=(README,), folder=str(target))


def _target(options: PluginOptions) -> Path | None:
    """Where files go; None where nothing is written."""
    path = Path(options.folder)
    if not options.folder and "insert" in options.steps and options.steps != STEPS:
        raise UsageError("--only insert writes a model", why="without -o nothing is written", fix="Add -o FOLDER.")
    if options.folder and path.exists() and not path.is_dir():
        raise UsageError(f"-o {path} is a file", why="a plugin is a folder", fix="Choose another name.")
    if options.folder and run_folder.occupied(path) and not options.force:
        raise UsageError(f"{path} exists and is not empty", fix="Choose another folder, or --force.")
    return path if options.folder else None


def _choose(names: tuple[str, ...], loaded: LoadedModel, source: Source, *, alone: bool) -> tuple[Model, Task]:
    """Find the largest region around nodes that a form fits, with open dimensions if one does; else the smallest."""
    found = []
    for bound in (None, source.nodes):
        model = opened(loaded.path, nodes=bound)
        made = {node.name: [*node.output] for graph in loaded.graphs.values() for node in graph.node}
        # Names of nodes in the file may be others than those that shapes are known of.
        if any(one not in model.nodes or [*model.node(model.nodes[one]).output] != made.get(one) for one in names):
            model = opened(loaded.path, loaded.full(plugins=True), bound)
        with contextlib.suppress(UsageError):
            for choice in _regions(model, names, alone=alone):
                found.append((model, choice.task))
                if form_of(choice.task)[0] is not None:
                    return found[-1]
    return found[-1] if found else (model, chosen(model, names).task)


def _regions(model: Model, names: tuple[str, ...], *, alone: bool) -> Iterator[Choice]:
    """The nodes of a layer together, then what can be computed around its main node, most nodes first."""
    if len(names) > 1:
        with contextlib.suppress(UsageError):
            whole = chosen(model, names)
            yield whole
            names = tuple(one for one in names if model.node(model.named(one)).op_type == whole.task.main)[:1]
    for name in names:
        yield from choices(model, name)[-1 if alone else 0 :]


def _make(
    document: Plugin, subject: Subject, loaded: LoadedModel, source: Source, model: Model, task: Task, form: Form,
    target: Path | None, options: PluginOptions, progress: Progress,
) -> Plugin:  # fmt: skip
    """Write, insert and check a kernel; without a target it is checked in a scratch folder."""
    into = alike(model, task, options.places) if target is not None and "insert" in options.steps else None
    with scratch_folder() as scratch:
        folder = target if target is not None and "write" in options.steps else scratch
        progress.stage("kernel")
        with folders.making(folder) as new:
            if into is not None and target is not None:
                target.mkdir(parents=True, exist_ok=True)
                inserted = insert(
                    model, task, into.places, target / MODEL, function=options.function, left=into.left,
                    force=options.force, held=new / MODEL if folder == target else None,
                )  # fmt: skip
                document = msgspec.structs.replace(document, inserted=inserted, files=(MODEL,), folder=str(target))
            facts = _facts(subject, task, source) | {"inserted": MODEL if (new / MODEL).is_file() else ""}
            files = write(
                form, task, new, brief=render(document, "markdown"), ptx=options.ptx, cpp=options.cpp, **facts
            )  # fmt: skip
        if folder == target:
            made_here.remember(code_files(folder), default_cache_dir())
            files = tuple(sorted((*files, *document.files)))
            document = msgspec.structs.replace(document, files=files, folder=str(target))
        if "check" not in options.steps:
            return document
        checked = _check(document, folder, options, progress)
        if checked.check is None or into is None or target is None or not options.function:
            return checked
        steps = (*checked.check.steps, *_check_model(loaded, source, target / MODEL, progress))
        return msgspec.structs.replace(checked, check=msgspec.structs.replace(checked.check, steps=steps))


def _facts(subject: Subject, task: Task, source: Source) -> dict[str, Any]:
    """What plugin.json holds besides the task."""
    layer, run, folder = subject.layer, subject.run, subject.folder
    tensors = [one for node in source.nodes for one in (*node.op.inputs, *node.op.outputs) if one is not None]
    shapes = {one.name: one.shape for one in tensors if one.shape is not None}
    sizes = [pair for one in task.inputs for pair in zip(one.dims, shapes.get(one.tensor, ()), strict=False)]
    facts: dict[str, Any] = {
        "model": source.model.name, "sha256": source.model.sha256, "layer": layer.name, "runs": subject.runs,
        "dims": {dim: size for dim, size in sizes if isinstance(dim, str) and isinstance(size, int)},
        "shapes": tuple(written({name: shape}) for name, shape in static_shapes(source).items()),
        "versions": {"trtprof": __version__},
    }  # fmt: skip
    if folder is None or run is None:
        return facts
    request = folder.read(run_folder.REQUEST, run_folder.Request)
    facts["run"] = folders.OfRun(
        folder=folder.path.resolve().name, created=request.created, gpu=run.device.name,
        kernels=tuple(one.kernel for one in layer.kernels), kernels_ns=layer.measured_ns // subject.runs,
    )  # fmt: skip
    return facts | {"settings": engine_settings(request)}


def _check(document: Plugin, folder: Path, options: PluginOptions, progress: Progress) -> Plugin:
    """Check the kernel and the plugin in a folder, without a GPU."""
    progress.stage("check")
    held, compiled = folders.load(folder), None
    with contextlib.suppress(TrtprofError):
        compiled = compile_kernel(folder / "kernel.py", held.entry, held.task)
    found = check(folder, seconds=options.seconds, compiled=compiled)
    return msgspec.structs.replace(document, check=found, variants=compiled.variants if compiled is not None else ())


def _check_model(loaded: LoadedModel, source: Source, inserted: Path, progress: Progress) -> Iterator[CheckStep]:
    """Run the functions of the model with the plugin in ONNX Runtime, and build them with TensorRT-RTX."""
    progress.detail("the model with the plugin, without the plugin")
    begun, cases = time.perf_counter(), 0
    verdict: Literal["passed", "failed", "not here"] = "not here"
    with scratch_folder() as scratch, scratch_folder() as other:
        own, session = session_of(loaded, scratch), SessionRequest(model=str(inserted.resolve()))
        before = Variant(name="the original", inputs=source.model.inputs, session=own, kinds=1)
        try:
            original, verdict = keep_original(before, scratch), "failed"
            kinds = check_variant(original, msgspec.structs.replace(before, name="inserted", session=session), other)
            wrong = [f"inputs {one.kind}: {one.note or 'outputs differ'}" for one in kinds if not one.matches]
            verdict, reason, cases = "failed" if wrong else "passed", "; ".join(wrong[:1]), len(kinds)
        except TrtprofError as error:
            reason = f"{error.what}; {error.why}"
    seconds = time.perf_counter() - begun
    yield CheckStep(name="onnxruntime", verdict=verdict, reason=reason, cases=cases, seconds=seconds)
    options = tensorrt.BuildOptions(backend="tensorrt-rtx", shapes=static_shapes(source))
    with scratch_folder() as cache:
        try:
            tensorrt.build(inserted.resolve(), options, progress.detail, cache_dir=cache, deadline_s=300.0)
            yield CheckStep(name="tensorrt-rtx", verdict="passed", cases=1)
        except TrtprofError as error:  # A refusal is not a fault of the model
            yield CheckStep(name="tensorrt-rtx", verdict="not here", reason=f"{error.what}; {error.why}")
