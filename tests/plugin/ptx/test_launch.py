"""Kernels in CUDA C++, compiled by NVRTC and executed in numpy."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from trtprof.plugin import ptx
from trtprof.runtime import nvrtc

Array = npt.NDArray[Any]
each_architecture = pytest.mark.parametrize("architecture", ["sm_75", "sm_120"])


@functools.cache
def compiled(source: str, architecture: str = "sm_89") -> ptx.Program:
    return ptx.Program.parse(nvrtc.compile_source(source.encode(), architecture, fast_math=False).ptx)


GEMV = r"""
extern "C" __global__ void gemv(const float *__restrict__ a, const float *__restrict__ x, int rows, int same,
                                float *__restrict__ y) {
  int t = blockIdx.x * blockDim.x + threadIdx.x, row = t >> 4, part = t & 15;
  if (row >= rows) return;
  float4 v = reinterpret_cast<const float4 *>(a)[(size_t)row * 16 + part];
  float4 w = reinterpret_cast<const float4 *>(x)[(size_t)(row / same) * 16 + part];
  float s = v.x * w.x;
  s = fmaf(v.y, w.y, s); s = fmaf(v.z, w.z, s); s = fmaf(v.w, w.w, s);
  for (int d = 8; d; d >>= 1) s += __shfl_xor_sync(0xffffffffu, s, d, 16);
  if (part == 0) y[row] = s;
}
"""


@each_architecture
def test_a_gemv_is_right_and_moves_what_it_must(architecture: str) -> None:
    rows, same = 1000, 8
    random = np.random.default_rng(0)
    a, x = random.standard_normal((rows, 64), np.float32), random.standard_normal((rows // same, 64), np.float32)
    memory = ptx.Memory()
    arguments = [memory.add("a", a), memory.add("x", x), rows, same, memory.output("y", 4 * rows)]
    counted = ptx.launch(compiled(GEMV, architecture), "gemv", (63, 1, 1), (256, 1, 1), arguments, memory)
    truth = (a.astype(np.float64) * np.repeat(x, same, 0)).sum(1)
    np.testing.assert_allclose(memory.read("y", np.float32, (rows,)), truth, atol=2e-5)
    assert memory.unwritten("y") == 0
    assert counted.sectors_read == {"a": rows * 8, "x": rows // same * 8}
    assert counted.sectors_written == {"y": rows * 4 // 32}
    # A warp has two rows: 16 sectors of a, and 8 of x, which both rows share.
    assert counted.requested_sectors_read == rows // 2 * (16 + 8)
    assert counted.requested_sectors_written == rows // 2
    assert counted.bank_conflicts == 0
    assert counted.blocks == 63


SUM = r"""
extern "C" __global__ void block_sum(const float *x, int n, float *y) {
  __shared__ float s[256];
  float t = 0;
  for (int i = threadIdx.x; i < n; i += 256) t += x[(size_t)blockIdx.x * n + i];
  s[threadIdx.x] = t;
  FIRST;
  for (int d = 128; d; d >>= 1) {
    if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d];
    SECOND;
  }
  if (threadIdx.x == 0) y[blockIdx.x] = s[0];
}
"""


@each_architecture
def test_a_sum_over_a_block_is_right_in_every_order_of_warps(architecture: str, subtests: pytest.Subtests) -> None:
    for order in range(4):
        with subtests.test(f"{order}"):
            source = SUM.replace("FIRST", "__syncthreads()").replace("SECOND", "__syncthreads()")
            x = np.random.default_rng(0).standard_normal((40, 1000), np.float32)
            memory = ptx.Memory()
            arguments = [memory.add("x", x), 1000, memory.output("y", 160)]
            program = compiled(source, architecture)
            ptx.launch(program, "block_sum", (40, 1, 1), (256, 1, 1), arguments, memory, order=order)
            np.testing.assert_allclose(memory.read("y", np.float32, (40,)), x.sum(1, np.float64), atol=2e-5)


@each_architecture
def test_a_missing_barrier_is_a_race(architecture: str, subtests: pytest.Subtests) -> None:
    for missing in ("FIRST", "SECOND"):
        with subtests.test(missing):
            source = SUM.replace(missing, "").replace("FIRST", "__syncthreads()").replace("SECOND", "__syncthreads()")
            x = np.ones((2, 1000), np.float32)
            memory = ptx.Memory()
            arguments = [memory.add("x", x), 1000, memory.output("y", 8)]
            with pytest.raises(ptx.Fault) as caught:
                ptx.launch(compiled(source, architecture), "block_sum", (2, 1, 1), (256, 1, 1), arguments, memory)
            assert caught.value.kind == "race"


MATHS = r"""
extern "C" __global__ void maths(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float v = x[i];
    y[i] = expf(v) + logf(fabsf(v) + 1) + sinf(v) + cosf(v) + tanhf(v) + erff(v) + rsqrtf(fabsf(v) + 1)
         + sqrtf(fabsf(v)) + 1.0f / v + v / 3.7f + powf(fabsf(v), 1.3f) + __expf(v) + floorf(v) + rintf(v) + roundf(v);
  }
}
"""


@each_architecture
def test_functions_of_the_device_library_are_right(architecture: str) -> None:
    x = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    memory = ptx.Memory()
    arguments = [memory.add("x", x), memory.output("y", 4000), 1000]
    ptx.launch(compiled(MATHS, architecture), "maths", (4, 1, 1), (256, 1, 1), arguments, memory)
    v = x.astype(np.float64)
    erf: Callable[[Array], Array] = np.vectorize(math.erf)
    truth = (
        2 * np.exp(v) + np.log(abs(v) + 1) + np.sin(v) + np.cos(v) + np.tanh(v) + erf(v) + 1 / np.sqrt(abs(v) + 1)
        + np.sqrt(abs(v)) + 1 / v + v / 3.7 + abs(v) ** 1.3 + np.floor(v) + np.rint(v)
        + np.trunc(v + np.copysign(0.5, v))
    )  # fmt: skip
    found = memory.read("y", np.float32, (1000,))
    np.testing.assert_allclose(found, truth, rtol=1e-6, atol=1e-6)


def run(
    source: str, entry: str, architecture: str, grid: int, block: int, arguments: list[Array | int | tuple[Any, int]],
    *, writable: bool = False, shared: int = 0, order: int = 0,
) -> ptx.Memory:  # fmt: skip
    """Launch a kernel: arrays are inputs ``in0``, ..., pairs of a dtype and a count outputs ``out0``, ..."""
    memory = ptx.Memory()
    values: list[int] = []
    for place, one in enumerate(arguments):
        if isinstance(one, int):
            values.append(one)
        elif isinstance(one, tuple):
            values.append(memory.output(f"out{place}", np.dtype(one[0]).itemsize * one[1]))
        else:
            values.append(memory.add(f"in{place}", one, writable=writable))
    program = compiled(source, architecture)
    ptx.launch(program, entry, (grid, 1, 1), (block, 1, 1), values, memory, shared=shared, order=order)
    return memory


ATOMICS = r"""
extern "C" __global__ void atomics(int *c, float *f, unsigned long long *l, int n) {
  __shared__ int h[32];
  if (threadIdx.x < 32) h[threadIdx.x] = 0;
  __syncthreads();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(&h[i % 32], 1);
  __syncthreads();
  if (threadIdx.x < 32) atomicAdd(&c[threadIdx.x], h[threadIdx.x]);
  if (i < n) {
    atomicAdd(f, 1.0f);
    atomicMax(c + 32, i);
    atomicMin(c + 33, -i);
    atomicExch(c + 34 + i % 2, i % 2 + 7);
    atomicAdd(l, (unsigned long long)i);
    atomicCAS(c + 36, 0, 5);
    atomicInc((unsigned *)c + 37, 9);
    atomicXor(c + 38, i);
    float *max = (float *)(c + 39);
    int old = *(volatile int *)max;
    while (__int_as_float(old) < i) {
      int seen = atomicCAS((int *)max, old, __float_as_int((float)i));
      if (seen == old) break;
      old = seen;
    }
  }
}
"""


@each_architecture
def test_atomics(architecture: str, subtests: pytest.Subtests) -> None:
    for order in (0, 1):
        with subtests.test(f"{order}"):
            n = 300
            places: list[Array] = [np.zeros(64, np.int32), np.zeros(1, np.float32), np.zeros(1, np.uint64)]
            memory = run(ATOMICS, "atomics", architecture, 2, 256, [*places, n], writable=True, order=order)
            found = memory.read("in0", np.int32, (39,))
            assert found[:32].tolist() == [16] * 32
            xor = functools.reduce(lambda a, b: a ^ b, range(n))
            assert found[32:].tolist() == [n - 1, -(n - 1), 7, 8, 5, n % 10, xor]
            assert memory.read("in0", np.float32, (40,))[39] == n - 1
            assert memory.read("in1", np.float32, (1,)) == n
            assert memory.read("in2", np.uint64, (1,)) == n * (n - 1) // 2
