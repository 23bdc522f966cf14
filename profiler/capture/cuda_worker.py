"""The child process that times and profiles ONNX Runtime's CUDA provider: ``python -m profiler.capture.cuda_worker``.

It measures latency **without** any profiler, as a loop would be deployed that gets its inputs on the host: copies to
the GPU, the inference with inputs and outputs bound there, copies back; and the same again with a CUDA graph. Then it
runs the same inputs in a session with ONNX Runtime's profile on, and a collector around it.

The host's memory is pageable, as numpy has it: copies from pinned memory are faster.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np
import numpy.typing as npt
import onnx

from profiler import child
from profiler.capture import ort
from profiler.capture.collector import Collector, system_to_collector_ns
from profiler.capture.cuda_record import (
    NODE_EVENTS_FILE,
    TIME_COLUMNS,
    CudaCapture,
    CudaWorkerRequest,
    ModeTimes,
    TensorCheck,
)
from profiler.capture.inference import (
    CAPTURE_FILE,
    EVENT_LIMIT,
    LATENCY_FILE,
    first_run,
    make_inputs,
    reported,
    runs_to_profile,
    say,
    warm_up,
)
from profiler.capture.statistics import latency_of
from profiler.capture.verify import check_outputs
from profiler.errors import BuildError, CaptureError, MissingError
from profiler.gpu_trace_file import save_trace
from profiler.ort_session import (
    COPY_OPS,
    SessionRequest,
    clean_message,
    make_session,
    name_layers,
    require_cuda_provider,
)

Arrays = dict[str, npt.NDArray[Any]]
Collecting = Callable[[], AbstractContextManager[Collector]]
"""Makes a collector that can be started, and takes it down again."""

MAX_COPIES = 1024
"""Of the inputs, however small these are: each has a binding of its own."""
_GRAPH_RUNS = 3
"""Inferences before a CUDA graph is replayed: ONNX Runtime runs two to allocate, and captures in the next
(onnxruntime/core/providers/cuda/cuda_graph.h, ``min_num_runs_before_cuda_graph_capture_``)."""


def main(argv: list[str]) -> int:
    """Entry point of the child; returns its exit code."""
    request = msgspec.json.decode(Path(argv[1]).read_bytes(), type=CudaWorkerRequest)
    return reported(lambda: capture(request, _cupti if request.collector == "cupti" else None), request.scratch)


class _Cupti:
    """CUPTI's records, and its clock: that of the activity records, as `capture.cupti` says."""

    def __init__(self, collection: Any, module: Any) -> None:
        """Take a collection of `capture.cupti`, and the module ``cupti.cupti``."""
        self.start, self.stop, self.trace = collection.start, collection.stop, collection.trace
        self._module = module

    def now_ns(self) -> int:
        return int(self._module.get_timestamp())


@contextlib.contextmanager
def _cupti() -> Iterator[Collector]:
    from profiler.capture import cupti

    # ONNX Runtime's nodes are known from its profile, so NVTX is not needed.
    with cupti.collecting(nvtx=False) as collection:
        from cupti import cupti as module

        yield _Cupti(collection, module)


def capture(request: CudaWorkerRequest, collecting: Collecting | None) -> None:
    """Measure and profile; write raw samples, node events, the trace of the GPU and the `CudaCapture` record.

    Raises:
        MissingError: The CUDA provider or the collector cannot work here.
        BuildError: ONNX Runtime refuses the model.
        CaptureError: The model does not run with its inputs, or the collector failed.
    """
    import pandas as pd

    folder = Path(request.folder)
    feeds = make_inputs(request.inputs, request.seed)
    size = sum(array.nbytes for array in feeds.values())
    copies, notes = copies_beyond(size, request.l2_bytes) if request.cold_l2 else (1, [])
    say("clean latency")
    with timer_for(request.session) as timer:
        runner = Runner(request.session, feeds, copies, timer)
        checks = _verified(request, runner) if request.verify else ()
        warmups = warm_up(runner.infer, request.warmup_ms)
        samples = {"stream": runner.time(request.iterations, request.duration_s)}
        del runner
        refusal = ""
        if request.cuda_graph:
            say("clean latency with a CUDA graph")
            refusal = _time_graph(request, feeds, copies, timer, samples)
        timed_by = timer.clock
    table = pd.concat([frame.assign(mode=mode) for mode, frame in samples.items()], ignore_index=True)
    table["mode"] = table["mode"].astype("category")
    table[list(TIME_COLUMNS)].to_parquet(folder / LATENCY_FILE, index=False)

    profiled = _profile(request, feeds, copies, collecting, min(warmups, 10))
    record = CudaCapture(
        collector=request.collector if collecting else "none",
        latency=latency_of(samples["stream"]["latency_ns"].to_numpy()),
        profiled=latency_of(profiled.run_ns),
        warmup_iterations=warmups,
        threads=request.session.threads,
        inputs=request.inputs,
        clock_resolution_ns=ort.CLOCK_RESOLUTION_NS,
        runtime_shapes=profiled.shapes,
        modes=tuple(_mode_times(mode, frame) for mode, frame in samples.items()),
        timed_by=timed_by,
        copies=copies,
        copy_bytes=size,
        no_cuda_graph=refusal,
        cpu_layers=profiled.cpu_layers if request.session.provider == "cuda" else (),
        copy_layers=profiled.copy_layers,
        checks=checks,
        clock_guess_ns=profiled.clock_guess_ns,
        clock_within_ns=profiled.clock_within_ns,
        notes=(*notes, *profiled.notes),
    )
    # Written last: its presence says that the capture is whole.
    (folder / CAPTURE_FILE).write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=1))


def copies_beyond(size: int, l2_bytes: int) -> tuple[int, list[str]]:
    """How many copies of the inputs must take turns for the L2 cache to have lost each when it is its turn again.

    Twice the size of the cache in all, since caches do not drop the oldest line first.

    Args:
        size: Bytes of the inputs.
        l2_bytes: Of the cache.

    Returns:
        The number, and what is to be said of it.

    Raises:
        CaptureError: The size of the cache is not known.
    """
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


# --- one inference --------------------------------------------------------------------------


class Timer(Protocol):
    """Times what happens on a stream; used from one thread, for one inference at a time."""

    clock: Any
    """As in `CudaCapture.timed_by`."""
    stream: int
    """The stream that the session is to work on; 0 for one of its own."""

    def begin(self) -> None:
        """The work begins with what is enqueued next."""

    def end(self) -> None:
        """It ends with what was enqueued last."""

    def elapsed_ns(self) -> int | None:
        """Wait for the end, and tell the time in between; None where the host's clock must do."""


class HostTimer:
    """No timer: the session waits for its work, and the host's clock tells."""

    clock = "host clock"
    stream = 0

    def begin(self) -> None:
        """Nothing."""

    def end(self) -> None:
        """Nothing."""

    def elapsed_ns(self) -> int | None:
        """None."""
        return None


class EventTimer:
    """CUDA events on a stream of its own, which the session works on."""

    clock = "cuda events"

    def __init__(self, device: int) -> None:
        """Make stream and events on a GPU."""
        from cuda.bindings import runtime

        self._runtime = runtime
        self._call(runtime.cudaSetDevice(device))
        self._stream = self._call(runtime.cudaStreamCreateWithFlags(runtime.cudaStreamNonBlocking))
        self._begin, self._end = (self._call(runtime.cudaEventCreate()) for _ in range(2))
        self.stream = int(self._stream)

    def begin(self) -> None:
        """See `Timer`."""
        self._call(self._runtime.cudaEventRecord(self._begin, self._stream))

    def end(self) -> None:
        """See `Timer`."""
        self._call(self._runtime.cudaEventRecord(self._end, self._stream))

    def elapsed_ns(self) -> int | None:
        """See `Timer`; CUDA events tell milliseconds with a resolution of about half a microsecond."""
        self._call(self._runtime.cudaEventSynchronize(self._end))
        return round(float(self._call(self._runtime.cudaEventElapsedTime(self._begin, self._end))) * 1e6)

    def close(self) -> None:
        """Give back stream and events."""
        for event in (self._begin, self._end):
            self._runtime.cudaEventDestroy(event)
        self._runtime.cudaStreamDestroy(self._stream)

    def _call(self, result: tuple[Any, ...]) -> Any:
        error, *values = result
        if int(error) != 0:
            _, text = self._runtime.cudaGetErrorString(error)
            said = text.decode() if isinstance(text, bytes) else str(text)
            raise CaptureError("the GPU cannot be timed", why=f"CUDA: {said}", fix="check it with nvidia-smi")
        return values[0] if values else None


@contextlib.contextmanager
def timer_for(session: SessionRequest) -> Iterator[Timer]:
    """CUDA events where cuda-bindings are there to record them with, else the host's clock.

    Raises:
        MissingError: The CUDA provider, the driver or the GPU is missing.
    """
    if session.provider != "cuda":
        yield HostTimer()
        return
    require_cuda_provider()
    try:
        timer = EventTimer(session.cuda.device_id)
    except ImportError:
        yield HostTimer()
        return
    except CaptureError as error:
        raise MissingError(
            f"GPU {session.cuda.device_id} cannot be used", why=error.why, fix="check it with nvidia-smi"
        ) from None
    try:
        yield timer
    finally:
        timer.close()


class _Slot(NamedTuple):
    """Inputs and outputs on the device, bound; ``copied`` are the inputs with what to copy into them."""

    binding: Any
    copied: list[tuple[Any, npt.NDArray[Any]]]
    outputs: list[Any]
    options: Any


class Runner:
    """A session and as many copies of its inputs and outputs as take turns."""

    def __init__(self, request: SessionRequest, feeds: Arrays, copies: int, timer: Timer, **session: str) -> None:
        """Make the session, bind everything and run once with each copy.

        Args:
            request: The session.
            feeds: The inputs.
            copies: How many.
            timer: Times the work of the GPU.
            session: See `ort_session.make_session`.

        Raises:
            CaptureError: The model does not run with these inputs.
            TrtprofError: See `ort_session.make_session`.
        """
        self.session = make_session(request, user_stream=timer.stream, **session)
        self.names = [output.name for output in self.session.get_outputs()]
        self._device = "cuda" if request.provider == "cuda" else "cpu"
        self._device_id = request.cuda.device_id if request.provider == "cuda" else 0
        self._timer = timer
        self._graph = request.cuda.enable_cuda_graph
        self._turn = 0
        shaped = self._shaped(feeds)
        self._slots = [self._slot(feeds, shaped, index) for index in range(copies)]
        for slot in self._slots:
            first_run(partial(self._run, slot))
            for _ in range(_GRAPH_RUNS if self._graph else 0):
                self._run(slot)

    def infer(self) -> tuple[int, int, int, int, int]:
        """Copy inputs to the device, run with those of the next copy, copy its outputs back.

        Where several copies take turns, the inputs go to the one whose turn is furthest away: what was just written
        would be in the L2 cache.

        Returns:
            Latency, copies to the device, compute, copies back and enqueuing, in ns; see `TIME_COLUMNS`.
        """
        slot, written = self._slots[self._turn], self._slots[self._turn - 1]
        self._turn = (self._turn + 1) % len(self._slots)
        clock = time.perf_counter_ns
        began = clock()
        for value, array in written.copied:
            value.update_inplace(array)
        copied = clock()
        self._timer.begin()
        self._run(slot)
        self._timer.end()
        enqueued = clock()
        compute = self._timer.elapsed_ns()
        done = clock()
        for value in slot.outputs:
            value.numpy()
        ended = clock()
        if compute is None:
            return ended - began, copied - began, done - copied, ended - done, 0
        return ended - began, copied - began, compute, ended - done, enqueued - copied

    def time(self, iterations: int, duration_s: float) -> Any:
        """At least so many inferences and so many seconds, as in trtexec: `TIME_COLUMNS` less the mode, a frame."""
        import pandas as pd

        rows: list[tuple[int, int, int, int, int]] = []
        end = time.perf_counter_ns() + int(duration_s * 1e9)
        while len(rows) < max(iterations, 1) or time.perf_counter_ns() < end:
            rows.append(self.infer())
        return pd.DataFrame(rows, columns=list(TIME_COLUMNS[1:]))

    def outputs(self) -> list[Any]:
        """What the next copy gives for its inputs, on the host."""
        slot = self._slots[self._turn]
        self.infer()
        return [value.numpy() for value in slot.binding.get_outputs()]

    def _run(self, slot: _Slot) -> None:
        self.session.run_with_iobinding(slot.binding, slot.options)

    def _shaped(self, feeds: Arrays) -> list[Any]:
        """Outputs of one run that allocates them itself: their shapes may depend on the data."""
        # A graph would be captured with buffers that are gone afterwards: -1 is for a run without one.
        options = self._options("-1" if self._graph else "")
        binding = self.session.io_binding()
        for name, array in feeds.items():
            binding.bind_ortvalue_input(name, self._on_device(array))
        for name in self.names:
            binding.bind_output(name, self._device, self._device_id)
        first_run(lambda: self.session.run_with_iobinding(binding, options))
        return list(binding.get_outputs())

    def _slot(self, feeds: Arrays, shaped: list[Any], index: int) -> _Slot:
        import onnxruntime

        binding = self.session.io_binding()
        copied = []
        for name, array in feeds.items():
            value = self._on_device(array)
            binding.bind_ortvalue_input(name, value)
            if array.dtype.kind not in "OSU":
                copied.append((value, array))
        outputs = []
        for name, like in zip(self.names, shaped, strict=True):
            if like.is_tensor() and like.data_type() != "tensor(string)":
                value = onnxruntime.OrtValue.ortvalue_from_shape_and_type(
                    like.shape(), like.element_type(), self._device, self._device_id
                )
                binding.bind_ortvalue_output(name, value)
                outputs.append(value)
            else:
                binding.bind_output(name, "cpu")
        # Every copy has a graph of its own, since a graph is of fixed addresses.
        return _Slot(binding, copied, outputs, self._options(str(index + 1) if self._graph else ""))

    def _on_device(self, array: npt.NDArray[Any]) -> Any:
        import onnxruntime

        if array.dtype.kind in "OSU":
            return onnxruntime.OrtValue.ortvalue_from_numpy(array)
        # On the CPU the value would share the memory of the array, and be overwritten with it.
        return onnxruntime.OrtValue.ortvalue_from_numpy(array.copy(), self._device, self._device_id)

    def _options(self, graph: str) -> Any:
        import onnxruntime

        options = onnxruntime.RunOptions()
        if graph:
            options.add_run_config_entry("gpu_graph_id", graph)
        if self._timer.stream:
            # The events tell when the work is done, so that enqueuing can be timed by itself.
            options.add_run_config_entry("disable_synchronize_execution_providers", "1")
        return options


# --- the clean run --------------------------------------------------------------------------


def _time_graph(request: CudaWorkerRequest, feeds: Arrays, copies: int, timer: Timer, samples: dict[str, Any]) -> str:
    """Add the times with a CUDA graph to the samples; else return why there is none."""
    cuda = msgspec.structs.replace(request.session.cuda, enable_cuda_graph=True)
    session = msgspec.structs.replace(request.session, cuda=cuda)
    try:
        runner = Runner(session, feeds, copies, timer)
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


def _verified(request: CudaWorkerRequest, runner: Runner) -> tuple[TensorCheck, ...]:
    say("outputs of the CPU provider to compare with")
    session = make_session(msgspec.structs.replace(request.session, provider="cpu"))
    feeds = make_inputs(request.inputs, request.seed)
    try:
        expected = session.run(runner.names, feeds)
    except Exception as error:
        raise CaptureError(
            "the outputs cannot be held against those of the CPU provider",
            why=clean_message(error),
            fix="leave --verify away, or give inputs that the CPU provider takes",
        ) from None
    tf32 = request.session.provider == "cuda" and request.session.cuda.use_tf32
    return check_outputs(runner.names, runner.outputs(), expected, tf32=tf32)


# --- the profiled run -----------------------------------------------------------------------


class _Profiled(NamedTuple):
    run_ns: npt.NDArray[np.int64]
    shapes: Any
    cpu_layers: tuple[str, ...]
    copy_layers: tuple[str, ...]
    clock_guess_ns: int | None
    clock_within_ns: int
    notes: tuple[str, ...]


def _profile(
    request: CudaWorkerRequest, feeds: Arrays, copies: int, collecting: Collecting | None, warmups: int
) -> _Profiled:
    """Inferences with the profile and the collector on, without a CUDA graph, which has no nodes."""
    import pandas as pd

    folder, scratch = Path(request.folder), Path(request.scratch)
    runs = runs_to_profile(request.profile_iterations, request.layers)
    say(f"profile of {runs} iterations")
    saved = scratch / "profiled.onnx"
    cuda = msgspec.structs.replace(request.session.cuda, enable_cuda_graph=False)
    session = msgspec.structs.replace(request.session, cuda=cuda)
    # Every inference of the session is kept in its profile, the first ones with each copy included.
    copies = max(min(copies, EVENT_LIMIT // max(request.layers, 1) // 4), 1)
    with contextlib.ExitStack() as stack:
        collector = stack.enter_context(collecting()) if collecting else None
        runner = Runner(
            session, feeds, copies, HostTimer(), profile_prefix=str(scratch / "profile"), save_to=str(saved)
        )
        (folder / request.graph_file).write_bytes(saved.read_bytes())
        for _ in range(max(1, min(warmups, EVENT_LIMIT // max(request.layers, 1) // 4))):
            runner.infer()
        bounds = []
        ahead = None if collector is None else system_to_collector_ns(collector)
        if collector is not None:
            collector.start()
        for _ in range(runs):
            began = time.time_ns()
            runner.infer()
            bounds.append((began, time.time_ns()))
        if collector is not None:
            collector.stop()
            say("reading the capture")
            trace = collector.trace()
            save_trace(trace, folder)
        start_ns = int(runner.session.get_profiling_start_time_ns())
        path = Path(runner.session.end_profiling())
        del runner
    say("reading the profile")
    scheduled = name_layers(onnx.load(str(saved), load_external_data=False))
    events = ort.read_events(path)
    path.unlink()
    nodes = ort.node_events(events, runs, scheduled)
    # An inference begins with the copies of its inputs and ends with those of its outputs.
    whole = np.asarray(bounds, dtype=np.int64) - start_ns
    around = (nodes["layer"] == "").to_numpy()
    nodes.loc[around, "start_ns"] = np.minimum(nodes.loc[around, "start_ns"], whole[:, 0])
    nodes.loc[around, "end_ns"] = np.maximum(nodes.loc[around, "end_ns"], whole[:, 1])
    nodes.to_parquet(folder / NODE_EVENTS_FILE, index=False, compression="zstd")
    profile = ort.profile_from_events(events, runs, scheduled)
    on_cpu = nodes.loc[(nodes["provider"] == "CPU") & ~around, "layer"]
    return _Profiled(
        run_ns=np.asarray([end - begin for begin, end in bounds], dtype=np.int64),
        shapes=profile.shapes,
        cpu_layers=tuple(pd.unique(on_cpu.astype(object))),
        copy_layers=tuple(node.name for node in scheduled if node.op_type in COPY_OPS),
        clock_guess_ns=None if ahead is None else start_ns + ahead[0],
        # The begin of the profile is cut off to a microsecond in all of its events.
        clock_within_ns=0 if ahead is None else ahead[1] + ort.CLOCK_RESOLUTION_NS,
        notes=() if collecting else ("no collector watched the GPU: times of nodes are the host's",),
    )


if __name__ == "__main__":
    child.end_with_parent()
    sys.exit(main(sys.argv))
