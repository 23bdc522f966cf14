from __future__ import annotations

import csv
import io

import msgspec
import pytest

from tests.fakes.report_factory import CASES, HOSTILE_NAMES, hostile, make_run, of_engine, one_layer, typical
from tests.fakes.timeline_factory import timed, timed_case
from trtprof.base.errors import UsageError
from trtprof.base.records import LayerResult, Run
from trtprof.report import ReportOptions, get
from trtprof.report.tables import TABLES, table_of

HEAD = ",".join(column.name for column in TABLES["layers"].columns(None))


def rows(run: Run, table: str = "layers") -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(get("csv").render(run, ReportOptions(table=table)), newline="")))


@pytest.mark.parametrize("case", CASES)
def test_one_row_a_layer_in_the_order_of_the_run(case: str) -> None:
    run = CASES[case]()
    table = rows(run)
    assert [row["rank"] for row in table] == [str(rank) for rank in range(1, len(run.layers) + 1)]
    for row, layer in zip(table, run.layers, strict=True):
        assert None not in row
        assert row["measured_ns"] == str(layer.measured_ns)
        assert row["lost_ns"] == ("" if layer.lost_ns is None else str(layer.lost_ns))
        assert row["bound"] == layer.bound


def test_the_header_stands_even_without_layers() -> None:
    assert get("csv").render(make_run(), ReportOptions()) == HEAD + "\n"


def test_unknown_is_empty_and_not_zero() -> None:
    nms = next(row for row in rows(typical()) if row["name"] == "/post/Nms")
    assert [nms[name] for name in ("ideal_ns", "attainable_ns", "lost_ns", "flops", "bytes", "bytes_read")] == [""] * 6


def test_no_text_cell_starts_a_formula_and_numbers_stay_numbers() -> None:
    table = rows(hostile())
    names = [row["name"] for row in table]
    for wanted in ('\'=HYPERLINK("http://example.invalid","x")', "'+1+cmd|' /C calc'!A0", "'-2+3", "'@SUM(1)"):
        assert wanted in names
    text_columns = ("name", "op_type", "nodes", "kernels", "reason", "shapes")
    formulas = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
    assert not [row[c] for row in table for c in text_columns if row[c].lstrip(" ").startswith(formulas)]
    fast = msgspec.structs.replace(one_layer().layers[0], lost_ns=-5)
    assert rows(make_run((fast,)))[0]["lost_ns"] == "-5"


@pytest.mark.parametrize("start", ["  =1", "\t=1", "\uff1d1", "\n=1"])
def test_disguised_formulas_are_quoted_too(start: str) -> None:
    layer: LayerResult = msgspec.structs.replace(one_layer().layers[0], name=start)
    assert rows(make_run((layer,)))[0]["name"] == f"'{start}"


def test_harmless_names_come_back_unchanged() -> None:
    names = [row["name"] for row in rows(hostile())]
    for name in HOSTILE_NAMES:
        if name[:1] not in ("=", "+", "-", "@") and "\0" not in name:
            assert name in names


def test_lists_are_joined_and_half_a_surrogate_can_be_written() -> None:
    layer = msgspec.structs.replace(one_layer().layers[0], nodes=("a", "b"), reason="half \ud800")
    made = get("csv").render(make_run((layer,)), ReportOptions())
    assert "a;b" in made
    made.encode()


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("case", CASES)
def test_every_table_has_its_rows_and_columns(table: str, case: str) -> None:
    run = timed_case(case)
    found = rows(run, table)
    assert len(found) == sum(1 for _ in table_of(table).rows(run))
    columns = [column.name for column in table_of(table).columns(None)]
    assert all(list(row) == columns for row in found)


@pytest.mark.parametrize("table", TABLES)
def test_no_table_starts_a_formula(table: str) -> None:
    formulas = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
    texts = {column.name for column in table_of(table).columns(None) if column.type in ("str", "list")}
    run = timed(of_engine(hostile(), HOSTILE_NAMES))
    cells = [row[name] for row in rows(run, table) for name in texts]
    assert not [cell for cell in cells if cell.lstrip(" ").startswith(formulas)]


def test_a_table_that_is_not_there_is_one_clear_error() -> None:
    with pytest.raises(UsageError, match="no table 'layer'") as caught:
        rows(typical(), "layer")
    assert "findings" in caught.value.fix
