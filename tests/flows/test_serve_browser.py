"""The list of runs in a real Chromium: it filters, leads to reports, needs no script, and asks for nothing else."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.fakes import report_factory as factory
from trtprof.base.run_folder import RunFolder
from trtprof.flows.serve import server

pytestmark = [pytest.mark.nightly, pytest.mark.browser]

SHOTS = os.environ.get("TRTPROF_SCREENSHOTS", "")
"""A folder for pictures of the page; none is kept where it is not set."""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of six runs of one model and one with hostile names."""
    reports = tmp_path_factory.mktemp("runs")
    run = factory.typical()
    for at in range(6):
        folder = reports / f"tinynet-{at}"
        folder.mkdir()
        median = run.latency.median_ns * (100 + at) // 100
        latency = msgspec.structs.replace(run.latency, median_ns=median, min_ns=median * 98 // 100)
        *rows, last = run.ledger
        last = msgspec.structs.replace(last, ns=last.ns + median - run.latency.median_ns)
        changed = msgspec.structs.replace(
            run, latency=latency, ledger=(*rows, last), created=f"2026-11-0{at + 1}T10:00:00+00:00"
        )
        (folder / "report.json").write_bytes(msgspec.json.encode(changed))
    RunFolder(reports / "tinynet-0").tag(["baseline"])
    hostile = reports / "hostile"
    hostile.mkdir()
    (hostile / "report.json").write_bytes(msgspec.json.encode(factory.hostile()))
    with server(reports) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield running.url
        running.shutdown()
        thread.join()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_list_in_a_browser(chromium: Any, url: str, scheme: str) -> None:
    bad: list[str] = []
    context = chromium.new_context(viewport={"width": 1360, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.on("console", lambda message: bad.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: bad.append(f"error: {error}"))
    page.on("dialog", lambda dialog: bad.append(f"dialog: {dialog.message}"))
    page.on("request", lambda r: None if r.url.startswith((url, "data:")) else bad.append(r.url))
    page.goto(url)
    assert page.locator(".runs tbody tr").count() == 7
    assert page.locator(".trend .dot").count() == 6
    assert page.evaluate("window.__pwned") is None
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, ground.removeprefix("rgb(").rstrip(")").split(","))) < 200) is (scheme == "dark")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    if SHOTS:
        page.screenshot(path=Path(SHOTS) / f"runs-{scheme}.png", full_page=True)
    page.fill("input[type=search]", "BASELINE tinynet")
    page.keyboard.press("Enter")
    page.wait_for_url("**/?text=*")
    assert page.locator(".runs tbody tr").count() == 1
    # A click comes back before the page that it asks for is there.
    with page.expect_navigation():
        page.click("text=compare with this")
    with page.expect_navigation():
        page.click("text=all runs")
    assert page.locator(".runs code").count() == 6
    page.click(".runs tbody tr:has-text('tinynet-5') th a")
    page.locator("html[data-ready]").wait_for()
    assert "tinynet" in page.locator("h1").inner_text()
    context.close()
    assert bad == []
