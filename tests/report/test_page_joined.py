"""Layers that do the same share a row on the page of a run, which unfolds to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.fakes.report_factory import typical
from trtprof.base import units
from trtprof.base.records import LayerResult, Run
from trtprof.report.formats._page import page_data

pytestmark = pytest.mark.nightly

Open = Callable[..., Any]


def with_twins(count: int = 3) -> tuple[Run, list[LayerResult]]:
    """A run whose tenth layer is there ``count`` times, with other times and names; and those layers by time lost."""
    run = typical()
    layers = list(run.layers)
    first = layers[9]
    twins = [
        msgspec.structs.replace(
            first, name=f"{first.name}/twin_{at}", lost_ns=(first.lost_ns or 0) - at, measured_ns=first.measured_ns - at
        )
        for at in range(count)
    ]
    return msgspec.structs.replace(run, layers=(*layers[:9], *twins, *layers[10:])), twins


def test_each_layer_tells_the_first_that_does_the_same() -> None:
    run, twins = with_twins()
    told = page_data(run)["layers"]["alike"]
    at = run.layers.index(twins[0])
    assert told == [at if layer in twins else -1 for layer in run.layers]
    assert page_data(typical())["layers"]["alike"] == {"all": -1}


@pytest.mark.browser
def test_layers_that_do_the_same_are_one_row_that_unfolds(open_page: Open) -> None:
    run, twins = with_twins()
    page = open_page(run)
    rank = run.layers.index(twins[0]) + 1
    row = page.locator(f"#layers-like-{rank}")
    assert page.locator("#layers-table .status").text_content() == f"{len(run.layers)} layers"
    assert row.locator(".times").text_content() == "3\u00d7"
    assert units.format_ns(sum(one.measured_ns for one in twins)) in row.text_content()
    assert f"~{units.format_ns(sum(one.lost_ns or 0 for one in twins))}" in row.text_content()
    assert page.locator(f"#layer-{rank}").count() == 0
    row.locator(".unfold").click()
    for at, one in enumerate(twins):
        member = page.locator(f"#layer-{rank + at}.member")
        assert one.name in member.text_content()
        assert units.format_ns(one.measured_ns) in member.text_content()
    row.locator(".unfold").click()
    assert page.locator("#layers-table .member").count() == 0
    # Apart, each has its rank; the address keeps it.
    page.locator("#layers-table .joining").click()
    assert page.locator(f"#layer-{rank + 1}").count() == 1
    assert page.locator("#layers-table .joined").count() == 0


@pytest.mark.browser
def test_a_joined_layer_is_found_by_link_filter_and_key(open_page: Open) -> None:
    run, twins = with_twins()
    rank = run.layers.index(twins[0]) + 1
    page = open_page(run, f"#layer-{rank + 2}")
    page.locator(f"#layer-{rank + 2}.open.selected").wait_for()
    page.keyboard.press("k")
    assert page.locator("#picked .name").text_content() == twins[1].name
    page.locator("#layers-table input").fill("twin_2")
    page.locator("#layers-table .status", has_text="1 layer (filtered").wait_for()
    assert page.locator("#layers-table .joined").count() == 0
    page.locator("#layers-table input").press("Enter")
    assert page.locator("#picked .name").text_content() == twins[2].name
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    # By key from the top: folded, the row is one step; the next step leads past it.
    fresh = open_page(run)
    seen = []
    for _ in range(rank + 3):
        fresh.keyboard.press("j")
        seen.append(fresh.locator("#picked .name").text_content())
    assert len(set(seen)) == len(seen)
    assert [name for name in seen if "twin" in name] == [twins[0].name]
    assert fresh.locator("#layers-table tr.joined").count() == 1
