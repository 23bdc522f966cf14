"""One file a format; none computes anything.

A reporter is a pure function of a `records.Run` and `ReportOptions`: the same run gives the same
bytes. It formats, sorts, selects, and does the arithmetic that drawing needs. To add a
format, add one module with one function under the `reporter` decorator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from profiler.base.errors import UsageError
from profiler.base.records import Run
from profiler.base.registry import Registry

__all__ = ["REPORTERS", "ReportOptions", "Reporter", "binary_reporter", "for_path", "get", "reporter"]


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """What a person may choose about a report. A format ignores what does not apply to it.

    Attributes:
        width: Columns of a terminal report; no line is wider.
        top: Rows of the layer list and of the findings in a terminal report. None shows what
            fits in 25 lines. Other formats are always complete.
        color: Use ANSI colours in a terminal report.
        ascii: Write ASCII only in a terminal report; other characters are escaped.
        by: What a row of the list in a terminal report or in Markdown is.
        roofline: Draw the roofline in a terminal report, in characters. None draws it where ``top`` is given.
        table: Which of `profiler.report.tables.TABLES` a format of one table holds (csv, parquet).
        figure: What a picture shows (png, svg).
        file: What the document says that it is about: the path of the run folder, or ``""``. SARIF and JUnit
            name it.
    """

    width: int = 80
    top: int | None = None
    color: bool = False
    ascii: bool = False
    by: Literal["layer", "node", "type", "kernel"] = "layer"
    roofline: bool | None = None
    table: str = "layers"
    figure: Literal["roofline", "ledger"] = "roofline"
    file: str = ""


Render = Callable[[Run, ReportOptions], str]
RenderBytes = Callable[[Run, ReportOptions], bytes]


@dataclass(frozen=True)
class Reporter:
    """A format that a run can be shown in.

    Attributes:
        name: What ``--format`` calls it.
        suffix: How its files end, with the dot. The longest suffix that fits a path wins.
        render: The document as text; of a binary format it raises `UsageError`.
        encode: The document as bytes: text as UTF-8.
        binary: Whether it is no text, which no terminal is sent.
        tables: Whether it holds one table, so that all of them make a folder of files.
    """

    name: str
    suffix: str
    render: Render
    encode: RenderBytes
    binary: bool = False
    tables: bool = False


REPORTERS: Registry[str, Reporter] = Registry("reporter", "profiler.report", "trtprof.reporters")
"""All formats by name, those of other distributions included."""


def reporter(name: str, *, suffix: str, tables: bool = False) -> Callable[[Render], Render]:
    """Decorator that files a render function of text under a format name and a file suffix.

    Raises:
        ValueError: The name is taken.
    """

    def add(render: Render) -> Render:
        def encode(run: Run, options: ReportOptions) -> bytes:
            return render(run, options).encode()

        REPORTERS.register(name)(Reporter(name, suffix, render, encode, tables=tables))
        return render

    return add


def binary_reporter(name: str, *, suffix: str, tables: bool = False) -> Callable[[RenderBytes], RenderBytes]:
    """The same for a format that is no text.

    Raises:
        ValueError: The name is taken.
    """

    def add(encode: RenderBytes) -> RenderBytes:
        def render(run: Run, options: ReportOptions) -> str:  # noqa: ARG001 - it has the signature of all
            raise UsageError(
                f"{name} is no text", why="it is a binary format", fix=f"write it to a file with -o report{suffix}"
            )

        REPORTERS.register(name)(Reporter(name, suffix, render, encode, binary=True, tables=tables))
        return encode

    return add


def get(name: str) -> Reporter:
    """The reporter of a format.

    Raises:
        UsageError: There is no such format.
    """
    found = REPORTERS.get(name)
    if found is None:
        raise UsageError(f"no report format {name!r}", fix=f"use one of: {', '.join(REPORTERS.keys())}")
    return found


def for_path(path: str) -> Reporter:
    """The reporter whose suffix ends ``path``; of several, the one with the longest suffix.

    Raises:
        UsageError: No format has such a suffix.
    """
    fitting = [r for r in REPORTERS.values() if path.lower().endswith(r.suffix)]
    if not fitting:
        known = ", ".join(sorted(r.suffix for r in REPORTERS.values()))
        raise UsageError(
            f"no report format for the file {path!r}",
            why="the suffix chooses the format",
            fix=f"end the name with one of: {known}; or name the format with --format",
        )
    return max(fitting, key=lambda r: len(r.suffix))
