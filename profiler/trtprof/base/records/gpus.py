"""Which GPUs there are."""

from __future__ import annotations

from trtprof.base.records.common import NonNegative, Record
from trtprof.base.records.estimate import GpuSpec, Roof


class LiveGpu(Record, frozen=True, kw_only=True):
    """A GPU of this machine, or a slice of one, as its driver describes it now.

    None is what the driver does not tell.
    """

    index: NonNegative
    """As NVML and nvidia-smi count, which is not always CUDA's order."""
    slice: NonNegative | None = None
    """Which MIG slice of the GPU it is; None for a whole GPU."""
    uuid: str = ""
    name: str
    compute_capability: str = ""
    sms: NonNegative | None = None
    memory_bytes: NonNegative | None = None
    memory_free_bytes: NonNegative | None = None
    l2_bytes: NonNegative | None = None
    bus_bits: NonNegative | None = None
    dram_bytes_per_s: float | None = None
    """From the highest memory clock and the width of the bus."""
    sm_clock_mhz: NonNegative | None = None
    max_sm_clock_mhz: NonNegative | None = None
    boost_mhz: NonNegative | None = None
    """What the board is rated at: GeForce and workstation boards may clock above it."""
    memory_clock_mhz: NonNegative | None = None
    max_memory_clock_mhz: NonNegative | None = None
    application_sm_clock_mhz: NonNegative | None = None
    application_memory_clock_mhz: NonNegative | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    default_power_limit_w: float | None = None
    temperature_c: NonNegative | None = None
    clock_events: tuple[str, ...] | None = None
    """In words, what holds the SM clock down just now."""
    mig: bool | None = None
    ecc: bool | None = None
    persistence: bool | None = None
    compute_mode: str | None = None
    pcie_generation: NonNegative | None = None
    max_pcie_generation: NonNegative | None = None
    pcie_width: NonNegative | None = None
    max_pcie_width: NonNegative | None = None
    driver: str = ""
    cuda: str = ""
    """The newest CUDA that the driver runs."""


class MeasuredWorks(Record, frozen=True, kw_only=True):
    """Measurements by others of one kind of work, which expectations on a GPU are learned from."""

    kind: str
    """A key of `expected.KIND_WORDS`: ``product``."""
    words: str
    """That in words: ``matrix products``."""
    dtypes: str
    """Dtypes that kernels take alike: ``16 bits``, ``fp8``, ``floats``."""
    measured: tuple[str, ...]
    """Those of them that were measured: ``bf16``."""
    rows: NonNegative
    """Measured on this GPU itself; 0 where its architecture alone was measured."""
    others: tuple[str, ...] = ()
    """Other GPUs of its architecture that were measured, by their slugs."""


class GpuSheet(Record, frozen=True, kw_only=True):
    """A datasheet and what follows from it."""

    spec: GpuSpec
    roof: Roof
    """With fp32 on the CUDA cores and, where there is a choice, sums of tensor cores kept in fp32."""
    ridge: dict[str, float]
    """FLOP per byte of DRAM traffic where the roofline of a dtype bends."""
    relative: dict[str, float] = {}
    """Its figures (`GpuSpec.figures`) over those of the first GPU, where several are compared."""
    measured: tuple[MeasuredWorks, ...] = ()
    """For which works there are expectations on it; for all others they are refused."""


class LiveSheet(Record, frozen=True, kw_only=True):
    """A GPU of this machine and the datasheet taken for it."""

    gpu: LiveGpu
    sheet: GpuSheet | None
    reason: str
    """In words, why this datasheet, or why none."""


class GpuListing(Record, frozen=True, kw_only=True):
    """GPUs at hand and GPUs known: the document of `trtprof gpus --format json`."""

    schema_version: int
    live: tuple[LiveSheet, ...]
    """Not looked for where GPUs are asked for by name."""
    live_note: str
    """In words, why there are none at hand, or what could not be read; empty where all is well."""
    gpus: tuple[GpuSheet, ...]
