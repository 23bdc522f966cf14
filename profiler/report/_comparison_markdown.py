"""A comparison for a comment on a pull request, or the summary of a CI job: one table first, the rest folded.

GitHub takes comments of at most 65,536 characters: long names are cut, long lists too, and it is said.
Names stand in ``<code>``: there GitHub makes no mention and no link of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from profiler.base.records import Comparison, Comparisons, Finding, RegionChange
from profiler.base.units import format_ns
from profiler.report import _comparison as words
from profiler.report._cells import elide
from profiler.report._format import KIND_WORDS, count, visible

PARTS = 20
"""Parts of the model that are listed unless asked for more or less."""
LIST = 30
"""Rows of the other lists."""
NAME = 90
"""Characters of a name."""
SENTENCE = 400
"""Characters of a sentence."""

_SPECIAL = str.maketrans({char: f"\\{char}" for char in "\\`*_{}[]<>|#&~$"})
_MENTION = re.compile(r"@(?=\w)")
_ANSWERS = {"passed": "passed", "failed": "**failed**", "inconclusive": "*inconclusive*"}


def render(found: Comparisons, top: int | None = None) -> str:
    """The comparisons in Markdown.

    Args:
        found: The comparisons.
        top: Parts of the model of each; by default `PARTS`.
    """
    lines: list[str] = []
    for one in found.comparisons:
        lines += [*_comparison(one, PARTS if top is None else top), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _comparison(one: Comparison, top: int) -> Iterator[str]:
    yield f"### {_text(one.verdict)}"
    yield ""
    yield from _table(
        ("", f"before: {_name(one.before.label)}", f"after: {_name(one.after.label)}", "change"), _head(one)
    )
    if one.gates:
        yield ""
        rows = ((_name(gate.gate), _ANSWERS[gate.answer], _text(gate.reason)) for gate in one.gates)
        yield from _table(("gate", "answer", "why"), rows)
    yield ""
    yield from _ledger(one)
    yield from _parts(one, top)
    yield from _facts(one)
    yield from _findings(one)
    yield from _method(one)


def _head(one: Comparison) -> Iterator[tuple[str, ...]]:
    found = words.headline(one)
    if found is None:
        yield "median latency", "unknown", "unknown", "one side has no latency that was measured end to end"
    else:
        change = f"**{found.difference} ({found.percent}), {found.answer}**"
        level = words.level(one.latency.difference_ns)
        yield "median latency", found.before, found.after, f"{change}; {level} interval {found.interval_percent}"
        if found.told_by is not None:
            lower_before, lower_after, percent, interval = found.told_by
            told = f"{percent}; {level} interval {interval}; it tells the answer"
            yield "lower decile", lower_before, lower_after, told
    for name, row in (
        ("the roofline allows", words.roof_words(one)),
        ("lost", words.lost_words(one)),
        ("of the roof", words.of_roof_words(one)),
    ):
        if row is not None:
            yield name, *map(_text, row)
    if not any((words.roof_words(one), words.of_roof_words(one))):
        yield "the roofline allows", *_unknown(one), "no layer has an estimate"


def _unknown(one: Comparison) -> tuple[str, str]:
    before, after = (
        "unknown" if side.attainable_ns is None else _text(f"~{format_ns(side.attainable_ns)}")
        for side in (one.before, one.after)
    )
    return before, after


# --- what is folded -------------------------------------------------------------------------


def _folded(summary: str, lines: Iterable[str]) -> Iterator[str]:
    yield f"<details><summary>{summary}</summary>"
    yield ""
    yield from lines
    yield ""
    yield "</details>"
    yield ""


def _ledger(one: Comparison) -> Iterator[str]:
    if not one.ledger:
        return
    whole = one.before.latency.median_ns
    rows: list[tuple[str, ...]] = [
        (
            row.cause,
            _text(words.MARKS[row.kind] + words.signed_ns(row.ns)),
            words.share(row.ns, whole),
            KIND_WORDS[row.kind],
            _text(row.meaning),
        )
        for row in one.ledger
    ]
    total = sum(row.ns for row in one.ledger)
    rows.append(("**difference**", f"**{words.signed_ns(total)}**", f"**{words.share(total, whole)}**", "", ""))
    gap = words.ledger_gap_ns(one)
    closes = "adds up to the difference" if not gap else f"misses the difference by {format_ns(abs(gap))}"
    summary = f"What the difference is made of ({closes}; % of the latency before)"
    yield from _folded(summary, _table(("cause", "time:", "share:", "kind", "meaning"), rows))


def _parts(one: Comparison, top: int) -> Iterator[str]:
    if not one.regions:
        return
    shown = one.regions[:top]
    kinds = words.kinds(one)
    rows = [_part(part, kinds) for part in shown]
    rest = one.regions[len(shown) :]
    if rest:
        ns = sum(part.difference_ns for part in rest)
        rows.append((f"{count(len(rest), 'other part')}", "", "", words.signed_ns(ns), "", ""))
    summary = f"{len(shown):,} of {count(len(one.regions), 'part')} of the model, largest difference first"
    yield from _folded(summary, _table(("part", "before:", "after:", "difference:", "significant", "why"), rows))


def _part(part: RegionChange, kinds: Mapping[str, str]) -> tuple[str, ...]:
    before, after = words.ends(part)
    causes = "; ".join(f"{cause} {time}" for cause, time in words.causes(part, kinds))
    kernels, dtypes = words.kernels(part), words.dtypes(part)
    why = [_text(causes), _name(dtypes) if dtypes else "", _name(kernels, 2 * NAME) if kernels else ""]
    return (
        f"{_text(part.op_types, NAME)} {_name(part.name)}",
        before,
        after,
        words.signed_ns(part.difference_ns),
        words.answer_words(part.answer),
        "<br>".join(filter(None, why)),
    )


def _facts(one: Comparison) -> Iterator[str]:
    if not one.facts:
        return
    rows = [
        (
            _text(fact.what, NAME),
            _name(fact.before) if fact.before else "none",
            _name(fact.after) if fact.after else "none",
        )
        for fact in one.facts[:LIST]
    ]
    summary = f"{count(len(one.facts), 'fact')} about the runs that changed"
    yield from _folded(summary, [*_table(("what", "before", "after"), rows), *_rest(len(one.facts))])


def _findings(one: Comparison) -> Iterator[str]:
    new, gone = one.findings_new, one.findings_gone
    if not new and not gone:
        return
    rows = [_finding("new", finding) for finding in new[:LIST]] + [_finding("gone", finding) for finding in gone[:LIST]]
    summary = f"Findings: {len(new):,} new, {len(gone):,} gone"
    lines = _table(("", "code", "likely cause, or doubt", "lost:", "where"), rows)
    yield from _folded(summary, [*lines, *_rest(max(len(new), len(gone)))])


def _finding(label: str, finding: Finding) -> tuple[str, ...]:
    lost = _text(f"~{format_ns(finding.lost_ns)}") if finding.lost_ns else ""
    where = _name(finding.where) if finding.where else ""
    return label, _name(words.finding_mark(finding)), _text(finding.title, 2 * NAME), lost, where


def _method(one: Comparison) -> Iterator[str]:
    change = one.latency
    lines = [
        f"- before: {_name(one.before.label)}, {_text(words.side_words(one.before))}",
        f"- after: {_name(one.after.label)}, {_text(words.side_words(one.after))}",
        f"- interval: {_text(change.method)}; {change.samples_before:,} samples before, {change.samples_after:,} after",
        *([f"- {_text(change.reason)}"] if change.reason else []),
        *(f"- {_text(note)}" for note in one.notes[:LIST] if note.strip()),
        "- a number without a mark was measured; \\~ marks an estimate, = the remainder, ? a likely cause, ! a doubt",
    ]
    yield from _folded("Method and notes", [*lines, *_rest(len(one.notes))])


def _rest(number: int) -> list[str]:
    return ["", f"{number - LIST:,} more are in the JSON document."] if number > LIST else []


# --- Markdown -------------------------------------------------------------------------------


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table whose cells are Markdown; columns whose head ends with ``:`` are of numbers."""
    yield "| " + " | ".join(name.removesuffix(":") for name in head) + " |"
    yield "|" + "".join(" ---: |" if name.endswith(":") else " --- |" for name in head)
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def _text(text: str, most: int = SENTENCE) -> str:
    """Text that Markdown shows as it is; the middle of a longer one is left out."""
    text = visible(elide(text[: 4 * most], most, "…")).translate(_SPECIAL).replace("://", ":\\//")
    return _MENTION.sub("<code>@</code>", text)


def _name(text: str, most: int = NAME) -> str:
    """A name that is shown as it is, and that GitHub makes no mention or link of."""
    return f"<code>{_text(text, most) or ' '}</code>"
