"""What `trtprof compare` says: what changed between runs, what it is made of, and the answers of the gates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from trtprof.base.records import Comparison, Comparisons, Finding, FleetGate, GateResult, RegionChange, cause_name
from trtprof.base.units import format_ns
from trtprof.report import ReportOptions, content_of
from trtprof.report._format import KIND_WORDS, count
from trtprof.report.content import _comparison as words
from trtprof.report.document import (
    Bar,
    Block,
    Column,
    Document,
    Heading,
    Kind,
    Notes,
    Pair,
    Pairs,
    Row,
    Section,
    Span,
    Table,
    Under,
    marks,
    name,
    prose,
)

PARTS = 5  # Parts of the model, and findings, that a screen shows when the reader did not choose how many
PAPER = 20  # The same of a document that can fold the others
LIST = 30  # Facts, findings and notes of a document for people at most

_KINDS: dict[str, Kind] = {
    "slower": "worse", "faster": "better", "failed": "worse", "passed": "better", "inconclusive": "cause",
}  # fmt: skip


@content_of(Comparisons)
def document(found: Comparisons, options: ReportOptions) -> Document:
    """Where there are several a row each, then each: the verdict first, then what the difference is made of."""
    all_ = found.comparisons
    many = len(all_) > 1
    top = PARTS if options.top is None else options.top
    sections: list[Section] = [Section(blocks=(_overview(all_),))] if many else []
    for at, one in enumerate(all_, 1):
        title = f"{at} of {len(all_)}: {words.title(one)}"
        head = (Heading(Span(title, "strong", "middle")), Heading(Span("-" * min(len(title), options.width), "faint")))
        verdict = Notes((Span(one.verdict, "strong"),), 6, hang=0)
        sections.append(Section(blocks=(*(head if many else ()), verdict), where="" if many else "screen"))
        sections += _one(one, top)
    if any(one.ledger or one.findings_gone or one.findings_new for one in all_):
        sections.append(Section(blocks=(marks(),)))
    title = all_[0].verdict if not many else f"{len(all_)} runs against {all_[0].before.label}"
    return Document(title=title, titled=False, labels=10, sections=tuple(each for each in sections if each.blocks))


def _overview(comparisons: Sequence[Comparison]) -> Table:
    first = words.headline(comparisons[0])
    text = f"against {comparisons[0].before.label}"
    rows = []
    for one in comparisons:
        found = words.headline(one)
        answer = "unknown" if found is None else found.answer
        after, percent = ("-", "-") if found is None else (found.after, found.percent)
        answered = Span(answer, _KINDS.get(answer, ""))
        rows.append(Row((("  ", name(one.after.label)), after, percent, answered, Span(_asked(one), "faint"))))
    return Table(
        columns=(
            Column(cut="middle", least=10),
            Column("latency", right=True, least=10),
            Column("change", right=True, least=9),
            Column("answer", least=15),
            Column("gates"),
        ),
        rows=rows,
        title=Span(f"{text}, {first.before}" if first else text, "strong"),
        headless=True,
    )


def _asked(one: Comparison) -> str:
    """The worst answer of its gates: ``FAILED 2 of 3 gates``."""
    answers = [gate.answer for gate in one.gates]
    for answer in ("failed", "inconclusive", "passed"):
        if answer in answers:
            return f"{words.GATE_WORDS[answer]} {answers.count(answer)} of {count(len(answers), 'gate')}"
    return ""


def _one(one: Comparison, top: int) -> Iterator[Section]:
    yield Section(blocks=(Pairs(tuple(_head(one))),), where="screen")
    yield Section(blocks=(_sides(one),), where="paper", place=1)
    yield Section(blocks=tuple(_ledger(one)), fold=True, title=f"What the difference is made of ({_closes(one)})")
    yield Section(blocks=tuple(_parts(one, top)), fold=True, title="Parts of the model, largest difference first")
    facts = f"{count(len(one.facts), 'fact')} about the runs that changed"
    yield Section(blocks=(Pairs(tuple(_facts(one, top))),), fold=True, title=facts)
    findings = f"Findings: {len(one.findings_new):,} new, {len(one.findings_gone):,} gone"
    yield Section(blocks=tuple(_findings(one, top)), fold=True, title=findings)
    yield Section(blocks=tuple(gates(one.gates)), place=2)
    yield Section(blocks=(Pairs(tuple(_method(one, top))),), fold=True, title="Method and notes")


# --- the latency ----------------------------------------------------------------------------


def _head(one: Comparison) -> Iterator[Pair]:
    for label, side in (("before", one.before), ("after", one.after)):
        yield Pair(label, f"{side.label}: {words.side_words(side)}", 2, "")
    found = words.headline(one)
    if found is None:
        text = "unknown: one side has no latency that was measured end to end"
        yield Pair("latency", Span(text, "doubt"), None, "")
    else:
        change = Span(f"  {found.difference} ({found.percent})", "strong")
        answer = Span(f"  {found.answer}", _KINDS.get(found.answer, "strong"))
        yield Pair("latency", (f"{found.before} {words.ARROW} {found.after}", change, answer), None, "")
        level = words.level(one.latency.difference_ns)
        text = f"{level} interval {found.interval} ({found.interval_percent}); {found.samples}"
        yield Pair("", text, 6)
        if found.answer == "not significant":
            yield Pair("", Span(one.latency.reason, "faint"), 4)
        if max(len(one.before.medians_ns), len(one.after.medians_ns)) > 1:
            runs = (", ".join(format_ns(ns) for ns in sorted(side.medians_ns)) for side in (one.before, one.after))
            yield Pair("runs", f"medians {f' {words.ARROW} '.join(runs)}", 4, "")
    allowed, share = words.roof_words(one), words.of_roof_words(one)
    if allowed is None:
        unknown = [side.label for side in (one.before, one.after) if side.attainable_ns is None]
        yield Pair("bound", f"unknown of {' and '.join(unknown)}: no layer has an estimate", 2, "")
        return
    text = f"{allowed[0]} {words.ARROW} {allowed[1]} {allowed[2]}"
    text += f"; of the roofline {share[0]} {words.ARROW} {share[1]}" if share is not None else ""
    yield Pair("bound", Span(text, "estimate"), None, "")


def _sides(one: Comparison) -> Table:
    """The same side by side."""
    found = words.headline(one)
    rows: list[tuple[str | Span, ...]] = []
    if found is None:
        rows.append(("median latency", "unknown", "unknown", "one side has no latency that was measured end to end"))
    else:
        level = words.level(one.latency.difference_ns)
        change = f"{found.difference} ({found.percent}), {found.answer}"
        rows.append(("median latency", found.before, found.after, Span(change, "strong")))
        rows.append((f"{level} interval", "", "", found.interval_percent))
    for label, row in (
        ("the roofline allows", words.roof_words(one)),
        ("lost", words.lost_words(one)),
        ("of the roofline", words.of_roof_words(one)),
    ):
        if row is not None:
            rows.append((label, *row))
    if words.roof_words(one) is None:
        ends = (
            "unknown" if s.attainable_ns is None else f"~{format_ns(s.attainable_ns)}" for s in (one.before, one.after)
        )
        rows.append(("the roofline allows", *ends, "no layer has an estimate"))
    heads = ("", f"before: {one.before.label}", f"after: {one.after.label}", "change")
    return Table(columns=tuple(map(Column, heads)), rows=[Row(row) for row in rows])


# --- what the difference is made of ---------------------------------------------------------


def _closes(one: Comparison) -> str:
    gap = words.ledger_gap_ns(one)
    return f"misses the difference by {format_ns(abs(gap))}" if gap else "adds up to the difference"


def _ledger(one: Comparison) -> list[Block]:
    rows = [row for row in one.ledger if words.counts(row.ns, one)]
    if not rows:
        return [Heading("breakdown", "nothing to take apart", label=True)] if one.ledger else []
    drawn = words.waterfall(rows)
    whole, total = one.before.latency.headline_ns, sum(row.ns for row in one.ledger)
    made = [
        Row((
            ("  ", Span(cause_name(row.cause), cut="middle")),
            Span(words.MARKS[row.kind] + words.signed_ns(row.ns), row.kind),
            Span(words.share(row.ns, whole), row.kind),
            Bar(step.start, step.end, drawn.zero, row.kind),
            KIND_WORDS[row.kind],
            prose(row.meaning),
        ))
        for row, step in zip(rows, drawn.steps, strict=True)
    ]  # fmt: skip
    difference = Bar(drawn.zero, drawn.end, drawn.zero)
    sums = (Span(text, "strong") for text in (words.signed_ns(total), words.share(total, whole)))
    made.append(Row((("  ", Span("difference", "strong")), *sums, difference, "", "")))
    title = f"from before to after; {_closes(one)}; % of the latency before"
    columns = (
        Column("cause", most=26, cut="middle"),
        Column("time", right=True, least=10),
        Column("share", right=True, gap=1),
        Column(most=48, where="screen"),
        Column("kind", where="paper"),
        Column("meaning", where="paper"),
    )
    return [
        Heading("breakdown", title, label=True, lines=None), Table(columns=columns, rows=made, headless=True),
    ]  # fmt: skip


def _parts(one: Comparison, top: int) -> Iterator[Block]:
    regions = [part for part in one.regions if words.counts(part.difference_ns, one)] or one.regions
    if not regions:
        return
    shown = min(top, len(regions))
    title = f"{shown:,} of {count(len(one.regions), 'part')} of the model, largest difference first"
    kinds = words.kinds(one)

    def rest(shown: int) -> Row | None:
        left = one.regions[shown:]
        if not left:
            return None
        ns = Span(f"{words.signed_ns(sum(part.difference_ns for part in left)):>12}  ", "faint")
        return Row(across=(ns, Span(f"in the {count(len(left), 'other')}", "faint")))

    yield Heading("parts", title, label=True)
    yield Table(
        columns=(
            Column("difference", right=True, least=12),
            Column("before", right=True, least=9),
            Column(gap=1, least=2, where="screen"),
            Column("after", gap=1, least=9),
            Column(cut="end"),
        ),
        # Nobody reads more, and each takes time.
        rows=[_part(part, kinds) for part in regions[: max(6 * PAPER, top)]],
        shown=top,
        paper=PAPER,
        rest=rest,
    )


def _part(part: RegionChange, kinds: Mapping[str, str]) -> Row:
    before, after = words.ends(part)
    causes = words.causes(part, kinds)
    why = ", ".join(f"{cause} {time}" for cause, time in causes) if len(causes) > 1 else ""
    why = why or "".join(cause for cause, _ in causes)
    good = words.expected(part)
    said = [words.answer_words(part.answer), why, words.dtypes(part), f"good kernels {good}" if good else ""]
    under = [Under(Span("; ".join(filter(None, said)), "faint"), lines=2, indent=14)]
    if words.kernels(part):
        ends = [Span(", ".join(names) or "none", "faint", "middle", 0.45, name=True)
                for names in (part.kernels_before, part.kernels_after)]  # fmt: skip
        under.append(Under((ends[0], Span(f" {words.ARROW} ", "faint"), ends[1]), indent=14))
    return Row(
        (
            Span(words.signed_ns(part.difference_ns), _KINDS.get(part.answer or "", "")),
            before,
            words.ARROW,
            after,
            (Span(part.op_types, cut="middle", least=0.4), " ", name(part.name, least=0.5)),
        ),
        tuple(under),
    )


# --- the rest -------------------------------------------------------------------------------


def _facts(one: Comparison, top: int) -> Iterator[Pair]:
    if not one.facts:
        yield Pair("changed", Span("nothing else that the runs record", "faint"))
    most = max(2 * top, 6)
    for at, fact in enumerate(one.facts[:most]):
        ends = name(fact.before or "none"), f" {words.ARROW} ", name(fact.after or "none")
        yield Pair("" if at else "changed", (name(fact.what), ": ", *ends), 3)
    if len(one.facts) > most:
        yield Pair("", Span(f"and {count(len(one.facts) - most, 'more fact')}", "faint"))


def _findings(one: Comparison, top: int) -> Iterator[Block]:
    rows: list[Row] = []
    for label, group in (("new", one.findings_new), ("gone", one.findings_gone)):
        for at, finding in enumerate(group[:top]):
            first = Span("" if rows else "findings", "strong")
            rows.append(_finding(first, "" if at else label, finding))
        if len(group) > top:
            rows.append(Row(across=Span(f"{'':16}and {len(group) - top:,} more {label}", "faint")))
    columns = (
        Column(least=10, where="screen"),
        Column(gap=0, least=6),
        Column("code", gap=0, least=10, most=10, cut="middle"),
        Column("lost", right=True, gap=0, least=9, kind="estimate"),
        Column("likely cause, or doubt", cut="middle"),
    )
    if rows:
        yield Table(columns=columns, rows=rows, headless=True)


def _finding(title: Span, label: str, finding: Finding) -> Row:
    kind: Kind = "doubt" if finding.kind == "trust" else "cause"
    lost = f"~{format_ns(finding.lost_ns)}" if finding.lost_ns else ""
    code = Span(words.finding_mark(finding), kind, "middle", 9)
    where = Span(finding.where, "faint", "middle", name=True)
    under = (Under(where),) if finding.where else ()
    return Row((title, label, (code, " "), lost, Span(finding.title, kind)), under)


def gates(found: Iterable[GateResult | FleetGate]) -> Iterator[Block]:
    """The answer of each gate and why, of runs or of fleets."""
    rows = []
    for at, gate in enumerate(found):
        answer = Span(words.GATE_WORDS[gate.answer], _KINDS[gate.answer])
        why = Under(Span(gate.reason, "faint"), lines=4, indent=24)
        rows.append(Row((Span("" if at else "gates", "strong"), answer, name(gate.gate)), (why,)))
    columns = Column(least=10, where="screen"), Column("answer", gap=0, least=14), Column("gate", gap=0, cut="middle")
    if rows:
        yield Table(columns=columns, rows=rows, headless=True)


def _method(one: Comparison, top: int) -> Iterator[Pair]:
    yield Pair("method", Span(one.latency.method, "faint"), 6, "faint")
    most = max(top, 3)
    for at, note in enumerate(one.notes[:most]):
        yield Pair("" if at else "notes", Span(note, "faint"), 4, "faint")
    if len(one.notes) > most:
        yield Pair("", Span(f"and {count(len(one.notes) - most, 'more note')}", "faint"))
