"""The report of a fleet: answers side by side, what serves a model best, where the hours of a day go.

All of it is of rows that are there; nothing is predicted or judged anew. Of every cell columns are looked at, and
records are made of what a document shows alone, so that 100,000 cells are a matter of seconds.
"""

from __future__ import annotations

import fnmatch
import math
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import msgspec

from trtprof.base.errors import UsageError
from trtprof.base.fleet_table import ORDER, REST, WHICH, Patterns, each_once
from trtprof.base.records import (
    DOES_NOT_FIT,
    FIRM,
    SCHEMA_VERSION,
    Fleet,
    FleetAnswer,
    FleetBasis,
    FleetBest,
    FleetCell,
    FleetEfficiency,
    FleetFailedCell,
    FleetFailure,
    FleetLedgerRow,
    FleetPattern,
    FleetTarget,
    FleetWin,
)
from trtprof.base.run_folder import PAGE
from trtprof.base.units import format_names, format_ns
from trtprof.compare.fleet_gates import cells_words
from trtprof.diagnose.ledger import CEILING, IDEAL
from trtprof.flows.fleet.cells import Asked, AskedModel
from trtprof.flows.fleet.store import Store

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import pyarrow as pa

ANSWERS, BEST, PATTERNS, FAILURES, EXAMPLES, DOUBTS = 5_000, 1_000, 40, 30, 20, 5  # Most of each that a document has
WINS = 10  # Custom kernels that are told unless asked for more or less

HOURS = 24.0  # Of a day
_VERDICTS = ("write it", "try first")
_PLAIN = (
    "key", "model", "path", "target", "verb", "shapes", "batch", "sizes", "precision", "trtprof", "status", "stage",
    "error", "why", "fix", "latency_ns", "latency_low_ns", "latency_high_ns", "bound_ns", "expected_ns",
    "expected_p10_ns", "expected_p90_ns", "expected_basis", "joules", "doubts", "run", "started",
)  # fmt: skip
_INNER = (*WHICH, "ledger", "kernels")
"""Columns that hold records, of which most of a table is, with those that tell which row it is."""

BOUND = "bound by "
"""How causes in the ledger of a prediction begin that no kernel could do without; of a run they are `NEEDED`."""
NEEDED = frozenset({IDEAL, CEILING})


class Narrowed(msgspec.Struct, frozen=True, kw_only=True):
    """What of a fleet is reported, and how."""

    limit_ns: int | None = None  # In place of the limits of the manifest
    tags: tuple[str, ...] = ()  # Cells that have one of them
    models: tuple[str, ...] = ()  # Globs of names
    targets: tuple[str, ...] = ()  # Names
    wins: int = WINS  # Custom kernels that are told


ALL = Narrowed()


def report(place: str, narrowed: Narrowed = ALL, say: Callable[[str], None] = lambda _: None) -> Fleet:
    """What came of the fleet of a folder."""
    store = Store(place, say=say)
    asked, cells = store.asked()
    wanted = chosen(asked, cells, narrowed)
    keys = None if len(wanted) == len(cells) else [cell.key for cell in wanted]
    table = store.table(keys, _PLAIN)
    return summarised(asked, wanted, table, store.pieces(_INNER), place, narrowed, store.folder)


def chosen(asked: Asked, cells: Sequence[FleetCell], narrowed: Narrowed) -> Sequence[FleetCell]:
    """The cells that are reported."""
    known = [target.name for target in asked.targets]
    for name in narrowed.targets:
        if name not in known:
            raise UsageError(f"the fleet has no target {name}", fix=f"one of: {format_names(known, 20)}")
    names = sorted({cell.model for cell in cells})
    for glob in narrowed.models:
        if not fnmatch.filter(names, glob):
            raise UsageError(f"no model of the fleet is called {glob}", fix=f"one of: {format_names(names, 20)}")
    wanted = {name for name in names if any(fnmatch.fnmatchcase(name, glob) for glob in narrowed.models)}
    tags = set(narrowed.tags)
    found = [
        cell
        for cell in cells
        if (not narrowed.models or cell.model in wanted)
        and (not narrowed.targets or cell.target in narrowed.targets)
        and (not tags or tags.intersection(cell.tags))
    ]
    if cells and not found:
        have = sorted({tag for cell in cells for tag in cell.tags})
        raise UsageError(
            "no cell of the fleet is all that is asked for",
            why=f"its tags: {format_names(have, 20)}" if have else "no cell of it has a tag",
            fix="leave --tag, --model or --target away",
        )
    return found


def summarised(
    asked: Asked,
    cells: Sequence[FleetCell],
    table: pa.Table,
    pieces: Iterable[pa.Table],
    place: str = "",
    narrowed: Narrowed = ALL,
    pages: Path | None = None,
) -> Fleet:
    """The same of rows that were read.

    `pieces`: the same with what they hold of records, in any order and any number; those of no row are passed over.
    `pages`: where it is on this machine, to see which runs have a page; None: nobody looks.
    """
    rows = _Rows(asked, cells, table)
    limits = {model.name: narrowed.limit_ns or model.latency_limit_ns for model in asked.models}
    served = _Served(rows, asked, limits, narrowed)
    ledger, kernels = _Ledger(rows, served.hours_per_ns), _Kernels(rows, served.hours_per_ns, place)
    keys, status, started = (rows.frame[name].to_list() for name in WHICH)
    for part, at in each_once(keys, status, started, pieces):
        ledger.add(part, at)
        kernels.add(part, at)
    measured = int(rows.frame["latency_ns"].notna().sum())
    wins = kernels.wins(served.measured_hours, served.any)
    answers, left_out = _answers(rows, pages)
    failures = _failures(rows)
    patterns = kernels.patterns()
    return Fleet(
        schema_version=SCHEMA_VERSION,
        name=asked.name,
        folder=place,
        currency=asked.currency,
        limit_ns=narrowed.limit_ns,
        chosen=tuple(_chosen_words(narrowed)),
        models=len({cell.model for cell in cells}),
        cells=len(cells),
        done=int((rows.frame["status"] == "done").sum()),
        failed=int((rows.frame["status"] == "failed").sum()),
        doubts=tuple(_doubts(rows, failures)),
        targets=tuple(_targets(rows, asked, served)),
        answers=answers,
        answers_left_out=left_out,
        best=tuple(served.best[:BEST]),
        best_left_out=max(len(served.best) - BEST, 0),
        none_keeps=sum(one.limit_ns is not None and not one.target for one in served.best),
        requests_per_s=served.requests if served.any else None,
        hours_per_day=served.hours if served.any else None,
        measured_hours=served.measured_hours,
        ledger=tuple(ledger.rows(served)),
        not_counted=tuple(served.not_counted),
        measured=measured,
        wins=tuple(wins[: narrowed.wins]),
        wins_left_out=max(len(wins) - narrowed.wins, 0),
        no_wins=_no_wins(measured, len(wins)),
        above=() if measured else tuple(kernels.above(served.any)[: narrowed.wins]),
        patterns=tuple(patterns[:PATTERNS]),
        patterns_left_out=max(len(patterns) - PATTERNS, 0),
        failures=tuple(failures[:FAILURES]),
        failures_left_out=max(len(failures) - FAILURES, 0),
        notes=tuple(_notes(rows, asked, left_out)),
    )


def _chosen_words(narrowed: Narrowed) -> Iterator[str]:
    for word, names in (("tag", narrowed.tags), ("model", narrowed.models), ("target", narrowed.targets)):
        if names:
            yield f"{word} {' or '.join(names)}"


# --- rows -------------------------------------------------------------------------------------


class _Rows:
    """The rows of cells, in the order of the table.

    Attributes:
        frame: Their plain columns, and what follows from them: ``size`` in words, ``requests`` of an inference,
            ``time_ns`` (measured, else expected), its ``basis``, ``low_ns`` and ``high_ns`` of its interval or band,
            ``cost`` of a million requests by the time, ``row`` (model, size and precision) and the rank ``at_target``.
        strangers: Rows of no cell that is reported.
    """

    def __init__(self, asked: Asked, cells: Sequence[FleetCell], table: pa.Table) -> None:
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        keys = pa.array([cell.key for cell in cells], pa.string())
        ours = pc.is_in(table["key"], keys)
        self.strangers = len(table) - (pc.sum(ours).as_py() or 0)
        if self.strangers:
            table = table.filter(ours)
        order = pc.sort_indices(table.select(ORDER), [(name, "ascending") for name in ORDER]).to_numpy()
        if not np.array_equal(order, np.arange(len(order))):
            table = table.take(pa.array(order))
        self.cells = cells
        frame = table.select(_PLAIN).to_pandas()
        self.frame = frame
        numbers = ("batch", "joules", *(name for name in _PLAIN if name.endswith("_ns")))
        frame[list(numbers)] = frame[list(numbers)].astype("float64")
        frame["size"] = frame["key"].map({cell.key: cell.size for cell in cells})
        frame["requests"] = frame["batch"].fillna(1.0)
        ran = frame["latency_ns"].notna()
        frame["time_ns"] = frame["latency_ns"].fillna(frame["expected_ns"])
        frame["basis"] = np.select(
            [ran, frame["expected_ns"].notna(), frame["bound_ns"].notna()], ["measured", "expected", "bound"], "none"
        )
        low = frame["latency_low_ns"].fillna(frame["latency_ns"])
        high = frame["latency_high_ns"].fillna(frame["latency_ns"])
        frame["low_ns"] = low.where(ran, frame["expected_p10_ns"])
        frame["high_ns"] = high.where(ran, frame["expected_p90_ns"])
        # No kernel is faster than its bound: such a number is a doubt, and no answer rests on it.
        frame["above_roof"] = ran & (frame["latency_ns"] < frame["bound_ns"])
        frame["too_large"] = frame["doubts"].str.contains(f"{DOES_NOT_FIT}: ", regex=False)
        prices = {target.name: target.price_per_hour for target in asked.targets}
        self.price = frame["target"].map(prices).astype("float64")
        frame["cost"] = _cost(self.price, frame["time_ns"], frame["requests"])
        self.places = {target.name: at for at, target in enumerate(asked.targets)}
        frame["at_target"] = frame["target"].map(self.places).fillna(len(self.places)).astype("int64")
        for name in ("shapes", "sizes"):
            places = {text: at for at, text in enumerate(sorted(frame[name].unique(), key=_natural))}
            frame[f"at_{name}"] = frame[name].map(places)
        alike = ["model", "precision", "at_shapes", "batch", "at_sizes"]
        frame["row"] = frame.groupby(alike, sort=True, dropna=False).ngroup()


def _natural(text: str) -> list[tuple[bool, int, str]]:
    """A key under which 128 comes before 1024."""
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in re.split(r"([0-9]+)", text)]


def _cost(price: pd.Series, ns: pd.Series, requests: pd.Series) -> pd.Series:
    """Of a million requests: an hour's price over what is answered in it, one inference after the other."""
    return price / 3600.0 * ns / 1e9 / requests * 1e6


def _answers(rows: _Rows, pages: Path | None) -> tuple[tuple[FleetAnswer, ...], int]:
    """Cells as a document shows them, whole rows of the table of models and targets, and how many are left out."""
    frame = rows.frame.sort_values(["row", "at_target", "key"])
    ends = frame.groupby("row").size().cumsum()
    kept = int(ends[ends <= ANSWERS].max()) if len(ends) and (ends <= ANSWERS).any() else min(ANSWERS, len(frame))
    shown = frame.iloc[:kept]
    bound = _cost(rows.price, rows.frame["bound_ns"], rows.frame["requests"])
    costs = rows.frame["cost"].fillna(bound)
    found = []
    for at, one in zip(shown.index, shown.itertuples(index=False), strict=True):
        time: Any = one
        ran = not math.isnan(time.latency_ns)
        found.append(
            FleetAnswer(
                key=time.key, model=time.model, target=time.target, verb=time.verb, size=time.size,
                precision=time.precision, status=time.status, requests=int(time.requests),
                latency_ns=_whole(time.latency_ns), latency_low_ns=_whole(time.latency_low_ns),
                latency_high_ns=_whole(time.latency_high_ns), bound_ns=_whole(time.bound_ns),
                expected_ns=_whole(time.expected_ns), expected_p10_ns=_whole(time.expected_p10_ns),
                expected_p90_ns=_whole(time.expected_p90_ns), expected_basis=time.expected_basis,
                of_expected=time.expected_ns / time.latency_ns
                if ran and time.latency_ns and not math.isnan(time.expected_ns) else None,
                cost_per_million=_known(costs.at[at]), cost_basis="none" if math.isnan(costs.at[at]) else time.basis,
                joules=_known(time.joules), joules_basis="none" if math.isnan(time.joules) else time.basis,
                doubts=_doubt(time), error=time.error, run=time.run, page=_page(time.run, pages),
            )
        )  # fmt: skip
    return tuple(found), len(frame) - kept


def _page(run: str, pages: Path | None) -> str:
    return f"{run}/{PAGE}" if run and pages is not None and (pages / run / PAGE).is_file() else ""


ABOVE_ROOF = "measured faster than the bound: a counting error, a cache, or ceilings that were measured too low"


def _doubt(one: Any) -> str:
    return "; ".join(filter(None, (ABOVE_ROOF if one.above_roof else "", one.doubts)))


def _whole(value: float) -> int | None:
    return None if math.isnan(value) else int(value)


def _known(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


# --- what serves a model ----------------------------------------------------------------------


class _On(NamedTuple):
    """All sizes of a model at a precision on one target."""

    model: str
    precision: str
    target: str
    at: int
    timed: int  # Sizes with a time that can be believed
    bounded: int  # Sizes with a bound alone that keeps to the limit
    above_roof: int
    too_large: int  # Sizes whose weights and tensors its memory has no room for
    slowest_ns: float
    slowest_high_ns: float
    value: float  # A request: its cost, or its time in ns; the mean over sizes
    low: float
    high: float
    cost: float
    measured: bool


class _Served:
    """Which target serves each model, and the hours that it is kept busy.

    Attributes:
        hours_per_ns: Of each row: hours a day that one ns of it makes up; 0 of what serves nothing.
        busy: How many of each target are kept busy, for how many models, and whether all of it was measured.
        not_counted: Models with requests that nothing serves, and why.
    """

    def __init__(self, rows: _Rows, asked: Asked, limits: dict[str, int | None], narrowed: Narrowed) -> None:
        import numpy as np

        self.best: list[FleetBest] = []
        self.not_counted: list[str] = []
        self.busy: dict[str, tuple[float, set[str], bool]] = {}
        self.requests = 0.0
        frame = rows.frame
        models = {model.name: model for model in asked.models}
        rates = np.zeros(len(frame))
        sizes = _asked_sizes(rows.cells)
        of_model: dict[str, int] = {}
        for (model, _), number in sizes.items():
            of_model[model] = of_model.get(model, 0) + number
        candidates = _on_targets(frame, limits)
        places = frame.groupby(["model", "precision", "target"], sort=False).indices
        requests, times = frame["requests"].to_numpy(), frame["time_ns"].to_numpy()
        ran, too_large = frame["latency_ns"].notna().to_numpy(), frame["too_large"].to_numpy(dtype=bool)
        for (model, precision), number in sorted(sizes.items()):
            found = _best(model, precision, number, limits.get(model), candidates.get((model, precision), []))
            about = models.get(model, AskedModel(name=model))
            if about.requests_per_s:
                rate = about.requests_per_s * number / of_model[model]
                served = about.served_by or found.target
                at = places.get((model, precision, served), np.empty(0, dtype="int64"))
                large = bool(too_large[at].any())
                at = at[~np.isnan(times[at]) & ~too_large[at]]
                if len(at) == number:
                    rates[at] = rate / number / requests[at]
                    busy = math.fsum(rates[at] * times[at]) / 1e9
                    measured = bool(ran[at].all())
                    found = msgspec.structs.replace(
                        found, served_by=served, served_basis="measured" if measured else "expected", busy=busy,
                        hours_per_day=busy * HOURS,
                    )  # fmt: skip
                    before = self.busy.get(served, (0.0, set(), True))
                    self.busy[served] = (before[0] + busy, before[1] | {model}, before[2] and measured)
                    self.requests += rate
                else:
                    named = model if precision == "model" else f"{model} at {precision}"
                    why = _why_not(found, served, about, (number, len(at)), narrowed, large=large)
                    self.not_counted.append(f"{named}: {why}")
                found = msgspec.structs.replace(found, requests_per_s=rate)
            self.best.append(found)
        self.hours_per_ns = rates * HOURS / 1e9
        self.any = bool(self.busy)
        hours = np.nan_to_num(self.hours_per_ns * times)
        self.measured_hours, self.expected_hours = math.fsum(hours[ran]), math.fsum(hours[~ran])
        self.hours = self.measured_hours + self.expected_hours


def _asked_sizes(cells: Iterable[FleetCell]) -> dict[tuple[str, str], int]:
    """How many sizes each model is asked at, at each precision."""
    found: dict[tuple[str, str], set[tuple[str, int | None, tuple[tuple[str, int], ...]]]] = {}
    for cell in cells:
        size = cell.shapes, cell.batch, tuple(sorted(cell.sizes.items())) if cell.sizes else ()
        found.setdefault((cell.model, cell.precision), set()).add(size)
    return {key: len(sizes) for key, sizes in found.items()}


def _on_targets(frame: pd.DataFrame, limits: dict[str, int | None]) -> dict[tuple[str, str], list[_On]]:
    """For each model and precision what its targets do; in the order of the targets."""
    done = frame[frame["status"] == "done"]
    limit = done["model"].map(limits).astype("float64")
    timed = done["time_ns"].notna() & ~done["above_roof"] & ~done["too_large"]
    each = done[["model", "precision", "target", "at_target"]].assign(
        timed=timed,
        bounded=done["time_ns"].isna() & (done["bound_ns"] <= limit.fillna(math.inf)),
        above_roof=done["above_roof"],
        too_large=done["too_large"],
        slowest=done["time_ns"].where(timed),
        slowest_high=done["high_ns"].fillna(math.inf).where(timed),
        value=(done["time_ns"] / done["requests"]).where(timed),
        low=(done["low_ns"].fillna(0) / done["requests"]).where(timed),
        high=(done["high_ns"].fillna(math.inf) / done["requests"]).where(timed),
        cost=done["cost"].where(timed),
        measured=done["latency_ns"].notna(),
    )
    summed = each.groupby(["model", "precision", "at_target", "target"], sort=True).agg(
        timed=("timed", "sum"), bounded=("bounded", "sum"), above_roof=("above_roof", "sum"),
        too_large=("too_large", "sum"), slowest=("slowest", "max"), slowest_high=("slowest_high", "max"),
        value=("value", "mean"), low=("low", "mean"), high=("high", "mean"), cost=("cost", "mean"),
        measured=("measured", "all"),
    )  # fmt: skip
    found: dict[tuple[str, str], list[_On]] = {}
    for (model, precision, at, target), *values in summed.itertuples():
        timed_, bounded, above, large, slowest, slowest_high, value, low, high, cost, measured = values
        counts = int(timed_), int(bounded), int(above), int(large)
        one = _On(model, precision, target, at, *counts, slowest, slowest_high, value, low, high, cost, bool(measured))
        found.setdefault((model, precision), []).append(one)
    return found


def _best(model: str, precision: str, sizes: int, limit_ns: int | None, found: Sequence[_On]) -> FleetBest:
    """The cheapest target that keeps to the limit at every size, without prices the fastest; or why there is none."""
    whole = [one for one in found if one.timed == sizes]
    keeps = [one for one in whole if limit_ns is None or one.slowest_high_ns <= limit_ns]
    reasons = list(_out(found, whole, keeps, sizes, limit_ns))
    nothing = FleetBest(model=model, precision=precision, sizes=sizes, limit_ns=limit_ns)
    if not keeps:
        at_all = "at any size" if sizes == 1 else "at every size"
        why = f"none keeps to {format_ns(limit_ns)}{'' if sizes == 1 else f' {at_all}'}" if limit_ns and whole else ""
        reasons = [why or "no target has a time of every size that can be believed", *reasons]
        return msgspec.structs.replace(nothing, why="; ".join(reasons))
    priced = [one for one in keeps if not math.isnan(one.cost)]
    by: Literal["cost", "latency"] = "cost" if priced else "latency"
    among = priced or keeps
    scale = {one.target: one.cost / one.value if priced and one.value else 1.0 for one in among}
    first = min(among, key=lambda one: (one.cost if priced else one.value, one.at))
    ran = [one for one in among if one.measured]
    if not first.measured and ran:
        proven = min(ran, key=lambda one: (one.value * scale[one.target], one.at))
        word = "cheapest" if priced else "fastest"
        reasons.insert(0, f"{word} of those measured: {proven.target}, {format_ns(proven.slowest_ns)}")
    alike = tuple(
        one.target
        for one in among
        if one is not first and one.low * scale[one.target] <= first.high * scale[first.target]
    )
    return msgspec.structs.replace(
        nothing, target=first.target, by=by, basis="measured" if first.measured else "expected",
        latency_ns=int(first.slowest_ns), cost_per_million=_known(first.cost), alike=alike, why="; ".join(reasons),
    )  # fmt: skip


def _out(
    found: Sequence[_On], whole: Sequence[_On], keeps: Sequence[_On], sizes: int, limit_ns: int | None
) -> Iterator[str]:
    """Targets that might be better than what is told of them."""
    may = [one.target for one in whole if one not in keeps and limit_ns is not None and one.slowest_ns <= limit_ns]
    if may:
        yield f"{format_names(may)} may keep, though not to the end of {'its' if len(may) == 1 else 'their'} interval"
    bound = [one.target for one in found if one.timed < sizes and one.bounded and one.timed + one.bounded == sizes]
    if bound:
        yield f"of {format_names(bound)} there is a bound alone, which promises nothing"
    wrong = [one.target for one in found if one.above_roof]
    if wrong:
        yield f"{format_names(wrong)} {'is' if len(wrong) == 1 else 'are'} measured faster than the bound"
    large = [one.target for one in found if one.too_large]
    if large:
        yield f"it does not fit into the memory of {format_names(large)}"


def _why_not(
    best: FleetBest, served: str, about: AskedModel, timed: tuple[int, int], narrowed: Narrowed, *, large: bool
) -> str:
    if not served:
        return best.why.partition("; ")[0]
    if about.served_by and narrowed.targets and served not in narrowed.targets:
        return f"served by {served}, which was not chosen"
    if large:
        return f"it does not fit into the memory of {served}"
    sizes, number = timed
    return f"{served} has a time of {number} of {sizes} sizes"


def _targets(rows: _Rows, asked: Asked, served: _Served) -> Iterator[FleetTarget]:
    cells: dict[str, int] = {}
    for cell in rows.cells:
        cells[cell.target] = cells.get(cell.target, 0) + 1
    counted = rows.frame.groupby(["target", "status"]).size().to_dict()
    for one in asked.targets:
        if one.name not in cells:
            continue
        busy, models, measured = served.busy.get(one.name, (None, set(), False))
        basis: FleetBasis = "none" if busy is None else "measured" if measured else "expected"
        yield FleetTarget(
            target=one.name, verb=one.verb, gpu=one.gpu, resource=one.resource,
            price_per_hour=one.price_per_hour, tags=one.tags, cells=cells[one.name],
            done=counted.get((one.name, "done"), 0), failed=counted.get((one.name, "failed"), 0), models=len(models),
            busy=busy, needed=None if busy is None else math.ceil(busy), basis=basis,
        )  # fmt: skip


# --- the ledger -------------------------------------------------------------------------------

_Kind = Literal["fact", "estimate", "remainder"]
UNTOLD = "in no row of the ledgers of the cells"


def _flat(part: pa.Table, name: str, at: np.ndarray) -> tuple[Any, np.ndarray]:
    """All records of a column, and the place of the row of each."""
    import pyarrow.compute as pc

    column = part[name].combine_chunks()
    return pc.list_flatten(column), at[pc.list_parent_indices(column).to_numpy()]


FINE = 1e12  # Parts of an hour that are counted, so that sums are of whole numbers, and the same in any order


def _whole_hours(ns: np.ndarray, hours_per_ns: np.ndarray) -> np.ndarray:
    import numpy as np

    return np.asarray(np.rint(ns * hours_per_ns * FINE), dtype="int64")


class _Ledger:
    """Hours a day by cause."""

    def __init__(self, rows: _Rows, hours_per_ns: np.ndarray) -> None:
        self.hours_per_ns = hours_per_ns
        self.ran = rows.frame["latency_ns"].notna().to_numpy()
        self.sums: dict[tuple[str, _Kind, bool], int] = {}

    def add(self, part: pa.Table, at: np.ndarray) -> None:
        """Add the ledgers of some rows."""
        import numpy as np
        import pandas as pd
        import pyarrow as pa

        items, parents = _flat(part, "ledger", at)
        kept = np.flatnonzero(self.hours_per_ns[parents])
        items, parents = items.take(pa.array(kept)), parents[kept]
        ns = np.asarray(items.field("ns"), dtype="float64")
        frame = pd.DataFrame(
            {
                "cause": items.field("cause").to_pandas(), "kind": items.field("kind").to_pandas(),
                "ran": self.ran[parents], "hours": _whole_hours(ns, self.hours_per_ns[parents]),
            }
        )  # fmt: skip
        for key, hours in frame.groupby(["cause", "kind", "ran"])["hours"].sum().items():
            cause, kind, ran = cast("tuple[str, _Kind, bool]", key)
            self.sums[cause, kind, bool(ran)] = self.sums.get((cause, kind, bool(ran)), 0) + int(hours)

    def rows(self, served: _Served) -> list[FleetLedgerRow]:
        """The rows, which sum to all hours; what is in no ledger is one of them."""
        found = [
            FleetLedgerRow(
                cause=cause, kind=kind, basis="measured" if ran else "expected", hours_per_day=hours / FINE,
                needed=cause in NEEDED if ran else cause.startswith(BOUND),
            )
            for (cause, kind, ran), hours in self.sums.items()
        ]  # fmt: skip
        both: tuple[tuple[FleetBasis, float], ...] = (
            ("measured", served.measured_hours), ("expected", served.expected_hours),
        )  # fmt: skip
        for basis, hours in both:
            rest = math.fsum([hours, *(-row.hours_per_day for row in found if row.basis == basis)])
            if abs(rest) > 1e-6 * hours:
                found.append(FleetLedgerRow(cause=UNTOLD, kind="remainder", basis=basis, hours_per_day=rest))
        return sorted(
            found,
            key=lambda row: (
                row.basis != "measured",
                not row.needed,
                row.cause != IDEAL,
                -row.hours_per_day,
                row.cause,
            ),
        )


# --- kernels ----------------------------------------------------------------------------------


class _Example(NamedTuple):
    win_ns: float
    at: int
    run: str
    layer: str


class _Kernels:
    """Layers alike in op types and dtype, over all cells."""

    def __init__(self, rows: _Rows, hours_per_ns: np.ndarray, place: str) -> None:
        self.place, self.hours_per_ns = place, hours_per_ns
        self.measured_ns = float(rows.frame["latency_ns"].sum())
        self.models, self.targets = rows.frame["model"].to_numpy(), rows.frame["target"].to_numpy()
        self.runs = rows.frame["run"].to_numpy()
        self.groups = Patterns()
        self.examples: dict[int, _Example] = {}
        self.parts: list[pd.DataFrame] = []

    def add(self, part: pa.Table, at: np.ndarray) -> None:
        """Add the kernels of some rows."""
        import numpy as np
        import pandas as pd
        import pyarrow as pa
        import pyarrow.compute as pc

        items, parents = _flat(part, "kernels", at)
        kept = np.flatnonzero(pc.not_equal(items.field("pattern"), REST).to_numpy(zero_copy_only=False))
        if not len(kept):
            return
        items, parents = items.take(pa.array(kept)), parents[kept]

        def number(name: str) -> np.ndarray:
            return np.asarray(items.field(name).cast("float64").to_numpy(zero_copy_only=False))

        group = self.groups.of(items)
        bound, expected, measured = number("bound_ns"), number("expected_ns"), number("measured_ns")
        win, hours = number("win_ns"), self.hours_per_ns[parents]
        verdict = items.field("verdict").to_numpy(zero_copy_only=False)
        wins = np.isin(verdict, _VERDICTS) & ~np.isnan(measured) & ~np.isnan(win)
        ran = ~np.isnan(measured)
        timed, hoped = ran & ~np.isnan(bound), ~ran & ~np.isnan(expected) & ~np.isnan(bound)
        above = np.where(hoped, np.maximum(expected - bound, 0), 0.0)
        columns: dict[str, np.ndarray] = {
            "cells": _firsts(group, parents, np.ones(len(group), dtype=bool)),
            "win_cells": _firsts(group, parents, wins),
            "written": wins & (verdict == _VERDICTS[0]),
            "m_bound": np.where(timed, bound, 0), "m_time": np.where(timed, measured, 0),
            "e_bound": np.where(hoped, bound, 0), "e_time": np.where(hoped, expected, 0),
            "above": above, "above_hours": _whole_hours(above, hours),
            "counted": hours > 0, "win_counted": wins & (hours > 0),
        }  # fmt: skip
        for name, values in (("win", win), ("low", number("win_low_ns")), ("high", number("win_high_ns"))):
            columns[name] = np.where(wins, np.where(np.isnan(values), win, values), 0)
            columns[f"{name}_hours"] = _whole_hours(columns[name], hours)
        frame = pd.DataFrame({name: values.astype("int64") for name, values in columns.items()})
        frame = frame.assign(group=group, model=self.models[parents], target=self.targets[parents])
        self.parts.append(frame.groupby(["group", "model", "target"], sort=True).sum())
        kept = np.flatnonzero(wins)
        self._remember(group[kept], win[kept], parents[kept], items.field("layer").take(pa.array(kept)))

    @cached_property
    def sums(self) -> pd.DataFrame | None:
        """A row a group, model and target."""
        import pandas as pd

        return pd.concat(self.parts).groupby(level=[0, 1, 2]).sum().reset_index() if self.parts else None

    def _remember(self, group: np.ndarray, win: np.ndarray, parents: np.ndarray, layers: pa.Array) -> None:
        """The layer of each group that wins most; of equals the first."""
        import numpy as np

        order = np.lexsort((np.arange(len(win)), parents, -win, group))
        for at in order[np.r_[True, group[order][1:] != group[order][:-1]]] if len(order) else ():
            known, parent = self.examples.get(int(group[at])), int(parents[at])
            if known is None or (-win[at], parent) < (-known.win_ns, known.at):
                run, layer = self.runs[parent] or "", layers[int(at)].as_py()
                self.examples[int(group[at])] = _Example(float(win[at]), parent, run, layer)

    def wins(self, measured_hours: float, requested: bool) -> list[FleetWin]:
        """The largest first: by hours a day where any are told, then by time."""
        if self.sums is None:
            return []
        sums = self.sums[self.sums["win_cells"] > 0]
        by_day = requested and bool(sums["win_counted"].any())
        found = []
        for group, part in _by_group(sums):
            pattern, dtype = self.groups.names[group]
            counted = by_day and part["win_counted"].sum() > 0
            hours = int(part["win_hours"].sum()) / FINE
            example = self.examples[group]
            of = (hours, measured_hours) if by_day else (float(part["win"].sum()), self.measured_ns)
            found.append(
                FleetWin(
                    pattern=pattern, dtype=dtype, verdict="write it" if part["written"].sum() else "try first",
                    win_ns=int(part["win"].sum()), win_low_ns=int(part["low"].sum()),
                    win_high_ns=int(part["high"].sum()), hours_per_day=hours if counted else None,
                    hours_low=int(part["low_hours"].sum()) / FINE if counted else None,
                    hours_high=int(part["high_hours"].sum()) / FINE if counted else None,
                    share=of[0] / of[1] if of[1] else 0.0,
                    cells=int(part["win_cells"].sum()), models=part["model"].nunique(),
                    targets=tuple(sorted(part["target"].unique())), run=example.run, layer=example.layer,
                    command=_command(self.place, example),
                )
            )  # fmt: skip
        return sorted(found, key=lambda one: (-(one.hours_per_day or 0.0), -one.win_ns, one.pattern, one.dtype))

    def above(self, requested: bool) -> list[FleetPattern]:
        """Where what is expected stands furthest above the bound, by hours a day where any are told."""
        found = [one for one in self._all(requested) if one.above_ns]
        return sorted(found, key=lambda one: (-(one.above_hours or 0.0), -one.above_ns, one.pattern, one.dtype))

    def patterns(self) -> list[FleetPattern]:
        """Those in several models, in most models first."""
        found = [one for one in self._all(requested=False) if one.models > 1 and one.targets]
        return sorted(found, key=lambda one: (-one.models, -one.cells, one.pattern, one.dtype))

    def _all(self, requested: bool) -> Iterator[FleetPattern]:
        if self.sums is None:
            return
        for group, part in _by_group(self.sums):
            pattern, dtype = self.groups.names[group]
            yield FleetPattern(
                pattern=pattern, dtype=dtype, models=part["model"].nunique(), cells=int(part["cells"].sum()),
                above_ns=int(part["above"].sum()),
                above_hours=int(part["above_hours"].sum()) / FINE if requested and part["counted"].sum() else None,
                targets=tuple(_efficiencies(part)),
            )  # fmt: skip


def _by_group(sums: pd.DataFrame) -> Iterator[tuple[int, pd.DataFrame]]:
    for group, part in sums.groupby("group", sort=True):
        yield int(str(group)), part


def _firsts(group: np.ndarray, parents: np.ndarray, among: np.ndarray) -> np.ndarray:
    """1 at the first of each group in each row, so that rows can be counted."""
    import numpy as np

    found = np.zeros(len(group), dtype="int64")
    at = np.flatnonzero(among)
    span = int(parents.max()) + 1 if len(parents) else 1
    _, firsts = np.unique(group[at].astype("int64") * span + parents[at], return_index=True)
    found[at[firsts]] = 1
    return found


def _efficiencies(part: pd.DataFrame) -> Iterator[FleetEfficiency]:
    for target, rows in part.groupby("target", sort=True):
        bases: tuple[tuple[FleetBasis, str], ...] = (("measured", "m"), ("expected", "e"))
        for basis, mark in bases:
            bound, time = float(rows[f"{mark}_bound"].sum()), float(rows[f"{mark}_time"].sum())
            if time:
                yield FleetEfficiency(
                    target=str(target), basis=basis, of_bound=bound / time, cells=int(rows["cells"].sum())
                )


def _command(place: str, example: _Example) -> str:
    if not example.run:
        return ""
    run = str(Path(place) / example.run) if "://" not in place else f"{place.rstrip('/')}/{example.run}"
    return shlex.join(["trtprof", "plugin", run, example.layer])


def _no_wins(measured: int, wins: int) -> str:
    if not measured:
        return "nothing was measured: no verdict is possible, and what is expected is no verdict"
    return "" if wins else "no layer that was measured has the verdict that a custom kernel pays"


# --- failures, doubts, notes ------------------------------------------------------------------


def _failures(rows: _Rows) -> list[FleetFailure]:
    """Failed cells by stage and error, those of most cells first."""
    groups: dict[tuple[str, str], list[Any]] = {}
    failed = rows.frame[rows.frame["status"] == "failed"]
    for one in failed.itertuples(index=False):
        row: Any = one
        alike = _named(row.path, row.model).sub("\0", row.error)
        groups.setdefault((row.stage, alike), []).append(row)
    found = [
        FleetFailure(
            stage=stage, error=group[0].error, why=group[0].why, fix=group[0].fix, cells=len(group),
            models=len({row.model for row in group}),
            targets=tuple(sorted({row.target for row in group}, key=lambda name: (rows.places.get(name, 0), name))),
            examples=tuple(
                FleetFailedCell(key=row.key, model=row.model, path=row.path, target=row.target, size=row.size,
                                precision=row.precision)
                for row in group[:EXAMPLES]
            ),
        )
        for (stage, _), group in groups.items()
    ]  # fmt: skip
    return sorted(found, key=lambda one: (-one.cells, one.stage, one.error))


@lru_cache(maxsize=4096)
def _named(path: str, model: str) -> re.Pattern[str]:
    """Where an error names the model of its cell; a name of a letter or two may be a word as well."""
    names = [name for name in (path, Path(path).name, model) if len(name) > 2]
    # The longer name first: one may hold the other.
    words = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    return re.compile(rf"(?<!\w)(?:{words})(?!\w)" if words else r"(?!)")


def _doubts(rows: _Rows, failures: Collection[FleetFailure]) -> Iterator[str]:
    frame = rows.frame
    left = len(rows.cells) - len(frame)
    if left:
        yield f"{left:,} of {len(rows.cells):,} cells have no answer yet: trtprof fleet run goes on with them"
    failed = sum(one.cells for one in failures)
    if failed:
        yield f"{failed:,} of {len(rows.cells):,} cells failed: they are in no number but their count"
    above = int(frame["above_roof"].sum())
    if above:
        yield f"{cells_words(above)} {'is' if above == 1 else 'are'} {ABOVE_ROOF}; no target is best by them"
    versions = sorted(frame["trtprof"].unique())
    if len(versions) > 1:
        yield f"answers are of several versions of trtprof: {', '.join(versions)}"
    yield from _told(frame["doubts"])
    done = frame[frame["status"] == "done"]
    alone = int((done["basis"] == "bound").sum())
    if alone:
        yield f"{cells_words(alone)} {'has' if alone == 1 else 'have'} a bound and nothing that is expected of them"
    unsure = int(((done["basis"] == "expected") & ~done["expected_basis"].isin(FIRM)).sum())
    if unsure:
        yield f"{cells_words(unsure)}: what is expected rests, in part, on what was not measured like it"
    nothing = int(((done["basis"] == "none") & (done["verb"] != "build")).sum())
    if nothing:
        yield f"{cells_words(nothing)} {'has' if nothing == 1 else 'have'} no price at all"


def _told(doubts: pd.Series) -> Iterator[str]:
    """Doubts about cells, those of most cells first; such as begin alike, but for numbers, are told together."""
    texts = doubts[doubts != ""].value_counts()
    cells: dict[str, int] = {}
    seen: dict[str, set[str]] = {}
    for text, number in sorted((str(text), int(number)) for text, number in texts.items()):
        for alike, part in {_NUMBER.sub("#", part.partition(": ")[0]): part for part in text.split("; ")}.items():
            cells[alike] = cells.get(alike, 0) + number
            seen.setdefault(alike, set()).add(part)
    order = sorted(cells, key=lambda alike: (-cells[alike], alike))
    for alike in order[:DOUBTS]:
        first = min(seen[alike])
        head, colon, rest = first.partition(": ")
        such = first if len(seen[alike]) == 1 else f"{head}, such as: {rest}" if colon else f"such as: {first}"
        yield f"{cells_words(cells[alike])}: {such}"
    if len(order) > DOUBTS:
        yield f"{len(order) - DOUBTS:,} other kinds of doubt are with the cells"


_NUMBER = re.compile(r"[0-9]+(?:[.,][0-9]+)*")


def _notes(rows: _Rows, asked: Asked, left_out: int) -> Iterator[str]:
    if rows.strangers:
        yield f"{rows.strangers:,} rows of the folder are of cells that are not asked, or not chosen"
    if left_out:
        yield (
            f"{left_out:,} of {len(rows.frame):,} answers are left out here, though not out of any sum: --model, "
            "--target and --tag choose; the Parquet data set of the folder has all (trtprof.fleet)"
        )
    if any(target.price_per_hour is not None for target in asked.targets):
        yield (
            "costs are of a million requests on a target that is busy all the time, one inference after the other; "
            "an inference of a batch of 8 answers 8"
        )
        unknown = rows.frame["batch"].isna() & (rows.frame["shapes"] != "")
        if unknown.any():
            yield "where shapes are given and no batch, an inference counts as one request"
    else:
        yield "no target has a price: best is the fastest"
    without = [target.name for target in asked.targets if target.price_per_hour is None]
    if without and len(without) < len(asked.targets):
        yield f"without a price none is the cheapest where others have one: {format_names(without)}"
    ran = rows.frame["latency_ns"].notna() & rows.frame["bound_ns"].notna()
    if (ran & rows.frame["joules"].isna()).any():
        yield "a device without a datasheet is bounded by the best that was ever measured on it, which is no promise"
    if any(model.requests_per_s for model in asked.models):
        yield "hours a day and busy targets are of one inference after the other: queues and idle time come on top"
