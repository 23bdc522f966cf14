"""The sums that NVIDIA's reports print of a capture, computed from its columns.

They are what users know, and hold this reader against nsys' own: on the same file both must say the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from trtprof.base.nested_ranges import NestedRanges, calls_of, distinct
from trtprof.base.trace import GpuTrace

if TYPE_CHECKING:
    import pandas as pd

_TID_MASK = 0xFFFFFF
"""nsys' globalTid has the number of the thread in its low bits."""

_Ints = npt.NDArray[np.integer[Any]]

KERNEL_SUMS = ("name", "count", "total_ns", "avg_ns", "median_ns", "min_ns", "max_ns", "stddev_ns")
"""Columns of `kernel_summary`: one row a kernel name. ``avg_ns``, ``median_ns`` and ``stddev_ns`` are floats;
``stddev_ns`` is that of a sample (divided by ``count - 1``), 0 for a single run."""

RANGE_SUMS = ("range", "style", "pid", "tid", "range_count", *KERNEL_SUMS)
"""Columns of `nvtx_kernel_summary`: one row a range and kernel name. ``range`` is ``domain:name``, or the name alone
in the default domain; ``range_count`` is how many instances of the range launched the kernel. ``tid`` is that of the
system. Kernels launched outside of all ranges have ``range`` and ``style`` ``""``, ``pid`` and ``tid`` -1,
``range_count`` 0."""


def kernel_summary(trace: GpuTrace) -> pd.DataFrame:
    """Kernels by name, as ``nsys stats --report cuda_gpu_kern_sum`` (gpukernsum before 2023) sums them.

    Returns:
        Columns `KERNEL_SUMS`; most time first, names that took the same in their order.
    """
    import pandas as pd

    names, codes, ns, _ = _kernels(trace)
    sums = _sums(codes, ns)
    frame = pd.DataFrame({"name": names[sums.pop("group")], **sums}, columns=list(KERNEL_SUMS))
    return frame.sort_values(["total_ns", "name"], ascending=[False, True], kind="stable", ignore_index=True)


def nvtx_kernel_summary(trace: GpuTrace) -> pd.DataFrame:
    """Kernels by each range around their launch, as ``nsys stats --report nvtx_kern_sum`` sums them.

    So the sums of all ranges are more than the time of all kernels.
    """
    import pandas as pd

    names, codes, ns, rows = _kernels(trace)
    calls, ranges = trace.launches, trace.ranges
    call = calls_of(
        *(trace.work[name].to_numpy()[rows] for name in ("pid", "correlation")),
        *(calls[name].to_numpy() for name in ("pid", "correlation")),
    )
    launched = np.flatnonzero(call >= 0).astype(np.int32)
    nested = NestedRanges(*(ranges[name].to_numpy() for name in ("tid", "start_ns", "end_ns")))
    moment, row = nested.enclosing(*(calls[name].to_numpy()[call[launched]] for name in ("tid", "start_ns", "end_ns")))
    del nested, call
    kernel = launched[moment]
    # Kernels outside of all ranges are groups of their own: label 0.
    within = np.zeros(len(codes), dtype=np.bool_)
    within[kernel] = True
    outside = np.flatnonzero(~within).astype(np.int32)
    kernel = np.concatenate([kernel, outside])
    label, example = _labels(ranges)
    label = np.concatenate([label[row] + 1, np.zeros(len(outside), dtype=label.dtype)])
    row = np.concatenate([row, np.full(len(outside), -1, dtype=np.int32)])
    group = label.astype(np.int64) * max(len(names), 1) + codes[kernel]
    sums = _sums(group, ns[kernel])
    keys = sums.pop("group")
    # Instances of a range: a group and a row of ranges, counted once each.
    instances = distinct(np.searchsorted(keys, group) * (len(ranges) + 1) + row + 1) // (len(ranges) + 1)
    of_label = keys // max(len(names), 1)
    inside = of_label > 0
    found = ranges.iloc[example[of_label[inside] - 1]]
    words = [
        f"{domain}:{name}" if domain else str(name) for domain, name in zip(found["domain"], found["name"], strict=True)
    ]
    columns: dict[str, npt.NDArray[Any]] = {
        "range": _filled(inside, np.asarray(words, dtype=object), ""),
        "style": _filled(inside, found["style"].to_numpy(dtype=object), ""),
        "pid": _filled(inside, found["pid"].to_numpy(dtype=np.int64), -1),
        "tid": _filled(inside, found["tid"].to_numpy() & _TID_MASK, -1),
        "range_count": np.where(inside, np.bincount(instances, minlength=len(keys)), 0),
        "name": names[keys % max(len(names), 1)],
    }
    by = ["range", "style", "pid", "tid", "total_ns", "name"]
    frame = pd.DataFrame(columns | sums, columns=list(RANGE_SUMS))
    return frame.sort_values(by, ascending=[name != "total_ns" for name in by], kind="stable", ignore_index=True)


def _kernels(
    trace: GpuTrace,
) -> tuple[npt.NDArray[np.object_], _Ints, npt.NDArray[np.int64], npt.NDArray[np.intp]]:
    """The names of kernels, and of each kernel the number of its name, its time, and its row in the table of work."""
    work = trace.work
    rows = np.flatnonzero((work["kind"] == "kernel").to_numpy())
    ns = (work["end_ns"].to_numpy() - work["start_ns"].to_numpy())[rows]
    names = work["name"].cat
    return names.categories.to_numpy(dtype=object), names.codes.to_numpy()[rows], ns, rows


def _labels(ranges: pd.DataFrame) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.intp]]:
    """A number for each range, the same for those of the same words on the same thread, and one row of each number."""
    label = np.zeros(len(ranges), dtype=np.int32)
    for name in ("domain", "name", "style", "tid"):
        column = ranges[name]
        values = column.to_numpy() if name == "tid" else column.cat.codes.to_numpy()
        among = distinct(values)
        both = label.astype(np.int64) * max(len(among), 1) + np.searchsorted(among, values)
        label = np.searchsorted(distinct(both), both).astype(np.int32)
    return label, np.unique(label, return_index=True)[1]


def _filled(inside: npt.NDArray[np.bool_], values: npt.NDArray[Any], otherwise: object) -> npt.NDArray[Any]:
    filled = np.full(len(inside), otherwise, dtype=values.dtype)
    filled[inside] = values
    return filled


def _sums(group: _Ints, ns: npt.NDArray[np.int64]) -> dict[str, npt.NDArray[Any]]:
    """Sums of times by group: ``group`` and the columns of `KERNEL_SUMS` but the name, ``[groups]`` each."""
    order = np.lexsort((ns, group))
    ns, group = ns[order], group[order]
    firsts = np.flatnonzero(np.concatenate([[True], group[1:] != group[:-1]])) if len(group) else np.empty(0, np.int64)
    count = np.diff(np.append(firsts, len(group)))
    if not len(firsts):
        floats = dict.fromkeys(("avg_ns", "median_ns", "stddev_ns"), np.empty(0))
        ints = dict.fromkeys(("group", "count", "total_ns", "min_ns", "max_ns"), np.empty(0, dtype=np.int64))
        empty = ints | floats
        return {name: empty[name] for name in ("group", *KERNEL_SUMS[1:])}
    total = np.add.reduceat(ns, firsts)
    average = total / count
    squares = np.add.reduceat((ns - np.repeat(average, count)) ** 2, firsts)
    return {
        "group": group[firsts],
        "count": count,
        "total_ns": total,
        "avg_ns": average,
        "median_ns": (ns[firsts + (count - 1) // 2] + ns[firsts + count // 2]) / 2,
        "min_ns": ns[firsts],
        "max_ns": ns[firsts + count - 1],
        "stddev_ns": np.sqrt(squares / np.maximum(count - 1, 1)),
    }
