"""What ``nsys stats`` printed as CSV: sums of kernels, where the capture itself is not at hand."""

from __future__ import annotations

import csv
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from trtprof.base.errors import UsageError
from trtprof.base.input_file import MAX_BYTES
from trtprof.base.text_file import read_text_file

if TYPE_CHECKING:
    import pandas as pd

KERNEL_SUMS = ("name", "count", "total_ns", "avg_ns", "median_ns", "min_ns", "max_ns", "stddev_ns")
"""Columns of sums by kernel name. ``avg_ns``, ``median_ns`` and ``stddev_ns`` are floats; ``stddev_ns`` is that of a
sample, 0 for a single run."""
RANGE_SUMS = ("range", "style", "pid", "tid", "range_count", *KERNEL_SUMS)
"""Columns of sums by range and kernel name. ``range`` is ``domain:name``, or the name alone in the default domain;
``range_count`` is how many instances of the range launched the kernel. Kernels outside of all ranges have ``range`` and
``style`` ``""``, ``pid`` and ``tid`` -1, ``range_count`` 0. A kernel in nested ranges is in the sums of each."""

FIX = (
    "nsys stats --report nvtx_kern_sum,cuda_gpu_trace,cuda_gpu_kern_sum --format csv --output . FILE: the first leads "
    "kernels to layers, the second knows of gaps; better still is the sqlite file itself"
)

# The headers of nsys 2020 to 2026, without unit and case: what a column is called here.
_HEADERS = {
    "total time": "total_ns", "instances": "count", "kern inst": "count", "avg": "avg_ns", "average": "avg_ns",
    "med": "median_ns", "median": "median_ns", "min": "min_ns", "minimum": "min_ns", "max": "max_ns",
    "maximum": "max_ns", "stddev": "stddev_ns", "name": "name", "kernel name": "name", "nvtx range": "range",
    "style": "style", "pid": "pid", "tid": "tid", "nvtx inst": "range_count", "gridxyz": "grid", "blockxyz": "block",
}  # fmt: skip
_MOST = 1 << 56
"""Of any number of a table, and of ns: a capture of two years."""
UNITS = {"": 1, "ns": 1, "nsec": 1, "us": 1000, "usec": 1000, "ms": 10**6, "msec": 10**6, "s": 10**9, "sec": 10**9}
HEADER = re.compile(r"\s*(?P<name>[^()]*?)\s*(?:\((?P<unit>[a-z%]*)\))?\s*$", re.IGNORECASE)
_PRINTED = re.compile(r"^ *Time \(%\)  +Total Time \(|^ *Start \(\w+\)  +Duration \(", re.MULTILINE)
_STYLES = {"pushpop": "push_pop", "startend": "start_end"}


class KernelSums(NamedTuple):
    """Sums of kernels as a report of nsys printed them.

    Single kernels are not known: nothing can be said of their order, of iterations, of gaps, or of when each ran.

    Attributes:
        report: ``cuda_gpu_kern_sum`` (kernels by name), ``cuda_gpu_kern_gb_sum`` (by name, grid and block, as
            gpukernsum did before 2023) or ``nvtx_kern_sum`` (by range and name).
        sums: Columns `KERNEL_SUMS`; for ``nvtx_kern_sum`` `RANGE_SUMS`; for ``cuda_gpu_kern_gb_sum`` also ``grid``
            and ``block``, as printed. In the order of the file. What the report does not print is NaN.
        notes: What is less exact than it looks.
        rounded: Whether times were printed in a unit larger than the ns, to few digits.
    """

    report: Literal["cuda_gpu_kern_sum", "cuda_gpu_kern_gb_sum", "nvtx_kern_sum"]
    sums: pd.DataFrame
    notes: tuple[str, ...] = ()
    rounded: bool = False


def read_stats(path: Path) -> KernelSums:
    """Read a CSV that ``nsys stats`` wrote of kernels, or what it printed with ``--format csv``.

    Lines before the table and after its first empty line are passed over. Times of any ``--timeunit`` become ns.
    """
    import pandas as pd

    text = read_text(path)
    lines = _lines(path, text)
    header: list[str | None] = []
    units: list[str] = []
    at = 0
    for at, cells in enumerate(lines):  # noqa: B007 - where the header stands
        matched = [HEADER.match(cell) for cell in cells]
        names = [_HEADERS.get(match["name"].lower()) if match else None for match in matched]
        if {"name", "total_ns", "count"} <= set(names):
            header, units = names, [(match["unit"] or "").lower() if match else "" for match in matched]
            break
    else:
        raise UsageError(f"{path} is no kernel summary of nsys stats", why=_instead(lines, text), fix=FIX)
    rows: dict[str, list[object]] = {name: [] for name in header if name}
    for number, cells in enumerate(lines[at + 1 :], at + 2):
        if not any(cells):
            break
        if len(cells) != len(header):
            raise UsageError(
                f"{path} is cut short or broken",
                why=f"line {number} has {len(cells)} of {len(header)} columns",
                fix="write it again with nsys stats",
            )
        for name, unit, cell in zip(header, units, cells, strict=True):
            if name:
                rows[name].append(_value(path, number, name, unit, cell))
    report: Literal["cuda_gpu_kern_sum", "cuda_gpu_kern_gb_sum", "nvtx_kern_sum"] = "cuda_gpu_kern_sum"
    wanted: tuple[str, ...] = KERNEL_SUMS
    if "range" in rows:
        report, wanted = "nvtx_kern_sum", RANGE_SUMS
    elif "grid" in rows:
        report, wanted = "cuda_gpu_kern_gb_sum", (*KERNEL_SUMS, "grid", "block")
    size = len(rows["name"])
    if not size:
        raise UsageError(f"{path} holds no kernels", why="its table has no rows", fix=FIX)
    frame = pd.DataFrame({name: rows.get(name, [float("nan")] * size) for name in wanted}, columns=list(wanted))
    coarse = sorted({unit for unit in units if UNITS.get(unit, 1) > 1})
    notes = [f"times were printed in {', '.join(coarse)} and are exact to its last digit only"] if coarse else []
    return KernelSums(report, frame, tuple(notes), rounded=bool(coarse))


def _instead(lines: list[list[str]], text: str) -> str:
    """What a file holds in place of the table that was sought."""
    if _PRINTED.search(text):
        return "it is a table as nsys prints it for people, with long names cut (--format csv is the other one)"
    found = next((", ".join(cells) for cells in lines if len(cells) > 1), "")
    return f"its header is {found[:120]}" if found else "it holds no table"


def read_text(path: Path) -> str:
    """What ``nsys stats`` wrote, as text; see `read_text_file`."""
    return read_text_file(path, what="a CSV of nsys stats", fix=FIX, binary="it may be the capture itself")


def _lines(path: Path, text: str) -> list[list[str]]:
    # A demangled name may be longer than the 128 KiB that csv allows by default.
    limit = csv.field_size_limit(MAX_BYTES)
    try:
        return [[cell.strip() for cell in cells] for cells in csv.reader(text.splitlines())]
    except csv.Error as error:
        raise UsageError(f"{path} is broken CSV", why=str(error), fix="write it again with nsys stats") from None
    finally:
        csv.field_size_limit(limit)


def _value(path: Path, number: int, name: str, unit: str, cell: str) -> object:
    if name in {"name", "range", "grid", "block"}:
        return cell
    if name == "style":
        return _STYLES.get(cell.lower(), cell)
    if name in {"pid", "tid"} and not cell:
        return -1
    try:
        value = _number(name, unit, cell.replace(",", ""))
    except (ValueError, OverflowError):
        value = math.nan
    if not 0 <= value <= _MOST:
        raise UsageError(
            f"{path} has {cell[:40]!r} where a number belongs", why=f"line {number}, column {name}", fix=FIX
        )
    return value


def _number(name: str, unit: str, plain: str) -> float:
    if unit not in UNITS:
        raise ValueError(f"unit {unit}")
    if name in {"count", "pid", "tid", "range_count"}:
        return int(plain)
    if name in {"total_ns", "min_ns", "max_ns"} and "." not in plain:
        return int(plain) * UNITS[unit]
    value = float(plain) * UNITS[unit]
    return round(value) if name in {"total_ns", "min_ns", "max_ns"} else value
