"""Fixtures that every test may use."""

from __future__ import annotations

import os

# Before numpy is loaded, here and in all children: threads of BLAS that spin take the cores from the other tests.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from profiler.base.records import Run
from tests.fakes.in_process import fixed_calibration, quick
from tests.fakes.support import NO_CAPTURES

# A busy machine is no defect: no example has a deadline.
settings.register_profile("trtprof", deadline=None)
settings.load_profile("trtprof")

# A shell starts jobs in the background deaf to Ctrl-C, and so would be what tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many tests need files that the project does not have; what they prove is proven on files of its own too."""
    skipped = sum(NO_CAPTURES in str(report.longrepr) for report in terminalreporter.getreports("skipped"))
    if skipped:
        terminalreporter.write_line(f"{skipped} skipped: each {NO_CAPTURES}")


@pytest.fixture
def no_calibration(monkeypatch: pytest.MonkeyPatch) -> None:
    """See `fixed_calibration`."""
    fixed_calibration(monkeypatch)


@pytest.fixture
def quick_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """See `quick`."""
    quick(monkeypatch)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A headless Chromium."""
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        pytest.skip("no chromium, chromium-browser or google-chrome on the PATH")
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    switches = [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ]
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=switches)
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Opens the page of a run from file:// and fails the test on any error, message or request."""
    from profiler.report import ReportOptions, get

    bad: list[str] = []
    pages = []

    def open_(run: Run, fragment: str = "", **settings: Any) -> Any:
        file = tmp_path / "report.html"
        file.write_text(get("html").render(run, ReportOptions()), encoding="utf-8")
        context = chromium.new_context(**{"viewport": {"width": 1360, "height": 900}, **settings})
        page = context.new_page()
        pages.append(page)
        page.on("console", lambda message: bad.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: bad.append(f"error: {error}"))
        page.on("dialog", lambda dialog: bad.append(f"dialog: {dialog.message}"))
        own = file.as_uri()
        page.on("request", lambda r: None if r.url.split("#")[0] == own or r.url == "data:," else bad.append(r.url))
        page.goto(own + fragment)
        page.locator("html[data-ready]").wait_for()
        return page

    yield open_
    for page in pages:
        page.context.close()
    assert bad == []
