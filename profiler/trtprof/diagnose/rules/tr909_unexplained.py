"""The times of layers do not explain the latency.

What:
    The ledger leaves a good part of the latency unexplained, beyond the gaps that the profile shows, or the medians
    of layers do not add up to the kernels of an inference. Above the limit of both together there is no verdict.

Why:
    Latency and times of layers are measured one after the other: another clock, another load or a cooler GPU lies
    between them. TensorRT's profiler runs layers one after the other that overlap without it. Where other processes
    take the cores now and then, each inference has other layers that are slow, and the median of none of them tells.

Try:
    Measure both again while nothing else runs, with the clocks locked, and with more profiled inferences
    (`--profile-iterations`). For files: export times and profile in one run of trtexec (`--separateProfileRun`).
"""

from __future__ import annotations

from trtprof.base.units import format_percent
from trtprof.diagnose import Case, Claim, doubt, run_rule
from trtprof.diagnose.ledger import ADDING


@run_rule("TR909", "latency unexplained", order=0, thresholds=("unexplained", "unexplained_limit"))
def judge(case: Case) -> Claim | str:
    """One finding when either part is above the threshold."""
    if case.cpu_use is not None and case.noisy:
        return "the rule is about the whole run, whose latency holds the time of other processes (TR903)"
    if case.cpu_use is not None and case.unexplained_ns < 0:
        return "the rule is about the whole run, whose layers take longer under the profiler: claims are scaled to fit"
    rest, adding = case.share(case.unexplained_ns), case.share(case.row(ADDING))
    limit = case.thresholds.unexplained_limit
    # Equal processes on a CPU differ by a third for all of their life.
    least = limit if case.cpu_use is not None else case.thresholds.unexplained
    facts = f"{100 * rest:+.0f} % of latency is unexplained, and the medians of layers miss {100 * adding:+.0f} % of it"
    if max(abs(rest), abs(adding)) < least:
        return f"the rule is about the whole run: {facts}; {format_percent(least)} of either counts"
    beyond = abs(rest) + abs(adding) >= limit
    parts = ((f"unexplained {100 * rest:+.0f} %", rest), (f"medians of layers miss {100 * adding:+.0f} %", adding))
    return doubt(
        facts + (f"; from {format_percent(limit)} of both on there is no verdict" if beyond else ""),
        "lock the GPU's clocks, and take times and profile in one run (of trtexec: --separateProfileRun)"
        if case.gpu
        else "measure longer (--duration, --profile-iterations)",
        brief=", ".join(words for words, share in parts if abs(share) >= least),
        beyond=beyond,
    )
