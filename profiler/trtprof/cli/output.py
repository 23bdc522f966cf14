"""What the command line says, and where: results to stdout, talk to stderr, errors in three lines."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TextIO

import typer

from trtprof.base import plugins
from trtprof.base.errors import CaptureError, UsageError
from trtprof.base.machine_errors import as_error
from trtprof.base.progress import Line
from trtprof.base.text_file import visible
from trtprof.cli import process

if TYPE_CHECKING:
    from rich.text import Text

    from trtprof.base.records import Record, Run


def say(text: str) -> None:
    """One line of talk, on stderr; on a terminal broken between words where it is too long."""
    _talk(sys.stderr, text)


def _talk(stream: TextIO, text: str, indent: int = 2) -> None:
    process.put(stream, fitted(visible(text, keep="\n\t"), stream, indent) + "\n")


def result(text: str) -> None:
    """The result, on stdout."""
    process.put(sys.stdout, text if text.endswith("\n") else text + "\n")


def fitted(text: str, stream: TextIO, indent: int = 2) -> str:
    """Talk as a terminal shows it whole: its lines broken between words, what follows set in by ``indent``."""
    if not stream.isatty():
        return text
    import textwrap

    lines = []
    for line in text.split("\n"):
        before = " " * (len(line) - len(line.lstrip()))
        lines += textwrap.wrap(
            line.strip(),
            terminal_width(stream),
            initial_indent=before,
            subsequent_indent=before + " " * indent,
            break_long_words=False,
            break_on_hyphens=False,
        ) or [""]
    return "\n".join(lines)


def terminal_width(stream: TextIO, most: int = 120) -> int:
    """Columns to write for: the terminal's, or 80 where there is none; at most 120, which reads well."""
    if not stream.isatty() and "COLUMNS" not in os.environ:
        return 80
    return max(60, min(shutil.get_terminal_size().columns, most))


def whole(text: str, stream: TextIO) -> str:
    """A sentence in lines for a stream; a word that is longer than a line stays in one piece."""
    width = terminal_width(stream)
    return textwrap.fill(visible(text), width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def wants_color(stream: TextIO) -> bool:
    """NO_COLOR wins, then FORCE_COLOR, then whether it is a terminal."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


def ascii_only(stream: TextIO) -> bool:
    """Whether the stream cannot take more than ASCII."""
    encoding = (getattr(stream, "encoding", None) or "ascii").lower()
    return not encoding.startswith("utf")


@contextmanager
def errors_shown(progress: StageLines | None = None, *, done: Path | None = None) -> Iterator[None]:
    """Print our errors without a traceback and leave with their exit code; bugs keep theirs."""
    try:
        yield
    except typer.Exit:
        raise
    except (Exception, KeyboardInterrupt) as error:
        if progress is not None:
            progress.stop()
        # Whatever a library made of it, and whatever became of children that were ended, too.
        if isinstance(error, KeyboardInterrupt) or process.ended:
            say(f"stopped by {process.ended_by()}")
            _say_kept(progress)
            if done is not None:
                say(f"  the run is whole: trtprof report {done}")
            raise typer.Exit(process.ended_code()) from None
        shown = as_error(error)
        if shown is None or os.environ.get("TRTPROF_DEBUG"):
            raise
        say("error: " + str(shown))
        if done is not None:
            say(f"  wrote {done}, with the whole run: trtprof report {done}")
        # Going on helps only where the machine, not the model or the request, was at fault.
        if isinstance(shown, CaptureError) and shown.resumable:
            _say_kept(progress)
        raise typer.Exit(shown.exit_code) from None
    finally:
        _say_left_out()


_said: set[plugins.LeftOut] = set()


def _say_left_out() -> None:
    """Say once what plug-ins and datasheets were broken: what they would have added is lacking in the result."""
    for each in plugins.LEFT_OUT:
        if each not in _said:
            _said.add(each)
            say(f"warning: {each}")


def _say_kept(progress: StageLines | None) -> None:
    if progress is not None and progress.folder is not None and progress.finished:
        # Ceilings are measured on between the captures, and written behind them.
        written = (progress.folder / "ceilings.json").is_file()
        kept = [stage for stage in progress.finished if written or stage != "ceilings"]
        say(f"  kept: {', '.join(kept)} in {progress.folder}")
        if not progress.folder.name.startswith("."):
            say(f"  go on: the same command with -o {progress.folder} --resume")


_EVERY = 10.0
"""Seconds after which a stage that goes on has a plain line."""


def left_words(text: str, since: float) -> str:
    """What is left of the work that a line told of ``since`` seconds ago, or that it takes longer than it said."""
    if not isinstance(text, Line):
        return ""
    left = round(text.left_s - since)
    return f", about {left} s left" if left >= 0 else f", {-left} s longer than expected"


class StageLines:
    """Progress of a run on stderr: a live line with a clock on a terminal, otherwise plain lines.

    A stage has a plain line when it is done, and one every `_EVERY` seconds until then.
    """

    def __init__(self, *, quiet: bool = False, verbose: bool = False, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._quiet = quiet
        self._verbose = verbose and not quiet
        self._live = self._stream.isatty() and not quiet
        self._stage = ""
        self._detail = ""
        self._began = self._told = 0.0
        self._clock: threading.Timer | None = None
        self.folder: Path | None = None
        self.finished: list[str] = []
        self._status: object | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._finish()
        self.stop()

    def opened(self, folder: Path) -> None:
        """Remember where the finished stages are kept."""
        self.folder = folder

    def stage(self, name: str) -> None:
        """The stage before is done, this one begins."""
        self._finish()
        self._stage, self._detail = name, ""
        self._began = self._told = time.monotonic()
        self._show()
        if not self._live and not self._quiet:
            self._wait()

    def detail(self, text: str) -> None:
        """One line about the running stage; the last one stands when it is done."""
        self._detail, self._told = text, time.monotonic()
        if self._verbose:
            self._end_line()
            _talk(self._stream, f"  {text}")
        self._show()

    def note(self, text: str) -> None:
        """A sentence that stays, in as many lines as it needs; nothing of it is cut."""
        if self._quiet:
            return
        self._end_line()
        process.put(self._stream, whole(text, self._stream) + "\n")
        self._show()

    def __rich__(self) -> Text:
        """The live line, as of now."""
        from rich.text import Text

        # Two columns are the spinner's; a line that wraps would jump.
        return Text(self._now(shutil.get_terminal_size().columns - 2))

    def _now(self, width: int = 0) -> str:
        """The running stage in a line, of at most so many columns where that is said: its detail is cut."""
        now = time.monotonic()
        head, left = f"{self._stage:<9} {now - self._began:6.1f} s  ", left_words(self._detail, now - self._told)
        room = max(width - len(head) - len(left), 1) if width else len(self._detail)
        detail = visible(self._detail)
        if len(detail) > room:
            detail = detail[: max(room - 3, 0)] + "..."
        return f"{head}{detail}{left}"

    def stop(self) -> None:
        """End the live line, or the clock of the plain ones."""
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None
        self._end_line()

    def _end_line(self) -> None:
        if self._status is not None:
            self._status.stop()  # type: ignore[attr-defined]
            self._status = None

    def _wait(self) -> None:
        self._clock = threading.Timer(_EVERY, self._goes_on, (self._stage,))
        self._clock.daemon = True
        self._clock.start()

    def _goes_on(self, stage: str) -> None:
        """A plain line of a stage that is not done yet."""
        if self._clock is None or stage != self._stage:
            return
        process.put(self._stream, f"{self._now()} ...\n")
        self._wait()

    def _show(self) -> None:
        if not self._live:
            return
        from rich.console import Console
        from rich.status import Status

        if self._status is None:
            # It is asked for its text anew each time that it is drawn: the clock goes on where nothing is told.
            self._status = Status(self, console=Console(file=self._stream), refresh_per_second=4)
            self._status.start()

    def _finish(self) -> None:
        if not self._stage:
            return
        self.stop()
        self.finished.append(self._stage)
        if not self._quiet:
            line = f"{self._stage:<9} {time.monotonic() - self._began:6.1f} s  {self._detail}"
            _talk(self._stream, line, indent=20)
        self._stage = ""


_WIDEST_RUN = 160
"""Columns of the report of a run, whose rows end in names."""


class View(NamedTuple):
    """What a person chose of a report: see `trtprof.report.ReportOptions`."""

    top: int | None = None
    by: str = "layer"
    table: str = "layers"
    figure: str = "roofline"
    file: str = ""
    model: bytes = b""
    weights: bool = True
    ledger: bool = False


def rendered(found: Record, name: str, **options: Any) -> str:
    """A document in one of the formats, to the width, colours and characters of the terminal."""
    from trtprof import report
    from trtprof.base.records import Run

    if name == "text":
        out = sys.stdout
        widest = _WIDEST_RUN if isinstance(found, Run) else 120
        options |= {"width": terminal_width(out, widest), "color": wants_color(out), "ascii": ascii_only(out)}
    return report.render(found, name, **options)


def encoded(run: Run, name: str, view: View) -> bytes:
    """A run in any of the report formats, as the content of a file."""
    from trtprof import report

    return report.encode(run, name, **view._asdict())


def refuse_binary(name: str) -> None:
    """Refuse to send a binary format to a terminal."""
    from trtprof import report

    found = report.get(name)
    if found.binary and sys.stdout.isatty():
        raise UsageError(
            f"{name} is not for a terminal",
            why="it is a binary format",
            fix=f"-o report{found.suffix}, or send it on: ... --format {name} > report{found.suffix}",
        )


def send(found: Record, name: str, **options: Any) -> None:
    """A document to stdout, in any format; see `refuse_binary` and `trtprof.report.ReportOptions`."""
    from trtprof import report

    if not report.get(name).binary:
        text = rendered(found, name, **options)
        # A terminal obeys what names hold; the format for it has its own colours, and names made harmless.
        if name == "text":
            result(text)
        elif sys.stdout.isatty():
            result(visible(text, keep="\n\t"))
        else:
            process.put(sys.stdout, (text if text.endswith("\n") else text + "\n").encode())  # whatever the locale says
        return
    refuse_binary(name)
    process.put(sys.stdout, report.encode(found, name, **options))
