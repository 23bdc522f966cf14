"""The report of a fleet against numbers worked out by hand, and laws that hold for any."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.fakes import fleets
from tests.fakes.fleet_reports import MS, asked, cell, done, failed, kernel, loss, report_of
from trtprof.base import fleet_table
from trtprof.base.errors import UsageError
from trtprof.base.records import FleetBest, FleetRow
from trtprof.flows.fleet import summary
from trtprof.flows.fleet.cells import AskedModel
from trtprof.flows.fleet.store import Store


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


def test_an_interval_or_a_band_across_the_limit_is_no_promise() -> None:
    ran = best([done(cell(verb="run"), latency_ns=9_950_000)], limit_ns=10 * MS)
    assert ran.target == ""
    assert "x may keep, though not to the end of its interval" in ran.why
    assert best([done(cell(), expected_ns=9_500_000)], limit_ns=10 * MS).target == ""
    assert best([done(cell(), expected_ns=9_000_000)], limit_ns=10 * MS).target == "x"


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
