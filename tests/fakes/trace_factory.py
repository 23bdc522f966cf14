"""Sqlite files as nsys exports them, of each schema that was seen, from a small description whose truth is known.

    truth = write_trace(path, [Process(pid=111, layers=(Layer("conv1", (Work("conv_kernel"),)), Layer("cast")))])

Every layer is a push-pop range of the domain ``TensorRT`` within ``ExecutionContext::enqueue``; a layer of Myelin holds
one of the domain ``myelin-exec``. All that a range launches starts on the GPU after the range has ended, as it does in
truth. ``Truth.work`` says of each kernel, copy and memset which layer it belongs to.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
COPIES = "CUPTI_ACTIVITY_KIND_MEMCPY"
SETS = "CUPTI_ACTIVITY_KIND_MEMSET"
CALLS = "CUPTI_ACTIVITY_KIND_RUNTIME"
GRAPHS = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
NVTX = "NVTX_EVENTS"
NODES = "CUDA_GRAPH_NODE_EVENTS"

_KERNEL = (
    "start end deviceId contextId streamId correlationId globalPid demangledName shortName mangledName launchType "
    "cacheConfig registersPerThread gridX gridY gridZ blockX blockY blockZ staticSharedMemory dynamicSharedMemory "
    "localMemoryPerThread localMemoryTotal gridId sharedMemoryExecuted graphNodeId sharedMemoryLimitConfig"
)
_COPY = (
    "start end deviceId contextId streamId correlationId globalPid bytes copyKind deprecatedSrcId srcKind dstKind "
    "srcDeviceId srcContextId dstDeviceId dstContextId migrationCause graphNodeId virtualAddress"
)
_SET = "start end deviceId contextId streamId correlationId globalPid value bytes graphNodeId memKind"
_NVTX = (
    "start end eventType rangeId category color text globalTid endGlobalTid textId domainId uint64Value int64Value "
    "doubleValue uint32Value int32Value floatValue jsonTextId jsonText"
)
_LATER = (
    " qmdBulkReleaseDone qmdPreexitDone qmdLastCtaDone graphId clusterX clusterY clusterZ clusterSchedulingPolicy "
    "maxPotentialClusterSize maxActiveClusters sharedMemoryRequestedPercentage"
)
_GPU = (
    "vmId id name busLocation isDiscrete l2CacheSize totalMemory memoryBandwidth clockRate smCount pwGpuId uuid luid "
    "chipName cuDevice computeMajor computeMinor"
)
_NODE = "start end eventClass globalTid nameId graphNodeId originalGraphNodeId"
_GRAPH = "start end eventClass globalTid nameId graphId originalGraphId graphExecId"


class Era(NamedTuple):
    """How a version of nsys exports.

    Attributes:
        product: EXPORT_PRODUCT_VERSION.
        schema: EXPORT_SCHEMA_VERSION.
        tables: Columns of each table that the version may write.
    """

    product: str
    schema: str
    tables: Mapping[str, str]


def _era(product: str, schema: str, *, old: bool, green: bool, later: bool, newest: bool, nodes: bool) -> Era:
    context = " greenContextId" if green else ""
    return Era(
        product,
        schema,
        {
            "EXPORT_META_DATA" if old else "META_DATA_EXPORT": "name value",
            "ENUM_CUDA_KRENEL_LAUNCH_TYPE" if old else "ENUM_CUDA_KERNEL_LAUNCH_TYPE": "id name label",
            "StringIds": "id value",
            "PROCESSES": "globalPid pid name",
            KERNELS: _KERNEL + context + (_LATER if later else "") + (" tensorSizeMinusOneElements" if newest else ""),
            COPIES: _COPY + context + (" copyCount" if later else ""),
            SETS: _SET + context,
            CALLS: "start end eventClass globalTid correlationId nameId returnValue callchainId",
            NVTX: _NVTX + (" binaryData" if newest else ""),
            GRAPHS: "start end deviceId contextId streamId correlationId globalPid graphId graphExecId" + context,
            **({NODES: _NODE, "CUDA_GRAPH_EVENTS": _GRAPH} if nodes else {"CUDA_GRAPH_EVENTS": _NODE}),
            "TARGET_INFO_GPU": _GPU,
            "TARGET_INFO_CUDA_DEVICE": "gpuId cudaId pid uuid numMultiprocessors",
        },
    )


ERAS: Mapping[str, Era] = {
    "2022.4": _era("2022.4.2.1", "3.0.0", old=True, green=False, later=False, newest=False, nodes=False),
    "2023.1": _era("2023.1.2.43", "3.1.2", old=True, green=False, later=False, newest=False, nodes=True),
    "2023.4": _era("2023.4.4.54", "3.7.2", old=False, green=True, later=False, newest=False, nodes=True),
    "2026.1": _era("2026.1.1.204", "3.24.14", old=False, green=True, later=True, newest=False, nodes=True),
    "2026.2": _era("2026.2.1.210", "3.25.0", old=False, green=True, later=True, newest=True, nodes=True),
}

_TEXT = {"name", "value", "label", "text", "jsonText", "binaryData", "tensorSizeMinusOneElements", "busLocation",
         "uuid", "chipName", "luid"}  # fmt: skip
_REAL = {"doubleValue", "floatValue"}


class Work(NamedTuple):
    """Something that a layer makes a GPU do."""

    name: str
    ns: int = 1000
    kind: Literal["kernel", "memcpy", "memset"] = "kernel"
    stream: int = 7
    bytes: int = 4096
    grid: tuple[int, int, int] = (64, 2, 1)
    block: tuple[int, int, int] = (128, 1, 1)


class Layer(NamedTuple):
    """A layer of an engine: a range of the domain TensorRT.

    Attributes:
        name: Of the range and in the truth.
        work: What it launches, in order; a layer without any is normal (constants, reshapes without effect).
        myelin: Name of the range of the domain ``myelin-exec`` within; ``""`` for none.
    """

    name: str
    work: tuple[Work, ...] = ()
    myelin: str = ""


class Process(NamedTuple):
    """A process that runs an engine on one thread.

    Attributes:
        pid: Of the system; two processes may use the same correlation ids.
        layers: Of the engine, in order.
        iterations: Runs of the engine.
        tid: The thread that enqueues.
        device: The GPU.
        start_ns: When the first iteration begins.
        correlation: The first correlation id.
        graph: The layers are captured once into a CUDA graph, which each iteration launches: no ranges at replay.
    """

    pid: int
    layers: tuple[Layer, ...]
    iterations: int = 3
    tid: int = 0
    device: int = 0
    start_ns: int = 1_000_000
    correlation: int = 100
    graph: bool = False


class DoneWork(NamedTuple):
    """The truth of one kernel, copy or memset."""

    start_ns: int
    end_ns: int
    kind: str
    name: str
    layer: str
    iteration: int
    pid: int
    tid: int
    stream: int
    correlation: int
    graph_node: int


@dataclass
class Truth:
    """What a written file holds.

    Attributes:
        work: All GPU work, by start.
        layers_without_work: Layers that launched nothing, ``(pid, name)``.
        ranges: How many push-pop and start-end ranges there are.
        calls: How many API calls.
    """

    work: list[DoneWork] = field(default_factory=list)
    layers_without_work: set[tuple[int, str]] = field(default_factory=set)
    ranges: int = 0
    calls: int = 0

    @property
    def kernel_ns(self) -> int:
        return sum(each.end_ns - each.start_ns for each in self.work if each.kind == "kernel")


def global_tid(pid: int, tid: int) -> int:
    """The serialised id of a thread: a machine in the bits above 48, as real files have it."""
    return 1 << 48 | pid << 24 | tid


class Rows:
    """The rows of a file before it is written: by table, a dictionary of the columns that are not NULL."""

    def __init__(self) -> None:
        self.tables: dict[str, list[dict[str, object]]] = {}
        self._strings: dict[str, int] = {}

    def add(self, table: str, **values: object) -> None:
        self.tables.setdefault(table, []).append(values)

    def string(self, value: str) -> int:
        if value not in self._strings:
            self._strings[value] = len(self._strings) + 1
            self.add("StringIds", id=self._strings[value], value=value)
        return self._strings[value]

    def domain(self, domain: int, pid: int, tid: int, name: str, *, start: int = -1_878_291_120) -> None:
        self.add(NVTX, start=start, eventType=75, text=name, globalTid=global_tid(pid, tid), domainId=domain)

    def range(
        self, start: int, end: int | None, name: str, tid: int, *, domain: int = 0, event: int = 59, inline: bool = True
    ) -> None:
        """An NVTX range; ``tid`` is a globalTid."""
        text = {"text": name} if inline else {"textId": self.string(name)}
        self.add(NVTX, start=start, end=end, eventType=event, globalTid=tid, domainId=domain, **text)

    def call(self, start: int, end: int, name: str, tid: int, correlation: int) -> None:
        """An API call; ``tid`` is a globalTid."""
        self.add(
            CALLS,
            start=start,
            end=end,
            eventClass=0,
            globalTid=tid,
            correlationId=correlation,
            nameId=self.string(name),
            returnValue=0,
        )

    def work(
        self,
        start: int,
        work: Work,
        *,
        pid: int,
        correlation: int | None,
        device: int = 0,
        context: int = 1,
        node: int | None = None,
    ) -> int:
        """A kernel, copy or memset; returns when it ends."""
        end = start + work.ns
        common: dict[str, object] = {
            "start": start, "end": end, "deviceId": device, "contextId": context, "streamId": work.stream,
            "correlationId": correlation, "globalPid": global_tid(pid, 0), "graphNodeId": node,
        }  # fmt: skip
        if work.kind == "kernel":
            demangled = self.string(work.name)
            short = self.string(work.name.partition("<")[0].rpartition("::")[2].partition("(")[0])
            sizes = dict(zip(("gridX", "gridY", "gridZ"), work.grid, strict=True))
            sizes |= dict(zip(("blockX", "blockY", "blockZ"), work.block, strict=True))
            fixed = dict.fromkeys(("localMemoryPerThread", "localMemoryTotal", "gridId", "cacheConfig"), 0)
            self.add(
                KERNELS,
                **common,
                **sizes,
                **fixed,
                demangledName=demangled,
                shortName=short,
                launchType=1,
                registersPerThread=32,
                staticSharedMemory=1024,
                dynamicSharedMemory=2048,
                tensorSizeMinusOneElements="",
            )
        elif work.kind == "memcpy":
            self.add(COPIES, **common, bytes=work.bytes, copyKind=8)
        else:
            self.add(SETS, **common, bytes=work.bytes, value=0)
        return end


_CALLS = {"kernel": "cudaLaunchKernel_v7000", "memcpy": "cudaMemcpyAsync_v3020", "memset": "cudaMemsetAsync_v3020"}
_CLONE = 1000
"""What the id of a node of an instantiated graph is above that of the captured one."""


class _Simulation:
    """A process that runs: host and streams each have a clock.

    Args:
        rows: Rows of the file, which are added to.
        truth: Is added to.
        process: What runs.
        inline: NVTX texts stand in the row; else they are ids.
        other_threads: A second thread has ranges of the same names around the same times, which launch nothing.
    """

    def __init__(self, rows: Rows, truth: Truth, process: Process, *, inline: bool, other_threads: bool) -> None:
        self.rows, self.truth, self.process = rows, truth, process
        self.inline, self.other_threads = inline, other_threads
        self.tid = global_tid(process.pid, process.tid or process.pid)
        # Each process numbers its domains as it makes them.
        self.domains = {"TensorRT": 5, "myelin-exec": 3} if process.pid % 2 else {"TensorRT": 1, "myelin-exec": 2}
        self.clock, self.correlation = process.start_ns, process.correlation
        self.free: dict[int, int] = {}
        self.nodes: list[tuple[Work, str, int]] = []

    def run(self) -> None:
        for name, number in self.domains.items():
            self.rows.domain(number, self.process.pid, self.process.tid or self.process.pid, name)
        if self.process.graph:
            self.enqueue(-1)
            for _, _, node in self.nodes:
                self.node(self.clock + 300, node + _CLONE, node)
            self.wait()
        for iteration in range(self.process.iterations):
            if self.process.graph:
                self.replay(iteration)
            else:
                self.enqueue(iteration)
            self.wait()

    def enqueue(self, iteration: int) -> None:
        began = self.clock
        for layer in self.process.layers:
            self.clock += 100
            opened = self.clock
            self.clock += 100
            inner = self.clock
            for work in layer.work:
                self.clock += 50
                self.call(_CALLS[work.kind], 300)
                if self.process.graph:
                    # Captured, not run; the clone of the instantiated graph is what runs later.
                    self.nodes.append((work, layer.name, len(self.nodes) + 1))
                    self.node(self.clock - 200, len(self.nodes), None)
                else:
                    self.launch(work, layer.name, iteration, None)
                self.correlation += 1
            if layer.myelin:
                self.range(inner, self.clock + 20, layer.myelin, "myelin-exec")
            self.clock += 100
            self.range(opened, self.clock, layer.name, "TensorRT")
            if not layer.work:
                self.truth.layers_without_work.add((self.process.pid, layer.name))
        self.clock += 100
        self.range(began, self.clock, "ExecutionContext::enqueue", "TensorRT")

    def replay(self, iteration: int) -> None:
        self.clock += 100
        self.call("cudaGraphLaunch_v10000", 500)
        for work, layer, node in self.nodes:
            self.launch(work, layer, iteration, node + _CLONE)
        self.correlation += 1

    def wait(self) -> None:
        self.call("cudaStreamSynchronize_v3020", 500)
        self.correlation += 1
        self.clock = max(self.clock + 500, *self.free.values()) if self.free else self.clock + 500

    def call(self, name: str, ns: int) -> None:
        self.rows.call(self.clock, self.clock + ns, name, self.tid, self.correlation)
        self.truth.calls += 1
        self.clock += ns

    def launch(self, work: Work, layer: str, iteration: int, node: int | None) -> None:
        start = max(self.free.get(work.stream, 0), self.clock + 4000)
        process, correlation = self.process, self.correlation
        end = self.rows.work(start, work, pid=process.pid, correlation=correlation, device=process.device, node=node)
        self.free[work.stream] = end
        name = {"memcpy": "memcpy DtoD", "memset": "memset"}.get(work.kind, work.name)
        self.truth.work.append(
            DoneWork(
                start_ns=start,
                end_ns=end,
                kind=work.kind,
                name=name,
                layer=layer,
                iteration=iteration,
                pid=process.pid,
                tid=self.tid,
                stream=work.stream,
                correlation=correlation,
                graph_node=node or 0,
            )
        )

    def range(self, start: int, end: int, name: str, domain: str) -> None:
        threads = [(start, end, self.tid), (start - 50, end + 50, self.tid + 1)]
        for begin, until, tid in threads if self.other_threads else threads[:1]:
            self.rows.range(begin, until, name, tid, domain=self.domains[domain], inline=self.inline)
            self.truth.ranges += 1

    def node(self, at: int, node: int, original: int | None) -> None:
        self.rows.add(
            NODES,
            start=at,
            end=at,
            eventClass=0,
            globalTid=self.tid,
            nameId=self.rows.string("Graph Node Creation"),
            graphNodeId=node,
            originalGraphNodeId=original,
        )


def write_trace(
    path: Path,
    processes: Sequence[Process] = (),
    *,
    era: str = "2026.2",
    rows: Rows | None = None,
    inline: bool = True,
    other_threads: bool = False,
    without: Iterable[str] = (),
    without_columns: Iterable[str] = (),
    shuffle: int | None = None,
    gpus: bool = True,
) -> Truth:
    """Write a file of processes that run engines.

    Args:
        path: The file to write.
        processes: What ran.
        era: Key of `ERAS`.
        rows: More rows, made by hand.
        inline: Names of NVTX ranges stand in their rows; else they are ids of StringIds.
        other_threads: A second thread has ranges of the same names around the same times, which launch nothing.
        without: Tables to leave out.
        without_columns: Columns to leave out of all tables.
        shuffle: Seed by which the rows of each table are brought out of order, as nsys may since 2025.6.
        gpus: Whether the file describes the GPUs.
    """
    rows = rows or Rows()
    truth = Truth()
    for process in processes:
        _Simulation(rows, truth, process, inline=inline, other_threads=other_threads).run()
        rows.add("PROCESSES", globalPid=global_tid(process.pid, 0), pid=process.pid, name="python3")
    for device in sorted({process.device for process in processes}) if gpus else ():
        rows.add(
            "TARGET_INFO_GPU", vmId=1 << 48, id=device, name="NVIDIA GeForce RTX 4090", isDiscrete=1, smCount=128,
            l2CacheSize=72 << 20, totalMemory=24 << 30, memoryBandwidth=1_008_000_000_000, clockRate=2_520_000_000,
            chipName="AD102", cuDevice=device, computeMajor=8, computeMinor=9,
        )  # fmt: skip
    truth.work.sort(key=lambda each: each.start_ns)
    version = ERAS[era]
    meta = next(name for name in version.tables if name in {"META_DATA_EXPORT", "EXPORT_META_DATA"})
    rows.add(meta, name="EXPORT_PRODUCT_NAME", value="NVIDIA Nsight Systems")
    rows.add(meta, name="EXPORT_PRODUCT_VERSION", value=version.product)
    rows.add(meta, name="EXPORT_SCHEMA_VERSION", value=version.schema)
    launches = next(name for name in version.tables if name.endswith("LAUNCH_TYPE"))
    rows.add(launches, id=1, name="CUDA_KERNEL_LAUNCH_TYPE_REGULAR", label="Regular")
    dropped = set(without_columns)
    connection = create(path)
    for table, values in rows.tables.items():
        name = "CUDA_GRAPH_EVENTS" if table == NODES and NODES not in version.tables else table
        if name in without or not values:
            continue
        columns = [column for column in version.tables[name].split() if column not in dropped]
        make_table(connection, name, columns)
        if shuffle is not None:
            random.Random(shuffle).shuffle(values)
        insert(connection, name, columns, ([row.get(column) for column in columns] for row in values))
    connection.commit()
    connection.close()
    return truth


def create(path: Path) -> sqlite3.Connection:
    """A new file, written without a journal."""
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("PRAGMA synchronous = OFF")
    return connection


def make_table(connection: sqlite3.Connection, table: str, columns: Sequence[str]) -> None:
    """Make a table with the types that nsys gives its columns; it makes no index and no constraint but the key."""

    def declared(column: str) -> str:
        if table == "StringIds" and column == "id":
            return "id INTEGER PRIMARY KEY"
        kind = "TEXT" if column in _TEXT else "REAL" if column in _REAL else "INTEGER"
        return f'"{column}" {kind}'

    connection.execute(f"CREATE TABLE {table} ({', '.join(declared(column) for column in columns)})")


def insert(
    connection: sqlite3.Connection, table: str, columns: Sequence[str], rows: Iterable[Sequence[object]]
) -> None:
    """Insert rows of these columns; the others of the table stay NULL."""
    names, marks = ", ".join(f'"{column}"' for column in columns), ", ".join("?" * len(columns))
    connection.executemany(f"INSERT INTO {table} ({names}) VALUES ({marks})", rows)  # noqa: S608


CONV = Layer("conv1 + relu1", (Work("sm80_xmma_fprop_implicit_gemm_tf32f32_execute_kernel_trt", 5000),))
SPLIT_K = Layer(
    "fc",
    (
        Work("sm80_xmma_gemm_tn_n_tilesize64x64x8_execute_kernel__5x_cublas", 3000),
        Work("sm80_xmma_gemm_tn_n_tilesize64x64x8_execute_split_k_kernel__5x_cublas", 700),
    ),
)
CONSTANT = Layer("constant_1")
IDENTITY = Layer("Identity_2", (Work("", 900, "memcpy"),))
MYELIN = Layer("__myl_ResTraAdd_myl0_4", (Work("__myl_ResTraAdd_0x0123456789abcdef", 2000),), myelin="__myl_ResTraAdd")
RESET = Layer("{ForeignNode[a...b]}", (Work("", 200, "memset"), Work("void ns::kgen<float, (int)4>(int, T1)", 1500)))
SIDE = Layer("side_branch", (Work("generatedNativePointwise", 2500, stream=13),))

ENGINE = (CONV, SPLIT_K, CONSTANT, IDENTITY, MYELIN, RESET, SIDE)
"""An engine with one layer of each sort: fused, split-k, without work, a copy, Myelin, memset and kernel, a second
stream."""
