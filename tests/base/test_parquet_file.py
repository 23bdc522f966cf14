"""Tables are read as they were written, and no thread is started for those of a run."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from tests.fakes.support import ROOT
from trtprof.base.parquet_file import read_parquet

EXAMPLE = ROOT / "reports" / "example"


def test_a_table_comes_back_as_pandas_reads_it(tmp_path: Path) -> None:
    kinds = pd.Series(["a", None, "b"], dtype="category", index=pd.Index([3, 5, 7], name="at"))
    table = pd.DataFrame({"kind": kinds, "ns": pd.Series([1, 2, 3], index=kinds.index), "name": ["x", "y", None]})
    table.to_parquet(tmp_path / "table.parquet")
    pd.testing.assert_frame_equal(read_parquet(tmp_path / "table.parquet"), pd.read_parquet(tmp_path / "table.parquet"))
    for path in sorted(EXAMPLE.glob("*.parquet")):
        pd.testing.assert_frame_equal(read_parquet(path), pd.read_parquet(path))


def test_a_damaged_one_is_a_value_error(tmp_path: Path) -> None:
    (tmp_path / "cut.parquet").write_bytes(next(EXAMPLE.glob("*.parquet")).read_bytes()[:-20])
    with pytest.raises(ValueError, match="Parquet"):
        read_parquet(tmp_path / "cut.parquet")
