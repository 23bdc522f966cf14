"""What a GPU did, as columns: the one form that nsys files, CUPTI records and printed summaries are brought into.

Tables are pandas frames, since there are millions of rows; times are integer ns on one clock of the capture. Rows
are sorted by ``start_ns``, then by the order in which they were found. A table without rows has all its columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from trtprof.base.records import NonNegative, Record

if TYPE_CHECKING:
    import pandas as pd

WORK_COLUMNS = (
    "start_ns", "end_ns", "kind", "name", "short_name", "device", "context", "stream", "pid", "correlation",
    "graph_node", "bytes", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers", "static_smem",
    "dynamic_smem",
)  # fmt: skip
"""Columns of `GpuTrace.work`: one row a kernel, copy or memset.

``kind`` is ``kernel``, ``memcpy`` or ``memset``. ``name`` is the demangled name of a kernel, for a copy its
direction (``memcpy HtoD``), ``memset`` for a memset; ``short_name`` is the function without its template arguments
and parameters. ``correlation`` is that of the API call that launched it, unique within ``pid``; ``graph_node`` is
the id of its CUDA graph node, 0 where it was launched alone. ``bytes`` is 0 for kernels; grid, block, registers a
thread and shared memory in bytes are 0 for copies. ``kind``, ``name`` and ``short_name`` are categories.
"""

LAUNCH_COLUMNS = ("start_ns", "end_ns", "name", "pid", "tid", "correlation")
"""Columns of `GpuTrace.launches`: one row a call of the CUDA runtime or driver API, ``name`` without its version
suffix (``cudaLaunchKernel``). ``tid`` is unique over processes: nsys' globalTid."""

RANGE_COLUMNS = ("start_ns", "end_ns", "domain", "name", "pid", "tid", "style")
"""Columns of `GpuTrace.ranges`: one row an NVTX range. ``style`` is ``push_pop`` (nested within its thread) or
``start_end``. ``domain`` is ``""`` for the default domain. A range that was open at the end ends there."""

GRAPH_COLUMNS = ("graph_node", "original_node", "start_ns", "pid", "tid")
"""Columns of `GpuTrace.graph_nodes`: the making of CUDA graph nodes. ``original_node`` is the node of the graph that
was captured which an instantiated or cloned node stands for, 0 for one that was captured itself; ``start_ns`` and
``tid`` are when and where that was."""


TO_DEVICE, FROM_DEVICE = "memcpy HtoD", "memcpy DtoH"
"""Names of the copies over the bus."""


class Transfer(NamedTuple):
    """Copies and memsets that no layer launched, by direction."""

    name: str  # As in `GpuTrace.work`: `TO_DEVICE`, `FROM_DEVICE`, ``memset``
    number: int  # How many there are
    total_ns: int  # Their time
    bytes: int  # What they moved or set
    per_iteration_ns: int  # Median over the kept iterations


class TraceGpu(Record, frozen=True, kw_only=True):
    """A GPU as the capture describes it; 0 or ``""`` is what it does not tell."""

    device: NonNegative
    name: str = ""
    compute_capability: str = ""
    sms: NonNegative = 0
    clock_mhz: float = 0.0
    memory_bytes: NonNegative = 0
    dram_bytes_per_s: float = 0.0
    l2_bytes: NonNegative = 0


class GpuTrace(NamedTuple):
    """A capture."""

    work: pd.DataFrame  # What ran on the GPUs; see `WORK_COLUMNS`
    launches: pd.DataFrame  # What the host called; see `LAUNCH_COLUMNS`
    ranges: pd.DataFrame  # NVTX; see `RANGE_COLUMNS`
    graph_nodes: pd.DataFrame  # See `GRAPH_COLUMNS`
    gpus: tuple[TraceGpu, ...] = ()  # The GPUs that the capture describes, which may be fewer than those that worked
    # ``nsys``, ``cupti`` or ``nsys stats``: the last has sums alone
    collector: Literal["nsys", "cupti", "nsys stats"] = "nsys"
    version: str = ""  # Of the collector, as far as the file tells
    window: tuple[int, int] | None = None  # Start and end of what was kept, in ns; None where all was
    notes: tuple[str, ...] = ()  # What the file lacks, and what follows from that, in words
