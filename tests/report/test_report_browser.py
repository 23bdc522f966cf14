from __future__ import annotations

import functools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from factory import CASES, HOSTILE_NAMES, hostile, many, typical

from profiler import units
from profiler.records import Run, bound_name
from profiler.report import ReportOptions, get

pytestmark = pytest.mark.browser

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SWITCHES = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
Open = Callable[..., Any]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    if BROWSER is None:
        pytest.skip("no chromium, chromium-browser or google-chrome on the PATH")
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=SWITCHES)
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium: Any, tmp_path: Path) -> Iterator[Open]:
    """Opens a run from file:// and fails the test on any error, message or request."""
    bad: list[str] = []
    pages = []

    def open_(run: Run, fragment: str = "", **settings: Any) -> Any:
        file = tmp_path / "report.html"
        file.write_text(get("html").render(run, ReportOptions()), encoding="utf-8")
        page = chromium.new_page(viewport={"width": 1360, "height": 900}, **settings)
        pages.append(page)
        page.on("console", lambda message: bad.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: bad.append(f"error: {error}"))
        page.on("dialog", lambda dialog: bad.append(f"dialog: {dialog.message}"))
        own = file.as_uri()
        page.on("request", lambda r: None if r.url.split("#")[0] == own or r.url == "data:," else bad.append(r.url))
        page.goto(own + fragment)
        return page

    yield open_
    for page in pages:
        page.close()
    assert bad == []


def names(page: Any) -> list[str]:
    found: list[str] = page.locator("#layers-table tr.row > td:nth-child(6) > bdi").all_text_contents()
    return found


def head(page: Any, label: str) -> Any:
    return page.locator("#layers-table thead th", has_text=label)


def wait_for_rows(page: Any, count: int) -> None:
    # The policy of the page forbids eval, which page.wait_for_function needs.
    from playwright.sync_api import expect

    expect(page.locator("#layers-table tr.row")).to_have_count(count, timeout=15_000)


@pytest.mark.parametrize("case", [case for case in CASES if case != "many"])
def test_opens_without_an_error_and_draws_what_the_run_holds(open_page: Open, case: str) -> None:
    run = CASES[case]()
    page = open_page(run)
    assert page.locator("#layers-table tr.row").count() == min(len(run.layers), 100)
    assert page.locator("#nodes-table tr.row").count() == min(len(run.nodes), 100)
    assert page.locator(".ledger tbody .step-bar").count() == len(run.ledger)
    drawn = [one for one in run.layers if one.flops and one.bytes and one.measured_ns]
    assert page.locator("#scatter .dot").count() == len(drawn)
    assert page.locator("article.finding").count() == len(run.findings)
    assert page.locator("#scatter line.roof").count() > 0
    assert "GFLOP/s" in "".join(page.locator("#scatter .roof-label").all_text_contents())


def test_numbers_read_as_in_the_other_reports(open_page: Open) -> None:
    run = typical()
    page = open_page(run)
    for row, one in zip(page.locator("#layers-table tr.row").all()[:8], run.layers, strict=False):
        cells = row.locator("td").all_text_contents()
        assert cells[1:4] == [
            f"~{units.format_ns(one.lost_ns or 0)}",
            units.format_ns(one.measured_ns),
            f"~{units.format_ns(one.attainable_ns or 0)}",
        ]
        assert cells[8:10] == [units.format_flops(one.flops or 0), units.format_bytes(one.bytes or 0)]


def test_sorts_by_click_and_by_key_with_unknown_last(open_page: Open) -> None:
    run = typical()
    page = open_page(run)
    assert names(page) == [one.name for one in run.layers]
    assert head(page, "Lost").get_attribute("aria-sort") == "descending"
    head(page, "Lost").locator("button").click()
    assert head(page, "Lost").get_attribute("aria-sort") == "ascending"
    known = [one.name for one in sorted(run.layers, key=lambda one: one.lost_ns or 0) if one.lost_ns is not None]
    assert names(page) == [*known, "/post/Nms"]
    head(page, "Measured").locator("button").focus()
    page.keyboard.press("Enter")
    assert names(page) == [one.name for one in sorted(run.layers, key=lambda one: -one.measured_ns)]
    assert page.locator("#layers-table th[aria-sort]").count() == 1


def test_filters_by_every_word_and_says_how_many(open_page: Open) -> None:
    run = typical()
    page = open_page(run)
    page.keyboard.press("/")
    page.keyboard.type("RELU tensor")
    expected = [one.name for one in run.layers if "Relu" in "".join(one.nodes) and one.bound == "tensor"]
    assert expected
    wait_for_rows(page, len(expected))
    assert names(page) == expected
    assert page.locator("#layers-table .status").text_content() == (
        f"{len(expected)} layers (filtered from {len(run.layers)})"
    )
    page.keyboard.press("Escape")
    assert len(names(page)) == len(run.layers)


def test_a_row_unfolds_by_key_to_kernels_nodes_terms_and_reason(open_page: Open) -> None:
    run = typical()
    page = open_page(run)
    at = next(index for index, one in enumerate(run.layers) if len(one.nodes) > 1)
    button = page.locator(f"#layer-{at + 1} .unfold")
    button.focus()
    page.keyboard.press("Enter")
    assert button.get_attribute("aria-expanded") == "true"
    words = page.locator("#layers-table tr.detail").text_content()
    one = run.layers[at]
    for expected in (
        *one.nodes,
        one.kernels[0].kernel,
        one.kernels[0].reason,
        one.reason,
        *(bound_name(term, "cpu") for term in one.terms),
        one.shapes,
    ):
        assert expected in words
    page.keyboard.press("Enter")
    assert page.locator("#layers-table tr.detail").count() == 0
    assert button.get_attribute("aria-expanded") == "false"


def test_a_dot_explains_itself_and_leads_to_its_row(open_page: Open) -> None:
    run = typical()
    page = open_page(run)
    alone = next(one for one in run.layers if one.name == "/classifier/Gemm")
    rank = run.layers.index(alone)
    dot = page.locator(f'#scatter .dot[data-layer="{rank}"]')
    dot.scroll_into_view_if_needed()
    dot.hover()
    tip = page.locator("#tip")
    assert tip.is_visible()
    for expected in (alone.name, alone.op_type, units.format_ns(alone.measured_ns), bound_name(alone.bound, "cpu")):
        assert expected in tip.text_content()
    dot.dispatch_event("click")
    assert page.locator(f"#layer-{rank + 1}.open").is_visible()
    assert "picked" in dot.get_attribute("class")


def test_a_link_of_a_finding_reveals_its_layer_even_when_filtered_away(open_page: Open) -> None:
    page = open_page(typical())
    page.locator("#layers-table input").fill("nothing has this name")
    wait_for_rows(page, 0)
    link = page.locator("article.finding a").first
    link.click()
    row = page.locator("#layers-table tr.row.open")
    row.wait_for()
    assert link.text_content() in row.text_content()


def test_a_shared_link_opens_its_layer(open_page: Open) -> None:
    run = many(400)
    page = open_page(run, "#layer-321")
    row = page.locator("#layer-321.open")
    assert row.is_visible()
    assert run.layers[320].name[-8:] in row.text_content()


def test_ten_thousand_layers_stay_usable(open_page: Open) -> None:
    run = many()
    page = open_page(run)
    assert page.locator("#layers-table tr.row").count() == 100
    assert page.locator("#layers-table .status").text_content() == "showing 100 of 10,000 layers"
    head(page, "Measured").locator("button").click()
    first = max(run.layers, key=lambda one: one.measured_ns)
    assert page.locator("#layers-table tr.row").first.locator("td").nth(2).text_content() == (
        units.format_ns(first.measured_ns)
    )
    page.locator("#layers-table .all").click()
    wait_for_rows(page, 10_000)
    assert page.locator("#layers-table .more button").count() == 0


def test_hostile_names_are_shown_and_never_run(open_page: Open) -> None:
    run = hostile()
    page = open_page(run)
    page.evaluate("for (const b of document.querySelectorAll('.unfold')) b.click()")
    page.wait_for_timeout(100)
    assert page.evaluate("window.__pwned") is None
    assert page.locator("main img").count() == 0
    shown = "\n".join(page.locator("#layers-table tr.detail .full").all_text_contents())
    for name in HOSTILE_NAMES:
        if name.isprintable():
            assert name in shown
    assert "line\\nbreak\\rand\\ttab" in shown
    assert "\\u202egnp.exe" in shown
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@functools.cache
def _luminance(color: str) -> float:
    red, green, blue = (int(part) for part in color.removeprefix("rgb(").removesuffix(")").split(", "))
    return (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255


@pytest.mark.parametrize(("scheme", "dark"), [("light", False), ("dark", True)])
def test_follows_the_colour_scheme_of_the_reader(open_page: Open, scheme: str, dark: bool) -> None:
    page = open_page(typical(), color_scheme=scheme)
    style = "e => [getComputedStyle(e).backgroundColor, getComputedStyle(e).color]"
    ground, ink = (_luminance(color) for color in page.locator("body").evaluate(style))
    assert (ground < 0.2) is dark
    assert (ink > 0.7) is dark


def test_prints_on_white_without_controls(open_page: Open) -> None:
    page = open_page(typical(), color_scheme="dark")
    page.emulate_media(media="print")
    assert _luminance(page.locator("body").evaluate("e => getComputedStyle(e).backgroundColor")) > 0.99
    assert not page.locator("nav").is_visible()
    assert not page.locator("#layers-table input").is_visible()


def test_fits_a_phone(open_page: Open) -> None:
    page = open_page(typical())
    page.set_viewport_size({"width": 390, "height": 800})
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
