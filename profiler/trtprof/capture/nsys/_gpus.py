"""What an nsys export says of the machine: its GPUs, and which nsys wrote it."""

from __future__ import annotations

import msgspec

from trtprof.base.nested_ranges import distinct
from trtprof.base.trace import TraceGpu
from trtprof.capture.nsys._file import Column, TraceFile
from trtprof.capture.nsys._pages import Ints


def described_gpus(trace: TraceFile, devices: Ints, notes: list[str]) -> tuple[TraceGpu, ...]:
    """The GPUs, numbered as the kernels number them: by TARGET_INFO_CUDA_DEVICE, which maps one to the other."""
    cuda = trace.read(
        "TARGET_INFO_CUDA_DEVICE",
        {
            "device": Column(("cudaId",)),
            "gpu": Column(("gpuId",), default=-1),
            "sms": Column(("numMultiprocessors",)),
        },
    )
    pairs = sorted(set(zip(cuda["device"].tolist(), cuda["gpu"].tolist(), cuda["sms"].tolist(), strict=True)))
    described = {record.device: record for record in _described(trace)}
    gpus: dict[int, TraceGpu] = {}
    for device, gpu, sms in pairs:
        if device in gpus:
            notes.append(f"processes mean different GPUs by CUDA device {device}: the first is described")
        elif (known := gpu if gpu >= 0 else device) in described:
            gpus[device] = msgspec.structs.replace(described[known], device=device)
        else:
            gpus[device] = TraceGpu(device=device, sms=sms)
    if not pairs:
        gpus = described
    missing = [device for device in distinct(devices).tolist() if device not in gpus or not gpus[device].name]
    if missing:
        numbers = ", ".join(str(device) for device in missing)
        notes.append(f"the file does not describe GPU {numbers}: name it (--gpu)")
    return tuple(gpus[device] for device in sorted(gpus))


def _described(trace: TraceFile) -> list[TraceGpu]:
    there = trace.tables.get("TARGET_INFO_GPU", frozenset())
    if "id" not in there:
        return []
    wanted = (
        "id", "name", "computeMajor", "computeMinor", "smCount", "clockRate", "totalMemory", "memoryBandwidth",
        "l2CacheSize",
    )  # fmt: skip
    selected = ", ".join(name if name in there else "NULL" for name in wanted)
    found = []
    for row in trace.rows(f"SELECT {selected} FROM TARGET_INFO_GPU ORDER BY id"):  # noqa: S608
        gpu, name, major, minor, sms, clock_hz, memory, bandwidth, l2 = row
        record = TraceGpu(
            device=max(_int(gpu), 0),
            name=str(name or ""),
            compute_capability=f"{_int(major)}.{_int(minor)}" if major else "",
            sms=max(_int(sms), 0),
            clock_mhz=_int(clock_hz) / 1e6,
            memory_bytes=max(_int(memory), 0),
            dram_bytes_per_s=float(_int(bandwidth)),
            l2_bytes=max(_int(l2), 0),
        )
        found.append(record)
    return found


def _int(value: object) -> int:
    return int(value) if isinstance(value, int | float) and abs(value) < 1 << 63 else 0


def nsys_version(trace: TraceFile) -> str:
    """The version of nsys: META_DATA_EXPORT, before 2023.4 EXPORT_META_DATA."""
    for table in ("META_DATA_EXPORT", "EXPORT_META_DATA"):
        if {"name", "value"} <= trace.tables.get(table, frozenset()):
            found = trace.rows(f"SELECT value FROM {table} WHERE name = 'EXPORT_PRODUCT_VERSION'")  # noqa: S608
            if found and found[0][0]:
                return str(found[0][0])
    return ""
