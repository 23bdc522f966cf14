"""The timeline of a run as trace viewers want it: tracks in which nothing overlaps, runs of events of one layer.

Where there is no timeline, the layers in their order of execution, as far as that is known.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

from trtprof.base.records import LayerResult, Run, Timeline


class Span(NamedTuple):
    """Events of a track that follow one another and are of one layer; of no layer, one event.

    ``layer`` is a place in `Timeline.layers` or -1, ``events`` are places in its columns.
    """

    layer: int
    start_ns: int
    end_ns: int
    events: list[int]


class Track(NamedTuple):
    """A lane, or the part of one that runs beside the rest of it."""

    name: str
    kind: str
    spans: list[Span]


def tracks_of(timeline: Timeline) -> list[Track]:
    """The lanes of a timeline, each as one track, or as more where events of a lane overlap."""
    events: list[list[int]] = [[] for _ in timeline.lanes]
    for at, place in enumerate(timeline.lane):
        events[place].append(at)
    tracks: list[Track] = []
    for lane, places in zip(timeline.lanes, events, strict=True):
        name = lane.name + (f", inside (depth {lane.depth})" if lane.depth else "")
        for number, part in enumerate(_beside(timeline, places)):
            beside = f", beside ({number + 1})" if number else ""
            tracks.append(Track(name + beside, lane.kind, _spans(timeline, part)))
    return tracks


def _beside(timeline: Timeline, places: list[int]) -> list[list[int]]:
    """The events in as few lists as it takes for none to begin before the one ahead of it has ended."""
    parts: list[list[int]] = []
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    for at in sorted(places, key=lambda at: (timeline.start_ns[at], at)):
        start = timeline.start_ns[at]
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            part = heapq.heappop(free)
        else:
            part = len(parts)
            parts.append([])
        parts[part].append(at)
        heapq.heappush(busy, (start + timeline.dur_ns[at], part))
    return parts


def _spans(timeline: Timeline, places: list[int]) -> list[Span]:
    spans: list[Span] = []
    for at in places:
        layer, start = timeline.layer[at], timeline.start_ns[at]
        end = start + timeline.dur_ns[at]
        if spans and layer >= 0 and spans[-1].layer == layer:
            last = spans[-1]
            spans[-1] = Span(layer, last.start_ns, max(last.end_ns, end), [*last.events, at])
        else:
            spans.append(Span(layer, start, end, [at]))
    return spans


def in_order(run: Run) -> tuple[list[LayerResult], str]:
    """The layers in their order of execution as far as it is known, and which order that is, in words."""
    if run.graph is not None:
        places = {name: at for at, name in enumerate(run.graph.layers)}
        last = len(places)
        return (
            sorted(run.layers, key=lambda layer: places.get(layer.name, last)),
            "in the order in which the engine runs them",
        )
    if run.nodes:
        at_node = {node.name: at for at, node in enumerate(run.nodes)}
        last = len(at_node)
        return (
            sorted(run.layers, key=lambda layer: min((at_node.get(node, last) for node in layer.nodes), default=last)),
            "in the order of their nodes in the model",
        )
    return list(run.layers), "by time lost, since their order is not known"


def latency_name(run: Run) -> str:
    """What to call the median of `Run.latency`, which without a sample of whole inferences is the sum of the layers."""
    return "latency_median_ns" if run.latency.n else "layers_sum_ns"


def last_node(layer: LayerResult) -> str:
    """What a layer computes in few words: the last of its nodes and how many others."""
    if not layer.nodes:
        return ""
    return layer.nodes[-1] + (f" +{len(layer.nodes) - 1}" if len(layer.nodes) > 1 else "")
