"""How a run is shown: the options of every command that does so, and what is said beside the report."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, get_args, get_type_hints

from trtprof.base.errors import UsageError
from trtprof.cli import completion
from trtprof.cli.declared import opt
from trtprof.cli.output import say

if TYPE_CHECKING:
    from trtprof.base.records import Run
    from trtprof.cli.output import View

ByOption = Annotated[
    str,
    opt(
        "--by",
        "Rows of the report: layer, node, type, kernel or module (scopes in node names).",
        "Result",
        metavar="WHAT",
        autocompletion=completion.by,
    ),
]
LedgerOption = Annotated[
    bool, opt("--ledger", "Print the ledger too: the steps from ideal to measured.", "Result", show_default=False)
]
TableOption = Annotated[
    str | None,
    opt(
        "--table",
        "Which table csv and parquet hold: layers, kernels, nodes, ...; default layers.",
        "Result",
        metavar="NAME",
        autocompletion=completion.tables,
    ),
]
FigureOption = Annotated[
    str,
    opt(
        "--figure",
        "What png and svg show: roofline, ledger or timeline.",
        "Result",
        metavar="NAME",
        autocompletion=completion.figures,
    ),
]
RedactOption = Annotated[
    bool,
    opt(
        "--redact",
        "Replace names of the model, its nodes, tensors and files, everywhere the same; numbers stay.",
        "Result",
    ),
]


def check_views(*, top: int | None, by: str, table: str | None, figure: str, ledger: bool = False) -> View:
    """What a person chose of a report."""
    from trtprof.cli.output import View
    from trtprof.report import ReportOptions

    hints = get_type_hints(ReportOptions)
    for flag, given, known in (
        ("--by", by, get_args(hints["by"])),
        ("--figure", figure, get_args(hints["figure"])),
        ("--table", table, _tables() if table else ()),
    ):
        if given is not None and given not in known:
            raise UsageError(f"{flag} {given} is not known", why="known: " + ", ".join(known), fix=f"{flag} {known[0]}")
    return View(top=top, by=by, table=table or "layers", figure=figure, ledger=ledger)


def with_model(view: View, run: Run, formats: Iterable[object], *, redact: bool) -> View:
    """The view with the model of the run, where one of these formats, or of these files, is written into it."""
    if not any(str(each) == "onnx" or str(each).lower().endswith(".onnx") for each in formats):
        return view
    from trtprof.flows.report import model_as_run

    if redact:
        raise UsageError(
            "--redact is not for an annotated model",
            why="the model itself holds the names of its nodes and tensors",
            fix="leave one of the two away; -o report.json --redact has the numbers without names",
        )
    return view._replace(model=model_as_run(run, weights=view.weights))


def refuse_explained(*, redact: bool) -> None:
    """Refuse to take the names out of what a rule says of one layer."""
    if redact:
        raise UsageError(
            "--redact is not for --explain",
            why="what is explained is named by whoever asks, and the answer keeps its names",
            fix="leave one of the two away; --format json --redact has the findings without names",
        )


def _tables() -> tuple[str, ...]:
    from trtprof.report.tables import TABLES

    return tuple(TABLES)


def private_names() -> tuple[str, ...]:
    """Names of this host and of who works on it, that texts may hold."""
    import getpass
    import socket
    from contextlib import suppress

    found = [socket.gethostname()]
    with suppress(KeyError, OSError):  # a user without a name has none to hide
        found.append(getpass.getuser())
    return tuple(name for name in found if name not in ("", "root", "localhost"))


_SHOWN = 5
"""Layers that are told one by one; the document has all."""


def say_confirmations(run: Run) -> None:
    """Tell which layers counters confirm or refute, the worst first, and by which numbers."""
    for layer in run.confirmations[:_SHOWN]:
        told = [check.reason for check in layer.checks if check.verdict != "not told"] or [layer.checks[0].reason]
        say(f"counters: {layer.layer}: {layer.verdict}: {'; '.join(told)}")
    if len(run.confirmations) > _SHOWN:
        say(f"counters: {len(run.confirmations) - _SHOWN} more layers (--format json has all)")
    for note in run.assumptions:
        if note.startswith("counters that are left out: "):
            say(note)
