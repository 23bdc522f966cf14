"""``trtprof build``: an engine of TensorRT or TensorRT-RTX, and what its layers are."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from profiler.base.errors import MissingError, UsageError
from profiler.cli.options import (
    Export,
    ForceOption,
    NamedModel,
    Plugins,
    RebuildOption,
    Shapes,
    Tactics,
    TopOption,
    Types,
    build_options,
    command,
    model_request,
)
from profiler.cli.output import StageLines, errors_shown, result, say
from profiler.cli.output_files import (
    FormatOption,
    OutputsOption,
    check_report,
    deliver,
    refuse_existing,
    writable,
    write,
)

if TYPE_CHECKING:
    from profiler.engine.tensorrt import BuildOptions, ShapeRange
    from profiler.flows.build import EngineBuild
    from profiler.source.request import ModelRequest


_ENDS = ("min", "opt", "max")
_POOL = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?P<unit>[BKMG]?)")
_UNITS = {"": 2**20, "B": 1, "K": 2**10, "M": 2**20, "G": 2**30}
"""Bytes of the units of ``--memPoolSize``; without one it is MiB, as in trtexec."""

_RANGE = "Of dynamic inputs; given a second time, of the second profile, and so on; without it those of another one."


@command
def build(
    *,
    model: NamedModel,
    backend: Annotated[
        str,
        typer.Option(
            "--backend",
            help="tensorrt, tensorrt-rtx, or auto: TensorRT where it and a driver are installed, else TensorRT-RTX.",
        ),
    ] = "auto",
    shapes: Shapes,
    min_shapes: Annotated[
        list[str] | None,
        typer.Option("--minShapes", "--min-shapes", metavar="NAME:DIMS,...", help=f"Smallest shapes. {_RANGE}"),
    ] = None,
    opt_shapes: Annotated[
        list[str] | None,
        typer.Option("--optShapes", "--opt-shapes", metavar="NAME:DIMS,...", help="Shapes to be fastest at."),
    ] = None,
    max_shapes: Annotated[
        list[str] | None,
        typer.Option("--maxShapes", "--max-shapes", metavar="NAME:DIMS,...", help="Largest shapes."),
    ] = None,
    profile: Annotated[
        list[int] | None,
        typer.Option(
            "--profile",
            metavar="N",
            help="Number of a profile, counted from 0: the first --profile is that of the first --minShapes, "
            "--optShapes and --maxShapes, the second that of the second ones.",
        ),
    ] = None,
    types: Types,
    mem_pool_size: Annotated[
        list[str] | None,
        typer.Option(
            "--memPoolSize",
            "--mem-pool-size",
            metavar="workspace:N",
            help="Memory inside a layer: MiB, or with B, K, M or G behind the number.",
        ),
    ] = None,
    workspace: Annotated[
        float | None,
        typer.Option("--workspace", metavar="MIB", help="The same, as older versions of trtexec spell it."),
    ] = None,
    tactics: Tactics,
    capabilities: Annotated[
        list[str] | None,
        typer.Option(
            "--computeCapabilities",
            "--compute-capabilities",
            metavar="8.9,...",
            help="GPUs that a TensorRT-RTX engine is built for, such as 8.9 or current; default: all that it serves.",
        ),
    ] = None,
    plugins: Plugins,
    export: Export,
    save_engine: Annotated[
        str,
        typer.Option("--saveEngine", "--save-engine", metavar="FILE", help="Copy the engine there."),
    ] = "",
    load_engine: Annotated[
        str,
        typer.Option(
            "--loadEngine",
            "--load-engine",
            metavar="FILE",
            help="Build nothing: read the layers of this engine, which needs its GPU; MODEL names its nodes.",
        ),
    ] = "",
    layer_info: Annotated[
        str,
        typer.Option(
            "--exportLayerInfo",
            "--export-layer-info",
            metavar="FILE",
            help="Write the layers there. .json: what TensorRT's inspector says, or, without a driver to ask it, "
            "trtprof's own document; .txt: the plan as it was printed.",
        ),
    ] = "",
    rebuild: RebuildOption = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Build nothing: print the trtexec command that does the same.")
    ] = False,
    output: OutputsOption = None,
    force: ForceOption = False,
    format_name: FormatOption = "text",
    top: TopOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but the path of the engine.")] = False,
) -> None:
    """Build an engine and show its layers.

    With TensorRT on a GPU, or with TensorRT-RTX, which needs none: which ONNX nodes became which
    layer, what was fused and what was not. Nothing runs. Engines are kept: the same build is done once.

    Example: trtprof build model.onnx --shapes x:8x3x224x224 --fp16 --saveEngine model.engine -o plan.html
    """
    progress = StageLines(quiet=quiet)
    with errors_shown(progress), progress:
        from profiler.base.records import EnginePlan

        check_report("build", format_name, EnginePlan)
        paths = writable(output, EnginePlan, force=force, example="plan.html")
        from profiler.engine.backends import choose_builder
        from profiler.flows import build as flow

        options = build_options(
            types,
            tactics,
            plugins,
            profiles=_profiles(profile, min_shapes, opt_shapes, max_shapes),
            workspace_bytes=_workspace(mem_pool_size, workspace),
            compute_capabilities=tuple(_capabilities(capabilities)),
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
        exported = _exported(found, layer_info)
        deliver(found.priced.document, "" if quiet else format_name, paths, top=top)
        if quiet:
            result(str(engine))
            return
        say(f"wrote {engine}" if save_engine else f"the engine is {engine}")
        if exported:
            say(exported)
        if not load_engine:
            say(_next(model.name, shapes, fp16=types.fp16))


# --- what is asked ------------------------------------------------------------------------------


def _profiles(
    numbers: Sequence[int] | None,
    least: Sequence[str] | None,
    best: Sequence[str] | None,
    most: Sequence[str] | None,
) -> tuple[dict[str, ShapeRange], ...]:
    """The optimisation profiles; the n-th value of each option belongs to the n-th profile.

    Of an end that is not given at all, as in trtexec, the nearest that is given serves: of the smallest and the
    largest shapes the optimal ones, of these the largest.

    Raises:
        UsageError: The options do not make whole profiles, or a value cannot be read.
    """
    from profiler.engine.tensorrt import ShapeRange

    given = {end: list(values or ()) for end, values in zip(_ENDS, (least, best, most), strict=True)}
    counts = {len(values) for values in given.values() if values}
    if not counts:
        if numbers:
            raise UsageError(
                "--profile is given without shapes", why="it numbers --minShapes, --optShapes and --maxShapes",
                fix="leave it away, or give --optShapes",
            )  # fmt: skip
        return ()
    if len(counts) > 1:
        told = ", ".join(f"--{end}Shapes {len(values)} times" for end, values in given.items() if values)
        raise UsageError(
            "the profiles are not complete",
            why=f"{told}: the first of each makes the first profile, the second the second",
            fix="give each of them once a profile, all inputs in one value: --minShapes=x:1x8,y:1x8",
        )
    (count,) = counts
    order = list(numbers or range(count))
    if sorted(order) != list(range(count)):
        raise UsageError(
            f"the profiles are numbered {', '.join(map(str, order))}",
            why=f"there are shapes for {count}, which are numbered from 0",
            fix=" ".join(f"--profile={number}" for number in range(count)) + ", or leave --profile away",
        )
    read = {end: [_shapes(f"--{end}Shapes", value) for value in values] for end, values in given.items()}
    optimal = read["opt"] or read["max"] or read["min"]
    ends = {"min": read["min"] or optimal, "opt": optimal, "max": read["max"] or optimal}
    found: dict[int, dict[str, ShapeRange]] = {}
    for place, number in enumerate(order):
        low, mid, high = (ends[end][place] for end in _ENDS)
        if not set(low) == set(mid) == set(high):
            raise UsageError(
                f"profile {number} does not name the same inputs in all its shapes",
                why="; ".join(f"{end}: {', '.join(names)}" for end, names in zip(_ENDS, (low, mid, high), strict=True)),
                fix="give --minShapes, --optShapes and --maxShapes the same inputs",
            )
        found[number] = {name: ShapeRange(min=dims, opt=mid[name], max=high[name]) for name, dims in low.items()}
    return tuple(found[number] for number in range(count))


def _shapes(option: str, value: str) -> dict[str, tuple[int, ...]]:
    from profiler.source.shapes import parse_shapes

    try:
        return parse_shapes([value])
    except UsageError as error:
        what, fix = (text.replace("--shapes", option) for text in (error.what, error.fix))
        raise UsageError(what, why=error.why, fix=fix) from None


def _workspace(pools: Sequence[str] | None, mebibytes: float | None) -> int | None:
    """The size of the workspace in bytes; None leaves it to the library.

    Raises:
        UsageError: It is given twice, cannot be read, or another pool is named.
    """
    items = [item.strip() for value in pools or () for item in value.split(",")]
    fix = "--memPoolSize=workspace:1024, which is MiB, or workspace:1G"
    sizes = []
    for item in items:
        pool, _, size = item.partition(":")
        match = _POOL.fullmatch(size)
        if pool != "workspace":
            raise UsageError(f"--memPoolSize {item!r} cannot be used", why="known pools: workspace", fix=fix)
        if match is None:
            raise UsageError(f"--memPoolSize {item!r} cannot be read", why="it is a number, and B, K, M or G", fix=fix)
        sizes.append(float(match["number"]) * _UNITS[match["unit"]])
    if mebibytes is not None:
        sizes.append(mebibytes * 2**20)
    if len(sizes) > 1:
        raise UsageError("the size of the workspace is given twice", fix="give --memPoolSize or --workspace, once")
    if sizes and not 0 <= sizes[0] < 2**63:
        raise UsageError(f"a workspace of {sizes[0]:g} bytes is not possible", fix=fix)
    return int(sizes[0]) if sizes else None


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
    from profiler.engine.backends import choose_builder

    try:
        return choose_builder()[0]
    except MissingError:
        return "tensorrt"


def _loaded(
    engine: str, backend: str, request: ModelRequest | None, options: BuildOptions, progress: StageLines
) -> EngineBuild:
    from profiler.engine.tensorrt import engine_backend
    from profiler.flows import build as flow

    chosen = engine_backend(Path(engine)) if backend == "auto" else backend
    return flow.load_engine(Path(engine), chosen, request, progress, static_plugins=options.static_plugins)


# --- what comes out -----------------------------------------------------------------------------


def _saved(found: EngineBuild, name: str) -> Path:
    """The engine where it was asked for, else where it is kept.

    Raises:
        MissingError: The folder is not there, or may not be written to.
    """
    if not name:
        return found.built.plan
    path = Path(name)
    try:
        shutil.copyfile(found.built.plan, path)
    except shutil.SameFileError:
        pass
    except OSError as error:
        raise MissingError(f"{path} cannot be written", why=error.strerror or "", fix="choose another path") from None
    return path


def _exported(found: EngineBuild, name: str) -> str:
    """Write what ``--exportLayerInfo`` asks for, and say what it is.

    Raises:
        MissingError: It cannot be written, or is not known of an engine made elsewhere.
    """
    if not name:
        return ""
    path, built = Path(name), found.built
    if path.suffix.lower() != ".json":
        if not built.plan_text:
            raise MissingError(
                f"{path} was not written",
                why="an engine prints its plan only while it is built",
                fix="--exportLayerInfo=layers.json",
            )
        write(path, built.plan_text.encode())
        return f"wrote {path}: the plan as the build printed it; `trtprof analyze --layers {path}` reads it"
    if built.layer_info:
        write(path, built.layer_info.encode())
        return f"wrote {path}: what TensorRT's engine inspector says"
    from profiler import report

    write(path, report.encode(found.priced.document, "json"))
    return f"wrote {path}: trtprof's own document; TensorRT's inspector needs a driver, and none is installed"


def _next(model: str, shapes: Shapes, *, fp16: bool) -> str:
    import shlex

    more = [f"--shapes={value}" for value in shapes.shapes or ()]
    more += [f"--batch={shapes.batch}"] if shapes.batch else []
    more += ["--dtype=fp16"] if fp16 else []
    return f"next: trtprof predict {shlex.join([model, *more])} --gpu rtx-4090"
