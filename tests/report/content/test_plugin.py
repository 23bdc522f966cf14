"""What is said of a hand-written kernel and of its proof."""

from __future__ import annotations

import csv
import io

import msgspec
import pytest

from tests.fakes.plugin_factory import bench, benches, refused, typical
from tests.fakes.rendering import render_text
from trtprof.base.records import Plugin, PluginBench
from trtprof.report import render
from trtprof.report.tables import tables_of


@pytest.mark.parametrize("width", [40, 60, 80])
def test_the_verdict_and_its_doubts_come_before_all_else(width: int) -> None:
    found = typical()
    text = " ".join(render_text(found, width).split())
    words = (
        "verdict write it:", "the latency varies by 12 %", "computes y", "work 123", "bound >=", "measured 1.90",
        "in reach", "net gain", "half precision", "the launch of the plugin", "tactic for registers", "numerics",
        "2 places", "README.md", "next trtprof plugin bench plugins/BatchedGemv_64",
    )  # fmt: skip
    places = [text.index(word) for word in words]
    assert places == sorted(places)


def test_what_no_gpu_ran_is_said_to_be_a_prediction() -> None:
    text = " ".join(render_text(typical()).split())
    assert "these checks run on no GPU, and times are predictions" in text
    assert "~87.0 %" in text
    assert "dropped: tactic 2 for sm_75: 48 bytes a thread spill to memory" in text


def test_a_screen_has_the_first_variant_and_paper_has_all() -> None:
    rows = [line.split()[:2] for line in render_text(typical()).splitlines()]
    assert ["1", "sm_120"] in rows
    assert ["2", "sm_120"] not in rows
    for form in ("markdown", "html"):
        page = render(typical(), form)
        assert page.count("sm_120") == 2
        assert "dropped: 48 bytes a thread spill to memory" in page
    alone = msgspec.structs.replace(typical(), variants=typical().variants[1:])
    assert ["2", "sm_120"] in [line.split()[:2] for line in render_text(alone).splitlines()]
    assert "other tactic" not in render_text(alone)


def test_a_layer_that_no_template_knows_has_a_brief_and_the_reasons() -> None:
    text = " ".join(render_text(refused()).split())
    assert "no kernel is written; templates that do not know this:" in text
    assert "gemv: TopK is no product" in text
    assert "v, i = TopK(x, k; axis=-1)" in text
    assert "trtprof plugin bench" not in text
    assert "the engine's own kernel takes more than ~318 us" in text


def test_every_check_has_its_verdict_its_count_and_its_worst() -> None:
    text = " ".join(render_text(typical(), 160).split())
    check = typical().check
    assert check is not None
    for step in check.steps:
        assert f"{step.name} {step.verdict}" in text
    for words in ("212", "14.2 s", "worst error that passed: 1.37 of the rounding floor", "it writes outside of y",
                  "nvcc is not installed", "250,828,800"):  # fmt: skip
        assert words in text


def test_a_bench_says_both_sides_alone_and_in_the_engine() -> None:
    text = " ".join(render_text(bench()).split())
    for words in ("faster: the engine with it is 5.21 times as fast", "the clock moved by 15 MHz", "cuBLAS",
                  "6.03x 5.98 to 6.08", "with the plugin", "87.4 % of what this GPU was measured", "0.976",
                  "2,505 to 2,520 MHz", "wrong 12 tactic 2 alone", "a warp a row", ">= 273 us",
                  "TensorRT 11.4.0"):  # fmt: skip
        assert words in text
    assert text.index("doubts") < text.index("cuBLAS")


def test_tables_have_a_row_a_kernel_and_a_row_a_side() -> None:
    rows = list(csv.DictReader(io.StringIO(render(typical(), "csv"))))
    assert [(row["tactic"], row["architecture"]) for row in rows] == [
        (tactic, one) for tactic in "12" for one in ("sm_75", "sm_89", "sm_120")
    ]
    assert (rows[3]["dropped"], rows[3]["bandwidth"]) == ("48 bytes a thread spill to memory", "")
    for table in tables_of(Plugin):
        assert list(csv.DictReader(io.StringIO(render(typical(), "csv", table=table)))), table
    for table in tables_of(PluginBench):
        assert list(csv.DictReader(io.StringIO(render(benches(), "csv", table=table)))), table
    sides = list(csv.DictReader(io.StringIO(render(bench(), "csv"))))
    assert [(row["of"], row["what"]) for row in sides] == [
        ("kernel", "cuBLAS"), ("kernel", "4 threads a row"), ("engine", "without"), ("engine", "with the plugin")
    ]  # fmt: skip
