"""The child that times and profiles ONNX Runtime's CUDA provider: ``python -m trtprof.capture.workers.ort_cuda``.

In the phase ``clean`` it measures latency **without** any profiler, as a loop would be deployed that gets its inputs on
the host: copies to the GPU, the inference with inputs and outputs bound there, copies back; and the same again with a
CUDA graph. In the phase ``profiled`` it runs the same inputs in a session with ONNX Runtime's profile on, and a
collector around it.

The host's memory is pageable, as numpy has it: copies from pinned memory are faster.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import onnx

from trtprof.base.latency import latency_of
from trtprof.base.output_file import copy_file, replaced
from trtprof.base.records import TensorCheck
from trtprof.capture import ort_profile as ort
from trtprof.capture.gpu_record import NODE_EVENTS_FILE, CleanTimes, OrtCudaRequest, ProfiledTimes
from trtprof.capture.verify import check_outputs, is_array, ort_array, reference_outputs
from trtprof.capture.workers.gpu_window import Watching, profile_window, watching
from trtprof.capture.workers.gpu_work import (
    Arrays,
    Copies,
    Cuda,
    EventTimer,
    Runner,
    copies_for,
    event_timer,
    measure_clean,
    run_phase,
)
from trtprof.capture.workers.inference import EVENT_LIMIT, first_run, make_inputs, runs_to_profile, say, warm_up
from trtprof.runtime import child
from trtprof.runtime.ort_session import COPY_OPS, SessionRequest, name_layers, require_cuda_provider, timed_session

_GRAPH_RUNS = 3
"""Inferences before a CUDA graph is replayed: ONNX Runtime runs two to allocate, and captures in the next
(onnxruntime/core/providers/cuda/cuda_graph.h, ``min_num_runs_before_cuda_graph_capture_``)."""


def main(argv: list[str]) -> int:
    """Entry point of the child; returns its exit code."""
    return run_phase(argv, OrtCudaRequest, clean, profiled)


def clean(request: OrtCudaRequest) -> CleanTimes:
    """Measure latency; leave the raw samples."""
    feeds = make_inputs(request.inputs, request.seed)
    copies = copies_for(request, feeds)
    with timer_for(request.session) as timer:
        return measure_clean(request, _Modes(request.session, feeds, copies, timer))


class _Modes(NamedTuple):
    """Sessions of the CUDA provider; see `gpu_work.Modes`."""

    session: SessionRequest
    feeds: Arrays
    copies: Copies
    timer: EventTimer | None

    def stream(self) -> OrtRunner:
        return OrtRunner(self.session, self.feeds, self.copies.number, self.timer)

    def graph(self) -> OrtRunner:
        return OrtRunner(with_graph(self.session, on=True), self.feeds, self.copies.number, self.timer)

    def checks(self, runner: Runner[Any]) -> tuple[TensorCheck, ...]:
        expected = reference_outputs(self.session, self.feeds, runner.names)
        tf32 = self.session.provider == "cuda" and self.session.cuda.use_tf32
        return check_outputs(runner.names, runner.outputs(), expected, tf32=tf32)


def with_graph(session: SessionRequest, *, on: bool) -> SessionRequest:
    """The same session with a CUDA graph, or without."""
    cuda = msgspec.structs.replace(session.cuda, enable_cuda_graph=on)
    return msgspec.structs.replace(session, cuda=cuda)


@contextlib.contextmanager
def timer_for(session: SessionRequest) -> Iterator[EventTimer | None]:
    """CUDA events where cuda-bindings are there to record them with, else the host's clock."""
    if session.provider != "cuda":
        yield None
        return
    require_cuda_provider()
    try:
        cuda = Cuda(session.cuda.device_id)
    except ImportError:
        yield None
        return
    with event_timer(cuda) as timer:
        yield timer


# --- one inference --------------------------------------------------------------------------


class _Slot(NamedTuple):
    """Inputs and outputs on the device, bound; ``copied`` are the inputs with what to copy into them.

    ``fresh`` are outputs that ONNX Runtime makes itself, on the host.
    """

    binding: Any
    copied: list[tuple[Any, npt.NDArray[Any]]]
    outputs: list[Any]
    fresh: list[str]
    options: Any


class OrtRunner(Runner[_Slot]):
    """A session and as many copies of its inputs and outputs as take turns."""

    def __init__(
        self, request: SessionRequest, feeds: Arrays, copies: int, timer: EventTimer | None, **session: str
    ) -> None:
        """Make the session, bind everything and run once with each copy."""
        super().__init__(timer)
        self.session, self.facts = timed_session(request, user_stream=timer.stream if timer else 0, **session)
        self.names = [output.name for output in self.session.get_outputs()]
        self._device = "cuda" if request.provider == "cuda" else "cpu"
        self._device_id = request.cuda.device_id if request.provider == "cuda" else 0
        self._graph = request.cuda.enable_cuda_graph
        shaped = self._shaped(feeds)
        self._slots = [self._slot(feeds, shaped, index) for index in range(copies)]
        for slot in self._slots:
            self.prepare(slot)
            first_run(partial(self.run, slot))
            for _ in range(_GRAPH_RUNS if self._graph else 0):
                self.run(slot)

    def prepare(self, slot: _Slot) -> None:
        # A sequence that stays bound grows with every inference.
        for name in slot.fresh:
            slot.binding.bind_output(name, "cpu")

    def copy_in(self, slot: _Slot) -> None:
        for value, array in slot.copied:
            value.update_inplace(array)

    def run(self, slot: _Slot) -> None:
        self.session.run_with_iobinding(slot.binding, slot.options)

    def copy_out(self, slot: _Slot) -> None:
        for value in slot.outputs:
            value.numpy()

    def read(self, slot: _Slot) -> list[Any]:
        values = slot.binding.get_outputs()
        if all(value.is_tensor() for value in values):
            return [ort_array(value) for value in values]
        return list(slot.binding.copy_outputs_to_cpu())  # sequences become lists

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
        outputs, fresh = [], []
        for name, like in zip(self.names, shaped, strict=True):
            # What numpy has no type for cannot be copied from here: ONNX Runtime does it within the inference.
            if like.is_tensor() and like.data_type() != "tensor(string)" and is_array(like.data_type()):
                value = onnxruntime.OrtValue.ortvalue_from_shape_and_type(
                    like.shape(), like.element_type(), self._device, self._device_id
                )
                binding.bind_ortvalue_output(name, value)
                outputs.append(value)
            else:
                fresh.append(name)
        # Every copy has a graph of its own, since a graph is of fixed addresses.
        return _Slot(binding, copied, outputs, fresh, self._options(str(index + 1) if self._graph else ""))

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
        if self._timer:
            # The events tell when the work is done, so that enqueuing can be timed by itself.
            options.add_run_config_entry("disable_synchronize_execution_providers", "1")
        return options


# --- the profiled run -----------------------------------------------------------------------


def profiled(request: OrtCudaRequest, watched: Watching | None = None) -> ProfiledTimes:
    """Run inferences with the profile and the collector on, without a CUDA graph, which has no nodes."""
    import pandas as pd

    folder, scratch = Path(request.folder), Path(request.scratch)
    feeds = make_inputs(request.inputs, request.seed)
    nodes_of_one = max(request.layers, 1)
    runs = runs_to_profile(request.profile_iterations, nodes_of_one)
    # Every inference of the session is kept in its profile, the first ones with each copy included.
    spare = max(EVENT_LIMIT // nodes_of_one // 4, 1)
    copies = min(copies_for(request, feeds).number, spare)
    say(f"profile of {runs} iterations")
    saved = scratch / "profiled.onnx"
    # ONNX Runtime's nodes are known from its profile, so NVTX is not needed.
    watches: Watching = watched or (lambda: watching(request.collector, nvtx=False))
    with watches() as watch:
        runner = OrtRunner(
            with_graph(request.session, on=False), feeds, copies, None,
            profile_prefix=str(scratch / "profile"), save_to=str(saved),
        )  # fmt: skip
        copy_file(saved, folder / request.graph_file)
        warm_up(runner.infer, request.warmup_ms, at_most=spare)
        ahead = watch.ahead_ns()
        seen = profile_window(watch, runner.infer, runs)
        watch.save(folder)
        start_ns = int(runner.session.get_profiling_start_time_ns())
        path = Path(runner.session.end_profiling())
        facts = runner.facts
        del runner
    say("reading the profile")
    scheduled = name_layers(onnx.load(str(saved), load_external_data=False))
    events = ort.read_events(path)
    path.unlink()
    nodes = ort.node_events(events, runs, scheduled)
    # An inference begins with the copies of its inputs and ends with those of its outputs.
    whole = seen.bounds - start_ns
    around = (nodes["layer"] == "").to_numpy()
    nodes.loc[around, "start_ns"] = np.minimum(nodes.loc[around, "start_ns"], whole[:, 0])
    nodes.loc[around, "end_ns"] = np.maximum(nodes.loc[around, "end_ns"], whole[:, 1])
    with replaced(folder / NODE_EVENTS_FILE) as beside:
        nodes.to_parquet(beside, index=False, compression="zstd")
    on_cpu = nodes.loc[(nodes["provider"] == "CPU") & ~around, "layer"]
    cpu_layers = tuple(pd.unique(on_cpu.astype(object))) if request.session.provider == "cuda" else ()
    return ProfiledTimes(
        latency=latency_of(seen.run_ns),
        session=facts,
        runtime_shapes=ort.profile_from_events(events, runs, scheduled).shapes,
        cpu_layers=cpu_layers,
        copy_layers=tuple(node.name for node in scheduled if node.op_type in COPY_OPS),
        clock_guess_ns=None if ahead is None else start_ns + ahead[0],
        # The begin of the profile is cut off to a microsecond in all of its events.
        clock_within_ns=0 if ahead is None else ahead[1] + ort.CLOCK_RESOLUTION_NS,
        begin_ns=seen.begin_ns,
        end_ns=seen.end_ns,
        notes=seen.notes if request.collector != "none" else (*seen.notes, "times of nodes are the host's"),
    )


if __name__ == "__main__":
    child.end_with_parent()
    sys.exit(main(sys.argv))
