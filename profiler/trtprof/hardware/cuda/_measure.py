"""The child process that measures a GPU: ``python -m trtprof.hardware.cuda._measure REQUEST``.

A process of its own keeps the caller free of a CUDA context, and outlives no fault of the device. The
result is one JSON document, the last line of stdout.
"""

from __future__ import annotations

import ctypes
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import c_uint32 as u32
from ctypes import c_uint64 as u64
from typing import NamedTuple, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from trtprof.base.errors import CaptureError
from trtprof.base.units import format_bytes
from trtprof.hardware import _fit
from trtprof.hardware._fit import Reading, Task
from trtprof.hardware.cuda import _kernels, _workloads
from trtprof.hardware.cuda._exchange import GpuMeasured, GpuRequest, GpuSetting
from trtprof.hardware.cuda._kernels import THREADS, ComputeKernel
from trtprof.hardware.cuda._workloads import Device, Memory, Run, Workload
from trtprof.runtime import child, cublas, cuda_driver, nvml_session, nvrtc
from trtprof.runtime.cublas import Extent
from trtprof.runtime.cuda_driver import answer_on_gpu

BATCH_NS = 2e6
"""Runs that together take about this long are timed by one pair of events, which resolve half a microsecond."""

MAX_BATCH = 200
SAMPLE_SECONDS = 0.03  # Time spent on one repeat of one workload

MIN_SAMPLES = 3
HOST_NS = 20_000
"""For each run that is put on the stream the device is held busy so long: a few times what the host takes."""

LAUNCH_NS = 1e6  # What one launch of a kernel that computes is to last

CHAIN = (64, 512)
"""Lengths of the chains of empty kernels; a stream takes about a thousand launches before it blocks the host."""

FLOOR_REPEATS = 5
ALGORITHMS_TRIED = 3
WARM_UP_SECONDS = 0.5
CLOCK_SECONDS = 0.02  # Time between two readings of the clock

CHECKED = 16  # Rows and columns of a product that are compared with one in double precision on the host


class ClockReading(NamedTuple):
    """Clocks in MHz, None where the driver does not tell; and what holds that of the SMs down."""

    sm_mhz: float | None
    memory_mhz: float | None
    reasons: tuple[str, ...]


Clock = Callable[[], ClockReading]  # SM clock in MHz, and what holds it down


class Products(Protocol):
    """The library of matrix products; `cublas.Library`."""

    version: str

    def algorithms(self, product: cublas.Product, extent: Extent, address: int) -> list[Run]: ...


def main(argv: list[str]) -> int:
    """Entry point of the child; returns its exit code."""
    return answer_on_gpu(argv, GpuRequest, measure)


def measure(request: GpuRequest) -> GpuMeasured:
    """Measure every ceiling and floor of a GPU in this process."""
    began = time.monotonic()
    with opened(request) as (bench, setting):
        with clock_of(request.nvml_index) as clock, watch(clock) as watched:
            readings = bench.readings(request.seconds)
        return GpuMeasured(
            **msgspec.structs.asdict(setting),
            readings=readings,
            errors=bench.errors,
            clocks_mhz=watched.clocks_mhz(),
            held_down=watched.held_down(),
            notes=tuple(bench.notes),
            seconds=time.monotonic() - began,
        )


@contextmanager
def opened(request: GpuRequest) -> Iterator[tuple[Bench, GpuSetting]]:
    """A device with the kernels loaded and memory taken, and what it is measured with."""
    with cuda_driver.device(request.ordinal, request.uuid) as gpu:
        found = gpu.properties
        architecture = nvrtc.target(found.capability, _kernels.architecture(found.capability))
        gpu.load(nvrtc.compile_source(_kernels.source(), architecture).image)
        memory = take_memory(gpu)
        notes: list[str] = []
        products: Products | None = None
        try:
            products = cublas.Library(memory.workspace, int(gpu.stream))
        except (ImportError, cublas.UnsupportedError) as error:
            notes.append(f"no matrix products: {error}")
        bench = Bench(gpu, memory, products)
        bench.notes += notes
        yield (
            bench,
            GpuSetting(
                name=found.name, architecture=architecture, nvrtc=".".join(map(str, found.nvrtc)),
                cublas=products.version if products else "", l2_bytes=found.l2_bytes, pool_bytes=memory.pool_bytes,
            ),
        )  # fmt: skip


def take_memory(gpu: Device) -> Memory:
    """Take the device memory that all workloads share, filled with random bits."""
    size = _workloads.pool_bytes(gpu.properties)
    if size < _workloads.LEAST_POOL:
        raise CaptureError(
            f"there is too little free memory on {gpu.properties.name} to measure it",
            why=f"{format_bytes(gpu.properties.free_bytes)} are free, of which one part in "
            f"{_workloads.SHARE} may be taken",
            fix="end other programs that hold memory of the GPU (nvidia-smi lists them)",
        )
    memory = Memory(
        pool=gpu.allocate(size),
        pool_bytes=size,
        sink=gpu.allocate(_workloads.sink_bytes(gpu.properties)),
        workspace=gpu.allocate(cublas.WORKSPACE),
    )
    fill(gpu, "bits", memory.pool, size // 4, seed=1)
    gpu.synchronize()
    return memory


class Bench:
    """Times workloads on a device, products only where there is a library of them."""

    def __init__(self, gpu: Device, memory: Memory, products: Products | None) -> None:
        self.gpu = gpu
        self.memory = memory
        self.products = products
        self._gemms: dict[Task, Run | None] = {}
        self.errors: dict[str, float] = {}
        self.notes: list[str] = []

    def readings(self, seconds: float) -> dict[str, Reading]:
        """Every ceiling within about ``seconds``, and the floors."""
        self.warm_up()
        floors = self.floors()
        loads = {load.task: load for load in self.workloads()}
        deadline = time.monotonic() + seconds
        raced = _fit.race(list(loads), lambda task: self.run_ns(loads[task]), lambda: deadline - time.monotonic())
        return {**raced, **floors}

    # --- workloads --------------------------------------------------------------------------

    def workloads(self) -> Iterator[Workload]:
        """All that is run, the cheap ones of a ceiling first."""
        gpu, memory = self.gpu, self.memory
        capability = gpu.properties.capability
        for kernel in _kernels.kernels(capability):
            yield _workloads.compute_workload(gpu, memory, kernel, self._trips(kernel))
        if self.products is not None:
            for product, size in _workloads.products(capability, memory.pool_bytes):
                task = _workloads.gemm_task(product, size)
                yield Workload(task, self.gemm(self.products, task, product, cublas.square(size)))
        yield from _workloads.memory_workloads(gpu, memory)
        yield from self._transfers()

    def _trips(self, kernel: ComputeKernel) -> int:
        """So many that a launch takes about `LAUNCH_NS`."""
        few = 16
        run = _workloads.compute_run(self.gpu, self.memory, kernel, few)
        self._elapsed_ns(run, 1)
        return max(round(few * LAUNCH_NS / max(self._elapsed_ns(run, 1), 1.0)), few)

    def _transfers(self) -> Iterator[Workload]:
        room = min(max(_workloads.PINNED), self.memory.pool_bytes)
        pageable = np.random.default_rng(1).bytes(min(max(_workloads.PAGEABLE), room))
        self._pageable = ctypes.create_string_buffer(pageable, len(pageable))
        try:
            pinned = self.gpu.allocate_pinned(room)
        except nvrtc.CudaError as error:
            self.notes.append(f"no copies of pinned memory: {format_bytes(room)} of it: {error}")
            pinned, room = 0, 0
        else:
            for at in range(0, room, len(pageable)):
                ctypes.memmove(pinned + at, pageable, min(len(pageable), room - at))
        address = ctypes.addressof(self._pageable)
        yield from _workloads.transfer_workloads(self.gpu, self.memory, (pinned, room), (address, len(pageable)))

    # --- time -------------------------------------------------------------------------------

    def run_ns(self, load: Workload) -> float | None:
        """Median time in ns of one run of a workload, None where the device cannot do it."""
        try:
            run = load.prepare()
            if run is None:
                return None
            self._elapsed_ns(run, 1, held=load.held)
            once = self._elapsed_ns(run, 1, held=load.held)
            count = min(max(round(BATCH_NS / max(once, 1.0)), 1), MAX_BATCH)
            samples: list[float] = []
            end = time.monotonic() + SAMPLE_SECONDS
            while len(samples) < MIN_SAMPLES or time.monotonic() < end:
                samples.append(self._elapsed_ns(run, count, held=load.held) / count)
        except cublas.UnsupportedError as error:
            self.notes.append(f"{load.task.part}: {error}")
            self._gemms[load.task] = None
            return None
        return statistics.median(samples)

    def _elapsed_ns(self, run: Run, count: int, *, held: bool = True) -> float:
        """Time of ``count`` runs in a row, put on the stream before the first of them begins where it can be."""

        def enqueue() -> None:
            for _ in range(count):
                run()

        hold = HOST_NS * (count + 1)
        for _ in range(3 if held else 0):
            elapsed = self.gpu.elapsed_ns(enqueue, hold)
            if elapsed is not None:
                return elapsed
            hold *= 4
        # The host is slower than that: its gaps are in the time then, which makes a ceiling low, never high.
        return self.gpu.elapsed_ns(enqueue) or 0.0

    def warm_up(self) -> None:
        """Keep the device busy until its clock is up."""
        kernel = next(k for k in _kernels.kernels(self.gpu.properties.capability) if k.name == "vector_fp32")
        run = _workloads.compute_run(self.gpu, self.memory, kernel, self._trips(kernel))
        end = time.monotonic() + WARM_UP_SECONDS
        while time.monotonic() < end:
            self._elapsed_ns(run, 20)

    # --- floors -----------------------------------------------------------------------------

    def floors(self) -> dict[str, Reading]:
        """What one more empty kernel adds to a stream and to a CUDA graph, in ns."""
        short, long = CHAIN

        def chain(length: int) -> Run:
            def run() -> None:
                for _ in range(length):
                    self.gpu.launch("empty", 1, 32)

            return run

        found: dict[str, list[float]] = {"launch stream": [], "launch graph": []}
        runs = {
            "launch stream": (chain(short), chain(long)),
            "launch graph": (self.gpu.graph(chain(short)).launch, self.gpu.graph(chain(long)).launch),
        }
        for _ in range(FLOOR_REPEATS):
            for name, (few, many) in runs.items():
                # A chain is put on the stream by as many calls as it is long, a graph by one.
                times = [
                    statistics.median(self._chain_ns(run, length) for _ in range(MIN_SAMPLES))
                    for run, length in ((few, short), (many, long))
                ]
                found[name].append(max(_fit.slope(short, times[0], long, times[1]), 0.0))
        what = {
            "launch stream": "empty kernels in a stream, put there beforehand",
            "launch graph": "empty kernels in a CUDA graph",
        }
        return {name: _fit.floor_reading(values, what[name]) for name, values in found.items()}

    def _chain_ns(self, run: Run, length: int) -> float:
        hold = HOST_NS * length
        for _ in range(3):
            elapsed = self.gpu.elapsed_ns(run, hold)
            if elapsed is not None:
                return elapsed
            hold *= 4
        raise CaptureError(
            "the time of an empty kernel could not be measured",
            why=f"the host took longer than {hold / 4e6:.0f} ms to launch {length} kernels",
            fix="measure again on an idle machine",
        )

    # --- matrix products --------------------------------------------------------------------

    def gemm(self, library: Products, task: Task, product: cublas.Product, extent: Extent) -> Callable[[], Run | None]:
        """What makes a product ready."""

        def prepare() -> Run | None:
            if task in self._gemms and self._gemms[task] is None:
                return None
            self._operands(product, extent)
            if task not in self._gemms:
                self._gemms[task] = self._checked(library, task, product, extent)
            return self._gemms[task]

        return prepare

    def _operands(self, product: cublas.Product, extent: Extent) -> None:
        """Fill A and B anew: other workloads use the same memory. Zeros would take less power."""
        a, b, _, _ = cublas.layout(product, extent)
        for seed, at, lines in ((11, a, extent.rows), (12, b, extent.columns)):
            fill(self.gpu, product.fill, self.memory.pool + at, extent.batch * lines * extent.depth, seed)

    def _checked(self, library: Products, task: Task, product: cublas.Product, extent: Extent) -> Run | None:
        """The fastest algorithm, or None where its result is wrong."""
        times: dict[Run, float] = {}
        refused = ""
        for run in library.algorithms(product, extent, self.memory.pool)[:ALGORITHMS_TRIED]:
            try:
                self._elapsed_ns(run, 1)
                times[run] = self._elapsed_ns(run, 2)
            except cublas.UnsupportedError as error:
                refused = str(error)
        if not times:
            raise cublas.UnsupportedError(refused)
        best = min(times, key=lambda run: times[run])
        best()
        off = self._error(product, extent)
        self.errors[product.part] = max(self.errors.get(product.part, 0.0), off)
        if off <= product.tolerance:
            return best
        self.notes.append(
            f"{task.part}: left out, its result is off by {off:.2g} of its root mean square"
            f" where {product.tolerance:g} is expected"
        )
        return None

    def _error(self, product: cublas.Product, extent: Extent) -> float:
        """Relative error of a sample of entries of the product that was just made, of the first one of a batch."""
        a, b, c, _ = cublas.layout(product, extent)
        picked = np.random.default_rng(extent.depth)
        rows, columns = (
            np.sort(picked.choice(lines, min(CHECKED, lines), replace=False)) for lines in (extent.rows, extent.columns)
        )

        def lines(base: int, name: str, length: int, which: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
            nbytes = length * cublas.element_bytes(name)
            start = self.memory.pool + base
            return np.stack([cublas.values(name, self.gpu.read(start + int(i) * nbytes, nbytes)) for i in which])

        found = lines(c, product.out, extent.rows, columns)[:, rows].T
        left, right = lines(a, product.data, extent.depth, rows), lines(b, product.data, extent.depth, columns)
        return cublas.relative_error(left, right, found)


def fill(gpu: Device, kind: str, address: int, count: int, seed: int) -> None:
    """Fill device memory with random values of a type."""
    kernel = f"fill_{kind}"
    gpu.launch(kernel, gpu.full_wave(kernel, THREADS), THREADS, u64(address), u64(count), u32(seed))


# --- the clock ------------------------------------------------------------------------------


class Watched(NamedTuple):
    """Readings of the clocks: before, at short intervals, after."""

    readings: list[ClockReading]

    def clocks_mhz(self) -> dict[str, float]:
        """Those of the SMs: the first, the median of those between, the last; and that ``memory`` had in between."""
        first, *between, last = self.readings
        during = [reading.sm_mhz for reading in between if reading.sm_mhz is not None]
        memory = [reading.memory_mhz for reading in between if reading.memory_mhz is not None]
        found = {
            "before": first.sm_mhz,
            "during": statistics.median(during) if during else None,
            "after": last.sm_mhz,
            "memory": statistics.median(memory) if memory else None,
        }
        return {when: float(clock) for when, clock in found.items() if clock is not None}

    def held_down(self) -> dict[str, float]:
        """By reason, the share of the readings between."""
        between = [reading.reasons for reading in self.readings[1:-1]]
        counts = Counter(reason for reasons in between for reason in reasons if reason != "idle")
        return {reason: count / len(between) for reason, count in counts.most_common()}


@contextmanager
def clock_of(index: int) -> Iterator[Clock]:
    """What reads the clock of a GPU, as NVML counts."""
    with nvml_session.sampler(index) as sampler:
        yield lambda: ClockReading(sampler.sm_clock_mhz(), sampler.memory_clock_mhz(), sampler.throttle_reasons())


@contextmanager
def watch(clock: Clock) -> Iterator[Watched]:
    """Read the clock while something is measured, from a thread of its own."""
    watched = Watched([])
    done = threading.Event()

    def note() -> None:
        watched.readings.append(clock())

    def follow() -> None:
        while not done.wait(CLOCK_SECONDS):
            note()

    note()
    thread = threading.Thread(target=follow, name="clock", daemon=True)
    thread.start()
    try:
        yield watched
    finally:
        done.set()
        thread.join(10.0)  # a driver that does not answer is not waited for
        note()


if __name__ == "__main__":
    child.end_with_parent()
    sys.exit(main(sys.argv))
