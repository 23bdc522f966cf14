"""Files that a command writes beside what it prints."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from trtprof.base.errors import UsageError
from trtprof.base.output_file import check_place, write_file
from trtprof.cli import completion
from trtprof.cli.declared import opt
from trtprof.cli.output import refuse_binary, say, send

if TYPE_CHECKING:
    from trtprof.base.records import Record
    from trtprof.report import Reporter

ENGINE_SUFFIXES = (".engine", ".plan", ".trt")
"""What files with an engine are called."""

_SUFFIX = re.compile(r"\w\.[A-Za-z]{2,5}$")
"""How a name ends that is rather a file's than a folder's: ``report.pdf``, not ``v1.2`` or ``resnet.fp16``."""

_NEXT = {
    "perfetto": "   open it at https://ui.perfetto.dev",
    "onnx": "   open it at https://netron.app: every node has what was measured of it",
    "html": "   open it in a browser, it needs no network",
    "junit": "   give it to the CI as a test report",
    "markdown": "   paste it into the pull request",
}
"""What one does with a file, by its format."""

WIDTH = 100
"""Columns of a text that goes to a file."""

_FORMAT = opt(
    "--format",
    "What to print: text, json, csv, markdown, html ...",
    "Result",
    metavar="FORMAT",
    autocompletion=completion.formats,
)
FormatOption = Annotated[str, _FORMAT]
FormatOrNoneOption = Annotated[str | None, _FORMAT]

OutputsOption = Annotated[
    list[str] | None,
    opt(
        "--output -o",
        "Write there too, as its suffix says: .svg, .png, .html, .json, .csv, .md, .txt ...; may be repeated.",
        "Result",
        metavar="FILE",
    ),
]


def check_format(command: str, name: str, known: Sequence[str]) -> None:
    """Refuse a format that cannot be printed."""
    if name not in known:
        raise UsageError(f"{command} has no format {name!r}", why="known: " + ", ".join(known), fix="--format json")


def check_report(command: str, name: str, record: type[Record]) -> None:
    """Refuse a format that the result of a command does not take, or that no terminal does."""
    from trtprof import report

    check_format(command, name, [each.name for each in report.formats_of(record)])
    refuse_binary(name)


def writable(
    names: Sequence[str] | None, record: type[Record], *, force: bool, example: str = "result.svg"
) -> list[Path]:
    """The files of ``-o``, before any work is done for them."""
    paths = [Path(name) for name in names or ()]
    for path in paths:
        suffix_format(path, record, example)
        refuse_existing(path, force=force)
    return paths


def suffix_format(path: Path, record: type[Record], example: str) -> Reporter:
    """The format that the suffix of a file says."""
    from trtprof import report

    if path.suffix.lower() in ENGINE_SUFFIXES:
        raise UsageError(
            f"-o {path} names an engine",
            why="-o writes reports, in the format that the suffix says",
            fix=f"--saveEngine={path} writes the engine; -o report.html a report",
        )
    suffixes = [each.suffix for each in report.formats_of(record)]
    if not path.name.lower().endswith(tuple(suffixes)):
        raise UsageError(
            f"{path} says no format",
            why="known suffixes: " + ", ".join(suffixes),
            fix=f"-o {path.stem or Path(example).stem}{Path(example).suffix}",
        )
    return report.for_path(path.name, record)


def refuse_file_name(name: str, record: type[Record], what: str) -> None:
    """Refuse the name of a folder that is rather that of a file, in a format that there is not."""
    from trtprof import report

    if _SUFFIX.search(name) and not Path(name).exists():
        raise UsageError(
            f"{name} says no format",
            why="known suffixes: " + ", ".join(each.suffix for each in report.formats_of(record)),
            fix=f"-o {Path(name).stem}.html; if it is to be {what}, -o {name}/",
        )


def deliver(found: Record, format_name: str, paths: Sequence[Path], **options: Any) -> None:
    """Print a result, and write the files of ``-o``, each in the format that its suffix says.

    Args:
        format_name: What to print it as; empty prints nothing, not even what was written.
    """
    from trtprof import report

    formats = [report.for_path(path.name, type(found)).name for path in paths]
    contents = [report.encode(found, name, width=WIDTH, **options) for name in formats]
    if format_name:
        send(found, format_name, **options)
    for path, name, content in zip(paths, formats, contents, strict=True):
        write_file(path, content)
        if format_name:
            say(f"wrote {path}" + next_step(name))


def next_step(format_name: str) -> str:
    """What to do next with a file of a format; empty where that is plain."""
    return _NEXT.get(format_name, "")


def refuse_existing(path: Path, *, force: bool) -> None:
    """Refuse to overwrite, and what could not be written when the work is done."""
    if path.exists() and not force:
        raise UsageError(
            f"{path} exists and will not be overwritten",
            why="files are replaced only when asked for",
            fix="choose another file, or say --force",
        )
    check_place(path)
