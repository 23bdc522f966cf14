"""The clock was lower than when the ceilings were measured, or it changed meanwhile.

What:
    A short product in one thread, timed around the measurements, took longer than at calibration, or took very
    different times before and after. Other processes do not show in it.

Why:
    Power and temperature limits change the clock within minutes; the ceilings are of another time. Bounds are not
    scaled by it: they hold for the machine at its best.

Try:
    Let the machine cool down, or connect it to power, and run again. Compare only runs of the same speed.
"""

from __future__ import annotations

from trtprof.base.units import format_ns, format_percent
from trtprof.diagnose import Case, Claim, doubt, run_rule


@run_rule("TR904", "machine changed its speed", order=0, thresholds=("speed", "probe_drift"))
def judge(case: Case) -> Claim | str:
    """One finding when the speed probe shows that ceilings, latency and profile are of different speeds."""
    if case.latency.undisturbed_basis == "inferences":
        return "the rule is about the whole run: inferences and layers of its slow moments are left out"
    least, most = case.thresholds.speed, case.thresholds.probe_drift
    drift = max(case.probes_ns) / min(case.probes_ns) if case.probes_ns else 1.0
    if case.speed >= least and drift < most:
        if not case.probes_ns:
            return "the rule is about the whole run, in which the speed of the machine was not probed"
        return (
            f"the rule is about the whole run: one core ran at {format_percent(case.speed)} of the speed of its "
            f"calibration, and under {format_percent(least)} counts; its slowest probe took {drift:.2f} times the "
            f"fastest, and {most:g} counts"
        )
    times = ", ".join(format_ns(ns) for ns in case.probes_ns)
    return doubt(
        (
            f"a product in one thread took {times} around the measurements: "
            f"{format_percent(case.speed)} of the speed at which the ceilings were measured"
        ),
        "let the machine cool down, or connect it to power, and run again",
        brief=f"clock at {100 * case.speed:.0f} % of its speed at calibration"
        if case.speed < least
        else f"machine's speed moved {drift:.2g} x",
    )
