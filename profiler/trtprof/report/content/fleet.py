"""What `trtprof fleet report` says: doubts, what serves each model best, all answers, where the hours go."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from trtprof.base import records
from trtprof.base.units import format_names, format_ns, format_percent
from trtprof.report import ReportOptions, content_of
from trtprof.report._estimates import WIDER, about, at_least
from trtprof.report._format import count
from trtprof.report.document import (
    Bar,
    Block,
    Cell,
    Column,
    Document,
    Kind,
    Notes,
    Row,
    Section,
    Span,
    Table,
    Under,
    marks,
    name,
    prose,
    sections,
)

ROWS = 20  # Rows of a list on a screen unless asked for more or less
SHARED = 2  # Models of which the same is said are told together
NAMES = 12  # Models that are named in a sentence
ROWS_AT_ONCE = 24  # Of answers, of which a row more is no page more
PATTERNS = 10  # Of layers in several models
PAPER = 60  # The same of a document that folds the others
MARKS: dict[records.FleetBasis, str] = {"measured": "", "expected": "~", "bound": ">= ", "none": ""}
"""Before a number, by what it rests on."""
BELIEVED = 1.005  # A larger share of a bound is a doubt about one of both numbers
_KIND_MARKS = {"fact": "", "estimate": "~", "remainder": "="}


@content_of(records.Fleet)
def document(found: records.Fleet, options: ReportOptions) -> Document:
    """Doubts first, then what serves what, where the hours go, what a kernel would win; all answers behind."""
    shown = options.top if options.top is not None else ROWS
    return Document(
        title=prose(title(found)),
        sections=sections(
            [Notes(tuple(Span(f"! {doubt}", "doubt") for doubt in found.doubts))] if found.doubts else [],
            _best(found, shown), _targets(found), _ledger(found), _wins(found, shown),
            _answers(found, shown if options.top is not None else ROWS_AT_ONCE),
            _patterns(found, min(shown, PATTERNS) if options.top is None else shown), _failures(found, shown),
            [Notes((*found.notes, *others(found)))], [marks()],
        ),
    )  # fmt: skip


def title(found: records.Fleet) -> str:
    """What the fleet is, and how much of it is answered."""
    state = [f"{found.done:,} done"]
    state += [f"{found.failed:,} failed"] if found.failed else []
    left = found.cells - found.done - found.failed
    state += [f"{left:,} left"] if left else []
    of = f"   only {', '.join(found.chosen)}" if found.chosen else ""
    models, targets = count(found.models, "model"), count(len(found.targets), "target")
    return f"{found.name}   {models}   {targets}   {count(found.cells, 'cell')}: {', '.join(state)}{of}"


def others(found: records.Fleet) -> Iterator[str]:
    """What the document leaves out, list by list."""
    for number, what in (
        (found.best_left_out, "model"), (found.wins_left_out, "kind of layer that a custom kernel might pay for"),
        (found.patterns_left_out, "kind of layer in several models"), (found.failures_left_out, "kind of failure"),
    ):  # fmt: skip
        if number:
            yield f"left out here: {number:,} more {what if number == 1 else plural(what)}"


def plural(noun: str) -> str:
    """``kinds of layer`` of ``kind of layer``."""
    first, *rest = noun.split(" ", 1)
    return " ".join((f"{first}s", *rest))


# --- words of numbers -------------------------------------------------------------------------


def money(value: float, currency: str) -> str:
    """An amount with three digits: ``0.0836 EUR``."""
    digits = f"{value:,.0f}" if value >= 1000 else f"{value:.3g}" if value >= 1e-4 or not value else f"{value:.1e}"
    return f"{digits} {currency}".strip()


def cost(value: float | None, basis: records.FleetBasis, currency: str) -> str:
    """A cost with the mark of what it rests on; empty where there is none."""
    return "" if value is None else f"{MARKS[basis]}{money(value, currency)}"


def time(one: records.FleetAnswer) -> str:
    """What there is of a cell: measured, else expected, else its bound; a failed one says so."""
    if one.status == "failed":
        return "failed"
    if one.latency_ns is not None:
        return format_ns(one.latency_ns) + ("!" if one.doubts else "")
    if one.expected_ns is not None:
        return f"{about(one)}{WIDER if one.expected_basis in records.WIDER_BASES else ''}"
    if one.bound_ns is not None:
        return at_least(one.bound_ns)
    return "built" if one.verb == "build" else "no price"


def basis(one: records.FleetAnswer) -> records.FleetBasis:
    """What `time` rests on."""
    if one.latency_ns is not None:
        return "measured"
    return "expected" if one.expected_ns is not None else "bound" if one.bound_ns is not None else "none"


def hours(value: float) -> str:
    """Hours of a day, in a unit that suits."""
    if abs(value) >= 1 or not value:
        return f"{value:,.0f} h" if abs(value) >= 100 else f"{value:.3g} h"
    return f"{60 * value:.3g} min" if abs(value) >= 1 / 60 else f"{3600 * value:.3g} s"


def busy(value: float, basis: records.FleetBasis) -> str:
    """How many targets are kept busy."""
    return f"{MARKS[basis]}{value:,.0f}" if value >= 100 else f"{MARKS[basis]}{value:.3g}"


def limit(one: records.FleetBest) -> str:
    """The limit of a model."""
    return format_ns(one.limit_ns) if one.limit_ns else ""


def called(one: records.FleetBest) -> str:
    """A model, with its precision where it is not the file's own."""
    return one.model if one.precision == "model" else f"{one.model} ({one.precision})"


def best_time(one: records.FleetBest) -> str:
    """The latency of its slowest size on the best target."""
    return "" if one.latency_ns is None else f"{MARKS[one.basis]}{format_ns(one.latency_ns)}"


def best_words(one: records.FleetBest, *, why: bool = True) -> str:
    """What is to be said beside the best target; ``why`` others are none, too."""
    alike = f"may be as good: {format_names(one.alike)}" if one.alike else ""
    return "; ".join(filter(None, (alike, one.why if why else "")))


def shared(best: Sequence[records.FleetBest]) -> dict[str, list[str]]:
    """Why others are none, where the same is said of several models; and of which."""
    return {why: names for why, names in _alike((one.why, called(one)) for one in best).items() if len(names) >= SHARED}


def win_hours(one: records.FleetWin) -> tuple[str, str]:
    """What a custom kernel would win, and the interval: hours a day, or without requests the time."""
    if one.hours_per_day is not None and one.hours_low is not None and one.hours_high is not None:
        return f"~{hours(one.hours_per_day)}", f"{hours(one.hours_low)} .. {hours(one.hours_high)}"
    return f"~{format_ns(one.win_ns)}", f"{format_ns(one.win_low_ns)} .. {format_ns(one.win_high_ns)}"


def win_share(one: records.FleetWin, *, by_day: bool) -> str:
    """Of the measured hours, or of what was measured; empty of layers of models without requests beside others."""
    return "" if by_day and one.hours_per_day is None else format_percent(one.share)


def has_prices(found: records.Fleet) -> bool:
    """Whether any target has a price."""
    return any(one.price_per_hour is not None for one in found.targets)


def per_day(found: records.Fleet) -> bool:
    """Whether wins are told by the day."""
    return any(one.hours_per_day is not None for one in found.wins)


def ledger_bars(rows: Sequence[records.FleetLedgerRow]) -> list[tuple[records.FleetLedgerRow, float, float]]:
    """Each row with where its bar starts and ends, from 0 to 1 of the sum; what is negative goes back."""
    total = sum(row.hours_per_day for row in rows) or 1.0
    ends = list(itertools.accumulate((row.hours_per_day for row in rows), initial=0.0))
    widest = max(*ends, total, 1e-300)
    return [
        (row, start / widest, end / widest) for row, (start, end) in zip(rows, itertools.pairwise(ends), strict=True)
    ]


# --- blocks -----------------------------------------------------------------------------------


def _best(found: records.Fleet, shown: int) -> Section | None:
    if not found.best:
        return None
    priced = has_prices(found)
    asked = any(one.requests_per_s is not None for one in found.best)
    limited = any(one.limit_ns for one in found.best)
    columns = [Column("model", cut="middle", least=12, key=True)]
    columns += [Column("within", right=True, drop=2)] if limited else []
    columns += [Column("best", cut="end", least=8), Column("slowest", right=True)]
    columns += [Column("a million", right=True)] if priced else []
    columns += [Column("busy", right=True, drop=1)] if asked else []
    served = [one for one in found.best if one.target]
    alike = shared(served[: max(shown, PAPER)])
    rows = []
    for one in served[: max(shown, PAPER)]:
        kind: Kind = "estimate" if one.basis == "expected" else ""
        cells: list[Cell] = [name(called(one))]
        cells += [limit(one) or "-"] if limited else []
        cells += [name(one.target, "end"), Span(best_time(one) or "-", kind)]
        cells += [Span(cost(one.cost_per_million, one.basis, found.currency) or "-", kind)] if priced else []
        cells += [_busy_cell(one)] if asked else []
        words = best_words(one, why=one.why not in alike)
        rows.append(Row(tuple(cells), (Under(prose(words), indent=2, lines=2),) if words else ()))
    what, total = "cheapest" if priced else "fastest", len(found.best) + found.best_left_out
    told = [f"{format_names(names, NAMES)}: {why}" for why, names in alike.items()]
    nobody = _alike((one.why, called(one)) for one in found.best if not one.target)
    table = Table(
        columns=tuple(columns), rows=rows, shown=shown, paper=PAPER, hidden="not shown: {}", after=tuple(told),
        title=f"the {what} target of each model ({min(shown, len(rows))} of {total:,})",
        rest=lambda at: Row(across=f"{len(served) - at:,} more models: --top, --model"),
    )  # fmt: skip
    lines = [f"none for {format_names(names, NAMES)}: {why}" for why, names in nobody.items()]
    lines[shown:] = [f"none for models of {len(lines) - shown:,} more reasons"] if len(lines) > shown else []
    none = Notes(tuple(lines))
    return Section(blocks=(*((table,) if rows else ()), *((none,) if nobody else ())))


def _alike(words: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Names by what is said of them; nothing of those of which nothing is."""
    found: dict[str, list[str]] = {}
    for said, of in words:
        if said:
            found.setdefault(said, []).append(of)
    return found


def _busy_cell(one: records.FleetBest) -> Span:
    if one.busy is None:
        return Span("-")
    where = "" if one.served_by == one.target else f" of {one.served_by}"
    return Span(f"{busy(one.busy, one.served_basis)}{where}", "estimate" if one.served_basis == "expected" else "")


def grid(
    answers: Sequence[records.FleetAnswer],
) -> Iterator[tuple[records.FleetAnswer, dict[str, records.FleetAnswer]]]:
    """The answers of each model at each size and precision, by target; with the first of them."""
    for _, alike in itertools.groupby(answers, key=lambda one: (one.model, one.size, one.precision)):
        row = list(alike)
        yield row[0], {one.target: one for one in row}


def _answers(found: records.Fleet, shown: int) -> Section | None:
    rows = list(grid(found.answers))
    if not rows:
        return None
    precisions = len({first.precision for first, _ in rows}) > 1
    targets = [target.target for target in found.targets]
    widest = max(len(first.size) for first, _ in rows)
    columns = (
        Column("model", cut="middle", least=10, key=True),
        Column("size", cut="middle", least=min(24, widest), key=True),
        *((Column("as", key=True),) if precisions else ()),
        *(Column(target, right=True) for target in targets),
    )
    kinds: dict[records.FleetBasis, Kind] = {"measured": "", "expected": "estimate", "bound": "estimate", "none": ""}
    made = [
        Row((
            name(first.model), prose(first.size), *((first.precision,) if precisions else ()),
            *(_answer(by_target.get(target), kinds) for target in targets),
        ))
        for first, by_target in rows[: max(shown, PAPER)]
    ]  # fmt: skip
    after = ["~ expected of good kernels, >= bound: no kernel is faster; neither was measured"]
    if any(one.expected_basis in records.WIDER_BASES for one in found.answers if one.latency_ns is None):
        after.append(f"{WIDER} with the wider band of what was not measured itself")
    if any(one.of_expected is not None for one in found.answers):
        after.append("%: of the time that was measured good kernels are expected to take so much")
    if any(one.doubts for one in found.answers if one.latency_ns is not None):
        after.append("! there is a doubt about it")
    table = Table(
        columns=columns, rows=made, shown=shown, paper=PAPER, stack=True, after=tuple(after),
        title=f"an inference ({min(shown, len(rows)):,} of {len(rows):,} rows)",
        rest=lambda at: Row(across=f"{len(rows) - at:,} more rows are in -o fleet.html and -o fleet.csv"),
    )  # fmt: skip
    return Section(blocks=(table,))


def _answer(one: records.FleetAnswer | None, kinds: dict[records.FleetBasis, Kind]) -> Span:
    if one is None:
        return Span("-", "faint")
    if one.status == "failed":
        return Span("failed", "worse")
    share = "" if one.of_expected is None else f" {100 * one.of_expected:.0f}%"
    return Span(f"{time(one)}{share}", kinds[basis(one)])


def _targets(found: records.Fleet) -> list[Block]:
    asked = found.requests_per_s is not None
    columns = [
        Column("target", cut="middle", least=8, key=True),
        Column("does", drop=2),
        Column("an hour", right=True, drop=1),
        Column("done", right=True),
        Column("failed", right=True),
        Column("left", right=True),
    ]
    columns += [Column("serves", right=True), Column("busy", right=True), Column("needed", right=True)] if asked else []
    rows = []
    for one in found.targets:
        price = "-" if one.price_per_hour is None else money(one.price_per_hour, found.currency)
        left = one.cells - one.done - one.failed
        cells: list[Cell] = [name(one.target), one.verb, price, f"{one.done:,}", f"{one.failed:,}", f"{left:,}"]
        cells += [*_needed(one)] if asked else []
        rows.append(Row(tuple(cells)))
    return [Table(columns=tuple(columns), rows=rows, title="targets", stack=True)]


def _needed(one: records.FleetTarget) -> Iterator[str | Span]:
    if one.busy is None or one.needed is None:
        yield from ("-", "-", "-")
        return
    kind: Kind = "estimate" if one.basis == "expected" else ""
    yield f"{one.models:,}"
    yield Span(busy(one.busy, one.basis), kind)
    yield Span(f">= {MARKS[one.basis]}{one.needed:,}", kind)


def _ledger(found: records.Fleet) -> list[Block]:
    if not found.ledger or found.hours_per_day is None:
        return _not_counted(found)
    rows = [
        Row((
            prose(row.cause),
            Span(f"{_KIND_MARKS[row.kind]}{hours(row.hours_per_day)}", row.kind),
            format_percent(row.hours_per_day / found.hours_per_day) if found.hours_per_day else "-",
            ledger_word(row),
            Bar(min(start, end), max(start, end), 0.0, row.kind),
        ))
        for row, start, end in ledger_bars(found.ledger)
    ]  # fmt: skip
    rows.append(Row(("all", hours_of(found), "", "", Bar(0, 0, 0.0))))
    columns = (
        Column("cause", cut="end", least=16),
        Column("a day", right=True),
        Column("share", right=True, drop=2),
        Column("of", drop=1),
        Column("", least=12, where="screen", drop=3),
    )
    head = f"hours of targets a day, at {requests(found)}"
    return [Table(columns=columns, rows=rows, title=head), *_not_counted(found)]


def _not_counted(found: records.Fleet) -> list[Block]:
    told = (words.rpartition(": ") for words in found.not_counted)
    alike = _alike((why, of) for of, _, why in told)
    lines = tuple(f"in no hours: {format_names(names, NAMES)}: {why}" for why, names in alike.items())
    return [Notes(lines)] if lines else []


def hours_of(found: records.Fleet) -> str:
    """All hours of a day, marked where any are expected."""
    mark = "~" if found.hours_per_day and found.measured_hours < found.hours_per_day * (1 - 1e-9) else ""
    return f"{mark}{hours(found.hours_per_day or 0.0)}"


def requests(found: records.Fleet) -> str:
    """The requests that are counted."""
    return f"{rate(found.requests_per_s or 0.0)} requests/s"


def rate(value: float) -> str:
    """Requests in a second."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def ledger_word(row: records.FleetLedgerRow) -> str:
    """What a row of the ledger is of: runs or predictions, needed or lost."""
    of = "run" if row.basis == "measured" else "prediction"
    return f"{of}, needed" if row.needed else of if row.kind == "remainder" else f"{of}, lost"


def _wins(found: records.Fleet, shown: int) -> list[Block]:
    if not found.wins:
        if not found.above:
            return [Notes((f"custom kernels: {found.no_wins}",))] if found.no_wins else []
        return [Notes((f"custom kernels: {found.no_wins}",)), _above(found, shown)]
    by_day = per_day(found)
    rows = []
    for one in found.wins:
        win, interval = win_hours(one)
        where = f"{count(one.models, 'model')}, {format_names(one.targets)}"
        cells = (Span(win, "estimate"), Span(interval, "estimate"), win_share(one, by_day=by_day) or "-", one.verdict,
                 prose(f"{one.pattern}  {one.dtype}"))  # fmt: skip
        under = [Under(prose(f"in {count(one.cells, 'cell')} of {where}"), indent=2)]
        under += [Under(Span(one.command, "faint", "never"), indent=2)] if one.command else []
        rows.append(Row(cells, tuple(under)))
    what = "hours a day" if by_day else "one inference of each cell; no requests are told of them"
    total = len(found.wins) + found.wins_left_out
    return [
        Table(
            columns=(
                Column("win", right=True),
                Column("interval", right=True, drop=1),
                Column("share", right=True, drop=2),
                Column("verdict"),
                Column("layers", cut="wrap", least=16),
            ),
            rows=rows,
            title=f"custom kernels that win most ({len(found.wins)} of {total:,}), {what}",
        )
    ]


def _above(found: records.Fleet, shown: int) -> Table:
    rows = [
        Row((Span(above(one), "estimate"), f"{one.models:,}", f"{one.cells:,}", prose(f"{one.pattern}  {one.dtype}")))
        for one in found.above[:shown]
    ]  # fmt: skip
    return Table(
        columns=(
            Column("above", right=True),
            Column("models", right=True),
            Column("cells", right=True, drop=1),
            Column("layers", cut="wrap", least=16),
        ),
        rows=rows,
        title="where what is expected stands furthest above its bound: an estimate, no verdict",
    )


def above(one: records.FleetPattern) -> str:
    """By how much what is expected is above the bound: hours a day, or without requests the time."""
    return f"~{format_ns(one.above_ns)}" if one.above_hours is None else f"~{hours(one.above_hours)}"


def _patterns(found: records.Fleet, shown: int) -> list[Block]:
    if not found.patterns:
        return []
    targets = [
        one.target for one in found.targets if one.target in {e.target for p in found.patterns for e in p.targets}
    ]
    rows = [
        Row((
            prose(f"{one.pattern}  {one.dtype}"), f"{one.models:,}",
            *(_efficiency(one, target) for target in targets),
        ))
        for one in found.patterns[: max(shown, PAPER)]
    ]  # fmt: skip
    return [
        Table(
            columns=(
                Column("layers", cut="end", least=16, key=True),
                Column("models", right=True),
                *(Column(target, right=True) for target in targets),
            ),
            rows=rows,
            shown=shown,
            paper=PAPER,
            stack=True,
            title="bound over time, of layers in several models",
            rest=lambda at: Row(across=f"{len(found.patterns) + found.patterns_left_out - at:,} more kinds of layer"),
            after=(
                "~ over the time that is expected, else over that measured",
                *(("! faster than the bound: a number to check",) if doubted(found) else ()),
            ),
        )
    ]


def doubted(found: records.Fleet) -> bool:
    """Whether layers are told to be faster than their bound."""
    return any(each.of_bound > BELIEVED for one in found.patterns for each in one.targets)


def _efficiency(one: records.FleetPattern, target: str) -> Span:
    text = efficiency(one, target)
    return Span(text or "-", "doubt" if "!" in text else "estimate" if "~" in text else "")


def efficiency(one: records.FleetPattern, target: str) -> str:
    """Of a target: measured where anything was, else expected; empty where there is neither."""
    of = {each.basis: each for each in one.targets if each.target == target}
    found = of.get("measured") or of.get("expected")
    if found is None:
        return ""
    return f"{MARKS[found.basis]}{100 * found.of_bound:.0f} %{'!' if found.of_bound > BELIEVED else ''}"


def _failures(found: records.Fleet, shown: int) -> Section | None:
    if not found.failures:
        return None
    rows = [_failure(one) for one in found.failures[:shown]]
    return Section(
        title="failed cells",
        fold=True,
        blocks=(
            Table(
                columns=(Column("cells", right=True), Column("stage"), Column("error", cut="wrap", least=20)),
                rows=rows,
                title=f"failed cells, by error ({len(rows)} of {len(found.failures) + found.failures_left_out:,})",
            ),
            Notes(("trtprof fleet run MANIFEST --retry failed does them again",)),
        ),
    )


def _failure(one: records.FleetFailure) -> Row:
    first = one.examples[0]
    under = [Under(prose(words), label, indent=2) for label, words in (("why", one.why), ("fix", one.fix)) if words]
    such = f"{first.model} on {first.target}, {first.size}"
    under.append(Under(prose(f"{such}; of {count(one.models, 'model')} on {format_names(one.targets)}"), indent=2))
    return Row((f"{one.cells:,}", one.stage or "-", Span(one.error, "worse", "wrap")), tuple(under))
