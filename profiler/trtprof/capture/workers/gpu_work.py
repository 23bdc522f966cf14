"""What the workers of a GPU share: timers, inputs that take turns, one timed inference, and the phase ``clean``."""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from trtprof.base.errors import BuildError, CaptureError, MissingError
from trtprof.base.latency import latency_of
from trtprof.base.output_file import replaced
from trtprof.base.records import ModeTimes, TensorCheck
from trtprof.capture.gpu_record import TIME_COLUMNS, CleanTimes, GpuWorkerRequest, ProfiledTimes
from trtprof.capture.workers.inference import LATENCY_FILE, say, warm_up
from trtprof.runtime import child
from trtprof.runtime.ort_session import clean_message

Arrays = dict[str, npt.NDArray[Any]]
Times = tuple[int, int, int, int, int]
"""Of one inference, in ns: `TIME_COLUMNS` less the mode."""

MAX_COPIES = 1024
"""Of the inputs, however small these are: each has a binding of its own."""

Request = TypeVar("Request", bound=GpuWorkerRequest)
Slot = TypeVar("Slot")


def run_phase(
    argv: list[str],
    kind: type[Request],
    clean: Callable[[Request], CleanTimes],
    profiled: Callable[[Request], ProfiledTimes],
) -> int:
    """Do what the request asks for, whose file is the argument of the worker; returns the exit code."""
    return child.answer(argv, kind, lambda asked: clean(asked) if asked.phase == "clean" else profiled(asked))


# --- inputs that take turns -----------------------------------------------------------------


class Copies(NamedTuple):
    """Copies of the inputs, which take turns."""

    number: int  # How many
    size: int  # Bytes of one
    notes: tuple[str, ...] = ()  # What is to be said of it


def copies_for(request: GpuWorkerRequest, feeds: Arrays) -> Copies:
    """One copy of the inputs; with ``cold_l2`` as many as `copies_beyond` says."""
    size = sum(array.nbytes for array in feeds.values())
    if not request.cold_l2:
        return Copies(1, size)
    count, notes = copies_beyond(size, request.l2_bytes)
    return Copies(count, size, tuple(notes))


def copies_beyond(size: int, l2_bytes: int) -> tuple[int, list[str]]:
    """How many copies of the inputs must take turns for the L2 cache to have lost each when it is its turn again."""
    if l2_bytes <= 0:
        raise CaptureError(
            "inputs cannot be kept out of the L2 cache",
            why="the size of the cache is not known",
            fix="leave --cold-l2 away, or name the GPU",
        )
    notes = ["inputs come from DRAM (--cold-l2); weights do not take turns, so those that fit stay in the L2 cache"]
    if size == 0:
        return 1, ["there is nothing to keep out of the L2 cache: the model has no inputs"]
    wanted = max(2 * l2_bytes // size + 1, 2)
    if wanted > MAX_COPIES:
        held = MAX_COPIES * size
        notes.append(f"{MAX_COPIES} copies of the inputs are {held} bytes, less than twice the L2 cache: they may stay")
    return min(wanted, MAX_COPIES), notes


# --- timers ---------------------------------------------------------------------------------


class Cuda:
    """CUDA's runtime through cuda-bindings, on one GPU: a call that fails is an error in words.

    Attributes:
        runtime: The module ``cuda.bindings.runtime``.
        device: The GPU.
    """

    def __init__(self, device: int) -> None:
        """Choose the GPU."""
        from cuda.bindings import runtime

        self.runtime = runtime
        self.device = device
        try:
            self.call("be used", runtime.cudaSetDevice(device))
        except CaptureError as error:
            raise MissingError(f"GPU {device} cannot be used", why=error.why, fix="check it with nvidia-smi") from None

    def call(self, what: str, result: tuple[Any, ...], fix: str = "check the GPU with nvidia-smi") -> Any:
        """What a call gave besides its error code.

        Args:
            what: What the GPU was to do, in words: ``copy the inputs``.
        """
        error, *values = result
        if int(error) != 0:
            raise CaptureError(f"the GPU cannot {what}", why=f"CUDA: {self.said(error)}", fix=fix)
        return values[0] if values else None

    def said(self, error: Any) -> str:
        """An error code in CUDA's words."""
        _, text = self.runtime.cudaGetErrorString(error)
        return text.decode() if isinstance(text, bytes) else str(text)


class EventTimer:
    """CUDA events on ``stream``, one of its own, which the session works on; for one inference at a time."""

    def __init__(self, cuda: Cuda) -> None:
        self._cuda, self._runtime = cuda, cuda.runtime
        flags = self._runtime.cudaStreamNonBlocking
        self._stream = self._call(self._runtime.cudaStreamCreateWithFlags(flags))
        self._begin, self._end = (self._call(self._runtime.cudaEventCreate()) for _ in range(2))
        self.stream = int(self._stream)

    def begin(self) -> None:
        self._call(self._runtime.cudaEventRecord(self._begin, self._stream))

    def end(self) -> None:
        self._call(self._runtime.cudaEventRecord(self._end, self._stream))

    def elapsed_ns(self) -> int:
        """Wait for the end, and tell the time in between; CUDA events tell ms, to about half a microsecond."""
        self._call(self._runtime.cudaEventSynchronize(self._end))
        return round(float(self._call(self._runtime.cudaEventElapsedTime(self._begin, self._end))) * 1e6)

    def close(self) -> None:
        for event in (self._begin, self._end):
            self._runtime.cudaEventDestroy(event)
        self._runtime.cudaStreamDestroy(self._stream)

    def _call(self, result: tuple[Any, ...]) -> Any:
        return self._cuda.call("be timed", result)


@contextlib.contextmanager
def event_timer(cuda: Cuda) -> Iterator[EventTimer]:
    """A timer by CUDA events, given back at the end."""
    timer = EventTimer(cuda)
    try:
        yield timer
    finally:
        timer.close()


# --- one inference --------------------------------------------------------------------------


class Runner(ABC, Generic[Slot]):
    """Inferences with slots that take turns: each holds a copy of the inputs and the outputs on the device."""

    names: list[str]  # of the outputs

    def __init__(self, timer: EventTimer | None) -> None:
        """Take what times the work; without, the session waits for its work, and the host's clock tells."""
        self._timer = timer
        self._slots: list[Slot] = []
        self._turn = 0

    @abstractmethod
    def prepare(self, slot: Slot) -> None:
        """What comes before an inference and takes no part in it."""

    @abstractmethod
    def copy_in(self, slot: Slot) -> None:
        """Copy the inputs to the device, and wait for it."""

    @abstractmethod
    def run(self, slot: Slot) -> None:
        """Enqueue the inference; without a timer wait for it, too."""

    @abstractmethod
    def copy_out(self, slot: Slot) -> None:
        """Copy the outputs to the host, and wait for it."""

    @abstractmethod
    def read(self, slot: Slot) -> list[Any]:
        """The outputs as arrays of the host, in the order of `names`."""

    def infer(self) -> Times:
        """Copy inputs to the device, run with those of the next slot, copy its outputs back.

        Returns:
            Latency, copies to the device, compute, copies back and enqueuing, in ns; see `TIME_COLUMNS`.
        """
        slot, written = self._slots[self._turn], self._slots[self._turn - 1]
        self._turn = (self._turn + 1) % len(self._slots)
        self.prepare(slot)
        clock = time.perf_counter_ns
        began = clock()
        self.copy_in(written)
        copied = clock()
        if self._timer:
            self._timer.begin()
        self.run(slot)
        if self._timer:
            self._timer.end()
        enqueued = clock()
        compute = self._timer.elapsed_ns() if self._timer else None
        done = clock()
        self.copy_out(slot)
        ended = clock()
        if compute is None:
            return ended - began, copied - began, done - copied, ended - done, 0
        return ended - began, copied - began, compute, ended - done, enqueued - copied

    def time(self, iterations: int, duration_s: float) -> Any:
        """At least so many inferences and so many seconds, as in trtexec: `TIME_COLUMNS` less the mode, a frame."""
        import pandas as pd

        rows: list[Times] = []
        end = time.perf_counter_ns() + int(duration_s * 1e9)
        while len(rows) < max(iterations, 1) or time.perf_counter_ns() < end:
            rows.append(self.infer())
        return pd.DataFrame(rows, columns=list(TIME_COLUMNS[1:]))

    def outputs(self) -> list[Any]:
        """What the next slot gives for its inputs, on the host."""
        slot = self._slots[self._turn]
        self.infer()
        return self.read(slot)


# --- the phase ``clean`` --------------------------------------------------------------------


class Modes(Protocol):
    """How a worker runs inferences."""

    @property
    def copies(self) -> Copies:
        """Of the inputs."""

    @property
    def timer(self) -> EventTimer | None:
        """What times the runners."""

    def stream(self) -> Runner[Any]:
        """A runner that enqueues every inference on a stream."""

    def graph(self) -> Runner[Any]:
        """A runner that replays a CUDA graph; that of `stream` is no longer used."""

    def checks(self, runner: Runner[Any]) -> tuple[TensorCheck, ...]:
        """The outputs held against those of another provider."""


def measure_clean(request: GpuWorkerRequest, modes: Modes, notes: Callable[[], tuple[str, ...]] = tuple) -> CleanTimes:
    """Time inferences with no profiler; leave the raw samples."""
    import pandas as pd

    say("clean latency")
    runner = modes.stream()
    checks = modes.checks(runner) if request.verify else ()
    warmups = warm_up(runner.infer, request.warmup_ms)
    begin = time.monotonic_ns()
    samples = {"stream": runner.time(request.iterations, request.duration_s)}
    end = time.monotonic_ns()
    del runner
    refusal = ""
    if request.cuda_graph:
        say("clean latency with a CUDA graph")
        refusal = _time_graph(request, modes, samples)
    table = pd.concat([frame.assign(mode=mode) for mode, frame in samples.items()], ignore_index=True)
    table["mode"] = table["mode"].astype("category")
    with replaced(Path(request.folder) / LATENCY_FILE) as beside:
        table[list(TIME_COLUMNS)].to_parquet(beside, index=False)
    return CleanTimes(
        warmup_iterations=warmups,
        modes=tuple(_mode_times(mode, frame) for mode, frame in samples.items()),
        timed_by="cuda events" if modes.timer else "host clock",
        copies=modes.copies.number,
        copy_bytes=modes.copies.size,
        no_cuda_graph=refusal,
        checks=checks,
        begin_ns=begin,
        end_ns=end,
        notes=(*modes.copies.notes, *notes()),
    )


def _time_graph(request: GpuWorkerRequest, modes: Modes, samples: dict[str, Any]) -> str:
    """Add the times with a CUDA graph to the samples; else return why there is none."""
    try:
        runner = modes.graph()
        warm_up(runner.infer, request.warmup_ms)
        samples["cuda graph"] = runner.time(request.iterations, request.duration_s)
    except MissingError:
        raise
    except (BuildError, CaptureError) as error:
        return error.why or error.what
    except Exception as error:
        return clean_message(error)
    return ""


def _mode_times(mode: Any, frame: Any) -> ModeTimes:
    medians = {
        column: round(float(np.median(frame[column].to_numpy())))
        for column in ("h2d_ns", "compute_ns", "d2h_ns", "enqueue_ns")
    }
    return ModeTimes(mode=mode, latency=latency_of(frame["latency_ns"].to_numpy()), **medians)
