"""The report for a terminal: at most 25 lines, ranked by time lost, coverage always shown.

Of a TensorRT engine follows what its plan shows: fusions that did not happen, reformats, shares.

The list is by layer, ONNX node, op type or kernel (`ReportOptions.by`); its rows and the one of the others that
ends it add up to the same time whatever is shown. The roofline in characters is no part of the 25 lines: it stands
where it is asked for, and where the reader chose how many rows to see.

Facts stand as they are, estimates carry a ``~``, causes a ``?``. Paths are cut at their start, where
they are like their neighbours, other names in the middle; control characters are escaped, so that no
name steers the terminal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from profiler.base import units
from profiler.base.records import Finding, LayerResult, LedgerRow, PluginCandidate, Run, bound_name
from profiler.report import ReportOptions, _roofline, reporter
from profiler.report._cells import cells, elide, head, pad, wrapped
from profiler.report._format import (
    check_text,
    clock_text,
    count,
    headline,
    ledger_gap_ns,
    mode_text,
    perturbation,
    plan_names,
    signed_percent,
    tensor_text,
    time_of,
    visible,
)
from profiler.report._ledger import largest
from profiler.report._views import Row, folded, kernel_words, view_of
from profiler.report.plan import summary_lines

LINES = 25
"""Most lines of a report when the reader did not choose how many rows to see."""

UNATTRIBUTED = 5
"""Kernels of no layer that are listed when the reader did not choose how many rows to see."""

CANDIDATES = 3
"""Layers weighed for a hand-written kernel that are listed when the reader did not choose how many rows to see."""

LEDGER_ROWS = 6
"""Rows of the ledger where there is no room for more."""

SHARING = 3
"""Nodes that are listed below the one that they share a layer with, when the reader chose how many rows to see."""

ROOFLINE_ROWS = 10
"""Lines of the roofline in characters that hold points; the axis, the roofs and a legend follow."""

ROOFLINE_WIDTH = 120
"""A wider roofline in characters would be flatter than it is worth."""

MIN_WIDTH = 40
"""A narrower terminal gets lines cut to this layout, then clipped to its width."""

_ANSI = {
    "bold": "1", "dim": "2", "estimate": "36", "hypothesis": "33", "trust": "35", "critical": "1;31",
}  # fmt: skip
_MARKS = {"fact": "", "estimate": "~", "remainder": "="}
_SAME = '"'
"""In place of a time that stands in the row above."""
_LABEL = 10
"""Columns of the words at the start of the headline rows."""


class _Span(NamedTuple):
    text: str
    style: str = ""


_Line = tuple[_Span, ...]


@reporter("text", suffix=".txt")
def render(run: Run, options: ReportOptions) -> str:
    """The run as lines of at most ``options.width`` columns."""
    page = _Page(run, options)
    lines = page.fitted() if options.top is None else page.lines(options.top, options.top, blanks=True)
    return "".join(
        page.paint(line) + "\n"
        for line in [
            *lines,
            *page.roofline(),
            *page.candidates(),
            *page.counters(),
            *page.unattributed(),
            *page.plan(),
        ]
    )


class _Page:
    def __init__(self, run: Run, options: ReportOptions) -> None:
        self.run = run
        self.options = options
        self.width = max(options.width, MIN_WIDTH)
        self.dots = "..." if options.ascii else "…"
        self.view = view_of(run, options.by)
        # Nodes that share a layer with one above stand below it where there is room for many lines.
        self._sharing = 0 if options.top is None else SHARING

    def fitted(self) -> list[_Line]:
        """As many findings (up to 3) and rows of the list as 25 lines hold, and air where there is room."""
        wanted = min(3, len(self.run.findings))
        rows = sum(row.home is None for row in self.view.rows)
        # What is given up, in this order: air, findings but one, small rows of the ledger, the last finding.
        less = [(n, False, None) for n in range(wanted, 0, -1)]
        for findings, blanks, ledger in [
            (wanted, True, None), *less, *((n, False, LEDGER_ROWS) for n, _, _ in less), (0, False, LEDGER_ROWS),
        ]:  # fmt: skip
            room = LINES - len(self.lines(0, findings, blanks=blanks, ledger=ledger)) + bool(rows)
            # One line is for the sum of the others.
            shown = rows if len(self.view.rows) <= room else max(room - 1, 0)
            if room >= min(3, rows):
                break
        return self.lines(shown, findings, blanks=blanks, ledger=ledger)

    def lines(self, rows: int, findings: int, *, blanks: bool, ledger: int | None = None) -> list[_Line]:
        """The page; ``ledger`` is the most rows of the ledger, None what suits the width."""
        blank: list[_Line] = [()] if blanks else []
        sections = [
            self._head(),
            self._ledger(ledger),
            self._list(rows),
            self._findings(findings),
            [*self._unsupported(), *self._verdict(), self._legend()],
        ]
        lines: list[_Line] = []
        for section in sections:
            if section:
                lines += [*blank, *section] if lines else section
        return lines

    # --- headline ---------------------------------------------------------------------------

    def _head(self) -> list[_Line]:
        run = self.run
        inputs = ", ".join(tensor_text(tensor) for tensor in run.model.inputs)
        name = self._elide(run.model.name, self.width // 2)
        backend = f"{run.backend.name} on {run.device.name}"
        if run.device.kind == "cpu":
            backend += f", {count(run.ceilings.threads, 'thread')}"
        # The runtime first: it is what the times belong to.
        known = sorted(run.versions.items(), key=lambda item: (item[0] != "onnxruntime", item[0] != "trtprof", item[0]))
        versions = ", ".join(f"{name} {version}" for name, version in known)
        backend = self._elide(backend, self.width - min(len(versions), self.width // 3) - 2)
        return [
            (_Span(name, "bold"), _Span("  " + self._elide(inputs, self.width - cells(name) - 2))),
            (_Span(backend), _Span("  " + self._end(versions, self.width - cells(backend) - 2), "dim")),
            self._labelled("measured", *self._measured()),
            self._labelled("allowed", *self._allowed()),
            self._labelled("coverage", *self._coverage()),
            *self._clocks(),
            *self._of_gpu(),
            *self._ceilings(),
        ]

    def _ceilings(self) -> list[_Line]:
        """Where the ceilings are from, where they were not measured."""
        ceilings = self.run.ceilings
        if ceilings.origin == "measured":
            return []
        return [self._labelled("ceilings", _Span(self._end(ceilings.source, self.width - _LABEL)))]

    def _measured(self) -> list[_Span]:
        latency = self.run.latency
        if not latency.n and latency.median_ns:
            total = _Span(f"{units.format_ns(latency.median_ns)} in layers", "bold")
            return [total, _Span("  their sum, not an end-to-end latency", "trust")]
        if not latency.n:
            return [_Span("nothing: no sample of the latency was taken")]
        spread = f"  p99 {units.format_ns(latency.p99_ns)}, cv {units.format_percent(latency.cv)}, n {latency.n}"
        if self.run.engine is not None and latency == self.run.profiled:
            spread += ", with the profiler"
        median = f"{units.format_ns(latency.median_ns)} median"
        cost = self._profiled(self.width - _LABEL - cells(median) - cells(spread))
        return [_Span(median, "bold"), _Span(spread), _Span(cost)]

    def _profiled(self, room: int) -> str:
        """What the profiler itself costs, where there is a latency without it; less of it in less ``room``."""
        latency, profiled = self.run.latency, self.run.profiled
        cost = perturbation(latency, profiled)
        if cost is None or latency == profiled or not profiled.median_ns:
            return ""
        words = f"; profiled {units.format_ns(profiled.median_ns)} ({signed_percent(cost)})"
        return words if cells(words) <= room else f"; profiled {signed_percent(cost)}"

    def _clocks(self) -> list[_Line]:
        """Clocks of the GPU while the latency was measured, or else while it was profiled."""
        sampled = [clocks for clocks in (self.run.clocks, self.run.clocks_profiled) if clocks is not None]
        text = next(filter(None, map(clock_text, sorted(sampled, key=lambda clocks: not clocks.samples))), "")
        return [self._labelled("clocks", _Span(self._end(text, self.width - _LABEL)))] if text else []

    def _of_gpu(self) -> list[_Line]:
        """What else was measured on a GPU: the parts of the latency, and whether the outputs are right."""
        lines = []
        for label, text in (("parts", mode_text(self.run)), ("outputs", check_text(self.run))):
            if text:
                lines.append(self._labelled(label, _Span(self._end(text, self.width - _LABEL))))
        return lines

    def _allowed(self) -> list[_Span]:
        total = headline(self.run)
        if total.attainable_ns is None or total.ideal_ns is None:
            return [_Span("unknown: no layer has an estimate")]
        spans = [
            _Span(f"~{units.format_ns(total.attainable_ns)}", "estimate"),
            _Span(" (ideal "),
            _Span(f"~{units.format_ns(total.ideal_ns)}", "estimate"),
            _Span(")"),
        ]
        if total.of_roof is not None:
            spans += [_Span(f"  ~{units.format_percent(total.of_roof)}", "estimate"), _Span(" of the roof")]
        if total.unpriced:
            spans.append(_Span(f"; {count(total.unpriced, 'layer')} unpriced", "trust"))
        return spans

    def _coverage(self) -> list[_Span]:
        share = self.run.coverage
        return [
            _Span(f"exact {units.format_percent(share.exact)}, "),
            _Span(f"inferred ~{units.format_percent(share.inferred)}, ", "estimate" if share.inferred else ""),
            _Span(f"unattributed {units.format_percent(share.unattributed)}", "critical" if share.unattributed else ""),
            _Span(f" of {time_of(self.run)} time"),
        ]

    # --- ledger -----------------------------------------------------------------------------

    def _ledger(self, most: int | None) -> list[_Line]:
        rows = [row for row in self.run.ledger if row.ns]
        if not rows:
            return []
        gap = ledger_gap_ns(self.run)
        layers_only = not self.run.latency.n and self.run.latency.median_ns
        whole = "sum of the layers" if layers_only else "measured median"
        closes = f"adds up to the {whole}"
        if gap:
            closes = f"misses the {whole.removeprefix('measured ')} by {units.format_ns(gap)}"
        title: _Line = (_Span(pad("ledger", _LABEL), "bold"), _Span(f"from ideal to measured; {closes}", "dim"))
        columns = 2 if self.width >= 76 else 1
        rows = largest(rows, most or (12 if columns == 2 else 8))
        width = (self.width - 2 * (columns - 1)) // columns
        depth = -(-len(rows) // columns)
        lines: list[_Line] = [title]
        for index in range(depth):
            row_cells = [self._ledger_cell(row, width) for row in rows[index::depth]]
            lines.append(tuple(span for cell in row_cells for span in (*cell, _Span("  "))))
        return lines

    def _ledger_cell(self, row: LedgerRow, width: int) -> _Line:
        median = self.run.latency.median_ns
        time = f"{_MARKS[row.kind]}{units.format_ns(row.ns)}"
        share = f"{round(100 * row.ns / median)} %" if median else "-"
        style = "" if row.kind == "fact" else "estimate" if row.kind == "estimate" else "dim"
        room = width - 17
        return _Span(f"{time:>9} {share:>5}  ", style), _Span(pad(self._elide(row.cause, room), room))

    # --- the list ---------------------------------------------------------------------------

    def _list(self, shown: int) -> list[_Line]:
        """The head of the list, its first rows, and the sum of the others."""
        view = self.view
        if not view.rows:
            return [(_Span(f"no {view.noun}s", "bold"),)]
        rows, rest = folded(view, shown, self._sharing)
        order = "time in the capture" if view.by == "kernel" else "time lost"
        named = sum(not row.nameless for row in rows)
        words = f"{named:,} of {count(view.named, view.noun)}, by {order}"
        if any(row.home is not None for row in rows):
            words = f"{named:,} of {count(view.named, view.noun)}; {_SAME} same layer"
        title = self._columns(None)
        if view.note and cells(title[0].text) + cells(words) + cells(view.note) + 4 <= self.width:
            words += f"; {view.note}"
        lines: list[_Line] = [
            (_Span(title[0].text, "bold"), _Span("  " + self._end(words, self.width - cells(title[0].text) - 2), "dim"))
        ]
        for row in (*rows, *([rest] if rest is not None else [])):
            spans = self._columns(row)
            room = self.width - sum(cells(span.text) for span in spans) - 2
            faint = row.rest or row.nameless or row.home is not None
            lines.append((*spans, _Span("  " + self._row_name(row, room), "dim" if faint else "")))
        return lines

    def _columns(self, row: Row | None) -> list[_Span]:
        """The numbers of a row of the list, or the heads of their columns."""
        if self.view.by == "kernel":
            return self._kernel_columns(row)
        wide = self.width >= 64
        share = self.view.by == "type"
        if row is None:
            title = f"{'lost':>10} {'measured':>9}" + (f" {'share':>7}" if share else f" {'allows':>9}")
            return [_Span(title + (f" {'eff':>7}  bound  " if wide else ""))]
        if row.home is not None:
            # The time stands in the row of the node above, which it shares a layer with.
            widths = (10, 10, 10, 8) if wide else (10, 10, 10)
            return [_Span("".join(f"{_SAME:>{width}}" for width in widths) + "         " * wide, "dim")]

        def estimate(ns: int | None) -> str:
            return "-" if ns is None else f"~{units.format_ns(ns)}"

        spans = [_Span(f"{estimate(row.lost_ns):>10}", "estimate"), _Span(f" {units.format_ns(row.measured_ns):>9}")]
        if share:
            spans.append(_Span(f" {self._share(row):>7}"))
        else:
            spans.append(_Span(f" {estimate(row.attainable_ns):>9}", "estimate"))
        if wide:
            percent = "-" if row.of_roof is None else f"~{100 * row.of_roof:.0f} %"
            bound = "" if row.rest else bound_name(row.bound, self.run.device.kind)
            spans.append(_Span(f" {percent:>7}  {bound:<7}", "estimate"))
        return spans

    def _kernel_columns(self, row: Row | None) -> list[_Span]:
        if row is None:
            return [_Span(f"{'in capture':>10} {'share':>7} {'launches':>8} {'layers':>6}")]
        # What no kernel is known of was not launched as far as anybody saw; it is not 0.
        launches = f"{row.launches:,}" if row.launches else "-"
        layers = f"{row.layers:,}" if row.layers else "-"
        return [_Span(f"{units.format_ns(row.measured_ns):>10} {self._share(row):>7} {launches:>8} {layers:>6}")]

    def _share(self, row: Row) -> str:
        return units.format_percent(row.measured_ns / self.view.total_ns) if self.view.total_ns else "-"

    def _row_name(self, row: Row, width: int) -> str:
        if row.rest or row.nameless:
            return self._end(row.name + self._unpriced(row), width)
        if self.view.by == "node":
            return self._node_name(row, width)
        if row.layer is not None:
            return self._layer_name(row.layer, width)
        if self.view.by == "type":
            more = (f" x{row.layers:,}" if row.layers > 1 else "") + self._unpriced(row)
            return self._elide(row.name, width - len(more)) + more
        words = kernel_words(row.name)
        used = self._elide(words, width // 2) + "  " if words else ""
        return used + self._elide(row.name, width - cells(used))

    def _node_name(self, row: Row, width: int) -> str:
        """Op type and name; how many others share its layer, and where there is room, which layer that is."""
        op = self._elide(row.what, width // 2)
        if row.home is not None:
            op = "+ " + op
        more = f" +{row.sharing:,}" if row.sharing else ""
        more += f", {count(row.layers, 'layer')}" if row.layers > 1 else ""
        more += self._unpriced(row)
        if row.sharing and row.inside and width >= 64:
            more += f" in {self._elide(row.inside, width - cells(op) - cells(more) - 32)}"
        return f"{op} {self._tail(row.name, max(width - cells(op) - cells(more) - 1, 0))}{more}"

    @staticmethod
    def _unpriced(row: Row) -> str:
        return f", {row.unpriced:,} unpriced" if row.unpriced and row.layers > 1 else ""

    def _layer_name(self, layer: LayerResult, width: int) -> str:
        """The op type, then the last ONNX node that the layer computes: the end of its path tells most."""
        if layer.role not in ("compute", "control"):
            op, name, more = f"{layer.op_type} ({layer.role})", layer.name, ""
        else:
            op = layer.op_type if layer.match != "none" else f"{layer.op_type} (no node)"
            name = layer.nodes[-1] if layer.nodes else layer.name
            more = f" +{len(layer.nodes) - 1}" if len(layer.nodes) > 1 else ""
        op = self._elide(("~" if layer.match == "inferred" else "") + op, width // 2)
        return f"{op} {self._tail(name, width - cells(op) - len(more) - 1)}{more}"

    # --- findings ---------------------------------------------------------------------------

    def _findings(self, shown: int) -> list[_Line]:
        findings = self.run.findings
        if not findings:
            return [(_Span(pad("findings", _LABEL), "bold"), _Span("none: no rule fired", "dim"))]
        # A critical doubt comes first: it says whether the rest can be believed.
        first = sorted(findings, key=lambda f: (f.kind != "trust" or f.severity != "critical", -f.lost_ns))[:shown]
        title = f"{len(first)} of {len(findings)}, by time lost"
        lines: list[_Line] = [(_Span(pad("findings", _LABEL), "bold"), _Span(title, "dim"))]
        for finding in first:
            lines += self._finding(finding)
        return lines

    def _finding(self, finding: Finding) -> list[_Line]:
        trust = finding.kind == "trust"
        style = "critical" if finding.severity == "critical" else "trust" if trust else "hypothesis"
        code = f"{self._elide(finding.code, 8)}{'!' if trust else '?'}"
        sure = "" if trust else f"{100 * finding.confidence:.0f} %"
        lost = f"~{units.format_ns(finding.lost_ns)}" if finding.lost_ns else ""
        room = self.width - _LABEL - 5
        indent = _Span(" " * _LABEL)
        lines: list[_Line] = [
            (
                _Span(f"{pad(code, _LABEL)}{sure:>5}", style),
                _Span(f" {lost:>9}  ", "estimate"),
                _Span(self._end(finding.title, self.width - _LABEL - 17), style),
            )
        ]
        if finding.where:
            lines.append((indent, _Span("at   ", "dim"), _Span(self._tail(finding.where, room))))
        lines.append((indent, _Span("try  ", "dim"), _Span(self._end(finding.try_, room))))
        return lines

    def _unsupported(self) -> list[_Line]:
        ops = self.run.unsupported
        if not ops:
            return []
        share = units.format_percent(sum(op.share for op in ops))
        engine = self.run.plan is not None
        names = ", ".join(f"{'' if engine or not op.domain else f'{op.domain}.'}{op.op_type} x{op.count}" for op in ops)
        if engine:
            text = f"{count(len(ops), 'kind')} of layer whose work is not all known, {share} of time: "
        else:
            text = f"{count(len(ops), 'op')} without a cost function, {share} of kernel time: "
        room = self.width - _LABEL - len(text)
        return [(_Span(pad("unpriced", _LABEL), "trust"), _Span(text), _Span(self._end(names, room)))]

    def _verdict(self) -> list[_Line]:
        lines = wrapped(self._safe(self.run.verdict), self.width - _LABEL, self.dots)
        # What makes the verdict on an engine less sure is said in it.
        most = 3 if self.run.plan is None else 5
        if self.options.top is None and len(lines) > most:
            lines = [*lines[: most - 1], self._end(" ".join(lines[most - 1 :]), self.width - _LABEL)]
        words = ["verdict", *[""] * len(lines)]
        return [
            (_Span(pad(word, _LABEL), "bold"), _Span(line, "bold"))
            for word, line in zip(words, lines or [""], strict=False)
        ]

    def _legend(self) -> _Line:
        return (
            _Span(pad("marks", _LABEL), "dim"),
            _Span("none: measured  ", "dim"),
            _Span("~ estimate", "estimate"),
            _Span("  = remainder  ", "dim"),
            _Span("? likely cause", "hypothesis"),
            _Span("  ! doubt", "trust"),
        )

    # --- the roofline -----------------------------------------------------------------------

    def roofline(self) -> list[_Line]:
        """The picture in characters behind an empty line, or why there is none; nothing where nobody asked for it."""
        wanted = self.options.top is not None if self.options.roofline is None else self.options.roofline
        if not wanted:
            return []
        plot = _roofline.plot_of_run(self.run)
        if plot is None:
            text = "none: no layer has both arithmetic and a time" if self.run.layers else "none: no layer"
            return (
                [(), self._labelled("roofline", _Span(self._end(text, self.width - _LABEL)))]
                if (self.options.roofline)
                else []
            )
        absent = len(self.run.layers) - len(plot.points)
        text = f"{count(len(plot.points), 'layer')} as measured"
        if self.run.ceilings.origin == "datasheet":
            text += ", roofs of the datasheet"
        if absent:
            text += f"; not drawn: {absent:,} without arithmetic, work or time"
        picture = _roofline.in_characters(
            plot, min(self.width, ROOFLINE_WIDTH), ascii_only=self.options.ascii, rows=ROOFLINE_ROWS
        )
        return [
            (),
            self._labelled("roofline", _Span(self._end(text, self.width - _LABEL), "dim")),
            *((_Span(self._end(line, self.width)),) for line in picture),
        ]

    # --- the plan of an engine --------------------------------------------------------------

    def plan(self) -> list[_Line]:
        """What the plan shows, behind an empty line; nothing where there is none."""
        # It draws with the helpers of this module.
        summary = self.run.plan
        if summary is None:
            return []
        lines = summary_lines(
            summary,
            max(self.width, 60),
            ascii_only=self.options.ascii,
            top=self.options.top,
            measured=True,
            names=plan_names(self.run),
        )
        return [(), *((_Span(line),) for line in lines)]

    def candidates(self) -> list[_Line]:
        """Where a hand-written kernel would pay, and what to try before; nothing where none was weighed."""
        found = self.run.candidates
        if not found:
            return []
        shown = found[: self.options.top or CANDIDATES]
        title = f"{len(shown)} of {count(len(found), 'layer')} weighed, by what a hand-written kernel would net"
        lines: list[_Line] = [
            (),
            (_Span(pad("plugins", _LABEL), "bold"), _Span(self._end(title, self.width - _LABEL), "dim")),
        ]
        for one in shown:
            lines += self._candidate(one)
        return lines

    def _candidate(self, one: PluginCandidate) -> list[_Line]:
        indent = _Span(" " * _LABEL)
        room = self.width - _LABEL - 5
        net = f"~{units.format_ns(one.net_ns)} net"
        between = f" ({units.format_ns(one.net_low_ns)} to {units.format_ns(one.net_high_ns)})  "
        name = one.nodes[-1] if one.nodes else one.layer
        used = _LABEL + cells(net) + cells(between)
        lines: list[_Line] = [
            (
                _Span(pad(one.verdict, _LABEL), "bold" if one.verdict == "write it" else ""),
                _Span(net + between, "estimate"),
                _Span(self._tail(name, max(self.width - used, _LABEL))),
            ),
            *((indent, _Span(label, "dim"), _Span(text)) for label, text in self._reason(one, room)),
        ]
        for step in one.ladder if one.verdict != "do not" else ():
            gain = "gain unknown" if step.gain_ns is None else f"~{units.format_ns(step.gain_ns)}"
            what = f"{step.what}, {gain}"
            # A command that is cut cannot be run: where both do not fit on one line it has its own.
            together = f"{what}: {step.command}"
            texts = [together] if cells(together) <= room else [what, step.command]
            for label, text in zip(("try  ", "     "), texts, strict=False):
                lines.append((indent, _Span(label, "dim"), _Span(self._end(text, room))))
        return lines

    def _reason(self, one: PluginCandidate, room: int) -> list[tuple[str, str]]:
        """Why, in three lines at most."""
        lines = wrapped(self._safe(one.why), room, self.dots)
        if len(lines) > 3:
            lines = [*lines[:2], self._end(" ".join(lines[2:]), room)]
        return list(zip(("why  ", "     ", "     "), lines, strict=False))

    def counters(self) -> list[_Line]:
        """What hardware counters say of predictions; nothing where none were counted."""
        lines: list[_Line] = []
        for one in self.run.confirmations:
            verdict = pad(one.verdict, 11)
            lines.append(
                (_Span(verdict, "trust" if one.verdict == "refuted" else ""), _Span(self._elide(one.layer, 50)))
            )
            told = [check for check in one.checks if check.verdict != "not told"]
            lines += [(_Span(self._end(f"{'':11}{check.what}: {check.reason}", self.width), "dim"),) for check in told]
        heading = "counters  predictions held against ncu"
        return [(), (_Span(self._end(heading, self.width)),), *lines] if lines else []

    def unattributed(self) -> list[_Line]:
        """Kernels that no layer of a plan owns, most time first; the page of a run without a plan stays short."""
        kernels = sorted(self.run.kernels_unattributed, key=lambda kernel: -kernel.total_ns)
        if not kernels or self.run.plan is None:
            return []
        shown = kernels[: self.options.top or UNATTRIBUTED]
        heading = f"kernels of no layer: {len(shown)} of {len(kernels)}, by time in the capture"
        lines: list[_Line] = [(), (_Span(self._end(heading, self.width)),)]
        for kernel in shown:
            time = f"{units.format_ns(kernel.total_ns):>10}  {kernel.count:>7,} x  "
            lines.append((_Span(time), _Span(self._elide(kernel.kernel, self.width - cells(time)))))
            lines.append((_Span(" " * cells(time) + self._end(kernel.reason, self.width - cells(time)), "dim"),))
        return lines

    # --- fitting ----------------------------------------------------------------------------

    def _labelled(self, label: str, *spans: _Span) -> _Line:
        return (_Span(pad(label, _LABEL), "bold"), *spans)

    def _safe(self, text: str) -> str:
        return visible(text, ascii_only=self.options.ascii)

    def _elide(self, text: str, width: int) -> str:
        return elide(self._safe(text), width, self.dots)

    def _tail(self, text: str, width: int) -> str:
        """Cut a path at its start, where it is like the others."""
        text = self._safe(text)
        if cells(text) <= width:
            return text
        return self.dots + head(text[::-1], width - len(self.dots))[::-1]

    def _end(self, text: str, width: int) -> str:
        """Cut prose at its end, where names are cut in the middle."""
        text = self._safe(text)
        return text if cells(text) <= width else head(text, width - len(self.dots)) + self.dots

    def paint(self, line: Sequence[_Span]) -> str:
        """One line, clipped to the width and coloured."""
        spans = self._trimmed(line)
        left = max(self.options.width, 1)
        clipped = sum(cells(span.text) for span in spans) > left
        left -= len(self.dots) if clipped else 0
        out = []
        for span in spans:
            text = head(span.text, left)
            left -= cells(text)
            out.append(self._colored(text, span.style))
            if text != span.text:
                break
        return "".join(out) + self.dots[: self.options.width] * clipped

    def _colored(self, text: str, style: str) -> str:
        if not (self.options.color and style and text.strip()):
            return text
        return f"\x1b[{_ANSI[style]}m{text}\x1b[0m"

    @staticmethod
    def _trimmed(line: Sequence[_Span]) -> list[_Span]:
        spans = list(line)
        while spans and not spans[-1].text.strip():
            spans.pop()
        if spans:
            spans[-1] = _Span(spans[-1].text.rstrip(), spans[-1].style)
        return spans
