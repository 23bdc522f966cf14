"""The page of a run at the widths of a desk, of a window beside another, and of a phone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.fakes.page_factory import with_panels
from tests.fakes.report_factory import on_gpu, typical
from trtprof.base import units
from trtprof.base.records import Run

pytestmark = [pytest.mark.nightly, pytest.mark.browser]

Open = Callable[..., Any]
WIDTHS = (1400, 1180, 800, 390)
SEEN = [(width, scheme) for width in (1400, 800, 390) for scheme in ("light", "dark")]


def sized(width: int) -> dict[str, Any]:
    return {"viewport": {"width": width, "height": 900 if width > 500 else 844}}


def long_names(run: Run) -> Run:
    """``run`` with layers whose names are alike but for their ends, as those of encoders are."""
    layers = [
        msgspec.structs.replace(layer, name=f"/model/encoder/layers/attention/self/projection/MatMul_of_{at:04}")
        for at, layer in enumerate(run.layers)
    ]
    return msgspec.structs.replace(run, layers=tuple(layers), findings=(), candidates=())


def boxes(page: Any, row: int, wanted: str) -> list[float]:
    """Left and right edge of what is wanted in a row of the table of layers, and those of the window of the table."""
    found: list[float] = page.evaluate(
        """([row, wanted]) => {
          const room = document.querySelector("#layers-table .table-scroll").getBoundingClientRect();
          const heads = [...document.querySelectorAll("#layers-table .sort")].map((head) => head.textContent);
          const cell = document.getElementById(`layer-${row}`).children[heads.indexOf(wanted)];
          const box = cell.getBoundingClientRect();
          return [box.left, box.right, room.left, room.right];
        }""",
        [row, wanted],
    )
    return found


@pytest.mark.parametrize("width", WIDTHS)
def test_the_layer_of_a_row_is_read_at_any_width_and_wherever_the_table_is_scrolled(
    same_page: Open, width: int
) -> None:
    page = same_page(typical(), **sized(width))
    shown = ["Layer", "Lost", "Measured"]
    for label in shown:
        left, right, start, end = boxes(page, 1, label)
        assert right - left >= (140 if label == "Layer" else 70), (label, right - left)
        assert start - 1 <= left and right <= end + 1, label  # noqa: PT018 - one statement about one column
    page.locator("#layers-table .table-scroll").evaluate("e => { e.scrollLeft = 10_000; }")
    left, right, start, end = boxes(page, 1, "Layer")
    assert right - left >= 140
    assert start - 1 <= left < right <= end + 1
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("width", WIDTHS)
def test_a_name_is_cut_in_the_middle_and_its_end_is_read(same_page: Open, width: int) -> None:
    run = long_names(typical())
    page = same_page(run, **sized(width))
    page.keyboard.press("j")
    for place in (f"#layer-{1} .cut", "#picked .cut"):
        front, end = page.locator(f"{place} > span").all()
        assert page.locator(place).first.text_content() == run.layers[0].name
        assert end.text_content() == run.layers[0].name[-12:]
        # Nothing between the end of the name and the window hides a part of it.
        assert end.evaluate(
            """e => {
              let box = e.getBoundingClientRect(), room = e.parentElement;
              for (; room; room = room.parentElement) {
                const around = room.getBoundingClientRect();
                if (getComputedStyle(room).overflowX === "visible") continue;
                if (box.right > around.right + 0.5 || box.left < around.left - 0.5) return false;
              }
              return e.scrollWidth <= Math.ceil(box.width);
            }"""
        ), place
        # There is no room for all of it in the table: what is not seen is of the front.
        if place.startswith("#layer"):
            assert front.evaluate("e => e.scrollWidth > e.clientWidth")


def test_the_detail_of_a_row_fits_the_window(same_page: Open) -> None:
    page = same_page(with_panels(typical()), **sized(390))
    page.locator("#layer-1 .unfold").click()
    box = page.locator("#layers-table tr.detail .detail-grid").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390


def read(page: Any, locator: Any) -> str:
    """The text of an element that is not cut off at either side of the window, whatever scrolls up and down."""
    one = locator.first
    one.scroll_into_view_if_needed()
    box, width = one.bounding_box(), page.viewport_size["width"]
    assert box is not None
    assert box["x"] >= 0, one
    assert box["x"] + min(box["width"], 60) <= width, one
    text: str = one.inner_text()
    return text


class Clicks:
    """Clicks on what is in sight, counted."""

    def __init__(self, page: Any) -> None:
        self.page, self.count = page, 0

    def on(self, locator: Any) -> None:
        box, size = locator.bounding_box(), self.page.viewport_size
        assert box is not None
        middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        assert 0 <= middle[0] <= size["width"], "a reader would have to scroll sideways first"
        assert 0 <= middle[1] <= size["height"]
        self.page.mouse.click(*middle)
        self.page.wait_for_timeout(150)
        self.count += 1
        assert self.count <= 2


@pytest.mark.parametrize(("width", "scheme"), SEEN)
def test_six_questions_are_answered_in_two_clicks(same_page: Open, width: int, scheme: str) -> None:
    run = with_panels(typical())
    worst = run.layers[0]
    page = same_page(run, color_scheme=scheme, **sized(width))

    def fresh() -> Clicks:
        page.keyboard.press("Escape")
        page.evaluate("scrollTo(0, 0)")
        return Clicks(page)

    # Can I trust it? Said where the page opens.
    told = read(page, page.locator("#trust"))
    assert run.doubts
    assert all(doubt in told for doubt in run.doubts)
    # Which layer, and where does the time go?
    clicks = fresh()
    clicks.on(page.locator("nav a", has_text="Layers"))
    row = page.locator("#layer-1")
    assert row.locator(".cut").text_content() == worst.name
    assert worst.name.endswith(read(page, row.locator(".cut > span").nth(1)))
    for label, text in (
        ("Lost", f"~{units.format_ns(worst.lost_ns or 0)}"),
        ("Measured", units.format_ns(worst.measured_ns)),
    ):
        left, right, start, end = boxes(page, 1, label)
        assert start - 1 <= left and right <= end + 1, label  # noqa: PT018 - one statement about one column
        assert text in row.inner_text()
    # Which kernels, for which nodes of the model?
    clicks.on(row.locator("td").nth(1))
    detail = page.locator("#layers-table tr.detail")
    assert worst.kernels[0].kernel in read(page, detail.locator(".kernels td.name"))
    assert worst.nodes[0] in read(page, detail.locator("li"))
    # Why, and what next?
    clicks = fresh()
    clicks.on(page.locator("nav a", has_text="Findings"))
    cause = next(one for one in run.findings if one.kind == "hypothesis")
    card = page.locator("article.finding", has_text=cause.code)
    assert cause.title in read(page, card.locator("h3"))
    assert cause.evidence in read(page, card.locator("dd"))
    assert cause.try_ in read(page, card.locator(".try"))
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize(("width", "scheme"), SEEN)
def test_axe_finds_no_violation(same_page: Open, web: Path, width: int, scheme: str) -> None:
    page = same_page(with_panels(on_gpu()), color_scheme=scheme, bypass_csp=True, **sized(width))
    for name in ("ledger", "roofline", "timeline", "graph", "memory"):
        page.locator(f"#chart-{name} canvas").first.wait_for(timeout=15_000)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_timeout(400)  # what scrolls is made to take the focus soon after
    page.evaluate((web / "node_modules" / "axe-core" / "axe.min.js").read_text("utf-8"))
    found = page.evaluate("async () => (await axe.run(document, { resultTypes: ['violations'] })).violations")
    assert [(one["id"], node["target"]) for one in found for node in one["nodes"]] == []
