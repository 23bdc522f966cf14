"""A task with a kernel written by hand, compiled: what plugins are made from in tests of either form."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from tests.fakes.kernel_tasks import Specs, node, task
from trtprof.plugin import numerics
from trtprof.plugin.kernel import Extra, Kernel
from trtprof.plugin.sizes import cdiv, dim, number
from trtprof.plugin.specification import Specification
from trtprof.plugin.task import Task

DEPTH = 64
ARCHITECTURES = ("sm_75", "sm_89", "sm_120")

_SOURCE = """
// One warp a row: each lane reads two neighbouring elements of the matrix, 256 bytes a row at once.
extern "C" __global__ void __launch_bounds__(%(threads)d) %(entry)s(
    const float *__restrict__ w, const float *__restrict__ x, int batches, int rows,\n    float *__restrict__ y)
{
    int row = blockIdx.x * %(rows)d + threadIdx.x / 32, lane = threadIdx.x %% 32;
    long long batch = blockIdx.y;
    if (row >= rows || batch >= batches) return;
    const float *matrix = w + (batch * rows + row) * 64;
    const float *vector = x + batch * 64;
    float sum = matrix[lane] * vector[lane] + matrix[lane + 32] * vector[lane + 32];
    for (int far = 16; far > 0; far /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, far);
    if (lane == 0) y[batch * rows + row] = sum;
}
"""


def gemv_task() -> Task:
    """Batches of a matrix of 64 columns times a vector: ``y[b, r] = sum over k of w[b, r, k] x[b, k]``."""
    inputs: Specs = {"w": ("fp32", ("batch", "rows", DEPTH)), "x": ("fp32", ("batch", DEPTH, 1))}
    y: Specs = {"y": ("fp32", ("batch", "rows", 1))}
    return task([node("MatMul", "w x")], inputs, y, opset=17, name="BatchedGemv_64")


def gemv_kernel(tactic: int, rows: int) -> Kernel:
    """A variant: so many rows a block, a warp each."""
    entry = f"gemv_{rows}"
    return Kernel(
        "by hand", tactic, f"{rows} rows a block", entry,
        _SOURCE % {"entry": entry, "rows": rows, "threads": 32 * rows}, ("w", "x"), ("y",),
        (cdiv(dim(0, 1), rows), dim(0, 0), number(1)), (32 * rows, 1, 1),
        "every byte of the matrix is read once, 256 neighbouring ones by a warp", 8,
        (Extra("batches", dim(0, 0)), Extra("rows", dim(0, 1))),
    )  # fmt: skip


@functools.cache
def gemv_specification(architectures: Sequence[str] = ARCHITECTURES) -> Specification:
    """The task with two variants for these architectures."""
    return compiled(gemv_task(), (gemv_kernel(1, 4), gemv_kernel(2, 8)), architectures)


def compiled(of: Task, kernels: tuple[Kernel, ...], architectures: Sequence[str]) -> Specification:
    """A task with kernels, compiled by NVRTC."""
    ptx = {
        (architecture, kernel.tactic): numerics.compiled(kernel.source, architecture)
        for architecture in architectures
        for kernel in kernels
    }
    return Specification(of, kernels, ptx)
