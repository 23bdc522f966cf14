"""Floats of every width, against fractions that are rounded by the book."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from tests.fakes.ptx_text import execute

Array = npt.NDArray[Any]
FORMATS: dict[str, tuple[int, int, int]] = {
    # Bits of the significand, and exponents of the least and the greatest normal number.
    "f16": (11, -14, 15), "bf16": (8, -126, 127), "f32": (24, -126, 127), "f64": (53, -1022, 1023),
}  # fmt: skip
DTYPES: dict[str, Any] = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}
INTEGERS: dict[str, Any] = {"f16": np.uint16, "bf16": np.uint16, "f32": np.uint32, "f64": np.uint64}


def rounded(value: Fraction, kind: str, mode: str = "rn", *, negative_zero: bool = False) -> float:
    """A fraction in a format, by the definition of each mode."""
    bits, low, high = FORMATS[kind]
    if value == 0:
        return -0.0 if negative_zero else 0.0
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    unit = Fraction(2) ** (max(exponent, low) - bits + 1)
    down = value / unit // 1
    rest = value / unit - down
    up = {
        "rn": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and down % 2 == 1),
        "rz": value < 0 and rest > 0,
        "rm": False,
        "rp": rest > 0,
    }[mode]
    found = (down + up) * unit
    limit = Fraction(2) ** (high + 1)
    if abs(found) >= limit:
        inwards = mode == "rz" or (mode == "rm" and value > 0) or (mode == "rp" and value < 0)
        most = float(limit - Fraction(2) ** (high - bits + 1)) if kind != "f64" else np.finfo(np.float64).max
        return float(np.copysign(most if inwards else np.inf, 1 if value > 0 else -1))
    return float(found) if found else float(np.copysign(0.0, 1 if value > 0 else -1))


@np.errstate(all="ignore")
def hard(kind: str, count: int, seed: int) -> Array:
    """Numbers of all sizes: random bits, a few that are near one another, and the corners of the format."""
    random = np.random.default_rng(seed)
    width = np.dtype(INTEGERS[kind]).itemsize * 8
    bits = random.integers(0, 1 << width, count, dtype=np.uint64).astype(INTEGERS[kind])
    values = bits.view(DTYPES[kind])
    near = (random.integers(-64, 65, count) / 2.0 ** random.integers(0, 30, count)).astype(DTYPES[kind])
    corners = np.array([0, 1, 2, 3], INTEGERS[kind]).view(DTYPES[kind])
    mixed = np.where(random.random(count) < 0.5, values.astype(np.float64), near.astype(np.float64))
    mixed[:4] = corners.astype(np.float64)
    mixed[~np.isfinite(mixed)] = 1.5
    return mixed.astype(DTYPES[kind])


def raw(values: Array) -> Array:
    return values.view(INTEGERS[{2: "f16", 4: "f32", 8: "f64"}[values.dtype.itemsize]])


@np.errstate(all="ignore")
def same(found: Array, truth: list[float], kind: str) -> None:
    wanted = np.array(truth).astype(DTYPES[kind])
    np.testing.assert_array_equal(found, raw(wanted))


def exact(values: Array) -> list[Fraction]:
    return [Fraction(float(one)) for one in values]


def test_arithmetic_is_rounded_once(subtests: pytest.Subtests) -> None:
    for kind, mode in (
        ("f16", "rn"),
        ("bf16", "rn"),
        *(("f32", mode) for mode in ("rn", "rz", "rm", "rp")),
        ("f64", "rn"),
    ):
        for operation in ("add", "sub", "mul", "fma"):
            with subtests.test(f"{operation} {kind} {mode}"):
                count = 512
                a, b, c = (hard(kind, count, seed) for seed in (1, 2, 3))
                if kind == "f64":
                    # Where nothing is lost to the ends of the range.
                    a, b, c = (np.random.default_rng(seed).standard_normal(count) for seed in (1, 2, 3))
                    c = c * 2.0 ** np.random.default_rng(4).integers(-70, 10, count)
                c[:32] = -(a[:32].astype(np.float64) * b[:32].astype(np.float64)).astype(a.dtype)  # what nearly cancels
                more = ", %in2" if operation == "fma" else ""
                found = execute(
                    f"{operation}.{mode}.{kind} %out, %in0, %in1{more};", [raw(a), raw(b), raw(c)], INTEGERS[kind]
                )
                truth = []
                for x, y, z, p, q, r in zip(exact(a), exact(b), exact(c), a, b, c, strict=True):
                    value = {"add": x + y, "sub": x - y, "mul": x * y, "fma": x * y + z}[operation]
                    with np.errstate(all="ignore"):
                        plain = {
                            "add": float(p) + float(q), "sub": float(p) - float(q), "mul": float(p) * float(q),
                            "fma": float(p) * float(q) + float(r),
                        }[operation]  # fmt: skip
                    zero = -0.0 if value == 0 and np.signbit(plain) else 0.0
                    if value == 0 and mode == "rm" and operation != "mul" and not np.signbit(plain):
                        # What cancels is -0 where rounding is downwards; two zeros that are positive stay so.
                        terms = (p, q) if operation in ("add", "sub") else (float(p) * float(q), r)
                        signs = [bool(np.signbit(one)) for one in terms]
                        if operation == "sub":
                            signs[1] = not signs[1]
                        zero = -0.0 if any(signs) else 0.0
                    truth.append(rounded(value, kind, mode) if value else zero)
                same(found, truth, kind)


def test_conversions_to_narrower_floats(subtests: pytest.Subtests) -> None:
    for to, of in (("f16", "f32"), ("bf16", "f32"), ("f32", "f64"), ("f16", "f64")):
        for mode in ("rn", "rz", "rm", "rp"):
            with subtests.test(f"{mode} {to} {of}"):
                values = hard(of, 512, 8)
                # Those that are exactly between two of the narrower ones, and a little off.
                bits, _, _ = FORMATS[to]
                between = 1 + (2 * np.arange(64) + 1) * 2.0**-bits
                values[:64] = between.astype(values.dtype)
                values[64:128] = np.nextafter(values[:64], np.array(9, values.dtype))
                found = execute(f"cvt.{mode}.{to}.{of} %out, %in0;", [raw(values)], INTEGERS[to])
                same(
                    found,
                    [rounded(Fraction(float(one)), to, mode, negative_zero=bool(np.signbit(one))) for one in values],
                    to,
                )


def test_conversions_of_integers(subtests: pytest.Subtests) -> None:
    for of in ("s32", "u32", "s64", "u64"):
        for to in ("f16", "f32", "f64"):
            for mode in ("rn", "rz", "rm", "rp"):
                with subtests.test(f"{mode} {to} {of}"):
                    width = int(of[1:])
                    values = np.random.default_rng(9).integers(0, 1 << width, 256, dtype=np.uint64)
                    values[:64] >>= np.random.default_rng(10).integers(0, width, 64).astype(np.uint64)
                    values[64:96] = (1 << (width - 1)) - 1 - np.arange(32)
                    whole = values.astype(np.dtype(f"{'i' if of[0] == 's' else 'u'}{width // 8}"))
                    found = execute(f"cvt.{mode}.{to}.{of} %out, %in0;", [whole], INTEGERS[to])
                    same(found, [rounded(Fraction(int(one)), to, mode) for one in whole], to)


def test_conversions_to_integers_stay_within_them(subtests: pytest.Subtests) -> None:
    for of in ("f16", "f32", "f64"):
        for to in ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"):
            for mode in ("rni", "rzi", "rmi", "rpi"):
                with subtests.test(f"{mode} {to} {of}"):
                    values = hard(of, 256, 11)
                    values[:8] = [0.5, 1.5, -0.5, -1.5, 2.5, 1e4, -1e4, 254.5]
                    values[8:11] = [np.inf, -np.inf, np.nan]
                    width, signed = int(to[1:]), to[0] == "s"
                    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
                    room = max(width, 16)
                    found = execute(
                        f"cvt.{mode}.{to}.{of} %out, %in0;",
                        [raw(values)],
                        np.dtype(f"{'i' if signed else 'u'}{room // 8}"),
                    )
                    truth = []
                    for one in values:
                        x = float(one)
                        if np.isnan(x):
                            nan = 0 if width != 64 and of != "f64" else 1 << (width - 1)
                            truth.append(nan - (1 << width) if signed and nan >> (width - 1) else nan)
                        elif np.isinf(x):
                            truth.append(high if x > 0 else low)
                        else:
                            fraction = Fraction(x)
                            down, up = fraction // 1, -(-fraction // 1)
                            whole = {"rni": round(fraction), "rzi": int(fraction), "rmi": down, "rpi": up}[mode]
                            truth.append(min(max(whole, low), high))
                    assert [int(one) for one in found] == truth
