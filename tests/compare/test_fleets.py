"""Two fleets: which cells are the same, what became of each, how sure that is, and why."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pytest

from tests.fakes import fleets
from tests.fakes.fleet_comparison_factory import cell_of, changed, changed_kernel, side, slower, week
from trtprof.base.fleet_table import REST
from trtprof.base.records import FleetCellChange, FleetComparison, FleetRow
from trtprof.compare.fleets import compare

MIRROR = {
    "slower": "faster", "failed now": "mended", "vanished": "appeared", "estimate rose": "estimate fell",
}  # fmt: skip
MIRROR |= {after: before for before, after in MIRROR.items()}


def run_row(name: str = "m", ns: int = 1_000_000, half: float = 0.02, **changes: Any) -> FleetRow:
    """A cell that was measured, with an interval of so much of it to each hand."""
    row = changed(fleets.rows(1, 1, fails=0.0)[-1], model=name, key=fleets.digest(name), kernels=(), ledger=())
    ends = {"latency_ns": ns, "latency_low_ns": round(ns * (1 - half)), "latency_high_ns": round(ns * (1 + half))}
    return changed(row, **{**ends, **changes})


def one(before: FleetRow, after: FleetRow) -> FleetCellChange:
    (cell,) = compare(side([before]), side([after])).cells
    return cell


def by_cell(found: FleetComparison) -> dict[tuple[str, ...], FleetCellChange]:
    return {(cell.model, cell.target, cell.size): cell for cell in found.cells}


# --- one cell -------------------------------------------------------------------------------


def test_a_measured_cell_is_slower_where_its_interval_says_so() -> None:
    cell = one(run_row(), run_row(ns=1_100_000))
    assert (cell.answer, cell.told_by, cell.before_ns, cell.after_ns) == ("slower", "latency", 10**6, 1_100_000)
    assert cell.ratio == pytest.approx(1.1)
    assert cell.low is not None
    assert cell.high is not None
    # By hand: the lower end of the one and the upper one of the other, in logarithms.
    half = math.hypot(math.log(1 / 0.98), math.log(1.02))
    assert math.log(cell.low) == pytest.approx(math.log(1.1) - half, rel=1e-4)
    assert 1 < cell.low < 1.1 < cell.high
    assert cell.chance is not None
    assert cell.chance < 1e-4


def test_an_estimate_is_never_slower_and_has_a_cause() -> None:
    row = fleets.rows(1, 1, fails=0.0)[0]
    assert row.verb == "predict"
    more = changed(row, expected_ns=(row.expected_ns or 0) + 1, trtprof="0.2.0", key=fleets.digest("other"))
    cell = one(row, more)
    assert (cell.answer, cell.told_by, cell.causes) == ("estimate rose", "expected", ("trtprof",))
    assert cell.low is cell.high is cell.chance is None
    assert one(more, row).answer == "estimate fell"
    assert one(row, row).answer == "estimate equal"
    # A bound that moved under an expectation that stayed.
    bound = changed(row, bound_ns=(row.bound_ns or 0) - 1, key=fleets.digest("other"))
    cell = one(row, bound)
    assert (cell.answer, cell.told_by, cell.causes) == ("estimate fell", "bound", ("datasheet",))
    # An expectation on one side alone is none of both.
    cell = one(row, changed(row, expected_ns=None))
    assert (cell.answer, cell.told_by, cell.reason) == ("estimate equal", "bound", "one side alone has an expectation")


def test_what_is_not_done_yet_did_not_vanish() -> None:
    row, other = run_row("a"), run_row("b")
    found = compare(side([row, other]), side([row], asked=[cell_of(row), cell_of(other)]))
    assert found.counts == {"not significant": 1, "not answered": 1}
    assert by_cell(found)["b", "here", "batch=1"].reason == "not done yet after"
    assert (found.after.cells, found.after.done, found.after.left) == (2, 1, 1)
    found = compare(side([row, other]), side([row]))
    assert found.counts == {"not significant": 1, "vanished": 1}


@pytest.mark.parametrize(("before", "after", "answer"), [
    ("done", "failed", "failed now"), ("failed", "done", "mended"), ("failed", "failed", "failed on both"),
])  # fmt: skip
def test_failures(before: str, after: str, answer: str) -> None:
    def row(status: str) -> FleetRow:
        return run_row() if status == "done" else run_row(status="failed", stage="engine", error="no memory")

    cell = one(row(before), row(after))
    assert cell.answer == answer
    assert cell.reason == "engine: no memory"


def test_what_changed_is_told_as_the_cause() -> None:
    before = run_row()
    after = changed(run_row(ns=2_000_000), sha256="f" * 64, trtprof="0.2.0", options={"level": "5"}, device="B")
    found = compare(side([before]), side([after]))
    assert found.cells[0].causes == ("model content", "trtprof", "options", "device")
    told = {cause.what: cause for cause in found.causes}
    assert (told["trtprof"].before, told["trtprof"].after, told["trtprof"].slower) == ("0.1.0", "0.2.0", 1)
    assert (told["options"].before, told["options"].after) == ("none", "level=5")
    assert (told["model content"].model, told["model content"].after) == ("m", "f" * 12)
    assert told["device"].after == "B"


# --- which cells are the same ---------------------------------------------------------------


def test_another_question_is_another_cell(subtests: pytest.Subtests) -> None:
    fields: dict[str, Any] = {"target": "b", "batch": 3, "sizes": {"seq": 3}, "precision": "int8", "shapes": "x:1"}
    for name, value in fields.items():
        with subtests.test(name=name):
            found = compare(side([run_row()]), side([run_row(**{name: value})]))
            assert found.counts == {"vanished": 1, "appeared": 1}


# --- laws -----------------------------------------------------------------------------------


def test_swapped_sides_swap_answers() -> None:
    for before, after in (week(), (fleets.rows(6, 2), fleets.rows(6, 2, seed=1))):
        there, back = compare(side(before), side(after)), compare(side(after), side(before))
        names = {cell.model: cell.was or cell.model for cell in there.cells}
        mirrored = by_cell(back)
        assert len(there.cells) == len(mirrored)
        for (model, *rest), cell in by_cell(there).items():
            other = mirrored[names[model], *rest]
            assert other.answer == MIRROR.get(cell.answer, cell.answer)
            if cell.ratio is not None:
                assert other.ratio == pytest.approx(1 / cell.ratio)
            if cell.low is not None:
                assert other.high == pytest.approx(1 / cell.low)
        assert {one.before: one.after for one in there.renames} == {one.after: one.before for one in back.renames}
        first, second = ({(each.by, each.name, each.kind): each for each in one.groups if each.by != "model"}
                         for one in (there, back))  # fmt: skip
        for name in first.keys() & second.keys():
            assert second[name].ratio == pytest.approx(1 / first[name].ratio)
            assert (first[name].more, first[name].less) == (second[name].less, second[name].more)


# --- noise ----------------------------------------------------------------------------------

CELLS = 10_000


def measured(generator: np.random.Generator, true: Any, sigma: Any) -> Iterator[FleetRow]:
    """Cells as two runs would measure them: with the noise that their intervals say (95 %)."""
    seen = true * np.exp(generator.normal(0, sigma))
    low, high = seen * np.exp(-2.2 * sigma), seen * np.exp(2.2 * sigma)
    base = run_row()
    for at, (ns, bottom, top) in enumerate(zip(seen.tolist(), low.tolist(), high.tolist(), strict=True)):
        yield changed(
            base, model=f"m{at}", key=fleets.digest(at), latency_ns=round(ns), latency_low_ns=round(bottom),
            latency_high_ns=round(top),
        )  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_ten_thousand_unchanged_cells_give_few_false_alarms(seed: int) -> None:
    generator = np.random.default_rng(seed)
    true = generator.lognormal(13, 1, CELLS)
    sigma = generator.uniform(0.005, 0.02, CELLS)
    before, after = side(measured(generator, true, sigma)), side(measured(generator, true, sigma))
    found = compare(before, after, ("latency>3%", "slower>0"))
    outside = sum(not (cell.low or 0) <= 1 <= (cell.high or 0) for cell in found.cells)
    # The intervals alone call hundreds of them another one.
    assert 150 < outside < 700
    assert found.counts.get("slower", 0) + found.counts.get("faster", 0) <= 3
    assert found.gates[0].answer == "inconclusive"
    assert found.doubts == ()
    (mean,) = (each for each in found.groups if each.by == "fleet")
    assert mean.low is not None
    assert mean.high is not None
    assert mean.low < 1 < mean.high
    assert mean.high - mean.low < 0.005


def test_intervals_that_are_too_narrow_are_doubted() -> None:
    generator = np.random.default_rng(5)
    true, sigma = np.full(500, 1e6), np.full(500, 0.01)
    rows = [
        changed(row, latency_low_ns=round((row.latency_ns or 0) * 0.995), latency_high_ns=round(
            (row.latency_ns or 0) * 1.005))
        for row in measured(generator, true, sigma)
    ]  # fmt: skip
    other = [
        changed(row, latency_low_ns=round((row.latency_ns or 0) * 0.995), latency_high_ns=round(
            (row.latency_ns or 0) * 1.005))
        for row in measured(generator, true, sigma)
    ]  # fmt: skip
    (doubt,) = compare(side(rows), side(other)).doubts
    assert "times as much as their intervals say" in doubt


# --- taken together -------------------------------------------------------------------------


def test_means_are_geometric_and_by_target_model_and_tag() -> None:
    before = [run_row("a"), run_row("b", tags=("x",))]
    found = compare(side(before), side([slower(before[0], 2.0), slower(before[1], 0.5)]))
    means = {(each.by, each.name): each for each in found.groups}
    assert means["fleet", ""].ratio == pytest.approx(1)
    assert (means["fleet", ""].more, means["fleet", ""].less, means["fleet", ""].cells) == (1, 1, 2)
    assert means["model", "a"].ratio == pytest.approx(2)
    assert means["tag", "x"].ratio == pytest.approx(0.5)
    assert means["target", "here"].cells == 2
    # Two models err independently, two sizes of one do not.
    half = math.hypot(math.log(1.02), math.log(1 / 0.98))
    assert math.log(means["fleet", ""].high or 0) == pytest.approx(half / math.sqrt(2), rel=1e-3)
    sizes = [run_row("a", batch=at, key=fleets.digest(at)) for at in (1, 2)]
    (mean, *_) = compare(side(sizes), side(sizes)).groups
    assert math.log(mean.high or 0) == pytest.approx(half, rel=1e-3)


def test_a_pattern_of_kernels_that_got_slower_in_many_models() -> None:
    before = [
        # What a row does not keep is no pattern, whatever becomes of it.
        changed(row, kernels=(*row.kernels, msgspec.structs.replace(row.kernels[0], pattern=REST)))
        for row in fleets.rows(20, 1, fails=0.0)
    ]
    after = [
        changed(row, kernels=tuple(
            changed_kernel(kernel, 1.4) if kernel.pattern in ("Softmax", REST) and row.verb == "run" else kernel
            for kernel in row.kernels))
        for row in before
    ]  # fmt: skip
    found = compare(side(before), side(after))
    assert {(one.pattern, one.dtype, one.kind) for one in found.kernels} == {("Softmax", "fp16", "fact")}
    for kernel in found.kernels:
        having = {row.model for row in before if row.target == kernel.target
                  and any(each.pattern == "Softmax" for each in row.kernels)}  # fmt: skip
        assert kernel.models == kernel.of == len(having)
        assert kernel.ratio == pytest.approx(1.4, rel=1e-3)
        assert kernel.after_ns > kernel.before_ns
        assert kernel.example in having
