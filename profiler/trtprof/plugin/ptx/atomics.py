"""Atomics of global and shared memory: threads that want the same place come one after the other, the lowest first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from trtprof.plugin.ptx import access, rounding
from trtprof.plugin.ptx.fault import Fault
from trtprof.plugin.ptx.operands import DTYPES, UNSIGNED, Array, Get, Made, Maker, items, makes
from trtprof.plugin.ptx.parse import BITS, Instruction, Nothing
from trtprof.plugin.ptx.state import Active, Chunk

_COMBINE: dict[str, Callable[[Array, Array], Any]] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "exch": lambda _, new: new,
    "inc": lambda old, most: np.where(old >= most, old.dtype.type(0), old + old.dtype.type(1)),
    "dec": lambda old, most: np.where((old == 0) | (old > most), most, old - old.dtype.type(1)),
}


class _Operation(NamedTuple):
    """What an atomic does."""

    name: str  # ``add``, ..., ``cas``
    kind: str  # Its type
    combine: Callable[[Array, Array], Any] | None  # What becomes of what was there and what is given; none of ``cas``
    returns: bool  # Whether somebody wants what was there
    instruction: Instruction  # For messages


def _combine_of(maker: Maker, operation: str, kind: str) -> Callable[[Array, Array], Any]:
    if operation not in _COMBINE:
        raise maker.unknown()
    apply = _COMBINE[operation]
    if kind in ("f16", "bf16", "f16x2", "bf16x2") and operation in ("add", "min", "max"):
        part = kind.removesuffix("x2")

        def halves(old: Array, new: Array) -> Array:
            both = [np.ascontiguousarray(one).view(np.uint16) for one in (old, new)]
            wide = apply(rounding.widen(both[0], part), rounding.widen(both[1], part))
            return rounding.narrow(wide, part).view(DTYPES[kind])

        return halves
    return apply


@makes("atom", "red")
def _atom(maker: Maker) -> Made:
    name = next((one for one in maker.modifiers if one in _COMBINE or one == "cas"), "")
    kind = maker.type
    returns = maker.instruction.opcode == "atom"
    first = 1 if returns else 0
    space = access.space_of(maker)
    address = access.address_of(maker, maker.operand(first), space)
    operand = maker.operand(first + 1)
    gets: list[Get] = [maker.source(one, kind, sink=True) for one in items(operand)]
    swap = maker.get(first + 2, kind, sink=True) if name == "cas" else None
    target = maker.operand(0)
    returns = returns and not isinstance(target, Nothing)
    results = []
    if returns:
        results = [maker.result(one, kind) for one in items(target)]
    combine = None if name == "cas" else _combine_of(maker, name, kind)
    operation = _Operation(name, kind, combine, returns, maker.instruction)
    size = BITS[kind] // 8

    def run(chunk: Chunk, active: Active) -> None:
        for where, some, mine in access.by_space(active, address(chunk), space):
            part = Active(chunk, some.mask, active.others or some is not active)
            for place, get in enumerate(gets):
                values = np.ascontiguousarray(some.spread(get(chunk)))
                swaps = None if swap is None else np.ascontiguousarray(some.spread(swap(chunk)))
                old = _atomic(operation, some, where, access.each(some, mine) + place * size, values, swaps)
                if results:
                    results[place](chunk, part, part.back(old))

    return run


def _atomic(
    operation: _Operation, active: Active, space: str, address: Array, values: Array, swaps: Array | None
) -> Array:
    """Read, change and write; what each lane finds there."""
    chunk, instruction, size = active.chunk, operation.instruction, BITS[operation.kind] // 8
    if space not in ("global", "shared"):
        raise Fault("unknown instruction", f"{instruction.text}: atomics of local memory")
    key = address
    if space == "shared":
        access.count_shared(chunk, active.index, address, size)
        memory = access.shared_of(chunk, instruction, active)
        key = memory.update(active.index, address, size, instruction)
    # Lanes by place, and within a place in their order; each place is read and written once.
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    lanes = order[first]
    if space == "shared":
        before = memory.cells(size)[key[lanes]]
        found, after = _in_order(operation, before, first, values[order], None if swaps is None else swaps[order])
        memory.cells(size)[key[lanes]] = after
    else:
        one_each = np.sort(lanes)
        some = access.some(active, one_each)
        # One request each way of each warp, however many of its lanes want the same.
        requested = list(chunk.launch.counter.requested)
        raw = np.empty(address.size, UNSIGNED[8 * size])
        raw[one_each] = access.load_global(chunk, some, address[one_each], size, instruction).reshape(-1)
        found, after = _in_order(operation, raw[lanes], first, values[order], None if swaps is None else swaps[order])
        raw[lanes] = after
        rows = raw[one_each].reshape(-1, 1)
        access.store_global(chunk, some, address[one_each], size, rows, instruction, atomic=True)
        chunk.launch.counter.requested[:] = requested
        for buffer, where, mine in access.pieces(chunk, active, address, size, instruction):
            offsets = mine - buffer.origin
            access.count_global(chunk, active, buffer, offsets, where, address.size, size, True)
            if operation.returns:
                access.count_global(chunk, active, buffer, offsets, where, address.size, size, False)
    back = np.empty_like(found)
    back[order] = found
    return back


def _in_order(
    operation: _Operation, bits: Array, first: Array, values: Array, swaps: Array | None
) -> tuple[Array, Array]:
    """What lanes find, and what is left. `swaps`: of ``cas``, what it puts there where it finds its value."""
    dtype, unsigned = DTYPES[operation.kind], bits.dtype
    state = bits.view(dtype)
    ends = np.append(first[1:], values.size)
    sizes = ends - first
    turns = int(sizes.max())
    found = np.empty(values.size, dtype)
    ufunc = operation.combine if isinstance(operation.combine, np.ufunc) else None
    if turns == 1 or turns <= first.size or (ufunc is None and operation.name not in ("cas", "exch")):
        state = state.copy()
        for turn in range(turns):
            places = np.flatnonzero(sizes > turn)
            mine = first[places] + turn
            old = state[places]
            found[mine] = old
            if swaps is not None:
                same = old.view(unsigned) == values[mine].view(unsigned)
                state[places] = np.where(same, swaps[mine], old)
            elif operation.combine is not None:
                state[places] = operation.combine(old, values[mine])
        return found, state.view(unsigned)
    # Many lanes want few places: place by place, each from its first lane to its last.
    last = state.copy()
    for place, (begin, end) in enumerate(zip(first.tolist(), ends.tolist(), strict=True)):
        if ufunc is not None:
            steps = ufunc.accumulate(np.concatenate([state[place : place + 1], values[begin:end]]), dtype=dtype)
            found[begin:end], last[place] = steps[:-1], steps[-1]
        elif swaps is None:
            found[begin] = state[place]
            found[begin + 1 : end] = values[begin : end - 1]
            last[place] = values[end - 1]
        else:
            now = int(state[place : place + 1].view(unsigned)[0])
            wanted, given = values[begin:end].view(unsigned).tolist(), swaps[begin:end].view(unsigned).tolist()
            seen = []
            for want, give in zip(wanted, given, strict=True):
                seen.append(now)
                if now == want:
                    now = give
            found[begin:end] = np.array(seen, unsigned).view(dtype)
            last[place] = np.array([now], unsigned).view(dtype)[0]
    return found, last.view(unsigned)
