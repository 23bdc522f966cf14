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

from trtprof.base.records import LayerResult
from trtprof.base.units import format_ns, format_percent
from trtprof.diagnose import Case, Loss, layer_rule
from trtprof.diagnose.libraries import as_fast, down_to, winnable_ns
from trtprof.diagnose.products import PRODUCT_OPS, explains, no_product, product_of, shown, too_little
from trtprof.diagnose.remedies import more_kernels


@layer_rule("KN704", "split-K or reduction overhead", order=27, thresholds=("explains", "helper_share"))
def judge(case: Case, layer: LayerResult) -> Loss | str:
    """Kernels that add up the parts of a product and take a share of the layer that is worth speaking of."""
    if why := no_product(case, layer) or as_fast(layer):
        return why
    kernels = case.kernel_names(layer)
    multiply = any(name.op in PRODUCT_OPS for _, name in kernels)
    # Where a layer computes one node, a reduction in it is none of the model's.
    adds = ("split_k_reduce", "reduce") if multiply and len(layer.nodes) == 1 else ("split_k_reduce",)
    helpers = [match for match, name in kernels if name.op in adds]
    if not helpers or not layer.measured_ns:
        return "no name of its kernels tells one that only adds up the parts of a product"
    total = sum(match.total_ns for match in layer.kernels)
    spent = layer.measured_ns * sum(match.total_ns for match in helpers) // total if total else 0
    ns = min(spent, max(layer.lost_ns or 0, 0))
    if spent < case.thresholds.helper_share * layer.measured_ns:
        return (
            f"{shown(helpers[0].kernel)} takes {format_percent(spent / layer.measured_ns)} of the layer, less than "
            f"{format_percent(case.thresholds.helper_share)}"
        )
    if ns <= case.clock_resolution_ns or not explains(case, layer, ns):
        return too_little(case, layer, ns)
    product = product_of(layer)
    return Loss(
        min(ns, winnable_ns(layer)),
        f"{shown(helpers[0].kernel)} only adds up the parts{f' of {product.words}' if product is not None else ''}: "
        f"{format_ns(spent)}, {format_percent(spent / layer.measured_ns)} of the layer's "
        f"{format_ns(layer.measured_ns)}{down_to(layer)}",
        f"raise the batch, or merge products that share an input, so that no split is needed; {more_kernels(case)}",
        0.75,
    )
