"""The charts of the page in headless Chromium: what they say, what they select, how they zoom, and that they draw."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.fakes.page_factory import with_panels
from tests.fakes.report_factory import CASES, hostile, make_run, many, on_gpu, one_layer, typical
from trtprof.base import units
from trtprof.base.records import LayerResult, NodeResult, Run, RunGraph, Timeline, TimelineLane
from trtprof.base.text_file import visible

pytestmark = pytest.mark.nightly

PANELS = ("ledger", "roofline", "timeline", "graph")
ZOOMED = {"roofline": "roof", "timeline": "time", "graph": "graph"}
"""What the address calls the view of each chart that zooms."""
Open = Callable[..., Any]


def chart(page: Any, name: str) -> Any:
    """The canvas of a chart, drawn: charts are drawn when they come near the window."""
    panel = page.locator(f"#chart-{name}")
    panel.scroll_into_view_if_needed()
    panel.locator("canvas").first.wait_for()
    host = panel.locator(".chart-canvas")
    host.scroll_into_view_if_needed()
    settle(page)
    return host


def settle(page: Any) -> None:
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(null))))")


def words(page: Any, name: str) -> str:
    text: str = page.locator(f"#chart-{name} .chart-words").text_content()
    return text


def status(page: Any, name: str) -> str:
    settle(page)
    text: str = page.locator(f"#chart-{name} .chart-status").text_content()
    return text


def address(page: Any) -> str:
    settle(page)
    # The page writes its view to the address 120 ms later, by a timer that is due before this one however busy it is.
    found: str = page.evaluate("() => new Promise((done) => setTimeout(() => done(location.hash), 140))")
    return found


def colors(page: Any, name: str) -> dict[tuple[int, int, int], int]:
    """How many pixels of a chart have each colour."""
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    settle(page)
    picture = image.open(io.BytesIO(page.locator(f"#chart-{name} .chart-canvas").screenshot())).convert("RGB")
    return {color: count for count, color in picture.getcolors(1 << 24)}


def shades(page: Any, name: str) -> int:
    """How many colours are painted on the canvases of a chart, counted by the page itself."""
    found: int = page.evaluate(
        """(name) => {
          const seen = new Set();
          for (const each of document.querySelectorAll(`#chart-${name} canvas`))
            for (const pixel of new Uint32Array(
              each.getContext("2d").getImageData(0, 0, each.width, each.height).data.buffer)) seen.add(pixel);
          return seen.size;
        }""",
        name,
    )
    return found


def variable(page: Any, name: str) -> tuple[int, int, int]:
    """A colour of the page, which its style sheet writes as ``#rrggbb`` or ``#rgb``."""
    text: str = page.evaluate(
        "(name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim()", name
    )
    if len(text) == 4:
        text = "#" + "".join(2 * digit for digit in text[1:])
    assert len(text) == 7
    return int(text[1:3], 16), int(text[3:5], 16), int(text[5:7], 16)


def drawn(run: Run) -> list[LayerResult]:
    """Layers that are dots of the roofline."""
    return [layer for layer in run.layers if layer.flops and layer.bytes and layer.measured_ns]


def resnet_like() -> Run:
    """A graph with skips, nodes in no layer and a layer that took no time."""
    run = with_panels(typical())
    assert run.graph is not None
    names = (*run.graph.layers, "noop")
    folded = tuple(
        NodeResult(name=f"/gone_{at}", op_type="Constant", graph="", fate=fate, layers=(), flops=None, bytes=None)
        for at, fate in enumerate(("folded", "folded", "eliminated"))
    )
    return msgspec.structs.replace(
        run,
        nodes=(*(node for node in run.nodes if node.fate == "layer"), *folded),
        graph=RunGraph(
            layers=names,
            layer_from=(*range(46), 0, 5, 46),
            layer_to=(*range(1, 47), 4, 20, 47),
            tensor=tuple(f"t{at}" for at in range(49)),
            nbytes=(-1,) * 48 + (2_000_000,),
        ),
    )


# --- they draw --------------------------------------------------------------------------------


@pytest.mark.browser
@pytest.mark.parametrize("case", [case for case in CASES if case != "many"])
@pytest.mark.parametrize("panels", [True, False], ids=["with timeline and graph", "without"])
def test_a_page_holds_what_its_run_holds_and_every_chart_draws_or_says_why_not(
    open_page: Open, case: str, panels: bool
) -> None:
    run = CASES[case]()
    page = open_page(with_panels(run) if panels else run)
    layers = page.locator("#layers-table")
    assert layers.locator(".status").text_content() == f"{len(run.layers)} layer{'' if len(run.layers) == 1 else 's'}"
    assert layers.locator("tr.row").count() >= min(len(run.layers), 15)
    assert page.locator("#ledger-table tbody tr").count() == len(run.ledger)
    assert page.locator("article.finding").count() == len(run.findings)
    for name in ("timeline", "graph"):
        assert page.locator(f"#{name} .none").count() == (0 if panels and (run.layers or name == "timeline") else 1)
    for name in PANELS:
        section = page.locator(f"section#{name}")
        panel = page.locator(f"#chart-{name}")
        possible = {
            "ledger": bool(run.ledger),
            "roofline": bool(drawn(run)),
            "timeline": panels,
            "graph": panels and bool(run.layers),
        }[name]
        section.scroll_into_view_if_needed()
        if not possible:
            assert panel.locator("canvas").count() == 0
            assert section.locator(".none, .lead").first.text_content()
            continue
        host = chart(page, name)
        assert host.get_attribute("tabindex") == "0"
        assert len(host.get_attribute("aria-label")) > 60
        assert shades(page, name) > 4


@pytest.mark.browser
@pytest.mark.parametrize("name", ["timeline", "graph", "ledger", "roofline"])
def test_an_empty_part_of_the_run_takes_a_sentence_and_no_exception(open_page: Open, name: str) -> None:
    layers = (typical().layers[0],)
    run = with_panels(make_run(layers))
    assert run.timeline is not None
    hollow = {
        "timeline": msgspec.structs.replace(
            run.timeline, lane=(), layer=(), name=(), start_ns=(), dur_ns=(), duration_ns=0
        ),
        "graph": RunGraph(layers=()),
        "ledger": (),
        "roofline": tuple(msgspec.structs.replace(one, flops=None, bytes=None, work=None) for one in layers),
    }[name]
    page = open_page(msgspec.structs.replace(run, **{"layers" if name == "roofline" else name: hollow}))
    page.locator(f"section#{name}").scroll_into_view_if_needed()
    settle(page)
    assert page.locator(f"#chart-{name} canvas").count() == 0
    for other in PANELS:
        if other != name:
            chart(page, other)


@pytest.mark.browser
def test_times_of_zero_and_names_of_nothing_are_drawn(open_page: Open) -> None:
    still = msgspec.structs.replace(typical().layers[0], measured_ns=0, attainable_ns=0, lost_ns=0, name="")
    run = make_run((still,), latency=msgspec.structs.replace(typical().latency, median_ns=0))
    page = open_page(
        msgspec.structs.replace(
            with_panels(run),
            ledger=tuple(msgspec.structs.replace(row, ns=0) for row in typical().ledger),
            timeline=Timeline(
                iteration=0,
                duration_ns=0,
                lanes=(TimelineLane(name="", kind="kernels"),),
                layers=("",),
                names=("",),
                lane=(0, 0),
                layer=(0, -1),
                name=(0, 0),
                start_ns=(0, 0),
                dur_ns=(0, 0),
            ),
        )
    )
    for name in ("ledger", "timeline", "graph"):
        chart(page, name)


@pytest.mark.browser
def test_ten_thousand_layers_are_drawn_and_merging_is_said(open_page: Open) -> None:
    run = with_panels(many())
    page = open_page(run)
    for name in PANELS:
        chart(page, name)
    assert f"{len(drawn(run)):,} layers as dots" in chart(page, "roofline").get_attribute("aria-label")
    chart(page, "timeline")
    assert "shorter than a pixel are drawn merged" in words(page, "timeline")
    assert "10,000 layers" in words(page, "graph")
    # The heat of the graph is there: several classes of lost time, each on many pixels.
    chart(page, "graph")
    found = colors(page, "graph")
    assert sum(found.get(variable(page, f"--heat-{step}"), 0) > 200 for step in range(1, 7)) >= 3
    page.locator("#chart-timeline .chart-canvas").focus()
    for _ in range(14):
        page.keyboard.press("+")
    settle(page)
    assert "merged" not in words(page, "timeline")


# --- when they are drawn ------------------------------------------------------------------------


@pytest.mark.browser
@pytest.mark.parametrize(("width", "away"), [(1360, 800), (360, 500), (1360, 20), (360, -200)])
def test_rows_stay_where_they_are_when_the_charts_above_are_drawn(open_page: Open, width: int, away: int) -> None:
    """A row that moves between the press of the pointer and its release is not clicked."""
    page = open_page(typical(), viewport={"width": width, "height": 900})
    # Charts wait for the reader, and are not drawn in idle time meanwhile.
    page.add_init_script("window.requestIdleCallback = () => 0")
    page.reload()
    page.locator("html[data-ready]").wait_for()
    assert page.locator("#chart-roofline canvas").count() == 0
    at = """(away) => {
      window.rows = () => document.querySelector("#layers-table").getBoundingClientRect().top;
      scrollTo(0, scrollY + rows() - away);
      return rows();
    }"""
    before = page.evaluate(at, away)
    page.locator("#chart-roofline canvas").first.wait_for()
    settle(page)
    assert abs(page.evaluate("rows()") - before) <= 1


# --- what they say ----------------------------------------------------------------------------


@pytest.mark.browser
@pytest.mark.parametrize("make", [typical, hostile], ids=["typical", "hostile"])
def test_every_step_of_the_ledger_can_be_read_with_the_keyboard(same_page: Open, make: Callable[[], Run]) -> None:
    run = make()
    page = same_page(run)
    chart(page, "ledger").focus()
    marks = {"fact": "", "estimate": "~", "remainder": "="}
    total = 0
    for row in run.ledger:
        page.keyboard.press("ArrowDown")
        said = status(page, "ledger")
        total += row.ns
        assert visible(row.cause)[:20] in said
        assert f"{marks[row.kind]}{units.format_ns(row.ns)}" in said
        assert units.format_ns(total) in said
    page.keyboard.press("ArrowDown")
    assert f"measured latency: {units.format_ns(run.latency.median_ns)}, measured" in status(page, "ledger")


@pytest.mark.browser
def test_the_ledger_draws_kinds_and_gains_apart(same_page: Open) -> None:
    page = same_page(typical())
    chart(page, "ledger")
    found = colors(page, "ledger")
    for name in ("--fact", "--est-line", "--est-ground", "--rest-ground", "--good"):
        assert found.get(variable(page, name), 0) > 10, name


@pytest.mark.browser
@pytest.mark.parametrize("make", [typical, on_gpu], ids=["cpu", "gpu"])
def test_the_roofline_counts_what_it_draws_and_what_it_does_not(same_page: Open, make: Callable[[], Run]) -> None:
    run = make()
    page = same_page(run)
    label = chart(page, "roofline").get_attribute("aria-label")
    dots = drawn(run)
    assert f"{len(dots):,} layers as dots" in label
    text = words(page, "roofline")
    unknown = [layer for layer in run.layers if layer.flops is None or layer.bytes is None]
    idle = [layer for layer in run.layers if layer not in dots and layer not in unknown]
    if unknown:
        assert f"{len(unknown)} layer{'' if len(unknown) == 1 else 's'} whose work is not known" in text
        assert units.format_ns(sum(layer.measured_ns for layer in unknown)) in text
    if idle:
        assert f"{len(idle)} layer{'' if len(idle) == 1 else 's'} without arithmetic" in text
    assert units.format_ns(max(layer.measured_ns for layer in dots)) in text
    legend = page.locator("#chart-roofline .chart-toggle").all_text_contents()
    assert sum(int(entry.rsplit(" ", 1)[1]) for entry in legend) == len(dots)
    # Ceilings with their values and what they are.
    for value, unit in (
        (run.ceilings.attainable.dram_bytes_per_s, "B/s"),
        (run.ceilings.attainable.cache_bytes_per_s, "B/s"),
    ):
        assert f"{units.format_rate(value, unit)}, {run.ceilings.origin}" in label
    assert ("datasheet" if run.device.kind == "gpu" else "best measured") in label


@pytest.mark.browser
def test_a_bound_can_be_hidden_and_the_address_keeps_it(same_page: Open) -> None:
    page = same_page(typical())
    chart(page, "roofline")
    button = page.locator("#chart-roofline .chart-toggle", has_text="memory")
    before = colors(page, "roofline")
    button.click()
    settle(page)
    assert button.get_attribute("aria-pressed") == "false"
    assert colors(page, "roofline") != before
    assert "roof-off=dram" in address(page)
    page.reload()
    chart(page, "roofline")
    assert page.locator("#chart-roofline .chart-toggle", has_text="memory").get_attribute("aria-pressed") == "false"


@pytest.mark.browser
def test_the_timeline_says_its_gaps_and_that_times_are_as_captured(same_page: Open) -> None:
    run = with_panels(typical())
    timeline = run.timeline
    assert timeline is not None
    page = same_page(run)
    chart(page, "timeline")
    busy: set[int] = set()
    for lane, start, duration in zip(timeline.lane, timeline.start_ns, timeline.dur_ns, strict=True):
        if timeline.lanes[lane].kind == "kernels":
            busy.update(range(start, start + duration))
    idle = timeline.duration_ns - len(busy)
    text = words(page, "timeline")
    assert f"{units.format_ns(idle)} in all ({units.format_percent(idle / timeline.duration_ns)})" in text
    assert "no kernel runs" in text
    assert "as captured" in page.locator("section#timeline").inner_text() or "times captured" in text
    assert "never split over its nodes" in text


@pytest.mark.browser
def test_nodes_in_no_layer_stand_apart_by_fate(open_page: Open) -> None:
    page = open_page(resnet_like())
    chart(page, "graph")
    apart = page.locator("#chart-graph .chart-apart")
    assert apart.locator("summary").text_content() == "3 ONNX nodes are in no layer: 2 folded, 1 eliminated"
    apart.locator("summary").click()
    assert apart.locator("li").count() == 3
    assert "took no time" in page.locator("#chart-graph .chart-tools").inner_text()


# --- what they select -------------------------------------------------------------------------


@pytest.mark.browser
def test_a_selection_shows_in_every_chart_and_in_the_address(same_page: Open) -> None:
    run = with_panels(typical())
    page = same_page(run)
    for name in PANELS:
        chart(page, name)
    chart(page, "roofline").focus()
    page.keyboard.press("ArrowDown")
    first = drawn(run)[0]
    for name in ("roofline", "timeline", "graph"):
        assert first.name in status(page, name)
    assert f"layer={run.layers.index(first) + 1}" in address(page)
    chart(page, "graph").focus()
    page.keyboard.press("ArrowDown")
    second = run.layers[run.layers.index(first) + 1]
    for name in ("timeline", "graph"):
        assert second.name in status(page, name)
    chart(page, "timeline").focus()
    page.keyboard.press("ArrowRight")
    assert run.layers[run.layers.index(second) + 1].name in status(page, "graph")
    page.keyboard.press("Escape")
    assert status(page, "graph") == ""
    assert "layer=" not in address(page)


@pytest.mark.browser
def test_what_is_selected_elsewhere_is_brought_into_sight(open_page: Open) -> None:
    run = with_panels(many(400))
    page = open_page(run)
    chart(page, "timeline").focus()
    for _ in range(6):
        page.keyboard.press("+")
    before = address(page)
    assert "time=" in before
    page.evaluate("() => { location.hash = location.hash.replace(/&?layer=\\d+/, '') + '&layer=400'; }")
    settle(page)
    after = dict(part.split("=") for part in address(page).lstrip("#").split("&"))
    start, end = map(float, after["time"].split("_"))
    assert run.timeline is not None
    at = run.timeline.start_ns[399]
    assert start <= at <= end


@pytest.mark.browser
def test_click_and_hover_of_a_box_of_the_graph(same_page: Open) -> None:
    run = with_panels(one_layer())
    page = same_page(run)
    host = chart(page, "graph")
    box = host.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    tip = page.locator("#tip")
    tip.wait_for(state="visible")
    text = tip.inner_text()
    only = run.layers[0]
    for part in (only.name, only.op_type, units.format_ns(only.measured_ns), f"~{units.format_ns(only.lost_ns or 0)}"):
        assert part in text
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert only.name in status(page, "graph")
    page.mouse.click(box["x"] + 5, box["y"] + 5)
    assert status(page, "graph") == ""


@pytest.mark.browser
def test_hover_and_click_of_a_dot_of_the_roofline(open_page: Open) -> None:
    run = one_layer()
    page = open_page(run)
    host = chart(page, "roofline")
    box = host.bounding_box()
    tip = page.locator("#tip")
    only = run.layers[0]
    # Where a dot is, by made up moves of the pointer; what counts is the real one after them.
    found = page.evaluate(
        """() => {
          const host = document.querySelector("#chart-roofline .chart-canvas"), tip = document.querySelector("#tip");
          const box = host.getBoundingClientRect();
          for (let y = 20; y < box.height - 40; y += 14)
            for (let x = 90; x < box.width - 20; x += 14) {
              const at = { clientX: box.x + x, clientY: box.y + y, bubbles: true, pointerType: "mouse" };
              host.dispatchEvent(new PointerEvent("pointermove", at));
              if (tip.hidden) continue;
              host.dispatchEvent(new PointerEvent("pointerleave", at));
              return [x, y];
            }
          return null;
        }"""
    )
    assert found, "no dot under the pointer anywhere"
    assert not tip.is_visible()
    page.mouse.move(box["x"] + found[0], box["y"] + found[1])
    text = tip.inner_text()
    for part in (only.name, only.kernels[0].kernel, units.format_ns(only.measured_ns), "FLOP/B", "of the roofline"):
        assert part in text
    # The dot is where its rate and intensity say: its time and work are those of the tip.
    assert units.format_rate((only.flops or 0) / only.measured_ns * 1e9, "FLOP/s") in text
    page.mouse.click(box["x"] + found[0], box["y"] + found[1])
    assert only.name in status(page, "roofline")
    page.mouse.move(2, 2)
    assert not tip.is_visible()


@pytest.mark.browser
def test_search_finds_layers_and_nodes_of_the_graph(same_page: Open) -> None:
    run = with_panels(typical())
    page = same_page(run)
    chart(page, "graph")
    search = page.locator("#chart-graph .chart-search")
    search.fill("features/3 expand relu")
    search.press("Enter")
    assert "/features/3/expand/Conv" in status(page, "graph")
    assert "1 of 1" in page.locator("#chart-graph .chart-tools").inner_text()
    search.fill("nothing is called this")
    page.locator("#chart-graph .chart-tools", has_text="0 found").wait_for()


@pytest.mark.browser
def test_hostile_names_stay_text(same_page: Open) -> None:
    run = with_panels(hostile())
    page = same_page(run)
    for name in ("roofline", "timeline", "graph"):
        chart(page, name).focus()
        for _ in range(4):
            page.keyboard.press("ArrowDown")
        settle(page)
    box = chart(page, "graph").bounding_box()
    page.mouse.move(box["x"] + 60, box["y"] + 60)
    settle(page)
    assert page.evaluate("() => window.__pwned") is None
    assert page.locator("#chart-graph script, #tip script, #chart-graph img").count() == 0


# --- how they zoom ----------------------------------------------------------------------------


@pytest.mark.browser
@pytest.mark.parametrize("name", ZOOMED)
def test_zoom_and_pan_by_wheel_key_drag_and_button(same_page: Open, name: str) -> None:
    page = same_page(with_panels(typical()))
    host = chart(page, name)
    box = host.bounding_box()
    key = f"{ZOOMED[name]}="
    whole = colors(page, name)
    # The wheel alone scrolls the page.
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 3)
    page.mouse.wheel(0, 40)
    assert key not in address(page)
    host.scroll_into_view_if_needed()
    box = host.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 3)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -300)
    page.keyboard.up("Control")
    zoomed = address(page)
    assert key in zoomed
    assert colors(page, name) != whole
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2 - 120, box["y"] + box["height"] / 3 - 10, steps=4)
    page.mouse.up()
    dragged = address(page)
    assert dragged != zoomed
    host.focus()
    page.keyboard.press("Shift+ArrowRight")
    moved = address(page)
    assert moved != dragged
    page.reload()
    chart(page, name)
    assert address(page) == moved
    page.locator(f"#chart-{name} .chart-button", has_text="Fit").click()
    assert key not in address(page)
    page.locator(f"#chart-{name} .chart-button", has_text="+").click()
    assert key in address(page)
    host.focus()
    page.keyboard.press("0")
    assert key not in address(page)
    page.mouse.move(2, 2)
    assert colors(page, name) == whole


@pytest.mark.browser
def test_a_view_that_makes_no_sense_is_the_whole_view(same_page: Open) -> None:
    page = same_page(with_panels(typical()))
    whole = "NaN_NaN_NaN_NaN", "9_1", "nonsense"
    # One function reads the views of all charts, when they are made and when the address changes.
    page.evaluate("(hash) => { location.hash = hash; }", "roof={0}&time={1}&graph={2}&roof-off={0}".format(*whole))
    page.reload()
    for name in PANELS:
        chart(page, name)
        assert shades(page, name) > 4, name
    for roof, time, graph in (
        ("nonsense", "-5_-6", "1e999_2"),
        ("_._", "1e999_2", "0_0_0"),
        ("9_1", "1", "_".join(whole)),
    ):
        page.evaluate("(hash) => { location.hash = hash; }", f"roof={roof}&time={time}&graph={graph}&roof-off={roof}")
        for name in PANELS:
            assert len(colors(page, name)) > 4, (roof, time, graph, name)


@pytest.mark.browser
def test_the_slider_moves_the_timeline(same_page: Open) -> None:
    page = same_page(with_panels(typical()))
    host = chart(page, "timeline")
    box = host.bounding_box()
    y = box["y"] + box["height"] - 24
    page.mouse.move(box["x"] + box["width"] - 14, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, y, steps=8)
    page.mouse.up()
    view = address(page)
    assert "time=0_" in view


def long_model(count: int) -> Run:
    """A run of ``count`` layers in modules of 24, as the names of an exported encoder tell them."""
    run = many(count)
    layers = tuple(
        msgspec.structs.replace(one, name=f"/model/layers.{at // 24}/block/op_{at}", nodes=())
        for at, one in enumerate(run.layers)
    )
    return with_panels(msgspec.structs.replace(run, layers=layers, nodes=()))


@pytest.mark.browser
@pytest.mark.parametrize("count", [300, 1348])
def test_a_long_graph_shows_words_at_first_and_a_module_opens(open_page: Open, count: int) -> None:
    page = open_page(long_model(count))
    host = chart(page, "graph")
    tools = page.locator("#chart-graph .chart-tools")
    modules = -(-count // 24)
    assert tools.locator(".chart-button", has_text=f"All {count:,} layers").count() == 1
    assert (
        f"{modules if modules <= 48 else -(-modules // 2)} boxes stand for them"
        in page.locator("#chart-graph .chart-words").text_content()
    )
    ink, inks = variable(page, "--heat-ink"), variable(page, "--heat-ink-high")
    found = colors(page, "graph")
    assert found.get(ink, 0) + found.get(inks, 0) > 1000  # words
    box = host.bounding_box()
    # A click on a module shows its layers; Fit gives the modules back.
    for x, y in ((x, y) for y in range(30, int(box["height"]) - 20, 18) for x in range(40, int(box["width"]), 90)):
        page.mouse.move(box["x"] + x, box["y"] + y)
        if page.locator("#tip").is_visible():
            break
    assert "/layers." in f"/{page.locator('#tip').text_content()}"
    assert "shows its layers" in page.locator("#tip").text_content()
    page.mouse.down()
    page.mouse.up()
    assert tools.locator(".chart-button", has_text="modules").count() == 1
    assert "graph-of=layers" in address(page)
    page.locator("#chart-graph .chart-button", has_text="Fit").click()
    assert "graph" not in address(page)
    # The search leads to a layer inside a module.
    search = page.locator("#chart-graph .chart-search")
    search.fill(f"op_{count - 1}")
    search.press("Enter")
    assert f"/model/layers.{(count - 1) // 24}/block/op_{count - 1}" in status(page, "graph")


@pytest.mark.browser
def test_precision_colours_layers_and_tensors(same_page: Open) -> None:
    page = same_page(with_panels(typical()))
    chart(page, "graph")
    tools = page.locator("#chart-graph .chart-tools")
    shown = [variable(page, f"--p-{name}") for name in ("fp32", "fp16", "int8")]
    before = colors(page, "graph")
    tools.locator(".chart-button", has_text="Colour").click()
    settle(page)
    after = colors(page, "graph")
    assert all(after.get(one, 0) > before.get(one, 0) + 20 for one in shown), [after.get(one, 0) for one in shown]
    legend = tools.locator(".chart-legend").first.text_content()
    assert "fp32" in legend
    assert "int8" in legend
    assert "graph-color=precision" in address(page)
    tools.locator(".chart-button", has_text="Colour").click()
    assert "graph-color" not in address(page)


@pytest.mark.browser
def test_a_layer_of_the_graph_tells_the_attributes_of_its_nodes(same_page: Open) -> None:
    run = with_panels(typical())
    page = same_page(run)
    chart(page, "graph").focus()
    page.keyboard.press("ArrowRight")
    about = page.locator("#chart-graph .graph-about")
    first = run.graph.layers[0] if run.graph else ""
    layer = next(one for one in run.layers if one.name == first)
    text = about.inner_text()
    nodes = {node.name: node for node in run.nodes}
    for name in layer.nodes:
        assert name in text
        assert nodes[name].attributes["group"] in text
    assert "kernel_shape" in text
    assert "t0" in text  # the tensor that it writes


@pytest.mark.browser
def test_memory_tells_its_peak_and_what_is_alive_in_each_layer(same_page: Open) -> None:
    run = with_panels(typical())
    assert run.memory is not None
    page = same_page(run)
    host = chart(page, "memory")
    peak = f"~{units.format_bytes(run.memory.peak_bytes)}"
    assert peak in page.locator("#memory .lead").text_content()
    assert peak in host.get_attribute("aria-label")
    box = host.bounding_box()
    page.mouse.move(box["x"] + box["width"] - 16, box["y"] + 120)  # the last layer, which is the peak
    text = page.locator("#tip").inner_text()
    assert peak in text
    assert f"t{len(run.layers) - 1}" in text
    assert "2 tensors" in text
    page.mouse.move(2, 2)
    host.focus()
    page.keyboard.press("ArrowRight")
    assert peak in status(page, "memory")
    page.keyboard.press("ArrowLeft")
    assert f"~{units.format_bytes(run.memory.live[-2])}" in status(page, "memory")
    assert page.locator("#layers-table tr.selected").count() == 1


# --- where they are seen ----------------------------------------------------------------------


@pytest.mark.browser
def test_colours_follow_the_theme(same_page: Open) -> None:
    page = same_page(with_panels(typical()), color_scheme="light")
    light: dict[str, Any] = {}
    for name in PANELS:
        chart(page, name)
        light[name] = colors(page, name)
    ink = variable(page, "--ink")
    page.emulate_media(color_scheme="dark")
    settle(page)
    assert variable(page, "--ink") != ink
    for name in PANELS:
        chart(page, name)
        dark = colors(page, name)
        assert max(light[name], key=light[name].get) != max(dark, key=dark.get), name  # type: ignore[arg-type]
        assert dark.get(variable(page, "--ink"), 0) + dark.get(variable(page, "--soft"), 0) > 20, name


@pytest.mark.browser
def test_they_follow_the_width_and_print_sharp(open_page: Open) -> None:
    page = open_page(with_panels(typical()), "#layer=2")
    for name in PANELS:
        chart(page, name)
    assert page.locator("#chart-roofline canvas").count() == 2
    for width in (700, 420):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_timeout(200)
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
        for name in PANELS:
            chart(page, name)
    page.set_viewport_size({"width": 1360, "height": 900})
    page.emulate_media(media="print", color_scheme="dark")
    settle(page)
    for name in PANELS:
        sharp = page.locator(f"#chart-{name} canvas").first.evaluate("(node) => node.width / node.clientWidth")
        assert sharp >= 1.9
        # What marks the selected dot lies over the dots, not below them.
        tops = page.locator(f"#chart-{name} canvas").evaluate_all(
            "(all) => all.map((one) => one.getBoundingClientRect().top)"
        )
        assert len(set(tops)) == 1
    assert variable(page, "--bg") == (255, 255, 255)


@pytest.mark.browser
def test_charts_far_below_are_drawn_when_the_page_is_captured_whole_or_printed(open_page: Open) -> None:
    page = open_page(with_panels(typical()), viewport={"width": 1360, "height": 300})
    where = "() => document.querySelector('#nodes h2').getBoundingClientRect().top + scrollY"
    before = page.evaluate(where)
    # Nobody scrolls: each is drawn as soon as the page has nothing else to do.
    for name in PANELS:
        page.locator(f"#chart-{name} canvas").first.wait_for(timeout=15_000)
    settle(page)
    assert page.evaluate("scrollY") == 0
    for name in PANELS:
        assert shades(page, name) > 4, name
    # They had kept their room: what lies below them hardly moves.
    assert abs(page.evaluate(where) - before) < 220


@pytest.mark.browser
def test_a_page_that_is_printed_at_once_has_its_charts(open_page: Open) -> None:
    page = open_page(with_panels(typical()), viewport={"width": 1360, "height": 300})
    page.evaluate("() => dispatchEvent(new Event('beforeprint'))")
    for name in PANELS:
        assert page.locator(f"#chart-{name} canvas").count() >= 1, name


@pytest.mark.browser
def test_a_sheet_of_paper_is_filled(open_page: Open) -> None:
    page = open_page(with_panels(typical()))
    document = page.pdf(prefer_css_page_size=True, print_background=True)
    sheets = len(re.findall(rb"/Type\s*/Page\b", document))
    # A4 less its margins, in pixels of CSS.
    page.set_viewport_size({"width": 703, "height": 1032})
    page.emulate_media(media="print")
    settle(page)
    wanted = page.evaluate("document.documentElement.scrollHeight") / 1032
    assert wanted <= sheets <= 1.2 * wanted + 1
    # Words in a drawing are no smaller than four fifths of what they are on a screen.
    width = page.locator("#chart-roofline canvas").first.evaluate("e => e.width / 2")
    assert width <= 703 / 0.78
