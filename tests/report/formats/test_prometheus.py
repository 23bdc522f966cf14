"""The text exposition format 0.0.4, by a parser that takes nothing else."""

from __future__ import annotations

import re

import pytest

from tests.fakes.fleet_reports import cell, done, hostile, made_up, report_of
from trtprof.base.errors import UsageError
from trtprof.base.records import Run
from trtprof.base.text_file import visible
from trtprof.report import for_path, get, render

pytestmark = pytest.mark.nightly

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
HELP = re.compile(rf"# HELP ({NAME}) ((?:[^\\\n]|\\\\|\\n)*)")
TYPE = re.compile(rf"# TYPE ({NAME}) (counter|gauge|histogram|summary|untyped)")
SAMPLE = re.compile(rf"({NAME})(?:\{{(.*)\}})? (\S+)")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"(,|$)')
ESCAPES = {r"\\": "\\", r"\"": '"', r"\n": "\n"}

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parsed(text: str) -> Samples:
    """Each sample by its name and labels; help, then type, then all samples of a metric, once."""
    assert text.endswith("\n")
    found: Samples = {}
    seen: list[str] = []
    helped = typed = ""
    for line in text.removesuffix("\n").split("\n"):
        if match := HELP.fullmatch(line):
            helped = match[1]
            assert helped not in seen
        elif match := TYPE.fullmatch(line):
            typed = match[1]
            assert typed == helped
            seen.append(typed)
        else:
            match = SAMPLE.fullmatch(line)
            assert match, line
            assert match[1] == typed
            key = match[1], labels(match[2] or "")
            assert key not in found
            found[key] = float(match[3])
    return found


def labels(text: str) -> frozenset[tuple[str, str]]:
    found, at = {}, 0
    while at < len(text):
        match = LABEL.match(text, at)
        assert match, text[at:]
        assert match[1] not in found
        found[match[1]] = re.sub(r"\\.", lambda escaped: ESCAPES[escaped[0]], match[2])
        at = match.end()
    return frozenset(found.items())


def test_every_line_is_of_the_format() -> None:
    found = parsed(render(made_up(), "prometheus"))
    names = {name for name, _ in found}
    assert all(name.startswith("trtprof_fleet_") for name in names)
    for metric in ("latency_seconds", "expected_seconds", "bound_seconds", "cells", "energy_joules_measured",
                   "cost_per_million_requests_expected", "hours_per_day", "busy_targets"):  # fmt: skip
        assert f"trtprof_fleet_{metric}" in names
    assert for_path("fleet.prom").name == "prometheus"


def test_units_are_base_units_and_what_is_unknown_has_no_sample() -> None:
    rows = [
        done(cell("a", "x", verb="run"), latency_ns=2_500_000, bound_ns=1_000_000),
        done(cell("a", "y"), expected_ns=3_000_000),
    ]
    found = parsed(render(report_of(rows, {"y": 3.6}), "prometheus"))

    def of(metric: str) -> dict[str, float]:
        return {dict(key)["target"]: value for (name, key), value in found.items() if name == f"trtprof_fleet_{metric}"}

    assert of("latency_seconds") == {"x": 0.0025}
    assert of("bound_seconds") == {"x": 0.001}
    assert of("expected_seconds") == {"y": 0.003}
    assert of("cost_per_million_requests_expected") == {"y": pytest.approx(3.0)}
    assert of("cost_per_million_requests_measured") == {}


def test_hostile_names_come_back_as_other_reports_show_them() -> None:
    fleet = hostile()
    found = parsed(render(fleet, "prometheus"))
    models = {dict(key)["model"] for name, key in found if name == "trtprof_fleet_latency_seconds"}
    assert models == {visible(one.model) for one in fleet.answers if one.status == "done"}


def test_it_is_of_fleets_alone() -> None:
    with pytest.raises(UsageError, match="prometheus is not for this report"):
        get("prometheus", Run)
