"""What is not the same about two sides, and what that means for how far a comparison can be trusted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trtprof.base.records import FactChange, Finding, LatencyChange, PluginBench
from trtprof.base.units import format_ns, format_percent, format_shape
from trtprof.compare.causes import roof_words
from trtprof.compare.nodes import FORMAT_OPS, NodeMatch
from trtprof.compare.regions import Region
from trtprof.compare.sides import LoadedRun, Runs

_FEW_SAMPLES = 100
_MATCHED = 0.5
_OPTIONS_ELSEWHERE = ("model", "output", "shapes", "batch")


def facts_of(before: Runs, after: Runs) -> tuple[FactChange, ...]:
    """Facts that are not the same on both sides, the model first."""
    first, second = _facts(before), _facts(after)
    return tuple(
        FactChange(what=what, before=first.get(what, "none"), after=second.get(what, "none"))
        for what in dict.fromkeys((*first, *second))
        if first.get(what, "none") != second.get(what, "none")
    )


def _facts(runs: Runs) -> dict[str, str]:
    one = runs.middle
    run = one.run
    found = {
        "model": run.model.name,
        "model file": f"sha256 {run.model.sha256[:12]}" if run.model.sha256 else "not read",
        "nodes": str(run.model.nodes),
        "opsets": ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in sorted(run.model.opsets.items())),
        "parameters": f"{run.model.parameters} ({run.model.parameter_bytes} B)",
    }
    for tensor in run.model.inputs:
        shape = "unknown" if tensor.shape is None else format_shape(tensor.shape)
        found[f"input {tensor.name}"] = f"{shape} {tensor.dtype}"
        found[f"values of {tensor.name}"] = tensor.values or tensor.kind
    found["backend"] = run.backend.name
    found |= {f"backend option {key}": value for key, value in sorted(run.backend.options.items())}
    if run.engine is not None and run.engine.precision:
        found["precision"] = run.engine.precision
    found |= {f"version of {name}": version for name, version in sorted(run.versions.items())}
    found |= {
        "device": run.device.name,
        "cores": str(run.device.cores) if run.device.cores else "not known",
        "threads": str(one.ceilings.threads) if one.ceilings.threads else "not counted",
        "ceilings": f"{roof_words(one.ceilings.attainable)} ({one.ceilings.measured_at[:10] or 'no date'})",
    }
    found |= _clocks(one)
    if one.request is not None:
        found |= {
            f"option {key}": str(value)
            for key, value in sorted(one.request.options.items())
            if key not in _OPTIONS_ELSEWHERE
        }
    return found | {f"plugin {bench.name}": _bench(bench) for bench in one.benches}


def _bench(bench: PluginBench) -> str:
    """A plugin that was measured, in a line."""
    parts = [f"{bench.verdict} on {bench.gpu}"]
    if bench.engine_gain is not None:
        gain = bench.engine_gain
        parts.append(f"the engine {gain.value:.3g} times as fast with it ({gain.low:.3g} to {gain.high:.3g})")
    if bench.kernel:
        parts.append(f"the kernel {' -> '.join(format_ns(side.median_ns) for side in bench.kernel)}")
    return ", ".join(parts)


def _clocks(one: LoadedRun) -> dict[str, str]:
    found = {}
    clocks = one.run.clocks
    if clocks is not None:
        if clocks.sm_clock_mhz is not None:
            found["SM clock"] = f"{clocks.sm_clock_mhz.median:.0f} MHz"
        if clocks.memory_clock_mhz is not None:
            found["memory clock"] = f"{clocks.memory_clock_mhz.median:.0f} MHz"
    elif one.run.device.clock_mhz:
        found["clock"] = f"{one.run.device.clock_mhz:.0f} MHz"
    return found


def notes_of(
    before: Runs, after: Runs, latency: LatencyChange, match: NodeMatch, regions: Sequence[Region]
) -> tuple[str, ...]:
    """What makes a comparison weak, and what to do about it, in sentences."""
    notes = [*before.notes, *(note for note in after.notes if note not in before.notes)]
    first, second = before.middle.run, after.middle.run
    if not before.on_same_device(after):
        notes.append(
            f"different devices, {first.device.name} and {second.device.name}: clocks and kernels cannot be told apart "
            "from the device"
        )
    notes.extend(_coverage(before))
    notes.extend(note for note in _coverage(after) if note not in notes)
    single = [runs.side.label for runs in (before, after) if len(runs.all) == 1]
    if single and latency.samples_before and latency.samples_after:
        notes.append(
            "what differs from process to process is not known from one run a side and is taken from experience; "
            "measure each side three times: `trtprof compare a1,a2,a3 b1,b2,b3`"
        )
    for runs in (before, after):
        samples = runs.samples
        if samples and min(len(one) for one in samples) < _FEW_SAMPLES:
            fewest = min(len(one) for one in samples)
            notes.append(
                f"{runs.side.label} has {fewest} samples a run: a larger --duration makes the interval smaller"
            )
    notes.extend(_matching(before, after, match))
    if len(regions) > 1:
        notes.append(
            "of the regions that are called slower or faster, about 5 % at most are so by chance (Benjamini-Hochberg)"
        )
    if abs(first.captured_ns and second.captured_ns) == 0:
        notes.append("a side was not profiled: its part of the ledger is what its layers were estimated at, or empty")
    return tuple(dict.fromkeys(notes))


def _coverage(runs: Runs) -> Iterable[str]:
    for one in runs.all:
        coverage = one.run.coverage
        attributed = coverage.exact + coverage.inferred
        if attributed < 0.95 and one.run.captured_ns:
            yield f"{one.path.name}: only {format_percent(attributed)} of the kernel time was led to ONNX nodes"


def _matching(before: Runs, after: Runs, match: NodeMatch) -> Iterable[str]:
    own = [at for at, op in enumerate(before.graph.op_types) if op not in FORMAT_OPS]
    if not own or not after.graph.names:
        if before.layers and after.layers:
            yield "no ONNX nodes are known on a side: layers are matched by their names"
        return
    found = sum(1 for at in own if at in match.pairs)
    if found < _MATCHED * len(own):
        yield (
            f"only {found} of {len(own)} nodes were found in both models: where the time went is told for those alone, "
            "and these may be two different networks"
        )
    placed = sum(1 for at in match.placed if before.graph.op_types[at] not in FORMAT_OPS)
    if placed:
        yield f"{placed} of {len(own)} nodes have other names, and were matched by their place in the graph"


def findings_apart(
    before: Runs, after: Runs, regions: Sequence[Region]
) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """Findings that are gone and findings that are new, told apart by their code and the regions that they claim."""
    holders = tuple(
        {layer.name: at for at, region in enumerate(regions) for layer in (region.after if later else region.before)}
        for later in (False, True)
    )
    first, second = before.middle.run.findings, after.middle.run.findings
    claimed = [
        [
            (finding.code, frozenset(holder[layer] for layer in finding.layers if layer in holder))
            for finding in findings
        ]
        for findings, holder in ((first, holders[0]), (second, holders[1]))
    ]

    def apart(at: int, findings: Sequence[Finding]) -> tuple[Finding, ...]:
        others = claimed[1 - at]
        return tuple(
            finding
            for finding, (code, where) in zip(findings, claimed[at], strict=True)
            if not any(code == other and (where & there or where == there) for other, there in others)
        )

    return apart(0, first), apart(1, second)
