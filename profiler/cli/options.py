"""Options that several commands take, spelled once; trtexec's spellings are accepted beside kebab-case.

Options that are always taken together are a group: a tuple whose fields are the options, and which `command` puts in
the place of a parameter that has it as its type.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar, get_type_hints

import typer

from profiler.base.errors import UsageError
from profiler.cli import app

if TYPE_CHECKING:
    from profiler.engine.tensorrt import BuildOptions
    from profiler.source.request import ModelRequest

Command = TypeVar("Command", bound=Callable[..., None])


def command(function: Command) -> Command:
    """Register a command whose parameters are options or groups of options.

    Example:
        >>> @command
        ... def inspect(model: NamedModel, shapes: Shapes, export: Export, no_engine: ...) -> None: ...
    """
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(function).parameters.values():
        kind = hints[parameter.name]
        if not hasattr(kind, "_fields"):
            parameters.append(parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=kind))
            continue
        groups[parameter.name] = kind
        parameters += [
            inspect.Parameter(name, parameter.KEYWORD_ONLY, default=kind._field_defaults[name], annotation=annotation)
            for name, annotation in get_type_hints(kind, include_extras=True).items()
        ]

    @functools.wraps(function)
    def call(**given: Any) -> None:
        for name, kind in groups.items():
            given[name] = kind(*(given.pop(field) for field in kind._fields))
        function(**given)

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    # Those of the signature are read already; Typer would do it again.
    call.__annotations__ = {}
    app.command()(call)
    return function


ForceOption = Annotated[bool, typer.Option("--force", "-f", help="Replace what is there.")]
EngineOption = Annotated[
    bool | None,
    typer.Option(
        "--engine/--no-engine",
        help="Build an engine with TensorRT-RTX, without a GPU, and show its layers: that may take minutes, "
        "and by default none is built.",
        show_default=False,
    ),
]
TopOption = Annotated[
    int | None, typer.Option("--top", metavar="N", min=1, help="Rows of layers and findings in the text report.")
]
FailOnOption = Annotated[
    list[str] | None,
    typer.Option(
        "--fail-on",
        metavar="WHAT",
        help=(
            "Leave with exit code 1, all written, where there is such a finding: the code of a rule (RL101), a "
            "severity or worse (info, warning, critical), or lost-ms=0.5 (one that claims so much); may be repeated. "
            "Findings that doubt the numbers (TR...) count by code alone."
        ),
    ),
]
ExplainOption = Annotated[
    tuple[str, str] | None,
    typer.Option(
        "--explain",
        metavar="CODE LAYER",
        help="In place of the report: what a rule says of a layer (or an ONNX node in it), or why nothing.",
        show_default=False,
    ),
]


class NamedModel(NamedTuple):
    """The model, as an argument or as trtexec spells it."""

    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL",
            help="The ONNX model, or a PyTorch one as package.module:factory or file.py:factory.",
            show_default=False,
        ),
    ] = None
    onnx: Annotated[
        str | None, typer.Option("--onnx", metavar="FILE", help="The same as the argument, as trtexec spells it.")
    ] = None

    @property
    def name(self) -> str:
        """The model that is named.

        Raises:
            UsageError: It is named twice, or not at all.
        """
        if self.model and self.onnx:
            raise UsageError(
                "the model is named twice", why=f"{self.model} and --onnx {self.onnx}", fix="leave one away"
            )
        if not (self.model or self.onnx):
            raise UsageError("no model is named", fix="trtprof run model.onnx")
        return self.model or self.onnx or ""


ShapesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--shapes", metavar="NAME:DIMS,...", help="Input shapes, such as x:1x3x224x224,mask:1x128; may be repeated."
    ),
]


class Shapes(NamedTuple):
    """What is bound to the dynamic dimensions of a model."""

    shapes: ShapesOption = None
    batch: Annotated[int | None, typer.Option("--batch", metavar="N", help="Number for dynamic batch dimensions.")] = (
        None
    )


class Export(NamedTuple):
    """How a PyTorch module is exported."""

    dtypes: Annotated[
        list[str] | None,
        typer.Option(
            "--dtypes", metavar="NAME:DTYPE,...", help="PyTorch: dtypes of inputs, such as ids:int64,mask:bool."
        ),
    ] = None
    dynamic: Annotated[
        list[str] | None,
        typer.Option(
            "--dynamic",
            metavar="[NAME:]AXIS=DIM,...",
            help="PyTorch: dimensions to keep dynamic, such as x:0=batch,x:2=height; 0=batch is that of every input.",
        ),
    ] = None
    factory_arg: Annotated[
        list[str] | None,
        typer.Option(
            "--factory-arg", metavar="NAME=VALUE", help="PyTorch: an argument of the factory; may be repeated."
        ),
    ] = None


def model_request(model: str, shapes: Shapes, export: Export = Export(), **more: Any) -> ModelRequest:
    """The model as it is asked for; ``more`` are the other fields of `source.spec.ExportOptions`.

    Raises:
        UsageError: A shape cannot be read.
    """
    from profiler.source.request import ModelRequest

    fields = {"dtypes": export.dtypes, "dynamic": export.dynamic, "factory_args": export.factory_arg}
    more |= {name: tuple(values or ()) for name, values in fields.items()}
    return ModelRequest.of(model, shapes.shapes or (), shapes.batch, **more)


class Types(NamedTuple):
    """What TensorRT computes with."""

    fp16: Annotated[
        bool,
        typer.Option("--fp16", help="Compute in fp16: by a flag up to TensorRT 10, else the model is converted."),
    ] = False
    bf16: Annotated[bool, typer.Option("--bf16", help="Compute in bf16: by a flag of TensorRT 10.")] = False
    strongly_typed: Annotated[
        bool, typer.Option("--stronglyTyped", "--strongly-typed", help="Take all types from the ONNX file.")
    ] = False
    no_tf32: Annotated[bool, typer.Option("--noTF32", "--no-tf32", help="Multiply fp32 as fp32, not as TF32.")] = False


class Tactics(NamedTuple):
    """How TensorRT chooses kernels."""

    level: Annotated[
        int | None,
        typer.Option(
            "--builderOptimizationLevel", "--builder-optimization-level", metavar="N", help="0 to 5: how much is tried."
        ),
    ] = None
    timing_cache: Annotated[
        str,
        typer.Option("--timingCacheFile", "--timing-cache-file", metavar="FILE", help="Of TensorRT; read, then kept."),
    ] = ""


class Plugins(NamedTuple):
    """What an engine is built with besides TensorRT, and on how many streams."""

    static_plugins: Annotated[
        list[str] | None,
        typer.Option(
            "--staticPlugins", "--static-plugins", metavar="LIB", help="A library of plugins; may be repeated."
        ),
    ] = None
    aux_streams: Annotated[
        int | None,
        typer.Option("--maxAuxStreams", "--max-aux-streams", metavar="N", help="Streams beside the main one."),
    ] = None


RebuildOption = Annotated[bool, typer.Option("--rebuild", help="Build even if the same engine is kept.")]


def build_options(types: Types, tactics: Tactics, plugins: Plugins, **more: Any) -> BuildOptions:
    """How an engine is built; ``more`` are the fields of `BuildOptions` that not every command asks for."""
    from profiler.engine.tensorrt import BuildOptions

    return BuildOptions(
        fp16=types.fp16,
        bf16=types.bf16,
        tf32=not types.no_tf32,
        strongly_typed=types.strongly_typed,
        builder_optimization_level=tactics.level,
        timing_cache=tactics.timing_cache,
        static_plugins=tuple(plugins.static_plugins or ()),
        max_aux_streams=plugins.aux_streams,
        **more,
    )
