"""Answers tasks as `trtprof.flows.fleet.local_worker` does, or dies or hangs as the name of the model says."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time

import msgspec

from trtprof.base.records import FleetRow
from trtprof.flows.fleet.local_worker import Request
from trtprof.flows.fleet.work import failed
from trtprof.runtime import child


def answer(line: bytes) -> list[FleetRow]:
    """A failed row for each cell, whose log is not empty, unless the model is called ``segfault``, ``hang``, ..."""
    request = msgspec.json.decode(line, type=Request)
    name = request.task.cells[0].model
    if name == "segfault":
        ctypes.string_at(0)
    if name == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "hang":
        time.sleep(60)
    if name == "exit":
        sys.stderr.write("ImportError: no such thing\n")
        sys.stderr.flush()
        os._exit(3)
    if name == "noise":
        sys.stdout.write("a library prints\n")
        os.write(1, b'{"not": "an answer"}\n')
    if name == "slow":
        time.sleep(0.3)
    (row,) = failed(request.task, "fake", str(os.environ.get("OMP_NUM_THREADS")))
    return [msgspec.structs.replace(row, log="x" * (200_000 if name == "much" else 1))]


if __name__ == "__main__":
    sys.exit(child.converse(lambda lines: map(answer, lines)))
