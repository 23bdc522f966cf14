"""The ledger closes to the nanosecond, and each row holds what its name says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.cases import CEILINGS
from trtprof.base.records import Estimate, Latency, LayerResult, LedgerRow
from trtprof.diagnose.ledger import (
    CEILING,
    COPIES,
    FROM_DEVICE,
    GAPS_BETWEEN,
    GAPS_INSIDE,
    HOST,
    IDEAL,
    IDLE,
    INEFFICIENCY,
    LAUNCH,
    LAYOUT,
    OUTSIDE,
    SLOWER,
    TO_DEVICE,
    UNEXPLAINED,
    UNPRICED,
    UNREACHED,
    WAITING,
    Overheads,
    build_ledger,
)
from trtprof.diagnose.ledger import ROWS as ROW_TABLE


def timed(name: str, measured_ns: int, role: str = "compute", expected_ns: int | None = None) -> LayerResult:
    return LayerResult(
        name=name, op_type="Relu", role=role, nodes=(), kernels=(), measured_ns=measured_ns, ideal_ns=None,
        attainable_ns=None, lost_ns=None, bound="unknown", flops=None, bytes=None,
        expected_ns=expected_ns, expected_p10_ns=expected_ns, expected_p90_ns=expected_ns,
        expected_basis="none" if expected_ns is None else "measured",
    )  # fmt: skip


def priced(ideal_ns: int, roofline_ns: int, attainable_ns: int) -> Estimate:
    return Estimate(ideal_ns=ideal_ns, roofline_ns=roofline_ns, attainable_ns=attainable_ns, bound="dram")


def ledger(
    layers: Sequence[LayerResult],
    estimates: Mapping[str, Estimate | None],
    median_ns: int,
    call_ns: float = 0.0,
    unattributed_ns: int = 0,
    overheads: Overheads | None = None,
    partial: Sequence[str] = (),
    adding_ns: int = 0,
) -> tuple[LedgerRow, ...]:
    return build_ledger(
        layers,
        estimates,
        Latency(median_ns=median_ns, p99_ns=median_ns, cv=0.0, n=1),
        msgspec.structs.replace(CEILINGS, call_ns=call_ns),
        unattributed_ns,
        overheads=overheads,
        partial=partial,
        adding_ns=adding_ns,
    )


def amounts(rows: Sequence[LedgerRow]) -> dict[str, int]:
    return {row.cause: row.ns for row in rows}


def test_each_row_holds_its_part() -> None:
    layers = [timed("a", 1000), timed("b", 300), timed("reorder", 70, "layout"), timed("custom", 40)]
    estimates = {"a": priced(400, 500, 500), "b": priced(20, 30, 200), "reorder": priced(1, 2, 3), "custom": None}
    assert amounts(ledger(layers, estimates, 2000, call_ns=100.4, unattributed_ns=5)) == {
        IDEAL: 400 + 20,
        CEILING: (500 - 400) + (30 - 20),
        LAUNCH: 0 + (200 - 30),
        # A reorder is all loss, whatever it would take at best.
        LAYOUT: 70,
        INEFFICIENCY: (1000 - 500) + (300 - 200),
        # One layer without a price, and kernels without a layer.
        UNPRICED: 40 + 5,
        HOST: 100,
        UNEXPLAINED: 2000 - 1000 - 300 - 70 - 45 - 100,
    }


def test_measured_rows_are_facts_computed_ones_estimates_and_the_rest_a_remainder() -> None:
    layers = [timed("a", 1000), timed("reorder", 70, "layout"), timed("custom", 40)]
    rows = ledger(layers, {"a": priced(400, 500, 600)}, 2000, call_ns=100)
    assert {row.cause: row.kind for row in rows} == {
        IDEAL: "estimate",
        CEILING: "estimate",
        LAUNCH: "estimate",
        LAYOUT: "fact",
        INEFFICIENCY: "estimate",
        UNPRICED: "fact",
        HOST: "estimate",
        UNEXPLAINED: "remainder",
    }
    assert all(row.meaning for row in rows)


def test_the_call_takes_no_more_than_the_latency() -> None:
    rows = amounts(ledger([], {}, 80, call_ns=1e6))
    assert rows == {IDEAL: 0, INEFFICIENCY: 0, HOST: 80, UNEXPLAINED: 0}


def test_empty_rows_are_left_out_but_for_the_three_that_always_stand() -> None:
    assert [row.cause for row in ledger([], {}, 0)] == [IDEAL, INEFFICIENCY, UNEXPLAINED]


def test_copies_stand_between_the_layers_and_the_remainder_and_no_call_does() -> None:
    layers = [timed("a", 1000), timed("wait", 30, "sync"), timed("part", 500)]
    estimates = {"a": priced(400, 500, 600), "part": priced(50, 100, 200)}
    rows = ledger(layers, estimates, 1700, call_ns=100, overheads=Overheads(200, 40), partial=["part"])
    assert amounts(rows) == {
        IDEAL: 400 + 50,
        CEILING: 100 + 50,
        LAUNCH: 100 + 100,
        IDLE: 30,
        INEFFICIENCY: 400,
        # What it took beyond the part of its work that is known.
        UNPRICED: 300,
        TO_DEVICE: 200,
        FROM_DEVICE: 40,
        UNEXPLAINED: 1700 - 1530 - 240,
    }
    kinds = {row.cause: row.kind for row in rows}
    assert (kinds[IDLE], kinds[UNPRICED], kinds[TO_DEVICE], kinds[FROM_DEVICE]) == ("fact", "estimate", "fact", "fact")
    assert "streams overlap" in rows[-1].meaning
    assert "streams" not in ledger(layers, estimates, 1700)[-1].meaning


def test_what_was_lost_is_split_where_there_is_an_expectation() -> None:
    layers = [
        # Good kernels take 700 of the 1000, where 500 are attainable.
        timed("slow", 1000, expected_ns=700),
        # Faster than good kernels: all that it lost nobody else wins either.
        timed("good", 600, expected_ns=800),
        # They are expected to beat what is attainable here: it is slower by all that it lost.
        timed("odd", 900, expected_ns=300),
        # Faster than attainable: no loss to split.
        timed("fast", 450, expected_ns=700),
        timed("alone", 2000),
    ]
    rows = ledger(layers, {one.name: priced(500, 500, 500) for one in layers}, 5000)
    found = amounts(rows)
    assert found[UNREACHED] == (700 - 500) + (600 - 500) + 0
    assert found[SLOWER] == (1000 - 700) + 0 + (900 - 500)
    assert found[INEFFICIENCY] == (450 - 500) + (2000 - 500)
    assert sum(found.values()) == 5000
    kinds = {row.cause: row.kind for row in rows}
    assert kinds[UNREACHED] == kinds[SLOWER] == "estimate"
    # 2950 of 4950.
    (meaning,) = [row.meaning for row in rows if row.cause == UNREACHED]
    assert meaning.endswith("of the layers with an expectation, 59.6 % of the time")


def test_nothing_is_split_by_an_extrapolation() -> None:
    layer = msgspec.structs.replace(timed("far", 1000, expected_ns=7000), expected_basis="extrapolated")
    found = amounts(ledger([layer], {"far": priced(500, 500, 500)}, 1000))
    assert found == {IDEAL: 500, INEFFICIENCY: 500, UNEXPLAINED: 0}


def test_nothing_is_split_without_an_expectation_nor_of_a_layer_known_in_part() -> None:
    layers = [timed("slow", 1000), timed("part", 1000, expected_ns=700), timed("move", 70, "layout", 50)]
    estimates = {one.name: priced(500, 500, 500) for one in layers}
    rows = ledger(layers, estimates, 3000, partial=["part"])
    found = amounts(rows)
    assert UNREACHED not in found
    assert SLOWER not in found
    assert (found[INEFFICIENCY], found[UNPRICED], found[LAYOUT]) == (500, 500, 70)
    assert [row.meaning for row in rows if row.cause == INEFFICIENCY] == ["kernels measured, less what is attainable"]


NS = st.integers(0, 10**12)
ROWS = st.lists(
    st.tuples(
        NS,
        st.sampled_from(["compute", "layout", "control", "sync", "shape", "idle"]),
        st.none() | st.builds(priced, NS, NS, NS),
        st.none() | NS,
    ),
    max_size=12,
)  # fmt: skip


@given(
    ROWS,
    NS,
    st.floats(0, 1e12),
    NS,
    st.none() | st.builds(Overheads, NS, NS, NS, NS, NS, NS),
    st.booleans(),
    st.integers(-(10**12), 10**12),
)
def test_the_ledger_closes(
    rows: list[tuple[int, str, Estimate | None, int | None]],
    median_ns: int,
    call_ns: float,
    unattributed_ns: int,
    overheads: Overheads | None,
    partial: bool,
    adding_ns: int,
) -> None:
    """Whatever was measured, with ceilings that contradict each other too."""
    layers = [timed(f"layer{i}", ns, role, expected_ns) for i, (ns, role, _, expected_ns) in enumerate(rows)]
    estimates = {f"layer{i}": estimate for i, (_, _, estimate, _) in enumerate(rows)}
    found = ledger(layers, estimates, median_ns, call_ns, unattributed_ns, overheads, ["layer0"] * partial, adding_ns)
    assert sum(row.ns for row in found) == median_ns
    causes = [row.cause for row in found]
    assert causes == [row.cause for row in ROW_TABLE if row.cause in causes]
    by_cause = amounts(found)
    # All but the host, copies, gaps and the remainder are the kernels, to the ns, once where they overlap.
    kernels = sum(ns for cause, ns in by_cause.items() if cause not in OUTSIDE)
    overlap_ns = overheads.overlap_ns if overheads is not None else 0
    assert kernels == sum(layer.measured_ns for layer in layers) + unattributed_ns - overlap_ns + adding_ns
    if overheads is not None:
        outside = (
            (COPIES, overheads.copies_ns),
            (GAPS_INSIDE, overheads.gaps_inside_ns),
            (GAPS_BETWEEN, overheads.gaps_between_ns),
            (WAITING, overheads.waiting_ns),
        )
        assert all(by_cause.get(cause, 0) == ns for cause, ns in outside)
    assert 0 <= by_cause.get(HOST, 0) <= median_ns
    # Good kernels are slower than attainable and the layers slower than they are, or nothing is said of them.
    assert by_cause.get(UNREACHED, 0) >= 0
    assert by_cause.get(SLOWER, 0) >= 0
