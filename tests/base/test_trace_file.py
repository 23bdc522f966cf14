"""A capture of a GPU on disk comes back as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.support import refused
from trtprof.base.errors import MissingError, UsageError
from trtprof.base.trace import GRAPH_COLUMNS, LAUNCH_COLUMNS, RANGE_COLUMNS, WORK_COLUMNS, GpuTrace, TraceGpu
from trtprof.base.trace_file import FACTS_FILE, TABLES, load_trace, save_trace, table_file

NAMES = {"work": ("kind", "name", "short_name"), "launches": ("name",), "ranges": ("domain", "name", "style")}
NARROW: dict[str, type[np.signedinteger[Any]]] = {
    "device": np.int16,
    "pid": np.int32,
    "grid_x": np.int32,
    "registers": np.int32,
}
WORDS = st.text(st.characters(codec="utf-8"), max_size=8)


def frame(draw: st.DrawFn, table: str, columns: tuple[str, ...]) -> pd.DataFrame:
    rows = draw(st.integers(0, 6))
    found: dict[str, Any] = {}
    for column in columns:
        if column in NAMES.get(table, ()):
            names = draw(st.lists(WORDS, min_size=1, max_size=5, unique=True))
            codes = draw(st.lists(st.integers(0, len(names) - 1), min_size=rows, max_size=rows))
            found[column] = pd.Categorical.from_codes(codes, categories=pd.Index(names, dtype=object))
        else:
            kind = NARROW.get(column, np.int64)
            bounds = np.iinfo(kind)
            values = st.integers(int(bounds.min), int(bounds.max))
            found[column] = np.array(draw(st.lists(values, min_size=rows, max_size=rows)), dtype=kind)
    return pd.DataFrame(found, columns=list(columns))


@st.composite
def traces(draw: st.DrawFn) -> GpuTrace:
    return GpuTrace(
        work=frame(draw, "work", WORK_COLUMNS),
        launches=frame(draw, "launches", LAUNCH_COLUMNS),
        ranges=frame(draw, "ranges", RANGE_COLUMNS),
        graph_nodes=frame(draw, "graph_nodes", GRAPH_COLUMNS),
        gpus=tuple(TraceGpu(device=device, name=draw(WORDS), sms=3) for device in range(draw(st.integers(0, 2)))),
        collector=draw(st.sampled_from(["nsys", "cupti", "nsys stats"])),
        version=draw(WORDS),
        window=draw(st.none() | st.tuples(st.integers(0, 9), st.integers(10, 2**62))),
        notes=tuple(draw(st.lists(WORDS, max_size=3))),
    )


def assert_same(one: GpuTrace, other: GpuTrace) -> None:
    for table in TABLES:
        pd.testing.assert_frame_equal(getattr(one, table), getattr(other, table))
    assert one[len(TABLES) :] == other[len(TABLES) :]


def empty(table: str) -> pd.DataFrame:
    kinds = {column: "category" if column in NAMES.get(table, ()) else "int64" for column in TABLES[table]}
    return pd.DataFrame({column: pd.Series([], dtype=kind) for column, kind in kinds.items()})


@pytest.fixture
def written(tmp_path: Path) -> Path:
    work, launches, ranges, graph_nodes = map(empty, TABLES)
    save_trace(GpuTrace(work, launches, ranges, graph_nodes, notes=("nothing ran",)), tmp_path)
    return tmp_path


@given(trace=traces())
def test_whatever_is_written_comes_back(trace: GpuTrace, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("trace")
    save_trace(trace, folder)
    assert_same(load_trace(folder), trace)


def test_the_same_trace_gives_the_same_bytes(tmp_path: Path, written: Path) -> None:
    before = {path.name: path.read_bytes() for path in written.iterdir()}
    save_trace(load_trace(written), written)
    assert {path.name: path.read_bytes() for path in written.iterdir()} == before


def test_a_folder_without_a_trace_is_said_to_have_none(tmp_path: Path) -> None:
    with pytest.raises(MissingError) as caught:
        load_trace(tmp_path)
    assert FACTS_FILE in refused(caught.value)


@pytest.mark.parametrize("table", TABLES)
def test_a_table_that_is_gone_or_damaged_is_named(table: str, written: Path) -> None:
    path = written / table_file(table)
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(UsageError) as damaged:
        load_trace(written)
    assert path.name in refused(damaged.value)
    path.unlink()
    with pytest.raises(MissingError) as gone:
        load_trace(written)
    assert path.name in refused(gone.value)
