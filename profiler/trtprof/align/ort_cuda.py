"""Kernels of ONNX Runtime's CUDA provider led back to its nodes, by when they were launched.

A launch within a node is the node's. The profile and the collector have clocks of their own: the offset at which most
launches lie inside nodes is taken, and what a linear drift adds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from trtprof.align._gpu_columns import Bools, Ints, integers
from trtprof.align._gpu_launches import find_launches
from trtprof.align.gpu_kernels import TraceAlignment, align_trace
from trtprof.base.errors import CaptureError
from trtprof.base.records import Layer, MatchedLayer, PlanLayer, PlanRole, PlanTensor, Tensor
from trtprof.base.trace import RANGE_COLUMNS, GpuTrace
from trtprof.base.units import format_ns

if TYPE_CHECKING:
    import pandas as pd

DOMAIN = "ort"  # The domain of the ranges that stand for nodes

INFERENCE_RANGE = "ONNX Runtime: run"  # The name of the ranges that hold one inference each

MIN_INSIDE = 0.9
"""Below this share of launches inside nodes the clocks count as not brought together, and no kernel gets a node.

Nodes follow one another closely, so that many launches lie inside some node at any offset.
"""

_PAIRS = 2_000_000  # Pairs of a launch and a node to look at when nothing is known of the offset: 32 MB of bounds
_LEAST_CALLS = 32  # Launches to look at then, however many nodes there are
_CHUNKS = 16
_CALLS_A_CHUNK = 32
_WINDOWS_NS = (50_000, 20_000, 20_000)
"""How far from the offset so far each round looks: clocks of one machine drift by less than 0.5 us a millisecond."""
_NEARLY = 0.98  # Offsets with this share of the most launches inside nodes are as good as the best
_REGIONS = 64  # As many regions of such offsets are looked at
_THREAD_MASK = 0xFFFFFF  # Where nsys has the thread in a globalTid


class Clock(NamedTuple):
    """How the clock of the collector stands to that of ONNX Runtime's profile."""

    offset_ns: int  # To add to a time of the profile
    origin_ns: int  # The time of the profile at which that holds
    drift: float  # What the offset grows by from then on, in ns a ns
    slack_ns: int  # The offset may be this much less or more, and as many launches lie inside nodes
    inside: int  # Launches that lie inside nodes
    launches: int  # All launches that were looked at

    @property
    def share(self) -> float:
        """Of the launches, how many lie inside nodes."""
        return self.inside / self.launches if self.launches else 0.0

    def convert(self, times: Ints) -> Ints:
        """Times of the profile as the collector has them, in ns."""
        grown: Ints = np.rint((times - self.origin_ns) * self.drift).astype(np.int64)
        return times + self.offset_ns + grown


def fit_clock(
    node_start: Ints,
    node_end: Ints,
    call_start: Ints,
    call_end: Ints,
    guess_ns: int | None = None,
    within_ns: int = 1_000_000,
) -> Clock:
    """Find the offset at which most calls lie inside nodes, which do not hold one another; all times in ns.

    An offset ``o`` puts a call inside a node where ``call_end - node_end <= o <= call_start - node_start``: the best
    one is where most of these spans overlap. One further than ``within_ns`` from ``guess_ns`` must put more launches
    inside nodes.
    """
    if not len(node_start) or not len(call_start):
        what = "launches" if len(node_start) else "nodes"
        raise CaptureError(
            "kernels cannot be led to ONNX Runtime's nodes",
            why=f"the capture holds no {what} to find the offset of the clocks with",
            fix="profile at least one whole inference, with the collector on around it",
        )
    order = np.argsort(node_start, kind="stable")
    start, end = node_start[order], node_end[order]
    # One after the other: what is cut off from a microsecond must not count a call twice.
    end = np.maximum(np.minimum(end, np.append(start[1:], end[-1])), start)
    calls = np.argsort(call_start, kind="stable")
    fit = _Fit(start, end, call_start[calls], call_end[calls])
    offset, window = fit.coarse(guess_ns, within_ns)
    steady = fit.settled(offset, 0.0, window)
    drifting = fit.settled(*fit.drift(offset), window)
    best = drifting if drifting.inside > steady.inside else steady
    off = 0 if guess_ns is None else abs(guess_ns - best.offset_ns)
    if guess_ns is not None and not best.drift and off <= best.slack_ns:
        # As good as any, and better founded than the middle.
        return best._replace(offset_ns=guess_ns, slack_ns=min(best.slack_ns - off, within_ns))
    return best


class _Best(NamedTuple):
    """Offsets at which most calls lie inside nodes: the middle of them, half their span, and how many calls."""

    offset: int
    slack: int
    inside: int


def _places(low: Ints, high: Ints) -> list[_Best]:
    """Where nearly as many of the spans overlap as anywhere, the deepest first: of each such region the best part."""
    good = low <= high
    low, high = low[good], high[good]
    if not len(low):
        return []
    points = np.concatenate((low, high + 1))
    steps = np.concatenate((np.ones(len(low), dtype=np.int32), np.full(len(high), -1, dtype=np.int32)))
    order = np.argsort(points, kind="stable")
    points, depth = points[order], np.cumsum(steps[order])
    settled = np.append(points[1:] != points[:-1], True)
    points, depth = points[settled], depth[settled]
    near = np.flatnonzero(depth >= _NEARLY * depth.max())
    width = points[np.minimum(near + 1, len(points) - 1)] - points[near]
    region = np.cumsum(np.append(False, near[1:] != near[:-1] + 1))
    best = np.lexsort((near, -width, -depth[near], region))
    best = best[np.append(True, region[best][1:] != region[best][:-1])]
    best = best[np.lexsort((near[best], -width[best], -depth[near[best]]))][:_REGIONS]
    found = []
    for place in best.tolist():
        span = int(width[place]) - 1
        found.append(_Best(int(points[near[place]]) + span // 2, span // 2, int(depth[near[place]])))
    return found


class _Fit:
    """Nodes and launches of one thread, each one after the other."""

    def __init__(self, start: Ints, end: Ints, first: Ints, last: Ints) -> None:
        """Nodes from ``start`` to ``end`` on one clock, launches from ``first`` to ``last`` on the other."""
        self.start, self.end, self.first, self.last = start, end, first, last
        self.origin = int(start[0])
        self._all = np.arange(len(first))

    def coarse(self, guess_ns: int | None, within_ns: int) -> tuple[int, int]:
        """The best of all offsets, by calls spread over the whole capture; and how far off it may still be."""
        window = _WINDOWS_NS[-1]
        near = _Best(0, 0, 0)
        if guess_ns is not None:
            near = self._near(self._offsets(guess_ns, 0.0), within_ns, self._all)
            if near.inside >= _NEARLY * len(self.first):
                return guess_ns + near.offset, min(within_ns, window)
        count = min(max(_PAIRS // len(self.start), _LEAST_CALLS), len(self.first))
        some = np.unique(np.linspace(0, len(self.first) - 1, count).round().astype(np.int64))
        found = _places(
            np.subtract.outer(self.last[some], self.end).ravel(),
            np.subtract.outer(self.first[some], self.start).ravel(),
        )
        offset = self._evenest(found, 0).offset if found else int(self.first[0]) - self.origin
        # One inference further to either side costs the launches of one: that is what the guess is for.
        if guess_ns is not None and near.inside >= _NEARLY * self.settled(offset, 0.0, window).inside:
            return guess_ns + near.offset, min(within_ns, window)
        return offset, window

    def drift(self, offset: int) -> tuple[int, float]:
        """Offset at the origin and drift: a line by the median of slopes (Theil and Sen: 29 % may be far off)."""
        count = max(min(_CHUNKS, len(self.first) // _CALLS_A_CHUNK), 1)
        if count < 3:
            return offset, 0.0
        parts = np.array_split(self._all, count)
        at = np.array([float(np.mean(self.first[part] - offset - self.origin)) for part in parts])
        slope = 0.0
        for window in _WINDOWS_NS:
            here = self._offsets(offset, slope)
            moved = [self._near(here, window, part).offset for part in parts]
            values = np.array(moved, dtype=np.float64) + slope * at
            rises, runs = np.subtract.outer(values, values), np.subtract.outer(at, at)
            apart = runs > 0
            slope = float(np.median(rises[apart] / runs[apart])) if apart.any() else 0.0
            correction = round(float(np.median(values - slope * at)))
            offset, at = offset + correction, at - correction
        # The slope is over the time of the collector, the drift over that of the profile.
        return offset, slope / (1 - slope)

    def settled(self, offset: int, drift: float, window_ns: int) -> Clock:
        """The best offset with this drift, by all calls."""
        best = self._near(self._offsets(offset, drift), window_ns, self._all)
        return Clock(offset + best.offset, self.origin, drift, best.slack, best.inside, len(self.first))

    def _offsets(self, offset: int, slope: float) -> Ints:
        grown: Ints = np.rint((self.first - offset - self.origin) * slope).astype(np.int64)
        return offset + grown

    def _near(self, offsets: Ints, window_ns: int, chosen: npt.NDArray[np.int64]) -> _Best:
        """The best correction of the offsets of some calls, within a window."""
        first, last = (self.first - offsets)[chosen], (self.last - offsets)[chosen]
        since = np.searchsorted(self.end, first - window_ns)
        until = np.searchsorted(self.start, last + window_ns, "right")
        counts = np.maximum(until - since, 0)
        call = np.repeat(np.arange(len(first)), counts)
        node = np.arange(len(call)) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(since, counts)
        low = np.maximum(last[call] - self.end[node], -window_ns)
        high = np.minimum(first[call] - self.start[node], window_ns)
        found = _places(low, high)
        return self._evenest(found, offsets) if found else _Best(0, 0, 0)

    def _evenest(self, places: list[_Best], offsets: Ints | int) -> _Best:
        """The place at which the time from the begin of a node to its first launch varies least."""
        waits = [self._waits(offsets + place.offset) for place in places]
        most = max(len(wait) for wait in waits)
        _, best = min((_spread(wait), at) for at, wait in enumerate(waits) if 2 * len(wait) >= most)
        return places[best]

    def _waits(self, offsets: Ints | int) -> Ints:
        """How long after the host entered a node its first launch came, in ns: a value for each node with launches."""
        first, last = self.first - offsets, self.last - offsets
        node = np.searchsorted(self.start, first, "right") - 1
        inside = (node >= 0) & (last <= self.end[node])
        leads = inside & np.append(True, node[1:] != node[:-1])
        waits: Ints = first[leads] - self.start[node[leads]]
        return waits


def _spread(times: Ints) -> float:
    """Range of the middle half of these times, ns."""
    if not len(times):
        return float("inf")
    low, high = np.percentile(times, (25, 75))
    return float(high - low)


class OrtAlignment(NamedTuple):
    """The work of a GPU by nodes of ONNX Runtime's optimised graph."""

    alignment: TraceAlignment  # See `align.gpu_kernels.TraceAlignment`; its layers are those given, in their order
    clock: Clock  # How the clocks were brought together


def align_ort(
    trace: GpuTrace,
    layers: Sequence[Layer],
    events: pd.DataFrame,
    *,
    guess_ns: int | None = None,
    within_ns: int = 1_000_000,
    device: int | None = None,
    matched: Sequence[MatchedLayer] | None = None,
) -> OrtAlignment:
    """Lead every kernel of a capture back to at most one layer of an engine of ONNX Runtime.

    ``guess_ns`` is when the profile began on the collector's clock, as far as known; ``matched`` are the layers as a
    plan's.
    """
    # Rows of the calls that launched kernels one by one: those of CUDA graphs were captured elsewhere.
    kernel = (trace.work["kind"] == "kernel").to_numpy() & (trace.work["graph_node"] == 0).to_numpy()
    row = find_launches(trace.work, trace.launches).row[kernel]
    calls = np.unique(row[row >= 0]).astype(np.int64)
    pid, tid, mine = _thread(trace, calls, events)
    held_apart = {layer.name for layer in layers if layer.role == "control"} | {""}
    leaves = events[~events["layer"].astype(object).isin(held_apart)]
    start, end = integers(trace.launches["start_ns"])[calls[mine]], integers(trace.launches["end_ns"])[calls[mine]]
    clock = fit_clock(integers(leaves["start_ns"]), integers(leaves["end_ns"]), start, end, guess_ns, within_ns)
    notes = [_said(clock, trace.collector)]
    if mine.sum() < len(calls):
        notes.append(f"{len(calls) - int(mine.sum())} launches are of other threads than ONNX Runtime's nodes")
    if clock.share < MIN_INSIDE:
        notes.append("the clocks could not be brought together: no kernel is led to a node")
        ranges = trace.ranges
    else:
        ranges = _with(trace.ranges, node_ranges(events, clock, pid, tid))
    found = align_trace(
        trace._replace(ranges=ranges),
        [matched_layer(layer) for layer in layers] if matched is None else matched,
        device=device,
        iteration_range=INFERENCE_RANGE if clock.share >= MIN_INSIDE else None,
    )
    return OrtAlignment(found._replace(notes=(*notes, *found.notes)), clock)


def node_ranges(events: pd.DataFrame, clock: Clock, pid: int, tid: int) -> pd.DataFrame:
    """Node events as ranges (`gpu_trace.RANGE_COLUMNS`, domain `DOMAIN`) of a thread on the collector's clock."""
    import pandas as pd

    start, end = clock.convert(integers(events["start_ns"])), clock.convert(integers(events["end_ns"]))
    order = np.lexsort((-end, start))
    names = events["layer"].astype(object).where(events["layer"].astype(object) != "", INFERENCE_RANGE)
    count = len(events)
    return pd.DataFrame(
        {
            "start_ns": start[order],
            "end_ns": end[order],
            "domain": pd.Categorical([DOMAIN] * count),
            "name": pd.Categorical(names.to_numpy()[order]),
            "pid": np.full(count, pid, dtype=np.int32),
            "tid": np.full(count, tid, dtype=np.int64),
            "style": pd.Categorical(["push_pop"] * count),
        },
        columns=list(RANGE_COLUMNS),
    )


def _thread(trace: GpuTrace, calls: npt.NDArray[np.int64], events: pd.DataFrame) -> tuple[int, int, Bools]:
    """Process and thread that ran the nodes, else those that launched most, and which calls are theirs."""
    if not len(calls):
        return 0, 0, np.zeros(0, dtype=np.bool_)
    tids, pids = integers(trace.launches["tid"])[calls], trace.launches["pid"].to_numpy()[calls]
    threads, counts = np.unique(tids, return_counts=True)
    known = np.unique(integers(events["tid"]))
    same = np.isin(threads, known)
    same = same if same.any() else np.isin(threads & _THREAD_MASK, known)
    counts = np.where(same, counts, 0) if same.any() else counts
    tid = threads[np.argmax(counts)]
    mine = tids == tid
    return int(pids[mine][0]), int(tid), mine


def _with(ranges: pd.DataFrame, nodes: pd.DataFrame) -> pd.DataFrame:
    import pandas as pd

    if not len(ranges):
        return nodes
    both = pd.concat(
        [frame.astype({"domain": object, "name": object, "style": object}) for frame in (ranges, nodes)],
        ignore_index=True,
    )
    for column in ("domain", "name", "style"):
        both[column] = both[column].astype("category")
    return both.sort_values("start_ns", kind="stable", ignore_index=True)


def matched_layer(layer: Layer, role: PlanRole | None = None) -> MatchedLayer:
    """A layer of ONNX Runtime in the form of a plan; a role of None is what its own role says."""
    if role is None:
        role = "layout" if layer.role == "layout" else "compute"
    present = [tensor for tensor in layer.op.inputs if tensor is not None]
    return MatchedLayer(
        layer=PlanLayer(
            name=layer.name,
            kind=layer.op.op_type,
            inputs=tuple(_in_plan(tensor) for tensor in present if not tensor.constant),
            outputs=tuple(_in_plan(tensor) for tensor in layer.op.outputs if tensor is not None),
            constants=tuple(_in_plan(tensor) for tensor in present if tensor.constant),
        ),
        role=role,
        nodes=layer.nodes,
        match=layer.match if role == "compute" else "exact",
        reason=layer.reason,
    )


def _in_plan(tensor: Tensor) -> PlanTensor:
    dims = None if tensor.shape is None else tuple(dim if isinstance(dim, int) else -1 for dim in tensor.shape)
    return PlanTensor(name=tensor.name, dims=dims, dtype="" if tensor.dtype == "unknown" else tensor.dtype)


def _said(clock: Clock, collector: str) -> str:
    drift = f", drifting by {clock.drift * 1e6:.1f} us a second" if clock.drift else ""
    return (
        f"{clock.inside} of {clock.launches} launches lie inside ONNX Runtime's nodes; the clocks of its profile and "
        f"of {collector} are brought together to within {format_ns(clock.slack_ns)}{drift}"
    )
