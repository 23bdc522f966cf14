"""The table of a fleet: rows become columns and rows again, sorted the same whoever wrote them."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
import pytest

from tests.fakes import fleets
from trtprof.base import fleet_table
from trtprof.base.records import FleetCell, FleetKernel, FleetLoss, FleetRow


def test_rows_become_a_table_and_rows_again() -> None:
    rows = fleets.rows()
    table = fleet_table.table_of(rows)
    assert table.schema.equals(fleet_table.schema(), check_metadata=True)
    table.validate(full=True)
    assert fleet_table.rows_of(table) == rows


def test_the_columns_are_what_arrow_itself_makes_of_the_rows() -> None:
    rows = [*fleets.rows(), msgspec.structs.replace(fleets.rows()[0], sizes={"seq": 128, "a": 2}, attempts=("x", "é"))]
    plain = [msgspec.to_builtins(row) for row in rows]
    for row in plain:
        for name in ("sizes", "options"):
            row[name] = msgspec.json.encode(row[name], order="sorted").decode()
    assert fleet_table.table_of(rows) == pa.Table.from_pylist(plain, schema=fleet_table.schema())
    assert fleet_table.table_of(rows[-1:])["sizes"].to_pylist() == ['{"a":2,"seq":128}']


def test_cells_alone_become_a_table_and_cells_again() -> None:
    cells = list(fleets.cells())
    table = fleet_table.table_of(cells, FleetCell)
    assert table.column_names == list(FleetCell.__struct_fields__)
    assert fleet_table.cells_of(table) == cells
    assert fleet_table.cells_of(fleet_table.table_of([], FleetCell)) == []
    assert fleet_table.rows_of(fleet_table.table_of([])) == []


def test_nested_columns_have_a_field_for_each_of_the_record() -> None:
    schema = fleet_table.schema()
    for column, record in (("ledger", FleetLoss), ("kernels", FleetKernel)):
        assert [field.name for field in schema.field(column).type.value_type] == list(record.__struct_fields__)


def test_the_order_and_what_lasts_depend_on_nobody() -> None:
    rows = fleets.rows()
    other = [msgspec.structs.replace(row, seconds=9.0, worker="there:2", attempts=("died",)) for row in rows[::-1]]
    first, second = fleet_table.table_of(rows), fleet_table.table_of(other)
    assert fleet_table.in_order(first) != fleet_table.in_order(second)
    assert fleet_table.lasting(first) == fleet_table.lasting(second)
    assert not set(fleet_table.PASSING) & set(fleet_table.lasting(first).column_names)


def test_a_table_of_something_else_is_refused() -> None:
    table = fleet_table.table_of(fleets.rows())
    status = table.column_names.index("status")
    with pytest.raises(msgspec.ValidationError):
        fleet_table.rows_of(table.set_column(status, "status", [["perhaps"] * len(table)]))
    assert isinstance(fleet_table.rows_of(table)[0], FleetRow)


def test_kernels_that_a_row_does_not_keep_are_summed_up_and_those_that_pay_are_kept() -> None:
    def kernel(at: int, **values: Any) -> FleetKernel:
        known: dict[str, Any] = {"bound_ns": at, "expected_ns": 2 * at, "expected_basis": "measured", **values}
        return FleetKernel(pattern=f"Op{at}", dtype="fp16", shapes="1", layer=f"l{at}", count=at, **known)

    few = [kernel(at) for at in range(1, fleet_table.MOST_KERNELS + 1)]
    assert fleet_table.most(few) == tuple(reversed(few))
    unknown = kernel(4, expected_ns=None, expected_basis="none")
    pays = msgspec.structs.replace(kernel(1), verdict="try first", win_ns=1)
    found = fleet_table.most([pays, kernel(2), kernel(3), unknown, *[kernel(at) for at in range(100, 124)]])
    assert [one.pattern for one in found[:24]] == [f"Op{at}" for at in range(123, 99, -1)]
    assert found[24] == pays
    rest, refused = found[25:]
    assert (rest.pattern, rest.layer, rest.count, rest.bound_ns, rest.expected_ns) == (fleet_table.REST, "l3", 5, 5, 10)
    assert (refused.pattern, refused.bound_ns, refused.expected_ns) == (fleet_table.REST, 4, None)
    assert (rest.expected_basis, refused.expected_basis, rest.measured_ns) == ("measured", "none", None)
