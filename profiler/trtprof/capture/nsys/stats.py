"""What ``nsys stats`` printed as CSV, told apart by its header: sums of kernels, or a row for each kernel.

It is a poorer source than the capture: see `KernelSums` and `read_report` for what each report leaves out.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from trtprof.base.errors import UsageError
from trtprof.base.trace import GRAPH_COLUMNS, LAUNCH_COLUMNS, RANGE_COLUMNS, WORK_COLUMNS, GpuTrace, TraceGpu
from trtprof.capture.cupti._names import short_name
from trtprof.capture.nsys._table_stats import (
    FIX,
    HEADER,
    KERNEL_SUMS,
    RANGE_SUMS,
    UNITS,
    KernelSums,
    read_stats,
    read_text,
)
from trtprof.capture.nsys._tables import Columns, compact, frame_of, rows_of

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

__all__ = ["KERNEL_SUMS", "RANGE_SUMS", "KernelSums", "is_stats", "read_report", "read_stats"]

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


def is_stats(text: str) -> bool:
    """Whether a text is what some report of ``nsys stats`` prints."""
    return _REPORT.search(text) is not None


def read_report(path: Path) -> KernelSums | GpuTrace:
    """Read a CSV that ``nsys stats`` wrote: sums of kernels, or a trace of them.

    The report ``cuda_gpu_trace`` (gputrace before 2023), of kernels, copies and memsets one by one, is a capture
    without launches and NVTX ranges, whose work has no process.
    """
    text = read_text(path)
    found = _trace_at(text)
    if found is None:
        return read_stats(path)
    return _trace(path, text, *found)


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
        raise UsageError(f"{path} holds no kernels", why="its table has no rows", fix=FIX)
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
        matched = [HEADER.match(cell) for cell in cells]
        names = [_HEADERS.get(match["name"].lower(), "") if match else "" for match in matched]
        if set(names) >= _NEEDED:
            return at, names, [(match["unit"] or "").lower() if match else "" for match in matched]
        if {"Instances", "Kern Inst"} & {cell.strip() for cell in cells}:
            return None
    return None


def _table(path: Path, data: bytes, names: list[str], units: list[str], notes: list[str]) -> Columns:
    """The columns of the table, ``[rows]`` each: times in ns, sizes in bytes."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    # Times in ns have more digits than a float holds.
    whole = {name for name, unit in zip(names, units, strict=True) if UNITS.get(unit) == 1 and name.endswith("_ns")}
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
        scale = (UNITS if name.endswith("_ns") else _BYTES).get(unit)
        if scale is None:
            raise UsageError(f"{path} has an unknown unit", why=f"{unit!r} of {name}", fix=FIX)
        if scale > 1:
            coarse.add(unit)
        values: npt.NDArray[Any] = table[name].to_numpy()
        if values.dtype != np.int64:
            values = np.rint(np.clip(np.nan_to_num(values), -2 * _MOST, 2 * _MOST) * scale)
        if np.abs(values.astype(float)).max(initial=0) > _MOST:
            raise UsageError(f"{path} has a number that is beyond all measure", why=f"in the column {name}", fix=FIX)
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
    import pandas as pd

    codes, words = _coded(table["name"])
    names, shorts, kinds = [], [], []
    for word in words:
        copy = _COPY.fullmatch(word)
        name = word if copy is None else _copy_name(copy[1], copy[2])
        names.append(name)
        shorts.append(short_name(name) if copy is None else name)
        kinds.append("kernel" if copy is None else copy[1])
    for column, each in (("name", names), ("short_name", shorts)):
        labels = sorted(set(each))
        place = {label: at for at, label in enumerate(labels)}
        own = compact(np.asarray([place[label] for label in each], dtype=np.int64)[codes], "int16")
        table[column] = pd.Categorical.from_codes(own, categories=pd.Index(labels, dtype=object))
    order = ("kernel", "memcpy", "memset")
    of_kind = np.asarray([order.index(kind) for kind in kinds], dtype=np.int8)[codes]
    table["kind"] = pd.Categorical.from_codes(of_kind, categories=pd.Index(order, dtype=object))


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
