"""What good library kernels take, in the documents of a run: always with its band, nowhere where there is none."""

from __future__ import annotations

import msgspec
import pytest

from tests.fakes.comparison_factory import CASES, region
from tests.fakes.report_factory import on_gpu, typical
from trtprof.base.records import Expectation
from trtprof.report import render
from trtprof.report._format import good_kernels, good_text
from trtprof.report.content._comparison import expected
from trtprof.report.formats._page import page_data

HEADS = ("expected (80 %)", "of the roofline", "of expected")


def test_the_first_screen_says_what_good_kernels_take_and_of_how_much_of_the_time() -> None:
    run = on_gpu()
    text = " ".join(render(run, "text").split())
    convolutions = [layer for layer in run.layers if layer.expected_ns is not None]
    share = sum(layer.measured_ns for layer in convolutions) / sum(layer.measured_ns for layer in run.layers)
    band = "expected ~7.99 ms (6.58 .. 9.64, 80 %)"
    took = f"for {100 * share:.0f} % of the time, measured 7.01 ms; 11 layers faster than nine of ten library kernels"
    assert f"{band} {took}" in text
    assert "expected" not in render(typical(), "text")
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


@pytest.mark.parametrize("by", ["layer", "node", "type"])
def test_markdown_has_a_band_where_all_layers_of_a_row_have_one(by: str) -> None:
    with_, without = (render(run, "markdown", by=by) for run in (on_gpu(), typical()))
    for head in HEADS:
        assert head in with_
        assert head not in without
    rows = [line for line in with_.splitlines() if "Gemm" in line and line.count("|") == 11]
    assert rows
    assert all(row.endswith("| - |") for row in rows)


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
