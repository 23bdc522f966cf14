"""Layers weighed for a hand-written kernel, as each report shows them. All numbers are invented."""

from __future__ import annotations

import html as html_module
import json
import re
import shlex
from typing import Literal

import msgspec
import pytest

from tests.fakes.report_factory import of_engine, on_gpu, typical
from trtprof.base.records import BarrierPart, LadderStep, PluginCandidate, Run
from trtprof.report import ReportOptions, get, render

FP16 = "trtprof run MODEL --fp16 -o reports/b"
Verdict = Literal["write it", "try first", "do not"]


def candidate(name: str, verdict: Verdict = "write it", net: int = 1_570_000) -> PluginCandidate:
    return PluginCandidate(
        layer=name,
        nodes=(name,),
        kernel=f"{name}_kernel",
        measured_ns=1_900_000,
        reachable_ns=320_000,
        basis=f"85 % of the roofline of {name}",
        recoverable_ns=1_580_000,
        barrier=(BarrierPart(what=f"a reformat of {name}", ns=8000, bytes=4096), BarrierPart(what="a launch", ns=2000)),
        net_ns=net,
        net_low_ns=net - 200_000,
        net_high_ns=net + 100_000,
        verdict=verdict,
        why=f"what could be won back of {name}",
        ladder=(
            LadderStep(what="half precision", command=FP16, gain_ns=950_000, basis=name),
            LadderStep(what="a higher level", command="trtprof run MODEL -o reports/b", basis=name),
        ),
        command="" if verdict == "do not" else f"trtprof plugin RUN {shlex.quote(name)}",
    )  # fmt: skip


def weighed(*found: PluginCandidate, run: Run | None = None) -> Run:
    return msgspec.structs.replace(of_engine(typical()) if run is None else run, candidates=found)


def text(run: Run, *, top: int | None = None, width: int = 100, ascii_only: bool = False) -> str:
    return get("text").render(run, ReportOptions(width=width, top=top, ascii=ascii_only))


def html(run: Run) -> str:
    return get("html").render(run, ReportOptions())


def test_a_run_without_candidates_says_nothing_of_them() -> None:
    run = of_engine(typical())
    assert "plugins" not in text(run)
    assert 'id="plugins"' not in html(run)
    assert "#plugins" not in html(run)


def test_the_text_has_the_verdict_the_gain_the_reason_and_the_ladder_below_the_page() -> None:
    lines = text(weighed(candidate("gemv"))).splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("plugins")) - 1
    assert lines[start] == ""
    assert lines[start + 1] == "plugins   1 of 1 layer weighed, by what a custom kernel would net"
    assert lines[start + 2] == "write it  ~1.57 ms net (1.37 ms to 1.67 ms)  gemv"
    assert lines[start + 3] == "          why  what could be won back of gemv"
    assert lines[start + 4] == "          try  half precision, ~950 us: trtprof run MODEL --fp16 -o reports/b"
    assert lines[start + 5] == "          try  a higher level, gain unknown: trtprof run MODEL -o reports/b"
    assert lines[start + 6] == "          then trtprof plugin RUN gemv"
    assert lines[start + 7] == ""


def test_a_command_is_never_cut_at_the_usual_width() -> None:
    step = LadderStep(
        what="a" * 40, command="trtprof run MODEL --builderOptimizationLevel 5 -o reports/b", basis="none"
    )
    shown = text(weighed(msgspec.structs.replace(candidate("gemv"), ladder=(step,))), width=80).splitlines()
    at = next(index for index, line in enumerate(shown) if "a" * 40 in line)
    assert shown[at].endswith("gain unknown")
    assert shown[at + 1] == " " * 15 + step.command


@pytest.mark.parametrize("verdict", ["write it", "try first", "do not"])
def test_what_goes_on_is_named_where_a_kernel_may_pay(verdict: Verdict) -> None:
    """In every format, and in a terminal with the folder of the run in place of its stand-in."""
    run = weighed(candidate("gemv", verdict), candidate("other one", verdict))
    goes_on = verdict != "do not"
    for form in ("text", "markdown", "html", "json"):
        assert ("trtprof plugin RUN gemv" in html_unescaped(render(run, form))) == goes_on, form
    assert ("trtprof plugin RUN 'other one'" in render(run, "csv", table="plugins")) == goes_on
    shown = get("text").render(run, ReportOptions(width=80, file="reports/a"))
    assert ("trtprof plugin reports/a gemv" in shown) == goes_on
    assert "plugin RUN" not in shown


def html_unescaped(text: str) -> str:
    return html_module.unescape(text)


def test_three_are_shown_unless_more_are_asked_for_and_what_is_not_worth_it_has_no_ladder() -> None:
    run = weighed(*(candidate(f"layer{at}", "do not", net=1000 * (5 - at)) for at in range(5)))
    shown = text(run)
    assert "3 of 5 layers weighed" in shown
    assert "--fp16" not in shown
    assert "5 of 5 layers weighed" in text(run, top=9)


def test_the_page_unfolds_the_barrier_and_the_ladder() -> None:
    page = html(weighed(candidate("gemv")))
    section = page[page.index('<section id="plugins">') : page.index('<section id="ledger">')]
    for words in (
        "write it", "~1.57 ms net", "gemv_kernel", "85 % of the roofline of gemv", "~8.00 us", "a reformat of gemv",
        "~1.37 ms to ~1.67 ms", "trtprof run MODEL --fp16 -o reports/b", "~950 us", "gain unknown",
    ):  # fmt: skip
        assert words in section, words
    assert '<a href="#plugins">' in page


WHY = "nothing that was measured is far from its bound"


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_a_report_says_why_no_layer_was_weighed(form: str) -> None:
    run = msgspec.structs.replace(on_gpu(), candidates=(), no_candidates=WHY)
    said = "none weighed: " if form == "html" else "custom kernel: "
    assert f"{said}{WHY}" in " ".join(re.sub(r"<[^>]+>", "", render(run, form)).split())


def test_the_first_screen_says_whether_to_write_the_best_of_them() -> None:
    for verdict, words in (("write it", "yes, write it"), ("try first", "not yet"), ("do not", "no")):
        shown = " ".join(text(weighed(msgspec.structs.replace(candidate("gemv"), verdict=verdict))).split())
        assert f"KERNEL? custom kernel: {words}" in shown
        assert "gemv, ~1.57 ms net (1.37 ms to 1.67 ms): what could be won back of gemv" in shown


def test_candidates_that_are_alike_are_one_row_with_what_they_net_together() -> None:
    """One kernel is written for all of them, so that two smaller ones may stand before a larger one."""
    run = of_engine(typical())
    first, second, third = run.layers[:3]
    twin = msgspec.structs.replace(second, name=f"{second.name}/twin")
    layers = (first, second, third, twin, *run.layers[3:])
    found = tuple(candidate(one.name, net=net) for one, net in ((first, 900_000), (second, 700_000), (twin, 600_000)))
    shown = text(weighed(*found, run=msgspec.structs.replace(run, layers=layers)))
    part = shown[shown.index("plugins") :]
    assert "3 of 3 layers weighed" in part
    assert "~1.30 ms net (900 us to 1.50 ms)" in part
    assert f"{second.name} x2" in part
    assert part.index(f"{second.name} x2") < part.index("~900 us net")
    assert "each: what could be won back" in part
    assert "~950 us each" in part
    # The document has every layer.
    assert len(json.loads(get("json").render(weighed(*found), ReportOptions()))["candidates"]) == 3
