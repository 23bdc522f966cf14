"""The report that one pastes into a pull request: short, long tables folded, at most what a comment of GitHub may hold.

Facts stand as they are; ``~`` marks an estimate, ``=`` a remainder, ``?`` a likely cause, ``!`` a doubt about the
measurement. Names stand in code spans, where no host makes a mention, a link or an image of them; words that hold
names are escaped so far that none of that comes of them either. Long names are cut: the JSON document has them whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from profiler.base import units
from profiler.base.records import Finding, LedgerRow, PluginCandidate, Run, bound_name
from profiler.report import ReportOptions, reporter
from profiler.report._cells import elide
from profiler.report._format import (
    check_text,
    clock_text,
    count,
    headline,
    ledger_gap_ns,
    mode_text,
    perturbation,
    signed_percent,
    tensor_text,
    time_of,
    visible,
)
from profiler.report._views import Row, View, folded, view_of

ROWS = 10
"""Rows of the list when the reader did not choose how many to see; the folded list has five times as many."""

FINDINGS = 5
"""Findings that stand open when the reader did not choose how many rows to see."""

ITEMS = 20
"""Most entries of any other list."""

_MARKS = {"fact": "", "estimate": "~", "remainder": "="}
_NAME, _PROSE = 70, 400
"""Most columns of a name, and of other text."""


@reporter("markdown", suffix=".md")
def render(run: Run, options: ReportOptions) -> str:
    """The report in GitHub's Markdown."""
    sections = [
        _head(run),
        _ledger(run),
        _findings(run, options.top),
        _list(run, options),
        _plugins(run),
        _basis(run, options),
    ]
    return "\n\n".join("\n".join(section) for section in sections if section) + "\n"


# --- text -----------------------------------------------------------------------------------

_SPECIAL = re.compile(r"[\\`*{}\[\]<|~$]|(?<![^\W_])_|_(?![^\W_])")
_START = re.compile(r"^(?=[-+=#>])")
_LINKS = re.compile(r"(?<=:)(?=//)|(?<=@)(?=\w)|(?<=#)(?=\d)|(?<=GH)(?=-\d)|(?<=www)(?=\.)", re.I)


def prose(text: str, width: int = _PROSE) -> str:
    """Text in one line that Markdown shows as it is: no markup, no link, no mention of a person or an issue.

    A comment that shows nothing parts what hosts would link by themselves: ``@name``, ``#1``, addresses.
    """
    text = elide(" ".join(visible(text).split()), width, "…").replace("&", "&amp;")
    text = _SPECIAL.sub(lambda found: "&lt;" if found[0] == "<" else f"\\{found[0]}", text)
    # What would begin a list or a heading: a digit cannot be escaped, so that the sign behind it is.
    text = re.sub(r"^(\d+)(?=[.)]\s)", r"\1\\", text) if text[:1].isdigit() else _START.sub(r"\\", text)
    return _LINKS.sub("<!-- -->", text)


def code(name: str, width: int = _NAME) -> str:
    """A name in a code span, cut in its middle, that may stand in a table."""
    text = elide(visible(name), width, "…")
    if not text.strip():
        return "(no name)"
    if "`" in text or "|" in text:
        # Neither can be escaped in a code span of a table.
        return "<code>" + "".join(c if c.isalnum() or c == " " else f"&#{ord(c)};" for c in text) + "</code>"
    # A space at both ends would be taken away.
    return f"` {text} `" if text[0] == " " == text[-1] else f"`{text}`"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], right: int) -> Iterator[str]:
    """A table whose first ``right`` columns are numbers. Cells are Markdown already."""
    yield "| " + " | ".join(head) + " |"
    yield "|" + "".join(" ---: |" if at < right else " --- |" for at in range(len(head)))
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def _folded(title: str, lines: Sequence[str]) -> list[str]:
    return ["<details>", f"<summary>{title}</summary>", "", *lines, "", "</details>"]


def _estimate(ns: int | None) -> str:
    return "-" if ns is None else f"~{units.format_ns(ns)}"


# --- sections -------------------------------------------------------------------------------


def _head(run: Run) -> list[str]:
    rows = [("measured", _measured(run)), ("allowed by the roofline", _allowed(run)), ("coverage", _coverage(run))]
    inputs = ", ".join(map(tensor_text, run.model.inputs[:ITEMS]))
    rows += [("inputs", prose(inputs, 200)), ("ran on", prose(f"{run.backend.name} on {run.device.name}"))]
    sampled = [clocks for clocks in (run.clocks, run.clocks_profiled) if clocks is not None]
    clocks = next(filter(None, map(clock_text, sampled)), "")
    rows += [("clocks", prose(clocks)), ("parts", prose(mode_text(run))), ("outputs", prose(check_text(run)))]
    return [
        f"### trtprof: {code(run.model.name)}",
        "",
        f"> **Verdict:** {prose(run.verdict, 1000)}",
        "",
        *_table(("", ""), [row for row in rows if row[1]], 0),
    ]


def _measured(run: Run) -> str:
    latency = run.latency
    if not latency.n:
        if not latency.median_ns:
            return "nothing: no sample of the latency was taken"
        return f"**{units.format_ns(latency.median_ns)}** in layers: their sum, not an end-to-end latency"
    return (
        f"**{units.format_ns(latency.median_ns)}** median, p99 {units.format_ns(latency.p99_ns)}, "
        f"cv {units.format_percent(latency.cv)}, {count(latency.n, 'sample')}"
    )


def _allowed(run: Run) -> str:
    sums = headline(run)
    if sums.attainable_ns is None:
        return "unknown: no layer has an estimate"
    text = f"**{_estimate(sums.attainable_ns)}**"
    if sums.of_roof is not None:
        text += f", which is ~{units.format_percent(sums.of_roof)} of the measured time"
    if sums.unpriced:
        text += (
            f"; without {count(sums.unpriced, 'layer')} whose work is unknown "
            f"({units.format_percent(sums.unpriced_share)} of {time_of(run)} time)"
        )
    return text


def _coverage(run: Run) -> str:
    share = run.coverage
    unknown = f"unattributed {units.format_percent(share.unattributed)}"
    return (
        f"exact {units.format_percent(share.exact)}, inferred {units.format_percent(share.inferred)}, "
        f"{f'**{unknown}**' if share.unattributed else unknown} of {time_of(run)} time"
    )


def _ledger(run: Run) -> list[str]:
    rows = [row for row in run.ledger if row.ns]
    if not rows:
        return []
    gap = ledger_gap_ns(run)
    whole = "measured median" if run.latency.n else "sum of the layers"
    closes = f"The steps miss the {whole} by {units.format_ns(gap)}." if gap else f"The steps add up to the {whole}."
    cells = [_step(run, row) for row in rows]
    cells.append((f"**{units.format_ns(run.latency.median_ns)}**", "100 %", f"**{whole}**"))
    return ["#### From ideal to measured", "", *_table(("time", "share", "step"), cells, 2), "", closes]


def _step(run: Run, row: LedgerRow) -> tuple[str, str, str]:
    median = run.latency.median_ns
    share = f"{round(100 * row.ns / median)} %" if median else "-"
    meaning = f": {prose(row.meaning, 120)}" if row.meaning else ""
    return f"{_MARKS[row.kind]}{units.format_ns(row.ns)}", share, prose(row.cause, _NAME) + meaning


def _findings(run: Run, top: int | None) -> list[str]:
    if not run.findings:
        return ["#### Findings", "", "None: no rule fired."]
    # A critical doubt comes first: it says whether the rest can be believed.
    ranked = sorted(run.findings, key=lambda f: (f.kind != "trust" or f.severity != "critical", -f.lost_ns))
    shown = FINDINGS if top is None else max(top, 0)
    lines = [f"#### {count(len(ranked), 'finding')}, by time lost", ""]
    for finding in ranked[:shown]:
        lines += _finding(finding)
    if others := ranked[shown : shown + ITEMS]:
        rest = [line for finding in others for line in _finding(finding)]
        hidden = len(ranked) - shown
        words = f"{hidden} more" if hidden == len(others) else f"{hidden} more, of which {len(others)} are here"
        lines += [*([""] if shown else []), *_folded(words, rest)]
    return lines


def _finding(finding: Finding) -> list[str]:
    trust = finding.kind == "trust"
    head = f"**{prose(finding.code, 12)}{'!' if trust else '?'}** {prose(finding.title, 160)}"
    facts: list[str] = [finding.severity]
    if finding.lost_ns:
        facts.append(f"~{units.format_ns(finding.lost_ns)} lost")
    facts.append("a doubt" if trust else f"{100 * finding.confidence:.0f} % sure")
    lines = [f"- {head} ({', '.join(facts)})"]
    if finding.where:
        lines.append(f"  - at {prose(finding.where, 160)}")
    if finding.evidence:
        lines.append(f"  - {prose(finding.evidence)}")
    if finding.try_:
        lines.append(f"  - **try** {prose(finding.try_)}")
    return lines


def _list(run: Run, options: ReportOptions) -> list[str]:
    view = view_of(run, options.by)
    if not view.rows:
        return [f"#### No {view.noun}"]
    shown = ROWS if options.top is None else max(options.top, 0)
    rows, rest = folded(view, shown)
    by = "time" if view.by == "kernel" else "time lost"
    title = f"#### {count(min(shown, len(view.rows)), view.noun)} of {len(view.rows):,}, by {by}"
    cells = [_row(run, view, row) for row in (*rows, *([rest] if rest else []))]
    head, right = _heads(view)
    lines = [title, "", *_table(head, cells, right)]
    more, others = folded(view, shown + 5 * ROWS)
    if rest is not None:
        under = [_row(run, view, row) for row in (*more[shown:], *([others] if others else []))]
        first, last = shown + 1, min(shown + 5 * ROWS, len(view.rows))
        lines += ["", *_folded(f"{view.noun}s {first:,} to {last:,}", list(_table(head, under, right)))]
    if view.note:
        lines += ["", prose(view.note)]
    return lines


def _heads(view: View) -> tuple[tuple[str, ...], int]:
    if view.by == "kernel":
        return ("time", "share", "launches", "layers", "kernel"), 4
    return ("lost", "measured", "allowed", "of roof", "bound", view.noun), 4


def _row(run: Run, view: View, row: Row) -> tuple[str, ...]:
    name = prose(row.name) if row.rest else code(row.name)
    what = f"{prose(row.what, 40)} " if row.what else ""
    if view.by == "kernel":
        share = units.format_percent(row.measured_ns / view.total_ns) if view.total_ns else "-"
        layers = f"{row.layers:,}" if row.layers else "none"
        return units.format_ns(row.measured_ns), share, f"{row.launches:,}", layers, what + name
    if row.home:
        return "", "", "", "", "", f"{what}{name}, in the time of {code(row.home)}"
    if row.layer is not None:
        inferred = "~" if row.layer.match == "inferred" else ""
        nodes = row.layer.nodes if row.layer.match != "none" else ()
        more = f" +{len(nodes) - 1}" if len(nodes) > 1 else ""
        role = f" ({prose(row.layer.role, 20)})" if row.layer.role not in ("compute", "control") else ""
        name = f"{code(nodes[-1] if nodes else row.name)}{more}{role}" + ("" if nodes else ", no node")
        what = f"{inferred}{prose(row.layer.op_type, 40)} "
    elif row.layers > 1 and not row.rest:
        name += f", {count(row.layers, 'layer')}"
    of_roof = "-" if row.of_roof is None else f"~{100 * row.of_roof:.0f} %"
    bound = bound_name(row.bound, run.device.kind) if row.bound else ""
    return (
        _estimate(row.lost_ns),
        units.format_ns(row.measured_ns),
        _estimate(row.attainable_ns),
        of_roof,
        bound,
        what + name,
    )


def _plugins(run: Run) -> list[str]:
    if not run.candidates:
        return []
    rows = [_plugin(one) for one in run.candidates[:ITEMS]]
    table = list(_table(("net gain", "measured", "verdict", "layer"), rows, 2))
    return _folded(f"Hand-written kernels: {count(len(run.candidates), 'layer')} weighed", table)


def _plugin(one: PluginCandidate) -> tuple[str, ...]:
    interval = f"({units.format_ns(one.net_low_ns)} to {units.format_ns(one.net_high_ns)})"
    name = code(one.nodes[-1] if one.nodes else one.layer)
    first = next(iter(one.ladder), None)
    step = f"; first {prose(first.what, 120)}" if first is not None and one.verdict != "do not" else ""
    return (
        f"~{units.format_ns(one.net_ns)} {interval}",
        units.format_ns(one.measured_ns),
        f"**{one.verdict}**{step}",
        f"{name}: {prose(one.why, 200)}",
    )


def _basis(run: Run, options: ReportOptions) -> list[str]:
    ceilings = "measured on this device" if run.ceilings.origin == "measured" else "from the datasheet, not measured"
    items = [f"ceilings {ceilings}: {prose(run.ceilings.source)}"]
    cost = perturbation(run.latency, run.profiled)
    if cost is not None and run.latency != run.profiled:
        items.append(
            f"times of layers are taken with the profiler attached, which changes the latency by "
            f"{signed_percent(cost)}; the latency is taken without it"
        )
    if run.speed != 1.0:
        items.append(
            f"the device ran at {units.format_percent(run.speed)} of the speed that its ceilings were measured at"
        )
    if run.unsupported:
        names = ", ".join(f"{one.op_type} x{one.count}" for one in run.unsupported[:ITEMS])
        share = units.format_percent(sum(one.share for one in run.unsupported))
        items.append(f"no cost function for {share} of the time: {prose(names)}")
    if run.kernels_unattributed:
        items.append(f"{count(len(run.kernels_unattributed), 'kernel')} led back to no layer")
    items += [f"assumed: {prose(text, 200)}" for text in (*run.model.assumptions, *run.assumptions)[:ITEMS]]
    versions = ", ".join(f"{name} {version}" for name, version in sorted(run.versions.items())[:ITEMS])
    items += [f"versions: {prose(versions)}"] if versions else []
    made = " ".join(filter(None, (prose(run.created), f"in {code(options.file)}" if options.file else "")))
    items += [f"made {made}"] if made else []
    legend = "Unmarked: measured. `~` estimate, `=` remainder, `?` likely cause, `!` doubt about the measurement."
    return [*_folded("What this rests on", [f"- {item}" for item in items]), "", legend]
