"""The process that answers tasks on this machine: ``python -m profiler.flows.fleet.local_worker``."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from profiler.flows.fleet.execute import Task
from profiler.flows.fleet.work import answer
from profiler.runtime.workers import serve


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A line that it is asked.

    Attributes:
        task: See `work.answer`.
        scratch: See `work.answer`.
    """

    task: Task
    scratch: str


def _answer(line: bytes) -> bytes:
    request = msgspec.json.decode(line, type=Request)
    return msgspec.json.encode(answer(request.task, Path(request.scratch)))


if __name__ == "__main__":
    sys.exit(serve(_answer))
