"""The first screen of a run, in words: latency, bound, trust, causes, what to do next.

Facts stand as they are, estimates carry ``~``, causes the confidence of their rule. Where measurement warnings forbid a
conclusion (`Run.no_verdict`) there is no cause. No word of it is cut; it wraps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trtprof.base import units
from trtprof.base.records import Finding, Run
from trtprof.report._format import (
    CAUSES,
    bound_text,
    causes_of,
    check_text,
    clock_text,
    count,
    good_text,
    headline,
    latency_text,
    mode_text,
    steps_of,
    tensor_text,
    time_of,
    trust_of,
)
from trtprof.report.content._views import UNKNOWN_OP, Row, view_of
from trtprof.report.document import Block, Kind, Notes, Pair, Pairs, Span, Words

LABEL = 10  # Columns of the words in front
RUNTIMES = ("tensorrt", "tensorrt-rtx", "onnxruntime")  # What runs a model, whose version is shown
OPS = 4  # Op types that are shown, of a run or of a fused layer; the others are added up
LEAST_SHARE = 0.01  # Of the time, of an op type that is shown
ROWS = 4  # Rows of a cause that are shown; the others are counted
INPUTS = 4  # Inputs that are shown; the others are counted
CONFIDENCE = ((0.75, "high"), (0.45, "medium"), (0.0, "low"))  # Least confidence of each word
ATTRIBUTED = 0.95  # Share of the time from which attribution needs no words


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
    """What it ran on, and what was assumed."""
    version = next((f", {each} {run.versions[each]}" for each in RUNTIMES if each in run.versions), "")
    threads = f", {count(run.ceilings.threads, 'thread')}" if run.device.kind == "cpu" else ""
    yield Notes((f"{run.backend.name} on {run.device.name}{threads}{version}",))
    assumed = list(_assumptions(run))
    if assumed:
        yield Pairs(tuple(Pair("" if at else "ASSUMED", text, None, "doubt") for at, text in enumerate(assumed)))


def _assumptions(run: Run) -> Iterator[str]:
    if assumed := _assumed(run):
        shapes = ",".join(
            f"{tensor.name}:{'x'.join(map(str, tensor.shape or ()))}"
            for tensor in run.model.inputs
            if any(isinstance(dim, str) for dim in tensor.declared)
        )
        dims = ", ".join(f"{dim}={size}" for dim, size in assumed.items())
        yield f"{dims}; give yours: --shapes={shapes}"
    yield from (text for text in run.model.assumptions if text.startswith("random values of "))


# --- what was measured, and what that allows to say ---------------------------------------------


def numbers(run: Run) -> Iterator[Pair]:
    """The latency, what it is made of, the bound, and how far to trust them."""
    yield Pair("LATENCY", latency_text(run), None)
    for label, words in (
        ("by op", _ops(run)),
        ("clocks", _clocks(run)),
        ("parts", mode_text(run)),
        ("outputs", check_text(run)),
    ):
        if words:
            yield Pair(label, words, None, "critical" if "WRONG" in words else "strong")
    yield Pair("BOUND", Span(bound_text(run), "estimate"), None, "estimate")
    if good := good_text(run):
        yield Pair("", Span(good, "estimate"), None, "estimate")
    trust = trust_of(run)
    kind: Kind = {"low": "critical", "fair": "doubt", "good": "better"}[trust.level]  # type: ignore[assignment]
    yield Pair("TRUST", Span(f"{trust.level}: {trust.why}", kind), None, kind)


def _ops(run: Run) -> str:
    """Which ops the time of all layers is in, most first."""
    view = view_of(run, "type")
    rows = sorted(view.rows, key=lambda row: -row.measured_ns)
    told = [row for row in rows[:OPS] if row.measured_ns >= LEAST_SHARE * view.total_ns > 0]
    shares = [f"{row.name}{_fused_from(run, row.name)} {100 * row.measured_ns / view.total_ns:.0f} %" for row in told]
    rest = sum(row.measured_ns for row in rows[len(told) :])
    if shares and rest:
        shares.append(f"{count(len(rows) - len(told), 'other')} {100 * rest / view.total_ns:.0f} %")
    return ", ".join(shares)


def _fused_from(run: Run, op_type: str) -> str:
    """The ops of the model that ONNX Runtime runs as an op that the model does not have, where they are a few."""
    ops = {node.name: node.op_type for node in run.nodes}
    layers = [layer for layer in run.layers if layer.op_type == op_type and op_type not in ops.values()]
    found = sorted({ops[name] for layer in layers for name in layer.nodes if name in ops})
    return f" ({', '.join(found)})" if run.backend.name.startswith("ort") and 1 < len(found) <= OPS else ""


def _clocks(run: Run) -> str:
    """Clocks of the GPU while the latency was measured, or else while it was profiled."""
    sampled = [clocks for clocks in (run.clocks, run.clocks_profiled) if clocks is not None]
    return next(filter(None, map(clock_text, sorted(sampled, key=lambda clocks: not clocks.samples))), "")


# --- why, what next, a kernel -------------------------------------------------------------------


def answers(run: Run, rows: Sequence[Row], file: str) -> Iterator[Pair]:
    """The causes, what to do, whether a custom kernel pays, what all of it leaves out, and where to read on."""
    yield from _numbered("CAUSES", [Span(text, "cause") for text in _causes(run, rows)], "cause")
    yield from _numbered("DO NEXT", list(_steps(run, rows)), "")
    if run.candidates or run.device.kind == "gpu":
        yield Pair("KERNEL?", _kernel(run), None)
    if ignored := list(_ignored(run)):
        yield Pair("IGNORED", "; ".join(ignored), None, "faint")
    if file:
        yield Pair("page", Span(f"{file}/report.html", cut="never"), None, "faint")


def _numbered(label: str, lines: Sequence[Span], kind: Kind) -> Iterator[Pair]:
    for place, words in enumerate(lines):
        yield Pair("" if place else label, words, None, kind or "strong")


def _at(finding: Finding, rows: Sequence[Row]) -> str:
    """Which rows of the list a finding is about, or its place where none of those is shown."""
    heads = [row for row in rows if row.home is None]
    found = [f"{at}" for at, row in enumerate(heads, 1) if set(row.members) & set(finding.layers)]
    if not found:
        return finding.where
    more = f", {count(len(found) - ROWS, 'more row')}" if len(found) > ROWS else ""
    below = len(set(finding.layers).difference(*(row.members for row in heads)))
    others = f" and {count(below, 'more layer')}" if below else ""
    return f"row{'s' if len(found) > 1 else ''} {', '.join(found[:ROWS])}{more}{others}"


def _causes(run: Run, rows: Sequence[Row]) -> Iterator[str]:
    causes = causes_of(run)
    if not causes:
        unsure = "none named: the numbers are not good enough, see TRUST"
        yield unsure if run.no_verdict else "none found: no known cause fits what ran"
    for finding in causes[:CAUSES]:
        level = next(word for least, word in CONFIDENCE if finding.confidence >= least)
        claim = f"{level} confidence{f', up to ~{units.format_ns(finding.lost_ns)}' if finding.lost_ns else ''}"
        fact = finding.evidence.partition("; ")[0]
        yield f"{_at(finding, rows)}: {finding.title} ({claim}): {fact}".rstrip(": ")
    if len(causes) > CAUSES:
        yield f"{len(causes) - CAUSES} more likely cause{'s' if len(causes) > CAUSES + 1 else ''}: --top N"


def _steps(run: Run, rows: Sequence[Row]) -> Iterator[Span]:
    for number, step in enumerate(steps_of(run, lambda finding: _at(finding, rows)), 1):
        yield Span(f"{number}. {step.text}")
        if step.command:
            yield Span(f"   {step.command}", cut="never", name=True)


def _kernel(run: Run) -> Words:
    if not run.candidates:
        return f"custom kernel: {run.no_candidates or 'not decided'}"
    one = run.candidates[0]
    said = {"write it": "yes, write it", "try first": "not yet, there is cheaper", "do not": "no"}[one.verdict]
    low, high = units.format_ns(one.net_low_ns), units.format_ns(one.net_high_ns)
    net = f"~{units.format_ns(one.net_ns)} net ({low} to {high})"
    where = Span(one.nodes[-1] if one.nodes else one.layer, name=True)
    return f"custom kernel: {said}: ", where, f", {net}: {one.why}"


def _ignored(run: Run) -> Iterator[str]:
    share, total = run.coverage, headline(run)
    if total.unpriced:
        yield f"{count(total.unpriced, 'layer')} without a cost model"
    if run.unsupported:
        share_of = units.format_percent(sum(op.share for op in run.unsupported))
        names = units.format_names([f"{op.op_type or UNKNOWN_OP} x{op.count}" for op in run.unsupported])
        yield f"work not known: {names}, {share_of} of {time_of(run)} time"
    if share.exact + share.inferred < ATTRIBUTED:
        yield (
            f"{time_of(run)} time attributed to nodes: exact {units.format_percent(share.exact)}, inferred "
            f"~{units.format_percent(share.inferred)}, none {units.format_percent(share.unattributed)}"
        )
