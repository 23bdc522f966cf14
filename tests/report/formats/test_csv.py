from __future__ import annotations

import csv
import io

import msgspec
import pytest

from tests.fakes.report_factory import CASES, HOSTILE_NAMES, hostile, make_run, one_layer, typical
from trtprof.base.records import Run
from trtprof.report import ReportOptions, get
from trtprof.report.tables import TABLES

HEAD = ",".join(column.name for column in TABLES["layers"].columns(None))


def rows(run: Run, table: str = "layers") -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(get("csv").render(run, ReportOptions(table=table)), newline="")))


def test_one_row_a_layer_in_the_order_of_the_run(subtests: pytest.Subtests) -> None:
    for case in CASES:
        with subtests.test(case=case):
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
