"""Fixtures that every test may use."""

from __future__ import annotations

import os
import re
import sys

# Before numpy is loaded, here and in all children: threads of BLAS that spin take the cores from the other tests.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import shutil
import signal
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.fakes.in_process import fixed_calibration, quick
from tests.fakes.support import NO_CAPTURES
from trtprof.base.records import Run

# A busy machine is no defect: no example has a deadline.
settings.register_profile("default-suite", deadline=None, max_examples=25)
settings.register_profile("nightly", deadline=None, max_examples=500)

# A shell starts jobs in the background deaf to Ctrl-C, and so would be what tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


MOST_CPU_S = 5.0
"""What a test of the default suite may use, its own and that of its children, in seconds of CPU."""
MOST_PROCESS_TESTS = 60


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--all``: the nightly tests too."""
    parser.addoption("--all", action="store_true", help="run the nightly tests too, and 500 examples of each property")


def pytest_configure(config: pytest.Config) -> None:
    """How many examples a property is tried with."""
    settings.load_profile("nightly" if config.getoption("--all") else "default-suite")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A file that is nightly as a whole is not even imported, unless it is named."""
    if config.getoption("--all") or collection_path.suffix != ".py" or collection_path.name in " ".join(config.args):
        return None
    return (
        True if re.search(r"^pytestmark = .*mark\.nightly", collection_path.read_text("utf-8"), re.MULTILINE) else None
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves nightly tests to ``--all``; a file or test that is named on the command line runs as it is."""
    named = [argument for argument in config.args if ".py" in argument]
    if config.getoption("--all") or named:
        return
    nightly = [item for item in items if item.get_closest_marker("nightly")]
    if nightly:
        config.hook.pytest_deselected(items=nightly)
        items[:] = [item for item in items if item not in set(nightly)]
    processes = sum(item.get_closest_marker("process") is not None for item in items)
    if processes > MOST_PROCESS_TESTS:
        raise pytest.UsageError(
            f"{processes} tests marked `process`: the default suite has at most {MOST_PROCESS_TESTS}"
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, Any]:
    """A test of the default suite that uses much CPU fails: it is to be made smaller, or marked."""
    report = yield
    now = sum(os.times()[:4])
    spent, item.stash[_CPU] = now - item.stash.get(_CPU, now), now
    started = _started.copy()
    _started.clear()
    exempt = item.config.getoption("--all") or any(map(item.get_closest_marker, ("process", "nightly")))
    if report.when == "call" and report.passed and not exempt:
        if started:
            report.outcome, report.longrepr = (
                "failed",
                f"starts a process ({started[0]:.80}): call it, or mark it `process`",
            )
        elif spent > MOST_CPU_S:
            report.outcome = "failed"
            report.longrepr = (
                f"{spent:.1f} s of CPU, its own and its children's: at most {MOST_CPU_S:.0f} s, or mark it"
            )
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fixtures of a module are nobody's alone: a test is measured from its call on."""
    _started.clear()
    item.stash[_CPU] = sum(os.times()[:4])


_CPU = pytest.StashKey[float]()
_started: list[str] = []
"""Processes that the test at hand started."""


def _note_process(event: str, arguments: tuple[object, ...]) -> None:
    if event in {"subprocess.Popen", "os.posix_spawn", "os.fork"}:
        command = arguments[1] if len(arguments) > 1 else event
        words = " ".join(map(str, command)) if isinstance(command, list | tuple) else str(command)
        if not words.startswith("fc-list"):  # matplotlib, when it first meets a machine
            _started.append(words)


sys.addaudithook(_note_process)


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
