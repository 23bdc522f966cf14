"""What measuring a CPU and measuring a GPU have in common: readings by their names.

The first word of a reading's name says what it is: ``tensor fp16``, ``gemm fp32 512``, ``dram read``, ``launch``. How
repeats become a reading is in `_fit`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from trtprof.base.records import Measurement
from trtprof.base.units import format_ns, format_rate
from trtprof.hardware._fit import AGREEMENT, Reading

Unit = Literal["FLOP/s", "B/s", "1/s", "ns"]

_UNITS: dict[str, Unit] = {
    "tensor": "FLOP/s", "gemm": "FLOP/s", "conv": "FLOP/s", "mma": "FLOP/s", "vector": "FLOP/s", "special": "1/s",
    "dram": "B/s", "cache": "B/s", "h2d": "B/s", "d2h": "B/s", "launch": "ns", "call": "ns", "probe": "ns",
    "profiler": "ns",
}  # fmt: skip
"""Unit by the first word of a name, in the order in which readings are shown."""


def unit_of(key: str) -> Unit:
    """The unit that the name of a reading has."""
    return _UNITS.get(key.split(maxsplit=1)[0], "ns")


def rate(key: str, value: float) -> str:
    """A measured value with the unit that its name has."""
    unit = unit_of(key)
    return format_ns(value) if unit == "ns" else format_rate(value, "eval/s" if unit == "1/s" else unit)


def ordered(keys: Iterable[str]) -> list[str]:
    """Names in the order in which they are shown: arithmetic, memory, floors; sizes by number."""
    words = list(_UNITS)

    def rank(key: str) -> tuple[int, list[tuple[int, str]]]:
        first, *rest = key.split()
        return (
            words.index(first) if first in words else len(words),
            [(int(word) if word.isdigit() else 0, word) for word in rest],
        )

    return sorted(keys, key=rank)


def rates_of(kind: str, readings: Mapping[str, Reading | Measurement]) -> dict[str, float]:
    """Values of the readings of one kind, by what follows it in their names; zeros are left out."""
    start = f"{kind} "
    return {
        key.removeprefix(start): readings[key].value
        for key in sorted(readings)
        if key.startswith(start) and readings[key].value
    }


def measurement(key: str, reading: Reading, threads: int = 0) -> Measurement:
    """A reading as it is kept; ``threads`` as in `Measurement`."""
    # One repeat has no spread, which is not the same as none.
    spread, unit = reading.spread if reading.repeats > 1 else None, unit_of(key)
    return Measurement(
        value=reading.value, unit=unit, what=reading.what, repeats=reading.repeats, spread=spread, threads=threads
    )


def is_loose(reading: Reading) -> bool:
    """Whether it has one repeat alone, or repeats that lie too far apart to be sure of it."""
    return reading.repeats < 2 or reading.spread > 2 * AGREEMENT
