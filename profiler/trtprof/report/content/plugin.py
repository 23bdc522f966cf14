"""A custom kernel: whether to write it, what it computes, how it was compiled, what was checked.

The verdict and its doubts come first. Times are per inference; estimates (``~``, ``>=``) and causes (``?``) are marked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from trtprof.base import records as r
from trtprof.base.units import format_bytes, format_flops, format_ns, format_percent, format_shape
from trtprof.report import ReportOptions, content_of
from trtprof.report import document as d
from trtprof.report._estimates import at_least, with_band
from trtprof.report._format import count

_VERDICTS: dict[str, d.Kind] = {
    "write it": "strong", "not decided": "doubt", "passed": "better", "failed": "critical", "not here": "faint",
    "faster": "better", "slower": "worse", "inconclusive": "doubt", "incorrect": "critical",
}  # fmt: skip
_CHECKS = {
    "numerics": "Triton's interpreter, beside ONNX Runtime",
    "traffic": "sectors read and written, beside the roofline's bytes",
    "compiler": "spills, vector loads, scratch memory",
    "registry": "plugin.py in TensorRT's registry",
    "onnxruntime": "the model with it, beside the original",
    "tensorrt-rtx": "the model with it, built by TensorRT-RTX",
}


@content_of(r.Plugin)
def document(found: r.Plugin, options: ReportOptions) -> d.Document:  # noqa: ARG001 - all have this signature
    """The brief, the kernel, the checks, the model with the plugin, the files, and what to run next."""
    brief, check = found.brief, found.check
    sections: list[d.Section] = []
    if brief is not None:
        sections += _apart(_verdict(brief), "", 1)
        sections += _apart(_computes(brief), "What it computes", 2)
        numbers = tuple(_numbers(brief))
        sections += _apart((d.Pairs(numbers),) if numbers else (), "What it could save", 3)
        sections += _apart(_ladder(brief), "Cheaper candidates", 4)
    sections += (*_apart(_kernel(found), "Kernel", 6), *_tactics(found))
    sections += _apart(_checks(check) if check is not None else (), "Checks", 7)
    sections += _apart(_model(found), "The model with it", 8)
    sections += _apart(_next(found), "Next", 9)
    files = tuple(d.Span(f"{found.folder}/{file}", "faint", "never") for file in found.files)
    sections += _apart((d.Notes(files),) if files else (), "Files", 10)
    verdict = f"{found.name or 'for ' + brief.layer}: {brief.verdict}" if brief is not None else found.name
    return d.Document(title=f"Plugin {verdict}", titled=False, sections=tuple(sections))


def _apart(blocks: Iterable[d.Block], title: str, place: int) -> Iterator[d.Section]:
    """Yield a section per block, the first with the title."""
    for at, block in enumerate(blocks):
        yield d.Section(blocks=(block,), title="" if at else title, place=place)


def _verdict(brief: r.PluginBrief) -> Iterator[d.Block]:
    on = f" on {brief.gpu}" if brief.gpu else ""
    on += f", {brief.runs:,} times an inference" if brief.runs != 1 else ""
    verdict = d.Span(f"{brief.verdict}: ", _VERDICTS.get(brief.verdict, "strong"))
    pairs = [_pair("verdict", verdict, d.Span(brief.why, "", "end"), kind="strong")]
    pairs += _listed("doubts", brief.doubts, "doubt")
    yield d.Pairs((*pairs, _pair("layer", d.name(brief.layer, "start"), on)))


def _pair(label: str, *words: d.Span | str, kind: d.Kind = "") -> d.Pair:
    return d.Pair(label, words, None, kind)


def _listed(label: str, texts: Sequence[str], kind: d.Kind = "", *, names: bool = False) -> Iterator[d.Pair]:
    for at, text in enumerate(texts):
        yield _pair("" if at else label, d.Span(text, kind, "end", name=names), kind="" if at else kind)


def _computes(brief: r.PluginBrief) -> Iterator[d.Block]:
    ops = " + ".join(brief.op_types)
    pairs = list(_listed("computes", brief.formulas or (ops,), names=bool(brief.formulas)))
    if brief.nodes:
        pairs.append(d.Pair("nodes", (f"{ops}: ", d.Span("", "", "end", items=brief.nodes)), 3, ""))
    rest = tuple(node for node in brief.group if node not in brief.nodes)
    if rest:
        pairs.append(d.Pair("fused with", d.Span("", "", "end", items=rest), 3, ""))
    yield d.Pairs(tuple(pairs))
    if brief.tensors:
        columns = (
            d.Column("operand", key=True), d.Column("role", drop=3), d.Column("dtype"),
            d.Column("shape", cut="middle", least=8), d.Column("size", right=True, drop=1),
            d.Column("layout", drop=2), d.Column("in the model", cut="start", drop=4),
        )  # fmt: skip
        title = "tensors, dense and row-major unless a layout is given"
        yield d.Table(columns=columns, rows=list(map(_tensor, brief.tensors)), title=title)


def _tensor(one: r.BriefTensor) -> d.Row:
    size = "?" if one.nbytes is None else format_bytes(one.nbytes)
    return d.Row((one.operand or "-", one.role, one.dtype, format_shape(one.shape), size, one.layout, d.name(one.name)))


def _numbers(brief: r.PluginBrief) -> Iterator[d.Pair]:
    work, bound = brief.work, brief.estimate
    once = ", one run" if brief.runs != 1 else ""
    group = " for the whole group" if len(brief.group) > len(brief.nodes) else ""
    if work is not None:
        read, written = format_bytes(work.bytes_read), format_bytes(work.bytes_written)
        flops = f"{format_flops(work.flops)}{f' in {work.dtype}' if work.dtype else ''}, " if work.flops else ""
        yield _pair("work", f"{flops}{work.bytes:,} bytes ({read} read, {written} written){once}")
    if bound is not None:
        others = sorted(((ns, term) for term, ns in bound.terms.items() if ns and term != bound.bound), reverse=True)
        faint = ", ".join(f"{r.BOUND_WORDS[term].word} {at_least(ns)}" for ns, term in others)
        words = f"{at_least(bound.attainable_ns)} by {r.BOUND_WORDS[bound.bound].phrase}{once}"
        yield _pair("bound", words, d.Span(f" ({faint})" if faint else "", "faint"))
    if group and brief.group_bound_ns is not None:
        yield _pair("" if bound is not None else "bound", f"{at_least(brief.group_bound_ns)}{group}")
    if brief.expected_ns is not None:
        why = f": {brief.expected_reason}" if brief.expected_reason else ""
        yield _pair("expected", d.Span(with_band(brief), "estimate"), f" with library kernels{group}{why}")
    elif brief.expected_reason:
        yield _pair("expected", d.Span(f"none: {brief.expected_reason}", "faint"))
    if brief.measured_ns is not None:
        yield _pair("measured", d.Span(format_ns(brief.measured_ns), "fact"), group)
    yield from _listed("kernel", brief.kernels, names=True)
    yield from _listed("causes", tuple(f"? {text}" for text in brief.wrong), "cause")
    if brief.reachable_ns is not None:
        basis = f": {brief.basis}" if brief.basis else ""
        yield _pair("in reach", d.Span(f"~{format_ns(brief.reachable_ns)}", "estimate"), basis)
    for at, part in enumerate(brief.barrier):
        yield _pair("" if at else "fusion cost", d.Span(f"~{format_ns(part.ns)}", "estimate"), f": {part.what}")
    if brief.net_ns is not None:
        low, high = brief.net_low_ns, brief.net_high_ns
        between = f" ({format_ns(low)} to {format_ns(high)})" if low is not None and high is not None else ""
        beside = "" if brief.measured_ns is not None else ", if the engine's kernel takes the expected time"
        yield _pair("saving", d.Span(f"~{format_ns(brief.net_ns)}{between}", "estimate"), beside)
    if brief.pays_above_ns is not None:
        yield _pair("pays", f"if the engine's kernel takes more than ~{format_ns(brief.pays_above_ns)}")


def _ladder(brief: r.PluginBrief) -> Iterator[d.Block]:
    if brief.ladder:
        columns = (d.Column("saving", right=True, least=7, kind="estimate"), d.Column("step", cut="wrap", least=12))
        title = "cheaper candidates, to be tried first"
        yield d.Table(columns=columns, rows=list(map(_step, brief.ladder)), title=title)


def _step(step: r.LadderStep) -> d.Row:
    saving: d.Words = "?" if step.gain_ns is None else f"~{format_ns(step.gain_ns)}"
    if step.tried is not None:
        saving = d.Span(format_ns(step.gain_ns or 0), "fact")
    under = [d.Span(step.basis, "faint", "end")] if step.basis else []
    under += [d.Span(step.command, "", "never")] if step.command else []
    return d.Row((saving, step.what), tuple(d.Under(span, lines=None, indent=9) for span in under))


def _kernel(found: r.Plugin) -> Iterator[d.Block]:
    if found.form:
        yield d.Pairs((_pair("plugin", f"{found.name}, by the form {found.form}"),))
    elif found.refused:
        reasons = (f"{form}: {why}" if form else why for form, why in found.refused.items())
        yield d.Notes((d.Span("no kernel is written:", "strong"), *(d.Span(text, "", "end") for text in reasons)))


def _tactics(found: r.Plugin) -> Iterator[d.Section]:
    """A screen shows one architecture per tactic, the one with the most registers; paper shows all."""
    every = [(one, build) for one in found.variants for build in one.builds]
    most = [(one, max(one.builds, key=lambda build: build.registers)) for one in found.variants if one.builds]
    if len(most) < len(every):
        yield d.Section(blocks=(_compiled(most, " for the one with the most registers"),), where="screen", place=6)
    if every:
        where: Literal["", "paper"] = "paper" if len(most) < len(every) else ""
        yield d.Section(blocks=(_compiled(every, ""),), where=where, place=6)


def _compiled(builds: Sequence[tuple[r.KernelVariant, r.KernelBuild]], shown: str) -> d.Table:
    columns = (
        d.Column("tactic", right=True, key=True), d.Column("for", key=True, least=6),
        d.Column("registers", right=True), d.Column("spills", right=True), d.Column("shared", right=True, drop=3),
        d.Column("occupancy", right=True, drop=1), d.Column("vector loads", drop=2),
        d.Column("blocks", cut="end", least=10, drop=4),
    )  # fmt: skip
    rows = [
        d.Row((
            f"{one.tactic}", build.architecture, f"{build.registers}", format_bytes(build.spill_bytes),
            format_bytes(build.shared_bytes), format_percent(build.occupancy),
            build.loads.removesuffix(" loads are vectors"), one.label,
        ))
        for one, build in builds
    ]  # fmt: skip
    return d.Table(columns=columns, rows=rows, title=f"compiled{shown}; no GPU ran it")


def _checks(check: r.PluginCheck) -> Iterator[d.Block]:
    columns = (
        d.Column("check", key=True, least=12), d.Column("verdict"), d.Column("cases", right=True),
        d.Column("time", right=True, drop=1), d.Column("what", cut="end", least=28, drop=2),
    )  # fmt: skip
    yield d.Table(columns=columns, rows=list(map(_check, check.steps)), title="checks without a GPU")
    if check.numerics:
        yield d.Notes(tuple(_numerics(check.numerics)))
    if check.traffic:
        columns = (
            d.Column("tactic", right=True, key=True), d.Column("roofline", right=True, kind="estimate"),
            d.Column("counted", right=True), d.Column("requested", right=True, drop=2),
            d.Column("shapes", cut="end", drop=3),
        )  # fmt: skip
        title = "bytes of DRAM: distinct sectors of 32 bytes; requested: by all programs"
        yield d.Table(columns=columns, rows=list(map(_traffic, check.traffic)), title=title)


def _check(step: r.CheckStep) -> d.Row:
    cases, time = f"{step.cases:,}" if step.cases else "-", f"{step.seconds:.1f} s" if step.seconds else "-"
    under = (d.Under(d.Span(step.reason, "faint", "end"), lines=None, indent=4),) if step.reason else ()
    return d.Row((step.name, d.Span(step.verdict, _VERDICTS[step.verdict]), cases, time, _CHECKS[step.name]), under)


def _numerics(cases: Sequence[r.NumericCase]) -> Iterator[d.Span]:
    """The worst that passed, then all that failed."""
    worst = max((case for case in cases if case.ok), key=lambda case: case.worst or 0.0, default=None)
    if worst is not None and worst.worst is not None:
        yield d.Span(f"largest error that passed: {worst.worst:.3g} of the tolerance, {worst.what}", "", "end")
    for case in cases:
        if not case.ok:
            off = "" if case.worst is None else f", off by {case.worst:.3g} of the tolerance"
            yield d.Span(f"failed: tactic {case.tactic}, {case.what}{off}: {case.reason}", "critical", "end")


def _traffic(one: r.Traffic) -> d.Row:
    reason = d.Under(d.Span(one.reason, "" if one.ok else "critical", "end"), lines=None, indent=8)
    cells = (f"{one.tactic}", f"~{one.predicted_bytes:,}", f"{one.counted_bytes:,}", f"{one.requested_bytes:,}")
    return d.Row((*cells, one.shapes), (reason,) if one.reason else ())


def _model(found: r.Plugin) -> Iterator[d.Block]:
    inserted = found.inserted
    if inserted is None:
        return
    function = "the original nodes, for runtimes without it" if inserted.function else "none"
    places = d.Span("", "", "end", items=tuple(node for nodes in inserted.places for node in nodes))
    pairs = [
        _pair("model", d.Span(inserted.model, "", "never")), _pair("function", function),
        d.Pair(count(len(inserted.places), "place"), places, 4, ""), *_listed("left", inserted.left),
    ]  # fmt: skip
    yield d.Pairs(tuple(pairs))


def _next(found: r.Plugin) -> Iterator[d.Block]:
    if found.form:
        words = "experimental: no GPU has run a kernel of trtprof yet; times are estimates"
        pairs = [_pair("status", d.Span(words, "doubt"))]
        if found.folder:
            pairs.append(_pair("next", d.Span(f"trtprof plugin bench {found.folder}", "", "never"), kind="strong"))
        yield d.Pairs(tuple(pairs))


@content_of(r.PluginBench)
def bench_document(found: r.PluginBench, options: ReportOptions) -> d.Document:  # noqa: ARG001 - all have this signature
    """The verdict, its doubts, the outputs, and the engine without the plugin and with it."""
    title = f"Plugin {found.name} on {found.gpu}: {found.verdict}"
    return d.Document(title=title, titled=False, sections=tuple(_bench(found)))


@content_of(r.PluginBenches)
def benches_document(found: r.PluginBenches, options: ReportOptions) -> d.Document:  # noqa: ARG001 - likewise
    """The benches of a run, one after the other."""
    sections = tuple(section for one in found.benches for section in _bench(one))
    return d.Document(title=f"{count(len(found.benches), 'plugin')} measured", titled=False, sections=sections)


def _bench(found: r.PluginBench) -> Iterator[d.Section]:
    verdict = d.Span(f"{found.verdict}: ", _VERDICTS[found.verdict])
    of = (" for ", d.name(found.layer, "start")) if found.layer else ()
    pairs = (
        _pair("verdict", verdict, d.Span(found.why, "", "end"), kind="strong"),
        *_listed("doubts", found.doubts, "doubt"), _pair("plugin", found.name, *of),
        _pair("on", ", ".join(filter(None, (found.gpu, found.created)))),
    )  # fmt: skip
    yield from _apart((d.Pairs(pairs),), "", 1)
    yield from _apart(_outputs(found), "Outputs", 2)
    yield from _apart(_sides(found), "Before and after", 3)
    figures = tuple(_figures(found))
    yield from _apart((d.Pairs(figures),) if figures else (), "Measured with", 4)


def _outputs(found: r.PluginBench) -> Iterator[d.Block]:
    if found.checks:
        columns = (d.Column("outputs"), d.Column("for", cut="wrap", least=12))
        rows = list(map(_output, found.checks))
        yield d.Table(columns=columns, rows=rows, title="outputs of both engines, compared")


def _output(one: r.BenchCheck) -> d.Row:
    verdict = d.Span("equal", "better") if one.ok else d.Span("differ", "critical")
    under = (d.Under(d.Span(one.reason, "faint", "end"), lines=None, indent=4),) if one.reason else ()
    return d.Row((verdict, one.what), under)


def _sides(found: r.PluginBench) -> Iterator[d.Block]:
    rows = []
    for what, sides, gain in beside_one_another(found):
        for at, side in enumerate(sides):
            last = gain if at + 1 == len(sides) else None
            times, between = (f"{last.value:.3g}x", f"{last.low:.3g} to {last.high:.3g}") if last else ("", "")
            # A time from the run was not interleaved.
            samples = f"{side.n:,}" if side.n else "-"
            rows.append(d.Row(("" if at else what, side.what, format_ns(side.median_ns), samples, times, between)))
    if rows:
        columns = (
            d.Column("of", key=True, least=6), d.Column("side", cut="end", least=15), d.Column("median", right=True),
            d.Column("n", right=True, drop=1), d.Column("gain", right=True), d.Column("interval", drop=2),
        )  # fmt: skip
        yield d.Table(columns=columns, rows=rows, title="measured; a gain of 2x is twice as fast")


def beside_one_another(
    found: r.PluginBench,
) -> Iterator[tuple[str, tuple[r.BenchSide, ...], r.Interval | None]]:
    """Yield the sides of kernel and engine, before and after."""
    if found.kernel:
        yield "kernel", found.kernel, None
    if found.engine is not None:
        yield "engine", found.engine, found.engine_gain


def _figures(found: r.PluginBench) -> Iterator[d.Pair]:
    if found.clocks_mhz:
        low, high = min(found.clocks_mhz), max(found.clocks_mhz)
        yield _pair("clocks", f"{low:,} to {high:,} MHz" if low != high else f"{low:,} MHz")
    if found.versions:
        yield _pair("versions", ", ".join(f"{what} {version}" for what, version in found.versions.items()))
