"""Blocks, threads, registers and shared memory of the kernels of a layer, as its matches tell them."""

from __future__ import annotations

import random
from typing import Any

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from trtprof.align.gpu_kernels import TraceAlignment, align_trace
from trtprof.base.records import Match, MatchedLayer, PlanLayer
from trtprof.base.trace import GRAPH_COLUMNS, LAUNCH_COLUMNS, RANGE_COLUMNS, WORK_COLUMNS, GpuTrace

SIZES = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers", "static_smem", "dynamic_smem")
Row = dict[str, Any]


def empty(columns: tuple[str, ...]) -> pd.DataFrame:
    return pd.DataFrame({column: pd.Series(dtype="int64") for column in columns})


def trace_of(rows: list[Row], dtype: Any = "int32") -> GpuTrace:
    """Kernels one after the other, with no launches and no ranges: their names alone lead to layers."""
    work = pd.DataFrame(rows).reindex(columns=list(WORK_COLUMNS)).fillna(0)
    for column in WORK_COLUMNS:
        words = column in ("kind", "name", "short_name")
        work[column] = work[column].astype("category" if words else dtype if column in SIZES else "int64")
    ranges = empty(RANGE_COLUMNS).astype({"name": "category", "domain": "category", "style": "category"})
    return GpuTrace(work, empty(LAUNCH_COLUMNS).astype({"name": "category"}), ranges, empty(GRAPH_COLUMNS))


def kernel(at: int, name: str, *sizes: int, kind: str = "kernel", device: int = 0) -> Row:
    row = {"start_ns": 1000 * at, "end_ns": 1000 * at + 500, "kind": kind, "name": name, "short_name": name}
    return {**row, "device": device, **dict(zip(SIZES, sizes, strict=False))}


def aligned(rows: list[Row], **options: Any) -> TraceAlignment:
    names = sorted({str(row["name"]) for row in rows})
    return align_trace(trace_of(rows), [MatchedLayer(layer=PlanLayer(name=f"of {name}", kind="", tactic=name))
                                        for name in names], **options)  # fmt: skip


def launch_of(match: Match) -> tuple[int, int, int, int]:
    return match.blocks, match.threads, match.registers, match.shared_bytes


def matches(found: TraceAlignment) -> dict[str, tuple[int, int, int, int]]:
    return {match.kernel: launch_of(match) for own in (*found.matches, found.unattributed) for match in own}


def expected(rows: list[Row]) -> tuple[int, int, int, int]:
    """The lower median of each, row by row."""

    def median(values: list[int]) -> int:
        return sorted(values)[(len(values) - 1) // 2]

    return (
        median([row["grid_x"] * row["grid_y"] * row["grid_z"] for row in rows]),
        median([row["block_x"] * row["block_y"] * row["block_z"] for row in rows]),
        median([row["registers"] for row in rows]),
        median([row["static_smem"] + row["dynamic_smem"] for row in rows]),
    )


def test_products_and_sums_of_one_launch() -> None:
    found = aligned([kernel(at, "a", 10, 2, 3, 32, 4, 1, 40, 1024, 48 * 1024) for at in range(5)])
    assert matches(found) == {"a": (60, 128, 40, 49 * 1024)}


def test_what_a_capture_does_not_tell_stays_zero() -> None:
    assert matches(aligned([kernel(at, "a") for at in range(3)])) == {"a": (0, 0, 0, 0)}


def test_launches_that_differ_are_told_by_their_lower_median() -> None:
    rows = [kernel(at, "a", blocks, 1, 1, 128, 1, 1, 32, 0, 0) for at, blocks in enumerate((100, 1, 7, 5))]
    assert matches(aligned(rows)) == {"a": (5, 128, 32, 0)}, "7 is no less than half, and 6 is no launch"


def test_blocks_of_a_grid_may_be_more_than_32_bits_hold() -> None:
    rows = [kernel(at, "a", 2**31 - 1, 65_535, 2 + at, 1, 1, 1) for at in range(3)]
    assert matches(aligned(rows))["a"][0] == (2**31 - 1) * 65_535 * 3


def test_a_kernel_that_no_layer_launched_has_its_launch_too() -> None:
    rows = [kernel(at, "a", 4, 1, 1, 64, 1, 1) for at in range(3)]
    found = align_trace(trace_of(rows), [MatchedLayer(layer=PlanLayer(name="other", kind="", tactic="b"))])
    assert [launch_of(match) for match in found.unattributed] == [(4, 64, 0, 0)]


def test_kernels_of_another_gpu_are_left_out() -> None:
    rows = [kernel(2 * at + gpu, "a", 4 + gpu, 1, 1, 64, 1, 1, device=gpu) for at in range(3) for gpu in (0, 1)]
    assert matches(aligned(rows, device=1)) == {"a": (5, 64, 0, 0)}
    assert matches(aligned(rows, device=0)) == {"a": (4, 64, 0, 0)}


@given(st.data())
def test_medians_are_those_of_the_rows_whatever_their_order(data: st.DataObject) -> None:
    draw = data.draw
    same = draw(st.booleans())
    rows = []
    for at in range(draw(st.integers(1, 24))):
        name = draw(st.sampled_from("abc"))
        sizes = [ord(name)] * len(SIZES) if same else [draw(st.integers(0, 3)) for _ in SIZES]
        rows.append(kernel(at, name, *sizes))
    shuffled = random.Random(draw(st.integers(0, 9))).sample(rows, len(rows)) if draw(st.booleans()) else rows
    found = aligned(shuffled)
    kept = set(found.iterations.index[found.iterations["kept"]])
    regular = [number in kept for number in found.work["iteration"]]
    for name, launch in matches(found).items():
        # As the time: of iterations that are like the others, where the kernel runs in one.
        mine = [(row, usual) for row, usual in zip(shuffled, regular, strict=True) if row["name"] == name]
        assert launch == expected([row for row, usual in mine if usual] or [row for row, _ in mine])
