"""What `trtprof fleet plan` and `trtprof fleet status` say: cells by target, what failed, what comes next."""

from __future__ import annotations

from collections.abc import Iterator

from trtprof.base.records import FleetPlan, FleetRow, FleetTargetCount
from trtprof.base.units import format_seconds
from trtprof.report import ReportOptions, content_of
from trtprof.report._format import count
from trtprof.report.document import (
    Block,
    Cell,
    Column,
    Document,
    Heading,
    Notes,
    Pair,
    Pairs,
    Row,
    Span,
    Table,
    Under,
    name,
    prose,
    sections,
)

_DOES = {"predict": "predicted", "build": "built", "run": "run"}


@content_of(FleetPlan)
def document(found: FleetPlan, options: ReportOptions) -> Document:
    """What there is to say before anything is asked and while it is answered."""
    return Document(
        title=f"Fleet: {found.name}",
        titled=False,
        sections=sections(
            [_head(found)], [_targets(found, options)] if found.targets else None, _failures(found), _sample(found),
            [Notes(found.notes)] if found.notes else None,
        ),
    )  # fmt: skip


def _head(found: FleetPlan) -> Pairs:
    done, failed = sum(each.done for each in found.targets), sum(each.failed for each in found.targets)
    claimed = sum(each.claimed for each in found.targets)
    left = found.cells - done - failed
    asked = f"{count(found.cells, 'cell')}: {count(found.models, 'model')} on {count(len(found.targets), 'target')}"
    state: list[Span | str] = [f"{done:,} done, "]
    state += [Span(f"{failed:,} failed", "critical" if failed else ""), f", {left:,} left"]
    state += [f", {claimed:,} of them under way"] if claimed else []
    pairs = [Pair("fleet", f"{found.name}, {asked}"), Pair("state", state)]
    if found.folder:
        pairs.append(Pair("folder", name(found.folder, "never"), None, ""))
    if left:
        pairs.append(Pair("time left", _left(found), None, ""))
    return Pairs(tuple(pairs))


def _left(found: FleetPlan) -> Span:
    """About how long the rest takes, and where that is from."""
    basis = f" ({found.basis})" if found.basis else ""
    if found.left_s is None:
        unknown = [each.target for each in found.targets if each.left and each.left_s is None]
        known = f"; of the others see below{basis}" if len(unknown) < len(found.targets) else ""
        return Span(f"not known: no cell of {', '.join(unknown)} is done{known}", "doubt")
    return Span(f"~{format_seconds(found.left_s)}{basis}", "estimate")


def _targets(found: FleetPlan, options: ReportOptions) -> Table:
    rows = [Row(_target(each)) for each in found.targets]
    claimed = any(each.claimed for each in found.targets)
    columns = (
        Column("target", cut="middle", least=12, key=True),
        Column("is"),
        Column("cells", right=True),
        Column("done", right=True),
        Column("failed", right=True),
        Column("left", right=True),
        Column("under way", right=True, drop=0 if claimed else 1),
        Column("time left", right=True, kind="estimate"),
    )
    return Table(columns=columns, rows=rows, shown=options.top)


def _target(each: FleetTargetCount) -> tuple[Cell, ...]:
    left = "-" if not each.left else "not known" if each.left_s is None else f"~{format_seconds(each.left_s)}"
    numbers = f"{each.cells:,}", f"{each.done:,}"
    failed = Span(f"{each.failed:,}", "critical" if each.failed else "")
    return name(each.target), _DOES[each.verb], *numbers, failed, f"{each.left:,}", f"{each.claimed:,}", left


def _failures(found: FleetPlan) -> Iterator[Block]:
    if not found.failures:
        return
    failed = sum(each.failed for each in found.targets)
    yield Heading("What failed", f"{len(found.failures):,} of {count(failed, 'cell')}")
    columns = Column("model", cut="middle", least=12), Column("target"), Column("stage"), Column("error", cut="wrap")
    rows = [
        Row((name(row.model), name(row.target), row.stage or "-", prose(row.error, "critical")), tuple(_more(row)))
        for row in found.failures
    ]
    yield Table(columns=columns, rows=rows)


def _more(row: FleetRow) -> Iterator[Under]:
    size = " at ".join(filter(None, (row.size, row.precision if row.precision != "model" else "")))
    yield Under(prose(size), "size", indent=2)
    if row.why:
        yield Under(prose(row.why), "why", None, indent=2)
    if row.fix:
        yield Under(prose(row.fix), "fix", None, indent=2)


def _sample(found: FleetPlan) -> Iterator[Block]:
    if not found.sample:
        return
    left = sum(each.left for each in found.targets)
    yield Heading("What comes next", f"{len(found.sample):,} of {count(left, 'cell')} that are left")
    columns = (
        Column("model", cut="middle", least=12),
        Column("target"),
        Column("precision"),
        Column("size", cut="wrap"),
    )
    rows = [Row((name(each.model), name(each.target), each.precision, prose(each.size))) for each in found.sample]
    yield Table(columns=columns, rows=rows)
