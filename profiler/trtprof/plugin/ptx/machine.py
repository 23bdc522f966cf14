"""Kernels executed: which threads execute which instruction next, and who waits for whom.

Threads of many blocks advance together, those with the lowest program counter first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# The modules that know instructions: they file what they know.
from trtprof.plugin.ptx import access, arithmetic, atomics, control, convert, matrix, undefined, warp
from trtprof.plugin.ptx.count import Counted, Counter
from trtprof.plugin.ptx.fault import Fault
from trtprof.plugin.ptx.memory import Memory
from trtprof.plugin.ptx.operands import MAKERS, Array, Step, make
from trtprof.plugin.ptx.parse import BITS, Entry, Program
from trtprof.plugin.ptx.shared import Shared
from trtprof.plugin.ptx.state import LANES, Active, Chunk, Dims, Launch

KNOWN = (access, arithmetic, atomics, control, convert, matrix, warp)
SIDE_BY_SIDE = 1 << 17
"""Threads that are executed together: enough to make numpy's overhead small, few enough for registers in the cache."""
SHARED_AT_ONCE = 1 << 24  # Bytes of shared memory of all blocks that are executed together
BUDGET = 1_000_000  # Instructions that a group of blocks may execute
_FAR = 1 << 40


def instructions() -> tuple[str, ...]:
    """The opcodes that can be executed."""
    return tuple(sorted(MAKERS))


def launch(
    program: Program,
    entry: str,
    grid: Dims,
    block: Dims,
    arguments: Sequence[int | float | bytes],
    memory: Memory,
    *,
    blocks: Sequence[int] | None = None,
    order: int = 0,
    shared: int = 0,
    budget: int = BUDGET,
) -> Counted:
    """Execute a kernel.

    `arguments`: one for each parameter: numbers, addresses that `memory` gave, bytes of structs. `order`: 0 executes
    warps side by side; each other number shuffles blocks, and has some warps of each block run ahead of others as far
    as barriers let them.
    """
    state = _prepare(program, entry, grid, block, arguments, memory, shared)
    total = grid[0] * grid[1] * grid[2]
    chosen = np.arange(total) if blocks is None else np.asarray(blocks, np.int64)
    if chosen.size and not 0 <= int(chosen.min()) <= int(chosen.max()) < total:
        raise Fault("launch", f"{entry}: the grid {grid} has no block {int(chosen.max())}")
    shuffle = np.random.default_rng(order) if order else None
    if shuffle is not None:
        chosen = shuffle.permutation(chosen)
    room = max(1, SIDE_BY_SIDE // (-(-state.threads // LANES) * LANES))
    stride = program.shared_bytes + shared
    shares = stride > 0 and program.uses_shared(state.entry)
    if shares:
        room = max(1, min(room, SHARED_AT_ONCE // stride))
    with np.errstate(all="ignore"):
        for first in range(0, chosen.size, room):
            chunk = Chunk(state, chosen[first : first + room])
            if shares:
                chunk.shared = Shared(chunk, stride)
            _Scheduler(chunk, budget, shuffle).run()
            state.counter.blocks += chunk.blocks.size
    return state.counter.result()


def _prepare(
    program: Program, name: str, grid: Dims, block: Dims, arguments: Sequence[int | float | bytes], memory: Memory,
    shared: int,
) -> Launch:  # fmt: skip
    entry = program.entries.get(name)
    if entry is None:
        raise Fault("launch", f"there is no kernel {name}, but {', '.join(program.entries) or 'none'}")
    if min(*grid, *block) < 1 or block[0] * block[1] * block[2] > 1024 or block[2] > 64:
        raise Fault("launch", f"{name}: no GPU takes a grid of {grid} blocks of {block} threads")
    if grid[0] >= 1 << 31 or max(grid[1:]) > 65535:
        raise Fault("launch", f"{name}: no GPU takes a grid of {grid} blocks")
    if len(arguments) != len(entry.parameters):
        raise Fault("launch", f"{name} takes {len(entry.parameters)} arguments, and is given {len(arguments)}")
    state = Launch(program, entry, grid, block, _arguments(entry, arguments), memory, Counter(), shared)
    state.buffers = list(memory.buffers)
    _variables(state)
    state.cell, state.shared_cell = _cells(program, "global"), _cells(program, "shared")
    return state


def _arguments(entry: Entry, arguments: Sequence[int | float | bytes]) -> dict[int, Array]:
    found: dict[int, Array] = {}
    for variable, value in zip(entry.function.parameters, arguments, strict=True):
        bits = BITS[variable.kind]
        if isinstance(value, bytes):
            if len(value) != variable.nbytes:
                raise Fault("launch", f"{variable.name} takes {variable.nbytes} bytes, and is given {len(value)}")
            raw = value
        elif variable.count != 1:
            raise Fault("launch", f"{variable.name} takes {variable.nbytes} bytes, and is given a number")
        elif isinstance(value, float):
            kinds = {16: np.float16, 32: np.float32, 64: np.float64}
            raw = np.array(value, kinds[bits]).tobytes()
        else:
            if not -(1 << (bits - 1)) <= value < 1 << bits:
                raise Fault("launch", f"{variable.name} has {bits} bits: {value} does not fit")
            raw = (int(value) & ((1 << bits) - 1)).to_bytes(bits // 8, "little")
        found[variable.number] = np.frombuffer(raw, np.uint8)
    return found


def _variables(state: Launch) -> None:
    """Variables of the module, as buffers of this launch."""
    own = Memory()
    own._next = max((one.end + one.nbytes for one in state.buffers), default=0) // 2**32 * 2**32 + 2**33
    for variable in state.program.variables:
        if variable.space not in ("const", "global"):
            continue
        content = np.zeros(variable.nbytes, np.uint8)
        size = BITS[variable.kind] // 8
        for place, value in enumerate(variable.initial):
            if isinstance(value, int):
                raw = (value & ((1 << (8 * size)) - 1)).to_bytes(size, "little")
                content[place * size : place * size + size] = np.frombuffer(raw, np.uint8)
        own.add(variable.name, content, writable=variable.space == "global", align=variable.align)
        state.module[variable] = own.buffers[-1]
    state.buffers += own.buffers


def _cells(program: Program, space: str) -> int:
    """The smallest access to a space: what its bookkeeping counts in."""
    smallest = 16
    for one in program.code:
        if one.opcode not in ("ld", "st", "atom", "red", "cp", "ldmatrix", "stmatrix", "ldu"):
            continue
        spaces = [m for m in ("global", "shared", "local", "param", "const") if m in one.modifiers]
        if spaces and space not in spaces:
            continue
        if any(m.startswith("shared::") for m in one.modifiers) and space == "global" and one.opcode != "cp":
            continue
        sizes = [BITS[m] // 8 for m in one.modifiers if m in BITS]
        smallest = min([smallest, 4 if one.opcode == "cp" else 16, *sizes])
    return max(smallest, 1)


class _Scheduler:
    """The blocks of one chunk, from their first instruction to their last."""

    def __init__(self, chunk: Chunk, budget: int, shuffle: np.random.Generator | None) -> None:
        self.chunk = chunk
        self.program = chunk.launch.program
        if not self.program.compiled:
            self.program.compiled = [None] * len(self.program.code)
        self.budget = self.left = budget
        self.groups: dict[int, Array] = {}
        self.held: dict[int, Array] = {}
        self.waiting = control.Waiting(chunk)
        self.progress = True
        start = chunk.launch.entry.function.start
        every = np.ones(chunk.lanes, bool) if chunk.live is None else chunk.live
        self.classes: list[tuple[int, Array]] = [(0, every)]
        if shuffle is not None:
            number = np.repeat(shuffle.integers(0, 4, chunk.all_warps), LANES)
            self.classes = [(place * _FAR, number == place) for place in range(4)]
        self.push(start, every)

    def push(self, pc: int, mask: Array) -> None:
        """Have lanes go on at a place."""
        for base, members in self.classes:
            mine = mask if len(self.classes) == 1 else mask & members
            if len(self.classes) > 1 and not mine.any():
                continue
            old = self.groups.get(base + pc)
            self.groups[base + pc] = mine if old is None else old | mine

    def step(self, pc: int) -> Step:
        """An instruction, made executable when it is first met."""
        found = self.program.compiled[pc]
        if not isinstance(found, Step):
            found = make(self.program.code[pc], self.program)
            self.program.compiled[pc] = found
        return found

    def run(self) -> None:
        """Execute until all threads have ended."""
        while True:
            if not self.groups and not self._wake():
                return
            key = min(self.groups)
            self._advance(key)

    def _wake(self) -> bool:
        """Where nobody can go on: try those again that wait for others of their warp."""
        if self.held and self.progress:
            self.progress = False
            held, self.held = self.held, {}
            self.groups.update(held)
            return True
        if self.held:
            key, mask = min(self.held.items())
            lane = int(np.argmax(mask))
            raise self.chunk.fault(
                "divergent barrier", self.program.code[key % _FAR], lane,
                "it waits for threads of its warp that wait elsewhere",
            )  # fmt: skip
        self.waiting.stuck(self.program)
        return False

    def _active(self, mask: Array) -> Active:
        others = bool(self.groups) or bool(self.held) or self.waiting.any
        alone = not others and self.chunk.live is None
        return Active(self.chunk, None if alone else mask, others)

    def _advance(self, key: int) -> None:
        """Execute one group until it parts, waits, ends or goes back."""
        chunk, groups = self.chunk, self.groups
        base = key // _FAR * _FAR
        pc = key - base
        active = self._active(groups.pop(key))
        limit = min(groups, default=1 << 62) - base
        code = len(self.program.code)
        while True:
            if pc == limit:
                active = self._active(active.mask_array | groups.pop(base + pc))
                limit = min(groups, default=1 << 62) - base
            if pc >= code:
                raise Fault("unknown instruction", f"{chunk.where(active.first)}: it runs past the end of the program")
            self.left -= 1
            if self.left < 0:
                raise chunk.fault(
                    "endless",
                    self.program.code[pc],
                    active.first,
                    f"more than {self.budget} instructions were executed",
                )
            step = self.step(pc)
            chunk.clock += 1
            chunk.launch.counter.instructions += active.warps
            mine: Active | None = active
            if step.sinks:
                self._check(step, active)
            if step.guard is not None:
                mine = _narrowed(active, step.guard(chunk))
            if mine is None:
                pc += 1
                continue
            if step.kind == "plain":
                self._do(step, mine)
                pc += 1
                continue
            if step.kind == "branch" and mine is active:
                pc = step.target
                if groups or pc <= key - base:
                    self.push(pc, active.mask_array)
                    return
                continue
            rest = None if mine is active else active.mask_array & ~mine.mask_array
            if rest is not None:
                self.push(pc + 1, rest)
            if not self._control(step, pc, mine, rest is not None):
                return
            # All of those that came went on together.
            if rest is not None:
                self.push(pc + 1, mine.mask_array)
                return
            active = self._active(mine.mask_array) if mine.mask is not None else mine
            pc += 1
            limit = min(groups, default=1 << 62) - base

    def _check(self, step: Step, active: Active) -> None:
        chunk = self.chunk
        if not chunk.undefined and not any(chunk.registers[slot] is None for slot, _ in step.sinks):
            return
        guard = step.instruction.guard
        if guard is not None and step.guard is not None:
            chunk.must_be_defined(active, [(guard.slot, 1)], step.instruction)
            narrowed = _narrowed(active, step.guard(chunk))
            if narrowed is None:
                return
            active = narrowed
        chunk.must_be_defined(active, step.sinks, step.instruction)

    def _do(self, step: Step, active: Active) -> None:
        chunk = self.chunk
        masks: dict[int, Array] = {}
        for slot, _ in step.sources:
            if slot in chunk.undefined or chunk.registers[slot] is None:
                masks = undefined.of_results(chunk, active, step)
                break
        step.run(chunk, active)
        if masks:
            chunk.mark(active, masks)

    def _control(self, step: Step, pc: int, active: Active, parted: bool) -> bool:
        """Do what is no plain instruction; whether those who did it go on together behind it."""
        chunk = self.chunk
        self.progress = self.progress or step.kind != "warp"
        match step.kind:
            case "branch":
                self.push(step.target, active.mask_array)
            case "jump":
                step.run(chunk, active)
                for target, mask in control.targets(chunk, active):
                    self.push(target, mask)
            case "exit":
                self._end(active)
            case "barrier":
                step.run(chunk, active)
                others = active.others or parted
                if not others and chunk.live is None and control.is_simple(step):
                    if chunk.shared is not None:
                        chunk.shared.barrier(None)
                    return True
                self.waiting.arrive(active, step, pc)
                for target, mask in self.waiting.released():
                    self.push(target, mask)
            case "warp":
                return self._warp(step, pc, active, parted)
        return False

    def _end(self, active: Active) -> None:
        chunk = self.chunk
        if active.mask is None:
            chunk.live = np.zeros(chunk.lanes, bool)
        else:
            chunk.live = (~active.mask) if chunk.live is None else chunk.live & ~active.mask
        self.progress = True

    def _warp(self, step: Step, pc: int, active: Active, parted: bool) -> bool:
        chunk = self.chunk
        ready = control.ready(chunk, active, step, [self.held.get(base + pc) for base, _ in self.classes])
        if ready is None:
            self.progress = True
            self._do(step, Active(chunk, active.mask, active.others or parted))
            if chunk.shared is not None:
                chunk.shared.warp_barrier(active)
            return True
        for base, members in self.classes:
            held = self.held.pop(base + pc, None)
            if held is not None:
                active = Active(chunk, active.mask_array | held, True)
            wait = active.mask_array & ~ready & members
            if wait.any():
                self.held[base + pc] = wait
        if ready.any():
            self.progress = True
            some = Active(chunk, ready, True)
            self._do(step, some)
            if chunk.shared is not None:
                chunk.shared.warp_barrier(some)
            self.push(pc + 1, ready)
        return False


def _narrowed(active: Active, predicate: Array) -> Active | None:
    """Those for whom a predicate holds; the same object where it holds for all, none where for nobody."""
    if predicate.size == 1:
        return active if predicate[0] else None
    mask = predicate if active.mask is None else predicate & active.mask
    count = int(np.count_nonzero(mask))
    if count == 0:
        return None
    if count == active.count:
        return active
    found = Active(active.chunk, mask, True)
    found._count = count
    return found
