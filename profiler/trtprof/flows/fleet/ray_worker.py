"""What runs on the nodes of a Ray cluster: tasks come as JSON, and so do rows; see `on_ray`.

These functions travel by their names, so that a node runs what is installed there.
"""

from __future__ import annotations

import os
import platform
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import msgspec

from trtprof import __version__
from trtprof.base.errors import TrtprofError
from trtprof.base.records import FleetCell, FleetRow
from trtprof.flows.fleet import travel
from trtprof.flows.fleet.contents import content_of
from trtprof.flows.fleet.execute import Task
from trtprof.flows.fleet.work import RUN, answer

TOKEN = ".shared"  # noqa: S105 - the name of a file
"""File of the folder that run folders go to; who can read it there shares the file system."""


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of a worker."""

    trtprof: str  # The version that asks
    tasks: tuple[Task, ...]  # One after the other
    runs: str = ""  # The folder that run folders go to, where it is shared
    token: str = ""  # What its `TOKEN` says


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker says."""

    # ``here``: it begins. ``rows``: a task is answered. ``lacks``: it has not got the model. ``lost``: it could not
    # answer.
    kind: Literal["here", "rows", "lacks", "lost"]
    node: str = ""  # Ray's name of the node
    host: str = ""  # Its own
    process: int = 0  # Its number
    rows: tuple[FleetRow, ...] = ()  # Of a task
    run: str = ""  # Name of its run folder in the shared one
    pieces: int = 0  # How many pieces of an archive of its run folder follow
    why: str = ""  # It is lost


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """What is installed on a node."""

    trtprof: str
    host: str


Sent = Mapping[str, Sequence[tuple[str, Sequence[Any]]]]
"""Models that travel, by content: names of files, and references to their pieces."""


def probe() -> bytes:
    """A `Probe`."""
    return msgspec.json.encode(Probe(trtprof=__version__, host=platform.node()))


def whole(ask: bytes, models: Sent) -> list[bytes]:
    """All of `stream` at once, for connections that carry no streams."""
    return list(stream(ask, models))


def stream(ask: bytes, models: Sent) -> Iterator[bytes]:
    """Answer tasks."""
    import ray

    asked = msgspec.json.decode(ask, type=Ask)
    node = ray.get_runtime_context().get_node_id()
    yield _encoded(Reply(kind="here", node=node, host=platform.node(), process=os.getpid()))
    for task in asked.tasks:
        if asked.trtprof != __version__:
            why = f"{platform.node()} has trtprof {__version__}, {asked.trtprof} is asked"
            yield _encoded(Reply(kind="lost", why=why))
            continue
        yield from _answered(task, asked, models)


def _answered(task: Task, asked: Ask, models: Sent) -> Iterator[bytes]:
    from ray.exceptions import RayError

    folder = travel.NodeFolder()
    with ExitStack() as stack:
        try:
            scratch = stack.enter_context(folder.scratch())
            model = _model(task.cells[0], models, folder, stack)
        except KeyError:
            yield _encoded(Reply(kind="lacks"))
            return
        except (OSError, ValueError, RayError, TrtprofError) as error:
            said = str(error).strip().splitlines() or [type(error).__name__]
            yield _encoded(Reply(kind="lost", why=f"the model did not reach {platform.node()}: {said[0]}"))
            return
        asked_of = scratch / "task"
        asked_of.mkdir()
        rows = answer(task, asked_of, model)
        if model is None and not _is_here(task.cells[0]):
            # It was changed meanwhile.
            yield _encoded(Reply(kind="lacks"))
            return
        run = asked_of / RUN
        if not run.is_dir():
            yield _encoded(Reply(kind="rows", rows=rows))
        elif _shared(asked):
            name = uuid.uuid4().hex
            beside = Path(asked.runs) / f"{name}.part"
            shutil.copytree(run, beside)
            beside.rename(beside.with_suffix(""))
            yield _encoded(Reply(kind="rows", rows=rows, run=name))
        else:
            archive = scratch / "run.zip"
            travel.pack(run, archive)
            pieces = -(-archive.stat().st_size // travel.CHUNK_BYTES)
            yield _encoded(Reply(kind="rows", rows=rows, pieces=pieces))
            yield from travel.pieces_of(archive)


def _model(cell: FleetCell, models: Sent, folder: travel.NodeFolder, stack: ExitStack) -> Path | None:
    """Where the model is; None where it is as the cell says."""
    if _is_here(cell):
        return None
    files = [(name, _pieces(references)) for name, references in models[cell.sha256]]
    return stack.enter_context(folder.model(cell.sha256, Path(cell.path).name, files))


def _is_here(cell: FleetCell) -> bool:
    return content_of(Path(cell.path)).sha256 == cell.sha256


def _pieces(references: Sequence[Any]) -> travel.Pieces:
    import ray

    return lambda: (ray.get(reference) for reference in references)


def _shared(asked: Ask) -> bool:
    try:
        return bool(asked.token) and (Path(asked.runs) / TOKEN).read_text() == asked.token
    except OSError:
        return False


def _encoded(reply: Reply) -> bytes:
    return msgspec.json.encode(reply)
