"""The process that answers tasks on this machine: ``python -m trtprof.flows.fleet.local_worker``."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from trtprof.base.records import FleetRow
from trtprof.flows.fleet.contents import content_of
from trtprof.flows.fleet.execute import Task
from trtprof.flows.fleet.work import answer, failed
from trtprof.runtime import child


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A line that it is asked."""

    task: Task  # See `work.answer`
    scratch: str  # See `work.answer`


def answered(task: Task, scratch: Path) -> tuple[FleetRow, ...]:
    """See `work.answer`; a model that is no more what its cells are addressed by has no answer under their keys."""
    rows = _changed(task)
    if rows:
        return rows
    rows = answer(task, scratch)
    return _changed(task) or rows


def _changed(task: Task) -> tuple[FleetRow, ...]:
    cell = task.cells[0]
    if content_of(Path(cell.path)).sha256 == cell.sha256:
        return ()
    return failed(
        task,
        "source",
        f"{cell.path} is not what it was when the fleet was planned",
        why="it was changed, or is gone; a cell is addressed by the content of its model",
        fix="run the same command again: it asks of the model as it is then",
    )


def _answer(line: bytes) -> tuple[FleetRow, ...]:
    request = msgspec.json.decode(line, type=Request)
    return answered(request.task, Path(request.scratch))


if __name__ == "__main__":
    sys.exit(child.converse(lambda lines: map(_answer, lines)))
