"""One file a format; none computes anything.

A reporter is a pure function of a `records.Run` and `ReportOptions`: the same run gives the same
characters. It formats, sorts, selects, and does the arithmetic that drawing needs. To add a
format, add one module with one function under the `reporter` decorator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from profiler.errors import UsageError
from profiler.records import Run
from profiler.registry import Registry

__all__ = ["REPORTERS", "ReportOptions", "Reporter", "for_path", "get", "reporter"]


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """What a person may choose about a report. A format ignores what does not apply to it.

    Attributes:
        width: Columns of a terminal report; no line is wider.
        top: Rows of the layer list and of the findings in a terminal report. None shows what
            fits in 25 lines. Other formats are always complete.
        color: Use ANSI colours in a terminal report.
        ascii: Write ASCII only in a terminal report; other characters are escaped.
    """

    width: int = 80
    top: int | None = None
    color: bool = False
    ascii: bool = False


Render = Callable[[Run, ReportOptions], str]


@dataclass(frozen=True)
class Reporter:
    """A format that a run can be shown in.

    Attributes:
        name: What ``--format`` calls it.
        suffix: How its files end, with the dot. The longest suffix that fits a path wins.
        render: The document as text, to be written as UTF-8.
    """

    name: str
    suffix: str
    render: Render


REPORTERS: Registry[str, Reporter] = Registry("reporter", "profiler.report", "trtprof.reporters")
"""All formats by name, those of other distributions included."""


def reporter(name: str, *, suffix: str) -> Callable[[Render], Render]:
    """Decorator that files a render function under a format name and a file suffix.

    Raises:
        ValueError: The name is taken.
    """

    def add(render: Render) -> Render:
        REPORTERS.register(name)(Reporter(name, suffix, render))
        return render

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
