"""The page of a run in headless Chromium: what is shown, chosen and remembered, and that it asks for nothing."""

from __future__ import annotations

import csv
import functools
import io
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.page_factory import with_panels
from tests.fakes.report_factory import HOSTILE_NAMES, hostile, make_run, many, on_gpu, typical
from trtprof.base import units
from trtprof.base.records import bound_name
from trtprof.report import ReportOptions, get

pytestmark = [pytest.mark.nightly, pytest.mark.browser]

Open = Callable[..., Any]
SHOTS = os.environ.get("TRTPROF_SCREENSHOTS", "")
"""A folder for pictures of the page; none is kept where it is not set."""


def shoot(page: Any, name: str, *, whole: bool = False) -> None:
    """Keep a picture of the page where somebody asked for pictures."""
    if not SHOTS:
        return
    Path(SHOTS).mkdir(parents=True, exist_ok=True)
    if whole:
        for chart in page.locator(".chart").all():
            chart.scroll_into_view_if_needed()
            page.wait_for_timeout(150)
        page.evaluate("scrollTo(0, 0)")
    page.wait_for_timeout(300)
    page.screenshot(path=Path(SHOTS) / f"{name}.png", full_page=whole)


def column(page: Any, label: str, table: str = "#layers-table") -> int:
    """Place of the column under a head, from 1."""
    labels: list[str] = page.locator(f"{table} thead .sort").all_text_contents()
    return labels.index(label) + 1


def under(page: Any, label: str) -> list[str]:
    """Texts of a column, of the rows that are elements now."""
    found: list[str] = page.locator(f"#layers-table tr.row > td:nth-child({column(page, label)})").all_text_contents()
    return found


def names(page: Any) -> list[str]:
    at = column(page, "Layer")
    found: list[str] = page.locator(f"#layers-table tr.row > td:nth-child({at}) bdi").all_text_contents()
    return found


def head(page: Any, label: str) -> Any:
    return page.locator(f"#layers-table .data > thead th:nth-child({column(page, label)})")


def click_head(page: Any, label: str) -> None:
    head(page, label).locator(".sort").click()


def status(page: Any) -> Any:
    return page.locator("#layers-table .status")


def wait_for(page: Any, locator: Any, text: str) -> None:
    # The policy of the page forbids eval, which page.wait_for_function needs.
    from playwright.sync_api import expect

    expect(locator).to_have_text(text, timeout=15_000)


def wait_for_rows(page: Any, count: int) -> None:
    from playwright.sync_api import expect

    expect(page.locator("#layers-table tr.row")).to_have_count(count, timeout=15_000)


def wait_for_address(page: Any, part: str) -> None:
    from playwright.sync_api import expect

    expect(page).to_have_url(re.compile(re.escape(part)), timeout=5_000)


def selected(page: Any) -> str:
    """What the line at the foot of the window names."""
    text: str = page.locator("#picked .name").text_content()
    return text


def test_numbers_read_as_in_the_other_reports(same_page: Open) -> None:
    run = typical()
    page = same_page(run)
    columns = {label: under(page, label) for label in ("Lost", "Measured", "Allowed", "Work", "Bytes", "Share")}
    total = sum(one.measured_ns for one in run.layers)
    for at, one in enumerate(run.layers[:8]):
        assert columns["Lost"][at] == f"~{units.format_ns(one.lost_ns or 0)}"
        assert columns["Measured"][at] == units.format_ns(one.measured_ns)
        assert columns["Allowed"][at] == f"~{units.format_ns(one.attainable_ns or 0)}"
        assert columns["Work"][at] == units.format_flops(one.flops or 0)
        assert columns["Bytes"][at] == units.format_bytes(one.bytes or 0)
        assert columns["Share"][at] == units.format_percent(one.measured_ns / total)


def test_sorts_by_click_and_by_key_with_unknown_last(same_page: Open) -> None:
    run = typical()
    page = same_page(run)
    assert names(page)[:15] == [one.name for one in run.layers][:15]
    assert head(page, "Lost").get_attribute("aria-sort") == "descending"
    click_head(page, "Lost")
    assert head(page, "Lost").get_attribute("aria-sort") == "ascending"
    known = [one.name for one in sorted(run.layers, key=lambda one: one.lost_ns or 0) if one.lost_ns is not None]
    assert names(page)[:15] == known[:15]
    page.locator("#layers-table .table-scroll").focus()
    page.keyboard.press("End")
    assert selected(page) == "/post/Nms"
    assert names(page)[-1] == "/post/Nms"
    head(page, "Measured").locator(".sort").focus()
    page.keyboard.press("Enter")
    assert names(page)[:15] == [one.name for one in sorted(run.layers, key=lambda one: -one.measured_ns)][:15]
    assert page.locator("#layers-table th[aria-sort]").count() == 1


def test_filters_by_every_word_and_says_how_many(same_page: Open) -> None:
    run = typical()
    page = same_page(run)
    page.keyboard.press("/")
    page.keyboard.type("RELU compute")
    expected = [one.name for one in run.layers if "Relu" in "".join(one.nodes) and one.bound == "tensor"]
    assert expected
    wait_for(page, status(page), f"{len(expected)} layers (filtered from {len(run.layers)})")
    assert names(page) == expected
    shoot(page, "filtered")
    page.keyboard.press("Escape")
    wait_for(page, status(page), f"{len(run.layers)} layers")


def test_a_row_unfolds_by_key_to_kernels_nodes_terms_and_reason(same_page: Open) -> None:
    run = typical()
    page = same_page(run)
    at = next(index for index, one in enumerate(run.layers) if len(one.nodes) > 1)
    for _ in range(at + 1):
        page.keyboard.press("j")
    page.keyboard.press("Enter")
    button = page.locator(f"#layer-{at + 1} .unfold")
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


def test_a_click_selects_and_unfolds_and_a_second_one_folds(same_page: Open) -> None:
    run = typical()
    page = same_page(run)
    cell = page.locator(f"#layer-4 td:nth-child({column(page, 'Op')})")
    cell.click()
    assert selected(page) == run.layers[3].name
    assert page.locator("#layer-4.open.selected[aria-current]").count() == 1
    cell.click()
    assert page.locator("#layer-4.open").count() == 0
    assert selected(page) == run.layers[3].name


def test_a_selection_shows_in_every_panel(same_page: Open) -> None:
    run = with_panels(typical())
    page = same_page(run)
    shoot(page, "light", whole=True)
    finding = run.findings[0]
    card = page.locator("article.finding").first
    card.locator(".what").click()
    place = [one.name for one in run.layers].index(finding.layers[0])
    assert selected(page) == finding.layers[0]
    assert finding.code in page.locator("#picked").text_content()
    assert "hit" in card.get_attribute("class")
    assert page.locator(f"#layer-{place + 1}.selected").count() == 1
    nodes = [node.name for node in run.nodes]
    for name in run.layers[place].nodes:
        assert page.locator(f"#node-{nodes.index(name) + 1}.related").count() == 1
    wait_for_address(page, f"layer={place + 1}")
    # Every chart says it in words for those who do not see it.
    for name in ("roofline", "timeline", "graph"):
        chart = page.locator(f"#chart-{name}")
        chart.scroll_into_view_if_needed()
        chart.locator("canvas").first.wait_for()
        chart.locator(".chart-status", has_text=re.compile("Selected: .*conv")).wait_for(state="attached")
    shoot(page, "selected", whole=True)
    page.keyboard.press("Escape")
    assert not page.locator("#picked").is_visible()
    assert page.locator(".selected, .hit, .related").count() == 0


@pytest.mark.parametrize("chart", ["roofline", "timeline", "graph"])
def test_a_chart_selects_by_key_for_all_panels(same_page: Open, chart: str) -> None:
    page = same_page(with_panels(typical()))
    panel = page.locator(f"#chart-{chart}")
    panel.scroll_into_view_if_needed()
    panel.locator(".chart-canvas").focus()
    page.keyboard.press("ArrowRight")
    page.locator("#picked").wait_for()
    first = selected(page)
    page.keyboard.press("ArrowRight")
    assert selected(page) != first
    assert page.locator("#layers-table tr.selected").count() == 1
    assert page.locator("#layers-table tr.selected bdi").first.text_content() == selected(page)


def test_a_node_selects_its_layer(same_page: Open) -> None:
    run = typical()
    page = same_page(run)
    page.locator("#nodes-table input").fill("/features/2/expand/Relu")
    wait_for(page, page.locator("#nodes-table .status"), f"1 node (filtered from {len(run.nodes)})")
    page.locator("#nodes-table tr.row td").nth(2).click()
    assert selected(page) == "/features/2/expand/Conv"


def test_a_link_of_a_finding_reveals_its_layer_even_when_filtered_away(same_page: Open) -> None:
    run = typical()
    page = same_page(run)
    page.locator("#layers-table input").fill("nothing has this name")
    wait_for(page, status(page), f"0 layers (filtered from {len(run.layers)})")
    link = page.locator("article.finding a").first
    link.click()
    row = page.locator("#layers-table tr.row.open")
    row.wait_for()
    assert link.text_content() in row.text_content()
    assert row.evaluate("e => e.getBoundingClientRect().top") < 900


def test_a_shared_link_opens_its_layer(open_page: Open) -> None:
    run = many(400)
    page = open_page(run, "#layer-321")
    row = page.locator("#layer-321.open.selected")
    row.wait_for()
    box = row.bounding_box()
    assert 0 < box["y"] < 900
    assert run.layers[320].name[-8:] in row.text_content()


def test_the_address_keeps_the_view_and_gives_it_back(open_page: Open) -> None:
    run = typical()
    page = open_page(run)
    click_head(page, "Measured")
    page.keyboard.press("/")
    page.keyboard.type("conv")
    wait_for_address(page, "layers.q=conv")
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    wait_for_address(page, "layers.open=")
    before = (names(page)[:5], selected(page), page.locator("#layers-table tr.open").get_attribute("id"))
    address = page.url.partition("#")[2]
    again = open_page(run, "#" + address)
    assert again.locator("#layers-table input").input_value() == "conv"
    assert head(again, "Measured").get_attribute("aria-sort") == "descending"
    assert (names(again)[:5], selected(again), again.locator("#layers-table tr.open").get_attribute("id")) == before
    # A link to a section leaves the rest of the view alone.
    again.locator("nav a", has_text="Method").click()
    wait_for_address(again, "at=method")
    assert "layers.q=conv" in again.url
    assert again.locator("#method h2").evaluate("e => e.getBoundingClientRect().top") < 500


def test_the_address_keeps_the_zoom_of_a_chart(open_page: Open) -> None:
    run = with_panels(typical())
    page = open_page(run)

    def zoomed_in(page: Any) -> list[float]:
        """Bounds that the address has after one more step in."""
        panel, before = page.locator("#chart-roofline"), page.url
        panel.scroll_into_view_if_needed()
        panel.locator(".chart-canvas").focus()
        page.keyboard.press("+")
        page.wait_for_url(lambda address: address != before)
        found = re.search(r"roof=([^&]+)", page.url)
        return [float(part) for part in re.findall(r"-?\d+(?:\.\d+)?(?:e-?\d+)?", found[1] if found else "")]

    first = zoomed_in(page)
    address = page.url.partition("#")[2]
    second = zoomed_in(page)
    assert len(first) == 4
    assert second != pytest.approx(first, rel=0.01)
    # Opened with the address, the chart goes on from where the first page was.
    assert zoomed_in(open_page(run, "#" + address)) == pytest.approx(second, rel=0.01, abs=0.01)


def test_the_keys_are_listed_and_move_the_selection(same_page: Open) -> None:
    run = typical()
    page = same_page(run)
    page.keyboard.press("?")
    help_ = page.locator("#help")
    assert help_.is_visible()
    shoot(page, "keys")
    for key in ("/", "j", "k", "Enter", "Esc", "?"):
        assert help_.locator("kbd", has_text=key).first.is_visible()
    page.keyboard.press("Escape")
    assert not help_.is_visible()
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    assert selected(page) == run.layers[1].name
    page.locator("#layers-table .table-scroll").focus()
    page.keyboard.press("ArrowDown")
    assert selected(page) == run.layers[2].name
    page.keyboard.press("ArrowRight")
    assert page.locator("#layer-3.open").count() == 1
    page.keyboard.press("ArrowLeft")
    assert page.locator("#layer-3.open").count() == 0
    page.keyboard.press("Home")
    assert selected(page) == run.layers[0].name
    page.keyboard.press("End")
    assert selected(page) == run.layers[-1].name
    page.locator(f"#layer-{len(run.layers)}").wait_for()  # rows are made when they scroll into view


def test_a_definition_opens_by_mouse_and_by_key(same_page: Open) -> None:
    page = same_page(typical())
    page.locator(".strip .q").first.click()
    box = page.locator("#term-latency")
    assert box.is_visible()
    assert "median over the samples" in box.text_content()
    shoot(page, "definition")
    page.keyboard.press("Escape")
    assert not box.is_visible()
    asked = head(page, "Bound").locator(".q")
    assert asked.get_attribute("aria-label") == "Definition: Bound"
    asked.focus()
    page.keyboard.press("Enter")
    assert page.locator("#term-bound").is_visible()
    place = page.locator("#term-bound").bounding_box()
    assert place["x"] >= 0
    assert place["x"] + place["width"] <= 1360


def test_tables_copy_as_markdown_csv_and_tabs(open_page: Open) -> None:
    run = hostile()
    page = open_page(run, permissions=["clipboard-read", "clipboard-write"])

    def copied(where: str, form: str) -> str:
        bar = page.locator(where).locator(".copy button", has_text=form)
        page.evaluate("navigator.clipboard.writeText('')")
        bar.click()
        page.locator("#said.shown", has_text="Copied").wait_for()
        text: str = page.evaluate("navigator.clipboard.readText()")
        return text

    table = list(csv.reader(io.StringIO(copied("#layers-table", "CSV"))))
    assert table[0][:4] == ["#", "Layer", "Lost", "Measured"]
    assert [int(row[2]) for row in table[1:]] == [one.lost_ns for one in run.layers]
    assert not [cell for row in table for cell in row if cell.startswith(("=", "+", "@"))]
    lines = copied("#layers-table", "Markdown").splitlines()
    assert len(lines) == len(run.layers) + 2
    assert lines[1] == "|" + " --- |" * len(table[0])
    assert not [line for line in lines if re.search(r"(?<!\\)<script|\u202e", line)]
    assert len({line.replace("\\|", "").count("|") for line in lines}) == 1
    tabs = copied("#nodes-table", "tabs").splitlines()
    assert len(tabs) == len(run.nodes) + 1
    assert {line.count("\t") for line in tabs} == {6}
    page.locator("#ledger summary").click()
    ledger = copied("#ledger", "Markdown").splitlines()
    assert len(ledger) == len(run.ledger) + 3
    assert ledger[0].startswith("| Step | Meaning | Time | Share | Kind |")


def test_ten_thousand_layers_stay_usable(open_page: Open) -> None:
    run = many()
    page = open_page(run)
    assert status(page).text_content() == "10,000 layers"
    assert page.locator("#layers-table tr.row").count() < 80
    assert page.locator("#layers-table table").get_attribute("aria-rowcount") == "10001"
    click_head(page, "Measured")
    first = max(run.layers, key=lambda one: one.measured_ns)
    assert under(page, "Measured")[0] == units.format_ns(first.measured_ns)
    page.locator("#layers-table .table-scroll").focus()
    page.keyboard.press("End")
    last = min(run.layers, key=lambda one: (one.measured_ns, -run.layers.index(one)))
    row = page.locator(f"#layer-{run.layers.index(last) + 1}.selected")
    row.wait_for()
    assert row.get_attribute("aria-rowindex") == "10001"
    assert page.locator("#layers-table tr.row").count() < 80
    page.locator("#layers-table input").fill("conv_9996")
    wait_for(page, status(page), "1 layer (filtered from 10,000)")
    shoot(page, "ten-thousand", whole=True)


def test_hostile_names_are_shown_and_never_run(open_page: Open) -> None:
    run = with_panels(hostile())
    page = open_page(run)
    for place in range(len(run.layers)):
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        assert page.locator(f"#layer-{place + 1}.open").count() == 1
        words = page.locator(f"#layer-{place + 1} + tr.detail .full").first.text_content()
        name = run.layers[place].name
        if name.isprintable():
            assert words == name
        page.keyboard.press("Enter")
    for chart in page.locator(".chart").all():
        chart.scroll_into_view_if_needed()
    page.wait_for_timeout(100)
    assert page.evaluate("window.__pwned") is None
    assert page.locator("main img").count() == 0
    text = page.locator("body").text_content()
    for name in HOSTILE_NAMES:
        if name.isprintable():
            assert name in text
    assert "line\\nbreak\\rand\\ttab" in text
    assert "\\u202egnp.exe" in text
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    shoot(page, "hostile", whole=True)


@functools.cache
def _luminance(color: str) -> float:
    red, green, blue = (int(part) for part in color.removeprefix("rgb(").removesuffix(")").split(", "))
    return (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255


def _ground_and_ink(page: Any) -> tuple[float, float]:
    style = "e => [getComputedStyle(e).backgroundColor, getComputedStyle(e).color]"
    ground, ink = (_luminance(color) for color in page.locator("body").evaluate(style))
    return ground, ink


@pytest.mark.parametrize(("scheme", "dark"), [("light", False), ("dark", True)])
def test_follows_the_colour_scheme_of_the_reader(same_page: Open, scheme: str, dark: bool) -> None:
    page = same_page(with_panels(on_gpu()), color_scheme=scheme)
    ground, ink = _ground_and_ink(page)
    assert (ground < 0.2) is dark
    assert (ink > 0.7) is dark
    if dark:
        shoot(page, "dark", whole=True)
    page.emulate_media(color_scheme="light" if dark else "dark")
    assert (_ground_and_ink(page)[0] < 0.2) is not dark


def test_the_switch_of_colours_wins_and_is_remembered_before_the_first_paint(open_page: Open) -> None:
    page = open_page(typical(), color_scheme="light")
    page.locator("#theme").select_option("dark")
    assert _ground_and_ink(page)[0] < 0.2
    page.keyboard.press("Escape")
    page.reload(wait_until="commit")
    # The attribute is there as soon as the body is: nothing was painted in the other colours.
    page.locator("body").wait_for()
    assert page.locator("html").get_attribute("data-theme") == "dark"
    assert page.locator("#theme").input_value() == "dark"
    page.locator("#theme").select_option("system")
    assert _ground_and_ink(page)[0] > 0.8
    page.locator("h1").click()
    page.keyboard.press("t")
    assert _ground_and_ink(page)[0] < 0.2


def test_prints_on_white_without_controls_and_with_every_row(open_page: Open, tmp_path: Path) -> None:
    run = with_panels(typical())
    page = open_page(run, color_scheme="dark")
    page.emulate_media(media="print")
    assert _ground_and_ink(page)[0] > 0.99
    assert _ground_and_ink(page)[1] < 0.3
    assert not page.locator("nav").is_visible()
    assert not page.locator("#layers-table input").is_visible()
    assert not page.locator(".q").first.is_visible()
    wait_for_rows(page, len(run.layers))
    shoot(page, "print", whole=True)
    if SHOTS:
        page.pdf(path=Path(SHOTS) / "print.pdf", prefer_css_page_size=True, print_background=True)
    page.emulate_media(media="screen")
    assert _ground_and_ink(page)[0] < 0.2


def test_paper_holds_so_many_rows_and_says_so(open_page: Open) -> None:
    page = open_page(many(1000))
    page.emulate_media(media="print")
    wait_for_rows(page, 300)
    after = status(page).evaluate("e => getComputedStyle(e, '::after').content")
    assert after.strip('"') == ", the first 300 of them on paper"


def test_fits_a_phone(same_page: Open) -> None:
    page = same_page(with_panels(typical()))
    page.set_viewport_size({"width": 390, "height": 800})
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.keyboard.press("j")
    assert page.locator("#picked").bounding_box()["width"] <= 390
    shoot(page, "phone", whole=True)


def test_a_page_without_a_script_says_what_is_missing(open_page: Open, chromium: Any, tmp_path: Path) -> None:
    file = tmp_path / "plain.html"
    file.write_text(get("html").render(make_run(), ReportOptions()), encoding="utf-8")
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(file.as_uri())
    assert page.locator("noscript .none, p.none", has_text="drawn by a script").is_visible()
    assert page.locator("#measured").count() + page.locator(".strip .big").count() > 0
    context.close()
