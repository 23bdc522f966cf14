"""A run that is gone on with keeps what it has, but for what cannot be read: that is set aside, and made again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from trtprof.base import run_folder
from trtprof.base.errors import TrtprofError, UsageError
from trtprof.base.kernel_counters import COUNTERS_FILE, Counters
from trtprof.base.records import Capture, Ceilings, Device, Engine, Source, Tried
from trtprof.base.records.plugin import PluginBenches
from trtprof.base.run_folder import Request, RunFolder, Tags
from trtprof.base.trace_file import FACTS_FILE, load_trace
from trtprof.capture.gpu_record import NODE_EVENTS_FILE, GpuArtefact, GpuCapture, PlanArtefact
from trtprof.engine.inspector import read_layer_info
from trtprof.engine.onnxruntime import ENGINE_GRAPH, layers_from_file
from trtprof.expected import Measured

BROKEN = ".broken-"
"""What the names of artefacts begin with that could not be read."""

_ENGINE = (run_folder.ENGINE, ENGINE_GRAPH, run_folder.PLAN)
_CAPTURE = (run_folder.CAPTURE, run_folder.LATENCY, run_folder.KERNELS, NODE_EVENTS_FILE)
_ALONE: dict[str, type] = {
    run_folder.SOURCE: Source,
    run_folder.CEILINGS: Ceilings,
    run_folder.DEVICE: Device,
    run_folder.MEASURED: Measured,
    COUNTERS_FILE: Counters,
    run_folder.TRIED: Tried,
    run_folder.BENCH: PluginBenches,
    run_folder.TAGS: Tags,
}
"""Artefacts that no other one was made of."""


def set_broken_aside(folder: RunFolder, say: Callable[[str], None]) -> None:
    """Give artefacts that cannot be read another name, with those that were made of them; tells of it in one line."""
    if _unreadable(lambda: folder.read(run_folder.REQUEST, Request)):
        # What was asked is not known: nothing that is there answers what is asked now.
        broken = [run_folder.REQUEST]
        aside = [run_folder.REQUEST, run_folder.GPU, *_ENGINE, *_CAPTURE, *_ALONE]
    else:
        broken = [name for name, kind in _ALONE.items() if folder.exists(name) and not _is(folder, name, kind)]
        aside = list(broken)
        if found := list(_broken_before_capture(folder)):
            aside += [*found, *_ENGINE, *_CAPTURE]
        elif found := list(_broken_capture(folder)):
            aside += [*found, *_CAPTURE]
        broken += found
    for name in dict.fromkeys(aside):
        if folder.exists(name):
            folder.rename(name, f"{BROKEN}{name}")
    if broken:
        say(f"{', '.join(broken)} cannot be read: kept as {BROKEN}..., and made again with what was made of it")


def _broken_before_capture(folder: RunFolder) -> Iterator[str]:
    """What a capture is of: the engine, and the GPU."""
    reads: dict[str, Callable[[], object]] = {
        run_folder.ENGINE: lambda: folder.read(run_folder.ENGINE, Engine),
        run_folder.GPU: lambda: folder.read(run_folder.GPU, GpuArtefact),
        run_folder.PLAN: lambda: _plan(folder),
        ENGINE_GRAPH: lambda: _graph(folder.file(ENGINE_GRAPH)),
    }
    return (name for name, read in reads.items() if folder.exists(name) and _unreadable(read))


def _broken_capture(folder: RunFolder) -> Iterator[str]:
    if not folder.exists(run_folder.CAPTURE):
        return
    # The capture said that it was whole: what is not there was lost.
    on_gpu = folder.has(run_folder.GPU)
    if not _is(folder, run_folder.CAPTURE, GpuCapture if on_gpu else Capture):
        yield run_folder.CAPTURE
    if on_gpu and _unreadable(lambda: load_trace(folder.path)):
        yield FACTS_FILE
    events = (NODE_EVENTS_FILE,) if folder.exists(NODE_EVENTS_FILE) else ()
    for name in (run_folder.LATENCY, *(events if on_gpu else (run_folder.KERNELS,))):
        if _unreadable(partial(folder.table, name)):
            yield name


def _is(folder: RunFolder, name: str, kind: type) -> bool:
    return not _unreadable(partial(folder.read, name, kind))


def _unreadable(read: Callable[[], object]) -> bool:
    try:
        read()
    except TrtprofError:
        return True
    return False


def _plan(folder: RunFolder) -> None:
    read_layer_info(folder.file(folder.read(run_folder.PLAN, PlanArtefact).layers_file))


def _graph(path: Path) -> None:
    try:
        found = layers_from_file(path)
    except Exception as error:  # protobuf has an error of its own
        raise UsageError(f"{path} cannot be read", why=str(error)) from None
    if not found:
        raise UsageError(f"{path} cannot be read", why="there is no layer in it")
