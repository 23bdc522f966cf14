"""A run held against hardware counters: the launches led to its layers, and what they prove."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from trtprof.align.counters import CounterAlignment, align_counters, function
from trtprof.base.kernel_counters import KernelCounters, LayerCounters
from trtprof.base.records import Run
from trtprof.base.units import format_names, format_ns
from trtprof.diagnose import Thresholds
from trtprof.diagnose.confirm import confirm

_MOST_APART = 20.0
"""Times under ncu over those of a run, or the reverse: it holds the clock at its base and empties the caches, which
costs small kernels a few times their time."""


def confirmed(run: Run, launches: Sequence[KernelCounters], order: Sequence[str], thresholds: Thresholds) -> Run:
    """Hold a run against what ncu counted, in the order of the launches; ``order`` names layers in execution order."""
    aligned = align_counters(launches, run.layers, inferences=run.profiled.n, order=order)
    strange = {one.layer: said for one in aligned.layers if (said := _of_another(one, run))}
    aligned = aligned._replace(
        layers=tuple(one for one in aligned.layers if one.layer not in strange),
        ambiguous=(*aligned.ambiguous, *strange.values()),
    )
    run = confirm(run, aligned.layers, thresholds)
    return msgspec.structs.replace(run, assumptions=(*run.assumptions, *_notes(run, launches, aligned)))


def _of_another(counted: LayerCounters, run: Run) -> str:
    """Why launches are of another kernel of the same name, in a sentence; empty where nothing speaks for it."""
    measured = next((layer.measured_ns for layer in run.layers if layer.name == counted.layer), 0)
    if counted.uncounted or not counted.duration_ns or not measured:
        return ""
    ratio = counted.duration_ns / measured
    if 1 / _MOST_APART <= ratio <= _MOST_APART:
        return ""
    return (
        f"those of {counted.layer} took {format_ns(counted.duration_ns)} under ncu and {format_ns(measured)} when it "
        "was measured: another model, batch or GPU"
    )


def flagged(run: Run, number: int) -> tuple[list[str], int]:
    """At most ``number`` functions of kernels to count, and how many launches an inference makes of these."""
    layers = {layer.name: layer for layer in run.layers}
    claimed = [name for finding in run.findings if finding.kind == "hypothesis" for name in finding.layers]
    lost = [layer.name for layer in run.layers if (layer.lost_ns or 0) > 0]
    kernels = [
        match.kernel
        for name in dict.fromkeys((*claimed, *lost))
        if name in layers
        for match in sorted(layers[name].kernels, key=lambda match: (-match.total_ns, match.kernel))
    ]
    names = {function(kernel) for kernel in list(dict.fromkeys(kernels))[:number]}
    every = (*(match for layer in run.layers for match in layer.kernels), *run.kernels_unattributed)
    inferences = max(run.profiled.n, 1)
    launches = sum(max(-(-match.count // inferences), 1) for match in every if function(match.kernel) in names)
    return sorted(names), launches


def _notes(run: Run, launches: Sequence[KernelCounters], aligned: CounterAlignment) -> Sequence[str]:
    """What the counters came to, in sentences."""
    verdicts = [confirmation.verdict for confirmation in run.confirmations]
    counts = ", ".join(
        f"{verdicts.count(verdict)} {verdict}"
        for verdict in ("confirmed", "refuted", "not told")
        if verdict in verdicts
    )
    total = f"{len(launches)} launches" if len(launches) > 1 else "a launch"
    notes = [f"hardware counters of {total}, led to {len(verdicts)} layers: {counts or 'none could be told'}"]
    notes += [
        f"counters of {held.layer}: {held.verdict}: {'; '.join(check.reason for check in held.checks)}"
        for held in run.confirmations
    ]
    notes += [f"counters that are left out: {sentence}" for sentence in aligned.ambiguous]
    if aligned.unknown:
        where = "no layer runs, with those blocks and threads, a kernel called"
        notes.append(f"counters that are left out: {where} {format_names(aligned.unknown)}")
    return notes
