"""A memory-bound layer far under the bandwidth of the device.

What:
    The roofline says that bytes, not arithmetic, bound the layer, yet it takes more than twice the
    time in which the device moves those bytes.

Why:
    Many small matrix products (a batched gemv) pay a call each; strided or broadcast access wastes
    cache lines; one thread cannot draw the whole bandwidth; a scalar loop does not vectorise. On a GPU,
    a kernel for an old architecture, or too few blocks to fill it.

Try:
    Give the layer work in one piece: fold batch dimensions into one GEMM, write a gemv as Mul and
    ReduceSum, keep the reduced axis innermost. Then more threads on a CPU. If nothing else helps, a
    hand-written kernel that streams the tensors once.
"""

from __future__ import annotations

from collections.abc import Iterator

from profiler.base.op_kinds import op_kind
from profiler.base.records import Bound, LayerResult
from profiler.base.units import format_bytes, format_ns, format_percent, format_rate
from profiler.diagnose import Case, Claim, by_cause, place, rule
from profiler.diagnose.products import product_of
from profiler.diagnose.silence import bound_otherwise, near_roof, no_work, unpriced

_BOUNDS: tuple[Bound, ...] = ("dram", "l2")
"""What bounds the layers that the rule is about."""


def _silent(case: Case, layer: LayerResult) -> str:
    return (
        no_work(case, layer)
        or unpriced(case, layer)
        or bound_otherwise(case, layer, *_BOUNDS)
        or near_roof(case, layer)
    )


@rule(
    "RL101", "memory-bound op far under bandwidth", order=60, silent=_silent, thresholds=("efficiency", "of_datasheet")
)
def check(case: Case) -> Iterator[Claim]:
    """Layers bound by DRAM or cache whose efficiency is under the threshold, by op type and remedy."""
    far = [layer for layer in case.unclaimed if layer.bound in _BOUNDS and case.far_from_roof(layer)]
    for remedy, layers in by_cause(far, lambda layer: _remedy(layer, case)):
        worst = layers[0]
        moved, measured = worst.bytes or 0, worst.measured_ns
        level = "DRAM" if worst.bound == "dram" else case.cache_name
        yield Claim(
            where=place(layers),
            evidence=(
                f"{format_bytes(moved)} in {format_ns(measured)} is {format_rate(moved / measured * 1e9, 'B/s')}, "
                f"{format_percent((worst.attainable_ns or 0) / measured)} of what {level} allows "
                f"({format_ns(worst.attainable_ns or 0)}){case.tactic(worst)}"
            ),
            remedy=remedy,
            layers={layer.name: layer.lost_ns or 0 for layer in layers},
        )


def _remedy(layer: LayerResult, case: Case) -> str:
    product = product_of(case, layer)
    if product is not None and not product.convolution and product.thin == 1 and product.batch > 1:
        return "it is a batched gemv: write it as Mul + ReduceSum, or fold the batch into one GEMM"
    if op_kind(case.engine[layer.name].op.op_type) == "move":
        return "it only moves data: choose layouts so that it is not needed, or fuse it into its reader"
    if _special(layer, case):
        return "special functions (exp, pow, erf, sqrt) may bound it, not memory: use a fused or approximate form"
    return "fuse it with its neighbours, or give it contiguous, larger pieces; then a hand-written kernel"


def _special(layer: LayerResult, case: Case) -> bool:
    """Whether special functions are the other suspect.

    The roof has units side by side; a kernel that does one thing after the other pays for both. Where
    they have no ceiling, the roof knows no more than that they are most of the arithmetic.
    """
    if case.ceilings.attainable.special_per_s:
        return 2 * layer.terms.get("sfu", 0) >= layer.terms.get(layer.bound, 0)
    return layer.work is not None and 2 * layer.work.special_flops >= layer.work.flops > 0
