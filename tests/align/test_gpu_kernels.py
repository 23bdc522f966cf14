"""Kernels of a GPU capture to layers: nothing lost, nothing guessed, and right wherever the truth is known."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes import trace_factory
from tests.fakes.support import H100, needs_captures, refused
from tests.fakes.trace_factory import ERAS, Layer, Process, Truth, write_trace
from trtprof.align.gpu_kernels import ITERATION_COLUMNS, TraceAlignment, align_trace
from trtprof.base.errors import UsageError
from trtprof.base.records import MatchConfidence, MatchedLayer, PlanLayer, PlanRole
from trtprof.base.trace import GRAPH_COLUMNS, LAUNCH_COLUMNS, RANGE_COLUMNS, WORK_COLUMNS, GpuTrace
from trtprof.capture.nsys.trace import read_trace

ENQUEUE = "ExecutionContext::enqueue"


class Kernel(NamedTuple):
    """A row of GpuTrace.work and what is to be found out about it."""

    name: str
    layer: str | None = None
    start: int | None = None
    ns: int = 1000
    stream: int = 7
    kind: str = "kernel"
    node: int = 0
    launched: bool = True
    pid: int = 1
    device: int = 0


class Range(NamedTuple):
    start: int
    end: int
    name: str
    domain: str = "TensorRT"
    tid: int = 1
    style: str = "push_pop"
    pid: int = 1


def layer(
    name: str, tactic: str = "", *, role: PlanRole = "compute", profile: int = 0, match: MatchConfidence = "exact"
) -> MatchedLayer:
    return MatchedLayer(layer=PlanLayer(name=name, kind="", tactic=tactic, profile=profile), role=role, match=match)


def frame(rows: Iterable[Sequence[Any]], columns: Sequence[str]) -> pd.DataFrame:
    table = pd.DataFrame(list(rows), columns=list(columns))
    words = {"kind", "name", "short_name", "domain", "style"}
    return table.astype({column: "category" if column in words else "int64" for column in columns})


def work_frame(rows: Iterable[dict[str, Any]]) -> pd.DataFrame:
    return frame([[row.get(column, 0) for column in WORK_COLUMNS] for row in rows], WORK_COLUMNS)


def trace_of(
    work: Iterable[dict[str, Any]],
    launches: Iterable[Sequence[Any]] = (),
    ranges: Iterable[Range] = (),
    nodes: Iterable[Sequence[Any]] = (),
) -> GpuTrace:
    return GpuTrace(
        work=work_frame(work),
        launches=frame(launches, LAUNCH_COLUMNS),
        ranges=frame([(r.start, r.end, r.domain, r.name, r.pid, r.tid, r.style) for r in ranges], RANGE_COLUMNS),
        graph_nodes=frame(nodes, GRAPH_COLUMNS),
    )


class Built(NamedTuple):
    trace: GpuTrace
    truth: list[str | None]  # Of each row of work


def run_engine(
    steps: Sequence[tuple[str, Sequence[Kernel]]],
    *,
    iterations: int = 3,
    ranges: bool = True,
    enqueue: bool = True,
    calls: bool = True,
    myelin: frozenset[str] = frozenset(),
    odd: Mapping[int, Sequence[Kernel]] | None = None,
    gap: int = 5000,
) -> Built:
    """An engine on one thread and one device: layers in order, each a range around the launches of its kernels.

    Args:
        steps: Names of ranges (``""`` for none) and what is launched in them; ``Kernel.layer`` is the truth.
        iterations: How often it runs.
        ranges: Whether there are ranges of layers.
        enqueue: Whether there are ranges of inferences.
        calls: Whether there are API calls.
        myelin: Names of ranges in Myelin's domain.
        odd: Kernels that an iteration launches besides, outside of any layer.
        gap: Idle time between iterations in ns.
    """
    work: list[dict[str, Any]] = []
    launches: list[Sequence[Any]] = []
    made: list[Range] = []
    truth: list[str | None] = []
    host, correlation = 1000, 1
    free: Counter[int] = Counter()

    def launch(kernel: Kernel) -> None:
        nonlocal host, correlation
        start = max(free[kernel.stream], host + 100)
        free[kernel.stream] = start + kernel.ns
        if calls and kernel.launched:
            launches.append((host, host + 50, "cudaLaunchKernel", 1, 1, correlation))
        work.append(
            {"start_ns": start, "end_ns": start + kernel.ns, "kind": kernel.kind, "name": kernel.name,
             "short_name": kernel.name, "stream": kernel.stream, "pid": 1, "correlation": correlation,
             "context": 1, "graph_node": kernel.node}
        )  # fmt: skip
        truth.append(kernel.layer)
        correlation += 1
        host += 60

    for iteration in range(iterations):
        began = host
        host += 10
        for name, kernels in steps:
            opened = host
            host += 5
            for kernel in kernels:
                launch(kernel)
            host += 5
            if name and ranges:
                made.append(Range(opened, host, name, "myelin-exec" if name in myelin else "TensorRT"))
            host += 5
        for kernel in (odd or {}).get(iteration, ()):
            launch(kernel)
        if enqueue:
            made.append(Range(began, host, ENQUEUE))
        host = max(host, *free.values()) + gap
    order = sorted(range(len(work)), key=lambda at: (work[at]["start_ns"], at))
    return Built(trace_of([work[at] for at in order], launches, made), [truth[at] for at in order])


def names_of(aligned: TraceAlignment) -> list[str | None]:
    """The layer that each row of work was given."""
    return [aligned.layers[at].layer.name if at >= 0 else None for at in aligned.work["layer"]]


def strategies_of(aligned: TraceAlignment) -> set[tuple[str, str]]:
    counted = aligned.work[aligned.work["counted"]]
    return set(zip(counted["strategy"], counted["confidence"], strict=True))


def check_laws(trace: GpuTrace, aligned: TraceAlignment) -> None:
    """What holds of any capture."""
    spent = (trace.work["end_ns"] - trace.work["start_ns"]).clip(lower=0).to_numpy()
    counted = aligned.work["counted"].to_numpy()
    kernels = (trace.work["kind"] == "kernel").to_numpy()
    assert (counted | ~kernels).all(), "a kernel is not counted"
    matches = [match for found in (*aligned.matches, aligned.unattributed) for match in found]
    assert sum(match.total_ns for match in matches) == aligned.captured_ns == spent[counted].sum()
    assert sum(match.count for match in matches) == counted.sum()
    for at, found in enumerate(aligned.matches):
        mine = (aligned.work["layer"] == at).to_numpy()
        assert sum(match.total_ns for match in found) == spent[mine].sum(), "time was moved between layers"
        assert all(match.layer == aligned.layers[at].layer.name for match in found)
        assert {match.confidence for match in found} <= {"exact", "inferred"}
        assert all(match.reason for match in found)
    assert all(match.layer is None and match.confidence == "none" and match.reason for match in aligned.unattributed)
    cover = aligned.coverage
    assert cover.exact + cover.inferred + cover.unattributed == pytest.approx(1.0)
    assert sum(share.total_ns for share in aligned.shares) == aligned.captured_ns
    assert sum(share.kernels for share in aligned.shares) == counted.sum()
    transfers = [trace.work["bytes"][~counted].sum(), spent[~counted].sum()]
    assert [
        sum(each.bytes for each in aligned.transfers),
        sum(each.total_ns for each in aligned.transfers),
    ] == transfers
    check_iterations(trace, aligned)


def check_iterations(trace: GpuTrace, aligned: TraceAlignment) -> None:
    """Each iteration's time is made of its parts, to the ns, and these are what an interval sweep finds."""
    table = aligned.iterations
    assert tuple(table.columns) == ITERATION_COLUMNS
    assert (table["reason"] == "").tolist() == table["kept"].tolist()
    for number, row in table.iterrows():
        mine = (aligned.work["iteration"] == number).to_numpy()
        work = trace.work[mine]
        spans = list(zip(work["start_ns"], np.maximum(work["start_ns"], work["end_ns"]), strict=True))
        counted = aligned.work["counted"].to_numpy()[mine]
        assert row["kernels"] == counted.sum()
        assert (row["start_ns"], row["end_ns"]) == (min(a for a, _ in spans), max(b for _, b in spans))
        if work["device"].nunique() != 1:
            continue
        gaps = row["gap_inside_ns"] + row["gap_between_ns"] + row["gap_host_ns"]
        assert row["kernel_ns"] - row["overlap_ns"] + row["copy_ns"] + gaps == row["end_ns"] - row["start_ns"]
        assert min(row["gap_inside_ns"], row["gap_between_ns"], row["gap_host_ns"]) >= 0
        own = [span for span, is_counted in zip(spans, counted, strict=True) if is_counted]
        assert row["kernel_ns"] - row["overlap_ns"] == swept(own)
        assert row["kernel_ns"] - row["overlap_ns"] + row["copy_ns"] == swept(spans)


def swept(spans: Iterable[tuple[int, int]]) -> int:
    """Length of a union of intervals."""
    total, until = 0, None
    for start, end in sorted(spans):
        total += max(0, end - max(start, until)) if until is not None else end - start
        until = end if until is None else max(until, end)
    return int(total)


def plan_of(layers: Iterable[Layer], *, tactics: bool = True) -> list[MatchedLayer]:
    return [
        layer(
            each.name,
            each.work[0].name.removesuffix("_execute_kernel_trt").removesuffix("_execute_kernel__5x_cublas")
            if tactics and each.work and each.work[0].kind == "kernel"
            else "",
            role="compute" if each.work else "idle",
        )
        for each in layers
    ]


def right(trace: GpuTrace, truth: Truth, aligned: TraceAlignment) -> list[bool]:
    """Of each row of work, whether it has the layer and shares the iteration that it was written for."""
    known = {(w.start_ns, w.pid, w.correlation, w.graph_node, w.stream): w for w in truth.work}
    keys = zip(*(trace.work[name] for name in ("start_ns", "pid", "correlation", "graph_node", "stream")), strict=True)
    rows = [known[key] for key in keys]
    own: dict[int, set[tuple[int, int]]] = {}
    for number, row in zip(aligned.work["iteration"], rows, strict=True):
        own.setdefault(number, set()).add((row.pid, row.iteration))
    return [
        name == row.layer and own[number] == {(row.pid, row.iteration)}
        for name, row, number in zip(names_of(aligned), rows, aligned.work["iteration"], strict=True)
    ]


TWO = (Process(pid=111, layers=trace_factory.ENGINE), Process(pid=112, layers=trace_factory.ENGINE, iterations=4))


def test_all_is_right_where_ranges_tell(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for era, (graph, plan) in itertools.product(ERAS, ((False, True), (True, False))):
        with subtests.test(era=era, graph=graph, plan=plan):
            processes = [process._replace(graph=graph) for process in TWO]
            truth = write_trace(tmp_path / f"{era} {graph}.sqlite", processes, era=era, shuffle=3, other_threads=True)
            trace = read_trace(tmp_path / f"{era} {graph}.sqlite")
            aligned = align_trace(trace, plan_of(trace_factory.ENGINE) if plan else None)
            check_laws(trace, aligned)
            assert all(right(trace, truth, aligned))
            assert aligned.coverage.exact == 1.0
            assert strategies_of(aligned) == {("graph" if graph else "launch", "exact")}
            assert aligned.iterations["kept"].all()
            assert len(aligned.iterations) == 7
            if plan:
                without = [
                    at.layer.name for at, found in zip(aligned.layers, aligned.matches, strict=True) if not found
                ]
                assert without == ["constant_1"]
            names = {found.layer.name: ns for found, ns in zip(aligned.layers, aligned.per_iteration_ns, strict=True)}
            assert names["fc"] == 3700
            assert names["Identity_2"] == 900, "a layer made of a copy counts"
            assert names["{ForeignNode[a...b]}"] == 1700, "a memset belongs to the layer that launched it"


def test_names_and_order_tell_what_ranges_do_not(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for era, graph in zip(ERAS, itertools.cycle((False, True)), strict=False):
        with subtests.test(era=era, graph=graph):
            layers = tuple(
                each for each in trace_factory.ENGINE if each.name not in ("side_branch", "{ForeignNode[a...b]}")
            )
            truth = write_trace(
                tmp_path / f"{era}.sqlite", [Process(pid=111, layers=layers, graph=graph)], era=era, shuffle=5
            )
            trace = read_trace(tmp_path / f"{era}.sqlite")
            trace = (
                trace._replace(graph_nodes=trace.graph_nodes[:0])
                if graph
                else trace._replace(launches=trace.launches[:0])
            )
            aligned = align_trace(trace, plan_of(layers))
            check_laws(trace, aligned)
            assert all(right(trace, truth, aligned))
            assert strategies_of(aligned) == {("tactic", "exact"), ("order", "inferred")}
            inferred = [found for found in itertools.chain(*aligned.matches) if found.confidence == "inferred"]
            assert [found.layer for found in inferred] == ["Identity_2"], "only the copy has no name of its own"


MYELIN_PLAN = [
    layer("conv", "sm80_conv"),
    layer("__myl_Mul_myl0_1", "__myl_Mul_0x00112233445566778899aabbccddeeff"),
    layer("__myl_Mul_myl0_3", "__myl_Mul_0xffeeddccbbaa99887766554433221100"),
    layer("__myl_Add_myl0_4"),
    layer("__myl_Add_myl0_6"),
    layer("/MatMul_myl0_15", "sm80_gemm"),
]


def myelin_steps(*, second: bool = True) -> list[tuple[str, list[Kernel]]]:
    return [
        ("conv", [Kernel("sm80_conv_execute_kernel_trt", "conv")]),
        ("__myl_Mul", [Kernel("memset", "__myl_Mul_myl0_1", kind="memset"),
                       Kernel("__myl_Mul_0x00112233445566778899aabbccddeeff", "__myl_Mul_myl0_1")]),
        ("__myl_Mul", [Kernel("__myl_Mul_0xffeeddccbbaa99887766554433221100_tensorop256x256_cga2x2",
                              "__myl_Mul_myl0_3")]),
        ("__myl_Add", [Kernel("ns::add", "__myl_Add_myl0_4")]),
        *([("__myl_Add", [Kernel("ns::add", "__myl_Add_myl0_6")])] if second else []),
        ("/MatMul", [Kernel("cublas_gemm", "/MatMul_myl0_15"), Kernel("splitKreduce", "/MatMul_myl0_15")]),
    ]  # fmt: skip


MYELIN_RANGES = frozenset({"__myl_Mul", "__myl_Add", "/MatMul"})


def test_names_that_myelin_cuts_are_told_apart_by_tactic_and_by_turn() -> None:
    built = run_engine(myelin_steps(), myelin=MYELIN_RANGES)
    aligned = align_trace(built.trace, MYELIN_PLAN)
    check_laws(built.trace, aligned)
    assert names_of(aligned) == built.truth
    sure = {each.layer.name: found[0].confidence for each, found in zip(aligned.layers, aligned.matches, strict=True)}
    assert sure == {
        "conv": "exact", "__myl_Mul_myl0_1": "exact", "__myl_Mul_myl0_3": "exact", "__myl_Add_myl0_4": "inferred",
        "__myl_Add_myl0_6": "inferred", "/MatMul_myl0_15": "exact",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("ranges", "expected"), [("X [profile 1]", "X [profile 1]"), ("X", "X")], ids=["its own", "none"]
)
def test_optimisation_profiles(ranges: str, expected: str) -> None:
    built = run_engine([(ranges, [Kernel("k")])])
    aligned = align_trace(built.trace, [layer("X"), layer("X [profile 1]", profile=1)])
    assert set(names_of(aligned)) == {expected}


CNN = [
    layer("reformat_in", role="layout"),
    layer("conv1", "sm80_xmma_fprop_a"),
    layer("constant", role="idle"),
    layer("pool"),
    layer("conv2", "sm80_xmma_fprop_b"),
    layer("conv3", "sm80_xmma_fprop_b"),
    layer("fc", "sm80_xmma_gemm"),
]
CNN_STEPS = [
    ("reformat_in", [Kernel("void genericReformat::copyVectorizedKernel<double>", "reformat_in")]),
    ("conv1", [Kernel("sm80_xmma_fprop_a_kernel_0_kernel_trt", "conv1")]),
    ("pool", [Kernel("cuPool::pool", "pool")]),
    ("conv2", [Kernel("sm80_xmma_fprop_b_execute_kernel_trt", "conv2", ns=3000)]),
    ("conv3", [Kernel("sm80_xmma_fprop_b_execute_kernel_trt", "conv3", ns=5000)]),
    ("fc", [Kernel("sm80_xmma_gemm_execute_kernel__5x_cublas", "fc"),
            Kernel("sm80_xmma_gemm_execute_split_k_kernel__5x_cublas", "fc"),
            Kernel("void splitKreduce_kernel<float>", "fc")]),
]  # fmt: skip


@pytest.mark.parametrize("calls", [True, False])
def test_without_ranges_of_layers_names_and_order_tell(calls: bool) -> None:
    built = run_engine(CNN_STEPS, ranges=False, enqueue=calls, calls=calls)
    aligned = align_trace(built.trace, CNN)
    check_laws(built.trace, aligned)
    assert aligned.iterations["kept"].all()
    assert len(aligned.iterations) == 3
    assert names_of(aligned) == built.truth
    found = {match.kernel: match.confidence for matches in aligned.matches for match in matches}
    assert found["sm80_xmma_fprop_a_kernel_0_kernel_trt"] == "exact"
    assert found["sm80_xmma_fprop_b_execute_kernel_trt"] == "inferred"
    assert found["cuPool::pool"] == "inferred"


def test_suffixes_of_tactics(subtests: pytest.Subtests) -> None:
    rows: list[str] = [
        "tactic", "tactic_execute_kernel_trt", "tactic_execute_kernel__5x_cublas", "tactic_execute_kernel_cudnn",
        "tactic_execute_split_k_kernel__5x_cublas", "tactic_execute_segment_k_off_kernel__5x_cublas",
        "tactic_kernel_0_kernel_trt", "tactic_fused", "void tactic<float, 3>(int)",
    ]  # fmt: skip
    for kernel in rows:
        with subtests.test(kernel=kernel):
            aligned = align_trace(run_engine([("", [Kernel(kernel)])]).trace, [layer("a", "tactic"), layer("b", "tac")])
            assert set(names_of(aligned)) == {"a"}
            assert strategies_of(aligned) == {("tactic", "exact")}


def test_other_names_are_no_tactics(subtests: pytest.Subtests) -> None:
    rows: list[str] = ["tactic_t1r3s3", "tactical", "tactic_execute", "my_tactic", "tactic_kernel_0x"]
    for kernel in rows:
        with subtests.test(kernel=kernel):
            aligned = align_trace(run_engine([("", [Kernel(kernel)])]).trace, [layer("a", "tactic", role="idle")])
            assert set(names_of(aligned)) == {None}
            assert "no tactic" in aligned.unattributed[0].reason


def test_an_iteration_with_ranges_tells_those_without() -> None:
    plan = [layer(name) for name in ("a", "b", "c", "d")]
    steps = [(name, [Kernel(f"kernel_{name}", name)]) for name in "abd"]
    built = run_engine(steps)
    ranges = built.trace.ranges
    later = ranges["start_ns"] > ranges["start_ns"][ranges["name"] == ENQUEUE].iloc[1]
    aligned = align_trace(built.trace._replace(ranges=ranges[~later | (ranges["name"] == ENQUEUE)]), plan)
    assert names_of(aligned) == built.truth
    assert strategies_of(aligned) == {("launch", "exact"), ("counterpart", "inferred")}


def one_kernel(**changes: Any) -> dict[str, Any]:
    return {"start_ns": 500, "end_ns": 900, "kind": "kernel", "name": "k", "short_name": "k", "pid": 1,
            "correlation": 5, **changes}  # fmt: skip


A_AND_B = [layer("a"), layer("b")]
RANGES = [Range(100, 200, "a"), Range(300, 400, "b")]


def test_what_a_launch_does_not_tell_is_said(subtests: pytest.Subtests) -> None:
    rows: list[tuple[list[Sequence[Any]], str]] = [
        ([], "not in the capture"),
        ([(120, 130, "x", 2, 1, 5)], "not in the capture"),
        ([(120, 130, "x", 1, 1, 5), (310, 320, "x", 1, 1, 5)], "several API calls"),
        ([(250, 260, "x", 1, 1, 5)], "outside"),
        ([(120, 130, "x", 1, 2, 5)], "outside"),
    ]
    for launches, reason in rows:
        with subtests.test(reason=reason):
            trace = trace_of([one_kernel()], launches, RANGES)
            aligned = align_trace(trace, A_AND_B)
            check_laws(trace, aligned)
            assert names_of(aligned) == [None]
            assert reason in aligned.unattributed[0].reason
            assert len(aligned.notes) == (reason != "outside")


def test_a_call_within_a_call_is_a_part_of_it() -> None:
    launches = [(322, 328, "cuLaunchKernel", 1, 1, 5), (320, 330, "cudaLaunchKernel", 1, 1, 5)]
    aligned = align_trace(trace_of([one_kernel()], launches, RANGES), A_AND_B)
    assert names_of(aligned) == ["b"]
    assert aligned.launching.call_ns == 10


def test_a_kernel_that_starts_before_its_launch_is_less_sure() -> None:
    trace = trace_of([one_kernel(start_ns=115)], [(120, 130, "x", 1, 1, 5)], RANGES)
    aligned = align_trace(trace, A_AND_B)
    assert names_of(aligned) == ["a"]
    assert strategies_of(aligned) == {("launch", "inferred")}
    assert any("before their launch" in note for note in aligned.notes)
    named = align_trace(trace, [layer("a"), layer("b", "k")])
    assert names_of(named) == ["b"], "the name tells more than a launch that came too late"


def test_graph_nodes(subtests: pytest.Subtests) -> None:
    rows: list[tuple[list[Sequence[Any]], str | None]] = [
        ([(9, 8, 450, 1, 1), (8, 7, 440, 1, 1), (7, 0, 150, 1, 1)], None),
        ([(9, 8, 450, 1, 1), (8, 0, 150, 2, 1)], "not in the capture"),
        ([(9, 8, 450, 1, 1), (8, 9, 150, 1, 1)], "not in the capture"),
        ([(9, 8, 450, 1, 1), (8, 0, 150, 1, 1), (8, 0, 350, 1, 1)], "more than once"),
        ([(9, 0, 250, 1, 1)], "outside"),
        ([], "not in the capture"),
    ]
    for nodes, reason in rows:
        with subtests.test(reason=reason):
            trace = trace_of([one_kernel(graph_node=9)], [(420, 430, "cudaGraphLaunch", 1, 1, 5)], RANGES, nodes)
            aligned = align_trace(trace, A_AND_B)
            check_laws(trace, aligned)
            assert names_of(aligned) == (["a"] if reason is None else [None])
            if reason is not None:
                assert reason in aligned.unattributed[0].reason


def test_an_odd_iteration_is_out_of_the_medians_and_in_the_sums() -> None:
    odd = {2: [Kernel("void debug()", None, ns=777)]}
    built = run_engine(CNN_STEPS, iterations=5, odd=odd)
    aligned = align_trace(built.trace, CNN)
    check_laws(built.trace, aligned)
    assert aligned.iterations["kept"].tolist() == [True, True, False, True, True]
    assert "more kernels" in aligned.iterations["reason"][2]
    (match,) = aligned.unattributed
    assert (match.count, match.total_ns, match.median_ns) == (1, 777, 777)
    assert sum(found.count for found in aligned.matches[1]) == 5


def test_ranges_of_the_user_mark_iterations() -> None:
    built = run_engine(CNN_STEPS, enqueue=False, iterations=4)
    ends = built.trace.ranges.groupby("name", observed=True)["end_ns"].max()
    starts = sorted(built.trace.ranges[built.trace.ranges["name"] == "reformat_in"]["start_ns"])
    marks = [Range(start - 1, start + 700, f"iteration {at}", "", style="start_end") for at, start in enumerate(starts)]
    assert ends.max() <= marks[-1].end
    ranges = frame([(r.start, r.end, r.domain, r.name, r.pid, r.tid, r.style) for r in marks], RANGE_COLUMNS)
    both = pd.concat([built.trace.ranges.astype(object), ranges.astype(object)]).sort_values("start_ns")
    trace = built.trace._replace(ranges=frame(both.to_numpy().tolist(), RANGE_COLUMNS))
    for given_name in (None, "iteration"):
        aligned = align_trace(trace, CNN, iteration_range=given_name)
        assert len(aligned.iterations) == 4
        assert "iteration" in aligned.iteration_source
        assert names_of(aligned) == built.truth
    other = align_trace(trace, CNN, iteration_range="step")
    assert any("step" in note for note in other.notes)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=12), st.integers(3, 6), st.lists(st.integers(0, 4), max_size=3))
def test_a_sequence_that_comes_again_is_found(block: list[int], repeats: int, head: list[int]) -> None:
    """Without NVTX and calls: all iterations that it finds are kept ones hold the same kernels."""
    sequence = [*head, *block * repeats]
    work = [one_kernel(start_ns=100 * at, end_ns=100 * at + 50, name=f"k{code}") for at, code in enumerate(sequence)]
    aligned = align_trace(trace_of(work), None)
    table = aligned.iterations
    assert table["kernels"].sum() == len(sequence)
    kept = table[table["kept"]]
    assert len(set(kept["kernels"])) == 1
    if len(kept) > 1:
        usual = int(kept["kernels"].iloc[0])
        assert len(block) % usual == 0 or len(kept) * usual >= len(sequence) / 2


def test_iterations_are_cut_where_the_gpu_is_idle() -> None:
    built = run_engine(CNN_STEPS, ranges=False, enqueue=False, calls=False, iterations=6)
    trace = built.trace._replace(work=built.trace.work.iloc[3:].reset_index(drop=True))
    aligned = align_trace(trace, CNN)
    assert aligned.iterations["kept"].tolist() == [False, True, True, True, True, True]
    assert aligned.iterations["kernels"].tolist() == [5, 8, 8, 8, 8, 8]


def test_gaps_overlap_and_copies() -> None:
    work = [
        one_kernel(start_ns=1000, end_ns=1100, correlation=1),
        one_kernel(start_ns=1150, end_ns=1250, correlation=2),
        one_kernel(start_ns=1200, end_ns=1300, correlation=3, stream=9),
        one_kernel(start_ns=1310, end_ns=1350, correlation=4, kind="memcpy", name="memcpy HtoD", bytes=64),
        one_kernel(start_ns=1400, end_ns=1500, correlation=5),
    ]
    calls = [(110, 120, "x", 1, 1, 1), (130, 140, "x", 1, 1, 2), (310, 315, "x", 1, 1, 3), (405, 406, "x", 1, 1, 4),
             (320, 1380, "x", 1, 1, 5)]  # fmt: skip
    trace = trace_of(work, calls, [*RANGES, Range(90, 2000, ENQUEUE)])
    aligned = align_trace(trace, A_AND_B)
    check_laws(trace, aligned)
    row = aligned.iterations.iloc[0]
    assert (row["kernel_ns"], row["overlap_ns"], row["copy_ns"]) == (400, 50, 40)
    assert (row["gap_inside_ns"], row["gap_between_ns"]) == (50, 30)
    assert row["gap_host_ns"] == 30, "the last kernel was launched 30 ns after the copy had ended"
    assert (row["host_start_ns"], row["host_end_ns"]) == (90, 2000)
    assert aligned.busy_ns == 350
    (transfer,) = aligned.transfers
    assert (transfer.name, transfer.number, transfer.total_ns, transfer.bytes) == ("memcpy HtoD", 1, 40, 64)
    assert aligned.launching.host_ns == 1910


def test_a_device_is_chosen_and_none_is_missed() -> None:
    work = [one_kernel(device=0), one_kernel(device=1, name="other", start_ns=510)]
    trace = trace_of(work, [(310, 320, "x", 1, 1, 5)], RANGES)
    first = align_trace(trace, A_AND_B, device=0)
    assert first.captured_ns == 400
    assert first.work["layer"].tolist() == [1, -1]
    assert first.work["counted"].tolist() == [True, False]
    assert align_trace(trace, A_AND_B).captured_ns == 790
    with pytest.raises(UsageError) as error:
        align_trace(trace, A_AND_B, device=3)
    assert "0, 1" in refused(error.value)


NAMES = ["a", "b", "__myl_Add", "ExecutionContext::enqueue", "user", "k0_execute_kernel_trt"]
LAW_PLAN = [
    layer("a", "k0"), layer("b", "k1"), layer("__myl_Add_myl0_1"), layer("__myl_Add_myl0_2", "k1"),
    layer("c", role="idle"), layer("a [profile 1]", "k2", profile=1),
]  # fmt: skip
small = st.integers(0, 60)
ids = st.integers(0, 6)
processes = st.sampled_from([1, 2, 70_000])

any_work: st.SearchStrategy[list[dict[str, Any]]] = st.lists(
    st.builds(
        dict, start_ns=small, end_ns=small, kind=st.sampled_from(["kernel", "kernel", "memcpy", "memset"]),
        name=st.sampled_from(["k0_execute_kernel_trt", "k1", "k2", "memcpy DtoD", "other", "splitKreduce"]),
        device=st.integers(0, 1), stream=st.integers(0, 2), pid=processes, correlation=ids, graph_node=ids, bytes=ids,
    ),
    min_size=1, max_size=25,
)  # fmt: skip
any_launches = st.lists(
    st.tuples(small, small, st.just("cudaLaunchKernel"), processes, st.integers(0, 3), ids), max_size=20
)
any_ranges = st.lists(
    st.builds(
        Range, small, small, st.sampled_from(NAMES), st.sampled_from(["TensorRT", "myelin-exec", ""]),
        st.integers(0, 3), st.sampled_from(["push_pop", "push_pop", "start_end"]), processes,
    ),
    max_size=20,
)  # fmt: skip
any_nodes = st.lists(st.tuples(ids, ids, small, processes, st.integers(0, 3)), max_size=10)
plans = st.sampled_from([LAW_PLAN, None, []])


def usable(work: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "short_name": row["name"]} for row in (*work, one_kernel(name="other", correlation=0))]


@given(any_work, any_launches, any_ranges, any_nodes, plans)
def test_no_time_is_lost_whatever_the_capture(
    work: list[dict[str, Any]],
    launches: list[Sequence[Any]],
    ranges: list[Range],
    nodes: list[Sequence[Any]],
    plan: list[MatchedLayer] | None,
) -> None:
    trace = trace_of(usable(work), launches, ranges, nodes)
    aligned = align_trace(trace, plan)
    check_laws(trace, aligned)


def outcome(aligned: TraceAlignment) -> list[tuple[Any, ...]]:
    columns = (names_of(aligned), aligned.work["strategy"], aligned.work["confidence"], aligned.work["iteration"])
    return list(zip(*columns, strict=True))


@given(any_work, any_launches, any_ranges, any_nodes, plans, st.integers(0, 1000))
def test_the_order_of_rows_changes_nothing(
    work: list[dict[str, Any]],
    launches: list[Sequence[Any]],
    ranges: list[Range],
    nodes: list[Sequence[Any]],
    plan: list[MatchedLayer] | None,
    seed: int,
) -> None:
    rows = usable(work)
    mixed_up = list(range(len(rows)))
    random.Random(seed).shuffle(mixed_up)
    other: list[Any] = [random.Random(seed).sample(list(table), len(table)) for table in (launches, ranges, nodes)]
    before = align_trace(trace_of(rows, launches, ranges, nodes), plan)
    after = align_trace(trace_of([rows[at] for at in mixed_up], *other), plan)
    assert (before.matches, before.unattributed, before.coverage) == (after.matches, after.unattributed, after.coverage)
    assert before.iterations.equals(after.iterations)
    assert (before.per_iteration_ns, before.transfers, before.launching) == (
        after.per_iteration_ns, after.transfers, after.launching
    )  # fmt: skip
    # Rows that nothing tells apart may swap what they were given.
    first = sorted(zip((sorted(row.items()) for row in rows), outcome(before), strict=True), key=repr)
    second = sorted(zip((sorted(rows[at].items()) for at in mixed_up), outcome(after), strict=True), key=repr)
    assert first == second


@given(any_work, any_launches, any_ranges, any_nodes)
def test_the_names_of_other_processes_change_nothing(
    work: list[dict[str, Any]], launches: list[Sequence[Any]], ranges: list[Range], nodes: list[Sequence[Any]]
) -> None:
    """Ids of processes and threads are but names: which numbers they are does not matter."""

    def renamed(pid: int) -> int:
        return pid + 5 if pid != 1 else pid

    def table(rename: bool) -> GpuTrace:
        new = renamed if rename else int

        def at(tid: int, pid: int) -> int:
            return tid if pid == 1 else tid + 1000 * new(pid)

        return trace_of(
            [{**row, "pid": new(row["pid"])} for row in usable(work)],
            [(a, b, name, new(pid), at(tid, pid), c) for a, b, name, pid, tid, c in launches],
            [each._replace(pid=new(each.pid), tid=at(each.tid, each.pid)) for each in ranges],
            [(node, original, start, new(pid), at(tid, pid)) for node, original, start, pid, tid in nodes],
        )

    assert outcome(align_trace(table(False), LAW_PLAN)) == outcome(align_trace(table(True), LAW_PLAN))


@given(st.data())
def test_engines_of_all_sorts_are_led_back_in_full(data: st.DataObject) -> None:
    """Random engines with layers of several kernels, without any, on streams of their own: all is right."""
    count = data.draw(st.integers(1, 12))
    steps, plan = [], []
    for at in range(count):
        name = f"layer {at} + relu"
        kernels = data.draw(st.integers(0, 3))
        made = [
            Kernel(f"k{data.draw(st.integers(0, 4))}", name, ns=data.draw(st.integers(1, 5000)),
                   stream=data.draw(st.sampled_from([7, 7, 13])), kind=data.draw(st.sampled_from(["kernel", "memset"])))
            for _ in range(kernels)
        ]  # fmt: skip
        steps.append((name, made))
        plan.append(layer(name))
    steps.append((f"layer {count}", [Kernel("last", f"layer {count}")]))
    plan.append(layer(f"layer {count}"))
    built = run_engine(steps, iterations=data.draw(st.integers(1, 4)))
    aligned = align_trace(built.trace, plan)
    check_laws(built.trace, aligned)
    assert names_of(aligned) == built.truth
    assert aligned.coverage.exact == 1.0
    assert aligned.iterations["kept"].all()
    assert names_of(align_trace(built.trace, None)) == built.truth


@needs_captures
def test_a_real_capture_of_two_gpus() -> None:
    trace = read_trace(H100)
    aligned = align_trace(trace, None)
    check_laws(trace, aligned)
    kernels = trace.work[trace.work["kind"] == "kernel"]
    assert len(kernels) == 3442
    assert aligned.captured_ns >= (kernels["end_ns"] - kernels["start_ns"]).sum()
    assert aligned.coverage.unattributed < 0.2
    assert "aten::mm" in {each.layer.name for each in aligned.layers}
    assert aligned.launching.known == 1632
    for device in (0, 1):
        own = trace._replace(work=trace.work[trace.work["device"] == device].reset_index(drop=True))
        alone = align_trace(own, None)
        check_laws(own, alone)
        assert alone.captured_ns == align_trace(trace, None, device=device).captured_ns
