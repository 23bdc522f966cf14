"""What is said of a hand-written kernel: whether to write it, what it computes, how it was made, what proves it.

The verdict and its doubts stand first; what is measured, what is estimated (``~``, ``>=``) and what is likely (``?``)
look different. Times are of one inference. Nothing is said to be fast that no GPU ran.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath

from trtprof.base import records
from trtprof.base.units import format_bytes, format_flops, format_names, format_ns, format_percent, format_shape
from trtprof.report import ReportOptions, content_of
from trtprof.report._estimates import at_least, with_band
from trtprof.report._format import count
from trtprof.report.document import (
    Block,
    Column,
    Document,
    Kind,
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
)

_VERDICTS: dict[str, Kind] = {
    "write it": "strong", "not decided": "doubt", "passed": "better", "failed": "critical", "not here": "faint",
    "faster": "better", "slower": "worse", "inconclusive": "doubt", "incorrect": "critical",
}  # fmt: skip
_PLACES = 6  # Places of an inserted plugin that a screen names


@content_of(records.Plugin)
def document(found: records.Plugin, options: ReportOptions) -> Document:  # noqa: ARG001 - it has the signature of all
    """The brief, the kernels, the checks, the model with the plugin in it, the files, and what to run next."""
    brief = found.brief
    return Document(
        title=f"Plugin {found.name or 'for ' + brief.layer}: {brief.verdict}",
        titled=False,
        sections=(
            *_apart(_head(brief), "", 1),
            *_apart(_computes(brief), "What it computes", 2),
            *_apart(_weighed(brief), "What it could win", 3),
            *_apart(_ladder(brief), "Cheaper ways", 4),
            *_apart(_beside(brief), "What it is cut from", 5),
            *_apart(_kernels(found), "Kernels", 6),
            *_tables(found),
            *(
                Section(blocks=(block,), title="Where the shares are from", where="paper", fold=True, place=11)
                for block in _bases(found)
            ),
            *_apart(_checks(found.check) if found.check is not None else (), "Checks", 7),
            *_apart(_inserted(found), "The model with it", 8),
            *_apart(_files(found), "Files", 10),
            *_apart(_next(found), "What is next", 9),
        ),
    )


def _apart(blocks: Iterable[Block], title: str, place: int) -> Iterator[Section]:
    """A section for each of some blocks, under one title where there are titles."""
    for at, block in enumerate(blocks):
        yield Section(blocks=(block,), title="" if at else title, place=place)


# --- the brief ------------------------------------------------------------------------------------


def _head(brief: records.PluginBrief) -> Iterator[Block]:
    verdict = Span(f"{brief.verdict}: ", _VERDICTS.get(brief.verdict, "strong"))
    pairs = [Pair("verdict", (verdict, Span(brief.why, "", "end")), None, "strong")]
    pairs += [
        Pair("" if at else "doubts", Span(doubt, "doubt", "end"), None, "doubt" if not at else "")
        for at, doubt in enumerate(brief.doubts)
    ]
    times = f", {brief.runs:,} times an inference" if brief.runs != 1 else ""
    on = f" on {brief.gpu}" if brief.gpu else ""
    pairs.append(Pair("layer", (name(brief.layer, "start"), f"{on}{times}"), None, ""))
    yield Pairs(tuple(pairs))


def _computes(brief: records.PluginBrief) -> Iterator[Block]:
    pairs = [
        Pair("" if at else "computes", Span(text, "", "end", name=True), None, "")
        for at, text in enumerate(brief.formulas)
    ]
    if not brief.formulas:
        pairs.append(Pair("computes", " + ".join(brief.op_types), None, ""))
    if brief.nodes:
        ops = f"{' + '.join(brief.op_types)}: " if brief.formulas else ""
        pairs.append(Pair("nodes", (ops, Span("", "", "end", items=brief.nodes)), 3, ""))
    yield Pairs(tuple(pairs))
    if brief.tensors:
        yield Table(
            columns=(
                Column("operand", key=True),
                Column("role", drop=3),
                Column("dtype"),
                Column("shape", cut="middle", least=8),
                Column("size", right=True, drop=1),
                Column("layout", drop=2),
                Column("in the model", cut="start", drop=4),
            ),
            rows=list(map(_tensor, brief.tensors)),
            title="tensors, dense and row-major where no layout says otherwise",
        )


def _tensor(one: records.BriefTensor) -> Row:
    size = "?" if one.nbytes is None else format_bytes(one.nbytes)
    return Row((one.operand or "-", one.role, one.dtype, format_shape(one.shape), size, one.layout, name(one.name)))


def _weighed(brief: records.PluginBrief) -> Iterator[Block]:
    pairs = list(_numbers(brief))
    if pairs:
        yield Pairs(tuple(pairs))
    if brief.wrong:
        yield Notes(tuple(Span(f"? {text}", "cause", "end") for text in brief.wrong))


def _numbers(brief: records.PluginBrief) -> Iterator[Pair]:
    work, estimate = brief.work, brief.estimate
    once = ", one run" if brief.runs != 1 else ""
    if work is not None:
        read, written = format_bytes(work.bytes_read), format_bytes(work.bytes_written)
        flops = f"{format_flops(work.flops)}{f' in {work.dtype}' if work.dtype else ''}, " if work.flops else ""
        yield Pair("work", f"{flops}{work.bytes:,} bytes ({read} read, {written} written){once}", None, "")
    if estimate is not None:
        terms = sorted(((ns, term) for term, ns in estimate.terms.items() if ns), reverse=True)
        others = ", ".join(
            f"{records.BOUND_WORDS[term].word if term in records.BOUND_WORDS else term} {at_least(ns)}"
            for ns, term in terms
            if term != estimate.bound
        )
        words = f"{at_least(estimate.attainable_ns)} by {records.BOUND_WORDS[estimate.bound].phrase}{once}"
        yield Pair("bound", (words, Span(f" ({others})" if others else "", "faint")), None, "")
    if brief.expected_ns is not None:
        why = f": {brief.expected_reason}" if brief.expected_reason else ""
        good = Span(with_band(brief), "estimate")
        yield Pair("expected", (good, f" of good library kernels{why}"), None, "")
    elif brief.expected_reason:
        yield Pair("expected", Span(f"nothing: {brief.expected_reason}", "faint"), None, "")
    if brief.measured_ns is not None:
        yield Pair("measured", Span(format_ns(brief.measured_ns), "fact"), 1, "")
    for at, kernel in enumerate(brief.kernels):
        yield Pair("" if at else "kernel", Span(kernel, "", "end", name=True), None, "")
    if brief.reachable_ns is not None:
        about = Span(f"~{format_ns(brief.reachable_ns)}", "estimate")
        yield Pair("in reach", (about, f": {brief.basis}" if brief.basis else ""), None, "")
    if brief.barrier:
        yield Pair("barrier", Span(f"~{format_ns(sum(part.ns for part in brief.barrier))}", "estimate"), 1, "")
    if brief.net_ns is not None:
        between = ""
        if brief.net_low_ns is not None and brief.net_high_ns is not None:
            between = f" ({format_ns(brief.net_low_ns)} to {format_ns(brief.net_high_ns)})"
        beside = "" if brief.measured_ns is not None else ", where the engine takes what good library kernels do"
        yield Pair("net gain", (Span(f"~{format_ns(brief.net_ns)}{between}", "estimate"), beside), None, "")
    if brief.pays_above_ns is not None:
        now = "the present kernels take" if brief.measured_ns is not None else "the engine's own kernel takes"
        yield Pair("pays", f"where {now} more than ~{format_ns(brief.pays_above_ns)}", None, "")


def _ladder(brief: records.PluginBrief) -> Iterator[Block]:
    if brief.ladder:
        yield Table(
            columns=(Column("gain", right=True, least=7, kind="estimate"), Column("step", cut="wrap", least=12)),
            rows=[_step(step) for step in brief.ladder],
            title="cheaper ways, each to be tried before a kernel is written",
        )


def _step(step: records.LadderStep) -> Row:
    gain: Words = "?" if step.gain_ns is None else f"~{format_ns(step.gain_ns)}"
    if step.tried is not None:
        gain = Span(format_ns(step.gain_ns or 0), "fact")
    under = [Under(Span(step.command, "", "never"), lines=None, indent=9)] if step.command else []
    if step.basis:
        under.insert(0, Under(Span(step.basis, "faint", "end"), lines=None, indent=9))
    return Row((gain, step.what), tuple(under))


def _beside(brief: records.PluginBrief) -> Iterator[Block]:
    if brief.barrier:
        yield Table(
            columns=(
                Column("costs", right=True, least=7, kind="estimate"),
                Column("what cutting it out costs", cut="wrap", least=12),
            ),
            rows=[Row((f"~{format_ns(part.ns)}", part.what)) for part in brief.barrier],
            title="fusion barrier",
        )
    if brief.neighbours:
        yield Table(
            columns=(
                Column("op", least=5),
                Column("side", drop=2),
                Column("in it"),
                Column("crosses", right=True, drop=1, kind="estimate"),
                Column("node", cut="start", least=10),
            ),
            rows=list(map(_neighbour, brief.neighbours)),
            title="what works element by element beside it, and whether the kernel computes it",
        )


def _neighbour(one: records.Neighbour) -> Row:
    crosses = format_bytes(one.bytes) if one.bytes else "-"
    under = (Under(Span(one.reason, "faint", "end"), lines=2, indent=7),) if one.reason else ()
    return Row((one.op_type, one.side, "yes" if one.fused else "no", crosses, name(one.node, "start")), under)


# --- the kernels ----------------------------------------------------------------------------------


def _kernels(found: records.Plugin) -> Iterator[Block]:
    if found.template:
        pairs = [
            Pair("plugin", f"{found.name}, version {found.version}" if found.version else found.name, None, ""),
            Pair("template", found.template, 1, ""),
        ]
        pairs += [
            Pair(f"tactic {one.tactic}", (f"{one.label}: ", Span(one.why, "faint", "end")), None, "")
            for one in found.variants
        ]
        yield Pairs(tuple(pairs))
    elif found.refused:
        yield Notes(
            (
                Span("no kernel is written; templates that do not know this:", "strong"),
                *(Span(f"{template}: {why}", "", "end") for template, why in found.refused.items()),
            )
        )


def _compiled(found: records.Plugin, variants: Sequence[records.KernelVariant]) -> Table:
    """Kernels on each architecture; what is said of others than those that are shown stands below."""
    others = found.variants[len(variants) :]
    dropped: dict[str, list[str]] = {}
    for one in others:
        for build in one.builds:
            if build.dropped:
                dropped.setdefault(build.dropped, []).append(f"{one.tactic} for {build.architecture}")
    more = [f"{count(len(others), 'other tactic')}: brief.md and --format markdown have all"] if others else []
    why = [f"dropped: tactic {format_names(where)}: {reason}" for reason, where in dropped.items()]
    return Table(
        columns=(
            Column("tactic", right=True, key=True), Column("for", key=True, least=6), Column("registers", right=True),
            Column("shared", right=True, drop=3), Column("blocks", right=True, drop=4),
            Column("occupancy", right=True, drop=1), Column("bandwidth", right=True, kind="estimate"),
            Column("spills", right=True, drop=2),
        ),
        rows=[_build(variant, build) for variant in variants for build in variant.builds],
        title="compiled for each architecture by NVRTC; no GPU ran it",
        after=(
            "bandwidth: the share of the datasheet's that it is predicted to draw; blocks: of one SM at a time", *more,
            *why,
        ),
    )  # fmt: skip


def _build(variant: records.KernelVariant, build: records.KernelBuild) -> Row:
    dropped: Kind = "faint" if build.dropped else ""
    drawn = "-" if build.bandwidth is None else f"~{format_percent(build.bandwidth)}"
    cells = (
        f"{variant.tactic}", build.architecture, f"{build.registers}", format_bytes(build.shared_bytes),
        f"{build.blocks_per_sm}", format_percent(build.occupancy), drawn,
        format_bytes(build.spill_bytes) if build.spill_bytes else "0",
    )  # fmt: skip
    under = [Under(Span(f"dropped: {build.dropped}", "worse", "end"), lines=None, indent=8)] if build.dropped else []
    return Row(tuple(Span(cell, dropped) if dropped else cell for cell in cells), tuple(under))


def _bases(found: records.Plugin) -> Iterator[Block]:
    """Where the predicted shares are from: of the first variant, which stand for the others."""
    bases = dict.fromkeys(build.basis for one in found.variants[:1] for build in one.builds if build.basis)
    if bases:
        yield Notes(tuple(Span(basis, "", "end") for basis in bases))


def _tables(found: records.Plugin) -> Iterator[Section]:
    """A screen has the first variant, paper all of them."""
    if any(one.builds for one in found.variants):
        if len(found.variants) > 1:
            yield Section(blocks=(_compiled(found, found.variants[:1]),), where="screen", place=6)
        alone = len(found.variants) == 1
        yield Section(blocks=(_compiled(found, found.variants),), where="" if alone else "paper", place=6)


# --- what proves it -------------------------------------------------------------------------------

_STEPS = {
    "numerics": "its PTX, executed thread by thread, beside float64",
    "traffic": "sectors of the same execution beside those predicted",
    "registry": "driven through TensorRT's own registry",
    "native": "the C++ library compiled, loaded and served",
    "onnxruntime": "the model with it, run by ONNX Runtime",
    "tensorrt-rtx": "the model with it, built by TensorRT-RTX",
}
"""What each check holds against what."""


def _checks(check: records.PluginCheck) -> Iterator[Block]:
    yield Table(
        columns=(
            Column("check", key=True, least=12),
            Column("verdict"),
            Column("cases", right=True),
            Column("time", right=True, drop=1),
            Column("what", cut="end", least=28, drop=2),
        ),
        rows=list(map(_check, check.steps)),
        title="checks that need no GPU",
    )
    if check.numerics:
        yield Notes(tuple(_numerics(check.numerics)))
    if check.traffic:
        yield Table(
            columns=(
                Column("tactic", right=True, key=True),
                Column("predicted", right=True, kind="estimate"),
                Column("counted", right=True),
                Column("asked of L1", right=True, drop=2),
                Column("conflicts", right=True, drop=1),
                Column("shapes", cut="end", drop=3),
            ),
            rows=list(map(_traffic, check.traffic)),
            title="bytes of DRAM: distinct sectors of 32 bytes",
        )


def _check(step: records.CheckStep) -> Row:
    verdict = Span(step.verdict, _VERDICTS[step.verdict])
    cases = f"{step.cases:,}" if step.cases else "-"
    time = f"{step.seconds:.1f} s" if step.seconds else "-"
    under = (Under(Span(step.reason, "faint", "end"), lines=None, indent=4),) if step.reason else ()
    return Row((step.name, verdict, cases, time, _STEPS[step.name]), under)


def _numerics(cases: Sequence[records.NumericCase]) -> Iterator[Span]:
    """The worst that passed, then all that failed."""
    passed = [case for case in cases if case.ok and case.worst is not None]
    worst = max(passed, key=lambda case: case.worst or 0.0, default=None)
    if worst is not None:
        where = f"tactic {worst.tactic} for {worst.architecture}, {worst.what}"
        yield Span(f"worst error that passed: {worst.worst:.3g} of the rounding floor, {where}", "", "end")
    for case in cases:
        if not case.ok:
            off = "" if case.worst is None else f", off by {case.worst:.3g} of the rounding floor"
            words = f"failed: tactic {case.tactic} for {case.architecture}, {case.what}{off}: {case.reason}"
            yield Span(words, "critical", "end")


def _traffic(one: records.Traffic) -> Row:
    conflicts = f"{one.bank_conflicts:,}"
    cells = (
        f"{one.tactic}", f"~{one.predicted_bytes:,}", f"{one.counted_bytes:,}", f"{one.requested_bytes:,}", conflicts,
        one.shapes,
    )  # fmt: skip
    reason = Under(Span(one.reason, "" if one.ok else "critical", "end"), lines=None, indent=8)
    return Row(cells, (reason,) if one.reason else ())


def _inserted(found: records.Plugin) -> Iterator[Block]:
    inserted = found.inserted
    if inserted is None:
        return
    shown = inserted.places[:_PLACES]
    more = f" and {len(inserted.places) - len(shown)} more" if len(inserted.places) > len(shown) else ""
    function = "the original nodes, which runtimes without the plugin take" if inserted.function else "none"
    pairs = [Pair("model", Span(inserted.model, "", "never"), None, "")]
    pairs += [
        Pair("" if at else count(len(inserted.places), "place"), Span("", "", "end", items=nodes), 2, "")
        for at, nodes in enumerate(shown)
    ]
    if more:
        pairs.append(Pair("", more.strip(), 1, ""))
    pairs.append(Pair("function", function, None, ""))
    yield Pairs(tuple(pairs))
    if inserted.left:
        yield Notes(tuple(Span(f"left: {text}", "faint", "end") for text in inserted.left))


def _files(found: records.Plugin) -> Iterator[Block]:
    """The files; those of a folder in it are counted."""
    folder = f"{found.folder}/" if found.folder else ""
    inner = Counter(str(PurePosixPath(file).parent) for file in found.files)
    own = [file for file in found.files if "/" not in file]
    told = [*own, *(f"{name}/  {count(number, 'file')}" for name, number in sorted(inner.items()) if name != ".")]
    if told:
        yield Notes(tuple(Span(f"{folder}{line}", "faint", "never") for line in told))


def _next(found: records.Plugin) -> Iterator[Block]:
    """What to run, and what nobody has seen yet."""
    if found.notes:
        yield Notes(found.notes)
    if not found.variants:
        return
    pairs = [Pair("proof", Span("not here: these checks run on no GPU, and times are predictions", "doubt"), None, "")]
    if found.folder:
        pairs.append(Pair("next", Span(f"trtprof plugin bench {found.folder}", "", "never"), None, "strong"))
    yield Pairs(tuple(pairs))


# --- on a GPU -------------------------------------------------------------------------------------


@content_of(records.PluginBench)
def bench_document(found: records.PluginBench, options: ReportOptions) -> Document:  # noqa: ARG001 - it has the signature of all
    """The verdict, its doubts, whether outputs are right, both sides alone and in the engine."""
    return Document(
        title=f"Plugin {found.name} on {found.gpu}: {found.verdict}", titled=False, sections=tuple(_bench(found))
    )


@content_of(records.PluginBenches)
def benches_document(found: records.PluginBenches, options: ReportOptions) -> Document:  # noqa: ARG001 - likewise
    """What was measured of each plugin, one after the other."""
    return Document(
        title=f"{count(len(found.benches), 'plugin')} measured",
        titled=False,
        sections=tuple(section for one in found.benches for section in _bench(one)),
    )


def _bench(found: records.PluginBench) -> Iterator[Section]:
    verdict = Span(f"{found.verdict}: ", _VERDICTS[found.verdict])
    pairs = [Pair("verdict", (verdict, Span(found.why, "", "end")), None, "strong")]
    pairs += [
        Pair("" if at else "doubts", Span(doubt, "doubt", "end"), None, "doubt" if not at else "")
        for at, doubt in enumerate(found.doubts)
    ]
    of = (" for ", name(found.layer, "start")) if found.layer else ()
    pairs.append(Pair("plugin", (found.name, *of), None, ""))
    pairs.append(Pair("on", ", ".join(filter(None, (found.gpu, found.created))), None, ""))
    yield from _apart((Pairs(tuple(pairs)),), "", 1)
    yield from _apart(_outputs(found), "Outputs", 2)
    yield from _apart(_sides(found), "Before and after", 3)
    reached = tuple(_figures(found))
    yield from _apart((Pairs(reached),) if reached else (), "How good it is", 4)
    yield from _apart((Notes(found.notes),) if found.notes else (), "Notes", 5)


def _outputs(found: records.PluginBench) -> Iterator[Block]:
    if found.checks:
        yield Table(
            columns=(Column("outputs"), Column("off by", right=True), Column("of", cut="wrap", least=12)),
            rows=[_output(one) for one in found.checks],
            title="outputs on the GPU; off by: the largest error over what is allowed",
        )


def _output(one: records.BenchCheck) -> Row:
    verdict = Span("right", "better") if one.ok else Span("wrong", "critical")
    under = (Under(Span(one.reason, "faint", "end"), lines=None, indent=4),) if one.reason else ()
    return Row((verdict, "-" if one.worst is None else f"{one.worst:.3g}", one.what), under)


def _sides(found: records.PluginBench) -> Iterator[Block]:
    rows: list[Row] = []
    for what, sides, gain in beside_one_another(found):
        rows += _turns(what, sides, gain)
    if rows:
        yield Table(
            columns=(
                Column("of", key=True, least=6),
                Column("side", cut="end", least=15),
                Column("median", right=True),
                Column("n", right=True, drop=1),
                Column("gain", right=True),
                Column("interval", drop=2),
            ),
            rows=rows,
            title="measured; a gain of 2x is twice as fast",
        )
    if len(found.raced_ns) > 1:
        fastest = sorted(found.raced_ns.items(), key=lambda one: (one[1], one[0]))
        yield Table(
            columns=(Column("median", right=True), Column("variant", cut="end", least=12)),
            rows=[Row((format_ns(ns), label)) for label, ns in fastest],
            title="the race of the variants, each alone",
        )


def beside_one_another(
    found: records.PluginBench,
) -> Iterator[tuple[str, tuple[records.BenchSide, ...], records.Interval | None]]:
    """What was measured of the kernel and of the engine, before and after where there is a before."""
    if found.kernel is not None:
        yield "kernel", found.kernel, found.kernel_gain
    elif found.alone is not None:
        yield "kernel", (found.alone,), None
    if found.engine is not None:
        yield "engine", found.engine, found.engine_gain


def _turns(what: str, sides: Sequence[records.BenchSide], gain: records.Interval | None) -> Iterator[Row]:
    for at, side in enumerate(sides):
        last = at + 1 == len(sides)
        times = f"{gain.value:.3g}x" if gain is not None and last else ""
        between = f"{gain.low:.3g} to {gain.high:.3g}" if gain is not None and last else ""
        # What took no turns is from the run.
        samples = f"{side.n:,}" if side.n else "-"
        yield Row(("" if at else what, side.what, format_ns(side.median_ns), samples, times, between))


def _figures(found: records.PluginBench) -> Iterator[Pair]:
    if found.tactic:
        yield Pair("tactic", f"{found.tactic}", 1, "")
    if found.bandwidth is not None:
        yield Pair("bandwidth", f"{format_percent(found.bandwidth)} of what this GPU was measured to reach", None, "")
    if found.sol_ns is not None:
        yield Pair("light", f"{at_least(found.sol_ns)}: no correct kernel takes less with cold inputs", None, "")
    if found.worst is not None:
        right: Kind = "critical" if found.worst > 1 else ""
        yield Pair("off by", Span(f"{found.worst:.3g} of what is allowed", right), None, "")
    if found.score is not None:
        yield Pair("score", f"{found.score:.3f}: the speed of light is 1, as fast as its rival is 0.5", None, "")
    if found.clocks_mhz:
        low, high = min(found.clocks_mhz), max(found.clocks_mhz)
        yield Pair("clocks", f"{low:,} to {high:,} MHz" if low != high else f"{low:,} MHz", None, "")
    if found.versions:
        yield Pair("versions", ", ".join(f"{what} {version}" for what, version in found.versions.items()), None, "")
