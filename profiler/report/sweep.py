"""What `trtprof inspect --sweep` prints: the work of a model over a sweep, and its closed forms."""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Iterator

import msgspec

from profiler.base.records import Polynomial, Sweep, SweepPoint, WorkForms
from profiler.base.units import format_bytes, format_flops, format_percent
from profiler.report._format import input_text, visible
from profiler.report.csv_ import safe

COLUMNS = (
    "macs", "flops", "tensor_flops", "vector_flops", "special_flops", "bytes_read", "bytes_written",
    "bytes_parameters", "work_bound", "work_note",
)  # fmt: skip
"""Columns of the CSV behind those of the swept dimensions."""
NO_FORM = "no closed form"

_MARKS = {"exact": " ", "upper": "<", "lower": ">", "mixed": "~"}
_HEADS = ("MAC", "FLOP", "read", "written", "FLOP/B", "weights")
_NAME = 20
"""Columns of the name of an op."""


def render_json(found: Sweep) -> str:
    """The sweep as one JSON document, indented."""
    return msgspec.json.format(msgspec.json.encode(found, order="deterministic"), indent=1).decode() + "\n"


def render_csv(found: Sweep) -> str:
    """The table with a header row: one row a point, exact numbers."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(safe, (*(dim.name for dim in found.dims), *COLUMNS)))
    for point in found.points:
        work = point.total
        counts = (
            work.macs, work.flops, work.tensor_flops, work.vector_flops, work.special_flops,
            work.bytes_read, work.bytes_written, work.bytes_parameters,
        )  # fmt: skip
        writer.writerow([*(point.at[dim.name] for dim in found.dims), *counts, work.bound, safe(work.note)])
    return out.getvalue()


def render_text(found: Sweep, width: int = 80) -> str:
    """The model, one row a point, and the closed forms of what it costs, at most ``width`` columns wide."""
    model, last = found.model, found.points[-1]
    swept = {symbol for dim in found.dims for symbol in dim.symbols}
    lines = [
        f"{model.name}   {model.nodes} nodes   {model.parameters:,} parameters ({format_bytes(model.parameter_bytes)})",
        *(f"  in   {input_text(i, swept)}" for i in model.inputs),
        "",
        *_table(found),
    ]
    if any(point.total.bound != "exact" for point in found.points):
        lines.append("< at most, > at least, ~ partly each: data decides")
    lines += ["weights: their share of the bytes moved; exact numbers: --format csv", ""]
    lines = [line if len(line) <= width else line[: width - 3] + "..." for line in map(visible, lines)]
    lines += [*_forms(found, width), ""]
    rest = [f"without a price: {u.count} x {u.domain or 'ai.onnx'}::{u.op_type}: {u.reason}" for u in last.unsupported]
    rest += [f"bound: {note}" for note in dict.fromkeys(p.total.note for p in found.points) if note]
    rest += found.notes
    rest += [f"assumed: {note}" for note in model.assumptions]
    lines += [line if len(line) <= width else line[: width - 3] + "..." for line in map(visible, rest)]
    return "\n".join(lines).rstrip() + "\n"


def _table(found: Sweep) -> Iterator[str]:
    columns = [max(len(dim.name), *(len(str(value)) for value in dim.values)) for dim in found.dims]
    names = "  ".join(f"{dim.name:>{column}}" for dim, column in zip(found.dims, columns, strict=True))
    yield names + "   " + " ".join(f"{head:>9}" for head in _HEADS)
    for point in found.points:
        values = "  ".join(f"{point.at[dim.name]:>{column}}" for dim, column in zip(found.dims, columns, strict=True))
        yield f"{values} {_MARKS[point.total.bound]} {_row(point)}"


def _row(point: SweepPoint) -> str:
    work = point.total
    cells = (
        _count(work.macs),
        _count(work.flops),
        _moved(work.bytes_read),
        _moved(work.bytes_written),
        f"{work.flops / work.bytes:.1f}" if work.bytes else "-",
        format_percent(work.bytes_parameters / work.bytes) if work.bytes else "-",
    )
    return " ".join(f"{cell:>9}" for cell in cells)


def _forms(found: Sweep, width: int) -> Iterator[str]:
    yield visible(f"closed forms, for {found.forms_hold}")
    total = found.total
    labelled = {
        "MAC": total.macs, "FLOP": total.flops, "bytes": total.bytes, "  read": total.bytes_read,
        "  weights": total.bytes_parameters, "  written": total.bytes_written,
    }  # fmt: skip
    name = "all"
    for label, form in labelled.items():
        yield from _lines(name, label, form, width)
        name = ""
    idle = []
    for op in found.ops:
        name = f"{op.domain}::{op.op_type}" if op.domain else op.op_type
        if _is_zero(op.work):
            idle.append(name)
            continue
        if op.work.flops is None or op.work.flops.terms:
            yield from _lines(name, "FLOP", op.work.flops, width)
            name = ""
        yield from _lines(name, "bytes", op.work.bytes, width)
    if idle:
        yield from textwrap.wrap(visible("no work: " + ", ".join(idle)), width, subsequent_indent="  ")


def _is_zero(work: WorkForms) -> bool:
    return all(form is not None and not form.terms for form in (work.flops, work.bytes))


def _lines(name: str, label: str, form: Polynomial | None, width: int) -> list[str]:
    name = visible(name)
    if len(name) > _NAME:
        name = "..." + name[3 - _NAME :]
    return textwrap.wrap(
        visible(polynomial_text(form)),
        width,
        initial_indent=f"{name:<{_NAME}} {label:<9} ",
        subsequent_indent=" " * (_NAME + 11),
        break_long_words=False,
        break_on_hyphens=False,
    )


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


def _count(value: int) -> str:
    return format_flops(value).removesuffix("FLOP").strip() if value else "0"


def _moved(count: int) -> str:
    return format_bytes(count) if count else "0"
