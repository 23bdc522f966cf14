"""What `trtprof rules` says, and ``--explain``: the rules, their thresholds, and what one says of a layer."""

from __future__ import annotations

from trtprof.base.records import Explanation, RuleListing, RuleSheet, RuleThreshold
from trtprof.base.units import format_ns
from trtprof.report import ReportOptions, content_of
from trtprof.report.document import Column, Document, Heading, Notes, Row, Section, Span, Table, Under, name, sections

_OUTCOMES = {"claims": "says", "run": "says", "taken": "silent", "dropped": "silent", "silent": "silent"}


@content_of(RuleListing)
def document(found: RuleListing, options: ReportOptions) -> Document:
    """A row a rule, or one rule whole."""
    if options.view == "sheet":
        return _sheet(found.rules[0])
    rows = [Row((each.code, each.title, str(each.order), each.summary)) for each in found.rules]
    columns = (
        Column("code"), Column("title", cut="end", least=42, most=46), Column("order", right=True, drop=2),
        Column("what it finds", cut="end", least=24, drop=1),
    )  # fmt: skip
    return Document(
        title="Rules", titled=False, sections=sections([Table(columns=columns, rows=rows, hidden="not shown: {}")])
    )


def _sheet(rule: RuleSheet) -> Document:
    said = (("What", rule.what), ("Why", rule.why), ("Try", rule.remedy))
    own, every = rule.thresholds, rule.thresholds_of_every_finding
    last = "Each can be set in pyproject.toml, [tool.trtprof]; TRTPROF_CONFIG names another file."
    return Document(
        title=f"{rule.code}  {rule.title}",
        sections=sections(
            *(_titled(title, text) for title, text in said),
            _rungs(rule),
            _thresholds("Thresholds", own) if own else _titled("Thresholds", "none of its own"),
            _thresholds("Thresholds of every finding", every) if every else None,
            [Notes((last,), hang=0)],
        ),
    )


def _rungs(rule: RuleSheet) -> Section:
    """What `trtprof try` makes of the remedy."""
    if not rule.rungs:
        return _titled("Rungs", f"none: {rule.no_rung}")
    return _titled("Rungs", ", ".join(rule.rungs), f"trtprof try MODEL --only {rule.code}")


def _titled(title: str, *said: str) -> Section:
    # A text that is set in goes on set in as far.
    return Section(title=title, blocks=(Heading(f"{title}:"), Notes(tuple(f"  {text}" for text in said), hang=0)))


def _thresholds(title: str, thresholds: tuple[RuleThreshold, ...]) -> Section:
    rows = []
    for each in thresholds:
        where = "the default" if each.origin == "default" else f"by default {each.default:g}; from {each.origin}"
        head = Span(f"  {each.name} = {each.value:g}  ({where})", cut="never")
        rows.append(Row((head,), (Under(each.meaning, lines=None, indent=4),)))
    return Section(
        title=title, blocks=(Heading(f"{title}:"), Table(columns=(Column("threshold"),), rows=rows, headless=True))
    )


@content_of(Explanation)
def explanation(found: Explanation, options: ReportOptions) -> Document:  # noqa: ARG001 - there is nothing to choose
    """The layer, what the rule says of it, and which other findings name it."""
    attainable = "not known" if found.attainable_ns is None else format_ns(found.attainable_ns)
    lost = "not known" if found.lost_ns is None else format_ns(found.lost_ns)
    nodes = tuple(node for node in found.nodes if node != found.layer)
    others = [
        f"{finding.code}  {finding.title}, {format_ns(finding.lost_ns)}, {finding.severity}"
        for finding in found.findings
        if finding.code != found.code
    ]
    own = [text for each in found.findings if each.code == found.code for text in (each.try_, each.command) if text]
    measured = f"  {format_ns(found.measured_ns)} measured, {attainable} attainable, {lost} lost, bound: {found.bound}"
    return Document(
        title=f"{found.code}  {found.title}",
        sections=sections(
            Section(
                tight=True,
                blocks=(
                    Notes(
                        (
                            (name(found.layer), Span(f"  ({found.op_type})")),
                            *([Span("  nodes:", items=nodes)] if nodes else []),
                            measured,
                        )
                    ),
                ),
            ),
            _titled(_OUTCOMES[found.outcome], found.why),
            _titled("try", *own) if own else None,
            _titled("other findings that name the layer", *others) if others else None,
        ),
    )
