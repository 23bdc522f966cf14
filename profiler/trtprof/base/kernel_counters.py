"""Hardware counters of kernels: what Nsight Compute (ncu) measured of single launches, and what it comes to by layer.

Counters go by the names that ncu gives them, which change with the architecture; here they are led back to one
quantity each. Names are from NVIDIA's documents (Kernel Profiling Guide; Nsight Compute CLI, "Nvprof Transition
Guide": ``dram_read_bytes`` is ``dram__bytes_read.sum``, ``dram_read_transactions`` are ``dram__sectors_read.sum`` of
32 bytes, ``flop_count_sp`` is ``smsp__sass_thread_inst_executed_op_fadd_pred_on.sum`` + ``fmul`` + 2 x ``ffma``), from
``ncu --query-metrics`` as users published it, and from NVIDIA's answer on ``sm__ops_path_tensor_*`` ("math ops
executed in Tensor path": M x N x K x 2 of a GEMM, so FLOP).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from trtprof.base.records import MatchConfidence

_SECTOR_BYTES = 32
"""Of DRAM and of the L2 (Kernel Profiling Guide, "Memory Chart")."""

DURATION = "gpu__time_duration.sum"
OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"

# The first name that a launch has counts. Those with _op_ are of Blackwell, CC 12.x.
_DRAM_READ = (("dram__bytes_read.sum", 1), ("dram__bytes_op_read.sum", 1), ("dram__sectors_read.sum", _SECTOR_BYTES))
_DRAM_WRITTEN = (
    ("dram__bytes_write.sum", 1), ("dram__bytes_op_write.sum", 1), ("dram__sectors_write.sum", _SECTOR_BYTES),
)  # fmt: skip
_DRAM_BOTH = (("dram__bytes.sum", 1), ("dram__sectors.sum", _SECTOR_BYTES))
_L2 = (("lts__t_bytes.sum", 1), ("lts__t_sectors.sum", _SECTOR_BYTES))

_PIPE = re.compile(r"sms?p?__(?:inst_executed_pipe_tensor|pipe_tensor_cycles_active)(?:_v\d+)?\.(?:sum|avg)(?:\..+)?")
"""All that the pipe ``tensor`` did."""
_HFMA2 = re.compile(r"sms?p?__inst_executed_pipe_tensor_op_hmma_type_hfma2\.sum")
"""What it did that is no matrix product: HFMA2.MMA, fp16 arithmetic that compilers also load constants with."""
_PRODUCTS = re.compile(
    r"sms?p?__inst_executed_pipe_(?:tensor_(?:subpipe_\w+_)?op_(?:imma|dmma|bmma|h?gmma|igmma|qgmma|qmma|omma)"
    r"|tensor_subpipe_\w+_op_hmma|tc)\.(?:sum|avg)(?:\..+)?|sms?p?__pipe_tc_cycles_active\.(?:sum|avg)(?:\..+)?"
)
"""Matrix products alone; ``tc`` is the pipe that tcgen05 instructions go to, CC 10.x."""
_EXECUTED = re.compile(r"sms?p?__inst_executed_pipe_tensor\.sum")
_TC_PIPE = re.compile(r"sms?p?__(?:inst_executed_pipe_tc|pipe_tc_cycles_active)\.(?:sum|avg)(?:\..+)?")
_PIPE_IS_PRODUCTS = frozenset({"7.0", "7.2", "7.5", "8.6", "8.9"})
"""Compute capabilities without a counter of HFMA2.MMA (``ncu --query-metrics`` of 2022.3 for gv100, tu102, ga102 and
ad102; ga100 and gh100 have it)."""
_TENSOR_OPS = re.compile(
    r"sms?p?__ops_path_tensor_(?P<op>op_\w+?_)?src_(?P<types>\w+?)(?P<sparsity>_sparsity_(?:off|on))?\.sum"
)
_SCALAR = re.compile(r"sms?p?__sass_thread_inst_executed_op_(?P<op>[fhd](?:add|mul|fma))_pred_on\.sum")
_SCALAR_OPS = ("fadd", "fmul", "ffma")

METRICS = (
    DURATION,
    OCCUPANCY,
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "dram__bytes_op_read.sum",
    "dram__bytes_op_write.sum",
    "lts__t_bytes.sum",
    "sm__inst_executed_pipe_tensor.sum",
    "sm__inst_executed_pipe_tensor_op_hmma_type_hfma2.sum",
    "sm__inst_executed_pipe_tc.sum",
    *(
        f"sm__ops_path_tensor_{types}.sum"
        for types in (
            "src_fp16_dst_fp16", "src_fp16_dst_fp32", "src_bf16_dst_fp32", "src_tf32_dst_fp32", "src_fp64", "src_int8",
            "src_fp8", "src_fp8_dst_fp16", "src_fp8_dst_fp32", "src_fp4_dst_fp32",
            "op_hmma_src_fp16_dst_fp16", "op_hmma_src_fp16_dst_fp32", "op_hmma_src_bf16_dst_fp32",
            "op_hmma_src_tf32_dst_fp32", "op_hgmma_src_fp16", "op_hgmma_src_bf16_dst_fp32",
            "op_hgmma_src_tf32_dst_fp32", "op_imma_src_int8", "op_igmma_src_int8",
        )
    ),
    *(
        f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum"
        for op in ("fadd", "fmul", "ffma", "hadd", "hmul", "hfma", "dadd", "dmul", "dfma")
    ),
)  # fmt: skip
"""What to ask ncu for, beside `GEOMETRY`. No architecture has all: what ncu does not know, it prints as n/a."""


GEOMETRY = tuple(f"launch__{of}_dim_{axis}" for of in ("grid", "block") for axis in "xyz")
"""The launch itself, which CSV files of 2022 and before have no columns for; since 2020.1.1 (its release notes)."""


class Counter(NamedTuple):
    """One counter of one launch, in base units."""

    value: float  # Time in ns, sizes in bytes, frequencies in Hz, shares from 0 to 1 (printed as percent), else counts
    # ``ns``, ``byte``, ``Hz``, ``1`` (a share), else what ncu prints behind the prefix: ``inst``, ``cycle``,
    # ``sector``, ``byte/s``, ``register/thread``; empty for a bare number
    unit: str = ""


class KernelCounters(msgspec.Struct, frozen=True, kw_only=True):
    """What was counted of one launch of a kernel."""

    kernel: str  # Its name, as ncu prints it
    grid: tuple[int, int, int] | None = None  # Thread blocks in x, y and z; None where the file does not tell
    block: tuple[int, int, int] | None = None  # Threads of a block in x, y and z; None where the file does not tell
    device: int = 0  # Index of the GPU
    process: int = 0  # Process ID
    capability: str = ""  # Compute capability of the GPU, as ``8.9``; empty where the file does not tell
    counters: Mapping[str, Counter] = {}  # By ncu's names

    @property
    def blocks(self) -> int:
        """Thread blocks of the launch; 0 where it is not known."""
        return _volume(self.grid)

    @property
    def threads(self) -> int:
        """Threads of a block; 0 where it is not known."""
        return _volume(self.block)

    @property
    def duration_ns(self) -> float | None:
        """How long it ran, at the clock that ncu held and without its replays."""
        if (found := self._first(((DURATION, 1), ("gpu__time_duration.avg", 1)), "ns")) is not None:
            return found
        # Section SpeedOfLight of 2020 and before: elapsed cycles and their rate.
        cycles = self._first((("sm__cycles_elapsed.avg", 1), ("sm__cycles_elapsed.max", 1)), "cycle")
        rate = self._first((("sm__cycles_elapsed.avg.per_second", 1),), "Hz")
        return cycles / rate * 1e9 if cycles is not None and rate else None

    @property
    def dram_read(self) -> float | None:
        """Bytes read from DRAM."""
        return self._first(_DRAM_READ)

    @property
    def dram_written(self) -> float | None:
        """Bytes written to DRAM while it ran; what stays in the L2 is written later, by others."""
        return self._first(_DRAM_WRITTEN)

    @property
    def dram_bytes(self) -> float | None:
        """Bytes that crossed DRAM, both ways."""
        read, written = self.dram_read, self.dram_written
        return read + written if read is not None and written is not None else self._first(_DRAM_BOTH)

    @property
    def l2_bytes(self) -> float | None:
        """Bytes that crossed the L2, from and to all of its clients."""
        return self._first(_L2)

    @property
    def occupancy(self) -> float | None:
        """Achieved occupancy: active warps as a share of the most that fit."""
        found = self.counters.get(OCCUPANCY)
        return found.value if found is not None and found.unit == "1" else None

    @property
    def tensor_cores(self) -> bool | None:
        """Whether tensor cores multiplied matrices; None where no counter tells for sure.

        What the pipe ``tensor`` did proves it only without the HFMA2.MMA instructions that take it too; that it did
        nothing proves the contrary, on CC 10.x together with its second pipe.
        """
        pipe = self._values(_PIPE)
        if self.tensor_flops or any(value > 0 for value in self._values(_PRODUCTS)):
            return True
        if not pipe:
            return None
        if not any(pipe):
            return False if not self.capability.startswith("10.") or self._values(_TC_PIPE) else None
        if self.capability in _PIPE_IS_PRODUCTS:
            return True
        other, executed = self._values(_HFMA2), self._values(_EXECUTED)
        return max(executed) > max(other) if other and executed else None

    @property
    def tensor_flops(self) -> float | None:
        """FLOP (integer operations for integers) of tensor cores; None where no counter tells."""
        by_types: dict[tuple[bool, str], dict[str, float]] = {}
        for name, one in self.counters.items():
            if (found := _TENSOR_OPS.fullmatch(name)) is not None:
                # The counters of single instructions are parts of those without one, as those of sparsity are.
                key = found["op"] is not None, (found["op"] or "") + found["types"]
                by_types.setdefault(key, {})[found["sparsity"] or ""] = one.value
        coarse = {key for key in by_types if not key[0]} or set(by_types)
        if not coarse:
            return None
        return sum(
            parts[""] if "" in parts else sum(parts.values()) for key, parts in by_types.items() if key in coarse
        )

    @property
    def scalar_flops(self) -> tuple[float, float] | None:
        """Least and most FLOP of the scalar pipes; None where not all of fp32's are told."""
        counts = {
            found["op"]: one.value
            for name, one in self.counters.items()
            if (found := _SCALAR.fullmatch(name)) is not None
        }
        if not all(op in counts for op in _SCALAR_OPS):
            return None
        low = high = 0.0
        for op, count in counts.items():
            flops = count * (2 if op.endswith("fma") else 1)
            low += flops
            high += flops * (2 if op[0] == "h" else 1)
        return low, high

    def _values(self, names: re.Pattern[str]) -> list[float]:
        return [one.value for name, one in self.counters.items() if names.fullmatch(name)]

    def _first(self, names: Iterable[tuple[str, int]], unit: str | None = None) -> float | None:
        for name, scale in names:
            found = self.counters.get(name)
            if found is not None and found.unit == (unit or ("byte" if scale == 1 else "sector")):
                return found.value * scale
        return None


COUNTERS_FILE = "counters.json"
"""`Counters` in a run folder."""


class Counters(msgspec.Struct, frozen=True, kw_only=True):
    """Artefact of ``run --confirm``: what was counted, or why nothing was."""

    version: str  # Of ncu
    command: tuple[str, ...] = ()  # Its exact command line
    launches: tuple[KernelCounters, ...] = ()  # In the order in which they were made
    failure: str = ""  # Why there are none, in words; empty where there are


class LayerCounters(msgspec.Struct, frozen=True, kw_only=True):
    """What was counted of a layer, in one inference. None where a counter is not there of every launch."""

    layer: str  # Its name
    launches: int  # How many were counted
    launched: int  # How many an inference makes of those kernels
    kernels: tuple[str, ...]  # Names of the kernels that were, as the run has them
    uncounted: tuple[str, ...] = ()  # Names of its other kernels
    confidence: MatchConfidence = "exact"  # How surely the launches are this layer's
    reason: str = ""  # By what, in words
    duration_ns: float | None = None  # Under ncu, at the clock that it held
    dram_read: float | None = None  # Bytes
    dram_bytes: float | None = None  # Read and written
    l2_bytes: float | None = None  # From and to all clients of the L2
    tensor_cores: bool | None = None  # Whether any worked
    flops_low: float | None = None  # Tensor cores and scalar pipes, at least
    flops_high: float | None = None  # The same at most
    occupancy: float | None = None  # Share of the warps that fit, weighted by time


def sum_up(parts: Sequence[tuple[float, Sequence[KernelCounters]]]) -> dict[str, float | bool | None]:
    """The counters of kernels that run after one another, as fields of `LayerCounters`."""

    def total(values: Sequence[Sequence[float | None]]) -> float | None:
        sums = 0.0
        for (times, _), own in zip(parts, values, strict=True):
            known = [value for value in own if value is not None]
            if len(known) != len(own) or not known:
                return None
            sums += times * sum(known) / len(known)
        return sums

    launches = [launch for _, own in parts for launch in own]
    fields: dict[str, float | bool | None] = {
        name: total([[getattr(launch, name) for launch in own] for _, own in parts])
        for name in ("duration_ns", "dram_read", "dram_bytes", "l2_bytes")
    }
    tensor = [launch.tensor_cores for launch in launches]
    fields["tensor_cores"] = True if True in tensor else None if None in tensor or not tensor else False
    flops = [[_flops(launch) for launch in own] for _, own in parts]
    for at, name in enumerate(("flops_low", "flops_high")):
        fields[name] = total([[None if one is None else one[at] for one in own] for own in flops])
    weighted = [(launch.occupancy, launch.duration_ns) for launch in launches]
    known = [(share, ns) for share, ns in weighted if share is not None and ns]
    time = sum(ns for _, ns in known)
    fields["occupancy"] = (
        sum(share * ns for share, ns in known) / time if known and len(known) == len(weighted) else None
    )
    return fields


def _flops(launch: KernelCounters) -> tuple[float, float] | None:
    """Least and most FLOP of a launch; None where tensor cores worked and no counter tells how much."""
    scalar = launch.scalar_flops
    if scalar is None:
        return None
    tensor = launch.tensor_flops
    if tensor is None:
        if launch.tensor_cores is not False:
            return None
        tensor = 0.0
    if not tensor and launch.tensor_cores:
        # They worked on a type whose counter was not asked for.
        return None
    return scalar[0] + tensor, scalar[1] + tensor


def _volume(dims: tuple[int, int, int] | None) -> int:
    return dims[0] * dims[1] * dims[2] if dims is not None else 0
