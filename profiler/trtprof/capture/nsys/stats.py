"""What ``nsys stats`` printed as CSV, told apart by its header: sums of kernels, or a row for each kernel.

It is a poorer source than the capture: see `KernelSums` and `read_report` for what each report leaves out.
"""

from __future__ import annotations

import csv
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from trtprof.base.errors import UsageError
from trtprof.base.input_file import MAX_BYTES
from trtprof.base.text_file import read_text_file
from trtprof.base.trace import GRAPH_COLUMNS, LAUNCH_COLUMNS, RANGE_COLUMNS, WORK_COLUMNS, GpuTrace, TraceGpu
from trtprof.capture.cupti._names import short_name
from trtprof.capture.nsys._tables import Columns, categories, compact, frame_of, rows_of

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

__all__ = ["KERNEL_SUMS", "RANGE_SUMS", "KernelSums", "is_stats", "read_report"]

KERNEL_SUMS = ("name", "count", "total_ns", "avg_ns", "median_ns", "min_ns", "max_ns", "stddev_ns")
"""Columns of sums by kernel name. ``avg_ns``, ``median_ns`` and ``stddev_ns`` are floats; ``stddev_ns`` is that of a
sample, 0 for a single run."""
RANGE_SUMS = ("range", "style", "pid", "tid", "range_count", *KERNEL_SUMS)
"""Columns of sums by range and kernel name. ``range`` is ``domain:name``, or the name alone in the default domain;
``range_count`` is how many instances of the range launched the kernel. Kernels outside of all ranges have ``range`` and
``style`` ``""``, ``pid`` and ``tid`` -1, ``range_count`` 0. A kernel in nested ranges is in the sums of each."""

_FIX = (
    "nsys stats --report nvtx_kern_sum,cuda_gpu_trace,cuda_gpu_kern_sum --format csv --output . FILE: the first leads "
    "kernels to layers, the second knows of gaps; better still is the sqlite file itself"
)

# The headers of nsys 2020 to 2026, without unit and case: what a column is called here.
_SUM_HEADERS = {
    "total time": "total_ns", "instances": "count", "kern inst": "count", "avg": "avg_ns", "average": "avg_ns",
    "med": "median_ns", "median": "median_ns", "min": "min_ns", "minimum": "min_ns", "max": "max_ns",
    "maximum": "max_ns", "stddev": "stddev_ns", "name": "name", "kernel name": "name", "nvtx range": "range",
    "style": "style", "pid": "pid", "tid": "tid", "nvtx inst": "range_count", "gridxyz": "grid", "blockxyz": "block",
}  # fmt: skip
_MOST_SUM = 1 << 56
"""Of any number of a table of sums, and of ns: a capture of two years."""
_UNITS = {"": 1, "ns": 1, "nsec": 1, "us": 1000, "usec": 1000, "ms": 10**6, "msec": 10**6, "s": 10**9, "sec": 10**9}
_HEADER = re.compile(r"\s*(?P<name>[^()]*?)\s*(?:\((?P<unit>[a-z%]*)\))?\s*$", re.IGNORECASE)
_PRINTED = re.compile(r"^ *Time \(%\)  +Total Time \(|^ *Start \(\w+\)  +Duration \(", re.MULTILINE)
_STYLES = {"pushpop": "push_pop", "startend": "start_end"}
# The headers of cuda_gpu_trace (gputrace before 2023), without unit and case: what a column is called here.
_HEADERS = {
    "start": "start_ns", "duration": "duration_ns", "corrid": "correlation", "grdx": "grid_x", "grdy": "grid_y",
    "grdz": "grid_z", "blkx": "block_x", "blky": "block_y", "blkz": "block_z", "reg/trd": "registers",
    "stcsmem": "static_smem", "dymsmem": "dynamic_smem", "bytes": "bytes", "device": "device", "ctx": "context",
    "strm": "stream", "name": "name",
}  # fmt: skip
_MOST = 1 << 61
"""Of ns since 1970, too, and of two of them together."""
_NEEDED = frozenset({"start_ns", "duration_ns", "correlation", "name"})
_WORDS = ("device", "name")
_DTYPES = dict.fromkeys(("context", "stream", *WORK_COLUMNS[-9:]), "int32") | {"device": "int16", "pid": "int32"}
_BYTES = {"": 1, "b": 1, "byte": 1, "bytes": 1, "kb": 10**3, "kib": 1 << 10, "mb": 10**6, "mib": 1 << 20,
          "gb": 10**9, "gib": 1 << 30}  # fmt: skip

# Any report of `nsys stats`, as CSV or as it is printed: by the columns that its header begins with.
_REPORT = re.compile(
    r"^ *(?:Time ?\(%\)[, ]+Total Time|Start ?\(\w+\)[, ]+Duration|NVTX Range[, ]+Style|Range[, ]+Style"
    r"|Name[, ]+(?:Projected )?Start|API Start|Total \(\w+\)[, ]+Count)",
    re.MULTILINE,
)
_EMPTY_LINE = re.compile(r"\r?\n[ \t]*\r?\n")
_COPY = re.compile(r"\[CUDA (memcpy|memset) ?(.*)\]")
_PLACE = re.compile(r"(?P<name>.*?)\s*\((?P<number>\d+)\)")


class KernelSums(NamedTuple):
    """Sums of kernels as a report of nsys printed them.

    Single kernels are not known: nothing can be said of their order, of iterations, of gaps, or of when each ran.
    """

    # ``cuda_gpu_kern_sum`` (kernels by name), ``cuda_gpu_kern_gb_sum`` (by name, grid and block, as gpukernsum did
    # before 2023) or ``nvtx_kern_sum`` (by range and name)
    report: Literal["cuda_gpu_kern_sum", "cuda_gpu_kern_gb_sum", "nvtx_kern_sum"]
    # Columns `KERNEL_SUMS`; for ``nvtx_kern_sum`` `RANGE_SUMS`; for ``cuda_gpu_kern_gb_sum`` also ``grid`` and
    # ``block``, as printed. In the order of the file. What the report does not print is NaN.
    sums: pd.DataFrame
    notes: tuple[str, ...] = ()  # What is less exact than it looks
    rounded: bool = False  # Whether times were printed in a unit larger than the ns, to few digits


def is_stats(text: str) -> bool:
    """Whether a text is what some report of ``nsys stats`` prints."""
    return _REPORT.search(text) is not None


def read_report(path: Path) -> KernelSums | GpuTrace:
    """Read a CSV that ``nsys stats`` wrote: sums of kernels, or a trace of them.

    The report ``cuda_gpu_trace`` (gputrace before 2023), of kernels, copies and memsets one by one, is a capture
    without launches and NVTX ranges, whose work has no process.
    """
    text = read_text_file(path, what="a CSV of nsys stats", fix=_FIX, binary="it may be the capture itself")
    found = _trace_at(text)
    return _trace(path, text, *found) if found else _sums(path, text)


def _header(cells: list[str], called: dict[str, str]) -> tuple[list[str], list[str]]:
    """What the columns of a header are called here, "" for others, and their units."""
    matched = [match.groups("") if (match := _HEADER.match(cell)) else ("", "") for cell in cells]
    return [called.get(name.lower(), "") for name, _ in matched], [unit.lower() for _, unit in matched]


def _sums(path: Path, text: str) -> KernelSums:
    """Lines before the table and after its first empty line are passed over. Times of any ``--timeunit`` become ns."""
    import pandas as pd

    lines = _lines(path, text)
    header: list[str] = []
    units: list[str] = []
    at = 0
    for at, cells in enumerate(lines):  # noqa: B007 - where the header stands
        header, units = _header(cells, _SUM_HEADERS)
        if {"name", "total_ns", "count"} <= set(header):
            break
    else:
        raise UsageError(f"{path} is no kernel summary of nsys stats", why=_instead(lines, text), fix=_FIX)
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
        raise UsageError(f"{path} holds no kernels", why="its table has no rows", fix=_FIX)
    frame = pd.DataFrame({name: rows.get(name, [float("nan")] * size) for name in wanted}, columns=list(wanted))
    coarse = sorted({unit for unit in units if _UNITS.get(unit, 1) > 1})
    notes = [f"times were printed in {', '.join(coarse)} and are exact to its last digit only"] if coarse else []
    return KernelSums(report, frame, tuple(notes), rounded=bool(coarse))


def _instead(lines: list[list[str]], text: str) -> str:
    """What a file holds in place of the table that was sought."""
    if _PRINTED.search(text):
        return "it is a table as nsys prints it for people, with long names cut (--format csv is the other one)"
    found = next((", ".join(cells) for cells in lines if len(cells) > 1), "")
    return f"its header is {found[:120]}" if found else "it holds no table"


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
    if not 0 <= value <= _MOST_SUM:
        raise UsageError(
            f"{path} has {cell[:40]!r} where a number belongs", why=f"line {number}, column {name}", fix=_FIX
        )
    return value


def _number(name: str, unit: str, plain: str) -> float:
    if unit not in _UNITS:
        raise ValueError(f"unit {unit}")
    if name in {"count", "pid", "tid", "range_count"}:
        return int(plain)
    if name in {"total_ns", "min_ns", "max_ns"} and "." not in plain:
        return int(plain) * _UNITS[unit]
    value = float(plain) * _UNITS[unit]
    return round(value) if name in {"total_ns", "min_ns", "max_ns"} else value


def _trace(path: Path, text: str, at: int, names: list[str], units: list[str]) -> GpuTrace:
    # Several reports may stand in one file: an empty line ends each.
    end = _EMPTY_LINE.search(text, at)
    notes: list[str] = []
    if end is None and not text.endswith("\n"):
        notes.append("the last line of the file does not end: it may be cut short")
    data = text[at : end.start() if end else None].encode()
    del text
    table = _table(path, data, names, units, notes)
    if not len(table["start_ns"]):
        raise UsageError(f"{path} holds no kernels", why="its table has no rows", fix=_FIX)
    notes.append(
        "the trace of nsys stats does not tell the launch of a kernel: neither its thread nor the NVTX range around it"
    )
    gpus = _places(table, notes)
    size = len(table["start_ns"])
    for name in WORK_COLUMNS:
        if name not in table:
            table[name] = np.zeros(size, dtype=_DTYPES.get(name, "int64"))
    table["pid"] = np.full(size, -1, dtype=np.int32)
    _name_work(table)
    table = rows_of(table, np.argsort(table["start_ns"], kind="stable").astype(np.int32))
    return GpuTrace(
        work=frame_of(table, WORK_COLUMNS),
        launches=_nothing(LAUNCH_COLUMNS),
        ranges=_nothing(RANGE_COLUMNS),
        graph_nodes=_nothing(GRAPH_COLUMNS),
        gpus=gpus,
        collector="nsys stats",
        notes=tuple(notes),
    )


def _trace_at(text: str) -> tuple[int, list[str], list[str]] | None:
    """Where the header of the first trace begins, what its columns are called here, and their units.

    None where there is no trace, or where a table of sums comes first.
    """
    for found in _REPORT.finditer(text):
        at = found.start()
        end = text.find("\n", at)
        try:
            cells = next(csv.reader([text[at : end if end >= 0 else None]]), [])
        except csv.Error:  # a stray carriage return: no line of nsys
            continue
        names, units = _header(cells, _HEADERS)
        if set(names) >= _NEEDED:
            return at, names, units
        if {"Instances", "Kern Inst"} & {cell.strip() for cell in cells}:
            return None
    return None


def _table(path: Path, data: bytes, names: list[str], units: list[str], notes: list[str]) -> Columns:
    """The columns of the table, ``[rows]`` each: times in ns, sizes in bytes."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    # Times in ns have more digits than a float holds.
    whole = {name for name, unit in zip(names, units, strict=True) if _UNITS.get(unit) == 1 and name.endswith("_ns")}
    whole.add("correlation")
    kept = list(dict.fromkeys(name for name in names if name))
    types = {name: pa.string() if name in _WORDS else pa.int64() if name in whole else pa.float64() for name in kept}
    labels = [name if name and name not in names[:at] else f"column {at}" for at, name in enumerate(names)]
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(data),
            # The first line is the header, whose names are given.
            read_options=arrow_csv.ReadOptions(column_names=labels, skip_rows=1),
            # A kernel may be called NA; what is empty in a column of numbers belongs to another kind of work.
            convert_options=arrow_csv.ConvertOptions(
                column_types=types, include_columns=kept, null_values=["", "-"], strings_can_be_null=False
            ),
        )
        missing = [name for name in sorted(whole) if name in kept and table[name].null_count]
        if missing:
            raise pa.ArrowInvalid(f"a row has no {missing[0]}")
        if data.count(b'"') % 2:
            raise pa.ArrowInvalid("the quotes of its last name do not end")
    except pa.ArrowException as error:
        raise UsageError(
            f"{path} is cut short or broken",
            why=" ".join(str(error).split())[:200],
            fix="write it again with nsys stats",
        ) from None
    columns: Columns = {}
    coarse: set[str] = set()
    for name, unit in zip(names, units, strict=True):
        if not name or name in columns:
            continue
        if name in _WORDS:
            columns[name] = table[name].combine_chunks().dictionary_encode()
            continue
        scale = (_UNITS if name.endswith("_ns") else _BYTES).get(unit)
        if scale is None:
            raise UsageError(f"{path} has an unknown unit", why=f"{unit!r} of {name}", fix=_FIX)
        if scale > 1:
            coarse.add(unit)
        values: npt.NDArray[Any] = table[name].to_numpy()
        if values.dtype != np.int64:
            values = np.rint(np.clip(np.nan_to_num(values), -2 * _MOST, 2 * _MOST) * scale)
        if np.abs(values.astype(float)).max(initial=0) > _MOST:
            raise UsageError(f"{path} has a number that is beyond all measure", why=f"in the column {name}", fix=_FIX)
        values = values.astype(np.int64)
        columns[name] = compact(values, _DTYPES.get(name, "int64"))
    if coarse:
        notes.append(f"printed in {', '.join(sorted(coarse))} and exact to the last digit only: times or sizes")
    columns["end_ns"] = columns["start_ns"] + np.maximum(columns.pop("duration_ns"), 0)
    return columns


def _places(table: Columns, notes: list[str]) -> tuple[TraceGpu, ...]:
    """Number the devices, which are printed as ``NVIDIA L4 (0)``, and say which they are."""
    if "device" not in table:
        notes.append("the trace does not tell on which GPU a kernel ran")
        return ()
    codes, words = _coded(table["device"])
    gpus, numbers = [], []
    for at, word in enumerate(words):
        match = _PLACE.fullmatch(word)
        numbers.append(int(match["number"]) if match else at)
        gpus.append(TraceGpu(device=numbers[-1], name=match["name"] if match else word))
    table["device"] = np.asarray(numbers, dtype=np.int16)[codes]
    return tuple(sorted(gpus, key=lambda gpu: gpu.device))


def _name_work(table: Columns) -> None:
    """Tell kernels from copies and memsets, which have names in brackets, and name them as a capture does."""
    codes, words = _coded(table["name"])
    names, shorts, kinds = [], [], []
    for word in words:
        copy = _COPY.fullmatch(word)
        name = word if copy is None else _copy_name(copy[1], copy[2])
        names.append(name)
        shorts.append(short_name(name) if copy is None else name)
        kinds.append("kernel" if copy is None else copy[1])
    for column, each in (("name", names), ("short_name", shorts)):
        table[column] = categories(codes, dict(enumerate(each)))
    order = ("kernel", "memcpy", "memset")
    of_kind = np.asarray([order.index(kind) for kind in kinds], dtype=np.int8)[codes]
    table["kind"] = categories(of_kind, dict(enumerate(order)), every=True)


def _coded(words: pa.DictionaryArray) -> tuple[npt.NDArray[Any], list[str]]:
    """Where each row has its word in the list of distinct ones, and this list."""
    return words.indices.to_numpy(), [str(word).strip() for word in words.dictionary.to_pylist()]


def _copy_name(kind: str, direction: str) -> str:
    """``Host-to-Device`` or ``HtoD`` as ``memcpy HtoD``."""
    if kind == "memset":
        return kind
    managed = " (managed)" if "unified" in direction.lower() else ""
    ends = re.search(r"(\w)\w*-?to-?(\w)", direction.replace("Unified", "").replace("HtoD", "H-to-D"))
    return f"memcpy {ends[1]}to{ends[2]}{managed}" if ends else f"memcpy {direction}".strip()


def _nothing(columns: tuple[str, ...]) -> pd.DataFrame:
    import pandas as pd

    categories = {"name", "domain", "style"}
    return pd.DataFrame(
        {
            name: pd.Categorical([], categories=pd.Index([], dtype=object)) if name in categories
            else np.empty(0, dtype=np.int32 if name == "pid" else np.int64)
            for name in columns
        }
    )  # fmt: skip
