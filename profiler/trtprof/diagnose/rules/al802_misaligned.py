"""Dimensions of a product that do not fill what tensor cores load at once.

What:
    K or N of a matrix product, or the channels of a convolution, are no multiple of 16 bytes (8 of fp16, 16 of int8, 4
    of TF32), or, where arithmetic bounds a GPU from the A100 on, of 128 bytes. With them padded, the roofline allows
    the layer far less time than it takes.

Why:
    Rows that do not start at a multiple of 16 bytes are loaded in smaller pieces, and the kernels for them
    (``align1`` and ``align2`` in names) are older and slower. From the A100 on tiles are most efficient where rows fill
    128 bytes; for other sizes libraries may pick a kernel with much smaller tiles.

Try:
    Pad the dimension with zeros in the model (weights once, offline; activations by making the layer before it wider),
    to the multiple that the evidence names, and measure both: the price is that of the roofline with padded
    dimensions. The first convolution of a quantised model is better left unquantised.
"""

from __future__ import annotations

from trtprof.base.records import LayerResult
from trtprof.base.units import format_ns
from trtprof.diagnose import Case, Loss, layer_rule
from trtprof.diagnose.libraries import as_fast, down_to, winnable_ns
from trtprof.diagnose.products import (
    aligned,
    beside_roof,
    explains,
    least_healthy,
    main_kernel,
    multiples,
    named_unit,
    no_product,
    padded_ns,
    product_dtype,
    product_of,
    shown,
    tensor_peak,
    too_little,
)
from trtprof.diagnose.reasons import bound_otherwise
from trtprof.diagnose.remedies import pad, unquantised


@layer_rule("AL802", "misaligned dimensions", order=29, thresholds=("of_datasheet", "explains", "healthy"))
def judge(case: Case, layer: LayerResult) -> Loss | str:
    """A product that would take far less time with padded dimensions, at the least multiple that gives it."""
    if why := no_product(case, layer) or bound_otherwise(case, layer, "tensor", "dram", "l2") or as_fast(layer):
        return why
    dtype, product, kernel = product_dtype(layer), product_of(layer), main_kernel(case, layer)
    if not tensor_peak(case, dtype):
        return f"the tensor cores of this GPU take no {dtype} here"
    if product is None:
        return "the dimensions of its product are not known for sure"
    if not product.suits_tensor_cores:
        return f"it is {product.words}, where tensor cores have nothing to do"
    if kernel is not None and kernel.name.unit == "simt":
        return named_unit(kernel)
    gains = []
    for step in multiples(case, layer):
        if not (misfits := product.misfits(step)):
            continue
        ns = padded_ns(layer, product, step)
        gained = layer.measured_ns - ns
        if ns >= least_healthy(case) * layer.measured_ns or gained <= case.clock_resolution_ns:
            gains.append(f"padded to multiples of {step} it attains {format_ns(ns)}")
            continue
        if not explains(case, layer, gained):
            return too_little(case, layer, gained)
        named = " and ".join(f"{name} = {size:,}" for name, size in misfits)
        padded = " and ".join(f"{-(-size // step) * step:,}" for _, size in misfits)
        return Loss(
            min(gained, winnable_ns(layer)),
            f"{named}: no multiple of {step} ({dtype}); padded to {padded}, the roofline allows {format_ns(ns)}; "
            f"{beside_roof(case, layer)}" + (f"; in {shown(kernel.match.kernel)}" if kernel else "") + down_to(layer),
            unquantised(product, dtype) or f"{pad(product, step)} with zeros in the model, and measure both",
            # That pieces of 16 bytes are not filled is felt by every kernel; that 128 are not, by some.
            0.65 if step == aligned(dtype) else 0.5,
        )
    if not gains:
        return f"it is {product.words}, all multiples of {multiples(case, layer)[-1]}"
    return f"{' and '.join(gains)}: no gain over the {format_ns(layer.measured_ns)} measured that is sure"
