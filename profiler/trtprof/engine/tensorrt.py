"""Engines built with TensorRT 8.6, 10 or 11, or TensorRT-RTX, in a process of their own.

`build` gives the engine file, the plan that the library printed while it built, and how the precision
came about. Built engines are kept by content: model, weights beside it, options, library version and
device; the timing cache is not part of it, although what it holds can change the choice of kernels.
TensorRT-RTX needs no GPU and no driver to build; to load an engine every version does.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from trtprof.base.errors import BuildError, MissingError, ModelError, TrtprofError, UsageError
from trtprof.base.input_file import open_file
from trtprof.base.machine_errors import without_room
from trtprof.base.progress import Progress, unheard
from trtprof.base.scratch import scratch_folder
from trtprof.base.units import format_bytes
from trtprof.engine._trt_exchange import (
    LAYER_INFO_FILE,
    PLAN_FILE,
    PLAN_TEXT_FILE,
    RESULT_FILE,
    BuildOptions,
    Precision,
    Request,
    Result,
    ShapeRange,
)
from trtprof.engine.backends import has_driver
from trtprof.runtime import child
from trtprof.runtime.tensorrt_module import Product, installed_version, is_python, parse_version, product_of

__all__ = [
    "BuildOptions",
    "BuiltEngine",
    "Precision",
    "ShapeRange",
    "build",
    "check_plan",
    "engine_backend",
    "kept_layer_info",
    "load_engine",
    "precision_way",
    "trtexec_command",
]


_KEPT_VERSION = 1  # Raised when a kept engine holds something else, so that older ones are built anew
_KERNELS_VARIABLE = "TRTPROF_PLUGIN_ARCH"  # Architecture that a plugin.py of `trtprof plugin` compiles for
_KILLED = -9
_PLAN_TAG = re.compile(rb"[a-z]trt")
"""First bytes of an engine: ``vtrt`` in those of TensorRT-RTX 1.7, whose library knows ``ftrt``, ``ptrt``, ``qtrt``."""
_SIZED_TAG = b"vtrt"
_SIZE_AT, _VERSION_AT = slice(16, 24), slice(24, 28)
"""Where an engine with that tag holds its length and the version that made it (seen in 1.7.1.116)."""


class BuiltEngine(Result, frozen=True, kw_only=True):
    """An engine file and what is known of it; ``precision`` is None for one made elsewhere."""

    plan: Path  # The engine file
    # What the library printed of its layers, from ``Layers:`` to the end of ``I/O Tensors:`` (``Bindings:`` before
    # TensorRT 11); empty for an engine made elsewhere.
    plan_text: str
    layer_info: str  # The inspector's JSON; empty where there is no driver to load the engine with
    backend: str  # ``tensorrt`` or ``tensorrt-rtx``
    cached: bool = False  # Whether it was built by an earlier call


def build(
    model: Path,
    options: BuildOptions,
    progress: Progress | None = None,
    *,
    cache_dir: Path,
    device: str = "no device",
    external_data: Path | None = None,
    rebuild: bool = False,
    deadline_s: float | None = None,
) -> BuiltEngine:
    """Build the engine of an ONNX model, or take the one kept from an earlier build of the same.

    Args:
        cache_dir: Folder under which engines are kept; ``engines`` in it is made.
    """
    say = progress or unheard
    product = product_of(options.backend)
    check_options(options)
    version = _require(product)
    key = _key(model, options, external_data or model.parent, f"{product.title} {version}", device)
    shelf = cache_dir / "engines"
    # What the file is called is of no account: a copy of a model has the engine of the model.
    slug = re.sub(r"[^A-Za-z0-9]+", "-", model.stem).strip("-")[:40] or "model"
    kept = next(iter(sorted(shelf.glob(f"*-{key}"))), shelf / f"{slug}-{key}")
    # Without a version an engine cannot be told from one of another.
    if version and not rebuild:
        held = _kept(kept, options.backend, say)
        if held is not None:
            say(f"engine kept from an earlier build: {held.plan} (--rebuild builds it again)")
            return held
    request = Request(
        folder="",
        scratch="",
        options=options,
        model=str(model.absolute()),
        external_data=str(external_data.absolute()) if external_data else "",
        inspect=has_driver(),
    )
    with _folder_beside(shelf) as (made, scratch):
        asked = msgspec.structs.replace(request, folder=str(made), scratch=str(scratch))
        _run_child(asked, product, scratch, say, deadline_s)
        _put(made, kept)
    built = _kept(kept, options.backend, say)
    if built is None:
        raise BuildError(f"the engine in {kept} was changed while it was built", fix="run the command again")
    return msgspec.structs.replace(built, cached=False)


def load_engine(
    path: Path, backend: str = "tensorrt", progress: Progress | None = None, *, static_plugins: tuple[str, ...] = ()
) -> BuiltEngine:
    """Take an engine made elsewhere, and read its layers where there is a driver to load it with.

    Without a driver, or where the library refuses it (another version, another GPU), ``layer_info`` is empty and a
    warning says why.
    """
    product = product_of(backend)
    made_by = check_plan(path, product)
    _require(product)
    options = BuildOptions(backend=backend, static_plugins=static_plugins)
    if not has_driver():
        return _loaded(path, backend, Result(versions=made_by, warnings=(_NOT_HERE,)), "")
    with scratch_folder() as scratch:
        place, plan = str(scratch), str(path.absolute())
        request = Request(folder=place, scratch=place, options=options, plan=plan, inspect=True)
        result = _run_child(request, product, scratch, progress or unheard)
        return _loaded(path, backend, result, _text(scratch / LAYER_INFO_FILE))


def kept_layer_info(engine: Path) -> str:
    """What the inspector said of an engine that is kept, as JSON; empty where it did not, or of an engine elsewhere."""
    return _text(engine.with_name(LAYER_INFO_FILE)) if engine.name == PLAN_FILE else ""


def engine_backend(path: Path) -> str:
    """Which product an engine file is of, by its first bytes; `load_engine` says what else is wrong with it."""
    try:
        with open_file(path) as file:
            return "tensorrt-rtx" if file.read(len(_SIZED_TAG)) == _SIZED_TAG else "tensorrt"
    except OSError as error:
        raise _unread(path, error) from None


def _unread(path: Path, error: OSError) -> MissingError:
    return MissingError(
        f"the engine {path} cannot be read", why=error.strerror or str(error), fix="check the path of --loadEngine"
    )


_NOT_HERE = "the engine cannot be loaded here, so its layers are not known: no NVIDIA driver (libcuda) is installed"


def _loaded(path: Path, backend: str, result: Result, layer_info: str) -> BuiltEngine:
    return BuiltEngine(
        **msgspec.structs.asdict(result), plan=path, plan_text="", layer_info=layer_info, backend=backend
    )


def precision_way(backend: str, version: str, *, strongly_typed: bool = False) -> Literal["builder flag", "converted"]:
    """How ``fp16`` is had: by a flag of the builder up to TensorRT 10, else by converting the ONNX file."""
    flags = product_of(backend).module == "tensorrt" and parse_version(version)[:1] < (11,)
    return "builder flag" if flags and not strongly_typed else "converted"


def check_options(options: BuildOptions) -> None:
    """Check what can be told without the library."""
    if options.shapes and options.profiles:
        raise UsageError(
            "shapes and profiles are both given", why="--shapes is a profile of its own",
            fix="give --shapes, or --minShapes, --optShapes and --maxShapes",
        )  # fmt: skip
    for profile in options.all_profiles():
        for name, given in profile.items():
            _check_range(name, given)
    level = options.builder_optimization_level
    if level is not None and not 0 <= level <= 5:
        raise UsageError(f"a builder optimization level of {level} is not usable", why="levels are 0 to 5", fix="3")
    for name, value in (("workspace", options.workspace_bytes), ("maxAuxStreams", options.max_aux_streams)):
        if value is not None and value < 0:
            raise UsageError(f"{name}={value} is not usable", why="it is negative", fix=f"give 0 or more for {name}")
    for library in options.static_plugins:
        if not Path(library).is_file():
            raise MissingError(f"the plugin library {library} is not there", fix="give its path by --staticPlugins")


def _check_range(name: str, given: ShapeRange) -> None:
    ranks = {len(given.min), len(given.opt), len(given.max)}
    if len(ranks) != 1:
        raise UsageError(
            f"the shapes of the input {name!r} differ in rank",
            why=f"min {_dims(given.min)}, opt {_dims(given.opt)}, max {_dims(given.max)}",
            fix="give the same number of dims for all three",
        )
    if any(not low <= best <= high for low, best, high in zip(given.min, given.opt, given.max, strict=True)):
        raise UsageError(
            f"the shapes of the input {name!r} are not in order",
            why=f"min {_dims(given.min)}, opt {_dims(given.opt)}, max {_dims(given.max)}",
            fix="give dims with min <= opt <= max",
        )


def trtexec_command(model: Path, options: BuildOptions, *, engine: str = "model.engine", version: str = "") -> str:
    """The command lines that do the same with the library's own tool.

    Where the ONNX file must be converted first, the conversion is the first line.

    Args:
        version: Version of the library, on which ``fp16`` depends; empty takes the installed one, and where there is
            none, TensorRT 10.
    """
    product = product_of(options.backend)
    check_options(options)
    for plugin in filter(is_python, options.static_plugins):
        raise UsageError(
            f"{product.command_line} does not load {plugin}",
            why="it has no Python",
            fix="build the plugin as a library, and name that",
        )
    version = version or installed_version(product) or "10"
    lines = []
    source = str(model)
    flags = []
    asked = [name for name in ("fp16", "bf16", "int8", "fp8") if getattr(options, name)]
    converted = [name for name in asked if name in ("fp16", "bf16")]
    way = precision_way(options.backend, version, strongly_typed=options.strongly_typed)
    if converted and way == "converted":
        source = f"{model.stem}_{converted[0]}.onnx"
        lines.append(
            shlex.join(["python", "-m", "modelopt.onnx.autocast", "--onnx_path", str(model), "--output_path", source,
                        "--low_precision_type", converted[0], "--keep_io_types"])
            if options.bf16
            else shlex.join(["python", "-c", _CONVERT.format(model=str(model), to=source)])
        )  # fmt: skip
    elif way == "builder flag":
        flags += [f"--{name}" for name in asked]
    profiles = options.all_profiles()
    for index, profile in enumerate(profiles):
        flags += [f"--profile={index}"] if len(profiles) > 1 else []
        if options.shapes:
            flags.append(f"--shapes={_shapes(profile, 'opt')}")
        elif profile:
            flags += [f"--{which}Shapes={_shapes(profile, which)}" for which in ("min", "opt", "max")]
    if options.strongly_typed and product.module == "tensorrt":
        flags.append("--stronglyTyped")
    if not options.tf32:
        flags.append("--noTF32")
    if options.workspace_bytes is not None:
        flags.append(f"--memPoolSize=workspace:{options.workspace_bytes / 2**20:g}M")
    flags += [
        text.format(value) for name, text in _FLAGS.items() if (value := getattr(options, name)) not in (None, "")
    ]
    if options.compute_capabilities:
        names = [name.replace(".", "") for name in options.compute_capabilities]
        flags.append("--useGpu" if names == ["current"] else f"--computeCapabilities={','.join(names)}")
    flags += [f"--staticPlugins={library}" for library in options.static_plugins]
    flags += ["--profilingVerbosity=detailed", "--verbose", "--skipInference", f"--saveEngine={engine}"]
    lines.append(shlex.join([product.command_line, f"--onnx={source}", *flags]))
    return "\n".join(lines)


_FLAGS = {
    "builder_optimization_level": "--builderOptimizationLevel={}",
    "max_aux_streams": "--maxAuxStreams={}",
    "tactic_sources": "--tacticSources={}",
    "build_route": "--setBuildRoute={}",
    "timing_cache": "--timingCacheFile={}",
}
"""Flags of trtexec by the option whose value they take; None and empty leave it to the library."""
_CONVERT = (
    "import onnx; from onnxruntime.transformers import float16; "
    "onnx.save(float16.convert_float_to_float16(onnx.load({model!r}), keep_io_types=True), {to!r})"
)


def _shapes(profile: Mapping[str, ShapeRange], which: str) -> str:
    return ",".join(f"{name}:{_dims(getattr(given, which))}" for name, given in profile.items())


def _dims(dims: tuple[int, ...]) -> str:
    return "x".join(map(str, dims))


def _require(product: Product) -> str:
    version = installed_version(product)
    if version is None:
        raise MissingError(
            f"{product.title} is not installed", why=f"there is no Python module {product.module}", fix=product.install
        )
    return version


# --- the child --------------------------------------------------------------------------------


def _run_child(
    request: Request, product: Product, scratch: Path, say: Progress, deadline_s: float | None = None
) -> Result:
    """Run the request in a process of its own, which is killed when this one is interrupted."""
    subject, log = Path(request.model or request.plan).name, scratch / "log.txt"
    last = "its start"

    def heard(line: str) -> None:
        nonlocal last
        last = line.strip()
        say(line)

    try:
        return child.ask(
            "trtprof.engine._trt_build",
            request,
            Result,
            what=product.title,
            folder=scratch,
            log=log,
            say=heard,
            within_s=deadline_s,
        )
    except child.DiedError as died:
        if died.code is None:
            raise BuildError(
                f"{product.title} does not come to an end with {subject}",
                why=f"{died.why}; the last it did was: {last}",
                fix="--builderOptimizationLevel=0 tries less",
            ) from None
        why = _death(died.code, log, last)
        result_file = Path(request.folder) / RESULT_FILE
        if result_file.is_file():  # it died over its own engine
            result = msgspec.json.decode(result_file.read_bytes(), type=Result)
            result = msgspec.structs.replace(
                result, warnings=(f"its layers could not be read: {why}", *result.warnings)
            )
            result_file.write_bytes(msgspec.json.encode(result))
            return result
        if full := without_room(RuntimeError(why)):  # it died of that, and its log tells it
            raise full from None
        raise BuildError(
            f"{product.title} died over {subject}",
            why=why,
            fix="free memory or use a smaller batch"
            if died.code == _KILLED
            else "try another version of the library; a model cut in halves shows which part it dies of",
        ) from None


def _death(code: int, log_file: Path, last: str) -> str:
    lines = [
        line.strip() for line in log_file.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()
    ]
    # faulthandler's stack is of our own code, and ends what the library said.
    own = next((index for index, line in enumerate(lines) if line.startswith("Fatal Python error")), len(lines))
    told = lines[max(own - 1, 0) : own]
    return f"{child.exit_words(code)}; the last it did was: {last}" + (
        f"; the last it said: {' '.join(told)}" if told else ""
    )


# --- engines that are kept ----------------------------------------------------------------------


@contextlib.contextmanager
def _folder_beside(shelf: Path) -> Iterator[tuple[Path, Path]]:
    """A folder for the results and one for the rest, on the disk of the kept engines; both go afterwards."""
    with contextlib.ExitStack() as stack:
        try:
            folder = stack.enter_context(scratch_folder(shelf))
        except MissingError as error:
            raise MissingError(
                f"engines cannot be kept in {shelf}", why=error.why, fix="TRTPROF_CACHE_DIR names another folder"
            ) from None
        made, scratch = folder / "engine", folder / "scratch"
        made.mkdir()
        scratch.mkdir()
        yield made, scratch


def _put(made: Path, kept: Path) -> None:
    """Move what was built into its place, whole; an older one gives way."""
    old = made.parent / "old"
    with contextlib.suppress(FileNotFoundError):
        kept.rename(old)
    try:
        made.rename(kept)
    except OSError:
        # Another process was faster: its engine is of the same content.
        if not (kept / RESULT_FILE).is_file():
            raise
    shutil.rmtree(old, ignore_errors=True)


def _kept(folder: Path, backend: str, say: Progress) -> BuiltEngine | None:
    """The engine kept in a folder; None where there is none or it is damaged, which is said."""
    if not folder.is_dir():
        return None
    plan = folder / PLAN_FILE
    try:
        result = msgspec.json.decode((folder / RESULT_FILE).read_bytes(), type=Result)
        check_plan(plan, product_of(backend))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, TrtprofError) as error:
        say(f"the engine kept in {folder} is damaged ({' '.join(str(error).split())}): building it again")
        return None
    return BuiltEngine(
        **msgspec.structs.asdict(result), plan=plan, plan_text=_text(folder / PLAN_TEXT_FILE),
        layer_info=_text(folder / LAYER_INFO_FILE), backend=backend, cached=True,
    )  # fmt: skip


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def check_plan(path: Path, product: Product) -> dict[str, str]:
    """Check that a file looks like an engine; returns the version that made it, where its header tells."""
    try:
        with open_file(path) as file:
            size = os.fstat(file.fileno()).st_size
            head = file.read(_VERSION_AT.stop)
    except OSError as error:
        raise _unread(path, error) from None
    if len(head) < _VERSION_AT.stop or not _PLAN_TAG.match(head):
        raise UsageError(
            f"{path} is no TensorRT engine", why=f"it begins with {head[:8]!r}",
            fix="give a file of --saveEngine; an ONNX file is the MODEL argument",
        )  # fmt: skip
    of_rtx = head.startswith(_SIZED_TAG)
    if of_rtx != (product.module == "tensorrt_rtx"):
        other = "tensorrt-rtx" if of_rtx else "tensorrt"
        raise UsageError(
            f"{path} is no engine of {product.title}", why=f"its first bytes are {head[:4]!r}", fix=f"--backend {other}"
        )
    if not of_rtx:
        return {}
    expected = int.from_bytes(head[_SIZE_AT], "little")
    if size < expected:
        raise UsageError(
            f"{path} is cut off", why=f"{format_bytes(size)} of {format_bytes(expected)} are there",
            fix="build or copy it again",
        )  # fmt: skip
    return {product.backend: ".".join(str(number) for number in head[_VERSION_AT])}


def _key(model: Path, options: BuildOptions, external_data: Path, library: str, device: str) -> str:
    """Digest of all that an engine depends on."""
    digest = hashlib.sha256()
    for path in [model, *_weight_files(model, external_data), *_plugin_files(options.static_plugins)]:
        try:
            with open_file(path) as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        except OSError as error:
            raise MissingError(
                f"{path} cannot be read", why=error.strerror or str(error), fix="put it where the model expects it"
            ) from None
    asked = msgspec.structs.replace(options, timing_cache="", shapes={}, profiles=options.all_profiles())
    rest: list[object] = [_KEPT_VERSION, library, device, asked]
    if any(map(is_python, options.static_plugins)):
        rest.append(os.environ.get(_KERNELS_VARIABLE, ""))
    digest.update(msgspec.json.encode(rest, order="sorted"))
    return digest.hexdigest()[:16]


def _plugin_files(plugins: Sequence[str]) -> list[Path]:
    """Return the libraries, and for a Python module all modules and PTX beside it: its kernels are among them."""
    found = []
    for plugin in map(Path, plugins):
        beside = [*plugin.parent.glob("*.py"), *plugin.parent.glob("*.ptx")] if is_python(plugin.name) else []
        found += [plugin, *sorted(path for path in beside if path.is_file() and path != plugin)]
    return found


def _weight_files(model: Path, folder: Path) -> list[Path]:
    """The files beside a model that hold its weights, in a fixed order."""
    # Whoever only names a build option needs no onnx.
    from google.protobuf.message import DecodeError
    from onnx import ModelProto, TensorProto

    from trtprof.base.onnx_graph import stored_tensors

    try:
        proto = ModelProto.FromString(model.read_bytes())
    except OSError as error:
        raise ModelError(
            f"{model} cannot be read", why=error.strerror or str(error), fix="check the path of the model"
        ) from None
    except DecodeError as error:
        raise ModelError(f"{model} is no ONNX file", why=str(error), fix="export the model again") from None
    outside = (tensor for tensor in stored_tensors(proto) if tensor.data_location == TensorProto.EXTERNAL)
    locations = (entry.value for tensor in outside for entry in tensor.external_data if entry.key == "location")
    return sorted({folder / location for location in locations})
