"""Operands of instructions, as functions that read and write registers of many lanes at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from trtprof.plugin.ptx.fault import Fault
from trtprof.plugin.ptx.parse import (
    BITS,
    Address,
    Immediate,
    Instruction,
    Label,
    Negated,
    Nothing,
    Operand,
    Pair,
    Program,
    Register,
    Special,
    Variable,
    Vector,
)
from trtprof.plugin.ptx.state import Active, Chunk, Look

Array = npt.NDArray[Any]
Get = Callable[[Chunk], Array]
Put = Callable[[Chunk, Active, Array], None]
Run = Callable[[Chunk, Active], None]
Follow = Callable[[Chunk, Active], dict[int, Array]]  # Undefined bits of the results by slot; see `Chunk.mark`

DTYPES: dict[str, np.dtype[Any]] = {
    "pred": np.dtype(np.bool_), "u8": np.dtype(np.uint8), "b8": np.dtype(np.uint8), "s8": np.dtype(np.int8),
    "u16": np.dtype(np.uint16), "b16": np.dtype(np.uint16), "s16": np.dtype(np.int16), "f16": np.dtype(np.float16),
    "bf16": np.dtype(np.uint16), "u32": np.dtype(np.uint32), "b32": np.dtype(np.uint32), "s32": np.dtype(np.int32),
    "f32": np.dtype(np.float32), "tf32": np.dtype(np.uint32), "f16x2": np.dtype(np.uint32),
    "bf16x2": np.dtype(np.uint32), "u64": np.dtype(np.uint64), "b64": np.dtype(np.uint64),
    "s64": np.dtype(np.int64), "f64": np.dtype(np.float64), "f32x2": np.dtype(np.uint64),
    "e4m3x2": np.dtype(np.uint16), "e5m2x2": np.dtype(np.uint16),
}  # fmt: skip
"""What each type of PTX is in numpy; formats that numpy lacks are their bits."""
UNSIGNED: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.bool_), 8: np.dtype(np.uint8), 16: np.dtype(np.uint16), 32: np.dtype(np.uint32),
    64: np.dtype(np.uint64),
}  # fmt: skip


class Maker:
    """One instruction, while it is made executable.

    Attributes:
        sources: Registers that it reads, by slot, and the bits of them that it looks at.
        sinks: Like `sources`, those that must be defined when it is executed.
        follow: What says which bits of its results are undefined; None is all where any that it looks at is.
    """

    def __init__(self, instruction: Instruction, program: Program) -> None:
        self.instruction = instruction
        self.program = program
        self.sources: list[Look] = []
        self.results: list[int] = []
        self.sinks: list[Look] = []
        self.follow: Follow | None = None

    @property
    def modifiers(self) -> tuple[str, ...]:
        return self.instruction.modifiers

    @property
    def types(self) -> list[str]:
        """Modifiers that are types, in their order."""
        return [one for one in self.instruction.modifiers if one in BITS]

    @property
    def type(self) -> str:
        """The last type."""
        if not self.types:
            raise self.unknown("has no type")
        return self.types[-1]

    def has(self, modifier: str) -> bool:
        return modifier in self.instruction.modifiers

    def operand(self, place: int) -> Operand:
        if place >= len(self.instruction.operands):
            raise self.unknown("has too few operands")
        return self.instruction.operands[place]

    def unknown(self, why: str = "is not known here") -> Fault:
        return Fault("unknown instruction", f"{self.instruction.text} ({why}) in {self.instruction.function.name}")

    def get(self, place: int, kind: str, *, sink: bool = False, bits: int = 0) -> Get:
        """What reads an operand as a type, and looks at some of its bits; 0 is at all."""
        return self.source(self.operand(place), kind, sink=sink, bits=bits)

    def source(self, operand: Operand, kind: str, *, sink: bool = False, bits: int = 0) -> Get:
        """What reads an operand as a type; see `get`."""
        dtype = DTYPES[kind]
        match operand:
            case Register(slot, have, _):
                (self.sinks if sink else self.sources).append((slot, bits or (1 << BITS[kind]) - 1))
                return self._register(slot, have, dtype, BITS[kind])
            case Negated(register):
                inner = self.source(register, "pred", sink=sink)
                return lambda chunk: ~inner(chunk)
            case Immediate():
                value = constant(operand, kind)
                return lambda _: value
            case Special(name):
                return lambda chunk: _as(chunk.special(name), dtype)
            case Variable() | Address(Variable(), _):
                variable, offset = (operand, 0) if isinstance(operand, Variable) else (operand.base, operand.offset)
                if not isinstance(variable, Variable):
                    raise self.unknown()
                return self.place_of(variable, offset, dtype)
            case Vector(items):
                return self._packed(items, kind, sink=sink)
        if isinstance(operand, Label) and operand.name == "WARP_SZ":
            return lambda _: np.array([32], dtype)
        raise self.unknown(f"an operand that is not known here: {getattr(operand, 'name', operand)}")

    def place_of(self, variable: Variable, offset: int, dtype: np.dtype[Any]) -> Get:
        """The address of a variable in its space."""
        if variable.space in ("shared", "local"):
            place = np.array([variable.offset + offset], np.int64).astype(dtype)
            return lambda _: place
        if variable.space == "param":
            raise self.unknown("the address of a parameter is not known here")
        return lambda chunk: np.array([chunk.launch.module[variable].start + offset], np.int64).astype(dtype)

    def _register(self, slot: int, bits: int, dtype: np.dtype[Any], wanted: int) -> Get:
        if bits == 1 or wanted == 1:
            if bits != wanted:
                raise self.unknown("a predicate is no number")

            def predicate(chunk: Chunk) -> Array:
                found = chunk.registers[slot]
                return chunk.value(slot, 1) if found is None else found

            return predicate
        if wanted > bits:
            raise self.unknown(f"a register of {bits} bits is too narrow")
        if wanted == bits:

            def same(chunk: Chunk) -> Array:
                found = chunk.registers[slot]
                if found is None:
                    found = chunk.value(slot, bits)
                return found if found.dtype is dtype or found.dtype == dtype else found.view(dtype)

            return same
        whole, narrow = UNSIGNED[bits], UNSIGNED[wanted]

        def low(chunk: Chunk) -> Array:
            return chunk.value(slot, bits).view(whole).astype(narrow).view(dtype)

        return low

    def _packed(self, items: tuple[Operand, ...], kind: str, *, sink: bool) -> Get:
        width = BITS[kind] // len(items)
        parts = [self.source(one, f"b{width}", sink=sink) for one in items]
        whole, dtype = UNSIGNED[BITS[kind]], DTYPES[kind]

        def get(chunk: Chunk) -> Array:
            found = parts[0](chunk).astype(whole)
            for place, part in enumerate(parts[1:], 1):
                found = found | (part(chunk).astype(whole) << whole.type(width * place))
            return found.view(dtype)

        return get

    def put(self, place: int, kind: str, *, signed: bool | None = None) -> Put:
        """What writes a result of a type to an operand; wider registers are extended by the sign that the type has."""
        return self.result(self.operand(place), kind, signed=signed)

    def result(self, operand: Operand, kind: str, *, signed: bool | None = None) -> Put:
        """What writes a result to an operand; see `put`."""
        match operand:
            case Nothing():
                return drop
            case Pair(first, _):
                return self.result(first, kind, signed=signed)
            case Vector(items):
                return self._unpacked(items, kind)
            case Register(slot, bits, _):
                self.results.append(slot)
                have, write = BITS[kind], self.write
                if have == bits:
                    return lambda chunk, active, value: write(chunk, active, slot, value)
                if have > bits or bits == 1 or have == 1:
                    raise self.unknown(f"a register of {bits} bits for a result of {have}")
                # Only loads and conversions write a type that is narrower than its register.
                extend = (kind[0] == "s") if signed is None else signed
                narrow = DTYPES[f"{'s' if extend else 'u'}{have}"]
                wide = DTYPES[f"{'s' if extend else 'u'}{bits}"]
                unsigned = UNSIGNED[bits]
                return lambda chunk, active, value: write(
                    chunk, active, slot, value.view(narrow).astype(wide).view(unsigned)
                )
        raise self.unknown("its result is no register")

    def write(self, chunk: Chunk, active: Active, slot: int, value: Array) -> None:
        """What results do."""
        chunk.put(active, slot, value)

    def _unpacked(self, items: tuple[Operand, ...], kind: str) -> Put:
        width = BITS[kind] // len(items)
        parts = [self.result(one, f"b{width}") for one in items]
        whole, part_type = UNSIGNED[BITS[kind]], UNSIGNED[width]

        def put(chunk: Chunk, active: Active, value: Array) -> None:
            bits = value.view(whole)
            for place, part in enumerate(parts):
                part(chunk, active, (bits >> whole.type(width * place)).astype(part_type))

        return put

    def predicate(self, operand: Operand) -> Get:
        """What reads a predicate whose value decides where a thread goes."""
        return self.source(operand, "pred", sink=True)


def items(operand: Operand) -> tuple[Operand, ...]:
    """Those in braces, or the one that stands alone."""
    return operand.items if isinstance(operand, Vector) else (operand,)


def drop(chunk: Chunk, active: Active, value: Array) -> None:
    """Keep nothing."""


def constant(operand: Immediate, kind: str) -> Array:
    """A number as an array of one element of a type."""
    dtype = DTYPES[kind]
    if kind == "pred":
        return np.array([operand.value != 0])
    bits = BITS[kind]
    value = operand.value
    if operand.width == 64 and bits == 32:
        return np.array([value], np.uint64).view(np.float64).astype(np.float32).view(dtype)
    if operand.width == 32 and bits == 64 and dtype.kind == "f":
        return np.array([value], np.uint32).view(np.float32).astype(dtype)
    if kind == "f64" and not operand.width:
        return np.array([value], dtype)
    return np.array([value & ((1 << bits) - 1)], UNSIGNED[bits]).view(dtype)


def _as(value: Array, dtype: np.dtype[Any]) -> Array:
    return value if value.dtype == dtype else value.astype(dtype)


class Step(NamedTuple):
    """An instruction that can be executed."""

    instruction: Instruction
    kind: str  # ``plain`` is done by `run` alone; others say what the scheduler does
    run: Run  # What it does to registers and memory
    guard: Get | None  # What reads its predicate, or none
    sources: tuple[Look, ...]  # See `Maker`
    results: tuple[int, ...]  # Likewise
    sinks: tuple[Look, ...]  # Likewise
    follow: Follow | None = None  # Likewise
    target: int = -1  # Where a branch goes
    members: Get | None = None  # Of instructions of a warp, what reads which lanes take part


Made = Run | tuple[str, Run] | tuple[str, Run, int] | tuple[str, Run, int, Get]
"""A plain step, or its kind with what it does, where it goes, and which lanes take part."""
MAKERS: dict[str, Callable[[Maker], Made]] = {}  # What makes each opcode executable


def makes(*opcodes: str) -> Callable[[Callable[[Maker], Made]], Callable[[Maker], Made]]:
    """Decorator that files what makes some opcodes executable."""

    def add(make: Callable[[Maker], Made]) -> Callable[[Maker], Made]:
        for one in opcodes:
            MAKERS[one] = make
        return make

    return add


def make(instruction: Instruction, program: Program) -> Step:
    """Make an instruction executable; one that is not known is a fault when it is executed."""
    maker = Maker(instruction, program)
    guard = None
    try:
        if instruction.guard is not None:
            guard = maker.predicate(instruction.guard)
            if instruction.negated:
                plain = guard
                guard = lambda chunk: ~plain(chunk)  # noqa: E731
        if instruction.opcode not in MAKERS:
            raise maker.unknown()
        made = MAKERS[instruction.opcode](maker)
    except Fault as error:
        fault = error

        def fail(chunk: Chunk, active: Active) -> None:
            raise Fault(fault.kind, f"{chunk.where(active.first)}: {str(fault).partition(': ')[2]}")

        return Step(instruction, "plain", fail, None, (), (), ())
    if not isinstance(made, tuple):
        made = ("plain", made)
    kind, run, *rest = made
    target = rest[0] if rest else -1
    members = rest[1] if len(rest) > 1 else None
    return Step(
        instruction, str(kind), run, guard, tuple(maker.sources), tuple(maker.results), tuple(maker.sinks),
        maker.follow, target if isinstance(target, int) else -1, members if callable(members) else None,
    )  # fmt: skip
