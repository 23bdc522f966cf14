"""CUPTI's activity records as columns: a buffer is read once, when it arrives, and none of its records is kept.

The fields of a record are attributes, named as in cupti-python's classes. Reading them one by one is dear: a field took
3.5 us with cupti-python 13.0.1, where each is looked up in a numpy record, and 40 ns with 13.4.0. So where a record
shows its bytes (13.4 as a buffer, 13.0 as the array ``_data``) and the module says how they are laid out
(``activity_kernel10_dtype``), the bytes of all records of a class are joined and read as one table.
"""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from trtprof.base.nested_ranges import distinct, places_in
from trtprof.capture.nsys._tables import Columns


class Family(NamedTuple):
    """Records that become one table."""

    kinds: tuple[str, ...]  # Names of the ActivityKinds
    # For each column the field of the record, a path where it is nested, and the type to keep it as
    fields: Mapping[str, tuple[str, str]]
    texts: Mapping[str, str] = {}  # For each column of names the field; the column holds places in `Records.texts`


_PLACE = {
    "start_ns": ("start", "int64"),
    "end_ns": ("end", "int64"),
    "device": ("device_id", "int16"),
    "context": ("context_id", "int32"),
    "stream": ("stream_id", "int32"),
    "correlation": ("correlation_id", "uint32"),
    "graph_node": ("graph_node_id", "int64"),
}

FAMILIES = {
    "kernel": Family(
        ("CONCURRENT_KERNEL", "KERNEL"),
        _PLACE
        | {axis: (axis, "int32") for axis in ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")}
        | {
            "registers": ("registers_per_thread", "int32"),
            "static_smem": ("static_shared_memory", "int32"),
            "dynamic_smem": ("dynamic_shared_memory", "int32"),
        },
        {"name": "name"},
    ),
    "memcpy": Family(
        ("MEMCPY", "MEMCPY2"), _PLACE | {"bytes": ("bytes", "int64"), "copy_kind": ("copy_kind", "int32")}
    ),
    "memset": Family(("MEMSET",), _PLACE | {"bytes": ("bytes", "int64")}),
    "call": Family(
        ("RUNTIME", "DRIVER"),
        {
            "start_ns": ("start", "int64"),
            "end_ns": ("end", "int64"),
            "kind": ("kind", "int32"),
            "function": ("cbid", "int32"),
            "thread": ("thread_id", "uint32"),
            "correlation": ("correlation_id", "uint32"),
        },
    ),
    "marker": Family(
        ("MARKER",),
        {
            "time_ns": ("timestamp", "int64"),
            "id": ("id", "uint32"),
            "flags": ("flags_", "int32"),
            "object": ("object_kind", "int32"),
            "thread": ("object_id.pt.thread_id", "uint32"),
        },
        {"name": "name", "domain": "domain"},
    ),
    "device": Family(
        ("DEVICE",),
        {
            "device": ("id", "int32"),
            "major": ("compute_capability_major", "int32"),
            "minor": ("compute_capability_minor", "int32"),
            "sms": ("num_multiprocessors", "int64"),
            "clock_khz": ("core_clock_rate", "int64"),
            "memory_bytes": ("global_memory_size", "int64"),
            "kilobytes_per_s": ("global_memory_bandwidth", "int64"),
            "l2_bytes": ("l2cache_size", "int64"),
        },
        {"name": "name"},
    ),
}
"""Every field of a record that is read. Units are those of CUPTI's header."""


class _Layout(NamedTuple):
    """How the bytes of a record of one class are had and read."""

    buffer: Callable[[Any], Any] | None  # What of the record has the bytes; None for the record itself
    dtype: np.dtype[Any]  # What they mean


class Records:
    """What CUPTI delivered so far.

    Attributes:
        texts: The distinct names.
        failure: What went wrong while a buffer was read; it cannot be raised there, in a thread of CUPTI.
    """

    def __init__(self, module: Any) -> None:
        """Prepare for the records of the module ``cupti.cupti``."""
        self.texts: list[str] = []
        self.failure: Exception | None = None
        self._module = module
        self._codes: dict[str, int] = {}
        self._layouts: dict[type, _Layout | None] = {}
        self._chunks: defaultdict[str, list[Columns]] = defaultdict(list)
        self._lock = threading.Lock()
        self._families = {
            int(getattr(module.ActivityKind, kind)): name for name, family in FAMILIES.items() for kind in family.kinds
        }

    def add(self, records: Sequence[Any]) -> None:
        """Take the records of one buffer over; this is CUPTI's callback for a completed buffer."""
        try:
            by_class: defaultdict[type, list[Any]] = defaultdict(list)
            for record in records:
                by_class[type(record)].append(record)
            with self._lock:
                for found in by_class.values():
                    self._add(found)
        except Exception as error:
            self.failure = self.failure or error

    def columns(self, name: str) -> Columns:
        """All records of a family so far, ``[records]`` each, in the order in which they came."""
        family = FAMILIES[name]
        with self._lock:
            chunks = list(self._chunks[name])
        dtypes = {column: dtype for column, (_, dtype) in family.fields.items()} | dict.fromkeys(family.texts, "int32")
        return {
            column: np.concatenate([np.empty(0, dtype), *(chunk[column] for chunk in chunks)])
            for column, dtype in dtypes.items()
        }

    def _add(self, records: list[Any]) -> None:
        """Records of one class."""
        table = self._table(records)
        kinds = table["kind"] if table is not None else _field(records, "kind")
        for kind in distinct(kinds).tolist():
            name = self._families.get(kind)
            if name is None:
                continue
            chosen = kinds == kind
            if chosen.all():
                self._chunks[name].append(self._columns(FAMILIES[name], records, table))
                continue
            some = [record for record, taken in zip(records, chosen.tolist(), strict=True) if taken]
            self._chunks[name].append(self._columns(FAMILIES[name], some, None if table is None else table[chosen]))

    def _table(self, records: list[Any]) -> npt.NDArray[Any] | None:
        """Records of one class as a structured array ``[records]``; None where their bytes cannot be had."""
        first = records[0]
        if type(first) not in self._layouts:
            self._layouts[type(first)] = self._layout(first)
        layout = self._layouts[type(first)]
        if layout is None:
            return None
        return np.frombuffer(_joined(records, layout.buffer), dtype=layout.dtype)

    def _layout(self, record: Any) -> _Layout | None:
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(record).__name__).lower()
        dtype = getattr(self._module, f"{words}_dtype", None)
        if not isinstance(dtype, np.dtype) or not dtype.names:
            return None
        for buffer in (None, attrgetter("_data")):
            try:
                held = _joined([record], buffer)
            except (TypeError, AttributeError):
                continue
            # A layout that does not fit would give numbers that are wrong, not an error.
            if len(held) == dtype.itemsize and int(np.frombuffer(held, dtype)["kind"][0]) == record.kind:
                return _Layout(buffer, dtype)
        return None

    def _columns(self, family: Family, records: list[Any], table: npt.NDArray[Any] | None) -> Columns:
        columns: Columns = {}
        for column, (path, dtype) in family.fields.items():
            columns[column] = (_field(records, path) if table is None else _nested(table, path)).astype(dtype)
        for column, path in family.texts.items():
            if table is None:
                texts = map(attrgetter(path), records)
                columns[column] = np.fromiter(map(self._code, texts), np.int32, len(records))
                continue
            # Equal pointers are equal texts as long as all of them may be read: within one buffer.
            pointers = distinct(table[path])
            places = places_in(pointers, table[path])
            example = np.empty(len(pointers), dtype=np.intp)
            example[places] = np.arange(len(records))
            codes = [self._code(getattr(records[at], path)) for at in example.tolist()]
            columns[column] = np.asarray(codes, dtype=np.int32)[places]
        return columns

    def _code(self, text: str | None) -> int:
        text = text or ""
        code = self._codes.setdefault(text, len(self.texts))
        if code == len(self.texts):
            self.texts.append(text)
        return code


def _joined(records: list[Any], buffer: Callable[[Any], Any] | None) -> bytes:
    """The bytes of all records. Unlike `bytes`, it needs no format, which numpy has none for where fields overlap."""
    return b"".join(records if buffer is None else map(buffer, records))


def _field(records: Sequence[Any], path: str) -> npt.NDArray[np.uint64]:
    """A field of each record; all of them are unsigned, or not below 0."""
    return np.fromiter(map(attrgetter(path), records), np.uint64, len(records))


def _nested(table: npt.NDArray[Any], path: str) -> npt.NDArray[Any]:
    for part in path.split("."):
        table = table[part]
    return table
