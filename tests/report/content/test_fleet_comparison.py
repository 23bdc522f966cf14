"""What `trtprof fleet compare` prints and writes, in every format."""

from __future__ import annotations

import csv
import io
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import msgspec
import pytest

from tests.fakes.fleet_comparison_factory import CASES, nothing, predicted, same, typical
from tests.fakes.rendering import render_csv, render_html, render_markdown, render_text
from trtprof.base.records import FleetComparison
from trtprof.report import render

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> FleetComparison:
    return CASES[request.param]()


@pytest.fixture(scope="module")
def found() -> FleetComparison:
    return typical()


# --- text -----------------------------------------------------------------------------------


def test_the_first_line_is_the_verdict_and_doubts_come_under_it(found: FleetComparison) -> None:
    doubtful = msgspec.structs.replace(found, doubts=("the intervals are too narrow",))
    lines = render_text(doubtful, 200).splitlines()
    assert lines[0] == found.verdict
    assert lines[2] == "! the intervals are too narrow"
    page = render_html(doubtful)
    assert page.index("the intervals are too narrow") < page.index("Headline numbers")
    assert render_markdown(doubtful).index("the intervals are too narrow") < render_markdown(doubtful).index("before")


@pytest.mark.parametrize("name", ["text", "markdown", "html"])
def test_an_estimate_is_marked_and_never_called_slower(name: str) -> None:
    made = render(predicted(), name)
    said = re.sub(r"<style>.*?</style>|class=\"[^\"]*\"", "", made, flags=re.DOTALL)
    # The marks are explained, whatever there is.
    said = said.replace(predicted().method, "")
    for sentence in re.findall(r"[^.;\n]*(?:slower|faster)[^.;\n]*", said):
        assert re.search(
            r"beyond noise|called slower|measured|in many models|</span>|many models|estimate", sentence
        ), sentence
    assert "fell" in said


def test_top_limits_the_lists(found: FleetComparison) -> None:
    assert "estimates 2 of 14" in render_text(found, top=2)
    assert "and 12 more" in render_text(found, top=2)


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


# --- for machines ---------------------------------------------------------------------------


def test_an_estimate_is_in_no_column_of_what_was_measured(found: FleetComparison) -> None:
    for row in csv.DictReader(io.StringIO(render_csv(found))):
        assert bool(row["latency_before_ns"]) == (row["told_by"] == "latency")
        assert bool(row["low"]) == (row["told_by"] == "latency")


def test_junit_has_a_case_a_gate(case: FleetComparison) -> None:
    root = ET.fromstring(render(case, "junit"))  # noqa: S314 - our own text
    (suite,) = root
    assert [each.get("name") for each in suite] == [gate.gate for gate in case.gates]
    for tag, answer, count in (("failure", "failed", "failures"), ("skipped", "inconclusive", "skipped")):
        number = sum(gate.answer == answer for gate in case.gates)
        assert len(suite.findall(f"testcase/{tag}")) == number == int(root.get(count, "-1"))


def test_nothing_is_nothing_everywhere() -> None:
    assert render_text(nothing()).startswith("neither fleet asks anything")
    assert same().counts.keys() <= {"not significant", "estimate equal", "failed on both"}
