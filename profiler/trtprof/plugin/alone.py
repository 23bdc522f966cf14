"""A kernel alone on a GPU: is it right there, and what does it take, beside what it is to replace?

Every variant that the device can load is checked, at the sizes of the brief and at small odd ones where dimensions are
open. Outputs are poisoned twice, with different bytes, and compared with float64 (`reference`): within the rounding
floor as often as the kernel promises (`Kernel.most_error`), and, as SOL-ExecBench asks, at least 99 % of the elements
within 1e-2 + 1e-2 |y|, none of them NaN, nothing written before or behind an output. Before each timed launch it
is poisoned and more than the L2 is read, so that inputs come from DRAM; the host's time is in no launch. The fastest
variant of a race of its own takes turns with the rival: A B, B A ... **No GPU has run this yet.**
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from trtprof.runtime import child

WORKER = "trtprof.plugin.alone_worker"

WARM_UPS = 10
PAIRS = 4
TIMED = 13  # Launches of a turn: 52 in a process
RACE = 5  # Launches by which variants are told apart

GRACE_S = 240.0  # What the child may take: compiling, references in float64 on the host, and a few seconds on the GPU


class Rival(msgspec.Struct, frozen=True, kw_only=True):
    """Products that a library makes in place of the kernel: ``batch`` of (m, k) times (k, n)."""

    dtype: str
    batch: int
    m: int
    n: int
    k: int


class AloneRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be measured."""

    folder: str  # Of `trtprof plugin`; see `trtprof.plugin.folder`
    ordinal: int = 0  # Of the device, as CUDA counts those that the child may use
    uuid: str = ""  # Of the device, as NVML writes it; empty when it is not known
    tactic: int = 0  # The variant to time; 0 checks all of them first, and takes the fastest
    rival: Rival | None = None  # What takes turns with it; None for nothing
    first: int = 0  # Which begins: 0 for the rival, 1 for the kernel
    seed: int = 0  # Of the inputs


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """Outputs of a variant, held against float64."""

    tactic: int
    ok: bool  # Whether all of them are right
    # Largest error over what is allowed; None where there is none to speak of: NaN, unwritten, crashed
    worst: float | None = None
    reason: str = ""  # What is wrong


class AlonePair(msgspec.Struct, frozen=True, kw_only=True):
    """Neighbouring turns: times in ns."""

    rival: tuple[float, ...] = ()
    kernel: tuple[float, ...]


class Alone(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured."""

    gpu: str  # What the driver calls the device
    capability: tuple[int, int]  # Its compute capability
    tactic: int = 0  # The variant that was timed; 0 where none may be
    checks: tuple[Checked, ...] = ()  # Of each variant that the device can load; none where one was asked for
    left_out: dict[int, str] = {}  # Why others cannot be loaded, by their tactic
    raced: dict[int, float] = {}  # Median of each variant in the race, in ns
    pairs: tuple[AlonePair, ...] = ()  # The turns
    rival: str = ""  # What took turns with it, in words; empty where nothing did
    began_ns: int = 0  # `time.monotonic_ns` of the first turn
    ended_ns: int = 0  # That of the last one's end
    notes: tuple[str, ...] = ()  # What else is to be said


def measure_alone(request: AloneRequest, environment: Mapping[str, str] | None = None) -> Alone:
    """Measure in a fresh process."""
    return child.ask(
        WORKER,
        request,
        Alone,
        what="the measurement of the kernel alone",
        fix="try again with nothing else on the GPU; trtprof plugin ... --only check finds kernels that hang",
        within_s=GRACE_S,
        variables=environment,
    )
