"""What may be asked of a run, and of which backend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from trtprof.base.errors import UsageError
from trtprof.diagnose import THRESHOLDS, Thresholds
from trtprof.engine.tensorrt import BuildOptions
from trtprof.runtime.session_tuning import CUDA, FLAG, SessionTuning
from trtprof.source.request import ModelRequest

GPU_BACKENDS = ("tensorrt", "tensorrt-rtx", "ort-cuda")  # Those that run on a GPU
COLLECTORS = ("auto", "nsys", "cupti")
USUAL_S = 3.0


class GpuOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What may be asked of a run on a GPU."""

    device: int | None = None  # The GPU as NVML and nvidia-smi count; None for the first that CUDA would show
    collector: str = "auto"  # ``auto``, ``nsys`` or ``cupti``
    cold_l2: bool = False  # Whether every inference gets inputs that the L2 no longer holds
    # Whether to measure the latency with a CUDA graph, too; None where nobody said, which is yes
    cuda_graph: bool | None = None
    verify: bool = False  # Whether to hold the outputs against those of ONNX Runtime on the CPU
    # How TensorRT builds; its ``backend`` and ``shapes`` are those of the run. Of ONNX Runtime only ``tf32`` counts.
    build: BuildOptions = BuildOptions()
    load_engine: str = ""  # An engine to run in place of one that is built
    save_engine: str = ""  # Where to put a copy of the engine; empty for nowhere
    rebuild: bool = False  # Build even if the same engine is kept
    confirm: int = 0  # How many kernels to measure with hardware counters, too; 0 for none
    # A file of kernels that were timed on the GPU, or `expected.NONE`; None where nobody said
    measured: str | None = None


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a run can be asked. ``warmup_ms`` and ``duration_s`` have trtexec's units.

    ``gpu`` is for backends that run on one, ``tuning`` for those of ONNX Runtime. ``thresholds`` are what the result is
    judged by, from now on, and ``command`` is what was typed.
    """

    model: ModelRequest
    load_inputs: tuple[str, ...] = ()
    seed: int = 0
    backend: str = "auto"
    threads: int = 0
    iterations: int = 10
    warmup_ms: float = 200.0
    duration_s: float | None = None  # None: until the result is good enough; `USUAL_S` on a GPU
    profile_iterations: int = 30
    recalibrate: bool = False
    gpu: GpuOptions = GpuOptions()
    tuning: SessionTuning = SessionTuning()
    thresholds: Thresholds = THRESHOLDS
    output: str = ""
    force: bool = False
    resume: bool = False
    command: str = ""


_OPTIONS = {
    "device": "--device", "collector": "--collector", "cold_l2": "--cold-l2", "cuda_graph": "--cuda-graph",
    "verify": "--verify", "load_engine": "--loadEngine", "rebuild": "--rebuild",
    "confirm": "--confirm", "save_engine": "--saveEngine", "measured": "--measured",
}  # fmt: skip
_BUILD_OPTIONS = {
    "fp16": "--fp16", "bf16": "--bf16", "int8": "--int8", "fp8": "--fp8", "tf32": "--noTF32",
    "strongly_typed": "--stronglyTyped",
    "builder_optimization_level": "--builderOptimizationLevel",
    "timing_cache": "--timingCacheFile", "static_plugins": "--staticPlugins", "max_aux_streams": "--maxAuxStreams",
    "tactic_sources": "--tacticSources", "build_route": "--setBuildRoute",
    "profiles": "--optShapes", "workspace_bytes": "--memPoolSize",
}  # fmt: skip
_OF_TENSORRT = (
    "--loadEngine",
    "--saveEngine",
    "--rebuild",
    *(name for name in _BUILD_OPTIONS.values() if name != "--noTF32"),
)


def changed_options(options: GpuOptions) -> dict[str, Any]:
    """What is asked for beside the defaults, by the spelling of its option."""
    pairs = (
        *((options, GpuOptions(), name, option) for name, option in _OPTIONS.items()),
        *((options.build, BuildOptions(), name, option) for name, option in _BUILD_OPTIONS.items()),
    )
    return {
        option: getattr(given, name)
        for given, usual, name, option in pairs
        if getattr(given, name) != getattr(usual, name)
    }


def with_flags(options: GpuOptions, settings: Mapping[str, str]) -> GpuOptions:
    """The options with some set, spelled as in `changed_options`: switches by 1 and 0, the rest as typed."""
    own = {option: name for name, option in _OPTIONS.items()}
    fields = {option: name for name, option in _BUILD_OPTIONS.items()}
    for option, text in settings.items():
        if option in own:
            options = msgspec.structs.replace(options, **{own[option]: text == "1"})
            continue
        usual = getattr(BuildOptions(), fields[option])
        value: Any = int(text) if usual is None else text
        if isinstance(usual, bool):
            value = (text == "1") != option.startswith("--no")
        build = msgspec.structs.replace(options.build, **{fields[option]: value})
        options = msgspec.structs.replace(options, build=build)
    return options


def typed_flags(options: GpuOptions) -> tuple[str, ...]:
    """What is asked for beside the defaults, as it is typed."""
    return tuple(
        (option if value or option.startswith("--no") else f"--no{option[1:]}")
        if isinstance(value, bool)
        else f"{option}={value}"
        for option, value in changed_options(options).items()
    )


def check_gpu_options(options: GpuOptions, backend: str) -> None:
    """Refuse what a backend has no use for."""
    if options.collector not in COLLECTORS:
        raise UsageError(
            f"there is no collector {options.collector!r}",
            why="known: " + ", ".join(COLLECTORS),
            fix="--collector auto",
        )
    of_no_use = {"tensorrt": (), "tensorrt-rtx": (), "ort-cuda": _OF_TENSORRT}
    unused = [name for name in changed_options(options) if name in of_no_use.get(backend, (name,))]
    if unused:
        what = (
            "runs on the CPU" if backend not in GPU_BACKENDS else "takes the model as it is and builds no engine file"
        )
        raise UsageError(
            f"{unused[0]} is of no use with the backend {backend}",
            why=f"{backend} {what}",
            fix=f"leave {' and '.join(unused)} away, or take another --backend",
        )


def check_tuning(tuning: SessionTuning, backend: str) -> None:
    """Refuse options of an ONNX Runtime session where there is none."""
    if tuning.of_cuda and backend == "ort-cpu":
        raise UsageError(
            f"{FLAG} {CUDA}{next(iter(tuning.of_cuda))} is of no use with the backend {backend}",
            why="it sets an option of the CUDA provider", fix="leave it away, or take --backend ort-cuda",
        )  # fmt: skip
    if tuning.texts and not backend.startswith("ort-"):
        raise UsageError(
            f"{FLAG} is of no use with the backend {backend}", why="it sets options of a session of ONNX Runtime",
            fix=f"leave {FLAG} {tuning.texts[0]} away, or take --backend ort-cpu",
        )  # fmt: skip


def check_ranges(options: RunOptions) -> None:
    """Refuse numbers that cannot be measured with."""
    for flag, value, least in (
        ("--iterations", options.iterations, 1),
        ("--profile-iterations", options.profile_iterations, 1),
        ("--warmUp", options.warmup_ms, 0),
        ("--duration", options.duration_s or 0, 0),
        ("--threads", options.threads, 0),
        ("--seed", options.seed, 0),
    ):
        if value < least:
            raise UsageError(
                f"{flag} {value} is not possible", why=f"it must be at least {least}", fix=f"{flag} {least}"
            )
