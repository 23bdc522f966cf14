"""The latency samples are noisy, or other processes disturbed them.

What:
    On a CPU whose system reports how long threads wait: the latency of the undisturbed machine is unknown, or only
    estimated from layers. Elsewhere: the samples vary, or their p99 is far above their median; beyond the limit of the
    latter no conclusion is drawn.

Why:
    Other processes or virtual machines share the cores, clocks change, or too few iterations were measured.

Try:
    Close what else runs, pin the process (`taskset`), fix the clock governor, and measure longer (`--duration`): more
    inferences then run undisturbed.
"""

from __future__ import annotations

from trtprof.base.units import format_ns
from trtprof.diagnose import Case, Claim, doubt, run_rule


@run_rule("TR903", "noisy measurement", order=0, thresholds=("noise_cv", "p99", "p99_limit"))
def judge(case: Case) -> Claim | str:
    """One finding when the samples scatter more than the thresholds, or too few of them were undisturbed."""
    latency, limit = case.latency, case.thresholds.p99_limit
    if not latency.n or not latency.median_ns:
        return "the rule is about the whole run, whose latency has no samples"
    p10 = f"p10 {format_ns(latency.p10_ns)}, " if latency.p10_ns else ""
    spread = f"{p10}p50 {format_ns(latency.median_ns)}, p99 {format_ns(latency.p99_ns)}"
    if case.cpu_use is not None:
        if not case.noisy:
            return f"the rule is about the whole run: {latency.undisturbed_n} of {latency.n} were undisturbed"
        known = "estimated from its layers" if latency.undisturbed_ns else "unknown"
        return doubt(
            f"the latency of the undisturbed machine is {known}: {latency.undisturbed_n} of {latency.n} inferences "
            f"were undisturbed; {spread}",
            "close what else runs, or measure longer (--duration): more inferences run undisturbed then",
            brief=f"latency without other processes {known}",
        )
    tail = latency.p99_ns / latency.median_ns
    times = f"{tail:.3g}" if tail < 100 else f"{tail:,.0f}"
    if not case.noisy and tail < case.thresholds.p99:
        return (
            f"the rule is about the whole run: {spread}; p99 is {times} times the median, and {case.thresholds.p99:g} "
            "counts"
        )
    beyond = tail >= limit
    return doubt(
        f"{spread}: p99 is {times} times the median" + (f", and from {limit:g} on there is no verdict" * beyond),
        f"measure longer (--duration) {'with the clocks of the GPU locked' if case.gpu else 'on a quiet machine'}"
        + "; close what else runs there" * beyond,
        brief=f"p99 is {times} x the median" if tail >= case.thresholds.p99 else f"latency is noisy ({spread})",
        beyond=beyond,
        confidence=1.0,
    )
