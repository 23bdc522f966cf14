"""The formats of `trtprof.report` as a whole: how one is found, and that none loads what it does not need."""

from __future__ import annotations

import importlib.resources
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.fakes import comparison_factory, plan_factory
from tests.fakes.report_factory import CASES, on_gpu, typical
from tests.fakes.timeline_factory import timed
from trtprof.base.errors import UsageError
from trtprof.base.records import Fleet, FleetComparison, Record, Run
from trtprof.report import (
    CONTENT,
    REPORTERS,
    Reporter,
    ReportOptions,
    document_of,
    for_path,
    formats_of,
    get,
    render,
    reporter,
)
from trtprof.report.tables import tables_of


def test_the_formats_are_found_by_name() -> None:
    assert {
        "text", "json", "csv", "html", "markdown", "parquet", "perfetto", "speedscope", "sarif", "junit",
    } <= set(REPORTERS.keys())  # fmt: skip
    assert [get(name).name for name in sorted(REPORTERS.keys())] == REPORTERS.keys()


def test_an_unknown_format_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match="'pdf'") as caught:
        get("pdf")
    assert caught.value.fix == f"use one of: {', '.join(REPORTERS.keys())}"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("a/b.json", "json"),
        ("x.HTML", "html"),
        ("t.txt", "text"),
        ("t.csv", "csv"),
        ("t.md", "markdown"),
        ("t.parquet", "parquet"),
        ("t.Perfetto.json", "perfetto"),
        ("t.speedscope.json", "speedscope"),
        ("t.sarif", "sarif"),
        ("t.junit.xml", "junit"),
    ],
)
def test_the_suffix_chooses_the_format(path: str, name: str) -> None:
    assert for_path(path).name == name


def test_an_unknown_suffix_is_one_clear_error() -> None:
    with pytest.raises(UsageError, match=r"report\.docx") as caught:
        for_path("report.docx")
    assert ".html" in caught.value.fix


def test_the_longest_suffix_wins_and_a_taken_name_is_refused() -> None:
    REPORTERS.keys()
    entries = dict(REPORTERS._entries)
    try:

        @reporter("longest-test", suffix=".longest.speedscope.json")
        def none(run: Run, options: ReportOptions) -> str:
            return ""

        assert for_path("a.longest.speedscope.json").name == "longest-test"
        assert for_path("a.speedscope.json").name == "speedscope"
        assert for_path("a.json").name == "json"
        with pytest.raises(ValueError, match="twice"):
            reporter("longest-test", suffix=".x")(none)
    finally:
        REPORTERS._entries = entries


OF_THE_RECORD = [each.name for each in REPORTERS.values() if each.name != "onnx" and each.takes(Run)]
"""The formats that need nothing but the record; of the other one see ``formats/test_onnx.py``."""


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("format_", OF_THE_RECORD)
def test_every_format_renders_every_case_the_same_twice(format_: str, case: str) -> None:
    """Empty, one kernel, all unmatched, 10,000 layers, hostile names: every format, those of other modules included."""
    found = get(format_)
    first = found.encode(CASES[case](), ReportOptions())
    assert first
    if format_ in ("png", "svg") and case != "typical":
        # Drawing takes a second: that pictures are the same twice is told of one.
        return
    # A run that was read anew, so that nothing hangs on the order of a dict or on identity.
    again = msgspec.json.decode(msgspec.json.encode(CASES[case]()), type=Run)
    if found.binary:
        assert first == found.encode(again, ReportOptions())
        return
    text = found.render(again, ReportOptions())
    assert text.endswith("\n")
    assert text.encode() == first
    # Whatever a name holds, no control character reaches a terminal, a page or a parser unescaped.
    if format_ != "csv":
        assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x1b]", text)


@pytest.mark.parametrize("format_", OF_THE_RECORD)
def test_every_format_renders_a_run_with_a_timeline(format_: str) -> None:
    assert get(format_).encode(timed(on_gpu()), ReportOptions())


def test_suffixes_are_distinct_and_start_with_a_dot() -> None:
    suffixes = [found.suffix for found in REPORTERS.values()]
    assert len(set(suffixes)) == len(suffixes)
    assert all(suffix.startswith(".") and suffix == suffix.lower() for suffix in suffixes)


def test_a_reporter_is_immutable() -> None:
    found: Reporter = get("text")
    with pytest.raises(AttributeError):
        found.name = "other"  # type: ignore[misc]


def test_loading_the_registry_loads_no_template_engine() -> None:
    heavy = ("jinja2", "pandas", "pyarrow", "matplotlib", "onnx")
    code = f"import sys, trtprof.report as r; r.get('html'); print(*(name in sys.modules for name in {heavy}))"
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    assert done.stdout.split() == ["False"] * len(heavy)


def test_page_files_and_schema_are_package_data() -> None:
    package = importlib.resources.files("trtprof.report")
    for name in ("templates/report.html.jinja", "templates/app.css", "templates/app.js", "run.schema.json"):
        assert package.joinpath(name).read_text("utf-8").strip()


def test_options_do_not_change_the_machine_formats() -> None:
    odd = ReportOptions(width=20, top=1, color=True, ascii=True)
    for name in ("json", "csv", "html", "perfetto", "speedscope", "sarif", "junit"):
        assert get(name).render(typical(), odd) == get(name).render(typical(), ReportOptions())


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


@pytest.mark.parametrize("record", CONTENT.keys())
def test_every_record_takes_the_formats_for_people_and_for_machines(record: type[Record]) -> None:
    found = {each.name for each in formats_of(record)}
    assert {"text", "markdown", "html", "json", "csv", "parquet"} <= found
    assert tables_of(record)
    assert ("sarif" in found) == ("junit" in found) == (record in (Run, Fleet, FleetComparison))
    if "sarif" not in found:
        with pytest.raises(UsageError, match="sarif is not for this report"):
            get("sarif", record)
