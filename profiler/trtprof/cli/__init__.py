"""The command line: parse, call a flow, print, exit.

Nothing heavy is imported here; each command imports what it needs when it runs, so that
``trtprof --help`` answers at once.
"""

from __future__ import annotations

import gc
import importlib
import keyword
import sys
from typing import Annotated, Any

import typer
import typer.core

from trtprof import __version__

EXIT_CODES = """Exit codes: 0 done, 1 findings or a regression (only when asked for), 2 usage or an unusable file,
3 something is missing here (said with the fix), 4 build failed, 5 capture or alignment failed,
130 stopped by Ctrl-C."""

_ORDER = (
    "run", "try", "plugin", "inspect", "predict", "build", "analyze", "report", "compare", "export", "sweep", "fleet",
    "gpus", "calibrate", "kernel", "rules", "help", "doctor",
)  # fmt: skip
"""Of the commands in the help: the main job first."""


class _InOrder(typer.core.TyperGroup):
    """Commands in an order of our own, not that in which their modules are imported."""

    def list_commands(self, ctx: Any) -> list[str]:
        names = super().list_commands(ctx)
        return sorted(names, key=lambda name: _ORDER.index(name) if name in _ORDER else len(_ORDER))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0].startswith("--") and (meant := _without_command(args)):
            _answer(f"{args[0].partition('=')[0]} comes behind a command", "options are those of a command", meant)
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0] if args else ""
        if name and self.get_command(ctx, name) is None:
            if name in _MEANT:
                _answer(f"there is no command {name!r}", "it has another name", _typed([_MEANT[name], *args[1:]]))
            if name.lower().endswith((".onnx", ".engine", ".plan", ".trt")):
                given = [name] if name.lower().endswith(".onnx") else ["MODEL", f"--loadEngine={name}"]
                _answer(f"{name} is no command", "a file comes behind one", _typed(["run", *given, *args[1:]]))
        return super().resolve_command(ctx, args)


_MEANT = {"profile": "run", "bench": "run", "benchmark": "run", "trtexec": "run", "diff": "compare", "convert": "build"}
"""What other tools call their commands, and ours that does so."""


def _without_command(args: list[str]) -> str:
    """The command line that was meant by options of trtexec alone; empty where the first is none of its."""
    from trtprof.cli.trtexec import FLAGS_BY_NAME

    known = args[0].partition("=")[0] in FLAGS_BY_NAME and args[0] != "--help"
    return _typed(["run", *args]) if known else ""


def _typed(args: list[str]) -> str:
    import shlex

    return shlex.join(["trtprof", *args])


def _answer(what: str, why: str, fix: str) -> None:
    """Leave with one error."""
    from trtprof.base.errors import UsageError
    from trtprof.cli.output import errors_shown

    with errors_shown():
        raise UsageError(what, why=why, fix=fix)


app = typer.Typer(
    name="trtprof",
    cls=_InOrder,
    help="Why is deployed latency above theory, and which op deserves a hand-written kernel?",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    # Plain help needs no rich, which would take longer to import than all the rest.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


typed: list[str] = []
"""The words behind ``trtprof``, where this process is that command."""


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


def load_commands(wanted: str = "") -> None:
    """Import the modules of all commands, which register themselves with `app`; of one alone where it is ``wanted``."""
    for name in (wanted,) if wanted in _ORDER and wanted != "help" else _ORDER:
        importlib.import_module(f"trtprof.cli.{name}{'_' * keyword.iskeyword(name)}")


def main() -> None:
    """Run the ``trtprof`` command."""
    from trtprof.base.errors import UsageError
    from trtprof.cli import process
    from trtprof.cli.output import errors_shown

    gc.set_threshold(300_000)  # what is imported stays: at 700 it is searched for cycles a hundred times, in 0.1 s
    process.open_streams()
    try:
        with process.signals_heard(), errors_shown():
            if sys.flags.optimize > 1:
                raise UsageError(
                    "Python was started without docstrings (-OO)",
                    why="what rules, thresholds and commands mean is in them",
                    fix="remove -OO and PYTHONOPTIMIZE, or use -O",
                )
            typed[:] = sys.argv[1:]
            load_commands(typed[0] if typed else "")
            try:
                app()
            finally:
                process.put(sys.stdout)
    except typer.Exit as left:
        sys.exit(left.exit_code)
    except SystemExit as left:  # Click leaves with 130 whatever the signal
        sys.exit(process.ended_code() if left.code == 130 else left.code)
    finally:
        if "triton" not in sys.modules:  # It complains at the end of what was not freed
            gc.freeze()  # The process ends: a last search for cycles among all that was imported takes 0.1 s
