"""Inputs and outputs on their way over the bus.

What:
    A good part of the latency is spent with copies of inputs to the GPU and of outputs back. Of a capture, the copies
    over the bus count that no layer launched, while nothing else ran.

Why:
    PCIe 4.0 with 16 lanes moves at most 31.5 GB/s (16 GT/s a lane, 128 of 130 bits), the memory of a GPU
    ten to a hundred times as much; host memory that is not pinned is slower still. trtexec copies before
    and after each inference. Where weights are kept on the host and fetched for each inference, there is no more to
    gain from kernels.

Try:
    Keep data on the GPU between models, pin the memory of the host, copy narrower dtypes (uint8 images
    instead of fp32 ones), and overlap copies with the inference before (`--streams=2`). Where the
    application has its data on the GPU already, measure with `--noDataTransfers`.
"""

from __future__ import annotations

from trtprof.base import trace
from trtprof.base.trace import Transfer
from trtprof.base.units import format_bytes, format_ns, format_percent, format_rate
from trtprof.diagnose import Case, Claim, run_rule
from trtprof.diagnose.ledger import COPIES, FROM_DEVICE, TO_DEVICE


@run_rule("HO502", "copies of inputs and outputs", order=70, thresholds=("host_share",))
def judge(case: Case) -> Claim | str:
    """All rows of copies over the bus as one finding, once they make up enough of the latency."""
    # What at least of the copies while nothing else ran went over the bus: all but what else was copied or set.
    bus = sum(one.per_iteration_ns for one in _over_the_bus(case))
    others = sum(one.per_iteration_ns for one in case.transfers) - bus
    there, back, captured = case.row(TO_DEVICE), case.row(FROM_DEVICE), min(max(case.row(COPIES) - others, 0), bus)
    total = there + back + captured
    share = format_percent(case.share(total))
    if case.share(total) < case.thresholds.host_share:
        return (
            f"the rule is about copies of inputs and outputs: {format_ns(total)}, {share} of latency, where "
            f"{format_percent(case.thresholds.host_share)} counts"
        )
    if captured > there + back:
        moved = "; ".join(_words(transfer) for transfer in _over_the_bus(case))
        return Claim(
            where="between the kernels",
            evidence=f"copies take {format_ns(total)} in which nothing else runs, {share} of latency: {moved}",
            remedy=(
                "keep on the GPU what is copied each time, weights too; copy the next while kernels run, from pinned "
                "memory and on a stream of its own; copy narrower dtypes"
            ),
            other_ns=total,
            confidence=0.9,
        )
    return Claim(
        where="before and after the kernels",
        evidence=(f"{format_ns(there)} to the GPU and {format_ns(back)} from it are {share} of latency"),
        remedy="keep data on the GPU, pin host memory, copy narrower dtypes, or overlap copies with inferences",
        other_ns=total,
        confidence=0.9,
    )


def _over_the_bus(case: Case) -> list[Transfer]:
    return [one for one in case.transfers if one.name in (trace.TO_DEVICE, trace.FROM_DEVICE)]


def _words(moved: Transfer) -> str:
    """``memcpy HtoD: 116 of no layer, 11.1 GB in all at 27.7 GB/s``."""
    rate = f" at {format_rate(moved.bytes * 1e9 / moved.total_ns, 'B/s')}" if moved.total_ns else ""
    return f"{moved.name}: {moved.number:,} of no layer, {format_bytes(moved.bytes)} in all{rate}"
