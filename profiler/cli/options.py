"""Options that several commands take, spelled once; trtexec's spellings are accepted beside kebab-case."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from profiler.base.errors import UsageError

if TYPE_CHECKING:
    from profiler.source.request import ModelRequest

ModelArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="MODEL",
        help="The ONNX model, or a PyTorch one as package.module:factory or file.py:factory.",
        show_default=False,
    ),
]
OnnxOption = Annotated[
    str | None, typer.Option("--onnx", metavar="FILE", help="The same as the argument, as trtexec spells it.")
]
ShapesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--shapes", metavar="NAME:DIMS,...", help="Input shapes, such as x:1x3x224x224,mask:1x128; may be repeated."
    ),
]
BatchOption = Annotated[int | None, typer.Option("--batch", metavar="N", help="Number for dynamic batch dimensions.")]
DtypesOption = Annotated[
    list[str] | None,
    typer.Option("--dtypes", metavar="NAME:DTYPE,...", help="PyTorch: dtypes of inputs, such as ids:int64,mask:bool."),
]
DynamicOption = Annotated[
    list[str] | None,
    typer.Option(
        "--dynamic",
        metavar="[NAME:]AXIS=DIM,...",
        help="PyTorch: dimensions to keep dynamic, such as x:0=batch,x:2=height; 0=batch is that of every input.",
    ),
]
FactoryOption = Annotated[
    list[str] | None,
    typer.Option("--factory-arg", metavar="NAME=VALUE", help="PyTorch: an argument of the factory; may be repeated."),
]
ForceOption = Annotated[bool, typer.Option("--force", "-f", help="Replace what is there.")]
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

# How TensorRT builds.
Fp16Option = Annotated[
    bool,
    typer.Option("--fp16", help="Compute in fp16: by a flag up to TensorRT 10, else the model is converted."),
]
Bf16Option = Annotated[bool, typer.Option("--bf16", help="Compute in bf16: by a flag of TensorRT 10.")]
StronglyTypedOption = Annotated[
    bool, typer.Option("--stronglyTyped", "--strongly-typed", help="Take all types from the ONNX file.")
]
NoTf32Option = Annotated[bool, typer.Option("--noTF32", "--no-tf32", help="Multiply fp32 as fp32, not as TF32.")]
BuilderLevelOption = Annotated[
    int | None,
    typer.Option(
        "--builderOptimizationLevel", "--builder-optimization-level", metavar="N", help="0 to 5: how much is tried."
    ),
]
TimingCacheOption = Annotated[
    str,
    typer.Option("--timingCacheFile", "--timing-cache-file", metavar="FILE", help="Of TensorRT; read, then kept."),
]
StaticPluginsOption = Annotated[
    list[str] | None,
    typer.Option("--staticPlugins", "--static-plugins", metavar="LIB", help="A library of plugins; may be repeated."),
]
AuxStreamsOption = Annotated[
    int | None,
    typer.Option("--maxAuxStreams", "--max-aux-streams", metavar="N", help="Streams beside the main one."),
]
RebuildOption = Annotated[bool, typer.Option("--rebuild", help="Build even if the same engine is kept.")]


def one_model(argument: str | None, option: str | None) -> str:
    """The model, named by the argument or by ``--onnx``.

    Raises:
        UsageError: It is named twice, or not at all.
    """
    if argument and option:
        raise UsageError("the model is named twice", why=f"{argument} and --onnx {option}", fix="leave one away")
    model = argument or option
    if not model:
        raise UsageError("no model is named", fix="trtprof run model.onnx")
    return model


def model_request(
    model: str,
    shapes: list[str] | None = None,
    batch: int | None = None,
    dtypes: list[str] | None = None,
    dynamic: list[str] | None = None,
    factory_args: list[str] | None = None,
    **export: Any,
) -> ModelRequest:
    """The model as it is asked for; ``export`` are the other fields of `source.spec.ExportOptions`.

    Raises:
        UsageError: A shape cannot be read.
    """
    from profiler.source.request import ModelRequest

    export |= {"dtypes": tuple(dtypes or ()), "dynamic": tuple(dynamic or ())}
    return ModelRequest.of(model, shapes or (), batch, factory_args=tuple(factory_args or ()), **export)
