"""A document for a terminal: columns that fit, words that are cut where they matter least, and colours.

Control characters are escaped, so that no name steers the terminal.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from trtprof.base.records import Record
from trtprof.base.text_file import visible
from trtprof.report import ReportOptions, document_of, reporter
from trtprof.report._cells import cells, elide, head, pad, wrapped
from trtprof.report.document import (
    Bar,
    Block,
    Cell,
    Column,
    Cut,
    Document,
    Heading,
    Kind,
    Line,
    Notes,
    Pair,
    Pairs,
    Row,
    Section,
    Span,
    Table,
    Under,
    Words,
    line,
)

_ANSI = {
    "strong": "1", "faint": "2", "remainder": "2", "estimate": "36", "cause": "33", "doubt": "35", "critical": "1;31",
    "worse": "31", "better": "32",
}  # fmt: skip
_FILL = {"estimate": "▒", "remainder": "░"}
_FILL_ASCII = {"estimate": "~", "remainder": "="}
_LEAST = 8  # Columns of what may be cut, where a table has no room for it
_DRAWN = 8  # Columns that a bar must have


@reporter("text", suffix=".txt")
def render(found: Record, options: ReportOptions) -> str:
    """The document as lines of at most ``options.width`` columns."""
    return text_of(document_of(found, options), options)


def text_of(document: Document, options: ReportOptions) -> str:
    """Any document, likewise."""
    page = _Page(options, document)
    return "".join(page.paint(each) + "\n" for each in page.lines(document))


class _Page:
    """How wide lines may be, and which characters they may have."""

    def __init__(self, options: ReportOptions, document: Document) -> None:
        self.options = options
        self.width = max(options.width, document.least_width)
        self.labels = document.labels
        self.dots = "..." if options.ascii else "…"

    # --- sections ---------------------------------------------------------------------------

    def lines(self, document: Document) -> Iterator[Line]:
        cut = any(span.cut for span in line(document.title))
        title = self.wrapped(line(document.title), self.width, 1 if cut else 6) if document.titled else []
        yield from title
        if document.fit is not None:
            first, airy = document.fit(
                lambda sections, airy: len(title) + sum(1 for _ in self.parted(sections, airy=airy))
            )
            yield from self.parted(first, airy=airy)
        rest = list(self.parted(document.sections))
        if document.fit is not None and rest:
            yield ()
        yield from rest

    def parted(self, sections: Sequence[Section], *, airy: bool = True) -> Iterator[Line]:
        first = True
        for section in sections:
            if section.where == "paper":
                continue
            made = [each for block in section.blocks for each in self.block(block)]
            if made and airy and not first and not section.tight:
                yield ()
            first = first and not made
            yield from made

    def block(self, block: Block) -> Iterator[Line]:
        if isinstance(block, Heading):
            yield from self.heading(block)
        elif isinstance(block, Pairs):
            for pair in block.pairs:
                yield from self.pair(pair)
        elif isinstance(block, Notes):
            for words in block.lines:
                yield from self.note(line(words), block)
        else:
            yield from self.table(block)

    def heading(self, block: Heading) -> Iterator[Line]:
        if block.label:
            (first,) = line(block.title)
            yield from self.pair(Pair(first.text, Span(block.note, "faint", "end"), block.lines))
        else:
            yield self.fit((*line(block.title), *([Span(f"  {block.note}", "faint", "end")] if block.note else [])))

    def pair(self, pair: Pair) -> Iterator[Line]:
        label = Span(pad(pair.label, self.labels), pair.kind)
        room = self.width - self.labels
        for each in self.wrapped(line(pair.value), room, pair.lines) or [()]:
            yield (label, *each)
            label = Span(" " * self.labels)

    def note(self, words: Line, notes: Notes) -> Iterator[Line]:
        if not words:
            yield ()
            return
        start = len(words[0].text) - len(words[0].text.lstrip())
        first = " " * start
        words = (words[0]._replace(text=words[0].text.lstrip()), *words[1:])
        hang = 0 if notes.most == 1 else notes.hang
        for each in self.wrapped(words, self.width - start - hang, notes.most, self.width - start, spaced=True):
            yield (Span(first), *each)
            first = " " * (start + notes.hang)

    # --- words ------------------------------------------------------------------------------

    def safe(self, text: str) -> str:
        # No more of a name than could be shown is looked at: one may be ten thousand characters long.
        most = 20 * self.width
        if len(text) > 2 * most:
            text = text[:most] + text[-most:]
        return visible(text, ascii_only=self.options.ascii)

    def cut(self, text: str, width: int, how: Cut) -> str:
        if cells(text) <= width:
            return text
        if how == "middle":
            return elide(text, width, self.dots)
        keep = max(width - len(self.dots), 0)
        if how == "start":
            end = self.dots + head(text[::-1], keep)[::-1]
            return end[: max(width, 0)] if width < 4 else end
        if how == "numbered" and text.startswith("#"):
            number, _, path = text.partition(" ")
            return f"{number} {self.cut(path, width - len(number) - 1, 'start')}"
        if how == "numbered":
            return self.cut(text, width, "start")
        return head(text, keep) + self.dots[: max(width, 0)]

    def fit(self, words: Line, width: int | None = None) -> Line:
        """The spans in at most ``width`` columns, as far as they may be cut; the last gives first."""
        room = self.width if width is None else width
        spans = [span if span.items else span._replace(text=self.safe(span.text)) for span in words]
        fixed = sum(cells(span.text) for span in spans if not span.items)
        for at, span in enumerate(spans):
            if span.items:
                (text,) = self.filled(span, max(room - fixed, 1), 1)
                spans[at] = span._replace(text=text, items=())
        over = sum(cells(span.text) for span in spans) - room
        for at, keeps in ((at, keeps) for keeps in (True, False) for at in reversed(range(len(spans)))):
            span = spans[at]
            if over <= 0:
                break
            if span.cut not in ("", "never"):
                has = cells(span.text)
                least = (int(span.least * room) if span.least < 1 else int(span.least)) if keeps else 0
                text = self.cut(span.text, max(has - over, min(has, least), 0), span.cut)
                over -= has - cells(text)
                spans[at] = span._replace(text=text)
        return tuple(spans)

    def wrapped(
        self, words: Line, width: int, most: int | None, first: int | None = None, *, spaced: bool = False
    ) -> list[Line]:
        """The words in at most so many lines; one line is cut by the rules of its spans."""
        if most == 1 or any(span.cut == "never" for span in words):
            return [self.fit(words, width)]
        if len(words) == 1 and words[0].items:
            return [(Span(text, words[0].kind),) for text in self.filled(words[0], width, most or 100)]
        if first is not None and sum(cells(self.safe(span.text)) for span in words) <= first:
            return [self.fit(words, first)]
        if len(words) > 1 and sum(cells(self.safe(span.text)) for span in words) <= width:
            return [self.fit(words, width)]
        # A name among other words takes half a line at most.
        half = width // 2 if len(words) > 1 else None
        parts = zip((self.safe(span.text) for span in words), words, strict=True)
        text = "".join(self.cut(part, half, span.cut) if half and span.name else part for part, span in parts)
        made = wrapped(text, max(width, 1), self.dots, first, spaced=spaced)
        if most is not None and len(made) > most:
            end = self.cut(" ".join(made[most - 1 :]), width, "end")
            made = [*made[: most - 1], end]
        kind = words[0].kind if words else ""
        return [(Span(each, kind),) for each in made]

    def filled(self, span: Span, width: int, lines: int) -> list[str]:
        """As many items as ``lines`` lines hold behind the text of the span, and how many more there are."""
        items, between = span.items, span.between
        out = [self.cut(self.safe(span.text), width - len(f" {len(items):,} more"), "middle")]
        used = cells(out[0])
        for at, item in enumerate(items):
            rest = len(items) - at - 1
            more = len(f"{between}{rest:,} more") if rest else 0
            word = self.cut(self.safe(item), max(width - more, 8), "start")
            gap = between if at else " " if span.text else ""
            # In the last line there must be room to say how many more there are.
            kept = more if len(out) == lines else len(between) if rest else 0
            if used + len(gap) + cells(word) + kept <= width or not used + len(gap):
                out[-1] += gap + word
                used += len(gap) + cells(word)
            elif len(out) < lines:
                out[-1] += gap.rstrip()
                out.append(word)
                used = cells(word)
            else:
                out[-1] += f"{gap}{rest + 1:,} more"
                break
        return out

    # --- tables -----------------------------------------------------------------------------

    def table(self, table: Table) -> Iterator[Line]:
        if table.title and not table.in_head:
            yield from self.wrapped(line(table.title), self.width, None)
        rows = table.folded(table.shown)
        hidden: list[str] = []
        if table.beside and self.width >= table.beside:
            yield from self.beside(table, rows)
        elif rows:
            for at, columns in enumerate(self.chosen(table, rows, hidden)):
                if at:
                    yield ()
                yield from self.grid(table, columns, rows, self.width)
        elif not table.headless:
            yield from self.grid(table, table.places("screen"), rows, self.width)
        if hidden and table.hidden:
            yield from self.wrapped((Span(table.hidden.format(", ".join(hidden))),), self.width, None)
        for text in table.after:
            yield from self.wrapped((Span(text),), self.width, None)

    def beside(self, table: Table, rows: list[Row]) -> Iterator[Line]:
        width = (self.width - 2) // 2
        half = -(-len(rows) // 2)
        left = list(self.grid(table, table.places("screen"), rows[:half], width))
        right = list(self.grid(table, table.places("screen"), rows[half:], width))
        for one, other in itertools.zip_longest(left, right, fillvalue=()):
            gap = width - sum(cells(span.text) for span in one)
            yield (*one, Span(" " * (gap + 2)), *other)

    def natural(self, column: Column, at: int, table: Table, rows: Sequence[Row]) -> int:
        """Columns that a column would take."""
        title: Words = "" if table.headless else column.title
        if table.in_head and at == len(table.columns) - 1:
            title = table.title
        widths = [self.width_of(title), len(column.unit)]
        widths += [self.width_of(row.cells[at]) for row in rows if row.cells]
        return max(column.least, min(max(widths), column.most or self.width * 4))

    def width_of(self, cell: Cell) -> int:
        if isinstance(cell, Bar):
            return _DRAWN
        return sum(
            sum(cells(self.safe(item)) + len(span.between) for item in span.items[:60]) + cells(span.text)
            if span.items
            else cells(self.safe(span.text))
            for span in line(cell)
        )

    def chosen(self, table: Table, rows: Sequence[Row], hidden: list[str]) -> Iterator[list[int]]:
        """The columns for which there is room; where the table stacks, in as many parts as they need."""
        columns = table.columns
        # A column that may be cut needs little.
        needs = [
            max(each.least, 1) if each.cut else self.natural(each, at, table, rows) for at, each in enumerate(columns)
        ]
        width = [need + each.gap for need, each in zip(needs, columns, strict=True)]
        if not table.stack:
            kept = table.places("screen")
            while sum(width[at] for at in kept) - columns[kept[0]].gap > self.width:
                last = max(kept, key=lambda at: columns[at].drop)
                if not columns[last].drop:
                    break
                kept.remove(last)
                hidden.append(columns[last].title.strip())
            hidden.sort(key=[each.title.strip() for each in columns].index)
            yield kept
            return
        keys = [at for at, each in enumerate(columns) if each.key]
        part = list(keys)
        for _, same in itertools.groupby(
            (at for at in range(len(columns)) if at not in keys), key=lambda at: columns[at].group or at
        ):
            group = list(same)
            if len(part) > len(keys) and sum(width[at] for at in (*part, *group)) - columns[0].gap > self.width:
                yield part
                part = list(keys)
            part += group
        yield part

    def grid(self, table: Table, chosen: Iterable[int], rows: Sequence[Row], width: int) -> Iterator[Line]:
        """The heads and the rows of some columns."""
        places = list(chosen)
        columns = [table.columns[at] for at in places]
        widths = [self.natural(each, at, table, rows) for at, each in zip(places, columns, strict=True)]
        gaps = [0, *(each.gap for each in columns[1:])] if columns else []
        over = sum(widths) + sum(gaps) - width
        for at in reversed(range(len(columns))):
            each = columns[at]
            if any(row.cells and isinstance(row.cells[places[at]], Bar) for row in rows[:1] or ()):
                widths[at] = max(min(widths[at] - over, each.most or widths[at] - over), 0)
                over = sum(widths) + sum(gaps) - width
            elif each.cut and over > 0:
                least = max(each.least, min(_LEAST, widths[at]))
                lost = min(over, max(widths[at] - least, 0))
                widths[at] -= lost
                over -= lost
        starts = list(itertools.accumulate((w + g for w, g in zip(widths, gaps, strict=True)), initial=0))
        groups = [each.group for each in columns]
        if any(group.strip() for group in groups):
            out = ""
            for at, group in enumerate(groups):
                if group and (not at or groups[at - 1] != group):
                    out = pad(out, starts[at] + gaps[at]) + self.safe(group)
            yield (Span(out),)
        if not table.headless:
            heads = [Span(each.title, "strong" if table.in_head else "", each.cut) for each in columns]
            shown: list[Line] = [(each,) for each in heads]
            if table.in_head:
                shown[-1] = tuple(span._replace(kind="faint", cut="end") for span in line(table.title))
            yield from self.across(shown, columns, widths, gaps)
            if any(each.unit for each in columns):
                yield from self.across([(Span(each.unit),) for each in columns], columns, widths, gaps)
        for row in rows:
            if row.across:
                yield self.fit(line(row.across), width)
            else:
                made = [self.cell(row.cells[at], each, w) for at, each, w in zip(places, columns, widths, strict=True)]
                if columns[-1].cut == "wrap":
                    made[-1] = next(iter(self.wrapped(made[-1], widths[-1], None)), ())
                yield from self.across(made, columns, widths, gaps)
                if columns[-1].cut == "wrap":
                    last = self.cell(row.cells[places[-1]], columns[-1], widths[-1])
                    for more in self.wrapped(last, widths[-1], None)[1:]:
                        yield (Span(" " * (starts[-2] + gaps[-1])), *more)
            for under in row.under:
                if not under.whole:
                    indent = starts[under.at] + gaps[under.at] if under.indent is None else under.indent
                    if under.at == -1 and under.indent is None:
                        indent = starts[-2] + gaps[-1]
                    yield from self.under(under, indent, width)

    def across(
        self, made: Sequence[Line], columns: Sequence[Column], widths: Sequence[int], gaps: Sequence[int]
    ) -> Iterator[Line]:
        out: list[Span] = []
        for words, column, room, gap in zip(made, columns, widths, gaps, strict=True):
            fitted = self.fit(words, room)
            # What may not be cut is clipped with the line.
            free = Span(" " * max(room - sum(cells(span.text) for span in fitted), 0))
            out += [Span(" " * gap), *([free, *fitted] if column.right else [*fitted, free])]
        yield tuple(out)

    def cell(self, cell: Cell, column: Column, width: int) -> Line:
        if isinstance(cell, Bar):
            return (Span(self.bar(cell, width), cell.kind if cell.kind != "fact" else ""),)
        return tuple(
            span._replace(kind=span.kind or column.kind, cut=span.cut or (column.cut if len(line(cell)) == 1 else ""))
            for span in line(cell)
        )

    def under(self, under: Under, indent: int, width: int) -> Iterator[Line]:
        label = Span(pad(under.label, 5) if under.label else "", "faint")
        room = width - indent - cells(label.text)
        rest = ""
        for each in self.wrapped(line(under.words), room - under.hang, under.lines, room):
            yield (Span(" " * indent), label, Span(rest), *each)
            rest = " " * under.hang
            label = Span(" " * cells(label.text))

    def bar(self, bar: Bar, width: int) -> str:
        """A bar between two places of a drawing of ``width`` columns; a line stands where ``zero`` is."""
        if width < _DRAWN:
            return ""
        fills, full = (_FILL_ASCII, "#") if self.options.ascii else (_FILL, "█")
        fill = fills.get(bar.kind, full)
        if bar.zero is None:
            return fill * round(bar.end * width)
        low, high = (round(place * (width - 1)) for place in sorted((bar.start, bar.end)))
        if low == high and bar.start != bar.end:
            high = min(low + 1, width - 1) if low < width - 1 else low
            low = high - 1
        out = [" "] * width
        out[round(bar.zero * (width - 1))] = "|" if self.options.ascii else "│"
        out[low:high] = [fill] * (high - low)
        return "".join(out).rstrip()

    # --- colours ----------------------------------------------------------------------------

    def paint(self, words: Line) -> str:
        """One line, clipped to the width and coloured, without what stands empty at its end."""
        last = max((at for at, span in enumerate(words) if span.text.strip()), default=-1)
        spans = [*words[:last], words[last]._replace(text=words[last].text.rstrip())] if last >= 0 else []
        left = max(self.options.width, 1)
        clipped = sum(cells(span.text) for span in spans) > left
        if any(span.cut == "never" for span in spans):
            return "".join(span.text for span in spans)
        left -= len(self.dots) if clipped else 0
        out = []
        for span in spans:
            text = head(span.text, left)
            left -= cells(text)
            out.append(self.colored(text, span.kind))
            if text != span.text:
                break
        end = self.dots[: self.options.width] * clipped
        return ("".join(out) + end) if self.options.color or clipped else "".join(out).rstrip()

    def colored(self, text: str, kind: Kind) -> str:
        if not (self.options.color and kind in _ANSI and text.strip()):
            return text
        return f"\x1b[{_ANSI[kind]}m{text}\x1b[0m"
