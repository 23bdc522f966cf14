"""The formats of `trtprof.report` as a whole: how one is found, and that none loads what it does not need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes import comparison_factory, plan_factory
from tests.fakes.report_factory import typical
from trtprof.base.errors import UsageError
from trtprof.base.records import FleetComparison, Record, Run
from trtprof.report import CONTENT, REPORTERS, ReportOptions, document_of, for_path, formats_of, get, render, reporter
from trtprof.report.tables import tables_of


def test_the_formats_are_found_by_name() -> None:
    assert {
        "text", "json", "csv", "html", "markdown", "parquet", "perfetto", "onnx", "svg", "png", "junit",
    } <= set(REPORTERS.keys())  # fmt: skip
    assert [get(name).name for name in sorted(REPORTERS.keys())] == REPORTERS.keys()


def test_the_suffix_chooses_the_format(subtests: pytest.Subtests) -> None:
    for path, name in [
        ("a/b.json", "json"),
        ("x.HTML", "html"),
        ("t.txt", "text"),
        ("t.csv", "csv"),
        ("t.md", "markdown"),
        ("t.parquet", "parquet"),
        ("t.Perfetto.json", "perfetto"),
        ("t.junit.xml", "junit"),
    ]:
        with subtests.test(path=path, name=name):
            assert for_path(path).name == name


def test_a_format_that_is_not_there_is_one_error_that_lists_those_that_are() -> None:
    for name in ("sarif", "speedscope", "prometheus", "pdf"):
        with pytest.raises(UsageError, match=repr(name)) as caught:
            get(name)
        assert caught.value.fix == f"use one of: {', '.join(REPORTERS.keys())}"
    for path in ("x.sarif", "x.prom", "x.docx"):
        with pytest.raises(UsageError, match=path) as caught:
            for_path(path)
        assert ".html" in caught.value.fix


def test_the_longest_suffix_wins_and_a_taken_name_is_refused() -> None:
    REPORTERS.keys()
    entries = dict(REPORTERS._entries)
    try:

        @reporter("longest-test", suffix=".longest.perfetto.json")
        def none(run: Run, options: ReportOptions) -> str:
            return ""

        assert for_path("a.longest.perfetto.json").name == "longest-test"
        assert for_path("a.perfetto.json").name == "perfetto"
        assert for_path("a.json").name == "json"
        with pytest.raises(ValueError, match="twice"):
            reporter("longest-test", suffix=".x")(none)
    finally:
        REPORTERS._entries = entries


@pytest.mark.process
def test_loading_the_registry_loads_no_template_engine() -> None:
    heavy = ("jinja2", "pandas", "pyarrow", "matplotlib", "onnx")
    code = f"import sys, trtprof.report as r; r.get('html'); print(*(name in sys.modules for name in {heavy}))"
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    assert done.stdout.split() == ["False"] * len(heavy)


def test_one_function_is_a_format_of_every_document() -> None:
    """The exercise: a new format is one file with one decorator, and each kind of record can take it."""
    REPORTERS.keys()
    entries = dict(REPORTERS._entries)
    try:

        @reporter("outline", suffix=".outline")
        def outline(found: Record, options: ReportOptions) -> str:
            document = document_of(found, options)
            blocks = [type(block).__name__ for section in document.sections for block in section.blocks]
            return f"{type(found).__name__}: {', '.join(blocks)}\n"

        records = (typical(), comparison_factory.CASES["typical"](), plan_factory.CASES["typical"]())
        for record in records:
            assert "outline" in [each.name for each in formats_of(type(record))]
            assert for_path("x.outline", type(record)).name == "outline"
            assert render(record, "outline").startswith(f"{type(record).__name__}: ")
        assert {type(record) for record in records} < set(CONTENT.keys())
    finally:
        REPORTERS._entries = entries


def test_every_record_takes_the_formats_for_people_and_for_machines(subtests: pytest.Subtests) -> None:
    for record in CONTENT.keys():  # noqa: SIM118 - a registry is no dict
        with subtests.test(record=record):
            found = {each.name for each in formats_of(record)}
            assert {"text", "markdown", "html", "json", "csv", "parquet"} <= found
            assert tables_of(record)
            assert ("junit" in found) == (record in (Run, FleetComparison))
            if "junit" not in found:
                with pytest.raises(UsageError, match="junit is not for this report"):
                    get("junit", record)
