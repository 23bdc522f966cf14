"""A run that is resumed keeps what it has; what cannot be read is removed, and made again."""

from __future__ import annotations

from collections.abc import Callable

from google.protobuf.message import DecodeError

from trtprof.base import run_folder
from trtprof.base.errors import TrtprofError
from trtprof.base.kernel_counters import COUNTERS_FILE, Counters
from trtprof.base.records import Capture, Ceilings, Device, Engine
from trtprof.base.run_folder import RunFolder
from trtprof.base.trace_file import load_trace
from trtprof.capture.gpu_record import GpuArtefact, GpuCapture, PlanArtefact
from trtprof.engine.inspector import read_layer_info
from trtprof.engine.onnxruntime import ENGINE_GRAPH, layers_from_file
from trtprof.expected import Measured

_ALONE: dict[str, type] = {
    run_folder.CEILINGS: Ceilings,
    run_folder.DEVICE: Device,
    run_folder.MEASURED: Measured,
    COUNTERS_FILE: Counters,
}
"""Artefacts that no other one was made of."""


def remove_unreadable(folder: RunFolder, say: Callable[[str], None]) -> None:
    """Remove artefacts that cannot be read and what was made of them; say so in one line."""
    broken = [name for name, kind in _ALONE.items() if not _readable(lambda: _read(folder, name, kind))]  # noqa: B023
    if not _readable(lambda: _read_engine(folder)):
        broken += [run_folder.ENGINE, run_folder.GPU, run_folder.PLAN, ENGINE_GRAPH, run_folder.CAPTURE]
    elif not _readable(lambda: _read_capture(folder)):
        broken.append(run_folder.CAPTURE)
    for name in broken:
        folder.file(name).unlink(missing_ok=True)
    if broken:
        say(f"{', '.join(broken)} cannot be read, or are made of what cannot: made again")


def _readable(read: Callable[[], None]) -> bool:
    try:
        read()
    except (TrtprofError, DecodeError):
        return False
    return True


def _read(folder: RunFolder, name: str, kind: type) -> None:
    if folder.has(name):
        folder.read(name, kind)


def _read_engine(folder: RunFolder) -> None:
    _read(folder, run_folder.ENGINE, Engine)
    _read(folder, run_folder.GPU, GpuArtefact)
    if folder.has(run_folder.PLAN):
        read_layer_info(folder.file(folder.read(run_folder.PLAN, PlanArtefact).layers_file))
    if folder.has(ENGINE_GRAPH):
        layers_from_file(folder.file(ENGINE_GRAPH))


def _read_capture(folder: RunFolder) -> None:
    if not folder.has(run_folder.CAPTURE):
        return
    on_gpu = folder.has(run_folder.GPU)
    folder.read(run_folder.CAPTURE, GpuCapture if on_gpu else Capture)
    if on_gpu:
        load_trace(folder.path)
    for name in (run_folder.LATENCY, *(() if on_gpu else (run_folder.KERNELS,))):
        folder.table(name)
