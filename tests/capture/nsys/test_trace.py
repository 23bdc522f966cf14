"""The reader of nsys exports: real files against nsys' own reports, and every schema against known truth."""

from __future__ import annotations

import csv
import itertools
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fakes.stats_factory import kernel_summary, nvtx_kernel_summary
from tests.fakes.support import CAPTURES, H100, ROOT, load_script, needs_captures, refused
from tests.fakes.trace_factory import (
    CALLS,
    COPIES,
    ENGINE,
    ERAS,
    GRAPHS,
    KERNELS,
    NVTX,
    SETS,
    Layer,
    Process,
    Rows,
    Work,
    global_tid,
    write_trace,
)
from trtprof.base.errors import CaptureError, MissingError, TrtprofError, UsageError
from trtprof.base.nested_ranges import NestedRanges, calls_of
from trtprof.base.trace import GRAPH_COLUMNS, LAUNCH_COLUMNS, RANGE_COLUMNS, WORK_COLUMNS, GpuTrace
from trtprof.capture.nsys.stats import KernelSums, read_report
from trtprof.capture.nsys.trace import read_trace

if TYPE_CHECKING:
    import pandas as pd

RTX3080 = CAPTURES / "nsys" / "torch_rtx3080_2026.1.sqlite"

STYLES = {"push_pop": "PushPop", "start_end": "StartEnd", "": ""}


def printed_sums(row: dict[str, object]) -> list[str]:
    """A row of sums with the digits that nsys prints."""
    return [
        str(row["total_ns"]), str(row["count"]), *(f"{row[name]:.1f}" for name in ("avg_ns", "median_ns")),
        str(row["min_ns"]), str(row["max_ns"]), f"{row['stddev_ns']:.1f}", str(row["name"]),
    ]  # fmt: skip


def official(report: str) -> list[list[str]]:
    with H100.with_name(f"{H100.stem}__{report}.csv").open(newline="") as file:
        return list(csv.reader(file))[1:]


def records(frame: pd.DataFrame) -> list[dict[str, object]]:
    return [{str(key): value for key, value in row.items()} for row in frame.to_dict("records")]


@needs_captures
def test_kernel_summary_is_that_of_nsys() -> None:
    found = kernel_summary(read_trace(H100))
    total = found["total_ns"].sum()
    share = [f"{100 * ns / total:.1f}" for ns in found["total_ns"]]
    mine = [[percent, *printed_sums(row)] for percent, row in zip(share, records(found), strict=True)]
    assert len(mine) == 41
    assert mine == official("cuda_gpu_kern_sum")


@needs_captures
def test_nvtx_kernel_summary_is_that_of_nsys() -> None:
    mine = []
    for row in records(nvtx_kernel_summary(read_trace(H100))):
        total, count, *rest = printed_sums(row)
        thread = ["" if row[name] == -1 else str(row[name]) for name in ("pid", "tid")]
        mine.append(
            [str(row["range"]), STYLES[str(row["style"])], *thread, str(row["range_count"]), count, total, *rest]
        )
    assert len(mine) == 2677
    assert mine == official("nvtx_kern_sum")


@needs_captures
def test_two_real_gpus_and_processes() -> None:
    trace = read_trace(H100)
    assert trace.version == "2026.2.1.210"
    assert trace.work["kind"].value_counts().to_dict() == {"kernel": 3442, "memcpy": 904, "memset": 22}
    kernels = trace.work[trace.work["kind"] == "kernel"]
    assert kernels.groupby(["device", "pid", "stream"]).size().to_dict() == {(0, 111, 7): 1721, (1, 112, 15): 1721}
    assert len(trace.ranges) == 16_782
    assert len(trace.launches) == 5796
    assert trace.gpus == ()
    assert any("does not describe GPU 0, 1" in note for note in trace.notes)


@needs_captures
def test_a_real_gpu_is_described() -> None:
    trace = read_trace(RTX3080)
    (gpu,) = trace.gpus
    assert (gpu.device, gpu.name, gpu.compute_capability, gpu.sms) == (0, "NVIDIA GeForce RTX 3080", "8.6", 68)
    assert (gpu.clock_mhz, gpu.dram_bytes_per_s, gpu.l2_bytes) == (1710.0, 760_080_000_000.0, 5_242_880)
    assert len(trace.ranges) == 0
    assert any("no NVTX ranges" in note for note in trace.notes)


TRUTH_COLUMNS = ("start_ns", "end_ns", "kind", "name", "pid", "stream", "correlation", "graph_node")

PROCESSES = (
    Process(111, ENGINE, correlation=100),
    Process(112, ENGINE, correlation=100, device=1, start_ns=1_000_700),
    Process(113, ENGINE, correlation=100, device=1, start_ns=5_000_000, graph=True),
)


def in_order(rows: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    return sorted(rows, key=repr)


def check_columns(trace: GpuTrace) -> None:
    assert tuple(trace.work) == WORK_COLUMNS
    assert tuple(trace.launches) == LAUNCH_COLUMNS
    assert tuple(trace.ranges) == RANGE_COLUMNS
    assert tuple(trace.graph_nodes) == GRAPH_COLUMNS
    for table in (trace.work, trace.launches, trace.ranges, trace.graph_nodes):
        assert table["start_ns"].is_monotonic_increasing
        for name in table:
            expected = "O" if name in {"kind", "name", "short_name", "domain", "style"} else "i"
            assert table[name].dtype.kind == expected, name


def test_every_schema_says_the_same(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for era, inline in itertools.product(ERAS, (True, False)):
        with subtests.test(era=era, inline=inline):
            _schema(tmp_path / f"{era}_{inline}.sqlite", era, inline)


def _schema(path: Path, era: str, inline: bool) -> None:
    truth = write_trace(path, PROCESSES, era=era, inline=inline, shuffle=7, other_threads=True)
    trace = read_trace(path)
    check_columns(trace)
    found = list(trace.work[list(TRUTH_COLUMNS)].itertuples(index=False, name=None))
    assert in_order(found) == in_order([tuple(getattr(w, name) for name in TRUTH_COLUMNS) for w in truth.work])
    assert len(trace.ranges) == truth.ranges
    assert len(trace.launches) == truth.calls
    assert set(trace.ranges["domain"]) == {"TensorRT", "myelin-exec"}
    assert set(trace.ranges["style"]) == {"push_pop"}
    assert set(trace.launches["name"]) == {
        "cudaLaunchKernel", "cudaMemcpyAsync", "cudaMemsetAsync", "cudaGraphLaunch", "cudaStreamSynchronize",
    }  # fmt: skip
    assert trace.version == ERAS[era].product
    assert [gpu.device for gpu in trace.gpus] == [0, 1]
    assert trace.notes == ()
    nodes = trace.graph_nodes
    assert set(nodes["pid"]) == {113}
    replayed = set(trace.work["graph_node"]) - {0}
    assert replayed == set(nodes["graph_node"][nodes["original_node"] > 0])
    assert set(nodes["original_node"]) - {0} == set(nodes["graph_node"][nodes["original_node"] == 0])


def test_ranges_lead_to_the_layers(tmp_path: Path) -> None:
    path = tmp_path / "trace.sqlite"
    truth = write_trace(path, PROCESSES, shuffle=3, other_threads=True)
    trace = read_trace(path)
    layers = trace.ranges[
        (trace.ranges["domain"] == "TensorRT") & (trace.ranges["name"] != "ExecutionContext::enqueue")
    ]
    nested = NestedRanges(*(layers[name].to_numpy() for name in ("tid", "start_ns", "end_ns")))
    call = calls_of(*(t[name].to_numpy() for t in (trace.work, trace.launches) for name in ("pid", "correlation")))
    assert (call >= 0).all()
    called = trace.launches.iloc[call]
    tid, start = called["tid"].to_numpy().copy(), called["start_ns"].to_numpy().copy()
    nodes = trace.graph_nodes.drop_duplicates("graph_node").set_index("graph_node")
    for row, node in enumerate(trace.work["graph_node"].tolist()):
        if node:
            captured = nodes.loc[nodes.loc[node, "original_node"]]
            tid[row], start[row] = captured["tid"], captured["start_ns"]
    inner = nested.innermost(tid, start)
    names = np.where(inner >= 0, layers["name"].to_numpy(dtype=object)[inner], "")
    keys = ("pid", "correlation", "graph_node", "start_ns")
    found = dict(zip(trace.work[list(keys)].itertuples(index=False, name=None), names, strict=True))
    assert found == {tuple(getattr(work, key) for key in keys): work.layer for work in truth.work}
    without = {(pid, name) for pid, name in zip(layers["pid"], layers["name"], strict=True)} - {
        (work.pid, work.layer) for work in truth.work
    }
    assert without == truth.layers_without_work


def test_processes_with_the_same_correlation_ids_stay_apart(tmp_path: Path) -> None:
    path = tmp_path / "trace.sqlite"
    truth = write_trace(path, [Process(111, ENGINE), Process(112, ENGINE)])
    found = nvtx_kernel_summary(read_trace(path))
    for pid in (111, 112):
        whole = found[(found["pid"] == pid) & (found["range"] == "TensorRT:ExecutionContext::enqueue")]
        expected = [work for work in truth.work if work.pid == pid and work.kind == "kernel"]
        assert whole["count"].sum() == len(expected)
        assert whole["total_ns"].sum() == sum(work.end_ns - work.start_ns for work in expected)


def test_sizes_of_kernels_copies_and_memsets(tmp_path: Path) -> None:
    path = tmp_path / "trace.sqlite"
    layers = (
        Layer("a", (Work("void ns::gemm<float, (int)2>(T1*)", 10, grid=(70_000, 3, 2), block=(32, 4, 2)),)),
        Layer("b", (Work("", 10, "memcpy", bytes=1 << 40), Work("", 10, "memset", bytes=12))),
    )
    write_trace(path, [Process(111, layers, iterations=1)])
    kernel, copied, reset = records(read_trace(path).work)
    assert (kernel["name"], kernel["short_name"]) == ("void ns::gemm<float, (int)2>(T1*)", "gemm")
    assert [kernel[f"grid_{axis}"] for axis in "xyz"] == [70_000, 3, 2]
    assert [kernel[f"block_{axis}"] for axis in "xyz"] == [32, 4, 2]
    assert (kernel["registers"], kernel["static_smem"], kernel["dynamic_smem"]) == (32, 1024, 2048)
    assert (kernel["bytes"], copied["bytes"], reset["bytes"]) == (0, 1 << 40, 12)
    assert (copied["name"], copied["short_name"], reset["name"]) == ("memcpy DtoD", "memcpy DtoD", "memset")
    assert copied["grid_x"] == reset["registers"] == 0


WORKS = st.builds(
    Work,
    name=st.sampled_from(["k1", "k2", "void f<int>()", "ø\u2026"]),
    ns=st.integers(0, 5000),
    kind=st.sampled_from(["kernel", "memcpy", "memset"]),
    stream=st.sampled_from([7, 13]),
    bytes=st.integers(0, 1 << 40),
    grid=st.tuples(*[st.integers(1, 1 << 31)] * 3),
    block=st.just((128, 1, 1)),
)
LAYERS = st.lists(st.builds(Layer, st.sampled_from("abcd"), st.lists(WORKS, max_size=3).map(tuple)), max_size=4)


@given(
    engines=st.lists(st.tuples(LAYERS, st.integers(1, 3), st.booleans()), min_size=1, max_size=3),
    era=st.sampled_from(sorted(ERAS)),
    shuffle=st.one_of(st.none(), st.integers(0, 9)),
    inline=st.booleans(),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_nanosecond_is_lost(
    tmp_path: Path, engines: list[tuple[list[Layer], int, bool]], era: str, shuffle: int | None, inline: bool
) -> None:
    path = tmp_path / "trace.sqlite"
    processes = [
        Process(100 + at, tuple(layers), iterations=iterations, graph=graph, start_ns=at * 777)
        for at, (layers, iterations, graph) in enumerate(engines)
    ]
    truth = write_trace(path, processes, era=era, shuffle=shuffle, inline=inline)
    trace = read_trace(path)
    check_columns(trace)
    lasted = (trace.work["end_ns"] - trace.work["start_ns"]).sum()
    assert lasted == sum(work.end_ns - work.start_ns for work in truth.work)
    assert kernel_summary(trace)["total_ns"].sum() == truth.kernel_ns
    assert kernel_summary(trace)["count"].sum() == sum(work.kind == "kernel" for work in truth.work)
    # Outside of all ranges are exactly the kernels of CUDA graphs, as nsys counts them.
    ranges = nvtx_kernel_summary(trace)
    outside = ranges["total_ns"][ranges["range"] == ""].sum()
    assert outside == sum(w.end_ns - w.start_ns for w in truth.work if w.kind == "kernel" and w.graph_node)


def test_tables_that_are_not_there(tmp_path: Path, subtests: pytest.Subtests) -> None:
    expected = {
        NVTX: "no NVTX ranges", CALLS: "no API calls", KERNELS: "no kernels", "StringIds": "names of kernels are not",
        "TARGET_INFO_GPU": "does not describe GPU 0", SETS: "", COPIES: "", "PROCESSES": "",
    }  # fmt: skip
    for table, words in expected.items():
        with subtests.test(table=table):
            path = tmp_path / f"{table}.sqlite"
            truth = write_trace(path, [Process(111, ENGINE)], without=[table])
            trace = read_trace(path)
            check_columns(trace)
            kinds = {SETS: "memset", COPIES: "memcpy", KERNELS: "kernel"}
            assert len(trace.work) == sum(work.kind != kinds.get(table) for work in truth.work)
            assert len(trace.notes) == bool(words)
            assert all(words in note for note in trace.notes)
            names = set(trace.work["name"][trace.work["kind"] == "kernel"])
            assert len(names) == (0 if table == KERNELS else 1 if table == "StringIds" else 6)


def test_columns_that_are_not_there(tmp_path: Path, subtests: pytest.Subtests) -> None:
    columns = "greenContextId graphNodeId mangledName demangledName globalPid textId domainId eventType gridX"
    for column in columns.split():
        with subtests.test(column=column):
            path = tmp_path / f"{column}.sqlite"
            truth = write_trace(path, [Process(111, ENGINE)], without_columns=[column])
            trace = read_trace(path)
            check_columns(trace)
            assert set(trace.work["pid"]) == {111}  # without globalPid: that of the call
            assert kernel_summary(trace)["total_ns"].sum() == truth.kernel_ns
            assert (nvtx_kernel_summary(trace)["range_count"] > 0).all()
            assert "" not in set(trace.work["name"]), "the short name where there is no other"


def test_without_a_process_the_ambiguous_is_left_open(tmp_path: Path) -> None:
    path = tmp_path / "trace.sqlite"
    processes = [Process(111, ENGINE, correlation=1), Process(112, ENGINE, correlation=10, start_ns=1_000_333)]
    truth = write_trace(path, processes, without_columns=["globalPid"])
    trace = read_trace(path)
    used: dict[int, set[int]] = {}
    for pid, correlation in zip(trace.launches["pid"], trace.launches["correlation"], strict=True):
        used.setdefault(correlation, set()).add(pid)
    expected = {w.start_ns: w.pid if len(used[w.correlation]) == 1 else -1 for w in truth.work}
    assert len(set(expected.values())) == 3
    assert dict(zip(trace.work["start_ns"], trace.work["pid"], strict=True)) == expected
    assert any("have no API call" in note for note in trace.notes)


def test_a_look_alike_with_few_columns(tmp_path: Path) -> None:
    path = tmp_path / "hand.sqlite"
    with sqlite3.connect(path) as db:
        db.executescript(
            f"""
            CREATE TABLE StringIds (id INTEGER, value TEXT);
            CREATE TABLE {KERNELS} (start INTEGER, "end" INTEGER, deviceId INTEGER, streamId INTEGER,
                correlationId REAL, shortName INTEGER);
            INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'gemm');
            INSERT INTO {KERNELS} VALUES (30, 40, 0, 7, 2, 2), (10, 25, 0, 7, 1, 1), (50, 60, 0, 7, NULL, 9);
            """  # noqa: S608
        )
    db.close()
    trace = read_trace(path)
    check_columns(trace)
    assert trace.work["name"].tolist() == ["gemm", "gemm", ""]
    assert trace.work["correlation"].tolist() == [1, 2, 0]
    assert set(trace.work["pid"]) == {-1}
    assert records(kernel_summary(trace))[0]["total_ns"] == 25
    assert trace.version == ""


def test_text_where_an_integer_belongs(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for where, at in (("first rows", 2), ("later rows", 30_000)):
        with subtests.test(where=where):
            path = tmp_path / f"{at}.sqlite"
            with sqlite3.connect(path) as db:
                db.execute(f'CREATE TABLE {KERNELS} (start, "end", deviceId)')
                rows = ((row, row + 1, "zero" if row == at else 0) for row in range(40_000))
                db.executemany(f"INSERT INTO {KERNELS} VALUES (?, ?, ?)", rows)  # noqa: S608
            db.close()
            with pytest.raises(UsageError, match="something else than integers"):
                read_trace(path)


def hand_made(path: Path, rows: Rows) -> GpuTrace:
    write_trace(path, rows=rows)
    return read_trace(path)


def one_kernel(rows: Rows, *, launched: int = 1000, pid: int = 111) -> int:
    """A kernel, launched by thread ``pid``; returns the globalTid."""
    tid = global_tid(pid, pid)
    rows.call(launched, launched + 10, "cuLaunchKernel", tid, 5)
    rows.work(launched + 100, Work("kernel", 50), pid=pid, correlation=5)
    return tid


def test_ranges_of_all_sorts(tmp_path: Path) -> None:
    rows = Rows()
    tid = one_kernel(rows)
    rows.domain(4, 111, 111, "named")
    rows.domain(4, 112, 112, "of another process")
    rows.range(-500, 2000, "before zero", tid)
    rows.range(900, None, "open", tid, domain=4)
    rows.range(950, 1500, "start and end", tid, event=60, domain=9)
    rows.range(960, 1400, "by id", tid, domain=4, inline=False)
    rows.range(960, 1400, "elsewhere", global_tid(112, 112), domain=4)
    rows.range(970, None, "a mark", tid, event=34)
    rows.range(990, 980, "backwards", tid)
    rows.add(NVTX, start=995, end=1200, eventType=59, globalTid=tid, domainId=0)
    trace = hand_made(tmp_path / "trace.sqlite", rows)
    found = {
        row["name"]: (row["domain"], row["style"], row["start_ns"], row["end_ns"]) for row in records(trace.ranges)
    }
    assert found == {
        "before zero": ("", "push_pop", -500, 2000),
        "open": ("named", "push_pop", 900, 2000),
        "start and end": ("domain 9", "start_end", 950, 1500),
        "by id": ("named", "push_pop", 960, 1400),
        "elsewhere": ("of another process", "push_pop", 960, 1400),
        "": ("", "push_pop", 995, 1200),
    }
    assert any("1 NVTX ranges were open" in note for note in trace.notes)
    assert any("1 rows of NVTX ranges end before they start" in note for note in trace.notes)


def test_graphs_recorded_as_a_whole(tmp_path: Path) -> None:
    rows = Rows()
    one_kernel(rows)
    for start in (2000, 3000):
        rows.add(GRAPHS, start=start, end=start + 400, deviceId=0, globalPid=global_tid(111, 0), graphId=1)
    trace = hand_made(tmp_path / "trace.sqlite", rows)
    assert len(trace.work) == 1
    assert any("2 launches of CUDA graphs (0.001 ms) were recorded as a whole" in note for note in trace.notes)


def test_work_that_has_no_end_is_counted_out(tmp_path: Path) -> None:
    rows = Rows()
    one_kernel(rows)
    for start, end in ((7000, 0), (-(2**62), 9000), (-(2**62), 2**62)):
        rows.add(KERNELS, start=start, end=end, deviceId=0, globalPid=global_tid(111, 0), demangledName=1, shortName=1)
    trace = hand_made(tmp_path / "trace.sqlite", rows)
    assert len(trace.work) == 1
    for said in ("1 rows of GPU work end before they start", "2 rows of GPU work last longer than a day"):
        assert any(said in note for note in trace.notes)


def test_a_gpu_of_infinite_numbers_is_one_of_unknown_ones(tmp_path: Path) -> None:
    path = tmp_path / "trace.sqlite"
    write_trace(path, [Process(111, ENGINE)])
    with sqlite3.connect(path) as file:
        file.execute("UPDATE TARGET_INFO_GPU SET computeMinor = 9e999, smCount = -9e999")
    file.close()
    (gpu,) = read_trace(path).gpus
    assert (gpu.compute_capability, gpu.sms) == ("8.0", 0)


def test_big_and_mixed_numbers(tmp_path: Path) -> None:
    """A value that varies only late, NULL among numbers, 63 bits: nothing that a short cut may miss."""
    rows = Rows()
    tid = global_tid(111, 111)
    late = (1 << 62) + 1
    for at in range(70_000):
        rows.work(at, Work("kernel", 1), pid=111, correlation=None if at % 3 else at + 1)
    rows.work(late, Work("late", 5, stream=99, grid=(1 << 40, 1, 1)), pid=222, correlation=7, device=3, node=late)
    rows.call(1, 2, "cudaLaunchKernel", tid, 1)
    trace = hand_made(tmp_path / "trace.sqlite", rows)
    *_, before, last = records(trace.work.tail(2))
    assert (before["stream"], before["device"], before["pid"], before["graph_node"], before["grid_x"]) == (
        7, 0, 111, 0, 64,
    )  # fmt: skip
    assert (last["start_ns"], last["end_ns"], last["graph_node"]) == (late, late + 5, late)
    assert (last["stream"], last["device"], last["pid"], last["grid_x"], last["name"]) == (99, 3, 222, 1 << 40, "late")
    assert trace.work["correlation"].tolist() == [0 if at % 3 else at + 1 for at in range(70_000)] + [7]


def test_a_process_without_a_gpu(tmp_path: Path) -> None:
    """What nsys makes of a program that only has NVTX: no CUPTI table at all."""
    rows = Rows()
    rows.range(10, 20, "load", global_tid(5, 5))
    trace = hand_made(tmp_path / "trace.sqlite", rows)
    check_columns(trace)
    assert len(trace.work) == len(trace.launches) == 0
    assert trace.ranges["name"].tolist() == ["load"]
    assert any("CUDA was not traced" in note for note in trace.notes)


def test_what_the_benchmark_reads_is_what_it_says(tmp_path: Path) -> None:
    files = load_script(ROOT / "scripts" / "bench" / "trace_files.py", "trace_files")
    path = tmp_path / "large.sqlite"
    truth = files.write_large(path, 3, 5, 2, 10)
    trace = read_trace(path)
    assert trace.work["kind"].value_counts().to_dict() == {"kernel": truth.kernels, "memcpy": truth.copies, "memset": 0}
    assert len(trace.ranges) == truth.ranges == 33
    assert kernel_summary(trace)["total_ns"].sum() == truth.kernel_ns
    nested = NestedRanges(*(trace.ranges[name].to_numpy() for name in ("tid", "start_ns", "end_ns")))
    call = calls_of(*(t[name].to_numpy() for t in (trace.work, trace.launches) for name in ("pid", "correlation")))
    inner = nested.innermost(*(trace.launches[name].to_numpy()[call] for name in ("tid", "start_ns", "end_ns")))
    assert trace.ranges["name"].iloc[inner].tolist() == list(truth.layers) * 3


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    path = tmp_path / "trace.sqlite"
    write_trace(path, [Process(111, ENGINE, iterations=40)])
    return path


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def garble(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for at in range(4096, len(data), 4096):
        data[at : at + 200] = b"\xff" * 200
    path.write_bytes(bytes(data))


def garble_schema(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE NVTX", b"CREATE TABL\xff NVTX", 1))


def emptied(path: Path) -> None:
    with sqlite3.connect(path) as db:
        for table in (KERNELS, COPIES, SETS, CALLS, NVTX):
            db.execute(f"DELETE FROM {table}")  # noqa: S608
    db.close()


def of_something_else(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE bookmarks (url TEXT)")
    db.close()


def words_for_numbers(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute(f"UPDATE {KERNELS} SET streamId = 'seven' WHERE rowid = 3")  # noqa: S608
    db.close()


def without_starts(path: Path) -> None:
    write_trace(path, [Process(111, ENGINE)], without_columns=["start"])


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


SPOILED: dict[str, tuple[Callable[[Path], object], type[TrtprofError]]] = {
    "is cut short": (cut, UsageError),
    "is damaged": (garble, UsageError),
    "malformed database schema": (garble_schema, UsageError),
    "holds no GPU work": (emptied, CaptureError),
    "is not an export of nsys": (of_something_else, UsageError),
    "something else than integers": (words_for_numbers, UsageError),
    "has no column start": (without_starts, UsageError),
    "is empty": (lambda path: path.write_bytes(b""), UsageError),
    "is not an sqlite file": (lambda path: path.write_bytes(b"PK\3\4"), UsageError),
    "database disk image is malformed": (lambda path: path.write_bytes(path.read_bytes()[:60]), UsageError),
    "there is no file": (lambda path: path.unlink(), MissingError),
    "is a folder": (a_folder, UsageError),
}


def test_bad_files(sound: Path, subtests: pytest.Subtests) -> None:
    for number, (said, (spoil, kind)) in enumerate(SPOILED.items()):
        with subtests.test(said=said):
            path = sound.with_name(f"{number}.sqlite")
            shutil.copy(sound, path)
            spoil(path)
            with pytest.raises(kind) as error:
                read_trace(path)
            message = str(error.value)
            assert said in message
            assert str(path) in message
            assert error.value.fix


@given(st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=40))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_damage_is_read_over_or_refused(tmp_path: Path, changes: list[tuple[float, int]]) -> None:
    path = tmp_path / "trace.sqlite"
    write_trace(path, [Process(111, ENGINE, iterations=2), Process(113, ENGINE, iterations=2, graph=True)])
    data = bytearray(path.read_bytes())
    for at, value in changes:
        data[int(at * len(data))] = value
    path.write_bytes(data)
    try:
        trace = read_trace(path)
    except TrtprofError as error:
        refused(error)
    else:
        check_columns(trace)


def test_a_report_is_to_be_exported(tmp_path: Path) -> None:
    for name, fix in (
        ("a.nsys-rep", "nsys export --type sqlite --output a.sqlite a.nsys-rep"),
        ("a.qdstrm", "QdstrmImporter -i a.qdstrm -o a.nsys-rep, then nsys export"),
    ):
        path = tmp_path / name
        path.write_bytes(b"\x0a\x0b")
        with pytest.raises(UsageError, match="report of nsys") as error:
            read_trace(path)
        assert refused(error.value)
        assert error.value.fix.startswith(fix)


def test_a_file_that_is_being_written(sound: Path) -> None:
    writer = sqlite3.connect(sound, isolation_level=None)
    writer.execute("BEGIN EXCLUSIVE")
    try:
        with pytest.raises(UsageError, match="is being written") as error:
            read_trace(sound)
    finally:
        writer.close()
    assert "nsys export" in refused(error.value)
    assert len(read_trace(sound).work)


def test_a_write_ahead_log_is_part_of_the_file(sound: Path) -> None:
    writer = sqlite3.connect(sound, isolation_level=None)
    writer.execute("PRAGMA journal_mode = WAL")
    before = len(read_trace(sound).work)
    writer.execute(f"DELETE FROM {SETS}")  # noqa: S608
    try:
        assert len(read_trace(sound).work) == before - 40
    finally:
        writer.close()


@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
def test_nothing_is_written_beside_the_file(sound: Path, journal: str) -> None:
    folder = sound.parent / "?mode=rw&x #%41"  # nor is the name taken for a part of SQLite's address
    folder.mkdir()
    path = folder / "trace.sqlite"
    shutil.move(sound, path)
    writer = sqlite3.connect(path)
    writer.execute(f"PRAGMA journal_mode = {journal}")
    writer.close()
    before = path.read_bytes()
    assert [each.name for each in folder.iterdir()] == ["trace.sqlite"]
    folder.chmod(0o500)
    try:
        assert len(read_trace(path).work)
    finally:
        folder.chmod(0o700)
    assert [each.name for each in folder.iterdir()] == ["trace.sqlite"]
    assert path.read_bytes() == before


def test_names_that_are_no_utf8(tmp_path: Path) -> None:
    rows = Rows()
    tid = one_kernel(rows)
    rows.range(900, 1900, "layer", tid)
    path = tmp_path / "trace.sqlite"
    write_trace(path, rows=rows)
    with sqlite3.connect(path) as db:
        db.execute(f"UPDATE {NVTX} SET text = CAST(x'ff41' AS TEXT)")  # noqa: S608
        db.execute("UPDATE StringIds SET value = CAST(x'ff42' AS TEXT) WHERE value = 'kernel'")
    db.close()
    trace = read_trace(path)
    assert trace.ranges["name"].tolist() == ["\ufffdA"]
    assert trace.work["name"].tolist() == ["\ufffdB"]


def read_stats(path: Path) -> KernelSums:
    sums = read_report(path)
    assert isinstance(sums, KernelSums)
    return sums


@needs_captures
def test_stats_say_what_the_capture_says() -> None:
    trace = read_trace(H100)
    for report, mine in (("cuda_gpu_kern_sum", kernel_summary(trace)), ("nvtx_kern_sum", nvtx_kernel_summary(trace))):
        sums = read_stats(H100.with_name(f"{H100.stem}__{report}.csv"))
        assert (sums.report, sums.notes) == (report, ())
        assert tuple(sums.sums) == tuple(mine)
        exact = [name for name in mine if name not in {"avg_ns", "median_ns", "stddev_ns"}]
        assert sums.sums[exact].equals(mine[exact].astype(sums.sums[exact].dtypes))
        for name in ("avg_ns", "median_ns", "stddev_ns"):
            np.testing.assert_allclose(sums.sums[name], mine[name], atol=0.0501)


OLD_STATS = """Generating SQLite file a.sqlite from a.nsys-rep
Processing [a.sqlite] with [gpukernsum.py]...

Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),GridXYZ,BlockXYZ,Name
75.0,"3,000",2,1500.0,1500.0,1000,2000,707.1,   1    2    3,  32    1    1,"f<int, 2>(T1)"
25.0,1000,1,1000.0,1000.0,1000,1000,0.0,   1    1    1,  64    1    1,g

Processing [a.sqlite] with [nvtxsum.py]...
"""


def test_stats_of_2022(tmp_path: Path) -> None:
    path = tmp_path / "a_gpukernsum.csv"
    path.write_text(OLD_STATS)
    report, sums, notes, _ = read_stats(path)
    assert (report, notes) == ("cuda_gpu_kern_gb_sum", ())
    assert sums["name"].tolist() == ["f<int, 2>(T1)", "g"]
    assert sums["total_ns"].tolist() == [3000, 1000]
    assert sums["grid"].tolist() == ["1    2    3", "1    1    1"]


def test_stats_in_other_units_and_words(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(
        "Time(%),Total Time (us),Instances,Average (us),Minimum (us),Maximum (us),Name\n"
        "100.0,12.345,2,6.1725,5,7.345,f\n"
    )
    report, sums, notes, rounded = read_stats(path)
    assert (report, rounded) == ("cuda_gpu_kern_sum", True)
    (row,) = records(sums)
    assert [row["total_ns"], row["min_ns"], row["max_ns"]] == [12_345, 5000, 7345]
    assert row["median_ns"] != row["median_ns"], "NaN"
    assert "printed in us" in notes[0]


BAD_STATS = {
    "is empty": "",
    "it holds no table": "nothing\n",
    "its header is Time (%), Total Time (ns)": "Time (%),Total Time (ns),Num Calls,Name\n1,2,3,x\n",
    "holds no kernels": OLD_STATS.split("75.0", maxsplit=1)[0],
    "line 6 has 8 of 11 columns": OLD_STATS[: OLD_STATS.index(",   1    1    1")],
    "has 'many' where a number belongs": OLD_STATS.replace("707.1", "many"),
    "is a binary file": "SQLite format 3\0",
}


def test_bad_stats(tmp_path: Path, subtests: pytest.Subtests) -> None:
    path = tmp_path / "a.csv"
    for said, text in BAD_STATS.items():
        with subtests.test(said=said):
            path.write_text(text)
            with pytest.raises(UsageError) as error:
                read_stats(path)
            assert said in refused(error.value)


def test_stats_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="there is no file"):
        read_stats(tmp_path / "a.csv")
