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


def test_integers(subtests: pytest.Subtests) -> None:
    for kind in ("s16", "u16", "s32", "u32", "s64", "u64"):
        for operation, function in BINARY.items():
            with subtests.test(f"{operation} {kind}"):
                a, b = integers(kind, 256, 1), integers(kind, 256, 2)
                if operation in ("div", "rem"):
                    b[b == 0] = 3
                found = execute(f"{operation}.{kind} %out, %in0, %in1;", [a, b], a.dtype)
                truth = [wrapped(function(int(x), int(y)), kind) for x, y in zip(a, b, strict=True)]
                assert found.tolist() == truth


def test_carries_go_from_one_word_to_the_next() -> None:
    a, b = integers("u64", 256, 1), integers("u64", 256, 2)
    split = "mov.b64 {%r0, %r1}, %in0; mov.b64 {%r2, %r3}, %in1;"
    for first, second, truth in (("add.cc", "addc", a + b), ("sub.cc", "subc", a - b)):
        body = f"{split} {first}.u32 %r4, %r0, %r2; {second}.u32 %r5, %r1, %r3; mov.b64 %out, {{%r4, %r5}};"
        np.testing.assert_array_equal(execute(body, [a, b], np.uint64), truth)


COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip


def test_comparisons(subtests: pytest.Subtests) -> None:
    for kind in ("s32", "u32", "s64", "u16", "f32", "f16", "bf16", "f64"):
        for comparison, compare in COMPARISONS.items():
            with subtests.test(f"{comparison} {kind}"):
                if kind[0] in "us":
                    a, b = integers(kind, 256, 1), integers(kind, 256, 2)
                else:
                    dtype = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f64": np.float64}[kind]
                    a, b = (np.random.default_rng(seed).integers(-3, 4, 256).astype(dtype) for seed in (1, 2))
                    a[::7] = np.nan
                    b[::5] = -0.0
                raw = [one.view(f"u{one.dtype.itemsize}") for one in (a, b)]
                x, y = (one.astype(np.float64) if kind[0] not in "us" else one for one in (a, b))
                ordered = compare(x, y)
                nan = np.isnan(x) | np.isnan(y) if kind[0] not in "us" else np.zeros(256, bool)
                body = f"setp.{comparison}.{kind} %p0, %in0, %in1; selp.b32 %out, 1, 0, %p0;"
                np.testing.assert_array_equal(execute(body, raw, np.uint32) == 1, ordered & ~nan)
                if kind[0] not in "us":
                    body = body.replace(f"setp.{comparison}.", f"setp.{comparison}u.")
                    np.testing.assert_array_equal(execute(body, raw, np.uint32) == 1, ordered | nan)


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


def test_functions_of_floats(subtests: pytest.Subtests) -> None:
    for instruction, truth in (
        ("sqrt.rn.f32", np.sqrt),
        ("rcp.rn.f32", lambda x: 1 / x),
        ("ex2.approx.ftz.f32", np.exp2),
        ("rsqrt.approx.f32", lambda x: 1 / np.sqrt(x)),
        ("lg2.approx.f32", np.log2),
        ("sin.approx.f32", np.sin),
        ("cos.approx.f32", np.cos),
        ("tanh.approx.f32", np.tanh),
        ("neg.f32", np.negative),
        ("abs.f32", np.abs),
    ):
        with subtests.test(instruction):
            a = np.abs(np.random.default_rng(0).standard_normal(256).astype(np.float32)) + np.float32(0.01)
            found = execute(f"{instruction} %out, %in0;", [a], np.float32)
            np.testing.assert_array_equal(found, truth(a.astype(np.float64)).astype(np.float32))


def test_integers_of_one_size_as_those_of_another(subtests: pytest.Subtests) -> None:
    for of, to in list(itertools.product(INTEGERS, repeat=2)):
        with subtests.test(f"{of} {to}"):
            a = integers(of.replace("8", "16"), 256, 1)
            room = np.dtype(f"{'i' if to[0] == 's' else 'u'}{max(int(to[1:]), 16) // 8}")
            found = execute(f"cvt.{to}.{of} %out, %in0;", [a], room)
            assert found.tolist() == [wrapped(wrapped(int(x), of), to) for x in a]
            found = execute(f"cvt.sat.{to}.{of} %out, %in0;", [a], room)
            low, high = (
                (0, (1 << int(to[1:])) - 1) if to[0] == "u" else (-(1 << int(to[1:]) - 1), (1 << int(to[1:]) - 1) - 1)
            )
            assert found.tolist() == [min(max(wrapped(int(x), of), low), high) for x in a]


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
