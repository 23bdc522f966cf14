"""Shared memory of many blocks, which knows who touched what since the last barrier.

Two threads race where both touch a byte, one writes another value, and no barrier of the block, nor an instruction that
their warp executes together, lies between. A barrier of some of the warps orders all of them here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from trtprof.plugin.ptx.memory import VIEWS
from trtprof.plugin.ptx.parse import Instruction
from trtprof.plugin.ptx.state import LANES, Active, Chunk

Array = npt.NDArray[Any]

# A record of who touched a cell: the thread, flags, the epoch of its warp, that of its block.
_NOBODY, _COPYING = -1, -2
_THREAD, _WARP = (1 << 10) - 1, ((1 << 10) - 1) & ~(LANES - 1)
_SEVERAL_WARPS, _SEVERAL_LANES, _ATOMIC = 1 << 10, 1 << 11, 1 << 12
_WARP_EPOCH, _BLOCK_EPOCH = 13, 39


class Shared:
    """Shared memory of the blocks of a chunk."""

    def __init__(self, chunk: Chunk, size: int) -> None:
        self.chunk = chunk
        self.stride = -(-size // 16) * 16
        self.bytes = np.zeros(self.stride * chunk.blocks.size, np.uint8)
        self.cell = chunk.launch.shared_cell
        cells = self.bytes.size // self.cell
        self.writes = np.full(cells, _NOBODY, np.int64)
        self.reads = np.full(cells, _NOBODY, np.int64)
        self.epoch = np.zeros(chunk.blocks.size, np.int64)
        self.warp_epoch = np.zeros(chunk.all_warps, np.int64)
        self._now: Array | None = None
        self.variables: list[tuple[int, int, str]] = []
        for one in chunk.launch.program.variables:
            if one.space == "shared":
                end = one.offset + (one.nbytes if one.count is not None else chunk.launch.dynamic)
                self.variables.append((one.offset, end, one.name))

    def barrier(self, blocks: Array | None) -> None:
        """All threads of some blocks (all where none are named) have met."""
        self.epoch += 1 if blocks is None else blocks
        self._now = None

    def warp_barrier(self, active: Active) -> None:
        """Threads have met those of their warps."""
        if active.mask is None:
            self.warp_epoch += 1
        else:
            self.warp_epoch[active.index // LANES] += 1
        self._now = None

    @property
    def now(self) -> Array:
        """The record of each lane."""
        if self._now is None:
            warp = np.arange(self.chunk.all_warps)
            base = (self.epoch[warp // self.chunk.warps] << _BLOCK_EPOCH) | (self.warp_epoch << _WARP_EPOCH)
            self._now = np.repeat(base, LANES) | self.chunk.thread
        return self._now

    def cells(self, size: int) -> Array:
        """The content in cells of ``size`` bytes."""
        return self.bytes.view(VIEWS[size])

    def place(self, lanes: Array, offsets: Array, size: int, instruction: Instruction) -> Array:
        """Where accesses are in `cells`."""
        if (offsets & (size - 1)).any():
            bad = int(np.argmax((offsets & (size - 1)) != 0))
            raise self.chunk.fault(
                "misaligned", instruction, int(lanes[bad]), f"{size} bytes {self._words(int(offsets[bad]))}"
            )
        low, high = int(offsets.min()), int(offsets.max()) + size
        if not any(start <= low and high <= end for start, end, _ in self.variables):
            fits = np.zeros(offsets.shape, bool)
            for start, end, _ in self.variables:
                fits |= (offsets >= start) & (offsets + size <= end)
            if not fits.all():
                bad = int(np.argmin(fits))
                raise self.chunk.fault(
                    "out of bounds", instruction, int(lanes[bad]),
                    f"{size} bytes {self._words(int(offsets[bad]))}",
                )  # fmt: skip
        block = lanes // self.chunk.padded
        found: Array = (block * self.stride + offsets) // size
        return found

    def _words(self, offset: int) -> str:
        best, distance = "of shared memory, of which there is none", 1 << 62
        for start, end, name in self.variables:
            if start <= offset < end:
                return f"at byte {offset - start} of {name} (shared, {end - start} bytes)"
            away = start - offset if offset < start else offset - end
            if away < distance:
                distance = away
                where = "before" if offset < start else "behind the end of"
                best = f"{away} bytes {where} {name} (shared, {end - start} bytes)"
        return best

    def read(self, lanes: Array, offsets: Array, size: int, instruction: Instruction, *, atomic: bool = False) -> Array:
        """Read ``size`` bytes for each of some lanes."""
        place = self.place(lanes, offsets, size, instruction)
        now = self.now[lanes][:, None]
        self._may_read(place, size // self.cell, now, lanes, offsets, instruction, atomic=atomic)
        if not atomic:
            self._remember(place, size, now)
        return self.cells(size)[place]

    def _remember(self, place: Array, size: int, now: Array) -> None:
        """Keep who reads."""
        reads = self.reads.reshape(-1, size // self.cell)
        old = reads[place]
        new = now | _flags(old, now)
        reads[place] = new
        # Of lanes that read the same cell together the last is kept; it learns of the others.
        kept = reads[place]
        same = (kept ^ new) & _THREAD
        if same.any():
            extra = np.where(same & _WARP, _SEVERAL_WARPS, np.where(same, _SEVERAL_LANES, 0))
            extra |= new & (_SEVERAL_WARPS | _SEVERAL_LANES)
            several = np.flatnonzero(extra.any(1))
            np.bitwise_or.at(reads, place[several], extra[several])

    def write(
        self, lanes: Array, offsets: Array, size: int, values: Array, instruction: Instruction, *, atomic: bool = False
    ) -> None:
        """Write ``size`` bytes for each of some lanes: ``values`` in the type of `cells`."""
        place = self.place(lanes, offsets, size, instruction)
        parts = size // self.cell
        content = self.cells(size)
        now = self.now[lanes][:, None]
        if atomic:
            now = now | _ATOMIC
        before = np.ascontiguousarray(content[place]).view(VIEWS[self.cell]).reshape(-1, parts)
        same = before == np.ascontiguousarray(values).view(VIEWS[self.cell]).reshape(-1, parts)
        self._may_write(place, parts, now, None if atomic else same, lanes, offsets, instruction)
        content[place] = values
        if not atomic:
            kept = np.ascontiguousarray(content[place]).view(np.uint8).reshape(lanes.size, -1)
            wrong = kept != np.ascontiguousarray(values).view(np.uint8).reshape(lanes.size, -1)
            if wrong.any():
                bad = int(np.argmax(wrong.any(1)))
                raise self.chunk.fault(
                    "race", instruction, int(lanes[bad]),
                    f"another thread writes another value at the same time {self._words(int(offsets[bad]))}",
                )  # fmt: skip
        self.writes.reshape(-1, parts)[place] = now

    def update(self, lanes: Array, offsets: Array, size: int, instruction: Instruction) -> Array:
        """Where atomics of some lanes are in `cells`; who calls does what they do."""
        place = self.place(lanes, offsets, size, instruction)
        parts = size // self.cell
        now = self.now[lanes][:, None] | _ATOMIC
        self._may_read(place, parts, now, lanes, offsets, instruction, atomic=True)
        self._may_write(place, parts, now, None, lanes, offsets, instruction)
        self.writes.reshape(-1, parts)[place] = now
        return place

    def copy_begins(self, lanes: Array, offsets: Array, size: int, instruction: Instruction) -> None:
        """An asynchronous copy will write ``size`` bytes for each of some lanes: from now on nobody may touch them."""
        place = self.place(lanes, offsets, size, instruction)
        parts = size // self.cell
        self._may_write(place, parts, self.now[lanes][:, None], None, lanes, offsets, instruction)
        self.writes.reshape(-1, parts)[place] = _COPYING

    def _may_read(
        self, place: Array, parts: int, now: Array, lanes: Array, offsets: Array, instruction: Instruction, *,
        atomic: bool,
    ) -> None:  # fmt: skip
        """Whether what is read now was written, and by nobody at the same time; see `_may_write`."""
        last = self.writes.reshape(-1, parts)[place]
        if (last < 0).any():
            bad = int(np.argmax((last < 0).any(1)))
            copying = bool((last[bad] == _COPYING).any())
            raise self.chunk.fault(
                "race" if copying else "uninitialised", instruction, int(lanes[bad]),
                f"it reads what {'is still being copied' if copying else 'nobody wrote'} "
                f"{self._words(int(offsets[bad]))}",
            )  # fmt: skip
        wrong = _unordered(last, now)
        if atomic:
            wrong &= (last & _ATOMIC) == 0
        if wrong.any():
            self._race(instruction, lanes, offsets, wrong, last, "writes")

    def _may_write(
        self, place: Array, parts: int, now: Array, same: Array | None, lanes: Array, offsets: Array,
        instruction: Instruction,
    ) -> None:  # fmt: skip
        """Whether nobody else reads or writes what is written now.

        `place`: cells of ``parts`` of those that are kept track of.
        """
        last = self.writes.reshape(-1, parts)[place]
        wrong = (last >= 0) & _unordered(last, now)
        if wrong.any():
            wrong &= ((last & now & _ATOMIC) == 0) if same is None else ~same
            if wrong.any():
                self._race(instruction, lanes, offsets, wrong, last, "writes")
        readers = self.reads.reshape(-1, parts)[place]
        wrong = (readers >= 0) & _unordered(readers, now)
        if wrong.any():
            self._race(instruction, lanes, offsets, wrong, readers, "reads")

    def _race(
        self, instruction: Instruction, lanes: Array, offsets: Array, wrong: Array, other: Array, does: str
    ) -> None:
        row, column = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
        lane = int(lanes[row])
        rival = lane // self.chunk.padded * self.chunk.padded + int(other[row, column] & _THREAD)
        place = self.chunk.where(rival).partition(", ")[2]
        raise self.chunk.fault(
            "race", instruction, lane,
            f"{place} {does} it too, {self._words(int(offsets[row]))}, and no barrier is between them",
        )  # fmt: skip


def _unordered(old: Array, new: Array) -> Array:
    """Whether nothing orders two records of the same block, of which the first may stand for several threads."""
    together: Array = (old >> _BLOCK_EPOCH) == (new >> _BLOCK_EPOCH)
    if not together.any():
        return together
    differ = old ^ new
    other_warp = (differ & _WARP) != 0
    other_lane = (differ & _THREAD) != 0
    same_step = ((differ >> _WARP_EPOCH) & ((1 << (_BLOCK_EPOCH - _WARP_EPOCH)) - 1)) == 0
    several = (old & _SEVERAL_WARPS) != 0
    lanes = (old & _SEVERAL_LANES) != 0
    found: Array = together & (other_warp | several | (same_step & (other_lane | lanes)))
    return found


def _flags(old: Array, new: Array) -> Array:
    """What a reader that comes later says of those before it."""
    together = (old >= 0) & ((old >> _BLOCK_EPOCH) == (new >> _BLOCK_EPOCH))
    if not together.any():
        return np.zeros(1, np.int64)
    differ = old ^ new
    other_warp = ((differ & _WARP) != 0) | ((old & _SEVERAL_WARPS) != 0)
    same_step = ((differ >> _WARP_EPOCH) & ((1 << (_BLOCK_EPOCH - _WARP_EPOCH)) - 1)) == 0
    lanes = same_step & (((differ & _THREAD) != 0) | ((old & _SEVERAL_LANES) != 0))
    found: Array = np.where(together & other_warp, _SEVERAL_WARPS, np.where(together & lanes, _SEVERAL_LANES, 0))
    return found
