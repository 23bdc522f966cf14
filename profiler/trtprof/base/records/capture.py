"""What the device did: latency, clocks, kernels, and the device itself."""

from __future__ import annotations

from typing import Literal

import msgspec

from trtprof.base.records import common as c
from trtprof.base.records.common import Record
from trtprof.base.records.engine import MatchConfidence
from trtprof.base.records.model import InputTensor, Tensor

CORES = "the cores"  # So begins a reason for which layers are no better than inferences
QUIET = 0.05
"""Share of the CPUs that others take on a quiet machine, at most; of a run's own CPU time, they take half of it."""
LayersBasis = Literal["", "inferences", "layers", "shared"]


class Latency(Record, frozen=True, kw_only=True):
    """End-to-end latency of one inference, measured **without** a profiler.

    ``cv`` is the coefficient of variation (standard deviation / mean), ``n`` the sample count.
    """

    median_ns: c.NonNegative
    p99_ns: c.NonNegative
    cv: float
    n: c.NonNegative
    mean_ns: c.NonNegative = 0
    min_ns: c.NonNegative = 0
    max_ns: c.NonNegative = 0
    p10_ns: c.NonNegative = 0
    undisturbed_ns: c.NonNegative | None = None
    """Latency of the same inference on this machine when nothing else runs; None where it cannot be determined."""
    undisturbed_low_ns: c.NonNegative | None = None
    undisturbed_high_ns: c.NonNegative | None = None
    """The 95 % interval of ``undisturbed_ns``."""
    undisturbed_basis: Literal["", "inferences", "layers"] = ""
    """``inferences``: the median of those that waited for no CPU; ``layers``: an estimate, the sum of the fast mode of
    each layer."""
    undisturbed_n: c.NonNegative = 0
    """Samples in which no thread waited for a CPU."""
    undisturbed_reason: c.Prose = ""
    """Why ``undisturbed_ns`` is None; empty where nothing was disturbed, or nobody looked (a GPU, files)."""
    regimes: c.Prose = ""
    """Two speeds or a drift in the samples, in words; empty for none."""

    @property
    def headline_ns(self) -> int:
        """The latency that counts: the median of the undisturbed inferences where there is one, else of all."""
        return self.undisturbed_ns if self.undisturbed_basis == "inferences" and self.undisturbed_ns else self.median_ns


class CpuUse(Record, frozen=True, kw_only=True):
    """What else used the CPUs while the latency and the profile of a run on a CPU were measured."""

    cpus: c.NonNegative
    """That this process may use."""
    seconds: float
    """For which this was observed."""
    own_cpus: float
    """CPUs that the measured process itself kept busy, on average."""
    others_cpus: float | None = None
    """CPUs that other processes kept busy; None where the system does not tell."""
    steal_cpus: float | None = None
    """CPUs that the hypervisor gave to other guests."""
    others: c.NonNegative | None = None
    """Other processes that used a CPU noticeably."""
    waits: bool = False
    """Whether the system reports how long threads wait for a CPU."""
    waited: float | None = None
    """Share of the time of this run's threads in which they were ready to run and had no CPU."""
    all_ran: float | None = None
    """At least this share of the time every thread of the run had a CPU; may be below 0."""
    ahead: bool = False
    """Whether the profile, and the undisturbed inferences where others disturbed, ran at a priority above others."""
    layers_basis: LayersBasis = ""
    """What the measured times of layers are from: undisturbed profiled inferences, the fast mode of each layer, or, for
    lack of both, inferences that shared the CPUs with other processes."""

    @property
    def disturbed(self) -> bool:
        """Whether other processes or guests took more than they do on a quiet machine (up to 1.7 % were seen there)."""
        taken = (self.others_cpus or 0.0) > QUIET * self.cpus or (self.steal_cpus or 0.0) > QUIET * self.cpus
        return taken or (self.waited or 0.0) > QUIET / 2


class InferenceTimes(Record, frozen=True, kw_only=True):
    """Times of every inference, as trtexec exports them: one entry an inference, all of the same length.

    Where only ``summary`` is known, they hold one entry, the median of each.
    """

    latency_ns: tuple[int, ...]
    compute_ns: tuple[int, ...]
    """On the GPU, from the first kernel to the last."""
    enqueue_ns: tuple[int, ...]
    """On the CPU."""
    h2d_ns: tuple[int, ...]
    d2h_ns: tuple[int, ...]
    summary: Latency | None = None
    """Of the latency, where its samples were not kept; its spread (``cv``) is then unknown, and 0."""
    profiled: bool = False
    """Whether layers were timed meanwhile, which takes time of its own."""


class Spread(Record, frozen=True, kw_only=True):
    """Smallest, median and largest of the readings of a quantity."""

    min: float
    median: float
    max: float


class ClockSummary(Record, frozen=True, kw_only=True):
    """What the samples of a run come to; None is what the driver did not tell."""

    samples: c.NonNegative
    duration_ns: c.NonNegative
    """From the first sample to the last."""
    sm_clock_mhz: Spread | None = None
    memory_clock_mhz: Spread | None = None
    power_w: Spread | None = None
    temperature_c: Spread | None = None
    energy_j: float | None = None
    """Used between the first sample and the last."""
    reasons: dict[c.Safe, c.Fraction] | None = None
    """What held the SM clock down, with its share of the time, largest first. Several may hold at once."""
    notes: tuple[c.Prose, ...] = ()
    """What could not be read, and why."""


class Capture(Record, frozen=True, kw_only=True):
    """Artefact of the capture stage; the kernel table and the raw samples lie beside it.

    ``profiled`` is the latency of the same inference while the profiler ran: its distance from
    ``latency`` is the profiler's own perturbation.
    """

    collector: str
    latency: Latency
    profiled: Latency
    warmup_iterations: c.NonNegative
    threads: c.NonNegative
    inputs: tuple[InputTensor, ...]
    clock_resolution_ns: c.NonNegative
    """Step of the profiler's clock; every kernel time is known to within this."""
    probe_ns: tuple[c.Positive, ...] = ()
    """Times of the speed probe (`trtprof.runtime.speed_probe`) around the measurements: one thread."""
    cpu_use: CpuUse | None = None
    undisturbed_iterations: tuple[int, ...] | None = None
    """Profiled inferences in which no thread waited for a CPU; None where nobody looked."""
    runtime_shapes: dict[str, tuple[tuple[Tensor, ...], tuple[Tensor, ...]]] = {}
    """Layer name -> tensors in and out with the shapes seen while it ran."""


class ModeTimes(Record, frozen=True, kw_only=True):
    """Times of inferences without the profiler, in one mode; medians in ns.

    ``h2d_ns`` and ``d2h_ns`` are the copies to the GPU and back, ``compute_ns`` what is between them, ``enqueue_ns``
    what the host is busy with for that, 0 where that is not known.
    """

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

    name: c.TensorName
    dtype: c.Safe
    max_abs: float
    max_rel: float
    tolerance: float
    matches: bool
    reason: c.Prose = ""


class Match(Record, frozen=True, kw_only=True):
    """Kernels of one name attributed to one layer. A kernel's time is never split."""

    layer: c.LayerName | None
    kernel: c.KernelName = msgspec.field(name="name")
    """Its name, which is what the document calls it: ``name``."""
    count: c.NonNegative
    median_ns: c.NonNegative
    total_ns: c.NonNegative
    confidence: MatchConfidence
    reason: c.Prose
    blocks: c.NonNegative = 0
    """Thread blocks of one launch, as its median; 0 where the capture does not tell, as of all that follow."""
    threads: c.NonNegative = 0
    """Threads of a block."""
    registers: c.NonNegative = 0
    """Of a thread."""
    shared_bytes: c.NonNegative = 0
    """Shared memory of a block, static and dynamic."""


class Coverage(Record, frozen=True, kw_only=True):
    """Shares of captured kernel time by how surely it was led back to ONNX nodes."""

    exact: c.Fraction
    inferred: c.Fraction
    unattributed: c.Fraction


class Device(Record, frozen=True, kw_only=True):
    """The device that ran it."""

    name: c.Safe
    kind: Literal["cpu", "gpu"]
    cores: c.NonNegative = 0
    memory_bytes: c.NonNegative = 0
    cache_bytes: c.NonNegative = 0
    clock_mhz: float | None = None
    detail: dict[c.DeviceDetail, c.DeviceDetail] = {}
