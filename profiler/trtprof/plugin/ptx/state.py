"""Many blocks side by side: their registers, which of their threads are where, and what is wrong with one of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from trtprof.plugin.ptx.fault import Fault, Kind
from trtprof.plugin.ptx.memory import Buffer, Memory
from trtprof.plugin.ptx.parse import Entry, Instruction, Program, Variable

if TYPE_CHECKING:
    from trtprof.plugin.ptx.count import Counter
    from trtprof.plugin.ptx.shared import Shared

Array = npt.NDArray[Any]
LANES = 32
Dims = tuple[int, int, int]
Look = tuple[int, int]  # What is looked at: a register by its slot, and which of its bits


@dataclass(eq=False)
class Launch:
    """One launch of a kernel."""

    program: Program  # Where the kernel is
    entry: Entry  # The kernel
    grid: Dims  # Blocks in x, y and z
    block: Dims  # Threads of a block in x, y and z
    arguments: dict[int, Array]  # Bits of each argument, by the number of its parameter
    memory: Memory  # Buffers that its pointers point into
    counter: Counter  # What it moves
    dynamic: int  # Bytes of dynamic shared memory
    # Variables of the module by name: ``.const`` and ``.global`` ones
    module: dict[Variable, Buffer] = field(default_factory=dict)
    # Of each buffer that is written, which block wrote each cell: its number + 1
    writers: dict[str, Array] = field(default_factory=dict)
    buffers: list[Buffer] = field(default_factory=list)
    cell: int = 1  # Bytes of those cells: the smallest store of the program
    shared_cell: int = 1  # Likewise in shared memory

    @property
    def threads(self) -> int:
        """Of a block."""
        x, y, z = self.block
        return x * y * z


class Chunk:
    """Blocks that are executed side by side; a lane is a thread, or one of those that fill up the last warp of a block.

    Attributes:
        padded: The same, up to whole warps.
        live: Which have not ended; None while none has.
        registers: By slot: an array of one element where all lanes have the same, or one a lane. Never changed in
            place, so that results may share them. None is what no lane has set. The last is the condition code.
        undefined: Bits that nobody may use, by slot: set in an array as in `registers`, of unsigned numbers as wide as
            the register. Only of registers that have such bits.
        params: Bytes of parameters of calls: lanes by bytes.
    """

    def __init__(self, launch: Launch, blocks: Sequence[int] | Array) -> None:
        self.launch = launch
        self.blocks = np.asarray(blocks, np.int64)
        self.threads = launch.threads
        self.warps = -(-self.threads // LANES)
        self.padded = self.warps * LANES
        self.lanes = self.padded * self.blocks.size
        self.all_warps = self.warps * self.blocks.size
        self.live: Array | None = None
        if self.padded != self.threads:
            self.live = np.tile(np.arange(self.padded) < self.threads, self.blocks.size)
        self.registers: list[Array | None] = [None] * (launch.program.registers + 1)
        self.undefined: dict[int, Array] = {}
        self.params: dict[int, Array] = {}
        self.local: Array | None = None
        self.shared: Shared | None = None
        self.clock = 0
        self.copies: list[tuple[Array, Array, Array, int, Array]] = []
        self.copy_instructions: list[Instruction] = []
        self.commits: Array | None = None
        self._specials: dict[str, Array] = {}

    # Who is who.
    @property
    def thread(self) -> Array:
        """Number of each lane within its block."""
        if "thread" not in self._specials:
            self._specials["thread"] = np.tile(np.arange(self.padded, dtype=np.uint32), self.blocks.size)
        return self._specials["thread"]

    def special(self, name: str) -> Array:
        """Values of a special register."""
        if name in ("%clock", "%clock64", "%clock_hi") or name.startswith("%globaltimer"):
            return np.array([self.clock], np.uint64)
        if name not in self._specials:
            self._specials[name] = self._special(name)
        return self._specials[name]

    def _special(self, name: str) -> Array:
        launch = self.launch
        what, _, axis = name[1:].partition(".")
        place = "xyz".index(axis) if axis else 0
        one = launch.block if what in ("tid", "ntid") else launch.grid
        before = int(np.prod(one[:place], dtype=np.int64))
        if what in ("ntid", "nctaid"):
            return np.array([one[place]], np.uint32)
        if what in ("tid", "ctaid") and one[place] == 1:
            return np.zeros(1, np.uint32)
        if what == "tid":
            single = (np.arange(self.padded) // before % one[place]).astype(np.uint32)
            return np.tile(single, self.blocks.size)
        if what == "ctaid":
            return np.repeat((self.blocks // before % one[place]).astype(np.uint32), self.padded)
        lane = np.arange(self.lanes, dtype=np.uint32) % np.uint32(LANES)
        match what:
            case "laneid":
                return lane
            case "warpid":
                return self.thread // np.uint32(LANES)
            case "nwarpid":
                return np.array([self.warps], np.uint32)
            case "lanemask_eq":
                return np.uint32(1) << lane
            case "lanemask_lt":
                return (np.uint32(1) << lane) - np.uint32(1)
            case "lanemask_le":
                return (np.uint32(2) << lane) - np.uint32(1)
            case "lanemask_gt":
                return ~((np.uint32(2) << lane) - np.uint32(1))
            case "lanemask_ge":
                return ~((np.uint32(1) << lane) - np.uint32(1))
            case "dynamic_smem_size":
                return np.array([launch.dynamic], np.uint32)
            case "total_smem_size" | "aggr_smem_size":
                return np.array([launch.entry.shared_bytes + launch.dynamic], np.uint32)
            case "nsmid":
                return np.array([1], np.uint32)
        return np.zeros(1, np.uint32)  # smid, gridid

    def where(self, lane: int) -> str:
        """A lane, in words."""
        block, thread = int(self.blocks[lane // self.padded]), lane % self.padded

        def place(number: int, dims: Dims) -> str:
            x, y, _ = dims
            return f"({number % x}, {number // x % y}, {number // (x * y)})"

        return f"block {place(block, self.launch.grid)}, thread {place(thread, self.launch.block)}"

    def fault(self, kind: Kind, instruction: Instruction, lane: int, message: str) -> Fault:
        """A fault of one thread."""
        return Fault(kind, f"{self.where(lane)}: {instruction.text}: {message}")

    # Values.
    def value(self, slot: int, bits: int) -> Array:
        """A register; zero where it was never set."""
        found = self.registers[slot]
        return np.zeros(1, _unsigned(bits)) if found is None else found

    def put(self, active: Active, slot: int, value: Array) -> None:
        """Set a register of those lanes that are active, which is defined from now on."""
        if active.others:
            old = self.registers[slot]
            if old is None:
                old = np.zeros(1, value.dtype)
                self.undefined[slot] = every_bit(np.ones(1, bool), value)
            elif old.dtype != value.dtype:
                old = old.view(value.dtype)
            value = np.where(active.mask_array, value, old)
        self.registers[slot] = value
        if slot in self.undefined:
            self._mark(active, slot, np.zeros(1, bool))

    def mask(self, slot: int, bits: int) -> Array:
        """Undefined bits of a register."""
        if self.registers[slot] is None:
            return every_bit(np.ones(1, bool), np.zeros(1, _unsigned(bits)))
        found = self.undefined.get(slot)
        return np.zeros(1, _unsigned(bits)) if found is None else found

    def undefined_in(self, looks: Iterable[Look]) -> Array:
        """Lanes in which any of some bits is undefined."""
        found: Array = np.zeros(1, bool)
        for slot, bits in looks:
            if self.registers[slot] is None:
                return np.ones(1, bool)
            if slot in self.undefined:
                found = found | (self.undefined[slot] & bits != 0)
        return found

    def mark(self, active: Active, masks: dict[int, Array]) -> None:
        """After an instruction: undefined bits of its results by slot, or lanes in which all bits are."""
        for slot, mask in masks.items():
            self._mark(active, slot, mask)

    def _mark(self, active: Active, slot: int, mask: Array) -> None:
        mask = every_bit(mask, self.value(slot, 1))
        if active.others:
            mask = np.where(active.mask_array, mask, self.undefined.get(slot, np.zeros(1, mask.dtype)))
        if mask.any():
            self.undefined[slot] = mask
        else:
            self.undefined.pop(slot, None)

    def must_be_defined(self, active: Active, looks: Iterable[Look], instruction: Instruction) -> None:
        """Before an instruction whose effects are seen: no undefined bit goes into it."""
        bad = self.undefined_in(looks)
        if bad.any():
            bad = bad & active.mask_array
            if self.live is not None:
                bad = bad & self.live
            if bad.any():
                lane = int(np.argmax(bad))
                raise self.fault("uninitialised", instruction, lane, "it uses a register that was never set")


def _unsigned(bits: int) -> np.dtype[Any]:
    return np.dtype(bool if bits == 1 else f"u{bits // 8}")


def every_bit(mask: Array, value: Array) -> Array:
    """A mask as wide as a value; of lanes (bool) that of all of their bits."""
    unsigned = _unsigned(1 if value.dtype == bool else 8 * value.dtype.itemsize)
    if mask.dtype != bool:
        return mask.view(unsigned)
    return mask if value.dtype == bool else -mask.astype(unsigned)


class Active:
    """Lanes that execute an instruction together.

    Attributes:
        mask: Which; None is all of the chunk.
        others: Whether there are others that have not ended.
    """

    __slots__ = ("_count", "_index", "_warps", "chunk", "mask", "others")

    def __init__(self, chunk: Chunk, mask: Array | None, others: bool) -> None:
        self.chunk = chunk
        self.mask = mask
        self.others = others
        self._index: Array | None = None
        self._count = -1
        self._warps = -1

    @property
    def mask_array(self) -> Array:
        """The mask; all ones where every lane is active."""
        return np.ones(self.chunk.lanes, bool) if self.mask is None else self.mask

    @property
    def index(self) -> Array:
        """Numbers of the lanes, rising."""
        if self._index is None:
            self._index = np.arange(self.chunk.lanes) if self.mask is None else np.flatnonzero(self.mask)
        return self._index

    @property
    def count(self) -> int:
        """How many lanes."""
        if self._count < 0:
            self._count = self.chunk.lanes if self.mask is None else int(np.count_nonzero(self.mask))
        return self._count

    @property
    def warps(self) -> int:
        """How many warps have at least one."""
        if self._warps < 0:
            if self.mask is None:
                self._warps = self.chunk.all_warps
            else:
                self._warps = int(np.count_nonzero(self.mask.view(np.uint64).reshape(-1, 4).any(1)))
        return self._warps

    @property
    def first(self) -> int:
        """The lowest lane."""
        return 0 if self.mask is None else int(np.argmax(self.mask))

    def of(self, value: Array) -> Array:
        """The elements of the active lanes; of a value that all lanes have, that one."""
        if self.mask is None or value.size == 1:
            return value
        return value[self.index]

    def spread(self, value: Array) -> Array:
        """The elements of the active lanes, one each."""
        found = self.of(value)
        return np.broadcast_to(found, (self.count,)) if found.size == 1 else found

    def back(self, value: Array) -> Array:
        """Elements of the active lanes, as an array over all lanes."""
        if self.mask is None or value.size == 1:
            return value
        found = np.zeros(self.chunk.lanes, value.dtype)
        found[self.index] = value
        return found
