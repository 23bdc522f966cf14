"""Two fleets: what got slower or faster beyond noise, what is estimated otherwise, what appeared, vanished or fails.

A cell is the same on both sides by what is asked of it: model, target, verb, shapes, batch, sizes, precision. What else
is in its address (the content of the model, the version of trtprof, options, the datasheet) may be another one, and is
told as the cause. A model that has another name and the same content is led to what it was.

*Measured cells.* A row has an interval (95 %) that holds the median of another run of the same, too. Both make one of
their ratio by the method of variance estimates recovery (MOVER: G. Y. Zou, A. Donner, Construction of confidence limits
about effect measures: a general approach, Statistics in Medicine 27(10), 2008), in logarithms. Its half towards no
change is so many standard errors of Student's t, which tells how often chance alone goes so far; degrees of freedom are
those of a single run (`samples.PRIOR_RUNS`) on each side, added up as B. L. Welch does (Biometrika 34, 1947). Of many
cells some would be called slower by chance: `samples.discoveries` keeps the share of such among all that are called
slower or faster below `RATE`. It holds where cells err alike, too (Y. Benjamini, D. Yekutieli, The control of the false
discovery rate in multiple testing under dependency, Annals of Statistics 29(4), 2001).

*Estimates* are computed: another number is another answer, and has a cause. They rise and fall, and are never slower.

*Means* are geometric ones, of the cells that there are, not of others like them. Errors of cells of one model on one
target are taken to go the same way (one machine, one after the other), others to be independent.

*Kernels* of one pattern are held against each other in cells that both sides answered, and their times summed for each
model. Whether they differ is told by what the models differ by, with no less noise than runs have.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from trtprof.base import records
from trtprof.base.fleet_table import REST, WHICH, Patterns, each_once
from trtprof.base.units import format_percent
from trtprof.compare import fleet_gates as gating
from trtprof.compare.fleet_gates import Measured, cells_words
from trtprof.compare.samples import LEVEL, PRIOR_RUNS, RUN_TO_RUN, discoveries, t_quantile, t_tails

if TYPE_CHECKING:
    import pyarrow as pa

RATE = 1 - LEVEL  # Most of the cells that are called slower or faster that may be so by chance, on average
FEWEST_MODELS = 3  # Models in which kernels of a pattern must have moved for it to be told
_NOISE = 3 * math.sqrt(2) * RUN_TO_RUN
"""A logarithm of a ratio of two times of kernels that is no more than this may be chance."""
COLUMNS = (
    "key", "status", "stage", "error", "device", "doubts", "latency_ns", "latency_low_ns", "latency_high_ns",
    "bound_ns", "expected_ns", "run", "started",
)  # fmt: skip
"""Columns of the rows that are looked at."""
KERNELS = (*WHICH, "kernels")  # Those that are read in pieces: of all rows they would fill the memory

ORDER: tuple[records.FleetOutcome, ...] = get_args(records.FleetOutcome)
_CODE = {answer: at for at, answer in enumerate(ORDER)}
_NOT_ASKED, _NOT_ANSWERED, _FAILED, _DONE = range(4)
_UNREST = 1.3
"""Where the middle half of the differences is so many times as wide as the intervals say, these are in doubt."""
_ENOUGH = 30  # Cells from which on that can be told

Numbers = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]


class FleetOf(NamedTuple):
    """What a comparison looks at of a fleet."""

    name: str  # What to call it
    folder: str  # Where it is
    cells: Sequence[records.FleetCell]  # What it asks now
    rows: pa.Table  # What came of them, with `COLUMNS` at least; of other cells rows are left out
    # The same with `KERNELS`, in any order and any number; of other rows they are passed over
    kernels: Iterable[pa.Table] = ()
    prices: Mapping[str, float] = {}  # An hour of a target, where that is known
    currency: str = ""  # Of the prices


def compare(before: FleetOf, after: FleetOf, gates: Sequence[str] = ()) -> records.FleetComparison:
    """Set a fleet against another one, or itself at another time; gates are as `compare.fleet_gates` has them."""
    asked = gating.parse(gates)
    pairs = _Pairs(before, after)
    order = pairs.order()
    found = records.FleetComparison(
        schema_version=records.SCHEMA_VERSION,
        before=_side(before, pairs.before),
        after=_side(after, pairs.after),
        verdict="",
        counts={ORDER[code]: number for code, number in sorted(Counter(pairs.code.tolist()).items())},
        rate=RATE,
        cells=tuple(pairs.changes(order)),
        groups=tuple(_groups(pairs)),
        kernels=tuple(_kernels(pairs)),
        causes=tuple(_causes(pairs)),
        renames=pairs.renames,
        method=_METHOD,
    )
    notes, doubts = tuple(_notes(pairs, found)), tuple(_doubts(pairs))
    found = _with(found, verdict=_verdict(found), doubts=doubts, notes=notes)
    prices = (before.prices, after.prices) if before.currency == after.currency else ({}, {})
    return _with(found, gates=tuple(gating.judge(gate, found, pairs.measured(order), prices) for gate in asked))


def _with(found: records.FleetComparison, **changes: Any) -> records.FleetComparison:
    import msgspec

    return msgspec.structs.replace(found, **changes)


_METHOD = (
    f"measured cells: the ratio of the medians with an interval ({100 * LEVEL:g} %) of both of theirs (MOVER); called "
    f"slower or faster so that at most {100 * RATE:g} % of those are so by chance, on average over the fleet "
    "(Benjamini and Hochberg); estimates are computed: another one is another answer, which is no measurement"
)


# --- the same cells on both sides -----------------------------------------------------------


class _Columns:
    """Rows of one side in the order of its cells; behind them one of nothing, which place -1 means."""

    def __init__(self, side: FleetOf) -> None:
        self.cells = side.cells
        rows = side.rows
        place = {key: at for at, key in enumerate(rows["key"].to_pylist())}
        self.at = np.array([*(place.get(cell.key, -1) for cell in side.cells), -1], dtype=np.int64)
        self.rows, self.pieces = rows, side.kernels
        done = np.array([*(text == "done" for text in rows["status"].to_pylist()), False])
        self.status = np.where(self.at < 0, _NOT_ANSWERED, np.where(done[self.at], _DONE, _FAILED))
        self.status[-1] = _NOT_ASKED

    def numbers(self, name: str) -> Numbers:
        """A column of numbers, with NaN where there is none."""
        column = self.rows[name].to_numpy(zero_copy_only=False).astype(np.float64)
        return np.append(column, np.nan)[self.at]

    def texts(self, name: str) -> npt.NDArray[Any]:
        """A column of texts, empty where there is none."""
        return np.array([*(text or "" for text in self.rows[name].to_pylist()), ""], dtype=object)[self.at]


class _Pairs:
    """Cells of both sides, each once, with what came of them: arrays of one value a cell."""

    def __init__(self, before: FleetOf, after: FleetOf) -> None:
        self.before, self.after = _Columns(before), _Columns(after)
        names, self.renames = _renamed(before.cells, after.cells)
        self.b, self.a = _joined(before.cells, after.cells, names)
        self.cells = [
            after.cells[a] if a >= 0 else before.cells[b] for b, a in zip(self.b.tolist(), self.a.tolist(), strict=True)
        ]
        self.ran = np.array([cell.verb == "run" for cell in self.cells], dtype=np.bool_)
        self._answer()
        self._same()

    def _of(self, name: str) -> tuple[Numbers, Numbers]:
        return self.before.numbers(name)[self.b], self.after.numbers(name)[self.a]

    def _answer(self) -> None:
        was, now = self.before.status[self.b], self.after.status[self.a]
        self.was, self.now = was, now
        self.latency, self.expected, self.bound = self._of("latency_ns"), self._of("expected_ns"), self._of("bound_ns")
        lows, highs = self._of("latency_low_ns"), self._of("latency_high_ns")
        both = (was == _DONE) & (now == _DONE)
        sure = both & self.ran
        for ns, low, high in zip(self.latency, lows, highs, strict=True):
            sure &= (low > 0) & (low <= ns) & (ns <= high)
        self.sure = sure
        estimated = both & ~self.ran
        by_expected = estimated & ~np.isnan(self.expected[0]) & ~np.isnan(self.expected[1])
        by_bound = estimated & ~np.isnan(self.bound[0]) & ~np.isnan(self.bound[1])
        # Where the expectation stayed and the bound did not, the bound is what changed.
        by_bound &= ~by_expected | ((self.expected[0] == self.expected[1]) & (self.bound[0] != self.bound[1]))
        by_expected &= ~by_bound
        self.told: dict[records.FleetQuantity, npt.NDArray[np.bool_]] = {
            "latency": sure, "expected": by_expected, "bound": by_bound,
        }  # fmt: skip
        self.ns = tuple(
            np.select([sure, by_expected, by_bound], [self.latency[at], self.expected[at], self.bound[at]], np.nan)
            for at in (0, 1)
        )
        size = len(self.b)
        self.log, self.low, self.high = (np.full(size, np.nan) for _ in range(3))
        self.tail, self.freedom = np.full(size, np.nan), np.full(size, np.nan)
        priced = (self.ns[0] > 0) & (self.ns[1] > 0)
        self.log[priced] = np.log(self.ns[1][priced] / self.ns[0][priced])
        if sure.any():
            ends = [np.log(each[sure]) for pair in (lows, self.latency, highs) for each in pair]
            self._intervals(sure, ends)
        moved = discoveries(self.tail[sure], RATE)
        answer = np.full(size, _CODE["not decided"])
        answer[sure] = np.where(
            moved & (self.low[sure] > 0),
            _CODE["slower"],
            np.where(moved & (self.high[sure] < 0), _CODE["faster"], _CODE["not significant"]),
        )
        estimates = by_expected | by_bound
        step = np.sign(self.ns[1] - self.ns[0])
        for sign, name in ((1, "estimate rose"), (-1, "estimate fell"), (0, "estimate equal")):
            answer[estimates & (step == sign)] = _CODE[name]  # type: ignore[index]
        answer[(was == _FAILED) & (now == _FAILED)] = _CODE["failed on both"]
        answer[(was == _DONE) & (now == _FAILED)] = _CODE["failed now"]
        answer[(was == _FAILED) & (now == _DONE)] = _CODE["mended"]
        answer[(was == _NOT_ANSWERED) | (now == _NOT_ANSWERED)] = _CODE["not answered"]
        answer[was == _NOT_ASKED] = _CODE["appeared"]
        answer[now == _NOT_ASKED] = _CODE["vanished"]
        self.code = answer

    def _intervals(self, sure: npt.NDArray[np.bool_], ends: Sequence[Numbers]) -> None:
        """The interval of the logarithm of the ratio of medians, and how often chance goes so far."""
        low_before, low_after, before, after, high_before, high_after = ends
        change = after - before
        downwards = (after - low_after, high_before - before)
        upwards = (high_after - after, before - low_before)
        self.low[sure] = change - np.hypot(*downwards)
        self.high[sure] = change + np.hypot(*upwards)
        # Both halves towards no change.
        first, second = (np.where(change > 0, down, up) for down, up in zip(downwards, upwards, strict=True))
        tiny = np.finfo(np.float64).tiny
        squares = np.square(first) + np.square(second)
        freedom = PRIOR_RUNS * np.square(squares) / np.maximum(np.power(first, 4) + np.power(second, 4), tiny)
        freedom = np.clip(freedom, PRIOR_RUNS, 2 * PRIOR_RUNS)
        error = np.maximum(np.sqrt(squares) / t_quantile(PRIOR_RUNS), 1e-9)
        self.freedom[sure] = freedom
        self.tail[sure] = t_tails(change / error, freedom)

    def _same(self) -> None:
        """What is another one on both sides, by cause; False where a cell is on one side alone."""
        asked = (self.b >= 0) & (self.a >= 0)
        self.asked = asked
        befores = [self.before.cells[b] if b >= 0 else None for b in self.b.tolist()]
        self.befores = befores

        def differs(name: str) -> npt.NDArray[np.bool_]:
            return np.array(
                [
                    one is not None and getattr(one, name) != getattr(other, name)
                    for one, other in zip(befores, self.cells, strict=True)
                ],
                dtype=np.bool_,
            )

        found = {
            name: differs(field) & asked
            for name, field in (
                ("model content", "sha256"), ("trtprof", "trtprof"), ("GPU", "gpu"), ("options", "options"),
                ("resource", "resource"),
            )
        }  # fmt: skip
        devices = self.before.texts("device")[self.b], self.after.texts("device")[self.a]
        self.devices = devices
        # Of a prediction the device is its datasheet.
        predicted = np.array([cell.verb == "predict" for cell in self.cells], dtype=np.bool_)
        found["device"] = asked & ~predicted & (devices[0] != "") & (devices[1] != "") & (devices[0] != devices[1])
        addressed = found["model content"] | found["trtprof"] | found["GPU"] | found["options"]
        other = differs("key") & asked
        found["datasheet"] = other & ~addressed & predicted
        moved = np.isin(self.code, [_CODE["estimate rose"], _CODE["estimate fell"]])
        found["nothing recorded"] = moved & ~np.logical_or.reduce(list(found.values()))
        self.differs = found

    # --- what is made of it -----------------------------------------------------------------

    def order(self) -> list[int]:
        """Places of the cells by answer, the largest change first."""
        size = np.nan_to_num(-np.abs(self.log), nan=0.0).tolist()
        code = self.code.tolist()

        def key(at: int) -> tuple[Any, ...]:
            cell = self.cells[at]
            return code[at], size[at], cell.model, cell.target, cell.batch or 0, cell.size, cell.precision, cell.key

        return sorted(range(len(code)), key=key)

    def measured(self, order: Sequence[int]) -> Measured:
        """What gates look at of measured cells; places are those in ``order``."""
        rank = np.empty(len(order), dtype=np.int64)
        rank[np.array(order, dtype=np.int64)] = np.arange(len(order))
        places = np.flatnonzero(self.sure)
        return Measured(rank[places], self.log[places], self.low[places], self.high[places], self.freedom[places])

    def changes(self, order: Sequence[int]) -> Iterator[records.FleetCellChange]:
        """A record a cell."""
        names: dict[int, records.FleetQuantity] = {}
        for quantity, places in self.told.items():
            names |= dict.fromkeys(np.flatnonzero(places).tolist(), quantity)
        columns = [
            [None if math.isnan(ns) else int(ns) for ns in each.tolist()]
            for pair in (self.ns, self.expected, self.bound)
            for each in pair
        ]
        ratio, low, high = (_exact(np.exp(each)) for each in (self.log, self.low, self.high))
        tail = _exact(self.tail)
        causes: dict[int, tuple[str, ...]] = defaultdict(tuple)
        for cause, places in self.differs.items():
            for at in np.flatnonzero(places).tolist():
                causes[at] += (cause,)
        runs = [self.before.texts("run")[self.b], self.after.texts("run")[self.a]]
        reasons = self._reasons()
        for at in order:
            cell, old = self.cells[at], self.befores[at]
            yield records.FleetCellChange(
                model=cell.model,
                was=old.model if old is not None and old.model != cell.model else "",
                path=cell.path,
                target=cell.target,
                verb=cell.verb,
                size=cell.size,
                precision=cell.precision,
                tags=cell.tags,
                answer=ORDER[self.code[at]],
                told_by=names.get(at),
                before_ns=columns[0][at],
                after_ns=columns[1][at],
                ratio=ratio[at],
                low=low[at],
                high=high[at],
                chance=tail[at],
                expected_before_ns=columns[2][at],
                expected_after_ns=columns[3][at],
                bound_before_ns=columns[4][at],
                bound_after_ns=columns[5][at],
                causes=causes.get(at, ()),
                reason=reasons.get(at, ""),
                key_before="" if old is None else old.key,
                key_after=cell.key if self.a[at] >= 0 else "",
                run_before=runs[0][at],
                run_after=runs[1][at],
            )

    def _reasons(self) -> dict[int, str]:
        """Why a cell failed, or has no answer."""
        found: dict[int, str] = {}
        for side, places, status in ((self.before, self.b, self.was), (self.after, self.a, self.now)):
            stage, error = side.texts("stage"), side.texts("error")
            for at in np.flatnonzero(status == _FAILED).tolist():
                where = f"{stage[places[at]]}: " if stage[places[at]] else ""
                found[at] = f"{where}{error[places[at]] or 'it failed, and nothing says why'}"
        waits = self.code == _CODE["not answered"]
        for at in np.flatnonzero(waits).tolist():
            lacking = [
                name for name, status in (("before", self.was), ("after", self.now)) if status[at] == _NOT_ANSWERED
            ]
            found[at] = f"not done yet {' and '.join(lacking)}" + (f"; {found[at]}" if at in found else "")
        for at in np.flatnonzero(self.code == _CODE["not decided"]).tolist():
            found[at] = (
                "one side has no latency with an interval" if self.ran[at] else "one side has nothing that is priced"
            )
        alone = np.isnan(self.expected[0]) != np.isnan(self.expected[1])
        for at in np.flatnonzero(alone & self.told["bound"]).tolist():
            found[at] = "one side alone has an expectation"
        return found


def _exact(column: Numbers) -> list[float | None]:
    return [None if math.isnan(value) else value for value in column.tolist()]


def _renamed(
    before: Sequence[records.FleetCell], after: Sequence[records.FleetCell]
) -> tuple[dict[str, str], tuple[records.FleetRename, ...]]:
    """The new names of models of ``before``: of those whose name went, where one new name has their content."""
    contents = [{cell.model: cell.sha256 for cell in cells} for cells in (before, after)]
    gone = {name: sha for name, sha in contents[0].items() if name not in contents[1]}
    new = {name: sha for name, sha in contents[1].items() if name not in contents[0]}
    once = [{sha: name for name, sha in names.items() if many[sha] == 1}
            for names, many in ((names, Counter(names.values())) for names in (gone, new))]  # fmt: skip
    found = {name: once[1][sha] for sha, name in once[0].items() if sha in once[1]}
    cells = Counter(cell.model for cell in before if cell.model in found)
    return found, tuple(
        records.FleetRename(before=old, after=name, cells=cells[old]) for old, name in sorted(found.items())
    )


def _joined(
    before: Sequence[records.FleetCell], after: Sequence[records.FleetCell], names: Mapping[str, str]
) -> tuple[Places, Places]:
    """Places of the same cells on both sides; -1 where a side has it not."""
    places = {identity: at for at, identity in enumerate(_identities(before, names))}
    found: list[tuple[int, int]] = [
        (places.pop(identity, -1), at) for at, identity in enumerate(_identities(after, {}))
    ]
    found += [(at, -1) for at in places.values()]
    table = np.array(found, dtype=np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def _identities(cells: Sequence[records.FleetCell], names: Mapping[str, str]) -> Iterator[tuple[Any, ...]]:
    seen: Counter[tuple[Any, ...]] = Counter()
    for cell in cells:
        name = names.get(cell.model, cell.model)
        sizes = tuple(sorted(cell.sizes.items()))
        same = (name, cell.target, cell.verb, cell.shapes, cell.batch, sizes, cell.precision)
        seen[same] += 1
        # Cells that differ by their options alone are told apart by their order.
        yield (*same, seen[same])


def _side(side: FleetOf, columns: _Columns) -> records.FleetSide:
    status = Counter(columns.status[:-1].tolist())
    started = sorted(filter(None, columns.texts("started")[:-1].tolist()))
    return records.FleetSide(
        name=side.name,
        folder=side.folder,
        cells=len(side.cells),
        done=status[_DONE],
        failed=status[_FAILED],
        trtprof=tuple(sorted({cell.trtprof for cell in side.cells})),
        first=started[0] if started else "",
        last=started[-1] if started else "",
    )


# --- cells taken together -------------------------------------------------------------------


def _groups(pairs: _Pairs) -> Iterator[records.FleetGroupChange]:
    """The fleet, each target, each tag and each model, of measured cells and of estimates."""
    estimates = (pairs.told["expected"] | pairs.told["bound"]) & ~np.isnan(pairs.log)
    for kind, places in (("fact", np.flatnonzero(pairs.sure)), ("estimate", np.flatnonzero(estimates))):
        if not len(places):
            continue
        cells = [pairs.cells[at] for at in places.tolist()]
        machine = _codes([(cell.model, cell.target) for cell in cells])[0]
        tagged = [(at, tag) for at, cell in enumerate(cells) for tag in cell.tags]
        every = np.arange(len(places))
        for by, members, names in (
            ("fleet", every, [""] * len(cells)),
            ("target", every, [cell.target for cell in cells]),
            ("tag", np.array([at for at, _ in tagged], dtype=np.int64), [tag for _, tag in tagged]),
            ("model", every, [cell.model for cell in cells]),
        ):
            if not names:
                continue
            codes, known = _codes(names)
            yield from _means(pairs, places[members], codes, known, machine[members], by, kind)


def _codes(names: Sequence[Any]) -> tuple[Places, list[Any]]:
    """Each as the place of it among those that there are, in order."""
    known = sorted(set(names))
    place = {name: at for at, name in enumerate(known)}
    return np.array([place[name] for name in names], dtype=np.int64), known


def _means(
    pairs: _Pairs, places: Places, codes: Places, names: Sequence[str], machine: Places, by: Any, kind: Any
) -> Iterator[records.FleetGroupChange]:
    count = np.bincount(codes, minlength=len(names))
    mean = np.bincount(codes, pairs.log[places], len(names)) / count
    together = codes * (machine.max() + 1) + machine
    _, first, cluster = np.unique(together, return_index=True, return_inverse=True)

    def half(one: Numbers) -> Numbers:
        """Cells of a cluster err the same way, clusters independently."""
        return np.asarray(np.sqrt(np.bincount(codes[first], np.square(np.bincount(cluster, one)), len(names))) / count)

    log, answer = pairs.log[places], pairs.code[places]
    low = half(log - pairs.low[places]) if kind == "fact" else None
    high = half(pairs.high[places] - log) if kind == "fact" else None
    words = ("slower", "faster") if kind == "fact" else ("estimate rose", "estimate fell")
    more, less = (np.bincount(codes, answer == _CODE[word], len(names)) for word in words)  # type: ignore[index]
    for at, name in enumerate(names):
        yield records.FleetGroupChange(
            by=by,
            name=name,
            kind=kind,
            cells=int(count[at]),
            ratio=float(np.exp(mean[at])),
            low=None if low is None else float(np.exp(mean[at] - low[at])),
            high=None if high is None else float(np.exp(mean[at] + high[at])),
            more=int(more[at]),
            less=int(less[at]),
        )


# --- kernels --------------------------------------------------------------------------------


def _kernels(pairs: _Pairs) -> list[records.FleetKernelChange]:
    told = pairs.told["latency"], pairs.told["expected"]
    at = np.flatnonzero(np.logical_or(*told))
    if not len(at):
        return []
    patterns = Patterns()
    sides = (pairs.before, pairs.b), (pairs.after, pairs.a)
    # Of neither side anything is kept beside what both have.
    both = _on_both(*(_times(side, mine[at], told[0][at], patterns) for side, mine in sides))
    found = [
        *_patterns(pairs, both[told[0][at][both["cell"]]], at, patterns, "fact"),
        *_patterns(pairs, both[told[1][at][both["cell"]]], at, patterns, "estimate"),
    ]
    return sorted(
        found, key=lambda one: (one.kind != "fact", one.before_ns - one.after_ns, one.pattern, one.dtype, one.target)
    )


def _patterns(pairs: _Pairs, both: Any, at: Places, patterns: Patterns, kind: Any) -> list[records.FleetKernelChange]:
    if both.empty:
        return []
    models, model_names = _codes([pairs.cells[each].model for each in at.tolist()])
    targets, target_names = _codes([pairs.cells[each].target for each in at.tolist()])
    both = both.assign(model=models[both.cell], target=targets[both.cell])
    pattern = ["pattern", "target"]
    summed = both.groupby([*pattern, "model"], sort=True)
    by_model = summed[["ns_before", "ns_after"]].sum().reset_index()
    by_model["log"] = np.log(by_model.ns_after / by_model.ns_before)
    made = by_model.groupby(pattern, sort=True)["log"].agg(["size", "mean", "std"]).reset_index()
    by_model = by_model.merge(made, on=pattern)
    noise = _NOISE if kind == "fact" else 0.0
    moved = by_model[by_model.log * np.sign(by_model["mean"]) > noise]
    moved = moved.assign(more=-(moved.ns_after - moved.ns_before).abs()).sort_values("more", kind="stable")
    told = moved.groupby(pattern, sort=True).agg(
        models=("log", "size"), ratio=("log", "mean"), before_ns=("ns_before", "sum"), after_ns=("ns_after", "sum"),
        example=("model", "first"),
    )  # fmt: skip
    made = made[made["size"] >= FEWEST_MODELS]
    half = np.full(len(made), np.nan)
    if kind == "fact" and len(made):
        tails, half = _apart(made["mean"].to_numpy(), made["std"].to_numpy(), made["size"].to_numpy())
        kept = discoveries(tails, RATE)
        made, half = made[kept], half[kept]
    made = made.assign(half=half).merge(told[told.models >= FEWEST_MODELS].reset_index(), on=pattern)
    return [
        records.FleetKernelChange(
            pattern=patterns.names[row.pattern][0],
            dtype=patterns.names[row.pattern][1],
            target=target_names[row.target],
            kind=kind,
            models=int(row.models),
            of=int(row.size),
            ratio=math.exp(row.ratio),
            mean=math.exp(row.mean),
            low=math.exp(row.mean - row.half) if kind == "fact" else None,
            high=math.exp(row.mean + row.half) if kind == "fact" else None,
            before_ns=int(row.before_ns),
            after_ns=int(row.after_ns),
            example=model_names[row.example],
        )
        for row in made.itertuples(index=False)
    ]


def _apart(mean: Numbers, spread: Numbers, models: Places) -> tuple[Numbers, Numbers]:
    """How often chance moves a mean over models so far, and half the width of its interval."""
    assumed = 2 * RUN_TO_RUN**2
    own = models - 1.0
    pooled = np.sqrt((PRIOR_RUNS * assumed + own * np.square(spread)) / (PRIOR_RUNS + own))
    tails, halves = [], []
    for deviation, freedom in ((pooled, PRIOR_RUNS + own), (spread, own)):
        error = np.maximum(deviation / np.sqrt(models), 1e-9)
        tails.append(t_tails(mean / error, freedom))
        halves.append(error * np.array([t_quantile(each) for each in freedom.tolist()]))
    return np.maximum(*tails), np.maximum(*halves)


def _times(side: _Columns, places: Places, ran: npt.NDArray[np.bool_], patterns: Patterns) -> tuple[Any, ...]:
    """Times of kernels that are alike, of a side: what they are of, the cell, the pattern, and ns."""
    import pandas as pd
    import pyarrow as pa
    import pyarrow.compute as pc

    cells = np.full(len(side.rows) + 1, -1, dtype=np.int64)
    cells[side.at[places]] = np.arange(len(places))
    parts: list[tuple[npt.NDArray[Any], ...]] = []
    keys, status, started = (side.rows[name].to_pylist() for name in WHICH)
    for part, at in each_once(keys, status, started, side.pieces):
        column = part["kernels"].combine_chunks()
        flat = pc.list_flatten(column)
        cell = cells[at[pc.list_parent_indices(column).to_numpy()]]
        measured, expected = (
            flat.field(name).cast("float64").to_numpy(zero_copy_only=False) for name in ("measured_ns", "expected_ns")
        )
        ns = np.where(ran[cell], measured, expected)
        whole = pc.not_equal(flat.field("pattern"), REST).to_numpy(zero_copy_only=False)
        kept = np.flatnonzero((cell >= 0) & ~np.isnan(ns) & whole)
        if not len(kept):
            continue
        flat, cell, ns = flat.take(pa.array(kept)), cell[kept], ns[kept]
        pattern = patterns.of(flat)
        shapes = flat.field("shapes").dictionary_encode()
        shape = pd.util.hash_array(shapes.dictionary.to_numpy(zero_copy_only=False))[np.asarray(shapes.indices)]
        what = pd.util.hash_array(cell << _CELL | pattern) ^ shape
        known, first, inverse = np.unique(what, return_index=True, return_inverse=True)
        summed = np.bincount(inverse, ns, len(known))
        parts.append((known, cell[first].astype(np.int32), pattern[first].astype(np.int32), summed))
    if not parts:
        return tuple(np.empty(0, dtype=np.int64) for _ in range(4))
    return tuple(np.concatenate(each) for each in zip(*parts, strict=True))


_CELL = 32  # Bits of a number that tell a pattern; the others tell a cell


def _on_both(before: tuple[Any, ...], after: tuple[Any, ...]) -> Any:
    """What both sides have: ``cell``, ``pattern``, ``ns_before``, ``ns_after``, none of them 0."""
    import pandas as pd

    # A cell is in one piece, so that nothing is there twice.
    _, left, right = np.intersect1d(before[0], after[0], assume_unique=True, return_indices=True)
    _, cell, pattern, ns = before
    found = pd.DataFrame(
        {"cell": cell[left], "pattern": pattern[left], "ns_before": ns[left], "ns_after": after[3][right]}
    )
    return found[(found["ns_before"] > 0) & (found["ns_after"] > 0)]


# --- causes, and words ----------------------------------------------------------------------


def _causes(pairs: _Pairs) -> list[records.FleetCause]:
    """What both sides do not have the same, by what it was and is, with most changes first."""
    counted: dict[tuple[Any, ...], Counter[str]] = {}
    answers = [ORDER[code] for code in pairs.code.tolist()]
    for what, places in pairs.differs.items():
        for at in np.flatnonzero(places).tolist():
            old, cell = pairs.befores[at], pairs.cells[at]
            ends = _ends(pairs, what, old, cell, at)
            counter = counted.setdefault((what, *ends), Counter())
            counter["cells"] += 1
            counter[answers[at]] += 1
    found = [
        records.FleetCause(
            what=what,
            before=before,
            after=after,
            model=model,
            cells=counter["cells"],
            slower=counter["slower"],
            faster=counter["faster"],
            rose=counter["estimate rose"],
            fell=counter["estimate fell"],
        )
        for (what, before, after, model), counter in counted.items()
    ]
    return sorted(
        found,
        key=lambda one: (
            -(one.slower + one.rose), -(one.faster + one.fell), -one.cells, one.what, one.model, one.before, one.after
        ),
    )  # fmt: skip


def _ends(
    pairs: _Pairs, what: str, old: records.FleetCell | None, cell: records.FleetCell, at: int
) -> tuple[str, str, str]:
    if old is None or what == "nothing recorded":
        return "", "", ""
    if what == "model content":
        return old.sha256[:12], cell.sha256[:12], cell.model
    if what == "device":
        return pairs.devices[0][at], pairs.devices[1][at], ""
    if what == "datasheet":
        return cell.gpu, cell.gpu, ""
    if what == "options":
        return _options(old), _options(cell), ""
    field = {"GPU": "gpu"}.get(what, what)
    return getattr(old, field), getattr(cell, field), ""


def _options(cell: records.FleetCell) -> str:
    return " ".join(f"{name}={value}" for name, value in sorted(cell.options.items())) or "none"


def _verdict(found: records.FleetComparison) -> str:
    """All that counts, in a sentence."""
    counts = found.counts
    measured = sum(counts.get(name, 0) for name in ("slower", "faster", "not significant"))
    estimates = sum(counts.get(name, 0) for name in ("estimate rose", "estimate fell", "estimate equal"))
    parts = []
    if measured:
        mean = next(each for each in found.groups if each.by == "fleet" and each.kind == "fact")
        ends = f"{_percent(mean.low)} to {_percent(mean.high)}"
        slower, faster = counts.get("slower", 0), counts.get("faster", 0)
        if not slower and not faster:
            text = f"none of {cells_words(measured)} that were measured changed beyond noise"
        else:
            text = f"of {cells_words(measured)} that were measured {slower:,} slower and {faster:,} faster beyond noise"
        parts.append(f"{text}; their mean {_percent(mean.ratio)} ({ends})")
    if estimates:
        rose, fell = counts.get("estimate rose", 0), counts.get("estimate fell", 0)
        parts.append(
            f"of {estimates:,} estimates {rose:,} rose and {fell:,} fell" if rose or fell
            else f"{estimates:,} estimates are as they were" if estimates != 1 else "1 estimate is as it was"
        )  # fmt: skip
    rest = [
        f"{counts[name]:,} {name}"
        for name in ("failed now", "vanished", "mended", "appeared", "not decided", "not answered", "failed on both")
        if name in counts
    ]
    parts += [", ".join(rest)] if rest else []
    return "; ".join(parts) or "neither fleet asks anything"


def _percent(ratio: float | None) -> str:
    share = (ratio or 1.0) - 1
    return f"+{format_percent(share)}" if share > 0 else format_percent(share)


def _doubts(pairs: _Pairs) -> Iterator[str]:
    """Why intervals may be too narrow: what most cells differ by tells, since most are the same."""
    if np.count_nonzero(pairs.sure) < _ENOUGH:
        return
    change, half = pairs.log[pairs.sure], (pairs.high - pairs.low)[pairs.sure] / 2
    score = change / np.maximum(half / t_quantile(PRIOR_RUNS), 1e-9)
    first, third = np.quantile(score, [0.25, 0.75])
    unrest = (third - first) / (2 * t_quantile(math.inf, 0.25))
    if unrest > _UNREST:
        yield (
            f"the middle half of the measured cells differs {unrest:.1f} times as much as their intervals say: either "
            "most of them changed, or more than intervals know differs from day to day"
        )


def _notes(pairs: _Pairs, found: records.FleetComparison) -> Iterator[str]:
    doubtful = [
        np.count_nonzero((side.texts("doubts")[:-1] != "") & (side.status[:-1] == _DONE))
        for side in (pairs.before, pairs.after)
    ]
    if any(doubtful):
        yield f"rows with a doubt of their own: {doubtful[0]:,} before, {doubtful[1]:,} after"
    for cause in found.causes:
        if cause.what == "nothing recorded":
            yield (
                f"{cause.cells:,} estimates are other ones though nothing that is recorded changed: another answer to "
                "the same question, by a trtprof that has the same version"
            )
    if pairs.cells and not pairs.asked.any():
        yield "the fleets have no cell in common: neither names nor contents of models are the same"
