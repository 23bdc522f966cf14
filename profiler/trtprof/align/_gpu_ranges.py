"""NVTX ranges as columns, and which of them stand for a layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from trtprof.align._gpu_columns import PIECE, Bools, Codes, Ints, Small, coded, grouped, integers, pieces
from trtprof.align._gpu_names import MYELIN, OTHER, TENSORRT, domain_kind, is_run, is_whole_graph, short_name
from trtprof.base.nested_ranges import NestedRanges, distinct, places_in

if TYPE_CHECKING:
    import pandas as pd

NO_LAYER = -1
_FIRST_SHARED = -2


class Ranges(NamedTuple):
    """`GpuTrace.ranges` as arrays."""

    start: Ints  # int64, ns
    end: Ints  # int64, ns, not before ``start``
    tid: Ints  # The thread
    pid: Codes  # The process
    kind: Small  # int8; `domain_kind` of the domain
    nests: Bools  # bool; it is on the stack of its thread: style ``push_pop``
    domain: Codes  # Places in ``domains``
    domains: Sequence[str]
    name: Codes  # Places in ``names``
    names: Sequence[str]
    runs: Bools  # bool by name; it holds one inference of TensorRT

    def is_run(self) -> Bools:
        """Of each range, whether it is TensorRT's own around one inference."""
        held: Bools = self.nests & (self.kind == TENSORRT) & self.runs[self.name]
        return held


def read_ranges(frame: pd.DataFrame) -> Ranges:
    """The columns of `GpuTrace.ranges`."""
    domain, domains = coded(frame["domain"])
    name, names = coded(frame["name"])
    style, styles = coded(frame["style"])
    kinds = np.array([domain_kind(word) for word in domains] or [OTHER], dtype=np.int8)
    start, end = integers(frame["start_ns"]), integers(frame["end_ns"])
    return Ranges(
        start=start,
        end=np.maximum(end, start) if (end < start).any() else end,
        tid=integers(frame["tid"]),
        pid=frame["pid"].to_numpy(),
        kind=kinds[domain],
        nests=np.array([word == "push_pop" for word in styles] or [True], dtype=np.bool_)[style],
        domain=domain,
        domains=domains,
        name=name,
        names=names,
        runs=np.array([is_run(word) for word in names] or [False], dtype=np.bool_),
    )


def nest(ranges: Ranges, chosen: Codes) -> tuple[NestedRanges, Codes]:
    """Some of the ranges ready to be looked up, and these rows in the order that the look-up names them by.

    Of ranges with the same thread, start and end the outer one is that of the domain, then the name, that sorts first.
    """
    nested = NestedRanges(ranges.tid[chosen], ranges.start[chosen], ranges.end[chosen])
    inner = np.flatnonzero(nested.parents >= 0)
    outer, inner_rows = chosen[nested.parents[inner]], chosen[inner]
    if ((ranges.start[outer] == ranges.start[inner_rows]) & (ranges.end[outer] == ranges.end[inner_rows])).any():
        chosen = chosen[np.lexsort((ranges.name[chosen], ranges.domain[chosen]))]
        nested = NestedRanges(ranges.tid[chosen], ranges.start[chosen], ranges.end[chosen])
    return nested, chosen


class Located(NamedTuple):
    """Moments on the host, and the innermost range of a layer around each."""

    layer: Codes  # int32; the layer, `NO_LAYER`, or below that the group of layers that share the name
    turn: Codes  # int32; of a group, the layer that the order of its ranges within one inference points to
    place: Codes  # int32; the row of the range, -1 for none


class LayerRanges:
    """The ranges that stand for layers; the first of ``groups`` that share a name is written -2, the next -3."""

    def __init__(
        self, ranges: Ranges, find: Callable[[str, int], tuple[int, ...]], inferences: tuple[NestedRanges, Codes]
    ) -> None:
        """Look the names of all ranges up."""
        self.groups: list[tuple[int, ...]] = []
        self._ranges, self._inferences = ranges, inferences
        numbers: dict[tuple[int, ...], int] = {}
        unknown: set[str] = set()
        width = max(len(ranges.names), 1)
        table = np.full((3, width), NO_LAYER, dtype=np.int32)
        pair = ranges.kind * np.int32(width)
        pair += ranges.name
        used = np.zeros(3 * width, dtype=np.bool_)
        used[pair if ranges.nests.all() else pair[ranges.nests]] = True
        for kind in (TENSORRT, MYELIN, OTHER):
            for code in np.flatnonzero(used[kind * width : (kind + 1) * width]).tolist():
                name = ranges.names[code]
                hits = find(name, kind)
                if len(hits) == 1:
                    table[kind, code] = hits[0]
                elif hits:
                    if hits not in numbers:
                        numbers[hits] = _FIRST_SHARED - len(self.groups)
                        self.groups.append(hits)
                    table[kind, code] = numbers[hits]
                elif kind != OTHER and not is_run(name) and not is_whole_graph(name):
                    unknown.add(name)
        self.unknown = tuple(sorted(unknown))
        self._layer = table.ravel()[pair]
        self._layer[~ranges.nests] = NO_LAYER
        held = self._layer != NO_LAYER
        if self.groups:
            held |= ranges.is_run()
        self._rows = np.flatnonzero(held).astype(np.int32)
        start = ranges.start[self._rows]
        if (start[1:] < start[:-1]).any():
            self._rows = self._rows[np.argsort(start, kind="stable")]
            start = ranges.start[self._rows]
        reach = np.maximum.accumulate(ranges.end[self._rows])
        # Cut where no range is open, so that each part of the capture can be looked at by itself.
        cuts = np.flatnonzero(start[1:] > reach[:-1]) + 1
        cuts = np.unique(cuts[np.searchsorted(cuts, np.arange(PIECE, cuts[-1], PIECE))]) if len(cuts) else cuts
        self._cuts = np.concatenate(([0], cuts, [len(start)]))
        self._begins = start[cuts]

    def __bool__(self) -> bool:
        return len(self._rows) > 0

    def locate(self, tids: Ints, starts: Ints, chosen: Codes) -> Located:
        """The innermost of these ranges around each moment (thread, ns)."""
        found = Located(*(np.full(len(chosen), NO_LAYER, dtype=np.int32) for _ in range(3)))
        part = np.empty(len(chosen), dtype=np.int32)
        for piece in pieces(len(chosen)):
            part[piece] = np.searchsorted(self._begins, starts[chosen[piece]], "right")
        for number, points in grouped(part):
            rows = self._rows[self._cuts[number] : self._cuts[number + 1]]
            rows = rows[self._layer[rows] != NO_LAYER]
            nested, rows = nest(self._ranges, rows)
            layer = self._layer[rows]
            self._inherit(nested, rows, layer)
            at = nested.innermost(tids[chosen[points]], starts[chosen[points]])
            held, at = points[at >= 0], at[at >= 0]
            found.layer[held] = layer[at]
            found.place[held] = rows[at]
            shared = np.flatnonzero(layer < NO_LAYER)
            if len(shared):
                turn = np.full(len(rows), NO_LAYER, dtype=np.int32)
                self._in_turn(rows[shared], layer[shared], shared, turn)
                found.turn[held] = turn[at]
        return found

    def _inherit(self, nested: NestedRanges, rows: Codes, layer: Codes) -> None:
        """A range within that of a layer which may have its name is of the same layer: Myelin's in TensorRT's."""
        inner = np.flatnonzero(nested.parents >= 0)
        if not len(inner):
            return
        names = self._ranges.names
        outer = nested.parents[inner]
        count = np.int64(max(len(names), 1))
        codes = self._ranges.name[rows]
        both = codes[outer] * count + codes[inner]
        pairs = distinct(both)
        words = [(names[pair // count], names[pair % count]) for pair in pairs.tolist()]
        same = np.array([short_name(above) == below for above, below in words], dtype=np.bool_)[places_in(pairs, both)]
        held = same & (layer[outer] > NO_LAYER)
        layer[inner[held]] = layer[outer[held]]

    def _in_turn(self, rows: Codes, layer: Codes, shared: npt.NDArray[np.intp], turn: Codes) -> None:
        """Tell ranges of one name apart by their order within an inference, where there is one for each layer."""
        runs_nested, _ = self._inferences
        tid, start, end = self._ranges.tid[rows], self._ranges.start[rows], self._ranges.end[rows]
        within = outermost(runs_nested, runs_nested.innermost(tid, start, end))
        group = -layer.astype(np.int64)
        order = np.lexsort((-end, start, tid, within, group))
        keys, threads, outside = (group[order] << 32) + within[order], tid[order], within[order] < 0
        # Outside of any inference each thread counts for itself, and may show several rounds.
        other = (keys[1:] != keys[:-1]) | (outside[1:] & (threads[1:] != threads[:-1]))
        first = np.flatnonzero(np.concatenate(([True], other)))
        lengths = np.diff(np.append(first, len(order)))
        rank = np.arange(len(order)) - np.repeat(first, lengths)
        count = np.repeat(lengths, lengths)
        for number, layers in enumerate(self.groups):
            mine = group[order] == number - _FIRST_SHARED
            fits = mine & np.where(outside, count % len(layers) == 0, count == len(layers))
            turn[shared[order[fits]]] = np.array(layers, dtype=np.int32)[rank[fits] % len(layers)]


def outermost(nested: NestedRanges, places: Codes) -> Codes:
    """The outermost range around each range; -1 stays -1."""
    found = places.copy()
    climbing = np.flatnonzero(found >= 0)
    while len(climbing):
        above = nested.parents[found[climbing]]
        climbing, above = climbing[above >= 0], above[above >= 0]
        found[climbing] = above
    return found
