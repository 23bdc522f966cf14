"""Units, dtype widths and the one way to print a number.

Time is kept in integer nanoseconds, work in FLOP and bytes. Prefixes are SI: 1 TB/s = 1e12 B/s.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

FLOP_PER_MAC = 2
"""One multiply-accumulate is two floating-point operations, everywhere in trtprof."""

DTYPE_BITS: dict[str, int] = {
    "fp64": 64, "fp32": 32, "fp16": 16, "bf16": 16,
    "fp8e4m3fn": 8, "fp8e4m3fnuz": 8, "fp8e5m2": 8, "fp8e5m2fnuz": 8, "fp8e8m0": 8,
    "fp6e2m3": 6, "fp6e3m2": 6, "fp4e2m1": 4,
    "int64": 64, "int32": 32, "int16": 16, "int8": 8, "int4": 4, "int2": 2,
    "uint64": 64, "uint32": 32, "uint16": 16, "uint8": 8, "uint4": 4, "uint2": 2,
    "bool": 8, "complex64": 64, "complex128": 128,
}  # fmt: skip
"""Storage width in bits of one element; ``string`` has none and is left out on purpose."""

NUMPY_DTYPES: dict[str, str] = {
    "fp64": "float64", "fp32": "float32", "fp16": "float16", "int64": "int64", "int32": "int32",
    "int16": "int16", "int8": "int8", "uint64": "uint64", "uint32": "uint32", "uint16": "uint16",
    "uint8": "uint8", "bool": "bool",
}  # fmt: skip
"""The dtypes that a numpy array can hold, by numpy's names for them."""


SPECIAL_FLOPS: dict[str, int] = {
    "sqrt": 4,
    "exp": 8, "log": 8, "pow": 8, "erf": 8, "tanh": 8, "sin": 8, "cos": 8, "tan": 8, "sinh": 8, "cosh": 8,
    "asin": 8, "acos": 8, "atan": 8, "asinh": 8, "acosh": 8, "atanh": 8,
}  # fmt: skip
"""FLOP that one evaluation of a special function counts as.

The weights of the Livermore loops (F. H. McMahon, UCRL-53745, 1986) as the PARKBENCH committee took
them over (R. Hockney and M. Berry, Public international benchmarks for parallel computers, Scientific
Programming 3(2), 1994): 4 for a square root, 8 for exp, sin and the like. What hardware takes is more
at full precision, so that a time from these counts stays a lower bound. Their 4 for a divide is not
taken over: the formulas of the deep-learning literature count it as 1, as `Work.vector_flops` does.
"""


def is_float(dtype: str) -> bool:
    """Whether values of the dtype are real floating-point numbers, of any width."""
    return dtype.startswith(("fp", "bf"))


def dtype_bytes(dtype: str, elements: int) -> int:
    """Bytes that ``elements`` values of ``dtype`` take, sub-byte types packed and rounded up."""
    return -(-DTYPE_BITS[dtype] * elements // 8)


def _scaled(value: float, steps: tuple[tuple[float, str], ...]) -> str:
    for factor, unit in steps:
        if abs(value) >= factor:
            return f"{_digits(value / factor)} {unit}"
    factor, unit = steps[-1]
    return f"{_digits(value / factor)} {unit}"


def _digits(value: float) -> str:
    """Three significant digits: 0.248, 12.4, 1430; with an exponent from a million million on, 5.19e+21."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else "-"
    magnitude = math.floor(math.log10(abs(value)))
    if magnitude >= _MOST_DIGITS:
        return f"{value:.3g}"
    return f"{value:.{min(max(2 - magnitude, 0), 6)}f}"


_MOST_DIGITS = 12
"""Digits before the point that a person still reads; a float has no more than 17 that are true."""

_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1, "ns"))


NS_BY_UNIT = {"ns": 1.0, "us": 1e3, "\u00b5s": 1e3, "\u03bcs": 1e3, "ms": 1e6, "s": 1e9}
"""What a unit of time is in ns, in lower case; both signs for micro."""
_TIME = re.compile(r"([0-9]{1,15}(?:\.[0-9]{0,15})?)\s*([a-z\u00b5\u03bc]+)", re.IGNORECASE)


def parse_ns(text: str) -> int:
    """A duration with its unit, ``10 ms``, in ns."""
    found = _TIME.fullmatch(text.strip())
    if found is None or found[2].lower() not in NS_BY_UNIT:
        raise ValueError(f"{text!r} is no time")
    return round(float(found[1]) * NS_BY_UNIT[found[2].lower()])


def format_ns(ns: float) -> str:
    """A duration in ns with the SI unit that suits its size, three significant digits."""
    return _scaled(ns, _TIMES)


def format_seconds(seconds: float) -> str:
    """How long a person waits: ``40 s``, ``12 min``, ``2 h 05 min``, ``3 days``."""
    if seconds < 90:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"
    minutes = round(seconds / 60)
    hours, rest = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {rest:02} min" if hours else f"{minutes} min"
    return f"{hours / 24:.0f} days"


def ns_unit(ns: float) -> tuple[float, str]:
    """The SI unit that suits the size of a duration, and how many ns it has."""
    return next(((factor, unit) for factor, unit in _TIMES if abs(ns) >= factor), _TIMES[-1])


def in_unit(ns: float, factor: float) -> str:
    """A duration as a number of that unit, for a column: three significant digits, three decimals at most."""
    value = ns / factor
    if 0 < abs(value) < 0.001:
        return "<0.001" if value > 0 else "-0.000"
    return _digits(value) if abs(value) >= 1 or not value else f"{value:.3f}"


def format_band(ns: float, low_ns: float, high_ns: float) -> str:
    """An expected duration with its band, which always has its level: ``~3.50 ms (3.00 .. 4.20, 80 %)``."""
    factor, unit = ns_unit(ns)
    return f"~{in_unit(ns, factor)} {unit} ({in_unit(low_ns, factor)} .. {in_unit(high_ns, factor)}, 80 %)"


def format_bytes(count: float) -> str:
    """A byte count with an SI prefix (1 MB = 1e6 B)."""
    return _scaled(count, ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B")))


def format_flops(count: float) -> str:
    """A count of floating-point operations with an SI prefix."""
    return _scaled(count, ((1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP"), (1e3, "kFLOP"), (1, "FLOP")))


def format_rate(per_second: float, unit: str) -> str:
    """A rate with an SI prefix, for example ``format_rate(1e12, "B/s") == "1.00 TB/s"``."""
    return _scaled(per_second, ((1e12, f"T{unit}"), (1e9, f"G{unit}"), (1e6, f"M{unit}"), (1e3, f"k{unit}"), (1, unit)))


def format_percent(fraction: float) -> str:
    """A fraction as a percentage with one decimal."""
    return f"{100 * fraction:.1f} %"


def format_shape(dims: Sequence[int | str] | None) -> str:
    """Dimensions as ``1x3x224x224``: ``?`` for what is not known, which in a plan is below 0."""
    if dims is None:
        return "?"
    return "x".join(["?" if isinstance(dim, int) and dim < 0 else str(dim) for dim in dims]) or "scalar"


def format_names(names: Sequence[str], most: int = 3) -> str:
    """The first of several names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
