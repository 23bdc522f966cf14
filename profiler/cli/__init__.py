"""The command line: parse, call the pipeline, print, exit.

Nothing heavy is imported here; each command imports what it needs when it runs, so that
``trtprof --help`` answers at once.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from profiler import __version__

EXIT_CODES = """Exit codes: 0 done, 1 findings or a regression (only when asked for), 2 usage or an unusable file,
3 something is missing here (said with the fix), 4 build failed, 5 capture or alignment failed,
130 stopped by Ctrl-C."""

app = typer.Typer(
    name="trtprof",
    help="Why is deployed latency above theory, and which op deserves a hand-written kernel?",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    # Plain help needs no rich, which would take longer to import than all the rest.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        sys.stdout.write(f"trtprof {__version__}\n")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Entry point of the ``trtprof`` command."""
    try:
        # They register themselves.
        from profiler.cli import analyze, build, calibrate, commands, gpus, predict, sweep  # noqa: F401

        app()
    except KeyboardInterrupt:
        # Inside a command `errors_shown` says what was kept; this is Ctrl-C before there was one.
        sys.stderr.write("stopped by Ctrl-C\n")
        sys.exit(130)
