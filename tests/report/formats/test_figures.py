"""Pictures of a run: what they say, that they are the same every time, and that nothing else changes for them."""

from __future__ import annotations

import importlib.util
import re
import struct
import xml.etree.ElementTree as ET
from functools import cache
from html import unescape
from typing import Any, Literal

import msgspec
import pytest

from tests.fakes.report_factory import CASES, many, on_gpu, one_layer, typical
from trtprof.base import units
from trtprof.base.errors import MissingError
from trtprof.base.records import LedgerRow, Run
from trtprof.report import ReportOptions, get

pytestmark = pytest.mark.nightly

Figure = Literal["roofline", "ledger", "timeline"]
FIGURES: tuple[Figure, ...] = ("roofline", "ledger", "timeline")


def svg(run: Run, figure: Figure = "roofline") -> str:
    return get("svg").render(run, ReportOptions(figure=figure))


def png(run: Run, figure: Figure = "roofline") -> bytes:
    return get("png").encode(run, ReportOptions(figure=figure))


@cache
def svg_of(case: str) -> str:
    """The roofline of a run that several tests look at."""
    return svg({"on_gpu": on_gpu, **CASES}[case]())


def words(picture: str) -> list[str]:
    """The texts of an SVG, each of which matplotlib writes as a comment beside its outlines."""
    return [unescape(text).strip() for text in re.findall(r"<!--(.*?)-->", picture, re.DOTALL)]


@pytest.mark.parametrize("figure", FIGURES)
@pytest.mark.parametrize("case", [*CASES, "on_gpu"])
def test_every_run_has_both_pictures(case: str, figure: Figure) -> None:
    run = on_gpu() if case == "on_gpu" else many(1200) if case == "many" else CASES[case]()
    if case in ("empty", "typical"):
        # What is drawn is the same in both formats.
        data = png(run, figure)
        assert data[:8] == b"\x89PNG\r\n\x1a\n"
        assert struct.unpack(">II", data[16:24]) == (1400, 900)
    root = ET.fromstring(svg(run, figure))  # noqa: S314 - our own picture
    assert (root.get("width"), root.get("height")) == ("504pt", "324pt")
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert not tags & {"script", "foreignObject", "a"}


@pytest.mark.parametrize("figure", FIGURES)
def test_the_bytes_are_the_same_whatever_the_settings_of_the_user(figure: Figure) -> None:
    import matplotlib as mpl

    run = typical()
    first = svg(run, figure), png(run, figure)
    changes: dict[Any, Any] = {
        "font.size": 20,
        "svg.hashsalt": "other",
        "axes.facecolor": "red",
        "savefig.transparent": True,
    }
    with mpl.rc_context(changes):
        assert (svg(run, figure), png(run, figure)) == first
        assert all(mpl.rcParams[name] == value for name, value in changes.items()), "the user's settings stay"


# --- the roofline ---------------------------------------------------------------------------


def test_a_roofline_says_what_it_is_of() -> None:
    run = on_gpu()
    said = " ".join(words(svg_of("on_gpu")))
    assert "tinynet.onnx" in said
    assert "tensorrt on Example GPU" in said
    assert "SM 1,410 MHz" in said
    share = run.coverage
    for part in (share.exact, share.inferred, share.unattributed):
        assert units.format_percent(part) in said
    assert "2 threads" in " ".join(words(svg_of("typical")))
    assert "clocks unknown" in " ".join(words(svg_of("hostile")))


def test_without_matplotlib_pictures_are_refused_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    there = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "matplotlib" else there(name))
    for name in ("png", "svg"):
        with pytest.raises(MissingError, match="matplotlib") as caught:
            get(name).encode(one_layer(), ReportOptions())
        assert caught.value.exit_code == 3
        assert "trtprof[figures]" in caught.value.fix
    assert get("html").render(one_layer(), ReportOptions())


# --- the ledger -----------------------------------------------------------------------------


def test_every_row_of_the_ledger_has_its_value_and_its_fill() -> None:
    run = typical()
    picture = svg(run, "ledger")
    said = words(picture)
    for row in run.ledger:
        mark = {"fact": "", "estimate": "~", "remainder": "="}[row.kind]
        assert row.cause in said
        assert any(text.startswith(f"{mark}{units.format_ns(row.ns)}") for text in said), row
    assert units.format_ns(run.latency.median_ns) in said
    assert picture.count("<pattern") >= 2, "estimates and the remainder are hatched, each its way"
    facts = (LedgerRow(cause="kernels", ns=run.latency.median_ns, kind="fact"),)
    assert "<pattern" not in svg(msgspec.structs.replace(run, ledger=facts), "ledger")


# --- names ----------------------------------------------------------------------------------


def test_a_formula_stays_as_it_was_written_and_a_missing_glyph_is_spelled_out() -> None:
    run = one_layer()
    for name, shown in (("$x^2$", "$x^2$"), ("\u5c64", "\\u5c64"), ("a\u202eb", "a\\u202eb")):
        named = msgspec.structs.replace(run, model=msgspec.structs.replace(run.model, name=name))
        assert shown in words(svg(named))
