"""The child process that times and profiles an engine: ``python -m trtprof.capture.workers.tensorrt REQUEST``.

It runs engines of TensorRT and TensorRT-RTX that were built before: nothing is built here. In the phase ``clean`` it
measures latency **without** any profiler, as trtexec does: copies from pinned memory to the GPU, the inference, copies
back; enqueued on a stream, and as a CUDA graph. In the phase ``profiled`` it runs the same inputs on a stream, with the
engine's NVTX ranges, within the window that a collector sees.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

from trtprof.base.latency import latency_of
from trtprof.base.records import TensorCheck
from trtprof.capture.gpu_record import CleanTimes, ProfiledTimes, TensorrtRequest
from trtprof.capture.verify import check_outputs, reference_outputs
from trtprof.capture.workers.gpu_window import Watching, profile_window, watching
from trtprof.capture.workers.gpu_work import Arrays, Copies, EventTimer, Runner, copies_for, measure_clean, run_phase
from trtprof.capture.workers.inference import make_inputs, runs_to_profile, say, warm_up
from trtprof.capture.workers.trt_runner import TrtRunner, opened
from trtprof.runtime import child


def main(argv: list[str]) -> int:
    """Entry point of the child; returns its exit code."""
    return run_phase(argv, TensorrtRequest, clean, profiled)


def clean(request: TensorrtRequest) -> CleanTimes:
    """Measure latency; leave the raw samples."""
    feeds = make_inputs(request.inputs, request.seed)
    copies = copies_for(request, feeds)
    with opened(request, feeds, copies.number) as runner:
        return measure_clean(request, _Modes(request, feeds, copies, runner), lambda: tuple(runner.notes))


def profiled(request: TensorrtRequest, watched: Watching | None = None) -> ProfiledTimes:
    """Run inferences on a stream within the window that the collector sees; leave its trace."""
    feeds = make_inputs(request.inputs, request.seed)
    copies = copies_for(request, feeds)
    runs = runs_to_profile(request.profile_iterations, request.layers)
    # Before TensorRT is loaded: its first NVTX call looks for the collector.
    watches: Watching = watched or (lambda: watching(request.collector, nvtx=True))
    with watches() as watch, opened(request, feeds, copies.number) as runner:
        warm_up(runner.infer, request.warmup_ms)
        say(f"profile of {runs} iterations")
        seen = profile_window(watch, runner.infer, runs)
        watch.save(Path(request.folder))
        notes = (*copies.notes, *runner.notes, *seen.notes)
    return ProfiledTimes(
        latency=latency_of(seen.run_ns), begin_ns=seen.begin_ns, end_ns=seen.end_ns, notes=tuple(notes)
    )


class _Modes(NamedTuple):
    """One engine, run in both modes; see `gpu_work.Modes`."""

    request: TensorrtRequest
    feeds: Arrays
    copies: Copies
    runner: TrtRunner

    @property
    def timer(self) -> EventTimer:
        return self.runner.timer

    def stream(self) -> TrtRunner:
        return self.runner

    def graph(self) -> TrtRunner:
        self.runner.capture_graphs()
        return self.runner

    def checks(self, runner: Runner[Any]) -> tuple[TensorCheck, ...]:
        reference = self.request.reference
        why = "the ONNX model is not at hand" if reference is None else self.runner.unreadable()
        if reference is None or why:
            self.runner.notes.append(f"the outputs were not held against those of the CPU provider: {why}")
            return ()
        expected = reference_outputs(reference, self.feeds, runner.names)
        return check_outputs(
            runner.names, runner.outputs(), expected, tf32=self.request.tf32, precision=self.request.precision
        )


if __name__ == "__main__":
    child.end_with_parent()
    sys.exit(main(sys.argv))
