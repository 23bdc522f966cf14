"""The pages of a run and of a fleet in headless Chromium: no message, no request, every chart is drawn."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import fleet_reports
from tests.fakes.page_factory import with_panels
from tests.fakes.report_factory import hostile, typical

pytestmark = [pytest.mark.nightly, pytest.mark.browser]

REPORT = Path(__file__).parents[2] / "profiler" / "trtprof" / "report"
PHONE = {"width": 390, "height": 844}


def shades(page: Any, name: str) -> int:
    """Return how many colors are painted on the canvases of a chart."""
    panel = page.locator(f"#chart-{name}")
    panel.scroll_into_view_if_needed()
    panel.locator("canvas").first.wait_for(timeout=15_000)
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(null))))")
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


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_of_a_run(open_page: Callable[..., Any], scheme: str) -> None:
    run = with_panels(typical())
    page = open_page(run, color_scheme=scheme)
    assert page.locator("#layers-table .status").text_content() == f"{len(run.layers)} layers"
    assert page.locator("article.finding").count() == len(run.findings)
    assert {name for name in ("ledger", "roofline", "timeline", "graph") if shades(page, name) <= 4} == set()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    assert page.locator("#picked .name").text_content() == run.layers[0].name
    assert run.layers[0].kernels[0].kernel in page.locator("#layers-table tr.detail").text_content()
    page.set_viewport_size(PHONE)
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_of_a_fleet(open_page: Callable[..., Any], scheme: str) -> None:
    fleet = fleet_reports.made_up()
    page = open_page(fleet, color_scheme=scheme)
    heads = page.locator("#answers-table thead .sort").all_text_contents()
    assert heads[3:] == [target.target for target in fleet.targets]
    page.locator("#answers-table tr.row").first.click()
    assert "EUR" in page.locator("#answers-table tr.detail").text_content()
    page.set_viewport_size(PHONE)
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_hostile_names_do_nothing(open_page: Callable[..., Any]) -> None:
    for record in (with_panels(hostile()), fleet_reports.hostile()):
        page = open_page(record)
        page.locator("tr.row").first.click()
        assert page.evaluate("window.__pwned === undefined")


@pytest.mark.parametrize("name", ["app.js", "fleet.js", "theme.js"])
def test_a_bundle_is_of_the_sources_beside_it(name: str) -> None:
    """After a change in report/web run `npm ci && npm run build` there, and commit templates/ with it."""
    web = REPORT / "web"
    paths = ["build.mjs", "package.json", "package-lock.json", "tsconfig.json"]
    paths += [path.relative_to(web).as_posix() for path in (web / "src").rglob("*.ts")]
    seen = hashlib.sha256()
    for path in sorted(paths):
        content = (web / path).read_bytes()
        seen.update(f"{path}\n{len(content)}\n".encode())
        seen.update(content)
    assert f"sources sha256:{seen.hexdigest()}" in (REPORT / "templates" / name).read_text("utf-8")[:500]
