"""How far a fleet is, on stderr: a live block with a line a target on a terminal, else a plain line now and then."""

from __future__ import annotations

import shutil
import time
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

from trtprof.base.units import format_seconds
from trtprof.cli import process
from trtprof.cli.output import StageLines

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

    from trtprof.base.records import FleetPlan, FleetTargetCount

EVERY_S = 10.0
"""Between two plain lines."""
_BAR = 20
"""Columns of a bar."""


class FleetLines(StageLines):
    """Progress of a fleet: stages as of others, and how far every target is."""

    def __init__(self, *, quiet: bool = False, stream: TextIO | None = None, every_s: float = EVERY_S) -> None:
        super().__init__(quiet=quiet, stream=stream)
        self._every_s = every_s
        self._plan: FleetPlan | None = None
        self._block: Live | None = None
        self._last = time.monotonic()
        self._line = ""

    def watch(self, plan: FleetPlan) -> None:
        """It is so far."""
        self._plan = plan
        if self._quiet:
            return
        # What tells of the stage gives way: the line with a clock, or plain ones.
        super().stop()
        if self._live:
            if self._block is None:
                self._begin()
            return
        now = time.monotonic()
        if now - self._last >= self._every_s:
            self._last = now
            self._tell()

    def note(self, text: str) -> None:
        """A sentence that stays, above the block."""
        self._end_block()
        super().note(text)

    def stop(self) -> None:
        """The block goes; what it said last stays as plain lines."""
        self._end_block()
        super().stop()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_block()
        if self._plan is not None and not self._quiet and not self._live:
            self._tell()
        super().__exit__(kind, error, trace)

    def _show(self) -> None:
        # The block stands in the place of the line of its stage.
        if self._plan is None:
            super()._show()

    def _tell(self) -> None:
        plan = self._plan
        line = "" if plan is None else overall(plan)
        if line != self._line:
            self._line = line
            process.put(self._stream, f"{line}\n")

    # --- the block --------------------------------------------------------------------------

    def _begin(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._block = Live(_Block(self), console=Console(file=self._stream), refresh_per_second=4, transient=True)
        self._block.start()

    def _end_block(self) -> None:
        block, self._block = self._block, None
        if block is not None:
            block.stop()

    def text(self) -> Text:
        """The block as of now."""
        from rich.text import Text

        if self._plan is None:
            return Text("")
        size = shutil.get_terminal_size()
        # A block that is higher than the terminal, or lines that wrap, would jump.
        lines = block(self._plan, size.lines - 2)
        return Text("\n".join(line[: size.columns - 1] for line in lines))


class _Block:
    """Drawn anew each time: the clock goes on where nothing is told."""

    def __init__(self, lines: FleetLines) -> None:
        self._lines = lines

    def __rich__(self) -> Text:
        return self._lines.text()


def overall(plan: FleetPlan) -> str:
    """All targets in one line."""
    done, failed = sum(each.done for each in plan.targets), sum(each.failed for each in plan.targets)
    left = plan.cells - done - failed
    parts = [f"{done:,} of {plan.cells:,} cells done"]
    parts += [f"{failed:,} failed"] if failed else []
    parts += [f"{left:,} left"] if left else []
    parts += [f"about {format_seconds(plan.left_s)} to go"] if left and plan.left_s is not None else []
    return ", ".join(parts)


def block(plan: FleetPlan, most: int) -> list[str]:
    """A line a target, and all of them in one; of many targets those that are not done come first."""
    width = max((len(each.target) for each in plan.targets), default=0)
    room = most - 1 if len(plan.targets) < most else max(most - 2, 0)
    shown = sorted(plan.targets, key=lambda each: not each.left)[:room]
    kept = [each for each in plan.targets if each in shown]
    hidden = len(plan.targets) - len(kept)
    more = [f"and {hidden} other targets"] if hidden else []
    return [*(target_line(each, width) for each in kept), *more, overall(plan)]


def target_line(each: FleetTargetCount, width: int) -> str:
    """One target."""
    filled = _BAR * (each.done + each.failed) // each.cells if each.cells else _BAR
    bar = "#" * filled + "." * (_BAR - filled)
    failed = f"{each.failed:,} failed" if each.failed else ""
    left = f"{each.left:,} left" if each.left else ""
    if each.left and each.left_s is not None:
        left += f", about {format_seconds(each.left_s)}"
    rest = ", ".join(filter(None, (f"{each.done:,} done", failed, left)))
    return f"{each.target:<{width}}  {each.verb:<7}  {bar}  {rest}"
