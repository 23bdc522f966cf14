"""The folder of a plugin: what is written into it, and the checks of what lies in it.

README.md  brief.md  brief.json   what it is, what it should win, what was checked
python/                           the quick deployable plugin, and its PTX
cpp/                              the same as a C++ project, with the CUDA text of each kernel
model.onnx                        the model with the plugin in it
plugin.json                       all of that for those who go on with it (`trtprof.plugin.folder`)

`keep` writes and checks, as far as it is asked for; `again` checks what lies there.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from trtprof import __version__
from trtprof.base import made_here, run_folder
from trtprof.base.errors import MissingError, UsageError
from trtprof.base.records import CheckStep, Inserted, Plugin, PluginCheck, Source, Traffic
from trtprof.base.units import format_shape
from trtprof.flows.build import static_shapes
from trtprof.flows.plugin.inserted import check_inserted
from trtprof.flows.plugin.made import Made
from trtprof.flows.plugin.options import STEPS, PluginOptions
from trtprof.flows.progress import Progress
from trtprof.flows.report import engine_settings
from trtprof.hardware.store import default_cache_dir
from trtprof.plugin import contract, native, numerics, quick, readme, traffic
from trtprof.plugin import folder as folders
from trtprof.plugin.folder import OfRun, PluginFolder
from trtprof.plugin.insert import insert
from trtprof.plugin.ptx import Fault, Program
from trtprof.plugin.select import Alike, alike
from trtprof.plugin.specification import Specification
from trtprof.plugin.trust import code_files
from trtprof.report import render
from trtprof.runtime import nvrtc
from trtprof.runtime.nvrtc import first_line
from trtprof.source.load import LoadedModel
from trtprof.source.shapes import written

BRIEF, README, MODEL = "brief", "README.md", "model.onnx"
PYTHON, NATIVE = "python", "cpp"
_AGAIN = "write it again: trtprof plugin MODEL NODE -o FOLDER --force"
COUNTED = "sm_89"  # The architecture whose PTX is counted, where it is there: sectors are the same on all


class Target(NamedTuple):
    """Where files go; None where none are written."""

    path: Path | None

    @classmethod
    def of(cls, options: PluginOptions) -> Target:
        """The folder that is asked for."""
        if not options.folder:
            if "insert" in options.steps and options.steps != STEPS:
                raise UsageError(
                    "--only insert writes a model, and no folder is named for it",
                    why="without -o nothing is written", fix="-o FOLDER",
                )  # fmt: skip
            return cls(None)
        path = Path(options.folder)
        if path.exists() and not path.is_dir():
            raise UsageError(f"{path} is a file", why="-o names the folder of a plugin", fix="-o another-name")
        if run_folder.occupied(path) and not options.force:
            raise UsageError(
                f"{path} exists and will not be overwritten", why="it is not empty",
                fix="choose another folder, or --force",
            )  # fmt: skip
        return cls(path)

    def write(self, files: Mapping[str, bytes]) -> tuple[str, ...]:
        """Write files by their names in the folder, each whole or not at all."""
        if self.path is None:
            return ()
        for name, content in files.items():
            path = self.path / name
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise MissingError(
                    f"{path.parent} cannot be made", why=error.strerror or str(error), fix="choose another folder"
                ) from None
            run_folder.RunFolder(self.path).write_bytes(name, content)
        return tuple(files)


def keep(
    document: Plugin,
    found: Made | None,
    target: Target,
    options: PluginOptions,
    progress: Progress,
    loaded: LoadedModel | None = None,
    source: Source | None = None,
) -> Plugin:
    """Write what was made and check it, as far as it is asked for; the brief comes last, with all that is known."""
    files: list[str] = []
    inserted: Inserted | None = None
    check: PluginCheck | None = None
    if found is not None and loaded is not None and source is not None:
        spec = found.specification
        # What is asked for wrongly is refused before anything is written.
        inserts = target.path is not None and "insert" in options.steps
        into = alike(found.model, found.task, options.places) if inserts else None
        writes = "write" in options.steps
        if writes:
            progress.stage("plugin")
        with folders.making(target.path) if writes and target.path is not None else contextlib.nullcontext() as new:
            files += Target(new).write(_plugin_files(spec))
            if target.path is not None and into is not None:
                progress.stage("insert")
                inserted = _inserted(found, into, target.path, options, new)
                files.append(inserted.model)
            document = msgspec.structs.replace(document, inserted=inserted)
            if new is not None:
                # What is stopped while it is checked is a folder that can be checked again.
                Target(new).write(_texts(document, spec))
                folders.save(new, _told(found, document, inserted, options, source))
                files.append(folders.FILE)
        if writes and target.path is not None:
            made_here.remember(code_files(target.path), default_cache_dir())
        if "check" in options.steps:
            check = _checked(spec, found.dims, target.path, options, progress)
            if inserted is not None and target.path is not None:
                steps = check_inserted(
                    loaded, source, target.path / MODEL, function=options.function, progress=progress
                )
                check = msgspec.structs.replace(check, steps=(*check.steps, *steps))
    document = msgspec.structs.replace(document, check=check)
    files += target.write(_texts(document, found.specification if found is not None else None))
    folder = str(target.path) if target.path is not None else ""
    return msgspec.structs.replace(document, files=tuple(sorted(files)), folder=folder)


def _texts(document: Plugin, spec: Specification | None) -> dict[str, bytes]:
    """What is there to be read, by its names in the folder."""
    texts = {f"{BRIEF}.md": render(document, "markdown"), f"{BRIEF}.json": render(document, "json")}
    if spec is not None:
        texts[README] = readme.text(spec, document)
    return {name: text.encode() for name, text in texts.items()}


def again(path: Path, options: PluginOptions, progress: Progress) -> Plugin:
    """Check a plugin that lies in a folder, as its files are now, and write the brief anew."""
    held = folders.load(path)
    with _undamaged(path / f"{BRIEF}.json"):
        document = msgspec.json.decode(folders.read(path, f"{BRIEF}.json"), type=Plugin)
    if document.name != held.name:
        raise UsageError(
            f"{path / BRIEF}.json is not of the plugin in the folder",
            why=f"it is of {document.name or 'a layer without a kernel'}, and {folders.FILE} of {held.name}",
            fix=_AGAIN,
        )
    with _undamaged(path):
        spec = Specification(held.task, held.kernels_in(path), held.ptx_in(path))
    for files in held.kernels:
        for architecture, name in files.ptx.items():
            with _undamaged(path / name):
                Program.parse(spec.ptx[architecture, files.kernel.tactic])
    check = _checked(spec, held.dims, path, options, progress)
    if document.check is not None:
        kept = tuple(
            step if step.verdict == "not here" else msgspec.structs.replace(step, reason=_kept(step.reason))
            for step in document.check.steps
            if step.name in ("onnxruntime", "tensorrt-rtx")
        )
        check = msgspec.structs.replace(check, steps=(*check.steps, *kept))
    older = tuple(f"{name} {_OLDER}" for name in held.outdated_in(path))
    notes = (*older, *(note for note in document.notes if not note.endswith(_OLDER)))
    document = msgspec.structs.replace(document, check=check, notes=notes)
    Target(path).write(_texts(document, spec))
    return msgspec.structs.replace(document, folder=str(path))


_OLDER = (
    "was changed since its PTX was compiled: what is checked and ships in python/ is the PTX, which is of the older "
    "text; nvcc -ptx -arch=sm_89 compiles it for sm_89"
)
_NOT_NOW = "as it was when the model was written; not run again"


def _kept(reason: str) -> str:
    """What a check said that is not run again."""
    return reason if reason.startswith(_NOT_NOW) else f"{_NOT_NOW}{f': {reason}' if reason else ''}"


@contextlib.contextmanager
def _undamaged(path: Path) -> Iterator[None]:
    """What cannot be read is one sentence."""
    try:
        yield
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, Fault) as error:
        raise UsageError(
            f"{path} cannot be read", why=first_line(error),
            fix=_AGAIN,
        ) from None  # fmt: skip


# --- what is written ------------------------------------------------------------------------------


def _plugin_files(spec: Specification) -> dict[str, bytes]:
    """The plugin in both forms and the text of its kernels, by their names in the folder."""
    found = {f"{PYTHON}/{name}": content for name, content in quick.files(spec).items()}
    return found | {f"{NATIVE}/{name}": content for name, content in native.files(spec).items()}


def _inserted(found: Made, into: Alike, folder: Path, options: PluginOptions, new: Path | None) -> Inserted:
    """The model with the plugin in it, which is put into the folder of what is new, if there is one."""
    folder.mkdir(parents=True, exist_ok=True)
    return insert(
        found.model,
        found.task,
        into.places,
        folder / MODEL,
        function=options.function,
        left=into.left,
        force=options.force,
        held=new / MODEL if new is not None else None,
    )


def _told(
    found: Made, document: Plugin, inserted: Inserted | None, options: PluginOptions, source: Source
) -> PluginFolder:
    spec = found.specification
    kernels = tuple(
        folders.kernel_files(
            kernel,
            f"{NATIVE}/{native.kernel_name(kernel)}",
            {
                name: f"{PYTHON}/{quick.ptx_name(spec, name, kernel)}"
                for name, tactic in spec.ptx
                if tactic == kernel.tactic
            },
        )
        for kernel in spec.kernels
    )
    return PluginFolder.of(
        found.task,
        kernels,
        model=source.model.name,
        sha256=source.model.sha256,
        inserted=inserted.model if inserted is not None else "",
        quick=f"{PYTHON}/{spec.file_name}.py",
        native=NATIVE,
        dims=found.dims,
        shapes=tuple(written({name: shape}) for name, shape in static_shapes(source).items()),
        settings=_settings(options),
        layer=document.brief.layer,
        runs=document.brief.runs,
        work=document.brief.work,
        run=_of_run(document, options),
        versions={"trtprof": __version__, "nvrtc": ".".join(map(str, nvrtc.nvrtc_version()))},
        digests={
            name: hashlib.sha256(text.encode()).hexdigest()
            for one in kernels
            for name, text in (
                (one.source, next(kernel.source for kernel in spec.kernels if kernel.tactic == one.kernel.tactic)),
                *((ptx, spec.ptx[architecture, one.kernel.tactic]) for architecture, ptx in one.ptx.items()),
            )
        },
    )


def _run(options: PluginOptions) -> run_folder.RunFolder | None:
    """The run that is asked about; None where it is something else."""
    folder = run_folder.RunFolder(Path(options.what))
    return folder if folder.has(run_folder.REQUEST) else None


def _settings(options: PluginOptions) -> dict[str, str]:
    """How the engine of the run was built."""
    folder = _run(options)
    return engine_settings(folder.read(run_folder.REQUEST, run_folder.Request)) if folder is not None else {}


def _of_run(document: Plugin, options: PluginOptions) -> OfRun | None:
    folder = _run(options)
    if folder is None:
        return None
    brief = document.brief
    return OfRun(
        folder=folder.path.resolve().name,
        created=folder.read(run_folder.REQUEST, run_folder.Request).created,
        kernels_ns=None if brief.measured_ns is None else brief.measured_ns // max(brief.runs, 1),
        kernels=brief.kernels,
        gpu=folder.report().device.name,
    )


# --- what is checked ------------------------------------------------------------------------------


def _checked(
    spec: Specification, dims: Mapping[str, int], folder: Path | None, options: PluginOptions, progress: Progress
) -> PluginCheck:
    """All that needs no GPU, of the plugin alone."""
    progress.stage("check")
    progress.detail("kernels, executed beside float64")
    ptx = {(tactic, name): text for (name, tactic), text in spec.ptx.items()}
    step, cases = numerics.check(spec.task, spec.kernels, ptx, seconds=options.seconds)
    progress.detail("what they move")
    began = time.perf_counter()
    many = numerics.too_many(spec.task, spec.task.shapes(dims))
    counted = () if many else tuple(_counted(spec, dims))
    uncounted = CheckStep(name="traffic", verdict="not here", reason=many)
    steps = [step, _as_step(counted, time.perf_counter() - began) if counted else uncounted]
    if folder is not None and (folder / PYTHON).is_dir():
        progress.detail("the plugin in TensorRT's registry")
        steps.append(contract.registry(spec, folder / PYTHON))
        progress.detail("the plugin in C++, compiled")
        steps.append(contract.native(spec, folder / NATIVE, include=options.headers))
    return PluginCheck(steps=tuple(steps), numerics=cases, traffic=counted)


def _counted(spec: Specification, dims: Mapping[str, int]) -> Iterator[Traffic]:
    """What each variant moves at the shapes of the brief."""
    for kernel in spec.kernels:
        names = [name for name, tactic in spec.ptx if tactic == kernel.tactic]
        text = spec.ptx[COUNTED if COUNTED in names else names[0], kernel.tactic]
        shapes = spec.task.shapes(dims)
        try:
            yield traffic.count(spec.task, kernel, Program.parse(text), given=dims)
        except Fault as fault:
            yield Traffic(
                tactic=kernel.tactic, shapes=" ".join(map(format_shape, shapes)), predicted_bytes=0, counted_bytes=0,
                requested_bytes=0, bank_conflicts=0, ok=False, reason=str(fault),
            )  # fmt: skip


def _as_step(counted: tuple[Traffic, ...], seconds: float) -> CheckStep:
    wrong = [f"tactic {one.tactic}: {one.reason}" for one in counted if not one.ok]
    return CheckStep(
        name="traffic", verdict="failed" if wrong else "passed", reason="; ".join(wrong), cases=len(counted),
        seconds=seconds,
    )  # fmt: skip
