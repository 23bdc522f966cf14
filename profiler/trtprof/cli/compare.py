"""``trtprof compare``: what changed between runs, and whether it is too much."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trtprof.base.errors import UsageError
from trtprof.cli import app, completion
from trtprof.cli.declared import opt
from trtprof.cli.gates import InconclusiveOption, check_gates, inconclusive_fails
from trtprof.cli.options import ForceOption, TopOption
from trtprof.cli.output import errors_shown, say
from trtprof.cli.output_files import FormatOption, OutputsOption, check_report, deliver, writable

if TYPE_CHECKING:
    from trtprof.base.records import Comparisons


@app.command()
def compare(
    sides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SIDE",
            autocompletion=completion.runs,
            help="Two or more: a run folder, or several runs of the same thing joined with commas, a1,a2,a3.",
            show_default=False,
        ),
    ] = None,
    gate: Annotated[
        list[str] | None,
        opt(
            "--gate",
            "Leave with exit code 1 where this is exceeded significantly: 'latency>3%', 'lost>5%', "
            "'gap-to-roof>2%' (percentage points), 'latency>0.1ms', 'lost>50us'; in quotes; may be repeated.",
            metavar="EXPR",
        ),
    ] = None,
    inconclusive: InconclusiveOption = "pass",
    format_name: FormatOption = "text",
    output: OutputsOption = None,
    force: ForceOption = False,
    top: TopOption = None,
) -> None:
    """Compare runs: is B faster than A, are you sure, and why?

    The latency with an interval over raw samples; the difference by its causes; the parts of the model that changed,
    matched by their ONNX nodes. C, D... are each set against A as well. Nothing but the folders is needed.

    A gate fails where the whole interval is above it, passes where none of it is, and is inconclusive else. Exit
    codes: 0 done, gates passed or inconclusive; 1 a gate failed (or was inconclusive, with --inconclusive fail);
    2 usage, 3 a run is not there.

    Example: trtprof compare base1,base2,base3 head1,head2,head3 --gate 'latency>3%' -o compare.html
    """
    with errors_shown():
        from trtprof import compare as comparing
        from trtprof.base.records import Comparisons

        check_report("compare", format_name, Comparisons)
        fails = inconclusive_fails(inconclusive)
        paths = writable(output, Comparisons, force=force, example="compare.html")
        found = comparing.compare(_sides(sides or ()), gate or ())
        deliver(found, format_name, paths, top=top)
        if not gate:
            say("next: the same command with --gate 'latency>3%' leaves with exit code 1 where that is exceeded")
        elif not paths:
            say("next: the same command with -o compare.html makes a page of it")
        _check(found, fails=fails)


def _sides(texts: Sequence[str]) -> list[list[Path]]:
    """The run folders of each side."""
    if len(texts) < 2:
        given = "one run is" if texts else "no run is"
        raise UsageError(
            f"{given} named",
            why="a comparison needs two or more",
            fix="trtprof compare reports/BEFORE reports/AFTER; several runs of one side are joined with commas",
        )
    return [_folders(text) for text in texts]


def _folders(text: str) -> list[Path]:
    # A folder may have a comma in its name.
    names = [text] if Path(text).exists() else text.split(",")
    folders = [Path(name.strip()) for name in names]
    if any(not name.strip() for name in names):
        raise UsageError(f"{text!r} names no run", why="a name between two commas is empty", fix="a1,a2,a3")
    return [folder.parent if folder.name == "report.json" else folder for folder in folders]


def _check(found: Comparisons, *, fails: bool) -> None:
    """Say on stderr what gates did not pass, and leave with exit code 1 where one failed."""
    many = len(found.comparisons) > 1
    check_gates(
        (
            (gate, f" ({one.after.label} against {one.before.label})" if many else "")
            for one in found.comparisons
            for gate in one.gates
        ),
        inconclusive_fails=fails,
    )
