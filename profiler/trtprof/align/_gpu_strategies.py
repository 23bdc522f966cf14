"""Strategies that lead kernels of a capture to layers, in their order: see `gpu_kernels`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from trtprof.align import _gpu_names as _names
from trtprof.align import _gpu_order as _order
from trtprof.align._gpu_columns import KERNEL, Bools, Codes, Ints, Work
from trtprof.align._gpu_iterations import Host, Iterations
from trtprof.align._gpu_launches import AMBIGUOUS, MISSING, Launches, Origins
from trtprof.align._gpu_ranges import NO_LAYER, LayerRanges, Located, Ranges
from trtprof.base.nested_ranges import NestedRanges, distinct
from trtprof.base.plan_words import MYELIN_KIND
from trtprof.base.records import MatchConfidence, MatchedLayer, PlanLayer

Strategy = Literal["launch", "graph", "tactic", "counterpart", "order", "helper", "none"]
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)


class How(NamedTuple):
    strategy: Strategy
    confidence: MatchConfidence
    reason: str


NONE = How("none", "none", "")
HOWS = (
    NONE,
    How("launch", "exact", "launched in the layer's NVTX range"),
    How("launch", "exact", "launched in an NVTX range that several layers share, with the tactic of this one"),
    How("launch", "inferred", "launched in an NVTX range that several layers share, and in its turn among them"),
    How("launch", "inferred", "launched in the layer's NVTX range, yet it starts before that launch"),
    How("graph", "exact", "captured into its CUDA graph in the layer's NVTX range"),
    How("graph", "exact", "captured in an NVTX range that several layers share, with the tactic of this one"),
    How("graph", "inferred", "captured in an NVTX range that several layers share, and in its turn among them"),
    How("tactic", "exact", "named like the tactic of this layer alone"),
    How("order", "inferred", "named like the tactic of several layers, and in its turn among them"),
    How("counterpart", "inferred", "an iteration with the same kernels in the same order has it in this layer"),
    How("order", "inferred", "between kernels of the layers before and behind, as many as layers without a kernel"),
    How("helper", "inferred", "between kernels of this layer, or a sum of what its split product left"),
)
_LAUNCH, _LAUNCH_TACTIC, _LAUNCH_ORDER, _EARLY, _GRAPH, _GRAPH_TACTIC, _GRAPH_ORDER, _TACTIC = range(1, 9)
_PLACED = {_order.SAME_TACTIC: 9, _order.COUNTERPART: 10, _order.BETWEEN: 11, _order.HELPER: 12}

# Why neither the launch nor the graph node led to a layer.
_CAUSES = (
    "launched outside of any NVTX range that is a layer",
    "the call that launched it is not in the capture",
    "several API calls share its correlation id",
    "launched in an NVTX range that several layers share",
    "the making of its CUDA graph node is not in the capture",
    "its CUDA graph node was made more than once",
    "its CUDA graph node was captured outside of any NVTX range that is a layer",
)
_OUTSIDE, _NO_LAUNCH, _MANY_LAUNCHES, _SHARED, _NO_NODE, _MANY_NODES, _NODE_OUTSIDE = range(7)
_LATER = {
    _order.UNNAMED: "its name is no tactic of the plan",
    _order.TACTIC_COUNT: "its name fits more layers, or fewer, than there are such kernels",
    _order.TOO_MANY: "its name is no tactic of the plan, and more layers than kernels are left between its neighbours",
    _order.TOO_FEW: "its name is no tactic of the plan, and fewer layers than kernels are left between its neighbours",
    _order.NO_ANCHOR: "its name is no tactic of the plan, and on its stream no kernel before or behind it has a layer",
    _order.UNORDERED: "its name is no tactic of one layer alone, and it is in no iteration",
}


class Attribution:
    """The work of a capture, and what the strategies found of each row.

    ``layer`` is the place in ``layers``, -1 for none; ``how`` that in `HOWS`; ``cause`` says why launch and graph node
    told nothing, and ``later`` why the order did not.
    """

    def __init__(
        self,
        work: Work,
        launches: Launches,
        host: Host,
        origins: Origins,
        ranges: Ranges,
        inferences: tuple[NestedRanges, Codes],
        iterations: Iterations,
        layers: Sequence[MatchedLayer] | None,
        notes: list[str],
    ) -> None:
        self.work, self.launches, self.host, self.origins = work, launches, host, origins
        self.iterations, self.notes = iterations, notes
        self.kernel = work.kind == KERNEL
        self.layer = np.full(len(work.row), NO_LAYER, dtype=np.int32)
        self.how = np.zeros(len(work.row), dtype=np.int8)
        self.cause = np.zeros(len(work.row), dtype=np.int8)
        self.later = np.zeros(len(work.row), dtype=np.int8)
        self.group = np.full(len(work.row), NO_LAYER, dtype=np.int32)
        kernels = [(work.names[code], work.short[code]) for code in distinct(work.name[self.kernel]).tolist()]
        self.from_ranges = layers is None
        if layers is None:
            self.layers, finder = _layers_of_ranges(ranges, iterations.marks)
            self.profile = 0
        else:
            self.layers = tuple(layers)
            used = distinct(ranges.name[(ranges.kind != _names.OTHER) & ranges.nests]).tolist()
            self.profile, why = _names.running_profile(self.layers, (ranges.names[code] for code in used), kernels)
            if why:
                notes.append(f"the plan has several optimisation profiles; {self.profile} is taken: {why}")
            names = _names.LayerNames(self.layers)

            def finder(name: str, domain: int) -> tuple[int, ...]:
                return names.find(name, domain, self.profile)

        self.tactics = _names.Tactics(self.layers)
        self._by_name: dict[int, tuple[int, ...]] = {}
        self.layer_ranges = LayerRanges(ranges, finder, inferences)
        if layers is not None and self.layer_ranges.unknown:
            unknown = self.layer_ranges.unknown
            self.notes.append(
                f"{len(unknown)} names of TensorRT's NVTX ranges are no layers of the plan, such as {unknown[0]!r}"
            )

    def run(self) -> None:
        """Try the strategies one after the other."""
        self._by_graph()
        self._by_launch()
        # Why what has no layer yet has none.
        launch, node = self.launches.row, self.origins.node
        self.cause[launch == MISSING] = _NO_LAUNCH
        self.cause[launch == AMBIGUOUS] = _MANY_LAUNCHES
        if len(self.origins.state):
            causes = np.array([_NODE_OUTSIDE, _MANY_NODES, _NO_NODE], dtype=np.int8)[self.origins.state]
            self.cause[node >= 0] = causes[node[node >= 0]]
        self.cause[self.group != NO_LAYER] = _SHARED
        for state, words in ((MISSING, "have no launch in the capture"), (AMBIGUOUS, "have several launches")):
            count = int((self.kernel & (launch == state)).sum())
            if count:
                self.notes.append(f"{count} kernels {words}: they are told by their names and their order, if at all")
        self._by_tactic()
        if early := int((self.how == _EARLY).sum()):
            self.notes.append(f"{early} kernels start before their launch: the clocks of host and GPU differ")
        self._by_place()
        if self.from_ranges:
            # Of layers made from ranges, keep those that ran something.
            used = distinct(self.layer[self.layer != NO_LAYER])
            place = np.full(len(self.layers) + 1, NO_LAYER, dtype=np.int32)
            place[used] = np.arange(len(used), dtype=np.int32)
            self.layers = tuple(self.layers[index] for index in used.tolist())
            self.layer = place[self.layer]

    def reason(self, cause: int, later: int) -> str:
        """In words, why a kernel has no layer."""
        words = [_CAUSES[cause]]
        if not self.from_ranges and (later != _order.UNNAMED or self.tactics):
            words.append(_LATER[later])
        return "; ".join(words)

    def _by_graph(self) -> None:
        """Layers by where the graph nodes were captured."""
        known = np.flatnonzero(self.origins.state == 0).astype(np.int32)
        rows = np.flatnonzero(self.origins.node >= 0).astype(np.int32)
        if not len(known) or not self.layer_ranges:
            return
        nodes = Located(*(np.full(len(self.origins.state), NO_LAYER, dtype=np.int32) for _ in range(3)))
        located = self.layer_ranges.locate(self.origins.tid, self.origins.start, known)
        for column, values in zip(nodes, located, strict=True):
            column[known] = values
        at = self.origins.node[rows]
        self._take(rows, Located(*(column[at] for column in nodes)), (_GRAPH, _GRAPH_TACTIC, _GRAPH_ORDER))

    def _by_launch(self) -> None:
        """Layers by where the calls were made."""
        if not self.layer_ranges:
            return
        rows = np.flatnonzero((self.layer == NO_LAYER) & (self.launches.row >= 0)).astype(np.int32)
        located = self.layer_ranges.locate(self.host.tids, self.host.starts, self.launches.row[rows])
        self._take(rows, located, (_LAUNCH, _LAUNCH_TACTIC, _LAUNCH_ORDER))
        early = self.launches.early & (self.layer != NO_LAYER) & (self.how < _GRAPH)
        self.how[early] = _EARLY

    def _take(self, rows: Codes, located: Located, hows: tuple[int, int, int]) -> None:
        """Write down the layers of the ranges that were found."""
        direct, named_how, turn_how = hows
        layer = located.layer
        how = np.full(len(rows), direct, dtype=np.int8)
        shared = np.flatnonzero(layer < NO_LAYER)
        if len(shared):
            chosen, named = self._shared(rows[shared], layer[shared], located.place[shared], located.turn[shared])
            self.group[rows[shared]] = layer[shared]
            layer[shared] = chosen
            how[shared] = np.where(named, named_how, turn_how)
        known = layer != NO_LAYER
        self.layer[rows[known]] = layer[known]
        self.how[rows[known]] = how[known]

    def _shared(self, rows: Codes, group: Codes, place: Codes, turn: Codes) -> tuple[Codes, Bools]:
        """Of layers that share a range's name the one whose tactic a kernel is, else in turn; and which of the two."""
        pairs = (-group.astype(np.int64) << 32) + self.work.name[rows]
        different, inverse = np.unique(pairs, return_inverse=True)
        votes = np.full(len(different), NO_LAYER, dtype=np.int32)
        for index, pair in enumerate(different.tolist()):
            number, name = divmod(pair, 1 << 32)
            hits = set(self.layer_ranges.groups[number - 2]) & set(self._named(name))
            votes[index] = hits.pop() if len(hits) == 1 else NO_LAYER
        vote = votes[inverse]
        # All kernels of a range belong to one layer: what the name of one tells holds for its helpers, too.
        _, at = np.unique(place, return_inverse=True)
        count = int(at.max()) + 1
        lowest = np.full(count, np.iinfo(np.int32).max, dtype=np.int32)
        highest = np.full(count, NO_LAYER, dtype=np.int32)
        told = vote != NO_LAYER
        np.minimum.at(lowest, at[told], vote[told])
        np.maximum.at(highest, at[told], vote[told])
        named = lowest[at] == highest[at]
        # Where the tactic of one contradicts its turn, no turn of that group is worth anything.
        wrong = np.unique(group[named & (turn != NO_LAYER) & (turn != lowest[at])])
        return np.where(named, lowest[at], np.where(np.isin(group, wrong), NO_LAYER, turn)), named

    def _named(self, name: int) -> tuple[int, ...]:
        """Layers whose tactic is called like this."""
        if name not in self._by_name:
            self._by_name[name] = self.tactics.find(self.work.names[name], self.work.short[name], self.profile)
        return self._by_name[name]

    def _by_tactic(self) -> None:
        open_ = ((self.layer == NO_LAYER) | (self.how == _EARLY)) & self.kernel
        if not self.tactics or not open_.any():
            return
        alone = np.full(max(len(self.work.names), 1), NO_LAYER, dtype=np.int32)
        for code in distinct(self.work.name[open_]).tolist():
            hits = self._named(code)
            if len(hits) == 1:
                alone[code] = hits[0]
        found = open_ & (alone[self.work.name] != NO_LAYER)
        self.layer[found] = alone[self.work.name[found]]
        self.how[found] = _TACTIC

    def _by_place(self) -> None:
        # The calls tell the order of launches over streams only where each kernel has one of its own.
        called = not self.host.graph.any() and bool((self.host.row[self.kernel] >= 0).all())

        def launched(rows: npt.NDArray[np.intp]) -> Ints:
            return self.host.starts[np.maximum(self.host.row[rows], 0)] if called else self.work.start[rows]

        # Copies within the device that no range says a layer did, nor that none did.
        inside = np.array(["DtoD" in name for name in self.work.names] or [False], dtype=np.bool_)
        copies: Bools = ~self.kernel & inside[self.work.name]
        placed = _order.place_kernels(
            self.work,
            self.iterations.of_work,
            self.layer,
            self.group,
            launched,
            (copies & (self.cause != _OUTSIDE) if self.layer_ranges else copies),
            self.layers,
            [each.role in ("compute", "layout") and each.layer.profile == self.profile for each in self.layers],
            self._candidates,
            ends="closed" if self.iterations.sure else "cyclic" if self.iterations.source else "open",
            in_order=not self.from_ranges,
        )
        found = placed.layer != NO_LAYER
        self.layer[found] = placed.layer[found]
        how = np.zeros(max(_PLACED) + 1, dtype=np.int8)
        how[list(_PLACED)] = list(_PLACED.values())
        self.how[found] = how[placed.how[found]]
        self.later = placed.why_not

    def _candidates(self, name: int, group: int) -> tuple[int, ...]:
        named = self._named(name) if self.tactics else ()
        if group == NO_LAYER:
            return named
        shared = self.layer_ranges.groups[-group - 2]
        return tuple(layer for layer in shared if layer in named) or shared


def _layers_of_ranges(
    ranges: Ranges, marks: frozenset[str]
) -> tuple[tuple[MatchedLayer, ...], Callable[[str, int], tuple[int, ...]]]:
    """A layer for each name of TensorRT's ranges, or where it made none for that of any range, first come first."""
    trt = ranges.nests & (ranges.kind != _names.OTHER)
    inner = np.array(
        [not _names.is_run(name) and not _names.is_whole_graph(name) for name in ranges.names] or [False],
        dtype=np.bool_,
    )
    own = bool((trt & inner[ranges.name]).any())
    allowed = inner if own else np.array([name not in marks for name in ranges.names] or [False], dtype=np.bool_)
    chosen = np.flatnonzero((trt if own else ranges.nests) & allowed[ranges.name])
    began = np.full(len(ranges.names) + 1, np.iinfo(np.int64).max, dtype=np.int64)
    np.minimum.at(began, ranges.name[chosen], ranges.start[chosen])
    codes = distinct(ranges.name[chosen])
    codes = codes[np.lexsort((codes, began[codes]))]
    place: dict[str, int] = {}
    for code in codes.tolist():
        place.setdefault(_names.without_counters(ranges.names[code]), len(place))
    others = {
        _names.without_counters(ranges.names[code])
        for code in distinct(ranges.name[ranges.kind != _names.MYELIN]).tolist()
    }
    kinds = {_names.TENSORRT, _names.MYELIN} if own else {_names.OTHER, _names.TENSORRT, _names.MYELIN}
    layers = tuple(
        MatchedLayer(
            layer=PlanLayer(name=name, kind="" if name in others else MYELIN_KIND),
            reason="known by its NVTX range alone",
        )
        for name in place
    )

    def find(name: str, domain: int) -> tuple[int, ...]:
        index = place.get(_names.without_counters(name)) if domain in kinds else None
        return () if index is None else (index,)

    return layers, find
