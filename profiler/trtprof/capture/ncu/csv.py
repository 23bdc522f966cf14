"""What Nsight Compute printed with ``--csv``: the counters of every launch, in base units.

Two forms, told apart by their header (both as ncu 2022.3 printed them from a report that NVIDIA ships; those of other
versions from files that users published):

* **raw** (``--page raw``): a row a launch and a column a metric; the row under the header holds the units.
* **long** (``--page details``, the default): a row a metric, with the columns ``Section Name``, ``Metric Name``,
  ``Metric Unit``, ``Metric Value`` and those of rules, whose own rows have no metric. Metrics asked for by
  ``--metrics`` keep their names, under the section "Command line profiler metrics"; those of sections have labels
  (``Duration``, ``Achieved Occupancy``). Rows may have fewer cells than the header.

Both begin with ``ID``, ``Process ID``, ``Process Name``, ``Host Name``, NVTX columns where asked for, ``Kernel Name``;
then, up to 2022, ``Kernel Time``, ``Context``, ``Stream``, and later ``Context``, ``Stream``, ``Block Size``,
``Grid Size``, ``Device``, ``CC``.
Lines of ncu (``==PROF==``) and of the program may stand before, between and behind the rows, and several tables in one
file. Units are scaled per column (raw) or per row (long) unless ``--print-units base`` was given; numbers are grouped
and pointed as the locale has it: ``129977`` (C), ``129,977`` (en_US), ``129.977`` (de_DE), ``129 977`` (fr_FR),
``1,29,977`` (en_IN), ``129'977`` (de_CH). What could not be counted is ``n/a``, ``(!) n/a``, ``nan`` or nothing.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from trtprof.base.errors import UsageError
from trtprof.base.input_file import MAX_BYTES
from trtprof.base.kernel_counters import DURATION, GEOMETRY, OCCUPANCY, Counter, KernelCounters
from trtprof.base.text_file import read_text_file
from trtprof.capture.ncu._words import no_kernels

FIX = "ncu --import FILE.ncu-rep --csv --page raw --print-units base > FILE.csv"
_REPORT = "it may be the report of ncu itself, which ncu prints as CSV"

_HEADER = re.compile(r'^\W{0,3}"?ID"?,"?(?:Process ID|Kernel Name)', re.MULTILINE)
_LABELS = {
    "Duration": DURATION,
    "Achieved Occupancy": OCCUPANCY,
    "Elapsed Cycles": "sm__cycles_elapsed.max",
    "Registers Per Thread": "launch__registers_per_thread",
}
"""Labels of the page ``details`` whose metrics are of use here."""
_FIXED = frozenset(
    ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context", "Stream", "Block Size",
     "Grid Size", "Device", "CC", "Section Name")
)  # fmt: skip
_NOTHING = frozenset(("", "n/a", "(!) n/a", "nan", "-nan", "no data"))
_DIMS = re.compile(r"\(?\s*(\d{1,10})\s*[,x]\s*(\d{1,10})\s*[,x]\s*(\d{1,10})\s*\)?")
_INTEGER = re.compile(r"\d{1,10}")
_SPACES = re.compile("[ '\u00a0\u2009\u202f\u2019]")
"""What no locale uses for the decimal point."""
_NUMBER = re.compile(r"[+-]?\d+(?:[.,]\d+)*(?:[eE][+-]?\d+)?")
_PLAIN = re.compile(r"[+-]?\d+\.\d{6}(?:[eE][+-]?\d+)?")
"""How the page ``raw`` prints scaled numbers in any locale; whole ones beside them are grouped as the locale has it."""
_WHOLE = frozenset((1.0, name) for name in ("byte", "inst", "sector", "cycle", "ns", "thread", "block", "request"))
"""Base units that sums of have no decimals in."""

_PREFIXES = {"": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "K": 1e3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_SECONDS = {"second", "s"}
_HERTZ = {"hz", "Hz"}


def is_counters(text: str) -> bool:
    """Whether a text holds a table of ``ncu --csv``, or the lines in which ncu says why there is none."""
    return (
        _HEADER.search(text) is not None or re.search(r"^==(?:PROF|ERROR|WARNING)== ", text, re.MULTILINE) is not None
    )


def read_counters(path: Path) -> tuple[KernelCounters, ...]:
    """Read the launches of a file, in the order in which they were made."""
    return parse_counters(read_text_file(path, what="a CSV of ncu", fix=FIX, binary=_REPORT), str(path))


def parse_counters(text: str, where: str) -> tuple[KernelCounters, ...]:
    """The same of a text."""
    tables = list(_tables(text))
    if not tables:
        if re.search(r"^==(?:PROF|ERROR|WARNING)== ", text, re.MULTILINE):
            raise no_kernels(text, f"{where} holds no counters", f"profile again; {FIX}")
        raise UsageError(f"{where} is no CSV of ncu", why="it has no header with ID and Kernel Name", fix=FIX)
    cells = [cell for table in tables for cell in _cells(table)]
    point = _decimal_point(cells, where)
    launches: dict[tuple[int, str, str], _Launch] = {}
    for cell in cells:
        launch = launches.setdefault(cell.launch, _Launch(cell.row, {}))
        value = _number(cell.text, point)
        if value is not None and math.isfinite(value):
            launch.counters[cell.metric] = _in_base(value, cell.unit)
    if not launches:
        raise no_kernels(text, f"{where} holds no counters", f"profile again; {FIX}")
    return tuple(_record(launch) for launch in launches.values())


# --- tables ---------------------------------------------------------------------------------


class _Table(NamedTuple):
    number: int
    header: list[str]
    rows: list[list[str]]


class _Cell(NamedTuple):
    """One value as printed. ``launch`` is the table, the process and the ID, ``row`` what all its cells share."""

    launch: tuple[int, str, str]
    row: dict[str, str]
    metric: str
    unit: str
    text: str


class _Launch(NamedTuple):
    row: dict[str, str]
    counters: dict[str, Counter]


def _tables(text: str) -> Iterator[_Table]:
    """Every table: a header and the rows behind it that begin with a number, or the row of units."""
    table: _Table | None = None
    number = 0
    limit = csv.field_size_limit(MAX_BYTES)
    try:
        for line in text.splitlines():
            if _HEADER.match(line):
                if table is not None:
                    yield table
                header = [cell.strip() for cell in _row(line.lstrip("\ufeff"))]
                table = _Table(number, header, []) if "ID" in header else None
                number += 1
            elif table is not None and line.startswith(('"', ",", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9")):
                row = [cell.strip() for cell in _row(line)]
                if len(row) > 2 and (row[0].isdecimal() or not row[0]):
                    table.rows.append(row)
        if table is not None:
            yield table
    finally:
        csv.field_size_limit(limit)


def _row(line: str) -> list[str]:
    # A line of ncu never goes on in the next one, so a quote that does not end spoils this one alone.
    return next(csv.reader([line]), [])


def _cells(table: _Table) -> Iterator[_Cell]:
    long = "Metric Name" in table.header and "Metric Value" in table.header
    units: dict[str, str] = {}
    for cells in table.rows:
        # Rows of rules, and those of versions before 2023, are shorter than the header.
        row = dict(zip(table.header, cells, strict=False))
        if not row["ID"]:
            units = row
            continue
        shared = {name: row.get(name, "") for name in _FIXED}
        launch = table.number, row.get("Process ID", ""), row["ID"]
        if not long:
            for name, text in row.items():
                if name not in _FIXED:
                    yield _Cell(launch, shared, name, units.get(name, ""), text)
        elif "Metric Value" in row and row["Metric Name"]:
            name = row["Metric Name"]
            yield _Cell(launch, shared, _LABELS.get(name, name), row.get("Metric Unit", ""), row["Metric Value"])


def _record(launch: _Launch) -> KernelCounters:
    row, counters = launch.row, launch.counters
    shape = [counters.get(name) for name in GEOMETRY]
    whole = [None if one is None or not 0 <= one.value < 1 << 32 else int(one.value) for one in shape]
    return KernelCounters(
        kernel=row["Kernel Name"],
        grid=_dims(row["Grid Size"]) or _triple(whole[:3]),
        block=_dims(row["Block Size"]) or _triple(whole[3:]),
        device=int(row["Device"]) if _INTEGER.fullmatch(row["Device"]) else 0,
        process=int(row["Process ID"]) if _INTEGER.fullmatch(row["Process ID"]) else 0,
        capability=row["CC"] or _capability(counters),
        counters=dict(sorted(counters.items())),
    )


def _dims(text: str) -> tuple[int, int, int] | None:
    found = _DIMS.fullmatch(text)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def _triple(values: Sequence[int | None]) -> tuple[int, int, int] | None:
    x, y, z = values
    return (x, y, z) if x is not None and y is not None and z is not None else None


def _capability(counters: dict[str, Counter]) -> str:
    parts = [counters.get(f"device__attribute_compute_capability_{part}") for part in ("major", "minor")]
    known = [part.value for part in parts if part is not None and 0 <= part.value < 100]
    return ".".join(str(int(value)) for value in known) if len(known) == 2 else ""


# --- numbers --------------------------------------------------------------------------------


def _decimal_point(cells: Iterable[_Cell], where: str) -> str:
    """The decimal point of the locale that printed a file, from its numbers; ``.`` where both are possible."""
    seen: dict[str, str] = {}
    for cell in cells:
        point = _told(cell)
        if point:
            seen.setdefault(point, f"{cell.text} of {cell.metric}")
    if len(seen) > 1:
        raise UsageError(
            f"{where} mixes locales",
            why=f"{seen['.']} has a decimal point, {seen[',']} a decimal comma",
            fix=f"print it again: LC_ALL=C {FIX}",
        )
    return next(iter(seen), ".")


_OTHER = {".": ",", ",": "."}


def _own_point(text: str) -> str:
    """The decimal point of a number without its spaces, where it shows by itself; empty where it could be either."""
    digits = re.split("[eE]", text)[0].lstrip("+-")
    marks = [letter for letter in digits if letter in ".,"]
    if not marks:
        return "."
    if len(set(marks)) == 2:
        return marks[-1]
    if len(marks) > 1:
        return _OTHER[marks[0]]
    before, after = re.split("[.,]", digits)
    return "" if len(after) == 3 and before != "0" and len(before) <= 3 else marks[0]


def _told(cell: _Cell) -> str:
    """The decimal point of the locale as one number shows it; empty where it does not."""
    text = _SPACES.sub("", cell.text)
    if not _NUMBER.fullmatch(text) or not ("." in text or "," in text) or _PLAIN.fullmatch(text):
        return ""
    point = _own_point(text)
    if point:
        return point
    # A group of three digits, or three decimals: a sum in whole units has none.
    whole = cell.metric.endswith(".sum") and _base_unit(cell.unit) in _WHOLE and not text.endswith("000")
    return _OTHER["." if "." in text else ","] if whole else ""


def _number(text: str, point: str) -> float | None:
    """A number as printed, or None where there is none."""
    if text.isascii() and text.isdecimal():
        return float(text)
    if text.lower() in _NOTHING:
        return None
    plain = _SPACES.sub("", text)
    if not _NUMBER.fullmatch(plain):
        return None
    point = _own_point(plain) or point
    return float(plain.replace(_OTHER[point], "").replace(point, "."))


def _in_base(value: float, unit: str) -> Counter:
    """A value in base units; one in a unit that is not known keeps it."""
    if unit == "%":
        return Counter(value / 100, "1")
    base = _base_unit(unit)
    return Counter(value, unit) if base is None else Counter(value * base[0], base[1])


@lru_cache(maxsize=1024)
def _base_unit(unit: str) -> tuple[float, str] | None:
    """What a unit is in base units, and what that is called: ``Kbyte/second`` is 1000 ``byte/s``."""
    if not unit:
        return 1.0, ""
    above, slash, below = unit.partition("/")
    found = _part(above)
    if found is None:
        return None
    scale, name = found
    if not slash:
        return (scale * 1e9, "ns") if name == "s" else (scale, name)
    under = _part(below)
    if under is None:
        return None
    scale /= under[0]
    if name == "cycle" and under[1] == "s":
        return scale, "Hz"
    return scale, f"{name}/{under[1]}"


def _part(text: str) -> tuple[float, str] | None:
    # Words such as `thread` and `register` begin with no prefix, but `msecond`, `Mbyte`, `Kinst` do.
    for prefix in ("", *(text[:1] if text[:1] in _PREFIXES else "",)):
        base = text.removeprefix(prefix)
        if base in _SECONDS:
            return _PREFIXES[prefix], "s"
        if base in _HERTZ:
            return _PREFIXES[prefix], "Hz"
        if base in ("byte", "bytes", "sector", "sectors", "inst", "cycle", "thread", "block", "request", "warp",
                    "register", "FLOP", "flop", "op", "ops"):  # fmt: skip
            return _PREFIXES[prefix], base.removesuffix("s")
    return None
