from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.trace_factory import Layer, Process, Work, write_trace
from trtprof.align.gpu_kernels import align_trace
from trtprof.analysis import timeline
from trtprof.analysis.plan import layer_names
from trtprof.analysis.timeline import timeline_of_kernels, timeline_of_trace
from trtprof.base.records import KERNEL_COLUMNS
from trtprof.capture.nsys.trace import read_trace


def kernels(*rows: tuple[int, int, str, int, int]) -> pd.DataFrame:
    """Rows of iteration, index, layer, start and duration."""
    table = [(i, at, f"{layer}_kernel", layer, start, dur, dur) for i, at, layer, start, dur in rows]
    return pd.DataFrame(table, columns=list(KERNEL_COLUMNS))


def test_the_inference_of_median_length_is_shown_from_its_first_event_on() -> None:
    slow, typical, fast = [(0, 0, "a", 500, 90)], [(1, 0, "a", 40, 10), (1, 1, "b", 60, 30)], [(2, 0, "a", 0, 20)]
    found = timeline_of_kernels(kernels(*slow, *typical, *fast))
    assert found is not None
    assert (found.iteration, found.duration_ns) == (1, 50)
    assert (found.start_ns, found.dur_ns) == ((0, 20), (10, 30))
    assert [found.layers[at] for at in found.layer] == ["a", "b"]
    assert [found.names[at] for at in found.name] == ["a_kernel", "b_kernel"]
    assert "inference 2 of the profile" in found.note
    assert "median of 3" in found.note


def test_kernels_of_a_loop_lie_below_it() -> None:
    found = timeline_of_kernels(
        kernels((0, 0, "loop", 0, 100), (0, 1, "a", 10, 20), (0, 2, "inner", 40, 50), (0, 3, "b", 45, 5))
    )
    assert found is not None
    assert [(lane.name, lane.depth) for lane in found.lanes] == [("inference thread", depth) for depth in range(3)]
    assert found.lane == (0, 1, 1, 2)


def test_the_longest_are_kept_and_the_rest_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "MOST_EVENTS", 2)
    found = timeline_of_kernels(kernels((0, 0, "a", 0, 5), (0, 1, "b", 10, 1), (0, 2, "c", 20, 9)))
    assert found is not None
    assert [found.layers[at] for at in found.layer] == ["a", "c"]
    assert "the 2 longest of 3 events" in found.note
    assert found.duration_ns == 29


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from("abc"), st.integers(0, 1000), st.integers(0, 50)),
        min_size=1,
        max_size=40,
    )
)
def test_columns_agree_and_nothing_of_the_chosen_inference_is_lost(rows: list[tuple[int, str, int, int]]) -> None:
    table = kernels(*((i, at, layer, start, dur) for at, (i, layer, start, dur) in enumerate(rows)))
    found = timeline_of_kernels(table)
    assert found is not None
    mine = table[table["iteration"] == found.iteration]
    columns = (found.lane, found.layer, found.name, found.start_ns, found.dur_ns)
    assert {len(column) for column in columns} == {len(mine)}
    assert sum(found.dur_ns) == mine["dur_ns"].sum()
    assert min(found.start_ns) == 0
    ends = [start + dur for start, dur in zip(found.start_ns, found.dur_ns, strict=True)]
    assert max(ends) == found.duration_ns
    assert list(found.start_ns) == sorted(found.start_ns)


def test_a_capture_has_lanes_for_streams_copies_and_host_threads(tmp_path: Path) -> None:
    layers = tuple(Layer(name, (Work(f"{name}_kernel"),)) for name in ("conv1", "relu", "fc"))
    write_trace(tmp_path / "t.sqlite", [Process(pid=111, layers=layers)])
    trace = read_trace(tmp_path / "t.sqlite")
    alignment = align_trace(trace, None)
    names = layer_names(alignment.layers)
    found = timeline_of_trace(trace, alignment, names)
    assert found is not None
    rows = list(zip(found.lane, found.layer, found.name, found.dur_ns, strict=True))
    kernel_rows = [row for row in rows if found.lanes[row[0]].kind == "kernels"]
    host_rows = [row for row in rows if found.lanes[row[0]].kind == "host"]
    assert [found.layers[layer] for _, layer, _, _ in kernel_rows] == ["conv1", "relu", "fc"]
    assert [found.names[name] for _, _, name, _ in kernel_rows] == ["conv1_kernel", "relu_kernel", "fc_kernel"]
    assert [found.layers[layer] for _, layer, _, _ in host_rows] == ["conv1", "relu", "fc"]
    chosen = trace.work[(alignment.work["iteration"] == found.iteration).to_numpy()]
    kinds = {lane.kind for lane in found.lanes}
    shown = sum(ns for lane, _, _, ns in rows if found.lanes[lane].kind != "host")
    assert shown == int((chosen["end_ns"] - chosen["start_ns"]).sum())
    assert {"kernels", "host"} <= kinds


def test_sums_have_no_timeline(tmp_path: Path) -> None:
    write_trace(tmp_path / "t.sqlite", [Process(pid=1, layers=(Layer("a", (Work("k"),)),))])
    trace = read_trace(tmp_path / "t.sqlite")
    alignment = align_trace(trace, None)
    assert timeline_of_trace(trace, alignment, layer_names(alignment.layers)) is not None
    assert timeline_of_trace(trace._replace(collector="nsys stats"), alignment, layer_names(alignment.layers)) is None
