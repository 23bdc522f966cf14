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

How many blocks an SM holds at once, and how many waves that makes, is in `profiler.base.occupancy`.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Literal, NamedTuple

from profiler.base.occupancy import Occupancy, Waves, occupancy, waves


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


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
