"""Arithmetic, logic and comparisons, as the PTX ISA describes each in its chapter "Instruction Set".

Functions that GPUs approximate (``.approx``: rcp, rsqrt, sqrt, ex2, lg2, sin, cos, tanh, div) are computed in float64
and rounded once: their error on a GPU is what NVIDIA documents (2 ulp of division, 1 of rcp, 2 of ex2 and rsqrt, ...)
and is not imitated here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trtprof.plugin.ptx import rounding, undefined
from trtprof.plugin.ptx.operands import DTYPES, UNSIGNED, Array, Get, Maker, Run, makes
from trtprof.plugin.ptx.parse import BITS, Immediate, Nothing, Pair, Register
from trtprof.plugin.ptx.state import Active, Chunk

HALVES = {"f16": "f16", "bf16": "bf16", "f16x2": "f16", "bf16x2": "bf16", "f32x2": "f32"}
"""What float types are made of, where fp32 and fp64 are not what they are."""
MODES = ("rn", "rz", "rm", "rp")
Apply = Callable[..., Any]


def _gets(maker: Maker, kind: str, count: int) -> list[Get]:
    return [maker.get(place + 1, kind) for place in range(count)]


def _run(maker: Maker, kind: str, gets: list[Get], apply: Apply, *, result: str = "") -> Run:
    put = maker.put(0, result or kind)
    if len(gets) == 1:
        (one,) = gets
        return lambda chunk, active: put(chunk, active, apply(one(chunk)))
    if len(gets) == 2:
        a, b = gets
        return lambda chunk, active: put(chunk, active, apply(a(chunk), b(chunk)))
    if len(gets) == 3:
        x, y, z = gets
        return lambda chunk, active: put(chunk, active, apply(x(chunk), y(chunk), z(chunk)))
    return lambda chunk, active: put(chunk, active, apply(*(get(chunk) for get in gets)))


def _mode(maker: Maker) -> str:
    return next((one for one in maker.modifiers if one in MODES), "rn")


# Floats of each width: a function of exact or rounded-to-odd float64.
def float_result(maker: Maker, kind: str) -> Callable[[Array], Array]:
    """What rounds a float64 to a type, with the modifiers of an instruction, to the bits of the type."""
    mode, ftz, saturate, relu = _mode(maker), maker.has("ftz"), maker.has("sat"), maker.has("relu")
    bits = DTYPES[kind]

    def finish(value: Array) -> Any:
        if saturate:
            value = np.where(np.isnan(value), 0.0, np.clip(value, 0.0, 1.0))
        if relu:
            value = np.where(value > 0, value, np.where(np.isnan(value), value, 0.0))
        found = rounding.narrow(np.ascontiguousarray(value), kind, mode).view(bits)
        return rounding.flush(found) if ftz and kind in ("f16", "f32") else found

    return finish


def _in_float64(maker: Maker, kind: str, count: int, apply: Apply) -> Run:
    """An operation of one or two halves (``f16x2``), of fp32 with a rounding, or anything that float64 computes."""
    part = HALVES.get(kind, kind)
    finish = float_result(maker, part)
    dtype = DTYPES[part]
    ftz = maker.has("ftz") and part in ("f16", "f32")
    gets = _gets(maker, kind, count)

    def whole(*values: Array) -> Any:
        typed = [one.view(dtype) for one in values]
        wide = [rounding.widen(rounding.flush(one) if ftz else one, part) for one in typed]
        return finish(apply(*wide))

    if not kind.endswith("x2"):
        return _run(maker, kind, gets, whole)
    unsigned: Any = np.uint32 if kind == "f32x2" else np.uint16
    wide_type: Any = np.uint64 if kind == "f32x2" else np.uint32
    width = 32 if kind == "f32x2" else 16

    def both(*values: Array) -> Any:
        found: list[Array] = []
        for place in (0, width):
            halves = [(one.view(wide_type) >> wide_type(place)).astype(unsigned) for one in values]
            found.append(whole(*halves).view(unsigned).astype(wide_type))
        low, high = found
        return low | (high << wide_type(width))

    return _run(maker, kind, gets, both)


def _sum(mode: str) -> Apply:
    """What adds two float64, rounded to odd."""

    def add(a: Array, b: Array) -> Any:
        left, right = np.broadcast_arrays(a, b)
        found = rounding.odd_sum(left, right)
        if mode == "rm":
            # What cancels is -0 where rounding is downwards.
            return np.where((found == 0) & (np.signbit(left) | np.signbit(right)), -0.0, found)
        return found

    return add


def _float(maker: Maker, apply: Apply, count: int, plain: Apply | None = None) -> Run:
    """Float arithmetic.

    `plain`: what numpy rounds once in the type itself, to nearest; ``apply`` where there is none.
    """
    kind = maker.type
    nearest = _mode(maker) == "rn"
    if kind in ("f32", "f64") and nearest and not maker.has("relu") and plain is not None:
        ftz, saturate = maker.has("ftz") and kind == "f32", maker.has("sat")

        def single(*values: Array) -> Any:
            found = plain(*(map(rounding.flush, values) if ftz else values))
            if ftz:
                found = rounding.flush(found)
            if saturate:
                found = np.where(np.isnan(found), found.dtype.type(0), np.clip(found, 0, 1))
            return found

        return _run(maker, kind, _gets(maker, kind, count), single if ftz or saturate else plain)
    if kind == "f64" and not nearest:
        raise maker.unknown("fp64 is rounded to nearest only, here")
    return _in_float64(maker, kind, count, apply)


def _is_float(kind: str) -> bool:
    return kind in HALVES or kind in ("f32", "f64", "f32x2")


@makes("add", "sub")
def _add(maker: Maker) -> Run:
    kind = maker.type
    minus = maker.instruction.opcode == "sub"
    if _is_float(kind):
        total = _sum(_mode(maker))
        if minus:
            return _float(maker, lambda a, b: total(a, -b), 2, np.subtract)
        return _float(maker, total, 2, np.add)
    if kind in ("u16x2", "s16x2"):
        raise maker.unknown()
    gets = _gets(maker, kind, 2)
    if maker.has("cc"):
        return _with_carry(maker, gets, kind, subtract=minus, take=False)
    if maker.has("sat"):
        return _run(maker, kind, gets, lambda a, b: _clip32(a.astype(np.int64) + (-1 if minus else 1) * b))
    return _run(maker, kind, gets, np.subtract if minus else np.add)


@makes("addc", "subc")
def _addc(maker: Maker) -> Run:
    return _with_carry(
        maker, _gets(maker, maker.type, 2), maker.type, subtract=maker.instruction.opcode == "subc", take=True
    )


def _with_carry(maker: Maker, gets: list[Get], kind: str, *, subtract: bool, take: bool) -> Run:
    put = maker.put(0, kind)
    unsigned = UNSIGNED[BITS[kind]]
    # The condition code is a register behind those that have names.
    code = Register(maker.program.registers, 1, "CC.CF")
    taken = maker.source(code if take else Immediate(0), "pred")
    give = maker.result(code if maker.has("cc") else Nothing(), "pred")

    def run(chunk: Chunk, active: Active) -> None:
        a, b = (get(chunk).view(unsigned) for get in gets)
        carry = taken(chunk).astype(unsigned)
        if subtract:
            found = a - b - carry
            out = (a < b) | ((a == b) & (carry != 0))
        else:
            found = a + b + carry
            out = (found < a) | ((found == a) & (carry != 0))
        put(chunk, active, found.view(DTYPES[kind]))
        give(chunk, active, out)

    return run


def _clip32(value: Array) -> Any:
    return np.clip(value, -(1 << 31), (1 << 31) - 1).astype(np.int32)


_WIDE = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}


def _high(a: Array, b: Array, kind: str) -> Any:
    """The upper half of a product."""
    if kind in _WIDE:
        wide = DTYPES[_WIDE[kind]]
        return (a.astype(wide) * b.astype(wide) >> wide.type(BITS[kind])).astype(DTYPES[kind])
    u, v = a.view(np.uint64), b.view(np.uint64)
    low, thirty_two = np.uint64(0xFFFFFFFF), np.uint64(32)
    u0, u1, v0, v1 = u & low, u >> thirty_two, v & low, v >> thirty_two
    middle = u1 * v0 + (u0 * v0 >> thirty_two)
    other = u0 * v1 + (middle & low)
    found = u1 * v1 + (middle >> thirty_two) + (other >> thirty_two)
    if kind == "s64":
        found = found - np.where(a < 0, v, np.uint64(0)) - np.where(b < 0, u, np.uint64(0))
    return found.view(DTYPES[kind])


def _product(maker: Maker, kind: str) -> tuple[Apply, str]:
    """What multiplies two integers, and the type of the result."""
    if maker.has("wide"):
        wide = DTYPES[_WIDE[kind]]
        return lambda a, b: np.multiply(a, b, dtype=wide), _WIDE[kind]
    if maker.has("hi"):
        return lambda a, b: _high(a, b, kind), kind
    return np.multiply, kind


@makes("mul")
def _mul(maker: Maker) -> Run:
    kind = maker.type
    if _is_float(kind):
        return _float(maker, lambda a, b: a * b, 2, np.multiply)
    apply, result = _product(maker, kind)
    return _run(maker, kind, _gets(maker, kind, 2), apply, result=result)


@makes("mad", "fma")
def _mad(maker: Maker) -> Run:
    kind = maker.type
    if _is_float(kind):
        plain = rounding.fma32 if kind == "f32" else rounding.fma64
        total = _sum(_mode(maker))
        # Products of fp32 and narrower are exact in float64.
        return _float(maker, lambda a, b, c: total(a * b, c), 3, plain)
    apply, result = _product(maker, kind)
    a, b, c = maker.get(1, kind), maker.get(2, kind), maker.get(3, result)
    put = maker.put(0, result)
    if maker.has("cc"):
        raise maker.unknown()
    if maker.has("sat"):
        return lambda chunk, active: put(chunk, active, _clip32(apply(a(chunk), b(chunk)).astype(np.int64) + c(chunk)))
    return lambda chunk, active: put(chunk, active, apply(a(chunk), b(chunk)) + c(chunk))


@makes("mul24", "mad24")
def _mul24(maker: Maker) -> Run:
    kind = maker.type
    wide = np.dtype(np.int64)
    high = maker.has("hi")

    def low24(value: Array) -> Any:
        short = value.astype(wide) & 0xFFFFFF
        return np.where((short >> 23 != 0) & (kind == "s32"), short - (1 << 24), short)

    def apply(a: Array, b: Array, c: Array | None = None) -> Any:
        found = low24(a) * low24(b)
        found = (found >> 16) if high else found
        return (found if c is None else found + c.astype(wide)).astype(DTYPES[kind])

    return _run(maker, kind, _gets(maker, kind, 2 if maker.instruction.opcode == "mul24" else 3), apply)


@makes("div")
def _div(maker: Maker) -> Run:
    kind = maker.type
    if kind == "f64":
        return _float(maker, np.divide, 2, np.divide)
    if kind == "f32":
        # A quotient of two fp32 is no closer to half-way than float64 can tell.
        return _float(maker, np.divide, 2, np.divide)

    def apply(a: Array, b: Array) -> Any:
        safe = np.where(b == 0, b.dtype.type(1), b)
        if b.dtype.kind == "i":
            found = np.floor_divide(a, np.where(safe == -1, b.dtype.type(1), safe))
            found = found + ((found < 0) & (found * safe != a)).astype(b.dtype)
            found = np.where(safe == -1, np.negative(a), found)
        else:
            found = a // safe
        return np.where(b == 0, ~b.dtype.type(0), found)

    return _run(maker, kind, _gets(maker, kind, 2), apply)


@makes("rem")
def _rem(maker: Maker) -> Run:
    kind = maker.type

    def apply(a: Array, b: Array) -> Any:
        safe = np.where((b == 0) | ((b == -1) & (b.dtype.kind == "i")), b.dtype.type(1), b)
        return np.where(b == 0, a, np.fmod(a, safe))

    return _run(maker, kind, _gets(maker, kind, 2), apply)


@makes("neg", "abs")
def _sign(maker: Maker) -> Run:
    kind = maker.type
    gets = _gets(maker, kind, 1)
    absolute = maker.instruction.opcode == "abs"
    if _is_float(kind):
        width = BITS[HALVES.get(kind, kind)]
        unsigned = UNSIGNED[BITS[kind]]
        sign = sum(1 << place for place in range(width - 1, BITS[kind], width))
        keep, flip = unsigned.type((1 << BITS[kind]) - 1 - sign), unsigned.type(sign)
        ftz = maker.has("ftz") and kind == "f32"

        def bits(a: Array) -> Any:
            raw = (rounding.flush(a) if ftz else a).view(unsigned)
            return (raw & keep if absolute else raw ^ flip).view(DTYPES[kind])

        return _run(maker, kind, gets, bits)
    return _run(maker, kind, gets, np.abs if absolute else np.negative)


@makes("min", "max")
def _extreme(maker: Maker) -> Run:
    kind = maker.type
    least = maker.instruction.opcode == "min"
    count = len(maker.instruction.operands) - 1
    if not _is_float(kind):
        apply = np.minimum if least else np.maximum
        if maker.has("relu"):
            return _run(maker, kind, _gets(maker, kind, 2), lambda a, b: np.maximum(apply(a, b), a.dtype.type(0)))
        return _run(maker, kind, _gets(maker, kind, 2), apply)
    if maker.has("xorsign") or maker.has("abs"):
        raise maker.unknown()
    nan = maker.has("NaN")

    def two(a: Array, b: Array) -> Any:
        # -0 is less than +0.
        first = (a < b) | ((a == b) & np.signbit(a)) if least else (a > b) | ((a == b) & ~np.signbit(a))
        found = np.where(first, a, b)
        a_nan, b_nan = np.isnan(a), np.isnan(b)
        if nan:
            return np.where(a_nan | b_nan, np.array(np.nan, a.dtype), found)
        return np.where(b_nan, np.where(a_nan, np.array(np.nan, a.dtype), a), np.where(a_nan, b, found))

    def all_of(*values: Array) -> Any:
        found = values[0]
        for one in values[1:]:
            found = two(found, one)
        return found

    return _float(maker, all_of, count, all_of)


@makes("sqrt", "rsqrt", "rcp", "ex2", "lg2", "sin", "cos", "tanh")
def _function(maker: Maker) -> Run:
    functions: dict[str, Apply] = {
        "sqrt": np.sqrt,
        "rsqrt": lambda a: 1.0 / np.sqrt(a),
        "rcp": lambda a: 1.0 / a,
        "ex2": np.exp2,
        "lg2": np.log2,
        "sin": np.sin,
        "cos": np.cos,
        "tanh": np.tanh,
    }
    opcode = maker.instruction.opcode
    apply = functions[opcode]
    # np.sqrt and 1 / a of float32 are rounded once; of the others float64 is far better than their documented error.
    plain: Apply | None = {"sqrt": np.sqrt, "rcp": np.reciprocal}.get(opcode)
    if maker.type == "f64":
        plain = apply
    return _float(maker, apply, 1, plain)


@makes("copysign")
def _copysign(maker: Maker) -> Run:
    # The first operand gives the sign.
    kind = maker.type
    return _run(maker, kind, _gets(maker, kind, 2), lambda a, b: np.copysign(b, a))


@makes("testp")
def _testp(maker: Maker) -> Run:
    kind = maker.type
    tiny = np.finfo(DTYPES[kind]).tiny
    tests: dict[str, Apply] = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda a: ~np.isnan(a),
        "notanumber": np.isnan,
        "normal": lambda a: np.isfinite(a) & (np.abs(a) >= tiny),
        "subnormal": lambda a: (a != 0) & (np.abs(a) < tiny),
    }
    return _run(maker, kind, _gets(maker, kind, 1), tests[maker.modifiers[0]], result="pred")


# Logic and bits.
@makes("and", "or", "xor")
def _logic(maker: Maker) -> Run:
    apply, table = {"and": (np.bitwise_and, 0xC0), "or": (np.bitwise_or, 0xFC), "xor": (np.bitwise_xor, 0x3C)}[
        maker.instruction.opcode
    ]
    gets = _gets(maker, maker.type, 2)
    undefined.logic(maker, gets, table)
    return _run(maker, maker.type, gets, apply)


@makes("not")
def _not(maker: Maker) -> Run:
    gets = _gets(maker, maker.type, 1)
    undefined.logic(maker, gets, 0x0F)
    return _run(maker, maker.type, gets, np.invert)


@makes("cnot")
def _cnot(maker: Maker) -> Run:
    return _run(maker, maker.type, _gets(maker, maker.type, 1), lambda a: (a == 0).astype(a.dtype))


@makes("shl", "shr")
def _shift(maker: Maker) -> Run:
    kind = maker.type
    bits = BITS[kind]
    left = maker.instruction.opcode == "shl"
    value, by = maker.get(1, kind), maker.get(2, "u32")
    undefined.moves_bits(maker, 2)

    def apply(a: Array, b: Array) -> Any:
        most = np.minimum(b, np.uint32(bits - 1)).astype(a.dtype)
        found = a << most if left else a >> most
        if b.size == 1 and b[0] < bits:
            return found
        out = a >> a.dtype.type(bits - 1) if not left and a.dtype.kind == "i" else a.dtype.type(0)
        return np.where(b >= bits, out, found)

    return _run(maker, kind, [value, by], apply)


@makes("shf")
def _funnel(maker: Maker) -> Run:
    left, wrap = maker.has("l"), maker.has("wrap")
    undefined.moves_bits(maker, 3)

    def apply(a: Array, b: Array, c: Array) -> Any:
        by = (c & np.uint32(31) if wrap else np.minimum(c, np.uint32(32))).astype(np.uint64)
        both = (b.astype(np.uint64) << np.uint64(32)) | a
        if left:
            return ((both << by) >> np.uint64(32)).astype(np.uint32)
        return (both >> by).astype(np.uint32)

    return _run(maker, "b32", [*_gets(maker, "b32", 2), maker.get(3, "u32")], apply)


def _low_bits(length: Array, unsigned: np.dtype[Any]) -> Array:
    """Numbers whose lowest ``length`` bits are set, of a type; all where it has no more."""
    bits = 8 * unsigned.itemsize
    some = (unsigned.type(1) << np.minimum(length, bits - 1).astype(unsigned)) - unsigned.type(1)
    found: Array = np.where(length >= bits, ~unsigned.type(0), some)
    return found


@makes("bfe")
def _extract(maker: Maker) -> Run:
    kind = maker.type
    bits = BITS[kind]
    unsigned = UNSIGNED[bits]
    undefined.moves_bits(maker, 2, 3)

    def apply(a: Array, b: Array, c: Array) -> Any:
        place, length = (b & np.uint32(255)).astype(np.int64), (c & np.uint32(255)).astype(np.int64)
        raw = a.view(unsigned)
        shifted = np.where(place < bits, raw >> np.minimum(place, bits - 1).astype(unsigned), unsigned.type(0))
        mask = _low_bits(length, unsigned)
        found = shifted & mask
        if kind[0] == "s":
            last = np.minimum(place + length - 1, bits - 1)
            sign = (raw >> np.maximum(last, 0).astype(unsigned)) & unsigned.type(1)
            # Bits that are beyond the number, and those above the field, are those of the sign.
            kept = np.minimum(np.maximum(bits - place, 0), length)
            found = np.where((sign != 0) & (length > 0), found | ~_low_bits(kept, unsigned), found)
        return found.view(DTYPES[kind])

    return _run(maker, kind, [maker.get(1, kind), maker.get(2, "u32"), maker.get(3, "u32")], apply)


@makes("bfi")
def _insert(maker: Maker) -> Run:
    kind = maker.type
    bits = BITS[kind]
    unsigned = UNSIGNED[bits]
    undefined.moves_bits(maker, 3, 4)

    def apply(a: Array, b: Array, c: Array, d: Array) -> Any:
        place, length = (c & np.uint32(255)).astype(np.int64), (d & np.uint32(255)).astype(np.int64)
        mask = _low_bits(length, unsigned)
        by = np.minimum(place, bits - 1).astype(unsigned)
        mask = np.where(place < bits, mask << by, unsigned.type(0))
        return (b & ~mask) | ((a << by) & mask)

    return _run(maker, kind, [*_gets(maker, kind, 2), maker.get(3, "u32"), maker.get(4, "u32")], apply)


@makes("prmt")
def _permute(maker: Maker) -> Run:
    mode = next((one for one in maker.modifiers if one != "b32"), "")
    tables: dict[str, Callable[[int], list[int]]] = {
        "f4e": lambda n: [n, n + 1, n + 2, n + 3],
        "b4e": lambda n: [n, (n - 1) & 7, (n - 2) & 7, (n - 3) & 7],
        "rc8": lambda n: [n] * 4,
        "ecl": lambda n: [0 if n < 1 else n, max(n, 1), max(n, 2), 3],
        "ecr": lambda n: [0, min(n, 1), min(n, 2), n],
        "rc16": lambda n: [0, 1, 0, 1] if n % 2 == 0 else [2, 3, 2, 3],
    }
    table = np.array([tables[mode](n) for n in range(4)]) if mode else None
    undefined.moves_bits(maker, 3)

    def apply(a: Array, b: Array, c: Array) -> Any:
        both = (b.astype(np.uint64) << np.uint64(32)) | a
        found: Array = np.zeros(1, np.uint32)
        for place in range(4):
            if table is None:
                select = (c >> np.uint32(4 * place)) & np.uint32(15)
                sign = (select & np.uint32(8)) != 0
                index = (select & np.uint32(7)).astype(np.uint64)
            else:
                index, sign = table[(c & np.uint32(3)).astype(np.int64), place].astype(np.uint64), np.zeros(1, bool)
            byte = ((both >> (index * np.uint64(8))) & np.uint64(255)).astype(np.uint32)
            byte = np.where(sign, np.where(byte & np.uint32(128) != 0, np.uint32(255), np.uint32(0)), byte)
            found = found | (byte << np.uint32(8 * place))
        return found

    return _run(maker, "b32", _gets(maker, "b32", 3), apply)


@makes("lop3")
def _lop3(maker: Maker) -> Run:
    # lop3.b32 d, a, b, c, lut; lop3.and.b32 d|p, a, b, c, lut, q.
    gets = [*_gets(maker, "b32", 3), maker.get(4, "u32")]
    put = maker.put(0, "b32")
    first = maker.operand(0)
    other = maker.result(first.second, "pred") if isinstance(first, Pair) else None
    combine = maker.get(5, "pred") if other is not None else None
    both = np.logical_and if maker.has("and") else np.logical_or
    table_operand = maker.operand(4)
    if other is None and isinstance(table_operand, Immediate):
        undefined.logic(maker, gets[:3], table_operand.value)

    def run(chunk: Chunk, active: Active) -> None:
        a, b, c, table = (get(chunk) for get in gets)
        found: Array = np.zeros(1, np.uint32)
        for term in range(8):
            if int(table[0]) >> term & 1:
                one = (a if term & 4 else ~a) & (b if term & 2 else ~b) & (c if term & 1 else ~c)
                found = found | one
        put(chunk, active, found)
        if other is not None and combine is not None:
            other(chunk, active, both(found != 0, combine(chunk)))

    return run


@makes("popc", "clz", "brev")
def _count_bits(maker: Maker) -> Run:
    kind = maker.type
    bits = BITS[kind]
    opcode = maker.instruction.opcode

    def popc(a: Array) -> Any:
        return np.unpackbits(np.ascontiguousarray(a).view(np.uint8).reshape(a.size, -1), axis=1).sum(1, np.uint32)

    def clz(a: Array) -> Any:
        found = np.full(a.shape, bits, np.uint32)
        for step in (32, 16, 8, 4, 2, 1):
            if step < bits:
                high = a >> a.dtype.type(step)
                found = np.where(high != 0, found - np.uint32(step), found)
                a = np.where(high != 0, high, a)
        return np.where(a != 0, found - np.uint32(1), found)

    def brev(a: Array) -> Any:
        raw = np.unpackbits(np.ascontiguousarray(a).view(np.uint8).reshape(a.size, -1), axis=1, bitorder="little")
        return np.ascontiguousarray(np.packbits(raw[:, ::-1], axis=1, bitorder="little")).view(a.dtype).reshape(-1)

    apply = {"popc": popc, "clz": clz, "brev": brev}[opcode]
    return _run(maker, kind, _gets(maker, kind, 1), apply, result=kind if opcode == "brev" else "u32")


@makes("bfind")
def _bfind(maker: Maker) -> Run:
    kind = maker.type
    bits, amount = BITS[kind], maker.has("shiftamt")

    def apply(a: Array) -> Any:
        value = np.where(a < 0, ~a, a) if kind[0] == "s" else a
        raw = value.view(UNSIGNED[bits])
        found = np.full(a.shape, 0xFFFFFFFF, np.uint32)
        for place in range(bits):
            found = np.where(raw >> raw.dtype.type(place) != 0, np.uint32(place), found)
        return np.where(found == 0xFFFFFFFF, found, np.uint32(bits - 1) - found) if amount else found

    return _run(maker, kind, _gets(maker, kind, 1), apply, result="u32")


@makes("sad")
def _sad(maker: Maker) -> Run:
    kind = maker.type
    return _run(maker, kind, _gets(maker, kind, 3), lambda a, b, c: np.where(a < b, b - a, a - b) + c)


@makes("dp4a", "dp2a")
def _dot(maker: Maker) -> Run:
    first, second = maker.types[:2]
    result = "s32" if "s32" in (first, second) else "u32"
    four = maker.instruction.opcode == "dp4a"
    high = maker.has("hi")

    def parts(value: Array, kind: str, width: int) -> Any:
        pieces = np.ascontiguousarray(value.view(np.uint32)).view(f"{'i' if kind[0] == 's' else 'u'}{width}")
        return pieces.reshape(value.size, -1).astype(np.int64)

    def apply(a: Array, b: Array, c: Array) -> Any:
        if four:
            found = (parts(a, first, 1) * parts(b, second, 1)).sum(1)
        else:
            found = (parts(a, first, 2) * parts(b, second, 1)[:, 2 * high : 2 * high + 2]).sum(1)
        return (found + c.astype(np.int64)).astype(DTYPES[result])

    # Compilers leave those bytes undefined that a dp2a does not take.
    taken = 0 if four else 0xFFFF0000 if high else 0xFFFF
    gets = [maker.get(1, "b32"), maker.get(2, "b32", bits=taken), maker.get(3, result)]
    return _run(maker, result, gets, apply)


# Comparisons.
_SIMPLE: dict[str, Apply] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip


def _compare(maker: Maker, comparison: str, kind: str) -> Apply:
    floating = _is_float(kind)
    part = HALVES.get(kind, kind)
    ftz = maker.has("ftz") and kind == "f32"

    def value(one: Array) -> Any:
        if part == "bf16":
            return rounding.widen(one, "bf16")
        return rounding.flush(one) if ftz else one

    if comparison in _SIMPLE:
        apply = _SIMPLE[comparison]
        if not floating:
            return apply
        if comparison == "ne":
            return lambda a, b: (value(a) != value(b)) & ~np.isnan(value(a)) & ~np.isnan(value(b))
        return (lambda a, b: apply(value(a), value(b))) if part == "bf16" or ftz else apply
    if comparison == "num":
        return lambda a, b: ~np.isnan(value(a)) & ~np.isnan(value(b))
    if comparison == "nan":
        return lambda a, b: np.isnan(value(a)) | np.isnan(value(b))
    if comparison.endswith("u") and comparison[:-1] in _SIMPLE:
        ordered = _SIMPLE[comparison[:-1]]
        return lambda a, b: ordered(value(a), value(b)) | np.isnan(value(a)) | np.isnan(value(b))
    raise maker.unknown()


@makes("setp", "set")
def _setp(maker: Maker) -> Run:
    compare_type = maker.type
    types = maker.types
    comparison = maker.modifiers[0]
    together = next((one for one in maker.modifiers[1:] if one in ("and", "or", "xor")), "")
    joins = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
    a, b = maker.get(1, compare_type), maker.get(2, compare_type)
    other = maker.get(3, "pred") if together else None
    if maker.instruction.opcode == "set":
        if compare_type.endswith("x2") or types[0].endswith("x2"):
            raise maker.unknown()
        compare = _compare(maker, comparison, compare_type)
        result = types[0]
        yes = {"f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80}.get(result, (1 << BITS[result]) - 1)
        unsigned = UNSIGNED[BITS[result]]
        put = maker.put(0, result)

        def give(chunk: Chunk, active: Active) -> None:
            found = compare(a(chunk), b(chunk))
            if other is not None:
                found = joins[together](found, other(chunk))
            put(chunk, active, np.where(found, unsigned.type(yes), unsigned.type(0)).view(DTYPES[result]))

        return give
    target = maker.operand(0)
    put_first = maker.put(0, "pred")
    put_second = maker.result(target.second if isinstance(target, Pair) else Nothing(), "pred")
    if compare_type in ("f16x2", "bf16x2"):
        part = HALVES[compare_type]
        of_part = _compare(maker, comparison, part)

        def run_halves(chunk: Chunk, active: Active) -> None:
            x, y = a(chunk), b(chunk)
            for place, put in ((0, put_first), (16, put_second)):
                left, right = ((one >> np.uint32(place)).astype(np.uint16).view(DTYPES[part]) for one in (x, y))
                found = of_part(left, right)
                put(chunk, active, joins[together](found, other(chunk)) if other is not None else found)

        return run_halves
    compare = _compare(maker, comparison, compare_type)

    def run(chunk: Chunk, active: Active) -> None:
        found = compare(a(chunk), b(chunk))
        if other is None:
            put_first(chunk, active, found)
            put_second(chunk, active, ~found)
            return
        more = other(chunk)
        put_first(chunk, active, joins[together](found, more))
        put_second(chunk, active, joins[together](~found, more))

    return run


@makes("selp")
def _selp(maker: Maker) -> Run:
    kind = maker.type
    gets = [*_gets(maker, kind, 2), maker.get(3, "pred")]
    undefined.moves_bits(maker, 3)
    return _run(maker, kind, gets, lambda a, b, p: np.where(p, a, b) if p.size > 1 else (a if p[0] else b))


@makes("slct")
def _slct(maker: Maker) -> Run:
    kind, by = maker.types[:2]
    undefined.moves_bits(maker, 3)
    return _run(maker, kind, [*_gets(maker, kind, 2), maker.get(3, by)], lambda a, b, c: np.where(c >= 0, a, b))
