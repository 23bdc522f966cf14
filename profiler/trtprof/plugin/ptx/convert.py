"""Moves, conversions between types, and addresses of one space as those of another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from trtprof.plugin.ptx import rounding, undefined
from trtprof.plugin.ptx.memory import LOCAL, SHARED
from trtprof.plugin.ptx.operands import DTYPES, UNSIGNED, Array, Maker, Run, makes
from trtprof.plugin.ptx.parse import BITS, Operand, Register, Variable, Vector
from trtprof.plugin.ptx.state import Active, Chunk

_ROUND: dict[str, Callable[[Array], Array]] = {"i": np.rint, "rz": np.trunc, "rm": np.floor, "rp": np.ceil}
_MODES = ("rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi")
_FLOAT8 = {"e4m3x2": ml_dtypes.float8_e4m3fn, "e5m2x2": ml_dtypes.float8_e5m2}
_FLOATS = ("f16", "bf16", "f32", "f64", "tf32")


@makes("mov")
def _mov(maker: Maker) -> Run:
    kind = maker.type
    source: Operand = maker.operand(1)
    target = maker.operand(0)
    if kind == "b128":
        raise maker.unknown()
    undefined.moves_bits(maker)
    if isinstance(source, Vector) and isinstance(target, Vector):
        pairs = [
            (maker.source(a, kind), maker.result(b, kind)) for a, b in zip(source.items, target.items, strict=True)
        ]

        def each(chunk: Chunk, active: Active) -> None:
            for get, put in pairs:
                put(chunk, active, get(chunk))

        return each
    width = BITS[kind]
    if isinstance(source, Register) and width not in (source.bits, 1):
        kind = f"b{source.bits}"
    get, put = maker.source(source, kind), maker.put(0, kind)
    return lambda chunk, active: put(chunk, active, get(chunk))


@makes("cvta")
def _cvta(maker: Maker) -> Run:
    kind = maker.type
    window = SHARED if any(m.startswith("shared") for m in maker.modifiers) else LOCAL if maker.has("local") else 0
    get, put = maker.get(1, kind), maker.put(0, kind)
    source = maker.operand(1)
    if isinstance(source, Variable) and source.space == "param":
        raise maker.unknown()
    if not window:
        return lambda chunk, active: put(chunk, active, get(chunk))
    if BITS[kind] != 64:
        raise maker.unknown("addresses of 32 bits are not known here")
    by = np.uint64(window)
    if maker.has("to"):
        return lambda chunk, active: put(chunk, active, get(chunk) - by)
    return lambda chunk, active: put(chunk, active, get(chunk) + by)


@makes("isspacep")
def _isspacep(maker: Maker) -> Run:
    space = maker.modifiers[0].split("::")[0]
    get, put = maker.get(1, "u64"), maker.put(0, "pred")
    ranges = {"shared": (SHARED, LOCAL), "local": (LOCAL, 1 << 63), "global": (0, SHARED), "const": (0, 0)}
    low, high = ranges[space]
    return lambda chunk, active: put(chunk, active, (get(chunk) >= np.uint64(low)) & (get(chunk) < np.uint64(high)))


@makes("cvt")
def _cvt(maker: Maker) -> Run:
    types = maker.types
    if len(types) != 2:
        raise maker.unknown()
    to, of = types
    mode = next((one for one in maker.modifiers if one in _MODES), "")
    if to in _FLOAT8 or of in _FLOAT8 or to.endswith("x2"):
        return _packed(maker, to, of, mode)
    get = maker.get(1, of)
    saturate, ftz = maker.has("sat"), maker.has("ftz")
    if to in _FLOATS:
        put = maker.put(0, "b32" if to == "tf32" else to)
        finish = _to_float(maker, to, of, mode, saturate=saturate, ftz=ftz)
    else:
        put = maker.put(0, to, signed=to[0] == "s")
        finish = _float_to_integer(to, of, mode, ftz=ftz) if of in _FLOATS else _integer(to, saturate=saturate)
        if of not in _FLOATS and not saturate:
            undefined.moves_bits(maker)
    return lambda chunk, active: put(chunk, active, finish(get(chunk)))


def _integer(to: str, *, saturate: bool) -> Callable[[Array], Array]:
    dtype = DTYPES[to]
    if not saturate:
        return lambda value: value.astype(dtype)
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)

    def clip(value: Array) -> Array:
        have = np.iinfo(value.dtype)
        return np.clip(value, max(low, int(have.min)), min(high, int(have.max))).astype(dtype)

    return clip


def _float_to_integer(to: str, of: str, mode: str, *, ftz: bool) -> Callable[[Array], Array]:
    dtype = DTYPES[to]
    bits = BITS[to]
    signed = to[0] == "s"
    low = -(1 << (bits - 1)) if signed else 0
    high = (1 << (bits - 1 if signed else bits)) - 1
    # Of 64-bit integers and of fp64, NaN becomes the number whose highest bit alone is set; else 0.
    nan = 0 if bits != 64 and of != "f64" else (1 << (bits - 1))
    to_whole = _ROUND["i" if mode in ("rni", "rn", "") else mode[:2]]

    def finish(value: Array) -> Array:
        wide = rounding.widen(rounding.flush(value) if ftz and of == "f32" else value, of)
        whole = to_whole(wide)
        inside = np.clip(whole, low, float(high))
        if bits == 64:
            top = whole >= float(high)
            found = np.where(top | np.isnan(whole), 0.0, inside).astype(dtype)
            found = np.where(top, dtype.type(high), found)
        else:
            found = np.where(np.isnan(whole), 0.0, inside).astype(np.int64).astype(dtype)
        bad = np.isnan(whole)
        if bad.any():
            found = np.where(bad, np.array([nan], UNSIGNED[bits]).view(dtype), found)
        return found

    return finish


def _to_float(maker: Maker, to: str, of: str, mode: str, *, saturate: bool, ftz: bool) -> Callable[[Array], Array]:
    relu = maker.has("relu")
    dtype = DTYPES[to]

    def finish(value: Array) -> Array:
        if of in _FLOATS:
            wide = rounding.widen(rounding.flush(value) if ftz and of == "f32" else value, of)
            if mode.endswith("i"):
                wide = _ROUND["i" if mode == "rni" else mode[:2]](wide)
        elif BITS[of] == 64:
            wide = _odd_from_64(value)
        else:
            wide = value.astype(np.float64)
        if to == "f64" and of in ("s64", "u64"):
            return value.astype(np.float64) if mode in ("rn", "") else _directed64(value, mode)
        if saturate:
            wide = np.where(np.isnan(wide), 0.0, np.clip(wide, 0.0, 1.0))
        if relu:
            wide = np.where(wide > 0, wide, np.where(np.isnan(wide), wide, 0.0))
        kept = "rn" if mode.endswith("i") or not mode else mode
        found = rounding.narrow(np.ascontiguousarray(wide), to, kept).view(dtype)
        return rounding.flush(found) if ftz and to == "f32" else found

    return finish


def _odd_from_64(value: Array) -> Array:
    """64-bit integers as float64, rounded to odd."""
    high = (value >> value.dtype.type(32)).astype(np.float64) * 4294967296.0
    low = (value & value.dtype.type(0xFFFFFFFF)).astype(np.float64)
    return rounding.odd_sum(high, low)


def _directed64(value: Array, mode: str) -> Array:
    """64-bit integers as float64, rounded to zero, up or down."""
    found = value.astype(np.float64)
    low = (value & value.dtype.type(0xFFFFFFFF)).astype(np.float64)
    high = (value >> value.dtype.type(32)).astype(np.float64) * 4294967296.0
    error = low - (found - high)  # the exact value less the rounded one
    if mode == "rz":
        found, error = np.abs(found), np.where(found < 0, -error, error)
        return np.where(error < 0, np.nextafter(found, 0.0), found) * np.where(value < 0, -1.0, 1.0)
    if mode == "rm":
        return np.where(error < 0, np.nextafter(found, -np.inf), found)
    return np.where(error > 0, np.nextafter(found, np.inf), found)


def _packed(maker: Maker, to: str, of: str, mode: str) -> Run:
    """Two narrow floats of two fp32 (the first operand is the upper one), or between pairs of narrow floats."""
    relu, finite = maker.has("relu"), maker.has("satfinite")
    if to in ("f16x2", "bf16x2") and of == "f32":
        part = to[:-2]
        high, low, put = maker.get(1, "f32"), maker.get(2, "f32"), maker.put(0, "b32")

        def one(value: Array) -> Array:
            wide = value.astype(np.float64)
            if relu:
                wide = np.where(wide > 0, wide, np.where(np.isnan(wide), wide, 0.0))
            if finite:
                most = 65504.0 if part == "f16" else 3.3895313892515355e38
                wide = np.where(np.isnan(wide), wide, np.clip(wide, -most, most))
            return rounding.narrow(wide, part, mode or "rn").view(np.uint16).astype(np.uint32)

        return lambda chunk, active: put(chunk, active, one(low(chunk)) | (one(high(chunk)) << np.uint32(16)))
    if to in _FLOAT8:
        return _to_float8(maker, to, of)
    if of in _FLOAT8 and to == "f16x2":
        get, put = maker.get(1, "b16"), maker.put(0, "b32")
        narrow: Any = _FLOAT8[of]

        def widened(chunk: Chunk, active: Active) -> None:
            pairs = np.ascontiguousarray(get(chunk)).view(narrow).astype(np.float16)
            put(chunk, active, pairs.view(np.uint32))

        return widened
    raise maker.unknown()


def _to_float8(maker: Maker, to: str, of: str) -> Run:
    narrow: Any = _FLOAT8[to]
    most = {"e4m3x2": 448.0, "e5m2x2": 57344.0}[to]
    put = maker.put(0, "b16")
    relu = maker.has("relu")

    def one(value: Array) -> Array:
        wide = value.astype(np.float32)
        if relu:
            wide = np.where(wide > 0, wide, np.where(np.isnan(wide), wide, np.float32(0)))
        clipped = np.where(np.isnan(wide), wide, np.clip(wide, -most, most))
        found = clipped.astype(narrow).view(np.uint8)
        return np.where(np.isnan(wide), np.uint8(0x7F), found).astype(np.uint16)

    if of == "f32":
        high, low = maker.get(1, "f32"), maker.get(2, "f32")
        return lambda chunk, active: put(chunk, active, one(low(chunk)) | (one(high(chunk)) << np.uint16(8)))
    if of == "f16x2":
        get = maker.get(1, "b32")

        def halves(chunk: Chunk, active: Active) -> None:
            pairs = np.ascontiguousarray(get(chunk)).view(np.float16).reshape(-1, 2)
            put(chunk, active, one(pairs[:, 0]) | (one(pairs[:, 1]) << np.uint16(8)))

        return halves
    raise maker.unknown()
