"""``trtprof build``: an engine of TensorRT or TensorRT-RTX, and what its layers are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from trtprof.base.errors import MissingError, UsageError
from trtprof.cli import completion
from trtprof.cli import engine_options as eng
from trtprof.cli.as_trtexec import write_layers
from trtprof.cli.declared import opt
from trtprof.cli.engine_options import build_options
from trtprof.cli.engine_trust import TrustOption, allow_engine
from trtprof.cli.options import Export, ForceOption, NamedModel, QuietOption, Shapes, TopOption, command, model_request
from trtprof.cli.output import StageLines, errors_shown, result, say
from trtprof.cli.output_files import FormatOption, OutputsOption, check_report, deliver, refuse_existing, writable

if TYPE_CHECKING:
    from trtprof.engine.tensorrt import BuildOptions
    from trtprof.flows.build import EngineBuild
    from trtprof.source.request import ModelRequest


@command
def build(
    *,
    model: NamedModel,
    backend: Annotated[
        str,
        opt(
            "--backend",
            "tensorrt, tensorrt-rtx, or auto: TensorRT where it and a driver are installed, else TensorRT-RTX.",
            "Engine of TensorRT",
            autocompletion=completion.builders,
        ),
    ] = "auto",
    shapes: Shapes,
    ranges: eng.Ranges,
    types: eng.Types,
    best: eng.BestOption = False,
    memory: eng.Memory,
    tactics: eng.Tactics,
    capabilities: Annotated[
        list[str] | None,
        opt(
            "--computeCapabilities --compute-capabilities",
            "GPUs that a TensorRT-RTX engine is built for, such as 8.9 or current; default: all that it serves.",
            "Engine of TensorRT",
            metavar="8.9,...",
        ),
    ] = None,
    plugins: eng.Plugins,
    export: Export,
    save_engine: eng.SaveEngineOption = "",
    load_engine: eng.LoadEngineOption = "",
    trust: TrustOption = False,
    layer_info: eng.LayerInfoOption = "",
    rebuild: eng.RebuildOption = False,
    dry_run: Annotated[
        bool, opt("--dry-run", "Build nothing: print the trtexec command that does the same.", "Engine of TensorRT")
    ] = False,
    output: OutputsOption = None,
    force: ForceOption = False,
    format_name: FormatOption = "text",
    top: TopOption = None,
    verbose: eng.VerboseOption = False,
    quiet: QuietOption = False,
) -> None:
    """Build an engine and show its layers.

    With TensorRT on a GPU, or with TensorRT-RTX, which needs none: which ONNX nodes became which
    layer, what was fused and what was not. Nothing runs. Engines are kept: the same build is done once.

    Example: trtprof build model.onnx --shapes x:8x3x224x224 --fp16 --saveEngine model.engine -o plan.html
    """
    progress = StageLines(quiet=quiet, verbose=verbose)
    with errors_shown(progress), progress:
        from trtprof.base.records import EnginePlan

        check_report("build", format_name, EnginePlan)
        paths = writable(output, EnginePlan, force=force, example="plan.html")
        from trtprof.engine.backends import choose_builder
        from trtprof.flows import build as flow
        from trtprof.flows.trtexec_files import layers_of_build

        options = build_options(
            types, tactics, plugins, ranges, memory, best=best, compute_capabilities=tuple(_capabilities(capabilities))
        )
        if dry_run:
            if load_engine:
                raise UsageError("--dry-run and --loadEngine", why="nothing is built", fix="leave one away")
            options = _of(backend if backend != "auto" else _backend_of_dry_run(), options)
            request = model_request(model.name, shapes)
            result(flow.build_command(request, options, engine=save_engine))
            return
        for name in filter(None, (save_engine, layer_info)):
            refuse_existing(Path(name), force=force)
        if load_engine:
            allow_engine(load_engine, trust=trust)
            named = model.model or model.onnx
            asked = model_request(named, shapes) if named else None
            found = _loaded(load_engine, backend, asked, options, progress)
        else:
            request = model_request(model.name, shapes, export)
            chosen, why = choose_builder(backend)
            if backend == "auto" and not quiet:
                say(f"backend {chosen}: {why}")
            options = _of(chosen, options)
            found = flow.build(request, options, progress, rebuild=rebuild)
    with errors_shown():
        engine = _saved(found, save_engine)
        if layer_info:
            write_layers(layer_info, lambda path: layers_of_build(found, path))
        deliver(found.priced.document, "" if quiet else format_name, paths, top=top)
        if quiet:
            result(str(engine))
            return
        say(f"wrote {engine}" if save_engine else f"the engine is {engine}")
        if not load_engine:
            say(_next(model.name, shapes, types.asked))


# --- what is asked ------------------------------------------------------------------------------


def _capabilities(values: Sequence[str] | None) -> list[str]:
    """``8.9``, ``120`` as TensorRT-RTX's own tool writes 12.0, or ``current``; each once."""
    items = [item.strip() for value in values or () for item in value.split(",")]
    full = [f"{item[:-1]}.{item[-1]}" if re.fullmatch(r"[0-9]{2,3}", item) else item.lower() for item in items]
    return list(dict.fromkeys(item for item in full if item))


def _of(backend: str, options: BuildOptions) -> BuildOptions:
    import msgspec

    return msgspec.structs.replace(options, backend=backend)


def _backend_of_dry_run() -> str:
    """The backend that would be taken, and TensorRT where there is none: nothing is needed to print a command."""
    from trtprof.engine.backends import choose_builder

    try:
        return choose_builder()[0]
    except MissingError:
        return "tensorrt"


def _loaded(
    engine: str, backend: str, request: ModelRequest | None, options: BuildOptions, progress: StageLines
) -> EngineBuild:
    from trtprof.engine.tensorrt import engine_backend
    from trtprof.flows import build as flow

    chosen = engine_backend(Path(engine)) if backend == "auto" else backend
    return flow.load_engine(Path(engine), chosen, request, progress, static_plugins=options.static_plugins)


# --- what comes out -----------------------------------------------------------------------------


def _saved(found: EngineBuild, name: str) -> Path:
    """The engine where it was asked for, else where it is kept."""
    from trtprof.flows.build import copy_engine

    return copy_engine(found.built.plan, Path(name)) if name else found.built.plan


def _next(model: str, shapes: Shapes, precisions: Sequence[str]) -> str:
    import shlex

    more = [f"--shapes={value}" for value in shapes.shapes or ()]
    more += [f"--batch={shapes.batch}"] if shapes.batch else []
    more += [f"--dtype={name}" for name in precisions[:1]]
    return f"next: trtprof predict {shlex.join([model, *more])} --gpu rtx-4090"
