"""What `trtprof inspect` says: the work of a model that was not run, and the plan of an engine of it."""

from __future__ import annotations

from collections.abc import Iterator

from trtprof.base.op_kinds import MULTIPLYING
from trtprof.base.records import Inspection, Unsupported
from trtprof.base.units import format_bytes, format_flops, format_names
from trtprof.report import ReportOptions, content_of
from trtprof.report._format import BOUND_MARKS, BOUND_WORDS, bytes_or_0, count, dims_text, input_text, without_unit
from trtprof.report.content import plan as plans
from trtprof.report.document import Column, Document, Heading, Notes, Pair, Pairs, Row, Section, Table, prose, sections

_WORDS = {"exact": "", "upper": "at most ", "lower": "at least ", "mixed": "about "}


@content_of(Inspection)
def document(found: Inspection, options: ReportOptions) -> Document:
    """The model, its totals, its ops by work, and the plan of an engine."""
    model, total = found.model, found.total
    opsets = ", ".join(f"{domain} {version}" for domain, version in sorted(model.opsets.items()))
    tensors = [f"  in   {input_text(tensor)}" for tensor in model.inputs]
    tensors += [f"  out  {tensor.name}: {tensor.dtype} {dims_text(tensor.shape)}" for tensor in model.outputs]
    work = f"{_WORDS[total.bound]}{format_flops(total.flops)} ({total.macs:,} MAC)"
    moved = f"{format_bytes(total.bytes_read)} read, {format_bytes(total.bytes_written)} written"
    told = [
        ("parameters", f"{model.parameters:,} ({format_bytes(model.parameter_bytes)})"),
        ("work", f"{work}, {moved}"),
        ("", found.uncounted),
        ("dtypes", _by_dtype(found)),
        ("shapes", f"{100 * model.shape_coverage:.1f} % of tensors known before the run"),
        ("names", f"{model.renamed} nodes had no name or a taken one and got a unique one" if model.renamed else ""),
    ]
    notes = [*unpriced(found.unsupported), *([] if found.unsupported else ["without a cost model: none"])]
    notes += [f"bound: {total.note}"] if total.note else []
    notes += [f"assumed: {note}" for note in model.assumptions]
    engine: list[Section] = []
    if found.plan is not None:
        engine = [Section(blocks=(Heading("what TensorRT-RTX makes of it"),))]
        engine += plans.parts(found.plan, options, plans.LAYERS_OF_A_PART)
    return Document(
        title=prose(f"{model.name}   {count(model.nodes, 'node')}   opset {opsets}   {model.producer}".rstrip()),
        sections=sections(
            [
                Notes(tuple(map(prose, tensors)), 1),
                Pairs(tuple(Pair(label, text, None, "") for label, text in told if text)),
            ],
            [_ops(found)],
            [Notes(tuple(notes))],
            *engine,
            [Notes(found.notes)] if found.notes else [],
        ),
    )  # fmt: skip


def unpriced(unsupported: tuple[Unsupported, ...]) -> Iterator[str]:
    """The ops that are not counted, in one line; those of multiply-accumulates first."""
    by_reason: dict[str, list[str]] = {}
    for one in sorted(unsupported, key=lambda one: (one.op_type not in MULTIPLYING, -one.count)):
        name = f"{one.domain}::{one.op_type}" if one.domain else one.op_type
        by_reason.setdefault(one.reason, []).append(f"{one.count:,} x {name}")
    if by_reason:
        yield "not counted: " + "; ".join(f"{format_names(ops, 6)}: {why}" for why, ops in by_reason.items())


def _by_dtype(found: Inspection) -> str:
    """Multiply-accumulates by what they are multiplied as, where that is not one dtype alone."""
    macs = sorted(found.macs_by_dtype.items(), key=lambda item: (-item[1], item[0]))
    if len(macs) < 2 and "fp32" in found.macs_by_dtype:
        return ""
    return ", ".join(f"{without_unit(count)} MAC in {dtype}" for dtype, count in macs)


def _ops(found: Inspection) -> Table:
    rows = []
    for op in found.ops:
        work = op.work
        counts = (without_unit(work.macs), without_unit(work.flops))
        moved = map(bytes_or_0, (work.bytes_read, work.bytes_parameters, work.bytes_written))
        name = f"{op.domain}::{op.op_type}" if op.domain else op.op_type
        rows.append(Row((name, str(op.count), BOUND_MARKS[work.bound], *counts, *moved)))
    heads = {"MAC": 3, "FLOP": 0, "read": 1, "weights": 2, "written": 1}
    return Table(
        columns=(
            Column("op", cut="start", least=16),
            Column("count", right=True, gap=1, least=6),
            Column(gap=1, least=1),
            *(Column(head, right=True, gap=1, least=8, drop=drop) for head, drop in heads.items()),
        ),
        rows=rows,
        hidden="not shown: {} (--format csv has all)",
        after=(BOUND_WORDS,) if any(op.work.bound != "exact" for op in found.ops) else (),
    )
