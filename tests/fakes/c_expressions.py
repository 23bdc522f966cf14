"""Random expressions, as C writes them and as Python's numbers compute them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from random import Random
from typing import Any, NamedTuple

import numpy as np

from trtprof.plugin import ptx

WORD = (1 << 32) - 1
CONSTANTS = (1, 2, 3, 7, 10, 13, 64, 100, 641, 12345, 2**31 - 1, WORD)


class Operation(NamedTuple):
    """How C writes an operation of ``{0}``, ``{1}``, ..., and what it is."""

    text: str
    compute: Callable[..., Any]
    operands: int = 2


class Expression(NamedTuple):
    """An operation on others, or a name or a constant."""

    text: str
    compute: Callable[[Mapping[str, Any]], Any]


def _signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value


def _quotient(a: int, b: int) -> int:
    a, b = _signed(a), _signed(b)
    return (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)


WHOLE = (
    Operation("({0} + {1})", lambda a, b: a + b),
    Operation("({0} - {1})", lambda a, b: a - b),
    Operation("({0} * {1})", lambda a, b: a * b),
    Operation("({0} & {1})", lambda a, b: a & b),
    Operation("({0} | {1})", lambda a, b: a | b),
    Operation("({0} ^ {1})", lambda a, b: a ^ b),
    Operation("({0} / ({1} | 1u))", lambda a, b: a // (b | 1)),
    Operation("({0} % ({1} | 1u))", lambda a, b: a % (b | 1)),
    Operation("(unsigned)((int){0} / (int)(({1} & 0x7fffffffu) | 1u))", lambda a, b: _quotient(a, b & 0x7FFFFFFF | 1)),
    Operation("({0} << ({1} & 31u))", lambda a, b: a << (b & 31)),
    Operation("({0} >> ({1} & 31u))", lambda a, b: a >> (b & 31)),
    Operation("(unsigned)((int){0} >> ({1} & 31u))", lambda a, b: _signed(a) >> (b & 31)),
    Operation("({0} < {1} ? {2} : {0})", lambda a, b, c: c if a < b else a, 3),
    Operation("((int){0} < (int){1} ? {2} : {1})", lambda a, b, c: c if _signed(a) < _signed(b) else b, 3),
    Operation("__umulhi({0}, {1})", lambda a, b: a * b >> 32),
    Operation("(unsigned)__mulhi((int){0}, (int){1})", lambda a, b: _signed(a) * _signed(b) >> 32),
    Operation("(unsigned)(((unsigned long long){0} * {1} + {2}) >> 17)", lambda a, b, c: a * b + c >> 17, 3),
    Operation(
        "(unsigned)(((unsigned long long){0} << 20 | {1}) / ({2} | 1u))", lambda a, b, c: (a << 20 | b) // (c | 1), 3
    ),
    Operation("(unsigned)__popc({0})", lambda a: a.bit_count(), 1),
    Operation("(unsigned)__clz({0})", lambda a: 32 - a.bit_length(), 1),
    Operation("__brev({0})", lambda a: int(f"{a:032b}"[::-1], 2), 1),
    Operation("(unsigned)(signed char){0}", lambda a: (a & 255) - 256 if a & 128 else a & 255, 1),
    Operation("(unsigned)(unsigned short){0}", lambda a: a & 0xFFFF, 1),
)


def _extreme(a: np.float32, b: np.float32, *, least: bool) -> Any:
    """Of a number and NaN the number; -0 is less than +0."""
    if a == b:
        return a if bool(np.signbit(a)) == least else b
    return np.fmin(a, b) if least else np.fmax(a, b)


def _fma(a: np.float32, b: np.float32, c: np.float32) -> np.float32:
    if not all(np.isfinite(one) for one in (a, b, c)):
        return np.float32(float(a) * float(b) + float(c))
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    if exact == 0:
        return np.float32(a * b + c)
    return _nearest(exact)


def _nearest(value: Fraction) -> np.float32:
    """To nearest even, by the definition."""
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    unit = Fraction(2) ** (max(exponent, -126) - 23)
    found = float(round(size / unit) * unit)
    with np.errstate(over="ignore"):
        return np.float32(found if value > 0 else -found)


FLOAT = (
    Operation("__fadd_rn({0}, {1})", lambda a, b: a + b),
    Operation("__fsub_rn({0}, {1})", lambda a, b: a - b),
    Operation("__fmul_rn({0}, {1})", lambda a, b: a * b),
    Operation("__fmaf_rn({0}, {1}, {2})", _fma, 3),
    Operation("__fdiv_rn({0}, {1})", lambda a, b: a / b),
    Operation("__fsqrt_rn(fabsf({0}))", lambda a: np.sqrt(abs(a)), 1),
    Operation("({0} < {1} ? {2} : {0})", lambda a, b, c: c if a < b else a, 3),
    Operation("fminf({0}, {1})", lambda a, b: _extreme(a, b, least=True)),
    Operation("fmaxf({0}, {1})", lambda a, b: _extreme(a, b, least=False)),
    Operation("(-{0})", lambda a: -a, 1),
    Operation("truncf({0})", np.trunc, 1),
    Operation("floorf({0})", np.floor, 1),
    Operation("rintf({0})", np.rint, 1),
)


def expression(random: Random, operations: tuple[Operation, ...] = WHOLE, depth: int = 4) -> Expression:
    """An expression of a, b and c: ``unsigned``, or ``float``."""
    whole = operations is WHOLE
    if depth == 0 or random.random() < 0.15:
        if random.random() < 0.6:
            name = random.choice("abc")
            return Expression(name, lambda values: values[name])
        constant = random.choice(CONSTANTS)
        if whole:
            return Expression(f"{constant}u", lambda _: constant)
        return Expression(f"{constant % 1000}.0f", lambda _: np.float32(constant % 1000))
    chosen = random.choice(operations)
    of = [expression(random, operations, depth - 1) for _ in range(chosen.operands)]

    def compute(values: Mapping[str, Any]) -> Any:
        found = chosen.compute(*(one.compute(values) for one in of))
        return int(found) & WORD if whole else np.float32(found)

    return Expression(chosen.text.format(*(one.text for one in of)), compute)


def kernel(expressions: list[Expression], kind: str) -> str:
    """A kernel ``k`` of one block: row by row what each expression makes of the columns of x."""
    lines = "".join(f"  y[{place} * n + i] = {one.text};\n" for place, one in enumerate(expressions))
    return (
        f'extern "C" __global__ void k(const {kind} *x, {kind} *y) {{\n  int i = threadIdx.x, n = blockDim.x;\n'
        f"  {kind} a = x[i], b = x[n + i], c = x[2 * n + i];\n{lines}}}"
    )


def differences(seed: int, kind: str, compiled: Callable[[str], ptx.Program], count: int = 12) -> list[str]:
    """Random expressions of one kind, executed: those that are not what they should be."""
    random = Random(seed)
    expressions = [expression(random, WHOLE if kind == "unsigned" else FLOAT) for _ in range(count)]
    bits = [[random.getrandbits(32) >> random.randrange(32) for _ in range(32)] for _ in range(3)]
    x = np.array(bits, np.uint32)
    if kind == "float":
        small = np.array([[random.gauss(0, 1) for _ in range(32)] for _ in range(3)], np.float32)
        x = np.where(np.isfinite(x.view(np.float32)) & (x % 2 == 0), x, small.view(np.uint32))
    memory = ptx.Memory()
    arguments = [memory.add("x", x), memory.output("y", 128 * count)]
    ptx.launch(compiled(kernel(expressions, kind)), "k", (1, 1, 1), (32, 1, 1), arguments, memory)
    found = memory.read("y", np.uint32, (count, 32))
    values = x if kind == "unsigned" else x.view(np.float32)
    wrong = []
    with np.errstate(all="ignore"):
        for one, row in zip(expressions, found, strict=True):
            for column, got in zip(values.T, row, strict=True):
                given = [int(v) if kind == "unsigned" else v for v in column]
                truth = one.compute(dict(zip("abc", given, strict=True)))
                if kind == "float":
                    nan = bool(np.isnan(got.view(np.float32)) and np.isnan(truth))
                    same = nan or int(got) == int(truth.view(np.uint32))
                else:
                    same = int(got) == truth
                if not same:
                    wrong.append(f"{one.text} of {given}: {got}, not {truth}")
                    break
    return wrong
