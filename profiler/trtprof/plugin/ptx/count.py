"""What a launch moves: sectors of 32 bytes, passes over shared memory, instructions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from trtprof.plugin.ptx.memory import Buffer

Array = npt.NDArray[Any]
SECTOR = 32


class Counted(NamedTuple):
    """What a launch moved."""

    # Sectors of 32 bytes that warp instructions ask of global memory: each instruction of each warp counts those that
    # its threads touch once. What L1 is asked for.
    requested_sectors_read: int
    requested_sectors_written: int  # Likewise of stores and atomics
    # Different sectors over the whole launch, by buffer: what DRAM gives where caches keep all
    sectors_read: dict[str, int]
    sectors_written: dict[str, int]  # Likewise
    # Passes over shared memory beyond those that each warp instruction needs: one for every 128 bytes that 32 threads
    # may be given. Accesses of 8 bytes are served half a warp at a time, those of 16 a quarter; threads that want the
    # same word are served together.
    bank_conflicts: int
    instructions: int  # Warp instructions that were executed
    blocks: int  # Blocks that were executed


class Counter:
    """The same while it grows."""

    def __init__(self) -> None:
        self.requested = [0, 0]
        self.touched: tuple[dict[str, Array], dict[str, Array]] = ({}, {})
        self.bank_conflicts = 0
        self.instructions = 0
        self.blocks = 0

    def global_access(self, buffer: Buffer, offsets: Array, warps: Array, size: int, written: bool) -> None:
        """Count one instruction. `offsets`: of each lane, from ``buffer.origin``: int64."""
        if buffer.nbytes == 0:
            return
        touched = self.touched[written].get(buffer.name)
        if touched is None:
            touched = np.zeros(-(-(buffer.end - buffer.origin) // SECTOR) + 1, bool)
            self.touched[written][buffer.name] = touched
        sectors = offsets >> 5
        for part in range(-(-size // SECTOR)):
            mine = sectors + part if part else sectors
            keys = (warps << 36) + mine
            new = keys[1:] != keys[:-1]
            if (keys[1:] < keys[:-1]).any():
                keys = np.sort(keys)
                new = keys[1:] != keys[:-1]
                mine = keys & ((1 << 36) - 1)
            self.requested[written] += int(np.count_nonzero(new)) + 1
            touched[mine[0]] = True
            touched[mine[1:][new]] = True

    def uniform_access(self, buffer: Buffer, offset: int, warps: int, size: int, written: bool) -> None:
        """Count one instruction whose lanes all touch the same place, in that many warps."""
        self.global_access(buffer, np.array([offset]), np.zeros(1, np.int64), size, written)
        self.requested[written] += (warps - 1) * -(-size // SECTOR)

    def shared_access(self, offsets: Array, warps: Array, lanes: Array, size: int) -> None:
        """Count the conflicts of one instruction; ``offsets`` is in bytes, ``lanes`` the place of each in its warp."""
        if not offsets.size or offsets.strides[0] == 0:
            return  # one place for all, which is given to all at once
        per_phase = 32 if size <= 4 else 128 // size
        phase = warps * 32 + lanes // per_phase
        words = offsets >> 2
        if size > 4:
            more = np.arange(size // 4)
            words = (words[:, None] + more).reshape(-1)
            phase = np.repeat(phase, size // 4)
        keys = np.sort((phase << 32) + words)
        keys = keys[np.concatenate([[True], keys[1:] != keys[:-1]])]
        # How often each bank of each phase is wanted; the most is how many passes the phase takes.
        banks = (keys >> 32 << 5) + (keys & 31)
        banks.sort()
        edges = np.flatnonzero(np.concatenate([[True], banks[1:] != banks[:-1], [True]]))
        times = np.diff(edges)
        if int(times.max()) == 1:
            return
        phases = banks[edges[:-1]] >> 5
        starts = np.flatnonzero(np.concatenate([[True], phases[1:] != phases[:-1]]))
        self.bank_conflicts += int((np.maximum.reduceat(times, starts) - 1).sum())

    def result(self) -> Counted:
        """What was counted."""
        read, written = (
            {name: int(np.count_nonzero(one)) for name, one in touched.items()} for touched in self.touched
        )
        return Counted(
            self.requested[0], self.requested[1], read, written, self.bank_conflicts, self.instructions, self.blocks
        )
