"""What is said of what was tried."""

from __future__ import annotations

import csv
import io
import json
from typing import get_args

import pytest

from tests.fakes.rendering import render_text
from tests.fakes.tried_factory import nothing, typical
from trtprof.base.records import RungVerdict
from trtprof.report import render


@pytest.mark.parametrize("width", [60, 80, 120])
def test_verdict_and_doubts_come_before_the_table(width: int) -> None:
    text = render_text(typical(), width)
    lines = text.splitlines()
    assert max(map(len, lines[:20])) <= width
    assert lines[0].startswith("verdict")
    assert "7.1x (6.90 to 7.30)" in lines[0]
    places = [text.index(words) for words in ("verdict", "doubts", "p99 is 3.1", "conv-pad-channels", "best")]
    assert places == sorted(places)
    assert "trtprof compare reports/model-try/base reports/model-try/best" in text


def test_every_verdict_has_a_row_with_its_reason() -> None:
    found = typical()
    assert {rung.verdict for rung in found.rungs} == set(get_args(RungVerdict))
    text = " ".join(render_text(found, 200).split())
    for rung in found.rungs:
        assert rung.name in text
        assert rung.verdict in text
    for words in ("SIGSEGV", "sympy is not installed", "40 times as far off"):
        assert words in text


def test_what_is_predicted_does_not_look_measured() -> None:
    text = render_text(typical(), 200)
    (line,) = (line for line in text.splitlines() if line.startswith("gemv-as-reduce  "))
    assert "7.1x" in line
    assert "~7.81x" in line


def test_programs_get_all_of_it() -> None:
    found = typical()
    data = json.loads(render(found, "json"))
    assert {"name", "kind", "verdict", "gain", "predicted", "difference"} <= data["rungs"][0].keys()
    assert (data["best"]["rungs"], data["best"]["gain"]["value"]) == (["gemv-as-reduce"], 7.1)
    rows = list(csv.DictReader(io.StringIO(render(found, "csv"))))
    assert [row["name"] for row in rows] == [rung.name for rung in found.rungs]
    assert (rows[0]["gain"], rows[5]["gain"]) == ("7.1", "")


@pytest.mark.parametrize("form", ["html", "markdown"])
def test_other_documents_say_the_same(form: str) -> None:
    for found in (typical(), nothing()):
        page = render(found, form)
        assert found.verdict.split(":")[0] in page
        assert all(rung.name in page for rung in found.rungs)
