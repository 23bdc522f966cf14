"""Matrix products of warps (``mma``), and loads of the matrices that they take.

A product of 16-bit floats is summed in float64 and rounded once; tensor cores keep fewer bits between, so that what is
computed here is nearer to the truth than a GPU by a few units of the last place of the largest term.
"""

from __future__ import annotations

import re

import numpy as np

from trtprof.plugin.ptx import access, rounding
from trtprof.plugin.ptx.operands import DTYPES, Array, Get, Made, Maker, items, makes
from trtprof.plugin.ptx.state import LANES, Active, Chunk

_PER_REGISTER = {"f16": 2, "bf16": 2, "tf32": 1, "s8": 4, "u8": 4}
_SHAPES = {"f16": (8, 16), "bf16": (8, 16), "tf32": (4, 8), "s8": (16, 32), "u8": (16, 32)}


def _elements(register: Array, kind: str) -> Array:
    """The numbers in a register of each lane: lanes by elements, float64."""
    raw = np.ascontiguousarray(register)
    if kind == "tf32":
        return (raw & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64).reshape(-1, 1)
    if kind in ("s8", "u8"):
        return raw.view(DTYPES[kind]).astype(np.float64).reshape(-1, 4)
    return rounding.widen(raw.view(np.uint16), kind).reshape(-1, 2)


@makes("mma")
def _mma(maker: Maker) -> Made:
    shape = next((re.fullmatch(r"m16n8k(\d+)", one) for one in maker.modifiers if one.startswith("m16n8k")), None)
    types = [one for one in maker.modifiers if one in DTYPES or one == "tf32"]
    if shape is None or len(types) != 4 or maker.has("sp") or maker.has("satfinite"):
        raise maker.unknown()
    result, left, right, addend = types
    depth = int(shape[1])
    if left not in _SHAPES or depth not in _SHAPES[left] or result != addend or result not in ("f32", "f16", "s32"):
        raise maker.unknown()
    if right != left and not {left, right} <= {"s8", "u8"}:
        raise maker.unknown()
    a = [maker.source(one, "b32") for one in items(maker.operand(1))]
    b = [maker.source(one, "b32") for one in items(maker.operand(2))]
    c = [maker.source(one, "b32") for one in items(maker.operand(3))]
    puts = [maker.result(one, "b32") for one in items(maker.operand(0))]
    instruction = maker.instruction
    per = _PER_REGISTER[left]
    lane = np.arange(LANES)
    group, within = lane >> 2, lane & 3

    def fragment(chunk: Chunk, gets: list[Get], kind: str) -> list[Array]:
        found = []
        for get in gets:
            register = np.broadcast_to(get(chunk), (chunk.lanes,))
            found.append(_elements(register, kind).reshape(-1, LANES, per))
        return found

    def run(chunk: Chunk, active: Active) -> None:
        _whole_warps(chunk, active, instruction)
        warps = chunk.all_warps
        rows, columns = np.zeros((warps, 16, depth)), np.zeros((warps, depth, 8))
        for place, values in enumerate(fragment(chunk, a, left)):
            for element in range(per):
                column = place // 2 * 4 * per + within * per + element
                rows[:, group + 8 * (place % 2), column] = values[:, :, element]
        for place, values in enumerate(fragment(chunk, b, right)):
            for element in range(per):
                columns[:, place * 4 * per + within * per + element, group] = values[:, :, element]
        total = rows @ columns
        for place, get in enumerate(c):
            register = np.ascontiguousarray(np.broadcast_to(get(chunk), (chunk.lanes,)))
            if result == "f16":
                values = rounding.widen(register.view(np.uint16), "f16").reshape(-1, LANES, 2)
                for element in range(2):
                    total[:, group + 8 * place, 2 * within + element] += values[:, :, element]
            else:
                wide = register.view(DTYPES[result]).astype(np.float64).reshape(-1, LANES)
                total[:, group + 8 * (place // 2), 2 * within + place % 2] += wide
        for place, put in enumerate(puts):
            if result == "f16":
                pair = np.stack(
                    [total[:, group + 8 * place, 2 * within + element] for element in range(2)], axis=2
                ).reshape(-1)
                put(chunk, active, rounding.narrow(pair, "f16").view(np.uint32))
                continue
            one = np.ascontiguousarray(total[:, group + 8 * (place // 2), 2 * within + place % 2]).reshape(-1)
            if result == "s32":
                put(chunk, active, one.astype(np.int64).astype(np.uint32))
            else:
                put(chunk, active, rounding.narrow(one, "f32"))

    return "warp", run, -1, lambda _: np.array([0xFFFFFFFF], np.uint32)


def _whole_warps(chunk: Chunk, active: Active, instruction: object) -> None:
    if active.mask is None:
        return
    each = active.mask.reshape(-1, LANES)
    part = each.any(1) & ~each.all(1)
    if part.any():
        warp = int(np.argmax(part))
        lane = warp * LANES + int(np.argmin(each[warp]))
        raise chunk.fault("divergent barrier", instruction, lane, "it takes a whole warp")  # type: ignore[arg-type]


@makes("ldmatrix")
def _ldmatrix(maker: Maker) -> Made:
    if not maker.has("m8n8") or not maker.has("b16"):
        raise maker.unknown()
    puts = [maker.result(one, "b32") for one in items(maker.operand(0))]
    address = access.address_of(maker, maker.operand(1), "shared")
    transposed = maker.has("trans")
    instruction = maker.instruction
    count = len(puts)
    lane = np.arange(LANES)

    def run(chunk: Chunk, active: Active) -> None:
        _whole_warps(chunk, active, instruction)
        mine = chunk.special("%laneid") < 8 * count
        asks = Active(chunk, mine & active.mask_array, True)
        offsets = np.array(asks.spread(address(chunk)))
        raw = access.load_shared(chunk, asks, offsets, 16, instruction, False)
        halves = np.ascontiguousarray(raw).view(np.uint16).reshape(-1, count, 8, 8)
        warps = np.unique(asks.index // LANES)
        for place, put in enumerate(puts):
            matrix = halves[:, place]
            if transposed:
                matrix = matrix.transpose(0, 2, 1)
            low, high = (matrix[:, lane >> 2, 2 * (lane & 3) + half].astype(np.uint32) for half in range(2))
            found = np.zeros((chunk.all_warps, LANES), np.uint32)
            found[warps] = low | (high << np.uint32(16))
            put(chunk, active, found.reshape(-1))

    return "warp", run, -1, lambda _: np.array([0xFFFFFFFF], np.uint32)
