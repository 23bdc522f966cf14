"""Times of single kernels on a GPU: the caller's side of `_timed`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from trtprof.base.errors import CaptureError, MissingError
from trtprof.base.progress import Line, Progress, unheard
from trtprof.base.records import LiveGpu
from trtprof.base.scratch import scratch_folder
from trtprof.hardware.cuda import calibrate
from trtprof.hardware.cuda._exchange import KernelShape, KernelsMeasured, KernelsRequest
from trtprof.runtime import child

Measure = Callable[[KernelsRequest], KernelsMeasured]


class KernelTimes(NamedTuple):
    """What was timed."""

    times_ns: dict[int, float]  # By place among the shapes
    measured: KernelsMeasured | None  # What is to be said of it; None where the process did not come to its end
    stopped: MissingError | CaptureError | KeyboardInterrupt | None = None  # Why not


def time_kernels(
    gpu: LiveGpu,
    shapes: Sequence[KernelShape],
    *,
    progress: Progress | None = None,
    seconds: float,
    measure: Measure | None = None,
) -> KernelTimes:
    """Time kernels on a GPU, in this order, until the time is up; by default in a child process."""
    say = progress or unheard
    say(Line(f"timing {len(shapes)} kernels on {gpu.name}", seconds + 10))
    with scratch_folder() as folder:
        file = folder / "rows"
        file.touch()
        asked = calibrate.request(gpu, seconds)
        request = KernelsRequest(**msgspec.structs.asdict(asked), shapes=tuple(shapes), rows_file=str(file))
        measured: KernelsMeasured | None = None
        stopped: MissingError | CaptureError | KeyboardInterrupt | None = None
        try:
            measured = (measure or measure_in_child)(request)
        except (MissingError, CaptureError, KeyboardInterrupt) as error:
            stopped = error
        return KernelTimes(_read(file, len(shapes)), measured, stopped)


def _read(file: Path, count: int) -> dict[int, float]:
    """The times that are written in full."""
    found = {}
    for line in file.read_text(encoding="ascii", errors="replace").splitlines(keepends=True):
        place, _, ns = line.partition(" ")
        if line.endswith("\n") and place.isdigit() and int(place) < count:
            found[int(place)] = float(ns)
    return found


def measure_in_child(wanted: KernelsRequest) -> KernelsMeasured:
    """Time kernels in a fresh Python process."""
    return child.ask(
        "trtprof.hardware.cuda._timed",
        wanted,
        KernelsMeasured,
        what=f"the timing of kernels on GPU {wanted.nvml_index}",
        fix=calibrate.FIX,
        within_s=wanted.seconds + calibrate.GRACE_SECONDS,
        variables=calibrate.environment(wanted),
    )
