"""What the caller and the child process that measures a CPU say to each other, without heavy imports."""

from __future__ import annotations

import msgspec

from trtprof.hardware._fit import Reading

FLOOR_SECONDS = 4.0  # About what the floors of the run's own thread count take on top of the ceilings


class MeasureRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to measure."""

    threads: int  # Threads inside an op
    seconds: float  # Time for the ceilings; the floors come on top
    cache_bytes: int  # Last-level cache that these threads reach together, 0 when unknown
    memory_bytes: int  # Memory that the process may use, 0 when unknown
    with_profiler: bool = True  # Measure also what the runtime's profiler adds
    needed: tuple[str, ...] = ()  # Of a quick set: the ceilings to measure, floors too; empty for a full set


class Measured(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The readings of one thread count, keyed as `Ceilings.measurements` is."""

    threads: int
    runtime: str
    readings: dict[str, Reading]
    working_set: int  # Largest working set tried, in bytes
    seconds: float
    others_cpus: float | None = None  # CPUs that other processes, or other guests of the host, kept busy meanwhile
    clocks_mhz: dict[str, float] = {}  # Clock ``before``, ``during`` and ``after``, where the system tells it
