"""What nsys captured: its sqlite exports as the columns of a `GpuTrace`.

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
from collections import defaultdict
from pathlib import Path

import msgspec
import numpy as np

from trtprof.base.errors import CaptureError
from trtprof.base.nested_ranges import calls_of, distinct, places_in
from trtprof.base.trace import GRAPH_COLUMNS, LAUNCH_COLUMNS, RANGE_COLUMNS, WORK_COLUMNS, GpuTrace, TraceGpu
from trtprof.capture.nsys._file import TraceFile, open_trace
from trtprof.capture.nsys._tables import (
    Columns,
    Ints,
    categories,
    forwards,
    frame_of,
    ordered,
    process_of,
)

__all__ = ["read_gpus", "read_trace"]

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
COPIES = "CUPTI_ACTIVITY_KIND_MEMCPY"
SETS = "CUPTI_ACTIVITY_KIND_MEMSET"
CALLS = "CUPTI_ACTIVITY_KIND_RUNTIME"
GRAPHS = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
NVTX = "NVTX_EVENTS"

_PUSH_POP = (59, 70)
_START_END = (60, 71)
_DOMAIN = 75
_SET = -2
_NO_END = np.iinfo(np.int64).min

_KINDS = {0: "kernel", 1: "memcpy", 2: "memset"}
# CUpti_ActivityMemcpyKind, CUPTI's header; 11 to 13 are what nsys adds for managed memory (ENUM_CUDA_MEMCPY_OPER).
COPY_NAMES = {
    0: "memcpy", 1: "memcpy HtoD", 2: "memcpy DtoH", 3: "memcpy HtoA", 4: "memcpy AtoH", 5: "memcpy AtoA",
    6: "memcpy AtoD", 7: "memcpy DtoA", 8: "memcpy DtoD", 9: "memcpy HtoH", 10: "memcpy PtoP",
    11: "memcpy HtoD (managed)", 12: "memcpy DtoH (managed)", 13: "memcpy DtoD (managed)",
}  # fmt: skip
API_VERSION = re.compile(r"(_pt(?:sz|ds))?(_v\d+)?$")

# Columns as `TraceFile.select` takes them.
_PLACE = dict.fromkeys(WORK_COLUMNS, ":0") | {
    "start_ns": "start",
    "end_ns": "end",
    "device": "deviceId:0",
    "context": "contextId:0",
    "stream": "streamId:0",
    "pid": "globalPid:-1",
    "correlation": "correlationId:0",
    "graph_node": "graphNodeId:0",
}
_WORK = {
    KERNELS: _PLACE
    | {
        "name": "demangledName|mangledName|shortName:-1",
        "short_name": "shortName|demangledName:-1",
        "grid_x": "gridX:0",
        "grid_y": "gridY:0",
        "grid_z": "gridZ:0",
        "block_x": "blockX:0",
        "block_y": "blockY:0",
        "block_z": "blockZ:0",
        "registers": "registersPerThread:0",
        "static_smem": "staticSharedMemory:0",
        "dynamic_smem": "dynamicSharedMemory:0",
    },
    COPIES: _PLACE | {"kind": ":1", "name": "copyKind:0", "bytes": "bytes:0"},
    SETS: _PLACE | {"kind": ":2", "bytes": "bytes:0"},
}
_CALL = {
    "start_ns": "start",
    "end_ns": "end",
    "name": "nameId:-1",
    "tid": "globalTid:0",
    "correlation": "correlationId:0",
}
_RANGE = {
    "start_ns": "start",
    "end_ns": f"end:{_NO_END}",
    "event": "eventType:59",
    "tid": "globalTid:0",
    "domain": "domainId:0",
    "name": "textId:-1",
    "text": "text:''",
}
_NODE = {
    "graph_node": "graphNodeId:0",
    "original_node": "originalGraphNodeId:0",
    "start_ns": "start:0",
    "tid": "globalTid:0",
}


def read_gpus(path: Path) -> tuple[TraceGpu, ...]:
    """The GPUs that an sqlite export of nsys describes, by their CUDA numbers; none where it describes none."""
    with open_trace(path) as trace:
        return _gpus(trace, np.empty(0, np.int64), [])


def read_trace(path: Path) -> GpuTrace:
    """Read an sqlite export of nsys.

    ``correlation`` is 0 where the file tells none, ``pid`` -1 where it does not tell the process. Rows that end before
    they start are left out; the notes count them. A range that was still open ends with the last event of the file.
    Where no range, call or copy was recorded the table is empty and a note says so.
    """
    notes: list[str] = []
    with open_trace(path) as trace:
        work = _work(trace, notes)
        calls = _calls(trace, work, notes)
        ranges = _ranges(trace, notes)
        if not any(len(table["start_ns"]) for table in (work, calls, ranges)):
            raise _nothing(trace)
        nodes = _graph_nodes(trace)
        _note_graph_launches(trace, notes)
        gpus = _gpus(trace, work["device"], notes)
        return GpuTrace(
            work=frame_of(work, WORK_COLUMNS),
            launches=frame_of(calls, LAUNCH_COLUMNS),
            ranges=frame_of(ranges, RANGE_COLUMNS),
            graph_nodes=frame_of(nodes, GRAPH_COLUMNS),
            gpus=gpus,
            collector="nsys",
            version=_version(trace),
            notes=tuple(notes),
        )


def _work(trace: TraceFile, notes: list[str]) -> Columns:
    """Kernels, copies and memsets as one table."""
    queries = [trace.select(table, columns) for table, columns in _WORK.items()]
    work = forwards(ordered(trace.read(WORK_COLUMNS, *queries)), "GPU work", notes)
    work["pid"] = process_of(work["pid"])
    kernel = work["kind"] == 0
    if not kernel.any():
        cause = "" if CALLS in trace.tables else ": CUDA was not traced (nsys profile --trace cuda)"
        notes.append(f"no kernels were captured{'' if _count(trace, KERNELS) else cause}")
    # Ids of strings are not negative, so what is no string of the file gets keys below.
    work["name"] = np.where(kernel, work["name"], np.where(work["kind"] == 1, _SET - 1 - work["name"], _SET))
    work["short_name"] = np.where(kernel, work["short_name"], work["name"])
    keys = distinct(work["name"]).tolist()
    known = trace.strings({*keys, *distinct(work["short_name"]).tolist()})
    known |= {key: COPY_NAMES.get(_SET - 1 - key, "memcpy") for key in keys if key < _SET} | {_SET: "memset"}
    unnamed = sum(key not in known for key in keys)
    if unnamed:
        notes.append(f"{unnamed} names of kernels are not in the file")
    for column in ("name", "short_name"):
        work[column] = categories(work[column], known)
    work["kind"] = categories(work["kind"], _KINDS, every=True)
    return work


def _count(trace: TraceFile, table: str) -> int:
    return int(trace.rows(f'SELECT count(*) FROM "{table}"')[0][0]) if table in trace.tables else 0  # noqa: S608


def _nothing(trace: TraceFile) -> CaptureError:
    launches = _count(trace, GRAPHS)
    return CaptureError(
        f"{trace.path} holds no GPU work",
        why="no kernel, copy or memset was recorded"
        + (f", but {launches} launches of whole CUDA graphs" if launches else ""),
        fix="profile with --trace cuda,nvtx --cuda-graph-trace=node, and let the profiled range hold the inference",
    )


def _calls(trace: TraceFile, work: Columns, notes: list[str]) -> Columns:
    """Calls of the CUDA API; where the work does not tell its process, it learns it from its call."""
    calls = ordered(forwards(trace.read(_CALL, trace.select(CALLS, _CALL)), "API calls", notes))
    calls["pid"] = process_of(calls["tid"])
    if len(work["pid"]) and work["pid"].max() < 0:
        _adopt(work, calls)
    known = trace.strings(distinct(calls["name"]).tolist())
    calls["name"] = categories(calls["name"], {key: API_VERSION.sub("", name) for key, name in known.items()})
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


def _ranges(trace: TraceFile, notes: list[str]) -> Columns:
    """NVTX ranges."""
    # Marks have no end; without event types there is no other way to see that they are none.
    typed = trace.has(NVTX, "eventType")
    where = [f"eventType IN {(*_PUSH_POP, *_START_END)}" if typed else '"end" IS NOT NULL']
    # Ids of strings are not negative, so texts that stand in their row get keys below.
    texts: dict[bytes, int] = defaultdict(lambda: -1 - len(texts), {b"": -1})
    ranges = trace.read(_RANGE, trace.select(NVTX, _RANGE, where), texts=texts)
    made = {name: spec for name, spec in _RANGE.items() if name != "end_ns"}
    making = trace.read(made, trace.select(NVTX, made, [f"eventType = {_DOMAIN}"]) if typed else "", texts=texts)
    for rows in (ranges, making):
        inline = rows.pop("text")
        rows["name"] = np.where(inline < -1, inline, rows["name"])
    known = trace.strings(distinct(np.concatenate([ranges["name"], making["name"]])).tolist())
    known |= {key: text.decode("utf-8", "replace") for text, key in texts.items()}
    domains: dict[tuple[int, int], str] = {}
    making = ordered(making)
    for pid, domain, key in zip(process_of(making["tid"]), making["domain"], making["name"], strict=True):
        domains.setdefault((pid, domain), known.get(key, ""))
    open_ends = ranges["end_ns"] == _NO_END
    if open_ends.any():
        columns = [
            (table, each) for table in (NVTX, CALLS, *_WORK) for each in ("start", "end") if trace.has(table, each)
        ]
        ends = [trace.rows(f'SELECT max("{column}") FROM {table}')[0][0] for table, column in columns]  # noqa: S608
        ranges["end_ns"][open_ends] = max(end for end in ends if end is not None)
        notes.append(f"{int(open_ends.sum())} NVTX ranges were open at the end of the capture and end there")
    ranges["pid"] = process_of(ranges["tid"])
    ranges = ordered(forwards(ranges, "NVTX ranges", notes))
    ranges["name"] = categories(ranges["name"], known)
    # Few processes have few domains each, so pairs of them become small keys.
    pids, numbers = distinct(ranges["pid"]), distinct(ranges["domain"])
    keys = places_in(pids, ranges["pid"]) * len(numbers) + places_in(numbers, ranges["domain"])
    pairs = [(pid, number) for pid in pids.tolist() for number in numbers.tolist()]
    words = [domains.get((pid, number), f"domain {number}" if number else "") for pid, number in pairs]
    ranges["domain"] = categories(keys, dict(enumerate(words)))
    ended = np.isin(ranges.pop("event"), _START_END)
    ranges["style"] = categories(ended.astype(np.int8), {0: "push_pop", 1: "start_end"}, every=True)
    if not len(ranges["start_ns"]):
        notes.append(
            "no NVTX ranges were captured: they cannot lead kernels back to layers (nsys profile --trace cuda,nvtx)"
        )
    return ranges


def _graph_nodes(trace: TraceFile) -> Columns:
    """The making of graph nodes: CUDA_GRAPH_NODE_EVENTS, in nsys 2022.4 CUDA_GRAPH_EVENTS."""
    tables = ("CUDA_GRAPH_NODE_EVENTS", "CUDA_GRAPH_EVENTS")
    table = next((name for name in tables if trace.has(name, "graphNodeId")), "")
    nodes = ordered(trace.read(_NODE, trace.select(table, _NODE)))
    nodes["pid"] = process_of(nodes["tid"])
    return nodes


def _note_graph_launches(trace: TraceFile, notes: list[str]) -> None:
    span = {"start_ns": "start:0", "end_ns": "end:0"}
    spans = trace.read(span, trace.select(GRAPHS, span))
    launches, total = len(spans["start_ns"]), int((spans["end_ns"] - spans["start_ns"]).sum())
    if launches:
        notes.append(
            f"{launches} launches of CUDA graphs ({total / 1e6:.3f} ms) were recorded as a whole: their kernels are "
            "not in the file (nsys profile --cuda-graph-trace=node records them)"
        )


# --- the machine ----------------------------------------------------------------------------


def _gpus(trace: TraceFile, devices: Ints, notes: list[str]) -> tuple[TraceGpu, ...]:
    """The GPUs, numbered as the kernels number them: by TARGET_INFO_CUDA_DEVICE, which maps one to the other."""
    spec = {"device": "cudaId:0", "gpu": "gpuId:-1", "sms": "numMultiprocessors:0"}
    cuda = trace.read(spec, trace.select("TARGET_INFO_CUDA_DEVICE", spec))
    pairs = sorted(set(zip(*(cuda[name].tolist() for name in spec), strict=True)))
    described = _described(trace)
    gpus: dict[int, TraceGpu] = {}
    for device, gpu, sms in pairs:
        if device in gpus:
            notes.append(f"processes mean different GPUs by CUDA device {device}: the first is described")
        elif (known := gpu if gpu >= 0 else device) in described:
            gpus[device] = msgspec.structs.replace(described[known], device=device)
        else:
            gpus[device] = TraceGpu(device=device, sms=sms)
    if not pairs:
        gpus = described
    missing = [device for device in distinct(devices).tolist() if device not in gpus or not gpus[device].name]
    if missing:
        notes.append(f"the file does not describe GPU {', '.join(map(str, missing))}: name it (--gpu)")
    return tuple(gpus[device] for device in sorted(gpus))


def _described(trace: TraceFile) -> dict[int, TraceGpu]:
    if not trace.has("TARGET_INFO_GPU", "id"):
        return {}
    wanted = ("computeMajor", "computeMinor", "smCount", "clockRate", "totalMemory", "memoryBandwidth", "l2CacheSize")
    spec = {"id": "id:0", "name": "name:''"} | {name: f"{name}:0" for name in wanted}
    gpus = {}
    for gpu, name, *numbers in trace.rows(trace.select("TARGET_INFO_GPU", spec) + " ORDER BY id"):
        major, minor, sms, clock_hz, memory, bandwidth, l2 = (
            int(number) if isinstance(number, int | float) and abs(number) < 1 << 63 else 0 for number in numbers
        )
        gpus[gpu] = TraceGpu(
            device=max(gpu, 0),
            name=str(name),
            compute_capability=f"{major}.{minor}" if major else "",
            sms=max(sms, 0),
            clock_mhz=clock_hz / 1e6,
            memory_bytes=max(memory, 0),
            dram_bytes_per_s=float(bandwidth),
            l2_bytes=max(l2, 0),
        )
    return gpus


def _version(trace: TraceFile) -> str:
    """The version of nsys: META_DATA_EXPORT, before 2023.4 EXPORT_META_DATA."""
    for table in ("META_DATA_EXPORT", "EXPORT_META_DATA"):
        if trace.has(table, "name") and trace.has(table, "value"):
            found = trace.rows(f"SELECT value FROM {table} WHERE name = 'EXPORT_PRODUCT_VERSION'")  # noqa: S608
            if found and found[0][0]:
                return str(found[0][0])
    return ""
