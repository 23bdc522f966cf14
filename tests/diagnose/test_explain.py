"""Why a rule speaks of a layer or not: the answer is that of the report, and says with what numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.fakes import cpu_rule_cases, kernel_rule_cases, plan_rule_cases, rule_cases
from tests.fakes.cases import Timed, engine_case, gemv, layer, make_case, relu
from tests.fakes.support import refused
from trtprof.base.errors import UsageError
from trtprof.base.records import PlanEdge
from trtprof.diagnose import RULES, THRESHOLDS, Case, Claim, Judge, Rule, Thresholds, rank
from trtprof.diagnose.config import meanings
from trtprof.diagnose.explain import explain, layer_of
from trtprof.diagnose.rank import OF_EVERY_FINDING, diagnose

FILES = (rule_cases, kernel_rule_cases, plan_rule_cases, cpu_rule_cases)
CASES: dict[str, Case] = {
    f"{code} {kind}": case
    for file in FILES
    for kind in ("POSITIVE", "NEGATIVE")
    for code, case in getattr(file, kind).items()
}
BIG = Timed(relu("big", "u", "v", 10_000_000))


def test_an_explanation_says_what_the_report_says(subtests: pytest.Subtests) -> None:
    for name, case in CASES.items():
        with subtests.test(name):
            findings = diagnose(case)
            for one in RULES.values():
                for about in case.layers:
                    found = explain(case, one.code, about.name)
                    named = [f for f in findings if about.name in f.layers or f.where == about.name]
                    assert found.findings == tuple(named)
                    assert (found.outcome == "claims") == any(f.code == one.code for f in named)
                    assert found.why
                    assert found.why[0] not in " ,;"
                    if found.outcome == "run":
                        assert any(f.code == one.code and f.evidence in found.why for f in findings)
                    if found.outcome == "silent":
                        assert all(about.name not in claim.layers for claim in one.check(case) if claim.kind != "trust")


def test_a_rule_gives_its_own_reason_for_its_near_miss(subtests: pytest.Subtests) -> None:
    for code in rule_cases.NEGATIVE:
        with subtests.test(code=code):
            case = rule_cases.NEGATIVE[code]
            found = explain(case, code, case.layers[0].name)
            assert found.outcome in ("silent", "dropped")
            assert "does not find in the layer what it is about" not in found.why


def test_what_a_more_specific_rule_has_claimed_is_said_to_be_taken() -> None:
    chained = rule_cases.chain(slow=5.0)
    found = explain(chained, "RL101", "exp")
    assert found.outcome == "taken"
    assert "a more specific rule has claimed the layer first: FU301" in found.why
    assert "Without it, this one would: " in found.why
    # A rule that would not want it gives its own reason.
    assert "is bound by DRAM, not by multiply-accumulates" in explain(chained, "RL102", "exp").why


def test_a_claim_that_is_too_small_is_said_to_be_dropped_with_its_share() -> None:
    case = make_case(BIG, Timed(relu("small", "x", "y", 10_000), 4.0), clock_resolution_ns=0)
    assert not any("small" in finding.layers for finding in diagnose(case))
    found = explain(case, "RL101", "small")
    assert found.outcome == "dropped"
    assert "0.3 % of latency, of which a finding needs 1.0 %" in found.why
    strict = case._replace(thresholds=THRESHOLDS._replace(min_share=0.0001))
    assert explain(strict, "RL101", "small").outcome == "claims"


def test_reasons_have_their_numbers(subtests: pytest.Subtests) -> None:
    rows: list[tuple[Case, str, str]] = [
        (make_case(BIG), "RL101", "8.00 ms measured, 8.00 ms attainable here is 100.0 %, and under 50.0 % is far"),
        (make_case(BIG._replace(ns=0), BIG._replace(layer=relu("b", "p", "q"))), "RL101", "took no time"),
        (
            make_case(BIG._replace(slow=3.0), clock_resolution_ns=10**9),
            "RL101",
            "8.00 ms attainable here: the difference is within the step of the clock that timed it, 1.00 s",
        ),
        (make_case(BIG), "LA401", "is bound by DRAM, not by the time of an empty kernel (memory 8.00 ms"),
        (make_case(Timed(layer("odd", "NoSuchOp", (), ()), ns=1000)), "RL102", "attain is not known"),
        (make_case(BIG, partial=frozenset({"big"})), "RL102", "only a part of the layer's work is known"),
        (make_case(rule_cases.reorder(1000), BIG), "RL101", "none of the model's work: it only brings tensors"),
        (make_case(BIG), "LY201", "its role is compute"),
        (make_case(BIG), "CN601", "not all inputs of the layer are constants"),
        (make_case(BIG), "TR903", "p50 8.00 ms, p99 8.80 ms; p99 is 1.1 times the median, and 2 counts"),
        (make_case(BIG), "TR905", "no clock of a GPU was sampled"),
        (make_case(BIG), "TR906", "told of nothing that held a clock down"),
        (rule_cases.held(0.05), "TR906", "10.0 % of the time"),
        (make_case(BIG), "HO501", "1.00 us, 0.0 % of latency, where 10.0 %"),
        (make_case(BIG, gap_ns=3_000_000), "HO501", "it speaks of between and around the kernels, not of a layer"),
        (make_case(Timed(gemv())), "FU301", "MatMul is no elementwise op"),
        (make_case(BIG), "FU301", "no other elementwise layer"),
    ]
    for case, code, words in rows:
        with subtests.test(code=code, words=words):
            assert words in explain(case, code, case.layers[0].name).why


def test_a_rule_of_edges_says_what_stands_against_them() -> None:
    pair = (Timed(relu("first", "x", "m"), 2.0), Timed(relu("second", "m", "y"), 2.0))
    alone = explain(engine_case(*pair), "FU301", "first")
    assert "no tensor of the layer is left in memory" in alone.why
    edge = PlanEdge(
        tensor="m", maker="first", readers=("second",), kind="pointwise", expected=False, reason="m is an output",
        bytes=8_000_000, saved_ns=800_000,
    )  # fmt: skip
    kept_apart = explain(engine_case(*pair, edges=(edge,)), "FU301", "first")
    assert kept_apart.outcome == "silent"
    assert "m (pointwise) would save 800 us; m is an output" in kept_apart.why
    wanted = engine_case(*pair, edges=(msgspec.structs.replace(edge, expected=True),))
    assert explain(wanted, "FU301", "second").outcome == "claims"
    assert "second would be absorbed" in explain(wanted, "FU301", "first").why


def test_a_rule_without_reasons_of_its_own_gets_one_from_the_numbers() -> None:
    def check(_case: Case) -> Iterator[Any]:
        yield from ()

    mute = Rule("XX001", "never speaks", check, 50, "Never.\n\nWhat:\n    Nothing at all.\n")
    case = make_case(BIG)
    RULES.register("XX001")(mute)
    try:
        found = explain(case, "XX001", "big")
    finally:
        del RULES._entries["XX001"]
    assert found.outcome == "silent"
    assert found.why.startswith(
        "the rule does not find in the layer what it is about: Nothing at all. Beside that, the"
    )
    assert "is not far from its roofline" in found.why


def test_a_layer_goes_by_its_name_its_node_or_a_part_that_no_other_has() -> None:
    fused = relu("conv1 + relu1", "x", "m", nodes=("/a/conv1", "/a/relu1"))
    case = make_case(Timed(fused), Timed(relu("conv10", "m", "y", nodes=("/a/conv10",))))
    for name in ("conv1 + relu1", "/a/conv1", "/a/relu1", "RELU1"):
        assert layer_of(case, name).name == "conv1 + relu1"
    assert layer_of(case, "conv10").name == "conv10"
    with pytest.raises(UsageError, match="2 layers are called 'conv'") as error:
        layer_of(case, "conv")
    assert "conv1 + relu1, conv10" in refused(error.value)
    with pytest.raises(UsageError, match="no layer with a measured time") as error:
        layer_of(case, "/a/conv2")
    assert "the nearest: " in refused(error.value)
    with pytest.raises(UsageError, match="'zzz'") as error:
        layer_of(case, "zzz")
    assert "there are 2 layers" in refused(error.value)


class Recorder:
    """Thresholds that remember which were read."""

    def __init__(self) -> None:
        self.read: set[str] = set()

    def __getattr__(self, name: str) -> float:
        self.read.add(name)
        value: float = getattr(THRESHOLDS, name)
        return value


def test_the_thresholds_of_a_rule_are_those_that_it_declares() -> None:
    """What it declares, against what it reads over all the cases that rules are tested with."""
    recorders = {one.code: Recorder() for one in RULES.values()}
    for case in CASES.values():
        for one in RULES.values():
            watched = case._replace(thresholds=recorders[one.code])  # type: ignore[arg-type]
            for origin in ("measured", "datasheet"):
                ceilings = msgspec.structs.replace(case.ceilings, origin=origin)
                seen = watched._replace(ceilings=ceilings)
                list(one.check(seen))
                if one.reason is not None:
                    for about in case.layers:
                        one.reason(seen, about)
    for one in RULES.values():
        read = recorders[one.code].read
        assert read <= set(one.thresholds), one.code
        if one.code in rule_cases.POSITIVE:
            assert read == set(one.thresholds), one.code


def test_what_decides_of_every_finding_is_declared_too() -> None:
    recorder = Recorder()
    case = make_case(BIG, cv=0.5, thresholds=recorder)
    tenth = {case.layers[0].name: case.layers[0].measured_ns // 10}
    assert diagnose(case, [Rule("AA001", "a tenth", lambda _: [Claim("", "", "", tenth)], 1, "")])
    assert recorder.read == set(OF_EVERY_FINDING)


def test_every_threshold_has_a_meaning_and_somebody_who_uses_it() -> None:
    assert set(meanings()) == set(Thresholds._fields)
    assert all(len(meaning) > 20 and meaning.endswith(".") for meaning in meanings().values())
    package = Path(rank.__file__).parent
    source = "".join(path.read_text(encoding="utf-8") for path in package.rglob("*.py"))
    assert [name for name in Thresholds._fields if not re.search(rf"thresholds\.{name}\b", source)] == []


def test_a_judge_sets_thresholds_shows_the_case_and_says_what_is_not_a_default() -> None:
    cases: list[Case] = []
    strict = THRESHOLDS._replace(min_share=0.02)
    judge = Judge(strict, cases.append)
    case = judge.takes(make_case(BIG))
    assert cases == [case]
    assert case.thresholds == strict
    assert judge.notes == ("the threshold min-share is 0.02, by default 0.01",)
    assert Judge().notes == ()
