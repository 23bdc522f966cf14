"""The child process that times kernels on a GPU: ``python -m trtprof.hardware.cuda._timed REQUEST``.

What is timed is what a layer's kernel would do: a matrix product as cuBLASLt does it, with its operands where the run
before left them, so in the L2 as far as they fit; a copy; a softmax or a normalisation by a kernel of ours that reads
every row once. How the time is taken is told in `calibrate`. **No GPU has run this yet**: the names of the library, the
kernels' machine code and the arithmetic around them are tested, times are not.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from ctypes import c_uint32 as u32
from ctypes import c_uint64 as u64
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from trtprof.hardware._fit import Task
from trtprof.hardware.cuda import _kernels
from trtprof.hardware.cuda._exchange import KernelShape, KernelsMeasured, KernelsRequest
from trtprof.hardware.cuda._kernels import PIECE, THREADS, TILE
from trtprof.hardware.cuda._measure import Bench, clock_of, fill, opened, watch
from trtprof.hardware.cuda._workloads import Run, Workload
from trtprof.runtime import child, cublas
from trtprof.runtime.cublas import Extent, Product
from trtprof.runtime.cuda_driver import answer_on_gpu

_FUNCTION = {"fp32": "R_32F", "fp16": "R_16F"}
_TOLERANCE = {"fp32": 1e-4, "fp16": 5e-3}
"""Root mean square of the error over that of the result up to which a row counts as right: a few times its rounding."""
_EPSILON = 1e-5  # Of a normalisation, as in the kernel
_MOST_NOTES = 5  # Shapes that could not be timed which are named; the others are counted


def main(argv: list[str]) -> int:
    """Entry point of the child; returns its exit code."""
    return answer_on_gpu(argv, KernelsRequest, timed)


def timed(request: KernelsRequest) -> KernelsMeasured:
    """Time kernels in this process; each goes to the file of the request at once."""
    with (
        opened(request) as (bench, setting),
        clock_of(request.nvml_index) as clock,
        watch(clock) as watched,
        Path(request.rows_file).open("a", encoding="ascii") as rows,
    ):
        bench.warm_up()
        time_all(bench, request, lambda place, ns: print(place, ns, file=rows, flush=True))
    return KernelsMeasured(
        **msgspec.structs.asdict(setting),
        clocks_mhz=watched.clocks_mhz(),
        held_down=watched.held_down(),
        notes=tuple(_few(bench.notes)),
    )


def _few(notes: list[str]) -> list[str]:
    left = len(notes) - _MOST_NOTES
    return notes if left <= 0 else [*notes[:_MOST_NOTES], f"{left:,} more could not be timed"]


def time_all(bench: Bench, request: KernelsRequest, done: Callable[[int, float], None]) -> None:
    """Time shapes one after the other until the time is up; ``done`` is told the place of each and its time in ns."""
    end = time.monotonic() + request.seconds
    for place, shape in enumerate(request.shapes):
        if time.monotonic() >= end:
            bench.notes.append(f"{len(request.shapes) - place:,} kernels were not timed: the time was up")
            return
        try:
            load = workload(bench, shape)
        except cublas.UnsupportedError as error:
            bench.notes.append(f"{_words(shape)}: {error}")
            continue
        ns = bench.run_ns(load)
        if ns is not None and math.isfinite(ns) and ns > 0:
            done(place, ns)


def _words(shape: KernelShape) -> str:
    return f"{shape.kind} {shape.dtype} {shape.batch}x{shape.m}x{shape.n}x{shape.k}"


def workload(bench: Bench, shape: KernelShape) -> Workload:
    """How a kernel is run."""
    if shape.kind == "product":
        return _product(bench, shape)
    if shape.kind == "pointwise":
        return _copy(bench, shape)
    return _rows(bench, shape)


# --- products -------------------------------------------------------------------------------


def _product(bench: Bench, shape: KernelShape) -> Workload:
    """A product of (m, k) and (k, n), with the weights as layers keep them: n rows of k values."""
    product = _kind(bench, shape.dtype)
    if bench.products is None or product is None:
        raise cublas.UnsupportedError("there is no library for it here")
    extent = Extent(rows=shape.n, columns=shape.m, depth=shape.k, batch=shape.batch)
    _fitting(bench, cublas.layout(product, extent)[3])
    words = _words(shape)
    task = Task(product.part, words, cublas.flops(extent), words)
    return Workload(task, bench.gemm(bench.products, task, product, extent))


def _kind(bench: Bench, dtype: str) -> Product | None:
    """The product of a dtype as deployed kernels do it: summed up in fp32, of integers in int32."""
    return next(
        (
            product
            for product in cublas.PRODUCTS
            if product.dtype == dtype
            and product.accumulator in ("fp32", "int32")
            and bench.gpu.properties.capability >= product.at_least
        ),
        None,
    )


def _fitting(bench: Bench, nbytes: int) -> None:
    if nbytes > bench.memory.pool_bytes:
        raise cublas.UnsupportedError("it does not fit into the memory that may be taken")


# --- streams --------------------------------------------------------------------------------


def _copy(bench: Bench, shape: KernelShape) -> Workload:
    """As many bytes read as written, as a pointwise op of one input moves them."""
    gpu, memory = bench.gpu, bench.memory
    nbytes = shape.m * cublas.element_bytes(_FUNCTION[shape.dtype])
    if nbytes % TILE:
        raise cublas.UnsupportedError(f"copies are of multiples of {TILE} bytes")
    _fitting(bench, 2 * nbytes)
    blocks = min(gpu.full_wave("dram_copy", THREADS), nbytes // TILE)

    def run() -> None:
        gpu.launch("dram_copy", blocks, THREADS, u64(memory.pool + nbytes), u64(memory.pool), u64(nbytes // PIECE))

    words = _words(shape)
    return Workload(Task("dram", words, 2 * nbytes, words), lambda: run)


class _Matrix(NamedTuple):
    """Where the input of a softmax or a normalisation lies, its factors and its result, and how many bytes it has."""

    name: str
    nbytes: int
    factors: int
    out: int
    total: int


def _rows(bench: Bench, shape: KernelShape) -> Workload:
    """A softmax or a normalisation of ``m`` rows of ``n`` values."""
    gpu, memory = bench.gpu, bench.memory
    kernel = _kernels.row_kernel(shape.kind, shape.dtype, shape.n)
    if kernel is None:
        raise cublas.UnsupportedError("there is no kernel of such rows")
    name = _FUNCTION[shape.dtype]
    width = cublas.element_bytes(name)
    nbytes, row = shape.m * shape.n * width, shape.n * width
    at = _Matrix(name, nbytes, nbytes, nbytes + 2 * row, 2 * (nbytes + row))
    _fitting(bench, at.total)
    blocks = min(gpu.full_wave(kernel.name, THREADS), -(-shape.m // kernel.rows))
    softmax = shape.kind == "softmax"
    given = [u64(memory.pool + at.out), u64(memory.pool), *([] if softmax else [u64(memory.pool + at.factors)])]

    def run() -> None:
        gpu.launch(kernel.name, blocks, THREADS, *given, u32(shape.m))

    def prepare() -> Run | None:
        count = at.out // width
        fill(gpu, shape.dtype, memory.pool, count, seed=21)
        run()
        off = _row_error(bench, shape, at)
        if off <= _TOLERANCE[shape.dtype]:
            return run
        bench.notes.append(f"{_words(shape)}: left out, a row is off by {off:.2g} of its root mean square")
        return None

    words = _words(shape)
    return Workload(Task("dram", words, 2 * nbytes, words), prepare)


def _row_error(bench: Bench, shape: KernelShape, at: _Matrix) -> float:
    """Error of the last row of the result over its root mean square."""
    width = cublas.element_bytes(at.name)
    row = shape.n * width

    def values(offset: int) -> npt.NDArray[np.float64]:
        return cublas.values(at.name, bench.gpu.read(bench.memory.pool + offset, row))

    x, found = values(at.nbytes - row), values(at.out + at.nbytes - row)
    if shape.kind == "softmax":
        raised = np.exp(x - x.max())
        right = raised / raised.sum()
    else:
        right = (x - x.mean()) / np.sqrt(x.var() + _EPSILON) * values(at.factors) + values(at.factors + row)
    return float(np.sqrt(np.mean((found - right) ** 2)) / np.sqrt(np.mean(right**2)))


if __name__ == "__main__":
    child.end_with_parent()
    sys.exit(main(sys.argv))
