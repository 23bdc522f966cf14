"""A second kernel that only adds up the parts of a product.

What:
    The product was split along the dimension that is summed over, and a kernel of its own adds the parts up. That
    kernel takes a good share of the layer's time.

Why:
    Where M and N are small and K is large, the result has too few tiles to fill the GPU, so libraries let several
    blocks work on one tile (split-K). The parts go to memory and are read back, mostly in fp32, and one more kernel is
    launched; for a small result that costs more than the split gains.

Try:
    Raise the batch or merge products that share an input, so that tiles fill the GPU without a split; let the builder
    try more tactics; a kernel that adds up in place (stream-K, or atomics) needs no second pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from profiler.base.records import LayerResult, Match
from profiler.base.units import format_ns, format_percent
from profiler.diagnose import Case, Claim, by_cause, place, rule
from profiler.diagnose.products import PRODUCT_OPS, explains, more_kernels, no_product, product_of, shown, too_little
from profiler.diagnose.silence import judged, silent_by


def _remedy(case: Case) -> str:
    return f"raise the batch, or merge products that share an input, so that no split is needed; {more_kernels(case)}"


class _Helped(NamedTuple):
    helpers: tuple[Match, ...]
    ns: int
    """What of their time was lost."""


def _judge(case: Case, layer: LayerResult) -> _Helped | str:
    """Kernels that add up the parts of a product and take a share worth speaking of, or why there are none."""
    if why := no_product(case, layer):
        return why
    kernels = case.kernel_names(layer)
    multiply = any(name.op in PRODUCT_OPS for _, name in kernels)
    # Where a layer computes one node, a reduction in it is none of the model's.
    adds = ("split_k_reduce", "reduce") if multiply and len(layer.nodes) == 1 else ("split_k_reduce",)
    helpers = tuple(match for match, name in kernels if name.op in adds)
    if not helpers or not layer.measured_ns:
        return "no name of its kernels tells one that only adds up the parts of a product"
    spent = _time(layer, helpers)
    ns = min(spent, max(layer.lost_ns or 0, 0))
    if spent < case.thresholds.helper_share * layer.measured_ns:
        return (
            f"{shown(helpers[0].kernel)} takes {format_percent(spent / layer.measured_ns)} of the layer, less than "
            f"{format_percent(case.thresholds.helper_share)}"
        )
    if ns <= case.clock_resolution_ns or not explains(case, layer, ns):
        return too_little(case, layer, ns)
    return _Helped(helpers, ns)


@rule(
    "KN704",
    "split-K or reduction overhead",
    order=27,
    silent=silent_by(_judge),
    thresholds=("explains", "helper_share"),
)
def check(case: Case) -> Iterator[Claim]:
    """Layers whose kernels that add up parts take a share of their time, by op type."""
    layers, found = judged(case, _judge)
    for remedy, group in by_cause(layers, lambda _: _remedy(case)):
        worst = group[0]
        helpers = found[worst.name].helpers
        spent = _time(worst, helpers)
        product = product_of(case, worst)
        size = f" of {product.words}" if product is not None else ""
        yield Claim(
            where=place(group),
            evidence=(
                f"{shown(helpers[0].kernel)} only adds up the parts{size}: {format_ns(spent)}, "
                f"{format_percent(spent / worst.measured_ns)} of the layer's {format_ns(worst.measured_ns)}"
            ),
            remedy=remedy,
            layers={layer.name: found[layer.name].ns for layer in group},
            confidence=0.75,
        )


def _time(layer: LayerResult, helpers: tuple[Match, ...]) -> int:
    """What the helpers take of the layer's time, in ns."""
    total = sum(match.total_ns for match in layer.kernels)
    return layer.measured_ns * sum(match.total_ns for match in helpers) // total if total else 0
