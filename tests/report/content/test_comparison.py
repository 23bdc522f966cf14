"""What `trtprof compare` prints and writes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trtprof.report
from tests.fakes.comparison_factory import CASES, change, document, faster, hostile, many, same, side, typical
from tests.fakes.rendering import render_html, render_json, render_markdown, render_text
from tests.fakes.report_factory import HOSTILE_NAMES
from tests.fakes.schemas import schema_text
from tests.fakes.support import ROOT, columns, golden
from trtprof.base.errors import TrtprofError
from trtprof.base.records import ChangeRow, Comparisons, Interval
from trtprof.report.content import _comparison as words
from trtprof.report.formats import _comparison_page

GOLDEN = ROOT / "tests/report/golden" / "comparison"
SCHEMA_FILE = Path(trtprof.report.__file__).with_name("comparison.schema.json")
ANSI = re.compile(r"\x1b\[[0-9;]*m")
COMMENT_LIMIT = 65_536
"""Characters that GitHub takes in a comment."""


# --- numbers --------------------------------------------------------------------------------


def test_signs_are_always_shown() -> None:
    assert [words.signed_ns(ns) for ns in (120_000, -30_000, 0)] == ["+120 us", "-30.0 us", "0 ns"]
    assert [words.signed(number) for number in (4.11, -4.11, 0.0, 0.01, -0.01)] == ["+4.1", "-4.1", "0.0", "0.0", "0.0"]
    assert words.signed(0.0123, width=0.01) == "+0.0123"
    assert words.signed(4.2, width=10) == "+4.2"
    assert words.signed(-16823.7) == "-16,824"


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        (3_210_000, 3_342_000, ("3.21 ms", "3.34 ms")),
        (10_000_000, 10_002_000, ("10.0000 ms", "10.0020 ms")),
        (999, 1_001, ("0.999 us", "1.001 us")),
        (0, 0, ("0 ns", "0 ns")),
        (0, 5, ("0 ns", "5.00 ns")),
        (2_000_000_000, 1, ("2.00 s", "1.00 ns")),
        (251_000, 42_500_000, ("251 us", "42.5 ms")),
    ],
)
def test_a_pair_shows_its_difference(before: int, after: int, shown: tuple[str, str]) -> None:
    assert words.pair_ns(before, after) == shown


@given(before=st.integers(0, 10**12), after=st.integers(0, 10**12))
def test_a_pair_never_looks_the_same_where_it_is_not(before: int, after: int) -> None:
    first, second = words.pair_ns(before, after)
    assert (first == second) == (before == after)


@given(parts=st.lists(st.integers(-(10**9), 10**9), max_size=12))
def test_the_waterfall_starts_where_the_last_step_ended(parts: list[int]) -> None:
    drawn = words.waterfall([ChangeRow(cause="host", ns=ns, kind="fact") for ns in parts])
    places = [drawn.zero, *(step.end for step in drawn.steps)]
    assert [step.start for step in drawn.steps] == places[:-1]
    assert drawn.end == places[-1]
    assert all(0 <= place <= 1 for place in places)
    if any(parts):
        assert min(places) == 0
        assert max(places) == 1


# --- text -----------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_text_as_it_was(case: str) -> None:
    golden(GOLDEN / f"{case}.txt", render_text(CASES[case]()))


def test_ascii_as_it_was() -> None:
    golden(GOLDEN / "typical_ascii.txt", render_text(CASES["typical"](), ascii=True))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("width", [1, 20, 40, 60, 79, 80, 120, 200])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_no_line_is_wider_than_asked_for(case: str, width: int, ascii_only: bool) -> None:
    text = render_text(CASES[case](), width, ascii=ascii_only)
    lines = text.splitlines()
    assert max(map(columns, lines)) <= width
    assert not any(line != line.rstrip() for line in lines)
    assert all(char.isprintable() or char == "\n" for char in text)
    assert not ascii_only or text.isascii()


def test_colour_only_adds_escapes() -> None:
    found = CASES["three"]()
    coloured = render_text(found, color=True)
    assert "\x1b[" in coloured
    assert "\n".join(line.rstrip() for line in ANSI.sub("", coloured).splitlines()) + "\n" == render_text(found)


def test_the_verdict_comes_first_and_the_change_says_how_sure_it_is() -> None:
    one = typical()
    text = render_text(document(one))
    assert " ".join(text.split("\n\n")[0].split()) == one.verdict
    assert "latency   3.21 ms -> 3.34 ms  +132 us (+4.11 %)  slower\n" in text
    assert "95 % interval +104 us to +160 us (+3.24 to +4.98 %)" in " ".join(text.split())
    assert "(0.00 %)  not significant\n" in render_text(document(same()))


def test_facts_estimates_and_the_remainder_look_different() -> None:
    text = render_text(CASES["typical"]())
    kernel, fusion, rest = (
        next(line for line in text.splitlines() if line.startswith(f"  {cause}"))
        for cause in ("kernel changed", "fusion changed", "unexplained")
    )
    assert "~+118 us" in kernel
    assert "▒" in kernel
    assert " +29.0 us" in fusion
    assert "█" in fusion
    assert "=+5.00 us" in rest
    assert "░" in rest
    # Of the parts, too: the kind is that of the ledger.
    assert "kernel changed ~+118 us, precision changed ~+30.0 us" in text
    assert "fusion changed +29.0 us" not in text  # one cause needs no time of its own
    assert "OC301?" in text
    assert "TR010!" in text
    assert text.splitlines()[-1].startswith("marks")


def test_a_ledger_that_does_not_close_says_so() -> None:
    one = typical()
    found = document(msgspec.structs.replace(one, ledger=one.ledger[:-1]))
    assert "adds up to the difference" in render_text(document(one))
    assert "misses the difference by 5.00 us" in render_text(found)
    assert "misses the difference by 5.00 us" in render_markdown(found)
    assert "miss the difference by 5.00 us" in render_html(found)


def test_top_says_how_many_parts_and_what_the_others_sum_to() -> None:
    text = render_text(CASES["typical"](), top=2)
    assert "parts     2 of 5 parts of the model" in text
    assert "+39.0 us  in the 3 others" in text
    assert "/features/2/Add" not in text


def test_several_comparisons_are_told_side_by_side_first() -> None:
    text = render_text(CASES["three"]())
    assert [line.split()[0] for line in text.splitlines()[:4]] == ["against", "head", "qdq", "base"]
    assert "FAILED 1 of 3 gates" in text.splitlines()[1]
    for title in ("1 of 3: base -> head", "2 of 3: fp32 -> qdq", "3 of 3: base -> base"):
        assert title in text


# --- JSON -----------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [*CASES, "many"])
def test_the_document_fits_its_schema_and_reads_back(case: str) -> None:
    found = document(many(50)) if case == "many" else CASES[case]()
    text = render_json(found)
    jsonschema.Draft202012Validator(json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))).validate(json.loads(text))
    assert msgspec.json.decode(text, type=Comparisons) == found
    assert render_json(found) == text


def test_the_schema_that_ships_is_that_of_the_records() -> None:
    """TRTPROF_UPDATE_GOLDEN=1 writes the file anew."""
    golden(SCHEMA_FILE, schema_text("comparison"))


def test_a_document_of_another_shape_does_not_fit_the_schema() -> None:
    document_ = json.loads(render_json(CASES["typical"]()))
    document_["comparisons"][0]["latency"]["answer"] = "perhaps"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document_, json.loads(schema_text("comparison")))


def test_no_number_that_is_none_gets_out() -> None:
    one = typical()
    bad = msgspec.structs.replace(one.latency, ratio=Interval(value=float("nan"), low=0.0, high=1.0))
    for render in (render_json, render_html):
        with pytest.raises(TrtprofError, match="is nan"):
            render(document(msgspec.structs.replace(one, latency=bad)))


# --- Markdown -------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["typical", "unknown"])
def test_markdown_as_it_was(case: str) -> None:
    golden(GOLDEN / f"{case}.md", render_markdown(CASES[case]()))


def test_markdown_has_the_table_first_and_the_rest_folded() -> None:
    text = render_markdown(CASES["typical"]())
    lines = text.splitlines()
    assert lines[0].startswith("### head is slower than base")
    assert lines[2].startswith("|  | before")
    shown = re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)
    assert "+132 us (+4.11 %), slower" in shown
    assert "| FAILED |" in shown
    assert "kernel changed" not in shown
    assert text.count("<details>") == text.count("</details>") == 5


def cells_of(line: str) -> int:
    return len(re.findall(r"(?<!\\)\|", line)) - 1


@pytest.mark.parametrize("case", CASES)
def test_every_row_of_a_table_has_the_cells_of_its_head(case: str) -> None:
    head = 0
    for line in render_markdown(CASES[case]()).splitlines():
        if not line.startswith("|"):
            head = 0
            continue
        head = head or cells_of(line)
        assert cells_of(line) == head


def test_names_are_text_in_markdown() -> None:
    text = render_markdown(CASES["hostile"]())
    bare = re.sub(r"(`+).*?\1", "", text)
    tags = set(re.findall(r"(?<!\\)<[^>]*>", bare))
    assert tags == {"<code>", "</code>", "<br>", "<details>", "</details>", "<summary>", "</summary>", "<!-- -->"}
    assert all(char.isprintable() or char == "\n" for char in text)
    assert "://" not in bare
    assert "@SUM" not in bare
    assert "n" * 401 not in text


@pytest.mark.parametrize("found", [document(hostile()), document(many())], ids=["hostile", "many"])
def test_a_comment_takes_it(found: Comparisons) -> None:
    text = render_markdown(found)
    assert len(text) < COMMENT_LIMIT


def test_markdown_says_what_it_leaves_out() -> None:
    text = render_markdown(document(many()))
    assert "| 21 to" in text or "<summary>21 to 120</summary>" in text
    assert "in the 9,980 others" in text
    assert "in the 9,997 others" in render_markdown(document(many()), top=3)


# --- HTML -----------------------------------------------------------------------------------


class Reader(HTMLParser):
    """Tags, attributes and text of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._hidden += tag == "style"

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag == "style"

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.text += data


def read(found: Comparisons) -> Reader:
    reader = Reader()
    reader.feed(render_html(found))
    return reader


@pytest.mark.parametrize("case", CASES)
def test_the_page_holds_nothing_that_runs_or_loads(case: str) -> None:
    page = read(CASES[case]())
    tags = {tag for tag, _ in page.tags}
    assert not tags & {"script", "img", "iframe", "object", "embed", "form", "base", "video", "audio"}
    for tag, attributes in page.tags:
        assert not any(name.startswith("on") or name in ("style", "src") for name in attributes)
        if "href" in attributes:
            assert tag == "link" or (attributes["href"] or "").startswith("#")
    (policy,) = (a["content"] or "" for t, a in page.tags if t == "meta" and a.get("http-equiv"))
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert all(char.isprintable() or char in "\n" for char in page.text)


def test_links_of_the_page_lead_somewhere() -> None:
    for case in CASES:
        page = read(CASES[case]())
        ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
        assert len(ids) == len(set(ids))
        links = {(a["href"] or "")[1:] for tag, a in page.tags if tag == "a"}
        assert links <= set(ids)


def test_the_page_says_what_the_other_formats_say() -> None:
    text = " ".join(read(CASES["typical"]()).text.split())
    for part in (
        "3.21 ms → 3.34 ms", "+4.11 %", "slower", "95 % interval +3.24 to +4.98 % of the latency before",
        "~+118 us", "=+5.00 us", "The rows add up to the difference, to the nanosecond.", "inconclusive",
        "conv_direct_3x3 → conv_generic_nchw_kernel", "version of onnxruntime", "OC301?", "TR010!",
    ):  # fmt: skip
        assert part in text
    assert "not significant" in read(CASES["same"]()).text


def test_a_page_of_ten_thousand_parts_says_how_many_it_leaves_out() -> None:
    found = document(many())
    page = read(found)
    rows = len([tag for tag, _ in page.tags if tag == "details"])
    assert rows == _comparison_page.PARTS
    assert f"{10_000 - rows:,} other parts, all in the JSON document" in page.text


def test_what_is_unknown_is_said_in_every_format() -> None:
    found = CASES["unknown"]()
    for text in (render_text(found), render_markdown(found), read(found).text):
        assert "no latency that was measured end to end" in " ".join(text.split())
        assert "unknown" in text


@given(
    half=st.integers(0, 10**7),
    before=st.integers(1, 10**10),
    after=st.integers(1, 10**10),
    runs=st.lists(st.integers(1, 10**10), min_size=1, max_size=5),
)
def test_any_change_is_drawn_inside_its_axis(half: int, before: int, after: int, runs: list[int]) -> None:
    first, second = side("a", before, medians_ns=tuple(runs)), side("b", after)
    one = msgspec.structs.replace(same(), before=first, after=second, latency=change(first, second, half))
    axis = _comparison_page._axis(one)
    places = [axis.before, axis.after, *axis.runs_before, *axis.runs_after, axis.low, axis.high]
    assert all(0 <= place <= 100 for place in places)
    labels = [label for _, label in axis.ticks]
    assert 1 <= len(labels) <= 7
    assert len(set(labels)) == len(labels)


@pytest.mark.parametrize("render", [render_text, render_json, render_markdown, render_html])
def test_same_comparison_same_bytes(render: Any) -> None:
    assert render(CASES["three"]()) == render(CASES["three"]())


# --- in a browser ---------------------------------------------------------------------------


@pytest.mark.browser
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("scheme", "width"), [("light", 1360), ("dark", 420)])
def test_opens_in_a_browser_without_a_word(chromium: Any, tmp_path: Path, case: str, scheme: str, width: int) -> None:
    file = tmp_path / "compare.html"
    file.write_text(render_html(CASES[case]()), encoding="utf-8")
    bad: list[str] = []
    page = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.on("console", lambda message: bad.append(message.text))
    page.on("pageerror", lambda error: bad.append(str(error)))
    page.on("dialog", lambda dialog: bad.append(dialog.message))
    page.on("request", lambda r: None if r.url in (file.as_uri(), "data:,") else bad.append(r.url))
    page.goto(file.as_uri())
    comparisons = CASES[case]().comparisons
    assert page.locator(".steps tbody .step-bar").count() == sum(len(one.ledger) for one in comparisons)
    assert page.locator(".parts tbody tr").count() == sum(len(one.regions) for one in comparisons)
    assert page.locator(".parts details dl").first.is_visible() is False if comparisons[0].regions else True
    if comparisons[0].regions:
        page.locator(".parts summary").first.click()
        assert page.locator(".parts details dl").first.is_visible()
    # The styles are let in by the policy: nothing scrolls sideways, and the ground is that of the scheme.
    assert page.locator("body").bounding_box()["width"] <= width
    ground = page.locator("body").evaluate("e => getComputedStyle(e).backgroundColor")
    assert (ground == "rgb(252, 252, 250)") == (scheme == "light")
    assert bad == []
    page.close()


def test_jinja_is_not_needed_for_the_other_formats() -> None:
    code = (
        "import sys; sys.modules['jinja2'] = None\n"
        "from tests.fakes.comparison_factory import CASES\n"
        "from tests.fakes.rendering import render_json, render_markdown, render_text\n"
        "[render(CASES['typical']()) for render in (render_json, render_markdown, render_text)]"
    )
    root = ROOT
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_hostile_names_are_shown_escaped_on_the_page() -> None:
    text = read(CASES["hostile"]()).text
    assert "</script><script>window.__pwned = 1</script>" in text
    assert "\\u202e" in text
    assert "\u202e" not in text
    assert all(name in text for name in HOSTILE_NAMES if name.isprintable() and len(name) < 60)


def test_the_factory_closes_its_ledgers() -> None:
    """Or the tests above would show a state that no comparison is in."""
    for one in (typical(), faster(), same(), many(9)):
        assert words.ledger_gap_ns(one) == 0
        assert all(sum(part.parts.values()) == part.difference_ns for part in one.regions)
