"""One inference in the Chrome trace event format, which ui.perfetto.dev and chrome://tracing open.

The format is that of "Trace Event Format" (Chromium's document 1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU): complete
events (``ph`` X) with ``ts`` and ``dur`` in microseconds, here with decimals that keep every nanosecond, names of
processes and threads as metadata (M), arrows from a layer to its kernels as flow events (s, f). Three processes hold
the tracks: what the device did, layers (a slice is from the first to the last of its kernels that follow one another),
ONNX nodes. A slice of the nodes covers all nodes that its layer computes together: no time is split over them. In
``args``, what was computed lies under ``estimate``.

Where nobody saw when kernels ran (`Run.timeline` is None) the layers are laid end to end, in the order that is known,
and the names of the processes and ``otherData.note`` say that this schedule is made up from sums.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from trtprof.base.records import LayerResult, Match, Run, Timeline, bound_name
from trtprof.base.text_file import visible
from trtprof.report import ReportOptions, reporter
from trtprof.report._format import headline, latency_name

DEVICE, LAYERS, NODES = 1, 2, 3  # Process ids of the three groups of tracks

Event = dict[str, Any]

_MADE_UP = "made up from sums"


@reporter("perfetto", suffix=".perfetto.json", of=(Run,))
def render(run: Run, options: ReportOptions) -> str:  # noqa: ARG001 - a trace has nothing to choose
    """The trace as JSON, one event a line."""
    events = _captured(run, run.timeline) if run.timeline is not None else _made_up(run)
    lines = ",\n".join(_json(event) for event in events)
    other = json.dumps(_about(run), allow_nan=False, ensure_ascii=False, indent=1)
    return f'{{"displayTimeUnit": "ns",\n"otherData": {other},\n"traceEvents": [\n{lines}\n]}}\n'


_json = json.JSONEncoder(allow_nan=False, ensure_ascii=False).encode


def _about(run: Run) -> dict[str, Any]:
    """What the trace is of; values are text, as the format has it."""
    sums = headline(run)
    about = {
        "model": run.model.name,
        "backend": run.backend.name,
        "device": run.device.name,
        "created": run.created,
        "trtprof": run.versions.get("trtprof", ""),
        latency_name(run): str(run.latency.median_ns),
        "estimate.attainable_ns": "" if sums.attainable_ns is None else str(sums.attainable_ns),
        "coverage": f"exact {run.coverage.exact:.4f}, inferred {run.coverage.inferred:.4f}, "
        f"unattributed {run.coverage.unattributed:.4f}",
        "verdict": run.verdict,
        "note": _note(run),
    }
    return {name: visible(value) for name, value in about.items() if value}


def _note(run: Run) -> str:
    if run.timeline is not None:
        return run.timeline.note
    _, order = _in_order(run)
    return (
        f"The schedule is {_MADE_UP}, since nobody saw when kernels ran: layers are laid end to end, {order}; a layer "
        "takes its median time, a kernel its mean time in one inference, as captured. Gaps are no measured gaps."
    )


# --- tracks ---------------------------------------------------------------------------------


def _process(pid: int, name: str) -> Iterator[Event]:
    yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": visible(name)}}
    yield {"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "args": {"sort_index": pid}}


def _thread(pid: int, tid: int, name: str) -> Iterator[Event]:
    yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": visible(name)}}
    yield {"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": tid, "args": {"sort_index": tid}}


def _slice(pid: int, tid: int, name: str, category: str, start_ns: int, dur_ns: int, args: dict[str, Any]) -> Event:
    return {
        "ph": "X",
        "name": visible(name) or "(no name)",
        "cat": category,
        "pid": pid,
        "tid": tid,
        # A double holds every ns of 104 days in us.
        "ts": start_ns / 1000,
        "dur": dur_ns / 1000,
        "args": args,
    }


def _arrow(number: int, tid: int, start_ns: int, kernel_ns: int) -> Iterator[Event]:
    """From the layer that begins at ``start_ns`` to its kernel that begins at ``kernel_ns``."""
    flow = {"name": "launches", "cat": "layer", "id": number, "tid": tid}
    yield {"ph": "s", **flow, "pid": LAYERS, "ts": start_ns / 1000}
    yield {"ph": "f", "bp": "e", **flow, "pid": DEVICE, "ts": kernel_ns / 1000}


def _layer_args(layer: LayerResult | None, device: Literal["cpu", "gpu"]) -> dict[str, Any]:
    """What is known of a layer, of one inference."""
    if layer is None:
        return {}
    args: dict[str, Any] = {
        "op_type": visible(layer.op_type),
        "role": visible(layer.role),
        "nodes": [visible(node) for node in layer.nodes],
        "match": layer.match,
        "measured_ns": layer.measured_ns,
        "shapes": visible(layer.shapes),
        "dtype": visible(layer.dtype),
    }
    estimate = {
        "ideal_ns": layer.ideal_ns,
        "attainable_ns": layer.attainable_ns,
        "lost_ns": layer.lost_ns,
        "bound": bound_name(layer.bound, device),
        "flops": layer.flops,
        "bytes": layer.bytes,
    }
    args["estimate"] = {name: value for name, value in estimate.items() if value is not None}
    return {name: value for name, value in args.items() if value not in ("", [])}


def _nodes_slice(tid: int, layer: LayerResult, start_ns: int, dur_ns: int) -> Event:
    return _slice(
        NODES,
        tid,
        _last_node(layer),
        "node",
        start_ns,
        dur_ns,
        {"nodes": [visible(node) for node in layer.nodes], "layer": visible(layer.name), "match": layer.match},
    )


# --- as captured ----------------------------------------------------------------------------


def _captured(run: Run, timeline: Timeline) -> Iterator[Event]:
    number = timeline.iteration + 1
    tracks = _tracks_of(timeline)
    layers = {layer.name: layer for layer in run.layers}
    results = [layers.get(name) for name in timeline.layers]
    layer_args = [_layer_args(result, run.device.kind) for result in results]
    yield from _process(DEVICE, f"{run.device.name}: inference {number} as captured")
    yield from _process(LAYERS, "layers")
    yield from _process(NODES, "ONNX nodes")
    flow = 0
    for tid, track in enumerate(tracks, 1):
        yield from _thread(DEVICE, tid, track.name)
        if any(span.layer >= 0 for span in track.spans):
            yield from _thread(LAYERS, tid, f"layers on {track.name}")
        if any(span.layer >= 0 and (r := results[span.layer]) is not None and r.nodes for span in track.spans):
            yield from _thread(NODES, tid, f"nodes on {track.name}")
    for tid, track in enumerate(tracks, 1):
        yield from _events(timeline, track, tid)
        for span in track.spans:
            if span.layer < 0:
                continue
            dur_ns = span.end_ns - span.start_ns
            result = results[span.layer]
            args = {"dur_ns": dur_ns, **layer_args[span.layer]}
            yield _slice(LAYERS, tid, timeline.layers[span.layer], "layer", span.start_ns, dur_ns, args)
            if result is not None and result.nodes:
                yield _nodes_slice(tid, result, span.start_ns, dur_ns)
            if not dur_ns:
                continue
            for at in span.events:
                # An arrow needs a slice at both ends that lasts.
                if timeline.dur_ns[at]:
                    flow += 1
                    yield from _arrow(flow, tid, span.start_ns, timeline.start_ns[at])


def _events(timeline: Timeline, track: _Track, tid: int) -> Iterator[Event]:
    names = timeline.layers
    for span in track.spans:
        layer = {"layer": visible(names[span.layer])} if span.layer >= 0 else {}
        for at in span.events:
            start_ns, dur_ns = timeline.start_ns[at], timeline.dur_ns[at]
            args = {"start_ns": start_ns, "dur_ns": dur_ns, **layer}
            yield _slice(DEVICE, tid, timeline.names[timeline.name[at]], track.kind, start_ns, dur_ns, args)


# --- made up from sums ----------------------------------------------------------------------


def _made_up(run: Run) -> Iterator[Event]:
    order, _ = _in_order(run)
    # First what it is: viewers cut long names.
    yield from _process(DEVICE, f"{_MADE_UP}: kernels of {run.device.name}")
    yield from _process(LAYERS, f"{_MADE_UP}: layers")
    yield from _process(NODES, f"{_MADE_UP}: ONNX nodes")
    yield from _thread(DEVICE, 1, "kernels")
    yield from _thread(LAYERS, 1, "layers")
    yield from _thread(NODES, 1, "nodes")
    start_ns = flow = 0
    for layer in order:
        yield _slice(LAYERS, 1, layer.name, "layer", start_ns, layer.measured_ns, _layer_args(layer, run.device.kind))
        if layer.nodes:
            yield _nodes_slice(1, layer, start_ns, layer.measured_ns)
        end_ns = start_ns
        for match in layer.kernels:
            event, dur_ns = _kernel(run, match, end_ns)
            yield event
            if layer.measured_ns and dur_ns:
                flow += 1
                yield from _arrow(flow, 1, start_ns, end_ns)
            end_ns += dur_ns
        # Kernels may last longer than their layer, whose time is less by what the profiler adds.
        start_ns = max(start_ns + layer.measured_ns, end_ns)
    for match in run.kernels_unattributed:
        event, dur_ns = _kernel(run, match, start_ns)
        yield event
        start_ns += dur_ns


def _kernel(run: Run, match: Match, start_ns: int) -> tuple[Event, int]:
    """A kernel with all its launches of one inference as one slice, and how long that is."""
    dur_ns = match.total_ns // run.profiled.n if run.profiled.n else match.median_ns
    args: dict[str, Any] = {
        "dur_ns": dur_ns,
        "median_ns": match.median_ns,
        "total_ns": match.total_ns,
        "launches": match.count,
        "inferences": run.profiled.n,
        "match": match.confidence,
    }
    if match.layer is not None:
        args["layer"] = visible(match.layer)
    return _slice(DEVICE, 1, match.kernel, "kernels", start_ns, dur_ns, args), dur_ns


# --- lanes ---


class _Span(NamedTuple):
    """Events of a track that follow one another and are of one layer; of no layer, one event.

    ``layer`` is a place in `Timeline.layers` or -1, ``events`` are places in its columns.
    """

    layer: int
    start_ns: int
    end_ns: int
    events: list[int]


class _Track(NamedTuple):
    """A lane, or the part of one that runs beside the rest of it."""

    name: str
    kind: str
    spans: list[_Span]


def _tracks_of(timeline: Timeline) -> list[_Track]:
    """The lanes of a timeline, each as one track, or as more where events of a lane overlap."""
    events: list[list[int]] = [[] for _ in timeline.lanes]
    for at, place in enumerate(timeline.lane):
        events[place].append(at)
    tracks: list[_Track] = []
    for lane, places in zip(timeline.lanes, events, strict=True):
        name = lane.name + (f", inside (depth {lane.depth})" if lane.depth else "")
        for number, part in enumerate(_beside(timeline, places)):
            beside = f", beside ({number + 1})" if number else ""
            tracks.append(_Track(name + beside, lane.kind, _spans(timeline, part)))
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


def _spans(timeline: Timeline, places: list[int]) -> list[_Span]:
    spans: list[_Span] = []
    for at in places:
        layer, start = timeline.layer[at], timeline.start_ns[at]
        end = start + timeline.dur_ns[at]
        if spans and layer >= 0 and spans[-1].layer == layer:
            last = spans[-1]
            spans[-1] = _Span(layer, last.start_ns, max(last.end_ns, end), [*last.events, at])
        else:
            spans.append(_Span(layer, start, end, [at]))
    return spans


def _in_order(run: Run) -> tuple[list[LayerResult], str]:
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


def _last_node(layer: LayerResult) -> str:
    """What a layer computes in few words: the last of its nodes and how many others."""
    if not layer.nodes:
        return ""
    return layer.nodes[-1] + (f" +{len(layer.nodes) - 1}" if len(layer.nodes) > 1 else "")
