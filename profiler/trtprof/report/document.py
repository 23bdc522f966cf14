"""What a report is made of, whatever it is about and whatever it becomes: sections of headings, pairs, tables, notes.

`content` says what there is to say, once for each kind of record; `formats` has one file a format, which renders any
`Document`. A document says what matters more, never how it looks: which words may be cut and where, which columns go
first where there is no room, what may be folded away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

Kind = Literal[
    "", "fact", "estimate", "remainder", "cause", "doubt", "critical", "worse", "better", "strong", "faint"
]  # fmt: skip
"""What words are: a measured number, a computed one, what is left over, a hypothesis, a doubt about the measurement;
``worse`` and ``better`` are answers; ``strong`` and ``faint`` say how much they matter."""

Cut = Literal["", "end", "middle", "start", "numbered", "wrap", "never"]
"""Where words lose characters that have no room: prose at its end, names in their middle, paths at their start,
``numbered`` ones too, behind their number. Those with ``""`` stay whole; ``wrap`` is of a last column, whose cells go
on in the next line. What is of no use without its end, such as a path, is ``never`` cut: its line may be wider."""


class Span(NamedTuple):
    """Some words."""

    text: str  # The words; hostile text where they are by others
    kind: Kind = ""  # What they are
    cut: Cut = ""  # Where characters go
    least: float = 1  # Columns that they keep as long as other words can give some up; a share of the room below 1
    name: bool = False  # Whether they are a name by others, which no reader should take for words of ours
    # In place of ``text``: words of which as many are shown as there is room for, and the others counted
    items: tuple[str, ...] = ()
    between: str = ", "  # What stands between those


class Bar(NamedTuple):
    """A bar from one place to another, both from 0 to 1 of the drawing; a line stands at ``zero``."""

    start: float
    end: float
    zero: float | None = None
    kind: Kind = "fact"


Line = tuple[Span, ...]
Words = str | Span | Sequence[Span | str]  # How content writes a line: one string, one span, or several


def line(words: Words) -> Line:
    """The spans of some words."""
    if isinstance(words, str):
        return (Span(words),) if words else ()
    if isinstance(words, Span):
        return (words,)
    return tuple(Span(word) if isinstance(word, str) else word for word in words)


def name(text: str, cut: Cut = "middle", kind: Kind = "", least: float = 1) -> Span:
    """A name by others."""
    return Span(text, kind, cut, least, name=True)


def prose(text: str, kind: Kind = "") -> Span:
    """Words that may lose their end."""
    return Span(text, kind, "end")


@dataclass(frozen=True)
class Heading:
    """A title, and in fainter words what is to be said of what follows."""

    title: Words
    note: str = ""
    label: bool = False  # Whether the title is one of the words in front of pairs
    lines: int | None = 1


class Pair(NamedTuple):
    """A word and what is said of it, in as many ``lines`` as that needs, or at most."""

    label: str
    value: Words
    lines: int | None = 1
    kind: Kind = "strong"


@dataclass(frozen=True)
class Pairs:
    """Words with what is said of each."""

    pairs: tuple[Pair, ...]


@dataclass(frozen=True)
class Notes:
    """Sentences, each for itself."""

    lines: tuple[Words, ...]
    most: int | None = None  # Lines that one may take; the rest of it is cut. None: as many as it needs.
    hang: int = 2  # Columns that its second line is indented by


class Column(NamedTuple):
    """A column of a table."""

    title: str = ""  # Its head
    right: bool = False  # Whether it holds numbers, which end below one another
    gap: int = 2  # Columns of a terminal between it and the one before
    least: int = 0  # Columns that it has at least, even where its cells are narrower
    most: int | None = None  # Columns that it has at most; None: as many as it needs
    cut: Cut = ""  # Where its cells lose characters; one that may is as wide as the room lets it
    kind: Kind = ""  # Of its cells that have none of their own
    drop: int = 0  # What goes first where there is no room for all: the largest number; 0 stays
    group: str = ""  # Columns of one group stay together under its name
    unit: str = ""  # Of its numbers, in a line below the head
    key: bool = False  # Whether it says what a row is, so that it stands again where columns go below
    # Whether it is for ``screen`` or ``paper`` alone. Bars are for a screen.
    where: Literal["", "screen", "paper"] = ""


class Under(NamedTuple):
    """What stands below a row, with a label, below column ``at`` or ``indent`` columns from the left."""

    words: Words
    label: str = ""
    lines: int | None = 1
    hang: int = 0
    at: int = -1
    indent: int | None = None
    whole: bool = False  # Whether it is for complete documents alone, not for a screen


Cell = Words | Bar


class Row(NamedTuple):
    """A row of a table, or one line across all of it."""

    cells: tuple[Cell, ...] = ()
    under: tuple[Under, ...] = ()
    across: Words = ""


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of cells."""

    columns: tuple[Column, ...]  # What a row holds
    rows: Sequence[Row]  # All of them, or as many as anybody may want to see
    title: Words = ""  # What the rows are, and how many
    in_head: bool = False  # Whether a terminal shows that in place of the last head
    shown: int | None = None  # Rows that a screen shows; None: all
    paper: int | None = None  # Rows that stand open in a document which can fold the others
    rest: Callable[[int], Row | None] | None = None  # Gives the row that sums up all but the first so many
    beside: int = 0  # Columns from which on rows stand in two halves beside one another; 0: never
    stack: bool = False  # Whether columns that have no room stand below, behind the key columns again
    hidden: str = ""  # What is said where columns are left out, with their names for ``{}``
    after: tuple[str, ...] = ()  # Sentences on its marks
    headless: bool = False  # Whether a screen needs no heads

    def places(self, where: Literal["screen", "paper"]) -> list[int]:
        """The columns that are shown there."""
        return [at for at, column in enumerate(self.columns) if column.where in ("", where)]

    def folded(self, shown: int | None) -> list[Row]:
        """The first ``shown`` rows, and the sum of the others."""
        if shown is None or len(self.rows) <= shown:
            return list(self.rows)
        rest = self.rest(shown) if self.rest is not None else None
        return [*self.rows[:shown], *([rest] if rest is not None else [])]


Block = Heading | Pairs | Notes | Table


@dataclass(frozen=True, kw_only=True)
class Section:
    """Blocks that belong together; an empty line parts it from the next."""

    blocks: tuple[Block, ...]  # What it holds
    title: str = ""  # What a document that has headings calls it
    # ``screen`` and ``paper`` alone hold what the other says elsewhere or has no room for
    where: Literal["", "screen", "paper"] = ""
    fold: bool = False  # Whether paper folds it away under its title
    place: int = 5  # Its place on paper; of equals, as they come
    tight: bool = False  # Whether nothing parts it from the section before it on a screen


Measure = Callable[[Sequence[Section], bool], int]
"""Tells how many lines of a screen some sections take, with empty lines between them or without."""


@dataclass(frozen=True, kw_only=True)
class Document:
    """All that is said of a record."""

    title: Words  # What it is of, in one line
    sections: tuple[Section, ...]  # What is said, in its order
    # Where the first screen is to hold the most important: chooses sections by how many lines they take, and whether
    # empty lines part them. They come before ``sections`` then.
    fit: Callable[[Measure], tuple[Sequence[Section], bool]] | None = None
    labels: int = 12  # Columns for the words in front of pairs
    least_width: int = 40  # A narrower screen gets lines made for this width, clipped to its own
    titled: bool = True  # Whether a screen shows the title; else the first section says as much


def marks() -> Pairs:
    """What the marks before numbers and behind codes mean."""
    words = (
        Span("none: measured  ", "faint"), Span("~ estimate", "estimate"), Span("  = remainder  ", "faint"),
        Span("? likely cause", "cause"), Span("  ! warning", "doubt"),
    )  # fmt: skip
    return Pairs((Pair("marks", words, 1, "faint"),))


def sections(*parts: Iterable[Block] | Section | None) -> tuple[Section, ...]:
    """The sections that hold anything."""
    made = (part if isinstance(part, Section) or part is None else Section(blocks=tuple(part)) for part in parts)
    return tuple(part for part in made if part is not None and part.blocks)
