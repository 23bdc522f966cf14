"""The machine was not as fast as when its ceilings were measured, or changed its speed meanwhile.

What:
    A short product, timed around the measurements, took longer than at calibration, or took very
    different times before and after.

Why:
    Clocks, power limits and neighbours on the same host change within minutes; the ceilings were
    kept from another time.

Try:
    Close what else runs and run again; where the machine stays at this speed, measure its ceilings
    again (`--recalibrate`). Compare only runs of the same speed.
"""

from __future__ import annotations

from collections.abc import Iterator

from profiler.base.records import LayerResult
from profiler.base.units import format_ns, format_percent
from profiler.diagnose import Case, Claim, rule


def _silent(case: Case, _layer: LayerResult) -> str:
    if not case.probes_ns:
        return "the rule is about the whole run, in which the speed of the machine was not probed"
    return (
        f"the rule is about the whole run: the machine ran at {format_percent(case.speed)} of the speed of its "
        f"calibration, and under {format_percent(case.thresholds.speed)} counts; its slowest probe took "
        f"{max(case.probes_ns) / min(case.probes_ns):.2f} times the fastest, and {case.thresholds.probe_drift:g} counts"
    )


@rule("TR904", "machine changed its speed", order=0, silent=_silent, thresholds=("speed", "probe_drift"))
def check(case: Case) -> Iterator[Claim]:
    """One finding when the speed probe says that ceilings, latency and profile are of different speeds."""
    drift = max(case.probes_ns) / min(case.probes_ns) if case.probes_ns else 1.0
    if case.speed >= case.thresholds.speed and drift < case.thresholds.probe_drift:
        return
    times = ", ".join(format_ns(ns) for ns in case.probes_ns)
    yield Claim(
        where="the whole run",
        evidence=(
            f"a speed probe took {times} around the measurements: "
            f"{format_percent(case.speed)} of the speed at which the ceilings were measured"
        ),
        remedy="run again on a quiet machine; if it stays at this speed, measure its ceilings with --recalibrate",
        confidence=0.9,
        kind="trust",
    )
