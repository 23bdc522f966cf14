"""A document as one HTML page that needs nothing else: no server, no network, no other file.

A run, a fleet and comparisons have pages of their own, which draw. Any other document is told as text: its names come
from files by others, so the template escapes all, they stand in ``<bdi>``, and a content security policy allows exactly
the style sheet of the page, by its digest, no script and no request at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from trtprof.base.records import Comparisons, Fleet, FleetComparison, Record, Run
from trtprof.report import ReportOptions, document_of, reporter
from trtprof.report._templates import asset, digest, environment
from trtprof.report.document import Bar, Cell, Column, Heading, Notes, Pairs, Section, Table, Words, line


@reporter("html", suffix=".html")
def render(found: Record, options: ReportOptions) -> str:
    """The page."""
    if isinstance(found, Run):
        from trtprof.report.formats import _run_page

        return _run_page.render(found)
    if isinstance(found, Comparisons):
        from trtprof.report.formats import _comparison_page

        return _comparison_page.render(found)
    if isinstance(found, Fleet):
        from trtprof.report.formats import _fleet_page

        return _fleet_page.render(found, options)
    if isinstance(found, FleetComparison):
        from trtprof.report.formats import _fleet_comparison_page

        return _fleet_comparison_page.render(found)
    from markupsafe import Markup

    document = document_of(found, options)
    # A title says what the document is of, then what is known of that.
    title, *about = re.split(r" {2,}", "".join(span.text for span in line(document.title)).strip())
    templates = environment()
    templates.filters.update(words=_words, columns=_columns, rows=_rows)
    templates.tests.update(
        heading=lambda block: isinstance(block, Heading),
        pairs=lambda block: isinstance(block, Pairs),
        notes=lambda block: isinstance(block, Notes),
    )
    style = asset("app.css")
    return templates.get_template("document.html.jinja").render(
        title=title,
        about=about,
        sections=list(_sections(document.sections)),
        style=Markup(style),  # noqa: S704 - our own file
        digest=digest(style),
    )


def _sections(sections: tuple[Section, ...]) -> Iterator[Section]:
    shown = (section for section in sections if section.where != "screen")
    yield from sorted(shown, key=lambda section: section.place)


def _words(words: Words) -> list[tuple[str, str, bool]]:
    """Text, kind, and whether it is a name, of each span."""
    return [
        (f"{span.text} {span.between.join(span.items)}".strip() if span.items else span.text, span.kind, span.name)
        for span in line(words)
    ]


def _columns(table: Table) -> list[Column]:
    return [table.columns[at] for at in table.places("paper")]


def _rows(table: Table) -> Iterator[tuple[list[Cell], list[object], Words]]:
    kept = table.places("paper")
    for row in table.folded(table.shown if table.paper is None else table.paper):
        cells = [row.cells[at] if not isinstance(row.cells[at], Bar) else "" for at in kept] if row.cells else []
        yield cells, list(row.under), row.across
