"""CUPTI records become columns: with a module that stands for cupti-python, and against the real wheels."""

from __future__ import annotations

import ast
import ctypes
import importlib.util
import itertools
import json
import os
import random
import sys
import threading
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes import fake_cupti as fake
from tests.fakes.fake_cupti import ActivityKind, FakeCupti
from tests.fakes.other_versions import CUPTI, asked_of, other_version
from tests.fakes.support import hide_modules, refused
from trtprof.base.errors import CaptureError, MissingError
from trtprof.base.trace import GRAPH_COLUMNS, LAUNCH_COLUMNS, RANGE_COLUMNS, WORK_COLUMNS, GpuTrace
from trtprof.capture.cupti import _errors as _cupti_errors
from trtprof.capture.cupti import _names as _cupti_names
from trtprof.capture.cupti import _records as _cupti_records
from trtprof.capture.cupti import _tables as _cupti_tables
from trtprof.capture.cupti import activity as cupti
from trtprof.capture.cupti._names import demangled, short_name
from trtprof.capture.cupti._records import FAMILIES, Records
from trtprof.capture.cupti.activity import collecting, injection_environment, unavailable

START, END = 2, 4
THREAD = 4242
VARIABLES = ("NSYS_PROFILING_SESSION_ID", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH")


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> FakeCupti:
    """A machine with a driver and cupti-python."""
    made = FakeCupti()
    package = ModuleType("cupti")
    package.__spec__ = ModuleSpec("cupti", None)
    package.cupti = made  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cupti", package)
    monkeypatch.setattr(cupti, "_library", lambda: Path("/opt/libcupti.so.13"))
    monkeypatch.setattr(cupti, "_load_driver", lambda: made)
    return made


def trace_of(module: FakeCupti, *buffers: list[Any], **options: Any) -> GpuTrace:
    with collecting(**options) as collection:
        collection.start()
        module.buffers = list(buffers)
        collection.stop()
        return collection.trace()


def launched(start: int = 100) -> list[Any]:
    """A kernel, launched by the runtime through the driver, within a range."""
    return [
        fake.marker(START, 1, start, THREAD, "conv1", "TensorRT"),
        fake.call(ActivityKind.DRIVER, 307, start + 12, start + 18, 5, THREAD),
        fake.call(ActivityKind.RUNTIME, 211, start + 10, start + 20, 5, THREAD),
        fake.marker(END, 1, start + 30, THREAD, None, "TensorRT"),
        fake.kernel("_Z3fooIfEvPT_", start + 50, start + 90, correlation_id=5, grid_x=7),
    ]


# --- the columns ----------------------------------------------------------------------------


def test_records_become_the_columns_of_a_trace(module: FakeCupti) -> None:
    trace = trace_of(module, launched())
    assert list(trace.work) == list(WORK_COLUMNS)
    assert list(trace.launches) == list(LAUNCH_COLUMNS)
    assert list(trace.ranges) == list(RANGE_COLUMNS)
    assert list(trace.graph_nodes) == list(GRAPH_COLUMNS)
    assert trace.collector == "cupti"
    assert trace.window == (1010, 1020)
    (work,) = trace.work.to_dict("records")
    assert work == {
        "start_ns": 150, "end_ns": 190, "kind": "kernel", "name": "void foo<float>(float*)", "short_name": "foo",
        "device": 0, "context": 1, "stream": 7, "pid": os.getpid(), "correlation": 5, "graph_node": 0, "bytes": 0,
        "grid_x": 7, "grid_y": 1, "grid_z": 1, "block_x": 32, "block_y": 1, "block_z": 1, "registers": 16,
        "static_smem": 0, "dynamic_smem": 0,
    }  # fmt: skip
    tid = os.getpid() << 24 | THREAD
    assert trace.launches.to_dict("records") == [
        {"start_ns": 110, "end_ns": 120, "name": "cudaLaunchKernel", "pid": os.getpid(), "tid": tid, "correlation": 5}
    ]
    assert trace.ranges.to_dict("records") == [
        {"start_ns": 100, "end_ns": 130, "domain": "TensorRT", "name": "conv1", "pid": os.getpid(), "tid": tid,
         "style": "push_pop"}
    ]  # fmt: skip
    assert trace.notes == ()


def test_columns_have_the_types_of_those_of_nsys(module: FakeCupti) -> None:
    trace = trace_of(module, [*launched(), fake.copy(1, 64, 300, 310), fake.memset(64, 320, 330)])
    for name in ("start_ns", "end_ns", "correlation", "graph_node", "bytes"):
        assert trace.work[name].dtype == np.int64, name
    assert trace.launches["tid"].dtype == np.int64
    assert trace.ranges["tid"].dtype == np.int64
    for table, names in ((trace.work, ("kind", "name", "short_name")), (trace.ranges, ("domain", "name", "style"))):
        for name in names:
            assert isinstance(table[name].dtype, pd.CategoricalDtype), name
    assert list(trace.work["kind"].cat.categories) == ["kernel", "memcpy", "memset"]


def test_copies_and_memsets_are_work(module: FakeCupti) -> None:
    records = [
        fake.memset(512, 400, 410, correlation_id=3),
        fake.copy(2, 2048, 300, 320, correlation_id=2),
        fake.copy(1, 1024, 100, 120, correlation_id=1),
        fake.copy(10, 4096, 200, 220, kind=int(ActivityKind.MEMCPY2)),
        fake.copy(99, 1, 500, 501),
    ]
    work = trace_of(module, records).work
    assert work["name"].tolist() == ["memcpy HtoD", "memcpy PtoP", "memcpy DtoH", "memset", "memcpy"]
    assert work["bytes"].tolist() == [1024, 4096, 2048, 512, 1]
    assert work["kind"].tolist() == ["memcpy"] * 3 + ["memset", "memcpy"]
    assert work["grid_x"].tolist() == [0] * 5


@pytest.mark.parametrize("seed", range(3))
def test_neither_buffers_nor_order_nor_form_change_the_trace(module: FakeCupti, seed: int) -> None:
    records = [record for turn in range(20) for record in launched(1000 * (turn + 1))]
    for turn in range(20):
        for record in records[5 * turn : 5 * turn + 5]:
            if hasattr(record, "correlation_id"):
                record.correlation_id = turn + 1
            else:
                record.id = turn + 1
    whole = trace_of(module, records)
    draw = random.Random(seed)
    shuffled = draw.sample(records, len(records))
    shuffled = fake.packed(shuffled, [fake.BUFFERS, fake.HELD][seed % 2]) if seed else shuffled
    parts = [shuffled[at : at + 7] for at in range(0, len(shuffled), 7)]
    again = trace_of(module, *parts)
    for table in ("work", "launches", "ranges"):
        pd.testing.assert_frame_equal(getattr(whole, table), getattr(again, table))
    assert whole.notes == again.notes == ()


@pytest.mark.parametrize("forms", [fake.BUFFERS, fake.HELD])
def test_bytes_are_read_where_there_are_some(forms: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One look at an attribute for the layout of each class, and one for each distinct name."""
    records = fake.packed([fake.kernel("_Z3foov", 10 * n, 10 * n + 5) for n in range(1, 501)], forms)
    looked: list[str] = []
    real = fake._value

    def look(row: Any, field: str) -> Any:
        looked.append(field)
        return real(row, field)

    monkeypatch.setattr(fake, "_value", look)
    collected = Records(FakeCupti())
    collected.add(records)
    assert collected.failure is None
    assert looked == ["kind", "name"]
    assert collected.columns("kernel")["start_ns"].tolist() == list(range(10, 5010, 10))
    assert collected.texts == ["_Z3foov"]


def test_bytes_of_another_layout_are_not_read() -> None:
    module = FakeCupti()
    module.activity_kernel10_dtype = np.dtype([("kind", "i4"), ("start", "u8")])
    collected = Records(module)
    collected.add(fake.packed([fake.kernel("a", 10, 20, grid_x=3)], fake.BUFFERS))
    assert collected.failure is None
    assert collected.columns("kernel")["grid_x"].tolist() == [3]


def test_records_of_other_kinds_are_passed_over(module: FakeCupti) -> None:
    other = fake.call(ActivityKind.RUNTIME, 211, 1, 2, 9, THREAD)
    other.kind = int(ActivityKind.OVERHEAD)
    assert len(trace_of(module, [other, *launched()]).launches) == 1


def test_gpus_are_described(module: FakeCupti) -> None:
    (first, second) = trace_of(module, launched(), [fake.device(1), fake.device(0, name="NVIDIA First")]).gpus
    assert (first.device, first.name, second.device) == (0, "NVIDIA First", 1)
    assert (first.compute_capability, first.sms, first.clock_mhz) == ("9.0", 132, 1980.0)
    assert (first.dram_bytes_per_s, first.l2_bytes, first.memory_bytes) == (3.35e12, 50 << 20, 80 << 30)


def test_graphs_whose_making_is_unknown_are_said(module: FakeCupti) -> None:
    trace = trace_of(module, [fake.kernel("k", 10, 20, graph_node_id=1 << 33 | 5)])
    assert trace.work["graph_node"].tolist() == [1 << 33 | 5]
    assert any("making was not recorded" in note for note in trace.notes)
    assert len(trace.graph_nodes) == 0
    assert not any(name == "subscribe" for name, *_ in module.calls)


def test_work_without_times_is_left_out_and_counted(module: FakeCupti) -> None:
    untimed = [fake.kernel("a", 0, 0), fake.kernel("b", 5, 0), fake.kernel("c", 0, 5)]
    trace = trace_of(module, [*untimed, fake.kernel("d", 30, 10), *launched()])
    assert trace.work["short_name"].tolist() == ["foo"]
    assert "3 kernels, copies and memsets have no times and were left out" in trace.notes
    assert "1 rows of GPU work end before they start and were left out" in trace.notes


# --- calls ----------------------------------------------------------------------------------


def test_of_calls_within_each_other_the_outer_is_kept(module: FakeCupti) -> None:
    records = [
        fake.call(ActivityKind.DRIVER, 307, 0, 0, 5, THREAD),
        fake.call(ActivityKind.DRIVER, 307, 12, 18, 5, THREAD),
        fake.call(ActivityKind.RUNTIME, 211, 10, 20, 5, THREAD),
        fake.call(ActivityKind.DRIVER, 307, 30, 40, 6, THREAD),
        fake.call(ActivityKind.DRIVER, 307, 50, 60, 0, THREAD),
        fake.call(ActivityKind.DRIVER, 307, 52, 58, 0, THREAD),
        fake.call(ActivityKind.RUNTIME, 41, 70, 80, 7, THREAD),
        fake.call(ActivityKind.DRIVER, 999, 75, 90, 7, THREAD),
    ]
    trace = trace_of(module, records)
    launches = trace.launches
    assert "1 API calls have no times and were left out" in trace.notes
    assert list(zip(launches["start_ns"], launches["name"], strict=True)) == [
        (10, "cudaLaunchKernel"), (30, "cuLaunchKernel"), (50, "cuLaunchKernel"), (52, "cuLaunchKernel"),
        (70, "cudaMemcpyAsync"), (75, "call 999"),
    ]  # fmt: skip


def test_names_of_calls_have_no_version(module: FakeCupti) -> None:
    trace = trace_of(module, [fake.call(ActivityKind.RUNTIME, 51, 1, 2, 1, THREAD)])
    assert trace.launches["name"].tolist() == ["cudaMemsetAsync"]


def test_work_without_a_call_is_said(module: FakeCupti) -> None:
    trace = trace_of(module, [*launched(), fake.kernel("alone", 500, 510, correlation_id=77)])
    assert "1 of 2 kernels, copies and memsets have no API call in the capture" in trace.notes
    assert any("no API calls" in note for note in trace_of(module, [fake.kernel("alone", 5, 6)]).notes)


def test_thread_ids_that_are_addresses_become_numbers(module: FakeCupti) -> None:
    module.failing["set_thread_id_type"] = 1
    threads = [0xFFFFF740, 0xFFFFE740, 0xFFFFF740]
    records = [fake.call(ActivityKind.RUNTIME, 211, 10 * n + 1, 10 * n + 2, n + 1, t) for n, t in enumerate(threads)]
    records += [fake.marker(START, 1, 1, threads[1], "r"), fake.marker(END, 1, 9, threads[1])]
    trace = trace_of(module, records)
    first, second, third = trace.launches["tid"].tolist()
    assert first == third != second
    assert {tid >> 24 for tid in trace.launches["tid"]} == {os.getpid()}
    assert trace.ranges["tid"].tolist() == [second]
    assert any("thread ids are numbers" in note for note in trace.notes)


# --- ranges ---------------------------------------------------------------------------------


def test_ranges_nest_repeat_and_cross_threads(module: FakeCupti) -> None:
    records = [
        fake.marker(START, 1, 10, THREAD, "outer"),
        fake.marker(START, 2, 20, THREAD, "inner", "TensorRT"),
        fake.marker(END, 2, 30, THREAD, None, "TensorRT"),
        fake.marker(END, 1, 40, THREAD),
        fake.marker(START, 3, 50, THREAD, "moved"),
        fake.marker(END, 3, 60, THREAD + 1),
        fake.marker(START, 4, 70, THREAD, "of the process", None, fake.ActivityObjectKind.PROCESS),
        fake.marker(END, 4, 80, THREAD, None, None, fake.ActivityObjectKind.PROCESS),
        fake.marker(1, 5, 75, THREAD, "an instant"),
    ]
    ranges = trace_of(module, records[::-1]).ranges
    assert ranges[["start_ns", "end_ns", "domain", "name", "style"]].to_numpy().tolist() == [
        [10, 40, "", "outer", "push_pop"], [20, 30, "TensorRT", "inner", "push_pop"],
        [50, 60, "", "moved", "start_end"], [70, 80, "", "of the process", "start_end"],
    ]  # fmt: skip


def test_ranges_that_are_not_whole_are_said(module: FakeCupti) -> None:
    records = [
        fake.marker(END, 1, 5, THREAD),
        fake.marker(START, 2, 10, THREAD, "open"),
        fake.marker(START, 3, 0, THREAD, "without a time"),
        fake.marker(START, 4, 5_000, THREAD, "open after the window"),
    ]
    trace = trace_of(module, records)
    assert trace.ranges[["start_ns", "end_ns", "name"]].to_numpy().tolist() == [
        [10, 1020, "open"], [5_000, 5_000, "open after the window"],
    ]  # fmt: skip
    assert "1 NVTX ranges began before recording did and were left out" in trace.notes
    assert "2 NVTX ranges were open at the end of the capture and end there" in trace.notes


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 50), st.integers(0, 50)), max_size=30), st.randoms())
def test_every_range_is_found_whatever_the_order(spans: list[tuple[int, int, int]], draw: random.Random) -> None:
    module = FakeCupti()
    collection = cupti.Collection(module)
    records, truth = [], []
    for number, (thread, start, length) in enumerate(spans):
        records.append(fake.marker(START, number, start, thread, f"range {number}"))
        records.append(fake.marker(END, number, start + length, thread))
        truth.append((start, start + length, f"range {number}", os.getpid() << 24 | thread))
    collection.start()
    module.buffers = [draw.sample(records, len(records)), [fake.kernel("k", 1, 2)]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cupti, "_load_driver", lambda: module)
        collection.stop()
    ranges = collection.trace().ranges
    assert sorted(ranges[["start_ns", "end_ns", "name", "tid"]].itertuples(index=False, name=None)) == sorted(truth)


@pytest.mark.parametrize("library", ["", "/usr/lib/other_tool.so"])
def test_no_ranges_are_explained(module: FakeCupti, monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    if library:
        monkeypatch.setenv("NVTX_INJECTION64_PATH", library)
    (note,) = [note for note in trace_of(module, [fake.kernel("k", 1, 2)]).notes if "NVTX" in note]
    assert "NVTX_INJECTION64_PATH" in note
    assert library in note
    assert not [note for note in trace_of(module, [fake.kernel("k", 1, 2)], nvtx=False).notes if "NVTX" in note]


# --- the course of a collection -------------------------------------------------------------


def test_what_is_enabled_is_disabled_again(module: FakeCupti) -> None:
    trace_of(module, launched())
    called = [name for name, *_ in module.calls]
    enabled = [kind for name, *kind in module.calls if name == "activity_enable"]
    assert enabled[0] == ["CONCURRENT_KERNEL"]
    assert {kind for (kind,) in enabled} == {
        "CONCURRENT_KERNEL", "MEMCPY", "MEMCPY2", "MEMSET", "RUNTIME", "DRIVER", "DEVICE", "MARKER",
    }  # fmt: skip
    assert not module.enabled
    assert called.index("activity_register_callbacks") < called.index("activity_enable")
    assert ("activity_flush_all", 1) in module.calls
    assert called.index("activity_flush_all") < called.index("activity_disable")


def test_work_is_waited_for(module: FakeCupti) -> None:
    trace_of(module, launched())
    called = [name for name, *_ in module.calls]
    assert called.index("cuCtxSynchronize") < called.index("activity_flush_all")


@pytest.mark.parametrize("code", [3, 201])
def test_where_nothing_runs_nothing_is_waited_for(module: FakeCupti, code: int) -> None:
    module.synchronised = code
    assert len(trace_of(module, launched()).work) == 1


def test_work_that_fails_is_an_error(module: FakeCupti) -> None:
    module.synchronised = 700
    with pytest.raises(CaptureError) as caught:
        trace_of(module, launched())
    assert "700" in refused(caught.value)
    assert not module.enabled


def test_the_time_is_that_of_the_records(module: FakeCupti) -> None:
    with collecting() as collection:
        assert collection.now_ns() == 1010


def test_windows_add_up(module: FakeCupti) -> None:
    with collecting() as collection:
        for turn in range(2):
            collection.start()
            module.buffers = [[fake.kernel("k", 10 + turn, 20)]]
            collection.stop()
        trace = collection.trace()
    assert len(trace.work) == 2
    assert trace.window == (1010, 1040)


def test_a_buffer_that_is_full_is_taken_over_at_once(module: FakeCupti) -> None:
    with collecting(buffer_bytes=1 << 16) as collection:
        assert ("activity_register_callbacks", 1 << 16, 0) in module.calls
        collection.start()
        module.buffers = [launched()]
        deliver = threading.Thread(target=module.deliver)
        deliver.start()
        deliver.join()
        collection.stop()
        assert len(collection.trace().work) == 1


def test_dropped_records_are_said(module: FakeCupti) -> None:
    module.dropped = 3
    assert any("dropped 3 records" in note for note in trace_of(module, launched()).notes)


def test_a_kind_that_cannot_be_enabled_is_said(module: FakeCupti) -> None:
    module.failing |= {"MARKER": 14, "MEMCPY2": 21}
    trace = trace_of(module, launched()[1:3])
    assert "CUPTI does not record NVTX ranges here (CUPTI_ERROR_NOT_COMPATIBLE)" in trace.notes
    assert "CUPTI does not record copies between GPUs here (CUPTI_error 21)" in trace.notes
    assert not any("no NVTX ranges" in note for note in trace.notes)


def test_nothing_recorded_is_an_error(module: FakeCupti) -> None:
    with pytest.raises(CaptureError) as caught:
        trace_of(module)
    assert "recorded nothing" in refused(caught.value)


def test_an_error_in_cuptis_thread_is_raised_later(module: FakeCupti) -> None:
    with pytest.raises(CaptureError) as caught:
        trace_of(module, [*launched(), object()])
    assert "AttributeError" in refused(caught.value)


def test_the_error_of_the_run_is_not_hidden(module: FakeCupti) -> None:
    def fail(collection: cupti.Collection) -> None:
        collection.start()
        module.failing["activity_disable"] = 15
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), collecting() as collection:
        fail(collection)
    with collecting():
        pass


def test_only_one_collection_at_a_time(module: FakeCupti) -> None:
    with collecting(), pytest.raises(CaptureError) as caught, collecting():
        pass
    assert "one subscriber" in refused(caught.value)


@pytest.mark.parametrize("wrong", ["start", "stop"])
def test_start_and_stop_take_turns(module: FakeCupti, wrong: str) -> None:
    with collecting() as collection:
        if wrong == "start":
            collection.start()
        with pytest.raises(RuntimeError, match=wrong):
            getattr(collection, wrong)()


FAILURES: dict[int, tuple[type[Exception], str]] = {
    39: (CaptureError, "one subscriber"),
    35: (MissingError, "NVreg_RestrictProfilingToAdminUsers=0"),
    15: (MissingError, "cupti-python==13.0.1"),
    8: (CaptureError, "memory"),
    999: (MissingError, "driver"),
    1: (CaptureError, "CUPTI_ERROR_INVALID_PARAMETER"),
    12345: (CaptureError, "error 12345"),
}


def test_failures_are_explained(module: FakeCupti, subtests: pytest.Subtests) -> None:
    places = itertools.cycle(["activity_register_callbacks", "CONCURRENT_KERNEL", "activity_flush_all"])
    for (status, (kind, words)), where in zip(FAILURES.items(), places, strict=False):
        with subtests.test(status=status, where=where):
            module.failing[where] = status
            with pytest.raises(kind) as caught:
                trace_of(module, launched())
            assert isinstance(caught.value, CaptureError | MissingError)
            assert words in refused(caught.value)
            del module.failing[where]
            assert len(trace_of(module, launched()).work) == 1


def test_a_library_without_a_function_is_explained(module: FakeCupti) -> None:
    module.failing["activity_register_callbacks"] = RuntimeError("function cuptiActivityX is not found")
    with pytest.raises(MissingError) as caught:
        trace_of(module)
    assert "cuptiActivityX" in refused(caught.value)


# --- can it be used? ------------------------------------------------------------------------


def test_it_can_be_used_where_all_is_there(module: FakeCupti) -> None:
    assert not unavailable()
    assert injection_environment() == {"NVTX_INJECTION64_PATH": "/opt/libcupti.so.13"}


def test_without_the_package_it_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    hide_modules(monkeypatch, "cupti")
    assert "cupti-python is not installed" in unavailable()
    with pytest.raises(MissingError) as caught, collecting():
        pass
    assert "trtprof[cupti]" in refused(caught.value)


def test_without_a_library_it_cannot(module: FakeCupti, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cupti, "_library", lambda: None)
    assert "nvidia-cuda-cupti is not installed" in unavailable()
    assert injection_environment() == {}


def test_without_a_driver_it_cannot(module: FakeCupti, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> None:
        raise OSError("libcuda.so.1: cannot open shared object file")

    monkeypatch.setattr(cupti, "_load_driver", absent)
    assert "libcuda.so.1" in unavailable()


@pytest.mark.parametrize("variable", VARIABLES[:2])
def test_beside_another_tool_it_cannot(module: FakeCupti, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "/opt/tool.so")
    assert variable in unavailable()
    assert "one subscriber" in unavailable()
    assert injection_environment() == {}
    with pytest.raises(CaptureError) as caught, collecting():
        pass
    assert "one subscriber" in refused(caught.value)


def test_an_injection_that_is_set_is_left_as_it_is(module: FakeCupti, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVTX_INJECTION64_PATH", "/opt/tool.so")
    assert injection_environment() == {}
    assert not unavailable()


def test_the_library_is_the_newest_of_the_wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = ModuleSpec("nvidia", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: spec)
    assert cupti._library() is None
    for name in ("cu13/lib/libcupti.so.13", "cuda_cupti/lib/libcupti.so.12", "cu13/lib/libcupti.so.13.bak"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert cupti._library() == tmp_path / "cu13/lib/libcupti.so.13"


# --- names ----------------------------------------------------------------------------------


def test_names_of_kernels() -> None:
    mangled = "_ZN2at6native29vectorized_elementwise_kernelILi4EfEEvPf"
    full = "void at::native::vectorized_elementwise_kernel<4, float>(float*)"
    names = {
        mangled: "vectorized_elementwise_kernel",
        "sm80_xmma_gemm_f16f16": "sm80_xmma_gemm_f16f16",
        "void (anonymous namespace)::k<(int)4, A<B>>(T1 *)": "k",
        "a::b::operator()(int)": "operator()",
        "void ns::operator<<<int>(int)": "operator<<",
        "_Znot_a_name": "_Znot_a_name",
        "": "",
    }
    assert {name: short_name(demangled(name)) for name in names} == names
    assert {name: demangled(name) for name in names} == {name: name for name in names} | {mangled: full}


def test_names_stay_mangled_where_nothing_reads_them(module: FakeCupti, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(_name: object) -> None:
        raise OSError

    monkeypatch.setattr(ctypes, "CDLL", absent)
    _cupti_names._demangler.cache_clear()
    try:
        trace = trace_of(module, launched())
    finally:
        _cupti_names._demangler.cache_clear()
    assert trace.work["name"].tolist() == ["_Z3fooIfEvPT_"]
    assert any("mangled" in note for note in trace.notes)


# --- the real wheels ------------------------------------------------------------------------

CLASSES = {
    "kernel": "ActivityKernel", "memcpy": "ActivityMemcpy", "memset": "ActivityMemset", "call": "ActivityAPI",
    "marker": "ActivityMarker", "device": "ActivityDevice",
}  # fmt: skip
"""The class of each family, but for the number that newer ones end with."""

NEWEST = {
    "13.0.1": {"kernel": "10", "memcpy": "6", "memset": "4", "marker": "2", "device": "5"},
    "13.4.0": {"kernel": "13", "memcpy": "7", "memset": "5", "marker": "2", "device": "6"},
}

ASK = """
import ctypes, json, sys
import numpy as np
from cupti import cupti as module
from trtprof.capture.cupti._records import FAMILIES, Records
import re
stems, names = json.loads(sys.argv[1]), json.loads(sys.argv[2])
numbers = {
    family: max((re.fullmatch(stem + "([0-9]*)", name).group(1) for name in dir(module)
                 if re.fullmatch(stem + "[0-9]*", name)), key=lambda number: int(number or 0))
    for family, stem in stems.items()
}
classes = {family: stem + numbers[family] for family, stem in stems.items()}
def has(path):
    found = module
    for part in path.split("."):
        if not hasattr(found, part):
            return False
        found = getattr(found, part)
    return True
text = ctypes.create_string_buffer(b"_Z3foov")
def table(family):
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", classes[family]).lower()
    rows = np.zeros(5, getattr(module, words + "_dtype"))
    for place, (path, _) in enumerate(FAMILIES[family].fields.values()):
        target = rows
        for part in path.split("."):
            target = target[part]
        target[...] = np.arange(5) + 7 * place + 1
    rows["kind"] = int(getattr(module.ActivityKind, FAMILIES[family].kinds[0]))
    for path in FAMILIES[family].texts.values():
        rows[path] = [ctypes.addressof(text), 0, 0, ctypes.addressof(text), 0]
    return rows
answer = {}
for family in classes:
    rows = table(family)
    kind = getattr(module, classes[family])
    made = [kind.from_ptr(rows.ctypes.data + at * rows.itemsize) for at in range(5)]
    by_bytes, by_field = Records(module), Records(module)
    by_field._layout = lambda record: None
    by_bytes.add(made)
    by_field.add(made)
    both = [
        {
            name: [each.texts[code] for code in values] if name in FAMILIES[family].texts else values.tolist()
            for name, values in each.columns(family).items()
        }
        for each in (by_bytes, by_field)
    ]
    answer[family] = {
        "failure": [repr(each.failure) for each in (by_bytes, by_field)], "columns": both,
        "bytes": all(by_bytes._layouts.values()),
    }
try:
    module.get_timestamp()
    no_driver = ""
except RuntimeError as error:
    no_driver = str(error)
failure = module.cuptiError(39)
print(json.dumps({
    "names": {name: has(name) for name in names}, "families": answer, "numbers": numbers, "no_driver": no_driver,
    "flags": [int(module.ActivityFlag.MARKER_START), int(module.ActivityFlag.FLUSH_FORCED)],
    "has_end_flag": has("ActivityFlag.MARKER_END"), "status": failure.status,
    "one_subscriber": module.Result(failure.status).name,
    "functions": [module.runtime_api_trace_cbid(211).name, module.driver_api_trace_cbid(307).name],
}))
"""


def used_names() -> set[str]:
    """Every name of the module ``cupti.cupti`` that the code uses."""
    used = {f"ActivityKind.{kind}" for family in FAMILIES.values() for kind in family.kinds}
    used |= {f"ActivityKind.{kind}" for kind in cupti._KINDS | cupti._NVTX_KIND}
    used |= {f"Result.{name}" for name in _cupti_errors._MEANINGS}
    for source in (cupti, _cupti_errors, _cupti_records, _cupti_tables):
        assert source.__file__
        for node in ast.walk(ast.parse(Path(source.__file__).read_text(encoding="utf-8"))):
            text = ast.unparse(node) if isinstance(node, ast.Attribute) else ""
            for start in ("self._module.", "module."):
                if text.startswith(start):
                    used.add(text.removeprefix(start).partition("(")[0])
                    break
    return used


def test_the_names_that_are_used_are_found() -> None:
    used = used_names()
    assert {"activity_enable", "get_timestamp", "ActivityFlag.FLUSH_FORCED", "cuptiError"} <= used
    assert [name for name in used if not name.replace(".", "").replace("_", "").isalnum()] == []


@pytest.mark.parametrize(
    "version",
    [
        pytest.param("installed", marks=pytest.mark.process),
        *(pytest.param(v, marks=pytest.mark.nightly) for v in CUPTI),
    ],
)
def test_the_real_module_has_what_the_code_uses(version: str) -> None:
    if version == "installed" and importlib.util.find_spec("cupti") is None:
        pytest.skip("the package cupti-python is not installed")
    path = other_version(CUPTI[version]) if version in CUPTI else None
    names = used_names()
    said = asked_of(ASK, [json.dumps(CLASSES), json.dumps(sorted(names))], path)
    assert [name for name, there in said["names"].items() if not there] == []
    assert version not in NEWEST or {k: n for k, n in said["numbers"].items() if n} == NEWEST[version]
    assert said["flags"] == [_cupti_tables.MARKER_START, 1]
    assert said["status"] == 39
    assert said["one_subscriber"] == "ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"
    assert said["functions"] == ["cudaLaunchKernel_v7000", "cuLaunchKernel"]
    assert not said["has_end_flag"], "then the number need not be written down"
    for family, found in said["families"].items():
        assert found["failure"] == ["None", "None"], family
        assert found["bytes"], f"{family}: the bytes of {CLASSES[family]}{said['numbers'][family]} could not be had"
        assert found["columns"][0] == found["columns"][1], family
        for column in FAMILIES[family].texts:
            assert found["columns"][0][column] == ["_Z3foov", "", "", "_Z3foov", ""], (family, column)
        for place, (column, (_, dtype)) in enumerate(FAMILIES[family].fields.items()):
            expected = [number + 7 * place + 1 for number in range(5)]
            if column != "kind":
                assert found["columns"][0][column] == np.array(expected).astype(dtype).tolist(), (family, column)
    if not _has_driver():
        assert "libcuda.so.1" in said["no_driver"]


def _has_driver() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True
