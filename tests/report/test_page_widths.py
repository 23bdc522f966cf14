"""The page of a run at the widths of a desk, of a window beside another, and of a phone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from profiler.base.records import Run
from tests.fakes.page_factory import with_panels
from tests.fakes.report_factory import typical

pytestmark = pytest.mark.browser

Open = Callable[..., Any]
WIDTHS = (1400, 1180, 800, 390)


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
    open_page: Open, width: int
) -> None:
    page = open_page(typical(), **sized(width))
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
def test_a_name_is_cut_in_the_middle_and_its_end_is_read(open_page: Open, width: int) -> None:
    run = long_names(typical())
    page = open_page(run, **sized(width))
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


def test_the_detail_of_a_row_fits_the_window(open_page: Open) -> None:
    page = open_page(with_panels(typical()), **sized(390))
    page.locator("#layer-1 .unfold").click()
    box = page.locator("#layers-table tr.detail .detail-grid").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
