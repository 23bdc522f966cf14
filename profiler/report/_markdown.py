"""Tables and text in Markdown; names come from files by others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from profiler.report._format import visible


def table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of a table, whose first row is its head."""
    head, *rest = rows
    yield "| " + " | ".join(head) + " |"
    yield "|" + " --- |" * len(head)
    for row in rest:
        yield "| " + " | ".join(map(plain, row)) + " |"


def plain(text: str) -> str:
    """Text that Markdown shows as it is."""
    text = visible(text)
    for char in "\\`*_{}[]<>|#":
        text = text.replace(char, "\\" + char)
    return text
