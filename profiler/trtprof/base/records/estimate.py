"""What it should take: ceilings, datasheets and estimates."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple, get_args

from trtprof.base.records.common import NonNegative, Positive, Prose, Record, Safe

Accumulate = Literal["auto", "fp32", "fp16"]
"""What products are added up in where there is a choice; ``auto``: as each tactic or kernel says, else the faster."""


class Roof(Record, frozen=True, kw_only=True):
    """Ceilings of one kind: what each unit of the device and each level of its memory can do.

    What has no ceiling of its own (a dtype, a function) is bounded by another one: `predict.roofline` says by which.
    """

    tensor_flops_per_s: dict[Safe, Positive]
    """Multiply-accumulates, 2 FLOP each, by the dtype of what is multiplied: on the matrix units of a
    GPU where they take that dtype. ``tf32`` stands for fp32 rounded to TF32."""
    fp32_accumulate_flops_per_s: dict[Safe, Positive] = {}
    """Those of ``tensor_flops_per_s`` that are slower where products are added up in fp32, as on GeForce; empty where
    there is no such difference, or one accumulator was asked for."""
    vector_flops_per_s: dict[Safe, Positive]
    """All other arithmetic by dtype: the CUDA cores of a GPU."""
    special_per_s: dict[Safe, Positive] = {}
    """Evaluations by special function, a key of `units.SPECIAL_FLOPS`."""
    dram_bytes_per_s: Positive
    """Of any kernel."""
    dram_out_of_place_bytes_per_s: dict[Safe, Positive] = {}
    """Of kernels that do not write where they read: a CPU reads a line of memory before it writes to it, which
    costs them bandwidth. By pattern: ``read`` writes nothing, ``add`` a third of its bytes, ``copy`` half.
    Empty where that makes no difference."""
    cache_bytes_per_s: Positive
    """Of the last-level cache: the L2 of a GPU."""


class Measurement(Record, frozen=True, kw_only=True):
    """A quantity as measured: a ceiling is the best of its repeats, a floor their median.

    ``what`` names the workload behind it, ``spread`` is (max - min) / median of the repeats and None for a single one.
    """

    value: float
    unit: Literal["FLOP/s", "B/s", "1/s", "ns"]
    what: Safe
    repeats: NonNegative
    spread: float | None = None
    threads: NonNegative = 0
    """Threads that it was reached with; 0 on a GPU."""


DRAM_BAND = 60
"""`Ceilings.band` of bandwidths of DRAM measured on a CPU: other guests of a host use it unseen."""
DISTURBED_BAND, DISTURBED_DRAM_BAND = 30, 120
"""The same of ceilings measured beside other processes, and of DRAM: beside one spinning process the shortest times of
two threads were within 3 % for products, and up to 80 % longer for DRAM."""

BUSY_SHARE = 0.05
"""Others that keep more than this share of the usable CPUs busy disturb a measurement."""


class Ceilings(Record, frozen=True, kw_only=True):
    """The ceilings of a device and where they come from.

    ``best`` bounds ``ideal``: the datasheet on a GPU, the best ceiling measured at any thread
    count on a CPU, which has no datasheet here. ``attainable`` holds the ceilings measured as the
    run was made; of a GPU that is not at hand, the datasheet's again.
    """

    device: Safe
    source: Prose
    """In words, with the date: what was measured, or which datasheet."""
    measured_at: Safe
    origin: Literal["measured", "datasheet"] = "measured"
    """What ``attainable`` is."""
    best: Roof
    attainable: Roof
    cache_bytes: NonNegative
    """Size of the last-level cache."""
    threads: NonNegative
    fp32_flops_by_threads: dict[Safe, float] = {}
    """Peak fp32 FLOP/s at each thread count that was tried."""
    launch_ns: float
    """Time that a kernel which does nothing adds to an inference, without a profiler."""
    call_ns: float
    """Time of an inference call around an all but empty graph."""
    profiler_ns: float = 0.0
    """Time that the profiler itself adds inside the event of each kernel."""
    profiler_tensor_ns: float = 0.0
    """The same for each input and output tensor of the kernel, which the profiler writes down."""
    profiler_gap_ns: float = 0.0
    """Time that the profiler adds behind the event of each kernel, so inside that of its parent."""
    probe_ns: float = 0.0
    """Time of `trtprof.runtime.speed_probe` when the ceilings were measured; 0 where there is none."""
    measurements: dict[Safe, Measurement] = {}
    """All that was measured, ceilings that bound nothing included (``dram read``, ``h2d``)."""
    clocks_mhz: dict[Safe, float] = {}
    """Clock of the device ``before``, ``during`` and ``after`` the measurement, where it can be read; of a GPU also
    that of its ``memory`` meanwhile, as NVML counts it."""
    extent: Literal["full", "quick"] = "full"
    """A ``quick`` set has what the models needed that ran, at the run's own thread count alone."""
    band: NonNegative = 0
    """Percentage by which sets of one machine differ at most; bounds of a run on a CPU are computed with rates that
    are higher by it."""
    cpus: NonNegative = 0
    """CPUs that the measurement could use; 0 on a GPU."""
    others_cpus: float | None = None
    """CPUs of these that others kept busy meanwhile: processes, or other guests of the host; None where the system
    does not tell."""
    cached: bool = False

    @property
    def disturbed(self) -> bool:
        """Whether others kept more than `BUSY_SHARE` of the CPUs busy while they were measured."""
        return self.others_cpus is not None and self.others_cpus > BUSY_SHARE * self.cpus

    @property
    def bands(self) -> tuple[int, int]:
        """Percentages by which a CPU may be faster than these, and its DRAM; 0 and 0 where nobody knows."""
        band, dram = (DISTURBED_BAND, DISTURBED_DRAM_BAND) if self.disturbed else (self.band, DRAM_BAND)
        return (max(band, self.band), dram) if self.band else (0, 0)


class Corrected(Record, frozen=True, kw_only=True):
    """What corrects the expectations on a GPU: kernels that were timed on it (`trtprof.expected.measured`)."""

    rows: NonNegative
    """So many of them."""
    left_out: NonNegative = 0
    """Others that say nothing: nothing is expected of their like, or the GPU cannot be that fast."""
    source: Prose
    """Name of the file that they are from."""
    gpu: Safe = ""
    """Where `trtprof calibrate` timed them: what the driver calls the GPU."""
    timed_at: Safe = ""
    """And when."""

    @property
    def brief(self) -> str:
        """In a few words."""
        counted = f"corrected by {self.rows:,} row{'s' * (self.rows != 1)} timed on"
        return f"{counted} this GPU on {self.timed_at[:10]}" if self.timed_at else f"{counted} the GPU ({self.source})"

    @property
    def words(self) -> str:
        """In a sentence."""
        how = [f"the {self.gpu}, by `trtprof calibrate`; --measured none leaves them out"] if self.timed_at else []
        how += [f"{self.left_out:,} more said nothing of it"] if self.left_out else []
        return f"expectations are {self.brief}" + (f" ({'; '.join(how)})" if how else "")


class CeilingsDocument(Record, frozen=True, kw_only=True):
    """The document of `trtprof calibrate --format json`."""

    schema_version: int
    ceilings: Ceilings
    ridge_flop_per_byte: dict[str, float]
    """By dtype, the FLOP per byte of DRAM traffic from which on multiply-accumulates bound the time."""
    kept_in: str = ""
    """The file that keeps them; empty where none could be written."""
    age_days: NonNegative | None = None
    """Whole days since they were measured, of kept ones."""
    kernels: Corrected | None = None
    """On a GPU, the kernels that were timed, which correct what is expected there; None where none say anything."""
    kernels_kept_in: str = ""
    """The file that keeps them; empty where there is none."""
    kernels_notes: tuple[Prose, ...] = ()
    """What else is to be said of them."""


Bound = Literal["tensor", "vector", "sfu", "dram", "l2", "launch", "none", "unknown"]
"""What a layer's time is bounded by: multiply-accumulates, other arithmetic, special functions, DRAM,
the last-level cache (the L2 of a GPU), or the time of an empty kernel."""


class BoundWords(NamedTuple):
    """What bounds a layer as documents for people say it; documents for programs hold the key."""

    word: str
    """For a column or a legend; `trtprof help` explains each."""
    phrase: str
    """For a sentence: bound by ..."""
    side: str
    """Which of the two sides of a roofline it is, where it is one."""


BOUND_WORDS: dict[str, BoundWords] = {
    "tensor": BoundWords("compute", "multiply-accumulates", "compute"),
    "vector": BoundWords("vector", "other arithmetic", "compute"),
    "sfu": BoundWords("special", "special functions", "compute"),
    "dram": BoundWords("memory", "DRAM", "memory"),
    "l2": BoundWords("cache", "the last-level cache", "memory"),
    "launch": BoundWords("launch", "the time of an empty kernel", "launch"),
    "none": BoundWords("none", "nothing", "none"),
    "unknown": BoundWords("unknown", "what is not known", "unknown"),
}
"""By `Bound`: the only place that says one in words."""


def bound_name(bound: str, device: Literal["cpu", "gpu"] = "gpu") -> str:
    """What bounds a layer, in a word: the last-level cache of a GPU is its L2."""
    return "L2" if bound == "l2" and device == "gpu" else BOUND_WORDS[bound].word if bound in BOUND_WORDS else bound


def ceiling_name(key: str, device: Literal["cpu", "gpu"] = "gpu") -> str:
    """What a measurement of a ceiling is of, in words: ``best memory read`` of ``best dram read``."""
    return " ".join(bound_name(word, device) for word in key.split(" "))


class Estimate(Record, frozen=True, kw_only=True):
    """What a layer should take. ``terms`` are the times in ns that competed for ``attainable_ns``."""

    ideal_ns: NonNegative
    attainable_ns: NonNegative
    roofline_ns: NonNegative
    """``attainable_ns`` before the launch floor."""
    bound: Bound
    runner_up: Bound = "none"
    """The term that ``bound`` beat."""
    terms: dict[Safe, int] = {}
    dram_bytes: NonNegative = 0
    cache_bytes: NonNegative = 0
    """Bytes that the cache model finds in the last-level cache; the rest is ``dram_bytes``."""


ExpectedBasis = Literal["measured", "corrected", "architecture", "extrapolated", "product", "none"]
"""What an expectation rests on, the surest first.

``measured``: measurements on this GPU, of shapes around this one. ``corrected``: kernels that were timed on this GPU
move what is expected there. ``architecture``: measurements on other GPUs of its architecture, or on it in another dtype
that kernels take alike. ``extrapolated``: the shape lies outside of those that were measured, corrected or not.
``product``: a convolution of which nothing like it was measured, as the matrix product that it is. ``none``: there is
no expectation.
"""

EXPECTED_BASES: tuple[ExpectedBasis, ...] = get_args(ExpectedBasis)

FIRM: frozenset[ExpectedBasis] = frozenset({"measured", "corrected", "architecture"})
"""Bases that a verdict may rest on.

Outside of the shapes that were measured trees know no more than of the nearest one, and how far they are off grows with
the distance; so what rests on another basis is shown only.
"""

WIDER_BASES: frozenset[ExpectedBasis] = frozenset({"architecture", "extrapolated", "product"})
"""Bases whose band is the wider one of what was not measured itself."""


class Expectation(Record, frozen=True, kw_only=True):
    """What good library kernels take for one layer, learned from measurements by others (`trtprof.expected`).

    An estimate of another kind than a bound: half of such kernels are faster than ``expected_ns``, a tenth than
    ``expected_p10_ns``, nine tenths than ``expected_p90_ns``. All are None where there is none.
    """

    expected_ns: NonNegative | None = None
    expected_p10_ns: NonNegative | None = None
    expected_p90_ns: NonNegative | None = None
    expected_basis: ExpectedBasis = "none"
    """What it rests on; of a sum the least sure basis in it."""
    expected_reason: Prose = ""
    """In words, why there is none, or why the band is that of what was not measured itself."""

    @property
    def firm(self) -> bool:
        """Whether there is one that a verdict may rest on; see `FIRM`."""
        return self.expected_basis in FIRM


def least_sure(expectations: Iterable[Expectation]) -> ExpectedBasis:
    """The least sure basis of some expectations, as that of their sum; those that there are not do not count."""
    bases = [one.expected_basis for one in expectations if one.expected_ns is not None]
    return max(bases, key=EXPECTED_BASES.index, default="none")


class MeasuredRow(Record, frozen=True, kw_only=True):
    """One measurement by others, to be shown beside an expectation."""

    source: Prose
    gpu: Safe
    """Its slug."""
    dtype: Safe
    shape: Prose
    """As its source writes it."""
    ns: NonNegative


class Figure(Record, frozen=True, kw_only=True):
    """A number of a datasheet and how far it can be trusted.

    ``published`` by the vendor, or by others who quote the vendor; ``derived`` from published numbers by
    a formula; ``weak``: from a single source that quotes nobody, or from sources that disagree.
    """

    value: float
    kind: Literal["published", "derived", "weak"]
    source: str


class GpuSpec(Record, frozen=True, kw_only=True):
    """The datasheet of a GPU. Peaks are dense: what structured sparsity promises is never in them."""

    slug: str
    """What ``--gpu`` takes: ``rtx-4090``."""
    name: str
    nvml_names: tuple[str, ...] = ()
    """What the driver calls it, exactly."""
    architecture: str
    compute_capability: str
    product_class: Literal["datacenter", "workstation", "geforce", "jetson"]
    sms: Figure
    boost_mhz: Figure
    tensor_mhz: Figure
    """Clock behind the peaks of the tensor cores."""
    memory_bytes: Figure
    dram_bytes_per_s: Figure
    l2_bytes: Figure
    l2_bytes_per_s: Figure
    tdp_w: Figure
    vector_flops_per_s: dict[str, Figure]
    """CUDA cores, by dtype."""
    tensor_flops_per_s: dict[str, dict[str, Figure]]
    """Tensor cores, by dtype of the operands, then of the accumulator."""
    launch_ns: Figure
    """An empty kernel in a CUDA graph."""
    note: str = ""
    origin: str = ""
    """The file that it is from, or ``derived`` from the properties of a device."""

    @property
    def figures(self) -> dict[str, Figure]:
        """All its figures by what they are called: first those of the board, then peaks by dtype."""
        board = {
            "SMs": self.sms,
            "boost clock": self.boost_mhz,
            "tensor clock": self.tensor_mhz,
            "memory": self.memory_bytes,
            "bandwidth": self.dram_bytes_per_s,
            "L2": self.l2_bytes,
            "L2 bandwidth": self.l2_bytes_per_s,
            "power": self.tdp_w,
            "launch": self.launch_ns,
        }
        vector = {f"{dtype} CUDA cores": figure for dtype, figure in self.vector_flops_per_s.items()}
        tensor = {
            f"{dtype} tensor cores ({accumulator})": figure
            for dtype, by in self.tensor_flops_per_s.items()
            for accumulator, figure in by.items()
        }
        return board | vector | tensor
