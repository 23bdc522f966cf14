"""What a manifest may ask beside models, sizes and targets: options of `trtprof predict`, `build` and `run`.

Names are the long options of the command line. Only what decides an answer is here; where files go, what is printed
and what would be code (libraries of plugins) is not.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from trtprof.base.errors import UsageError
from trtprof.base.records import FleetCell, FleetVerb

if TYPE_CHECKING:
    from trtprof.engine.tensorrt import BuildOptions
    from trtprof.flows.options import RunOptions
    from trtprof.flows.predict.on_gpus import Settings
    from trtprof.source.request import ModelRequest

_LONG = 60  # Characters of a text that an error shows


class Option(NamedTuple):
    """An option of a manifest."""

    verbs: tuple[FleetVerb, ...]  # That take it
    default: str  # What it is where nobody says; as text, as cells have it
    takes: str  # What it takes, in words
    text: Callable[[Any], str]  # The text of a value as TOML has it; raises ValueError where it is none


def _whole(least: int, most: int = 2**31 - 1) -> Callable[[Any], str]:
    def text(value: Any) -> str:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ValueError
        return str(value)

    return text


def _number(least: float, *, open_: bool = False) -> Callable[[Any], str]:
    def text(value: Any) -> str:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError
        if value < least or (open_ and value == least):
            raise ValueError
        return f"{float(value):.12g}"

    return text


def _one_of(*known: str) -> Callable[[Any], str]:
    def text(value: Any) -> str:
        if value not in known:
            raise ValueError
        return str(value)

    return text


def _yes_no(value: Any) -> str:
    if not isinstance(value, bool):
        raise ValueError
    return "true" if value else "false"


def _words(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise ValueError
    return value.strip()


def _tuning(value: Any) -> str:
    """Values of ``--sessionOption``, in the order of its table; nothing of them holds a blank."""
    from trtprof.runtime.session_tuning import SessionTuning

    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ValueError
    found = SessionTuning.of(texts).texts
    if any(char.isspace() for text in found for char in text):
        raise ValueError
    return " ".join(found)


_SWITCH = "true or false"
_OF_BUILD: tuple[FleetVerb, ...] = ("build", "run")
OPTIONS: Mapping[str, Option] = {
    "level": Option(
        ("predict",), "auto", "auto, layers, groups or nodes", _one_of("auto", "layers", "groups", "nodes")
    ),
    "accumulate": Option(("predict",), "auto", "auto, fp32 or fp16", _one_of("auto", "fp32", "fp16")),
    "clock": Option(("predict",), "", "a number of MHz", _number(0, open_=True)),
    "cold": Option(("predict",), "false", _SWITCH, _yes_no),
    "backend": Option(
        _OF_BUILD,
        "auto",
        "auto, tensorrt or tensorrt-rtx; of run ort-cuda and ort-cpu, too",
        _one_of("auto", "tensorrt", "tensorrt-rtx", "ort-cuda", "ort-cpu"),
    ),
    "threads": Option(("run",), "0", "a whole number from 0 on", _whole(0)),
    "session-option": Option(("run",), "", "a list of KEY=VALUE, without blanks", _tuning),
    "seed": Option(("run",), "0", "a whole number from 0 on", _whole(0)),
    "iterations": Option(("run",), "10", "a whole number from 1 on", _whole(1)),
    "warmup": Option(("run",), "200", "a number of ms", _number(0)),
    "duration": Option(("run",), "3", "a number of seconds", _number(0)),
    "profile-iterations": Option(("run",), "30", "a whole number from 1 on", _whole(1)),
    "collector": Option(("run",), "auto", "auto, nsys or cupti", _one_of("auto", "nsys", "cupti")),
    "device": Option(("run",), "", "the number of a GPU, as nvidia-smi counts", _whole(0, 1023)),
    "cuda-graph": Option(("run",), "", _SWITCH, _yes_no),
    "cold-l2": Option(("run",), "false", _SWITCH, _yes_no),
    "verify": Option(("run",), "false", _SWITCH, _yes_no),
    "confirm": Option(("run",), "0", "a whole number from 0 on", _whole(0)),
    "builder-optimization-level": Option(_OF_BUILD, "", "a whole number from 0 to 5", _whole(0, 5)),
    "max-aux-streams": Option(_OF_BUILD, "", "a whole number from 0 on", _whole(0)),
    "tactic-sources": Option(_OF_BUILD, "", "+NAME,-NAME", _words),
    "set-build-route": Option(_OF_BUILD, "", "-KNOB=VALUE", _words),
    "strongly-typed": Option(_OF_BUILD, "false", _SWITCH, _yes_no),
    "workspace": Option(_OF_BUILD, "", "a number of MiB", _number(0)),
}
"""Every option by its name."""


def read(name: str, value: Any) -> str:
    """The text of an option as cells have it."""
    known = OPTIONS.get(name)
    if known is None:
        near = difflib.get_close_matches(name.lower().replace("_", "-"), OPTIONS, n=1)
        why = f"did you mean {near[0]}?" if near else f"there are {', '.join(OPTIONS)}"
        raise UsageError("no command has this option, or it decides no answer", why=why)
    try:
        return known.text(value)
    except (ValueError, TypeError, OverflowError):
        raise UsageError(f"{shown(value)} is not possible", why=f"it takes {known.takes}") from None


def shown(value: object) -> str:
    """A value of TOML in a sentence, cut where it is long."""
    if isinstance(value, int) and abs(value) >= 10**20:
        return "so large a number"  # Python refuses to write one of many digits
    if isinstance(value, str | int | float):
        text = repr(value[:_LONG]) if isinstance(value, str) else str(value).lower()
    else:
        text = "a list" if isinstance(value, list) else "a table" if isinstance(value, dict) else "a date or a time"
    return text


def taken(verb: FleetVerb, *given: Mapping[str, str]) -> dict[str, str]:
    """What a verb takes of options, later ones before earlier ones, sorted; what is as by default is left out."""
    merged = {name: text for each in given for name, text in each.items() if verb in OPTIONS[name].verbs}
    return {name: text for name, text in sorted(merged.items()) if text != OPTIONS[name].default}


def check(verb: FleetVerb, precision: str, options: Mapping[str, str]) -> None:
    """Refuse options that are possible each, but not together."""
    from trtprof.source.request import ModelRequest

    if verb == "predict":
        from trtprof.flows.predict.on_gpus import check as check_settings

        check_settings(_settings(precision, options))
        return
    backend = options.get("backend", "auto")
    if verb == "build":
        if backend.startswith("ort-"):
            raise UsageError(
                f"backend {backend} builds no engine", why="it takes the model as it is", fix="tensorrt or tensorrt-rtx"
            )
        return
    from trtprof.flows.options import check_gpu_options, check_tuning

    run = _run(ModelRequest("model.onnx"), precision, options)
    if backend != "auto":
        check_gpu_options(run.gpu, backend)
        check_tuning(run.tuning, backend)


def settings_of(cell: FleetCell) -> Settings:
    """What a prediction of a cell is asked."""
    return _settings(cell.precision, cell.options)


def build_options_of(cell: FleetCell) -> BuildOptions:
    """How the engine of a cell is built, but for its backend where nobody names one (``auto``)."""
    return _build(cell.precision, cell.options)


def run_options_of(cell: FleetCell, request: ModelRequest) -> RunOptions:
    """What a run of a cell is asked, of the model as `cells.request_of` gives it; its output is the caller's."""
    return _run(request, cell.precision, cell.options)


def _settings(precision: str, options: Mapping[str, str]) -> Settings:
    from trtprof.flows.predict.on_gpus import Settings

    return Settings(
        level=cast("Any", options.get("level", "auto")),
        precision=precision,
        accumulate=cast("Any", options.get("accumulate", "auto")),
        clock_mhz=float(options["clock"]) if "clock" in options else None,
        cold=_switched(options, "cold"),
    )


def _build(precision: str, options: Mapping[str, str]) -> BuildOptions:
    from trtprof.engine.tensorrt import BuildOptions

    return BuildOptions(
        backend=options.get("backend", "auto"),
        fp16=precision == "fp16",
        bf16=precision == "bf16",
        int8=precision == "int8",
        fp8=precision == "fp8",
        tf32=precision != "fp32",
        strongly_typed=_switched(options, "strongly-typed"),
        builder_optimization_level=_integer(options, "builder-optimization-level"),
        max_aux_streams=_integer(options, "max-aux-streams"),
        tactic_sources=options.get("tactic-sources", ""),
        build_route=options.get("set-build-route", ""),
        workspace_bytes=int(float(options["workspace"]) * 2**20) if "workspace" in options else None,
    )


def _run(request: ModelRequest, precision: str, options: Mapping[str, str]) -> RunOptions:
    from trtprof.engine.tensorrt import BuildOptions
    from trtprof.flows.options import GpuOptions, RunOptions
    from trtprof.runtime.session_tuning import SessionTuning

    def text(name: str) -> str:
        return options.get(name, OPTIONS[name].default)

    return RunOptions(
        model=request,
        seed=int(text("seed")),
        backend=text("backend"),
        threads=int(text("threads")),
        iterations=int(text("iterations")),
        warmup_ms=float(text("warmup")),
        duration_s=float(options["duration"]) if "duration" in options else None,
        profile_iterations=int(text("profile-iterations")),
        gpu=GpuOptions(
            device=_integer(options, "device"),
            collector=text("collector"),
            cold_l2=_switched(options, "cold-l2"),
            cuda_graph=_switched(options, "cuda-graph") if "cuda-graph" in options else None,
            verify=_switched(options, "verify"),
            confirm=int(text("confirm")),
            # A run says its backend once.
            build=msgspec.structs.replace(_build(precision, options), backend=BuildOptions().backend),
        ),
        tuning=SessionTuning.of(text("session-option").split()),
    )


def _switched(options: Mapping[str, str], name: str) -> bool:
    return options.get(name) == "true"


def _integer(options: Mapping[str, str], name: str) -> int | None:
    return int(options[name]) if name in options else None
