from __future__ import annotations

import io
import re
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

from tests.fakes.report_factory import CASES, make_run, one_layer, typical
from tests.fakes.timeline_factory import timed_case
from trtprof.base.errors import TrtprofError, UsageError
from trtprof.base.records import Run
from trtprof.report import ReportOptions, get
from trtprof.report.tables import TABLES, Cell, table_of


def read(run: Run, table: str) -> Any:
    return pq.read_table(io.BytesIO(get("parquet").encode(run, ReportOptions(table=table))))


def plain(cell: Cell) -> Any:
    return list(cell) if isinstance(cell, tuple) else cell


def test_every_cell_comes_back(subtests: pytest.Subtests) -> None:
    for table in TABLES:
        for case in CASES:
            with subtests.test(table=table, case=case):
                run = timed_case(case)
                found = read(run, table)
                assert found.column_names == [column.name for column in table_of(table).columns(None)]
                wanted = [tuple(map(plain, row)) for row in table_of(table).rows(run)]
                columns = [found.column(name).to_pylist() for name in found.column_names]
                assert list(zip(*columns, strict=True)) == wanted


def test_columns_are_typed_even_without_a_row_and_say_their_unit() -> None:
    schema = read(make_run(), "layers").schema
    types = {
        "rank": "int64",
        "name": "string",
        "nodes": "list<element: string>",
        "lost_ns": "int64",
        "constant": "bool",
    }
    assert {name: str(schema.field(name).type) for name in types} == types
    lost = schema.field("lost_ns").metadata
    assert (lost[b"unit"], lost[b"kind"]) == (b"ns", b"estimate")
    assert schema.field("measured_ns").metadata[b"kind"] == b"fact"
    assert schema.metadata[b"trtprof.table"] == b"layers"
    assert schema.metadata[b"trtprof.model"] == b"tinynet.onnx"


def test_it_is_binary_and_of_one_table() -> None:
    found = get("parquet")
    assert found.binary
    assert found.tables
    with pytest.raises(UsageError, match="no text") as caught:
        found.render(typical(), ReportOptions())
    assert "report.parquet" in caught.value.fix
    with pytest.raises(UsageError, match="no table"):
        found.encode(typical(), ReportOptions(table="layer"))


def test_a_number_that_does_not_fit_is_one_clear_error() -> None:
    layer = msgspec.structs.replace(one_layer().layers[0], flops=2**70)
    with pytest.raises(TrtprofError, match="layers") as caught:
        read(make_run((layer,)), "layers")
    assert "CSV" in caught.value.fix
    assert re.fullmatch("a number of its column [a-z_]+ has more than 64 bits", caught.value.why)
