"""A custom kernel: its brief, how it was compiled, what was checked."""

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


class PluginBrief(Expectation, frozen=True, kw_only=True):
    """What a custom kernel is to compute, what it could save, and whether it should be written; times per inference.

    The expected time is that of the whole group.
    """

    layer: c.LayerName
    group: tuple[c.NodeName, ...]
    """Nodes that the engine computes together: the layer is priced as a whole."""
    nodes: tuple[c.NodeName, ...]
    op_types: tuple[c.OpName, ...]
    formulas: tuple[c.Prose, ...]
    tensors: tuple[BriefTensor, ...]
    gpu: c.Safe = ""
    runs: c.NonNegative = 1
    work: Work | None = None
    estimate: Estimate | None = None
    """Bound of one run of the kernel, as ``work`` is of one."""
    group_bound_ns: c.NonNegative | None = None
    measured_ns: c.NonNegative | None = None
    kernels: tuple[c.KernelName, ...] = ()
    wrong: tuple[c.Prose, ...] = ()
    barrier: tuple[BarrierPart, ...] = ()
    """Fusion-break cost by part."""
    ladder: tuple[LadderStep, ...] = ()
    reachable_ns: c.NonNegative | None = None
    """What the kernel should take, and ``basis`` why."""
    basis: c.Prose = ""
    pays_above_ns: c.NonNegative | None = None
    """``reachable_ns`` + fusion-break cost: the present kernels must take more."""
    net_ns: int | None = None
    net_low_ns: int | None = None
    net_high_ns: int | None = None
    """Saving minus fusion-break cost; None where it is unknown."""
    verdict: Literal["write it", "try first", "do not", "not decided"]
    why: c.Prose
    doubts: tuple[c.Prose, ...] = ()


class KernelBuild(Record, frozen=True, kw_only=True):
    """A kernel compiled for one architecture (``sm_89``): registers and spills of a thread."""

    architecture: c.Safe
    registers: c.NonNegative
    spill_bytes: c.NonNegative
    shared_bytes: c.NonNegative
    """Of a block, dynamic."""
    blocks_per_sm: c.NonNegative
    occupancy: c.Fraction
    loads: c.Prose = ""
    """``16 of 16 loads are vectors``: loads from global memory in its PTX."""


class KernelVariant(Record, frozen=True, kw_only=True):
    """One of the kernels that were written for a task."""

    tactic: int
    entry: c.Safe
    label: c.Safe
    builds: tuple[KernelBuild, ...] = ()


class NumericCase(Record, frozen=True, kw_only=True):
    """A kernel run in Triton's interpreter on some inputs, compared with ONNX Runtime."""

    tactic: int
    what: c.Safe
    ok: bool
    worst: float | None
    """Largest error of an element over what is tolerated; None where it did not run to its end."""
    reason: c.Prose = ""


class Traffic(Record, frozen=True, kw_only=True):
    """DRAM traffic counted in Triton's interpreter, beside the bytes of the roofline. Sectors are 32 bytes."""

    tactic: int
    shapes: c.Safe
    predicted_bytes: c.NonNegative
    counted_bytes: c.NonNegative
    """Distinct sectors of every operand, times 32."""
    requested_bytes: c.NonNegative
    """Distinct sectors of each load and store of each program, times 32: what L1 and L2 are asked for."""
    ok: bool
    reason: c.Prose = ""


class CheckStep(Record, frozen=True, kw_only=True):
    """One of the checks that need no GPU."""

    name: Literal["numerics", "traffic", "compiler", "registry", "onnxruntime", "tensorrt-rtx"]
    verdict: Literal["passed", "failed", "not here"]
    """``not here``: what it needs is not installed, and ``reason`` says what."""
    reason: c.Prose = ""
    cases: c.NonNegative = 0
    seconds: float = 0.0


class PluginCheck(Record, frozen=True, kw_only=True):
    """What was checked without a GPU."""

    steps: tuple[CheckStep, ...]
    numerics: tuple[NumericCase, ...] = ()
    """Those that failed, and the worst that passed of each tactic."""
    traffic: tuple[Traffic, ...] = ()


class Inserted(Record, frozen=True, kw_only=True):
    """A model with a plugin in it."""

    model: c.FileName
    places: tuple[tuple[c.NodeName, ...], ...]
    function: bool
    """Whether the custom node has the original nodes as its function."""
    left: tuple[c.Prose, ...] = ()


class Plugin(Record, frozen=True, kw_only=True):
    """The document of `trtprof plugin`."""

    schema_version: int
    model: c.Safe
    name: c.Safe = ""
    brief: PluginBrief | None = None
    """None where only a folder was checked."""
    form: c.Safe = ""
    refused: dict[c.Safe, c.Prose] = {}
    """Why each other form does not fit."""
    variants: tuple[KernelVariant, ...] = ()
    inserted: Inserted | None = None
    check: PluginCheck | None = None
    files: tuple[c.FileName, ...] = ()
    folder: c.FileName = ""


class BenchSide(Record, frozen=True, kw_only=True):
    """One of two engines or kernels."""

    what: c.Prose
    median_ns: c.NonNegative
    n: c.NonNegative
    """Samples; 0 for a time from a run."""


class BenchCheck(Record, frozen=True, kw_only=True):
    """Outputs of the engine with the plugin, compared with those of the engine without it."""

    what: c.Prose
    """Kind of inputs."""
    ok: bool
    reason: c.Prose = ""


class PluginBench(Record, frozen=True, kw_only=True):
    """The engine without a plugin and with it, measured on a GPU: the document of `trtprof plugin bench`."""

    schema_version: int
    name: c.Safe
    layer: c.LayerName = ""
    gpu: c.Safe
    created: c.Safe
    verdict: Literal["faster", "slower", "inconclusive", "incorrect"]
    """Of the engine with the plugin."""
    why: c.Prose
    doubts: tuple[c.Prose, ...] = ()
    checks: tuple[BenchCheck, ...] = ()
    kernel: tuple[BenchSide, ...] = ()
    """The present kernels, as timed in the run, and the custom kernel, as the profiler names and times it in the
    engine."""
    engine: tuple[BenchSide, BenchSide] | None = None
    """Without the plugin and with it, interleaved."""
    engine_gain: c.Interval | None = None
    """Latency before over after."""
    clocks_mhz: tuple[c.NonNegative, ...] = ()
    """SM clock while the engines were timed: least, median, most."""
    versions: dict[c.Safe, c.Safe] = {}


class PluginBenches(Record, frozen=True, kw_only=True):
    """The plugins that were measured for layers of a run, by their name, the latest of each."""

    schema_version: int
    benches: tuple[PluginBench, ...]
