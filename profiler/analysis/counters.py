"""A run held against hardware counters: its analysis, the launches led to its layers, and what they prove.

A pure function of both, so that a saved run gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from profiler.align.counters import Led, function, lead
from profiler.base.kernel_counters import KernelCounters
from profiler.base.records import Run
from profiler.diagnose import Case, Judge
from profiler.diagnose.confirm import confirm

_NAMED = 3
"""Kernels that a note names."""


def confirmed(launches: Sequence[KernelCounters], judge: Judge, analyse: Callable[[Judge], Run]) -> Run:
    """Analyse a run, and hold it against counters.

    Args:
        launches: What ncu counted, in the order of the launches.
        judge: By what the run is judged.
        analyse: The analysis, which shows the judge that it is given the case.

    Raises:
        TrtprofError: That of the analysis.
    """
    cases: list[Case] = []

    def seen(case: Case) -> None:
        cases.append(case)
        if judge.seen is not None:
            judge.seen(case)

    run = analyse(judge._replace(seen=seen))
    # The case has the layers in execution order, the run by what they lost.
    order = [layer.name for layer in cases[-1].layers] if cases else []
    led = lead(launches, run.layers, inferences=run.profiled.n, order=order)
    run = confirm(run, led.layers, judge.thresholds)
    return msgspec.structs.replace(run, assumptions=(*run.assumptions, *_notes(run, launches, led)))


def flagged(run: Run, number: int) -> tuple[list[str], int]:
    """Which kernels to count: those that take most time in the layers of findings, then in those that lost most.

    Args:
        run: As diagnosed.
        number: How many kernels at most.

    Returns:
        The names of their functions, and how many launches an inference makes of all that are called so.
    """
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


def _notes(run: Run, launches: Sequence[KernelCounters], led: Led) -> Sequence[str]:
    """What the counters came to, in sentences."""
    verdicts = [one.verdict for one in run.confirmations]
    counts = ", ".join(
        f"{verdicts.count(verdict)} {verdict}"
        for verdict in ("confirmed", "refuted", "not told")
        if verdict in verdicts
    )
    total = f"{len(launches)} launches" if len(launches) > 1 else "a launch"
    notes = [f"hardware counters of {total}, led to {len(verdicts)} layers: {counts or 'none could be told'}"]
    notes += [
        f"counters of {one.layer}: {one.verdict}: {'; '.join(check.reason for check in one.checks)}"
        for one in run.confirmations
    ]
    notes += [f"counters that are left out: {sentence}" for sentence in led.ambiguous]
    if led.unknown:
        more = f" and {len(led.unknown) - _NAMED} more" if len(led.unknown) > _NAMED else ""
        notes.append(
            f"counters that are left out: no layer runs a kernel called {', '.join(led.unknown[:_NAMED])}{more}"
        )
    return notes
