"""What of `trtprof.capture.cupti.activity` only a GPU can tell: a memset, a kernel, NVTX ranges and a CUDA graph.

``python -m trtprof.capture.cupti.check`` prints the rows and one line for each point. It exits with 0 where all
hold, with 1 where one does not, and with 3 where CUPTI or a GPU is missing.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from trtprof.base.errors import CaptureError, MissingError, TrtprofError
from trtprof.base.trace import GpuTrace
from trtprof.capture.cupti import activity as cupti
from trtprof.capture.nsys.trace import API_VERSION

_BYTES = 1 << 20
_KERNEL = "trtprof_check"
_SOURCE = f"""
template <typename T> __global__ void {_KERNEL}(T *values, int count) {{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count) values[at] += T(1);
}}
template __global__ void {_KERNEL}<float>(float *, int);
"""
_THREADS = 256
_RANGE = "memset and kernel"
_LAUNCHES = {"cuMemsetD32Async", "cuLaunchKernel"}


class Collected(NamedTuple):
    """What the check collected.

    Attributes:
        plain: A memset and a kernel within ranges.
        graph: The same by way of a CUDA graph, collected in a second go; it tries that, too.
        with_kernel: Whether there was a compiler for the kernel.
        with_range: Whether there was NVTX for the ranges.
        pid: The process.
        thread: The thread that made the calls.
    """

    plain: GpuTrace
    graph: GpuTrace
    with_kernel: bool
    with_range: bool
    pid: int
    thread: int


def main() -> int:
    """Run the check; returns the exit code."""
    try:
        cupti.require()
        # Before anything makes its first NVTX call.
        os.environ.update(cupti.injection_environment())
        return report(_collected())
    except TrtprofError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 - a script of its own
        return error.exit_code if isinstance(error, MissingError) else 1


def report(collected: Collected) -> int:
    """Print what was collected and what of it is as it should be; returns the exit code."""
    lines = [collected.plain.version]
    for title, trace in (("", collected.plain), ("by a graph: ", collected.graph)):
        for name in ("gpus", "work", "launches", "ranges", "graph_nodes", "notes"):
            table = getattr(trace, name)
            text = "\n".join(map(str, table)) if isinstance(table, tuple) else table.to_string()
            lines += ["", f"{title}{name}:", text]
    points = [*_points(collected), *_graph_points(collected)]
    lines += ["", *(f"{'ok  ' if holds else 'FAIL'} {what}" for what, holds in points)]
    print("\n".join(lines))  # noqa: T201 - a script of its own
    return 0 if all(holds for _, holds in points) else 1


def _points(collected: Collected) -> Iterator[tuple[str, bool]]:
    trace = collected.plain
    work, launches, ranges = trace.work, trace.launches, trace.ranges
    sets = work[work["kind"] == "memset"]
    yield "one memset of 1 MiB", sets["bytes"].tolist() == [_BYTES]
    if collected.with_kernel:
        kernels = work[work["kind"] == "kernel"]
        yield "one kernel, by its short name", kernels["short_name"].tolist() == [_KERNEL]
        yield (
            "its name is demangled",
            kernels["name"].astype(str).str.startswith(f"void {_KERNEL}<float>(").tolist() == [True],
        )
        yield (
            "its grid and block",
            kernels[["grid_x", "block_x"]].to_numpy().tolist() == [[_BYTES // 4 // _THREADS, 256]],
        )
    called = launches[launches["name"].isin(_LAUNCHES)]
    yield "each piece of work has one call, of the driver", sorted(called["correlation"]) == sorted(work["correlation"])
    yield "no name of a call has a version", not any(API_VERSION.sub("", name) != name for name in launches["name"])
    started = work.merge(called, on="correlation", suffixes=("", "_call"))
    yield "work starts after its call: one clock", bool((started["start_ns"] >= started["start_ns_call"]).all())
    window = trace.window or (0, 0)
    yield (
        "all times are within the window",
        all(
            len(table) == 0 or (table["start_ns"].min() >= window[0] and table["end_ns"].max() <= window[1])
            for table in (work, launches)
        ),
    )
    ours = ranges[ranges["domain"] == cupti.DOMAIN]
    yield "one iteration", ours["name"].tolist() == ["iteration 0"]
    yield "calls are on the thread of the iteration", set(called["tid"]) == set(ours["tid"])
    yield "thread ids are the system's", set(ours["tid"]) == {collected.pid << 24 | collected.thread}
    yield (
        "calls lie within the iteration",
        bool(
            len(ours)
            and called["start_ns"].min() >= ours["start_ns"].iloc[0]
            and called["end_ns"].max() <= ours["end_ns"].iloc[0]
        ),
    )
    if collected.with_range:
        nvtx = ranges[ranges["domain"] == "trtprof check"]
        yield "one NVTX range, pushed and popped", nvtx[["name", "style"]].to_numpy().tolist() == [[_RANGE, "push_pop"]]
        yield "on the thread of the calls", set(nvtx["tid"]) == set(called["tid"])
        yield (
            "which holds the calls: one clock",
            bool(
                len(nvtx)
                and nvtx["start_ns"].iloc[0] <= called["start_ns"].min()
                and nvtx["end_ns"].iloc[0] >= called["end_ns"].max()
            ),
        )
        nvtx = ranges[ranges["domain"] == "trtprof check 2"]
        yield "one NVTX range, started and ended", nvtx["style"].tolist() == ["start_end"]
    yield "a GPU is described", bool(trace.gpus) and trace.gpus[0].sms > 0 and bool(trace.gpus[0].name)
    yield (
        "nothing was dropped or refused",
        not any("dropped" in note or "does not record" in note for note in trace.notes),
    )


def _graph_points(collected: Collected) -> Iterator[tuple[str, bool]]:
    trace = collected.graph
    made = trace.graph_nodes.set_index("graph_node")
    ran = trace.work["graph_node"]
    yield "a second collection records, too", len(trace.work) == (2 if collected.with_kernel else 1)
    yield "work of a graph has the id of its node", bool((ran != 0).all())
    yield "the making of the node is known", bool(ran.isin(made.index).all())
    origins = made["original_node"].reindex(ran).fillna(0)
    yield "it leads to the node that was captured", bool(origins.isin(made.index).all())
    yield "which was made on this thread", set(made["tid"]) == {collected.pid << 24 | collected.thread}
    called = trace.launches.loc[trace.launches["name"] == "cuGraphLaunch", "correlation"]
    yield "the work has the correlation of the graph's launch", set(trace.work["correlation"]) == set(called)


def _collected() -> Collected:
    try:
        from cuda.bindings import driver
    except ImportError:
        raise MissingError(
            "CUPTI cannot be tried", why="the package cuda-bindings is not installed", fix="pip install 'trtprof[gpu]'"
        ) from None
    try:
        code = driver.cuInit(0)[0].name
    except RuntimeError as error:
        code = str(error)
    if code != "CUDA_SUCCESS":
        raise MissingError(
            "CUPTI cannot be tried", why=f"CUDA does not start: {code}", fix="run this where CUDA has a GPU"
        )
    device = _done(driver.cuDeviceGet(0))
    _done(driver.cuCtxSetCurrent(_done(driver.cuDevicePrimaryCtxRetain(device))))
    stream = _done(driver.cuStreamCreate(0))
    memory = _done(driver.cuMemAlloc(_BYTES))
    kernel = _kernel(driver, device)
    with_range = importlib.util.find_spec("nvtx") is not None
    count = _BYTES // 4

    def work() -> None:
        _done(driver.cuMemsetD32Async(memory, 0, count, stream))
        if kernel is not None:
            values = np.array([int(memory)], dtype=np.uint64), np.array([count], dtype=np.int32)
            packed = np.array([value.ctypes.data for value in values], dtype=np.uint64)
            _done(
                driver.cuLaunchKernel(kernel, count // _THREADS, 1, 1, _THREADS, 1, 1, 0, stream, packed.ctypes.data, 0)
            )

    with cupti.collecting() as collection:
        collection.start()
        with collection.iteration(0):
            if with_range:
                import nvtx

                started = nvtx.start_range("start and end", domain="trtprof check 2")
                with nvtx.annotate(_RANGE, domain="trtprof check"):
                    work()
                nvtx.end_range(started)
            else:
                work()
        _done(driver.cuStreamSynchronize(stream))
        collection.stop()
        trace = collection.trace()
    with cupti.collecting(graph_nodes=True) as collection:
        _done(driver.cuStreamBeginCapture(stream, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL))
        work()
        graph = _done(driver.cuGraphInstantiate(_done(driver.cuStreamEndCapture(stream)), 0))
        collection.start()
        _done(driver.cuGraphLaunch(graph, stream))
        _done(driver.cuStreamSynchronize(stream))
        collection.stop()
        by_graph = collection.trace()
    return Collected(trace, by_graph, kernel is not None, with_range, os.getpid(), threading.get_native_id())


def _kernel(driver: Any, device: Any) -> Any:
    """The kernel of this check; None where there is no compiler."""
    try:
        from cuda.bindings import nvrtc

        program = _done(nvrtc.nvrtcCreateProgram(_SOURCE.encode(), b"check.cu", 0, [], []))
    # RuntimeError: the bindings are there, the library is not.
    except (ImportError, RuntimeError):
        return None
    attribute = driver.CUdevice_attribute
    major = _done(driver.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device))
    minor = _done(driver.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device))
    expression = f"{_KERNEL}<float>".encode()
    _done(nvrtc.nvrtcAddNameExpression(program, expression))
    _done(nvrtc.nvrtcCompileProgram(program, 1, [f"--gpu-architecture=sm_{major}{minor}".encode()]))
    image = b" " * _done(nvrtc.nvrtcGetCUBINSize(program))
    _done(nvrtc.nvrtcGetCUBIN(program, image))
    lowered = _done(nvrtc.nvrtcGetLoweredName(program, expression))
    return _done(driver.cuModuleGetFunction(_done(driver.cuModuleLoadData(image)), lowered))


def _done(answer: tuple[Any, ...]) -> Any:
    """What a call of cuda-bindings returned, if it succeeded."""
    code, *values = answer
    if int(code):
        raise CaptureError(
            "the check's own work failed", why=f"CUDA: {code!r}", fix="see that the GPU works and is free"
        )
    return values[0] if len(values) == 1 else values or None


if __name__ == "__main__":
    sys.exit(main())
