"""Fixtures that every test may use."""

from __future__ import annotations

import os

# Before numpy is loaded, here and in all children: threads of BLAS that spin take the cores from the other tests.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import shutil
import signal
from collections.abc import Callable, Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import settings

from tests.fakes.in_process import fixed_calibration, quick
from tests.fakes.support import NO_CAPTURES
from trtprof.base.records import Run

# A busy machine is no defect: no example has a deadline.
settings.register_profile("trtprof", deadline=None)
settings.load_profile("trtprof")

# A shell starts jobs in the background deaf to Ctrl-C, and so would be what tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


DESK = {"width": 1360, "height": 900}
"""The window that a page is opened in, in pixels."""


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


def opened(chromium: Any, file: Path, run: Run, fragment: str = "", **settings: Any) -> tuple[Any, list[str]]:
    """The page of a run, opened from file://, and a list of what must not be: any error, message or request."""
    from trtprof.report import ReportOptions, get

    bad: list[str] = []
    file.write_text(get("html").render(run, ReportOptions()), encoding="utf-8")
    page = chromium.new_context(**{"viewport": DESK, **settings}).new_page()
    page.on("console", lambda message: bad.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: bad.append(f"error: {error}"))
    page.on("dialog", lambda dialog: bad.append(f"dialog: {dialog.message}"))
    own = file.as_uri()
    page.on("request", lambda r: None if r.url.split("#")[0] == own or r.url == "data:," else bad.append(r.url))
    page.goto(own + fragment)
    page.locator("html[data-ready]").wait_for()
    return page, bad


@pytest.fixture
def open_page(chromium: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Opens the page of a run and fails the test on what must not be; see `opened`."""
    pages = []

    def open_(run: Run, fragment: str = "", **settings: Any) -> Any:
        pages.append(opened(chromium, tmp_path / "report.html", run, fragment, **settings))
        return pages[-1][0]

    yield open_
    for page, _ in pages:
        page.context.close()
    assert [line for _, bad in pages for line in bad] == []


@pytest.fixture(scope="module")
def kept_pages(chromium: Any) -> Iterator[dict[Hashable, tuple[Any, list[str]]]]:
    """Pages that several tests of a module look at."""
    pages: dict[Hashable, tuple[Any, list[str]]] = {}
    yield pages
    for page, _ in pages.values():
        page.context.close()


@pytest.fixture
def same_page(
    chromium: Any, tmp_path: Path, kept_pages: dict[Hashable, tuple[Any, list[str]]]
) -> Iterator[Callable[..., Any]]:
    """As `open_page`, but a module opens a run once: each test finds it as new, in the size and colours asked for.

    Opening takes most of the time of a short test. Tests of printing and of what is remembered open their own.
    """
    used: list[list[str]] = []

    def open_(run: Run, *, viewport: Mapping[str, int] = DESK, color_scheme: str = "light", **settings: Any) -> Any:
        key = msgspec.json.encode(run), tuple(settings.items())
        if key not in kept_pages:
            kept_pages[key] = opened(chromium, tmp_path / "kept.html", run, **settings)
        page, bad = kept_pages[key]
        used.append(bad)
        page.set_viewport_size(viewport)
        page.emulate_media(color_scheme=color_scheme)
        page.mouse.move(2, 2)
        page.keyboard.press("Escape")
        page.evaluate(
            """() => {
              document.activeElement?.blur();
              history.replaceState(null, "", location.pathname);
              dispatchEvent(new HashChangeEvent("hashchange"));
              for (const room of [window, ...document.querySelectorAll(".table-scroll")]) room.scrollTo(0, 0);
              return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(null))));
            }"""
        )
        return page

    yield open_
    assert [line for bad in used for line in bad] == []
