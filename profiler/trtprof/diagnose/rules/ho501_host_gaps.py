"""Time between kernels and around the call.

What:
    A good part of the latency passes outside any kernel: of each inference that was captured, what lies between its
    own kernels. That the medians of layers do not add up to an inference is no gap (see the ledger).

Why:
    The call itself (argument checks, binding, allocation of outputs) costs a fixed time; the
    executor walks the graph between kernels; threads are woken for each. The queue of a GPU runs dry
    where the host puts kernels into it more slowly than they run.

Try:
    Bind inputs and outputs once and reuse them, batch several requests into one call, use fewer and
    larger nodes. On a GPU, a CUDA graph removes the gaps.
"""

from __future__ import annotations

from trtprof.base.units import format_ns, format_percent
from trtprof.diagnose import Case, Claim, run_rule
from trtprof.diagnose.ledger import ADDING, HOST, WAITING


@run_rule("HO501", "host gaps", order=70, thresholds=("host_share",))
def judge(case: Case) -> Claim | str:
    """The host rows of the ledger when they are large; a negative remainder is no gap."""
    call = case.row(HOST)
    # Gaps of a run beside other processes are theirs.
    gaps = call if case.on_ort_cpu and case.cpu_use is not None and case.cpu_use.waited else call + case.gaps_ns
    if case.share(gaps) < case.thresholds.host_share or gaps <= case.clock_resolution_ns:
        return (
            f"the rule is about time outside layers: {format_ns(gaps)}, {format_percent(case.share(gaps))} of latency, "
            f"where {format_percent(case.thresholds.host_share)} and more than a step of the clock "
            f"({format_ns(case.clock_resolution_ns)}) count"
        )
    if case.gpu:
        return _on_gpu(case, gaps)
    kernels = case.in_latency(sum(layer.measured_ns for layer in case.layers) + case.row(ADDING))
    return Claim(
        where="between and around the kernels",
        evidence=(
            f"kernels take {format_ns(kernels)} of {format_ns(case.latency.headline_ns)}; "
            f"{format_percent(case.share(gaps))} of latency lies outside them ({format_ns(call)} of it is the call): "
            f"a profiled inference spends {format_ns(case.profiled_gap_ns)} between its kernels, the profiler's own "
            "time taken off"
        ),
        remedy="bind inputs and outputs once, batch requests into one call, use fewer and larger nodes",
        other_ns=gaps,
        confidence=0.6,
    )


def _on_gpu(case: Case, gaps: int) -> Claim:
    busy = case.in_latency(sum(layer.measured_ns for layer in case.layers))
    waiting = case.row(WAITING)
    slow = case.enqueue_ns > busy or waiting > gaps / 2
    enqueue = f"; the host takes {format_ns(case.enqueue_ns)} to enqueue an inference" if case.enqueue_ns else ""
    if waiting:
        enqueue += f", and the GPU waits {format_ns(waiting)} for it"
    if case.graph_ns:
        enqueue += f"; as a CUDA graph it takes {format_ns(case.graph_ns)}"
    graph = "capture the inference in a CUDA graph"
    if case.tensorrt:
        graph += " (--useCudaGraph)"
    return Claim(
        where="between the kernels",
        evidence=(
            f"{case.time_of}s take {format_ns(busy)} of {format_ns(case.latency.headline_ns)}: "
            f"{format_percent(case.share(gaps))} of latency are gaps{enqueue}"
        ),
        remedy=f"{graph}, or enqueue several at once",
        other_ns=gaps,
        confidence=0.8 if slow else 0.5,
    )
