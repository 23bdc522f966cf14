"""From a model to the plan of an engine that TensorRT or TensorRT-RTX builds of it.

Shapes are bound, nodes get their unique names, the engine is built or taken from those that are kept, and
what the library says of its layers is led back to the model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from trtprof.analysis.plan import PricedPlan, price_plan
from trtprof.base.errors import BuildError, MissingError, UsageError
from trtprof.base.output_file import copy_file
from trtprof.base.records import EngineFacts, Source, Tensor
from trtprof.base.scratch import scratch_folder
from trtprof.base.units import format_ns
from trtprof.engine import tensorrt
from trtprof.engine.backends import has_driver
from trtprof.engine.inspector import parse_layer_info
from trtprof.engine.tensorrt import BuildOptions, BuiltEngine, Precision, ShapeRange, check_options, trtexec_command
from trtprof.flows.progress import SILENT, Progress, tell_assumptions
from trtprof.hardware import nvml
from trtprof.hardware.store import default_cache_dir
from trtprof.runtime.gc_paused import gc_paused
from trtprof.runtime.tensorrt_module import PRODUCTS
from trtprof.source.load import LoadedModel, graph_inputs, load_model
from trtprof.source.request import ModelRequest
from trtprof.source.shapes import chosen_shapes

_NO_GPU = "no GPU"


class EngineBuild(NamedTuple):
    """An engine with its layers led back to the model, as far as that is at hand."""

    priced: PricedPlan
    built: BuiltEngine
    source: Source | None
    text: str  # What the library says of its layers: as printed by the build, or the inspector's JSON
    facts: EngineFacts  # How it came about; `priced` adds what is to be said of the text

    @property
    def added_nodes(self) -> tuple[str, ...]:
        """Nodes that a conversion to another precision put into the model."""
        return self.built.precision.added_nodes if self.built.precision is not None else ()

    @property
    def summary(self) -> str:
        """What came of the build, in a line."""
        facts, launches = self.priced.document.facts, self.priced.document.summary.launches
        layers = f"{launches} layer{'s' * (launches != 1)}"
        if facts.cached:
            layers += ", kept from an earlier build"
        elif facts.build_ns:
            layers += f" in {format_ns(facts.build_ns)}"
        return f"{facts.backend} {facts.versions.get(facts.backend, '')}".strip() + f": {layers}"

    @property
    def layers_file(self) -> str:
        """What to call a file with ``text``."""
        return "layers.json" if self.text.lstrip().startswith(("{", "[")) else "layers.txt"


def build(
    request: ModelRequest, options: BuildOptions, progress: Progress = SILENT, *, rebuild: bool = False
) -> EngineBuild:
    """Build an engine of a model, and lead its layers back to ONNX nodes.

    `request`: the model; every dynamic input gets a shape from here, or from the profiles of the options.
    """
    progress.stage("source")
    with request.opened(progress.detail) as loaded, gc_paused():
        progress.detail(f"{loaded.path.name}: {len(loaded.original_names)} nodes")
        source, options = bound(request, loaded, options)
        tell_assumptions(source.model, progress)
        progress.stage("engine")
        made = engine_of(loaded, source, options, progress.detail, rebuild=rebuild)
        progress.detail(made.summary)
        return made


def build_command(request: ModelRequest, options: BuildOptions, engine: str = "") -> str:
    """The command lines of TensorRT's own tool that do what `build` does; nothing is built."""
    if request.spec is not None:
        raise UsageError(
            f"{request.model} is no ONNX file",
            why="TensorRT's own tool takes no other",
            fix=f"trtprof export {request.model}, first",
        )
    loaded = load_model(request.model)
    _, options = bound(request, loaded, options)
    return trtexec_command(loaded.path, options, engine=engine or f"{loaded.path.stem}.engine")


def load_engine(
    engine: Path,
    backend: str,
    request: ModelRequest | None = None,
    progress: Progress = SILENT,
    *,
    static_plugins: tuple[str, ...] = (),
) -> EngineBuild:
    """The layers of an engine made elsewhere, led back to the model where one is given."""
    source = None
    if request is not None:
        progress.stage("source")
        with request.opened(progress.detail) as loaded:
            source = request.bound(loaded)
            tell_assumptions(source.model, progress)
    progress.stage("engine")
    made = engine_from(engine, backend, source, progress.detail, static_plugins=static_plugins)
    progress.detail(made.summary)
    return made


def bound(request: ModelRequest, loaded: LoadedModel, options: BuildOptions) -> tuple[Source, BuildOptions]:
    """The model with its shapes, and the options with a shape for every dynamic input.

    `options`: how to build; its ``shapes`` are not read, and names in its profiles may hold one ``*``.
    """
    if not options.profiles:
        source = request.bound(loaded)
        return source, msgspec.structs.replace(options, shapes=static_shapes(source))
    if request.shapes or request.symbols or request.batch is not None:
        raise UsageError(
            f"{'--shapes' if request.shapes else '--batch'} and profiles are both given",
            why="the profiles say the shapes already",
            fix="give --shapes or --batch, or --minShapes, --optShapes and --maxShapes",
        )
    profiles = in_full(options.profiles, loaded)
    options = msgspec.structs.replace(options, shapes={}, profiles=profiles)
    check_options(options)
    return request.at(best_shapes(profiles[0], loaded)).bound(loaded), options


def static_shapes(source: Source) -> dict[str, tuple[int, ...]]:
    """The shapes of those inputs whose dimensions the file leaves open."""
    return {
        given.name: given.shape
        for given in source.model.inputs
        if given.shape is not None and given.shape != given.declared
    }


def best_shapes(profile: Mapping[str, ShapeRange], loaded: LoadedModel) -> dict[str, tuple[int, ...]]:
    """The optimal shapes of the inputs of a profile, less shape tensors, which are given values."""
    inputs = graph_inputs(loaded.proto)
    dynamic = {tensor.name for tensor in inputs if any(isinstance(dim, str) for dim in tensor.shape or ("?",))}
    return {name: ranges.opt for name, ranges in profile.items() if name in dynamic}


def in_full(profiles: Sequence[Mapping[str, ShapeRange]], loaded: LoadedModel) -> tuple[dict[str, ShapeRange], ...]:
    """Profiles by the full names of the inputs."""
    inputs = graph_inputs(loaded.proto)
    return tuple(_in_full(profile, inputs) for profile in profiles)


def _in_full(profile: Mapping[str, ShapeRange], inputs: list[Tensor]) -> dict[str, ShapeRange]:
    by_end = [
        chosen_shapes(inputs, {name: getattr(ranges, end) for name, ranges in profile.items()})
        for end in ("min", "opt", "max")
    ]
    return {name: ShapeRange(min=low, opt=by_end[1][name], max=by_end[2][name]) for name, low in by_end[0].items()}


def named_file(loaded: LoadedModel, scratch: Path, *, plugins: bool = False) -> tuple[Path, Path | None]:
    """A file of the model with unique node names, and the folder of the weights beside it where it has any.

    With ``plugins`` custom nodes stay what they are, for a runtime that may have their plugins; else the nodes of their
    functions stand in their place. It is the model's own file where that will do, else one in ``scratch``; weights
    beside it stay where they are.
    """
    external = loaded.path.resolve().parent if loaded.external_data else None
    if not loaded.changed:
        return loaded.path.resolve(), external
    named = scratch / loaded.path.name
    named.write_bytes(loaded.full(plugins=plugins).SerializeToString())
    return named, external


def engine_of(
    loaded: LoadedModel,
    source: Source,
    options: BuildOptions,
    progress: Callable[[str], None] | None = None,
    *,
    rebuild: bool = False,
    deadline_s: float | None = None,
) -> EngineBuild:
    """Build the engine of a model, or take the one that is kept, and read its layers.

    `options`: how to build, with a shape for every dynamic input.
    """
    device = _device()
    with scratch_folder() as scratch:
        file, external = named_file(loaded, scratch, plugins=options.backend == "tensorrt")
        built = tensorrt.build(
            file,
            options,
            progress,
            cache_dir=default_cache_dir(),
            device=device,
            external_data=external,
            rebuild=rebuild,
            deadline_s=deadline_s,
        )
    text = built.plan_text or built.layer_info
    if not text:
        raise BuildError(
            f"{_title(built)} built {loaded.path.name}, but did not say what its layers are",
            why="; ".join(built.warnings),
            fix="--rebuild builds it again",
        )
    many = len(options.profiles)
    which = f"the first of {many} profiles; the layers of all of them are listed" if many > 1 else "the profile"
    notes = [f"work is that at the optimal shapes of {which}"]
    return _read(built, text, source, device, notes if options.profiles else [])


def engine_at(loaded: LoadedModel, source: Source, precision: str, progress: Progress = SILENT) -> EngineBuild:
    """The engine that TensorRT-RTX builds of a model at a precision of a prediction.

    `precision`: one of `cost.recast.PRECISIONS`; ``model``, ``fp32`` and ``tf32`` build what is in the file.
    """
    progress.stage("engine")
    if precision in ("int8", "fp8"):
        raise UsageError(
            f"no engine can be built at {precision}",
            why="TensorRT-RTX takes all types from the model, and trtprof does not quantise it",
            fix="leave --engine (or --level layers) away, or quantise the model and leave --dtype away",
        )
    options = BuildOptions(
        backend="tensorrt-rtx", shapes=static_shapes(source), fp16=precision == "fp16", bf16=precision == "bf16"
    )
    made = engine_of(loaded, source, options, progress.detail)
    progress.detail(made.summary)
    return made


def engine_from(
    engine: Path,
    backend: str,
    source: Source | None = None,
    progress: Callable[[str], None] | None = None,
    *,
    static_plugins: tuple[str, ...] = (),
) -> EngineBuild:
    """The layers of an engine made elsewhere."""
    built = tensorrt.load_engine(engine, backend, progress, static_plugins=static_plugins)
    if not built.layer_info:
        raise MissingError(
            f"the layers of {engine} are not known",
            why="; ".join(built.warnings),
            fix=f"where its GPU is: {PRODUCTS[backend].command_line} --loadEngine={engine} "
            "--exportLayerInfo=layers.json; then here: trtprof analyze --layers layers.json",
        )
    return _read(built, built.layer_info, source, _device(), [])


def copy_engine(engine: Path, path: Path) -> Path:
    """Put a copy of an engine where it was asked for; returns that path."""
    try:
        copy_file(engine, path)
    except OSError as error:
        raise MissingError(f"{path} cannot be written", why=error.strerror or "", fix="choose another path") from None
    return path


def _device() -> str:
    live, _ = nvml.gpus()
    if not live:
        return "a GPU that NVML does not tell" if has_driver() else _NO_GPU
    return " ".join(filter(None, (live[0].name, live[0].compute_capability)))


def _read(built: BuiltEngine, text: str, source: Source | None, device: str, notes: list[str]) -> EngineBuild:
    facts = EngineFacts(
        backend=built.backend,
        versions=built.versions,
        device=device,
        precision=_precision(built.precision),
        build_ns=built.build_ns or None,
        network_layers=built.network_layers,
        cached=built.cached,
        warnings=built.warnings,
        notes=tuple(notes),
    )
    added = built.precision.added_nodes if built.precision is not None else ()
    priced = price_plan(parse_layer_info(text, built.plan), source, facts, added)
    return EngineBuild(priced, built, source, text, facts)


def _precision(found: Precision | None) -> str:
    """How the precision came about, in words."""
    if found is None:
        return ""
    if found.way == "converted":
        return f"{found.asked}, converted by {found.converter}"
    if found.way == "builder flag":
        return f"{found.asked} where the builder finds it faster"
    return "as in the file"


def _title(built: BuiltEngine) -> str:
    return f"{PRODUCTS[built.backend].title} {built.versions.get(built.backend, '')}".strip()
