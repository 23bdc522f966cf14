from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
import msgspec
import pytest

from tests.fakes.report_factory import CASES, hostile, many, one_layer, typical
from tests.fakes.support import ROOT, golden
from trtprof.base.records import Finding, Run
from trtprof.report import ReportOptions, for_path, get
from trtprof.report.formats.sarif import model_uri

pytestmark = pytest.mark.nightly

GOLDEN = ROOT / "tests/report/golden"
SCHEMA = json.loads((ROOT / "tests/report/schemas" / "sarif-2.1.0.schema.json").read_text("utf-8"))
VALIDATOR = jsonschema.Draft7Validator(SCHEMA, format_checker=jsonschema.FormatChecker())


def log(run: Run, **options: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(get("sarif").render(run, ReportOptions(**options)))["runs"][0]
    return found


def finding(**changes: Any) -> Finding:
    fields: dict[str, Any] = {
        "code": "RL101",
        "title": "memory-bound op far under bandwidth",
        "severity": "warning",
        "where": "/MatMul",
        "evidence": "20 %",
        "lost_ns": 1_000,
        "confidence": 0.5,
        "try_": "pad it",
        "layers": ("/MatMul",),
    }
    return Finding(**{**fields, **changes})


def with_findings(*findings: Finding, run: Run | None = None) -> Run:
    return msgspec.structs.replace(run or one_layer(), findings=findings)


def test_golden() -> None:
    made = get("sarif").render(typical(), ReportOptions())
    golden(GOLDEN / "typical.sarif", made)
    assert for_path("trtprof.sarif").name == "sarif"


@pytest.mark.parametrize("case", CASES)
def test_it_follows_the_schema(case: str) -> None:
    VALIDATOR.validate(json.loads(get("sarif").render(CASES[case](), ReportOptions(file="reports/x"))))


def test_a_finding_over_all_of_10_000_layers_follows_it_too() -> None:
    run = many()
    everywhere = finding(layers=tuple(layer.name for layer in run.layers))
    found = log(with_findings(everywhere, run=run))
    assert len(found["logicalLocations"]) == len(found["results"][0]["locations"][0]["logicalLocations"]) == 20_000


def test_likely_causes_have_a_level_and_doubts_are_for_review() -> None:
    found = log(
        with_findings(
            finding(code="A", severity="critical"),
            finding(code="B", severity="warning"),
            finding(code="C", severity="info"),
            finding(code="D", severity="critical", kind="trust", lost_ns=0),
        )
    )
    levels = {one["ruleId"]: (one["kind"], one["level"]) for one in found["results"]}
    assert levels == {"A": ("fail", "error"), "B": ("fail", "warning"), "C": ("fail", "note"), "D": ("review", "none")}
    rules = found["tool"]["driver"]["rules"]
    assert [rule["defaultConfiguration"]["level"] for rule in rules] == ["error", "warning", "note", "none"]


def test_a_result_points_to_its_rule_its_layer_and_its_nodes() -> None:
    found = log(typical())
    rules = found["tool"]["driver"]["rules"]
    assert [rules[one["ruleIndex"]]["id"] for one in found["results"]] == [one["ruleId"] for one in found["results"]]
    reorder = found["results"][1]["locations"][0]
    named = [found["logicalLocations"][at["index"]] for at in reorder["logicalLocations"]]
    assert [(at["kind"], at["name"]) for at in named] == [
        ("layer", "reorder_1"),
        ("layer", "reorder_2"),
        ("layer", "reorder_3"),
        ("node", "/features/1/conv"),
        ("node", "/features/2/conv"),
        ("node", "/features/3/conv"),
    ]
    assert reorder["physicalLocation"]["artifactLocation"]["uri"] == "models/tinynet.onnx"
    for at, place in zip(reorder["logicalLocations"], named, strict=True):
        assert at["fullyQualifiedName"] == place["fullyQualifiedName"]
    first = found["results"][0]
    assert first["properties"]["lost_ns"] == 1_330_000
    assert "~1.33 ms lost" in first["message"]["text"]


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("models/a.onnx", "models/a.onnx"),
        ("./models//x/../a.onnx", "models/a.onnx"),
        ("/home/someone/models/a.onnx", "a.onnx"),
        ("../elsewhere/a.onnx", "a.onnx"),
        (r"C:\models\a.onnx", "a.onnx"),
        (r"models\a.onnx", "models/a.onnx"),
        ("my model #1?.onnx", "my%20model%20%231%3F.onnx"),
        ("a:b.onnx", "a%3Ab.onnx"),
        ("\ud800.onnx", "%5Cud800.onnx"),
        ("", ""),
    ],
)
def test_the_model_is_a_relative_reference(path: str, uri: str) -> None:
    assert model_uri(path) == uri


def marks(run: Run) -> list[str]:
    return [one["partialFingerprints"]["trtprofFinding/v1"] for one in log(run)["results"]]


def test_fingerprints_stay_over_times_devices_and_names_of_layers() -> None:
    run = with_findings(finding())
    (layer,) = run.layers
    renamed = msgspec.structs.replace(layer, name="__myl_MulSum_0", measured_ns=5, lost_ns=1)
    later = msgspec.structs.replace(
        run,
        layers=(renamed,),
        device=msgspec.structs.replace(run.device, name="another"),
        findings=(finding(layers=("__myl_MulSum_0",), lost_ns=7, evidence="30 %", severity="info"),),
    )
    assert marks(run) == marks(later)
    assert marks(with_findings(finding(code="RL102"))) != marks(run)
    elsewhere = msgspec.structs.replace(layer, nodes=("/Other",))
    assert marks(msgspec.structs.replace(run, layers=(elsewhere,))) != marks(run)


def test_two_findings_of_one_place_are_told_apart() -> None:
    first, second = marks(with_findings(finding(), finding(evidence="again")))
    assert first.partition(":")[0] == second.partition(":")[0]
    assert first != second


def test_fingerprints_of_the_whole_run_are_of_the_place_in_words() -> None:
    whole = finding(code="TR903", kind="trust", layers=(), where="the whole run")
    assert marks(with_findings(whole)) == marks(with_findings(whole, run=typical()))


def test_messages_hold_no_placeholder_no_link_and_nothing_that_hides() -> None:
    text = "see [this](http://x) and {0} \u202e"
    (result,) = log(with_findings(finding(title=text, where="", evidence="", try_="")))["results"]
    assert result["message"]["text"].startswith("see \\[this\\](http://x) and {{0}} \\u202e (")
    hidden = re.compile(r"[\x00-\x09\x0b-\x1f\u202e\u2028]")
    assert not hidden.search(get("sarif").render(hostile(), ReportOptions()))


def test_the_run_says_when_on_what_and_where_it_lies() -> None:
    found = log(typical(), file="reports/tinynet-1")
    assert found["invocations"] == [{"executionSuccessful": True, "endTimeUtc": "2026-11-20T10:01:02Z"}]
    assert found["properties"]["run_folder"] == "reports/tinynet-1"
    assert found["properties"]["latency_median_ns"] == typical().latency.median_ns
    never = log(msgspec.structs.replace(typical(), created="some day"))
    assert never["invocations"] == [{"executionSuccessful": True}]


def test_no_finding_is_an_empty_list_of_results() -> None:
    assert log(CASES["empty"]())["results"] == []
