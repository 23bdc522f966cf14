"""The report as one HTML page that needs nothing else: no server, no network, no other file.

Names in a run come from files by others, so nothing on the page trusts them: the template escapes
all text, the data travels as JSON in a block that no browser executes, the script builds the page
from text nodes only, and a content security policy allows exactly the one script and the one style
sheet of the page, by their digests, and no request at all.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
from collections.abc import Sequence
from typing import Any, NamedTuple

from profiler import units
from profiler.errors import TrtprofError
from profiler.records import LedgerRow, Run
from profiler.report import ReportOptions, reporter
from profiler.report._format import (
    KIND_WORDS,
    check_rows,
    clock_rows,
    count,
    headline,
    ledger_gap_ns,
    mode_rows,
    perturbation,
    plain,
    signed_percent,
    tensor_text,
    visible,
)

PLAN_ROWS = 200
"""Rows of each table of an engine's plan; the JSON document has all."""

FINDINGS_SHOWN = 12
"""Finding cards that are open when the page is; the others unfold."""


@reporter("html", suffix=".html")
def render(run: Run, options: ReportOptions) -> str:  # noqa: ARG001 - the page adapts to its reader
    """The page.

    Raises:
        TrtprofError: A number is NaN or infinite, or a string is not valid Unicode.
    """
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("profiler.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        # Escaping leaves control and bidirectional characters alone: those are made visible here.
        finalize=lambda value: visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
    )
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    environment.filters.update(
        ns=units.format_ns,
        bytes=units.format_bytes,
        flops=units.format_flops,
        percent=units.format_percent,
        signed=signed_percent,
        rate=units.format_rate,
        tensor=tensor_text,
        count=count,
    )
    style, script = asset("app.css"), asset("app.js")
    layers = {layer.name: rank for rank, layer in reversed(list(enumerate(run.layers, 1)))}
    return environment.get_template("report.html.jinja").render(
        run=run,
        data=_page_data(run),
        style=Markup(style),  # noqa: S704 - our own file
        script=Markup(script),  # noqa: S704 - our own file
        style_digest=digest(style),
        script_digest=digest(script),
        total=headline(run),
        bars=ledger_bars(run.ledger),
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


def asset(name: str) -> str:
    """A file of the page as packaged.

    Raises:
        TrtprofError: The installation lacks it.
    """
    try:
        return importlib.resources.files("profiler.report").joinpath("templates", name).read_text("utf-8")
    except OSError as error:
        raise TrtprofError(
            f"the installation lacks the page file {name!r}", why=str(error), fix="reinstall trtprof"
        ) from error


def digest(text: str) -> str:
    """The source expression that a content security policy allows ``text`` by."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


class Bar(NamedTuple):
    """A step of the ledger as drawn: offsets and widths are percentages of the drawing."""

    row: LedgerRow
    left: float
    width: float
    end: float
    """Where the running sum stands after this step."""


def ledger_bars(rows: Sequence[LedgerRow]) -> tuple[Bar, ...]:
    """Steps from 0 to the sum of ``rows``, each starting where the last one ended.

    Example:
        >>> rows = [LedgerRow(cause="a", ns=80, kind="fact"), LedgerRow(cause="b", ns=20, kind="fact")]
        >>> [(bar.left, bar.width) for bar in ledger_bars(rows)]
        [(0.0, 80.0), (80.0, 20.0)]
    """
    sums = [0]
    for row in rows:
        sums.append(sums[-1] + row.ns)
    low, high = min(sums), max(sums)
    scale = 100 / (high - low) if high > low else 0.0
    return tuple(
        Bar(row, (min(start, end) - low) * scale, abs(row.ns) * scale, (end - low) * scale)
        for row, start, end in zip(rows, sums, sums[1:], strict=False)
    )


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


def _page_data(run: Run) -> dict[str, Any]:
    """What the script draws from; the rest of the run is in the page already."""
    data = plain(run)
    return {key: data[key] for key in ("ceilings", "device", "layers", "nodes", "kernels_unattributed")}
