"""What `trtprof fleet report` prints, and what programs get of it."""

from __future__ import annotations

import csv
import io

import pytest

from tests.fakes.fleet_reports import MS, cell, done, failed, kernel, loss, made_up, report_of
from tests.fakes.rendering import render_text
from trtprof.base.records import Fleet
from trtprof.flows.fleet.cells import AskedModel
from trtprof.report import ReportOptions, get, render
from trtprof.report.tables import tables_of


@pytest.fixture(scope="module")
def found() -> Fleet:
    return made_up()


@pytest.fixture(scope="module")
def small() -> Fleet:
    """A model on a target that was measured, two that are predicted, one that failed."""
    rows = [
        done(cell("resnet", "pool", 8, "run"), latency_ns=4 * MS, expected_ns=2 * MS, bound_ns=MS, joules=1.2,
             ledger=(loss("ideal", MS), loss("kernel inefficiency", 2 * MS), loss("gaps", MS, "fact")),
             kernels=(kernel("MatMul + Add", verdict="write it", measured_ns=3 * MS, bound_ns=MS, win_ns=MS,
                             win_low_ns=MS // 2, win_high_ns=2 * MS),)),
        done(cell("resnet", "l4", 8), expected_ns=3 * MS, bound_ns=MS, expected_basis="product"),
        done(cell("resnet", "t4", 8), bound_ns=5 * MS),
        failed(cell("resnet", "here", 8)),
    ]  # fmt: skip
    told = [AskedModel(name="resnet", requests_per_s=1000.0, served_by="pool", latency_limit_ns=10 * MS)]
    return report_of(rows, {"pool": 3.6, "l4": 0.72, "t4": 0.36}, told)


def test_facts_estimates_and_bounds_look_different(small: Fleet) -> None:
    text = render_text(small, width=120)
    (row,) = [line for line in text.splitlines() if line.startswith("resnet") and "batch=8" in line]
    assert row.split() == ["resnet", "batch=8", "4.00", "ms", "50%", "~3.00", "ms*", ">=", "5.00", "ms", "failed"]
    assert "* with the wider band" in text


def test_doubts_stand_first_and_the_best_says_what_it_rests_on(small: Fleet) -> None:
    text = render_text(small, width=120)
    assert text.index("! 1 of 4 cells failed") < text.index("the cheapest target of each model")
    assert "resnet 10.0 ms l4 ~3.00 ms ~0.075 EUR 0.5 of pool" in " ".join(text.split())
    assert "of t4 there is a bound alone, which promises nothing" in " ".join(text.split())
    assert "cheapest of those measured: pool, 4.00 ms" in " ".join(text.split())


def test_hours_and_kernels_by_hand(small: Fleet) -> None:
    # 125 inferences of 4 ms a second: half of a target, 12 hours a day.
    said = " ".join(render_text(small, width=120).split())
    for words in ("at 1,000 requests/s", "ideal ~3 h 25.0 % run, needed", "gaps 3 h 25.0 % run, lost", "all 12 h",
                  "~3 h 1.5 h .. 6 h 25.0 % write it MatMul + Add fp16", "'layer of MatMul + Add'",
                  "pool run 3.6 EUR 1 0 0 1 0.5 >= 1"):  # fmt: skip
        assert words in said, words


def test_predictions_alone_give_no_verdict() -> None:
    said = " ".join(render_text(made_up(ran=False)).split())
    assert "nothing was measured: no verdict is possible" in said
    assert "where what is expected stands furthest above its bound: an estimate, no verdict" in said
    assert "write it" not in said


def test_layers_above_their_bound_are_doubted() -> None:
    rows = [done(cell(name, verb="run"), kernels=(kernel(bound_ns=2 * MS, measured_ns=MS),)) for name in "ab"]
    text = render_text(report_of(rows))
    assert "200 %!" in text
    assert "! faster than the bound: a number to check" in text
    assert "faster than the bound" not in render_text(made_up())


def test_long_lists_are_cut_and_say_so() -> None:
    text = render_text(made_up(70, 1, ran=False), width=120)
    assert "(24 of 70 rows)" in text
    assert "46 more rows are in -o fleet.html" in text
    assert "49 more models: --top, --model" in text
    assert "(30 of 70 rows)" in render_text(made_up(70, 1, ran=False), width=120, top=30)


@pytest.mark.parametrize("form", ["markdown", "html"])
def test_other_documents_say_the_same(small: Fleet, form: str) -> None:
    page = render(small, form)
    for words in ("1 of 4 cells failed", "kernel inefficiency", "MatMul + Add", "write it", "promises nothing"):
        assert words in page


def test_tables_have_the_answers_first(small: Fleet) -> None:
    rows = list(csv.DictReader(io.StringIO(render(small, "csv"))))
    assert [(row["target"], row["status"], row["latency_ns"], row["cost_basis"]) for row in rows] == [
        ("pool", "done", "4000000", "measured"), ("l4", "done", "", "expected"), ("t4", "done", "", "bound"),
        ("here", "failed", "", "none"),
    ]  # fmt: skip
    assert list(tables_of(Fleet)) == ["answers", "best", "wins", "ledger", "failures"]
    for table in tables_of(Fleet):
        assert list(csv.DictReader(io.StringIO(render(small, "csv", table=table)))), table
        assert get("parquet").encode(small, ReportOptions(table=table))


def test_what_is_said_of_several_models_is_said_once() -> None:
    found = made_up(20, 1, ran=False)
    text = " ".join(render_text(found, width=120).split())
    for why in {one.why for one in found.best if one.why}:
        assert text.count(why) == 1, why
    for why in {words.rpartition(": ")[2] for words in found.not_counted}:
        assert text.count(f": {why}") <= 2  # beside what has no target, and what is in no hours
    assert text.index("hours of targets a day") < text.index("an inference (")


def test_a_build_has_no_time_and_that_is_no_doubt() -> None:
    found = report_of([done(cell("a", verb="build"), bound_ns=None, expected_ns=None, latency_ns=None)])
    text = render_text(found)
    assert "built" in text
    assert "no price" not in text
