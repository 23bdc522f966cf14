"""The latency samples scatter too much.

What:
    The coefficient of variation of the latency, or its 99th percentile over its median, is above the threshold. Above
    the limit of the latter there is no verdict.

Why:
    Other processes or virtual machines share the cores, clocks change, or too few iterations were
    measured. What a median says of inferences of which some take ten times as long is not what a user waits for.

Try:
    Close what else runs, pin the process (`taskset`), fix the clock governor, and measure longer
    (`--duration`). Compare medians only.
"""

from __future__ import annotations

from trtprof.base.units import format_ns, format_percent
from trtprof.diagnose import Case, Claim, doubt, run_rule


@run_rule("TR903", "noisy measurement", order=0, thresholds=("noise_cv", "p99", "p99_limit"))
def judge(case: Case) -> Claim | str:
    """One finding when the samples scatter more than the thresholds."""
    latency, limit = case.latency, case.thresholds.p99_limit
    if not latency.n or not latency.median_ns:
        return "the rule is about the whole run, whose latency has no samples"
    tail = latency.p99_ns / latency.median_ns
    varies = f"latency varies by {format_percent(latency.cv)} (standard deviation / mean of {latency.n})"
    times = f"{tail:.3g}" if tail < 100 else f"{tail:,.0f}"
    slowest = f"its p99 is {times} times its median"
    if latency.cv <= case.thresholds.noise_cv and tail < case.thresholds.p99:
        return (
            f"the rule is about the whole run: {varies}, and over {format_percent(case.thresholds.noise_cv)} is noisy; "
            f"{slowest}, and {case.thresholds.p99:g} counts"
        )
    beyond = tail >= limit
    found = f"{varies}; median {format_ns(latency.median_ns)}, p99 {format_ns(latency.p99_ns)}"
    brief = (
        f"p99 is {times} x the median" if tail >= case.thresholds.p99 else f"latency varies by {100 * latency.cv:.0f} %"
    )
    quiet = "with the GPU's clocks locked" if case.gpu else "on a quiet machine"
    return doubt(
        f"{found}: {slowest}, and from {limit:g} on there is no verdict" if beyond else found,
        f"measure longer (--duration) {quiet}"
        + ("; close what else runs there" if beyond else "; medians still hold, small findings may not"),
        brief=brief,
        beyond=beyond,
        confidence=1.0,
    )
