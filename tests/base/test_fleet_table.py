"""The table of a fleet: rows become columns and rows again, sorted the same whoever wrote them."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.fakes import fleets
from trtprof.base import fleet_table
from trtprof.base.records import FleetCell, FleetKernel, FleetLoss


def test_rows_become_a_table_and_rows_again() -> None:
    rows = fleets.rows()
    table = fleet_table.table_of(rows)
    assert table.schema.equals(fleet_table.schema(), check_metadata=True)
    table.validate(full=True)
    assert fleet_table.rows_of(table) == rows


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
