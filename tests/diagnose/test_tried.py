"""What `trtprof try` measured, in the findings of a run and in the ladder before a plugin; and how it is asked for."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.fakes import cpu_rule_cases, kernel_rule_cases, plan_rule_cases, rule_cases
from tests.fakes.cases import only
from tests.fakes.plugin_cases import story, weigh
from trtprof.base.records import (
    Backend,
    Device,
    Finding,
    Interval,
    ModelInfo,
    PluginCandidate,
    Rung,
    RungKind,
    RungVerdict,
    Tried,
)
from trtprof.diagnose import THRESHOLDS, Case
from trtprof.diagnose.rank import diagnose

FIRES = {**rule_cases.POSITIVE, **kernel_rule_cases.POSITIVE, **plan_rule_cases.POSITIVE, **cpu_rule_cases.POSITIVE}

TRIES = "trtprof try story.onnx --shapes a:1x2"


def rung(
    name: str,
    verdict: RungVerdict = "helps",
    gain: float | None = 7.1,
    *answers: str,
    kind: RungKind = "rewrite",
    nodes: tuple[str, ...] = ("gemv",),
    **fields: Any,
) -> Rung:
    """One that was measured to within 3 %."""
    interval = None if gain is None else Interval(value=gain, low=0.97 * gain, high=1.03 * gain)
    return Rung(
        name=name, kind=kind, title=f"what {name} does", verdict=verdict, gain=interval, answers=answers, nodes=nodes,
        **fields,
    )  # fmt: skip


def tried(*rungs: Rung) -> Tried:
    return Tried(
        schema_version=1, model=ModelInfo(name="story", path="story.onnx", sha256="", ir_version=10, opsets={"": 20}),
        backend=Backend(name="ort-cpu", reason="asked for"), device=Device(name="any", kind="cpu"), created="",
        version="", command="", threads=1, latency=None, verdict="", rungs=rungs, best=None, candidates=len(rungs),
        budget_s=1.0, spent_s=1.0,
    )  # fmt: skip


def found_in(case: Case, *rungs: Rung, tries: str = TRIES, backend: str = "ort-cuda", code: str = "RL101") -> Finding:
    return only(case._replace(tries=tries, backend=backend, tried=tried(*rungs) if rungs else None), code)


CPU = FIRES["RL101"]  # The gemv of the story, with nothing measured beside it


def test_a_finding_that_a_rung_answers_says_how_to_try_it() -> None:
    bare = only(CPU, "RL101")
    asked = found_in(CPU)
    assert (bare.command, asked.command) == ("", f"{TRIES} --only RL101")
    assert asked.try_ == bare.try_
    assert asked.tried == ()


def test_no_doubt_about_the_numbers_has_one() -> None:
    for code, case in FIRES.items():
        for finding in diagnose(case._replace(tries=TRIES, backend="ort-cuda", tried=tried(rung("any", "helps", 2)))):
            assert finding.kind != "trust" or (finding.command, finding.tried) == ("", ()), code


def test_what_helps_stands_in_place_of_the_bare_remedy() -> None:
    finding = found_in(
        CPU,
        rung("threads-1", "slower", 0.5, "RL101", kind="option", nodes=()),
        rung("gemv-fold-batch", "helps", 6.5, "RL101"),
        rung("gemv-as-reduce", "helps", 7.1, "RL101"),
        rung("split-products", "no difference", 1.0, "RL101"),
        rung("conv1d-as-conv2d", "wrong", None, "RL101"),
    )
    assert finding.try_ == (
        "tried: gemv-as-reduce, 7.1x (6.89 to 7.31) and gemv-fold-batch, 6.5x (6.3 to 6.7); "
        "without effect: split-products; slower: threads-1; wrong: conv1d-as-conv2d"
    )
    assert finding.command == f"{TRIES} --rung gemv-as-reduce,gemv-fold-batch -o best.onnx"
    assert [one.name for one in finding.tried] == [
        "gemv-as-reduce", "gemv-fold-batch", "split-products", "threads-1", "conv1d-as-conv2d",
    ]  # fmt: skip
    assert finding.lost_ns == only(CPU, "RL101").lost_ns


def test_what_was_tried_without_effect_is_said_behind_the_remedy() -> None:
    finding = found_in(CPU, rung("gemv-as-reduce", "no difference", 1.0, "RL101"))
    assert finding.try_ == f"{only(CPU, 'RL101').try_}; tried: without effect: gemv-as-reduce"
    assert finding.command == ""


def test_what_says_nothing_of_a_finding_leaves_it_as_it_is(subtests: pytest.Subtests) -> None:
    """A rung of another rule or of other nodes, one that was not measured, and one on top of others."""
    rows: list[Rung] = [
        rung("gemv-as-reduce", "helps", 7.1, "LA401"),
        rung("gemv-as-reduce", "helps", 7.1, "RL101", nodes=("another",)),
        rung("gemv-as-reduce", "not measured", None, "RL101"),
        rung("gemv-as-reduce", "refused", None, "RL101"),
        rung("a+b", "helps", 7.1, "RL101", kind="combination"),
    ]
    for other in rows:
        with subtests.test(str(other)[:100]):
            assert found_in(CPU, other) == found_in(CPU)


def weighed(*rungs: Rung, ns: int = 1_900_000, tries: str = TRIES) -> PluginCandidate:
    case, plan = story(ns)
    return weigh(case._replace(tried=tried(*rungs) if rungs else None, tries=tries), plan)


def test_a_measured_rung_that_brings_as_much_comes_before_a_plugin() -> None:
    assert weighed().verdict == "write it"
    found = weighed(rung("gemv-as-reduce", "helps", 5.0))
    step = found.ladder[0]
    assert found.verdict == "try first"
    assert step.what == "what gemv-as-reduce does"
    assert step.basis == "measured: 5x (4.85 to 5.15)"
    assert step.gain_ns == pytest.approx(1_900_000 * 0.8, rel=0.01)
    assert step.command == f"{TRIES} --rung gemv-as-reduce -o best.onnx"
    assert found.why.startswith("cheaper: what gemv-as-reduce does, measured: 5x (4.85 to 5.15), which is 1.52 ms")


def test_how_much_it_must_bring_is_the_threshold_of_cheaper_fixes() -> None:
    """It decides on what was measured."""
    net = weighed().net_ns
    for share, verdict in ((THRESHOLDS.cheaper_fix + 0.02, "try first"), (THRESHOLDS.cheaper_fix - 0.02, "write it")):
        gain = 1 / (1 - share * net / 1_900_000)
        assert weighed(rung("gemv-as-reduce", "helps", gain)).verdict == verdict


@pytest.mark.parametrize(
    ("verdict", "gain", "said"),
    [
        ("no difference", 1.0, "tried without effect: 1x (0.97 to 1.03)"),
        ("slower", 0.5, "tried, slower: 0.5x (0.485 to 0.515)"),
        ("wrong", None, "tried, wrong: on zeros: NaN"),
        ("failed", None, "tried, failed: on zeros: NaN"),
    ],
)
def test_what_was_tried_without_gain_is_said_and_no_cheaper_fix(
    verdict: RungVerdict, gain: float | None, said: str
) -> None:
    reason = "on zeros: NaN" if gain is None else ""
    found = weighed(rung("gemv-as-reduce", verdict, gain, reason=reason))
    assert found.verdict == "write it"
    assert (found.ladder[0].gain_ns, found.ladder[0].basis) == (0, said)
    assert found.why.endswith("tried without gain: what gemv-as-reduce does")
    assert "950 us" in found.why


@pytest.mark.parametrize(
    ("verdict", "gain", "expected"), [("no difference", 1.0, "write it"), ("helps", 4.0, "try first")]
)
def test_an_option_is_measured_in_place_of_what_was_predicted_of_it(
    verdict: RungVerdict, gain: float, expected: str
) -> None:
    """Half precision is predicted to bring half: measured it decides, either way."""
    option = rung("fp16", verdict, gain, kind="option", nodes=(), options={"--fp16": "1"})
    before, after = weighed(ns=600_000), weighed(option, ns=600_000)
    assert (before.verdict, before.ladder[0].what) == ("try first", "half precision")
    assert after.verdict == expected
    assert [step.what for step in after.ladder] == [step.what for step in before.ladder]
    assert after.ladder[0].tried == msgspec.convert(
        {"name": "fp16", "verdict": verdict, "gain": option.gain}, type(after.ladder[0].tried), from_attributes=True
    )


def test_a_rung_of_another_node_or_an_option_without_effect_leaves_the_ladder_as_it_is() -> None:
    others = (
        rung("gemv-as-reduce", "helps", 7.0, nodes=("another",)),
        rung("no-arena", "no difference", 1.0, kind="option", nodes=(), options={"enable_cpu_mem_arena": "0"}),
        rung("gemv-as-reduce+x", "helps", 9.0, kind="combination"),
    )
    assert weighed(*others) == weighed()
