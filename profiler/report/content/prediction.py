"""What `trtprof predict` says: GPUs side by side, the layers, and the roofline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from profiler.base.records import BOUND_WORDS, GpuPrediction, PredictedLayer, Prediction, bound_name
from profiler.base.units import format_bytes, format_flops, format_ns, format_percent
from profiler.report import ReportOptions, _roofline, content_of
from profiler.report._format import count, input_text
from profiler.report.content.inspection import unpriced
from profiler.report.content.plan import (
    NAMED,
    engine_text,
    fates_of,
    fates_text,
    layer_title,
    layers_text,
    lost_nodes,
    nodes_of,
    op_runs,
    summary_of,
    titles,
    worth_a_look,
)
from profiler.report.document import (
    Block,
    Column,
    Document,
    Heading,
    Notes,
    Pair,
    Pairs,
    Picture,
    Row,
    Section,
    Table,
    Under,
    name,
    prose,
    sections,
)

LAYERS = 10
"""Layers that a report for people shows of one GPU unless asked for more or less."""
LAYERS_OF_MANY = 3
"""The same where there are several GPUs."""
PICTURES = 3
"""Rooflines in a report."""


@content_of(Prediction)
def document(found: Prediction, options: ReportOptions) -> Document:
    """The GPUs compared, or the one in short; the layers of each; the engine where one was built."""
    model, first, many = found.model, found.gpus[0], len(found.gpus) > 1
    shown = options.top if options.top is not None else LAYERS_OF_MANY if many else LAYERS
    what = {"groups": "estimated groups, no engine built", "nodes": "node by node", "layers": "layers of the engine"}
    head = [f"  in   {input_text(tensor)}" for tensor in model.inputs]
    head += [f"  {label:<7}{text}" for label, text in _engine(found)]
    looks = worth_a_look(first.plan, titles(first.layers)) if first.plan is not None else []
    look = Pairs(tuple(Pair("" if at else "look at", text, None, "") for at, text in enumerate(looks)))
    notes = [f"{gpu.name}: {note}" for gpu in found.gpus for note in gpu.notes] if many else list(first.notes)
    lost = [fate for fate in found.fates if fate.fate == "lost"]
    names = _precision_names(found)
    plots = [(gpu, plot) for gpu in found.gpus[:PICTURES] if (plot := _roofline.plot_of(gpu)) is not None]
    engine: list[Section] = []
    if first.plan is not None:
        engine = [*sections([Heading(f"the engine on {first.name}")])]
        engine += sections(*summary_of(first.plan, options.top, names=titles(first.layers)))
    return Document(
        title=prose(f"{model.name}   {count(model.nodes, 'node')}   precision {found.precision}   {what[found.level]}"),
        sections=sections(
            Section(blocks=(Notes(tuple(map(prose, head)), 1),), tight=True),
            [*(_compared(found) if many else [Notes((_board(first),)), Pairs(tuple(_summary(first, found)))]), look],
            [_precisions(found, names)] if names else [],
            *([_layers(gpu, shown, rest=not many)] for gpu in found.gpus),
            lost_nodes(lost, {}, NAMED),
            *engine,
            *(Section(blocks=(Heading(f"roofline of {gpu.name}"), _picture(plot))) for gpu, plot in plots),
            [Notes((
                *unpriced(found.unsupported), *notes, *(f"assumed: {note}" for note in found.assumptions),
            ))],
        ),
    )  # fmt: skip


def longest(gpu: GpuPrediction) -> list[PredictedLayer]:
    """Its layers by the time that they take in an inference; those without an estimate last."""
    return sorted(gpu.layers, key=lambda layer: (layer.estimate is None, -_ns(layer)))


def _ns(layer: PredictedLayer) -> int:
    return 0 if layer.estimate is None else layer.estimate.attainable_ns * layer.repeats


def _picture(plot: _roofline.Plot) -> Picture:
    return Picture(lambda width, ascii_only: _roofline.in_characters(plot, width, ascii_only=ascii_only))


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


def _board(gpu: GpuPrediction) -> str:
    return f"{gpu.name} at {gpu.clock_mhz:g} MHz, {f'{gpu.tdp_w:g} W' if gpu.tdp_w else 'power limit not known'}"


def _summary(gpu: GpuPrediction, found: Prediction) -> Iterator[Pair]:
    launches = sum(layer.repeats for layer in gpu.layers)
    priced = sum(layer.estimate is not None for layer in gpu.layers)
    lacking = f"; {len(gpu.layers) - priced:,} of {count(len(gpu.layers), 'layer')} unpriced"
    partly = lacking if priced < len(gpu.layers) else ""
    of = "of what is priced, " if partly else ""
    floor = "" if gpu.ideal_ns is None else f"; without their floor {format_ns(gpu.ideal_ns)}"
    time = f"{_time(gpu)}   {_rate(gpu)} /s   {_energy(gpu)}{partly}"
    fits = "fits" if found.memory_bytes <= gpu.memory_bytes else "does not fit"
    memory = f"at least {format_bytes(found.memory_bytes)} of {format_bytes(gpu.memory_bytes)}"
    for label, text in (
        ("time", time if gpu.time_ns is not None else f"unknown{partly}"),
        ("launches", f"{'at least ' if partly else ''}{launches:,}{floor}"),
        ("verdict", f"no verdict: {found.unpriced}" if gpu.time_ns is None else f"{of}{_class(gpu)}: {_bounds(gpu)}"),
        ("ridge", f"{_ridges(gpu)} FLOP/byte"),
        ("memory", f"{fits}: {memory}"),
    ):
        yield Pair(label, prose(text), 1 if label in ("time", "launches", "memory") else None, "")


def _time(gpu: GpuPrediction) -> str:
    return "unknown" if gpu.time_ns is None else format_ns(gpu.time_ns)


def _rate(gpu: GpuPrediction) -> str:
    """Inferences per second."""
    rate = 1e9 / gpu.time_ns if gpu.time_ns else 0.0
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}" if rate else "-"


def _energy(gpu: GpuPrediction) -> str:
    """At most so much, because it is at the power limit."""
    if not gpu.tdp_w or gpu.joules is None:
        return "-"
    return f"<{gpu.joules * 1e3:.3g} mJ" if gpu.joules < 1 else f"<{gpu.joules:.3g} J"


def _bounds(gpu: GpuPrediction) -> str:
    shares = (
        f"{bound_name(bound)} {format_percent(ns / gpu.time_ns)}"
        for bound, ns in gpu.ns_by_bound.items()
        if gpu.time_ns
    )
    return ", ".join(shares) or "-"


def _class(gpu: GpuPrediction) -> str:
    """What most of the time is bounded by, as a person says it."""
    ns: dict[str, int] = {}
    for bound, each in gpu.ns_by_bound.items():
        side = BOUND_WORDS[bound].side
        ns[side] = ns.get(side, 0) + each
    return f"{max(ns, key=lambda name: ns[name])}-bound" if ns else "nothing to do"


def _ridges(gpu: GpuPrediction) -> str:
    """Dtypes with one ridge together."""
    names: dict[str, list[str]] = {}
    for dtype, ridge in sorted(gpu.ridge.items(), key=lambda item: (item[1], item[0])):
        names.setdefault(f"{ridge:.3g}", []).append(dtype)
    return ", ".join(f"{'/'.join(dtypes)} {ridge}" for ridge, dtypes in names.items())


def _compared(found: Prediction) -> list[Block]:
    rows = []
    for gpu in found.gpus:
        first = next(iter(gpu.ns_by_bound), None)
        bound = bound_name(first) if first is not None else "-" if gpu.time_ns is not None else "no price"
        share = f" {gpu.ns_by_bound[first] / gpu.time_ns:.0%}" if first is not None and gpu.time_ns else ""
        used = f"{100 * found.memory_bytes / gpu.memory_bytes:.2g}%"
        times = _time(gpu), "-" if gpu.ideal_ns is None else format_ns(gpu.ideal_ns)
        rows.append(Row((gpu.gpu, *times, _rate(gpu), _energy(gpu), bound + share, used)))
    heads = ("time", "no floor", "per s", "energy", "bound", "memory")
    by_slug = {gpu.gpu: gpu for gpu in found.gpus}
    fastest, frugal = by_slug.get(found.fastest), by_slug.get(found.most_efficient)
    verdict: tuple[str, ...] = (f"no verdict: {found.unpriced}",)
    if fastest is not None and frugal is not None:
        verdict = (
            f"fastest: {fastest.name}, {_time(fastest)}",
            f"most efficient per watt: {frugal.name}, {_energy(frugal)} an inference",
        )
    columns = (Column("GPU", cut="end", least=8, key=True), *(Column(head, right=True) for head in heads))
    return [Table(columns=columns, rows=rows, stack=True), Notes(verdict)]


def _precision_names(found: Prediction) -> list[str]:
    """The precisions that are told of at least one GPU: of a built engine not all of them are."""
    return list(dict.fromkeys(name for gpu in found.gpus for name in gpu.by_precision))


def _precisions(found: Prediction, names: Sequence[str]) -> Table:
    rows = [Row((gpu.gpu, *(_time_at(gpu, name) for name in names))) for gpu in found.gpus]
    columns = (Column("GPU", cut="end", least=8, key=True), *(Column(name, right=True) for name in names))
    marked = "; ~ of estimated groups, no engine" if any(gpu.estimated_precisions for gpu in found.gpus) else ""
    return Table(columns=columns, rows=rows, stack=True, title=f"time by precision (here: {found.precision}{marked})")


def _time_at(gpu: GpuPrediction, precision: str) -> str:
    ns = gpu.by_precision.get(precision, 0)
    if ns is None:
        return "no unit"
    return f"{'~' * (precision in gpu.estimated_precisions)}{format_ns(ns)}" if ns else "-"


def _layers(gpu: GpuPrediction, top: int, *, rest: bool) -> Table:
    ordered = longest(gpu)
    return Table(
        columns=(
            Column("time", right=True, least=8),
            Column("share", right=True, least=6, drop=1),
            Column("bound, and the next it beat", least=30),
            Column("layer", least=16, cut="start"),
        ),
        rows=[_layer(layer, gpu, rest=rest) for layer in ordered[:top]],
        title=f"layers of {gpu.name}, longest first ({min(top, len(ordered))} of {len(ordered)})",
    )


def _layer(layer: PredictedLayer, gpu: GpuPrediction, *, rest: bool) -> Row:
    times = f"{layer.repeats} x " if layer.repeats != 1 else ""
    title = times, name(layer_title(layer.name, layer.nodes) if layer.kind else layer.name, "start")
    if layer.estimate is None:
        return Row(("-", "-", "no price", title), (Under(prose(layer.reason), at=2),))
    share = format_percent(_ns(layer) / gpu.time_ns) if gpu.time_ns else "-"
    # The types of several nodes of an engine's layer stand before their names.
    kinds = layer.kind if layer.kind and len(layer.nodes) > 1 else _kinds(layer)
    under = [Under(prose(f"{kinds}  {_work(layer)}  {layer.shapes}"), at=2)]
    if layer.kind and len(layer.nodes) > 1:
        under.append(Under(nodes_of(layer.nodes, before=f"{_few(op_runs(_types(layer)), 3)}:"), lines=2, at=2))
    if layer.match in ("inferred", "none"):
        sure = {"inferred": "nodes inferred", "none": "no node found"}[layer.match]
        under.append(Under(prose(f"{sure}: {layer.reason}" if layer.reason else sure), at=2))
    terms = sorted(layer.estimate.terms.items(), key=lambda item: -item[1])
    others = [f"{bound_name(term)} {format_ns(ns)}" for term, ns in terms if ns]
    if rest and others[2:]:
        under.append(Under(f"then {', '.join(others[2:])}", at=2))
    return Row((format_ns(_ns(layer)), share, _terms(layer), title), tuple(under))


def _terms(layer: PredictedLayer) -> str:
    """What binds and what it beat: ``memory 248 us, next L2 48.6 us``."""
    estimate = layer.estimate
    if estimate is None:
        return "no price"
    text = f"{bound_name(estimate.bound)} {format_ns(estimate.terms.get(estimate.bound, estimate.attainable_ns))}"
    if estimate.runner_up == "none":
        return text
    return f"{text}, next {bound_name(estimate.runner_up)} {format_ns(estimate.terms.get(estimate.runner_up, 0))}"


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
        return layer.kind if words == [layer.kind] else f"{layer.kind}: {_few(words, 4)}"
    return _few(words, 4) if len(words) <= 4 else f"{layer.rule}: {_few(words, 4)}"
