"""What is said of a built engine: how it came about, its layers with their nodes, and what is worth a look.

The summary of a plan is part of several documents: of a build, an inspection, a prediction and a run.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from trtprof.base import records
from trtprof.base.plan_words import LAUNCHING, precision
from trtprof.base.units import format_bytes, format_flops, format_ns, format_percent
from trtprof.report import ReportOptions, content_of
from trtprof.report._estimates import at_least
from trtprof.report._format import BOUND_MARKS, count, dims_text, without_unit
from trtprof.report.document import (
    Bar,
    Block,
    Column,
    Document,
    Notes,
    Pair,
    Pairs,
    Row,
    Section,
    Span,
    Table,
    Under,
    Words,
    name,
    prose,
    sections,
)

LAYERS = 30  # Layers that a report for people shows unless asked for more or less
LAYERS_OF_A_PART = 8  # The same where the plan is a part of another report
EDGES = 5  # Fusions that did not happen, likewise; also groups of reformats and of lints
PLACES = 3  # Places of a lint, and reformats of one origin
NAMED = 10  # Lost nodes, bindings and shares of one table

FATE_WORDS = {"layer": "in layers", "folded": "folded", "eliminated": "eliminated", "lost": "lost"}
"""What became of nodes, in the order in which it is told."""


@content_of(records.EnginePlan)
def document(found: records.EnginePlan, options: ReportOptions) -> Document:
    """The plan, what is worth a look first."""
    bindings = [pair for mode in ("input", "output") for pair in _bindings(found.bindings, mode)]
    return Document(
        title=prose(engine_text(found.facts)),
        titled=False,
        least_width=60,
        sections=tuple(parts(found, options, LAYERS, bindings)),
    )


def parts(
    plan: records.EnginePlan, options: ReportOptions, layers: int, bindings: Sequence[Pair] = ()
) -> Iterator[Section]:
    """The plan as a part of another document.

    Args:
        options: ``top`` is how many layers to show, largest by bytes, and of fusions that did not happen.
    """
    names = layer_names(plan)
    top = options.top
    lost = [fate for fate in plan.fates if fate.fate == "lost"]
    remarks = (*(f"warning: {text}" for text in plan.facts.warnings), *(f"note: {text}" for text in plan.facts.notes))
    yield from sections(
        [Pairs(tuple(_heading(plan, names, bindings)))],
        [_layers(plan, layers if top is None else top)],
        lost_nodes(lost, plan.op_types, NAMED if top is None else top),
        *summary_of(plan.summary, top, names=names),
        [Notes(remarks)] if remarks else [],
    )


def layer_names(plan: records.EnginePlan) -> dict[str, str]:
    """What to call each layer: its place in the plan, and the last ONNX node that it computes.

    Names that an engine gives (``__myl_AddReshTran_myl0_2``) tell nobody where in the model that is.
    """
    names: dict[str, str] = {}
    for index, matched in enumerate(plan.layers):
        nodes = matched.nodes or matched.layer.onnx_nodes
        names.setdefault(matched.layer.name, f"#{index} {layer_title(matched.layer.name, nodes)}")
    return names


def layer_title(name: str, nodes: Sequence[str]) -> str:
    """The last of the ONNX nodes of a layer and how many others there are; its own name where there is none."""
    return (nodes[-1] if nodes else name) + (f" +{len(nodes) - 1}" if len(nodes) > 1 else "")


def titles(layers: Iterable[records.LayerResult | records.PredictedLayer]) -> dict[str, str]:
    """What to call the layers of an engine, by their names in its plan."""
    return {layer.name: layer_title(layer.name, layer.nodes) for layer in layers}


def _heading(plan: records.EnginePlan, names: Mapping[str, str], bindings: Sequence[Pair]) -> Iterator[Pair]:
    facts, summary = plan.facts, plan.summary
    build = "" if facts.build_ns is None else format_ns(facts.build_ns)
    told: list[tuple[str, Sequence[str]]] = [
        ("engine", [engine_text(facts)]),
        ("plan", [facts.era]),
        ("precision", [facts.precision]),
        ("build", [f"taken from the cache; it took {build}" if build and facts.cached else build]),
        ("", []),
        ("layers", [layers_text(facts, summary)]),
        ("nodes", [fates_text(fates_of(plan.fates)) or "no model was given to lead layers back to"]),
        ("matched", [match_text(summary) if summary.by_match else ""]),
        ("work", [_work_text(plan.works)]),
        ("look at", worth_a_look(summary, names) or ["nothing: no finding below"]),
    ]
    for label, texts in told:
        if not label:
            yield from bindings
        for at, text in enumerate(texts):
            if text:
                yield Pair("" if at else label, text, None, "")


def engine_text(facts: records.EngineFacts) -> str:
    """The engine in a line: what built it, where, and with what else."""
    versions = dict(facts.versions)
    own = versions.pop(facts.backend, "")
    others = (f"{name} {version}" for name, version in sorted(versions.items()))
    return ", ".join(filter(None, [f"{facts.backend or 'not known'} {own}".strip(), facts.device, *others]))


def layers_text(facts: records.EngineFacts, summary: records.PlanSummary) -> str:
    """How many layers there were and are: ``112 in the network -> 65 in the engine -> 60 launches``."""
    words = [f"{facts.network_layers:,} in the network"] if facts.network_layers else []
    launches = f"{summary.launches:,} launch{'' if summary.launches == 1 else 'es'}"
    return " -> ".join([*words, f"{summary.layers:,} in the engine", launches])


def fates_of(fates: Iterable[records.NodeFate]) -> dict[str, int]:
    """ONNX nodes by what became of them."""
    return dict(Counter(fate.fate for fate in fates))


def fates_text(fates: Mapping[str, int]) -> str:
    """What became of ONNX nodes: ``38: 36 in layers, 2 folded, 0 lost``; empty where no model was given."""
    told = [
        f"{fates.get(fate, 0):,} {words}" for fate, words in FATE_WORDS.items() if fates.get(fate) or fate == "lost"
    ]
    return f"{sum(fates.values()):,}: {', '.join(told)}" if fates else ""


def match_text(summary: records.PlanSummary) -> str:
    """How surely layers were led back to nodes: ``exact 98.0 %, inferred 2.0 % of bytes``."""
    shares = ", ".join(f"{share.what} {format_percent(share.fraction)}" for share in summary.by_match)
    return f"{shares} of {_whole(summary)}"


def _whole(summary: records.PlanSummary) -> str:
    """What the shares of a summary are shares of."""
    return "time" if any(share.ns is not None for share in summary.by_kind) else "bytes"


def _work_text(works: Sequence[records.Work | None]) -> str:
    known = [work for work in works if work is not None]
    moved, computed = sum(work.bytes for work in known), sum(work.flops for work in known)
    unknown = len(works) - len(known)
    if works and not known:
        return "not known of any layer"
    return f"{format_bytes(moved)}, {format_flops(computed)}" + (
        f"; without a price: {count(unknown, 'layer')}" if unknown else ""
    )


def _bindings(bindings: Sequence[records.PlanBinding], mode: str) -> Iterator[Pair]:
    of_mode = [binding for binding in bindings if binding.mode == mode]
    for index, binding in enumerate(of_mode[:NAMED]):
        words = name(binding.name, "start"), f"  {binding.dtype} {dims_text(binding.dims)}"
        yield Pair("" if index else mode, words, 1, "")
    if len(of_mode) > NAMED:
        yield Pair("", f"{len(of_mode) - NAMED:,} more")


def worth_a_look(summary: records.PlanSummary, names: Mapping[str, str] | None = None) -> list[str]:
    """What stands out in a plan, a line each, most telling first."""
    lines = []
    expected = [edge for edge in summary.edges if edge.expected]
    if expected:
        moved = format_bytes(sum(edge.bytes for edge in expected))
        first = _ranked(expected)[0]
        saved = f" (~{format_ns(first.saved_ns)})" if first.saved_ns else ""
        lines.append(
            f"{count(len(expected), 'fusion')} to be expected did not happen: {moved} through memory, "
            f"most{saved} from {_called(first.maker, names)} to {_readers(first, names)}"
        )
    if summary.reformats:
        moved = format_bytes(sum(one.bytes or 0 for one in summary.reformats))
        origins = Counter(one.origin for one in summary.reformats)
        told = ", ".join(f"{number} {origin or 'unknown'}" for origin, number in origins.most_common(EDGES))
        told += f", {len(origins) - EDGES:,} more origins" if len(origins) > EDGES else ""
        lines.append(f"{count(len(summary.reformats), 'reformat')}, {moved}: {told}")
    kinds = Counter((lint.code, lint.what) for lint in summary.lints)
    lines += [f"{code} at {count(number, 'layer')}: {what}" for (code, what), number in kinds.most_common(EDGES)]
    if len(kinds) > EDGES:
        lines.append(f"{len(kinds) - EDGES:,} more kinds of places worth checking")
    lost = summary.fates.get("lost", 0)
    if lost:
        lines.append(f"{count(lost, 'node')} lost: in no layer, and nothing says why")
    return lines


def _called(layer: str, names: Mapping[str, str] | None) -> str:
    return (names or {}).get(layer, layer)


def _readers(edge: records.PlanEdge, names: Mapping[str, str] | None) -> str:
    more = f" and {len(edge.readers) - 1} more" if len(edge.readers) > 1 else ""
    return (_called(edge.readers[0], names) if edge.readers else "nothing") + more


def _ranked(edges: Sequence[records.PlanEdge]) -> Sequence[records.PlanEdge]:
    """Edges with the most telling first: as they are where they have a price, else those to be expected by bytes."""
    if any(edge.saved_ns is not None for edge in edges):
        return edges
    return sorted(edges, key=lambda edge: (not edge.expected, -edge.bytes))


def lost_nodes(lost: Sequence[records.NodeFate], op_types: Mapping[str, str], most: int) -> list[Block]:
    """Nodes that are lost, a line each with the reason."""
    rows: list[Words] = []
    for fate in lost[:most]:
        kind = op_types.get(fate.node, "")
        why = prose(f": {fate.reason}" if fate.reason else "")
        rows.append(("  ", f"{kind} " if kind else "", name(fate.node, "start", least=1 / 3), why))
    if len(lost) > most:
        rows.append(f"  {len(lost) - most:,} more")
    return [Notes(("nodes that are lost", *rows), 1)] if rows else []


# --- the layers -----------------------------------------------------------------------------


def _layers(plan: records.EnginePlan, most: int) -> Block:
    rows = list(zip(plan.layers, plan.works, strict=True))
    if not rows:
        return Notes(("no layers",))
    shown: Sequence[int] = range(len(rows))
    title = f"{count(len(rows), 'layer')}, in execution order"
    if len(rows) > most:
        largest = sorted(shown, key=lambda at: (-_moved(*rows[at]), at))[:most]
        shown = sorted(largest)
        title = f"{most:,} of {count(len(rows), 'layer')}, largest by bytes, in execution order"
    number = len(f"{len(rows) - 1}")
    changes = {one.layer: one.change for one in plan.summary.reformats}
    made: list[Row] = []
    for idle, group in itertools.groupby(shown, key=lambda at: rows[at][0].role not in LAUNCHING):
        if idle:
            kinds = Counter(rows[at][0].layer.kind for at in group)
            words = tuple(kind if several == 1 else f"{several} {kind}" for kind, several in kinds.items())
            made.append(Row(across=(f"{'':>{number}} (", Span("", items=words), ": launch nothing)")))
        else:
            made += [_layer(at, *rows[at], plan.op_types, changes, number) for at in group]
    marks = {
        "~": ("led back by inference", any(rows[at][0].match == "inferred" for at in shown)),
        "*": ("a node in several layers", any(rows[at][0].shared for at in shown)),
        "<": ("at most", any(work is not None and work.bound == "upper" for _, work in (rows[at] for at in shown))),
        ">": ("at least", any(work is not None and work.bound == "lower" for _, work in (rows[at] for at in shown))),
    }
    legend = ", ".join(f"{mark} {words}" for mark, (words, used) in marks.items() if used)
    return Table(
        columns=(
            Column("#", right=True, least=number),
            Column("kind", gap=1, least=4, most=15, cut="middle"),
            Column("type", gap=1, least=4, most=10, cut="middle"),
            Column("bytes", right=True, gap=1, least=8),
            Column("FLOP", right=True, gap=1, least=8),
            Column("ONNX nodes", cut="end"),
        ),
        rows=made,
        title=title,
        after=(legend,) if legend else (),
    )


def _moved(matched: records.MatchedLayer, work: records.Work | None) -> int:
    return (matched.layer.nbytes or 0) if work is None else work.bytes


def _layer(
    index: int,
    matched: records.MatchedLayer,
    work: records.Work | None,
    types: Mapping[str, str],
    changes: Mapping[str, str],
    number: int,
) -> Row:
    layer = matched.layer
    nodes = matched.nodes or layer.onnx_nodes
    flops = "-" if work is None else f"{BOUND_MARKS[work.bound]}{without_unit(work.flops)}"
    mark = "~" if matched.match == "inferred" else ""
    return Row(
        (str(index), layer.kind, precision(matched, work), _bytes(_moved(matched, work)), flops,
         (mark, *_what(matched, nodes, types, changes))),
        (Under(nodes_of(nodes, matched.shared), lines=2, indent=number + 3),) if len(nodes) > 1 else (),
    )  # fmt: skip


def nodes_of(nodes: Sequence[str], shared: Sequence[str] = (), before: str = "") -> Span:
    """Names of nodes, the folder that they share said once and those ``shared`` starred."""
    folder = _folder(nodes)
    starred = frozenset(shared)
    names = tuple(f"{node[len(folder) :]}{'*' if node in starred else ''}" for node in nodes)
    return Span(" ".join(filter(None, (before, folder))), items=names)


def _what(
    matched: records.MatchedLayer, nodes: Sequence[str], types: Mapping[str, str], changes: Mapping[str, str]
) -> Iterator[Span | str]:
    """What a layer computes: the types of its nodes, or its only node."""
    layer = matched.layer
    role = "(layout) " if matched.role == "layout" else ""
    if not nodes and role and layer.name in changes:
        yield from (role, prose(changes[layer.name]))
    elif not nodes:
        yield from (role or "(no node) ", name(f"for {layer.serves}" if layer.serves else layer.name, "start"))
    elif len(nodes) == 1:
        kind = types.get(nodes[0], "")
        yield from (role, Span(kind, cut="middle", least=0.5), " " if kind else "", name(nodes[0], "start", least=8))
        yield "*" if matched.shared else ""
    else:
        runs = op_runs(types.get(node, "") for node in nodes)
        yield role
        yield Span("", items=tuple(runs), between=" + ") if runs else count(len(nodes), "node")


def op_runs(types: Iterable[str]) -> list[str]:
    """Op types in order, neighbours that are alike counted: ``Conv``, ``3 Relu``."""
    runs = ((kind, sum(1 for _ in same)) for kind, same in itertools.groupby(types))
    return [kind if number == 1 else f"{number} {kind}" for kind, number in runs if kind]


def _folder(nodes: Sequence[str]) -> str:
    """The folder that all nodes lie in, with its last slash; empty where it tells nothing."""
    # The first and the last in the order of the alphabet differ soonest.
    low, high = min(nodes), max(nodes)
    same = next((at for at, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), len(low) - 1)
    end = low.rfind("/", 0, max(min(same, len(low) - 1), 0))
    return low[: end + 1] if end > 0 else ""


def _bytes(total: int | None) -> str:
    """A sum over layers, which is 0 where nothing moves and where nothing is known."""
    return format_bytes(total) if total else "-"


# --- the summary ----------------------------------------------------------------------------


def summary_of(
    summary: records.PlanSummary,
    top: int | None = None,
    *,
    measured: bool = False,
    names: Mapping[str, str] | None = None,
) -> Iterator[list[Block]]:
    """What is to be learnt of a plan as a whole."""
    most = EDGES if top is None else top
    if summary.edges:
        yield [_edges(summary.edges, most, names)]
    if summary.reformats:
        yield [_reformats(summary.reformats, most, names, measured=measured)]
    if summary.lints:
        yield [_lints(summary.lints, most, names)]
    yield [_shares(summary, measured=measured)]


def _edges(edges: Sequence[records.PlanEdge], most: int, names: Mapping[str, str] | None) -> Table:
    moved = format_bytes(sum(edge.bytes for edge in edges))
    expected = sum(edge.expected for edge in edges)
    shown = f"{len(edges):,}" if len(edges) <= most else f"{most:,} of {len(edges):,}"
    priced = any(edge.saved_ns is not None for edge in edges)
    rows = []
    for edge in _ranked(edges)[:most]:
        saved = "-" if edge.saved_ns is None else f"~{format_ns(edge.saved_ns)}"
        maker = name(_called(edge.maker, names), "numbered", least=8)
        ends = maker, " -> ", name(_readers(edge, names), "numbered", least=0.4)
        verdict = f"{edge.kind}, {'to be expected' if edge.expected else 'not to be expected'}"
        why = f"{verdict}{': ' if edge.reason else ''}{edge.reason}"
        cells = (*([saved] if priced else []), format_bytes(edge.bytes), ends)
        rows.append(Row(cells, (Under(why, lines=None, hang=2),)))
    return Table(
        columns=(
            *([Column("would save", right=True, least=10, kind="estimate")] if priced else []),
            Column("bytes", right=True, least=8),
            Column("what, and why", cut="end"),
        ),
        rows=rows,
        title=f"fusions that did not happen: {shown}, {expected:,} to be expected; {moved} through memory",
    )  # fmt: skip


def _reformats(
    reformats: Sequence[records.PlanReformat], most: int, names: Mapping[str, str] | None, *, measured: bool
) -> Table:
    groups: dict[str, list[records.PlanReformat]] = {}
    for one in reformats:
        groups.setdefault(one.origin, []).append(one)
    timed = any(one.ns is not None for one in reformats)

    def size(group: Sequence[records.PlanReformat]) -> tuple[int, int]:
        return sum(one.ns or 0 for one in group), sum(one.bytes or 0 for one in group)

    rows = []
    ranked = sorted(groups.items(), key=lambda item: (*(-number for number in size(item[1])), item[0]))
    for origin, group in ranked[:most]:
        ns, moved = size(group)
        time = _timed(ns, measured=measured) if any(one.ns is not None for one in group) else "-"
        largest = sorted(group, key=lambda one: (-(one.ns or 0), -(one.bytes or 0)))[:PLACES]
        under = tuple(
            Under((Span(one.change, cut="middle", least=0.6), " for ",
                   name(_called(one.serves, names) or _called(one.layer, names), "numbered", least=8)))
            for one in largest
        )  # fmt: skip
        cells = (*([time] if timed else []), _bytes(moved), f"{len(group):,} x {origin or 'unknown'}")
        rows.append(Row(cells, under))
    if len(ranked) > most:
        rows.append(Row(across=f"  {len(ranked) - most:,} more origins"))
    return Table(
        columns=(
            *([Column(_time_title(measured), right=True, least=10)] if timed else []),
            Column("bytes", right=True, least=8),
            Column("origin, and the largest", cut="end"),
        ),
        rows=rows,
        title=f"reformats: {len(reformats):,}, by origin",
    )  # fmt: skip


def _time_title(measured: bool) -> str:
    return "measured" if measured else "allows"


def _timed(ns: int, *, measured: bool) -> str:
    """A measured time, or one that is no more than a bound."""
    return format_ns(ns) if measured else at_least(ns)


def _lints(lints: Sequence[records.PlanLint], most: int, names: Mapping[str, str] | None) -> Table:
    groups: dict[tuple[str, str], list[records.PlanLint]] = {}
    for lint in lints:
        groups.setdefault((lint.code, lint.what), []).append(lint)
    rows = []
    for (code, what), group in list(groups.items())[:most]:
        under: list[Under] = []
        # Of the places that are shown, each stands above what to try there.
        remedies: dict[str, list[records.PlanLint]] = {}
        for lint in group[:PLACES]:
            remedies.setdefault(lint.try_, []).append(lint)
        for remedy, places in remedies.items():
            under += [
                Under(
                    (name(_called(lint.layer, names), "numbered", least=8), ": " if lint.evidence else "",
                     Span(lint.evidence, cut="end", least=0.6)),
                    "at", indent=5,
                )
                for lint in places
            ]  # fmt: skip
            if len(group) > PLACES and len(remedies) == 1:
                under.append(Under(f"{len(group) - PLACES:,} more", indent=10))
            under.append(Under(remedy, "try", None, indent=5))
        if len(group) > PLACES and len(remedies) > 1:
            under.append(Under(f"{len(group) - PLACES:,} more places", indent=5))
        rows.append(Row(("", f"{code} x {len(group):,}: {what}"), tuple(under)))
    if len(groups) > most:
        rows.append(Row(across=f"  {len(groups) - most:,} more kinds"))
    return Table(
        columns=(Column(least=1), Column(gap=1, cut="wrap")),
        rows=rows,
        title=f"worth checking: {count(len(lints), 'place')}, by what it is",
        headless=True,
    )


def _shares(summary: records.PlanSummary, *, measured: bool) -> Table:
    timed = _whole(summary) == "time"
    rows: list[Row] = []
    groups = {"by kind": summary.by_kind, "by precision": summary.by_precision, "by match": summary.by_match}
    for title, shares in groups.items():
        if shares and title != "by kind":
            rows.append(Row(across=title))
        rows += [_share(share, timed=timed, measured=measured) for share in shares[:NAMED]]
        if len(shares) > NAMED:
            rows.append(Row(across=f"  {len(shares) - NAMED:,} more"))
    return Table(
        columns=(
            Column("by kind", least=20, most=20),
            Column("layers", right=True, gap=1, least=7),
            Column("bytes", right=True, gap=1, least=8),
            *([Column(_time_title(measured), right=True, gap=1, least=10)] if timed else []),
            Column(f"of {_whole(summary)}", right=True, gap=1, least=8),
            Column(most=20, where="screen"),
        ),
        rows=rows,
        headless=not rows,
    )


def _share(share: records.PlanShare, *, timed: bool, measured: bool) -> Row:
    time = [_timed(share.ns, measured=measured) if share.ns else "-"] if timed else []
    return Row((
        ("  ", name(share.what or "unknown")), f"{share.layers:,}", _bytes(share.bytes), *time,
        format_percent(share.fraction), Bar(0, share.fraction),
    ))  # fmt: skip
