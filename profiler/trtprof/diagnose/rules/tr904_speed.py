"""The machine was not as fast as when its ceilings were measured, or changed its speed meanwhile.

What:
    A short product, timed around the measurements, took longer than at calibration, or took very
    different times before and after. At half of its speed and less there is no verdict.

Why:
    Clocks, power limits and neighbours on the same host change within minutes; the ceilings were
    kept from another time.

Try:
    Close what else runs and run again; where the machine stays at this speed, measure its ceilings
    again (`--recalibrate`). Compare only runs of the same speed.
"""

from __future__ import annotations

from trtprof.base.units import format_ns, format_percent
from trtprof.diagnose import Case, Claim, doubt, run_rule


@run_rule("TR904", "machine changed its speed", order=0, thresholds=("speed", "speed_limit", "probe_drift"))
def judge(case: Case) -> Claim | str:
    """One finding when the speed probe says that ceilings, latency and profile are of different speeds."""
    least, most = case.thresholds.speed, case.thresholds.probe_drift
    drift = max(case.probes_ns) / min(case.probes_ns) if case.probes_ns else 1.0
    if case.speed >= least and drift < most:
        if not case.probes_ns:
            return "the rule is about the whole run, in which the speed of the machine was not probed"
        return (
            f"the rule is about the whole run: the machine ran at {format_percent(case.speed)} of the speed of its "
            f"calibration, and under {format_percent(least)} counts; its slowest probe took {drift:.2f} times the "
            f"fastest, and {most:g} counts"
        )
    limit = case.thresholds.speed_limit
    beyond = case.speed <= limit
    times = ", ".join(format_ns(ns) for ns in case.probes_ns)
    return doubt(
        (
            f"a speed probe took {times} around the measurements: "
            f"{format_percent(case.speed)} of the speed at which the ceilings were measured"
            + (f"; at {format_percent(limit)} and less there is no verdict" if beyond else "")
        ),
        "run again on a quiet machine; if it stays at this speed, measure its ceilings with --recalibrate",
        brief=f"machine at {100 * case.speed:.0f} % of its speed"
        if case.speed < least
        else f"machine's speed moved {drift:.2g} x",
        beyond=beyond,
    )
