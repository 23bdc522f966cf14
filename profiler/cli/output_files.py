"""Files that a command writes beside what it prints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from profiler.base.errors import MissingError, UsageError

FORMATS = ("text", "json", "csv", "markdown")
"""What can be printed of a result that is a table."""

SUFFIXES = {".txt": "text", ".json": "json", ".csv": "csv", ".md": "markdown", ".svg": "image", ".png": "image"}
"""The format that the suffix of a file stands for."""

WIDTH = 100
"""Columns of a text that goes to a file."""

OutputsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write there too: .svg or .png (the picture), .json, .csv, .md or .txt; may be repeated.",
    ),
]


def check_format(command: str, name: str, known: Sequence[str] = FORMATS, when: str = "") -> None:
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


def writable(
    names: Sequence[str] | None, *, force: bool, suffixes: Sequence[str] = tuple(SUFFIXES), example: str = "result.svg"
) -> list[Path]:
    """The files of ``-o``, before any work is done for them.

    Raises:
        UsageError: The suffix of one says no format, or it is there and not to be replaced.
    """
    paths = [Path(name) for name in names or ()]
    for path in paths:
        if path.suffix.lower() not in suffixes:
            raise UsageError(
                f"{path} says no format",
                why="known suffixes: " + ", ".join(suffixes),
                fix=f"-o {path.stem or Path(example).stem}{Path(example).suffix}",
            )
        refuse_existing(path, force=force)
    return paths


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
