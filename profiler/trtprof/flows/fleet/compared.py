"""Two folders of fleets side by side, or one at two versions of trtprof."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from trtprof.base import fleet_table
from trtprof.base.errors import UsageError
from trtprof.base.records import FleetCell, FleetComparison
from trtprof.flows.fleet.store import Store

if TYPE_CHECKING:
    import pyarrow as pa

    from trtprof.compare.fleets import FleetOf

_AT_VERSION = re.compile(r"(?P<place>.+)@(?P<version>\d[\w.+!-]*)")


def compare(
    before: str, after: str, gates: Sequence[str] = (), say: Callable[[str], None] = lambda _: None
) -> FleetComparison:
    """What changed between two fleets; of each the rows of what it asks now.

    `before`: A folder or a URI; ``FOLDER@0.1.0``: what that version of trtprof answered of what it asks now. `gates`:
    ``--gate`` values; see `compare.fleet_gates`.
    """
    from trtprof.compare import fleet_gates, fleets

    fleet_gates.parse(gates)  # before anything is read
    return fleets.compare(_side(before, say), _side(after, say), gates)


def _side(text: str, say: Callable[[str], None]) -> FleetOf:
    from trtprof.compare.fleets import COLUMNS, KERNELS, FleetOf

    # A folder may have such a name.
    found = None if Path(text).exists() else _AT_VERSION.fullmatch(text)
    store = Store(found["place"] if found else text, say=say)
    asked, cells = store.asked()
    if found is None:
        rows = store.table({cell.key for cell in cells}, COLUMNS)
    else:
        cells, rows = _at_version(store, cells, found["version"], COLUMNS)
    prices = {target.name: target.price_per_hour for target in asked.targets if target.price_per_hour is not None}
    place = store.place + (f"@{found['version']}" if found else "")
    return FleetOf(asked.name, place, cells, rows, store.pieces(KERNELS), prices, asked.currency)


def _at_version(
    store: Store, cells: Sequence[FleetCell], version: str, columns: Sequence[str]
) -> tuple[list[FleetCell], pa.Table]:
    """The cells as that version was asked them, and its rows; of two of the same cell the one begun last."""
    import pyarrow.compute as pc

    known = store.table(None, ("key", "started", "trtprof"))
    mine = known.filter(pc.equal(known["trtprof"], version)).sort_by("started")
    if not mine.num_rows:
        versions = sorted(set(known["trtprof"].to_pylist())) or ["none"]
        raise UsageError(
            f"{store.place} has no row of trtprof {version}",
            why=f"it has rows of: {', '.join(versions)}",
            fix=f"{store.place}@{versions[-1]}",
        )
    keys = mine["key"].to_pylist()
    fields = FleetCell.__struct_fields__
    table = store.table(set(keys), tuple(dict.fromkeys((*fields, *columns))))
    begun = {key: at for at, key in enumerate(keys)}
    answered = sorted(fleet_table.cells_of(table.select(list(fields))), key=lambda cell: begun[cell.key])
    by_question = {_question(cell): cell for cell in answered}
    found = [
        by_question.get(_question(cell)) or msgspec.structs.replace(cell, key="", trtprof=version) for cell in cells
    ]
    return found, table.select(list(columns))


def _question(cell: FleetCell) -> tuple[Any, ...]:
    """What is asked, whatever the model holds and whoever answers."""
    asked = (cell.model, cell.target, cell.verb, cell.shapes, cell.batch, cell.precision)
    return (*asked, *(tuple(sorted(each.items())) for each in (cell.sizes, cell.options)))
