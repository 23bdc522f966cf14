"""What nsys captured: its sqlite exports as the columns of a `GpuTrace`, and the sums that its reports print.

Schemas of nsys 2022.4 to 2026.2 (schema 3.0 to 3.25) have been read. Tables exist only where they have rows, columns
come and go between versions, the order of the rows is not promised; so each column is taken where it is there, and
what the file lacks is said in the notes. The facts of the schema that the code relies on:

- names are ids into StringIds; an NVTX text is either inline or such an id;
- a globalTid holds the process in bits 24 to 47 and the thread in bits 0 to 23, a globalPid the same with thread 0;
- NVTX eventType 59 is push and pop, 60 start and end (70 and 71 are their forms imported from text), 75 is the making
  of a domain, which names it within its process;
- kernels, copies and API calls share a correlationId within a process.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from trtprof.base.errors import CaptureError, UsageError
from trtprof.base.nested_ranges import calls_of, distinct, places_in
from trtprof.base.trace import GRAPH_COLUMNS, LAUNCH_COLUMNS, RANGE_COLUMNS, WORK_COLUMNS, GpuTrace, TraceGpu
from trtprof.capture.nsys._file import Column, Texts, TraceFile, open_trace
from trtprof.capture.nsys._gpus import described_gpus, nsys_version
from trtprof.capture.nsys._pages import Bools, Ints
from trtprof.capture.nsys._sums import KERNEL_SUMS, RANGE_SUMS, kernel_summary, nvtx_kernel_summary
from trtprof.capture.nsys._table_stats import KernelSums, read_stats
from trtprof.capture.nsys._tables import (
    PID_MASK,
    PID_SHIFT,
    Columns,
    categories,
    forwards,
    frame_of,
    merged,
    ordered,
    process_of,
    rows_of,
)  # fmt: skip

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "KERNEL_SUMS", "RANGE_SUMS", "KernelSums", "kernel_summary", "nvtx_kernel_summary", "read_gpus", "read_stats",
    "read_trace",
]  # fmt: skip

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
COPIES = "CUPTI_ACTIVITY_KIND_MEMCPY"
SETS = "CUPTI_ACTIVITY_KIND_MEMSET"
CALLS = "CUPTI_ACTIVITY_KIND_RUNTIME"
GRAPHS = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
NVTX = "NVTX_EVENTS"

_PUSH_POP = (59, 70)
_START_END = (60, 71)
_EVENTS = np.array([*_PUSH_POP, *_START_END])
_DOMAIN = 75
_SET = -2
_NO_END = np.iinfo(np.int64).min

_KINDS = ("kernel", "memcpy", "memset")
# CUpti_ActivityMemcpyKind, CUPTI's header; 11 to 13 are what nsys adds for managed memory (ENUM_CUDA_MEMCPY_OPER).
COPY_NAMES = {
    0: "memcpy", 1: "memcpy HtoD", 2: "memcpy DtoH", 3: "memcpy HtoA", 4: "memcpy AtoH", 5: "memcpy AtoA",
    6: "memcpy AtoD", 7: "memcpy DtoA", 8: "memcpy DtoD", 9: "memcpy HtoH", 10: "memcpy PtoP",
    11: "memcpy HtoD (managed)", 12: "memcpy DtoH (managed)", 13: "memcpy DtoD (managed)",
}  # fmt: skip
API_VERSION = re.compile(r"(_pt(?:sz|ds))?(_v\d+)?$")

_PLACE = {
    "start_ns": Column(("start",), required=True),
    "end_ns": Column(("end",), required=True),
    "device": Column(("deviceId",), dtype="int16"),
    "context": Column(("contextId",), dtype="int32"),
    "stream": Column(("streamId",), dtype="int32"),
    "pid": Column(("globalPid",), default=-1),
    "correlation": Column(("correlationId",)),
    "graph_node": Column(("graphNodeId",)),
}
_COLUMNS: dict[str, dict[str, Column]] = {
    KERNELS: _PLACE
    | {
        "name": Column(("demangledName", "mangledName", "shortName"), default=-1, dtype="int32"),
        "short_name": Column(("shortName", "demangledName"), default=-1, dtype="int32"),
        "grid_x": Column(("gridX",), dtype="int32"),
        "grid_y": Column(("gridY",), dtype="int32"),
        "grid_z": Column(("gridZ",), dtype="int32"),
        "block_x": Column(("blockX",), dtype="int32"),
        "block_y": Column(("blockY",), dtype="int32"),
        "block_z": Column(("blockZ",), dtype="int32"),
        "registers": Column(("registersPerThread",), dtype="int32"),
        "static_smem": Column(("staticSharedMemory",), dtype="int32"),
        "dynamic_smem": Column(("dynamicSharedMemory",), dtype="int32"),
    },
    COPIES: _PLACE | {"name": Column(("copyKind",), dtype="int32"), "bytes": Column(("bytes",))},
    SETS: _PLACE | {"bytes": Column(("bytes",))},
}
_CALL_COLUMNS = {
    "start_ns": Column(("start",), required=True),
    "end_ns": Column(("end",), required=True),
    "name": Column(("nameId",), default=-1, dtype="int32"),
    "tid": Column(("globalTid",)),
    "correlation": Column(("correlationId",)),
}
_RANGE_COLUMNS = {
    "start_ns": Column(("start",), required=True),
    "end_ns": Column(("end",), default=_NO_END, required=True),
    "event": Column(("eventType",), default=_PUSH_POP[0], dtype="int8"),
    "tid": Column(("globalTid",)),
    "domain": Column(("domainId",), dtype="int32"),
    "text": Column(("textId",), default=-1, dtype="int32"),
}


class _Kept(NamedTuple):
    """What part of the capture is asked for."""

    window: tuple[int, int] | None
    device: int | None
    pid: int | None

    def work(self, there: Collection[str], rows: Mapping[str, Any]) -> Bools | None:
        """The rows of GPU work, of a table with the columns that are there; None for all."""
        found: list[Bools] = []
        if self.window is not None:
            found.append((rows["start_ns"] >= self.window[0]) & (rows["start_ns"] < self.window[1]))
        if self.device is not None and "deviceId" in there:
            found.append(rows["device"] == self.device)
        if self.pid is not None and "globalPid" in there:
            found.append(process_of(rows["pid"]) == self.pid)
        return np.logical_and.reduce(found) if found else None

    def host(self, there: Collection[str], first: int | None, rows: Mapping[str, Any]) -> Bools | None:
        """The rows of a table of the host, from the first launch of the work that is kept on; None for all."""
        found: list[Bools] = []
        if self.window is not None:
            from_ns = self.window[0] if first is None else min(first, self.window[0])
            found.append(rows["start_ns"] < self.window[1])
            found.append((rows["end_ns"] >= from_ns) | (rows["end_ns"] == _NO_END))
        if self.pid is not None and "globalTid" in there:
            found.append(process_of(rows["tid"]) == self.pid)
        return np.logical_and.reduce(found) if found else None

    def words(self) -> str:
        parts = []
        if self.window is not None:
            parts.append(f"in the window {self.window[0]} to {self.window[1]} ns")
        if self.device is not None:
            parts.append(f"on GPU {self.device}")
        if self.pid is not None:
            parts.append(f"of process {self.pid}")
        return " ".join(parts)


def read_gpus(path: Path) -> tuple[TraceGpu, ...]:
    """The GPUs that an sqlite export of nsys describes, by their CUDA numbers; none where it describes none."""
    with open_trace(path) as trace:
        return described_gpus(trace, np.empty(0, np.int64), [])


def read_trace(
    path: Path, *, window: tuple[int, int] | None = None, device: int | None = None, pid: int | None = None
) -> GpuTrace:
    """Read an sqlite export of nsys.

    Args:
        window: Keep the GPU work that starts within it: from the first ns to before the second, on the clock of the
            capture. Launches of that work are kept whenever they were, other calls and ranges where they overlap it.

    Returns:
        The capture. ``correlation`` is 0 where the file tells none, ``pid`` -1 where it does not tell the process. Rows
            that end before they start are left out; the notes count them. A range that was still open ends with the
            last event of the file. Where no range, call or copy was recorded the table is empty and a note says so.
    """
    if window is not None and window[0] >= window[1]:
        raise UsageError(
            f"the window {window[0]} to {window[1]} ns is empty", why="it ends before it starts", fix="swap the two"
        )
    kept = _Kept(window, device, pid)
    notes: list[str] = []
    with open_trace(path) as trace:
        work = _work(trace, kept, notes)
        calls = _calls(trace, kept, work, notes)
        if not len(work["start_ns"]):
            _check_part(trace, kept)
        ranges = _ranges(trace, kept, work, calls, notes)
        if not any(len(table["start_ns"]) for table in (work, calls, ranges)):
            raise _nothing(trace)
        nodes = _graph_nodes(trace, kept)
        _note_graph_launches(trace, kept, notes)
        gpus = described_gpus(trace, work["device"], notes)
        version = nsys_version(trace)
        return GpuTrace(
            work=frame_of(work, WORK_COLUMNS),
            launches=frame_of(calls, LAUNCH_COLUMNS),
            ranges=frame_of(ranges, RANGE_COLUMNS),
            graph_nodes=frame_of(nodes, GRAPH_COLUMNS),
            gpus=gpus,
            collector="nsys",
            version=version,
            window=window,
            notes=tuple(notes),
        )


def _work(trace: TraceFile, kept: _Kept, notes: list[str]) -> Columns:
    """Kernels, copies and memsets as one table."""
    tables = [
        ordered(trace.read(table, columns, partial(kept.work, trace.tables.get(table, ()))))
        for table, columns in _COLUMNS.items()
    ]
    kernels, copies, sets = tables
    names = trace.strings({int(key) for name in ("name", "short_name") for key in distinct(kernels[name])})
    # Ids of strings are not negative, so what is no string of the file gets keys below.
    copied = {_SET - 1 - kind: COPY_NAMES.get(int(kind), "memcpy") for kind in distinct(copies["name"]).tolist()}
    copies["name"] = _SET - 1 - copies["name"].astype(np.int64)
    sets["name"] = np.full(len(sets["start_ns"]), _SET, dtype=np.int32)
    for table in (copies, sets):
        table["short_name"] = table["name"]
    known = names | copied | {_SET: "memset", -1: ""}
    for kind, table in enumerate(tables):
        table["kind"] = np.full(len(table["start_ns"]), kind, dtype=np.int8)
    columns = merged(tables, WORK_COLUMNS)
    columns["pid"] = process_of(columns["pid"])
    columns = forwards(columns, "GPU work", notes)
    if not (columns["kind"] == 0).any():
        notes.append(f"no kernels were captured{_unless(trace, kept)}")
    unnamed = {key for key in distinct(columns["name"]).tolist() if key not in known or key == -1}
    if unnamed:
        notes.append(f"{len(unnamed)} names of kernels are not in the file")
    columns["name"] = categories(columns["name"], known)
    columns["short_name"] = categories(columns["short_name"], known)
    columns["kind"] = categories(columns["kind"], dict(enumerate(_KINDS)), every=True)
    return columns


def _unless(trace: TraceFile, kept: _Kept) -> str:
    if trace.count(KERNELS):
        return f" {kept.words()}"
    return "" if CALLS in trace.tables else ": CUDA was not traced (nsys profile --trace cuda)"


def _check_part(trace: TraceFile, kept: _Kept) -> None:
    """Refuse a part without GPU work where the whole has some, and a device where there is none."""
    tables = [table for table in _COLUMNS if trace.count(table)]
    if tables:
        spans = [
            (trace.extreme(table, "start", "min") or 0, trace.extreme(table, "start", "max") or 0) for table in tables
        ]
        raise UsageError(
            f"nothing ran {kept.words()}".rstrip(),
            why=f"the GPU work of {trace.path.name} starts between {min(low for low, _ in spans)} and "
            f"{max(high for _, high in spans)} ns{_places(trace, tables)}",
            fix="choose another window, device or process, or none",
        )
    if kept.device is not None:
        raise _nothing(trace)


def _nothing(trace: TraceFile) -> CaptureError:
    launches = trace.count(GRAPHS)
    return CaptureError(
        f"{trace.path} holds no GPU work",
        why="no kernel, copy or memset was recorded"
        + (f", but {launches} launches of whole CUDA graphs" if launches else ""),
        fix="profile with --trace cuda,nvtx --cuda-graph-trace=node, and let the profiled range hold the inference",
    )


def _places(trace: TraceFile, tables: Sequence[str]) -> str:
    """The devices and processes with work, in words."""
    devices: set[int] = set()
    processes: set[int] = set()
    for table in tables:
        if "deviceId" in trace.tables[table]:
            devices |= {int(str(row[0])) for row in trace.rows(f'SELECT DISTINCT deviceId FROM "{table}"')}  # noqa: S608
        if "globalPid" in trace.tables[table]:
            found = trace.rows(f'SELECT DISTINCT globalPid FROM "{table}" WHERE globalPid IS NOT NULL')  # noqa: S608
            processes |= {int(str(row[0])) >> PID_SHIFT & PID_MASK for row in found}
    words = ""
    for what, found_ids in (("GPUs", devices), ("processes", processes)):
        if found_ids:
            words += f"; {what}: {', '.join(str(each) for each in sorted(found_ids))}"
    return words


def _calls(trace: TraceFile, kept: _Kept, work: Columns, notes: list[str]) -> Columns:
    """Calls of the CUDA API; where the work does not tell its process, it learns it from its call."""
    # Work that starts in the window may have been launched long before it.
    keep = partial(kept.host, trace.tables.get(CALLS, ()), _NO_END + 1)
    calls = ordered(forwards(trace.read(CALLS, _CALL_COLUMNS, keep), "API calls", notes))
    calls["pid"] = process_of(calls["tid"])
    if len(work["pid"]) and work["pid"].max() < 0:
        _adopt(work, calls)
        if kept.pid is not None:
            work |= rows_of(work, work["pid"] == kept.pid)
    if kept.window is not None:
        calls = rows_of(calls, _launched(calls, work) | (calls["end_ns"] >= kept.window[0]))
    calls = _of_these(calls, work, kept)
    known = trace.strings(distinct(calls["name"]).tolist())
    bare = {key: API_VERSION.sub("", name) for key, name in known.items()} | {-1: ""}
    calls["name"] = categories(calls["name"], bare)
    if not len(calls["start_ns"]) and len(work["start_ns"]):
        notes.append("no API calls were captured: nothing says which thread launched a kernel, or within which range")
    elif len(work["start_ns"]):
        alone = int((calls_of(work["pid"], work["correlation"], calls["pid"], calls["correlation"]) < 0).sum())
        if alone:
            notes.append(f"{alone} of {len(work['start_ns'])} kernels, copies and memsets have no API call in the file")
    return calls


def _adopt(work: Columns, calls: Columns) -> None:
    """Give work without a process that of the call with its correlation id, where only one process has it."""
    order = np.lexsort((calls["pid"], calls["correlation"]))
    ids, pids = calls["correlation"][order], calls["pid"][order]
    low, high = np.searchsorted(ids, [work["correlation"], work["correlation"] + 1])
    found = high > low
    first, last = pids[low[found]], pids[high[found] - 1]
    work["pid"][found] = np.where(first == last, first, -1)


def _ranges(trace: TraceFile, kept: _Kept, work: Columns, calls: Columns, notes: list[str]) -> Columns:
    """NVTX ranges."""
    first = None
    if kept.window is not None and len(calls["start_ns"]):
        launched = _launched(calls, work)
        first = min(calls["start_ns"][launched].tolist(), default=None)
    there = trace.tables.get(NVTX, frozenset())

    making: list[Columns] = []

    def keep(rows: Mapping[str, Any]) -> Bools:
        makes = rows["event"] == _DOMAIN
        if makes.any():
            making.append({name: rows[name][makes] for name in rows})
        # Marks have no end; without event types there is no other way to see that they are none.
        sought = np.isin(rows["event"], _EVENTS) if "eventType" in there else rows["end_ns"] != _NO_END
        held = kept.host(there, first, rows)
        return sought if held is None else sought & held

    inline = Texts()
    ranges = trace.read(
        NVTX, _RANGE_COLUMNS | {"inline": Column(("text",), default=-1, dtype="int32", texts=inline)}, keep
    )
    # Ids of strings are not negative, so texts that stand in their row get keys below.
    ranges["name"] = _keys(ranges)
    made = [_keys(each) for each in making]
    ids = distinct(np.concatenate([ranges["name"], *made]))
    known = {-2 - number: text for number, text in enumerate(inline.values)} | {-1: ""}
    known |= trace.strings(ids[ids >= 0].tolist())
    domains = _made(making, made, known)
    open_ends = ranges["end_ns"] == _NO_END
    if open_ends.any():
        last = max(
            found
            for table in (NVTX, CALLS, *_COLUMNS)
            for column in ("start", "end")
            if (found := trace.extreme(table, column, "max")) is not None
        )
        ranges["end_ns"][open_ends] = last
        notes.append(f"{int(open_ends.sum())} NVTX ranges were open at the end of the capture and end there")
    ranges["pid"] = process_of(ranges["tid"])
    ranges = _of_these(ordered(forwards(ranges, "NVTX ranges", notes)), work, kept)
    ranges["name"] = categories(ranges["name"], known)
    ranges["domain"] = _domains(domains, ranges)
    ended = np.isin(ranges.pop("event"), _START_END)
    ranges["style"] = categories(ended.astype(np.int8), {0: "push_pop", 1: "start_end"}, every=True)
    if not len(ranges["start_ns"]):
        notes.append(
            "no NVTX ranges were captured: they cannot lead kernels back to layers (nsys profile --trace cuda,nvtx)"
        )
    return ranges


def _keys(ranges: Columns) -> Ints:
    """The name of each range: that which stands in its row, below -1, else the id of a string; -1 where it has none."""
    inline, text = ranges.pop("inline"), ranges.pop("text")
    keys: Ints = np.where(inline >= 0, -2 - inline, np.maximum(text, -1))
    return keys


def _made(events: Sequence[Columns], names: Sequence[Ints], known: Mapping[int, str]) -> dict[tuple[int, int], str]:
    """The names of domains by process and number: that of the first event that made them."""
    rows = sorted(
        (start, pid, domain, key)
        for each, keys in zip(events, names, strict=True)
        for start, pid, domain, key in zip(
            each["start_ns"].tolist(), process_of(each["tid"]).tolist(), each["domain"].tolist(), keys.tolist(),
            strict=True,
        )
    )  # fmt: skip
    made: dict[tuple[int, int], str] = {}
    for _, pid, domain, key in rows:
        made.setdefault((pid, domain), known.get(key, ""))
    return made


def _domains(made: Mapping[tuple[int, int], str], ranges: Columns) -> pd.Categorical:
    """The name of the domain of each range: that of the event that made the domain in the same process."""
    # Few processes have few domains each, so pairs of them become small keys.
    pids, domains = distinct(ranges["pid"]), distinct(ranges["domain"])
    keys = places_in(pids, ranges["pid"]) * len(domains) + places_in(domains, ranges["domain"])
    known = {
        int(at * len(domains) + index): made.get((pid, domain), "" if domain == 0 else f"domain {domain}")
        for at, pid in enumerate(pids.tolist())
        for index, domain in enumerate(domains.tolist())
    }
    return categories(keys, known)


def _graph_nodes(trace: TraceFile, kept: _Kept) -> Columns:
    """The making of graph nodes: CUDA_GRAPH_NODE_EVENTS, in nsys 2022.4 CUDA_GRAPH_EVENTS."""
    table = next(
        (name for name in ("CUDA_GRAPH_NODE_EVENTS", "CUDA_GRAPH_EVENTS") if _has(trace, name, "graphNodeId")), ""
    )
    there = trace.tables.get(table, frozenset())

    def keep(rows: Mapping[str, Any]) -> Bools | None:
        return process_of(rows["tid"]) == kept.pid if kept.pid is not None and "globalTid" in there else None

    columns = {
        "graph_node": Column(("graphNodeId",)),
        "original_node": Column(("originalGraphNodeId",)),
        "start_ns": Column(("start",)),
        "tid": Column(("globalTid",)),
    }
    nodes: Columns = ordered(trace.read(table, columns, keep))
    nodes["pid"] = process_of(nodes["tid"])
    return nodes


def _note_graph_launches(trace: TraceFile, kept: _Kept, notes: list[str]) -> None:
    columns = {name: _PLACE[name]._replace(required=False) for name in ("start_ns", "end_ns", "device", "pid")}
    spans = trace.read(GRAPHS, columns, partial(kept.work, trace.tables.get(GRAPHS, ())))
    launches = len(spans["start_ns"])
    if launches:
        total = int((spans["end_ns"] - spans["start_ns"]).sum())
        notes.append(
            f"{launches} launches of CUDA graphs ({total / 1e6:.3f} ms) were recorded as a whole: their kernels are "
            "not in the file (nsys profile --cuda-graph-trace=node records them)"
        )


def _has(trace: TraceFile, table: str, column: str) -> bool:
    return column in trace.tables.get(table, frozenset())


def _launched(calls: Columns, work: Columns) -> npt.NDArray[np.bool_]:
    """Which calls launched some of the work."""
    return calls_of(calls["pid"], calls["correlation"], work["pid"], work["correlation"]) >= 0


def _of_these(host: Columns, work: Columns, kept: _Kept) -> Columns:
    """What the processes did that have work on the device asked for."""
    if kept.device is None or not len(work["pid"]):
        return host
    return rows_of(host, np.isin(host["pid"], distinct(work["pid"])))
