"""Options of an engine: what it computes with, its shapes, how kernels are chosen; trtexec's spellings first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from trtprof.base.errors import UsageError
from trtprof.cli import completion
from trtprof.cli.declared import opt

if TYPE_CHECKING:
    from trtprof.engine.tensorrt import BuildOptions, ShapeRange

PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "int8", "fp8")
"""What may be asked of a model beside what is in its file."""

_ENDS = ("min", "opt", "max")
_POOL = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?P<unit>[BKMG]?)")
_UNITS = {"": 2**20, "B": 1, "K": 2**10, "M": 2**20, "G": 2**30}
"""Bytes of the units of ``--memPoolSize``; without one it is MiB, as in trtexec."""

_RANGE = "Of dynamic inputs; given a second time, of the second profile, and so on; without it those of another one."


DtypeOption = Annotated[
    str,
    opt(
        "--dtype",
        "model (as in the file, fp32 products as TF32), fp32 (no TF32), tf32, fp16, bf16, int8 or fp8.",
        "Precision",
        metavar="PRECISION",
        autocompletion=completion.precisions,
    ),
]
Fp16Option = Annotated[
    bool, opt("--fp16", "--dtype fp16: by a flag up to TensorRT 10, else the model is converted.", "Precision")
]
Bf16Option = Annotated[bool, opt("--bf16", "--dtype bf16: by a flag of TensorRT 10, else as --fp16.", "Precision")]


class Types(NamedTuple):
    """What the products are computed with; a prediction is of the same."""

    dtype: DtypeOption = "model"
    fp16: Fp16Option = False
    bf16: Bf16Option = False
    int8: Annotated[bool, opt("--int8", "--dtype int8: an engine needs a quantised model.")] = False
    fp8: Annotated[bool, opt("--fp8", "--dtype fp8: an engine needs a quantised model.")] = False
    strongly_typed: Annotated[bool, opt("--stronglyTyped --strongly-typed", "Take all types from the ONNX file.")] = (
        False
    )
    no_tf32: Annotated[bool, opt("--noTF32 --no-tf32", "Multiply fp32 as fp32, not as TF32.")] = False

    @property
    def asked(self) -> tuple[str, ...]:
        """The precisions that are asked for, each once; none for that of the file."""
        flags = [name for name in ("fp16", "bf16", "int8", "fp8") if getattr(self, name)]
        named = [] if self.dtype == "model" else [self.dtype]
        if self.dtype not in (*PRECISIONS, "model"):
            raise UsageError(
                f"--dtype {self.dtype} is not known", why="known: model, " + ", ".join(PRECISIONS), fix="--dtype fp16"
            )
        asked = list(dict.fromkeys([*named, *flags, *(["fp32"] if self.no_tf32 and self.dtype != "fp32" else [])]))
        if "tf32" in asked and len(asked) > 1:
            raise UsageError(
                f"--dtype tf32 and --{asked[1] if asked[1] != 'fp32' else 'noTF32'}",
                why="products of fp32 are TF32 or they are not",
                fix="leave one away",
            )
        return tuple(asked)

    @property
    def one(self) -> str:
        """The one precision of a prediction or a model; ``model`` where none is asked for."""
        if len(self.asked) > 1:
            raise UsageError(
                f"one precision is possible here, not {' and '.join(self.asked)}",
                why="only an engine of TensorRT chooses among several",
                fix=f"--dtype {self.asked[0]}",
            )
        return "".join(self.asked) or "model"


class Tactics(NamedTuple):
    """How TensorRT chooses kernels."""

    level: Annotated[
        int | None,
        opt("--builderOptimizationLevel --builder-optimization-level", "0 to 5: how much is tried.", metavar="N"),
    ] = None
    timing_cache: Annotated[
        str, opt("--timingCacheFile --timing-cache-file", "Of TensorRT; read, then kept.", metavar="FILE")
    ] = ""
    sources: Annotated[
        str, opt("--tacticSources --tactic-sources", "+NAME,-NAME: kernels from there or not.", metavar="SPEC")
    ] = ""
    route: Annotated[
        str, opt("--setBuildRoute --set-build-route", "-KNOB=VALUE, of TensorRT 11.1.", metavar="ROUTE")
    ] = ""


AuxStreamsOption = Annotated[
    int | None, opt("--maxAuxStreams --max-aux-streams", "Streams beside the main one.", metavar="N")
]


class Plugins(NamedTuple):
    """What an engine is built with besides TensorRT, and on how many streams."""

    static_plugins: Annotated[
        list[str] | None,
        opt(
            "--staticPlugins --static-plugins --plugins",
            "A library of plugins, or the Python module of quick deployable ones; may be repeated.",
            metavar="LIB",
        ),
    ] = None
    aux_streams: AuxStreamsOption = None


_PANEL = "Engine of TensorRT"
RebuildOption = Annotated[bool, opt("--rebuild", "Build even if the same engine is kept.", _PANEL)]
BestOption = Annotated[
    bool,
    opt(
        "--best",
        "Let the builder choose among fp16, bf16 and, of a quantised model, int8: up to TensorRT 10.",
        "Precision",
    ),
]
LoadEngineOption = Annotated[
    str,
    opt(
        "--loadEngine --load-engine",
        "Build nothing: take this engine, which needs its GPU; MODEL names its nodes.",
        _PANEL,
        metavar="FILE",
    ),
]
SaveEngineOption = Annotated[str, opt("--saveEngine --save-engine", "Copy the engine there.", _PANEL, metavar="FILE")]
LayerInfoOption = Annotated[
    str,
    opt(
        "--exportLayerInfo --export-layer-info",
        "Write the layers there. .json: what TensorRT's inspector says, or, without a driver to ask it, "
        "trtprof's own document; .txt: the plan as it was printed.",
        "As trtexec tells it",
        metavar="FILE",
    ),
]
VerboseOption = Annotated[bool, opt("--verbose -v", "Tell every step on stderr.", "Result")]


class Ranges(NamedTuple):
    """The shapes that an engine serves: optimisation profiles."""

    min_shapes: Annotated[
        list[str] | None, opt("--minShapes --min-shapes", f"Smallest shapes. {_RANGE}", metavar="NAME:DIMS,...")
    ] = None
    opt_shapes: Annotated[
        list[str] | None, opt("--optShapes --opt-shapes", "Shapes to be fastest at.", metavar="NAME:DIMS,...")
    ] = None
    max_shapes: Annotated[
        list[str] | None, opt("--maxShapes --max-shapes", "Largest shapes.", metavar="NAME:DIMS,...")
    ] = None
    profile: Annotated[
        list[int] | None,
        opt(
            "--profile",
            "Number of a profile, counted from 0: the first --profile is that of the first --minShapes, "
            "--optShapes and --maxShapes, the second that of the second ones.",
            metavar="N",
        ),
    ] = None


class Memory(NamedTuple):
    """What a layer may take while it computes."""

    mem_pool_size: Annotated[
        list[str] | None,
        opt(
            "--memPoolSize --mem-pool-size",
            "Memory inside a layer: MiB, or with B, K, M or G behind the number.",
            metavar="workspace:N",
        ),
    ] = None
    workspace: Annotated[
        float | None, opt("--workspace", "The same, as older versions of trtexec spell it.", metavar="MIB")
    ] = None


def build_options(
    types: Types, tactics: Tactics, plugins: Plugins, ranges: Ranges, memory: Memory, *, best: bool = False, **more: Any
) -> BuildOptions:
    """How an engine is built; ``more`` are the fields of `BuildOptions` that not every command asks for."""
    from trtprof.engine.tensorrt import BuildOptions

    asked = types.asked
    return BuildOptions(
        fp16="fp16" in asked or best,
        bf16="bf16" in asked or best,
        int8="int8" in asked or best,
        fp8="fp8" in asked,
        tf32="fp32" not in asked,
        strongly_typed=types.strongly_typed,
        builder_optimization_level=tactics.level,
        timing_cache=tactics.timing_cache,
        tactic_sources=tactics.sources,
        build_route=tactics.route,
        static_plugins=tuple(plugins.static_plugins or ()),
        max_aux_streams=plugins.aux_streams,
        profiles=_profiles(ranges.profile, ranges.min_shapes, ranges.opt_shapes, ranges.max_shapes),
        workspace_bytes=_workspace(memory.mem_pool_size, memory.workspace),
        **more,
    )


def _profiles(
    numbers: Sequence[int] | None, least: Sequence[str] | None, best: Sequence[str] | None, most: Sequence[str] | None
) -> tuple[dict[str, ShapeRange], ...]:
    """The optimisation profiles; the n-th value of each option belongs to the n-th profile."""
    from trtprof.engine.tensorrt import ShapeRange

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
    from trtprof.source.shapes import parse_shapes

    try:
        return parse_shapes([value])
    except UsageError as error:
        what, fix = (text.replace("--shapes", option) for text in (error.what, error.fix))
        raise UsageError(what, why=error.why, fix=fix) from None


def _workspace(pools: Sequence[str] | None, mebibytes: float | None) -> int | None:
    """The size of the workspace in bytes; None leaves it to the library."""
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
