"""``trtprof fleet``: one question of many models on many targets. A file a command of it."""

from __future__ import annotations

import importlib

import typer

from trtprof.cli import app

fleet = typer.Typer(
    name="fleet",
    help="Ask one question of many models on many GPUs, and keep every answer.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(fleet)

COMMANDS = ("plan", "run", "status", "report", "compare")
"""In the order of the help."""

for _name in COMMANDS:
    importlib.import_module(f"{__name__}.{_name}")
