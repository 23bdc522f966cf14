"""A fleet as one page that needs no network and no server.

All of it is there without a script, but for the table of models and targets, which ``web/src/fleet.ts`` draws: it is
sorted and filtered, and only the rows in sight are elements. Names come from files by others: the template escapes
all text, the data travels as JSON in a block that no browser executes, and a content security policy allows exactly
the two scripts and the style sheets of the page, by their digests, and no request at all.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any
from urllib.parse import quote

from trtprof.base import units
from trtprof.base.records import WIDER_BASES, Fleet, FleetAnswer, FleetBasis
from trtprof.report import ReportOptions
from trtprof.report._format import count, plain
from trtprof.report._templates import asset, digest, environment
from trtprof.report.content import fleet as words

FLEET_BASES: tuple[FleetBasis, ...] = ("none", "measured", "expected", "bound")
"""As ``BASES`` of the script orders them."""
BEST, PATTERNS = 200, 40
"""Rows of tables that stand on the page without a script. The JSON document has more, the data set of the fleet all."""

_PLACE = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


def render(found: Fleet, options: ReportOptions) -> str:
    """The page; ``options.file`` is the folder of the fleet as seen from where the page is, to link runs."""
    from markupsafe import Markup

    plain(found)  # what no JSON can hold is told before anything is written
    templates = environment()
    templates.filters.update(ns=units.format_ns, percent=units.format_percent, count=count, names=units.format_names)
    styles = [asset("app.css"), asset("fleet.css")]
    script, theme = asset("fleet.js"), asset("theme.js")
    return templates.get_template("fleet.html.jinja").render(
        found=found,
        words=words,
        data=_data(found, options.file),
        bars=_bars(found),
        efficient=_efficient(found),
        best_rows=BEST,
        shared=words.shared(found.best[:BEST]),
        pattern_rows=PATTERNS,
        licences=asset("fleet.js.LICENSES.txt").splitlines(),
        styles=[Markup(style) for style in styles],  # noqa: S704 - our own files
        digests=[digest(style) for style in styles],
        script=Markup(script),  # noqa: S704 - our own file
        script_digest=digest(script),
        theme=Markup(theme),  # noqa: S704 - our own file
        theme_digest=digest(theme),
    )


def _data(found: Fleet, folder: str) -> dict[str, Any]:
    """What the script draws: a row for each model, size and precision, with a cell a target or none."""
    targets = [target.target for target in found.targets]
    best = {(one.model, one.precision): one.target for one in found.best}
    rows = [
        [
            first.model, first.size, first.precision, best.get((first.model, first.precision), ""),
            [_cell(by_target[target], folder) if target in by_target else None for target in targets],
        ]
        for first, by_target in words.grid(found.answers)
    ]  # fmt: skip
    return {"currency": found.currency, "targets": targets, "rows": rows}


def _cell(one: FleetAnswer, folder: str) -> list[Any]:
    return [
        int(one.status == "done"), one.latency_ns, one.latency_low_ns, one.latency_high_ns, one.bound_ns,
        one.expected_ns, one.expected_p10_ns, one.expected_p90_ns, int(one.expected_basis in WIDER_BASES),
        one.of_expected, one.cost_per_million, FLEET_BASES.index(one.cost_basis), one.joules,
        FLEET_BASES.index(one.joules_basis), one.doubts, one.error, link(one.page or one.run, folder), one.run,
        words.time(one) if one.status == "done" and words.basis(one) == "none" else "",
    ]  # fmt: skip


def link(place: str, folder: str) -> str:
    """Where a page finds a file of the fleet, as a relative reference; empty where it cannot."""
    if not place or not folder or _PLACE.match(folder) or place.startswith(("/", "\\")) or ".." in place.split("/"):
        return ""
    # A first part with a colon in it would read as a scheme.
    path = posixpath.join(folder.replace("\\", "/"), place)
    return quote(path if path.startswith(("/", "../", "./")) else f"./{path}")


def _bars(found: Fleet) -> list[tuple[Any, float, float]]:
    """Each row of the ledger with the left end and the width of its bar, in percent."""
    return [(row, 100 * min(start, end), 100 * abs(end - start)) for row, start, end in words.ledger_bars(found.ledger)]


def _efficient(found: Fleet) -> list[str]:
    """Targets on which layers of several models have an efficiency, in the order of the manifest."""
    seen = {each.target for one in found.patterns for each in one.targets}
    return [one.target for one in found.targets if one.target in seen]
