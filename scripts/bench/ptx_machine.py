"""How long kernels take that are executed in numpy: the gemv of the story whole, and kernels that share memory.

python scripts/bench/ptx_machine.py
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from trtprof.plugin import ptx
from trtprof.runtime import nvrtc

SOURCE = r"""
extern "C" __global__ void gemv(const float *__restrict__ a, const float *__restrict__ x, int rows, int batch,
                                float *__restrict__ y) {
  int t = blockIdx.x * blockDim.x + threadIdx.x, row = t >> 4, part = t & 15;
  if (row >= rows) return;
  float4 v = ((const float4 *)a)[(size_t)row * 16 + part];
  float4 w = ((const float4 *)x)[(size_t)(row / batch * 8 + row % 8) * 16 + part];
  float s = v.x * w.x;
  s = fmaf(v.y, w.y, s); s = fmaf(v.z, w.z, s); s = fmaf(v.w, w.w, s);
  for (int d = 8; d; d >>= 1) s += __shfl_xor_sync(0xffffffffu, s, d, 16);
  if (part == 0) y[row] = s;
}
extern "C" __global__ void softmax(const float *__restrict__ x, int n, float *__restrict__ y) {
  __shared__ float s[32];
  const float *row = x + (size_t)blockIdx.x * n;
  float m = -1e30f, t = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) m = fmaxf(m, row[i]);
  for (int d = 16; d; d >>= 1) m = fmaxf(m, __shfl_xor_sync(~0u, m, d));
  if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = m;
  __syncthreads();
  for (int k = 0; k < blockDim.x / 32; ++k) m = fmaxf(m, s[k]);
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) t += __expf(row[i] - m);
  for (int d = 16; d; d >>= 1) t += __shfl_xor_sync(~0u, t, d);
  if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = t;
  __syncthreads();
  t = 0;
  for (int k = 0; k < blockDim.x / 32; ++k) t += s[k];
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[(size_t)blockIdx.x * n + i] = __expf(row[i] - m) / t;
}
"""


def main() -> None:
    random = np.random.default_rng(0)
    program = ptx.Program.parse(nvrtc.compile_source(SOURCE.encode(), "sm_89", fast_math=False).ptx)
    print(f"{len(ptx.instructions())} opcodes: {' '.join(ptx.instructions())}")
    for rows in (1_000, 960_000):
        batch = min(rows, 1600)
        a = random.standard_normal((rows, 64), np.float32)
        x = random.standard_normal((-(-rows // batch) * 8, 64), np.float32)
        memory = ptx.Memory()
        arguments = [memory.add("a", a), memory.add("x", x), rows, batch, memory.output("y", 4 * rows)]
        grid = -(-rows * 16 // 256)
        counted = timed(f"gemv of {rows} rows", program, "gemv", grid, arguments, memory)
        sectors = sum(counted.sectors_read.values()) + sum(counted.sectors_written.values())
        row = np.arange(rows)
        truth = np.einsum("ij,ij->i", a.astype(np.float64), x[row // batch * 8 + row % 8])
        error = np.abs(memory.read("y", np.float32, (rows,)) - truth).max()
        print(f"  {32 * sectors:,} bytes in different sectors, error at most {error:.1e}")
    for rows, width in ((8, 1000), (4096, 1000)):
        memory = ptx.Memory()
        arguments = [memory.add("x", random.standard_normal((rows, width), np.float32)), width]
        arguments.append(memory.output("y", 4 * rows * width))
        timed(f"softmax of {rows} x {width}", program, "softmax", rows, arguments, memory)


def timed(
    what: str, program: ptx.Program, entry: str, grid: int, arguments: list[int], memory: ptx.Memory
) -> ptx.Counted:
    wall, cpu = time.perf_counter(), time.process_time()
    counted = ptx.launch(program, entry, (grid, 1, 1), (256, 1, 1), arguments, memory)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    rate = counted.instructions / cpu / 1e6
    print(f"{what}: {wall:.2f} s ({cpu:.2f} s of CPU), {counted.instructions:,} warp instructions, {rate:.1f} M/s")
    return counted


if __name__ == "__main__":
    main()
