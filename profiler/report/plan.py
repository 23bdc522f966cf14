"""What a built engine looks like: how it came about, its layers with their nodes, and what is worth a look.

The summary of a plan is shown in several reports: of a build, an inspection, a prediction and an analysis.
"""

from __future__ import annotations

import csv
import io
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from profiler.base.plan_words import LAUNCHING, precision
from profiler.base.records import (
    SCHEMA_VERSION,
    EngineFacts,
    EnginePlan,
    MatchedLayer,
    NodeFate,
    PlanBinding,
    PlanEdge,
    PlanLint,
    PlanReformat,
    PlanShare,
    PlanSummary,
    PlanTensor,
    Work,
)
from profiler.base.units import format_bytes, format_flops, format_ns, format_percent
from profiler.report._cells import cells, elide, head, pad, wrapped
from profiler.report._format import count, visible
from profiler.report._markdown import plain, table
from profiler.report.csv_ import safe

COLUMNS = (
    "index", "name", "kind", "role", "op_types", "nodes", "shared", "added", "match", "reason", "dtype",
    "tensor_flops", "vector_flops", "special_flops", "bytes_read", "bytes_written", "bytes_parameters",
    "work_bound", "work_note", "inputs", "outputs", "tactic", "stream", "profile", "serves", "origin",
)  # fmt: skip
"""Columns of the CSV: one row a layer, in execution order."""

LAYERS = 30
"""Layers that a report for people shows unless asked for more or less."""
LAYERS_OF_A_PART = 8
"""The same where the plan is a part of another report."""
EDGES = 5
"""Fusions that did not happen, likewise; also groups of reformats and of lints."""
PLACES = 3
"""Places of a lint, and reformats of one origin."""
NAMED = 10
"""Lost nodes, bindings and shares of one table."""

FATE_WORDS = {"layer": "in layers", "folded": "folded", "eliminated": "eliminated", "lost": "lost"}
"""What became of nodes, in the order in which it is told."""

_LABEL = 12
_MIN_WIDTH = 60
"""A narrower terminal gets lines made for this width, then cut to its own."""
_BOUNDS = {"exact": "", "upper": "<", "lower": ">", "mixed": "~"}


def render_json(plan: EnginePlan) -> str:
    """The plan as one JSON document, indented, which says of which version it is."""
    data = {"schema_version": SCHEMA_VERSION, **msgspec.to_builtins(plan, order="deterministic")}
    return msgspec.json.format(msgspec.json.encode(data), indent=1).decode() + "\n"


def render_csv(plan: EnginePlan) -> str:
    """All layers with a header row, exact numbers; lists are joined by ``;``, and empty is unknown."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for index, (matched, work) in enumerate(zip(plan.layers, plan.works, strict=True)):
        layer = matched.layer
        types = (plan.op_types.get(node, "") for node in matched.nodes)
        row: tuple[str | int | None, ...] = (
            index, layer.name, layer.kind, matched.role, ";".join(types), ";".join(matched.nodes),
            ";".join(matched.shared), ";".join(matched.added), matched.match, matched.reason,
            precision(matched, work).replace("unknown", ""),
            *((work.tensor_flops, work.vector_flops, work.special_flops, work.bytes_read, work.bytes_written,
               work.bytes_parameters, work.bound, work.note) if work else [None] * 8),
            ";".join(map(_tensor, layer.inputs)), ";".join(map(_tensor, layer.outputs)), layer.tactic, layer.stream,
            layer.profile, layer.serves, layer.origin,
        )  # fmt: skip
        writer.writerow(map(safe, row))
    return out.getvalue()


def _tensor(tensor: PlanTensor) -> str:
    return f"{tensor.name} {tensor.dtype} {_dims(tensor.dims)}"


def _dims(dims: tuple[int, ...] | None) -> str:
    return "?" if dims is None else "x".join("?" if dim < 0 else str(dim) for dim in dims) or "scalar"


# --- fitting --------------------------------------------------------------------------------


class _Page(NamedTuple):
    """How wide lines may be and which characters they may have."""

    width: int
    ascii_only: bool

    @property
    def dots(self) -> str:
        return "..." if self.ascii_only else "…"

    @property
    def bar(self) -> str:
        return "#" if self.ascii_only else "█"

    def safe(self, text: str) -> str:
        return visible(text, ascii_only=self.ascii_only)

    def middle(self, text: str, width: int) -> str:
        return elide(self.safe(text), width, self.dots)

    def tail(self, text: str, width: int) -> str:
        """A path, cut at its start, where it is like the others."""
        text = self.safe(text)
        if cells(text) <= width:
            return text
        return self.dots + head(text[::-1], max(width - len(self.dots), 0))[::-1]

    def layer(self, name: str, width: int) -> str:
        """The name of a layer, cut like a path behind its number."""
        number, space, path = name.partition(" ")
        if not number.startswith("#"):
            return self.tail(name, width)
        return f"{number}{space}{self.tail(path, width - len(number) - 1)}"

    def end(self, text: str, width: int) -> str:
        """Prose, cut at its end."""
        text = self.safe(text)
        return text if cells(text) <= width else head(text, width - len(self.dots)) + self.dots[:width]

    def wrapped(self, text: str, first: str, rest: str) -> Iterator[str]:
        """Prose in lines behind ``first`` and, from the second line on, behind ``rest``."""
        lines = wrapped(self.safe(text), self.width - max(len(first), len(rest)), self.dots)
        for line, before in zip(lines, itertools.chain([first], itertools.repeat(rest)), strict=False):
            yield before + line

    def filled(self, items: Sequence[str], between: str, width: int, lines: int, before: str = "") -> list[str]:
        """As many items as ``lines`` lines of ``width`` columns hold behind ``before``, and how many more there are."""
        out = [self.middle(before, width - len(f" {len(items):,} more"))]
        used = cells(out[0])
        for at, item in enumerate(items):
            rest = len(items) - at - 1
            more = len(f"{between}{rest:,} more") if rest else 0
            word = self.tail(item, max(width - more, 8))
            gap = between if at else " " if before else ""
            # In the last line there must be room to say how many more there are.
            kept = more if len(out) == lines else len(between) if rest else 0
            if used + len(gap) + cells(word) + kept <= width or not used + len(gap):
                out[-1] += gap + word
                used += len(gap) + cells(word)
            elif len(out) < lines:
                out[-1] += gap.rstrip()
                out.append(word)
                used = cells(word)
            else:
                out[-1] += f"{gap}{rest + 1:,} more"
                break
        return out

    def clipped(self, lines: Iterable[str], width: int) -> Iterator[str]:
        """The lines, none of them wider than asked for."""
        return (self.end(line.rstrip(), width).rstrip() for line in lines)


# --- text -----------------------------------------------------------------------------------


def render_text(plan: EnginePlan, width: int = 80, top: int | None = None, *, ascii_only: bool = False) -> str:
    """The plan as lines of at most ``width`` columns, what is worth a look first.

    Args:
        plan: The plan.
        width: Columns.
        top: Layers to show, largest by bytes, and fusions that did not happen; by default as many as fit a few pages.
        ascii_only: Write ASCII only.
    """
    page = _Page(max(width, _MIN_WIDTH), ascii_only)
    names = layer_names(plan)
    sections = [
        _heading(plan, page, names, bindings=True),
        *_body(plan, page, names, LAYERS if top is None else top, top),
        _remarks(plan.facts, page),
    ]
    return "".join(f"{line}\n" for line in page.clipped(_spaced(sections), width))


def plan_lines(plan: EnginePlan, width: int = 80, top: int | None = None, *, ascii_only: bool = False) -> Iterator[str]:
    """The plan as a part of another report: what `render_text` shows, with fewer layers and without the bindings.

    Args:
        plan: The plan.
        width: Columns.
        top: See `render_text`.
        ascii_only: Write ASCII only.
    """
    page = _Page(max(width, _MIN_WIDTH), ascii_only)
    names = layer_names(plan)
    sections = [
        _heading(plan, page, names, bindings=False),
        *_body(plan, page, names, LAYERS_OF_A_PART if top is None else top, top),
        _remarks(plan.facts, page),
    ]
    return page.clipped(_spaced(sections), width)


def note_lines(notes: Iterable[str], width: int, *, ascii_only: bool) -> Iterator[str]:
    """Sentences by others in lines of at most ``width`` columns."""
    page = _Page(width, ascii_only)
    return page.clipped((line for note in notes for line in page.wrapped(note, "", "  ")), width)


def _body(plan: EnginePlan, page: _Page, names: Mapping[str, str], layers: int, top: int | None) -> list[Iterator[str]]:
    return [
        _layers(plan, page, layers),
        _lost(plan, page, NAMED if top is None else top),
        summary_lines(plan.summary, page.width, ascii_only=page.ascii_only, top=top, names=names),
    ]


def _spaced(sections: Iterable[Iterable[str]]) -> Iterator[str]:
    """The sections that have lines, an empty line between them."""
    first = True
    for section in sections:
        lines = list(section)
        if lines and not first:
            yield ""
        if lines:
            first = False
        yield from lines


def layer_names(plan: EnginePlan) -> dict[str, str]:
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


def _heading(plan: EnginePlan, page: _Page, names: Mapping[str, str], *, bindings: bool) -> Iterator[str]:
    facts, summary = plan.facts, plan.summary
    yield from _labelled(page, "engine", engine_text(facts))
    if facts.era:
        yield from _labelled(page, "plan", facts.era)
    if facts.precision:
        yield from _labelled(page, "precision", facts.precision)
    if facts.build_ns is not None:
        built = format_ns(facts.build_ns)
        yield from _labelled(page, "build", f"taken from the cache; it took {built}" if facts.cached else built)
    for mode in ("input", "output") if bindings else ():
        yield from _bindings([binding for binding in plan.bindings if binding.mode == mode], mode, page)
    yield from _labelled(page, "layers", layers_text(facts, summary))
    yield from _labelled(page, "nodes", fates_text(fates_of(plan.fates)) or "no model was given to lead layers back to")
    if summary.by_match:
        yield from _labelled(page, "matched", match_text(summary))
    yield from _labelled(page, "work", _work_text(plan.works))
    yield from _labelled(page, "look at", *(worth_a_look(summary, names) or ["nothing: no finding below"]))


def _labelled(page: _Page, label: str, *texts: str) -> Iterator[str]:
    for text in texts:
        yield from page.wrapped(text, pad(label, _LABEL), " " * _LABEL)
        label = ""


def engine_text(facts: EngineFacts) -> str:
    """The engine in a line: what built it, where, and with what else."""
    versions = dict(facts.versions)
    own = versions.pop(facts.backend, "")
    others = (f"{name} {version}" for name, version in sorted(versions.items()))
    return ", ".join(filter(None, [f"{facts.backend or 'not known'} {own}".strip(), facts.device, *others]))


def layers_text(facts: EngineFacts, summary: PlanSummary) -> str:
    """How many layers there were and are: ``112 in the network -> 65 in the engine -> 60 launches``."""
    words = [f"{facts.network_layers:,} in the network"] if facts.network_layers else []
    launches = f"{summary.launches:,} launch{'' if summary.launches == 1 else 'es'}"
    return " -> ".join([*words, f"{summary.layers:,} in the engine", launches])


def fates_of(fates: Iterable[NodeFate]) -> dict[str, int]:
    """ONNX nodes by what became of them."""
    return dict(Counter(fate.fate for fate in fates))


def fates_text(fates: Mapping[str, int]) -> str:
    """What became of ONNX nodes: ``38: 36 in layers, 2 folded, 0 lost``; empty where no model was given."""
    told = [
        f"{fates.get(fate, 0):,} {words}" for fate, words in FATE_WORDS.items() if fates.get(fate) or fate == "lost"
    ]
    return f"{sum(fates.values()):,}: {', '.join(told)}" if fates else ""


def match_text(summary: PlanSummary) -> str:
    """How surely layers were led back to nodes: ``exact 98.0 %, inferred 2.0 % of bytes``."""
    shares = ", ".join(f"{share.what} {format_percent(share.fraction)}" for share in summary.by_match)
    return f"{shares} of {_whole(summary)}"


def _whole(summary: PlanSummary) -> str:
    """What the shares of a summary are shares of."""
    return "time" if any(share.ns is not None for share in summary.by_kind) else "bytes"


def _work_text(works: Sequence[Work | None]) -> str:
    known = [work for work in works if work is not None]
    moved, computed = sum(work.bytes for work in known), sum(work.flops for work in known)
    unknown = len(works) - len(known)
    if works and not known:
        return "not known of any layer"
    return f"{format_bytes(moved)}, {format_flops(computed)}" + (
        f"; without a price: {count(unknown, 'layer')}" if unknown else ""
    )


def _bindings(bindings: Sequence[PlanBinding], mode: str, page: _Page) -> Iterator[str]:
    for index, binding in enumerate(bindings[:NAMED]):
        dims = f"{binding.dtype} {_dims(binding.dims)}"
        name = page.tail(binding.name, page.width - _LABEL - len(dims) - 2)
        yield f"{pad('' if index else mode, _LABEL)}{name}  {dims}"
    if len(bindings) > NAMED:
        yield f"{'':<{_LABEL}}{len(bindings) - NAMED:,} more"


def worth_a_look(summary: PlanSummary, names: Mapping[str, str] | None = None) -> list[str]:
    """What stands out in a plan, a line each, most telling first.

    Args:
        summary: Of the plan.
        names: What to call layers; see `layer_names`.
    """
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
    codes = Counter(lint.code for lint in summary.lints)
    whats = {lint.code: lint.what for lint in reversed(summary.lints)}
    lines += [f"{code} at {count(number, 'layer')}: {whats[code]}" for code, number in codes.most_common(EDGES)]
    if len(codes) > EDGES:
        lines.append(f"{len(codes) - EDGES:,} more kinds of places worth checking")
    lost = summary.fates.get("lost", 0)
    if lost:
        lines.append(f"{count(lost, 'node')} lost: in no layer, and nothing says why")
    return lines


def _called(layer: str, names: Mapping[str, str] | None) -> str:
    return (names or {}).get(layer, layer)


def _readers(edge: PlanEdge, names: Mapping[str, str] | None) -> str:
    more = f" and {len(edge.readers) - 1} more" if len(edge.readers) > 1 else ""
    return (_called(edge.readers[0], names) if edge.readers else "nothing") + more


def _ranked(edges: Sequence[PlanEdge]) -> Sequence[PlanEdge]:
    """Edges with the most telling first: as they are where they have a price, else those to be expected by bytes."""
    if any(edge.saved_ns is not None for edge in edges):
        return edges
    return sorted(edges, key=lambda edge: (not edge.expected, -edge.bytes))


def _lost(plan: EnginePlan, page: _Page, most: int) -> Iterator[str]:
    lost = [fate for fate in plan.fates if fate.fate == "lost"]
    if lost:
        yield "nodes that are lost"
    yield from lost_lines(lost, plan.op_types, page.width, most, ascii_only=page.ascii_only)


def lost_lines(
    lost: Sequence[NodeFate], op_types: Mapping[str, str], width: int, most: int, *, ascii_only: bool
) -> Iterator[str]:
    """Nodes that are lost, a line each with the reason."""
    page = _Page(width, ascii_only)
    for fate in lost[:most]:
        kind = op_types.get(fate.node, "")
        why = f": {page.safe(fate.reason)}" if fate.reason else ""
        name = page.tail(fate.node, max(width - 2 - len(kind) - cells(why) - 1, width // 3))
        yield page.end(f"  {page.safe(kind)}{' ' if kind else ''}{name}{why}", width)
    if len(lost) > most:
        yield f"  {len(lost) - most:,} more"


def _remarks(facts: EngineFacts, page: _Page) -> Iterator[str]:
    remarks = (*(f"warning: {text}" for text in facts.warnings), *(f"note: {text}" for text in facts.notes))
    return note_lines(remarks, page.width, ascii_only=page.ascii_only)


# --- the layers -----------------------------------------------------------------------------


class _Columns(NamedTuple):
    """Widths of the columns of the table of layers."""

    number: int
    kind: int
    dtype: int

    @property
    def used(self) -> int:
        return self.number + 1 + self.kind + 1 + self.dtype + 1 + 8 + 1 + 8 + 2


def _layers(plan: EnginePlan, page: _Page, most: int) -> Iterator[str]:
    rows = list(zip(plan.layers, plan.works, strict=True))
    if not rows:
        yield "no layers"
        return
    shown: Sequence[int] = range(len(rows))
    title = f"{count(len(rows), 'layer')}, in execution order"
    if len(rows) > most:
        largest = sorted(shown, key=lambda at: (-_moved(*rows[at]), at))[:most]
        shown = sorted(largest)
        title = f"{most:,} of {count(len(rows), 'layer')}, largest by bytes, in execution order"
    kinds = max((len(rows[at][0].layer.kind) for at in shown), default=0)
    dtypes = max((len(precision(*rows[at])) for at in shown), default=0)
    columns = _Columns(len(f"{len(rows) - 1}"), max(min(kinds, 15), 4), max(min(dtypes, 10), 4))
    yield title
    yield (
        f"{'#':>{columns.number}} {'kind':<{columns.kind}} {'type':<{columns.dtype}} {'bytes':>8} {'FLOP':>8}"
        "  ONNX nodes"
    )
    changes = {one.layer: one.change for one in plan.summary.reformats}
    for idle, group in itertools.groupby(shown, key=lambda at: rows[at][0].role not in LAUNCHING):
        if idle:
            yield from _idle([rows[at][0] for at in group], page, columns)
        else:
            for at in group:
                yield from _layer(at, *rows[at], plan.op_types, changes, page, columns)
    marks = {
        "~": ("led back by inference", any(rows[at][0].match == "inferred" for at in shown)),
        "*": ("a node in several layers", any(rows[at][0].shared for at in shown)),
        "<": ("at most", any(work is not None and work.bound == "upper" for _, work in (rows[at] for at in shown))),
        ">": ("at least", any(work is not None and work.bound == "lower" for _, work in (rows[at] for at in shown))),
    }
    legend = ", ".join(f"{mark} {words}" for mark, (words, used) in marks.items() if used)
    if legend:
        yield legend


def _moved(matched: MatchedLayer, work: Work | None) -> int:
    return (matched.layer.nbytes or 0) if work is None else work.bytes


def _idle(run: Sequence[MatchedLayer], page: _Page, columns: _Columns) -> Iterator[str]:
    """Neighbouring layers that launch nothing, in one line."""
    kinds = Counter(matched.layer.kind for matched in run)
    words = [kind if number == 1 else f"{number} {kind}" for kind, number in kinds.items()]
    (line,) = page.filled(words, ", ", page.width - columns.number - 21, 1)
    yield f"{'':>{columns.number}} ({line}: launch nothing)"


def _layer(
    index: int,
    matched: MatchedLayer,
    work: Work | None,
    types: Mapping[str, str],
    changes: Mapping[str, str],
    page: _Page,
    columns: _Columns,
) -> Iterator[str]:
    layer = matched.layer
    nodes = matched.nodes or layer.onnx_nodes
    nbytes = layer.nbytes if work is None else work.bytes
    flops = "-" if work is None else f"{_BOUNDS[work.bound]}{_number(work.flops)}"
    kind, dtype = page.middle(layer.kind, columns.kind), page.middle(precision(matched, work), columns.dtype)
    mark = "~" if matched.match == "inferred" else ""
    room = page.width - columns.used
    yield (
        f"{index:>{columns.number}} {pad(kind, columns.kind)} {pad(dtype, columns.dtype)} "
        f"{_known_bytes(nbytes or 0):>8} {flops:>8}  "
        f"{mark}{_what(matched, nodes, types, changes, page, room - len(mark))}"
    )
    if len(nodes) > 1:
        indent = columns.number + 3
        for line in node_lines(nodes, page.width - indent, ascii_only=page.ascii_only, shared=matched.shared):
            yield " " * indent + line


def node_lines(
    nodes: Sequence[str],
    width: int,
    lines: int = 2,
    *,
    ascii_only: bool = False,
    shared: Sequence[str] = (),
    before: str = "",
) -> list[str]:
    """Names of nodes in so many lines at most, the folder that they share said once and those ``shared`` starred."""
    folder = _folder(nodes)
    starred = frozenset(shared)
    names = [f"{node[len(folder) :]}{'*' if node in starred else ''}" for node in nodes]
    before = " ".join(filter(None, (before, folder)))
    return _Page(width, ascii_only).filled(names, ", ", width, lines, before)


def _what(
    matched: MatchedLayer,
    nodes: Sequence[str],
    types: Mapping[str, str],
    changes: Mapping[str, str],
    page: _Page,
    room: int,
) -> str:
    """What a layer computes, in ``room`` columns: the types of its nodes, or its only node."""
    layer = matched.layer
    role = "(layout) " if matched.role == "layout" else ""
    if not nodes and role and layer.name in changes:
        return role + page.end(changes[layer.name], room - len(role))
    if not nodes:
        name = f"for {layer.serves}" if layer.serves else layer.name
        role = role or "(no node) "
        return role + page.tail(name, room - len(role))
    if len(nodes) == 1:
        kind = page.middle(types.get(nodes[0], ""), room // 2)
        kind = f"{role}{kind} " if kind else role
        shared = "*" if matched.shared else ""
        return kind + page.tail(nodes[0], room - cells(kind) - len(shared)) + shared
    (line,) = page.filled(op_runs(types.get(node, "") for node in nodes), " + ", room - len(role), 1)
    return role + (line or count(len(nodes), "node"))


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


def _bytes(count_of: int | None) -> str:
    return "-" if count_of is None else format_bytes(count_of)


def _known_bytes(total: int) -> str:
    """A sum over layers, which is 0 where nothing moves and where nothing is known."""
    return _bytes(total or None)


def _ns(time: int | None) -> str:
    return "-" if time is None else format_ns(time)


def _number(value: int) -> str:
    return format_flops(value).removesuffix("FLOP").strip() if value else "0"


# --- the summary ----------------------------------------------------------------------------


def summary_lines(
    summary: PlanSummary,
    width: int = 80,
    *,
    ascii_only: bool = False,
    top: int | None = None,
    measured: bool = False,
    names: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """What is to be learnt of a plan as a whole, in lines of at most ``width`` columns.

    Fusions that did not happen, reformats by origin, lints by code, then shares by kind, precision and match.

    Args:
        summary: Of the plan.
        width: Columns, at least 60.
        ascii_only: Write ASCII only.
        top: Fusions to show, and groups of reformats and of lints; by default as many as fit a page.
        measured: Whether the times of the summary are measured ones, and not those attainable on a GPU.
        names: What to call layers, by their names in the plan; see `layer_names`.
    """
    page = _Page(width, ascii_only)
    most = EDGES if top is None else top
    sections = [
        _edges(summary.edges, page, most, names),
        _reformats(summary.reformats, page, most, names, measured=measured),
        _lints(summary.lints, page, most, names),
        _shares(summary, page, measured=measured),
    ]
    return _spaced(sections)


def _edges(edges: Sequence[PlanEdge], page: _Page, most: int, names: Mapping[str, str] | None) -> Iterator[str]:
    if not edges:
        return
    moved = format_bytes(sum(edge.bytes for edge in edges))
    expected = sum(edge.expected for edge in edges)
    title = f"fusions that did not happen: {_shown(most, edges)}, {expected:,} to be expected; {moved} through memory"
    yield from page.wrapped(title, "", "  ")
    priced = any(edge.saved_ns is not None for edge in edges)
    yield f"{'would save':>10}  {'bytes':>8}  what, and why" if priced else f"{'bytes':>8}  what, and why"
    for edge in _ranked(edges)[:most]:
        saved = "-" if edge.saved_ns is None else f"~{format_ns(edge.saved_ns)}"
        start = f"{saved:>10}  {format_bytes(edge.bytes):>8}  " if priced else f"{format_bytes(edge.bytes):>8}  "
        indent = " " * len(start)
        room = page.width - len(start)
        to = page.layer(_readers(edge, names), room // 2 - 4)
        yield f"{start}{page.layer(_called(edge.maker, names), room - cells(to) - 4)} -> {to}"
        verdict = f"{edge.kind}, {'to be expected' if edge.expected else 'not to be expected'}"
        yield from page.wrapped(f"{verdict}{': ' if edge.reason else ''}{edge.reason}", indent, indent + "  ")


def _shown(most: int, all_of: Sequence[object]) -> str:
    return f"{len(all_of):,}" if len(all_of) <= most else f"{most:,} of {len(all_of):,}"


def _reformats(
    reformats: Sequence[PlanReformat],
    page: _Page,
    most: int,
    names: Mapping[str, str] | None,
    *,
    measured: bool,
) -> Iterator[str]:
    if not reformats:
        return
    groups: dict[str, list[PlanReformat]] = {}
    for one in reformats:
        groups.setdefault(one.origin, []).append(one)
    timed = any(one.ns is not None for one in reformats)
    yield f"reformats: {len(reformats):,}, by origin"
    yield (
        f"{_time_title(measured):>10}  {'bytes':>8}  origin, and the largest"
        if timed
        else (f"{'bytes':>8}  origin, and the largest")
    )
    ranked = sorted(groups.items(), key=lambda item: (-_sum_ns(item[1]), -_sum_bytes(item[1]), item[0]))
    for origin, group in ranked[:most]:
        start = f"{_known_bytes(_sum_bytes(group)):>8}  "
        if timed:
            known = any(one.ns is not None for one in group)
            start = f"{format_ns(_sum_ns(group)) if known else '-':>10}  {start}"
        yield start + page.end(f"{len(group):,} x {origin or 'unknown'}", page.width - len(start))
        for one in sorted(group, key=lambda one: (-(one.ns or 0), -(one.bytes or 0)))[:PLACES]:
            change = page.middle(one.change, (page.width - len(start)) * 2 // 3)
            target = _called(one.serves, names) or _called(one.layer, names)
            yield f"{'':<{len(start)}}{change} for {page.layer(target, page.width - len(start) - cells(change) - 5)}"
    if len(ranked) > most:
        yield f"  {len(ranked) - most:,} more origins"


def _time_title(measured: bool) -> str:
    return "measured" if measured else "allows"


def _sum_ns(group: Sequence[PlanReformat]) -> int:
    return sum(one.ns or 0 for one in group)


def _sum_bytes(group: Sequence[PlanReformat]) -> int:
    return sum(one.bytes or 0 for one in group)


def _lints(lints: Sequence[PlanLint], page: _Page, most: int, names: Mapping[str, str] | None) -> Iterator[str]:
    if not lints:
        return
    groups: dict[str, list[PlanLint]] = {}
    for lint in lints:
        groups.setdefault(lint.code, []).append(lint)
    yield f"worth checking: {count(len(lints), 'place')}, by what it is"
    for code, group in list(groups.items())[:most]:
        yield from page.wrapped(f"{code} x {len(group):,}: {group[0].what}", "  ", "     ")
        for lint in group[:PLACES]:
            room = page.width - 10
            why = page.end(lint.evidence, room * 2 // 3)
            name = page.layer(_called(lint.layer, names), room - cells(why) - 2)
            yield f"     at   {name}{': ' if why else ''}{why}"
        if len(group) > PLACES:
            yield f"          {len(group) - PLACES:,} more"
        yield from page.wrapped(group[0].try_, "     try  ", "          ")
    if len(groups) > most:
        yield f"  {len(groups) - most:,} more kinds"


def _shares(summary: PlanSummary, page: _Page, *, measured: bool) -> Iterator[str]:
    groups = {"by kind": summary.by_kind, "by precision": summary.by_precision, "by match": summary.by_match}
    timed = _whole(summary) == "time"
    title = 20
    times = f" {_time_title(measured):>9}" if timed else ""
    columns = f" {'layers':>7} {'bytes':>8}{times} {'of ' + _whole(summary):>8}"
    for name, shares in groups.items():
        if shares:
            yield f"{pad(name, title)}{columns}" if name == "by kind" else name
            yield from (_share(share, page, title, timed=timed) for share in shares[:NAMED])
            if len(shares) > NAMED:
                yield f"  {len(shares) - NAMED:,} more"


def _share(share: PlanShare, page: _Page, title: int, *, timed: bool) -> str:
    name = pad("  " + page.middle(share.what or "unknown", title - 2), title)
    time = f" {_ns(share.ns or None):>9}" if timed else ""
    start = f"{name} {share.layers:>7,} {_known_bytes(share.bytes):>8}{time} "
    start += f"{format_percent(share.fraction):>8}  "
    return (start + page.bar * round(share.fraction * min(page.width - len(start), 20))).rstrip()


# --- Markdown -------------------------------------------------------------------------------


def render_markdown(plan: EnginePlan, top: int | None = None) -> str:
    """The same in Markdown."""
    facts, summary = plan.facts, plan.summary
    most = LAYERS if top is None else top
    names = layer_names(plan)
    lines = [f"# {plain(engine_text(facts))}", ""]
    told = {
        "precision": facts.precision,
        "build": "" if facts.build_ns is None else format_ns(facts.build_ns) + (", cached" if facts.cached else ""),
        "layers": layers_text(facts, summary),
        "nodes": fates_text(fates_of(plan.fates)),
        "matched": match_text(summary) if summary.by_match else "",
        "work": _work_text(plan.works),
    }
    lines += [f"- {label}: {plain(text)}" for label, text in told.items() if text]
    lines += ["", "## Worth a look", ""]
    lines += [f"- {plain(line)}" for line in worth_a_look(summary, names) or ["nothing"]]
    largest = sorted(range(len(plan.layers)), key=lambda at: (-_moved(plan.layers[at], plan.works[at]), at))[:most]
    lines += ["", f"## Layers ({len(largest):,} of {len(plan.layers):,})", ""]
    rows: list[tuple[str, ...]] = [("layer", "kind", "type", "bytes", "FLOP", "op types", "ONNX nodes", "match")]
    for at in sorted(largest):
        matched, work = plan.layers[at], plan.works[at]
        nodes = matched.nodes or matched.layer.onnx_nodes
        nbytes = matched.layer.nbytes if work is None else work.bytes
        rows.append((
            str(at), matched.layer.kind, precision(matched, work), _bytes(nbytes),
            "-" if work is None else _number(work.flops),
            " + ".join(op_runs(plan.op_types.get(node, "") for node in nodes)),
            ", ".join(nodes) or matched.layer.name, matched.match,
        ))  # fmt: skip
    lines += table(rows)
    lost = [fate for fate in plan.fates if fate.fate == "lost"]
    if lost:
        lines += ["", "## Nodes that are lost", ""]
        told_lost = (f"{plan.op_types.get(fate.node, '')} {fate.node}: {fate.reason}" for fate in lost)
        lines += [f"- {plain(line.strip())}" for line in told_lost]
    lines += ["", *summary_markdown(summary, top, names=names)]
    remarks = [*(f"warning: {text}" for text in facts.warnings), *facts.notes]
    if remarks:
        lines += ["", "## Notes", "", *(f"- {plain(text)}" for text in remarks)]
    return "\n".join(lines).rstrip() + "\n"


def summary_markdown(
    summary: PlanSummary,
    top: int | None = None,
    *,
    measured: bool = False,
    names: Mapping[str, str] | None = None,
    level: int = 2,
) -> Iterator[str]:
    """The tables of `summary_lines` in Markdown, under headings of ``level``."""
    most = EDGES if top is None else top
    mark = "#" * level
    if summary.edges:
        yield from (f"{mark} Fusions that did not happen ({_shown(most, summary.edges)})", "")
        edges: list[tuple[str, ...]] = [("from", "to", "kind", "bytes", "would save", "to be expected", "why")]
        for edge in _ranked(summary.edges)[:most]:
            saved = "-" if edge.saved_ns is None else f"~{format_ns(edge.saved_ns)}"
            edges.append((
                _called(edge.maker, names), _readers(edge, names), edge.kind, format_bytes(edge.bytes), saved,
                "yes" if edge.expected else "no", edge.reason,
            ))  # fmt: skip
        yield from (*table(edges), "")
    if summary.reformats:
        yield from (f"{mark} Reformats ({len(summary.reformats):,})", "")
        largest = sorted(summary.reformats, key=lambda one: (-(one.ns or 0), -(one.bytes or 0)))[: 2 * most]
        rows: list[tuple[str, ...]] = [("origin", "change", "for", "bytes", _time_title(measured))]
        rows += [
            (one.origin, one.change, _called(one.serves, names), _bytes(one.bytes), _ns(one.ns)) for one in largest
        ]
        yield from (*table(rows), "")
    if summary.lints:
        yield from (f"{mark} Worth checking ({len(summary.lints):,})", "")
        rows = [("code", "layer", "what", "evidence", "try")]
        rows += [
            (lint.code, _called(lint.layer, names), lint.what, lint.evidence, lint.try_)
            for lint in summary.lints[: 2 * most]
        ]
        yield from (*table(rows), "")
    yield from (f"{mark} Shares", "")
    rows = [("part", "layers", "bytes", _time_title(measured), f"of {_whole(summary)}")]
    rows += [
        (
            share.what,
            f"{share.layers:,}",
            _known_bytes(share.bytes),
            _ns(share.ns or None),
            format_percent(share.fraction),
        )
        for share in (*summary.by_kind, *summary.by_precision, *summary.by_match)
    ]
    yield from table(rows)
