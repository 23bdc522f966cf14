"""What the scheduler of a fleet asks of whoever executes cells: processes of this machine, or a Ray cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from trtprof.base.records import FleetCell, FleetRow, GpuSpec

INSTALL_RAY = "pip install 'trtprof[fleet]'"


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """Cells that one call answers: of one group, and so of one model; of a build or a run it is one cell."""

    group: str
    cells: tuple[FleetCell, ...]
    attempts: tuple[str, ...] = ()  # Why earlier attempts came to nothing
    num_gpus: float = 0.0  # GPUs that Ray keeps for it
    datasheets: dict[str, GpuSpec] = {}  # By `FleetCell.gpu`, those from files, which need not be where it is answered

    @property
    def predicts(self) -> bool:
        return self.cells[0].verb == "predict"


class Answered(NamedTuple):
    """What came of a task."""

    task: Task
    rows: tuple[FleetRow, ...] = ()  # One a cell, in its order; none where it was ``lost``
    run: Path | None = None  # The run folder of its one cell, which the scheduler takes over (`Store.put_run`)
    lost: str = ""  # Why there is no answer: the worker died, its node is gone, its memory did not do


class Executor(Protocol):
    """Executes tasks, several at a time; all of it is called from one thread."""

    def refuses(self, cell: FleetCell, num_gpus: float = 0.0) -> str:
        """Why it can never execute a cell that takes so many GPUs (no node offers it), in words; empty where it can."""

    def takes(self, task: Task) -> bool:
        """Whether it would begin a task now, or soon: back-pressure."""

    def start(self, task: Task) -> None:
        """Begin a task."""

    def answered(self, seconds: float) -> Sequence[Answered]:
        """What was answered; waits for the first answer for at most so long."""

    def close(self) -> None:
        """End what is under way: nothing is left running."""
