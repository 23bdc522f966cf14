"""One inference as captured, kernel by kernel (`records.Timeline`): the one whose time is the median."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from trtprof.base.nested_ranges import NestedRanges
from trtprof.base.records import Timeline, TimelineLane

if TYPE_CHECKING:
    from trtprof.align.gpu_kernels import TraceAlignment
    from trtprof.base.trace import GpuTrace

MOST_EVENTS = 50_000  # Of an inference with more, the longest are kept and the others counted in the note

_Nanoseconds = npt.NDArray[np.int64]


def timeline_of_kernels(kernels: pd.DataFrame) -> Timeline | None:
    """The timeline of a run on a CPU; None where nothing ran. Kernels of a loop lie inside that of the loop."""
    if not len(kernels):
        return None
    ends = kernels["start_ns"] + kernels["dur_ns"]
    starts = kernels["start_ns"].groupby(kernels["iteration"]).min()
    spans = ends.groupby(kernels["iteration"]).max() - starts
    chosen, number = _median_of(spans), len(spans)
    rows = kernels[kernels["iteration"] == chosen].sort_values("index", kind="stable")
    start = rows["start_ns"].to_numpy(dtype=np.int64)
    duration = rows["dur_ns"].to_numpy(dtype=np.int64)
    depth = _depths(start, start + duration)
    lanes = [TimelineLane(name="inference thread", kind="kernels", depth=at) for at in range(int(depth.max()) + 1)]
    return _timeline(
        int(chosen), number, lanes, lane=depth, layer=rows["layer"], name=rows["name"], start=start, duration=duration
    )


def timeline_of_trace(trace: GpuTrace, alignment: TraceAlignment, layers: Sequence[str]) -> Timeline | None:
    """A lane for each stream, one for its copies, and one a host thread; None for sums or no whole inference."""
    kept = alignment.iterations[alignment.iterations["kept"]]
    if trace.collector == "nsys stats" or not len(trace.work):
        return None
    if len(kept):
        chosen = _median_of(kept["end_ns"] - kept["start_ns"])
        mine = (alignment.work["iteration"] == chosen).to_numpy()
    else:
        # Nothing tells inferences apart: all of the capture is taken for one, as its latency is.
        chosen, mine = 0, np.ones(len(trace.work), dtype=bool)
    work = trace.work[mine]
    if not len(work):
        return None
    copies = (work["kind"] != "kernel").to_numpy()
    several = work["device"].nunique() > 1
    lanes: list[TimelineLane] = []
    lane = np.zeros(len(work), dtype=np.int64)
    keys = list(zip(work["device"].tolist(), work["stream"].tolist(), copies.tolist(), strict=True))
    places = {key: at for at, key in enumerate(sorted(set(keys)))}
    for device, stream, is_copy in places:
        name = f"stream {stream}" + (f" of GPU {device}" if several else "") + (", copies" if is_copy else "")
        lanes.append(TimelineLane(name=name, kind="copies" if is_copy else "kernels"))
    lane[:] = [places[key] for key in keys]
    names = np.asarray(layers, dtype=object)
    at = alignment.work["layer"].to_numpy()[mine]
    layer = np.where(at >= 0, names[np.maximum(at, 0)] if len(names) else "", "")
    calls = _calls_of(trace, work)
    call_layer, threads = _layers_of_calls(calls, work, layer), sorted(set(calls["tid"].tolist()))
    lanes += [TimelineLane(name=f"host thread {number}", kind="host") for number in range(1, len(threads) + 1)]
    host = np.array([len(places) + threads.index(tid) for tid in calls["tid"].tolist()], dtype=np.int64)
    start = np.concatenate([work["start_ns"], calls["start_ns"]]).astype(np.int64)
    end = np.concatenate([work["end_ns"], calls["end_ns"]]).astype(np.int64)
    return _timeline(
        int(chosen),
        max(len(kept), 1),
        lanes,
        lane=np.concatenate([lane, host]),
        layer=pd.Series(np.concatenate([layer, call_layer])),
        name=pd.Series([*work["name"].astype(str), *calls["name"].astype(str)]),
        start=start,
        duration=end - start,
    )


def _median_of(spans: pd.Series[Any]) -> int:
    """The inference whose span is the median; the first of several, and of an even number the shorter one."""
    ordered = spans.sort_index().sort_values(kind="stable")
    return int(ordered.index[(len(ordered) - 1) // 2])


def _depths(start: _Nanoseconds, end: _Nanoseconds) -> _Nanoseconds:
    """How many other events each lies in."""
    parents = NestedRanges(np.zeros(len(start), dtype=np.int64), start, end).parents
    depth = np.zeros(len(start), dtype=np.int64)
    at = parents.copy()
    while (at >= 0).any():
        depth += at >= 0
        at = np.where(at >= 0, parents[np.maximum(at, 0)], -1)
    return depth


def _calls_of(trace: GpuTrace, work: pd.DataFrame) -> pd.DataFrame:
    """The calls that launched this work, each once."""
    key = ["pid", "correlation"]
    wanted = work.loc[work["correlation"] != 0, key].drop_duplicates()
    return trace.launches.merge(wanted, on=key, how="inner")


def _layers_of_calls(calls: pd.DataFrame, work: pd.DataFrame, layer: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The layer that each call launched work of; none where it launched that of several, as a CUDA graph does."""
    known = pd.DataFrame({"pid": work["pid"], "correlation": work["correlation"], "layer": layer.astype(object)})
    grouped = known.groupby(["pid", "correlation"])["layer"].agg(["first", "nunique"])
    one = grouped["first"].where(grouped["nunique"] == 1, "")
    found = calls[["pid", "correlation"]].merge(
        one.rename("layer").reset_index(), on=["pid", "correlation"], how="left"
    )["layer"]
    return found.fillna("").to_numpy(dtype=object)


def _timeline(
    iteration: int,
    number: int,
    lanes: Sequence[TimelineLane],
    *,
    lane: _Nanoseconds,
    layer: pd.Series[Any],
    name: pd.Series[Any],
    start: _Nanoseconds,
    duration: _Nanoseconds,
) -> Timeline:
    order = np.lexsort((-duration, lane, start))
    note = (
        f"inference {iteration + 1} of the profile, whose time is the median of {number}; times are as captured, the "
        "profiler's own included"
    )
    if len(order) > MOST_EVENTS:
        longest = np.sort(np.argsort(-duration[order], kind="stable")[:MOST_EVENTS])
        note += f"; the {MOST_EVENTS:,} longest of {len(order):,} events are shown"
        order = order[longest]
    first, last = int(start.min()), int((start + duration).max())
    layer_at, layers = pd.factorize(layer.astype(str).replace("", None).to_numpy()[order])
    name_at, names = pd.factorize(name.astype(str).to_numpy()[order])
    return Timeline(
        iteration=iteration,
        duration_ns=last - first,
        lanes=tuple(lanes),
        layers=tuple(map(str, layers)),
        names=tuple(map(str, names)),
        lane=tuple(lane[order].tolist()),
        layer=tuple(layer_at.tolist()),
        name=tuple(name_at.tolist()),
        start_ns=tuple((start[order] - first).tolist()),
        dur_ns=tuple(duration[order].tolist()),
        note=note,
    )
