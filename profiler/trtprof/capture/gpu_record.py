"""What the workers that drive a GPU are asked, and what they and the stages around them leave behind.

A capture has two phases, each in a process of its own: ``clean`` times inferences with no profiler anywhere near, and
``profiled`` runs some under a collector. `capture.gpu_launch` starts both and joins what they found.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from trtprof.base.records import (
    Backend,
    Capture,
    ClockSummary,
    EngineFacts,
    GpuSpec,
    InputTensor,
    Latency,
    LiveGpu,
    ModeTimes,
    Record,
    Tensor,
    TensorCheck,
)
from trtprof.runtime.ort_session import SessionFacts, SessionRequest

CLEAN_FILE = "clean.json"
"""`CleanTimes`, in the run folder until the whole capture is there."""
NODE_EVENTS_FILE = "ort_nodes.parquet"
"""When the host was in which node while profiled: columns `ort_session.NODE_EVENT_COLUMNS`."""

TIME_COLUMNS = ("mode", "latency_ns", "h2d_ns", "compute_ns", "d2h_ns", "enqueue_ns")
"""Columns of the raw samples: one row an inference without the profiler.

``mode`` is ``stream`` or ``cuda graph``. ``latency_ns`` is from before the copies of the inputs to behind those of the
outputs, by the host's clock, as are ``h2d_ns`` and ``d2h_ns``; ``compute_ns`` is the time between two CUDA events, or
the host's where `CleanTimes.timed_by` says so; ``enqueue_ns`` is what the host is busy with for that, 0 where that is
not known.
"""

ITERATION_RANGE = "trtprof:iteration"
"""NVTX range that a worker puts around each profiled inference."""

CollectorName = Literal["nsys", "cupti", "none"]


class GpuWorkerRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What every worker is asked to do. ``warmup_ms`` and ``duration_s`` are trtexec's units."""

    phase: Literal["clean", "profiled"]
    folder: str  # the run folder
    scratch: str
    inputs: tuple[InputTensor, ...]
    layers: int  # number of layers, to keep the profile at a size that can be read
    seed: int
    iterations: int
    warmup_ms: float
    duration_s: float
    profile_iterations: int
    device: int = 0  # the GPU, counted as CUDA does
    cuda_graph: bool = True  # whether to measure the latency with a CUDA graph, too
    cold_l2: bool = False  # whether every inference gets inputs that the L2 cache no longer holds
    l2_bytes: int = 0  # size of the L2 cache, for that
    verify: bool = False  # whether to hold the outputs against those of ONNX Runtime's CPU provider
    collector: CollectorName = "none"
    """What watches the phase ``profiled``: CUPTI in the worker itself, or nsys around it."""


class OrtCudaRequest(GpuWorkerRequest, frozen=True, kw_only=True):
    """To `capture.cuda_worker`: ONNX Runtime with the CUDA provider."""

    session: SessionRequest
    graph_file: str  # where in the folder to leave the optimised graph of the profiled session


class TensorrtRequest(GpuWorkerRequest, frozen=True, kw_only=True):
    """To `capture.tensorrt_worker`: a built engine of TensorRT or TensorRT-RTX."""

    backend: Literal["tensorrt", "tensorrt-rtx"]
    engine: str  # the serialised engine
    plugins: tuple[str, ...] = ()  # libraries to load before the engine
    profile: int = 0  # which optimisation profile to run
    reference: SessionRequest | None = None
    """What ``verify`` holds the outputs against; None where the ONNX model is not at hand."""
    tf32: bool = True  # whether fp32 may have been computed in TF32, which ``verify`` allows for
    precision: str = ""
    """``fp16`` or ``bf16`` where the engine may compute fp32 tensors in it, which ``verify`` allows for."""


class CleanTimes(Record, frozen=True, kw_only=True):
    """What the phase ``clean`` found; the raw samples lie in the run folder as `inference.LATENCY_FILE`."""

    warmup_iterations: int
    modes: tuple[ModeTimes, ...]  # that of ``stream`` first
    timed_by: Literal["cuda events", "host clock"]
    copies: int  # as many copies of the inputs took turns; more than one with a cold L2 cache
    copy_bytes: int  # bytes of one of them
    no_cuda_graph: str = ""  # why there is no CUDA graph though it was asked for
    checks: tuple[TensorCheck, ...] = ()  # the outputs, the worst first; empty unless asked for
    begin_ns: int = 0
    """`time.monotonic_ns` before the first timed inference of the mode ``stream``; on Linux all processes share it."""
    end_ns: int = 0  # the same behind the last one of that mode
    notes: tuple[str, ...] = ()


class ProfiledTimes(Record, frozen=True, kw_only=True):
    """What the phase ``profiled`` found; with CUPTI the trace lies in the run folder (`gpu_trace_file`)."""

    latency: Latency  # of the inferences under the collector
    session: SessionFacts | None = None  # that of ONNX Runtime which was profiled
    runtime_shapes: dict[str, tuple[tuple[Tensor, ...], tuple[Tensor, ...]]] = {}  # noqa: RUF012 - msgspec copies it
    cpu_layers: tuple[str, ...] = ()  # layers of ONNX Runtime that ran on the CPU provider
    copy_layers: tuple[str, ...] = ()  # layers that copy between the host and the GPU, put in by ONNX Runtime
    clock_guess_ns: int | None = None
    """The begin of ONNX Runtime's profile on the collector's clock, for `align.ort_cuda`; None where it tells no
    time."""
    clock_within_ns: int = 0  # how far off that may be
    begin_ns: int = 0  # `time.monotonic_ns` before the first profiled inference
    end_ns: int = 0  # the same behind the last one
    notes: tuple[str, ...] = ()


class GpuCapture(Capture, frozen=True, kw_only=True):
    """Artefact of a capture on a GPU: a `Capture`, and what only its workers measure.

    ``latency`` is that of the mode ``stream``. ``profiled`` is of the same inference under the collector.
    """

    clean: CleanTimes
    under: ProfiledTimes
    iteration_range: str | None = None  # the NVTX range around each profiled inference; None where there is none
    collector_reason: str = ""  # why this collector, in words
    command: tuple[str, ...] = ()  # the exact command line of nsys
    clocks_clean: ClockSummary | None = None  # clocks, power and temperature while the clean latency was measured
    clocks_profiled: ClockSummary | None = None  # the same in the profiled window
    versions: dict[str, str] = msgspec.field(default_factory=dict)  # of the collector, as it tells them itself
    notes: tuple[str, ...] = ()


class PlanArtefact(msgspec.Struct, frozen=True, kw_only=True):
    """Artefact of the engine stage with TensorRT; what the library said of the layers lies beside it."""

    backend: Backend  # Which one, and why
    facts: EngineFacts  # How the engine came about
    layers_file: str  # In the run folder: the plan as printed by the build, or the inspector's JSON
    layers: int  # How many there are in it
    added_nodes: tuple[str, ...] = ()  # Nodes that a conversion put into the model before the build
    engine: str  # The engine file that ran


class GpuArtefact(msgspec.Struct, frozen=True, kw_only=True):
    """The GPU of a run as its driver describes it, its datasheet, and in words why this one."""

    live: LiveGpu
    spec: GpuSpec
    reason: str
