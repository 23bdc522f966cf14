"""What the GPU did, recorded within the process by CUPTI's activity API (cupti-python): for where nsys is absent.

    os.environ.update(injection_environment())       # before the first NVTX call of any library
    with collecting() as collection:
        collection.start()
        run()
        collection.stop()
        trace = collection.trace()

CUPTI has one subscriber at a time in a process, so this excludes nsys, ncu and torch.profiler.

Facts of CUPTI's header (13.0) that the code relies on: times of records and `get_timestamp` are ns of one clock; an API
call has the correlation id of the kernel, copy or memset that it launches; the start and the end of an NVTX range are
two records with one id, of which the start has the name; a time of 0 was not recorded. That clock is the system's: with
CUPTI 13.0.85 and 13.5.25 (and no GPU) `get_timestamp` was Python's ``time.time_ns()`` to 0.4 us.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from trtprof.base.errors import CaptureError, MissingError
from trtprof.base.trace import GRAPH_COLUMNS, LAUNCH_COLUMNS, RANGE_COLUMNS, WORK_COLUMNS, GpuTrace
from trtprof.capture.cupti._errors import ONE_SUBSCRIBER, attempt, explained, second_profiler
from trtprof.capture.cupti._records import Records
from trtprof.capture.cupti._tables import (
    Threads,
    call_table,
    described_gpus,
    name_calls,
    note_lone_work,
    nvtx_ranges,
    work_table,
)
from trtprof.capture.nsys._tables import Columns, categories, forwards, frame_of, ordered
from trtprof.runtime.gc_paused import gc_paused

__all__ = [
    "INJECTION_VARIABLE",
    "Collection",
    "collecting",
    "injection_environment",
    "require",
    "unavailable",
]

INJECTION_VARIABLE = "NVTX_INJECTION64_PATH"
"""The library that NVTX loads at a library's first call and hands its events to."""
BUFFER_BYTES = 8 << 20
"""Size of CUPTI's buffers, as in NVIDIA's examples: 38,000 kernels each. One that is full is read at once, in a thread
of CUPTI; the rest is read when collecting stops."""

_KERNELS = "CONCURRENT_KERNEL"
_KINDS = {
    _KERNELS: "kernels",
    "MEMCPY": "copies",
    "MEMCPY2": "copies between GPUs",
    "MEMSET": "memsets",
    "RUNTIME": "calls of the CUDA runtime",
    "DRIVER": "calls of the CUDA driver",
    "DEVICE": "GPUs",
}
# Kernels first: without them there is no capture, whatever else can be enabled. MARKER_DATA, which has colour, category
# and payload of a marker, is not asked for: name and domain stand in the marker itself.
_NVTX_KIND = {"MARKER": "NVTX ranges"}

_LIBRARY = "cu*/lib/libcupti.so.*"
"""Where the wheels have it, within the package ``nvidia``: cu13 of nvidia-cuda-cupti, cuda_cupti of -cu12."""
_NO_WORK = (0, 3, 201)
"""CUDA_SUCCESS; and CUDA_ERROR_NOT_INITIALIZED and CUDA_ERROR_INVALID_CONTEXT, where there is nothing to wait for."""
_INSTALL = "pip install 'trtprof[cupti]'"
_busy = threading.Lock()


# --- can it be used here? -------------------------------------------------------------------


def unavailable() -> str:
    """Why CUPTI cannot be used in this process, in one line; empty where nothing is known to be in the way."""
    try:
        require()
    except (MissingError, CaptureError) as error:
        return error.why
    return ""


def injection_environment() -> dict[str, str]:
    """What must be in the environment before the first NVTX call for CUPTI to see NVTX ranges.

    Returns:
        ``NVTX_INJECTION64_PATH`` with the CUPTI library that cupti-python uses; nothing where another tool traces the
        process, the variable is set already or there is no such library.
    """
    library = _library()
    if second_profiler() or os.environ.get(INJECTION_VARIABLE) or library is None:
        return {}
    return {INJECTION_VARIABLE: str(library)}


def require() -> None:
    """See that CUPTI can be used in this process; neither CUDA nor CUPTI is initialised for it."""
    if importlib.util.find_spec("cupti") is None:
        raise MissingError("CUPTI cannot be used", why="the package cupti-python is not installed", fix=_INSTALL)
    if _library() is None:
        raise MissingError("CUPTI cannot be used", why="the package nvidia-cuda-cupti is not installed", fix=_INSTALL)
    other = second_profiler()
    if other:
        raise CaptureError("CUPTI cannot be used", why=other, fix="end the other profiler, or use what it records")
    try:
        _load_driver()
    except OSError:
        raise MissingError(
            "CUPTI cannot be used",
            why="there is no NVIDIA driver (libcuda.so.1)",
            fix="install the driver; in a container, run it with --gpus all",
        ) from None


def _load_driver() -> Any:
    return ctypes.CDLL("libcuda.so.1")


def _module() -> Any:
    """The module ``cupti.cupti``."""
    try:
        from cupti import cupti
    except ImportError as error:
        raise MissingError("CUPTI cannot be used", why=f"cupti-python does not load: {error}", fix=_INSTALL) from None
    return cupti


def _library() -> Path | None:
    """The CUPTI library of the wheel that cupti-python requires."""
    spec = importlib.util.find_spec("nvidia")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    found = [path for folder in folders for path in Path(folder).glob(_LIBRARY) if path.suffix[1:].isdecimal()]
    return max(found, key=lambda path: int(path.suffix[1:]), default=None)


# --- collecting -----------------------------------------------------------------------------


@contextmanager
def collecting(*, nvtx: bool = True, buffer_bytes: int = BUFFER_BYTES) -> Iterator[Collection]:
    """Become CUPTI's client in this process; nothing is recorded until `Collection.start`."""
    require()
    module = _module()
    if not _busy.acquire(blocking=False):
        raise CaptureError("CUPTI records already in this process", why=ONE_SUBSCRIBER, fix="end the first collection")
    try:
        collection = Collection(module, nvtx=nvtx, buffer_bytes=buffer_bytes)
        with gc_paused():
            try:
                yield collection
            finally:
                collection.close()
    finally:
        _busy.release()


class Collection:
    """Records of CUPTI, from `start` to `stop`, as often as wanted. Made by `collecting`."""

    def __init__(
        self,
        module: Any,
        *,
        nvtx: bool = True,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        """Register with CUPTI, which initialises it.

        Args:
            module: The module ``cupti.cupti``.
        """
        self._module = module
        self._records = Records(module)
        self._kinds = _KINDS | (_NVTX_KIND if nvtx else {})
        self._nvtx = nvtx
        self._enabled: list[str] = []
        self._refused: dict[str, str] = {}
        self._windows: list[tuple[int, int]] = []
        self._began: int | None = None
        self._dropped = 0
        with explained(module, "be initialised"):
            # The system's thread ids are those of nsys; the default ones are addresses.
            attempt(module, partial(module.set_thread_id_type, int(module.ActivityThreadIdType.SYSTEM)))
            module.activity_register_callbacks(lambda: (buffer_bytes, 0), self._records.add)

    def now_ns(self) -> int:
        """The time now, as the trace has times."""
        return int(self._module.get_timestamp())

    def start(self) -> None:
        """Begin to record."""
        if self._began is not None:
            raise RuntimeError("start() of a collection that records already")
        module = self._module
        for kind in self._kinds:
            enable = partial(module.activity_enable, int(getattr(module.ActivityKind, kind)))
            if kind == _KERNELS:
                with explained(module, "record kernels"):
                    enable()
            elif refusal := attempt(module, enable):
                self._refused[kind] = refusal
                continue
            self._enabled.append(kind)
        with explained(module, "tell the time"):
            self._began = self.now_ns()

    def stop(self) -> None:
        """Wait for the work of this thread's CUDA context, stop, and take over what was recorded.

        CUPTI has no record of a kernel that still runs: where work was launched in another context, that must be waited
        for first.
        """
        if self._began is None:
            raise RuntimeError("stop() of a collection that does not record")
        module = self._module
        code = int(_load_driver().cuCtxSynchronize())
        if code not in _NO_WORK:
            raise CaptureError(
                "the work on the GPU failed while it was recorded",
                why=f"cuCtxSynchronize answered with error {code} (CUresult in cuda.h)",
                fix="run the model without a profiler first: its error says more",
            )
        with explained(module, "deliver its records"):
            self._windows.append((self._began, self.now_ns()))
            self._began = None
            module.activity_flush_all(int(module.ActivityFlag.FLUSH_FORCED))
            self._disable()
            dropped = ctypes.c_size_t(0)
            # Of no context: CUPTI's header calls that the global queue.
            module.activity_get_num_dropped_records(0, 0, ctypes.addressof(dropped))
        self._dropped += dropped.value

    def close(self) -> None:
        """Stop recording for good: what was recorded since a `start` without `stop` is lost."""
        self._began = None
        with suppress(Exception):
            self._disable()

    def _disable(self) -> None:
        while self._enabled:
            self._module.activity_disable(int(getattr(self._module.ActivityKind, self._enabled.pop())))

    # --- the columns ------------------------------------------------------------------------

    def trace(self) -> GpuTrace:
        """All that was recorded between `start` and `stop`."""
        if self._records.failure is not None:
            raise CaptureError(
                "CUPTI's records cannot be read",
                why=f"{type(self._records.failure).__name__}: {self._records.failure}",
                fix=f"this is cupti-python {_version('cupti-python') or 'of an unknown version'}: try 13.0.1 or 13.4.0",
            )
        notes = [
            f"CUPTI does not record {self._kinds[kind]} here (CUPTI_{refusal})"
            for kind, refusal in self._refused.items()
        ]
        if self._dropped:
            notes.append(f"CUPTI dropped {self._dropped} records for want of memory: the capture is not whole")
        pid = os.getpid()
        threads = Threads(pid)
        work = work_table(self._records, pid, notes)
        calls = call_table(self._records, threads, notes)
        note_lone_work(work, calls, notes)
        ranges = self._ranges(threads, notes)
        if not any(len(table["start_ns"]) for table in (work, calls, ranges)):
            raise CaptureError(
                "CUPTI recorded nothing",
                why="no kernel, call or range came between start and stop",
                fix="check that the run uses the GPU, and does so within this process",
            )
        name_calls(self._module, calls)
        in_graphs = int((work["graph_node"] != 0).sum())
        if in_graphs:
            notes.append(
                f"{in_graphs} kernels, copies and memsets ran in CUDA graphs whose making was not recorded: which "
                "launch they were captured from is unknown"
            )
        nodes = {name: np.empty(0, np.int32 if name == "pid" else np.int64) for name in GRAPH_COLUMNS}
        if threads.numbered:
            notes.append("thread ids are numbers of the capture: CUPTI's do not fit nsys' form of them")
        return GpuTrace(
            work=frame_of(work, WORK_COLUMNS),
            launches=frame_of(calls, LAUNCH_COLUMNS),
            ranges=frame_of(ranges, RANGE_COLUMNS),
            graph_nodes=frame_of(nodes, GRAPH_COLUMNS),
            gpus=described_gpus(self._records),
            collector="cupti",
            version=", ".join(
                f"{name} {found}" for name in ("cupti-python", "nvidia-cuda-cupti") if (found := _version(name))
            ),
            window=(self._windows[0][0], self._windows[-1][1]) if self._windows else None,
            notes=tuple(notes),
        )

    def _ranges(self, threads: Threads, notes: list[str]) -> Columns:
        """NVTX ranges."""
        stopped = max((end for _, end in self._windows), default=0)
        ranges = nvtx_ranges(self._module, self._records, stopped, notes)
        if self._nvtx and not len(ranges["start_ns"]) and "MARKER" not in self._refused:
            notes.append(f"no NVTX ranges were captured{self._why_no_ranges()}")
        ranges["tid"] = threads.serials(ranges.pop("thread"))
        ranges = ordered(forwards(ranges, "NVTX ranges", notes))
        texts = dict(enumerate(self._records.texts))
        ranges["name"] = categories(ranges["name"], texts)
        ranges["domain"] = categories(ranges["domain"], texts)
        ranges["style"] = categories(ranges["style"], {0: "push_pop", 1: "start_end"}, every=True)
        ranges["pid"] = np.full(len(ranges["tid"]), threads.pid, dtype=np.int32)
        return ranges

    def _why_no_ranges(self) -> str:
        library = os.environ.get(INJECTION_VARIABLE, "")
        if "cupti" in Path(library).name:
            return ""
        return f": {INJECTION_VARIABLE} {f'is {library}, not' if library else 'did not name'} the library of CUPTI"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
