"""What is run on a GPU to reach each ceiling, laid out within the memory that may be taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ctypes import c_uint32 as u32
from ctypes import c_uint64 as u64
from itertools import cycle
from typing import NamedTuple, Protocol

from trtprof.base.units import format_bytes
from trtprof.hardware._fit import Task
from trtprof.hardware.cuda._kernels import PIECE, THREADS, TILE, ComputeKernel
from trtprof.runtime import cublas
from trtprof.runtime.cuda_driver import Argument, Properties

Run = Callable[[], None]  # Puts one run of a workload on the stream

SHARE = 4  # At most one part in so many of the free memory is taken

ROTATION = 32
"""The pool that buffers rotate through is so many times the L2 where the memory allows: whatever the L2 keeps
by another rule than least recently used, it can serve no more than one byte in so many."""

BEYOND = (4, 8, 16)  # Sizes of one run from DRAM, in L2s

WITHIN = (8, 4, 2)
"""Of the L2, one part in so many is the working set. The L2 of A100 and H100 has two halves that may both
hold a copy of what all SMs read."""

UNKNOWN_L2 = 64 << 20  # Stands in for an L2 of unknown size

GEMM_SIZES = (2048, 4096, 8192)

RUN_BYTES = 1 << 30  # What one run from the L2 reads, about

PINNED = (1 << 20, 16 << 20, 64 << 20, 256 << 20)
PAGEABLE = (16 << 20, 64 << 20)

LEAST_POOL = 64 << 20  # Bytes of device memory without which nothing is measured

_THREADS_PER_SM = 2048
"""The most that any GPU has at a time (CUDA guide, technical specifications per compute capability)."""


class Graph(Protocol):
    """Work recorded to be launched as a whole; `cuda_driver.Graph`."""

    def launch(self) -> None: ...


class Device(Protocol):
    """What is asked of a device; `cuda_driver.Gpu`."""

    @property
    def properties(self) -> Properties: ...
    def full_wave(self, kernel: str, threads: int) -> int: ...
    def launch(self, kernel: str, blocks: int, threads: int, *arguments: Argument) -> None: ...
    def graph(self, enqueue: Run) -> Graph: ...
    def elapsed_ns(self, enqueue: Run, hold_ns: int = 0) -> float | None: ...
    def synchronize(self) -> None: ...
    def allocate(self, nbytes: int) -> int: ...
    def allocate_pinned(self, nbytes: int) -> int: ...
    def copy_to_device(self, target_address: int, source_address: int, nbytes: int) -> None: ...
    def copy_to_host(self, target_address: int, source_address: int, nbytes: int) -> None: ...
    def read(self, address: int, nbytes: int) -> bytes: ...


class Workload(NamedTuple):
    """A task and how it is run.

    ``prepare`` makes ready and returns what puts one run on the stream, or None where the device
    cannot do it. ``held`` says that runs may be queued behind a busy device.
    """

    task: Task
    prepare: Callable[[], Run | None]
    held: bool = True


class Memory(NamedTuple):
    """Where the device memory that was taken lies."""

    pool: int
    pool_bytes: int
    sink: int  # Results of kernels that are there to be timed
    workspace: int


def l2_bytes(properties: Properties) -> int:
    """Size of the L2, or what stands in for it."""
    return properties.l2_bytes or UNKNOWN_L2


def sink_bytes(properties: Properties) -> int:
    """A piece for every thread that can be there at a time."""
    return properties.sms * _THREADS_PER_SM * PIECE


def pool_bytes(properties: Properties) -> int:
    """How large the pool is to be: enough for every workload, but no more of the free memory than `SHARE` says."""
    largest = cublas.layout(cublas.PRODUCTS[0], cublas.square(max(GEMM_SIZES)))[3]
    wanted = max(ROTATION * l2_bytes(properties), largest, LEAST_POOL, *PINNED)
    limit = properties.free_bytes // SHARE - sink_bytes(properties) - cublas.WORKSPACE
    return down(min(wanted, limit), TILE)


def down(count: int, step: int) -> int:
    """The largest multiple of ``step`` that is not above ``count``."""
    return count // step * step


# --- memory ---------------------------------------------------------------------------------


def dram_sizes(l2: int, region: int) -> list[int]:
    """Bytes of one run from DRAM: several times the L2, where they fit into ``region`` at least twice."""
    sizes = sorted({down(times * l2, TILE) for times in BEYOND if 2 * times * l2 <= region})
    return sizes or [down(region // 2, TILE)]


def rotation(region: int, size: int) -> list[int]:
    """Where the runs that follow each other begin within ``region``, over and over: none overlaps the next."""
    return [first * size for first in range(region // size)]


def cache_sizes(l2: int) -> list[int]:
    """Working sets in bytes that fit into the L2."""
    return sorted({max(down(l2 // part, TILE), TILE) for part in WITHIN})


def memory_workloads(gpu: Device, memory: Memory) -> Iterator[Workload]:
    """Reads, writes and copies from DRAM and within the L2."""
    l2 = l2_bytes(gpu.properties)
    half = down(memory.pool_bytes // 2, TILE)
    for size in dram_sizes(l2, memory.pool_bytes):
        yield _dram(gpu, memory, "read", size, memory.pool_bytes)
        yield _dram(gpu, memory, "write", size, memory.pool_bytes)
    for size in dram_sizes(l2, half):
        yield _dram(gpu, memory, "copy", size, half)
    for size in cache_sizes(l2):
        yield _cache(gpu, memory, "read", size)
        yield _cache(gpu, memory, "copy", size)


def _dram(gpu: Device, memory: Memory, pattern: str, size: int, region: int) -> Workload:
    kernel = f"dram_{pattern}"
    blocks = min(gpu.full_wave(kernel, THREADS), size // TILE)
    places = cycle(rotation(region, size))
    pieces = u64(size // PIECE)

    def run() -> None:
        at = memory.pool + next(places)
        if pattern == "read":
            gpu.launch(kernel, blocks, THREADS, u64(memory.sink), u64(at), pieces)
        elif pattern == "write":
            gpu.launch(kernel, blocks, THREADS, u64(at), pieces, u32(at & 0xFFFFFFFF))
        else:
            gpu.launch(kernel, blocks, THREADS, u64(at + region), u64(at), pieces)

    moved = 2 * size if pattern == "copy" else size
    name = f"{pattern} {format_bytes(size)} at a time, rotating through {format_bytes(region)}"
    return Workload(Task("dram", name, moved, f"dram {pattern}"), lambda: run)


def _cache(gpu: Device, memory: Memory, pattern: str, size: int) -> Workload:
    """``size`` bytes over and over; a copy goes from one half of them to the other."""
    kernel = f"cache_{pattern}"
    copies = pattern == "copy"
    tiles = max(size // (2 * TILE if copies else TILE), 1)
    blocks = gpu.full_wave(kernel, THREADS)
    trips = max(RUN_BYTES // (blocks * TILE), 1)
    target = memory.pool + tiles * TILE if copies else memory.sink

    def run() -> None:
        gpu.launch(kernel, blocks, THREADS, u64(target), u64(memory.pool), u32(tiles), u32(trips))

    name = f"{pattern} {format_bytes((1 + copies) * tiles * TILE)} over and over, past the L1"
    return Workload(Task("cache", name, (1 + copies) * blocks * trips * TILE, f"cache {pattern}"), lambda: run)


def transfer_workloads(
    gpu: Device, memory: Memory, pinned: tuple[int, int], pageable: tuple[int, int]
) -> Iterator[Workload]:
    """Copies between host and device, from pinned memory and from memory that the driver has to stage."""
    for kind, (host, room), sizes in (("", pinned, PINNED), (" pageable", pageable, PAGEABLE)):
        for size in (size for size in sizes if size <= min(room, memory.pool_bytes)):
            words = f"{format_bytes(size)} of {kind.strip() or 'pinned'} memory"
            # What the driver stages it waits for, so that it cannot be queued behind a busy device.
            yield Workload(Task(f"h2d{kind}", words, size), _to_device(gpu, memory, host, size), held=not kind)
            yield Workload(Task(f"d2h{kind}", words, size), _to_host(gpu, memory, host, size), held=not kind)


def _to_device(gpu: Device, memory: Memory, host: int, size: int) -> Callable[[], Run]:
    return lambda: lambda: gpu.copy_to_device(memory.pool, host, size)


def _to_host(gpu: Device, memory: Memory, host: int, size: int) -> Callable[[], Run]:
    return lambda: lambda: gpu.copy_to_host(host, memory.pool, size)


# --- arithmetic -----------------------------------------------------------------------------


def compute_run(gpu: Device, memory: Memory, kernel: ComputeKernel, trips: int) -> Run:
    """What puts a kernel that computes on the stream, with a full wave of threads and ``trips`` of its loop."""
    blocks = gpu.full_wave(kernel.name, THREADS)
    return lambda: gpu.launch(kernel.name, blocks, THREADS, u64(memory.sink), u32(trips))


def compute_workload(gpu: Device, memory: Memory, kernel: ComputeKernel, trips: int) -> Workload:
    """A kernel that computes in registers."""
    run = compute_run(gpu, memory, kernel, trips)
    amount = kernel.amount * trips * gpu.full_wave(kernel.name, THREADS) * THREADS
    words = f"{kernel.instruction} in registers"
    if kernel.part:
        return Workload(Task(kernel.part, words, amount, f"mma {kernel.part.removeprefix('tensor ')}"), lambda: run)
    return Workload(Task(kernel.ceiling, words, amount), lambda: run)


def products(capability: tuple[int, int], pool: int) -> Iterator[tuple[cublas.Product, int]]:
    """The matrix products to try, and their sizes, as far as they fit into the pool."""
    for product in cublas.PRODUCTS:
        for size in GEMM_SIZES:
            if capability >= product.at_least and cublas.layout(product, cublas.square(size))[3] <= pool:
                yield product, size


def gemm_task(product: cublas.Product, size: int) -> Task:
    """The task of a matrix product."""
    what = product.part.removeprefix("tensor ")
    return Task(
        product.part, f"cuBLASLt {size}x{size}x{size}", cublas.flops(cublas.square(size)), f"gemm {what} {size}"
    )
