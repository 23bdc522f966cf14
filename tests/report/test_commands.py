"""How a finding's remedy is tried: its command is whole in every format, and absent where there is none."""

from __future__ import annotations

import json

import msgspec
import pytest

from tests.fakes import report_factory as factory
from trtprof.base.records import Explanation, Interval, LadderStep, PluginCandidate, Run, TriedRung
from trtprof.report import ReportOptions, get, render

LONG = "trtprof try a/folder/with/a/long/name/model.onnx --shapes tokens:1x384 --loadInputs tokens:t.npy"


def with_commands(*, long: bool = True) -> Run:
    run = factory.typical()
    tries = LONG if long else "trtprof try m.onnx"
    return msgspec.structs.replace(
        run,
        findings=tuple(
            one if one.kind == "trust" else msgspec.structs.replace(one, command=f"{tries} --only {one.code}")
            for one in run.findings
        ),
    )


def made(run: Run, form: str, **options: object) -> str:
    return str(get(form).render(run, ReportOptions(**options)))  # type: ignore[arg-type]


CODES = [one.code for one in with_commands().findings if one.command]


@pytest.mark.parametrize("form", ["json", "html", "junit", "csv"])
def test_a_document_has_the_command_of_each_finding(form: str) -> None:
    said = made(with_commands(), form, table="findings")
    assert len(CODES) == 2
    assert all(f"{LONG} --only {code}" in said for code in CODES)


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_the_first_screen_has_the_command_of_each_step(form: str) -> None:
    """It is whole however narrow: a command that is cut cannot be run."""
    for width in (60, 80, 200):
        said = made(with_commands(), form, width=width)
        assert all(f"{LONG} --only {code}" in said for code in CODES)


def test_the_list_of_findings_has_the_command_of_each() -> None:
    said = made(with_commands(), "text", top=3)
    assert all(f"{LONG} --only {code}" in said for code in CODES)
    assert "**** " not in made(with_commands(), "markdown")


@pytest.mark.parametrize("form", ["html", "junit", "text", "markdown"])
def test_without_a_command_nothing_is_said_of_one(form: str) -> None:
    assert "trtprof try" not in made(factory.typical(), form, top=5)
    assert "command: " not in made(factory.typical(), "junit")


def test_what_makes_a_model_is_a_command_of_its_own() -> None:
    run = with_commands()
    first, *rest = (one for one in run.findings if one.kind != "trust")
    helped = msgspec.structs.replace(first, command="trtprof try m.onnx --rung gemv-as-reduce -o best.onnx")
    said = made(msgspec.structs.replace(run, findings=(helped, *rest)), "text")
    assert "--rung gemv-as-reduce -o best.onnx\n" in said
    assert f"--only {rest[0].code}\n" in said


def test_a_measured_step_says_so_and_carries_no_mark_of_an_estimate() -> None:
    run = factory.of_engine(factory.typical(), ("conv",))
    step = LadderStep(
        what="the batch folded", command="trtprof try m.onnx --rung gemv-fold-batch -o best.onnx", gain_ns=1_200_000,
        basis="measured: 3.2x (3.1 to 3.3)", rung="gemv-fold-batch",
        tried=TriedRung(name="gemv-fold-batch", verdict="helps", gain=Interval(value=3.2, low=3.1, high=3.3)),
    )  # fmt: skip
    candidate = PluginCandidate(
        layer=run.layers[0].name, nodes=(), kernel="", measured_ns=9, reachable_ns=5, basis="", recoverable_ns=4,
        barrier=(), net_ns=3, net_low_ns=2, net_high_ns=4, verdict="try first", why="cheaper", ladder=(step,),
    )  # fmt: skip
    run = msgspec.structs.replace(run, candidates=(candidate,))
    for form in ("text", "markdown", "html"):
        said = made(run, form, top=3)
        assert "measured: 3.2x (3.1 to 3.3)" in said
        assert "~1.20 ms" not in said


def test_an_explanation_says_what_to_try() -> None:
    run = with_commands()
    finding = next(one for one in run.findings if one.command)
    layer = run.layers[0]
    found = Explanation(
        schema_version=1, code=finding.code, title=finding.title, layer=layer.name, op_type=layer.op_type,
        nodes=layer.nodes, measured_ns=layer.measured_ns, attainable_ns=layer.attainable_ns, lost_ns=layer.lost_ns,
        bound=layer.bound, outcome="claims", why="it claims the layer", findings=(finding,),
    )  # fmt: skip
    said = " ".join(str(render(found, "text")).split())
    assert f"{finding.try_} {finding.command}" in said
    assert json.loads(str(render(found, "json")))["findings"][0]["command"] == finding.command
