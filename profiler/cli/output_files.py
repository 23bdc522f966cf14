"""Files that a command writes beside what it prints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from profiler.base.errors import MissingError, UsageError

if TYPE_CHECKING:
    from profiler.base.records import Record

WIDTH = 100
"""Columns of a text that goes to a file."""

FormatOption = Annotated[str, typer.Option("--format", help="What to print: text, json, csv, markdown, html ...")]

OutputsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write there too, as its suffix says: .svg, .png, .html, .json, .csv, .md, .txt ...; may be repeated.",
    ),
]


def check_format(command: str, name: str, known: Sequence[str], when: str = "") -> None:
    """Refuse a format that cannot be printed.

    Args:
        command: Or option that is to print it.
        name: The format asked for.
        known: Those that there are.
        when: What of the request makes the format impossible, in words.

    Raises:
        UsageError: It is none of them.
    """
    if name not in known:
        raise UsageError(
            f"{command} has no format {name!r}{when}", why="known: " + ", ".join(known), fix="--format json"
        )


def check_report(command: str, name: str, record: type[Record]) -> None:
    """Refuse a format that the result of a command does not take, or that no terminal does.

    Raises:
        UsageError: It is such a one.
    """
    from profiler import report
    from profiler.cli.output import refuse_binary

    check_format(command, name, [each.name for each in report.formats_of(record)])
    refuse_binary(name)


def writable(
    names: Sequence[str] | None, record: type[Record], *, force: bool, example: str = "result.svg"
) -> list[Path]:
    """The files of ``-o``, before any work is done for them.

    Raises:
        UsageError: The suffix of one says no format, or it is there and not to be replaced.
    """
    from profiler import report

    suffixes = [each.suffix for each in report.formats_of(record)]
    paths = [Path(name) for name in names or ()]
    for path in paths:
        if not path.name.lower().endswith(tuple(suffixes)):
            raise UsageError(
                f"{path} says no format",
                why="known suffixes: " + ", ".join(suffixes),
                fix=f"-o {path.stem or Path(example).stem}{Path(example).suffix}",
            )
        refuse_existing(path, force=force)
    return paths


def encoded_for(path: Path, found: Record, top: int | None = None) -> bytes:
    """What goes into a file, in the format that its suffix says.

    Raises:
        UsageError: There is nothing to draw.
    """
    from profiler import report

    return report.encode(found, report.for_path(path.name, type(found)).name, width=WIDTH, top=top)


def refuse_existing(path: Path, *, force: bool) -> None:
    """Refuse to overwrite.

    Raises:
        UsageError: There is something, and ``force`` was not said.
    """
    if path.exists() and not force:
        raise UsageError(
            f"{path} exists and will not be overwritten",
            why="files are replaced only when asked for",
            fix="choose another file, or say --force",
        )


def write(path: Path, content: bytes) -> None:
    """Write a file.

    Raises:
        MissingError: The folder is not there, or may not be written to.
    """
    try:
        path.write_bytes(content)
    except OSError as error:
        raise MissingError(f"{path} cannot be written", why=error.strerror or "", fix="choose another path") from None
