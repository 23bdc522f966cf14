"""What any source knows of how an engine ran, and nothing that follows from it; `analysis.run` does the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from trtprof import __version__
from trtprof.analysis.plan import PricedPlan, price_plan, unpriced, without_model
from trtprof.analysis.producer import Producer
from trtprof.base import records
from trtprof.base.kernel_counters import Counters
from trtprof.base.latency import latency_of, latency_of_sum, median_ns
from trtprof.base.trace import Transfer
from trtprof.diagnose.ledger import Overheads
from trtprof.expected import Measured

Lack = tuple[str, str]  # What makes a result less sure: in a few words for the verdict, and in a sentence

NO_LAYERS: Lack = (
    "no layer information",
    "without layer information (--layers), or the model (--onnx) beside NVTX ranges, no layer has a price",
)


class Evidence(NamedTuple):
    """What was measured of an engine, from whatever source."""

    engine: PricedPlan  # The layers that the times are of, with their work
    layers_ns: Sequence[int | None]  # Time of each layer in one inference; None where it has none
    kernels: Sequence[tuple[records.Match, ...]]  # Of each layer, as far as they are known
    latency: records.Latency  # Of one inference; of no sample (``n`` is 0) where it is not end-to-end
    profiled: records.Latency  # The same while the layers were timed
    # What lies outside of the layers in the latency; None where that is the host's call.
    overheads: Overheads | None = Overheads()
    # Shares of the time of all kernels; None to take those of the layers by how they were matched.
    coverage: records.Coverage | None = None
    captured_ns: int = 0  # Time of all kernels that are in ``kernels`` or ``unattributed``
    unattributed: tuple[records.Match, ...] = ()  # Kernels of no layer
    unattributed_ns: int = 0  # Their time in one inference
    resolution_ns: int = 1  # Step of the clock that timed the layers
    # What the kernels of a profiled inference take together, less ``layers_ns`` and ``unattributed_ns``: medians
    # do not add up.
    adding_ns: int = 0
    # Time of a profiled inference in which no layer ran: the median over inferences of what each spent between
    # its kernels, less the profiler's own; where only medians of layers are known, what they leave.
    gap_ns: int = 0
    enqueue_ns: int = 0  # In which the host enqueued it; 0 where that is not known
    end_to_end: bool = True  # Whether the latency is one
    lacking: tuple[Lack, ...] = ()  # What makes the result less sure
    implausible: tuple[Lack, ...] = ()  # What of the files that it is from cannot be so (`trtprof.analysis.plausible`)
    notes: tuple[str, ...] = ()  # What else is to be said
    versions: Mapping[str, str] = {}  # Of what measured it
    graph_ns: int = 0  # Latency of the same inference as a CUDA graph; 0 where it was not measured
    clocks: records.ClockSummary | None = (
        None  # Of the GPU while the latency was measured; None where they were not sampled
    )
    clocks_profiled: records.ClockSummary | None = None  # The same while the kernels were
    timeline: records.Timeline | None = None  # One inference of the capture; None where nobody saw when kernels ran
    transfers: tuple[Transfer, ...] = ()  # Copies and memsets of no layer, by direction
    speed: float = 1.0  # Of the device around the run over that when its ceilings were measured
    cpu_use: records.CpuUse | None = None  # What else used the CPUs meanwhile; None for a GPU and for files


class Subject(NamedTuple):
    """What the evidence is about, beside the layers."""

    ceilings: records.Ceilings  # Of the device that ran it, as they were during the run
    device: records.Device | None = None  # That device; None for the GPU of ``spec``
    spec: records.GpuSpec | None = None  # The datasheet of the GPU; None of a CPU
    # The model that the engine was built from, with its shapes; None where it is not at hand.
    source: records.Source | None = None
    model: records.ModelInfo | None = None  # What to say of the model where there is no source
    backend: records.Backend | None = None  # What ran it, and why that; None to take what the engine tells
    files: Mapping[str, str] = {}  # What was read, by role, where there is no backend
    clock_mhz: float | None = None  # Clock of the SMs that the ceilings are for, where it is not that of the datasheet
    version: str = __version__  # Of trtprof, when it was measured
    created: str = ""  # When it was measured
    command: str = ""  # What runs the same again
    modes: tuple[records.ModeTimes, ...] = ()  # Times of a run on a GPU without and with a CUDA graph
    checks: tuple[records.TensorCheck, ...] = ()  # Its outputs held against those of ONNX Runtime
    # Hardware counters of its kernels, or why there are none; None where nobody asked for them.
    counters: Counters | None = None
    tries: str = ""  # The command that tries what would help the model; see `diagnose.Case`
    tried: records.Tried | None = None  # What that found; None where it was not run
    # Kernels that were timed on the GPU, which correct what is expected there; None for none.
    measured: Measured | None = None


def layers_of_names(
    layers: Iterable[records.MatchedLayer], era: str, note: str, reason: str, producer: Producer
) -> PricedPlan:
    """Layers that are known by the names of NVTX ranges or kernels alone, so that nothing is known of their work."""
    plan = records.Plan(era=era, layers=tuple(matched.layer for matched in layers), notes=(producer.note, note))
    return unpriced(without_model(price_plan(plan, facts=records.EngineFacts(backend=producer.backend))), reason)


def latency_and_copies(
    times: records.InferenceTimes | None, otherwise_ns: int
) -> tuple[records.Latency, Overheads, int]:
    """The latency (without times ``otherwise_ns``, of no sample), its copies, and an inference's GPU time."""
    if times is None or not times.latency_ns:
        return latency_of_sum(otherwise_ns), Overheads(), otherwise_ns
    copies = Overheads(median_ns(times.h2d_ns), median_ns(times.d2h_ns))
    return times.summary or latency_of(times.latency_ns), copies, median_ns(times.compute_ns)
