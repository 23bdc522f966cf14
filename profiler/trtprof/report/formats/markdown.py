"""A document in GitHub's Markdown, to paste into a pull request: long tables folded, at most what a comment may hold.

Nothing is coloured: ``~`` marks an estimate, ``=`` a remainder, ``?`` a cause, ``!`` a doubt. Names stand in code
spans, where no host makes a mention, a link or an image of them; other words are escaped so far that none of that comes
of them either. Long names are cut: the JSON document has them whole.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from trtprof.base.records import Record
from trtprof.base.text_file import visible
from trtprof.report import ReportOptions, document_of, reporter
from trtprof.report._cells import elide
from trtprof.report.document import (
    Bar,
    Block,
    Cell,
    Heading,
    Notes,
    Pairs,
    Row,
    Section,
    Span,
    Table,
    Words,
    line,
)

FOLDED = 5  # A folded list has so many times the rows that stand open
ROWS = 60  # Most rows that stand open, and items of a list in a cell, unless asked for more
_NAME, _PROSE = 70, 400  # Most columns of a name, and of other text
_COMMENT = 60_000  # Characters from which on folded sections are left out: GitHub takes 65,536 in a comment


@reporter("markdown", suffix=".md")
def render(found: Record, options: ReportOptions) -> str:
    """The document in Markdown."""
    document = document_of(found, options)
    parts = [f"### {_words(document.title)}"]
    said = document.sections
    if document.fit is not None:
        first, _ = document.fit(lambda *_: 0)
        said = (*first, *said)
    for section in sorted(said, key=lambda section: section.place):
        if section.where == "screen":
            continue
        made = "\n\n".join("\n".join(each) for each in _section(section, options) if each)
        if section.fold and sum(map(len, parts)) + len(made) > _COMMENT:
            made = f"{prose(section.title)}: too long for a comment; the JSON document has it."
        if made:
            parts.append(made)
    return "\n\n".join(parts) + "\n"


def _section(section: Section, options: ReportOptions) -> Iterator[list[str]]:
    said = section.blocks
    if section.title and isinstance(said[0], Heading):
        # The title says as much.
        said = said[1:]
    blocks = [each for block in said for each in _block(block, options)]
    if section.fold:
        lines = "\n\n".join("\n".join(each) for each in blocks)
        yield _folded(prose(section.title), [lines]) if lines else []
        return
    if section.title:
        yield [f"#### {prose(section.title)}"]
    yield from blocks


def _block(block: Block, options: ReportOptions) -> Iterator[list[str]]:
    if isinstance(block, Heading):
        note = f": {prose(block.note)}" if block.note else ""
        yield [f"**{_words(block.title, strong=False)}**{note}"]
    elif isinstance(block, Pairs) and len(block.pairs) == 1:
        (pair,) = block.pairs
        yield [f"**{prose(pair.label)}:** {_words(pair.value, strong=False, start=False)}"]
    elif isinstance(block, Pairs):
        yield list(
            _table(
                ("", ""), [(prose(pair.label), _words(pair.value, start=False)) for pair in block.pairs], (False,) * 2
            )
        )
    elif isinstance(block, Notes):
        if len(block.lines) == 1:
            yield [_words(block.lines[0])]
        else:
            yield [f"- {_words(words)}" for words in block.lines if words]
    else:
        yield from _of_table(block, options)


def _of_table(table: Table, options: ReportOptions) -> Iterator[list[str]]:
    if table.title:
        yield [f"#### {_words(table.title, strong=False)}" if table.in_head else _words(table.title)]
    shown = (options.top if options.top is not None else table.paper) if table.paper is not None else table.shown
    yield list(_rows(table, table.folded(shown)))
    if table.paper is not None and shown is not None and len(table.rows) > shown:
        last = min(shown + FOLDED * table.paper, len(table.rows))
        rest = table.rest(last) if table.rest is not None else None
        rows = [*table.rows[shown:last], *([rest] if rest is not None else [])]
        yield _folded(f"{shown + 1:,} to {last:,}", list(_rows(table, rows)))
    if table.after:
        yield [f"{prose('; '.join(table.after))}."]


def _rows(table: Table, rows: Sequence[Row]) -> Iterator[str]:
    kept = table.places("paper")
    columns = [table.columns[at] for at in kept]
    heads = [
        prose(" ".join(filter(None, (column.title, f"({column.unit})" if column.unit else "", column.group))))
        for column in columns
    ]
    made = []
    for row in rows:
        if row.across:
            made.append((_words(row.across, start=False), *[""] * (len(kept) - 1)))
            continue
        cells = [_cell(row.cells[at]) for at in kept]
        for under in row.under:
            words = _words(under.words, start=False)
            cells[-1] += f"<br>{f'**{prose(under.label)}** ' if under.label.strip() else ''}{words}" if words else ""
        made.append(tuple(cells))
    yield from _table(heads, made, [column.right for column in columns])


def _cell(cell: Cell) -> str:
    return "" if isinstance(cell, Bar) else _words(cell, start=False)


def _words(words: Words, *, strong: bool = True, start: bool = True) -> str:
    """A line as Markdown; neighbours without a name between them are one text, so that their ends stay as they are."""
    parts = []
    for kind, same in itertools.groupby(line(words), key=lambda span: (span.name, span.kind == "strong" and strong)):
        spans = list(same)
        if kind[0]:
            parts += [code(span.text, _PROSE if span.cut == "never" else _NAME) for span in spans]
            continue
        text = "".join(_text(span) for span in spans)
        made = prose(text, start=start and not parts)
        parts.append(f"**{made}**" if kind[1] and made else made)
        parts[-1] = (" " if text[:1] == " " else "") + parts[-1] + (" " if text[-1:] == " " else "")
    return "".join(parts).strip()


def _text(span: Span) -> str:
    if not span.items:
        return span.text
    more = [f"{len(span.items) - ROWS:,} more"] if len(span.items) > ROWS else []
    return f"{span.text} {span.between.join([*span.items[:ROWS], *more])}".strip()


# --- Markdown -------------------------------------------------------------------------------

_SPECIAL = re.compile(r"[\\`*{}\[\]<|$]|(?<![^\W_])_|_(?![^\W_])|(?<=[^\s(])~|~(?![\d+-])")
# The mark of an estimate begins no strikethrough, for nothing ends one: ``~`` before a number, behind a space.
_START = re.compile(r"^(?=[-+=#>])")
_LINKS = re.compile(r"(?<=:)(?=//)|(?<=@)(?=\w)|(?<=#)(?=\d)|(?<=GH)(?=-\d)|(?<=www)(?=\.)", re.I)


def prose(text: str, width: int = _PROSE, *, start: bool = True) -> str:
    """Text in one line that Markdown shows as it is: no markup, no link, no mention of a person or an issue.

    A comment that shows nothing parts what hosts would link by themselves: ``@name``, ``#1``, addresses.
    """
    # No more of a text than could be shown is looked at.
    text = text if len(text) <= 8 * width else text[: 4 * width] + text[-4 * width :]
    text = elide(" ".join(visible(text).split()), width, "…").replace("&", "&amp;")
    text = _SPECIAL.sub(lambda found: "&lt;" if found[0] == "<" else f"\\{found[0]}", text)
    # What would begin a list or a heading: a digit cannot be escaped, so that the sign behind it is.
    if start:
        text = re.sub(r"^(\d+)(?=[.)]\s)", r"\1\\", text) if text[:1].isdigit() else _START.sub(r"\\", text)
    return _LINKS.sub("<!-- -->", text)


def code(name: str, width: int = _NAME) -> str:
    """A name in a code span, cut in its middle, that may stand in a table."""
    name = name if len(name) <= 8 * width else name[: 4 * width] + name[-4 * width :]
    text = elide(visible(name), width, "…")
    if not text.strip():
        return "(no name)"
    if "`" in text or "|" in text:
        # Neither can be escaped in a code span of a table.
        return "<code>" + "".join(c if c.isalnum() or c == " " else f"&#{ord(c)};" for c in text) + "</code>"
    # A space at both ends would be taken away.
    return f"` {text} `" if text[0] == " " == text[-1] else f"`{text}`"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool]) -> Iterator[str]:
    """A table whose cells are Markdown already."""
    yield "| " + " | ".join(head) + " |"
    yield "|" + "".join(" ---: |" if each else " --- |" for each in right)
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def _folded(title: str, lines: Sequence[str]) -> list[str]:
    return ["<details>", f"<summary>{title}</summary>", "", *lines, "", "</details>"]
