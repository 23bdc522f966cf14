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


def test_limits_of_the_programming_guide() -> None:
    """Tables 30 and 31 once more, read across instead of down."""
    assert [limits.warps for limits in SM_LIMITS.values()] == [64, 64, 32, 64, 48, 48, 48, 64, 64, 64, 48, 48, 48]
    assert [limits.blocks for limits in SM_LIMITS.values()] == [32, 32, 16, 32, 16, 16, 24, 32, 32, 32, 24, 24, 24]
    assert [limits.shared_per_block // 1024 for limits in SM_LIMITS.values()] == [
        *(96, 96, 64, 163, 99, 163, 99, 227, 227, 227, 227, 99, 99)
    ]
    assert {(limits.registers, limits.registers_per_thread) for limits in SM_LIMITS.values()} == {(65536, 255)}


# --- by hand --------------------------------------------------------------------------------


def test_registers_are_dealt_to_warps_in_each_quarter_of_the_sm() -> None:
    # 120 registers x 32 are 3840 = 15 x 256 a warp: 17 of them in 65,536, but only 4 in 16,384.
    assert occupancy("9.0", 32, 120, 0)[:2] == (16, 16)
    # 121 are allocated as 128: 4096 a warp, so 16 as well; 129 as 136: 4352, so 3 in each quarter.
    assert occupancy("9.0", 32, 121, 0)[:2] == (16, 16)
    assert occupancy("9.0", 32, 129, 0)[:2] == (12, 12)
    # A block need not be dealt evenly: two of 6 warps fill those 12, one of 7 leaves 5 of them empty.
    assert occupancy("9.0", 192, 129, 0)[:2] == (2, 12)
    assert occupancy("9.0", 224, 129, 0)[:2] == (1, 7)
    # 9 warps of 6144 registers are 55,296 but are checked as 12: 73,728 are more than a block has.
    with pytest.raises(ValueError, match="9 warps of 192 registers a thread take 73728 registers"):
        occupancy("9.0", 288, 192, 0)


def test_shared_memory_is_dealt_out_with_what_the_driver_takes() -> None:
    # 49,152 + 1,024 bytes are 4 times in 228 KiB; on 7.0 the driver takes nothing: 2 times 49,152 in 96 KiB.
    assert occupancy("9.0", 32, 0, 48 * 1024)[0] == 4
    assert occupancy("7.0", 32, 0, 48 * 1024)[0] == 2
    # 99 KiB and the driver's are all of 100 KiB.
    assert occupancy("8.9", 32, 0, 99 * 1024) == (1, 1, Fraction(1, 48), "shared")
    # 8,276 + 1,024 bytes are 9,300, which fit 11 times, but are allocated as 9,344.
    assert occupancy("8.9", 32, 0, 8_276)[0] == 10
    # The SM was left with 32 KiB: three blocks of 9 + 1 KiB; with 5 KiB asked for it has 16, as there are no others.
    assert occupancy("8.0", 32, 0, 9 * 1024, 32 * 1024)[0] == 3
    assert occupancy("8.0", 32, 0, 9 * 1024, 5 * 1024)[0] == 1


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
        (("8.0", 128, 32, 0, 164 * 1024 + 1), "an SM has 0 to 167936 bytes"),
    ],
)
def test_a_block_that_cannot_be_launched(asked: tuple[str, int, int, int], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        occupancy(*asked)


def test_two_blocks_to_an_sm_that_has_one() -> None:
    """As many blocks as SMs keep all SMs busy, though half of the slots are empty."""
    grid = waves(A100_SMS, 2, A100_SMS)
    assert (grid.full, grid.tail_blocks, grid.count) == (0, 108, 1)
    assert grid.efficiency == Fraction(1, 2)
    assert grid.sm_efficiency == 1
    # A block on every second SM leaves half of them idle, both ways.
    assert waves(54, 1, A100_SMS).sm_efficiency == waves(54, 1, A100_SMS).efficiency == Fraction(1, 2)


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


@given(CAPABILITIES, st.integers(1, 1024), st.integers(0, 255), st.integers(0, 163 * 1024), st.integers(0, 164 * 1024))
def test_a_smaller_shared_configuration_never_raises_occupancy(
    capability: str, threads: int, registers: int, shared: int, config: int
) -> None:
    assume(config <= SM_LIMITS[capability].shared_bytes)
    try:
        whole = occupancy(capability, threads, registers, shared)
    except ValueError:
        return
    assert 1 <= occupancy(capability, threads, registers, shared, config).blocks_per_sm <= whole.blocks_per_sm


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


@given(POSITIVE, st.integers(1, 32), st.integers(1, 200), st.integers(1, 16))
def test_a_cluster_never_helps(clusters: int, blocks_per_sm: int, sms: int, cluster: int) -> None:
    assume(cluster <= blocks_per_sm * sms)
    together = waves(clusters * cluster, blocks_per_sm, sms, cluster)
    assert 0 < together.efficiency <= waves(clusters * cluster, blocks_per_sm, sms).efficiency


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
            carveout = random.choice([-1, random.randint(0, 100)])
            config = None if carveout < 0 else carveout * limits.shared_bytes // 100
            cases.append((capability, threads, registers, shared, config))
            device = f"{capability.replace('.', ' ')} {limits.threads} {limits.shared_bytes} {limits.shared_reserved}"
            lines.append(f"{device} {threads} {registers} {shared} {carveout}")
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
