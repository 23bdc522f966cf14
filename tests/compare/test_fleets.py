"""Two fleets: which cells are the same, what became of each, how sure that is, and why."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pytest

from tests.fakes import fleets
from tests.fakes.fleet_comparison_factory import PRICES, cell_of, changed, changed_kernel, side, slower, week
from trtprof.base import fleet_table
from trtprof.base.fleet_table import REST
from trtprof.base.records import FleetCellChange, FleetComparison, FleetRow
from trtprof.compare.fleets import KERNELS, RATE, FleetOf, compare

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


@pytest.mark.parametrize(
    ("ns", "answer"),
    [(1_000_000, "not significant"), (1_025_000, "not significant"), (1_050_000, "slower"), (950_000, "faster")],
)
def test_what_intervals_hold_is_not_significant(ns: int, answer: str) -> None:
    assert one(run_row(), run_row(ns=ns)).answer == answer


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


def test_an_estimate_that_changes_for_nothing_is_told() -> None:
    row = fleets.rows(1, 1, fails=0.0)[0]
    found = compare(side([row]), side([changed(row, expected_ns=1)]))
    assert found.cells[0].causes == ("nothing recorded",)
    assert found.causes[0].what == "nothing recorded"
    assert "a trtprof that has the same version" in found.notes[0]


def test_a_row_without_an_interval_decides_nothing() -> None:
    for lacking in ({"latency_low_ns": None}, {"latency_ns": None}, {"latency_low_ns": 2_000_000}):
        assert one(run_row(), run_row(ns=2_000_000, **lacking)).answer == (
            "not decided" if lacking != {"latency_low_ns": 2_000_000} else "slower"
        )


def test_what_is_not_done_yet_did_not_vanish() -> None:
    row, other = run_row("a"), run_row("b")
    found = compare(side([row, other]), side([row], asked=[cell_of(row), cell_of(other)]))
    assert found.counts == {"not significant": 1, "not answered": 1}
    assert by_cell(found)["b", "here", "batch=1"].reason == "not done yet after"
    assert (found.after.cells, found.after.done, found.after.left) == (2, 1, 1)
    found = compare(side([row, other]), side([row]))
    assert found.counts == {"not significant": 1, "vanished": 1}


def test_rows_that_nobody_asks_for_now_are_not_looked_at() -> None:
    old, new = run_row("m", key=fleets.digest("old")), run_row("m")
    found = compare(side([old, new], asked=[cell_of(new)]), side([new]))
    assert found.counts == {"not significant": 1}


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


def test_a_model_with_another_name_is_the_same() -> None:
    found = compare(side([run_row("old")]), side([run_row("new", ns=2_000_000)]))
    (cell,) = found.cells
    assert (cell.model, cell.was, cell.answer) == ("new", "old", "slower")
    assert (found.renames[0].before, found.renames[0].after, found.renames[0].cells) == ("old", "new", 1)


def test_a_name_is_not_led_to_one_of_several() -> None:
    found = compare(side([run_row("old")]), side([run_row("new"), run_row("newer")]))
    assert found.counts == {"vanished": 1, "appeared": 2}
    assert found.renames == ()
    # Nor a name that is still there.
    found = compare(side([run_row("old")]), side([run_row("old"), run_row("new")]))
    assert found.counts == {"not significant": 1, "appeared": 1}


def test_another_question_is_another_cell(subtests: pytest.Subtests) -> None:
    fields: dict[str, Any] = {"target": "b", "batch": 3, "sizes": {"seq": 3}, "precision": "int8", "shapes": "x:1"}
    for name, value in fields.items():
        with subtests.test(name=name):
            found = compare(side([run_row()]), side([run_row(**{name: value})]))
            assert found.counts == {"vanished": 1, "appeared": 1}


def test_cells_that_differ_by_options_alone_are_told_apart_by_their_order() -> None:
    rows = [run_row(ns=ns, options={"level": str(ns)}, key=fleets.digest(ns)) for ns in (10**6, 10**7)]
    assert compare(side(rows), side(rows)).counts == {"not significant": 2}


# --- laws -----------------------------------------------------------------------------------


def test_a_fleet_against_itself_has_no_change() -> None:
    for seed in range(5):
        rows = fleets.rows(6, 2, seed=seed)
        found = compare(side(rows), side(rows), ("latency>5%", "geomean>1%", "failed>0", "bound>0%", "cost>3%"))
        assert set(found.counts) <= {"not significant", "estimate equal", "failed on both"}
        assert {gate.answer for gate in found.gates} == {"passed"}
        assert all(group.ratio == 1 and not group.more + group.less for group in found.groups)
        assert (found.kernels, found.causes, found.renames) == ((), (), ())


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


def test_the_order_of_rows_and_cells_says_nothing() -> None:
    before, after = week()
    forwards = compare(side(before), side(after))
    backwards = compare(side(before[::-1]), side(after[::-1]))
    assert msgspec.json.encode(forwards) == msgspec.json.encode(backwards)


def test_every_kind_of_answer_is_found() -> None:
    before, after = week()
    found = compare(side(before), side(after))
    told = by_cell(found)
    assert set(found.counts) == {
        "slower", "faster", "not significant", "estimate rose", "estimate equal", "failed now", "vanished", "appeared",
    }  # fmt: skip
    assert sum(found.counts.values()) == len(found.cells) == len(told)
    assert {cell.causes for cell in found.cells if cell.answer == "estimate rose"} == {("datasheet",)}
    assert [cell.model for cell in found.cells if cell.answer == "appeared"] == ["newcomer"]
    assert "slower" in found.verdict


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


def test_planted_slowdowns_are_found_and_few_others() -> None:
    generator = np.random.default_rng(11)
    true = generator.lognormal(13, 1, CELLS)
    sigma = generator.uniform(0.005, 0.02, CELLS)
    planted = generator.random(CELLS) < 0.05
    before, after = side(measured(generator, true, sigma)), side(
        measured(generator, true * np.where(planted, 1.1, 1.0), sigma)
    )  # fmt: skip
    found = compare(before, after, ("latency>3%",))
    called = {int(cell.model[1:]) for cell in found.cells if cell.answer == "slower"}
    wanted = set(np.flatnonzero(planted).tolist())
    assert len(called & wanted) > 0.8 * len(wanted)
    assert len(called - wanted) + found.counts.get("faster", 0) <= RATE * len(called)
    assert found.gates[0].answer == "failed"
    assert found.gates[0].over > 0.3 * len(wanted)


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


def test_kernels_are_read_in_pieces_whatever_these_are(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fleets.rows(8, 2, fails=0.0)
    after = [changed(slower(row, 1.5), expected_ns=2 * (row.expected_ns or 0), key=fleets.digest(row.key),
                     kernels=tuple(msgspec.structs.replace(each, expected_ns=2 * (each.expected_ns or 0))
                                   for each in slower(row, 1.5).kernels)) for row in before]  # fmt: skip
    sides = side(before), side(after)
    whole = compare(*sides)
    assert {one.kind for one in whole.kernels} == {"fact", "estimate"}
    monkeypatch.setattr(fleet_table, "SLICE", 5)

    def in_pieces(of: FleetOf, rows: list[FleetRow]) -> FleetOf:
        stale = [changed(row, started="2020-01-01T00:00:00Z", kernels=()) for row in rows]
        mixed = stale + random.Random(1).sample([*rows, *rows[:20]], len(rows) + 20)
        halves = (fleet_table.table_of(each).select(KERNELS) for each in (mixed[:30], mixed[30:]))
        return of._replace(kernels=halves)

    assert compare(in_pieces(sides[0], before), in_pieces(sides[1], after)) == whole


def test_prices_and_tags_say_nothing_of_answers() -> None:
    row = run_row()
    assert compare(side([row], prices={}), side([changed(row, tags=("other",))], prices=PRICES)).counts == {
        "not significant": 1
    }
