"""Kernels to ONNX Runtime's nodes by the time of their launch, on captures whose truth is known."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.support import refused
from trtprof.align.ort_cuda import INFERENCE_RANGE, Clock, OrtAlignment, align_ort, fit_clock, node_ranges
from trtprof.base.errors import CaptureError
from trtprof.base.records import Layer, Op
from trtprof.base.trace import GRAPH_COLUMNS, LAUNCH_COLUMNS, RANGE_COLUMNS, WORK_COLUMNS, GpuTrace
from trtprof.runtime.ort_session import NODE_EVENT_COLUMNS

MAIN, HELPER = 4711, 4712
US = 1000


class Capture(NamedTuple):
    """Node events, the trace of the same inferences, and the layer that launched each kernel."""

    events: pd.DataFrame
    trace: GpuTrace
    truth: list[str]
    layers: tuple[Layer, ...]
    offset_ns: int

    def for_alignment(self) -> tuple[GpuTrace, tuple[Layer, ...], pd.DataFrame]:
        return self.trace, self.layers, self.events


def layer(name: str, role: str = "compute") -> Layer:
    op = Op(op_type="Conv", domain="", inputs=(), outputs=(), attributes={})
    return Layer(name=name, op=op, role=role, nodes=(name,), match="exact")  # type: ignore[arg-type]


def capture(
    seed: int = 0,
    *,
    runs: int = 12,
    nodes: int = 20,
    offset_ns: int = 1_795_261_336_808_621_303,
    drift: float = 0.0,
    jitter_ns: int = 0,
    tid: int = MAIN,
    body: bool = False,
) -> Capture:
    """A capture of a sequence of nodes; each third launches nothing, the others one to three kernels.

    Args:
        seed: Of the durations.
        runs: Inferences.
        nodes: Nodes in each.
        offset_ns: What the collector's clock is ahead of that of the profile at its begin.
        drift: By how much it runs faster.
        jitter_ns: How far off the collector's times are at most.
        tid: The thread as the collector has it.
        body: Whether a control-flow node holds all others.
    """
    drawn = np.random.default_rng(seed)
    durations = drawn.integers(6 * US, 60 * US, size=nodes)
    rows: list[tuple[int, int, str, str, int, int]] = []
    launches: list[tuple[int, int, str, int, int, int]] = []
    truth: list[str] = []

    def there(time: int) -> int:
        off = int(drawn.integers(-jitter_ns, jitter_ns + 1)) if jitter_ns else 0
        return time + offset_ns + round(time * drift) + off

    now = 5_000_123
    for run in range(runs):
        # Two copies of the inputs before, on the same thread and in no node.
        for _ in range(2):
            launches.append((there(now), there(now + 4 * US), "cudaMemcpyAsync", 1, tid, 10_000 + len(launches)))
            now += 6 * US
        began, first = now, len(rows)
        for node, usual in enumerate(durations.tolist()):
            length = usual + int(drawn.integers(0, 2 * US))
            rows.append((now, now + length, f"node{node}", "CUDA", run, MAIN))
            for place in range(node % 3):
                at = now + US + place * 2 * US
                launches.append((there(at), there(at + 1500), "cudaLaunchKernel", 1, tid, 10_000 + len(launches)))
                truth.append(f"node{node}")
            now += length + int(drawn.integers(300, 3 * US))
        if body:
            rows.insert(first, (began, now, "loop", "CPU", run, MAIN))
        rows.insert(first, (began - US, now + US, "", "", run, MAIN))
        now += int(drawn.integers(20 * US, 200 * US))
    events = pd.DataFrame(rows, columns=list(NODE_EVENT_COLUMNS))
    # As the profile has it: whole microseconds, cut off.
    start, length = events["start_ns"] // US, (events["end_ns"] - events["start_ns"]) // US
    events["start_ns"], events["end_ns"] = start * US, (start + length + 1) * US
    names = [f"node{node}" for node in range(nodes)]
    layers = (*((layer("loop", "control"),) if body else ()), *map(layer, names))
    return Capture(events, trace_of(launches), truth, layers, offset_ns)


def trace_of(launches: list[tuple[int, int, str, int, int, int]]) -> GpuTrace:
    """Every launch of a kernel has one of 3 us, every copy one of 1 us, later on the GPU and one after the other."""
    table = pd.DataFrame(sorted(launches), columns=list(LAUNCH_COLUMNS))
    count = len(table)
    copies = (table["name"] == "cudaMemcpyAsync").to_numpy()
    start = np.maximum.accumulate(table["end_ns"].to_numpy(np.int64) + 700_000) + np.arange(count)
    work = pd.DataFrame(dict.fromkeys(WORK_COLUMNS, 0), index=range(count))
    work["start_ns"], work["end_ns"] = start, start + np.where(copies, 1000, 3000)
    work["kind"] = pd.Categorical(np.where(copies, "memcpy", "kernel"))
    work["name"] = work["short_name"] = pd.Categorical(np.where(copies, "memcpy HtoD", "a_kernel"))
    work["pid"], work["stream"], work["correlation"] = 1, 7, table["correlation"]
    table["name"] = table["name"].astype("category")
    return GpuTrace(
        work=work,
        launches=table,
        ranges=pd.DataFrame({column: pd.Series([], dtype="int64") for column in RANGE_COLUMNS}).astype(
            {"domain": "category", "name": "category", "style": "category"}
        ),
        graph_nodes=pd.DataFrame({column: pd.Series([], dtype="int64") for column in GRAPH_COLUMNS}),
        collector="cupti",
    )


def attributed(made: Capture, found: OrtAlignment) -> list[str]:
    """The layer of each kernel in the order of launch; empty for none."""
    names = [matched.layer.name for matched in found.alignment.layers]
    kernel = (made.trace.work["kind"] == "kernel").to_numpy()
    return ["" if place < 0 else names[place] for place in found.alignment.work["layer"].to_numpy()[kernel]]


def wrong(made: Capture, **named: Any) -> float:
    found = attributed(made, align_ort(made.trace, made.layers, made.events, **named))
    assert len(found) == len(made.truth)
    return sum(one != other for one, other in zip(found, made.truth, strict=True)) / len(found)


@given(
    seed=st.integers(0, 10_000),
    offset_ns=st.integers(-(2**61), 2**61),
    runs=st.integers(1, 8),
    nodes=st.integers(3, 30),
    off_ns=st.integers(-900, 900),
)
@settings(max_examples=20, deadline=None)
def test_every_kernel_finds_its_node_where_the_begin_of_the_profile_is_known(
    seed: int, offset_ns: int, runs: int, nodes: int, off_ns: int
) -> None:
    made = capture(seed, runs=runs, nodes=nodes, offset_ns=offset_ns)
    assert wrong(made, guess_ns=offset_ns + off_ns, within_ns=US) == 0


def test_of_a_dozen_inferences_every_kernel_finds_its_node_whatever_the_offset(subtests: pytest.Subtests) -> None:
    rows: list[int] = [0, -(2**61), 1_795_261_336_808_621_303]
    for offset_ns in rows:
        for seed in range(6):
            with subtests.test(offset_ns=offset_ns, seed=seed):
                made = capture(seed, runs=12, nodes=30, offset_ns=offset_ns)
                found = align_ort(*made.for_alignment())
                assert attributed(made, found) == made.truth
                assert found.clock.inside == found.clock.launches == len(made.truth)
                assert abs(found.clock.offset_ns - offset_ns) <= found.clock.slack_ns + 2 * US


@pytest.mark.parametrize("drift", [-2e-4, -2e-5, 2e-5, 1e-4])
def test_clocks_that_drift_apart_are_brought_together(drift: float) -> None:
    made = capture(3, runs=60, drift=drift)
    found = align_ort(made.trace, made.layers, made.events)
    assert attributed(made, found) == made.truth
    assert found.clock.share == 1.0


def test_a_guess_is_taken_where_it_fits_as_well_and_else_not() -> None:
    made = capture(1, runs=8)
    for guess in (made.offset_ns, made.offset_ns + 200_000, made.offset_ns + 10**12, 0):
        assert wrong(made, guess_ns=guess) == 0, guess


def test_equal_inferences_at_equal_distance_are_told_apart_by_the_first_and_the_last() -> None:
    """Shifted by one inference all launches but those of one lie inside nodes again."""
    start = (np.arange(30)[:, None] * 1_000_000 + np.arange(10) * 50_000).ravel()
    found = fit_clock(start, start + 40_000, start + 7_000_000_000 + 1000, start + 7_000_000_000 + 3000)
    assert found.inside == len(start)
    assert abs(found.offset_ns - 7_000_000_000) <= found.slack_ns


def test_a_node_that_stalled_for_longer_than_all_the_others_takes_no_launches_of_theirs(
    subtests: pytest.Subtests,
) -> None:
    """With one launch left out, all the others would lie inside the long node, and a single time varies by nothing."""
    for seed in range(12):
        with subtests.test(seed=seed):
            drawn = np.random.default_rng(seed)
            length = drawn.integers(30 * US, 90 * US, size=80)
            length[drawn.integers(0, 80)] += 12_000 * US
            end = np.cumsum(length + 40 * US) // US * US
            start = end - length // US * US
            call = start + drawn.integers(US, 2 * US, size=80) + 7_000_000_000
            found = fit_clock(start, end, call, call + 500)
            placed = np.searchsorted(start, call - found.offset_ns, "right") - 1
            assert (placed == np.arange(80)).all()


def test_the_slack_is_how_far_the_offset_can_move() -> None:
    start = np.array([0, 100_000, 250_000])
    found = fit_clock(start, start + 20_000, start + 5_005_000, start + 5_010_000)
    # The calls lie 5 us behind the begin and 10 us before the end of their nodes.
    assert found.offset_ns - found.slack_ns == pytest.approx(4_990_000 + 5_000 - 5_000, abs=1)
    assert found.offset_ns + found.slack_ns == pytest.approx(5_005_000, abs=1)
    assert (found.inside, found.launches, found.share) == (3, 3, 1.0)


def test_launches_of_another_thread_have_no_node_and_are_said() -> None:
    made = capture(4)
    at = int(made.trace.launches["start_ns"].iloc[30])
    others = made.trace.launches.iloc[:3].assign(
        start_ns=at, end_ns=at + 1500, tid=HELPER, correlation=[1, 2, 3], name="cudaLaunchKernel"
    )
    work = made.trace.work.iloc[2:5].assign(
        kind="kernel", correlation=[1, 2, 3], start_ns=made.trace.work["end_ns"].max() + np.arange(3) * 9000
    )
    work["end_ns"] = work["start_ns"] + 500
    launches = pd.concat([made.trace.launches.astype({"name": object}), others], ignore_index=True)
    both = pd.concat([made.trace.work.astype({"kind": object, "name": object}), work], ignore_index=True)
    trace = made.trace._replace(
        launches=launches.sort_values("start_ns", kind="stable", ignore_index=True).astype({"name": "category"}),
        work=both.astype({"kind": "category", "name": "category"}),
    )
    found = align_ort(trace, made.layers, made.events)
    assert found.clock.launches == len(made.truth)
    assert any("3 launches are of other threads" in note for note in found.alignment.notes)
    assert sum(match.count for match in found.alignment.unattributed) == 3


def test_inferences_are_told_apart_by_the_runs_of_the_profile() -> None:
    made = capture(6, runs=9)
    found = align_ort(made.trace, made.layers, made.events).alignment
    assert len(found.iterations) == 9
    assert found.iterations["kept"].all()
    assert INFERENCE_RANGE in found.iteration_source
    per_node = dict(zip((layer.layer.name for layer in found.layers), found.per_iteration_ns, strict=True))
    assert per_node["node2"] == 2 * 3000
    assert per_node["node3"] == 0


def test_captured_time_is_conserved_and_copies_around_the_nodes_are_transfers() -> None:
    made = capture(7)
    found = align_ort(made.trace, made.layers, made.events).alignment
    matches = [match for own in (*found.matches, found.unattributed) for match in own]
    assert sum(match.total_ns for match in matches) == found.captured_ns == 3000 * len(made.truth)
    assert [(transfer.name, transfer.number) for transfer in found.transfers] == [("memcpy HtoD", 24)]
    assert found.coverage.exact == 1.0


def test_a_capture_of_something_else_leads_no_kernel_to_a_node() -> None:
    """Launches ten times as far apart as the nodes fit nowhere."""
    made = capture(8)
    launches = made.trace.launches.copy()
    begin = launches["start_ns"].iloc[0]
    for column in ("start_ns", "end_ns"):
        launches[column] = begin + (launches[column] - begin) * 10
    found = align_ort(made.trace._replace(launches=launches), made.layers, made.events)
    assert found.clock.share < 0.9
    assert found.alignment.coverage.unattributed == 1.0
    assert any("could not be brought together" in note for note in found.alignment.notes)


def test_ranges_of_nodes_have_the_columns_of_a_trace_and_are_sorted() -> None:
    made = capture(9, runs=2, nodes=3, body=True)
    shuffled = made.events.sample(frac=1, random_state=1)
    ranges = node_ranges(shuffled, Clock(100, 0, 0.0, 0, 1, 1), pid=5, tid=6)
    assert tuple(ranges.columns) == RANGE_COLUMNS
    assert ranges["start_ns"].is_monotonic_increasing
    assert ranges["name"].tolist()[:3] == [INFERENCE_RANGE, "loop", "node0"]
    assert set(ranges["domain"]) == {"ort"}
    assert set(ranges["style"]) == {"push_pop"}
    assert set(ranges["pid"]) == {5}
    assert (ranges["start_ns"] - 100).tolist() == sorted(made.events["start_ns"])


NOTHING: npt.NDArray[np.int64] = np.empty(0, dtype=np.int64)
SOME = np.array([5])


@pytest.mark.parametrize(("nodes", "calls"), [(NOTHING, SOME), (SOME, NOTHING)])
def test_without_nodes_or_launches_there_is_nothing_to_go_by(
    nodes: npt.NDArray[np.int64], calls: npt.NDArray[np.int64]
) -> None:
    with pytest.raises(CaptureError) as caught:
        fit_clock(nodes, nodes, calls, calls)
    assert ("nodes" if not len(nodes) else "launches") in refused(caught.value)
