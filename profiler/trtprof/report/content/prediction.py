"""What `trtprof predict` says: GPUs side by side, and the layers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from trtprof.base import records
from trtprof.base.units import format_bytes, format_flops, format_ns, format_percent
from trtprof.report import ReportOptions, content_of
from trtprof.report._estimates import BAND, WIDER, about, at_least, band, with_band
from trtprof.report._format import count, input_text
from trtprof.report.content.inspection import unpriced
from trtprof.report.content.plan import (
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
from trtprof.report.document import (
    Block,
    Column,
    Document,
    Heading,
    Notes,
    Pair,
    Pairs,
    Row,
    Section,
    Span,
    Table,
    Under,
    name,
    prose,
    sections,
)

LAYERS = 10  # Layers that a report for people shows of one GPU unless asked for more or less
LAYERS_OF_MANY = 3  # The same where there are several GPUs
REASONS = 3  # Reasons why layers have no expectation, or a wider band, that are told; the JSON and the page have all


@content_of(records.Prediction)
def document(found: records.Prediction, options: ReportOptions) -> Document:
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
    of_method = [note for note in found.assumptions if note not in model.assumptions]
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
            *([_layers(gpu, shown)] for gpu in found.gpus),
            lost_nodes(lost, {}, NAMED),
            *engine,
            [Notes((*unpriced(found.unsupported), *notes, *_assumed(model.assumptions)))],
            Section(blocks=(Notes((f"{count(len(of_method), 'assumption')} of the method: -o FILE.md lists them",)),),
                    where="screen", tight=True),
            Section(blocks=(Notes(tuple(_assumed(of_method))),), where="paper"),
        ),
    )  # fmt: skip


def _assumed(notes: Iterable[str]) -> Iterator[str]:
    yield from (f"assumed: {note}" for note in notes)


def longest(gpu: records.GpuPrediction) -> list[records.PredictedLayer]:
    """Its layers by the time that they take in an inference; those without an estimate last."""
    return sorted(gpu.layers, key=lambda layer: (layer.estimate is None, -layer.bound_ns))


def _engine(found: records.Prediction) -> Iterator[tuple[str, str]]:
    """Of a built engine: what it is, what it has of layers, and what became of the nodes."""
    if found.engine is not None:
        yield "engine", engine_text(found.engine)
        if found.engine.precision:
            yield "built", found.engine.precision
        if found.gpus[0].plan is not None:
            yield "layers", layers_text(found.engine, found.gpus[0].plan)
    if found.fates:
        yield "nodes", fates_text(fates_of(found.fates))


def _board(gpu: records.GpuPrediction) -> str:
    return f"{gpu.name} at {gpu.clock_mhz:g} MHz, {f'{gpu.tdp_w:g} W' if gpu.tdp_w else 'power limit not known'}"


def _summary(gpu: records.GpuPrediction, found: records.Prediction) -> Iterator[Pair]:
    launches = sum(layer.repeats for layer in gpu.layers)
    priced = sum(layer.estimate is not None for layer in gpu.layers)
    lacking = f"; {len(gpu.layers) - priced:,} of {count(len(gpu.layers), 'layer')} unpriced"
    partly = lacking if priced < len(gpu.layers) else ""
    of = "of what is priced, " if partly else ""
    floor = "" if gpu.ideal_ns is None else f"; without their floor {at_least(gpu.ideal_ns)}"
    time = f"{_time(gpu)} (bound), {_rate(gpu)} /s{_at_power(gpu, _energy(gpu))}{partly}"
    fits = "fits" if found.memory_bytes <= gpu.memory_bytes else "does not fit"
    memory = f"at least {format_bytes(found.memory_bytes)} of {format_bytes(gpu.memory_bytes)}"
    yield Pair("time", prose(time if gpu.time_ns is not None else f"unknown{partly}"), None, "")
    if gpu.time_ns is not None:
        for label, words in _expected(gpu):
            yield Pair(label, words, None, "")
    for label, text in (
        ("launches", f"{'at least ' if partly else ''}{launches:,}{floor}"),
        ("verdict", f"no verdict: {found.unpriced}" if found.unpriced else f"{of}{_class(gpu)}: {_bounds(gpu)}"),
        ("ridge", f"{_ridges(gpu)} FLOP/byte"),
        ("memory", f"{fits}: {memory}"),
    ):
        yield Pair(label, prose(text), 1 if label in ("launches", "memory") else None, "")


def _expected(gpu: records.GpuPrediction) -> Iterator[tuple[str, Span | str]]:
    """The forecast with its band, or why there is none; then of how many layers there is no expectation, and why."""
    if gpu.expected_ns is None:
        yield "expected", f"no forecast: {gpu.expected_reason}"
    else:
        rate = f"{_expected_rate(gpu)} /s{_at_power(gpu, _expected_energy(gpu))}"
        yield "expected", Span(f"{with_band(gpu)}{_wider(gpu)}, {rate}", "estimate")
        if ns := gpu.expected_ns_by_basis.get("corrected"):
            yield "", f"of it {format_percent(ns / gpu.expected_ns)} corrected by kernels that were timed on this GPU"
        if unsure := _unsure(gpu):
            yield "", f"of it {unsure}: shown, and no verdict rests on it"
    refused = sum(gpu.refused_layers.values())
    if refused:
        yield "", f"{refused:,} of {count(len(gpu.layers), 'layer')} without: {at_least(gpu.refused_ns)}"
        yield from (("", f"  {text}") for text in _reasons(gpu.refused_layers))
    if gpu.wider_layers:
        yield "", f"{WIDER} of {count(sum(gpu.wider_layers.values()), 'layer')} the band of what was not measured:"
        yield from (("", f"  {text}") for text in _reasons(gpu.wider_layers))


def _reasons(layers: Mapping[str, int]) -> Iterator[str]:
    for reason, number in list(layers.items())[:REASONS]:
        yield f"{number:,} x {reason}"
    if len(layers) > REASONS:
        rest = list(layers.values())[REASONS:]
        yield f"{sum(rest):,} more, for {count(len(rest), 'other reason')}"


def _wider(one: records.GpuPrediction | records.PredictedLayer) -> str:
    """The mark of an expectation that holds, or contains, what was not measured itself."""
    return WIDER if one.expected_basis in records.WIDER_BASES else ""


def _time(gpu: records.GpuPrediction) -> str:
    return "unknown" if gpu.time_ns is None else at_least(gpu.time_ns)


def _rate(gpu: records.GpuPrediction) -> str:
    """Inferences per second, at most."""
    return f"<= {_per_second(gpu.time_ns)}" if gpu.time_ns else "-"


def _expected_rate(gpu: records.GpuPrediction) -> str:
    """Inferences per second to be expected; where layers have no expectation, no more than that with their bound."""
    if not gpu.expected_ns:
        return "-"
    return f"{'<= ' if gpu.refused_ns else ''}~{_per_second(gpu.forecast_ns or 0)}"


def _per_second(ns: int) -> str:
    rate = 1e9 / ns
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def _energy(gpu: records.GpuPrediction) -> str:
    """Of the bound, at the power limit."""
    return "-" if not gpu.tdp_w or gpu.joules is None else f">= {_joules(gpu.joules)}"


def _expected_energy(gpu: records.GpuPrediction) -> str:
    """The same of what is expected; where layers have no expectation, no less than that with their bound."""
    if not gpu.tdp_w or gpu.expected_joules is None:
        return "-"
    return f"{'>= ' if gpu.refused_ns else ''}~{_joules(gpu.expected_joules)}"


def _joules(joules: float) -> str:
    return f"{joules * 1e3:.3g} mJ" if joules < 1 else f"{joules:.3g} J"


def _at_power(gpu: records.GpuPrediction, energy: str) -> str:
    """An energy and the limit that it is at, behind a time; empty of a board whose limit is not known."""
    return f", {energy} at {gpu.tdp_w:g} W" if gpu.tdp_w else ""


_UNSURE: dict[records.ExpectedBasis, str] = {
    "extrapolated": "of shapes outside of those that were measured",
    "product": "of convolutions taken for products",
}


def _unsure(gpu: records.GpuPrediction) -> str:
    """How much of a forecast no verdict may rest on, by what it is made of: ``30 % of convolutions as products``."""
    parts = [(words, gpu.expected_ns_by_basis.get(basis, 0)) for basis, words in _UNSURE.items()]
    return " and ".join(f"{format_percent(ns / (gpu.expected_ns or 1))} {words}" for words, ns in parts if ns)


def _bounds(gpu: records.GpuPrediction) -> str:
    shares = (
        f"{records.bound_name(bound)} {format_percent(ns / gpu.time_ns)}"
        for bound, ns in gpu.ns_by_bound.items()
        if gpu.time_ns
    )
    return ", ".join(shares) or "-"


def _class(gpu: records.GpuPrediction) -> str:
    """What most of the time is bounded by, as a person says it."""
    ns: dict[str, int] = {}
    for bound, each in gpu.ns_by_bound.items():
        side = records.BOUND_WORDS[bound].side
        ns[side] = ns.get(side, 0) + each
    return f"{max(ns, key=lambda name: ns[name])}-bound" if ns else "nothing to do"


def _ridges(gpu: records.GpuPrediction) -> str:
    """Dtypes with one ridge together."""
    names: dict[str, list[str]] = {}
    for dtype, ridge in sorted(gpu.ridge.items(), key=lambda item: (item[1], item[0])):
        names.setdefault(f"{ridge:.3g}", []).append(dtype)
    return ", ".join(f"{'/'.join(dtypes)} {ridge}" for ridge, dtypes in names.items())


def _compared(found: records.Prediction) -> list[Block]:
    rows = []
    for gpu in found.gpus:
        first = next(iter(gpu.ns_by_bound), None)
        bound = records.bound_name(first) if first is not None else "-" if gpu.time_ns is not None else "no price"
        share = f" {gpu.ns_by_bound[first] / gpu.time_ns:.0%}" if first is not None and gpu.time_ns else ""
        used = f"{100 * found.memory_bytes / gpu.memory_bytes:.2g}%"
        floor = "-" if gpu.ideal_ns is None else at_least(gpu.ideal_ns)
        rate = _rate(gpu) if gpu.expected_ns is None else _expected_rate(gpu)
        rest = at_least(gpu.refused_ns) if gpu.refused_ns else "-"
        energy = _expected_energy(gpu) if found.fastest_by == "expectation" else _energy(gpu)
        rows.append(Row((gpu.gpu, _time(gpu), *_forecast(gpu), rest, rate, bound + share, used, floor, energy)))
    heads = ("per s", "bound by", "memory", "no floor", "energy")
    by_slug = {gpu.gpu: gpu for gpu in found.gpus}
    fastest, frugal = by_slug.get(found.fastest), by_slug.get(found.most_efficient)
    verdict: tuple[str, ...] = (f"no verdict: {found.unpriced}",)
    if fastest is not None and frugal is not None:
        energy = _energy(frugal) if found.fastest_by == "bound" else _expected_energy(frugal)
        efficient = f"most efficient per watt by the {found.fastest_by}: {frugal.name}"
        verdict = (
            f"fastest by the {found.fastest_by}: {_fastest(fastest, found)}",
            f"{efficient}, {energy} an inference at its power limit",
        )
    columns = (
        _key(found),
        Column("bound", right=True),
        Column("expected", right=True, kind="estimate"),
        Column(BAND, right=True, kind="estimate"),
        Column("the rest", right=True),
        *(Column(head, right=True) for head in heads),
    )
    return [Table(columns=columns, rows=rows, stack=True), Notes((*verdict, *_forecast_notes(found)))]


def _forecast(one: records.GpuPrediction | records.PredictedLayer) -> tuple[str, str]:
    """What to expect and its band, for two columns."""
    return f"{about(one)}{_wider(one)}", band(one)


def _best(gpu: records.GpuPrediction, found: records.Prediction) -> str:
    if found.fastest_by != "expectation" or gpu.expected_ns is None:
        return f"{_time(gpu)} (not each GPU has a forecast of the same layers)"
    rest = f" and {at_least(gpu.refused_ns)} for the rest" if gpu.refused_ns else ""
    return f"{with_band(gpu)}{_wider(gpu)}{rest}"


def _fastest(best: records.GpuPrediction, found: records.Prediction) -> str:
    """The fastest GPU, or all that take as long, and that time."""
    names = [gpu.name for gpu in found.gpus if _best(gpu, found) == _best(best, found)]
    return f"{'a tie of ' if len(names) > 1 else ''}{', '.join(names)}, {_best(best, found)}"


def _forecast_notes(found: records.Prediction) -> Iterator[str]:
    """Of several GPUs: how many layers have no expectation and mostly why, and what the mark is; alike ones as one."""
    alike: dict[str, list[str]] = {}
    for gpu in found.gpus:
        refused = sum(gpu.refused_layers.values())
        if not refused or gpu.time_ns is None:
            continue
        mostly = next(_reasons(gpu.refused_layers))
        text = f"{'' if gpu.expected_ns is not None else 'no forecast, '}{refused:,} of {len(gpu.layers):,} without"
        alike.setdefault(f"{text}: {mostly}", []).append(gpu.gpu)
    yield from (f"{', '.join(names)}: {text}" for text, names in alike.items())
    shares: dict[str, list[str]] = {}
    for gpu in found.gpus:
        if unsure := _unsure(gpu):
            shares.setdefault(unsure, []).append(gpu.gpu)
    yield from (f"{', '.join(names)}: of what is expected {unsure}" for unsure, names in shares.items())
    if any(gpu.wider_layers for gpu in found.gpus if gpu.expected_ns is not None):
        yield f"{WIDER} with the wider band of what was not measured itself"
    if any(gpu.refused_ns for gpu in found.gpus):
        yield "the rest: layers without an expectation, at their bound"


def _key(found: records.Prediction) -> Column:
    """The column of slugs, of which those of datasheets stay whole."""
    return Column("GPU", cut="end", least=min(24, max(len(gpu.gpu) for gpu in found.gpus)), key=True)


def _precision_names(found: records.Prediction) -> list[str]:
    """The precisions that are told of at least one GPU: of a built engine not all of them are."""
    return list(dict.fromkeys(name for gpu in found.gpus for name in gpu.by_precision))


def _precisions(found: records.Prediction, names: Sequence[str]) -> Table:
    rows = [Row((gpu.gpu, *(_time_at(gpu, name) for name in names))) for gpu in found.gpus]
    columns = (_key(found), *(Column(name, right=True, gap=1) for name in names))
    marked = "; ' of estimated groups, no engine" if any(gpu.estimated_precisions for gpu in found.gpus) else ""
    return Table(columns=columns, rows=rows, stack=True, title=f"bound by precision (here: {found.precision}{marked})")


def _time_at(gpu: records.GpuPrediction, precision: str) -> str:
    ns = gpu.by_precision.get(precision, 0)
    if ns is None:
        return "no unit"
    return f"{at_least(ns)}{chr(39) * (precision in gpu.estimated_precisions)}" if ns else "-"


def _layers(gpu: records.GpuPrediction, top: int) -> Table:
    ordered = longest(gpu)
    marks = [f"{WIDER} with the wider band of what was not measured itself"]
    return Table(
        columns=(
            Column("bound", right=True, least=9),
            Column("expected", right=True, least=9, kind="estimate", where="screen"),
            Column(BAND, right=True, least=12, kind="estimate", where="screen"),
            # A phone has room for the layer behind it where the band may stand below.
            Column("expected", kind="estimate", where="paper"),
            Column("share", right=True, least=6, drop=1),
            Column("layer", least=16, cut="start"),
        ),
        rows=[_layer(layer, gpu) for layer in ordered[:top]],
        title=f"layers of {gpu.name}, longest bound first ({min(top, len(ordered))} of {len(ordered)})",
        after=tuple(marks) if any(map(_wider, ordered[:top])) else (),
    )


def _layer(layer: records.PredictedLayer, gpu: records.GpuPrediction) -> Row:
    times = f"{layer.repeats} x " if layer.repeats != 1 else ""
    title = times, name(layer_title(layer.name, layer.nodes) if layer.kind else layer.name, "start")
    if layer.estimate is None:
        return Row(("no price", "-", "-", "-", "-", title), (Under(prose(layer.reason), indent=_INDENT),))
    share = format_percent(layer.bound_ns / gpu.time_ns) if gpu.time_ns else "-"
    # The types of several nodes of an engine's layer stand before their names.
    kinds = layer.kind if layer.kind and len(layer.nodes) > 1 else _kinds(layer)
    under = [Under(prose(f"{kinds}  {_work(layer)}  {layer.shapes}"), indent=_INDENT)]
    if layer.kind and len(layer.nodes) > 1:
        words = nodes_of(layer.nodes, before=f"{_few(op_runs(_types(layer)), 3)}:")
        under.append(Under(words, lines=2, indent=_INDENT))
    if layer.match in ("inferred", "none"):
        sure = {"inferred": "nodes inferred", "none": "no node found"}[layer.match]
        under.append(Under(prose(f"{sure}: {layer.reason}" if layer.reason else sure), indent=_INDENT))
    under.append(Under(_terms(layer, 2), lines=None, indent=_INDENT))
    if layer.expected_reason:
        why = layer.expected_reason if layer.expected_ns is not None else f"no expectation: {layer.expected_reason}"
        under.append(Under(why, lines=None, indent=_INDENT, whole=True))
    every = _all_runs(layer)
    both = f"{with_band(every)}{_wider(layer)}" or "-"
    cells = at_least(layer.bound_ns), *_forecast(every), Span(both, "estimate"), share, title
    return Row(cells, tuple(under))


_INDENT = 11  # Columns before what stands below a layer


def _all_runs(layer: records.PredictedLayer) -> records.PredictedLayer:
    """The layer with what to expect of all its runs in an inference."""
    if layer.repeats == 1 or layer.expected_ns is None:
        return layer
    return msgspec.structs.replace(
        layer,
        expected_ns=layer.expected_ns * layer.repeats,
        expected_p10_ns=(layer.expected_p10_ns or 0) * layer.repeats,
        expected_p90_ns=(layer.expected_p90_ns or 0) * layer.repeats,
    )


def _terms(layer: records.PredictedLayer, most: int | None) -> str:
    """The time of each unit alone, the longest first: ``memory >= 248 us, L2 >= 48.6 us``."""
    estimate = layer.estimate
    if estimate is None:
        return ""
    terms = sorted(((term, ns) for term, ns in estimate.terms.items() if ns), key=lambda item: -item[1])
    return ", ".join(f"{records.bound_name(term)} {at_least(ns)}" for term, ns in terms[:most])


def _work(layer: records.PredictedLayer) -> str:
    work = layer.work
    if work is None:
        return ""
    computed = f"{format_flops(work.flops)}{' ' + work.dtype if work.dtype else ''}, " if work.flops else ""
    return f"{computed}{format_bytes(work.bytes)}"


def _types(layer: records.PredictedLayer) -> list[str]:
    return layer.op_type.split(" + ")


def _few(words: Sequence[str], most: int) -> str:
    more = [f"{len(words) - most} more"] if len(words) > most else []
    return " + ".join((*words[:most], *more))


def _kinds(layer: records.PredictedLayer) -> str:
    """Op types in order: ``Conv + Relu``, ``attention: 3 Transpose + MatMul + Div + Add + 3 more``."""
    words = op_runs(_types(layer))
    if layer.kind:
        # A layer without nodes has its kind for a type.
        return layer.kind if words == [layer.kind] else f"{layer.kind}: {_few(words, 4)}"
    return _few(words, 4) if len(words) <= 4 else f"{layer.rule}: {_few(words, 4)}"


# --- one layer --------------------------------------------------------------------------------


@content_of(records.PredictedWhy)
def why(found: records.PredictedWhy, options: ReportOptions) -> Document:  # noqa: ARG001 - there is nothing to choose
    """The layer, then for each GPU its bound, its expectation, and the measurements that are most like it."""
    layer = found.gpus[0].layer
    sources = tuple(
        f"{source.name}: {source.repository} at {source.commit}, {source.licence}" for source in found.sources
    )
    return Document(
        title=(name(found.layer, "start"), f"  of {found.model}"),
        sections=sections(
            Section(blocks=(Notes((f"  {_kinds(layer)}  {_work(layer)}  {layer.shapes}",)),), tight=True),
            *(_why_on(gpu, found.covered) for gpu in found.gpus),
            [Notes(("measured by others:", *(f"  {source}" for source in sources)), hang=4)] if sources else None,
        ),
    )


def _why_on(gpu: records.LayerOnGpu, covered: float) -> Section:
    layer = gpu.layer
    runs = f", {layer.repeats:,} times in an inference" if layer.repeats != 1 else ""
    if layer.estimate is None:
        bound = f"no price: {layer.reason}"
    else:
        bound = f"{at_least(layer.estimate.attainable_ns)}: {_terms(layer, None)}"
    pairs = [Pair("bound", bound, None, "")]
    if layer.expected_ns is None:
        pairs.append(Pair("expected", f"no expectation: {layer.expected_reason}", None, ""))
    else:
        pairs.append(Pair("expected", Span(with_band(layer), "estimate"), None, ""))
        basis = layer.expected_reason or "this GPU was measured, and shapes around this one"
        held_out = f"{100 * covered:.0f} % of measurements that were held out lay in their band"
        pairs.append(Pair("basis", f"{basis}; {held_out}", None, ""))
    rows = [Row((row.gpu, row.dtype, format_ns(row.ns), row.source, prose(row.shape))) for row in gpu.nearest]
    table = Table(
        columns=(
            Column("measured on"),
            Column("dtype"),
            Column("time", right=True, kind="fact"),
            Column("by"),
            Column("its shape", cut="wrap"),
        ),
        rows=rows,
        title="most like it",
    )
    nothing = Notes(("nothing like it was measured",))
    return Section(
        title=gpu.name, blocks=(Heading(f"{gpu.name}{runs}"), Pairs(tuple(pairs)), table if rows else nothing)
    )
