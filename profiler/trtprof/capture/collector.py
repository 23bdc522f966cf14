"""What a worker asks of a collector: to watch the GPU for a while, and to tell what it saw."""

from __future__ import annotations

import time
from typing import Protocol, runtime_checkable

from trtprof.base.trace import GpuTrace


class Collector(Protocol):
    """A collector in this process, such as CUPTI's activity API."""

    def start(self) -> None:
        """Watch from now on."""

    def stop(self) -> None:
        """Watch no more; what has begun is waited for and kept."""

    def trace(self) -> GpuTrace:
        """What was seen between start and stop, as columns."""


@runtime_checkable
class Clocked(Protocol):
    """A collector that tells its own time."""

    def now_ns(self) -> int:
        """The time of its clock now, as its trace has times."""


def system_to_collector_ns(collector: Collector, rounds: int = 16) -> tuple[int, int] | None:
    """What the collector's clock is ahead of the system's (``time.time_ns``), and how far off that may be.

    Returns:
        Both in ns; None where the collector does not tell its time.
    """
    if not isinstance(collector, Clocked):
        return None
    best: tuple[int, int] | None = None
    for _ in range(rounds):
        before = time.time_ns()
        theirs = collector.now_ns()
        after = time.time_ns()
        # The system's clock may be set back in between.
        if after >= before and (best is None or after - before < 2 * best[1]):
            best = theirs - (before + after) // 2, (after - before + 1) // 2
    return best
