"""What `trtprof predict` prints: GPUs side by side, the layers, and the roofline."""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Iterator, Sequence

import msgspec

from profiler.base.errors import UsageError
from profiler.base.records import GpuPrediction, PredictedLayer, Prediction
from profiler.base.units import format_bytes, format_flops, format_ns, format_percent
from profiler.report import _roofline
from profiler.report._format import count, input_text, visible
from profiler.report._markdown import plain, table
from profiler.report.csv_ import safe
from profiler.report.json_ import schema_of
from profiler.report.plan import (
    NAMED,
    engine_text,
    fates_of,
    fates_text,
    layer_title,
    layers_text,
    lost_lines,
    node_lines,
    op_runs,
    summary_lines,
    summary_markdown,
    worth_a_look,
)

COLUMNS = (
    "gpu", "rank", "name", "op_type", "rule", "graph", "nodes", "repeats", "attainable_ns", "roofline_ns", "ideal_ns",
    "bound", "runner_up", "launch_ns", "tensor_ns", "vector_ns", "sfu_ns", "dram_ns", "l2_ns", "dram_bytes",
    "cache_bytes", "tensor_flops", "vector_flops", "special_flops", "bytes_read", "bytes_written",
    "bytes_parameters", "dtype", "work_bound", "shapes", "reason",
)  # fmt: skip
"""Columns of the CSV: one row a layer and GPU, longest first; ``*_ns`` are of one of its ``repeats``."""
ENGINE_COLUMNS = ("kind", "role", "match")
"""Further columns where the layers are those of a built engine."""

LAYERS = 10
"""Layers that a report for people shows of one GPU unless asked for more or less."""
LAYERS_OF_MANY = 3
"""The same where there are several GPUs."""
PICTURES = 3
"""Rooflines in a text report."""

_CLASSES = {"tensor": "compute", "vector": "compute", "sfu": "compute", "dram": "memory", "l2": "memory"}
_TERMS = ("launch", "tensor", "vector", "sfu", "dram", "l2")


def render_json(found: Prediction) -> str:
    """The prediction as one JSON document, indented."""
    return msgspec.json.format(msgspec.json.encode(found, order="deterministic"), indent=1).decode() + "\n"


def schema_text() -> str:
    """The schema of the document as the text of ``prediction.schema.json``, which ships with the package."""
    schema = schema_of(Prediction, "trtprof predict")
    return msgspec.json.format(msgspec.json.encode(schema, order="deterministic"), indent=2).decode() + "\n"


def render_csv(found: Prediction) -> str:
    """All layers of all GPUs with a header row, exact numbers."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    built = found.level == "layers"
    writer.writerow((*COLUMNS, *(ENGINE_COLUMNS if built else ())))
    for gpu in found.gpus:
        for rank, layer in enumerate(longest(gpu), 1):
            work, estimate = layer.work, layer.estimate
            cells: tuple[str | int | None, ...] = (
                gpu.gpu, rank, layer.name, layer.op_type, layer.rule, layer.graph, ";".join(layer.nodes),
                layer.repeats,
                *((estimate.attainable_ns, estimate.roofline_ns, estimate.ideal_ns, estimate.bound,
                   estimate.runner_up) if estimate else [None] * 5),
                *(estimate.terms.get(term) if estimate else None for term in _TERMS),
                *((estimate.dram_bytes, estimate.cache_bytes) if estimate else [None] * 2),
                *((work.tensor_flops, work.vector_flops, work.special_flops, work.bytes_read, work.bytes_written,
                   work.bytes_parameters, work.dtype, work.bound) if work else [None] * 8),
                layer.shapes, layer.reason,
                *((layer.kind, layer.role, layer.match) if built else ()),
            )  # fmt: skip
            writer.writerow(map(safe, cells))
    return out.getvalue()


def longest(gpu: GpuPrediction) -> list[PredictedLayer]:
    """Its layers by the time that they take in an inference; those without an estimate last."""
    return sorted(gpu.layers, key=lambda layer: (layer.estimate is None, -_ns(layer)))


def _ns(layer: PredictedLayer) -> int:
    return 0 if layer.estimate is None else layer.estimate.attainable_ns * layer.repeats


# --- text -----------------------------------------------------------------------------------


def render_text(found: Prediction, width: int = 80, top: int | None = None, *, ascii_only: bool = False) -> str:
    """The prediction as lines of at most ``width`` columns.

    Args:
        found: The prediction.
        width: Columns.
        top: Layers of each GPU; by default as many as fit a page.
        ascii_only: Write ASCII only.
    """
    many = len(found.gpus) > 1
    shown = top if top is not None else LAYERS_OF_MANY if many else LAYERS
    lines = [*_head(found)]
    if many:
        lines += ["", *_table(_comparison(found)), *_verdict(found)]
    else:
        lines += ["", *_summary(found.gpus[0], found, width)]
    lines += _look(found.gpus[0], width)
    if _precision_names(found):
        lines += ["", f"time by precision (here: {found.precision})", *_table(_precisions(found))]
    for gpu in found.gpus:
        lines += ["", *_layers(gpu, shown, width, rest=not many, ascii_only=ascii_only)]
    lines += _lost(found, width, ascii_only=ascii_only)
    plan = found.gpus[0].plan
    if plan is not None:
        lines += ["", f"the engine on {found.gpus[0].name}", ""]
        lines += summary_lines(plan, width, ascii_only=ascii_only, top=top, names=_names(found.gpus[0]))
    for gpu in found.gpus[:PICTURES]:
        plot = _roofline.plot_of(gpu)
        if plot is not None:
            lines += ["", f"roofline of {gpu.name}", *_roofline.in_characters(plot, width, ascii_only=ascii_only)]
    lines.append("")
    lines += [
        f"without a price: {u.count} x {u.domain or 'ai.onnx'}::{u.op_type}: {u.reason}" for u in found.unsupported
    ]
    lines = [_cut(visible(line, ascii_only=False), width) for line in lines]
    notes = [f"{gpu.name}: {note}" for gpu in found.gpus for note in gpu.notes] if many else list(found.gpus[0].notes)
    for note in (*notes, *(f"assumed: {note}" for note in found.assumptions)):
        lines += textwrap.wrap(visible(note), width, subsequent_indent="  ", break_on_hyphens=False)
    text = "\n".join(lines) + "\n"
    return text.encode("ascii", "backslashreplace").decode() if ascii_only else text


def _head(found: Prediction) -> Iterator[str]:
    model = found.model
    what = {"groups": "estimated groups, no engine built", "nodes": "node by node", "layers": "layers of the engine"}
    yield f"{model.name}   {count(model.nodes, 'node')}   precision {found.precision}   {what[found.level]}"
    yield from (f"  in   {input_text(tensor)}" for tensor in model.inputs)
    yield from (f"  {label:<7}{text}" for label, text in _engine(found))


def _engine(found: Prediction) -> Iterator[tuple[str, str]]:
    """Of a built engine: what it is, what it has of layers, and what became of the nodes."""
    if found.engine is not None:
        yield "engine", engine_text(found.engine)
        if found.engine.precision:
            yield "built", found.engine.precision
        if found.gpus[0].plan is not None:
            yield "layers", layers_text(found.engine, found.gpus[0].plan)
    if found.fates:
        yield "nodes", fates_text(fates_of(found.fates))


def _look(gpu: GpuPrediction, width: int) -> Iterator[str]:
    """What stands out in the plan of a built engine."""
    for index, text in enumerate(worth_a_look(gpu.plan, _names(gpu)) if gpu.plan is not None else ()):
        first = f"{'' if index else 'look at':<12}"
        yield from textwrap.wrap(visible(text), width, initial_indent=first, subsequent_indent=" " * 12)


def _lost(found: Prediction, width: int, *, ascii_only: bool) -> Iterator[str]:
    lost = [fate for fate in found.fates if fate.fate == "lost"]
    if lost:
        yield from ("", "nodes that are lost", *lost_lines(lost, {}, width, NAMED, ascii_only=ascii_only))


def _names(gpu: GpuPrediction) -> dict[str, str]:
    """What to call the layers of a built engine, by their names in its plan."""
    return {layer.name: layer_title(layer.name, layer.nodes) for layer in gpu.layers}


def _summary(gpu: GpuPrediction, found: Prediction, width: int) -> Iterator[str]:
    launches = sum(layer.repeats for layer in gpu.layers if layer.estimate is not None)
    yield f"{gpu.name} at {gpu.clock_mhz:g} MHz, {f'{gpu.tdp_w:g} W' if gpu.tdp_w else 'power limit not known'}"
    yield f"time        {format_ns(gpu.time_ns)}   {_rate(gpu)} /s   {_energy(gpu)}"
    yield f"launches    {launches:,}; without their floor {format_ns(gpu.ideal_ns)}"
    yield f"verdict     {_class(gpu)}: {_bounds(gpu)}"
    yield from textwrap.wrap(f"ridge       {_ridges(gpu)} FLOP/byte", width, subsequent_indent=" " * 12)
    fits = "fits" if found.memory_bytes <= gpu.memory_bytes else "does not fit"
    yield f"memory      {fits}: at least {format_bytes(found.memory_bytes)} of {format_bytes(gpu.memory_bytes)}"


def _rate(gpu: GpuPrediction) -> str:
    """Inferences per second."""
    rate = 1e9 / gpu.time_ns if gpu.time_ns else 0.0
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}" if rate else "-"


def _energy(gpu: GpuPrediction) -> str:
    """At most so much, because it is at the power limit."""
    if not gpu.tdp_w:
        return "-"
    return f"<{gpu.joules * 1e3:.3g} mJ" if gpu.joules < 1 else f"<{gpu.joules:.3g} J"


def _bounds(gpu: GpuPrediction) -> str:
    shares = (f"{name} {format_percent(ns / gpu.time_ns)}" for name, ns in gpu.ns_by_bound.items() if gpu.time_ns)
    return ", ".join(shares) or "-"


def _class(gpu: GpuPrediction) -> str:
    """What most of the time is bounded by, as a person says it."""
    ns: dict[str, int] = {}
    for bound, each in gpu.ns_by_bound.items():
        ns[_CLASSES.get(bound, bound)] = ns.get(_CLASSES.get(bound, bound), 0) + each
    return f"{max(ns, key=lambda name: ns[name])}-bound" if ns else "nothing to do"


def _ridges(gpu: GpuPrediction) -> str:
    """Dtypes with one ridge together."""
    names: dict[str, list[str]] = {}
    for dtype, ridge in sorted(gpu.ridge.items(), key=lambda item: (item[1], item[0])):
        names.setdefault(f"{ridge:.3g}", []).append(dtype)
    return ", ".join(f"{'/'.join(dtypes)} {ridge}" for ridge, dtypes in names.items())


def _comparison(found: Prediction) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("GPU", "time", "no floor", "per s", "energy", "bound", "memory")]
    for gpu in found.gpus:
        bound = next(iter(gpu.ns_by_bound), "-")
        share = f" {gpu.ns_by_bound[bound] / gpu.time_ns:.0%}" if gpu.time_ns else ""
        used = f"{100 * found.memory_bytes / gpu.memory_bytes:.2g}%"
        times = format_ns(gpu.time_ns), format_ns(gpu.ideal_ns)
        rows.append((gpu.gpu, *times, _rate(gpu), _energy(gpu), bound + share, used))
    return rows


def _verdict(found: Prediction) -> Iterator[str]:
    by_slug = {gpu.gpu: gpu for gpu in found.gpus}
    fastest, frugal = by_slug[found.fastest], by_slug[found.most_efficient]
    yield f"fastest: {fastest.name}, {format_ns(fastest.time_ns)}"
    yield f"most efficient per watt: {frugal.name}, {_energy(frugal)} an inference"


def _precision_names(found: Prediction) -> list[str]:
    """The precisions that are told of at least one GPU: of a built engine not all of them are."""
    return list(dict.fromkeys(name for gpu in found.gpus for name in gpu.by_precision))


def _precisions(found: Prediction) -> list[tuple[str, ...]]:
    names = _precision_names(found)
    rows: list[tuple[str, ...]] = [("GPU", *names)]
    for gpu in found.gpus:
        times = (gpu.by_precision.get(name, 0) for name in names)
        rows.append((gpu.gpu, *("no unit" if ns is None else format_ns(ns) if ns else "-" for ns in times)))
    return rows


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """The first column to the left, the others to the right."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        cells = (f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True))
        yield f"{row[0]:<{widths[0]}}  {'  '.join(cells)}".rstrip()


def _layers(gpu: GpuPrediction, top: int, width: int, *, rest: bool, ascii_only: bool) -> Iterator[str]:
    ordered = longest(gpu)
    launches = sum(1 for layer in gpu.layers if layer.estimate is not None)
    yield f"layers of {gpu.name}, longest first ({min(top, len(ordered))} of {launches})"
    yield f"{'time':>8}  {'share':>6}  {'bound, and the next it beat':<30}  layer"
    for layer in ordered[:top]:
        yield from _layer(layer, gpu, width, rest=rest, ascii_only=ascii_only)


def _layer(layer: PredictedLayer, gpu: GpuPrediction, width: int, *, rest: bool, ascii_only: bool) -> Iterator[str]:
    times = f"{layer.repeats} x " if layer.repeats != 1 else ""
    title = layer_title(layer.name, layer.nodes) if layer.kind else layer.name
    name = f"{times}{visible(title)}"
    room = max(width - 50, 16)
    name = name if len(name) <= room else "..." + name[3 - room :]
    if layer.estimate is None:
        yield f"{'-':>8}  {'-':>6}  {'no price':<30}  {name}"
        yield f"{'':>18}{visible(layer.reason)}"
        return
    share = format_percent(_ns(layer) / gpu.time_ns) if gpu.time_ns else "-"
    yield f"{format_ns(_ns(layer)):>8}  {share:>6}  {_terms(layer):<30}  {name}"
    # The types of several nodes of an engine's layer stand before their names.
    kinds = visible(layer.kind) if layer.kind and len(layer.nodes) > 1 else _kinds(layer)
    yield f"{'':>18}{kinds}  {_work(layer)}  {visible(layer.shapes)}"
    yield from (f"{'':>18}{line}" for line in _origin(layer, width - 18, ascii_only=ascii_only))
    others = [
        f"{name} {format_ns(ns)}" for name, ns in sorted(layer.estimate.terms.items(), key=lambda it: -it[1]) if ns
    ]
    if rest and others[2:]:
        yield f"{'':>18}then {', '.join(others[2:])}"


def _origin(layer: PredictedLayer, width: int, *, ascii_only: bool) -> Iterator[str]:
    """Of a layer of a built engine: its nodes, and how they were found where that is not sure."""
    if layer.kind and len(layer.nodes) > 1:
        yield from node_lines(layer.nodes, width, ascii_only=ascii_only, before=f"{_few(op_runs(_types(layer)), 3)}:")
    if layer.match in ("inferred", "none"):
        sure = {"inferred": "nodes inferred", "none": "no node found"}[layer.match]
        yield f"{sure}: {visible(layer.reason)}" if layer.reason else sure


def _terms(layer: PredictedLayer) -> str:
    """What binds and what it beat: ``dram 248 us, next l2 48.6 us``."""
    estimate = layer.estimate
    if estimate is None:
        return "no price"
    text = f"{estimate.bound} {format_ns(estimate.terms.get(estimate.bound, estimate.attainable_ns))}"
    if estimate.runner_up == "none":
        return text
    return f"{text}, next {estimate.runner_up} {format_ns(estimate.terms.get(estimate.runner_up, 0))}"


def _work(layer: PredictedLayer) -> str:
    work = layer.work
    if work is None:
        return ""
    computed = f"{format_flops(work.flops)}{' ' + work.dtype if work.dtype else ''}, " if work.flops else ""
    return f"{computed}{format_bytes(work.bytes)}"


def _types(layer: PredictedLayer) -> list[str]:
    return layer.op_type.split(" + ")


def _few(words: Sequence[str], most: int) -> str:
    more = [f"{len(words) - most} more"] if len(words) > most else []
    return " + ".join((*words[:most], *more))


def _kinds(layer: PredictedLayer) -> str:
    """Op types in order: ``Conv + Relu``, ``attention: 3 Transpose + MatMul + Div + Add + 3 more``."""
    words = op_runs(_types(layer))
    if layer.kind:
        # A layer without nodes has its kind for a type.
        return visible(layer.kind if words == [layer.kind] else f"{layer.kind}: {_few(words, 4)}")
    return visible(_few(words, 4) if len(words) <= 4 else f"{layer.rule}: {_few(words, 4)}")


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 3] + "..."


# --- Markdown -------------------------------------------------------------------------------


def render_markdown(found: Prediction, top: int | None = None) -> str:
    """The same tables in Markdown."""
    shown = top if top is not None else LAYERS
    lines = [f"# {plain(found.model.name)}, precision {found.precision}", ""]
    lines += [f"- {plain(input_text(tensor))}" for tensor in found.model.inputs]
    lines += [f"- {label}: {plain(text)}" for label, text in _engine(found)]
    lines += ["", *table(_comparison(found)), "", *(f"- {plain(line)}" for line in _verdict(found))]
    plan = found.gpus[0].plan
    if plan is not None:
        lines += [f"- {plain(line)}" for line in worth_a_look(plan, _names(found.gpus[0]))]
    if _precision_names(found):
        lines += ["", "## Time by precision", "", *table(_precisions(found))]
    for gpu in found.gpus:
        lines += ["", f"## {plain(gpu.name)}", "", f"Ridge points in FLOP/byte: {_ridges(gpu)}.", ""]
        rows: list[tuple[str, ...]] = [
            ("layer", "ops", "time", "share", "bound, and the next it beat", "work", "shapes")
        ]
        if found.level == "layers":
            rows = [(*rows[0], "nodes", "match")]
        for layer in longest(gpu)[:shown]:
            share = format_percent(_ns(layer) / gpu.time_ns) if gpu.time_ns and layer.estimate else "-"
            rows.append((
                layer.name, _kinds(layer), format_ns(_ns(layer)) if layer.estimate else "-", share,
                _terms(layer), _work(layer), layer.shapes,
                *((", ".join(layer.nodes), layer.match or "") if found.level == "layers" else ()),
            ))  # fmt: skip
        lines += [*table(rows), *(f"- {plain(note)}" for note in ("", *gpu.notes) if note)]
    if plan is not None:
        lines += ["", f"## The engine on {plain(found.gpus[0].name)}", ""]
        lines += summary_markdown(plan, top, names=_names(found.gpus[0]), level=3)
    lines += ["", "## Assumed", "", *(f"- {plain(note)}" for note in found.assumptions)]
    return "\n".join(lines) + "\n"


# --- the picture ----------------------------------------------------------------------------


def render_image(found: Prediction, suffix: str) -> bytes:
    """The roofline of each GPU, a panel each.

    Args:
        found: The prediction.
        suffix: ``.svg`` or ``.png``.

    Raises:
        UsageError: No layer computes and moves anything, so that there is nothing to draw.
    """
    plots = [plot for gpu in found.gpus if (plot := _roofline.plot_of(gpu)) is not None]
    if not plots:
        raise UsageError(
            f"there is no roofline to draw of {found.model.name}",
            why="none of its layers both computes and moves anything",
            fix="--format text",
        )
    return _roofline.as_image(plots, suffix)
