"""Documents in any format; nothing here computes anything.

`content` says what there is to say of a record, `formats` has one file a format. A reporter is a pure function of a
record and `ReportOptions`: the same record gives the same bytes. It formats, sorts, selects, and does the arithmetic
that drawing needs. To add a format, add one module with one function under the `reporter` decorator: it serves every
record that `content` knows (`document_of`), or those that it names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from trtprof.base.errors import UsageError
from trtprof.base.records import Record
from trtprof.base.registry import Registry

if TYPE_CHECKING:
    from trtprof.report.document import Document

__all__ = [
    "CONTENT", "REPORTERS", "ReportOptions", "Reporter", "content_of", "document_of", "encode",
    "for_path", "formats_of", "get", "render", "reporter",
]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """What a person may choose about a report. A format ignores what does not apply to it."""

    width: int = 80  # Columns of a terminal report; no line is wider
    # Rows of the lists and of the findings in a report for people. None shows what a page holds, of a run what fits
    # on a screen. Other formats are always complete.
    top: int | None = None
    color: bool = False  # Use ANSI colours in a terminal report
    ascii: bool = False  # Write ASCII only in a terminal report; other characters are escaped
    # What a row of the list of a run is, in a terminal report or in Markdown
    by: Literal["layer", "node", "type", "kernel", "module"] = "layer"
    ledger: bool = False  # Show the ledger of a run in a terminal report
    table: str = ""  # Which of `trtprof.report.tables` a format of one table holds (csv, parquet); ``""`` is the first
    figure: Literal["roofline", "ledger", "timeline"] = "roofline"  # What a picture of a run shows (png, svg)
    # What the document says that it is about: the path of the run folder, or ``""``. SARIF and JUnit name it.
    file: str = ""
    # Which view of a list of GPUs: a row each, one with its sources, a column each
    view: Literal["table", "sheet", "comparison"] = "table"
    model: bytes = b""  # The ONNX model that ran, serialised, for the format that writes into it
    weights: bool = True  # Whether that one keeps large weights


Make = TypeVar("Make", bound=Callable[[Any, ReportOptions], str | bytes])
Content = Callable[[Any, ReportOptions], "Document"]


@dataclass(frozen=True)
class Reporter:
    """A format that records can be shown in."""

    name: str  # What ``--format`` calls it
    suffix: str  # How its files end, with the dot. The longest suffix that fits a path wins.
    make: Callable[[Any, ReportOptions], str | bytes]
    binary: bool = False  # Whether it is no text, which no terminal is sent
    tables: bool = False  # Whether it holds one table, so that all of them make a folder of files
    of: tuple[type[Record], ...] | None = None  # The records that it is for; None: all that `content` knows

    def takes(self, record: type[Record]) -> bool:
        """Whether it is for records of that type."""
        return self.of is None or record in self.of

    def encode(self, found: Any, options: ReportOptions) -> bytes:
        """The document as bytes: text as UTF-8."""
        made = self.make(found, options)
        return made.encode() if isinstance(made, str) else made

    def render(self, found: Any, options: ReportOptions) -> str:
        """The document as text."""
        if self.binary:
            fix = f"write it to a file with -o report{self.suffix}"
            raise UsageError(f"{self.name} is no text", why="it is a binary format", fix=fix)
        made = self.make(found, options)
        return made if isinstance(made, str) else made.decode()


REPORTERS: Registry[str, Reporter] = Registry("reporter", "trtprof.report.formats", "trtprof.reporters")
"""All formats by name, those of other distributions included."""

CONTENT: Registry[type[Record], Content] = Registry("content", "trtprof.report.content", "trtprof.contents")
"""What is said of a record, by its type."""


def reporter(
    name: str, *, suffix: str, binary: bool = False, tables: bool = False, of: tuple[type[Record], ...] | None = None
) -> Callable[[Make], Make]:
    """Decorator that files a function, which makes a document as text or as bytes, under a format name and suffix."""

    def add(make: Make) -> Make:
        REPORTERS.register(name)(Reporter(name, suffix, make, binary, tables, of))
        return make

    return add


def content_of(record: type[Record]) -> Callable[[Content], Content]:
    """Decorator that files what is said of records of a type."""
    return CONTENT.register(record)


def document_of(found: Record, options: ReportOptions) -> Document:
    """What is said of a record."""
    made = CONTENT.get(type(found))
    if made is None:
        raise TypeError(f"there is no content for a {type(found).__name__}")
    return made(found, options)


def formats_of(record: type[Record]) -> list[Reporter]:
    """The formats that a record can take, by name."""
    return [each for each in REPORTERS.values() if each.takes(record)]


def get(name: str, record: type[Record] | None = None) -> Reporter:
    """The reporter of a format."""
    found = REPORTERS.get(name)
    if found is None or (record is not None and not found.takes(record)):
        known = REPORTERS.keys() if record is None else [each.name for each in formats_of(record)]
        what = f"no report format {name!r}" if found is None or record is None else f"{name} is not for this report"
        raise UsageError(what, fix=f"use one of: {', '.join(known)}")
    return found


def for_path(path: str, record: type[Record] | None = None) -> Reporter:
    """The reporter whose suffix ends ``path``; of several, the one with the longest suffix."""
    offered = [each for each in REPORTERS.values() if record is None or each.takes(record)]
    fitting = [each for each in offered if path.lower().endswith(each.suffix)]
    if not fitting:
        known = ", ".join(sorted(each.suffix for each in offered))
        raise UsageError(
            f"no report format for the file {path!r}",
            why="the suffix chooses the format",
            fix=f"end the name with one of: {known}; or name the format with --format",
        )
    return max(fitting, key=lambda each: len(each.suffix))


def render(found: Record, name: str = "text", **options: Any) -> str:
    """A record as text in one of the formats; ``options`` are those of `ReportOptions`."""
    return get(name, type(found)).render(found, ReportOptions(**options))


def encode(found: Record, name: str, **options: Any) -> bytes:
    """The same as the content of a file, in any format."""
    return get(name, type(found)).encode(found, ReportOptions(**options))
