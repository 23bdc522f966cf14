"""Where the answers of a fleet are, and which part of its cells is meant: options that its commands share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trtprof.base.errors import UsageError
from trtprof.cli import completion
from trtprof.cli.declared import opt
from trtprof.cli.output_files import refuse_file_name, writable

if TYPE_CHECKING:
    from trtprof.base.records import Record

ManifestArgument = Annotated[
    Path,
    typer.Argument(
        metavar="MANIFEST",
        autocompletion=completion.manifests,
        help="A TOML file that names models, targets and sizes; sample_models/fleet.toml is an example.",
        show_default=False,
    ),
]
PlaceOrFilesOption = Annotated[
    list[str] | None,
    opt(
        "--output -o",
        "The folder of the fleet, or a URI such as s3://bucket/fleet; a file for what is printed, as its suffix "
        "says; may be repeated.",
        "Result",
        metavar="FOLDER|FILE",
    ),
]
ShardOption = Annotated[
    str, opt("--shard", "One of N parts of the cells, from 1, for one of N schedulers.", metavar="I/N")
]
_SHARD = re.compile(r"([0-9]{1,6})/([0-9]{1,6})")


def place_and_files(names: Sequence[str] | None, record: type[Record], *, force: bool) -> tuple[str, list[Path]]:
    """The folder of the fleet, empty where none is named, and the files for what is printed."""
    from trtprof import report

    suffixes = tuple(each.suffix for each in report.formats_of(record))
    files = [
        name
        for name in names or ()
        if "://" not in name and name.lower().endswith(suffixes) and not Path(name).is_dir()
    ]
    places = [name for name in names or () if name not in files]
    for name in places:
        if "://" not in name:
            refuse_file_name(name, record, "the folder of the fleet")
    if len(places) > 1:
        raise UsageError(
            f"-o names {len(places)} folders: {', '.join(places)}",
            why="a fleet has one, and files have a suffix such as .html",
            fix=f"-o {places[0]} -o plan.html",
        )
    return "".join(places), writable(files, record, force=force, example="plan.html")


def parse_shard(text: str) -> tuple[int, int]:
    """The value of ``--shard``; empty is all."""
    found = _SHARD.fullmatch(text.strip()) if text else None
    part, parts = (int(found[1]), int(found[2])) if found else (1, 1)
    if (text and not found) or not 1 <= part <= parts:
        raise UsageError(
            f"--shard {text} is no part", why="it is I/N: the first of four is 1/4, the last 4/4", fix="--shard 1/4"
        )
    return part, parts
