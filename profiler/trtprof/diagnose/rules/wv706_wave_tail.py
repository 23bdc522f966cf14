"""The last round of a kernel's blocks leaves most SMs without work.

What:
    The blocks of a launch do not fill the SMs evenly: in the last round only some SMs have one, and the others
    wait for them. What good library kernels of the same shape pay too, where those were measured, is not claimed: a
    layer that is no slower than nine of ten of them is passed by, and what lies under their fastest tenth is left out.

Why:
    A product is cut into tiles of one size, one block a tile, and each SM works on its blocks at one speed. A few
    blocks more than the SMs can share evenly cost a whole round (NVIDIA, Matrix Multiplication Background User's
    Guide, Wave Quantization). The price is a bound for work that keeps the SMs busy, and an estimate for work that
    waits for memory. It holds where all blocks do the same work: attention is left out.

Try:
    A batch or a shape whose blocks fill whole rounds; a kernel with another tile or with split-k, which the builder
    finds when it may try more tactics (`--builderOptimizationLevel=5`).
"""

from __future__ import annotations

from trtprof.base.records import LayerResult
from trtprof.base.units import format_ns, format_percent
from trtprof.diagnose import Case, Loss, layer_rule
from trtprof.diagnose.launches import Launch, excess_ns, launches
from trtprof.diagnose.libraries import as_fast, down_to, winnable_ns
from trtprof.diagnose.products import explains, least_healthy, multiplies
from trtprof.diagnose.reasons import no_work, unpriced
from trtprof.diagnose.remedies import is_split

_ARITHMETIC = ("tensor", "vector", "sfu")


def _tail_ns(launch: Launch) -> int:
    """Time of a kernel in which SMs had no block, by the rounds of the busiest SM; 0 of less than one full round."""
    if launch.match.blocks <= launch.sms or launch.name.op == "attention":
        return 0
    return int(launch.ns * (1 - launch.grid.sm_efficiency))


def _price(case: Case, layer: LayerResult) -> tuple[int, Launch | None]:
    """What the tails of all kernels of a layer cost, and the kernel with the largest."""
    found = [(_tail_ns(launch), launch) for launch in launches(case, layer)]
    worst = max(found, key=lambda one: one[0], default=None)
    return sum(ns for ns, _ in found), None if worst is None else worst[1]


@layer_rule(
    "WV706", "tail of waves", order=50, thresholds=("efficiency", "of_datasheet", "explains", "tail", "healthy")
)
def judge(case: Case, layer: LayerResult) -> Loss | str:
    """A layer whose loss is mostly the tail of its kernels."""
    if why := no_work(case, layer) or unpriced(case, layer) or as_fast(layer):
        return why
    tail, worst = _price(case, layer)
    if worst is None:
        return "how its kernels were launched, or what an SM of this GPU can hold, is not known"
    head = f"{worst.words}, {worst.last_round} of them in the last of {worst.rounds} rounds, cost {format_ns(tail)}"
    least = case.thresholds.tail
    if tail < least * layer.measured_ns:
        share = format_percent(tail / layer.measured_ns)
        return f"{head}, {share} of the layer's time, and from {format_percent(least)} on the tail is named"
    if (layer.attainable_ns or 0) >= least_healthy(case) * layer.measured_ns:
        return (
            f"{head}, but the layer reaches {format_percent(least_healthy(case))} of its roofline, as healthy ones do"
        )
    by_arithmetic = layer.bound in _ARITHMETIC
    # A kernel that lost less than its tail costs has no such tail.
    likely = explains(case, layer, tail) and case.clock_resolution_ns < tail <= excess_ns(case, layer)
    if not likely or not (by_arithmetic or case.far_from_roof(layer)):
        return (
            f"{head}, which does not explain the {format_ns(max(layer.lost_ns or 0, 0))} that the layer lost: "
            f"{format_percent(case.thresholds.explains)} of them at least, and not more than a healthy kernel would "
            "lose"
        )
    evidence = (
        f"{worst.words}, {worst.resident.blocks_per_sm} at once on each: {_busy(worst)} in the last of "
        f"{worst.rounds} rounds, {format_percent(float(1 - worst.grid.sm_efficiency))} of the SMs' time is "
        f"idle, {format_ns(tail)} of {format_ns(layer.measured_ns)}{down_to(layer)}"
    )
    return Loss(min(tail, winnable_ns(layer)), evidence, _remedy(case, layer), 0.7 if by_arithmetic else 0.5)


def _busy(launch: Launch) -> str:
    return f"{launch.last_round} SMs have a block" if launch.last_round > 1 else "1 SM has a block"


def _remedy(case: Case, layer: LayerResult) -> str:
    """What to try, in numbers of one kernel only where they differ little between kernels."""
    more = ""
    if multiplies(layer):
        split = "" if is_split(case, layer) else " and split-k"
        more = f", or let the builder try more tiles{split} (--builderOptimizationLevel=5)"
    return f"choose a batch or a shape whose blocks fill whole rounds of the SMs{more}"
