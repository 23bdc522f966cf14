"""A document of every kind of block, and what formats make of it."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from tests.fakes import plan_factory
from tests.fakes.support import columns
from trtprof.report import ReportOptions, render
from trtprof.report.document import Bar, Column, Document, Heading, Notes, Row, Section, Span, Table, Under, name
from trtprof.report.formats.text import text_of

TABLE = Table(
    columns=(
        Column("what", least=6, key=True),
        Column("time", right=True, least=7, kind="estimate"),
        Column("least", right=True, drop=2),
        Column("less", right=True, drop=1),
        Column(most=10, where="screen"),
        Column("name", cut="start", least=8),
    ),
    rows=[
        Row(
            ("one", "~1.00 us", "second", "first", Bar(0, at / 4), name(f"/a/long/path/to/node_{at}", "start")),
            (Under("why it is so", "why"),),
        )
        for at in range(4)
    ],
    shown=2,
    rest=lambda shown: Row(across=f"{4 - shown} others"),
    hidden="not shown: {}",
)


def shown(*blocks: Heading | Notes | Table, width: int = 80, **options: bool) -> str:
    document = Document(title="", titled=False, sections=(Section(blocks=blocks),), least_width=20)
    return text_of(document, ReportOptions(width=width, **options))  # type: ignore[arg-type]


def test_columns_go_in_their_order_and_a_path_keeps_its_end(subtests: pytest.Subtests) -> None:
    for width in range(24, 90, 6):
        with subtests.test(width=width):
            lines = shown(TABLE, width=width).splitlines()
            assert max(map(columns, lines)) <= width
            head = lines[0].split()
            assert ("less" in head) or ("least" not in head), "the largest number goes first"
            assert ("not shown: least" in "\n".join(lines)) == ("least" not in head)
            assert "2 others" in lines
            if width >= 60:
                assert sum(line.endswith("/node_0") for line in lines) == 1


def test_a_terminal_colours_kinds_and_without_colour_nothing_else_changes() -> None:
    plain, coloured = shown(TABLE), shown(TABLE, color=True)
    assert "\x1b[36m~1.00 us\x1b[0m" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


def test_words_that_give_way_do_so_from_the_last_one() -> None:
    words = (Span("a" * 30, cut="end", least=10), " ", Span("b" * 30, cut="end", least=5))
    for width, (a, b) in {70: (30, 30), 50: (30, 19), 36: (30, 5), 30: (24, 5), 20: (10, 5)}.items():
        line = shown(Notes((words,), 1), width=width).rstrip("\n")
        first, _, second = line.partition(" ")
        assert (len(first), len(second)) == (a, b) or width == 20


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert not any(key.startswith("on") or key in ("src", "style") for key, _ in attrs)


def test_the_page_of_any_document_runs_and_loads_nothing() -> None:
    html = render(plan_factory.hostile(), "html")
    page = _Page()
    page.feed(html)
    assert {"table", "bdi", "dl"} <= page.tags
    assert not page.tags & {"script", "img", "iframe", "object", "embed", "form"}
    assert "default-src 'none'; style-src 'sha256-" in html
    assert "\u202e" not in html
