"""The child process that only warms up, times and runs: ``python -m trtprof.capture.workers.ort_cpu REQUEST``.

It reads a `WorkerRequest`, measures latency in one session **without** the profiler, then runs the
same inputs in a second session with it, and writes its results into the folder of the request. It
is a process of its own so that a crash or a Ctrl-C costs nothing that was already written.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy.typing as npt
import onnx

from trtprof.base.latency import latency_of
from trtprof.base.output_file import copy_file, replace_file, replaced
from trtprof.base.progress import Count
from trtprof.base.records import Capture, InputTensor
from trtprof.capture import ort_profile as ort
from trtprof.capture.workers.inference import (
    CAPTURE_FILE,
    EVENT_LIMIT,
    KERNELS_FILE,
    LATENCY_FILE,
    Runnable,
    first_run,
    make_inputs,
    runs_to_profile,
    say,
    time_runs,
    warm_up,
)
from trtprof.runtime import child
from trtprof.runtime.ort_session import SessionFacts, SessionRequest, make_session, name_layers, timed_session
from trtprof.runtime.speed_probe import probe_ns, stream_bytes_per_s

__all__ = ["Runnable", "WorkerRequest", "bind", "capture", "main", "make_inputs", "time_runs", "warm_up"]


class WorkerRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What the worker is asked to do. ``warmup_ms`` and ``duration_s`` are trtexec's units."""

    session: SessionRequest
    folder: str
    scratch: str
    inputs: tuple[InputTensor, ...]
    graph_file: str  # where in the folder to leave the optimised graph of the profiled session
    layers: int  # number of layers, to keep the profile at a size that can be read
    seed: int
    iterations: int
    warmup_ms: float
    duration_s: float
    profile_iterations: int


def main(argv: list[str]) -> int:
    """Entry point of the child; returns its exit code."""
    return child.answer(argv, WorkerRequest, capture)


def capture(request: WorkerRequest) -> SessionFacts:
    """Measure and profile; write raw samples, the kernel table and the `Capture` record; tell of the clean session."""
    import pandas as pd

    folder = Path(request.folder)
    feeds = make_inputs(request.inputs, request.seed)
    threads = request.session.threads
    probes, streams = [probe_ns(threads)], [stream_bytes_per_s(threads)]
    say("clean latency")
    session, facts = timed_session(request.session)
    run = bind(session, feeds)
    warmups = warm_up(run, request.warmup_ms)
    samples = time_runs(run, request.iterations, request.duration_s, say)
    del session, run
    with replaced(folder / LATENCY_FILE) as beside:
        pd.DataFrame({"latency_ns": samples}).to_parquet(beside, index=False)

    probes.append(probe_ns(threads))
    streams.append(stream_bytes_per_s(threads))
    nodes = max(request.layers, 1)
    profiled_runs = runs_to_profile(request.profile_iterations, nodes)
    say(f"profile of {profiled_runs} iterations")
    prefix = str(Path(request.scratch) / "profile")
    saved = Path(request.scratch) / "profiled.onnx"
    session = make_session(request.session, profile_prefix=prefix, save_to=str(saved))
    copy_file(saved, folder / request.graph_file)
    scheduled = name_layers(onnx.load(str(saved), load_external_data=False))
    run = bind(session, feeds)
    # Warm by time as the clean run was, but not for long: every event of it is kept in memory.
    warm = max(1, min(warmups, EVENT_LIMIT // nodes // 4, 10))
    for _ in range(warm):
        run()
    count = Count(say, "inferences under the profiler")
    for done in range(profiled_runs):
        run()
        count.tell(done + 1, profiled_runs)
    profile_path = Path(session.end_profiling())
    del session, run
    probes.append(probe_ns(threads))
    streams.append(stream_bytes_per_s(threads))
    say("reading the profile")
    profile = ort.read_profile(profile_path, profiled_runs, scheduled)
    profile_path.unlink()
    with replaced(folder / KERNELS_FILE) as beside:
        profile.kernels.to_parquet(beside, index=False, compression="zstd")
    record = Capture(
        collector="ort-profile",
        latency=latency_of(samples),
        profiled=latency_of(profile.run_ns),
        warmup_iterations=warmups,
        threads=request.session.threads,
        inputs=request.inputs,
        clock_resolution_ns=ort.CLOCK_RESOLUTION_NS,
        probe_ns=tuple(probes),
        stream_bytes_per_s=tuple(streams),
        runtime_shapes=profile.shapes,
    )
    # Written last: its presence says that the capture is whole.
    replace_file(folder / CAPTURE_FILE, msgspec.json.format(msgspec.json.encode(record), indent=1))
    return facts


def bind(session: Any, feeds: dict[str, npt.NDArray[Any]]) -> Runnable:
    """One inference with inputs and outputs bound, as a deployed loop would: nothing is copied."""
    import onnxruntime

    binding = session.io_binding()
    for name, array in feeds.items():
        binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(array))
    for output in session.get_outputs():
        binding.bind_output(output.name, "cpu")
    call = session.run_with_iobinding

    def run() -> None:
        call(binding)

    first_run(run)
    return run


if __name__ == "__main__":
    child.end_with_parent()
    sys.exit(main(sys.argv))
