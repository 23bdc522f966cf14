"""Write large sqlite files as nsys exports them, of an engine that TensorRT runs over and over.

One iteration is that of a capture on an RTX 3090: ``ExecutionContext::enqueue`` around 58 layers, of which 18 launch
nothing, 4 are device-to-device copies and 36 launch one kernel each. So 20,000 iterations are 720,000 kernels, 80,000
copies and 1,180,000 ranges. All is known: kernel ``kernel_<n>...`` belongs to layer ``layer_<n>...``.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.fakes.trace_factory import CALLS, COPIES, ERAS, KERNELS, NVTX, create, global_tid, insert, make_table

PID = 4711
FIRST_NS = 1_000_000_000
CALL_NS, LAYER_NS, LEAD_NS = 2_500, 4_000, 30_000
_AT_ONCE = 1_000
"""Iterations that are in memory at a time."""

_Ints = npt.NDArray[np.int64]


class LargeFile(NamedTuple):
    """What was written: numbers of kernels, copies and NVTX ranges, and the time of all kernels."""

    layers: tuple[str, ...]  # That of each kernel or copy of one iteration, in order
    kernels: int
    copies: int
    ranges: int
    kernel_ns: int


def write_large(
    path: Path,
    iterations: int = 20_000,
    kernels_per_iteration: int = 36,
    copies_per_iteration: int = 4,
    layers_per_iteration: int = 58,
    *,
    era: str = "2026.2",
) -> LargeFile:
    """Write a file of so many runs of an engine, in the schema of an era of `trace_factory.ERAS`."""
    generator = np.random.default_rng(0)
    working = kernels_per_iteration + copies_per_iteration
    at = np.sort(generator.choice(layers_per_iteration, working, replace=False))
    copying = np.zeros(working, dtype=bool)
    copying[generator.choice(working, copies_per_iteration, replace=False)] = True
    names = [f"layer_{index}: /blocks.{index // 6}/op_{index % 6}/Conv + relu" for index in range(layers_per_iteration)]
    kernels = [f"kernel_{index}_xmma_fprop_implicit_gemm_execute_kernel_trt" for index in at[~copying].tolist()]
    typical = generator.integers(2_000, 60_000, working)
    period = max(LEAD_NS + LAYER_NS * layers_per_iteration, int(typical.sum() * 1.2)) + 10_000

    connection = create(path)
    version = ERAS[era]
    strings = ["cudaLaunchKernel_v7000", "cudaMemcpyAsync_v3020", *kernels, *names]
    for table in ("StringIds", KERNELS, COPIES, CALLS, NVTX, *(name for name in version.tables if "META_DATA" in name)):
        make_table(connection, table, version.tables[table].split())
        if "META_DATA" in table:
            insert(connection, table, ("name", "value"), [("EXPORT_PRODUCT_VERSION", version.product)])
    insert(connection, "StringIds", ("id", "value"), list(enumerate(strings, 1)))
    thread = global_tid(PID, PID)
    insert(
        connection,
        NVTX,
        ("start", "eventType", "text", "globalTid", "domainId"),
        [(-1_878_291_120, 75, "TensorRT", thread, 1)],
    )
    texts = ["ExecutionContext::enqueue", *names]
    total = 0
    for begin in range(0, iterations, _AT_ONCE):
        count = min(_AT_ONCE, iterations - begin)
        base = FIRST_NS + period * np.arange(begin, begin + count)[:, None]
        opened = base + LEAD_NS // 2 + LAYER_NS * np.arange(layers_per_iteration)
        called = opened[:, at] + 500
        correlation = 1 + np.arange(begin * working, (begin + count) * working).reshape(count, working)
        spent = (typical * generator.normal(1, 0.02, (count, working)).clip(0.9, 1.1)).astype(np.int64)
        # One stream: a kernel starts when it was launched and the one before it is over.
        ready = called + CALL_NS + 3_000
        before = np.cumsum(spent, axis=1) - spent
        start = np.maximum.accumulate(ready - before, axis=1) + before
        total += int(spent[:, ~copying].sum())
        _insert_calls(connection, called, correlation, np.where(copying, 2, 1), thread)
        _insert_work(connection, KERNELS, start, spent, correlation, ~copying)
        _insert_work(connection, COPIES, start, spent, correlation, copying)
        starts = np.concatenate([base, opened], axis=1)
        ends = np.concatenate([opened[:, -1:] + LAYER_NS + 1_000, opened + LAYER_NS - 200], axis=1)
        rows = zip(starts.ravel().tolist(), ends.ravel().tolist(), texts * count, strict=True)
        connection.executemany(
            f'INSERT INTO {NVTX} (start, "end", text, eventType, globalTid, domainId) '  # noqa: S608
            f"VALUES (?, ?, ?, 59, {thread}, 1)",
            rows,
        )
    connection.commit()
    connection.close()
    return LargeFile(
        layers=tuple(names[index] for index in at.tolist()),
        kernels=iterations * kernels_per_iteration,
        copies=iterations * copies_per_iteration,
        ranges=iterations * (layers_per_iteration + 1),
        kernel_ns=total,
    )


def _insert_calls(connection: sqlite3.Connection, called: _Ints, correlation: _Ints, name: _Ints, thread: int) -> None:
    names = np.broadcast_to(name, called.shape)
    connection.executemany(
        f'INSERT INTO {CALLS} (start, "end", correlationId, nameId, eventClass, globalTid, returnValue) '  # noqa: S608
        f"VALUES (?, ?, ?, ?, 0, {thread}, 0)",
        _tuples([called, called + CALL_NS, correlation, names]),
    )


def _insert_work(
    connection: sqlite3.Connection, table: str, start: _Ints, spent: _Ints, correlation: _Ints, which: npt.NDArray[Any]
) -> None:
    if not which.any():
        return
    columns = [start[:, which], (start + spent)[:, which], correlation[:, which]]
    fixed = {"deviceId": 0, "contextId": 1, "streamId": 7, "globalPid": global_tid(PID, 0)}
    if table == KERNELS:
        ids = np.broadcast_to(3 + np.arange(int(which.sum())), columns[0].shape)
        grid = np.broadcast_to(32 + np.arange(int(which.sum())) % 7, columns[0].shape)
        columns += [ids, ids, grid]
        varying: Sequence[str] = ("start", "end", "correlationId", "demangledName", "shortName", "gridX")
        fixed |= {
            "gridY": 8, "gridZ": 1, "blockX": 128, "blockY": 1, "blockZ": 1, "registersPerThread": 128,
            "staticSharedMemory": 0, "dynamicSharedMemory": 49152, "localMemoryPerThread": 0, "localMemoryTotal": 0,
            "gridId": 1, "launchType": 1, "cacheConfig": 0, "sharedMemoryExecuted": 65536,
        }  # fmt: skip
    else:
        varying = ("start", "end", "correlationId")
        fixed |= {"bytes": 1 << 20, "copyKind": 8, "srcKind": 2, "dstKind": 2}
    names = ", ".join(f'"{name}"' for name in (*varying, *fixed))
    values = ", ".join(["?"] * len(varying) + [str(value) for value in fixed.values()])
    connection.executemany(f"INSERT INTO {table} ({names}) VALUES ({values})", _tuples(columns))  # noqa: S608


def _tuples(columns: Sequence[_Ints]) -> zip[tuple[int, ...]]:
    return zip(*(column.ravel().tolist() for column in columns), strict=True)
