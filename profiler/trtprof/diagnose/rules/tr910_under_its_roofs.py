"""An inference is faster than its layers can be at these ceilings.

What:
    The latency on a CPU is under the sum of what its layers take at best. On a GPU layers may overlap, so that it says
    nothing there. There is no verdict.

Why:
    What a layer may take is told by ceilings that were measured at another time, and scaled by a short probe of the
    machine's speed. Where the machine was slow as the ceilings or the probe were measured, and fast in the run itself,
    every layer seems to reach more than there is, and what is lost is nobody's loss.

Try:
    Measure again on a quiet machine, the ceilings too (`--recalibrate`).
"""

from __future__ import annotations

from trtprof.base.units import format_ns, format_percent
from trtprof.diagnose import Case, Claim, doubt, run_rule


@run_rule("TR910", "latency below the roofline", order=0, thresholds=("above_roof",))
def judge(case: Case) -> Claim | str:
    """One finding when the latency is under the share of the roofs that a layer may be."""
    if case.gpu:
        return "the rule is about the whole run, which was on a GPU, where layers may overlap"
    measured, allowed = case.latency.headline_ns, case.attainable_ns
    facts = f"{format_ns(measured)} measured, {format_ns(allowed)} is what its layers take at best"
    if not measured or measured >= allowed * case.thresholds.above_roof:
        return f"the rule is about the whole run: {facts}; under {format_percent(case.thresholds.above_roof)} counts"
    return doubt(
        f"{facts}: the ceilings are not those of this run, and there is no verdict",
        "run again on a quiet machine with --recalibrate",
        brief=f"latency below its floor, {format_percent(measured / allowed)} of it",
        beyond=True,
    )
