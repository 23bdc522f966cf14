"""What `trtprof inspect --sweep` says: the work of a model over a sweep, and its closed forms."""

from __future__ import annotations

from collections.abc import Iterator

from trtprof.base.records import OpForms, Polynomial, Sweep, SweepPoint, WorkForms
from trtprof.base.units import format_bytes, format_percent
from trtprof.report import ReportOptions, content_of
from trtprof.report._format import BOUND_MARKS, BOUND_WORDS, bytes_or_0, count, input_text, without_unit
from trtprof.report.content.inspection import unpriced
from trtprof.report.document import Column, Document, Notes, Row, Table, prose, sections

NO_FORM = "no closed form"

_NAME = 20  # Columns of the name of an op


@content_of(Sweep)
def document(found: Sweep, options: ReportOptions) -> Document:  # noqa: ARG001 - there is nothing to choose
    """The model, one row a point, and the closed forms of what it costs."""
    model, last = found.model, found.points[-1]
    swept = {symbol for dim in found.dims for symbol in dim.symbols}
    weights = f"{model.parameters:,} parameters ({format_bytes(model.parameter_bytes)})"
    rest = list(unpriced(last.unsupported))
    rest += [f"bound: {note}" for note in dict.fromkeys(point.total.note for point in found.points) if note]
    rest += [*found.notes, *(f"assumed: {note}" for note in model.assumptions)]
    idle = [_called(op) for op in found.ops if _is_zero(op.work)]
    return Document(
        title=prose(f"{model.name}   {count(model.nodes, 'node')}   {weights}"),
        sections=sections(
            [Notes(tuple(prose(f"  in   {input_text(tensor, swept)}") for tensor in model.inputs), 1)],
            [_table(found)],
            [
                Table(
                    columns=(
                        Column(least=_NAME, most=_NAME, cut="start"),
                        Column(gap=1, least=9),
                        Column(gap=1, cut="wrap"),
                    ),
                    rows=list(_forms(found)),
                    title=f"closed forms, for {found.forms_hold}",
                    headless=True,
                ),
                Notes((f"no work: {', '.join(idle)}",) if idle else ()),
            ],
            [Notes(tuple(rest))],
        ),
    )  # fmt: skip


def _table(found: Sweep) -> Table:
    heads = ("MAC", "FLOP", "read", "written", "FLOP/B", "weights")
    inexact = any(point.total.bound != "exact" for point in found.points)
    return Table(
        columns=(
            *(Column(dim.name, right=True) for dim in found.dims),
            Column(gap=1, least=1),
            *(Column(head, right=True, gap=1, least=9) for head in heads),
        ),
        rows=[_row(found, point) for point in found.points],
        after=(
            *([BOUND_WORDS] if inexact else []),
            "weights: their share of the bytes moved; exact numbers: --format csv",
        ),
    )


def _row(found: Sweep, point: SweepPoint) -> Row:
    work = point.total
    return Row((
        *(str(point.at[dim.name]) for dim in found.dims),
        BOUND_MARKS[work.bound],
        without_unit(work.macs),
        without_unit(work.flops),
        bytes_or_0(work.bytes_read),
        bytes_or_0(work.bytes_written),
        f"{work.flops / work.bytes:.1f}" if work.bytes else "-",
        format_percent(work.bytes_parameters / work.bytes) if work.bytes else "-",
    ))  # fmt: skip


def _forms(found: Sweep) -> Iterator[Row]:
    total = found.total
    labelled = {
        "MAC": total.macs, "FLOP": total.flops, "bytes": total.bytes, "  read": total.bytes_read,
        "  weights": total.bytes_parameters, "  written": total.bytes_written,
    }  # fmt: skip
    for at, (label, form) in enumerate(labelled.items()):
        yield Row(("" if at else "all", label, polynomial_text(form)))
    for op in found.ops:
        if _is_zero(op.work):
            continue
        title = _called(op)
        if op.work.flops is None or op.work.flops.terms:
            yield Row((title, "FLOP", polynomial_text(op.work.flops)))
            title = ""
        yield Row((title, "bytes", polynomial_text(op.work.bytes)))


def _called(op: OpForms) -> str:
    return f"{op.domain}::{op.op_type}" if op.domain else op.op_type


def _is_zero(work: WorkForms) -> bool:
    return all(form is not None and not form.terms for form in (work.flops, work.bytes))


def polynomial_text(form: Polynomial | None) -> str:
    """A closed form as text: ``3*batch*length^2 + 1,024*batch + 7``, ``(n^2 + n) / 2``."""
    if form is None:
        return NO_FORM
    text = ""
    for term in form.terms:
        factors = [name if power == 1 else f"{name}^{power}" for name, power in term.powers.items()]
        size = abs(term.coefficient)
        if size != 1 or not factors:
            factors.insert(0, f"{size:,}")
        sign = "-" if term.coefficient < 0 else "+"
        text += (f" {sign} " if text else "-" if sign == "-" else "") + "*".join(factors)
    text = text or "0"
    return text if form.divisor == 1 else f"({text}) / {form.divisor:,}"
