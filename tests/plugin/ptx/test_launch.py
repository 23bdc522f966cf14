"""Kernels in CUDA C++, compiled by NVRTC and executed in numpy."""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes import c_expressions
from trtprof.plugin import ptx
from trtprof.runtime import nvrtc

Array = npt.NDArray[Any]
each_architecture = pytest.mark.parametrize("architecture", ["sm_75", "sm_89", "sm_90", "sm_120"])


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


@pytest.mark.parametrize("order", range(4))
@each_architecture
def test_a_sum_over_a_block_is_right_in_every_order_of_warps(architecture: str, order: int) -> None:
    source = SUM.replace("FIRST", "__syncthreads()").replace("SECOND", "__syncthreads()")
    x = np.random.default_rng(0).standard_normal((40, 1000), np.float32)
    memory = ptx.Memory()
    arguments = [memory.add("x", x), 1000, memory.output("y", 160)]
    program = compiled(source, architecture)
    ptx.launch(program, "block_sum", (40, 1, 1), (256, 1, 1), arguments, memory, order=order)
    np.testing.assert_allclose(memory.read("y", np.float32, (40,)), x.sum(1, np.float64), atol=2e-5)


@pytest.mark.parametrize("missing", ["FIRST", "SECOND"])
@each_architecture
def test_a_missing_barrier_is_a_race(architecture: str, missing: str) -> None:
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


CALLS = r"""
struct Several { float a; int b; double c; };
__device__ __noinline__ float sum(float first, const float *p, int n) {
  float s = first;
  for (int i = 0; i < n; ++i) s += p[i];
  return s;
}
__device__ __noinline__ Several more(Several p, int k) { p.a += k; p.b *= 2; p.c -= 1; return p; }
extern "C" __global__ void calls(const float *x, int n, float *y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    Several p{x[i], i, 3.0};
    p = more(p, i);
    if (i % 3) p = more(p, 1);
    y[i] = sum(p.a, x, i & 7) + p.b + (float)p.c;
  }
}
"""


@each_architecture
def test_functions_that_are_called(architecture: str) -> None:
    x = np.arange(1000, dtype=np.float32)
    memory = run(CALLS, "calls", architecture, 4, 256, [x, 1000, (np.float32, 1000)])
    i = np.arange(1000)
    twice = i % 3 != 0
    truth = x + i + twice + np.array([x[: k & 7].sum() for k in i]) + i * np.where(twice, 4, 2) + np.where(twice, 1, 2)
    np.testing.assert_array_equal(memory.read("out2", np.float32, (1000,)), truth)


LOCAL = r"""
extern "C" __global__ void local(const float *x, int n, float *y) {
  float t[16];
  int i = threadIdx.x;
  for (int k = 0; k < 16; ++k) t[k] = x[i * 16 + k];
  float s = 0;
  for (int k = 0; k < n; ++k) s += t[(k * 7 + i) & 15];
  y[i] = s;
}
"""


@each_architecture
def test_arrays_that_are_no_registers(architecture: str) -> None:
    x = np.random.default_rng(0).integers(-99, 99, 16 * 64).astype(np.float32)
    memory = run(LOCAL, "local", architecture, 1, 64, [x, 20, (np.float32, 64)])
    truth = [sum(x[j * 16 + ((k * 7 + j) & 15)] for k in range(20)) for j in range(64)]
    np.testing.assert_array_equal(memory.read("out2", np.float32, (64,)), truth)


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
@pytest.mark.parametrize("order", [0, 1])
def test_atomics(architecture: str, order: int) -> None:
    n = 300
    memory = run(
        ATOMICS, "atomics", architecture, 2, 256,
        [np.zeros(64, np.int32), np.zeros(1, np.float32), np.zeros(1, np.uint64), n], writable=True, order=order,
    )  # fmt: skip
    found = memory.read("in0", np.int32, (39,))
    assert found[:32].tolist() == [16] * 32
    xor = functools.reduce(lambda a, b: a ^ b, range(n))
    assert found[32:].tolist() == [n - 1, -(n - 1), 7, 8, 5, n % 10, xor]
    assert memory.read("in0", np.float32, (40,))[39] == n - 1
    assert memory.read("in1", np.float32, (1,)) == n
    assert memory.read("in2", np.uint64, (1,)) == n * (n - 1) // 2


SCAN = r"""
// One pass over blocks that come in any order: the last block to finish sums what all left.
__device__ unsigned done = 0;
__constant__ float scale[2] = {0.5f, 2.0f};
extern "C" __global__ void total(const float *x, int n, float *part, float *y) {
  extern __shared__ float s[];
  __shared__ bool last;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = i < n ? x[i] * scale[i & 1] : 0;
  for (int d = 16; d; d >>= 1) v += __shfl_down_sync(0xffffffffu, v, d);
  if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x == 0) {
    float t = 0;
    for (int k = 0; k < blockDim.x / 32; ++k) t += s[k];
    part[blockIdx.x] = t;
    __threadfence();
    last = atomicAdd(&done, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    float t = 0;
    for (int k = 0; k < gridDim.x; ++k) t += ((volatile float *)part)[k];
    *y = t;
  }
}
"""


@pytest.mark.parametrize("order", range(3))
@each_architecture
def test_the_last_block_sums_what_all_left(architecture: str, order: int) -> None:
    x = np.random.default_rng(0).integers(-9, 9, 1000).astype(np.float32) * 2
    memory = run(
        SCAN, "total", architecture, 8, 128, [x, 1000, (np.float32, 8), (np.float32, 1)], shared=16, order=order
    )
    assert memory.read("out3", np.float32, (1,)) == (x[::2] / 2).sum() + (x[1::2] * 2).sum()


COPY = r"""
extern "C" __global__ void twice(const float *__restrict__ x, float *__restrict__ y) {
  __shared__ __align__(16) float s[2][128];
  int t = threadIdx.x;
  unsigned at[2];
  for (int k = 0; k < 2; ++k) at[k] = (unsigned)__cvta_generic_to_shared(&s[k][4 * t]);
  const float4 *from = (const float4 *)x;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(at[0]), "l"(from + t));
  asm volatile("cp.async.commit_group;");
  for (int k = 0; k < 8; ++k) {
    if (k < 7)
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(at[(k + 1) & 1]), "l"(from + 32 * (k + 1) + t));
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.wait_group WAIT;" ::: "memory");
    __syncthreads();
    for (int j = 0; j < 4; ++j) y[128 * k + 4 * t + j] = 2 * s[k & 1][127 - 4 * t - j];
    AFTER;
  }
}
"""


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_120"])
def test_copies_ahead_of_their_use(architecture: str) -> None:
    x = np.arange(1024, dtype=np.float32)
    right = COPY.replace("WAIT", "1").replace("AFTER", "__syncthreads()")
    memory = run(right, "twice", architecture, 1, 32, [x, (np.float32, 1024)])
    found = memory.read("out1", np.float32, (8, 128))
    np.testing.assert_array_equal(found, 2 * x.reshape(8, 128)[:, ::-1])
    for wrong in (
        COPY.replace("WAIT", "2").replace("AFTER", "__syncthreads()"),
        COPY.replace("WAIT", "1").replace("AFTER", ""),
    ):
        with pytest.raises(ptx.Fault) as caught:
            run(wrong, "twice", architecture, 1, 32, [x, (np.float32, 1024)])
        assert caught.value.kind == "race"


HALVES = r"""
typedef unsigned short half;
extern "C" __global__ void halves(const half *x, half *y, int n) {
  int i = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= n) return;
  unsigned v = *(const unsigned *)(x + i), w;
  float a, b;
  asm("{ .reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.TYPE %0, l; cvt.f32.TYPE %1, h; }" : "=f"(a), "=f"(b) : "r"(v));
  a = a * 3 + 1; b = b * 3 + 1;
  asm("{ .reg .b16 l, h; cvt.rn.TYPE.f32 l, %1; cvt.rn.TYPE.f32 h, %2; mov.b32 %0, {l, h}; }"
      : "=r"(w) : "f"(a), "f"(b));
  *(unsigned *)(y + i) = w;
}
"""


@each_architecture
@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_halves(architecture: str, kind: str) -> None:
    if architecture == "sm_75" and kind == "bf16":
        pytest.skip("Turing has no bf16")
    dtype = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}[kind]
    x = np.random.default_rng(0).standard_normal(1000).astype(dtype)
    source = HALVES.replace("TYPE", kind)
    memory = run(source, "halves", architecture, 2, 256, [x, (np.uint16, 1000), 1000])
    truth = (x.astype(np.float64) * 3 + 1).astype(np.float32).astype(dtype)
    np.testing.assert_array_equal(memory.read("out1", dtype, (1000,)), truth)


# A law: what C says of an expression, whatever the compiler makes of it. scripts/fuzz/ptx.py tries more of them.
@settings(max_examples=4, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_expressions_of_integers_are_what_c_says(seed: int) -> None:
    assert c_expressions.differences(seed, "unsigned", compiled) == []


@settings(max_examples=4, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_expressions_of_floats_are_what_c_says(seed: int) -> None:
    assert c_expressions.differences(seed, "float", compiled) == []


STRUCT = r"""
struct Given { float scale; int shift; unsigned char kind; double more; };
extern "C" __global__ void given(Given g, const int *x, double *y, short n) {
  int i = threadIdx.x;
  if (i < n) y[i] = g.kind * (x[i] * g.scale + g.shift) + g.more;
}
"""


@each_architecture
def test_structs_are_given_as_their_bytes(architecture: str) -> None:
    given_bytes = struct.pack("<fiBxxxxxxxd", 0.5, -3, 7, 0.25)
    memory = ptx.Memory()
    x = np.arange(64, dtype=np.int32)
    arguments: list[int | float | bytes] = [given_bytes, memory.add("x", x), memory.output("y", 8 * 40), 40]
    program = compiled(STRUCT, architecture)
    ptx.launch(program, "given", (1, 1, 1), (64, 1, 1), arguments, memory)
    np.testing.assert_array_equal(memory.read("y", np.float64, (40,)), 7 * (x[:40] * 0.5 - 3) + 0.25)
    with pytest.raises(ptx.Fault, match="takes 24 bytes, and is given a number"):
        ptx.launch(program, "given", (1, 1, 1), (64, 1, 1), [1, *arguments[1:]], memory)
