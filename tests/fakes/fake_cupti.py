"""A module ``cupti.cupti`` that needs no GPU: it hands over the records that a test gives it, as the real one does.

Records come in three forms: as objects with attributes alone, as those of cupti-python 13.0 (an array ``_data`` with
the bytes, and attributes), and as those of 13.4 (the record itself is a buffer).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt


class ActivityKind(IntEnum):
    """Numbers of CUPTI's header."""

    MEMCPY = 1
    MEMSET = 2
    KERNEL = 3
    DRIVER = 4
    RUNTIME = 5
    DEVICE = 8
    CONCURRENT_KERNEL = 10
    MARKER = 12
    OVERHEAD = 17
    MEMCPY2 = 22


class ActivityFlag(IntEnum):
    FLUSH_FORCED = 1
    MARKER_START = 2


class ActivityThreadIdType(IntEnum):
    DEFAULT = 0
    SYSTEM = 1


class ActivityObjectKind(IntEnum):
    PROCESS = 1
    THREAD = 2


class CallbackDomain(IntEnum):
    DRIVER_API = 1
    RUNTIME_API = 2


class Result(IntEnum):
    ERROR_INVALID_PARAMETER = 1
    ERROR_OUT_OF_MEMORY = 8
    ERROR_NOT_COMPATIBLE = 14
    ERROR_NOT_INITIALIZED = 15
    ERROR_INSUFFICIENT_PRIVILEGES = 35
    ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED = 39
    ERROR_UNKNOWN = 999


class cuptiError(Exception):  # noqa: N801 - the real one's name
    def __init__(self, status: int) -> None:
        super().__init__(f"{status}")
        self.status = status


FUNCTIONS = {
    (CallbackDomain.RUNTIME_API, 211): "cudaLaunchKernel_v7000",
    (CallbackDomain.RUNTIME_API, 51): "cudaMemsetAsync_ptsz_v7000",
    (CallbackDomain.RUNTIME_API, 41): "cudaMemcpyAsync_v3020",
    (CallbackDomain.DRIVER_API, 307): "cuLaunchKernel",
    (CallbackDomain.DRIVER_API, 220): "cuMemsetD32Async",
    (CallbackDomain.DRIVER_API, 514): "cuGraphLaunch",
}


class FakeCupti(SimpleNamespace):
    """The module.

    Attributes:
        buffers: What the next flush delivers: lists of records.
        calls: Names of the functions called, with their arguments.
        failing: For the name of a function, or of a kind to enable, the status that it fails with.
        dropped: What the module says it dropped.
        synchronised: What the driver, which this stands for too, says when asked to wait.
        now: The next time stamp.
    """

    def __init__(self) -> None:
        super().__init__(
            ActivityKind=ActivityKind, ActivityFlag=ActivityFlag, ActivityThreadIdType=ActivityThreadIdType,
            ActivityObjectKind=ActivityObjectKind, CallbackDomain=CallbackDomain,
            Result=Result, cuptiError=cuptiError,
            activity_kernel10_dtype=KERNEL, activity_api_dtype=API, activity_marker2_dtype=MARKER,
        )  # fmt: skip
        self.buffers: list[list[Any]] = []
        self.calls: list[tuple[Any, ...]] = []
        self.failing: dict[str, int | Exception] = {}
        self.dropped = 0
        self.synchronised = 0
        self.now = 1_000
        self.enabled: set[int] = set()
        self.complete: Callable[[Sequence[Any]], None] | None = None

    def _call(self, name: str, *arguments: Any) -> None:
        self.calls.append((name, *arguments))
        self._fail(name)

    def _fail(self, name: str) -> None:
        failure = self.failing.get(name)
        if isinstance(failure, Exception):
            raise failure
        if failure:
            raise cuptiError(failure)

    def set_thread_id_type(self, kind: int) -> None:
        self._call("set_thread_id_type", kind)

    def activity_register_callbacks(self, request: Any, complete: Any) -> None:
        self._call("activity_register_callbacks", *request())
        self.complete = complete

    def activity_enable(self, kind: int) -> None:
        self._call("activity_enable", ActivityKind(kind).name)
        self._fail(ActivityKind(kind).name)
        self.enabled.add(kind)

    def activity_disable(self, kind: int) -> None:
        self._call("activity_disable", ActivityKind(kind).name)
        self.enabled.discard(kind)

    def activity_flush_all(self, flag: int) -> None:
        self._call("activity_flush_all", flag)
        self.deliver()

    def activity_get_num_dropped_records(self, context: int, stream: int, dropped: int) -> None:
        self._call("activity_get_num_dropped_records", context, stream)
        ctypes.c_size_t.from_address(dropped).value = self.dropped

    def cuCtxSynchronize(self) -> int:  # noqa: N802 - the driver's name
        self._call("cuCtxSynchronize")
        return self.synchronised

    def get_timestamp(self) -> int:
        self._fail("get_timestamp")
        self.now += 10
        return self.now

    def get_callback_name(self, domain: int, function: int) -> str:
        try:
            return FUNCTIONS[CallbackDomain(domain), function]
        except KeyError:
            raise cuptiError(1) from None

    def deliver(self) -> None:
        """Hand the buffers over, as CUPTI does when one is full."""
        waiting, self.buffers = self.buffers, []
        assert self.complete is not None
        for records in waiting:
            self.complete(records)


# --- records as objects with attributes -----------------------------------------------------


def kernel(name: str, start: int, end: int, **others: Any) -> SimpleNamespace:
    return SimpleNamespace(**_work(ActivityKind.CONCURRENT_KERNEL, start, end) | {
        "name": name, "grid_x": 1, "grid_y": 1, "grid_z": 1, "block_x": 32, "block_y": 1, "block_z": 1,
        "registers_per_thread": 16, "static_shared_memory": 0, "dynamic_shared_memory": 0,
    } | others)  # fmt: skip


def copy(direction: int, size: int, start: int, end: int, **others: Any) -> SimpleNamespace:
    return SimpleNamespace(**_work(ActivityKind.MEMCPY, start, end) | {"bytes": size, "copy_kind": direction} | others)


def memset(size: int, start: int, end: int, **others: Any) -> SimpleNamespace:
    return SimpleNamespace(**_work(ActivityKind.MEMSET, start, end) | {"bytes": size} | others)


def _work(kind: int, start: int, end: int) -> dict[str, Any]:
    return {
        "kind": int(kind), "start": start, "end": end, "device_id": 0, "context_id": 1, "stream_id": 7,
        "correlation_id": 0, "graph_node_id": 0,
    }  # fmt: skip


def call(kind: ActivityKind, function: int, start: int, end: int, correlation: int, thread: int) -> SimpleNamespace:
    return SimpleNamespace(
        kind=int(kind), cbid=function, start=start, end=end, process_id=1, thread_id=thread, correlation_id=correlation,
        return_value=0,
    )  # fmt: skip


def marker(
    flags: int, number: int, time: int, thread: int, name: str | None = None, domain: str | None = None,
    about: ActivityObjectKind = ActivityObjectKind.THREAD,
) -> SimpleNamespace:  # fmt: skip
    return SimpleNamespace(
        kind=int(ActivityKind.MARKER), flags_=flags, timestamp=time, id=number, object_kind=int(about), name=name,
        domain=domain, object_id=SimpleNamespace(pt=SimpleNamespace(process_id=1, thread_id=thread)),
    )  # fmt: skip


def device(number: int, **others: Any) -> SimpleNamespace:
    return SimpleNamespace(**{
        "kind": int(ActivityKind.DEVICE), "id": number, "name": "NVIDIA Test", "compute_capability_major": 9,
        "compute_capability_minor": 0, "num_multiprocessors": 132, "core_clock_rate": 1_980_000,
        "global_memory_size": 80 << 30, "global_memory_bandwidth": 3_350_000_000, "l2cache_size": 50 << 20,
    } | others)  # fmt: skip


# --- records with their bytes ---------------------------------------------------------------

KERNEL = np.dtype(
    [("kind", "i4"), ("registers_per_thread", "u2"), ("start", "u8"), ("end", "u8"), ("device_id", "u4"),
     ("context_id", "u4"), ("stream_id", "u4"), ("grid_x", "i4"), ("grid_y", "i4"), ("grid_z", "i4"),
     ("block_x", "i4"), ("block_y", "i4"), ("block_z", "i4"), ("static_shared_memory", "i4"),
     ("dynamic_shared_memory", "i4"), ("correlation_id", "u4"), ("name", "i8"), ("graph_node_id", "u8")],
    align=True,
)  # fmt: skip
API = np.dtype(
    [("kind", "i4"), ("cbid", "u4"), ("start", "u8"), ("end", "u8"), ("process_id", "u4"), ("thread_id", "u4"),
     ("correlation_id", "u4"), ("return_value", "u4")],
    align=True,
)  # fmt: skip
MARKER = np.dtype(
    [("kind", "i4"), ("flags_", "i4"), ("timestamp", "u8"), ("id", "u4"), ("object_kind", "i4"),
     ("object_id", {"names": ["pt"], "formats": [[("process_id", "u4"), ("thread_id", "u4")]], "offsets": [0],
                    "itemsize": 12}),
     ("pad", "u4"), ("name", "i8"), ("domain", "i8")],
    align=True,
)  # fmt: skip


class _Bytes(bytes):
    """A record that is a buffer: 13.4."""

    layout: np.dtype[Any]

    def __getattr__(self, field: str) -> Any:
        return _value(np.frombuffer(bytes(self), self.layout)[0], field)


class _Held:
    """A record that holds an array: 13.0."""

    layout: np.dtype[Any]

    def __init__(self, data: bytes) -> None:
        self._data = np.frombuffer(data, self.layout).view(np.recarray)

    def __getattr__(self, field: str) -> Any:
        return _value(self._data[0], field)


def _value(row: Any, field: str) -> Any:
    if field not in row.dtype.names:
        raise AttributeError(field)
    if field in {"name", "domain"}:
        return ctypes.string_at(int(row[field])).decode() if row[field] else ""
    if field == "object_id":
        pair = row["object_id"]["pt"]
        return SimpleNamespace(pt=SimpleNamespace(process_id=int(pair[0]), thread_id=int(pair[1])))
    return int(row[field])


def _classes(base: type) -> dict[np.dtype[Any], type]:
    named = {"ActivityKernel10": KERNEL, "ActivityAPI": API, "ActivityMarker2": MARKER}
    return {layout: type(name, (base,), {"layout": layout}) for name, layout in named.items()}


BUFFERS, HELD = _classes(_Bytes), _classes(_Held)
_TEXTS: dict[str, Any] = {}


def packed(records: Iterable[SimpleNamespace], forms: dict[np.dtype[Any], type]) -> list[Any]:
    """Kernels, calls and markers as records of another form; ``forms`` is `BUFFERS` or `HELD`."""
    layouts = {
        ActivityKind.CONCURRENT_KERNEL: KERNEL, ActivityKind.RUNTIME: API, ActivityKind.DRIVER: API,
        ActivityKind.MARKER: MARKER,
    }  # fmt: skip
    found = []
    for record in records:
        layout = layouts[ActivityKind(record.kind)]
        row: npt.NDArray[Any] = np.zeros(1, layout)
        for field in layout.names or ():
            value: Any = getattr(record, field, 0)
            if field in {"name", "domain"}:
                row[field] = _address(value) if value else 0
            elif field == "object_id":
                row[field]["pt"] = (value.pt.process_id, value.pt.thread_id)
            else:
                row[field] = value
        found.append(forms[layout](row.tobytes()))
    return found


def _address(text: str) -> int:
    """Where the text stands; equal texts stand at one place, as those of kernels do."""
    return ctypes.addressof(_TEXTS.setdefault(text, ctypes.create_string_buffer(text.encode())))
