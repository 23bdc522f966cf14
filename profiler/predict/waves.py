"""Tile and wave quantisation: what the shape of a kernel launch costs on a GPU of so many SMs.

A kernel runs as a grid of equal thread blocks. The matrix is cut into tiles of one size, so the last
tiles are padded; the blocks are dealt to the SMs, so in the last round some SMs have none (NVIDIA,
Matrix Multiplication Background User's Guide, DU-09799-001, chapter 3, and GPU Performance
Background User's Guide). Two views of the second effect are kept apart:

- By SM: some SM has at least ``ceil(blocks / sms)`` blocks and cannot compute faster than its peak
  whether they run at once or in turn. That is a bound, so it is what lengthens the compute time.
- By wave: ``blocks_per_sm * sms`` blocks run at once, and one of the last, partly filled wave takes
  as long as one of a full wave, however few run beside it. That is an estimate, for blocks that wait
  rather than compute; with one block per SM both agree.

Both take all blocks to do the same work. Where they do not (causal attention, a persistent kernel whose
blocks draw their work from a queue) neither holds.

How many blocks an SM holds at once follows the rules of NVIDIA's occupancy calculator, which every
CUDA toolkit carries as ``cuda_occupancy.h``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple

Limit = Literal["threads", "blocks", "registers", "shared"]

KIB = 1024
WARP = 32


class SmLimits(NamedTuple):
    """What one SM can hold, and how it is dealt out.

    Attributes:
        threads: Resident threads, in warps of 32.
        blocks: Resident thread blocks.
        shared_configs: Sizes in bytes that shared memory can be given of the SM's L1, ascending.
        shared_unit: Shared memory is allocated to blocks in multiples of so many bytes.
        shared_reserved: Bytes that the driver takes in each block.
        registers: 32-bit registers, of the SM and the most of one block.
        registers_per_thread: The most that a kernel can use.
        register_unit: Registers are allocated to warps in multiples of this.
        sub_partitions: Warps and registers are dealt evenly to so many parts of the SM.
        threads_per_block: The most of one block.
    """

    threads: int
    blocks: int
    shared_configs: tuple[int, ...]
    shared_unit: int = 128
    shared_reserved: int = KIB
    registers: int = 64 * KIB
    registers_per_thread: int = 255
    register_unit: int = 256
    sub_partitions: int = 4
    threads_per_block: int = 1024

    @property
    def warps(self) -> int:
        return self.threads // WARP

    @property
    def shared_bytes(self) -> int:
        """The most shared memory of the SM."""
        return self.shared_configs[-1]

    @property
    def shared_per_block(self) -> int:
        """The most shared memory that a kernel may ask for in a block; over 48 KiB it must opt in."""
        return self.shared_bytes - self.shared_reserved


def _kib(*sizes: int) -> tuple[int, ...]:
    return tuple(size * KIB for size in sizes)


_SHARED_64 = _kib(32, 64)
_SHARED_96 = _kib(0, 8, 16, 32, 64, 96)
_SHARED_100 = _kib(0, 8, 16, 32, 64, 100)
_SHARED_164 = _kib(0, 8, 16, 32, 64, 100, 132, 164)
_SHARED_228 = _kib(0, 8, 16, 32, 64, 100, 132, 164, 196, 228)

# Threads, blocks, registers and shared memory: CUDA Programming Guide 13, "Compute Capabilities", tables 30 to 32;
# 7.0 and 7.2, which CUDA 13 dropped: CUDA C++ Programming Guide 12, "Technical Specifications per Compute
# Capability". Units, sub-partitions and once more blocks and shared configurations: cuda_occupancy.h of CUDA 13.0.
# The reserve per block: arch_traits.h of NVIDIA's CCCL.
# Where NVIDIA's pages disagree, the guide and the header are followed: the Blackwell Tuning Guide gives 12.0 32 blocks
# and 128 KB (the whole L1), CCCL gives 11.0 the limits of 10.0; cuda_occupancy.h allows 256 registers per thread.
SM_LIMITS: dict[str, SmLimits] = {
    "7.0": SmLimits(2048, 32, _SHARED_96, shared_unit=256, shared_reserved=0),
    "7.2": SmLimits(2048, 32, _SHARED_96, shared_unit=256, shared_reserved=0),
    "7.5": SmLimits(1024, 16, _SHARED_64, shared_unit=256, shared_reserved=0),
    "8.0": SmLimits(2048, 32, _SHARED_164),
    "8.6": SmLimits(1536, 16, _SHARED_100),
    "8.7": SmLimits(1536, 16, _SHARED_164),
    "8.9": SmLimits(1536, 24, _SHARED_100),
    "9.0": SmLimits(2048, 32, _SHARED_228),
    "10.0": SmLimits(2048, 32, _SHARED_228),
    "10.3": SmLimits(2048, 32, _SHARED_228),
    "11.0": SmLimits(1536, 24, _SHARED_228),
    "12.0": SmLimits(1536, 24, _SHARED_100),
    "12.1": SmLimits(1536, 24, _SHARED_100),
}
"""By compute capability."""


class Occupancy(NamedTuple):
    """How much of an SM the resident blocks of a kernel fill.

    Attributes:
        blocks_per_sm: Blocks that run at once on one SM.
        warps_per_sm: Their warps.
        fraction: ``warps_per_sm`` of the most that the SM can hold.
        limit: What allows no further block; where it is several, the first of threads, blocks,
            registers, shared.
    """

    blocks_per_sm: int
    warps_per_sm: int
    fraction: Fraction
    limit: Limit


@dataclass(frozen=True)
class Waves:
    """A grid dealt to the SMs.

    Attributes:
        full: Waves that fill every slot of every SM.
        tail_blocks: Blocks of the last wave, if it does not.
        count: All waves, ``full`` and the tail.
        efficiency: Blocks over slots in all waves.
        sm_efficiency: Blocks over what the SMs could run in the rounds that the busiest of them needs,
            one block at a time: never below ``efficiency``.
    """

    full: int
    tail_blocks: int
    count: int
    efficiency: Fraction
    sm_efficiency: Fraction


class Launch(NamedTuple):
    """A kernel launch as a profiler records it.

    Attributes:
        grid: Blocks in x, y, z.
        block: Threads of a block in x, y, z.
        registers: Per thread.
        shared_bytes: Static and dynamic shared memory of a block, without what the driver reserves.
        shared_config_bytes: Shared memory that the SM was configured to; None where it is not known.
        cluster: Blocks of a thread block cluster.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    registers: int
    shared_bytes: int
    shared_config_bytes: int | None = None
    cluster: int = 1

    @property
    def blocks(self) -> int:
        return math.prod(self.grid)

    @property
    def threads(self) -> int:
        return math.prod(self.block)


class Tiling(NamedTuple):
    """A matrix product ``m x k`` by ``k x n`` and the tile of a thread block; see `tile_efficiency`."""

    m: int
    n: int
    tile_m: int
    tile_n: int
    k: int | None = None
    tile_k: int | None = None
    split_k: int = 1


class LaunchTerm(NamedTuple):
    """A compute time with what the launch adds to it: a term of a roofline.

    Attributes:
        name: Of the term.
        ns: The compute time that the shape of the launch allows: a bound.
        wave_ns: The same if every wave takes as long as a full one: an estimate, never below ``ns``.
        efficiency: Compute time over ``ns``, in (0, 1].
        tile: Useful part of the padded work; 1 where the tiling is not known.
        occupancy: How many blocks an SM holds.
        waves: How the grid fills the GPU.
        reason: In words.
    """

    name: Literal["waves"]
    ns: int
    wave_ns: int
    efficiency: Fraction
    tile: Fraction
    occupancy: Occupancy
    waves: Waves
    reason: str


def occupancy(
    compute_capability: str,
    threads_per_block: int,
    registers_per_thread: int,
    shared_bytes_per_block: int,
    shared_config_bytes: int | None = None,
) -> Occupancy:
    """Blocks of a kernel that one SM holds at once.

    Args:
        compute_capability: A key of `SM_LIMITS`.
        threads_per_block: Threads of a block.
        registers_per_thread: As compiled.
        shared_bytes_per_block: Static and dynamic, without what the driver reserves.
        shared_config_bytes: Shared memory that the SM is configured to; what is no configuration is
            taken to the next larger one, and to one that holds a block. By default the largest.

    Raises:
        ValueError: The compute capability is not known, or such a block cannot be launched.
    """
    limits = _limits(compute_capability)
    if not 1 <= threads_per_block <= limits.threads_per_block:
        raise ValueError(f"a block has 1 to {limits.threads_per_block} threads, not {threads_per_block}")
    if not 0 <= registers_per_thread <= limits.registers_per_thread:
        raise ValueError(f"a thread has 0 to {limits.registers_per_thread} registers, not {registers_per_thread}")
    if not 0 <= shared_bytes_per_block <= limits.shared_per_block:
        raise ValueError(
            f"a block has 0 to {limits.shared_per_block} bytes of shared memory on compute capability "
            f"{compute_capability}, not {shared_bytes_per_block}"
        )
    warps = -(-threads_per_block // WARP)
    blocks_by: dict[Limit, int] = {"threads": limits.warps // warps, "blocks": limits.blocks}
    if registers_per_thread:
        per_warp = _round_up(registers_per_thread * WARP, limits.register_unit)
        # The launch is checked as if the block had as many warps in each sub-partition.
        if (needed := per_warp * _round_up(warps, limits.sub_partitions)) > limits.registers:
            raise ValueError(
                f"{warps} warps of {registers_per_thread} registers a thread take {needed} registers, "
                f"a block has {limits.registers} at most"
            )
        of_a_part = limits.registers // limits.sub_partitions // per_warp
        blocks_by["registers"] = of_a_part * limits.sub_partitions // warps
    shared = _round_up(shared_bytes_per_block + limits.shared_reserved, limits.shared_unit)
    if shared:
        blocks_by["shared"] = _shared_config(limits, shared, shared_config_bytes) // shared
    blocks, limit = min((count, place) for place, count in enumerate(blocks_by.values()))
    return Occupancy(blocks, blocks * warps, Fraction(blocks * warps, limits.warps), list(blocks_by)[limit])


def waves(blocks: int, blocks_per_sm: int, sms: int, cluster: int = 1) -> Waves:
    """How a grid fills the SMs of a GPU.

    The blocks of a cluster start together. How many clusters find room at once depends on how the SMs
    are grouped, which is not published: here as many as there are slots for, which is the most.

    Raises:
        ValueError: A number is not positive, the grid is no multiple of the cluster, or the cluster
            is larger than the GPU.
    """
    if min(blocks, blocks_per_sm, sms, cluster) < 1:
        raise ValueError(f"not positive: {blocks=}, {blocks_per_sm=}, {sms=}, {cluster=}")
    if blocks % cluster:
        raise ValueError(f"a grid of {blocks} blocks is no multiple of its cluster of {cluster}")
    slots = blocks_per_sm * sms
    at_once = slots // cluster * cluster
    if not at_once:
        raise ValueError(f"a cluster of {cluster} blocks does not fit into {slots} slots")
    full, tail = divmod(blocks, at_once)
    count = full + bool(tail)
    rounds = -(-blocks // sms)
    return Waves(full, tail, count, Fraction(blocks, count * slots), Fraction(blocks, rounds * sms))


def tiles(tiling: Tiling) -> int:
    """Thread blocks that a matrix product is cut into, one a tile and part of k."""
    return -(-tiling.m // tiling.tile_m) * -(-tiling.n // tiling.tile_n) * tiling.split_k


def tile_efficiency(
    m: int, n: int, tile_m: int, tile_n: int, k: int | None = None, tile_k: int | None = None, split_k: int = 1
) -> Fraction:
    """Useful over padded work of a matrix product cut into tiles.

    All tiles do the same arithmetic, those over the edge too. Where k is split, the parts are whole
    steps of ``tile_k`` and as long as the longest of them.

    Args:
        m: Rows of the output.
        n: Columns of the output.
        tile_m: Rows of a tile.
        tile_n: Columns of a tile.
        k: Length of the sums; without it the padding of k is left out.
        tile_k: Step along k of a tile.
        split_k: Blocks that share the sums of one tile.

    Raises:
        ValueError: A number is not positive, only one of ``k`` and ``tile_k`` is given, or ``split_k``
            has more parts than there are steps.
    """
    if min(m, n, tile_m, tile_n, split_k, 1 if k is None else k, 1 if tile_k is None else tile_k) < 1:
        raise ValueError(f"not positive: {m=}, {n=}, {tile_m=}, {tile_n=}, {k=}, {tile_k=}, {split_k=}")
    useful = Fraction(m * n, _round_up(m, tile_m) * _round_up(n, tile_n))
    if k is None and tile_k is None:
        return useful
    if k is None or tile_k is None:
        raise ValueError("the padding of k needs both k and tile_k")
    steps = -(-k // tile_k)
    if split_k > steps:
        raise ValueError(f"{steps} steps along k cannot be split into {split_k} parts")
    return useful * Fraction(k, _round_up(steps, split_k) * tile_k)


def launch_efficiency(grid: Waves, tile: Fraction = Fraction(1)) -> Fraction:
    """Part of a GPU's peak that a launch can reach, in (0, 1]: full tiles times busy SMs."""
    return tile * grid.sm_efficiency


def quantised_ns(compute_ns: float | Fraction, efficiency: Fraction) -> int:
    """A compute time at the part of the peak that the launch can reach, in ns, rounded up.

    Args:
        compute_ns: At the full peak and for the useful work alone; a float is taken as exactly that number.
        efficiency: From `launch_efficiency`.
    """
    return math.ceil(Fraction(compute_ns) / efficiency)


def launch_term(
    compute_ns: float | Fraction, launch: Launch, *, compute_capability: str, sms: int, tiling: Tiling | None = None
) -> LaunchTerm:
    """The compute time of a kernel with what the shape of its launch adds.

    Args:
        compute_ns: At the peak of the whole GPU, for the useful work alone.
        launch: As recorded.
        compute_capability: A key of `SM_LIMITS`.
        sms: SMs of the GPU.
        tiling: Of a matrix product, where it is known (from the kernel's name).

    Raises:
        ValueError: See `occupancy`, `waves` and `tile_efficiency`.
    """
    resident = occupancy(
        compute_capability, launch.threads, launch.registers, launch.shared_bytes, launch.shared_config_bytes
    )
    grid = waves(launch.blocks, resident.blocks_per_sm, sms, launch.cluster)
    tile = Fraction(1) if tiling is None else tile_efficiency(*tiling)
    efficiency = launch_efficiency(grid, tile)
    reason = (
        f"{launch.blocks} blocks on {sms} SMs, {resident.blocks_per_sm} at once on each ({resident.limit}): "
        f"{float(grid.sm_efficiency):.0%} of the SMs' time used"
    )
    if tiling is not None:
        reason += f"; {float(tile):.0%} of the tiles' work is useful"
    return LaunchTerm(
        "waves",
        quantised_ns(compute_ns, efficiency),
        quantised_ns(compute_ns, tile * grid.efficiency),
        efficiency,
        tile,
        resident,
        grid,
        reason,
    )


def _limits(compute_capability: str) -> SmLimits:
    if compute_capability not in SM_LIMITS:
        raise ValueError(f"no limits for compute capability {compute_capability}; known: {', '.join(SM_LIMITS)}")
    return SM_LIMITS[compute_capability]


def _shared_config(limits: SmLimits, block: int, asked: int | None) -> int:
    """Shared memory that the SM is configured to for blocks of so many bytes."""
    if asked is None:
        return limits.shared_bytes
    if not 0 <= asked <= limits.shared_bytes:
        raise ValueError(f"an SM has 0 to {limits.shared_bytes} bytes of shared memory, not {asked}")
    return next(size for size in limits.shared_configs if size >= max(asked, block))


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
