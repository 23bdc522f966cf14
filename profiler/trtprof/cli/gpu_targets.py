"""Options of the commands that ask about GPUs which need not be at hand, and the ceilings that they ask for."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple, cast

import typer

from trtprof.base.errors import UsageError
from trtprof.cli import completion
from trtprof.cli.declared import opt

if TYPE_CHECKING:
    from trtprof.base.records import Accumulate, Ceilings, GpuSpec

GpuOption = Annotated[
    list[str] | None,
    opt(
        "--gpu",
        "GPUs that `trtprof gpus` lists, or a datasheet of your own as a .toml file; may be repeated.",
        metavar="NAME,...",
        autocompletion=completion.gpus,
    ),
]
ClockOption = Annotated[
    float | None, opt("--clock", "Clock of the SMs; default: the datasheet's boost clock.", metavar="MHZ")
]
AccumulateOption = Annotated[
    str,
    opt(
        "--accumulate",
        "Accumulator where there is a choice: fp32, fp16, or auto: as tactics and kernels say, else the faster.",
        autocompletion=completion.accumulators,
        metavar="DTYPE",
    ),
]
Tf32Option = Annotated[
    bool,
    typer.Option(
        "--tf32/--no-tf32", " /--noTF32", help="Multiply fp32 as TF32 on the tensor cores, or on the CUDA cores."
    ),
]
CeilingOption = Annotated[
    list[str] | None,
    opt(
        "--ceiling",
        "Ceilings as measured in place of the datasheet's: dram=0.92TB/s, l2, launch=2us, or a dtype such as "
        "fp32=78.65TFLOP/s; may be repeated.",
        metavar="NAME=RATE,...",
    ),
]
MeasuredOption = Annotated[
    str | None,
    opt(
        "--measured",
        "Kernels that you timed on the GPU, which correct what is expected there: a CSV with a head of kind, "
        "dtype, m, n, k and ns (and batch, window, stride, shared, causal, read, written); of one GPU. Default: those "
        "that `trtprof calibrate` timed on it; none: no correction.",
        "Device",
        metavar="FILE",
    ),
]

_PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3}
_VALUE = re.compile(
    r"(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*"
    r"(?:(?P<time>ns|us|ms|s)|(?P<prefix>[kMGTP]?)(?P<unit>B/s|FLOP/s)?)"
)


class Target(NamedTuple):
    """A GPU that was asked for, with its ceilings as asked for."""

    spec: GpuSpec
    ceilings: Ceilings


def names(values: Sequence[str] | None) -> list[str]:
    """The items of an option that takes lists with commas and may be repeated, each once, in order."""
    items = [item.strip() for value in values or () for item in value.split(",")]
    return list(dict.fromkeys(item for item in items if item))


def parse_accumulate(value: str) -> Accumulate:
    """The value of ``--accumulate``."""
    if value in ("auto", "fp32", "fp16"):
        return cast("Accumulate", value)
    raise UsageError(
        f"--accumulate {value} is not possible", why="tensor cores add in fp32 or fp16", fix="--accumulate auto"
    )


def parse_ceilings(values: Sequence[str] | None) -> dict[str, float]:
    """``--ceiling`` values: name -> FLOP/s, B/s, or s where a time is given, as `gpus.ceilings` takes them."""
    from trtprof.base.units import DTYPE_BITS
    from trtprof.hardware.gpus import OVERRIDES, SHORT_DTYPES

    found: dict[str, float] = {}
    for item in names(values):
        name, equals, text = (part.strip() for part in item.partition("="))
        match = _VALUE.fullmatch(text)
        if not equals or not name or match is None:
            raise UsageError(
                f"--ceiling {item!r} cannot be read",
                why="it is a name, '=' and a rate, or a time for launch",
                fix="--ceiling dram=0.92TB/s,fp32=78.65TFLOP/s,launch=2us",
            )
        if name not in (*OVERRIDES, "tf32", *SHORT_DTYPES, *DTYPE_BITS):
            raise UsageError(
                f"--ceiling {item!r} cannot be used",
                why=f"there is no ceiling {name!r}; known: {', '.join(OVERRIDES)}, and dtypes such as fp32 or int8",
                fix="--ceiling dram=0.92TB/s,fp32=78.65TFLOP/s,launch=2us",
            )
        unit = "s" if match["time"] else match["unit"]
        proper = {"dram": "B/s", "l2": "B/s", "launch": "s"}.get(name, "FLOP/s")
        if unit not in (None, proper):
            raise UsageError(
                f"--ceiling {item!r} has the wrong unit",
                why=f"{name} is given in {proper}, or as a plain number of it",
                fix="--ceiling dram=0.92TB/s,fp32=78.65TFLOP/s,launch=2us",
            )
        if name in found:
            raise UsageError(f"--ceiling names {name!r} twice", why="a ceiling has one value", fix="leave one away")
        scale = _SECONDS.get(match["time"], 1.0) if match["time"] else _PREFIXES[match["prefix"]]
        value = float(match["number"]) * scale
        if not math.isfinite(value):
            raise UsageError(
                f"--ceiling {item!r} is not possible", why="no device is that fast", fix="--ceiling dram=0.92TB/s"
            )
        found[name] = value
    return found


def ceilings_for(
    gpus: Sequence[str] | None,
    *,
    tf32: bool = True,
    accumulate: str = "auto",
    clock_mhz: float | None = None,
    ceiling: Sequence[str] | None = None,
) -> list[Target]:
    """The GPUs that ``--gpu`` names, each with the ceilings that the other options ask for, in order."""
    from trtprof.hardware import gpus as datasheets

    accumulator = parse_accumulate(accumulate)
    overrides = parse_ceilings(ceiling)
    found: dict[str, Target] = {}
    for name in names(gpus):
        spec = datasheets.find(name)
        roof = datasheets.ceilings(spec, tf32=tf32, accumulate=accumulator, clock_mhz=clock_mhz, overrides=overrides)
        if found.setdefault(spec.slug, Target(spec, roof)).spec != spec:
            raise UsageError(
                f"--gpu names two datasheets {spec.slug!r}",
                why="one of them is a file of the same name",
                fix="give the file another name",
            )
    return list(found.values())
