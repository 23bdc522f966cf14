"""What `trtprof fleet compare` says: what got slower or faster beyond noise, which estimates moved, what fails now."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from trtprof.base.records import FleetCellChange, FleetComparison, FleetGroupChange, FleetOutcome
from trtprof.report import ReportOptions, content_of
from trtprof.report._format import count
from trtprof.report.content import _comparison
from trtprof.report.content import _fleet_comparison as words
from trtprof.report.content.comparison import gates
from trtprof.report.document import (
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
)

ROWS = 5  # Rows of a list that a screen shows when the reader did not choose how many
TARGETS = 12  # The same of targets
PAPER = 20  # The same of a document that can fold the others
MOST = 300  # Rows of a list at most: nobody reads more, and other formats have all

_KINDS: dict[str, Kind] = {
    **dict.fromkeys(words.WORSE, "worse"),
    **dict.fromkeys(words.BETTER, "better"),
    "estimate rose": "estimate",
    "estimate fell": "estimate",
}
_LISTS: tuple[tuple[str, tuple[FleetOutcome, ...]], ...] = (
    ("slower", ("slower",)),
    ("faster", ("faster",)),
    ("estimates", ("estimate rose", "estimate fell")),
)


@content_of(FleetComparison)
def document(found: FleetComparison, options: ReportOptions) -> Document:
    """The verdict, its doubts, both sides, gates; then what changed, largest first, and why."""
    top = ROWS if options.top is None else options.top
    doubts = Notes(tuple((Span("! ", "doubt"), Span(doubt, "doubt")) for doubt in found.doubts))
    return Document(
        title=found.verdict,
        titled=False,
        labels=10,
        sections=tuple(
            section
            for section in (
                Section(blocks=(Notes((Span(found.verdict, "strong"),), 8, hang=0),), where="screen"),
                Section(blocks=(doubts,) if found.doubts else (), place=1),
                Section(blocks=(Pairs(tuple(_head(found))),), place=1),
                Section(blocks=tuple(gates(found.gates)), place=2),
                Section(blocks=tuple(_by(found, "target", "targets", top)), place=3),
                *(Section(blocks=tuple(_cells(found, *each, top))) for each in _LISTS),
                Section(blocks=tuple(_gone(found, top))),
                Section(blocks=tuple(_kernels(found, top))),
                Section(blocks=tuple(_causes(found, top))),
                Section(blocks=tuple(_by(found, "tag", "tags", top)), fold=True, title="By tag"),
                Section(blocks=tuple(_by(found, "model", "models", top)), fold=True, title="By model"),
                Section(blocks=(Pairs(tuple(_method(found, top))),), fold=True, title="Method and notes"),
                Section(blocks=(marks(),) if found.cells else ()),
            )
            if section.blocks
        ),
    )


# --- the whole ------------------------------------------------------------------------------


def _head(found: FleetComparison) -> Iterator[Pair]:
    for label, side in (("before", found.before), ("after", found.after)):
        yield Pair(label, (name(side.folder), f": {side.name}, {words.side(side)}"), 3, "")
    for label, kind, answers in (
        ("measured", "fact", ("slower", "faster", "not significant")),
        ("estimates", "estimate", ("estimate rose", "estimate fell", "estimate equal")),
    ):
        mean, told = words.mean(found, kind), words.counted(found, answers)  # type: ignore[arg-type]
        if not told:
            continue
        said = [
            Span(f"{number:,} {answer.removeprefix('estimate ')}", _KINDS.get(answer, "")) for answer, number in told
        ]
        line = [part for at, span in enumerate(said) for part in (([", "] if at else []) + [span])]
        if mean is not None:
            ends = words.interval(mean.ratio, mean.low, mean.high)
            line.append(f"; mean {words.percent(mean.ratio, mean.low, mean.high)}" + (f" ({ends})" if ends else ""))
        yield Pair(label, line, 3, "")
    other = words.counted(found, words.GONE)
    if other:
        said = [Span(f"{number:,} {answer}", _KINDS.get(answer, "")) for answer, number in other]
        yield Pair(
            "others", [part for at, span in enumerate(said) for part in (([", "] if at else []) + [span])], 3, ""
        )


def _by(found: FleetComparison, by: str, title: str, top: int) -> Iterator[Block]:
    groups = words.groups(found, by)
    if not groups:
        return
    shown = max(top, TARGETS) if by == "target" else top
    moved = f"{_of(len(groups), shown)}; geometric means" + (", largest change first" if by == "model" else "")
    if by == "target":
        moved += "; up: slower beyond noise, or an estimate that rose"
    yield Heading(title, moved, label=True)
    yield Table(
        columns=(
            Column(by, cut="middle", least=12, most=40),
            Column("cells", right=True),
            Column("up", right=True, least=4, drop=2),
            Column("down", right=True, least=4, drop=2),
            Column("mean", right=True),
            Column("95 %", drop=1),
        ),
        rows=[_group(each) for each in groups[:MOST]],
        shown=shown,
        paper=max(shown, PAPER),
        rest=_rest(len(groups)),
    )


def _group(one: FleetGroupChange) -> Row:
    estimate = one.kind == "estimate"
    kind: Kind = "estimate" if estimate else ""
    more, less = words.moved(one)
    sure = one.low is not None and one.high is not None and not one.low <= 1 <= one.high
    answer: Kind = kind or (("worse" if one.ratio > 1 else "better") if sure else "")
    return Row((
        ("  ", name(one.name)), f"{one.cells:,}", Span(more, kind or ("worse" if one.more else "")),
        Span(less, kind or ("better" if one.less else "")),
        Span(words.percent(one.ratio, one.low, one.high), answer),
        Span(words.interval(one.ratio, one.low, one.high) or "estimate", "faint"),
    ))  # fmt: skip


def _of(number: int, shown: int) -> str:
    return f"{min(shown, number):,} of {number:,}" if shown < number else f"{number:,}"


def _rest(number: int) -> Callable[[int], Row | None]:
    def rest(shown: int) -> Row | None:
        left = number - shown
        return Row(across=Span(f"  and {left:,} more", "faint")) if left > 0 else None

    return rest


# --- cells ----------------------------------------------------------------------------------


def _cells(found: FleetComparison, title: str, answers: Sequence[FleetOutcome], top: int) -> Iterator[Block]:
    cells = words.of_answer(found.cells, *answers)
    if not cells:
        return
    estimates = title == "estimates"
    number = _of(len(cells), top)
    note = f"{number}; computed, not measured" if estimates else f"{number} beyond noise"
    yield Heading(title, f"{note}; largest change first", label=True)
    columns = [
        Column("change", right=True, least=10),
        Column("95 %", drop=1),
        Column("before, after", right=True, drop=2),
        Column("model", cut="middle", least=12),
        Column("on", cut="middle", least=6),
        Column("size", cut="middle", least=14, most=28),
    ]
    rows = [_cell(cell) for cell in cells[:MOST]]
    if estimates:  # which have no interval
        del columns[1]
        rows = [row._replace(cells=row.cells[:1] + row.cells[2:]) for row in rows]
    yield Table(columns=tuple(columns), rows=rows, shown=top, paper=PAPER, rest=_rest(len(cells)))


def _cell(cell: FleetCellChange) -> Row:
    before, after = words.times(cell)
    kind: Kind = _KINDS.get(cell.answer, "")
    why = words.why(cell)
    under = (Under(Span(why, "cause" if cell.told_by == "latency" else "faint"), lines=2, indent=12),) if why else ()
    return Row(
        (
            Span(words.percent(cell.ratio, cell.low, cell.high), kind),
            Span(words.interval(cell.ratio, cell.low, cell.high), "faint"),
            f"{before} {_comparison.ARROW} {after}",
            name(cell.model),
            name(cell.target),
            Span(words.size(cell), "faint"),
        ),
        under,
    )


def _gone(found: FleetComparison, top: int) -> Iterator[Block]:
    """What fails now, vanished and so on: a few of each."""
    rows: list[Row] = []
    for answer in words.GONE:
        cells = words.of_answer(found.cells, answer)
        for cell in cells[: max(top, PAPER)]:
            said = f"was {cell.was}; {cell.reason}" if cell.was and cell.reason else cell.reason
            under = (Under(Span(said, "faint", "end"), lines=2, indent=18),) if said else ()
            kind = _KINDS.get(answer, "")
            rows.append(
                Row(
                    (("  ", Span(answer, kind)), name(cell.model), name(cell.target), Span(words.size(cell), "faint")),
                    under,
                )
            )
        if len(cells) > max(top, PAPER):
            rows.append(Row(across=Span(f"  and {len(cells) - max(top, PAPER):,} more {answer}", "faint")))
    if not rows:
        return
    number = sum(found.counts.get(answer, 0) for answer in words.GONE)
    yield Heading("others", f"{count(number, 'cell')} without a number on both sides", label=True)
    yield Table(
        columns=(
            Column("what", least=16),
            Column("model", cut="middle", least=12),
            Column("on"),
            Column("size", cut="middle", drop=1),
        ),
        rows=rows,
        shown=2 * top,
        rest=lambda shown: Row(across=Span(f"  and {len(rows) - shown:,} lines more", "faint")),
    )


# --- why ------------------------------------------------------------------------------------


def _kernels(found: FleetComparison, top: int) -> Iterator[Block]:
    if not found.kernels:
        return
    yield Heading("kernels", f"{_of(len(found.kernels), top)} that moved in many models", label=True)
    rows = []
    for one in found.kernels[:MOST]:
        kind: Kind = "estimate" if one.kind == "estimate" else "worse" if one.ratio > 1 else "better"
        mark = "~" if one.kind == "estimate" else ""
        ns = f"{mark}{_comparison.signed_ns(one.after_ns - one.before_ns)}"
        ends = f"{words.percent(one.mean, one.low, one.high)} over all of its models"
        ends += f" ({words.interval(one.mean, one.low, one.high)})" if one.low is not None else ""
        under = Under((Span(f"{ends}; most in ", "faint"), name(one.example, kind="faint")), indent=14)
        rows.append(
            Row(
                (Span(words.kernel(one), kind), ns, Span(one.pattern, cut="middle"), one.dtype, name(one.target)),
                (under,),
            )
        )
    yield Table(
        columns=(
            Column("times"),
            Column("of all cells", right=True, drop=1),
            Column("kernels", cut="middle", least=10),
            Column("dtype", drop=2),
            Column("on"),
        ),
        rows=rows,
        shown=top,
        paper=PAPER,
        rest=_rest(len(found.kernels)),
    )


def _causes(found: FleetComparison, top: int) -> Iterator[Block]:
    if not found.causes:
        return
    note = f"{_of(len(found.causes), top)}; the cause of estimates, a likely one of what was measured"
    yield Heading("changed", note, label=True)
    rows = []
    for one in found.causes[:MOST]:
        ends = (name(one.model), " " if one.model else "", name(words.cause(one)))
        rows.append(Row((("  ", Span(one.what, "strong")), ends, words.cause_counts(one))))
    yield Table(
        columns=(Column("what"), Column("from, to", cut="middle", least=12), Column("cells", cut="wrap")),
        rows=rows,
        shown=top,
        paper=PAPER,
        rest=_rest(len(found.causes)),
    )
    for at, model in enumerate(found.renames[:top]):
        same = f", the same content, {count(model.cells, 'cell')}"
        said = (name(model.before), f" {_comparison.ARROW} ", name(model.after), same)
        yield Pairs((Pair("" if at else "renamed", said, 2, ""),))
    if len(found.renames) > top:
        yield Notes((Span(f"and {len(found.renames) - top:,} more names", "faint"),))


def _method(found: FleetComparison, top: int) -> Iterator[Pair]:
    yield Pair("method", Span(found.method, "faint"), 8, "faint")
    for at, note in enumerate(found.notes[: max(top, 3)]):
        yield Pair("" if at else "notes", Span(note, "faint"), 4, "faint")
