from __future__ import annotations

import msgspec
import pytest

from tests.fakes.report_factory import all_unmatched, make_run, of_engine, on_gpu, one_layer, typical
from tests.fakes.timeline_factory import timed
from trtprof.base.records import BarrierPart, Confirmation, CounterCheck, LadderStep, PluginCandidate, Run, RunGraph
from trtprof.report.tables import TABLES, Cell, table_of


def rows(run: Run, name: str) -> list[dict[str, Cell]]:
    table = table_of(name)
    columns = [column.name for column in table.columns(None)]
    return [dict(zip(columns, row, strict=True)) for row in table.rows(run)]


def full() -> Run:
    """A run in which every table has a row."""
    run = timed(on_gpu())
    first = run.layers[0]
    return msgspec.structs.replace(
        run,
        graph=RunGraph(
            layers=tuple(layer.name for layer in run.layers),
            layer_from=(0, 1),
            layer_to=(1, 2),
            tensor=("a", "b"),
            nbytes=(4096, -1),
        ),
        candidates=(
            PluginCandidate(
                layer=first.name,
                nodes=first.nodes,
                kernel="gemv",
                measured_ns=9_000,
                reachable_ns=2_000,
                basis="healthy kernels of this run",
                recoverable_ns=7_000,
                barrier=(BarrierPart(what="a launch", ns=900), BarrierPart(what="a reformat", ns=100)),
                net_ns=6_000,
                net_low_ns=5_000,
                net_high_ns=6_500,
                verdict="write it",
                why="nothing cheaper is left",
                ladder=(LadderStep(what="pad", command="trtprof run x.onnx"),),
            ),
        ),
        confirmations=(
            Confirmation(
                layer=first.name,
                verdict="confirmed",
                checks=(CounterCheck(what="FLOP", verdict="confirmed", predicted_low=1.0, reason="as many"),),
                launches=1,
                match="exact",
                reason="its name",
            ),
        ),
    )


def test_columns_are_documented_and_carry_their_unit(subtests: pytest.Subtests) -> None:
    for name in TABLES:
        with subtests.test(name=name):
            table = table_of(name)
            assert table.name == name
            assert table.meaning
            names = [column.name for column in table.columns(None)]
            assert len(set(names)) == len(names)
            for column in table.columns(None):
                assert column.meaning
                assert (column.unit == "ns") == (column.name.endswith("_ns") or column.name == "ns")
                assert (column.unit == "") == (column.type in ("str", "list", "bool") or name == "counters")


def test_no_table_is_always_empty() -> None:
    assert [name for name in TABLES if not rows(full(), name)] == []


def test_the_columns_of_layers_are_those_that_others_read() -> None:
    assert ",".join(column.name for column in TABLES["layers"].columns(None)) == (
        "rank,name,op_type,role,nodes,measured_ns,ideal_ns,attainable_ns,lost_ns,bound,runner_up,flops,bytes,dtype,"
        "shapes,match,reason,constant,kernels,launches,tensor_flops,vector_flops,special_flops,bytes_read,"
        "bytes_written,bytes_parameters,work_bound,work_note,"
        "expected_ns,expected_p10_ns,expected_p90_ns,expected_basis,expected_reason"
    )


def test_kernels_of_no_layer_are_there_and_the_sum_is_what_was_captured() -> None:
    run = all_unmatched()
    kernels = rows(run, "kernels")
    assert {row["layer"] for row in kernels} == {None}
    assert sum(match.total_ns for match in run.kernels_unattributed) == run.captured_ns
    assert [row["total_ns"] for row in kernels] == [match.total_ns for match in run.kernels_unattributed]


def test_what_a_capture_does_not_tell_of_a_launch_is_unknown() -> None:
    run = one_layer()
    (match,) = run.layers[0].kernels
    assert [rows(run, "kernels")[0][name] for name in ("blocks", "threads", "shared_bytes")] == [None] * 3
    known = msgspec.structs.replace(match, blocks=60, threads=128)
    layer = msgspec.structs.replace(run.layers[0], kernels=(known,))
    row = rows(make_run((layer,)), "kernels")[0]
    assert (row["blocks"], row["threads"], row["shared_bytes"]) == (60, 128, 0)


def test_the_timeline_is_by_name_and_none_without_one() -> None:
    assert rows(typical(), "timeline") == []
    run = timed(typical())
    assert run.timeline is not None
    events = rows(run, "timeline")
    assert len(events) == len(run.timeline.start_ns)
    assert events[0] == {
        "iteration": 16, "lane": "stream 7, copies", "kind": "copies", "depth": 0, "layer": None,
        "name": "copy to the GPU", "start_ns": 0, "dur_ns": 2_001,
    }  # fmt: skip
    assert {event["layer"] for event in events} - {None} <= {layer.name for layer in run.layers}


def test_without_a_sample_there_is_no_spread() -> None:
    (row,) = rows(of_engine(typical()), "run")
    assert (row["p99_ns"], row["cv"], row["samples"]) == (None, None, 0)
    assert (row["findings"], row["doubts"]) == (2, 1)
