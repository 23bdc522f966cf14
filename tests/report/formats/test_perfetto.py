from __future__ import annotations

import itertools
import json
from collections import defaultdict
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.report_factory import CASES, make_run, typical
from tests.fakes.support import ROOT
from tests.fakes.timeline_factory import timed, timed_case
from trtprof.base.records import Run, RunGraph, Timeline, TimelineLane
from trtprof.report import ReportOptions, get
from trtprof.report.formats.perfetto import DEVICE, LAYERS, NODES

SCHEMA = json.loads((ROOT / "tests/report/schemas" / "chrome-trace.schema.json").read_text("utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)

Event = dict[str, Any]


def document(run: Run) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(get("perfetto").render(run, ReportOptions()))
    return found


def events(run: Run) -> list[Event]:
    found: list[Event] = document(run)["traceEvents"]
    return found


def slices(found: list[Event], pid: int) -> list[Event]:
    return [event for event in found if event["ph"] == "X" and event["pid"] == pid]


def in_ns(microseconds: float) -> int:
    return round(microseconds * 1000)


def process_names(found: list[Event]) -> dict[int, str]:
    return {event["pid"]: event["args"]["name"] for event in found if event["name"] == "process_name"}


# 10,000 layers are as many times the same event: the schema is slow.
def test_it_is_a_chrome_trace(subtests: pytest.Subtests) -> None:
    for case in [case for case in CASES if case != "many"]:
        for seen in [True, False]:
            with subtests.test(case=case, seen=seen):
                VALIDATOR.validate(document(timed_case(case) if seen else CASES[case]()))


def test_every_event_of_the_timeline_is_one_slice_to_the_ns(subtests: pytest.Subtests) -> None:
    for case in (case for case in CASES if case != "many"):
        with subtests.test(case=case):
            run = timed_case(case)
            line = run.timeline
            assert line is not None
            made = sorted((in_ns(event["ts"]), in_ns(event["dur"])) for event in slices(events(run), DEVICE))
            assert made == sorted(zip(line.start_ns, line.dur_ns, strict=True))
            for event in slices(events(run), DEVICE)[:100]:
                assert (event["args"]["start_ns"], event["args"]["dur_ns"]) == (in_ns(event["ts"]), in_ns(event["dur"]))


@pytest.mark.nightly
def test_slices_of_a_track_do_not_overlap(subtests: pytest.Subtests) -> None:
    for case in CASES:
        for seen in [True, False]:
            with subtests.test(case=case, seen=seen):
                assert_apart(events(timed_case(case) if seen else CASES[case]()))


def assert_apart(found: list[Event]) -> None:
    tracks: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for event in found:
        if event["ph"] == "X":
            start = in_ns(event["ts"])
            tracks[event["pid"], event["tid"]].append((start, start + in_ns(event["dur"])))
    for track in tracks.values():
        track.sort()
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(track))


@pytest.mark.parametrize("seen", [True, False])
def test_every_track_has_a_name(seen: bool) -> None:
    found = events(timed(typical()) if seen else typical())
    named = {(event["pid"], event["tid"]) for event in found if event["name"] == "thread_name"}
    assert {(event["pid"], event["tid"]) for event in found if event["ph"] != "M"} <= named
    assert set(process_names(found)) == {DEVICE, LAYERS, NODES}


@pytest.mark.parametrize("seen", [True, False])
def test_an_arrow_goes_from_a_layer_to_a_kernel_of_it(seen: bool) -> None:
    found = events(timed(typical()) if seen else typical())
    starts = {event["id"]: event for event in found if event["ph"] == "s"}
    ends = {event["id"]: event for event in found if event["ph"] == "f"}
    assert starts
    assert set(starts) == set(ends)

    def around(flow: Event) -> Event:
        (one,) = [
            event
            for event in slices(found, flow["pid"])
            if event["tid"] == flow["tid"] and 0 <= in_ns(flow["ts"]) - in_ns(event["ts"]) < in_ns(event["dur"])
        ]
        return one

    for number, start in starts.items():
        layer, kernel = around(start), around(ends[number])
        assert (layer["cat"], ends[number]["bp"]) == ("layer", "e")
        assert kernel["args"]["layer"] == layer["name"]


def test_a_trace_without_a_timeline_says_that_its_schedule_is_made_up() -> None:
    made_up = document(typical())
    assert all("made up from sums" in name for name in process_names(made_up["traceEvents"]).values())
    assert "made up from sums" in made_up["otherData"]["note"]
    captured = document(timed(typical()))
    assert not any("made up" in name for name in process_names(captured["traceEvents"]).values())
    assert captured["otherData"]["note"].startswith("inference 17 of the profile")


def test_layers_laid_end_to_end_keep_their_times_and_follow_the_engine() -> None:
    run = typical()
    order = sorted(layer.name for layer in run.layers)
    run = msgspec.structs.replace(run, graph=RunGraph(layers=tuple(order)))
    found = slices(events(run), LAYERS)
    assert [event["name"] for event in found] == order
    times = {layer.name: layer.measured_ns for layer in run.layers}
    assert {event["name"]: in_ns(event["dur"]) for event in found} == times
    assert "in which the engine runs them" in document(run)["otherData"]["note"]
    assert "order of their nodes" in document(typical())["otherData"]["note"]
    assert "order is not known" in document(msgspec.structs.replace(typical(), nodes=()))["otherData"]["note"]


def test_estimates_are_apart_and_unknown_is_absent() -> None:
    by_name = {event["name"]: event["args"] for event in slices(events(typical()), LAYERS)}
    conv = by_name["/features/1/conv"]
    assert conv["nodes"] == ["/features/1/conv"]
    assert conv["measured_ns"] - conv["estimate"]["attainable_ns"] == conv["estimate"]["lost_ns"]
    assert set(by_name["/post/Nms"]["estimate"]) == {"bound"}


rows = st.lists(
    st.tuples(st.integers(0, 10**7), st.integers(0, 2), st.integers(-1, 2), st.integers(0, 10**6)), max_size=30
)


@given(rows)
def test_no_timeline_makes_slices_overlap_or_vanish(found: list[tuple[int, int, int, int]]) -> None:
    found.sort()
    line = Timeline(
        iteration=0,
        duration_ns=max((start + dur for start, _, _, dur in found), default=0),
        lanes=tuple(TimelineLane(name=name, kind="kernels") for name in ("a", "b", "c")),
        layers=("x", "y", "z"),
        names=("kernel",),
        lane=tuple(row[1] for row in found),
        layer=tuple(row[2] for row in found),
        name=(0,) * len(found),
        start_ns=tuple(row[0] for row in found),
        dur_ns=tuple(row[3] for row in found),
    )
    run = msgspec.structs.replace(make_run(), timeline=line)
    made = events(run)
    assert_apart(made)
    kept = sorted((in_ns(event["ts"]), in_ns(event["dur"])) for event in slices(made, DEVICE))
    assert kept == sorted((row[0], row[3]) for row in found)
