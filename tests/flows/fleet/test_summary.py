"""The report of a fleet against numbers worked out by hand, and laws that hold for any."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.fakes import fleets
from tests.fakes.fleet_reports import MS, asked, cell, done, failed, kernel, loss, made_up, report_of
from trtprof.base import fleet_table
from trtprof.base.errors import MissingError, UsageError
from trtprof.base.records import Fleet, FleetBest, FleetRow
from trtprof.flows.fleet import summary
from trtprof.flows.fleet.cells import AskedModel
from trtprof.flows.fleet.store import Store

SECOND = 1_000 * MS


def best(rows: list[FleetRow], prices: dict[str, float] | None = None, **more: Any) -> FleetBest:
    (found,) = report_of(rows, prices, **more).best
    return found


def near(value: float) -> Any:
    """What a float is but for its last digits."""
    return pytest.approx(value)


# --- costs and shares -------------------------------------------------------------------------


def test_costs_are_of_requests_and_say_what_they_rest_on() -> None:
    # 3.6 an hour is 0.001 a second: a million requests of 1 ms are 1,000 s, and cost 1.
    rows = [
        done(cell(batch=1), latency_ns=MS, expected_ns=MS // 2, bound_ns=MS // 4, joules=0.5),
        done(cell(batch=8), expected_ns=4 * MS, bound_ns=MS, joules=2.0),
        done(cell(batch=16), bound_ns=8 * MS, joules=3.0),
        done(cell(batch=32)),
        done(cell(target="y", batch=1), expected_ns=MS),
    ]
    found = {(one.target, one.size): one for one in report_of(rows, {"x": 3.6}).answers}
    told = {size: (one.cost_per_million, one.cost_basis, one.requests) for (_, size), one in found.items()}
    assert told["batch=8"] == (near(0.5), "expected", 8)
    assert told["batch=16"] == (near(0.5), "bound", 16)
    assert told["batch=32"] == (None, "none", 32)
    measured = found["x", "batch=1"]
    assert (measured.cost_per_million, measured.cost_basis) == (near(1.0), "measured")
    assert measured.of_expected == 0.5
    assert (measured.joules, measured.joules_basis) == (0.5, "measured")
    assert found["x", "batch=8"].joules_basis == "expected"
    assert found["x", "batch=8"].of_expected is None, "nothing was measured"
    assert found["y", "batch=1"].cost_per_million is None, "nobody said a price"


def test_a_cell_without_a_batch_counts_as_one_request_which_is_said() -> None:
    found = report_of([done(cell(batch=None, shapes="x:8x3"), expected_ns=MS)], {"x": 3.6})
    assert (found.answers[0].size, found.answers[0].requests) == ("x:8x3", 1)
    assert any("counts as one request" in note for note in found.notes)


# --- the best target --------------------------------------------------------------------------


def test_the_cheapest_that_keeps_is_the_best() -> None:
    rows = [
        done(cell(target="x"), expected_ns=2 * MS),
        done(cell(target="y"), expected_ns=4 * MS),
        done(cell(target="z"), expected_ns=8 * MS),
    ]
    prices = {"x": 8.0, "y": 2.0, "z": 0.5}
    assert (best(rows, prices).target, best(rows, prices).by, best(rows, prices).basis) == ("z", "cost", "expected")
    assert best(rows, prices, limit_ns=5 * MS).target == "y"
    assert best(rows, limit_ns=5 * MS).target == "x"
    assert best(rows).by == "latency"
    told = [AskedModel(name="a", latency_limit_ns=3 * MS)]
    assert best(rows, prices, models=told).target == "x"
    assert best(rows, prices, models=told, limit_ns=5 * MS).target == "y", "the one that was asked for wins"


def test_none_keeps_is_said() -> None:
    found = report_of([done(cell(), latency_ns=11 * MS)], limit_ns=10 * MS)
    assert (found.best[0].target, found.best[0].why) == ("", "none keeps to 10.0 ms")
    assert found.none_keeps == 1


def test_an_interval_or_a_band_across_the_limit_is_no_promise() -> None:
    ran = best([done(cell(verb="run"), latency_ns=9_950_000)], limit_ns=10 * MS)
    assert ran.target == ""
    assert "x may keep, though not to the end of its interval" in ran.why
    assert best([done(cell(), expected_ns=9_500_000)], limit_ns=10 * MS).target == ""
    assert best([done(cell(), expected_ns=9_000_000)], limit_ns=10 * MS).target == "x"


def test_a_bound_alone_is_no_promise() -> None:
    rows = [done(cell(target="x"), bound_ns=MS), done(cell(target="y"), expected_ns=5 * MS, bound_ns=4 * MS)]
    found = best(rows, {"x": 0.1, "y": 9.0}, limit_ns=10 * MS)
    assert found.target == "y"
    assert "of x there is a bound alone, which promises nothing" in found.why
    alone = best(rows[:1], limit_ns=10 * MS)
    assert (alone.target, alone.cost_per_million) == ("", None)
    assert alone.why.startswith("no target has a time of every size")


def test_a_target_that_lacks_a_size_is_not_chosen() -> None:
    rows = [
        done(cell(target="x", batch=1), expected_ns=MS),
        failed(cell(target="x", batch=8)),
        done(cell(target="y", batch=1), expected_ns=3 * MS),
        done(cell(target="y", batch=8), expected_ns=4 * MS),
    ]
    assert (best(rows).target, best(rows).sizes, best(rows).latency_ns) == ("y", 2, 4 * MS)


def test_what_is_faster_than_its_bound_wins_nothing() -> None:
    rows = [
        done(cell(target="x"), latency_ns=MS, bound_ns=2 * MS),
        done(cell(target="y"), latency_ns=3 * MS, bound_ns=2 * MS),
    ]
    found = report_of(rows)
    assert found.best[0].target == "y"
    assert "measured faster than the bound" in found.best[0].why
    assert any("1 cell is measured faster than the bound: a counting error" in doubt for doubt in found.doubts)
    assert "counting error" in found.answers[0].doubts


def test_a_target_whose_memory_is_too_small_is_not_the_best() -> None:
    rows = [
        done(cell(target="x"), expected_ns=MS, doubts="weak figures; does not fit: at least 30 GB of 16 GB of memory"),
        done(cell(target="y"), expected_ns=3 * MS),
    ]
    found = best(rows)
    assert (found.target, found.why) == ("y", "it does not fit into the memory of x")
    # Nor does it serve anything, whoever says so.
    told = report_of(rows, models=[AskedModel(name="a", requests_per_s=9.0, served_by="x")])
    assert (told.hours_per_day, told.not_counted) == (None, ("a: it does not fit into the memory of x",))
    alone = report_of(rows[:1], models=[AskedModel(name="a", requests_per_s=9.0)])
    assert alone.best[0].target == ""
    assert alone.best[0].why.endswith("it does not fit into the memory of x")
    assert alone.requests_per_s is None


def test_a_bound_without_a_datasheet_is_said_to_be_no_promise() -> None:
    ran = cell(verb="run")
    assert any("no promise" in note for note in report_of([done(ran, latency_ns=MS, bound_ns=9)]).notes)
    with_one = done(ran, latency_ns=MS, bound_ns=9, joules=0.1)
    assert not any("no promise" in note for note in report_of([with_one]).notes)


def test_overlapping_bands_are_not_told_apart() -> None:
    rows = [done(cell(target=name), expected_ns=ns) for name, ns in (("x", 1000), ("y", 1150), ("z", 1300))]
    assert (best(rows).target, best(rows).alike) == ("x", ("y",))


def test_each_precision_is_a_model_of_its_own() -> None:
    rows = [done(cell(precision="fp32"), expected_ns=2 * MS), done(cell(precision="fp8"), expected_ns=MS)]
    assert [(one.precision, one.latency_ns) for one in report_of(rows).best] == [("fp32", 2 * MS), ("fp8", MS)]


def test_what_was_measured_is_told_beside_a_best_that_was_not() -> None:
    rows = [done(cell(target="x"), expected_ns=MS), done(cell(target="y", verb="run"), latency_ns=2 * MS)]
    assert (best(rows).target, best(rows).basis) == ("x", "expected")
    assert best(rows).why == "fastest of those measured: y, 2.00 ms"


# --- hours ------------------------------------------------------------------------------------

BOTH = [
    done(cell(batch=1, verb="run"), latency_ns=MS, ledger=(loss("ideal", MS // 2), loss("gaps", MS // 2, "fact"))),
    done(cell(batch=8, verb="run"), latency_ns=4 * MS, ledger=(loss("ideal", MS), loss("gaps", 2 * MS, "fact"))),
]


def test_requests_are_spread_over_sizes_and_a_batch_answers_many() -> None:
    # 500 requests/s in inferences of 1 ms, 500 in 62.5 inferences/s of 4 ms: 0.5 + 0.25 busy, 18 hours a day.
    found = report_of(BOTH, models=[AskedModel(name="a", requests_per_s=1000.0)])
    assert found.hours_per_day == near(18.0)
    assert found.measured_hours == near(18.0)
    (target,) = found.targets
    assert (target.busy, target.needed, target.basis, target.models) == (near(0.75), 1, "measured", 1)
    ledger = {row.cause: row for row in found.ledger}
    assert {cause: row.hours_per_day for cause, row in ledger.items()} == {
        "ideal": near((0.25 + 0.0625) * 24),
        "gaps": near((0.25 + 0.125) * 24),
        summary.UNTOLD: near(0.0625 * 24),
    }
    assert [(row.kind, row.needed) for row in found.ledger] == [
        ("estimate", True), ("fact", False), ("remainder", False),
    ]  # fmt: skip
    assert math.fsum(row.hours_per_day for row in found.ledger) == near(found.hours_per_day or 0)


def test_whole_targets_are_needed_of_all_models_together() -> None:
    rows = [done(cell(name), expected_ns=MS, bound_ns=MS // 2) for name in "abc"]
    found = report_of(rows, models=[AskedModel(name=name, requests_per_s=700.0) for name in "abc"])
    (target,) = found.targets
    assert (target.busy, target.needed, target.basis, target.models) == (near(2.1), 3, "expected", 3)
    assert found.requests_per_s == near(2100.0)


def test_requests_go_to_the_target_that_serves() -> None:
    rows = [done(cell(target="x"), expected_ns=MS), done(cell(target="y"), expected_ns=2 * MS)]
    told = AskedModel(name="a", requests_per_s=500.0)
    assert report_of(rows, models=[told]).best[0].served_by == "x"
    served = report_of(rows, models=[msgspec.structs.replace(told, served_by="y")])
    assert (served.best[0].target, served.best[0].served_by) == ("x", "y")
    assert served.hours_per_day == near(24.0)


def test_requests_that_nothing_serves_are_told() -> None:
    told = [AskedModel(name="a", requests_per_s=5.0, served_by="x"), AskedModel(name="b", requests_per_s=5.0)]
    rows = [failed(cell("a")), done(cell("a", "y"), expected_ns=MS), done(cell("b"), bound_ns=MS)]
    found = report_of(rows, models=told)
    assert found.hours_per_day is None
    assert found.not_counted[0] == "a: x has a time of 0 of 1 sizes"
    assert found.not_counted[1].startswith("b: no target has a time of every size")
    nobody = report_of(rows)
    assert (nobody.hours_per_day, nobody.not_counted) == (None, ())


# --- kernels ----------------------------------------------------------------------------------


def won(ns: int, verdict: Any = "write it", **values: Any) -> dict[str, Any]:
    return {"measured_ns": 2 * ns, "bound_ns": ns // 2, "verdict": verdict, "win_ns": ns, "win_low_ns": ns // 2,
            "win_high_ns": 2 * ns, **values}  # fmt: skip


def test_wins_are_summed_over_the_fleet_by_hours_a_day() -> None:
    rows = [
        done(cell("a", verb="run"), latency_ns=10 * MS, kernels=(
            kernel("Conv", **won(MS)), kernel("MatMul", **won(3 * MS, "try first")), kernel("Add", **won(MS, "do not")),
            kernel("Conv", layer="another", shapes="2x8", **won(2 * MS)),
        )),
        done(cell("b", verb="run"), latency_ns=10 * MS, kernels=(kernel("Conv", **won(4 * MS)),)),
        done(cell("c", verb="run"), latency_ns=10 * MS, kernels=(kernel("Gather", **won(9 * MS)),)),
    ]  # fmt: skip
    # a is asked 100 times a second and kept busy by one target; b ten times.
    told = [AskedModel(name="a", requests_per_s=100.0), AskedModel(name="b", requests_per_s=10.0)]
    found = report_of(rows, models=told)
    assert [(one.pattern, one.verdict) for one in found.wins] == [
        ("Conv", "write it"), ("MatMul", "try first"), ("Gather", "write it"),
    ]  # fmt: skip
    conv, matmul, gather = found.wins
    # 3 ms of 100 inferences a second and 4 ms of 10: 0.34 of the time.
    assert conv.hours_per_day == near(0.34 * 24)
    assert (conv.hours_low, conv.hours_high) == (near(0.17 * 24), near(0.68 * 24))
    assert conv.share == near(0.34 / 1.1)
    assert (conv.win_ns, conv.cells, conv.models, conv.targets) == (7 * MS, 2, 2, ("x",))
    assert conv.layer == "layer of Conv", "of the cell in which it wins most"
    assert conv.command == f"trtprof plugin fleet/runs/{rows[1].key} 'layer of Conv'"
    assert matmul.hours_per_day == near(0.3 * 24)
    assert gather.hours_per_day is None, "nobody asks for it"
    assert [one.pattern for one in report_of(rows).wins] == ["Gather", "Conv", "MatMul"]
    assert report_of(rows).wins[0].share == near(0.3)
    cut = report_of(rows, wins=1)
    assert (len(cut.wins), cut.wins_left_out) == (1, 2)


def test_nothing_measured_is_no_verdict() -> None:
    rows = [
        done(cell("a"), expected_ns=5 * MS, kernels=(
            kernel("Conv", bound_ns=MS, expected_ns=3 * MS), kernel("Gather", bound_ns=MS, expected_ns=MS),
        )),
        done(cell("b"), expected_ns=5 * MS, kernels=(kernel("MatMul", bound_ns=MS, expected_ns=2 * MS),)),
    ]  # fmt: skip
    found = report_of(rows)
    assert found.wins == ()
    assert "no verdict is possible" in found.no_wins
    assert [(one.pattern, one.above_ns) for one in found.above] == [("Conv", 2 * MS), ("MatMul", MS)]
    asked_for = report_of(rows, models=[AskedModel(name="b", requests_per_s=100.0)])
    assert asked_for.above[0].pattern == "MatMul"
    assert asked_for.above[0].above_hours == near(2.4)
    measured = done(cell("c", verb="run"), latency_ns=MS, kernels=(kernel("Conv", measured_ns=MS),))
    ran = report_of([*rows, measured])
    assert (ran.wins, ran.above) == ((), ())
    assert "no layer that was measured" in ran.no_wins


def test_kernels_of_several_models_have_their_efficiency_by_target() -> None:
    rows = [
        done(cell(name, target), kernels=(kernel("Conv", bound_ns=MS, **times), kernel(name)))
        for name in ("a", "b")
        for target, times in (("x", {"expected_ns": 2 * MS}), ("y", {"measured_ns": 4 * MS}))
    ]
    # What a row does not keep is no pattern.
    rest = kernel(fleet_table.REST, bound_ns=MS, expected_ns=9 * MS)
    rows = [msgspec.structs.replace(row, kernels=(*row.kernels, rest)) for row in rows]
    report = report_of(rows)
    (found,) = report.patterns
    assert (found.pattern, found.models, found.cells) == ("Conv", 2, 4)
    assert [(one.target, one.basis, one.of_bound, one.cells) for one in found.targets] == [
        ("x", "expected", 0.5, 2), ("y", "measured", 0.25, 2),
    ]  # fmt: skip


# --- failures, doubts, what is left out -------------------------------------------------------


def test_failures_are_told_by_their_error_whatever_the_model_is_called() -> None:
    rows = [failed(cell(name)) for name in ("a", "ab", "abc")] + [failed(cell("d"), "out of memory")]
    found = report_of(rows)
    assert [(one.cells, one.models, one.error) for one in found.failures] == [
        (3, 3, "models/a.onnx is not an ONNX model"), (1, 1, "out of memory"),
    ]  # fmt: skip
    assert [each.model for each in found.failures[0].examples] == ["a", "ab", "abc"]
    assert (found.done, found.failed) == (0, 4)


def test_doubts_come_first_and_count() -> None:
    rows = [
        done(cell("a"), bound_ns=1),
        done(cell("b", trtprof="2"), expected_ns=MS, expected_basis="product"),
        done(cell("c", verb="run"), latency_ns=MS, doubts="the clock fell"),
        failed(cell("d")),
    ]
    doubts = report_of(rows, cells=[*rows, cell("e")]).doubts
    for words in (
        "1 of 5 cells have no answer yet", "1 of 5 cells failed", "several versions of trtprof: 1, 2",
        "1 cell: the clock fell", "1 cell has a bound and nothing", "what was not measured like it",
    ):  # fmt: skip
        assert any(words in doubt for doubt in doubts), words


def test_doubts_that_differ_in_numbers_alone_are_one() -> None:
    rows = [
        done(cell(name), expected_ns=MS, doubts=f"a weak figure; {at}.5 % are priced") for at, name in enumerate("abc")
    ]
    assert report_of(rows).doubts == ("3 cells: such as: 0.5 % are priced", "3 cells: a weak figure")


def test_sizes_stand_in_their_order() -> None:
    rows = [done(cell(batch=None, sizes={"seq": at}), expected_ns=MS) for at in (1024, 16, 128)]
    assert [one.size for one in report_of(rows).answers] == ["seq=16", "seq=128", "seq=1024"]


def test_answers_are_cut_by_whole_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "ANSWERS", 7)
    found = made_up(4, 1, ran=False)
    assert (len(found.answers), found.answers_left_out) == (4, 12)
    assert {one.model for one in found.answers} == {"model_0000"}
    assert any("12 of 16 answers are left out" in note for note in found.notes)
    assert len(found.best) == 4, "sums are of all"


# --- laws -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_sums_close_and_the_order_of_rows_does_not_matter(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = fleets.rows(5, 3, seed)
    told = [AskedModel(name=f"model_{at:04}", requests_per_s=10.0 * at) for at in range(5)]
    found = report_of(rows, {"t4": 0.4, "l4": 1.0}, told)
    assert math.fsum(row.hours_per_day for row in found.ledger) == near(found.hours_per_day or 0)
    assert math.fsum(one.busy or 0 for one in found.targets) * 24 == near(found.hours_per_day or 0)
    assert math.fsum(one.hours_per_day or 0 for one in found.best) == near(found.hours_per_day or 0)
    assert found.done + found.failed == found.cells == sum(one.cells for one in found.targets)
    assert sum(one.cells for one in found.failures) == found.failed
    assert all(one.win_low_ns <= one.win_ns <= one.win_high_ns for one in found.wins)
    assert all(one.target for one in found.best if one.served_by)
    in_order = msgspec.json.encode(found)
    shuffled = random.Random(seed).sample(rows, len(rows))
    again = report_of(shuffled, {"t4": 0.4, "l4": 1.0}, told, cells=rows)
    assert msgspec.json.encode(again) == in_order
    monkeypatch.setattr(fleet_table, "SLICE", 7)
    assert msgspec.json.encode(report_of(rows, {"t4": 0.4, "l4": 1.0}, told)) == in_order


def test_a_row_that_comes_twice_counts_once() -> None:
    row = done(cell("a", verb="run"), latency_ns=10 * MS, started="2", ledger=(loss("ideal", 10 * MS),),
               kernels=(kernel("Conv", **won(MS)),))  # fmt: skip
    before = msgspec.structs.replace(row, started="1", kernels=(kernel("Conv", **won(9 * MS)),) * 3)
    questions = [cell("a", verb="run"), cell("b", verb="run")]
    stranger = done(cell("c", verb="run"), latency_ns=MS, kernels=(kernel("Conv", **won(MS)),))
    pieces = [fleet_table.table_of(rows) for rows in ([before, row], [row, stranger, row])]
    told = [AskedModel(name="a", requests_per_s=100.0)]
    found = summary.summarised(asked(questions, models=told), questions, fleet_table.table_of([row]), pieces)
    assert [(one.win_ns, one.cells) for one in found.wins] == [(MS, 1)]
    assert [row.hours_per_day for row in found.ledger] == [near(24.0)]


def test_a_fleet_without_any_answer_has_a_report() -> None:
    found = report_of([], cells=[cell()])
    assert (found.cells, found.done, found.answers) == (1, 0, ())
    assert "1 of 1 cells have no answer yet" in found.doubts[0]
    assert found.best[0].why.startswith("no target has a time")


# --- the folder -------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = fleets.rows(3, 2, fails=0)
    store = Store(str(tmp_path / "fleet"))
    cells = list(fleets.cells(3, 2))
    store.keep(asked(cells, {"t4": 0.4}), cells)
    store.put(rows)
    return tmp_path / "fleet"


def test_a_folder_is_reported_and_narrowed(folder: Path) -> None:
    found = summary.report(str(folder))
    assert (found.models, found.cells, found.done, found.folder) == (3, 36, 36, str(folder))
    fewer = summary.report(str(folder), summary.Narrowed(models=("*_0001",), targets=("l4", "t4")))
    assert {(one.model, one.target) for one in fewer.answers} == {("model_0001", "l4"), ("model_0001", "t4")}
    assert (fewer.cells, [one.target for one in fewer.targets]) == (4, ["l4", "t4"])
    assert fewer.chosen == ("model *_0001", "target l4 or t4")
    assert summary.report(str(folder), summary.Narrowed(tags=("vision",))).models == 1


def test_a_run_with_a_page_is_linked(folder: Path) -> None:
    ran = next(row for row in fleets.rows(3, 2, fails=0) if row.run)
    (folder / ran.run).mkdir(parents=True)
    (folder / ran.run / "report.html").write_text("a page")
    pages = {one.key: one.page for one in summary.report(str(folder)).answers if one.page}
    assert pages == {ran.key: f"{ran.run}/report.html"}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"targets": ("h200",)}, "the fleet has no target h200"),
        ({"models": ("resnet*",)}, "no model of the fleet is called resnet"),
        ({"tags": ("audio",)}, "no cell of the fleet is all that is asked for"),
    ],
)
def test_what_there_is_not_is_refused(folder: Path, given: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        summary.report(str(folder), summary.Narrowed(**given))


def test_no_fleet_is_told(tmp_path: Path) -> None:
    with pytest.raises(MissingError):
        summary.report(str(tmp_path))


def test_a_report_is_a_document(folder: Path) -> None:
    found = summary.report(str(folder))
    assert msgspec.json.decode(msgspec.json.encode(found), type=Fleet) == found
