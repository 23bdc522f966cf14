"""Undefined bits of registers, followed through instructions; `Chunk.undefined` says where they are.

An instruction that only moves bits is done to the masks of its operands as it is done to their values; one of logic
leaves undefined what an undefined bit could change. All other results are undefined as a whole where anything that the
instruction looks at is. Valgrind's memcheck follows memory that was never set by rules of this kind (Seward and
Nethercote, "Using Valgrind to detect undefined value errors with bit-precision", USENIX 2005).
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from trtprof.plugin.ptx.operands import DTYPES, MAKERS, UNSIGNED, Array, Get, Maker, Put, Run, Step, drop
from trtprof.plugin.ptx.parse import Negated, Operand, Register, Vector
from trtprof.plugin.ptx.state import Active, Chunk, every_bit


def of_results(chunk: Chunk, active: Active, step: Step) -> dict[int, Array]:
    """Before an instruction that reads undefined registers: which bits of its results will be; see `Chunk.mark`."""
    if step.follow is not None:
        return step.follow(chunk, active)
    return dict.fromkeys(step.results, chunk.undefined_in(step.sources))


def moves_bits(maker: Maker, *steering: int) -> None:
    """An instruction moves bits of its operands, but for the ``steering`` ones, which say where to."""
    if isinstance(maker, _Masks):
        return
    masks = _Masks(maker, steering)
    runs: list[Run] = []

    def follow(chunk: Chunk, active: Active) -> dict[int, Array]:
        if not runs:
            made = MAKERS[maker.instruction.opcode](masks)
            runs.append(made[1] if isinstance(made, tuple) else made)
        masks.found.clear()
        runs[0](chunk, active)
        lost = chunk.undefined_in(masks.plain.sources)
        return {slot: every_bit(one, one) | every_bit(lost, one) for slot, one in masks.found.items()}

    maker.follow = follow


def logic(maker: Maker, gets: list[Get], table: int) -> None:
    """An instruction computes each bit of its result of the same bit of its one to three operands.

    `table`: what becomes of all values of three operands, as ``lop3`` has it: of 0xF0, 0xCC and 0xAA.
    """
    inside = _Masks(maker, ())
    masks = [inside.get(place + 1, maker.type) for place in range(len(gets))]

    def follow(chunk: Chunk, _: Active) -> dict[int, Array]:
        # Where each operand can be 0, and where 1; and which results can come of that.
        pairs = [(get(chunk), mask(chunk)) for get, mask in zip(gets, masks, strict=True)]
        can = [(~value | mask, value | mask) for value, mask in pairs]
        results = [np.zeros(1, pairs[0][0].dtype)] * 2
        for term in range(8):
            which = table >> term & 1
            one = reduce(np.bitwise_and, [both[term >> 2 - place & 1] for place, both in enumerate(can)])
            results[which] = results[which] | one
        return dict.fromkeys(maker.results, results[0] & results[1])

    maker.follow = follow


class _Masks(Maker):
    """The instruction of another maker, done to undefined bits in place of values.

    Attributes:
        plain: What reads those operands that are values nevertheless.
        found: Undefined bits of its results by slot.
    """

    def __init__(self, maker: Maker, steering: tuple[int, ...]) -> None:
        super().__init__(maker.instruction, maker.program)
        self.plain = Maker(maker.instruction, maker.program)
        self.found: dict[int, Array] = {}
        self._steering = steering

    def get(self, place: int, kind: str, *, sink: bool = False, bits: int = 0) -> Get:
        if place in self._steering:
            return self.plain.get(place, kind)
        return super().get(place, kind, sink=sink, bits=bits)

    def source(self, operand: Operand, kind: str, *, sink: bool = False, bits: int = 0) -> Get:
        if isinstance(operand, Negated):
            operand = operand.register
        if isinstance(operand, Register | Vector):
            return super().source(operand, kind, sink=sink, bits=bits)
        defined = np.zeros(1, DTYPES[kind])
        return lambda _: defined

    def result(self, operand: Operand, kind: str, *, signed: bool | None = None) -> Put:
        # A predicate beside numbers is made of what steers them.
        return drop if kind == "pred" != self.type else super().result(operand, kind, signed=signed)

    def write(self, chunk: Chunk, active: Active, slot: int, value: Array) -> None:  # noqa: ARG002
        self.found[slot] = value

    def _register(self, slot: int, bits: int, dtype: np.dtype[Any], wanted: int) -> Get:
        narrow = UNSIGNED[wanted]
        return lambda chunk: chunk.mask(slot, bits).astype(narrow, copy=False).view(dtype)
