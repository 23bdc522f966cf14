"""What `trtprof inspect` prints: the work of a model that was not run."""

from __future__ import annotations

import msgspec

from profiler.records import Inspection
from profiler.units import format_bytes, format_flops


def render_json(found: Inspection) -> str:
    """The inspection as one JSON document, indented."""
    return msgspec.json.format(msgspec.json.encode(found, order="deterministic"), indent=1).decode() + "\n"


def render_text(found: Inspection, width: int = 80) -> str:
    """The model, its totals, and its ops by work, at most ``width`` columns wide."""
    model, total = found.model, found.total
    at_most = {"upper": "at most ", "lower": "at least ", "exact": ""}[total.bound]
    opsets = ", ".join(f"{domain} {version}" for domain, version in sorted(model.opsets.items()))
    lines = [
        f"{model.name}   {model.nodes} nodes   opset {opsets}   {model.producer}".rstrip(),
        *(f"  in   {i.name}: {i.dtype} {_dims(i.shape)}" for i in model.inputs),
        *(f"  out  {o.name}: {o.dtype} {_dims(o.shape)}" for o in model.outputs),
        f"parameters  {model.parameters:,} ({format_bytes(model.parameter_bytes)})",
        (
            f"work        {at_most}{format_flops(total.flops)} ({total.macs:,} MAC), "
            f"{format_bytes(total.bytes_read)} read, {format_bytes(total.bytes_written)} written"
        ),
        f"shapes      {100 * model.shape_coverage:.1f} % of tensors known before the run",
    ]
    if model.renamed:
        lines.append(f"names       {model.renamed} nodes had no name or a taken one and got a unique one")
    lines += ["", f"{'op':<34} {'count':>6} {'MAC':>12} {'FLOP':>12} {'bytes':>10}"]
    for op in found.ops:
        name = f"{op.domain}::{op.op_type}" if op.domain else op.op_type
        work = op.work
        lines.append(
            f"{name:<34} {op.count:>6} {_count(work.macs):>12} {_count(work.flops):>12} {format_bytes(work.bytes):>10}"
        )
    lines.append("")
    if found.unsupported:
        lines.append("without a price:")
        lines += [f"  {u.count} x {u.domain or 'ai.onnx'}::{u.op_type}: {u.reason}" for u in found.unsupported]
    else:
        lines.append("unsupported ops: none")
    if total.note:
        lines.append(f"bound: {total.note}")
    lines += [f"assumed: {note}" for note in model.assumptions]
    return "\n".join(line if len(line) <= width else line[: width - 3] + "..." for line in lines) + "\n"


def _dims(shape: tuple[int | str, ...] | None) -> str:
    return "?" if shape is None else "x".join(map(str, shape)) or "scalar"


def _count(value: int) -> str:
    return format_flops(value).removesuffix("FLOP").strip() if value else "0"
