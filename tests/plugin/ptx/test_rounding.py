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


@pytest.mark.parametrize("operation", ["add", "sub", "mul", "fma"])
@pytest.mark.parametrize(
    ("kind", "mode"),
    [("f16", "rn"), ("bf16", "rn"), *(("f32", mode) for mode in ("rn", "rz", "rm", "rp")), ("f64", "rn")],
)
def test_arithmetic_is_rounded_once(kind: str, mode: str, operation: str) -> None:
    count = 512
    a, b, c = (hard(kind, count, seed) for seed in (1, 2, 3))
    if kind == "f64":
        # Where nothing is lost to the ends of the range.
        a, b, c = (np.random.default_rng(seed).standard_normal(count) for seed in (1, 2, 3))
        c = c * 2.0 ** np.random.default_rng(4).integers(-70, 10, count)
    c[:32] = -(a[:32].astype(np.float64) * b[:32].astype(np.float64)).astype(a.dtype)  # what nearly cancels
    more = ", %in2" if operation == "fma" else ""
    found = execute(f"{operation}.{mode}.{kind} %out, %in0, %in1{more};", [raw(a), raw(b), raw(c)], INTEGERS[kind])
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


def test_a_sum_that_float64_would_round_to_half_way_is_right() -> None:
    # 1 + 2^-24 is half-way between two fp32; what is added is too small for float64 to see.
    a = np.array([1.0, 1.0, -1.0], np.float32)
    b = np.array([1.0 + 2.0**-23, 1.0, 1.0], np.float32)
    c = np.array([2.0**-24 + 2.0**-47, 2.0**-24, -(2.0**-24)], np.float32)
    tiny = np.array([2.0**-60, 2.0**-60, 2.0**-60], np.float32)
    found = execute("fma.rn.f32 %out, %in0, %in1, %in2;", [raw(x) for x in (a, b, c)], np.uint32)
    truth = [rounded(x * y + z, "f32") for x, y, z in zip(exact(a), exact(b), exact(c), strict=True)]
    same(found, truth, "f32")
    ones = np.array([1.0 + 2.0**-12] * 3, np.float32)
    half = np.array([1.0 + 2.0**-12] * 3, np.float32)  # the product ends in 2^-24: half-way
    found = execute("fma.rn.f32 %out, %in0, %in1, %in2;", [raw(x) for x in (ones, half, tiny)], np.uint32)
    truth = [rounded(x * y + z, "f32") for x, y, z in zip(exact(ones), exact(half), exact(tiny), strict=True)]
    assert truth[0] != float(np.float32(float(ones[0]) * float(half[0]) + float(tiny[0])))
    same(found, truth, "f32")


@pytest.mark.parametrize("operation", ["add", "mul", "fma"])
@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_pairs_of_halves_are_two_of_one(kind: str, operation: str) -> None:
    a, b, c = (hard(kind, 128, seed).view(np.uint32) for seed in (5, 6, 7))
    mode = ".rn" if operation == "fma" or kind == "bf16" else ""
    more = ", %in2" if operation == "fma" else ""
    found = execute(f"{operation}{mode}.{kind}x2 %out, %in0, %in1{more};", [a, b, c], np.uint32)
    single = execute(
        f"{operation}{mode}.{kind} %out, %in0, %in1{more};", [one.view(np.uint16) for one in (a, b, c)], np.uint16
    )
    np.testing.assert_array_equal(found.view(np.uint16), single)


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize(("to", "of"), [("f16", "f32"), ("bf16", "f32"), ("f32", "f64"), ("f16", "f64")])
def test_conversions_to_narrower_floats(to: str, of: str, mode: str) -> None:
    values = hard(of, 512, 8)
    # Those that are exactly between two of the narrower ones, and a little off.
    bits, _, _ = FORMATS[to]
    between = 1 + (2 * np.arange(64) + 1) * 2.0**-bits
    values[:64] = between.astype(values.dtype)
    values[64:128] = np.nextafter(values[:64], np.array(9, values.dtype))
    found = execute(f"cvt.{mode}.{to}.{of} %out, %in0;", [raw(values)], INTEGERS[to])
    same(found, [rounded(Fraction(float(one)), to, mode, negative_zero=bool(np.signbit(one))) for one in values], to)


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("to", ["f16", "f32", "f64"])
@pytest.mark.parametrize("of", ["s32", "u32", "s64", "u64"])
def test_conversions_of_integers(to: str, of: str, mode: str) -> None:
    width = int(of[1:])
    values = np.random.default_rng(9).integers(0, 1 << width, 256, dtype=np.uint64)
    values[:64] >>= np.random.default_rng(10).integers(0, width, 64).astype(np.uint64)
    values[64:96] = (1 << (width - 1)) - 1 - np.arange(32)
    whole = values.astype(np.dtype(f"{'i' if of[0] == 's' else 'u'}{width // 8}"))
    found = execute(f"cvt.{mode}.{to}.{of} %out, %in0;", [whole], INTEGERS[to])
    same(found, [rounded(Fraction(int(one)), to, mode) for one in whole], to)


@pytest.mark.parametrize("mode", ["rni", "rzi", "rmi", "rpi"])
@pytest.mark.parametrize("to", ["s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"])
@pytest.mark.parametrize("of", ["f16", "f32", "f64"])
def test_conversions_to_integers_stay_within_them(to: str, of: str, mode: str) -> None:
    values = hard(of, 256, 11)
    values[:8] = [0.5, 1.5, -0.5, -1.5, 2.5, 1e4, -1e4, 254.5]
    values[8:11] = [np.inf, -np.inf, np.nan]
    width, signed = int(to[1:]), to[0] == "s"
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
    room = max(width, 16)
    found = execute(
        f"cvt.{mode}.{to}.{of} %out, %in0;", [raw(values)], np.dtype(f"{'i' if signed else 'u'}{room // 8}")
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
            whole = {
                "rni": round(fraction), "rzi": int(fraction), "rmi": fraction // 1, "rpi": -(-fraction // 1),
            }[mode]  # fmt: skip
            truth.append(min(max(whole, low), high))
    assert [int(one) for one in found] == truth


def test_two_floats_as_two_halves() -> None:
    a, b = hard("f32", 256, 12), hard("f32", 256, 13)
    for kind in ("f16", "bf16"):
        found = execute(f"cvt.rn.{kind}x2.f32 %out, %in0, %in1;", [raw(a), raw(b)], np.uint32).view(np.uint16)
        # The first operand is the upper half.
        for values, mine in ((a, found[1::2]), (b, found[::2])):
            truth = [rounded(Fraction(float(one)), kind, negative_zero=bool(np.signbit(one))) for one in values]
            same(mine, truth, kind)


def test_every_half_widens_and_narrows_to_itself() -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    for kind in ("f16", "bf16"):
        wide = execute(f"cvt.f32.{kind} %out, %in0;", [bits], np.float32, block=1024)
        truth = bits.view(DTYPES[kind]).astype(np.float32)
        np.testing.assert_array_equal(wide, truth)
        back = execute(f"cvt.rn.{kind}.f32 %out, %in0;", [wide], np.uint16, block=1024)
        number = ~np.isnan(truth)
        np.testing.assert_array_equal(back[number], bits[number])
        assert np.isnan(back[~number].view(DTYPES[kind]).astype(np.float32)).all()


def test_subnormals_are_flushed_where_it_is_said() -> None:
    a = np.array([1e-39, -1e-39, 2e-38, 1.0], np.float32)
    b = np.array([1.0, 1.0, 0.5, 1e-39], np.float32)
    kept = execute("mul.f32 %out, %in0, %in1;", [a, b], np.float32)
    np.testing.assert_array_equal(kept, a * b)
    flushed = execute("mul.ftz.f32 %out, %in0, %in1;", [a, b], np.float32)
    np.testing.assert_array_equal(raw(flushed), raw(np.array([0.0, -0.0, 0.0, 0.0], np.float32)))
    flushed = execute("fma.rn.ftz.f32 %out, %in0, %in1, %in0;", [a, b], np.float32)
    np.testing.assert_array_equal(flushed, np.array([0, 0, np.float32(2e-38) * np.float32(1.5), 1], np.float32))


def test_subnormal_halves_are_flushed_where_it_is_said() -> None:
    a = np.array([6e-5, -6e-5, 0.5, 1e-3], np.float16)
    b = np.array([1.0, 1.0, 2.0**-14, 0.25], np.float16)
    kept = execute("mul.f16 %out, %in0, %in1;", [a, b], np.float16)
    np.testing.assert_array_equal(raw(kept), raw(a * b))
    flushed = execute("mul.ftz.f16 %out, %in0, %in1;", [a, b], np.float16)
    np.testing.assert_array_equal(raw(flushed), raw(np.array([0.0, -0.0, 0.0, a[3] * b[3]], np.float16)))


def test_tf32_keeps_ten_bits() -> None:
    a = hard("f32", 512, 14)
    found = execute("cvt.rna.tf32.f32 %out, %in0;", [a], np.uint32)
    assert not (found & 0x1FFF).any()
    truth = ((raw(a).astype(np.uint64) + 0x1000) & 0xFFFFE000).astype(np.uint32)
    np.testing.assert_array_equal(found, truth)


def test_eight_bit_floats() -> None:
    a, b = hard("f32", 256, 15), hard("f32", 256, 16)
    a[:64] = np.linspace(-500, 500, 64)
    for kind, narrow, most in (("e4m3", ml_dtypes.float8_e4m3fn, 448.0), ("e5m2", ml_dtypes.float8_e5m2, 57344.0)):
        found = execute(f"cvt.rn.satfinite.{kind}x2.f32 %out, %in0, %in1;", [a, b], np.uint16).view(np.uint8)
        for values, mine in ((a, found[1::2]), (b, found[::2])):
            truth = np.clip(values, -most, most).astype(narrow).view(np.uint8)
            np.testing.assert_array_equal(mine, truth)
        back = execute(f"cvt.rn.f16x2.{kind}x2 %out, %in0;", [found.view(np.uint16)], np.uint32).view(np.float16)
        np.testing.assert_array_equal(back, found.view(narrow).astype(np.float16))
