"""The command line as a person uses it, in this process."""

from __future__ import annotations

from typer.testing import CliRunner, Result

from trtprof.cli import app, load_commands

load_commands()


def trtprof(*arguments: object, **environment: str) -> Result:
    """What the command prints on 80 columns, without colours, a screen and a file of settings, unless they are given.

    An error that is none of ours is raised.
    """
    none = dict.fromkeys(("TRTPROF_CONFIG", "DISPLAY", "WAYLAND_DISPLAY", "BROWSER"), "")
    settings = {"COLUMNS": "80", "NO_COLOR": "1", **none, **environment}
    return CliRunner().invoke(app, list(map(str, arguments)), env=settings, catch_exceptions=False)


def refused(done: Result, code: int = 2, words: str = "") -> str:
    """All that is said, on one line: nothing but one error, with its reason and what to do."""
    assert done.exit_code == code, done.output
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    lines = done.stderr.splitlines()
    assert [sum(line.startswith(start) for line in lines) for start in ("error: ", "  fix: ")] == [1, 1], done.stderr
    said = " ".join(done.stderr.split())
    assert words in said
    return said
