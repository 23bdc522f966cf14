"""What `trtprof fleet compare` prints and writes, in every format."""

from __future__ import annotations

import csv
import io
import json
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pyarrow.parquet as pq
import pytest

import trtprof.report
from tests.fakes.fleet_comparison_factory import CASES, nothing, predicted, same, typical
from tests.fakes.rendering import render_csv, render_html, render_json, render_markdown, render_text
from tests.fakes.schemas import schema_text
from tests.fakes.support import ROOT, columns, golden
from trtprof.base.records import FleetComparison
from trtprof.report import encode, render
from trtprof.report.content import _fleet_comparison as words
from trtprof.report.formats.sarif import FLEET_RULES
from trtprof.report.tables import tables_of

pytestmark = pytest.mark.nightly

GOLDEN = ROOT / "tests/report/golden" / "fleet_comparison"
SCHEMA_FILE = Path(trtprof.report.__file__).with_name("fleet_comparison.schema.json")
SARIF = json.loads((ROOT / "tests/report/schemas" / "sarif-2.1.0.schema.json").read_text("utf-8"))


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> FleetComparison:
    return CASES[request.param]()


@pytest.fixture(scope="module")
def found() -> FleetComparison:
    return typical()


# --- text -----------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_terminal(case: FleetComparison, width: int) -> None:
    for ascii_only in (False, True):
        text = render_text(case, width, ascii=ascii_only)
        assert max(map(columns, text.splitlines())) <= width
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    assert text.isascii()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_golden(found: FleetComparison, width: int) -> None:
    golden(GOLDEN / f"typical-{width}.txt", render_text(found, width))


def test_golden_markdown(found: FleetComparison) -> None:
    golden(GOLDEN / "typical.md", render_markdown(found))


def test_the_first_line_is_the_verdict_and_doubts_come_under_it(found: FleetComparison) -> None:
    doubtful = msgspec.structs.replace(found, doubts=("the intervals are too narrow",))
    lines = render_text(doubtful, 200).splitlines()
    assert lines[0] == found.verdict
    assert lines[2] == "! the intervals are too narrow"
    page = render_html(doubtful)
    assert page.index("the intervals are too narrow") < page.index("Headline numbers")
    assert render_markdown(doubtful).index("the intervals are too narrow") < render_markdown(doubtful).index("before")


@pytest.mark.parametrize("name", ["text", "markdown", "html", "junit", "sarif"])
def test_an_estimate_is_marked_and_never_called_slower(name: str) -> None:
    made = render(predicted(), name)
    said = re.sub(r"<style>.*?</style>|class=\"[^\"]*\"", "", made, flags=re.DOTALL)
    # The marks are explained, whatever there is.
    for explained in (*(" ".join(rule) for rule in FLEET_RULES.values()), predicted().method):
        said = said.replace(explained, "")
    for sentence in re.findall(r"[^.;\n]*(?:slower|faster)[^.;\n]*", said):
        assert re.search(
            r"beyond noise|called slower|measured|in many models|</span>|many models|estimate", sentence
        ), sentence
    assert "fell" in said


def test_top_limits_the_lists(found: FleetComparison) -> None:
    assert "estimates 2 of 14" in render_text(found, top=2)
    assert "and 12 more" in render_text(found, top=2)


def test_changes_in_words() -> None:
    assert words.percent(1.041, 1.032, 1.05) == "+4.10 %"
    assert words.interval(1.041, 1.032, 1.05) == "+3.20 to +5.00 %"
    assert (words.percent(1.1), words.interval(1.1, None, None), words.percent(None)) == ("~+10.0 %", "", "-")


# --- the page -------------------------------------------------------------------------------


class Reader(HTMLParser):
    """Counts tags, and keeps what refers to anything."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.refers: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.refers += [value or "" for name, value in attrs if name in ("href", "src", "action", "style")]
        self.refers += [name for name, _ in attrs if name.startswith("on")]
        self.ids += [value or "" for name, value in attrs if name == "id"]


def test_the_page_runs_nothing_and_asks_for_nothing(case: FleetComparison) -> None:
    page = render_html(case)
    reader = Reader()
    reader.feed(page)
    assert "script" not in reader.tags
    assert "img" not in reader.tags
    anchors = [each for each in reader.refers if each.startswith("#")]
    assert {each for each in reader.refers if not each.startswith("#")} == {"data:,"}
    assert {each[1:] for each in anchors} <= set(reader.ids)
    assert len(reader.ids) == len(set(reader.ids))
    assert "default-src 'none'; style-src 'sha256-" in page
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00\x1b]", page)


def test_the_page_draws_intervals_of_what_was_measured_alone(found: FleetComparison) -> None:
    page = render_html(found)
    part = page[page.index('id="slower"') : page.index('id="faster"')]
    assert part.count('class="f-slower"') == found.counts["slower"]
    assert part.count('class="f-band"') == found.counts["slower"]
    part = page[page.index('id="estimates"') : page.index('id="others"')]
    assert part.count('class="f-estimate"') == found.counts["estimate rose"]
    assert 'class="f-band"' not in part


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", CASES)
def test_a_browser_shows_it_without_a_scroll_sidewards(chromium: Any, tmp_path: Path, name: str, width: int) -> None:
    file = tmp_path / "page.html"
    file.write_text(render_html(CASES[name]()), encoding="utf-8")
    page = chromium.new_context(viewport={"width": width, "height": 900}).new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on(
        "request", lambda request: said.append(request.url) if not request.url.startswith(("file:", "data:")) else 0
    )
    page.goto(file.as_uri())
    assert page.evaluate("[document.documentElement.scrollWidth, window.__pwned ?? null]") == [width, None]
    assert said == []
    page.context.close()


# --- for machines ---------------------------------------------------------------------------


def test_the_schema_ships_and_documents_follow_it(case: FleetComparison) -> None:
    golden(SCHEMA_FILE, schema_text("fleet_comparison"))
    text = render_json(case)
    jsonschema.validate(json.loads(text), json.loads(schema_text("fleet_comparison")))
    assert msgspec.json.decode(text, type=FleetComparison) == case
    assert render_json(case) == text


def test_tables_have_all_rows(case: FleetComparison) -> None:
    tables = tables_of(FleetComparison)
    assert list(tables) == ["cells", "groups", "kernels", "causes", "gates"]
    for name in tables:
        rows = list(csv.reader(io.StringIO(render(case, "csv", table=name))))
        table = pq.read_table(io.BytesIO(encode(case, "parquet", table=name)))
        assert len(rows) - 1 == table.num_rows == len(getattr(case, name))
        assert rows[0] == table.column_names
    assert render_csv(case) == render(case, "csv", table="cells")


def test_an_estimate_is_in_no_column_of_what_was_measured(found: FleetComparison) -> None:
    for row in csv.DictReader(io.StringIO(render_csv(found))):
        assert bool(row["latency_before_ns"]) == (row["told_by"] == "latency")
        assert bool(row["low"]) == (row["told_by"] == "latency")


def test_junit_has_a_case_a_cell(case: FleetComparison) -> None:
    root = ET.fromstring(render(case, "junit"))  # noqa: S314 - our own text
    suites = {suite.get("name"): suite for suite in root}
    gates = suites.pop("trtprof fleet: gates", None)
    cases = [each for suite in suites.values() for each in suite.findall("testcase")]
    assert len(cases) == len(case.cells)
    failing = sum(cell.answer in ("slower", "failed now") for cell in case.cells)
    assert len(root.findall("testsuite/testcase/failure")) == failing + sum(g.answer == "failed" for g in case.gates)
    skipped = sum(cell.answer in ("vanished", "not answered", "not decided", "failed on both") for cell in case.cells)
    assert sum(each.find("skipped") is not None for each in cases) == skipped
    assert gates is None or len(gates.findall("testcase")) == len(case.gates)
    for name in ("tests", "failures", "skipped", "errors"):
        assert int(root.get(name, "-1")) == sum(int(suite.get(name, "-1")) for suite in root)
    for each in cases:
        assert len(each.findall("failure") + each.findall("skipped") + each.findall("error")) <= 1


def test_sarif_follows_its_schema(case: FleetComparison) -> None:
    made = json.loads(render(case, "sarif"))
    jsonschema.Draft7Validator(SARIF, format_checker=jsonschema.FormatChecker()).validate(made)
    (run,) = made["runs"]
    results = run["results"]
    assert {each["ruleId"] for each in results} <= FLEET_RULES.keys()
    rules = [each["id"] for each in run["tool"]["driver"]["rules"]]
    assert all(rules[each["ruleIndex"]] == each["ruleId"] for each in results)
    told = [each["ruleId"] for each in results]
    assert told.count("FL002") == case.counts.get("slower", 0)
    assert told.count("FL001") == case.counts.get("failed now", 0)
    assert told.count("FL004") == case.counts.get("vanished", 0)
    assert told.count("FL007") == sum(gate.answer != "passed" for gate in case.gates)
    assert all(each["level"] == "note" for each in results if each["ruleId"] == "FL005")
    marks = [each["partialFingerprints"]["trtprofFinding/v1"] for each in results]
    assert len(marks) == len(set(marks))


def test_nothing_is_nothing_everywhere() -> None:
    assert render_text(nothing()).startswith("neither fleet asks anything")
    assert json.loads(render(nothing(), "sarif"))["runs"][0]["results"][0]["ruleId"] == "FL007"
    assert same().counts.keys() <= {"not significant", "estimate equal", "failed on both"}
