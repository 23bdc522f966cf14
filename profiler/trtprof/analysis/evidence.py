"""What any source knows of how an engine ran, and nothing that follows from it.

A profile of ONNX Runtime, a run on a GPU, a capture, sums of kernels and a profile of layers each make one
(`trtprof.analysis.cpu`, ``gpu``, ``trace``, ``sums``, ``profile``); `trtprof.analysis.run` does the rest for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from trtprof import __version__
from trtprof.analysis.plan import PricedPlan, price_plan, unpriced, without_model
from trtprof.analysis.producer import Producer
from trtprof.base.kernel_counters import Counters
from trtprof.base.latency import latency_of, latency_of_sum, median_ns
from trtprof.base.records import (
    Backend,
    Ceilings,
    ClockSummary,
    Coverage,
    Device,
    EngineFacts,
    GpuSpec,
    InferenceTimes,
    Latency,
    Match,
    MatchedLayer,
    ModelInfo,
    ModeTimes,
    Plan,
    Source,
    TensorCheck,
    Timeline,
    Tried,
)
from trtprof.base.trace import Transfer
from trtprof.diagnose.ledger import Overheads
from trtprof.expected import Measured

Lack = tuple[str, str]
"""What makes a result less sure: in a few words for the verdict, and in a sentence."""

NO_LAYERS: Lack = (
    "no layer information",
    "without layer information (--layers), or the model (--onnx) beside NVTX ranges, no layer has a price",
)


class Evidence(NamedTuple):
    """What was measured of an engine, from whatever source.

    Attributes:
        engine: The layers that the times are of, with their work.
        layers_ns: Time of each layer in one inference; None where it has none.
        kernels: Of each layer, as far as they are known.
        latency: Of one inference; of no sample (``n`` is 0) where it is not end-to-end.
        profiled: The same while the layers were timed.
        overheads: What lies outside of the layers in the latency; None where that is the host's call.
        coverage: Shares of the time of all kernels; None to take those of the layers by how they were matched.
        captured_ns: Time of all kernels that are in ``kernels`` or ``unattributed``.
        unattributed: Kernels of no layer.
        unattributed_ns: Their time in one inference.
        resolution_ns: Step of the clock that timed the layers.
        adding_ns: What the kernels of a profiled inference take together, less ``layers_ns`` and ``unattributed_ns``:
            medians do not add up.
        gap_ns: Time of a profiled inference in which no layer ran: the median over inferences of what each spent
            between its kernels, less the profiler's own; where only medians of layers are known, what they leave.
        enqueue_ns: In which the host enqueued it; 0 where that is not known.
        end_to_end: Whether the latency is one.
        lacking: What makes the result less sure.
        implausible: What of the files that it is from cannot be so (`trtprof.analysis.plausible`).
        notes: What else is to be said.
        versions: Of what measured it.
        graph_ns: Latency of the same inference as a CUDA graph; 0 where it was not measured.
        clocks: Of the GPU while the latency was measured; None where they were not sampled.
        clocks_profiled: The same while the kernels were.
        timeline: One inference of the capture; None where nobody saw when kernels ran.
        transfers: Copies and memsets of no layer, by direction.
        speed: Of the device around the run over that when its ceilings were measured.
        probes_ns: Times of the speed probe around the measurements.
    """

    engine: PricedPlan
    layers_ns: Sequence[int | None]
    kernels: Sequence[tuple[Match, ...]]
    latency: Latency
    profiled: Latency
    overheads: Overheads | None = Overheads()
    coverage: Coverage | None = None
    captured_ns: int = 0
    unattributed: tuple[Match, ...] = ()
    unattributed_ns: int = 0
    resolution_ns: int = 1
    adding_ns: int = 0
    gap_ns: int = 0
    enqueue_ns: int = 0
    end_to_end: bool = True
    lacking: tuple[Lack, ...] = ()
    implausible: tuple[Lack, ...] = ()
    notes: tuple[str, ...] = ()
    versions: Mapping[str, str] = {}
    graph_ns: int = 0
    clocks: ClockSummary | None = None
    clocks_profiled: ClockSummary | None = None
    timeline: Timeline | None = None
    transfers: tuple[Transfer, ...] = ()
    speed: float = 1.0
    probes_ns: tuple[float, ...] = ()


class Subject(NamedTuple):
    """What the evidence is about, beside the layers.

    Attributes:
        ceilings: Of the device that ran it, as they were during the run.
        device: That device; None for the GPU of ``spec``.
        spec: The datasheet of the GPU; None of a CPU.
        source: The model that the engine was built from, with its shapes; None where it is not at hand.
        model: What to say of the model where there is no source.
        backend: What ran it, and why that; None to take what the engine tells.
        files: What was read, by role, where there is no backend.
        clock_mhz: Clock of the SMs that the ceilings are for, where it is not that of the datasheet.
        version: Of trtprof, when it was measured.
        created: When it was measured.
        command: What runs the same again.
        modes: Times of a run on a GPU without and with a CUDA graph.
        checks: Its outputs held against those of ONNX Runtime.
        counters: Hardware counters of its kernels, or why there are none; None where nobody asked for them.
        tries: The command that tries what would help the model; see `diagnose.Case`.
        tried: What that found; None where it was not run.
        measured: Kernels that were timed on the GPU, which correct what is expected there; None for none.
    """

    ceilings: Ceilings
    device: Device | None = None
    spec: GpuSpec | None = None
    source: Source | None = None
    model: ModelInfo | None = None
    backend: Backend | None = None
    files: Mapping[str, str] = {}
    clock_mhz: float | None = None
    version: str = __version__
    created: str = ""
    command: str = ""
    modes: tuple[ModeTimes, ...] = ()
    checks: tuple[TensorCheck, ...] = ()
    counters: Counters | None = None
    tries: str = ""
    tried: Tried | None = None
    measured: Measured | None = None


def layers_of_names(layers: Iterable[MatchedLayer], era: str, note: str, reason: str, producer: Producer) -> PricedPlan:
    """Layers that are known by the names of NVTX ranges or kernels alone, so that nothing is known of their work."""
    plan = Plan(era=era, layers=tuple(matched.layer for matched in layers), notes=(producer.note, note))
    return unpriced(without_model(price_plan(plan, facts=EngineFacts(backend=producer.backend))), reason)


def latency_and_copies(times: InferenceTimes | None, otherwise_ns: int) -> tuple[Latency, Overheads, int]:
    """The latency, the copies in it, and the time of an inference on the GPU.

    Without times of inferences the latency is ``otherwise_ns``, of no sample.
    """
    if times is None or not times.latency_ns:
        return latency_of_sum(otherwise_ns), Overheads(), otherwise_ns
    copies = Overheads(median_ns(times.h2d_ns), median_ns(times.d2h_ns))
    return times.summary or latency_of(times.latency_ns), copies, median_ns(times.compute_ns)
