"""The list of all runs of a folder, with a trend of the latency of each model: one HTML page without a script.

A pure function of `Listing`, which `trtprof.flows.serve` makes of the run folders; no format of a single run. The
look is that of the report (``app.css``). Names on it are hostile text: the template escapes all of them, control and
bidirectional characters are made visible, and the page's policy allows its one style sheet and nothing else.
"""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, cast
from urllib.parse import quote, urlencode

import msgspec

from trtprof.base import units
from trtprof.base.records import Backend, Coverage, InputTensor, Latency, Run
from trtprof.report._format import count, headline, tensor_text
from trtprof.report._templates import asset, digest, environment

__all__ = ["SORTS", "Brief", "Broken", "Listing", "Query", "RunSummary", "render", "summarised"]

MAX_POINTS = 200  # Runs in one trend; older ones are left out, which the page says

SORTS = ("created", "model", "latency", "roof", "lost")
"""What the list can be sorted by; ``created`` puts the newest first, numbers the largest."""

NEAR = 0.85  # A roof that is at least this share of the fastest inference is drawn in the trend

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 560, 170, 64, 14, 26, 24


class _Model(msgspec.Struct, frozen=True):
    name: str
    sha256: str = ""
    inputs: tuple[InputTensor, ...] = ()


class _Device(msgspec.Struct, frozen=True):
    name: str


class _Layer(msgspec.Struct, frozen=True):
    role: str
    measured_ns: int
    ideal_ns: int | None
    attainable_ns: int | None
    lost_ns: int | None


class _Row(msgspec.Struct, frozen=True):
    ns: int


class Brief(msgspec.Struct, frozen=True):
    """What the list shows of a run: those fields of `records.Run`, so that the rest of a document is passed over."""

    model: _Model
    backend: Backend
    device: _Device
    latency: Latency
    coverage: Coverage
    verdict: str
    ledger: tuple[_Row, ...] = ()
    layers: tuple[_Layer, ...] = ()
    created: str = ""


class RunSummary(NamedTuple):
    """A row of the list. Times in ns; None is unknown."""

    folder: str  # Name of the run folder
    model: str
    sha256: str
    shapes: str
    backend: str
    device: str
    latency: Latency
    attainable_ns: int | None
    of_roof: float | None
    lost_ns: int | None
    coverage: Coverage
    verdict: str
    created: str
    tags: tuple[str, ...] = ()

    @property
    def series(self) -> tuple[str, str, str, str]:
        """Runs alike in this are of the same thing: model (its digest where known), backend, device, shapes."""
        return self.sha256 or self.model, self.backend, self.device, self.shapes


class Broken(NamedTuple):
    """A folder that holds no result that can be read, and why."""

    folder: str
    reason: str


class Query(NamedTuple):
    """What a person asked of the list."""

    text: str = ""
    tag: str = ""
    sort: str = "created"
    base: str = ""  # Name of the run folder that others are to be compared with


EVERYTHING = Query()


class Listing(NamedTuple):
    """All runs of a folder."""

    reports: str  # Path of the folder, as the person gave it
    runs: tuple[RunSummary, ...]
    broken: tuple[Broken, ...] = ()


def summarised(folder: str, brief: Brief, tags: Sequence[str] = ()) -> RunSummary:
    """The row of a run."""
    # A brief has all that the headline looks at, so that both say the same.
    total = headline(cast("Run", brief))
    allowed = total.attainable_ns
    return RunSummary(
        folder=folder,
        model=brief.model.name,
        sha256=brief.model.sha256,
        shapes=", ".join(tensor_text(tensor) for tensor in brief.model.inputs),
        backend=brief.backend.name,
        device=brief.device.name,
        latency=brief.latency,
        attainable_ns=allowed,
        of_roof=total.of_roof,
        lost_ns=None if allowed is None else brief.latency.median_ns - allowed,
        coverage=brief.coverage,
        verdict=brief.verdict,
        created=brief.created,
        tags=tuple(tags),
    )


def render(listing: Listing, query: Query = EVERYTHING) -> str:
    """The page."""
    from markupsafe import Markup

    templates = environment()
    templates.filters.update(ns=units.format_ns, percent=units.format_percent, count=count, day=_day)
    style = asset("app.css") + asset("index.css")
    shown = _shown(listing.runs, query)
    base = next((run for run in listing.runs if run.folder == query.base), None)
    return templates.get_template("index.html.jinja").render(
        listing=listing,
        query=query,
        shown=shown,
        tags=_tag_counts(listing.runs),
        trends=_trends(shown, listing.reports),
        base=base,
        style=Markup(style),  # noqa: S704 - our own files
        style_digest=digest(style),
        run_url=lambda folder: f"/run/{quote(folder, safe='')}/",
        url=lambda **changes: _url(query, changes),
        compare=lambda before, after: _compare(listing.reports, before, after),
        sorts=SORTS,
    )


def _day(created: str) -> str:
    """``2026-11-21 08:19`` of an ISO time."""
    return created[:16].replace("T", " ")


def _url(query: Query, changes: Mapping[str, str]) -> str:
    asked = {**query._asdict(), **changes}
    default = Query()._asdict()
    kept = {name: value for name, value in asked.items() if value != default[name]}
    return "/?" + urlencode(kept) if kept else "/"


def _compare(reports: str, before: str, after: str) -> str:
    """The command line that compares two runs of the folder."""
    root = reports.rstrip("/")
    return shlex.join(["trtprof", "compare", f"{root}/{before}", f"{root}/{after}"])


def _shown(runs: Iterable[RunSummary], query: Query) -> list[RunSummary]:
    """The runs that were asked for: every word in some text of a run, in any case; the tag exactly."""
    words = query.text.casefold().split()
    found = []
    for run in runs:
        text = "\n".join(
            (run.folder, run.model, run.shapes, run.backend, run.device, run.verdict, run.created, *run.tags)
        )
        if (not query.tag or query.tag in run.tags) and all(word in text.casefold() for word in words):
            found.append(run)
    return _sorted(found, query.sort)


def _sorted(runs: list[RunSummary], sort: str) -> list[RunSummary]:
    runs = sorted(runs, key=lambda run: (run.created, run.folder), reverse=True)
    if sort == "model":
        return sorted(runs, key=lambda run: (run.model.casefold(), run.backend, run.device))
    if sort == "latency":
        return sorted(runs, key=lambda run: -run.latency.median_ns)
    if sort == "roof":
        return sorted(runs, key=lambda run: -1.0 if run.of_roof is None else -2.0 - run.of_roof)
    if sort == "lost":
        return sorted(runs, key=lambda run: (run.lost_ns is None, -(run.lost_ns or 0)))
    return runs


def _tag_counts(runs: Iterable[RunSummary]) -> list[tuple[str, int]]:
    found: dict[str, int] = {}
    for run in runs:
        for tag in run.tags:
            found[tag] = found.get(tag, 0) + 1
    return sorted(found.items())


# --- trends ---------------------------------------------------------------------------------


class Point(NamedTuple):
    """A run in a trend, in the units of the drawing."""

    run: RunSummary
    x: float
    median: float
    low: float  # Of its fastest inference
    high: float  # Of its 99th percentile
    anchor: Literal["start", "middle", "end"]


class Trend(NamedTuple):
    """The latency of the same thing over runs, the oldest first."""

    newest: RunSummary
    runs: int
    points: list[Point]
    ticks: list[tuple[float, str]]
    line: str
    roof: list[str]  # What the roofline allowed: lines where it is known of neighbouring runs
    change: float | None  # Newest median over the one before, less 1
    command: str  # That compares these two


def _trends(runs: Iterable[RunSummary], reports: str) -> list[Trend]:
    """One for everything that ran at least twice, that which ran last first."""
    series: dict[tuple[str, str, str, str], list[RunSummary]] = {}
    for run in runs:
        series.setdefault(run.series, []).append(run)
    found = [
        _trend(sorted(group, key=lambda run: (run.created, run.folder)), reports)
        for group in series.values()
        if len(group) > 1
    ]
    return sorted(found, key=lambda trend: (trend.newest.created, trend.newest.folder), reverse=True)


def _trend(group: list[RunSummary], reports: str) -> Trend:
    drawn = group[-MAX_POINTS:]
    values = [value for run in drawn for value in (_low(run), run.latency.median_ns, _high(run))]
    # A roof far below would press the runs together: it is drawn where it is near, and else given as a number.
    allowed_ns = [run.attainable_ns for run in drawn if run.attainable_ns is not None]
    near = bool(allowed_ns) and min(allowed_ns) >= NEAR * min(values)
    if near:
        values += allowed_ns
    low, high = min(values), max(values)
    pad = max((high - low) * 0.08, high * 0.02, 1.0)
    bottom, top = max(low - pad, 0.0), high + pad

    def y(ns: float) -> float:
        return round(_TOP + (top - ns) / (top - bottom) * (_HEIGHT - _TOP - _BOTTOM), 1)

    step = (_WIDTH - _LEFT - _RIGHT) / max(len(drawn) - 1, 1)
    points = []
    for at, run in enumerate(drawn):
        x = round(_LEFT + at * step, 1)
        anchor: Literal["start", "middle", "end"] = (
            "start" if x < _LEFT + 60 else "end" if x > _WIDTH - _RIGHT - 60 else "middle"
        )
        points.append(Point(run, x, y(run.latency.median_ns), y(_low(run)), y(_high(run)), anchor))
    roof: list[str] = []
    for point, after in itertools.pairwise(points):
        allowed, then = point.run.attainable_ns, after.run.attainable_ns
        if near and allowed is not None and then is not None:
            roof.append(f"M{point.x} {y(allowed)}L{after.x} {y(then)}")
    before, newest = drawn[-2], drawn[-1]
    change = newest.latency.median_ns / before.latency.median_ns - 1 if before.latency.median_ns else None
    ticks = [(y(ns), units.format_ns(ns)) for ns in (low, (low + high) / 2, high)] if high > low else [
        (y(low), units.format_ns(low))
    ]  # fmt: skip
    return Trend(
        newest=newest,
        runs=len(group),
        points=points,
        ticks=ticks,
        line="M" + "L".join(f"{point.x} {point.median}" for point in points),
        roof=roof,
        change=change,
        command=_compare(reports, before.folder, newest.folder),
    )


def _low(run: RunSummary) -> int:
    return run.latency.min_ns or run.latency.median_ns


def _high(run: RunSummary) -> int:
    return max(run.latency.p99_ns, run.latency.median_ns)
