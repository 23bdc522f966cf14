"""A hand-written kernel: what is asked of it, how it was made, what proves it."""

from __future__ import annotations

from typing import Literal

from trtprof.base.records import common as c
from trtprof.base.records.common import Record
from trtprof.base.records.estimate import Estimate, Expectation
from trtprof.base.records.findings import BarrierPart, LadderStep
from trtprof.base.records.model import Work


class BriefTensor(Record, frozen=True, kw_only=True):
    """A tensor that a kernel reads or writes, dense and row-major."""

    name: c.TensorName
    operand: c.Safe
    """What kernel and formulas call it."""
    role: Literal["input", "weight", "output"]
    dtype: c.Safe
    shape: tuple[c.Dim, ...]
    nbytes: c.NonNegative | None = None
    layout: c.Prose = ""


class Neighbour(Record, frozen=True, kw_only=True):
    """A node next to the kernel that could be computed in it, or is cut from it."""

    node: c.NodeName
    op_type: c.OpName
    side: Literal["producer", "consumer"]
    fused: bool
    """Whether the kernel computes it; else ``reason`` says why not."""
    reason: c.Prose = ""
    bytes: c.NonNegative = 0
    """That cross memory between the two as long as they are apart."""


class PluginBrief(Expectation, frozen=True, kw_only=True):
    """What a kernel is to compute, what it could win, and whether it should be written. Times are of one inference.

    Its expectation is what good library kernels take for all of the layer. What comes of it is an estimate but for what
    was measured: ``reachable_ns``, the net gain with its interval, ``pays_above_ns``.
    """

    layer: c.LayerName
    nodes: tuple[c.NodeName, ...]
    """That the kernel computes; others of the layer are left to layers of their own."""
    op_types: tuple[c.OpName, ...]
    formulas: tuple[c.Prose, ...]
    """What is computed, one line a node, over the operands."""
    tensors: tuple[BriefTensor, ...]
    gpu: c.Safe = ""
    """Slug of the datasheet that times are of, or what the run calls its device."""
    runs: c.NonNegative = 1
    """How often it runs in one inference."""
    work: Work | None = None
    """Of one run of what the kernel computes."""
    estimate: Estimate | None = None
    """The bound of one run of it."""
    measured_ns: c.NonNegative | None = None
    """What the present kernels take; None without a run."""
    kernels: tuple[c.KernelName, ...] = ()
    wrong: tuple[c.Prose, ...] = ()
    """What the present kernel does wrong, by the findings of the run."""
    neighbours: tuple[Neighbour, ...] = ()
    barrier: tuple[BarrierPart, ...] = ()
    ladder: tuple[LadderStep, ...] = ()
    """Cheaper ways, in the order in which to try them."""
    reachable_ns: c.NonNegative | None = None
    """What the kernel should take: what kernels of its class reach, or what is predicted of one that was written."""
    basis: c.Prose = ""
    """Where that is from."""
    pays_above_ns: c.NonNegative | None = None
    """The present kernels must take more than this for the kernel to win anything: ``reachable_ns`` and the barrier."""
    net_ns: int | None = None
    net_low_ns: int | None = None
    net_high_ns: int | None = None
    """What the kernel wins less what it costs; None where nothing tells it."""
    verdict: Literal["write it", "try first", "do not", "not decided"]
    why: c.Prose
    doubts: tuple[c.Prose, ...] = ()


class KernelBuild(Record, frozen=True, kw_only=True):
    """A kernel compiled for one architecture."""

    architecture: c.Safe
    """``sm_89``."""
    registers: c.NonNegative
    """Of a thread."""
    spill_bytes: c.NonNegative
    shared_bytes: c.NonNegative
    """Of a block, static."""
    blocks_per_sm: c.NonNegative
    occupancy: c.Fraction
    bandwidth: c.Fraction | None = None
    """Predicted share of the bandwidth of DRAM that it draws, at the shapes of the task; see `plugin.build`."""
    basis: c.Prose = ""
    dropped: c.Prose = ""
    """Why the variant is not used there, in words; empty where it is."""


class KernelVariant(Record, frozen=True, kw_only=True):
    """One of the kernels that were written for a task."""

    tactic: int
    entry: c.Safe
    label: c.Safe
    why: c.Prose
    builds: tuple[KernelBuild, ...] = ()


class NumericCase(Record, frozen=True, kw_only=True):
    """A kernel executed on some inputs, beside float64."""

    tactic: int
    architecture: c.Safe
    what: c.Safe
    """Shapes, alignment and values, in words."""
    ok: bool
    worst: float | None
    """Largest error of an element in units of the rounding floor; None where it did not run to its end."""
    reason: c.Prose = ""


class Traffic(Record, frozen=True, kw_only=True):
    """DRAM traffic that was counted while a kernel was executed, beside what is predicted. Sectors are 32 bytes."""

    tactic: int
    shapes: c.Safe
    predicted_bytes: c.NonNegative
    counted_bytes: c.NonNegative
    """Distinct sectors of every buffer, times 32."""
    requested_bytes: c.NonNegative
    """Sectors of every instruction of a warp: what L1 is asked for."""
    bank_conflicts: c.NonNegative
    """Shared-memory passes beyond the one that an instruction needs."""
    ok: bool
    reason: c.Prose = ""


class CheckStep(Record, frozen=True, kw_only=True):
    """One of the checks that need no GPU."""

    name: Literal["numerics", "traffic", "registry", "native", "onnxruntime", "tensorrt-rtx"]
    verdict: Literal["passed", "failed", "not here"]
    """``not here``: what it needs is not installed, and ``reason`` says what."""
    reason: c.Prose = ""
    cases: c.NonNegative = 0
    seconds: float = 0.0


class PluginCheck(Record, frozen=True, kw_only=True):
    """What was checked without a GPU."""

    steps: tuple[CheckStep, ...]
    numerics: tuple[NumericCase, ...] = ()
    """Those that failed, and of each variant the worst that passed."""
    traffic: tuple[Traffic, ...] = ()


class Inserted(Record, frozen=True, kw_only=True):
    """A model with a plugin in it."""

    model: c.FileName
    places: tuple[tuple[c.NodeName, ...], ...]
    """Nodes that each custom node replaces."""
    function: bool
    """Whether the custom node has the original nodes as its function."""
    left: tuple[c.Prose, ...] = ()
    """Places that look alike and were left, with the reason."""


class Plugin(Record, frozen=True, kw_only=True):
    """The document of `trtprof plugin`."""

    schema_version: int
    model: c.Safe
    name: c.Safe
    """Of the plugin."""
    version: c.Safe
    brief: PluginBrief
    template: c.Safe = ""
    """That wrote the kernel; empty where none fits."""
    refused: dict[c.Safe, c.Prose] = {}
    """What each template does not know of the task."""
    variants: tuple[KernelVariant, ...] = ()
    inserted: Inserted | None = None
    check: PluginCheck | None = None
    files: tuple[c.FileName, ...] = ()
    """That were written, below ``folder``."""
    folder: c.FileName = ""
    notes: tuple[c.Prose, ...] = ()


class BenchSide(Record, frozen=True, kw_only=True):
    """One of two things that took turns on a GPU."""

    what: c.Prose
    median_ns: c.NonNegative
    n: c.NonNegative


class BenchCheck(Record, frozen=True, kw_only=True):
    """Outputs on a GPU that were held against what they are to be."""

    what: c.Prose
    """A variant alone, beside float64; or the engine with it, beside the one without, on some inputs."""
    ok: bool
    worst: float | None = None
    """Largest error over what is allowed; None where none is told."""
    reason: c.Prose = ""


class PluginBench(Record, frozen=True, kw_only=True):
    """A kernel and an engine with it, measured on a GPU: the document of `trtprof plugin bench`."""

    schema_version: int
    name: c.Safe
    layer: c.LayerName = ""
    gpu: c.Safe
    created: c.Safe
    verdict: Literal["faster", "slower", "inconclusive", "incorrect"]
    """Of the engine with the plugin beside the one without."""
    why: c.Prose
    doubts: tuple[c.Prose, ...] = ()
    checks: tuple[BenchCheck, ...] = ()
    tactic: int = 0
    """The variant that was timed: the fastest alone; 0 where none was."""
    raced_ns: dict[c.Safe, c.NonNegative] = {}
    """Median of each variant in the race, by its label."""
    alone: BenchSide | None = None
    """The kernel, with cold inputs."""
    kernel: tuple[BenchSide, BenchSide] | None = None
    """Rival and kernel alone: products of a library, or the present kernels by the run, which took no turns
    (``n`` 0)."""
    kernel_gain: c.Interval | None = None
    """Of the kernel over the rival, where both took turns: times before over after."""
    worst: float | None = None
    """Largest error of an output of the kernel alone, over what is allowed."""
    bandwidth: c.Fraction | None = None
    """Of what the GPU was measured to reach."""
    sol_ns: c.NonNegative | None = None
    """Speed of light: no correct kernel takes less where its inputs are not in a cache."""
    score: float | None = None
    """1 / (1 + (Tk - Tsol) / (Tb - Tsol)): 0.5 is as fast as the rival, 1 the speed of light."""
    engine: tuple[BenchSide, BenchSide] | None = None
    """The engine without the plugin and with it."""
    engine_gain: c.Interval | None = None
    clocks_mhz: tuple[c.NonNegative, ...] = ()
    """Of the SMs while the kernel was timed: least, median, most."""
    versions: dict[c.Safe, c.Safe] = {}
    notes: tuple[c.Prose, ...] = ()


class PluginBenches(Record, frozen=True, kw_only=True):
    """The plugins that were measured for layers of a run, by their name, the latest of each."""

    schema_version: int
    benches: tuple[PluginBench, ...]
