"""What is said of a run: how long, can it be trusted, where does the time go, why, what next.

The first screen answers those in this order; facts (measured) and estimates (``~``) stand
apart. The list is by layer, ONNX node, op type, kernel or module (`ReportOptions.by`); its rows and the one of the
others that ends it add up to the same time whatever is shown, and as many are shown as hold most of what is lost.
Of a TensorRT engine follows what its plan shows. The ledger stands where it is asked for, findings where the reader
chose how many rows to see; a document with room has them all.
"""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Callable, Hashable, Iterator, Sequence

from trtprof.base import units
from trtprof.base.records import Finding, LayerResult, LedgerRow, PluginCandidate, Run, bound_name
from trtprof.kernel_names.parse import parse
from trtprof.report import ReportOptions, content_of
from trtprof.report._cells import cells
from trtprof.report._format import count, ledger_gap_ns, perturbation, signed_percent
from trtprof.report.content import _screen
from trtprof.report.content import plan as plans
from trtprof.report.content._views import Row as ViewRow
from trtprof.report.content._views import alike, folded, kernel_words, shape_words, view_of
from trtprof.report.document import (
    Block,
    Column,
    Document,
    Heading,
    Kind,
    Measure,
    Notes,
    Pairs,
    Row,
    Section,
    Span,
    Table,
    Under,
    line,
    marks,
    name,
    prose,
    sections,
)

PROFILER_STEP_NS = 1000  # Step of the clock of ONNX Runtime's profiler
LINES = 34  # Lines of the first screen from which on it shows no more rows than `LEAST`; its words are never cut
LEAST = 5  # Rows of the list that are always shown
COVER = 0.6  # Share of what is lost that the rows hold where there is room
UNATTRIBUTED = 5  # Kernels of no layer that are listed when the reader did not choose how many rows to see
CANDIDATES = 3  # Layers weighed for a hand-written kernel that are listed, likewise
SHARING = 3
"""Nodes that are listed below the one that they share a layer with, when the reader chose how many rows to see."""
ROWS = 10  # Rows of the list that stand open in a document which can fold the others
FINDINGS = 5  # Findings that stand open there
ITEMS = 20  # Most entries of any other list

_LABEL = _screen.LABEL
_MARKS = {"fact": "", "estimate": "~", "remainder": "="}
_BESIDE_LIBRARIES = ("expected (80 %)", "of the roofline", "of expected")
"""Heads of the columns for paper that say what good library kernels take; only where any layer is expected to."""
_SAME = '"'  # In place of a time that stands in the row above


@content_of(Run)
def document(found: Run, options: ReportOptions) -> Document:
    """The first screen, then what else was found; what it all rests on for documents that have room."""
    page = _Page(found, options)
    rest = sections(
        page.asked(page.ledger(), f"From ideal to measured: {page.closes()}", shown=options.ledger),
        page.asked(page.findings(), page.counted(), shown=options.top is not None),
        page.asked([marks()], "", shown=options.ledger or options.top is not None, place=9),
        page.candidates(),
        page.counters(),
        page.unattributed(),
        page.plan(),
        page.listed(),
        page.basis(),
    )
    title = _screen.title(found)
    if options.top is None:
        return Document(title=title, labels=_LABEL, fit=page.fitted, sections=rest)
    return Document(title=title, labels=_LABEL, sections=(*page.first(options.top), *rest))


class _Page:
    def __init__(self, run: Run, options: ReportOptions) -> None:
        self.run = run
        self.options = options
        self.width = max(options.width, 40)
        self.view = view_of(run, options.by)
        self.expects = any(layer.expected_ns is not None for layer in run.layers)

    def fitted(self, measure: Measure) -> tuple[Sequence[Section], bool]:
        """As many rows as hold most of what is lost, where there is room for them."""
        listed = sum(row.home is None for row in self.view.rows)
        room = LINES - measure(self.first(LEAST), True) + LEAST
        shown = min(listed, max(LEAST, min(self.view.covering(COVER), room)))
        # Causes are led to rows in more words where more of those are shown.
        while shown > LEAST and measure(self.first(shown), True) > LINES:
            shown -= 1
        return self.first(shown), True

    def first(self, shown: int) -> tuple[Section, ...]:
        """The first screen."""
        rows, rest = self.shown(shown)
        return sections(
            Section(blocks=tuple(_screen.head(self.run)), tight=True, place=1),
            Section(blocks=(Pairs(tuple(_screen.numbers(self.run))),), place=1),
            Section(blocks=(self.rows(rows, rest),), where="screen"),
            Section(blocks=(Pairs(tuple(_screen.answers(self.run, rows, self.options.file))),), place=3),
        )

    def asked(self, blocks: Sequence[Block], title: str, *, shown: bool, place: int = 5) -> Section:
        """What a screen shows where it is asked for."""
        return Section(blocks=tuple(blocks), title=title, where="" if shown else "paper", place=place)

    # --- ledger -----------------------------------------------------------------------------

    def ledger(self) -> list[Block]:
        rows = [row for row in self.run.ledger if row.ns]
        if not rows:
            return []
        columns = (
            Column("time", right=True, least=9),
            Column("share", right=True, gap=1, least=5),
            Column("step", cut="middle"),
            Column("meaning", where="paper"),
        )
        return [
            Heading("ledger", f"from ideal to measured; {self.closes()}", label=True),
            Table(columns=columns, rows=list(map(self._step, rows)), headless=True, beside=76),
        ]

    def closes(self) -> str:
        gap = ledger_gap_ns(self.run)
        layers_only = not self.run.latency.n and self.run.latency.headline_ns
        whole = "sum of the layers" if layers_only else "measured median"
        return (
            f"misses the {whole.removeprefix('measured ')} by {units.format_ns(gap)}"
            if gap
            else f"adds up to the {whole}"
        )

    def _step(self, row: LedgerRow) -> Row:
        median = self.run.latency.headline_ns
        kind: Kind = "" if row.kind == "fact" else row.kind
        share = f"{round(100 * row.ns / median)} %" if median else "-"
        time = f"{_MARKS[row.kind]}{units.format_ns(row.ns)}"
        return Row((Span(time, kind), Span(share, kind), Span(row.cause, cut="middle"), prose(row.meaning)))

    # --- the list ---------------------------------------------------------------------------

    def shown(self, most: int) -> tuple[tuple[ViewRow, ...], ViewRow | None]:
        """The first rows of the list, and the sum of the others."""
        # Nodes that share a layer with one above stand below it where there is room for many lines.
        return folded(self.view, most, 0 if self.options.top is None else SHARING)

    def rows(self, rows: Sequence[ViewRow], rest: ViewRow | None) -> Block:
        """The head of the list, its first rows, and the sum of the others."""
        if not self.view.rows:
            return Heading(Span(f"no {self.view.noun}s", "strong"))
        return self._table([*rows, *([rest] if rest is not None else [])])

    def listed(self) -> Section:
        """The list for documents that can fold it."""
        view = self.view
        most = max(ROWS, self.options.top or 0) * 6
        rows, _ = folded(view, most)

        def rest(shown: int) -> ViewRow | None:
            return folded(view, shown)[1]

        none = Notes((f"No {view.noun}s.",))
        order = "time in the capture" if view.by == "kernel" else "time above bound"
        title = f"{count(view.named, view.noun)}, by {order}"
        return Section(blocks=(self._table(rows, rest) if view.rows else none,), where="paper", title=title, place=2)

    def _table(self, rows: Sequence[ViewRow], rest: Callable[[int], ViewRow | None] | None = None) -> Table:
        view = self.view
        factor, unit = units.ns_unit(max(row.measured_ns for row in rows))
        numbers = itertools.count(1)

        def made(row: ViewRow) -> Row:
            place = "" if row.rest or row.home is not None else f"{next(numbers)}"
            return self._row(row, place, factor)

        lines = list(map(made, rows))
        others = None if rest is None else lambda shown: None if (row := rest(shown)) is None else made(row)
        named = sum(view.names_of(row) for row in rows if not row.rest)
        held = view.covered(row for row in rows if not row.rest)
        words = f"{named:,} of {count(view.named, view.noun)}"
        words += "" if held is None or view.by == "kernel" else f", {100 * held:.0f} % of the excess"
        after = [f"{_SAME} same layer"] if any(row.home is not None for row in rows) else []
        if self.run.cpu_use is not None and self.run.cpu_use.layers_basis == "shared":
            after.append("other processes shared the CPUs: measured times may be too long")
        return Table(
            columns=self._columns(words if rest is None else view.noun, unit),
            rows=lines,
            paper=None if rest is None else ROWS,
            rest=others,
            after=tuple(filter(None, (*after, view.note))) if rest is None or after else (),
        )

    def _columns(self, words: str, unit: str) -> tuple[Column, ...]:
        title = "WHERE IT GOES" + ("  same op+shape: one row" if self.view.by == "layer" else "")
        first = (
            Column("#", right=True, gap=0, least=2, group=title),
            Column(words, gap=1, least=34, cut="end"),
            Column(unit, right=True, gap=1, least=6, group="MEASURED"),
            Column("share", right=True, gap=1, least=5, drop=2, group="MEASURED"),
        )
        if self.view.by == "kernel":
            heads = ("launches", 8), ("layers", 6)
            return (*first, *(Column(head, right=True, gap=1, least=least, group="MEASURED") for head, least in heads))
        return (
            *first,
            Column("|", gap=1, where="screen", group="|"),
            Column("~bound", right=True, gap=1, least=6, kind="estimate", group="~ESTIMATE"),
            Column("by", gap=1, least=7, kind="estimate", drop=1, group="~ESTIMATE"),
            Column("~excess", right=True, gap=1, least=6, kind="estimate", group="~ESTIMATE"),
            *(
                Column(head, right=True, kind="estimate", where="paper", group="~ESTIMATE")
                for head in (_BESIDE_LIBRARIES if self.expects else ())
            ),
        )

    def _row(self, row: ViewRow, place: str, factor: float) -> Row:
        faint: Kind = "faint" if row.rest or row.nameless or row.home is not None else ""
        title = tuple(span._replace(kind=faint) for span in line(list(self._name(row))))
        share = f"{100 * row.measured_ns / self.view.total_ns:.0f} %" if self.view.total_ns else "-"

        # Times are the profiler's less its own cost: a layer of none took less than a step of its clock.
        short = self.run.device.kind == "cpu" and not (row.measured_ns or row.rest)

        def number(ns: int | None) -> str:
            return "-" if ns is None else units.in_unit(ns, factor)

        if self.view.by == "kernel":
            # What no kernel is known of was not launched as far as anybody saw; it is not 0.
            counts = (f"{row.launches:,}" if row.launches else "-", f"{row.layers:,}" if row.layers else "-")
            return Row((place, title, number(row.measured_ns), share, *counts))
        if row.home is not None:
            # The time stands in the row of the node above, which it shares a layer with.
            same = Span(_SAME, "faint")
            return Row((place, title, same, same, Span("|", "faint"), same, "", same, *([same] * 3 * self.expects)))
        bound = "" if row.rest else bound_name(row.bound, self.run.device.kind)
        if row.layer is not None and row.layer.role not in ("compute", "control"):
            bound = row.layer.role
        estimated = [number(row.attainable_ns), bound, "-" if short else number(row.lost_ns)]
        if self.expects:
            band = row.expected_ns
            estimated.append("-" if band is None else f"{number(band.p50)} ({number(band.p10)} .. {number(band.p90)})")
            estimated += ["-" if part is None else f"{100 * part:.0f} %" for part in (row.of_roof, row.of_expected)]
        measured = f"<{PROFILER_STEP_NS / factor:g}" if short else number(row.measured_ns)
        return Row((place, title, measured, share, Span("|", "faint"), *estimated))

    def _name(self, row: ViewRow) -> Iterator[Span | str]:
        times = f"{row.layers:,}x " if row.layers > 1 else ""
        unpriced = f", {row.unpriced:,} unpriced" if row.unpriced and row.layers > 1 else ""
        if row.rest or row.nameless:
            yield prose(row.name + unpriced)
        elif self.view.by == "node":
            yield from self._of_node(row, unpriced)
        elif row.layer is not None:
            yield times
            yield from _of_layer(row.layer)
        elif self.view.by == "type":
            yield from (times, name(row.name), unpriced)
        elif self.view.by == "module":
            yield from (name(row.name, "start"), f" {count(row.layers, 'layer')}{unpriced}")
        else:
            words = kernel_words(row.name)
            yield from (Span(words, cut="middle", least=0.5), "  ") if words else ()
            yield name(row.name)

    def _of_node(self, row: ViewRow, unpriced: str) -> Iterator[Span | str]:
        """Op type and name; how many others share its layer, and where there is room, which layer that is."""
        yield from ("+ " if row.home is not None else "", Span(row.what, cut="middle", least=0.5), " ")
        yield name(row.name, "start", least=12)
        yield f" +{row.sharing:,}" if row.sharing else ""
        yield (f", {count(row.layers, 'layer')}" if row.layers > 1 else "") + unpriced
        if row.sharing and row.inside and self.width >= 120:
            yield from (" in ", name(row.inside))

    # --- findings ---------------------------------------------------------------------------

    def counted(self) -> str:
        number = len(self.run.findings)
        return f"{count(number, 'finding')}, by time above bound" if number else "Findings: none, no rule fired"

    def findings(self) -> list[Block]:
        found = self.run.findings
        shown = len(found) if self.options.top is None else self.options.top
        if not found:
            return [Heading("findings", "none: no rule fired", label=True)]
        # A critical warning comes first: there is no conclusion for it. The others stand under TRUST.
        ranked = sorted(found, key=lambda f: (f.kind != "trust" or f.severity != "critical", -f.lost_ns))
        columns = (
            Column("code", least=10),
            Column("sure", right=True, gap=0, least=5),
            Column("excess", right=True, gap=1, least=9, kind="estimate"),
            Column("likely cause, or measurement warning", cut="end"),
        )
        title = f"{min(shown, len(found))} of {len(found)}, by time above bound"
        rows = list(map(_finding, ranked[: max(shown, FINDINGS + ITEMS)]))
        return [
            Heading("findings", title, label=True),
            Table(columns=columns, rows=rows, shown=shown, paper=FINDINGS, headless=True),
        ]

    # --- what follows -----------------------------------------------------------------------

    def candidates(self) -> Section:
        """Where a hand-written kernel would pay, and what to try before; nothing where none was weighed."""
        weighed = self.run.candidates
        found = self._one_kernel()
        shown = min(self.options.top or CANDIDATES, len(found))
        layers = sum(map(len, found[:shown]))
        title = f"{layers} of {count(len(weighed), 'layer')} weighed, by what a custom kernel would net"
        columns = (
            Column("verdict", least=10),
            Column("net gain", gap=0, kind="estimate"),
            Column("layer", cut="start", least=10),
        )
        rows = [self._candidate(one) for one in found[: max(shown, ITEMS)]]
        table = Table(columns=columns, rows=rows, shown=shown, paper=ITEMS, headless=True)
        blocks = (Heading("plugins", title, label=True), table) if found else ()
        return Section(blocks=blocks, fold=True, title="Custom kernels")

    def _one_kernel(self) -> list[list[PluginCandidate]]:
        """The candidates by the kernel that would be written: one serves all layers that are alike. Most gain first."""
        layers = {layer.name: layer for layer in self.run.layers}
        groups: dict[Hashable, list[PluginCandidate]] = {}
        for one in self.run.candidates:
            of = alike(layers[one.layer]) if one.layer in layers else one.layer
            groups.setdefault((one.verdict, of), []).append(one)
        return sorted(groups.values(), key=lambda group: -sum(one.net_ns for one in group))

    def _candidate(self, group: Sequence[PluginCandidate]) -> Row:
        one = group[0]
        room = self.width - _LABEL - 5
        under = [Under(f"{'each: ' if len(group) > 1 else ''}{one.why}", "why", 3, indent=_LABEL)]
        for step in one.ladder if one.verdict != "do not" else ():
            gain = "gain unknown" if step.gain_ns is None else f"~{units.format_ns(step.gain_ns)}"
            gain += " each" if step.gain_ns is not None and len(group) > 1 else ""
            what = f"{step.what}, {step.basis if step.tried else gain}"
            # A command that is cut cannot be run: where both do not fit on one line it has its own.
            together = f"{what}: {step.command}"
            apart = cells(together) > room
            under.append(Under(prose(what if apart else together), "try", indent=_LABEL))
            if apart and step.command:
                under.append(Under(Span(step.command, "", "never"), " ", indent=_LABEL))
        if one.command:
            command = one.command
            if self.options.file:
                command = command.replace(" RUN ", f" {shlex.quote(self.options.file)} ", 1)
            under.append(Under(Span(command, "", "never"), "then", indent=_LABEL))
        net = f"~{units.format_ns(sum(each.net_ns for each in group))} net"
        low, high = sum(each.net_low_ns for each in group), sum(each.net_high_ns for each in group)
        between = f" ({units.format_ns(low)} to {units.format_ns(high)})"
        verdict = Span(one.verdict, "strong" if one.verdict == "write it" else "")
        called = name(one.nodes[-1] if one.nodes else one.layer, "start")
        return Row((verdict, net + between, (called, f" x{len(group)}") if len(group) > 1 else called), tuple(under))

    def counters(self) -> Section:
        """What hardware counters say of predictions; nothing where none were counted."""
        rows = []
        for one in self.run.confirmations:
            told = [check for check in one.checks if check.verdict != "not told"]
            verdict = Span(one.verdict, "doubt" if one.verdict == "refuted" else "")
            under = (Under(Span(f"{check.what}: {check.reason}", "faint", "end"), indent=11) for check in told)
            rows.append(Row((verdict, name(one.layer)), tuple(under)))
        columns = Column("verdict", least=11), Column("layer", gap=0, cut="middle")
        table = Table(columns=columns, rows=rows, headless=True)
        blocks = (Heading("counters", "predictions held against ncu", label=True), table) if rows else ()
        return Section(blocks=blocks, fold=True, title="Hardware counters")

    def unattributed(self) -> Section:
        """Kernels that no layer of a plan owns, most time first; the page of a run without a plan stays short."""
        kernels = sorted(self.run.kernels_unattributed, key=lambda kernel: -kernel.total_ns)
        shown = min(self.options.top or UNATTRIBUTED, len(kernels))
        rows = [
            Row(
                (units.format_ns(kernel.total_ns), f"{kernel.count:,} x", name(kernel.kernel)),
                (Under(Span(kernel.reason, "faint", "end")),),
            )
            for kernel in kernels[:shown]
        ]
        table = Table(
            columns=(
                Column("time", right=True, least=10),
                Column("launches", right=True, least=9),
                Column("kernel", cut="middle"),
            ),
            rows=rows,
            title=f"kernels of no layer: {shown} of {len(kernels)}, by time in the capture",
            headless=True,
        )
        blocks = (table,) if kernels and self.run.plan is not None else ()
        return Section(blocks=blocks, fold=True, title="Kernels of no layer")

    def plan(self) -> Section:
        """What the plan shows; nothing where there is none."""
        if self.run.plan is None:
            return Section(blocks=())
        parts = plans.summary_of(self.run.plan, self.options.top, measured=True, names=plans.titles(self.run.layers))
        blocks = [block for at, part in enumerate(parts) for block in ([Notes(("",))] if at else []) + part]
        return Section(blocks=tuple(blocks), fold=True, title="The plan of the engine")

    def basis(self) -> Section:
        """What all of this rests on."""
        run = self.run
        origin = "measured on this device" if run.ceilings.origin == "measured" else "from the datasheet, not measured"
        items = [f"ceilings {origin}: {run.ceilings.source}"]
        cost = perturbation(run.latency, run.profiled)
        if cost is not None and run.latency != run.profiled:
            items.append(
                f"times of layers are taken with the profiler attached, which changes the latency by "
                f"{signed_percent(cost)}; the latency is taken without it"
            )
        if run.kernels_unattributed:
            items.append(f"{count(len(run.kernels_unattributed), 'kernel')} attributed to no layer")
        items += [f"assumed: {text}" for text in (*run.model.assumptions, *run.assumptions)]
        made = " ".join(filter(None, (run.created, f"in {self.options.file}" if self.options.file else "")))
        items += [f"made {made}"] if made else []
        return Section(blocks=(Notes(tuple(items)),), where="paper", title="What this rests on", fold=True, place=8)


def _of_layer(layer: LayerResult) -> Iterator[Span | str]:
    """The op type and its shape, then the last ONNX node that it computes: the end of its path tells most."""
    if layer.role not in ("compute", "control"):
        called, more = layer.name, ""
    else:
        called = layer.nodes[-1] if layer.nodes else layer.name
        more = f" +{len(layer.nodes) - 1}" if len(layer.nodes) > 1 else ""
    if layer.op_type == "kernel" and not layer.nodes:
        # Kernels of a capture alone: what their names say of the tile is what tells one product from the next.
        words = " ".join(filter(None, (kernel_words(layer.name), parse(layer.name).tile)))
        yield from (Span(words or "kernel", cut="end", least=0.99), "  ", name(layer.name, "middle", least=6))
        return
    if layer.op_type:
        yield from (Span(layer.op_type, cut="middle", least=0.5), " ")
    if layer.shapes:
        yield from (Span(shape_words(layer), cut="end", least=0.99), "  ")
    mark = {"inferred": "~", "none": "(no node) "}.get(layer.match, "") if layer.role in ("compute", "control") else ""
    yield from (mark, name(called, "start", least=6), more)


def _finding(finding: Finding) -> Row:
    trust = finding.kind == "trust"
    kind: Kind = "critical" if finding.severity == "critical" else "doubt" if trust else "cause"
    sure = "" if trust else f"{100 * finding.confidence:.0f} %"
    lost = f"~{units.format_ns(finding.lost_ns)}" if finding.lost_ns else ""
    code = Span(finding.code, kind, "middle", 8), Span("!" if trust else "?", kind)
    # A doubt about no layer is about the whole run.
    told = finding.where and (not trust or finding.layers)
    where = [Under(name(finding.where, "start"), "at", indent=_LABEL)] if told else []
    facts = f"{finding.severity}: {finding.evidence}" if finding.evidence else finding.severity
    how = [Under(Span(finding.command, cut="never", name=True), " ", None, indent=_LABEL)] if finding.command else []
    under = (*where, Under(facts, whole=True), Under(prose(finding.try_), "try", indent=_LABEL), *how)
    return Row((code, Span(sure, kind), lost, Span(finding.title, kind, "end")), under)
