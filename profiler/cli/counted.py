"""What hardware counters say of a run, told on stderr beside its report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profiler.cli.output import say

if TYPE_CHECKING:
    from profiler.base.records import Run

_SHOWN = 5
"""Layers that are told one by one; the document has all."""


def say_confirmations(run: Run) -> None:
    """Tell which layers counters confirm or refute, the worst first, and by which numbers."""
    for one in run.confirmations[:_SHOWN]:
        told = [check.reason for check in one.checks if check.verdict != "not told"] or [one.checks[0].reason]
        say(f"counters: {one.layer}: {one.verdict}: {'; '.join(told)}")
    if len(run.confirmations) > _SHOWN:
        say(f"counters: {len(run.confirmations) - _SHOWN} more layers (--format json has all)")
    for note in run.assumptions:
        if note.startswith("counters that are left out: "):
            say(note)
