"""A depthwise convolution in a layout or a kernel that does not suit it.

What:
    Each output channel of the convolution reads one input channel (as many groups as channels), and the layer is far
    from its roofline, and slower than nine of ten library kernels that do the same where those were measured: what is
    claimed is then what lies above the fastest tenth of them. Its tensors lie channel by channel (NCHW), or its kernel
    is one for other convolutions.

Why:
    There is nothing to sum over but the window, so bandwidth bounds it and matrix units have nothing to do: an
    implicit-GEMM kernel pads each group of one channel to a tile of many. With NCHW a vector of channels cannot be
    loaded at once, and neighbours in channels-last layouts need a reformat on either side.

Try:
    fp16 with channels last and a multiple of 8 channels, which kernels for depthwise convolutions want (--fp16);
    merge it with the pointwise convolution next to it where the model allows; then a hand-written kernel, which is
    short: it streams the tensor once and keeps the window in registers.
"""

from __future__ import annotations

from trtprof.base.plan_words import layout, main_tensors
from trtprof.base.records import LayerResult
from trtprof.diagnose import Case, Loss, layer_rule
from trtprof.diagnose.libraries import down_to, winnable_ns
from trtprof.diagnose.products import UNIT_WORDS, Product, beside_roof, main_kernel, no_product, product_of, shown
from trtprof.diagnose.reasons import not_slow
from trtprof.diagnose.remedies import half_precision


@layer_rule(
    "DW805",
    "depthwise convolution in a layout or kernel that does not suit it",
    order=28,
    thresholds=("efficiency", "of_datasheet"),
)
def judge(case: Case, layer: LayerResult) -> Loss | str:
    """A depthwise convolution far from its roofline with a layout or kernel to blame."""
    if why := no_product(case, layer) or not_slow(case, layer):
        return why
    product = product_of(layer)
    if product is None or not product.depthwise:
        return "it is no depthwise convolution" + ("" if product is None else f", but {product.words}")
    reasons = []
    matched = case.plan.get(layer.name)
    tensors = main_tensors(matched.layer) if matched is not None else None
    if tensors is not None and layout(tensors[0]) == "Linear":
        reasons.append(f"its tensors lie channel by channel ({tensors[0].dtype} NCHW)")
    kernel = main_kernel(case, layer)
    if kernel is not None and not reasons and "nchw" in (kernel.name.layout or ""):
        reasons.append(f"the layout of {shown(kernel.match.kernel)} is NCHW")
    if kernel is not None and "depthwise" not in kernel.name.ops:
        unit = UNIT_WORDS[kernel.name.unit]
        reasons.append(f"{shown(kernel.match.kernel)} is no kernel for depthwise convolutions, on {unit}")
    if not reasons:
        return "neither its layout nor its kernel is known to be a bad one"
    evidence = f"{product.batch:,} groups of one channel; {' and '.join(reasons)}; {beside_roof(case, layer)}"
    evidence += down_to(layer)
    last = tensors is not None and layout(tensors[0]).startswith(("NHWC", "NDHWC"))
    return Loss(winnable_ns(layer), evidence, _remedy(layer, product, channels_last=last), 0.7)


def _remedy(layer: LayerResult, product: Product, *, channels_last: bool) -> str:
    """What kernels for depthwise convolutions want and this one has not, then what takes more work."""
    wanted = [
        half_precision(layer),
        "" if channels_last else "channels last",
        "a multiple of 8 channels" if product.batch % 8 else "",
    ]
    merge = "merge it with the pointwise convolution next to it"
    steps = ", or ".join(filter(None, (" and ".join(filter(None, wanted)), merge)))
    return f"{steps}; then a hand-written kernel that streams the tensor once"
