"""ONNX Runtime's profile to the kernel table, with events made by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trtprof.base.errors import CaptureError, MissingError
from trtprof.base.records import KERNEL_COLUMNS
from trtprof.capture.ort_profile import Profile, read_profile
from trtprof.runtime.ort_session import ScheduledNode

Event = dict[str, Any]


class Ran(NamedTuple):
    """A node that ran: name in the profile, begin and duration in microseconds."""

    name: str
    ts: int
    dur: int
    op_type: str = "Relu"


def node_event(ran: Ran, suffix: str = "_kernel_time", out: tuple[int, ...] = (2,)) -> Event:
    return {
        "cat": "Node", "pid": 1, "tid": 1, "ph": "X", "name": ran.name + suffix, "ts": ran.ts, "dur": ran.dur,
        "args": {
            "op_name": ran.op_type, "provider": "CPUExecutionProvider", "node_index": "3",
            "input_type_shape": [{"float": [1, 3]}, {"int64": []}], "output_type_shape": [{"float": list(out)}],
        },
    }  # fmt: skip


def run_event(ts: int, dur: int) -> Event:
    return {"cat": "Session", "name": "model_run", "ts": ts, "dur": dur, "args": {}}


def run(ts: int, dur: int, nodes: Sequence[Ran]) -> list[Event]:
    """A run as it is written: nodes when they end, then the run; times are relative to its start."""
    return [*(node_event(ran._replace(ts=ts + ran.ts)) for ran in nodes), run_event(ts, dur)]


HEAD: list[Event] = [
    {"cat": "Session", "name": "model_loading_uri", "ts": 1, "dur": 9, "args": {}},
    {"cat": "Session", "name": "session_initialization", "ts": 11, "dur": 90, "args": {}},
]


def plain(*names: str, graph: str = "", op_type: str = "Relu") -> list[ScheduledNode]:
    return [ScheduledNode(name, graph, name, op_type) for name in names]


def read(folder: Path, events: Sequence[Event], runs: int, scheduled: Sequence[ScheduledNode]) -> Profile:
    path = folder / "profile.json"
    path.write_text(json.dumps([*HEAD, *events]))
    return read_profile(path, runs, scheduled)


def self_us(profile: Profile, iteration: int = 0) -> dict[str, list[int]]:
    rows = profile.kernels[profile.kernels["iteration"] == iteration]
    found: dict[str, list[int]] = {}
    for layer, ns in zip(rows["layer"], rows["self_ns"], strict=True):
        found.setdefault(str(layer), []).append(int(ns) // 1000)
    return found


def test_the_table_has_the_columns_of_the_contract_in_ns(tmp_path: Path) -> None:
    profile = read(tmp_path, run(1000, 50, [Ran("a", 2, 7), Ran("b", 12, 5)]), 1, plain("a", "b"))
    assert tuple(profile.kernels.columns) == KERNEL_COLUMNS
    assert profile.kernels.to_dict("records") == [
        {"iteration": 0, "index": 0, "name": "CPU:Relu", "layer": "a", "start_ns": 2000, "dur_ns": 7000,
         "self_ns": 7000},
        {"iteration": 0, "index": 1, "name": "CPU:Relu", "layer": "b", "start_ns": 12000, "dur_ns": 5000,
         "self_ns": 5000},
    ]  # fmt: skip
    assert profile.run_ns.tolist() == [50_000]


def test_warm_up_runs_are_dropped_and_iterations_count_from_zero(tmp_path: Path) -> None:
    events = [event for start in range(5) for event in run(1000 * (start + 1), 10 + start, [Ran("a", 1, start)])]
    profile = read(tmp_path, events, 2, plain("a"))
    assert profile.run_ns.tolist() == [13_000, 14_000]
    assert profile.kernels["iteration"].tolist() == [0, 1]
    assert profile.kernels["dur_ns"].tolist() == [3000, 4000]


def test_nodes_that_ran_before_the_run_began_are_not_its_own(tmp_path: Path) -> None:
    """Constant folding runs nodes while the session is made."""
    events = [node_event(Ran("folded", 20, 500)), *run(1000, 50, [Ran("a", 1, 2)])]
    assert self_us(read(tmp_path, events, 1, plain("a"))) == {"a": [2]}


def test_fences_of_older_releases_are_no_kernels(tmp_path: Path) -> None:
    a = Ran("a", 1001, 2)
    events = [
        node_event(a, "_fence_before"), node_event(a), node_event(a, "_fence_after"), run_event(1000, 9),
    ]  # fmt: skip
    profile = read(tmp_path, events, 1, plain("a"))
    assert self_us(profile) == {"a": [2]}


def test_other_session_events_do_not_end_a_run(tmp_path: Path) -> None:
    events = run(1000, 50, [Ran("a", 1, 2)])
    events.insert(1, {"cat": "Session", "name": "SequentialExecutor::Execute", "ts": 1000, "dur": 40, "args": {}})
    assert self_us(read(tmp_path, events, 1, plain("a"))) == {"a": [2]}


def test_launches_are_numbered_by_begin_though_written_by_end(tmp_path: Path) -> None:
    body = plain("inner", graph="if/then_branch")
    scheduled = [*plain("a"), ScheduledNode("if", "", "if", "If"), *body]
    nodes = [Ran("a", 1, 5), Ran("inner", 12, 3), Ran("if", 10, 20, "If")]
    rows = read(tmp_path, run(1000, 50, nodes), 1, scheduled).kernels
    assert rows["layer"].tolist() == ["a", "if", "inner"]
    assert rows["index"].tolist() == [0, 1, 2]


# --- control flow: self times ---------------------------------------------------------------


IF = [
    *plain("a"), ScheduledNode("if", "", "if", "If"),
    *plain("t1", "t2", graph="if/then_branch"), *plain("e1", graph="if/else_branch"), *plain("z"),
]  # fmt: skip


def test_the_body_of_an_if_is_taken_off_its_own_time(tmp_path: Path) -> None:
    nodes = [Ran("a", 0, 4), Ran("t1", 11, 3), Ran("t2", 15, 6), Ran("if", 10, 20, "If"), Ran("z", 40, 2)]
    profile = read(tmp_path, run(1000, 90, nodes), 1, IF)
    assert self_us(profile) == {"a": [4], "if": [11], "t1": [3], "t2": [6], "z": [2]}
    other = read(tmp_path, run(1000, 90, [nodes[0], Ran("e1", 12, 7), nodes[3], nodes[4]]), 1, IF)
    assert self_us(other) == {"a": [4], "if": [13], "e1": [7], "z": [2]}


LOOP = [
    ScheduledNode("loop", "", "loop", "Loop"),
    *plain("m", graph="loop/body"),
    ScheduledNode("if", "loop/body", "if", "If"),
    *plain("t", graph="if/then_branch"),
    *plain("e", graph="if/else_branch"),
    *plain("k", graph="loop/body"),
]


def iteration(at: int, branch: str) -> list[Ran]:
    return [Ran("m", at, 2), Ran(branch, at + 4, 3), Ran("if", at + 3, 5, "If"), Ran("k", at + 9, 1)]


def test_two_levels_of_subgraphs_each_lose_their_own_bodies_only(tmp_path: Path) -> None:
    nodes = [*iteration(1, "t"), *iteration(12, "e"), *iteration(23, "t"), Ran("loop", 0, 40, "Loop")]
    profile = read(tmp_path, run(1000, 50, nodes), 1, LOOP)
    assert self_us(profile) == {
        "loop": [40 - 3 * (2 + 5 + 1)], "m": [2, 2, 2], "if": [2, 2, 2], "t": [3, 3], "e": [3], "k": [1, 1, 1],
    }  # fmt: skip


def test_the_same_body_twice_in_a_run_belongs_to_the_node_that_ended_behind_it(tmp_path: Path) -> None:
    scheduled = [
        ScheduledNode("loop", "", "loop", "Loop"),
        ScheduledNode("if", "loop/body", "if", "If"),
        *plain("t", graph="if/then_branch"),
    ]
    nodes = [
        Ran("t", 1, 4), Ran("if", 0, 6, "If"), Ran("t", 9, 7), Ran("if", 8, 8, "If"), Ran("loop", 0, 30, "Loop"),
    ]  # fmt: skip
    assert self_us(read(tmp_path, run(1000, 50, nodes), 1, scheduled)) == {"loop": [16], "if": [2, 1], "t": [4, 7]}


def test_a_loop_that_never_turned_keeps_its_time(tmp_path: Path) -> None:
    assert self_us(read(tmp_path, run(1000, 50, [Ran("loop", 0, 5, "Loop")]), 1, LOOP)) == {"loop": [5]}


def test_neighbours_that_share_a_microsecond_are_told_apart_by_the_order_of_the_file(tmp_path: Path) -> None:
    """Time stamps alone would nest `a` in the If, or the If in `a`."""
    nodes = [Ran("a", 5, 0), Ran("t1", 5, 0), Ran("t2", 5, 0), Ran("if", 5, 0, "If"), Ran("z", 5, 1)]
    assert self_us(read(tmp_path, run(1000, 9, nodes), 1, IF)) == {"a": [0], "if": [0], "t1": [0], "t2": [0], "z": [1]}


def test_a_node_whose_name_begins_a_subgraphs_path_takes_nothing_from_it(tmp_path: Path) -> None:
    """`block` is no owner of `block/If/then_branch`; it runs inside of it."""
    scheduled = [
        ScheduledNode("block/If", "", "block/If", "If"), *plain("t", "block", graph="block/If/then_branch"),
    ]  # fmt: skip
    nodes = [Ran("t", 1, 4), Ran("block", 6, 3), Ran("block/If", 0, 10, "If")]
    assert self_us(read(tmp_path, run(1000, 50, nodes), 1, scheduled)) == {"block/If": [3], "t": [4], "block": [3]}


@st.composite
def loops(draw: st.DrawFn) -> tuple[list[Ran], int]:
    """Runs of `LOOP` between plain nodes of random length, written as ONNX Runtime does; and the top-level time."""
    clock, top = 0, 0
    nodes: list[Ran] = []

    def advance(low: int = 0) -> int:
        nonlocal clock
        clock += draw(st.integers(low, 6))
        return clock

    begin = advance()
    for _ in range(draw(st.integers(0, 4))):
        at = advance()
        nodes.append(Ran("m", at, advance() - at))
        outer = advance()
        inner = advance()
        nodes.append(Ran(draw(st.sampled_from("te")), inner, advance() - inner))
        nodes.append(Ran("if", outer, advance() - outer, "If"))
        at = advance()
        nodes.append(Ran("k", at, advance() - at))
    top += advance() - begin
    nodes.append(Ran("loop", begin, clock - begin, "Loop"))
    return nodes, top


@given(st.lists(loops(), min_size=1, max_size=3))
def test_self_times_add_up_to_the_time_of_the_top_level(
    tmp_path_factory: pytest.TempPathFactory, runs: list[tuple[list[Ran], int]]
) -> None:
    events = [event for index, (nodes, _) in enumerate(runs) for event in run(1000 * (index + 1), 500, nodes)]
    profile = read(tmp_path_factory.getbasetemp(), events, len(runs), LOOP)
    for index, (nodes, top) in enumerate(runs):
        rows = profile.kernels[profile.kernels["iteration"] == index]
        assert int(rows["self_ns"].sum()) == top * 1000
        assert (rows["self_ns"] >= 0).all()
        assert len(rows) == len(nodes)


# --- whose event is it? ---------------------------------------------------------------------


def test_nodes_without_a_name_are_told_by_their_place(tmp_path: Path) -> None:
    """The profile calls them <op_type>_<number>, and the number is nowhere in the saved graph."""
    scheduled = [
        ScheduledNode("HardSigmoid#0", "", "", "HardSigmoid"), ScheduledNode("Mul#1", "", "", "Mul"),
        *plain("a"), ScheduledNode("HardSigmoid#3", "", "", "HardSigmoid"), ScheduledNode("Mul#4", "", "", "Mul"),
    ]  # fmt: skip
    nodes = [
        Ran("HardSigmoid_10", 0, 1, "HardSigmoid"), Ran("Mul_11", 2, 2, "Mul"), Ran("a", 5, 3),
        Ran("HardSigmoid_8", 9, 4, "HardSigmoid"), Ran("Mul_9", 14, 5, "Mul"),
    ]  # fmt: skip
    profile = read(tmp_path, run(1000, 50, nodes), 1, scheduled)
    assert self_us(profile) == {"HardSigmoid#0": [1], "Mul#1": [2], "a": [3], "HardSigmoid#3": [4], "Mul#4": [5]}
    assert set(profile.shapes) == {node.name for node in scheduled}


def test_names_that_repeat_in_two_branches_are_told_by_the_branch_that_ran(tmp_path: Path) -> None:
    scheduled = [
        ScheduledNode("Reorder", "", "Reorder", "Reorder"),
        ScheduledNode("if", "", "if", "If"),
        ScheduledNode("if/then_branch/Reorder", "if/then_branch", "Reorder", "Reorder"),
        *plain("t", graph="if/then_branch"),
        ScheduledNode("if/else_branch/Reorder", "if/else_branch", "Reorder", "Reorder"),
        *plain("e", graph="if/else_branch"),
    ]
    for branch, own in (("then", "t"), ("else", "e")):
        nodes = [Ran("Reorder", 0, 9, "Reorder"), Ran("Reorder", 11, 2, "Reorder"), Ran(own, 14, 3)]
        nodes.append(Ran("if", 10, 20, "If"))
        found = self_us(read(tmp_path, run(1000, 50, nodes), 1, scheduled))
        assert found == {"Reorder": [9], f"if/{branch}_branch/Reorder": [2], own: [3], "if": [15]}


def test_events_off_the_schedule_keep_their_names_so_that_they_are_seen(tmp_path: Path) -> None:
    scheduled = [*plain("a"), ScheduledNode("Mul#1", "", "", "Mul"), *plain("b")]
    nodes = [Ran("a", 0, 1), Ran("Mul_7", 2, 2, "Mul"), Ran("surprise", 5, 3), Ran("b", 9, 4)]
    found = self_us(read(tmp_path, run(1000, 50, nodes), 1, scheduled))
    assert found == {"a": [1], "Mul_7": [2], "surprise": [3], "b": [4]}


# --- shapes ---------------------------------------------------------------------------------


def test_shapes_are_those_of_the_first_run_of_all(tmp_path: Path) -> None:
    first = [node_event(Ran("a", 1001, 1), out=(7,)), run_event(1000, 9)]
    last = [node_event(Ran("a", 2001, 1), out=(5, 5)), run_event(2000, 9)]
    profile = read(tmp_path, [*first, *last], 1, plain("a"))
    inputs, outputs = profile.shapes["a"]
    assert [(tensor.dtype, tensor.shape) for tensor in inputs] == [("fp32", (1, 3)), ("int64", ())]
    assert [(tensor.dtype, tensor.shape) for tensor in outputs] == [("fp32", (7,))]


def test_a_type_unknown_to_us_is_called_unknown(tmp_path: Path) -> None:
    event = node_event(Ran("a", 1001, 1))
    event["args"]["output_type_shape"] = [{"float99": [3]}]
    profile = read(tmp_path, [event, run_event(1000, 9)], 1, plain("a"))
    assert [(tensor.dtype, tensor.shape) for tensor in profile.shapes["a"][1]] == [("unknown", (3,))]


# --- files that are not whole ---------------------------------------------------------------


@pytest.mark.parametrize("left", [None, 0, 1, 40])
def test_a_file_that_was_cut_off_or_never_made_is_told_as_a_lack_of_room(tmp_path: Path, left: int | None) -> None:
    path = tmp_path / "cut.json"
    if left is not None:
        path.write_text(json.dumps([*HEAD, *run(1000, 50, [Ran("a", 1, 2)])])[:-left] if left else "")
    with pytest.raises(MissingError, match=r"cut\.json cannot be written") as error:
        read_profile(path, 1, plain("a"))
    assert "make room" in error.value.fix
    assert "ulimit -f" in error.value.fix


@pytest.mark.parametrize("text", ["{}", "[1, 2]", '[{"ts": "soon"}]', "not json"])
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(CaptureError, match=r"other\.json is not"):
        read_profile(path, 1, plain("a"))


def test_too_few_runs_are_an_error_that_counts_them(tmp_path: Path) -> None:
    events = [*run(1000, 50, [Ran("a", 1, 2)]), *run(2000, 50, [Ran("a", 1, 2)])]
    with pytest.raises(CaptureError, match="holds 2 of 3 runs") as error:
        read(tmp_path, events, 3, plain("a"))
    assert "--profile-iterations" in error.value.fix


def test_a_run_that_was_cut_off_in_the_middle_does_not_count(tmp_path: Path) -> None:
    events = [*run(1000, 50, [Ran("a", 1, 2)]), node_event(Ran("a", 2001, 7))]
    assert self_us(read(tmp_path, events, 1, plain("a"))) == {"a": [2]}
