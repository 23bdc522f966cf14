"""The latency samples scatter too much.

What:
    The coefficient of variation of the latency is above the threshold.

Why:
    Other processes or virtual machines share the cores, clocks change, or too few iterations were
    measured.

Try:
    Close what else runs, pin the process (`taskset`), fix the clock governor, and measure longer
    (`--duration`). Compare medians only.
"""

from __future__ import annotations

from profiler.base.units import format_ns, format_percent
from profiler.diagnose import Case, Claim, doubt, run_rule


@run_rule("TR903", "noisy measurement", order=0, thresholds=("noise_cv",))
def judge(case: Case) -> Claim | str:
    """One finding when the samples scatter more than the threshold."""
    latency, most = case.latency, case.thresholds.noise_cv
    varies = f"latency varies by {format_percent(latency.cv)} (standard deviation / mean of {latency.n})"
    if latency.cv <= most:
        if not latency.n:
            return "the rule is about the whole run, whose latency has no samples"
        return f"the rule is about the whole run: {varies}, and over {format_percent(most)} is noisy"
    return doubt(
        f"{varies}; median {format_ns(latency.median_ns)}, p99 {format_ns(latency.p99_ns)}",
        (
            "measure longer (--duration) with the GPU's clocks locked; medians still hold, small findings may not"
            if case.gpu
            else "measure longer (--duration) on a quiet machine; medians still hold, small findings may not"
        ),
        confidence=1.0,
    )
