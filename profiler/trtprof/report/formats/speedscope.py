"""A run for speedscope.app: flame graphs of layers and kernels.

The file follows speedscope's ``file-format-schema.json``; all values are nanoseconds. Profiles, in this order:

- one inference by op type and layer, each layer's median time parted in what the roofline allows and what is lost
  (both estimates, marked ``~``; together they are the measured time). A layer that was as fast as the estimate, or has
  none, stands undivided.
- all kernel time of the capture by layer and kernel: it sums to the kernel time captured, to the nanosecond.
- the captured inference, one profile for each stream or thread: layers, and inside them kernels, as they ran. Without a
  `Run.timeline` there is none, since nothing is known of when kernels ran.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from trtprof.base.records import Run, Timeline
from trtprof.base.text_file import visible
from trtprof.report import ReportOptions, reporter
from trtprof.report.formats._lanes import Track, tracks_of

SCHEMA = "https://www.speedscope.app/file-format-schema.json"

ALLOWED = "~ allowed by the roofline"
LOST = "~ lost"
NO_LAYER = "(no layer)"


@reporter("speedscope", suffix=".speedscope.json", of=(Run,))
def render(run: Run, options: ReportOptions) -> str:  # noqa: ARG001 - a profile has nothing to choose
    """The profiles as one JSON document."""
    frames = _Frames()
    profiles = [_of_one_inference(run, frames), _of_capture(run, frames)]
    if run.timeline is not None:
        profiles += [_of_track(run.timeline, track, frames) for track in tracks_of(run.timeline)]
    version = run.versions.get("trtprof", "")
    document = {
        "$schema": SCHEMA,
        "name": visible(f"{run.model.name} on {run.device.name}"),
        "exporter": visible(f"trtprof {version}".strip()),
        "activeProfileIndex": 0,
        "shared": {"frames": [{"name": name} for name in frames.names]},
        "profiles": profiles,
    }
    # The top level on lines of its own, so that a change shows where it is.
    parts = [f"{json.dumps(key)}: {_json(value)}" for key, value in document.items() if key != "profiles"]
    listed = ",\n".join(_json(profile) for profile in profiles)
    return "{" + ",\n".join(parts) + f',\n"profiles": [\n{listed}\n]}}\n'


_json = json.JSONEncoder(allow_nan=False, ensure_ascii=False).encode


class _Frames:
    """Frames by what they are, so that a layer and a kernel of one name are two."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._places: dict[tuple[str, str], int] = {}

    def at(self, kind: str, name: str) -> int:
        key = (kind, name)
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = len(self.names)
            self.names.append(visible(name) or "(no name)")
        return place


def _sampled(name: str, stacks: Iterable[tuple[list[int], int]]) -> dict[str, Any]:
    kept = [(stack, weight) for stack, weight in stacks if weight]
    return {
        "type": "sampled",
        "name": name,
        "unit": "nanoseconds",
        "startValue": 0,
        "endValue": sum(weight for _, weight in kept),
        "samples": [stack for stack, _ in kept],
        "weights": [weight for _, weight in kept],
    }


def _of_one_inference(run: Run, frames: _Frames) -> dict[str, Any]:
    stacks: list[tuple[list[int], int]] = []
    for layer in run.layers:
        stack = [frames.at("op", layer.op_type), frames.at("layer", layer.name)]
        if layer.lost_ns is None or layer.lost_ns <= 0:
            stacks.append((stack, layer.measured_ns))
        else:
            stacks.append(([*stack, frames.at("part", ALLOWED)], layer.measured_ns - layer.lost_ns))
            stacks.append(([*stack, frames.at("part", LOST)], layer.lost_ns))
    return _sampled("one inference: op type, layer (median times, by time lost)", stacks)


def _of_capture(run: Run, frames: _Frames) -> dict[str, Any]:
    stacks = [
        ([frames.at("layer", layer.name), frames.at("kernel", match.kernel)], match.total_ns)
        for layer in run.layers
        for match in layer.kernels
    ]
    stacks += [
        ([frames.at("part", NO_LAYER), frames.at("kernel", match.kernel)], match.total_ns)
        for match in run.kernels_unattributed
    ]
    return _sampled("all profiled inferences: layer, kernel (sums)", stacks)


def _of_track(timeline: Timeline, track: Track, frames: _Frames) -> dict[str, Any]:
    events: list[dict[str, Any]] = []

    def add(kind: str, frame: int, at_ns: int) -> None:
        events.append({"type": kind, "frame": frame, "at": at_ns})

    for span in track.spans:
        outer = frames.at("layer", timeline.layers[span.layer]) if span.layer >= 0 else None
        if outer is not None:
            add("O", outer, span.start_ns)
        for at in span.events:
            frame = frames.at("kernel", timeline.names[timeline.name[at]])
            add("O", frame, timeline.start_ns[at])
            add("C", frame, timeline.start_ns[at] + timeline.dur_ns[at])
        if outer is not None:
            add("C", outer, span.end_ns)
    return {
        "type": "evented",
        "name": visible(f"{track.name}: inference {timeline.iteration + 1} as captured"),
        "unit": "nanoseconds",
        "startValue": 0,
        "endValue": timeline.duration_ns,
        "events": events,
    }
