"""The child process that measures: ``python -m trtprof.hardware._measure REQUEST``.

A process of its own keeps the caller free of the runtime's thread pools and of hundreds of
megabytes of buffers. The result is one JSON document, the last line of stdout.
"""

from __future__ import annotations

import concurrent.futures
import functools
import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from trtprof.base.errors import BuildError, MissingError
from trtprof.base.machine_errors import cut_off
from trtprof.base.progress import Count, Line, Progress, unheard
from trtprof.base.scratch import scratch_folder
from trtprof.hardware import _fit
from trtprof.hardware._exchange import FLOOR_SECONDS, Measured, MeasureRequest
from trtprof.hardware._fit import Reading, Task
from trtprof.hardware._workloads import (
    Array,
    Graph,
    Workload,
    compute_workloads,
    empty_chain,
    memory_workloads,
    numpy_workloads,
    probe,
    special_workloads,
    vector_workloads,
)
from trtprof.hardware.device import busy_seconds, clock_mhz
from trtprof.runtime import child
from trtprof.runtime.ort_session import SessionRequest, make_session
from trtprof.runtime.speed_probe import probe_ns

MAX_WORKING_SET = 512_000_000  # The largest buffers that calibration allocates, in bytes

UNKNOWN_CACHE = 32 << 20  # Stands in for a last-level cache of unknown size when the ladder of working sets is laid out

SAMPLE_SECONDS = 0.02  # Time spent on one repeat of one workload

QUICK_SAMPLE_SECONDS = 0.006
QUICK_LONGEST_NS = 15e6  # The same of a quick set, and `_fit.LONGEST_NS` of one

MIN_RUNS = 3
CHAIN = (64, 512)  # Lengths of the chains whose difference is the launch floor

SHORT_CHAIN = (16, 64)  # The same for the many chains that only separate the profiler's cost from the nodes' own

PROFILE_RUNS = 40
PROFILE_WARMUP = 10
FLOOR_SIZES = (1, 512, 1024, 2048, 4096, 8192, 16384)
"""Elements of the all but empty nodes: their extra cost spans the microsecond of the profiler."""

FLOOR_INPUTS = (2, 3, 5, 8, 12, 18, 25, 32)
"""Inputs of the nodes that show the profiler's cost of a tensor: apart enough that the truncation
to whole microseconds averages out."""

QUICK_FLOOR_INPUTS = (2, 12, 32)
SECOND_FLOOR_SECONDS = 1.5  # About what the floors of a quick set take, each of the two times

FLOOR_REPEATS = 3

PROBES = 3  # Speed probes before the ceilings, and as many after them: their spread shows a clock that drifted


def measure(request: MeasureRequest, progress: Progress = unheard) -> Measured:
    """Measure every ceiling and floor at one thread count; ``progress`` is told once a second."""
    import onnxruntime

    progress(Line("the floors of a node and of a call", request.seconds + FLOOR_SECONDS * request.with_profiler))
    began = time.monotonic()
    clock_before = clock_mhz()
    busy_before, own_before = busy_seconds(), time.process_time()
    with scratch_folder() as folder:
        bench = _Bench(request.threads, folder, quick=request.quick)
        probes = [probe_ns(request.threads) for _ in range(PROBES)]
        floors = bench.floors(with_profiler=request.with_profiler, repeats=1 if request.quick else FLOOR_REPEATS)
        bench.empty_call_ns = floors["call"].value + floors["launch"].value

        deadline = time.monotonic() + request.seconds
        native = [t for t in (TensorProto.FLOAT16, TensorProto.BFLOAT16) if bench.computes_in(t)]
        cached, beyond = _ladder(request)
        by_name = {load.task: load for load in _workloads(request, cached, beyond, native)}
        count = Count(progress, f"timings of {len(by_name)} workloads")
        timings = itertools.count(1)

        def timed(task: Task) -> float | None:
            count.tell(next(timings), end=deadline + SECOND_FLOOR_SECONDS * request.quick)
            return bench.net_ns(by_name[task])

        readings = _fit.race(
            list(by_name),
            timed,
            lambda: deadline - time.monotonic(),
            longest_ns=QUICK_LONGEST_NS if request.quick else _fit.LONGEST_NS,
        )
        if request.quick:
            # Apart in time from the first, so that no single slow moment decides.
            floors = bench.floors(with_profiler=request.with_profiler, repeats=1)
        probes += [probe_ns(request.threads) for _ in range(PROBES)]
    # The ceilings are the best of their repeats, and so is the speed that they were reached at.
    spread = _fit.relative_spread(probes)
    floors["probe"] = Reading(min(probes), spread, len(probes), "MatMul 512x512x512")
    seconds = time.monotonic() - began
    busy_after, own = busy_seconds(), time.process_time() - own_before
    others = None
    if busy_before is not None and busy_after is not None:
        others = max(busy_after - busy_before - own, 0.0) / seconds
    return Measured(
        threads=request.threads,
        runtime=str(onnxruntime.__version__),
        readings={**readings, **floors},
        working_set=max(beyond),
        seconds=seconds,
        others_cpus=others,
        clocks_mhz=_known(before=clock_before, during=bench.clock(), after=clock_mhz()),
    )


def _known(**clocks: float | None) -> dict[str, float]:
    return {name: clock for name, clock in clocks.items() if clock is not None}


def _ladder(request: MeasureRequest) -> tuple[list[int], list[int]]:
    """Working sets in bytes that fit the last-level cache, and those of four times it and more."""
    cache = request.cache_bytes or UNKNOWN_CACHE
    limit = MAX_WORKING_SET
    if request.memory_bytes:
        limit = min(limit, request.memory_bytes // 8)
    # Half of the cache at most: the other half holds the runtime and the neighbours.
    cached = [size for size in (262_144, 1 << 20) if size <= cache // 4]
    cached += [min(cache // 4, limit), min(cache // 2, limit)]
    beyond = [min(4 * cache, limit), min(8 * cache, limit)]
    if request.quick:
        # On an EPYC of two cores these reached the ceilings of all patterns but that of copying in place.
        return [min(cache // 4, limit)], beyond[:1]
    return sorted(set(cached)), sorted(set(beyond))


def _workloads(
    request: MeasureRequest, cached: Sequence[int], beyond: Sequence[int], native: Sequence[int]
) -> list[Workload]:
    """What races for the ceilings; of a quick set without what bounds nothing: NumPy, and parts of arithmetic."""
    # A few MB a thread: small enough to stay in the cache, large enough for all threads to be used.
    arithmetic = [size for size in cached if size >= 1 << 20][-2:] or cached[-1:]
    of_memory = [*memory_workloads("cache", cached), *memory_workloads("dram", beyond)]
    others = [
        *compute_workloads([TensorProto.FLOAT, TensorProto.DOUBLE, *native]),
        *vector_workloads(arithmetic),
        *special_workloads(arithmetic),
    ]
    if not request.quick:
        return [*of_memory, *numpy_workloads(beyond[0]), *others]
    return [*of_memory, *(load._replace(task=load.task._replace(part="")) for load in others)]


class _Bound:
    """A session with inputs and outputs bound to buffers that are there before the first run."""

    def __init__(self, session: Any, graph: Graph, inputs: list[Array], outputs: list[Array]) -> None:
        self.session = session
        self._keep = (inputs, outputs)
        self._binding = session.io_binding()
        for port, buffer in zip(graph.inputs, inputs, strict=True):
            self._binding.bind_input(port.name, "cpu", 0, port.element_type, list(port.shape), buffer.ctypes.data)
        for port, buffer in zip(graph.outputs, outputs, strict=True):
            self._binding.bind_output(port.name, "cpu", 0, port.element_type, list(port.shape), buffer.ctypes.data)

    def run(self) -> None:
        self.session.run_with_iobinding(self._binding)

    def median_ns(self, seconds: float) -> float:
        """Median of the runs that fit into ``seconds``, at least `MIN_RUNS`, after two to warm up."""
        return _median_ns(self.run, seconds)


def _median_ns(run: Callable[[], object], seconds: float) -> float:
    clock = time.perf_counter_ns
    for _ in range(2):
        run()
    samples: list[int] = []
    end = clock() + int(seconds * 1e9)
    while len(samples) < MIN_RUNS or clock() < end:
        began = clock()
        run()
        samples.append(clock() - began)
    return statistics.median(samples)


class _Bench:
    def __init__(self, threads: int, folder: Path, *, quick: bool = False) -> None:
        self.threads = threads
        self._sample_seconds = QUICK_SAMPLE_SECONDS if quick else SAMPLE_SECONDS
        self._floor_inputs = QUICK_FLOOR_INPUTS if quick else FLOOR_INPUTS
        self._floors: dict[str, list[float]] = {}
        self.empty_call_ns = 0.0
        self._folder = folder
        self._pool: dict[str, Array] = {}
        self._kept: dict[Task, _Bound] = {}
        self._clocks: list[float] = []

    # --- sessions -----------------------------------------------------------------------

    def bind(self, graph: Graph, *, profile_prefix: str = "") -> _Bound:
        path = self._folder / "model.onnx"
        path.write_bytes(graph.model)
        session = make_session(SessionRequest(model=str(path), threads=self.threads), profile_prefix=profile_prefix)
        inputs = [self._buffer(f"in{i}", port.element_type, port.nbytes) for i, port in enumerate(graph.inputs)]
        outputs = [self._buffer(f"out{i}", port.element_type, port.nbytes) for i, port in enumerate(graph.outputs)]
        if graph.fill is not None:
            for port, buffer in zip(graph.inputs, inputs, strict=True):
                values = buffer[: port.nbytes].view(helper.tensor_dtype_to_np_dtype(port.element_type))
                values[:] = graph.fill
        outputs = inputs[:1] if graph.in_place else outputs
        return _Bound(session, graph, inputs, outputs)

    def _buffer(self, role: str, element_type: int, nbytes: int) -> Array:
        """A 64-byte aligned buffer with ordinary values in pages of its own, reused if it fits."""
        key = f"{role} {element_type}"
        held = self._pool.get(key)
        if held is None or held.nbytes < nbytes:
            self._pool.pop(key, None)
            raw = np.empty(nbytes + 64, dtype=np.uint8)
            start = -raw.ctypes.data % 64
            held = raw[start : start + nbytes]
            # Written, not merely reserved: untouched pages all map to one page of zeros.
            if element_type in (TensorProto.UINT8, TensorProto.INT8):
                held[:] = np.random.default_rng(1).integers(0, 256, nbytes, dtype=np.uint8)
            else:
                held.view(helper.tensor_dtype_to_np_dtype(element_type))[:] = 1
            self._pool[key] = held
        return held

    # --- ceilings -----------------------------------------------------------------------

    def net_ns(self, load: Workload) -> float | None:
        """Time of one run of the workload in ns, less that of an empty call.

        None where the call takes longer than the work: the difference would be noise.
        """
        if load.kind.startswith("numpy "):
            return self._numpy_ns(load)
        bound = self._kept.pop(load.task, None) or self.bind(load.build())
        net = bound.median_ns(self._sample_seconds) - self.empty_call_ns
        if load.task.ceiling.startswith("tensor "):
            # Packing the weights takes longer than the sample; streaming sessions are quick to make.
            self._kept[load.task] = bound
            if (clock := clock_mhz()) is not None:
                self._clocks.append(clock)
        return net if net >= self.empty_call_ns else None

    def clock(self) -> float | None:
        """Median of the clocks right after each product, in MHz; None where the system does not tell."""
        return statistics.median(self._clocks) if self._clocks else None

    def _numpy_ns(self, load: Workload) -> float:
        """Time of NumPy's pass over an array in ns, a part of it in each thread: NumPy lets go of the GIL."""
        (elements,) = load.size
        pattern = load.kind.removeprefix("numpy ")
        arrays = [self._buffer(role, TensorProto.FLOAT, 4 * elements) for role in ("in0", "out0")]
        source, target = (array[: 4 * elements].view(np.float32) for array in arrays)
        edges = [elements * part // self.threads for part in range(self.threads + 1)]
        parts = [slice(first, last) for first, last in itertools.pairwise(edges)]

        def work(part: slice) -> None:
            if pattern == "copy":
                np.copyto(target[part], source[part])
            elif pattern == "read":
                source[part].max()
            else:
                target[part].fill(1)

        with concurrent.futures.ThreadPoolExecutor(self.threads) as pool:
            return _median_ns(lambda: list(pool.map(work, parts)), SAMPLE_SECONDS)

    def computes_in(self, element_type: int) -> bool:
        """Whether a MatMul of this type runs as such, without casts to another type around it."""
        try:
            events = self._profile(probe(element_type).build(), runs=1)
        except (BuildError, MissingError):
            return False
        return all(event["args"]["op_name"] != "Cast" for event in events)

    # --- floors -------------------------------------------------------------------------

    def floors(self, *, with_profiler: bool, repeats: int) -> dict[str, Reading]:
        """What an empty node and a call cost, and what the profiler adds: medians of these repeats and all before."""
        found = self._floors
        one = self.bind(empty_chain(1))
        for _ in range(repeats):
            launch = self._per_node_ns(CHAIN, empty_chain)
            found.setdefault("launch", []).append(launch)
            found.setdefault("call", []).append(max(one.median_ns(SAMPLE_SECONDS) - launch, 0.0))
            if with_profiler:
                each_tensor = self._profiler_tensor_ns()
                event = self._empty_event_ns()
                found.setdefault("profiler tensor", []).append(each_tensor)
                found.setdefault("profiler", []).append(_fit.profiler_base(event, launch, 2, each_tensor))
                found.setdefault("profiler gap", []).append(max(self._event_step_ns() - event, 0.0))
        return {key: _fit.floor_reading(values, "empty nodes") for key, values in found.items()}

    def _per_node_ns(self, lengths: tuple[int, int], build: Callable[[int], Graph]) -> float:
        """Cost of one more node without the profiler."""
        short, long = (self.bind(build(length)).median_ns(SAMPLE_SECONDS / 2) for length in lengths)
        return max(_fit.slope(lengths[0], short, lengths[1], long), 0.0)

    def _empty_event_ns(self) -> float:
        """What the profiler reports for an empty node: the nodes grow until half reach the next us."""
        samples: list[tuple[float, list[int]]] = []
        empty = 0.0
        for size in FLOOR_SIZES:
            per_node = self._per_node_ns(SHORT_CHAIN, functools.partial(empty_chain, elements=size))
            empty = empty or per_node
            readings = self._event_us(empty_chain(SHORT_CHAIN[1], size))
            samples.append((max(per_node - empty, 0.0), readings))
            target = int(statistics.median(samples[0][1])) + 1
            if sum(reading >= target for reading in readings) > len(readings) / 2:
                break
        return _fit.resolve_floor(samples)

    def _profiler_tensor_ns(self) -> float:
        """What the profiler adds for one more tensor: nodes of the same size with more inputs."""
        points = []
        for inputs in self._floor_inputs:
            per_node = self._per_node_ns(SHORT_CHAIN, functools.partial(empty_chain, inputs=inputs))
            readings = self._event_us(empty_chain(SHORT_CHAIN[1], inputs=inputs))
            # One output beside the inputs.
            points.append((inputs + 1, _fit.grouped_median_ns(readings) - per_node))
        return _fit.cost_per_tensor(points)

    def _event_step_ns(self) -> float:
        """Time from the start of one empty node's event to the next one's, in warm runs."""
        length = SHORT_CHAIN[1]
        events = self._profile(empty_chain(length), runs=PROFILE_WARMUP + PROFILE_RUNS)
        starts = [int(event["ts"]) for event in events[PROFILE_WARMUP * length :]]
        return statistics.median(
            _fit.event_step_ns(starts[first : first + length]) for first in range(0, len(starts), length)
        )

    def _event_us(self, graph: Graph) -> list[int]:
        """The profiler's readings in whole us for every node of warm runs."""
        events = self._profile(graph, runs=PROFILE_WARMUP + PROFILE_RUNS)
        return [int(event["dur"]) for event in events[PROFILE_WARMUP * SHORT_CHAIN[1] :]]

    def _profile(self, graph: Graph, runs: int) -> list[dict[str, Any]]:
        """Node events of the runtime's own profiler."""
        bound = self.bind(graph, profile_prefix=str(self._folder / "profile"))
        for _ in range(runs):
            bound.run()
        path = Path(bound.session.end_profiling())
        try:
            told = json.loads(path.read_bytes())
        except (FileNotFoundError, ValueError):  # ONNX Runtime writes it without looking whether it can
            raise cut_off(path.name) from None
        events = [e for e in told if e["cat"] == "Node" and e["name"].endswith("_kernel_time")]
        path.unlink()
        nodes = len(events) // runs
        if nodes < 1 or len(events) != nodes * runs:
            raise BuildError(
                "the calibration graph did not run node by node",
                why=f"{len(events)} kernel events in {runs} runs",
                fix="report this with the version of onnxruntime",
            )
        return events


def _tell(text: str) -> None:
    if isinstance(text, Line):
        sys.stdout.write(text.wire() + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    child.end_with_parent()
    sys.exit(child.answer(sys.argv, MeasureRequest, lambda request: measure(request, _tell)))
