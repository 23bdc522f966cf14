"""The trace that nsys stats prints, against the capture that it was printed of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fakes.stats_factory import TRACE, kernel_summary, write_stats
from tests.fakes.support import H100, needs_captures, refused
from tests.fakes.trace_factory import ENGINE, Process, write_trace
from trtprof.base.errors import MissingError, TrtprofError, UsageError
from trtprof.base.trace import GRAPH_COLUMNS, LAUNCH_COLUMNS, RANGE_COLUMNS, WORK_COLUMNS, GpuTrace
from trtprof.capture.nsys.stats import KernelSums, is_stats, read_report
from trtprof.capture.nsys.trace import read_trace

ROWS = """\
100,50,7,64,2,1,128,1,1,32,0.001,0.002,,,,,NVIDIA A100 (1),1,,7,"void f<int, (int)2>(T1, T2)"
300,20,8,,,,,,,,,,4.194,6337.593,Pinned,Device,NVIDIA A100 (1),1,,13,[CUDA memcpy Host-to-Device]
200,10,9,,,,,,,,,,0.001,1.000,Device,,NVIDIA A100 (1),1,,13,[CUDA memset]
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "a.csv"
    path.write_text(text)
    return path


def trace_of(path: Path) -> GpuTrace:
    found = read_report(path)
    assert isinstance(found, GpuTrace)
    return found


def test_a_trace_is_what_the_capture_has(tmp_path: Path) -> None:
    capture = tmp_path / "run.sqlite"
    write_trace(capture, [Process(pid=111, layers=ENGINE)])
    trace = read_trace(capture)
    found = trace_of(write_stats(trace, "cuda_gpu_trace", tmp_path / "run.csv"))
    exact = ["start_ns", "end_ns", "device", "context", "stream", "correlation", "grid_x", "block_x", "registers"]
    for column in exact:
        assert found.work[column].tolist() == trace.work[column].tolist(), column
    for column in ("kind", "name"):
        assert found.work[column].tolist() == trace.work[column].tolist(), column
        assert found.work[column].cat.categories.dtype == object
    # Printed in MB, with three digits.
    np.testing.assert_allclose(found.work["bytes"], trace.work["bytes"], atol=500)
    np.testing.assert_allclose(found.work["static_smem"], trace.work["static_smem"], atol=500)
    assert kernel_summary(found).equals(kernel_summary(trace))


def test_columns_are_those_of_any_capture(tmp_path: Path) -> None:
    trace = read_report(written(tmp_path, f"{TRACE}\n{ROWS}"))
    assert isinstance(trace, GpuTrace)
    assert tuple(trace.work) == WORK_COLUMNS
    assert tuple(trace.launches) == LAUNCH_COLUMNS
    assert tuple(trace.ranges) == RANGE_COLUMNS
    assert tuple(trace.graph_nodes) == GRAPH_COLUMNS
    assert trace.collector == "nsys stats"
    work = trace.work
    assert work["start_ns"].tolist() == [100, 200, 300]
    assert work["kind"].tolist() == ["kernel", "memset", "memcpy"]
    assert work["name"].tolist() == ["void f<int, (int)2>(T1, T2)", "memset", "memcpy HtoD"]
    assert work["short_name"].tolist() == ["f", "memset", "memcpy HtoD"]
    assert work["bytes"].tolist() == [0, 1000, 4_194_000]
    assert work["static_smem"].tolist() == [1000, 0, 0]
    assert set(work["pid"]) == {-1}
    assert [(gpu.device, gpu.name) for gpu in trace.gpus] == [(1, "NVIDIA A100")]
    assert any("printed in mb" in note for note in trace.notes)
    assert any("does not tell the launch" in note for note in trace.notes)
    assert not any("cut short" in note for note in trace.notes)
    cut = read_report(written(tmp_path, f"{TRACE}\n{ROWS}".rstrip()))
    assert any("cut short" in note for note in cut.notes)


@pytest.mark.parametrize(
    ("printed", "name"),
    [
        ("[CUDA memcpy HtoD]", "memcpy HtoD"),
        ("[CUDA memcpy Device-to-Host]", "memcpy DtoH"),
        ("[CUDA memcpy DtoD]", "memcpy DtoD"),
        ("[CUDA memcpy Peer-to-Peer]", "memcpy PtoP"),
        ("[CUDA memcpy Unified Host-to-Device]", "memcpy HtoD (managed)"),
        ("[CUDA memcpy]", "memcpy"),
        ("NA", "NA"),
    ],
)
def test_names_of_copies_are_those_of_a_capture(tmp_path: Path, printed: str, name: str) -> None:
    path = written(tmp_path, f"{TRACE}\n{ROWS.replace('[CUDA memcpy Host-to-Device]', printed)}")
    assert trace_of(path).work["name"].tolist()[-1] == name


def test_other_units_other_text_and_other_reports_around_it(tmp_path: Path) -> None:
    header = TRACE.replace("(ns)", "(us)").replace(",GreenCtx", "").replace("MB/s", "MBps")
    text = (
        "NOTICE: Existing SQLite export found: run.sqlite\n\nProcessing [run.sqlite] with [cuda_gpu_trace.py]... \n\n"
        f"{header}\n{ROWS.replace(',1,,', ',1,')}\nProcessing [run.sqlite] with [nvtx_sum.py]... \n\na,b\n1,2\n"
    )
    trace = trace_of(written(tmp_path, text))
    assert trace.work["start_ns"].tolist() == [100_000, 200_000, 300_000]
    assert trace.work["stream"].tolist() == [7, 13, 13]
    assert any("printed in mb, us" in note for note in trace.notes)


def test_a_time_keeps_all_its_digits(tmp_path: Path) -> None:
    start = 1_763_731_200_123_456_789
    trace = trace_of(written(tmp_path, f"{TRACE}\n{ROWS.replace('100,50', f'{start},50')}"))
    assert trace.work["start_ns"].tolist()[-1] == start


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{TRACE}\n", "holds no kernels"),
        (f"{TRACE}\n{ROWS[: ROWS.index('void f') - 20]}", "cut short or broken"),
        (f"{TRACE}\n{ROWS[: ROWS.index('T1')]}", "cut short or broken"),
        (f"{TRACE}\n{ROWS.replace('300,20', 'many,20')}", "cut short or broken"),
        (f"{TRACE}\n{ROWS.replace('300,20', ',20')}", "cut short or broken"),
        (f"{TRACE}\n{ROWS.replace('[CUDA memset]', '[CUDA memset],more')}", "cut short or broken"),
        (f"{TRACE.replace('(ns)', '(weeks)')}\n{ROWS}", "unknown unit"),
        (f"{TRACE}\n{ROWS.replace('300,20', f'300,{2**63 - 1}')}", "beyond all measure"),
        (f"{TRACE.replace('(ns)', '(us)')}\n{ROWS.replace('300,20', '300,1e308')}", "beyond all measure"),
        *[
            (f"Time (%),Total Time (ns),Instances,Avg (ns),Name\n1,{row},k\n", "where a number belongs")
            for row in ("5,1,nan", "5,1,inf", "5,1,-1", f"{'9' * 5000},1,1", f"5,{2**63},1", "1e300.0,1,1")
        ],
        ("a,b\n1,2\n", "is no kernel summary of nsys stats"),
    ],
)
def test_bad_traces(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(UsageError) as error:
        read_report(path)
    assert said in refused(error.value)
    assert str(path) in error.value.what


def test_what_is_no_trace_or_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no kernel summary of nsys stats") as error:
        read_report(written(tmp_path, "a,b\n1,2\n"))
    assert refused(error.value)
    with pytest.raises(MissingError):
        read_report(tmp_path / "none.csv")


def test_a_table_that_is_printed_for_people_is_refused(tmp_path: Path) -> None:
    text = (
        " ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):\n\n"
        " Time (%)  Total Time (ns)  Instances  Avg (ns)   Name\n"
        " --------  ---------------  ---------  --------  ------\n"
        "    100.0             3000          2    1500.0  void f…\n"
    )
    assert is_stats(text)
    with pytest.raises(UsageError) as error:
        read_report(written(tmp_path, text))
    assert "--format csv" in refused(error.value)


@given(st.lists(st.tuples(st.integers(0, len(TRACE) + len(ROWS)), st.characters(codec="utf-8")), max_size=8))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_damage_is_read_over_or_refused(tmp_path: Path, changes: list[tuple[int, str]]) -> None:
    text = list(f"{TRACE}\n{ROWS}")
    for at, letter in changes:
        text[at] = letter
    path = tmp_path / "a.csv"
    path.write_text("".join(text), encoding="utf-8")
    try:
        found = read_report(path)
    except TrtprofError as error:
        refused(error)
    else:
        assert isinstance(found, KernelSums) or (found.work["end_ns"] >= found.work["start_ns"]).all()


@needs_captures
def test_the_official_sums_are_told_apart() -> None:
    for report in ("cuda_gpu_kern_sum", "nvtx_kern_sum"):
        path = H100.with_name(f"{H100.stem}__{report}.csv")
        assert is_stats(path.read_text())
        found = read_report(path)
        assert isinstance(found, KernelSums)
        assert found.report == report
    for report in ("nvtx_sum", "nvtx_gpu_proj_sum"):
        path = H100.with_name(f"{H100.stem}__{report}.csv")
        assert is_stats(path.read_text())
        with pytest.raises(UsageError, match="is no kernel summary") as error:
            read_report(path)
        assert refused(error.value)
