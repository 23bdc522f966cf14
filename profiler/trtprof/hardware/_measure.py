"""The child process that measures: its thread pools and hundreds of megabytes of buffers are not the caller's."""

from __future__ import annotations

import functools
import itertools
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
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
    DTYPE_OF,
    Array,
    Graph,
    Workload,
    compute_workloads,
    empty_chain,
    memory_workloads,
    probe,
    quick_workloads,
    special_workloads,
    vector_workloads,
)
from trtprof.hardware.device import busy_seconds, clock_mhz
from trtprof.runtime import child
from trtprof.runtime.ort_session import SessionRequest, make_session
from trtprof.runtime.priority import ahead_of_others
from trtprof.runtime.speed_probe import HANDOVER_SIZE, SIZE, probe_ns, together_ns

MAX_WORKING_SET = 512_000_000  # The largest buffers that calibration allocates, in bytes
UNKNOWN_CACHE = 32 << 20  # Stands in for a last-level cache of unknown size when the ladder of working sets is laid out
SAMPLE_SECONDS, QUICK_SAMPLE_SECONDS = 0.02, 0.01  # Time spent on one repeat of one workload
QUICK_LONGEST_NS, QUICK_CONTENDERS = 15e6, 2  # `_fit.LONGEST_NS` and `_fit.MAX_CONTENDERS` of a quick set
MIN_RUNS = 3
PARTS, PAUSE_SECONDS = 3, 0.004  # Of a sample, and before each of them where all threads work
CHAIN = (64, 512)  # Lengths of the chains whose difference is the launch floor
SHORT_CHAIN = (16, 64)  # The same for the many chains that only separate the profiler's cost from the nodes' own
PROFILE_RUNS, QUICK_PROFILE_RUNS = 40, 15
PROFILE_WARMUP = 5
FLOOR_SIZES = (1, 512, 1024, 2048, 4096, 8192, 16384)
"""Elements of the all but empty nodes: their extra cost spans the microsecond of the profiler."""
FLOOR_INPUTS = (2, 3, 5, 8, 12, 18, 25, 32)
"""Inputs of the nodes that show the profiler's cost of a tensor: apart enough that the truncation
to whole microseconds averages out."""
QUICK_FLOOR_INPUTS = (2, 12, 32)
FLOOR_REPEATS = 3
PROBES = 3  # Speed probes before the ceilings, and as many after them: their spread shows a clock that drifted


def measure(request: MeasureRequest, progress: Progress = unheard) -> Measured:
    """Measure every ceiling and floor at one thread count; ``progress`` is told once a second."""
    progress(Line("the floors of a node and of a call", request.seconds + FLOOR_SECONDS * request.with_profiler))
    watch = _Watch()
    with scratch_folder() as folder, ahead_of_others():
        bench = _Bench(request.threads, folder)
        probes = [probe_ns() for _ in range(PROBES)]
        floors = bench.floors(with_profiler=request.with_profiler, repeats=FLOOR_REPEATS)

        deadline = time.monotonic() + request.seconds
        native = [t for t in (TensorProto.FLOAT16, TensorProto.BFLOAT16) if bench.computes_in(t)]
        cached, beyond = _ladder(request)
        by_name = {load.task: load for load in _workloads(cached, beyond, native)}
        count = Count(progress, f"timings of {len(by_name)} workloads")
        timings = itertools.count(1)

        def timed(task: Task) -> float | None:
            count.tell(next(timings), end=deadline)
            return bench.net_ns(by_name[task])

        readings = _fit.race(list(by_name), timed, lambda: deadline - time.monotonic())
        probes += [probe_ns() for _ in range(PROBES)]
    watch.pause()
    return watch.measured(request, {**readings, **floors}, probes, max(beyond), bench.clock())


def measure_in_rounds(lines: Iterator[bytes]) -> Iterator[Measured]:
    """What is needed, measured in a short round for each line, the first of which is the request; readings so far."""
    request = msgspec.json.decode(next(lines), type=MeasureRequest)
    with scratch_folder() as folder, ahead_of_others():
        bench, watch = _Bench(request.threads, folder), _Watch()
        bench.profile_runs, bench.sample_seconds = QUICK_PROFILE_RUNS, QUICK_SAMPLE_SECONDS
        cached, beyond = _ladder(request)
        loads = [load for load in quick_workloads(cached[-2:][0], beyond[0]) if load.task.ceiling in request.needed]
        given: dict[str, Reading] = {}
        for element_type, dtype in DTYPE_OF.items():
            name = f"tensor {dtype}"
            if name in request.needed and element_type in _SELDOM and not bench.computes_in(element_type):
                loads = [load for load in loads if load.task.ceiling != name]
                given[name] = Reading(0.0, 0.0, 1, "the runtime computes it in another type")
        by_name = {load.task: load for load in loads}
        race = _fit.Race(list(by_name), lambda task: bench.net_ns(by_name[task]), QUICK_LONGEST_NS, QUICK_CONTENDERS)
        probes = [probe_ns()]
        if "launch" in request.needed:
            given |= bench.floors(with_profiler=request.with_profiler, repeats=1, inputs=QUICK_FLOOR_INPUTS)
        race.first()
        for number in itertools.count():
            watch.pause()
            yield watch.measured(request, {**race.readings(), **given}, probes, beyond[0], bench.clock())
            if next(lines, None) is None:
                return
            watch.go_on()
            probes.append(probe_ns())
            if number < _MOST_ROUNDS:
                race.again()
                if "launch" in request.needed:
                    # As the ceilings, they bound times, so that the least of several moments counts.
                    again = bench.floors(with_profiler=False, repeats=1)
                    given |= {
                        key: min(given[key], one, key=lambda reading: reading.value) for key, one in again.items()
                    }


_SELDOM = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
"""Types that the runtime computes in on some CPUs."""

_MOST_ROUNDS = 4


class _Watch:
    """How long it measured, and what others did meanwhile; what lies between rounds is left out."""

    def __init__(self) -> None:
        self._seconds = self._others = 0.0
        self._at_once = [math.inf, math.inf]
        self._told = True
        self._clock = clock_mhz()
        self.go_on()

    def go_on(self) -> None:
        self._began = time.monotonic(), time.process_time(), busy_seconds()

    def pause(self) -> None:
        began, own_before, busy_before = self._began
        self._seconds += time.monotonic() - began
        busy, own = busy_seconds(), time.process_time() - own_before
        # Some containers tell of no CPU at all that it is busy.
        self._told &= busy is not None and busy_before is not None and busy - busy_before > own / 2
        self._others += max((busy or 0.0) - (busy_before or 0.0) - own, 0.0)

    def measured(
        self,
        request: MeasureRequest,
        readings: dict[str, Reading],
        probes: Sequence[float],
        working_set: int,
        clock: float | None,
    ) -> Measured:
        """The readings with all that was seen beside them."""
        import onnxruntime

        # The ceilings are the best of their repeats, and so is the speed that they were reached at.
        probe = Reading(min(probes), _fit.relative_spread(probes), len(probes), "MatMul 256x256x256, 1 thread")
        self._at_once = [
            min(best, ns or math.inf) for best, ns in zip(self._at_once, together_ns(request.threads), strict=True)
        ]
        at_once = {
            name: Reading(ns, 0.0, 1, f"MatMul {size}x{size}x{size}, {request.threads} threads")
            for name, size, ns in zip(("together", "handover"), (SIZE, HANDOVER_SIZE), self._at_once, strict=True)
            if ns < math.inf
        }
        return Measured(
            threads=request.threads,
            runtime=str(onnxruntime.__version__),
            readings={**readings, "probe": probe, **at_once},
            working_set=working_set,
            seconds=self._seconds,
            others_cpus=self._others / self._seconds if self._told else None,
            clocks_mhz=_known(before=self._clock, during=clock, after=clock_mhz()),
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
    return sorted(set(cached)), sorted(set(beyond))


def _workloads(cached: Sequence[int], beyond: Sequence[int], native: Sequence[int]) -> list[Workload]:
    """What races for the ceilings of a full set."""
    # A few MB a thread: small enough to stay in the cache, large enough for all threads to be used.
    arithmetic = [size for size in cached if size >= 1 << 20][-2:] or cached[-1:]
    return [
        *memory_workloads("cache", cached),
        *memory_workloads("dram", beyond),
        *compute_workloads([TensorProto.FLOAT, TensorProto.DOUBLE, *native]),
        *vector_workloads(arithmetic),
        *special_workloads(arithmetic),
    ]


class _Bound:
    """A session with inputs and outputs bound to buffers that are there before the first run."""

    def __init__(self, session: Any, graph: Graph, inputs: list[Array], outputs: list[Array]) -> None:
        self.session = session
        self._graph = graph
        self._keep = (inputs, outputs)
        self._binding = session.io_binding()
        for port, buffer in zip(graph.inputs, inputs, strict=True):
            self._binding.bind_input(port.name, "cpu", 0, port.element_type, list(port.shape), buffer.ctypes.data)
        for port, buffer in zip(graph.outputs, outputs, strict=True):
            self._binding.bind_output(port.name, "cpu", 0, port.element_type, list(port.shape), buffer.ctypes.data)

    def fill(self) -> None:
        """Write ordinary values: untouched pages all map to one page of zeros, and others may have left no numbers."""
        for port, buffer in zip(self._graph.inputs, self._keep[0], strict=True):
            buffer.view(helper.tensor_dtype_to_np_dtype(port.element_type))[:] = (
                1 if self._graph.fill is None else self._graph.fill
            )

    def run(self) -> None:
        self.session.run_with_iobinding(self._binding)

    def fastest_ns(self, seconds: float, pause_s: float = 0.0) -> float:
        """The fastest of the runs that fit into ``seconds``, at least `MIN_RUNS`, after two to warm up."""
        return _fastest_ns(self.run, seconds, pause_s)


def _fastest_ns(run: Callable[[], object], seconds: float, pause_s: float) -> float:
    clock = time.perf_counter_ns
    for _ in range(2):
        run()
    samples: list[int] = []
    for _ in range(PARTS):
        # Threads that wake up are spread over idle CPUs; two that spin on one CPU would stay there.
        time.sleep(pause_s)
        end = clock() + int(seconds / PARTS * 1e9)
        while len(samples) < MIN_RUNS or clock() < end:
            began = clock()
            run()
            samples.append(clock() - began)
    return min(samples)


class _Bench:
    def __init__(self, threads: int, folder: Path) -> None:
        self.threads = threads
        self._folder = folder
        self._arena: Array = np.empty(0, dtype=np.uint8)
        self.profile_runs, self.sample_seconds = PROFILE_RUNS, SAMPLE_SECONDS
        self._kept: dict[Task, _Bound] = {}
        self._clocks: list[float] = []
        self._empty_call_ns = self.bind(empty_chain(1)).fastest_ns(SAMPLE_SECONDS)

    # --- sessions -----------------------------------------------------------------------

    def bind(self, graph: Graph, *, profile_prefix: str = "") -> _Bound:
        path = self._folder / "model.onnx"
        path.write_bytes(graph.model)
        session = make_session(SessionRequest(model=str(path), threads=self.threads), profile_prefix=profile_prefix)
        ports = graph.inputs if graph.in_place else (*graph.inputs, *graph.outputs)
        buffers = self._buffers([port.nbytes for port in ports])
        inputs = buffers[: len(graph.inputs)]
        return _Bound(session, graph, inputs, inputs[:1] if graph.in_place else buffers[len(inputs) :])

    def _buffers(self, sizes: Sequence[int]) -> list[Array]:
        """Aligned buffers of so many bytes in memory that all workloads share: new pages take long to get."""
        ends = list(itertools.accumulate(-(-size // 64) * 64 + 64 for size in sizes))
        if self._arena.nbytes < ends[-1] + 64:
            self._arena = np.empty(ends[-1] + 64, dtype=np.uint8)
        first = -self._arena.ctypes.data % 64
        return [self._arena[first + at : first + at + size] for at, size in zip([0, *ends], sizes, strict=False)]

    # --- ceilings -----------------------------------------------------------------------

    def net_ns(self, load: Workload) -> float | None:
        """Time of one run of the workload in ns, less that of an empty call.

        None where the call takes longer than the work: the difference would be noise.
        """
        bound = self._kept.pop(load.task, None) or self.bind(load.build())
        bound.fill()
        net = bound.fastest_ns(self.sample_seconds, PAUSE_SECONDS) - self._empty_call_ns
        if load.task.ceiling.startswith("tensor "):
            # Packing the weights takes longer than the sample; streaming sessions are quick to make.
            self._kept[load.task] = bound
            if (clock := clock_mhz()) is not None:
                self._clocks.append(clock)
        return net if net >= self._empty_call_ns else None

    def clock(self) -> float | None:
        """Median of the clocks right after each product, in MHz; None where the system does not tell."""
        return statistics.median(self._clocks) if self._clocks else None

    def computes_in(self, element_type: int) -> bool:
        """Whether a MatMul of this type runs as such, without casts to another type around it."""
        try:
            events = self._profile(probe(element_type).build(), runs=1)
        except (BuildError, MissingError):
            return False
        return all(event["args"]["op_name"] != "Cast" for event in events)

    # --- floors -------------------------------------------------------------------------

    def floors(self, *, with_profiler: bool, repeats: int, inputs: Sequence[int] = FLOOR_INPUTS) -> dict[str, Reading]:
        """What an empty node and a call cost, and what the profiler adds: medians of the repeats."""
        found: dict[str, list[float]] = {}
        one = self.bind(empty_chain(1))
        for _ in range(repeats):
            launch = self._per_node_ns(CHAIN, empty_chain)
            found.setdefault("launch", []).append(launch)
            found.setdefault("call", []).append(max(one.fastest_ns(SAMPLE_SECONDS) - launch, 0.0))
            if with_profiler:
                each_tensor = self._profiler_tensor_ns(inputs)
                event = self._empty_event_ns()
                found.setdefault("profiler tensor", []).append(each_tensor)
                found.setdefault("profiler", []).append(_fit.profiler_base(event, launch, 2, each_tensor))
                found.setdefault("profiler gap", []).append(max(self._event_step_ns() - event, 0.0))
        return {key: _fit.floor_reading(values, "empty nodes") for key, values in found.items()}

    def _per_node_ns(self, lengths: tuple[int, int], build: Callable[[int], Graph]) -> float:
        """Cost of one more node without the profiler."""
        short, long = (self.bind(build(length)).fastest_ns(self.sample_seconds / 2) for length in lengths)
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

    def _profiler_tensor_ns(self, counts: Sequence[int]) -> float:
        """What the profiler adds for one more tensor: nodes of the same size with more inputs."""
        points = []
        for inputs in counts:
            per_node = self._per_node_ns(SHORT_CHAIN, functools.partial(empty_chain, inputs=inputs))
            readings = self._event_us(empty_chain(SHORT_CHAIN[1], inputs=inputs))
            # One output beside the inputs.
            points.append((inputs + 1, _fit.grouped_median_ns(readings) - per_node))
        return _fit.cost_per_tensor(points)

    def _event_step_ns(self) -> float:
        """Time from the start of one empty node's event to the next one's, in warm runs."""
        length = SHORT_CHAIN[1]
        events = self._profile(empty_chain(length), runs=PROFILE_WARMUP + self.profile_runs)
        starts = [int(event["ts"]) for event in events[PROFILE_WARMUP * length :]]
        return statistics.median(
            _fit.event_step_ns(starts[first : first + length]) for first in range(0, len(starts), length)
        )

    def _event_us(self, graph: Graph) -> list[int]:
        """The profiler's readings in whole us for every node of warm runs."""
        events = self._profile(graph, runs=PROFILE_WARMUP + self.profile_runs)
        return [int(event["dur"]) for event in events[PROFILE_WARMUP * SHORT_CHAIN[1] :]]

    def _profile(self, graph: Graph, runs: int) -> list[dict[str, Any]]:
        """Node events of the runtime's own profiler."""
        bound = self.bind(graph, profile_prefix=str(self._folder / "profile"))
        for _ in range(runs):
            bound.run()
        path = Path(bound.session.end_profiling())
        try:
            told = msgspec.json.decode(path.read_bytes())
        except (FileNotFoundError, msgspec.DecodeError):  # ONNX Runtime writes it without looking whether it can
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
    if len(sys.argv) < 2:
        sys.exit(child.converse(measure_in_rounds))
    child.end_with_parent()
    sys.exit(child.answer(sys.argv, MeasureRequest, lambda request: measure(request, _tell)))
