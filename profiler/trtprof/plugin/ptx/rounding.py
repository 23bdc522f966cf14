"""Arithmetic with one rounding: what a GPU does in fp32, fp16 and bf16, computed in float64.

A value that float64 cannot hold is rounded to odd on the way (Boldo and Melquiond, *Emulation of FMA and correctly
rounded sums*, 2008): a second rounding to a format that is at least two bits narrower then cannot go wrong.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_FLOATS: dict[str, np.dtype[Any]] = {
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}
_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def widen(bits: Array, kind: str) -> Array:
    """Bits of ``f16``, ``bf16``, ``f32`` or ``f64`` as float64: exact."""
    if kind == "bf16":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    return bits.view(_FLOATS[kind]).astype(np.float64)


def odd_sum(left: Array, right: Array) -> Array:
    """The sum of two float64, rounded to odd: inexact sums end in a bit that is 1."""
    found = left + right
    back = found - left
    error = (left - (found - back)) + (right - back)
    return _to_odd(found, error)


def _to_odd(found: Array, error: Array) -> Array:
    bits = found.view(np.int64)
    wrong = (error != 0) & np.isfinite(error) & ((bits & 1) == 0)
    if not wrong.any():
        return found
    # One step towards the exact value: away from zero where the error has the sign of the sum.
    step = np.where((error > 0) == (found > 0), 1, -1)
    return np.where(wrong, bits + step, bits).view(np.float64)


def fma32(a: Array, b: Array, c: Array) -> Array:
    """``a * b + c`` of float32, rounded once to nearest even."""
    product = a.astype(np.float64) * b
    total = product + c
    found = total.astype(np.float32)
    # The product is exact. The sum is rounded twice, which matters where the first rounding ends half-way between
    # two float32; below the normal numbers half-way is elsewhere.
    bits = total.view(np.int64)
    doubtful = (bits & 0x1FFFFFFF) == 0x10000000
    doubtful |= np.abs(total) < 2.3509887016445750e-38
    doubtful &= total != 0
    if doubtful.any():
        wide = np.broadcast_arrays(product, c.astype(np.float64), total)
        where = np.flatnonzero(np.broadcast_to(doubtful, wide[2].shape))
        found = np.array(np.broadcast_to(found, wide[2].shape))
        found[where] = odd_sum(wide[0][where], wide[1][where]).astype(np.float32)
    return found


def fma64(a: Array, b: Array, c: Array) -> Array:
    """``a * b + c`` of float64, rounded once, where nothing overflows or becomes subnormal on the way."""
    high = a * b
    # Veltkamp and Dekker: the error of a product.
    split = 134217729.0
    a1, b1 = a * split, b * split
    a1, b1 = a1 - (a1 - a), b1 - (b1 - b)
    a2, b2 = a - a1, b - b1
    low = ((a1 * b1 - high) + a1 * b2 + a2 * b1) + a2 * b2
    above = c + low
    back = above - c
    below = (c - (above - back)) + (low - back)
    total = high + above
    back = total - high
    rest = (high - (total - back)) + (above - back)
    found = total + odd_sum(below, rest)
    plain = high + c
    return np.where(np.isfinite(found) & np.isfinite(low), found, plain)


def narrow(value: Array, kind: str, mode: str = "rn") -> Array:
    """Float64 as the bits of a narrower format, rounded once.

    `kind`: ``f16``, ``bf16``, ``tf32``, ``f32`` or ``f64``. `mode`: ``rn`` to nearest even, ``rz`` to zero, ``rm``
    down, ``rp`` up, ``rna`` to nearest, half away from zero.
    """
    if kind == "f64":
        return value.view(np.uint64)
    if kind in ("bf16", "tf32"):
        bits, unit = _short_of_float32(value, kind, mode)
    else:
        found = value.astype(_FLOATS[kind])
        bits, unit = found.view(_UNSIGNED[found.dtype.itemsize]), 1
    if mode in ("rn", "rni", "rna"):
        return bits
    sign = bits.dtype.type(1 << (8 * bits.dtype.itemsize - 1))
    back = widen(bits, "f32" if kind == "tf32" else kind)
    step = bits.dtype.type(unit)
    if mode == "rz":
        return np.where(np.abs(back) > np.abs(value), bits - step, bits)
    over, zero_becomes = (back > value, sign | step) if mode == "rm" else (back < value, step)
    negative = (bits & sign) != 0
    shrink = negative if mode == "rp" else ~negative
    moved = np.where(shrink, bits - step, bits + step)
    return np.where(over, np.where(back == 0, zero_becomes, moved), bits)


def _short_of_float32(value: Array, kind: str, mode: str) -> tuple[Array, int]:
    """The upper bits of a float32, to nearest even (or half away from zero)."""
    single = value.astype(np.float32)
    error = value - single.astype(np.float64)
    bits = single.view(np.uint32)
    wrong = (error != 0) & np.isfinite(error) & ((bits & 1) == 0)
    if wrong.any():
        step = np.where((error > 0) == (value > 0), 1, -1)
        bits = np.where(wrong, bits.view(np.int32) + step, bits).astype(np.uint32)
    # Overflow of the first rounding keeps its infinity; of large finite ones the second rounding makes it.
    low = 16 if kind == "bf16" else 13
    half = np.uint32((1 << (low - 1)) - (0 if mode == "rna" else 1))
    last = np.uint32(0) if mode == "rna" else (bits >> np.uint32(low)) & np.uint32(1)
    rounded = bits + half + last
    nan = np.isnan(value)
    if nan.any():
        rounded = np.where(nan, np.uint32(0x7FFF0000 if kind == "bf16" else 0x7FFFE000), rounded)
    if kind == "bf16":
        return (rounded >> np.uint32(16)).astype(np.uint16), 1
    return rounded & np.uint32(0xFFFFE000), 1 << 13


def flush(value: Array) -> Array:
    """Float32 or float16 with subnormal numbers made zeros of their sign (``.ftz``)."""
    small = np.abs(value) < np.finfo(value.dtype).tiny
    if not small.any():
        return value
    return np.where(small, np.copysign(value.dtype.type(0), value), value)
