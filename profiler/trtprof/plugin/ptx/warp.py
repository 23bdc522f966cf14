"""What the threads of a warp do together: shuffles, votes, reductions."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from trtprof.plugin.ptx import undefined
from trtprof.plugin.ptx.control import ballot
from trtprof.plugin.ptx.operands import DTYPES, Array, Made, Maker, makes
from trtprof.plugin.ptx.parse import Pair
from trtprof.plugin.ptx.state import LANES, Active, Chunk


@makes("shfl")
def _shfl(maker: Maker) -> Made:
    if not maker.has("sync"):
        raise maker.unknown("shuffles that do not synchronise are gone")
    mode = next((one for one in maker.modifiers if one in ("up", "down", "bfly", "idx")), "")
    value, by, clamp = maker.get(1, "b32"), maker.get(2, "u32", sink=True), maker.get(3, "u32", sink=True)
    members = maker.get(4, "b32", sink=True)
    put = maker.put(0, "b32")
    target = maker.operand(0)
    inside = maker.result(target.second, "pred") if isinstance(target, Pair) else None
    instruction = maker.instruction
    undefined.moves_bits(maker, 2, 3, 4)

    def run(chunk: Chunk, active: Active) -> None:
        lane = chunk.special("%laneid").astype(np.int64)
        b, c = by(chunk).astype(np.int64) & 31, clamp(chunk).astype(np.int64)
        segment, limit = (c >> 8) & 31, c & 31
        lowest = lane & segment
        highest = lowest | (limit & ~segment)
        if mode == "up":
            source = lane - b
            fits = source >= highest
        else:
            source = {"down": lane + b, "bfly": lane ^ b, "idx": lowest | (b & ~segment)}[mode]
            fits = source <= highest
        source = np.where(fits, source, lane)
        place = np.arange(chunk.lanes) - lane + source
        of = np.broadcast_to(members(chunk), (chunk.lanes,)).astype(np.int64)
        there = (of >> source) & 1 != 0
        if active.mask is not None:
            there = there & active.mask[place]
        bad = ~there & active.mask_array
        if bad.any():
            which = int(np.argmax(bad))
            raise chunk.fault(
                "uninitialised", instruction, which, f"it reads from lane {int(source[which])}, which takes no part"
            )
        found = value(chunk)
        if inside is not None:
            inside(chunk, active, fits)
        put(chunk, active, found if found.size == 1 else found[place])

    return "warp", run, -1, members


def _by_members(active: Active, members: Array) -> Iterator[tuple[int, Array]]:
    """Groups of lanes that say the same of who takes part: that, and which lanes they are."""
    if members.size == 1:
        yield int(members[0]), active.mask_array
        return
    for one in np.unique(active.of(members)):
        yield int(one), active.mask_array & (members == one)


@makes("vote")
def _vote(maker: Maker) -> Made:
    mode = next((one for one in maker.modifiers if one in ("all", "any", "uni", "ballot")), "")
    predicate = maker.get(1, "pred", sink=True)
    members = maker.get(2, "b32", sink=True)
    put = maker.put(0, "b32" if mode == "ballot" else "pred")

    def run(chunk: Chunk, active: Active) -> None:
        value = np.broadcast_to(predicate(chunk), (chunk.lanes,))
        found = np.zeros(chunk.lanes, np.uint32 if mode == "ballot" else bool)
        for _, mask in _by_members(active, members(chunk)):
            yes, here = ballot(value & mask), ballot(mask)
            one: Array = {
                "ballot": yes, "any": yes != 0, "all": yes == here, "uni": (yes == 0) | (yes == here),
            }[mode]  # fmt: skip
            found = np.where(mask, np.repeat(one, LANES), found)
        put(chunk, active, found)

    return "warp", run, -1, members


@makes("activemask")
def _activemask(maker: Maker) -> Made:
    put = maker.put(0, "b32")
    return lambda chunk, active: put(chunk, active, np.repeat(ballot(active.mask_array), LANES))


@makes("elect")
def _elect(maker: Maker) -> Made:
    members = maker.get(1, "b32", sink=True)
    target = maker.operand(0)
    if not isinstance(target, Pair):
        raise maker.unknown()
    put, chosen = maker.result(target.first, "b32"), maker.result(target.second, "pred")

    def run(chunk: Chunk, active: Active) -> None:
        here = ballot(active.mask_array)
        low = here & (~here + np.uint32(1))
        lane = np.repeat(np.log2(np.maximum(low, 1).astype(np.float64)).astype(np.uint32), LANES)
        put(chunk, active, lane)
        chosen(chunk, active, lane == chunk.special("%laneid"))

    return "warp", run, -1, members


@makes("match")
def _match(maker: Maker) -> Made:
    kind = maker.type
    value, members = maker.get(1, kind, sink=True), maker.get(2, "b32", sink=True)
    put = maker.put(0, "b32")
    target = maker.operand(0)
    same = maker.result(target.second, "pred") if isinstance(target, Pair) else None
    every = maker.has("all")

    def run(chunk: Chunk, active: Active) -> None:
        values = np.broadcast_to(value(chunk), (chunk.lanes,)).reshape(-1, LANES)
        found = np.zeros(chunk.lanes, np.uint32)
        for _, mask in _by_members(active, members(chunk)):
            here = mask.reshape(-1, LANES)
            equal = (values[:, :, None] == values[:, None, :]) & here[:, None, :]
            bits = np.packbits(equal, axis=2, bitorder="little").view(np.uint32).reshape(-1)
            if every:
                bits = np.where(bits == np.repeat(ballot(mask), LANES), bits, np.uint32(0))
            found = np.where(mask, bits, found)
        put(chunk, active, found)
        if same is not None:
            same(chunk, active, found != 0)

    return "warp", run, -1, members


@makes("redux")
def _redux(maker: Maker) -> Made:
    kind = maker.type
    dtype = DTYPES[kind]
    mode = next((one for one in maker.modifiers if one in ("add", "min", "max", "and", "or", "xor")), "")
    if kind == "f32" or not mode:
        raise maker.unknown()
    value, members = maker.get(1, kind, sink=True), maker.get(2, "b32", sink=True)
    put = maker.put(0, kind)
    whole = np.iinfo(dtype)
    ways: dict[str, tuple[Callable[..., Array], int]] = {
        "add": (np.add.reduce, 0), "min": (np.minimum.reduce, int(whole.max)),
        "max": (np.maximum.reduce, int(whole.min)),
        "and": (np.bitwise_and.reduce, -1 if whole.min < 0 else int(whole.max)), "or": (np.bitwise_or.reduce, 0),
        "xor": (np.bitwise_xor.reduce, 0),
    }  # fmt: skip
    reduce, neutral = ways[mode]

    def run(chunk: Chunk, active: Active) -> None:
        values = np.broadcast_to(value(chunk), (chunk.lanes,))
        found = np.zeros(chunk.lanes, dtype)
        for _, mask in _by_members(active, members(chunk)):
            rows = np.where(mask, values, dtype.type(neutral)).reshape(-1, LANES)
            found = np.where(mask, np.repeat(reduce(rows, axis=1, dtype=dtype), LANES), found)
        put(chunk, active, found)

    return "warp", run, -1, members
