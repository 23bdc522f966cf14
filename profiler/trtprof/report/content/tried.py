"""What `trtprof try` says: what was tried, what helps by how much, and what to do with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from trtprof.base.records import Interval, Rung, Tried
from trtprof.base.units import format_ns
from trtprof.report import ReportOptions, content_of
from trtprof.report._format import count
from trtprof.report.document import (
    Block,
    Column,
    Document,
    Kind,
    Notes,
    Pair,
    Pairs,
    Row,
    Section,
    Span,
    Table,
    Under,
    prose,
    sections,
)  # fmt: skip

_SHOWN = 12
_LEGEND = (
    "gain: time before over after, 2x is twice as fast; ~ predicted, <= if the layers that it changes took no time; "
    "off by: largest difference of an output, over what its type allows"
)
_KINDS: dict[str, Kind] = {"helps": "better", "slower": "worse", "wrong": "critical", "failed": "critical"}
_SURE = ("helps", "slower")


@content_of(Tried)
def document(found: Tried, options: ReportOptions) -> Document:
    """The verdict, its doubts, one row a rung, and the best."""
    notes, unfit = found.notes, None
    if found.unfit:
        notes += (f"{count(len(found.unfit), 'other candidate')} would change nothing in this model",)
        names, title = Notes((", ".join(found.unfit),)), "Candidates that would change nothing"
        unfit = Section(title=title, where="paper", fold=True, place=9, blocks=(names,))
    parts = sections([_head(found)], [_table(found, options)], list(_best(found)), [Notes(notes)], unfit)
    return Document(title=f"Tried: {found.model.name}", titled=False, sections=parts)


def _head(found: Tried) -> Pairs:
    pairs = [Pair("verdict", Span(found.verdict, "strong", "end"), None)]
    if found.doubts:
        pairs.append(Pair("doubts", Span("; ".join(found.doubts), "doubt", "end"), None, "doubt"))
    threads = count(found.threads, "thread") if found.threads else ""
    latency = f", {format_ns(found.latency.headline_ns)} an inference" if found.latency is not None else ""
    measured = f"{found.candidates} measured interleaved with the original, in {found.spent_s:.0f} s"
    pairs += [
        Pair("original", f"{found.model.name}{latency}", 1, ""),
        Pair("device", ", ".join(filter(None, (found.device.name, found.backend.name, threads))), 1, ""),
        Pair("tried", f"{count(len(found.rungs), 'candidate')}, {measured}", None, ""),
    ]
    return Pairs(tuple(pairs))


def _table(found: Tried, options: ReportOptions) -> Table:
    return Table(
        columns=(
            Column("candidate", key=True, cut="middle", least=27), Column("gain", right=True),
            Column("interval", drop=2), Column("predicted", right=True, drop=3, kind="estimate"),
            Column("off by", right=True, drop=1),
            Column("verdict"), Column("what it does, or why", cut="end", where="paper"),
        ),
        rows=[_row(rung) for rung in found.rungs],
        title=count(len(found.rungs), "candidate"),
        shown=options.top or _SHOWN,
        rest=lambda at: _rest(found.rungs[at:]),
        after=(_LEGEND,),
    )  # fmt: skip


def _row(rung: Rung) -> Row:
    kind: Kind = _KINDS.get(rung.verdict, "faint" if rung.verdict == "not measured" else "")
    return Row(
        (
            rung.name,
            _times(rung.gain.value if rung.gain else None),
            _interval(rung.gain),
            _predicted(rung),
            "-" if rung.difference is None else "0" if rung.difference == 0 else f"{rung.difference:.2g}",
            Span(rung.verdict, kind),
            rung.title if rung.verdict in _SURE else f"{rung.title}: {rung.reason}" if rung.reason else rung.title,
        ),
        tuple(_under(rung)),
    )


_SAID = ("wrong", "failed", "refused", "unclear")  # Verdicts that a screen gives the reason of, too


def _under(rung: Rung) -> Iterator[Under]:
    if rung.verdict in _SAID and rung.reason:
        yield Under(prose(rung.reason), "", 2, indent=4)
    if rung.nodes:
        words = f"{len(rung.nodes)} gone, {rung.added} new:"
        yield Under(Span("", "", "end", items=rung.nodes), words, None, indent=4, whole=True)
    for check in rung.checks:
        if not check.matches or check.reason:
            yield Under(check.reason, f"{check.inputs}:", None, indent=4, whole=True)


def _rest(rungs: Sequence[Rung]) -> Row | None:
    if not rungs:
        return None
    kinds = Counter(rung.verdict for rung in rungs)
    return Row(across=f"and {len(rungs)} more: " + ", ".join(f"{many} {verdict}" for verdict, many in kinds.items()))


def _best(found: Tried) -> Iterator[Block]:
    best = found.best
    if best is None:
        return
    gain = f"{_times(best.gain.value)} ({_interval(best.gain)})"
    pairs = [Pair("best", f"{' + '.join(best.rungs)}: {gain}, measured again", None)]
    if best.options:
        pairs.append(Pair("options", ", ".join(f"{key}={value}" for key, value in best.options.items()), None, ""))
    if best.model:
        pairs.append(Pair("model", Span(best.model, "", "never"), None, ""))
    pairs.append(Pair("run it", Span(best.command, "", "never"), None, ""))
    if best.folder:
        pairs.append(Pair("compare", Span(f"trtprof compare {found.folder} {best.folder}", "", "never"), None, ""))
    yield Pairs(tuple(pairs))


def _times(gain: float | None) -> str:
    return "-" if gain is None else f"{gain:.3g}x"


def _predicted(rung: Rung) -> str:
    if rung.predicted is not None:
        return f"~{_times(rung.predicted)}"
    return "-" if rung.at_most is None else f"<= {_times(rung.at_most)}"


def _interval(gain: Interval | None) -> str:
    return "" if gain is None else f"{gain.low:.2f} to {gain.high:.2f}"
