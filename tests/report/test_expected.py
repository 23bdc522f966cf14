"""What good library kernels take, in the documents of a run: always with its band, nowhere where there is none."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import msgspec
import pytest

from tests.fakes.compare_factory import L, chain, save
from tests.fakes.compare_factory import make_run as compare_run
from tests.fakes.comparison_factory import CASES, region
from tests.fakes.report_factory import make_run, on_gpu, typical
from trtprof.base.records import Expectation, Run
from trtprof.compare import compare
from trtprof.report import render
from trtprof.report._format import good_kernels, good_text
from trtprof.report.content._comparison import expected
from trtprof.report.formats._page import page_data
from trtprof.report.terms import term_of

HEADS = ("good kernels (80 %)", "of the roofline", "of expected")


def known(run: Run) -> int:
    return sum(layer.expected_ns is not None for layer in run.layers)


def test_the_first_screen_says_what_good_kernels_take_and_of_how_much_of_the_time() -> None:
    run = on_gpu()
    text = " ".join(render(run, "text").split())
    convolutions = [layer for layer in run.layers if layer.expected_ns is not None]
    share = sum(layer.measured_ns for layer in convolutions) / sum(layer.measured_ns for layer in run.layers)
    band = "good kernels: ~7.99 ms (6.58 .. 9.64, 80 %)"
    took = f"for {100 * share:.0f} % of the time, which took 7.01 ms; 11 layers faster than nine of ten library kernels"
    assert f"{band} {took}" in text
    assert "good kernels" not in render(typical(), "text")
    assert good_text(typical()) == ""


def test_bands_add_up_as_if_all_erred_the_same_way() -> None:
    run = on_gpu()
    good = good_kernels(run)
    assert good is not None
    convolutions = [layer for layer in run.layers if layer.expected_ns is not None]
    assert good.p10_ns == sum(layer.expected_p10_ns or 0 for layer in convolutions)
    assert good.p90_ns == sum(layer.expected_p90_ns or 0 for layer in convolutions)
    assert good.p10_ns <= good.expected_ns <= good.p90_ns


def test_what_is_faster_than_its_ideal_is_not_praised() -> None:
    run = on_gpu()
    wrong = tuple(msgspec.structs.replace(one, ideal_ns=one.measured_ns + 1) for one in run.layers)
    good = good_kernels(msgspec.structs.replace(run, layers=wrong))
    assert good is not None
    assert good.praised == 0


def test_what_is_extrapolated_is_shown_and_in_no_sum() -> None:
    run = on_gpu()
    far = tuple(msgspec.structs.replace(one, expected_basis="extrapolated") for one in run.layers)
    found = msgspec.structs.replace(run, layers=far)
    assert good_kernels(found) is None
    assert HEADS[0] in render(found, "markdown")


def test_a_layer_that_only_reorders_counts_for_nothing_here() -> None:
    run = on_gpu()
    moved = tuple(msgspec.structs.replace(one, role="layout") for one in run.layers)
    assert good_kernels(msgspec.structs.replace(run, layers=moved)) is None


@pytest.mark.parametrize("by", ["layer", "node", "type"])
def test_markdown_has_a_band_where_all_layers_of_a_row_have_one(by: str) -> None:
    with_, without = (render(run, "markdown", by=by) for run in (on_gpu(), typical()))
    for head in HEADS:
        assert head in with_
        assert head not in without
    rows = [line for line in with_.splitlines() if "Gemm" in line and line.count("|") == 11]
    assert rows
    assert all(row.endswith("| - |") for row in rows)


def test_csv_has_the_expectation_of_every_layer_and_why_there_is_none() -> None:
    run = on_gpu()
    rows = list(csv.DictReader(io.StringIO(render(run, "csv"))))
    for row, layer in zip(rows, run.layers, strict=True):
        band = (layer.expected_ns, layer.expected_p10_ns, layer.expected_p90_ns)
        columns = ("expected_ns", "expected_p10_ns", "expected_p90_ns")
        assert tuple(row[name] for name in columns) == tuple("" if ns is None else str(ns) for ns in band)
        assert row["expected_reason"] == layer.expected_reason
    assert 0 < known(run) < len(rows)


def test_the_page_has_the_band_of_each_layer_and_says_what_it_means() -> None:
    run = on_gpu()
    columns = page_data(run)["layers"]
    assert columns["expected_p90_ns"] == [layer.expected_p90_ns for layer in run.layers]
    page = render(run, "html")
    assert 'id="good"' in page
    assert "~7.99 ms (6.58 .. 9.64, 80 %)" in page
    assert 'id="term-expected"' in page
    assert 'id="term-of-expected"' in page
    assert page_data(typical())["layers"]["expected_ns"] == {"all": None}
    assert 'id="good"' not in render(typical(), "html")


@pytest.mark.parametrize(
    "word", ["expected", "good kernels", "p10", "of expected", "slower than good kernels",
             "what good kernels do not reach either"]
)  # fmt: skip
def test_each_word_has_a_definition(word: str) -> None:
    assert "library kernels" in term_of(word).text


def test_a_run_of_an_older_schema_says_nothing_of_them() -> None:
    (layer,) = make_run((typical().layers[0],)).layers
    older = {name: value for name, value in msgspec.to_builtins(layer).items() if not name.startswith("expected")}
    found = msgspec.convert(older, type(layer))
    assert (found.expected_ns, found.expected_reason) == (None, "")


# --- comparisons ----------------------------------------------------------------------------------


def test_a_comparison_says_what_good_kernels_take_where_both_sides_know_it() -> None:
    one = region("conv", 900_000, 800_000, "kernel changed")
    slow = Expectation(expected_ns=700_000, expected_p10_ns=500_000, expected_p90_ns=850_000, expected_basis="measured")
    fast = Expectation(expected_ns=350_000, expected_p10_ns=250_000, expected_p90_ns=425_000, expected_basis="measured")
    both = msgspec.structs.replace(one, expected_before=slow, expected_after=fast)
    assert expected(both) == "~700 us (500 .. 850, 80 %) -> ~350 us (250 .. 425, 80 %)"
    assert expected(msgspec.structs.replace(both, expected_after=slow)) == "~700 us (500 .. 850, 80 %)"
    assert expected(msgspec.structs.replace(both, expected_before=None)) == ""
    assert expected(one) == ""


@pytest.mark.parametrize("format_", ["text", "markdown", "html"])
def test_a_document_of_a_comparison_has_it(format_: str) -> None:
    found = CASES["typical"]()
    band = Expectation(expected_ns=700_000, expected_p10_ns=500_000, expected_p90_ns=850_000, expected_basis="measured")
    (first, *others) = found.comparisons
    parts = tuple(msgspec.structs.replace(part, expected_before=band, expected_after=band) for part in first.regions)
    told = msgspec.structs.replace(found, comparisons=(msgspec.structs.replace(first, regions=parts), *others))
    assert "~700 us (500 .. 850, 80 %)" in render(told, format_)
    assert "ood kernels" not in render(found, format_)


def test_two_runs_are_compared_part_by_part_with_what_good_kernels_take(tmp_path: Path) -> None:
    names = chain("Conv", "Conv")
    run = compare_run(names, [L(name, (name,), 1000) for name, _ in names])
    band = Expectation(expected_ns=700, expected_p10_ns=500, expected_p90_ns=900, expected_basis="measured")
    known = [msgspec.structs.replace(one, **msgspec.structs.asdict(band)) for one in run.layers]
    folders = [
        [save(tmp_path / name, msgspec.structs.replace(run, layers=layers))]
        for name, layers in (("a", tuple(known)), ("b", (known[0], run.layers[1])))
    ]
    (found,) = compare(folders).comparisons
    assert [part.expected_before for part in found.regions] == [band] * 2
    assert sorted(part.expected_after is None for part in found.regions) == [False, True]
