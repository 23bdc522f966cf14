"""Gates over two fleets: what is asked for, of cells and of the whole fleet, and the three answers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes import fleets
from tests.fakes.fleet_comparison_factory import cell_of, changed, side, slower
from trtprof.base.errors import UsageError
from trtprof.base.records import FleetGate, FleetRow
from trtprof.compare.fleet_gates import COUNTS, QUANTITIES, parse
from trtprof.compare.fleets import compare


def run_row(name: str = "m", ns: int = 1_000_000, half: float = 0.02, **changes: Any) -> FleetRow:
    """A cell that was measured, with an interval of so much of it to each hand."""
    row = changed(fleets.rows(1, 1, fails=0.0)[-1], model=name, key=fleets.digest(name), kernels=(), ledger=())
    ends = {"latency_ns": ns, "latency_low_ns": round(ns * (1 - half)), "latency_high_ns": round(ns * (1 + half))}
    return changed(row, **{**ends, **changes})


def gate(text: str, before: list[FleetRow], after: list[FleetRow], **sides: Any) -> FleetGate:
    (answer,) = compare(side(before), side(after, **sides), (text,)).gates
    return answer


def test_gates_that_are_understood(subtests: pytest.Subtests) -> None:
    texts = "latency>3%,latency > 0.1 ms,expected>2%,bound>0%,bound>5us,geomean>2%,cost>5%,failed>0,vanished > 10"
    for text in texts.split(","):
        with subtests.test(text=text):
            (found,) = parse([text])
            assert found.text == text
            assert found.unit in QUANTITIES[found.what]


def test_a_mistake_is_one_clear_error(subtests: pytest.Subtests) -> None:
    for text, why, fix in [
        ("failed", "without quotes the shell takes >", "--gate 'failed>0'"),
        ("failed>3%", "failed has another unit: a number of cells, without a unit", "--gate 'failed>0'"),
        ("failed>-1", "there are never fewer than 0 cells", "such as latency>3%"),
        ("geomean>1ms", "geomean has another unit: percent", "--gate 'geomean>3%'"),
        ("latency>3", "3 of what? It has no unit", "such as latency>3%"),
        ("vanishd>0", "known quantities: latency, expected", "--gate 'vanished>0'"),
        ("lost>3%", "known quantities: latency, expected", "such as"),
        ("cost<5%", "a gate says what is too much", "--gate 'cost>3%'"),
        ("", "known quantities", "--gate 'latency>3%'"),
    ]:
        with subtests.test(text=text, why=why, fix=fix):
            with pytest.raises(UsageError) as caught:
                parse([text])
            assert why in caught.value.why
            if fix != "such as":
                assert fix in caught.value.fix


def test_three_answers_of_a_latency(subtests: pytest.Subtests) -> None:
    for times, half, answer in [
        (1.2, 0.02, "failed"), (1.05, 0.02, "inconclusive"), (1.0, 0.01, "passed"), (0.9, 0.02, "passed"),
        (1.2, 0.2, "inconclusive"),
    ]:  # fmt: skip
        for limit in ["3%", "30us"]:
            with subtests.test(times=times, half=half, answer=answer, limit=limit):
                row = run_row(half=half)
                found = gate(f"latency>{limit}", [row], [slower(row, times)])
                assert found.answer == answer, found.reason
                assert {"failed": found.over, "inconclusive": found.between, "passed": found.within}[answer] == 1
                assert found.value == pytest.approx(100 * (times - 1) if limit == "3%" else 1e6 * (times - 1), abs=1e-6)
                assert found.value is not None
                assert found.low is not None
                assert found.high is not None
                assert found.low < found.value < found.high
                assert limit in found.reason


def test_an_estimate_has_no_noise_and_does_not_fail_a_latency() -> None:
    row = fleets.rows(1, 1, fails=0.0)[0]
    after = changed(row, bound_ns=(row.bound_ns or 0) + 1, key=fleets.digest("x"))
    assert gate("bound>0%", [row], [after]).answer == "failed"
    assert gate("bound>0%", [row], [row]).answer == "passed"
    assert gate("bound>0%", [after], [row]).answer == "passed"
    assert gate("bound>1us", [row], [after]).answer == "passed"
    assert gate("expected>0%", [row], [after]).answer == "passed"
    assert gate("latency>3%", [row], [after]).answer == "inconclusive"
    assert gate("bound>0%", [changed(row, bound_ns=None)], [after]).answer == "inconclusive"


def test_counts_of_cells() -> None:
    row, other = run_row("a"), run_row("b")
    failed = changed(other, status="failed", error="no memory")
    assert gate("failed>0", [row, other], [row, failed]).answer == "failed"
    assert gate("failed>1", [row, other], [row, failed]).answer == "passed"
    assert gate("failed>0", [row, failed], [row, failed]).answer == "passed"
    assert gate("mended>0", [row, failed], [row, other]).answer == "failed"
    assert gate("vanished>0", [row, other], [row]).answer == "failed"
    assert gate("appeared>0", [row], [row, other]).answer == "failed"
    # What is new and fails did not fail before.
    assert gate("failed>0", [row], [row, changed(failed, sha256="f" * 64)]).answer == "failed"
    assert gate("slower>0", [row], [slower(row, 2.0)]).answer == "failed"
    assert gate("faster>0", [row], [slower(row, 2.0)]).answer == "passed"
    asked = [cell_of(row), cell_of(other)]
    assert gate("unanswered>0", [row, other], [row], asked=asked).answer == "failed"
    assert gate("vanished>0", [row, other], [row], asked=asked).answer == "passed"
    assert gate("undecided>0", [row], [changed(row, latency_ns=None)]).answer == "failed"
    assert set(COUNTS) < set(QUANTITIES)


def test_no_gate_passes_for_cells_that_are_not_done(subtests: pytest.Subtests) -> None:
    for text in ["latency>3%", "geomean>3%", "cost>5%", "slower>0", "failed>0", "expected>2%"]:
        with subtests.test(text=text):
            rows = [run_row(name, half=0.005) for name in "abc"]
            assert gate(text, rows, rows).answer == "passed"
            found = gate(text, rows, rows[:2], asked=list(map(cell_of, rows)))
            assert (found.answer, found.between) == ("inconclusive", 1)
            assert "1 cell has no number on a side" in found.reason
            assert gate("slower>1", rows, rows[:2], asked=list(map(cell_of, rows))).answer == "passed", "whatever it is"
            assert gate("vanished>0", rows, rows[:2], asked=list(map(cell_of, rows))).answer == "passed"


def test_a_gate_that_finds_nothing_to_look_at_does_not_pass() -> None:
    predicted = fleets.rows(1, 1, fails=0.0)[0]
    for text in ("slower>0", "faster>0", "latency>3%"):
        assert gate(text, [predicted], [predicted]).answer == "inconclusive", text
    lost = changed(predicted, expected_ns=None, key=fleets.digest("lost"))
    assert gate("expected>2%", [predicted, changed(predicted, model="o", key=fleets.digest("o"))],
                [lost, changed(predicted, model="o", key=fleets.digest("o"))]).answer == "inconclusive"  # fmt: skip
