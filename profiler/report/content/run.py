"""What is said of a run: the latency beside what the roofline allows, ranked by time lost, coverage always shown.

The first screen holds 25 lines at most. The list is by layer, ONNX node, op type or kernel (`ReportOptions.by`); its
rows and the one of the others that ends it add up to the same time whatever is shown. Of a TensorRT engine follows
what its plan shows. The roofline in characters stands where it is asked for, and where the reader chose how many rows
to see.

Facts stand as they are, estimates carry a ``~``, causes a ``?``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence

from profiler.base import units
from profiler.base.records import Finding, LayerResult, LedgerRow, PluginCandidate, Run, bound_name
from profiler.report import ReportOptions, _roofline, content_of
from profiler.report._cells import cells
from profiler.report._format import (
    check_text,
    clock_text,
    count,
    doubts,
    headline,
    largest,
    ledger_gap_ns,
    mode_text,
    perturbation,
    signed_percent,
    tensor_text,
    time_of,
)
from profiler.report.content import plan as plans
from profiler.report.content._views import Row as ViewRow
from profiler.report.content._views import alike, folded, kernel_words, view_of
from profiler.report.document import (
    Block,
    Column,
    Document,
    Heading,
    Kind,
    Measure,
    Notes,
    Pair,
    Pairs,
    Picture,
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

LINES = 25
"""Most lines of a report when the reader did not choose how many rows to see."""
UNATTRIBUTED = 5
"""Kernels of no layer that are listed when the reader did not choose how many rows to see."""
CANDIDATES = 3
"""Layers weighed for a hand-written kernel that are listed, likewise."""
LEDGER_ROWS = 6
"""Rows of the ledger where there is no room for more."""
SHARING = 3
"""Nodes that are listed below the one that they share a layer with, when the reader chose how many rows to see."""
ROOFLINE_ROWS = 10
"""Lines of the roofline in characters that hold points; the axis, the roofs and a legend follow."""
ROOFLINE_WIDTH = 120
"""A wider roofline in characters would be flatter than it is worth."""
ROWS = 10
"""Rows of the list that stand open in a document which can fold the others."""
FINDINGS = 5
"""Findings that stand open there."""
ITEMS = 20
"""Most entries of any other list."""

_LABEL = 10
_MARKS = {"fact": "", "estimate": "~", "remainder": "="}
_SAME = '"'
"""In place of a time that stands in the row above."""


@content_of(Run)
def document(found: Run, options: ReportOptions) -> Document:
    """The first screen, then what else was found; what it all rests on for documents that have room."""
    page = _Page(found, options)
    inputs = ", ".join(tensor_text(tensor) for tensor in found.model.inputs)
    title = Span(found.model.name, "strong", "middle", 0.5, name=True), "  ", Span(inputs, cut="middle", least=0.5)
    rest = sections(
        page.roofline(),
        page.candidates(),
        page.counters(),
        page.unattributed(),
        page.plan(),
        page.listed(),
        page.basis(),
    )
    if options.top is None:
        return Document(title=title, labels=_LABEL, fit=page.fitted, sections=rest)
    first = page.first(options.top, options.top, None)
    return Document(title=title, labels=_LABEL, sections=(*first, *rest))


class _Page:
    def __init__(self, run: Run, options: ReportOptions) -> None:
        self.run = run
        self.options = options
        self.width = max(options.width, 40)
        self.view = view_of(run, options.by)

    def fitted(self, measure: Measure) -> tuple[Sequence[Section], bool]:
        """As many findings (up to 3) and rows of the list as 25 lines hold, and air where there is room."""
        wanted = min(3, len(self.run.findings))
        rows = sum(row.home is None for row in self.view.rows)
        # What is given up, in this order: air, findings but one, small rows of the ledger, the last finding.
        less = [(n, False, None) for n in range(wanted, 0, -1)]
        for findings, airy, ledger in [
            (wanted, True, None), *less, *((n, False, LEDGER_ROWS) for n, _, _ in less), (0, False, LEDGER_ROWS),
        ]:  # fmt: skip
            room = LINES - measure(self.first(0, findings, ledger), airy) + bool(rows)
            # One line is for the sum of the others.
            shown = rows if len(self.view.rows) <= room else max(room - 1, 0)
            if room >= min(3, rows):
                break
        return self.first(shown, findings, ledger), airy

    def first(self, rows: int, findings: int, ledger: int | None) -> tuple[Section, ...]:
        """The first screen; ``ledger`` is the most rows of the ledger, None what suits the width."""
        verdict = Pairs((self.verdict(), *self._no_candidates()))
        unpriced = Pairs(tuple(self.unsupported()))
        return sections(
            Section(blocks=tuple(self.head()), tight=True, place=1),
            Section(blocks=tuple(self.ledger(ledger)), title=f"From ideal to measured: {self._closes()}"),
            Section(blocks=(self.rows(rows),), where="screen"),
            Section(blocks=tuple(self.findings(findings)), title=self._counted()),
            Section(blocks=(unpriced,) if unpriced.pairs else ()),
            Section(blocks=(verdict,), tight=bool(unpriced.pairs), place=2),
            Section(blocks=(marks(),), tight=True, place=9),
        )

    # --- headline ---------------------------------------------------------------------------

    def head(self) -> Iterator[Block]:
        run = self.run
        backend = f"{run.backend.name} on {run.device.name}"
        if run.device.kind == "cpu":
            backend += f", {count(run.ceilings.threads, 'thread')}"
        # The runtime first: it is what the times belong to.
        known = sorted(run.versions.items(), key=lambda item: (item[0] != "onnxruntime", item[0] != "trtprof", item[0]))
        versions = ", ".join(f"{name} {version}" for name, version in known)
        yield Notes(((Span(backend, cut="middle"), "  ", Span(versions, "faint", "end", 1 / 3)),), 1)
        told: list[tuple[str, Sequence[Span | str]]] = [
            ("measured", list(self._measured())),
            ("allowed", list(self._allowed())),
            ("coverage", list(self._coverage())),
            ("clocks", [prose(self._clocks())]),
            ("parts", [prose(mode_text(run))]),
            ("outputs", [prose(check_text(run))]),
            # Where the ceilings are from, where they were not measured.
            ("ceilings", [prose("" if run.ceilings.origin == "measured" else run.ceilings.source)]),
        ]
        pairs = [Pair(label, words) for label, words in told if words != [prose("")]]
        # Doubts come first: whoever reads the latency reads them.
        pairs[1:1] = self.trust()
        yield Pairs(tuple(pairs))

    def trust(self) -> Iterator[Pair]:
        """What is doubtful about the numbers, in two lines; nothing where all is well."""
        found = doubts(self.run)
        if found:
            grave = any(finding.severity == "critical" for finding in self.run.findings if finding.kind == "trust")
            kind: Kind = "critical" if grave else "doubt"
            words = (f"! {found[0]}", *found[1:])
            yield Pair("trust", Span("", kind, items=words, between="; "), 1 if self.width < 60 else 2, kind)

    def _measured(self) -> Iterator[Span | str]:
        latency = self.run.latency
        if not latency.n and latency.median_ns:
            yield Span(f"{units.format_ns(latency.median_ns)} in layers", "strong")
            yield Span("  their sum, not an end-to-end latency", "doubt")
            return
        if not latency.n:
            yield "nothing: no sample of the latency was taken"
            return
        median = f"{units.format_ns(latency.median_ns)} median"
        # Of a summary the spread is not known.
        varies = f", cv {units.format_percent(latency.cv)}" if latency.cv else ""
        spread = f"  p99 {units.format_ns(latency.p99_ns)}{varies}, n {latency.n}"
        if self.run.engine is not None and latency == self.run.profiled:
            spread += ", with the profiler"
        yield Span(median, "strong")
        yield spread
        yield self._profiled(self.width - _LABEL - cells(median) - cells(spread))

    def _profiled(self, room: int) -> str:
        """What the profiler itself costs, where there is a latency without it; less of it in less ``room``."""
        latency, profiled = self.run.latency, self.run.profiled
        cost = perturbation(latency, profiled)
        if cost is None or latency == profiled or not profiled.median_ns:
            return ""
        words = f"; profiled {units.format_ns(profiled.median_ns)} ({signed_percent(cost)})"
        return words if cells(words) <= room else f"; profiled {signed_percent(cost)}"

    def _clocks(self) -> str:
        """Clocks of the GPU while the latency was measured, or else while it was profiled."""
        sampled = [clocks for clocks in (self.run.clocks, self.run.clocks_profiled) if clocks is not None]
        return next(filter(None, map(clock_text, sorted(sampled, key=lambda clocks: not clocks.samples))), "")

    def _allowed(self) -> Iterator[Span | str]:
        total = headline(self.run)
        if total.attainable_ns is None or total.ideal_ns is None:
            yield "unknown: no layer has an estimate"
            return
        yield from (Span(f"~{units.format_ns(total.attainable_ns)}", "estimate"), " (ideal ")
        yield from (Span(f"~{units.format_ns(total.ideal_ns)}", "estimate"), ")")
        if total.of_roof is not None:
            yield from (Span(f"  ~{units.format_percent(total.of_roof)}", "estimate"), " of the roof")
        if total.unpriced:
            yield Span(f"; {count(total.unpriced, 'layer')} unpriced", "doubt")

    def _coverage(self) -> Iterator[Span | str]:
        share = self.run.coverage
        yield f"exact {units.format_percent(share.exact)}, "
        yield Span(f"inferred ~{units.format_percent(share.inferred)}, ", "estimate" if share.inferred else "")
        yield Span(f"unattributed {units.format_percent(share.unattributed)}", "critical" if share.unattributed else "")
        yield f" of {time_of(self.run)} time"

    # --- ledger -----------------------------------------------------------------------------

    def ledger(self, most: int | None) -> list[Block]:
        rows = [row for row in self.run.ledger if row.ns]
        if not rows:
            return []
        columns = (
            Column("time", right=True, least=9),
            Column("share", right=True, gap=1, least=5),
            Column("step", cut="middle"),
            Column("meaning", where="paper"),
        )
        shown = largest(rows, most or (12 if self.width >= 76 else 8))
        return [
            Heading("ledger", f"from ideal to measured; {self._closes()}", label=True),
            Table(columns=columns, rows=list(map(self._step, shown)), headless=True, beside=76),
        ]

    def _closes(self) -> str:
        gap = ledger_gap_ns(self.run)
        layers_only = not self.run.latency.n and self.run.latency.median_ns
        whole = "sum of the layers" if layers_only else "measured median"
        return (
            f"misses the {whole.removeprefix('measured ')} by {units.format_ns(gap)}"
            if gap
            else f"adds up to the {whole}"
        )

    def _step(self, row: LedgerRow) -> Row:
        median = self.run.latency.median_ns
        kind: Kind = "" if row.kind == "fact" else row.kind
        share = f"{round(100 * row.ns / median)} %" if median else "-"
        time = f"{_MARKS[row.kind]}{units.format_ns(row.ns)}"
        return Row((Span(time, kind), Span(share, kind), Span(row.cause, cut="middle"), prose(row.meaning)))

    # --- the list ---------------------------------------------------------------------------

    def rows(self, shown: int) -> Block:
        """The head of the list, its first rows, and the sum of the others."""
        if not self.view.rows:
            return Heading(Span(f"no {self.view.noun}s", "strong"))
        # Nodes that share a layer with one above stand below it where there is room for many lines.
        rows, rest = folded(self.view, shown, 0 if self.options.top is None else SHARING)
        return self._table([*rows, *([rest] if rest is not None else [])])

    def listed(self) -> Section:
        """The list for documents that can fold it."""
        view = self.view
        most = max(ROWS, self.options.top or 0) * 6
        rows, _ = folded(view, most)

        def rest(shown: int) -> Row | None:
            _, others = folded(view, shown)
            return None if others is None else self._row(others)

        none = Notes((f"No {view.noun}s.",))
        return Section(blocks=(self._table(list(rows), rest) if view.rows else none,), where="paper")

    def _table(self, rows: Sequence[ViewRow], rest: Callable[[int], Row | None] | None = None) -> Table:
        view = self.view
        order = "time in the capture" if view.by == "kernel" else "time lost"
        named = sum(view.names_of(row) for row in rows if not row.rest)
        words = f"{named:,} of {count(view.named, view.noun)}, by {order}"
        if any(row.home is not None for row in rows):
            words = f"{named:,} of {count(view.named, view.noun)}; {_SAME} same layer"
        whole = "; ".join(filter(None, (f"{count(view.named, view.noun)}, by {order}", view.note)))
        columns = self._columns()
        used = sum(each.gap + each.least for each in columns) - columns[0].gap
        if view.note and used + cells(words) + cells(view.note) + 2 <= self.width:
            words += f"; {view.note}"
        return Table(
            columns=columns,
            rows=list(map(self._row, rows)),
            title=words if rest is None else whole,
            in_head=True,
            paper=None if rest is None else ROWS,
            rest=rest,
        )

    def _columns(self) -> tuple[Column, ...]:
        last = Column(self.view.noun, least=15, cut="end")
        if self.view.by == "kernel":
            heads = (("in capture", 10), ("share", 7), ("launches", 8), ("layers", 6))
            return (*(Column(head, right=True, gap=1, least=least) for head, least in heads), last)
        third = Column("share", right=True, gap=1, least=7)
        if self.view.by != "type":
            third = Column("allows", right=True, gap=1, least=9, kind="estimate")
        return (
            Column("lost", right=True, least=10, kind="estimate"),
            Column("measured", right=True, gap=1, least=9),
            third,
            Column("eff", right=True, gap=1, least=7, kind="estimate", drop=1),
            Column("bound", least=7, kind="estimate", drop=2),
            last,
        )

    def _row(self, row: ViewRow) -> Row:
        faint: Kind = "faint" if row.rest or row.nameless or row.home is not None else ""
        title = tuple(span._replace(kind=faint) for span in line(list(self._name(row))))
        share = units.format_percent(row.measured_ns / self.view.total_ns) if self.view.total_ns else "-"
        time = units.format_ns(row.measured_ns)
        if self.view.by == "kernel":
            # What no kernel is known of was not launched as far as anybody saw; it is not 0.
            counts = (f"{row.launches:,}" if row.launches else "-", f"{row.layers:,}" if row.layers else "-")
            return Row((time, share, *counts, title))
        if row.home is not None:
            # The time stands in the row of the node above, which it shares a layer with.
            return Row((*(Span(_SAME, "faint") for _ in range(4)), "", title))

        def estimate(ns: int | None) -> str:
            return "-" if ns is None else f"~{units.format_ns(ns)}"

        third = share if self.view.by == "type" else estimate(row.attainable_ns)
        percent = "-" if row.of_roof is None else f"~{100 * row.of_roof:.0f} %"
        bound = "" if row.rest else bound_name(row.bound, self.run.device.kind)
        return Row((estimate(row.lost_ns), time, third, percent, bound, title))

    def _name(self, row: ViewRow) -> Iterator[Span | str]:
        unpriced = f", {row.unpriced:,} unpriced" if row.unpriced and row.layers > 1 else ""
        if row.rest or row.nameless:
            yield prose(row.name + unpriced)
        elif self.view.by == "node":
            yield from self._of_node(row, unpriced)
        elif row.layer is not None:
            yield from _of_layer(row.layer)
            yield f" x{row.layers:,}" if row.layers > 1 else ""
        elif self.view.by == "type":
            yield name(row.name)
            yield (f" x{row.layers:,}" if row.layers > 1 else "") + unpriced
        else:
            words = kernel_words(row.name)
            yield from (Span(words, cut="middle", least=0.5), "  ") if words else ()
            yield name(row.name)

    def _of_node(self, row: ViewRow, unpriced: str) -> Iterator[Span | str]:
        """Op type and name; how many others share its layer, and where there is room, which layer that is."""
        yield from ("+ " if row.home is not None else "", Span(row.what, cut="middle", least=0.5), " ")
        yield name(row.name, "start", least=32)
        yield f" +{row.sharing:,}" if row.sharing else ""
        yield (f", {count(row.layers, 'layer')}" if row.layers > 1 else "") + unpriced
        if row.sharing and row.inside and self.width >= 120:
            yield from (" in ", name(row.inside))

    # --- findings ---------------------------------------------------------------------------

    def _counted(self) -> str:
        number = len(self.run.findings)
        return f"{count(number, 'finding')}, by time lost" if number else "Findings: none, no rule fired"

    def findings(self, shown: int) -> list[Block]:
        found = self.run.findings
        if not found:
            return [Heading("findings", "none: no rule fired", label=True)]
        # A critical doubt comes first: there is no verdict for it. The others stand under the latency.
        ranked = sorted(found, key=lambda f: (f.kind != "trust" or f.severity != "critical", -f.lost_ns))
        columns = (
            Column("code", least=10),
            Column("sure", right=True, gap=0, least=5),
            Column("lost", right=True, gap=1, least=9, kind="estimate"),
            Column("likely cause, or doubt", cut="end"),
        )
        title = f"{min(shown, len(found))} of {len(found)}, by time lost"
        rows = list(map(_finding, ranked[: max(shown, FINDINGS + ITEMS)]))
        return [
            Heading("findings", title, label=True),
            Table(columns=columns, rows=rows, shown=shown, paper=FINDINGS, headless=True),
        ]

    def unsupported(self) -> Iterator[Pair]:
        ops = self.run.unsupported
        if not ops:
            return
        share = units.format_percent(sum(op.share for op in ops))
        engine = self.run.plan is not None
        names = ", ".join(f"{'' if engine or not op.domain else f'{op.domain}.'}{op.op_type} x{op.count}" for op in ops)
        if engine:
            text = f"{count(len(ops), 'kind')} of layer whose work is not all known, {share} of time: "
        else:
            text = f"{count(len(ops), 'op')} without a cost function, {share} of kernel time: "
        yield Pair("unpriced", (text, prose(names)), kind="doubt")

    def verdict(self) -> Pair:
        # What makes the verdict on an engine less sure is said in it.
        most = None if self.options.top is not None else 3 if self.run.plan is None else 5
        return Pair("verdict", Span(self.run.verdict, "strong"), most)

    # --- what follows -----------------------------------------------------------------------

    def roofline(self) -> Section:
        """The picture in characters, or why there is none; nothing where nobody asked for it."""
        asked = self.options.roofline
        if asked is False or (asked is None and self.options.top is None):
            return Section(blocks=())
        plot = _roofline.plot_of_run(self.run)
        blocks: tuple[Block, ...] = ()
        if plot is None and asked:
            text = "none: no layer has both arithmetic and a time" if self.run.layers else "none: no layer"
            blocks = (Heading("roofline", text, label=True),)
        elif plot is not None:
            absent = len(self.run.layers) - len(plot.points)
            text = f"{count(len(plot.points), 'layer')} as measured"
            if self.run.ceilings.origin == "datasheet":
                text += ", roofs of the datasheet"
            if absent:
                text += f"; not drawn: {absent:,} without arithmetic, work or time"
            blocks = (
                Heading("roofline", text, label=True),
                Picture(
                    lambda width, ascii_only: _roofline.in_characters(
                        plot, min(width, ROOFLINE_WIDTH), ascii_only=ascii_only, rows=ROOFLINE_ROWS
                    )
                ),
            )
        return Section(blocks=blocks, where="screen")

    def candidates(self) -> Section:
        """Where a hand-written kernel would pay, and what to try before; nothing where none was weighed."""
        weighed = self.run.candidates
        found = self._one_kernel()
        shown = min(self.options.top or CANDIDATES, len(found))
        layers = sum(map(len, found[:shown]))
        title = f"{layers} of {count(len(weighed), 'layer')} weighed, by what a hand-written kernel would net"
        columns = (
            Column("verdict", least=10),
            Column("net gain", gap=0, kind="estimate"),
            Column("layer", cut="start", least=10),
        )
        rows = [self._candidate(one) for one in found[: max(shown, ITEMS)]]
        table = Table(columns=columns, rows=rows, shown=shown, paper=ITEMS, headless=True)
        blocks = (Heading("plugins", title, label=True), table) if found else ()
        return Section(blocks=blocks, fold=True, title="Hand-written kernels")

    def _no_candidates(self) -> Iterator[Pair]:
        """Why none was weighed."""
        if self.run.no_candidates:
            yield Pair("plugins", ("none weighed: ", prose(self.run.no_candidates)), 1 if self.width < 60 else 2)

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
            what = f"{step.what}, {gain}"
            # A command that is cut cannot be run: where both do not fit on one line it has its own.
            together = f"{what}: {step.command}"
            texts = [together] if cells(together) <= room else [what, step.command]
            labels = ("try", " ")
            under += [Under(prose(text), label, indent=_LABEL) for label, text in zip(labels, texts, strict=False)]
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
        if run.speed != 1.0:
            share = units.format_percent(run.speed)
            items.append(f"the device ran at {share} of the speed that its ceilings were measured at")
        if run.kernels_unattributed:
            items.append(f"{count(len(run.kernels_unattributed), 'kernel')} led back to no layer")
        items += [f"assumed: {text}" for text in (*run.model.assumptions, *run.assumptions)]
        made = " ".join(filter(None, (run.created, f"in {self.options.file}" if self.options.file else "")))
        items += [f"made {made}"] if made else []
        return Section(blocks=(Notes(tuple(items)),), where="paper", title="What this rests on", fold=True, place=8)


def _of_layer(layer: LayerResult) -> Iterator[Span | str]:
    """The op type, then the last ONNX node that the layer computes: the end of its path tells most."""
    inferred = "~" if layer.match == "inferred" else ""
    if layer.role not in ("compute", "control"):
        op, called, more = f"{layer.op_type} ({layer.role})", layer.name, ""
    else:
        op = layer.op_type if layer.match != "none" else f"{layer.op_type} (no node)"
        called = layer.nodes[-1] if layer.nodes else layer.name
        more = f" +{len(layer.nodes) - 1}" if len(layer.nodes) > 1 else ""
    yield from (Span(inferred + op, cut="middle", least=0.5), " ", name(called, "start", least=0.5), more)


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
    under = (*where, Under(facts, whole=True), Under(prose(finding.try_), "try", indent=_LABEL))
    return Row((code, Span(sure, kind), lost, Span(finding.title, kind, "end")), under)
