"""Evidence from a run on a GPU, from the artefacts of its run folder alone: kernels led to layers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from trtprof.align.gpu_kernels import TraceAlignment, align_trace
from trtprof.align.nodes import match_layers
from trtprof.align.ort_cuda import align_ort
from trtprof.analysis.evidence import Evidence, Subject
from trtprof.analysis.onnxruntime import layers_as_run, priced_layers
from trtprof.analysis.plan import PricedPlan, price_plan
from trtprof.analysis.trace import evidence_of_alignment
from trtprof.base import run_folder
from trtprof.base.kernel_counters import COUNTERS_FILE, Counters
from trtprof.base.records import Backend, Ceilings, Device, Engine, InferenceTimes, Source
from trtprof.base.run_folder import Request, RunFolder
from trtprof.base.trace import GpuTrace
from trtprof.base.trace_file import load_trace
from trtprof.base.units import format_names, format_ns
from trtprof.capture.gpu_record import NODE_EVENTS_FILE, GpuArtefact, GpuCapture, PlanArtefact
from trtprof.engine.inspector import read_layer_info
from trtprof.expected import Measured
from trtprof.hardware.clocked import at_clock, sm_clock_mhz

if TYPE_CHECKING:
    import pandas as pd


class _Aligned(NamedTuple):
    priced: PricedPlan
    alignment: TraceAlignment
    backend: Backend
    notes: tuple[str, ...] = ()


def evidence_of_gpu(folder: RunFolder) -> tuple[Evidence, Subject]:
    """What a run on a GPU knows, and what it was of."""
    request = folder.read(run_folder.REQUEST, Request)
    source = folder.read(run_folder.SOURCE, Source)
    gpu = folder.read(run_folder.GPU, GpuArtefact)
    capture = folder.read(run_folder.CAPTURE, GpuCapture)
    ceilings, clock_notes = at_clock(
        folder.read(run_folder.CEILINGS, Ceilings),
        capture.clocks_clean,
        gpu.spec,
        profiled=capture.clocks_profiled,
        max_memory_clock_mhz=gpu.live.max_memory_clock_mhz,
    )
    trace = load_trace(folder.path)
    aligned = (_tensorrt if folder.has(run_folder.PLAN) else _ort_cuda)(folder, source, trace, capture)
    evidence = evidence_of_alignment(
        trace, aligned.priced, aligned.alignment, times_of(folder.table(run_folder.LATENCY))
    )
    evidence = evidence._replace(
        latency=capture.latency,
        profiled=capture.profiled,
        graph_ns=next((mode.latency.median_ns for mode in capture.clean.modes if mode.mode == "cuda graph"), 0),
        clocks=capture.clocks_clean,
        clocks_profiled=capture.clocks_profiled,
        notes=tuple(dict.fromkeys((*_facts(capture), *clock_notes, *aligned.notes, *capture.notes, *evidence.notes))),
        versions={**evidence.versions, **capture.versions},
    )
    return evidence, Subject(
        ceilings=ceilings,
        device=folder.read(run_folder.DEVICE, Device),
        spec=gpu.spec,
        source=source,
        backend=aligned.backend,
        clock_mhz=sm_clock_mhz(capture.clocks_clean, capture.clocks_profiled),
        version=request.version,
        created=request.created,
        command=request.command,
        modes=capture.clean.modes,
        checks=capture.clean.checks,
        counters=folder.read(COUNTERS_FILE, Counters) if folder.has(COUNTERS_FILE) else None,
        measured=folder.read(run_folder.MEASURED, Measured) if folder.has(run_folder.MEASURED) else None,
    )


def times_of(samples: pd.DataFrame) -> InferenceTimes:
    """Times of inferences without the profiler and without a CUDA graph: rows of `capture.gpu_record.TIME_COLUMNS`."""
    stream = samples[samples["mode"] == "stream"]

    def column(name: str) -> tuple[int, ...]:
        return tuple(int(value) for value in stream[name])

    return InferenceTimes(
        latency_ns=column("latency_ns"),
        compute_ns=column("compute_ns"),
        enqueue_ns=column("enqueue_ns"),
        h2d_ns=column("h2d_ns"),
        d2h_ns=column("d2h_ns"),
    )


def _tensorrt(folder: RunFolder, source: Source, trace: GpuTrace, capture: GpuCapture) -> _Aligned:
    built = folder.read(run_folder.PLAN, PlanArtefact)
    priced = price_plan(read_layer_info(folder.file(built.layers_file)), source, built.facts, built.added_nodes)
    alignment = align_trace(trace, priced.document.layers, iteration_range=capture.iteration_range)
    return _Aligned(priced, alignment, built.backend)


def _ort_cuda(folder: RunFolder, source: Source, trace: GpuTrace, capture: GpuCapture) -> _Aligned:
    engine = folder.read(run_folder.ENGINE, Engine)
    shaped = layers_as_run(engine.layers, capture.inputs, capture.runtime_shapes)
    layers, fates = match_layers(source.nodes, shaped)
    priced = priced_layers(layers, fates, source, engine, {})
    events = folder.table(NODE_EVENTS_FILE)
    led = align_ort(
        trace,
        layers,
        events,
        guess_ns=_guess_ns(trace, events, capture),
        within_ns=capture.under.clock_within_ns or 1_000_000,
        matched=priced.document.layers,
    )
    return _Aligned(priced, led.alignment, engine.backend, tuple(_placed(capture)))


def _guess_ns(trace: GpuTrace, events: pd.DataFrame, capture: GpuCapture) -> int | None:
    """When ONNX Runtime's profile began on the clock of the collector, as far as that is known."""
    if capture.under.clock_guess_ns is not None or capture.iteration_range is None:
        return capture.under.clock_guess_ns
    ranges = trace.ranges[trace.ranges["name"].astype(str).str.startswith(capture.iteration_range)]
    inferences = events[events["layer"].astype(str) == ""]
    if not len(ranges) or not len(inferences):
        return None
    return int(ranges["start_ns"].min()) - int(inferences["start_ns"].min())


def _placed(capture: GpuCapture) -> Iterable[str]:
    """What did not run on the GPU."""
    for names, what in (
        (capture.under.cpu_layers, "ran on the CPU, where no kernel times them"),
        (capture.under.copy_layers, "copy between the host and the GPU"),
    ):
        if names:
            yield f"{len(names)} layers {what}: {format_names(names)}"


def _facts(capture: GpuCapture) -> Iterable[str]:
    """How it was measured, in sentences."""
    yield f"collector {capture.collector}: {capture.collector_reason}"
    clean = capture.clean
    by = "CUDA events" if clean.timed_by == "cuda events" else "the host's clock"
    for mode in clean.modes:
        parts = [
            f"{what} {format_ns(ns)}"
            for what, ns in (
                ("copies to the GPU", mode.h2d_ns),
                ("GPU", mode.compute_ns),
                ("copies back", mode.d2h_ns),
                ("enqueuing", mode.enqueue_ns),
            )
            if ns
        ]
        name = "with a CUDA graph" if mode.mode == "cuda graph" else "without the profiler"
        yield f"{name}: {format_ns(mode.latency.median_ns)} ({', '.join(parts)}; by {by})"
    if clean.no_cuda_graph:
        yield f"no CUDA graph: {clean.no_cuda_graph}"
    if clean.copies > 1:
        yield f"{clean.copies} copies of the inputs took turns, so that none was left in the L2 (--cold-l2)"
    else:
        yield "every inference has its inputs in the same place, as a deployed loop has (--cold-l2 rotates them)"
    yield from clean.notes
    yield from capture.under.notes
