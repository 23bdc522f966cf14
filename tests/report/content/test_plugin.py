"""What a report says of a custom kernel and its checks."""

from __future__ import annotations

import csv
import io

import msgspec
import pytest

from tests.fakes.plugin_factory import NODE, bench, benches, brief, refused, typical
from tests.fakes.rendering import render_text
from trtprof.base.records import Plugin, PluginBench
from trtprof.report import render
from trtprof.report.tables import tables_of


@pytest.mark.parametrize("width", [40, 80])
def test_the_verdict_and_its_doubts_come_first_and_bench_last(width: int) -> None:
    text = " ".join(render_text(typical(), width).split())
    words = (
        "verdict write it:", "doubts the latency", "computes y", "work 123", "bound >=", "measured 1.90", "in reach",
        "fusion cost", "saving", "half precision", "by the form gemv", "registers", "numerics failed", "2 places",
        "no GPU has run a kernel", "next trtprof plugin bench plugins/BatchedGemv_64", "README.md",
    )  # fmt: skip
    places = [text.index(word) for word in words]
    assert places == sorted(places)


def test_a_screen_shows_one_architecture_per_tactic_and_paper_all() -> None:
    rows = [line.split()[:3] for line in render_text(typical()).splitlines()]
    assert ["1", "sm_75", "50"] in rows
    assert ["2", "sm_75", "58"] in rows
    assert not any("sm_120" in row for row in rows)
    for form in ("markdown", "html"):
        assert render(typical(), form).count("sm_120") == 2


def test_a_group_is_told_where_the_kernel_computes_a_part_of_it() -> None:
    group = msgspec.structs.replace(typical().brief or brief(), group=(NODE, "/Gelu"), group_bound_ns=300_000)
    text = " ".join(render_text(msgspec.structs.replace(typical(), brief=group)).split())
    assert "fused with /Gelu" in text
    assert ">= 300 us for the whole group" in text
    assert "measured 1.90 ms for the whole group" in text


def test_a_layer_without_a_form_has_its_brief_and_the_reasons() -> None:
    text = " ".join(render_text(refused()).split())
    for words in (
        "no kernel is written:",
        "gemv: TopK is no product",
        "v, i = TopK(x, k; axis=-1)",
        "takes more than ~318 us",
    ):
        assert words in text
    assert "trtprof plugin bench" not in text


def test_every_check_has_its_verdict_and_what_failed() -> None:
    found = msgspec.structs.replace(typical(), brief=None)
    text = " ".join(render_text(found, 160).split())
    assert found.check is not None
    for step in found.check.steps:
        assert f"{step.name} {step.verdict}" in text
    for words in (
        "14.2 s",
        "largest error that passed: 0.37 of the tolerance",
        "it writes outside of y",
        "250,828,800",
    ):
        assert words in text


def test_a_bench_says_what_became_of_the_kernel_and_of_the_engine() -> None:
    text = " ".join(render_text(bench()).split())
    for words in ("faster: the engine with the plugin is 5.21x as fast", "the SM clock moved between", "cuBLAS (in the",
                  "5.21x 5.1 to 5.33", "engine with the plugin", "2,505 to 2,570 MHz", "equal zeros inputs",
                  "gemv 312 us", "TensorRT 11.4.0"):  # fmt: skip
        assert words in text
    assert text.index("doubts") < text.index("cuBLAS")


def test_tables_have_a_row_a_kernel_and_a_row_a_side() -> None:
    rows = list(csv.DictReader(io.StringIO(render(typical(), "csv"))))
    assert [(row["tactic"], row["architecture"], row["registers"]) for row in rows[:2]] == [
        ("1", "sm_75", "50"), ("1", "sm_89", "32")
    ]  # fmt: skip
    assert len(rows) == 6
    for table in tables_of(Plugin):
        assert list(csv.DictReader(io.StringIO(render(typical(), "csv", table=table)))), table
    for table in tables_of(PluginBench):
        assert list(csv.DictReader(io.StringIO(render(benches(), "csv", table=table)))), table
    sides = list(csv.DictReader(io.StringIO(render(bench(), "csv"))))
    assert [(row["of"], row["what"]) for row in sides] == [
        ("kernel", "cuBLAS (in the run)"), ("kernel", "gemv"), ("engine", "engine without the plugin"),
        ("engine", "engine with the plugin")
    ]  # fmt: skip
