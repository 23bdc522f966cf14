"""A comparison for a terminal: the verdict first, then what the difference is made of.

Facts stand as they are, estimates carry a ``~``, the remainder a ``=``, causes a ``?``; bars are filled likewise.
Control characters are escaped, so that no name steers the terminal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from profiler.base.records import Comparison, Comparisons, Finding, RegionChange
from profiler.base.units import format_ns
from profiler.report import _comparison as words
from profiler.report._cells import cells, elide, head, pad, wrapped
from profiler.report._format import count, visible

MIN_WIDTH = 40
"""A narrower terminal gets lines of this layout, clipped to its width."""

PARTS = 5
"""Parts of the model, and findings, that are listed when the reader did not choose how many."""

_LABEL = 10
"""Columns of the words at the start of a section."""

_FILL = {"fact": "█", "estimate": "▒", "remainder": "░"}
_FILL_ASCII = {"fact": "#", "estimate": "~", "remainder": "="}
_ANSI = {"bold": "1", "dim": "2", "estimate": "36", "cause": "33", "doubt": "35", "slower": "31", "faster": "32"}
_STYLE = {"slower": "slower", "faster": "faster", "failed": "slower", "passed": "faster", "inconclusive": "cause"}


class _Span(NamedTuple):
    text: str
    style: str = ""


_Line = tuple[_Span, ...]


def render(
    found: Comparisons, width: int = 80, top: int | None = None, *, ascii_only: bool = False, color: bool = False
) -> str:
    """The comparisons as lines of at most ``width`` columns."""
    page = _Page(max(width, MIN_WIDTH), PARTS if top is None else top, ascii_only=ascii_only)
    lines: list[_Line] = []
    many = len(found.comparisons) > 1
    if many:
        lines += page.overview(found.comparisons)
    for at, one in enumerate(found.comparisons, 1):
        if many:
            text = page.elided(f"{at} of {len(found.comparisons)}: {words.title(one)}", page.width)
            lines += [(), (_Span(text, "bold"),), (_Span("-" * cells(text), "dim"),)]
        lines += page.comparison(one)
    if any(one.ledger or one.findings_gone or one.findings_new for one in found.comparisons):
        lines += [(), page.legend()]
    return "".join(page.paint(line, width, color=color) + "\n" for line in lines)


class _Page:
    def __init__(self, width: int, top: int, *, ascii_only: bool) -> None:
        self.width = width
        self.top = top
        self.ascii = ascii_only
        self.dots = "..." if ascii_only else "…"
        self.fill = _FILL_ASCII if ascii_only else _FILL

    # --- text -------------------------------------------------------------------------------

    def safe(self, text: str) -> str:
        # No more of a name than could be shown is looked at: one may be ten thousand characters long.
        return visible(text[: self.width * 40], ascii_only=self.ascii)

    def elided(self, text: str, width: int) -> str:
        return elide(self.safe(text), max(width, 1), self.dots)

    def wrapped(self, text: str, width: int, most: int = 6) -> list[str]:
        """``text`` in lines; of more than ``most`` the rest is cut."""
        lines = wrapped(self.safe(text), width, self.dots)
        if len(lines) > most:
            end = lines[most - 1]
            lines = [*lines[: most - 1], head(end, width - len(self.dots)) + self.dots]
        return lines

    def section(self, label: str, text: str, style: str = "", *, most: int = 6, text_style: str = "") -> list[_Line]:
        """A word and what is said of it, in as many lines as that needs."""
        lines = self.wrapped(text, self.width - _LABEL, most)
        return [
            (_Span(pad(label if not at else "", _LABEL), style), _Span(line, text_style))
            for at, line in enumerate(lines or [""])
        ]

    def paint(self, line: _Line, width: int, *, color: bool) -> str:
        room, parts = width, []
        last = max((at for at, span in enumerate(line) if span.text.strip()), default=-1)
        for at, span in enumerate(line[: last + 1]):
            text = head(span.text.rstrip() if at == last else span.text, room)
            room -= cells(text)
            parts.append(f"\x1b[{_ANSI[span.style]}m{text}\x1b[0m" if color and span.style and text.strip() else text)
        return "".join(parts).rstrip() if not color else "".join(parts)

    # --- the document -----------------------------------------------------------------------

    def overview(self, comparisons: Sequence[Comparison]) -> Iterator[_Line]:
        """One row each, where there are several."""
        before = comparisons[0].before
        text = f"against {before.label}"
        first = words.headline(comparisons[0])
        yield (_Span(self.elided(f"{text}, {first.before}" if first else text, self.width), "bold"),)
        rows = [(one, words.headline(one), self.asked(one)) for one in comparisons]
        asked = max(cells(text) for _, _, text in rows)
        room = max(self.width - 2 - 10 - 2 - 9 - 2 - 15 - (asked + 2 if asked else 0), 8)
        for one, found, gates in rows:
            answer = "unknown" if found is None else found.answer
            facts = f"{'-':>10}  {'-':>9}  " if found is None else f"{found.after:>10}  {found.percent:>9}  "
            yield (
                _Span("  " + pad(self.elided(one.after.label, room), room)),
                _Span(facts),
                _Span(pad(answer, 15), _STYLE.get(answer, "")),
                _Span(f"  {gates}" if gates else "", "dim"),
            )

    @staticmethod
    def asked(one: Comparison) -> str:
        """The worst answer of its gates: ``FAILED 2 of 3 gates``."""
        answers = [gate.answer for gate in one.gates]
        for answer in ("failed", "inconclusive", "passed"):
            if answer in answers:
                return f"{words.GATE_WORDS[answer]} {answers.count(answer)} of {count(len(answers), 'gate')}"
        return ""

    def comparison(self, one: Comparison) -> Iterator[_Line]:
        """One run against another."""
        for line in self.wrapped(one.verdict, self.width):
            yield (_Span(line, "bold"),)
        yield ()
        yield from self.section("before", f"{one.before.label}: {words.side_words(one.before)}", most=2)
        yield from self.section("after", f"{one.after.label}: {words.side_words(one.after)}", most=2)
        yield from self.latency(one)
        yield from self.roof(one)
        for part in (self.ledger(one), self.regions(one), self.facts(one), self.findings(one), self.gates(one)):
            lines = list(part)
            if lines:
                yield ()
                yield from lines
        yield ()
        yield from self.section("method", one.latency.method, "dim", text_style="dim")
        for at, note in enumerate(one.notes[: max(self.top, 3)]):
            yield from self.section("" if at else "notes", note, "dim", most=4, text_style="dim")
        if len(one.notes) > max(self.top, 3):
            yield from self.section(
                "", f"and {count(len(one.notes) - max(self.top, 3), 'more note')}", text_style="dim"
            )

    def latency(self, one: Comparison) -> Iterator[_Line]:
        found = words.headline(one)
        if found is None:
            text = "unknown: one side has no latency that was measured end to end"
            yield from self.section("latency", text, text_style="doubt")
            return
        answer = _Span(f"  {found.answer}", _STYLE.get(found.answer, "bold"))
        times = f"{found.before} {words.ARROW} {found.after}"
        change = f"  {found.difference} ({found.percent})"
        if _LABEL + cells(times + change + answer.text) <= self.width:
            yield (_Span(pad("latency", _LABEL)), _Span(times), _Span(change, "bold"), answer)
        else:
            yield (_Span(pad("latency", _LABEL)), _Span(times))
            yield (_Span(" " * (_LABEL - 2)), _Span(change, "bold"), answer)
        level = words.level(one.latency.difference_ns)
        yield from self.section("", f"{level} interval {found.interval} ({found.interval_percent}); {found.samples}")
        if found.told_by is not None:
            lower_before, lower_after, percent, interval = found.told_by
            told = f"told by the lower decile: {lower_before} {words.ARROW} {lower_after}, {percent} ({interval})"
            yield from self.section("", told, most=3)
        yield from self.section("", one.latency.reason, text_style="dim", most=3)
        if max(len(one.before.medians_ns), len(one.after.medians_ns)) > 1:
            yield from self.section("runs", f"medians {self.runs(one)}", most=4)

    @staticmethod
    def runs(one: Comparison) -> str:
        sides = [", ".join(format_ns(ns) for ns in sorted(side.medians_ns)) for side in (one.before, one.after)]
        return f" {words.ARROW} ".join(sides)

    def roof(self, one: Comparison) -> Iterator[_Line]:
        allowed, share = words.roof_words(one), words.of_roof_words(one)
        if allowed is None:
            unknown = [side.label for side in (one.before, one.after) if side.attainable_ns is None]
            yield from self.section("allowed", f"unknown of {' and '.join(unknown)}: no layer has an estimate", most=2)
            return
        text = f"{allowed[0]} {words.ARROW} {allowed[1]}  {allowed[2]}"
        if share is not None:
            text += f"; of the roof {share[0]} {words.ARROW} {share[1]}"
        yield from self.section("allowed", text, text_style="estimate")

    # --- ledger -----------------------------------------------------------------------------

    def ledger(self, one: Comparison) -> Iterator[_Line]:
        rows = [row for row in one.ledger if row.ns]
        if not rows:
            if one.ledger:
                yield from self.section("ledger", "nothing to take apart", "bold", text_style="dim")
            return
        gap = words.ledger_gap_ns(one)
        closes = "adds up to the difference" if not gap else f"misses the difference by {format_ns(abs(gap))}"
        title = f"from before to after; {closes}; % of the latency before"
        yield from self.section("ledger", title, "bold", text_style="dim")
        cause = min(max(len(row.cause) for row in rows), 24) + 2
        drawn = words.waterfall(rows)
        whole = one.before.latency.median_ns
        total = sum(row.ns for row in rows)
        shares = [words.share(ns, whole) for ns in (*(row.ns for row in rows), total)]
        share = max(map(len, shares))
        bar = min(self.width - 2 - cause - 10 - 1 - share - 2, 48)
        for step, text in zip(drawn.steps, shares, strict=False):
            row = step.row
            style = {"estimate": "estimate", "remainder": "dim"}.get(row.kind, "")
            yield (
                _Span("  " + pad(elide(row.cause, cause - 2, self.dots), cause)),
                _Span(f"{words.MARKS[row.kind] + words.signed_ns(row.ns):>10} {text:>{share}}", style),
                _Span("  "),
                _Span(self.bar(step.start, step.end, drawn.zero, self.fill[row.kind], bar), style),
            )
        yield (
            _Span("  " + pad("difference", cause), "bold"),
            _Span(f"{words.signed_ns(total):>10} {shares[-1]:>{share}}", "bold"),
            _Span("  "),
            _Span(self.bar(drawn.zero, drawn.end, drawn.zero, self.fill["fact"], bar)),
        )

    def bar(self, start: float, end: float, zero: float, fill: str, width: int) -> str:
        """A bar between two places of a drawing of ``width`` columns; a line stands where the latency before is."""
        if width < 8:
            return ""
        low, high = (round(place * (width - 1)) for place in sorted((start, end)))
        if low == high and start != end:
            high = min(low + 1, width - 1) if low < width - 1 else low
            low = high - 1
        line = [" "] * width
        line[round(zero * (width - 1))] = "|" if self.ascii else "│"
        line[low:high] = [fill] * (high - low)
        return "".join(line).rstrip()

    # --- parts ------------------------------------------------------------------------------

    def regions(self, one: Comparison) -> Iterator[_Line]:
        shown = one.regions[: self.top]
        if not one.regions:
            return
        title = f"{len(shown):,} of {count(len(one.regions), 'part')} of the model, largest difference first"
        yield from self.section("parts", title, "bold", text_style="dim")
        yield (_Span(f"{'difference':>12}  {'before':>9}    {'after':<9}", "dim"),)
        kinds = words.kinds(one)
        for part in shown:
            yield from self.region(part, kinds)
        if len(one.regions) > len(shown):
            rest = sum(part.difference_ns for part in one.regions[self.top :])
            yield (
                _Span(f"{words.signed_ns(rest):>12}  in the {count(len(one.regions) - len(shown), 'other')}", "dim"),
            )

    def region(self, part: RegionChange, kinds: Mapping[str, str]) -> Iterator[_Line]:
        before, after = words.ends(part)
        times = f"  {before:>9} {words.ARROW} {after:<9}  "
        op = self.elided(part.op_types, 20)
        name = self.elided(part.name, self.width - 12 - cells(times) - cells(op) - 1)
        yield (
            _Span(f"{words.signed_ns(part.difference_ns):>12}", _STYLE.get(part.answer or "", "")),
            _Span(times),
            _Span(f"{op} {name}"),
        )
        causes = words.causes(part, kinds)
        why = ", ".join(f"{cause} {time}" for cause, time in causes) if len(causes) > 1 else ""
        why = why or "".join(cause for cause, _ in causes)
        said = [words.answer_words(part.answer), why, words.dtypes(part)]
        for line in self.wrapped("; ".join(filter(None, said)), self.width - 14, 2):
            yield (_Span(" " * 14), _Span(line, "dim"))
        if words.kernels(part):
            room = (self.width - 14 - len(f" {words.ARROW} ")) // 2
            ends = (", ".join(names) or "none" for names in (part.kernels_before, part.kernels_after))
            text = f" {words.ARROW} ".join(self.elided(names, room) for names in ends)
            yield (_Span(" " * 14), _Span(text, "dim"))

    # --- the rest ---------------------------------------------------------------------------

    def facts(self, one: Comparison) -> Iterator[_Line]:
        if not one.facts:
            yield from self.section("changed", "nothing else that the runs record", "bold", text_style="dim")
        most = max(2 * self.top, 6)
        for at, fact in enumerate(one.facts[:most]):
            room = max((self.width - _LABEL) // 2, 12)
            text = (
                f"{self.elided(fact.what, room)}: {self.elided(fact.before or 'none', room)} {words.ARROW} "
                f"{self.elided(fact.after or 'none', room)}"
            )
            yield from self.section("" if at else "changed", text, "bold", most=3)
        if len(one.facts) > most:
            yield from self.section("", f"and {count(len(one.facts) - most, 'more fact')}", text_style="dim")

    def findings(self, one: Comparison) -> Iterator[_Line]:
        first = True
        for label, group in (("new", one.findings_new), ("gone", one.findings_gone)):
            for at, finding in enumerate(group[: self.top]):
                yield from self.finding(("findings" if first else ""), label if not at else "", finding)
                first = False
            if len(group) > self.top:
                text = f"      and {len(group) - self.top:,} more {label}"
                yield (_Span(" " * _LABEL), _Span(text, "dim"))

    def finding(self, title: str, label: str, finding: Finding) -> Iterator[_Line]:
        style = "doubt" if finding.kind == "trust" else "cause"
        code = self.elided(words.finding_mark(finding), 9)
        lost = f"~{format_ns(finding.lost_ns)}" if finding.lost_ns else ""
        used = _LABEL + 6 + 10 + 9 + 2
        yield (
            _Span(pad(title, _LABEL), "bold"),
            _Span(pad(label, 6)),
            _Span(pad(code, 10), style),
            _Span(f"{lost:>9}  ", "estimate"),
            _Span(self.elided(finding.title, self.width - used), style),
        )
        if finding.where:
            text = self.elided(finding.where, self.width - used)
            yield (_Span(" " * used), _Span(text, "dim"))

    def gates(self, one: Comparison) -> Iterator[_Line]:
        for at, gate in enumerate(one.gates):
            answer = words.GATE_WORDS[gate.answer]
            room = self.width - _LABEL - 14
            yield (
                _Span(pad("" if at else "gates", _LABEL), "bold"),
                _Span(pad(answer, 14), _STYLE[gate.answer]),
                _Span(self.elided(gate.gate, room)),
            )
            for line in self.wrapped(gate.reason, room, 4):
                yield (_Span(" " * (_LABEL + 14)), _Span(line, "dim"))

    def legend(self) -> _Line:
        return (
            _Span(pad("marks", _LABEL), "dim"),
            _Span("none: measured  ", "dim"),
            _Span("~ estimate", "estimate"),
            _Span("  = remainder  ", "dim"),
            _Span("? likely cause", "cause"),
            _Span("  ! doubt", "doubt"),
        )
