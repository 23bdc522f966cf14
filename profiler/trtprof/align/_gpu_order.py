"""Kernels told by their place: what ran before and after them; each kind of inference is looked at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from trtprof.align._gpu_activity import rows_by
from trtprof.align._gpu_columns import KERNEL, Bools, Codes, Ints, Small, Work, cut, mixed, runs
from trtprof.align._gpu_ranges import NO_LAYER
from trtprof.base.records import MatchedLayer

# How a kernel was told by its place.
SAME_TACTIC, COUNTERPART, BETWEEN, HELPER = range(1, 5)
# Why it was not.
UNNAMED, TACTIC_COUNT, TOO_MANY, TOO_FEW, NO_ANCHOR, UNORDERED = range(6)

_MOST_ROWS = 50_000  # An iteration of more kernels than this is none: nothing was found that comes again
_SPLIT_K = "splitKreduce"  # A reduction that adds up what the product right before it left: it belongs to that layer


Ends = Literal["closed", "cyclic", "open"]
Launched = Callable[[npt.NDArray[np.intp]], Ints]


class Placed(NamedTuple):
    """What the order of kernels tells, one entry for each row of work."""

    layer: Codes  # int32; -1 where it tells nothing
    how: Small  # int8; 0 where it tells nothing
    why_not: Small  # int8; then the reason


class _Row(NamedTuple):
    """A kernel of a typical iteration. ``place`` counts along the stream, ``rank`` along the launches."""

    place: int
    rank: int
    queue: int
    name: int
    kernel: bool
    candidates: tuple[int, ...]

    def may_be(self, layer: int) -> bool:
        """Whether its name does not speak against a layer."""
        return not self.candidates or layer in self.candidates


def place_kernels(
    work: Work,
    iteration: Codes,
    layer: Codes,
    group: Codes,
    launched: Launched,
    copies: Bools,
    layers: Sequence[MatchedLayer],
    working: Sequence[bool],
    candidates: Callable[[int, int], tuple[int, ...]],
    *,
    ends: Ends,
    in_order: bool,
) -> Placed:
    """Find layers for the work that has none yet; arrays are by row of work, -1 for none.

    Args:
        group: Where the range of a kernel has a name that several layers share, their group.
        launched: Of rows, what the kernels of one iteration are ordered by over streams.
        copies: Copies and memsets that may be what a layer does.
        candidates: Layers that a kernel may belong to, by its name and group; empty where neither tells.
        ends: What is before and behind an iteration. ``closed``: nothing of it, so its ends are anchors, too.
            ``cyclic``: the same again, from where it was cut. ``open``: nobody knows.
        in_order: Whether the layers are all that ran, in execution order.
    """
    found = Placed(
        np.full(len(layer), NO_LAYER, dtype=np.int32),
        np.zeros(len(layer), dtype=np.int8),
        np.zeros(len(layer), dtype=np.int8),
    )
    open_ = (layer == NO_LAYER) & (iteration >= 0)
    open_ &= (work.kind == KERNEL) | copies
    found.why_not[iteration < 0] = UNORDERED
    if not open_.any() or not layers:
        return found
    movable = (iteration >= 0) & ((layer != NO_LAYER) | open_)
    rank = np.empty(len(layer), dtype=np.int32)
    order = rows_by(iteration)
    order = order[movable[order]]
    seen: dict[tuple[int, int], _Told] = {}
    known = _Known(work, rank, layer)
    kinds: list[tuple[npt.NDArray[np.intp], list[tuple[int, int]]]] = []
    for part in cut(runs(iteration[order]), len(order)):
        rows, lengths, marks = _shapes(work, order[part], iteration, layer, group, launched, rank)
        kinds.append((rows, list(zip(marks.tolist(), lengths.tolist(), strict=True))))
        known.learn(rows, kinds[-1][1])
    for rows, kind in kinds:
        at = 0
        by_mark: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        for mark in kind:
            by_mark[mark].append(at)
            at += mark[1]
        for mark, begins in by_mark.items():
            example = rows[begins[0] : begins[0] + mark[1]]
            if mark[1] > _MOST_ROWS or not open_[example].any():
                continue
            if mark not in seen:
                told = _Told(
                    work,
                    example,
                    layer,
                    rank,
                    layers,
                    working,
                    lambda row: candidates(int(work.name[row]), int(group[row])),
                )
                told.run(known.layers(example), ends, in_order=in_order)
                seen[mark] = told
            told = seen[mark]
            targets = rows[np.array(begins)[:, None] + np.arange(mark[1])]
            found.layer[targets] = np.array(told.layer, dtype=np.int32)
            found.how[targets] = np.array(told.how, dtype=np.int8)
            found.why_not[targets] = np.array(told.why_not, dtype=np.int8)
    found.layer[~open_] = NO_LAYER
    found.how[~open_] = 0
    return found


def _shapes(
    work: Work,
    rows: npt.NDArray[np.intp],
    iteration: Codes,
    layer: Codes,
    group: Codes,
    launched: Launched,
    rank: Codes,
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], npt.NDArray[np.uint64]]:
    """Rows by iteration, stream and start; rows of each iteration; and a number that is equal for alike iterations."""
    rows = rows[np.lexsort((work.start[rows], work.queue[rows], iteration[rows]))]
    number = iteration[rows]
    first = runs(number)
    lengths = np.diff(np.append(first, len(rows)))
    begin = np.repeat(first, lengths)
    rank[rows[np.lexsort((work.start[rows], launched(rows), number))]] = np.arange(len(rows)) - begin
    place = np.arange(len(rows)) - begin
    shape = np.zeros(len(rows), dtype=np.uint64)
    for salt, column in enumerate((work.name, work.queue, layer, group, rank)):
        shape += mixed(column[rows], salt) * (mixed(place, salt) | np.uint64(1))
    return rows, lengths, np.add.reduceat(shape, first)


class _Known:
    """Iterations whose layers are all known, by the names of their kernels in order."""

    def __init__(self, work: Work, rank: Codes, layer: Codes) -> None:
        self._work, self._rank, self._layer = work, rank, layer
        self._by_names: dict[tuple[str, ...], tuple[int, ...]] = {}
        self._learned: set[tuple[int, int]] = set()

    def learn(self, rows: npt.NDArray[np.intp], marks: list[tuple[int, int]]) -> None:
        at = 0
        for mark in marks:
            if mark not in self._learned:
                self._learned.add(mark)
                kernels = self._ordered(rows[at : at + mark[1]])
                if (self._layer[kernels] != NO_LAYER).all():
                    self._by_names.setdefault(self._names(kernels), tuple(self._layer[kernels].tolist()))
            at += mark[1]

    def layers(self, rows: npt.NDArray[np.intp]) -> dict[int, int]:
        """The layers that rows of an iteration have in another one of the same kernels: row -> layer."""
        kernels = self._ordered(rows)
        known = self._by_names.get(self._names(kernels))
        return dict(zip(kernels.tolist(), known, strict=True)) if known else {}

    def _ordered(self, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        kernels = rows[self._work.kind[rows] == KERNEL]
        ordered: npt.NDArray[np.intp] = kernels[np.argsort(self._rank[kernels], kind="stable")]
        return ordered

    def _names(self, kernels: npt.NDArray[np.intp]) -> tuple[str, ...]:
        return tuple(self._work.names[code] for code in self._work.name[kernels].tolist())


class _Told:
    """One iteration, and what its order tells. Rows are in the order of their streams."""

    def __init__(
        self,
        work: Work,
        rows: npt.NDArray[np.intp],
        layer: Codes,
        rank: Codes,
        layers: Sequence[MatchedLayer],
        working: Sequence[bool],
        candidates: Callable[[int], tuple[int, ...]],
    ) -> None:
        self.layer: list[int] = layer[rows].tolist()
        self.how = [0] * len(rows)
        self.why_not = [UNNAMED] * len(rows)
        self._layers, self._working = layers, working
        self._numbers = rows.tolist()
        self._words = [work.names[code] for code in work.name[rows].tolist()]
        self._rows = [
            _Row(place, int(rank[row]), int(work.queue[row]), int(work.name[row]), bool(work.kind[row] == KERNEL),
                 candidates(row) if self.layer[place] == NO_LAYER else ())
            for place, row in enumerate(self._numbers)
        ]  # fmt: skip
        self._taken = {found for found in self.layer if found != NO_LAYER}

    def run(self, counterparts: Mapping[int, int], ends: Ends, *, in_order: bool) -> None:
        for row in self._open():
            if (twin := counterparts.get(self._numbers[row.place])) is not None:
                self._tell(row, twin, COUNTERPART)
        self._same_tactic()
        changed = in_order
        while changed:
            changed = self._around(ends) or self._between(ends)

    def _open(self) -> list[_Row]:
        return [row for row in self._rows if self.layer[row.place] == NO_LAYER]

    def _tell(self, row: _Row, layer: int, how: int) -> None:
        self.layer[row.place], self.how[row.place] = layer, how
        self._taken.add(layer)

    def _same_tactic(self) -> None:
        """Kernels of one name that is the tactic of several layers: as many as there are layers left."""
        groups: defaultdict[tuple[int, tuple[int, ...]], list[_Row]] = defaultdict(list)
        for row in self._open():
            if row.candidates:
                groups[row.name, row.candidates].append(row)
        taken = defaultdict(set)
        for row in self._rows:
            if self.layer[row.place] != NO_LAYER:
                taken[row.name].add(self.layer[row.place])
        for (name, candidates), rows in groups.items():
            left = [layer for layer in candidates if layer not in taken[name]]
            for row in rows:
                self.why_not[row.place] = TACTIC_COUNT
            if len(left) == len(rows):
                for row, layer in zip(sorted(rows, key=lambda row: row.rank), left, strict=True):
                    self._tell(row, layer, SAME_TACTIC)

    def _between(self, ends: Ends) -> bool:
        """Runs of open kernels between two known ones of their stream; True where something was found."""
        changed = False
        for run in self._runs():
            low, high = self._anchor(run[0].place - 1, run[0].queue), self._anchor(run[-1].place + 1, run[0].queue)
            if run[0].kernel and low is not None and _SPLIT_K in self._words[run[0].place]:
                self._tell(run[0], low, HELPER)
                changed = True
                continue
            if low is not None and low == high and all(row.may_be(low) for row in run):
                for row in run:
                    self._tell(row, low, HELPER)
                changed = True
                continue
            closed = ends == "closed" and self._on_one_stream()
            low_at = low if low is not None else -1 if closed and high is not None else None
            high_at = high if high is not None else len(self._layers) if closed and low is not None else None
            changed |= self._fill(run, low_at, high_at, (low, high))
        return changed

    def _on_one_stream(self) -> bool:
        return self._rows[0].queue == self._rows[-1].queue

    def _around(self, ends: Ends) -> bool:
        """Open kernels behind the last known one and before the first, which follow one another all the same."""
        known = [row.place for row in self._rows if self.layer[row.place] != NO_LAYER]
        if ends != "cyclic" or not known or not self._on_one_stream():
            return False
        run = [*self._rows[known[-1] + 1 :], *self._rows[: known[0]]]
        low, high = self.layer[known[-1]], self.layer[known[0]]
        # Where the iteration was cut in the middle of the engine, its last layer comes before its first.
        around = range(low + 1, high) if low < high else (*range(low + 1, len(self._layers)), *range(high))
        free = [at for at in around if self._is_free(at, None)]
        if not run or len(free) != len(run) or not all(map(_Row.may_be, run, free)):
            return False
        for row, layer in zip(run, free, strict=True):
            self._tell(row, layer, BETWEEN)
        return True

    def _fill(self, run: list[_Row], low: int | None, high: int | None, anchors: tuple[int | None, int | None]) -> bool:
        if low is None or high is None:
            self._explain(run, NO_ANCHOR)
            return False
        streams = {self._layers[at].layer.stream for at in anchors if at is not None}
        stream = streams.pop() if len(streams) == 1 else None
        free = [at for at in range(low + 1, high) if self._is_free(at, stream)]
        if len(free) == len(run) and all(row.may_be(layer) for row, layer in zip(run, free, strict=True)):
            for row, layer in zip(run, free, strict=True):
                self._tell(row, layer, BETWEEN)
            return True
        if any(row.candidates for row in run):
            return self._narrow(run, low, high)
        self._explain(run, TOO_MANY if len(free) > len(run) else TOO_FEW)
        return False

    def _narrow(self, run: list[_Row], low: int, high: int) -> bool:
        """Of the layers that the name of a kernel fits, only one may lie between the two known ones."""
        changed = False
        for row in run:
            fitting = [at for at in row.candidates if low <= at <= high]
            if len(fitting) == 1:
                self._tell(row, fitting[0], SAME_TACTIC)
                changed = True
        return changed

    def _is_free(self, at: int, stream: int | None) -> bool:
        own = self._layers[at].layer.stream
        return self._working[at] and at not in self._taken and (stream is None or own in (None, stream))

    def _explain(self, run: list[_Row], why: int) -> None:
        for row in run:
            if not row.candidates:
                self.why_not[row.place] = why

    def _runs(self) -> list[list[_Row]]:
        found: list[list[_Row]] = []
        behind = False
        for row in self._rows:
            if self.layer[row.place] != NO_LAYER:
                behind = False
                continue
            if behind and found[-1][-1].queue == row.queue:
                found[-1].append(row)
            else:
                found.append([row])
            behind = True
        return found

    def _anchor(self, place: int, queue: int) -> int | None:
        if 0 <= place < len(self._rows) and self._rows[place].queue == queue:
            return self.layer[place]
        return None
