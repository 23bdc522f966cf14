"""What the worker of the CUDA provider is asked, and what it leaves behind."""

from __future__ import annotations

from typing import Literal

import msgspec

from profiler.ort_session import SessionRequest
from profiler.records import Capture, InputTensor, Latency, Record

NODE_EVENTS_FILE = "ort_nodes.parquet"
"""When the host was in which node while profiled: columns `ort_session.NODE_EVENT_COLUMNS`."""

TIME_COLUMNS = ("mode", "latency_ns", "h2d_ns", "compute_ns", "d2h_ns", "enqueue_ns")
"""Columns of the raw samples: one row an inference without the profiler.

``mode`` is ``stream`` or ``cuda graph``. ``latency_ns`` is from before the copies of the inputs to behind those of the
outputs, by the host's clock, as are ``h2d_ns`` and ``d2h_ns``; ``compute_ns`` is the time between two CUDA events, or
the host's where `CudaCapture.timed_by` says so; ``enqueue_ns`` is what the host is busy with for that, 0 where that is
not known.
"""


class CudaWorkerRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What the worker is asked to do. ``warmup_ms`` and ``duration_s`` are trtexec's units."""

    session: SessionRequest
    folder: str
    scratch: str
    inputs: tuple[InputTensor, ...]
    graph_file: str
    """Where in the folder to leave the optimised graph of the profiled session."""
    layers: int
    """Number of layers, to keep the profile at a size that can be read."""
    seed: int
    iterations: int
    warmup_ms: float
    duration_s: float
    profile_iterations: int
    cuda_graph: bool = True
    """Whether to measure the latency with a CUDA graph, too."""
    cold_l2: bool = False
    """Whether every inference gets inputs that the L2 cache no longer holds."""
    l2_bytes: int = 0
    """Size of the L2 cache, for that."""
    verify: bool = False
    """Whether to hold the outputs against those of the CPU provider."""
    collector: Literal["cupti", "none"] = "cupti"


class ModeTimes(Record, frozen=True, kw_only=True):
    """Times of inferences without the profiler, in one mode: `TIME_COLUMNS` in short, medians in ns."""

    mode: Literal["stream", "cuda graph"]
    latency: Latency
    h2d_ns: int
    compute_ns: int
    d2h_ns: int
    enqueue_ns: int


class TensorCheck(Record, frozen=True, kw_only=True):
    """An output held against the same output of the CPU provider.

    ``max_abs`` and ``max_rel`` are the greatest differences, absolute and relative to the greatest magnitude in the
    tensor of the CPU; ``tolerance`` is the greatest share of what is allowed that an element takes: above 1 it is
    wrong. All are -1 where shapes or types differ, or values that are no numbers stand in different places.
    """

    name: str
    dtype: str
    max_abs: float
    max_rel: float
    tolerance: float
    matches: bool
    reason: str = ""


class CudaCapture(Capture, frozen=True, kw_only=True):
    """Artefact of a capture with the CUDA provider: a `Capture`, and what only this worker measures.

    ``latency`` is that of the mode ``stream``. ``profiled`` is of the same inference with ONNX Runtime's profiler and
    the collector on.
    """

    modes: tuple[ModeTimes, ...]
    timed_by: Literal["cuda events", "host clock"]
    copies: int
    """As many copies of the inputs took turns; more than one with a cold L2 cache."""
    copy_bytes: int
    """Bytes of one of them."""
    no_cuda_graph: str = ""
    """Why there is no CUDA graph though it was asked for."""
    cpu_layers: tuple[str, ...] = ()
    """Layers that ran on the CPU provider."""
    copy_layers: tuple[str, ...] = ()
    """Layers that copy between the host and the GPU, put in by ONNX Runtime."""
    checks: tuple[TensorCheck, ...] = ()
    """The outputs, the worst first; empty unless asked for."""
    clock_guess_ns: int | None = None
    """The begin of the profile on the collector's clock, for `align.ort_cuda`; None where it tells no time."""
    clock_within_ns: int = 0
    """How far off that may be."""
    notes: tuple[str, ...] = ()
