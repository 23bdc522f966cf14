"""What `trtprof inspect` prints: the work of a model that was not run."""

from __future__ import annotations

import msgspec

from profiler.base.records import Inspection
from profiler.base.units import format_bytes, format_flops
from profiler.report._format import input_text, visible
from profiler.report.plan import note_lines, plan_lines


def render_json(found: Inspection) -> str:
    """The inspection as one JSON document, indented."""
    return msgspec.json.format(msgspec.json.encode(found, order="deterministic"), indent=1).decode() + "\n"


def render_text(found: Inspection, width: int = 80, top: int | None = None, *, ascii_only: bool = False) -> str:
    """The model, its totals, its ops by work, and the plan of an engine, at most ``width`` columns wide.

    Args:
        found: The inspection.
        width: Columns.
        top: Layers of the engine and fusions that did not happen; by default as many as fit a page.
        ascii_only: Write ASCII only.
    """
    model, total = found.model, found.total
    opsets = ", ".join(f"{domain} {version}" for domain, version in sorted(model.opsets.items()))
    lines = [
        f"{model.name}   {model.nodes} nodes   opset {opsets}   {model.producer}".rstrip(),
        *(f"  in   {input_text(i)}" for i in model.inputs),
        *(f"  out  {o.name}: {o.dtype} {_dims(o.shape)}" for o in model.outputs),
        f"parameters  {model.parameters:,} ({format_bytes(model.parameter_bytes)})",
        (
            f"work        {_WORDS[total.bound]}{format_flops(total.flops)} ({total.macs:,} MAC), "
            f"{format_bytes(total.bytes_read)} read, {format_bytes(total.bytes_written)} written"
        ),
        *_by_dtype(found),
        f"shapes      {100 * model.shape_coverage:.1f} % of tensors known before the run",
    ]
    if model.renamed:
        lines.append(f"names       {model.renamed} nodes had no name or a taken one and got a unique one")
    lines += ["", *_op_table(found, width), ""]
    if found.unsupported:
        lines.append("without a price:")
        lines += [f"  {u.count} x {u.domain or 'ai.onnx'}::{u.op_type}: {u.reason}" for u in found.unsupported]
    else:
        lines.append("unsupported ops: none")
    if total.note:
        lines.append(f"bound: {total.note}")
    lines += [f"assumed: {note}" for note in model.assumptions]
    lines = [visible(line, ascii_only=ascii_only) for line in lines]
    lines = [line if len(line) <= width else line[: width - 3] + "..." for line in lines]
    if found.plan is not None:
        title = "what TensorRT-RTX makes of it"
        lines += ["", title[:width], "", *plan_lines(found.plan, width, top, ascii_only=ascii_only)]
    lines += note_lines(found.notes, width, ascii_only=ascii_only)
    return "\n".join(lines) + "\n"


_WORDS = {"exact": "", "upper": "at most ", "lower": "at least ", "mixed": "about "}
_MARKS = {"exact": " ", "upper": "<", "lower": ">", "mixed": "~"}


def _by_dtype(found: Inspection) -> list[str]:
    """Multiply-accumulates by what they are multiplied as, where that is not one dtype alone."""
    macs = sorted(found.macs_by_dtype.items(), key=lambda item: (-item[1], item[0]))
    if len(macs) < 2 and "fp32" in found.macs_by_dtype:
        return []
    return ["dtypes      " + ", ".join(f"{_count(count)} MAC in {dtype}" for dtype, count in macs)] if macs else []


def _op_table(found: Inspection, width: int) -> list[str]:
    column = max(width - 54, 16)
    lines = [f"{'op':<{column}} {'count':>6}   {'MAC':>8} {'FLOP':>8} {'read':>8} {'weights':>8} {'written':>8}"]
    for op in found.ops:
        name = f"{op.domain}::{op.op_type}" if op.domain else op.op_type
        work = op.work
        counts = f"{_count(work.macs):>8} {_count(work.flops):>8}"
        moved = f"{_moved(work.bytes_read)} {_moved(work.bytes_parameters)} {_moved(work.bytes_written)}"
        lines.append(f"{_cut(name, column):<{column}} {op.count:>6} {_MARKS[work.bound]} {counts} {moved}")
    if any(op.work.bound != "exact" for op in found.ops):
        lines.append("< at most, > at least, ~ partly each: data decides")
    return lines


def _moved(count: int) -> str:
    return f"{format_bytes(count) if count else '0':>8}"


def _cut(name: str, width: int) -> str:
    """The name, shortened in front of its op type where it does not fit."""
    return name if len(name) <= width else "..." + name[3 - width :]


def _dims(shape: tuple[int | str, ...] | None) -> str:
    return "?" if shape is None else "x".join(map(str, shape)) or "scalar"


def _count(value: int) -> str:
    return format_flops(value).removesuffix("FLOP").strip() if value else "0"
