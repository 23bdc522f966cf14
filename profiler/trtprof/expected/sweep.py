"""Which kernels to time on a GPU so that they correct what is expected there, and how much better that makes it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from trtprof.base.records import Ceilings, Core, GpuSpec, Work
from trtprof.expected.features import device_of, rows_of, soonest
from trtprof.expected.measured import TimedWork, learn, work_at
from trtprof.expected.model import class_of, document, dtype_on, expect

COUNT = 300
"""Kernels that are timed."""
MOST_BYTES = 1 << 30
"""What a kernel may touch: so much is taken of any GPU that has four times as much free."""
LONGEST_NS = 10e6
"""What a kernel may be expected to take: it runs some twenty times."""

_SHARES = {"product": 160, "product fp32": 50, "pointwise": 30, "softmax": 25, "normalisation": 35}
"""Of `COUNT`, by class: what models spend their time on, and what depends on most dimensions, has most."""
_DTYPES = {
    "product": ("bf16", "fp16", "fp8e4m3fn"),
    "product fp32": ("fp32",),
    "pointwise": ("fp16", "fp32"),
    "softmax": ("fp32",),
    "normalisation": ("fp16", "fp32"),
}
"""What is timed of a class, as far as a GPU has it. Products of int8 are not: the library gives them out in 32 bits,
which no deployed kernel does."""
_OVER = 12
"""Candidates for each kernel that is chosen."""
_ALIGNED = 16
"""Rows and columns of weights are multiples of it, as units for 8 bits need them."""
_PIECE = 16 << 10
"""Bytes that copies are multiples of."""


def works_to_time(
    spec: GpuSpec, ceilings: Ceilings, lengths: Mapping[str, Sequence[int]], *, count: int = COUNT
) -> tuple[Work, ...]:
    """The kernels to time on a GPU: spread over the range of what the model knows, as far as that says anything of it.

    The order is such that whatever part of them is timed, from the first on, has each class in its share and covers the
    range.

    Args:
        lengths: By dtype, the rows of softmax and normalisation that there are kernels for.
    """
    groups = {name: _candidates(name, spec, lengths, count) for name in _SHARES}
    known = [work for some in groups.values() for work in some]
    told = {id(work): one for work, one in zip(known, expect(known, spec, ceilings, tf32=False), strict=True)}
    usable = {}
    for name, some in groups.items():
        fits = [work for work in some if told[id(work)].firm and (told[id(work)].expected_ns or 0) <= LONGEST_NS]
        if fits:
            usable[name] = fits
    whole = sum(_SHARES[name] for name in usable)
    placed: list[tuple[float, str, Work]] = []
    for name, some in usable.items():
        share = min(round(count * _SHARES[name] / whole), len(some))
        placed += [((at + 0.5) / share, name, work) for at, work in enumerate(some[:share])]
    return tuple(work for _, _, work in sorted(placed, key=lambda one: one[:2]))[:count]


def _candidates(name: str, spec: GpuSpec, lengths: Mapping[str, Sequence[int]], count: int) -> list[Work]:
    kind = name.split(maxsplit=1)[0]
    range_of = document().classes[name].range
    dtypes = [
        dtype for dtype in _DTYPES[name] if (kind != "product" or dtype in spec.tensor_flops_per_s or dtype == "fp32")
    ]
    found: dict[tuple[Core, str], Work] = {}
    core_of = _CORES[kind]
    for *point, which in itertools.islice(_halton(), _OVER * count if dtypes else 0):
        dtype = dtypes[int(which * len(dtypes))]
        core = core_of(point, range_of, dtype, lengths)
        if core is None:
            continue
        work = work_at(core, dtype)
        if work.bytes <= min(MOST_BYTES, spec.memory_bytes.value / 8):
            found.setdefault((core, dtype), work)
    return list(found.values())


_Range = Mapping[str, tuple[float, float]]
_Point = Sequence[float]


def _between(share: float, limits: tuple[float, float], most: float = math.inf) -> int:
    low, high = max(limits[0], 1.0), min(limits[1], most)
    return round(low * math.pow(high / low, share))


def _multiple(value: int, step: int) -> int:
    return max(round(value / step), 1) * step


def _product(point: _Point, limits: _Range, dtype: str, _: Mapping[str, Sequence[int]]) -> Core:
    # Products in a batch were measured in fp32 alone.
    m, n, k, batch = point
    alike = limits["batch"][1] > 1 and batch > 0.5
    return Core(
        kind="product",
        batch=_between(2 * batch - 1, limits["batch"], 512) if alike else 1,
        m=_between(m, limits["m"], 16384),
        n=_multiple(_between(n, limits["n"], 32768), _ALIGNED if dtype != "fp32" else 4),
        k=_multiple(_between(k, limits["k"], 32768), _ALIGNED if dtype != "fp32" else 4),
    )


def _pointwise(point: _Point, limits: _Range, dtype: str, _: Mapping[str, Sequence[int]]) -> Core:
    step = _PIECE // (2 if dtype == "fp16" else 4)
    return Core(kind="pointwise", m=_multiple(_between(point[0], (step, limits["m"][1]), MOST_BYTES / 4), step))


def _of_rows(kind: str) -> Callable[[_Point, _Range, str, Mapping[str, Sequence[int]]], Core | None]:
    def core(point: _Point, limits: _Range, dtype: str, lengths: Mapping[str, Sequence[int]]) -> Core | None:
        there = [length for length in lengths.get(dtype, ()) if limits["n"][0] <= length <= limits["n"][1]]
        if not there:
            return None
        n = there[min(int(point[1] * len(there)), len(there) - 1)]
        m = _between(point[0], limits["m"], MOST_BYTES / 8 / n)
        return Core(kind="softmax" if kind == "softmax" else "normalisation", m=m, n=n)

    return core


_CORES: Mapping[str, Callable[[_Point, _Range, str, Mapping[str, Sequence[int]]], Core | None]] = {
    "product": _product,
    "pointwise": _pointwise,
    "softmax": _of_rows("softmax"),
    "normalisation": _of_rows("normalisation"),
}


def _halton() -> Iterator[_Point]:
    """Points of Halton's sequence in five dimensions (J. H. Halton, Numerische Mathematik 2, 1960)."""
    at = 1
    while True:
        yield tuple(_reversed(at, base) for base in (2, 3, 5, 7, 11))
        at += 1


def _reversed(number: int, base: int) -> float:
    """The digits of a number behind the point, the last one first."""
    found, place = 0.0, 1.0
    while number:
        number, digit = divmod(number, base)
        place /= base
        found += digit * place
    return found


# --- how much better ------------------------------------------------------------------------


class HeldOut(NamedTuple):
    """How far expectations are off, without and with half of the rows, for the other half."""

    rows: int
    before: float
    after: float
    covered: float  # The share of these rows that lies in the band, with the correction


def held_out(rows: Sequence[TimedWork], spec: GpuSpec, ceilings: Ceilings) -> dict[str, HeldOut]:
    """By class, and as ``all``: every second row of a class corrects, the others are what is looked at."""
    learnt: list[TimedWork] = []
    tested: dict[str, list[TimedWork]] = {}
    seen: dict[str, int] = {}
    plain = expect([row.work for row in rows], spec, ceilings, tf32=False)
    device = device_of(spec, ceilings)
    for row, one in zip(rows, plain, strict=True):
        core = row.work.core
        if core is None or not one.expected_ns or row.ns < soonest(rows_of([(row.work, core)], device), device)[0]:
            continue
        name = class_of(core.kind, dtype_on(row.work, spec, tf32=False))
        seen[name] = seen.get(name, 0) + 1
        (learnt if seen[name] % 2 else tested.setdefault(name, [])).append(row)
    tests = [row for some in tested.values() for row in some]
    if not tests:
        return {}
    correction = learn(learnt, spec, ceilings, tf32=False, strict=False)
    works = [row.work for row in tests]
    before = expect(works, spec, ceilings, tf32=False)
    after = expect(works, spec, ceilings, tf32=False, correction=correction)
    names = [name for name, some in tested.items() for _ in some]
    ns = np.array([row.ns for row in tests])
    off, corrected = (np.abs([one.expected_ns or 0 for one in side] / ns - 1) for side in (before, after))
    inside = np.array(
        [
            (one.expected_p10_ns or 0) <= row.ns <= (one.expected_p90_ns or 0)
            for one, row in zip(after, tests, strict=True)
        ]
    )
    found = {}
    for name in (*tested, "all"):
        here = np.array([name in (own, "all") for own in names])
        found[name] = HeldOut(
            int(here.sum()), float(off[here].mean()), float(corrected[here].mean()), float(inside[here].mean())
        )
    return found
