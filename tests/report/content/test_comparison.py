"""What `trtprof compare` prints and writes."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.comparison_factory import CASES, change, document, many, same, side, typical
from tests.fakes.rendering import render_html, render_markdown, render_text
from trtprof.base.records import ChangeRow, Comparisons
from trtprof.report.content import _comparison as words
from trtprof.report.formats import _comparison_page

# --- numbers --------------------------------------------------------------------------------


def test_signs_are_always_shown() -> None:
    assert [words.signed_ns(ns) for ns in (120_000, -30_000, 0)] == ["+120 us", "-30.0 us", "0 ns"]
    assert [words.signed(number) for number in (4.11, -4.11, 0.0, 0.01, -0.01)] == ["+4.1", "-4.1", "0.0", "0.0", "0.0"]
    assert words.signed(0.0123, width=0.01) == "+0.0123"
    assert words.signed(4.2, width=10) == "+4.2"
    assert words.signed(-16823.7) == "-16,824"


def test_a_pair_shows_its_difference(subtests: pytest.Subtests) -> None:
    for before, after, shown in [
        (3_210_000, 3_342_000, ("3.21 ms", "3.34 ms")),
        (10_000_000, 10_002_000, ("10.0000 ms", "10.0020 ms")),
        (999, 1_001, ("0.999 us", "1.001 us")),
        (0, 0, ("0 ns", "0 ns")),
        (0, 5, ("0 ns", "5.00 ns")),
        (2_000_000_000, 1, ("2.00 s", "1.00 ns")),
        (251_000, 42_500_000, ("251 us", "42.5 ms")),
    ]:
        with subtests.test(before=before, after=after, shown=shown):
            assert words.pair_ns(before, after) == shown


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


# --- Markdown -------------------------------------------------------------------------------


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


def test_the_page_holds_nothing_that_runs_or_loads(subtests: pytest.Subtests) -> None:
    for case in CASES:
        with subtests.test(case=case):
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
