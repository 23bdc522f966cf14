"""Occupancy and waves: published answers, laws, and NVIDIA's own calculator where a toolkit is at hand."""

from __future__ import annotations

import os
import shutil
import subprocess
from fractions import Fraction
from pathlib import Path
from random import Random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from trtprof.base.occupancy import SM_LIMITS, occupancy, waves

CAPABILITIES = st.sampled_from(list(SM_LIMITS))
A100_SMS = 108


# --- published answers ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("compute_capability", "threads", "registers", "shared", "blocks", "percent", "limit"),
    [
        # CUDA C++ Best Practices Guide, "Calculating Occupancy": on 7.0 a kernel with 37 registers per thread has
        # an occupancy of 75 % with 12 blocks of 128 threads, of 63 % with four of 320; 100 % takes 32 registers.
        ("7.0", 128, 37, 0, 12, 75, "registers"),
        ("7.0", 320, 37, 0, 4, 63, "registers"),
        ("7.0", 1024, 32, 0, 2, 100, "threads"),
        # CUDA Programming Guide 13, "Kernel Launch and Occupancy": on 10.0, blocks of 768 threads, of 32 threads,
        # and of 100 KB of shared memory.
        ("10.0", 768, 0, 0, 2, 75, "threads"),
        ("10.0", 32, 0, 0, 32, 50, "blocks"),
        ("10.0", 256, 0, 100 * 1024, 2, 25, "shared"),
    ],
)
def test_published_occupancies(
    compute_capability: str, threads: int, registers: int, shared: int, blocks: int, percent: int, limit: str
) -> None:
    result = occupancy(compute_capability, threads, registers, shared)
    assert result.blocks_per_sm == blocks
    assert result.warps_per_sm == blocks * threads // 32
    assert int(100 * result.fraction + Fraction(1, 2)) == percent  # the guide rounds 62.5 to 63
    assert result.limit == limit


def test_published_waves() -> None:
    # GPU Performance Background User's Guide: 12 blocks on 8 SMs, one at once on each: a full wave and a half one.
    twelve = waves(12, 1, 8)
    assert (twelve.full, twelve.tail_blocks, twelve.count) == (1, 4, 2)
    assert twelve.efficiency == twelve.sm_efficiency == Fraction(3, 4)
    # Matrix Multiplication Background User's Guide, 3.2: an A100 runs 108 tiles of 256x128 at once, so utilisation is
    # highest where their number is a multiple of 108 or just below; M = 2304 there.
    assert waves(A100_SMS, 1, A100_SMS).efficiency == 1  # N = 1536: 9 x 12 tiles
    grid = waves(117, 1, A100_SMS)  # N = 1537: 9 x 13
    assert (grid.full, grid.tail_blocks) == (1, 9)
    assert waves(A100_SMS + 1, 1, A100_SMS).efficiency == Fraction(109, 216)  # 50 %
    # M. Osama et al., Stream-K (arXiv:2301.03598), figures 1 and 2: on four SMs nine tiles reach 75 %, 18 reach 90 %.
    assert waves(9, 1, 4).efficiency == Fraction(75, 100)
    assert waves(18, 1, 4).efficiency == Fraction(90, 100)


# --- by hand --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (("6.1", 128, 32, 0), "no limits for compute capability 6.1; known: 7.0, "),
        (("8.0", 0, 32, 0), "1 to 1024 threads, not 0"),
        (("8.0", 1025, 32, 0), "1 to 1024 threads, not 1025"),
        (("8.0", 128, 256, 0), "0 to 255 registers, not 256"),
        (("8.0", 1024, 65, 0), "32 warps of 65 registers a thread take 73728 registers, a block has 65536"),
        (("8.6", 128, 32, 99 * 1024 + 1), "0 to 101376 bytes of shared memory on compute capability 8.6, not 101377"),
        (("8.0", 128, 32, -1), "bytes of shared memory"),
    ],
)
def test_a_block_that_cannot_be_launched(asked: tuple[str, int, int, int], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        occupancy(*asked)


def test_clusters_start_together() -> None:
    # 132 SMs have room for 16 clusters of 8; the last 4 SMs stay empty.
    grid = waves(256, 1, 132, cluster=8)
    assert (grid.full, grid.tail_blocks, grid.count) == (2, 0, 2)
    assert grid.efficiency == Fraction(256, 264)
    with pytest.raises(ValueError, match="multiple of its cluster"):
        waves(255, 1, 132, cluster=8)
    with pytest.raises(ValueError, match="does not fit"):
        waves(8, 1, 4, cluster=8)
    with pytest.raises(ValueError, match="not positive"):
        waves(0, 1, 132)


# --- laws -----------------------------------------------------------------------------------


@given(
    CAPABILITIES,
    st.integers(1, 1024),
    st.integers(0, 255),
    st.integers(0, 255),
    st.integers(0, 227 * 1024),
    st.integers(0, 227 * 1024),
)
def test_more_registers_or_shared_memory_never_raise_occupancy(
    capability: str, threads: int, registers: int, fewer_registers: int, shared: int, less_shared: int
) -> None:
    most = SM_LIMITS[capability]
    registers, fewer_registers = max(registers, fewer_registers), min(registers, fewer_registers)
    shared, less_shared = (size(shared, less_shared) % (most.shared_per_block + 1) for size in (max, min))
    assume(less_shared <= shared)
    try:
        heavy = occupancy(capability, threads, registers, shared)
    except ValueError:
        return
    light = occupancy(capability, threads, fewer_registers, less_shared)
    assert 1 <= heavy.blocks_per_sm <= light.blocks_per_sm <= most.blocks
    assert 0 < heavy.fraction <= light.fraction <= 1


POSITIVE = st.integers(1, 10_000)


@given(POSITIVE, st.integers(1, 32), st.integers(1, 200))
def test_efficiency_of_waves(blocks: int, blocks_per_sm: int, sms: int) -> None:
    slots = blocks_per_sm * sms
    grid = waves(blocks, blocks_per_sm, sms)
    assert grid.full * slots + grid.tail_blocks == blocks
    assert 0 <= grid.tail_blocks < slots
    assert grid.count == -(-blocks // slots)
    assert grid.efficiency == Fraction(blocks, grid.count * slots)
    assert 0 < grid.efficiency <= grid.sm_efficiency <= 1
    assert (grid.efficiency == 1) == (blocks % slots == 0)
    assert (grid.sm_efficiency == 1) == (blocks % sms == 0)
    # The busiest SM has at least as many blocks as any dealing must give to one.
    assert blocks / (grid.sm_efficiency * sms) == -(-blocks // sms)


# --- NVIDIA's calculator --------------------------------------------------------------------

ORACLE = r"""
#include <stdio.h>
#include <cuda_occupancy.h>
int main(void) {
    int major, minor, threads, reserved, block, registers, carveout;
    size_t shared, per_sm;
    while (scanf("%d %d %d %zu %d %d %d %zu %d", &major, &minor, &threads, &per_sm, &reserved, &block, &registers,
                 &shared, &carveout) == 9) {
        cudaOccDeviceProp device = {0};
        cudaOccFuncAttributes kernel = {0};
        cudaOccDeviceState state = {0};
        cudaOccResult result = {0};
        device.computeMajor = major;
        device.computeMinor = minor;
        device.maxThreadsPerBlock = 1024;
        device.maxThreadsPerMultiprocessor = threads;
        device.regsPerBlock = device.regsPerMultiprocessor = 65536;
        device.warpSize = 32;
        device.sharedMemPerBlock = 49152;
        device.sharedMemPerMultiprocessor = per_sm;
        device.numSms = 1;
        device.sharedMemPerBlockOptin = per_sm - reserved;
        device.reservedSharedMemPerBlock = reserved;
        kernel.maxThreadsPerBlock = 1024;
        kernel.numRegs = registers;
        kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
        kernel.maxDynamicSharedSizeBytes = shared;
        kernel.numBlockBarriers = 1;
        state.carveoutConfig = carveout;
        int error = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &state, block, shared);
        printf("%d %d\n", error, result.activeBlocksPerMultiprocessor);
    }
    return 0;
}
"""
UNKNOWN_DEVICE = 2


def toolkit_headers() -> Path | None:
    """The folder of ``cuda_occupancy.h``, where a CUDA toolkit is installed."""
    roots = [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    roots += sorted(Path("/usr/local").glob("cuda*"), reverse=True)
    return next((root / "include" for root in roots if (root / "include" / "cuda_occupancy.h").is_file()), None)


@pytest.mark.nightly
def test_the_rules_are_those_of_nvidias_calculator(tmp_path: Path) -> None:
    """Random launches, many of them impossible, on every compute capability that the toolkit knows."""
    headers, compiler = toolkit_headers(), shutil.which("cc")
    if headers is None or compiler is None:
        pytest.skip("no CUDA toolkit with cuda_occupancy.h, or no C compiler")
    source, program = tmp_path / "oracle.c", tmp_path / "oracle"
    source.write_text(ORACLE)
    subprocess.run([compiler, "-w", "-I", headers, source, "-o", program], check=True)
    random = Random(0)
    cases, lines = [], []
    for capability, limits in SM_LIMITS.items():
        for _ in range(2_000):
            threads = random.choice([random.randint(1, 1024), 32 * random.randint(1, 32)])
            registers = random.choice([random.randint(0, 255), 8 * random.randint(0, 31)])
            shared = random.choice([0, random.randint(0, 8 << 10), random.randint(0, limits.shared_bytes)])
            cases.append((capability, threads, registers, shared))
            device = f"{capability.replace('.', ' ')} {limits.threads} {limits.shared_bytes} {limits.shared_reserved}"
            lines.append(f"{device} {threads} {registers} {shared} -1")
    answers = subprocess.run([program], input="\n".join(lines), capture_output=True, text=True, check=True).stdout
    known = 0
    for case, answer in zip(cases, answers.splitlines(), strict=True):
        error, blocks = map(int, answer.split())
        if error == UNKNOWN_DEVICE:
            continue
        known += 1
        assert error == 0
        try:
            ours = occupancy(*case).blocks_per_sm
        except ValueError:
            ours = 0
        assert ours == blocks, case
    assert known >= len(cases) // 2
