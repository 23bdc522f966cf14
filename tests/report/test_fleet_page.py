"""The page of a fleet in headless Chromium: its table, its views, its links; hostile names do nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.fakes.fleet_reports import MS, cell, done, hostile, made_up, report_of
from trtprof.base.records import Fleet
from trtprof.report import ReportOptions, render
from trtprof.report.content import fleet as words
from trtprof.report.formats._fleet_page import link

pytestmark = pytest.mark.nightly

browser = pytest.mark.browser
Open = Callable[..., Any]


@pytest.fixture(scope="module")
def found() -> Fleet:
    return made_up()


def status(page: Any) -> Any:
    return page.locator("#answers-table .status")


def heads(page: Any) -> list[str]:
    found: list[str] = page.locator("#answers-table thead .sort").all_text_contents()
    return found


def under(page: Any, label: str) -> list[str]:
    at = heads(page).index(label) + 1
    found: list[str] = page.locator(f"#answers-table tr.row > td:nth-child({at})").all_text_contents()
    return found


@browser
def test_cells_read_as_in_the_other_reports(same_page: Open, found: Fleet) -> None:
    page = same_page(found)
    assert heads(page)[3:] == [target.target for target in found.targets]
    rows = list(words.grid(found.answers))
    for target in found.targets:
        shown = under(page, target.target)
        assert shown == [words.time(by_target[target.target]) for _, by_target in rows][: len(shown)]


@browser
def test_it_sorts_filters_and_shows_other_numbers(same_page: Open, found: Fleet) -> None:
    from playwright.sync_api import expect

    page = same_page(found)
    page.locator("#answers-table .sort", has_text="l4").click()
    times = [one.expected_ns or 0 for one in found.answers if one.target == "l4" and one.status == "done"]
    first = next(one for one in found.answers if one.target == "l4" and one.expected_ns == max(times))
    assert under(page, "l4")[0] == words.time(first)
    page.locator("#answers-table input[type=search]").fill("model_0003 batch=2")
    expect(status(page)).to_have_text("1 row (filtered from 12)")
    page.locator("#shown-cost").check()
    expect(status(page)).to_have_text("1 row (filtered from 12)")
    assert under(page, "l4")[0].startswith("~")
    assert under(page, "l4")[0].endswith(" EUR")
    assert under(page, "here") == ["unknown"], "nobody said a price"
    for part in ("show=cost", "answers.q=model_0003"):
        expect(page).to_have_url(re.compile(re.escape(part)))
    page.locator("#answers-table input[type=search]").fill("")
    page.locator("#shown-time").check()


@browser
def test_a_row_unfolds_to_all_that_is_known(same_page: Open, found: Fleet) -> None:
    page = same_page(found)
    page.locator("#answers-table tr.row").first.click()
    detail = page.locator("#answers-table tr.detail")
    text = detail.text_content()
    ran = next(one for one in found.answers if one.run)
    for part in (words.time(ran), "80 %)", ">= ", "EUR", "J"):
        assert part in text
    page.locator("#answers-table tr.row").first.click()


@browser
@pytest.mark.parametrize("width", [1360, 390])
def test_nothing_scrolls_sideways_with_thousands_of_cells(open_page: Open, width: int) -> None:
    from playwright.sync_api import expect

    page = open_page(made_up(84, 4), viewport={"width": width, "height": 844})
    expect(status(page)).to_have_text("336 rows")
    assert page.locator("#answers-table tr.row").count() < 80, "rows out of sight are no elements"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.locator("#best tbody tr").count() == 84
    page.keyboard.press("t")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


@browser
def test_hostile_names_do_nothing(open_page: Open) -> None:
    page = open_page(hostile())
    assert page.evaluate("window.__pwned === undefined")
    page.locator("#answers-table tr.row").first.click()
    assert page.evaluate("window.__pwned === undefined")


@browser
def test_a_build_has_no_time_and_energy_is_an_estimate(open_page: Open) -> None:
    rows = [
        done(cell("a", "x", verb="run"), latency_ns=MS, joules=0.3),
        done(cell("a", "y", verb="build")),
        done(cell("a", "z"), doubts="nothing is priced"),
    ]
    page = open_page(report_of(rows))
    assert [under(page, target) for target in "xyz"] == [["1.00 ms"], ["built"], ["no price"]]
    page.locator("#shown-energy").check()
    assert [under(page, target) for target in "xyz"] == [["~300 mJ"], ["unknown"], ["unknown"]]
    page.locator("#shown-time").check()


def test_what_is_said_of_several_models_is_said_once() -> None:
    names = [f"model {at}" for at in range(5)]
    rows = [done(cell(name, "x"), expected_ns=MS) for name in names[:3]]
    rows += [done(cell(name, "y"), bound_ns=MS) for name in names]
    found = report_of(rows)
    page = render(found, "html")
    table = page[page.index('id="best"') : page.index('id="answers"')]
    assert list(words.shared(found.best).values()) == [names[:3], names[3:]]
    for why, named in words.shared(found.best).items():
        assert table.count(f"<bdi>{', '.join(named)}</bdi>: <bdi>{why}</bdi>") == 1
    assert table.count("there is a bound alone") == 2


def test_a_page_is_the_same_twice_and_small(found: Fleet) -> None:
    page = render(found, "html")
    assert page == render(found, "html")
    assert len(render(made_up(200, 4, ran=False), "html")) < 2_000_000


@pytest.mark.parametrize(
    ("place", "folder", "href"),
    [
        ("runs/ab/report.html", ".", "./runs/ab/report.html"),
        ("runs/ab", "../my fleet", "../my%20fleet/runs/ab"),
        ("runs/a:b", "c:d", "./c%3Ad/runs/a%3Ab"),
        ("runs/ab", "", ""),
        ("runs/ab", "s3://bucket/fleet", ""),
        ("../../etc/passwd", ".", ""),
        ("/etc/passwd", ".", ""),
        ("", ".", ""),
    ],
)
def test_links_are_relative_and_stay_in_the_folder(place: str, folder: str, href: str) -> None:
    assert link(place, folder) == href
    assert ReportOptions().file == "", "a page that nobody placed links nothing"
