"""Saves the graph that ONNX Runtime makes of a model, in a process of its own: a model that kills it kills no more."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from trtprof.engine.onnxruntime import ENGINE_GRAPH
from trtprof.runtime import child
from trtprof.runtime.ort_session import SessionRequest, make_session

_DEADLINE_S = 3600.0


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A session, and the folder for its graph."""

    session: SessionRequest
    folder: str


def save_graph(session: SessionRequest, folder: Path) -> None:
    """Make a session, and leave its optimised graph in a folder as `ENGINE_GRAPH`, without its large weights."""
    request = Request(session=session, folder=str(folder))
    what = f"ONNX Runtime with {Path(session.model).name}"
    child.ask(
        "trtprof.engine.ort_graph",
        request,
        type(None),
        what=what,
        fix="leave it out",
        folder=folder,
        within_s=_DEADLINE_S,
    )


def save(request: Request) -> None:
    """Make the session."""
    make_session(request.session, save_to=str(Path(request.folder) / ENGINE_GRAPH))


def main(argv: list[str]) -> int:
    """Entry point of the child; returns its exit code."""
    return child.answer(argv, Request, save)


if __name__ == "__main__":
    child.end_with_parent()
    sys.exit(main(sys.argv))
