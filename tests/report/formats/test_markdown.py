from __future__ import annotations

import re
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.report_factory import CASES, many, of_engine, one_layer, typical
from trtprof.base import units
from trtprof.base.records import Run
from trtprof.report import ReportOptions, get
from trtprof.report.content._views import By
from trtprof.report.content.run import ROWS
from trtprof.report.formats.markdown import code, prose

COMMENT = 65_536
"""Characters that a comment of GitHub may hold."""

VIEWS = get_args(By)


def text(run: Run, **options: Any) -> str:
    return get("markdown").render(run, ReportOptions(**options))


def cells(line: str) -> int:
    """Cells of a row of a table, by the rule of GitHub's Markdown."""
    return len(re.findall(r"(?<!\\)\|", line)) - 1


def open_rows(made: str) -> list[str]:
    """Rows of the list that stands open."""
    part = made[made.index("| \\# WHERE IT GOES") :].split("\n\n", maxsplit=1)[0]
    return part.splitlines()[2:]


def test_it_fits_a_comment_and_its_tables_are_whole(subtests: pytest.Subtests) -> None:
    for case in CASES:
        for by in VIEWS:
            with subtests.test(case=case, by=by):
                made = text(CASES[case](), by=by)
                assert len(made) <= COMMENT
                width = 0
                for line in made.splitlines():
                    if not line.startswith("|"):
                        width = 0
                        continue
                    width = width or cells(line)
                    assert cells(line) == width
                assert made.count("<details>") == made.count("</details>") == made.count("<summary>")


def test_the_five_questions_are_answered_in_the_order_of_the_screen() -> None:
    run = typical()
    made = text(run)
    assert f"{units.format_ns(run.latency.median_ns)} (p50" in made.split("####")[0]
    at = [made.index(f"| {label}") for label in ("LATENCY", "BOUND", "TRUST", "\\# WHERE IT GOES", "CAUSES", "DO NEXT")]
    assert at == sorted(at)
    assert "1 layer without a cost model" in made


def test_estimates_are_marked_facts_are_not_and_unknown_is_not_zero() -> None:
    layer = one_layer().layers[0]
    row = open_rows(text(one_layer()))[0].split(" | ")
    assert row[2] == units.in_unit(layer.measured_ns, 1e6)
    assert [row[4], row[6].rstrip(" |")] == [units.in_unit(ns or 0, 1e6) for ns in (layer.attainable_ns, layer.lost_ns)]
    heads = "| ms MEASURED | share MEASURED | \\~bound \\~ESTIMATE | by \\~ESTIMATE | \\~excess \\~ESTIMATE |"
    assert heads in text(one_layer())
    nms = next(line for line in text(typical()).splitlines() if "/post/Nms" in line and "unknown" in line)
    assert nms.endswith("| - | unknown | - |")
    made = text(typical())
    assert "| OC301? |" in made
    assert "| TR010! |" in made
    assert "~ estimate" in made.splitlines()[-1]


def test_without_a_sample_it_does_not_speak_of_a_latency() -> None:
    made = text(of_engine(typical()))
    assert "their sum, not an end-to-end latency" in made
    assert "sum of the layers" in made
    assert "from the datasheet, not measured" in made
    assert " median" not in made.split("####")[0]


@pytest.mark.parametrize("top", [0, 1, 3, 1000])
def test_top_is_how_many_rows_and_findings_stand_open(top: int) -> None:
    made = text(typical(), top=top)
    layers = len(typical().layers)
    assert len(open_rows(made)) == min(top, layers) + (top < layers)
    findings = made[made.index("findings, by time above bound") :].split("<details>")[0]
    assert len(re.findall(r"^\| [A-Z]+\d+[?!] ", findings, re.MULTILINE)) == min(top, 3)
    # What does not stand open is folded, and in 10,000 layers counted.
    assert len(re.findall(r"^\| [A-Z]+\d+[?!] ", made, re.MULTILINE)) == 3


def test_by_default_ten_rows_stand_open_and_the_rest_is_folded_and_summed() -> None:
    made = text(many())
    rows = open_rows(made)
    assert len(rows) == ROWS + 1
    assert "9,990 other layers" in rows[-1]
    assert f"<summary>{ROWS + 1} to {6 * ROWS}</summary>" in made
    assert "9,940 other layers" in made


def test_names_that_no_span_can_hold_are_written_out() -> None:
    assert code("a") == "`a`"
    assert code("a`b|c") == "<code>a&#96;b&#124;c</code>"
    assert code("") == "(no name)"
    assert code(" x ") == "`  x  `"
    assert len(code("n" * 10_000)) < 80


def test_prose_shows_text_as_it_is() -> None:
    assert prose("measured 1.93 ms; see reorder_1") == "measured 1.93 ms; see reorder_1"
    assert prose("- a") == "\\- a"
    assert prose("12. a") == "12\\. a"
    assert prose("1.93 ms") == "1.93 ms"
    assert prose("__proto__") == "\\_\\_proto\\_\\_"
    assert prose("@me #1 http://x") == "@<!-- -->me #<!-- -->1 http:<!-- -->//x"
    assert prose("<b> &amp;") == "&lt;b> &amp;amp;"


@given(st.text(alphabet=st.sampled_from("ab1_*`[]()<>!|\\~$#@:/.-+= \n&;")))
def test_prose_leaves_no_sign_that_markdown_reads(name: str) -> None:
    made = re.sub(r"(^|[\s(])~(?=[\d+-])", r"\1", prose(name).replace("<!-- -->", ""))
    assert not re.search(r"(?<!\\)(?:\\\\)*[`*\[\]|~$]", made.replace("\\\\", ""))
    assert "<" not in made
    assert "\n" not in made


@given(st.text(max_size=60))
def test_a_name_in_code_holds_no_sign_that_ends_it(name: str) -> None:
    made = code(name)
    if made.startswith("`"):
        assert "`" not in made[1:-1]
        assert "|" not in made
    elif made.startswith("<code>"):
        assert not re.search(r"[`|<*_\[]", made.removeprefix("<code>").removesuffix("</code>"))
    else:
        assert made == "(no name)"
