"""Pictures of a run: what they say, that they are the same every time, and that nothing else changes for them."""

from __future__ import annotations

import importlib.util
import re
import struct
import subprocess
import sys
import xml.etree.ElementTree as ET
from functools import cache
from html import unescape
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.report_factory import (
    CASES,
    HOSTILE_NAMES,
    layer,
    make_run,
    many,
    of_engine,
    on_gpu,
    one_layer,
    typical,
)
from trtprof.base import units
from trtprof.base.errors import MissingError, UsageError
from trtprof.base.records import LedgerRow, Run, bound_name
from trtprof.report import ReportOptions, for_path, get
from trtprof.report.formats import _style

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
def test_the_bytes_are_the_same_whatever_the_settings_of_the_user(
    figure: Figure,
) -> None:
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


def test_no_clock_and_no_version_is_in_a_picture() -> None:
    assert "<dc:date>" not in svg(one_layer())
    assert b"Software" not in png(one_layer())


def test_pyplot_is_not_loaded_and_matplotlib_only_for_a_picture() -> None:
    script = (
        "import sys; from trtprof.report import ReportOptions, get; reporter = get('png');"
        "assert 'matplotlib' not in sys.modules;"
        "from tests.fakes.report_factory import one_layer; reporter.encode(one_layer(), ReportOptions());"
        "assert 'matplotlib' in sys.modules and 'matplotlib.pyplot' not in sys.modules"
    )
    paths = f"import sys; sys.path[:0] = {[path for path in sys.path if path]!r};"
    subprocess.run([sys.executable, "-c", paths + script], check=True, timeout=60)


def test_the_suffix_chooses_the_format_and_png_is_no_text() -> None:
    assert (for_path("a/roofline.svg").name, for_path("ROOFLINE.PNG").name) == ("svg", "png")
    assert get("png").binary
    assert not get("svg").binary
    with pytest.raises(UsageError, match="no text"):
        get("png").render(one_layer(), ReportOptions())


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


def test_ceilings_are_labelled_and_measured_ones_are_told_from_the_best() -> None:
    said = words(svg_of("typical"))
    assert "DRAM 12.0 GB/s (best 14.4 GB/s)" in said
    assert "cache 45.0 GB/s (best 58.5 GB/s)" in said
    assert {"fp32", "80.0 GFLOP/s", "(best 92.0 GFLOP/s)", "measured, this run", "best measured here"} <= set(said)
    sheet = words(svg(of_engine(typical())))
    assert "datasheet" in sheet
    assert "L2 45.0 GB/s (datasheet 58.5 GB/s)" in sheet
    assert not any("measured, this run" in word or word == "measured" for word in sheet)


def test_every_bound_has_its_colour_and_its_count() -> None:
    run = typical()
    picture = svg_of("typical")
    drawn = [one for one in run.layers if one.flops and one.bytes and one.measured_ns]
    for bound in {one.bound for one in drawn}:
        number = sum(one.bound == bound for one in drawn)
        name = bound_name(bound, "cpu")
        assert f"{name}: {number} layer{'' if number == 1 else 's'}" in words(picture)
        assert _style.BOUND_COLORS[bound] in picture
    assert len(set(_style.BOUND_COLORS.values())) == len(_style.BOUND_COLORS)


def test_layers_that_lose_most_are_named_with_their_loss() -> None:
    run = typical()
    said = words(svg_of("typical"))
    for one in run.layers[:5]:
        assert f"~{units.format_ns(one.lost_ns or 0)} lost" in said
    assert sum(text.endswith(" lost") for text in said) == 5


def test_what_is_not_drawn_is_said() -> None:
    run = typical()
    drawn = [one for one in run.layers if one.flops and one.bytes and one.measured_ns]
    absent = [one for one in run.layers if one not in drawn]
    share = sum(one.measured_ns for one in absent) / sum(one.measured_ns for one in run.layers)
    said = " ".join(words(svg_of("typical")))
    assert f"not drawn: {len(absent)} layers" in said
    assert units.format_percent(share) in said
    assert "nothing to draw: no layer" in words(svg_of("empty"))
    idle = msgspec.structs.replace(one_layer().layers[0], flops=None, bytes=None, work=None)
    assert any("no layer with arithmetic" in text for text in words(svg(make_run((idle,)))))


def test_many_dots_are_one_image_and_the_picture_says_so() -> None:
    few, lots = svg(many(900)), svg(many(1200))
    assert "<image" not in few
    assert "<image" in lots
    assert "drawn as one image" in " ".join(words(lots))
    assert "drawn as one image" not in " ".join(words(few))


def test_a_number_at_a_dot_leads_to_a_name() -> None:
    run = typical()
    said = words(svg_of("typical"))
    for at, one in enumerate(run.layers[:5], 1):
        at_dots = [text for text in said if str(at) in text.split(", ")]
        assert len(at_dots) >= 2, "at the dot, and before the name"
        assert any(one.nodes[-1] in text for text in said if text.startswith(one.op_type))
    assert "numbered: the 5 layers with most time lost" in " ".join(said)


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


def test_a_ledger_says_whether_it_closes() -> None:
    run = one_layer()
    assert "the rows add up to the median" in " ".join(words(svg(run, "ledger")))
    broken = msgspec.structs.replace(run, ledger=run.ledger[:-1])
    assert f"miss the median by {units.format_ns(run.ledger[-1].ns)}" in " ".join(words(svg(broken, "ledger")))
    assert "nothing to draw: no ledger" in words(svg(msgspec.structs.replace(run, ledger=()), "ledger"))
    assert "sum of the layers" in words(svg(of_engine(run), "ledger"))


def test_a_long_ledger_is_folded_to_a_sum() -> None:
    rows = tuple(LedgerRow(cause=f"cause {i}", ns=(i + 1) * 1_000_000, kind="fact") for i in range(30))
    run = make_run(ledger=rows, latency=msgspec.structs.replace(make_run().latency, median_ns=465_000_000))
    said = words(svg(run, "ledger"))
    assert "17 smaller rows" in said
    assert any(text.startswith(units.format_ns(sum(range(1, 18)) * 1_000_000)) for text in said)


# --- names ----------------------------------------------------------------------------------


NAMES = (r"$\frac{1}{$", "$x^2$", *HOSTILE_NAMES)


def is_plain(picture: str) -> bool:
    ET.fromstring(picture)  # noqa: S314 - our own picture
    return picture.replace("\n", "").isprintable() and max(map(len, words(picture))) < 400


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_no_formula_and_steers_nothing(name: str) -> None:
    run = one_layer()
    only = msgspec.structs.replace(run.layers[0], name=name, nodes=(name,), op_type=name[:12])
    model = msgspec.structs.replace(run.model, name=name)
    assert is_plain(svg(msgspec.structs.replace(run, layers=(only,), model=model)))


@pytest.mark.parametrize("at", range(0, len(NAMES), 6))
def test_a_row_of_the_ledger_is_no_formula_and_steers_nothing(at: int) -> None:
    rows = tuple(LedgerRow(cause=name, ns=1000, kind="fact") for name in NAMES[at : at + 6])
    assert is_plain(svg(msgspec.structs.replace(one_layer(), ledger=rows), "ledger"))


def test_a_formula_stays_as_it_was_written_and_a_missing_glyph_is_spelled_out() -> None:
    run = one_layer()
    for name, shown in (("$x^2$", "$x^2$"), ("\u5c64", "\\u5c64"), ("a\u202eb", "a\\u202eb")):
        named = msgspec.structs.replace(run, model=msgspec.structs.replace(run.model, name=name))
        assert shown in words(svg(named))


@given(
    st.lists(st.tuples(st.integers(1, 10**15), st.integers(1, 10**12), st.floats(0.001, 1e6)), min_size=1, max_size=6)
)
@settings(max_examples=6)
def test_any_layers_can_be_drawn(asked: list[tuple[int, int, float]]) -> None:
    run = make_run(tuple(layer(f"n{i}", "Op", flops=f, nbytes=b, slow=s) for i, (f, b, s) in enumerate(asked)))
    ET.fromstring(svg(run))  # noqa: S314 - our own picture
