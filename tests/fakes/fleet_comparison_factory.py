"""Two fleets for the tests of what compares them, and of what tells it. All numbers are invented for the tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tests.fakes import fleets
from tests.fakes.report_factory import HOSTILE_NAMES
from trtprof.base import fleet_table
from trtprof.base.records import FleetCell, FleetComparison, FleetRow
from trtprof.compare.fleets import COLUMNS, KERNELS, FleetOf, compare

PRICES = {name: 2.0 for name, _, _ in fleets.TARGETS}


def changed(row: FleetRow, **changes: Any) -> FleetRow:
    """The same with other fields."""
    return msgspec.structs.replace(row, **changes)


def slower(row: FleetRow, times: float) -> FleetRow:
    """The same, where it was measured as so many times as slow; with its kernels."""
    if row.latency_ns is None:
        return row
    ends = {name: round(getattr(row, name) * times) for name in ("latency_ns", "latency_low_ns", "latency_high_ns")}
    kernels = (changed_kernel(kernel, times) for kernel in row.kernels)
    return changed(row, **ends, kernels=tuple(kernels))


def changed_kernel(kernel: Any, times: float) -> Any:
    return msgspec.structs.replace(kernel, measured_ns=round((kernel.measured_ns or 0) * times))


def cell_of(row: FleetRow) -> FleetCell:
    """What was asked."""
    return FleetCell(**{name: getattr(row, name) for name in FleetCell.__struct_fields__})


def side(
    rows: Iterable[FleetRow], name: str = "fleet", asked: Sequence[FleetCell] | None = None,
    prices: Mapping[str, float] = PRICES, currency: str = "EUR",
) -> FleetOf:  # fmt: skip
    """A side that asks for the cells of these rows, or for others."""
    found = list(rows)
    cells = list(map(cell_of, found)) if asked is None else asked
    table = fleet_table.table_of(found)
    return FleetOf(name, f"reports/{name}", cells, table.select(COLUMNS), [table.select(KERNELS)], prices, currency)


def week(models: int = 8) -> tuple[list[FleetRow], list[FleetRow]]:
    """A fleet, and the same a week later, with every kind of answer."""
    before = fleets.rows(models, 2, fails=0.0)
    after = []
    for at, row in enumerate(before):
        ran = row.verb == "run"
        if row.model == "model_0003":
            after.append(changed(row, model="renamed"))
        elif ran and at % 7 == 4:
            after.append(slower(row, 1.4))
        elif ran and row.model == "model_0002":
            after.append(slower(row, 0.8))
        elif row.target == "l4":
            # A datasheet that was mended: another address.
            expected = round((row.expected_ns or 0) * 1.1)
            after.append(changed(row, key=fleets.digest(row.key), expected_ns=expected, bound_ns=row.bound_ns))
        elif row.model == "model_0001" and row.target == "t4":
            after.append(changed(row, status="failed", latency_ns=None, expected_ns=None, bound_ns=None, kernels=(),
                                 stage="engine", error="no kernel for the op FancyOp", run=""))  # fmt: skip
        elif row.model == "model_0004" and row.target == "here":
            continue
        else:
            after.append(row)
    after.append(changed(before[-1], model="newcomer", key=fleets.digest("new"), sha256=fleets.digest("new", 1)))
    return before, after


def typical() -> FleetComparison:
    """Every kind of answer."""
    before, after = week()
    asked = list(map(cell_of, after))
    gates = ("latency>3%", "geomean>50%", "failed>0", "vanished>0", "bound>0%", "cost>5%", "expected>1s")
    return compare(side(before, "monday"), side(after[:-2] + after[-1:], "friday", asked), gates)


def same() -> FleetComparison:
    """Nothing changed."""
    rows = fleets.rows(4, 2)
    return compare(side(rows, "monday"), side(rows, "friday"), ("latency>3%", "failed>0"))


def predicted() -> FleetComparison:
    """Nothing was measured."""
    rows = [row for row in fleets.rows(4, 2, fails=0.0) if row.verb == "predict"]
    after = [changed(row, trtprof="0.2.0", key=fleets.digest(row.key), bound_ns=(row.bound_ns or 0) + 10_000,
                     expected_ns=(row.expected_ns or 0) - 5_000) for row in rows]  # fmt: skip
    return compare(side(rows, "0.1.0"), side(after, "0.2.0"), ("latency>3%", "bound>0%"))


def hostile() -> FleetComparison:
    """Names and errors by others."""
    before, after = [], []
    cells = fleets.rows(len(HOSTILE_NAMES), 1, fails=0.0)
    for at, row in enumerate(cells):
        name = HOSTILE_NAMES[int(row.model.removeprefix("model_"))]
        named = changed(row, model=name, path=name, target=f"{name}{row.target}", tags=(name,), options={name: name})
        before.append(named)
        failed = changed(named, status="failed", error=name, stage=name, latency_ns=None, kernels=())
        after.append(slower(changed(named, device=name, options={name: "2"}), 2.0) if at % 3 else failed)
    return compare(side(before, HOSTILE_NAMES[0]), side(after, HOSTILE_NAMES[-1]), ("latency>3%", "failed>0"))


def nothing() -> FleetComparison:
    """Two fleets that ask nothing."""
    return compare(side([]), side([]), ("latency>3%", "failed>0", "geomean>0%"))


CASES: dict[str, Callable[[], FleetComparison]] = {
    "typical": typical, "same": same, "predicted": predicted, "hostile": hostile, "nothing": nothing,
}  # fmt: skip
