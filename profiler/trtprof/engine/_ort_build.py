"""Makes a session of ONNX Runtime in a process of its own and leaves its graph: a model that kills it kills no more."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import msgspec

from trtprof.base.machine_errors import as_error
from trtprof.base.output_file import replace_file
from trtprof.runtime import child
from trtprof.runtime.ort_session import Placement, SessionRequest, make_session, placements


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A session, where to leave its graph, and where what is told of it."""

    session: SessionRequest
    saved: str
    told: str


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """What is told of a session."""

    build_ns: int
    threads: int
    placements: tuple[Placement, ...] = ()


def made(request: Request) -> Made:
    """Make the session."""
    began = time.perf_counter_ns()
    session = make_session(request.session, save_to=request.saved)
    build_ns = time.perf_counter_ns() - began
    threads = session.get_session_options().intra_op_num_threads
    found = placements(session) if request.session.provider != "cpu" else ()
    return Made(build_ns=build_ns, threads=threads, placements=found)


def main(argv: list[str]) -> int:
    """Entry point of the child; returns its exit code."""
    request = msgspec.json.decode(Path(argv[1]).read_bytes(), type=Request)
    told = Path(request.told)
    try:
        replace_file(told, msgspec.json.encode(made(request)))
    except Exception as error:
        found = as_error(error)
        if found is None:
            raise
        return child.leave(told, found)
    return 0


if __name__ == "__main__":
    child.end_with_parent()
    sys.exit(main(sys.argv))
