"""How many blocks of a kernel an SM holds at once, and how its grid fills the SMs of a GPU.

How many blocks an SM holds at once follows the rules of NVIDIA's occupancy calculator, which every
CUDA toolkit carries as ``cuda_occupancy.h``.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple

Limit = Literal["threads", "blocks", "registers", "shared"]

KIB = 1024
WARP = 32


class SmLimits(NamedTuple):
    """What one SM can hold, and how it is dealt out."""

    threads: int  # Resident threads, in warps of 32
    blocks: int  # Resident thread blocks
    shared_bytes: int  # The most shared memory that can be given of the SM's L1
    shared_unit: int = 128  # Shared memory is allocated to blocks in multiples of so many bytes
    shared_reserved: int = KIB  # Bytes that the driver takes in each block
    registers: int = 64 * KIB  # 32-bit registers, of the SM and the most of one block
    registers_per_thread: int = 255  # The most that a kernel can use
    register_unit: int = 256  # Registers are allocated to warps in multiples of this
    sub_partitions: int = 4  # Warps and registers are dealt evenly to so many parts of the SM
    threads_per_block: int = 1024  # The most of one block

    @property
    def warps(self) -> int:
        return self.threads // WARP

    @property
    def shared_per_block(self) -> int:
        """The most shared memory that a kernel may ask for in a block; over 48 KiB it must opt in."""
        return self.shared_bytes - self.shared_reserved


# Threads, blocks, registers and shared memory: CUDA Programming Guide 13, "Compute Capabilities", tables 30 to 32;
# 7.0 and 7.2, which CUDA 13 dropped: CUDA C++ Programming Guide 12, "Technical Specifications per Compute
# Capability". Units and sub-partitions: cuda_occupancy.h of CUDA 13.0.
# The reserve per block: arch_traits.h of NVIDIA's CCCL.
# Where NVIDIA's pages disagree, the guide and the header are followed: the Blackwell Tuning Guide gives 12.0 32 blocks
# and 128 KB (the whole L1), CCCL gives 11.0 the limits of 10.0; cuda_occupancy.h allows 256 registers per thread.
SM_LIMITS: dict[str, SmLimits] = {
    "7.0": SmLimits(2048, 32, 96 * KIB, shared_unit=256, shared_reserved=0),
    "7.2": SmLimits(2048, 32, 96 * KIB, shared_unit=256, shared_reserved=0),
    "7.5": SmLimits(1024, 16, 64 * KIB, shared_unit=256, shared_reserved=0),
    "8.0": SmLimits(2048, 32, 164 * KIB),
    "8.6": SmLimits(1536, 16, 100 * KIB),
    "8.7": SmLimits(1536, 16, 164 * KIB),
    "8.9": SmLimits(1536, 24, 100 * KIB),
    "9.0": SmLimits(2048, 32, 228 * KIB),
    "10.0": SmLimits(2048, 32, 228 * KIB),
    "10.3": SmLimits(2048, 32, 228 * KIB),
    "11.0": SmLimits(1536, 24, 228 * KIB),
    "12.0": SmLimits(1536, 24, 100 * KIB),
    "12.1": SmLimits(1536, 24, 100 * KIB),
}
"""By compute capability."""


class Occupancy(NamedTuple):
    """How much of an SM the resident blocks of a kernel fill."""

    blocks_per_sm: int  # Blocks that run at once on one SM
    warps_per_sm: int  # Their warps
    fraction: Fraction  # ``warps_per_sm`` of the most that the SM can hold
    limit: Limit  # What allows no further block; where it is several, the first of threads, blocks, registers, shared


@dataclass(frozen=True)
class Waves:
    """A grid dealt to the SMs."""

    full: int  # Waves that fill every slot of every SM
    tail_blocks: int  # Blocks of the last wave, if it does not
    count: int  # All waves, ``full`` and the tail
    efficiency: Fraction  # Blocks over slots in all waves
    # Blocks over what the SMs could run in the rounds that the busiest of them needs, one block at a time: never
    # below ``efficiency``
    sm_efficiency: Fraction


def occupancy(
    compute_capability: str,
    threads_per_block: int,
    registers_per_thread: int,
    shared_bytes_per_block: int,
) -> Occupancy:
    """Blocks of a kernel that one SM holds at once."""
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
        blocks_by["shared"] = limits.shared_bytes // shared
    blocks, limit = min((count, place) for place, count in enumerate(blocks_by.values()))
    return Occupancy(blocks, blocks * warps, Fraction(blocks * warps, limits.warps), list(blocks_by)[limit])


def waves(blocks: int, blocks_per_sm: int, sms: int, cluster: int = 1) -> Waves:
    """How a grid fills the SMs of a GPU."""
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


def _limits(compute_capability: str) -> SmLimits:
    if compute_capability not in SM_LIMITS:
        raise ValueError(f"no limits for compute capability {compute_capability}; known: {', '.join(SM_LIMITS)}")
    return SM_LIMITS[compute_capability]


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
