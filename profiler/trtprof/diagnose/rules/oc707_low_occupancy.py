"""Too few warps at once to keep the GPU busy.

What:
    The kernel has fewer blocks than the GPU has SMs, or its registers, its shared memory or the size of its blocks
    leave room for few warps on each SM, and the layer is far from its roofline, and slower than nine of ten library
    kernels of the same shape where those were measured. What is claimed ends at the fastest tenth of them.

Why:
    An SM without a block does nothing. Loads from memory take hundreds of cycles, in which other warps must keep
    loads in flight: with few warps the bandwidth is not drawn (CUDA C++ Best Practices Guide, Occupancy). How many
    warps an SM holds follows NVIDIA's occupancy calculator. Kernels on tensor cores and those with a software
    pipeline keep loads in flight with few warps: of them only blocks that are missing count.

Try:
    More blocks: a larger batch, split-k, a reduction in two steps. Where registers or shared memory are the limit:
    another tile, which the builder finds when it may try more tactics (`--builderOptimizationLevel=5`). A
    hand-written kernel chooses its own blocks (`__launch_bounds__`).
"""

from __future__ import annotations

from typing import NamedTuple

from trtprof.base.records import LayerResult
from trtprof.base.units import format_bytes, format_ns, format_percent
from trtprof.diagnose import Case, Loss, layer_rule
from trtprof.diagnose.launches import Launch, excess_ns, launches
from trtprof.diagnose.libraries import down_to, winnable_ns
from trtprof.diagnose.products import explains
from trtprof.diagnose.reasons import no_work, not_slow, unpriced
from trtprof.diagnose.remedies import more_blocks

_REMEDIES = {
    "registers": "a kernel with fewer registers a thread: a smaller tile (--builderOptimizationLevel=5 tries more)",
    "shared": "a kernel with less shared memory a block: a smaller tile (--builderOptimizationLevel=5 tries more)",
    "blocks": "a kernel with more threads a block: so small ones run out of places on an SM",
    "threads": "a kernel whose blocks fill an SM evenly: so large ones leave no room for another",
}
"""By what allows no more warps; where it is the number of blocks, see `remedies.more_blocks`."""


class _Price(NamedTuple):
    ns: int
    limit: str
    launch: Launch


def _price(case: Case, layer: LayerResult) -> _Price | None:
    """What is lost to missing warps in the kernel that takes most of a layer; None where its launch is not known."""
    found = launches(case, layer)
    if not found or found[0].ns < case.thresholds.explains * layer.measured_ns:
        return None
    launch = found[0]
    idle = max(1 - launch.match.blocks / launch.sms, 0.0)
    # A tile in flight is enough, whatever the number of warps.
    pipelined = launch.name.unit == "tensor" or launch.name.stages is not None
    if layer.bound not in ("dram", "l2") or pipelined:
        return _Price(int(launch.ns * idle), "grid", launch)
    enough = case.thresholds.occupancy
    lacking = 1 - launch.occupied / enough if launch.occupied < enough else 0.0
    few = launch.match.blocks < launch.sms * launch.resident.blocks_per_sm
    return _Price(int(launch.ns * lacking), "grid" if few else launch.resident.limit, launch)


@layer_rule("OC707", "low occupancy", order=52, thresholds=("efficiency", "of_datasheet", "explains", "occupancy"))
def judge(case: Case, layer: LayerResult) -> Loss | str:
    """A layer far from its roofline whose loss is mostly explained by missing warps."""
    if why := no_work(case, layer) or unpriced(case, layer) or not_slow(case, layer):
        return why
    if layer.bound == "launch":
        return "the layer's work takes less time than an empty kernel: it has few blocks by its nature"
    price = _price(case, layer)
    if price is None:
        return "how the kernel that takes most of it was launched, or what an SM of this GPU can hold, is not known"
    if not case.far_from_roof(layer) or not explains(case, layer, price.ns):
        return (
            f"{_words(price.launch)}: what is missing costs {format_ns(price.ns)} at most, less than "
            f"{format_percent(case.thresholds.explains)} of the {format_ns(max(layer.lost_ns or 0, 0))} that the layer "
            "lost"
        )
    evidence = (
        f"{_words(price.launch)}, limited by {_limit(price)}; it takes {format_ns(layer.measured_ns)} where "
        f"{format_ns(layer.attainable_ns or 0)} are attainable{down_to(layer)}"
    )
    remedy = more_blocks(case, layer) if price.limit == "grid" else _REMEDIES[price.limit]
    return Loss(min(price.ns, excess_ns(case, layer), winnable_ns(layer)), evidence, remedy, 0.6)


def _words(launch: Launch) -> str:
    return f"{launch.words} are {format_percent(launch.occupied)} of the warps that they can hold"


def _limit(price: _Price) -> str:
    match = price.launch.match
    return {
        "grid": "the number of blocks",
        "registers": f"{match.registers} registers a thread",
        "shared": f"{format_bytes(match.shared_bytes)} of shared memory a block",
        "blocks": f"the {price.launch.resident.blocks_per_sm} blocks that an SM holds at most",
        "threads": f"{match.threads} threads a block",
    }[price.limit]
