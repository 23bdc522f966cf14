"""The CSVs that ``nsys stats`` writes of a capture, from a capture that is read: headers as nsys 2026.2 has them."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import numpy as np
import pandas as pd

from trtprof.base.nested_ranges import calls_of
from trtprof.base.trace import GpuTrace
from trtprof.capture.nsys.stats import RANGE_SUMS

KERNELS = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name"
RANGES = (
    "NVTX Range,Style,PID,TID,NVTX Inst,Kern Inst,Total Time (ns),Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),"
    "Kernel Name"
)
TRACE = (
    "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),Bytes (MB),"
    "Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name"
)
_STYLES = {"push_pop": "PushPop", "start_end": "StartEnd", "": ""}


def kernel_summary(trace: GpuTrace) -> pd.DataFrame:
    """Kernels by name, as ``cuda_gpu_kern_sum`` sums them: most time first, names that took the same in their order."""
    sums = _summed(_kernels_of(trace), ["name"])
    return sums.sort_values(["total_ns", "name"], ascending=[False, True], kind="stable", ignore_index=True)


def nvtx_kernel_summary(trace: GpuTrace) -> pd.DataFrame:
    """Kernels by each range around their launch, as ``nvtx_kern_sum`` sums them; ``""`` is outside of all ranges."""
    kernels, calls, ranges = _kernels_of(trace), trace.launches, trace.ranges
    at = calls_of(
        *(kernels[name].to_numpy() for name in ("pid", "correlation")),
        *(calls[name].to_numpy() for name in ("pid", "correlation")),
    )
    tid, start, end = (calls[name].to_numpy() for name in ("tid", "start_ns", "end_ns"))
    pairs = [
        (row, kernel)
        for kernel, call in enumerate(at.tolist())
        for row in (
            np.flatnonzero(
                (ranges["tid"] == tid[call]) & (ranges["start_ns"] <= start[call]) & (ranges["end_ns"] >= end[call])
            ).tolist()
            if call >= 0
            else ()
        )
        or (-1,)
    ]
    rows, of_kernel = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    words = [
        f"{domain}:{name}" if domain else str(name)
        for domain, name in zip(ranges["domain"], ranges["name"], strict=True)
    ]
    known = pd.DataFrame(
        {"range": words, "style": ranges["style"].astype(str), "pid": ranges["pid"], "tid": ranges["tid"] & 0xFFFFFF}
    )
    outside = pd.DataFrame({"range": [""], "style": [""], "pid": [-1], "tid": [-1]})
    inside = pd.concat([known, outside], ignore_index=True).iloc[rows].reset_index(drop=True)
    frame = pd.concat([inside, kernels[["name", "ns"]].iloc[of_kernel].reset_index(drop=True)], axis=1).assign(row=rows)
    by = ["range", "style", "pid", "tid"]
    sums = _summed(frame, [*by, "name"])
    counts = frame[frame["row"] >= 0].groupby([*by, "name"])["row"].nunique().rename("range_count").reset_index()
    sums = sums.merge(counts, on=[*by, "name"], how="left").fillna({"range_count": 0}).astype({"range_count": int})
    order = [*by, "total_ns", "name"]
    return sums[list(RANGE_SUMS)].sort_values(
        order, ascending=[name != "total_ns" for name in order], kind="stable", ignore_index=True
    )


def _kernels_of(trace: GpuTrace) -> pd.DataFrame:
    work = trace.work[trace.work["kind"] == "kernel"]
    return work.assign(name=work["name"].astype(str), ns=work["end_ns"] - work["start_ns"]).reset_index(drop=True)


def _summed(frame: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    ns = frame.groupby(by, sort=False)["ns"]
    sums = ns.agg(
        count="count", total_ns="sum", avg_ns="mean", median_ns="median", min_ns="min", max_ns="max", stddev_ns="std"
    )
    return sums.fillna({"stddev_ns": 0.0}).reset_index()


def write_stats(trace: GpuTrace, report: str, path: Path) -> Path:
    """Write ``cuda_gpu_kern_sum``, ``nvtx_kern_sum`` or ``cuda_gpu_trace`` of a capture."""
    header, rows = {
        "cuda_gpu_kern_sum": (KERNELS, _kernels),
        "nvtx_kern_sum": (RANGES, _ranges),
        "cuda_gpu_trace": (TRACE, _trace),
    }[report]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header.split(","))
    writer.writerows(rows(trace))
    path.write_text(text.getvalue(), encoding="utf-8")
    return path


def _numbers(row: dict[str, object]) -> list[object]:
    return [
        row["total_ns"], f"{row['avg_ns']:.1f}", f"{row['median_ns']:.1f}", row["min_ns"], row["max_ns"],
        f"{row['stddev_ns']:.1f}",
    ]  # fmt: skip


def _kernels(trace: GpuTrace) -> list[list[object]]:
    rows = _records(kernel_summary(trace))
    return [[0.0, row["total_ns"], row["count"], *_numbers(row)[1:], row["name"]] for row in rows]


def _ranges(trace: GpuTrace) -> list[list[object]]:
    return [
        [
            row["range"], _STYLES[str(row["style"])], *("" if row[key] == -1 else row[key] for key in ("pid", "tid")),
            row["range_count"], row["count"], *_numbers(row), row["name"],
        ]
        for row in _records(nvtx_kernel_summary(trace))
    ]  # fmt: skip


def _trace(trace: GpuTrace) -> list[list[object]]:
    rows: list[list[object]] = []
    for row in _records(trace.work):
        place = [f"NVIDIA GeForce RTX 4090 ({row['device']})", row["context"], "", row["stream"]]
        at = [row["start_ns"], int(str(row["end_ns"])) - int(str(row["start_ns"])), row["correlation"]]
        if row["kind"] == "kernel":
            sizes = [row[f"{of}_{axis}"] for of in ("grid", "block") for axis in "xyz"]
            shared = [f"{int(str(row[key])) / 1e6:.3f}" for key in ("static_smem", "dynamic_smem")]
            rows.append([*at, *sizes, row["registers"], *shared, "", "", "", "", *place, row["name"]])
            continue
        words = str(row["name"]).replace("memcpy ", "")
        ends = re.fullmatch("([HD])to([HD])", words)
        longer = {"H": "Host", "D": "Device"}
        words = f"memcpy {longer[ends[1]]}-to-{longer[ends[2]]}" if ends else words
        moved = f"{int(str(row['bytes'])) / 1e6:.3f}"
        rows.append([*at, *[""] * 9, moved, "1.000", "Device", "Device", *place, f"[CUDA {words}]"])
    return rows


def _records(frame: pd.DataFrame) -> list[dict[str, object]]:
    return [{str(key): value for key, value in row.items()} for row in frame.to_dict("records")]
