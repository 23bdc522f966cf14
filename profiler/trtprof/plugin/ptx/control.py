"""Branches, calls, barriers, and who waits for whom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from trtprof.plugin.ptx.fault import Fault
from trtprof.plugin.ptx.operands import Array, Made, Maker, Step, makes
from trtprof.plugin.ptx.parse import Immediate, Label, Operand, Program, Register, Variable, Vector
from trtprof.plugin.ptx.state import LANES, Active, Chunk

_WHERE = -1  # Slot of `Chunk.params` where a jump leaves the places that its lanes go to


def _nothing(chunk: Chunk, active: Active) -> None:
    """What needs no doing: the scheduler does it, or it changes no value."""


def _target(maker: Maker, operand: Operand) -> int:
    if not isinstance(operand, Label):
        raise maker.unknown("its target is no label")
    instruction = maker.instruction
    return maker.program.target(instruction.function, instruction.scope, operand.name)


@makes("bra")
def _bra(maker: Maker) -> Made:
    return "branch", _nothing, _target(maker, maker.operand(0))


@makes("brx")
def _brx(maker: Maker) -> Made:
    index = maker.get(0, "u32", sink=True)
    names = maker.operand(1)
    function = maker.instruction.function
    if not isinstance(names, Label) or names.name not in function.lists:
        raise maker.unknown("its list of targets is not known")
    targets = np.array([_target(maker, Label(one)) for one in function.lists[names.name]])

    def run(chunk: Chunk, active: Active) -> None:
        found = index(chunk).astype(np.int64)
        bad = active.spread(found) >= targets.size
        if bad.any():
            lane = int(active.index[int(np.argmax(bad))])
            raise chunk.fault("out of bounds", maker.instruction, lane, f"it has {targets.size} targets only")
        chunk.params[_WHERE] = targets[np.minimum(found, targets.size - 1)]

    return "jump", run


@makes("ret")
def _ret(maker: Maker) -> Made:
    function = maker.instruction.function
    if function.name in maker.program.entries:
        return "exit", _nothing
    slot = function.back.slot
    maker.sinks.append((slot, (1 << 64) - 1))

    def run(chunk: Chunk, _: Active) -> None:
        chunk.params[_WHERE] = chunk.value(slot, 64).astype(np.int64)

    return "jump", run


@makes("exit")
def _exit(_: Maker) -> Made:
    return "exit", _nothing


@makes("trap")
def _trap(maker: Maker) -> Made:
    def run(chunk: Chunk, active: Active) -> None:
        raise chunk.fault("launch", maker.instruction, active.first, "the kernel gave up")

    return run


@makes(
    "membar", "fence", "nanosleep", "pmevent", "brkpt", "prefetch", "prefetchu", "griddepcontrol", "discard",
    "applypriority", "setmaxnreg",
)  # fmt: skip
def _hint(_: Maker) -> Made:
    return _nothing


@makes("createpolicy")
def _policy(maker: Maker) -> Made:
    put = maker.put(0, "b64")
    return lambda chunk, active: put(chunk, active, np.zeros(1, np.uint64))


@makes("call")
def _call(maker: Maker) -> Made:
    # call (results), function, (arguments);  The instruction after it is where the function returns to.
    operands = list(maker.instruction.operands)
    results = operands.pop(0).items if isinstance(operands[0], Vector) else ()  # type: ignore[union-attr]
    name = operands.pop(0)
    given = operands.pop(0).items if operands and isinstance(operands[0], Vector) else ()  # type: ignore[union-attr]
    function = maker.program.functions.get(name.name) if isinstance(name, Label) else None
    if function is None or function.start < 0:
        raise maker.unknown("the function that it calls is not in this text")
    slot = function.back.slot
    taken = list(zip(function.parameters, given, strict=True))
    # Results are the same bytes as those that the function writes: it returns before they are read.
    shared = list(zip(function.results, results, strict=True))
    back = maker.program.code.index(maker.instruction) + 1

    def run(chunk: Chunk, active: Active) -> None:
        inside, stack = maker.instruction.function, function
        if inside is stack:
            raise chunk.fault("unknown instruction", maker.instruction, active.first, "recursion is not known here")
        chunk.put(active, slot, np.array([back], np.uint64))
        for formal, actual in taken:
            if isinstance(actual, Variable):
                _copy(chunk, active, actual, formal)
        for formal, actual in shared:
            if isinstance(actual, Variable):
                chunk.params.setdefault(-2 - actual.number, np.array([formal.number]))
        chunk.params[_WHERE] = np.array([function.start])

    return "jump", run


def param_bytes(chunk: Chunk, variable: Variable) -> Array:
    """Bytes of a parameter of a call, lanes by bytes; a result of a call is where the function writes it."""
    alias = chunk.params.get(-2 - variable.number)
    number = int(alias[0]) if alias is not None else variable.number
    if number not in chunk.params:
        chunk.params[number] = np.zeros((chunk.lanes, -(-variable.nbytes // 8) * 8), np.uint8)
    return chunk.params[number]


def _copy(chunk: Chunk, active: Active, source: Variable, target: Variable) -> None:
    whole, room = param_bytes(chunk, source), param_bytes(chunk, target)
    index = active.index
    width = min(whole.shape[1], room.shape[1])
    room[index, :width] = whole[index, :width]


def targets(chunk: Chunk, active: Active) -> Iterator[tuple[int, Array]]:
    """Where the lanes of a jump go."""
    where = chunk.params.pop(_WHERE)
    if where.size == 1:
        yield int(where[0]), active.mask_array
        return
    for place in np.unique(active.of(where)):
        yield int(place), active.mask_array & (where == place)


# Barriers of blocks.
@makes("bar", "barrier")
def _bar(maker: Maker) -> Made:
    modifiers = maker.modifiers
    if "cluster" in modifiers:
        raise maker.unknown("clusters are not known here")
    if "warp" in modifiers:
        return "warp", _nothing, -1, maker.get(0, "b32", sink=True)
    if "arrive" in modifiers:
        raise maker.unknown("a barrier that is not waited at is not known here")
    place = 0
    if "red" in modifiers:
        place = 1
        operand = maker.operand(len(maker.instruction.operands) - 1)
        maker.predicate(operand)
        maker.put(0, "pred" if "pred" in modifiers else "u32")
    number = maker.operand(place)
    if isinstance(number, Register):
        maker.get(place, "u32", sink=True)
    return "barrier", _nothing


def is_simple(step: Step) -> bool:
    """Whether a barrier is that of all threads, and computes nothing."""
    return (
        "red" not in step.instruction.modifiers
        and len(step.instruction.operands) == 1
        and isinstance(step.instruction.operands[0], Immediate)
    )


class Waiting:
    """Lanes that wait at barriers of their blocks."""

    def __init__(self, chunk: Chunk) -> None:
        self.chunk = chunk
        self.any = False
        self.barrier = np.full(chunk.lanes, -1, np.int8)
        self.place = np.zeros(chunk.lanes, np.int32)
        self.wanted = np.zeros(chunk.lanes, np.int32)
        self.steps: dict[int, Step] = {}

    def arrive(self, active: Active, step: Step, pc: int) -> None:
        """Lanes wait from now on."""
        chunk, index = self.chunk, active.index
        first = 1 if "red" in step.instruction.modifiers else 0
        operands = step.instruction.operands[first:]
        if first:
            operands = operands[:-1]
        number = active.of(_value(chunk, operands[0]))
        if number.size and int(number.max()) > 15:
            raise chunk.fault("launch", step.instruction, active.first, "there are 16 barriers only")
        threads = _value(chunk, operands[1]) if len(operands) > 1 else np.array([chunk.threads])
        if (active.of(threads) % LANES != 0).any() and len(operands) > 1:
            raise chunk.fault("divergent barrier", step.instruction, active.first, "it wants part of a warp")
        self.barrier[index] = number
        self.place[index] = pc
        self.wanted[index] = active.of(threads)
        self.steps[pc] = step
        self.any = True

    def released(self) -> list[tuple[int, Array]]:
        """Lanes whose barrier is complete, and where they go on."""
        chunk = self.chunk
        found: list[tuple[int, Array]] = []
        per_block = self.barrier.reshape(-1, chunk.padded)
        for number in np.unique(self.barrier):
            if number < 0:
                continue
            there = per_block == number
            arrived = there.sum(1)
            wanted = np.where(there, self.wanted.reshape(-1, chunk.padded), 0).max(1)
            complete = (arrived > 0) & (arrived >= wanted)
            if not complete.any():
                continue
            mask = (there & complete[:, None]).reshape(-1)
            self._one_place_a_warp(mask)
            if chunk.shared is not None:
                chunk.shared.barrier(complete)
            for pc in np.unique(self.place[mask]):
                mine = mask & (self.place == pc)
                step = self.steps[int(pc)]
                if "red" in step.instruction.modifiers:
                    self._reduce(step, mask, mine)
                found.append((int(pc) + 1, mine))
            self.barrier[mask] = -1
        self.any = bool((self.barrier >= 0).any())
        return found

    def _one_place_a_warp(self, mask: Array) -> None:
        """A barrier is one instruction for all of a warp."""
        places = np.where(mask, self.place, -1).reshape(-1, LANES)
        highest = places.max(1)
        differ = (places != highest[:, None]) & (places >= 0)
        if differ.any():
            lane = int(np.argmax(differ.reshape(-1)))
            step = self.steps[int(self.place[lane])]
            raise self.chunk.fault(
                "divergent barrier", step.instruction, lane, "other threads of its warp wait at another barrier"
            )

    def _reduce(self, step: Step, mask: Array, mine: Array) -> None:
        chunk = self.chunk
        operands = step.instruction.operands
        last = operands[-1]
        value = chunk.value(last.slot, 1) if isinstance(last, Register) else ~chunk.value(last.register.slot, 1)  # type: ignore[union-attr]
        value = np.broadcast_to(value, (chunk.lanes,))
        yes = (value & mask).reshape(-1, chunk.padded).sum(1)
        if "popc" in step.instruction.modifiers:
            one: Array = yes.astype(np.uint32)
        elif "and" in step.instruction.modifiers:
            one = yes == mask.reshape(-1, chunk.padded).sum(1)
        else:
            one = yes > 0
        target = operands[0]
        if isinstance(target, Register):
            active = Active(chunk, mine, True)
            chunk.put(active, target.slot, np.repeat(one, chunk.padded))

    def stuck(self, program: Program) -> None:
        """Nobody can go on: whoever still waits, waits for ever."""
        if not self.any:
            return
        chunk = self.chunk
        lane = int(np.argmax(self.barrier >= 0))
        block = lane // chunk.padded
        waits = (self.barrier.reshape(-1, chunk.padded)[block] == self.barrier[lane]).sum()
        instruction = program.code[int(self.place[lane])]
        raise chunk.fault(
            "divergent barrier", instruction, lane,
            f"it waits with {waits} threads for {self.wanted[lane]}: the others have ended, or wait elsewhere",
        )  # fmt: skip


def _value(chunk: Chunk, operand: Operand) -> Array:
    if isinstance(operand, Immediate):
        return np.array([operand.value])
    if isinstance(operand, Register):
        return chunk.value(operand.slot, operand.bits).astype(np.int64)
    raise Fault("unknown instruction", "a barrier of this form is not known here")


# Instructions of warps.
def ready(chunk: Chunk, active: Active, step: Step, held: Sequence[Array | None]) -> Array | None:
    """Lanes whose whole warp has come to an instruction; none where that is all of those that are active."""
    members = step.members(chunk) if step.members is not None else np.array([0xFFFFFFFF], np.uint32)
    if active.mask is None and members.size == 1 and int(members[0]) == 0xFFFFFFFF:
        return None
    arrived = active.mask_array
    for one in held:
        if one is not None:
            arrived = arrived | one
    waits = arrived is not active.mask and active.mask is not None
    here = ballot(arrived)
    alive = np.full(here.shape, 0xFFFFFFFF, np.uint32) if chunk.live is None else ballot(chunk.live)
    each = np.broadcast_to(members.astype(np.uint32), (chunk.lanes,)).reshape(-1, LANES)
    own = (each >> np.arange(LANES, dtype=np.uint32)) & np.uint32(1)
    stray = (own == 0).reshape(-1) & arrived
    if stray.any():
        lane = int(np.argmax(stray))
        raise chunk.fault(
            "divergent barrier", step.instruction, lane, "the thread is none of those that it says take part"
        )
    missing = each & alive[:, None] & ~here[:, None]
    complete: Array = (missing == 0).reshape(-1) & arrived
    if not waits and bool((complete == arrived).all()):
        return None
    return complete


def ballot(mask: Array) -> Array:
    """A word for each warp: a bit for each lane, the lowest first."""
    return np.packbits(mask.reshape(-1, LANES), axis=1, bitorder="little").view(np.uint32).reshape(-1)
