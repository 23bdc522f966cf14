"""A product in a kernel written for a GPU that is generations older, on a slower unit than its dtype needs.

What:
    The name of the kernel gives an architecture two generations or more before that of the GPU, and says that it
    multiplies on the CUDA cores, although the tensor cores of this GPU take the dtype. The layer is far from its
    roofline.

Why:
    The architecture in a name is the least one that the kernel runs on, so an old one alone is nothing bad. But
    code for a GPU before tensor cores cannot use them, copies no tiles in the background and was tuned for another
    memory. Libraries fall back on it where no newer kernel takes the shape: a batched gemv, odd strides or dims.

Try:
    Give the product a shape that newer kernels take: fold the batch, pad K and N, transpose the weight; or a
    precision that only newer kernels have (fp16). If every tactic that the builder tries is an old one, this is where
    a hand-written kernel pays first.
"""

from __future__ import annotations

from trtprof.base.records import LayerResult
from trtprof.diagnose import Case, Loss, layer_rule
from trtprof.diagnose.libraries import down_to, winnable_ns
from trtprof.diagnose.products import (
    MainKernel,
    aligned,
    beside_roof,
    explains,
    main_kernel,
    named_unit,
    no_product,
    product_dtype,
    product_of,
    shown,
    superseded,
    tensor_peak,
    too_little,
)
from trtprof.diagnose.reasons import not_slow
from trtprof.diagnose.remedies import half_precision, more_kernels, pad, thin


@layer_rule(
    "KN701",
    "legacy-architecture kernel",
    order=24,
    thresholds=("efficiency", "of_datasheet", "explains", "generations", "skinny"),
)
def judge(case: Case, layer: LayerResult) -> Loss | str:
    """A product far from its roofline in a kernel far older than the GPU and on a slower unit."""
    if why := no_product(case, layer) or not_slow(case, layer):
        return why
    if case.architecture is None:
        return "the architecture of the GPU is not known"
    dtype, kernel = product_dtype(layer), main_kernel(case, layer)
    if not tensor_peak(case, dtype):
        return f"the CUDA cores are the fastest unit that takes {dtype} here"
    if kernel is None or kernel.name.unit != "simt":
        return named_unit(kernel)
    if kernel.name.arch is None:
        return f"{shown(kernel.match.kernel)} does not tell for which architecture it is"
    old = case.architecture // 10 - kernel.name.arch // 10 >= case.thresholds.generations
    if not old or not superseded(kernel.name):
        return f"{shown(kernel.match.kernel)} is for sm{kernel.name.arch}, which is not old on sm{case.architecture}"
    # No more than the kernel took.
    ns = min(layer.lost_ns or 0, round(layer.measured_ns * kernel.share))
    if not explains(case, layer, ns):
        return too_little(case, layer, ns)
    return Loss(
        min(ns, winnable_ns(layer)),
        f"{shown(kernel.match.kernel)} is written for sm{kernel.name.arch} and runs on sm{case.architecture}; "
        f"it multiplies on the CUDA cores ('{kernel.name.evidence}' in its name), where the tensor cores take "
        f"{dtype}{' as TF32' if dtype == 'fp32' else ''}; {beside_roof(case, layer)}{down_to(layer)}",
        _remedy(case, layer, kernel),
        0.9,
    )


def _remedy(case: Case, layer: LayerResult, kernel: MainKernel) -> str:
    product = product_of(layer)
    if kernel.name.op == "gemv" or (product is not None and product.thin <= case.thresholds.skinny):
        return thin(case, layer, product)
    padded = pad(product, aligned(product_dtype(layer))) if product is not None and product.suits_tensor_cores else ""
    half = half_precision(layer)
    steps = (f"{padded}, so that newer kernels fit" if padded else "", half and f"{half}, which only they take")
    return "; ".join(filter(None, (*steps, more_kernels(case), "then a hand-written kernel")))
