"""A worker for a GPU that is not there: ``python -m tests.fakes.stub_gpu_worker REQUEST``.

Of ONNX Runtime the real worker does both phases with the CPU provider; what the GPU would have done is made of the node
events: every node that computes launches one kernel while the host is in it, and the kernels run one after the other.
Of TensorRT nothing can run, so that times are invented, and every layer of the plan launches one kernel within the
NVTX range that TensorRT would have put there.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from tests.fakes.trace_factory import Layer, Process, Work, write_trace
from trtprof.base.latency import latency_of
from trtprof.base.records import ModeTimes
from trtprof.base.trace import GRAPH_COLUMNS, LAUNCH_COLUMNS, RANGE_COLUMNS, WORK_COLUMNS, GpuTrace
from trtprof.base.trace_file import save_trace
from trtprof.capture.gpu_record import (
    NODE_EVENTS_FILE,
    TIME_COLUMNS,
    CleanTimes,
    OrtCudaRequest,
    ProfiledTimes,
    TensorrtRequest,
)
from trtprof.capture.nsys.trace import read_trace
from trtprof.capture.ort_profile import CLOCK_RESOLUTION_NS
from trtprof.capture.workers import ort_cuda as cuda_worker
from trtprof.capture.workers.gpu_window import watching
from trtprof.capture.workers.inference import LATENCY_FILE
from trtprof.engine.inspector import read_layer_info
from trtprof.runtime import child

CLOCKS_APART = 123_456_789_000
KERNEL_NS = 3_000
VIEWS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Shape")
WORDS = ("kind", "name", "short_name", "domain", "style")


def main(argv: list[str]) -> int:
    data = Path(argv[1]).read_bytes()
    of_tensorrt = "backend" in msgspec.json.decode(data)
    return child.answer(argv, TensorrtRequest, tensorrt) if of_tensorrt else child.answer(argv, OrtCudaRequest, ort)


# --- ONNX Runtime ---------------------------------------------------------------------------


def ort(request: OrtCudaRequest) -> CleanTimes | ProfiledTimes:
    if request.phase == "clean":
        return cuda_worker.clean(request)
    times = cuda_worker.profiled(request, lambda: watching("none", nvtx=False))
    save_trace(trace_of_nodes(pd.read_parquet(Path(request.folder) / NODE_EVENTS_FILE)), Path(request.folder))
    # As with CUPTI, whose clock the real worker reads: four inferences of this machine alone may fit in two places.
    return msgspec.structs.replace(times, clock_guess_ns=CLOCKS_APART, clock_within_ns=CLOCK_RESOLUTION_NS)


def trace_of_nodes(events: pd.DataFrame) -> GpuTrace:
    """One kernel for every node, launched in the middle of the time in which the host is in it."""
    nodes = events[events["layer"].astype(str) != ""].sort_values("start_ns", ignore_index=True)
    nodes = nodes[~nodes["layer"].astype(str).str.contains("|".join(VIEWS), case=False)].reset_index(drop=True)
    start, end = (nodes[name].to_numpy().astype(np.int64) + CLOCKS_APART for name in ("start_ns", "end_ns"))
    called, returned = start + (end - start) // 3, start + 2 * (end - start) // 3
    began: list[int] = []
    for at in returned.tolist():
        began.append(max(began[-1] + KERNEL_NS if began else 0, at + 500))
    ids, names = np.arange(1, len(nodes) + 1), [f"kernel_of_{name}" for name in nodes["layer"].astype(str)]
    work = frame(
        WORK_COLUMNS, len(nodes), start_ns=began, end_ns=np.asarray(began) + KERNEL_NS, kind="kernel", name=names,
        short_name=names, stream=7, pid=1, correlation=ids,
    )  # fmt: skip
    launches = frame(
        LAUNCH_COLUMNS, len(nodes), start_ns=called, end_ns=returned, name="cudaLaunchKernel", pid=1,
        tid=nodes["tid"].to_numpy(), correlation=ids,
    )  # fmt: skip
    return GpuTrace(
        work=work,
        launches=launches,
        ranges=frame(RANGE_COLUMNS, 0),
        graph_nodes=frame(GRAPH_COLUMNS, 0),
        collector="cupti",
        version="of no GPU",
    )


def frame(columns: tuple[str, ...], rows: int, **values: Any) -> pd.DataFrame:
    """A table of a trace; what is not given is 0, or empty text."""
    made = {}
    for name in columns:
        if name in WORDS:
            made[name] = pd.Series(pd.Categorical(np.broadcast_to(values.get(name, ""), rows).astype(object)))
        else:
            made[name] = pd.Series(np.broadcast_to(values.get(name, 0), rows).astype(np.int64))
    return pd.DataFrame(made, columns=list(columns))


# --- TensorRT -------------------------------------------------------------------------------


def tensorrt(request: TensorrtRequest) -> CleanTimes | ProfiledTimes:
    folder, scratch = Path(request.folder), Path(request.scratch)
    assert Path(request.engine).is_file()
    if request.phase == "clean":
        samples = np.random.default_rng(request.seed).normal(1_000_000, 5_000, request.iterations).astype(np.int64)
        table = pd.DataFrame(
            {
                "latency_ns": samples,
                "h2d_ns": 40_000,
                "compute_ns": samples - 70_000,
                "d2h_ns": 20_000,
                "enqueue_ns": 9_000,
            }
        )
        table["mode"] = pd.Categorical(["stream"] * len(table))
        table[list(TIME_COLUMNS)].to_parquet(folder / LATENCY_FILE, index=False)
        mode = ModeTimes(
            mode="stream",
            latency=latency_of(samples),
            h2d_ns=40_000,
            compute_ns=930_000,
            d2h_ns=20_000,
            enqueue_ns=9_000,
        )
        graph = msgspec.structs.replace(mode, mode="cuda graph", latency=latency_of(samples // 2))
        return CleanTimes(warmup_iterations=3, modes=(mode, graph), timed_by="cuda events", copies=1, copy_bytes=64)
    plan = next(folder.glob("layers.*"))
    names = [layer.name for layer in read_layer_info(plan).layers]
    layers = tuple(Layer(name, (Work(f"kernel_{number}", 5_000),)) for number, name in enumerate(names))
    write_trace(scratch / "trace.sqlite", [Process(pid=111, layers=layers, iterations=request.profile_iterations)])
    save_trace(read_trace(scratch / "trace.sqlite")._replace(collector="cupti"), folder)
    return ProfiledTimes(latency=latency_of(np.full(request.profile_iterations, 1_250_000)))


if __name__ == "__main__":
    child.end_with_parent()
    sys.exit(main(sys.argv))
