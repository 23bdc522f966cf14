"""The first screen of a run, in words: what it is of, whether to trust it, what was measured, why, what next.

Facts stand as they are, estimates carry ``~`` or ``>=``, causes the certainty of their rule. Where doubts forbid a
verdict (`Run.verdict`) there is no cause, and nothing that could be won. No word of it is cut; it wraps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trtprof.base import units
from trtprof.base.records import Finding, Run
from trtprof.report._format import (
    check_text,
    clock_text,
    count,
    good_text,
    headline,
    mode_text,
    perturbation,
    signed_percent,
    tensor_text,
    time_of,
)
from trtprof.report.content._views import UNKNOWN_OP, Row, view_of
from trtprof.report.document import Block, Kind, Notes, Pair, Pairs, Span, Words

LABEL = 10  # Columns of the words in front
CAUSES = 2  # Likely causes that are told; the others are counted
RUNTIMES = ("tensorrt", "tensorrt-rtx", "onnxruntime")  # What runs a model, whose version is told
OPS = 4  # Op types that are told with their share of the time; the others are added up
LEAST_SHARE = 0.01  # Of the time, of an op type that is told
ROWS = 4  # Rows that a cause is led to; the others are counted
INPUTS = 4  # Inputs that are told; the others are counted


def title(run: Run) -> Words:
    """The model and its inputs, and where their dimensions are from."""
    inputs = [tensor_text(tensor) for tensor in run.model.inputs]
    more = f" and {len(inputs) - INPUTS} more inputs" if len(inputs) > INPUTS else ""
    how = ""
    if inputs and all(tensor.declared for tensor in run.model.inputs):
        asked = any(isinstance(dim, str) for tensor in run.model.inputs for dim in tensor.declared)
        how = " (all dims fixed by the model)" if not asked else "" if _assumed(run) else " (dims as asked for)"
    return Span(run.model.name, "strong", name=True), f"   {', '.join(inputs[:INPUTS])}{more}{how}"


def _assumed(run: Run) -> dict[str, int]:
    """Dimensions that nobody gave, and what they were taken to be."""
    said = [text for text in run.model.assumptions if " assumed" in text]
    found = {}
    for tensor in run.model.inputs:
        for axis, (dim, size) in enumerate(zip(tensor.declared, tensor.shape or (), strict=False)):
            if isinstance(dim, str) and any(
                f"dimension '{dim}' " in text or f"index {axis} of input '{tensor.name}'" in text for text in said
            ):
                found[f"{tensor.name}[{axis}]" if dim == "?" else dim] = size
    return found


def head(run: Run) -> Iterator[Block]:
    """What it ran on, what was assumed, and how to run it again."""
    version = next((f", {each} {run.versions[each]}" for each in RUNTIMES if each in run.versions), "")
    threads = f", {count(run.ceilings.threads, 'thread')}" if run.device.kind == "cpu" else ""
    yield Notes((f"{run.backend.name} on {run.device.name}{threads}{version}",))
    pairs = []
    if assumed := _assumed(run):
        shapes = ",".join(
            f"{tensor.name}:{'x'.join(map(str, tensor.shape or ()))}"
            for tensor in run.model.inputs
            if any(isinstance(dim, str) for dim in tensor.declared)
        )
        dims = ", ".join(f"{dim}={size}" for dim, size in assumed.items())
        pairs.append(Pair("ASSUMED", f"{dims}; give yours: --shapes={shapes}", None, "doubt"))
    if run.command:
        pairs.append(Pair("rerun", Span(run.command, cut="never"), None, "faint"))
    if pairs:
        yield Pairs(tuple(pairs))


# --- what was measured, and what that allows to say ---------------------------------------------


def withheld(run: Run) -> bool:
    """Whether doubts, or what is not known, forbid a verdict."""
    return run.no_verdict


def numbers(run: Run) -> Iterator[Pair]:
    """Trust first, then facts, then the estimate."""
    yield _trust(run)
    yield Pair("MEASURED", "".join(_measured(run)), None)
    for label, words in (
        ("by op", _ops(run)),
        ("clocks", _clocks(run)),
        ("parts", mode_text(run)),
        ("outputs", check_text(run)),
    ):
        if words:
            yield Pair(label, words, None, "critical" if "WRONG" in words else "strong")
    yield Pair("ESTIMATE", Span(" ".join(_estimate(run)), "estimate"), None, "estimate")
    if good := good_text(run):
        yield Pair("", Span(good, "estimate"), None, "estimate")


def _trust(run: Run) -> Pair:
    reasons = [*run.doubts, *([f"less sure: {', '.join(run.lacking)}"] if run.lacking else [])]
    grave = withheld(run) or any(one.kind == "trust" and one.severity == "critical" for one in run.findings)
    kind: Kind = "critical" if grave else "doubt" if reasons else "better"
    level = "LOW" if grave else "FAIR" if reasons else "GOOD"
    if not reasons:
        reasons = ["no verdict, see WHY?"] if grave else ["no doubt about the numbers was found"]
    return Pair("TRUST", Span(f"{level}: {'; '.join(reasons)}", kind), None, kind)


def _measured(run: Run) -> Iterator[str]:
    latency = run.latency
    if not latency.n:
        if latency.median_ns:
            yield f"{units.format_ns(latency.median_ns)} in layers: their sum, not an end-to-end latency"
        else:
            yield "nothing: no sample of the latency was taken"
        return
    yield f"{units.format_ns(latency.median_ns)} median (p99 {units.format_ns(latency.p99_ns)}"
    yield f", {_rate(1e9 / latency.median_ns)} runs/s), {count(latency.n, 'sample')}" if latency.median_ns else ")"
    # Of a summary the spread is not known.
    yield f", cv {units.format_percent(latency.cv)}" if latency.cv else ""
    yield ", with the profiler" if run.engine is not None and latency == run.profiled else ""
    if run.layers:
        yield f"; its layers add up to {units.format_ns(sum(layer.measured_ns for layer in run.layers))}"
    cost = perturbation(latency, run.profiled)
    if cost is not None and latency != run.profiled and run.profiled.median_ns:
        yield f"; with the profiler {units.format_ns(run.profiled.median_ns)} ({signed_percent(cost)})"


def _rate(per_second: float) -> str:
    return f"{per_second:,.0f}" if per_second >= 100 else f"{per_second:.3g}"


def _ops(run: Run) -> str:
    """Which ops the time of all layers is in, most first."""
    view = view_of(run, "type")
    rows = sorted(view.rows, key=lambda row: -row.measured_ns)
    told = [row for row in rows[:OPS] if row.measured_ns >= LEAST_SHARE * view.total_ns > 0]
    shares = [f"{row.name} {100 * row.measured_ns / view.total_ns:.0f} %" for row in told]
    rest = sum(row.measured_ns for row in rows[len(told) :])
    if shares and rest:
        shares.append(f"{count(len(rows) - len(told), 'other')} {100 * rest / view.total_ns:.0f} %")
    return ", ".join(shares)


def _clocks(run: Run) -> str:
    """Clocks of the GPU while the latency was measured, or else while it was profiled."""
    sampled = [clocks for clocks in (run.clocks, run.clocks_profiled) if clocks is not None]
    return next(filter(None, map(clock_text, sorted(sampled, key=lambda clocks: not clocks.samples))), "")


def _estimate(run: Run) -> Iterator[str]:
    total = headline(run)
    if total.attainable_ns is None:
        yield "unknown: no layer has an estimate"
        return
    measured = run.ceilings.origin == "measured"
    where = "ceilings measured here" if measured else f"ceilings not measured: {run.ceilings.source}"
    yield f"floor >= ~{units.format_ns(total.attainable_ns)}: roofline at {where}."
    if total.unpriced:
        yield f"{count(total.unpriced, 'layer')} without a price count{'s' if total.unpriced == 1 else ''} as 0."
    yield "A bound, not a forecast."
    if not total.of_roof:
        return
    if withheld(run):
        yield "There is no verdict, so nothing follows from it."
    elif total.of_roof > 1:
        yield "It is above what was measured: the ceilings are too low, or work is counted that was not done."
    else:
        yield f"So at most ~{1 / total.of_roof:.{1 if total.of_roof < 0.5 else 2}f}x is there to win."


# --- why, what next, a kernel -------------------------------------------------------------------


def answers(run: Run, rows: Sequence[Row], file: str) -> Iterator[Pair]:
    """The cause, what to do, whether to write a kernel, what all of it leaves out, and where to read on."""
    causes = [] if withheld(run) else [finding for finding in run.findings if finding.kind == "hypothesis"]
    # That of the first row is told whatever else there is.
    causes.sort(key=lambda finding: not set(rows[0].members if rows else ()) & set(finding.layers))
    yield from _numbered("WHY?", list(_why(run, causes, rows)), "cause")
    steps = [f"{number}. {step}" for number, step in enumerate(_steps(run, causes, rows), 1)]
    yield from _numbered("DO NEXT", steps or ["nothing: no rule fired"], "")
    for command in _commands(causes[:CAUSES]):
        yield Pair("", Span(command, cut="never", name=True), None, "")
    yield Pair("KERNEL?", _kernel(run), None)
    yield Pair("IGNORED", "; ".join(_ignored(run)), None, "faint")
    if file:
        yield Pair("page", Span(f"{file}/report.html", cut="never"), None, "faint")


def _numbered(label: str, told: Sequence[str], kind: Kind) -> Iterator[Pair]:
    for place, text in enumerate(told):
        yield Pair("" if place else label, Span(text, kind), None, kind or "strong")


def _at(finding: Finding, rows: Sequence[Row]) -> str:
    """Which rows of the list a finding is about, or its place where none of those is shown."""
    heads = [row for row in rows if row.home is None]
    found = [f"{at}" for at, row in enumerate(heads, 1) if set(row.members) & set(finding.layers)]
    if not found:
        return finding.where
    more = f" and {len(found) - ROWS} more" if len(found) > ROWS else ""
    return f"row{'s' if len(found) > 1 else ''} {', '.join(found[:ROWS])}{more}"


def _why(run: Run, causes: Sequence[Finding], rows: Sequence[Row]) -> Iterator[str]:
    if withheld(run):
        grave = any(one.kind == "trust" and one.severity == "critical" for one in run.findings)
        yield "no verdict: the doubts above forbid one" if grave else run.verdict
        return
    if causes and rows and _at(causes[0], rows[:1]) == causes[0].where and rows[0].members:
        reached = "" if rows[0].of_roof is None else f", which is ~{rows[0].of_roof:.0%} as fast as its floor"
        yield f"row 1: no rule explains it{reached.replace('%', ' %')}"
    for finding in causes[:CAUSES]:
        sure = f"{100 * finding.confidence:.0f} % sure, ~{units.format_ns(finding.lost_ns)}"
        fact = finding.evidence.partition("; ")[0]
        yield f"{_at(finding, rows)}: {finding.title} ({sure}): {fact}".rstrip(": ")
    if len(causes) > CAUSES:
        yield f"{len(causes) - CAUSES} more likely cause{'s' if len(causes) > CAUSES + 1 else ''}: --top N"
    if not causes:
        yield "no rule fired: no single cause stands out"


def _steps(run: Run, causes: Sequence[Finding], rows: Sequence[Row]) -> Iterator[str]:
    """What to do, what makes the numbers sure first."""
    for doubt in [finding for finding in run.findings if finding.kind == "trust"][:1]:
        yield f"{doubt.try_} (see TRUST)"
    batches = [dim for tensor in run.model.inputs for dim in tensor.declared[:1]]
    fixed = batches and all(isinstance(dim, int) for dim in batches)
    steps: dict[str, list[str]] = {}
    for finding in causes[:CAUSES]:
        steps.setdefault(finding.try_, []).append(_at(finding, rows))
    for step, places in steps.items():
        batch = " (the batch of this model is fixed: export it again)" if fixed and "the batch" in step else ""
        yield f"{' and '.join(dict.fromkeys(places))}: {step}{batch}"


def _commands(causes: Sequence[Finding]) -> Iterator[str]:
    """What tries the remedies: one command of those that differ in the codes alone, before one that makes a model."""
    codes: dict[str, list[str]] = {}
    for finding in causes:
        tries, only, _ = finding.command.rpartition(f" --only {finding.code}")
        if only:
            codes.setdefault(tries, []).append(finding.code)
        elif finding.command:
            codes.setdefault(finding.command, [])
    for command, asked in codes.items():
        yield f"{command} --only {','.join(dict.fromkeys(asked))}" if asked else command


def _kernel(run: Run) -> Words:
    if not run.candidates:
        return f"hand-written: {run.no_candidates or 'not decided'}"
    one = run.candidates[0]
    said = {"write it": "yes, write it", "try first": "not yet, there is cheaper", "do not": "no"}[one.verdict]
    low, high = units.format_ns(one.net_low_ns), units.format_ns(one.net_high_ns)
    net = f"~{units.format_ns(one.net_ns)} net ({low} to {high})"
    where = Span(one.nodes[-1] if one.nodes else one.layer, name=True)
    return f"hand-written: {said}: ", where, f", {net}: {one.why}"


def _ignored(run: Run) -> Iterator[str]:
    share, total = run.coverage, headline(run)
    yield f"{count(total.unpriced, 'layer')} without a price"
    if run.unsupported:
        share_of = units.format_percent(sum(op.share for op in run.unsupported))
        names = units.format_names([f"{op.op_type or UNKNOWN_OP} x{op.count}" for op in run.unsupported])
        yield f"work not known: {names}, {share_of} of {time_of(run)} time"
    yield (
        f"{time_of(run)} time led back to nodes: exact {units.format_percent(share.exact)}, inferred "
        f"~{units.format_percent(share.inferred)}, unattributed {units.format_percent(share.unattributed)}"
    )
    codes = list(dict.fromkeys(finding.code for finding in run.findings if finding.kind == "trust"))
    if codes:
        yield f"{count(len(codes), 'doubt')}, explained by: trtprof rules {' or '.join(codes)}"
