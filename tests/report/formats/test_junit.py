from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import msgspec
import pytest

from tests.fakes.report_factory import CASES, of_engine, one_layer, typical
from trtprof.base.records import Finding, Run
from trtprof.report import ReportOptions, get


def suite(run: Run, **options: Any) -> ET.Element:
    text = get("junit").render(run, ReportOptions(**options))
    found = ET.fromstring(text.encode()).find("testsuite")  # noqa: S314 - it is our own
    assert found is not None
    return found


def case(run: Run, start: str) -> ET.Element:
    (found,) = [one for one in suite(run).iter("testcase") if one.get("name", "").startswith(start)]
    return found


def properties(element: ET.Element) -> dict[str, str]:
    return {one.get("name", ""): one.get("value", "") for one in element.findall("properties/property")}


def finding(code: str, **changes: Any) -> Finding:
    fields: dict[str, Any] = {
        "code": code,
        "title": "a title",
        "severity": "warning",
        "where": "/MatMul",
        "evidence": "20 %",
        "lost_ns": 1_000,
        "confidence": 0.5,
        "try_": "pad it",
    }
    return Finding(**{**fields, **changes})


def with_findings(*findings: Finding) -> Run:
    return msgspec.structs.replace(one_layer(), findings=findings)


def test_counts_are_those_of_the_cases(subtests: pytest.Subtests) -> None:
    for name in CASES:
        with subtests.test(name=name):
            found = suite(CASES[name]())
            cases = found.findall("testcase")
            assert found.get("tests") == str(len(cases))
            for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
                assert found.get(attribute) == str(len(found.findall(f"testcase/{tag}")))
            for one in cases:
                assert one.get("classname", "").startswith("trtprof.")
                assert len([child for child in one if child.tag in ("failure", "error", "skipped")]) <= 1
            names = [one.get("name") for one in cases]
            assert len(set(names)) == len(names)
            assert names[-2:] == ["coverage", "verdict"]


def test_causes_fail_and_doubts_do_not(subtests: pytest.Subtests) -> None:
    for severity, kind, outcome in [
        ("critical", "hypothesis", "failure"),
        ("warning", "hypothesis", "failure"),
        ("info", "hypothesis", None),
        ("critical", "trust", "skipped"),
        ("warning", "trust", "skipped"),
        ("info", "trust", "skipped"),
    ]:
        with subtests.test(severity=severity, kind=kind, outcome=outcome):
            one = case(with_findings(finding("RL101", severity=severity, kind=kind)), "RL101")
            assert [child.tag for child in one if child.tag not in ("properties", "system-out")] == [outcome] * bool(
                outcome
            )
            words = [child.get("message", "") for child in one.iter("skipped")]
            assert all(message.startswith("a doubt, no failure: a title") for message in words)


def test_findings_of_one_code_are_one_case_and_sum_up() -> None:
    run = with_findings(finding("A", severity="info"), finding("A", severity="critical", lost_ns=500), finding("B"))
    one = case(run, "A ")
    assert properties(one)["findings"] == "2"
    assert properties(one)["estimate.lost_ns"] == "1500"
    failure = one.find("failure")
    assert failure is not None
    assert failure.get("type") == "critical"
    assert (failure.text or "").count("try: pad it") == 2


def test_low_coverage_and_a_verdict_withheld_are_errors() -> None:
    assert case(typical(), "coverage").find("error") is None
    assert case(CASES["all_unmatched"](), "coverage").find("error") is not None
    low = finding("TR902", kind="trust", evidence="40 % is attributed")
    run = msgspec.structs.replace(with_findings(low), verdict="no verdict: only 40 % is attributed")
    error = case(run, "coverage").find("error")
    assert error is not None
    assert error.get("message") == "40 % is attributed"
    assert case(run, "verdict").find("error") is not None
    assert case(run, "TR902").find("failure") is None


def test_numbers_are_properties_and_unknown_has_none() -> None:
    found = properties(suite(typical(), file="reports/x"))
    assert found["latency_median_ns"] == str(typical().latency.median_ns)
    assert found["run_folder"] == "reports/x"
    layers = properties(suite(of_engine(typical())))
    assert layers["layers_sum_ns"] == str(typical().latency.median_ns)
    assert not {"latency_median_ns", "latency_p99_ns"} & set(layers)
    assert "estimate.attainable_ns" not in properties(suite(CASES["all_unmatched"]()))
    assert properties(case(typical(), "coverage"))["exact"] == "0.93"
