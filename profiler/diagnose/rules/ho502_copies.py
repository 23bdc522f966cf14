"""Inputs and outputs on their way over the bus.

What:
    A good part of the latency is spent with copies of inputs to the GPU and of outputs back.

Why:
    PCIe 4.0 with 16 lanes moves at most 31.5 GB/s (16 GT/s a lane, 128 of 130 bits), the memory of a GPU
    ten to a hundred times as much; host memory that is not pinned is slower still. trtexec copies before
    and after each inference.

Try:
    Keep data on the GPU between models, pin the memory of the host, copy narrower dtypes (uint8 images
    instead of fp32 ones), and overlap copies with the inference before (`--streams=2`). Where the
    application has its data on the GPU already, measure with `--noDataTransfers`.
"""

from __future__ import annotations

from profiler.base.units import format_ns, format_percent
from profiler.diagnose import Case, Claim, run_rule
from profiler.diagnose.ledger import FROM_DEVICE, TO_DEVICE


@run_rule("HO502", "copies of inputs and outputs", order=70, thresholds=("host_share",))
def judge(case: Case) -> Claim | str:
    """Both rows of copies as one finding, once they make up enough of the latency."""
    there, back = case.row(TO_DEVICE), case.row(FROM_DEVICE)
    share = format_percent(case.share(there + back))
    if case.share(there + back) < case.thresholds.host_share:
        return (
            f"the rule is about copies of inputs and outputs: {format_ns(there + back)}, {share} of latency, where "
            f"{format_percent(case.thresholds.host_share)} counts"
        )
    return Claim(
        where="before and after the kernels",
        evidence=(f"{format_ns(there)} to the GPU and {format_ns(back)} from it are {share} of latency"),
        remedy="keep data on the GPU, pin host memory, copy narrower dtypes, or overlap copies with inferences",
        other_ns=there + back,
        confidence=0.9,
    )
