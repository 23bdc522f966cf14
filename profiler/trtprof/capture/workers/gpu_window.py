"""The profiled window: so many inferences, each within an NVTX range, seen by a collector and nothing besides."""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from trtprof.base.errors import CaptureError, MissingError
from trtprof.base.trace_file import save_trace
from trtprof.capture.gpu_record import ITERATION_RANGE, CollectorName
from trtprof.capture.workers.inference import say

if TYPE_CHECKING:
    from trtprof.capture.cupti.activity import Collection

_DRIVER = "libcuda.so.1"
_NOT_MARKED = "the profiled inferences cannot be marked off for the profiler"
_TRY_FIRST = "run the model without a profiler first: its error says more"
NO_COLLECTOR = "no collector watched the GPU"
NO_RANGES = (
    "the package nvtx is not installed: profiled inferences have no range of their own (pip install nvtx gives it)"
)


class Watch:
    """What sees the profiled inferences: CUPTI in this process, or a profiler around it that the driver switches.

    With neither it sees nothing.
    """

    def __init__(self, collection: Collection | None = None, driver: Any = None) -> None:
        self._collection, self._driver = collection, driver
        self.notes: tuple[str, ...] = () if collection or driver else (NO_COLLECTOR,)

    def start(self) -> None:
        if self._collection is not None:
            self._collection.start()
        self._call("cuProfilerStart")

    def stop(self) -> None:
        """See no more; the work must be done."""
        if self._collection is not None:
            self._collection.stop()
        self._call("cuProfilerStop")

    def _call(self, name: str) -> None:
        code = int(getattr(self._driver, name)()) if self._driver else 0
        if code:
            raise CaptureError(
                _NOT_MARKED, why=f"{name} answered with error {code} (CUresult in cuda.h)", fix=_TRY_FIRST
            )

    def save(self, folder: Path) -> None:
        """Leave what was seen in the run folder, as far as it is here."""
        if self._collection is not None:
            say("reading the capture")
            save_trace(self._collection.trace(), folder)

    def ahead_ns(self, rounds: int = 16) -> tuple[int, int] | None:
        """What the collector's clock is ahead of the system's (``time.time_ns``), and how far off that may be, in ns.

        None where its clock is not to be had here.
        """
        best: tuple[int, int] | None = None
        for _ in range(rounds if self._collection is not None else 0):
            before = time.time_ns()
            theirs = self._collection.now_ns()  # type: ignore[union-attr]
            after = time.time_ns()
            # The system's clock may be set back in between.
            if after >= before and (best is None or after - before < 2 * best[1]):
                best = theirs - (before + after) // 2, (after - before + 1) // 2
        return best


Watching = Callable[[], AbstractContextManager[Watch]]
"""Makes a watch, and takes it down again."""


@contextlib.contextmanager
def watching(collector: CollectorName, *, nvtx: bool) -> Iterator[Watch]:
    """What a request asks for to watch the profiled inferences.

    It must be entered before the first NVTX call of any library in this process.
    """
    if collector == "cupti":
        from trtprof.capture.cupti import activity as cupti

        if nvtx:
            os.environ.update(cupti.injection_environment())
        with cupti.collecting(nvtx=nvtx) as collection:
            yield Watch(collection)
    elif collector == "nsys":
        try:
            driver = ctypes.CDLL(_DRIVER)
        except OSError as error:
            fix = "install the driver; in a container, run it with --gpus all"
            raise MissingError(_NOT_MARKED, why=f"there is no NVIDIA driver: {error}", fix=fix) from None
        yield Watch(driver=driver)
    else:
        yield Watch()


class Seen(NamedTuple):
    """The profiled inferences."""

    bounds: npt.NDArray[np.int64]  # int64 ``[inferences, 2]``: begin and end of each by ``time.time_ns``
    begin_ns: int  # `time.monotonic_ns` before the first
    end_ns: int  # The same behind the last
    notes: tuple[str, ...]  # What is to be said of them

    @property
    def run_ns(self) -> npt.NDArray[np.int64]:
        """How long each took, in ns."""
        return self.bounds[:, 1] - self.bounds[:, 0]


def profile_window(watch: Watch, infer: Callable[[], Any], runs: int) -> Seen:
    """Run so many inferences while the watch sees them, each within an NVTX range `ITERATION_RANGE`."""
    begin_range, end_range, notes = _ranges()
    bounds = np.zeros((runs, 2), dtype=np.int64)
    watch.start()
    begin = time.monotonic_ns()
    for run in range(runs):
        bounds[run, 0] = time.time_ns()
        marked = begin_range()
        infer()
        end_range(marked)
        bounds[run, 1] = time.time_ns()
    end = time.monotonic_ns()
    watch.stop()
    return Seen(bounds, begin, end, (*watch.notes, *notes))


def _ranges() -> tuple[Callable[[], Any], Callable[[Any], Any], tuple[str, ...]]:
    """How to begin and to end the range of an inference, and what is to be said of it."""
    try:
        import nvtx
    except ImportError:
        return (lambda: None), (lambda _marked: None), (NO_RANGES,)
    return (lambda: nvtx.start_range(ITERATION_RANGE)), nvtx.end_range, ()
