"""How far a fleet is: cells done, failed and left by target, and about how long the rest takes."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from trtprof.base.records import SCHEMA_VERSION, FleetCell, FleetPlan, FleetRow, FleetTargetCount, FleetVerb
from trtprof.flows.fleet.cells import Asked
from trtprof.flows.fleet.options import OPTIONS
from trtprof.flows.fleet.store import State, Store

NOTHING = State(frozenset(), frozenset())
SAMPLE = 5  # Cells that are left, of which a plan shows so many


class Took(NamedTuple):
    """What cells of one kind took that are done."""

    verb: FleetVerb  # What was done
    model: str
    seconds: float  # One a cell


class Pace(NamedTuple):
    """What a cell takes, as far as anything tells."""

    by_model: Mapping[tuple[str, str], float] = {}  # Seconds of a cell, by verb and model
    by_verb: Mapping[str, float] = {}  # The same of any other model
    basis: str = ""  # Where these are from, in words

    def of(self, cell: FleetCell) -> float | None:
        """Seconds of a cell; None where nothing tells."""
        return self.by_model.get((cell.verb, cell.model), self.by_verb.get(cell.verb))


def pace_of(took: Iterable[Took]) -> Pace:
    """The median of what cells took: of a model where some of its cells are done, else of all with that verb."""
    by_model: dict[tuple[str, str], list[float]] = defaultdict(list)
    by_verb: dict[str, list[float]] = defaultdict(list)
    for each in took:
        by_model[each.verb, each.model].append(each.seconds)
        by_verb[each.verb].append(each.seconds)
    if not by_verb:
        return Pace()
    counts = ", ".join(f"{len(seconds):,} of {verb}" for verb, seconds in sorted(by_verb.items()))
    return Pace(
        {key: statistics.median(seconds) for key, seconds in by_model.items()},
        {verb: statistics.median(seconds) for verb, seconds in by_verb.items()},
        f"the median of cells that are done ({counts}), by model where it has some",
    )


def counted(
    asked: Asked,
    cells: Sequence[FleetCell],
    state: State = NOTHING,
    claimed: Collection[str] = (),
    pace: Pace = Pace(),  # noqa: B008 - it is frozen
    *,
    workers: int = 1,
    folder: str = "",
    failures: Sequence[FleetRow] = (),
    notes: Sequence[str] = (),
) -> FleetPlan:
    """What of some cells is done, has failed and is left. Predictions share ``workers`` processes."""
    count: dict[str, Counter[str]] = defaultdict(Counter)
    seconds: dict[str, float] = defaultdict(float)
    unknown: set[str] = set()
    floors: set[str] = set()
    sample: list[FleetCell] = []
    for cell in cells:
        found = count[cell.target]
        found["cells"] += 1
        if cell.key in state.done or cell.key in state.failed:
            found["done" if cell.key in state.done else "failed"] += 1
            continue
        if cell.group in claimed:
            found["claimed"] += 1
        if len(sample) < SAMPLE:
            sample.append(cell)
        takes = pace.of(cell)
        if takes is None:
            takes = least_s(cell)
            (unknown if takes is None else floors).add(cell.target)
        seconds[cell.target] += takes or 0.0
    targets = []
    busy: dict[str, float] = defaultdict(float)
    for target in asked.targets:
        found = count[target.name]
        if not found["cells"]:
            continue
        left = seconds[target.name] / (max(workers, 1) if target.verb == "predict" else 1)
        busy[target.resource] += left
        targets.append(
            FleetTargetCount(
                target=target.name, verb=target.verb, cells=found["cells"], done=found["done"], failed=found["failed"],
                claimed=found["claimed"], left_s=None if target.name in unknown else left,
            )
        )  # fmt: skip
    basis = [pace.basis] if pace.basis else []
    if any(each.verb == "predict" and each.left for each in targets) and pace.basis and workers > 1:
        basis.append(f"predictions on {workers} processes")
    if floors:
        basis.append("of runs, warm-up and measurement alone")
    known = all(each.left_s is not None for each in targets)
    return FleetPlan(
        schema_version=SCHEMA_VERSION,
        name=asked.name,
        folder=folder,
        models=len({cell.model for cell in cells}),
        cells=len(cells),
        targets=tuple(targets),
        left_s=max(busy.values(), default=0.0) if known else None,
        basis="; ".join(basis) if any(each.left for each in targets) else "",
        failures=tuple(failures),
        sample=tuple(sample),
        notes=tuple(notes),
    )


def least_s(cell: FleetCell) -> float | None:
    """What a run takes at least, warm-up and measurement; None of all else, of which nothing tells."""
    if cell.verb != "run":
        return None
    warmup, duration = (float(cell.options.get(name, OPTIONS[name].default)) for name in ("warmup", "duration"))
    return warmup / 1e3 + duration


def looked_at(
    store: Store,
    asked: Asked,
    cells: Sequence[FleetCell],
    *,
    folder: str,
    state: State | None = None,
    workers: int = 1,
    failures: int = 5,
    pace: Pace = Pace(),  # noqa: B008 - it is frozen
    notes: Sequence[str] = (),
) -> FleetPlan:
    """How far some cells are, by what their store holds now."""
    state = store.state() if state is None else state
    if state.done:
        keys = {cell.key for cell in cells} & state.done
        table = store.table(keys, ["verb", "model", "seconds", "status"]).to_pydict()
        rows = zip(table["verb"], table["model"], table["seconds"], table["status"], strict=True)
        found = pace_of(Took(verb, model, seconds) for verb, model, seconds, status in rows if status == "done")
        pace = found if found.basis else pace
    return counted(
        asked, cells, state, store.claimed(), pace, workers=workers, folder=folder,
        failures=_few_failed(store, {cell.key for cell in cells} & state.failed, failures), notes=notes,
    )  # fmt: skip


def _few_failed(store: Store, keys: Collection[str], most: int) -> list[FleetRow]:
    """Failed rows, one of each kind of failure before a second one, the most frequent first."""
    from trtprof.base.fleet_table import rows_of

    if not keys or not most:
        return []
    table = store.table(keys, ["key", "stage", "error"]).to_pydict()
    kinds: dict[tuple[str, str], list[str]] = defaultdict(list)
    for key, stage, error in zip(table["key"], table["stage"], table["error"], strict=True):
        kinds[stage, error].append(key)
    ordered = sorted(kinds.values(), key=lambda keys: -len(keys))
    deepest = max(map(len, ordered), default=0)
    in_turn = (keys[at] for at in range(deepest) for keys in ordered if at < len(keys))
    chosen = list(itertools.islice(in_turn, most))
    rows = {row.key: row for row in rows_of(store.table(chosen))}
    return [rows[key] for key in chosen if key in rows]
