"""CUPTI's records as the tables of a `GpuTrace`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from trtprof.base.nested_ranges import calls_of, distinct
from trtprof.base.trace import WORK_COLUMNS, TraceGpu
from trtprof.capture.cupti._names import can_demangle, demangled, short_name
from trtprof.capture.cupti._records import Records
from trtprof.capture.nsys._tables import PID_MASK, PID_SHIFT, Columns, categories, forwards, ordered, rows_of
from trtprof.capture.nsys.trace import API_VERSION, COPY_NAMES

MARKER_START, MARKER_END = 1 << 1, 1 << 2
"""CUPTI_ACTIVITY_FLAG_MARKER_START and _END; the Python enumeration ActivityFlag of 13.0 and 13.4 lacks the second."""


class Threads:
    """Thread ids as nsys has them: the process in bits 24 to 47, the thread below.

    Attributes:
        pid: The process.
        numbered: Whether ids were too large for that, so that numbers stand for them.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.numbered = False
        self._numbers: dict[int, int] = {}

    def serials(self, thread: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """The globalTid of each thread id."""
        found = distinct(thread.astype(np.int64))
        narrow = found.copy()
        for at in np.flatnonzero(found > PID_MASK).tolist():
            self.numbered = True
            narrow[at] = self._numbers.setdefault(int(found[at]), len(self._numbers) + 1)
        return (self.pid << PID_SHIFT | narrow)[np.searchsorted(found, thread)]


def work_table(records: Records, pid: int, notes: list[str]) -> Columns:
    """Kernels, copies and memsets as one table."""
    tables = [records.columns(family) for family in ("kernel", "memcpy", "memset")]
    kernels, copies, sets = tables
    full = {code: demangled(text) for code, text in enumerate(records.texts)}
    short = {code: short_name(text) for code, text in full.items()}
    if not can_demangle() and len(kernels["name"]):
        notes.append("names of kernels are mangled: there is no libstdc++.so.6 to read them")
    # Places in the texts are not negative, so what is no text gets keys below.
    copied = {-2 - kind: COPY_NAMES.get(int(kind), "memcpy") for kind in distinct(copies["copy_kind"]).tolist()}
    copies["name"] = -2 - copies.pop("copy_kind")
    sets["name"] = np.full(len(sets["start_ns"]), -1, dtype=np.int32)
    other = copied | {-1: "memset"}
    sizes = [len(table["start_ns"]) for table in tables]
    columns: Columns = {"kind": np.repeat(np.arange(3, dtype=np.int8), sizes)}
    for name in WORK_COLUMNS:
        if name in {"kind", "short_name", "pid"}:
            continue
        parts = [table.pop(name) if name in table else None for table in tables]
        dtype = next(part.dtype for part in parts if part is not None)
        columns[name] = np.concatenate(
            [np.zeros(size, dtype) if part is None else part for part, size in zip(parts, sizes, strict=True)]
        )
    columns["correlation"] = columns["correlation"].astype(np.int64)
    columns["pid"] = np.full(len(columns["start_ns"]), pid, dtype=np.int32)
    timed = (columns["start_ns"] > 0) & (columns["end_ns"] > 0)
    if not timed.all():
        notes.append(f"{int((~timed).sum())} kernels, copies and memsets have no times and were left out")
        columns = rows_of(columns, timed)
    columns = ordered(forwards(columns, "GPU work", notes))
    if not (columns["kind"] == 0).any():
        notes.append("no kernels were captured")
    keys = columns["name"]
    columns["name"] = categories(keys, full | other)
    columns["short_name"] = categories(keys, short | other)
    columns["kind"] = categories(columns["kind"], dict(enumerate(("kernel", "memcpy", "memset"))), every=True)
    return columns


def call_table(records: Records, threads: Threads, notes: list[str]) -> Columns:
    """Calls of the runtime and the driver, of one launch the outer one; their names are yet to come."""
    calls = records.columns("call")
    timed = (calls["start_ns"] > 0) & (calls["end_ns"] > 0)
    if not timed.all():
        notes.append(f"{int((~timed).sum())} API calls have no times and were left out")
    calls = ordered(forwards(rows_of(calls, timed), "API calls", notes))
    calls = rows_of(calls, _outer(calls))
    calls["correlation"] = calls["correlation"].astype(np.int64)
    calls["tid"] = threads.serials(calls.pop("thread"))
    calls["pid"] = np.full(len(calls["tid"]), threads.pid, dtype=np.int32)
    return calls


def name_calls(module: Any, calls: Columns) -> None:
    """Give calls the names of their functions, without the version of each."""
    domains = {
        int(module.ActivityKind.RUNTIME): int(module.CallbackDomain.RUNTIME_API),
        int(module.ActivityKind.DRIVER): int(module.CallbackDomain.DRIVER_API),
    }
    keys = calls.pop("kind").astype(np.int64) << 32 | calls.pop("function")
    known: dict[int, str] = {}
    for key in distinct(keys).tolist():
        function = key & 0xFFFFFFFF
        try:
            name = str(module.get_callback_name(domains[key >> 32], function))
        except module.cuptiError:
            name = f"call {function}"
        known[key] = API_VERSION.sub("", name)
    calls["name"] = categories(keys, known)


def nvtx_ranges(module: Any, records: Records, stopped: int, notes: list[str]) -> Columns:
    """NVTX ranges: each start with its end; what is open ends with the capture, at ``stopped``.

    ``name`` and ``domain`` are places in `Records.texts`, ``thread`` is as CUPTI has it and ``style`` is 1 for
    start_end.
    """
    markers = records.columns("marker")
    ends = markers["flags"] & MARKER_END != 0
    of_range = ((markers["flags"] & MARKER_START != 0) | ends) & (markers["time_ns"] > 0)
    markers = rows_of(markers | {"is_end": ends}, of_range)
    # By id and then by time, so that the end of a range is the row after its start.
    markers = rows_of(markers, np.lexsort((markers["is_end"], markers["time_ns"], markers["id"])))
    is_end, ids = markers["is_end"], markers["id"]
    followed = np.concatenate([is_end[1:] & (ids[1:] == ids[:-1]), [False]])[: len(ids)]
    starts = np.flatnonzero(~is_end)
    closed = followed[starts]
    last = np.minimum(starts + 1, max(len(ids) - 1, 0))
    end_ns = np.where(closed, markers["time_ns"][last], np.maximum(markers["time_ns"][starts], stopped))
    unopened = int(is_end.sum()) - int(closed.sum())
    if unopened:
        notes.append(f"{unopened} NVTX ranges began before recording did and were left out")
    if not closed.all():
        notes.append(f"{int((~closed).sum())} NVTX ranges were open at the end of the capture and end there")
    # Push and pop happen on one thread; what starts and ends belongs to the process.
    thread = markers["thread"]
    process = markers["object"] == int(module.ActivityObjectKind.PROCESS)
    moved = closed & (thread[starts] != thread[last])
    return {
        "start_ns": markers["time_ns"][starts],
        "end_ns": end_ns,
        "name": markers["name"][starts].astype(np.int64),
        "domain": markers["domain"][starts],
        "thread": thread[starts],
        "style": (process[starts] | moved).astype(np.int8),
    }


def described_gpus(records: Records) -> tuple[TraceGpu, ...]:
    """The GPUs that CUPTI describes; its header gives clocks in kHz and bandwidths in kB/s."""
    found = records.columns("device")
    gpus = {
        device: TraceGpu(
            device=device,
            name=records.texts[row["name"]],
            compute_capability=f"{row['major']}.{row['minor']}",
            sms=row["sms"],
            clock_mhz=row["clock_khz"] / 1e3,
            memory_bytes=row["memory_bytes"],
            dram_bytes_per_s=row["kilobytes_per_s"] * 1e3,
            l2_bytes=row["l2_bytes"],
        )
        for at, device in enumerate(found["device"].tolist())
        for row in [{name: column[at].item() for name, column in found.items()}]
    }
    return tuple(gpus[device] for device in sorted(gpus))


def note_lone_work(work: Columns, calls: Columns, notes: list[str]) -> None:
    """Say how much work no call is known for."""
    if not len(work["start_ns"]):
        return
    if not len(calls["start_ns"]):
        notes.append("no API calls were captured: nothing says which thread launched a kernel, or within which range")
        return
    alone = int((calls_of(work["pid"], work["correlation"], calls["pid"], calls["correlation"]) < 0).sum())
    if alone:
        notes.append(f"{alone} of {len(work['start_ns'])} kernels, copies and memsets have no API call in the capture")


def _outer(calls: Columns) -> npt.NDArray[np.bool_]:
    """Which calls are not made within another of the same correlation id: cuLaunchKernel within cudaLaunchKernel."""
    correlation, start, end = calls["correlation"], calls["start_ns"], calls["end_ns"]
    order = np.lexsort((-end, start, correlation))
    ids = correlation[order]
    new = np.concatenate([[True], ids[1:] != ids[:-1]])[: len(ids)]
    first = order[np.maximum.accumulate(np.where(new, np.arange(len(ids)), 0))]
    inner = ~new & (ids != 0) & (start[order] >= start[first]) & (end[order] <= end[first])
    kept = np.ones(len(ids), dtype=np.bool_)
    kept[order[inner]] = False
    return kept
