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

from collections.abc import Iterator

from profiler.base.records import LayerResult
from profiler.base.units import format_ns, format_percent
from profiler.diagnose import Case, Claim, rule


def _silent(case: Case, _layer: LayerResult) -> str:
    if not case.latency.n:
        return "the rule is about the whole run, whose latency has no samples"
    return (
        f"the rule is about the whole run: latency varies by {format_percent(case.latency.cv)} (standard deviation / "
        f"mean of {case.latency.n}), and over {format_percent(case.thresholds.noise_cv)} is noisy"
    )


@rule("TR903", "noisy measurement", order=0, silent=_silent, thresholds=("noise_cv",))
def check(case: Case) -> Iterator[Claim]:
    """One finding when the samples scatter more than the threshold."""
    if case.latency.cv <= case.thresholds.noise_cv:
        return
    yield Claim(
        where="the whole run",
        evidence=(
            f"latency varies by {format_percent(case.latency.cv)} (standard deviation / mean of {case.latency.n}); "
            f"median {format_ns(case.latency.median_ns)}, p99 {format_ns(case.latency.p99_ns)}"
        ),
        remedy=(
            "measure longer (--duration) with the GPU's clocks locked; medians still hold, small findings may not"
            if case.gpu
            else "measure longer (--duration) on a quiet machine; medians still hold, small findings may not"
        ),
        confidence=1.0,
        kind="trust",
    )
