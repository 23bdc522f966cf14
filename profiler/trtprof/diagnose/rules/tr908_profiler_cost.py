"""The profiler changed what it measured.

What:
    On a GPU, an inference took much longer under the profiler than without it. Above the limit there is no verdict. On
    a CPU the profiler's cost is taken off, and TR909 says where the rest does not add up to the latency.

Why:
    A profiler writes something down at every kernel, so that many short ones cost most; TensorRT's runs layers one
    after the other. What it adds is estimated and taken off, but not to the nanosecond: where it is as long as the
    inference itself, times of layers are as much its own as theirs.

Try:
    Measure again while nothing else runs. nsys with fewer traces costs less than one that traces everything, and
    counters belong in a run of their own. Fewer and larger nodes have less of it.
"""

from __future__ import annotations

from trtprof.base.units import format_ns, format_percent
from trtprof.diagnose import Case, Claim, doubt, run_rule


@run_rule("TR908", "the profiler changed the latency", order=0, thresholds=("profiler_cost", "profiler_limit"))
def judge(case: Case) -> Claim | str:
    """One finding when an inference took longer by more than the threshold."""
    clean, profiled = case.latency, case.profiled
    if not (case.gpu or case.tensorrt):
        return "the rule is about the whole run, which was on a CPU: TR909 checks that its layers add up to the latency"
    if not clean.n or not clean.median_ns or not profiled.n:
        return "the rule is about the whole run, whose latency was not measured with and without the profiler"
    cost, most = profiled.median_ns / clean.median_ns - 1, case.thresholds.profiler_cost
    if cost < most:
        return (
            f"the rule is about the whole run, which took {100 * cost:+.1f} % under the profiler, and "
            f"+{format_percent(most)} counts"
        )
    limit = case.thresholds.profiler_limit
    beyond = cost >= limit
    return doubt(
        f"{format_ns(clean.median_ns)} without the profiler, {format_ns(profiled.median_ns)} with it: "
        f"times of {case.time_of}s hold what was not taken off of it"
        + (f"; from +{format_percent(limit)} on there is no verdict" if beyond else ""),
        "lock the GPU's clocks, and trace no more than kernels and NVTX ranges",
        brief=f"the profiler cost {100 * cost:+.0f} %",
        beyond=beyond,
    )
