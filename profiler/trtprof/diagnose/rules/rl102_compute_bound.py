"""A compute-bound layer far under the arithmetic peak of the device.

What:
    The roofline says that arithmetic bounds the layer, yet it takes more than twice the time in
    which the device does that arithmetic; and it is slower than nine of ten library kernels that do the same, where
    those were measured. What is claimed is then what lies above the fastest tenth of them.

Why:
    Few or odd channels leave vector lanes or tensor cores empty; the tiles of the kernel (their size is in its name)
    are fewer than the SMs, or leave most of them idle in the last round; a depthwise or grouped convolution has
    little reuse; a recurrent layer runs one thin product a step; the batch is too small for all threads or
    multiprocessors; special functions (exp, erf, tanh) come from a scalar library.

Try:
    Pad channels that do not fill the vector width (on tensor cores 8 of fp16 or 16 of int8), let the builder try
    smaller tiles and split-k, raise the batch, merge parallel products into one, use the runtime's fused op where
    there is one, or another op with a better kernel (a product for a convolution of one point, a convolution for a
    transposed one, a product for a power); leave the first convolution of a quantised
    model unquantised. A hand-written kernel is the last step.
"""

from __future__ import annotations

from trtprof.base.op_kinds import op_kind
from trtprof.base.plan_words import FULL
from trtprof.base.records import LayerResult
from trtprof.base.units import format_flops, format_ns, format_percent, format_rate
from trtprof.diagnose import Case, Loss, layer_rule
from trtprof.diagnose.libraries import down_to, winnable_ns
from trtprof.diagnose.products import multiplies, product_dtype, product_of
from trtprof.diagnose.reasons import not_far
from trtprof.diagnose.remedies import Tiles, more_blocks, more_kernels, pad, step_of, tiles_of, unquantised


@layer_rule("RL102", "compute-bound op far under peak", order=60, thresholds=("efficiency", "of_datasheet", "tail"))
def judge(case: Case, layer: LayerResult) -> Loss | str:
    """A layer bound by arithmetic whose efficiency is under the threshold."""
    if (why := not_far(case, layer, "tensor", "vector", "sfu")) is not None:
        return why
    cut = tiles_of(case, layer)
    tiled = f"; {cut.words}" if cut is not None and _unfilled(case, cut) else ""
    evidence = f"{_evidence(layer, case)}{case.tactic(layer)}{tiled}{down_to(layer)}"
    return Loss(winnable_ns(layer), evidence, _remedy(layer, case, bool(tiled)), 0.7)


def _unfilled(case: Case, cut: Tiles) -> bool:
    """Whether tiles leave SMs without work: fewer than there are, or too few in the last round."""
    return cut.blocks < cut.sms or cut.idle >= case.thresholds.tail


def _evidence(layer: LayerResult, case: Case) -> str:
    measured, flops = layer.measured_ns, layer.flops or 0
    share = format_percent((layer.attainable_ns or 0) / measured)
    if layer.bound == "sfu" and layer.work is not None:
        counts = ", ".join(f"{count:,} {name}" for name, count in sorted(layer.work.special.items()))
        return f"{counts} in {format_ns(measured)}, {share} of the rate of special functions {case.peaks_from}"
    unit = "" if layer.bound == "tensor" else "vector "
    return (
        f"{format_flops(flops)} in {format_ns(measured)} is {format_rate(flops / measured * 1e9, 'FLOP/s')}, "
        f"{share} of the {layer.dtype} {unit}peak {case.peaks_from}"
    )


def _remedy(layer: LayerResult, case: Case, unfilled: bool) -> str:
    if layer.bound == "sfu":
        narrower = ", or a lower precision" if layer.dtype in FULL else ""
        return f"special functions dominate: use a fused or approximate form (FastGelu, a table){narrower}"
    op = case.engine[layer.name].op
    kind = op_kind(op.op_type)
    product, dtype = product_of(layer), product_dtype(layer)
    group = op.attributes.get("group", 1)
    if kind == "convolution" and isinstance(group, int) and group > 1:
        return "a grouped or depthwise convolution has little reuse: merge it with the pointwise one, or widen groups"
    if kind == "recurrent":
        return "each step is one thin product: batch more sequences together, or split the input product off"
    if case.gpu and (alone := unquantised(product, dtype)):
        return alone
    if kind == "convolution" and (padded := pad(product, step_of(case, dtype))):
        return f"{padded} for {'the tensor cores' if case.gpu else 'whole vectors'}, or raise the batch"
    if unfilled:
        return f"{more_blocks(case, layer)}; {more_kernels(case)}"
    if kind == "convolution":
        return f"raise the batch, or try {more_kernels(case)}" if case.gpu else "raise the batch"
    if op.op_type == "STFT":
        return "write it as a convolution with the window's cosines and sines, which runs as one product"
    return "raise the batch, or merge products that share an input" if multiplies(layer) else "raise the batch"
