"""Loads, stores and asynchronous copies, of all spaces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from trtprof.plugin.ptx.control import param_bytes
from trtprof.plugin.ptx.memory import LOCAL, SHARED, VIEWS, Buffer
from trtprof.plugin.ptx.operands import DTYPES, UNSIGNED, Array, Get, Made, Maker, Run, items, makes
from trtprof.plugin.ptx.parse import BITS, Address, Immediate, Instruction, Operand, Register, Variable
from trtprof.plugin.ptx.shared import Shared
from trtprof.plugin.ptx.state import LANES, Active, Chunk

_SPACES = ("global", "shared", "local", "param", "const")
_STRONG = ("relaxed", "acquire", "release", "mmio")


def space_of(maker: Maker) -> str:
    """The space that a modifier names; ``generic`` where none does."""
    for one in maker.modifiers:
        if one.split("::")[0] in _SPACES:
            return one.split("::")[0]
    return "generic"


def address_of(maker: Maker, operand: Operand, space: str) -> Get:
    """What gives addresses as int64: of all memory, or offsets in a space of a block or thread."""
    if not isinstance(operand, Address):
        raise maker.unknown("an address was expected")
    base, offset = operand
    if isinstance(base, Variable):
        if base.space in ("shared", "local") and space == "generic":
            raise maker.unknown("a generic address of a variable of a space")
        return maker.place_of(base, offset, np.dtype(np.int64))
    if isinstance(base, Immediate):
        fixed = np.array([base.value + offset], np.int64)
        return lambda _: fixed
    get = maker.source(base, f"u{base.bits}", sink=True)
    if base.bits == 64:
        return lambda chunk: get(chunk).view(np.int64) + offset
    # Addresses of 32 bits wrap: compilers put up with a base below zero where the offset makes up for it.
    return lambda chunk: get(chunk).astype(np.int64) + offset & 0xFFFFFFFF


def by_space(active: Active, address: Array, space: str) -> Iterator[tuple[str, Active, Array]]:
    """Accesses by the space that their addresses are in; addresses of those that are active, or one for all."""
    if space != "generic":
        yield space, active, active.of(address)
        return
    mine = active.of(address)
    which = (mine >= SHARED).astype(np.int8) + (mine >= LOCAL)
    for number, name, window in ((0, "global", 0), (1, "shared", SHARED), (2, "local", LOCAL)):
        there = which == number
        if there.all():
            yield name, active, mine - window
            return
        if there.any():
            mask = np.zeros(active.chunk.lanes, bool)
            mask[active.index[there]] = True
            yield name, Active(active.chunk, mask, True), mine[there] - window


def buffer_of(chunk: Chunk, active: Active, address: Array, size: int, instruction: Instruction) -> Buffer | None:
    """The buffer that all addresses are in; none where they are in several."""
    if (address & (size - 1)).any():
        bad = int(np.argmax((address & (size - 1)) != 0))
        place = chunk.launch.memory.find(int(address[bad]))[1]
        raise chunk.fault(
            "misaligned", instruction, _lane(active, address, bad),
            f"{size} bytes at an address that is no multiple of {size} (0x{int(address[bad]):x}, {place})",
        )  # fmt: skip
    low, high = int(address.min()), int(address.max()) + size
    found = None
    for one in chunk.launch.buffers:
        if one.start <= low and high <= one.end:
            found = one
            break
    if found is None:
        fits = np.zeros(address.shape, bool)
        for one in chunk.launch.buffers:
            fits |= (address >= one.start) & (address + size <= one.end)
        if not fits.all():
            bad = int(np.argmin(fits))
            place = chunk.launch.memory.find(int(address[bad]))[1]
            raise chunk.fault("out of bounds", instruction, _lane(active, address, bad), f"{size} bytes at {place}")
    return found


def _lane(active: Active, address: Array, which: int) -> int:
    return int(active.index[which]) if address.size > 1 else active.first


def pieces(
    chunk: Chunk, active: Active, address: Array, size: int, instruction: Instruction
) -> Iterator[tuple[Buffer, Array | None, Array]]:
    """Accesses by the buffer that they are in: the buffer, which accesses (none: all), their addresses."""
    whole = buffer_of(chunk, active, address, size, instruction)
    if whole is not None:
        yield whole, None, address
        return
    for one in chunk.launch.buffers:
        there = (address >= one.start) & (address < one.end)
        if there.any():
            where = np.flatnonzero(there)
            yield one, where, address[where]


def load_global(chunk: Chunk, active: Active, address: Array, size: int, instruction: Instruction) -> Array:
    """Bytes of global memory: one row for each address."""
    unit = min(size, 16)
    found = np.empty((address.size, size // unit), VIEWS[unit])
    for buffer, where, mine in pieces(chunk, active, address, size, instruction):
        offsets = mine - buffer.origin
        cells = buffer.cells(unit)
        for part in range(size // unit):
            place = offsets // unit + part
            values = cells[place]
            if buffer.written is not None:
                known = np.ascontiguousarray(buffer.cells(unit, written=True)[place]).view(np.uint8)
                if not known.all():
                    bad = int(np.argmin(known.reshape(mine.size, -1).all(1)))
                    lane = _lane(active, address, bad if where is None else int(where[bad]))
                    raise chunk.fault(
                        "uninitialised", instruction, lane,
                        f"it reads what nobody wrote, {int(mine[bad]) - buffer.start} bytes into {buffer.name}",
                    )  # fmt: skip
            if where is None and size == unit:
                found = values.reshape(-1, 1)
            else:
                found[slice(None) if where is None else where, part] = values
        count_global(chunk, active, buffer, offsets, where, address.size, size, False)
    return found


def count_global(
    chunk: Chunk, active: Active, buffer: Buffer, offsets: Array, where: Array | None, all_of: int, size: int,
    written: bool,
) -> None:  # fmt: skip
    """Count one instruction: of ``all_of`` addresses those that are in one buffer."""
    counter = chunk.launch.counter
    if all_of == 1 and active.count != 1:
        counter.uniform_access(buffer, int(offsets[0]), active.warps, size, written)
        return
    index = active.index if where is None else active.index[where]
    counter.global_access(buffer, offsets, index >> 5, size, written)


def store_global(
    chunk: Chunk, active: Active, address: Array, size: int, values: Array, instruction: Instruction, *,
    atomic: bool = False,
) -> None:  # fmt: skip
    """Write bytes of global memory: a row of ``values`` for each active lane."""
    if address.size != active.count:
        address = np.broadcast_to(address, (active.count,))
    unit = min(size, 16)
    for buffer, where, mine in pieces(chunk, active, address, size, instruction):
        if not buffer.writable:
            lane = int(active.index[0 if where is None else where[0]])
            raise chunk.fault(
                "read-only", instruction, lane, f"it writes {buffer.name}, {int(mine[0]) - buffer.start} bytes into it"
            )
        offsets = mine - buffer.origin
        rows = values if where is None else values[where]
        lanes = active.index if where is None else active.index[where]
        # Each place once, in rising order: the usual case, in which no two lanes of the instruction collide.
        rising = bool((offsets[1:] > offsets[:-1]).all())
        for part in range(size // unit):
            place = offsets // unit + part
            content = buffer.cells(unit)
            _race(chunk, buffer, lanes, place, unit, rows[:, part], instruction, atomic=atomic)
            content[place] = rows[:, part]
            if not rising and not atomic:
                kept = np.ascontiguousarray(content[place]).view(np.uint8).reshape(lanes.size, -1)
                wrong = (kept != np.ascontiguousarray(rows[:, part]).view(np.uint8).reshape(lanes.size, -1)).any(1)
                if wrong.any():
                    bad = int(np.argmax(wrong))
                    raise chunk.fault(
                        "race", instruction, int(lanes[bad]),
                        "another thread writes another value to the same place, "
                        f"{int(mine[bad]) - buffer.start} bytes into {buffer.name}",
                    )  # fmt: skip
            if buffer.written is not None:
                buffer.cells(unit, written=True)[place] = _ones(unit)
        count_global(chunk, active, buffer, offsets, where, address.size, size, True)


def _ones(unit: int) -> Any:
    return np.full(unit, 1, np.uint8).view(VIEWS[unit])[0]


def _race(
    chunk: Chunk, buffer: Buffer, lanes: Array, place: Array, unit: int, values: Array, instruction: Instruction, *,
    atomic: bool,
) -> None:  # fmt: skip
    """Blocks that write one place one after the other with different values; nothing orders blocks."""
    cell = min(chunk.launch.cell, unit)
    writers = chunk.launch.writers.get(buffer.name)
    if writers is None:
        writers = np.zeros(buffer.bytes.size // cell, np.int32)
        chunk.launch.writers[buffer.name] = writers
    parts = unit // cell
    rows = writers[: writers.size // parts * parts].reshape(-1, parts)
    me = (chunk.blocks[lanes // chunk.padded] + 1).astype(np.int32)
    if atomic:
        rows[place] = -1
        return
    old = rows[place]
    if old.any():
        wrong = (old > 0) & (old != me[:, None])
        if wrong.any():
            before = np.ascontiguousarray(buffer.cells(unit)[place]).view(VIEWS[cell]).reshape(-1, parts)
            wrong &= before != np.ascontiguousarray(values).view(VIEWS[cell]).reshape(-1, parts)
        if wrong.any():
            bad, part = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
            away = int(place[bad]) * unit + buffer.origin - buffer.start
            raise chunk.fault(
                "race", instruction, int(lanes[bad]),
                f"block {int(old[bad, part]) - 1} wrote another value to the same place, "
                f"{away} bytes into {buffer.name}",
            )  # fmt: skip
    rows[place] = me[:, None]


# Shared and local memory.
def shared_of(chunk: Chunk, instruction: Instruction, active: Active) -> Shared:
    """Shared memory, of which there may be none."""
    if chunk.shared is None:
        raise chunk.fault("out of bounds", instruction, active.first, "there is no shared memory")
    return chunk.shared


def count_shared(chunk: Chunk, lanes: Array, offsets: Array, size: int) -> None:
    """Count the conflicts of one instruction."""
    chunk.launch.counter.shared_access(offsets, lanes >> 5, lanes & (LANES - 1), size)


def each(active: Active, address: Array) -> Array:
    """An address for each active lane."""
    return np.broadcast_to(address, (active.count,)) if address.size != active.count else address


def load_shared(
    chunk: Chunk, active: Active, address: Array, size: int, instruction: Instruction, strong: bool
) -> Array:
    """Bytes of shared memory, a row for each active lane."""
    memory = shared_of(chunk, instruction, active)
    offsets, lanes = each(active, address), active.index
    count_shared(chunk, lanes, offsets, size)
    return memory.read(lanes, offsets, size, instruction, atomic=strong).reshape(-1, 1)


def _local(chunk: Chunk, active: Active, address: Array, size: int, instruction: Instruction) -> tuple[Array, Array]:
    """Local memory in cells of that size, and where accesses are."""
    room = -(-chunk.launch.program.local_bytes // 16) * 16
    if chunk.local is None:
        chunk.local = np.full(room * chunk.lanes, 0xFF, np.uint8)
    offsets = each(active, address)
    bad = (offsets < 0) | (offsets + size > chunk.launch.program.local_bytes)
    if bad.any():
        lane = int(active.index[int(np.argmax(bad))])
        raise chunk.fault(
            "out of bounds", instruction, lane, f"{size} bytes at {int(offsets[np.argmax(bad)])} of local memory"
        )
    if (offsets & (size - 1)).any():
        lane = int(active.index[int(np.argmax((offsets & (size - 1)) != 0))])
        raise chunk.fault("misaligned", instruction, lane, f"{size} bytes of local memory")
    return chunk.local.view(VIEWS[size]), (active.index * room + offsets) // size


def _kinds(maker: Maker, operand: Operand) -> tuple[str, tuple[Operand, ...], int, int]:
    """The type, the registers, bytes of one and of all."""
    kind = maker.type
    registers = items(operand)
    size = BITS[kind] // 8
    total = size * len(registers)
    if total not in (1, 2, 4, 8, 16, 32):
        raise maker.unknown()
    return kind, registers, size, total


@makes("ld", "ldu")
def _ld(maker: Maker) -> Made:
    space = space_of(maker)
    if space == "param":
        return _ld_param(maker)
    instruction = maker.instruction
    kind, registers, size, total = _kinds(maker, maker.operand(0))
    puts = [maker.result(one, kind) for one in registers]
    address = address_of(maker, maker.operand(1), space)
    strong = any(maker.has(one) for one in _STRONG)
    dtype, view = DTYPES[kind], VIEWS[size]
    only = space if space != "const" else "global"

    def fetch(chunk: Chunk, name: str, some: Active, mine: Array) -> Array:
        if name == "global":
            return load_global(chunk, some, mine, total, instruction)
        if name == "shared":
            return load_shared(chunk, some, mine, total, instruction, strong)
        cells, place = _local(chunk, some, mine, min(total, 16), instruction)
        return cells[place].reshape(-1, 1)

    def run(chunk: Chunk, active: Active) -> None:
        for name, some, mine in by_space(active, address(chunk), only):
            rows = np.ascontiguousarray(fetch(chunk, name, some, mine)).view(view).reshape(-1, len(puts))
            part = Active(chunk, some.mask, active.others or some is not active)
            for place, put in enumerate(puts):
                put(chunk, part, part.back(rows[:, place].view(dtype)))

    return run


def _entry_param(maker: Maker, variable: Variable) -> bool:
    return (
        variable in maker.instruction.function.parameters and maker.instruction.function.name in maker.program.entries
    )


def _ld_param(maker: Maker) -> Made:
    operand = maker.operand(1)
    kind, registers, size, _ = _kinds(maker, maker.operand(0))
    puts = [maker.result(one, kind) for one in registers]
    if not isinstance(operand, Address) or not isinstance(operand.base, Variable):
        raise maker.unknown("parameters are read by their names only")
    variable, offset = operand.base, operand.offset
    dtype = DTYPES[kind]
    known = _entry_param(maker, variable)

    def run(chunk: Chunk, active: Active) -> None:
        for place, put in enumerate(puts):
            first = offset + place * size
            if known:
                put(chunk, active, chunk.launch.arguments[variable.number][first : first + size].copy().view(dtype))
            else:
                raw = np.ascontiguousarray(param_bytes(chunk, variable)[:, first : first + size])
                put(chunk, active, raw.view(dtype).reshape(-1))

    return run


@makes("st")
def _st(maker: Maker) -> Made:
    space = space_of(maker)
    instruction = maker.instruction
    kind, registers, size, total = _kinds(maker, maker.operand(1))
    gets = [maker.source(one, kind, sink=True) for one in registers]
    if space == "param":
        return _st_param(maker, gets, size)
    address = address_of(maker, maker.operand(0), space)
    strong = any(maker.has(one) for one in _STRONG)
    view, unit = UNSIGNED[8 * size], min(total, 16)

    def run(chunk: Chunk, active: Active) -> None:
        values = [get(chunk).view(view) for get in gets]
        for name, some, mine in by_space(active, address(chunk), space):
            if len(values) == 1:
                rows = np.ascontiguousarray(some.spread(values[0])).reshape(-1, 1)
            else:
                rows = np.empty((some.count, len(values)), view)
                for place, one in enumerate(values):
                    rows[:, place] = some.of(one)
                rows = rows.view(VIEWS[unit])
            if name == "global":
                store_global(chunk, some, mine, total, rows, instruction, atomic=strong)
            elif name == "shared":
                offsets = each(some, mine)
                count_shared(chunk, some.index, offsets, total)
                shared_of(chunk, instruction, some).write(
                    some.index, offsets, total, rows[:, 0], instruction, atomic=strong
                )
            else:
                cells, place_of = _local(chunk, some, mine, unit, instruction)
                cells[place_of] = rows[:, 0]

    return run


def _st_param(maker: Maker, gets: list[Get], size: int) -> Made:
    operand = maker.operand(0)
    if not isinstance(operand, Address) or not isinstance(operand.base, Variable):
        raise maker.unknown("parameters are written by their names only")
    variable, offset = operand.base, operand.offset
    # What is passed on may be what nobody uses.
    maker.sources += maker.sinks
    maker.sinks.clear()

    def run(chunk: Chunk, active: Active) -> None:
        room = param_bytes(chunk, variable)
        for place, get in enumerate(gets):
            raw = np.ascontiguousarray(active.spread(get(chunk))).view(np.uint8).reshape(active.count, size)
            first = offset + place * size
            room[active.index, first : first + size] = raw

    return run


def some(active: Active, which: Array) -> Active:
    """Some of the active lanes, by their places among them."""
    mask = np.zeros(active.chunk.lanes, bool)
    mask[active.index[which]] = True
    return Active(active.chunk, mask, True)


# Asynchronous copies: what is read is read at once, and is there when somebody has waited for it.
@makes("cp")
def _cp(maker: Maker) -> Made:
    if not maker.has("async") or maker.has("bulk"):
        raise maker.unknown()
    if maker.has("commit_group"):
        return _commit
    if maker.has("wait_all"):
        return lambda chunk, active: _arrived(chunk, active, -1)
    if maker.has("wait_group"):
        count = maker.operand(0)
        if not isinstance(count, Immediate):
            raise maker.unknown()
        return lambda chunk, active: _arrived(chunk, active, count.value)
    if maker.has("mbarrier"):
        raise maker.unknown()
    return _cp_async(maker)


def _cp_async(maker: Maker) -> Run:
    size_operand = maker.operand(2)
    if not isinstance(size_operand, Immediate) or size_operand.value not in (4, 8, 16):
        raise maker.unknown()
    size = size_operand.value
    target = address_of(maker, maker.operand(0), "shared")
    source = address_of(maker, maker.operand(1), "global")
    operands = maker.instruction.operands
    less: Get | None = None
    ignore: Get | None = None
    if len(operands) > 3 and not any("cache_hint" in one for one in maker.modifiers):
        third = operands[3]
        if isinstance(third, Register) and third.bits == 1:
            ignore = maker.predicate(third)
        else:
            less = maker.source(third, "u32", sink=True)
    instruction = maker.instruction

    def run(chunk: Chunk, active: Active) -> None:
        memory = shared_of(chunk, instruction, active)
        offsets = np.array(each(active, active.of(target(chunk))))
        memory.copy_begins(active.index, offsets, size, instruction)
        count_shared(chunk, active.index, offsets, size)
        wanted = np.full(active.count, size, np.int64)
        if less is not None:
            wanted = np.array(active.spread(less(chunk)).astype(np.int64))
        if ignore is not None:
            wanted[np.array(active.spread(ignore(chunk)))] = 0
        rows = np.zeros((active.count, size), np.uint8)
        addresses = each(active, active.of(source(chunk)))
        # Bytes that are not asked for are zero, and where they would be may be anything.
        for amount in np.unique(wanted):
            if amount == 0:
                continue
            which = np.flatnonzero(wanted == amount)
            lanes = some(active, which)
            if amount == size:
                raw = load_global(chunk, lanes, addresses[which], size, instruction)
                rows[which] = np.ascontiguousarray(raw).view(np.uint8).reshape(which.size, size)
                continue
            for byte in range(int(amount)):
                raw = load_global(chunk, lanes, addresses[which] + byte, 1, instruction)
                rows[which, byte] = raw.reshape(-1)
        values = rows.view(VIEWS[size]).reshape(-1)
        chunk.copies.append((active.index, offsets, values, size, _commits(chunk)[active.index].copy()))
        chunk.copy_instructions.append(instruction)

    return run


def _commits(chunk: Chunk) -> Array:
    if chunk.commits is None:
        chunk.commits = np.zeros(chunk.lanes, np.int64)
    return chunk.commits


def _commit(chunk: Chunk, active: Active) -> None:
    _commits(chunk)[active.index] += 1


def _arrived(chunk: Chunk, active: Active, pending: int) -> None:
    """Copies of some lanes are there: those of all groups but the last ``pending``; of all copies where that is -1."""
    commits = _commits(chunk)
    kept, instructions = [], []
    for (lanes, offsets, values, size, number), instruction in zip(chunk.copies, chunk.copy_instructions, strict=True):
        mine = active.mask_array[lanes]
        if pending >= 0:
            mine = mine & (number < commits[lanes] - pending)
        if mine.any() and chunk.shared is not None:
            chunk.shared.write(lanes[mine], offsets[mine], size, values[mine], instruction)
        if not mine.all():
            rest = ~mine
            kept.append((lanes[rest], offsets[rest], values[rest], size, number[rest]))
            instructions.append(instruction)
    chunk.copies, chunk.copy_instructions = kept, instructions
