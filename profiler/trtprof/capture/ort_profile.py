"""ONNX Runtime's profile: node events of a CPU session to the kernel table.

The file is a JSON list of Chrome trace events: one ``Session`` event ``model_run`` an inference and
one ``Node`` event ``<node>_kernel_time`` a node run, written when the node ends. ``ts`` and ``dur``
are whole microseconds, cut off, so each duration is known to within `CLOCK_RESOLUTION_NS`. Seen in
ONNX Runtime 1.31; older releases add ``_fence_before`` and ``_fence_after`` events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from trtprof.base.errors import CaptureError
from trtprof.base.machine_errors import cut_off
from trtprof.base.records import KERNEL_COLUMNS, Tensor
from trtprof.runtime.ort_session import NODE_EVENT_COLUMNS, ScheduledNode, short_provider

if TYPE_CHECKING:
    import pandas as pd

CLOCK_RESOLUTION_NS = 1000
_SUFFIX = "_kernel_time"

_PROFILE_DTYPES: dict[str, str] = {
    "float": "fp32", "double": "fp64", "float16": "fp16", "bfloat16": "bf16", "bool": "bool", "string": "string",
    "int8": "int8", "uint8": "uint8", "int16": "int16", "uint16": "uint16", "int32": "int32", "uint32": "uint32",
    "int64": "int64", "uint64": "uint64", "Int4x2": "int4", "UInt4x2": "uint4",
}  # fmt: skip


class _Args(msgspec.Struct, frozen=True):
    op_name: str = ""
    provider: str = ""
    input_type_shape: list[dict[str, list[int]]] = []
    output_type_shape: list[dict[str, list[int]]] = []


class Event(msgspec.Struct, frozen=True):
    """An event of the profile, as far as it is used; ``ts`` and ``dur`` in microseconds."""

    cat: str = ""
    name: str = ""
    ts: int = 0
    dur: int = 0
    tid: int = 0
    args: _Args = _Args()


class Profile(NamedTuple):
    """A profile read: the kernel table, the time of each profiled run, shapes by layer."""

    kernels: pd.DataFrame
    run_ns: npt.NDArray[np.int64]
    shapes: dict[str, tuple[tuple[Tensor, ...], tuple[Tensor, ...]]]


def read_profile(path: Path, runs: int, scheduled: Sequence[ScheduledNode]) -> Profile:
    """Read the last ``runs`` inferences of a profile; ``scheduled`` are the nodes in the order in which they run."""
    return profile_from_events(read_events(path), runs, scheduled)


def read_events(path: Path) -> list[Event]:
    """All events of a profile, in the order in which they were written."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[Event])
    except FileNotFoundError:
        raise cut_off(path.name) from None
    except msgspec.DecodeError as error:
        if "truncated" in str(error):  # ONNX Runtime writes it without looking whether it can
            raise cut_off(path.name) from None
        raise CaptureError(f"{path.name} is not an ONNX Runtime profile", why=str(error), fix="run again") from None


class _Runs(NamedTuple):
    """The last inferences of a profile: the event around each, and those of its nodes as they ended."""

    bounds: list[Event]
    launched: list[list[Event]]
    first: list[Event]  # The nodes of the first inference of all, whose inputs are those of the seed


def _last_runs(events: Sequence[Event], runs: int) -> _Runs:
    per_run: list[list[Event]] = []
    pending: list[Event] = []
    bounds: list[Event] = []
    for event in events:
        if event.cat == "Node" and event.name.endswith(_SUFFIX):
            pending.append(event)
        elif event.cat == "Session" and event.name == "model_run":
            # A node event is written when the node ends, so all of a run stand before its own event.
            bounds.append(event)
            per_run.append([e for e in pending if e.ts >= event.ts])
            pending = []
    if len(per_run) < runs:
        raise CaptureError(
            f"the profile holds {len(per_run)} of {runs} runs",
            why="ONNX Runtime stops recording after one million events",
            fix="profile fewer iterations: --profile-iterations 3",
        )
    return _Runs(bounds[-runs:], per_run[-runs:], per_run[0])


def profile_from_events(events: Sequence[Event], runs: int, scheduled: Sequence[ScheduledNode]) -> Profile:
    """The kernel table of events in the order in which they were written."""
    import pandas as pd

    bounds, per_run, first = _last_runs(events, runs)
    schedule = Schedule(scheduled)
    graphs = {node.name: node.graph for node in scheduled}
    rows: list[tuple[int, int, str, str, int, int, int]] = []
    seen = dict(zip(schedule.layers_of(first)[::-1], first[::-1], strict=True))  # A layer of a loop: its first step
    for iteration, (bound, launched) in enumerate(zip(bounds, per_run, strict=True)):
        layers = schedule.layers_of(launched)
        seen = dict(zip(layers, launched, strict=True)) | seen
        self_us = _self_times(launched, layers, graphs)
        order = sorted(range(len(launched)), key=lambda i: (launched[i].ts, -launched[i].dur, i))
        for index, position in enumerate(order):
            event = launched[position]
            rows.append(
                (
                    iteration,
                    index,
                    f"{short_provider(event.args.provider)}:{event.args.op_name}",
                    layers[position],
                    (event.ts - bound.ts) * CLOCK_RESOLUTION_NS,
                    event.dur * CLOCK_RESOLUTION_NS,
                    self_us[position] * CLOCK_RESOLUTION_NS,
                )
            )
    shapes = {
        name: (_tensors(event.args.input_type_shape), _tensors(event.args.output_type_shape))
        for name, event in seen.items()
    }
    return Profile(
        kernels=pd.DataFrame.from_records(rows, columns=list(KERNEL_COLUMNS)),
        run_ns=np.asarray([bound.dur * CLOCK_RESOLUTION_NS for bound in bounds], dtype=np.int64),
        shapes=shapes,
    )


def node_events(events: Sequence[Event], runs: int, scheduled: Sequence[ScheduledNode]) -> pd.DataFrame:
    """When the host was in which node during the last ``runs`` inferences.

    Args:
        scheduled: The nodes of the session's optimised graph, in the order in which they run.

    Returns:
        The columns `ort_session.NODE_EVENT_COLUMNS`, sorted by start, outer before inner.
    """
    import pandas as pd

    bounds, per_run, _ = _last_runs(events, runs)
    schedule = Schedule(scheduled)
    rows: list[tuple[int, int, str, str, int, int]] = []
    for iteration, (bound, launched) in enumerate(zip(bounds, per_run, strict=True)):
        named = [("", bound), *zip(schedule.layers_of(launched), launched, strict=True)]
        # Node by node as they began: a control-flow node is written behind its body.
        named[1:] = sorted(named[1:], key=lambda pair: (pair[1].ts, -pair[1].dur))
        for layer, event in named:
            provider = short_provider(event.args.provider)
            rows.append((event.ts, event.ts + event.dur, layer, provider, iteration, event.tid))
    found = pd.DataFrame.from_records(rows, columns=list(NODE_EVENT_COLUMNS))
    start, end = found["start_ns"].to_numpy(np.int64), found["end_ns"].to_numpy(np.int64)
    found["start_ns"] = start * CLOCK_RESOLUTION_NS
    # Start and duration are both cut off: it ends within two steps, but before the next one of its thread begins.
    found["end_ns"] = np.maximum(end, np.minimum(end + 2, _next_start(start, end))) * CLOCK_RESOLUTION_NS
    for column in ("iteration", "tid"):
        found[column] = found[column].astype("int64")
    for column in ("layer", "provider"):
        found[column] = found[column].astype("category")
    return found


def _next_start(start: npt.NDArray[np.int64], end: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Of each event when the next one begins that does so at its end or later; behind the last one never."""
    ordered = np.sort(start)
    at = np.maximum(np.searchsorted(ordered, end), np.searchsorted(ordered, start, "right"))
    return np.append(ordered, np.iinfo(np.int64).max)[at]


class Schedule:
    """The order in which ONNX Runtime runs the nodes of a session, to tell which event is whose.

    Names alone cannot: nodes without a name are called ``<op_type>_<number>`` in the profile, and
    what the backend adds to two subgraphs may have the same name in both.
    """

    def __init__(self, scheduled: Sequence[ScheduledNode]) -> None:
        self.bodies: dict[str, list[str]] = {}
        self.graphs: dict[str, list[ScheduledNode]] = {"": []}
        for node in scheduled:
            if node.graph and node.graph not in self.graphs:
                self.bodies.setdefault(node.graph.rpartition("/")[0], []).append(node.graph)
            self.graphs.setdefault(node.graph, []).append(node)
        names: dict[str, list[str]] = {}
        for node in scheduled:
            names.setdefault(node.saved_name, []).append(node.name)
        self.by_event = {saved: found[0] for saved, found in names.items() if saved and len(found) == 1}

    def layers_of(self, launched: Sequence[Event]) -> list[str]:
        """The layer of each event of a run."""
        labels = [event.name.removesuffix(_SUFFIX) for event in launched]
        found = list(labels)
        if self._walk("", launched, labels, len(launched), found) == 0:
            return found
        return [self.by_event.get(label, label) for label in labels]

    def _walk(self, graph: str, launched: Sequence[Event], labels: Sequence[str], end: int, found: list[str]) -> int:
        """Match the events before ``end`` with one run of a graph, backwards; returns where it began.

        Backwards because a control-flow node is written behind its body. -1 where they do not fit.
        """
        at = end
        for node in reversed(self.graphs[graph]):
            at -= 1
            if at < 0 or launched[at].args.op_name != node.op_type:
                return -1
            if labels[at] != node.saved_name and (node.saved_name or not labels[at].startswith(node.op_type + "_")):
                return -1
            found[at] = node.name
            bodies = self.bodies.get(node.name, ())
            while bodies:
                begins = (self._walk(body, launched, labels, at, found) for body in bodies)
                began = next((begin for begin in begins if begin >= 0), at)
                if began == at:
                    break
                at = began
                if node.op_type == "If":
                    break
        return at


def _self_times(launched: Sequence[Event], layers: Sequence[str], graphs: Mapping[str, str]) -> list[int]:
    """Duration of each event less that of the nodes of its subgraphs that ran inside it."""
    own = [event.dur for event in launched]
    open_bodies: dict[str, int] = {}
    for position, layer in enumerate(layers):
        own[position] -= open_bodies.pop(layer, 0)
        owner = graphs.get(layer, "").rpartition("/")[0]
        if owner:
            open_bodies[owner] = open_bodies.get(owner, 0) + launched[position].dur
    return own


def _tensors(entries: Sequence[Mapping[str, Sequence[int]]]) -> tuple[Tensor, ...]:
    return tuple(
        Tensor(name="", dtype=_PROFILE_DTYPES.get(dtype, "unknown"), shape=tuple(int(dim) for dim in dims))
        for entry in entries
        for dtype, dims in entry.items()
    )
