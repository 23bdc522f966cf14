from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from tests.fakes.report_factory import CASES, hostile, make_run, many, typical
from tests.fakes.support import ROOT, golden
from tests.fakes.timeline_factory import timed, timed_case
from trtprof.base.records import Run
from trtprof.report import ReportOptions, for_path, get
from trtprof.report.formats.speedscope import ALLOWED, LOST, NO_LAYER

pytestmark = pytest.mark.nightly

GOLDEN = ROOT / "tests/report/golden"
SCHEMA = json.loads((ROOT / "tests/report/schemas" / "speedscope.schema.json").read_text("utf-8"))
VALIDATOR = jsonschema.Draft7Validator(SCHEMA)


def document(run: Run) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(get("speedscope").render(run, ReportOptions()))
    return found


def stacks(profile: dict[str, Any], frames: list[dict[str, str]]) -> list[tuple[tuple[str, ...], int]]:
    return [
        (tuple(frames[at]["name"] for at in stack), weight)
        for stack, weight in zip(profile["samples"], profile["weights"], strict=True)
    ]


@pytest.mark.parametrize("name", ["typical", "timeline"])
def test_golden(name: str) -> None:
    run = typical() if name == "typical" else timed(make_run(typical().layers[:4]))
    made = get("speedscope").render(run, ReportOptions())
    golden(GOLDEN / f"{name}.speedscope.json", made)


def test_the_suffix_is_its_own() -> None:
    assert for_path("run.speedscope.json").name == "speedscope"


@pytest.mark.parametrize("case", [case for case in CASES if case != "many"])
@pytest.mark.parametrize("seen", [True, False])
def test_it_follows_the_schema(case: str, seen: bool) -> None:
    VALIDATOR.validate(document(timed_case(case) if seen else CASES[case]()))
    VALIDATOR.validate(document(timed(many(200)) if seen else many(200)))


@pytest.mark.parametrize("case", CASES)
def test_sums_are_those_of_the_run(case: str) -> None:
    run = CASES[case]()
    inference, capture = document(run)["profiles"]
    assert inference["endValue"] == sum(inference["weights"]) == sum(layer.measured_ns for layer in run.layers)
    kernels = [match for layer in run.layers for match in layer.kernels] + list(run.kernels_unattributed)
    assert capture["endValue"] == sum(capture["weights"]) == sum(match.total_ns for match in kernels)


def test_a_layer_is_parted_in_what_is_allowed_and_what_is_lost() -> None:
    run = typical()
    found = document(run)
    by_stack = dict(stacks(found["profiles"][0], found["shared"]["frames"]))
    conv = next(layer for layer in run.layers if layer.name == "/features/1/conv")
    assert by_stack["Conv", conv.name, LOST] == conv.lost_ns
    assert by_stack["Conv", conv.name, ALLOWED] == conv.attainable_ns
    # What has no estimate is not lost.
    assert by_stack["NonMaxSuppression", "/post/Nms"] == 81_000


def test_kernels_of_no_layer_are_beside_the_others() -> None:
    found = document(CASES["all_unmatched"]())
    named = {stack[0] for stack, _ in stacks(found["profiles"][1], found["shared"]["frames"])}
    assert named == {NO_LAYER}


@pytest.mark.parametrize("case", CASES)
def test_lanes_open_and_close_in_order(case: str) -> None:
    run = timed_case(case)
    assert run.timeline is not None
    lanes = document(run)["profiles"][2:]
    kernels = 0
    for lane in lanes:
        opened: list[int] = []
        now = 0
        for event in lane["events"]:
            assert event["at"] >= now
            now = event["at"]
            if event["type"] == "O":
                opened.append(event["frame"])
                kernels += 1
            else:
                assert opened.pop() == event["frame"]
        assert not opened
        assert now <= lane["endValue"] == run.timeline.duration_ns
    # Each event once, and layers around them.
    assert kernels >= len(run.timeline.start_ns)


def test_nothing_is_made_up_where_nobody_saw_when_kernels_ran() -> None:
    assert [profile["type"] for profile in document(typical())["profiles"]] == ["sampled", "sampled"]


def test_hostile_names_are_visible_and_a_layer_is_no_kernel() -> None:
    names = [frame["name"] for frame in document(timed(hostile()))["shared"]["frames"]]
    assert all(name and name.isprintable() for name in names)
    run = typical()
    layer = run.layers[0]
    frames = [frame["name"] for frame in document(run)["shared"]["frames"]]
    assert frames.count(layer.name) == 1
    assert frames.count(layer.kernels[0].kernel) == 1
