"""Instructions, one family at a time, against Python's integers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.ptx_text import execute, module
from trtprof.plugin import ptx

Array = npt.NDArray[Any]
INTEGERS = ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64")
CORNERS = (0, 1, 2, 3, 7, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256)


def integers(kind: str, count: int, seed: int) -> Array:
    """All sizes of integers, with the corners of the type."""
    width = int(kind[1:])
    random = np.random.default_rng(seed)
    values = random.integers(0, 1 << width, count, dtype=np.uint64)
    values[: count // 2] >>= random.integers(0, width, count // 2).astype(np.uint64)
    corners = [0, 1, (1 << width) - 1, 1 << (width - 1), (1 << (width - 1)) - 1]
    values[: len(corners)] = corners
    return random.permutation(values).astype(np.dtype(f"{'i' if kind[0] == 's' else 'u'}{width // 8}"))


def wrapped(value: int, kind: str) -> int:
    width = int(kind[1:])
    value &= (1 << width) - 1
    return value - (1 << width) if kind[0] == "s" and value >> (width - 1) else value


def quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


BINARY: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul.lo": lambda a, b: a * b,
    "min": min,
    "max": max,
    "div": lambda a, b: quotient(a, b or 1),
    "rem": lambda a, b: a - quotient(a, b or 1) * (b or 1),
}


@pytest.mark.parametrize("operation", BINARY)
@pytest.mark.parametrize("kind", ["s16", "u16", "s32", "u32", "s64", "u64"])
def test_integers(kind: str, operation: str) -> None:
    a, b = integers(kind, 256, 1), integers(kind, 256, 2)
    if operation in ("div", "rem"):
        b[b == 0] = 3
    found = execute(f"{operation}.{kind} %out, %in0, %in1;", [a, b], a.dtype)
    truth = [wrapped(BINARY[operation](int(x), int(y)), kind) for x, y in zip(a, b, strict=True)]
    assert found.tolist() == truth


@pytest.mark.parametrize("kind", ["s16", "u16", "s32", "u32", "s64", "u64"])
def test_products_have_two_halves(kind: str) -> None:
    a, b, c = (integers(kind, 256, seed) for seed in (1, 2, 3))
    width = int(kind[1:])
    found = execute(f"mul.hi.{kind} %out, %in0, %in1;", [a, b], a.dtype)
    assert found.tolist() == [wrapped(int(x) * int(y) >> width, kind) for x, y in zip(a, b, strict=True)]
    if width < 64:
        wide = f"{kind[0]}{2 * width}"
        d = integers(wide, 256, 4)
        found = execute(f"mad.wide.{kind} %out, %in0, %in1, %in2;", [a, b, d], d.dtype)
        truth = [wrapped(int(x) * int(y) + int(z), wide) for x, y, z in zip(a, b, d, strict=True)]
        assert found.tolist() == truth
    if width > 16:
        found = execute(f"mad.hi.{kind} %out, %in0, %in1, %in2;", [a, b, c], a.dtype)
        truth = [wrapped((int(x) * int(y) >> width) + int(z), kind) for x, y, z in zip(a, b, c, strict=True)]
        assert found.tolist() == truth


@pytest.mark.parametrize("kind", ["b16", "b32", "b64", "u32", "s16", "s32", "s64", "u64"])
def test_shifts_of_more_bits_than_there_are(kind: str) -> None:
    typed = kind.replace("b", "u")
    a = integers(typed, 300, 1)
    by = np.array([CORNERS[place % len(CORNERS)] for place in range(300)], np.uint32)
    if kind[0] == "b":
        found = execute(f"shl.{kind} %out, %in0, %in1;", [a, by], a.dtype, block=300)
        assert found.tolist() == [wrapped(int(x) << int(n), typed) for x, n in zip(a, by, strict=True)]
    found = execute(f"shr.{kind} %out, %in0, %in1;", [a, by], a.dtype, block=300)
    assert found.tolist() == [int(x) >> int(n) for x, n in zip(a, by, strict=True)]


@pytest.mark.parametrize(("side", "mode"), list(itertools.product("lr", ("wrap", "clamp"))))
def test_funnel_shifts(side: str, mode: str) -> None:
    a, b = integers("u32", 300, 1), integers("u32", 300, 2)
    by = np.array([CORNERS[place % len(CORNERS)] for place in range(300)], np.uint32)
    found = execute(f"shf.{side}.{mode}.b32 %out, %in0, %in1, %in2;", [a, b, by], np.uint32, block=300)
    for x, y, n, got in zip(a.tolist(), b.tolist(), by.tolist(), found.tolist(), strict=True):
        shift = n & 31 if mode == "wrap" else min(n, 32)
        both = y << 32 | x
        assert got == ((both << shift >> 32) if side == "l" else both >> shift) & 0xFFFFFFFF


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
def test_fields_of_bits(kind: str) -> None:
    # Of places and lengths eight bits count.
    width = int(kind[1:])
    a, other = integers(kind, 225, 1), integers(kind, 225, 2)
    place, length = (np.array(one, np.uint32) for one in zip(*itertools.product(CORNERS, CORNERS), strict=True))
    found = execute(f"bfe.{kind} %out, %in0, %in1, %in2;", [a, place, length], a.dtype, block=225)
    for x, at, size, got in zip(a.tolist(), place.tolist(), length.tolist(), found.tolist(), strict=True):
        # By the definition of the ISA, bit by bit.
        at, size = at & 255, size & 255  # noqa: PLW2901
        sign = 0 if kind[0] == "u" or size == 0 else x >> min(at + size - 1, width - 1) & 1
        bits = sum((x >> (at + bit) & 1 if bit < size and at + bit < width else sign) << bit for bit in range(width))
        assert got == wrapped(bits, kind), (x, at, size)
    typed = kind.replace("s", "u")
    if kind == typed:
        found = execute(f"bfi.b{width} %out, %in0, %in1, %in2, %in3;", [a, other, place, length], a.dtype, block=225)
        for x, y, at, size, got in zip(
            a.tolist(), other.tolist(), place.tolist(), length.tolist(), found.tolist(), strict=True
        ):
            at, size = at & 255, size & 255  # noqa: PLW2901
            mask = ((1 << size) - 1) << at & ((1 << width) - 1)
            assert got == (y & ~mask | x << at & mask)


def test_bytes_are_permuted() -> None:
    a, b, c = (integers("u32", 256, seed) for seed in (1, 2, 3))
    found = execute("prmt.b32 %out, %in0, %in1, %in2;", [a, b, c], np.uint32)
    for x, y, z, got in zip(a.tolist(), b.tolist(), c.tolist(), found.tolist(), strict=True):
        both, truth = y << 32 | x, 0
        for place in range(4):
            select = z >> 4 * place & 15
            byte = both >> 8 * (select & 7) & 255
            truth |= (255 * (byte >> 7) if select & 8 else byte) << 8 * place
        assert got == truth
    four = np.arange(256, dtype=np.uint32)
    found = execute("prmt.b32.b4e %out, %in0, %in1, %in2;", [a, b, four], np.uint32)
    for x, y, n, got in zip(a.tolist(), b.tolist(), four.tolist(), found.tolist(), strict=True):
        both = y << 32 | x
        assert got == sum((both >> 8 * ((n % 4 - place) & 7) & 255) << 8 * place for place in range(4))


@pytest.mark.parametrize("table", [0x00, 0xFF, 0x80, 0xFE, 0x96, 0xE8, 0xCA, 0x1B])
def test_any_logic_of_three(table: int) -> None:
    a, b, c = (integers("u32", 64, seed) for seed in (1, 2, 3))
    found = execute(f"lop3.b32 %out, %in0, %in1, %in2, {table};", [a, b, c], np.uint32)
    for x, y, z, got in zip(a.tolist(), b.tolist(), c.tolist(), found.tolist(), strict=True):
        bits = ((x >> n & 1) << 2 | (y >> n & 1) << 1 | z >> n & 1 for n in range(32))
        assert got == sum((table >> one & 1) << n for n, one in enumerate(bits))


@pytest.mark.parametrize("width", [32, 64])
def test_counts_of_bits(width: int) -> None:
    a = integers(f"u{width}", 256, 1)
    popc = execute(f"popc.b{width} %out, %in0;", [a], np.uint32)
    clz = execute(f"clz.b{width} %out, %in0;", [a], np.uint32)
    brev = execute(f"brev.b{width} %out, %in0;", [a], a.dtype)
    find = execute(f"bfind.u{width} %out, %in0;", [a], np.int32)
    for x, one, two, three, four in zip(*(v.tolist() for v in (a, popc, clz, brev, find)), strict=True):
        assert (one, two) == (x.bit_count(), width - x.bit_length())
        assert three == int(f"{x:0{width}b}"[::-1], 2)
        assert four == x.bit_length() - 1


def test_sums_of_products_of_bytes() -> None:
    a, b, c = (integers("u32", 256, seed) for seed in (1, 2, 3))

    def part(value: int, place: int, kind: str) -> int:
        return wrapped(value >> 8 * place, kind.replace("32", "8"))

    for first, second in itertools.product(("u32", "s32"), repeat=2):
        found = execute(f"dp4a.{first}.{second} %out, %in0, %in1, %in2;", [a, b, c], np.uint32)
        for x, y, z, got in zip(a.tolist(), b.tolist(), c.tolist(), found.tolist(), strict=True):
            truth = sum(part(x, n, first) * part(y, n, second) for n in range(4)) + z
            assert got == truth & 0xFFFFFFFF


def test_carries_go_from_one_word_to_the_next() -> None:
    a, b = integers("u64", 256, 1), integers("u64", 256, 2)
    split = "mov.b64 {%r0, %r1}, %in0; mov.b64 {%r2, %r3}, %in1;"
    for first, second, truth in (("add.cc", "addc", a + b), ("sub.cc", "subc", a - b)):
        body = f"{split} {first}.u32 %r4, %r0, %r2; {second}.u32 %r5, %r1, %r3; mov.b64 %out, {{%r4, %r5}};"
        np.testing.assert_array_equal(execute(body, [a, b], np.uint64), truth)


COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip


@pytest.mark.parametrize("comparison", COMPARISONS)
@pytest.mark.parametrize("kind", ["s32", "u32", "s64", "u16", "f32", "f16", "bf16", "f64"])
def test_comparisons(kind: str, comparison: str) -> None:
    if kind[0] in "us":
        a, b = integers(kind, 256, 1), integers(kind, 256, 2)
    else:
        dtype = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f64": np.float64}[kind]
        a, b = (np.random.default_rng(seed).integers(-3, 4, 256).astype(dtype) for seed in (1, 2))
        a[::7] = np.nan
        b[::5] = -0.0
    raw = [one.view(f"u{one.dtype.itemsize}") for one in (a, b)]
    x, y = (one.astype(np.float64) if kind[0] not in "us" else one for one in (a, b))
    ordered = COMPARISONS[comparison](x, y)
    nan = np.isnan(x) | np.isnan(y) if kind[0] not in "us" else np.zeros(256, bool)
    body = f"setp.{comparison}.{kind} %p0, %in0, %in1; selp.b32 %out, 1, 0, %p0;"
    np.testing.assert_array_equal(execute(body, raw, np.uint32) == 1, ordered & ~nan)
    if kind[0] not in "us":
        body = body.replace(f"setp.{comparison}.", f"setp.{comparison}u.")
        np.testing.assert_array_equal(execute(body, raw, np.uint32) == 1, ordered | nan)


def test_comparisons_that_are_combined_and_have_two_results() -> None:
    a, b = integers("s32", 256, 1), integers("s32", 256, 2)
    body = (
        "setp.lt.s32 %p0, %in0, 0; setp.gt.and.s32 %p1|%p2, %in0, %in1, !%p0;"
        "selp.b32 %r0, 1, 0, %p1; selp.b32 %r1, 2, 0, %p2; or.b32 %out, %r0, %r1;"
    )
    found = execute(body, [a, b], np.int32)
    np.testing.assert_array_equal(found, np.where(a < 0, 0, np.where(a > b, 1, 2)))


def test_the_extremes_of_floats_and_nan() -> None:
    a = np.array([1, np.nan, 0.0, -0.0, np.nan, -np.inf, 2, np.nan], np.float32)
    b = np.array([2, 1.0, -0.0, 0.0, np.nan, 1.0, 2, -np.inf], np.float32)
    least = execute("min.f32 %out, %in0, %in1;", [a, b], np.float32)
    np.testing.assert_array_equal(least, np.fmin(a, b))
    assert np.signbit(least[2:4]).all()
    most = execute("max.f32 %out, %in0, %in1;", [a, b], np.float32)
    np.testing.assert_array_equal(most, np.fmax(a, b))
    assert not np.signbit(most[2:4]).any()
    np.testing.assert_array_equal(execute("max.NaN.f32 %out, %in0, %in1;", [a, b], np.float32), np.maximum(a, b))
    halves = [one.astype(np.float16) for one in (a, b)]
    found = execute("max.f16 %out, %in0, %in1;", halves, np.float16)
    np.testing.assert_array_equal(found, np.fmax(*halves))


@pytest.mark.parametrize(
    ("instruction", "truth"),
    [
        ("sqrt.rn.f32", np.sqrt), ("rcp.rn.f32", lambda x: 1 / x), ("ex2.approx.ftz.f32", np.exp2),
        ("rsqrt.approx.f32", lambda x: 1 / np.sqrt(x)), ("lg2.approx.f32", np.log2), ("sin.approx.f32", np.sin),
        ("cos.approx.f32", np.cos), ("tanh.approx.f32", np.tanh), ("neg.f32", np.negative), ("abs.f32", np.abs),
    ],
)  # fmt: skip
def test_functions_of_floats(instruction: str, truth: Callable[[Array], Array]) -> None:
    a = np.abs(np.random.default_rng(0).standard_normal(256).astype(np.float32)) + np.float32(0.01)
    found = execute(f"{instruction} %out, %in0;", [a], np.float32)
    np.testing.assert_array_equal(found, truth(a.astype(np.float64)).astype(np.float32))


def test_quotients_of_floats_are_rounded_once() -> None:
    a, b = (np.random.default_rng(seed).standard_normal(256).astype(np.float32) for seed in (1, 2))
    for instruction in ("div.rn.f32", "div.full.f32", "div.approx.f32"):
        np.testing.assert_array_equal(execute(f"{instruction} %out, %in0, %in1;", [a, b], np.float32), a / b)


def test_words_are_put_together_and_taken_apart() -> None:
    a = integers("u64", 64, 1)
    body = "mov.b64 {%r0, %r1}, %in0; mov.b32 {%h0, %h1}, %r0; mov.b32 %r2, {%h1, %h0}; mov.b64 %out, {%r2, %r1};"
    found = execute(body, [a], np.uint64).view(np.uint16).reshape(-1, 4)
    np.testing.assert_array_equal(found, a.view(np.uint16).reshape(-1, 4)[:, [1, 0, 2, 3]])


@pytest.mark.parametrize(("of", "to"), list(itertools.product(INTEGERS, repeat=2)))
def test_integers_of_one_size_as_those_of_another(of: str, to: str) -> None:
    a = integers(of.replace("8", "16"), 256, 1)
    room = np.dtype(f"{'i' if to[0] == 's' else 'u'}{max(int(to[1:]), 16) // 8}")
    found = execute(f"cvt.{to}.{of} %out, %in0;", [a], room)
    assert found.tolist() == [wrapped(wrapped(int(x), of), to) for x in a]
    found = execute(f"cvt.sat.{to}.{of} %out, %in0;", [a], room)
    low, high = (0, (1 << int(to[1:])) - 1) if to[0] == "u" else (-(1 << int(to[1:]) - 1), (1 << int(to[1:]) - 1) - 1)
    assert found.tolist() == [min(max(wrapped(int(x), of), low), high) for x in a]


# What the threads of a warp do together.
@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize("width", [32, 16, 8, 4])
@pytest.mark.parametrize("by", [0, 1, 5, 16, 31])
def test_shuffles(mode: str, width: int, by: int) -> None:
    a = np.arange(100, 164, dtype=np.uint32)
    clamp = (32 - width) << 8 | (0 if mode == "up" else 31)
    body = (
        f"shfl.sync.{mode}.b32 %r0|%p0, %in0, {by}, {clamp}, 0xffffffff;"
        "selp.b32 %r1, 1000, 0, %p0; add.u32 %out, %r0, %r1;"
    )
    found = execute(body, [a], np.uint32)
    for thread, got in enumerate(found.tolist()):
        lane = thread % 32
        first = lane // width * width
        source = {"up": lane - by, "down": lane + by, "bfly": lane ^ by, "idx": first + by % width}[mode]
        inside = source >= first if mode == "up" else source < first + width
        value = 100 + thread // 32 * 32 + (source if inside else lane)
        assert got == value + (1000 if inside else 0), (thread, source)


def test_votes_and_reductions_of_warps() -> None:
    a = np.random.default_rng(0).integers(-4, 5, 64).astype(np.int32)
    rows = a.reshape(2, 32)

    def each(values: list[int]) -> list[int]:
        return [one for one in values for _ in range(32)]

    ballot = [sum(1 << lane for lane in range(32) if row[lane] > 0) for row in rows]
    found = execute("setp.gt.s32 %p0, %in0, 0; vote.sync.ballot.b32 %out, %p0, 0xffffffff;", [a], np.uint32)
    assert found.tolist() == each(ballot)
    for mode, truth in (("all", np.all), ("any", np.any)):
        body = f"setp.gt.s32 %p0, %in0, -4; vote.sync.{mode}.pred %p1, %p0, -1; selp.b32 %out, 1, 0, %p1;"
        assert execute(body, [a], np.uint32).tolist() == each([int(truth(row > -4)) for row in rows])
    for mode, reduce in (("add", np.sum), ("min", np.min), ("max", np.max)):
        found = execute(f"redux.sync.{mode}.s32 %out, %in0, 0xffffffff;", [a], np.int32)
        assert found.tolist() == each([int(reduce(row)) for row in rows])
    found = execute("match.any.sync.b32 %out, %in0, 0xffffffff;", [a], np.uint32)
    for thread, got in enumerate(found.tolist()):
        row = rows[thread // 32]
        assert got == sum(1 << lane for lane in range(32) if row[lane] == a[thread])


def test_halves_of_a_warp_vote_apart() -> None:
    a = np.arange(32, dtype=np.uint32)
    body = (
        "setp.lt.u32 %p0, %in0, 16; selp.b32 %r0, 0x0000ffff, 0xffff0000, %p0; and.b32 %r1, %in0, 1;"
        "setp.ne.u32 %p1, %r1, 0; vote.sync.ballot.b32 %out, %p1, %r0;"
    )
    assert execute(body, [a], np.uint32).tolist() == [0xAAAA] * 16 + [0xAAAA0000] * 16
    body = (
        "setp.lt.u32 %p0, %in0, 16; @%p0 bra LOW; redux.sync.add.u32 %out, %in0, 0xffff0000; bra.uni END;"
        "LOW: redux.sync.add.u32 %out, %in0, 0x0000ffff; END:"
    )
    assert execute(body, [a], np.uint32).tolist() == [sum(range(16))] * 16 + [sum(range(16, 32))] * 16


# Matrices.
def matrix_case(kind: str, depth: int) -> tuple[Array, Array, Array]:
    random = np.random.default_rng(depth)
    if kind == "s8":
        a, b = (random.integers(-128, 128, shape).astype(np.int8) for shape in ((16, depth), (depth, 8)))
        return a, b, random.integers(-999, 999, (16, 8)).astype(np.int32)
    dtype = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32}[kind]
    a, b = (random.integers(-8, 9, shape).astype(dtype) for shape in ((16, depth), (depth, 8)))
    return a, b, random.standard_normal((16, 8)).astype(np.float32)


@pytest.mark.parametrize(
    ("kind", "depth"), [("f16", 16), ("f16", 8), ("bf16", 16), ("bf16", 8), ("tf32", 8), ("tf32", 4), ("s8", 32)]
)
def test_products_of_matrices(kind: str, depth: int) -> None:
    a, b, c = matrix_case(kind, depth)
    per = 4 // a.dtype.itemsize
    lane = np.arange(32)
    group, within = lane // 4, lane % 4
    # The fragments as the ISA draws them: runs of `per` elements, four lanes a run of columns, eight rows a group.
    runs = depth // (4 * per)

    def words(parts: list[Array]) -> Array:
        return np.ascontiguousarray(np.stack(parts, 1)).view(np.uint32)

    left = [
        words([a[group + 8 * half, 4 * per * run + within * per + e] for e in range(per)])
        for run, half in itertools.product(range(runs), range(2))
    ]
    right = [words([b[4 * per * run + within * per + e, group] for e in range(per)]) for run in range(runs)]
    add = [c[group + 8 * (place // 2), 2 * within + place % 2].view(np.uint32) for place in range(4)]
    inputs = [one.reshape(-1) for one in (*left, *right, *add)]
    names = [f"%in{place}" for place in range(len(inputs))]
    split = (len(left), len(left) + len(right))
    operands = [", ".join(names[: split[0]]), ", ".join(names[split[0] : split[1]]), ", ".join(names[split[1] :])]
    types = "s32.s8.s8.s32" if kind == "s8" else f"f32.{kind}.{kind}.f32"
    truth = a.astype(np.float64) @ b.astype(np.float64) + c
    for place in range(4):
        body = (
            f"mma.sync.aligned.m16n8k{depth}.row.col.{types} {{%r0, %r1, %r2, %r3}}, "
            f"{{{operands[0]}}}, {{{operands[1]}}}, {{{operands[2]}}}; mov.b32 %out, %r{place};"
        )
        found = execute(body, inputs, c.dtype)
        wanted = truth[group + 8 * (place // 2), 2 * within + place % 2].astype(c.dtype)
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("transposed", [False, True])
def test_matrices_are_loaded_from_shared_memory(transposed: bool) -> None:
    a = np.arange(32, dtype=np.uint32)
    body = "\n".join(
        [
            "mul.lo.u32 %r0, %lane, 16; mov.u32 %r1, room; add.u32 %r1, %r1, %r0; shl.b32 %r2, %lane, 8;",
            *(
                f"add.u32 %r3, %r2, {2 * n}; add.u32 %r4, %r2, {2 * n + 1}; shl.b32 %r4, %r4, 16; or.b32 %r3, %r3, %r4;"
                f"st.shared.b32 [%r1+{4 * n}], %r3;"
                for n in range(4)
            ),
            "bar.warp.sync -1;",
            f"ldmatrix.sync.aligned.m8n8.x4{'.trans' if transposed else ''}.shared.b16 {{%r5, %r6, %r7, %r8}}, [%r1];",
            "mov.b64 %d0, {%r5, %r6}; mov.b64 %d1, {%r7, %r8}; mov.b64 %out, %d1;",
        ]
    )
    found = execute(body, [a], np.uint64, shared=512).view(np.uint16).reshape(32, 4)
    rows = np.array([[row << 8 | column for column in range(8)] for row in range(32)])
    for lane in range(32):
        for which in (2, 3):
            matrix = rows[8 * which : 8 * which + 8]
            matrix = matrix.T if transposed else matrix
            assert (
                found[lane, 2 * (which - 2) : 2 * which - 2].tolist() == matrix[lane // 4, lane % 4 * 2 :][:2].tolist()
            )


# Where threads go.
def test_a_table_of_branches() -> None:
    a = np.arange(64, dtype=np.uint32)
    body = (
        "rem.u32 %r0, %in0, 3; LIST: .branchtargets A, B, C; brx.idx %r0, LIST;"
        "A: mov.u32 %out, 10; bra.uni END; B: mov.u32 %out, 20; bra.uni END; C: mov.u32 %out, 30; END:"
    )
    assert execute(body, [a], np.uint32).tolist() == [(one % 3 + 1) * 10 for one in range(64)]


def test_loops_of_different_lengths_meet_again() -> None:
    a = np.random.default_rng(0).integers(0, 50, 256).astype(np.uint32)
    body = (
        "mov.u32 %r0, 0; mov.u32 %out, 0; setp.eq.u32 %p0, %in0, 0; @%p0 bra DONE;"
        "AGAIN: add.u32 %r0, %r0, 1; add.u32 %out, %out, %r0; setp.lt.u32 %p1, %r0, %in0; @%p1 bra AGAIN;"
        "DONE: shfl.sync.idx.b32 %r1, %out, 0, 31, 0xffffffff; sub.u32 %out, %out, %r1;"
    )
    for order in (0, 1, 2):
        found = execute(body, [a], np.uint32, order=order)
        sums = a.astype(np.int64) * (a + 1) // 2
        np.testing.assert_array_equal(found, (sums - np.repeat(sums[::32], 32)).astype(np.uint32))


def test_special_registers_in_three_dimensions() -> None:
    names = [f"%{what}.{axis}" for what in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"] + [
        "%laneid",
        "%warpid",
    ]
    text = [
        ".version 9.0\n.target sm_90\n.address_size 64",
        ".visible .entry k(.param .u64 p) { .reg .b32 %r<9>; .reg .b64 %a<9>; ld.param.u64 %a0, [p];",
        "mov.u32 %r0, %ctaid.z; mov.u32 %r1, %ctaid.y; mad.lo.s32 %r0, %r0, 3, %r1;",
        "mov.u32 %r1, %ctaid.x; mad.lo.s32 %r0, %r0, 2, %r1; mov.u32 %r1, %tid.z; mad.lo.s32 %r0, %r0, 4, %r1;",
        "mov.u32 %r1, %tid.y; mad.lo.s32 %r0, %r0, 5, %r1; mov.u32 %r1, %tid.x; mad.lo.s32 %r0, %r0, 3, %r1;",
        f"mad.wide.u32 %a1, %r0, {4 * len(names)}, %a0;",
        *(f"mov.u32 %r2, {name}; st.global.u32 [%a1+{4 * place}], %r2;" for place, name in enumerate(names)),
        "ret; }",
    ]
    grid, block = (2, 3, 4), (3, 5, 4)
    memory = ptx.Memory()
    out = memory.output("out", 24 * 60 * 4 * len(names))
    ptx.launch(ptx.Program.parse("\n".join(text)), "k", grid, block, [out], memory)
    found = memory.read("out", np.uint32, (4, 3, 2, 4, 5, 3, len(names)))
    for cz, cy, cx, tz, ty, tx in itertools.product(*map(range, found.shape[:-1])):
        number = tx + 3 * (ty + 5 * tz)
        truth = [tx, ty, tz, *block, cx, cy, cz, *grid, number % 32, number // 32]
        assert found[cz, cy, cx, tz, ty, tx].tolist() == truth


# A law: expressions of random operations.
_OPERATIONS: dict[str, tuple[str, Callable[[Array, Array], Array]]] = {
    "add": ("add.s32", np.add), "sub": ("sub.s32", np.subtract), "mul": ("mul.lo.s32", np.multiply),
    "and": ("and.b32", np.bitwise_and), "or": ("or.b32", np.bitwise_or), "xor": ("xor.b32", np.bitwise_xor),
    "min": ("min.s32", np.minimum), "max": ("max.s32", np.maximum),
    "fadd": ("add.f32", lambda a, b: (a.view(np.float32) + b.view(np.float32)).view(np.int32)),
    "fmul": ("mul.f32", lambda a, b: (a.view(np.float32) * b.view(np.float32)).view(np.int32)),
}  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(_OPERATIONS)), st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=20
    ),
    st.integers(0, 2**32 - 1),
)
def test_expressions_are_what_numpy_makes_of_them(steps: list[tuple[str, int, int]], seed: int) -> None:
    inputs = [
        np.random.default_rng(seed + place).standard_normal(64).astype(np.float32).view(np.int32) for place in range(2)
    ]
    values, names, body = list(inputs), ["%in0", "%in1"], []
    with np.errstate(all="ignore"):
        for place, (operation, left, right) in enumerate(steps):
            instruction, apply = _OPERATIONS[operation]
            a, b = left % len(values), right % len(values)
            body.append(f"{instruction} %r{place}, {names[a]}, {names[b]};")
            values.append(apply(values[a], values[b]))
            names.append(f"%r{place}")
    found = execute(" ".join(body) + f" mov.b32 %out, {names[-1]};", inputs, np.int32)
    floats = found.view(np.float32), values[-1].view(np.float32)
    nan = np.isnan(floats[0]) & np.isnan(floats[1])  # whose bits are nobody's promise
    np.testing.assert_array_equal(found[~nan], values[-1][~nan])


def test_what_a_text_says_is_what_is_run() -> None:
    program = ptx.Program.parse(module("mov.b32 %out, %in0;", 1, [32], 32))
    assert list(program.entries) == ["k"]
    assert program.entries["k"].parameters == (ptx.Parameter("p0", "u64"), ptx.Parameter("p1", "u64"))
    assert "mma" in ptx.instructions()


@pytest.mark.parametrize(
    ("body", "truth"),
    [
        ("sad.s32 %out, %in0, %in1, %in2;", lambda a, b, c: abs(a - b) + c),
        ("slct.s32.s32 %out, %in0, %in1, %in2;", lambda a, b, c: a if c >= 0 else b),
        ("set.lt.u32.s32 %out, %in0, %in1;", lambda a, b, _c: -1 if a < b else 0),
        ("mul24.lo.s32 %out, %in0, %in1;", lambda a, b, _c: wrapped(a, "s24") * wrapped(b, "s24")),
        ("cnot.b32 %out, %in0;", lambda a, _b, _c: int(a == 0)),
        ("not.b32 %out, %in0;", lambda a, _b, _c: ~a),
        ("neg.s32 %out, %in0;", lambda a, _b, _c: -a),
        ("abs.s32 %out, %in0;", lambda a, _b, _c: abs(a)),
        ("add.sat.s32 %out, %in0, %in1;", lambda a, b, _c: min(max(a + b, -(1 << 31)), (1 << 31) - 1)),
        ("mad.lo.s32 %out, %in0, %in1, %in2;", lambda a, b, c: a * b + c),
        ("mad.hi.sat.s32 %out, %in0, %in1, %in2;",
         lambda a, b, c: min(max((a * b >> 32) + c, -(1 << 31)), (1 << 31) - 1)),
        ("bfind.shiftamt.u32 %out, %in0;", lambda a, _b, _c: 32 - (a & 0xFFFFFFFF).bit_length() if a else -1),
        ("lop3.or.b32 %r0|%p1, %in0, %in1, %in2, 0x80, 0; selp.b32 %out, 1, 0, %p1;",
         lambda a, b, c: int(a & b & c != 0)),
        ("mov.b32 {%h0, _}, %in0; cvt.s32.s16 %out, %h0;", lambda a, _b, _c: wrapped(a, "s16")),
        ("dp2a.lo.s32.s32 %out, %in0, %in1, %in2;",
         lambda a, b, c: sum(wrapped(a >> 16 * n, "s16") * wrapped(b >> 8 * n, "s8") for n in range(2)) + c),
        ("dp2a.hi.s32.u32 %out, %in0, %in1, %in2;",
         lambda a, b, c: sum(wrapped(a >> 16 * n, "s16") * wrapped(b >> 8 * n + 16, "u8") for n in range(2)) + c),
    ],
)  # fmt: skip
def test_seldom_ones(body: str, truth: Callable[[int, int, int], int]) -> None:
    a, b, c = (integers("s32", 256, seed) for seed in (1, 2, 3))
    found = execute(body, [a, b, c], np.int32)
    assert found.tolist() == [wrapped(truth(*map(int, one)), "s32") for one in zip(a, b, c, strict=True)]


def test_tests_of_floats() -> None:
    a = np.array([0, -0.0, 1, np.inf, -np.inf, np.nan, 1e-40, -3], np.float32)
    tests: dict[str, Callable[[Array], Array]] = {
        "finite": np.isfinite, "infinite": np.isinf, "notanumber": np.isnan, "number": lambda x: ~np.isnan(x),
        "subnormal": lambda x: (x != 0) & (abs(x) < 1e-38), "normal": lambda x: np.isfinite(x) & (abs(x) > 1e-38),
    }  # fmt: skip
    for name, truth in tests.items():
        found = execute(f"testp.{name}.f32 %p0, %in0; selp.b32 %out, 1, 0, %p0;", [a], np.uint32)
        np.testing.assert_array_equal(found == 1, truth(a))
    b = np.array([1, 2, -3, 4, 5, 6, -7, 8], np.float32)
    np.testing.assert_array_equal(execute("copysign.f32 %out, %in0, %in1;", [a, b], np.float32), np.copysign(b, a))


def test_what_all_of_a_warp_agree_on() -> None:
    a = np.repeat(np.array([3, 5], np.uint32), 32)
    a[40] = 6
    body = "match.all.sync.b32 %r0|%p0, %in0, -1; selp.b32 %r1, 1, 0, %p0; min.u32 %r0, %r0, 1; add.u32 %out, %r1, %r0;"
    assert execute(body, [a], np.uint32).tolist() == [2] * 32 + [0] * 32
    body = "elect.sync %r0|%p0, -1; selp.b32 %r1, 10, 0, %p0; add.u32 %out, %r0, %r1;"
    assert execute(body, [a], np.uint32).tolist() == ([10] + [0] * 31) * 2
    body = "setp.eq.u32 %p0, %in0, 5; vote.sync.uni.pred %p1, %p0, -1; selp.b32 %out, 1, 0, %p1;"
    assert execute(body, [a], np.uint32).tolist() == [1] * 32 + [0] * 32


def test_addresses_of_any_space() -> None:
    # Some threads read what is shared, others what is global, by one instruction.
    a = np.arange(64, dtype=np.uint32)
    body = (
        ".local .align 4 .b8 own[8]; mov.u32 %r0, room; mad.lo.u32 %r1, %lane, 4, %r0; add.u32 %r2, %lane, 500;"
        "st.shared.b32 [%r1], %r2; bar.sync 0; ld.param.u64 %d0, [p0]; mad.wide.u32 %d1, %lane, 4, %d0;"
        "mov.u64 %d2, room; cvta.shared.u64 %d2, %d2; mad.wide.u32 %d3, %lane, 4, %d2;"
        "mov.u64 %d4, own; cvta.local.u64 %d4, %d4; add.u32 %r3, %lane, 900; st.b32 [%d4+4], %r3;"
        "and.b32 %r4, %lane, 3; setp.eq.u32 %p0, %r4, 0; setp.eq.u32 %p1, %r4, 1; add.s64 %d5, %d4, 4;"
        "selp.b64 %d6, %d3, %d5, %p1; selp.b64 %d6, %d1, %d6, %p0; ld.b32 %out, [%d6];"
        "isspacep.shared %p2, %d6; @%p2 add.u32 %out, %out, 10000;"
    )
    found = execute(body, [a], np.uint32, shared=256).tolist()
    assert found == [n if n % 4 == 0 else 10500 + n if n % 4 == 1 else 900 + n for n in range(64)]


def test_thirty_two_bytes_at_once() -> None:
    x = np.arange(256, dtype=np.uint32)
    text = """
        .version 9.0
        .target sm_100
        .address_size 64
        .visible .entry k(.param .u64 x, .param .u64 y)
        {
          .reg .b32 %r<9>, %l; .reg .b64 %x, %y;
          ld.param.u64 %x, [x]; ld.param.u64 %y, [y]; mov.u32 %l, %tid.x;
          mad.wide.u32 %x, %l, 32, %x; mad.wide.u32 %y, %l, 32, %y;
          ld.global.v8.b32 {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, [%x];
          st.global.v8.b32 [%y], {%r7, %r6, %r5, %r4, %r3, %r2, %r1, %r0};
          ret;
        }
        """
    memory = ptx.Memory()
    arguments = [memory.add("x", x), memory.output("y", 1024)]
    counted = ptx.launch(ptx.Program.parse(text), "k", (1, 1, 1), (32, 1, 1), arguments, memory)
    found = memory.read("y", np.uint32, (32, 8))
    np.testing.assert_array_equal(found, x.reshape(32, 8)[:, ::-1])
    assert (counted.requested_sectors_read, counted.requested_sectors_written) == (32, 32)


@pytest.mark.parametrize("kind", ["f16x2", "bf16x2", "f32", "f64", "u32", "u64"])
def test_sums_of_many_threads(kind: str) -> None:
    dtype = {"f16x2": np.float16, "bf16x2": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64, "u32": np.uint32,
             "u64": np.uint64}[kind]  # fmt: skip
    size = {"f16x2": 4, "bf16x2": 4, "f32": 4, "f64": 8, "u32": 4, "u64": 8}[kind]
    text = f"""
        .visible .entry k(.param .u64 x, .param .u64 y)
        {{
          .reg .b32 %l, %m; .reg .b64 %x, %y; .reg .b{8 * size} %v;
          ld.param.u64 %x, [x]; ld.param.u64 %y, [y]; mov.u32 %l, %tid.x; and.b32 %m, %l, 3;
          mad.wide.u32 %x, %l, {size}, %x; mad.wide.u32 %y, %m, {size}, %y;
          ld.global.b{8 * size} %v, [%x]; red.global.add{".noftz" if "x2" in kind else ""}.{kind} [%y], %v;
          ret;
        }}
        """
    count = 64 * size // np.dtype(dtype).itemsize
    x = np.random.default_rng(0).integers(0, 4, count).astype(dtype)
    memory = ptx.Memory()
    arguments = [memory.add("x", x), memory.add("y", np.zeros(4 * size, np.uint8), writable=True)]
    ptx.launch(ptx.Program.parse(text), "k", (1, 1, 1), (64, 1, 1), arguments, memory)
    found = memory.read("y", dtype, (4, count // 64)).astype(np.float64)
    np.testing.assert_array_equal(found, x.astype(np.float64).reshape(16, 4, -1).sum(0))


def test_a_carry_is_that_of_its_own_lane() -> None:
    a = np.arange(64, dtype=np.uint32)
    body = "setp.lt.u32 %p0, %in0, 20; add.cc.u32 %r1, 1, -1; @%p0 add.cc.u32 %r1, 0, 0; addc.u32 %out, %in0, 0;"
    assert execute(body, [a], np.uint32).tolist() == [n if n < 20 else n + 1 for n in range(64)]


def test_an_undefined_predicate_beside_one_that_decides() -> None:
    a = np.arange(64, dtype=np.uint32)
    start = "setp.lt.u32 %p0, %in0, 20; @%p0 bra SKIP; setp.eq.u32 %p1, %in0, 30; SKIP:"
    body = f"{start} not.pred %p2, %p0; and.pred %p3, %p1, %p2; selp.b32 %out, 1, 0, %p3;"
    assert execute(body, [a], np.uint32).tolist() == [int(n == 30) for n in range(64)]
    body = f"{start} or.pred %p3, %p0, %p1; selp.b32 %out, 1, 0, %p3;"
    assert execute(body, [a], np.uint32).tolist() == [int(n < 20 or n == 30) for n in range(64)]
    with pytest.raises(ptx.Fault, match="uninitialised"):
        execute(f"{start} and.pred %p3, %p1, %p0; selp.b32 %out, 1, 0, %p3;", [a], np.uint32)
