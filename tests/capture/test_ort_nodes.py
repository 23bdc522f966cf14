"""Node events of ONNX Runtime's profile: when the host was in which node."""

from __future__ import annotations

import pytest

from trtprof.base.errors import CaptureError
from trtprof.capture.ort_profile import Event, node_events
from trtprof.runtime.ort_session import NODE_EVENT_COLUMNS, ScheduledNode


def node(name: str, ts: int, dur: int, op_type: str = "Relu", provider: str = "CUDA") -> Event:
    import msgspec

    args = {"op_name": op_type, "provider": f"{provider}ExecutionProvider"}
    return msgspec.convert(
        {"cat": "Node", "name": f"{name}_kernel_time", "ts": ts, "dur": dur, "tid": 9, "args": args}, Event
    )


def run(ts: int, dur: int) -> Event:
    return Event(cat="Session", name="model_run", ts=ts, dur=dur, tid=9)


def plain(*names: str) -> list[ScheduledNode]:
    return [ScheduledNode(name, "", name, "Relu") for name in names]


def test_an_event_ends_within_two_microseconds_of_what_is_written_but_before_the_next() -> None:
    events = [node("a", 11, 3), node("b", 14, 0), node("c", 20, 5), run(10, 20)]
    found = node_events(events, 1, plain("a", "b", "c"))
    assert tuple(found.columns) == NODE_EVENT_COLUMNS
    assert found["layer"].tolist() == ["", "a", "b", "c"]
    assert found["start_ns"].tolist() == [10_000, 11_000, 14_000, 20_000]
    assert found["end_ns"].tolist() == [32_000, 14_000, 16_000, 27_000]
    assert found["provider"].tolist() == ["", "CUDA", "CUDA", "CUDA"]
    assert set(found["tid"]) == {9}


def test_warm_up_is_left_out_and_inferences_are_counted() -> None:
    events = [event for start in (100, 200, 300) for event in (node("a", start + 1, 3), run(start, 10))]
    found = node_events(events, 2, plain("a"))
    assert found["iteration"].tolist() == [0, 0, 1, 1]
    assert found["start_ns"].tolist() == [200_000, 201_000, 300_000, 301_000]


def test_a_control_node_stands_before_its_body() -> None:
    scheduled = [ScheduledNode("if", "", "if", "If"), ScheduledNode("inner", "if/then_branch", "inner", "Relu")]
    events = [node("inner", 12, 2), node("if", 11, 5, "If", "CPU"), run(10, 10)]
    found = node_events(events, 1, scheduled)
    assert found["layer"].tolist() == ["", "if", "inner"]
    assert found["provider"].tolist() == ["", "CPU", "CUDA"]


def test_fewer_inferences_than_asked_for_are_an_error() -> None:
    with pytest.raises(CaptureError, match="holds 1 of 2 runs"):
        node_events([node("a", 11, 3), run(10, 9)], 2, plain("a"))
