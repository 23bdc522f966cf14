"""A run as one HTML page that needs nothing else: no server, no network, no other file.

Names in a run come from files by others, so nothing on the page trusts them: the template escapes
all text, the data travels as JSON in a block that no browser executes, the script builds the page
from text nodes only, and a content security policy allows exactly the two scripts and the one style
sheet of the page, by their digests, and no request at all.

The scripts are built from the TypeScript in ``web/`` (``npm run build`` there); the bundles in
``templates/`` are what is installed.
"""

from __future__ import annotations

from typing import NamedTuple

from trtprof.base import units
from trtprof.base.records import Run, ceiling_name
from trtprof.report._format import (
    KIND_WORDS,
    bound_text,
    check_rows,
    clock_rows,
    count,
    good_text,
    headline,
    latency_text,
    ledger_gap_ns,
    mode_rows,
    perturbation,
    plain,
    signed_percent,
    spread_text,
    steps_of,
    tensor_text,
    trust_of,
)
from trtprof.report._templates import asset, digest, environment
from trtprof.report.formats._page import page_data
from trtprof.report.terms import TERMS

PLAN_ROWS = 200  # Rows of each table of an engine's plan; the JSON document has all

FINDINGS_SHOWN = 12  # Finding cards that are open when the page is; the others unfold


def render(run: Run) -> str:
    """The page."""
    from markupsafe import Markup

    templates = environment()
    templates.filters.update(
        ns=units.format_ns,
        bytes=units.format_bytes,
        flops=units.format_flops,
        percent=units.format_percent,
        signed=signed_percent,
        rate=units.format_rate,
        tensor=tensor_text,
        count=count,
        ceiling=ceiling_name,
    )
    plain(run)  # what no JSON can hold is told before anything is written
    style, script, theme = asset("app.css"), asset("app.js"), asset("theme.js")
    layers = {layer.name: rank for rank, layer in reversed(list(enumerate(run.layers, 1)))}
    return templates.get_template("report.html.jinja").render(
        run=run,
        data=page_data(run),
        terms=TERMS,
        style=Markup(style),  # noqa: S704 - our own file
        script=Markup(script),  # noqa: S704 - our own file
        theme=Markup(theme),  # noqa: S704 - our own file
        licences=asset("app.js.LICENSES.txt").splitlines(),
        style_digest=digest(style),
        script_digest=digest(script),
        theme_digest=digest(theme),
        total=headline(run),
        good=good_text(run),
        latency=latency_text(run),
        spread=spread_text(run.latency),
        bound=bound_text(run),
        steps=steps_of(run, lambda finding: finding.where),
        trust=trust_of(run),
        findings=sorted(run.findings, key=lambda finding: finding.kind == "trust" and finding.severity != "critical"),
        layers_ns=sum(layer.measured_ns for layer in run.layers),
        clock=_clock(run),
        # Keys of a device are those of its records; a reader knows no llc.
        detail=[(key.replace("llc", "last-level cache"), value) for key, value in sorted(run.device.detail.items())],
        gap_ns=ledger_gap_ns(run),
        perturbation=perturbation(run.latency, run.profiled),
        clocks=clock_rows(run),
        modes=mode_rows(run),
        checks=check_rows(run),
        coverage=_stacked(("exact", run.coverage.exact), ("inferred", run.coverage.inferred)),
        fates=_fates(run),
        layer_rank=layers,
        kind_words=KIND_WORDS,
        findings_shown=FINDINGS_SHOWN,
        plan_rows=PLAN_ROWS,
    )


class _Clock(NamedTuple):
    """What the strip says of the clocks: the number, and what moved it."""

    value: str
    notes: tuple[str, ...]


def _clock(run: Run) -> _Clock:
    seen = run.clocks
    if seen is not None and seen.sm_clock_mhz is not None:
        spread = seen.sm_clock_mhz
        held = [f"{reason} {100 * share:.0f} % of the time" for reason, share in (seen.reasons or {}).items()]
        moved = f"{spread.min:,.0f} to {spread.max:,.0f} MHz" if spread.max > spread.min else "steady"
        why = "held down by nothing" if seen.reasons is not None else "what held it down is not told"
        return _Clock(f"{spread.median:,.0f} MHz", (f"SM clock, {moved}", *(held or [why])))
    if run.device.clock_mhz is not None:
        return _Clock(f"{run.device.clock_mhz:,.0f} MHz", ("as the system tells it",))
    return _Clock("unknown", tuple(seen.notes if seen is not None else ["not sampled"]))


def _stacked(*shares: tuple[str, float]) -> list[tuple[str, float, float]]:
    """Name, offset and width in percent of the parts of a stacked bar."""
    parts, left = [], 0.0
    for name, share in shares:
        parts.append((name, 100 * left, 100 * share))
        left += share
    return parts


def _fates(run: Run) -> dict[str, int]:
    """How many nodes met each fate, the commonest first."""
    fates: dict[str, int] = {}
    for node in run.nodes:
        fates[node.fate] = fates.get(node.fate, 0) + 1
    return dict(sorted(fates.items(), key=lambda item: (-item[1], item[0])))
